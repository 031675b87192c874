//! A canary in every secret that a server is given, driven through what goes wrong: none comes out in
//! its log, an answer, a frame, a file or the process list (cases.md 35).
//!
//! Decided: what a tool writes to standard output and ends well with is its result, so a model and a
//! client may see it, whatever it is. What it says while it fails is only quoted, and is searched.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::provider::Provider;
use crate::harness::server::{binary, config, finish, run};
use crate::harness::tools::{calls, gate, number_in, outcome, tool};
use crate::harness::wire::{Wire, handshake};
use crate::harness::{Client, Server, eventually, http};

/// Every secret holds this word, so that a piece of one is found too.
const CANARY: &[u8] = b"canary";
const TOKEN: &str = "canary-of-the-config";
const FILE_TOKEN: &str = "canary-of-the-tokens-file";
const KEY: &str = "canary-of-the-environment";
const TOOL_KEY: &str = "canary-of-a-tool";

/// All that came out of the server, by where it did.
#[derive(Default)]
struct Seen(BTreeMap<String, Vec<u8>>);

impl Seen {
    fn add(&mut self, place: &str, bytes: impl AsRef<[u8]>) {
        self.0.entry(place.to_owned()).or_default().extend_from_slice(bytes.as_ref());
    }

    fn expect_no_canary(&self) {
        for (place, bytes) in &self.0 {
            if let Some(at) = canary_in(bytes) {
                let around = &bytes[at.saturating_sub(80)..bytes.len().min(at + 80)];
                panic!("a canary in {place}: {}", String::from_utf8_lossy(around));
            }
        }
    }
}

fn canary_in(bytes: &[u8]) -> Option<usize> {
    bytes.windows(CANARY.len()).position(|seen| seen == CANARY)
}

/// A turn, whose frames are `place`, and how it ended.
fn turn(seen: &mut Seen, place: &str, client: &mut Client) -> Value {
    let events = client.events_until("turn/end");
    for event in &events {
        seen.add(place, &event.raw);
    }
    events.last().unwrap().payload.clone()
}

/// The server's configuration: a canary wherever a secret may stand.
fn secretive(provider: &Provider) -> Value {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let asks = |addr: SocketAddr| {
        json!({
            "kind": "openai", "base_url": format!("http://{addr}/v1?api_key=canary-of-the-query"),
            "api_key_env": "PROVIDER_KEY", "max_attempts": 1,
            "headers": {"X-Auth": "Bearer canary-of-a-header"},
            "extra_body": {"user_token": "canary-of-the-body"}
        })
    };
    let failing = json!([calls(&["complains", "dies", "missing", "waits"]), {"text": "done"}]);
    let printing = json!([calls(&["prints"]), {"text": "done"}]);
    let env = json!({"env": {"API_KEY": TOOL_KEY}});
    json!({
        "tokens": {"s1": TOKEN, "s2": TOKEN, "well": TOKEN},
        "tokens_file": "tokens.json",
        "roles_scope": "agent",
        "policy": ["*"],
        "providers": {
            "asked": asks(provider.addr), "gone": asks(closed),
            "failing": {"kind": "scripted", "steps": failing},
            "printing": {"kind": "scripted", "steps": printing},
        },
        "roles": {"main": "asked/m"},
        "tools": [
            tool("complains", "env >&2; exit 1", &env),
            tool("dies", "echo \"$API_KEY\"; env >&2; kill -9 $$", &env),
            {"name": "missing", "command": ["/no/such/program"], "env": {"API_KEY": TOOL_KEY}},
            tool("waits", "echo $$ > process; read -r _ < gate; env >&2; exit 1", &env),
            tool("prints", "echo \"$API_KEY\"", &env),
        ],
    })
}

fn launch(folder: &Arc<TempDir>, config: &Value) -> Server {
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let mut command = binary();
    command.args(["serve", "--config", "config.json"]).env("PROVIDER_KEY", KEY);
    Server::launch(command, Arc::clone(folder))
}

/// A refusal that quotes all that it was asked with.
fn quote_everything(provider: &Provider) {
    let ask = provider.ask();
    let said = format!("{}{}", ask.head, ask.body);
    for secret in [KEY, "canary-of-the-query", "canary-of-a-header", "canary-of-the-body"] {
        assert!(said.contains(secret), "the provider gets what it is to get: {said}");
    }
    let body = json!({"error": {"message": said}}).to_string();
    ask.refuse("401 Unauthorized", "WWW-Authenticate: canary-of-the-config\r\n", &body);
}

fn use_model(client: &mut Client, model: &str) {
    client.send(&json!({"type": "set_model", "role": "main", "model": model}));
}

