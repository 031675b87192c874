//! The server as process 1 of a container: signals reach it, and nothing that others leave behind stays.

use std::fs;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::harness::provider::Provider;
use crate::harness::tools::{calling, calls, gate, number_in, outcome, runs, tool};
use crate::harness::{Client, Received, Server, eventually, server};

/// A server that is process 1 of a namespace of its own, with what its users see of it from outside.
struct Container {
    server: Server,
    /// The first process.
    first: u32,
    /// The server itself.
    inner: u32,
}

/// This program, to be started as the first process of a namespace.
fn first_process(program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).arg(program);
    command
}

/// None where this machine does not let us make one; that is said once for each test.
fn container(config: &Value) -> Option<Container> {
    let tried = first_process("true").output();
    if !tried.as_ref().is_ok_and(|tried| tried.status.success()) {
        eprintln!("skipped: no process namespaces on this machine: {tried:?}");
        return None;
    }
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let path = folder.path().join("config.json");
    fs::write(path, server::config(&["s1"], config).to_string()).unwrap();
    let mut command = first_process(env!("CARGO_BIN_EXE_terret-ws"));
    command.args(["serve", "--config", "config.json"]);
    let server = Server::launch(command, folder);
    let only_child = |process: u32| match children(process)[..] {
        [child] => child,
        ref children => panic!("one child of {process}: {children:?}"),
    };
    let first = only_child(server.pid());
    let inner = only_child(first);
    Some(Container { server, first, inner })
}

impl Container {
    /// A client that has woken the agent and seen its tool called.
    fn calling(&self) -> Client {
        let mut client = self.server.subscribed("s1");
        client.wake("go");
        client.events_until("tool/call");
        client
    }
}

/// The children of a process, zombies included.
fn children(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    let lists =
        tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
    let text: String = lists.collect();
    text.split_whitespace().map(|child| child.parse().unwrap()).collect()
}

#[test]
fn sigterm_stops_it_in_order_while_a_tool_runs_a_model_streams_or_a_human_is_waited_for() {
    let provider = Provider::start();
    let mut parked = calling(&[tool("t", "true", &json!({"approval": "always"}))], &calls(&["t"]));
    parked["approvals"] = json!(true);
    let tables = [
        ("tool/call", calling(&[tool("t", "sleep 1000", &json!({}))], &calls(&["t"]))),
        ("user/message", provider.config(&json!({}))),
        ("approval/requested", parked),
    ];
    for (seen, config) in tables {
        for signal in ["TERM", "INT"] {
            let Some(mut container) = container(&config) else { return };
            let mut client = container.server.subscribed("s1");
            client.wake("go");
            client.events_until(seen);
            server::signal(container.first, signal);
            assert_eq!(client.receive(), Received::Closed(Some(1001)), "{seen}");
            assert_eq!(client.receive(), Received::Gone);
            drop(client);
            assert_eq!(container.server.exit().code(), Some(0), "{seen}");
            // The turn stays open in the log, for whoever serves next.
            let next = Server::start_in(container.server.folder(), &["s1"], &config);
            let state = next.state("s1");
            assert_eq!(state["status"], "interrupted", "{seen}");
        }
    }
}

#[test]
fn sighup_reads_the_configuration_again() {
    let Some(container) = container(&json!({"policy": ["old"]})) else { return };
    let client = container.server.subscribed("s1");
    let path = container.server.folder().path().join("config.json");
    let config = server::config(&["s1"], &json!({"policy": ["new"]}));
    fs::write(path, config.to_string()).unwrap();
    server::signal(container.first, "HUP");
    eventually("the new policy", || {
        (container.server.state("s1")["policy"] == json!(["new"])).then_some(())
    });
    drop(client);
}

#[test]
fn what_tools_leave_behind_is_waited_for() {
    // Orphans in the tool's own group and in one of their own; each says who it is when it begins.
    let script = "
        sh -c 'echo $$ > of-group; cat gate-a' > /dev/null &
        setsid sh -c 'echo $$ > of-its-own; cat gate-b' > /dev/null &
        echo started";
    let config = calling(&[tool("t", script, &json!({}))], &calls(&["t"]));
    let Some(container) = container(&config) else { return };
    let folder = container.server.folder();
    for name in ["gate-a", "gate-b"] {
        gate(folder.path(), name);
    }
    let turn = container.server.subscribed("s1").turn("go");
    assert_eq!(outcome(&turn, "t"), Ok("started\n"));
    for name in ["of-group", "of-its-own"] {
        number_in(folder.path(), name);
    }
    // The server is its child, and so are both orphans now, and what each of them waits with.
    eventually("the orphans at the first process", || {
        (children(container.first).len() == 3).then_some(())
    });
    for name in ["gate-a", "gate-b"] {
        fs::write(folder.path().join(name), "go\n").unwrap();
    }
    eventually("no child but the server", || {
        (children(container.first) == [container.inner]).then_some(())
    });
    eventually("no record of a group that is over", || {
        let servers = fs::read_dir(container.server.data_dir().join("running")).ok()?;
        let left: usize =
            servers.map(|own| fs::read_dir(own.unwrap().path()).map_or(0, Iterator::count)).sum();
        (left == 0).then_some(())
    });
}

#[test]
fn when_the_server_is_killed_the_first_process_says_so_and_nothing_of_a_tool_is_left() {
    let script = "sleep 1000 & setsid sleep 1000 & echo ready > ready; wait";
    let config = calling(&[tool("t", script, &json!({}))], &calls(&["t"]));
    let Some(mut container) = container(&config) else { return };
    let _client = container.calling();
    let ready = container.server.folder().path().join("ready");
    eventually("the tool at work", || ready.exists().then_some(()));
    let mut all = vec![container.inner];
    let mut at = 0;
    while at < all.len() {
        all.extend(children(all[at]));
        at += 1;
    }
    assert!(all.len() >= 5, "the server, the watchdog, the tool and its two: {all:?}");
    server::signal(container.inner, "KILL");
    assert_eq!(container.server.exit().code(), Some(137));
    for process in all {
        assert!(!runs(process), "{process} went with the first process");
    }
}

#[test]
fn its_exit_status_is_the_servers() {
    let Some(first) = container(&json!({})) else { return };
    let data_dir = first.server.data_dir();
    let mut command = first_process(env!("CARGO_BIN_EXE_terret-ws"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data_dir);
    let second = command.output().unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(75), "{said}");
}

#[test]
fn what_a_terminal_sends_to_its_group_reaches_the_server_once() {
    let Some(container) = container(&json!({})) else { return };
    let group = |process: u32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        let (_, rest) = stat.rsplit_once(") ").unwrap();
        rest.split(' ').nth(2).unwrap().parse::<u32>().unwrap()
    };
    assert_ne!(group(container.first), container.inner);
    assert_eq!(group(container.inner), container.inner);
}
