//! Who reads what of which log: subscriptions, the gate, and the pieces that come back.

use super::Hub;
use super::client::{Client, Purpose, Stream};
use crate::conn::slab::Tag;
use crate::conn::subscription::{Mode, Subscription, Truncated};
use crate::disk::{Piece, ReadError};
use crate::limits::{PIECE_EVENTS_MAX, RING_LOW_WATER_BYTES};
use crate::proto::event::{ErrorCode, write_replay_truncated};
use crate::proto::http::Status;
use crate::work::advance::Input;
use crate::work::note::{Level, Note};
use crate::work::{Job, Published, Read};

impl Hub {
    /// A client wants the log from `from` on, and then what comes (contract, "subscribe").
    pub(super) fn subscribe(&mut self, tag: Tag, from: u64) {
        let Some(tip) = self.tip_of(tag) else { return };
        let Some(client) = self.clients.get_mut(tag) else { return };
        client.generation = client.generation.wrapping_add(1);
        client.conn.drop_events();
        client.stream = Some(Stream::new(Subscription::tail(from, tip)));
        self.wait_at_gate(tag);
    }

    /// Queues a reader at the gate, if it waits for it and is not in a read already.
    pub(super) fn wait_at_gate(&mut self, tag: Tag) {
        let Some(client) = self.clients.get_mut(tag) else { return };
        let waits = mode(client) == Some(Mode::Waiting);
        if waits && !client.reading && !client.queued {
            client.queued = true;
            self.gate.ask(tag);
            self.run_gate();
        }
    }

    fn run_gate(&mut self) {
        while let Some(tag) = self.gate.enter() {
            if !self.begin_read(tag) {
                self.gate.leave();
            }
        }
    }

    /// Asks for the next piece of what a reader waits for. False when it no longer waits.
    fn begin_read(&mut self, tag: Tag) -> bool {
        let Some(client) = self.clients.get_mut(tag) else { return false };
        client.queued = false;
        if mode(client) != Some(Mode::Waiting) {
            return false;
        }
        let agent = client.agent().expect("who reads a log belongs to an agent");
        let entry = self.agents.get_mut(agent).expect("an agent's entry stays");
        let tip = entry.tip().expect("who reads a log has seen its tip");
        let stream = client.stream.as_mut().expect("a mode is a stream's");
        if let Some(moved) = stream.place.begin_read(tip.seq, self.options.replay_limit) {
            stream.moved(moved);
        }
        client.reading = true;
        let frames = matches!(client.purpose, Purpose::Socket { .. })
            .then(|| self.spaces.pop().unwrap_or_default());
        let from = stream.place.next();
        let events_max = u32::try_from(stream.place.wanted())
            .map_or(PIECE_EVENTS_MAX, |wanted| wanted.min(PIECE_EVENTS_MAX));
        let replay = stream.replay();
        replay.asked_tip = tip.seq;
        let read = Box::new(Read {
            conn: tag,
            generation: client.generation,
            session: entry.session.clone(),
            from,
            frames,
            cursor: replay.cursor,
            tip,
            events_max,
        });
        if replay.chases && entry.is_busy() {
            self.post(agent, Input::Read(read));
        } else {
            self.orders.jobs.push(Job::Read(read));
        }
        self.touch(tag);
        true
    }

    /// A piece that was being read for `tag` will not come.
    pub(super) fn unread(&mut self, tag: Tag) {
        self.gate.leave();
        if let Some(client) = self.clients.get_mut(tag) {
            client.reading = false;
            let why = "the server hit an unexpected error reading the log";
            self.lose_stream(tag, Level::Error, why);
        }
        self.run_gate();
    }

    /// A piece has come: it goes to its reader, unless that has subscribed anew since.
    pub(super) fn piece(&mut self, tag: Tag, generation: u32, outcome: Result<Piece, ReadError>) {
        self.gate.leave();
        if let Some(client) = self.clients.get_mut(tag) {
            client.reading = false;
            if client.generation == generation && mode(client) == Some(Mode::Reading) {
                let begun = client.stream.as_ref().is_some_and(Stream::has_begun);
                match outcome {
                    Ok(piece) => self.take_piece(tag, piece),
                    Err(ReadError::Removed { first }) if !begun => self.skip(tag, first),
                    Err(error) => {
                        // Being overtaken is nobody's fault.
                        let is_removed = matches!(error, ReadError::Removed { .. });
                        let level = if is_removed { Level::Info } else { Level::Error };
                        self.lose_stream(tag, level, &error.to_string());
                    }
                }
            } else {
                self.wait_at_gate(tag);
            }
        }
        self.run_gate();
    }

    /// What a reader asked for has been removed for its age: it begins with what is left, and is told.
    /// One that has begun is not moved, for it would have a gap.
    fn skip(&mut self, tag: Tag, first: u64) {
        let Some(tip) = self.tip_of(tag) else { return };
        let Some(client) = self.clients.get_mut(tag) else { return };
        let Some(stream) = &mut client.stream else { return };
        let moved = stream.place.skip_to(first, tip);
        stream.moved(moved);
        match stream.place.mode() {
            Mode::Live => self.tell_truncated(tag),
            Mode::Ended => {
                client.conn.stream(&[], true);
                client.answered = true;
                self.ending(tag, "answered");
            }
            Mode::Waiting | Mode::Reading | Mode::Draining => self.wait_at_gate(tag),
        }
        self.touch(tag);
    }

