//! The least that live delivery needs: epoll, one thread, a file for each connection, and of each event
//! one write to the file and one to the socket.
//!
//! [`hop`] is the least that an answer needs which is in a file before it is sent, where files are not
//! the business of the thread that has the sockets.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::unbounded;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use terret_ws::proto::event::write_envelope;
use terret_ws::proto::ident::{EventId, SessionId};
use terret_ws::proto::payload::{Body, TurnStatus};
use terret_ws::proto::ws::{Assembler, Item, Role, text_header};

use super::greet;
use crate::replay::{AT, TEXT};

const LISTENER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);
/// Events that one write takes, where they are as many as there can be.
pub(crate) const BATCH: u64 = 256;

/// An envelope of 200 bytes, a seal and an LF.
const LINE_BYTES: usize = 240;

struct Conn {
    stream: TcpStream,
    /// What has come of the request head, until it is whole.
    head: Option<Vec<u8>>,
    assembler: Assembler,
    /// None while a thread works with it.
    log: Option<Log>,
    /// Events still to come.
    left: u64,
    out: Vec<u8>,
    sent: usize,
}

/// A file of events, and what they are made of.
struct Log {
    file: File,
    bytes: u64,
    seq: u64,
    /// The envelope up to the digits of its seq, and from behind them on.
    begin: Vec<u8>,
    end: Vec<u8>,
    last: Vec<u8>,
}

impl Log {
    fn new(path: &Path) -> Self {
        let session = SessionId::parse("agent-0").unwrap();
        let envelope = |body: &Body| {
            let mut envelope = Vec::new();
            write_envelope(&mut envelope, EventId(0), &session, 0, AT, body);
            String::from_utf8(envelope).unwrap()
        };
        let chunk = envelope(&Body::AssistantChunk { text: TEXT.to_owned() });
        let last = envelope(&Body::TurnEnd { status: TurnStatus::Completed, reason: None });
        let cut = |envelope: &str| {
            let (begin, end) = envelope.split_once("\"seq\":0").unwrap();
            (format!("{begin}\"seq\":").into_bytes(), end.as_bytes().to_vec())
        };
        let ((begin, end), (_, last)) = (cut(&chunk), cut(&last));
        let file = OpenOptions::new().write(true).create_new(true).open(path).unwrap();
        Self { file, bytes: 0, seq: 0, begin, end, last }
    }

    /// Stores so many events with one write, and puts them into frames.
    fn append(&mut self, count: u64, ends: bool, lines: &mut Vec<u8>, out: &mut Vec<u8>) {
        lines.clear();
        for left in (0..count).rev() {
            self.seq += 1;
            let begin = lines.len();
            lines.extend_from_slice(&self.begin);
            write!(lines, "{}", self.seq).unwrap();
            lines.extend_from_slice(if ends && left == 0 { &self.last } else { &self.end });
            let wire = &lines[begin..];
            out.extend_from_slice(&text_header(wire.len()));
            out.extend_from_slice(wire);
            lines.push(b'\n');
        }
        self.file.write_all_at(lines, self.bytes).unwrap();
        self.bytes += lines.len() as u64;
    }
}

/// Serves until it is killed: whoever injects gets so many events, one each `period_ms`, or all as fast
/// as the socket takes them.
pub(super) fn live(folder: &Path, events: u64, period_ms: u64) {
    let mut server = Server::new(folder);
    let mut polled = Events::with_capacity(1024);
    let (start, mut done_ms) = (Instant::now(), 0);
    let mut wheel: Vec<Vec<usize>> = vec![Vec::new(); period_ms.max(1) as usize];
    let mut lines = Vec::new();
    loop {
        let busy = wheel.iter().any(|due| !due.is_empty());
        let timeout = busy.then(|| Duration::from_millis(period_ms.min(1)));
        server.poll.poll(&mut polled, timeout).unwrap();
        for index in server.hear(&polled) {
            server.conns[index].left = events;
            let place = done_ms as usize % wheel.len();
            wheel[place].push(index);
        }
        let now_ms = start.elapsed().as_millis() as u64;
        // What is overdue by a whole turn is due once.
        done_ms = done_ms.max(now_ms.saturating_sub(wheel.len() as u64));
        while period_ms == 0 || done_ms < now_ms {
            let place = done_ms as usize % wheel.len();
            for index in std::mem::take(&mut wheel[place]) {
                let conn = &mut server.conns[index];
                if conn.left > 0 && conn.out.is_empty() {
                    let count = if period_ms == 0 { conn.left.min(BATCH) } else { 1 };
                    conn.left -= count;
                    let log = conn.log.as_mut().expect("no thread has it");
                    log.append(count, conn.left == 0, &mut lines, &mut conn.out);
                }
                conn.pump();
                if conn.left > 0 || !conn.out.is_empty() {
                    wheel[place].push(index);
                }
            }
            if period_ms == 0 {
                break;
            }
            done_ms += 1;
        }
    }
}

