//! The rules of the repository, as tests: who may use whom, who may touch the world, how a file
//! begins and how long it may grow. Each complaint names a place and says what to do about it.

mod source;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use source::Code;

/// The layers in reading order, each with those it may use. A layer stands below all it may use,
/// so the graph has no cycle; `the_layers_are_in_order` holds the table to that.
///
/// `os` in a pure layer means a processor's instruction (CRC-32C), never a system call.
const LAYERS: &[(&str, &[&str])] = &[
    ("limits", &[]),
    ("os", &[]),
    ("proto", &["limits"]),
    ("config", &["limits", "proto"]),
    ("log", &["limits", "os", "proto"]),
    ("agent", &["limits", "proto", "log"]),
    ("model", &["limits", "proto", "config", "agent"]),
    ("tool", &["proto", "config", "agent", "model"]),
    ("conn", &["limits", "proto", "log"]),
    ("disk", &["limits", "os", "proto", "config", "log"]),
    ("work", &["limits", "os", "proto", "config", "log", "agent", "model", "tool", "conn", "disk"]),
    ("hub", &["limits", "proto", "config", "agent", "model", "tool", "conn", "disk", "work"]),
    ("net", &["limits", "os", "proto", "model", "tool", "conn", "work", "hub"]),
    (
        "server",
        &[
            "limits", "os", "proto", "config", "agent", "model", "tool", "disk", "work", "hub",
            "net",
        ],
    ),
    ("client", &["limits", "os", "proto"]),
    (
        "cli",
        &["limits", "os", "proto", "config", "agent", "tool", "disk", "work", "server", "client"],
    ),
];

/// What the binary's `main.rs` may use of the library.
const MAIN_USES: &[&str] = &["cli"];

/// The six run-time dependencies. Anything else is a dev-dependency or behind a feature that is
/// off by default.
const DEPENDENCIES: [&str; 6] =
    ["base64", "crossbeam-channel", "mio", "serde", "serde_json", "sha1"];

/// Who may touch the world outside the process: runs of path segments, the places that may name
/// them, and what everybody else does instead. Test code is excused.
struct Privilege {
    paths: &'static [&'static [&'static str]],
    places: &'static [&'static str],
    instead: &'static str,
}

const PRIVILEGES: &[Privilege] = &[
    Privilege {
        paths: &[&["mio"]],
        places: &["src/net/"],
        instead: "only net/ knows how readiness is learnt; pass bytes or a value instead",
    },
    Privilege {
        paths: &[&["std", "fs"], &["std", "os", "unix", "fs"]],
        places: &["src/disk/"],
        instead: "only disk/ touches files; call disk or take the bytes as an argument",
    },
    Privilege {
        paths: &[&["thread", "spawn"], &["thread", "Builder"], &["thread", "scope"]],
        places: THREADS,
        instead: "only work/ and server.rs start threads; make it a job or a source of the reactor",
    },
    Privilege {
        paths: &[&["thread", "sleep"]],
        places: &["src/client.rs", "src/cli/"],
        instead: "the server waits by deadlines of the reactor; only a client may sleep",
    },
    Privilege {
        paths: &[&["process", "exit"], &["process", "abort"]],
        places: TALKERS,
        instead: "only cli/ and main.rs exit; return an error that says why",
    },
    Privilege {
        paths: &[&["io", "stdout"], &["io", "stderr"]],
        places: TALKERS,
        instead: "only cli/ and main.rs print; return the text or note it in the server's log",
    },
];

/// `cli/` is in the list because `demo` runs a server and its client in one process, and because a
/// terminal can only be read by a thread that blocks on it.
const THREADS: &[&str] = &["src/work/", "src/server.rs", "src/cli/"];

const TALKERS: &[&str] = &["src/cli/", "src/main.rs"];

/// The only file that may hold `unsafe`.
const UNSAFE_FILE: &str = "src/os.rs";

