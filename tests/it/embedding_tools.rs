//! Tools and hooks that are code of the program around the server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use terret_ws::agent::{Hooks, StepAhead};
use terret_ws::client::{Client, Endpoint, Received};
use terret_ws::config::{
    Concurrency, Config, ProviderConfig, Script, ScriptCall, ScriptEnd, ScriptStep, Token,
    ToolConfig,
};
use terret_ws::proto::command::Command;
use terret_ws::proto::ident::{ModelSpec, SessionId};
use terret_ws::proto::payload::{Call, Content, Outcome};
use terret_ws::server::{Builder, Handle, RunError, StartError};
use terret_ws::tool::{ClosureTool, ToolCall};

/// Long enough that only a hang reaches it.
const HANG: Duration = Duration::from_secs(60);

const SESSIONS: [&str; 5] = ["s0", "s1", "s2", "s3", "s4"];

struct Running {
    handle: Handle,
    address: std::net::SocketAddr,
    thread: thread::JoinHandle<Result<(), RunError>>,
    _dir: tempfile::TempDir,
}

fn session(id: &str) -> SessionId {
    SessionId::parse(id).expect("a valid id")
}

/// One model answer that calls each of these tools.
fn calls(names: &[&str]) -> ScriptStep {
    let call = |name: &&str| ScriptCall {
        id: (*name).to_owned(),
        name: (*name).to_owned(),
        args: r#"{"n":1}"#.into(),
    };
    let calls = names.iter().map(call).collect();
    let end = ScriptEnd::Answer { calls, usage: None };
    ScriptStep { delay_ms: 0, chunk_delay_ms: 0, pieces: Vec::new(), end }
}

/// A server whose model calls these tools, and then has nothing to say.
fn start(called: &[&str], adjust: impl FnOnce(Builder) -> Builder) -> Running {
    start_with(called, Vec::new(), adjust)
}

/// The same, with programs as tools.
fn start_with(
    called: &[&str],
    programs: Vec<ToolConfig>,
    adjust: impl FnOnce(Builder) -> Builder,
) -> Running {
    let dir = tempfile::tempdir().expect("a directory");
    let mut config = Config {
        listen: "127.0.0.1:0".parse().expect("an address"),
        data_dir: dir.path().join("data"),
        workers: Some(3),
        policy: vec!["*".to_owned()],
        tools: programs,
        ..Config::default()
    };
    for id in SESSIONS {
        config.tokens.add(session(id), Token::parse("secret").expect("a token"));
    }
    let script = Script { steps: vec![calls(called), calls(&[])], repeat: true };
    config.providers.insert("script".to_owned(), ProviderConfig::Scripted(script));
    config.roles.insert("main".to_owned(), ModelSpec::parse("script/m").expect("a model"));
    let server = adjust(Builder::new(config)).bind().expect("it starts");
    let (handle, address) = (server.handle(), server.local_addr());
    let thread = thread::spawn(move || server.run());
    Running { handle, address, thread, _dir: dir }
}

impl Running {
    /// A connection that sees its session from the first turn on.
    fn connect(&self, id: &str) -> Client {
        let endpoint = Endpoint::of_agent(self.address, &session(id));
        let mut client = Client::connect(&endpoint, "secret").expect("it connects");
        assert!(text(&mut client).starts_with("{\"type\":\"hello\""));
        client.send(&Command::Subscribe { from_seq: 1 }).expect("it is sent");
        client
    }

    /// A turn of a session, started by `text`: its events, to its end.
    fn turn(&self, id: &str, text: &str) -> String {
        let mut client = self.connect(id);
        wake(&mut client, text);
        until(&mut client, "turn/end")
    }

    fn stop(self) {
        self.handle.shutdown();
        self.thread.join().expect("no panic").expect("it was told to stop");
    }
}

fn wake(client: &mut Client, text: &str) {
    client.send(&Command::Inject { text: text.to_owned(), wake: true }).expect("it is sent");
}

