//! An independent WebSocket library understands our frames and we its, as server and as client,
//! over bytes in memory.

use std::io::{self, Cursor, Read, Write};

use terret_ws::proto::ws::frame::Opcode;
use terret_ws::proto::ws::{
    Assembler, CloseCode, Item, Role, write_close, write_masked, write_masked_close, write_ping,
    write_pong, write_text,
};
use tungstenite::protocol::frame::coding::CloseCode as TheirCode;
use tungstenite::protocol::{CloseFrame, Role as TheirRole};
use tungstenite::{Error, Message, WebSocket};

const MIB: usize = 1 << 20;

/// Lengths on both sides of every border of the header's forms, and the longest text there is.
const LENGTHS: [usize; 8] = [0, 1, 125, 126, 127, 65_535, 65_536, MIB];

/// The two directions of a connection: what the library reads, and what it has written.
struct Wire {
    incoming: Cursor<Vec<u8>>,
    outgoing: Vec<u8>,
}

impl Read for Wire {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.incoming.read(buf)
    }
}

impl Write for Wire {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.outgoing.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn peer(role: TheirRole, incoming: Vec<u8>) -> WebSocket<Wire> {
    let wire = Wire { incoming: Cursor::new(incoming), outgoing: Vec::new() };
    WebSocket::from_raw_socket(wire, role, None)
}

/// A text of `len` bytes whose characters are one and two bytes long.
fn sample(len: usize) -> String {
    let mut text = "aé".repeat(len / 3);
    text.push_str(&"z".repeat(len % 3));
    text
}

#[test]
fn the_library_reads_what_a_server_writes() {
    let mut stream = Vec::new();
    for len in LENGTHS {
        write_text(&mut stream, sample(len).as_bytes());
    }
    write_ping(&mut stream, b"ping");
    write_pong(&mut stream, b"pong");
    write_close(&mut stream, CloseCode::LAGGED, "too slow");
    assert_reads(peer(TheirRole::Client, stream), TheirCode::Library(4429), "too slow");
}

#[test]
fn the_library_reads_what_a_client_writes() {
    let (mut stream, key) = (Vec::new(), [0x9e, 0x37, 0x79, 0xb9]);
    for len in LENGTHS {
        write_masked(&mut stream, Opcode::Text, sample(len).as_bytes(), key);
    }
    write_masked(&mut stream, Opcode::Ping, b"ping", key);
    write_masked(&mut stream, Opcode::Pong, b"pong", key);
    write_masked_close(&mut stream, CloseCode::NORMAL, "done", key);
    assert_reads(peer(TheirRole::Server, stream), TheirCode::Normal, "done");
}

fn assert_reads(mut peer: WebSocket<Wire>, code: TheirCode, reason: &'static str) {
    for len in LENGTHS {
        assert!(peer.read().unwrap() == Message::text(sample(len)), "a text of {len} bytes");
    }
    assert_eq!(peer.read().unwrap(), Message::Ping("ping".into()));
    assert_eq!(peer.read().unwrap(), Message::Pong("pong".into()));
    let close = CloseFrame { code, reason: reason.into() };
    assert_eq!(peer.read().unwrap(), Message::Close(Some(close)));
}

#[test]
fn we_read_what_the_library_writes() {
    for (theirs, ours) in [(TheirRole::Client, Role::Server), (TheirRole::Server, Role::Client)] {
        let mut peer = peer(theirs, Vec::new());
        for len in LENGTHS {
            peer.send(Message::text(sample(len))).unwrap();
        }
        peer.send(Message::text(sample(MIB + 1))).unwrap();
        peer.send(Message::binary(vec![0xff; 70_000])).unwrap();
        peer.send(Message::Ping("ping".into())).unwrap();
        let close = CloseFrame { code: TheirCode::Away, reason: "bye".into() };
        peer.close(Some(close)).unwrap();
        let stream = &peer.get_ref().outgoing;
        for piece_len in [stream.len(), 65_536, 1448, 61] {
            assert_reads_all(Assembler::new(ours, MIB), stream, piece_len);
        }
    }
}

fn assert_reads_all(mut assembler: Assembler, stream: &[u8], piece_len: usize) {
    let mut buffer = stream.to_vec();
    let mut seen = 0;
    for mut piece in buffer.chunks_mut(piece_len) {
        while let Some(item) = assembler.push(&mut piece).unwrap() {
            match (seen, &item) {
                (0..8, Item::Text(text)) => assert!(*text == sample(LENGTHS[seen]), "{seen}"),
                (8, Item::TooLarge) | (9, Item::Binary(_)) => {}
                (10, Item::Ping(payload)) => assert_eq!(**payload, *b"ping"),
                (11, Item::Close(Some((CloseCode::GOING_AWAY, reason)))) => {
                    assert_eq!(reason, "bye");
                }
                _ => panic!("item {seen} in pieces of {piece_len} bytes is {item:?}"),
            }
            seen += 1;
        }
    }
    assert_eq!(seen, 12);
}

#[test]
fn the_library_fails_where_we_fail() {
    let breaches: [&[u8]; 10] = [
        b"\xc1\x00",                 // a reserved bit
        b"\x83\x00",                 // a reserved opcode
        b"\x09\x00",                 // a fragmented control frame
        b"\x80\x00",                 // a continuation of nothing
        b"\x01\x00\x81\x00",         // a message inside a message
        b"\x81\x80\x00\x00\x00\x00", // masked by a server
        b"\x81\x01\xff",             // text that is not UTF-8
        b"\x01\x01\xce\x80\x01\x41", // the same, over two fragments
        b"\x88\x01\x03",             // half a close code
        b"\x88\x03\x03\xe8\xff",     // a reason that is not UTF-8
    ];
    for breach in breaches {
        let mut buffer = breach.to_vec();
        let ours = Assembler::new(Role::Client, MIB).push(&mut buffer.as_mut_slice()).map(drop);
        let theirs = peer(TheirRole::Client, breach.to_vec()).read();
        assert!(ours.is_err(), "{breach:x?}");
        let failed = matches!(theirs, Err(Error::Protocol(_) | Error::Utf8(_)));
        assert!(failed, "{breach:x?}: {theirs:?}");
    }
}
