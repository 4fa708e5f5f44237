//! Tables, medians, and percentiles.

use std::time::Duration;

#[expect(clippy::print_stdout, reason = "a benchmark prints its results")]
pub(crate) fn say(line: &str) {
    println!("{line}");
}

/// Markdown table, for `docs/performance.md`.
pub(crate) struct Table {
    title: &'static str,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(title: &'static str, columns: &[&'static str]) -> Self {
        Self {
            title,
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn print(&self) {
        say(&format!("\n### {}\n", self.title));
        say(&format!("| {} |", self.columns.join(" | ")));
        say(&format!(
            "| --- |{}",
            " --: |".repeat(self.columns.len().saturating_sub(1))
        ));
        for row in &self.rows {
            say(&format!("| {} |", row.join(" | ")));
        }
    }
}

/// Returns the percentile of the values for `p` from 0 to 1; 0 if there are no values.
pub(crate) fn percentile(values: &[f64], p: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and `last`"
    )]
    let at = (float(last) * p).round() as usize;
    sorted.get(at).copied().unwrap_or_default()
}

pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(values, 0.5)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a benchmark are small"
)]
pub(crate) fn float(n: usize) -> f64 {
    n as f64
}

pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

pub(crate) fn us(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// Formats values as `median (lowest to highest)`.
pub(crate) fn spread(values: &[f64], decimals: usize) -> String {
    format!(
        "{:.decimals$} ({:.decimals$}–{:.decimals$})",
        median(values),
        percentile(values, 0.0),
        percentile(values, 1.0)
    )
}

/// Median of `a / b` per round.
pub(crate) fn ratio(a: &[f64], b: &[f64]) -> f64 {
    let each: Vec<f64> = a
        .iter()
        .zip(b)
        .filter(|(_, b)| **b > 0.0)
        .map(|(a, b)| a / b)
        .collect();
    median(&each)
}
