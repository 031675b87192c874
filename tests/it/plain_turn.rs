//! One turn without tools: its events, their order, and that the wire, the files and the history
//! read all show the same bytes.

use serde_json::json;

use crate::harness::{Event, Server, files, http, scripted, server, token};

/// What follows `"at"` in an envelope whose beginning is as the contract wants it.
fn tail(event: &Event, session: &str) -> String {
    let rest = event.raw.strip_prefix(r#"{"id":""#).unwrap();
    let (id, rest) = rest.split_at(16);
    assert!(id.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)), "{id}");
    let middle = format!(r#"","session_id":"{session}","seq":{},"at":""#, event.seq);
    let rest = rest.strip_prefix(middle.as_str()).unwrap_or_else(|| panic!("{}", event.raw));
    let (at, rest) = rest.split_at("2026-08-18T04:10:11.123456Z".len());
    let shape: String = at.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000000Z");
    rest.to_owned()
}

#[test]
fn a_plain_turn_has_the_golden_order() {
    let usage = json!({"prompt_tokens": 3, "completion_tokens": 5, "cost": 0.25});
    let steps = json!([{"chunks": ["It is ", "22C", "."], "usage": usage}, {"text": "Bye."}]);
    let server = Server::start(&["s1"], &scripted(&steps));
    let mut client = server.connect("s1");
    assert_eq!(client.last_seq(), 0, "session/created guarantees at least 0");
    client.subscribe(0);
    let mut events = client.turn("How warm?");
    events.extend(client.turn("Thanks"));

    let expected = [
        r#"","type":"session/created","payload":{"parent_id":null}}"#,
        r#"","type":"turn/start","payload":{"agent":"agent-s1"}}"#,
        r#"","type":"step/start","payload":{"n":1,"model":"script/m"}}"#,
        r#"","type":"user/message","payload":{"text":"How warm?"}}"#,
        r#"","type":"assistant/chunk","payload":{"text":"It is "}}"#,
        r#"","type":"assistant/chunk","payload":{"text":"22C"}}"#,
        r#"","type":"assistant/chunk","payload":{"text":"."}}"#,
        r#"","type":"assistant/message","payload":{"parts":[{"type":"text","text":"It is 22C."}]}}"#,
        r#"","type":"step/end","payload":{"n":1,"usage":{"prompt_tokens":3,"completion_tokens":5,"cost":0.25}}}"#,
        r#"","type":"turn/end","payload":{"status":"completed"}}"#,
        r#"","type":"turn/start","payload":{"agent":"agent-s1"}}"#,
        r#"","type":"step/start","payload":{"n":1,"model":"script/m"}}"#,
        r#"","type":"user/message","payload":{"text":"Thanks"}}"#,
        r#"","type":"assistant/chunk","payload":{"text":"Bye."}}"#,
        r#"","type":"assistant/message","payload":{"parts":[{"type":"text","text":"Bye."}]}}"#,
        r#"","type":"step/end","payload":{"n":1}}"#,
        r#"","type":"turn/end","payload":{"status":"completed"}}"#,
    ];
    let found: Vec<String> = events.iter().map(|event| tail(event, "s1")).collect();
    assert_eq!(found, expected);
    for (seq, event) in (0..).zip(&events) {
        assert_eq!(event.seq, seq);
    }
}

#[test]
fn no_two_events_share_an_id() {
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.connect("s1");
    client.subscribe(0);
    let events = client.turn("one two three four five six seven");
    let mut ids: Vec<&str> = events.iter().map(|event| &event.raw[7..23]).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), events.len());
}

#[test]
fn the_files_the_frames_and_the_history_read_are_the_same_bytes() {
    let texts = [
        "plain",
        "",
        "quotes \" and \\ and /slashes/",
        "line\nfeed, tab\t, bell\u{7}, nul\u{0}, delete\u{7f}",
        "\u{2028}\u{2029}\u{feff} é 漢 😀",
        r#"{"seq":7,"session_id":"s1"},"ack":"000000000000","crc":"00000000"}"#,
    ];
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.connect("s1");
    client.subscribe(0);
    let mut frames = Vec::new();
    for text in texts {
        let turn = client.turn(text);
        assert!(turn.iter().any(|event| event.kind == "user/message" && event.text() == text));
        frames.extend(turn.into_iter().map(|event| event.raw));
    }

    assert_eq!(files::envelopes(&server.data_dir(), "s1"), frames);

    let answer = http::get(server.addr(), "/agents/s1/events?from_seq=0", Some(&token("s1")));
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body.lines().collect::<Vec<_>>(), frames);

    let output = server::run(server.folder().path(), &["log", "s1"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().collect::<Vec<_>>(), frames);
}

#[test]
fn nothing_streams_before_the_first_subscribe() {
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.connect("s1");
    client.wake("unseen");
    let tip = server.idle_tip("s1", 0);
    client.subscribe(tip);
    assert_eq!(client.event().seq, tip);
}
