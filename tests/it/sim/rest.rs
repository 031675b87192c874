//! Coming to rest: what goes on by itself does, what has to be asked is asked, and then nothing is
//! owed to anybody any more.

use super::client::Kind;
use super::look::Expected;
use super::record::Record;
use super::texts::Fate;
use super::world::World;
use terret_ws::disk::sim::Faults;
use terret_ws::proto::command::Command;
use terret_ws::proto::payload::TurnStatus;

/// Longer than anything takes that goes on by itself.
const QUIET_MS: u64 = 30_000;
/// Nothing needs to be asked so often.
const STIRS_MAX: usize = 60;

impl World {
    /// Runs and hears everything that can go on without time and without anybody else.
    pub(super) fn settle(&mut self) {
        for _ in 0..20_000 {
            if self.life.has_lost_power() || self.life.hub.latched().is_some() {
                return;
            }
            if !self.life.flights.is_empty()
                && (self.life.jobs.is_empty() || self.random.chance(60))
            {
                self.hear_something();
            } else if self.life.jobs.is_empty() {
                return;
            } else {
                self.run_some_job();
            }
        }
        panic!("it never settles");
    }

    /// Settles, and compares what is said of an agent with its log.
    pub(super) fn settle_and_look(&mut self) {
        self.trace.say(|| "settles".to_owned());
        self.settle();
        if self.life.has_lost_power() || self.life.hub.latched().is_some() {
            return;
        }
        if !self.life.hub.is_storage_full() {
            self.check_wakes();
        }
        self.check_readers();
        self.look_at_metrics();
        let session = self.random.below(self.records.len());
        self.look_at(session);
    }

    /// Whoever takes all there is has got all that was published.
    fn check_readers(&self) {
        for client in &self.clients {
            let record = &self.records[client.session];
            let takes_all = client.room == usize::MAX && client.talks() && client.hello.is_some();
            let heard = client.outgoing.is_empty() && self.life.hub.wants_read(client.tag);
            if takes_all
                && heard
                && let Err(wrong) = client.stream.is_complete(record.published - 1)
            {
                panic!("client {} of {}: {wrong}", client.number, record.id);
            }
        }
    }

    /// A text that wakes does not wait while its agent is idle, unless somebody or something has
    /// stopped it.
    fn check_wakes(&self) {
        for record in self.records.iter().filter(|record| record.is_open) {
            let by_itself = matches!(
                record.ledger.last_end,
                Some(TurnStatus::Completed | TurnStatus::Empty | TurnStatus::Rejected)
            );
            if !record.ledger.is_open() && by_itself && record.ended_in_this_life {
                let waits = |text: &super::texts::Text| {
                    text.wake && text.of_this_life && text.fate == Fate::Kept
                };
                let waiting: Vec<&str> = record.texts.that(waits).collect();
                assert!(waiting.is_empty(), "{}: nobody wakes for {waiting:?}", record.id);
            }
        }
    }

    /// Nothing goes wrong any more, and everybody is answered, until nothing is owed.
    pub(super) fn come_to_rest(&mut self) {
        self.trace.say(|| "comes to rest".to_owned());
        self.calm = true;
        self.brain.calm_down();
        self.office.calm_down();
        self.life.power_fails_at = None;
        self.life.disk.faults(|faults| *faults = Faults::default());
        self.settle();
        if self.life.hub.latched().is_some() {
            self.die(true);
        }
        let tags: Vec<_> = self.clients.iter().map(|client| client.tag).collect();
        for tag in tags {
            self.lose(tag, "connection lost");
        }
        self.obey();
        // Whoever waits for the disk tries again once a second.
        self.pass(1000);
        self.settle();
        let mut watchers = Vec::new();
        for session in 0..self.records.len() {
            watchers.push(self.watch(session));
        }
        let (mut moved_at, mut stirs) = (self.life.now, 0);
        loop {
            let before: u64 = self.records.iter().map(Record::len).sum();
            let moved = self.go_on();
            let after: u64 = self.records.iter().map(Record::len).sum();
            if moved || before != after {
                moved_at = self.life.now;
            } else if self.life.now.since(moved_at) > QUIET_MS {
                if !self.stir(&watchers) {
                    break;
                }
                stirs += 1;
                assert!(stirs < STIRS_MAX, "it never comes to rest");
                moved_at = self.life.now;
            }
        }
        self.check_rest();
        self.trace.say(|| "is at rest".to_owned());
        self.die(true);
        for session in 0..self.records.len() {
            self.watch(session);
            self.look_at(session);
        }
        self.check_rest();
    }

