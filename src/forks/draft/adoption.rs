//! Checks whether people adopted the statements that a draft presents as results.

use std::collections::BTreeSet;

use openvibe_extract::{Act, Speaker};

use super::{
    evidence::Evidence,
    fault::{Doubt, FieldPath},
    field::DraftField,
    line::{Said, are_several, is_agreed, plain},
};

/// Minimum percentage of a text's content words that a line must contain for the text to count as a repetition of the line.
const REPEATED_PERCENT_MIN: usize = 80;
/// Minimum percentage of words that a key point and a headline must share to count as stating the same thing.
const BACKED_PERCENT_MIN: usize = 60;
/// Number of lines before a statement that are searched for the question that it answers.
const ASKED_LINES: usize = 2;

impl Evidence<'_> {
    /// Reason why the text of a field is not a result: all of its sources are doubtful, or all lines that it repeats, or all lines
    /// that contain most of its words.
    pub(super) fn doubt(&self, field: &DraftField) -> Option<Doubt> {
        match field.path {
            FieldPath::OpenQuestion(_) | FieldPath::Deferred(_) => return None,
            FieldPath::KeyPoint(_) if self.is_view(field) => return None,
            _ => {}
        }
        let words = self.words(&field.text);
        common(self.cited(field).map(|line| line.doubt))
            .or_else(|| self.doubt_of_repeated(field, &words))
            .or_else(|| self.doubt_of(&words))
    }

    /// Checks whether a field names the author of one of its doubtful sources, and therefore only reports a view.
    fn is_view(&self, field: &DraftField) -> bool {
        let text = plain(&field.text);
        self.cited(field).any(|line| {
            matches!(line.doubt, Some(Doubt::Agent | Doubt::Dropped))
                && match line.speaker {
                    Speaker::Agent(_) => text.contains(&line.name),
                    Speaker::Person(at) => self.is_named(*at, &text),
                }
        })
    }

    /// Doubt about the lines that contain nearly all words of a field.
    fn doubt_of_repeated(&self, field: &DraftField, words: &BTreeSet<String>) -> Option<Doubt> {
        let is_in = |line: &Said<'_>| {
            words
                .iter()
                .filter(|word| line.text.contains(*word))
                .count()
        };
        let counts: Vec<usize> = self.lines.iter().map(is_in).collect();
        let most = counts.iter().copied().max().unwrap_or(0);
        if most == 0 || most * 100 < words.len() * REPEATED_PERCENT_MIN {
            return None;
        }
        let repeated = || (0..counts.len()).filter(|at| counts[*at] == most);
        let is_settled = || {
            !field.is_whole()
                || !self.is_read()
                // If there is only one person, that person decides alone.
                || !are_several(self.lines.iter())
                || are_several(self.cited(field)) && !field.text.ends_with('?')
                || repeated().any(|at| self.is_settled(at))
        };
        common(repeated().map(|at| self.lines[at].doubt))
            .or_else(|| (!is_settled()).then_some(Doubt::Unsettled))
    }

    /// Doubt about the lines from which most of these words come.
    fn doubt_of(&self, words: &BTreeSet<String>) -> Option<Doubt> {
        let doubts = words.iter().filter_map(|word| {
            let lines = self.lines.iter().filter(|line| line.text.contains(word));
            common(lines.map(|line| line.doubt.filter(|doubt| *doubt != Doubt::Dropped)))
        });
        let doubts: Vec<Doubt> = doubts.collect();
        (doubts.len() > 1 && doubts.len() * 3 >= words.len() * 2).then(|| doubts[0])
    }

    /// Checks whether a line states a decision or a task, answers a question, or was agreed to.
    fn is_settled(&self, at: usize) -> bool {
        let line = &self.lines[at];
        let mut before = self.lines[at.saturating_sub(ASKED_LINES)..at].iter();
        line.has(&[Act::Decision, Act::Commitment, Act::Assent])
            || is_agreed(&self.lines, at)
            || before.any(|asked| asked.speaker != line.speaker && asked.has(&[Act::Question]))
    }

    /// Sources of the key points that make the same statement as a headline or conclusion.
    pub(super) fn backing(&self, text: &str, fields: &[DraftField]) -> Vec<usize> {
        let words = self.words(text);
        let is_same = |field: &&DraftField| {
            let theirs = self.words(&field.text);
            let shared = words.intersection(&theirs).count();
            matches!(field.path, FieldPath::KeyPoint(_))
                && shared * 100 >= words.len().min(theirs.len()) * BACKED_PERCENT_MIN
        };
        let points = fields.iter().filter(is_same);
        points.flat_map(|point| point.sources.clone()).collect()
    }
}

/// Returns the first doubt if all lines are doubtful.
fn common(mut doubts: impl Iterator<Item = Option<Doubt>>) -> Option<Doubt> {
    let first = doubts.next()??;
    doubts.all(|doubt| doubt.is_some()).then_some(first)
}
