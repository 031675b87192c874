//! One session as everybody outside the server knows it: the events that were promised to be in its
//! log for good, what clients have seen of them, and the texts it was sent.
//!
//! Invariant: an event that stands here never changes and never goes away, whatever dies.

use super::ledger::Ledger;
use super::office::as_sent;
use super::texts::{Fate, Texts};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use terret_ws::config::Token;
use terret_ws::disk::sim::SimDisk;
use terret_ws::disk::{Disk, SyncMode};
use terret_ws::log::{SUFFIX_LEN, line};
use terret_ws::proto::ident::SessionId;
use terret_ws::proto::payload::Body;
use terret_ws::proto::time::Wall;

/// See the module's documentation.
pub(super) struct Record {
    pub(super) id: SessionId,
    pub(super) token: Token,
    /// The wire form of every event, by seq.
    events: Vec<Vec<u8>>,
    ids: BTreeSet<String>,
    pub(super) ledger: Ledger,
    pub(super) texts: Texts,
    /// The texts in the log, with their seq.
    pub(super) spoken: Vec<(u64, String)>,
    /// How often a model inside the process was asked.
    pub(super) asked: u64,
    /// The step, counted, whose request carries only half of the history.
    pub(super) halved: Option<u64>,
    /// What some client has received.
    seen: BTreeSet<u64>,
    /// How many events the reactor that runs now has heard of.
    pub(super) published: u64,
    /// Whether the process that runs now has opened the log.
    pub(super) is_open: bool,
    /// How far the files were compared: a segment, how much of it, and the next seq.
    compared: (u64, usize, u64),
    /// How the last turn ended is known to this process, which has to act on it.
    pub(super) ended_in_this_life: bool,
}

/// A line of a segment as JSON has it.
#[derive(Deserialize)]
struct Line<'a> {
    id: &'a str,
    session_id: &'a str,
    seq: u64,
    at: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    payload: &'a RawValue,
}

impl Record {
    pub(super) fn new(number: usize) -> Self {
        Self {
            id: SessionId::parse(&format!("s{number}")).unwrap(),
            token: Token::parse(&format!("token-{number}")).unwrap(),
            events: Vec::new(),
            ids: BTreeSet::new(),
            ledger: Ledger::default(),
            texts: Texts::default(),
            spoken: Vec::new(),
            asked: 0,
            halved: None,
            seen: BTreeSet::new(),
            published: 0,
            is_open: false,
            compared: (0, 0, 0),
            ended_in_this_life: false,
        }
    }

    /// How many events are promised.
    pub(super) fn len(&self) -> u64 {
        self.events.len() as u64
    }

    pub(super) fn events(&self) -> &[Vec<u8>] {
        &self.events
    }

    /// Events that a client has seen, counted up to the highest.
    pub(super) fn seen_upto(&self) -> u64 {
        self.seen.last().map_or(0, |last| last + 1)
    }

    /// These lines were appended and are going to be published.
    pub(super) fn promise(&mut self, first: u64, lines: &[u8]) {
        assert_eq!(first, self.len(), "{}: what is published goes on where the log ended", self.id);
        for line in lines.split_inclusive(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\n").expect("lines are published whole");
            self.push(line);
        }
    }

    fn push(&mut self, line: &[u8]) {
        let sealed = line::unseal(line).unwrap_or_else(|| panic!("{}: a bad seal", self.id));
        let wire = [sealed.body, b"}"].concat();
        let Line { id, session_id, seq, at, kind, payload } = serde_json::from_slice(line).unwrap();
        assert_eq!((session_id, seq), (self.id.as_str(), self.len()), "no gap, no duplicate");
        assert!(sealed.ack <= seq, "{}: {seq} attests to itself", self.id);
        assert!(Wall::parse(at).is_some(), "{at}");
        assert!(self.ids.insert(id.to_owned()), "{}: an id twice: {id}", self.id);
        let body = Body::parse(kind, payload.get().as_bytes()).unwrap().expect("a known type");
        self.ledger.apply(self.id.as_str(), seq, &body);
        match body {
            Body::UserMessage { text } => self.speak(seq, text, true),
            Body::ContextInjected { text } => self.speak(seq, text, false),
            Body::TurnEnd { .. } => self.ended_in_this_life = true,
            _ => {}
        }
        self.events.push(wire);
    }

    fn speak(&mut self, seq: u64, text: String, opens_turn: bool) {
        self.texts.logged(as_sent(&text), opens_turn);
        self.spoken.push((seq, text));
    }

    /// A process has opened the log and says that it ends there. What was promised is in it, and
    /// what is more is promised from now on.
    pub(super) fn opened(&mut self, disk: &SimDisk, last: u64) {
        assert!(last + 1 >= self.len(), "{}: {} events became {}", self.id, self.len(), last + 1);
        let known = self.len();
        let mut next = 0;
        for line in self.raw_lines(disk, 0, 0).iter().filter_map(|line| event_of(line)) {
            if next > last {
                break;
            }
            if next < known {
                let wire = [&line[..line.len() - SUFFIX_LEN], b"}"].concat();
                assert!(wire == self.events[next as usize], "{}: event {next} changed", self.id);
            } else {
                self.push(line);
            }
            next += 1;
        }
        assert_eq!(next, last + 1, "{}: the log is shorter than its opener says", self.id);
        self.is_open = true;
        self.compared = (0, 0, 0);
    }

