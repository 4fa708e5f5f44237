//! Splits text into words for the index, for queries, and for highlighting.
//!
//! Both engines use this tokenizer, so both find the same messages. A word is a run of letters and
//! digits, folded to lower case, without accents, and with compatibility forms normalized. In
//! scripts without spaces between words (Chinese, Japanese, Korean, Thai, and related ones), every
//! character is a word, and a run of them in a query is a phrase; the same applies to emoji.

use std::{borrow::Cow, collections::HashSet};

use unicode_normalization::{
    UnicodeNormalization, char::canonical_combining_class, char::is_combining_mark, is_nfc,
};

/// Maximum indexed length of a word in characters; the rest is ignored.
const WORD_CHARS_MAX: usize = 64;

/// A word of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// Folded text: letters and digits only.
    pub text: String,
    /// Byte offset in the text.
    pub start: usize,
    pub end: usize,
    /// True if the word is a single character of a script without spaces, or an emoji.
    pub is_alone: bool,
}

/// The text in Unicode normalization form C; spans of words refer to this form.
pub(super) fn composed(text: &str) -> Cow<'_, str> {
    if is_nfc(text) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.nfc().collect())
    }
}

/// Checks whether `c` belongs to a script without spaces, or is an emoji.
fn stands_alone(c: char) -> bool {
    matches!(u32::from(c),
        0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF // Thai, Lao, Burmese, Khmer
        | 0x1100..=0x11FF | 0xA960..=0xA97F | 0xAC00..=0xD7FF // Korean
        | 0x2E80..=0x2FDF | 0x3005..=0x3007 | 0x3021..=0x3029 | 0x3041..=0x31FF // Chinese, Japanese
        | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x2_0000..=0x3_FFFF)
        && c.is_alphanumeric()
        || is_emoji(c)
}

fn is_emoji(c: char) -> bool {
    // Skin tones are excluded: they only modify the preceding emoji.
    matches!(u32::from(c), 0x2600..=0x27BF | 0x1_F000..=0x1_F3FA | 0x1_F400..=0x1_FAFF)
}

/// Checks whether a character is ignored: accents, Hebrew and Arabic points, variation selectors,
/// and invisible characters.
fn is_left_out(c: char) -> bool {
    matches!(u32::from(c),
        0x0300..=0x036F | 0x0591..=0x05C7 | 0x0610..=0x061A | 0x064B..=0x065F | 0x0670 | 0x1AB0..=0x1AFF
        | 0x1DC0..=0x1DFF | 0x20D0..=0x20FF | 0xFE00..=0xFE0F | 0xFE20..=0xFE2F
        | 0x00AD | 0x200B..=0x200D | 0x2060 | 0xFEFF)
}

fn push_folded(into: &mut String, c: char) {
    for c in c.to_lowercase().flat_map(char::nfd) {
        match c {
            'ß' => into.push_str("ss"),
            'ς' => into.push('σ'),
            'ı' => into.push('i'),
            c if is_left_out(c) => {}
            c => into.push(c),
        }
    }
}

/// Collects the words of a text.
#[derive(Default)]
struct Reader {
    words: Vec<Word>,
    /// The current word, and the number of its characters so far.
    open: Option<(Word, usize)>,
}

impl Reader {
    fn close(&mut self) {
        if let Some((word, _)) = self.open.take()
            && !word.text.is_empty()
        {
            self.words.push(word);
        }
    }

    fn read(&mut self, c: char, start: usize, end: usize) {
        if is_left_out(c) {
            if let Some((word, _)) = &mut self.open {
                word.end = end;
            }
            return;
        }
        if stands_alone(c) {
            self.close();
            self.words.push(Word {
                text: c.to_string(),
                start,
                end,
                is_alone: true,
            });
            return;
        }
        let joins = is_combining_mark(c) || canonical_combining_class(c) != 0;
        if !(c.is_alphanumeric() || joins && self.open.is_some()) {
            self.close();
            return;
        }
        let (word, count) = self.open.get_or_insert_with(|| {
            let word = Word {
                text: String::new(),
                start,
                end,
                is_alone: false,
            };
            (word, 0)
        });
        word.end = end;
        *count += 1;
        if *count <= WORD_CHARS_MAX {
            push_folded(&mut word.text, c);
        }
    }
}

