//! From a request head to what it asks for: the route, the opening handshake of RFC 6455 (section
//! 4.2), the bearer token; and every way to be refused, with its status.
//!
//! It does not know which agents, tokens or origins exist. Two rules make a refused request the last
//! thing on its connection whatever its form: answers close, and a request that announces a body is
//! refused, so that no byte of a body can be taken for a frame.

mod refusal;
mod route;

pub use refusal::{QueryFault, Refusal};
pub use route::{Route, route};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};

use super::http::{Head, Version, list_has, trim_ows};

/// What proves to the client that its handshake was understood: the value of
/// `Sec-WebSocket-Accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptKey([u8; ACCEPT_LEN]);

/// Checks the opening handshake (RFC 6455, section 4.2.1). What is no WebSocket upgrade at all and
/// what is a wrong one differ: the former has no `Upgrade` header that names `websocket`.
///
/// Extensions and subprotocols are not looked at, since none is ever negotiated; the `Origin` is
/// [`check_origin`]'s.
pub fn accept(head: &Head) -> Result<AcceptKey, Refusal> {
    route::require_plain_get(head)?;
    if !list_has(head.headers("upgrade"), "websocket") {
        return Err(Refusal::NotAnUpgrade);
    }
    // RFC 9110, section 7.8: HTTP/1.0 knows no upgrades.
    if head.version() == Version::Http10 {
        return Err(Refusal::BadHandshake("an upgrade needs HTTP/1.1"));
    }
    if !list_has(head.headers("connection"), "upgrade") {
        return Err(Refusal::BadHandshake("Connection header does not name upgrade"));
    }
    let mut versions = head.headers("sec-websocket-version");
    match (versions.next(), versions.next()) {
        (Some("13"), None) => {}
        (Some(_), None) => return Err(Refusal::WrongVersion),
        (None, _) => return Err(Refusal::BadHandshake("Sec-WebSocket-Version header is missing")),
        (Some(_), Some(_)) => {
            return Err(Refusal::BadHandshake("more than one Sec-WebSocket-Version header"));
        }
    }
    let mut keys = head.headers("sec-websocket-key");
    match (keys.next(), keys.next()) {
        (Some(key), None) if is_key(key) => Ok(AcceptKey::of(key)),
        (Some(_), None) => {
            Err(Refusal::BadHandshake("Sec-WebSocket-Key is not 16 bytes in base64"))
        }
        (None, _) => Err(Refusal::BadHandshake("Sec-WebSocket-Key header is missing")),
        (Some(_), Some(_)) => Err(Refusal::BadHandshake("more than one Sec-WebSocket-Key header")),
    }
}

impl AcceptKey {
    /// The one answer to a client's `key` (RFC 6455, section 4.2.2, number 5, item 4).
    pub fn of(key: &str) -> Self {
        let digest = Sha1::new().chain_update(key).chain_update(GUID).finalize();
        let mut text = [0; ACCEPT_LEN];
        let written = STANDARD.encode_slice(digest, &mut text);
        assert_eq!(written, Ok(ACCEPT_LEN), "a digest of 20 bytes in base64");
        Self(text)
    }

    /// As the header has it.
    #[expect(clippy::expect_used, reason = "it is made by the encoder and by nothing else")]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("base64 is ASCII")
    }
}

/// Appends the answer that makes the connection a WebSocket.
pub fn write_switching_protocols(out: &mut Vec<u8>, key: &AcceptKey) {
    out.extend_from_slice(
        b"HTTP/1.1 101 Switching Protocols\r\n\
          Upgrade: websocket\r\n\
          Connection: Upgrade\r\n\
          Sec-WebSocket-Accept: ",
    );
    out.extend_from_slice(&key.0);
    out.extend_from_slice(b"\r\n\r\n");
}

/// Refuses what a web page of another origin has sent. Browsers always send `Origin`, other clients
/// need not, so its absence is fine (cases.md, 34). Several must all be allowed.
pub fn check_origin(head: &Head, allowed: &[String]) -> Result<(), Refusal> {
    let listed = |origin: &str| allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin));
    if head.headers("origin").all(listed) { Ok(()) } else { Err(Refusal::ForeignOrigin) }
}

/// The token of an `Authorization: Bearer` header (RFC 6750, section 2.1; the scheme in any case).
/// More than one `Authorization` header is none: it is not for us to choose.
pub fn bearer(head: &Head) -> Option<&str> {
    let mut credentials = head.headers("authorization");
    let (Some(credential), None) = (credentials.next(), credentials.next()) else { return None };
    let (scheme, token) = credential.split_once(' ')?;
    let token = trim_ows(token);
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Whether two tokens are equal. How long it takes depends on the length of `presented` alone, which
/// whoever presents it knows, and on nothing of what is `expected`.
pub fn token_eq(expected: &[u8], presented: &[u8]) -> bool {
    let mut differences = u8::from(expected.len() != presented.len());
    for (place, byte) in presented.iter().enumerate() {
        let expected = expected.get(place).copied().unwrap_or(0);
        // Opaque to the optimizer, which might else see that one difference settles it.
        differences = std::hint::black_box(differences | (expected ^ byte));
    }
    differences == 0
}

const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Bytes of a SHA-1 digest in base64.
const ACCEPT_LEN: usize = 28;

/// Whether this is some 16 bytes in base64: 22 digits and the padding. The last digit's four bits
/// that belong to no byte may have any value (RFC 4648, section 3.5), since clients who draw 22
/// random digits exist.
fn is_key(text: &str) -> bool {
    let digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    text.len() == 24 && text.strip_suffix("==").is_some_and(|digits| digits.bytes().all(digit))
}

#[cfg(test)]
mod tests;