/// The process list while a tool runs: everybody's command line, and the environment of all that the
/// server has started.
fn look_at_processes(seen: &mut Seen, server: &Server, tool: u32) {
    let of = |process: u32, file: &str| fs::read(format!("/proc/{process}/{file}")).unwrap();
    let children = server.children();
    assert!(children.contains(&tool), "the tool, and who watches: {children:?}");
    for child in children {
        seen.add("a command line", of(child, "cmdline"));
        if child != tool {
            seen.add("an environment", of(child, "environ"));
        }
    }
    seen.add("a command line", of(server.pid(), "cmdline"));
    let own = of(tool, "environ");
    let variables = own.split(|byte| *byte == 0).filter(|variable| canary_in(variable).is_some());
    let expected = format!("API_KEY={TOOL_KEY}");
    assert_eq!(variables.collect::<Vec<_>>(), [expected.as_bytes()], "its own, and no other");
}

/// Whoever may not come in, or asks oddly, with a secret in every part of the request.
fn knock_in_every_way(seen: &mut Seen, server: &Server) {
    let shaken = handshake("s1", "canary-of-a-stranger");
    let plain = "GET /agents/s1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer canary-wrong\r\n\r\n";
    for request in [
        shaken.clone(),
        shaken.replace("/ws", &format!("/ws?token={TOKEN}")),
        shaken.replace("/ws", "/canary-of-a-path"),
        shaken.replace("Bearer ", "Basic "),
        shaken.replace("Upgrade: websocket", "Sec-WebSocket-Protocol: canary-of-a-protocol"),
        shaken.replace("Host:", "Origin: https://canary\r\nCookie: canary\r\nHost:"),
        shaken.replace("Version: 13", "Version: canary"),
        shaken.replace("Host: ", "canary "),
        shaken.replace("HTTP/1.1", "canary"),
        shaken.replace("s1", "canary-of-a-name"),
        plain.to_owned(),
        plain.replace("GET", "POST"),
        plain.replace("canary-wrong", TOKEN),
        plain.replace("canary-wrong", TOKEN).replace("s1 ", "s1/events?canary=1 "),
        plain.replace("canary-wrong", TOKEN).replace("s1 ", "s1/events?from_seq=canary "),
        plain.replace("/agents/s1", &format!("/metrics?token={TOKEN}")),
        plain.replace("/agents/s1", &format!("/healthz?token={TOKEN}")),
    ] {
        let mut wire = Wire::connect(server.addr());
        wire.send(request.as_bytes());
        let (answer, _) = wire.rest();
        assert!(answer.starts_with(b"HTTP/1.1 "), "{request}");
        seen.add(&format!("the answer to {request}"), answer);
    }
}

/// Configurations and tokens files with something wrong, above all where a secret stands.
fn reload_nonsense(seen: &mut Seen, server: &Server, good: &Value) {
    let whole = good.to_string();
    let broken = [
        whole.replace("\"canary-of-the-config\"", "[\"canary-of-the-config \"]"),
        whole.replace("\"canary-of-a-tool\"", "[\"canary-of-a-tool\"]"),
        whole.replace("\"PROVIDER_KEY\"", "\"canary-of-the-environment\""),
        whole.replace("Bearer canary-of-a-header", "canary-of-a-header\\n"),
        whole.replace("?api_key=canary-of-the-query", "?api_key=canary-of-the-query#"),
        whole.replace("http://127", "http://canary:canary@127"),
        whole.replace("canary-of-the-config\"", "canary-of-the-config"),
        whole.replace(r#"{"user_token":"canary-of-the-body"}"#, r#""canary-of-the-body""#),
        whole[..whole.find("canary-of-the-body").unwrap() + 10].to_owned(),
    ];
    for text in broken {
        server.expect_complaint("configuration not reloaded", || {
            fs::write(server.folder().path().join("config.json"), text).unwrap();
            server.signal("HUP");
        });
        let check = binary()
            .args(["check", "--config", "config.json"])
            .env("PROVIDER_KEY", KEY)
            .current_dir(server.folder().path())
            .output()
            .unwrap();
        assert_eq!(check.status.code(), Some(1));
        seen.add("the output of check", [check.stdout, check.stderr].concat());
    }
    for text in [r#"{"s2": "canary-of-the-tokens-file "}"#, r#"{"s2": "canary-of-"#] {
        server.expect_complaint("tokens file not used", || {
            fs::write(server.folder().path().join("tokens.json"), text).unwrap();
        });
    }
    fs::write(server.folder().path().join("config.json"), &whole).unwrap();
    fs::write(server.folder().path().join("tokens.json"), tokens_file()).unwrap();
}

fn tokens_file() -> String {
    json!({"s2": FILE_TOKEN}).to_string()
}

/// Every file below `dir`, but for what the session that printed its own key has in its log.
fn read_files(seen: &mut Seen, dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_files(seen, &path);
        } else if !path.parent().is_some_and(|parent| parent.ends_with("sessions/well")) {
            seen.add(&path.display().to_string(), fs::read(&path).unwrap());
        }
    }
}

