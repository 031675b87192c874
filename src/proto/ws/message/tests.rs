//! What an assembler keeps, copies and discards; what it makes of frames is in `rfc`.

#![expect(
    clippy::unnecessary_wraps,
    reason = "an expectation is spelled like the transcript it meets"
)]

use super::super::fuzz::read;
use super::super::testing::{client, read_every_way, server};
use super::*;

const MIB: usize = 1 << 20;

fn text(text: impl Into<String>) -> Result<Item<'static>, ProtocolError> {
    Ok(Item::Text(Cow::Owned(text.into())))
}

fn binary(payload: &[u8]) -> Result<Item<'static>, ProtocolError> {
    Ok(Item::Binary(Cow::Owned(payload.to_owned())))
}

/// Pushes all of `stream` and passes the items on.
fn push_all(assembler: &mut Assembler, stream: &[u8], mut each: impl FnMut(Item<'_>)) {
    let mut buffer = stream.to_vec();
    let mut input = buffer.as_mut_slice();
    while let Some(item) = assembler.push(&mut input).expect("the stream is in order") {
        each(item);
    }
}

#[test]
fn frames_that_lie_whole_in_the_input_are_borrowed_from_it() {
    let mut buffer =
        [client(0x81, b"one"), client(0x89, b"two"), client(0x88, b"\x03\xe8three")].concat();
    let memory = buffer.as_ptr_range();
    let mut input = buffer.as_mut_slice();
    let mut assembler = Assembler::new(Role::Server, MIB);
    let mut seen = 0;
    while let Some(item) = assembler.push(&mut input).unwrap() {
        let payload = match &item {
            Item::Text(Cow::Borrowed(text)) => text.as_bytes(),
            Item::Ping(Cow::Borrowed(payload)) => payload,
            Item::Close(Some((_, Cow::Borrowed(reason)))) => reason.as_bytes(),
            other => panic!("{other:?} was copied"),
        };
        assert!(memory.contains(&payload.as_ptr()));
        seen += 1;
    }
    assert_eq!(seen, 3);
}

#[test]
fn one_read_may_hold_many_frames_and_end_inside_one() {
    let frames = [client(0x81, b"a"), client(0x82, b"b"), client(0x89, b"c"), client(0x81, b"d")];
    let stream = frames.concat().repeat(50);
    let transcript = read_every_way(Role::Server, MIB, &stream[..stream.len() - 1]);
    assert_eq!(transcript.len(), 199);
    assert_eq!(transcript, read(Role::Server, MIB, stream.chunks(7))[..199]);
}

#[test]
fn a_buffer_grows_with_what_arrives_and_not_with_what_is_declared() {
    let mut assembler = Assembler::new(Role::Server, MIB);
    let frame = client(0x81, &vec![b'x'; MIB]);
    push_all(&mut assembler, &frame[..14 + 10], |item| panic!("{item:?}"));
    let Message::Text { text, .. } = &assembler.message else { panic!("{assembler:?}") };
    assert_eq!(text.len(), 10);
    assert!(text.capacity() < 100, "{} bytes for 10", text.capacity());
}

#[test]
fn nothing_is_kept_between_messages() {
    let mut assembler = Assembler::new(Role::Server, MIB);
    let big = vec![b'x'; 100_000];
    let stream = [
        client(0x01, &big),
        client(0x89, b"ping"),
        client(0x80, &big),
        client(0x02, &big),
        client(0x80, &big),
        client(0x81, &big),
    ]
    .concat();
    let mut items = 0;
    for piece in stream.chunks(1000) {
        push_all(&mut assembler, piece, |_| items += 1);
    }
    assert_eq!(items, 4);
    assert!(assembler.is_idle());
    assert_eq!(assembler.control.capacity(), 0);
}

#[test]
fn nothing_is_kept_after_the_end() {
    for mut last in [client(0x88, b""), client(0xc0, b"")] {
        let mut assembler = Assembler::new(Role::Server, MIB);
        push_all(&mut assembler, &client(0x01, &vec![b'x'; 100_000]), |item| panic!("{item:?}"));
        let said = assembler.push(&mut last.as_mut_slice());
        assert!(matches!(said, Err(_) | Ok(Some(Item::Close(None)))), "{said:?}");
        assert!(matches!(assembler.message, Message::None));
        let mut more = client(0x80, b"late");
        assert_eq!(assembler.push(&mut more.as_mut_slice()), Ok(None));
    }
}

#[test]
fn idle_is_only_who_owes_nothing() {
    let stream =
        [client(0x01, b"a"), client(0x89, b"b"), client(0x80, b"c"), client(0x81, b"")].concat();
    let mut assembler = Assembler::new(Role::Server, MIB);
    let mut idle_at = Vec::new();
    for at in 0..stream.len() {
        if assembler.is_idle() {
            idle_at.push(at);
        }
        push_all(&mut assembler, &stream[at..=at], |_| {});
    }
    assert!(assembler.is_idle());
    assert_eq!(idle_at, [0, 21]);

    push_all(&mut assembler, &client(0x88, b""), |_| {});
    assert!(!assembler.is_idle(), "who has closed does not begin anew");
}

#[test]
fn exactly_the_bound_is_a_message_and_one_byte_more_is_not() {
    let whole = "x".repeat(MIB);
    let (half, more) = (&whole.as_bytes()[..MIB / 2], &vec![b'x'; MIB + 1]);
    let cases = [
        (vec![client(0x81, whole.as_bytes())], text(&whole)),
        (vec![client(0x01, half), client(0x80, half)], text(&whole)),
        (vec![client(0x01, whole.as_bytes()), client(0x80, b"")], text(&whole)),
        (vec![client(0x02, half), client(0x80, half)], binary(whole.as_bytes())),
        (vec![client(0x81, more)], Ok(Item::TooLarge)),
        (vec![client(0x82, more)], Ok(Item::TooLarge)),
        (vec![client(0x01, whole.as_bytes()), client(0x80, b"x")], Ok(Item::TooLarge)),
        (vec![client(0x01, half), client(0x00, half), client(0x80, b"x")], Ok(Item::TooLarge)),
        (vec![client(0x01, more), client(0x00, more), client(0x80, b"")], Ok(Item::TooLarge)),
        (vec![client(0x02, half), client(0x00, more), client(0x80, more)], Ok(Item::TooLarge)),
    ];
    for (index, (frames, expected)) in cases.into_iter().enumerate() {
        let stream = [frames.concat(), client(0x81, b"next")].concat();
        for piece_len in [stream.len(), 65_536, 4093] {
            let transcript = read(Role::Server, MIB, stream.chunks(piece_len));
            assert!(
                transcript == [expected.clone(), text("next")],
                "case {index} in pieces of {piece_len} bytes"
            );
        }
    }
}

#[test]
fn too_large_is_said_once_with_the_header_that_declares_it() {
    let stream = [
        client(0x01, b"abcd"),
        client(0x89, b"1"),
        client(0x00, b"efghi"), // nine of eight bytes
        client(0x89, b"2"),
        client(0x00, b"jklmnopqrst"),
        client(0x8a, b"3"),
        client(0x80, b""),
        client(0x81, b"12345678"),
    ];
    let said = |item: &Result<Item<'static>, _>| match item {
        Ok(Item::TooLarge) => "too large".to_owned(),
        Ok(Item::Ping(payload) | Item::Pong(payload)) => String::from_utf8_lossy(payload).into(),
        Ok(Item::Text(text)) => text.clone().into_owned(),
        other => panic!("{other:?}"),
    };
    let transcript = read_every_way(Role::Server, 8, &stream.concat());
    let transcript: Vec<String> = transcript.iter().map(said).collect();
    assert_eq!(transcript, ["1", "too large", "2", "3", "12345678"]);

    let before: usize = stream[..2].iter().map(Vec::len).sum();
    let header_len = 6;
    let stream = stream.concat();
    assert_eq!(read(Role::Server, 8, [&stream[..before + header_len - 1]]).len(), 1);
    assert_eq!(read(Role::Server, 8, [&stream[..before + header_len]]).len(), 2);
}

