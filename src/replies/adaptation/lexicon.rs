//! Measures the tone of a message with word lists (`seeds/sentiment.yaml`), without a model.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ops::RangeInclusive,
    sync::LazyLock,
};

use openvibe_extract::{LANGUAGES, Language, detect, language_of};
use serde::Deserialize;

use crate::chat::search::folded;

/// Number of words before an entry that are searched for a negation.
const NEGATION_WORDS: usize = 3;
const NEGATED: f64 = -0.74;
const BOOSTED: f64 = 1.3;
const DAMPENED: f64 = 0.7;
/// Normalization constant that dampens the score of a message with few entries.
const NORM: f64 = 15.0;
/// Maximum length of the prefix from which the language is detected.
const LANGUAGE_BYTES_MAX: usize = 4_096;

/// Characters that end a clause.
const CLAUSE_ENDS: [char; 7] = ['.', '!', '?', ';', ':', ',', '\n'];
/// Number of words of a clause that consists of little more than `unclear`, and is then about the answer.
const BARE_WORDS: usize = 2;
/// Number of words before the beginning of a clause about the answer, such as `but`.
const LEADING_WORDS: usize = 1;

/// Tone of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Tone {
    /// −1 to 1, rounded to three decimals.
    pub score: f64,
    /// 0 to 1, rounded to three decimals.
    pub intensity: f64,
    /// Number of entries that count as negative.
    pub negative_words: usize,
    /// True if the person seems not to understand something.
    pub is_confused: bool,
}

impl Tone {
    /// Neutral tone.
    const NONE: Self = Self {
        score: 0.0,
        intensity: 0.0,
        negative_words: 0,
        is_confused: false,
    };
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    words: BTreeMap<String, String>,
    #[serde(default)]
    negations: String,
    #[serde(default)]
    boosters: String,
    #[serde(default)]
    dampeners: String,
    #[serde(default)]
    confusion: String,
    #[serde(default)]
    unclear: String,
    #[serde(default)]
    answer: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seed {
    all: Section,
    en: Section,
    de: Section,
    fr: Section,
    es: Section,
}

/// A word or phrase with its valence.
#[derive(Debug)]
struct Entry {
    words: Vec<String>,
    valence: f64,
    /// True if the entry itself contains a negation; a preceding negation then has no effect.
    is_negation: bool,
}

/// Words of one language.
#[derive(Debug, Default)]
struct ToneLexicon {
    /// Entries by their first word, longest first.
    entries: HashMap<String, Vec<Entry>>,
    /// Valences of word prefixes.
    prefixes: HashMap<String, f64>,
    negations: HashSet<String>,
    boosters: HashSet<String>,
    dampeners: HashSet<String>,
    /// Phrases that express confusion, by their first word.
    confusion: Phrases,
    /// Words such as `unclear`, which express confusion in a clause about the answer.
    unclear: Phrases,
    /// Beginnings of clauses about the answer.
    answer: Phrases,
}

/// Phrases by their first word.
#[derive(Debug, Default)]
struct Phrases(HashMap<String, Vec<Vec<String>>>);

impl Phrases {
    fn read(list: &str) -> Self {
        let mut phrases = Self::default();
        for phrase in listed(list).map(words_of) {
            if let Some(first) = phrase.first().cloned() {
                phrases.0.entry(first).or_default().push(phrase);
            }
        }
        phrases
    }

    /// Phrases at the beginning of `words`.
    fn at<'a>(&'a self, words: &'a [&str]) -> impl Iterator<Item = &'a [String]> {
        let phrases = words.first().and_then(|first| self.0.get(*first));
        let phrases = phrases.into_iter().flatten().map(Vec::as_slice);
        phrases.filter(move |phrase| starts_with(words, phrase))
    }

    /// All phrases in `words`, without repetitions.
    fn within(&self, words: &[&str]) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for at in 0..words.len() {
            for phrase in self.at(&words[at..]) {
                let phrase = phrase.join(" ");
                if !found.contains(&phrase) {
                    found.push(phrase);
                }
            }
        }
        found
    }
}

/// Length of a word prefix in bytes.
const PREFIX_BYTES: RangeInclusive<usize> = 3..=16;

const SEED: &str = include_str!("../../../seeds/sentiment.yaml");

/// Word lists in the order of `LANGUAGES`.
static LEXICONS: LazyLock<Vec<ToneLexicon>> = LazyLock::new(|| {
    read(SEED).unwrap_or_else(|e| {
        tracing::error!(
            error = e,
            "seeds/sentiment.yaml is invalid; all messages count as neutral"
        );
        Vec::new()
    })
});

