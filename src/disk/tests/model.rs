//! Random operations, with the power failing or the process dying at every single call, against what
//! a client and an agent hold: every published event is there, unchanged, under the same seq; nothing
//! is there that was not written; every accepted text is either waiting or in the log, once.

use super::super::sim::Random;
use super::*;
use crate::log::line::Shape;

/// What the world outside knows of the session.
#[derive(Default)]
struct World {
    /// Lines that were published, by seq.
    published: Vec<Vec<u8>>,
    /// Events whose append ended in an error that leaves open what is stored.
    in_doubt: Vec<NewEvent>,
    /// Texts that were accepted, in order.
    accepted: Vec<InboxEntry>,
    /// Texts of which that is not known.
    accepted_in_doubt: Vec<InboxEntry>,
    /// Events below this one may have been removed for their age.
    may_begin: u64,
    next_id: u64,
}

impl World {
    fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// What was recovered must be what is known, and may be more by what is in doubt.
    fn check(&mut self, store: &Store, opened: &Opened) {
        let tip = opened.log.tip();
        let (first, lines) = match read_all(store, 0, tip) {
            Err(ReadError::Removed { first }) => (first, read_all(store, first, tip)),
            lines => (0, lines),
        };
        assert!(first <= self.may_begin, "it begins with {first}, which nobody wanted");
        let mut lines = split(&lines.expect("an opened log can be read"));
        assert_eq!(first + lines.len() as u64, tip.seq + 1);
        // What was removed was published, or it could not have been.
        lines.splice(..0, self.published[..first as usize].iter().cloned());
        assert!(lines.starts_with(&self.published), "a published event is gone or changed");
        let shape = Shape::new(session());
        let surplus: Vec<NewEvent> = lines[self.published.len()..]
            .iter()
            .map(|line| {
                let event = shape.event(&line[..line.len() - 40]).unwrap();
                let body = Body::parse(event.kind, event.payload).unwrap().unwrap();
                NewEvent { id: event.id, body }
            })
            .collect();
        assert!(self.in_doubt.starts_with(&surplus), "{surplus:?} was not written");
        let logged = |entry: &InboxEntry| {
            lines.iter().any(|line| shape.event(&line[..line.len() - 40]).unwrap().id == entry.id)
        };
        let is_in_doubt = |entry: &InboxEntry| self.accepted_in_doubt.contains(entry);
        let waiting = opened.inbox.iter().filter(|entry| !is_in_doubt(entry));
        let expected = self.accepted.iter().filter(|entry| !logged(entry));
        assert!(waiting.eq(expected), "{:?} wait", opened.inbox);
        (self.published, self.in_doubt) = (lines, Vec::new());
        (self.accepted, self.accepted_in_doubt) = (opened.inbox.clone(), Vec::new());
    }
}

/// One life of a process: it opens the session, checks it, and works until something stops it.
fn live(world: &mut World, disk: &SimDisk, options: LogOptions, random: &mut Random, steps: u32) {
    let Ok(store) = Store::open(Arc::new(disk.clone()), "data", options) else { return };
    if world.published.is_empty() && world.in_doubt.is_empty() {
        world.in_doubt = vec![NewEvent { id: CREATE.unwrap().0, body: Body::SessionCreated }];
    }
    let mut opened = match store.open_session(&session(), CREATE) {
        Ok(opened) => opened,
        Err(OpenError::Io(_)) => return,
        Err(error) => panic!("{error}"),
    };
    world.check(&store, &opened);
    for _ in 0..steps {
        match random.below(11) {
            10 => {
                let keep = random.below(6) as u64;
                let last = opened.log.tip().seq;
                world.may_begin = world.may_begin.max(last.min((last + 1).saturating_sub(keep)));
                let retention = Retention { keep_events: Some(keep), keep_days: None };
                if opened.log.trim(&store, &retention, 0, AT).is_err() && store.latched().is_some()
                {
                    return;
                }
            }
            0..=4 => {
                if !append(world, &store, &mut opened.log, random) {
                    return;
                }
            }
            5 => opened.log.attest(&store),
            6 => drop(opened.log.close()),
            7 => {
                if !accept(world, &store, &mut opened.log, random) {
                    return;
                }
            }
            8 => {
                let space = random.coin().then(|| random.below(400) as u64);
                disk.faults(|faults| {
                    (faults.space, faults.short_writes) = (space, random.coin());
                    faults.opens_fail = u32::from(random.below(4) == 0);
                    faults.syncs_fail = u32::from(random.below(8) == 0);
                });
            }
            _ => match store.open_session(&session(), None) {
                Ok(again) => {
                    world.check(&store, &again);
                    opened = again;
                }
                Err(OpenError::Io(_)) => {}
                Err(error) => panic!("{error}"),
            },
        }
    }
    disk.faults(|faults| faults.space = None);
    opened.log.attest(&store);
}

fn append(world: &mut World, store: &Store, log: &mut SessionLog, random: &mut Random) -> bool {
    let mut events: Vec<NewEvent> = (0..=random.below(4))
        .map(|_| chunk(world.fresh_id(), &"x".repeat(random.below(90))))
        .collect();
    if random.coin() {
        events.extend(world.accepted.iter().map(|entry| chunk(entry.id.0, &entry.text)));
    }
    match log.append(store, &events, AT) {
        Ok(lines) => {
            world.published.extend(split(&lines));
            world.accepted.retain(|entry| events.iter().all(|event| event.id != entry.id));
        }
        Err(
            AppendError::NoSpace { lines, appended }
            | AppendError::Unopened { lines, appended, .. },
        ) => {
            assert_eq!((lines.len(), appended), (0, 0), "these all fit one part");
        }
        Err(AppendError::Latched(_)) => {
            world.in_doubt = events;
            return false;
        }
    }
    assert_eq!(log.tip().seq + 1, world.published.len() as u64);
    true
}

