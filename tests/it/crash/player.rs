//! A client that says this and that, at a pace of its own, to whatever server there is: it connects
//! again when one dies, and holds what it is sent to what it was sent before.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::{Error, Message, WebSocket};

use super::book::{self, Book};
use crate::harness::{PATIENCE, token};
use crate::sim::random::Random;

/// What players and the one who kills their servers share.
#[derive(Default)]
pub(super) struct Shared {
    /// Where the server listens, when there is one.
    pub(super) addr: Mutex<Option<SocketAddr>>,
    /// Events that were received for the first time.
    pub(super) seen: AtomicUsize,
    /// Players stop.
    pub(super) over: AtomicBool,
    /// A player has found a fault.
    pub(super) broken: AtomicBool,
}

/// One session's client.
pub(super) struct Player<'a> {
    pub(super) shared: &'a Shared,
    pub(super) book: &'a Mutex<Book>,
    pub(super) random: Random,
}

/// How long a player listens before it thinks of something to say.
const PACE: Duration = Duration::from_millis(2);

/// The connection is no more.
struct Gone;

/// One connection, and what is open on it.
struct Talk {
    socket: WebSocket<TcpStream>,
    /// The event that must come next.
    next: u64,
    /// Calls that wait for a verdict, as far as this client knows.
    standing: VecDeque<String>,
    /// The number of the first text that is sent on it.
    first_text: usize,
}

impl Player<'_> {
    /// Talks until there is nothing more to talk about.
    pub(super) fn run(mut self) {
        let alarm = Alarm(&self.shared.broken);
        while !self.shared.over.load(Ordering::Relaxed) {
            let addr = *self.shared.addr.lock().unwrap();
            match addr.and_then(|addr| self.connect(addr)) {
                Some(mut talk) => while self.moment(&mut talk).is_ok() {},
                None => thread::sleep(PACE),
            }
        }
        drop(alarm);
    }

    /// Connects, takes the `hello` and subscribes; nothing if the server dies meanwhile.
    fn connect(&mut self, addr: SocketAddr) -> Option<Talk> {
        let (session, known) = {
            let book = self.book.lock().unwrap();
            (book.session.clone(), book.next())
        };
        let stream = TcpStream::connect(addr).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut request = format!("ws://{addr}/agents/{session}/ws").into_client_request().unwrap();
        let bearer = format!("Bearer {}", token(&session)).parse().unwrap();
        request.headers_mut().insert("Authorization", bearer);
        let (mut socket, _) = tungstenite::client(request, stream).ok()?;
        let hello = match socket.read().ok()? {
            Message::Text(text) => serde_json::from_str::<Value>(text.as_str()).unwrap(),
            // It was told to stop.
            _ => return None,
        };
        assert_eq!((&hello["type"], &hello["session_id"]), (&json!("hello"), &json!(session)));
        let last = hello["last_seq"].as_u64().unwrap();
        assert!(last + 1 >= known, "{session}: {known} events became {}", last + 1);
        socket.get_ref().set_read_timeout(Some(PACE)).unwrap();
        let next = if self.random.chance(60) {
            known
        } else {
            self.random.below(known as usize + 1) as u64
        };
        let first_text = self.book.lock().unwrap().texts();
        let mut talk = Talk { socket, next, standing: VecDeque::new(), first_text };
        talk.say(&json!({"type": "subscribe", "from_seq": next})).ok()?;
        Some(talk)
    }

    /// Listens for a moment, then says something, or not.
    fn moment(&mut self, talk: &mut Talk) -> Result<(), Gone> {
        if self.shared.over.load(Ordering::Relaxed) {
            return Err(Gone);
        }
        match talk.socket.read() {
            Ok(Message::Text(text)) => self.hear(talk, text.as_str()),
            Ok(Message::Close(_)) => return Err(Gone),
            Ok(_) => return Ok(()),
            Err(Error::Io(error))
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return Err(Gone),
        }
        if self.random.chance(25) { self.act(talk) } else { Ok(()) }
    }

    fn hear(&self, talk: &mut Talk, text: &str) {
        let frame: Value = serde_json::from_str(text).unwrap();
        if frame.get("seq").is_none() {
            if frame["type"] == "replay_truncated" {
                assert_eq!(frame["requested_from_seq"], talk.next, "{text}");
                talk.next = frame["from_seq"].as_u64().unwrap();
                let known = self.book.lock().unwrap().next();
                assert!(talk.next <= known, "more was removed than may be: {known} known, {text}");
                return;
            }
            let code = frame["code"].as_str();
            assert!(matches!(code, Some("stale_call" | "not_running")), "not called for: {text}");
            return;
        }
        if self.book.lock().unwrap().receive(text, talk.next).is_some() {
            self.shared.seen.fetch_add(1, Ordering::Relaxed);
        }
        talk.next += 1;
        // What is replayed tells of the standing calls as well.
        let call_id = || frame["payload"]["call_id"].as_str().unwrap();
        match frame["type"].as_str().unwrap() {
            "approval/requested" => talk.standing.push_back(call_id().to_owned()),
            "approval/resolved" => talk.standing.retain(|standing| standing != call_id()),
            "turn/end" => talk.standing.clear(),
            _ => {}
        }
    }

    fn act(&mut self, talk: &mut Talk) -> Result<(), Gone> {
        match self.random.below(100) {
            0..25 => self.inject(talk, true),
            25..45 => self.inject(talk, false),
            45..75 => self.decide(talk),
            75..85 => {
                let sent = self.book.lock().unwrap().texts();
                let patterns = ["*".to_owned(), book::stored(talk.first_text..sent)];
                talk.say(&json!({"type": "set_policy", "patterns": patterns}))
            }
            85..88 => talk.say(&json!({"type": "cancel", "reason": "enough"})),
            88..91 => Err(Gone),
            _ => Ok(()),
        }
    }

    fn inject(&mut self, talk: &mut Talk, wake: bool) -> Result<(), Gone> {
        let mut book = self.book.lock().unwrap();
        let long = self.random.pick(&[0, 0, 0, 0, 0, 0, 5000, 60_000]);
        let text = format!("{} says {} {}", book.session, book.texts(), "x".repeat(long));
        book.send(&text, wake);
        drop(book);
        talk.say(&json!({"type": "inject", "text": text, "wake": wake}))
    }

    /// Decides about the call that has waited longest.
    fn decide(&mut self, talk: &mut Talk) -> Result<(), Gone> {
        let Some(call_id) = talk.standing.pop_front() else { return Ok(()) };
        let kind = if self.random.chance(70) { "approve" } else { "deny" };
        talk.say(&json!({"type": kind, "call_id": call_id}))
    }
}

impl Talk {
    fn say(&mut self, frame: &Value) -> Result<(), Gone> {
        self.socket.send(Message::text(frame.to_string())).map_err(|_| Gone)
    }
}

/// Tells whoever waits that the thread it stands in has failed.
struct Alarm<'a>(&'a AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
