//! Decision log: published resolutions, newest first, with a text search.

use super::{
    ForkError,
    resolution::{Filter, WORDS_MAX},
};
use crate::{cursor, ids::ChannelId};

const QUESTION_UNITS_MAX: usize = 200;

/// Parses the filter of the decision log.
///
/// # Errors
/// `Invalid` if the query is too long.
pub fn parse_filter(
    question: Option<&str>,
    channel: Option<ChannelId>,
) -> Result<Filter, ForkError> {
    let question = question.unwrap_or_default();
    if question.encode_utf16().count() > QUESTION_UNITS_MAX {
        return Err(ForkError::Invalid(
            format!("a search can have at most {QUESTION_UNITS_MAX} characters: shorten it"),
            "q".to_owned(),
        ));
    }
    let words = question
        .to_lowercase()
        .split_whitespace()
        .take(WORDS_MAX)
        .map(pattern)
        .collect();
    Ok(Filter { channel, words })
}

/// Returns a `like` pattern that matches texts containing the word, with `!` as the escape character.
fn pattern(word: &str) -> String {
    let mut pattern = String::with_capacity(word.len() + 2);
    pattern.push('%');
    for c in word.chars() {
        if matches!(c, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}

/// Cursor kind in this module.
const CURSOR: &str = "decisions";

/// Cursor of the page after the resolution that was published with this sequence number.
pub fn cursor_at(published_seq: i64) -> String {
    cursor::write(CURSOR, &[published_seq])
}

/// Decodes a cursor into the sequence number before which the next page starts. Returns `None` if it is not a cursor of this list.
pub fn parse_cursor(cursor: Option<&str>) -> Option<i64> {
    let Some(text) = cursor.filter(|text| !text.is_empty()) else {
        return Some(i64::MAX);
    };
    cursor::read(CURSOR, text).map(|[published_seq]| published_seq)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_words_are_taken_literally() {
        let filter = parse_filter(Some("  100% A_B "), None).unwrap();
        assert_eq!(filter.words, ["%100!%%", "%a!_b%"]);
    }

    #[test]
    fn a_foreign_cursor_is_rejected() {
        assert_eq!(parse_cursor(Some(&cursor_at(7))), Some(7));
        assert_eq!(parse_cursor(None), Some(i64::MAX));
        assert_eq!(parse_cursor(Some("dGhyZWFkczo3")), None);
    }
}
