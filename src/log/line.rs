//! One line of a segment: the wire envelope, sealed.
//!
//! A sealed line is a JSON object whose last two keys are `ack` and `crc`, of constant length; LF
//! ends it and is not part of it. Three kinds of line stand in a segment (design/log-format): the
//! header, events, and attest lines, which hold nothing but the seal. Nothing here knows where in a
//! file a line stands or whether it belongs there.
//!
//! Invariant: a line that [`unseal`] accepts is, but for a collision of CRC-32C, what [`seal`] wrote.

use std::io::BufRead as _;

use super::crc::{crc32c, crc32c_to_lf};
use crate::limits::EVENT_BYTES_MAX;
use crate::proto::ident::{EventId, SessionId};
use crate::proto::swar::{hex8, last_line_len, parse_hex8, printable_len};
use crate::proto::time::Wall;

/// Bytes of the seal: `,"ack":"............","crc":"........"}`. An attest line is as long, since
/// its `{` stands in place of the comma.
pub const SUFFIX_LEN: usize = 39;

/// The length of what a client gets of a line: the envelope without the seal, and its closing brace.
pub const fn wire_len(line_without_lf: &[u8]) -> usize {
    line_without_lf.len() - SUFFIX_LEN + 1
}

/// Turns the JSON object that stands in `out` from `start` on into a sealed line, LF included.
///
/// `ack` is how many events of the session were on stable storage when the line was written, 0 if
/// nobody waits for that.
///
/// # Panics
///
/// If what stands there is not an object, holds a byte below 0x20, or makes a line of more than
/// [`EVENT_BYTES_MAX`] bytes; or if `ack` does not fit its 12 digits.
pub fn seal(out: &mut Vec<u8>, start: usize, ack: u64) {
    assert_eq!((out[start], out.pop()), (b'{', Some(b'}')), "only an object can be sealed");
    let printable = printable_len(&out[start..]);
    assert_eq!(printable, out.len() - start, "a line of the log holds a control character");
    assert!(ack < 1 << (4 * ACK_DIGITS), "no session has that many events");
    if out.len() > start + 1 {
        out.push(b',');
    }
    out.extend_from_slice(ACK_KEY);
    out.extend_from_slice(&hex8((ack >> 32) as u32)[16 - ACK_DIGITS..]);
    out.extend_from_slice(&hex8(ack as u32));
    out.push(b'"');
    let crc = crc32c(&out[start..]);
    out.extend_from_slice(CRC_KEY);
    out.extend_from_slice(&hex8(crc));
    out.extend_from_slice(b"\"}");
    assert!(out.len() - start <= EVENT_BYTES_MAX, "a line is longer than any event may be");
    out.push(b'\n');
}

/// Appends an attest line: it says that `ack` events are on stable storage, and nothing else.
pub fn write_attest(out: &mut Vec<u8>, ack: u64) {
    let start = out.len();
    out.extend_from_slice(b"{}");
    seal(out, start, ack);
}

/// A line whose seal holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed<'a> {
    /// What was sealed, without its closing brace; empty in an attest line.
    pub body: &'a [u8],
    /// How many events of the session were on stable storage when the line was written.
    pub ack: u64,
    /// The digits of the line's own checksum.
    pub crc: Crc,
}

/// A checksum as it stands in a line: 8 lower-case hex digits. It is compared as text, never as a
/// number: a flipped case bit is damage too.
pub type Crc = [u8; CRC_DIGITS];

/// Checks the seal of a line, given without its LF.
pub fn unseal(line: &[u8]) -> Option<Sealed<'_>> {
    unseal_if(line, crc32c)
}

/// The first of some lines, without its LF, and what its seal holds, if it does: what [`find_lf`] and
/// [`unseal`] say, for less.
pub fn first(lines: &[u8]) -> Option<(&[u8], Option<Sealed<'_>>)> {
    Some(match crc32c_to_lf(lines, CRC_PART_LEN) {
        Some((lf, crc)) => (&lines[..lf], unseal_if(&lines[..lf], |_| crc)),
        None => {
            let line = &lines[..find_lf(lines)?];
            (line, unseal(line))
        }
    })
}

