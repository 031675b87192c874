//! What clients do: connect, say what is right and what is not, listen slowly or not at all, and go.

use super::client::{Client, Kind};
use super::provider::MODELS;
use super::record::Record;
use super::texts::Fate;
use super::world::World;
use terret_ws::proto::command::Command;
use terret_ws::proto::ident::ModelSpec;
use terret_ws::proto::ws::CloseCode;

/// Messages that are no client frames. Each is answered with one `bad_frame`.
const GARBAGE: [&[u8]; 9] = [
    b"",
    b"null",
    b"[1]",
    b"{\"type\":\"subscribe\"}",
    b"{\"type\":\"subscribe\",\"from_seq\":-1}",
    b"{\"type\":\"subscribe\",\"from_seq\":1.0}",
    b"{\"type\":\"inject\",\"text\":\"\\ud800\"}",
    b"{\"type\":\"set_model\",\"role\":\"main\",\"model\":\"nobody/m\"}",
    b"{\"type\":\"set_policy\",\"patterns\":[1]}",
];

impl World {
    /// Somebody connects to an agent, and takes it over if somebody else had it.
    pub(super) fn dial(&mut self) {
        let session = self.random.below(self.records.len());
        // Most of the time there is somebody already, and most of the time they are left in peace.
        let taken = |client: &Client| client.session == session && client.kind == Kind::Socket;
        if self.clients.iter().any(taken) && !self.random.chance(25) {
            return;
        }
        let authorized = !self.random.chance(4);
        let Some(place) = self.connect(session, authorized) else { return };
        let random = &mut self.random;
        let client = &mut self.clients[place];
        client.mute = random.chance(5);
        if random.chance(self.plan.slow_percent) {
            client.room = random.below(600);
            client.was_slow = true;
        }
        let from = self.some_seq(session, place);
        if self.random.chance(70) {
            self.tell(place, &Command::Subscribe { from_seq: from });
        }
    }

