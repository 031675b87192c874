//! Processes of tools: their pipes, their ends, and when they are ended.
//!
//! Knows no call: arguments go in, a bounded piece of what comes out is kept, and the outcome is made
//! of it when the process has ended. A tool can harm nobody: one that does not read, writes without
//! end, closes its pipes, leaves somebody else holding them or does not want to die is still one slot
//! here with one deadline.
//!
//! Invariants: a process is reaped as soon as it has ended; after a time-out, a stop or the loss of its
//! agent nothing of its group is left; its trace is given back when its group is empty, not before.

mod streams;

use super::ground::{Source, token};
use crate::conn::slab::{Slab, Tag};
use crate::hub::ToolOrder;
use crate::limits::{
    GROUP_LOOK_MS, GROUP_LOOK_STOPPING_MS, PIPE_BYTES_MAX, ROUND_BYTES, TOOL_END_S,
};
use crate::proto::payload::Outcome;
use crate::proto::time::Mono;
use crate::tool::ToolConfig;
use crate::tool::ending::{Ending, outcome};
use crate::work::process::{Group, Process, Trace};
use crate::work::tools::Launched;
use mio::unix::SourceFd;
use mio::{Interest, Registry};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::Arc;
use streams::Streams;

/// What has become of a process.
pub(super) enum ChildEvent {
    /// The call of this agent has its result.
    Ended { agent: Tag, tag: u64, outcome: Outcome },
    /// Nothing is left of a group.
    Over(Trace),
}

/// All processes of tools.
pub(super) struct Children {
    registry: Registry,
    processes: Slab<Child>,
    /// Groups that outlived the process they were made for.
    left: Vec<Left>,
    /// When it is looked again which of them are still there.
    next_look: Option<Mono>,
    deadlines: BinaryHeap<Reverse<(Mono, u32, u32)>>,
    ready: VecDeque<Tag>,
    events: Vec<ChildEvent>,
    /// The server is past its grace: whatever starts now is ended at once.
    stopping: bool,
}

/// What is left of a process that has ended.
struct Left {
    group: Group,
    /// When it gets SIGKILL; never while it may go on.
    kill_at: Option<Mono>,
}

/// One process of a tool.
struct Child {
    agent: Tag,
    /// Which run of the agent's; none when nobody wants its outcome any more.
    run: Option<u64>,
    tool: Arc<ToolConfig>,
    process: Process,
    streams: Streams,
    phase: Phase,
    /// It ran into its time-out.
    timed_out: bool,
    /// When its phase is over. Older entries of the heap are void.
    due: Option<Mono>,
    listed: bool,
}

#[derive(Clone, Copy)]
enum Phase {
    /// It runs, until its time-out.
    Running,
    /// Its group got SIGTERM, and gets SIGKILL then.
    Ending { kill_at: Mono },
    /// Its group got SIGKILL, and nothing more can be done about it.
    Killed,
    /// It has ended. What it wrote is taken from the pipes, at most so many rounds: somebody else may
    /// hold them and go on writing.
    Reaped { ending: Ending, kill_at: Option<Mono>, rounds: usize },
}

impl Children {
    pub(super) fn new(registry: Registry) -> Self {
        Self {
            registry,
            processes: Slab::default(),
            left: Vec::new(),
            next_look: None,
            deadlines: BinaryHeap::new(),
            ready: VecDeque::new(),
            events: Vec::new(),
            stopping: false,
        }
    }

