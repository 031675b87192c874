//! `terret-ws log` and `terret-ws log verify`: sessions read from their files, whether a server runs
//! or not.

use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use super::args::Log;
use super::{Failure, World, no_session, unreadable};
use crate::disk::ReadError;
use crate::disk::inspect::{self, Finding};
use crate::disk::real::RealDisk;
use crate::proto::ident::SessionId;

/// Prints a session's events as the socket sends them, one a line.
pub(super) fn run(log: &Log, world: &World) -> Result<(), Failure> {
    let mut out = BufWriter::with_capacity(PRINT_BYTES, world.stdout.clone());
    let Log { session, data_dir, from_seq, types } = log;
    let mut print = |line: &[u8]| out.write_all(line);
    inspect::dump(&RealDisk, data_dir, session, *from_seq, types, &mut print)
        .map_err(|error| read_failure(session, data_dir, error))?;
    out.flush()?;
    Ok(())
}

/// Checks one session or all of them and prints what is wrong, and for each how much was looked at.
pub(super) fn verify(
    session: Option<&SessionId>,
    data_dir: &Path,
    world: &World,
) -> Result<(), Failure> {
    let sessions = match session {
        Some(session) => vec![session.clone()],
        None => all_sessions(data_dir)?,
    };
    let mut damaged = false;
    for session in &sessions {
        let mut findings: Vec<Finding> = Vec::new();
        let checked =
            inspect::verify(&RealDisk, data_dir, session, |finding| findings.push(finding))
                .map_err(|error| read_failure(session, data_dir, error.into()))?;
        for finding in &findings {
            world.stdout.print(format!("{session}: {finding}\n"))?;
        }
        let bad = findings.iter().any(Finding::is_damage);
        let verdict = if bad { "damaged" } else { "sound" };
        let inspect::Checked { segments, events, bytes } = checked;
        let [events, segments, bytes] =
            [(events, "event"), (segments, "segment"), (bytes, "byte")].map(counted);
        world.stdout.print(format!("{session}: {verdict}: {events}, {segments}, {bytes}\n"))?;
        damaged |= bad;
    }
    if damaged { Err(Failure::shown()) } else { Ok(()) }
}

fn counted((number, one): (u64, &str)) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

fn all_sessions(data_dir: &Path) -> Result<Vec<SessionId>, Failure> {
    let summaries = inspect::sessions(&RealDisk, data_dir)
        .map_err(|error| unreadable(&data_dir.display().to_string(), &error))?;
    summaries
        .map(|summary| summary.map(|summary| summary.id))
        .collect::<io::Result<_>>()
        .map_err(|error| unreadable(&data_dir.display().to_string(), &error))
}

fn read_failure(session: &SessionId, data_dir: &Path, error: ReadError) -> Failure {
    match error {
        ReadError::Damaged(place) => Failure::bad(format!(
            "{session} is damaged: {place}; `terret-ws log verify {session}` tells all"
        )),
        ReadError::Io(error) if error.kind() == io::ErrorKind::BrokenPipe => error.into(),
        ReadError::Io(error) if error.kind() == io::ErrorKind::NotFound => {
            no_session(session, data_dir)
        }
        ReadError::Io(error) => unreadable(&format!("{session} in {}", data_dir.display()), &error),
    }
}

/// What is read at once before it is printed.
const PRINT_BYTES: usize = 64 * 1024;
