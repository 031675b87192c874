//! A connection from its first byte to its last, as a machine: bytes in, requests and commands
//! out, frames queued.
//!
//! It knows HTTP heads and RFC 6455, and no session, token, socket or clock. Its owner feeds it
//! what the socket read, sends what [`Outbox`] shows, and decides what a request may do.
//!
//! Invariants: after a close frame nothing is queued and nothing received is looked at; a peer is
//! answered with at most one close frame; memory is bounded by what `limits` allows to be queued,
//! whatever the peer sends.

// What arrives here comes from anybody: a place that cannot fail says why it cannot.
#![cfg_attr(not(any(test, fuzzing)), deny(clippy::expect_used, clippy::unwrap_used, clippy::panic))]

#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod gate;
pub mod ring;
pub mod slab;
pub mod subscription;

use crate::limits::{CLIENT_MESSAGE_BYTES_MAX, PROTOCOL_BYTES_MAX};
use crate::log::line::bodies;
use crate::proto::command::Command;
use crate::proto::event::{ErrorCode, write_error};
use crate::proto::http::{
    Head, HeadError, HeadParser, Status, write_chunk, write_chunked_head, write_last_chunk,
    write_to_close_head,
};
use crate::proto::upgrade::{AcceptKey, write_switching_protocols};
use crate::proto::ws::{self, Assembler, CloseCode, Item, ProtocolError, Role};
use ring::{Outbox, SLICES_MAX};
use std::io::IoSlice;

/// What a chunk and the last chunk add to a body: a size, three line ends, and the five bytes of the
/// last one.
const CHUNK_OVERHEAD_BYTES: usize = 32;

/// One connection. See the module's documentation.
#[derive(Debug)]
pub struct Conn {
    phase: Phase,
    outbox: Option<Box<Outbox>>,
}

// One stands in every connection, idle or not.
const _: () = assert!(size_of::<Conn>() <= 24);

#[derive(Debug)]
enum Phase {
    /// The request head has not been received whole.
    Head(Box<HeadParser>),
    /// A head was received; its owner has not said yet what becomes of the connection.
    Asked,
    /// The upgrade was answered and the session is being looked up; nothing is read meanwhile.
    Opening,
    /// Frames pass. What has arrived of a message or frame that is not whole; nothing between two.
    Open(Option<Box<Assembler>>),
    /// An HTTP body is being sent, piece by piece; whatever the peer still says is discarded.
    Streaming { chunked: bool },
    /// The last bytes are queued; whatever the peer still says is discarded.
    Ending,
}

/// What a peer's bytes amounted to.
#[derive(Debug)]
pub enum Incoming {
    /// A request head.
    Request(Box<Head>),
    /// A head that is no HTTP; it has to be answered and the connection ended.
    BadRequest(HeadError),
    /// A client frame.
    Command(Command),
    /// A message that is no client frame. It has been answered with `bad_frame`.
    BadFrame,
    /// The peer's close frame. It has been answered.
    Closed(Option<CloseCode>),
    /// A breach of RFC 6455. It has been answered with its close code.
    Breach(ProtocolError),
}

impl Default for Conn {
    fn default() -> Self {
        Self { phase: Phase::Head(Box::default()), outbox: None }
    }
}

impl Conn {
    /// Looks at the peer's bytes until they amount to something, and moves `input` past what was
    /// used. `None`: all was used, or nothing more may be used now (see [`Conn::takes_input`]).
    #[expect(clippy::mut_mut, reason = "the slice moves along with what is used of it")]
    pub fn receive(&mut self, input: &mut &mut [u8]) -> Option<Incoming> {
        while self.takes_input() {
            match &mut self.phase {
                Phase::Head(parser) => match parser.push(input) {
                    Ok(None) => {
                        *input = &mut [];
                        return None;
                    }
                    Ok(Some((head, used))) => {
                        *input = &mut std::mem::take(input)[used..];
                        self.phase = Phase::Asked;
                        return Some(Incoming::Request(Box::new(head)));
                    }
                    Err(error) => {
                        *input = &mut [];
                        self.phase = Phase::Asked;
                        return Some(Incoming::BadRequest(error));
                    }
                },
                Phase::Open(begun) => {
                    let mut assembler = begun.take().map_or_else(assembler, |begun| *begun);
                    let pushed = assembler.push(input);
                    if !assembler.is_idle() {
                        *begun = Some(Box::new(assembler));
                    }
                    match pushed {
                        Ok(None) => return None,
                        Ok(Some(item)) => {
                            if let Some(incoming) = self.item(item) {
                                return Some(incoming);
                            }
                        }
                        Err(error) => {
                            if error == ProtocolError::TextNotUtf8 {
                                self.error(ErrorCode::BadFrame, "text message is not UTF-8");
                            }
                            self.close(error.close_code(), "");
                            return Some(Incoming::Breach(error));
                        }
                    }
                }
                Phase::Streaming { .. } | Phase::Ending => *input = &mut [],
                Phase::Asked | Phase::Opening => return None,
            }
            if input.is_empty() {
                return None;
            }
        }
        None
    }

