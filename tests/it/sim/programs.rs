//! Tools that are programs: each is really started, killed at once, and ends when and how chance says.

use super::plan::Plan;
use super::random::Random;
use super::world::World;
use std::thread;
use terret_ws::config::{Concurrency, ToolConfig};
use terret_ws::conn::slab::Tag;
use terret_ws::hub::ToolOrder;
use terret_ws::proto::payload::Content;
use terret_ws::work::process::Trace;
use terret_ws::work::tools::Launched;

/// Programs that run, and what is left of those that have ended.
#[derive(Default)]
pub(super) struct Programs {
    all: Vec<Program>,
    /// Whatever starts from now on is ended, and nobody is told how.
    stopping: bool,
}

struct Program {
    agent: Tag,
    /// Which run of the agent's; none once that has ended, or when nobody wants to know.
    run: Option<u64>,
    trace: Trace,
}

impl Programs {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Does what the hub orders.
    pub(super) fn obey(&mut self, order: ToolOrder) {
        match order {
            ToolOrder::Watch(launched) => {
                let Launched { agent, tag, mut process, .. } = *launched;
                process.kill();
                while process.reap().is_none() {
                    thread::yield_now();
                }
                let run = (!self.stopping).then_some(tag);
                self.all.push(Program { agent, run, trace: process.into_group().over() });
            }
            ToolOrder::Kill { agent } => {
                let killed = self.all.iter_mut().filter(|program| program.agent == agent);
                killed.for_each(|program| program.run = None);
            }
            ToolOrder::EndAll | ToolOrder::KillAll => {
                self.stopping = true;
                self.all.iter_mut().for_each(|program| program.run = None);
            }
        }
    }
}

impl World {
    /// A program ends, or what it has left does.
    pub(super) fn end_program(&mut self) {
        if self.life.programs.all.is_empty() {
            return;
        }
        let place = self.random.below(self.life.programs.len());
        let program = &mut self.life.programs.all[place];
        let (agent, run) = (program.agent, program.run.take());
        if let Some(run) = run {
            self.trace.reach("a program that ended");
            let outcomes = [Ok(Content::text("done")), Err("exit status 1".to_owned())];
            let outcome = outcomes[self.random.below(2)].clone();
            self.trace.say(|| format!("a program ends: {outcome:?}"));
            self.life.hub.tool_ended(agent, run, outcome);
        }
        if run.is_none() || self.random.chance(60) {
            let program = self.life.programs.all.swap_remove(place);
            self.life.hub.tool_over(program.trace);
        }
        self.obey();
    }
}

/// The programs of one seed.
pub(super) fn programs(plan: &Plan, random: &mut Random) -> Vec<ToolConfig> {
    if !plan.programs || random.chance(10) {
        return Vec::new();
    }
    let tool = |name: &str, program: &str| ToolConfig::new(name, vec![program.to_owned()]);
    let mut program = tool("program", "true");
    program.concurrency = Concurrency::Parallel;
    vec![program, tool("missing", "/no/such/program")]
}
