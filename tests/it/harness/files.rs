//! The log as it lies on disk, read without the code that wrote it: `design/log-format.md` only.

use std::fs;
use std::path::{Path, PathBuf};

/// `,"ack":"…12…","crc":"…8…"}`, and with `{` for the first comma a line of its own.
const SEAL_LEN: usize = 39;

/// The segments of a session in order.
pub(crate) fn segments(data_dir: &Path, session: &str) -> Vec<PathBuf> {
    let folder = data_dir.join("sessions").join(session);
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.strip_suffix(".jsonl").is_some_and(|base| base.len() == 20)
        })
        .collect();
    found.sort();
    found
}

/// The wire form of every event in the files, each line's seal checked on the way.
pub(crate) fn envelopes(data_dir: &Path, session: &str) -> Vec<String> {
    let prefix = format!(r#""session_id":"{session}","seq":"#);
    let mut found = Vec::new();
    for segment in segments(data_dir, session) {
        let text = fs::read_to_string(&segment).unwrap();
        assert!(text.ends_with('\n'), "{}: the last line has no LF", segment.display());
        for line in text.lines() {
            let body = unsealed(line);
            // `{"id":"…16…",` stands before the session id of an event, of nothing else.
            if body.get(25..).is_some_and(|rest| rest.starts_with(&prefix)) {
                found.push(format!("{body}}}"));
            }
        }
    }
    found
}

/// The line without its seal, which must hold.
fn unsealed(line: &str) -> &str {
    let (body, seal) = line.split_at(line.len() - SEAL_LEN);
    let opening = if body.is_empty() { '{' } else { ',' };
    assert!(seal.starts_with(&format!(r#"{opening}"ack":""#)), "{line}");
    let before_crc = &line[..line.len() - r#","crc":"00000000"}"#.len()];
    let crc = format!(r#","crc":"{:08x}"}}"#, crc32c(before_crc.as_bytes()));
    assert!(line.ends_with(&crc), "{line}: expected {crc}");
    body
}

/// CRC-32C bit by bit, from the polynomial.
fn crc32c(bytes: &[u8]) -> u32 {
    const REVERSED_POLYNOMIAL: u32 = 0x82F6_3B78;
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc: u32, _| {
            if crc & 1 == 1 { crc >> 1 ^ REVERSED_POLYNOMIAL } else { crc >> 1 }
        })
    })
}

#[test]
fn the_tests_own_crc_is_crc_32c() {
    assert_eq!(crc32c(b"123456789"), 0xE306_9283);
}
