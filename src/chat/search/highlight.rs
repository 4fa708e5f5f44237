//! Excerpts of matching text as HTML with `<mark>`.

use super::{
    any,
    words::{Word, composed, words},
};
use crate::db::dialect::search::Phrase;

/// Maximum length of an excerpt in UTF-16 code units.
const SHOWN_UNITS_MAX: usize = 240;
/// Maximum length before the first match in UTF-16 code units.
const BEFORE_UNITS_MAX: usize = 72;

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

fn is_at(phrase: &Phrase, words: &[Word]) -> bool {
    let (Some(found), Some((last, before))) =
        (words.get(..phrase.words.len()), phrase.words.split_last())
    else {
        return false;
    };
    let ends = found.last().is_some_and(|word| {
        if phrase.is_prefix {
            word.text.starts_with(last.as_str())
        } else {
            word.text == *last
        }
    });
    ends && found.iter().zip(before).all(|(word, b)| word.text == *b)
}

/// Byte spans of the matches in a text, in order and without overlaps.
pub(super) fn matches(words: &[Word], phrases: &[Phrase]) -> Vec<(usize, usize)> {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for at in 0..words.len() {
        for phrase in phrases {
            if is_at(phrase, &words[at..]) {
                spans.push((words[at].start, words[at + phrase.words.len() - 1].end));
            }
        }
    }
    spans.sort_unstable();
    let mut joined: Vec<(usize, usize)> = Vec::new();
    for (start, end) in spans {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

/// Maximum length of a run of characters at either end of a passage that is treated as a partial word.
const CUT_WORD_CHARS_MAX: usize = 30;

/// Returns about `chars_max` characters of a text around the first match of a query.
pub fn passage(text: &str, query: &str, chars_max: usize) -> String {
    let text = composed(text);
    let spans = matches(&words(&text), &any::shown_phrases(query));
    let first = spans.first().map_or(0, |(start, _)| *start);
    let before = text[..first].chars().count();
    let after = text[first..].chars().count();
    let skipped = if before + after <= chars_max {
        0
    } else {
        before.saturating_sub(chars_max / 3)
    };
    let shown: String = text.chars().skip(skipped).take(chars_max).collect();
    let mut part = shown.as_str();
    let (mut begin, mut end) = ("", "");
    // In scripts without spaces, the passage may end anywhere in a run of characters.
    let is_word = |cut: &str| cut.chars().count() <= CUT_WORD_CHARS_MAX;
    if skipped > 0 {
        begin = "… ";
        let cut = part.split_once(char::is_whitespace);
        part = cut
            .filter(|(cut, _)| is_word(cut))
            .map_or(part, |(_, rest)| rest);
    }
    if before + after > skipped + chars_max {
        end = " …";
        let cut = part.rsplit_once(char::is_whitespace);
        part = cut
            .filter(|(_, cut)| is_word(cut))
            .map_or(part, |(rest, _)| rest);
    }
    format!("{begin}{}{end}", part.trim())
}

fn push_escaped(into: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => into.push_str("&amp;"),
            '<' => into.push_str("&lt;"),
            '>' => into.push_str("&gt;"),
            '"' => into.push_str("&quot;"),
            '\'' => into.push_str("&#39;"),
            c => into.push(c),
        }
    }
}

/// Byte range of the text to show. It starts shortly before `first`, and contains only whole words if possible.
fn window(text: &str, words: &[Word], first: usize) -> (usize, usize) {
    if units(text) <= SHOWN_UNITS_MAX {
        return (0, text.len());
    }
    let start = if units(&text[..first]) <= BEFORE_UNITS_MAX {
        0
    } else {
        words
            .iter()
            .map(|word| word.start)
            .find(|start| {
                *start >= first
                    || text[*start..first].len() <= BEFORE_UNITS_MAX * 4
                        && units(&text[*start..first]) <= BEFORE_UNITS_MAX
            })
            .unwrap_or(first)
    };
    let mut left = SHOWN_UNITS_MAX - 2;
    let mut end = text.len();
    for (at, c) in text[start..].char_indices() {
        if c.len_utf16() > left {
            end = start + at;
            break;
        }
        left -= c.len_utf16();
    }
    if end == text.len() {
        return (start, end);
    }
    let whole = words
        .iter()
        .rev()
        .map(|word| word.end)
        .find(|at| *at <= end)
        .filter(|at| *at > start + (end - start) / 2);
    (start, whole.unwrap_or(end))
}

/// About 240 characters around the first match, escaped for HTML, with matches in `<mark>`; the
/// beginning of the text if nothing matches.
pub(super) fn excerpt(text: &str, phrases: &[Phrase]) -> String {
    let text = composed(text);
    let mut line = String::with_capacity(text.len());
    for part in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(part);
    }
    let words = words(&line);
    let spans = matches(&words, phrases);
    let (start, end) = window(&line, &words, spans.first().map_or(0, |span| span.0));
    marked(&line, &spans, start, end)
}

