//! `terret-ws check`: every problem of a configuration, before it is served.

use std::path::Path;

use super::{Failure, World, config_file, in_lines};

pub(super) fn run(path: &Path, world: &World) -> Result<(), Failure> {
    let config = config_file::load(path, &*world.env);
    let tokens_file = config.as_ref().ok().and_then(|config| config.tokens_file.as_deref());
    let tokens = tokens_file.map(config_file::load_tokens);
    let problems: Vec<String> =
        config.err().into_iter().chain(tokens.and_then(Result::err)).flatten().collect();
    if problems.is_empty() {
        world.stdout.print(format!("{}: no problem found\n", path.display()))?;
        return Ok(());
    }
    world.stdout.print(in_lines(&problems))?;
    Err(Failure::shown())
}
