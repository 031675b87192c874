//! One connection per agent: the newest has it, and the one before is told.

use serde_json::json;

use crate::harness::wire::Wire;
use crate::harness::{Server, token};

#[test]
fn the_older_connection_gets_superseded_and_4409() {
    let server = Server::start(&["s1", "s2"], &json!({}));
    let mut bystander = server.connect("s2");
    let mut older = server.connect("s1");
    for _ in 0..10 {
        let newer = server.connect("s1");
        older.expect_error("superseded");
        older.expect_close(4409);
        older = newer;
    }
    let turn = {
        older.subscribe(1);
        older.turn("still here")
    };
    assert_eq!(turn.last().unwrap().payload["status"], "completed");
    bystander.subscribe(0);
    assert_eq!(bystander.event().seq, 0);
}

#[test]
fn a_half_open_connection_does_not_block_its_successor() {
    let server = Server::start(&["s1"], &json!({}));
    let mut dead = Wire::open(server.addr(), "s1", &token("s1"));
    dead.send_text(r#"{"type":"subscribe","from_seq":0}"#);
    // The dead one reads nothing and answers nothing from here on.
    let mut alive = server.subscribed("s1");
    assert_eq!(alive.turn("hello").last().unwrap().payload["status"], "completed");
    drop(dead);
}

#[test]
fn an_unauthorized_knock_supersedes_nobody() {
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.subscribed("s1");
    let mut intruder = crate::harness::Client::knock(server.addr(), "s1", Some("wrong"));
    intruder.expect_error("unauthorized");
    assert_eq!(client.turn("hello").last().unwrap().payload["status"], "completed");
}

#[test]
fn what_was_sent_before_a_supersede_is_still_handled() {
    let server = Server::start(&["s1"], &json!({}));
    let mut older = server.connect("s1");
    for n in 0..50 {
        older.queue(&json!({"type": "inject", "text": format!("text {n}"), "wake": true}));
    }
    older.flush();
    // The answer says that everything before it was read; the rest is in the server's hands.
    older.send(&json!({"type": "no such frame"}));
    older.expect_error("bad_frame");
    let mut newer = server.connect("s1");
    older.expect_error("superseded");
    newer.subscribe(0);
    let mut landed = 0;
    while landed < 50 {
        landed += usize::from(["user/message", "context/injected"].contains(&&*newer.event().kind));
    }
}
