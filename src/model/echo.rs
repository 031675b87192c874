//! The provider that needs no model: it answers with the words it was given, one piece a word.
//!
//! Invariant: the pieces concatenate to the text, byte for byte.

use super::Request;
use crate::agent::Message;

/// An answer being recited.
#[derive(Debug)]
pub(super) struct Echo {
    text: String,
    /// `at <= text.len()`, on a character's boundary.
    at: usize,
}

impl Echo {
    /// The words are the texts the step took in, one below the other; on a step that took in none
    /// (a resume, a tool's result) the last user message.
    pub(super) fn new(request: &Request<'_>) -> Echo {
        let text = if request.fresh.is_empty() {
            let last = request.messages.iter().rev().find_map(|message| match message {
                Message::User(text) => Some(text.clone()),
                _ => None,
            });
            last.unwrap_or_default()
        } else {
            request.fresh.join("\n")
        };
        Echo { text, at: 0 }
    }

    /// The next word with the white space after it; none when all is said.
    pub(super) fn next_piece(&mut self) -> Option<String> {
        let rest = &self.text[self.at..];
        // White space before the first word goes with that word.
        let word = rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len());
        let space = rest[word..].find(char::is_whitespace).map_or(rest.len(), |at| word + at);
        let next = rest[space..].find(|c: char| !c.is_whitespace());
        let piece = &rest[..next.map_or(rest.len(), |at| space + at)];
        self.at += piece.len();
        (!piece.is_empty()).then(|| piece.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(messages: &[Message], fresh: &[&str]) -> Vec<String> {
        let fresh: Vec<String> = fresh.iter().map(ToString::to_string).collect();
        let mut echo = Echo::new(&Request { system: None, messages, tools: &[], fresh: &fresh });
        std::iter::from_fn(|| echo.next_piece()).collect()
    }

    #[test]
    fn a_text_comes_back_word_by_word() {
        for (text, expected) in [
            ("", &[][..]),
            ("hello", &["hello"]),
            ("hello you there", &["hello ", "you ", "there"]),
            ("  a\n\n b ", &["  a\n\n ", "b "]),
            ("   ", &["   "]),
            ("größer\u{3000}ß", &["größer\u{3000}", "ß"]),
        ] {
            assert_eq!(pieces(&[], &[text]), expected, "{text:?}");
            assert_eq!(pieces(&[], &[text]).concat(), text);
        }
    }

    #[test]
    fn several_texts_of_one_step_come_back_in_order() {
        assert_eq!(pieces(&[Message::User("old".into())], &["a b", "c"]).concat(), "a b\nc");
    }

    #[test]
    fn a_step_without_a_new_text_echoes_the_last_user_message() {
        let history = [Message::User("first".into()), Message::User("last one".into())];
        assert_eq!(pieces(&history, &[]), ["last ", "one"]);
        assert_eq!(pieces(&[], &[]), [""; 0]);
    }
}
