//! Places for passages that are near to a question by meaning, among those that words find.

use std::collections::HashSet;

use uuid::Uuid;

use crate::{
    db::{
        Conn, DbError,
        dialect::search::{self as store, PassageScope},
    },
    meaning::QuestionVector,
    text_enum::text_enum,
};

/// One in this many places goes to passages that words did not find.
pub(super) const SHARE: usize = 4;

text_enum! {
    /// Search that found a passage.
    pub enum FoundBy {
        Words = "words",
        /// Only by meaning.
        Meaning = "meaning",
        Both = "both",
    }
}

text_enum! {
    /// Ranking of the hits of a search.
    pub enum PassageRanking {
        /// By words alone, although a model for search by meaning is named: passages still get vectors, its server is slow or fails, or there
        /// is too little memory.
        Words = "words",
        /// By words and by meaning.
        Both = "both",
    }
}

/// The number of a passage, with its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Hit {
    pub(super) no: i64,
    pub(super) score: f64,
    pub(super) found_by: FoundBy,
}

/// Hits that words alone found.
pub(super) fn by_words(hits: impl IntoIterator<Item = (i64, f64)>) -> Vec<Hit> {
    let hits = hits.into_iter().map(|(no, score)| Hit {
        no,
        score,
        found_by: FoundBy::Words,
    });
    hits.collect()
}

/// The passages in a scope that are nearest to a question, with their similarity, best first. As with words, the tables decide who can read
/// a file.
pub(super) async fn find(
    c: &mut Conn,
    scope: &PassageScope<'_>,
    question: &QuestionVector,
) -> Result<Vec<(i64, f64)>, DbError> {
    let sets: HashSet<Uuid> = store::list_visible_sets(c, scope)
        .await?
        .into_iter()
        .map(|(set,)| set)
        .collect();
    if sets.is_empty() {
        return Ok(Vec::new());
    }
    question.nearest(c, scope.workspace, sets).await
}

/// Merges hits by words and by meaning, each best first, into at most `limit` hits. A quarter of the places, rounded down, goes to the nearest
/// passages that are not among the first `known` hits of words, and more only if words find fewer.
///
/// Scores of the two cannot be compared: passages that only meaning places come last, with the score of the last hit of words, or, if there
/// is none, with the share of the best similarity.
pub(super) fn merge(
    words: &[(i64, f64)],
    near: &[(i64, f64)],
    limit: usize,
    known: usize,
) -> Vec<Hit> {
    let first: HashSet<i64> = words.iter().take(known).map(|(no, _)| *no).collect();
    let ranked: HashSet<i64> = words.iter().map(|(no, _)| *no).collect();
    let nearest: HashSet<i64> = near.iter().take(limit).map(|(no, _)| *no).collect();
    let others = near.iter().filter(|(no, _)| !first.contains(no));
    let others: Vec<(i64, f64)> = others.take(limit).copied().collect();
    let kept = (limit / SHARE).min(others.len());
    let shown = words.len().min(limit - kept);
    let mut hits: Vec<Hit> = words[..shown]
        .iter()
        .map(|(no, score)| Hit {
            no: *no,
            score: *score,
            found_by: if nearest.contains(no) {
                FoundBy::Both
            } else {
                FoundBy::Words
            },
        })
        .collect();
    let last = hits.last().map(|hit| hit.score);
    let best = others.first().map_or(1.0, |(_, similarity)| *similarity);
    let by_meaning = others.iter().take(limit - shown);
    hits.extend(by_meaning.map(|(no, similarity)| Hit {
        no: *no,
        score: last.unwrap_or(if best > 0.0 {
            (similarity / best).max(0.0)
        } else {
            0.0
        }),
        found_by: if ranked.contains(no) {
            FoundBy::Both
        } else {
            FoundBy::Meaning
        },
    }));
    hits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(words: &[i64], near: &[i64], limit: usize) -> Vec<String> {
        let scored = |numbers: &[i64]| -> Vec<(i64, f64)> {
            let scores = (0..).map(|n| 1.0 / f64::from(n + 1));
            numbers.iter().copied().zip(scores).collect()
        };
        let hits = merge(&scored(words), &scored(near), limit, limit);
        let shown = hits
            .iter()
            .map(|hit| format!("{} {}", hit.no, hit.found_by));
        shown.collect()
    }

    #[test]
    fn a_quarter_of_the_places_goes_to_passages_that_words_did_not_find() {
        let words: Vec<i64> = (1..=20).collect();
        assert_eq!(
            hits(&words, &[50, 2, 60, 70], 8),
            [
                "1 words",
                "2 both",
                "3 words",
                "4 words",
                "5 words",
                "6 words",
                "50 meaning",
                "60 meaning"
            ]
        );
        // Passages that words rank beyond the limit were found by both.
        assert_eq!(
            hits(&words, &[20], 4),
            ["1 words", "2 words", "3 words", "20 both"]
        );
        assert_eq!(hits(&words, &[50], 3), ["1 words", "2 words", "3 words"]);
    }

    #[test]
    fn meaning_gets_more_places_only_if_words_find_fewer() {
        assert_eq!(
            hits(&[1], &[50, 1, 60, 70, 80], 4),
            ["1 both", "50 meaning", "60 meaning", "70 meaning"]
        );
        assert_eq!(hits(&[], &[50, 60], 4), ["50 meaning", "60 meaning"]);
        assert_eq!(hits(&[1, 2], &[], 4), ["1 words", "2 words"]);
        // Words keep places that meaning cannot fill.
        let words: Vec<i64> = (1..=20).collect();
        assert_eq!(hits(&words, &[], 8).len(), 8);
        assert_eq!(hits(&words, &[1, 2], 8).len(), 8);
    }

    #[test]
    fn passages_that_only_meaning_finds_come_last() {
        let merged = merge(&[(1, 4.0), (2, 2.0)], &[(9, 0.8)], 4, 4);
        let scores: Vec<f64> = merged.iter().map(|hit| hit.score).collect();
        assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
        let alone = merge(&[], &[(9, 0.8), (8, 0.4)], 4, 4);
        assert!((alone[0].score - 1.0).abs() < 1e-9 && (alone[1].score - 0.5).abs() < 1e-9);
    }
}
