//! Masking (RFC 6455, 5.3): the same function masks and unmasks.
//!
//! Knows nothing of frames; the caller carries the position within the payload.

/// XORs `buf` with `mask`, as the part of a payload that begins `offset` bytes into it.
///
/// Only `offset` modulo 4 matters.
pub fn apply(buf: &mut [u8], mask: [u8; 4], offset: usize) {
    let mut key = mask;
    key.rotate_left(offset % 4);
    let [a, b, c, d] = key;
    // Eight bytes at a time; both word and key are in memory order, so no byte order comes in.
    let wide_key = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, tail) = buf.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide_key).to_ne_bytes();
    }
    for (byte, key) in tail.iter_mut().zip(key.into_iter().cycle()) {
        *byte ^= key;
    }
}
