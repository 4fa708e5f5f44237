//! Ranks matching messages. Both engines only return matches, so the order does not depend on the
//! engine.

use super::{
    highlight::matches,
    words::{Word, composed, words},
};
use crate::db::dialect::search::Phrase;

/// A matching message.
pub(super) struct Candidate<'a> {
    pub text: &'a str,
    /// Title of the thread, if the message is its root message.
    pub title: Option<&'a str>,
    pub is_result: bool,
}

const TITLE_WEIGHT: f64 = 2.0;
const RESULT_WEIGHT: f64 = 0.5;
/// Bonus if all words occur consecutively, in the order in which they were typed.
const TOGETHER_WEIGHT: f64 = 1.5;
/// Weight of a match that covers only the beginning of a word.
const BEGINNING_WEIGHT: f64 = 0.6;
/// Length of a text, in words, above which a match counts noticeably less.
const USUAL_WORDS: f64 = 60.0;

/// The phrases of a group without those that match only the beginning of a word.
fn exact(group: &[Phrase]) -> Vec<Phrase> {
    let exact = |phrase: &Phrase| Phrase {
        is_prefix: false,
        ..phrase.clone()
    };
    group.iter().map(exact).collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts of words are small")]
fn of_words(words: &[Word], groups: &[Vec<Phrase>]) -> f64 {
    let length = words.len() as f64 / USUAL_WORDS;
    let mut score = 0.0;
    for group in groups {
        let all = matches(words, group).len() as f64;
        if all == 0.0 {
            continue;
        }
        // Each repeated match adds less than the previous one, and matches count less in a long
        // text.
        let saturated = all / (all + 0.5 + 0.5 * length);
        let is_exact = !matches(words, &exact(group)).is_empty();
        score += saturated * if is_exact { 1.0 } else { BEGINNING_WEIGHT };
    }
    score
}

fn of_text(text: &str, groups: &[Vec<Phrase>]) -> f64 {
    let text = composed(text);
    let found = words(&text);
    let mut score = of_words(&found, groups);
    if groups.len() > 1 {
        let typed = || groups.iter().filter_map(|group| group.first());
        let together = Phrase {
            words: typed().flat_map(|phrase| phrase.words.clone()).collect(),
            is_prefix: typed().next_back().is_some_and(|phrase| phrase.is_prefix),
        };
        if !matches(&found, &[together]).is_empty() {
            score += TOGETHER_WEIGHT;
        }
    }
    score
}

/// Relevance of a message; higher is better.
/// Groups consist of a phrase and its other spellings.
pub(super) fn score(candidate: &Candidate<'_>, groups: &[Vec<Phrase>]) -> f64 {
    let mut score = of_text(candidate.text, groups);
    if let Some(title) = candidate.title {
        score += TITLE_WEIGHT * of_text(title, groups);
    }
    if candidate.is_result {
        score += RESULT_WEIGHT;
    }
    score
}

#[cfg(test)]
mod tests {
    use super::{super::query, *};

    fn score_of(text: &str, title: Option<&str>, question: &str) -> f64 {
        let candidate = Candidate {
            text,
            title,
            is_result: false,
        };
        score(&candidate, &query::parse(question).with)
    }

    #[test]
    fn more_relevant_results_come_first() {
        let filler = "word ".repeat(300);
        for (better, worse, question) in [
            (("the plan", None), ("the planning", None), "plan"),
            (("plan and plan", None), ("one plan", None), "plan"),
            (("red apple", None), ("red is no apple", None), "red apple"),
            (("short plan", None), (filler.as_str(), None), "plan"),
            (("a plan", None), (&*format!("{filler} plan"), None), "plan"),
            (("about it", Some("The plan")), ("a plan", None), "plan"),
        ] {
            let (better, worse) = (
                score_of(better.0, better.1, question),
                score_of(worse.0, worse.1, question),
            );
            assert!(better > worse, "{question}: {better} {worse}");
        }
    }
}
