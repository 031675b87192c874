//! What models say, as chance has it: text, calls that make sense and calls that do not, errors, and
//! code that panics. And what they were asked, which is kept to be looked at.

use super::plan::Plan;
use super::random::Random;
use super::strict::Said;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use terret_ws::config::{OpenAiConfig, Script, ScriptCall, ScriptEnd, ScriptStep};
use terret_ws::model::custom::{Answer, Piece};
use terret_ws::model::{Model, OpenAi, Provider, Request};
use terret_ws::proto::http_client::BaseUrl;
use terret_ws::proto::payload::Usage;

/// A model inside the process. Clones share what they were asked.
#[derive(Clone)]
pub(super) struct Brain(Arc<Mutex<Inside>>);

struct Inside {
    random: Random,
    long: bool,
    panics: bool,
    calls_percent: u32,
    heard: Vec<Heard>,
}

/// A request that a model got.
pub(super) struct Heard {
    pub(super) messages: Vec<Said>,
    pub(super) fresh: Vec<String>,
}

/// What the embedding program's code panics with when it is meant to.
pub(super) struct Intended;

/// The names under which models are configured, `echo` beside them.
pub(super) const MODELS: [&str; 4] = ["own/m", "scripted/m", "remote/m", "echo/m"];

/// A call, as a model makes it.
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: &'static str,
    pub(super) args: &'static str,
}

impl Brain {
    pub(super) fn new(plan: &Plan, random: &mut Random) -> Self {
        let (random, heard) = (random.fork(), Vec::new());
        let Plan { long, panics, calls_percent, .. } = *plan;
        let inside = Inside { random, long, panics, calls_percent, heard };
        Self(Arc::new(Mutex::new(inside)))
    }

    /// What was asked since the last time.
    pub(super) fn heard(&self) -> Vec<Heard> {
        std::mem::take(&mut self.inside().heard)
    }

    /// From here on nobody panics and nothing fails.
    pub(super) fn calm_down(&self) {
        self.inside().panics = false;
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        // What panics on purpose does not hold it.
        self.0.lock().expect("nothing panics while it is held")
    }
}

impl Model for Brain {
    fn answer(&self, request: &Request<'_>, _model: &str) -> Answer {
        let mut inside = self.inside();
        let messages = request.messages.iter().map(Said::of).collect();
        inside.heard.push(Heard { messages, fresh: request.fresh.to_vec() });
        let Inside { long, panics, calls_percent, .. } = *inside;
        let random = &mut inside.random;
        let mut pieces: Vec<Result<Piece, String>> =
            texts(random, long).into_iter().map(|text| Ok(Piece::Text(text))).collect();
        for Call { id, name, args } in calls(random, calls_percent) {
            pieces.push(Ok(Piece::Call { id, name: name.to_owned(), args: args.to_owned() }));
        }
        if random.chance(50) {
            pieces.push(Ok(Piece::Usage(usage())));
        }
        if random.chance(8) {
            let at = random.below(pieces.len() + 1);
            pieces.insert(at, Err("out of order".to_owned()));
        }
        let fuse = (panics && random.chance(15)).then(|| random.below(pieces.len() + 1));
        Box::new(pieces.into_iter().enumerate().map(move |(index, piece)| {
            if Some(index) == fuse {
                // As a panic, but for the message to standard error.
                std::panic::resume_unwind(Box::new(Intended));
            }
            piece
        }))
    }
}

/// Every provider of one seed, by name.
pub(super) fn providers(
    plan: &Plan,
    random: &mut Random,
    brain: &Brain,
) -> BTreeMap<String, Provider> {
    let script = script(plan, random);
    let base_url = BaseUrl::parse("http://models.test/v1").unwrap();
    let mut remote = OpenAiConfig::new(base_url);
    remote.connect_timeout_s = 5;
    remote.first_byte_timeout_s = 10;
    remote.silence_timeout_s = 10;
    remote.max_concurrent_requests = plan.requests_max;
    remote.answer_timeout_s = random.chance(30).then_some(30);
    let remote = OpenAi::new(remote).expect("it has no headers");
    BTreeMap::from([
        ("own".to_owned(), Provider::Custom(Arc::new(brain.clone()))),
        ("scripted".to_owned(), Provider::Scripted(Arc::new(script))),
        ("remote".to_owned(), Provider::OpenAi(Arc::new(remote))),
    ])
}

fn script(plan: &Plan, random: &mut Random) -> Script {
    let mut step = || ScriptStep {
        delay_ms: random.pick(&[0, 0, 100, 5000]),
        chunk_delay_ms: random.pick(&[0, 0, 50]),
        pieces: texts(random, plan.long),
        end: if random.chance(10) {
            ScriptEnd::Error { status: 500, message: "overloaded".to_owned() }
        } else {
            let calls = calls(random, plan.calls_percent).into_iter();
            let calls = calls
                .map(|Call { id, name, args }| ScriptCall {
                    id,
                    name: name.to_owned(),
                    args: args.into(),
                })
                .collect();
            ScriptEnd::Answer { calls, usage: random.chance(50).then(usage) }
        },
    };
    Script { steps: (0..9).map(|_| step()).collect(), repeat: true }
}

/// The text of an answer in the pieces it comes in.
pub(super) fn texts(random: &mut Random, long: bool) -> Vec<String> {
    let count = if random.chance(2) { 300 + random.below(600) } else { random.below(5) };
    let bytes = if long && random.chance(40) { 20_000 } else { 12 };
    let bytes = if count > 100 { 3 } else { bytes };
    let mut text = || {
        let bytes = random.below(bytes);
        random.text(bytes)
    };
    (0..count).map(|_| text()).collect()
}

/// The calls of an answer.
pub(super) fn calls(random: &mut Random, percent: u32) -> Vec<Call> {
    const IDS: [&str; 3] = ["0", "0", "1"];
    const NAMES: [&str; 13] = [
        "read_a",
        "read_b",
        "serial",
        "strict",
        "parstrict",
        "parstrict",
        "change",
        "unknown",
        "program",
        "program",
        "program",
        "program",
        "missing",
    ];
    const ARGS: [&str; 6] =
        ["{}", "{\"n\":1e400}", "", "[1]", "{\"cut", "{ \"a\" : \"ü\\n\", \"b\":{}}"];
    let count = if random.chance(percent) { 1 + random.below(4) } else { 0 };
    (0..count)
        .map(|_| Call {
            id: if random.chance(50) {
                random.pick(&IDS).to_owned()
            } else {
                format!("call-{}", random.below(1000))
            },
            name: random.pick(&NAMES),
            args: random.pick(&ARGS),
        })
        .collect()
}

fn usage() -> Usage {
    Usage { prompt_tokens: 7, completion_tokens: 3, cost: Some(0.25) }
}
