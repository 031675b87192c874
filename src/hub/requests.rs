//! Requests: who asks, whether it may, and what becomes of the connection.

use super::Hub;
use super::client::{History, Purpose, Stream};
use super::residents::main_model;
use super::stop::Stage;
use crate::agent::Snapshot;
use crate::config::{MAIN_ROLE, Token, Tokens};
use crate::conn::Incoming;
use crate::conn::slab::Tag;
use crate::conn::subscription::{Mode, Subscription};
use crate::proto::command::Command;
use crate::proto::event::{ErrorCode, write_hello};
use crate::proto::http::{Head, Status, Version, write_answer};
use crate::proto::ident::{ModelSpec, SessionId};
use crate::proto::json::write_string;
use crate::proto::upgrade::{self, Refusal, Route, token_eq};
use crate::work::Unopened;
use crate::work::advance::Input;
use crate::work::note::{Level, Note};
use std::collections::BTreeMap;

const JSON: &str = "application/json";
const JSON_LINES: &str = "application/x-ndjson";

impl Hub {
    /// A connection's head is known.
    pub(super) fn request(&mut self, tag: Tag, head: &Head) {
        let route = match upgrade::route(head) {
            Ok(route) => route,
            Err(refusal) => return self.refuse(tag, head, &refusal),
        };
        match route {
            Route::Healthz => match self.health() {
                Ok(()) => self.respond(tag, Status::Ok, "ok"),
                Err(why) => self.respond(tag, Status::ServiceUnavailable, &why),
            },
            Route::Metrics => self.orders.scrapes.push(tag),
            Route::Socket { agent_id } => self.socket(tag, head, agent_id),
            Route::Agent { agent_id } => {
                if let Some((agent, _)) = self.reader(tag, head, agent_id) {
                    self.look_up(tag, Purpose::Snapshot { agent });
                }
            }
            Route::Events { agent_id, from_seq, limit } => {
                if let Some((agent, token)) = self.reader(tag, head, agent_id) {
                    let (from, chunked) = (from_seq, head.version() == Version::Http11);
                    let history = History { agent, from, limit, chunked, token };
                    self.look_up(tag, Purpose::Events(Box::new(history)));
                }
            }
        }
    }

    fn refuse(&mut self, tag: Tag, head: &Head, refusal: &Refusal) {
        let mut response = Vec::new();
        refusal.write(&mut response, Some(head));
        self.answer_with(tag, &response);
    }

    /// Whether the server takes work; else one line why not.
    fn health(&self) -> Result<(), String> {
        if let Some(reason) = &self.latched {
            Err(format!("disk failed: {reason}"))
        } else if self.is_stopping() {
            Err("stopping".to_owned())
        } else if self.is_storage_full() {
            Err("storage full".to_owned())
        } else {
            Ok(())
        }
    }

    /// The opening handshake of an agent's socket. A valid one is answered 101 whatever its token:
    /// the client gets its error as a frame (clarifications, section 2).
    fn socket(&mut self, tag: Tag, head: &Head, agent_id: &str) {
        let key = match upgrade::accept(head) {
            Ok(key) => key,
            Err(refusal) => return self.refuse(tag, head, &refusal),
        };
        if self.stage != Stage::Running {
            return self.refuse(tag, head, &Refusal::Unavailable("stopping"));
        }
        if let Err(refusal) = upgrade::check_origin(head, &self.options.allowed_origins) {
            return self.refuse(tag, head, &refusal);
        }
        let Some(conn) = self.conn(tag) else { return };
        conn.switch_protocols(&key);
        match self.authorize(head, agent_id) {
            Some((session, token)) => self.attach(tag, &session, token),
            None => {
                self.counters.unauthorized += 1;
                let mut note = Note::new(Level::Info, "unauthorized");
                // What names no agent here may be a token that was put in the wrong place.
                if let Some(session) = SessionId::from_path_segment(agent_id)
                    && !self.tokens.of(&session).is_empty()
                {
                    note = note.about(&session);
                }
                self.orders.notes.push(note);
                self.fail(tag, ErrorCode::Unauthorized, "bad or missing token");
            }
        }
    }

    /// The session that `agent_id` names and the token presented for it, if that is one of its own.
    ///
    /// Every token of the session is compared, each in constant time: how long it takes tells
    /// nothing of which matched or how far.
    fn authorize(&self, head: &Head, agent_id: &str) -> Option<(SessionId, Token)> {
        let presented = upgrade::bearer(head)?.as_bytes();
        let session = SessionId::from_path_segment(agent_id)?;
        let mut matched = None;
        for token in self.tokens.of(&session) {
            if token_eq(token.expose().as_bytes(), presented) {
                matched = Some(token.clone());
            }
        }
        matched.map(|token| (session, token))
    }

