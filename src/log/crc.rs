//! CRC-32C (Castagnoli, RFC 3720 appendix B.4).
//!
//! Knows nothing of lines. Where the processor has an instruction for it, `os` is asked; elsewhere it
//! is sliced by sixteen: table `k` holds what a byte contributes after `k` further bytes, so the
//! sixteen look-ups of one step do not wait for one another.

use crate::os;

/// The CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !os::crc32c(!0, bytes).unwrap_or_else(|| sliced(!0, bytes))
}

/// Where the first LF stands, and the CRC-32C of what is before it but for the last `left_out` bytes,
/// which are 24 at most; in one pass. Nothing if only looking for the one and then for the other tells.
pub fn crc32c_to_lf(bytes: &[u8], left_out: usize) -> Option<(usize, u32)> {
    os::crc32c_to_lf(!0, bytes, left_out).map(|(lf, register)| (lf, !register))
}

/// Takes `bytes` into the register.
fn sliced(mut crc: u32, bytes: &[u8]) -> u32 {
    let mut blocks = bytes.chunks_exact(16);
    for block in &mut blocks {
        let first = u32::from_le_bytes([block[0], block[1], block[2], block[3]]) ^ crc;
        let head = first.to_le_bytes();
        crc = TABLES[15][usize::from(head[0])]
            ^ TABLES[14][usize::from(head[1])]
            ^ TABLES[13][usize::from(head[2])]
            ^ TABLES[12][usize::from(head[3])]
            ^ TABLES[11][usize::from(block[4])]
            ^ TABLES[10][usize::from(block[5])]
            ^ TABLES[9][usize::from(block[6])]
            ^ TABLES[8][usize::from(block[7])]
            ^ TABLES[7][usize::from(block[8])]
            ^ TABLES[6][usize::from(block[9])]
            ^ TABLES[5][usize::from(block[10])]
            ^ TABLES[4][usize::from(block[11])]
            ^ TABLES[3][usize::from(block[12])]
            ^ TABLES[2][usize::from(block[13])]
            ^ TABLES[1][usize::from(block[14])]
            ^ TABLES[0][usize::from(block[15])];
    }
    for &byte in blocks.remainder() {
        crc = (crc >> 8) ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    }
    crc
}

/// The polynomial with its bits reversed, lowest power in the highest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;

static TABLES: [[u32; 256]; 16] = tables();

const fn tables() -> [[u32; 256]; 16] {
    let mut tables = [[0; 256]; 16];
    let mut byte = 0;
    while byte < 256 {
        tables[0][byte] = one_byte(byte as u32);
        byte += 1;
    }
    let mut distance = 1;
    while distance < 16 {
        let mut byte = 0;
        while byte < 256 {
            let nearer = tables[distance - 1][byte];
            tables[distance][byte] = (nearer >> 8) ^ tables[0][(nearer & 0xff) as usize];
            byte += 1;
        }
        distance += 1;
    }
    tables
}

const fn one_byte(byte: u32) -> u32 {
    let mut crc = byte;
    let mut bit = 0;
    while bit < 8 {
        crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
        bit += 1;
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bit_by_bit(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0, |crc, &byte| one_byte((crc ^ u32::from(byte)) & 0xff) ^ (crc >> 8))
    }

    #[test]
    fn the_vectors_of_rfc_3720_hold() {
        let ascending: Vec<u8> = (0..32).collect();
        let descending: Vec<u8> = (0..32).rev().collect();
        for (bytes, crc) in [
            (&b""[..], 0),
            (b"123456789", 0xe306_9283),
            (&[0; 32], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&ascending, 0x46dd_794e),
            (&descending, 0x113f_db5c),
        ] {
            assert_eq!(crc32c(bytes), crc, "{bytes:?}");
            assert_eq!(!sliced(!0, bytes), crc, "{bytes:?}");
        }
    }

    #[test]
    fn every_length_and_offset_agrees_with_one_bit_at_a_time() {
        let bytes: Vec<u8> =
            (0..200_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for from in 0..20 {
            for to in from..bytes.len() {
                let expected = bit_by_bit(&bytes[from..to]);
                assert_eq!(crc32c(&bytes[from..to]), expected, "{from}..{to}");
                assert_eq!(!sliced(!0, &bytes[from..to]), expected, "{from}..{to}");
            }
        }
    }
}
