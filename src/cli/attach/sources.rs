//! What wakes a conversation: the keyboard and the socket, each read by a thread of its own.
//!
//! The threads know nothing of the conversation. Each ends with its source, or when nobody listens
//! any more.

use std::io::BufRead;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use crate::client::{Client, Received};
use crate::proto::ws::CloseCode;

/// What wakes the conversation.
pub(super) enum Event {
    /// A line was typed or piped in.
    Line(String),
    /// There will be no further one.
    InputEnded,
    /// A frame came.
    Frame(String),
    /// The connection is gone: its close code, and how in words.
    Gone(Option<CloseCode>, String),
}

/// Events that may wait for the conversation. Beyond it the socket is not read, so a terminal that
/// is held up (Ctrl-S) slows the server's replay instead of filling our memory.
pub(super) const WAITING_EVENTS_MAX: usize = 256;

/// The keyboard's thread.
pub(super) fn read_lines(
    mut stdin: Box<dyn BufRead + Send>,
    is_terminal: bool,
    events: &SyncSender<Event>,
) {
    let mut line = Vec::new();
    // Input that cannot be read has ended.
    while stdin.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
        if events.send(Event::Line(String::from_utf8_lossy(&line).into_owned())).is_err() {
            return;
        }
        line.clear();
    }
    // Ctrl-D at a terminal says that the person leaves; a pipe that ends has only said its piece.
    let end = if is_terminal { Event::Line("/quit".to_owned()) } else { Event::InputEnded };
    let _nobody_listens = events.send(end);
}

/// The socket's thread.
pub(super) fn read_frames(mut client: Client, events: &SyncSender<Event>) {
    let sender = client.sender();
    let (code, how) = loop {
        match client.receive(Some(SILENCE)) {
            Ok(Received::Text(text)) => {
                if events.send(Event::Frame(text)).is_err() {
                    return;
                }
            }
            Ok(Received::Nothing) if client.silent_for() >= 2 * SILENCE => {
                break (None, "the server is silent".to_owned());
            }
            Ok(Received::Nothing) if client.silent_for() >= SILENCE => {
                if let Err(error) = sender.ping() {
                    break (None, error.to_string());
                }
            }
            Ok(Received::Nothing) => {}
            Ok(Received::Closed(close)) => {
                let code = close.map(|(code, _)| code);
                break (code, in_words(code));
            }
            Err(lost) => break (None, format!("the connection broke: {lost}")),
        }
    };
    let _nobody_listens = events.send(Event::Gone(code, how));
}

/// Longer than the server's usual heartbeat; after this long it is asked, after twice as long it is
/// given up.
const SILENCE: Duration = Duration::from_secs(30);

fn in_words(code: Option<CloseCode>) -> String {
    match code {
        Some(CloseCode::GOING_AWAY) => "the server is stopping".to_owned(),
        Some(CloseCode::LAGGED) => {
            "the server dropped this connection: it was read too slowly".to_owned()
        }
        Some(CloseCode::INTERNAL) => "the server failed on this connection".to_owned(),
        Some(code) => format!("the server closed the connection with code {}", code.as_u16()),
        None => "the server closed the connection".to_owned(),
    }
}
