//! `GET /metrics`: what the hub and the workers have counted, as Prometheus reads it (text exposition
//! format 0.0.4).
//!
//! A page names no session, and costs the same however many there are: but for those who wait for a
//! provider, everything in it is counted when it happens.

use super::Hub;
use super::entry::Standing;
use crate::conn::slab::Tag;
use crate::model::Fact;
use crate::proto::http::{Status, write_answer};
use crate::proto::payload::TurnStatus;
use crate::work::meter::{LATENCY_BUCKETS_US, Latency, Meter};
use std::fmt::{Display, Write as _};
use std::sync::atomic::Ordering;

const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Hub {
    /// Answers a scrape. `queued` is how many jobs wait for a worker.
    pub fn scrape(&mut self, tag: Tag, queued: usize) {
        let page = self.page(queued);
        let mut response = Vec::new();
        write_answer(&mut response, Status::Ok, EXPOSITION, page.as_bytes());
        self.answer_with(tag, &response);
    }

    /// What the workers count and time. The time to publish is for who owns the sockets to tell.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    fn page(&self, queued: usize) -> String {
        let mut page = Page(String::new());
        page.gauge("build_info", "The version that runs, as a label.")
            .labelled(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        self.write_connections(&mut page);
        self.write_agents(&mut page);
        self.write_log(&mut page);
        self.write_providers(&mut page);
        page.gauge("worker_queue_depth", "Jobs that wait for a worker.").value(queued);
        page.0
    }

    fn write_connections(&self, page: &mut Page) {
        page.gauge("connections", "Connections, the ones being refused or closed included.")
            .value(self.clients.len());
        let counters = &self.counters;
        for (name, help, value) in [
            ("connections_accepted_total", "Connections accepted.", counters.accepted),
            (
                "connections_refused_total",
                "Of these, answered 503: full or stopping.",
                counters.refused,
            ),
            (
                "unauthorized_total",
                "Bad tokens refused, and connections dropped with a revoked one.",
                counters.unauthorized,
            ),
            ("superseded_total", "Clients dropped for a newer connection.", counters.superseded),
            ("lagged_total", "Clients dropped because they read too slowly.", counters.lagged),
            ("frames_total", "Client frames understood.", counters.frames),
            ("bad_frames_total", "Client frames answered with bad_frame.", counters.bad_frames),
            ("breaches_total", "Connections failed for a breach of RFC 6455.", counters.breaches),
        ] {
            page.counter(name, help).value(value);
        }
        let (reading, waiting) = self.gate.load();
        page.gauge("replays_running", "Log reads under way for replays.").value(reading);
        page.gauge("replays_waiting", "Connections that wait for a log read.").value(waiting);
    }

    fn write_agents(&self, page: &mut Page) {
        let mut agents = page
            .gauge("agents", "Sessions this process has opened, by what their agents are doing.");
        for standing in Standing::ALL {
            let count = self.residents.standings[standing as usize];
            agents.labelled(&[("status", standing.as_str())], count);
        }
        page.gauge("agents_pinned", "Agents that are connected or busy, and so stay in memory.")
            .value(self.residents.pinned);
        page.gauge("agents_stalled", "Agents whose events wait for space on the disk.")
            .value(self.stalled());
        let mut turns = page.counter("turns_total", "Turns that ended, by how.");
        for status in TurnStatus::ALL {
            turns.labelled(&[("status", status.as_str())], self.meter.turns(status));
        }
    }

    fn write_log(&self, page: &mut Page) {
        let store = self.meter.store();
        for (name, help, value) in [
            ("events_appended_total", "Events appended to logs.", &store.events),
            ("appended_bytes_total", "Bytes of these events' lines.", &store.bytes),
            ("syncs_total", "Syncs of file content.", &store.syncs),
        ] {
            page.counter(name, help).value(value.load(Ordering::Relaxed));
        }
        page.latency(
            "append_seconds",
            "From a batch's timestamp to its bytes in the log.",
            &self.meter.append,
        );
        page.latency(
            "publish_seconds",
            "From there to its frames having been offered to the sockets.",
            &self.meter.publish,
        );
    }

    fn write_providers(&self, page: &mut Page) {
        let mut attempts =
            page.counter("provider_attempts_total", "Connections to providers, one an attempt.");
        for (name, meter) in self.meter.providers() {
            attempts.labelled(&[("provider", name)], meter.attempts.count());
        }
        let mut requests =
            page.counter("provider_requests_total", "Model requests that are over, by outcome.");
        for (name, meter) in self.meter.providers() {
            for (outcome, counter) in [
                ("answered", &meter.answered),
                ("failed", &meter.failed),
                ("aborted", &meter.aborted),
            ] {
                let labels = [("provider", name), ("outcome", outcome)];
                requests.labelled(&labels, counter.count());
            }
        }
        let mut waiting =
            page.gauge("provider_waiting", "Turns that wait for a place with a bounded provider.");
        for (name, count) in self.waiting_for_providers() {
            waiting.labelled(&[("provider", name)], count);
        }
        let mut learned =
            page.gauge("provider_learned", "1 where a provider's refusals have taught it.");
        for (name, provider) in &self.settings.providers {
            let Some(facts) = provider.learned() else { continue };
            for fact in Fact::ALL {
                let labels = [("provider", &**name), ("fact", fact.name())];
                learned.labelled(&labels, u8::from(facts.has(fact)));
            }
        }
    }
}

/// A page as it grows.
struct Page(String);

/// A metric of it, under a name without the prefix that all have.
struct Family<'a> {
    page: &'a mut Page,
    name: &'a str,
}

impl Page {
    fn gauge<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family(name, "gauge", help)
    }

    fn counter<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family(name, "counter", help)
    }

    fn family<'a>(&'a mut self, name: &'a str, kind: &str, help: &str) -> Family<'a> {
        self.line(format_args!("# HELP terret_{name} {help}"));
        self.line(format_args!("# TYPE terret_{name} {kind}"));
        Family { page: self, name }
    }

    fn latency(&mut self, name: &str, help: &str, latency: &Latency) {
        let page = self.family(name, "histogram", help).page;
        let counts = latency.cumulative();
        let ends = LATENCY_BUCKETS_US.iter().map(|end| seconds(*end).to_string());
        for (end, count) in ends.chain(["+Inf".to_owned()]).zip(counts) {
            page.line(format_args!("terret_{name}_bucket{{le=\"{end}\"}} {count}"));
        }
        page.line(format_args!("terret_{name}_sum {}", seconds(latency.sum_us())));
        page.line(format_args!("terret_{name}_count {}", counts[LATENCY_BUCKETS_US.len()]));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a string takes everything");
    }
}

impl Family<'_> {
    fn value(self, value: impl Display) {
        self.page.line(format_args!("terret_{} {value}", self.name));
    }

    fn labelled(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let escaped =
            |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<String> =
            labels.iter().map(|(label, of)| format!("{label}=\"{}\"", escaped(of))).collect();
        self.page.line(format_args!("terret_{}{{{}}} {value}", self.name, labels.join(",")));
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
