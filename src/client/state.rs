//! What an agent does, asked of its server: `GET /agents/{id}` (design/interface, "HTTP beside the
//! socket").
//!
//! The socket tells what happened; that nothing will happen any more (a resume that failed leaves its
//! turn open and logs nothing) is known to the server alone.

use std::io::{self, Read as _, Write as _};

use super::endpoint::Endpoint;
use super::frame::{member, string};
use super::open;
use crate::limits::EVENT_BYTES_MAX;
use crate::proto::http_client::{Progress, ResponseParser};
use crate::proto::json::Document;

/// An agent at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentState {
    /// The log's last seq at that moment.
    pub last_seq: u64,
    /// `idle`, `running`, `parked`, `interrupted` (a turn is open and nothing works at it), or
    /// `damaged`: its log takes nothing more.
    pub status: String,
    /// The ids of the calls that wait for a verdict, oldest first.
    pub pending: Vec<String>,
    /// The globs of the tools that are allowed.
    pub policy: Vec<String>,
    /// Why the last resume failed, or where the log is damaged.
    pub last_error: Option<String>,
}

impl AgentState {
    /// Asks, over a connection of its own. An answer that is none is an error of the kind
    /// `InvalidData`.
    pub fn ask(endpoint: &Endpoint, token: &str) -> io::Result<AgentState> {
        let mut stream = open(endpoint).map_err(io::Error::other)?;
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\
             Connection: close\r\n\r\n",
            endpoint.agent_target(),
            endpoint.authority(),
        );
        stream.write_all(request.as_bytes())?;
        let (mut parser, mut body) = (ResponseParser::new(), Vec::new());
        let mut buffer = vec![0; 16 * 1024];
        while parser.progress() != Progress::Complete && body.len() <= EVENT_BYTES_MAX {
            let len = stream.read(&mut buffer)?;
            if len == 0 {
                parser.eof().map_err(invalid)?;
                break;
            }
            parser.push(&buffer[..len], &mut body).map_err(invalid)?;
        }
        match parser.status() {
            Some(200) => AgentState::read(&body).ok_or_else(|| invalid("not an agent's state")),
            status => Err(invalid(format!("HTTP status {}", status.unwrap_or_default()))),
        }
    }

    fn read(body: &[u8]) -> Option<AgentState> {
        let document = Document::parse(body).ok()?;
        let state = document.value();
        let pending = member(state, "pending_approvals")?.elements()?;
        let policy = member(state, "policy")?.elements()?;
        let last_error = member(state, "last_error")?;
        Some(AgentState {
            last_seq: member(state, "last_seq")?.as_u64()?,
            status: string(state, "status")?,
            pending: pending.map(|call| string(call, "call_id")).collect::<Option<_>>()?,
            policy: policy
                .map(|glob| glob.as_str().map(std::borrow::Cow::into_owned))
                .collect::<Option<_>>()?,
            last_error: last_error.as_str().map(std::borrow::Cow::into_owned),
        })
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_and_what_is_none_is_not() {
        let read = |body: &str| AgentState::read(body.as_bytes());
        let parked = r#"{"session_id":"a","last_seq":7,"status":"parked","pending_approvals":
            [{"call_id":"c1","name":"t","args":{}},{"call_id":"c2","name":"t","args":{}}],
            "roles":{},"policy":["get_*"],"connected":true,"last_error":null}"#;
        assert_eq!(
            read(parked),
            Some(AgentState {
                last_seq: 7,
                status: "parked".into(),
                pending: vec!["c1".into(), "c2".into()],
                policy: vec!["get_*".into()],
                last_error: None,
            })
        );
        let failed = parked.replace("null", r#""status 500""#);
        assert_eq!(read(&failed).unwrap().last_error.as_deref(), Some("status 500"));
        for body in ["", "ok\n", "[]", "{}", &parked.replace("last_seq", "seq")] {
            assert_eq!(read(body), None, "{body}");
        }
    }
}
