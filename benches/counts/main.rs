//! How many instructions every cost centre takes, by callgrind, held against the counts that are
//! committed in `counts.json`.
//!
//!     cargo bench --profile counts --bench counts                fails where a case grew by more than a tenth
//!     cargo bench --profile counts --bench counts -- --accept    commits what is counted now
//!
//! A count does not depend on how busy the machine is, so unlike a time it can pass or fail. It does
//! depend on the compiler, the C library and what processor valgrind shows to the program: where those
//! are not the ones of the committed counts, growth is only reported.
//!
//! It is built as what ships is, but for the symbols, in a profile of its own.
//!
//! The program runs itself below valgrind, without any environment. There `measured` is all that is
//! counted, and each return from it writes a count: the cases are told apart by their order.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit,
    reason = "a program of its own for whoever measures"
)]

#[path = "../cases/mod.rs"]
mod cases;
mod counts;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::hint::black_box;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::process::Command;

use cases::{Meter, Work};
use counts::{Counts, Setting};

/// Where the counts are committed.
const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/counts/counts.json");

/// The program's argument to itself.
const INSIDE: &str = "--inside-valgrind";

fn main() {
    let mut accept = false;
    for argument in env::args().skip(1) {
        match argument.as_str() {
            // What cargo adds of itself.
            "--bench" => {}
            "--accept" => accept = true,
            INSIDE => return run_inside(),
            other => fail(&format!("no option {other}: there is only --accept")),
        }
    }
    if !is_what_ships() {
        println!("counts: skipped, this build is not what ships: `cargo bench --profile counts`");
        return;
    }
    let Some(Counted { works, counts }) = count() else {
        println!("counts: skipped, there is no valgrind here (`apt-get install valgrind`)");
        return;
    };
    let committed = if accept { None } else { Some(committed()) };
    print_table(&works, &counts, committed.as_ref());
    let Some(committed) = committed else {
        fs::write(COMMITTED, counts.to_json()).unwrap_or_else(|error| {
            fail(&format!("{COMMITTED}: {error}"));
        });
        println!("counts: {} cases are accepted; commit {COMMITTED}", works.len());
        return;
    };
    if let Some(difference) = committed.setting.difference(&counts.setting) {
        println!("counts: growth is only reported, for the committed counts are of {difference}");
    }
    let complaints = committed.complaints(&counts);
    for complaint in &complaints {
        eprintln!("counts: {complaint}");
    }
    if !complaints.is_empty() {
        std::process::exit(1);
    }
}

/// Whether this program was built by the profile that is made for it, and not by that of the other
/// benches. Cargo names the folder of a build after its profile.
fn is_what_ships() -> bool {
    let program = env::current_exe().expect("a program has a path");
    program.ancestors().nth(2).is_some_and(|folder| folder.ends_with("counts"))
}

fn fail(problem: &str) -> ! {
    eprintln!("counts: {problem}");
    std::process::exit(2);
}

fn committed() -> Counts {
    let read = fs::read_to_string(COMMITTED).map_err(|error| error.to_string());
    read.and_then(|text| Counts::parse(&text)).unwrap_or_else(|problem| {
        fail(&format!("{COMMITTED}: {problem}; {} makes a new one", counts::HOW_TO_ACCEPT))
    })
}

struct Counted {
    /// The cases in their order.
    works: Vec<(String, Work)>,
    counts: Counts,
}

/// Counts every case; nothing where there is no valgrind.
fn count() -> Option<Counted> {
    let valgrind = env::var("VALGRIND").unwrap_or_else(|_| "valgrind".to_owned());
    let version = match Command::new(&valgrind).arg("--version").output() {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        output => first_line(output, &valgrind),
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let program = env::current_exe().expect("a program has a path");
    symlink(program, dir.path().join("counts")).expect("the directory is ours");
    let mut command = Command::new(&valgrind);
    // What the program finds on its stack moves everything behind it, so that a path or an
    // environment of another length would change some counts by a few in a hundred.
    command
        .current_dir(&dir)
        .env_clear()
        .envs(env::vars_os().filter(|(name, _)| name == "VALGRIND_LIB"));
    command.args(["-q", "--tool=callgrind", "--combine-dumps=yes", "--dump-line=no"]);
    command.args(["--toggle-collect", "--dump-after"].map(|o| format!("{o}=counts::measured")));
    command.args(["--callgrind-out-file=out", "./counts", INSIDE]);
    let output = command.output().unwrap_or_else(|error| fail(&format!("{valgrind}: {error}")));
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        fail(&format!("{valgrind} ended with {}\n{said}", output.status));
    }
    let said = String::from_utf8(output.stdout).expect("names are text");
    let (features, cases) = said.split_once('\n').expect("the first line names the features");
    let works: Vec<_> = cases.lines().map(read_work).collect();
    let dumps =
        fs::read_to_string(dir.path().join("out")).expect("callgrind wrote what it was told to");
    let totals = counts::totals(&dumps);
    if totals.len() != works.len() {
        fail(&format!("{version} counted {} of {} cases", totals.len(), works.len()));
    }
    let counts: BTreeMap<_, _> = works.iter().map(|(name, _)| name.clone()).zip(totals).collect();
    assert_eq!(counts.len(), works.len(), "every case has a name of its own");
    let setting = Setting {
        rustc: first_line(Command::new("rustc").arg("--version").output(), "rustc"),
        libc: first_line(Command::new("getconf").arg("GNU_LIBC_VERSION").output(), "getconf"),
        valgrind: version,
        processor: features.to_owned(),
    };
    Some(Counted { works, counts: Counts { setting, counts } })
}

