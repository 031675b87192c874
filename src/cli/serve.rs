//! `terret-ws serve`: a server from its configuration to its exit status.
//!
//! The server itself is `server`'s. Here are its defaults, its log, its signals, and the one line on
//! standard output that says it is ready.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::args::Serve;
use super::{Env, Failure, Output, Status, World, config_file, in_lines, note, token};
use crate::client::Endpoint;
use crate::config::{Config, LogFormat, Token, Tokens};
use crate::disk::real::RealDisk;
use crate::disk::{lock_is_left_behind, text_file};
use crate::os;
use crate::proto::ident::SessionId;
use crate::proto::time::Wall;
use crate::server::{Builder, RunError, StartError};
use crate::work::journal::Sink;

/// The session of a server without a configuration.
pub(super) const DEFAULT_SESSION: &str = "demo";

const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Where its token is kept.
pub(super) fn token_file(data_dir: &Path) -> PathBuf {
    data_dir.join("demo.token")
}

pub(super) fn run(serve: Serve, world: World) -> Result<(), Failure> {
    let World { program, env, stdout, stderr, .. } = world;
    let (config, fresh_token) = match configured(&serve, &*env) {
        Ok(found) => found,
        Err(problems) => {
            stderr.print(in_lines(&problems))?;
            return Err(Failure::bad("not started: put the configuration right"));
        }
    };
    let hint = serve.config.is_none().then(|| config.tokens.clone());
    let data_dir = config.data_dir.clone();
    let json = Arc::new(AtomicBool::new(config.log_format == LogFormat::Json));
    let mut builder = Builder::new(config).log(log_to(stderr.clone(), Arc::clone(&json)));
    if serve.config.is_some() {
        builder = builder.on_reload(Box::new(move || reloaded(&serve, &*env, &json)));
    }
    wait_for_the_dead(&data_dir);
    let server = builder.bind().map_err(|error| Failure::new(status_of(&error), error))?;
    if let Some(token) = fresh_token {
        // Not before the data directory is ours.
        let path = token_file(&data_dir);
        text_file::write_private(&path, &format!("{token}\n"))
            .map_err(|error| Failure::bad(format!("{}: {error}", path.display())))?;
    }
    os::survive_file_size_limit()
        .and_then(|()| os::signals_to(server.signal_fd()))
        .map_err(|error| Failure::bad(format!("signals cannot be received: {error}")))?;
    let address = server.local_addr();
    if let Some(tokens) = hint {
        stderr.print(attach_hint(&program, address, &tokens))?;
    }
    stdout.print(format!("listening on {address}\n"))?;
    server.run().map_err(|error| match error {
        RunError::DiskFailed(_) => Failure::new(Status::DiskFailed, error),
        RunError::AtOnce | RunError::System(_) => Failure::bad(error),
    })
}

/// Waits for the lock of a server that is no more, as long as that may take. A lock that is held for
/// longer is refused by whoever wants it then.
fn wait_for_the_dead(data_dir: &Path) {
    let start = Instant::now();
    while start.elapsed() < LOCK_WAIT && lock_is_left_behind(&RealDisk, data_dir) {
        thread::sleep(LOCK_PAUSE);
    }
}

/// The configuration as file and command line have it, and the token that was made for the default
/// session because none is kept yet.
fn configured(serve: &Serve, env: &Env) -> Result<(Config, Option<String>), Vec<String>> {
    let mut config = match &serve.config {
        Some(path) => config_file::load(path, env)?,
        None => Config::default(),
    };
    if let Some(listen) = serve.listen {
        config.listen = listen;
    }
    if let Some(data_dir) = &serve.data_dir {
        config.data_dir.clone_from(data_dir);
    }
    if serve.config.is_some() {
        return Ok((config, None));
    }
    let path = token_file(&config.data_dir);
    let shown = path.display();
    let (text, fresh) = match text_file::read_to_string(&path) {
        Ok(kept) => (kept.trim().to_owned(), None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let fresh = token::fresh();
            (fresh.clone(), Some(fresh))
        }
        Err(error) => return Err(vec![format!("{shown}: {error}")]),
    };
    let token = Token::parse(&text)
        .ok_or_else(|| vec![format!("{shown}: not a token: remove the file to have one made")])?;
    let session = SessionId::parse(DEFAULT_SESSION).expect("the name of the default is a valid id");
    config.tokens.add(session, token);
    Ok((config, fresh))
}

/// The configuration read anew while the server runs.
fn reloaded(serve: &Serve, env: &Env, json: &AtomicBool) -> Result<Config, Vec<String>> {
    match configured(serve, env)? {
        (config, None) => {
            json.store(config.log_format == LogFormat::Json, Ordering::Relaxed);
            Ok(config)
        }
        (config, Some(_)) => {
            let path = token_file(&config.data_dir);
            Err(vec![format!("{}: is gone; the token in use stays valid", path.display())])
        }
    }
}

fn log_to(stderr: Output, json: Arc<AtomicBool>) -> Sink {
    Box::new(move |notes| {
        let format = if json.load(Ordering::Relaxed) { LogFormat::Json } else { LogFormat::Text };
        let lines: Vec<u8> =
            notes.iter().flat_map(|note| note::line(note, now(), format)).collect();
        // A log that nobody can write to is no reason to stop serving.
        let _printed = stderr.print(lines);
    })
}

fn now() -> Wall {
    // A clock before 1970 is shown as 1970.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Wall(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// What to paste to talk to a server without a configuration. The only place that shows a token:
/// one that was made here, to whoever started the server.
fn attach_hint(program: &str, address: SocketAddr, tokens: &Tokens) -> String {
    let session = SessionId::parse(DEFAULT_SESSION).expect("the name of the default is a valid id");
    let near = if address.ip().is_unspecified() {
        SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()))
    } else {
        address
    };
    let endpoint = Endpoint::of_agent(near, &session);
    let token = tokens.of(&session).first().map(Token::expose).unwrap_or_default();
    format!(
        "no configuration: one session, `{session}`, with the provider `echo`; to talk to it:\n  \
         {program} attach {endpoint} --token {token}\n"
    )
}

fn status_of(error: &StartError) -> Status {
    match error {
        StartError::AddressInUse(_) => Status::AddressInUse,
        StartError::Locked { .. } => Status::Locked,
        StartError::DataDir(..) => Status::DiskFailed,
        StartError::Listen(..)
        | StartError::Provider { .. }
        | StartError::Tls { .. }
        | StartError::Tool { .. }
        | StartError::System(_) => Status::Bad,
    }
}
