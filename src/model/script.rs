//! The provider that answers from a script (design/interface.md, "Providers").
//!
//! The n-th model request of a session is answered by step n, counted by its `step/start` events
//! whatever provider answered, so a restarted server goes on where it was. An error uses its step
//! up and is not retried.
//!
//! Knows time only as the argument it is given.

use std::sync::Arc;

use super::tally::{Excess, Tally};
use super::{Action, args, refusal};
use crate::agent::{Finish, RawCall};
use crate::config::{Script, ScriptCall, ScriptEnd, ScriptStep};
use crate::proto::payload::Usage;
use crate::proto::time::Mono;

/// One step of a script being given.
#[derive(Debug)]
pub(super) struct Playback {
    script: Arc<Script>,
    /// Into `script.steps`; none when the script is used up.
    step: Option<usize>,
    /// How many pieces have been given.
    given: usize,
    /// When the next piece, or the end, may be given.
    due: Mono,
    tally: Tally,
}

impl Playback {
    /// The answer to the session's request number `request`, counted from 0.
    pub(super) fn new(script: &Arc<Script>, request: u64, now: Mono) -> Playback {
        let count = script.steps.len() as u64;
        let wrapped = if script.repeat && count > 0 { request % count } else { request };
        let step = (wrapped < count).then_some(wrapped as usize);
        let due = now.add_ms(step.map_or(0, |step| script.steps[step].delay_ms));
        Playback { script: Arc::clone(script), step, given: 0, due, tally: Tally::default() }
    }

    pub(super) fn poll(&mut self, now: Mono) -> Action {
        let Some(step) = self.step else { return Action::failed("script exhausted") };
        let step = &self.script.steps[step];
        if now < self.due {
            return Action::Wait(Some(self.due));
        }
        while let Some(piece) = step.pieces.get(self.given) {
            self.given += 1;
            if self.given < step.pieces.len() {
                self.due = now.add_ms(step.chunk_delay_ms);
            }
            if !piece.is_empty() {
                return match self.tally.add_bytes(piece.len()) {
                    Ok(()) => Action::Text(piece.clone()),
                    Err(excess) => Action::failed(excess),
                };
            }
        }
        end(step, &mut self.tally)
    }
}

fn end(step: &ScriptStep, tally: &mut Tally) -> Action {
    match &step.end {
        ScriptEnd::Answer { calls, usage } => match finish(calls, *usage, tally) {
            Ok(finish) => Action::Finished(finish),
            Err(excess) => Action::failed(excess),
        },
        ScriptEnd::Error { status, message } => Action::Failed {
            reason: refusal::reason(*status, message),
            // An answer that has begun cannot begin again with half the history.
            context_exceeded: step.pieces.is_empty() && refusal::names_context(message),
        },
    }
}

