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
    let mut found = Vec::new();
    for segment in segments(data_dir, session) {
        let text = fs::read_to_string(&segment).unwrap();
        assert!(text.ends_with('\n'), "{}: the last line has no LF", segment.display());
        for line in text.lines() {
            let body = unsealed(line).unwrap_or_else(|| panic!("a bad seal: {line}"));
            found.extend(envelope(body, session));
        }
    }
    found
}

/// The same of a session whose server was killed: what stands behind the last sound line of the last
/// segment is not there.
pub(crate) fn survivors(data_dir: &Path, session: &str) -> Vec<String> {
    let mut found = Vec::new();
    for segment in segments(data_dir, session) {
        let bytes = fs::read(&segment).unwrap();
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let whole = lines.map_while(|line| std::str::from_utf8(line.strip_suffix(b"\n")?).ok());
        found.extend(whole.map_while(unsealed).filter_map(|body| envelope(body, session)));
    }
    found
}

/// The wire form of a line, if it is that of an event.
fn envelope(body: &str, session: &str) -> Option<String> {
    let after_id = body.get(r#"{"id":"0123456789abcdef","#.len()..)?;
    let of_event = after_id.strip_prefix(r#""session_id":""#)?.strip_prefix(session)?;
    of_event.starts_with(r#"","seq":"#).then(|| format!("{body}}}"))
}

/// The line without its seal, if that holds.
fn unsealed(line: &str) -> Option<&str> {
    let (body, seal) = line.split_at_checked(line.len().checked_sub(SEAL_LEN)?)?;
    let opening = if body.is_empty() { '{' } else { ',' };
    let (before_crc, crc) = line.split_at(line.len() - r#","crc":"00000000"}"#.len());
    let holds = seal.starts_with(&format!(r#"{opening}"ack":""#))
        && crc == format!(r#","crc":"{:08x}"}}"#, crc32c(before_crc.as_bytes()));
    holds.then_some(body)
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
