//! The text of an entry: its form, its words, its hash, and what it must not contain.

use std::collections::BTreeMap;

use unicode_normalization::UnicodeNormalization;

use crate::{
    db::{
        Conn, DbError,
        dialect::memory::{self as store, WordCount},
    },
    ids::{MemoryId, WorkspaceId},
    memory::MemoryError,
    secrets::Keyring,
};

/// Maximum length of an entry in UTF-16 code units.
pub(super) const TEXT_UNITS_MAX: usize = 1_000;
/// Maximum length of an indexed word, in bytes.
const WORD_BYTES_MAX: usize = 64;

/// The validated text of an entry, with hashes and words that are computed before the transaction.
#[derive(Debug, Clone)]
pub struct Content {
    pub(super) text: String,
    /// Keyed hashes of the normalized text, one for each key, starting with the encrypting key. Empty if the server has no secret
    /// key.
    pub(super) hashes: Vec<String>,
    words: Vec<(String, i64)>,
}

impl Content {
    /// Validates the text of an entry.
    ///
    /// # Errors
    /// `Invalid` if the text is empty or too long, or `LooksLikeSecret`.
    pub fn parse(
        text: &str,
        workspace: WorkspaceId,
        keyring: &Keyring,
    ) -> Result<Self, MemoryError> {
        let text = text.trim();
        if text.is_empty() || text.encode_utf16().count() > TEXT_UNITS_MAX {
            let rule = format!("a memory must have 1 to {TEXT_UNITS_MAX} characters");
            return Err(MemoryError::Invalid(rule, "text"));
        }
        if looks_like_secret(text) {
            return Err(MemoryError::LooksLikeSecret);
        }
        Ok(Self {
            hashes: keyring.hashes(&format!("{}\0{}", workspace.0.simple(), normalized(text))),
            words: words_of(text),
            text: text.to_owned(),
        })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn word_count(&self) -> i64 {
        self.words.iter().map(|(_, count)| count).sum()
    }

    /// Replaces the indexed words of an entry.
    pub(super) async fn index(
        &self,
        c: &mut Conn,
        workspace: WorkspaceId,
        entry: MemoryId,
    ) -> Result<(), DbError> {
        c.q("delete from memory_words where memory_id = $1")
            .bind(entry)
            .run()
            .await?;
        let words = self.words.iter().map(|(word, count)| WordCount {
            word: word.clone(),
            count: *count,
        });
        store::insert_words(c, workspace.0, entry.0, words.collect(), self.word_count()).await
    }
}

/// Normalizes text for comparison: NFKC, lowercase, single spaces, no punctuation. Marks that belong to a word or number are kept
/// (`C++`, `C#`, `-1.5`). Text that consists only of symbols is not changed.
fn normalized(text: &str) -> String {
    let chars: Vec<char> = text.nfkc().flat_map(char::to_lowercase).collect();
    let at = |n: Option<usize>| n.and_then(|n| chars.get(n)).copied().unwrap_or(' ');
    let is_part = |n: usize| {
        let (before, after) = (at(n.checked_sub(1)), at(n.checked_add(1)));
        match chars[n] {
            '+' | '#' => before.is_alphanumeric() || matches!(before, '+' | '#'),
            '.' | ',' => before.is_numeric() && after.is_numeric(),
            '-' | '−' => !before.is_alphanumeric() && after.is_numeric(),
            c => c.is_alphanumeric(),
        }
    };
    let plain = (0..chars.len()).map(|n| if is_part(n) { chars[n] } else { ' ' });
    let plain: String = plain.collect();
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    if plain.is_empty() {
        return text.trim().to_owned();
    }
    plain
}

/// Stems of the content words in order. Words that are too long for anyone to type again are left out.
fn stems(text: &str) -> impl Iterator<Item = String> + '_ {
    let parts = text.split_inclusive(char::is_whitespace);
    let words = parts.flat_map(openvibe_extract::keywords);
    words.filter(|word| word.len() <= WORD_BYTES_MAX)
}

/// Stems of the content words, with the number of their occurrences.
pub(super) fn words_of(text: &str) -> Vec<(String, i64)> {
    let mut words: BTreeMap<String, i64> = BTreeMap::new();
    for word in stems(text) {
        *words.entry(word).or_default() += 1;
    }
    words.into_iter().collect()
}