    /// The agent that an HTTP request may read, and the token that lets it; without a right one it
    /// gets 401.
    fn reader(&mut self, tag: Tag, head: &Head, agent_id: &str) -> Option<(Tag, Token)> {
        if let Some((session, token)) = self.authorize(head, agent_id) {
            return Some((self.agents.find_or_insert(&session), token));
        }
        self.counters.unauthorized += 1;
        self.refuse(tag, head, &Refusal::Unauthorized);
        None
    }

    /// An authorized connection becomes the agent's one connection.
    fn attach(&mut self, tag: Tag, session: &SessionId, token: Token) {
        let agent = self.agents.find_or_insert(session);
        let entry = self.agents.get_mut(agent).expect("an agent's entry stays");
        // Of one that is there nothing is to be kept.
        if entry.tip().is_none() {
            entry.stay().create = true;
        }
        if let Some(old) = entry.client {
            self.counters.superseded += 1;
            self.hear_out(old);
            self.fail(old, ErrorCode::Superseded, "a newer connection took over this agent");
        }
        let entry = self.agents.get_mut(agent).expect("an agent's entry stays");
        if !entry.pinned && self.residents.pinned >= self.options.max_agents {
            return self.fail(tag, ErrorCode::Internal, "agent limit reached");
        }
        entry.client = Some(tag);
        self.orders.notes.push(Note::new(Level::Info, "connected").about(session));
        if let Some(client) = self.clients.get_mut(tag) {
            client.purpose = Purpose::Socket { agent, token };
        }
        self.repin(agent);
        self.greet_or_open(tag, agent);
    }

    /// Hands on what a connection had sent before another took its place: frames received before a
    /// supersede are still handled, whatever they were waiting for.
    fn hear_out(&mut self, tag: Tag) {
        let Some(client) = self.clients.get_mut(tag) else { return };
        client.conn.hear_out();
        let mut backlog = std::mem::take(&mut client.backlog);
        let mut bytes = &mut backlog[..];
        while !bytes.is_empty() {
            match self.conn(tag).and_then(|conn| conn.receive(&mut bytes)) {
                // It will not read any more.
                Some(Incoming::Command(Command::Subscribe { .. }) | Incoming::BadFrame) => {}
                Some(Incoming::Command(command)) => self.command(tag, command),
                _ => return,
            }
        }
    }

    /// Sends `hello` once the end of the log is known.
    pub(super) fn greet_or_open(&mut self, tag: Tag, agent: Tag) {
        let entry = self.agents.get_mut(agent).expect("an agent's entry stays");
        let Some(tip) = entry.tip() else {
            // Also while it is out: that job may have been sent to look, and not to make anything.
            return self.post(agent, Input::Clock);
        };
        let mut hello = Vec::new();
        write_hello(&mut hello, &entry.session, tip.seq);
        if let Some(client) = self.clients.get_mut(tag) {
            client.conn.open(&hello);
            self.begin_heartbeat(tag);
            self.resume(tag);
            self.touch(tag);
        }
    }

    fn begin_heartbeat(&mut self, tag: Tag) {
        self.deadlines.heartbeats.push_back((self.now.add_s(self.options.heartbeat_s), tag));
    }

    /// An HTTP request is answered once the log of its agent was looked up.
    fn look_up(&mut self, tag: Tag, purpose: Purpose) {
        let Some(client) = self.clients.get_mut(tag) else { return };
        client.purpose = purpose;
        let agent = client.agent().expect("a lookup is for an agent");
        let entry = self.agents.get_mut(agent).expect("an agent's entry stays");
        if entry.tip().is_some() {
            return self.answer(tag);
        }
        entry.stay().waiting.push(tag);
        self.post(agent, Input::Clock);
    }

    /// Answers an HTTP request whose agent's log was looked up.
    pub(super) fn answer(&mut self, tag: Tag) {
        let Some(client) = self.clients.get_mut(tag) else { return };
        let Some(agent) = client.agent() else { return };
        let entry = self.agents.get(agent).expect("an agent's entry stays");
        let Some(tip) = entry.tip() else {
            let (status, why) = match entry.unopened() {
                Some(Unopened::Failed { .. }) => {
                    (Status::InternalServerError, "the log cannot be opened")
                }
                _ => (Status::NotFound, "no such session yet: it begins with its first connection"),
            };
            return self.respond(tag, status, why);
        };
        match &client.purpose {
            &Purpose::Snapshot { agent } => self.post(agent, Input::Snapshot { conn: tag }),
            Purpose::Events(history) => {
                let History { from, limit, chunked, .. } = **history;
                let place = Subscription::history(from, limit, tip.seq);
                if place.mode() == Mode::Ended {
                    let mut response = Vec::new();
                    write_answer(&mut response, Status::Ok, JSON_LINES, b"");
                    return self.answer_with(tag, &response);
                }
                client.conn.begin_stream(JSON_LINES, chunked);
                client.stream = Some(Stream::new(place));
                self.begin_heartbeat(tag);
                self.wait_at_gate(tag);
                self.touch(tag);
            }
            Purpose::None | Purpose::Socket { .. } => {}
        }
    }

