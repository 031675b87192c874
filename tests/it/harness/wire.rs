//! A client of bytes: what no WebSocket library would send, and frames as they stand on the wire.

use std::io::{ErrorKind, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use serde_json::Value;

use super::{PATIENCE, read_some};

pub(crate) const CONTINUATION: u8 = 0x0;
pub(crate) const TEXT: u8 = 0x1;
pub(crate) const BINARY: u8 = 0x2;
pub(crate) const CLOSE: u8 = 0x8;
pub(crate) const PING: u8 = 0x9;
pub(crate) const PONG: u8 = 0xA;

const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;
/// The length follows in 16 bits.
const LEN_16: u8 = 0x7E;
/// The length follows in 64 bits.
const LEN_64: u8 = 0x7F;

/// Any mask will do; this one changes every bit pattern the tests use.
const MASK: [u8; 4] = [0x37, 0xFA, 0x21, 0x3D];

/// The sample nonce of RFC 6455, section 1.3.
pub(crate) const SAMPLE_KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
/// What RFC 6455, section 1.3, derives from it.
pub(crate) const SAMPLE_ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// A frame from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) fin: bool,
    pub(crate) opcode: u8,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The code of a close frame.
    pub(crate) fn close_code(&self) -> Option<u16> {
        assert_eq!(self.opcode, CLOSE, "{self:?}");
        self.payload.first_chunk().map(|code| u16::from_be_bytes(*code))
    }

    /// The payload of a text frame as JSON.
    pub(crate) fn json(&self) -> Value {
        assert_eq!((self.fin, self.opcode), (true, TEXT), "{self:?}");
        serde_json::from_slice(&self.payload).unwrap()
    }
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer finished writing: everything it had to say has arrived.
    Clean,
    /// The peer reset the connection: something it said may be lost.
    Reset,
}

