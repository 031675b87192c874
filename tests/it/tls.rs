//! A provider behind https, against a TLS server in the test's hand. `tls/make.sh` made the certificates.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{HandshakeKind, ServerConfig, ServerConnection, SupportedProtocolVersion};
use serde_json::{Value, json};
use tempfile::TempDir;
use terret_ws::limits::HANDSHAKES_PER_ROUND;

use crate::harness::provider::read_request;
use crate::harness::{Client, Event, PATIENCE, Server, eventually, server};

const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls").join(name)
}

/// A listening provider.
struct Provider {
    listener: TcpListener,
    config: Arc<ServerConfig>,
}

/// The provider's end of one connection.
struct Peer {
    socket: TcpStream,
    tls: ServerConnection,
    /// How many bytes go out at once.
    piece: usize,
}

impl Provider {
    fn new(certificate: &str, versions: &[&'static SupportedProtocolVersion]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let chain = vec![CertificateDer::from_pem_file(file(certificate)).unwrap()];
        let key = PrivateKeyDer::from_pem_file(file("key.pem")).unwrap();
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Self { listener, config: Arc::new(config) }
    }

    /// A server that asks this provider by the name `host` and trusts `authority`.
    fn asked_by_name(&self, host: &str, authority: &str, more: &Value) -> (Server, Client) {
        let server = self.serve(&["s1"], host, authority, more);
        let client = server.subscribed("s1");
        (server, client)
    }

    fn serve(&self, sessions: &[&str], host: &str, authority: &str, more: &Value) -> Server {
        let port = self.listener.local_addr().unwrap().port();
        let base_url = format!("https://{host}:{port}/v1");
        let mut definition = json!({"kind": "openai", "base_url": base_url});
        definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let config = json!({"providers": {"far": definition}, "roles": {"main": "far/m"}});
        let folder = Arc::new(TempDir::new().unwrap());
        let path = folder.path().join("config.json");
        std::fs::write(&path, server::config(sessions, &config).to_string()).unwrap();
        let mut command = server::binary();
        command.args(["serve", "--config", "config.json"]);
        command.env("SSL_CERT_FILE", file(authority)).env_remove("SSL_CERT_DIR");
        Server::launch(command, folder)
    }

    fn asked(&self, more: &Value) -> (Server, Client) {
        self.asked_by_name("127.0.0.1", "authority.pem", more)
    }

    /// The next connection, which must come, before its first byte.
    fn socket(&self) -> TcpStream {
        let accepted = eventually("a connection to the provider", || self.listener.accept().ok());
        let socket = accepted.0;
        socket.set_nonblocking(false).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    /// The next connection after its handshake; what is sent goes out in pieces of `piece` bytes.
    fn accept(&self, piece: usize) -> Peer {
        let mut peer = self.peer(piece);
        peer.shake_hands();
        peer
    }

    /// The next connection before its handshake.
    fn peer(&self, piece: usize) -> Peer {
        let tls = ServerConnection::new(Arc::clone(&self.config)).unwrap();
        Peer { socket: self.socket(), tls, piece }
    }

    fn is_left_alone(&self) -> bool {
        matches!(self.listener.accept(), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}

impl Peer {
    /// Takes what comes and sends what that asks for.
    fn step(&mut self) -> std::io::Result<()> {
        let came = self.tls.read_tls(&mut self.socket)?;
        let processed = self.tls.process_new_packets();
        self.flush();
        processed.map_err(|error| std::io::Error::other(error.to_string()))?;
        if came == 0 { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    fn shake_hands(&mut self) {
        while self.tls.is_handshaking() {
            self.step().unwrap();
        }
    }

    fn flush(&mut self) {
        let mut sealed = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut sealed).unwrap();
        }
        for piece in sealed.chunks(self.piece) {
            // A peer that hung up is the test's to notice.
            let _hung_up = self.socket.write_all(piece);
        }
    }

    fn request(&mut self) -> (String, Value) {
        read_request(self).expect("the server asks its provider")
    }

    /// Each of `records` becomes a record of its own.
    fn write<'r>(&mut self, records: impl IntoIterator<Item = &'r [u8]>) {
        for record in records {
            self.tls.writer().write_all(record).unwrap();
            self.flush();
        }
    }

    /// The last bytes, with `close_notify` right behind them.
    fn finish(mut self, bytes: &[u8]) {
        self.tls.writer().write_all(bytes).unwrap();
        self.tls.send_close_notify();
        self.flush();
    }
}

impl Read for Peer {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.tls.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.step()?,
                done => return done,
            }
        }
    }
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
const DONE: &str = "data: [DONE]\n\n";

fn said(text: &str) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": text}}]}))
}

