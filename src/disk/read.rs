//! Reading a log in bounded pieces, every line checked.
//!
//! A reader is given a tip and never looks beyond it, so it needs no lock and no agreement with the
//! appender. It goes from one segment to the next by name: the next one's name is the next seq.

use std::cmp::Ordering;
use std::io;

use super::api::{DiskFile, Open};
use super::error::ReadError;
use super::files::{Files, Listing, read_full_at, scan_file};
use super::store::Tip;
use crate::limits::{PIECE_BYTES_MAX, PIECE_EVENTS_MAX};
use crate::log::line::{self, Event, SUFFIX_LEN, Shape, bodies};
use crate::log::place::{Fault, Place};
use crate::log::scan::Item;
use crate::log::seek;
use crate::proto::ident::SessionId;
use crate::proto::ws::text_header;

/// Whole lines of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The lines in the form that was asked for; events only.
    pub lines: Vec<u8>,
    /// The seq of the first.
    pub first: u64,
    /// How many they are.
    pub count: u32,
    /// Where the next piece begins.
    pub next: Cursor,
}

/// What is given of a line whose seal holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// All of it, with its seal and its LF.
    Line,
    /// What a client gets, in a text frame: this is the one time that a replayed event is copied
    /// between its file and its socket.
    Frame,
}

/// Where an event stands, or will stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Its seq.
    pub seq: u64,
    /// The segment to look in; it may stand at the beginning of the one after.
    pub base: u64,
    /// Where in it, in bytes.
    pub offset: u64,
}

impl Piece {
    /// What the lines say, of a piece that is not framed.
    pub fn events<'a>(&'a self, shape: &'a Shape) -> impl Iterator<Item = Event<'a>> {
        bodies(&self.lines).filter_map(|body| shape.event(body))
    }
}

/// The pieces of a log from some event to the tip.
pub struct Events<'a> {
    files: Files<'a>,
    session: SessionId,
    from: u64,
    cursor: Option<Cursor>,
    tip: Tip,
}

impl<'a> Events<'a> {
    pub(super) fn new(files: Files<'a>, session: SessionId, from: u64, tip: Tip) -> Self {
        Self { files, session, from, cursor: None, tip }
    }

    /// The next piece, nothing at the tip.
    pub fn next_piece(&mut self) -> Result<Option<Piece>, ReadError> {
        let Self { files, session, from, cursor, tip } = self;
        if *from > tip.seq {
            return Ok(None);
        }
        let bounds = (PIECE_EVENTS_MAX, PIECE_BYTES_MAX);
        let piece = files.read(session, *from, *cursor, *tip, bounds, (Form::Line, Vec::new()))?;
        *from = piece.next.seq;
        *cursor = Some(piece.next);
        Ok(Some(piece))
    }
}

/// A segment that is being read.
struct Segment {
    base: u64,
    file: Box<dyn DiskFile>,
    /// Nothing is read from here on.
    limit: u64,
}

