//! Values that must not be seen: bearer tokens, provider keys, header values.
//!
//! Invariant: nothing here prints its value. `Debug` is redacted and `Display` does not exist, so a
//! secret leaves only through `expose`, which can be searched for.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::node::{Node, Source};
use super::problem::Problem;
use crate::limits::TOKEN_BYTES_MAX;
use crate::proto::ident::SessionId;
use crate::proto::json::Kind;

/// A value that is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Wraps a value.
    pub fn new(value: &str) -> Secret {
        Secret(value.into())
    }

    /// The value itself, for the one place that sends or compares it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[REDACTED]")
    }
}

/// A bearer token: 1 to 1,024 visible ASCII characters, so that it fits one header line. Whoever came
/// with it shares it with the table.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Arc<str>);

impl Token {
    /// Takes a text that may stand after `Bearer`.
    pub fn parse(text: &str) -> Option<Token> {
        let fits = (1..=TOKEN_BYTES_MAX).contains(&text.len());
        (fits && text.bytes().all(|b| b.is_ascii_graphic())).then(|| Token(text.into()))
    }

    /// The token itself. Compare it with `proto::upgrade::token_eq`, which takes constant time.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[REDACTED]")
    }
}

/// Which tokens open which session. A session may have several at once: a rotation with overlap.
///
/// There may be a hundred thousand: copies share one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens(Arc<BTreeMap<SessionId, Vec<Token>>>);

impl Tokens {
    /// Reads a tokens file: `{"session": "token"}` or `{"session": ["token", "token"]}`.
    pub fn parse(text: &str) -> Result<Tokens, Vec<Problem>> {
        let source = Source::new(text);
        let tokens = source.root().and_then(|root| Tokens::read(&root));
        match (tokens, source.into_problems()) {
            (Some(tokens), problems) if problems.is_empty() => Ok(tokens),
            (_, problems) => Err(problems),
        }
    }

    /// The tokens of one session; none when nobody may open it.
    pub fn of(&self, session: &SessionId) -> &[Token] {
        self.0.get(session).map_or(&[], Vec::as_slice)
    }

    /// The sessions that have a token.
    pub fn sessions(&self) -> impl Iterator<Item = &SessionId> {
        self.0.keys()
    }

    /// Whether there is no token at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lets `token` open `session`.
    pub fn add(&mut self, session: SessionId, token: Token) {
        // Most have one for ever.
        let none = || Vec::with_capacity(1);
        let tokens = Arc::make_mut(&mut self.0).entry(session).or_insert_with(none);
        if !tokens.contains(&token) {
            tokens.push(token);
        }
    }

    /// These and those.
    #[must_use]
    pub fn united(&self, others: &Tokens) -> Tokens {
        if self.is_empty() {
            return others.clone();
        }
        let mut union = self.clone();
        for (session, tokens) in &*others.0 {
            for token in tokens {
                union.add(session.clone(), token.clone());
            }
        }
        union
    }

    pub(super) fn read(node: &Node<'_>) -> Option<Tokens> {
        let mut tokens = Tokens::default();
        for (key, value) in node.entries()? {
            let Some(session) = SessionId::parse(&key) else {
                // The key is not quoted: in a table turned around it is the token.
                node.problem(
                    "a key is not a session id (1 to 128 of A-Z a-z 0-9 . _ -, not beginning with .)",
                );
                continue;
            };
            let list = if value.kind() == Kind::String { vec![value] } else { strings_of(&value) };
            for token in list.iter().filter_map(read_token) {
                tokens.add(session.clone(), token);
            }
        }
        Some(tokens)
    }
}

fn strings_of<'a>(value: &Node<'a>) -> Vec<Node<'a>> {
    if value.kind() != Kind::Array {
        value.problem("expected a token or an array of tokens");
        return Vec::new();
    }
    value.items().unwrap_or_default()
}

fn read_token(node: &Node<'_>) -> Option<Token> {
    node.parsed("a token of 1 to 1024 visible ASCII characters", Token::parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> SessionId {
        SessionId::parse(text).unwrap()
    }

    #[test]
    fn a_session_has_one_token_or_several() {
        let tokens =
            Tokens::parse(r#"{"a": "one", "b": ["two", "three", "two"], "c": []}"#).unwrap();
        let shown = |session| {
            tokens.of(&id(session)).iter().map(|t| t.expose().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(shown("a"), ["one"]);
        assert_eq!(shown("b"), ["two", "three"]);
        assert!(shown("c").is_empty() && shown("d").is_empty());
    }

    #[test]
    fn two_tables_unite() {
        let file = Tokens::parse(r#"{"a": "new", "b": "x"}"#).unwrap();
        let both = Tokens::parse(r#"{"a": ["old", "new"]}"#).unwrap().united(&file);
        assert_eq!(both.of(&id("a")).len(), 2);
        assert_eq!(both.of(&id("b")).len(), 1);
    }

    #[test]
    fn a_bad_table_is_refused_by_place_and_never_quoted() {
        let long = format!(r#"{{"a": "{}"}}"#, "x".repeat(TOKEN_BYTES_MAX + 1));
        for (text, problems) in [
            ("[]", vec!["1: expected an object"]),
            ("{\"a\":\n7}", vec!["2: a: expected a token or an array of tokens"]),
            (
                "{\"a\": [\"canary\",\n \"can ary\", \"\"]}",
                vec![
                    "2: a[1]: expected a token of 1 to 1024 visible ASCII characters",
                    "2: a[2]: expected a token of 1 to 1024 visible ASCII characters",
                ],
            ),
            (&long, vec!["1: a: expected a token of 1 to 1024 visible ASCII characters"]),
            (
                "{\"/canary\": \"s1\"}",
                vec![
                    "1: a key is not a session id (1 to 128 of A-Z a-z 0-9 . _ -, not beginning with .)",
                ],
            ),
        ] {
            let found = Tokens::parse(text).unwrap_err();
            let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(shown, problems);
            assert!(!format!("{found:?}").contains("ary"), "{found:?}");
        }
    }

    #[test]
    fn debug_output_is_redacted() {
        let tokens = Tokens::parse(r#"{"a": "canary"}"#).unwrap();
        let shown = format!("{tokens:?} {:?} {:#?}", Secret::new("canary"), Token::parse("canary"));
        assert!(!shown.contains("canary"), "{shown}");
        assert!(shown.contains("[REDACTED]"));
    }
}
