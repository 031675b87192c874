//! Programs as tools: whatever they do, their call gets one result and nobody else notices.

use serde_json::json;

use crate::harness::client::kinds;
use crate::harness::provider::Provider;
use crate::harness::tools::{
    calling, calls, end, expect_ended, gate, number_in, open_gate, outcome, runs, tool,
};
use crate::harness::{Event, Server, eventually};

/// One turn of a server with these tools, each called once, and what came of it.
fn turn_of(tools: &[(&str, &str)]) -> (Server, Vec<Event>) {
    let definitions: Vec<_> =
        tools.iter().map(|(name, script)| tool(name, script, &json!({}))).collect();
    let names: Vec<&str> = tools.iter().map(|(name, _)| *name).collect();
    let server = Server::start(&["s1"], &calling(&definitions, &calls(&names)));
    let turn = server.subscribed("s1").turn("go");
    assert_eq!(turn.last().unwrap().payload, json!({"status": "completed"}));
    (server, turn)
}

#[test]
fn the_arguments_arrive_exactly_as_the_model_wrote_them() {
    let args = r#"{ "b": 1.0E+2,  "a":12345678901234567890, "z": "äöü \u00e4 \n" }"#;
    let call = json!({"tool_calls": [{"id": "1", "name": "cat", "args": args}]});
    let config = calling(&[json!({"name": "cat", "command": ["cat"]})], &call);
    let server = Server::start(&["s1"], &config);
    let turn = server.subscribed("s1").turn("go");
    assert_eq!(outcome(&turn, "1"), Ok(args));
}

