//! A simulation of everything: agents, clients, models, the disk, the workers and time, from one seed.
//!
//! What is simulated is the world; the server is the real one, from the bytes of the handshake to the
//! bytes of the log, without threads, sockets and clocks. A seed decides every interleaving, every
//! failed write and every death, so that a failure can be had again at will:
//!
//! ```text
//! cargo test --test it sim                                  some fixed seeds and some fresh ones
//! TERRET_SIM_SEED=17 cargo test --test it sim               one seed
//! TERRET_SIM_SEEDS=0..1000 cargo test --test it sim         many
//! TERRET_SIM_STEPS=5000                                     more happens in each
//! ```
//!
//! In reading order: `plan` and `random` decide, `world` lets things happen and checks, `talk`,
//! `weather`, `jobs`, `programs` and `rest` are what may happen, `provider`, `remote`, `tools` and `office`
//! are who the server deals with; `client`, `record`, `ledger`, `texts`, `stream` and `strict` know what
//! must hold, and are made without a look at what they judge.

mod client;
mod jobs;
pub(crate) mod ledger;
mod life;
mod look;
mod office;
mod plan;
mod programs;
mod provider;
pub(crate) mod random;
mod record;
mod remote;
mod rest;
mod stream;
mod strict;
mod talk;
mod texts;
mod tools;
mod trace;
mod weather;
mod world;

use std::collections::BTreeSet;
use std::env;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};
use trace::Trace;
use world::World;

/// How many seeds run when nobody asks for others: always the same, and new ones.
const FIXED: u64 = 24;
const FRESH: u64 = 8;
/// Beside them, what found a mistake made on purpose that few others find.
const CHOSEN: [u64; 4] = [29, 38, 73, 84];
/// What has to happen in some seed of so many, or the simulation is not what it is meant to be.
const REACHED: [&str; 29] = [
    "turn/end",
    "tool/result",
    "context/injected",
    "approval/requested",
    "approval/resolved",
    "policy/updated",
    "bad_frame",
    "not_running",
    "stale_call",
    "superseded",
    "unauthorized",
    "internal",
    "a read between appends",
    "descriptors given away",
    "a batch held",
    "text refused: storage full",
    "model is asked again",
    "a failed read of what was replaced",
    "a step refused",
    "a call vetoed",
    "a program that ended",
    "a disk that failed",
    "log tail was torn and has been set aside",
    "a kill",
    "a power cut",
    "a power cut in a job",
    "a clean stop",
    "a death in a turn",
    "a death with texts in the inbox",
];
/// Steps of each when nobody asks for another number.
const STEPS: usize = 800;

#[test]
fn whatever_happens_nothing_that_was_promised_is_broken() {
    let seeds = seeds();
    let steps = variable("TERRET_SIM_STEPS").map_or(STEPS, |steps| steps.parse().unwrap());
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from).min(seeds.len());
    let work = || {
        let take = || seeds.get(next.fetch_add(1, Ordering::Relaxed));
        iter::from_fn(take).map(|&seed| Run::of(seed, steps)).collect::<Vec<_>>()
    };
    let runs: Vec<Run> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let failures: Vec<&str> = runs.iter().filter_map(|run| run.failure.as_deref()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    if seeds.len() as u64 >= FIXED && steps >= STEPS {
        let reached: BTreeSet<&String> = runs.iter().flat_map(|run| &run.reached).collect();
        let missed = REACHED.iter().filter(|what| !reached.contains(&(**what).to_owned()));
        let missed: Vec<_> = missed.collect();
        assert!(missed.is_empty(), "never happened, so nothing is known of it: {missed:?}");
    }
}

/// What came of one seed.
struct Run {
    /// What went wrong, and how to have it again.
    failure: Option<String>,
    reached: BTreeSet<String>,
}

impl Run {
    fn of(seed: u64, steps: usize) -> Self {
        let trace = Trace::default();
        let told = trace.clone();
        let run = AssertUnwindSafe(|| World::new(seed, told).run(steps));
        let failure = catch_unwind(run).err().map(|panic| {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or(panic.downcast_ref::<&str>().copied());
            format!(
                "seed {seed} failed in step {} of {steps}: {}\n{}again: TERRET_SIM_SEED={seed} \
                 TERRET_SIM_STEPS={steps} cargo test --test it sim\n",
                trace.steps(),
                said.unwrap_or("a panic without words"),
                trace.text()
            )
        });
        Self { failure, reached: trace.reached() }
    }
}

fn seeds() -> Vec<u64> {
    if let Some(seed) = variable("TERRET_SIM_SEED") {
        return vec![seed.parse().unwrap()];
    }
    if let Some(range) = variable("TERRET_SIM_SEEDS") {
        let (from, to) = range.split_once("..").expect("TERRET_SIM_SEEDS is from..to");
        return (from.parse().unwrap()..to.parse().unwrap()).collect();
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let fresh = now.as_micros() as u64;
    (0..FIXED).chain(CHOSEN).chain(fresh..fresh + FRESH).collect()
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}
