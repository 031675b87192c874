//! The first process of a container: it starts the server as a process of its own, passes signals on to it,
//! waits for every process that ends, and ends as the server does.
//!
//! The kernel gives process 1 whatever others leave behind, such as what a tool started in a group of its
//! own, and each of those stays a zombie until process 1 has waited for it. The server waits for no child
//! that is not its own, and could not tell which those are; so the waiting is done by a process that has
//! one child of its own and knows no session.
//!
//! Rejected: to look for zombies from within the server and wait for those that nobody there started. It
//! has to know every child of the library, and to win a race against it for each.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use super::Status;
use crate::os;

/// The process number that makes one responsible for all that nobody else waits for.
pub(super) const FIRST_PROCESS: u32 = 1;

/// Runs the program again with these arguments, and stays until it has ended.
///
/// # Errors
/// The program cannot be started again: there is no `/proc`, or no room for another process.
pub(super) fn run(words: &[String]) -> io::Result<Status> {
    // Before there is anybody to pass a signal on to: process 1 never gets one that it does not handle.
    os::hold_signals()?;
    let mut server = Command::new(std::env::current_exe()?);
    // In a group of its own: what a terminal sends to a whole group would reach it twice, and the second
    // signal ends it at once.
    let server = server.args(words).process_group(0).spawn()?.id();
    os::pass_signals_to(server);
    loop {
        let (process, status) =
            os::wait_for_any_child().expect("the server is a child that nobody has waited for");
        if process == server {
            return Ok(Status::Server(code_of(status)));
        }
    }
}

/// The exit status that tells of another process's end, as a shell does: 128 and the signal that ended it.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_ends_as_another_did() {
        for (raw, code) in [(0, 0), (75 << 8, 75), (255 << 8, 255), (9, 137), (15, 143)] {
            assert_eq!(code_of(ExitStatus::from_raw(raw)), code);
        }
    }
}
