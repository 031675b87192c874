//! One connection as the peer has it: bytes on their way to the server and from it, what they say,
//! and whether it may be said.

use super::record::Record;
use super::stream::Stream;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use terret_ws::conn::slab::Tag;
use terret_ws::proto::ws::frame::Opcode;
use terret_ws::proto::ws::{CloseCode, write_masked, write_masked_close};

/// See the module's documentation.
pub(super) struct Client {
    pub(super) number: u32,
    pub(super) tag: Tag,
    pub(super) session: usize,
    pub(super) kind: Kind,
    /// What the server has not been given yet.
    pub(super) outgoing: VecDeque<u8>,
    /// Bytes the server was given.
    pub(super) passed: u64,
    /// Texts in `outgoing` or behind what the server has looked at, with the byte they end at.
    pub(super) unposted: Vec<(u64, String)>,
    /// Bytes it takes before its socket blocks.
    pub(super) room: usize,
    /// It was slow once.
    pub(super) was_slow: bool,
    /// Bytes it was given.
    pub(super) taken: u64,
    incoming: Vec<u8>,
    /// Bytes of `taken` that were understood.
    understood: u64,
    /// The head of the server's answer.
    pub(super) head: String,
    /// What the server said first.
    pub(super) hello: Option<u64>,
    /// Events of its session that somebody had seen when it connected, counted up to the highest.
    pub(super) seen_before: u64,
    /// Events that a history read has to know of.
    pub(super) least_history: u64,
    pub(super) stream: Stream,
    /// The highest seq it has.
    pub(super) have: Option<u64>,
    /// How many error frames of each code it has to expect.
    owed: BTreeMap<String, u32>,
    /// Codes that may end it at any time.
    pub(super) may_end: BTreeSet<&'static str>,
    /// The code of an error frame that ends the connection.
    pub(super) ended_by: Option<String>,
    /// The code the server closed with.
    pub(super) close: Option<u16>,
    /// It has sent a close frame, or broken the rules.
    pub(super) said_goodbye: bool,
    /// The code it is to be closed with for that.
    breach: Option<u16>,
    /// It has sent its last byte.
    pub(super) hung_up: bool,
    /// The server has sent its last byte.
    pub(super) shut: bool,
    /// It answers no ping.
    pub(super) mute: bool,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Socket,
    /// `GET /agents/{id}`
    Status,
    /// `GET /metrics`
    Metrics,
    /// `GET /agents/{id}/events`
    History {
        from: u64,
        limit: u64,
    },
}

/// What a server's frame says, its payload left out.
#[derive(Debug, Deserialize)]
struct Frame<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    seq: Option<u64>,
    session_id: Option<&'a str>,
    last_seq: Option<u64>,
    requested_from_seq: Option<u64>,
    from_seq: Option<u64>,
    code: Option<&'a str>,
}

/// What the checks of a frame need to know.
pub(super) struct Around<'a> {
    pub(super) record: &'a mut Record,
    pub(super) replay_limit: u64,
    /// Something happened in this process that may cost any connection an `internal`.
    pub(super) troubled: bool,
}

impl Client {
    pub(super) fn new(number: u32, tag: Tag, session: usize, kind: Kind, request: &str) -> Self {
        Self {
            number,
            tag,
            session,
            kind,
            outgoing: request.bytes().collect(),
            passed: 0,
            unposted: Vec::new(),
            room: usize::MAX,
            was_slow: false,
            taken: 0,
            incoming: Vec::new(),
            understood: 0,
            head: String::new(),
            hello: None,
            seen_before: 0,
            least_history: 0,
            stream: Stream::default(),
            have: None,
            owed: BTreeMap::new(),
            may_end: BTreeSet::new(),
            ended_by: None,
            close: None,
            said_goodbye: false,
            breach: None,
            hung_up: false,
            shut: false,
            mute: false,
        }
    }

