//! Counts of instructions, and what their growth means. Knows neither files nor valgrind, but for the
//! text that callgrind writes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What to do about counts that have changed for a reason.
pub(crate) const HOW_TO_ACCEPT: &str = "`cargo bench --profile counts --bench counts -- --accept`";

/// What was counted, and under what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Counts {
    pub(crate) setting: Setting,
    /// The instructions of every case.
    pub(crate) counts: BTreeMap<String, u64>,
}

/// Whatever decides a count beside the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Setting {
    pub(crate) rustc: String,
    pub(crate) libc: String,
    pub(crate) valgrind: String,
    /// As valgrind shows it.
    pub(crate) processor: String,
}

impl Setting {
    /// What of this setting is not so in the other one.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        let different = [
            (&self.rustc, &other.rustc),
            (&self.libc, &other.libc),
            (&self.valgrind, &other.valgrind),
            (&self.processor, &other.processor),
        ];
        let different = different.iter().filter(|(own, other)| own != other);
        let named: Vec<_> = different.map(|(own, other)| format!("{own} (here {other})")).collect();
        (!named.is_empty()).then(|| named.join(", "))
    }
}

impl Counts {
    /// Reads what [`Counts::to_json`] wrote.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// The file's content: a line for each count, so that a change shows which.
    pub(crate) fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("text and numbers");
        text.push('\n');
        text
    }

    /// What is wrong with the counts of now, if these are the committed ones. Growth counts only where
    /// both were counted under the same setting.
    pub(crate) fn complaints(&self, now: &Self) -> Vec<String> {
        let mut complaints = Vec::new();
        for name in self.counts.keys().filter(|name| !now.counts.contains_key(*name)) {
            complaints.push(format!(
                "{name}: committed, and no case any more; if it is to go: {HOW_TO_ACCEPT}"
            ));
        }
        for (name, &count) in &now.counts {
            match self.counts.get(name) {
                None => complaints.push(format!("{name}: not committed yet: {HOW_TO_ACCEPT}")),
                Some(&before) if self.setting == now.setting && has_grown(before, count) => {
                    let growth = 100. * (count as f64 / before as f64 - 1.);
                    complaints.push(format!(
                        "{name}: {count} instructions where {before} are committed, {growth:.1} % \
                         more; if it is worth that: {HOW_TO_ACCEPT}"
                    ));
                }
                Some(_) => {}
            }
        }
        complaints
    }
}

/// By more than a tenth.
fn has_grown(before: u64, now: u64) -> bool {
    u128::from(now) * 10 > u128::from(before) * 11
}

/// The sums of callgrind's dumps, in their order, without the one at the program's end: the format
/// gives each part a line that says what triggered it and one with its sum.
pub(crate) fn totals(dumps: &str) -> Vec<u64> {
    let mut totals = Vec::new();
    let mut is_case = false;
    for line in dumps.lines() {
        if let Some(trigger) = line.strip_prefix("desc: Trigger: ") {
            is_case = trigger.starts_with("--dump-after");
        } else if let Some(total) = line.strip_prefix("totals: ")
            && is_case
        {
            totals.push(total.trim().parse().expect("one event is counted"));
        }
    }
    totals
}
