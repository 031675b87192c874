//! Conversations as their events tell them.

use super::*;
use crate::proto::payload::{Call, Verdict};

/// A talk on a fresh session whose first event has been heard.
fn talk() -> Talk {
    let mut talk = Talk::new(0);
    assert!(talk.connected(0));
    hear(&mut talk, &[Body::SessionCreated]);
    talk
}

fn hear(talk: &mut Talk, bodies: &[Body]) -> Vec<Heard> {
    bodies
        .iter()
        .map(|body| {
            let kind = body.kind().to_owned();
            let seq = talk.next_seq();
            talk.hear(&ServerFrame::Event { seq, kind, body: Some(body.clone()) })
        })
        .collect()
}

fn inject(text: &str, wake: bool) -> Command {
    Command::Inject { text: text.into(), wake }
}

fn user(text: &str) -> Body {
    Body::UserMessage { text: text.into() }
}

fn start() -> Body {
    Body::TurnStart { agent: "agent-s1".into() }
}

fn end(status: TurnStatus) -> Body {
    Body::TurnEnd { status, reason: None }
}

fn call(id: &str) -> Call {
    Call { id: id.into(), name: "t".into(), args: "{}".into() }
}

fn approved(call_id: &str) -> Body {
    let call_id = call_id.into();
    Body::ApprovalResolved { call_id, verdict: Verdict::Approved, reason: None }
}

fn error(code: &str) -> ServerFrame {
    ServerFrame::Error { code: code.into(), message: String::new() }
}

#[test]
fn a_text_is_done_when_its_turn_is_over() {
    let mut talk = talk();
    talk.said(&inject("hi", true));
    assert_eq!(talk.outcome(), None);
    assert_eq!(hear(&mut talk, &[start(), user("hi")]), [Heard::News, Heard::OwnText]);
    assert_eq!(talk.outcome(), None);
    hear(&mut talk, &[end(TurnStatus::Completed)]);
    assert_eq!(talk.outcome(), Some(Outcome::Done));
}

#[test]
fn the_turn_that_counts_is_the_one_that_took_the_text() {
    let mut talk = talk();
    talk.said(&inject("b", true));
    hear(&mut talk, &[start(), user("a"), end(TurnStatus::Completed)]);
    assert_eq!(talk.outcome(), None);
    hear(&mut talk, &[start(), user("b"), end(TurnStatus::Failed)]);
    assert_eq!(talk.outcome(), Some(Outcome::Failed));
}

#[test]
fn a_text_that_a_stopped_turn_leaves_in_the_inbox_is_not_waited_for() {
    let mut talk = talk();
    talk.said(&inject("a", true));
    talk.said(&inject("b", true));
    hear(&mut talk, &[start(), user("a"), end(TurnStatus::Cancelled)]);
    assert_eq!(talk.outcome(), Some(Outcome::Failed));
}

#[test]
fn a_spectator_waits_for_the_end_of_an_open_turn_and_judges_none() {
    let turn = |status| vec![start(), user("a"), end(status)];
    let parked = vec![start(), Body::ApprovalRequested(call("c1"))];
    for (events, outcome) in [
        (vec![], Some(Outcome::Done)),
        (vec![start(), user("a")], None),
        (turn(TurnStatus::Completed), Some(Outcome::Done)),
        (turn(TurnStatus::Failed), Some(Outcome::Done)),
        (parked, Some(Outcome::Parked("c1".into()))),
    ] {
        let mut talk = talk();
        hear(&mut talk, &events);
        assert_eq!(talk.outcome(), outcome, "{events:?}");
    }
}

