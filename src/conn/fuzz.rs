//! Body of the fuzz target: a connection fed arbitrary bytes, told arbitrary readiness, and used by
//! an owner that does what the hub does.

use std::io::IoSlice;

use super::ring::SLICES_MAX;
use super::{Conn, Incoming};
use crate::limits::PROTOCOL_BYTES_MAX;
use crate::log::line;
use crate::proto::event::{ErrorCode, write_envelope};
use crate::proto::http::Status;
use crate::proto::ident::{EventId, SessionId};
use crate::proto::json;
use crate::proto::payload::Body;
use crate::proto::time::Wall;
use crate::proto::ws::{Assembler, CloseCode, Item, Role, write_text};

const HANDSHAKE: &[u8] = b"GET /agents/s/ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const HELLO: &[u8] = b"{\"type\":\"hello\"}";

/// The bytes are a script: what the peer sends, what its socket takes, what the session does. What
/// the peer receives must be one HTTP response, or a handshake's answer and then valid frames with
/// nothing behind the close; and no script makes the connection keep more than its bounds.
pub fn connection(script: &[u8]) {
    let mut play = Play::default();
    let mut script = script;
    if script.first().is_some_and(|first| first & 1 == 0) {
        play.hear(&mut HANDSHAKE.to_vec());
    }
    while let [act, operand, rest @ ..] = script {
        script = rest;
        match act % 10 {
            // Twice, or little would be said.
            0 | 1 => {
                let (said, behind) = rest.split_at(rest.len().min(usize::from(*operand)));
                script = behind;
                play.hear(&mut said.to_vec());
            }
            2 => play.send(usize::from(*operand)),
            3 => play.send(usize::MAX),
            4 => play.conn.ping(),
            5 => play.publish(u64::from(*operand % 3), operand & 64 != 0),
            6 => play.truncate(),
            7 => play.complain(),
            8 => match operand % 4 {
                0 => play.conn.fail(ErrorCode::Lagged, "too slow"),
                1 => play.conn.close(CloseCode::GOING_AWAY, "bye"),
                2 => play.conn.drop_events(),
                _ => play.conn.hear_out(),
            },
            // As many messages that are no client frames, each of which has to be answered.
            _ => play.hear(&mut b"\x81\x80\0\0\0\0".repeat(usize::from(*operand))),
        }
        play.check();
    }
    play.send(usize::MAX);
    play.read_all();
}

/// A connection, its owner, and what has left.
#[derive(Default)]
struct Play {
    conn: Conn,
    sent: Vec<u8>,
    next: u64,
    /// A breach or the peer's close was reported.
    ended: bool,
    /// Error frames that the owner has queued.
    complaints: usize,
}

impl Play {
    fn hear(&mut self, mut input: &mut [u8]) {
        while !input.is_empty() {
            let Some(incoming) = self.conn.receive(&mut input) else { break };
            assert!(!self.ended, "{incoming:?} after the end");
            match incoming {
                Incoming::Request(head) => match crate::proto::upgrade::accept(&head) {
                    Ok(key) => {
                        self.conn.switch_protocols(&key);
                        self.conn.open(HELLO);
                    }
                    Err(_) => self.answer(),
                },
                Incoming::BadRequest(_) => self.answer(),
                Incoming::Command(_) | Incoming::BadFrame => {}
                Incoming::Closed(_) | Incoming::Breach(_) => self.ended = true,
            }
        }
        // What may not be looked at yet is kept by whoever read it, and it reads no more.
        assert!(input.is_empty() || !self.conn.takes_input());
    }

    fn complain(&mut self) {
        self.conn.error(ErrorCode::Internal, "an error");
        self.complaints += 1;
    }

    fn truncate(&mut self) {
        if self.conn.is_open() {
            self.conn.in_order(b"{\"type\":\"replay_truncated\"}");
        }
    }

    fn answer(&mut self) {
        let mut response = Vec::new();
        crate::proto::http::write_response(&mut response, Status::NotFound, &[], "no");
        self.conn.respond(&response);
    }

    fn publish(&mut self, skip: u64, live: bool) {
        let session = SessionId::parse("s").expect("it is a valid id");
        let mut lines = Vec::new();
        for _ in 0..2 {
            let begins = lines.len();
            let body = Body::AssistantChunk { text: "x".repeat(self.next as usize % 200) };
            write_envelope(&mut lines, EventId(1), &session, self.next, Wall(0), &body);
            line::seal(&mut lines, begins, 0);
            self.next += 1;
        }
        if live {
            return self.conn.events(&lines, skip);
        }
        let mut frames = Vec::new();
        for body in line::bodies(&lines) {
            write_text(&mut frames, &[body, b"}"].concat());
        }
        self.conn.frames(frames);
    }

    /// Its socket takes `n` bytes.
    fn send(&mut self, n: usize) {
        let mut left = n;
        loop {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = self.conn.slices(&mut slices);
            let offered: usize = slices[..count].iter().map(|slice| slice.len()).sum();
            let taken = offered.min(left);
            if taken == 0 {
                assert!(left == 0 || !self.conn.has_output(), "what waits is offered");
                return;
            }
            let all: Vec<u8> =
                slices[..count].iter().flat_map(|slice| slice.iter()).copied().collect();
            self.sent.extend_from_slice(&all[..taken]);
            self.conn.advance(taken);
            left -= taken;
        }
    }

    fn check(&self) {
        let (frames, bytes) = self.conn.live();
        assert_eq!(frames == 0, bytes == 0, "live frames have bytes");
        if let Some(outbox) = &self.conn.outbox {
            // The bound stops the reading, behind the answer that passes it.
            let slack = (1 + self.complaints) * 512;
            assert!(outbox.protocol_bytes() <= PROTOCOL_BYTES_MAX + slack);
        }
    }

    /// Reads what was sent as a peer does.
    fn read_all(mut self) {
        if self.sent.is_empty() {
            return;
        }
        let head_end = self.sent.windows(4).position(|window| window == b"\r\n\r\n");
        let head_end = head_end.expect("an answer begins with a whole head") + 4;
        if !self.sent.starts_with(b"HTTP/1.1 101 ") {
            assert!(self.sent.starts_with(b"HTTP/1.1 "));
            assert!(self.sent.ends_with(b"no\n"), "one answer, and nothing behind it");
            return;
        }
        let mut assembler = Assembler::new(Role::Client, 1 << 20);
        let mut frames = &mut self.sent[head_end..];
        let mut last_seq = None;
        while let Some(item) = assembler.push(&mut frames).expect("our frames are valid") {
            match item {
                Item::Text(text) => {
                    json::check(text.as_bytes()).expect("our frames are JSON");
                    if let Some(event) = crate::proto::event::Envelope::parse(text.as_bytes()) {
                        assert!(last_seq < Some(event.seq), "events keep their order");
                        last_seq = Some(event.seq);
                    }
                }
                Item::Close(_) => {
                    assert!(self.conn.is_ending());
                    assert!(frames.is_empty(), "nothing follows the close frame");
                    return;
                }
                Item::Ping(_) | Item::Pong(_) => {}
                Item::Binary(_) | Item::TooLarge => panic!("never sent"),
            }
        }
        assert!(assembler.is_idle(), "whole frames");
        assert!(!self.ended, "who ends it is answered with a close frame");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_scripts_break_nothing() {
        let mut state: u64 = 7;
        for len in 0..2_000 {
            let script: Vec<u8> = (0..len % 400)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    (state >> 32) as u8
                })
                .collect();
            connection(&script);
        }
    }
}
