//! A WebSocket server on this crate's own machines that sends every message back: what the Autobahn
//! testsuite wants to talk to. It is no part of the product.
//!
//! `cargo run --example autobahn_echo` prints the address it listens on and serves until its standard
//! input ends. One thread a connection: how sockets are waited for is not what is tested here.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use terret_ws::proto::http::HeadParser;
use terret_ws::proto::upgrade::{accept, write_switching_protocols};
use terret_ws::proto::ws::{
    Assembler, Item, Role, write_binary, write_close, write_empty_close, write_pong, write_text,
};

/// The suite's largest messages have 16 MiB.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

fn main() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut stdout = io::stdout();
    writeln!(stdout, "{}", listener.local_addr()?)?;
    stdout.flush()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                // A peer that goes away in the middle is one of the suite's cases.
                serve(stream).ok();
            });
        }
    });
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut buffer = vec![0; 64 * 1024];
    let mut begun = shake_hands(&mut stream, &mut buffer)?;
    let mut assembler = Assembler::new(Role::Server, MESSAGE_BYTES_MAX);
    loop {
        let mut output = Vec::new();
        let open = answer(&mut assembler, &mut buffer[begun], &mut output);
        stream.write_all(&output)?;
        if !open {
            break;
        }
        let len = stream.read(&mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        begun = 0..len;
    }
    // The close frame is the last thing sent; what still comes is discarded, or closing would reset
    // the connection and lose the frame on its way.
    stream.shutdown(Shutdown::Write)?;
    io::copy(&mut stream, &mut io::sink())?;
    Ok(())
}

/// Answers the opening handshake, and says where in the buffer frames lie that came with it.
fn shake_hands(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<std::ops::Range<usize>> {
    let mut parser = HeadParser::default();
    loop {
        let len = stream.read(buffer)?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let head = parser.push(&buffer[..len]).map_err(io::Error::other)?;
        if let Some((head, used)) = head {
            let key = accept(&head).map_err(|_| io::Error::other("no handshake"))?;
            let mut response = Vec::new();
            write_switching_protocols(&mut response, &key);
            stream.write_all(&response)?;
            return Ok(used..len);
        }
    }
}

/// Answers everything in `input`; false once the connection is to be closed.
fn answer(assembler: &mut Assembler, mut input: &mut [u8], output: &mut Vec<u8>) -> bool {
    loop {
        match assembler.push(&mut input) {
            Ok(None) => return true,
            Ok(Some(Item::Text(text))) => write_text(output, text.as_bytes()),
            Ok(Some(Item::Binary(bytes))) => write_binary(output, &bytes),
            Ok(Some(Item::Ping(payload))) => write_pong(output, &payload),
            Ok(Some(Item::Pong(_) | Item::TooLarge)) => {}
            Ok(Some(Item::Close(Some((code, _))))) => {
                write_close(output, code, "");
                return false;
            }
            Ok(Some(Item::Close(None))) => {
                write_empty_close(output);
                return false;
            }
            Err(error) => {
                write_close(output, error.close_code(), "");
                return false;
            }
        }
    }
}
