//! What the WebSocket layer costs: unmasking, decoding whole and split input, UTF-8, and the worst
//! a client may do with one message. Every row asserts its result.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use terret_ws::proto::ws::frame::{FrameHeader, Opcode};
use terret_ws::proto::ws::utf8::Utf8Check;
use terret_ws::proto::ws::{Assembler, Item, Role, mask, write_masked, write_text};

const MIB: usize = 1 << 20;
const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// How much a read of the reactor returns.
const READ_BYTES: usize = 64 * 1024;

fn unmask(c: &mut Criterion) {
    let mut group = c.benchmark_group("ws/unmask");
    for len in [16, 1024, READ_BYTES] {
        group.throughput(Throughput::Bytes(len as u64));
        let mut payload = vec![0; len];
        mask::apply(&mut payload, KEY, 0);
        assert!(payload.chunks(4).all(|word| word == KEY));
        group.bench_function(len.to_string(), |b| {
            b.iter(|| mask::apply(black_box(&mut payload), KEY, 0));
        });
    }
    group.finish();
}

/// Masked text frames of `payload_len` bytes, about one read of them.
fn frames(payload_len: usize) -> (usize, Vec<u8>) {
    let payload = vec![b'x'; payload_len];
    let (mut stream, mut count) = (Vec::new(), 0);
    while stream.len() < READ_BYTES {
        write_masked(&mut stream, Opcode::Text, &payload, KEY);
        count += 1;
    }
    (count, stream)
}

/// Pushes a stream in pieces, as reads would bring it; the number of texts and their bytes.
fn texts(assembler: &mut Assembler, stream: &mut [u8], piece_len: usize) -> (usize, usize) {
    let (mut count, mut bytes) = (0, 0);
    for mut piece in stream.chunks_mut(piece_len) {
        while let Some(item) = assembler.push(&mut piece).expect("the stream is in order") {
            if let Item::Text(text) = item {
                count += 1;
                bytes += text.len();
            }
        }
    }
    (count, bytes)
}

fn decode(c: &mut Criterion) {
    let mut group = c.benchmark_group("ws/decode");
    for payload_len in [30, 200, 2000, 60_000] {
        let (count, stream) = frames(payload_len);
        for (how, piece_len) in [("whole", usize::MAX), ("pieces of 1448", 1448)] {
            group.throughput(Throughput::Bytes(stream.len() as u64));
            group.bench_function(format!("{count} texts of {payload_len}, {how}"), |b| {
                b.iter_batched_ref(
                    || (Assembler::new(Role::Server, MIB), stream.clone()),
                    |(assembler, stream)| {
                        let read = texts(assembler, stream, piece_len);
                        assert_eq!(read, (count, count * payload_len));
                    },
                    BatchSize::LargeInput,
                );
            });
        }
    }
    group.finish();
}

/// A text of exactly the bound, in fragments of one byte, with a ping after every eighth.
fn crumbs() -> Vec<u8> {
    let mut stream = Vec::new();
    for at in 0..MIB {
        let opcode = if at == 0 { Opcode::Text } else { Opcode::Continuation };
        let header = FrameHeader { fin: at + 1 == MIB, opcode, mask: Some([0; 4]), len: 1 };
        stream.extend_from_slice(&header.encode());
        stream.push(b'x');
        if at % 8 == 0 {
            write_masked(&mut stream, Opcode::Ping, b"", KEY);
        }
    }
    stream
}

fn worst(c: &mut Criterion) {
    let mut group = c.benchmark_group("ws/worst");
    group.sample_size(10);
    let stream = crumbs();
    group.throughput(Throughput::Bytes(stream.len() as u64));
    group.bench_function("1 MiB in fragments of one byte with pings", |b| {
        b.iter_batched_ref(
            || (Assembler::new(Role::Server, MIB), stream.clone()),
            |(assembler, stream)| assert_eq!(texts(assembler, stream, READ_BYTES), (1, MIB)),
            BatchSize::LargeInput,
        );
    });
    let (count, stream) = frames(30);
    group.throughput(Throughput::Bytes(stream.len() as u64));
    group.bench_function(format!("{count} texts of 30, byte by byte"), |b| {
        b.iter_batched_ref(
            || (Assembler::new(Role::Server, MIB), stream.clone()),
            |(assembler, stream)| assert_eq!(texts(assembler, stream, 1), (count, count * 30)),
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

fn utf8(c: &mut Criterion) {
    let mut group = c.benchmark_group("ws/utf8");
    for (script, sample) in [("ascii", "plain text, "), ("greek", "κόσμε και "), ("han", "漢字")]
    {
        let text = sample.repeat(MIB / sample.len());
        group.throughput(Throughput::Bytes(text.len() as u64));
        for piece_len in [READ_BYTES, 7] {
            group.bench_function(format!("{script}, pieces of {piece_len}"), |b| {
                b.iter(|| {
                    let (mut check, mut read) = (Utf8Check::default(), String::new());
                    for piece in text.as_bytes().chunks(piece_len) {
                        check.push(piece, &mut read).expect("the text is valid");
                    }
                    assert_eq!((read.len(), check.finish()), (text.len(), Ok(())));
                });
            });
        }
    }
    group.finish();
}

fn encode(c: &mut Criterion) {
    let mut group = c.benchmark_group("ws/encode");
    let payload = vec![b'x'; 200];
    let mut out = Vec::with_capacity(READ_BYTES);
    group.throughput(Throughput::Bytes(300 * 204));
    group.bench_function("300 texts of 200", |b| {
        b.iter(|| {
            out.clear();
            for _ in 0..300 {
                write_text(&mut out, black_box(&payload));
            }
            assert_eq!(out.len(), 300 * 204);
        });
    });
    group.finish();
}

criterion_group!(benches, unmask, decode, worst, utf8, encode);
criterion_main!(benches);
