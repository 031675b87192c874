//! Tools that are small shell scripts, and a model that calls them as the test says.
//!
//! They run in the server's folder, so scripts and tests meet there: in a file that holds a process
//! number, or at a named pipe where one waits for the other.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::client::Event;
use super::{Server, eventually, scripted, server};

/// A tool that is a shell script; the keys of `more` are laid over its definition.
pub(crate) fn tool(name: &str, script: &str, more: &Value) -> Value {
    let mut tool = json!({"name": name, "command": ["sh", "-c", script]});
    tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    tool
}

/// One call of each of these tools, as a script's step; a tool's name is its call's id.
pub(crate) fn calls(names: &[&str]) -> Value {
    let call = |name: &&str| json!({"id": name, "name": name, "args": {}});
    json!({"tool_calls": names.iter().map(call).collect::<Vec<_>>()})
}

/// A config with these tools, all allowed, whose model makes `step` and then has no more to say, turn
/// by turn.
pub(crate) fn calling(tools: &[Value], step: &Value) -> Value {
    let mut config = scripted(&json!([step, {"text": "done"}]));
    config["tools"] = json!(tools);
    config["policy"] = json!(["*"]);
    config
}

/// The outcome of the call with this id: its content, or its error.
pub(crate) fn outcome<'a>(turn: &'a [Event], id: &str) -> Result<&'a str, &'a str> {
    let of_call = |event: &&Event| event.kind == "tool/result" && event.payload["id"] == id;
    let mut results = turn.iter().filter(of_call);
    let result = results.next().unwrap_or_else(|| panic!("no result of {id}: {turn:#?}"));
    assert!(results.next().is_none(), "two results of {id}: {turn:#?}");
    match (&result.payload["content"], &result.payload["error"]) {
        (Value::String(content), Value::Null) => Ok(content),
        (Value::Null, Value::String(error)) => Err(error),
        _ => panic!("one of content and error is a string, the other null: {result:?}"),
    }
}

/// Makes a named pipe in the server's folder, at which a script waits for the test or another script.
pub(crate) fn gate(folder: &Path, name: &str) {
    let status = Command::new("mkfifo").arg(folder.join(name)).status().unwrap();
    assert!(status.success());
}

/// Lets the script go on that waits at a named pipe; waits until it is there.
pub(crate) fn open_gate(folder: &Path, name: &str) {
    fs::write(folder.join(name), "go\n").unwrap();
}

/// The process number that a script has written to a file, once it is there.
pub(crate) fn number_in(folder: &Path, name: &str) -> u32 {
    eventually("a process number in a file", || {
        let text = fs::read_to_string(folder.join(name)).ok()?;
        text.strip_suffix('\n')?.parse().ok()
    })
}

/// Whether a process runs; one that has ended and was not waited for does not.
pub(crate) fn runs(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().unwrap().starts_with(['Z', 'X']))
}

/// Waits until a process has ended.
pub(crate) fn expect_ended(process: u32) {
    eventually(&format!("the end of process {process}"), || (!runs(process)).then_some(()));
}

/// Ends a process that a server leaves alone on purpose.
pub(crate) fn end(process: u32) {
    server::signal(process, "KILL");
    expect_ended(process);
}

impl Server {
    /// What children the server has now, zombies included.
    pub(crate) fn children(&self) -> Vec<u32> {
        let mut children = Vec::new();
        for task in fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap() {
            let list =
                fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default();
            children.extend(list.split_whitespace().map(|child| child.parse::<u32>().unwrap()));
        }
        children
    }

    /// How many descriptors the server has open.
    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    /// How many process groups the server has on record.
    pub(crate) fn records(&self) -> usize {
        let own = self.data_dir().join("running").join(self.pid().to_string());
        fs::read_dir(own).map_or(0, Iterator::count)
    }
}