/// An answer whose end is the end of the connection.
fn answer(text: &str) -> String {
    format!("{HEAD}{}{DONE}", said(text))
}

fn completed(client: &mut Client, text: &str) {
    let events = client.events_until("turn/end");
    assert_eq!(events.last().unwrap().payload, json!({"status": "completed"}));
    let chunks = events.iter().filter(|event| event.kind == "assistant/chunk");
    assert_eq!(chunks.map(Event::text).collect::<String>(), text);
}

fn failed(client: &mut Client) -> String {
    let events = client.events_until("turn/end");
    let end = &events.last().unwrap().payload;
    assert_eq!(end["status"], "failed", "{end}");
    end["reason"].as_str().unwrap().to_owned()
}

#[test]
fn a_provider_is_asked_in_either_version_by_name_and_by_address() {
    for version in VERSIONS {
        let provider = Provider::new("good.pem", &[version]);
        for (host, name) in [("localhost", Some("localhost")), ("127.0.0.1", None)] {
            let (_server, mut client) =
                provider.asked_by_name(host, "authority.pem", &json!({"max_attempts": 1}));
            for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
                client.wake("go");
                let mut peer = provider.accept(usize::MAX);
                assert_eq!(peer.tls.protocol_version(), Some(version.version));
                assert_eq!(peer.tls.server_name(), name);
                assert_eq!(peer.tls.alpn_protocol(), Some(&b"http/1.1"[..]));
                assert_eq!(peer.tls.handshake_kind(), Some(kind));
                let (head, body) = peer.request();
                assert!(head.contains(&format!("Host: {host}:")), "{head}");
                assert_eq!(body["model"], "m");
                peer.finish(answer("Hello.").as_bytes());
                completed(&mut client, "Hello.");
            }
        }
    }
}

#[test]
fn however_records_and_packets_are_cut_the_answer_is_whole() {
    for version in VERSIONS {
        let provider = Provider::new("good.pem", &[version]);
        let (_server, mut client) = provider.asked(&json!({"max_attempts": 1}));
        for (record, piece) in [(1, usize::MAX), (7, 1), (usize::MAX, 1), (usize::MAX, 3)] {
            client.wake("go");
            let mut peer = provider.accept(piece);
            peer.request();
            let answer = answer("Grüße, 漢字");
            peer.write(answer.as_bytes().chunks(record.min(answer.len())));
            peer.finish(b"");
            completed(&mut client, "Grüße, 漢字");
        }
    }
}

#[test]
fn what_is_longer_than_any_buffer_passes_both_ways() {
    let provider = Provider::new("good.pem", &VERSIONS);
    let (_server, mut client) = provider.asked(&json!({"max_attempts": 1}));
    let (long, piece) = ("q".repeat(900_000), "a".repeat(60_000));
    client.wake(&long);
    let mut peer = provider.accept(usize::MAX);
    let (_, body) = peer.request();
    assert_eq!(body["messages"][0]["content"], long);
    peer.write([HEAD.as_bytes()]);
    for _ in 0..50 {
        // More at once than a connection lets wait in TLS.
        peer.write(said(&piece).as_bytes().chunks(32 * 1024));
    }
    peer.finish(DONE.as_bytes());
    completed(&mut client, &piece.repeat(50));
}

#[test]
fn more_handshakes_at_once_than_a_round_moves_on_all_come_to_an_end() {
    let provider = Provider::new("good.pem", &VERSIONS);
    let names: Vec<String> = (0..HANDSHAKES_PER_ROUND * 2).map(|n| format!("s{n}")).collect();
    let sessions: Vec<&str> = names.iter().map(String::as_str).collect();
    let more = json!({"connect_timeout_s": 600});
    let server = provider.serve(&sessions, "localhost", "authority.pem", &more);
    let mut clients: Vec<Client> =
        sessions.iter().map(|session| server.subscribed(session)).collect();
    for client in &mut clients {
        client.wake("go");
    }
    // Each stage is reached by all of them before the next begins.
    let mut peers: Vec<Peer> = clients.iter().map(|_| provider.peer(usize::MAX)).collect();
    for stage in [|peer: &mut Peer| peer.step().unwrap(), Peer::shake_hands] {
        peers.iter_mut().for_each(stage);
    }
    for mut peer in peers {
        peer.request();
        peer.finish(answer("Hello.").as_bytes());
    }
    for client in &mut clients {
        completed(client, "Hello.");
    }
}

