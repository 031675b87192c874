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
