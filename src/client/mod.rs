//! A small blocking client: one connection to one agent, on a plain `TcpStream`.
//!
//! For terminals, tests and embedders. It answers pings and closes; it neither reconnects nor
//! subscribes by itself, because only its user knows which seq comes next (see the README, "For
//! those who write clients").
//!
//! Invariant: bytes in `buffer[unread]` have arrived and belong to frames not handed out yet.

mod endpoint;
mod frame;
mod handshake;
mod state;

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use self::endpoint::Endpoint;
pub use self::frame::ServerFrame;
#[cfg(any(test, fuzzing))]
pub use self::frame::fuzz;
use self::handshake::{Handshake, Refused};
pub use self::state::AgentState;
use crate::limits::{CLOSE_S, ERROR_BODY_BYTES_MAX, EVENT_BYTES_MAX, HANDSHAKE_S};
use crate::os;
use crate::proto::command::Command;
use crate::proto::http_client::{ResponseHead, ResponseHeadParser};
use crate::proto::ws::frame::Opcode;
use crate::proto::ws::write::{write_masked, write_masked_close};
use crate::proto::ws::{Assembler, CloseCode, Item, ProtocolError, Role};

/// A connection whose handshake is done.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    sender: Sender,
    assembler: Assembler,
    buffer: Vec<u8>,
    unread: Range<usize>,
    heard_at: Instant,
}

/// The sending half, which another thread may hold.
#[derive(Clone, Debug)]
pub struct Sender(Arc<Mutex<TcpStream>>);

/// What has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A text message: one frame of the protocol, see [`ServerFrame::parse`].
    Text(String),
    /// The server's close frame, which has been answered: code and reason, if it gave any.
    Closed(Option<(CloseCode, String)>),
    /// No message within the time given.
    Nothing,
}

/// Why there is no connection.
#[derive(Debug)]
pub enum ConnectError {
    /// The host's name has no address.
    Resolve(io::Error),
    /// Nothing listens there, or it does not answer in time.
    Connect(io::Error),
    /// An HTTP answer instead of a WebSocket, and the first line of its body.
    Http(u16, String),
    /// Something else listens there.
    NotWebSocket,
}

/// Why a connection ended without a close frame.
#[derive(Debug)]
pub enum Lost {
    /// The server is gone.
    Io(io::Error),
    /// It does not speak RFC 6455.
    Protocol(ProtocolError),
}

impl Client {
    /// Connects and shakes hands. The token is a bearer token; a wrong one shows only in the first
    /// frame, which then is the error `unauthorized`.
    pub fn connect(endpoint: &Endpoint, token: &str) -> Result<Client, ConnectError> {
        let mut stream = open(endpoint)?;
        let mut nonce = [0; 16];
        os::random(&mut nonce);
        let handshake = Handshake::new(nonce);
        let request = handshake.request(endpoint, token);
        stream.write_all(request.as_bytes()).map_err(ConnectError::Connect)?;

        let mut buffer = vec![0; READ_BYTES];
        let (head, unread) = read_head(&mut stream, &mut buffer)?;
        match handshake.check(&head) {
            Ok(()) => {}
            Err(Refused::NotWebSocket) => return Err(ConnectError::NotWebSocket),
            Err(Refused::Status(status)) => {
                let line = first_line(&mut stream, buffer[unread].to_vec());
                return Err(ConnectError::Http(status, line));
            }
        }
        let sender = stream.try_clone().map_err(ConnectError::Connect)?;
        Ok(Client {
            stream,
            sender: Sender(Arc::new(Mutex::new(sender))),
            assembler: Assembler::new(Role::Client, EVENT_BYTES_MAX),
            buffer,
            unread,
            heard_at: Instant::now(),
        })
    }

    /// Waits for the next message, at most `timeout`; for ever without one. Pings are answered
    /// meanwhile.
    pub fn receive(&mut self, timeout: Option<Duration>) -> Result<Received, Lost> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            while !self.unread.is_empty() {
                if let Some(received) = self.next_message()? {
                    return Ok(received);
                }
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(Received::Nothing);
            }
            self.stream.set_read_timeout(left)?;
            match self.stream.read(&mut self.buffer) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(len) => {
                    self.unread = 0..len;
                    self.heard_at = Instant::now();
                }
                Err(error) if is_pause(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// How long the server has sent nothing at all, not even a ping.
    pub fn silent_for(&self) -> Duration {
        self.heard_at.elapsed()
    }

    /// The sending half.
    pub fn sender(&self) -> Sender {
        self.sender.clone()
    }

    /// Sends one command.
    pub fn send(&self, command: &Command) -> io::Result<()> {
        self.sender.send(command)
    }

    /// Says goodbye and waits, at most [`CLOSE_S`], until the server has said so too.
    pub fn close(mut self) -> Result<(), Lost> {
        self.sender.close()?;
        let deadline = Instant::now() + Duration::from_secs(CLOSE_S);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.receive(Some(left))? {
                Received::Text(_) => {}
                Received::Closed(_) | Received::Nothing => return Ok(()),
            }
        }
    }

