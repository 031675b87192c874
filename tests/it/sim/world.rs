//! The world around one server: its clients, the model servers it asks, its disk and time. Chance
//! says what happens next, and after everything that happens all that was promised is checked.

use super::client::{Around, Client};
use super::life::Life;
use super::office::Office;
use super::plan::{Act, Plan};
use super::programs::programs;
use super::provider::{Brain, providers};
use super::random::Random;
use super::record::Record;
use super::tools::tools;
use super::trace::Trace;
use std::cell::Cell;
use std::io::IoSlice;
use std::sync::Arc;
use tempfile::TempDir;
use terret_ws::config::Tokens;
use terret_ws::conn::ring::SLICES_MAX;
use terret_ws::conn::slab::Tag;
use terret_ws::disk::sim::SimDisk;
use terret_ws::limits::{
    BATCH_BYTES_MAX, PIECE_BYTES_MAX, PROTOCOL_BYTES_MAX, RING_LOW_WATER_BYTES,
    TEXT_PIECE_BYTES_MAX,
};
use terret_ws::proto::time::Wall;
use terret_ws::work::settings::Settings;
use terret_ws::work::{Job, Upstream};

thread_local! {
    static WALL: Cell<i64> = const { Cell::new(0) };
}

/// The time that people read, which may step back.
pub(super) fn wall() -> Wall {
    Wall(WALL.get())
}

/// See the module's documentation.
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) random: Random,
    pub(super) trace: Trace,
    pub(super) brain: Brain,
    pub(super) office: Office,
    /// Where programs are recorded, which are real.
    pub(super) running: TempDir,
    pub(super) settings: Arc<Settings>,
    pub(super) life: Life,
    pub(super) records: Vec<Record>,
    pub(super) clients: Vec<Client>,
    pub(super) next_client: u32,
    /// How many texts were sent; each is different.
    pub(super) next_text: u32,
    /// Nothing goes wrong any more.
    pub(super) calm: bool,
}

impl World {
    pub(super) fn new(seed: u64, trace: Trace) -> Self {
        let mut random = Random::new(seed);
        let mut plan = Plan::new(&mut random);
        plan.config.tools = programs(&plan, &mut random);
        WALL.set(1_700_000_000_000_000);
        let brain = Brain::new(&plan, &mut random);
        let own = providers(&plan, &mut random, &brain);
        let office = Office::new(&plan, &mut random);
        let tools = tools(&plan, &mut random, &office);
        let settings = Settings::new(&plan.config, own, tools).expect("no headers");
        let settings = Arc::new(settings.with_hooks(Arc::new(office.clone())));
        let running = tempfile::tempdir().unwrap();
        let records: Vec<Record> = (0..plan.sessions).map(Record::new).collect();
        let disk = SimDisk::new(random.next());
        let life =
            Life::begin(disk, &plan, &settings, tokens(&records), running.path(), &mut random);
        let (clients, next_client, next_text, calm) = (Vec::new(), 0, 0, false);
        Self {
            plan,
            random,
            trace,
            brain,
            office,
            running,
            settings,
            life,
            records,
            clients,
            next_client,
            next_text,
            calm,
        }
    }

