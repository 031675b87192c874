//! What one peer's flood costs the others: counted in rounds of the reactor and in bytes that the
//! flooding peer itself got rid of, never in seconds.

use super::*;
use crate::config::Surroundings;
use crate::limits::{ACCEPTS_PER_ROUND, PIECE_BYTES_MAX, PIPE_BYTES_MAX, ROUND_BYTES, WRITE_BYTES};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Rounds that are counted while everybody floods.
const ROUNDS: usize = 300;
/// What the kernel may hold of a socket's bytes, both ends together: what Linux lets them grow to.
const SOCKET_BYTES: usize = 16 << 20;
/// Chunks of the turn that is replayed.
const CHUNKS: usize = 10_000;

/// A server whose rounds the test makes, one by one.
struct Rounds {
    reactor: Reactor,
    address: SocketAddr,
}

/// A connection from outside that never waits.
struct Peer {
    stream: TcpStream,
    received: Vec<u8>,
}

/// A client's frame with a mask of zeros, and so with its payload as it is.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let len = u8::try_from(payload.len()).ok().filter(|len| *len < 126).expect("a short frame");
    [&[first, 0x80 | len, 0, 0, 0, 0], payload].concat()
}

fn text(json: &str) -> Vec<u8> {
    frame(0x81, json.as_bytes())
}

impl Rounds {
    fn go(&mut self) {
        let ended = self.reactor.one_round().expect("the poll works");
        assert_eq!(ended, None);
    }

    /// A connection of `session`, greeted, whose agent asks `model`.
    fn connect(&mut self, session: &str, model: &str) -> Peer {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_nonblocking(true).expect("it is a socket");
        let mut peer = Peer { stream, received: Vec::new() };
        let head = format!(
            "GET /agents/{session}/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
             Authorization: Bearer t\r\n\r\n"
        );
        peer.send(head.as_bytes());
        self.until(&mut peer, "\"hello\"");
        peer.send(&text(&format!(r#"{{"type":"set_model","role":"main","model":"{model}"}}"#)));
        peer
    }

    /// Makes rounds until the peer has received `word`, and forgets what came up to then.
    fn until(&mut self, peer: &mut Peer, word: &str) {
        loop {
            self.go();
            peer.take();
            let found = peer.received.windows(word.len()).any(|seen| seen == word.as_bytes());
            let keep = if found { 0 } else { word.len().min(peer.received.len()) };
            peer.received.drain(..peer.received.len() - keep);
            if found {
                return;
            }
        }
    }
}

impl Peer {
    /// Sends a few bytes, for which there is always room.
    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the kernel takes it");
    }

    /// Takes all that has come; returns how many bytes that were.
    fn take(&mut self) -> usize {
        let before = self.received.len();
        match self.stream.read_to_end(&mut self.received) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.received.len() - before,
            other => panic!("the server hung up: {other:?}"),
        }
    }

    /// Sends copies of `unit` until the kernel takes no more; returns how many bytes it took. `sent`
    /// is where in the unit the last call ended.
    fn pour(&mut self, unit: &[u8], sent: &mut usize) -> usize {
        let mut poured = 0;
        loop {
            match self.stream.write(&unit[*sent..]) {
                Ok(n) => {
                    poured += n;
                    *sent = (*sent + n) % unit.len();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return poured,
                Err(error) => panic!("the server hung up: {error}"),
            }
        }
    }
}

/// A model server that answers its first request with comments, as fast as they are taken, and counts
/// them.
fn streaming_provider(listener: TcpListener, streamed: Arc<AtomicUsize>) {
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the server asks");
        let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        stream.write_all(head).expect("it listens");
        let comments = ": and so on\n".repeat(4096);
        while let Ok(n) = stream.write(comments.as_bytes()) {
            streamed.fetch_add(n, Ordering::Relaxed);
        }
    });
}

