//! The bytes a connection still has to send: the bounded queue of the contract's "Backpressure".
//!
//! Two queues leave over one socket. `events` is the ring proper: what the session log says, in
//! order. `protocol` holds what must not wait behind it (errors, pings, pongs, the close): it goes
//! out at the next frame boundary. Nothing here decides what an overflow means; it counts.
//!
//! Server frames are not masked and carry their own length, so the frame boundaries are read off
//! the bytes themselves and no second list of them can disagree.
//!
//! Invariants: a frame that has begun to leave is finished before another begins; live frames are
//! at the back of the ring, behind every replayed one, so `live <= frames`.

use std::collections::VecDeque;
use std::io::IoSlice;

/// Frames in the order they leave.
#[derive(Debug, Default)]
struct Frames {
    /// Whole frames that were given in one piece, and of the first piece `sent` bytes have left.
    pieces: VecDeque<Vec<u8>>,
    sent: usize,
    /// The space of the last piece that has left, until it is asked for.
    left: Option<Vec<u8>>,
    /// What goes behind the pieces.
    bytes: VecDeque<u8>,
    /// Bytes still to go of the frame at the front, when it has begun to leave.
    started: usize,
    /// Whole frames in `bytes`, the started one not counted.
    whole: usize,
}

impl Frames {
    fn push(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.bytes.extend(*part);
        }
        self.whole += 1;
    }

    /// Takes over whole frames as they are.
    fn push_piece(&mut self, frames: Vec<u8>) {
        if !self.bytes.is_empty() {
            self.pieces.push_back(std::mem::take(&mut self.bytes).into());
            self.whole = 0;
        }
        self.pieces.push_back(frames);
    }

    /// Bytes that are no frame; they count as one that has begun to leave.
    fn push_raw(&mut self, bytes: &[u8]) {
        assert!(self.whole == 0 && self.pieces.is_empty(), "raw bytes never follow frames");
        self.bytes.extend(bytes);
        self.started += bytes.len();
    }

    fn drop_unstarted(&mut self) {
        self.pieces.truncate(1);
        match self.pieces.front_mut() {
            Some(_) if self.started == 0 => *self = Self::default(),
            // What has begun to leave lies in one piece.
            Some(piece) => {
                piece.truncate(self.sent + self.started);
                self.bytes = VecDeque::new();
            }
            None if self.started == 0 => self.bytes = VecDeque::new(),
            None => self.bytes.truncate(self.started),
        }
        self.whole = 0;
    }

    /// Takes up to `n` bytes off the front and says how many.
    fn advance(&mut self, n: usize) -> usize {
        let mut left = n;
        while let Some(piece) = self.pieces.front() {
            let rest = &piece[self.sent..];
            if left < rest.len() {
                let started = |at: usize| frame_len(|i| rest[at + i]);
                (self.started, _) = walk(self.started, left, started);
                self.sent += left;
                return n;
            }
            // Where its frames begin does not matter any more.
            left -= rest.len();
            (self.started, self.sent) = (0, 0);
            self.left = self.pieces.pop_front();
        }
        let taken = left.min(self.bytes.len());
        let started = |at: usize| frame_len(|i| self.bytes[at + i]);
        let begun;
        (self.started, begun) = walk(self.started, taken, started);
        self.whole -= begun;
        if taken == self.bytes.len() {
            // Given back, not kept for the next time: most connections are idle most of the time.
            self.bytes = VecDeque::new();
        } else {
            self.bytes.drain(..taken);
        }
        n - left + taken
    }

    /// All of it, in order.
    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let (front, back) = self.bytes.as_slices();
        let pieces = self.pieces.iter().enumerate();
        let pieces = pieces.map(|(index, piece)| &piece[if index == 0 { self.sent } else { 0 }..]);
        pieces.chain([front, back])
    }

    fn len(&self) -> usize {
        self.parts().map(<[u8]>::len).sum()
    }

    fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.bytes.is_empty()
    }
}

/// Goes over `n` bytes that begin with the last `started` of a frame; `len_at` is the length of the frame
/// that begins at a place. What is left then of the last frame, and how many have begun.
fn walk(mut started: usize, n: usize, len_at: impl Fn(usize) -> usize) -> (usize, usize) {
    let (mut at, mut begun) = (started.min(n), 0);
    started -= at;
    while at < n {
        let len = len_at(at);
        let step = len.min(n - at);
        started = len - step;
        at += step;
        begun += 1;
    }
    (started, begun)
}

/// The length of a frame of such bytes, head included (RFC 6455 section 5.2).
fn frame_len(byte: impl Fn(usize) -> u8) -> usize {
    let byte = |i| usize::from(byte(i));
    match byte(1) {
        126 => 4 + (byte(2) << 8 | byte(3)),
        127 => 10 + (2..10).fold(0, |length, i| length << 8 | byte(i)),
        short => 2 + short,
    }
}