    /// Lets so many things happen, then lets everything come to rest.
    pub(super) fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            self.trace.step();
            let act = self.plan.next(&mut self.random);
            self.act(act);
            self.check();
        }
        self.come_to_rest();
    }

    /// One thing happens.
    pub(super) fn act(&mut self, act: Act) {
        match act {
            Act::Run => self.run_some_job(),
            Act::Hear => self.hear_something(),
            Act::Carry => self.carry(),
            Act::Take => self.take(),
            Act::Dial => self.dial(),
            Act::Say => self.say(),
            Act::Leave => self.leave(),
            Act::Serve => self.serve(),
            Act::Wait => self.wait(),
            Act::Look => self.look(),
            Act::Operate => self.operate(),
            Act::Hurt => self.hurt(),
            Act::Die => self.die_somehow(),
            Act::Settle => self.settle_and_look(),
        }
        if self.life.has_lost_power() {
            self.die_of_power_loss();
        } else if self.life.hub.latched().is_some() && self.random.chance(20) {
            self.trace.say(|| "the process ends, its disk having failed".to_owned());
            let cut = self.random.chance(50);
            self.die(cut);
        }
    }

    /// Time does not stand still for people either, but it may step back.
    pub(super) fn move_wall(&mut self, ms: u64) {
        let back = self.random.chance(5);
        let us = ms.min(100_000).cast_signed() * 1000;
        WALL.set(WALL.get() + if back { -3_600_000_000 } else { us });
    }

    /// Does what the hub orders, as the reactor would.
    pub(super) fn obey(&mut self) {
        loop {
            self.note_posted();
            let orders = self.life.hub.orders();
            self.life.take_jobs(orders.jobs);
            for order in orders.tools {
                self.life.programs.obey(order);
            }
            for tag in orders.scrapes {
                self.life.hub.scrape(tag, self.life.jobs.len());
            }
            for note in orders.notes {
                assert_ne!(note.event, "log is damaged", "{note:?}");
            }
            for (agent, command) in orders.upstream {
                let connect = matches!(command, Upstream::Connect { .. });
                self.life.relink(agent, connect, &mut self.random);
            }
            if orders.touched.is_empty() {
                return;
            }
            for tag in orders.touched {
                self.write(tag);
                self.finish(tag);
            }
        }
    }

    /// Gives a client what it has room for.
    pub(super) fn write(&mut self, tag: Tag) {
        let Some(client) = self.clients.iter_mut().find(|client| client.tag == tag) else { return };
        let record = &mut self.records[client.session];
        let replay_limit = self.plan.config.replay_limit;
        let mut around = Around { record, replay_limit, troubled: self.life.troubled };
        loop {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = self.life.hub.slices(tag, &mut slices);
            if count == 0 {
                return;
            }
            let shown = slices[..count].iter().flat_map(|slice| slice.iter().copied());
            let taken: Vec<u8> = shown.take(client.room).collect();
            if taken.is_empty() {
                return self.life.hub.blocked(tag);
            }
            if client.room != usize::MAX {
                client.room -= taken.len();
            }
            client.take(&taken, &mut around);
            self.life.hub.wrote(tag, taken.len());
            if self.life.hub.wants_read(tag) {
                let tip = around.record.published.saturating_sub(1);
                client.stream.passed(client.passed, true, client.taken, tip);
            }
        }
    }

    /// Ends a socket that has nothing left to do.
    pub(super) fn finish(&mut self, tag: Tag) {
        let hub = &self.life.hub;
        let (ending, output) = (hub.is_ending(tag), hub.has_output(tag));
        let answers = hub.answers_after_eof(tag);
        let Some(client) = self.clients.iter_mut().find(|client| client.tag == tag) else { return };
        if client.hung_up && client.outgoing.is_empty() && !output && (ending || !answers) {
            return self.lose(tag, "closed by the peer");
        }
        client.shut |= ending && !output;
    }

    /// A connection is over.
    pub(super) fn lose(&mut self, tag: Tag, cause: &'static str) {
        self.life.hub.gone(tag, cause);
        if let Some(place) = self.clients.iter().position(|client| client.tag == tag) {
            let client = self.clients.swap_remove(place);
            client.errors().for_each(|code| self.trace.reach(code));
            self.check_answer(&client);
        }
    }

    /// What must hold after everything.
    pub(super) fn check(&mut self) {
        self.note_posted();
        let reads = self.life.jobs.iter().map(reads_of).sum::<usize>() + self.life.pieces_unheard();
        let limit = self.plan.config.max_concurrent_replays;
        assert!(reads <= limit, "{reads} replays read at once, {limit} may");
        let requests = self.life.links.len();
        let places = self.plan.requests_max.unwrap_or(usize::MAX);
        assert!(requests <= places, "{requests} requests at once, {places} may");
        let bound = RING_LOW_WATER_BYTES
            + 2 * (PIECE_BYTES_MAX + BATCH_BYTES_MAX + TEXT_PIECE_BYTES_MAX * 6)
            + self.plan.config.queue_bytes
            + 2 * PROTOCOL_BYTES_MAX;
        for client in &self.clients {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = self.life.hub.slices(client.tag, &mut slices);
            let waits: usize = slices[..count].iter().map(|slice| slice.len()).sum();
            assert!(waits <= bound, "{waits} bytes wait for client {}", client.number);
        }
    }
}

/// Every session has one token.
pub(super) fn tokens(records: &[Record]) -> Tokens {
    let mut tokens = Tokens::default();
    for record in records {
        tokens.add(record.id.clone(), record.token.clone());
    }
    tokens
}

/// How many pieces of logs a job reads.
pub(super) fn reads_of(job: &Job) -> usize {
    match job {
        Job::Read(_) => 1,
        Job::Advance(advance) => advance
            .inputs
            .iter()
            .filter(|input| matches!(input, terret_ws::work::advance::Input::Read(_)))
            .count(),
        _ => 0,
    }
}
