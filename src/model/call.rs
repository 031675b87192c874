//! One step's model request, whoever answers it.
//!
//! Fed and polled: [`Call::poll`] says what to do next, [`Call::feed`] takes what the connection
//! brought. A call knows no socket and no clock; what it waits for is a point in time it returns.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::custom::Pull;
use super::echo::Echo;
use super::openai::{Exchange, Fact};
use super::script::Playback;
use super::{Provider, Request};
use crate::agent::Finish;
use crate::limits::TEXT_PIECE_BYTES_MAX;
use crate::proto::time::Mono;

/// What a call wants done next.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// The next piece of the answer's text, never empty, at most [`TEXT_PIECE_BYTES_MAX`] bytes.
    Text(String),
    /// The answer is whole. The last action; its text came before.
    Finished(Finish),
    /// There will be no answer. The last action.
    Failed {
        /// Why, for people; holds no configured secret.
        reason: String,
        /// The history was too long for the model, and nothing of an answer came: with half of it
        /// the answer may come.
        context_exceeded: bool,
    },
    /// Open a connection and, once it stands, write these bytes. Never asked for while another
    /// connection of this call stands.
    Connect {
        /// Where to.
        target: Target,
        /// The whole request.
        request: RequestBytes,
    },
    /// Close the connection, unless it has ended by itself meanwhile; nothing more of it may be fed.
    Disconnect,
    /// Something for the server's log; the call goes on.
    Note(Note),
    /// Nothing to do until something is fed or this point has come; without a point, until
    /// something is fed. After the last action: nothing, ever.
    Wait(Option<Mono>),
}

/// What whoever runs the server may want to know of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// An attempt failed and is made again.
    Retried {
        /// How it failed, for people; holds no configured secret.
        reason: String,
        /// Which attempt failed, counted from 1.
        attempt: u32,
        /// How long the call waits now.
        wait_ms: u64,
    },
    /// The server's answers have taught how it wants to be asked, and all further calls go by it.
    Learned {
        /// What was learned.
        fact: Fact,
        /// Whether it is so; false where it was believed and is not.
        holds: bool,
    },
}

/// Where a provider listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// A name or an address; an IPv6 address without brackets.
    pub host: Arc<str>,
    /// The TCP port.
    pub port: u16,
    /// Whether the connection is to be encrypted, and the peer to prove that it is `host`.
    pub tls: bool,
}

/// A request as it goes out. It carries the provider's key, so its `Debug` shows a length only.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestBytes(Arc<[u8]>);

