//! Where models are asked: the definitions under `providers`.
//!
//! Plain values. Knows no request, no retry and no socket: those are `model`'s and `net`'s.

use super::Surroundings;
use super::node::{Fields, Node};
use super::script::Script;
use super::secret::Secret;
use crate::limits::WAIT_S_MAX;

/// One entry of `providers`.
#[derive(Clone, Debug, PartialEq)]
pub enum ProviderConfig {
    /// Answers with the words it was given.
    Echo,
    /// Answers from a list.
    Scripted(Script),
    /// Asks an HTTP server in the chat-completions dialect.
    OpenAi(OpenAiConfig),
}

/// An HTTP server that speaks chat completions with streaming.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenAiConfig {
    /// Where `/chat/completions` is.
    pub base_url: BaseUrl,
    /// The bearer key, taken from the environment variable that `api_key_env` names.
    pub api_key: Option<Secret>,
    /// Further request headers, in order.
    pub headers: Vec<(String, Secret)>,
    /// Further members of the request body: key and JSON text of the value, in order.
    pub extra_body: Vec<(String, Box<str>)>,
    /// A restriction the server puts on tool call ids.
    pub id_style: Option<IdStyle>,
    /// Requests at once; none means no bound.
    pub max_concurrent_requests: Option<usize>,
    /// Attempts of one request before its turn fails, the first one counted.
    pub max_attempts: u32,
    /// Seconds until the connection stands.
    pub connect_timeout_s: u64,
    /// Seconds from then until the first event.
    pub first_byte_timeout_s: u64,
    /// Seconds between two events.
    pub silence_timeout_s: u64,
    /// Seconds for the whole answer; none means no bound.
    pub answer_timeout_s: Option<u64>,
}

impl OpenAiConfig {
    /// A server without a key and with every default.
    pub fn new(base_url: BaseUrl) -> OpenAiConfig {
        OpenAiConfig {
            base_url,
            api_key: None,
            headers: Vec::new(),
            extra_body: Vec::new(),
            id_style: None,
            max_concurrent_requests: None,
            max_attempts: 4,
            connect_timeout_s: 10,
            first_byte_timeout_s: 600,
            silence_timeout_s: 120,
            answer_timeout_s: None,
        }
    }
}

/// A restriction on tool call ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdStyle {
    /// Exactly nine letters and digits, as Mistral wants them.
    Mistral9,
}

/// `http://HOST[:PORT][/PATH]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    /// A name or an address; an IPv6 address without its brackets.
    pub host: String,
    /// 80 when the URL names none.
    pub port: u16,
    /// Empty, or `/` and more, never ending in `/`.
    pub path: String,
}

impl BaseUrl {
    /// Takes a URL; the error says what is wrong with it and never quotes it.
    pub fn parse(url: &str) -> Result<BaseUrl, &'static str> {
        const SHAPE: &str = "expected http://HOST[:PORT][/PATH]";
        let Some((scheme, rest)) = url.split_once("://") else { return Err(SHAPE) };
        match scheme.to_ascii_lowercase().as_str() {
            "http" => {}
            "https" => {
                return Err(
                    "https needs TLS and this build has none: use http, or put a proxy that \
                            adds TLS in front and name that",
                );
            }
            _ => return Err(SHAPE),
        }
        if rest.contains(['?', '#', '@']) {
            return Err(
                "expected http://HOST[:PORT][/PATH] without user, query or fragment; a key \
                        belongs in the environment, named by `api_key_env`",
            );
        }
        if !rest.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(SHAPE);
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = split_authority(authority).ok_or(SHAPE)?;
        Ok(BaseUrl { host: host.to_owned(), port, path: path.trim_end_matches('/').to_owned() })
    }
}

fn split_authority(authority: &str) -> Option<(&str, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, after)
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match port.strip_prefix(':') {
        Some(digits) => digits.parse().ok().filter(|&port| port != 0)?,
        None if port.is_empty() => 80,
        None => return None,
    };
    (!host.is_empty()).then_some((host, port))
}

impl ProviderConfig {
    pub(super) fn read(node: &Node<'_>, around: &Surroundings<'_>) -> Option<ProviderConfig> {
        #[derive(Clone, Copy)]
        enum Kind {
            Echo,
            Scripted,
            OpenAi,
        }
        let mut fields = node.fields()?;
        let kind = fields.required("kind")?.one_of(&[
            ("echo", Kind::Echo),
            ("scripted", Kind::Scripted),
            ("openai", Kind::OpenAi),
        ])?;
        let provider = match kind {
            Kind::Echo => Some(ProviderConfig::Echo),
            Kind::Scripted => Script::read(&mut fields, around).map(ProviderConfig::Scripted),
            Kind::OpenAi => read_openai(&mut fields, around).map(ProviderConfig::OpenAi),
        };
        fields.finish();
        provider
    }
}