fn text(client: &mut Client) -> String {
    match client.receive(Some(HANG)).expect("the connection stands") {
        Received::Text(text) => text,
        other => panic!("no frame but {other:?}"),
    }
}

/// All frames up to the first event of this type.
fn until(client: &mut Client, kind: &str) -> String {
    let mut all = String::new();
    loop {
        let frame = text(client);
        all += &frame;
        all.push('\n');
        if frame.contains(&format!("\"type\":\"{kind}\"")) {
            return all;
        }
    }
}

#[test]
fn a_closure_answers_fails_or_panics_and_each_is_its_calls_result() {
    let answers = ClosureTool::new("answers", |call: &ToolCall<'_>| {
        Ok(Content::json(&format!("[{}]", call.args)).expect("it is JSON"))
    });
    let fails = ClosureTool::new("fails", |_: &ToolCall<'_>| Err("no luck".to_owned()));
    let panics = ClosureTool::new("panics", |_: &ToolCall<'_>| {
        // As a panic, but for the message to standard error.
        std::panic::resume_unwind(Box::new("intended"))
    });
    let running = start(&["answers", "panics", "fails"], |builder| {
        builder.tool(answers).tool(fails).tool(panics)
    });
    let turn = running.turn("s0", "go");
    for result in [
        r#"{"id":"answers","content":[{"n":1}],"error":null}"#,
        r#"{"id":"panics","content":null,"error":"panics panicked"}"#,
        r#"{"id":"fails","content":null,"error":"no luck"}"#,
    ] {
        assert!(turn.contains(result), "{result} in {turn}");
    }
    assert!(turn.contains(r#"{"status":"completed"}"#), "{turn}");
    running.stop();
}

#[test]
fn closures_that_block_hold_neither_other_agents_nor_the_end() {
    let (started, starts): (Sender<()>, Receiver<()>) = channel();
    let (release, released): (Sender<()>, Receiver<()>) = channel();
    let released = Mutex::new(released);
    let blocks = ClosureTool::new("blocks", move |_: &ToolCall<'_>| {
        started.send(()).expect("the test waits");
        // Until the test is over.
        released.lock().expect("no panic").recv().ok();
        Ok(Content::text(""))
    });
    let running = start(&["blocks"], |builder| builder.tool(blocks));
    // As many as there are workers, and one more.
    let mut blocked: Vec<Client> = SESSIONS[..4].iter().map(|id| running.connect(id)).collect();
    for client in &mut blocked {
        wake(client, "go");
        until(client, "tool/call");
    }
    starts.recv_timeout(HANG).expect("one runs");
    let mut free = running.connect("s4");
    free.send(&Command::SetPolicy { patterns: Vec::new() }).expect("it is sent");
    until(&mut free, "policy/updated");
    wake(&mut free, "go");
    assert!(until(&mut free, "turn/end").contains("blocks is not on the allow list"));
    free.send(&Command::Subscribe { from_seq: 0 }).expect("it is sent");
    assert!(until(&mut free, "turn/end").contains("session/created"));
    drop((free, blocked));
    running.stop();
    drop(release);
}

/// Refuses what is rude, forbids what is dear, and signs every result.
struct House {
    asked: Arc<Mutex<Vec<String>>>,
}

impl Hooks for House {
    fn before_step(&self, step: &StepAhead<'_>, texts: &mut [String]) -> Result<(), String> {
        self.asked.lock().expect("no panic").push(format!("{} {}", step.session, step.n));
        if texts.iter().any(|text| text == "rude") {
            return Err("not in this house".to_owned());
        }
        for text in texts {
            text.push_str(", please");
        }
        Ok(())
    }

    fn before_call(&self, _: &SessionId, call: &Call) -> Result<(), String> {
        if call.name == "dear" { Err("too dear".to_owned()) } else { Ok(()) }
    }

