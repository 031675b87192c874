//! `terret-ws sessions` and `terret-ws delete`: what lies in a data directory, and its removal.

use std::fmt::Write as _;
use std::path::Path;

use super::{Failure, World, confirmed, no_session, unopened, unreadable, unreadable_session};
use crate::disk::inspect::{self, SessionSummary};
use crate::disk::real::RealDisk;
use crate::proto::ident::SessionId;

/// Prints one line a session, under a line of titles. One that cannot be read is named, and the others
/// are listed nevertheless.
pub(super) fn list(data_dir: &Path, world: &World) -> Result<(), Failure> {
    let sessions = inspect::session_ids(&RealDisk, data_dir)
        .map_err(|error| unreadable(&data_dir.display().to_string(), &error))?;
    world.stdout.print(row("SESSION", "EVENTS", "BYTES", "LAST EVENT", "TURN"))?;
    let mut all = true;
    for session in &sessions {
        match inspect::summary(&RealDisk, data_dir, session) {
            Ok(summary) => world.stdout.print(line(&summary))?,
            Err(error) => {
                all = false;
                world.stderr.print(format!(
                    "terret-ws: {session} cannot be read: {error}; \
                     `terret-ws log verify {session}` tells all\n"
                ))?;
            }
        }
    }
    if all { Ok(()) } else { Err(Failure::shown()) }
}

fn line(summary: &SessionSummary) -> String {
    let SessionSummary { id, events, bytes, last_at, open_turn } = summary;
    let last_at = last_at.map_or("-".to_owned(), |at| at.to_string());
    let turn = if *open_turn { "open" } else { "-" };
    row(id.as_str(), &events.to_string(), &bytes.to_string(), &last_at, turn)
}

fn row(session: &str, events: &str, bytes: &str, last_at: &str, turn: &str) -> String {
    let mut row = String::new();
    writeln!(row, "{session:<24} {events:>10} {bytes:>14}  {last_at:<27}  {turn}")
        .expect("a String takes every character");
    row
}

/// Removes a session for good, after asking.
pub(super) fn delete(
    session: &SessionId,
    data_dir: &Path,
    yes: bool,
    mut world: World,
) -> Result<(), Failure> {
    let deletable = inspect::deletable(&RealDisk, data_dir, session)
        .map_err(|error| unopened(session, data_dir, &error))?
        .ok_or_else(|| no_session(session, data_dir))?;
    let question = format!("delete session {session} in {} for good?", data_dir.display());
    if !yes && !confirmed(&question, &mut world)? {
        return Err(Failure::bad(format!("{session} was not deleted")));
    }
    deletable.delete().map_err(|error| unreadable_session(session, data_dir, &error))?;
    Ok(world.stdout.print(format!("deleted {session}\n"))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::time::Wall;

    #[test]
    fn a_session_is_one_line_in_columns() {
        let summary = SessionSummary {
            id: SessionId::parse("s1").unwrap(),
            events: 16,
            bytes: 3021,
            last_at: Some(Wall(0)),
            open_turn: true,
        };
        let columns: Vec<String> = line(&summary).split_whitespace().map(str::to_owned).collect();
        assert_eq!(columns, ["s1", "16", "3021", "1970-01-01T00:00:00.000000Z", "open"]);
        let empty = SessionSummary { last_at: None, open_turn: false, ..summary };
        assert!(line(&empty).ends_with("-\n"), "{}", line(&empty));
    }
}
