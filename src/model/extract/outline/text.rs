//! Converts sentences to lines of an outline.

use super::HEADLINE_MAX;

/// "Send you the draft" becomes "Send the draft".
pub(super) fn without_receiver(text: &str, lead: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    match words.as_slice() {
        [verb, "you" | "u", rest @ ..]
            if lead.is_empty()
                && !rest.is_empty()
                && !matches!(rest[0], "know" | "to" | "in" | "on") =>
        {
            format!("{verb} {}", rest.join(" "))
        }
        _ => text.to_owned(),
    }
}

pub(super) fn is_short(text: &str) -> bool {
    text.split_whitespace().count() <= 4
}

/// Converts a question to a statement, with a capital letter at the start and a period at the end.
pub(super) fn statement(text: &str) -> String {
    let text = text
        .trim()
        .trim_start_matches(['¿', '¡', ',', ':', ' '])
        .trim_end_matches(['?', ' ', ',', ';', ':', '-']);
    let is_closed = text.ends_with(['.', '!', '…', ')', '”', '。']);
    let text = capitalised(text);
    if text.is_empty() || is_closed {
        text
    } else {
        format!("{text}.")
    }
}

pub(super) fn statement_or_question(text: &str) -> String {
    if text.trim_end().ends_with('?') {
        capitalised(text.trim())
    } else {
        statement(text)
    }
}

pub(super) fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) if first.is_lowercase() && !text.starts_with("http") => {
            first.to_uppercase().chain(chars).collect()
        }
        _ => text.to_owned(),
    }
}

/// Truncates to this many words.
pub(super) fn shortened(text: &str, words_max: usize) -> String {
    let text = text.trim();
    let units = text.encode_utf16().count();
    if text.split_whitespace().count() <= words_max && units <= 240 {
        return text.to_owned();
    }
    let kept: Vec<&str> = text.split_whitespace().take(words_max).collect();
    let kept = kept.join(" ");
    let cut = within(&kept, 238);
    format!("{}…", cut.trim_end_matches([',', ';', ':', '.', ' ']))
}

/// Truncates to this many characters.
pub(crate) fn shortened_to(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((at, _)) => format!("{}…", text[..at].trim_end()),
        None => text.to_owned(),
    }
}

/// Truncates to this many UTF-16 code units.
pub(super) fn within(text: &str, units_max: usize) -> &str {
    let mut units = 0;
    for (at, c) in text.char_indices() {
        units += c.len_utf16();
        if units > units_max {
            return &text[..at];
        }
    }
    text
}

pub(super) fn headline(text: &str) -> String {
    let text = text.trim().trim_end_matches('.');
    if text.encode_utf16().count() <= HEADLINE_MAX && text.split_whitespace().count() <= 18 {
        return text.to_owned();
    }
    let short = shortened(text, 16);
    let cut = within(short.trim_end_matches('…'), HEADLINE_MAX - 1);
    let cut = if cut.len() < short.trim_end_matches('…').len() {
        cut.rsplit_once(' ').map_or(cut, |(cut, _)| cut)
    } else {
        cut
    };
    format!("{}…", cut.trim_end())
}
