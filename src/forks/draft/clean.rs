//! Cleans a field of the model's answer to one line of plain text, and shortens texts to a maximum length.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::pattern;
use crate::replies::lines::one_line;

/// Maximum number of passes that remove tags. Several are needed because removing a tag can create another one. After the last one,
/// every `<` is removed.
const TAG_ROUNDS_MAX: usize = 8;

/// HTML tags as models write them. Without attributes, only known HTML names count as tags, so
/// `Vec<String>` is kept.
static TAG: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?is)<!--.*?-->|<!doctype[^<>]*>|</[a-z][^<>]*>|<[a-z][a-z0-9-]*\s[^<>]*=[^<>]*>|<(?:a|abbr|article|b|big|blockquote|body|br|button|canvas|center|code|dd|del|details|div|dl|dt|em|embed|font|footer|form|frame|h[1-6]|head|header|hr|html|i|iframe|img|input|ins|kbd|li|link|main|mark|math|meta|nav|object|ol|option|p|pre|q|s|samp|script|section|select|small|span|strike|strong|style|sub|summary|sup|svg|table|tbody|td|template|textarea|tfoot|th|thead|title|tr|u|ul|var|video)(?:\s[^<>]*)?/?>",
    )
});
/// Tags that separate words.
static BLOCK: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i)^</?(?:br|p|div|[uo]l|li|t[rdh]|hr|h[1-4]|table|section)(?:[^a-z0-9]|$)")
});
static SCRIPT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?is)<script\b[^<>]*>.*?</script\s*>|<style\b[^<>]*>.*?</style\s*>")
});
static IMAGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"!\[([^\[\]]*)\]\([^()]*\)"));
static MARK: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^(?:#{1,6} |[-*+•–] |>+ ?|\d{1,2}\) |\d{1,2}\. |```\w* |\[[ xX]\] |(?:-{3,}|={3,}|\*{3,})(?: |$))",
    )
});
/// Dates such as `3. March` in many European languages, which are not list items.
static ORDINAL_DATE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)^\d{1,2}\. (?:jan|feb|mar|mär|apr|mai|may|jun|jul|aug|sep|oct|okt|nov|dec|dez|quart|platz)",
    )
});

/// Returns one line without tags, control characters, or leading marks of headings, lists, and quotes. Code between backticks is
/// unchanged, because the conversation may be about tags.
pub(super) fn clean(text: &str) -> String {
    let shown: String = text.chars().filter_map(visible).collect();
    let shown = SCRIPT.replace_all(&shown, " ");
    let mut parts: Vec<String> = shown.split('`').map(str::to_owned).collect();
    let last = parts.len() - 1;
    for (nth, part) in parts.iter_mut().enumerate() {
        // Every second part is code, except for an unclosed last part.
        if nth % 2 == 0 || nth == last {
            *part = without_tags(part);
        }
    }
    let line = one_line(&IMAGE.replace_all(&parts.join("`"), "$1"));
    let line = without_marks(&line);
    let says_something = line.contains(|c: char| c.is_alphanumeric() || !c.is_ascii());
    if says_something { line } else { "" }.to_owned()
}

/// The character to keep: a space for a line break, and `None` for control, bidirectional, and
/// invisible characters, which can disguise text.
fn visible(c: char) -> Option<char> {
    match c {
        '\n' | '\r' | '\t' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => Some(' '),
        '\u{ad}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}'
        | '\u{feff}' => None,
        c => (!c.is_control()).then_some(c),
    }
}

fn without_tags(text: &str) -> String {
    let gap = |tag: &Captures<'_>| if BLOCK.is_match(&tag[0]) { " " } else { "" };
    let mut text = text.to_owned();
    for _ in 0..TAG_ROUNDS_MAX {
        let less = TAG.replace_all(&text, gap).into_owned();
        if less == text {
            return text;
        }
        text = less;
    }
    text.replace('<', "")
}

