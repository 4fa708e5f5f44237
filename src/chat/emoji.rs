//! Emoji names that people and models write between colons (`:wave:`), from the table that the web
//! client also reads.

use std::{borrow::Cow, collections::HashMap, sync::LazyLock};

/// Each line is `CHARACTER NAME… [| SEARCH WORD…]`.
static TABLE: &str = include_str!("../../web/src/lib/emoji.txt");

static BY_NAME: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
    let lines = TABLE.lines().filter_map(|line| line.split_once(' '));
    lines
        .flat_map(|(emoji, words)| {
            let names = words.split(' ').take_while(|word| *word != "|");
            names.map(move |name| (name, emoji))
        })
        .collect()
});

const NAME_BYTES_MAX: usize = 40;

fn is_name_byte(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'+' | b'-')
}

fn is_word_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// Replaces emoji names with emoji. A name next to a word or another colon remains text, as in
/// `std::ok::x`.
pub(super) fn with_emoji(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut out = String::new();
    let mut done = 0;
    for (at, _) in text.match_indices(':') {
        if at < done {
            continue;
        }
        let is_after_emoji = at == done && done > 0;
        let before = at.checked_sub(1).map(|before| bytes[before]);
        if !is_after_emoji && before.is_some_and(|b| is_word_byte(b) || b == b':') {
            continue;
        }
        let name_bytes = bytes[at + 1..].iter().take(NAME_BYTES_MAX + 1);
        let end = at + 1 + name_bytes.take_while(|b| is_name_byte(**b)).count();
        if bytes.get(end) != Some(&b':') || bytes.get(end + 1).copied().is_some_and(is_word_byte) {
            continue;
        }
        if let Some(emoji) = BY_NAME.get(&text[at + 1..end]) {
            out.push_str(&text[done..at]);
            out.push_str(emoji);
            done = end + 1;
        }
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emoji_names_are_replaced_outside_of_words() {
        for (text, wanted) in [
            (":wave: hello", "👋 hello"),
            ("done:tada: :rocket:!", "done:tada: 🚀!"),
            (":tada::rocket:", "🎉🚀"),
            (":+1: :white_check_mark:", "👍 ✅"),
            (
                "std::x::y 10:100:20 :nothing: :Wave: :wave",
                "std::x::y 10:100:20 :nothing: :Wave: :wave",
            ),
            (":wave:s a:wave: (:wave:)", ":wave:s a:wave: (👋)"),
            ("::wave::", "::wave::"),
        ] {
            assert_eq!(with_emoji(text), wanted, "{text}");
        }
    }

    #[test]
    fn each_name_maps_to_one_emoji() {
        let names: usize = TABLE
            .lines()
            .map(|line| {
                line.split(' ')
                    .skip(1)
                    .take_while(|word| *word != "|")
                    .count()
            })
            .sum();
        assert_eq!(BY_NAME.len(), names);
        assert!(BY_NAME.keys().all(|name| name.bytes().all(is_name_byte)));
    }
}
