//! The body of the machine's fuzz target: arbitrary bytes become inputs, crashes, evictions and
//! outcomes (cases.md, 13 to 20).
//!
//! After every one of them the world's invariants hold (see `world`), no accepted text is lost or
//! doubled, and at the end every turn comes to its end.

pub mod strict;
pub mod world;
mod audit;
mod history;

use std::collections::BTreeSet;

pub use self::history::history;
use self::world::{World, rules};
use crate::agent::{CancelStream, ConnTag, Finish, Input, ModelEvent, RawCall, Status};
use crate::proto::command::Command;
use crate::proto::event::{ErrorCode, NewEvent};
use crate::proto::payload::{Body, Content, Outcome, Usage};

/// Runs one agent through whatever the bytes say.
pub fn machine(bytes: &[u8]) {
    let mut script = Script {
        bytes,
        texts: 0,
        world: World::new(rules()),
        accepted: BTreeSet::new(),
        logged: BTreeSet::new(),
        read: 0,
    };
    while let Some(byte) = script.next() {
        script.act(byte);
        script.check_texts();
    }
    script.come_to_rest();
}

struct Script<'a> {
    bytes: &'a [u8],
    /// How many texts were sent; each is different.
    texts: u32,
    world: World,
    /// The texts that were accepted and not lost with a batch that never reached the disk.
    accepted: BTreeSet<String>,
    /// Those of them that the log holds, as far as it was read.
    logged: BTreeSet<String>,
    /// How many events of the log were read.
    read: usize,
}

