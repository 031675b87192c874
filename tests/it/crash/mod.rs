//! Real servers that are killed at random moments while clients talk to them, and started again on
//! the same directory: nothing that a client has seen changes, or vanishes but for being too old to be
//! kept, and everything that was accepted happens once.
//!
//! The simulator (`sim`) decides every call of the disk; here the process, the kernel and the tools are
//! real, and only what is done to them comes from a seed: two runs of one seed make the same
//! decisions and meet different moments.
//!
//! ```text
//! cargo test --test it crash                                 a few dozen deaths
//! TERRET_CRASH_ROUNDS=1000 cargo test --test it crash        so many of each kind
//! TERRET_CRASH_SEED=17 cargo test --test it crash            one seed of each kind
//! ```
//!
//! In reading order: `plan` decides what a server is like, `life` starts and ends it, `player` is a
//! client, `book` is what one client knows and what must hold of it, `last` is how a run ends.

mod book;
mod last;
mod life;
mod plan;
mod player;

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::sim::random::Random;
use life::{Run, Tally};
use plan::{Death, Plan};

/// Deaths of one server's directory before it is looked at as a whole.
const ROUNDS_PER_SEED: usize = 8;

#[test]
fn nothing_seen_and_nothing_accepted_is_lost_to_kill_9() {
    play(Death::Kill, 2);
}

#[test]
fn nothing_seen_and_nothing_accepted_is_lost_to_sigterm() {
    play(Death::Term, 1);
}

#[test]
fn nothing_seen_and_nothing_accepted_is_lost_by_a_server_that_is_process_1() {
    play(Death::ProcessOne, 1);
}

#[test]
fn nothing_seen_and_nothing_accepted_is_lost_at_any_call_that_changes_a_file() {
    play(Death::Call, 1);
}

/// Runs as many seeds as are asked for, or `few` where nobody asks.
fn play(death: Death, few: usize) {
    if let Some(missing) = life::missing(death) {
        eprintln!("skipped, servers cannot die like this here: {death:?}: {missing}");
        return;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let first = variable("TERRET_CRASH_SEED").unwrap_or(now.as_micros() as u64);
    let rounds = variable("TERRET_CRASH_ROUNDS").map(|rounds| rounds as usize);
    let seeds = match (variable("TERRET_CRASH_SEED"), rounds) {
        (Some(_), None) => 1,
        (_, rounds) => rounds.map_or(few, |rounds| rounds.div_ceil(ROUNDS_PER_SEED)),
    };
    let mut sum = Tally::default();
    for seed in (first..).take(seeds) {
        let run = AssertUnwindSafe(|| {
            let mut random = Random::new(seed);
            let plan = Plan::new(death, &mut random);
            Run::new(plan, random).run(ROUNDS_PER_SEED)
        });
        match catch_unwind(run) {
            Ok(tally) => sum.add(tally),
            Err(panic) => {
                let said = panic.downcast_ref::<String>().map(String::as_str);
                let said = said.or(panic.downcast_ref::<&str>().copied());
                panic!(
                    "{death:?}, seed {seed}: {}\nagain, at other moments: TERRET_CRASH_SEED={seed} \
                     cargo test --test it crash",
                    said.unwrap_or("a panic without words")
                );
            }
        }
    }
    eprintln!("{death:?}, seeds {first}..{}: {sum}", first + seeds as u64);
}

fn variable(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap())
}