    /// Answers `GET /agents/{id}`.
    pub(super) fn show(&mut self, tag: Tag, agent: Tag, snapshot: Option<&Snapshot>) {
        let Some(entry) = self.agents.get(agent) else { return };
        let Some(tip) = entry.tip() else { return self.answer(tag) };
        let damage = entry.damage();
        if damage.is_none() && snapshot.is_none() {
            let status = Status::InternalServerError;
            return self.respond(tag, status, "the log cannot be opened");
        }
        let mut roles: BTreeMap<&str, &ModelSpec> =
            self.roles.iter().map(|(role, model)| (&**role, model)).collect();
        let own = entry.stay.as_ref().map(|stay| &stay.roles);
        roles.extend(own.into_iter().flatten().map(|(role, model)| (&**role, model)));
        let main = main_model(own, &self.roles);
        roles.insert(MAIN_ROLE, &main);
        let waits_for = self.waits_for(agent);
        let body = snapshot_json(
            &entry.session,
            tip.seq,
            snapshot,
            waits_for,
            damage,
            &roles,
            entry.client.is_some(),
        );
        let mut response = Vec::new();
        write_answer(&mut response, Status::Ok, JSON, body.as_bytes());
        self.answer_with(tag, &response);
    }

    /// Goes by these tokens from now on: a live connection that presented one of those that are gone
    /// is dropped, as it would be at the door (contract, "Connection").
    pub fn set_tokens(&mut self, tokens: Tokens) {
        self.tokens = tokens;
        let revoked: Vec<Tag> = self
            .clients
            .iter()
            .filter(|(_, client)| {
                client.presented().is_some_and(|(agent, token)| {
                    let entry = self.agents.get(agent);
                    entry.is_some_and(|entry| !self.tokens.of(&entry.session).contains(token))
                })
            })
            .map(|(tag, _)| tag)
            .collect();
        let why = "the token was revoked";
        for tag in revoked {
            self.counters.unauthorized += 1;
            let Some(client) = self.clients.get_mut(tag) else { continue };
            match client.purpose {
                Purpose::Socket { .. } => self.fail(tag, ErrorCode::Unauthorized, why),
                _ if client.stream.is_none() => self.respond(tag, Status::Unauthorized, why),
                _ => {
                    client.conn.abandon_stream();
                    self.ending(tag, why);
                }
            }
        }
    }
}

/// The body of `GET /agents/{id}`, as design/interface lists it.
fn snapshot_json(
    session: &SessionId,
    last_seq: u64,
    snapshot: Option<&Snapshot>,
    waits_for: Option<&str>,
    damage: Option<&str>,
    roles: &BTreeMap<&str, &ModelSpec>,
    connected: bool,
) -> String {
    let mut out =
        format!("{{\"session_id\":\"{session}\",\"last_seq\":{last_seq},\"status\":").into_bytes();
    write_string(&mut out, snapshot.map_or("damaged", |snapshot| snapshot.status.as_str()));
    out.extend_from_slice(b",\"pending_approvals\":[");
    for (index, call) in snapshot.iter().flat_map(|snapshot| &snapshot.pending).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"call_id\":");
        write_string(&mut out, &call.id);
        out.extend_from_slice(b",\"name\":");
        write_string(&mut out, &call.name);
        out.extend_from_slice(b",\"args\":");
        out.extend_from_slice(call.args.as_bytes());
        out.push(b'}');
    }
    out.extend_from_slice(b"],\"roles\":{");
    for (index, (role, model)) in roles.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_string(&mut out, role);
        out.push(b':');
        write_string(&mut out, &model.to_string());
    }
    out.extend_from_slice(b"},\"policy\":[");
    for (index, pattern) in snapshot.iter().flat_map(|snapshot| &snapshot.policy).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_string(&mut out, pattern);
    }
    out.extend_from_slice(format!("],\"connected\":{connected},\"last_error\":").as_bytes());
    match damage.or_else(|| snapshot.and_then(|snapshot| snapshot.last_error.as_deref())) {
        Some(error) => write_string(&mut out, error),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"waits_for_provider\":");
    match waits_for {
        Some(name) => write_string(&mut out, name),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b"}\n");
    String::from_utf8(out).expect("JSON written from text is text")
}
