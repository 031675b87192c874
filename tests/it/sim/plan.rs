//! What one seed is about: how large everything is, what may go wrong, and how often each thing
//! happens. Every seed leaves some things out, so that what the others lead to gets its turn.

use super::random::Random;
use terret_ws::config::{CancelStream, Config, RolesScope};
use terret_ws::disk::{LogOptions, SyncMode};
use terret_ws::hub;

/// What may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// A worker runs a job.
    Run,
    /// The reactor hears what a job had to say.
    Hear,
    /// Bytes of a client reach the server.
    Carry,
    /// A client takes bytes.
    Take,
    /// Somebody connects.
    Dial,
    /// A client says something.
    Say,
    /// A client goes away.
    Leave,
    /// A model server does something.
    Serve,
    /// Time passes.
    Wait,
    /// Something is asked over HTTP.
    Look,
    /// The embedding program or the operator does something.
    Operate,
    /// The disk begins to fail, or recovers.
    Hurt,
    /// The process ends, and another one starts.
    Die,
    /// Everything that can go on without time passing does, and what is said is compared with the
    /// log.
    Settle,
}

/// Each with its weight in a seed that leaves nothing out.
const ACTS: [(Act, u32); 14] = [
    (Act::Run, 220),
    (Act::Hear, 260),
    (Act::Carry, 160),
    (Act::Take, 60),
    (Act::Dial, 40),
    (Act::Say, 140),
    (Act::Leave, 12),
    (Act::Serve, 120),
    (Act::Wait, 40),
    (Act::Look, 12),
    (Act::Operate, 10),
    (Act::Hurt, 14),
    (Act::Die, 5),
    (Act::Settle, 8),
];

/// What must always be possible, or nothing is.
const ALWAYS: [Act; 5] = [Act::Run, Act::Hear, Act::Carry, Act::Dial, Act::Say];

/// See the module's documentation.
pub(super) struct Plan {
    pub(super) sessions: usize,
    weights: Vec<u32>,
    pub(super) log: LogOptions,
    pub(super) config: Config,
    pub(super) options: hub::Options,
    /// Jobs that may overtake one another.
    pub(super) workers: usize,
    /// Texts and answers are so long that a log takes several pieces to read.
    pub(super) long: bool,
    /// The disk is full again and again, and nothing else is wrong with it.
    pub(super) tight: bool,
    /// The embedding program has something to say about turns.
    pub(super) hooks: bool,
    /// Some tools are programs.
    pub(super) programs: bool,
    /// Requests that the remote provider answers at once.
    pub(super) requests_max: Option<usize>,
    /// Code of the embedding program may panic.
    pub(super) panics: bool,
    /// How many in a hundred answers of a model call tools.
    pub(super) calls_percent: u32,
    /// How many in a hundred clients are slow from the start.
    pub(super) slow_percent: u32,
}

impl Plan {
    pub(super) fn new(random: &mut Random) -> Self {
        let tight = random.chance(25);
        let weights = ACTS.iter().map(|(act, weight)| {
            let factors: &[u32] = if ALWAYS.contains(act) { &[1, 2] } else { &[0, 1, 1, 1, 4] };
            let often = if tight && *act == Act::Hurt { 6 } else { 1 };
            weight * often * random.pick(factors)
        });
        let weights = weights.collect();
        let sessions = 1 + random.below(if tight { 2 } else { 5 });
        let long = random.chance(20);
        let mut config = Config {
            approvals: random.chance(80),
            policy: random
                .pick(&[&["*"][..], &["*"], &["*"], &["read_*", "s*"], &[]])
                .iter()
                .map(|&glob| glob.to_owned())
                .collect(),
            queue_limit: random.pick(&[1, 5, 30, 4096]),
            queue_bytes: random.pick(&[1000, 1 << 20, 1 << 20]),
            replay_limit: random.pick(&[5, 40, 10_000, 10_000]),
            max_concurrent_replays: 1 + random.below(3),
            heartbeat_s: random.pick(&[1, 20]),
            history_bytes: random.pick(&[2000, 1 << 24, 1 << 24]),
            stop_grace_s: random.pick(&[0, 20]),
            resume_on_start: random.chance(30),
            ..Config::default()
        };
        if random.chance(30) {
            config.cancel_stream = CancelStream::Finish;
        }
        if random.chance(30) {
            config.roles_scope = RolesScope::Agent;
        }
        let mut options = hub::Options::new(
            &config,
            random.pick(&[sessions + 1, 100]),
            random.pick(&[1, 2, 100]),
        );
        options.idle_residents_max = random.pick(&[0, 1, 100]);
        let sync = if random.chance(85) { SyncMode::Always } else { SyncMode::Os };
        let segment_bytes = if long { 1 << 18 } else { random.pick(&[1500, 6000, 1 << 20]) };
        Self {
            sessions,
            weights,
            log: LogOptions { sync, segment_bytes },
            config,
            options,
            workers: 1 + random.below(4),
            long,
            tight,
            hooks: random.chance(50),
            programs: random.chance(50),
            requests_max: random.pick(&[None, Some(1), Some(2)]),
            panics: random.chance(30),
            calls_percent: if tight { 80 } else { random.pick(&[10, 50, 80]) },
            slow_percent: random.pick(&[0, 20, 60]),
        }
    }

    pub(super) fn next(&self, random: &mut Random) -> Act {
        let place = random.weighted(&self.weights).expect("some things are always possible");
        ACTS[place].0
    }

    /// How long the next text is.
    pub(super) fn text_bytes(&self, random: &mut Random) -> usize {
        if self.long && random.chance(30) { random.below(60_000) } else { random.below(40) }
    }
}
