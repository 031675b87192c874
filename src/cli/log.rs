//! `terret-ws log`, `log verify` and `log repair`: sessions read from their files, whether a server
//! runs or not, and made whole while none does.

use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;

use super::args::Log;
use super::{
    Failure, World, confirmed, in_lines, no_session, unopened, unreadable, unreadable_session,
};
use crate::disk::ReadError;
use crate::disk::inspect;
use crate::disk::real::RealDisk;
use crate::disk::repair::{self, Diagnosis};
use crate::disk::verify;
use crate::proto::ident::SessionId;

/// Prints a session's events as the socket sends them, one a line.
pub(super) fn run(log: &Log, world: &World) -> Result<(), Failure> {
    let mut out = BufWriter::with_capacity(PRINT_BYTES, world.stdout.clone());
    let Log { session, data_dir, from_seq, types } = log;
    let mut print = |line: &[u8]| out.write_all(line);
    let first = inspect::dump(&RealDisk, data_dir, session, *from_seq, types, &mut print)
        .map_err(|error| read_failure(session, data_dir, error))?;
    out.flush()?;
    if first > *from_seq {
        let why = "older ones were removed by age (log.keep_events, log.keep_days) or by a repair";
        world.stderr.print(format!("terret-ws: {session} begins with event {first}: {why}\n"))?;
    }
    Ok(())
}

/// Checks one session or all of them and prints what is wrong, and for each how much was looked at.
pub(super) fn verify(
    session: Option<&SessionId>,
    data_dir: &Path,
    world: &World,
) -> Result<(), Failure> {
    if let Some(session) = session {
        let (lines, sound) = verify_one(session, data_dir)
            .map_err(|error| read_failure(session, data_dir, error.into()))?;
        world.stdout.print(in_lines(&lines))?;
        return if sound { Ok(()) } else { Err(Failure::shown()) };
    }
    let sessions = inspect::session_ids(&RealDisk, data_dir)
        .map_err(|error| unreadable(&data_dir.display().to_string(), &error))?;
    let mut all_sound = true;
    for session in &sessions {
        let (lines, sound) = match verify_one(session, data_dir) {
            Ok(verified) => verified,
            // A directory without a segment: the first connection makes one.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => (vec![format!("{session}: unreadable: {error}")], false),
        };
        all_sound &= sound;
        world.stdout.print(in_lines(&lines))?;
    }
    if all_sound { Ok(()) } else { Err(Failure::shown()) }
}

/// Checks one session: what is to be said about it, and whether it is sound.
fn verify_one(session: &SessionId, data_dir: &Path) -> io::Result<(Vec<String>, bool)> {
    let (mut lines, mut sound) = (Vec::new(), true);
    let checked = verify::verify(&RealDisk, data_dir, session, |finding| {
        lines.push(format!("{session}: {finding}"));
        sound &= !finding.is_damage();
    })?;
    let verdict = if sound { "sound" } else { "damaged" };
    let verify::Checked { segments, events, bytes } = checked;
    let [events, segments, bytes] =
        [(events, "event"), (segments, "segment"), (bytes, "byte")].map(counted);
    lines.push(format!("{session}: {verdict}: {events}, {segments}, {bytes}"));
    Ok((lines, sound))
}

/// Makes a damaged session whole, after it has shown what that costs and asked.
pub(super) fn repair(
    session: &SessionId,
    data_dir: &Path,
    yes: bool,
    mut world: World,
) -> Result<(), Failure> {
    let mut lines = Vec::new();
    let tell = |finding| lines.push(format!("{session}: {finding}"));
    let diagnosis = repair::diagnose(Arc::new(RealDisk), data_dir, session, tell)
        .map_err(|error| unopened(session, data_dir, &error))?;
    world.stdout.print(in_lines(&lines))?;
    let found = match diagnosis {
        Diagnosis::Missing => return Err(no_session(session, data_dir)),
        Diagnosis::Sound => {
            return Ok(world.stdout.print(format!("{session}: nothing to repair\n"))?);
        }
        Diagnosis::Lost => {
            return Err(Failure::bad(format!(
                "{session} has nothing left that it could go on with; \
                 `terret-ws delete {session}` removes it"
            )));
        }
        Diagnosis::Repairable(found) => found,
    };
    let kept = format!("events {} to {}", found.kept.start(), found.kept.end());
    let lost = counted((found.lost, "sound event"));
    world.stdout.print(format!(
        "{session}: would keep {kept}; would not: what is damaged, and {lost} beside it\n\
         {session}: files that change stay beside the log as they are now, as FILE.damaged\n"
    ))?;
    let question = format!("repair session {session} in {}?", data_dir.display());
    if !yes && !confirmed(&question, &mut world)? {
        return Err(Failure::bad(format!("{session} was not repaired")));
    }
    found.repair().map_err(|error| unreadable_session(session, data_dir, &error))?;
    Ok(world.stdout.print(format!("repaired {session}: {kept} are there\n"))?)
}

fn counted((number, one): (u64, &str)) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
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
        ReadError::Removed { .. } => Failure::bad(format!("{session}: {error}")),
        ReadError::Io(error) => unreadable_session(session, data_dir, &error),
    }
}

/// What is read at once before it is printed.
const PRINT_BYTES: usize = 64 * 1024;
