//! A JSON document as nodes that know their path and their line.
//!
//! A configuration deserves all of its problems at once, each with its place. A `proto::json` value is
//! a slice of the document, and where that slice begins is its position. Knows no key of the
//! configuration.
//!
//! Invariant: `Node::value` is a slice of `Source::text`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::problem::Problem;
use crate::proto::json::{self, Document, Kind, Value};

/// A document being read, and the problems found in it so far.
pub(super) struct Source<'a> {
    text: &'a str,
    // One sink for all nodes: every reader of a value may find a problem and goes on after it.
    problems: RefCell<Vec<Problem>>,
}

impl<'a> Source<'a> {
    pub(super) fn new(text: &'a str) -> Source<'a> {
        Source { text, problems: RefCell::new(Vec::new()) }
    }

    /// The whole document, or nothing when it is not JSON at all.
    ///
    /// Half of a surrogate pair passes here, because scripted arguments may hold one; `Node::string`
    /// and `Node::checked_json` refuse it.
    pub(super) fn root(&self) -> Option<Node<'_>> {
        match Document::parse_lossy(self.text.as_bytes()) {
            Ok(document) => {
                Some(Node { source: self, value: document.value(), path: String::new() })
            }
            Err(fault) => {
                let line_start = self.text[..fault.at].rfind('\n').map_or(0, |at| at + 1);
                let column = self.text[line_start..fault.at].chars().count() + 1;
                let message = format!("not JSON at column {column}: {}", fault.what);
                self.add(fault.at, String::new(), message);
                None
            }
        }
    }

    /// Every problem found, in the order of the document's lines.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| problem.line);
        problems
    }

    fn add(&self, at: usize, path: String, message: String) {
        let lines_before = self.text[..at].matches('\n').count();
        let line = u32::try_from(lines_before + 1).unwrap_or(u32::MAX);
        self.problems.borrow_mut().push(Problem { path, line, message });
    }
}

/// One value of the document.
#[derive(Clone)]
pub(super) struct Node<'a> {
    source: &'a Source<'a>,
    value: Value<'a>,
    path: String,
}

impl<'a> Node<'a> {
    /// The value's text, as it stands in the document.
    pub(super) fn raw(&self) -> &'a str {
        self.value.raw()
    }

    pub(super) fn kind(&self) -> Kind {
        self.value.kind()
    }

    pub(super) fn problem(&self, message: impl Into<String>) {
        let at = self.raw().as_ptr().addr() - self.source.text.as_ptr().addr();
        self.source.add(at, self.path.clone(), message.into());
    }

    pub(super) fn string(&self) -> Option<String> {
        self.string_as("a string")
    }

    /// A string that `parse` takes; `expected` says in words what that is.
    pub(super) fn parsed<T>(
        &self,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let value = parse(&self.string_as(expected)?);
        if value.is_none() {
            self.problem(format!("expected {expected}"));
        }
        value
    }

    /// One of a few words, each standing for a value.
    pub(super) fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let quoted: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        self.parsed(&quoted.join(" or "), |text| {
            words.iter().find(|(word, _)| *word == text).map(|&(_, value)| value)
        })
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        let value = self.value.as_bool();
        if value.is_none() {
            self.problem("expected true or false");
        }
        value
    }

    /// A whole number without fraction or exponent.
    pub(super) fn whole<T>(&self, range: RangeInclusive<T>) -> Option<T>
    where
        T: FromStr + PartialOrd + Display,
    {
        let value = self.raw().parse().ok().filter(|value| range.contains(value));
        if value.is_none() {
            let (least, most) = (range.start(), range.end());
            self.problem(format!("expected a whole number from {least} to {most}"));
        }
        value
    }

    /// A number that is not negative.
    pub(super) fn amount(&self) -> Option<f64> {
        let value =
            self.raw().parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
        if value.is_none() {
            self.problem("expected a number that is not negative");
        }
        value
    }

    /// The value's text, once every escape in it is found to be Unicode.
    pub(super) fn checked_json(&self) -> Option<Box<str>> {
        match json::check(self.raw().as_bytes()) {
            Ok(()) => Some(self.raw().into()),
            Err(fault) => {
                self.problem(fault.what.to_string());
                None
            }
        }
    }

    pub(super) fn items(&self) -> Option<Vec<Node<'a>>> {
        let Some(elements) = self.value.elements() else {
            self.problem("expected an array");
            return None;
        };
        let item = |(index, value)| self.inner(value, format!("{}[{index}]", self.path));
        Some(elements.enumerate().map(item).collect())
    }

    /// The items of an array, each as `read` takes it; one bad item spoils none of the others.
    pub(super) fn list<T>(&self, read: impl Fn(&Node<'a>) -> Option<T>) -> Option<Vec<T>> {
        let items = self.items()?;
        Some(items.iter().filter_map(read).collect())
    }

    /// The keys and values of an object, in their order.
    pub(super) fn entries(&self) -> Option<Vec<(String, Node<'a>)>> {
        let Some(members) = self.value.members() else {
            self.problem("expected an object");
            return None;
        };
        let mut seen = BTreeSet::new();
        let mut entries = Vec::new();
        for (key, value) in members {
            let key = key.to_str().into_owned();
            let node = self.inner(value, join(&self.path, &key));
            if seen.insert(key.clone()) {
                entries.push((key, node));
            } else {
                node.problem("this key is here twice");
            }
        }
        Some(entries)
    }

    /// The entries of an object whose keys are a closed set.
    pub(super) fn fields(&self) -> Option<Fields<'a>> {
        Some(Fields { node: self.clone(), left: self.entries()?, known: Vec::new() })
    }

    fn string_as(&self, expected: &str) -> Option<String> {
        let Some(text) = self.value.as_str() else {
            self.problem(format!("expected {expected}"));
            return None;
        };
        self.checked_json().map(|_| text.into_owned())
    }

    fn inner(&self, value: Value<'a>, path: String) -> Node<'a> {
        Node { source: self.source, value, path }
    }
}

