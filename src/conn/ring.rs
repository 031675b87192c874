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
    bytes: VecDeque<u8>,
    /// Bytes still to go of the frame at the front, when it has begun to leave.
    started: usize,
    /// Whole frames in `bytes`, the started one not counted.
    whole: usize,
}

impl Frames {
    fn push(&mut self, parts: &[&[u8]]) {
        self.bytes.reserve(parts.iter().map(|part| part.len()).sum());
        for part in parts {
            self.bytes.extend(*part);
        }
        self.whole += 1;
    }

    /// Bytes that are no frame; they count as one that has begun to leave.
    fn push_raw(&mut self, bytes: &[u8]) {
        assert!(self.whole == 0, "raw bytes never follow frames");
        self.bytes.extend(bytes);
        self.started += bytes.len();
    }

    fn drop_unstarted(&mut self) {
        self.bytes.truncate(self.started);
        self.whole = 0;
        if self.bytes.is_empty() {
            self.bytes = VecDeque::new();
        }
    }

    /// Takes up to `n` bytes off the front and says how many.
    fn advance(&mut self, n: usize) -> usize {
        let n = n.min(self.bytes.len());
        let mut at = 0;
        while at < n {
            if self.started == 0 {
                self.started = self.frame_len(at);
                self.whole -= 1;
            }
            let step = self.started.min(n - at);
            self.started -= step;
            at += step;
        }
        if n == self.bytes.len() {
            // Given back, not kept for the next time: most connections are idle most of the time.
            self.bytes = VecDeque::new();
        } else {
            self.bytes.drain(..n);
        }
        n
    }

    /// The length of the frame that begins at `at`, head included (RFC 6455 section 5.2).
    fn frame_len(&self, at: usize) -> usize {
        let byte = |i: usize| usize::from(self.bytes[at + i]);
        match byte(1) {
            126 => 4 + (byte(2) << 8 | byte(3)),
            127 => 10 + (2..10).fold(0, |length, i| length << 8 | byte(i)),
            short => 2 + short,
        }
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
        let (front, back) = self.events.bytes.as_slices();
        // The started frame may itself lie across the end of the ring.
        let split = self.events.started;
        let (front_first, front_rest) = front.split_at(split.min(front.len()));
        let (back_first, back_rest) = back.split_at(split - front_first.len());
        let (urgent, more_urgent) = self.protocol.bytes.as_slices();
        let mut count = 0;
        for part in [front_first, back_first, urgent, more_urgent, front_rest, back_rest] {
            if !part.is_empty() {
                slices[count] = IoSlice::new(part);
                count += 1;
            }
        }
        count
    }

    /// Says that the socket took `n` bytes of what [`Outbox::slices`] showed.
    pub fn advance(&mut self, mut n: usize) {
        n -= self.events.advance(n.min(self.events.started));
        n -= self.protocol.advance(n);
        let taken = self.events.advance(n);
        assert!(taken == n, "no more can be taken than was shown");
        if self.events.whole == 0 {
            (self.live_frames, self.live_bytes) = (0, 0);
        }
    }

    /// Frames and bytes of the live tail that wait here. Of a frame that has begun to leave, what is
    /// left counts as bytes, and no longer as a frame.
    pub fn live(&self) -> (usize, usize) {
        (self.live_frames.min(self.events.whole), self.live_bytes.min(self.events.bytes.len()))
    }

    /// Bytes of the session's stream that wait here.
    pub fn event_bytes(&self) -> usize {
        self.events.bytes.len()
    }

    /// Bytes of protocol frames that wait here.
    pub fn protocol_bytes(&self) -> usize {
        self.protocol.bytes.len()
    }

    /// Whether nothing is left to send.
    pub fn is_empty(&self) -> bool {
        self.events.bytes.is_empty() && self.protocol.bytes.is_empty()
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
            let all = frames.concat();
            let mut outbox = Outbox::default();
            for frame in frames {
                outbox.push_event(&[&frame[..2], &frame[2..]], true);
            }
            let mut got: Vec<u8> = Vec::new();
            while !outbox.is_empty() {
                let bytes = shown(&outbox);
                let n = take.min(bytes.len());
                got.extend(&bytes[..n]);
                outbox.advance(n);
            }
            assert_eq!(got, all, "taking {take} bytes at a time");
            assert_eq!(outbox.live(), (0, 0));
        }
    }

    #[test]
    fn a_protocol_frame_goes_out_at_the_next_frame_boundary() {
        let (a, b, ping) = (frame(b'a', 4), frame(b'b', 4), frame(b'p', 1));
        for taken in 0..=a.len() {
            let mut outbox = Outbox::default();
            outbox.push_event(&[&a], true);
            outbox.push_event(&[&b], true);
            outbox.advance(taken);
            outbox.push_protocol(&ping);
            let started = if taken == 0 || taken == a.len() { 0 } else { a.len() - taken };
            let rest = [&a[..], &b].concat()[taken..].to_vec();
            let want = [&rest[..started], &ping, &rest[started..]].concat();
            assert_eq!(shown(&outbox), want, "after {taken} bytes");
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
        let mut outbox = Outbox::default();
        outbox.push_event(&[&a], true);
        outbox.push_event(&[&b], true);
        outbox.push_protocol(&ping);
        outbox.advance(ping.len() + 1);
        outbox.push_protocol(&ping);
        outbox.drop_all();
        assert_eq!(shown(&outbox), a[1..]);
        assert_eq!(outbox.live(), (0, 0));
        outbox.advance(a.len() - 1);
        assert!(outbox.is_empty());
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
