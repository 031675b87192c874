//! Tools that are code of the embedding program.
//!
//! A call may block as long as it likes: it runs on the worker pool, never on its last free worker,
//! and a stopping server does not wait for it. A panic is that call's error and nobody else's.
//! A call runs at least once: one whose result did not reach the log before the process died runs again
//! when its turn is resumed.
//!
//! ```
//! use terret_ws::proto::payload::Content;
//! use terret_ws::tool::{ClosureTool, ToolCall};
//!
//! let clock = ClosureTool::new("clock", |_call: &ToolCall<'_>| Ok(Content::text("half past nine")))
//!     .description("Tells the time.")
//!     .parallel();
//! # let _ = clock;
//! ```

use crate::agent::{Approval, Concurrency, ToolTraits};
use crate::config::is_tool_name;
use crate::model::ToolSpec;
use crate::proto::ident::SessionId;
use crate::proto::json;
use crate::proto::payload::Content;
use std::fmt;
use std::sync::Arc;

/// One call as its tool sees it.
#[derive(Clone, Copy, Debug)]
pub struct ToolCall<'a> {
    /// Whose turn it belongs to.
    pub session: &'a SessionId,
    /// The provider's id of the call; need not be unique.
    pub call_id: &'a str,
    /// The arguments exactly as the model wrote them: the text of a JSON object.
    pub args: &'a str,
}

/// Code that answers calls.
pub trait Tool: Send + Sync {
    /// Runs one call. The error is what the model gets to read after `Error: `.
    fn call(&self, call: &ToolCall<'_>) -> Result<Content, String>;
}

impl<F> Tool for F
where
    F: Fn(&ToolCall<'_>) -> Result<Content, String> + Send + Sync,
{
    fn call(&self, call: &ToolCall<'_>) -> Result<Content, String> {
        self(call)
    }
}

/// A tool of the embedding program with its definition. Cheap to clone.
#[derive(Clone)]
pub struct ClosureTool {
    pub(super) spec: ToolSpec,
    pub(super) traits: ToolTraits,
    pub(super) tool: Arc<dyn Tool>,
}

impl ClosureTool {
    /// A tool that takes no arguments, changes nothing, asks nobody and runs alone.
    pub fn new(name: &str, tool: impl Tool + 'static) -> Self {
        let spec = ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            params: r#"{"type":"object","properties":{}}"#.into(),
        };
        Self { spec, traits: ToolTraits::default(), tool: Arc::new(tool) }
    }

    /// What the model reads about it.
    #[must_use]
    pub fn description(mut self, text: &str) -> Self {
        text.clone_into(&mut self.spec.description);
        self
    }

    /// The JSON Schema of its arguments: the text of a JSON object.
    #[must_use]
    pub fn params(mut self, schema: &str) -> Self {
        self.spec.params = schema.into();
        self
    }

    /// It changes something outside.
    #[must_use]
    pub fn mutating(mut self) -> Self {
        self.traits.mutating = true;
        self
    }

    /// When a human is asked before it runs.
    #[must_use]
    pub fn approval(mut self, approval: Approval) -> Self {
        self.traits.approval = approval;
        self
    }

    /// It may run beside its neighbours in a batch.
    #[must_use]
    pub fn parallel(mut self) -> Self {
        self.traits.concurrency = Concurrency::Parallel;
        self
    }

    /// The tool's name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// What is wrong with the definition, if anything is: the rules are those of configured tools.
    pub fn problem(&self) -> Option<&'static str> {
        let params = self.spec.params.as_bytes();
        if !is_tool_name(&self.spec.name) {
            Some("a name has 1 to 128 characters and no spaces")
        } else if json::check(params).is_err() || params.trim_ascii_start().first() != Some(&b'{') {
            Some("params are not the text of a JSON object")
        } else {
            None
        }
    }
}

impl fmt::Debug for ClosureTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The code itself may hold keys and need not be Debug.
        f.debug_struct("ClosureTool").field("spec", &self.spec).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_held_to_the_rules_of_configured_tools() {
        let tool = |name: &str, params: &str| {
            ClosureTool::new(name, |_: &ToolCall<'_>| Err("no".to_owned())).params(params)
        };
        for (name, params, fine) in [
            ("t", "{}", true),
            ("t", " {\"type\":\"object\"} ", true),
            ("", "{}", false),
            ("a b", "{}", false),
            ("t", "[]", false),
            ("t", "{", false),
            ("t", "", false),
            ("t", "{} {}", false),
        ] {
            assert_eq!(tool(name, params).problem().is_none(), fine, "{name:?} {params:?}");
        }
    }
}