fn read(text: &str) -> Result<Vec<ToneLexicon>, String> {
    let seed: Seed = serde_yaml_ng::from_str(text).map_err(|e| e.to_string())?;
    [&seed.en, &seed.de, &seed.fr, &seed.es]
        .into_iter()
        .map(|section| ToneLexicon::read(section, &seed.all))
        .collect()
}

/// Items of a comma-separated list.
fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|text| !text.is_empty())
}

fn words_of(text: &str) -> Vec<String> {
    folded(text).split_whitespace().map(str::to_owned).collect()
}

fn starts_with(words: &[&str], phrase: &[String]) -> bool {
    words.len() >= phrase.len() && phrase.iter().zip(words).all(|(a, b)| a == b)
}

impl ToneLexicon {
    fn read(section: &Section, all: &Section) -> Result<Self, String> {
        let set = |text: &str| listed(text).flat_map(words_of).collect();
        let mut lexicon = Self {
            negations: set(&section.negations),
            boosters: set(&section.boosters),
            dampeners: set(&section.dampeners),
            ..Self::default()
        };
        for (valence, entries) in section.words.iter().chain(&all.words) {
            let known = valence.parse::<f64>().ok();
            let known = known.filter(|valence| (-4.0..=4.0).contains(valence));
            let valence = known.ok_or_else(|| format!("`{valence}` is not a valence"))?;
            for entry in listed(entries) {
                lexicon.add(entry, valence)?;
            }
        }
        for entries in lexicon.entries.values_mut() {
            entries.sort_by_key(|entry| std::cmp::Reverse(entry.words.len()));
        }
        lexicon.confusion = Phrases::read(&section.confusion);
        lexicon.unclear = Phrases::read(&section.unclear);
        lexicon.answer = Phrases::read(&section.answer);
        Ok(lexicon)
    }

    fn add(&mut self, entry: &str, valence: f64) -> Result<(), String> {
        let words = words_of(entry);
        if let Some(begin) = entry.strip_suffix('*') {
            let [begin]: [String; 1] = (words_of(begin).try_into())
                .map_err(|_| format!("`{entry}` is not the beginning of a word"))?;
            if !PREFIX_BYTES.contains(&begin.len()) {
                return Err(format!("`{entry}` is too short or too long"));
            }
            self.prefixes.insert(begin, valence);
            return Ok(());
        }
        let first = words.first().cloned();
        let first = first.ok_or_else(|| format!("`{entry}` has no word"))?;
        let is_negation = words.iter().any(|word| self.negations.contains(word));
        self.entries.entry(first).or_default().push(Entry {
            words,
            valence,
            is_negation,
        });
        Ok(())
    }

    /// Returns the length and valence of the longest entry at the beginning of `words`, and whether it contains a negation.
    fn entry_at(&self, words: &[&str]) -> Option<(usize, f64, bool)> {
        let word = *words.first()?;
        let mut entries = self.entries.get(word).into_iter().flatten();
        let whole = entries
            .find(|entry| starts_with(words, &entry.words))
            .map(|entry| (entry.words.len(), entry.valence, entry.is_negation));
        whole.or_else(|| self.prefix(word).map(|valence| (1, valence, false)))
    }

    fn prefix(&self, word: &str) -> Option<f64> {
        let longest = word.len().min(*PREFIX_BYTES.end());
        (*PREFIX_BYTES.start()..=longest)
            .rev()
            .filter(|end| word.is_char_boundary(*end))
            .find_map(|end| self.prefixes.get(&word[..end]).copied())
    }

    /// Returns the valences of the entries in `words`, modified by the words before each entry.
    fn valences(&self, words: &[&str]) -> Vec<f64> {
        let mut found = Vec::new();
        // Words that belong to a phrase do not modify later entries.
        let mut own_from = 0;
        let mut at = 0;
        while at < words.len() {
            let Some((length, mut valence, is_negation)) = self.entry_at(&words[at..]) else {
                at += 1;
                continue;
            };
            let before = &words[own_from.max(at.saturating_sub(NEGATION_WORDS))..at];
            if !is_negation && before.iter().any(|word| self.negations.contains(*word)) {
                valence *= NEGATED;
            }
            match before.last() {
                Some(word) if self.boosters.contains(*word) => valence *= BOOSTED,
                Some(word) if self.dampeners.contains(*word) => valence *= DAMPENED,
                _ => {}
            }
            found.push(valence);
            at += length;
            if length > 1 {
                own_from = at;
            }
        }
        found
    }

