//! The three pipes of one process, and what is kept of what passes through them.
//!
//! Nothing here waits: each pipe moves what it can, at most [`ROUND_BYTES`] at a time. A process that
//! does not read its input leaves it unsent; one that closes it is sent no more.

use crate::limits::{ROUND_BYTES, TOOL_ERRORS_BYTES_MAX};
use crate::tool::output::{Head, Tail};
use crate::work::process::Pipes;
use mio::unix::pipe::{Receiver, Sender};
use mio::{Interest, Registry, Token};
use std::io::{self, ErrorKind, Read, Write};

/// Our ends of a process's streams.
pub(super) struct Streams {
    /// None when all was sent, or nobody reads it.
    stdin: Option<Sender>,
    args: Box<str>,
    sent: usize,
    /// None once it has ended.
    stdout: Option<Receiver>,
    stderr: Option<Receiver>,
    output: Head,
    errors: Tail,
}

impl Streams {
    pub(super) fn new(pipes: Pipes, args: Box<str>, output_bytes_max: usize) -> Self {
        Self {
            stdin: Some(pipes.stdin.into()),
            args,
            sent: 0,
            stdout: Some(pipes.stdout.into()),
            stderr: Some(pipes.stderr.into()),
            output: Head::new(output_bytes_max),
            errors: Tail::new(TOOL_ERRORS_BYTES_MAX),
        }
    }

    /// Has the poll watch all three under one token: what can be moved is moved, whichever it was.
    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        if let Some(pipe) = &mut self.stdin {
            pipe.set_nonblocking(true)?;
            registry.register(pipe, token, Interest::WRITABLE)?;
        }
        for pipe in [&mut self.stdout, &mut self.stderr].into_iter().flatten() {
            pipe.set_nonblocking(true)?;
            registry.register(pipe, token, Interest::READABLE)?;
        }
        Ok(())
    }

    /// Moves one share of each pipe. Says whether there may be more to move at once.
    pub(super) fn exchange(&mut self, buffer: &mut [u8]) -> bool {
        let fed = self.feed();
        let output = take(&mut self.stdout, buffer, |bytes| self.output.push(bytes));
        let errors = take(&mut self.stderr, buffer, |bytes| self.errors.push(bytes));
        fed || output || errors
    }

    /// Sends no more arguments: nobody is left to read them.
    pub(super) fn stop_feeding(&mut self) {
        self.stdin = None;
    }

    /// What was kept; what comes now is kept no more.
    pub(super) fn take_kept(&mut self) -> (Head, Tail) {
        let output = std::mem::replace(&mut self.output, Head::new(0));
        let errors = std::mem::replace(&mut self.errors, Tail::new(0));
        (output, errors)
    }

    fn feed(&mut self) -> bool {
        let mut budget = ROUND_BYTES;
        while let Some(pipe) = &mut self.stdin {
            let rest = &self.args.as_bytes()[self.sent..];
            if rest.is_empty() {
                // Closing it is how the process learns that this was all.
                self.stdin = None;
                break;
            }
            if budget == 0 {
                return true;
            }
            match pipe.write(&rest[..rest.len().min(budget)]) {
                Ok(n) => {
                    self.sent += n;
                    budget -= n;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // It has closed its end, which is its right.
                Err(_) => self.stdin = None,
            }
        }
        false
    }
}

/// Reads one share of a pipe; lets go of it at its end. Says whether there may be more.
fn take(pipe: &mut Option<Receiver>, buffer: &mut [u8], mut keep: impl FnMut(&[u8])) -> bool {
    let mut budget = ROUND_BYTES;
    while let Some(reader) = pipe {
        if budget == 0 {
            return true;
        }
        let share = budget.min(buffer.len());
        match reader.read(&mut buffer[..share]) {
            Ok(0) => *pipe = None,
            Ok(n) => {
                keep(&buffer[..n]);
                budget -= n;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Nothing more can come from it; how the process ends says the rest.
            Err(_) => *pipe = None,
        }
    }
    false
}
