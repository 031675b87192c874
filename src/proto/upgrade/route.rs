//! What a request asks for: its path, and for the history read its query.

use std::num::IntErrorKind;

use super::{QueryFault, Refusal};
use crate::proto::http::Head;

/// The resources we have. An agent's id is the raw segment of the path, still percent-encoded: one
/// that is no valid id is no unknown path but an agent that nobody has a token for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// `/agents/{agent_id}/ws`
    Socket {
        /// Percent-encoded.
        agent_id: &'a str,
    },
    /// `/agents/{agent_id}`
    Agent {
        /// Percent-encoded.
        agent_id: &'a str,
    },
    /// `/agents/{agent_id}/events?from_seq=N&limit=M`
    Events {
        /// Percent-encoded.
        agent_id: &'a str,
        /// The first seq wanted, 0 unless said otherwise.
        from_seq: u64,
        /// At most this many events.
        limit: Option<u64>,
    },
    /// `/healthz`
    Healthz,
    /// `/metrics`
    Metrics,
}

/// Finds what the request asks for. In this order: an unknown path, a method other than GET, a body,
/// a query that cannot be read. The query of anything but the history read is ignored.
pub fn route(head: &Head) -> Result<Route<'_>, Refusal> {
    let path = head.path().strip_prefix('/').ok_or(Refusal::NotFound)?;
    let mut segments = path.split('/');
    let found = match (segments.next(), segments.next(), segments.next(), segments.next()) {
        (Some("healthz"), None, ..) => Route::Healthz,
        (Some("metrics"), None, ..) => Route::Metrics,
        (Some("agents"), Some(agent_id), None, _) => Route::Agent { agent_id },
        (Some("agents"), Some(agent_id), Some("ws"), None) => Route::Socket { agent_id },
        (Some("agents"), Some(agent_id), Some("events"), None) => {
            Route::Events { agent_id, from_seq: 0, limit: None }
        }
        _ => return Err(Refusal::NotFound),
    };
    require_plain_get(head)?;
    match found {
        Route::Events { agent_id, .. } => {
            let query = head.query().unwrap_or("");
            let known = |(key, _)| matches!(key, "from_seq" | "limit" | "");
            if !parameters(query).all(known) {
                return Err(Refusal::UnknownParameter);
            }
            let from_seq = number(query, "from_seq")?.unwrap_or(0);
            Ok(Route::Events { agent_id, from_seq, limit: number(query, "limit")? })
        }
        other => Ok(other),
    }
}

/// A GET without a body. RFC 9110, section 9.3.1 lets a server refuse one with a body as a possible
/// attempt at smuggling; what follows our heads are frames, so we do. `Content-Length: 0` is no body.
pub(super) fn require_plain_get(head: &Head) -> Result<(), Refusal> {
    if head.method() != "GET" {
        return Err(Refusal::MethodNotAllowed);
    }
    let no_body = head.headers("content-length").all(|len| len == "0")
        && head.header("transfer-encoding").is_none();
    if no_body { Ok(()) } else { Err(Refusal::BodyNotAllowed) }
}

/// The parameters of a query; between two `&` there may be none, which has no name.
fn parameters(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

/// The value of a parameter that may be there once.
fn number(query: &str, name: &'static str) -> Result<Option<u64>, Refusal> {
    let mut values = parameters(query).filter_map(|(key, value)| (key == name).then_some(value));
    let fault = |fault| Refusal::BadQuery(name, fault);
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(_), Some(_)) => Err(fault(QueryFault::Twice)),
        (Some(value), None) if value.bytes().all(|byte| byte.is_ascii_digit()) => {
            value.parse().map(Some).map_err(|error: std::num::ParseIntError| {
                fault(match error.kind() {
                    IntErrorKind::PosOverflow => QueryFault::TooLarge,
                    _ => QueryFault::NotANumber,
                })
            })
        }
        (Some(_), None) => Err(fault(QueryFault::NotANumber)),
    }
}