    /// What has happened since it was last asked.
    pub(super) fn take_events(&mut self) -> Vec<ChildEvent> {
        std::mem::take(&mut self.events)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    pub(super) fn ready_len(&self) -> usize {
        self.ready.len()
    }

    /// Does what the hub orders.
    pub(super) fn obey(&mut self, order: ToolOrder, now: Mono) {
        match order {
            ToolOrder::Watch(launched) => self.watch(*launched, now),
            ToolOrder::Kill { agent } => {
                for tag in self.tags(|child| child.agent == agent) {
                    self.kill(tag, now);
                }
            }
            ToolOrder::EndAll => self.end_all(now),
            ToolOrder::KillAll => {
                self.stopping = true;
                for tag in self.tags(|_| true) {
                    self.kill(tag, now);
                }
                self.left.iter_mut().for_each(|left| left.kill_at = Some(now));
                self.look(now);
            }
        }
    }

    fn tags(&self, of: impl Fn(&Child) -> bool) -> Vec<Tag> {
        self.processes.iter().filter(|(_, child)| of(child)).map(|(tag, _)| tag).collect()
    }

    fn watch(&mut self, launched: Launched, now: Mono) {
        let Launched { agent, tag: run, tool, args, process, pipes } = launched;
        let tag = self.processes.insert(Child {
            agent,
            run: Some(run),
            streams: Streams::new(pipes, args, tool.max_output_bytes),
            tool,
            process,
            phase: Phase::Running,
            timed_out: false,
            due: None,
            listed: false,
        });
        let child = self.processes.get_mut(tag).expect("it was put there a line ago");
        if let Err(error) = child.register(&self.registry, tag) {
            let outcome = Err(format!("{} cannot be watched: {error}", child.tool.name));
            self.events.push(ChildEvent::Ended { agent, tag: run, outcome });
            self.kill(tag, now);
        } else if self.stopping {
            self.end(tag, now);
        } else {
            let timeout_s = child.tool.timeout_s;
            self.set_due(tag, now.add_s(timeout_s));
        }
        self.list(tag);
    }

    /// The poll says that something may be possible on a process's pipes.
    pub(super) fn moved(&mut self, slot: u32) {
        if let Some(tag) = self.processes.tag_at(slot) {
            self.list(tag);
        }
    }

    /// The poll says that a process has ended.
    pub(super) fn ended(&mut self, slot: u32, now: Mono) {
        let Some(tag) = self.processes.tag_at(slot) else { return };
        let Some(child) = self.processes.get_mut(tag) else { return };
        let kill_at = match child.phase {
            Phase::Running => None,
            Phase::Ending { kill_at } => Some(kill_at),
            Phase::Killed => Some(now),
            Phase::Reaped { .. } => return,
        };
        // It has not when the slot has a new process since the poll spoke.
        if let Some(ending) = child.process.reap() {
            child.streams.stop_feeding();
            let rounds = PIPE_BYTES_MAX / ROUND_BYTES;
            child.phase = Phase::Reaped { ending, kill_at, rounds };
            child.due = None;
            self.list(tag);
        }
    }

    fn list(&mut self, tag: Tag) {
        if let Some(child) = self.processes.get_mut(tag)
            && !child.listed
        {
            child.listed = true;
            self.ready.push_back(tag);
        }
    }

    /// Gives the next ready process its share of a round.
    pub(super) fn serve_next(&mut self, buffer: &mut [u8], now: Mono) {
        let Some(tag) = self.ready.pop_front() else { return };
        let Some(child) = self.processes.get_mut(tag) else { return };
        child.listed = false;
        let more = child.streams.exchange(buffer);
        match &mut child.phase {
            Phase::Reaped { ending, kill_at, rounds } => {
                *rounds -= 1;
                if !more || *rounds == 0 {
                    let (ending, kill_at) = (*ending, *kill_at);
                    self.over(tag, ending, kill_at, now);
                    return;
                }
            }
            Phase::Running | Phase::Ending { .. } | Phase::Killed => {}
        }
        if more {
            self.list(tag);
        }
    }

    /// The process has ended, and what it wrote was taken.
    fn over(&mut self, tag: Tag, ending: Ending, kill_at: Option<Mono>, now: Mono) {
        self.report(tag, ending);
        let Some(child) = self.processes.remove(tag) else { return };
        let mut left = Left { group: child.process.into_group(), kill_at };
        if self.stopping {
            left.end(now);
        }
        self.left.push(left);
        self.look(now);
    }

    /// Tells the outcome, if it is still wanted.
    fn report(&mut self, tag: Tag, ending: Ending) {
        let Some(child) = self.processes.get_mut(tag) else { return };
        let (output, errors) = child.streams.take_kept();
        let Some(run) = child.run.take() else { return };
        let ending = if child.timed_out { Ending::TimedOut(child.tool.timeout_s) } else { ending };
        let outcome = outcome(&child.tool, ending, output, errors);
        self.events.push(ChildEvent::Ended { agent: child.agent, tag: run, outcome });
    }

    /// When [`Children::tick`] wants to be called next.
    pub(super) fn next_deadline(&self) -> Option<Mono> {
        let child = self.deadlines.peek().map(|Reverse((due, ..))| *due);
        child.into_iter().chain(self.next_look).min()
    }

    /// Does what is due.
    pub(super) fn tick(&mut self, now: Mono) {
        while let Some(&Reverse((due, slot, generation))) = self.deadlines.peek()
            && due <= now
        {
            self.deadlines.pop();
            let tag = Tag { slot, generation };
            let Some(child) = self.processes.get_mut(tag) else { continue };
            if child.due != Some(due) {
                continue;
            }
            match child.phase {
                Phase::Running => {
                    child.timed_out = true;
                    self.end(tag, now);
                }
                Phase::Ending { .. } => {
                    child.process.kill();
                    child.phase = Phase::Killed;
                    self.set_due(tag, now.add_s(TOOL_END_S));
                }
                // The kernel does not let go of it yet; its call need not wait for that.
                Phase::Killed => self.report(tag, Ending::Unknown),
                Phase::Reaped { .. } => {}
            }
        }
        if self.next_look.is_some_and(|due| due <= now) {
            self.look(now);
        }
    }

    /// Asks every process to end, and whatever outlived one. An outcome that is our doing is not told:
    /// the call stays owed, and runs again when its turn is resumed.
    fn end_all(&mut self, now: Mono) {
        self.stopping = true;
        for tag in self.tags(|_| true) {
            self.end(tag, now);
        }
        self.left.iter_mut().for_each(|left| left.end(now));
        self.look(now);
    }

    /// SIGTERM now, SIGKILL later.
    fn end(&mut self, tag: Tag, now: Mono) {
        let Some(child) = self.processes.get_mut(tag) else { return };
        if matches!(child.phase, Phase::Running) {
            let kill_at = now.add_s(TOOL_END_S);
            child.process.end();
            child.phase = Phase::Ending { kill_at };
            if !child.timed_out {
                child.run = None;
            }
            self.set_due(tag, kill_at);
        }
    }

    /// SIGKILL now. Nobody wants its outcome any more.
    fn kill(&mut self, tag: Tag, now: Mono) {
        let Some(child) = self.processes.get_mut(tag) else { return };
        child.run = None;
        match &mut child.phase {
            Phase::Reaped { kill_at, .. } => *kill_at = Some(now),
            phase => {
                child.process.kill();
                *phase = Phase::Killed;
                self.set_due(tag, now.add_s(TOOL_END_S));
            }
        }
    }

    fn set_due(&mut self, tag: Tag, due: Mono) {
        if let Some(child) = self.processes.get_mut(tag) {
            child.due = Some(due);
            self.deadlines.push(Reverse((due, tag.slot, tag.generation)));
        }
    }

    /// Looks which groups are still there, and ends those whose time has come.
    fn look(&mut self, now: Mono) {
        for left in std::mem::take(&mut self.left) {
            let exists = left.group.exists();
            if exists && left.kill_at.is_some_and(|due| due <= now) {
                left.group.kill();
            } else if exists {
                self.left.push(left);
                continue;
            }
            self.events.push(ChildEvent::Over(left.group.over()));
        }
        let pause = if self.stopping { GROUP_LOOK_STOPPING_MS } else { GROUP_LOOK_MS };
        let kill_at = self.left.iter().filter_map(|left| left.kill_at).min();
        let next = now.add_ms(pause);
        self.next_look = (!self.left.is_empty()).then(|| kill_at.map_or(next, |due| due.min(next)));
    }
}

impl Left {
    fn end(&mut self, now: Mono) {
        self.group.end();
        self.kill_at.get_or_insert(now.add_s(TOOL_END_S));
    }
}

impl Child {
    fn register(&mut self, registry: &Registry, tag: Tag) -> io::Result<()> {
        self.streams.register(registry, token(Source::ToolPipes, tag))?;
        let exit = self.process.exit_fd();
        registry.register(&mut SourceFd(&exit), token(Source::ToolExit, tag), Interest::READABLE)
    }
}