/// What a process has written, as the kernel counts it.
fn written(process: &str) -> usize {
    let io = fs::read_to_string(format!("/proc/{}/io", process.trim())).expect("it runs");
    let count = io.lines().find_map(|line| line.strip_prefix("wchar: ")).expect("it is counted");
    count.parse().expect("a number")
}

/// A server in `dir` with this configuration, laid over a free port.
fn server(dir: &Path, config: &str) -> Rounds {
    let config = format!(r#"{{"listen": "127.0.0.1:0", {config}}}"#);
    let read = |_: &Path| Err(io::Error::from(ErrorKind::NotFound));
    let around = Surroundings { base_dir: dir, read: &read, env: &|_| None };
    let config = Config::parse(&config, &around).expect("a valid configuration");
    let Server { reactor, address, .. } = Builder::new(config).bind().expect("it starts");
    Rounds { reactor, address }
}

#[test]
fn a_storm_of_connections_takes_its_share_of_a_round_too() {
    let dir = tempfile::tempdir().expect("a directory");
    // One is let in and says nothing, the next is told 503, and all others are closed unheard.
    let mut rounds = server(dir.path(), r#""max_connections": 1"#);
    let storm: Vec<TcpStream> = (0..ACCEPTS_PER_ROUND + 50)
        .map(|_| TcpStream::connect(rounds.address).expect("it listens"))
        .collect();
    for stream in &storm {
        stream.set_nonblocking(true).expect("it is a socket");
    }
    let heard = || {
        let heard = |mut stream: &TcpStream| stream.read(&mut [0; 512]).is_ok();
        storm.iter().filter(|stream| heard(stream)).count()
    };
    rounds.go();
    assert_eq!(heard(), ACCEPTS_PER_ROUND - 1);
    rounds.go();
    assert_eq!(heard(), storm.len() - 1);
}

#[test]
fn four_floods_at_once_leave_a_quiet_client_its_answers_within_a_few_rounds() {
    let dir = tempfile::tempdir().expect("a directory");
    let model = TcpListener::bind("127.0.0.1:0").expect("a port");
    let config = format!(
        r#"
            "roles_scope": "agent", "policy": ["*"], "replay_limit": 1000000,
            "log": {{"sync": "os"}}, "queue_limit": 1000000, "queue_bytes": 1000000000,
            "tokens": {{"quiet": "t", "pours": "t", "reads": "t", "runs": "t", "asks": "t"}},
            "tools": [{{"name": "flood", "command": ["sh", "-c", "echo $$ > process; exec yes"],
                        "cwd": "."}}],
            "providers": {{
                "echo": {{"kind": "echo"}},
                "long": {{"kind": "scripted", "steps": [{{"chunks": [{}]}}]}},
                "call": {{"kind": "scripted", "steps": [
                    {{"tool_calls": [{{"id": "1", "name": "flood", "args": {{}}}}]}}]}},
                "stream": {{"kind": "openai", "base_url": "http://{}/v1"}}
            }}"#,
        vec![r#""a piece of text""#; CHUNKS].join(","),
        model.local_addr().expect("bound"),
    );
    let mut rounds = server(dir.path(), &config);
    let wake = text(r#"{"type":"inject","text":"go","wake":true}"#);
    let subscribe = text(r#"{"type":"subscribe","from_seq":0}"#);

    let mut reads = rounds.connect("reads", "long/m");
    reads.send(&subscribe);
    reads.send(&wake);
    rounds.until(&mut reads, "\"turn/end\"");
    let mut runs = rounds.connect("runs", "call/m");
    runs.send(&subscribe);
    runs.send(&wake);
    rounds.until(&mut runs, "\"tool/call\"");
    let streamed = Arc::new(AtomicUsize::new(0));
    streaming_provider(model, Arc::clone(&streamed));
    let mut asks = rounds.connect("asks", "stream/m");
    asks.send(&wake);
    let mut pours = rounds.connect("pours", "echo/echo");
    let mut quiet = rounds.connect("quiet", "echo/echo");
    let process = dir.path().join("process");
    while streamed.load(Ordering::Relaxed) == 0 || !process.exists() {
        quiet.send(&frame(0x89, b""));
        rounds.go();
    }
    let process = fs::read_to_string(process).expect("it was written");
    quiet.take();

    // Pongs that nobody asked for: nothing but its share keeps the server from reading them all.
    let (pong, mut sent) = (frame(0x8a, &[b'x'; 125]).repeat(100), 0);
    let (mut poured, mut replayed, mut answers) = (0, 0, 0);
    let before = (streamed.load(Ordering::Relaxed), written(&process));
    reads.send(&subscribe);
    let mut waits = false;
    for _ in 0..ROUNDS {
        poured += pours.pour(&pong, &mut sent);
        if !std::mem::replace(&mut waits, true) {
            quiet.send(&frame(0x89, b""));
        }
        rounds.go();
        if quiet.take() > 0 {
            answers += 1;
            waits = false;
        }
        let bytes = reads.take();
        replayed += bytes;
        if reads.received.windows(10).any(|seen| seen == b"\"turn/end\"") {
            reads.send(&subscribe);
        }
        reads.received.clear();
    }
    let streamed = streamed.load(Ordering::Relaxed) - before.0;
    let ran = written(&process) - before.1;
    assert!(answers >= ROUNDS / 4, "{answers} answers in {ROUNDS} rounds");
    let share = ROUNDS * ROUND_BYTES;
    let table = [
        ("poured", poured, share + SOCKET_BYTES),
        ("streamed", streamed, share + SOCKET_BYTES),
        ("ran", ran, share + PIPE_BYTES_MAX),
        ("replayed", replayed, ROUNDS * PIECE_BYTES_MAX + SOCKET_BYTES),
    ];
    for (who, bytes, most) in table {
        assert!((1 << 20..=most).contains(&bytes), "{who}: {bytes} bytes, at most {most}");
    }
}

#[test]
fn a_client_that_takes_all_that_has_gathered_is_written_to_by_shares() {
    // Its chunks, and the message that repeats them.
    const TURN: u64 = 2 * 60 * 60_000;
    let dir = tempfile::tempdir().expect("a directory");
    let config = format!(
        r#""log": {{"sync": "os"}}, "queue_limit": 1000000, "queue_bytes": 1000000000,
           "tokens": {{"reads": "t"}},
           "providers": {{"long": {{"kind": "scripted", "repeat": true, "steps": [{{"chunks": [{}]}}]}}}}"#,
        vec![format!("\"{}\"", "x".repeat(60_000)); 60].join(","),
    );
    let mut rounds = server(dir.path(), &config);
    let mut reads = rounds.connect("reads", "long/m");
    reads.send(&text(r#"{"type":"subscribe","from_seq":0}"#));
    rounds.until(&mut reads, "session/created");
    let log = || -> u64 {
        let files = fs::read_dir(dir.path().join("terret-data/sessions/reads")).expect("its log");
        files.map(|file| file.and_then(|file| file.metadata()).expect("a file").len()).sum()
    };
    // The kernel takes what it holds for a socket, and all else gathers here.
    for turn in 1..=4 {
        reads.send(&text(r#"{"type":"inject","text":"go","wake":true}"#));
        while log() < turn * TURN {
            rounds.go();
        }
    }
    // The rounds are this thread's, and sockets are all that it writes to.
    let (mut most, mut taken) = (0, reads.take());
    while taken < 4 * TURN as usize {
        let before = written("thread-self");
        rounds.go();
        most = most.max(written("thread-self") - before);
        taken += reads.take();
        reads.received.clear();
    }
    // A socket is written to when it has become writable, and when what its agent does touches it.
    assert!((WRITE_BYTES / 2..=3 * WRITE_BYTES).contains(&most), "{most} bytes in one round");
}