/// The first distinct stems of the content words.
pub(super) fn words_in_order(text: &str, count_max: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in stems(text) {
        if words.len() == count_max {
            break;
        }
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

/// Beginnings of keys and tokens of common services.
const KEY_STARTS: [&str; 15] = [
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "ASIA",
    "AIza",
    "eyJhbGciOi",
];
/// Names of secrets in English, German, French, and Spanish, which are followed by a value.
const NAMES: [&str; 13] = [
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "passwort",
    "kennwort",
    "contraseña",
    "passe",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
];
/// Names that also have other meanings. They count only if they are followed by `:` or `=` and a value that is not a plain word.
const WEAK_NAMES: [&str; 5] = ["key", "pass", "pw", "clave", "login"];
/// Punctuation in passwords that rarely occurs in other words.
const PASSWORD_MARKS: [char; 6] = ['!', '%', '&', '*', '$', '^'];
const PASSWORD_CHARS_MIN: usize = 8;
const KEY_CHARS_MIN: usize = 16;
/// Minimum length of a secret that follows its name.
const VALUE_CHARS_MIN: usize = 6;
/// Minimum length of a word that is considered random. The word must also contain at least `RANDOM_DIGITS_MIN` digits.
const RANDOM_CHARS_MIN: usize = 24;
const RANDOM_DIGITS_MIN: usize = 4;

/// Checks whether a text contains a key, a token, a password, a URL with a password, or a card number.
pub fn looks_like_secret(text: &str) -> bool {
    if text.contains("-----BEGIN") || has_card_number(text) || has_credentials(text) {
        return true;
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    words.iter().enumerate().any(|(n, word)| {
        let parts = word.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.+/=".contains(c)));
        if parts.clone().any(is_key) || parts.clone().any(is_random) || is_password(word) {
            return true;
        }
        // Matches `password: hunter2`, `password=hunter2`, and `the password is hunter2`.
        let (name, value) = word.split_once([':', '=']).unwrap_or((word, ""));
        let name = bare(name).to_lowercase();
        // Matches `API_SECRET=…` and `sbx_key = …`.
        let is_named = |names: &[&str]| {
            names.contains(&name.as_str())
                || name
                    .split(['_', '-', '.'])
                    .any(|part| names.contains(&part))
        };
        let is_weak = !is_named(&NAMES);
        if is_weak && !is_named(&WEAK_NAMES) {
            return false;
        }
        let next: Vec<&str> = words[n + 1..].iter().take(2).copied().collect();
        let is_marked = word.contains([':', '=']) || matches!(next.first(), Some(&("=" | ":")));
        let value = match (value.is_empty(), next.as_slice()) {
            (false, _) => bare(value),
            (true, [mark, value]) if matches!(*mark, "is" | "=" | ":" | "ist" | "est" | "es") => {
                bare(value)
            }
            (true, [value, ..]) if is_marked => bare(value),
            _ => return false,
        };
        if is_weak {
            let is_plain = value.chars().all(char::is_alphabetic);
            return is_marked && !is_plain && is_value(&value, true);
        }
        is_value(&value, is_marked)
    })
}

/// Checks whether a word contains letters, digits, and punctuation, as do passwords that people choose.
fn is_password(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    word.chars().count() >= PASSWORD_CHARS_MIN
        && word.contains(PASSWORD_MARKS)
        && !word.contains(['/', '='])
        && word.chars().any(char::is_alphabetic)
        && word.chars().any(|c| c.is_ascii_digit())
}

/// Checks for a URL with a password, such as `postgres://app:hunter2@db/prod`.
fn has_credentials(text: &str) -> bool {
    let mut parts = text.split("://").skip(1);
    parts.any(|rest| {
        let end = |c: char| c.is_whitespace() || c == '/';
        let authority = rest.split(end).next().unwrap_or_default();
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        user.is_some_and(|user| {
            user.split_once(':')
                .is_some_and(|(_, value)| !value.is_empty())
        })
    })
}

fn is_key(word: &str) -> bool {
    word.len() >= KEY_CHARS_MIN && KEY_STARTS.iter().any(|start| word.starts_with(start))
}

/// Checks whether a word can be a secret value: it is long enough and, unless a mark precedes it, not a plain lowercase word.
fn is_value(word: &str, is_marked: bool) -> bool {
    let is_plain = word.chars().all(char::is_lowercase);
    word.chars().count() >= VALUE_CHARS_MIN && (is_marked || !is_plain)
}

/// Checks for a long word with upper- and lowercase letters and digits, as in generated keys.
fn is_random(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    word.len() >= RANDOM_CHARS_MIN
        && !word.contains('/')
        && digits >= RANDOM_DIGITS_MIN
        && word.chars().any(|c| c.is_ascii_uppercase())
        && word.chars().any(|c| c.is_ascii_lowercase())
}

/// Checks for a number of 13 to 19 digits, possibly in groups, with the check digit of a payment card.
fn has_card_number(text: &str) -> bool {
    let mut digits: Vec<u32> = Vec::new();
    let mut was_digit = false;
    for c in text.chars().chain(['.']) {
        match c.to_digit(10) {
            Some(digit) => {
                digits.push(digit);
                was_digit = true;
            }
            None if was_digit && matches!(c, ' ' | '-') => was_digit = false,
            None => {
                if (13..=19).contains(&digits.len()) && passes_luhn(&digits) {
                    return true;
                }
                digits.clear();
                was_digit = false;
            }
        }
    }
    false
}

fn passes_luhn(digits: &[u32]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(n, digit)| match (n % 2, digit * 2) {
            (0, _) => *digit,
            (_, double) if double > 9 => double - 9,
            (_, double) => double,
        })
        .sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognized_and_plain_sentences_are_not() {
        for secret in [
            "The key is sk-abcdefghijklmnop1234",
            "password: hunter22",
            "The password is Tr0ub4dor",
            "Passwort=geheim12",
            "API_KEY=abcdef123456",
            "Card 4111 1111 1111 1111, valid until May",
            "4111-1111-1111-1111",
            "-----BEGIN PRIVATE KEY-----",
            "Use aB3dE5fG7hJ9kL1mN3pQ5rS7 for the API",
            "postgres://app:hunter22@db/prod",
            "sbx_key = pk-demo-77QQ-zulu-0191",
            "API_SECRET=pp_fake_gravel88_rubber",
            "xray user: ray / pw: fibula22",
            "The wifi of the cellar is Barrel*Red19",
        ] {
            assert!(looks_like_secret(secret), "{secret}");
        }
        for plain in [
            "We forgot the password again",
            "The password is stored elsewhere",
            "The token expires after an hour",
            "The number of the order is 1234567890123",
            "See thread_01k5t00000e008000000000000 and https://example.org/a/b",
            "Commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b broke it",
            "Call +49 30 901820 on Monday",
            "See https://example.org:8080/a@b and ssh://git@example.org/a",
            "The key: Thursday stays free",
            "R&D saves 20% in 2027",
        ] {
            assert!(!looks_like_secret(plain), "{plain}");
        }
    }

    #[test]
    fn texts_that_differ_in_punctuation_and_case_are_equal() {
        assert_eq!(
            normalized("  Ship on  Friday! "),
            normalized("ship, on friday")
        );
        assert_ne!(normalized("ship on friday"), normalized("ship on monday"));
        assert_ne!(normalized("👍"), normalized("👎"));
        for (one, other) in [
            ("Written in C", "Written in C++"),
            ("Written in C", "Written in C#"),
            ("It is -1.5 degrees", "It is 1.5 degrees"),
            ("It costs 1.5 euros", "It costs 15 euros"),
        ] {
            assert_ne!(normalized(one), normalized(other), "{one}");
        }
        assert_eq!(normalized("A well-known fact."), "a well known fact");
    }

    #[test]
    fn forms_of_a_word_meet_in_its_stem() {
        let stem = |text: &str| words_of(text).remove(0).0;
        for [one, other] in [
            ["deploys", "deployed"],
            ["releases", "release"],
            ["meeting", "meetings"],
        ] {
            assert_eq!(stem(one), stem(other));
        }
        assert_eq!(words_of("Coffee, coffee").len(), 1);
        assert_eq!(words_of("Coffee, coffee")[0].1, 2);
    }
}
