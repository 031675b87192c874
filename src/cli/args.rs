//! The command line as a value: which command, with what.
//!
//! Looks at words only. Knows no file, no environment and no default that depends on either.
//!
//! Invariant: a `Command` is complete and its session ids are valid.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::help::Topic;
use crate::config::parse_listen;
use crate::proto::ident::SessionId;

/// What the person wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Serve(Serve),
    Demo,
    Attach(Attach),
    Log(Log),
    Verify { session: Option<SessionId>, data_dir: PathBuf },
    Repair { session: SessionId, data_dir: PathBuf, yes: bool },
    Sessions { data_dir: PathBuf },
    Delete { session: SessionId, data_dir: PathBuf, yes: bool },
    Check { config: PathBuf },
    Token { session: SessionId },
    Help(Topic),
    Version,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Serve {
    pub(super) config: Option<PathBuf>,
    pub(super) listen: Option<SocketAddr>,
    pub(super) data_dir: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attach {
    /// A URL or an agent id; which of the two is for `attach` to find out.
    pub(super) target: String,
    pub(super) token: Option<String>,
    pub(super) json: bool,
    pub(super) from_seq: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Log {
    pub(super) session: SessionId,
    pub(super) data_dir: PathBuf,
    pub(super) from_seq: u64,
    /// Empty means all.
    pub(super) types: Vec<String>,
}

/// A command line that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UsageError {
    topic: Topic,
    message: String,
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.topic.name();
        let space = if name.is_empty() { "" } else { " " };
        write!(f, "{}; see terret-ws {name}{space}--help", self.message)
    }
}

/// Reads the words after the program's name.
pub(super) fn parse(words: impl IntoIterator<Item = String>) -> Result<Command, UsageError> {
    let mut words = Words { left: words.into_iter().collect(), topic: Topic::Overview };
    let first = words.left.front().cloned().unwrap_or_default();
    let topic = match first.as_str() {
        "help" | "-h" | "--help" => {
            words.left.pop_front();
            return help(&mut words);
        }
        "-V" | "--version" => return Ok(Command::Version),
        // The embedded defaults, or one of serve's options straight away.
        word if word.is_empty() || word.starts_with('-') => Topic::Serve,
        word => {
            words.left.pop_front();
            Topic::of(word).ok_or_else(|| words.error(format!("there is no command `{word}`")))?
        }
    };
    words.topic = topic;
    let wants_help = |word: &String| word == "--help" || word == "-h";
    if words.left.iter().any(wants_help) {
        return help(&mut words);
    }
    match topic {
        Topic::Overview | Topic::Serve => serve(&mut words),
        Topic::Demo => words.finish().map(|()| Command::Demo),
        Topic::Attach => attach(&mut words),
        Topic::Log => log(&mut words),
        Topic::Verify => verify(&mut words),
        Topic::Repair => repair(&mut words),
        Topic::Sessions => sessions(&mut words),
        Topic::Delete => delete(&mut words),
        Topic::Check => check(&mut words),
        Topic::Token => token(&mut words),
    }
}

fn help(words: &mut Words) -> Result<Command, UsageError> {
    let mut topic = words.topic;
    while let Some(word) = words.left.pop_front() {
        if word == "--help" || word == "-h" {
            continue;
        }
        topic = match (topic, Topic::of(&word)) {
            (Topic::Log, _) if word == "verify" => Topic::Verify,
            (Topic::Log, _) if word == "repair" => Topic::Repair,
            (Topic::Overview, Some(named)) => named,
            (Topic::Overview, None) => {
                return Err(words.error(format!("there is no command `{word}`")));
            }
            // What else stands beside --help does not matter.
            (topic, _) => topic,
        };
    }
    Ok(Command::Help(topic))
}

