//! Workers and what they say: a job is run whole, and heard of in as many pieces as chance wants.
//! What it says is held against the disk and against what was sent, before anybody hears of it.

use super::life::Flight;
use super::office::as_sent;
use super::provider::Intended;
use super::record::Record;
use super::strict::{self, Said};
use super::texts::Fate;
use super::world::{World, reads_of};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::resume_unwind;
use terret_ws::agent::ConnTag;
use terret_ws::conn::slab::Tag;
use terret_ws::disk::ReadError;
use terret_ws::proto::command::Command;
use terret_ws::proto::event::ErrorCode;
use terret_ws::work::advance::{Advance, Input};
use terret_ws::work::{Done, Job, Unopened, Upstream};

/// What the server's log says when a request is made again because the model's context was exceeded.
const HALVED: &str = "model is asked again with half the history";

/// What an agent's job was given, as far as it matters afterwards.
struct Given {
    session: usize,
    texts: Vec<(Option<ConnTag>, String)>,
    /// Frames of each connection that may be refused.
    refusable: BTreeMap<(u32, u32), usize>,
    verdicts: bool,
    cancels: usize,
    /// Texts that were in the log before.
    spoken: usize,
    /// A turn was open before.
    was_open: bool,
    /// Turns that had begun before.
    turns: u64,
}

/// What it came to.
#[derive(Default)]
struct Outcome {
    /// Something failed, and what is stored is not known.
    failed: bool,
    /// The log could not be opened.
    unopened: bool,
    stalled: bool,
    /// Cancels that found nothing to stop.
    idle_cancels: usize,
    refusals: BTreeMap<(u32, u32), usize>,
    full: BTreeSet<(u32, u32)>,
}

impl World {
    /// A worker runs one of the jobs that are next.
    pub(super) fn run_some_job(&mut self) {
        let may = self.life.jobs.len().min(self.plan.workers);
        if may == 0 {
            return;
        }
        let place = self.random.below(may);
        let job = self.life.jobs.remove(place).expect("it is there");
        self.run_job(job);
    }

    pub(super) fn run_job(&mut self, job: Job) {
        let given = match &job {
            Job::Advance(advance) => Some(self.given(advance)),
            _ => None,
        };
        let is_tool = matches!(job, Job::Tool(_));
        self.trace.say(|| format!("job: {}", describe(&job)));
        match &job {
            Job::Read(read) if read.cursor.is_some() => self.trace.reach("a replay in pieces"),
            Job::Close(_) => self.trace.reach("descriptors given away"),
            Job::Advance(_) if reads_of(&job) > 0 => self.trace.reach("a read between appends"),
            _ => {}
        }
        let mut dones = VecDeque::new();
        let worker = self.life.worker.as_mut().expect("the process lives");
        if let Err(panic) = worker.run_caught(job, &mut |done: Done| dones.push_back(done)) {
            if !panic.is::<Intended>() {
                resume_unwind(panic);
            }
            // A tool that panics costs nobody anything but its call's result.
            self.life.troubled |= !is_tool;
        }
        for done in &dones {
            self.trace.say(|| format!("  says {}", describe_done(done)));
            self.take_note(done);
        }
        self.check_reads(&dones);
        if let Some(given) = &given {
            self.account(given, &dones);
        }
        let session = given.map(|given| given.session);
        self.life.flights.push(Flight { session, dones });
    }

    /// Remembers what was reached.
    fn take_note(&self, done: &Done) {
        match done {
            Done::Events(events) => {
                kinds(&events.lines).split(' ').for_each(|kind| self.trace.reach(kind));
            }
            Done::Home(home) if home.body.as_ref().is_some_and(|body| body.is_stalled()) => {
                self.trace.reach("a batch held");
            }
            Done::Latched { .. } => self.trace.reach("a disk that failed"),
            Done::Panicked { .. } => self.trace.reach("a job that panicked"),
            Done::Notes(notes) => notes.iter().for_each(|note| self.trace.reach(note.event)),
            _ => {}
        }
    }

