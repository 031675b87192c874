//! When a failed attempt is made again, and after which wait (cases-providers.md, 21 and 22).
//!
//! One table, [`again`]; the README shows it, and a test holds the two together in every row. No clock: a date in
//! `Retry-After` is read against the `Date` of the same answer and means nothing without one.

use crate::limits::{RETRY_AFTER_MS_MAX, RETRY_FIRST_MS, RETRY_LAST_MS};
use crate::proto::time::Wall;

/// How an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// No connection came about, in time or at all.
    NoConnection,
    /// The connection was lost before the answer said anything.
    Lost,
    /// The answer was a success without content: neither text nor a call nor a finish reason.
    Empty,
    /// The answer was an error.
    Status {
        /// The HTTP status.
        code: u16,
        /// What `x-should-retry` said, if it was there.
        told: Option<bool>,
        /// The text names a quota that is spent, not a rate that is exceeded.
        quota_spent: bool,
    },
    /// Anything else: a peer that is not trusted, an error inside a successful answer, a bound, a
    /// time-out after connecting.
    Final,
}

/// Whether the attempt is to be made again: the README's table, row by row.
pub(super) fn again(trouble: Trouble, delta_seen: bool, attempts_left: u32) -> bool {
    if delta_seen || attempts_left == 0 {
        return false;
    }
    match trouble {
        Trouble::NoConnection | Trouble::Lost | Trouble::Empty => true,
        Trouble::Status { told: Some(told), .. } => told,
        Trouble::Status { code: 429, quota_spent, .. } => !quota_spent,
        Trouble::Status { code, .. } => code == 408 || (500..600).contains(&code),
        Trouble::Final => false,
    }
}

/// Milliseconds before the attempt after attempt number `attempt` (counted from 1): what the server
/// asked for, within bounds; otherwise half a second, doubled each time, a quarter more or less.
pub(super) fn wait_ms(attempt: u32, asked_ms: Option<u64>, seed: u64) -> u64 {
    if let Some(ms) = asked_ms {
        return ms.min(RETRY_AFTER_MS_MAX);
    }
    let doubled = RETRY_FIRST_MS.saturating_mul(1 << (attempt - 1).min(16)).min(RETRY_LAST_MS);
    doubled - doubled / 4 + mix(seed, u64::from(attempt)) % (doubled / 2 + 1)
}

/// The wait a refusal asks for in milliseconds: `retry-after-ms`, or `Retry-After` in seconds or as
/// a date (RFC 9110, section 10.2.3). What cannot be read asks for nothing.
pub(super) fn asked_ms<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Option<u64> {
    if let Some(ms) = header("retry-after-ms").and_then(|text| whole(text, 1.0)) {
        return Some(ms);
    }
    let after = header("retry-after")?;
    whole(after, 1000.0).or_else(|| {
        let (then, now) = (http_date(after)?, http_date(header("date")?)?);
        Some(then.0.saturating_sub(now.0).max(0).unsigned_abs() / 1000)
    })
}

