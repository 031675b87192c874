//! `terret-ws demo`: one session from `hello` to its last `turn/end`, every frame shown as it passes.
//!
//! Server and client run in this process, on a free port and in a directory that is removed
//! afterwards. The client has a thread of its own, because the server takes the one it is run on.
//!
//! Invariant: two runs differ in ids, times, token and port, and in nothing else. The model reads from
//! `demo.json`, and the client goes on only when the server can do nothing more without it.

use std::io;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use super::{Failure, Output, World, token};
use crate::agent::Approval;
use crate::client::{Client, Endpoint, Received, ServerFrame};
use crate::config::{Config, Surroundings, Token};
use crate::disk::scratch::Scratch;
use crate::proto::command::Command;
use crate::proto::ident::SessionId;
use crate::proto::payload::Content;
use crate::server::Builder;
use crate::tool::{ClosureTool, ToolCall};

pub(super) fn run(world: &World) -> Result<(), Failure> {
    let scratch = Scratch::new("terret-demo")
        .map_err(|error| Failure::bad(format!("no directory for the demo: {error}")))?;
    let session = SessionId::parse("demo").expect("a valid id");
    let token = Token::parse(&token::fresh()).expect("hex digits are a token");
    let mut config = scripted();
    scratch.path().clone_into(&mut config.data_dir);
    config.tokens.add(session.clone(), token.clone());
    let builder = tools().into_iter().fold(Builder::new(config), Builder::tool);
    let server = builder.bind().map_err(Failure::bad)?;

    let endpoint = Endpoint::of_agent(server.local_addr(), &session);
    let handle = server.handle();
    let page = Page { stdout: world.stdout.clone(), colours: world.shows_colours() };
    page.remark(&format!(
        "A server and its client in one process, at {endpoint}\n\
         -> is sent by the client, <- by the server."
    ))?;
    let client = thread::Builder::new().name("demo".to_owned()).spawn(move || {
        let told = converse(&endpoint, &token, &page);
        handle.shutdown();
        told
    });
    let client = client.map_err(|error| Failure::bad(format!("no thread: {error}")))?;
    server.run().map_err(Failure::bad)?;
    client.join().map_err(|_| Failure::bad("the demo's client panicked"))?
}

/// A part of the conversation.
struct Scene {
    /// What it shows, for who reads along.
    remark: &'static str,
    /// What the client sends.
    says: Vec<Command>,
    /// The type of the frame that ends it: after this one the server waits for the client.
    until: &'static str,
}

fn scenes() -> [Scene; 9] {
    let scene = |remark, says, until| Scene { remark, says, until };
    let inject = |text: &str, wake| Command::Inject { text: text.to_owned(), wake };
    let call_id = str::to_owned;
    [
        scene(
            "The server greets with the number of the log's last event. Then it waits.",
            vec![],
            "hello",
        ),
        scene(
            "A subscription: the log from that event on, and then whatever happens, without a gap.",
            vec![Command::Subscribe { from_seq: 0 }],
            "session/created",
        ),
        scene(
            "A text with `wake` starts a turn. Its only acknowledgement is the log.",
            vec![inject("Good morning!", true)],
            "turn/end",
        ),
        scene(
            "The allow list says which tools may run. It lies in the log too and survives restarts.",
            vec![Command::SetPolicy {
                patterns: ["get_*", "book_*", "send_*"].map(str::to_owned).into(),
            }],
            "policy/updated",
        ),
        scene(
            "A turn with tools. The first two run side by side: both calls are logged, and when both\n\
             are done both results, in call order. Booking changes something, so its call is parked.",
            vec![inject("Can we sail on Saturday? Book a boat and tell Bo.", true)],
            "approval/requested",
        ),
        scene(
            "A text without `wake` steers: the turn's next step takes it in. Then the call is approved.",
            vec![inject("Ada comes too.", false), Command::Approve { call_id: call_id("c3") }],
            "approval/requested",
        ),
        scene(
            "A denied call is an error that the model reads. The turn goes on.",
            vec![Command::Deny {
                call_id: call_id("c4"),
                reason: Some("I will call him".to_owned()),
            }],
            "turn/end",
        ),
        scene(
            "A model that talks for an hour ...",
            vec![inject("Which knots should I know?", true)],
            "assistant/chunk",
        ),
        scene(
            "... is cancelled. What it has said so far stays in the log.",
            vec![Command::Cancel { reason: Some("time to go".to_owned()) }],
            "turn/end",
        ),
    ]
}

