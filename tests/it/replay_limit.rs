//! A subscribe that reaches too far back is pulled forward, says so, and the rest is read out of band.

use serde_json::{Value, json};

use crate::harness::{Event, Server, http, token};

const LIMIT: u64 = 10;

fn server() -> (Server, Vec<Event>) {
    let server = Server::start(&["s1"], &json!({"replay_limit": LIMIT}));
    let mut client = server.connect("s1");
    client.subscribe(0);
    // A turn that runs ahead of the replay by more than the limit would end it.
    let mut log = client.events_to(client.last_seq());
    log.extend(client.turn("a b c d e f g h i j k l m n o p q r s t u v w x y z"));
    assert!(log.len() as u64 > LIMIT + 5, "{}", log.len());
    (server, log)
}

fn lines(answer: &http::Answer) -> Vec<&str> {
    assert_eq!(answer.status, 200);
    answer.body.lines().collect()
}

#[test]
fn a_truncated_replay_says_where_it_begins() {
    let (server, log) = server();
    let tip = log.last().unwrap().seq;
    let window = tip + 1 - LIMIT;
    for from in [0, 1, window - 1] {
        let mut client = server.connect("s1");
        client.subscribe(from);
        let told: Value = client.frame();
        assert_eq!(
            told,
            json!({"type": "replay_truncated", "requested_from_seq": from, "from_seq": window})
        );
        assert_eq!(client.events_to(tip), log[window as usize..]);
    }
}

#[test]
fn a_window_that_just_fits_is_not_truncated() {
    let (server, log) = server();
    let tip = log.last().unwrap().seq;
    for from in [tip + 1 - LIMIT, tip + 2 - LIMIT, tip] {
        let mut client = server.connect("s1");
        client.subscribe(from);
        assert_eq!(client.events_to(tip), log[from as usize..], "from_seq {from}");
    }
}

#[test]
fn a_truncated_replay_tails_live_without_a_gap() {
    let (server, log) = server();
    let tip = log.last().unwrap().seq;
    let mut client = server.connect("s1");
    client.subscribe(0);
    assert_eq!(client.frame()["type"], "replay_truncated");
    client.events_to(tip);
    for (seq, event) in (tip + 1..).zip(client.turn("on we go")) {
        assert_eq!(event.seq, seq);
    }
}

#[test]
fn what_was_truncated_is_read_out_of_band() {
    let (server, log) = server();
    let frames: Vec<&str> = log.iter().map(|event| event.raw.as_str()).collect();
    let read = |query: &str| {
        http::get(server.addr(), &format!("/agents/s1/events{query}"), Some(&token("s1")))
    };
    // The read is not bound by `replay_limit`: it is the way to what the socket will not resend.
    assert_eq!(lines(&read("?from_seq=0")), frames);
    assert_eq!(lines(&read("?from_seq=0&limit=7")), frames[..7]);
    assert_eq!(lines(&read("?limit=2&from_seq=5")), frames[5..7]);
    assert_eq!(lines(&read(&format!("?from_seq={}", frames.len()))), [""; 0]);
    let mut paged: Vec<String> = Vec::new();
    while paged.len() < frames.len() {
        let answer = read(&format!("?from_seq={}&limit=3", paged.len()));
        paged.extend(lines(&answer).into_iter().map(str::to_owned));
    }
    assert_eq!(paged, frames);
    for query in ["?from_seq=-1", "?from_seq=x", "?from_seq=1.0", "?from_seq=0&limit=x"] {
        assert_eq!(read(query).status, 400, "{query}");
    }
}
