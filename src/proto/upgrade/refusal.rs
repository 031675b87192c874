//! Every way in which a request is refused, with its status, its headers and its line of text.

use std::fmt;

use crate::proto::http::{Head, HeadError, Status, write_response, write_response_to_head};

/// Why a request is refused. Displayed, it is the line of text in the answer; none repeats what the
/// client sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 400 or 431: the head itself.
    Head(HeadError),
    /// 400: a request that announces a body.
    BodyNotAllowed,
    /// 400: a parameter of the query, by name.
    BadQuery(&'static str, QueryFault),
    /// 400: a parameter that nobody knows; a misspelt `from_seq` would read the whole history.
    UnknownParameter,
    /// 400: a WebSocket upgrade, but not as RFC 6455 has it.
    BadHandshake(&'static str),
    /// 401: an HTTP read without a right token.
    Unauthorized,
    /// 403: sent by a web page of an origin that is not allowed.
    ForeignOrigin,
    /// 404: no such path.
    NotFound,
    /// 405: a method other than GET.
    MethodNotAllowed,
    /// 426: the socket's path, but no upgrade.
    NotAnUpgrade,
    /// 426: an upgrade to another version of the WebSocket protocol.
    WrongVersion,
    /// 503: not now, for this reason.
    Unavailable(&'static str),
}

/// What is wrong with a number in a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryFault {
    /// It is not only digits, or is empty.
    NotANumber,
    /// It does not fit 64 bits.
    TooLarge,
    /// The parameter is there more than once.
    Twice,
}

impl Refusal {
    /// The status to answer with.
    pub fn status(&self) -> Status {
        match self {
            Self::Head(error) => error.status(),
            Self::BodyNotAllowed
            | Self::BadQuery(..)
            | Self::UnknownParameter
            | Self::BadHandshake(_) => Status::BadRequest,
            Self::Unauthorized => Status::Unauthorized,
            Self::ForeignOrigin => Status::Forbidden,
            Self::NotFound => Status::NotFound,
            Self::MethodNotAllowed => Status::MethodNotAllowed,
            Self::NotAnUpgrade | Self::WrongVersion => Status::UpgradeRequired,
            Self::Unavailable(_) => Status::ServiceUnavailable,
        }
    }

    /// The headers that the status obliges us to send.
    pub fn headers(&self) -> &'static [(&'static str, &'static str)] {
        match self {
            // RFC 9110, section 11.6.1.
            Self::Unauthorized => &[("WWW-Authenticate", "Bearer")],
            // RFC 9110, section 15.5.6.
            Self::MethodNotAllowed => &[("Allow", "GET")],
            // RFC 9110, section 15.5.22; its section 7.8 wants the option in `Connection`, which is a
            // list and may be spread over lines.
            Self::NotAnUpgrade => &[("Connection", "Upgrade"), ("Upgrade", "websocket")],
            // And RFC 6455, section 4.4.
            Self::WrongVersion => &[
                ("Connection", "Upgrade"),
                ("Upgrade", "websocket"),
                ("Sec-WebSocket-Version", "13"),
            ],
            _ => &[],
        }
    }

    /// Appends the answer, without its body if the request was for the head alone. There is no
    /// request to look at when its head could not be read.
    pub fn write(&self, out: &mut Vec<u8>, request: Option<&Head>) {
        let write = match request {
            Some(head) if head.method() == "HEAD" => write_response_to_head,
            _ => write_response,
        };
        write(out, self.status(), self.headers(), &self.to_string());
    }
}

impl From<HeadError> for Refusal {
    fn from(error: HeadError) -> Self {
        Self::Head(error)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Head(error) => error.fmt(f),
            Self::BodyNotAllowed => f.write_str("a request with a body is not accepted"),
            Self::BadQuery(name, QueryFault::NotANumber) => {
                write!(f, "{name}: expected an integer in digits alone")
            }
            Self::BadQuery(name, QueryFault::TooLarge) => {
                write!(f, "{name}: expected an integer of at most {}", u64::MAX)
            }
            Self::BadQuery(name, QueryFault::Twice) => {
                write!(f, "{name}: expected once, found more often")
            }
            Self::UnknownParameter => {
                f.write_str("a parameter is not known: there are from_seq and limit")
            }
            Self::BadHandshake(what) | Self::Unavailable(what) => f.write_str(what),
            Self::Unauthorized => f.write_str("missing or wrong bearer token"),
            Self::ForeignOrigin => f.write_str("origin is not in allowed_origins"),
            Self::NotFound => f.write_str("no such path"),
            Self::MethodNotAllowed => f.write_str("only GET is allowed"),
            Self::NotAnUpgrade => f.write_str("this path is a WebSocket: upgrade"),
            Self::WrongVersion => {
                f.write_str("only version 13 of the WebSocket protocol is spoken")
            }
        }
    }
}

impl std::error::Error for Refusal {}