fn serve(words: &mut Words) -> Result<Command, UsageError> {
    let mut serve = Serve::default();
    while let Some(word) = words.next() {
        match word {
            Word::Option(name) if name == "--config" => serve.config = Some(words.path(&name)?),
            Word::Option(name) if name == "--data-dir" => serve.data_dir = Some(words.path(&name)?),
            Word::Option(name) if name == "--listen" => {
                let text = words.value(&name)?;
                let expected = "expected an address and a port such as 127.0.0.1:7700";
                let listen = parse_listen(&text)
                    .ok_or_else(|| words.error(format!("--listen {text}: {expected}")))?;
                serve.listen = Some(listen);
            }
            other => return Err(words.unexpected(&other)),
        }
    }
    Ok(Command::Serve(serve))
}

fn attach(words: &mut Words) -> Result<Command, UsageError> {
    let mut target = None;
    let (mut token, mut json, mut from_seq) = (None, false, 0);
    while let Some(word) = words.next() {
        match word {
            Word::Option(name) if name == "--token" => token = Some(words.value(&name)?),
            Word::Option(name) if name == "--json" => json = true,
            Word::Option(name) if name == "--from" => from_seq = words.seq(&name)?,
            Word::Plain(text) if target.is_none() => target = Some(text),
            other => return Err(words.unexpected(&other)),
        }
    }
    let target = target.ok_or_else(|| words.error("attach to what? Give a URL or an agent id"))?;
    Ok(Command::Attach(Attach { target, token, json, from_seq }))
}

fn log(words: &mut Words) -> Result<Command, UsageError> {
    if words.left.front().is_some_and(|word| word == "verify") {
        words.left.pop_front();
        words.topic = Topic::Verify;
        return verify(words);
    }
    if words.left.front().is_some_and(|word| word == "repair") {
        words.left.pop_front();
        words.topic = Topic::Repair;
        return repair(words);
    }
    let mut session = None;
    let (mut data_dir, mut from_seq, mut types) = (default_data_dir(), 0, Vec::new());
    while let Some(word) = words.next() {
        match word {
            Word::Option(name) if name == "--data-dir" => data_dir = words.path(&name)?,
            Word::Option(name) if name == "--from" => from_seq = words.seq(&name)?,
            Word::Option(name) if name == "--types" => {
                types = words.value(&name)?.split(',').map(str::to_owned).collect();
            }
            Word::Plain(text) if session.is_none() => session = Some(words.session(&text)?),
            other => return Err(words.unexpected(&other)),
        }
    }
    let session = session.ok_or_else(|| words.error("the log of which session?"))?;
    Ok(Command::Log(Log { session, data_dir, from_seq, types }))
}

fn verify(words: &mut Words) -> Result<Command, UsageError> {
    let (mut session, mut data_dir) = (None, default_data_dir());
    while let Some(word) = words.next() {
        match word {
            Word::Option(name) if name == "--data-dir" => data_dir = words.path(&name)?,
            Word::Plain(text) if session.is_none() => session = Some(words.session(&text)?),
            other => return Err(words.unexpected(&other)),
        }
    }
    Ok(Command::Verify { session, data_dir })
}

fn sessions(words: &mut Words) -> Result<Command, UsageError> {
    let mut data_dir = default_data_dir();
    while let Some(word) = words.next() {
        match word {
            Word::Option(name) if name == "--data-dir" => data_dir = words.path(&name)?,
            other => return Err(words.unexpected(&other)),
        }
    }
    Ok(Command::Sessions { data_dir })
}

fn repair(words: &mut Words) -> Result<Command, UsageError> {
    let (session, data_dir, yes) = doubtful(words, "repair")?;
    Ok(Command::Repair { session, data_dir, yes })
}

fn delete(words: &mut Words) -> Result<Command, UsageError> {
    let (session, data_dir, yes) = doubtful(words, "delete")?;
    Ok(Command::Delete { session, data_dir, yes })
}

