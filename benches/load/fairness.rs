//! What a quiet client waits, alone and beside one peer that floods: its waking text to its first
//! event, with a model that answers at once.
//!
//! The floods do what they do as fast as the machine lets them, on its processors too: what is shown
//! is the whole price. That each gets no more than its share of a round is a test of `server`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use terret_ws::client::{Client, Endpoint, Received, ServerFrame};
use terret_ws::proto::ident::SessionId;
use terret_ws::proto::ws::frame::Opcode;
use terret_ws::proto::ws::write_masked;

use crate::scenarios::{Figures, Size};
use crate::server::{Server, agent};

/// Events of the log that is replayed again and again, and of one replay.
const EVENTS: usize = 10_000;
/// One answer of the provider that streams: its text is below what a step may say.
const DELTAS: usize = 3000;
const DELTA_BYTES: usize = 1000;
/// How long one answer may take before it is called a hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// One who floods: what its figures are called, and what it does.
type Flood = ([&'static str; 7], fn(&Scene));

macro_rules! figures_of {
    ($flood:literal) => {
        [
            concat!($flood, ": us alone, median"),
            concat!($flood, ": us alone, p99"),
            concat!($flood, ": us beside, median"),
            concat!($flood, ": us beside, p99"),
            concat!($flood, ": ratio of medians"),
            concat!($flood, ": ratio of p99"),
            concat!($flood, ": MB a second"),
        ]
    };
}

const FLOODS: [Flood; 4] = [
    (figures_of!("frames"), pour_frames),
    (figures_of!("replays"), replay),
    (figures_of!("tool"), run_tool),
    (figures_of!("provider"), ask),
];

/// What a flood needs, and how much it has moved.
struct Scene {
    addr: SocketAddr,
    /// The tool's process leaves its id there.
    folder: TempDir,
    provider: TcpListener,
    moved: AtomicU64,
    over: AtomicBool,
}

/// A quiet client beside each flood.
pub(crate) fn fairness(size: &Size) -> Figures {
    FLOODS.into_iter().flat_map(|flood| beside(flood, size)).collect()
}

fn beside((names, flood): Flood, size: &Size) -> Figures {
    let folder = TempDir::new().unwrap();
    let provider = TcpListener::bind("127.0.0.1:0").unwrap();
    let steps = json!([{"chunks": vec!["x".repeat(20); EVENTS]}]);
    let call = json!([{"tool_calls": [{"id": "1", "name": "flood", "args": {}}]}]);
    let base_url = format!("http://{}/v1", provider.local_addr().unwrap());
    let more = json!({
        "roles": {"main": "echo/echo"},
        "roles_scope": "agent",
        "policy": ["*"],
        "providers": {
            "long": {"kind": "scripted", "steps": steps},
            "call": {"kind": "scripted", "steps": call},
            "stream": {"kind": "openai", "base_url": base_url},
        },
        "tools": [{"name": "flood", "cwd": folder.path(), "timeout_s": 600,
                   "command": ["sh", "-c", "echo $$ > begun; mv begun process; exec yes"]}],
    });
    let server = Server::start(&size.binary, 2, &[], &more);
    let mut quiet = connect(server.addr, 0);
    let mut alone = first_events(&mut quiet, size.fairness_turns);
    let (moved, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let scene = Arc::new(Scene { addr: server.addr, folder, provider, moved, over });
    let flooding = thread::spawn({
        let scene = Arc::clone(&scene);
        move || flood(&scene)
    });
    while scene.moved.load(Ordering::Relaxed) == 0 {
        thread::yield_now();
        assert!(!flooding.is_finished(), "it floods");
    }
    let (before, start) = (scene.moved.load(Ordering::Relaxed), Instant::now());
    let mut beside = first_events(&mut quiet, size.fairness_turns);
    // What a flood has moved is learnt now and then.
    while scene.moved.load(Ordering::Relaxed) == before {
        beside.extend(first_events(&mut quiet, 1));
        assert!(!flooding.is_finished(), "it floods all the time");
    }
    let took = start.elapsed();
    let moved = scene.moved.load(Ordering::Relaxed) - before;
    scene.over.store(true, Ordering::Relaxed);
    drop(server);
    flooding.join().unwrap();

    let (alone, beside) = (median_and_p99(&mut alone), median_and_p99(&mut beside));
    let rate = moved as f64 / took.as_secs_f64() / 1e6;
    let ratios = (beside.0 / alone.0, beside.1 / alone.1);
    let figures = [alone.0, alone.1, beside.0, beside.1, ratios.0, ratios.1, rate];
    names.into_iter().zip(figures).collect()
}

/// Pongs that nobody asked for, whose frames are all that they cost.
fn pour_frames(scene: &Scene) {
    let mut stream = TcpStream::connect(scene.addr).unwrap();
    let name = agent(1);
    let handshake = format!(
        "GET /agents/{name}/ws HTTP/1.1\r\nHost: load\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Authorization: Bearer token-of-{name}\r\n\r\n"
    );
    stream.write_all(handshake.as_bytes()).unwrap();
    let mut pongs = Vec::new();
    for _ in 0..1000 {
        write_masked(&mut pongs, Opcode::Pong, &[b'x'; 125], [1, 2, 3, 4]);
    }
    while stream.write_all(&pongs).is_ok() {
        scene.moved.fetch_add(pongs.len() as u64, Ordering::Relaxed);
    }
}

/// All of a log, again and again.
fn replay(scene: &Scene) {
    let mut client = connect(scene.addr, 1);
    with_model(&client, "long/m");
    wake(&client);
    while event(&mut client).expect("it streams").1 != "turn/end" {}
    'again: loop {
        let asked = client.sender().send_text(r#"{"type":"subscribe","from_seq":0}"#);
        if asked.is_err() {
            return;
        }
        for _ in 0..EVENTS {
            let Some((_, _, bytes)) = event(&mut client) else { break 'again };
            scene.moved.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
}

/// A tool that writes without end, as the kernel counts it.
fn run_tool(scene: &Scene) {
    let client = connect(scene.addr, 1);
    with_model(&client, "call/m");
    wake(&client);
    while !scene.over.load(Ordering::Relaxed) {
        if let Some(written) = written_by(&scene.folder.path().join("process")) {
            scene.moved.store(written, Ordering::Relaxed);
        }
        // The kernel counts what it wrote, and nobody says when that has grown.
        thread::sleep(Duration::from_millis(5));
    }
}

fn written_by(process: &Path) -> Option<u64> {
    let process = fs::read_to_string(process).ok()?;
    let io = fs::read_to_string(format!("/proc/{}/io", process.trim())).ok()?;
    io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok())
}

/// Turns whose answers come as fast as the server takes them.
fn ask(scene: &Scene) {
    let mut client = connect(scene.addr, 1);
    with_model(&client, "stream/m");
    let delta = json!({"choices": [{"index": 0, "delta": {"content": "x".repeat(DELTA_BYTES)}}]});
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n{}\
         data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\n\
         data: [DONE]\n\n",
        format!("data: {delta}\n\n").repeat(DELTAS)
    );
    loop {
        wake(&client);
        // Once the server is gone nobody asks.
        scene.provider.set_nonblocking(true).unwrap();
        let mut stream = loop {
            match scene.provider.accept() {
                Ok((stream, _)) => break stream,
                Err(_) if scene.over.load(Ordering::Relaxed) => return,
                Err(_) => thread::yield_now(),
            }
        };
        stream.set_nonblocking(false).unwrap();
        skip_request(&mut stream);
        for piece in answer.as_bytes().chunks(64 * 1024) {
            if stream.write_all(piece).is_err() {
                return;
            }
        }
        drop(stream);
        loop {
            // Not what is written: the kernel takes a whole answer before the server has read it.
            let Some((_, kind, bytes)) = event(&mut client) else { return };
            scene.moved.fetch_add(bytes as u64, Ordering::Relaxed);
            if kind == "turn/end" {
                break;
            }
        }
    }
}

/// Reads a request's head and its body.
fn skip_request(stream: &mut TcpStream) {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).is_ok_and(|len| len > 2) {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let _gone = std::io::copy(&mut reader.take(length), &mut std::io::sink());
}

/// A client of the n-th agent that follows its log.
fn connect(addr: SocketAddr, number: usize) -> Client {
    let name = agent(number);
    let id = SessionId::parse(&name).expect("a valid name");
    let mut client =
        Client::connect(&Endpoint::of_agent(addr, &id), &format!("token-of-{name}")).unwrap();
    client.sender().send_text(r#"{"type":"subscribe","from_seq":1}"#).unwrap();
    let hello = client.receive(Some(PATIENCE)).unwrap();
    assert!(matches!(hello, Received::Text(_)), "{hello:?}");
    client
}

fn with_model(client: &Client, model: &str) {
    let frame: Value = json!({"type": "set_model", "role": "main", "model": model});
    client.sender().send_text(&frame.to_string()).unwrap();
}

fn wake(client: &Client) {
    // A server that is gone shows at the next read.
    let _gone = client.sender().send_text(r#"{"type":"inject","text":"go","wake":true}"#);
}

/// The next event's seq, type and length; none when the server is gone.
fn event(client: &mut Client) -> Option<(u64, String, usize)> {
    loop {
        let Ok(Received::Text(text)) = client.receive(Some(PATIENCE)) else { return None };
        match ServerFrame::parse(&text).expect("a frame") {
            ServerFrame::Event { seq, kind, .. } => return Some((seq, kind, text.len())),
            ServerFrame::ReplayTruncated { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// How long it takes from a waking text to its turn's first event, turn after turn.
fn first_events(client: &mut Client, turns: usize) -> Vec<Duration> {
    let mut next = None;
    let turn = |_| {
        let sent = Instant::now();
        wake(client);
        let mut took = None;
        loop {
            let (seq, kind, _) = event(client).expect("the quiet client is served");
            took.get_or_insert_with(|| sent.elapsed());
            assert_eq!(*next.get_or_insert(seq), seq, "neither a gap nor a duplicate");
            next = Some(seq + 1);
            if kind == "turn/end" {
                return took.expect("an event has come");
            }
        }
    };
    (0..turns).map(turn).collect()
}

/// In microseconds.
fn median_and_p99(times: &mut [Duration]) -> (f64, f64) {
    times.sort_unstable();
    let at = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e6;
    (at(50), at(99))
}
