//! The end of a server with tools at work: nothing of them is left, and a call that was cut off runs
//! again exactly once.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::client::kinds;
use crate::harness::tools::{
    calling, calls, expect_ended, gate, number_in, open_gate, outcome, runs, tool,
};
use crate::harness::{Client, Event, Received, Server, eventually, server};

/// A tool that counts its runs and comes to an end in the second only: the first has a child of its
/// own, and neither cares for SIGTERM.
const SECOND_TIME: &str = "
    echo run >> runs
    [ $(wc -l < runs) -gt 1 ] && { echo done; exit; }
    trap 'echo asked > asked' TERM
    (trap '' TERM; exec sleep 1000) & echo $! > grandchild
    echo $$ > child
    while :; do wait; done";

fn config() -> Value {
    calling(&[tool("twice", SECOND_TIME, &json!({}))], &calls(&["twice"]))
}

/// A server whose tool runs for the first time, a client that has seen its call, and the two processes
/// of the tool.
fn at_work(config: &Value) -> (Server, Client, [u32; 2]) {
    let server = Server::start(&["s1"], config);
    let mut client = server.subscribed("s1");
    client.wake("go");
    client.events_until("tool/call");
    let folder = server.folder();
    let processes = ["child", "grandchild"].map(|name| number_in(folder.path(), name));
    (server, client, processes)
}

fn times_run(folder: &Path) -> usize {
    fs::read_to_string(folder.join("runs")).unwrap().lines().count()
}

/// Starts a successor, wakes the agent, and holds its log to one turn in which the call has one
/// `tool/call` and one result.
fn expect_resumed(before: &Server) {
    let server = Server::start_in(before.folder(), &["s1"], &config());
    let mut client = server.connect("s1");
    client.subscribe(1);
    let mut log: Vec<Event> = client.events_to(client.last_seq());
    assert_eq!(log.last().unwrap().kind, "tool/call", "an open turn waits for a stimulus");
    client.wake("and now?");
    log.extend(client.events_until("turn/end"));
    let golden = [
        "turn/start",
        "step/start",
        "user/message",
        "assistant/message",
        "tool/call",
        "tool/result",
        "step/end",
        "step/start",
        "context/injected",
        "assistant/chunk",
        "assistant/message",
        "step/end",
        "turn/end",
    ];
    assert_eq!(kinds(&log), golden);
    assert_eq!(outcome(&log, "twice"), Ok("done\n"));
    assert_eq!(times_run(server.folder().path()), 2);
}

#[test]
fn after_kill_9_no_process_of_a_tool_is_left_and_the_owed_call_runs_once_more() {
    let (mut server, _client, processes) = at_work(&config());
    server.kill();
    processes.into_iter().for_each(expect_ended);
    expect_resumed(&server);
}

#[test]
fn what_outlived_its_server_is_killed_before_the_next_one_serves() {
    let (mut server, _client, [child, grandchild]) = at_work(&config());
    // The other child of the server is the watchdog; without it a grandchild outlives kill -9.
    let watchdog = server.children().into_iter().find(|&process| process != child).unwrap();
    server::signal(watchdog, "KILL");
    server.kill();
    expect_ended(child);
    assert!(runs(grandchild));
    let server = Server::start_in(server.folder(), &["s1"], &config());
    assert!(!runs(grandchild));
    eventually("a word on what was left", || server.stderr().contains("groups=1").then_some(()));
}

#[test]
fn sigterm_ends_tools_the_hard_way_if_it_must_and_leaves_their_call_owed() {
    let (mut server, mut client, processes) = at_work(&config());
    server.signal("TERM");
    assert_eq!(client.receive(), Received::Closed(Some(1001)));
    assert_eq!(client.receive(), Received::Gone);
    assert_eq!(server.exit().code(), Some(0));
    assert!(server.folder().path().join("asked").exists(), "SIGTERM comes first");
    processes.into_iter().for_each(expect_ended);
    expect_resumed(&server);
}

#[test]
fn a_second_signal_waits_for_no_tool() {
    let (mut server, _client, processes) = at_work(&config());
    server.signal("TERM");
    eventually("the tool to be asked to end", || {
        server.folder().path().join("asked").exists().then_some(())
    });
    server.signal("TERM");
    server.exit();
    processes.into_iter().for_each(expect_ended);
    expect_resumed(&server);
}

#[test]
fn with_grace_a_running_tool_may_finish_and_its_result_is_logged() {
    let tools = [tool("waits", "echo $$ > child; cat gate", &json!({}))];
    let mut config = calling(&tools, &calls(&["waits"]));
    config["stop_grace_s"] = json!(50);
    let mut server = Server::start(&["s1"], &config);
    let folder = server.folder();
    gate(folder.path(), "gate");
    let mut client = server.subscribed("s1");
    client.wake("go");
    client.events_until("tool/call");
    let child = number_in(folder.path(), "child");
    server.signal("TERM");
    eventually("a server that lets nobody in", || {
        std::net::TcpStream::connect(server.addr()).is_err().then_some(())
    });
    assert!(runs(child));
    open_gate(folder.path(), "gate");
    let rest = [client.event(), client.event()];
    assert_eq!(kinds(&rest), ["tool/result", "step/end"]);
    assert_eq!(rest[0].payload["content"], "go\n");
    client.expect_close(1001);
    assert_eq!(server.exit().code(), Some(0));
}
