//! `GET /metrics`: what the hub and the workers have counted, as Prometheus reads it (text exposition
//! format 0.0.4).
//!
//! A page names no session, and costs the same however many there are: everything in it is counted
//! when it happens.

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
        page.gauge("build_info", "The version that runs, as a label.");
        page.labelled("build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
        self.write_connections(&mut page);
        self.write_agents(&mut page);
        self.write_log(&mut page);
        self.write_providers(&mut page);
        page.gauge("worker_queue_depth", "Jobs that wait for a worker.");
        page.value("worker_queue_depth", queued);
        page.0
    }

    fn write_connections(&self, page: &mut Page) {
        page.gauge("connections", "Connections, the ones being refused or closed included.");
        page.value("connections", self.clients.len());
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
            page.counter(name, help);
            page.value(name, value);
        }
        let (reading, waiting) = self.gate.load();
        page.gauge("replays_running", "Log reads under way for replays.");
        page.value("replays_running", reading);
        page.gauge("replays_waiting", "Connections that wait for a log read.");
        page.value("replays_waiting", waiting);
    }

    fn write_agents(&self, page: &mut Page) {
        page.gauge("agents", "Sessions this process has opened, by what their agents are doing.");
        for standing in Standing::ALL {
            let count = self.residents.standings[standing as usize];
            page.labelled("agents", &[("status", standing.as_str())], count);
        }
        page.gauge("agents_pinned", "Agents that are connected or busy, and so stay in memory.");
        page.value("agents_pinned", self.residents.pinned);
        page.gauge("agents_stalled", "Agents whose events wait for space on the disk.");
        page.value("agents_stalled", self.stalled());
        page.counter("turns_total", "Turns that ended, by how.");
        for status in TurnStatus::ALL {
            page.labelled("turns_total", &[("status", status.as_str())], self.meter.turns(status));
        }
    }

    fn write_log(&self, page: &mut Page) {
        let store = self.meter.store();
        for (name, help, value) in [
            ("events_appended_total", "Events appended to logs.", &store.events),
            ("appended_bytes_total", "Bytes of these events' lines.", &store.bytes),
            ("syncs_total", "Syncs of file content.", &store.syncs),
        ] {
            page.counter(name, help);
            page.value(name, value.load(Ordering::Relaxed));
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
        page.counter("provider_attempts_total", "Connections to providers, one an attempt.");
        for (name, meter) in self.meter.providers() {
            let labels = [("provider", name)];
            page.labelled("provider_attempts_total", &labels, meter.attempts.count());
        }
        page.counter("provider_requests_total", "Model requests that are over, by outcome.");
        for (name, meter) in self.meter.providers() {
            for (outcome, counter) in [
                ("answered", &meter.answered),
                ("failed", &meter.failed),
                ("aborted", &meter.aborted),
            ] {
                let labels = [("provider", name), ("outcome", outcome)];
                page.labelled("provider_requests_total", &labels, counter.count());
            }
        }
        page.gauge("provider_waiting", "Turns that wait for a place with a bounded provider.");
        for (name, waiting) in self.waiting_for_providers() {
            page.labelled("provider_waiting", &[("provider", name)], waiting);
        }
        page.gauge("provider_learned", "1 where a provider's refusals have taught it.");
        for (name, provider) in &self.settings.providers {
            let Some(facts) = provider.learned() else { continue };
            for fact in Fact::ALL {
                let labels = [("provider", &**name), ("fact", fact.name())];
                page.labelled("provider_learned", &labels, u8::from(facts.has(fact)));
            }
        }
    }
}

/// A page as it grows. Every name is given without the prefix that all of them have.
struct Page(String);

impl Page {
    fn gauge(&mut self, name: &str, help: &str) {
        self.family(name, "gauge", help);
    }

    fn counter(&mut self, name: &str, help: &str) {
        self.family(name, "counter", help);
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP terret_{name} {help}"));
        self.line(format_args!("# TYPE terret_{name} {kind}"));
    }

    fn value(&mut self, name: &str, value: impl Display) {
        self.line(format_args!("terret_{name} {value}"));
    }

    fn labelled(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let mut text = String::new();
        for (index, (label, value)) in labels.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            write!(text, "{comma}{label}=\"{value}\"").expect("a string takes everything");
        }
        self.line(format_args!("terret_{name}{{{text}}} {value}"));
    }

    fn latency(&mut self, name: &str, help: &str, latency: &Latency) {
        self.family(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        let counts = latency.cumulative();
        for (end, count) in LATENCY_BUCKETS_US.iter().zip(counts) {
            self.labelled(&bucket, &[("le", &seconds(*end).to_string())], count);
        }
        let all = counts[LATENCY_BUCKETS_US.len()];
        self.labelled(&bucket, &[("le", "+Inf")], all);
        self.value(&format!("{name}_sum"), seconds(latency.sum_us()));
        self.value(&format!("{name}_count"), all);
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a string takes everything");
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
