//! How a connection ends on the wire, for every breach of RFC 6455 and for a client that says goodbye.

use serde_json::json;

use crate::harness::wire::{
    BINARY, CLOSE, CONTINUATION, End, Frame, PING, PONG, TEXT, Wire, close_payload, masked,
    unmasked,
};
use crate::harness::{Server, token};

fn open(server: &Server) -> Wire {
    Wire::open(server.addr(), "s1", &token("s1"))
}

/// The close frame must be the last thing that comes, and the end must not be a reset.
fn expect_close(wire: &mut Wire, code: u16, what: &str) {
    let close = wire.next_data();
    assert_eq!(close.opcode, CLOSE, "{what}: {close:?}");
    assert_eq!(close.close_code(), Some(code), "{what}");
    assert!(close.payload.len() <= 125 && str::from_utf8(&close.payload[2..]).is_ok(), "{what}");
    assert_eq!(wire.rest(), (Vec::new(), End::Clean), "{what}");
}

#[test]
fn a_breach_of_the_framing_is_1002_without_an_error_frame() {
    let server = Server::start(&["s1"], &json!({}));
    let text = br#"{"type":"subscribe","from_seq":0}"#;
    let with_first_byte = |byte: u8| {
        let mut frame = masked(true, TEXT, text);
        frame[0] = byte;
        frame
    };
    let mask = [0; 4];
    let long = |len_byte: u8, len: &[u8]| [&[0x81, 0x80 | len_byte][..], len, &mask].concat();
    let table: Vec<(&str, Vec<u8>)> = vec![
        ("no mask", unmasked(true, TEXT, text)),
        ("no mask on a control frame", unmasked(true, PING, b"")),
        ("first reserved bit", with_first_byte(0xC1)),
        ("second reserved bit", with_first_byte(0xA1)),
        ("third reserved bit", with_first_byte(0x91)),
        ("reserved data opcode", with_first_byte(0x83)),
        ("reserved data opcode", with_first_byte(0x87)),
        ("reserved control opcode", with_first_byte(0x8B)),
        ("reserved control opcode", with_first_byte(0x8F)),
        ("fragmented ping", masked(false, PING, b"x")),
        ("fragmented close", masked(false, CLOSE, b"")),
        ("ping of 126 bytes", masked(true, PING, &[b'x'; 126])),
        ("close of 126 bytes", masked(true, CLOSE, &close_payload(1000, &[b'x'; 124]))),
        ("continuation of nothing", masked(true, CONTINUATION, b"x")),
        ("unfinished continuation of nothing", masked(false, CONTINUATION, b"x")),
        ("text inside a text", [masked(false, TEXT, b"{"), masked(true, TEXT, b"}")].concat()),
        ("binary inside a text", [masked(false, TEXT, b"{"), masked(true, BINARY, b"}")].concat()),
        ("5 bytes in a 16-bit length", [long(126, &[0, 5]), b"12345".to_vec()].concat()),
        ("125 in a 16-bit length", long(126, &[0, 125])),
        ("65535 in a 64-bit length", long(127, &[0, 0, 0, 0, 0, 0, 0xFF, 0xFF])),
        ("0 in a 64-bit length", long(127, &[0; 8])),
        ("a 64-bit length with its top bit", long(127, &[0x80, 0, 0, 0, 0, 0, 0, 1])),
        ("close of one byte", masked(true, CLOSE, &[3])),
        ("close with a code nobody may send: 999", masked(true, CLOSE, &close_payload(999, b""))),
        ("close with a code nobody may send: 1004", masked(true, CLOSE, &close_payload(1004, b""))),
        ("close with a code nobody may send: 1005", masked(true, CLOSE, &close_payload(1005, b""))),
        ("close with a code nobody may send: 1006", masked(true, CLOSE, &close_payload(1006, b""))),
        ("close with a code nobody may send: 1015", masked(true, CLOSE, &close_payload(1015, b""))),
        ("close with a code nobody may send: 2999", masked(true, CLOSE, &close_payload(2999, b""))),
        ("close with a code nobody may send: 5000", masked(true, CLOSE, &close_payload(5000, b""))),
    ];
    for (what, bytes) in table {
        let mut wire = open(&server);
        wire.send(&bytes);
        expect_close(&mut wire, 1002, what);
    }
}