/// Checks a seal; `sum` is asked for the checksum of what it covers.
#[inline]
fn unseal_if(line: &[u8], sum: impl FnOnce(&[u8]) -> u32) -> Option<Sealed<'_>> {
    let (covered, end) = line.split_at_checked(line.len().checked_sub(CRC_PART_LEN)?)?;
    let crc: Crc = end.strip_prefix(CRC_KEY)?.strip_suffix(b"\"}")?.try_into().ok()?;
    if crc != hex8(sum(covered)) {
        return None;
    }
    let (body, end) = covered.split_at_checked(covered.len().checked_sub(ACK_PART_LEN)?)?;
    let digits = end.strip_suffix(b"\"")?;
    let digits =
        if body.is_empty() { digits.strip_prefix(b"{") } else { digits.strip_prefix(b",") };
    let ack = parse_ack(digits?.strip_prefix(ACK_KEY)?.try_into().ok()?)?;
    Some(Sealed { body, ack, crc })
}

/// The digits of the checksum that ends the last of these lines, LF included; nothing is computed.
pub fn crc_of_last(lines: &[u8]) -> Option<Crc> {
    let (before, crc) = lines.strip_suffix(b"\"}\n")?.split_last_chunk()?;
    before.ends_with(CRC_KEY).then_some(*crc)
}

/// Whether the body of a sealed line is a header's, of whatever format version.
pub fn is_header(body: &[u8]) -> bool {
    body.starts_with(HEADER_START)
}

/// The fixed beginning of every event line of one session, which puts `seq` at a fixed position.
#[derive(Clone, Debug)]
pub struct Shape {
    session: SessionId,
}

impl Shape {
    /// The shape of the lines of `session`.
    pub const fn new(session: SessionId) -> Self {
        Self { session }
    }

    /// The session whose lines have this shape.
    pub const fn session(&self) -> &SessionId {
        &self.session
    }

    /// Bytes from the beginning of a line after which its `seq` is known, whatever its length.
    pub fn prefix_len(&self) -> usize {
        self.seq_at() + SEQ_DIGITS_MAX + 1
    }

    /// Where the digits of `seq` begin.
    fn seq_at(&self) -> usize {
        ID_KEY.len()
            + EventId::TEXT_LEN
            + SESSION_KEY.len()
            + self.session.as_bytes().len()
            + SEQ_KEY.len()
    }

    /// The seq of the event line that begins so, and the position behind its digits; nothing if it
    /// is no event line of this session. Needs [`Shape::prefix_len`] bytes of a longer line.
    pub fn seq(&self, line: &[u8]) -> Option<(u64, usize)> {
        let rest = line.strip_prefix(ID_KEY)?;
        let (id, rest) = rest.split_at_checked(EventId::TEXT_LEN)?;
        EventId::parse(id)?;
        let digits = rest
            .strip_prefix(SESSION_KEY)?
            .strip_prefix(self.session.as_bytes())?
            .strip_prefix(SEQ_KEY)?;
        let (mut seq, mut len) = (0_u64, 0);
        while let Some(digit) = digits.get(len).filter(|digit| digit.is_ascii_digit()) {
            seq = seq.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
            len += 1;
        }
        let canonical = len == 1 || (len > 1 && digits[0] != b'0');
        (canonical && digits.get(len) == Some(&b',')).then(|| (seq, self.seq_at() + len))
    }

    /// The event that the body of a sealed line holds, if it is an event of this session.
    pub fn event<'a>(&self, body: &'a [u8]) -> Option<Event<'a>> {
        let (seq, behind) = self.seq(body)?;
        let rest = body[behind..].strip_prefix(AT_KEY)?;
        let (at, rest) = rest.split_at_checked(Wall::TEXT_LEN)?;
        let rest = rest.strip_prefix(TYPE_KEY)?;
        // No type holds an escape: behind one that does, no payload's key is found.
        let end = rest.iter().position(|&byte| matches!(byte, b'"' | b'\\'))?;
        let kind = std::str::from_utf8(&rest[..end]).ok()?;
        let payload = rest[end..].strip_prefix(PAYLOAD_KEY)?;
        let id = EventId::parse(&body[ID_KEY.len()..ID_KEY.len() + EventId::TEXT_LEN])?;
        Some(Event { id, seq, at, kind, payload })
    }
}