impl Files<'_> {
    pub(super) fn read(
        &self,
        session: &SessionId,
        from: u64,
        cursor: Option<Cursor>,
        tip: Tip,
        bounds: (u32, usize),
        (form, mut space): (Form, Vec<u8>),
    ) -> Result<Piece, ReadError> {
        space.clear();
        let mut piece = Piece {
            lines: space,
            first: from,
            count: 0,
            next: Cursor { seq: from, base: tip.base, offset: tip.bytes },
        };
        if from > tip.seq {
            return Ok(piece);
        }
        let shape = Shape::new(session.clone());
        let known = cursor.filter(|cursor| cursor.seq == from);
        let (mut segment, offset) = match known {
            Some(cursor) => match self.open_segment(session, cursor.base, tip) {
                // It may have ended right before `from`.
                Err(ReadError::Removed { .. }) => self.find(&shape, from, tip)?,
                segment => (segment?, cursor.offset),
            },
            None => self.find(&shape, from, tip)?,
        };
        piece.next = Cursor { seq: from, base: segment.base, offset };
        loop {
            let fill = |piece: &mut Piece| piece.fill(&segment, &shape, tip.seq, bounds, form);
            let mut ended = fill(&mut piece)?;
            if ended == Ended::Bad && piece.count == 0 {
                // The place was wrong, or the line is: only a scan can tell.
                piece.next.offset = segment.scan_for(&shape, piece.next.seq)?;
                ended = fill(&mut piece)?;
            }
            if ended == Ended::Full || (piece.count > 0 && piece.lines.len() >= bounds.1) {
                return Ok(piece);
            }
            if ended == Ended::Bad {
                let error = io::Error::other("the log changes while it is read");
                return piece.or(ReadError::Io(error));
            }
            let next = piece.next.seq;
            if segment.base == tip.base || segment.base == next {
                return match segment.scan_for(&shape, next) {
                    Err(error) => piece.or(error),
                    Ok(_) => piece.or(ReadError::Io(io::Error::other("the log is still growing"))),
                };
            }
            segment = match self.open_segment(session, next, tip) {
                Ok(segment) => segment,
                Err(error) => return piece.or(error),
            };
            piece.next = Cursor { seq: next, base: next, offset: 0 };
        }
    }

    /// Opens a segment that has to be there if the session is, and was not removed for its age.
    fn open_segment(&self, session: &SessionId, base: u64, tip: Tip) -> Result<Segment, ReadError> {
        let file = match self.disk.open(&self.segment(session, base), Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(not_there(base, self.listing(session)?.first));
            }
            Err(error) => return Err(ReadError::Io(error)),
        };
        let len = file.size()?;
        let limit = if base == tip.base { tip.bytes.min(len) } else { len };
        Ok(Segment { base, file, limit })
    }

    /// The segment that holds an event, and where in it.
    fn find(&self, shape: &Shape, from: u64, tip: Tip) -> Result<(Segment, u64), ReadError> {
        let session = shape.session();
        let base = if from >= tip.base {
            tip.base
        } else {
            let Listing { first, bases, .. } = self.listing(session)?;
            let base = bases.iter().rev().find(|&&base| base <= from);
            *base.ok_or_else(|| not_there(from.min(first), first))?
        };
        let segment = self.open_segment(session, base, tip)?;
        if from == base {
            return Ok((segment, 0));
        }
        let read = |offset, bytes: &mut [u8]| read_full_at(&*segment.file, bytes, offset);
        let offset = seek::seek(shape, from, segment.limit, read)?.unwrap_or(0);
        Ok((segment, offset))
    }
}

/// Why the segment that begins with `base` cannot be read, in a log whose first event is `first`.
fn not_there(base: u64, first: u64) -> ReadError {
    if base < first {
        return ReadError::Removed { first };
    }
    let fault = Fault::NoSegment { base };
    ReadError::Damaged(Place { segment: base, line: 1, byte: 0, fault })
}

impl Segment {
    /// Where a sound line with this seq stands in a segment that does not hold what it should.
    fn scan_for(&self, shape: &Shape, want: u64) -> Result<u64, ReadError> {
        // The first bad place between the event before and the one behind is where it ought to be.
        let (mut found, mut bad, mut behind) = (None, None, false);
        let summary = scan_file(
            &*self.file,
            self.limit,
            shape.session(),
            self.base,
            &mut |item| match item {
                Item::Event { event, begins, .. } => match event.seq.cmp(&want) {
                    Ordering::Less => bad = None,
                    Ordering::Equal => {
                        found.get_or_insert(begins);
                    }
                    Ordering::Greater => behind = true,
                },
                Item::Bad(place) if !behind => {
                    bad.get_or_insert(place);
                }
                Item::Bad(_) | Item::Header(_) => {}
            },
        )?;
        found.ok_or_else(|| {
            ReadError::Damaged(bad.unwrap_or(Place {
                segment: self.base,
                line: summary.prefix.lines + 1,
                byte: summary.prefix.bytes,
                fault: Fault::Missing { attested: want + 1, found: summary.prefix.next },
            }))
        })
    }
}

/// Why a piece was not filled further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// It is full, or at the tip.
    Full,
    /// The segment has no further line.
    Segment,
    /// What stands there is not the line that has to.
    Bad,
}