/// The whole text, escaped for HTML, with matches in `<mark>`; `None` if nothing matches.
pub(super) fn whole(text: &str, phrases: &[Phrase]) -> Option<String> {
    let text = composed(text);
    let spans = matches(&words(&text), phrases);
    (!spans.is_empty()).then(|| marked(&text, &spans, 0, text.len()))
}

fn marked(text: &str, spans: &[(usize, usize)], start: usize, end: usize) -> String {
    let mut out = String::with_capacity(end - start + 64);
    if start > 0 {
        out.push('…');
    }
    let mut at = start;
    for (from, to) in spans {
        let (from, to) = ((*from).clamp(start, end), (*to).clamp(start, end));
        if from >= to {
            continue;
        }
        push_escaped(&mut out, &text[at..from]);
        out.push_str("<mark>");
        push_escaped(&mut out, &text[from..to]);
        out.push_str("</mark>");
        at = to;
    }
    push_escaped(&mut out, &text[at..end]);
    if end < text.len() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::query, *};
    use crate::corpus;

    fn shown(text: &str, question: &str) -> String {
        excerpt(text, &query::parse(question).with.concat())
    }

    #[test]
    fn matches_are_marked_and_the_rest_is_escaped() {
        for (text, question, wanted) in [
            ("Ship the plan", "plan", "Ship the <mark>plan</mark>"),
            ("Ship the plans", "plan", "Ship the <mark>plans</mark>"),
            ("a <b>&\"'", "b", "a &lt;<mark>b</mark>&gt;&amp;&quot;&#39;"),
            (
                "Red apple, red pear",
                "\"red pear\"",
                "Red apple, <mark>red pear</mark>",
            ),
            ("Das Café ist zu", "cafe", "Das <mark>Café</mark> ist zu"),
            ("東京タワー", "タワ", "東京<mark>タワ</mark>ー"),
            ("one\n\ntwo  three", "two", "one <mark>two</mark> three"),
            ("nothing here", "absent", "nothing here"),
            ("<mark>", "mark", "&lt;<mark>mark</mark>&gt;"),
            ("foo-bar baz", "foo-bar", "<mark>foo-bar</mark> baz"),
        ] {
            assert_eq!(shown(text, question), wanted, "{text} {question}");
        }
        assert_eq!(
            whole("The plan", &query::parse("plan").with.concat()).unwrap(),
            "The <mark>plan</mark>"
        );
        assert_eq!(
            whole("The plan", &query::parse("other").with.concat()),
            None
        );
    }

    #[test]
    fn a_long_text_is_truncated_around_the_first_match() {
        let text = format!("{} needle {}", "before ".repeat(200), "after ".repeat(200));
        let found = shown(&text, "needle");
        assert!(found.starts_with("…before "), "{found}");
        assert!(found.contains(" <mark>needle</mark> after "), "{found}");
        assert!(found.ends_with("after…"), "{found}");
        assert!(units(&found) <= SHOWN_UNITS_MAX + "<mark></mark>".len());
        let one_word = shown(&"👍x".repeat(400), "x");
        assert!(one_word.ends_with('…'));
    }

    #[test]
    fn terms_and_excerpts_take_linear_time() {
        let question = query::parse("a b \"a a\" 東").with.concat();
        corpus::assert_linear(|text| {
            super::super::words::folded(text).len()
                + excerpt(text, &question).len()
                + whole(text, &question).map_or(0, |found| found.len())
        });
    }

    fn plain(html: &str) -> String {
        html.replace("<mark>", "")
            .replace("</mark>", "")
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&#39;", "'")
            .replace("&amp;", "&")
    }

    proptest! {
        #[test]
        fn an_excerpt_is_short_and_contains_no_html_except_marks(
            text in "([a-c<>&\"' \n]|é|e\u{301}|東|🎉|👨\u{200d}👩|needle){0,400}",
            question in "(needle|a|b|東|🎉|\"a b\"){1,3}",
        ) {
            let found = shown(&text, &question);
            let bare = plain(&found);
            prop_assert!(units(&bare) <= SHOWN_UNITS_MAX, "{}", units(&bare));
            let without_marks = found.replace("<mark>", "").replace("</mark>", "");
            prop_assert!(!without_marks.contains(['<', '>', '"', '\'']));
            prop_assert_eq!(found.matches("<mark>").count(), found.matches("</mark>").count());
            let line = composed(&text).split_whitespace().collect::<Vec<_>>().join(" ");
            prop_assert!(line.contains(bare.trim_matches('…')));
        }
    }
}
