//! What `--help` says, one text a command.

/// A command that has a help text, or the overview of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    Overview,
    Serve,
    Demo,
    Attach,
    Log,
    Verify,
    Repair,
    Sessions,
    Delete,
    Check,
    Token,
}

impl Topic {
    /// The topic a word on the command line names.
    pub(super) fn of(word: &str) -> Option<Topic> {
        Some(match word {
            "serve" => Topic::Serve,
            "demo" => Topic::Demo,
            "attach" => Topic::Attach,
            "log" => Topic::Log,
            "sessions" => Topic::Sessions,
            "delete" => Topic::Delete,
            "check" => Topic::Check,
            "token" => Topic::Token,
            _ => return None,
        })
    }

    /// The words that name the command; empty for the overview.
    pub(super) fn name(self) -> &'static str {
        match self {
            Topic::Overview => "",
            Topic::Serve => "serve",
            Topic::Demo => "demo",
            Topic::Attach => "attach",
            Topic::Log => "log",
            Topic::Verify => "log verify",
            Topic::Repair => "log repair",
            Topic::Sessions => "sessions",
            Topic::Delete => "delete",
            Topic::Check => "check",
            Topic::Token => "token",
        }
    }

    /// The text, ending in a line feed.
    pub(super) fn text(self) -> &'static str {
        match self {
            Topic::Overview => OVERVIEW,
            Topic::Serve => SERVE,
            Topic::Demo => DEMO,
            Topic::Attach => ATTACH,
            Topic::Log => LOG,
            Topic::Verify => VERIFY,
            Topic::Repair => REPAIR,
            Topic::Sessions => SESSIONS,
            Topic::Delete => DELETE,
            Topic::Check => CHECK,
            Topic::Token => TOKEN,
        }
    }
}

const OVERVIEW: &str = "\
terret-ws: durable sessions with AI agents over a WebSocket

  terret-ws                     serve with the embedded defaults
  terret-ws serve               serve, with a configuration
  terret-ws demo                one whole session, its frames shown as they pass
  terret-ws attach AGENT|URL    talk to an agent from this terminal
  terret-ws log SESSION         a session's events, read from its files
  terret-ws log verify          check every line of every session
  terret-ws log repair SESSION  make a damaged session whole; the server must be stopped
  terret-ws sessions            what lies in the data directory
  terret-ws delete SESSION      remove a session; the server must be stopped
  terret-ws check --config FILE every problem of a configuration
  terret-ws token SESSION       a fresh token for a session
  terret-ws COMMAND --help      more about one of them
  terret-ws --version

Exit status: 0 fine, 1 the thing asked about is bad, 2 usage, 69 address in use,
74 disk failed, 75 data directory locked by another process.
";

const SERVE: &str = "\
terret-ws serve [--config FILE] [--listen ADDR] [--data-dir DIR]

Serves agents until SIGTERM or SIGINT; a second one exits at once. SIGHUP reads the
configuration again, or stops the server too if it was started without one. Prints
`listening on ADDR` when it is ready; its log goes to standard error.

  --config FILE     a JSON object; see the README for its keys
  --listen ADDR     instead of the configured address, such as 127.0.0.1:7700; port 0 picks one
  --data-dir DIR    instead of the configured directory

Without --config: 127.0.0.1:7700, data in ./terret-data, provider `echo`, and one session,
`demo`, whose token is made on the first start and kept in the data directory.
";

const DEMO: &str = "\
terret-ws demo

Runs a server and a client in one process, on a free port and in a temporary directory: one session
from `hello` to its last `turn/end`, with a plain turn, one with tools, approvals and a steer, and a
cancelled one. Shows every frame, `->` sent by the client and `<-` by the server, and says in lines
that begin with `#` what they are about.
";

const ATTACH: &str = "\
terret-ws attach AGENT|URL [--token TOKEN] [--json] [--from SEQ]

Talks to an agent: shows what was said, streams the answers, sends what you type. Reconnects by
itself and misses nothing; stops when the token is refused or another client takes over.

  AGENT             an id on the default server, ws://127.0.0.1:7700/agents/AGENT/ws
  URL               ws://HOST[:PORT]/agents/AGENT/ws
  --token TOKEN     else the environment variable TERRET_TOKEN, else, for the session `demo`, what
                    a server without a configuration left in ./terret-data
  --json            print the server's frames as they are, one a line
  --from SEQ        begin there instead of at the session's first event; beyond the last: what is new

A line you type is sent and wakes the agent. A tool call that waits for you is shown whole, with what
to type. What is piped in is sent once the history has been shown, and attach exits when no turn is
open any more: 0, or 1 if what was sent failed. It also exits 1 when the turn can go no further by
itself: it waits for a verdict, or its resume failed.

  /steer TEXT                  give the running turn a hint; starts none
  /cancel [REASON]             stop the running turn
  /approve [ID]                let a tool call run; without ID the one that waits
  /deny [ID [REASON]]          refuse it
  /model ROLE PROVIDER/MODEL   change the model of a role
  /policy [GLOB...]            replace the list of allowed tools, or show it; --none empties it
  /quit                        leave; the agent goes on
  /help                        this list
  //TEXT                       say /TEXT
";

const LOG: &str = "\
terret-ws log SESSION [--data-dir DIR] [--from SEQ] [--types a,b]

Prints a session's events as the socket sends them, one a line, read from its files. The server
may run or not.

  --data-dir DIR    default ./terret-data
  --from SEQ        begin there
  --types a,b       only these, such as user/message,assistant/message

terret-ws log verify --help: checking the files
terret-ws log repair --help: making a damaged session whole
";

const VERIFY: &str = "\
terret-ws log verify [SESSION] [--data-dir DIR]

Checks every line of every segment, of one session or of all. Names segment, line and byte of
what is wrong, and what cannot be read, and exits 1 if anything is. The server may run or not.

  --data-dir DIR    default ./terret-data
";

const REPAIR: &str = "\
terret-ws log repair SESSION [--data-dir DIR] [--yes]

Makes a damaged session whole, after it has shown what that costs and asked. The server must be
stopped. What remains is one run of events without a gap: the newest, so that numbers go on where
they were, or the oldest where the turn that is open could not go on otherwise. Files that are taken
out or changed are kept beside the log as they were, as FILE.damaged.

  --data-dir DIR    default ./terret-data
  --yes             do not ask
";

const SESSIONS: &str = "\
terret-ws sessions [--data-dir DIR]

Lists the sessions: id, events, bytes, time of the last event, and whether a turn is open. The
server may run or not.

  --data-dir DIR    default ./terret-data
";

const DELETE: &str = "\
terret-ws delete SESSION [--data-dir DIR] [--yes]

Removes a session and all of its files, after asking. The server must be stopped.

  --data-dir DIR    default ./terret-data
  --yes             do not ask
";

const CHECK: &str = "\
terret-ws check --config FILE

Reads a configuration as `serve` would, with its tokens file, its scripts and the environment
variables it names, and prints every problem as FILE:LINE: PATH: PROBLEM. Exits 0 or 1.
";

const TOKEN: &str = "\
terret-ws token SESSION

Prints a fresh random token and, on a second line, the entry for `tokens` or the tokens file.
";