impl Script<'_> {
    fn next(&mut self) -> Option<u8> {
        let (&byte, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(byte)
    }

    /// A number below `bound`, 0 when the bytes are over.
    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.next().unwrap_or(0)) % bound
    }

    fn act(&mut self, byte: u8) {
        match byte % 20 {
            0 | 1 => self.inject(true),
            2 => self.inject(false),
            3 => self.command(Command::Cancel { reason: self.reason(byte) }),
            4 => {
                let call_id = self.call_id();
                self.command(Command::Approve { call_id });
            }
            5 => {
                let (call_id, reason) = (self.call_id(), self.reason(byte));
                self.command(Command::Deny { call_id, reason });
            }
            6 => {
                let patterns = [&["*"][..], &["par*", "guarded"], &[], &["[!p]*"]];
                let patterns = patterns[self.below(4)].iter().map(|&p| p.to_owned()).collect();
                self.command(Command::SetPolicy { patterns });
            }
            7 | 8 => self.model(ModelEvent::Text("piece ".repeat(usize::from(byte % 3)))),
            9..=11 => {
                let finish = self.finish();
                self.model(ModelEvent::Finished(finish));
            }
            12 => self.model(ModelEvent::Failed { reason: "provider failed".into() }),
            13..=15 => self.tool(),
            16 => self.crash(),
            17 => self.evict(),
            18 => {
                self.world.input(Input::Resume);
            }
            _ => self.reconfigure(),
        }
    }

    fn inject(&mut self, wake: bool) {
        self.texts += 1;
        let text = format!("text {};", self.texts);
        self.command(Command::Inject { text: text.clone(), wake });
        if self.world.replies.is_empty() {
            self.accepted.insert(text);
        }
    }

    fn command(&mut self, command: Command) {
        let running = self.world.machine.has_open_turn();
        let cancel = matches!(command, Command::Cancel { .. });
        let from = Some(ConnTag { slot: 0, generation: 0 });
        let appended = self.world.input(Input::Command { from, command }).len();
        for (code, _) in &self.world.replies {
            assert_eq!(appended, 0, "a refused frame appends nothing");
            assert_eq!(*code == ErrorCode::NotRunning, cancel && !running);
        }
    }

    fn call_id(&mut self) -> String {
        ["0", "1", "2"][self.below(3)].to_owned()
    }

    fn reason(&self, byte: u8) -> Option<String> {
        (byte >= 128).then(|| format!("reason {}", self.texts))
    }

    fn model(&mut self, event: ModelEvent) {
        let Some(asked) = &self.world.asked else { return };
        let ask = asked.ask;
        if !matches!(event, ModelEvent::Text(_)) {
            self.world.asked = None;
        }
        self.world.input(Input::Model { ask, event });
    }

    fn finish(&mut self) -> Finish {
        const TOOLS: [&str; 8] =
            ["serial", "par", "par2", "guarded", "parguarded", "changing", "unknown", "par"];
        let mut calls = Vec::new();
        for _ in 0..self.below(5) {
            let id = ["0", "0", "1"][self.below(3)].to_owned();
            let name = TOOLS[self.below(8)].to_owned();
            let args = match self.below(4) {
                0 => Err("{\"cut".to_owned()),
                1 => Ok("{\"n\":1e400}".into()),
                _ => Ok("{}".into()),
            };
            calls.push(RawCall { id, name, args });
        }
        let usage = (self.below(2) == 1).then_some(Usage {
            prompt_tokens: 1,
            completion_tokens: 2,
            cost: Some(0.5),
        });
        Finish { calls, usage }
    }

    fn tool(&mut self) {
        let running = self.world.tools.len();
        if running == 0 {
            return;
        }
        let place = self.below(running);
        let tag = self.world.tools.remove(place).tag;
        let outcome: Outcome = match self.below(3) {
            0 => Err("it broke".into()),
            1 => Ok(Content::text("")),
            _ => Ok(Content::json("{\"a\":[1e400]}").expect("a JSON value")),
        };
        self.world.input(Input::Tool { tag, outcome });
    }

    /// The process dies. Of what was appended last, any number of events may be missing: nobody
    /// has seen them, and the texts in them were not accepted.
    fn crash(&mut self) {
        let lost = self.below(6).min(self.world.log.len() - 1);
        self.world.restart_at(self.world.log.len() - lost);
        (self.logged, self.read) = (BTreeSet::new(), 0);
        let mut kept: BTreeSet<&str> = self.world.log.iter().filter_map(text_of).collect();
        let waiting = self.world.unspent();
        kept.extend(waiting.iter().map(|text| &*text.text));
        self.accepted.retain(|text| kept.contains(&**text));
        self.world.stopping = false;
    }

    fn evict(&mut self) {
        if !self.world.machine.evictable() {
            return;
        }
        let (status, events) = (self.world.machine.status(), self.world.log.len());
        self.world.restart_at(events);
        if status == Status::Parked && !self.world.stopping {
            self.world.input(Input::Resume);
        }
        let after = self.world.machine.status();
        let same_policy = after == status && self.world.log.len() == events;
        // A policy that was narrowed since, or rules that were reloaded, may settle a parked call.
        assert!(same_policy || status == Status::Parked, "{status:?} became {after:?}");
    }

    fn reconfigure(&mut self) {
        match self.below(4) {
            0 => self.world.stopping = !self.world.stopping,
            1 => {
                self.world.rules.approvals = !self.world.rules.approvals;
                self.world.input(Input::Reloaded);
                let parked = self.world.machine.has_parked_calls();
                assert!(self.world.rules.approvals || !parked, "nothing parks without the row");
            }
            2 => self.world.rules.cancel_stream = CancelStream::Finish,
            _ => self.world.rules.cancel_stream = CancelStream::Abort,
        }
    }

    /// Every accepted text is in the log once, or waits once.
    fn check_texts(&mut self) {
        for text in self.world.log[self.read..].iter().filter_map(text_of) {
            assert!(self.accepted.contains(text), "out of nowhere: {text}");
            assert!(self.logged.insert(text.to_owned()), "in the log twice: {text}");
        }
        self.read = self.world.log.len();
        let unspent = self.world.unspent();
        let in_machine = self.world.machine.snapshot(&self.world.rules).inbox_len;
        assert_eq!(in_machine, unspent.len(), "the inbox and its file differ");
        let waiting: BTreeSet<&String> = unspent.iter().map(|text| &text.text).collect();
        assert_eq!(waiting.len(), unspent.len(), "waits twice: {unspent:?}");
        for text in &waiting {
            assert!(self.accepted.contains(*text), "out of nowhere: {text}");
            assert!(!self.logged.contains(*text), "in the log, and waits: {text}");
        }
        assert_eq!(self.logged.len() + waiting.len(), self.accepted.len(), "texts were lost");
    }

    /// Answers whatever is asked until nothing is: a wake starts or resumes, the turn ends, and
    /// nothing waits any more.
    fn come_to_rest(&mut self) {
        self.world.stopping = false;
        self.world.rules.approvals = true;
        for _ in 0..2 {
            self.inject(true);
            for _ in 0..10_000 {
                if self.world.asked.is_some() {
                    self.model(ModelEvent::Text("at last".into()));
                    self.model(ModelEvent::Finished(Finish::default()));
                } else if let Some(run) = self.world.tools.pop() {
                    self.world.input(Input::Tool { tag: run.tag, outcome: Ok(Content::text("")) });
                } else if self.world.machine.status() == Status::Parked {
                    let pending = self.world.machine.snapshot(&self.world.rules).pending;
                    let call_id = pending[0].id.clone();
                    self.command(Command::Approve { call_id });
                } else {
                    break;
                }
            }
        }
        // The first wake may have met the 25-step cap of an old turn; the second has not.
        assert_eq!(self.world.machine.status(), Status::Idle);
        assert_eq!(self.world.machine.snapshot(&self.world.rules).inbox_len, 0);
        self.check_texts();
        self.world.history();
        let ends = |body: &&Body| matches!(body, Body::TurnEnd { .. });
        let starts = |body: &&Body| matches!(body, Body::TurnStart { .. });
        let bodies = || self.world.log.iter().map(|event| &event.body);
        assert_eq!(bodies().filter(starts).count(), bodies().filter(ends).count());
    }
}

/// The text that an event brings from the inbox.
fn text_of(event: &NewEvent) -> Option<&str> {
    match &event.body {
        Body::UserMessage { text } | Body::ContextInjected { text } => Some(text),
        _ => None,
    }
}
