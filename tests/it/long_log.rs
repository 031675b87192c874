//! A log so long that nothing may depend on its length: subscribing near its tip, reading its middle, and
//! resuming its turn cost what they cost with ten events.
//!
//! ```text
//! TERRET_EVENTS=1000000 cargo test --test it long_log
//! ```

use serde_json::json;

use crate::harness::client::assert_gapless;
use crate::harness::made::{Maker, TURN_BESIDE_CHUNKS, how_many, roomy_folder};
use crate::harness::{Server, http, token};

/// Events, unless another number is asked for: many segments.
const FEW: usize = 100_000;
const SEGMENT_BYTES: u64 = 256 * 1024;
/// What a long log may cost beyond a short one: the buffers of pieces, the history of a request, and a
/// last segment, all of which are bounded and none of which a short log fills.
const MEMORY_ALLOWANCE_KIB: u64 = 6 * 1024;
/// The same in bytes read to greet a client and to serve it the last events: the segment of the tip, and the
/// turn that is open there.
const READ_ALLOWANCE: u64 = 4 * SEGMENT_BYTES;
const CHUNKS: usize = 20;
/// Chunks of the turn that is open at the tip, which is read as a whole when a log is opened.
const OPEN_CHUNKS: usize = 1000;

/// What using a log has cost.
struct Cost {
    peak_kib: u64,
    /// Bytes read until a client near the tip had everything.
    read_near_tip: u64,
}

/// A server with a log of `whole` turns and an open one with so many chunks, and what it costs to use it.
fn cost(whole: usize, open_chunks: usize) -> Cost {
    let folder = roomy_folder();
    let mut maker = Maker::new(folder.path(), SEGMENT_BYTES);
    let mut log = maker.session("s1");
    for _ in 0..whole {
        maker.turn(&mut log, "s1", CHUNKS, false);
    }
    maker.turn(&mut log, "s1", open_chunks, true);
    let tip = log.tip().seq;
    drop((log, maker));

    let config = json!({"log": {"segment_bytes": SEGMENT_BYTES}, "history_bytes": 64 * 1024});
    let server = Server::start_in(folder, &["s1"], &config);
    let before = server.bytes_read();
    let mut client = server.connect("s1");
    assert_eq!(client.last_seq(), tip);
    client.subscribe(tip - 2);
    let near = client.events_to(tip);
    assert_gapless(&near, tip - 2, tip);
    let read_near_tip = server.bytes_read() - before;

    let middle = tip / 2;
    let path = format!("/agents/s1/events?from_seq={middle}&limit=50");
    let read = http::get(server.addr(), &path, Some(&token("s1")));
    assert_eq!(read.status, 200);
    let first = read.body.lines().next().unwrap();
    assert!(first.contains(&format!(r#""session_id":"s1","seq":{middle},"#)), "{first}");
    assert_eq!(read.body.lines().count() as u64, 50.min(tip + 1 - middle));

    // Everything that one subscribe may have.
    client.subscribe(0);
    let mut from = 0;
    if tip >= 10_000 {
        from = tip + 1 - 10_000;
        let told = json!({"type": "replay_truncated", "requested_from_seq": 0, "from_seq": from});
        assert_eq!(client.frame(), told);
    }
    for seq in from..=tip {
        assert_eq!(client.event().seq, seq);
    }

    client.wake("Go on.");
    let rest = client.events_until("turn/end");
    assert_gapless(&rest, tip + 1, tip + rest.len() as u64);
    assert_eq!(&*rest[0].kind, "step/end", "the turn is resumed, not begun");
    assert_eq!(rest.last().unwrap().payload["status"], "completed");
    Cost { peak_kib: server.peak_resident_kib(), read_near_tip }
}

#[test]
fn a_long_log_costs_what_a_short_one_does() {
    let events = how_many("TERRET_EVENTS", FEW);
    let short = cost(0, 6);
    let long = cost(events / (CHUNKS + TURN_BESIDE_CHUNKS), OPEN_CHUNKS);
    // All of it in the turn that is open: that has to be read, but not to be held.
    let open = cost(0, events / 2);
    eprintln!(
        "at most {} KiB with {events} events, {} with half as many in an open turn, {} with ten; bytes \
         read near the tip: {}, {} and {}",
        long.peak_kib,
        open.peak_kib,
        short.peak_kib,
        long.read_near_tip,
        open.read_near_tip,
        short.read_near_tip
    );
    assert!(long.peak_kib <= short.peak_kib + MEMORY_ALLOWANCE_KIB);
    assert!(open.peak_kib <= short.peak_kib + MEMORY_ALLOWANCE_KIB);
    assert!(long.read_near_tip <= short.read_near_tip + READ_ALLOWANCE);
}
