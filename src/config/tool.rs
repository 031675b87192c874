//! The definitions under `tools`: programs a model may call.
//!
//! Plain values. Knows neither how a program is run nor when a call is let through.

use std::path::PathBuf;

use super::Surroundings;
use super::node::Node;
use super::secret::Secret;
use crate::limits::{TOOL_NAME_CHARS_MAX, TOOL_OUTPUT_BYTES_MAX, WAIT_S_MAX};
use crate::proto::json::Kind;

/// One tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolConfig {
    /// What the model calls it by.
    pub name: String,
    /// What the model reads about it.
    pub description: String,
    /// The JSON Schema of its arguments: the text of a JSON object.
    pub params: Box<str>,
    /// The program and its arguments; never empty.
    pub command: Vec<String>,
    /// Whether it changes anything outside.
    pub mutating: bool,
    /// When a human is asked before it runs.
    pub approval: ApprovalNeed,
    /// Whether it may run beside its neighbours in a batch.
    pub concurrency: Concurrency,
    /// Seconds until its process group is ended.
    pub timeout_s: u64,
    /// Bytes of standard output that become its result.
    pub max_output_bytes: usize,
    /// The directory it runs in; none means the server's.
    pub cwd: Option<PathBuf>,
    /// Its environment, beside what every tool gets.
    pub env: Vec<(String, Secret)>,
}

impl ToolConfig {
    /// A tool with every default.
    pub fn new(name: &str, command: Vec<String>) -> ToolConfig {
        ToolConfig {
            name: name.to_owned(),
            description: String::new(),
            params: r#"{"type":"object","properties":{}}"#.into(),
            command,
            mutating: false,
            approval: ApprovalNeed::Never,
            concurrency: Concurrency::Serial,
            timeout_s: 120,
            max_output_bytes: 65536,
            cwd: None,
            env: Vec::new(),
        }
    }
}

/// When a human is asked before a tool runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalNeed {
    /// Never.
    Never,
    /// When the tool is mutating.
    Policy,
    /// Always.
    Always,
}

/// Whether a tool may run beside its neighbours in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concurrency {
    /// One after the other.
    Serial,
    /// Beside adjacent calls that are parallel too.
    Parallel,
}

impl ToolConfig {
    pub(super) fn read(node: &Node<'_>, around: &Surroundings<'_>) -> Option<ToolConfig> {
        let mut fields = node.fields()?;
        let name = fields.required("name").and_then(|node| node.parsed(NAME, read_name));
        let command = fields.required("command").and_then(|node| read_command(&node));
        let complete = name.is_some() && command.is_some();
        let mut tool = ToolConfig::new(&name.unwrap_or_default(), command.unwrap_or_default());
        fields.set("description", &mut tool.description, Node::string);
        fields.set("params", &mut tool.params, |node| {
            if node.kind() == Kind::Object {
                return node.checked_json();
            }
            node.problem("expected an object: the JSON Schema of the arguments");
            None
        });
        fields.set("mutating", &mut tool.mutating, Node::boolean);
        fields.set("approval", &mut tool.approval, |node| {
            node.one_of(&[
                ("never", ApprovalNeed::Never),
                ("policy", ApprovalNeed::Policy),
                ("always", ApprovalNeed::Always),
            ])
        });
        fields.set("concurrency", &mut tool.concurrency, |node| {
            node.one_of(&[("serial", Concurrency::Serial), ("parallel", Concurrency::Parallel)])
        });
        fields.set("timeout_s", &mut tool.timeout_s, |node| node.whole(1..=WAIT_S_MAX));
        fields.set("max_output_bytes", &mut tool.max_output_bytes, |node| {
            node.whole(1..=TOOL_OUTPUT_BYTES_MAX)
        });
        fields.set_nullable("cwd", &mut tool.cwd, |node| {
            node.parsed("a directory", |text| is_argument(text).then(|| around.base_dir.join(text)))
        });
        fields.set("env", &mut tool.env, read_env);
        fields.finish();
        complete.then_some(tool)
    }
}

const NAME: &str = "a name of 1 to 128 characters without spaces";

fn read_name(text: &str) -> Option<String> {
    is_tool_name(text).then(|| text.to_owned())
}

/// Whether a tool may have this name.
pub fn is_tool_name(text: &str) -> bool {
    let fits = (1..=TOOL_NAME_CHARS_MAX).contains(&text.chars().count());
    fits && !text.chars().any(|c| c.is_control() || c.is_whitespace())
}

fn read_command(node: &Node<'_>) -> Option<Vec<String>> {
    let command = node.list(|item| {
        item.parsed("a string without NUL", |text| is_argument(text).then(|| text.to_owned()))
    })?;
    if command.first().is_none_or(String::is_empty) {
        node.problem("expected a program and its arguments");
        return None;
    }
    Some(command)
}

fn read_env(node: &Node<'_>) -> Option<Vec<(String, Secret)>> {
    let mut env = Vec::new();
    for (name, value) in node.entries()? {
        if name.is_empty() || name.contains(['=', '\0']) {
            value.problem("the key is not the name of an environment variable");
        } else if let Some(text) =
            value.parsed("a string without NUL", |text| is_argument(text).then(|| text.to_owned()))
        {
            env.push((name, Secret::new(&text)));
        }
    }
    Some(env)
}

fn is_argument(text: &str) -> bool {
    !text.contains('\0')
}
