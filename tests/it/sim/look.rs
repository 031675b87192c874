//! What the server says over HTTP, compared with the log it says it of.

use super::client::{Client, Kind};
use super::world::World;
use serde::Deserialize;

/// What an agent may be doing, as far as its log tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// No turn is open.
    Idle,
    /// A turn is open, and a call waits for a verdict.
    Waits,
    /// A turn is open, and no call does.
    Open,
}

/// `GET /agents/{id}`
#[derive(Deserialize)]
struct Said {
    status: String,
    last_seq: u64,
    pending_approvals: Vec<Pending>,
    policy: Vec<String>,
}

#[derive(Deserialize)]
struct Pending {
    call_id: String,
}

impl World {
    /// Somebody asks for an agent's status or for a part of its history.
    pub(super) fn look(&mut self) {
        let session = self.random.below(self.records.len());
        let len = self.records[session].len() as usize;
        let from = self.random.below(len + 3) as u64;
        let limit = self.random.pick(&[0, 1, 7, 10_000]);
        let record = &self.records[session];
        let (id, token) = (record.id.clone(), record.token.expose().to_owned());
        let (kind, path) = if self.random.chance(50) {
            (Kind::Status, format!("/agents/{id}"))
        } else {
            let path = format!("/agents/{id}/events?from_seq={from}&limit={limit}");
            (Kind::History { from, limit }, path)
        };
        if let Some(place) = self.ask(session, kind, &path, &token) {
            self.clients[place].least_history = self.records[session].published;
        }
    }

    fn ask(&mut self, session: usize, kind: Kind, path: &str, token: &str) -> Option<usize> {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n");
        self.open(session, kind, &request)
    }

    /// Once everything has settled: what the server says of an agent agrees with its log.
    pub(super) fn look_at(&mut self, session: usize) {
        let record = &self.records[session];
        let (id, token) = (record.id.clone(), record.token.expose().to_owned());
        let len = record.len();
        let path = format!("/agents/{id}");
        let Some(place) = self.ask(session, Kind::Status, &path, &token) else { return };
        let tag = self.clients[place].tag;
        self.carry_from(place, usize::MAX);
        self.settle();
        if self.life.has_lost_power() || self.life.hub.latched().is_some() {
            return;
        }
        let Some(client) = self.clients.iter().find(|client| client.tag == tag) else { return };
        let status = client.head.split(' ').nth(1).unwrap_or_default();
        let record = &self.records[session];
        if record.len() != len {
            // The agent went on meanwhile.
        } else if status == "200" {
            let said: Said = serde_json::from_slice(client.body()).expect("a status is JSON");
            self.compare_status(session, &said);
        } else {
            let missing = status == "404" && record.len() == 0;
            let refused = status == "503" || self.life.troubled;
            assert!(missing || refused, "{id}: {status} {}", client.head);
        }
        self.lose(tag, "connection lost");
        self.obey();
    }

    /// Once everything has settled, no log is read, and nobody waits for a place at the gate.
    pub(super) fn look_at_metrics(&mut self) {
        let token = self.records[0].token.expose().to_owned();
        let Some(place) = self.ask(0, Kind::Metrics, "/metrics", &token) else { return };
        let tag = self.clients[place].tag;
        self.carry_from(place, usize::MAX);
        if let Some(client) = self.clients.iter().find(|client| client.tag == tag)
            && client.head.starts_with("HTTP/1.1 200 ")
        {
            let page = std::str::from_utf8(client.body()).expect("the page is text");
            for line in ["\nterret_replays_running 0\n", "\nterret_replays_waiting 0\n"] {
                assert!(page.contains(line), "not {line:?}: {page}");
            }
        }
        self.lose(tag, "connection lost");
        self.obey();
    }

    /// What the log says about the agent.
    pub(super) fn expected(&self, session: usize) -> Expected {
        let ledger = &self.records[session].ledger;
        match (ledger.is_open(), ledger.standing().next()) {
            (false, _) => Expected::Idle,
            (true, Some(_)) => Expected::Waits,
            (true, None) => Expected::Open,
        }
    }

    fn compare_status(&self, session: usize, said: &Said) {
        let record = &self.records[session];
        let ledger = &record.ledger;
        assert_eq!(said.last_seq, record.len() - 1, "{}", record.id);
        if self.life.hub.is_storage_full() {
            // What waits for the disk is in no log yet.
            return;
        }
        let status = &*said.status;
        let may: &[&str] = match self.expected(session) {
            Expected::Idle => &["idle"],
            Expected::Waits => &["parked", "running", "interrupted"],
            Expected::Open => &["running", "interrupted"],
        };
        assert!(may.contains(&status), "{}: {status} and not one of {may:?}", record.id);
        let linked = self.life.links.iter().any(|link| self.life.session_of(link.agent) == session);
        assert!(!linked || status == "running", "{}: a model is asked, yet {status}", record.id);
        let pending: Vec<&str> = said.pending_approvals.iter().map(|call| &*call.call_id).collect();
        let standing: Vec<&str> = ledger.standing().map(|call| &*call.id).collect();
        assert_eq!(pending, standing, "{}", record.id);
        assert_eq!(said.policy, *ledger.policy.as_ref().unwrap_or(&self.plan.config.policy));
    }

    /// A connection is over: what it was answered over HTTP was right, as far as it came.
    pub(super) fn check_answer(&self, client: &Client) {
        let Kind::History { from, limit } = client.kind else { return };
        let (begun, coded) = ("HTTP/1.1 200 ", "Transfer-Encoding: chunked");
        if !client.head.starts_with(begun) || !client.head.contains(coded) {
            // An error, or nothing at all in one piece.
            return;
        }
        let record = &self.records[client.session];
        let (body, whole) = unchunk(client.body());
        let mut events = record.events().iter().skip(from as usize);
        let mut count = 0;
        for line in body.split_inclusive(|&byte| byte == b'\n') {
            let Some(line) = line.strip_suffix(b"\n") else { break };
            assert_eq!(
                Some(line),
                events.next().map(Vec::as_slice),
                "{}: not {from}+{count}",
                record.id
            );
            count += 1;
        }
        assert!(count <= limit, "{count} events where {limit} were asked for");
        let all = count == limit || from + count >= client.least_history;
        assert!(!whole || all, "{}: {count} events from {from} is not all", record.id);
    }
}

/// What is in the chunks, and whether the last one is there.
fn unchunk(mut body: &[u8]) -> (Vec<u8>, bool) {
    let mut content = Vec::new();
    while let Some(end) = body.windows(2).position(|two| two == b"\r\n") {
        let digits = std::str::from_utf8(&body[..end]).expect("a chunk begins with its length");
        let len = usize::from_str_radix(digits, 16).expect("a length in hex");
        let Some(chunk) = body.get(end + 2..end + 2 + len) else { break };
        if len == 0 {
            return (content, true);
        }
        content.extend_from_slice(chunk);
        body = body.get(end + 4 + len..).unwrap_or_default();
    }
    (content, false)
}