fn finish(calls: &[ScriptCall], usage: Option<Usage>, tally: &mut Tally) -> Result<Finish, Excess> {
    let mut raw = Vec::with_capacity(calls.len());
    for call in calls {
        tally.add_call()?;
        tally.add_bytes(call.args.len())?;
        let args = args::settle(&call.args);
        raw.push(RawCall { id: call.id.clone(), name: call.name.clone(), args });
    }
    Ok(Finish { calls: raw, usage })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(pieces: &[&str], end: ScriptEnd) -> ScriptStep {
        let pieces = pieces.iter().map(ToString::to_string).collect();
        ScriptStep { delay_ms: 0, chunk_delay_ms: 0, pieces, end }
    }

    fn answer(pieces: &[&str]) -> ScriptStep {
        step(pieces, ScriptEnd::Answer { calls: Vec::new(), usage: None })
    }

    fn script(steps: Vec<ScriptStep>, repeat: bool) -> Arc<Script> {
        Arc::new(Script { steps, repeat })
    }

    /// All actions of one request, with no time passing.
    fn play(script: &Arc<Script>, request: u64) -> Vec<Action> {
        let mut playback = Playback::new(script, request, Mono(0));
        let mut actions = Vec::new();
        loop {
            let action = playback.poll(Mono(0));
            let over = !matches!(action, Action::Text(_));
            actions.push(action);
            if over {
                return actions;
            }
        }
    }

    fn finished() -> Action {
        Action::Finished(Finish::default())
    }

    #[test]
    fn the_nth_request_is_answered_by_step_n() {
        let once = script(vec![answer(&["a"]), answer(&["b", "", "c"])], false);
        let text = |text: &str| Action::Text(text.into());
        assert_eq!(play(&once, 0), [text("a"), finished()]);
        assert_eq!(play(&once, 1), [text("b"), text("c"), finished()]);
        for beyond in [2, u64::MAX] {
            assert_eq!(play(&once, beyond), [Action::failed("script exhausted")]);
        }
        let again = script(once.steps.clone(), true);
        assert_eq!(play(&again, 2), [text("a"), finished()]);
        assert_eq!(play(&again, 7), [text("b"), text("c"), finished()]);
        assert_eq!(play(&script(Vec::new(), true), 0), [Action::failed("script exhausted")]);
    }

    #[test]
    fn pieces_wait_for_their_time_and_the_end_does_not() {
        let slow = ScriptStep { delay_ms: 100, chunk_delay_ms: 30, ..answer(&["a", "b"]) };
        let mut playback = Playback::new(&script(vec![slow], false), 0, Mono(1000));
        for (now, expected) in [
            (1000, Action::Wait(Some(Mono(1100)))),
            (1099, Action::Wait(Some(Mono(1100)))),
            (1100, Action::Text("a".into())),
            (1100, Action::Wait(Some(Mono(1130)))),
            // Late is late: the next piece keeps its distance from the one before.
            (1200, Action::Text("b".into())),
            (1200, finished()),
        ] {
            assert_eq!(playback.poll(Mono(now)), expected, "at {now}");
        }
        let mute = ScriptStep { delay_ms: 5, ..answer(&[]) };
        let mut playback = Playback::new(&script(vec![mute], false), 0, Mono(0));
        assert_eq!(playback.poll(Mono(0)), Action::Wait(Some(Mono(5))));
        assert_eq!(playback.poll(Mono(5)), finished());
    }

    #[test]
    fn calls_keep_their_arguments_byte_for_byte() {
        let call = |args: &str| ScriptCall { id: "1".into(), name: "f".into(), args: args.into() };
        let usage = Some(Usage { prompt_tokens: 1, completion_tokens: 2, cost: Some(0.5) });
        let calls = vec![call(r#"{ "n":1e400 }"#), call("{}\n"), call("[1]"), call("")];
        let steps = vec![step(&[], ScriptEnd::Answer { calls, usage })];
        let [Action::Finished(finish)] = &play(&script(steps, false), 0)[..] else {
            panic!("one action")
        };
        let args: Vec<_> = finish.calls.iter().map(|call| call.args.as_deref()).collect();
        assert_eq!(args, [Ok(r#"{ "n":1e400 }"#), Ok("{} "), Err(&"[1]".to_owned()), Ok("{}")]);
        assert_eq!(finish.usage, usage);
    }

    #[test]
    fn an_error_fails_the_request_with_what_the_provider_would_say() {
        for (status, message, context_exceeded) in
            [(503, "busy", false), (400, "maximum context length is 8", true)]
        {
            let end = ScriptEnd::Error { status, message: message.into() };
            let reason = refusal::reason(status, message);
            let failed = Action::Failed { reason: reason.clone(), context_exceeded };
            assert_eq!(play(&script(vec![step(&[], end.clone())], false), 0), [failed]);
            let begun = play(&script(vec![step(&["so "], end)], false), 0);
            assert_eq!(begun, [Action::Text("so ".into()), Action::failed(reason)]);
        }
    }

    #[test]
    fn an_answer_over_a_bound_fails() {
        let call = ScriptCall { id: "1".into(), name: "f".into(), args: "{}".into() };
        let calls = vec![call; crate::limits::STEP_CALLS_MAX + 1];
        let steps = vec![step(&[], ScriptEnd::Answer { calls, usage: None })];
        assert_eq!(play(&script(steps, false), 0), [Action::failed(Excess::Calls)]);
    }
}