fn first_line(output: std::io::Result<std::process::Output>, program: &str) -> String {
    let output = output.unwrap_or_else(|error| fail(&format!("{program}: {error}")));
    String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
}

fn print_table(works: &[(String, Work)], now: &Counts, committed: Option<&Counts>) {
    println!(
        "{:<68} {:>12} {:>18} {:>12} {:>8}",
        "case", "instructions", "each", "committed", "growth"
    );
    for (name, work) in works {
        let count = now.counts[name];
        let (work, unit) = match *work {
            Work::Bytes(bytes) => (bytes, "byte"),
            Work::Events(events) => (events, "event"),
        };
        let each = format!("{:.2} a {unit}", count as f64 / work as f64);
        let before = committed.and_then(|committed| committed.counts.get(name));
        let growth = before.map_or_else(String::new, |&before| {
            format!("{:+.1} %", 100. * (count as f64 / before as f64 - 1.))
        });
        let before = before.map(u64::to_string).unwrap_or_default();
        println!("{name:<68} {count:>12} {each:>18} {before:>12} {growth:>8}");
    }
}

/// Runs every case once, and says which before it does.
fn run_inside() {
    println!("{}", processor());
    cases::all(&mut Counter);
}

/// What the code that is counted, the C library included, chooses its instructions by.
fn processor() -> String {
    let mut text = env::consts::ARCH.to_owned();
    #[cfg(target_arch = "x86_64")]
    for (name, detected) in [
        ("sse4.2", is_x86_feature_detected!("sse4.2")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("bmi2", is_x86_feature_detected!("bmi2")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
    ] {
        if detected {
            text.push(' ');
            text.push_str(name);
        }
    }
    text
}

/// Everything between its call and its return is counted, and nothing else: valgrind is told its name.
#[inline(never)]
fn measured(run: &mut dyn FnMut()) -> u32 {
    run();
    // A call at the end would be a jump, and no longer inside of this function.
    black_box(0)
}

struct Counter;

impl Counter {
    fn count<S, O>(
        name: &str,
        work: Work,
        state: &mut S,
        mut run: impl FnMut(&mut S) -> O,
        check: impl Fn(&S, &O),
    ) {
        println!("{}", written_work(name, work));
        let mut result = None;
        measured(&mut || result = Some(run(black_box(state))));
        check(state, &result.expect("it was run"));
    }
}

impl Meter for Counter {
    fn again<S, O>(
        &mut self,
        name: &str,
        work: Work,
        mut state: S,
        mut run: impl FnMut(&mut S) -> O,
        check: impl Fn(&S, &O),
    ) {
        // What is set up once, buffers among it, is set up.
        run(&mut state);
        Self::count(name, work, &mut state, run, check);
    }

    fn fresh<S, O>(
        &mut self,
        name: &str,
        work: Work,
        mut input: impl FnMut() -> S,
        mut run: impl FnMut(&mut S) -> O,
        check: impl Fn(&S, &O),
    ) {
        run(&mut input());
        Self::count(name, work, &mut input(), run, check);
    }
}

fn written_work(name: &str, work: Work) -> String {
    match work {
        Work::Bytes(bytes) => format!("bytes {bytes} {name}"),
        Work::Events(events) => format!("events {events} {name}"),
    }
}

/// Reads what [`written_work`] wrote.
fn read_work(line: &str) -> (String, Work) {
    let mut parts = line.splitn(3, ' ');
    let mut part = || parts.next().expect("a unit, a number, a name");
    let (unit, count, name) = (part(), part().parse().expect("a number"), part());
    let work = if unit == "bytes" { Work::Bytes(count) } else { Work::Events(count) };
    (name.to_owned(), work)
}