/// Serves until it is killed: whoever injects gets one event, when so many batches were written and
/// synced. They are as long as ours, seals and all.
pub(super) fn sync(folder: &Path, batches: u64) {
    let mut server = Server::new(folder);
    let mut polled = Events::with_capacity(1024);
    let batch = vec![b'x'; BATCH as usize * LINE_BYTES];
    loop {
        server.poll.poll(&mut polled, None).unwrap();
        for index in server.hear(&polled) {
            let conn = &mut server.conns[index];
            let log = conn.log.as_mut().expect("no thread has it");
            for _ in 0..batches {
                log.file.write_all_at(&batch, log.bytes).unwrap();
                log.file.sync_data().unwrap();
                log.bytes += batch.len() as u64;
            }
            log.append(1, true, &mut Vec::new(), &mut conn.out);
            conn.pump();
        }
    }
}

/// Serves until it is killed: whoever injects gets one event, which a thread of its own has put into a
/// file.
pub(super) fn hop(folder: &Path, syncs: bool) {
    let mut server = Server::new(folder);
    let waker = Arc::new(Waker::new(server.poll.registry(), WAKER).unwrap());
    let (down, jobs) = unbounded::<(usize, Log)>();
    let (up, answers) = unbounded();
    thread::spawn(move || {
        let mut lines = Vec::new();
        for (index, mut log) in jobs {
            let mut frame = Vec::new();
            log.append(1, true, &mut lines, &mut frame);
            if syncs {
                log.file.sync_data().unwrap();
            }
            up.send((index, log, frame)).unwrap();
            waker.wake().unwrap();
        }
    });
    let mut polled = Events::with_capacity(1024);
    loop {
        server.poll.poll(&mut polled, None).unwrap();
        for index in server.hear(&polled) {
            let log = server.conns[index].log.take().expect("one event at a time");
            down.send((index, log)).unwrap();
        }
        while let Ok((index, log, frame)) = answers.try_recv() {
            let conn = &mut server.conns[index];
            conn.log = Some(log);
            conn.out.extend_from_slice(&frame);
            conn.pump();
        }
    }
}

struct Server<'a> {
    poll: Poll,
    listener: TcpListener,
    folder: &'a Path,
    conns: Vec<Conn>,
}

impl<'a> Server<'a> {
    fn new(folder: &'a Path) -> Self {
        let poll = Poll::new().unwrap();
        let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        println!("listening on {}", listener.local_addr().unwrap());
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE).unwrap();
        Self { poll, listener, folder, conns: Vec::new() }
    }

    /// Accepts, reads, and writes what waits; says who wants something.
    fn hear(&mut self, polled: &Events) -> Vec<usize> {
        let mut wanting = Vec::new();
        for event in polled {
            match event.token() {
                LISTENER => self.accept(),
                WAKER => {}
                Token(index) => {
                    let conn = &mut self.conns[index];
                    if event.is_readable() && conn.hear() {
                        wanting.push(index);
                    }
                    conn.pump();
                }
            }
        }
        wanting
    }

    fn accept(&mut self) {
        while let Ok((mut stream, _)) = self.listener.accept() {
            stream.set_nodelay(true).unwrap();
            let token = Token(self.conns.len());
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut stream, token, interest).unwrap();
            let path = self.folder.join(format!("file-{}", self.conns.len()));
            self.conns.push(Conn {
                stream,
                head: Some(Vec::new()),
                assembler: Assembler::new(Role::Server, 1 << 20),
                log: Some(Log::new(&path)),
                left: 0,
                out: Vec::new(),
                sent: 0,
            });
        }
    }
}

impl Conn {
    /// Reads what there is; says whether something was injected.
    fn hear(&mut self) -> bool {
        let mut buffer = [0; 4096];
        let mut wants = false;
        // Whoever has gone says nothing more.
        while let Ok(n @ 1..) = self.stream.read(&mut buffer) {
            let mut input = &mut buffer[..n];
            let Some(head) = &mut self.head else {
                while let Some(item) = self.assembler.push(&mut input).unwrap() {
                    wants |= matches!(item, Item::Text(text) if text.contains("inject"));
                }
                continue;
            };
            head.extend_from_slice(input);
            if greet(head, &mut self.out) {
                self.head = None;
            }
        }
        wants
    }

    /// Writes what the socket takes.
    fn pump(&mut self) {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => break,
            }
        }
        self.out.clear();
        self.sent = 0;
    }
}