/// Removes leading marks, and emphasis or quotes around the whole field.
fn without_marks(mut line: &str) -> &str {
    loop {
        let mark = MARK.find(line).filter(|_| !ORDINAL_DATE.is_match(line));
        let mut rest = line[mark.map_or(0, |mark| mark.end())..].trim();
        for mark in ["**", "__", "\"", "'", "*"] {
            let inner = rest.strip_prefix(mark);
            let inner = inner.and_then(|inner| inner.strip_suffix(mark));
            if let Some(inner) = inner.filter(|inner| !inner.contains(mark)) {
                rest = inner.trim();
                break;
            }
        }
        if rest.len() == line.len() {
            return line;
        }
        line = rest;
    }
}

/// Length in UTF-16 code units.
pub(super) fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

pub(super) fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// Shortens a text to at most `units_max` UTF-16 code units, including the `…`, after a whole word if possible.
pub(super) fn cut_to_units(text: &str, units_max: usize) -> String {
    if units(text) <= units_max {
        return text.to_owned();
    }
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += c.len_utf16();
        used >= units_max
    });
    let (kept, rest) = text.split_at(end.map_or(text.len(), |(at, _)| at));
    let at_word = kept.rfind(char::is_whitespace);
    // Text without spaces, and very long words, are cut inside a word.
    let at_word =
        at_word.filter(|at| at * 2 > kept.len() && !rest.starts_with(char::is_whitespace));
    ellipsis(&kept[..at_word.unwrap_or(kept.len())])
}

/// Shortens a text to its first `words_max` words, followed by `…`.
pub(super) fn cut_to_words(text: &str, words_max: usize) -> String {
    if words(text) <= words_max {
        return text.to_owned();
    }
    let kept: Vec<&str> = text.split_whitespace().take(words_max).collect();
    ellipsis(&kept.join(" "))
}

fn ellipsis(text: &str) -> String {
    let kept = text.trim_end_matches(|c: char| c.is_whitespace() || ",;:.-–(…".contains(c));
    let end = if kept.is_empty() { "" } else { "…" };
    format!("{kept}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_becomes_one_line_of_plain_text() {
        for (field, wanted) in [
            ("  We ship\non Friday.\r\n", "We ship on Friday."),
            ("# We **ship**", "We **ship**"),
            ("- [ ] Ada ships", "Ada ships"),
            ("> 1. quoted", "quoted"),
            ("2) second", "second"),
            ("**All bold**", "All bold"),
            ("**Two** bold **words**", "**Two** bold **words**"),
            ("\"quoted whole\"", "quoted whole"),
            ("3. März ist der Tag", "3. März ist der Tag"),
            ("2026. That year", "2026. That year"),
            ("<b>Ship</b> it<br/>now", "Ship it now"),
            ("a <script>alert(1)</script> b", "a b"),
            ("<scr<b>ipt>x", "x"),
            ("<img src=x onerror=alert(1)>hi", "hi"),
            ("<custom-thing onclick=x>hi</custom-thing>", "hi"),
            ("![seen](https://x.example/p.png) it", "seen it"),
            (
                "Vec<String> stays, so does 1 < 2 and 3 > 2",
                "Vec<String> stays, so does 1 < 2 and 3 > 2",
            ),
            ("use `<dialog>` instead", "use `<dialog>` instead"),
            ("one ` <b>open", "one ` open"),
            ("bell\u{7} and \u{202e}turn", "bell and turn"),
            ("<div> ``` ", ""),
            ("***", ""),
            ("# # # # # # # # # # - > ", ""),
            ("👍", "👍"),
            ("", ""),
        ] {
            assert_eq!(clean(field), wanted, "{field:?}");
        }
    }

    #[test]
    fn texts_are_truncated_at_words_with_an_ellipsis() {
        assert_eq!(cut_to_units("one two three", 13), "one two three");
        assert_eq!(cut_to_units("one two three", 9), "one two…");
        assert_eq!(cut_to_units("one two three", 8), "one two…");
        assert_eq!(cut_to_units("onetwothree", 5), "onet…");
        assert_eq!(units(&cut_to_units(&"👍".repeat(50), 21)), 21);
        assert_eq!(cut_to_words("one two, three", 2), "one two…");
        assert_eq!(cut_to_words("one two", 2), "one two");
        assert_eq!(cut_to_units("", 5), "");
    }
}
