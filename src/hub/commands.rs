//! Client frames: what the hub answers itself, and what goes into the agent's mailbox.

use super::Hub;
use super::client::Purpose;
use crate::agent::ConnTag;
use crate::conn::slab::Tag;
use crate::limits::{FRAME_ALLOWANCE_BYTES, ROLE_BYTES_MAX, ROLES_MAX};
use crate::proto::command::Command;
use crate::proto::event::ErrorCode;
use crate::proto::ident::ModelSpec;
use crate::work::advance::Input;

impl Hub {
    /// A client frame has arrived.
    pub(super) fn command(&mut self, tag: Tag, command: Command) {
        let Some(client) = self.clients.get(tag) else { return };
        let Purpose::Socket { agent, .. } = client.purpose else { return };
        match command {
            Command::Subscribe { from_seq } => self.subscribe(tag, from_seq),
            Command::SetModel { role, model } => self.set_model(tag, agent, role, model),
            command => {
                let Some(entry) = self.agents.get_mut(agent) else { return };
                entry.stay().frame_bytes += FRAME_ALLOWANCE_BYTES + weight(&command);
                let from = Some(ConnTag { slot: tag.slot, generation: tag.generation });
                self.post(agent, Input::Command { from, command });
            }
        }
    }

    /// Repoints a role, for the whole service or for this agent alone. Steps that begin later use
    /// it; nothing is logged (clarifications, section 4).
    fn set_model(&mut self, tag: Tag, agent: Tag, role: String, model: ModelSpec) {
        let Some(entry) = self.agents.get_mut(agent) else { return };
        let own = self.options.roles_per_agent;
        let roles = if own { &mut entry.stay().roles } else { &mut self.roles };
        let refusal = if !self.settings.providers.contains_key(&*model.provider) {
            "set_model: model: no provider of that name is configured"
        } else if role.len() > ROLE_BYTES_MAX {
            "set_model: role: the name is too long"
        } else if roles.len() >= ROLES_MAX && !roles.contains_key(&role) {
            "set_model: role: there are too many roles already"
        } else {
            roles.insert(role, model);
            return;
        };
        self.reply(
            ConnTag { slot: tag.slot, generation: tag.generation },
            ErrorCode::BadFrame,
            refusal,
        );
    }

    /// An error frame for the connection that asked, if it is still there.
    pub(super) fn reply(&mut self, to: ConnTag, code: ErrorCode, message: &str) {
        let tag = Tag { slot: to.slot, generation: to.generation };
        if code == ErrorCode::BadFrame {
            self.counters.bad_frames += 1;
        }
        if code.close_code().is_some() {
            self.fail(tag, code, message);
        } else if let Some(conn) = self.conn(tag) {
            conn.error(code, message);
            self.touch(tag);
        }
    }
}

/// Bytes a frame keeps in memory while it waits.
fn weight(command: &Command) -> usize {
    match command {
        Command::Inject { text, .. } => text.len(),
        Command::Cancel { reason } => reason.as_ref().map_or(0, String::len),
        Command::Approve { call_id } => call_id.len(),
        Command::Deny { call_id, reason } => call_id.len() + reason.as_ref().map_or(0, String::len),
        Command::SetPolicy { patterns } => patterns.iter().map(|pattern| pattern.len() + 24).sum(),
        Command::Subscribe { .. } | Command::SetModel { .. } => 0,
    }
}