    fn after_call(&self, _: &SessionId, _: &Call, outcome: Outcome) -> Outcome {
        outcome.map(|content| Content::text(&format!("{} (checked)", content.to_text())))
    }
}

#[test]
fn hooks_refuse_rewrite_and_veto() {
    let tool = |name: &str| ClosureTool::new(name, |_: &ToolCall<'_>| Ok(Content::text("out")));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let house = House { asked: Arc::clone(&asked) };
    let running = start(&["cheap", "dear"], |builder| {
        builder.tool(tool("cheap")).tool(tool("dear")).hooks(house)
    });
    let rejected = running.turn("s0", "rude");
    assert!(rejected.contains(r#"{"status":"rejected","reason":"not in this house"}"#));
    assert!(!rejected.contains("step/start"), "{rejected}");
    let turn = running.turn("s1", "go");
    for part in [
        r#""type":"user/message","payload":{"text":"go, please"}"#,
        r#"{"id":"cheap","content":"out (checked)","error":null}"#,
        r#"{"id":"dear","content":null,"error":"dear vetoed: too dear"}"#,
        r#"{"status":"completed"}"#,
    ] {
        assert!(turn.contains(part), "{part} in {turn}");
    }
    assert_eq!(*asked.lock().expect("no panic"), ["s0 1", "s1 1", "s1 2"]);
    running.stop();
}

/// Panics over the first result it sees.
struct Clumsy {
    fell: AtomicBool,
}

impl Hooks for Clumsy {
    fn after_call(&self, _: &SessionId, _: &Call, outcome: Outcome) -> Outcome {
        if !self.fell.swap(true, Ordering::Relaxed) {
            std::panic::resume_unwind(Box::new("intended"));
        }
        outcome
    }
}

#[test]
fn an_agent_that_is_lost_to_a_panic_loses_its_tools_and_gets_its_turn_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = |name: &str, script: &str| {
        let mut tool = ToolConfig::new(name, vec!["sh".into(), "-c".into(), script.into()]);
        tool.concurrency = Concurrency::Parallel;
        tool.cwd = Some(dir.path().to_owned());
        tool
    };
    // The second runs for ever the first time, and the first ends when it has begun to.
    let tools = vec![
        script("short", "until [ -s number ]; do sleep 0.01; done; echo short"),
        script("long", "[ -e number ] && exec echo long; echo $$ > number; exec sleep 1000"),
    ];
    let running = start_with(&["short", "long"], tools, |builder| {
        builder.hooks(Clumsy { fell: AtomicBool::new(false) })
    });
    let mut client = running.connect("s0");
    wake(&mut client, "go");
    let error = until(&mut client, "error");
    assert!(error.contains("\"code\":\"internal\""), "{error}");
    let number = std::fs::read_to_string(dir.path().join("number")).expect("it has begun");
    let stat = format!("/proc/{}/stat", number.trim());
    while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        thread::yield_now();
    }
    let turn = running.turn("s0", "and now?");
    for part in [
        r#"{"id":"short","content":"short\n","error":null}"#,
        r#"{"id":"long","content":"long\n","error":null}"#,
        r#""type":"context/injected","payload":{"text":"and now?"}"#,
    ] {
        assert_eq!(turn.matches(part).count(), 1, "{part} in {turn}");
    }
    assert_eq!(turn.matches("\"tool/call\"").count(), 2, "{turn}");
    drop(client);
    running.stop();
}

#[test]
fn a_tool_that_is_not_defined_as_it_must_be_is_refused_before_anything_is_served() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = Config { data_dir: dir.path().join("data"), ..Config::default() };
    let tool = ClosureTool::new("t", |_: &ToolCall<'_>| Err(String::new())).params("[]");
    let refused = Builder::new(config).tool(tool).bind().err().expect("it is refused");
    assert!(matches!(&refused, StartError::Tool { tool, .. } if tool == "t"), "{refused}");
    assert!(!dir.path().join("data").exists());
}
