//! The report of an import: what became of each record that was read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::key::RecordKind;

/// Number of places that a report names for each reason.
const PLACES_MAX: usize = 20;
const PROBLEMS_MAX: usize = 100;
const PROBLEM_CHARS_MAX: usize = 300;

/// Numbers of records of one kind. `read` is the sum of the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct ImportCounts {
    pub read: i64,
    /// New here.
    pub imported: i64,
    /// Here since an earlier import, or matched with a person or channel that was here.
    pub existing: i64,
    /// Copies of other records.
    pub merged: i64,
    pub left_out: i64,
}

/// Records that were left out for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImportLeftOut {
    /// `people`, `channels`, `emoji`, `agents`, `hooks`, `workflows`, `memories`, `messages`, `files`, `forks`, `resolutions`,
    /// `action_items`, or `schedules`.
    pub kind: String,
    pub reason: String,
    pub count: i64,
    /// The first places in the archive; at most 20.
    pub places: Vec<String>,
}

/// Results of an import for the records of an archive.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct ImportReport {
    pub kinds: BTreeMap<String, ImportCounts>,
    pub left_out: Vec<ImportLeftOut>,
    pub problems: Vec<String>,
}

/// Result of an import for a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordOutcome {
    Imported,
    Existing,
    Merged,
    LeftOut(&'static str),
}

impl ImportReport {
    pub(super) fn count(&mut self, kind: RecordKind, outcome: RecordOutcome, place: &str) {
        let counts = self.kinds.entry(kind.to_string()).or_default();
        counts.read += 1;
        match outcome {
            RecordOutcome::Imported => counts.imported += 1,
            RecordOutcome::Existing => counts.existing += 1,
            RecordOutcome::Merged => counts.merged += 1,
            RecordOutcome::LeftOut(reason) => {
                counts.left_out += 1;
                self.leave_out(kind, reason, place);
            }
        }
    }

    fn leave_out(&mut self, kind: RecordKind, reason: &str, place: &str) {
        let known = self
            .left_out
            .iter()
            .position(|known| known.kind == kind.as_str() && known.reason == reason);
        let n = known.unwrap_or(self.left_out.len());
        if known.is_none() {
            self.left_out.push(ImportLeftOut {
                kind: kind.to_string(),
                reason: reason.to_owned(),
                count: 0,
                places: Vec::new(),
            });
        }
        let entry = &mut self.left_out[n];
        entry.count += 1;
        if entry.places.len() < PLACES_MAX {
            entry.places.push(place.to_owned());
        }
    }

    pub(super) fn problem(&mut self, text: &str) {
        let text: String = text.chars().take(PROBLEM_CHARS_MAX).collect();
        // Some parts are read twice.
        if self.problems.len() < PROBLEMS_MAX && !self.problems.contains(&text) {
            self.problems.push(text);
        }
    }

    /// Number of records that were left out.
    pub(super) fn total_left_out(&self) -> i64 {
        self.kinds.values().map(|counts| counts.left_out).sum()
    }

    /// Numbers of records of this kind.
    pub(super) fn counts_of(&self, kind: RecordKind) -> ImportCounts {
        self.kinds.get(kind.as_str()).copied().unwrap_or_default()
    }

    /// The report as Markdown.
    pub fn to_markdown(&self) -> String {
        let mut lines = vec![
            "| kind | read | imported | existing | merged | left out |".to_owned(),
            "| --- | --- | --- | --- | --- | --- |".to_owned(),
        ];
        for (kind, n) in &self.kinds {
            lines.push(format!(
                "| {kind} | {} | {} | {} | {} | {} |",
                n.read, n.imported, n.existing, n.merged, n.left_out
            ));
        }
        for entry in &self.left_out {
            lines.push(format!(
                "\n{} {} left out: {}",
                entry.count, entry.kind, entry.reason
            ));
            lines.extend(entry.places.iter().map(|place| format!("- {place}")));
        }
        for problem in &self.problems {
            lines.push(format!("\nProblem: {problem}"));
        }
        lines.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_of_a_report_are_equal_to_what_was_read() {
        let mut report = ImportReport::default();
        for n in 0..30 {
            let place = format!("general/{n}");
            report.count(
                RecordKind::Messages,
                RecordOutcome::LeftOut("joined"),
                &place,
            );
        }
        for outcome in [
            RecordOutcome::Imported,
            RecordOutcome::Existing,
            RecordOutcome::Merged,
        ] {
            report.count(RecordKind::Messages, outcome, "");
        }
        report.problem("line 1: not JSON");
        report.problem("line 1: not JSON");
        assert_eq!(report.problems.len(), 1);
        let n = report.kinds["messages"];
        assert_eq!(
            (n.read, n.imported + n.existing + n.merged + n.left_out),
            (33, 33)
        );
        assert_eq!(
            (report.left_out[0].count, report.left_out[0].places.len()),
            (30, 20)
        );
        assert!(
            report
                .to_markdown()
                .contains("| messages | 33 | 1 | 1 | 1 | 30 |")
        );
    }
}
