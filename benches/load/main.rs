//! A load on a real server over loopback: many clients in one process, every stream checked for gaps
//! and duplicates while it is measured.
//!
//!     cargo bench --bench load                   everything
//!     cargo bench --bench load -- storm wakes    these scenarios
//!     cargo bench --bench load -- compare        ours beside a bare server and tokio-tungstenite
//!     cargo bench --bench load -- replay         these rows of that table
//!     cargo bench --bench load -- --short        small sizes, to see that it holds
//!
//! What a row says is CPU time of the server process and ratios within one run; wall-clock times
//! depend on what else the machine does. In what is compared, servers have a core for themselves and
//! clients the others. The last line is everything as JSON.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program of its own for whoever measures; like a test, it fails where it stands"
)]

mod baseline;
mod compare;
mod fairness;
mod handshake;
mod live;
mod memory;
mod peers;
mod replay;
mod scenarios;
mod server;

use std::env;

use compare::{Row, Scale};
use scenarios::{Figures, Size};

/// A scenario: its name, what it is, and what it measures.
type Scenario = (&'static str, &'static str, fn(&Size) -> Figures);

const SCENARIOS: [Scenario; 5] = [
    ("storm", "all clients come back at once and replay", scenarios::storm),
    ("fanout", "every agent streams to its client", scenarios::fanout),
    ("slow", "readers that read nothing among some that do", scenarios::slow),
    ("wakes", "bursts of waking texts", scenarios::wakes),
    ("fairness", "a quiet client alone and beside one that floods", fairness::fairness),
];

/// Rows of the table that compares, under the name they are asked for with.
type Rows = (&'static str, fn(&Scale) -> Vec<Row>);

const ROWS: [Rows; 6] = [
    ("handshake", handshake::rows),
    ("replay", replay::rows),
    ("live", live::paced_rows),
    ("fast", live::fast_rows),
    ("hop", live::hop_rows),
    ("memory", memory::rows),
];

/// All of them.
const COMPARE: &str = "compare";
/// How often each of them is measured.
const ROUNDS: usize = 5;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == baseline::ARGUMENT) {
        return baseline::run(&arguments[1..]);
    }
    let mut short = false;
    let mut wanted: Vec<&str> = Vec::new();
    let rows = ROWS.map(|(name, _)| name);
    let known = [&SCENARIOS.map(|(name, ..)| name)[..], &rows, &[COMPARE]].concat();
    for argument in &arguments {
        match argument.as_str() {
            // What cargo adds of itself.
            "--bench" => {}
            "--short" => short = true,
            COMPARE => wanted.extend(rows),
            name if known.contains(&name) => wanted.push(name),
            other => {
                eprintln!("load: nothing is named {other}: choose of {known:?}, or --short");
                std::process::exit(2);
            }
        }
    }
    if wanted.is_empty() {
        wanted = known;
    }
    let binary = server::binary(short);
    let built = if short { ", built for benches" } else { "" };
    println!("the server is {}{built}", binary.display());
    let mut all = serde_json::Map::new();
    let size = Size::new(short, binary.clone());
    for (name, what, run) in SCENARIOS.iter().filter(|(name, ..)| wanted.contains(name)) {
        println!("{name}: {what}");
        let figures = run(&size);
        for (figure, value) in &figures {
            println!("    {figure:<36} {value:>14.2}");
        }
        let figures = figures.into_iter().map(|(figure, value)| (figure.to_owned(), value.into()));
        all.insert((*name).to_owned(), serde_json::Value::Object(figures.collect()));
    }
    if ROWS.iter().any(|(name, _)| wanted.contains(name)) {
        server::leave_the_server_core();
        Row::print_head();
    }
    let scale = Scale { short, rounds: if short { 1 } else { ROUNDS }, binary };
    let rows = ROWS.iter().filter(|(name, _)| wanted.contains(name));
    let rows: Vec<_> = rows.flat_map(|(_, rows)| rows(&scale)).map(|row| row.json()).collect();
    all.insert(COMPARE.to_owned(), rows.into());
    println!("{}", serde_json::Value::Object(all));
}
