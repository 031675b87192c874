//! Tools: what a model may call, and how each of them runs.
//!
//! A [`Registry`] says of every tool what the model is told ([`ToolSpec`]), what the turn machine goes
//! by ([`ToolTraits`]) and what runs ([`Runs`]): a configured program, or code of the embedding program.
//! Which calls are let through is decided in `agent`; processes are started in `work` and watched in
//! `net`. What of a process becomes a call's result is here: [`output`] bounds its streams while they
//! are read, [`ending`] says what its end means.
//!
//! Invariant: the three views name the same tools.

pub mod closure;
pub mod ending;
pub mod output;

use crate::agent::{Approval, Concurrency, ToolTraits};
use crate::config;
use crate::model::ToolSpec;
use std::collections::BTreeMap;
use std::sync::Arc;

pub use crate::config::ToolConfig;
pub use closure::{ClosureTool, Tool, ToolCall};

/// Every tool of a deployment. Replaced as a whole on reload.
#[derive(Clone, Default)]
pub struct Registry {
    own: Vec<ClosureTool>,
    specs: Vec<ToolSpec>,
    tools: BTreeMap<String, (ToolTraits, Runs)>,
}

/// What runs when a tool is called.
#[derive(Clone)]
pub enum Runs {
    /// A program.
    Command(Arc<ToolConfig>),
    /// Code of the embedding program.
    Closure(Arc<dyn Tool>),
}

impl Registry {
    /// The configured tools, then those of the embedding program. A configured tool takes the place
    /// of one of the same name: what an operator writes down wins.
    pub fn new(configured: &[ToolConfig], own: Vec<ClosureTool>) -> Self {
        let mut registry = Self { own: Vec::new(), ..Self::default() };
        for tool in configured {
            let spec = ToolSpec {
                name: tool.name.clone(),
                description: tool.description.clone(),
                params: tool.params.clone(),
            };
            registry.add(spec, traits(tool), Runs::Command(Arc::new(tool.clone())));
        }
        for tool in &own {
            registry.add(tool.spec.clone(), tool.traits, Runs::Closure(Arc::clone(&tool.tool)));
        }
        registry.own = own;
        registry
    }

    /// These configured tools in place of the present ones, beside the same closures.
    #[must_use]
    pub fn reloaded(&self, configured: &[ToolConfig]) -> Self {
        Self::new(configured, self.own.clone())
    }

    /// What a model is told, in the order in which the tools were given.
    pub fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// What the turn machine goes by, by name.
    pub fn traits(&self) -> BTreeMap<String, ToolTraits> {
        self.tools.iter().map(|(name, (traits, _))| (name.clone(), *traits)).collect()
    }

    /// What runs when `name` is called.
    pub fn runs(&self, name: &str) -> Option<&Runs> {
        self.tools.get(name).map(|(_, runs)| runs)
    }

    fn add(&mut self, spec: ToolSpec, traits: ToolTraits, runs: Runs) {
        if !self.tools.contains_key(&spec.name) {
            self.tools.insert(spec.name.clone(), (traits, runs));
            self.specs.push(spec);
        }
    }
}

fn traits(tool: &ToolConfig) -> ToolTraits {
    ToolTraits {
        mutating: tool.mutating,
        approval: match tool.approval {
            config::ApprovalNeed::Never => Approval::Never,
            config::ApprovalNeed::Policy => Approval::Policy,
            config::ApprovalNeed::Always => Approval::Always,
        },
        concurrency: match tool.concurrency {
            config::Concurrency::Serial => Concurrency::Serial,
            config::Concurrency::Parallel => Concurrency::Parallel,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ApprovalNeed;
    use crate::proto::payload::Content;

    fn closure(name: &str) -> ClosureTool {
        ClosureTool::new(name, |_: &ToolCall<'_>| Ok(Content::text("own"))).parallel()
    }

    #[test]
    fn every_tool_has_one_spec_one_set_of_traits_and_one_thing_that_runs() {
        let mut program = ToolConfig::new("program", vec!["true".into()]);
        program.mutating = true;
        program.approval = ApprovalNeed::Policy;
        let both = ToolConfig::new("both", vec!["true".into()]);
        let own = vec![closure("both"), closure("own"), closure("own")];
        let registry = Registry::new(&[program.clone(), both], own);
        let names: Vec<&str> = registry.specs().iter().map(|spec| &*spec.name).collect();
        assert_eq!(names, ["program", "both", "own"]);
        assert_eq!(registry.traits().keys().collect::<Vec<_>>(), ["both", "own", "program"]);
        let traits = &registry.traits()["program"];
        assert_eq!((traits.mutating, traits.approval), (true, Approval::Policy));
        assert_eq!(registry.traits()["own"].concurrency, Concurrency::Parallel);
        assert!(matches!(registry.runs("both"), Some(Runs::Command(_))));
        assert!(matches!(registry.runs("own"), Some(Runs::Closure(_))));
        assert!(registry.runs("other").is_none());
    }

    #[test]
    fn a_reload_changes_programs_and_keeps_closures() {
        let first = ToolConfig::new("own", vec!["true".into()]);
        let before = Registry::new(&[first], vec![closure("own")]);
        assert!(matches!(before.runs("own"), Some(Runs::Command(_))));
        let after = before.reloaded(&[ToolConfig::new("new", vec!["true".into()])]);
        assert!(matches!(after.runs("own"), Some(Runs::Closure(_))));
        assert!(matches!(after.runs("new"), Some(Runs::Command(_))));
    }
}
