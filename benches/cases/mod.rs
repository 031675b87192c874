//! What the server's work consists of, a case for each cost centre, on inputs that never change.
//!
//! It is told once and measured twice: `costs` takes the time with criterion, `counts` counts the
//! instructions. Neither a clock nor chance nor the environment decides what a case does, and the
//! whole result of each is checked outside of what is measured.

mod agent;
mod conn;
mod log;
mod model;
mod proto;
mod session;
mod ws;

/// What one run of a case gets through.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Bytes(usize),
    Events(usize),
}

/// Whoever measures.
pub(crate) trait Meter {
    /// A case whose every run may begin with what the one before left. `check` sees what a run left
    /// and what it returned.
    fn again<S, O>(
        &mut self,
        name: &str,
        work: Work,
        state: S,
        run: impl FnMut(&mut S) -> O,
        check: impl Fn(&S, &O),
    );

    /// A case whose every run uses up an input of its own.
    fn fresh<S, O>(
        &mut self,
        name: &str,
        work: Work,
        input: impl FnMut() -> S,
        run: impl FnMut(&mut S) -> O,
        check: impl Fn(&S, &O),
    );
}

/// Has every case measured.
pub(crate) fn all(meter: &mut impl Meter) {
    proto::handshake(meter);
    proto::client_frame(meter);
    proto::json(meter);
    proto::envelope(meter);
    proto::sse(meter);
    proto::chunked(meter);
    ws::unmask(meter);
    ws::utf8(meter);
    ws::decode(meter);
    ws::worst(meter);
    ws::encode(meter);
    log::checksum(meter);
    log::seal(meter);
    log::projection(meter);
    log::scan(meter);
    log::seek(meter);
    log::append(meter);
    log::read(meter);
    conn::ring(meter);
    agent::turns(meter);
    agent::projection(meter);
    agent::history(meter);
    agent::patterns(meter);
    model::decode(meter);
    model::encode(meter);
}

/// How much a read of the reactor returns.
const READ_BYTES: usize = terret_ws::limits::ROUND_BYTES;

/// What one packet of a network holds.
const PACKET_BYTES: usize = 1448;
