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
//! `weather`, `jobs` and `rest` are what may happen; `client`, `record`, `ledger`, `texts`, `stream`
//! and `strict` know what must hold, and are made without a look at what they judge.

mod client;
mod jobs;
mod ledger;
mod life;
mod look;
mod plan;
mod provider;
mod random;
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

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};
use trace::Trace;
use world::World;

/// How many seeds run when nobody asks for others: always the same, and new ones.
const FIXED: u64 = 24;
const FRESH: u64 = 8;
/// Steps of each when nobody asks for another number.
const STEPS: usize = 500;

#[test]
fn whatever_happens_nothing_that_was_promised_is_broken() {
    let seeds = seeds();
    let steps = variable("TERRET_SIM_STEPS").map_or(STEPS, |steps| steps.parse().unwrap());
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from).min(seeds.len());
    let failures: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut failures = Vec::new();
                    while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                        failures.extend(failure_of(seed, steps));
                    }
                    failures
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Runs one seed; what went wrong, and how to have it again.
fn failure_of(seed: u64, steps: usize) -> Option<String> {
    let trace = Trace::default();
    let told = trace.clone();
    let run = AssertUnwindSafe(|| World::new(seed, told).run(steps));
    let panic = catch_unwind(run).err()?;
    let said = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or(panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without words");
    Some(format!(
        "seed {seed} failed in step {} of {steps}: {said}\n{}\
         again: TERRET_SIM_SEED={seed} TERRET_SIM_STEPS={steps} cargo test --test it sim\n",
        trace.steps(),
        trace.text()
    ))
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
    (0..FIXED).chain(fresh..fresh + FRESH).collect()
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}