/// A word that must not stand in the code, where it may nevertheless, and what to do instead.
const FORBIDDEN: &[(&str, &[&str], &str)] = &[
    ("todo!", &[], "build it, or leave it out"),
    ("unimplemented!", &[], "build it, or leave it out"),
    ("dbg!", &[], "remove it"),
    ("print!", TALKERS, "only cli/ and main.rs print"),
    ("println!", TALKERS, "only cli/ and main.rs print"),
    ("eprint!", TALKERS, "only cli/ and main.rs print; the server's log is a value"),
    ("eprintln!", TALKERS, "only cli/ and main.rs print; the server's log is a value"),
    ("unsafe", &[UNSAFE_FILE], "only src/os.rs may hold unsafe code"),
    ("allow(unsafe_code", &[UNSAFE_FILE], "only src/os.rs may hold unsafe code"),
    ("allow(dead_code", &[], "remove what nobody uses"),
    ("allow(unused", &[], "remove what nobody uses"),
    ("#[ignore", &[], "a test that does not run proves nothing; make it run or remove it"),
];

/// Notes to oneself that must not stand even in a comment.
const NOTES: [&str; 4] = ["TODO", "FIXME", "XXX", "HACK"];

/// Lines a file may have.
const LINES_MAX: usize = 500;

/// Files that may be longer, how long, and why they are still one thing.
const LONGER: &[(&str, usize, &str)] = &[];

/// One file of `src/` or `tests/`.
struct Source {
    /// From the root of the repository, with `/`.
    name: String,
    text: String,
    code: Code,
}

impl Source {
    fn read(root: &Path, path: &Path) -> Self {
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
        let text = fs::read_to_string(path).unwrap();
        let code = Code::read(&text);
        Self { name, text, code }
    }

    /// The layer a file of `src/` belongs to; the two roots belong to none.
    fn layer(&self) -> Option<&str> {
        let inside = self.name.strip_prefix("src/")?;
        let first = inside.split('/').next()?;
        let layer = first.strip_suffix(".rs").unwrap_or(first);
        (!matches!(layer, "lib" | "main")).then_some(layer)
    }

    /// Whether the whole file is test code, declared as `#[cfg(test)] mod tests;`.
    fn is_test(&self) -> bool {
        self.name.ends_with("/tests.rs") || self.name.contains("/tests/")
    }

