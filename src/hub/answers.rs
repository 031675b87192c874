//! What comes up from the workers and from the embedding program.

use super::entry::{Entry, Standing};
use super::{Hub, Options, ToolOrder};
use crate::conn::slab::Tag;
use crate::disk::Tip;
use crate::proto::command::Command;
use crate::proto::event::ErrorCode;
use crate::proto::ident::SessionId;
use crate::work::advance::Input;
use crate::work::note::{Level, Note};
use crate::work::{Done, Reload, Unopened, Upstream};
use std::sync::Arc;

impl Hub {
    /// A worker, the resolver or a handle has something to say. What is not for the hub comes back.
    pub fn done(&mut self, done: Done) -> Option<Done> {
        match done {
            Done::Opened { agent, outcome } => self.opened(agent, outcome),
            Done::Events(published) => self.publish(&published),
            Done::Replies(replies) => {
                for reply in replies {
                    self.reply(reply.to, reply.code, &reply.message);
                }
            }
            Done::Upstream { agent, command } => self.command_upstream(agent, command),
            Done::Tool(job) => self.run_tool(job),
            Done::Launched(launched) => self.launched(launched),
            Done::ToolEnded { agent, tag, outcome } => self.tool_ended(agent, tag, outcome),
            Done::Snapshot { conn, agent, snapshot } => self.show(conn, agent, snapshot.as_deref()),
            Done::Piece { conn, generation, outcome } => self.piece(conn, generation, outcome),
            Done::Swept(swept) => self.swept(swept),
            Done::Home(home) => self.home(home),
            Done::Panicked { agent, readers } => self.panicked(agent, readers),
            Done::Latched { reason } => self.latch(reason),
            Done::Notes(notes) => self.orders.notes.extend(notes),
            Done::Control(_) | Done::Resolved(_) => return Some(done),
        }
        None
    }

    fn opened(&mut self, agent: Tag, outcome: Result<Tip, Unopened>) {
        let Some(entry) = self.agents.get_mut(agent) else { return };
        let failure = match &outcome {
            Ok(_) | Err(Unopened::Missing) => None,
            Err(Unopened::Damaged { place, .. }) => Some(("log is damaged", place.clone())),
            Err(Unopened::Full) => Some(("session cannot be made", "storage full".to_owned())),
            Err(Unopened::Failed { reason }) => Some(("log cannot be opened", reason.clone())),
        };
        if let Some((event, cause)) = failure
            && entry.damage().is_none()
        {
            let note = Note::new(Level::Error, event).about(&entry.session);
            self.orders.notes.push(note.with("cause", cause));
        }
        let entry = self.agents.get_mut(agent).expect("it was there a line ago");
        let was_open = entry.tip().is_some();
        match outcome {
            Ok(tip) => entry.set_tip(tip),
            // What is known to be there is, whatever keeps it from being opened now.
            Err(Unopened::Missing | Unopened::Full | Unopened::Failed { .. }) if was_open => {}
            Err(why) => entry.set_unopened(why),
        }
        if entry.damage().is_some() {
            self.set_standing(agent, Some(Standing::Damaged));
        }
        let entry = self.agents.get_mut(agent).expect("it was there a line ago");
        let (client, waiting) = (entry.client, std::mem::take(&mut entry.stay().waiting));
        let missing = matches!(entry.unopened(), Some(Unopened::Missing));
        // Nobody had asked for it to be made when the job left; by now somebody has.
        let comes_late = entry.stay().create && missing;
        if comes_late {
            self.post(agent, Input::Clock);
        } else if let Some(tag) = client
            && !was_open
        {
            if entry.tip().is_some() {
                self.greet_or_open(tag, agent);
            } else if !missing {
                // A session that is only missing was looked for before this client came: its own
                // turn is when that job is home, and then it is made.
                let full = matches!(entry.unopened(), Some(Unopened::Full));
                let why = if full { "storage full" } else { "the session's log cannot be opened" };
                self.fail(tag, ErrorCode::Internal, why);
            }
        }
        for tag in waiting {
            self.answer(tag);
        }
    }

    fn command_upstream(&mut self, agent: Tag, command: Upstream) {
        if let Some(entry) = self.agents.get_mut(agent) {
            let stay = entry.stay();
            stay.forget_upstream();
            stay.upstream = matches!(command, Upstream::Connect { .. });
            self.orders.upstream.push((agent, command));
        }
    }

