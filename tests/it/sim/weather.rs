//! What neither clients nor the server decide: model servers, time, the operator, the disk, and death.

use super::life::Life;
use super::programs::programs;
use super::provider::MODELS;
use super::record::survives_power_cut;
use super::texts::Fate;
use super::world::{World, tokens};
use std::sync::Arc;
use terret_ws::config::{CancelStream, Token};
use terret_ws::disk::sim::{Faults, SimDisk};
use terret_ws::hub::Stage;
use terret_ws::proto::ident::ModelSpec;
use terret_ws::work::Reload;

impl World {
    /// A model server does something, or a tool ends.
    pub(super) fn serve(&mut self) {
        let (links, tools) = (self.life.links.len(), self.life.tools.len());
        let place = self.random.below(links + tools + self.life.programs.len());
        if place >= links + tools {
            return self.end_program();
        }
        if place >= links {
            return self.end_tool();
        }
        let place = self.random.below(self.life.links.len());
        self.serve_link(place);
    }

    /// One of the tools that run ends, if any does.
    pub(super) fn end_tool(&mut self) {
        if !self.life.tools.is_empty() {
            let place = self.random.below(self.life.tools.len());
            let job = self.life.tools.swap_remove(place);
            self.run_job(job);
        }
    }

    /// Whether anything happened on the link.
    pub(super) fn serve_link(&mut self, place: usize) -> bool {
        let link = &mut self.life.links[place];
        let agent = link.agent;
        if !self.life.hub.wants_upstream(agent) {
            return false;
        }
        let Some((event, over)) = link.next(&self.plan, &mut self.random, self.calm) else {
            return false;
        };
        if over {
            self.life.links.swap_remove(place);
        }
        self.life.hub.upstream(agent, event);
        self.obey();
        true
    }

    /// Time passes.
    pub(super) fn wait(&mut self) {
        let due = self.life.hub.next_deadline().map_or(0, |due| due.since(self.life.now));
        let ms = self.random.pick(&[1, 100, due, due, due, 1000, 1000, 30_000]);
        self.pass(ms);
    }

    pub(super) fn pass(&mut self, ms: u64) {
        self.trace.say(|| format!("{ms} ms pass"));
        self.life.now = self.life.now.add_ms(ms);
        self.move_wall(ms);
        self.life.hub.set_now(self.life.now);
        for tag in self.life.hub.tick() {
            self.lose(tag, "timed out");
        }
        self.obey();
    }

    /// The embedding program or the operator does something.
    pub(super) fn operate(&mut self) {
        let session = self.random.below(self.records.len());
        let id = self.records[session].id.clone();
        match self.random.below(5) {
            0 | 1 => {
                let (text, wake) = (self.new_text(), self.random.chance(60));
                self.trace.say(|| format!("the embedding program tells {id} {text:?}"));
                self.records[session].texts.sent(text.clone(), wake, Fate::Posted);
                self.life.hub.inject(&id, text, wake);
            }
            2 => {
                self.trace.say(|| format!("{id} is resumed from outside"));
                self.life.hub.resume_turn(&id);
            }
            3 => {
                self.trace.say(|| format!("the token of {id} is replaced"));
                let token = format!("token-{session}-{}", self.random.below(1000));
                self.records[session].token = Token::parse(&token).unwrap();
                for client in self.clients.iter_mut().filter(|client| client.session == session) {
                    client.may_end.insert("unauthorized");
                }
                self.life.hub.set_tokens(tokens(&self.records));
            }
            _ => self.reload(),
        }
        self.obey();
    }

    fn reload(&mut self) {
        let running = Arc::new(self.plan.config.clone());
        let config = &mut self.plan.config;
        config.approvals = self.random.chance(80);
        config.cancel_stream =
            self.random.pick(&[CancelStream::Abort, CancelStream::Abort, CancelStream::Finish]);
        let tools = programs(&self.plan, &mut self.random);
        let config = &mut self.plan.config;
        config.tools = tools;
        let main = ModelSpec::parse(self.random.pick(&MODELS)).unwrap();
        config.roles.insert("main".to_owned(), main);
        self.trace.say(|| {
            format!("reloaded: approvals {}, {:?}", config.approvals, config.cancel_stream)
        });
        let (config, tokens) = (config.clone(), tokens(&self.records));
        self.settings = Arc::new(self.settings.reloaded(&config));
        self.life.hub.reload(Reload { config, running, tokens });
    }