    /// A connection for the socket of an agent; nothing if the server drops it at once.
    pub(super) fn connect(&mut self, session: usize, authorized: bool) -> Option<usize> {
        let Record { id, token, .. } = &self.records[session];
        let token = if authorized { token.expose() } else { "nonsense" };
        let request = format!(
            "GET /agents/{id}/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        let seen = self.records[session].seen_upto();
        let place = self.open(session, Kind::Socket, &request)?;
        self.clients[place].seen_before = seen;
        if !authorized {
            self.clients[place].may_end.insert("unauthorized");
        }
        for other in &mut self.clients {
            if other.session == session && other.kind == Kind::Socket {
                other.may_end.insert("superseded");
            }
        }
        Some(place)
    }

    pub(super) fn open(&mut self, session: usize, kind: Kind, request: &str) -> Option<usize> {
        let tag = self.life.hub.accept()?;
        self.next_client += 1;
        let number = self.next_client;
        self.trace.say(|| format!("client {number} of s{session} connects: {kind:?}"));
        self.clients.push(Client::new(number, tag, session, kind, request));
        self.obey();
        self.clients.iter().position(|client| client.number == number)
    }

    /// A client says something.
    pub(super) fn say(&mut self) {
        let talking: Vec<usize> =
            (0..self.clients.len()).filter(|&place| self.clients[place].talks()).collect();
        if talking.is_empty() {
            return;
        }
        let place = self.random.pick(&talking);
        let session = self.clients[place].session;
        // A policy is an event of its own, whatever else the agent is doing: the disk may refuse it
        // while a tool runs.
        let policy = if self.plan.tight { 15 + 45 * u32::from(self.life.tool_runs()) } else { 0 };
        let policy = self.random.chance(policy);
        match if policy { 84 } else { self.random.below(100) } {
            0..30 => self.inject(place, true),
            30..44 => self.inject(place, false),
            44..62 => {
                let from_seq = self.some_seq(session, place);
                self.tell(place, &Command::Subscribe { from_seq });
            }
            62..70 => {
                let reason = self.some_reason();
                self.tell(place, &Command::Cancel { reason });
            }
            70..78 => {
                let call_id = self.some_call(session);
                self.tell(place, &Command::Approve { call_id });
            }
            78..84 => {
                let (call_id, reason) = (self.some_call(session), self.some_reason());
                self.tell(place, &Command::Deny { call_id, reason });
            }
            84..90 => {
                let choices: [&[&str]; 5] = [&["*"], &["*"], &["read_*"], &["s*", "?h*"], &[]];
                let patterns = self.random.pick(&choices);
                let patterns = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
                self.tell(place, &Command::SetPolicy { patterns });
            }
            90..95 => {
                let role = self.random.pick(&["main", "main", "titler"]).to_owned();
                let model = ModelSpec::parse(self.random.pick(&MODELS)).unwrap();
                self.tell(place, &Command::SetModel { role, model });
            }
            _ => self.talk_nonsense(place),
        }
    }

    fn talk_nonsense(&mut self, place: usize) {
        let number = self.clients[place].number;
        self.trace.say(|| format!("client {number} talks nonsense"));
        let choice = self.random.below(GARBAGE.len() + 4);
        let client = &mut self.clients[place];
        if let Some(garbage) = GARBAGE.get(choice) {
            client.say(&[garbage]);
        } else if choice == GARBAGE.len() {
            client.say_binary(b"\x00\xff");
        } else if choice == GARBAGE.len() + 1 {
            client.say(&[b"\"\xff\""]);
            client.breaks_rules(CloseCode::INVALID_PAYLOAD.as_u16());
        } else {
            let frames = ["{\"x\":".repeat(129), "1".to_owned(), "}".repeat(129)];
            client.say(&[frames[0].as_bytes(), frames[1].as_bytes(), frames[2].as_bytes()]);
        }
        client.expect_error("bad_frame");
    }

    /// A text that nobody has sent before.
    pub(super) fn inject(&mut self, place: usize, wake: bool) {
        let text = self.new_text();
        let client = &mut self.clients[place];
        self.records[client.session].texts.sent(text.clone(), wake, Fate::Sent);
        self.tell(place, &Command::Inject { text: text.clone(), wake });
        let client = &mut self.clients[place];
        client.unposted.push((client.sent(), text));
    }

    pub(super) fn new_text(&mut self) -> String {
        self.next_text += 1;
        let bytes = self.plan.text_bytes(&mut self.random);
        format!("<{}>{}", self.next_text, self.random.text(bytes))
    }

    /// Sends a frame, whole or in fragments.
    pub(super) fn tell(&mut self, place: usize, command: &Command) {
        let mut json = Vec::new();
        command.write(&mut json);
        let client = &mut self.clients[place];
        let number = client.number;
        self.trace.say(|| {
            let said: String = String::from_utf8_lossy(&json).chars().take(90).collect();
            format!("client {number} says {said}")
        });
        if self.random.chance(10) {
            let (first, second) = json.split_at(self.random.below(json.len()));
            client.say(&[first, b"", second]);
        } else {
            client.say(&[&json]);
        }
        if let Command::Subscribe { from_seq } = command {
            let sent = client.sent();
            client.stream.subscribe(*from_seq, sent);
        }
    }

    fn some_seq(&mut self, session: usize, place: usize) -> u64 {
        let len = self.records[session].len();
        let after = self.clients[place].have.map_or(0, |have| have + 1);
        let random = &mut self.random;
        match random.below(10) {
            0..3 => 0,
            3..6 => after,
            6 | 7 => random.below(len as usize + 1) as u64,
            8 => len + random.below(3) as u64,
            _ => random.pick(&[len + 100, 1 << 63, u64::MAX]),
        }
    }

    fn some_reason(&mut self) -> Option<String> {
        self.random.chance(50).then(|| self.random.text(5))
    }

    /// The id of a call that waits for a verdict, if one does and chance wants it.
    fn some_call(&mut self, session: usize) -> String {
        let standing: Vec<String> =
            self.records[session].ledger.standing().map(|call| call.id.clone()).collect();
        if !standing.is_empty() && self.random.chance(80) {
            return standing[self.random.below(standing.len())].clone();
        }
        self.random.pick(&["0", "1", "call-1", ""]).to_owned()
    }

    /// Bytes of some client reach the server.
    pub(super) fn carry(&mut self) {
        let waiting: Vec<usize> = (0..self.clients.len())
            .filter(|&place| !self.clients[place].outgoing.is_empty())
            .collect();
        if waiting.is_empty() {
            return;
        }
        let place = self.random.pick(&waiting);
        let most = self.random.pick(&[1, 10, 200, usize::MAX, usize::MAX]);
        self.carry_from(place, most);
    }

    pub(super) fn carry_from(&mut self, place: usize, most: usize) {
        let client = &mut self.clients[place];
        let tag = client.tag;
        if !self.life.hub.wants_read(tag) {
            return;
        }
        let len = client.outgoing.len().min(most);
        let mut bytes: Vec<u8> = client.outgoing.drain(..len).collect();
        let was_ending = self.life.hub.is_ending(tag);
        self.life.hub.read(tag, &mut bytes);
        client.passed += len as u64;
        if was_ending {
            // What it says now is discarded.
            client.unposted.clear();
        }
        let all = self.life.hub.wants_read(tag);
        let published = self.records[client.session].published;
        client.stream.passed(client.passed, all, client.taken, published.saturating_sub(1));
        self.note_posted();
        self.obey();
        self.write(tag);
        self.finish(tag);
    }

    /// Takes note of what servers have certainly looked at.
    pub(super) fn note_posted(&mut self) {
        for client in &mut self.clients {
            if !self.life.hub.wants_read(client.tag) {
                continue;
            }
            let ending = self.life.hub.is_ending(client.tag);
            let published = self.records[client.session].published.saturating_sub(1);
            client.stream.passed(client.passed, true, client.taken, published);
            let passed = client.passed;
            let looked_at = client.unposted.iter().take_while(|(end, _)| *end <= passed).count();
            for (_, text) in client.unposted.drain(..looked_at) {
                let texts = &mut self.records[client.session].texts;
                if !ending && texts.fate(&text) == Some(Fate::Sent) {
                    texts.settle(&text, Fate::Posted);
                }
            }
        }
    }

    /// A slow client takes some bytes, or is slow no more; another becomes slow.
    pub(super) fn take(&mut self) {
        if self.clients.is_empty() {
            return;
        }
        let place = self.random.below(self.clients.len());
        let choice = self.random.below(4);
        let client = &mut self.clients[place];
        let tag = client.tag;
        match choice {
            0 if client.room == usize::MAX && client.kind == Kind::Socket => {
                client.room = self.random.below(300);
                client.was_slow = true;
            }
            1 => client.room = usize::MAX,
            _ if client.room != usize::MAX => client.room += self.random.below(2000),
            _ => {}
        }
        self.write(tag);
        self.obey();
        self.finish(tag);
    }

    /// A client goes: politely, silently, or by accident. One that the server has sent away goes too.
    pub(super) fn leave(&mut self) {
        if self.clients.is_empty() {
            return;
        }
        let place = self.random.below(self.clients.len());
        let client = &mut self.clients[place];
        let (number, tag) = (client.number, client.tag);
        let choice = self.random.below(3);
        match choice {
            0 if client.talks() => client.say_goodbye(),
            1 => {
                client.hung_up = true;
                client.room = usize::MAX;
            }
            _ => {
                self.trace.say(|| format!("client {number} is lost"));
                self.lose(tag, "connection lost");
                return self.obey();
            }
        }
        self.trace.say(|| format!("client {number} leaves"));
        self.write(tag);
        self.obey();
        self.finish(tag);
    }
}