    fn item(&mut self, item: Item<'_>) -> Option<Incoming> {
        let reason = match item {
            Item::Text(text) => match Command::parse(text.as_bytes()) {
                Ok(command) => return Some(Incoming::Command(command)),
                Err(bad) => bad.to_string(),
            },
            Item::Binary(_) => "binary message: frames are JSON text messages".to_owned(),
            Item::TooLarge => format!("message larger than {CLIENT_MESSAGE_BYTES_MAX} bytes"),
            Item::Ping(payload) => {
                let mut pong = Vec::new();
                ws::write_pong(&mut pong, &payload);
                self.outbox().push_protocol(&pong);
                return None;
            }
            Item::Pong(_) => return None,
            Item::Close(close) => {
                let code = close.map(|(code, _)| code);
                self.answer_close(code);
                return Some(Incoming::Closed(code));
            }
        };
        self.error(ErrorCode::BadFrame, &reason);
        Some(Incoming::BadFrame)
    }

    /// Whether bytes of the peer may be given to [`Conn::receive`] now: not while its session is
    /// looked up, and not while it leaves more than [`PROTOCOL_BYTES_MAX`] of answers untaken.
    pub fn takes_input(&self) -> bool {
        match self.phase {
            Phase::Asked | Phase::Opening => false,
            Phase::Open(_) => self
                .outbox
                .as_ref()
                .is_none_or(|outbox| outbox.protocol_bytes() <= PROTOCOL_BYTES_MAX),
            Phase::Head(_) | Phase::Streaming { .. } | Phase::Ending => true,
        }
    }

    /// Answers the request with 101; frames pass after [`Conn::open`].
    pub fn switch_protocols(&mut self, key: &AcceptKey) {
        let mut answer = Vec::new();
        write_switching_protocols(&mut answer, key);
        self.outbox().push_raw(&answer);
        self.phase = Phase::Opening;
    }

    /// Sends `hello`, a protocol frame's JSON, and lets frames pass.
    pub fn open(&mut self, hello: &[u8]) {
        assert!(matches!(self.phase, Phase::Opening), "a connection opens once, after its 101");
        self.protocol_frame(hello);
        self.phase = Phase::Open(None);
    }

    /// Answers the request with a whole HTTP response and ends the connection.
    pub fn respond(&mut self, response: &[u8]) {
        self.outbox().push_raw(response);
        self.phase = Phase::Ending;
    }

    /// Begins an HTTP response of a media type, whose body follows in pieces. A client that does not
    /// know the chunked coding learns of the body's end by the connection's.
    pub fn begin_stream(&mut self, media_type: &str, chunked: bool) {
        let mut head = Vec::new();
        let write = if chunked { write_chunked_head } else { write_to_close_head };
        write(&mut head, Status::Ok, media_type);
        self.outbox().push_raw(&head);
        self.phase = Phase::Streaming { chunked };
    }

    /// Queues the wire envelopes of whole log lines, one a line, as the next piece of the body;
    /// `last` ends the connection behind it.
    pub fn stream(&mut self, lines: &[u8], last: bool) {
        assert!(matches!(self.phase, Phase::Streaming { .. }), "a body follows its head");
        let chunked = matches!(self.phase, Phase::Streaming { chunked: true });
        let mut piece = Vec::with_capacity(lines.len());
        for wire in bodies(lines) {
            piece.extend_from_slice(wire);
            piece.extend_from_slice(b"}\n");
        }
        if chunked {
            let mut chunk = Vec::with_capacity(piece.len() + CHUNK_OVERHEAD_BYTES);
            write_chunk(&mut chunk, &piece);
            if last {
                write_last_chunk(&mut chunk);
            }
            piece = chunk;
        }
        self.outbox().push_raw(&piece);
        if last {
            self.phase = Phase::Ending;
        }
    }

    /// Gives up on an HTTP body: the missing end of the chunked coding tells the peer.
    pub fn abandon_stream(&mut self) {
        self.phase = Phase::Ending;
    }

    /// Queues an error frame. The connection stays open; one that is closing gets none, as nothing
    /// may follow its close frame (RFC 6455, 5.5.1).
    pub fn error(&mut self, code: ErrorCode, message: &str) {
        if matches!(self.phase, Phase::Opening | Phase::Open(_)) {
            let mut frame = Vec::new();
            write_error(&mut frame, code, message);
            self.protocol_frame(&frame);
        }
    }

    /// Queues an error frame in place of everything else that waits, and closes with its code
    /// (clarifications, section 2).
    #[expect(clippy::expect_used, reason = "the code is the server's choice, never the peer's")]
    pub fn fail(&mut self, code: ErrorCode, message: &str) {
        let close = code.close_code().and_then(CloseCode::new);
        let close = close.expect("only codes that close a connection have one, and it is valid");
        if matches!(self.phase, Phase::Opening | Phase::Open(_)) {
            self.outbox().drop_all();
            self.error(code, message);
            self.close(close, "");
        }
    }