impl Piece {
    /// A piece that holds something is served; the error comes again with the next one.
    fn or(self, error: ReadError) -> Result<Self, ReadError> {
        if self.count > 0 { Ok(self) } else { Err(error) }
    }

    /// Appends lines from `self.next` on: up to the event `last`, and within the bounds, which are a
    /// number of events and of bytes.
    fn fill(
        &mut self,
        segment: &Segment,
        shape: &Shape,
        last: u64,
        (events_max, bytes_max): (u32, usize),
        form: Form,
    ) -> io::Result<Ended> {
        let room = bytes_max.saturating_sub(self.lines.len());
        let mut block = Block::default();
        let mut step = room.clamp(BLOCK_BYTES_MIN, BLOCK_BYTES);
        let left = segment.limit.saturating_sub(self.next.offset);
        self.lines.reserve_exact(left.min(room as u64) as usize);
        while self.count < events_max && self.next.seq <= last {
            let fresh = block.fresh();
            if let Some((line, sealed)) = line::first(fresh) {
                let Some(sealed) = sealed else { return Ok(Ended::Bad) };
                match shape.seq(sealed.body) {
                    Some((seq, _)) if seq == self.next.seq => {
                        let bound = (self.count > 0).then_some(bytes_max);
                        if !form.push(&mut self.lines, line, bound) {
                            return Ok(Ended::Full);
                        }
                        self.count += 1;
                        self.next.seq += 1;
                    }
                    None if is_passed_over(sealed.body) => {}
                    _ => return Ok(Ended::Bad),
                }
                let taken = line.len() + 1;
                self.next.offset += taken as u64;
                block.at += taken;
                continue;
            }
            let read = self.next.offset + fresh.len() as u64;
            if read >= segment.limit {
                return Ok(if fresh.is_empty() { Ended::Segment } else { Ended::Bad });
            }
            if fresh.len() == step {
                step *= 2;
            }
            let wanted = (step - fresh.len()).min((segment.limit - read) as usize);
            if block.read(&*segment.file, read, wanted)? == 0 {
                return Ok(Ended::Bad);
            }
        }
        Ok(Ended::Full)
    }
}

impl Form {
    /// Appends a line in this form, unless that makes more of `out` than `bytes_max`, if there is a bound.
    fn push(self, out: &mut Vec<u8>, line: &[u8], bytes_max: Option<usize>) -> bool {
        let header;
        let (head, body, last): (&[u8], _, _) = match self {
            Self::Line => (&[], line, b'\n'),
            Self::Frame => {
                header = text_header(line::wire_len(line));
                (&header, &line[..line.len() - SUFFIX_LEN], b'}')
            }
        };
        let more = head.len() + body.len() + 1;
        if bytes_max.is_some_and(|bytes_max| out.len() + more > bytes_max) {
            return false;
        }
        out.reserve(more);
        out.extend_from_slice(head);
        out.extend_from_slice(body);
        out.push(last);
        true
    }
}

/// What was read of a segment: a part of it that the processor's cache holds, time and again.
#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    /// `bytes[at..end]` was read and has not been looked at.
    at: usize,
    end: usize,
}

impl Block {
    fn fresh(&self) -> &[u8] {
        &self.bytes[self.at..self.end]
    }

    /// Reads up to `wanted` bytes more, which stand at `offset`, and says how many there were.
    fn read(&mut self, file: &dyn DiskFile, offset: u64, wanted: usize) -> io::Result<usize> {
        self.bytes.copy_within(self.at..self.end, 0);
        self.end -= self.at;
        self.at = 0;
        let room = self.end + wanted;
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
        let got = read_full_at(file, &mut self.bytes[self.end..room], offset)?;
        self.end += got;
        Ok(got)
    }
}

/// Headers and attest lines are no events.
fn is_passed_over(body: &[u8]) -> bool {
    body.is_empty() || line::is_header(body)
}

/// The least that is read at once, and the most unless a line is longer.
const BLOCK_BYTES_MIN: usize = 4 * 1024;
const BLOCK_BYTES: usize = 64 * 1024;
