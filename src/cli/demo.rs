//! `terret-ws demo`: one session from `hello` to `turn/end`, every frame shown as it passes.
//!
//! Server and client run in this process, on a free port and in a directory that is removed
//! afterwards. The client has a thread of its own, because the server takes the one it is run on.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::Duration;

use super::{Failure, Output, World, token};
use crate::client::{Client, Endpoint, Received, ServerFrame};
use crate::config::{Config, Token};
use crate::disk::scratch::Scratch;
use crate::proto::command::Command;
use crate::proto::ident::SessionId;
use crate::proto::payload::Body;
use crate::server::Builder;

pub(super) fn run(world: &World) -> Result<(), Failure> {
    let scratch = Scratch::new("terret-demo")
        .map_err(|error| Failure::bad(format!("no directory for the demo: {error}")))?;
    let session = SessionId::parse("demo").expect("a valid id");
    let token = Token::parse(&token::fresh()).expect("hex digits are a token");
    let mut config = Config {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        data_dir: scratch.path().to_owned(),
        ..Config::default()
    };
    config.tokens.add(session.clone(), token.clone());
    let server = Builder::new(config).bind().map_err(Failure::bad)?;

    let endpoint = Endpoint::of_agent(server.local_addr(), &session);
    let handle = server.handle();
    let stdout = world.stdout.clone();
    stdout.print(format!(
        "server and client in one process; -> is sent by the client\n{endpoint}\n"
    ))?;
    let client = thread::Builder::new().name("demo".to_owned()).spawn(move || {
        let told = converse(&endpoint, &token, &stdout);
        handle.shutdown();
        told
    });
    let client = client.map_err(|error| Failure::bad(format!("no thread: {error}")))?;
    server.run().map_err(Failure::bad)?;
    client.join().map_err(|_| Failure::bad("the demo's client panicked"))??;
    world.stdout.print("done; `terret-ws` serves such a session for you\n")?;
    Ok(())
}

/// The client's side of one turn.
fn converse(endpoint: &Endpoint, token: &Token, stdout: &Output) -> Result<(), Failure> {
    let mut client = Client::connect(endpoint, token.expose())
        .map_err(|error| Failure::bad(format!("cannot connect to {endpoint}: {error}")))?;
    let text = "Hello! What you say comes back, word by word.".to_owned();
    loop {
        let received = client.receive(Some(PATIENCE)).map_err(Failure::bad)?;
        let Received::Text(frame) = received else {
            return Err(Failure::bad("the server did not go on"));
        };
        stdout.print(format!("<- {frame}\n"))?;
        match ServerFrame::parse(&frame) {
            Some(ServerFrame::Hello { .. }) => {
                say(&client, stdout, &Command::Subscribe { from_seq: 0 })?;
                say(&client, stdout, &Command::Inject { text: text.clone(), wake: true })?;
            }
            Some(ServerFrame::Event { body: Some(Body::TurnEnd { .. }), .. }) => break,
            Some(ServerFrame::Error { message, .. }) => return Err(Failure::bad(message)),
            _ => {}
        }
    }
    client.close().map_err(Failure::bad)
}

fn say(client: &Client, stdout: &Output, command: &Command) -> Result<(), Failure> {
    let mut frame = Vec::new();
    command.write(&mut frame);
    let frame = String::from_utf8_lossy(&frame).into_owned();
    stdout.print(format!("-> {frame}\n"))?;
    client.sender().send_text(&frame).map_err(Failure::bad)
}

/// For a server in the same process this is for ever.
const PATIENCE: Duration = Duration::from_secs(30);