    /// Lets what the peer has already sent be looked at, although its session is not known yet: it is
    /// about to be closed, and what came before that counts.
    pub fn hear_out(&mut self) {
        if matches!(self.phase, Phase::Opening) {
            self.phase = Phase::Open(None);
        }
    }

    /// Queues a close frame behind the protocol frames that wait; events that wait are dropped.
    pub fn close(&mut self, code: CloseCode, reason: &str) {
        if matches!(self.phase, Phase::Opening | Phase::Open(_)) {
            let mut frame = Vec::new();
            ws::write_close(&mut frame, code, reason);
            self.last_frame(&frame);
        }
    }

    /// A close frame is answered with the code it came with, or with none (RFC 6455, 5.5.1).
    fn answer_close(&mut self, code: Option<CloseCode>) {
        let mut frame = Vec::new();
        match code {
            Some(code) => ws::write_close(&mut frame, code, ""),
            None => ws::write_empty_close(&mut frame),
        }
        self.last_frame(&frame);
    }

    fn last_frame(&mut self, frame: &[u8]) {
        self.outbox().drop_events();
        self.outbox().push_protocol(frame);
        self.phase = Phase::Ending;
    }

    fn protocol_frame(&mut self, json: &[u8]) {
        let mut frame = Vec::with_capacity(json.len() + 4);
        ws::write_text(&mut frame, json);
        self.outbox().push_protocol(&frame);
    }

    /// Queues a ping, unless answers wait that the peer does not take: they tell it as much.
    pub fn ping(&mut self) {
        if matches!(self.phase, Phase::Open(_)) && self.outbox().protocol_bytes() == 0 {
            let mut frame = Vec::new();
            ws::write_ping(&mut frame, b"");
            self.outbox().push_protocol(&frame);
        }
        self.release();
    }

    /// Queues a protocol frame's JSON in the order of the session's stream.
    pub fn in_order(&mut self, json: &[u8]) {
        self.outbox().push_event(&[&ws::text_header(json.len()), json], false);
    }

    /// Queues the events of whole log lines as they come from the live tail, each in a frame of its
    /// own, after leaving out the first `skip`.
    pub fn events(&mut self, lines: &[u8], skip: u64) {
        if !matches!(self.phase, Phase::Open(_)) {
            return;
        }
        let outbox = self.outbox();
        // A frame's head is shorter than the seal of its line.
        outbox.reserve(lines.len());
        for wire in bodies(lines).skip(skip as usize) {
            outbox.push_event(&[&ws::text_header(wire.len() + 1), wire, b"}"], true);
        }
    }

    /// Queues events from the log that are frames already.
    pub fn frames(&mut self, frames: Vec<u8>) {
        if matches!(self.phase, Phase::Open(_)) {
            self.outbox().push_piece(frames);
        }
    }

    /// Forgets events of a replaced subscription that have not begun to leave.
    pub fn drop_events(&mut self) {
        if let Some(outbox) = &mut self.outbox {
            outbox.drop_events();
        }
        self.release();
    }

    /// Whether frames pass.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open(_))
    }

    /// Whether the last bytes are queued: once they are out, writing is shut down.
    pub fn is_ending(&self) -> bool {
        matches!(self.phase, Phase::Ending)
    }

    /// Whether the request head has been received whole.
    pub fn has_asked(&self) -> bool {
        !matches!(self.phase, Phase::Head(_))
    }

    /// Whether anything waits to be sent.
    pub fn has_output(&self) -> bool {
        self.outbox.as_ref().is_some_and(|outbox| !outbox.is_empty())
    }

    /// Bytes of the session's stream, or of an HTTP body, that wait to be sent.
    pub fn event_bytes(&self) -> usize {
        self.outbox.as_ref().map_or(0, |outbox| outbox.event_bytes())
    }

    /// Frames and bytes of the live tail that wait to be sent.
    pub fn live(&self) -> (usize, usize) {
        self.outbox.as_ref().map_or((0, 0), |outbox| outbox.live())
    }

    /// What to hand to one vectored write.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES_MAX]) -> usize {
        self.outbox.as_ref().map_or(0, |outbox| outbox.slices(slices))
    }

    /// Says that the socket took `n` bytes. Returns the space of a piece that has left with them.
    pub fn advance(&mut self, n: usize) -> Option<Vec<u8>> {
        let space = self.outbox.as_mut().and_then(|outbox| outbox.advance(n));
        self.release();
        space
    }

    fn outbox(&mut self) -> &mut Outbox {
        self.outbox.get_or_insert_default()
    }

    fn release(&mut self) {
        if self.outbox.as_ref().is_some_and(|outbox| outbox.is_empty()) {
            self.outbox = None;
        }
    }
}

/// For a peer that stands between two messages.
fn assembler() -> Assembler {
    Assembler::new(Role::Server, CLIENT_MESSAGE_BYTES_MAX)
}