#[test]
fn what_history_says_is_not_the_outcome_of_what_is_said_after_it() {
    for status in [TurnStatus::Failed, TurnStatus::Rejected, TurnStatus::Cancelled] {
        let mut talk = Talk::new(0);
        talk.connected(3);
        for body in [Body::SessionCreated, start(), user("old"), end(status)] {
            assert!(!talk.is_oriented(), "history is still to come");
            hear(&mut talk, &[body]);
        }
        assert!(talk.is_oriented());
        talk.said(&inject("new", true));
        assert_eq!(talk.outcome(), None, "{status:?}");
        hear(&mut talk, &[start(), user("new"), end(TurnStatus::Completed)]);
        assert_eq!(talk.outcome(), Some(Outcome::Done), "{status:?}");
    }
}

#[test]
fn a_verdict_on_a_replayed_request_is_followed_to_the_end_of_its_turn() {
    let mut talk = Talk::new(0);
    talk.connected(2);
    hear(&mut talk, &[Body::SessionCreated, start(), Body::ApprovalRequested(call("c1"))]);
    assert!(talk.is_oriented());
    assert_eq!(talk.parked(), ["c1"]);
    talk.said(&Command::Approve { call_id: "c1".into() });
    assert_eq!(talk.outcome(), None, "the verdict is on its way");
    hear(&mut talk, &[approved("c1")]);
    assert_eq!(talk.outcome(), None, "the turn runs");
    hear(&mut talk, &[end(TurnStatus::Completed)]);
    assert_eq!(talk.outcome(), Some(Outcome::Done));
}

#[test]
fn a_replay_that_begins_late_leaves_open_whether_a_turn_is() {
    let truncated = ServerFrame::ReplayTruncated { requested_from_seq: 0, from_seq: 7 };
    let late_talks = || {
        let mut late = Talk::new(999);
        late.connected(6);
        let mut cut = Talk::new(0);
        cut.connected(7);
        cut.hear(&truncated);
        cut.hear(&ServerFrame::Event { seq: 7, kind: "new".into(), body: None });
        [(late, 6), (cut, 7)]
    };
    for (status, pending, outcome) in [
        ("idle", &[][..], Some(Outcome::Done)),
        ("running", &[], None),
        ("parked", &["c1"], Some(Outcome::Parked("c1".into()))),
        ("interrupted", &[], Some(Outcome::Interrupted)),
    ] {
        for (mut talk, last_seq) in late_talks() {
            assert!(!talk.is_oriented() && talk.wonders());
            assert_eq!(talk.outcome(), None);
            talk.told(state(last_seq + 1, status, pending));
            assert!(!talk.is_oriented(), "an answer from another moment");
            talk.told(state(last_seq, status, pending));
            assert!(talk.is_oriented());
            assert_eq!(talk.outcome(), outcome, "{status} at {last_seq}");
            assert_eq!(talk.parked(), pending);
        }
    }
    for (body, outcome) in [(start(), None), (end(TurnStatus::Failed), Some(Outcome::Done))] {
        let mut talk = Talk::new(6);
        talk.connected(6);
        hear(&mut talk, std::slice::from_ref(&body));
        assert!(talk.is_oriented(), "the log tells");
        assert_eq!(talk.outcome(), outcome, "{body:?}");
    }
}

#[test]
fn a_line_that_asks_for_nothing_is_not_done() {
    let mut talk = talk();
    talk.misspoke();
    assert_eq!(talk.outcome(), Some(Outcome::Failed));
}

#[test]
fn it_is_quiet_while_nothing_happens_by_itself() {
    let mut talk = Talk::new(0);
    assert!(!talk.is_quiet(), "not connected");
    talk.connected(0);
    assert!(!talk.is_quiet(), "history is still to come");
    hear(&mut talk, &[Body::SessionCreated]);
    assert!(talk.is_quiet());
    talk.said(&inject("a", true));
    assert!(!talk.is_quiet(), "the text is on its way");
    hear(&mut talk, &[start(), user("a")]);
    assert!(!talk.is_quiet(), "the turn runs");
    talk.told(state(2, "interrupted", &[]));
    assert!(talk.is_quiet(), "it has stopped");
    hear(&mut talk, &[Body::ApprovalRequested(call("c1"))]);
    assert!(talk.is_quiet(), "it waits for a verdict");
    talk.said(&Command::Approve { call_id: "c1".into() });
    assert!(!talk.is_quiet(), "the verdict is on its way");
    hear(&mut talk, &[approved("c1")]);
    assert!(!talk.is_quiet(), "the turn runs again");
    hear(&mut talk, &[end(TurnStatus::Completed)]);
    assert!(talk.is_quiet());
}