    /// Whether it may still say something that is heard.
    pub(super) fn talks(&self) -> bool {
        self.kind == Kind::Socket
            && !self.said_goodbye
            && !self.hung_up
            && self.close.is_none()
            && self.ended_by.is_none()
    }

    /// Bytes it has sent, whether the server was given them or not.
    pub(super) fn sent(&self) -> u64 {
        self.passed + self.outgoing.len() as u64
    }

    /// Sends a text message, in as many frames as there are pieces.
    pub(super) fn say(&mut self, pieces: &[&[u8]]) {
        let mut bytes = Vec::new();
        for (index, piece) in pieces.iter().enumerate() {
            let begins = bytes.len();
            write_masked(&mut bytes, Opcode::Text, piece, [7, 77, 177, 3]);
            if index > 0 {
                bytes[begins] &= 0xf0;
            }
            if index + 1 < pieces.len() {
                bytes[begins] &= 0x7f;
            }
        }
        self.outgoing.extend(bytes);
    }

    pub(super) fn say_binary(&mut self, bytes: &[u8]) {
        let mut frame = Vec::new();
        write_masked(&mut frame, Opcode::Binary, bytes, [1, 0, 255, 3]);
        self.outgoing.extend(frame);
    }

    pub(super) fn say_goodbye(&mut self) {
        let mut frame = Vec::new();
        write_masked_close(&mut frame, CloseCode::NORMAL, "enough", [9, 9, 9, 9]);
        self.outgoing.extend(frame);
        self.said_goodbye = true;
    }

    /// What it has sent breaks the rules of WebSocket, and it is to be closed with this code.
    pub(super) fn breaks_rules(&mut self, code: u16) {
        self.said_goodbye = true;
        self.breach = Some(code);
    }

    /// It is going to get an error frame that leaves it open.
    pub(super) fn expect_error(&mut self, code: &str) {
        *self.owed.entry(code.to_owned()).or_default() += 1;
    }

    /// The codes of the error frames it has got.
    pub(super) fn errors(&self) -> impl Iterator<Item = &str> {
        self.owed.keys().map(String::as_str).chain(self.ended_by.as_deref())
    }

    /// Codes of error frames that are owed and have not come.
    pub(super) fn owed(&self) -> Vec<&str> {
        self.owed.iter().filter(|(_, count)| **count > 0).map(|(code, _)| &**code).collect()
    }

    /// The socket took these bytes for it.
    pub(super) fn take(&mut self, bytes: &[u8], around: &mut Around<'_>) {
        self.taken += bytes.len() as u64;
        self.incoming.extend_from_slice(bytes);
        if self.head.is_empty() {
            let Some(end) = self.incoming.windows(4).position(|four| four == b"\r\n\r\n") else {
                return;
            };
            self.head = String::from_utf8(self.incoming.drain(..end + 4).collect()).unwrap();
            self.understood += end as u64 + 4;
        }
        if self.head.starts_with("HTTP/1.1 101 ") {
            while self.take_frame(around) {}
        }
    }

    /// What followed the head of an answer that is no 101.
    pub(super) fn body(&self) -> &[u8] {
        &self.incoming
    }

    /// Takes one frame apart; false if there is no whole one.
    fn take_frame(&mut self, around: &mut Around<'_>) -> bool {
        let Some((opcode, head, len)) = frame_head(&self.incoming) else { return false };
        if self.incoming.len() < head + len {
            return false;
        }
        assert!(self.close.is_none(), "a frame behind the close frame");
        let payload: Vec<u8> = self.incoming.drain(..head + len).skip(head).collect();
        let at = self.understood;
        self.understood += (head + len) as u64;
        match opcode {
            0x1 => self.text(&payload, at, around),
            0x8 => self.closed(&payload),
            0x9 if self.mute || self.said_goodbye => {}
            0x9 => {
                let mut pong = Vec::new();
                write_masked(&mut pong, Opcode::Pong, &payload, [5, 6, 7, 8]);
                self.outgoing.extend(pong);
            }
            0xa => {}
            opcode => panic!("the server sent opcode {opcode}"),
        }
        true
    }

