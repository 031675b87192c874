//! A line a person typed, as what it asks for.

use crate::proto::command::Command;
use crate::proto::ident::ModelSpec;

/// What a line asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Typed {
    Send(Command),
    /// What is allowed now?
    ShowPolicy,
    Help,
    Quit,
    /// An empty line.
    Nothing,
}

/// Reads one line. A verdict that names no call is about the one in `parked`, if it is one. The error
/// is a sentence for who typed it.
pub(super) fn read(line: &str, parked: &[String]) -> Result<Typed, &'static str> {
    let line = line.trim_end_matches(['\r', '\n']);
    let Some(command) = line.strip_prefix('/') else {
        let inject = || Command::Inject { text: line.to_owned(), wake: true };
        return Ok(if line.trim().is_empty() { Typed::Nothing } else { Typed::Send(inject()) });
    };
    if command.starts_with('/') {
        return Ok(Typed::Send(Command::Inject { text: command.to_owned(), wake: true }));
    }
    let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    let rest = rest.trim();
    Ok(match name {
        "steer" if rest.is_empty() => return Err("what is the hint? /steer TEXT"),
        "steer" => Typed::Send(Command::Inject { text: rest.to_owned(), wake: false }),
        "cancel" => Typed::Send(Command::Cancel { reason: non_empty(rest) }),
        "approve" if rest.is_empty() => Typed::Send(Command::Approve { call_id: only(parked)? }),
        "approve" => Typed::Send(Command::Approve { call_id: rest.to_owned() }),
        "deny" if rest.is_empty() => {
            Typed::Send(Command::Deny { call_id: only(parked)?, reason: None })
        }
        "deny" => {
            let (call_id, reason) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let (call_id, reason) = (call_id.to_owned(), non_empty(reason));
            Typed::Send(Command::Deny { call_id, reason })
        }
        "model" => {
            const SHAPE: &str = "expected /model ROLE PROVIDER/MODEL";
            let (role, model) = rest.split_once(char::is_whitespace).ok_or(SHAPE)?;
            let model = ModelSpec::parse(model.trim()).ok_or(SHAPE)?;
            Typed::Send(Command::SetModel { role: role.to_owned(), model })
        }
        // An empty list stops every tool: that is not asked for by leaving something out.
        "policy" if rest.is_empty() => Typed::ShowPolicy,
        "policy" if rest == NO_PATTERN => Typed::Send(Command::SetPolicy { patterns: Vec::new() }),
        "policy" => {
            let patterns = rest.split_whitespace().map(str::to_owned).collect();
            Typed::Send(Command::SetPolicy { patterns })
        }
        "quit" => Typed::Quit,
        "help" => Typed::Help,
        _ => {
            return Err(
                "no such command: /help lists them; to say a text that begins with / type //",
            );
        }
    })
}

/// What `/help` shows.
pub(super) const HELP: &str = "\
TEXT wakes the agent. /steer TEXT  /cancel [REASON]  /approve [ID]  /deny [ID [REASON]]
/model ROLE PROVIDER/MODEL  /policy [GLOB...]  /quit  //TEXT says /TEXT
";

/// Stands for the empty list of patterns.
pub(super) const NO_PATTERN: &str = "--none";

fn only(parked: &[String]) -> Result<String, &'static str> {
    match parked {
        [call_id] => Ok(call_id.clone()),
        [] => Err("no tool call waits for a verdict"),
        _ => Err(
            "several tool calls wait for a verdict: which one? /approve ID or /deny ID [REASON]",
        ),
    }
}

fn non_empty(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_ask_for_commands() {
        let inject = |text: &str, wake| Typed::Send(Command::Inject { text: text.into(), wake });
        let cancel = |reason: Option<&str>| {
            Typed::Send(Command::Cancel { reason: reason.map(str::to_owned) })
        };
        let deny = |call_id: &str, reason: Option<&str>| {
            let (call_id, reason) = (call_id.to_owned(), reason.map(str::to_owned));
            Typed::Send(Command::Deny { call_id, reason })
        };
        let policy = |patterns: &[&str]| {
            let patterns = patterns.iter().map(|&glob| glob.to_owned()).collect();
            Typed::Send(Command::SetPolicy { patterns })
        };
        for (line, typed) in [
            ("hello there\n", inject("hello there", true)),
            ("  indented", inject("  indented", true)),
            ("", Typed::Nothing),
            (" \r\n", Typed::Nothing),
            ("//etc/passwd", inject("/etc/passwd", true)),
            ("/steer  in short ", inject("in short", false)),
            ("/cancel", cancel(None)),
            ("/cancel too slow", cancel(Some("too slow"))),
            ("/approve c1", Typed::Send(Command::Approve { call_id: "c1".into() })),
            ("/approve", Typed::Send(Command::Approve { call_id: "c9".into() })),
            ("/deny c1", deny("c1", None)),
            ("/deny ", deny("c9", None)),
            ("/deny c1 not now", deny("c1", Some("not now"))),
            (
                "/model main openrouter/openai/gpt-5",
                Typed::Send(Command::SetModel {
                    role: "main".into(),
                    model: ModelSpec::parse("openrouter/openai/gpt-5").unwrap(),
                }),
            ),
            ("/policy", Typed::ShowPolicy),
            ("/policy  \n", Typed::ShowPolicy),
            ("/policy --none", policy(&[])),
            ("/policy get_* read", policy(&["get_*", "read"])),
            ("/quit", Typed::Quit),
            ("/help", Typed::Help),
        ] {
            assert_eq!(read(line, &["c9".into()]), Ok(typed), "{line}");
        }
    }

    #[test]
    fn lines_that_ask_for_nothing_are_told_why() {
        for line in
            ["/", "/exit", "/steer", "/approve", "/deny ", "/model", "/model main", "/model main x"]
        {
            assert!(read(line, &[]).is_err(), "{line}");
        }
        let several = ["c1".to_owned(), "c2".to_owned()];
        for line in ["/approve", "/deny"] {
            assert!(read(line, &several).is_err(), "{line}");
        }
    }
}
