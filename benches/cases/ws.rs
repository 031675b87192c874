//! The WebSocket layer: unmasking, UTF-8, decoding whole and split input, the worst a client may do
//! with one message, and the frames that go out.

use terret_ws::proto::ws::frame::{FrameHeader, Opcode};
use terret_ws::proto::ws::utf8::Utf8Check;
use terret_ws::proto::ws::{Assembler, Item, Role, mask, write_masked, write_text};

use super::{Meter, PACKET_BYTES, READ_BYTES, Work};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

pub(crate) fn unmask(meter: &mut impl Meter) {
    for len in [16, 1024, READ_BYTES] {
        meter.again(
            &format!("ws/unmask/{len} bytes"),
            Work::Bytes(len),
            (vec![0; len], false),
            |(payload, masked)| {
                mask::apply(payload, KEY, 0);
                *masked = !*masked;
            },
            |(payload, masked), ()| {
                let expected = if *masked { KEY } else { [0; 4] };
                assert!(payload.chunks(4).all(|word| word == expected));
            },
        );
    }
}

pub(crate) fn utf8(meter: &mut impl Meter) {
    for (script, sample) in [("ascii", "plain text, "), ("greek", "κόσμε και "), ("han", "漢字")]
    {
        let text = sample.repeat(READ_BYTES / sample.len());
        for piece_len in [READ_BYTES, 7] {
            meter.again(
                &format!("ws/utf-8/{script}, pieces of {piece_len}"),
                Work::Bytes(text.len()),
                text.as_str(),
                |text| {
                    let (mut check, mut read) = (Utf8Check::default(), String::new());
                    for piece in text.as_bytes().chunks(piece_len) {
                        check.push(piece, &mut read).expect("the text is valid");
                    }
                    check.finish().expect("its last character is whole");
                    read
                },
                |text, read| assert_eq!(read, text),
            );
        }
    }
}

/// A client's stream that is used up while it is read: it is unmasked in place.
struct Stream {
    assembler: Assembler,
    bytes: Vec<u8>,
}

impl Stream {
    fn new(bytes: &[u8], message_bytes_max: usize) -> Self {
        let assembler = Assembler::new(Role::Server, message_bytes_max);
        Self { assembler, bytes: bytes.to_vec() }
    }

    /// Pushes it in pieces, as reads would bring it; the number of texts and their bytes, which are
    /// all `x`.
    fn texts(&mut self, piece_len: usize) -> (usize, usize) {
        self.each(piece_len, |_| {})
    }

    fn each(&mut self, piece_len: usize, mut seen: impl FnMut(&str)) -> (usize, usize) {
        let (mut count, mut bytes) = (0, 0);
        for mut piece in self.bytes.chunks_mut(piece_len) {
            while let Some(item) = self.assembler.push(&mut piece).expect("a stream in order") {
                if let Item::Text(text) = item {
                    count += 1;
                    bytes += text.len();
                    seen(&text);
                }
            }
        }
        (count, bytes)
    }
}

/// A case that reads `count` texts of `len` times `x` from a stream that comes in pieces.
fn texts(
    meter: &mut impl Meter,
    name: &str,
    (stream, count, len): (&[u8], usize, usize),
    piece_len: usize,
) {
    meter.fresh(
        name,
        Work::Bytes(stream.len()),
        || Stream::new(stream, MIB),
        |stream| stream.texts(piece_len),
        |_, read| {
            assert_eq!(*read, (count, count * len));
            let is_whole =
                |text: &str| assert!(text.len() == len && text.bytes().all(|b| b == b'x'));
            Stream::new(stream, MIB).each(piece_len, is_whole);
        },
    );
}

/// Masked text frames of `payload_len` bytes, about one read of them.
fn frames(payload_len: usize) -> (Vec<u8>, usize) {
    let payload = vec![b'x'; payload_len];
    let (mut stream, mut count) = (Vec::new(), 0);
    while stream.len() < READ_BYTES {
        write_masked(&mut stream, Opcode::Text, &payload, KEY);
        count += 1;
    }
    (stream, count)
}

pub(crate) fn decode(meter: &mut impl Meter) {
    for len in [30, 200, 2000, 60_000] {
        let (stream, count) = frames(len);
        for (how, piece_len) in [("whole", usize::MAX), ("split", PACKET_BYTES)] {
            let name = format!("ws/decode/{count} texts of {len}, {how}");
            texts(meter, &name, (&stream, count, len), piece_len);
        }
    }
}

/// A text of `len` bytes in fragments of one, with a ping after every eighth.
fn crumbs(len: usize) -> Vec<u8> {
    let mut stream = Vec::new();
    for at in 0..len {
        let opcode = if at == 0 { Opcode::Text } else { Opcode::Continuation };
        let header = FrameHeader { fin: at + 1 == len, opcode, mask: Some([0; 4]), len: 1 };
        stream.extend_from_slice(&header.encode());
        stream.push(b'x');
        if at % 8 == 0 {
            write_masked(&mut stream, Opcode::Ping, b"", KEY);
        }
    }
    stream
}

pub(crate) fn worst(meter: &mut impl Meter) {
    for len in [16 * KIB, 160 * KIB] {
        let name = format!("ws/worst/{} KiB in fragments of one byte with pings", len / KIB);
        texts(meter, &name, (&crumbs(len), 1, len), READ_BYTES);
    }
    let (stream, count) = frames(30);
    let name = format!("ws/worst/{count} texts of 30, byte by byte");
    texts(meter, &name, (&stream, count, 30), 1);
}

pub(crate) fn encode(meter: &mut impl Meter) {
    let payload = [b'x'; 200];
    // Its length takes two bytes more (RFC 6455, section 5.2).
    let frame = [&[0x81, 126, 0, 200], &payload[..]].concat();
    meter.again(
        "ws/encode/300 texts of 200",
        Work::Bytes(300 * frame.len()),
        Vec::with_capacity(READ_BYTES),
        |out| {
            out.clear();
            for _ in 0..300 {
                write_text(out, &payload);
            }
        },
        |out, ()| assert_eq!(*out, frame.repeat(300)),
    );
}
