//! Ruby's `File.fnmatch` without flags, over whole characters (contract, `set_policy`).
//!
//! Case-sensitive; `*` and `?` match `/` too; a leading `.` is matched only by a `.` that stands in
//! the pattern; `[set]`, `[^set]`, `[!set]` and ranges; a backslash takes the next character as it
//! is; no braces. Odd forms are Ruby's as well: a bracket that is not closed matches nothing, `[]`
//! matches nothing, `[!]` matches any one character, a backslash at the very end is itself.
//!
//! Invariant: time is at most the product of both lengths. When something fails, only the last `*`
//! takes one more character: an earlier one could not do better, since all the pattern between the
//! two has already been matched as early as possible.

/// Whether the whole of `name` matches `pattern`.
pub fn fnmatch(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && unescape(pattern).0 != Some('.') {
        return false;
    }
    let (mut pattern, mut name) = (pattern, name);
    let mut last_star: Option<(&str, &str)> = None;
    loop {
        if let Some(behind) = pattern.strip_prefix('*') {
            pattern = behind.trim_start_matches('*');
            if pattern.is_empty() {
                return true;
            }
            last_star = Some((pattern, name));
            continue;
        }
        let mut rest = name.chars();
        let matched = match (rest.next(), pattern.is_empty()) {
            (None, at_end) => return at_end,
            (Some(_), true) => None,
            (Some(c), false) => one(pattern, c),
        };
        match (matched, last_star) {
            (Some(behind), _) => (pattern, name) = (behind, rest.as_str()),
            (None, None) => return false,
            (None, Some((behind_star, from))) => {
                // `from` is not empty: it is no shorter than `name`, which holds a character.
                let mut from = from.chars();
                from.next();
                (pattern, name) = (behind_star, from.as_str());
                last_star = Some((pattern, name));
            }
        }
    }
}

/// Matches one character against the first element of a pattern that is neither empty nor a `*`;
/// gives the pattern behind that element.
fn one(pattern: &str, c: char) -> Option<&str> {
    if let Some(behind) = pattern.strip_prefix('?') {
        return Some(behind);
    }
    if let Some(set) = pattern.strip_prefix('[') {
        return bracket(set, c);
    }
    let (literal, behind) = unescape(pattern);
    (literal == Some(c)).then_some(behind)
}

/// Matches one character against a set, given from behind its `[`; gives the pattern behind its
/// `]`. None as well when the set is not closed.
fn bracket(set: &str, c: char) -> Option<&str> {
    let inside = set.strip_prefix(['!', '^']);
    let (negated, mut rest) = (inside.is_some(), inside.unwrap_or(set));
    let mut found = false;
    loop {
        if let Some(behind) = rest.strip_prefix(']') {
            return (found != negated).then_some(behind);
        }
        let (low, behind) = member(rest)?;
        match behind.strip_prefix('-') {
            Some(range) if !range.starts_with(']') => {
                let (high, behind) = member(range)?;
                found |= c == low || c == high || (low <= c && c <= high);
                rest = behind;
            }
            _ => {
                found |= c == low;
                rest = behind;
            }
        }
    }
}

/// A character of a set, a backslash before it removed; none when the pattern is over.
fn member(set: &str) -> Option<(char, &str)> {
    let mut chars = set.strip_prefix('\\').unwrap_or(set).chars();
    let c = chars.next()?;
    Some((c, chars.as_str()))
}

/// The first character of a pattern, a backslash before it removed, and what stands behind it.
fn unescape(pattern: &str) -> (Option<char>, &str) {
    let escaped = pattern.strip_prefix('\\').filter(|behind| !behind.is_empty());
    let mut chars = escaped.unwrap_or(pattern).chars();
    let c = chars.next();
    (c, chars.as_str())
}

/// The body of the fuzz target for patterns.
#[cfg(any(test, fuzzing))]
pub mod fuzz {
    use super::fnmatch;

    /// Takes the bytes before the first zero as the pattern, those after it as the name, and holds
    /// the matcher to a naive one that tries everything.
    pub fn against_a_naive_matcher(bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let (pattern, name) = text.split_once('\0').unwrap_or((&text, ""));
        // The naive matcher is exponential in the number of stars.
        if pattern.matches('*').count() <= 4 && name.len() <= 64 {
            assert_eq!(fnmatch(pattern, name), naive(pattern, name), "{pattern:?} {name:?}");
        }
    }

    enum Element {
        Star,
        Any,
        One(char),
        Set { negated: bool, ranges: Vec<(char, char)> },
        Never,
    }

    fn naive(pattern: &str, name: &str) -> bool {
        let dotted = pattern.starts_with('.') || pattern.starts_with("\\.");
        if name.starts_with('.') && !dotted {
            return false;
        }
        let name: Vec<char> = name.chars().collect();
        matches(&elements(pattern), &name)
    }

    fn matches(pattern: &[Element], name: &[char]) -> bool {
        let Some((element, behind)) = pattern.split_first() else { return name.is_empty() };
        if let Element::Star = element {
            return (0..=name.len()).any(|taken| matches(behind, &name[taken..]));
        }
        let Some((&c, rest)) = name.split_first() else { return false };
        let fits = match element {
            Element::Star | Element::Any => true,
            Element::One(one) => *one == c,
            Element::Set { negated, ranges } => {
                ranges.iter().any(|&(low, high)| c == high || (low..=high).contains(&c) || c == low)
                    != *negated
            }
            Element::Never => false,
        };
        fits && matches(behind, rest)
    }

