//! Far more sessions on disk than descriptors: the start looks at none of them, and each can be used.
//!
//! ```text
//! TERRET_SESSIONS=10000 cargo test --test it many_sessions
//! ```

use std::collections::VecDeque;
use std::fs::{File, FileTimes};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::json;

use crate::harness::made::{Maker, how_many, roomy_folder};
use crate::harness::{Client, Server, files, http, server};

const DESCRIPTORS: usize = 256;
/// Connections that are open at the same time.
const CONNECTED: usize = 40;
/// Unless another number is asked for.
const FEW: usize = 1000;

/// A server under a low limit, with so many sessions, each with one turn.
fn server_with(sessions: &[String], look: impl FnOnce(&[PathBuf])) -> Server {
    let folder = roomy_folder();
    let mut maker = Maker::new(folder.path(), 4 << 20);
    for id in sessions {
        let mut log = maker.session(id);
        maker.turn(&mut log, id, 3, false);
    }
    drop(maker);
    let names: Vec<&str> = sessions.iter().map(String::as_str).collect();
    let config = server::config(&names, &json!({}));
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let data_dir = folder.path().join("terret-data");
    let mut paths: Vec<PathBuf> =
        sessions.iter().flat_map(|id| files::segments(&data_dir, id)).collect();
    assert_eq!(paths.len(), sessions.len());
    paths.push(data_dir.join("sessions"));
    look(&paths);
    let mut command = server::limited(&format!("ulimit -n {DESCRIPTORS}"));
    command.args(["serve", "--config", "config.json"]);
    Server::launch(command, folder)
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("s{number}")).collect()
}

/// When the kernel last saw somebody read it.
fn read_at(path: &Path) -> SystemTime {
    path.metadata().unwrap().accessed().unwrap()
}

#[test]
fn a_start_looks_at_no_session() {
    let sessions = names(how_many("TERRET_SESSIONS", FEW));
    let mut paths = Vec::new();
    let server = server_with(&sessions, |made| {
        for path in made {
            let never = FileTimes::new().set_accessed(SystemTime::UNIX_EPOCH);
            File::open(path).unwrap().set_times(never).unwrap();
        }
        paths = made.to_vec();
    });
    assert_eq!(http::get(server.addr(), "/healthz", None).status, 200);
    let looked_at = paths.iter().find(|path| read_at(path) != SystemTime::UNIX_EPOCH);
    assert_eq!(looked_at, None);
    // The proof of the proof: a session that is used is seen to be.
    server.connect("s0");
    if read_at(&paths[0]) == SystemTime::UNIX_EPOCH {
        eprintln!("skipped, this file system does not say when a file was read");
    }
}

#[test]
fn with_far_more_sessions_than_descriptors_each_can_be_used() {
    let sessions = names(how_many("TERRET_SESSIONS", FEW));
    assert!(sessions.len() > 2 * DESCRIPTORS);
    let server = server_with(&sessions, |_| {});
    let mut connected: VecDeque<Client> = VecDeque::new();
    for id in &sessions {
        let mut client = server.connect(id);
        assert_eq!(client.last_seq(), 9, "{id}");
        client.subscribe(10);
        let turn = client.turn("hello");
        assert_eq!((turn[0].seq, &*turn.last().unwrap().kind), (10, "turn/end"), "{id}");
        connected.push_back(client);
        if connected.len() > CONNECTED {
            // A few are always there, and the others have left.
            connected.pop_front();
        }
    }
    // The first are as usable as the last, and over HTTP as well.
    for id in [&sessions[0], &sessions[sessions.len() / 2]] {
        assert_eq!(server.state(id)["last_seq"], 16, "{id}");
    }
    assert!(server.descriptors() < DESCRIPTORS);
    assert!(!server.stderr().contains(" error "), "{}", server.stderr());
}