/// The fields of one object. Each is asked for by name; what nobody asked for is unknown.
pub(super) struct Fields<'a> {
    node: Node<'a>,
    left: Vec<(String, Node<'a>)>,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    pub(super) fn node(&self) -> &Node<'a> {
        &self.node
    }

    pub(super) fn optional(&mut self, key: &'static str) -> Option<Node<'a>> {
        self.known.push(key);
        let index = self.left.iter().position(|(name, _)| name == key)?;
        Some(self.left.remove(index).1)
    }

    /// As `optional`, for a key whose `null` says the same as its absence.
    pub(super) fn nullable(&mut self, key: &'static str) -> Option<Node<'a>> {
        self.optional(key).filter(|node| node.kind() != Kind::Null)
    }

    pub(super) fn required(&mut self, key: &'static str) -> Option<Node<'a>> {
        let node = self.optional(key);
        if node.is_none() {
            self.node.problem(format!("`{key}` is missing"));
        }
        node
    }

    /// Puts the value of `key` into `slot`, which keeps its default when the key is absent or bad.
    pub(super) fn set<T>(
        &mut self,
        key: &'static str,
        slot: &mut T,
        read: impl FnOnce(&Node<'a>) -> Option<T>,
    ) {
        if let Some(value) = self.optional(key).as_ref().and_then(read) {
            *slot = value;
        }
    }

    /// As `set`, for a key that may be `null`.
    pub(super) fn set_nullable<T>(
        &mut self,
        key: &'static str,
        slot: &mut Option<T>,
        read: impl FnOnce(&Node<'a>) -> Option<T>,
    ) {
        if let Some(value) = self.nullable(key).as_ref().and_then(read) {
            *slot = Some(value);
        }
    }

    /// Names every key that nobody asked for.
    pub(super) fn finish(self) {
        for (key, node) in &self.left {
            match self.known.iter().find(|known| is_near(key, known)) {
                Some(known) => node.problem(format!("unknown key; is `{known}` meant?")),
                None => node.problem("unknown key"),
            }
        }
    }
}

fn join(path: &str, key: &str) -> String {
    let plain =
        !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    match (path.is_empty(), plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{key:?}]"),
    }
}

/// Whether one name is the other with at most two slips of the pen.
fn is_near(a: &str, b: &str) -> bool {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()] <= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_knows_the_line_and_the_path_of_its_value() {
        let text = "{\n \"a\": {\"b c\": [1,\n  2]},\n \"d\":\n  true}";
        let source = Source::new(text);
        let root = source.root().expect("it is JSON");
        let entries = root.entries().expect("it is an object");
        let inner = entries[0].1.entries().expect("it is an object");
        inner[0].1.items().expect("it is an array")[1].problem("x");
        entries[1].1.problem("y");
        let shown: Vec<String> = source.into_problems().iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["3: a[\"b c\"][1]: x", "5: d: y"]);
    }

    #[test]
    fn names_a_slip_apart_are_near() {
        for (a, b, near) in [
            ("listen", "listen", true),
            ("lisen", "listen", true),
            ("base-url", "base_url", true),
            ("queue_limits", "queue_limit", true),
            ("tokens", "tools", false),
            ("policy", "providers", false),
            ("", "log", false),
        ] {
            assert_eq!(is_near(a, b), near, "{a} {b}");
        }
    }
}
