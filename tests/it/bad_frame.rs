//! What a client may not say: each gets one `bad_frame` that names what is wrong, and nothing happens.

use serde_json::{Value, json};
use tungstenite::Message;

use crate::harness::wire::{BINARY, CONTINUATION, TEXT, Wire, masked};
use crate::harness::{Client, Server, token};

/// What a whole message may hold (clarifications, section 1).
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// The next frame must be the answer to the frame just sent, and the connection must stay open.
fn expect_bad(client: &mut Client, sent: &str, names: &str) {
    let message = client.expect_error("bad_frame");
    assert!(message.contains(names), "{sent}: `{message}` does not name {names}");
}

/// Nothing was logged and the connection works.
fn expect_untouched(client: &mut Client) {
    client.subscribe(0);
    assert_eq!(client.event().seq, 0);
    let turn = client.turn("first");
    assert_eq!(turn[0].seq, 1, "a bad frame leaves no event");
}

#[test]
fn what_is_no_command_is_named() {
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.connect("s1");
    let table = [
        ("", ""),
        (" ", ""),
        ("{", ""),
        ("null", ""),
        ("true", ""),
        ("7", ""),
        ("\"subscribe\"", ""),
        ("[]", ""),
        (r#"[{"type":"subscribe","from_seq":0}]"#, ""),
        ("{}", "type"),
        (r#"{"type":null}"#, "type"),
        (r#"{"type":7,"from_seq":0}"#, "type"),
        (r#"{"type":"Subscribe","from_seq":0}"#, ""),
        (r#"{"type":"hello"}"#, ""),
        (r#"{"type":"subscribe","from_seq":0}}"#, ""),
        (r#"{"type":"subscribe","from_seq":0} {}"#, ""),
        (r#"{"type":"subscribe","from_seq":0,}"#, ""),
        ("{'type':'subscribe','from_seq':0}", ""),
        (r#"{"type":"subscribe","from_seq":00}"#, ""),
        (r#"{"type":"subscribe","from_seq":0,"x":NaN}"#, ""),
        (r#"{"type":"inject"}"#, "text"),
        (r#"{"type":"inject","text":null}"#, "text"),
        (r#"{"type":"inject","text":7}"#, "text"),
        (r#"{"type":"inject","text":["a"]}"#, "text"),
        (r#"{"type":"inject","text":"a","wake":"true"}"#, "wake"),
        (r#"{"type":"inject","text":"a","wake":1}"#, "wake"),
        (r#"{"type":"inject","text":"a","wake":null}"#, "wake"),
        (r#"{"type":"cancel","reason":7}"#, "reason"),
        (r#"{"type":"cancel","reason":null}"#, "reason"),
        (r#"{"type":"approve"}"#, "call_id"),
        (r#"{"type":"approve","call_id":7}"#, "call_id"),
        (r#"{"type":"deny"}"#, "call_id"),
        (r#"{"type":"deny","call_id":"c","reason":[]}"#, "reason"),
        (r#"{"type":"set_model","role":"main"}"#, "model"),
        (r#"{"type":"set_model","model":"echo/echo"}"#, "role"),
        (r#"{"type":"set_model","role":"","model":"echo/echo"}"#, "role"),
        (r#"{"type":"set_model","role":"main","model":"echo"}"#, "model"),
        (r#"{"type":"set_model","role":"main","model":"/echo"}"#, "model"),
        (r#"{"type":"set_model","role":"main","model":"echo/"}"#, "model"),
        (r#"{"type":"set_model","role":"main","model":"nosuch/echo"}"#, "model"),
        (r#"{"type":"set_model","role":7,"model":"echo/echo"}"#, "role"),
        (r#"{"type":"set_policy"}"#, "patterns"),
        (r#"{"type":"set_policy","patterns":"*"}"#, "patterns"),
        (r#"{"type":"set_policy","patterns":["a",7]}"#, "patterns"),
        (r#"{"type":"set_policy","patterns":[["a"]]}"#, "patterns"),
        (r#"{"type":"set_policy","patterns":null}"#, "patterns"),
        // The whole document counts, ignored keys too.
        (r#"{"type":"subscribe","from_seq":0,"x":"\ud800"}"#, ""),
        (r#"{"type":"subscribe","from_seq":0,"x":"\udc00\ud800"}"#, ""),
        (r#"{"type":"subscribe","from_seq":0,"\ud800":1}"#, ""),
        (r#"{"type":"inject","text":"\ud83d"}"#, ""),
        ("{\"type\":\"inject\",\"text\":\"raw\nline feed\"}", ""),
    ];
    for (sent, names) in table {
        client.send_text(sent);
        expect_bad(&mut client, sent, names);
    }
    expect_untouched(&mut client);
}

#[test]
fn unknown_keys_are_ignored() {
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.connect("s1");
    client.send(&json!({"type": "subscribe", "from_seq": 0, "seq": 7, "x": {"type": "cancel"}}));
    assert_eq!(client.event().seq, 0);
    client.send(&json!({"z": [1.5e300, null], "wake": true, "text": "hi", "type": "inject"}));
    assert_eq!(client.events_until("user/message").last().unwrap().text(), "hi");
}

/// A subscribe with an ignored key that nests so that the whole document is `depth` deep.
fn nested(depth: usize) -> String {
    let inner = depth - 1;
    let (open, close) = ("[".repeat(inner), "]".repeat(inner));
    format!(r#"{{"x":{open}{close},"type":"subscribe","from_seq":0}}"#)
}

#[test]
fn a_document_is_128_deep_at_most() {
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.connect("s1");
    client.send_text(&nested(128));
    assert_eq!(client.event().seq, 0);
    for depth in [129, 5000, 400_000] {
        client.send_text(&nested(depth));
        expect_bad(&mut client, "nested", "");
    }
    client.subscribe(0);
    assert_eq!(client.event().seq, 0);
}

#[test]
fn policy_patterns_are_bounded_in_number_and_in_characters() {
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.subscribed("s1");
    let policy = |patterns: Vec<String>| json!({"type": "set_policy", "patterns": patterns});
    let widest = "漢".repeat(256);
    let good = [vec![], vec!["*".to_owned(); 128], vec![widest.clone()], vec![String::new()]];
    for patterns in &good {
        client.send(&policy(patterns.clone()));
        let event = client.event();
        assert_eq!(event.kind, "policy/updated");
        assert_eq!(event.payload, json!({"patterns": patterns}));
    }
    for patterns in [vec!["*".to_owned(); 129], vec![widest + "x"]] {
        client.send(&policy(patterns));
        expect_bad(&mut client, "set_policy", "patterns");
    }
    assert_eq!(client.turn("on").first().unwrap().seq, 1 + good.len() as u64);
}

#[test]
fn a_binary_message_is_a_bad_frame_and_the_connection_stays() {
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.connect("s1");
    for payload in [&b""[..], br#"{"type":"subscribe","from_seq":0}"#, &vec![0xFF; 70_000]] {
        client.send_message(Message::binary(payload.to_vec()));
        expect_bad(&mut client, "binary", "");
    }
    // In fragments it is still one message and one answer.
    let mut wire = Wire::open(server.addr(), "s1", &token("s1"));
    let parts = [masked(false, BINARY, b"\xff"), masked(true, CONTINUATION, b"\xff")];
    wire.send(&parts.concat());
    wire.send_text(r#"{"type":"subscribe","from_seq":0}"#);
    assert_eq!(wire.next_data().json()["code"], "bad_frame");
    assert_eq!(wire.next_data().json()["seq"], 0);
}

/// An inject of exactly `size` bytes.
fn inject_of(size: usize) -> String {
    let frame = r#"{"type":"inject","text":""}"#;
    format!(r#"{{"type":"inject","text":"{}"}}"#, "x".repeat(size - frame.len()))
}

#[test]
fn a_message_of_exactly_1_mib_is_accepted_and_one_byte_more_is_not() {
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.subscribed("s1");
    client.send_text(&inject_of(MESSAGE_BYTES_MAX));
    client.send_text(&inject_of(MESSAGE_BYTES_MAX + 1));
    expect_bad(&mut client, "1 MiB and one byte", "");
    let turn = client.turn("and now");
    let injected: Vec<usize> = turn
        .iter()
        .filter(|event| event.kind == "context/injected")
        .map(|event| event.text().len())
        .collect();
    assert_eq!(injected, [MESSAGE_BYTES_MAX - r#"{"type":"inject","text":""}"#.len()]);
}

/// `message` in fragments of `size` bytes.
fn fragments(message: &[u8], size: usize) -> Vec<u8> {
    let count = message.len().div_ceil(size);
    let pieces = message.chunks(size).enumerate();
    let frames = pieces.map(|(index, piece)| {
        let opcode = if index == 0 { TEXT } else { CONTINUATION };
        masked(index + 1 == count, opcode, piece)
    });
    frames.collect::<Vec<_>>().concat()
}

#[test]
fn fragments_are_added_up() {
    let server = Server::start(&["s1"], &json!({}));
    let mut wire = Wire::open(server.addr(), "s1", &token("s1"));
    for size in [1000, 65_536, MESSAGE_BYTES_MAX] {
        wire.send(&fragments(inject_of(MESSAGE_BYTES_MAX).as_bytes(), size));
        wire.send(&fragments(inject_of(MESSAGE_BYTES_MAX + 1).as_bytes(), size));
        let error: Value = wire.next_data().json();
        assert_eq!(error["code"], "bad_frame", "{error}");
    }
    wire.send_text(r#"{"type":"subscribe","from_seq":0}"#);
    assert_eq!(wire.next_data().json()["seq"], 0, "one bad_frame for each, no more");
}

#[test]
fn a_huge_message_is_discarded_as_it_comes_and_answered_once() {
    let server = Server::start(&["s1"], &json!({}));
    let mut wire = Wire::open(server.addr(), "s1", &token("s1"));
    let before = server.resident_kib();
    let size: u64 = 64 << 20;
    let mut frame = vec![0x81, 0xFF];
    frame.extend_from_slice(&size.to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    wire.send(&frame);
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..size >> 20 {
        wire.send(&piece);
    }
    assert_eq!(wire.next_data().json()["code"], "bad_frame");
    let grown = server.resident_kib().saturating_sub(before);
    assert!(grown < 8 * 1024, "{grown} KiB more after a message that nobody may send");
    wire.send_text(r#"{"type":"subscribe","from_seq":0}"#);
    assert_eq!(wire.next_data().json()["seq"], 0, "one bad_frame, no more");
}

#[test]
fn a_client_that_sends_nonsense_without_reading_is_not_read_and_not_buffered() {
    let server = Server::start(&["s1", "s2"], &json!({}));
    let mut wire = Wire::open(server.addr(), "s1", &token("s1"));
    let mut bystander = server.subscribed("s2");
    let nonsense = masked(true, TEXT, b"nonsense").repeat(1000);
    // 30,000 answers of some hundred bytes: far beyond what may lie unsent.
    for _ in 0..30 {
        wire.send(&nonsense);
    }
    assert_eq!(bystander.turn("unharmed?").last().unwrap().payload["status"], "completed");
    for _ in 0..30_000 {
        assert_eq!(wire.next_data().json()["code"], "bad_frame");
    }
    wire.send_text(r#"{"type":"subscribe","from_seq":0}"#);
    assert_eq!(wire.next_data().json()["seq"], 0);
}

#[test]
fn verdicts_without_the_approvals_row_are_unsupported() {
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.connect("s1");
    client.send(&json!({"type": "approve", "call_id": "c1"}));
    client.expect_error("unsupported");
    client.send(&json!({"type": "deny", "call_id": "c1", "reason": "no"}));
    client.expect_error("unsupported");
    expect_untouched(&mut client);
}

#[test]
fn verdicts_on_calls_that_never_asked_are_stale() {
    let server = Server::start(&["s1"], &json!({"approvals": true}));
    let mut client = server.connect("s1");
    for _ in 0..2 {
        client.send(&json!({"type": "approve", "call_id": "c1"}));
        client.expect_error("stale_call");
        client.send(&json!({"type": "deny", "call_id": ""}));
        client.expect_error("stale_call");
    }
    expect_untouched(&mut client);
}
