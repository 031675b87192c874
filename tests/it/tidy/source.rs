//! Reads Rust source as far as the rules of the repository need it: code without its comments and
//! literals, the paths it names, and which of its lines are test code.
//!
//! It is no parser. It knows nothing of types or macros and must never miss a path that is
//! spelled out; a path that a macro puts together is out of its sight.

use std::ops::Range;

/// A path as the code spells it, groups of a `use` taken apart: `std::io::Write`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    /// Counted from 1.
    pub(crate) line: usize,
    pub(crate) segments: Vec<String>,
    /// Whether it stands in a `#[cfg(test)]` item.
    pub(crate) in_test: bool,
}

impl Path {
    /// Whether `names` stand next to one another somewhere in the path.
    pub(crate) fn has(&self, names: &[&str]) -> bool {
        self.segments.windows(names.len()).any(|window| window == names)
    }
}

/// Rust source without its comments and literals.
pub(crate) struct Code {
    tokens: Vec<Token>,
    /// Ranges of tokens that are compiled for tests only.
    tests: Vec<Range<usize>>,
}

impl Code {
    pub(crate) fn read(source: &str) -> Self {
        let tokens = tokens(&blank_comments_and_literals(source));
        let tests = test_items(&tokens);
        Self { tokens, tests }
    }

    /// Every path of two segments or more, and of a `use` also those of one.
    pub(crate) fn paths(&self) -> Vec<Path> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            let from = found.len();
            let next = match self.tokens[at].text.as_str() {
                "use" => tree(&self.tokens, at + 1, &[], &mut found),
                text if starts_path(text) => inline(&self.tokens, at, &mut found),
                _ => at + 1,
            };
            let in_test = self.is_test(at);
            found[from..].iter_mut().for_each(|path| path.in_test = in_test);
            at = next;
        }
        found
    }

    /// Lines (counted from 1) on which the tokens of `words` stand next to one another, outside
    /// test items.
    pub(crate) fn lines_with(&self, words: &str) -> Vec<usize> {
        let wanted = tokens(words);
        let windows = self.tokens.windows(wanted.len()).enumerate();
        let hits = windows.filter(|(at, window)| {
            window.iter().zip(&wanted).all(|(token, wanted)| token.text == wanted.text)
                && !self.is_test(*at)
        });
        hits.map(|(_, window)| window[0].line).collect()
    }

    fn is_test(&self, at: usize) -> bool {
        self.tests.iter().any(|item| item.contains(&at))
    }
}

/// One token with the line it stands on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    line: usize,
    text: String,
}

/// The source with every comment and literal replaced by spaces; lines stay where they are.
fn blank_comments_and_literals(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = at + blank_len(bytes, at);
        if end == at {
            out.push(bytes[at]);
            at += 1;
        } else {
            out.extend(bytes[at..end].iter().map(|&b| if b == b'\n' { b'\n' } else { b' ' }));
            at = end;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// How many bytes from `at` on are one comment or literal; 0 where none begins.
fn blank_len(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let after_word = at > 0 && is_word(bytes[at - 1]);
    match rest {
        [b'/', b'/', ..] => rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => block_comment_len(rest),
        [b'"', ..] => quoted_len(rest, b'"'),
        [b'\'', ..] => char_len(rest),
        [b'r' | b'b' | b'c', ..] if !after_word => prefixed_len(rest),
        _ => 0,
    }
}

fn block_comment_len(rest: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn quoted_len(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// A character literal; a lifetime is none and has length 0.
fn char_len(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        return quoted_len(rest, b'\'');
    }
    let text = String::from_utf8_lossy(&rest[..rest.len().min(6)]).into_owned();
    let mut chars = text.chars().skip(1);
    match (chars.next(), chars.next()) {
        (Some(inner), Some('\'')) => 2 + inner.len_utf8(),
        _ => 0,
    }
}

/// `r"…"`, `r#"…"#`, `b"…"`, `b'…'`, `br#"…"#`, `c"…"`.
fn prefixed_len(rest: &[u8]) -> usize {
    let letters = rest.iter().take_while(|b| matches!(b, b'r' | b'b' | b'c')).count();
    let raw = rest[..letters].contains(&b'r');
    let hashes = rest[letters..].iter().take_while(|&&b| b == b'#').count();
    match rest.get(letters + hashes) {
        Some(b'"') if raw => {
            let end = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
            let body = letters + hashes + 1;
            let found = rest[body..].windows(end.len()).position(|window| window == end);
            found.map_or(rest.len(), |offset| body + offset + end.len())
        }
        Some(b'"') if hashes == 0 => letters + quoted_len(&rest[letters..], b'"'),
        Some(b'\'') if hashes == 0 && letters == 1 => 1 + char_len(&rest[1..]),
        _ => 0,
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn tokens(code: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let bytes = line.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let word = bytes[at..].iter().take_while(|&&b| is_word(b)).count();
            let len = match &bytes[at..] {
                _ if word > 0 => word,
                [b':', b':', ..] => 2,
                _ => 1,
            };
            let text = &line[at..at + len];
            if !text.trim().is_empty() {
                tokens.push(Token { line: index + 1, text: text.to_owned() });
            }
            at += len;
        }
    }
    tokens
}

fn starts_path(text: &str) -> bool {
    text.as_bytes().first().is_some_and(|&b| is_word(b) && !b.is_ascii_digit())
}

/// A path in an expression or a type; returns the index behind it.
fn inline(tokens: &[Token], start: usize, found: &mut Vec<Path>) -> usize {
    let mut segments = vec![tokens[start].text.clone()];
    let mut at = start + 1;
    while let Some([colons, name]) = tokens.get(at..at + 2) {
        if colons.text != "::" || !starts_path(&name.text) {
            break;
        }
        segments.push(name.text.clone());
        at += 2;
    }
    if segments.len() > 1 {
        found.push(Path { line: tokens[start].line, segments, in_test: false });
    }
    at
}

/// The tree of a `use`; returns the index behind it.
fn tree(tokens: &[Token], start: usize, prefix: &[String], found: &mut Vec<Path>) -> usize {
    let mut segments = prefix.to_vec();
    let mut at = start;
    let line = tokens.get(start).map_or(0, |token| token.line);
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            "::" => at += 1,
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token.text != "}") {
                    at = tree(tokens, at, &segments, found);
                    at += usize::from(tokens.get(at).is_some_and(|token| token.text == ","));
                }
                return at + 1;
            }
            "as" => at += 2,
            text if starts_path(text) || text == "*" => {
                segments.push(text.to_owned());
                at += 1;
            }
            _ => break,
        }
    }
    found.push(Path { line, segments, in_test: false });
    at
}

