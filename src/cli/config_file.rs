//! A configuration file read with everything it names, for `serve` and for `check`.
//!
//! Knows where files and variables are found; what they mean is `config`'s.

use std::path::Path;

use super::Env;
use crate::config::{Config, Problem, Surroundings, Tokens};
use crate::disk::text_file;

/// Reads the configuration at `path`. The error holds one line a problem, each with its file.
pub(super) fn load(path: &Path, env: &Env) -> Result<Config, Vec<String>> {
    let text = read(path)?;
    let base_dir = path.parent().unwrap_or(Path::new(""));
    let around = Surroundings { base_dir, read: &text_file::read_to_string, env: &env };
    Config::parse(&text, &around).map_err(|problems| placed(path, &problems))
}

/// Reads the tokens file that a configuration names, as the server will.
pub(super) fn load_tokens(path: &Path) -> Result<Tokens, Vec<String>> {
    Tokens::parse(&read(path)?).map_err(|problems| placed(path, &problems))
}

fn read(path: &Path) -> Result<String, Vec<String>> {
    text_file::read_to_string(path).map_err(|error| vec![format!("{}: {error}", path.display())])
}

fn placed(path: &Path, problems: &[Problem]) -> Vec<String> {
    problems.iter().map(|problem| format!("{}:{problem}", path.display())).collect()
}
