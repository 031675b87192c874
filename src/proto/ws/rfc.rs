//! RFC 6455 section by section: what each demands of a reader, as a table of frames and what is
//! made of them. Every row is read whole, byte by byte and cut in two at every place.

#![expect(
    clippy::unnecessary_wraps,
    reason = "an expectation is spelled like the transcript it meets"
)]

use std::borrow::Cow;

use super::error::ProtocolError as E;
use super::fuzz::{Transcript, read};
use super::message::{Item, Role};
use super::testing::{client, read_every_way, server};
use super::{CloseCode, write_ping, write_pong, write_text};

const MAX: usize = 1 << 17;

/// A row: what it shows, the stream, what a server makes of it.
type Row = (&'static str, Vec<Vec<u8>>, Transcript);

fn check(rows: Vec<Row>) {
    for (what, frames, expected) in rows {
        let transcript = read_every_way(Role::Server, MAX, &frames.concat());
        assert_eq!(transcript, expected, "{what}");
    }
}

fn text(text: &str) -> Result<Item<'static>, E> {
    Ok(Item::Text(Cow::Owned(text.to_owned())))
}

fn binary(payload: &[u8]) -> Result<Item<'static>, E> {
    Ok(Item::Binary(Cow::Owned(payload.to_owned())))
}

fn ping(payload: &[u8]) -> Result<Item<'static>, E> {
    Ok(Item::Ping(Cow::Owned(payload.to_owned())))
}

fn pong(payload: &[u8]) -> Result<Item<'static>, E> {
    Ok(Item::Pong(Cow::Owned(payload.to_owned())))
}

fn close(code: u16, reason: &str) -> Result<Item<'static>, E> {
    let code = CloseCode::new(code).expect("the row names a code that may be sent");
    Ok(Item::Close(Some((code, Cow::Owned(reason.to_owned())))))
}

#[test]
fn section_5_1_clients_mask_and_servers_do_not() {
    for first in [0x81, 0x01, 0x82, 0x88, 0x89, 0x8a] {
        for payload in [&b""[..], b"\x11\x39"] {
            let (masked, unmasked) = (client(first, payload), server(first, payload));
            assert_eq!(read_every_way(Role::Server, MAX, &unmasked), [Err(E::Unmasked)]);
            assert_eq!(read_every_way(Role::Client, MAX, &masked), [Err(E::Masked)]);
            assert!(read_every_way(Role::Server, MAX, &masked).iter().all(Result::is_ok));
            assert!(read_every_way(Role::Client, MAX, &unmasked).iter().all(Result::is_ok));
        }
    }
}

#[test]
fn section_5_2_reserved_bits_and_opcodes_fail_the_connection() {
    for opcode in 0..16 {
        for reserved_bits in 1..8 {
            let frame = client(0x80 | reserved_bits << 4 | opcode, b"");
            assert_eq!(read_every_way(Role::Server, MAX, &frame), [Err(E::ReservedBits)]);
        }
        if matches!(opcode, 3..=7 | 11..=15) {
            for fin in [0, 0x80] {
                let frame = client(fin | opcode, b"x");
                let transcript = read_every_way(Role::Server, MAX, &frame);
                assert_eq!(transcript, [Err(E::ReservedOpcode(opcode))]);
            }
        }
    }
}

#[test]
fn section_5_2_a_length_is_written_in_its_shortest_form() {
    for len in [0, 1, 125, 126, 127, 0xffff, 0x1_0000] {
        let payload = "x".repeat(len);
        let frame = client(0x81, payload.as_bytes());
        assert_eq!(read_every_way(Role::Server, MAX, &frame), [text(&payload)], "{len}");
    }
    let faults: [(&[u8], E); 6] = [
        (&[0xfe, 0, 0], E::LengthNotMinimal),
        (&[0xfe, 0, 125], E::LengthNotMinimal),
        (&[0xff, 0, 0, 0, 0, 0, 0, 0, 1], E::LengthNotMinimal),
        (&[0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff], E::LengthNotMinimal),
        (&[0xff, 0x80, 0, 0, 0, 0, 0, 0, 0], E::LengthTopBit),
        (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], E::LengthTopBit),
    ];
    for (length, fault) in faults {
        let frame = [&[0x81], length, &[1, 2, 3, 4]].concat();
        assert_eq!(read_every_way(Role::Server, MAX, &frame), [Err(fault)], "{length:x?}");
    }
}

