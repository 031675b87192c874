//! What a session costs in memory does not depend on how long it is.

use serde_json::json;

use crate::harness::Server;

/// Events of one turn of the session that is to be long.
const CHUNKS: usize = 20_000;
const TURNS: usize = 5;

#[test]
fn a_long_session_costs_no_more_than_a_short_one() {
    let chunks: Vec<&str> = vec!["a piece of text "; CHUNKS];
    let config = json!({
        "log": {"sync": "os"},
        "roles": {"main": "long/m"},
        "roles_scope": "agent",
        "queue_limit": 1_000_000,
        "queue_bytes": 1 << 30,
        "providers": {"long": {"kind": "scripted", "repeat": true, "steps": [{"chunks": chunks}]}}
    });
    let mut server = Server::start(&["long", "short"], &config);
    let mut client = server.subscribed("long");
    for _ in 0..TURNS {
        client.turn("go on");
    }
    let tip = server.idle_tip("long", 0);
    assert!(tip > (CHUNKS * TURNS) as u64);
    drop(client);
    server.kill();

    // The same in a process of its own each: connect, read the end, one turn.
    let resident = |session: &str| {
        let config = json!({"log": {"sync": "os"}});
        let mut server = Server::start_in(server.folder(), &["long", "short"], &config);
        let mut client = server.connect(session);
        client.subscribe(client.last_seq() + 1);
        client.turn("one more");
        let kib = server.resident_kib();
        server.kill();
        kib
    };
    let (short, long) = (resident("short"), resident("long"));
    assert!(long < short + 2048, "{long} KiB for {tip} events, {short} KiB for none");
}
