//! A sentence and the information derived from its words.

use chrono::NaiveDate;

use super::{
    asking::is_question,
    cues::{Cue, Language, READ},
    tokens::{Kind, Token},
    values::{self, Value},
};

/// An occurrence of a phrase of the lexicon: tokens `at..end`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hit {
    pub(crate) cue: Cue,
    pub(crate) at: usize,
    pub(crate) end: usize,
}

/// A value that replaced another one.
#[derive(Debug, Clone)]
pub(crate) struct Edit {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The new text.
    pub(crate) text: String,
    pub(crate) key: String,
    pub(crate) date: Option<NaiveDate>,
    /// Line of the correction.
    pub(crate) line: usize,
    pub(crate) sentence: usize,
    /// Written without "on".
    pub(crate) is_bare: bool,
}

#[derive(Debug)]
pub(crate) struct Sentence {
    pub(crate) line: usize,
    /// Position in `Material::people`; `None` for agents.
    pub(crate) person: Option<usize>,
    pub(crate) is_first: bool,
    pub(crate) text: String,
    pub(crate) tokens: Vec<Token>,
    pub(crate) language: Language,
    pub(crate) hits: Vec<Hit>,
    pub(crate) values: Vec<Value>,
    /// Values that the sentence negates.
    pub(crate) denied: Vec<usize>,
    /// Sorted stems without duplicates.
    pub(crate) topic: Vec<u32>,
    pub(crate) is_question: bool,
    pub(crate) edits: Vec<Edit>,
    /// Excluded from the output because it contains a superseded value or only corrects another sentence.
    pub(crate) is_hidden: bool,
}

impl Sentence {
    pub(crate) fn has(&self, cue: Cue) -> bool {
        self.hits.iter().any(|hit| hit.cue == cue)
    }

    pub(crate) fn all(&self, cue: Cue) -> impl Iterator<Item = &Hit> {
        self.hits.iter().filter(move |hit| hit.cue == cue)
    }

    /// The first token with content.
    pub(crate) fn start(&self) -> usize {
        let is_opening = |token: &Token| {
            token.kind == Kind::Mention
                || (token.kind == Kind::Mark
                    && !token.is("+1")
                    && !token.is("-1")
                    && token.word.known.is_none())
                || token.is(",")
                || matches!(
                    token.word.text.as_str(),
                    "oh" | "ah"
                        | "hmm"
                        | "hm"
                        | "well"
                        | "so"
                        | "and"
                        | "hi"
                        | "hey"
                        | "ach"
                        | "also"
                        | "und"
                        | "na"
                        | "pues"
                        | "y"
                        | "et"
                        | "bon"
                        | "alors"
                        | "eh"
                        | "haha"
                        | "lol"
                        | "bueno"
                        | "then"
                        | "dann"
                        | "but"
                        | "aber"
                        | "pero"
                        | "mais"
                        | "¿"
                        | "¡"
                        | "entonces"
                )
        };
        self.tokens
            .iter()
            .position(|token| !is_opening(token))
            .unwrap_or(0)
    }

    pub(crate) fn begins(&self, cue: Cue) -> bool {
        let start = self.start();
        self.all(cue).any(|hit| hit.at <= start)
    }

    pub(crate) fn is_mark(&self, at: usize) -> bool {
        self.tokens
            .get(at)
            .is_none_or(|token| token.kind == Kind::Mark)
    }

    pub(crate) fn words(&self) -> usize {
        self.tokens
            .iter()
            .filter(|token| matches!(token.kind, Kind::Word | Kind::Number))
            .count()
    }

    /// Number of subjects that both sentences share.
    pub(crate) fn shared(&self, topic: &[u32]) -> usize {
        shared(&self.topic, topic)
    }

    /// Current text of a value.
    pub(crate) fn key(&self, value: usize) -> &str {
        let value = &self.values[value];
        let edit = self.edits.iter().find(|edit| edit.from == value.from);
        edit.map_or(&value.key, |edit| &edit.key)
    }

    /// The value in this sentence that another value, stated with the subjects in `other`, replaces: `None` if that
    /// value already occurs here; if there are several, the one with the same subject.
    pub(crate) fn counterpart(&self, value: &Value, other: &Self) -> Option<usize> {
        let is_kept = |at: &usize| other.held().any(|(_, said)| said.key == self.key(*at));
        if (0..self.values.len()).any(|at| self.key(at) == value.key) {
            return None;
        }
        let fits = (0..self.values.len())
            .filter(|at| self.values[*at].sort.replaces(&value.sort) && !is_kept(at));
        fits.max_by_key(|at| (self.near(&self.values[*at], other), *at))
    }

    /// Values that the sentence does not negate.
    pub(crate) fn held(&self) -> impl Iterator<Item = (usize, &Value)> {
        let values = self.values.iter().enumerate();
        values.filter(|(at, _)| !self.denied.contains(at))
    }