    fn given(&mut self, advance: &Advance) -> Given {
        let agent = advance.agent;
        let session = self.records.iter().position(|record| record.id == advance.session);
        let session = session.expect("only sessions of this world are advanced");
        self.life.agents.insert((agent.slot, agent.generation), session);
        let mut given = Given {
            session,
            texts: Vec::new(),
            refusable: BTreeMap::new(),
            verdicts: false,
            cancels: 0,
            spoken: self.records[session].spoken.len(),
            was_open: self.records[session].ledger.is_open(),
            turns: self.records[session].ledger.turns,
        };
        let held = advance.body.as_ref().is_some_and(|body| body.is_stalled());
        let waits = |input: &Input| matches!(input, Input::Tool { .. } | Input::Granted);
        if held && advance.inputs.iter().any(waits) {
            self.trace.reach("an outcome behind a batch held");
        }
        for input in &advance.inputs {
            let Input::Command { from, command } = input else { continue };
            match command {
                Command::Inject { text, .. } => given.texts.push((*from, text.clone())),
                Command::Approve { .. } | Command::Deny { .. } => given.verdicts = true,
                Command::Cancel { .. } => given.cancels += 1,
                _ => {}
            }
            if let (Some(from), false) = (from, matches!(command, Command::Cancel { .. })) {
                *given.refusable.entry((from.slot, from.generation)).or_default() += 1;
            }
        }
        given
    }

    fn check_reads(&self, dones: &VecDeque<Done>) {
        for done in dones {
            match done {
                Done::Piece { outcome: Err(ReadError::Damaged(place)), .. } => {
                    panic!("nothing was damaged: {place}")
                }
                Done::Piece { outcome: Err(ReadError::Io(error)), .. } => {
                    assert!(self.life.troubled, "nothing was wrong with the disk: {error}");
                }
                _ => {}
            }
        }
    }

    /// Holds what an agent's job said against what was promised, and takes note of what it promises.
    fn account(&mut self, given: &Given, dones: &VecDeque<Done>) {
        let mut outcome = Outcome { failed: self.life.has_lost_power(), ..Outcome::default() };
        let mut requests = self.brain.heard();
        let mut heard = Vec::new();
        for done in dones {
            let record = &mut self.records[given.session];
            match done {
                Done::Opened { outcome: Ok(tip), .. } => record.opened(&self.life.disk, tip.seq),
                Done::Opened { outcome: Err(why), .. } => self.check_unopened(why),
                Done::Events(published) => {
                    record.promise(published.first, &published.lines);
                    assert_eq!(published.tip.seq + 1, record.len());
                    assert_eq!(published.first + published.count, record.len());
                }
                Done::Replies(replies) => {
                    for reply in replies {
                        let to = (reply.to.slot, reply.to.generation);
                        match reply.code {
                            ErrorCode::Internal => *outcome.refusals.entry(to).or_default() += 1,
                            ErrorCode::BadFrame => drop(outcome.full.insert(to)),
                            ErrorCode::NotRunning => outcome.idle_cancels += 1,
                            ErrorCode::StaleCall | ErrorCode::Unsupported => {
                                assert!(given.verdicts, "{reply:?}");
                            }
                            code => panic!("{code:?} is not an agent's to say"),
                        }
                    }
                }
                Done::Upstream { command: Upstream::Connect { request, .. }, .. } => {
                    assert!(
                        record.ledger.is_asking(),
                        "{}: asks for no step of its log",
                        record.id
                    );
                    let end = request.windows(4).position(|four| four == b"\r\n\r\n");
                    let body = &request[end.expect("a request has a head") + 4..];
                    heard.push(Said::of_request(body));
                }
                Done::Notes(notes) if notes.iter().any(|note| note.event == HALVED) => {
                    record.halved = Some(record.ledger.steps);
                }
                Done::Tool(_) | Done::Launched(_) => {
                    assert!(record.ledger.is_calling(), "{}: runs no call of its log", record.id);
                }
                Done::Home(home) => match &home.body {
                    Some(body) => outcome.stalled = body.is_stalled(),
                    None => outcome.unopened = true,
                },
                Done::Panicked { .. } | Done::Latched { .. } => outcome.failed = true,
                _ => {}
            }
        }
        let record = &mut self.records[given.session];
        record.asked += requests.len() as u64;
        assert!(record.asked <= record.ledger.steps, "{}: asks twice for a step", record.id);
        for request in &mut requests {
            heard.push(std::mem::take(&mut request.messages));
            self.check_fresh(given.session, &request.fresh, heard.last().unwrap());
        }
        for messages in &heard {
            self.check_heard(given, messages);
        }
        self.judge_texts(given, &outcome);
        self.judge_refused(given, &outcome);
        let record = &mut self.records[given.session];
        assert!(outcome.idle_cancels <= given.cancels, "{}: nobody cancelled", record.id);
        let heard = !outcome.failed && !outcome.stalled && !outcome.unopened;
        let taken = given.cancels > outcome.idle_cancels && heard;
        if taken && given.was_open && record.ledger.turns == given.turns {
            record.ledger.cancel();
        }
        if !outcome.failed && !outcome.unopened {
            record.compare(&self.life.disk);
            record.check_kept(&self.life.disk);
        }
    }

