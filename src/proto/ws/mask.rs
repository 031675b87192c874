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
    // Eight bytes at a time. Word and key are both in memory order: no byte order comes in.
    let wide_key = [a, b, c, d, a, b, c, d];
    let (words, tail) = buf.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ u64::from_ne_bytes(wide_key)).to_ne_bytes();
    }
    for (byte, key) in tail.iter_mut().zip(wide_key) {
        *byte ^= key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

    /// The RFC's own words: octet i is combined with octet i modulo 4 of the key.
    fn naive(buf: &[u8], mask: [u8; 4], offset: usize) -> Vec<u8> {
        buf.iter().enumerate().map(|(i, byte)| byte ^ mask[(offset + i) % 4]).collect()
    }

    #[test]
    fn words_and_tail_agree_with_the_definition() {
        let payload: Vec<u8> = (0..80).map(|i: u8| i.wrapping_mul(37)).collect();
        for start in 0..9 {
            for len in 0..payload.len() - start {
                for offset in 0..9 {
                    let mut buf = payload.clone();
                    let part = &mut buf[start..start + len];
                    let expected = naive(part, KEY, offset);
                    apply(part, KEY, offset);
                    assert_eq!(*part, *expected, "start {start}, len {len}, offset {offset}");
                    assert_eq!(buf[..start], payload[..start]);
                    assert_eq!(buf[start + len..], payload[start + len..]);
                }
            }
        }
    }

    #[test]
    fn a_payload_in_two_parts_is_masked_like_a_whole_one() {
        let payload: Vec<u8> = (0..40).collect();
        let whole = naive(&payload, KEY, 0);
        for cut in 0..=payload.len() {
            let mut parts = payload.clone();
            let (first, second) = parts.split_at_mut(cut);
            apply(first, KEY, 0);
            apply(second, KEY, cut);
            assert_eq!(parts, whole, "cut at {cut}");
        }
    }
}