#[test]
fn section_5_3_every_frame_has_a_key_of_its_own() {
    let frames = [
        &b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"[..],
        b"\x81\x85\x00\x00\x00\x00Hello",
        b"\x81\x85\xff\xff\xff\xff\xb7\x9a\x93\x93\x90",
        b"\x01\x83\x37\xfa\x21\x3d\x7f\x9f\x4d\x80\x82\x01\x02\x03\x04\x6d\x6d",
    ];
    let transcript = read_every_way(Role::Server, MAX, &frames.concat());
    assert_eq!(transcript, vec![text("Hello"); 4]);
}

#[test]
fn section_5_4_fragments_are_joined_around_control_frames() {
    check(vec![
        ("two fragments", vec![client(0x01, b"Hel"), client(0x80, b"lo")], vec![text("Hello")]),
        (
            "many fragments",
            vec![
                client(0x01, b"H"),
                client(0x00, b"e"),
                client(0x00, b"l"),
                client(0x00, b"lo"),
                client(0x80, b"!"),
            ],
            vec![text("Hello!")],
        ),
        (
            "empty fragments",
            vec![
                client(0x01, b""),
                client(0, b""),
                client(0, b"x"),
                client(0, b""),
                client(0x80, b""),
            ],
            vec![text("x")],
        ),
        (
            "nothing but empty fragments",
            vec![client(0x01, b""), client(0, b""), client(0x80, b"")],
            vec![text("")],
        ),
        (
            "the last fragment holds everything",
            vec![client(0x01, b""), client(0x80, b"all")],
            vec![text("all")],
        ),
        (
            "control frames in between",
            vec![
                client(0x01, b"a"),
                client(0x89, b"1"),
                client(0x00, b"b"),
                client(0x8a, b"2"),
                client(0x89, b""),
                client(0x80, b"c"),
            ],
            vec![ping(b"1"), pong(b"2"), ping(b""), text("abc")],
        ),
        (
            "a binary message in fragments",
            vec![client(0x02, b"\xff"), client(0x89, b""), client(0x80, b"\xfe")],
            vec![ping(b""), binary(b"\xff\xfe")],
        ),
        (
            "one message after the other",
            vec![client(0x01, b"a"), client(0x80, b"b"), client(0x82, b"c"), client(0x81, b"d")],
            vec![text("ab"), binary(b"c"), text("d")],
        ),
    ]);
}

#[test]
fn section_5_4_messages_are_neither_nested_nor_continued_from_nothing() {
    check(vec![
        ("a continuation first", vec![client(0x80, b"x")], vec![Err(E::NothingToContinue)]),
        ("an open continuation first", vec![client(0, b"")], vec![Err(E::NothingToContinue)]),
        (
            "a continuation after a whole text",
            vec![client(0x81, b"a"), client(0x80, b"b")],
            vec![text("a"), Err(E::NothingToContinue)],
        ),
        (
            "a continuation after the last fragment",
            vec![client(0x01, b"a"), client(0x80, b"b"), client(0x00, b"c")],
            vec![text("ab"), Err(E::NothingToContinue)],
        ),
        (
            "a continuation after a binary message",
            vec![client(0x82, b"a"), client(0x80, b"b")],
            vec![binary(b"a"), Err(E::NothingToContinue)],
        ),
        (
            "a text inside a text",
            vec![client(0x01, b"a"), client(0x81, b"b")],
            vec![Err(E::MessageInsideMessage)],
        ),
        (
            "a binary message inside a text",
            vec![client(0x01, b"a"), client(0x89, b""), client(0x02, b"b")],
            vec![ping(b""), Err(E::MessageInsideMessage)],
        ),
        (
            "a text inside a binary message",
            vec![client(0x02, b"a"), client(0x01, b"b")],
            vec![Err(E::MessageInsideMessage)],
        ),
    ]);
}