    /// A client that reads everything, from somewhere on. Returns its number.
    fn watch(&mut self, session: usize) -> u32 {
        let place = self.connect(session, true).expect("there is room");
        let len = self.records[session].len();
        let from_seq = self.random.below(len as usize + 1) as u64;
        self.tell(place, &Command::Subscribe { from_seq });
        let number = self.clients[place].number;
        self.carry_all();
        number
    }

    /// Everything that was said reaches the server, and what that leads to happens.
    pub(super) fn carry_all(&mut self) {
        loop {
            self.settle();
            let ready = |place: &usize| {
                let client = &self.clients[*place];
                !client.outgoing.is_empty() && self.life.hub.wants_read(client.tag)
            };
            let Some(place) = (0..self.clients.len()).find(ready) else { return };
            self.carry_from(place, usize::MAX);
        }
    }

    /// Everybody who is asked answers, and time passes; false if nobody was.
    fn go_on(&mut self) -> bool {
        self.carry_all();
        let mut moved = !self.life.tools.is_empty() || self.life.programs.len() > 0;
        while !self.life.tools.is_empty() {
            self.end_tool();
        }
        while self.life.programs.len() > 0 {
            self.end_program();
        }
        let mut place = 0;
        while place < self.life.links.len() {
            if self.serve_link(place) {
                moved = true;
            } else {
                place += 1;
            }
        }
        self.carry_all();
        let due = self.life.hub.next_deadline().map_or(1, |due| due.since(self.life.now));
        self.pass(due.clamp(1, 20_000));
        self.carry_all();
        moved
    }

    /// Gives whoever still owes something a reason to go on; false if nobody does.
    fn stir(&mut self, watchers: &[u32]) -> bool {
        let mut stirred = false;
        for (session, watcher) in watchers.iter().enumerate() {
            let place = self.clients.iter().position(|client| client.number == *watcher);
            let place = place.expect("nobody takes its place");
            let record = &self.records[session];
            let waits = record.texts.that(|text| text.fate == Fate::Kept).next().is_some();
            let standing = record.ledger.standing().next().map(|call| call.id.clone());
            let is_open = record.ledger.is_open();
            if let Some(call_id) = standing {
                // Without the approvals row nobody takes a verdict any more.
                let verdict = if self.plan.config.approvals {
                    Command::Approve { call_id }
                } else {
                    Command::Cancel { reason: None }
                };
                self.tell(place, &verdict);
                stirred = true;
            } else if is_open || waits {
                self.inject(place, true);
                stirred = true;
            }
        }
        stirred
    }

    fn check_rest(&mut self) {
        for record in &self.records {
            let id = &record.id;
            assert!(!record.ledger.is_open(), "{id}: a turn without an end");
            let owed = |text: &super::texts::Text| {
                matches!(text.fate, Fate::Posted | Fate::Held | Fate::Kept)
            };
            let owed: Vec<&str> = record.texts.that(owed).collect();
            assert!(owed.is_empty(), "{id}: accepted and lost: {owed:?}");
        }
        for client in self.clients.iter().filter(|client| client.kind == Kind::Socket) {
            let record = &self.records[client.session];
            assert!(client.talks(), "{}: its watcher was sent away", record.id);
            if let Err(wrong) = client.stream.is_complete(record.len() - 1) {
                panic!("{}: {wrong}", record.id);
            }
            let owed = client.owed();
            assert!(owed.is_empty(), "{}: never answered with {owed:?}", record.id);
        }
        for session in 0..self.records.len() {
            let expected = Expected::Idle;
            assert_eq!(self.expected(session), expected);
        }
    }
}
