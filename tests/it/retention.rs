//! Old events that are not kept, as clients and operators see it: told, exact, and gone from the disk.

use serde_json::{Value, json};

use crate::harness::client::assert_gapless;
use crate::harness::{Event, Server, files, http, server, token};

/// A server that keeps little, and what a client was sent while the session outgrew that.
fn outgrown() -> (Server, Vec<Event>) {
    let config = json!({
        "history_bytes": 100,
        "log": {"segment_bytes": 4000, "keep_events": 20},
    });
    let server = Server::start(&["s1"], &config);
    let mut client = server.connect("s1");
    client.subscribe(0);
    client.send(&json!({"type": "set_policy", "patterns": ["get_*"]}));
    let mut log = client.events_until("policy/updated");
    for _ in 0..12 {
        log.extend(client.turn("a b c d e f g h"));
    }
    (server, log)
}

/// The seq that the first file on disk is named after.
fn first_on_disk(server: &Server) -> u64 {
    let segment = files::segments(&server.data_dir(), "s1").remove(0);
    segment.file_stem().unwrap().to_str().unwrap().parse().unwrap()
}

fn expect_exact(server: &Server, log: &[Event]) {
    // Asked of the agent itself, so what it was at, removing files too, is done with the answer.
    let state = server.state("s1");
    let (first, tip) = (first_on_disk(server), log.last().unwrap().seq);
    assert!(0 < first && first + 20 <= tip, "{first} of {tip}");
    let mut client = server.connect("s1");
    assert_eq!(client.last_seq(), tip);
    for from in [0, first - 1] {
        client.subscribe(from);
        let told: Value = client.frame();
        let expected =
            json!({"type": "replay_truncated", "requested_from_seq": from, "from_seq": first});
        assert_eq!(told, expected);
        assert_eq!(client.events_to(tip), log[first as usize..]);
    }
    client.subscribe(first);
    assert_eq!(client.events_to(tip), log[first as usize..]);
    assert_eq!((&state["last_seq"], &state["policy"]), (&json!(tip), &json!(["get_*"])));
    let path = "/agents/s1/events?from_seq=0&limit=3";
    let answer = http::get(server.addr(), path, Some(&token("s1")));
    let raw: Vec<&str> = log[first as usize..][..3].iter().map(|event| &*event.raw).collect();
    assert_eq!(answer.body.lines().collect::<Vec<_>>(), raw);
}

#[test]
fn what_is_left_is_exact_before_and_after_a_restart() {
    let (mut server, mut log) = outgrown();
    expect_exact(&server, &log);
    server.kill();
    let config = json!({"history_bytes": 100, "log": {"segment_bytes": 4000, "keep_events": 20}});
    let server = Server::start_in(server.folder(), &["s1"], &config);
    expect_exact(&server, &log);
    let mut client = server.connect("s1");
    client.subscribe(client.last_seq() + 1);
    log.extend(client.turn("and on it goes"));
    assert_gapless(&log, 0, log.last().unwrap().seq);
    expect_exact(&server, &log);
}

#[test]
fn the_command_line_tells_what_was_removed_from_what_was_lost() {
    let (mut server, log) = outgrown();
    server.signal("TERM");
    server.exit();
    let folder = server.folder();
    let first = first_on_disk(&server);
    let run = |arguments: &[&str]| {
        let output = server::run(folder.path(), arguments);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (status, out, err) = run(&["log", "s1"]);
    assert_eq!((status, out.lines().count()), (Some(0), log.len() - first as usize));
    assert!(err.contains(&format!("begins with event {first}")), "{err}");
    let (status, out, err) = run(&["log", "verify"]);
    assert_eq!((status, &*err), (Some(0), ""), "{out}");
    let (_, out, _) = run(&["sessions"]);
    assert!(out.contains(&format!(" {} ", log.len() - first as usize)), "{out}");

    std::fs::remove_file(files::segments(&server.data_dir(), "s1").remove(0)).unwrap();
    let (status, out, _) = run(&["log", "verify"]);
    assert_eq!(status, Some(1), "{out}");
    assert!(out.contains(&format!("the segment {first:020} is not there")), "{out}");
}
