//! A client on tungstenite, a WebSocket implementation that is not ours.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::error::ProtocolError;
use tungstenite::{Error, Message, WebSocket};

use super::PATIENCE;

/// One session event as it came over the wire.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) seq: u64,
    pub(crate) kind: String,
    pub(crate) payload: Value,
    /// The frame's text, byte for byte.
    pub(crate) raw: String,
}

impl Event {
    /// Reads a frame that carries `seq`; `None` for a protocol frame.
    pub(crate) fn parse(raw: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(raw).unwrap();
        let seq = value.get("seq")?.as_u64().unwrap();
        let kind = value["type"].as_str().unwrap().to_owned();
        Some(Self { seq, kind, payload: value["payload"].clone(), raw: raw.to_owned() })
    }

    /// The `text` of the payload.
    pub(crate) fn text(&self) -> &str {
        self.payload["text"].as_str().unwrap()
    }
}

/// The kinds of `events`, for comparing with a golden order.
pub(crate) fn kinds(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.kind.as_str()).collect()
}

/// Asserts that `events` are exactly `first..=last`.
pub(crate) fn assert_gapless(events: &[Event], first: u64, last: u64) {
    let seqs: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (first..=last).collect::<Vec<_>>());
}

/// What comes next on a connection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Received {
    Text(String),
    Pong(Vec<u8>),
    /// A close frame, with its code where it has one.
    Closed(Option<u16>),
    /// The connection ended without a close frame.
    Gone,
}

/// A connected client.
pub(crate) struct Client {
    socket: WebSocket<TcpStream>,
    hello: Value,
    pings: usize,
}

impl Client {
    /// Connects and takes the `hello`.
    pub(crate) fn connect(addr: SocketAddr, session: &str, token: &str) -> Self {
        let mut client = Self::knock(addr, session, Some(token));
        client.hello = client.frame();
        let hello = &client.hello;
        assert_eq!(
            *hello,
            json!({
                "type": "hello", "proto": 1, "session_id": session, "last_seq": hello["last_seq"]
            })
        );
        client
    }

    /// Connects and reads nothing: for connections that get an error instead of a `hello`.
    pub(crate) fn knock(addr: SocketAddr, session: &str, token: Option<&str>) -> Self {
        let url = format!("ws://{addr}/agents/{session}/ws");
        let mut request = url.into_client_request().unwrap();
        if let Some(token) = token {
            let value = format!("Bearer {token}").parse().unwrap();
            request.headers_mut().insert("Authorization", value);
        }
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let (socket, _) = tungstenite::client(request, stream).unwrap();
        Self { socket, hello: Value::Null, pings: 0 }
    }

    /// `last_seq` of the `hello`.
    pub(crate) fn last_seq(&self) -> u64 {
        self.hello["last_seq"].as_u64().unwrap()
    }

    pub(crate) fn send(&mut self, frame: &Value) {
        self.send_text(&frame.to_string());
    }

    pub(crate) fn send_text(&mut self, text: &str) {
        self.send_message(Message::text(text));
    }

    pub(crate) fn send_message(&mut self, message: Message) {
        self.socket.send(message).unwrap();
    }

    /// Queues a frame; several of them leave in one write with the next [`Self::flush`].
    pub(crate) fn queue(&mut self, frame: &Value) {
        self.socket.write(Message::text(frame.to_string())).unwrap();
    }

    pub(crate) fn flush(&mut self) {
        self.socket.flush().unwrap();
    }

    pub(crate) fn subscribe(&mut self, from_seq: u64) {
        self.send(&json!({"type": "subscribe", "from_seq": from_seq}));
    }

    pub(crate) fn wake(&mut self, text: &str) {
        self.send(&json!({"type": "inject", "text": text, "wake": true}));
    }

    pub(crate) fn steer(&mut self, text: &str) {
        self.send(&json!({"type": "inject", "text": text}));
    }

    pub(crate) fn cancel(&mut self, reason: &str) {
        self.send(&json!({"type": "cancel", "reason": reason}));
    }