/// All that one connection still has to send.
#[derive(Debug, Default)]
pub struct Outbox {
    events: Frames,
    protocol: Frames,
    /// Frames and bytes pushed by the live tail since the ring last held none of them; an upper
    /// bound, cut to what is left by `live`.
    live_frames: usize,
    live_bytes: usize,
}

/// How many slices [`Outbox::slices`] may yield.
pub const SLICES_MAX: usize = 6;

impl Outbox {
    /// Queues bytes that are not a frame: the answer to a handshake, or a whole HTTP response.
    pub fn push_raw(&mut self, bytes: &[u8]) {
        self.events.push_raw(bytes);
    }

    /// Queues a frame of the session's stream; `live` when it comes from the live tail, which is
    /// all that may overflow.
    pub fn push_event(&mut self, parts: &[&[u8]], live: bool) {
        self.events.push(parts);
        if live {
            self.live_frames += 1;
            self.live_bytes += parts.iter().map(|part| part.len()).sum::<usize>();
        }
    }

    /// Makes room for frames of so many bytes that are about to be queued.
    pub fn reserve(&mut self, bytes: usize) {
        self.events.bytes.reserve(bytes);
    }

    /// Queues whole frames of the session's stream that are no live ones, without a copy.
    pub fn push_piece(&mut self, frames: Vec<u8>) {
        self.events.push_piece(frames);
    }

    /// Queues a frame that goes out ahead of the session's stream.
    pub fn push_protocol(&mut self, frame: &[u8]) {
        self.protocol.push(&[frame]);
    }

    /// Forgets the session's frames that have not begun to leave.
    pub fn drop_events(&mut self) {
        self.events.drop_unstarted();
        (self.live_frames, self.live_bytes) = (0, 0);
    }

    /// Forgets everything that has not begun to leave.
    pub fn drop_all(&mut self) {
        self.drop_events();
        self.protocol.drop_unstarted();
    }

