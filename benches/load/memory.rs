//! What the server keeps in memory: for who is connected and says nothing, for who was there once, for a
//! turn that waits; and what a start costs.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use serde_json::{Value, json};
use tempfile::TempDir;
use terret_ws::disk::real::RealDisk;
use terret_ws::disk::{LogOptions, Store, SyncMode};
use terret_ws::limits::IDLE_RESIDENTS_MAX;
use terret_ws::proto::ident::{EventId, SessionId};

use crate::baseline;
use crate::compare::{Row, Scale, Who};
use crate::peers::Peers;
use crate::replay::AT;
use crate::server::{Process, Server, agent};

/// Connections that are opened at once.
const AT_ONCE: usize = 100;
/// After this long without anything to do a server's memory is read.
const REST: Duration = Duration::from_secs(1);
/// What a scripted answer waits for: longer than it takes to begin all turns.
const ANSWER_MS: u64 = 30_000;
const LISTENER: Token = Token(usize::MAX);
const ANSWER: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"yes\"}}]}\n\n\
    data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

pub(crate) fn rows(scale: &Scale) -> Vec<Row> {
    let sizes = |few: usize| if scale.short { vec![few / 10] } else { vec![few, 10 * few] };
    let mut rows = Vec::new();
    for count in sizes(1000) {
        let work = ("idle connection", format!("{count} connected"));
        rows.push(Row::measure(scale, work, "bytes", None, |who| Some(idle(scale, who, count))));
    }
    // A hundred thousand sessions are made, or turns waited for: once is what there is time for.
    let once = &Scale { short: scale.short, rounds: 1, binary: scale.binary.clone() };
    let mut ours = |work: (&'static str, String), unit, measure: &dyn Fn() -> f64| {
        let only = |who| (who == Who::Ours).then(measure);
        rows.push(Row::measure(once, work, unit, None, only));
    };
    for count in sizes(10_000) {
        let work = ("session merely known", format!("{count} known"));
        ours(work, "bytes", &|| known(scale, count));
    }
    for count in [vec![0], sizes(10_000)].concat() {
        let folder = folder();
        make_sessions(folder.path(), count);
        let size = format!("{count} on disk");
        ours(("start, CPU", size.clone()), "us", &|| start(scale, folder.path()).cpu_us());
        ours(("start, resident", size), "KB", &|| {
            start(scale, folder.path()).resident_bytes() / 1e3
        });
    }
    for count in sizes(1000) {
        let work = ("turn that waits, scripted", format!("{count} waiting"));
        ours(work, "bytes", &|| waiting_for_script(scale, count));
    }
    for count in sizes(400) {
        let work = ("turn that waits, at a provider", format!("{count} waiting"));
        ours(work, "bytes", &|| waiting_for_provider(scale, count));
    }
    let size = || fs::metadata(&scale.binary).unwrap().len() as f64 / 1e3;
    ours(("binary", "on disk".to_owned()), "KB", &size);
    rows
}

/// In memory, where there is such a place.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    made.unwrap()
}

/// Bytes for each of so many who have connected, follow their log, and are silent.
fn idle(scale: &Scale, who: Who, count: usize) -> f64 {
    let folder = folder();
    let measure = |process: &Process| {
        let before = at_rest(process);
        let mut peers = Peers::new();
        connect(&mut peers, process.addr, 0..count);
        if who == Who::Ours {
            for peer in &mut peers.list {
                let (tip, _) = peer.hello.unwrap();
                peer.subscribe(tip + 1);
            }
            peers.flush();
        }
        let each = (at_rest(process) - before) / count as f64;
        assert!(peers.list.iter().all(|peer| !peer.gone), "everybody is still there");
        each
    };
    match who {
        Who::Ours => measure(&serve(scale, folder.path(), count, &[], &json!({}))),
        Who::Bare => measure(&baseline::start(who, &["replay", "/dev/null"])),
        Who::Tokio => measure(&baseline::start(who, &["replay", "0"])),
    }
}

/// Bytes for each of so many sessions whose client has come and gone, beyond those whose agents stay in
/// memory for a while. What the configuration's table of tokens takes is there before.
fn known(scale: &Scale, count: usize) -> f64 {
    let folder = folder();
    let others = 2 * IDLE_RESIDENTS_MAX;
    let server = serve(scale, folder.path(), others + count, &[], &json!({}));
    let come_and_go = |agents: std::ops::Range<usize>| {
        for first in agents.clone().step_by(AT_ONCE) {
            let mut peers = Peers::new();
            connect(&mut peers, server.addr, first..(first + AT_ONCE).min(agents.end));
        }
        at_rest(&server)
    };
    let before = come_and_go(0..others);
    (come_and_go(others..others + count) - before) / count as f64
}

pub(crate) fn make_sessions(folder: &Path, count: usize) {
    let options = LogOptions { sync: SyncMode::Os, segment_bytes: 4 << 20 };
    let store = Store::open(Arc::new(RealDisk), folder.join("terret-data"), options).unwrap();
    for number in 0..count {
        let session = SessionId::parse(&agent(number)).unwrap();
        store.open_session(&session, Some((EventId(0), AT))).unwrap();
    }
}

