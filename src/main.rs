//! The `terret-ws` binary: the process's arguments, environment and streams, handed to `cli`.

use std::env;
use std::io::{self, BufReader, IsTerminal as _};
use std::process::ExitCode;
use std::sync::Arc;

use terret_ws::cli::{self, Output, World};

fn main() -> ExitCode {
    let mut words = env::args_os().map(|word| word.to_string_lossy().into_owned());
    let world = World {
        program: words.next().unwrap_or_else(|| "terret-ws".to_owned()),
        process: std::process::id(),
        env: Arc::new(|name| env::var(name).ok()),
        stdin: Box::new(BufReader::new(io::stdin())),
        stdin_is_terminal: io::stdin().is_terminal(),
        stdout: Output::new(io::stdout()),
        stdout_is_terminal: io::stdout().is_terminal(),
        stderr: Output::new(io::stderr()),
    };
    let words: Vec<String> = words.collect();
    ExitCode::from(cli::run(&words, world).code())
}