#[test]
fn a_certificate_that_is_not_accepted_fails_the_turn_at_once_and_says_why() {
    for (certificate, authority, reason) in [
        ("expired.pem", "authority.pem", "its certificate has expired"),
        ("early.pem", "authority.pem", "not valid yet"),
        ("elsewhere.pem", "authority.pem", "its certificate is for another name"),
        ("good.pem", "stranger.pem", "signed by nobody who is trusted here"),
    ] {
        for version in VERSIONS {
            let provider = Provider::new(certificate, &[version]);
            let (_server, mut client) = provider.asked_by_name("localhost", authority, &json!({}));
            client.wake("go");
            let mut peer = provider.peer(usize::MAX);
            let error = std::iter::repeat_with(|| peer.step()).find_map(Result::err).unwrap();
            assert!(error.to_string().contains("alert"), "the peer is told: {error}");
            let port = provider.listener.local_addr().unwrap().port();
            let said = failed(&mut client);
            let place = format!("no connection to localhost:{port}: ");
            assert!(said.starts_with(&place) && said.contains(reason), "{said}");
            assert!(!said.contains("attempt") && !said.contains('\n'), "{said}");
            assert!(provider.is_left_alone(), "no second attempt");
        }
    }
}

#[test]
fn a_server_that_speaks_no_tls_is_told_from_one_that_is_not_there() {
    let provider = Provider::new("good.pem", &VERSIONS);
    let (_server, mut client) = provider.asked(&json!({"max_attempts": 1}));
    client.wake("go");
    provider.socket().write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    let reason = failed(&mut client);
    assert!(reason.contains("does not answer in TLS"), "{reason}");
    client.wake("go");
    drop(provider.socket());
    let reason = failed(&mut client);
    assert!(reason.contains("no connection to 127.0.0.1"), "{reason}");
}

#[test]
fn a_handshake_that_stalls_counts_as_connecting() {
    let provider = Provider::new("good.pem", &VERSIONS);
    let more = json!({"max_attempts": 1, "connect_timeout_s": 1});
    let (_server, mut client) = provider.asked(&more);
    client.wake("go");
    let mut socket = provider.socket();
    let reason = failed(&mut client);
    assert!(reason.contains("nobody answered within 1 s"), "{reason}");
    let mut hello = Vec::new();
    socket.read_to_end(&mut hello).unwrap();
    assert!(!hello.is_empty(), "it had begun, and is hung up on");
}

#[test]
fn a_handshake_that_stalls_can_be_cancelled() {
    let provider = Provider::new("good.pem", &VERSIONS);
    let (_server, mut client) = provider.asked(&json!({"connect_timeout_s": 600}));
    client.wake("go");
    let mut socket = provider.socket();
    let mut hello = [0; 1];
    socket.read_exact(&mut hello).unwrap();
    client.cancel("enough");
    let events = client.events_until("turn/end");
    let cancelled = json!({"status": "cancelled", "reason": "enough"});
    assert_eq!(events.last().unwrap().payload, cancelled);
    socket.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn an_end_without_close_notify_is_a_cut() {
    for version in VERSIONS {
        let provider = Provider::new("good.pem", &[version]);
        let (_server, mut client) = provider.asked(&json!({"max_attempts": 1}));
        let begun = format!("{HEAD}{}", said("half a sen"));
        for (closed, reason) in [(true, "broke off"), (false, "was cut off")] {
            client.wake("go");
            let mut peer = provider.accept(usize::MAX);
            peer.request();
            if closed {
                peer.finish(begun.as_bytes());
            } else {
                peer.write([begun.as_bytes()]);
                drop(peer);
            }
            let said = failed(&mut client);
            assert!(said.contains(reason), "{said}");
        }
    }
}

#[test]
fn a_server_that_has_nobody_to_trust_does_not_start() {
    let folder = TempDir::new().unwrap();
    let provider = json!({"kind": "openai", "base_url": "https://127.0.0.1/v1"});
    let config = server::config(&["s1"], &json!({"providers": {"far": provider}}));
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let child = server::binary()
        .args(["serve", "--config", "config.json"])
        .current_dir(folder.path())
        .env("SSL_CERT_FILE", "none.pem")
        .env_remove("SSL_CERT_DIR")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let output = server::finish(child);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("providers.far.base_url: no authority to trust was found"), "{said}");
    assert!(said.contains("none.pem") && said.lines().count() == 1, "{said}");
}