/// A masked frame, as a client must send it.
pub(crate) fn masked(fin: bool, opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = header(fin, opcode, MASKED, payload.len());
    frame.extend_from_slice(&MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// A frame without a mask, which a client must not send.
pub(crate) fn unmasked(fin: bool, opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = header(fin, opcode, 0, payload.len());
    frame.extend_from_slice(payload);
    frame
}

/// The payload of a close frame.
pub(crate) fn close_payload(code: u16, reason: &[u8]) -> Vec<u8> {
    [&code.to_be_bytes(), reason].concat()
}

fn header(fin: bool, opcode: u8, mask_bit: u8, len: usize) -> Vec<u8> {
    let first = if fin { FIN | opcode } else { opcode };
    match (u8::try_from(len), u16::try_from(len)) {
        (Ok(len @ 0..=125), _) => vec![first, mask_bit | len],
        (_, Ok(len)) => [&[first, mask_bit | LEN_16][..], &len.to_be_bytes()].concat(),
        _ => [&[first, mask_bit | LEN_64][..], &(len as u64).to_be_bytes()].concat(),
    }
}

/// The request of a valid handshake, to be sent as it is or altered first.
pub(crate) fn handshake(session: &str, token: &str) -> String {
    format!(
        "GET /agents/{session}/ws HTTP/1.1\r\nHost: terret.test\r\nUpgrade: websocket\r\n\
         Connection: Upgrade\r\nSec-WebSocket-Key: {SAMPLE_KEY}\r\nSec-WebSocket-Version: 13\r\n\
         Authorization: Bearer {token}\r\n\r\n"
    )
}

/// A connection and what it has said that nobody has looked at yet.
pub(crate) struct Wire {
    stream: TcpStream,
    unread: Vec<u8>,
    end: Option<End>,
}

impl Wire {
    pub(crate) fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, unread: Vec::new(), end: None }
    }

    /// Shakes hands and takes the `hello`.
    pub(crate) fn open(addr: SocketAddr, session: &str, token: &str) -> Self {
        let mut wire = Self::connect(addr);
        wire.send(handshake(session, token).as_bytes());
        let head = wire.head();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        let hello = wire.next_frame().json();
        assert_eq!(hello["type"], "hello", "{hello}");
        wire
    }

    /// Sends what the server takes of it; a server that has already hung up is no failure here.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        if let Err(error) = self.stream.write_all(bytes) {
            let hung_up =
                matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset);
            assert!(hung_up, "{error}");
        }
    }

    pub(crate) fn send_text(&mut self, text: &str) {
        self.send(&masked(true, TEXT, text.as_bytes()));
    }

    /// Says that nothing more will be sent.
    pub(crate) fn finish_writing(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// A response head, up to and including its blank line.
    pub(crate) fn head(&mut self) -> String {
        loop {
            if let Some(at) = self.unread.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = self.unread.drain(..at + 4).collect();
                return String::from_utf8(head).unwrap();
            }
            let so_far = String::from_utf8_lossy(&self.unread).into_owned();
            assert!(self.read_more(), "the connection ended within a head: {so_far:?}");
        }
    }

    /// The next frame; `None` at the end of the connection, which must not fall inside a frame.
    pub(crate) fn frame(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.buffered_frame() {
                return Some(frame);
            }
            if !self.read_more() {
                assert!(self.unread.is_empty(), "cut inside a frame: {} bytes", self.unread.len());
                return None;
            }
        }
    }

    /// The next frame, which must come.
    pub(crate) fn next_frame(&mut self) -> Frame {
        self.frame().expect("the connection ended where a frame was expected")
    }

    /// The next frame that is neither a ping nor a pong.
    pub(crate) fn next_data(&mut self) -> Frame {
        loop {
            let frame = self.next_frame();
            if !matches!(frame.opcode, PING | PONG) {
                return frame;
            }
        }
    }

    /// The next frame, if it is whole within `budget` further bytes, which are taken off `budget`.
    pub(crate) fn frame_within(&mut self, budget: &mut usize) -> Option<Frame> {
        loop {
            let frame = self.buffered_frame();
            if frame.is_some() || *budget == 0 {
                return frame;
            }
            *budget -= self.sip(*budget);
        }
    }

    /// Takes at most `bytes` from the socket, without looking at them; returns how many came.
    pub(crate) fn sip(&mut self, bytes: usize) -> usize {
        let mut piece = vec![0; bytes];
        let len = read_some(&mut self.stream, &mut piece).unwrap();
        self.unread.extend_from_slice(&piece[..len]);
        len
    }

    /// Everything until the connection ends, and how it ended.
    pub(crate) fn rest(&mut self) -> (Vec<u8>, End) {
        while self.read_more() {}
        (std::mem::take(&mut self.unread), self.end.unwrap())
    }

    fn read_more(&mut self) -> bool {
        if self.end.is_some() {
            return false;
        }
        let mut piece = vec![0; 64 * 1024];
        match read_some(&mut self.stream, &mut piece) {
            Ok(0) => self.end = Some(End::Clean),
            Ok(len) => self.unread.extend_from_slice(&piece[..len]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                self.end = Some(End::Reset);
            }
            Err(error) => panic!("waiting for the server: {error}"),
        }
        self.end.is_none()
    }

    /// Takes a whole frame off the buffer and holds it to what a server may send.
    fn buffered_frame(&mut self) -> Option<Frame> {
        let [first, second, ..] = *self.unread else { return None };
        assert_eq!(first & 0x70, 0, "no extension is negotiated, so no reserved bit is set");
        assert_eq!(second & MASKED, 0, "a server must not mask");
        let (start, len) = match second {
            LEN_16 => (4, usize::from(u16::from_be_bytes(*self.unread.get(2..)?.first_chunk()?))),
            LEN_64 => (
                10,
                usize::try_from(u64::from_be_bytes(*self.unread.get(2..)?.first_chunk()?)).unwrap(),
            ),
            len => (2, usize::from(len)),
        };
        let minimal = match start {
            4 => len > 125,
            10 => len > 0xFFFF,
            _ => true,
        };
        assert!(minimal, "a length of {len} in {start} header bytes is not minimal");
        if self.unread.len() < start + len {
            return None;
        }
        let payload = self.unread.drain(..start + len).skip(start).collect();
        Some(Frame { fin: first & FIN != 0, opcode: first & 0x0F, payload })
    }
}