/// The words of a command that asks before it acts on a session.
fn doubtful(words: &mut Words, verb: &str) -> Result<(SessionId, PathBuf, bool), UsageError> {
    let (mut session, mut data_dir, mut yes) = (None, default_data_dir(), false);
    while let Some(word) = words.next() {
        match word {
            Word::Option(name) if name == "--data-dir" => data_dir = words.path(&name)?,
            Word::Option(name) if name == "--yes" => yes = true,
            Word::Plain(text) if session.is_none() => session = Some(words.session(&text)?),
            other => return Err(words.unexpected(&other)),
        }
    }
    let session = session.ok_or_else(|| words.error(format!("{verb} which session?")))?;
    Ok((session, data_dir, yes))
}

fn check(words: &mut Words) -> Result<Command, UsageError> {
    let mut config = None;
    while let Some(word) = words.next() {
        match word {
            Word::Option(name) if name == "--config" => config = Some(words.path(&name)?),
            other => return Err(words.unexpected(&other)),
        }
    }
    let config = config.ok_or_else(|| words.error("check needs --config FILE"))?;
    Ok(Command::Check { config })
}

fn token(words: &mut Words) -> Result<Command, UsageError> {
    let mut session = None;
    while let Some(word) = words.next() {
        match word {
            Word::Plain(text) if session.is_none() => session = Some(words.session(&text)?),
            other => return Err(words.unexpected(&other)),
        }
    }
    let session = session.ok_or_else(|| words.error("a token for which session?"))?;
    Ok(Command::Token { session })
}

/// Where `serve` without a configuration puts its data.
pub(super) fn default_data_dir() -> PathBuf {
    PathBuf::from("terret-data")
}

enum Word {
    Option(String),
    Plain(String),
}

struct Words {
    left: VecDeque<String>,
    topic: Topic,
}

impl Words {
    fn next(&mut self) -> Option<Word> {
        let word = self.left.pop_front()?;
        if !word.starts_with('-') || word == "-" {
            return Some(Word::Plain(word));
        }
        match word.split_once('=') {
            Some((name, value)) => {
                self.left.push_front(value.to_owned());
                Some(Word::Option(name.to_owned()))
            }
            None => Some(Word::Option(word)),
        }
    }

    fn value(&mut self, option: &str) -> Result<String, UsageError> {
        self.left.pop_front().ok_or_else(|| self.error(format!("{option} needs a value")))
    }

    fn path(&mut self, option: &str) -> Result<PathBuf, UsageError> {
        self.value(option).map(PathBuf::from)
    }

    fn seq(&mut self, option: &str) -> Result<u64, UsageError> {
        let text = self.value(option)?;
        text.parse().map_err(|_| self.error(format!("{option} {text}: expected a sequence number")))
    }

    fn session(&self, text: &str) -> Result<SessionId, UsageError> {
        SessionId::parse(text).ok_or_else(|| {
            self.error(format!(
                "`{text}` is not a session id (1 to 128 of A-Z a-z 0-9 . _ -, not beginning with .)"
            ))
        })
    }

    fn finish(&mut self) -> Result<(), UsageError> {
        self.next().map_or(Ok(()), |word| Err(self.unexpected(&word)))
    }

    fn unexpected(&self, word: &Word) -> UsageError {
        match word {
            Word::Option(name) => self.error(format!("unknown option {name}")),
            Word::Plain(text) => self.error(format!("unexpected `{text}`")),
        }
    }

    fn error(&self, message: impl Into<String>) -> UsageError {
        UsageError { topic: self.topic, message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(str::to_owned)).map_err(|error| error.to_string())
    }

    fn id(text: &str) -> SessionId {
        SessionId::parse(text).unwrap()
    }