    /// One item from what has arrived, if it is one for the caller.
    fn next_message(&mut self) -> Result<Option<Received>, Lost> {
        let mut input = &mut self.buffer[self.unread.clone()];
        let item = self.assembler.push(&mut input).map_err(Lost::Protocol)?;
        self.unread.start = self.unread.end - input.len();
        Ok(match item {
            Some(Item::Text(text)) => Some(Received::Text(text.into_owned())),
            Some(Item::Ping(payload)) => {
                self.sender.write(Opcode::Pong, &payload)?;
                None
            }
            Some(Item::Close(close)) => {
                let close = close.map(|(code, reason)| (code, reason.into_owned()));
                // The answer is a courtesy: the server may have gone already.
                let _answered = self.sender.close();
                Some(Received::Closed(close))
            }
            Some(Item::TooLarge) => return Err(io::Error::from(io::ErrorKind::InvalidData).into()),
            // The protocol has no binary messages, and nobody waits for a pong.
            Some(Item::Binary(_) | Item::Pong(_)) | None => None,
        })
    }
}

impl Sender {
    /// Sends one command.
    pub fn send(&self, command: &Command) -> io::Result<()> {
        let mut text = Vec::new();
        command.write(&mut text);
        self.write(Opcode::Text, &text)
    }

    /// Sends one text message, whatever it says.
    pub fn send_text(&self, text: &str) -> io::Result<()> {
        self.write(Opcode::Text, text.as_bytes())
    }

    /// Asks for a sign of life; any answer resets [`Client::silent_for`].
    pub fn ping(&self) -> io::Result<()> {
        self.write(Opcode::Ping, b"")
    }

    /// Sends the close frame, the last one. The server's answer is for [`Client::receive`].
    pub fn close(&self) -> io::Result<()> {
        let mut frame = Vec::new();
        write_masked_close(&mut frame, CloseCode::NORMAL, "", mask_key());
        self.write_all(&frame)
    }

    fn write(&self, opcode: Opcode, payload: &[u8]) -> io::Result<()> {
        let mut frame = Vec::new();
        write_masked(&mut frame, opcode, payload, mask_key());
        self.write_all(&frame)
    }

    fn write_all(&self, frame: &[u8]) -> io::Result<()> {
        // A thread that panicked here has at worst cut a frame short; the server will say so.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(frame)
    }
}

/// RFC 6455, section 5.3: unpredictable, and new for every frame.
fn mask_key() -> [u8; 4] {
    let mut key = [0; 4];
    os::random(&mut key);
    key
}

fn open(endpoint: &Endpoint) -> Result<TcpStream, ConnectError> {
    let addresses = endpoint.host_and_port().to_socket_addrs().map_err(ConnectError::Resolve)?;
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match TcpStream::connect_timeout(&address, WAIT) {
            Ok(stream) => {
                let prepared = stream
                    .set_nodelay(true)
                    .and_then(|()| stream.set_read_timeout(Some(WAIT)))
                    .and_then(|()| stream.set_write_timeout(Some(WAIT)));
                return prepared.map(|()| stream).map_err(ConnectError::Connect);
            }
            Err(error) => last = error,
        }
    }
    Err(ConnectError::Connect(last))
}

/// How long the server may take for a connection, for the handshake, and to take a frame.
const WAIT: Duration = Duration::from_secs(HANDSHAKE_S);
const READ_BYTES: usize = 16 * 1024;

/// Reads the head of the answer and says where in `buffer` lies what came behind it.
fn read_head(
    stream: &mut TcpStream,
    buffer: &mut [u8],
) -> Result<(ResponseHead, Range<usize>), ConnectError> {
    let mut parser = ResponseHeadParser::new();
    loop {
        let len = stream.read(buffer).map_err(ConnectError::Connect)?;
        match parser.push(&buffer[..len]) {
            Ok(Some((head, used))) => return Ok((head, used..len)),
            Ok(None) if len > 0 => {}
            Ok(None) | Err(_) => return Err(ConnectError::NotWebSocket),
        }
    }
}

/// The first line of an error's body, as far as it can be had.
fn first_line(stream: &mut TcpStream, body: Vec<u8>) -> String {
    let mut body = body;
    // What was read before an error is all there is to show.
    let _ended = stream.take(ERROR_BODY_BYTES_MAX as u64).read_to_end(&mut body);
    String::from_utf8_lossy(&body).lines().next().unwrap_or_default().to_owned()
}

/// Whether a read has only been interrupted or timed out.
fn is_pause(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Lost {
        Lost::Io(error)
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Resolve(error) => write!(f, "the host has no address: {error}"),
            ConnectError::Connect(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                f.write_str("nothing listens there")
            }
            ConnectError::Connect(error) => write!(f, "{error}"),
            ConnectError::Http(status, line) => write!(f, "HTTP status {status}: {line}"),
            ConnectError::NotWebSocket => f.write_str("what listens there speaks no WebSocket"),
        }
    }
}

impl std::error::Error for ConnectError {}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::Io(error) => write!(f, "{error}"),
            Lost::Protocol(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Lost {}

#[cfg(test)]
mod tests;
