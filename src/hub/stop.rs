//! Stopping: no new turns, a grace for running steps, clients closed with 1001, tools ended, appends in
//! progress finished, logs left as a clean stop leaves them.

use super::client::Purpose;
use super::entry::Entry;
use super::{Hub, ToolOrder};
use crate::conn::slab::Tag;
use crate::limits::CLOSE_S;
use crate::proto::http::Status;
use crate::proto::time::Mono;
use crate::proto::ws::CloseCode;
use crate::work::Upstream;
use crate::work::advance::Input;
use crate::work::agent::Agent;
use crate::work::note::{Level, Note};

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Not begun.
    Running,
    /// Running steps have until then to finish; nothing new begins.
    Grace(Mono),
    /// Clients have been told; what is not over by then is cut off.
    Closing(Mono),
    /// Nothing is left to wait for.
    Over,
}

impl Hub {
    /// Begins to stop.
    pub fn stop(&mut self) {
        if self.stage == Stage::Running {
            self.orders.notes.push(Note::new(Level::Info, "stopping"));
            self.stage = Stage::Grace(self.now.add_s(self.options.stop_grace_s));
            self.stage_tick();
        }
    }

    /// Whether no new turn and no new step may begin.
    pub fn is_stopping(&self) -> bool {
        self.stage != Stage::Running
    }

    /// How far the end has come.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    pub(super) fn stage_deadline(&self) -> Option<Mono> {
        match self.stage {
            Stage::Grace(until) | Stage::Closing(until) => Some(until),
            Stage::Running | Stage::Over => None,
        }
    }

    /// Goes on to the next stage once nothing holds the present one. To be called after anything
    /// has happened while the server stops.
    pub fn stage_tick(&mut self) {
        if let Stage::Grace(until) = self.stage
            && (self.now >= until || !self.steps_run())
        {
            self.close_all();
        }
        if let Stage::Closing(until) = self.stage {
            let over = self.residents.out == 0 && self.clients.is_empty() && self.groups == 0;
            if over || self.now >= until {
                self.stage = Stage::Over;
            }
        }
    }

    /// Tells nobody anything any more.
    pub(super) fn end_now(&mut self) {
        self.stage = Stage::Closing(self.now.add_s(CLOSE_S));
    }

    fn steps_run(&self) -> bool {
        let steps = |entry: &Entry| entry.agent().is_some_and(Agent::is_stepping);
        self.agents.iter().any(|(_, entry)| entry.is_out() || steps(entry))
    }

    fn close_all(&mut self) {
        self.stage = Stage::Closing(self.now.add_s(CLOSE_S));
        let clients: Vec<Tag> = self.clients.tags().collect();
        for tag in clients {
            let Some(client) = self.clients.get_mut(tag) else { continue };
            if client.conn.is_ending() {
                continue;
            }
            let looked_up = matches!(client.purpose, Purpose::Snapshot { .. } | Purpose::Events(_))
                && client.stream.is_none();
            if !client.conn.has_asked() || looked_up {
                self.respond(tag, Status::ServiceUnavailable, "stopping");
                continue;
            }
            client.conn.close(CloseCode::GOING_AWAY, "server stopping");
            if !client.conn.is_ending() {
                // An HTTP answer under way: it ends short, and its coding says so.
                client.conn.abandon_stream();
            }
            self.ending(tag, "server stopping");
        }
        self.orders.tools.push(ToolOrder::EndAll);
        let agents: Vec<Tag> = self.agents.tags().collect();
        for agent in agents {
            let Some(entry) = self.agents.get_mut(agent) else { continue };
            let Some(stay) = &mut entry.stay else { continue };
            if std::mem::take(&mut stay.upstream) {
                stay.forget_upstream();
                self.orders.upstream.push((agent, Upstream::Disconnect));
            }
            if entry.agent().is_some_and(|agent| !agent.is_stalled() && agent.holds_file()) {
                self.post(agent, Input::Rest);
            }
        }
    }
}