/// What an event line says, read by position: the envelope has one key order and one spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The event's id.
    pub id: EventId,
    /// Its number in the session.
    pub seq: u64,
    /// When it was written, as text ([`Wall::parse`]).
    pub at: &'a [u8],
    /// Its type.
    pub kind: &'a str,
    /// Its payload, a JSON document.
    pub payload: &'a [u8],
}

/// Whether a line begins at a place where no well-formed line could hold these bytes: outside of
/// strings a `{` follows only JSON's own marks and blanks, inside of strings no bare quote follows
/// it. So a line that lost the LF before it is still found, and no payload can pretend to be one.
pub fn begins_line(before: u8, bytes: &[u8]) -> bool {
    !matches!(before, b' ' | b'\t' | b'\r' | b',' | b':' | b'[')
        && [ID_KEY, ATTEST_START, HEADER_START].iter().any(|start| bytes.starts_with(start))
}

/// Whole lines, each without its LF; bytes behind the last LF are no line.
pub fn lines(mut whole: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (line, rest) = whole.split_at(find_lf(whole)?);
        whole = &rest[1..];
        Some(line)
    })
}

/// What the seal of each of some whole event lines covers: the wire form but for its closing brace.
/// The seals are not checked; they were when the lines were read or written.
pub fn bodies(whole: &[u8]) -> impl Iterator<Item = &[u8]> {
    lines(whole).map(|line| &line[..line.len() - SUFFIX_LEN])
}

/// Where the first LF stands.
///
/// The standard library has the search for one byte, two words at a time, only inside of its readers.
pub fn find_lf(bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes;
    let skipped = rest.skip_until(b'\n').expect("memory can always be read");
    bytes[..skipped].ends_with(b"\n").then(|| skipped - 1)
}

/// Where the last LF stands.
pub fn find_last_lf(bytes: &[u8]) -> Option<usize> {
    bytes.len().checked_sub(last_line_len(bytes) + 1)
}

fn parse_ack(digits: &[u8; ACK_DIGITS]) -> Option<u64> {
    let (high, low) = digits.split_first_chunk::<4>()?;
    let mut padded = *b"00000000";
    padded[4..].copy_from_slice(high);
    let (high, low) = (parse_hex8(padded)?, parse_hex8(low.try_into().ok()?)?);
    Some(u64::from(high) << 32 | u64::from(low))
}