    fn panicked(&mut self, agent: Option<Tag>, readers: Vec<Tag>) {
        let mut note = Note::new(Level::Error, "a job panicked");
        for tag in readers {
            self.unread(tag);
        }
        if let Some(agent) = agent {
            if let Some(entry) = self.agents.get(agent) {
                note = note.about(&entry.session);
            }
            self.lost(agent);
            self.command_upstream(agent, Upstream::Disconnect);
            self.orders.tools.push(ToolOrder::Kill { agent });
            let client = self.agents.get(agent).and_then(|entry| entry.client);
            if let Some(tag) = client {
                let message = "the server hit an unexpected error serving this agent";
                self.fail(tag, ErrorCode::Internal, message);
            }
            self.lose_readers(agent);
        } else {
            self.sweep_lost();
        }
        self.orders.notes.push(note);
    }

    /// Nothing is appended any more: every client learns it, and the server ends.
    fn latch(&mut self, reason: String) {
        if self.latched.is_some() {
            return;
        }
        self.orders.notes.push(Note::new(Level::Error, "disk failed").with("cause", &reason));
        self.latched = Some(reason);
        let tags: Vec<Tag> = self.clients.tags().collect();
        for tag in tags {
            self.fail(tag, ErrorCode::Internal, "the server's disk failed; reconnect later");
        }
        self.orders.tools.push(ToolOrder::KillAll);
        self.end_now();
    }

    /// Why nothing can be appended any more, if that is so.
    pub fn latched(&self) -> Option<&str> {
        self.latched.as_deref()
    }

    /// A text from the embedding program, as a client's `inject`.
    pub fn inject(&mut self, session: &SessionId, text: String, wake: bool) {
        let agent = self.agents.find_or_insert(session);
        if let Some(entry) = self.agents.get_mut(agent) {
            entry.stay().create = true;
        }
        let command = Command::Inject { text, wake };
        self.post(agent, Input::Command { from: None, command });
    }

    /// Resumes the open turn of a session, if there is one.
    pub fn resume_turn(&mut self, session: &crate::proto::ident::SessionId) {
        let agent = self.agents.find_or_insert(session);
        self.post(agent, Input::Resume);
    }

    /// Lets a session go on where the last server ended.
    pub fn recover(&mut self, session: &SessionId) {
        let agent = self.agents.find_or_insert(session);
        self.post(agent, Input::Recover);
    }

    /// Goes by this configuration from now on. Roles that clients have changed stay as they are,
    /// unless the configuration changes them too. The caller has said what cannot change.
    pub fn reload(&mut self, reload: Reload) {
        let Reload { config, running, tokens } = reload;
        let Options { connections_capacity, open_files_max, idle_residents_max, .. } = self.options;
        self.options = Options {
            idle_residents_max,
            ..Options::new(&config, connections_capacity, open_files_max)
        };
        self.deadlines.hasten_heartbeats(self.now, self.options.heartbeat_s);
        self.gate.set_limit(self.options.max_concurrent_replays);
        let had_approvals = self.settings.rules.approvals;
        self.settings = Arc::new(self.settings.reloaded(&config));
        if had_approvals && !self.settings.rules.approvals {
            self.settle_parked();
        }
        self.schedule_sweep();
        for (role, model) in &config.roles {
            if running.roles.get(role) != Some(model) {
                self.roles.insert(role.clone(), model.clone());
            }
        }
        self.set_tokens(tokens);
        self.orders.notes.push(Note::new(Level::Info, "configuration reloaded"));
    }

    /// Nobody can decide any more about calls that wait for a human.
    fn settle_parked(&mut self) {
        let parked = |(tag, entry): (Tag, &Entry)| entry.may_have_parked_calls().then_some(tag);
        let parked: Vec<Tag> = self.agents.iter().filter_map(parked).collect();
        for agent in parked {
            self.post(agent, Input::Reloaded);
        }
    }

    /// Agents by what they do, for the metrics: known, resident, in a job.
    pub fn agents(&self) -> (usize, usize, usize) {
        let resident = self.agents.iter().filter(|(_, entry)| entry.agent().is_some()).count();
        (self.agents.len(), resident, self.residents.out)
    }
}
