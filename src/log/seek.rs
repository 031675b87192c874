//! Finds an event in a segment by binary search over its text.
//!
//! The seq of a line stands at a position that only the session's id decides, so any line can be
//! asked for it by its first bytes, and no index file can disagree with the log. Reading is the
//! caller's: it passes a function that fills a buffer from a position.
//!
//! The answer is a place to look, not a proof: seals are not checked here, and damage may mislead the
//! search. Whoever reads there checks the line, and on a miss scans instead.

use super::line::{self, Shape};

/// Where the event line `want` begins among the first `end` bytes of a segment, if the search meets
/// it. `read` fills a buffer from a position in the file and says how many bytes it got.
pub fn seek<E>(
    shape: &Shape,
    want: u64,
    end: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
) -> Result<Option<u64>, E> {
    // The line, if it is there, begins in low..high; `low` is where some line begins.
    let (mut low, mut high) = (0, end);
    while high - low > WALK_BYTES {
        let middle = low.midpoint(high);
        match first_event(shape, middle, high, end, PROBE_BYTES, |_| true, &mut read)? {
            Some((begins, seq)) if seq == want => return Ok(Some(begins)),
            Some((begins, seq)) if seq < want => low = begins,
            // No event line that begins behind the middle is at or below the wanted one.
            _ => high = middle + 1,
        }
    }
    let step = (high - low) as usize + shape.prefix_len();
    // The search begins on the LF before `low`; the header, which begins the file, is no event.
    let from = low.saturating_sub(1);
    let found = first_event(shape, from, high, end, step, |seq| seq == want, &mut read)?;
    Ok(found.map(|(begins, _)| begins))
}

/// A range this small is read at once and walked line by line.
const WALK_BYTES: u64 = 32 * 1024;
/// How much one probe reads; most lines are shorter.
const PROBE_BYTES: usize = 2 * 1024;

/// The first event line that is wanted and begins behind the first LF at or after `from`, but before
/// `high`. Reads `step` bytes at a time and never at or behind `end`.
fn first_event<E>(
    shape: &Shape,
    from: u64,
    high: u64,
    end: u64,
    step: usize,
    wanted: impl Fn(u64) -> bool,
    read: &mut impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
) -> Result<Option<(u64, u64)>, E> {
    let mut window: Vec<u8> = Vec::new();
    // `window[start..]` is what stands from `at` on.
    let (mut at, mut start) = (from, 0);
    loop {
        let Some(lf) = line::find_lf(&window[start..]) else {
            at += (window.len() - start) as u64;
            window.clear();
            start = 0;
            if at >= high || !grow(&mut window, at, end, step, read)? {
                return Ok(None);
            }
            continue;
        };
        at += lf as u64 + 1;
        start += lf + 1;
        if at >= high {
            return Ok(None);
        }
        if window.len() - start < shape.prefix_len() {
            let from = at + (window.len() - start) as u64;
            grow(&mut window, from, end, step, read)?;
        }
        if let Some((seq, _)) = shape.seq(&window[start..])
            && wanted(seq)
        {
            return Ok(Some((at, seq)));
        }
    }
}

/// Appends up to `step` bytes that stand at `from`, but none at or behind `end`; false if there are
/// none.
fn grow<E>(
    window: &mut Vec<u8>,
    from: u64,
    end: u64,
    step: usize,
    read: &mut impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
) -> Result<bool, E> {
    let room = end.saturating_sub(from).min(step as u64) as usize;
    let old = window.len();
    window.resize(old + room, 0);
    let got = if room == 0 { 0 } else { read(from, &mut window[old..])? };
    window.truncate(old + got);
    Ok(got > 0)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::proto::event::write_envelope;
    use crate::proto::ident::{EventId, SessionId};
    use crate::proto::payload::Body;
    use crate::proto::time::Wall;

    /// A segment's worth of lines after something that is none, and where each begins.
    fn segment(shape: &Shape, base: u64, lengths: &[usize]) -> (Vec<u8>, Vec<usize>) {
        let mut text = b"{\"log\":1}\n".to_vec();
        let mut begins = Vec::new();
        for (seq, &length) in (base..).zip(lengths) {
            begins.push(text.len());
            let body = Body::UserMessage { text: "x".repeat(length) };
            let start = text.len();
            write_envelope(&mut text, EventId(seq), shape.session(), seq, Wall(0), &body);
            line::seal(&mut text, start, base);
            if seq % 5 == 0 {
                line::write_attest(&mut text, seq);
            }
        }
        (text, begins)
    }

    /// Seeks in `text`, counting reads and the bytes they ask for.
    fn find(shape: &Shape, text: &[u8], want: u64, end: usize) -> (Option<u64>, usize, usize) {
        let (mut reads, mut bytes) = (0, 0);
        let Ok(place) = seek(shape, want, end as u64, |offset, into: &mut [u8]| {
            let there = &text[offset as usize..];
            let len = there.len().min(into.len());
            into[..len].copy_from_slice(&there[..len]);
            (reads, bytes) = (reads + 1, bytes + into.len());
            assert!(offset as usize + into.len() <= end, "a read beyond the end");
            Ok::<_, Infallible>(len)
        });
        (place, reads, bytes)
    }

    #[test]
    fn every_event_is_found_and_no_other() {
        let shape = Shape::new(SessionId::parse("session").unwrap());
        let mixed: Vec<usize> = (0..400).map(|index| index * 37 % 500).collect();
        let lumps: Vec<usize> =
            (0..60).map(|index| if index % 9 == 0 { 100_000 } else { 3 }).collect();
        for (base, lengths) in [(0, mixed), (999_990, lumps), (5, vec![0]), (5, Vec::new())] {
            let (text, begins) = segment(&shape, base, &lengths);
            for (seq, &place) in (base..).zip(&begins) {
                let (found, ..) = find(&shape, &text, seq, text.len());
                assert_eq!(found, Some(place as u64), "seq {seq}");
                let (found, ..) = find(&shape, &text, seq, place);
                assert_eq!(found, None, "seq {seq} stands behind the end");
            }
            for seq in [base + lengths.len() as u64, u64::MAX] {
                assert_eq!(find(&shape, &text, seq, text.len()).0, None);
            }
        }
    }

    #[test]
    fn a_full_segment_is_searched_with_a_handful_of_small_reads() {
        let shape = Shape::new(SessionId::parse("session").unwrap());
        let (text, begins) = segment(&shape, 0, &vec![100; 16_000]);
        assert!(text.len() > 4 << 20);
        for seq in (0..16_000).step_by(371) {
            let (found, reads, bytes) = find(&shape, &text, seq, text.len());
            assert_eq!(found, Some(begins[seq as usize] as u64));
            assert!(reads <= 10 && bytes <= 64 * 1024, "{reads} reads of {bytes} bytes");
        }
    }
}
