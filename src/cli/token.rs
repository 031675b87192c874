//! `terret-ws token`: a fresh random token.

use std::fmt::Write as _;

use super::{Failure, World};
use crate::os;
use crate::proto::ident::SessionId;

/// Bytes of randomness in a token, two hex digits each.
const TOKEN_RANDOM_BYTES: usize = 24;

/// A token nobody can guess. Hex digits need no quoting in any shell, header or file.
pub(super) fn fresh() -> String {
    let mut bytes = [0; TOKEN_RANDOM_BYTES];
    os::random(&mut bytes);
    let mut token = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(token, "{byte:02x}").expect("a String takes every character");
    }
    token
}

pub(super) fn run(session: &SessionId, world: &World) -> Result<(), Failure> {
    let token = fresh();
    world.stdout.print(format!("{token}\n\"{session}\": \"{token}\"\n"))?;
    Ok(())
}
