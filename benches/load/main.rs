//! A load on a real server over loopback: many clients in one process, every stream checked for gaps
//! and duplicates while it is measured.
//!
//!     cargo bench --bench load                   every scenario
//!     cargo bench --bench load -- storm wakes    these
//!     cargo bench --bench load -- --short        small sizes, to see that it holds
//!
//! What a row says is CPU time of the server process and ratios within one run; wall-clock times
//! depend on what else the machine does. The last line is everything as JSON.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program of its own for whoever measures; like a test, it fails where it stands"
)]

mod fairness;
mod peers;
mod scenarios;
mod server;

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

fn main() {
    let mut size = Size::LONG;
    let mut wanted = Vec::new();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            // What cargo adds of itself.
            "--bench" => {}
            "--short" => size = Size::SHORT,
            name if SCENARIOS.iter().any(|(known, ..)| *known == name) => {
                wanted.push(name.to_owned());
            }
            other => {
                let names = SCENARIOS.map(|(name, ..)| name).join(", ");
                eprintln!("load: no scenario {other}: choose of {names}, or --short");
                std::process::exit(2);
            }
        }
    }
    let mut all = serde_json::Map::new();
    for (name, what, run) in SCENARIOS {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        println!("{name}: {what}");
        let figures = run(&size);
        for (figure, value) in &figures {
            println!("    {figure:<36} {value:>14.2}");
        }
        let figures = figures.into_iter().map(|(figure, value)| (figure.to_owned(), value.into()));
        all.insert(name.to_owned(), serde_json::Value::Object(figures.collect()));
    }
    println!("{}", serde_json::Value::Object(all));
}