/// Plays every scene over one connection.
fn converse(endpoint: &Endpoint, token: &Token, page: &Page) -> Result<(), Failure> {
    let mut client = Client::connect(endpoint, token.expose())
        .map_err(|error| Failure::bad(format!("cannot connect to {endpoint}: {error}")))?;
    for Scene { remark, says, until } in scenes() {
        page.remark(remark)?;
        for command in says {
            let mut frame = Vec::new();
            command.write(&mut frame);
            let frame = String::from_utf8_lossy(&frame);
            page.frame("->", &frame)?;
            client.sender().send_text(&frame).map_err(Failure::bad)?;
        }
        while hear(&mut client, page)? != until {}
    }
    page.remark("The end: every event above lay on the disk before it was sent.")?;
    client.close().map_err(Failure::bad)
}

/// Shows the next frame and tells its type.
fn hear(client: &mut Client, page: &Page) -> Result<String, Failure> {
    let Received::Text(frame) = client.receive(Some(PATIENCE)).map_err(Failure::bad)? else {
        return Err(Failure::bad("the server did not go on"));
    };
    page.frame("<-", &frame)?;
    match ServerFrame::parse(&frame) {
        Some(ServerFrame::Hello { .. }) => Ok("hello".to_owned()),
        Some(ServerFrame::Event { kind, .. }) => Ok(kind),
        _ => Err(Failure::bad("the server sent something that does not belong here")),
    }
}

/// For a server in the same process this is for ever.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the reader sees.
struct Page {
    stdout: Output,
    colours: bool,
}

impl Page {
    /// Something about the frames that follow, set apart from them.
    fn remark(&self, text: &str) -> io::Result<()> {
        let lines = text.lines().map(|line| self.painted(BOLD, &format!("# {line}")) + "\n");
        self.stdout.print(format!("\n{}", lines.collect::<String>()))
    }

    /// A frame as it is. What stands before its type is the same for all and steps back.
    fn frame(&self, arrow: &str, frame: &str) -> io::Result<()> {
        let (envelope, said) = frame.split_at(frame.find("\"type\"").unwrap_or(0));
        let (arrow, envelope) = (self.painted(CYAN, arrow), self.painted(FAINT, envelope));
        self.stdout.print(format!("{arrow} {envelope}{said}\n"))
    }

    fn painted(&self, sgr: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{sgr}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Parameters of the control sequence SGR (ECMA-48, section 8.3.117).
const BOLD: &str = "1";
const FAINT: &str = "2";
const CYAN: &str = "36";

/// The server's configuration, and in it what its model will say.
fn scripted() -> Config {
    let names_no_file = |_: &Path| Err(io::Error::from(io::ErrorKind::NotFound));
    let around = Surroundings { base_dir: Path::new(""), read: &names_no_file, env: &|_| None };
    Config::parse(include_str!("demo.json"), &around).expect("demo.json is a valid configuration")
}

/// The tools of this program.
fn tools() -> [ClosureTool; 4] {
    let says = |name: &str, text: &'static str| {
        ClosureTool::new(name, move |_: &ToolCall<'_>| Ok(Content::text(text)))
    };
    // Each waits for the other: they end only if they really run side by side.
    let meeting = Arc::new(Barrier::new(2));
    let meets = |name: &str, text: &'static str| {
        let meeting = Arc::clone(&meeting);
        let tool = ClosureTool::new(name, move |_: &ToolCall<'_>| {
            meeting.wait();
            Ok(Content::text(text))
        });
        tool.parallel()
    };
    [
        meets("get_wind", "south-west, 12 knots"),
        meets("get_tide", "high water at 10:40"),
        says("book_boat", "boat 7 is booked").mutating().approval(Approval::Policy),
        says("send_mail", "sent").approval(Approval::Always),
    ]
}
