//! Words and phrases per language, read from `seeds/extract/`. The syntax of a phrase is described in `all.txt`.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{LazyLock, OnceLock},
};

use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use crate::text::{Kind, Token, fold, is_unspaced, tokens};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Language {
    English,
    German,
    French,
    Spanish,
    /// Any other language: its text is quoted but not analyzed.
    Other,
}

/// The languages with data files, in the order of [`Language`].
pub const LANGUAGES: [Language; 4] =
    [Language::English, Language::German, Language::French, Language::Spanish];

macro_rules! cues {
    ($($(#[$doc:meta])* $name:ident = $section:literal),* $(,)?) => {
        /// Property of a sentence that contains a phrase from a section of the data files. The strings in `cues!` are the names of
        /// these sections.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Cue { $($(#[$doc])* $name),* }
        pub(crate) const CUES: &[(Cue, &str)] = &[$((Cue::$name, $section)),*];
    };
}

cues! {
    Assent = "assent",
    Ok = "ok",
    Decide = "decide",
    /// Announces a decision.
    Declare = "declare",
    Propose = "propose",
    Dissent = "dissent",
    Yield = "yield",
    Refuse = "refuse",
    Commit = "commit",
    Bare = "bare",
    Request = "request",
    Assign = "assign",
    Need = "need",
    Correct = "correct",
    Instead = "instead",
    Not = "not",
    But = "but",
    Retract = "retract",
    Defer = "defer",
    Chatter = "chatter",
    Joke = "joke",
    Machine = "machine",
    Hedge = "hedge",
    Condition = "condition",
    Done = "done",
    Unsure = "unsure",
    Pending = "pending",
    Fact = "fact",
    Ask = "ask",
    Inquiry = "inquiry",
    Tag = "tag",
    Or = "or",
    Idle = "idle",
    /// A weak sign of a commitment by the speaker: counts only together with a day.
    Weak = "weak",
    /// Refers to something said before.
    Pronoun = "pronoun",
    /// Something that happens immediately, on the day of the message.
    Now = "now",
    /// Laughter.
    Laugh = "laugh",
    /// Asks whether anybody knows.
    Anyone = "anyone",
    /// A plain no.
    No = "no",
    Aside = "aside",
    /// Reports what somebody outside of the conversation asks.
    Reported = "reported",
    /// Thanks, or confirms that something was read.
    Acknowledge = "acknowledge",
}

/// Cues whose bits are set.
pub(crate) fn members(cues: u64) -> impl Iterator<Item = Cue> {
    CUES.iter().map(|(cue, _)| *cue).filter(move |cue| cues & (1 << *cue as u64) != 0)
}

/// Memory limit for the compiled phrases of a language, in bytes.
const PATTERN_BYTES_MAX: usize = 64 << 20;

#[derive(Debug)]
pub(crate) struct Lexicon {
    pub(crate) language: Language,
    function: HashSet<String>,
    suffixes: Vec<String>,
    /// Compiled when a sentence is read: most processes only need the words.
    patterns: OnceLock<CuePatterns>,
    /// Folded names of weekdays, from 0 (Monday) to 6, and of months, from 1 to 12.
    pub(crate) weekdays: HashMap<String, u32>,
    pub(crate) months: HashMap<String, u32>,
    pub(crate) numbers: HashMap<String, u32>,
    /// Phrases used in dates, by section.
    dates: Phrases,
    templates: HashMap<String, String>,
}

/// The phrases of each cue.
#[derive(Debug)]
struct CuePatterns {
    set: RegexSet,
    patterns: Vec<(Cue, Regex)>,
}

/// Match of a phrase, with its token range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) cue: Cue,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

const FILES: [(Language, &str); 5] = [
    (Language::English, include_str!("../../../seeds/extract/en.txt")),
    (Language::German, include_str!("../../../seeds/extract/de.txt")),
    (Language::French, include_str!("../../../seeds/extract/fr.txt")),
    (Language::Spanish, include_str!("../../../seeds/extract/es.txt")),
    (Language::Other, ""),
];
const COMMON: &str = include_str!("../../../seeds/extract/all.txt");
const OTHERS: &str = include_str!("../../../seeds/extract/other.txt");

static LEXICONS: LazyLock<Vec<Lexicon>> =
    LazyLock::new(|| FILES.iter().map(|(language, _)| Lexicon::read(*language)).collect());

/// Function words of unsupported languages, one set per language.
static FOREIGN: LazyLock<Vec<HashSet<String>>> = LazyLock::new(|| {
    let rows = OTHERS.lines().filter(|row| !row.starts_with("//") && !row.trim().is_empty());
    rows.map(|row| row.split_whitespace().map(fold).collect()).collect()
});

pub(crate) fn lexicon(language: Language) -> &'static Lexicon {
    &LEXICONS[language as usize]
}

/// Checks whether a folded word is a function word of any of the languages.
pub fn is_function_word(word: &str) -> bool {
    LEXICONS.iter().any(|lexicon| lexicon.function.contains(word))
}

/// Checks whether a folded word is a function word of a language.
pub fn is_function_word_of(language: Language, word: &str) -> bool {
    lexicon(language).is_function(word)
}

/// Maximum length of a word that is stemmed.
const STEMMED_BYTES_MAX: usize = 64;

/// Stem of a word in an unknown language. Removes the endings of all languages repeatedly, so that all forms of a
/// word have the same stem.
pub(crate) fn all_stem(word: &str) -> &str {
    let mut stem = word;
    // The time is quadratic in the length.
    if word.len() > STEMMED_BYTES_MAX {
        return stem;
    }
    loop {
        let stems = LEXICONS.iter().map(|lexicon| lexicon.stem(stem));
        let shorter = stems.min_by_key(|stem| stem.len()).unwrap_or(stem);
        if shorter.len() == stem.len() {
            return stem;
        }
        stem = shorter;
    }
}

/// Content words of a text whose language is not known: excludes the function words of all four languages and removes the endings of
/// all of them. Use [`content_words`] if the language is known.
pub fn keywords(text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for token in tokens(text).iter().filter(|token| token.is_text()) {
        let word = token.word.trim_start_matches('@');
        if word.chars().any(is_unspaced) {
            let chars: Vec<char> = word.chars().collect();
            words.extend(chars.windows(2).map(|pair| pair.iter().collect::<String>()));
        } else if !is_function_word(word)
            && (word.len() > 1 || word.starts_with(|c: char| c.is_ascii_digit()))
        {
            words.insert(all_stem(word).to_owned());
        }
    }
    words
}

pub(crate) fn is_month(folded: &str) -> bool {
    LEXICONS.iter().any(|lexicon| lexicon.months.contains_key(folded))
}

/// Phrases as lists of words, by section.
type Phrases = HashMap<String, Vec<Vec<String>>>;
type Sections = HashMap<String, Vec<String>>;

/// Sections of the data files of a language.
fn sections(language: Language) -> Sections {
    let mut all = Sections::new();
    add_sections(COMMON, &mut all);
    add_sections(FILES[language as usize].1, &mut all);
    all
}

fn add_sections(file: &str, into: &mut Sections) {
    let mut name = String::new();
    for row in file.lines() {
        let row = row.split("//").next().unwrap_or_default().trim();
        if row.is_empty() {
            continue;
        }
        match row.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(section) if !section.contains(' ') && !section.contains('|') => {
                section.clone_into(&mut name);
            }
            _ => into.entry(name.clone()).or_default().push(row.to_owned()),
        }
    }
}

