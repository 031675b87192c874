//! Where a conversation stands: what has been heard, what was said and is not in the log yet, and,
//! once nothing more will be typed, whether there is anything left to wait for.
//!
//! Pure. Knows neither the connection nor the terminal.
//!
//! Invariant: every event below `next_seq` (from the first wanted one on) has been heard once.

use crate::client::ServerFrame;
use crate::proto::command::Command;
use crate::proto::event::ErrorCode;
use crate::proto::payload::{Body, TurnStatus};

/// One conversation, across all its connections.
#[derive(Debug)]
pub(super) struct Talk {
    next_seq: u64,
    /// The log's last seq when this connection began: up to there it is history.
    history_end: Option<u64>,
    turn_open: bool,
    /// Ids of the parked calls that wait for a verdict, oldest first.
    parked: Vec<String>,
    awaited: Vec<Wait>,
    /// Counts the connections, from 1.
    connection: u32,
    said_anything: bool,
    refused: bool,
    last_end: Option<TurnStatus>,
}

/// A command that has been sent and has left no trace in the log yet.
#[derive(Debug)]
struct Wait {
    trace: Trace,
    /// The connection it was sent over. If that one is gone, so may be the command.
    connection: u32,
}

/// What the log will hold once the server has taken a command.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Trace {
    Text(String),
    Verdict(String),
    TurnEnd,
    Policy,
}

/// What a frame was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Something to show.
    News,
    /// The log's copy of a text that was said here.
    OwnText,
    /// An event that has been heard before.
    Repeated,
    /// After this error the server closes for good: coming back would be refused, or would evict
    /// whoever took over (cases.md, 29).
    LastWord(ErrorCode),
}

/// Why there is nothing left to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Everything was done.
    Done,
    /// Something was refused, or the turn failed; what it was has been shown.
    Failed,
    /// The turn waits for a verdict on this call, and nobody is left to give it.
    Parked(String),
}

impl Talk {
    pub(super) fn new(from_seq: u64) -> Talk {
        Talk {
            next_seq: from_seq,
            history_end: None,
            turn_open: false,
            parked: Vec::new(),
            awaited: Vec::new(),
            connection: 0,
            said_anything: false,
            refused: false,
            last_end: None,
        }
    }

    /// The first seq not heard yet: what to subscribe to.
    pub(super) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// A connection begins. False when the log is shorter than what has been heard: then it was
    /// restored from an older copy, and the talk goes on at its end.
    pub(super) fn connected(&mut self, last_seq: u64) -> bool {
        let tip = last_seq.saturating_add(1);
        let continues = self.history_end.is_none() || self.next_seq <= tip;
        // Who asks for more than there is wants what is new.
        self.next_seq = self.next_seq.min(tip);
        self.history_end = Some(last_seq);
        self.connection += 1;
        continues
    }

    /// A command has been sent.
    pub(super) fn said(&mut self, command: &Command) {
        self.said_anything = true;
        self.last_end = None;
        let trace = match command {
            Command::Inject { text, wake: true } => Some(Trace::Text(text.clone())),
            Command::Approve { call_id } | Command::Deny { call_id, .. } => {
                Some(Trace::Verdict(call_id.clone()))
            }
            Command::Cancel { .. } => Some(Trace::TurnEnd),
            Command::SetPolicy { .. } => Some(Trace::Policy),
            // A hint may wait for a turn that nobody starts; a role leaves no trace in the log.
            Command::Inject { wake: false, .. }
            | Command::SetModel { .. }
            | Command::Subscribe { .. } => None,
        };
        let connection = self.connection;
        self.awaited.extend(trace.map(|trace| Wait { trace, connection }));
    }

    pub(super) fn hear(&mut self, frame: &ServerFrame) -> Heard {
        match frame {
            ServerFrame::Event { seq, .. } if *seq < self.next_seq => Heard::Repeated,
            ServerFrame::Event { seq, body, .. } => {
                self.next_seq = seq + 1;
                body.as_ref().map_or(Heard::News, |body| self.event(body))
            }
            ServerFrame::Error { code, .. } => match ErrorCode::parse(code) {
                Some(code @ (ErrorCode::Unauthorized | ErrorCode::Superseded)) => {
                    Heard::LastWord(code)
                }
                code => {
                    self.refuse(code);
                    Heard::News
                }
            },
            ServerFrame::Hello { .. }
            | ServerFrame::ReplayTruncated { .. }
            | ServerFrame::Other => Heard::News,
        }
    }

