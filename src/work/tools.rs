//! Starting the tools that a step has been let through to: a program is started here and travels up to
//! be watched, code of the embedding program becomes a job of its own.
//!
//! Knows no turn. Invariant: every run that the turn machine ordered has one outcome, or its agent is
//! gone.

use super::Done;
use super::process::{Pipes, Process};
use super::run::Run;
use crate::agent::{Input as Turn, ToolRun};
use crate::config::ToolConfig;
use crate::conn::slab::Tag;
use crate::proto::ident::SessionId;
use crate::proto::payload::{Call, Outcome};
use crate::tool::{Runs, Tool, ToolCall};
use std::sync::Arc;

/// One call of a tool that is code of the embedding program.
pub struct ToolJob {
    agent: Tag,
    tag: u64,
    session: SessionId,
    call: Call,
    tool: Arc<dyn Tool>,
}

/// The program of a tool that was started, on its way to the reactor. If nobody is there any more, it
/// is killed.
pub struct Launched {
    /// Who called it.
    pub agent: Tag,
    /// Which run of the agent's.
    pub tag: u64,
    /// What it is.
    pub tool: Arc<ToolConfig>,
    /// What it gets to read.
    pub args: Box<str>,
    /// It.
    pub process: Process,
    /// Our ends of its streams.
    pub pipes: Pipes,
}

impl ToolJob {
    /// Runs the call to its end, however long that takes.
    pub(super) fn run(&self) -> Done {
        let call =
            ToolCall { session: &self.session, call_id: &self.call.id, args: &self.call.args };
        self.ended(self.tool.call(&call))
    }

    /// What becomes of the call if the embedding program's code panics.
    pub(super) fn panicked(&self) -> Done {
        self.ended(Err(format!("{} panicked", self.call.name)))
    }

    fn ended(&self, outcome: Outcome) -> Done {
        Done::ToolEnded { agent: self.agent, tag: self.tag, outcome }
    }
}

impl Run<'_> {
    /// Starts one tool. What cannot be started has its outcome at once.
    pub(super) fn start_tool(&mut self, run: ToolRun) {
        let ToolRun { tag, call } = run;
        let agent = self.job.agent;
        match self.job.settings.tools.runs(&call.name) {
            Some(Runs::Closure(tool)) => {
                let (session, tool) = (self.job.session.clone(), Arc::clone(tool));
                let job = ToolJob { agent, tag, session, call, tool };
                self.answers.send(Done::Tool(Box::new(job)));
            }
            Some(Runs::Command(tool)) => {
                let tool = Arc::clone(tool);
                match self.launcher.start(&tool, &self.job.session, &call.id, tag) {
                    Ok((process, pipes)) => {
                        let args = call.args;
                        let launched = Launched { agent, tag, tool, args, process, pipes };
                        self.answers.send(Done::Launched(Box::new(launched)));
                    }
                    Err(error) => {
                        let (name, program) = (&tool.name, &tool.command[0]);
                        let outcome = Err(format!("{name} cannot be started: {program}: {error}"));
                        self.turn(Turn::Tool { tag, outcome });
                    }
                }
            }
            // The configuration was reloaded between the append and a retry of it.
            None => {
                let outcome = Err(format!("unknown tool {}", call.name));
                self.turn(Turn::Tool { tag, outcome });
            }
        }
    }
}
