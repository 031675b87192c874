//! `terret-ws attach`: a terminal on one agent.
//!
//! Three activities meet in one channel: a thread that waits for the keyboard, a thread that waits
//! for the socket (one a connection), and this one, which owns all state and sleeps until one of
//! them has something. So nothing is polled, and nothing is shared but the socket's sending half.

mod backoff;
mod screen;
mod sources;
mod talk;
mod target;
mod terminal;
mod typed;

use std::io;
use std::sync::mpsc;
use std::thread;

use self::backoff::Backoff;
use self::sources::{WAITING_EVENTS_MAX, read_frames, read_lines};
use self::target::Target;
use self::terminal::{Over, Terminal};
use super::args::Attach;
use super::{Failure, World};
use crate::client::{AgentState, Client, ConnectError};
use crate::disk::text_file;
use crate::os;

pub(super) fn run(attach: &Attach, world: World) -> Result<(), Failure> {
    let target =
        target::find(attach, &*world.env, &text_file::read_to_string).map_err(Failure::bad)?;
    let mut client = connect(&target).map_err(|error| refusal(&target, &error))?;
    let (events, inbox) = mpsc::sync_channel(WAITING_EVENTS_MAX);
    let (endpoint, token) = (target.endpoint.clone(), target.token.clone());
    let ask = Box::new(move || AgentState::ask(&endpoint, token.expose()));
    let mut terminal = Terminal::new(attach, &world, inbox, ask);
    let World { stdin, stdin_is_terminal, .. } = world;
    let lines = events.clone();
    spawn("keyboard", move || read_lines(stdin, stdin_is_terminal, &lines))?;
    let mut backoff = Backoff::default();
    loop {
        let sender = client.sender();
        let frames = events.clone();
        spawn("socket", move || read_frames(client, &frames))?;
        let heard_before = terminal.next_seq();
        let Over::Gone(mut how) = terminal.converse(&sender)? else { return Ok(()) };
        if terminal.next_seq() > heard_before {
            backoff.reset();
        }
        stop_if_damaged(&target)?;
        client = loop {
            let wait = backoff.next(os::random_u64());
            terminal.notice(&format!("{how}; connecting again in {:.1} s", wait.as_secs_f32()))?;
            if terminal.pause(wait)? {
                return Ok(());
            }
            match connect(&target) {
                Ok(client) => break client,
                Err(error) if is_passing(&error) => how = error.to_string(),
                Err(error) => return Err(refusal(&target, &error)),
            }
        };
    }
}

/// Gives up on a session whose log is damaged: coming back does not mend it. A server that cannot be
/// asked may be on its way up.
fn stop_if_damaged(target: &Target) -> Result<(), Failure> {
    match AgentState::ask(&target.endpoint, target.token.expose()) {
        Ok(AgentState { status, last_error, .. }) if status == "damaged" => {
            let place = last_error.unwrap_or_default();
            Err(Failure::bad(format!(
                "the session's log is damaged ({place}): stop the server and run `terret-ws log repair`"
            )))
        }
        _ => Ok(()),
    }
}

fn connect(target: &Target) -> Result<Client, ConnectError> {
    Client::connect(&target.endpoint, target.token.expose())
}

/// Whether it makes sense to try again: a server that restarts refuses connections for a while.
fn is_passing(error: &ConnectError) -> bool {
    match error {
        ConnectError::Resolve(_) | ConnectError::Connect(_) => true,
        ConnectError::Http(status, _) => *status >= 500,
        ConnectError::NotWebSocket => false,
    }
}

fn refusal(target: &Target, error: &ConnectError) -> Failure {
    let endpoint = &target.endpoint;
    match error {
        ConnectError::Connect(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => {
            let address = endpoint.authority();
            Failure::bad(format!(
                "nothing listens on {address}: start `terret-ws serve`, or give the URL of a server"
            ))
        }
        error => Failure::bad(format!("cannot connect to {endpoint}: {error}")),
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(drop).map_err(|error| Failure::bad(format!("the system refuses a thread: {error}")))
}