    /// Whether something was said that is not in the log yet.
    pub(super) fn awaits(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Ids of the calls that wait for a verdict, oldest first.
    pub(super) fn parked(&self) -> &[String] {
        &self.parked
    }

    /// Whether all there was to hear has been heard, and nothing that was said is under way.
    pub(super) fn is_quiet(&self) -> bool {
        self.caught_up() && !self.turn_open && self.awaited.is_empty()
    }

    /// Whether anything is left to wait for once nothing more is typed; none while there is. Who
    /// has said nothing is a spectator and waits for ever.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        if !self.said_anything || !self.caught_up() {
            return None;
        }
        if !self.awaited.is_empty() {
            // The log has been read to its end and nothing runs: what an earlier connection took
            // with it will not come any more.
            let lost = self.awaited.iter().all(|wait| wait.connection < self.connection);
            return (lost && !self.turn_open).then_some(Outcome::Failed);
        }
        if let Some(call_id) = self.parked.first() {
            return Some(Outcome::Parked(call_id.clone()));
        }
        let bad_end = matches!(self.last_end, Some(TurnStatus::Failed | TurnStatus::Rejected));
        match (self.turn_open, self.refused || bad_end) {
            (true, _) => None,
            (false, true) => Some(Outcome::Failed),
            (false, false) => Some(Outcome::Done),
        }
    }

    fn caught_up(&self) -> bool {
        self.history_end.is_some_and(|last_seq| self.next_seq > last_seq)
    }

    fn event(&mut self, body: &Body) -> Heard {
        match body {
            Body::TurnStart { .. } | Body::StepStart { .. } => self.turn_open = true,
            Body::UserMessage { text } | Body::ContextInjected { text }
                if self.settle(&Trace::Text(text.clone())) =>
            {
                return Heard::OwnText;
            }
            Body::ApprovalRequested(call) => self.parked.push(call.id.clone()),
            Body::ApprovalResolved { call_id, .. } => {
                if let Some(index) = self.parked.iter().position(|id| id == call_id) {
                    self.parked.remove(index);
                }
                self.settle(&Trace::Verdict(call_id.clone()));
            }
            Body::PolicyUpdated { .. } => {
                self.settle(&Trace::Policy);
            }
            Body::TurnEnd { status, .. } => self.turn_end(*status),
            _ => {}
        }
        Heard::News
    }

    fn turn_end(&mut self, status: TurnStatus) {
        self.turn_open = false;
        self.parked.clear();
        self.last_end = Some(status);
        self.settle(&Trace::TurnEnd);
        if !matches!(status, TurnStatus::Completed) {
            // Texts that are still in the inbox wait for the next stimulus, which is not ours.
            let before = self.awaited.len();
            self.awaited.retain(|wait| !matches!(wait.trace, Trace::Text(_)));
            self.refused |= self.awaited.len() < before;
        }
    }

    /// An error frame names no command; the oldest one it can be about is taken.
    fn refuse(&mut self, code: Option<ErrorCode>) {
        let is_meant = |wait: &Wait| match code {
            Some(ErrorCode::NotRunning) => wait.trace == Trace::TurnEnd,
            Some(ErrorCode::StaleCall | ErrorCode::Unsupported) => {
                matches!(wait.trace, Trace::Verdict(_))
            }
            Some(ErrorCode::BadFrame) => true,
            _ => false,
        };
        self.refused = true;
        if let Some(index) = self.awaited.iter().position(is_meant) {
            self.awaited.remove(index);
        }
    }

    fn settle(&mut self, trace: &Trace) -> bool {
        let index = self.awaited.iter().position(|wait| wait.trace == *trace);
        if let Some(index) = index {
            self.awaited.remove(index);
        }
        index.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::payload::{Call, Verdict};

    /// A talk on a fresh session whose first event has been heard.
    fn talk() -> Talk {
        let mut talk = Talk::new(0);
        assert!(talk.connected(0));
        hear(&mut talk, &[Body::SessionCreated]);
        talk
    }

    fn hear(talk: &mut Talk, bodies: &[Body]) -> Vec<Heard> {
        bodies
            .iter()
            .map(|body| {
                let kind = body.kind().to_owned();
                let seq = talk.next_seq();
                talk.hear(&ServerFrame::Event { seq, kind, body: Some(body.clone()) })
            })
            .collect()
    }

    fn inject(text: &str, wake: bool) -> Command {
        Command::Inject { text: text.into(), wake }
    }

    fn user(text: &str) -> Body {
        Body::UserMessage { text: text.into() }
    }

    fn start() -> Body {
        Body::TurnStart { agent: "agent-s1".into() }
    }

    fn end(status: TurnStatus) -> Body {
        Body::TurnEnd { status, reason: None }
    }

    fn error(code: &str) -> ServerFrame {
        ServerFrame::Error { code: code.into(), message: String::new() }
    }

    #[test]
    fn a_text_is_done_when_its_turn_is_over() {
        let mut talk = talk();
        talk.said(&inject("hi", true));
        assert_eq!(talk.outcome(), None);
        assert_eq!(hear(&mut talk, &[start(), user("hi")]), [Heard::News, Heard::OwnText]);
        assert_eq!(talk.outcome(), None);
        hear(&mut talk, &[end(TurnStatus::Completed)]);
        assert_eq!(talk.outcome(), Some(Outcome::Done));
    }

    #[test]
    fn the_turn_that_counts_is_the_one_that_took_the_text() {
        let mut talk = talk();
        talk.said(&inject("b", true));
        hear(&mut talk, &[start(), user("a"), end(TurnStatus::Completed)]);
        assert_eq!(talk.outcome(), None);
        hear(&mut talk, &[start(), user("b"), end(TurnStatus::Failed)]);
        assert_eq!(talk.outcome(), Some(Outcome::Failed));
    }

    #[test]
    fn a_text_that_a_stopped_turn_leaves_in_the_inbox_is_not_waited_for() {
        let mut talk = talk();
        talk.said(&inject("a", true));
        talk.said(&inject("b", true));
        hear(&mut talk, &[start(), user("a"), end(TurnStatus::Cancelled)]);
        assert_eq!(talk.outcome(), Some(Outcome::Failed));
    }

    #[test]
    fn a_spectator_waits_for_ever() {
        let mut talk = talk();
        hear(&mut talk, &[start(), user("a"), end(TurnStatus::Completed)]);
        assert_eq!(talk.outcome(), None);
    }

    #[test]
    fn it_is_quiet_between_turns() {
        let mut talk = Talk::new(0);
        assert!(!talk.is_quiet(), "not connected");
        talk.connected(0);
        assert!(!talk.is_quiet(), "history is still to come");
        hear(&mut talk, &[Body::SessionCreated]);
        assert!(talk.is_quiet());
        talk.said(&inject("a", true));
        assert!(!talk.is_quiet(), "the text is on its way");
        hear(&mut talk, &[start(), user("a")]);
        assert!(!talk.is_quiet(), "the turn runs");
        hear(&mut talk, &[end(TurnStatus::Completed)]);
        assert!(talk.is_quiet());
    }

    #[test]
    fn history_is_heard_first() {
        let mut talk = Talk::new(0);
        talk.connected(2);
        talk.said(&inject("a", false));
        hear(&mut talk, &[Body::SessionCreated, start()]);
        assert_eq!(talk.outcome(), None, "the turn's end is history too");
        hear(&mut talk, &[end(TurnStatus::Completed)]);
        assert_eq!(talk.outcome(), Some(Outcome::Done));
    }

    #[test]
    fn a_parked_turn_with_nobody_left_to_decide() {
        let call = Call { id: "c1".into(), name: "t".into(), args: "{}".into() };
        let resolved = Body::ApprovalResolved {
            call_id: "c1".into(),
            verdict: Verdict::Approved,
            reason: None,
        };
        let mut talk = talk();
        talk.said(&inject("hi", true));
        hear(&mut talk, &[start(), user("hi"), Body::ApprovalRequested(call)]);
        assert_eq!(talk.outcome(), Some(Outcome::Parked("c1".into())));
        talk.said(&Command::Approve { call_id: "c1".into() });
        assert_eq!(talk.outcome(), None);
        hear(&mut talk, &[resolved, end(TurnStatus::Completed)]);
        assert_eq!(talk.outcome(), Some(Outcome::Done));
    }

    #[test]
    fn a_refusal_ends_the_wait_for_what_it_is_about() {
        for (command, code) in [
            (Command::Cancel { reason: None }, "not_running"),
            (Command::Approve { call_id: "c1".into() }, "stale_call"),
            (Command::Deny { call_id: "c1".into(), reason: None }, "unsupported"),
            (inject("a", true), "bad_frame"),
        ] {
            let mut talk = talk();
            talk.said(&command);
            assert_eq!(talk.outcome(), None);
            talk.hear(&error(code));
            assert_eq!(talk.outcome(), Some(Outcome::Failed), "{code}");
        }
        let mut talk = talk();
        talk.said(&inject("a", true));
        talk.hear(&error("stale_call"));
        assert_eq!(talk.outcome(), None, "an error about something else");
    }

    #[test]
    fn errors_after_which_nobody_should_come_back() {
        let mut talk = talk();
        for (code, heard) in [
            ("superseded", Heard::LastWord(ErrorCode::Superseded)),
            ("unauthorized", Heard::LastWord(ErrorCode::Unauthorized)),
            ("lagged", Heard::News),
            ("internal", Heard::News),
            ("new_in_version_2", Heard::News),
        ] {
            assert_eq!(talk.hear(&error(code)), heard);
        }
    }

    #[test]
    fn commands_that_the_log_acknowledges() {
        let mut talk = talk();
        talk.said(&Command::SetPolicy { patterns: vec![] });
        assert_eq!(talk.outcome(), None);
        hear(&mut talk, &[Body::PolicyUpdated { patterns: vec![] }]);
        assert_eq!(talk.outcome(), Some(Outcome::Done));
    }

    #[test]
    fn what_a_lost_connection_took_with_it_is_not_waited_for() {
        let mut talk = talk();
        talk.said(&inject("a", true));
        assert!(talk.awaits());
        talk.connected(0);
        assert_eq!(talk.outcome(), Some(Outcome::Failed));
        talk.said(&inject("b", true));
        assert_eq!(talk.outcome(), None);
    }

    #[test]
    fn what_the_replay_after_a_lost_connection_shows_was_taken() {
        let mut talk = talk();
        talk.said(&inject("a", true));
        talk.connected(3);
        hear(&mut talk, &[start(), user("a")]);
        assert_eq!(talk.outcome(), None);
        hear(&mut talk, &[end(TurnStatus::Completed)]);
        assert_eq!(talk.outcome(), Some(Outcome::Done));
    }

    #[test]
    fn nothing_is_heard_twice() {
        let mut talk = talk();
        hear(&mut talk, &[start()]);
        let again = ServerFrame::Event { seq: 1, kind: "turn/start".into(), body: Some(start()) };
        assert_eq!(talk.hear(&again), Heard::Repeated);
        assert_eq!(talk.next_seq(), 2);
    }

    #[test]
    fn a_log_restored_from_an_older_copy_is_noticed() {
        let mut talk = talk();
        hear(&mut talk, &[start(), user("a"), end(TurnStatus::Completed)]);
        assert!(talk.connected(3), "exactly what has been heard");
        assert!(!talk.connected(1));
        assert_eq!(talk.next_seq(), 2);
        let mut talk = Talk::new(100);
        assert!(talk.connected(3), "nothing has been heard yet");
        assert_eq!(talk.next_seq(), 4, "only what is new");
    }
}
