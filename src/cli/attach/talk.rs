//! Where a conversation stands: what has been heard, what was said and is not in the log yet, and,
//! once nothing more will be typed, whether there is anything left to wait for.
//!
//! Pure. Knows neither the connection nor the terminal.
//!
//! Invariant: every event below `next_seq` (from the first wanted one on) has been heard once.

use crate::client::{AgentState, ServerFrame};
use crate::proto::command::Command;
use crate::proto::event::ErrorCode;
use crate::proto::payload::{Body, TurnStatus};

/// One conversation, across all its connections.
#[derive(Debug)]
pub(super) struct Talk {
    next_seq: u64,
    /// The log's last seq when this connection began: up to there it is history.
    history_end: Option<u64>,
    /// None while neither the log, which was heard from its middle, nor the server has told.
    turn_open: Option<bool>,
    /// Nothing works at the open turn, and there has been no event since the server said so.
    interrupted: bool,
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
    /// The turn is open, and nothing works at it.
    Interrupted,
}

impl Talk {
    pub(super) fn new(from_seq: u64) -> Talk {
        Talk {
            next_seq: from_seq,
            history_end: None,
            turn_open: (from_seq == 0).then_some(false),
            interrupted: false,
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
        self.interrupted = false;
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
                self.interrupted = false;
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
            ServerFrame::ReplayTruncated { .. } => {
                self.turn_open = None;
                Heard::News
            }
            ServerFrame::Hello { .. } | ServerFrame::Other => Heard::News,
        }
    }

    /// What was typed asks for nothing that can be said.
    pub(super) fn misspoke(&mut self) {
        self.refused = true;
    }

    /// Whether something was said that is not in the log yet.
    pub(super) fn awaits(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Ids of the calls that wait for a verdict, oldest first.
    pub(super) fn parked(&self) -> &[String] {
        &self.parked
    }

    /// Whether nothing will happen before something is said: all there was to hear has been heard,
    /// nothing that was said is under way, and no turn goes on by itself.
    pub(super) fn is_quiet(&self) -> bool {
        let goes_on = self.turn_open == Some(true) && self.parked.is_empty() && !self.interrupted;
        self.is_caught_up() && self.awaited.is_empty() && !goes_on
    }

    /// Whether events are to come, of which the log alone does not tell that they will: whoever
    /// hears none for a while should ask the server.
    pub(super) fn wonders(&self) -> bool {
        let expects = self.turn_open != Some(false) || self.awaits();
        self.is_caught_up() && expects && self.parked.is_empty() && !self.interrupted
    }

    /// The server has been asked what the agent does. An answer from another moment than the last
    /// event heard is of no use.
    pub(super) fn told(&mut self, state: AgentState) {
        if state.last_seq.checked_add(1) != Some(self.next_seq) {
            return;
        }
        match state.status.as_str() {
            // A replay that began late has not shown the requests.
            "parked" => (self.turn_open, self.parked) = (Some(true), state.pending),
            "interrupted" => (self.turn_open, self.interrupted) = (Some(true), true),
            status => {
                self.turn_open.get_or_insert(status == "running");
            }
        }
    }

    /// Whether nothing works at the open turn, as far as is known.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Whether history has been heard, and it is known whether it leaves a turn open: only then is
    /// what is said about the present, and judged by what follows.
    pub(super) fn is_oriented(&self) -> bool {
        self.is_caught_up() && self.turn_open.is_some()
    }

    /// Whether anything is left to wait for once nothing more is typed; none while there is.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        if !self.is_oriented() {
            return None;
        }
        let may_come = |wait: &&Wait| self.may_come(wait);
        let is_text = |wait: &Wait| matches!(wait.trace, Trace::Text(_));
        // A parked turn answers everything but texts: those wait with it.
        if let Some(call_id) = self.parked.first()
            && self.awaited.iter().filter(may_come).all(is_text)
        {
            return Some(Outcome::Parked(call_id.clone()));
        }
        if self.awaited.iter().any(|wait| self.may_come(wait)) {
            return None;
        }
        // Who has said nothing is a spectator: no end is a bad one for it.
        let bad_end = self.said_anything
            && matches!(self.last_end, Some(TurnStatus::Failed | TurnStatus::Rejected));
        let lost = !self.awaited.is_empty();
        match (self.turn_open?, self.refused || bad_end || lost) {
            (true, _) => self.interrupted.then_some(Outcome::Interrupted),
            (false, true) => Some(Outcome::Failed),
            (false, false) => Some(Outcome::Done),
        }
    }

    /// Whether all of history has been heard.
    pub(super) fn is_caught_up(&self) -> bool {
        self.history_end.is_some_and(|last_seq| self.next_seq > last_seq)
    }

    /// Whether a command may still leave its trace, once the log has been heard to its end. One that
    /// went over an earlier connection was lost with it, unless it is a text that waits for the next
    /// step of a turn.
    fn may_come(&self, wait: &Wait) -> bool {
        let is_text = matches!(wait.trace, Trace::Text(_));
        let next_step = self.turn_open == Some(true) && !self.interrupted;
        wait.connection == self.connection || (is_text && next_step)
    }

    fn event(&mut self, body: &Body) -> Heard {
        match body {
            Body::TurnStart { .. } | Body::StepStart { .. } => self.turn_open = Some(true),
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
        self.turn_open = Some(false);
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
mod tests;