    fn text(&mut self, payload: &[u8], at: u64, around: &mut Around<'_>) {
        assert!(self.ended_by.is_none(), "a frame behind the error that ended the connection");
        let frame: Frame = serde_json::from_slice(payload).expect("a frame is JSON");
        let record = &mut *around.record;
        let outcome = match frame {
            Frame { seq: Some(seq), .. } => {
                record.received(seq, payload);
                self.have = self.have.max(Some(seq));
                self.stream.event(seq, at, around.replay_limit)
            }
            Frame { kind: "hello", session_id: Some(id), last_seq: Some(last), .. } => {
                assert_eq!((self.hello, id), (None, record.id.as_str()), "hello comes once");
                let seen = self.seen_before;
                assert!(last + 1 >= seen, "hello says {last} and {seen} events were seen");
                assert!(last < record.published, "hello says {last}, beyond the tip");
                self.hello = Some(last);
                Ok(())
            }
            Frame {
                kind: "replay_truncated",
                requested_from_seq: Some(requested),
                from_seq: Some(from),
                ..
            } => {
                let tip = record.published - 1;
                self.stream.truncated((requested, from), at, tip, around.replay_limit)
            }
            Frame { kind: "error", code: Some(code), .. } => self.error(code, around),
            _ => Err(format!("an unknown frame: {frame:?}")),
        };
        if let Err(wrong) = outcome {
            panic!("client {} of {}: {wrong}", self.number, around.record.id);
        }
        // One that had gone again before its hello is heard out when another takes its place.
        let went = self.said_goodbye && self.may_end.contains("superseded");
        let first = self.hello.is_some() || self.ended_by.is_some() || went;
        assert!(first, "the first frame is hello, or an error that ends it");
    }

    fn error(&mut self, code: &str, around: &Around<'_>) -> Result<(), String> {
        if close_code(code).is_some() {
            self.ended_by = Some(code.to_owned());
            let may = match code {
                "internal" => around.troubled,
                "lagged" => self.was_slow || around.replay_limit < 1000,
                code => self.may_end.contains(code),
            };
            return if may { Ok(()) } else { Err(format!("ended for no reason: {code}")) };
        }
        match self.owed.get_mut(code) {
            Some(left @ 1..) => *left -= 1,
            _ => return Err(format!("an error that nobody asked for: {code}")),
        }
        Ok(())
    }

    fn closed(&mut self, payload: &[u8]) {
        let code = payload.first_chunk().map(|code| u16::from_be_bytes(*code));
        self.close = Some(code.unwrap_or(1005));
        match (&self.ended_by, code) {
            (Some(why), code) => assert_eq!(code, close_code(why), "{why}"),
            (None, Some(1001)) => assert!(self.may_end.contains("stopping"), "who stopped?"),
            (None, code) => {
                let want = self.breach.or(Some(1000));
                assert!(self.said_goodbye && code == want, "closed with {code:?} for no reason");
            }
        }
    }
}

/// Opcode, length of the head and of the payload of the frame that begins so. Servers do not mask,
/// and ours does not fragment.
fn frame_head(bytes: &[u8]) -> Option<(u8, usize, usize)> {
    let (&first, &second) = (bytes.first()?, bytes.get(1)?);
    assert!(first & 0xf0 == 0x80 && second & 0x80 == 0, "a whole frame of a server");
    let (head, len) = match second {
        126 => (4, u64::from(u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?))),
        127 => (10, u64::from_be_bytes(*bytes.get(2..)?.first_chunk()?)),
        len => (2, u64::from(len)),
    };
    Some((first & 0xf, head, len as usize))
}

/// Clarifications, section 2.
fn close_code(error: &str) -> Option<u16> {
    match error {
        "unauthorized" => Some(4401),
        "superseded" => Some(4409),
        "lagged" => Some(4429),
        "internal" => Some(1011),
        _ => None,
    }
}
