//! The least that a server must do: epoll, one thread, no check of anything.
//!
//! It answers a handshake, and streams a file of JSON lines to whoever says something after that: reads
//! of 64 KiB, a frame head before each line, writes of 64 KiB.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use terret_ws::log::line::find_lf;
use terret_ws::proto::ws::text_header;

use super::greet;

const LISTENER: Token = Token(usize::MAX);
const BLOCK_BYTES: usize = 64 * 1024;

struct Conn {
    stream: TcpStream,
    /// What has come of the request head, until it is whole.
    head: Option<Vec<u8>>,
    file: Option<File>,
    read: Vec<u8>,
    out: Vec<u8>,
    sent: usize,
}

/// Serves until it is killed.
pub(super) fn replay(file: &str) {
    let mut poll = Poll::new().unwrap();
    let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    println!("listening on {}", listener.local_addr().unwrap());
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE).unwrap();
    let mut conns: Vec<Option<Conn>> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut events = Events::with_capacity(1024);
    loop {
        poll.poll(&mut events, None).unwrap();
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    let index = free.pop().unwrap_or(conns.len());
                    let interest = Interest::READABLE | Interest::WRITABLE;
                    poll.registry().register(&mut stream, Token(index), interest).unwrap();
                    conns.resize_with(conns.len().max(index + 1), || None);
                    conns[index] = Some(Conn::new(stream));
                }
            } else if let Some(conn) = &mut conns[event.token().0]
                && !(conn.hear(file.as_ref()) && conn.pump())
            {
                conns[event.token().0] = None;
                free.push(event.token().0);
            }
        }
    }
}

impl Conn {
    fn new(stream: TcpStream) -> Self {
        let (head, read, out) = (Some(Vec::new()), Vec::new(), Vec::new());
        Self { stream, head, file: None, read, out, sent: 0 }
    }

    /// Reads what there is; false at the end.
    fn hear(&mut self, file: &Path) -> bool {
        let mut buffer = [0; 4096];
        loop {
            let n = match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(n) => n,
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            };
            let Some(head) = &mut self.head else {
                self.file = Some(File::open(file).unwrap());
                continue;
            };
            head.extend_from_slice(&buffer[..n]);
            if greet(head, &mut self.out) {
                self.head = None;
            }
        }
    }

    /// Writes what the socket takes; false when it takes nothing any more.
    fn pump(&mut self) -> bool {
        loop {
            while self.sent < self.out.len() {
                match self.stream.write(&self.out[self.sent..]) {
                    Ok(n) => self.sent += n,
                    Err(error) => return error.kind() == ErrorKind::WouldBlock,
                }
            }
            self.out.clear();
            self.sent = 0;
            let Some(file) = &mut self.file else { return true };
            let kept = self.read.len();
            self.read.resize(BLOCK_BYTES, 0);
            let n = file.read(&mut self.read[kept..]).unwrap();
            self.read.truncate(kept + n);
            if n == 0 {
                assert_eq!(kept, 0, "the file ends with a line");
                self.file = None;
                return true;
            }
            let mut begin = 0;
            while let Some(length) = find_lf(&self.read[begin..]) {
                self.out.extend_from_slice(&text_header(length));
                self.out.extend_from_slice(&self.read[begin..begin + length]);
                begin += length + 1;
            }
            self.read.drain(..begin);
        }
    }
}