fn start(scale: &Scale, folder: &Path) -> Server {
    serve(scale, folder, 1, &[], &json!({}))
}

/// Bytes for each of so many turns that wait for a scripted answer; all of them end.
fn waiting_for_script(scale: &Scale, count: usize) -> f64 {
    let steps = [json!({"text": "yes", "delay_ms": ANSWER_MS})];
    let folder = folder();
    let server = serve(scale, folder.path(), count, &steps, &json!({}));
    waiting(&server, count, || {}, || {})
}

/// The same at a provider that answers late, each over a socket of its own.
fn waiting_for_provider(scale: &Scale, count: usize) -> f64 {
    let (answers, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (addr, provider) = late_provider(count, Arc::clone(&answers), Arc::clone(&asked));
    let base_url = format!("http://{addr}/v1");
    let more = json!({
        "providers": {"late": {"kind": "openai", "base_url": base_url}},
        "roles": {"main": "late/m"},
    });
    let folder = folder();
    let server = serve(scale, folder.path(), count, &[], &more);
    let all_asked = || {
        while asked.load(Ordering::Relaxed) < count {
            // Rarely enough to cost the server nothing.
            thread::sleep(Duration::from_millis(10));
        }
    };
    let each = waiting(&server, count, all_asked, || answers.store(true, Ordering::Relaxed));
    provider.join().unwrap();
    each
}

/// Begins so many turns, one an agent, and waits for their ends; what each takes between.
fn waiting(server: &Server, count: usize, begun: impl Fn(), end: impl Fn()) -> f64 {
    let mut peers = Peers::new();
    connect(&mut peers, server.addr, 0..count);
    for peer in &mut peers.list {
        let (tip, _) = peer.hello.unwrap();
        peer.subscribe(tip + 1);
    }
    peers.flush();
    let before = at_rest(server);
    peers.list.iter_mut().for_each(|peer| peer.wake("a short text"));
    // It takes in the text in a step of its own turn, which is then asked.
    peers.run("every text", |peers| peers.iter().all(|peer| !peer.texts.is_empty()));
    begun();
    let each = (at_rest(server) - before) / count as f64;
    assert!(peers.list.iter().all(|peer| peer.turns_ended == 0), "every turn waits");
    end();
    peers.run("every end", |peers| peers.iter().all(|peer| peer.turns_ended == 1));
    each
}

/// Takes so many requests, says how many have come, and answers them all when it is told to.
fn late_provider(
    count: usize,
    answers: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
) -> (SocketAddr, JoinHandle<()>) {
    let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let addr = listener.local_addr().unwrap();
    let thread = thread::spawn(move || {
        let mut poll = Poll::new().unwrap();
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE).unwrap();
        let mut events = Events::with_capacity(1024);
        let mut requests: Vec<(TcpStream, Vec<u8>)> = Vec::new();
        while !answers.load(Ordering::Relaxed) {
            poll.poll(&mut events, Some(Duration::from_millis(10))).unwrap();
            for event in &events {
                if event.token() == LISTENER {
                    while let Ok((mut stream, _)) = listener.accept() {
                        let token = Token(requests.len());
                        poll.registry().register(&mut stream, token, Interest::READABLE).unwrap();
                        requests.push((stream, Vec::new()));
                    }
                    continue;
                }
                let (stream, request) = &mut requests[event.token().0];
                let mut buffer = [0; 4096];
                loop {
                    match stream.read(&mut buffer) {
                        Ok(0) => panic!("nobody gives up"),
                        Ok(n) => request.extend_from_slice(&buffer[..n]),
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(error) => panic!("{error}"),
                    }
                }
                asked.fetch_add(usize::from(is_whole(request)), Ordering::Relaxed);
            }
        }
        assert_eq!(requests.len(), count);
        let length = ANSWER.len();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\
             Content-Length: {length}\r\n\r\n{ANSWER}"
        );
        for (stream, _) in &mut requests {
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (addr, thread)
}

/// Whether the body has come, whose JSON ends with it.
fn is_whole(request: &[u8]) -> bool {
    let head = request.windows(4).position(|window| window == b"\r\n\r\n");
    head.is_some_and(|end| serde_json::from_slice::<Value>(&request[end + 4..]).is_ok())
}

/// A server with room for so many agents and their connections.
fn serve(scale: &Scale, folder: &Path, agents: usize, steps: &[Value], more: &Value) -> Server {
    let mut all = json!({"max_connections": agents.max(AT_ONCE), "workers": 2});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Server::start_in(folder, &scale.binary, agents, steps, &all)
}

/// Connects these agents, and waits for their `hello`.
pub(crate) fn connect(peers: &mut Peers, addr: SocketAddr, agents: std::ops::Range<usize>) {
    for first in agents.clone().step_by(AT_ONCE) {
        for number in first..(first + AT_ONCE).min(agents.end) {
            peers.connect(addr, number);
        }
        peers.run("every hello", |peers| peers.iter().all(|peer| peer.hello.is_some()));
    }
}

fn at_rest(process: &Process) -> f64 {
    thread::sleep(REST);
    process.resident_bytes()
}
