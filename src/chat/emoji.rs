//! Spelling of emoji, and the names that people and models write between colons (`:wave:`), from the table that the web
//! client also reads.

use std::{borrow::Cow, collections::HashMap, ops::RangeInclusive, sync::LazyLock};

use unicode_properties::{EmojiStatus, UnicodeEmoji, emoji};

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

static BY_EMOJI: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
    let lines = TABLE.lines().filter_map(|line| line.split_once(' '));
    let first = |words: &'static str| words.split(' ').next().unwrap_or_default();
    lines.map(|(emoji, words)| (emoji, first(words))).collect()
});

/// Name of the emoji of a reaction as in Slack, such as `clap::skin-tone-2`: the first one of a standard emoji, or that of a custom one.
pub fn reaction_name(emoji: &str) -> String {
    const TONES: RangeInclusive<u32> = 0x1f3fb..=0x1f3ff;
    let tone = emoji.chars().next_back().map(u32::from);
    if let Some(tone) = tone.filter(|tone| TONES.contains(tone)) {
        let base = emoji.trim_end_matches(|c| TONES.contains(&u32::from(c)));
        if let Some(name) = BY_EMOJI.get(base) {
            return format!("{name}::skin-tone-{}", tone - 0x1f3f9);
        }
    }
    let name = BY_EMOJI.get(emoji).copied().unwrap_or(emoji);
    name.trim_matches(':').to_owned()
}

/// The emoji with this name, in the skin tone from `2` to `6`.
pub fn imported_emoji(name: &str, tone: Option<&str>) -> Option<String> {
    let emoji = BY_NAME.get(name)?;
    let tone: Option<u32> = tone.and_then(|tone| tone.parse().ok());
    let tone = tone.filter(|tone| (2..=6).contains(tone));
    let tone = tone.and_then(|tone| char::from_u32(0x1f3f9 + tone));
    Some(emoji.chars().chain(tone).collect())
}

/// Checks whether this is the name of an emoji of the table.
pub(super) fn is_standard(name: &str) -> bool {
    BY_NAME.contains_key(name)
}

/// Maximum length of a name.
pub(super) const NAME_BYTES_MAX: usize = 40;

pub(super) fn is_name_byte(b: u8) -> bool {
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

/// Makes the character before it an emoji instead of a text symbol.
const EMOJI_VARIATION: char = '\u{fe0f}';
const KEYCAP: char = '\u{20e3}';

fn is_modifier(c: char) -> bool {
    c.emoji_status() == EmojiStatus::EmojiPresentationAndModifierAndEmojiComponent
}

/// Checks for emoji that need `EMOJI_VARIATION`, because they are text symbols without it.
fn is_text_by_default(c: char) -> bool {
    matches!(
        c.emoji_status(),
        EmojiStatus::EmojiModifierBase
            | EmojiStatus::EmojiOther
            | EmojiStatus::EmojiOtherAndEmojiComponent
    )
}

/// The one spelling of a reaction: a known name, with or without colons, is its emoji, and an emoji is fully qualified (Unicode
/// Technical Standard 51). Any other text is unchanged.
pub(super) fn one_spelling(text: &str) -> String {
    let name = text
        .strip_prefix(':')
        .and_then(|text| text.strip_suffix(':'))
        .unwrap_or(text);
    let text = BY_NAME.get(name).copied().unwrap_or(text);
    let bare: Vec<char> = text.chars().filter(|c| *c != EMOJI_VARIATION).collect();
    let next = |at: usize| bare.get(at + 1).copied();
    let is_part = |(at, c): (usize, &char)| match c.emoji_status() {
        EmojiStatus::NonEmoji | EmojiStatus::NonEmojiButEmojiComponent => {
            at > 0 && (*c == KEYCAP || emoji::is_zwj(*c) || emoji::is_tag_character(*c))
        }
        // A digit alone is a short name.
        EmojiStatus::EmojiOtherAndEmojiComponent => next(at) == Some(KEYCAP),
        _ => true,
    };
    if bare.is_empty() || !bare.iter().enumerate().all(is_part) {
        return text.to_owned();
    }
    let mut spelled = String::with_capacity(text.len() + EMOJI_VARIATION.len_utf8());
    for (at, c) in bare.iter().enumerate() {
        spelled.push(*c);
        if is_text_by_default(*c) && !next(at).is_some_and(is_modifier) {
            spelled.push(EMOJI_VARIATION);
        }
    }
    spelled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reactions_have_names() {
        assert_eq!(reaction_name("👏🏻"), "clap::skin-tone-2");
        assert_eq!(reaction_name("👏"), "clap");
        assert_eq!(reaction_name(":party_parrot:"), "party_parrot");
    }

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
    fn an_emoji_has_one_spelling() {
        for (given, spelled) in [
            ("☺", "☺\u{fe0f}"),
            ("☺\u{fe0f}", "☺\u{fe0f}"),
            ("2\u{20e3}", "2\u{fe0f}\u{20e3}"),
            ("✌\u{fe0f}🏽", "✌🏽"),
            ("🏳\u{200d}🌈", "🏳\u{fe0f}\u{200d}🌈"),
            ("❤\u{200d}🔥", "❤\u{fe0f}\u{200d}🔥"),
            ("👩\u{200d}⚕", "👩\u{200d}⚕\u{fe0f}"),
            ("👍\u{fe0f}", "👍"),
            ("👍🏽", "👍🏽"),
            ("🇩🇪", "🇩🇪"),
            (
                "🏴\u{e0067}\u{e0062}\u{e007f}",
                "🏴\u{e0067}\u{e0062}\u{e007f}",
            ),
            ("thumbsup", "👍"),
            (":heart:", "❤\u{fe0f}"),
            ("©", "©\u{fe0f}"),
            ("party-parrot", "party-parrot"),
            (":party-parrot:", ":party-parrot:"),
            ("2", "2"),
            ("日", "日"),
            ("\u{200d}", "\u{200d}"),
        ] {
            assert_eq!(one_spelling(given), spelled, "{given:?}");
        }
        let table = TABLE.lines().filter_map(|line| line.split(' ').next());
        for emoji in table {
            assert_eq!(one_spelling(emoji), emoji);
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
