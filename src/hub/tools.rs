//! Tools that run: processes are watched by whoever obeys the hub, code of the embedding program is a
//! job; both come back to their agent as an input.

use super::stop::Stage;
use super::{Hub, ToolOrder};
use crate::conn::slab::Tag;
use crate::proto::payload::Outcome;
use crate::work::advance::Input;
use crate::work::note::{Level, Note};
use crate::work::process::Trace;
use crate::work::tools::{Launched, ToolJob};
use crate::work::{Done, Job};

impl Hub {
    /// A tool of the embedding program is to run. Past the grace nothing starts any more; the call
    /// stays owed.
    pub(super) fn run_tool(&mut self, job: Box<ToolJob>) {
        if matches!(self.stage, Stage::Running | Stage::Grace(_)) {
            self.orders.jobs.push(Job::Tool(job));
        }
    }

    /// The program of a tool was started.
    pub(super) fn launched(&mut self, launched: Box<Launched>) {
        self.groups += 1;
        self.orders.tools.push(ToolOrder::Watch(launched));
    }

    /// A tool has ended. An agent that does not know this run any more ignores it.
    pub fn tool_ended(&mut self, agent: Tag, tag: u64, outcome: Outcome) {
        self.post(agent, Input::Tool { tag, outcome });
    }

    /// Nothing is left of a tool's process group.
    pub fn tool_over(&mut self, trace: Trace) {
        self.groups -= 1;
        self.orders.jobs.push(Job::Chore(Box::new(move || match trace.remove() {
            Ok(()) => Vec::new(),
            Err(error) => {
                let note = Note::new(Level::Warn, "record of a tool not removed");
                vec![Done::Notes(vec![note.with("cause", error)])]
            }
        })));
    }
}