    /// Lists the phrases that express confusion, and words such as `unclear` in clauses about the answer.
    fn confusion_in(&self, text: &str, words: &[&str]) -> Vec<String> {
        let mut found = self.confusion.within(words);
        for clause in text.split(CLAUSE_ENDS) {
            let folded = folded(clause);
            let words: Vec<&str> = folded.split_whitespace().collect();
            let begins = |at: usize| {
                self.answer
                    .at(&words[at.min(words.len())..])
                    .next()
                    .is_some()
            };
            let is_about_answer = words.len() <= BARE_WORDS || (0..=LEADING_WORDS).any(begins);
            if is_about_answer {
                let mut unclear = self.unclear.within(&words);
                unclear.retain(|phrase| !found.contains(phrase));
                found.append(&mut unclear);
            }
        }
        found
    }
}

/// Finds the word list for the language of `text`; `None` if there is none. A short text without function words, such as "Perfect!",
/// gets the word list that contains most of its words.
fn lexicon_of(text: &str, words: &[&str]) -> Option<&'static ToneLexicon> {
    let mut end = text.len().min(LANGUAGE_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let begin = &text[..end];
    match language_of(begin) {
        Some(language) => {
            let at = LANGUAGES.iter().position(|known| *known == language)?;
            LEXICONS.get(at)
        }
        None if detect(begin) == Language::English => LEXICONS
            .iter()
            .rev()
            .max_by_key(|lexicon| lexicon.valences(words).len()),
        None => None,
    }
}

/// Measures the tone of a message.
pub fn tone(text: &str) -> Tone {
    let folded = folded(text);
    let words: Vec<&str> = folded.split_whitespace().collect();
    let Some(lexicon) = lexicon_of(text, &words) else {
        return Tone::NONE;
    };
    let valences = lexicon.valences(&words);
    let sum: f64 = valences.iter().sum();
    let weight: f64 = valences.iter().map(|valence| valence.abs()).sum();
    let count = f64::from(u32::try_from(words.len().max(1)).unwrap_or(u32::MAX));
    Tone {
        score: rounded(sum / (sum * sum + NORM).sqrt()),
        intensity: rounded((weight / (2.0 * count.sqrt())).min(1.0)),
        negative_words: valences.iter().filter(|valence| **valence < 0.0).count(),
        is_confused: !lexicon.confusion_in(text, &words).is_empty(),
    }
}

/// Lists the phrases in `text` that express confusion.
pub fn confusion_keywords(text: &str) -> Vec<String> {
    let folded = folded(text);
    let words: Vec<&str> = folded.split_whitespace().collect();
    lexicon_of(text, &words).map_or_else(Vec::new, |lexicon| lexicon.confusion_in(text, &words))
}