#[test]
fn history_is_heard_first() {
    let mut talk = Talk::new(0);
    talk.connected(2);
    talk.said(&inject("a", false));
    hear(&mut talk, &[Body::SessionCreated, start()]);
    assert_eq!(talk.outcome(), None, "the turn's end is history too");
    hear(&mut talk, &[end(TurnStatus::Completed)]);
    assert_eq!(talk.outcome(), Some(Outcome::Done));
}

#[test]
fn a_parked_turn_with_nobody_left_to_decide() {
    let mut talk = talk();
    talk.said(&inject("hi", true));
    hear(&mut talk, &[start(), user("hi"), Body::ApprovalRequested(call("c1"))]);
    assert_eq!(talk.outcome(), Some(Outcome::Parked("c1".into())));
    talk.said(&Command::Approve { call_id: "c1".into() });
    assert_eq!(talk.outcome(), None);
    hear(&mut talk, &[approved("c1"), end(TurnStatus::Completed)]);
    assert_eq!(talk.outcome(), Some(Outcome::Done));
}

#[test]
fn a_refusal_ends_the_wait_for_what_it_is_about() {
    for (command, code) in [
        (Command::Cancel { reason: None }, "not_running"),
        (Command::Approve { call_id: "c1".into() }, "stale_call"),
        (Command::Deny { call_id: "c1".into(), reason: None }, "unsupported"),
        (inject("a", true), "bad_frame"),
    ] {
        let mut talk = talk();
        talk.said(&command);
        assert_eq!(talk.outcome(), None);
        talk.hear(&error(code));
        assert_eq!(talk.outcome(), Some(Outcome::Failed), "{code}");
    }
    let mut talk = talk();
    talk.said(&inject("a", true));
    talk.hear(&error("stale_call"));
    assert_eq!(talk.outcome(), None, "an error about something else");
}

#[test]
fn errors_after_which_nobody_should_come_back() {
    let mut talk = talk();
    for (code, heard) in [
        ("superseded", Heard::LastWord(ErrorCode::Superseded)),
        ("unauthorized", Heard::LastWord(ErrorCode::Unauthorized)),
        ("lagged", Heard::News),
        ("internal", Heard::News),
        ("new_in_version_2", Heard::News),
    ] {
        assert_eq!(talk.hear(&error(code)), heard);
    }
}

#[test]
fn commands_that_the_log_acknowledges() {
    let mut talk = talk();
    talk.said(&Command::SetPolicy { patterns: vec![] });
    assert_eq!(talk.outcome(), None);
    hear(&mut talk, &[Body::PolicyUpdated { patterns: vec![] }]);
    assert_eq!(talk.outcome(), Some(Outcome::Done));
}

#[test]
fn what_a_lost_connection_took_with_it_is_not_waited_for() {
    let mut talk = talk();
    talk.said(&inject("a", true));
    assert!(talk.awaits());
    talk.connected(0);
    assert_eq!(talk.outcome(), Some(Outcome::Failed));
    talk.said(&inject("b", true));
    assert_eq!(talk.outcome(), None);
}

fn state(last_seq: u64, status: &str, pending: &[&str]) -> AgentState {
    let pending = pending.iter().map(|&id| id.to_owned()).collect();
    AgentState {
        last_seq,
        status: status.to_owned(),
        pending,
        policy: Vec::new(),
        last_error: None,
    }
}