#[test]
fn no_secret_comes_out_whatever_goes_wrong() {
    let mut seen = Seen::default();
    let provider = Provider::start();
    let folder = Arc::new(TempDir::new().unwrap());
    gate(folder.path(), "gate");
    fs::write(folder.path().join("tokens.json"), tokens_file()).unwrap();
    let config = config(&[], &secretive(&provider));
    let mut server = launch(&folder, &config);

    knock_in_every_way(&mut seen, &server);
    let mut client = Client::connect(server.addr(), "s1", TOKEN);
    client.subscribe(0);
    client.wake("go");
    quote_everything(&provider);
    let end = turn(&mut seen, "frames about a refusal", &mut client);
    assert!(end["reason"].as_str().is_some_and(|reason| reason.contains("[REDACTED]")), "{end}");
    use_model(&mut client, "gone/m");
    client.wake("go");
    assert_eq!(turn(&mut seen, "frames about a lost provider", &mut client)["status"], "failed");

    let mut client = Client::connect(server.addr(), "s2", FILE_TOKEN);
    client.subscribe(0);
    use_model(&mut client, "failing/m");
    client.wake("go");
    let process = number_in(folder.path(), "process");
    look_at_processes(&mut seen, &server, process);
    crate::harness::server::signal(process, "KILL");
    assert_eq!(turn(&mut seen, "frames about tools", &mut client)["status"], "completed");
    client.send_text(r#"{"type":"canary"}"#);
    client.send_text(r#"{"type":"set_model","role":"main","model":"canary/m"}"#);
    let errors = [client.expect_error("bad_frame"), client.expect_error("bad_frame")];
    seen.add("error frames", errors.concat());

    let mut client = Client::connect(server.addr(), "well", TOKEN);
    client.subscribe(0);
    use_model(&mut client, "printing/m");
    let printed = client.turn("go");
    assert_eq!(outcome(&printed, "prints"), Ok("canary-of-a-tool\n"), "its result, as it is");

    reload_nonsense(&mut seen, &server, &config);
    // Whoever comes with a token that was withdrawn, and one who holds it then.
    let mut holder = Client::connect(server.addr(), "s2", FILE_TOKEN);
    fs::write(folder.path().join("tokens.json"), "{}").unwrap();
    seen.add("error frames", holder.expect_error("unauthorized"));

    // A process death in the middle of a request, and a resume that fails.
    let mut client = Client::connect(server.addr(), "s1", TOKEN);
    use_model(&mut client, "asked/m");
    client.wake("go");
    let _ask = provider.ask();
    seen.add("/metrics", http::get(server.addr(), "/metrics", None).body);
    seen.add("standard error", server.stderr());
    seen.add("standard output", server.stdout());
    server.kill();
    let mut json = config.clone();
    json["log_format"] = "json".into();
    let mut server = launch(&folder, &json);
    let mut client = Client::connect(server.addr(), "s1", TOKEN);
    client.wake("again");
    quote_everything(&provider);
    let state = eventually("the reason of the failed resume", || {
        let state = http::get(server.addr(), "/agents/s1", Some(TOKEN)).body;
        (!state.contains(r#""last_error":null"#)).then_some(state)
    });
    assert!(state.contains("[REDACTED]"), "{state}");
    seen.add("an agent's state", state);
    for path in ["/metrics", "/healthz"] {
        seen.add(path, http::get(server.addr(), path, None).body);
    }

    // A second server, and what the command line shows.
    let second = finish(
        binary()
            .args(["serve", "--config", "config.json"])
            .env("PROVIDER_KEY", KEY)
            .current_dir(folder.path())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap(),
    );
    assert_eq!(second.status.code(), Some(75));
    let log = run(folder.path(), &["log", "s1"]);
    let sessions = run(folder.path(), &["sessions"]);
    for output in [second, log, sessions] {
        seen.add("a command's output", [output.stdout, output.stderr].concat());
    }
    server.signal("TERM");
    server.exit();
    seen.add("standard error", server.stderr());
    seen.add("standard output", server.stdout());
    read_files(&mut seen, &server.data_dir());
    seen.expect_no_canary();
    let places = seen.0.len();
    assert!(places > 30, "{places} places: {:?}", seen.0.keys());
}
