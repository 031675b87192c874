//! Ours beside what others need for the same: rows of a table, measured in turn over several rounds.

use std::path::PathBuf;

use serde_json::{Value, json};

/// Whose server does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Ours,
    Bare,
    Tokio,
}

const EVERYBODY: [Who; 3] = [Who::Ours, Who::Bare, Who::Tokio];

/// How much of everything, and which server.
pub(crate) struct Scale {
    pub(crate) short: bool,
    pub(crate) rounds: usize,
    pub(crate) binary: PathBuf,
}

/// One line of the table.
pub(crate) struct Row {
    /// What is done.
    pub(crate) work: &'static str,
    /// How much of it.
    pub(crate) size: String,
    /// Of the figures, which are costs: less is better.
    pub(crate) unit: &'static str,
    /// How many times what the bare server needs ours may need.
    pub(crate) target: Option<f64>,
    figures: [Vec<f64>; 3],
}

impl Row {
    /// Measures everybody in turn, round by round; `measure` says nothing of whom it does not know.
    pub(crate) fn measure(
        scale: &Scale,
        (work, size): (&'static str, String),
        unit: &'static str,
        target: Option<f64>,
        mut measure: impl FnMut(Who) -> Option<f64>,
    ) -> Self {
        let mut figures: [Vec<f64>; 3] = Default::default();
        for round in 0..scale.rounds {
            for turn in 0..EVERYBODY.len() {
                let index = (round + turn) % EVERYBODY.len();
                figures[index].extend(measure(EVERYBODY[index]));
            }
        }
        let row = Self { work, size, unit, target, figures };
        row.print();
        row
    }

    /// What the columns of [`Row::print`] are.
    pub(crate) fn print_head() {
        println!(
            "{:<34} {:<18} {:<10} {:>26} {:>26} {:>26} {:>10} {:>6} {:>10}",
            "work", "size", "unit", "ours", "bare", "tokio", "ours/bare", "aim", "ours/tokio"
        );
    }

    fn print(&self) {
        let [ours, bare, tokio] = &self.figures;
        let ratio = |of| ratio(ours, of).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        let target = self.target.map_or("-".to_owned(), |target| format!("{target:.1}"));
        println!(
            "{:<34} {:<18} {:<10} {:>26} {:>26} {:>26} {:>10} {target:>6} {:>10}",
            self.work,
            self.size,
            self.unit,
            spread(ours),
            spread(bare),
            spread(tokio),
            ratio(bare),
            ratio(tokio),
        );
    }

    /// The line as JSON.
    pub(crate) fn json(&self) -> Value {
        let [ours, bare, tokio] = &self.figures;
        json!({
            "work": self.work,
            "size": self.size,
            "unit": self.unit,
            "ours": ours,
            "bare": bare,
            "tokio": tokio,
            "ours/bare": ratio(ours, bare),
            "target": self.target,
            "ours/tokio": ratio(ours, tokio),
        })
    }
}

/// Of the ratios within each round, the median.
fn ratio(ours: &[f64], others: &[f64]) -> Option<f64> {
    let mut ratios: Vec<f64> = ours.iter().zip(others).map(|(ours, other)| ours / other).collect();
    median(&mut ratios)
}

/// The median, and in brackets the least and the most.
fn spread(figures: &[f64]) -> String {
    let mut sorted = figures.to_vec();
    let Some(median) = median(&mut sorted) else { return "-".to_owned() };
    let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
    let digits = if median < 10.0 { 2 } else { 0 };
    format!("{median:.digits$} ({least:.digits$}-{most:.digits$})")
}

pub(crate) fn median(figures: &mut [f64]) -> Option<f64> {
    figures.sort_unstable_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}