/// What a connection brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Net<'a> {
    /// The connection asked for stands.
    Connected,
    /// Bytes of the answer, cut anywhere.
    Bytes(&'a [u8]),
    /// The peer sent its last byte; the connection is closed.
    Eof,
    /// The connection could not be made, or broke; it is closed. Says how, for people.
    Failed(&'a str),
    /// The connection was not made, because the peer did not prove who it is; it is closed. Says how,
    /// for people.
    Untrusted(&'a str),
}

/// One step's request with all its retries.
#[derive(Debug)]
pub struct Call {
    source: Source,
    /// What is left of a text too long for one action.
    rest: String,
}

#[derive(Debug)]
enum Source {
    Echo(Echo),
    Scripted(Playback),
    Custom(Pull),
    OpenAi(Box<Exchange>),
    Over,
}

impl Call {
    /// Begins a request. `model` is the provider's own name for the model; `step` counts the
    /// session's `step/start` events before this one; `seed` decides the jitter between retries and
    /// the ids of calls that come without one.
    pub fn start(
        provider: &Provider,
        request: &Request<'_>,
        model: &str,
        step: u64,
        now: Mono,
        seed: u64,
    ) -> Call {
        let source = match provider {
            Provider::Echo => Source::Echo(Echo::new(request)),
            Provider::Scripted(script) => Source::Scripted(Playback::new(script, step, now)),
            Provider::Custom(custom) => Source::Custom(Pull::new(custom.as_ref(), request, model)),
            Provider::OpenAi(server) => {
                Source::OpenAi(Box::new(Exchange::new(server, request, model, now, seed)))
            }
        };
        Call { source, rest: String::new() }
    }

    /// What to do next; to be asked again until it is [`Action::Wait`].
    pub fn poll(&mut self, now: Mono) -> Action {
        if !self.rest.is_empty() {
            return Action::Text(self.cut());
        }
        let action = match &mut self.source {
            Source::Echo(echo) => match echo.next_piece() {
                Some(piece) => Action::Text(piece),
                None => Action::Finished(Finish { calls: Vec::new(), usage: None }),
            },
            Source::Scripted(playback) => playback.poll(now),
            Source::Custom(pull) => pull.poll(),
            Source::OpenAi(exchange) => exchange.poll(now),
            Source::Over => Action::Wait(None),
        };
        match action {
            Action::Text(text) if text.len() > TEXT_PIECE_BYTES_MAX => {
                self.rest = text;
                Action::Text(self.cut())
            }
            Action::Finished(_) | Action::Failed { .. } => {
                self.source = Source::Over;
                action
            }
            _ => action,
        }
    }

    /// Takes what the connection brought. To be followed by [`Call::poll`]; and what has arrived is
    /// to be fed before a poll that a deadline caused, or an answer that lies there is timed out.
    pub fn feed(&mut self, now: Mono, net: Net<'_>) {
        if let Source::OpenAi(exchange) = &mut self.source {
            exchange.feed(now, net);
        }
    }

    /// Whether the server has begun to answer: with text, which has come up, or with a call, which comes
    /// up when it is whole. A provider inside the process has only said what has come up.
    pub fn has_begun(&self) -> bool {
        matches!(&self.source, Source::OpenAi(exchange) if exchange.has_begun())
    }

    /// The beginning of `rest`, at most [`TEXT_PIECE_BYTES_MAX`] bytes of it.
    fn cut(&mut self) -> String {
        let mut end = self.rest.len().min(TEXT_PIECE_BYTES_MAX);
        while !self.rest.is_char_boundary(end) {
            end -= 1;
        }
        let after = self.rest.split_off(end);
        std::mem::replace(&mut self.rest, after)
    }
}

impl Action {
    /// The end of a call that no shorter history would have saved.
    pub(super) fn failed(reason: impl fmt::Display) -> Action {
        Action::Failed { reason: reason.to_string(), context_exceeded: false }
    }
}

impl RequestBytes {
    pub(crate) fn new(bytes: Vec<u8>) -> RequestBytes {
        RequestBytes(bytes.into())
    }
}

impl Deref for RequestBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for RequestBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestBytes({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::custom::{Answer, Piece};

    fn request() -> Request<'static> {
        Request { system: None, messages: &[], tools: &[], fresh: &[] }
    }

    #[test]
    fn a_call_says_nothing_after_its_last_action() {
        let fresh = ["hi".to_owned()];
        let script = Provider::Scripted(Arc::default());
        for provider in [Provider::Echo, script] {
            let request = Request { fresh: &fresh, ..request() };
            let mut call = Call::start(&provider, &request, "m", 0, Mono(0), 0);
            while matches!(call.poll(Mono(0)), Action::Text(_)) {}
            for _ in 0..2 {
                call.feed(Mono(1), Net::Bytes(b"late"));
                assert_eq!(call.poll(Mono(1)), Action::Wait(None));
            }
        }
    }

    #[test]
    fn a_call_moves_between_threads_with_its_agent() {
        fn moves<T: Send>(_: &T) {}
        moves(&Call::start(&Provider::Echo, &request(), "m", 0, Mono(0), 0));
    }

    #[test]
    fn a_long_text_comes_in_pieces_cut_between_characters() {
        let long = "ä".repeat(TEXT_PIECE_BYTES_MAX) + "x";
        let said = long.clone();
        let custom = move |_: &Request<'_>, _: &str| -> Answer {
            Box::new([Ok(Piece::Text(said.clone()))].into_iter())
        };
        let provider = Provider::Custom(Arc::new(custom));
        let mut call = Call::start(&provider, &request(), "m", 0, Mono(0), 0);
        let mut heard = String::new();
        while let Action::Text(piece) = call.poll(Mono(0)) {
            assert!((1..=TEXT_PIECE_BYTES_MAX).contains(&piece.len()));
            heard.push_str(&piece);
        }
        assert_eq!(heard, long);
    }

    #[test]
    fn the_bytes_of_a_request_are_not_shown() {
        let target = Target { host: "h".into(), port: 80, tls: false };
        let request = RequestBytes::new(b"canary".to_vec());
        assert_eq!(&*request, b"canary");
        let shown = format!("{:?}", Action::Connect { target, request });
        assert!(shown.contains("6 bytes") && !shown.contains("canary"), "{shown}");
    }
}