    fn check_unopened(&self, why: &Unopened) {
        match why {
            Unopened::Missing => {}
            Unopened::Damaged { place, .. } => panic!("nothing was damaged: {place}"),
            Unopened::Full => assert!(self.life.troubled, "the disk was never full"),
            Unopened::Failed { reason } => {
                assert!(self.life.troubled, "nothing was wrong with the disk: {reason}");
            }
        }
    }

    /// Decides what is owed to the texts that a job was given.
    fn judge_texts(&mut self, given: &Given, outcome: &Outcome) {
        let record = &mut self.records[given.session];
        if outcome.failed {
            for (_, text) in &given.texts {
                if record.texts.fate(text) != Some(Fate::Logged) {
                    record.texts.settle(text, Fate::Doubtful);
                }
            }
            return;
        }
        let inbox = record.inbox(&self.life.disk);
        let fate = |text: &str| match (outcome.stalled, inbox.contains(text)) {
            (true, false) => Fate::Held,
            _ => Fate::Kept,
        };
        let held: Vec<String> =
            record.texts.that(|text| text.fate == Fate::Held).map(str::to_owned).collect();
        for text in held {
            record.texts.settle(&text, fate(&text));
        }
        for (from, text) in &given.texts {
            if record.texts.fate(text) == Some(Fate::Logged) {
                continue;
            }
            let fate = match from.map(|from| (from.slot, from.generation)) {
                _ if outcome.unopened => Fate::Refused,
                // Nobody is told; it is in the server's log.
                None if self.life.troubled => Fate::Doubtful,
                None => fate(text),
                Some(from) => {
                    let refusals = outcome.refusals.get(&from).copied().unwrap_or_default();
                    if refusals > 0 && refusals == given.refusable[&from] {
                        Fate::Refused
                    } else if refusals > 0 || outcome.full.contains(&from) {
                        Fate::Doubtful
                    } else {
                        fate(text)
                    }
                }
            };
            record.texts.settle(text, fate);
        }
    }

    /// The text that was to open a turn is spent when the hook refuses its first step.
    fn judge_refused(&mut self, given: &Given, outcome: &Outcome) {
        let (refused, vetoes) = self.office.said();
        if vetoes > 0 {
            self.trace.reach("a call vetoed");
        }
        let record = &mut self.records[given.session];
        for (index, refused) in refused.into_iter().enumerate() {
            self.trace.reach("a step refused");
            let Some(first) = refused.first.filter(|_| refused.n == 1) else { continue };
            let first = as_sent(&first);
            let unsure = outcome.failed || outcome.stalled || given.was_open && index == 0;
            if record.texts.fate(first) != Some(Fate::Logged) && record.texts.wakes(first) {
                record.texts.settle(first, if unsure { Fate::Doubtful } else { Fate::Refused });
            }
        }
    }