    fn is_in(&self, places: &[&str]) -> bool {
        places.iter().any(|place| self.name.starts_with(place))
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file under `folder`, in order of name.
fn sources(folder: &str) -> Vec<Source> {
    let root = root();
    let mut folders = vec![root.join(folder)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    assert!(!files.is_empty(), "{folder}/ holds no Rust file: the rules would hold for nothing");
    files.iter().map(|path| Source::read(&root, path)).collect()
}

fn allowed(layer: &str) -> Option<&'static [&'static str]> {
    LAYERS.iter().find(|(name, _)| *name == layer).map(|(_, uses)| *uses)
}

/// Fails with every complaint, one a line.
fn hold(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn the_layers_are_in_order() {
    let order: BTreeMap<&str, usize> =
        LAYERS.iter().enumerate().map(|(index, (name, _))| (*name, index)).collect();
    for (name, uses) in LAYERS {
        for used in *uses {
            assert!(
                order.get(used).is_some_and(|index| *index < order[name]),
                "tests/it/tidy.rs: {name} may not use {used}, which does not stand above it"
            );
        }
    }
    let lib = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let modules: Vec<&str> = lib
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
        .filter(|module| allowed(module).is_some())
        .collect();
    let layers: Vec<&str> = LAYERS.iter().map(|(name, _)| *name).collect();
    assert_eq!(modules, layers, "src/lib.rs lists the modules in the order of the layers");
}

#[test]
fn a_layer_uses_only_what_it_may() {
    let mut complaints = Vec::new();
    for file in sources("src") {
        let uses = match file.layer() {
            // Tests of the crate as a whole, with what is compiled only for tests.
            Some("tests") => continue,
            Some(layer) => allowed(layer),
            None if file.name == "src/main.rs" => Some(MAIN_USES),
            None => Some(&[][..]),
        };
        match uses {
            Some(uses) => complaints.extend(trespasses(&file, uses)),
            None => complaints.push(format!(
                "{}:1: no such layer; give it a row in LAYERS of tests/it/tidy.rs",
                file.name
            )),
        }
    }
    hold(&complaints);
}

/// The places where `file` names a layer other than its own and those in `uses`.
fn trespasses(file: &Source, uses: &[&str]) -> Vec<String> {
    let own = file.layer();
    let mut complaints = Vec::new();
    for path in file.code.paths() {
        let Some(named) = layer_named(file, &path.segments) else { continue };
        if own != Some(named) && !uses.contains(&named) {
            complaints.push(format!(
                "{}:{}: {} names `{named}`; {} may use {}. Move the code to the layer that knows \
                 both, or take what you need as an argument",
                file.name,
                path.line,
                path.segments.join("::"),
                own.unwrap_or("this file"),
                if uses.is_empty() { "no other layer".to_owned() } else { uses.join(", ") },
            ));
        }
    }
    complaints
}

/// The layer a path leads to: by `crate::`, by the crate's name, or by `super::` up to the root.
fn layer_named<'p>(file: &Source, segments: &'p [String]) -> Option<&'p str> {
    let first = segments.first()?.as_str();
    if matches!(first, "crate" | "terret_ws") {
        return segments.get(1).map(String::as_str);
    }
    let supers = segments.iter().take_while(|segment| *segment == "super").count();
    let target = segments.get(supers)?.as_str();
    let is_layer = supers > 0 && allowed(target).is_some();
    (is_layer && !has_submodule(file, target)).then_some(target)
}

/// Whether `name` is a module beside or below `file`, and so no layer, whatever its name.
fn has_submodule(file: &Source, name: &str) -> bool {
    let own = root().join(&file.name);
    let folder = own.parent().unwrap();
    let below = folder.join(own.file_stem().unwrap());
    file.name.matches('/').count() > 1
        && [folder, &below]
            .iter()
            .any(|folder| folder.join(format!("{name}.rs")).exists() || folder.join(name).is_dir())
}

#[test]
fn the_layer_rule_sees_every_way_to_name_a_layer() {
    let table = [
        ("use crate::disk::Store;", 1),
        ("use crate::{limits, disk::Store, net};", 2),
        ("fn f() { crate::work::start() }", 1),
        ("pub use terret_ws::disk;", 1),
        ("use super::super::disk::Store;", 1),
        ("use crate::limits::ROUND_BYTES;", 0),
        ("use crate::agent::Machine;", 0),
        ("use super::turn::Turn;", 0),
        ("/// Not [`crate::disk`].", 0),
    ];
    for (text, expected) in table {
        let file = Source {
            name: "src/agent/mod.rs".to_owned(),
            text: text.to_owned(),
            code: Code::read(text),
        };
        assert_eq!(trespasses(&file, &["limits"]).len(), expected, "{text}");
    }
}

#[test]
fn only_the_entitled_touch_the_world() {
    let mut complaints = Vec::new();
    for file in sources("src") {
        for path in file.code.paths() {
            for privilege in PRIVILEGES {
                let named = privilege.paths.iter().any(|names| path.has(names));
                let excused = path.in_test || file.is_test() || file.is_in(privilege.places);
                if named && !excused {
                    complaints.push(format!(
                        "{}:{}: {}: {}",
                        file.name,
                        path.line,
                        path.segments.join("::"),
                        privilege.instead
                    ));
                }
            }
        }
    }
    hold(&complaints);
}

#[test]
fn no_forbidden_word_stands_in_the_code() {
    let mut complaints = Vec::new();
    let sources_of_crate = sources("src");
    for file in &sources_of_crate {
        for (word, places, instead) in FORBIDDEN {
            if file.is_test() || file.is_in(places) {
                continue;
            }
            for line in file.code.lines_with(word) {
                complaints.push(format!("{}:{line}: {word}: {instead}", file.name));
            }
        }
    }
    for file in sources_of_crate.iter().chain(&sources("tests")) {
        for (index, line) in file.text.lines().enumerate() {
            for note in NOTES {
                let is_rule = file.name == "tests/it/tidy.rs" && line.contains("const NOTES");
                if !is_rule && line.split(|c: char| !c.is_alphanumeric()).any(|word| word == note) {
                    complaints.push(format!(
                        "{}:{}: {note}: do it, or file it as an issue",
                        file.name,
                        index + 1
                    ));
                }
            }
        }
    }
    hold(&complaints);
}

#[test]
fn a_file_opens_with_what_it_is_and_fits_one_mind() {
    let mut complaints = Vec::new();
    for file in sources("src").iter().chain(&sources("tests")) {
        if !file.text.starts_with("//! ") {
            complaints.push(format!(
                "{}:1: open with `//!`: what it is, what it does not know, its invariant",
                file.name
            ));
        }
        let ceiling =
            LONGER.iter().find(|row| row.0 == file.name).map_or(LINES_MAX, |(_, lines, _)| *lines);
        let lines = file.text.lines().count();
        if lines > ceiling {
            complaints.push(format!(
                "{}:{ceiling}: {lines} lines, at most {ceiling}: split it by what changes for \
                 different reasons, or give it a row with its reason in LONGER of tests/it/tidy.rs",
                file.name
            ));
        }
    }
    for (name, ceiling, _) in LONGER {
        let lines = fs::read_to_string(root().join(name)).map_or(0, |text| text.lines().count());
        if lines <= LINES_MAX {
            complaints.push(format!(
                "tests/it/tidy.rs: LONGER allows {name} {ceiling} lines, but it has {lines}: \
                 remove the row"
            ));
        }
    }
    hold(&complaints);
}

#[test]
fn ci_runs_the_tests_that_the_readme_tells_people_to_run() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let commands: Vec<&str> = readme
        .lines()
        .skip_while(|line| !line.starts_with("    "))
        .take_while(|line| line.starts_with("    "))
        .map(str::trim)
        .collect();
    let [serve, test] = commands[..] else {
        panic!("README.md: the first block holds two commands, to serve and to test: {commands:?}")
    };
    assert!(serve.starts_with("cargo run"), "README.md: the first command serves: {serve}");
    assert!(test.starts_with("cargo test"), "README.md: the second command tests: {test}");
    let ci = fs::read_to_string(root().join(".ci/run")).unwrap();
    for (index, line) in ci.lines().enumerate() {
        // What the README's command does not reach is the tests of a feature.
        assert!(
            !line.trim_start().starts_with("cargo test") || line.contains("--features"),
            ".ci/run:{}: take the test command from README.md, do not write it again",
            index + 1
        );
    }
    assert!(ci.contains("bash -c \"$test_command\""), ".ci/run: run the README's test command");
}

#[test]
fn there_are_exactly_six_run_time_dependencies() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let mut section = "";
    let mut named = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        } else if section == "[dependencies]" && !line.starts_with('#') && line.contains('=') {
            let optional = line.contains("optional = true");
            named.extend((!optional).then(|| line.split('=').next().unwrap().trim()));
        }
        assert!(
            !(section.starts_with("[target.") && section.ends_with(".dependencies]")),
            "Cargo.toml: {section}: a dependency for some machines is still a dependency"
        );
    }
    assert_eq!(named, DEPENDENCIES, "Cargo.toml: [dependencies]");

    let output = Command::new(env!("CARGO"))
        .args(["tree", "--edges=normal", "--depth=1", "--prefix=none", "--locked", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    let crates: Vec<&str> =
        listed.lines().skip(1).filter_map(|line| line.split(' ').next()).collect();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(crates, DEPENDENCIES, "cargo tree --edges=normal --depth=1\n{error}");
}
