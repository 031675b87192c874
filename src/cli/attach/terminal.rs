//! The conversation in front of a person: takes what the sources bring, prints, sends.
//!
//! Owns everything but the connection, of which it sees the sending half. What the frames mean is
//! `talk`'s, how they look is `screen`'s.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::screen::{Screen, harmless};
use super::sources::Event;
use super::talk::{Heard, Outcome, Talk};
use super::typed::{self, Typed};
use crate::cli::args::Attach;
use crate::cli::{Failure, Output, World};
use crate::client::{AgentState, Sender, ServerFrame};
use crate::limits::CLOSE_S;
use crate::proto::command::Command;
use crate::proto::event::ErrorCode;
use crate::proto::ws::CloseCode;

/// Why a connection is over.
pub(super) enum Over {
    /// The person, or what was piped in, is done.
    Done,
    /// It broke, and is to be taken up again.
    Gone(String),
}

/// What is shown of the frames.
enum View {
    /// They themselves.
    Frames,
    /// What they mean to a person.
    Conversation {
        screen: Screen,
        /// Whether what is typed stands on the screen already.
        echoed: bool,
    },
}

impl View {
    fn of(attach: &Attach, world: &World) -> View {
        if attach.json {
            return View::Frames;
        }
        View::Conversation {
            screen: Screen::new(world.shows_colours()),
            echoed: world.stdin_is_terminal && world.stdout_is_terminal,
        }
    }

    /// What is printed for a frame.
    fn show(&mut self, text: &str, frame: &ServerFrame, heard: Heard) -> String {
        match self {
            View::Frames => format!("{text}\n"),
            View::Conversation { echoed: true, .. } if heard == Heard::OwnText => String::new(),
            View::Conversation { .. } if matches!(heard, Heard::Repeated | Heard::LastWord(_)) => {
                String::new()
            }
            View::Conversation { screen, .. } => screen.show(frame),
        }
    }

    /// What invites a person to type.
    fn prompt(&mut self) -> String {
        match self {
            View::Conversation { screen, echoed: true } => screen.prompt(),
            View::Conversation { .. } | View::Frames => String::new(),
        }
    }

    /// A line was typed.
    fn entered(&mut self) {
        if let View::Conversation { screen, echoed: true } = self {
            screen.entered();
        }
    }

    /// What is printed before somebody else prints.
    fn end_line(&mut self) -> &'static str {
        match self {
            View::Frames => "",
            View::Conversation { screen, .. } => screen.end_line(),
        }
    }
}

/// Asks the server what the agent does, over a connection of its own.
pub(super) type Ask = Box<dyn Fn() -> io::Result<AgentState>>;

/// Everything but the connection.
pub(super) struct Terminal {
    inbox: Receiver<Event>,
    ask: Ask,
    stdout: Output,
    stderr: Output,
    view: View,
    talk: Talk,
    /// Whether this connection's `hello` has come; before it nothing is sent.
    greeted: bool,
    /// Whether lines come from a person, who has read what they are about. Those from a pipe are
    /// about what history leaves, and wait for its end.
    interactive: bool,
    /// Typed and not read yet.
    lines: VecDeque<String>,
    /// Read and not sent yet.
    unsent: Vec<Command>,
    input_ended: bool,
    /// An error frame after which the server closes for good.
    last_word: Option<ErrorCode>,
}

impl Terminal {
    pub(super) fn new(
        attach: &Attach,
        world: &World,
        inbox: Receiver<Event>,
        ask: Ask,
    ) -> Terminal {
        Terminal {
            inbox,
            ask,
            stdout: world.stdout.clone(),
            stderr: world.stderr.clone(),
            view: View::of(attach, world),
            talk: Talk::new(attach.from_seq),
            greeted: false,
            interactive: world.stdin_is_terminal,
            lines: VecDeque::new(),
            unsent: Vec::new(),
            input_ended: false,
            last_word: None,
        }
    }