    /// What a step took in stands in its request, at the end.
    fn check_fresh(&self, session: usize, fresh: &[String], messages: &[Said]) {
        let Some(last) = fresh.last() else { return };
        let Some(Said::User(text)) = messages.last() else {
            panic!("{}: a step took in {last:?} and asks otherwise", self.records[session].id)
        };
        let said = if last.is_empty() { "(no text)" } else { last };
        assert!(text.ends_with(said), "{last:?} is not what is asked: {text:?}");
    }

    /// A request keeps to the rules of providers, and holds every text of the log up to some point,
    /// each once, in order.
    fn check_heard(&self, given: &Given, messages: &[Said]) {
        strict::check(messages);
        let record = &self.records[given.session];
        let users: Vec<&String> = messages
            .iter()
            .filter_map(|message| match message {
                Said::User(text) => Some(text),
                _ => None,
            })
            .collect();
        let is_asked = |text: &str| users.iter().filter(|user| user.contains(text)).count();
        let spoken: Vec<usize> = record.spoken.iter().map(|(_, text)| is_asked(text)).collect();
        let twice = spoken.iter().position(|&times| times > 1);
        assert!(twice.is_none(), "asked twice: {:?}", twice.map(|place| &record.spoken[place]));
        let halved = record.halved == Some(record.ledger.steps);
        if halved || self.plan.config.history_bytes < 1 << 20 {
            return;
        }
        let asked = spoken.iter().take_while(|&&times| times == 1).count();
        assert!(asked >= given.spoken.min(record.spoken.len()), "not all is asked: {spoken:?}");
        assert!(spoken[asked..].iter().all(|&times| times == 0), "a gap: {spoken:?}");
    }

    /// The reactor hears one answer, or all of a job's.
    pub(super) fn hear_something(&mut self) {
        if self.life.flights.is_empty() {
            return;
        }
        let place = self.random.below(self.life.flights.len());
        let all = self.random.chance(50);
        while self.hear(place) && all {}
    }

    /// The reactor hears the next answer of a job; false if that was the last.
    pub(super) fn hear(&mut self, place: usize) -> bool {
        let flight = &mut self.life.flights[place];
        let (session, done) = (flight.session, flight.dones.pop_front());
        let over = flight.dones.is_empty();
        if over {
            self.life.flights.swap_remove(place);
        }
        let Some(done) = done else { return false };
        let replaced = self.replaced_reader(&done);
        self.trace.say(|| format!("heard: {}", describe_done(&done)));
        match &done {
            Done::Opened { outcome: Ok(tip), .. } => self.record(session).published = tip.seq + 1,
            Done::Events(events) => self.record(session).published = events.tip.seq + 1,
            Done::Replies(replies) => {
                for reply in replies {
                    let tag = Tag { slot: reply.to.slot, generation: reply.to.generation };
                    if let Some(client) = self.clients.iter_mut().find(|client| client.tag == tag) {
                        client.expect_error(reply.code.as_str());
                    }
                }
            }
            Done::Panicked { agent: Some(_), .. } => {
                self.record(session).texts.lose_posted();
                self.record(session).ledger.forget_cancel();
            }
            _ => {}
        }
        assert!(self.life.hub.done(done).is_none(), "it is for the hub");
        if let Some(tag) = replaced {
            assert!(!self.life.hub.is_ending(tag), "ended by a read for what it had replaced");
        }
        self.obey();
        !over
    }

    /// The client of a read that failed, if it has certainly subscribed anew since and is not ending.
    fn replaced_reader(&self, done: &Done) -> Option<Tag> {
        let Done::Piece { conn, generation, outcome: Err(_) } = done else { return None };
        let client = self.clients.iter().find(|client| client.tag == *conn)?;
        let replaced = *generation < client.stream.read() && !self.life.hub.is_ending(*conn);
        if replaced {
            self.trace.reach("a failed read of what was replaced");
        }
        replaced.then_some(*conn)
    }