#[test]
fn section_5_5_control_frames_are_short_and_whole() {
    let longest = [b'p'; 125];
    check(vec![
        ("an empty ping", vec![client(0x89, b"")], vec![ping(b"")]),
        ("the longest ping", vec![client(0x89, &longest)], vec![ping(&longest)]),
        ("the longest pong", vec![client(0x8a, &longest)], vec![pong(&longest)]),
        ("a ping of bytes", vec![client(0x89, b"\x00\xff\xfe")], vec![ping(b"\x00\xff\xfe")]),
        ("a longer ping", vec![client(0x89, &[0; 126])], vec![Err(E::LongControl)]),
        ("a longer pong", vec![client(0x8a, &[0; 300])], vec![Err(E::LongControl)]),
        ("a longer close", vec![client(0x88, &[0; 126])], vec![Err(E::LongControl)]),
        ("a ping without FIN", vec![client(0x09, b"")], vec![Err(E::FragmentedControl)]),
        ("a pong without FIN", vec![client(0x0a, b"")], vec![Err(E::FragmentedControl)]),
        ("a close without FIN", vec![client(0x08, b"")], vec![Err(E::FragmentedControl)]),
    ]);
}

#[test]
fn section_5_5_1_nothing_is_read_after_a_close() {
    let reason = "r".repeat(123);
    let longest = [b"\x03\xe8", reason.as_bytes()].concat();
    check(vec![
        ("without a payload", vec![client(0x88, b"")], vec![Ok(Item::Close(None))]),
        ("with a code", vec![client(0x88, b"\x03\xe8")], vec![close(1000, "")]),
        (
            "with a reason",
            vec![client(0x88, b"\x03\xe9bye \xe2\x82\xac")],
            vec![close(1001, "bye €")],
        ),
        ("as long as can be", vec![client(0x88, &longest)], vec![close(1000, &reason)]),
        ("half a code", vec![client(0x88, b"\x03")], vec![Err(E::HalfCloseCode)]),
        ("a reason cut", vec![client(0x88, b"\x03\xe8\xe2\x82")], vec![Err(E::ReasonNotUtf8)]),
        ("a reason of bytes", vec![client(0x88, b"\x03\xe8\xff")], vec![Err(E::ReasonNotUtf8)]),
        (
            "inside a fragmented message",
            vec![client(0x01, b"begun"), client(0x88, b"\x0f\xa0"), client(0x80, b"ended")],
            vec![close(4000, "")],
        ),
        (
            "before a text and a breach",
            vec![client(0x88, b""), client(0x81, b"late"), server(0xff, b"")],
            vec![Ok(Item::Close(None))],
        ),
    ]);
}

#[test]
fn section_5_6_binary_messages_are_any_bytes() {
    check(vec![
        ("empty", vec![client(0x82, b"")], vec![binary(b"")]),
        ("of any bytes", vec![client(0x82, b"\xff\x00\x80")], vec![binary(b"\xff\x00\x80")]),
        ("long", vec![client(0x82, &[0xff; 70_000])], vec![binary(&[0xff; 70_000])]),
        ("not ended", vec![client(0x02, b"\xff"), client(0x00, b"\xff")], vec![]),
    ]);
}

#[test]
fn section_5_7_the_examples() {
    let whole: &[u8] = b"\x81\x05Hello";
    assert_eq!(read_every_way(Role::Client, MAX, whole), [text("Hello")]);
    let masked: &[u8] = b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
    assert_eq!(read_every_way(Role::Server, MAX, masked), [text("Hello")]);
    let fragments: &[u8] = b"\x01\x03Hel\x80\x02lo";
    assert_eq!(read_every_way(Role::Client, MAX, fragments), [text("Hello")]);
    let server_ping: &[u8] = b"\x89\x05Hello";
    assert_eq!(read_every_way(Role::Client, MAX, server_ping), [ping(b"Hello")]);
    let client_pong: &[u8] = b"\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
    assert_eq!(read_every_way(Role::Server, MAX, client_pong), [pong(b"Hello")]);

    let mut sent = Vec::new();
    write_text(&mut sent, b"Hello");
    write_ping(&mut sent, b"Hello");
    write_pong(&mut sent, b"Hello");
    assert_eq!(sent, b"\x81\x05Hello\x89\x05Hello\x8a\x05Hello");
    assert_eq!(client(0x81, b"Hello"), masked);

    for (start, len) in [(&b"\x82\x7e\x01\x00"[..], 256), (b"\x82\x7f\0\0\0\0\0\x01\0\0", 65_536)] {
        let stream = [start, &vec![0; len]].concat();
        assert_eq!(read_every_way(Role::Client, MAX, &stream), [binary(&vec![0; len])]);
    }
}