/// What `x-should-retry` says.
pub(super) fn told<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Option<bool> {
    match header("x-should-retry")?.trim() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// A well-mixed number out of a seed and a counter (the finalizer of `SplitMix64`).
pub(super) fn mix(seed: u64, counter: u64) -> u64 {
    let mut z = seed.wrapping_add(counter.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number that is not negative, times `unit`, as whole milliseconds. Some servers send fractions.
#[expect(clippy::cast_sign_loss, reason = "only numbers that are not negative get there")]
fn whole(text: &str, unit: f64) -> Option<u64> {
    let number: f64 = text.trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then(|| (number * unit).round() as u64)
}

/// A date in the form every sender must use, `Sun, 06 Nov 1994 08:49:37 GMT`; the two obsolete
/// forms say nothing to us.
fn http_date(text: &str) -> Option<Wall> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let (_, date) = text.trim().split_once(", ")?;
    let mut words = date.split(' ');
    let (day, month, year, time) = (words.next()?, words.next()?, words.next()?, words.next()?);
    if words.next() != Some("GMT") || words.next().is_some() || month.len() != 3 {
        return None;
    }
    let month = MONTHS.find(month).filter(|at| at % 3 == 0)? / 3 + 1;
    Wall::parse(format!("{year}-{month:02}-{day}T{time}.000000Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The README's rows, and every trouble that each of them speaks of.
    fn rows() -> [(&'static str, &'static str, Vec<Trouble>); 9] {
        let statuses = |codes: &[u16], told, quota_spent| -> Vec<Trouble> {
            codes.iter().map(|&code| Trouble::Status { code, told, quota_spent }).collect()
        };
        let with_and_without_quota = |codes: &[u16], told| {
            [statuses(codes, told, false), statuses(codes, told, true)].concat()
        };
        let all: Vec<u16> = (100..200).chain(300..1000).collect();
        let may_pass: Vec<u16> = [408].into_iter().chain(500..600).collect();
        let stays = |code: &u16| *code != 429 && !may_pass.contains(code);
        let lasting: Vec<u16> = all.iter().copied().filter(stays).collect();
        let rate = statuses(&[429], None, false);
        let may_pass = [with_and_without_quota(&may_pass, None), rate].concat();
        [
            ("a certificate that is not accepted", "no", vec![Trouble::Final]),
            (
                "no connection, connection lost, empty answer",
                "yes",
                vec![Trouble::NoConnection, Trouble::Lost, Trouble::Empty],
            ),
            (
                "an error that says that the history is too long",
                "with half of it, once",
                vec![Trouble::Final],
            ),
            (
                "any status with `x-should-retry: true`",
                "yes",
                with_and_without_quota(&all, Some(true)),
            ),
            (
                "any status with `x-should-retry: false`",
                "no",
                with_and_without_quota(&all, Some(false)),
            ),
            ("429 that names a spent quota", "no", statuses(&[429], None, true)),
            ("408, 429, 500 to 599", "yes", may_pass),
            ("any other status", "no", with_and_without_quota(&lasting, None)),
            (
                "an error inside the answer, a bound, a time-out after connecting",
                "no",
                vec![Trouble::Final],
            ),
        ]
    }

    #[test]
    fn the_table_of_retries_is_the_readmes() {
        let readme = include_str!("../../README.md");
        let shown: Vec<String> =
            rows().iter().map(|(what, again, _)| format!("| {what} | {again} |\n")).collect();
        assert!(readme.contains(&shown.concat()), "the README lacks\n{}", shown.concat());
        for (what, expected, troubles) in rows() {
            for trouble in troubles {
                for attempts_left in [0, 1, 3] {
                    for delta_seen in [false, true] {
                        let expected = expected == "yes" && attempts_left > 0 && !delta_seen;
                        assert_eq!(
                            again(trouble, delta_seen, attempts_left),
                            expected,
                            "{what}: {trouble:?}, {attempts_left} left, delta seen: {delta_seen}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn waits_double_from_half_a_second_with_jitter() {
        for (attempt, middle) in [(1, 500), (2, 1000), (3, 2000), (4, 4000)] {
            let waits: Vec<u64> = (0..200).map(|seed| wait_ms(attempt, None, seed)).collect();
            let (least, most) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
            assert!(*least >= middle * 3 / 4 && *most <= middle * 5 / 4, "{least} to {most}");
            assert!(least < most, "every seed waits alike");
        }
        assert!(wait_ms(u32::MAX, None, 7) <= RETRY_LAST_MS * 5 / 4);
    }

    #[test]
    fn a_server_that_names_a_wait_is_obeyed_within_bounds() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        for (headers, expected) in [
            (&[][..], None),
            (&[("retry-after", "7")], Some(7_000)),
            (&[("retry-after", "0")], Some(0)),
            (&[("retry-after", " 1.5 ")], Some(1_500)),
            (&[("retry-after", "-1")], None),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "NaN")], None),
            (&[("retry-after", "inf")], None),
            (&[("retry-after-ms", "250")], Some(250)),
            (&[("retry-after-ms", "250"), ("retry-after", "9")], Some(250)),
            (&[("retry-after-ms", "?"), ("retry-after", "9")], Some(9_000)),
            (&[("retry-after", "Sun, 06 Nov 1994 08:49:42 GMT"), ("date", date)], Some(5_000)),
            (&[("retry-after", "Mon, 07 Nov 1994 00:00:00 GMT"), ("date", date)], Some(54_623_000)),
            (&[("retry-after", "Sun, 06 Nov 1994 08:49:30 GMT"), ("date", date)], Some(0)),
            // Our own clock may be anywhere: without the server's date there is no wait to tell.
            (&[("retry-after", "Sun, 06 Nov 1994 08:49:42 GMT")], None),
            (&[("retry-after", "Sun, 06 Foo 1994 08:49:42 GMT"), ("date", date)], None),
            (&[("retry-after", "Sun, 06 anF 1994 08:49:42 GMT"), ("date", date)], None),
        ] {
            let header = |name: &str| {
                headers.iter().find(|(found, _)| *found == name).map(|(_, value)| *value)
            };
            assert_eq!(asked_ms(header), expected, "{headers:?}");
        }
        assert_eq!(wait_ms(1, Some(1_500), 0), 1_500);
        assert_eq!(wait_ms(1, Some(54_623_000), 0), RETRY_AFTER_MS_MAX);
        assert_eq!(wait_ms(1, Some(u64::MAX), 0), RETRY_AFTER_MS_MAX);
    }

    #[test]
    fn only_true_and_false_tell_whether_to_retry() {
        for (value, expected) in
            [("true", Some(true)), ("false", Some(false)), ("maybe", None), ("", None)]
        {
            assert_eq!(told(|_| Some(value)), expected, "{value}");
        }
        assert_eq!(told(|_| None), None);
    }
}
