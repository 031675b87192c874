//! The writer: strings. Everything else we write around them is spelled out by hand in its place.

use crate::proto::swar::json_plain_len;

/// Appends `text` as a JSON string with its quotes. No byte below 0x20 is ever written, so a written
/// string never breaks a line of the log.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, special) = rest.split_at(json_plain_len(rest));
        out.extend_from_slice(plain);
        let Some((&byte, behind)) = special.split_first() else { break };
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            control => {
                let hex = |digit: u8| b"0123456789abcdef"[usize::from(digit)];
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[hex(control >> 4), hex(control & 0xf)]);
            }
        }
        rest = behind;
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_where_json_says_so_and_nowhere_else() {
        for (text, written) in [
            ("", r#""""#),
            ("plain / ä 😀 \u{7f}\u{2028}", "\"plain / ä 😀 \u{7f}\u{2028}\""),
            ("\"\\\n\r\t\u{8}\u{c}", r#""\"\\\n\r\t\b\f""#),
            ("\0a\u{1f}\u{b}", r#""\u0000a\u001f\u000b""#),
        ] {
            let mut out = b"x".to_vec();
            write_string(&mut out, text);
            assert_eq!(String::from_utf8(out).expect("text"), format!("x{written}"));
        }
    }
}
