//! An agent's life is its own: however a connection ends, the turn goes on, and whoever comes next gets
//! all of it.

use std::fs;

use serde_json::json;
use tungstenite::Message;

use crate::harness::tools::{calling, calls, gate, open_gate, outcome, tool};
use crate::harness::{Client, Server};

/// Ends the client's connection, in one of all the ways there are.
type Ending = fn(&Server, Client) -> Option<Client>;

const ENDINGS: &[(&str, Ending)] = &[
    ("the network drops it", |_, client| {
        client.cut();
        None
    }),
    ("it says goodbye", |_, mut client| {
        client.send_message(Message::Close(None));
        None
    }),
    ("it breaks the protocol", |_, mut client| {
        client.send_message(Message::Frame(reserved_bit()));
        None
    }),
    ("another takes it over", |server, mut old| {
        let client = server.connect("s1");
        old.error_after_events("superseded");
        old.expect_close(4409);
        Some(client)
    }),
    ("its token is withdrawn", |server, mut client| {
        let path = server.folder().path().join("config.json");
        let mut config: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        config["tokens"]["s1"] = json!("another");
        fs::write(path, config.to_string()).unwrap();
        server.signal("HUP");
        client.error_after_events("unauthorized");
        client.expect_close(4401);
        Some(Client::connect(server.addr(), "s1", "another"))
    }),
];

/// A text frame with a bit set that no extension gave a meaning.
fn reserved_bit() -> tungstenite::protocol::frame::Frame {
    use tungstenite::protocol::frame::{Frame, FrameHeader};
    let header = FrameHeader { rsv1: true, ..FrameHeader::default() };
    Frame::from_payload(header, tungstenite::Bytes::new())
}

#[test]
fn a_turn_goes_on_however_its_connection_ends() {
    let tools =
        ["first", "second"].map(|name| tool(name, &format!("cat gate-of-{name}"), &json!({})));
    for (name, end) in ENDINGS {
        let server = Server::start(&["s1"], &calling(&tools, &calls(&["first", "second"])));
        let folder = server.folder();
        for name in ["first", "second"] {
            gate(folder.path(), &format!("gate-of-{name}"));
        }
        let mut client = server.subscribed("s1");
        client.wake("go");
        client.events_until("tool/call");
        let next = end(&server, client);
        for name in ["first", "second"] {
            open_gate(folder.path(), &format!("gate-of-{name}"));
        }
        let mut client = next.unwrap_or_else(|| {
            server.expect_connected("s1", false);
            server.idle_tip("s1", 0);
            server.connect("s1")
        });
        client.subscribe(1);
        let turn = client.events_until("turn/end");
        assert_eq!(turn.last().unwrap().payload, json!({"status": "completed"}), "{name}");
        for id in ["first", "second"] {
            assert_eq!(outcome(&turn, id), Ok("go\n"), "{name}");
        }
    }
}
