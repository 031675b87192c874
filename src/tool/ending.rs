//! What the end of a tool's process means for its call (design/interface, "Tools").

use super::output::{Head, Tail};
use crate::config::ToolConfig;
use crate::model::secrets::Secrets;
use crate::proto::payload::{Content, Outcome};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With this status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// It ran longer than this many seconds, and was ended; however it took that.
    TimedOut(u64),
    /// Somebody else in this process took its status, so nobody knows.
    Unknown,
}

/// The result of a call to `tool` whose process ended so: its output, or an error that names it and
/// quotes the end of what it had to say, but for what stands in its configured environment.
pub fn outcome(tool: &ToolConfig, ending: Ending, output: Head, errors: Tail) -> Outcome {
    let name = &tool.name;
    let how = match ending {
        Ending::Exited(0) => return Ok(Content::text(&output.into_text())),
        Ending::Exited(status) => format!("{name} exited with status {status}"),
        Ending::Killed(signal) => format!("{name} was killed by signal {signal}"),
        Ending::TimedOut(seconds) => format!("{name} timed out after {seconds} s"),
        Ending::Unknown => format!("{name} ended and its status was lost"),
    };
    let errors = errors.into_text(&secrets_of(tool));
    Err(if errors.is_empty() { how } else { format!("{how}: {errors}") })
}

/// A configured environment is where a program's keys stand. Its short values are no keys, and would be
/// found all over a text.
fn secrets_of(tool: &ToolConfig) -> Secrets {
    let mut secrets = Secrets::default();
    let values = tool.env.iter().map(|(_, value)| value.expose());
    values.filter(|value| value.len() >= SECRET_BYTES_MIN).for_each(|value| secrets.add(value));
    secrets
}

const SECRET_BYTES_MIN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;

    #[test]
    fn only_a_status_of_zero_makes_content_and_everything_else_names_the_tool() {
        for (ending, errors, outcome_is) in [
            (Ending::Exited(0), "noise", Ok("\"out\\n\"")),
            (Ending::Exited(3), "", Err("t exited with status 3")),
            (Ending::Exited(3), "no such city\n", Err("t exited with status 3: no such city")),
            (Ending::Killed(9), "", Err("t was killed by signal 9")),
            (Ending::TimedOut(5), "slow", Err("t timed out after 5 s: slow")),
            (Ending::Unknown, "", Err("t ended and its status was lost")),
        ] {
            let (mut head, mut tail) = (Head::new(100), Tail::new(100));
            head.push(b"out\n");
            tail.push(errors.as_bytes());
            let tool = ToolConfig::new("t", vec!["program".into()]);
            let outcome = outcome(&tool, ending, head, tail);
            let shown = outcome.as_ref().map(Content::as_json).map_err(String::as_str);
            assert_eq!(shown, outcome_is, "{ending:?}");
        }
    }

    #[test]
    fn an_error_quotes_nothing_of_the_configured_environment_but_what_is_short() {
        let mut tool = ToolConfig::new("t", vec!["program".into()]);
        tool.env = [("KEY", "sk-canary"), ("LEVEL", "1"), ("ZONE", "Germany")]
            .map(|(name, value)| (name.to_owned(), Secret::new(value)))
            .into();
        for (errors, quoted) in [
            ("bad key sk-canary in Germany", "bad key [REDACTED] in Germany"),
            // The first of these is cut in its middle.
            ("sk-canary, 1, and: sk-canary", "...[REDACTED], 1, and: [REDACTED]"),
        ] {
            let mut tail = Tail::new(if errors.starts_with("sk") { 25 } else { 100 });
            tail.push(errors.as_bytes());
            let error = outcome(&tool, Ending::Exited(1), Head::new(0), tail).unwrap_err();
            assert_eq!(error, format!("t exited with status 1: {quoted}"));
        }
    }
}