    /// Number of subjects near a value that another sentence shares.
    pub(crate) fn near(&self, value: &Value, other: &Self) -> usize {
        let close = value.from.saturating_sub(3)..(value.to + 4).min(self.tokens.len());
        self.tokens[close]
            .iter()
            .filter_map(|token| token.word.stem)
            .filter(|stem| other.topic.binary_search(stem).is_ok())
            .count()
    }

    /// Start of the clause that contains `at`.
    pub(crate) fn clause_start(&self, at: usize) -> usize {
        (0..at)
            .rev()
            .find(|at| {
                let token = &self.tokens[*at];
                (token.kind == Kind::Mark && !matches!(token.word.text.as_str(), "¿" | "¡"))
                    || matches!(
                        token.word.text.as_str(),
                        "and"
                            | "but"
                            | "so"
                            | "then"
                            | "und"
                            | "aber"
                            | "dann"
                            | "y"
                            | "pero"
                            | "et"
                            | "mais"
                            | "donc"
                            | "because"
                            | "that"
                    )
            })
            .map_or(0, |at| at + 1)
    }

    /// Current text of this range of tokens (end exclusive), without the tokens for which `drops` returns true.
    pub(crate) fn rendered(&self, from: usize, to: usize, drops: impl Fn(usize) -> bool) -> String {
        let mut text = String::new();
        let mut at = from;
        let mut last_end: Option<usize> = None;
        while at < to.min(self.tokens.len()) {
            let token = &self.tokens[at];
            let is_left = matches!(
                token.word.text.as_str(),
                "on" | "am" | "el" | "le" | "au" | "zum"
            ) && self
                .edits
                .iter()
                .any(|edit| edit.from == at + 1 && edit.is_bare);
            if is_left || drops(at) {
                at += 1;
                last_end = None;
                continue;
            }
            let edit = self.edits.iter().find(|edit| edit.from == at);
            let (piece, next) = match edit {
                Some(edit) => (edit.text.as_str(), edit.to.max(at + 1)),
                None => (&self.text[token.from..token.to], at + 1),
            };
            let gap = match last_end {
                Some(end) if end <= token.from => &self.text[end..token.from],
                _ => " ",
            };
            if !text.is_empty()
                && (last_end.is_some()
                    || token.kind != Kind::Mark
                    || matches!(piece, "(" | "€" | "$"))
            {
                text.push_str(gap);
            }
            text.push_str(piece);
            last_end = self.tokens.get(next - 1).map(|token| token.to);
            at = next;
        }
        // Punctuation after the last token, such as a closing quotation mark.
        if to >= self.tokens.len()
            && let Some(end) = last_end
            && end <= self.text.len()
        {
            text.push_str(&self.text[end..]);
        }
        text.replace('\u{1}', "").trim().to_owned()
    }

    /// Current text of the whole sentence.
    pub(crate) fn current(&self) -> String {
        if self.edits.is_empty() {
            return self.text.replace('\u{1}', "");
        }
        self.rendered(0, self.tokens.len(), |_| false)
    }
}

pub(crate) fn shared(a: &[u32], b: &[u32]) -> usize {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    short
        .iter()
        .filter(|stem| long.binary_search(stem).is_ok())
        .count()
}

/// Number of words per language (the last entry covers all unsupported languages), and the total number of words.
pub(crate) fn language_counts(tokens: &[Token]) -> ([usize; 5], usize) {
    let mut counts = [0; 5];
    let mut words = 0;
    for token in tokens.iter().filter(|token| token.kind == Kind::Word) {
        words += 1;
        let Some(entry) = token.word.known else {
            continue;
        };
        for (count, is_in) in counts.iter_mut().zip(entry.languages) {
            *count += usize::from(is_in);
        }
    }
    (counts, words)
}

/// Language of a whole conversation.
pub(crate) fn whole_language(counts: [usize; 5], words: usize) -> Language {
    let (best, count) = best(counts);
    if words > 0 && (count * 100 < words * 16 || counts[4] > count) {
        return Language::Other;
    }
    best
}

fn best(counts: [usize; 5]) -> (Language, usize) {
    let mut found = (Language::English, counts[0]);
    for (language, count) in READ.into_iter().zip(counts) {
        if count > found.1 {
            found = (language, count);
        }
    }
    found
}

/// Language of one sentence in a conversation in `whole`.
pub(crate) fn language(tokens: &[Token], whole: Language) -> Language {
    let (counts, words) = language_counts(tokens);
    let (best, count) = best(counts);
    let in_whole = READ
        .into_iter()
        .position(|language| language == whole)
        .map_or(0, |at| counts[at]);
    if whole == Language::Other {
        let is_clear = words >= 4 && count * 100 >= words * 45 && count > counts[4];
        return if is_clear { best } else { Language::Other };
    }
    if counts[4] >= 2 && counts[4] > count {
        return Language::Other;
    }
    if count > in_whole && (count >= 2 || in_whole == 0) {
        best
    } else {
        whole
    }
}