/// Rounds to three decimals, and turns −0 into 0.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0 + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replies::adaptation::state::SentimentClass;

    #[derive(Deserialize)]
    struct Labeled {
        negative: Vec<String>,
        neutral: Vec<String>,
        positive: Vec<String>,
    }

    fn class(text: &str) -> SentimentClass {
        SentimentClass::of(tone(text).score, -0.3, 0.3)
    }

    fn score(text: &str) -> f64 {
        tone(text).score
    }

    #[test]
    fn the_seed_is_valid() {
        let lexicons = read(SEED).unwrap();
        assert_eq!(lexicons.len(), LANGUAGES.len());
        for lexicon in &lexicons {
            assert!(lexicon.entries.len() > 100 && !lexicon.confusion.0.is_empty());
            assert!(!lexicon.unclear.0.is_empty() && !lexicon.answer.0.is_empty());
            assert!(lexicon.prefixes.len() < 1_000 && !lexicon.negations.is_empty());
        }
    }

    #[test]
    fn most_labeled_messages_have_their_class() {
        let languages: BTreeMap<String, Labeled> =
            serde_yaml_ng::from_str(include_str!("messages.yaml")).unwrap();
        let (mut right, mut all, mut neutral) = (0, 0, 0);
        for (language, labeled) in &languages {
            let mut of_language = 0;
            for (wanted, messages) in [
                (SentimentClass::Negative, &labeled.negative),
                (SentimentClass::Neutral, &labeled.neutral),
                (SentimentClass::Positive, &labeled.positive),
            ] {
                for message in messages {
                    all += 1;
                    of_language += usize::from(class(message) == wanted);
                    neutral += usize::from(wanted == SentimentClass::Neutral);
                }
            }
            assert!(of_language >= 24, "{language}: {of_language} of 30");
            right += of_language;
        }
        assert_eq!((languages.len(), all), (4, 120));
        assert!(right * 10 >= all * 8, "{right} of {all}");
        // A classifier that always returns "neutral" must perform much worse.
        assert!(right > 2 * neutral, "{right} and {neutral}");
    }

    #[test]
    fn negations_boosters_and_dampeners_change_a_word() {
        let good = 1.7;
        let of = |sum: f64| rounded(sum / (sum * sum + NORM).sqrt());
        for (text, sum) in [
            ("This is good", good),
            ("This is not good", good * NEGATED),
            ("This is not at all good", good * NEGATED),
            ("It does not seem to me to be good", good),
            ("This is very good", good * BOOSTED),
            ("This is slightly good", good * DAMPENED),
            ("This is not very good", good * NEGATED * BOOSTED),
            ("This isn't good", good * NEGATED),
            // An entry that contains a negation is not negated again.
            ("No, this is not bad", 1.7),
        ] {
            assert!(
                (score(text) - of(sum)).abs() < 1e-9,
                "{text}: {}",
                score(text)
            );
        }
    }

    #[test]
    fn intensity_depends_on_the_length() {
        let short = tone("This is good");
        let wanted = rounded(1.7 / (2.0 * 3_f64.sqrt()));
        assert!((short.intensity - wanted).abs() < 1e-9, "{short:?}");
        let long = tone("This is good, as far as I can see from here at the moment");
        assert!(long.intensity < short.intensity);
        let strong = tone("Horrible, terrible, awful!");
        assert!((strong.intensity - 1.0).abs() < 1e-9, "{strong:?}");
        assert_eq!(strong.negative_words, 3);
    }

    #[test]
    fn other_languages_and_empty_texts_are_neutral() {
        for text in [
            "",
            "!?",
            "42",
            "Dit is een heel slecht antwoord en ik ben er niet blij mee",
            "Это ужасный ответ",
            "これはひどい答えです",
        ] {
            let found = tone(text);
            assert!(found.score.abs() < 1e-9, "{text}: {found:?}");
        }
    }

    #[test]
    fn a_short_message_is_read_in_the_language_with_the_most_known_words() {
        for (text, wanted) in [
            ("Perfekt!", SentimentClass::Positive),
            ("Merci", SentimentClass::Positive),
            ("Horrible", SentimentClass::Negative),
            ("Genial", SentimentClass::Positive),
            ("👍", SentimentClass::Positive),
            ("Ok", SentimentClass::Neutral),
        ] {
            assert_eq!(class(text), wanted, "{text}");
        }
    }

    #[test]
    fn phrases_of_confusion_are_recognized() {
        for text in [
            "Sorry, I don't understand that.",
            "Was meinst du damit?",
            "Je ne comprends pas la deuxième étape",
            "No entiendo lo que dices",
        ] {
            assert!(tone(text).is_confused, "{text}");
        }
        assert!(!tone("I understand that now").is_confused);
        for text in [
            "This is unclear.",
            "Unclear!",
            "Sorry, but your answer is confusing",
            "Das ist unklar.",
            "Deine Erklärung ist leider verwirrend",
            "Ta réponse est confuse.",
            "Votre réponse est incompréhensible",
            "Esto es confuso.",
            "Tu explicación es poco clara",
        ] {
            assert!(tone(text).is_confused, "{text}");
        }
        for text in [
            "Clause 4 of the contract is unclear",
            "The point that is unclear is the price",
            "The signs in the harbor are confusing for visitors",
            "In der Vorlage ist die Frist unklar",
            "Le plan du port est confus pour les visiteurs",
            "El plano del puerto es confuso para los visitantes",
        ] {
            assert!(!tone(text).is_confused, "{text}");
        }
        assert_eq!(confusion_keywords("This is unclear."), ["unclear"]);
        assert_eq!(
            confusion_keywords("I'm confused: what do you mean?"),
            ["i m confused", "what do you mean"]
        );
    }

    #[test]
    fn the_longest_message_is_read() {
        let text = "This is not good, and I am annoyed. ".repeat(32 * 1024 / 36);
        let found = tone(&text);
        assert!(found.score < -0.9 && found.intensity > 0.9, "{found:?}");
    }
}