#[test]
fn text_that_is_not_utf_8_is_bad_frame_then_1007() {
    let server = Server::start(&["s1"], &json!({}));
    let table: Vec<(&str, Vec<u8>)> = vec![
        ("a lone byte", masked(true, TEXT, b"\"\xff\"")),
        ("overlong", masked(true, TEXT, b"\xc0\xaf")),
        ("a surrogate", masked(true, TEXT, b"\xed\xa0\x80")),
        ("beyond U+10FFFF", masked(true, TEXT, b"\xf4\x90\x80\x80")),
        ("cut short", masked(true, TEXT, b"\"\xe2\x82")),
        ("in the second fragment", {
            [masked(false, TEXT, b"\"\xe2"), masked(true, CONTINUATION, b"\x28\"")].concat()
        }),
        ("in a fragment that is not the last: at once", masked(false, TEXT, b"\"\xff")),
    ];
    for (what, bytes) in table {
        let mut wire = open(&server);
        wire.send(&bytes);
        let error = wire.next_data().json();
        assert_eq!(
            (&error["type"], &error["code"]),
            (&json!("error"), &json!("bad_frame")),
            "{what}"
        );
        expect_close(&mut wire, 1007, what);
    }
}

#[test]
fn a_character_cut_by_fragments_is_whole() {
    let server = Server::start(&["s1"], &json!({}));
    let mut wire = open(&server);
    wire.send_text(r#"{"type":"subscribe","from_seq":1}"#);
    let text = r#"{"type":"inject","wake":true,"text":"é漢😀"}"#.as_bytes();
    // Every byte a fragment, an empty one and a ping between any two.
    let mut bytes = masked(false, TEXT, &text[..1]);
    for byte in &text[1..] {
        bytes.extend(masked(true, PING, b"between"));
        bytes.extend(masked(false, CONTINUATION, b""));
        bytes.extend(masked(false, CONTINUATION, &[*byte]));
    }
    bytes.extend(masked(true, CONTINUATION, b""));
    wire.send(&bytes);
    loop {
        let event = wire.next_data().json();
        if event["type"] == "user/message" {
            assert_eq!(event["payload"]["text"], "é漢😀");
            break;
        }
    }
}

#[test]
fn a_close_is_answered_and_nothing_comes_after_it() {
    let server = Server::start(&["s1"], &json!({}));
    for code in [1000, 1001, 1003, 1007, 1008, 1011, 3000, 4000, 4999] {
        let mut wire = open(&server);
        wire.send(&masked(true, CLOSE, &close_payload(code, "au revoir é".as_bytes())));
        assert_eq!(wire.next_data().close_code(), Some(code));
        assert_eq!(wire.rest(), (Vec::new(), End::Clean));
    }
    let mut wire = open(&server);
    wire.send(&masked(true, CLOSE, b""));
    assert_eq!(wire.next_data().opcode, CLOSE);
    assert_eq!(wire.rest(), (Vec::new(), End::Clean));
}

#[test]
fn what_follows_a_close_is_not_looked_at() {
    let server = Server::start(&["s1"], &json!({}));
    let mut wire = open(&server);
    let mut bytes = masked(true, CLOSE, &close_payload(1000, b""));
    bytes.extend(masked(true, TEXT, br#"{"type":"inject","text":"too late","wake":true}"#));
    wire.send(&bytes);
    assert_eq!(wire.next_data().close_code(), Some(1000));
    assert_eq!(wire.rest(), (Vec::new(), End::Clean));
    let mut client = server.subscribed("s1");
    let turn = client.turn("in time");
    assert_eq!(turn[0].seq, 1);
    assert!(turn.iter().all(|event| !event.raw.contains("too late")));
}

#[test]
fn a_client_that_just_goes_leaves_its_turn_running() {
    let server = Server::start(&["s1"], &json!({}));
    let mut wire = open(&server);
    wire.send_text(r#"{"type":"inject","text":"go on without me","wake":true}"#);
    wire.finish_writing();
    wire.rest();
    let mut client = server.connect("s1");
    client.subscribe(0);
    let log = client.events_until("turn/end");
    assert_eq!(log.last().unwrap().payload["status"], "completed");
}

#[test]
fn a_ping_is_answered_with_its_payload_ahead_of_what_follows() {
    let server = Server::start(&["s1"], &json!({}));
    let mut wire = open(&server);
    for payload in [&b""[..], b"hello", &[0xFF; 125]] {
        wire.send(&masked(true, PING, payload));
        let pong = Frame { fin: true, opcode: PONG, payload: payload.to_vec() };
        assert_eq!(wire.next_frame(), pong);
    }
    // A pong that nobody asked for is no event.
    wire.send(&masked(true, PONG, b"unasked"));
    wire.send_text(r#"{"type":"subscribe","from_seq":0}"#);
    assert_eq!(wire.next_data().json()["seq"], 0);
}
