//! A deploy: one server is told to stop, another one takes its place, and whoever was at work goes on.

use std::net::TcpStream;

use serde_json::json;

use crate::harness::client::kinds;
use crate::harness::provider::Provider;
use crate::harness::tools::{calling, calls, tool};
use crate::harness::{Client, Received, Server, eventually};
use crate::restart::expect_one_resumed_turn;

const TURNS: usize = 20;

fn expect_no_newcomers(server: &Server) {
    eventually("a server that lets nobody in", || {
        TcpStream::connect(server.addr()).is_err().then_some(())
    });
}

#[test]
fn every_turn_goes_on_by_itself_in_the_next_server() {
    let provider = Provider::start();
    let names: Vec<String> = (0..TURNS).map(|number| format!("s{number}")).collect();
    let sessions: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut config = provider.config(&json!({}));
    config["resume_on_start"] = json!(true);
    let mut server = Server::start(&sessions, &config);
    let mut clients: Vec<Client> = sessions.iter().map(|id| server.subscribed(id)).collect();
    for client in &mut clients {
        client.wake("first");
    }
    // Some have been answered in part, and some are not answered at all.
    let mut asks: Vec<_> = clients.iter().map(|_| provider.ask()).collect();
    for ask in &mut asks[..TURNS / 2] {
        ask.open();
        ask.text("half of ");
    }
    for client in &mut clients {
        client.events_until("user/message");
    }
    server.signal("TERM");
    for mut client in clients {
        while let Received::Text(_) = client.receive() {}
    }
    assert_eq!(server.exit().code(), Some(0));

    let server = Server::start_in(server.folder(), &sessions, &config);
    for _ in &sessions {
        let ask = provider.ask();
        assert_eq!(ask.contents("user"), ["first"]);
        ask.answer("Whole.");
    }
    for id in &sessions {
        let mut client = server.connect(id);
        client.subscribe(1);
        expect_one_resumed_turn(&client.events_until("turn/end"), &["first"]);
    }
}

#[test]
fn a_wake_that_comes_while_a_server_stops_is_kept_for_the_next_one() {
    let provider = Provider::start();
    let mut config = provider.config(&json!({}));
    config["stop_grace_s"] = json!(3600);
    config["resume_on_start"] = json!(true);
    let mut server = Server::start(&["s1", "s2"], &config);
    let (mut busy, mut idle) = (server.subscribed("s1"), server.subscribed("s2"));
    busy.wake("first");
    let ask = provider.ask();
    server.signal("TERM");
    expect_no_newcomers(&server);
    idle.wake("second");
    // What is sent behind it tells that it was stored.
    idle.send(&json!({"type": "set_policy", "patterns": []}));
    assert_eq!(kinds(&idle.events_until("policy/updated")), ["policy/updated"], "no turn begins");
    assert!(provider.is_asked().is_none());
    drop(idle);
    ask.answer("Done.");
    assert_eq!(busy.events_until("turn/end").last().unwrap().payload["status"], "completed");
    drop(busy);
    assert_eq!(server.exit().code(), Some(0));

    let server = Server::start_in(server.folder(), &["s1", "s2"], &config);
    let ask = provider.ask();
    assert_eq!(ask.contents("user"), ["second"]);
    ask.answer("Here.");
    let mut client = server.connect("s2");
    client.subscribe(2);
    let turn = client.events_until("turn/end");
    assert_eq!(kinds(&turn)[..3], ["turn/start", "step/start", "user/message"]);
}

#[test]
fn a_step_that_is_not_over_when_the_grace_is_stays_open() {
    let provider = Provider::start();
    let mut config = provider.config(&json!({}));
    config["stop_grace_s"] = json!(1);
    let mut server = Server::start(&["s1"], &config);
    let mut client = server.subscribed("s1");
    client.wake("first");
    let ask = provider.ask();
    let mut log = client.events_until("user/message");
    server.stop(client);
    ask.expect_hang_up();

    let server = Server::start_in(server.folder(), &["s1"], &config);
    let mut client = server.connect("s1");
    client.subscribe(client.last_seq() + 1);
    client.wake("second");
    provider.ask().answer("Whole.");
    log.extend(client.events_until("turn/end"));
    expect_one_resumed_turn(&log, &["first", "second"]);
}

#[test]
fn a_turn_that_waits_for_a_human_is_not_waited_for_and_goes_on_with_the_verdict() {
    let asks = tool("asks", "echo yes", &json!({"approval": "always"}));
    let mut config = calling(&[asks], &calls(&["asks"]));
    config["approvals"] = json!(true);
    config["stop_grace_s"] = json!(3600);
    let mut server = Server::start(&["s1"], &config);
    let mut client = server.subscribed("s1");
    client.wake("go");
    client.events_until("approval/requested");
    server.stop(client);

    let server = Server::start_in(server.folder(), &["s1"], &config);
    let mut client = server.connect("s1");
    client.subscribe(client.last_seq() + 1);
    client.send(&json!({"type": "approve", "call_id": "asks"}));
    let rest = client.events_until("turn/end");
    assert_eq!(kinds(&rest)[..3], ["approval/resolved", "tool/result", "step/end"]);
    assert_eq!(rest[1].payload["content"], "yes\n");
    assert_eq!(rest.last().unwrap().payload["status"], "completed");
}
