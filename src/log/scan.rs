//! Reads a segment from its beginning: which lines hold, how far they follow one another, and what
//! stands behind.
//!
//! A pure machine: bytes are pushed in pieces of any size, items come out, and [`Scan::finish`] sums
//! up. It decides nothing ([`super::verdict`] does) and knows no file. Its memory is one line.
//!
//! Invariant: every byte pushed belongs to exactly one item, whose line and byte it reports.

use super::header::Header;
use super::line::{self, Crc, Event, Sealed, Shape};
use super::place::{Fault, Place};
use super::verdict::Beyond;
use crate::limits::EVENT_BYTES_MAX;

/// A scan in progress.
pub struct Scan {
    shape: Shape,
    base: u64,
    /// The beginning of a line whose end has not come.
    carry: Vec<u8>,
    /// Where `carry` begins in the file.
    offset: u64,
    /// The number of the line that begins there.
    line: u64,
    found: Found,
}

/// What a scan amounts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What the first line says, if it is a header of this segment.
    pub header: Option<Header>,
    /// The contiguous valid lines at the beginning.
    pub prefix: Prefix,
    /// A: the largest `ack` of any valid line, wherever it stands.
    pub attested: u64,
    /// What stands behind the prefix.
    pub beyond: Beyond,
    /// No valid line stands right behind another one that it does not follow.
    pub sequence_holds: bool,
    /// The first thing that is wrong.
    pub bad: Option<Place>,
    /// The last valid event line, wherever it stands.
    pub last_event: Option<Mark>,
    /// Bytes scanned.
    pub bytes: u64,
}

/// The contiguous valid lines at the beginning of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// P: the seq that follows the last event; the base if there is none.
    pub next: u64,
    /// How many bytes they take.
    pub bytes: u64,
    /// How many lines they are.
    pub lines: u64,
    /// The last event among them.
    pub last_event: Option<Mark>,
    /// The checksum of the last line.
    pub crc: Crc,
    /// Where the lines begin that nothing says are stored, the line included that attests most: it
    /// speaks of what is before it and not of itself.
    pub unattested_from: u64,
}

/// An event line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its seq.
    pub seq: u64,
    /// Where it ends, LF included.
    pub end: u64,
}

/// One thing that a scan came across.
#[derive(Debug)]
pub enum Item<'a> {
    /// The header of this segment.
    Header(&'a Header),
    /// A valid event line.
    Event {
        /// What it says.
        event: Event<'a>,
        /// The whole line, without its LF.
        line: &'a [u8],
        /// Where it begins in the file.
        begins: u64,
        /// It belongs to the contiguous prefix.
        contiguous: bool,
    },
    /// Something that is wrong. A line behind the first such place that is itself sound is none.
    Bad(Place),
}

impl Scan {
    /// A scan of the segment that begins with seq `base`.
    pub fn new(shape: Shape, base: u64) -> Self {
        let prefix = Prefix {
            next: base,
            bytes: 0,
            lines: 0,
            last_event: None,
            crc: Crc::default(),
            unattested_from: 0,
        };
        let found = Found {
            header: None,
            prefix,
            attested: 0,
            beyond: Beyond::Nothing,
            sequence_holds: true,
            bad: None,
            last_event: None,
            bytes: 0,
        };
        Self { shape, base, carry: Vec::new(), offset: 0, line: 1, found }
    }

