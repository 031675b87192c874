//! `GET /metrics`: what is counted, in the text format that Prometheus reads.

use std::collections::BTreeMap;

use serde_json::json;

use crate::harness::provider::Provider;
use crate::harness::wire::Wire;
use crate::harness::{Client, Server, eventually, http, scripted, token};

/// Every sample of a page by its name and labels, its value without what is behind the point, once the page has been held to the format: each
/// family has its help and its type before its samples, which stand together.
fn samples(page: &str) -> BTreeMap<String, u64> {
    let mut samples = BTreeMap::new();
    let mut families: BTreeMap<&str, &str> = BTreeMap::new();
    let mut helped = None;
    let mut family = None;
    assert!(page.ends_with('\n'), "the last line ends too");
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            helped = rest.split_once(' ').map(|(name, _)| name);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(helped, Some(name), "help before type");
            assert!(families.insert(name, kind).is_none(), "{name} comes twice");
            family = Some((name, kind));
        } else {
            let (key, value) = line.rsplit_once(' ').unwrap();
            let (name, kind) = family.unwrap();
            let own = key.split('{').next().unwrap();
            let suffixes: &[&str] =
                if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            let fits = suffixes.iter().any(|suffix| own.strip_suffix(suffix) == Some(name));
            assert!(fits, "{line} under {name}");
            assert_eq!(kind == "counter", own.ends_with("_total"), "{line}");
            let old = samples.insert(key.to_owned(), whole(value));
            assert!(old.is_none(), "{key} comes twice");
        }
    }
    samples
}

/// The digits before the point.
fn whole(value: &str) -> u64 {
    value.split('.').next().unwrap().parse().unwrap()
}

fn scrape(server: &Server) -> BTreeMap<String, u64> {
    let answer = http::get(server.addr(), "/metrics", None);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    samples(&answer.body)
}

#[test]
fn what_happened_is_counted() {
    let steps = json!([{"text": "Twelve bytes"}, {"error": {"status": 500}}]);
    let server = Server::start(&["s1", "s2"], &scripted(&steps));
    let before = scrape(&server);
    assert_eq!(before["terret_events_appended_total"], 0);
    assert_eq!(before["terret_agents{status=\"idle\"}"], 0);

    let mut client = server.subscribed("s1");
    client.turn("one");
    client.turn("two");
    client.send_text("no frame");
    client.expect_error("bad_frame");
    let mut stranger = Client::knock(server.addr(), "s1", Some("wrong"));
    stranger.expect_error("unauthorized");
    stranger.expect_close(4401);
    let second = server.connect("s1");
    client.expect_error("superseded");
    client.expect_close(4409);
    let mut wire = Wire::open(server.addr(), "s2", &token("s2"));
    wire.send(&[0xc1, 0x80, 0, 0, 0, 0]);
    wire.rest();

    let tip = second.last_seq();
    let page = eventually("both agents at rest", || {
        Some(scrape(&server)).filter(|page| page["terret_agents{status=\"idle\"}"] == 2)
    });
    assert_eq!(page["terret_events_appended_total"], tip + 2, "and the other's first");
    for (name, value) in [
        ("terret_turns_total{status=\"completed\"}", 1),
        ("terret_turns_total{status=\"failed\"}", 1),
        ("terret_turns_total{status=\"cancelled\"}", 0),
        ("terret_agents{status=\"running\"}", 0),
        ("terret_bad_frames_total", 1),
        ("terret_unauthorized_total", 1),
        ("terret_superseded_total", 1),
        ("terret_breaches_total", 1),
        ("terret_lagged_total", 0),
        ("terret_provider_requests_total{provider=\"script\",outcome=\"answered\"}", 1),
        ("terret_provider_requests_total{provider=\"script\",outcome=\"failed\"}", 1),
        ("terret_provider_attempts_total{provider=\"script\"}", 0),
        ("terret_replays_waiting", 0),
        ("terret_agents_stalled", 0),
    ] {
        assert_eq!(page[name], value, "{name}");
    }
    assert!(page["terret_connections"] >= 2, "a client, and who asks");
    assert!(page["terret_syncs_total"] > 0);
    assert!(page["terret_appended_bytes_total"] > 12);
    for latency in ["terret_append_seconds", "terret_publish_seconds"] {
        let count = page[&format!("{latency}_count")];
        assert!(count > 0, "{latency}");
        assert_eq!(page[&format!("{latency}_bucket{{le=\"+Inf\"}}")], count, "{latency}");
        assert!(page[&format!("{latency}_bucket{{le=\"0.0001\"}}")] <= count, "{latency}");
    }
}

#[test]
fn what_goes_on_is_shown_while_it_does() {
    let provider = Provider::start();
    let config = provider.config(&json!({"max_concurrent_requests": 1}));
    let server = Server::start(&["s1", "s2"], &config);
    let (mut first, mut second) = (server.subscribed("s1"), server.subscribed("s2"));
    first.wake("go");
    let ask = provider.ask();
    second.wake("wait");
    eventually("one turn that waits for its provider", || {
        let page = scrape(&server);
        (page["terret_agents{status=\"running\"}"] == 2
            && page.get("terret_provider_waiting{provider=\"fake\"}") == Some(&1))
        .then_some(())
    });
    assert_eq!(scrape(&server)["terret_provider_attempts_total{provider=\"fake\"}"], 1);
    second.cancel("enough");
    second.events_until("turn/end");
    ask.answer("Done.");
    first.events_until("turn/end");
    let page = scrape(&server);
    let outcome = |outcome: &str| {
        page[&format!("terret_provider_requests_total{{provider=\"fake\",outcome=\"{outcome}\"}}")]
    };
    assert_eq!((outcome("answered"), outcome("aborted"), outcome("failed")), (1, 1, 0));
    assert_eq!(page["terret_provider_waiting{provider=\"fake\"}"], 0);
}

#[test]
fn it_names_nobody() {
    let server = Server::start(&["s1"], &json!({}));
    server.subscribed("s1").turn("canary");
    let page = http::get(server.addr(), "/metrics", None).body;
    for canary in ["s1", "canary", "token-of"] {
        assert!(!page.contains(canary), "{canary} in\n{page}");
    }
}
