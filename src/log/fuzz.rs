//! Bodies of the fuzz targets: lines and segments against naive readings of them.

use std::collections::BTreeMap;

use super::header::{Header, Prev};
use super::line::{self, Shape};
use super::scan::{Found, Item, Scan};
use super::seek;
use super::state::State;
use super::verdict::Beyond;
use crate::proto::event::write_envelope;
use crate::proto::ident::{EventId, SessionId};
use crate::proto::payload::Body;
use crate::proto::time::Wall;

fn session() -> SessionId {
    SessionId::parse("s").expect("it is a valid id")
}

/// One line: what is accepted seals to itself again and says what a JSON parser says; what is sealed
/// is accepted.
pub fn event_line(bytes: &[u8]) {
    let shape = Shape::new(session());
    if let Some(sealed) = line::unseal(bytes) {
        let mut again = [if sealed.body.is_empty() { b"{" } else { sealed.body }, b"}"].concat();
        if again.starts_with(b"{") && again.iter().all(|&byte| byte >= 0x20) {
            line::seal(&mut again, 0, sealed.ack);
            assert_eq!(again.strip_suffix(b"\n"), Some(bytes));
        }
    }
    // The checksum keeps arbitrary bytes out, so a line is also made of them.
    let printable = bytes.iter().all(|&byte| byte >= 0x20);
    if !printable || bytes.len() < 2 || !bytes.starts_with(b"{") || !bytes.ends_with(b"}") {
        return;
    }
    let mut made = bytes.to_vec();
    line::seal(&mut made, 0, bytes.len() as u64);
    let sealed = line::unseal(&made[..made.len() - 1]).expect("it was sealed just now");
    assert_eq!(sealed.ack, bytes.len() as u64);
    let object: Result<BTreeMap<String, serde_json::Value>, _> = serde_json::from_slice(bytes);
    let Some(event) = shape.event(sealed.body) else { return };
    let payload: Result<serde_json::Value, _> = serde_json::from_slice(event.payload);
    // Where more than a payload stands behind the key, the line is none that an envelope makes.
    if let (Ok(object), Ok(payload)) = (object, payload) {
        assert_eq!(object["seq"].as_u64(), Some(event.seq));
        assert_eq!(object["session_id"].as_str(), Some(session().as_str()));
        assert_eq!(object["type"].as_str(), Some(event.kind));
        assert_eq!(object["payload"], payload);
    }
}

/// A segment that the bytes describe and damage: scanned in pieces it is what a naive reading says,
/// and every event of it that can be found is found where it stands.
pub fn segment(bytes: &[u8]) {
    let mut script = bytes.iter().copied();
    let base = u64::from(script.next().unwrap_or(0) % 3);
    let piece = usize::from(script.next().unwrap_or(0)).max(1);
    let text = build(base, &mut script);
    let shape = Shape::new(session());

    let mut scan = Scan::new(shape.clone(), base);
    let mut events = Vec::new();
    let mut bad = 0_u64;
    let mut seen = |item: Item<'_>| match item {
        Item::Event { event, begins, contiguous, .. } => {
            events.push((event.seq, begins, contiguous));
        }
        Item::Bad(_) => bad += 1,
        Item::Header(_) => {}
    };
    for piece in text.chunks(piece) {
        scan.push(piece, &mut seen);
    }
    let found = scan.finish(&mut seen);
    assert_eq!(found.bytes, text.len() as u64);
    assert_eq!(found.bad.is_some(), bad > 0);
    assert_eq!(found.beyond == Beyond::Nothing, bad == 0);
    check_prefix(&shape, base, &text, &found);

    for &(seq, begins, _) in events.iter().filter(|(.., contiguous)| *contiguous) {
        let end = found.prefix.bytes;
        let read = |offset: u64, into: &mut [u8]| {
            let there = &text[(offset as usize).min(text.len())..];
            let len = there.len().min(into.len());
            into[..len].copy_from_slice(&there[..len]);
            Ok::<_, std::convert::Infallible>(len)
        };
        let Ok(place) = seek::seek(&shape, seq, end, read);
        assert_eq!(place, Some(begins));
    }
}

/// The prefix and what is attested, by splitting at LF and asking every line.
fn check_prefix(shape: &Shape, base: u64, text: &[u8], found: &Found) {
    let (mut next, mut bytes, mut attested, mut whole) = (base, 0, 0, true);
    for (index, line) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let sealed = line.strip_suffix(b"\n").and_then(line::unseal);
        let belongs = sealed.filter(|sealed| match shape.event(sealed.body) {
            _ if index == 0 => {
                Header::read(sealed, shape.session()).is_some_and(|header| header.base == base)
            }
            Some(event) => !whole || event.seq == next,
            None => sealed.body.is_empty(),
        });
        attested = attested.max(belongs.map_or(0, |sealed| sealed.ack));
        whole &= belongs.is_some();
        if whole {
            bytes += line.len() as u64;
            next += u64::from(belongs.is_some_and(|sealed| shape.event(sealed.body).is_some()));
        }
    }
    assert_eq!((found.prefix.next, found.prefix.bytes), (next, bytes));
    // Lines that lost the LF before them are found by the scan alone.
    assert!(found.attested >= attested || !found.sequence_holds);
}

/// Writes what the script says: lines that follow one another, lines that do not, and damage.
fn build(base: u64, script: &mut impl Iterator<Item = u8>) -> Vec<u8> {
    let mut text = Vec::new();
    let mut next = base;
    let prev = base.checked_sub(1).map(|last| Prev { last, bytes: 9, crc: *b"0badcafe" });
    let header = Header { base, prev, state: State::default() };
    header.write(&mut text, &session(), base);
    while let Some(what) = script.next() {
        let how = script.next().unwrap_or(0);
        match what % 8 {
            0..=2 => {
                let start = text.len();
                let body = Body::AssistantChunk { text: "x".repeat(usize::from(how)) };
                let ack = next.saturating_sub(u64::from(how % 3));
                write_envelope(&mut text, EventId(next), &session(), next, Wall(0), &body);
                line::seal(&mut text, start, ack);
                next += 1;
            }
            3 => line::write_attest(&mut text, next),
            4 => next = base + u64::from(how),
            5 => text.truncate(text.len().saturating_sub(usize::from(how))),
            6 => {
                let at = (usize::from(how) * 7919) % text.len().max(1);
                if let Some(byte) = text.get_mut(at) {
                    *byte ^= 1 << (how % 8);
                }
            }
            _ => text.extend(std::iter::repeat_n(how, 3)),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_bodies_hold_for_seeded_inputs() {
        let mut state = 1_u64;
        for len in 0..600_usize {
            let bytes: Vec<u8> = std::iter::repeat_with(|| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .take(len % 60)
            .collect();
            super::segment(&bytes);
            super::event_line(&bytes);
        }
        super::event_line(
            br#"{"id":"0000000000000001","session_id":"s","seq":3,"at":"1970-01-01T00:00:00.000000Z","type":"a/b","payload":{"seq":4}}"#,
        );
    }
}