    #[test]
    fn command_lines_that_say_what_to_do() {
        let data_dir = default_data_dir;
        let attach = |target: &str| Attach {
            target: target.to_owned(),
            token: None,
            json: false,
            from_seq: 0,
        };
        for (line, command) in [
            ("", Command::Serve(Serve::default())),
            ("serve", Command::Serve(Serve::default())),
            (
                "serve --config c.json --listen localhost:0 --data-dir=d",
                Command::Serve(Serve {
                    config: Some("c.json".into()),
                    listen: Some("127.0.0.1:0".parse().unwrap()),
                    data_dir: Some("d".into()),
                }),
            ),
            (
                "--config c.json",
                Command::Serve(Serve { config: Some("c.json".into()), ..Serve::default() }),
            ),
            ("demo", Command::Demo),
            ("attach demo", Command::Attach(attach("demo"))),
            (
                "attach ws://h/agents/a/ws --token -t --json --from 7",
                Command::Attach(Attach {
                    token: Some("-t".into()),
                    json: true,
                    from_seq: 7,
                    ..attach("ws://h/agents/a/ws")
                }),
            ),
            (
                "log s1 --from 3 --types turn/start,turn/end",
                Command::Log(Log {
                    session: id("s1"),
                    data_dir: data_dir(),
                    from_seq: 3,
                    types: vec!["turn/start".into(), "turn/end".into()],
                }),
            ),
            ("log verify", Command::Verify { session: None, data_dir: data_dir() }),
            (
                "log verify s1 --data-dir d",
                Command::Verify { session: Some(id("s1")), data_dir: "d".into() },
            ),
            (
                "log repair s1 --data-dir d --yes",
                Command::Repair { session: id("s1"), data_dir: "d".into(), yes: true },
            ),
            ("sessions", Command::Sessions { data_dir: data_dir() }),
            (
                "delete s1 --yes",
                Command::Delete { session: id("s1"), data_dir: data_dir(), yes: true },
            ),
            ("check --config c", Command::Check { config: "c".into() }),
            ("token s1", Command::Token { session: id("s1") }),
            ("--version", Command::Version),
            ("--help", Command::Help(Topic::Overview)),
            ("help", Command::Help(Topic::Overview)),
            ("help attach", Command::Help(Topic::Attach)),
            ("help log verify", Command::Help(Topic::Verify)),
            ("log repair --help", Command::Help(Topic::Repair)),
            ("serve --config x --help", Command::Help(Topic::Serve)),
            ("log --help", Command::Help(Topic::Log)),
            ("log verify -h", Command::Help(Topic::Verify)),
        ] {
            assert_eq!(read(line), Ok(command), "{line}");
        }
    }

    #[test]
    fn command_lines_that_do_not() {
        for (line, message) in [
            ("frobnicate", "there is no command `frobnicate`; see terret-ws --help"),
            ("help frobnicate", "there is no command `frobnicate`; see terret-ws --help"),
            ("serve --lisen x", "unknown option --lisen; see terret-ws serve --help"),
            ("--lisen x", "unknown option --lisen; see terret-ws serve --help"),
            ("serve --config", "--config needs a value; see terret-ws serve --help"),
            (
                "serve --listen 7700",
                "--listen 7700: expected an address and a port such as 127.0.0.1:7700; \
                 see terret-ws serve --help",
            ),
            ("serve extra", "unexpected `extra`; see terret-ws serve --help"),
            ("demo extra", "unexpected `extra`; see terret-ws demo --help"),
            ("attach", "attach to what? Give a URL or an agent id; see terret-ws attach --help"),
            ("attach a b", "unexpected `b`; see terret-ws attach --help"),
            ("log", "the log of which session?; see terret-ws log --help"),
            ("log s --from -1", "--from -1: expected a sequence number; see terret-ws log --help"),
            (
                "log ../x",
                "`../x` is not a session id (1 to 128 of A-Z a-z 0-9 . _ -, not beginning with .); \
                 see terret-ws log --help",
            ),
            ("log verify a b", "unexpected `b`; see terret-ws log verify --help"),
            ("log repair", "repair which session?; see terret-ws log repair --help"),
            ("delete", "delete which session?; see terret-ws delete --help"),
            ("check", "check needs --config FILE; see terret-ws check --help"),
            ("token", "a token for which session?; see terret-ws token --help"),
        ] {
            assert_eq!(read(line), Err(message.to_owned()), "{line}");
        }
    }
}