pub(crate) fn hits(tokens: &[Token], language: Language) -> Vec<Hit> {
    let mut hits: Vec<Hit> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let Some(entry) = token.known() else {
            continue;
        };
        for phrase in entry
            .phrases
            .iter()
            .filter(|phrase| phrase.language == language)
        {
            let end = at + 1 + phrase.rest.len();
            let matches = end <= tokens.len()
                && phrase
                    .rest
                    .iter()
                    .zip(&tokens[at + 1..end])
                    .all(|(word, token)| word == "_" || token.word.text == *word);
            if !matches {
                continue;
            }
            let known = hits
                .iter_mut()
                .rev()
                .take_while(|hit| hit.at == at)
                .find(|hit| hit.cue == phrase.cue);
            match known {
                Some(hit) => hit.end = hit.end.max(end),
                None => hits.push(Hit {
                    cue: phrase.cue,
                    at,
                    end,
                }),
            }
        }
    }
    hits
}

/// "Good morning" does not express agreement; "over 5 years" and "over lunch" do not express a choice.
fn is_meant(hit: &Hit, tokens: &[Token]) -> bool {
    const CHOICE: &str = "choose chose chosen choosing pick picked picking prefer preferred favour favor rather take \
        took taking use using go went going keep want vote voted";
    const TIME: &str = "the a an lunch dinner breakfast coffee tea zoom there here to time";
    let text = |at: usize| tokens.get(at).map_or("", |token| token.word.text.as_str());
    let next = text(hit.end);
    if hit.cue == Cue::Agree && hit.end == hit.at + 1 && text(hit.at) == "good" {
        return !is_any(next, "morning evening afternoon night day luck");
    }
    if hit.cue == Cue::InsteadOf && hit.end == hit.at + 1 && text(hit.at) == "over" {
        let is_number = next.starts_with(|c: char| c.is_ascii_digit());
        let is_choice = (0..hit.at).any(|at| is_any(text(at), CHOICE));
        return is_choice && !is_number && !is_any(next, TIME);
    }
    true
}

/// Runs all analyses for a line written on `day`.
pub(crate) fn read(
    line: usize,
    person: Option<usize>,
    is_first: bool,
    text: String,
    tokens: Vec<Token>,
    language: Language,
    day: NaiveDate,
) -> Sentence {
    let mut hits = hits(&tokens, language);
    hits.retain(|hit| is_meant(hit, &tokens));
    let values = values::values(&tokens, language, day);
    let mut topic: Vec<u32> = tokens
        .iter()
        .enumerate()
        .filter(|(at, _)| {
            !values
                .iter()
                .any(|value| (value.from..value.to).contains(at))
        })
        .filter_map(|(_, token)| token.word.stem)
        .collect();
    topic.sort_unstable();
    topic.dedup();
    let mut sentence = Sentence {
        line,
        person,
        is_first,
        is_question: false,
        text,
        tokens,
        language,
        hits,
        values,
        denied: Vec::new(),
        topic,
        edits: Vec::new(),
        is_hidden: false,
    };
    sentence.is_question = is_question(&sentence);
    sentence.denied = denied(&sentence);
    sentence
}

/// Whether a word is in this space-separated list.
pub(crate) fn is_any(word: &str, words: &str) -> bool {
    words.split_whitespace().any(|known| known == word)
}

/// Values that the sentence negates: "not Friday", "instead of Friday", "from Friday to Monday".
fn denied(sentence: &Sentence) -> Vec<usize> {
    const MOVES: &str = "moved move moving change changed shift raise raised lower lowered switch \
        verschoben verschieben ändern geändert pasamos movemos cambiamos cambiar pasa décale décalé passe reporte";
    if sentence.values.len() < 2 {
        return Vec::new();
    }
    let word = |at: usize| sentence.tokens[at].word.text.as_str();
    let is_move =
        sentence.has(Cue::Correct) || (0..sentence.tokens.len()).any(|at| is_any(word(at), MOVES));
    let is_denied_by = |value: &Value, hit: &Hit| {
        let is_near =
            hit.end <= value.from && value.from - hit.end <= 2 && hit.end + 2 >= value.lead;
        let is_plain = |at: usize| {
            let entry = sentence.tokens[at].word.known;
            entry.is_some_and(|entry| entry.is_stop) || is_any(word(at), "version versión release")
        };
        let reaches = hit.end == value.from || is_near && (hit.end..value.from).all(is_plain);
        let is_from = is_any(word(hit.at), "from von vom de del du");
        let is_left = |other: &Value| {
            other.from > value.from
                && (value.to..other.from).any(|at| is_any(word(at), "to auf a al à au zu"))
        };
        reaches && (!is_from || is_move && sentence.values.iter().any(is_left))
    };
    (0..sentence.values.len())
        .filter(|at| {
            let value = &sentence.values[*at];
            let mut hits = sentence.all(Cue::Not).chain(sentence.all(Cue::InsteadOf));
            hits.any(|hit| is_denied_by(value, hit))
        })
        .collect()
}