/// Ranges of tokens that belong to an item behind `#[cfg(test)]` or `#[cfg(any(test, …))]`.
fn test_items(tokens: &[Token]) -> Vec<Range<usize>> {
    let begins = |at: usize, expected: &[&str]| {
        tokens[at..]
            .iter()
            .map(|token| token.text.as_str())
            .take(expected.len())
            .eq(expected.iter().copied())
    };
    (0..tokens.len())
        .filter(|&at| {
            begins(at, &["#", "[", "cfg", "(", "test"])
                || begins(at, &["#", "[", "cfg", "(", "any", "(", "test"])
        })
        .map(|at| at..item_end(tokens, at))
        .collect()
}

/// The index behind the item that begins at `at`: its `;`, or the brace that closes its first one.
fn item_end(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0;
    for (offset, token) in tokens[at..].iter().enumerate() {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" if depth == 1 => return at + offset + 1,
            "}" => depth -= 1,
            ";" if depth == 0 => return at + offset + 1,
            _ => {}
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(source: &str) -> Vec<String> {
        Code::read(source)
            .paths()
            .into_iter()
            .map(|path| format!("{}:{}", path.line, path.segments.join("::")))
            .collect()
    }

    #[test]
    fn comments_and_literals_vanish_and_lines_stay() {
        let table = [
            ("a // crate::b\nc", "a            \nc"),
            ("a /* x /* y */ \n z */ b", "a              \n      b"),
            (r#"f("crate::b", 'x', '\'', b"q")"#, "f(          ,    ,     ,     )"),
            ("r#\"a\"b\"# c", "         c"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("'é' 'a", "     'a"),
            ("number\"x\"", "number   "),
        ];
        for (source, expected) in table {
            assert_eq!(blank_comments_and_literals(source), expected, "{source}");
        }
    }

    #[test]
    fn paths_are_found_in_uses_groups_and_expressions() {
        let table: [(&str, &[&str]); 6] = [
            ("use crate::a::B;", &["1:crate::a::B"]),
            (
                "pub(crate) use crate::{a::{B, C as D}, e,\n f::*};",
                &["1:crate::a::B", "1:crate::a::C", "1:crate::e", "2:crate::f::*"],
            ),
            ("let x =\n crate::a::f(std::fs::read(y));", &["2:crate::a::f", "2:std::fs::read"]),
            ("fn f(x: &crate::a::T) -> mio::Token {}", &["1:crate::a::T", "1:mio::Token"]),
            ("use mio;", &["1:mio"]),
            ("// crate::a::f\nlet x = \"crate::b\";", &[]),
        ];
        for (source, expected) in table {
            assert_eq!(spelled(source), expected, "{source}");
        }
    }

    #[test]
    fn test_items_are_told_from_the_rest() {
        let source =
            "fn a() { b::c(); }\n#[cfg(test)]\nmod tests {\n d::e();\n }\nfn f() { g::h(); }";
        let found: Vec<_> = Code::read(source)
            .paths()
            .iter()
            .map(|path| (path.segments[0].clone(), path.in_test))
            .collect();
        let expected = [("b", false), ("d", true), ("g", false)];
        assert_eq!(found, expected.map(|(name, in_test)| (name.to_owned(), in_test)));
    }

    #[test]
    fn words_are_found_whole_and_outside_tests() {
        let table: [(&str, &[usize]); 4] = [
            ("a!(b)\nb!(c)\nxb!()", &[2]),
            ("b!()\n#[cfg(test)]\nfn f() {\nb!()\n}\nb!()", &[1, 6]),
            ("#[cfg(any(test, x))]\nmod m { b!() }", &[]),
            ("// b!()\n\"b!()\"", &[]),
        ];
        for (source, expected) in table {
            assert_eq!(Code::read(source).lines_with("b!"), expected, "{source}");
        }
    }
}
