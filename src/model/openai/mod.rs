//! Servers that speak chat completions with streaming over HTTP, each a little differently: the
//! dialect as it is really spoken (cases-providers.md).
//!
//! In reading order: `draft` writes the request, `exchange` carries it through its attempts,
//! `answer` reads the body, `delta` and `calls` put it together; `learned` and `kept` are
//! what a provider remembers.
//!
//! Invariant: the key and the configured header values leave through the request and nowhere else.

mod learned;
mod kept;
mod draft;
mod calls;
mod delta;
mod answer;
mod exchange;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use self::kept::Kept;
use self::learned::Learned;
use super::call::{RequestBytes, Target};
use super::secrets::Secrets;
use crate::config::{IdStyle, OpenAiConfig};
use crate::limits::REASON_CHARS_MAX;
use crate::proto::http_client::{InvalidHeader, check_header, write_request};
use crate::proto::ident::percent_decode;
use crate::proto::json::{Document, Value};

pub(super) use self::exchange::Exchange;
pub use self::learned::{Fact, Facts};

/// One configured server, shared by all calls to it.
pub struct OpenAi {
    config: OpenAiConfig,
    target: Target,
    secrets: Secrets,
    learned: Learned,
    kept: Mutex<Kept>,
}

impl OpenAi {
    /// A server of which nothing is known but its configuration. The error is a header that cannot
    /// be sent.
    pub fn new(config: OpenAiConfig) -> Result<OpenAi, InvalidHeader> {
        for (name, value) in &config.headers {
            check_header(name, value.expose())?;
        }
        if let Some(key) = &config.api_key {
            check_header("Authorization", key.expose())?;
        }
        let url = &config.base_url;
        let target = Target { host: url.host.as_str().into(), port: url.port, tls: url.https };
        let learned = Learned::default();
        if config.id_style == Some(IdStyle::Mistral9) {
            let fact = Facts::default().flipped(Fact::WantsNineLetterIds);
            learned.remember(fact, fact);
        }
        let secrets = secrets(&config);
        Ok(OpenAi { target, secrets, learned, kept: Mutex::default(), config })
    }

    /// What was learned about the server since the process started, for metrics and the log.
    pub fn learned(&self) -> Facts {
        self.learned.facts()
    }

    /// Requests it takes at once; none means no bound.
    pub fn max_concurrent_requests(&self) -> Option<usize> {
        self.config.max_concurrent_requests
    }

    fn request(&self, body: &[u8]) -> RequestBytes {
        let config = &self.config;
        let bearer = config.api_key.as_ref().map(|key| format!("Bearer {}", key.expose()));
        let ours = [
            ("User-Agent", Some(concat!("terret-ws/", env!("CARGO_PKG_VERSION")))),
            ("Accept", Some("text/event-stream, application/json")),
            ("Content-Type", Some("application/json")),
            ("Authorization", bearer.as_deref()),
        ];
        let configured =
            |name: &str| config.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let ours = ours.into_iter().filter(|(name, _)| !configured(name));
        let ours = ours.filter_map(|(name, value)| Some((name, value?)));
        let theirs = config.headers.iter().map(|(name, value)| (name.as_str(), value.expose()));
        let headers: Vec<(&str, &str)> = ours.chain(theirs).collect();
        let mut request = Vec::with_capacity(1024 + body.len());
        let url = &config.base_url;
        let target = url.target("/chat/completions");
        write_request(&mut request, &url.authority(), &target, &headers, body)
            .expect("every header was checked when the provider was made");
        RequestBytes::new(request)
    }

    /// A reason as people may read it: without secrets and not without end. `cut` says that the text
    /// is only the beginning of what the server sent.
    fn fit_for_people(&self, text: &str, cut: bool) -> String {
        let mut text = if cut { self.secrets.redact_cut(text) } else { self.secrets.redact(text) };
        if let Some((end, _)) = text.char_indices().nth(REASON_CHARS_MAX) {
            text.truncate(end);
            text.push_str("...");
        }
        text
    }

    /// What is kept stays whole if a thread panics with it: every change is one call.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAi")
            .field("target", &self.target)
            .field("learned", &self.learned)
            .finish_non_exhaustive()
    }
}

/// Any header's value may be a key, and so may a string in the body or in the URL's query under a
/// name that says so. Short ones are words like `true`, which a reason must be able to say.
fn secrets(config: &OpenAiConfig) -> Secrets {
    let mut secrets = Secrets::default();
    if let Some(key) = &config.api_key {
        secrets.add(key.expose());
    }
    for (_, value) in &config.headers {
        let value = value.expose();
        // Of `Bearer KEY` and `Basic KEY` a server quotes the key alone.
        for value in [value, value.split_once(' ').map_or("", |(_, key)| key)] {
            if value.len() >= SECRET_BYTES_MIN {
                secrets.add(value);
            }
        }
    }
    for pair in config.base_url.query.iter().flat_map(|query| query.split('&')) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        add_if_named(&mut secrets, name, value);
        // A server quotes it as it has read it.
        if let Some(Ok(value)) = percent_decode(value).map(String::from_utf8) {
            add_if_named(&mut secrets, name, &value);
        }
    }
    for (key, json) in &config.extra_body {
        if let Ok(document) = Document::parse_lossy(json.as_bytes()) {
            add_named(&mut secrets, key, document.value());
        }
    }
    secrets
}

fn add_named(secrets: &mut Secrets, name: &str, value: Value<'_>) {
    if let Some(text) = value.as_str() {
        add_if_named(secrets, name, &text);
    }
    for element in value.elements().into_iter().flatten() {
        add_named(secrets, name, element);
    }
    for (key, member) in value.members().into_iter().flatten() {
        add_named(secrets, &key.to_str(), member);
    }
}

fn add_if_named(secrets: &mut Secrets, name: &str, value: &str) {
    let name = name.to_ascii_lowercase();
    let is_secret = SECRET_NAMES.iter().any(|word| name.contains(word));
    if is_secret && value.len() >= SECRET_BYTES_MIN {
        secrets.add(value);
    }
}

const SECRET_BYTES_MIN: usize = 6;
const SECRET_NAMES: [&str; 5] = ["key", "token", "secret", "password", "authorization"];
