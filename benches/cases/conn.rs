//! What a connection still has to send: events pushed into its ring and drained by writes.

use std::io::IoSlice;

use terret_ws::conn::ring::SLICES_MAX;
use terret_ws::conn::{Conn, Incoming};
use terret_ws::proto::event::write_hello;
use terret_ws::proto::upgrade::accept;

use super::session::{self, DELTA};
use super::{Meter, PACKET_BYTES, Work};

const HANDSHAKE: &[u8] = b"GET /agents/session-0123456789/ws HTTP/1.1\r\nHost: h\r\n\
    Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// A connection that has been greeted and has taken everything.
fn open() -> Conn {
    let mut conn = Conn::default();
    let mut bytes = HANDSHAKE.to_vec();
    let Some(Incoming::Request(head)) = conn.receive(&mut &mut bytes[..]) else {
        panic!("the head is whole")
    };
    conn.switch_protocols(&accept(&head).expect("a valid handshake"));
    let mut hello = Vec::new();
    write_hello(&mut hello, &session::id(), 0);
    conn.open(&hello);
    drain(&mut conn, usize::MAX, |_| {});
    conn
}

/// Takes everything by writes of which the socket takes `taken` bytes at most; how many bytes that were.
fn drain(conn: &mut Conn, taken: usize, mut seen: impl FnMut(&[u8])) -> usize {
    let mut sum = 0;
    while conn.has_output() {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = conn.slices(&mut slices);
        let mut left = taken;
        for slice in &slices[..count] {
            let part = &slice[..slice.len().min(left)];
            left -= part.len();
            sum += part.len();
            seen(part);
        }
        let all: usize = slices[..count].iter().map(|slice| slice.len()).sum();
        conn.advance(all.min(taken));
    }
    sum
}

pub(crate) fn ring(meter: &mut impl Meter) {
    let count = 256;
    let lines = session::lines(&vec![session::chunk(DELTA); count]);
    for (how, at_once, taken) in [
        ("one by one, each drained at once", 1, usize::MAX),
        ("together, drained at once", count, usize::MAX),
        ("together, drained in packets", count, PACKET_BYTES),
    ] {
        let parts: Vec<Vec<u8>> = lines
            .split_inclusive(|&byte| byte == b'\n')
            .collect::<Vec<_>>()
            .chunks(at_once)
            .map(<[&[u8]]>::concat)
            .collect();
        let pass = |conn: &mut Conn, seen: &mut dyn FnMut(&[u8])| {
            let mut sum = 0;
            for part in &parts {
                conn.events(part, 0);
                sum += drain(conn, taken, &mut *seen);
            }
            sum
        };
        meter.again(
            &format!("conn/ring push and drain/{count} live deltas {how}"),
            Work::Events(count),
            open(),
            |conn| pass(conn, &mut |_| {}),
            |_, sum| {
                let mut out = Vec::new();
                pass(&mut open(), &mut |part| out.extend_from_slice(part));
                assert!(out == session::frames(&lines), "each event in a frame of its own");
                assert_eq!(*sum, out.len());
            },
        );
    }
}