    fn record(&mut self, session: Option<usize>) -> &mut Record {
        &mut self.records[session.expect("it is an agent's")]
    }
}

fn describe(job: &Job) -> String {
    match job {
        Job::Advance(advance) => {
            let inputs: Vec<String> = advance.inputs.iter().map(describe_input).collect();
            format!("{} {}", advance.session, inputs.join(", "))
        }
        Job::Read(read) => format!("{} read from {} to {}", read.session, read.from, read.tip.seq),
        Job::Tool(_) => "tool".to_owned(),
        Job::Close(files) => format!("close {} files", files.len()),
        Job::Chore(_) => "chore".to_owned(),
        Job::Sweep { after, .. } => format!("sweep behind {after:?}"),
    }
}

fn describe_input(input: &Input) -> String {
    match input {
        Input::Command { command, .. } => {
            let mut command = format!("{command:?}");
            command.truncate(command.char_indices().nth(60).map_or(usize::MAX, |(at, _)| at));
            command
        }
        Input::Net(_) => "net".to_owned(),
        Input::Tool { outcome, .. } => format!("tool {outcome:?}"),
        Input::Clock => "clock".to_owned(),
        Input::Granted => "granted".to_owned(),
        Input::Read(read) => format!("read from {}", read.from),
        Input::Snapshot { .. } => "snapshot".to_owned(),
        Input::Resume => "resume".to_owned(),
        Input::Reloaded => "reloaded".to_owned(),
        Input::Recover => "recover".to_owned(),
        Input::Retry => "retry".to_owned(),
        Input::Rest => "rest".to_owned(),
        Input::Trim => "trim".to_owned(),
    }
}

/// The types of the events of these lines.
fn kinds(lines: &[u8]) -> String {
    let kinds = lines.split_inclusive(|&byte| byte == b'\n').filter_map(|line| {
        let text = std::str::from_utf8(line).ok()?;
        text.split("\"type\":\"").nth(1)?.split('"').next()
    });
    kinds.collect::<Vec<_>>().join(" ")
}

fn describe_done(done: &Done) -> String {
    match done {
        Done::Opened { outcome, .. } => format!("opened {outcome:?}"),
        Done::Events(events) => {
            let last = events.first + events.count - 1;
            format!("events {}..={last}: {}", events.first, kinds(&events.lines))
        }
        Done::Replies(replies) => format!("{replies:?}"),
        Done::Upstream { command: Upstream::Connect { .. }, .. } => "connect".to_owned(),
        Done::Upstream { .. } => "disconnect".to_owned(),
        Done::Tool(_) => "run a tool".to_owned(),
        Done::ToolEnded { outcome, .. } => format!("tool ended {outcome:?}"),
        Done::Snapshot { .. } => "snapshot".to_owned(),
        Done::Piece { outcome, .. } => match outcome {
            Ok(piece) => format!("piece {}+{}", piece.first, piece.count),
            Err(error) => format!("no piece: {error}"),
        },
        Done::Home(home) => match &home.body {
            Some(body) if body.is_stalled() => "home, stalled".to_owned(),
            Some(_) => format!("home, wakes at {:?}, again {}", home.wake_at, home.again),
            None => "home, unopened".to_owned(),
        },
        Done::Swept(swept) => format!("{swept:?}"),
        Done::Panicked { .. } => "panicked".to_owned(),
        Done::Latched { reason } => format!("latched: {reason}"),
        Done::Resolved(_) | Done::Control(_) | Done::Launched(_) => "something else".to_owned(),
        Done::Notes(notes) => {
            let events: Vec<&str> = notes.iter().map(|note| note.event).collect();
            format!("notes: {}", events.join(", "))
        }
    }
}
