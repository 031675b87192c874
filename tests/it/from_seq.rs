//! Every `from_seq` does what the contract says, the absurd ones too.

use serde_json::json;

use crate::harness::Server;

#[test]
fn up_to_the_tip_it_replays() {
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.connect("s1");
    client.subscribe(0);
    let log = client.turn("one two three");
    let tip = log.last().unwrap().seq;
    for from in [0, tip - 1, tip] {
        client.subscribe(from);
        assert_eq!(client.events_to(tip), log[from as usize..], "from_seq {from}");
    }
}

#[test]
fn beyond_the_tip_it_waits_for_exactly_that_seq() {
    for ahead in [1, 2, 3, 5] {
        let server = Server::start(&["s1"], &json!({}));
        let mut client = server.connect("s1");
        client.subscribe(0);
        let tip = client.turn("one").last().unwrap().seq;
        client.subscribe(tip + ahead);
        client.wake("two");
        assert_eq!(client.event().seq, tip + ahead);
        let rest = client.events_until("turn/end");
        assert_eq!(rest[0].seq, tip + ahead + 1);
    }
}

#[test]
fn absurdly_far_it_waits_and_harms_nothing() {
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.subscribed("s1");
    let mut tip = 0;
    for from in [1 << 53, (1 << 53) + 1, 1 << 63, u64::MAX - 1, u64::MAX] {
        client.subscribe(from);
        client.wake("unseen");
        tip = server.idle_tip("s1", tip);
        client.subscribe(tip);
        // Had anything come before, it would stand in front of this.
        assert_eq!(client.event().seq, tip, "from_seq {from}");
    }
}

#[test]
fn what_is_no_u64_is_a_bad_frame() {
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.connect("s1");
    let table = ["-1", "1.0", "0.0", "1e3", "18446744073709551616", "1e99", r#""1""#];
    for value in table.into_iter().chain(["null", "true", "[0]", "{}"]) {
        client.send_text(&format!(r#"{{"type":"subscribe","from_seq":{value}}}"#));
        let message = client.expect_error("bad_frame");
        assert!(message.contains("from_seq"), "{value}: {message}");
    }
    client.send(&json!({"type": "subscribe"}));
    assert!(client.expect_error("bad_frame").contains("from_seq"));
    client.subscribe(0);
    assert_eq!(client.event().seq, 0);
}