#[test]
fn broken_arguments_are_an_error_that_the_model_reads_and_never_go_back_to_it() {
    let deep = "[".repeat(2000) + &"]".repeat(2000);
    let deep = format!("{{\"a\": {deep}}}");
    let table = [
        (r#"{"city": "Ro"#, false),
        ("null", false),
        ("[1]", false),
        ("\"text\"", false),
        ("{\"a\": NaN}", false),
        (r#"{"a": "\ud800"}"#, false),
        (&deep, false),
        ("{\"a\": 1} {}", false),
        // A key that comes twice is still an object, and so is nothing at all.
        (r#"{"a":1,"a":2}"#, true),
        ("", true),
    ];
    let calls: Vec<(&str, &str, &str)> =
        table.iter().map(|(args, _)| ("0", "cat", *args)).collect();
    let provider = Provider::start();
    let mut config = provider.config(&json!({}));
    config["tools"] = json!([{"name": "cat", "command": ["cat"], "concurrency": "parallel"}]);
    config["policy"] = json!(["*"]);
    let server = Server::start(&["s1"], &config);
    let mut client = server.subscribed("s1");
    client.wake("go");
    provider.ask().call(&calls);
    let ask = provider.ask();
    let sent = &ask.body["messages"][1]["tool_calls"];
    let read = ask.contents("tool");
    assert_eq!((sent.as_array().unwrap().len(), read.len()), (table.len(), table.len()));
    for (place, (args, whole)) in table.into_iter().enumerate() {
        let sent = sent[place]["function"]["arguments"].as_str().unwrap();
        if whole && !args.is_empty() {
            assert_eq!((sent, read[place]), (args, args));
        } else {
            assert_eq!(sent, "{}", "{args}");
        }
        let quoted =
            format!("Error: arguments are not a JSON object: {}", &args[..args.len().min(9)]);
        assert_eq!(read[place].starts_with(&quoted), !whole, "{args}: {}", read[place]);
    }
    ask.answer("Sorry.");
    let turn = client.events_until("turn/end");
    assert_eq!(turn.last().unwrap().payload, json!({"status": "completed"}));
    for call in turn.iter().filter(|event| event.kind == "tool/call") {
        assert!(call.payload["args"].is_object(), "{call:?}");
    }
    // More than a step may hold fails the turn, and says so.
    client.wake("again");
    provider.ask().call(&[("1", "cat", &format!("{{\"a\": \"{}\"}}", "x".repeat(10 << 20)))]);
    let end = client.events_until("turn/end").pop().unwrap().payload;
    assert_eq!(end["status"], "failed");
    assert!(end["reason"].as_str().unwrap().contains("4194304 bytes"), "{end}");
}

#[test]
fn tools_that_run_and_calls_that_wait_for_a_human_occupy_no_worker() {
    let parallel = json!({"concurrency": "parallel"});
    let tools = [
        tool("waits", "cat gate", &parallel),
        tool("parked", "true", &json!({"concurrency": "parallel", "approval": "always"})),
    ];
    let mut config = calling(&tools, &calls(&["waits", "parked", "waits", "waits"]));
    config["workers"] = json!(2);
    config["approvals"] = json!(true);
    config["roles_scope"] = json!("agent");
    let server = Server::start(&["s1", "s2", "s3"], &config);
    gate(server.folder().path(), "gate");
    for session in ["s1", "s2"] {
        let mut client = server.subscribed(session);
        client.wake("go");
        client.events_until("approval/requested");
    }
    let mut client = server.subscribed("s3");
    client.send(&json!({"type": "set_model", "role": "main", "model": "echo/echo"}));
    for n in 0..10 {
        let turn = client.turn(&format!("turn {n}"));
        assert_eq!(turn.last().unwrap().payload["status"], "completed");
    }
    assert_eq!(server.state("s1")["status"], "running");
}

#[test]
fn standard_output_is_the_content_byte_for_byte_and_what_is_no_text_is_marked() {
    let (_server, turn) = turn_of(&[
        ("lines", r"printf ' a\n\nb\n'"),
        ("nothing", "true"),
        ("control", r"printf 'a\000b\033[1m\r\n'"),
        ("bytes", r"printf 'a\377b\303'"),
        ("quiet", "echo only the output counts >&2; echo out"),
    ]);
    for (id, content) in [
        ("lines", " a\n\nb\n"),
        ("nothing", ""),
        ("control", "a\0b\u{1b}[1m\r\n"),
        ("bytes", "a\u{fffd}b\u{fffd}"),
        ("quiet", "out\n"),
    ] {
        assert_eq!(outcome(&turn, id), Ok(content), "{id}");
    }
}

#[test]
fn what_goes_wrong_is_an_error_that_names_it_and_quotes_the_end_of_standard_error() {
    let tools = [
        tool("status", "echo first >&2; echo no such city >&2; echo lost; exit 3", &json!({})),
        tool("signal", "kill -9 $$", &json!({})),
        tool("long", "seq 100000 >&2; exit 1", &json!({})),
        json!({"name": "missing", "command": ["/no/such/program"]}),
        json!({"name": "folder", "command": ["/"]}),
        json!({"name": "nowhere", "command": ["true"], "cwd": "no-such-folder"}),
    ];
    let names = ["status", "signal", "long", "missing", "folder", "nowhere"];
    let server = Server::start(&["s1"], &calling(&tools, &calls(&names)));
    let turn = server.subscribed("s1").turn("go");
    assert_eq!(turn.last().unwrap().payload, json!({"status": "completed"}));
    assert_eq!(outcome(&turn, "status"), Err("status exited with status 3: first\nno such city"));
    assert_eq!(outcome(&turn, "signal"), Err("signal was killed by signal 9"));
    let long = outcome(&turn, "long").unwrap_err();
    assert!(long.starts_with("long exited with status 1: ..."), "{long}");
    assert!(long.ends_with("\n99999\n100000") && long.len() < 5000, "{long}");
    for (id, program, why) in [
        ("missing", "/no/such/program", "No such file"),
        ("folder", "/", "Permission denied"),
        ("nowhere", "true", "No such file"),
    ] {
        let error = outcome(&turn, id).unwrap_err();
        assert!(error.starts_with(&format!("{id} cannot be started: {program}: {why}")), "{error}");
    }
}

#[test]
fn a_key_in_the_configured_environment_is_not_quoted_in_an_error() {
    let more = json!({"env": {"API_KEY": "canary-4711"}});
    let tools = [tool("leaks", "echo \"refused: $API_KEY\" >&2; exit 1", &more)];
    let server = Server::start(&["s1"], &calling(&tools, &calls(&["leaks"])));
    let turn = server.subscribed("s1").turn("go");
    let error = "leaks exited with status 1: refused: [REDACTED]";
    assert_eq!(outcome(&turn, "leaks"), Err(error));
    assert!(!server.stderr().contains("canary"), "{}", server.stderr());
}

#[test]
fn a_program_has_an_environment_and_descriptors_of_its_own() {
    let tools = [tool("show", "env; echo; ls /proc/self/fd", &json!({"env": {"KEY": "value"}}))];
    let server = Server::start(&["s1"], &calling(&tools, &calls(&["show"])));
    let turn = server.subscribed("s1").turn("go");
    let shown = outcome(&turn, "show").unwrap();
    let (environment, descriptors) = shown.split_once("\n\n").unwrap();
    for line in environment.lines() {
        let (name, _) = line.split_once('=').unwrap();
        let known = ["PATH", "HOME", "LANG", "TZ", "KEY", "TERRET_SESSION_ID", "TERRET_CALL_ID"];
        // The shell adds the second kind by itself.
        assert!(known.contains(&name) || ["PWD", "OLDPWD", "SHLVL", "_"].contains(&name), "{line}");
    }
    for line in ["KEY=value", "TERRET_SESSION_ID=s1", "TERRET_CALL_ID=show"] {
        assert!(environment.lines().any(|found| found == line), "{line}");
    }
    // The fourth is the listing itself.
    assert_eq!(descriptors, "0\n1\n2\n3\n");
}

#[test]
fn a_program_need_not_read_its_input_nor_keep_its_pipes_open() {
    // More than a pipe holds, so that it can be sent only to somebody who reads it.
    let args = json!({"text": "x".repeat(300_000)});
    let tools = [
        tool("deaf", "echo deaf", &json!({})),
        tool("closes", "exec <&-; echo closes", &json!({})),
        tool("late", "sleep 0.2; wc -c", &json!({})),
        tool("mute", "echo heard; exec >&- 2>&-; cat >/dev/null", &json!({})),
    ];
    let names = ["deaf", "closes", "late", "mute"];
    let call = |name: &&str| json!({"id": name, "name": name, "args": args});
    let step = json!({"tool_calls": names.iter().map(call).collect::<Vec<_>>()});
    let server = Server::start(&["s1"], &calling(&tools, &step));
    let turn = server.subscribed("s1").turn("go");
    assert_eq!(outcome(&turn, "deaf"), Ok("deaf\n"));
    assert_eq!(outcome(&turn, "closes"), Ok("closes\n"));
    let sent = outcome(&turn, "late").unwrap().trim().parse::<usize>().unwrap();
    assert_eq!(sent, args.to_string().len());
    assert_eq!(outcome(&turn, "mute"), Ok("heard\n"));
}

#[test]
fn output_is_bounded_while_it_is_read_and_cut_at_a_character() {
    let short = json!({"max_output_bytes": 10});
    let tools = [
        tool("flood", "head -c 200000000 /dev/zero; echo out of breath >&2", &json!({})),
        tool("errors", "head -c 200000000 /dev/zero >&2; echo fine", &json!({})),
        tool("exact", "printf 0123456789", &short),
        tool("over", "printf 0123456789x", &short),
        tool("split", "printf 012345678ä", &short),
    ];
    let names = ["flood", "errors", "exact", "over", "split"];
    let server = Server::start(&["s1"], &calling(&tools, &calls(&names)));
    let mut client = server.subscribed("s1");
    let before = server.resident_kib();
    let turn = client.turn("go");
    assert!(server.resident_kib() < before + 16 * 1024, "what it does not keep, it does not hold");
    let notice = "\n[cut: the output is longer than 65536 bytes]";
    assert_eq!(outcome(&turn, "flood"), Ok(&*("\0".repeat(65_536) + notice)));
    assert_eq!(outcome(&turn, "errors"), Ok("fine\n"));
    assert_eq!(outcome(&turn, "exact"), Ok("0123456789"));
    let notice = "\n[cut: the output is longer than 10 bytes]";
    assert_eq!(outcome(&turn, "over"), Ok(&*("0123456789".to_owned() + notice)));
    assert_eq!(outcome(&turn, "split"), Ok(&*("012345678".to_owned() + notice)));
}

#[test]
fn a_flooding_program_starves_nobody() {
    let parallel = json!({"concurrency": "parallel"});
    let tools = [tool("flood", "yes", &parallel), tool("errors", "yes >&2", &parallel)];
    let mut config = calling(&tools, &calls(&["flood", "errors"]));
    config["roles_scope"] = json!("agent");
    let server = Server::start(&["s1", "s2"], &config);
    let mut flooded = server.subscribed("s1");
    flooded.wake("go");
    flooded.events_until("tool/call");
    let mut other = server.subscribed("s2");
    other.send(&json!({"type": "set_model", "role": "main", "model": "echo/echo"}));
    for text in ["one", "two", "three"] {
        let turn = other.turn(text);
        assert_eq!(turn.last().unwrap().payload, json!({"status": "completed"}));
    }
    assert_eq!(server.state("s1")["status"], "running");
}

#[test]
fn after_a_time_out_nothing_of_the_group_is_left() {
    let timeout = json!({"timeout_s": 1});
    let tools = [
        tool("polite", "sleep 1000 & echo $! > polite; wait", &timeout),
        tool(
            "deaf",
            "trap 'echo not now >&2' TERM; (trap '' TERM; exec sleep 1000) & echo $! > deaf
             while :; do wait; done",
            &timeout,
        ),
        tool("holds", "sleep 1000 & echo $! > holds; exec >&- 2>&-; sleep 1000", &timeout),
    ];
    let names = ["polite", "deaf", "holds"];
    let server = Server::start(&["s1"], &calling(&tools, &calls(&names)));
    let folder = server.folder();
    let turn = server.subscribed("s1").turn("go");
    for id in names {
        let error = outcome(&turn, id).unwrap_err();
        assert!(error.starts_with(&format!("{id} timed out after 1 s")), "{error}");
        expect_ended(number_in(folder.path(), id));
    }
    let error = outcome(&turn, "deaf").unwrap_err();
    assert!(error.contains("not now"), "SIGTERM comes first: {error}");
    eventually("nothing on record", || (server.records() == 0).then_some(()));
}

#[test]
fn a_grandchild_that_holds_the_pipe_does_not_hold_the_turn() {
    let (mut server, turn) = turn_of(&[
        ("serves", "sleep 1000 & echo $! > left; echo started"),
        ("floods", "yes & echo $! > floods; echo $! is here >&2"),
        ("leaves", "setsid sleep 1000 & echo $! > gone; echo gone"),
    ]);
    let folder = server.folder();
    let [left, floods, gone] = ["left", "floods", "gone"].map(|f| number_in(folder.path(), f));
    assert_eq!(outcome(&turn, "serves"), Ok("started\n"));
    assert!(outcome(&turn, "floods").is_ok());
    assert_eq!(outcome(&turn, "leaves"), Ok("gone\n"));
    // A model may have started a server on purpose: what stayed in the group goes on...
    assert!(runs(left) && runs(gone), "what a tool leaves running runs");
    assert!(server.records() > 0, "and is on record");
    // ...until the server ends. What left the group is not chased.
    server.signal("TERM");
    assert_eq!(server.exit().code(), Some(0));
    expect_ended(left);
    expect_ended(floods);
    assert!(runs(gone));
    end(gone);
}

#[test]
fn parallel_tools_run_together_and_a_serial_one_waits_for_them() {
    let parallel = json!({"concurrency": "parallel"});
    let tools = [
        // Each waits for the other; one after the other they would wait for ever.
        tool("a", "cat from-b; echo a > from-a", &parallel),
        tool("b", "echo b > from-b; cat from-a; echo done > pair", &parallel),
        tool("fails", "exit 1", &parallel),
        tool("alone", "cat pair", &json!({})),
    ];
    let server = Server::start(&["s1"], &calling(&tools, &calls(&["a", "b", "fails", "alone"])));
    let folder = server.folder();
    gate(folder.path(), "from-a");
    gate(folder.path(), "from-b");
    let turn = server.subscribed("s1").turn("go");
    let tools: Vec<String> = turn
        .iter()
        .filter(|event| event.kind.starts_with("tool/"))
        .map(|event| format!("{} {}", event.kind, event.payload["id"].as_str().unwrap()))
        .collect();
    let order = [
        "tool/call a",
        "tool/call b",
        "tool/call fails",
        "tool/result a",
        "tool/result b",
        "tool/result fails",
        "tool/call alone",
        "tool/result alone",
    ];
    assert_eq!(tools, order);
    assert_eq!(outcome(&turn, "a"), Ok("b\n"));
    assert_eq!(outcome(&turn, "b"), Ok("a\n"));
    assert_eq!(outcome(&turn, "fails"), Err("fails exited with status 1"));
    assert_eq!(outcome(&turn, "alone"), Ok("done\n"));
}

#[test]
fn a_cancel_lets_the_running_tool_end_and_truncates_the_rest() {
    let tools = [tool("waits", "cat gate", &json!({})), tool("next", "true", &json!({}))];
    let server = Server::start(&["s1"], &calling(&tools, &calls(&["waits", "next", "next"])));
    let folder = server.folder();
    gate(folder.path(), "gate");
    let mut client = server.subscribed("s1");
    client.wake("go");
    client.events_until("tool/call");
    client.cancel("enough");
    // The answer to what came after it says that the cancel was taken in.
    client.send(&json!({"type": "no such frame"}));
    client.expect_error("bad_frame");
    open_gate(folder.path(), "gate");
    let rest = client.events_until("turn/end");
    let golden = ["tool/result", "tool/call", "tool/result", "tool/call", "tool/result"];
    assert_eq!(kinds(&rest)[..5], golden);
    assert_eq!(kinds(&rest)[5..], ["step/end", "turn/end"]);
    assert_eq!(rest[0].payload["content"], "go\n");
    for truncated in [2, 4] {
        assert_eq!(rest[truncated].payload["error"], "cancelled before execution");
    }
    assert_eq!(rest[6].payload, json!({"status": "cancelled", "reason": "enough"}));
}

#[test]
fn no_zombie_no_descriptor_and_no_record_is_left() {
    let tools = [
        tool("fine", "cat", &json!({"concurrency": "parallel"})),
        tool("fails", "exit 9", &json!({"concurrency": "parallel"})),
        tool("dies", "kill -9 $$", &json!({"concurrency": "parallel"})),
        json!({"name": "missing", "command": ["/no/such/program"], "concurrency": "parallel"}),
    ];
    let names = ["fine", "fails", "dies", "missing"];
    let server = Server::start(&["s1"], &calling(&tools, &calls(&names)));
    let mut client = server.subscribed("s1");
    client.turn("warm up");
    let quiet = || server.children().is_empty() && server.records() == 0;
    eventually("no children and no records", || quiet().then_some(()));
    let before = server.descriptors();
    for _ in 0..10 {
        client.turn("again");
    }
    eventually("no children and no records", || quiet().then_some(()));
    eventually("as many descriptors as before", || (server.descriptors() <= before).then_some(()));
}