#[test]
fn a_turn_that_nothing_works_at_is_not_waited_for() {
    let mut talk = talk();
    assert!(!talk.wonders(), "nothing is to come");
    hear(&mut talk, &[start()]);
    assert!(talk.wonders(), "a spectator wants to know as well");
    talk.said(&inject("a", true));
    hear(&mut talk, &[Body::ContextInjected { text: "a".into() }]);
    for (last_seq, status) in [(2, "running"), (1, "interrupted"), (3, "interrupted")] {
        talk.told(state(last_seq, status, &[]));
        assert_eq!((talk.wonders(), talk.outcome()), (true, None), "{status} at {last_seq}");
    }
    talk.told(state(2, "interrupted", &[]));
    assert_eq!((talk.wonders(), talk.outcome()), (false, Some(Outcome::Interrupted)));
    hear(&mut talk, &[Body::StepEnd { n: 1, usage: None }]);
    assert_eq!((talk.wonders(), talk.outcome()), (true, None), "it goes on after all");
    hear(&mut talk, &[end(TurnStatus::Completed)]);
    assert_eq!((talk.wonders(), talk.outcome()), (false, Some(Outcome::Done)));
}

#[test]
fn a_text_on_its_way_may_still_resume_an_interrupted_turn() {
    let mut talk = talk();
    hear(&mut talk, &[start()]);
    talk.said(&inject("a", true));
    talk.told(state(1, "interrupted", &[]));
    assert_eq!(talk.outcome(), None);
    talk.connected(1);
    talk.told(state(1, "interrupted", &[]));
    assert_eq!(talk.outcome(), Some(Outcome::Interrupted), "it was lost with its connection");
}

#[test]
fn a_parked_turn_whose_request_was_not_replayed() {
    let mut talk = Talk::new(100);
    talk.connected(6);
    talk.said(&inject("a", true));
    assert_eq!((talk.wonders(), talk.outcome()), (true, None));
    talk.told(state(6, "parked", &["c1", "c2"]));
    assert_eq!((talk.wonders(), talk.outcome()), (false, Some(Outcome::Parked("c1".into()))));
}

#[test]
fn a_verdict_lost_with_its_connection_leaves_the_turn_parked() {
    let mut talk = talk();
    hear(&mut talk, &[start(), Body::ApprovalRequested(call("c1"))]);
    talk.said(&Command::Approve { call_id: "c1".into() });
    assert_eq!(talk.outcome(), None);
    talk.connected(2);
    assert_eq!(talk.outcome(), Some(Outcome::Parked("c1".into())));
}

#[test]
fn what_the_replay_after_a_lost_connection_shows_was_taken() {
    let mut talk = talk();
    talk.said(&inject("a", true));
    talk.connected(3);
    hear(&mut talk, &[start(), user("a")]);
    assert_eq!(talk.outcome(), None);
    hear(&mut talk, &[end(TurnStatus::Completed)]);
    assert_eq!(talk.outcome(), Some(Outcome::Done));
}

#[test]
fn nothing_is_heard_twice() {
    let mut talk = talk();
    hear(&mut talk, &[start()]);
    let again = ServerFrame::Event { seq: 1, kind: "turn/start".into(), body: Some(start()) };
    assert_eq!(talk.hear(&again), Heard::Repeated);
    assert_eq!(talk.next_seq(), 2);
}

#[test]
fn a_log_restored_from_an_older_copy_is_noticed() {
    let mut talk = talk();
    hear(&mut talk, &[start(), user("a"), end(TurnStatus::Completed)]);
    assert!(talk.connected(3), "exactly what has been heard");
    assert!(!talk.connected(1));
    assert_eq!(talk.next_seq(), 2);
    let mut talk = Talk::new(100);
    assert!(talk.connected(3), "nothing has been heard yet");
    assert_eq!(talk.next_seq(), 4, "only what is new");
}
