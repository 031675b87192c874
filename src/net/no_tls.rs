//! What stands in for `tls` in a build without that feature: there is nobody to trust, and so never an
//! encrypted connection.

use super::stream::Broken;
use std::io::{self, Write};

/// Whom provider connections trust: nobody.
#[derive(Default)]
pub struct Trust(Option<Session>);

/// There is none.
pub(super) enum Session {}

const NO_TLS: &str = "this build has no TLS: build with `--features tls`";

impl Trust {
    /// Always the error that there is no TLS.
    pub fn of_system() -> Result<(Self, Option<String>), String> {
        Err(NO_TLS.to_owned())
    }

    pub(super) fn session(&self, _host: &str) -> Result<Session, Broken> {
        match &self.0 {
            Some(session) => match *session {},
            None => Err(Broken::Untrusted(NO_TLS.to_owned())),
        }
    }
}

impl Session {
    pub(super) fn is_established(&self) -> bool {
        match *self {}
    }

    pub(super) fn is_ended(&self) -> bool {
        match *self {}
    }

    pub(super) fn seal(&mut self, _plain: &[u8]) -> usize {
        match *self {}
    }

    pub(super) fn has_output(&self) -> bool {
        match *self {}
    }

    pub(super) fn write_to(&mut self, _socket: &mut impl Write) -> io::Result<()> {
        match *self {}
    }

    pub(super) fn open(&mut self, _sealed: &[u8], _plain: &mut Vec<u8>) -> Result<(), Broken> {
        match *self {}
    }

    pub(super) fn cut_off(&self) -> Broken {
        match *self {}
    }
}
