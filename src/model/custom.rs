//! An embedder's own model, running in this process.
//!
//! It may block: a call of it is polled on the worker pool, never on its last free worker, and a
//! cancel drops the answer at the next piece. A panic costs its agent the job and nobody else.
//!
//! Any iterator is an answer, so the smallest model is a closure that returns a vector:
//!
//! ```
//! use terret_ws::model::custom::{Answer, Model, Piece};
//! use terret_ws::model::Request;
//!
//! struct Parrot;
//!
//! impl Model for Parrot {
//!     fn answer(&self, request: &Request<'_>, _model: &str) -> Answer {
//!         let text = request.fresh.join(" ");
//!         Box::new([Ok(Piece::Text(text))].into_iter())
//!     }
//! }
//! ```

use std::fmt;

use super::tally::{Excess, Tally};
use super::{Action, Request, args};
use crate::agent::{Finish, RawCall};
use crate::proto::payload::Usage;

/// A model that runs in this process.
pub trait Model: Send + Sync {
    /// Begins the answer to a step. `model` is what stands after the provider's name and its slash.
    /// Borrowed data is copied by whoever needs it longer.
    fn answer(&self, request: &Request<'_>, model: &str) -> Answer;
}

/// An answer as it is made. Its end is the end of the answer; an error fails the turn with that
/// reason, without a retry, and is logged word for word.
pub type Answer = Box<dyn Iterator<Item = Result<Piece, String>> + Send>;

/// A part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Some more text; empty text is passed over.
    Text(String),
    /// A tool call. `args` is the text of a JSON object; empty means `{}`, and anything else gives
    /// the model an error result that quotes it.
    Call {
        /// An id for the call; need not be unique.
        id: String,
        /// The tool.
        name: String,
        /// The arguments' text.
        args: String,
    },
    /// What the answer cost; the last one counts.
    Usage(Usage),
}

impl<F> Model for F
where
    F: Fn(&Request<'_>, &str) -> Answer + Send + Sync,
{
    fn answer(&self, request: &Request<'_>, model: &str) -> Answer {
        self(request, model)
    }
}

/// An answer being pulled.
pub(super) struct Pull {
    answer: Answer,
    calls: Vec<RawCall>,
    usage: Option<Usage>,
    tally: Tally,
}

impl Pull {
    pub(super) fn new(model: &dyn Model, request: &Request<'_>, name: &str) -> Pull {
        let answer = model.answer(request, name);
        Pull { answer, calls: Vec::new(), usage: None, tally: Tally::default() }
    }

    /// Runs the embedder's code until it has said something that is an action.
    pub(super) fn poll(&mut self) -> Action {
        loop {
            let piece = match self.answer.next() {
                Some(Ok(piece)) => piece,
                Some(Err(reason)) => return Action::failed(reason),
                None => {
                    let calls = std::mem::take(&mut self.calls);
                    return Action::Finished(Finish { calls, usage: self.usage });
                }
            };
            match self.take(piece) {
                Ok(None) => {}
                Ok(Some(text)) => return Action::Text(text),
                Err(excess) => return Action::failed(excess),
            }
        }
    }

    /// The text of the piece, if it is one and holds some.
    fn take(&mut self, piece: Piece) -> Result<Option<String>, Excess> {
        match piece {
            Piece::Text(text) => {
                self.tally.add_bytes(text.len())?;
                return Ok(Some(text).filter(|text| !text.is_empty()));
            }
            Piece::Call { id, name, args: sent } => {
                self.tally.add_call()?;
                self.tally.add_bytes(id.len() + name.len() + sent.len())?;
                self.calls.push(RawCall { id, name, args: args::settle(&sent) });
            }
            Piece::Usage(usage) => self.usage = Some(usage),
        }
        Ok(None)
    }
}

impl fmt::Debug for Pull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pull").field("calls", &self.calls.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{STEP_BYTES_MAX, STEP_CALLS_MAX};

    fn pull(pieces: Vec<Result<Piece, String>>) -> Vec<Action> {
        let model =
            move |_: &Request<'_>, _: &str| -> Answer { Box::new(pieces.clone().into_iter()) };
        let request = Request { system: None, messages: &[], tools: &[], fresh: &[] };
        let mut pull = Pull::new(&model, &request, "m");
        let mut actions = Vec::new();
        loop {
            let action = pull.poll();
            let over = !matches!(action, Action::Text(_));
            actions.push(action);
            if over {
                return actions;
            }
        }
    }

    fn text(text: &str) -> Piece {
        Piece::Text(text.into())
    }

    fn call(args: &str) -> Piece {
        Piece::Call { id: "1".into(), name: "f".into(), args: args.into() }
    }

    #[test]
    fn the_pieces_of_an_iterator_are_the_answer() {
        let usage = |prompt_tokens| Usage { prompt_tokens, completion_tokens: 0, cost: None };
        let pieces = [
            text("a"),
            text(""),
            call(""),
            text("b"),
            call("[]"),
            Piece::Usage(usage(1)),
            Piece::Usage(usage(2)),
        ];
        let actions = pull(pieces.map(Ok).into());
        let raw = |args| RawCall { id: "1".into(), name: "f".into(), args };
        let calls = vec![raw(Ok("{}".into())), raw(Err("[]".into()))];
        assert_eq!(
            actions,
            [
                Action::Text("a".into()),
                Action::Text("b".into()),
                Action::Finished(Finish { calls, usage: Some(usage(2)) }),
            ]
        );
    }

    #[test]
    fn an_error_or_an_answer_over_a_bound_fails() {
        for (pieces, reason) in [
            (vec![Err("no luck".to_owned())], "no luck".to_owned()),
            (vec![Ok(call("{}")); STEP_CALLS_MAX + 1], Excess::Calls.to_string()),
            (vec![Ok(text(&"x".repeat(STEP_BYTES_MAX + 1)))], Excess::Bytes.to_string()),
        ] {
            assert_eq!(pull(pieces), [Action::failed(reason)]);
        }
    }
}
