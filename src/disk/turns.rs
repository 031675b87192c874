//! Reading a log backwards, for the history of a model request: whole turns, newest first.

use std::io;

use serde::Deserialize;

use super::api::{DiskFile, Open};
use super::error::ReadError;
use super::files::{Files, read_full_at};
use super::read::{Events, Form};
use super::store::Tip;
use crate::limits::HISTORY_SCAN_FACTOR;
use crate::log::line::{self, SUFFIX_LEN, Shape, lines};
use crate::log::state::State;
use crate::proto::ident::SessionId;

/// See [`super::Store::turns`].
pub(super) fn read(
    files: Files<'_>,
    session: &SessionId,
    state: &State,
    tip: Tip,
    bytes_max: usize,
) -> Result<Vec<u8>, ReadError> {
    let shape = Shape::new(session.clone());
    let (mut history, from) = beginning(files, &shape, state, tip, bytes_max)?;
    let mut events = Events::new(files, session.clone(), from, tip);
    while let Some(piece) = events.next_piece()? {
        for line in lines(&piece.lines) {
            let event = shape.event(&line[..line.len() - SUFFIX_LEN]);
            let wanted =
                event.is_none_or(|event| event.kind != CHUNK && Some(event.seq) != state.compacted);
            if wanted {
                history.extend_from_slice(line);
                history.push(b'\n');
            }
        }
    }
    Ok(history)
}

/// The seq of the oldest event that a history is made of.
pub(super) fn oldest(
    files: Files<'_>,
    session: &SessionId,
    state: &State,
    tip: Tip,
    bytes_max: usize,
) -> Result<u64, ReadError> {
    let shape = Shape::new(session.clone());
    let (_, from) = beginning(files, &shape, state, tip, bytes_max)?;
    Ok(state.compacted.map_or(from, |compacted| from.min(compacted)))
}

/// The line of the last compaction, if it says anything, and the seq from which on the turns are to
/// be read.
fn beginning(
    files: Files<'_>,
    shape: &Shape,
    state: &State,
    tip: Tip,
    bytes_max: usize,
) -> Result<(Vec<u8>, u64), ReadError> {
    let (mut line, mut lowest) = (Vec::new(), 0);
    if let Some(compacted) = state.compacted {
        let piece =
            files.read(shape.session(), compacted, None, tip, (1, 1), (Form::Line, Vec::new()))?;
        let upto = piece.events(shape).find_map(|event| {
            serde_json::from_slice::<Compacted>(event.payload).ok().map(|payload| payload.upto_seq)
        });
        if let Some(upto) = upto {
            lowest = upto.saturating_add(1);
            line = piece.lines;
        }
    }
    let bytes_max = bytes_max.saturating_sub(line.len());
    let from = first_turn(files, shape, state.turn, tip, lowest, bytes_max)?;
    Ok((line, from))
}

/// The seq from which on the turns are to be read.
fn first_turn(
    files: Files<'_>,
    shape: &Shape,
    open: Option<u64>,
    tip: Tip,
    lowest: u64,
    bytes_max: usize,
) -> Result<u64, ReadError> {
    let mut backwards = Backwards::new(files, shape, tip)?;
    let mut from = tip.seq + 1;
    let (mut taken, mut turn, mut scanned) = (0, 0, 0);
    while let Some((seq, kind, bytes)) = backwards.next()? {
        let in_open = open.is_some_and(|open| seq >= open);
        if seq < lowest || (!in_open && scanned > bytes_max.saturating_mul(HISTORY_SCAN_FACTOR)) {
            break;
        }
        scanned += bytes;
        if kind != Kind::Chunk {
            turn += bytes;
        }
        if !in_open && taken + turn > bytes_max {
            break;
        }
        // What stands before the first turn, or right behind a compaction, goes with it.
        if kind == Kind::TurnStart || seq == lowest {
            (from, taken, turn) = (seq, taken + turn, 0);
        }
    }
    // Whatever ended the walk, an open turn is read as a whole or not at all.
    Ok(open.map_or(from, |open| from.min(open)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    TurnStart,
    Chunk,
    Other,
}

/// The event lines of a log from the tip towards its beginning. Seals are not checked: what is
/// chosen by it is read again.
struct Backwards<'a> {
    files: Files<'a>,
    shape: &'a Shape,
    file: Box<dyn DiskFile>,
    base: u64,
    /// What stands from `at` on, up to where the next line ends.
    window: Vec<u8>,
    at: u64,
    /// The seq of the line returned last.
    below: u64,
}

impl<'a> Backwards<'a> {
    fn new(files: Files<'a>, shape: &'a Shape, tip: Tip) -> io::Result<Self> {
        let file = files.disk.open(&files.segment(shape.session(), tip.base), Open::Read)?;
        let at = tip.bytes;
        Ok(Self { files, shape, file, base: tip.base, window: Vec::new(), at, below: tip.seq + 1 })
    }

    /// The seq of the line before, what it is, and how long with its LF; nothing where the log begins
    /// or does not hold what it should.
    fn next(&mut self) -> io::Result<Option<(u64, Kind, usize)>> {
        if self.below == 0 {
            return Ok(None);
        }
        loop {
            // The last byte of the window is the LF of the line that is looked for.
            let before_lf = &self.window[..self.window.len().saturating_sub(1)];
            let begins = match line::find_last_lf(before_lf) {
                Some(lf) => lf + 1,
                None if self.at > 0 => {
                    self.grow()?;
                    continue;
                }
                None if self.window.is_empty() => {
                    if !self.step_back()? {
                        return Ok(None);
                    }
                    continue;
                }
                None => 0,
            };
            let line = &self.window[begins..];
            let event = line
                .len()
                .checked_sub(SUFFIX_LEN + 1)
                .and_then(|end| self.shape.event(&line[..end]));
            let len = line.len();
            let found = event.map(|event| {
                let kind = match event.kind {
                    "turn/start" => Kind::TurnStart,
                    CHUNK => Kind::Chunk,
                    _ => Kind::Other,
                };
                (event.seq, kind, len)
            });
            self.window.truncate(begins);
            match found {
                Some((seq, kind, len)) if seq + 1 == self.below => {
                    self.below = seq;
                    return Ok(Some((seq, kind, len)));
                }
                Some(_) => return Ok(None),
                // A header, an attest line; what is broken shows when it is read.
                None => {}
            }
        }
    }

    /// Puts what stands before the window in front of it.
    fn grow(&mut self) -> io::Result<()> {
        let room = self.at.min(BLOCK_BYTES.max(self.window.len() as u64));
        let mut window = vec![0; room as usize];
        let got = read_full_at(&*self.file, &mut window, self.at - room)?;
        if got < window.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        window.extend_from_slice(&self.window);
        (self.window, self.at) = (window, self.at - room);
        Ok(())
    }

    /// Goes on at the end of the segment before; false if there is none.
    fn step_back(&mut self) -> io::Result<bool> {
        let session = self.shape.session();
        let bases = self.files.listing(session)?.bases;
        let Some(&base) = bases.iter().rev().find(|&&base| base < self.base) else {
            return Ok(false);
        };
        self.file = self.files.disk.open(&self.files.segment(session, base), Open::Read)?;
        (self.base, self.at) = (base, self.file.size()?);
        Ok(true)
    }
}

/// The payload of `session/compacted`, as far as it matters here.
#[derive(Deserialize)]
struct Compacted {
    upto_seq: u64,
}

const CHUNK: &str = "assistant/chunk";
/// How much is read at once.
const BLOCK_BYTES: u64 = 64 * 1024;