fn rows_of(all: &Sections, name: &str) -> Vec<String> {
    all.get(name).cloned().unwrap_or_default()
}

/// Regular expressions that find the phrases of each cue.
fn cue_patterns(all: &Sections) -> Vec<(Cue, String)> {
    let lead = rows_of(all, "lead").iter().map(|row| elements(row)).collect::<Vec<_>>().join("|");
    let mut patterns = Vec::new();
    for (cue, section) in CUES {
        let (anchored, free): (Vec<_>, Vec<_>) =
            rows_of(all, section).into_iter().partition(|row| row.starts_with('^'));
        let joined = |rows: Vec<String>| {
            let parts: Vec<String> =
                rows.iter().map(|row| elements(row.trim_start_matches('^'))).collect();
            format!("(?:{})", parts.join("|"))
        };
        let mut phrases = Vec::new();
        if !anchored.is_empty() {
            // A sentence starts with a space; a punctuation mark starts a new part.
            phrases.push(format!("(?:\\A|[^a-z0-9@\"'_]) (?:{lead})*{}", joined(anchored)));
        }
        if !free.is_empty() {
            phrases.push(format!(" {}", joined(free)));
        }
        if phrases.is_empty() {
            continue;
        }
        patterns.push((*cue, phrases.join("|")));
    }
    patterns
}

impl CuePatterns {
    fn read(language: Language) -> Self {
        let patterns = cue_patterns(&sections(language));
        let set = RegexSetBuilder::new(patterns.iter().map(|(_, text)| text))
            .size_limit(PATTERN_BYTES_MAX)
            .dfa_size_limit(PATTERN_BYTES_MAX)
            .build()
            .unwrap_or_else(|_| RegexSet::empty());
        let patterns = patterns
            .into_iter()
            .map(|(cue, text)| {
                (cue, RegexBuilder::new(&text).size_limit(PATTERN_BYTES_MAX).build())
            })
            .filter_map(|(cue, regex)| Some((cue, regex.ok()?)))
            .collect();
        Self { set, patterns }
    }
}