/// Returns the words of a `composed` text, in order.
pub(super) fn words(text: &str) -> Vec<Word> {
    let mut reader = Reader::default();
    for (start, c) in text.char_indices() {
        let end = start + c.len_utf8();
        if c.is_ascii() {
            reader.read(c, start, end);
        } else {
            for part in std::iter::once(c).nfkc() {
                reader.read(part, start, end);
            }
        }
    }
    reader.close();
    reader.words
}

/// Checks whether a `composed` text contains more than `distinct_max` distinct words. A pair of neighboring characters of a script
/// without spaces counts as a word, too, because it is indexed like one.
pub(super) fn has_more_words(text: &str, distinct_max: usize) -> bool {
    // Each byte belongs to at most one word and one pair, so a short text does not have to be counted.
    if text.len() <= distinct_max / 2 {
        return false;
    }
    let found = words(text);
    let mut seen: HashSet<(&str, &str)> = HashSet::new();
    let mut before: Option<&Word> = None;
    for word in &found {
        seen.insert(("", &word.text));
        let pair = before.filter(|before| before.is_alone && before.end == word.start);
        if let Some(before) = pair.filter(|_| word.is_alone) {
            seen.insert((&before.text, &word.text));
        }
        if seen.len() > distinct_max {
            return true;
        }
        before = Some(word);
    }
    false
}

/// Returns the folded words of a text, separated by spaces.
pub fn folded(text: &str) -> String {
    let text = composed(text);
    let mut out = String::with_capacity(text.len() + 16);
    for word in words(&text) {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&word.text);
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_folded() {
        for (text, wanted) in [
            ("Ship it on MONDAY!", "ship it on monday"),
            ("Café naïve Ångström", "cafe naive angstrom"),
            ("Cafe\u{301}", "cafe"),
            ("Straße STRASSE", "strasse strasse"),
            ("ΟΔΟΣ οδός", "οδοσ οδοσ"),
            ("İstanbul ılık", "istanbul ilik"),
            ("fork_id foo-bar don't v1.2", "fork id foo bar don t v1 2"),
            ("ﬁle Ｆｕｌｌ ²", "file full 2"),
            ("soft\u{ad}ware zero\u{200b}width", "software zerowidth"),
            ("東京タワー", "東 京 タ ワ ー"),
            ("が か\u{3099}", "が が"),
            ("한국어 ok", "한 국 어 ok"),
            ("ship🎉 👍🏽 ❤\u{fe0f}", "ship 🎉 👍 ❤"),
            ("हिन्दी भाषा", "हिन्दी भाषा"),
            ("\"*():^-+ AND = ' \0", "and"),
            ("…", ""),
        ] {
            assert_eq!(folded(text), wanted, "{text:?}");
        }
    }

    #[test]
    fn a_word_records_its_position() {
        let text = "Ein Café, bitte";
        let spans: Vec<&str> = words(text)
            .iter()
            .map(|word| &text[word.start..word.end])
            .collect();
        assert_eq!(spans, ["Ein", "Café", "bitte"]);
    }

    #[test]
    fn distinct_words_and_pairs_are_counted() {
        for (text, count) in [
            ("one two one two three one", 3),
            ("One one ONE", 1),
            // Two characters and the pair of them.
            ("東京 東京", 3),
            ("", 0),
        ] {
            assert!(!has_more_words(text, count), "{text}");
            assert!(count == 0 || has_more_words(text, count - 1), "{text}");
        }
    }

    #[test]
    fn a_very_long_word_is_indexed_by_its_prefix() {
        let long = "x".repeat(500);
        assert_eq!(folded(&long), "x".repeat(64));
        assert_eq!(words(&long)[0].end, 500);
    }

    proptest! {
        #[test]
        fn any_text_yields_words_of_letters_and_digits_within_its_bounds(text in any::<String>()) {
            let text = composed(&text);
            let mut before = 0;
            for word in words(&text) {
                prop_assert!(!word.text.is_empty());
                prop_assert!(word.text.chars().all(|c| !c.is_ascii() || c.is_ascii_alphanumeric()), "{:?}", word.text);
                prop_assert!(!word.text.contains(char::is_whitespace));
                prop_assert!(text.is_char_boundary(word.start) && text.is_char_boundary(word.end));
                prop_assert!(word.start >= before && word.start < word.end && word.end <= text.len());
                before = word.start;
            }
        }

        #[test]
        fn folding_is_idempotent(text in any::<String>()) {
            let once = folded(&text);
            prop_assert_eq!(folded(&once), once);
        }
    }
}
