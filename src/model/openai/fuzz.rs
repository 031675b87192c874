//! The bodies of the fuzz targets for answers: what must hold whatever a server sends, and a round
//! trip through a stream that is in order.

use std::sync::Arc;

use super::OpenAi;
use crate::agent::Message;
use crate::config::{OpenAiConfig, Secret};
use crate::limits::{STEP_CALLS_MAX, TEXT_PIECE_BYTES_MAX};
use crate::model::{Action, Call, Net, Provider, Request, ToolSpec, args};
use crate::proto::http_client::BaseUrl;
use crate::proto::json::{check, write_string};
use crate::proto::time::Mono;

/// Arbitrary bytes as an answer come to the same end in two pieces and byte by byte as whole, and
/// what comes out is what later layers rely on. The first byte decides where the two pieces part,
/// and whether a head stands before the others.
pub fn answer(bytes: &[u8]) {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let head: &[u8] = if first % 2 == 0 { b"HTTP/1.1 200 OK\r\n\r\n" } else { b"" };
    let bytes = [head, bytes].concat();
    let whole = play([&bytes[..]]);
    let (one, two) = bytes.split_at(usize::from(first).min(bytes.len()));
    assert_eq!(play([one, two]), whole);
    assert_eq!(play(bytes.chunks(1)), whole);
    match whole.1 {
        Action::Finished(finish) => {
            assert!(finish.calls.len() <= STEP_CALLS_MAX);
            for call in finish.calls {
                assert!(!call.id.is_empty());
                if let Ok(args) = call.args {
                    assert!(args.bytes().all(|byte| byte >= 0x20), "{args:?}");
                    assert!(args.trim_start().starts_with('{'), "{args}");
                    assert_eq!(check(args.as_bytes()), Ok(()));
                }
            }
        }
        Action::Failed { reason, .. } => {
            assert!(!reason.contains(KEY) && !reason.contains(char::is_control), "{reason:?}");
        }
        action => unreachable!("{action:?} ends nothing"),
    }
}

/// Any text and any arguments, cut into deltas of the server's choice, arrive as they were. The first
/// two bytes decide how long the deltas are, the third where the text ends.
pub fn deltas(bytes: &[u8]) {
    let [text_len, args_len, cut, bytes @ ..] = bytes else { return };
    let (text, sent) = bytes.split_at(usize::from(*cut).min(bytes.len()));
    let (text, sent) = (String::from_utf8_lossy(text), String::from_utf8_lossy(sent));
    let mut body = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    let mut event = |before: &str, piece: &str, after: &str| {
        body.extend_from_slice(b"data: {\"choices\":[{\"delta\":{");
        body.extend_from_slice(before.as_bytes());
        write_string(&mut body, piece);
        body.extend_from_slice(after.as_bytes());
        body.extend_from_slice(b"}]}\n\n");
    };
    for piece in pieces(&text, *text_len) {
        event("\"content\":", &piece, "}");
    }
    let begun = "\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":";
    event(begun, "f", "}}]}");
    for piece in pieces(&sent, *args_len) {
        let call = "\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":";
        event(call, &piece, "}}]}");
    }
    event("\"content\":", "", "},\"finish_reason\":\"stop\"");
    let (heard, end) = play([&body[..]]);
    assert_eq!(heard, text);
    let Action::Finished(finish) = end else { panic!("{end:?}") };
    let [call] = &finish.calls[..] else { panic!("{finish:?}") };
    assert_eq!((call.id.as_str(), call.name.as_str()), ("a", "f"));
    match (&call.args, args::settle(&sent)) {
        // The same object several times over is one.
        (Ok(args), Err(_)) => assert!(sent.replace(['\n', '\r', '\t'], " ").starts_with(&**args)),
        (args, settled) => assert_eq!(*args, settled),
    }
}

const KEY: &str = "sk-canary-0123456789";

/// Pieces of one character more than `len`.
fn pieces(text: &str, len: u8) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(usize::from(len) + 1).map(|piece| piece.iter().collect()).collect()
}

/// The text and the last action of a call with one attempt, from a server that sends these pieces
/// and closes.
fn play<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (String, Action) {
    let base_url = BaseUrl::parse("http://h/").expect("a URL");
    let api_key = Some(Secret::new(KEY));
    // Nothing is left that a refusal could teach: the one attempt is the one connection.
    let extra_body = vec![("stream_options".to_owned(), "null".into())];
    let config =
        OpenAiConfig { api_key, extra_body, max_attempts: 1, ..OpenAiConfig::new(base_url) };
    let provider = Provider::OpenAi(Arc::new(OpenAi::new(config).expect("a key that can be sent")));
    let tools = ["f", "f_g"].map(|name| ToolSpec {
        name: name.into(),
        description: String::new(),
        params: "{}".into(),
    });
    let messages = [Message::User("hello".into())];
    let request = Request { system: None, messages: &messages, tools: &tools, fresh: &[] };
    let mut call = Call::start(&provider, &request, "m", 0, Mono(0), 0);
    let mut nets = pieces.into_iter().map(Net::Bytes).chain([Net::Eof]);
    let (mut text, mut standing) = (String::new(), false);
    loop {
        match call.poll(Mono(0)) {
            Action::Text(piece) => {
                assert!((1..=TEXT_PIECE_BYTES_MAX).contains(&piece.len()));
                text.push_str(&piece);
            }
            Action::Connect { .. } => {
                assert!(!std::mem::replace(&mut standing, true), "one attempt, one connection");
                call.feed(Mono(0), Net::Connected);
            }
            Action::Note(note) => panic!("one attempt is nothing to note: {note:?}"),
            Action::Disconnect => {
                assert!(std::mem::replace(&mut standing, false), "no connection to leave");
            }
            Action::Wait(_) => {
                let net = nets.next().expect("the end of the connection ends the call");
                standing &= net != Net::Eof;
                call.feed(Mono(0), net);
            }
            end @ (Action::Finished(_) | Action::Failed { .. }) => {
                assert!(!standing, "a connection still stands");
                assert_eq!(call.poll(Mono(0)), Action::Wait(None));
                return (text, end);
            }
        }
    }
}
