//! What the contract says of a turn, told as what goes in and which events come out.

mod turns;
mod inbox;
mod tools;
mod hooks;
mod approvals;
mod cancel;
mod resume;
mod history;
mod random;

use super::fuzz::world::{World, rules};
use super::{ConnTag, Finish, Input, ModelEvent, Note, RawCall, Status};
use crate::proto::command::Command;
use crate::proto::event::ErrorCode;
use crate::proto::payload::{Body, Content, Outcome, Part, TurnStatus, Usage};

const CLIENT: ConnTag = ConnTag { slot: 3, generation: 1 };

/// `(id, name, args)` of a call.
type Made<'a> = (&'a str, &'a str, &'a str);

impl World {
    fn tell(&mut self, input: Input) -> Vec<String> {
        self.input(input).iter().map(|event| show(&event.body)).collect()
    }

    fn command(&mut self, command: Command) -> Vec<String> {
        self.tell(Input::Command { from: Some(CLIENT), command })
    }

    fn wake(&mut self, text: &str) -> Vec<String> {
        self.command(Command::Inject { text: text.into(), wake: true })
    }

    fn steer(&mut self, text: &str) -> Vec<String> {
        self.command(Command::Inject { text: text.into(), wake: false })
    }

    fn cancel(&mut self, reason: Option<&str>) -> Vec<String> {
        self.command(Command::Cancel { reason: reason.map(str::to_owned) })
    }

    fn approve(&mut self, call_id: &str) -> Vec<String> {
        self.command(Command::Approve { call_id: call_id.into() })
    }

    fn deny(&mut self, call_id: &str, reason: Option<&str>) -> Vec<String> {
        let reason = reason.map(str::to_owned);
        self.command(Command::Deny { call_id: call_id.into(), reason })
    }

    fn set_policy(&mut self, patterns: &[&str]) -> Vec<String> {
        let patterns = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        self.command(Command::SetPolicy { patterns })
    }

    /// The model streams a piece of text.
    fn text(&mut self, text: &str) -> Vec<String> {
        let ask = self.asked.as_ref().expect("a model is asked").ask;
        self.tell(Input::Model { ask, event: ModelEvent::Text(text.into()) })
    }

    /// The model's answer ends with these calls.
    fn finish(&mut self, calls: &[Made<'_>]) -> Vec<String> {
        let call = |&(id, name, args): &Made<'_>| RawCall {
            id: id.into(),
            name: name.into(),
            args: Ok(args.into()),
        };
        self.finish_with(Finish { calls: calls.iter().map(call).collect(), usage: None })
    }

    fn finish_with(&mut self, finish: Finish) -> Vec<String> {
        let ask = self.asked.take().expect("a model is asked").ask;
        self.tell(Input::Model { ask, event: ModelEvent::Finished(finish) })
    }

    /// The model gives up.
    fn fail(&mut self, reason: &str) -> Vec<String> {
        let ask = self.asked.take().expect("a model is asked").ask;
        self.tell(Input::Model { ask, event: ModelEvent::Failed { reason: reason.into() } })
    }

    /// One of the tools that run ends with a text; 0 is the one that was started first.
    fn tool(&mut self, place: usize, text: &str) -> Vec<String> {
        self.tool_ends(place, Ok(Content::text(text)))
    }

    fn tool_breaks(&mut self, place: usize, error: &str) -> Vec<String> {
        self.tool_ends(place, Err(error.into()))
    }

    fn tool_ends(&mut self, place: usize, outcome: Outcome) -> Vec<String> {
        let tag = self.tools.remove(place).tag;
        self.tell(Input::Tool { tag, outcome })
    }

    /// `id:name` of the tools that run.
    fn running_tools(&self) -> Vec<String> {
        self.tools.iter().map(|run| format!("{}:{}", run.call.id, run.call.name)).collect()
    }

    fn restart(&mut self) {
        self.restart_at(self.log.len());
    }

    fn status(&self) -> Status {
        self.machine.status()
    }

    /// Code of the only reply to the last input.
    fn refusal(&self) -> Option<ErrorCode> {
        assert!(self.replies.len() <= 1, "{:?}", self.replies);
        self.replies.first().map(|(code, _)| *code)
    }

    fn shown(&self) -> Vec<String> {
        self.log.iter().map(|event| show(&event.body)).collect()
    }
}

/// A world in which the model was woken and has just made these calls.
fn calling(calls: &[Made<'_>]) -> (World, Vec<String>) {
    let mut world = World::new(rules());
    world.wake("go");
    let shown = world.finish(calls);
    (world, shown)
}

fn usage(prompt_tokens: u64, completion_tokens: u64) -> Usage {
    Usage { prompt_tokens, completion_tokens, cost: None }
}

const NOTHING: [&str; 0] = [];

/// One event in a few words; an error begins with `!`.
fn show(body: &Body) -> String {
    let kind = body.kind();
    let given = |text: &Option<String>| text.as_ref().map_or(String::new(), |t| format!(" ({t})"));
    match body {
        Body::SessionCreated | Body::TurnStart { .. } => kind.to_owned(),
        Body::StepStart { n, .. } | Body::StepEnd { n, usage: None } => format!("{kind} {n}"),
        Body::UserMessage { text }
        | Body::ContextInjected { text }
        | Body::AssistantChunk { text } => format!("{kind} {text}"),
        Body::AssistantMessage { parts } => parts.iter().fold(kind.to_owned(), |shown, part| {
            let part = match part {
                Part::Text(text) => text.clone(),
                Part::ToolCall(call) => format!("{}:{}{}", call.id, call.name, call.args),
            };
            format!("{shown} {part}")
        }),
        Body::ToolCall(call) | Body::ApprovalRequested(call) => {
            format!("{kind} {}:{}", call.id, call.name)
        }
        Body::ToolResult { id, outcome } => match outcome {
            Ok(content) => format!("{kind} {id} {}", content.to_text()),
            Err(error) => format!("{kind} {id} !{error}"),
        },
        Body::StepEnd { n, usage: Some(usage) } => {
            format!("{kind} {n} {}+{}", usage.prompt_tokens, usage.completion_tokens)
        }
        Body::TurnEnd { status, reason } => format!("{kind} {}{}", status.as_str(), given(reason)),
        Body::ApprovalResolved { call_id, verdict, reason } => {
            format!("{kind} {call_id} {}{}", verdict.as_str(), given(reason))
        }
        Body::PolicyUpdated { patterns } => format!("{kind} {}", patterns.join(" ")),
        other => panic!("a machine does not emit {other:?}"),
    }
}