fn read_openai(fields: &mut Fields<'_>, around: &Surroundings<'_>) -> Option<OpenAiConfig> {
    let base_url = fields.required("base_url").and_then(|node| {
        let url = node.string()?;
        BaseUrl::parse(&url).map_err(|wrong| node.problem(wrong)).ok()
    });
    // The other keys are read with a stand-in, so that their problems are found as well.
    let stand_in = BaseUrl { host: String::new(), port: 80, path: String::new() };
    let mut openai = OpenAiConfig::new(base_url.clone().unwrap_or(stand_in));
    fields.set_nullable("api_key_env", &mut openai.api_key, |node| read_key(node, around));
    fields.set("headers", &mut openai.headers, read_headers);
    fields.set("extra_body", &mut openai.extra_body, read_extra_body);
    fields.set_nullable("id_style", &mut openai.id_style, |node| {
        node.one_of(&[("mistral9", IdStyle::Mistral9)])
    });
    fields.set_nullable("max_concurrent_requests", &mut openai.max_concurrent_requests, |node| {
        node.whole(1..=u16::MAX).map(usize::from)
    });
    fields.set("max_attempts", &mut openai.max_attempts, |node| node.whole(1..=100));
    let seconds = |node: &Node<'_>| node.whole(1..=WAIT_S_MAX);
    fields.set("connect_timeout_s", &mut openai.connect_timeout_s, seconds);
    fields.set("first_byte_timeout_s", &mut openai.first_byte_timeout_s, seconds);
    fields.set("silence_timeout_s", &mut openai.silence_timeout_s, seconds);
    fields.set_nullable("answer_timeout_s", &mut openai.answer_timeout_s, seconds);
    base_url.map(|_| openai)
}

fn read_key(node: &Node<'_>, around: &Surroundings<'_>) -> Option<Secret> {
    let name = node.string()?;
    // The name is not quoted: people put the key itself here.
    match (around.env)(&name) {
        Some(key) if is_header_value(&key) && !key.is_empty() => Some(Secret::new(&key)),
        Some(_) => {
            node.problem(
                "the environment variable named here is empty or holds a control character",
            );
            None
        }
        None => {
            node.problem("the environment variable named here is not set");
            None
        }
    }
}

fn read_headers(node: &Node<'_>) -> Option<Vec<(String, Secret)>> {
    const OURS: [&str; 4] = ["host", "connection", "content-length", "transfer-encoding"];
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let mut headers = Vec::new();
    for (name, value) in node.entries()? {
        if name.is_empty() || !name.chars().all(is_token) {
            value.problem("the key is not a header name");
        } else if OURS.contains(&name.to_ascii_lowercase().as_str()) {
            value.problem("this header is set by the server itself");
        } else if let Some(text) = value.parsed("a header value on one line", |text| {
            is_header_value(text).then(|| text.to_owned())
        }) {
            headers.push((name, Secret::new(&text)));
        }
    }
    Some(headers)
}

fn is_header_value(text: &str) -> bool {
    text.chars().all(|c| c == '\t' || !c.is_control())
}

fn read_extra_body(node: &Node<'_>) -> Option<Vec<(String, Box<str>)>> {
    const OURS: [&str; 3] = ["messages", "model", "stream"];
    let mut members = Vec::new();
    for (key, value) in node.entries()? {
        if OURS.contains(&key.as_str()) {
            value.problem("this member is set by the server itself");
        } else if let Some(text) = value.checked_json() {
            members.push((key, text));
        }
    }
    Some(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls() {
        for (url, host, port, path) in [
            ("http://127.0.0.1:11434/v1", "127.0.0.1", 11434, "/v1"),
            ("HTTP://localhost", "localhost", 80, ""),
            ("http://localhost/", "localhost", 80, ""),
            ("http://h:8080/a/b/", "h", 8080, "/a/b"),
            ("http://[::1]:9/v1", "::1", 9, "/v1"),
            ("http://[::1]", "::1", 80, ""),
        ] {
            let expected = BaseUrl { host: host.into(), port, path: path.into() };
            assert_eq!(BaseUrl::parse(url), Ok(expected), "{url}");
        }
    }

    #[test]
    fn what_is_no_base_url_is_told_why() {
        for (url, why) in [
            ("", "http://HOST"),
            ("localhost:11434", "http://HOST"),
            ("ftp://h/", "http://HOST"),
            ("http://", "http://HOST"),
            ("http://:80", "http://HOST"),
            ("http://h:", "http://HOST"),
            ("http://h:0", "http://HOST"),
            ("http://h:65536", "http://HOST"),
            ("http://[::1", "http://HOST"),
            ("http://[::1]x", "http://HOST"),
            ("http://[h]", "http://HOST"),
            ("http://h/a b", "http://HOST"),
            ("http://h/a\r\nX: y", "http://HOST"),
            ("https://api.openai.com/v1", "TLS"),
            ("http://user:canary@h/", "without user"),
            ("http://h/?key=canary", "without user"),
            ("http://h/#x", "without user"),
        ] {
            let wrong = BaseUrl::parse(url).expect_err(url);
            assert!(wrong.contains(why) && !wrong.contains("canary"), "{url}: {wrong}");
        }
    }
}