    /// Compares what the files hold beyond what was compared before with what was promised.
    pub(super) fn compare(&mut self, disk: &SimDisk) {
        let (base, offset, mut next) = self.compared;
        let mut at = (base, offset);
        for (segment, offset, line) in self.raw(disk, base, offset) {
            let Some(sealed) = line::unseal(&line) else { break };
            assert!(sealed.ack <= next, "{}: a line attests what is not there", self.id);
            if event_of(&line).is_some() {
                let promised = self.events.get(next as usize);
                let same = promised.is_some_and(|wire| wire[..wire.len() - 1] == *sealed.body);
                assert!(same, "{}: event {next} is in the file only", self.id);
                next += 1;
            }
            at = (segment, offset + line.len() + 1);
        }
        assert_eq!(next, self.len(), "{}: a promised event is in no file", self.id);
        self.compared = (at.0, at.1, next);
    }

    /// Every whole line of the segments from `base` on, with the segment and where it begins there;
    /// `offset` bytes of the first segment are passed over.
    fn raw(&self, disk: &SimDisk, base: u64, mut offset: usize) -> Vec<(u64, usize, Vec<u8>)> {
        let mut lines = Vec::new();
        let mut names = names(disk, &self.dir());
        names.retain(|name| name.len() == "00000000000000000000.jsonl".len());
        names.sort_unstable();
        for name in names {
            let segment: u64 = name.trim_end_matches(".jsonl").parse().unwrap();
            if segment < base {
                continue;
            }
            let bytes = disk.contents(self.dir().join(&name)).unwrap_or_default();
            let mut begins = if segment == base { offset } else { 0 };
            for line in bytes.get(begins..).unwrap_or_default().split_inclusive(|&b| b == b'\n') {
                if let Some(whole) = line.strip_suffix(b"\n") {
                    lines.push((segment, begins, whole.to_vec()));
                }
                begins += line.len();
            }
            offset = 0;
        }
        lines
    }

    fn raw_lines(&self, disk: &SimDisk, base: u64, offset: usize) -> Vec<Vec<u8>> {
        self.raw(disk, base, offset).into_iter().map(|(_, _, line)| line).collect()
    }

    /// The texts that stand in the inbox file.
    pub(super) fn inbox(&self, disk: &SimDisk) -> BTreeSet<String> {
        #[derive(Deserialize)]
        struct Waiting {
            text: String,
        }
        let bytes = disk.contents(self.dir().join("inbox.jsonl")).unwrap_or_default();
        let lines = bytes.split(|&byte| byte == b'\n').filter(|line| line::unseal(line).is_some());
        lines.map(|line| serde_json::from_slice::<Waiting>(line).unwrap().text).collect()
    }

    /// After a job that left nothing undone: every text that was accepted is in the log or in the
    /// inbox file.
    pub(super) fn check_kept(&self, disk: &SimDisk) {
        let mut kept = self.texts.that(|text| text.fate == Fate::Kept).peekable();
        if kept.peek().is_none() {
            return;
        }
        let inbox = self.inbox(disk);
        for text in kept {
            assert!(inbox.contains(text), "{}: {text:?} was accepted and is nowhere", self.id);
        }
    }

    /// A client has received an event.
    pub(super) fn received(&mut self, seq: u64, wire: &[u8]) {
        assert!(seq < self.published, "{}: {seq} was seen before it was published", self.id);
        assert!(wire == self.events[seq as usize], "{}: another event {seq} was sent", self.id);
        self.seen.insert(seq);
    }

    /// The process is dead.
    pub(super) fn die(&mut self) {
        self.texts.die();
        self.ledger.forget_cancel();
        self.published = 0;
        self.is_open = false;
        self.ended_in_this_life = false;
    }

    fn dir(&self) -> PathBuf {
        PathBuf::from(DATA_DIR).join("sessions").join(self.id.as_str())
    }
}

/// The names in a directory, whether the power is on or not.
fn names(disk: &SimDisk, dir: &Path) -> Vec<String> {
    let mut power_fails_at = None;
    disk.faults(|faults| power_fails_at = faults.power_fails_at.take());
    let names = disk.list(dir).unwrap_or_default();
    disk.faults(|faults| faults.power_fails_at = power_fails_at);
    names
}

/// Whether a power cut may take what a process was told is stored.
pub(super) fn survives_power_cut(sync: SyncMode) -> bool {
    sync == SyncMode::Always
}

/// The line, if it is a sound one of an event.
fn event_of(line: &[u8]) -> Option<&[u8]> {
    let sealed = line::unseal(line)?;
    (!sealed.body.is_empty() && !line::is_header(sealed.body)).then_some(line)
}

pub(super) const DATA_DIR: &str = "/data";