    /// The next thing that is not a ping; pings are answered by the library and counted.
    pub(crate) fn receive(&mut self) -> Received {
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) => return Received::Text(text.as_str().to_owned()),
                Ok(Message::Pong(payload)) => return Received::Pong(payload.to_vec()),
                Ok(Message::Close(frame)) => {
                    return Received::Closed(frame.map(|frame| frame.code.into()));
                }
                Ok(Message::Ping(_)) => self.pings += 1,
                Ok(other) => panic!("the server sends text frames only, not {other:?}"),
                Err(
                    Error::ConnectionClosed
                    | Error::AlreadyClosed
                    | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake),
                ) => return Received::Gone,
                Err(Error::Io(error)) if error.kind() == ErrorKind::ConnectionReset => {
                    return Received::Gone;
                }
                Err(Error::Io(error)) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("waiting for a frame: {error}"),
            }
        }
    }

    /// Reads until the server has pinged `count` times more; nothing else may come meanwhile.
    pub(crate) fn take_pings(&mut self, count: usize) {
        let mut seen = 0;
        while seen < count {
            match self.socket.read().unwrap() {
                Message::Ping(_) => seen += 1,
                other => panic!("expected a ping, not {other:?}"),
            }
        }
    }

    /// The next text frame, which must come.
    pub(crate) fn text(&mut self) -> String {
        match self.receive() {
            Received::Text(text) => text,
            other => panic!("expected a text frame, not {other:?}"),
        }
    }

    /// The next frame as JSON.
    pub(crate) fn frame(&mut self) -> Value {
        serde_json::from_str(&self.text()).unwrap()
    }

    /// The next frame, which must be a session event.
    pub(crate) fn event(&mut self) -> Event {
        let text = self.text();
        Event::parse(&text).unwrap_or_else(|| panic!("expected a session event, not {text}"))
    }

    /// Events up to and including the first of `kind`.
    pub(crate) fn events_until(&mut self, kind: &str) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            events.push(self.event());
            if events.last().unwrap().kind == kind {
                return events;
            }
        }
    }

    /// Events that come before an error frame with `code`, which may overtake some.
    pub(crate) fn events_through_error(&mut self, code: &str) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let text = self.text();
            match Event::parse(&text) {
                Some(event) => events.push(event),
                None => {
                    let frame: Value = serde_json::from_str(&text).unwrap();
                    assert_eq!((&frame["type"], &frame["code"]), (&json!("error"), &json!(code)));
                    return events;
                }
            }
        }
    }

    /// The message of an error frame with `code`, which some events may precede.
    pub(crate) fn error_after_events(&mut self, code: &str) -> String {
        loop {
            let text = self.text();
            if Event::parse(&text).is_none() {
                let frame: Value = serde_json::from_str(&text).unwrap();
                assert_eq!((&frame["type"], &frame["code"]), (&json!("error"), &json!(code)));
                return frame["message"].as_str().unwrap().to_owned();
            }
        }
    }

    /// Events up to and including `seq`.
    pub(crate) fn events_to(&mut self, seq: u64) -> Vec<Event> {
        let mut events = vec![self.event()];
        while events.last().unwrap().seq < seq {
            events.push(self.event());
        }
        events
    }

    /// A whole turn, started by a waking text.
    pub(crate) fn turn(&mut self, text: &str) -> Vec<Event> {
        self.wake(text);
        self.events_until("turn/end")
    }

    /// The next frame, which must be an error; its code and its message.
    pub(crate) fn error(&mut self) -> (String, String) {
        let frame = self.frame();
        assert_eq!(frame["type"], "error", "{frame}");
        let text = |key: &str| frame[key].as_str().unwrap().to_owned();
        (text("code"), text("message"))
    }

    /// Asserts that the next frame is an error with `code` and returns its message.
    pub(crate) fn expect_error(&mut self, code: &str) -> String {
        let (found, message) = self.error();
        assert_eq!(found, code, "{message}");
        message
    }

    /// Asserts that the connection now ends with a close frame that carries `code`.
    pub(crate) fn expect_close(&mut self, code: u16) {
        assert_eq!(self.receive(), Received::Closed(Some(code)));
        assert_eq!(self.receive(), Received::Gone);
    }

    /// Drops the connection without a closing handshake, as a network does.
    pub(crate) fn cut(self) {
        self.socket.get_ref().shutdown(std::net::Shutdown::Both).unwrap();
    }
}
