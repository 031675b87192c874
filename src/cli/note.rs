//! The server's log as text: one line an occurrence, for people and grep or for machines.
//!
//! Pure: the time is an argument. A note's values are never trusted to be free of line feeds.

use crate::config::LogFormat;
use crate::proto::json::write_string;
use crate::proto::time::Wall;
use crate::work::note::Note;

/// One line, with its line feed.
pub(super) fn line(note: &Note, at: Wall, format: LogFormat) -> Vec<u8> {
    let mut out = Vec::new();
    match format {
        LogFormat::Text => text(&mut out, note, at),
        LogFormat::Json => json(&mut out, note, at),
    }
    out.push(b'\n');
    out
}

/// `TIME LEVEL EVENT session=ID key=value ...`; a value that is not one plain word is quoted as in
/// JSON.
fn text(out: &mut Vec<u8>, note: &Note, at: Wall) {
    at.write(out);
    out.push(b' ');
    out.extend_from_slice(note.level.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(note.event.as_bytes());
    let session = note.session.as_ref().map(|session| ("session", session.as_str()));
    let fields = note.fields.iter().map(|(key, value)| (*key, value.as_str()));
    for (key, value) in session.into_iter().chain(fields) {
        out.push(b' ');
        out.extend_from_slice(key.as_bytes());
        out.push(b'=');
        if is_plain(value) {
            out.extend_from_slice(value.as_bytes());
        } else {
            write_string(out, value);
        }
    }
}

fn json(out: &mut Vec<u8>, note: &Note, at: Wall) {
    out.extend_from_slice(b"{\"at\":\"");
    at.write(out);
    out.push(b'"');
    let session = note.session.as_ref().map(|session| ("session", session.as_str()));
    let fields = note.fields.iter().map(|(key, value)| (*key, value.as_str()));
    let head = [("level", note.level.as_str()), ("event", note.event)];
    for (key, value) in head.into_iter().chain(session).chain(fields) {
        out.push(b',');
        write_string(out, key);
        out.push(b':');
        write_string(out, value);
    }
    out.push(b'}');
}

fn is_plain(value: &str) -> bool {
    !value.is_empty() && value.chars().all(|c| !c.is_whitespace() && !c.is_control() && c != '"')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::ident::SessionId;
    use crate::work::note::Level;

    fn shown(note: &Note, format: LogFormat) -> String {
        String::from_utf8(line(note, Wall(0), format)).unwrap()
    }

    #[test]
    fn a_note_is_one_line_that_grep_and_jq_understand() {
        let session = SessionId::parse("s1").unwrap();
        let note = Note::new(Level::Info, "turn ended")
            .about(&session)
            .with("status", "failed")
            .with("steps", 2)
            .with("cause", "no \"such\"\nmodel\x1b[2J")
            .with("model", "");
        assert_eq!(
            shown(&note, LogFormat::Text),
            "1970-01-01T00:00:00.000000Z info turn ended session=s1 status=failed steps=2 \
             cause=\"no \\\"such\\\"\\nmodel\\u001b[2J\" model=\"\"\n"
        );
        assert_eq!(
            shown(&note, LogFormat::Json),
            "{\"at\":\"1970-01-01T00:00:00.000000Z\",\"level\":\"info\",\"event\":\"turn ended\",\
             \"session\":\"s1\",\"status\":\"failed\",\"steps\":\"2\",\
             \"cause\":\"no \\\"such\\\"\\nmodel\\u001b[2J\",\"model\":\"\"}\n"
        );
    }

    #[test]
    fn a_note_about_nothing_in_particular() {
        let note = Note::new(Level::Error, "accept failed");
        assert_eq!(
            shown(&note, LogFormat::Text),
            "1970-01-01T00:00:00.000000Z error accept failed\n"
        );
    }
}