    /// What to hand to one vectored write, in order. At most [`SLICES_MAX`] slices.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES_MAX]) -> usize {
        let mut count = 0;
        let mut show = |part: &'a [u8]| {
            if !part.is_empty() && count < SLICES_MAX {
                slices[count] = IoSlice::new(part);
                count += 1;
            }
        };
        // The started frame may itself lie across the end of the ring.
        let mut split = self.events.started;
        for part in self.events.parts() {
            let first = &part[..split.min(part.len())];
            split -= first.len();
            show(first);
        }
        self.protocol.parts().for_each(&mut show);
        let mut split = self.events.started;
        for part in self.events.parts() {
            let (first, rest) = part.split_at(split.min(part.len()));
            split -= first.len();
            show(rest);
        }
        count
    }

    /// Says that the socket took `n` bytes of what [`Outbox::slices`] showed. Returns the space of a
    /// piece that has left with them.
    pub fn advance(&mut self, mut n: usize) -> Option<Vec<u8>> {
        n -= self.events.advance(n.min(self.events.started));
        n -= self.protocol.advance(n);
        let taken = self.events.advance(n);
        assert!(taken == n, "no more can be taken than was shown");
        if self.events.whole == 0 {
            (self.live_frames, self.live_bytes) = (0, 0);
        }
        self.events.left.take()
    }

    /// Frames and bytes of the live tail that wait here. Of a frame that has begun to leave, what is
    /// left counts as bytes, and no longer as a frame.
    pub fn live(&self) -> (usize, usize) {
        (self.live_frames.min(self.events.whole), self.live_bytes.min(self.events.bytes.len()))
    }

    /// Bytes of the session's stream that wait here.
    pub fn event_bytes(&self) -> usize {
        self.events.len()
    }

    /// Bytes of protocol frames that wait here.
    pub fn protocol_bytes(&self) -> usize {
        self.protocol.len()
    }

    /// Whether nothing is left to send.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.protocol.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(byte: u8, payload: usize) -> Vec<u8> {
        let mut out = vec![0x81];
        match payload {
            0..126 => out.push(payload as u8),
            126..65536 => {
                out.push(126);
                out.extend((payload as u16).to_be_bytes());
            }
            _ => {
                out.push(127);
                out.extend((payload as u64).to_be_bytes());
            }
        }
        out.resize(out.len() + payload, byte);
        out
    }

    fn shown(outbox: &Outbox) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = outbox.slices(&mut slices);
        slices[..count].iter().flat_map(|slice| slice.to_vec()).collect()
    }

    #[test]
    fn frames_leave_in_order_whatever_the_socket_takes_at_a_time() {
        let short = vec![frame(b'a', 3), frame(b'b', 200), frame(b'd', 0)];
        let long = vec![frame(b'a', 3), frame(b'c', 70_000), frame(b'd', 0)];
        let table = [
            (1, &short),
            (2, &short),
            (3, &short),
            (7, &short),
            (203, &long),
            (65_536, &long),
            (usize::MAX, &long),
        ];
        for (take, frames) in table {
            // So many of them come in pieces, of two frames if there are.
            for in_pieces in 0..=frames.len() {
                let all = frames.concat();
                let mut outbox = Outbox::default();
                for piece in frames[..in_pieces].chunks(2) {
                    outbox.push_piece(piece.concat());
                }
                for frame in &frames[in_pieces..] {
                    outbox.push_event(&[&frame[..2], &frame[2..]], true);
                }
                let mut got: Vec<u8> = Vec::new();
                while !outbox.is_empty() {
                    let bytes = shown(&outbox);
                    assert_eq!(bytes.len(), outbox.event_bytes());
                    let n = take.min(bytes.len());
                    got.extend(&bytes[..n]);
                    outbox.advance(n);
                }
                assert_eq!(got, all, "taking {take} bytes at a time, {in_pieces} in pieces");
                assert_eq!(outbox.live(), (0, 0));
            }
        }
    }

    /// Two frames that wait: each by itself, in pieces of their own, in one piece, the second alone in one.
    fn two_frames(a: &[u8], b: &[u8]) -> [Outbox; 4] {
        let mut outboxes: [Outbox; 4] = Default::default();
        let [single, pieces, piece, second] = &mut outboxes;
        single.push_event(&[a], true);
        single.push_event(&[b], true);
        pieces.push_piece(a.to_vec());
        pieces.push_piece(b.to_vec());
        piece.push_piece([a, b].concat());
        second.push_event(&[a], false);
        second.push_piece(b.to_vec());
        outboxes
    }

    #[test]
    fn a_protocol_frame_goes_out_at_the_next_frame_boundary() {
        let (a, b, ping) = (frame(b'a', 4), frame(b'b', 4), frame(b'p', 1));
        for taken in 0..=a.len() {
            for mut outbox in two_frames(&a, &b) {
                outbox.advance(taken);
                outbox.push_protocol(&ping);
                let started = if taken == 0 || taken == a.len() { 0 } else { a.len() - taken };
                let rest = [&a[..], &b].concat()[taken..].to_vec();
                let want = [&rest[..started], &ping, &rest[started..]].concat();
                assert_eq!(shown(&outbox), want, "after {taken} bytes");
            }
        }
    }

    #[test]
    fn a_protocol_frame_that_has_begun_is_finished_before_the_stream_goes_on() {
        let (a, ping) = (frame(b'a', 4), frame(b'p', 3));
        let mut outbox = Outbox::default();
        outbox.push_protocol(&ping);
        outbox.push_event(&[&a], false);
        outbox.advance(2);
        outbox.push_protocol(&ping);
        assert_eq!(shown(&outbox), [&ping[2..], &ping, &a].concat());
    }

    #[test]
    fn dropping_keeps_the_frame_that_has_begun_to_leave() {
        let (a, b, ping) = (frame(b'a', 4), frame(b'b', 4), frame(b'p', 3));
        for mut outbox in two_frames(&a, &b) {
            outbox.push_protocol(&ping);
            outbox.advance(ping.len() + 1);
            outbox.push_protocol(&ping);
            outbox.drop_all();
            assert_eq!(shown(&outbox), a[1..]);
            assert_eq!(outbox.live(), (0, 0));
            outbox.push_piece(b.clone());
            outbox.advance(a.len() - 1);
            assert_eq!(shown(&outbox), b);
            outbox.drop_all();
            assert!(outbox.is_empty());
        }
    }

    #[test]
    fn only_what_the_live_tail_pushed_counts_as_live() {
        let a = frame(b'a', 4);
        let mut outbox = Outbox::default();
        outbox.push_event(&[&a], false);
        outbox.push_event(&[&a], false);
        assert_eq!(outbox.live(), (0, 0));
        outbox.push_event(&[&a], true);
        assert_eq!(outbox.live(), (1, a.len()));
        outbox.advance(a.len() * 2);
        assert_eq!(outbox.live(), (1, a.len()));
        outbox.advance(1);
        assert_eq!(outbox.live().0, 0, "what has begun to leave no longer waits");
    }

    #[test]
    fn raw_bytes_go_first_and_hold_back_frames_until_they_are_out() {
        let mut outbox = Outbox::default();
        outbox.push_raw(b"HTTP/1.1 101\r\n\r\n");
        outbox.push_protocol(&frame(b'h', 2));
        outbox.advance(4);
        assert_eq!(shown(&outbox), [b"/1.1 101\r\n\r\n".as_slice(), &frame(b'h', 2)].concat());
        outbox.drop_all();
        assert_eq!(shown(&outbox), b"/1.1 101\r\n\r\n");
    }

    #[test]
    fn memory_is_given_back_when_the_ring_is_drained() {
        let mut outbox = Outbox::default();
        outbox.push_event(&[&frame(b'a', 1 << 20)], true);
        let n = outbox.event_bytes();
        outbox.advance(n);
        assert_eq!(outbox.events.bytes.capacity(), 0);
    }
}