impl Lexicon {
    fn read(language: Language) -> Self {
        let all = sections(language);
        let rows = |name: &str| rows_of(&all, name);
        let words = |name: &str| -> Vec<String> {
            rows(name).iter().flat_map(|row| row.split_whitespace()).map(fold).collect()
        };
        let numbered = |name: &str, first: u32| -> HashMap<String, u32> {
            let rows = rows(name);
            let rows = (first..).zip(&rows);
            rows.flat_map(|(n, row)| row.split_whitespace().map(move |word| (fold(word), n)))
                .collect()
        };
        let mut suffixes = words("suffixes");
        suffixes.sort_by_key(|suffix| std::cmp::Reverse(suffix.len()));
        let phrases = |prefix: &str| -> Phrases {
            let named =
                all.iter().filter_map(|(name, rows)| Some((name.strip_prefix(prefix)?, rows)));
            let phrase = |row: &String| tokens(row).into_iter().map(|token| token.word).collect();
            named.map(|(name, rows)| (name.to_owned(), rows.iter().map(phrase).collect())).collect()
        };
        let dates = phrases("date-");
        let templates = rows("templates")
            .iter()
            .filter_map(|row| row.split_once('='))
            .map(|(name, text)| (name.trim().to_owned(), text.trim().replace('·', " ")))
            .collect();
        Self {
            language,
            function: words("function").into_iter().collect(),
            suffixes,
            patterns: OnceLock::new(),
            weekdays: numbered("weekdays", 0),
            months: numbered("months", 1),
            numbers: numbered("numbers", 1),
            dates,
            templates,
        }
    }

    pub(crate) fn is_function(&self, word: &str) -> bool {
        self.function.contains(word)
    }

    /// A sentence template or fixed phrase; empty if the file does not have it.
    pub(crate) fn template(&self, name: &str) -> &str {
        self.templates.get(name).map_or("", String::as_str)
    }

    /// Length in tokens of the longest phrase of a `date-` section at the start of these words.
    pub(crate) fn date_phrase(&self, section: &str, words: &[&str]) -> Option<usize> {
        let phrases = self.dates.get(section)?;
        let fits = |phrase: &&Vec<String>| {
            phrase.len() <= words.len() && phrase.iter().zip(words).all(|(a, b)| a == b)
        };
        phrases.iter().filter(fits).map(Vec::len).max()
    }

    /// Returns the lexicon's phrases found in `text`, as token ranges; at most 8 hits per pattern. `text` must have the form ` word
    /// word `, as from `pattern_text`.
    pub(crate) fn hits(&self, text: &str) -> Vec<Hit> {
        let mut hits = Vec::new();
        let place = |at: usize| text[..at].matches(' ').count();
        let found = self.patterns.get_or_init(|| CuePatterns::read(self.language));
        for n in &found.set.matches(text) {
            let (cue, regex) = &found.patterns[n];
            for hit in regex.find_iter(text).take(8) {
                let from = place(hit.start());
                let to = place(hit.end()).saturating_sub(1);
                hits.push(Hit { cue: *cue, from, to: to.max(from) });
            }
        }
        hits
    }

    /// Stem of a folded word.
    pub(crate) fn stem<'a>(&self, word: &'a str) -> &'a str {
        for suffix in &self.suffixes {
            if let Some(stem) = word.strip_suffix(suffix.as_str())
                && stem.chars().count() >= 3
            {
                return stem;
            }
        }
        word
    }

    /// Stem of a content word; `None` for function words and marks.
    pub(crate) fn content(&self, token: &Token) -> Option<String> {
        let is_word = token.is_text() && !self.is_function(&token.word);
        let is_long = token.word.len() > 1 || token.kind == Kind::Number;
        (is_word && is_long).then(|| match token.kind {
            Kind::Word => self.stem(&token.word).to_owned(),
            Kind::Mention => token.word.trim_start_matches('@').to_owned(),
            _ => token.word.clone(),
        })
    }
}

/// A phrase as a regular expression over ` word word `: every element includes the space after it.
fn elements(row: &str) -> String {
    let mut pattern = String::new();
    for element in row.split_whitespace() {
        let (element, is_optional) =
            match element.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                Some(inner) => (inner, true),
                None => (element, false),
            };
        let part = match element {
            "$" => "(?:[.!…] |[^ a-z0-9?]+ )*\\z".to_owned(),
            "…" => "(?:[^ ]+ ){0,4}?".to_owned(),
            "_" => "[^ .,!?;:…]+ ".to_owned(),
            "#" => "[^ ]*\\d[^ ]* ".to_owned(),
            "@" => "@[^ ]+ ".to_owned(),
            "," => ", ".to_owned(),
            words => {
                let alternatives: Vec<String> = words.split('|').map(alternative).collect();
                format!("(?:{})", alternatives.join("|"))
            }
        };
        pattern.push_str(&part);
        if is_optional {
            pattern.truncate(pattern.len() - part.len());
            pattern += "(?:";
            pattern += &part;
            pattern += ")?";
        }
    }
    pattern
}