#[test]
fn section_7_1_7_nothing_is_read_after_a_breach() {
    check(vec![(
        "a text, a breach, a text, a close",
        vec![client(0x81, b"a"), client(0xc1, b""), client(0x81, b"b"), client(0x88, b"")],
        vec![text("a"), Err(E::ReservedBits)],
    )]);
}

#[test]
fn section_7_4_codes_that_may_not_be_sent_are_refused() {
    for code in 0..=u16::MAX {
        let frame = client(0x88, &code.to_be_bytes());
        let expected = match code {
            1000..=1003 | 1007..=1014 | 3000..=4999 => close(code, ""),
            _ => Err(E::InvalidCloseCode(code)),
        };
        assert_eq!(read(Role::Server, MAX, [frame.as_slice()]), [expected]);
    }
}

#[test]
fn section_7_4_1_a_breach_names_its_close_code() {
    let table = [
        (E::ReservedBits, 1002),
        (E::ReservedOpcode(3), 1002),
        (E::FragmentedControl, 1002),
        (E::LongControl, 1002),
        (E::LengthNotMinimal, 1002),
        (E::LengthTopBit, 1002),
        (E::Unmasked, 1002),
        (E::Masked, 1002),
        (E::NothingToContinue, 1002),
        (E::MessageInsideMessage, 1002),
        (E::TextNotUtf8, 1007),
        (E::HalfCloseCode, 1002),
        (E::InvalidCloseCode(1005), 1002),
        (E::ReasonNotUtf8, 1007),
    ];
    for (fault, code) in table {
        assert_eq!(fault.close_code().as_u16(), code, "{fault}");
    }
}

#[test]
fn section_8_1_text_fails_with_the_very_byte_that_makes_it_invalid() {
    // What a text may begin with, and the byte after that which no text could hold there.
    let table: [(&[u8], u8); 16] = [
        (b"", 0x80),
        (b"", 0xbf),
        (b"", 0xc0),
        (b"", 0xc1),
        (b"", 0xf5),
        (b"", 0xfe),
        (b"", 0xff),
        (b"plain", 0xff),
        ("κόσμε".as_bytes(), 0x80),
        (b"\xce", b'a'),
        (b"\xe0", 0x9f), // longer than needed
        (b"\xed", 0xa0), // a surrogate
        (b"\xf0", 0x8f), // longer than needed
        (b"\xf4", 0x90), // beyond U+10FFFF
        (b"\xe2\x82", b'('),
        (b"\xf0\x9f\x98", 0xf0),
    ];
    for (begun, forbidden) in table {
        for padding in [0, 1, 7, 100] {
            let good = [&vec![b' '; padding], begun].concat();
            // The frames promise more: the fault is seen without it.
            let promised = [good.as_slice(), &[forbidden], b"and more"].concat();
            let one_frame = client(0x81, &promised);
            let two_frames = [client(0x01, &good), client(0x80, &promised[good.len()..])].concat();
            for (frames, rest) in [(one_frame, 8), (two_frames, 8)] {
                let sent = &frames[..frames.len() - rest];
                let transcript = read_every_way(Role::Server, MAX, sent);
                assert_eq!(transcript, [Err(E::TextNotUtf8)], "{begun:x?} {forbidden:x}");
                let transcript = read_every_way(Role::Server, MAX, &sent[..sent.len() - 1]);
                assert_eq!(transcript, [], "{begun:x?}");
            }
        }
    }
}

#[test]
fn section_8_1_text_may_not_end_inside_a_character() {
    for begun in [&b"\xce"[..], b"\xe2\x82", b"\xf0\x9f\x98", b"abc\xf0"] {
        check(vec![
            ("in one frame", vec![client(0x81, begun)], vec![Err(E::TextNotUtf8)]),
            (
                "in an empty last fragment",
                vec![client(0x01, begun), client(0x80, b"")],
                vec![Err(E::TextNotUtf8)],
            ),
        ]);
    }
}

#[test]
fn section_8_1_characters_may_be_cut_by_fragments_and_control_frames() {
    let whole = "κόσμε 漢字 😀";
    for cut in 0..=whole.len() {
        let (first, second) = whole.as_bytes().split_at(cut);
        let frames =
            [client(0x01, first), client(0x00, b""), client(0x89, b"\xff"), client(0x80, second)];
        let transcript = read_every_way(Role::Server, MAX, &frames.concat());
        assert_eq!(transcript, [ping(b"\xff"), text(whole)], "cut at {cut}");
    }
}
