//! The client against a scripted peer on a real socket.

use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use super::*;
use crate::proto::http::HeadParser;
use crate::proto::upgrade;
use crate::proto::ws::{write_close, write_ping, write_text};

/// A peer that runs `script` on its one connection; the endpoint to reach it.
fn peer<T: Send + 'static>(
    script: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> (Endpoint, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}/agents/a/ws", listener.local_addr().unwrap());
    let thread = thread::spawn(move || script(listener.accept().unwrap().0));
    (Endpoint::parse(&url).unwrap(), thread)
}

/// Shakes hands and sends `frames` in the same segment.
fn welcome(stream: &mut TcpStream, frames: &[u8]) {
    let mut parser = HeadParser::new();
    let mut byte = [0];
    let head = loop {
        stream.read_exact(&mut byte).unwrap();
        if let Some((head, _)) = parser.push(&byte).unwrap() {
            break head;
        }
    };
    assert_eq!(upgrade::bearer(&head), Some("secret"));
    let mut answer = Vec::new();
    upgrade::write_switching_protocols(&mut answer, &upgrade::accept(&head).unwrap());
    answer.extend_from_slice(frames);
    stream.write_all(&answer).unwrap();
}

/// Everything the client sends from now on, as items.
fn heard(stream: &mut TcpStream) -> Vec<String> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let mut assembler = Assembler::new(Role::Server, 1024);
    let mut input = &mut bytes[..];
    let mut items = Vec::new();
    while let Some(item) = assembler.push(&mut input).unwrap() {
        items.push(format!("{item:?}"));
        if input.is_empty() {
            break;
        }
    }
    items
}

#[test]
fn frames_behind_the_handshake_are_not_lost_and_pings_are_answered() {
    let (endpoint, thread) = peer(|mut stream| {
        let mut frames = Vec::new();
        write_text(&mut frames, b"one");
        write_ping(&mut frames, b"still there?");
        write_text(&mut frames, "zw\u{f6}".as_bytes());
        welcome(&mut stream, &frames);
        heard(&mut stream)
    });
    let mut client = Client::connect(&endpoint, "secret").unwrap();
    assert_eq!(client.receive(None).unwrap(), Received::Text("one".into()));
    assert_eq!(client.receive(None).unwrap(), Received::Text("zw\u{f6}".into()));
    client.send(&Command::Subscribe { from_seq: 7 }).unwrap();
    drop(client);
    let items = thread.join().unwrap();
    assert_eq!(items.len(), 2, "{items:?}");
    assert!(items[0].starts_with("Pong"), "{items:?}");
    assert!(items[1].contains("from_seq"), "{items:?}");
}

#[test]
fn a_close_is_reported_and_answered() {
    let (endpoint, thread) = peer(|mut stream| {
        let mut frames = Vec::new();
        write_close(&mut frames, CloseCode::SUPERSEDED, "newer");
        welcome(&mut stream, &frames);
        heard(&mut stream)
    });
    let mut client = Client::connect(&endpoint, "secret").unwrap();
    let close = Received::Closed(Some((CloseCode::SUPERSEDED, "newer".into())));
    assert_eq!(client.receive(None).unwrap(), close);
    drop(client);
    assert!(thread.join().unwrap()[0].starts_with("Close"));
}

#[test]
fn closing_waits_for_the_servers_close() {
    let (endpoint, thread) = peer(|mut stream| {
        let mut frames = Vec::new();
        write_text(&mut frames, b"still under way");
        welcome(&mut stream, &frames);
        let mut head = [0; 2];
        stream.read_exact(&mut head).unwrap();
        frames.clear();
        write_close(&mut frames, CloseCode::NORMAL, "");
        stream.write_all(&frames).unwrap();
        head[0]
    });
    Client::connect(&endpoint, "secret").unwrap().close().unwrap();
    assert_eq!(thread.join().unwrap(), 0x88, "a close frame");
}

#[test]
fn silence_is_a_value_and_the_end_of_the_connection_is_an_error() {
    let (endpoint, thread) = peer(|mut stream| {
        welcome(&mut stream, b"");
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
    });
    let mut client = Client::connect(&endpoint, "secret").unwrap();
    let received = client.receive(Some(Duration::from_millis(1))).unwrap();
    assert_eq!(received, Received::Nothing);
    client.sender().ping().unwrap();
    thread.join().unwrap();
    assert!(matches!(client.receive(None), Err(Lost::Io(_))));
}

#[test]
fn an_http_answer_is_told_with_its_first_line() {
    let (endpoint, thread) = peer(|mut stream| {
        let answer = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\nfull\nmore";
        stream.write_all(answer).unwrap();
        // The request has to be read, or closing would reset the connection.
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    });
    let error = Client::connect(&endpoint, "secret").unwrap_err();
    assert_eq!(error.to_string(), "HTTP status 503: full");
    thread.join().unwrap();
}

#[test]
fn nobody_there_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}/agents/a/ws", listener.local_addr().unwrap());
    drop(listener);
    let error = Client::connect(&Endpoint::parse(&url).unwrap(), "secret").unwrap_err();
    assert!(matches!(error, ConnectError::Connect(_)), "{error:?}");
}
