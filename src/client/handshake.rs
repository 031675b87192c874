//! The client's half of the opening handshake (RFC 6455, section 4.1): what is sent, and whether the
//! answer is the right one. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::endpoint::Endpoint;
use crate::proto::http_client::ResponseHead;
use crate::proto::upgrade::AcceptKey;

/// A handshake that has been asked for.
pub(super) struct Handshake {
    key: String,
}

/// Why the answer opens no WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// An answer with another status.
    Status(u16),
    /// Not the answer of a server that has understood the handshake.
    NotWebSocket,
}

impl Handshake {
    /// A handshake whose `nonce` has to be random.
    pub(super) fn new(nonce: [u8; 16]) -> Handshake {
        Handshake { key: STANDARD.encode(nonce) }
    }

    pub(super) fn request(&self, endpoint: &Endpoint, token: &str) -> String {
        format!(
            "GET {} HTTP/1.1\r\n\
             Host: {}\r\n\
             Upgrade: websocket\r\n\
             Connection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: {}\r\n\
             Authorization: Bearer {token}\r\n\r\n",
            endpoint.target(),
            endpoint.authority(),
            self.key,
        )
    }

    /// Checks the head of the answer.
    pub(super) fn check(&self, head: &ResponseHead) -> Result<(), Refused> {
        if head.status() != 101 {
            return Err(Refused::Status(head.status()));
        }
        let upgraded =
            head.header("upgrade").is_some_and(|to| to.eq_ignore_ascii_case("websocket"));
        let accepted =
            head.header("sec-websocket-accept") == Some(AcceptKey::of(&self.key).as_str());
        if upgraded && accepted { Ok(()) } else { Err(Refused::NotWebSocket) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::http::HeadParser;
    use crate::proto::http_client::ResponseHeadParser;
    use crate::proto::upgrade;

    fn check(handshake: &Handshake, answer: &[u8]) -> Result<(), Refused> {
        let (head, _) = ResponseHeadParser::new().push(answer).unwrap().unwrap();
        handshake.check(&head)
    }

    #[test]
    fn our_own_server_understands_the_request_and_we_its_answer() {
        let endpoint = Endpoint::parse("ws://[::1]:7700/agents/a/ws").unwrap();
        let handshake = Handshake::new([7; 16]);
        let request = handshake.request(&endpoint, "secret");
        let (head, used) = HeadParser::new().push(request.as_bytes()).unwrap().unwrap();
        assert_eq!(used, request.len());
        assert_eq!(head.header("host"), Some("[::1]:7700"));
        assert_eq!(upgrade::bearer(&head), Some("secret"));
        let mut answer = Vec::new();
        upgrade::write_switching_protocols(&mut answer, &upgrade::accept(&head).unwrap());
        assert_eq!(check(&handshake, &answer), Ok(()));
    }

    #[test]
    fn other_answers_open_nothing() {
        let handshake = Handshake::new([7; 16]);
        let another = AcceptKey::of("another");
        let wrong_key = format!(
            "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {}\r\n\r\n",
            another.as_str()
        );
        for (answer, refused) in [
            ("HTTP/1.1 503 Service Unavailable\r\n\r\n", Refused::Status(503)),
            ("HTTP/1.1 200 OK\r\n\r\n", Refused::Status(200)),
            ("HTTP/1.1 101 x\r\nUpgrade: websocket\r\n\r\n", Refused::NotWebSocket),
            (&wrong_key, Refused::NotWebSocket),
        ] {
            assert_eq!(check(&handshake, answer.as_bytes()), Err(refused), "{answer}");
        }
    }
}
