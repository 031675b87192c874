//! The seeds of every fuzz target, replayed by `cargo test`.
//!
//! It stands in the crate and not in `tests/`, because the bodies of the fuzz targets exist only
//! under `cfg(any(test, fuzzing))`, and an integration test links the crate without either.

use std::fs;
use std::path::Path;

use crate::{agent, client, config, conn, log, model, proto};

/// A fuzz target, and the body it calls.
type Target = (&'static str, fn(&[u8]));

/// All of them, in order of name.
const TARGETS: &[Target] = &[
    ("agent", agent::fuzz::machine),
    ("answer", model::openai::fuzz::answer),
    ("client_frame", proto::command::fuzz::frame),
    ("config", config::fuzz::document),
    ("connection", conn::fuzz::connection),
    ("deltas", model::openai::fuzz::deltas),
    ("event_envelope", proto::event::fuzz::envelope),
    ("event_payload", proto::payload::fuzz::payload),
    ("fnmatch", agent::fnmatch::fuzz::against_a_naive_matcher),
    ("history", agent::fuzz::history),
    ("json_document", proto::json::fuzz::document),
    ("json_string", proto::json::fuzz::string),
    ("log_line", log::fuzz::event_line),
    ("log_segment", log::fuzz::segment),
    ("percent_decoding", proto::ident::fuzz::percent_decoding),
    ("request_head", proto::http::fuzz::request_head),
    ("response", proto::http_client::fuzz::response),
    ("response_body", proto::http_client::fuzz::body),
    ("server_frame", client::fuzz::server_frame),
    ("sse", proto::sse::fuzz::stream),
    ("ws_frames", proto::ws::fuzz::frames),
];

#[test]
fn every_target_passes_over_its_seeds() {
    for (target, body) in TARGETS {
        let folder = fuzz_folder().join("seeds").join(target);
        let seeds = names(&folder);
        assert!(!seeds.is_empty(), "{} holds no seed", folder.display());
        for seed in seeds {
            // The harness shows what was printed only if the test fails: the last line is the seed.
            println!("{target}/{seed}");
            body(&fs::read(folder.join(seed)).unwrap());
        }
    }
}

#[test]
fn every_target_of_the_fuzz_crate_is_replayed() {
    let files = names(&fuzz_folder().join("fuzz_targets"));
    let mut targets: Vec<String> =
        TARGETS.iter().map(|(target, _)| format!("{target}.rs")).collect();
    targets.sort();
    assert_eq!(files, targets, "fuzz/fuzz_targets");
    assert_eq!(names(&fuzz_folder().join("seeds")).len(), TARGETS.len(), "fuzz/seeds");

    let manifest = fs::read_to_string(fuzz_folder().join("Cargo.toml")).unwrap();
    for (target, _) in TARGETS {
        assert!(manifest.contains(&format!("name = \"{target}\"\n")), "fuzz/Cargo.toml: {target}");
    }
}

fn fuzz_folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz"))
}

/// What a folder holds, in order of name.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
