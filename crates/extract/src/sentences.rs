//! Sentences of messages.

use std::ops::Range;

use crate::{lexicon::is_month, text::fold};

/// Maximum number of characters read from a message.
const LINE_CHARS_MAX: usize = 16_000;
const LINE_SENTENCES_MAX: usize = 200;
/// Abbreviations that end with a period.
const SHORT: &str = " e.g i.e z.b d.h u.a bzw ca dr mr mrs ms st nr no usw etc vs p.ej sr sra m mme approx inkl ggf tel min max evtl mio mrd tsd ";

/// A sentence of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    pub text: String,
    /// State of a task list entry, `true` for `- [x] …`; `None` for any other line.
    pub is_ticked: Option<bool>,
    /// `true` if the sentence is part of a list entry or heading.
    pub is_entry: bool,
}

/// Splits a message into sentences. Code blocks, quoted lines, and the markers of lists and headings are left out.
pub fn sentences(text: &str) -> Vec<Sentence> {
    let end = text.char_indices().nth(LINE_CHARS_MAX).map_or(text.len(), |(at, _)| at);
    let mut found = Vec::new();
    let mut is_code = false;
    for row in text[..end].lines() {
        let row = row.trim();
        if row.starts_with("```") || row.starts_with("~~~") {
            is_code = !is_code;
            continue;
        }
        if is_code || row.starts_with('>') || row.is_empty() {
            continue;
        }
        let (row, is_entry, is_ticked) = without_list_mark(row);
        let plain = row.replace("**", "").replace("__", "");
        for text in split(&plain) {
            found.push(Sentence { text, is_ticked, is_entry });
            if found.len() == LINE_SENTENCES_MAX {
                return found;
            }
        }
    }
    found
}

fn without_list_mark(row: &str) -> (&str, bool, Option<bool>) {
    let mut rest = row.trim_start_matches('#').trim_start();
    let mut is_entry = rest.len() < row.len();
    for mark in ["- ", "* ", "• ", "– "] {
        if let Some(entry) = rest.strip_prefix(mark) {
            (rest, is_entry) = (entry.trim_start(), true);
        }
    }
    let lower = rest.get(..3).unwrap_or_default();
    let ticked = match lower {
        "[ ]" => Some(false),
        "[x]" | "[X]" => Some(true),
        _ => None,
    };
    if ticked.is_some() {
        (rest, is_entry) = (rest[3..].trim_start(), true);
    }
    (rest, is_entry, ticked)
}

fn split(row: &str) -> Vec<String> {
    sentence_ranges(row).into_iter().map(|range| row[range].to_owned()).collect()
}

/// Splits a line at `.`, `!`, `?`, and `…` before a space, but not after an abbreviation or an ordinal ("14. März").
/// The ranges exclude the spaces around sentences.
pub fn sentence_ranges(row: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    let chars: Vec<(usize, char)> = row.char_indices().collect();
    let last_word = row.rfind(char::is_alphanumeric);
    for (n, (at, c)) in chars.iter().enumerate() {
        let next = chars.get(n + 1).map(|(_, c)| *c);
        let is_end = match c {
            '。' | '！' | '？' => true,
            '.' | '!' | '?' | '…' => next.is_none_or(char::is_whitespace),
            _ => false,
        };
        if !is_end || (*c == '.' && !ends_sentence(&row[start..*at], &row[at + 1..])) {
            continue;
        }
        let end = at + c.len_utf8();
        // An emoji after the last punctuation mark belongs to the sentence before it.
        let tail = row[end..].trim_start();
        let is_last = !tail.is_empty() && last_word.is_none_or(|at| at < end);
        let end = if is_last { row.len() } else { end };
        found.push(trimmed(row, start..end));
        start = end;
        if is_last {
            break;
        }
    }
    found.push(trimmed(row, start..row.len()));
    found.retain(|range| !range.is_empty());
    found
}

fn trimmed(row: &str, range: Range<usize>) -> Range<usize> {
    let text = row[range.clone()].trim_end();
    let start = range.start + (text.len() - text.trim_start().len());
    start..(range.start + text.len()).max(start)
}

fn ends_sentence(before: &str, after: &str) -> bool {
    let last = before.rsplit(|c: char| c.is_whitespace()).next().unwrap_or_default();
    let next = after.trim_start();
    let digits = last.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let is_ordinal =
        !last.is_empty() && last.len() <= 2 && last.chars().all(|c| c.is_ascii_digit());
    let is_dated = last.contains('.') && !digits.is_empty() && digits.len() == last.len();
    if is_ordinal || is_dated {
        let word = fold(next.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default());
        let starts_lower = next.starts_with(char::is_lowercase);
        return !(starts_lower || is_month(&word));
    }
    let is_short = SHORT.contains(&format!(" {} ", last.to_lowercase()));
    !is_short || next.is_empty()
}

/// Texts of the sentences, without their other properties.
pub fn plain_sentences(text: &str) -> Vec<String> {
    sentences(text).into_iter().map(|sentence| sentence.text).collect()
}
