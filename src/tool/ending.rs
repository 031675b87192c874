//! What the end of a tool's process means for its call (design/interface, "Tools").

use super::output::{Head, Tail};
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
/// quotes the end of what it had to say.
pub fn outcome(tool: &str, ending: Ending, output: Head, errors: Tail) -> Outcome {
    let how = match ending {
        Ending::Exited(0) => return Ok(Content::text(&output.into_text())),
        Ending::Exited(status) => format!("{tool} exited with status {status}"),
        Ending::Killed(signal) => format!("{tool} was killed by signal {signal}"),
        Ending::TimedOut(seconds) => format!("{tool} timed out after {seconds} s"),
        Ending::Unknown => format!("{tool} ended and its status was lost"),
    };
    let errors = errors.into_text();
    Err(if errors.is_empty() { how } else { format!("{how}: {errors}") })
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let outcome = outcome("t", ending, head, tail);
            let shown = outcome.as_ref().map(Content::as_json).map_err(String::as_str);
            assert_eq!(shown, outcome_is, "{ending:?}");
        }
    }
}