    /// Tells a reader that its stream does not begin where it asked, if that is so. Over HTTP its first
    /// event says it.
    fn tell_truncated(&mut self, tag: Tag) {
        let Some(client) = self.clients.get_mut(tag) else { return };
        let truncated = client.stream.as_mut().and_then(Stream::take_truncated);
        if let (Some(Truncated { requested, from }), Purpose::Socket { .. }) =
            (truncated, &client.purpose)
        {
            let mut frame = Vec::new();
            write_replay_truncated(&mut frame, requested, from);
            client.conn.in_order(&frame);
        }
    }

    fn take_piece(&mut self, tag: Tag, piece: Piece) {
        let tip = self.tip_of(tag);
        self.tell_truncated(tag);
        let Some(client) = self.clients.get_mut(tag) else { return };
        let (Some(tip), Some(stream)) = (tip, client.stream.as_mut()) else { return };
        assert!(
            piece.count > 0 && piece.first == stream.place.next(),
            "a piece begins where asked"
        );
        let replay = stream.replay();
        replay.cursor = Some(piece.next);
        replay.chases = piece.first + u64::from(piece.count) > replay.asked_tip;
        let place = stream.place.end_read(u64::from(piece.count), tip, self.options.replay_limit);
        let mode = stream.place.mode();
        if mode == Mode::Live {
            stream.end_replay();
        }
        if let Purpose::Events(_) = client.purpose {
            client.conn.stream(&piece.lines, mode == Mode::Ended);
            client.answered = mode == Mode::Ended;
        } else {
            client.conn.frames(piece.lines);
        }
        if mode == Mode::Ended {
            self.ending(tag, "answered");
        } else if place.is_err() {
            self.lag(tag);
        } else {
            self.drained(tag);
        }
        self.touch(tag);
    }

    /// A reader's ring has become emptier: below the mark, it reads on.
    pub(super) fn drained(&mut self, tag: Tag) {
        let Some(client) = self.clients.get_mut(tag) else { return };
        if client.conn.event_bytes() < RING_LOW_WATER_BYTES
            && let Some(stream) = &mut client.stream
            && stream.place.mode() == Mode::Draining
        {
            stream.place.wait();
            self.wait_at_gate(tag);
        }
    }

    /// Events are in the log: from here on they exist for everybody.
    pub(super) fn publish(&mut self, published: &Published) {
        let Published { agent, lines, first, count, tip, .. } = published;
        let Some(entry) = self.agents.get_mut(*agent) else { return };
        entry.set_tip(*tip);
        let Some(tag) = entry.client else { return };
        let Some(client) = self.clients.get_mut(tag) else { return };
        let Some(stream) = &mut client.stream else { return };
        let skip = stream.place.publish(*first, *count);
        if skip < *count {
            client.conn.events(lines, skip);
            self.touch(tag);
        }
    }

    pub(super) fn lag(&mut self, tag: Tag) {
        self.counters.lagged += 1;
        let message = "the client reads too slowly; resubscribe from the last seq it has";
        self.fail(tag, ErrorCode::Lagged, message);
    }

    /// A reader cannot be given what it wants.
    fn lose_stream(&mut self, tag: Tag, level: Level, why: &str) {
        let Some(client) = self.clients.get_mut(tag) else { return };
        if let Some(agent) = client.agent()
            && let Some(entry) = self.agents.get(agent)
        {
            let note = Note::new(level, "log cannot be read").about(&entry.session);
            self.orders.notes.push(note.with("cause", why));
        }
        if let Purpose::Events(_) = client.purpose {
            client.conn.abandon_stream();
            self.ending(tag, "log cannot be read");
        } else {
            self.fail(tag, ErrorCode::Internal, why);
        }
    }

    /// What an agent's log holds is not known any more: nobody who reads it over HTTP can go on, and
    /// nobody who was to be answered will be.
    pub(super) fn lose_readers(&mut self, agent: Tag) {
        let reads = |client: &Client| {
            client.agent() == Some(agent) && !matches!(client.purpose, Purpose::Socket { .. })
        };
        let tags: Vec<Tag> =
            self.clients.iter().filter(|(_, client)| reads(client)).map(|(tag, _)| tag).collect();
        let why = "the server hit an unexpected error serving this agent";
        for tag in tags {
            if self.clients.get(tag).is_some_and(|client| client.stream.is_some()) {
                self.lose_stream(tag, Level::Error, why);
            } else {
                self.respond(tag, Status::InternalServerError, why);
            }
        }
    }

    /// The last seq the log of a connection's agent has for readers.
    pub(super) fn tip_of(&self, tag: Tag) -> Option<u64> {
        let agent = self.clients.get(tag)?.agent()?;
        self.agents.get(agent)?.tip().map(|tip| tip.seq)
    }
}

fn mode(client: &Client) -> Option<Mode> {
    client.stream.as_ref().map(|stream| stream.place.mode())
}
