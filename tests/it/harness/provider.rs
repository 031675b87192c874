//! A model provider in the test's hand: chat completions over HTTP/1.1, answered when and how the
//! test says, so that a test can hold three hundred streams at the same word.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::{PATIENCE, read_some};

/// A listening provider.
pub(crate) struct Provider {
    pub(crate) addr: SocketAddr,
    asks: mpsc::Receiver<Ask>,
}

/// One request that waits for its answer; dropping it hangs up.
pub(crate) struct Ask {
    pub(crate) head: String,
    pub(crate) body: Value,
    stream: TcpStream,
}

impl Provider {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (sender, asks) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let sender = sender.clone();
                let stream = stream.unwrap();
                thread::spawn(move || asked(stream).map(|ask| sender.send(ask)));
            }
        });
        Self { addr, asks }
    }

    /// A config with this provider as role `main`; `more` is laid over its definition.
    pub(crate) fn config(&self, more: &Value) -> Value {
        let mut definition =
            json!({"kind": "openai", "base_url": format!("http://{}/v1", self.addr)});
        definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"providers": {"fake": definition}, "roles": {"main": "fake/model-1"}})
    }

    /// The next request, which must come.
    pub(crate) fn ask(&self) -> Ask {
        self.asks.recv_timeout(PATIENCE).expect("the server asks its provider")
    }

    /// Whether a request has come that nobody has taken yet.
    pub(crate) fn is_asked(&self) -> Option<Ask> {
        self.asks.try_recv().ok()
    }
}

fn asked(mut stream: TcpStream) -> Option<Ask> {
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (head, body) = read_request(&mut stream)?;
    Some(Ask { head, body, stream })
}

/// Reads one request, head and body; `None` where the peer hung up first.
pub(crate) fn read_request(stream: &mut impl Read) -> Option<(String, Value)> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let len = read_some(stream, &mut piece).ok().filter(|len| *len > 0)?;
        bytes.extend_from_slice(&piece[..len]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end + 4].to_vec()).unwrap();
        let length: usize = header(&head, "Content-Length").map_or(0, |n| n.parse().unwrap());
        let body = &bytes[end + 4..];
        if body.len() >= length {
            assert_eq!(body.len(), length, "bytes behind the body");
            let body = serde_json::from_slice(body).unwrap();
            return Some((head, body));
        }
    }
}

/// The value of a header of `head`, whatever its case.
fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

impl Ask {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// The `content` of every message with `role`, in order.
    pub(crate) fn contents(&self, role: &str) -> Vec<&str> {
        let messages = self.body["messages"].as_array().unwrap();
        let of_role = messages.iter().filter(|message| message["role"] == role);
        of_role.map(|message| message["content"].as_str().unwrap()).collect()
    }

    /// Writes bytes as they are; a peer that hung up is the test's to notice.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let _hung_up = self.stream.write_all(bytes);
    }

    /// The head of a chunked event stream.
    pub(crate) fn open(&mut self) {
        self.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
              Transfer-Encoding: chunked\r\n\r\n",
        );
    }

    /// One chunk of the body.
    pub(crate) fn chunk(&mut self, text: &str) {
        self.write(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes());
    }

    /// One event that carries `value`.
    pub(crate) fn data(&mut self, value: &Value) {
        self.chunk(&format!("data: {value}\n\n"));
    }

    /// One piece of the answer's text.
    pub(crate) fn text(&mut self, text: &str) {
        self.data(&json!({"choices": [{"index": 0, "delta": {"content": text}}]}));
    }

    /// The end of an answer: why it ended, the usage, `[DONE]`, the last chunk.
    pub(crate) fn end(mut self) {
        self.data(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}));
        self.data(&json!({
            "choices": [],
            "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
        }));
        self.chunk("data: [DONE]\n\n");
        self.write(b"0\r\n\r\n");
    }

    /// A whole answer in one go.
    pub(crate) fn answer(mut self, text: &str) {
        self.open();
        self.text(text);
        self.end();
    }

    /// A whole answer that calls tools: id, name and arguments, each as it is, long ones in pieces.
    pub(crate) fn call(mut self, calls: &[(&str, &str, &str)]) {
        self.open();
        for (index, (id, name, arguments)) in calls.iter().enumerate() {
            let begin = json!({"name": name, "arguments": ""});
            let call = json!({"index": index, "id": id, "type": "function", "function": begin});
            self.data(&json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}));
            for piece in arguments.as_bytes().chunks(1 << 16) {
                let function = json!({"arguments": str::from_utf8(piece).unwrap()});
                let call = json!({"index": index, "function": function});
                self.data(&json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}));
            }
        }
        self.end();
    }

    /// A whole answer that is no stream.
    pub(crate) fn refuse(mut self, status: &str, headers: &str, body: &str) {
        let len = body.len();
        self.write(
            format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {len}\r\n\r\n{body}").as_bytes(),
        );
    }

    /// Whether the server is still there after a moment; the moment only sets the pace of a loop.
    pub(crate) fn is_heard(&mut self) -> bool {
        self.stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        match self.stream.read(&mut [0; 64]) {
            Ok(len) => len > 0,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }

    /// Waits until the server hangs up on this request.
    pub(crate) fn expect_hang_up(mut self) {
        let mut rest = [0; 64];
        loop {
            match self.stream.read(&mut rest) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}