    /// The disk begins to fail, or recovers.
    pub(super) fn hurt(&mut self) {
        let calls = self.life.disk.calls();
        let (mut choice, mut amount) = (self.random.below(16), self.random.below(30));
        if self.plan.tight {
            let fills = if self.life.tool_runs() { 5 } else { 3 };
            choice = if self.random.below(6) < fills { 1 } else { 4 };
            amount *= self.random.below(2);
        }
        let mut power_fails_at = None;
        self.life.disk.faults(|faults| match choice {
            0 => faults.short_writes = !faults.short_writes,
            1..=3 => faults.space = Some(amount as u64 * 40),
            4..=6 => (faults.space, faults.inodes) = (None, None),
            7 => faults.inodes = Some(amount as u64 / 10),
            8 => faults.syncs_fail = 1,
            9 => faults.writes_fail = 1,
            10 | 14 | 15 => faults.reads_fail = 1,
            11 => faults.opens_fail = 1,
            _ => {
                power_fails_at = Some(calls + 1 + amount as u64);
                faults.power_fails_at = power_fails_at;
            }
        });
        self.life.power_fails_at = power_fails_at.or(self.life.power_fails_at);
        self.life.troubled = true;
        self.trace.say(|| format!("the disk: {choice}, {amount}"));
    }

    /// The process ends, for this reason or that.
    pub(super) fn die_somehow(&mut self) {
        match self.random.below(3) {
            0 => self.die(false),
            1 => self.die(true),
            _ => self.stop(),
        }
    }

    /// The power has failed in the middle of a job. Some of what it had said may have been heard.
    pub(super) fn die_of_power_loss(&mut self) {
        self.trace.reach("a power cut in a job");
        while !self.life.flights.is_empty() && self.random.chance(50) {
            self.hear(self.life.flights.len() - 1);
        }
        let cut = self.random.chance(80);
        self.die(cut);
    }

    /// The process is killed; or the power fails, where the log claims to survive that.
    pub(super) fn die(&mut self, cut: bool) {
        let cut = cut && survives_power_cut(self.plan.log.sync);
        self.trace.say(|| if cut { "the power fails" } else { "kill -9" }.to_owned());
        self.trace.reach(if cut { "a power cut" } else { "a kill" });
        for record in &self.records {
            if record.ledger.is_open() {
                self.trace.reach("a death in a turn");
            }
            if record.ledger.standing().next().is_some() {
                self.trace.reach("a death with a call parked");
            }
            if record.texts.that(|text| text.fate == Fate::Kept).next().is_some() {
                self.trace.reach("a death with texts in the inbox");
            }
            if record.texts.that(|text| text.fate == Fate::Held).next().is_some() {
                self.trace.reach("a death with a batch held");
            }
        }
        let disk = if cut { self.life.disk.crash() } else { self.life.disk.kill() };
        self.live_again(disk);
    }

    /// The process is told to stop, and does.
    pub(super) fn stop(&mut self) {
        self.trace.say(|| "the server is told to stop".to_owned());
        for client in &mut self.clients {
            client.may_end.insert("stopping");
        }
        self.life.hub.stop();
        self.obey();
        for _ in 0..3000 {
            if self.life.hub.stage() == Stage::Over || self.life.has_lost_power() {
                break;
            }
            match self.random.below(8) {
                0..3 => self.run_some_job(),
                3..5 => self.hear_something(),
                5 => self.carry(),
                6 => self.serve(),
                _ => self.wait(),
            }
            self.life.hub.stage_tick();
            self.obey();
            self.check();
        }
        if self.life.has_lost_power() {
            return self.die_of_power_loss();
        }
        self.trace.reach("a clean stop");
        assert_eq!(self.life.hub.stage(), Stage::Over, "it stops");
        if self.life.hub.latched().is_some() {
            return self.die(true);
        }
        self.live_again(self.life.disk.clone());
    }

    /// The next process begins, on what the last one has left. A disk that was full still is.
    fn live_again(&mut self, disk: SimDisk) {
        let mut is_full = false;
        disk.faults(|faults| {
            is_full = faults.space.is_some() || faults.inodes.is_some();
            let Faults { space, inodes, short_writes, .. } = *faults;
            *faults = Faults { space, inodes, short_writes, ..Faults::default() };
        });
        self.clients.clear();
        for record in &mut self.records {
            record.die();
        }
        self.life.end();
        let tokens = tokens(&self.records);
        let (plan, settings) = (&self.plan, &self.settings);
        let running = self.running.path();
        self.life = Life::begin(disk, plan, settings, tokens, running, &mut self.random);
        self.life.troubled = is_full;
        if self.plan.config.resume_on_start {
            for record in self.records.iter().filter(|record| record.ledger.is_open()) {
                self.life.hub.resume_turn(&record.id);
            }
            self.obey();
        }
    }
}
