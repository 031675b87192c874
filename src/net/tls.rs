//! TLS for provider connections (RFC 8446 and 5246), by rustls: whom to trust, and one connection's
//! bytes sealed and opened.
//!
//! Knows no socket's readiness. The store of trusted authorities is read once, before the reactor
//! runs. Invariant: no byte of a request is sealed before the peer has proved to be the host that was
//! configured.

use super::stream::Broken;
use rustls::client::ClientConnection;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, Error, InvalidMessage, RootCertStore};
use std::io::{Read, Write};
use std::sync::Arc;

/// Whom provider connections trust: by default nobody.
#[derive(Default)]
pub struct Trust(Option<Arc<ClientConfig>>);

impl Trust {
    /// The authorities that this machine trusts: those in the file `SSL_CERT_FILE` and the directories
    /// `SSL_CERT_DIR` if either is set, the system's otherwise. With them what could not be read, if
    /// there are any authorities beside it.
    pub fn of_system() -> Result<(Self, Option<String>), String> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        let unread = found.errors.first().map(ToString::to_string);
        if roots.is_empty() {
            let cause = unread.map(|unread| format!(" ({unread})")).unwrap_or_default();
            return Err(format!(
                "no authority to trust was found{cause}: install the system's CA certificates, or \
                 name a PEM file in SSL_CERT_FILE"
            ));
        }
        Ok((Self(Some(client(roots))), unread))
    }

    /// The beginning of a connection to `host`, a name or an address.
    pub(super) fn session(&self, host: &str) -> Result<Session, Broken> {
        let untrusted = |why: &str| Broken::Untrusted(why.to_owned());
        let config = self.0.as_ref().ok_or_else(|| untrusted("nobody is trusted"))?;
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| untrusted("no certificate can be for this name"))?;
        let connection = ClientConnection::new(Arc::clone(config), name).map_err(broken)?;
        Ok(Session { connection, ended: false })
    }
}

fn client(roots: RootCertStore) -> Arc<ClientConfig> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has cipher suites for both versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

/// The TLS side of one connection.
pub(super) struct Session {
    connection: ClientConnection,
    /// The peer said that nothing follows (`close_notify`).
    ended: bool,
}

impl Session {
    pub(super) fn is_established(&self) -> bool {
        !self.connection.is_handshaking()
    }

    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Encrypts the beginning of `plain` for [`Session::write_to`], at most what may wait (64 KiB), and
    /// says how much that was.
    pub(super) fn seal(&mut self, plain: &[u8]) -> usize {
        if !self.is_established() {
            return 0;
        }
        // It writes into memory; what fails is a connection that has failed before.
        self.connection.writer().write(plain).unwrap_or(0)
    }

    pub(super) fn has_output(&self) -> bool {
        self.connection.wants_write()
    }

    /// Writes what waits, once.
    pub(super) fn write_to(&mut self, socket: &mut impl Write) -> std::io::Result<()> {
        self.connection.write_tls(socket).map(drop)
    }

    /// Decrypts what came, cut anywhere, and appends it to `plain`, also what came before a failure.
    pub(super) fn open(&mut self, mut sealed: &[u8], plain: &mut Vec<u8>) -> Result<(), Broken> {
        while !sealed.is_empty() && !self.ended {
            let taken = self.connection.read_tls(&mut sealed);
            // A handshake that fits no bound.
            taken.map_err(|error| Broken::Lost(format!("TLS: {error}")))?;
            let processed = self.connection.process_new_packets();
            // It ends where nothing is left for now, which is no error, or where nothing follows.
            self.ended = self.connection.reader().read_to_end(plain).is_ok();
            processed.map_err(broken)?;
        }
        Ok(())
    }

    /// What it means that the socket ended without `close_notify`: somebody on the way may have cut
    /// off the rest (RFC 8446, section 6.1).
    pub(super) fn cut_off(&self) -> Broken {
        let place =
            if self.is_established() { "before its close_notify" } else { "in the TLS handshake" };
        Broken::Lost(format!("the connection was closed {place}"))
    }
}

fn broken(error: Error) -> Broken {
    let certificate = match error {
        Error::InvalidCertificate(error) => error,
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            return Broken::Lost("it does not answer in TLS: is its base_url http?".to_owned());
        }
        error => return Broken::Lost(format!("TLS: {error}")),
    };
    Broken::Untrusted(match certificate {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet: is this machine's clock right?".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name".to_owned()
        }
        CertificateError::UnknownIssuer => {
            "its certificate is signed by nobody who is trusted here; a private authority is named in \
             SSL_CERT_FILE"
                .to_owned()
        }
        error => format!("its certificate is not accepted: {error}"),
    })
}