/// How a header line begins; what follows is read by [`super::header`].
const HEADER_START: &[u8] = b"{\"log\":";
const ATTEST_START: &[u8] = b"{\"ack\":\"";
const ID_KEY: &[u8] = b"{\"id\":\"";
const SESSION_KEY: &[u8] = b"\",\"session_id\":\"";
const SEQ_KEY: &[u8] = b"\",\"seq\":";
const AT_KEY: &[u8] = b",\"at\":\"";
const TYPE_KEY: &[u8] = b"\",\"type\":\"";
const PAYLOAD_KEY: &[u8] = b"\",\"payload\":";
const ACK_KEY: &[u8] = b"\"ack\":\"";
const CRC_KEY: &[u8] = b",\"crc\":\"";
const ACK_DIGITS: usize = 12;
const CRC_DIGITS: usize = 8;
const SEQ_DIGITS_MAX: usize = 20;
/// `,"ack":"............"`
const ACK_PART_LEN: usize = 1 + ACK_KEY.len() + ACK_DIGITS + 1;
/// `,"crc":"........"}`
const CRC_PART_LEN: usize = CRC_KEY.len() + CRC_DIGITS + 2;
const _: () = assert!(ACK_PART_LEN + CRC_PART_LEN == SUFFIX_LEN);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::event::write_envelope;
    use crate::proto::payload::Body;

    fn shape() -> Shape {
        Shape::new(SessionId::parse("s1").unwrap())
    }

    fn event_line(seq: u64, text: &str, ack: u64) -> Vec<u8> {
        let mut line = Vec::new();
        let body = Body::UserMessage { text: text.to_owned() };
        write_envelope(&mut line, EventId(7), shape().session(), seq, Wall(0), &body);
        seal(&mut line, 0, ack);
        line
    }

    #[test]
    fn a_sealed_line_is_its_wire_form_with_a_suffix_of_constant_length() {
        let line = event_line(7, "hello", 0xc);
        let line = line.strip_suffix(b"\n").unwrap();
        let mut wire = line[..line.len() - SUFFIX_LEN].to_vec();
        wire.push(b'}');
        assert_eq!(
            String::from_utf8(wire.clone()).unwrap(),
            r#"{"id":"0000000000000007","session_id":"s1","seq":7,"at":"1970-01-01T00:00:00.000000Z","type":"user/message","payload":{"text":"hello"}}"#
        );
        assert_eq!(wire.len(), wire_len(line));
        let suffix = std::str::from_utf8(&line[line.len() - SUFFIX_LEN..]).unwrap();
        assert!(suffix.starts_with(r#","ack":"00000000000c","crc":""#), "{suffix}");
    }

    #[test]
    fn what_was_sealed_is_read_back() {
        for (seq, text, ack) in [(0, "", 0), (9, "a\nb", 9), (u64::MAX, "\"seq\":3", (1 << 48) - 1)]
        {
            let line = event_line(seq, text, ack);
            let sealed = unseal(line.strip_suffix(b"\n").unwrap()).unwrap();
            assert_eq!(sealed.ack, ack);
            assert_eq!(Some(sealed.crc), crc_of_last(&line));
            let event = shape().event(sealed.body).unwrap();
            assert_eq!((event.id, event.seq, event.kind), (EventId(7), seq, "user/message"));
            assert_eq!(Wall::parse(event.at), Some(Wall(0)));
            let body = Body::parse(event.kind, event.payload).unwrap().unwrap();
            assert_eq!(body, Body::UserMessage { text: text.to_owned() });
            assert_eq!(Shape::new(SessionId::parse("s2").unwrap()).event(sealed.body), None);
        }
        let mut attest = Vec::new();
        write_attest(&mut attest, 0x40);
        assert!(attest.starts_with(b"{\"ack\":\"000000000040\",\"crc\":\""));
        let sealed = unseal(attest.strip_suffix(b"\n").unwrap()).unwrap();
        assert_eq!((sealed.body, sealed.ack), (&b""[..], 0x40));
    }

    #[test]
    fn a_line_whose_type_holds_an_escape_is_no_event() {
        let line = String::from_utf8(event_line(7, "hello", 0)).unwrap();
        for (kind, is_event) in [("user/message", true), (r"user\u002fmessage", false)] {
            let line = line.replace("user/message", kind);
            let body = &line.as_bytes()[..line.len() - 1 - SUFFIX_LEN];
            assert_eq!(shape().event(body).is_some(), is_event, "{line}");
        }
    }

    #[test]
    fn a_line_with_any_bit_flipped_is_refused() {
        let mut attest = Vec::new();
        write_attest(&mut attest, 0xabc);
        for line in [event_line(12, "some text", 0xabc), attest] {
            let line = line.strip_suffix(b"\n").unwrap();
            assert!(unseal(line).is_some());
            for bit in 0..line.len() * 8 {
                let mut flipped = line.to_vec();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(unseal(&flipped), None, "bit {bit}");
            }
            for len in 0..line.len() {
                assert_eq!(unseal(&line[..len]), None, "cut at {len}");
            }
        }
    }

    #[test]
    fn seq_is_found_by_its_position_or_not_at_all() {
        let shape = shape();
        let long = format!(
            "{}18446744073709551615,",
            &String::from_utf8_lossy(&event_line(7, "", 0))[..49]
        );
        for (line, seq) in [
            (long.as_str(), Some(u64::MAX)),
            (&long.replace("18446744073709551615", "18446744073709551616"), None),
            (&long.replace("18446744073709551615", "0"), Some(0)),
            (&long.replace("18446744073709551615", "07"), None),
            (&long.replace("18446744073709551615", ""), None),
            (&long.replace("18446744073709551615", "-1"), None),
            (&long.replace("18446744073709551615,", "7"), None),
            (&long.replace("\"s1\"", "\"s2\""), None),
            (&long.replace("\"s1\"", "\"s11\""), None),
            (&long.replace("0007", "000g"), None),
            ("", None),
        ] {
            assert_eq!(shape.seq(line.as_bytes()).map(|(seq, _)| seq), seq, "{line}");
            assert!(line.len() <= shape.prefix_len() + 1);
        }
    }

    #[test]
    #[should_panic(expected = "a line of the log holds a control character")]
    fn a_line_feed_inside_of_a_line_is_never_written() {
        seal(&mut b"{\"a\":\n1}".to_vec(), 0, 0);
    }

    #[test]
    #[should_panic(expected = "a line is longer than any event may be")]
    fn a_line_beyond_the_bound_is_never_written() {
        let mut line = vec![b' '; EVENT_BYTES_MAX];
        line[0] = b'{';
        *line.last_mut().unwrap() = b'}';
        seal(&mut line, 0, 0);
    }

    #[test]
    fn a_well_formed_line_holds_no_place_where_another_could_begin() {
        let line = br#"{"id":"1","args":{"id":"2","x":[{"id":"3"},{"id":"4"}, {"ack":"0"}],"s":"}\n{\"id\":\""}}"#;
        for at in 1..line.len() {
            assert!(!begins_line(line[at - 1], &line[at..]), "at {at}");
        }
        for before in [b'\x0b', b'\x02', b'*', b'J', b'\x8a', b'}', b'\0'] {
            assert!(begins_line(before, line));
        }
    }

    #[test]
    fn whole_lines_are_taken_apart_and_what_is_none_is_left_out() {
        // (bytes, lines)
        let table: [(&[u8], &[&[u8]]); 5] = [
            (b"", &[]),
            (b"no line", &[]),
            (b"a\n", &[b"a"]),
            (b"a\n\nb\n", &[b"a", b"", b"b"]),
            (b"a\nrest", &[b"a"]),
        ];
        for (bytes, want) in table {
            assert_eq!(lines(bytes).collect::<Vec<_>>(), want, "{bytes:?}");
        }
        let mut sealed = Vec::new();
        for body in ["{\"a\":1}", "{\"b\":2}"] {
            let start = sealed.len();
            sealed.extend_from_slice(body.as_bytes());
            seal(&mut sealed, start, 7);
        }
        let want: [&[u8]; 2] = [b"{\"a\":1", b"{\"b\":2"];
        assert_eq!(bodies(&sealed).collect::<Vec<_>>(), want);
    }

    #[test]
    fn the_first_line_is_what_looking_for_it_and_then_at_its_seal_says() {
        let mut lines = Vec::new();
        for len in 0..80 {
            let mut line = format!("{{\"a\":\"{}\"}}", "x".repeat(len)).into_bytes();
            seal(&mut line, 0, len as u64);
            lines.push(line[..line.len() - 1].to_vec());
            line[5] ^= 1;
            line.truncate(line.len() - 1);
            lines.push(line);
            lines.push(vec![b'x'; len]);
        }
        for line in &lines {
            assert_eq!(first(line), None);
            for behind in 0..20 {
                let text =
                    [line, &b"\n"[..], &vec![b'\n'; behind % 2], &vec![b'x'; behind]].concat();
                assert_eq!(first(&text), Some((&line[..], unseal(line))), "{behind} bytes behind");
            }
        }
        assert_eq!(lines.iter().filter(|line| unseal(line).is_some()).count(), 80);
    }

    #[test]
    fn line_feeds_are_found_wherever_they_stand() {
        for len in 0..100 {
            assert_eq!((find_lf(&vec![b'x'; len]), find_last_lf(&vec![b'x'; len])), (None, None));
            for first in 0..len {
                for last in first..len {
                    let mut bytes = vec![b'x'; len];
                    (bytes[first], bytes[last]) = (b'\n', b'\n');
                    assert_eq!(find_lf(&bytes), Some(first));
                    assert_eq!(find_last_lf(&bytes), Some(last));
                }
            }
        }
    }
}