    /// Takes in the bytes that follow.
    pub fn push(&mut self, mut bytes: &[u8], seen: &mut impl FnMut(Item<'_>)) {
        self.found.bytes += bytes.len() as u64;
        while let Some((line, sealed)) = line::first(bytes) {
            if self.carry.is_empty() {
                self.line(line, sealed, seen);
            } else {
                let mut whole = std::mem::take(&mut self.carry);
                whole.extend_from_slice(line);
                self.line(&whole, line::unseal(&whole), seen);
                whole.clear();
                self.carry = whole;
            }
            bytes = &bytes[line.len() + 1..];
        }
        self.carry.extend_from_slice(bytes);
        if self.carry.len() > EVENT_BYTES_MAX {
            self.drop_overlong(seen);
        }
    }

    /// Sums up, once everything has been pushed.
    pub fn finish(mut self, seen: &mut impl FnMut(Item<'_>)) -> Found {
        if !self.carry.is_empty() {
            self.bad(Fault::Unterminated, self.offset, seen);
        }
        self.found
    }

    /// Takes in a line, given without its LF, that begins at `self.offset`.
    fn line(&mut self, line: &[u8], sealed: Option<Sealed<'_>>, seen: &mut impl FnMut(Item<'_>)) {
        let offset = self.offset;
        let end = offset + line.len() as u64 + 1;
        match sealed {
            Some(sealed) => self.sound(&sealed, line, offset, end, seen),
            None => {
                self.bad(if offset == 0 { Fault::NoHeader } else { Fault::Seal }, offset, seen);
                self.spliced(line, offset, end, seen);
            }
        }
        self.offset = end;
        self.line += 1;
    }

    /// Takes in a line whose seal holds.
    fn sound(
        &mut self,
        sealed: &Sealed<'_>,
        line: &[u8],
        offset: u64,
        end: u64,
        seen: &mut impl FnMut(Item<'_>),
    ) {
        let contiguous = self.found.bad.is_none();
        if offset == 0 {
            match Header::read(sealed, self.shape.session())
                .filter(|header| header.base == self.base)
            {
                Some(header) => {
                    self.found.attested = sealed.ack;
                    self.extend_prefix(sealed, end);
                    seen(Item::Header(&header));
                    self.found.header = Some(header);
                }
                None => self.misplaced(Fault::NoHeader, offset, seen),
            }
            return;
        }
        let next = self.found.prefix.next;
        if sealed.body.is_empty() {
            if contiguous {
                self.attest(sealed.ack, next, offset);
                self.extend_prefix(sealed, end);
            } else {
                self.found.attested = self.found.attested.max(sealed.ack);
                self.found.beyond = Beyond::ValidLine;
            }
            return;
        }
        let Some(event) = self.shape.event(sealed.body) else {
            self.misplaced(Fault::Foreign, offset, seen);
            return;
        };
        let mark = Mark { seq: event.seq, end };
        if contiguous && event.seq != next {
            self.found.sequence_holds = false;
            self.misplaced(Fault::Sequence { expected: next, found: event.seq }, offset, seen);
            self.found.attested = self.found.attested.max(sealed.ack);
        } else if contiguous {
            self.attest(sealed.ack, next, offset);
            self.extend_prefix(sealed, end);
            self.found.prefix.next += 1;
            self.found.prefix.last_event = Some(mark);
        } else {
            self.found.attested = self.found.attested.max(sealed.ack);
            self.found.beyond = Beyond::ValidLine;
        }
        self.found.last_event = Some(mark);
        seen(Item::Event { event, line, begins: offset, contiguous: self.found.bad.is_none() });
    }

    fn extend_prefix(&mut self, sealed: &Sealed<'_>, end: u64) {
        let prefix = &mut self.found.prefix;
        prefix.bytes = end;
        prefix.lines += 1;
        prefix.crc = sealed.crc;
    }

    /// The line that begins at `begins`, behind event `next` - 1, attests `ack` events.
    fn attest(&mut self, ack: u64, next: u64, begins: u64) {
        if ack > self.found.attested {
            self.found.attested = ack;
            // Otherwise an earlier place stays: rewriting more than needed does no harm.
            if ack == next {
                self.found.prefix.unattested_from = begins;
            }
        }
    }

    /// A sound line that must not stand here.
    fn misplaced(&mut self, fault: Fault, offset: u64, seen: &mut impl FnMut(Item<'_>)) {
        self.bad(fault, offset, seen);
        self.found.beyond = Beyond::ValidLine;
    }

    fn bad(&mut self, fault: Fault, byte: u64, seen: &mut impl FnMut(Item<'_>)) {
        let place = Place { segment: self.base, line: self.line, byte, fault };
        self.found.bad.get_or_insert_with(|| place.clone());
        self.found.beyond = self.found.beyond.max(Beyond::Bytes);
        seen(Item::Bad(place));
    }

    /// Looks in a broken line for a sound one that only lost the LF before it.
    fn spliced(&mut self, broken: &[u8], offset: u64, end: u64, seen: &mut impl FnMut(Item<'_>)) {
        for at in 1..broken.len() {
            if broken[at] == b'{'
                && line::begins_line(broken[at - 1], &broken[at..])
                && let Some(sealed) = line::unseal(&broken[at..])
            {
                self.sound(&sealed, &broken[at..], offset + at as u64, end, seen);
            }
        }
    }

    /// What is longer than any line cannot become one; only its end might begin one.
    fn drop_overlong(&mut self, seen: &mut impl FnMut(Item<'_>)) {
        let carry = std::mem::take(&mut self.carry);
        self.bad(Fault::Seal, self.offset, seen);
        let begins = (1..carry.len())
            .find(|&at| carry[at] == b'{' && line::begins_line(carry[at - 1], &carry[at..]));
        let kept = begins.unwrap_or(carry.len());
        self.offset += kept as u64;
        self.carry.extend_from_slice(&carry[kept..]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::State;
    use super::*;
    use crate::proto::event::write_envelope;
    use crate::proto::ident::{EventId, SessionId};
    use crate::proto::payload::Body;
    use crate::proto::time::Wall;

    fn session() -> SessionId {
        SessionId::parse("s1").unwrap()
    }

    fn header() -> Vec<u8> {
        let mut out = Vec::new();
        Header { base: 0, prev: None, state: State::default() }.write(&mut out, &session(), 0);
        out
    }

    fn event(seq: u64, ack: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let body = Body::UserMessage { text: format!("text {seq}") };
        write_envelope(&mut out, EventId(seq), &session(), seq, Wall(0), &body);
        line::seal(&mut out, 0, ack);
        out
    }

    fn attest(ack: u64) -> Vec<u8> {
        let mut out = Vec::new();
        line::write_attest(&mut out, ack);
        out
    }

    fn scan(pieces: &[&[u8]]) -> (Found, Vec<String>) {
        let mut scan = Scan::new(Shape::new(session()), 0);
        let mut items = Vec::new();
        let mut seen = |item: Item<'_>| items.push(format!("{item:?}"));
        for piece in pieces {
            scan.push(piece, &mut seen);
        }
        let found = scan.finish(&mut seen);
        (found, items)
    }

    #[test]
    fn a_segment_is_the_same_however_its_bytes_come() {
        let mut broken = event(2, 1);
        broken[60] ^= 1;
        let text =
            [header(), event(0, 0), event(1, 1), broken, event(3, 1), b"torn".to_vec()].concat();
        let whole = scan(&[&text]);
        for at in 0..=text.len() {
            assert_eq!(scan(&[&text[..at], &text[at..]]), whole, "split at {at}");
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(scan(&bytes), whole, "byte by byte");
    }

    #[test]
    fn prefix_attestation_and_what_is_beyond_are_told_apart() {
        use Beyond::{Bytes, Nothing, ValidLine};
        /// What it is, the lines behind the header, P, A, what is beyond, the first fault's line.
        type Row = (&'static str, Vec<Vec<u8>>, u64, u64, Beyond, Option<(u64, Fault)>);
        let flipped = |mut line: Vec<u8>| {
            line[60] ^= 1;
            line
        };
        let glued = |mut line: Vec<u8>| {
            *line.last_mut().unwrap() = 0x0b;
            line
        };
        let other = || {
            let text = String::from_utf8(event(1, 1)).unwrap().replace("s1", "s2");
            let mut line = text.as_bytes()[..text.len() - 1 - line::SUFFIX_LEN].to_vec();
            line.push(b'}');
            line::seal(&mut line, 0, 1);
            line
        };
        let table: Vec<Row> = vec![
            ("nothing", vec![], 0, 0, Nothing, None),
            ("one event", vec![event(0, 0)], 1, 0, Nothing, None),
            ("attested", vec![event(0, 0), attest(1)], 1, 1, Nothing, None),
            ("two batches", vec![event(0, 0), event(1, 1), event(2, 1)], 3, 1, Nothing, None),
            ("goes on", vec![event(0, 0), attest(1), event(1, 1)], 2, 1, Nothing, None),
            ("torn", vec![event(0, 0), b"{".to_vec()], 1, 0, Bytes, Some((3, Fault::Unterminated))),
            ("an LF", vec![event(0, 0), b"\n".to_vec()], 1, 0, Bytes, Some((3, Fault::Seal))),
            (
                "hole",
                vec![flipped(event(0, 0)), event(1, 1)],
                0,
                1,
                ValidLine,
                Some((2, Fault::Seal)),
            ),
            (
                "hole, attested",
                vec![flipped(event(0, 0)), attest(1)],
                0,
                1,
                ValidLine,
                Some((2, Fault::Seal)),
            ),
            (
                "glued",
                vec![glued(event(0, 0)), event(1, 1)],
                0,
                1,
                ValidLine,
                Some((2, Fault::Seal)),
            ),
            (
                "glued, attested",
                vec![glued(event(0, 0)), attest(1)],
                0,
                1,
                ValidLine,
                Some((2, Fault::Seal)),
            ),
            (
                "gap",
                vec![event(0, 0), event(2, 1)],
                1,
                1,
                ValidLine,
                Some((3, Fault::Sequence { expected: 1, found: 2 })),
            ),
            (
                "duplicate",
                vec![event(0, 0), event(0, 0)],
                1,
                0,
                ValidLine,
                Some((3, Fault::Sequence { expected: 1, found: 0 })),
            ),
            (
                "another session",
                vec![event(0, 0), other()],
                1,
                0,
                ValidLine,
                Some((3, Fault::Foreign)),
            ),
            ("a header", vec![event(0, 0), header()], 1, 0, ValidLine, Some((3, Fault::Foreign))),
        ];
        for (what, lines, next, attested, beyond, bad) in table {
            let text = [header(), lines.concat()].concat();
            let (found, _) = scan(&[&text]);
            assert_eq!((found.prefix.next, found.attested), (next, attested), "{what}");
            assert_eq!(found.beyond, beyond, "{what}");
            assert_eq!(found.bad.map(|place| (place.line, place.fault)), bad, "{what}");
            let is_sequence = what == "gap" || what == "duplicate";
            assert_eq!(found.sequence_holds, !is_sequence, "{what}");
        }
    }

    #[test]
    fn what_nothing_says_is_stored_begins_with_the_line_that_attests_most() {
        let (header, first, second) = (header(), event(0, 0), event(1, 1));
        let two = header.len() + first.len();
        let three = two + second.len();
        for (lines, from) in [
            (vec![], 0),
            (vec![first.clone()], 0),
            (vec![first.clone(), second.clone()], two),
            (vec![first.clone(), second.clone(), event(2, 1)], two),
            (vec![first.clone(), second.clone(), event(2, 2)], three),
            (vec![first.clone(), attest(1)], two),
            (vec![first.clone(), attest(1), second.clone()], two),
        ] {
            let text = [header.clone(), lines.concat()].concat();
            assert_eq!(scan(&[&text]).0.prefix.unattested_from, from as u64);
        }
    }

    #[test]
    fn a_line_that_never_ends_takes_no_more_memory_than_the_longest_event() {
        let mut scan = Scan::new(Shape::new(session()), 0);
        let mut bad = 0;
        let mut seen = |item: Item<'_>| bad += u32::from(matches!(item, Item::Bad(_)));
        scan.push(&header(), &mut seen);
        for _ in 0..20 {
            scan.push(&vec![b'x'; 1 << 20], &mut seen);
            assert!(scan.carry.capacity() <= 2 * (EVENT_BYTES_MAX + (1 << 20)));
        }
        scan.push(b"\n", &mut seen);
        scan.push(&event(0, 0), &mut seen);
        let found = scan.finish(&mut seen);
        assert_eq!((found.beyond, found.prefix.next), (Beyond::ValidLine, 0));
        assert!(bad >= 1);
    }
}