    fn elements(pattern: &str) -> Vec<Element> {
        let chars: Vec<char> = pattern.chars().collect();
        let (mut elements, mut at) = (Vec::new(), 0);
        while at < chars.len() {
            let (element, next) = match chars[at] {
                '*' => (Element::Star, at + 1),
                '?' => (Element::Any, at + 1),
                '[' => set(&chars, at + 1).unwrap_or((Element::Never, chars.len())),
                '\\' if at + 1 < chars.len() => (Element::One(chars[at + 1]), at + 2),
                c => (Element::One(c), at + 1),
            };
            elements.push(element);
            at = next;
        }
        elements
    }

    fn set(chars: &[char], mut at: usize) -> Option<(Element, usize)> {
        let negated = matches!(chars.get(at), Some('!' | '^'));
        at += usize::from(negated);
        let mut ranges = Vec::new();
        while *chars.get(at)? != ']' {
            at += usize::from(chars[at] == '\\');
            let low = *chars.get(at)?;
            let mut high = low;
            if chars.get(at + 1) == Some(&'-') && *chars.get(at + 2)? != ']' {
                at += 2;
                at += usize::from(chars[at] == '\\');
                high = *chars.get(at)?;
            }
            ranges.push((low, high));
            at += 1;
        }
        Some((Element::Set { negated, ranges }, at + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_rubys_fnmatch() {
        // The first part is the table of Ruby's own documentation.
        let rows = [
            ("cat", "cat", true),
            ("cat", "category", false),
            ("c{at,ub}s", "cats", false),
            ("c{at,ub}s", "c{at,ub}s", true),
            ("c?t", "cat", true),
            ("c??t", "cat", false),
            ("c*", "cats", true),
            ("c*t", "c/a/b/t", true),
            ("ca[a-z]", "cat", true),
            ("ca[^t]", "cat", false),
            ("cat", "CAT", false),
            ("?", "/", true),
            ("*", "/", true),
            ("[/]", "/", true),
            ("\\?", "?", true),
            ("\\a", "a", true),
            ("[\\?]", "?", true),
            ("*", ".profile", false),
            (".*", ".profile", true),
            ("**/*.rb", "main.rb", false),
            ("**/*.rb", "./main.rb", false),
            ("**/*.rb", "lib/song.rb", true),
            ("**.rb", "main.rb", true),
            ("**.rb", "./main.rb", false),
            ("**.rb", "lib/song.rb", true),
            ("*", "dave/.profile", true),
            ("*/*", "dave/.profile", true),
            // The rest follows from its source.
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("**", "", true),
            ("?", "", false),
            ("a*", "a", true),
            ("*a", "ba", true),
            ("*a", "ab", false),
            ("?", ".", false),
            ("[.]", ".", false),
            ("\\.x", ".x", true),
            ("a.?", "a..", true),
            ("[!a]", "b", true),
            ("[^a]", "a", false),
            ("[!]", "x", true),
            ("[]", "x", false),
            ("[]", "[]", false),
            ("[a", "[a", false),
            ("[a", "a", false),
            ("[a-]", "-", true),
            ("[-a]", "-", true),
            ("[a-c]", "b", true),
            ("[c-a]", "b", false),
            ("[c-a]", "a", true),
            ("[\\]]", "]", true),
            ("[a\\-c]", "b", false),
            ("[a\\-c]", "-", true),
            ("[a-\\c]", "b", true),
            ("[a-", "a", false),
            ("[\\", "a", false),
            ("a\\", "a\\", true),
            ("a\\", "a", false),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("\\\\", "\\", true),
            ("*\\", "x\\", true),
            ("*[ab]c", "xaabac", true),
            ("*ab*ab", "abxab", true),
            ("*ab*ab", "aab", false),
            ("ä?", "äö", true),
            ("[α-ω]*", "λx", true),
            ("[α-ω]", "a", false),
        ];
        for (pattern, name, expected) in rows {
            assert_eq!(fnmatch(pattern, name), expected, "{pattern:?} {name:?}");
            fuzz::against_a_naive_matcher(format!("{pattern}\0{name}").as_bytes());
        }
    }

    #[test]
    fn it_agrees_with_a_naive_matcher_on_every_short_pattern() {
        let symbols = ['*', '?', '[', ']', '-', '!', '\\', '.', 'a', 'b'];
        let words = |length: u32| {
            (0..symbols.len().pow(length)).map(move |number| {
                (0..length).map(|place| symbols[number / 10_usize.pow(place) % 10]).collect()
            })
        };
        let names: Vec<String> =
            ["", "a", "b", ".", "-", "ab", "ba", ".a", "a]", "[a", "a-b", "aab"]
                .map(str::to_owned)
                .into();
        for pattern in (0..=4).flat_map(words) {
            let pattern: String = pattern;
            for name in &names {
                fuzz::against_a_naive_matcher(format!("{pattern}\0{name}").as_bytes());
            }
        }
        for tail in ["*a-b]*", "[!a-b]-", "[a-b-!]", "[^\\]a]*b"] {
            for head in (0..=2).flat_map(words) {
                let head: String = head;
                for name in &names {
                    fuzz::against_a_naive_matcher(format!("{head}{tail}\0{name}").as_bytes());
                }
            }
        }
    }

    #[test]
    fn many_stars_take_no_more_steps_than_the_product_of_the_lengths() {
        // Trying every split would take longer than the universe will last.
        let pattern = format!("{}b", "*a".repeat(127));
        let name = "a".repeat(1024);
        assert!(!fnmatch(&pattern, &name));
        assert!(fnmatch(&pattern, &format!("{name}b")));
    }
}
