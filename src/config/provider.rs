//! Where models are asked: the definitions under `providers`.
//!
//! Plain values. Knows no request, no retry and no socket: those are `model`'s and `net`'s.

use super::Surroundings;
use super::node::{Fields, Node};
use super::script::Script;
use super::secret::Secret;
use crate::limits::WAIT_S_MAX;
use crate::proto::http_client::{BaseUrl, check_header};

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
    let base_url = fields.required("base_url").as_ref().and_then(read_base_url);
    // The other keys are read with a stand-in, so that their problems are found as well.
    let (host, path) = (String::new(), String::new());
    let stand_in = BaseUrl { https: false, host, port: 80, path, query: None };
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

fn read_base_url(node: &Node<'_>) -> Option<BaseUrl> {
    match BaseUrl::parse(&node.string()?) {
        Ok(BaseUrl { https: true, .. }) if !cfg!(feature = "tls") => {
            node.problem(
                "this build has no TLS: build with `cargo build --release --features tls`, or name a \
                 proxy that adds it",
            );
            None
        }
        Ok(base_url) => Some(base_url),
        Err(wrong) => {
            node.problem(wrong.to_string());
            None
        }
    }
}

fn read_key(node: &Node<'_>, around: &Surroundings<'_>) -> Option<Secret> {
    let name = node.string()?;
    // The name is not quoted: people put the key itself here.
    let Some(key) = (around.env)(&name).filter(|key| !key.is_empty()) else {
        node.problem("the environment variable named here is not set");
        return None;
    };
    if check_header("Authorization", &key).is_err() {
        node.problem("the environment variable named here holds a line end or control character");
        return None;
    }
    Some(Secret::new(&key))
}

fn read_headers(node: &Node<'_>) -> Option<Vec<(String, Secret)>> {
    let mut headers = Vec::new();
    for (name, value) in node.entries()? {
        let Some(text) = value.string() else { continue };
        match check_header(&name, &text) {
            Ok(()) => headers.push((name, Secret::new(&text))),
            Err(wrong) => value.problem(wrong.to_string()),
        }
    }
    Some(headers)
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