fn alternative(text: &str) -> String {
    if text == "*" {
        return "[^ ]+ ".to_owned();
    }
    if let Some(suffix) = text.strip_prefix('_') {
        return format!("[^ .,!?;:…]+{} ", regex::escape(&fold(suffix)));
    }
    let (text, is_prefix) = match text.strip_suffix('*') {
        Some(stem) => (stem, true),
        None => (text, false),
    };
    let words = tokens(text).into_iter().map(|token| regex::escape(&token.word));
    let joined = words.collect::<Vec<_>>().join(" ");
    format!("{joined}{} ", if is_prefix { "[^ ]*" } else { "" })
}

/// Content words of a text, as stems in order of appearance, without function words. Texts in scripts without spaces are cut into
/// pairs of characters. Numbers and names are content words, too.
///
/// A language is needed because endings differ: use [`crate::Reading::language`], or [`detect`] for a text that is not part of a
/// conversation.
pub fn content_words(text: &str, language: Language) -> Vec<String> {
    let lexicon = lexicon(language);
    let mut words = Vec::new();
    for token in tokens(text) {
        if token.word.chars().any(is_unspaced) {
            let chars: Vec<char> = token.word.chars().collect();
            words.extend(chars.windows(2).map(|pair| pair.iter().collect::<String>()));
        } else if let Some(word) = lexicon.content(&token) {
            words.push(word);
        }
    }
    words
}

/// Counts of function words per language, for language detection.
#[derive(Debug, Default, Clone)]
pub(crate) struct LanguageCounts {
    known: [usize; 4],
    foreign: Vec<usize>,
    words: usize,
}

impl LanguageCounts {
    pub(crate) fn add(&mut self, tokens: &[Token]) {
        self.foreign.resize(FOREIGN.len(), 0);
        for token in tokens.iter().filter(|token| token.kind == Kind::Word && !token.is_quoted) {
            self.words += 1;
            for (count, language) in self.known.iter_mut().zip(LANGUAGES) {
                *count += usize::from(lexicon(language).is_function(&token.word));
            }
            for (count, foreign) in self.foreign.iter_mut().zip(FOREIGN.iter()) {
                *count += usize::from(foreign.contains(&token.word));
            }
        }
    }

    /// The language with the most function words. `Other` if the text does not seem to be in a supported language, and `otherwise` if
    /// it is short and contains no function words.
    pub(crate) fn language(&self, otherwise: Language) -> Language {
        let (best, count) = LANGUAGES
            .into_iter()
            .zip(self.known)
            .rev()
            .max_by_key(|(_, count)| *count)
            .unwrap_or((otherwise, 0));
        let foreign = self.foreign.iter().copied().max().unwrap_or(0);
        if foreign > count || (self.words >= 12 && count * 7 < self.words) {
            return Language::Other;
        }
        if count == 0 { otherwise } else { best }
    }

    /// Language of one line. It differs from the conversation's language only if there is clear evidence.
    pub(crate) fn line_language(&self, whole: Language) -> Language {
        let own = self.known.get(whole as usize).copied().unwrap_or(0);
        let best = LANGUAGES.into_iter().zip(self.known).max_by_key(|(_, count)| *count);
        best.filter(|(_, count)| *count >= 3 && *count > own * 2)
            .map_or(whole, |(language, _)| language)
    }
}

/// Language of a text according to its function words; `None` if there are none, or if the language is not supported.
pub fn language_of(text: &str) -> Option<Language> {
    let mut counts = LanguageCounts::default();
    counts.add(&tokens(text));
    let language = counts.language(Language::Other);
    (language != Language::Other).then_some(language)
}

/// Language of a text that is not part of a conversation.
pub fn detect(text: &str) -> Language {
    let mut counts = LanguageCounts::default();
    counts.add(&tokens(text));
    let is_foreign = text.chars().filter(|c| c.is_alphabetic()).any(|c| c as u32 > 0x24f);
    counts.language(if is_foreign { Language::Other } else { Language::English })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phrase_of_the_data_files_is_read() {
        for lexicon in LEXICONS.iter() {
            let found = CuePatterns::read(lexicon.language);
            assert_eq!(found.set.len(), found.patterns.len(), "{:?}", lexicon.language);
            assert!(!found.patterns.is_empty());
        }
    }
}
