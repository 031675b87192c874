//! One life of the server: a hub with workers, provider connections and time played by chance, on
//! what the life before has left on the disk.

use super::plan::Plan;
use super::programs::Programs;
use super::provider::MODELS;
use super::random::Random;
use super::record::DATA_DIR;
use super::remote::Link;
use super::world::wall;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use terret_ws::config::Tokens;
use terret_ws::conn::slab::Tag;
use terret_ws::disk::Store;
use terret_ws::disk::sim::SimDisk;
use terret_ws::hub::Hub;
use terret_ws::proto::ident::ModelSpec;
use terret_ws::proto::time::Mono;
use terret_ws::work::launcher::Launcher;
use terret_ws::work::meter::Meter;
use terret_ws::work::settings::Settings;
use terret_ws::work::{Done, Job, Worker};

/// See the module's documentation.
pub(super) struct Life {
    pub(super) disk: SimDisk,
    pub(super) hub: Hub,
    /// What runs jobs, and holds the lock of the data directory; none after the end.
    pub(super) worker: Option<Worker>,
    /// Jobs that wait for a worker, oldest first.
    pub(super) jobs: VecDeque<Job>,
    /// Tools that run: nobody knows how long.
    pub(super) tools: Vec<Job>,
    pub(super) programs: Programs,
    /// What jobs had to say and the reactor has not heard yet.
    pub(super) flights: Vec<Flight>,
    pub(super) links: Vec<Link>,
    /// Which session an agent of the hub is.
    pub(super) agents: BTreeMap<(u32, u32), usize>,
    pub(super) now: Mono,
    /// Something happened that may cost any connection an `internal`.
    pub(super) troubled: bool,
    /// The call of the disk at which the power fails.
    pub(super) power_fails_at: Option<u64>,
}

/// The answers of one job.
pub(super) struct Flight {
    pub(super) session: Option<usize>,
    pub(super) dones: VecDeque<Done>,
}

impl Life {
    pub(super) fn begin(
        disk: SimDisk,
        plan: &Plan,
        settings: &Arc<Settings>,
        tokens: Tokens,
        records: &Path,
        random: &mut Random,
    ) -> Self {
        let store = Store::open(Arc::new(disk.clone()), Path::new(DATA_DIR), plan.log);
        let store = Arc::new(store.expect("the lock is free and the disk works"));
        let mut bytes = random.fork();
        let source = terret_ws::work::Random::new(move |slice| {
            slice.fill_with(|| (bytes.next() >> 32) as u8);
        });
        let launcher = Arc::new(Launcher::new(records));
        let meter = Arc::new(Meter::new(Arc::clone(store.stats()), []));
        let worker = Some(Worker::new(store, launcher, wall, source, Arc::clone(&meter)));
        let main = ModelSpec::parse(random.pick(&MODELS)).unwrap();
        let roles = BTreeMap::from([("main".to_owned(), main)]);
        let hub = Hub::new(plan.options.clone(), Arc::clone(settings), tokens, roles, meter);
        Self {
            disk,
            hub,
            worker,
            jobs: VecDeque::new(),
            tools: Vec::new(),
            programs: Programs::default(),
            flights: Vec::new(),
            links: Vec::new(),
            agents: BTreeMap::new(),
            now: Mono(0),
            troubled: false,
            power_fails_at: None,
        }
    }

    /// The process ends, and lets go of the disk.
    pub(super) fn end(&mut self) {
        self.worker = None;
    }

    /// The hub wants these jobs done.
    pub(super) fn take_jobs(&mut self, jobs: Vec<Job>) {
        let (tools, jobs): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| matches!(job, Job::Tool(_)));
        self.tools.extend(tools);
        self.jobs.extend(jobs);
    }

    /// An agent gives its provider connection up, and may want another.
    pub(super) fn relink(&mut self, agent: Tag, connect: bool, random: &mut Random) {
        self.links.retain(|link| link.agent != agent);
        if connect {
            self.links.push(Link::new(agent, random));
        }
    }

    /// Whether any tool runs.
    pub(super) fn tool_runs(&self) -> bool {
        !self.tools.is_empty() || self.programs.len() > 0
    }

    /// Which session an agent is.
    pub(super) fn session_of(&self, agent: Tag) -> usize {
        self.agents[&(agent.slot, agent.generation)]
    }

    pub(super) fn has_lost_power(&self) -> bool {
        self.power_fails_at.is_some_and(|at| self.disk.calls() >= at)
    }

    /// Pieces of logs that were read, and that the reactor has not heard of.
    pub(super) fn pieces_unheard(&self) -> usize {
        let dones = self.flights.iter().flat_map(|flight| &flight.dones);
        dones.filter(|done| matches!(done, Done::Piece { .. })).count()
    }
}