    /// Talks over one connection until it is over.
    pub(super) fn converse(&mut self, sender: &Sender) -> Result<Over, Failure> {
        self.greeted = false;
        loop {
            match self.next_event() {
                Some(Event::Line(line)) => self.lines.push_back(line),
                Some(Event::InputEnded) => self.input_ended = true,
                Some(Event::Frame(text)) => self.frame(&text, sender)?,
                Some(Event::Gone(code, how)) => return self.gone(code, how),
                None => self.wonder()?,
            }
            if self.lines(Some(sender))? {
                self.leave(sender);
                return Ok(Over::Done);
            }
            if let Some(outcome) = self.outcome() {
                self.leave(sender);
                return finished(outcome).map(|()| Over::Done);
            }
            if self.greeted && self.talk.is_quiet() {
                self.stdout.print(self.view.prompt())?;
            }
        }
    }

    /// Waits for the next event; none when it has been quiet for long enough to wonder why.
    fn next_event(&self) -> Option<Event> {
        let event = if self.talk.wonders() {
            self.inbox.recv_timeout(QUIET)
        } else {
            self.inbox.recv().map_err(RecvTimeoutError::from)
        };
        match event {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                unreachable!("`run` holds a sending end as long as this one")
            }
        }
    }

    /// Asks the server what the agent does: a turn whose resume failed says nothing more, not even
    /// that it ended.
    fn wonder(&mut self) -> Result<(), Failure> {
        // A server that is gone is noticed on the socket.
        let Ok(state) = (self.ask)() else { return Ok(()) };
        let why = state.last_error.as_ref().map_or(String::new(), |error| format!(": {error}"));
        self.talk.told(state);
        if self.talk.is_interrupted() {
            self.notice(&format!("the turn has stopped but not ended{why}; a text resumes it"))?;
        }
        Ok(())
    }

    /// How far the log has been heard.
    pub(super) fn next_seq(&self) -> u64 {
        self.talk.next_seq()
    }

    /// Takes lines while there is no connection. True when there is no reason for a new one.
    pub(super) fn pause(&mut self, wait: Duration) -> Result<bool, Failure> {
        let deadline = Instant::now() + wait;
        loop {
            if let Some(outcome) = self.outcome() {
                return finished(outcome).map(|()| true);
            }
            match self.inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Line(line)) => self.lines.push_back(line),
                Ok(Event::InputEnded) => self.input_ended = true,
                Ok(Event::Frame(_) | Event::Gone(..)) => {}
                Err(_) => return Ok(false),
            }
            if self.lines(None)? {
                return Ok(true);
            }
        }
    }

    /// Why there is nothing left to do, once nothing more will be typed.
    fn outcome(&self) -> Option<Outcome> {
        let all_sent = self.lines.is_empty() && self.unsent.is_empty();
        self.talk.outcome().filter(|_| self.input_ended && all_sent)
    }

    /// Reads and sends what was typed, as far as its time has come. True when it says to leave.
    fn lines(&mut self, sender: Option<&Sender>) -> Result<bool, Failure> {
        while self.interactive || self.talk.is_oriented() {
            if let Some(sender) = sender.filter(|_| self.greeted) {
                for command in mem::take(&mut self.unsent) {
                    self.talk.said(&command);
                    send(sender, &command);
                }
            }
            let Some(line) = self.lines.pop_front() else { break };
            if self.line(&line)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// One line of input. True when it says to leave.
    fn line(&mut self, line: &str) -> Result<bool, Failure> {
        if line.ends_with('\n') {
            self.view.entered();
        }
        match typed::read(line, self.talk.parked()) {
            Ok(Typed::Send(command)) => self.unsent.push(command),
            Ok(Typed::Quit) => {
                self.stdout.print(self.view.end_line())?;
                return Ok(true);
            }
            Ok(Typed::ShowPolicy) => self.show_policy()?,
            Ok(Typed::Help) => self.stderr.print(typed::HELP)?,
            Ok(Typed::Nothing) => {}
            Err(wrong) => {
                self.talk.misspoke();
                self.notice(wrong)?;
            }
        }
        Ok(false)
    }

    fn show_policy(&mut self) -> Result<(), Failure> {
        let notice = match (self.ask)() {
            Ok(AgentState { policy, .. }) if policy.is_empty() => {
                "no tool is allowed; /policy GLOB... allows those that match".to_owned()
            }
            Ok(AgentState { policy, .. }) => {
                let allowed = policy.join(" ");
                let none = typed::NO_PATTERN;
                format!("allowed: {allowed}; /policy GLOB... replaces the list, {none} empties it")
            }
            Err(error) => format!("the server does not say what is allowed: {error}"),
        };
        self.notice(&notice)
    }

    fn frame(&mut self, text: &str, sender: &Sender) -> Result<(), Failure> {
        let Some(frame) = ServerFrame::parse(text) else {
            return self.notice("the server sent something that is no frame of the protocol");
        };
        let was_behind = !self.talk.is_caught_up();
        let heard = self.talk.hear(&frame);
        if let Heard::LastWord(code) = heard {
            self.last_word = Some(code);
        }
        if let ServerFrame::Hello { session_id, last_seq } = &frame {
            self.hello(session_id, *last_seq, sender)?;
        }
        self.stdout.print(self.view.show(text, &frame, heard))?;
        if was_behind && self.talk.is_caught_up() && !self.talk.is_oriented() {
            self.wonder()?;
        }
        Ok(())
    }

    fn hello(&mut self, session: &str, last_seq: u64, sender: &Sender) -> Result<(), Failure> {
        self.greeted = true;
        if !self.talk.connected(last_seq) {
            self.notice(
                "the server's log is shorter than what was shown: it was restored from an older \
                 copy; going on at its end",
            )?;
        }
        if let View::Conversation { echoed: true, .. } = self.view {
            self.notice(&format!("connected to {session}, /help lists what can be typed"))?;
        }
        send(sender, &Command::Subscribe { from_seq: self.talk.next_seq() });
        Ok(())
    }

    fn gone(&mut self, code: Option<CloseCode>, how: String) -> Result<Over, Failure> {
        self.stdout.print(self.view.end_line())?;
        let last_word = match code {
            Some(CloseCode::UNAUTHORIZED) => Some(ErrorCode::Unauthorized),
            Some(CloseCode::SUPERSEDED) => Some(ErrorCode::Superseded),
            _ => self.last_word,
        };
        match last_word {
            Some(ErrorCode::Unauthorized) => Err(Failure::bad(
                "unauthorized: the token does not open this agent, or does so no longer; \
                 give --token TOKEN or set TERRET_TOKEN",
            )),
            Some(_) => Err(Failure::bad(
                "superseded: another client took over this agent; attach again to take it back",
            )),
            None => {
                if self.talk.awaits() {
                    self.notice("what was sent last may not have arrived")?;
                }
                Ok(Over::Gone(how))
            }
        }
    }

    /// Says goodbye, and lets the server finish reading: a socket that is closed with unread input
    /// would take back what was sent last.
    fn leave(&self, sender: &Sender) {
        let deadline = Instant::now() + Duration::from_secs(CLOSE_S);
        if sender.close().is_err() {
            return;
        }
        loop {
            match self.inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Gone(..)) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }

    /// Something about the conversation that is no part of it.
    pub(super) fn notice(&mut self, text: &str) -> Result<(), Failure> {
        self.stdout.print(self.view.end_line())?;
        self.stderr.print(format!("-- {}\n", harmless(text)))?;
        Ok(())
    }
}

/// After so long without an event the server is asked what it is doing.
const QUIET: Duration = Duration::from_secs(2);

/// A send that fails is not looked at: the connection is broken, and the thread that reads it tells.
fn send(sender: &Sender, command: &Command) {
    let _told_by_the_reader = sender.send(command);
}

fn finished(outcome: Outcome) -> Result<(), Failure> {
    match outcome {
        Outcome::Done => Ok(()),
        // `wonder` has said why.
        Outcome::Interrupted => Err(Failure::shown()),
        Outcome::Failed => Err(Failure::bad("not everything that was sent was done; see above")),
        Outcome::Parked(call_id) => Err(Failure::bad(format!(
            "the turn waits for a verdict on call {call_id}: attach again and /approve or /deny it"
        ))),
    }
}