#[test]
fn the_largest_length_there_is_is_too_large_and_not_a_breach() {
    let declared = [&[0x81, 0xff], &(u64::MAX >> 1).to_be_bytes()[..], &[1, 2, 3, 4]].concat();
    let stream = [declared.as_slice(), &[0; 100]].concat();
    assert_eq!(read_every_way(Role::Server, MIB, &stream), [Ok(Item::TooLarge)]);
}

#[test]
fn what_is_too_large_is_discarded_as_it_arrives() {
    for first in [0x01, 0x02] {
        let mut assembler = Assembler::new(Role::Server, 1000);
        let mut items = 0;
        push_all(&mut assembler, &client(first, &[b'x'; 900]), |_| items += 1);
        push_all(&mut assembler, &client(0x00, &[b'x'; 101]), |_| items += 1);
        assert_eq!(items, 1);
        for _ in 0..100 {
            push_all(&mut assembler, &client(0x00, &[b'x'; 9000]), |_| items += 1);
            assert!(matches!(assembler.message, Message::TooLarge));
        }
        push_all(&mut assembler, &client(0x80, b"x"), |_| items += 1);
        assert_eq!(items, 1);
        assert!(assembler.is_idle());
    }
}

#[test]
fn what_is_discarded_is_not_checked_for_utf_8() {
    let stream = [
        client(0x01, b"ab\xe2"),
        client(0x00, b"\xff\xff"),
        client(0x80, b"\xff"),
        client(0x81, b"ok"),
    ];
    let transcript = read_every_way(Role::Server, 4, &stream.concat());
    assert_eq!(transcript, [Ok(Item::TooLarge), text("ok")]);
}

#[test]
fn frame_order_still_binds_a_message_that_is_too_large() {
    for (frame, fault) in [
        (client(0x81, b""), ProtocolError::MessageInsideMessage),
        (client(0x09, b""), ProtocolError::FragmentedControl),
        (server(0x80, b""), ProtocolError::Unmasked),
    ] {
        let stream = [client(0x01, b"abcde"), frame].concat();
        let transcript = read_every_way(Role::Server, 4, &stream);
        assert_eq!(transcript, [Ok(Item::TooLarge), Err(fault)]);
    }
}

#[test]
fn a_mebibyte_in_fragments_of_one_byte_with_pings_between() {
    let mut stream = client(0x01, b"");
    for at in 0..MIB {
        stream.extend(client(0x00, &[b'a' + (at % 26) as u8]));
        if at % 8 == 0 {
            stream.extend(client(0x89, b"still here"));
        }
    }
    stream.extend(client(0x80, b""));
    let mut assembler = Assembler::new(Role::Server, MIB);
    let (mut pings, mut texts) = (0, Vec::new());
    for piece in stream.chunks(65_536) {
        push_all(&mut assembler, piece, |item| match item {
            Item::Ping(payload) => {
                assert_eq!(*payload, *b"still here");
                pings += 1;
            }
            Item::Text(text) => texts.push(text.into_owned()),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!((pings, texts.len()), (MIB / 8, 1));
    assert_eq!(texts[0].len(), MIB);
    assert!(texts[0].bytes().enumerate().all(|(at, byte)| byte == b'a' + (at % 26) as u8));
}
