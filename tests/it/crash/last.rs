//! The last server of a seed, which nobody kills: every turn comes to its end, every text that was
//! accepted to its use, and the files hold what the clients have seen.

use std::process::Output;

use serde_json::{Value, json};
use terret_ws::proto::payload::TurnStatus;

use super::book::Book;
use super::plan::{Death, Plan};
use crate::harness::{Client, Server, eventually, server};

/// Wakes after which even a session whose model fails now and then has used everything.
const WAKES_MAX: usize = 20;

/// Says how many old events were removed by then.
pub(super) fn life(plan: &Plan, mut server: Server, books: &mut [Book]) -> usize {
    for book in &mut *books {
        let mut client = server.connect(&book.session);
        client.subscribe(book.next());
        if plan.resume_on_start {
            expect_resumed(&server, &mut client, book);
        }
        settle(&server, &mut client, book);
    }
    let process = match plan.death {
        Death::ProcessOne => plan.death.process(&server).expect("it runs"),
        Death::Kill | Death::Term | Death::Call => server.pid(),
    };
    server::signal(process, "TERM");
    assert_eq!(server.exit().code(), Some(0), "{}", server.stderr());
    let removed = books.iter().map(|book| book.check_whole(&server.data_dir(), plan.keep_events));
    let removed = removed.sum();
    let arguments = ["log", "verify", "--data-dir", "terret-data"];
    let Output { status, stdout, .. } = server::run(server.folder().path(), &arguments);
    assert!(status.success(), "{}", String::from_utf8_lossy(&stdout));
    removed
}

/// Takes what has happened up to now; says what the agent does.
fn look(server: &Server, client: &mut Client, book: &mut Book) -> Value {
    let state = server.state(&book.session);
    let tip = state["last_seq"].as_u64().unwrap();
    while book.next() <= tip {
        take(client, book);
    }
    state
}

fn take(client: &mut Client, book: &mut Book) {
    let next = book.next();
    book.receive(&client.text(), next);
}

/// Without any stimulus an open turn goes on, and a waking text that was accepted begins one.
fn expect_resumed(server: &Server, client: &mut Client, book: &mut Book) {
    let before = book.next();
    eventually("a server that resumes what was open", || {
        let state = look(server, client, book);
        let failed = book.next() > before && book.last_end() == Some(TurnStatus::Failed);
        match state["status"].as_str().unwrap() {
            "parked" => Some(()),
            "interrupted" => (!state["last_error"].is_null()).then_some(()),
            "idle" => (failed || book.missing(true).is_empty()).then_some(()),
            _ => None,
        }
    });
}

/// Until nothing is open and nothing is missing, and at least one turn more has been taken.
fn settle(server: &Server, client: &mut Client, book: &mut Book) {
    let mut wakes = 0;
    let what = format!("{} to come to its end", book.session);
    eventually(&what, || {
        let state = look(server, client, book);
        match (state["status"].as_str().unwrap(), &state["pending_approvals"][0]["call_id"]) {
            ("running", _) => return None,
            (_, Value::String(call_id)) => {
                client.send(&json!({"type": "approve", "call_id": call_id}));
            }
            (status, _) => {
                let missing = book.missing(false);
                if wakes > 0 && status == "idle" && missing.is_empty() {
                    return Some(());
                }
                let used_up = wakes > 0 && book.last_end() == Some(TurnStatus::Completed);
                assert!(!used_up || status != "idle", "{}: lost: {missing:?}", book.session);
                assert!(wakes < WAKES_MAX, "{}: {status} after {wakes} wakes", book.session);
                wakes += 1;
                let number = book.texts();
                let text = format!("{} says {number}, for the last time", book.session);
                book.send(&text, true);
                book.accepted(number..number + 1);
                client.wake(&text);
            }
        }
        // What was said has been heard when something has come of it.
        take(client, book);
        None
    });
}