fn accept(world: &mut World, store: &Store, log: &mut SessionLog, random: &mut Random) -> bool {
    let entries: Vec<InboxEntry> = (0..=random.below(2))
        .map(|_| InboxEntry {
            id: EventId(world.fresh_id()),
            at: AT,
            wake: random.coin(),
            text: "y".repeat(random.below(90)),
            after: world.published.len() as u64,
        })
        .collect();
    match log.inbox_append(store, &entries) {
        Ok(()) => world.accepted.extend(entries),
        Err(AppendError::NoSpace { .. } | AppendError::Unopened { .. }) => {}
        Err(AppendError::Latched(_)) => {
            world.accepted_in_doubt = entries;
            return false;
        }
    }
    true
}

/// How a life ends.
#[derive(Clone, Copy, Debug)]
enum End {
    PowerCut,
    Kill,
    /// Every first life is killed, and the power fails behind every second one.
    Either,
}

impl End {
    fn of(self, disk: &SimDisk, life: u32) -> SimDisk {
        match self {
            Self::PowerCut => disk.crash(),
            Self::Either if life.is_multiple_of(2) => disk.crash(),
            Self::Kill | Self::Either => {
                let disk = disk.kill();
                disk.faults(|faults| *faults = super::super::sim::Faults::default());
                disk
            }
        }
    }
}

/// Four lives on one disk: the first ends at call `last`, the second a few calls later, perhaps in the
/// middle of its recovery, and the others live to their end. Says how many calls the first made.
fn lives(seed: u64, last: Option<u64>, options: LogOptions, end: End) -> u64 {
    let disk = SimDisk::new(seed);
    let mut world = World::default();
    disk.faults(|faults| faults.power_fails_at = last);
    live(&mut world, &disk, options, &mut Random(seed), 25);
    let calls = disk.calls();
    let mut random = Random(seed ^ last.unwrap_or(0) << 32);
    let disk = end.of(&disk, 1);
    let second = disk.calls() + 1 + random.below(12) as u64;
    disk.faults(|faults| faults.power_fails_at = Some(second));
    live(&mut world, &disk, options, &mut random, 10);
    let disk = end.of(&disk, 2);
    live(&mut world, &disk, options, &mut random, 5);
    let disk = end.of(&disk, 3);
    disk.faults(|faults| faults.syncs_fail = u32::from(random.coin()));
    live(&mut world, &disk, options, &mut random, 5);
    let disk = end.of(&disk, 4);
    live(&mut world, &disk, options, &mut random, 0);
    let store = store_on(&end.of(&disk, 4), options);
    world.check(&store, &store.open_session(&session(), None).unwrap());
    calls
}

fn every_call_of(seeds: std::ops::Range<u64>, sync: SyncMode, end: End) {
    for seed in seeds {
        let options = LogOptions { sync, segment_bytes: 900 + seed * 100 };
        let calls = lives(seed, None, options, end);
        assert!(calls > 8, "seed {seed} did not even make its session");
        for last in 1..=calls {
            let outcome = std::panic::catch_unwind(|| lives(seed, Some(last), options, end));
            assert!(outcome.is_ok(), "seed {seed}, {end:?} at call {last}");
        }
    }
}

#[test]
fn nothing_published_is_lost_when_the_power_fails_at_any_call() {
    every_call_of(0..6, SyncMode::Always, End::PowerCut);
}

#[test]
fn nothing_published_is_lost_when_the_process_dies_at_any_call() {
    every_call_of(20..22, SyncMode::Always, End::Kill);
    every_call_of(30..32, SyncMode::Os, End::Kill);
    every_call_of(40..45, SyncMode::Always, End::Either);
}

#[test]
fn damage_anywhere_in_what_was_attested_is_never_taken_for_a_tear() {
    let mut random = Random(1);
    for seed in 0..400 {
        let disk = SimDisk::new(seed);
        let store = store_on(&disk, ALWAYS);
        let mut log = store.open_session(&session(), CREATE).unwrap().log;
        for id in 1..=random.below(6) as u64 {
            log.append(&store, &[chunk(id, &"x".repeat(random.below(90)))], AT).unwrap();
        }
        log.attest(&store);
        drop((log, store));
        let disk = disk.kill();
        let mut bytes = disk.contents(FIRST).unwrap();
        let attest = bytes.len() - 40;
        let from = random.below(attest);
        let to = from + 1 + random.below((attest - from).min(200));
        let zeros = random.coin();
        for byte in &mut bytes[from..to] {
            *byte = if zeros { 0 } else { *byte ^ (1 + random.below(255) as u8) };
        }
        disk.plant(FIRST, &bytes);
        let store = store_on(&disk, ALWAYS);
        let error = store.open_session(&session(), CREATE).expect_err("it is damaged");
        assert!(matches!(error, OpenError::Damaged { .. }), "seed {seed}: {error}");
        assert_eq!(disk.contents(FIRST).unwrap(), bytes, "seed {seed}: touched");
    }
}
