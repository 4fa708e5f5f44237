//! What a conversation holds, found without a model: who said what about something, what was decided,
//! asked and promised. Deterministic; knows cues in English, German, Spanish and French.
//!
//! ```text
//! Utterance ── sentences ──> Sentence ── Dialogue::new ──> relevant, decisions, open_questions, promises
//! ```
//! Every point names the utterance that it comes from, so that a caller can give sources.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::LazyLock,
};

/// Of a longer message only the beginning is read, and of a longer conversation the end: enough for
/// fifty messages of people, and little enough to be read between two pieces of other work.
const UTTERANCE_CHARS_MAX: usize = 4_000;
const SENTENCES_MAX: usize = 1_000;
/// How many sentences later something can still be corrected.
const CORRECTED_REACH: usize = 200;
/// How many sentences later a correction without a shared word can still be about a date or a number.
const CORRECTION_REACH: usize = 6;
/// How many utterances later somebody can still agree to a proposal or answer a question.
const REPLY_REACH: usize = 3;
/// Right after a question, a message of at most so many words is taken for its answer.
const ANSWER_WORDS_MAX: usize = 10;
/// A sentence above this is cut where it is quoted.
const QUOTE_CHARS_MAX: usize = 240;

/// One message. `speaker` is `None` for text of the product, such as the header of a deep dive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Utterance {
    pub speaker: Option<Speaker>,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Speaker {
    pub name: String,
    pub is_person: bool,
}

/// Something that was said, and by which utterance (an index).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    pub utterance: usize,
    pub speaker: Option<String>,
    pub text: String,
}

/// What somebody took on, or was asked to do. `owner` is a name, or the handle that was mentioned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    pub owner: String,
    pub point: Point,
    /// The owner said so; else somebody else asked for it.
    pub is_own_word: bool,
}

#[derive(Debug, Clone)]
struct Sentence {
    utterance: usize,
    text: String,
    lower: String,
    words: BTreeSet<String>,
    values: BTreeSet<&'static str>,
}

/// A conversation cut into sentences, with what each later one corrected.
#[derive(Debug)]
pub struct Dialogue {
    utterances: Vec<Utterance>,
    sentences: Vec<Sentence>,
    /// By which sentence each sentence was corrected.
    corrected_by: Vec<Option<usize>>,
}

impl Dialogue {
    /// Utterances in the order in which they were said.
    pub fn new(utterances: Vec<Utterance>) -> Self {
        let mut sentences: Vec<Sentence> = Vec::new();
        for (utterance, said) in utterances.iter().enumerate().rev() {
            let end = said
                .text
                .char_indices()
                .nth(UTTERANCE_CHARS_MAX)
                .map(|(at, _)| at);
            let read = self::sentences(&said.text[..end.unwrap_or(said.text.len())]);
            sentences.extend(
                read.into_iter()
                    .rev()
                    .map(|text| Sentence::new(utterance, text)),
            );
            if sentences.len() >= SENTENCES_MAX {
                break;
            }
        }
        sentences.truncate(SENTENCES_MAX);
        sentences.reverse();
        let mut dialogue = Self {
            corrected_by: vec![None; sentences.len()],
            utterances,
            sentences,
        };
        dialogue.find_corrections();
        dialogue
    }

    pub fn is_empty(&self) -> bool {
        self.sentences.is_empty()
    }

    /// Names of the people who spoke, agents left out, in order of their first word.
    pub fn people(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for speaker in self
            .utterances
            .iter()
            .filter_map(|said| said.speaker.as_ref())
        {
            if speaker.is_person && !names.contains(&speaker.name.as_str()) {
                names.push(&speaker.name);
            }
        }
        names
    }

    fn find_corrections(&mut self) {
        for later in 0..self.sentences.len() {
            let correction = &self.sentences[later];
            if correction.is_question() || !has_cue(&correction.lower, CORRECTIONS) {
                continue;
            }
            let corrected = (0..later).rev().take(CORRECTED_REACH).find(|earlier| {
                let said = &self.sentences[*earlier];
                let is_near = later - earlier <= CORRECTION_REACH;
                let shares_word = said.words.intersection(&correction.words).next().is_some();
                let shares_kind = is_near && !said.values.is_disjoint(&correction.values);
                !said.is_question()
                    && said.utterance != correction.utterance
                    && (shares_word || shares_kind)
            });
            if let Some(earlier) = corrected {
                self.corrected_by[earlier] = Some(later);
            }
        }
    }

    /// The sentence that holds now in place of `index`.
    fn latest(&self, mut index: usize) -> usize {
        while let Some(later) = self.corrected_by[index] {
            index = later;
        }
        index
    }

    fn speaker(&self, sentence: &Sentence) -> Option<&Speaker> {
        self.utterances[sentence.utterance].speaker.as_ref()
    }

    fn is_by_person(&self, sentence: &Sentence) -> bool {
        self.speaker(sentence)
            .is_none_or(|speaker| speaker.is_person)
    }

    fn point(&self, index: usize) -> Point {
        let sentence = &self.sentences[index];
        Point {
            utterance: sentence.utterance,
            speaker: self.speaker(sentence).map(|speaker| speaker.name.clone()),
            text: shortened(&sentence.text),
        }
    }

    fn points(&self, indexes: impl IntoIterator<Item = usize>) -> Vec<Point> {
        let current: BTreeSet<usize> = indexes.into_iter().map(|i| self.latest(i)).collect();
        current.into_iter().map(|index| self.point(index)).collect()
    }

    /// At most `points_max` sentences about `question`, in the order in which they were said; a
    /// corrected one is replaced by its correction. A name in the question narrows it to that person.
    pub fn relevant(&self, question: &str, points_max: usize) -> Vec<Point> {
        let asked = keywords(question);
        let names: Vec<&str> = self
            .people()
            .into_iter()
            .filter(|name| keywords(name).iter().any(|word| asked.contains(word)))
            .collect();
        let by_named = |sentence: &Sentence| {
            names.is_empty()
                || self
                    .speaker(sentence)
                    .is_some_and(|s| names.contains(&s.name.as_str()))
                || names
                    .iter()
                    .any(|name| sentence.lower.contains(&name.to_lowercase()))
        };
        let topic: BTreeSet<&String> = asked
            .iter()
            .filter(|word| !names.iter().any(|name| keywords(name).contains(*word)))
            .collect();
        let count_by_word = self.word_counts();
        let score = |sentence: &Sentence| -> f64 {
            let shared = sentence.words.iter().filter(|word| topic.contains(word));
            let rarity: f64 = shared.map(|word| 1.0 / count_by_word[word].sqrt()).sum();
            let is_question = if sentence.is_question() { 0.4 } else { 1.0 };
            rarity * is_question
        };
        let scored: Vec<(f64, usize)> = self
            .sentences
            .iter()
            .enumerate()
            .filter(|(_, sentence)| by_named(sentence))
            .map(|(index, sentence)| (score(sentence), index))
            .filter(|(score, _)| *score > 0.0 || (topic.is_empty() && !names.is_empty()))
            .collect();
        self.best(scored, points_max)
    }

    /// What was decided, or proposed and agreed to by somebody else; what was corrected later is left out.
    pub fn decisions(&self) -> Vec<Point> {
        let mut found: Vec<usize> = Vec::new();
        for (index, sentence) in self.sentences.iter().enumerate() {
            if sentence.is_question() || !self.is_by_person(sentence) {
                continue;
            }
            let is_decided =
                has_cue(&sentence.lower, DECISIONS) && !has_cue(&sentence.lower, DOUBTS);
            let is_agreed = has_cue(&sentence.lower, PROPOSALS) && self.is_agreed_to(sentence);
            let corrects = found
                .iter()
                .any(|earlier| self.corrected_by[*earlier] == Some(index));
            if is_decided || is_agreed || corrects {
                // A later decision on the same matter replaces the earlier one without saying so.
                found.retain(|earlier| !self.sentences[*earlier].is_same_matter(sentence));
                found.push(index);
            }
        }
        self.points(found)
    }

    fn is_agreed_to(&self, proposal: &Sentence) -> bool {
        self.replies(proposal).any(|(index, reply)| {
            let is_by_person = self.utterances[index]
                .speaker
                .as_ref()
                .is_none_or(|s| s.is_person);
            is_by_person && begins_with_cue(&reply.to_lowercase(), AGREEMENTS)
        })
    }

    /// The next few utterances, without those of the same speaker.
    fn replies(&self, sentence: &Sentence) -> impl Iterator<Item = (usize, &str)> {
        let asker = self.utterances[sentence.utterance].speaker.clone();
        let later = self
            .utterances
            .iter()
            .enumerate()
            .skip(sentence.utterance + 1);
        later
            .take(REPLY_REACH)
            .filter(move |(_, said)| said.speaker != asker)
            .map(|(index, said)| (index, said.text.as_str()))
    }

    /// Questions of people that nobody answered. Requests (`@bo can you …?`) are promises, not questions.
    pub fn open_questions(&self) -> Vec<Point> {
        let asks = |sentence: &Sentence| {
            sentence.is_question()
                && self.is_by_person(sentence)
                && !sentence.words.is_empty()
                && asked_handle(&sentence.lower).is_none()
        };
        let indexes = self.sentences.iter().enumerate();
        let open = indexes.filter(|(_, s)| asks(s) && !self.is_answered(s));
        open.map(|(index, _)| self.point(index)).collect()
    }

    /// Somebody else says yes or no, uses a word of the question, or says something short right after it.
    fn is_answered(&self, question: &Sentence) -> bool {
        self.replies(question).any(|(index, reply)| {
            let lower = reply.to_lowercase();
            let mut statements = self
                .sentences
                .iter()
                .filter(|s| s.utterance == index && !s.is_question());
            let is_next = index == question.utterance + 1;
            let is_short = reply.split_whitespace().count() <= ANSWER_WORDS_MAX;
            begins_with_cue(&lower, AGREEMENTS)
                || begins_with_cue(&lower, REFUSALS)
                || statements.any(|said| {
                    !said.words.is_disjoint(&question.words)
                        || (is_next && is_short && !has_cue(&said.lower, CORRECTIONS))
                })
        })
    }

    /// The statements of people whose words come up most, at most `points_max`, in the order in which
    /// they were said.
    pub fn main_points(&self, points_max: usize) -> Vec<Point> {
        let counts = self.word_counts();
        let weight = |sentence: &Sentence| -> f64 {
            let repeated = sentence
                .words
                .iter()
                .map(|word| counts[word] - 1.0)
                .sum::<f64>();
            let length = f64::from(u32::try_from(sentence.words.len()).unwrap_or(u32::MAX));
            repeated / length.sqrt().max(1.0) + length.min(12.0) / 12.0
        };
        let indexes = self.sentences.iter().enumerate();
        let scored = indexes
            .filter(|(_, s)| !s.is_question() && self.is_by_person(s) && s.words.len() > 1)
            .map(|(index, sentence)| (weight(sentence), index));
        self.best(scored.collect(), points_max)
    }

    /// In how many sentences each word stands.
    fn word_counts(&self) -> BTreeMap<&String, f64> {
        let mut counts = BTreeMap::new();
        for word in self.sentences.iter().flat_map(|sentence| &sentence.words) {
            *counts.entry(word).or_default() += 1.0;
        }
        counts
    }

    /// The sentences of the highest scores (of equal ones the later), in the order in which they were said.
    fn best(&self, mut scored: Vec<(f64, usize)>, points_max: usize) -> Vec<Point> {
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        self.points(scored.into_iter().take(points_max).map(|(_, index)| index))
    }

    /// What people said they would do (`I'll …`), and what they were asked to (`@bo can you …`).
    pub fn promises(&self) -> Vec<Promise> {
        let mut promises = Vec::new();
        for (index, sentence) in self.sentences.iter().enumerate() {
            let Some(speaker) = self.speaker(sentence).filter(|speaker| speaker.is_person) else {
                continue;
            };
            let is_own_word = begins_clause_with_cue(&sentence.lower, PROMISES)
                && !sentence.is_question()
                && !has_cue(&sentence.lower, DOUBTS);
            let owner = if is_own_word {
                Some(speaker.name.clone())
            } else {
                asked_handle(&sentence.lower)
            };
            if let Some(owner) = owner {
                promises.push(Promise {
                    owner,
                    point: self.point(self.latest(index)),
                    is_own_word,
                });
            }
        }
        promises
    }
}

impl Sentence {
    fn new(utterance: usize, text: String) -> Self {
        let lower = text.to_lowercase();
        Self {
            utterance,
            words: keywords(&text),
            values: values(&lower),
            lower,
            text,
        }
    }

    fn is_question(&self) -> bool {
        self.text
            .trim_end_matches(['"', ')', '”', '»', '*', '_', ' '])
            .ends_with(['?', '？'])
    }

    /// More than half of the words of the shorter one are in both.
    fn is_same_matter(&self, other: &Self) -> bool {
        let shared = self.words.intersection(&other.words).count();
        shared > 0 && shared * 2 > self.words.len().min(other.words.len())
    }
}

/// Whether a text has the cue words of a decision.
pub fn reads_like_a_decision(text: &str) -> bool {
    let lower = text.to_lowercase();
    has_cue(&lower, DECISIONS) && !has_cue(&lower, DOUBTS)
}

/// What a question asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    Summary,
    Decisions,
    OpenQuestions,
    Promises,
    /// Something that was said.
    Answer,
}

/// Told by its words alone.
pub fn wish(question: &str) -> Wish {
    let lower = question.to_lowercase();
    let kinds = [
        (Wish::Summary, SUMMARY_WISHES),
        (Wish::OpenQuestions, QUESTION_WISHES),
        (Wish::Promises, PROMISE_WISHES),
        (Wish::Decisions, DECISION_WISHES),
    ];
    let asked = kinds.into_iter().find(|(_, cues)| has_cue(&lower, cues));
    asked.map_or(Wish::Answer, |(wish, _)| wish)
}

/// The words of a text that carry meaning: lower case, without stop words, endings cut; pairs of
/// characters where a script has no spaces.
pub fn keywords(text: &str) -> BTreeSet<String> {
    let lower = text.to_lowercase();
    let mut words = BTreeSet::new();
    for word in lower
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        if word.chars().all(is_unspaced) {
            let chars: Vec<char> = word.chars().collect();
            words.extend(chars.windows(2).map(|pair| pair.iter().collect::<String>()));
        } else if !is_stop_word(word) && (word.len() > 1 || word.as_bytes()[0].is_ascii_digit()) {
            words.insert(stem(word));
        }
    }
    words
}

/// Chinese characters, kana: no spaces between words.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

fn is_stop_word(word: &str) -> bool {
    static STOP_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
        [STOP_EN, STOP_DE, STOP_ES, STOP_FR]
            .iter()
            .flat_map(|list| list.split(' '))
            .collect()
    });
    STOP_WORDS.contains(word)
}

/// Cuts common endings, so that `shipped`, `shipping` and `ships` meet.
fn stem(word: &str) -> String {
    const ENDINGS: [&str; 7] = ["ing", "ed", "es", "en", "er", "s", "e"];
    if word.chars().count() < 5 || word.ends_with("ss") {
        return word.to_owned();
    }
    let cut = ENDINGS.iter().find_map(|ending| word.strip_suffix(ending));
    let Some(base) = cut.filter(|base| base.chars().count() >= 3) else {
        return word.to_owned();
    };
    let mut chars: Vec<char> = base.chars().collect();
    if let [.., a, b] = chars[..]
        && a == b
        && !"aeiouls".contains(a)
    {
        chars.pop();
    }
    chars.into_iter().collect()
}

/// Prose cut into sentences; code, quotes and the marks of lists and headings are left out.
pub fn sentences(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            is_code = !is_code;
            continue;
        }
        if is_code || line.starts_with('>') {
            continue;
        }
        let line = line.trim_start_matches(['#', '-', '*', '+', '•', ' ']);
        let mut start = 0;
        let mut chars = line.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let end = at + c.len_utf8();
            let is_wide = matches!(c, '。' | '！' | '？');
            let is_end = matches!(c, '.' | '!' | '?' | '…')
                && chars.peek().is_none_or(|(_, next)| next.is_whitespace())
                && !is_abbreviation(&line[start..at]);
            if is_wide || is_end {
                push_sentence(&mut found, &line[start..end]);
                start = end;
            }
        }
        push_sentence(&mut found, &line[start..]);
    }
    found
}

fn push_sentence(found: &mut Vec<String>, sentence: &str) {
    let sentence = sentence.trim().trim_matches(['*', '_']);
    if sentence.contains(char::is_alphanumeric) {
        found.push(sentence.to_owned());
    }
}

/// `e.g`, `z.B`, `Dr`, a single letter or the number of a list item before the point.
fn is_abbreviation(before: &str) -> bool {
    let word = before
        .rsplit(|c: char| c.is_whitespace() || c == '(')
        .next()
        .unwrap_or_default();
    let is_ordinal =
        word == before.trim() && !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let is_letter = word.chars().count() == 1 && word.chars().all(char::is_alphabetic);
    is_ordinal
        || is_letter
        || matches!(
            word.to_lowercase().as_str(),
            "e.g"
                | "i.e"
                | "etc"
                | "vs"
                | "dr"
                | "mr"
                | "mrs"
                | "z.b"
                | "d.h"
                | "bzw"
                | "ca"
                | "p.ej"
                | "approx"
        )
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(QUOTE_CHARS_MAX) {
        Some((at, _)) => format!("{}…", text[..at].trim_end()),
        None => text.to_owned(),
    }
}

/// Kinds of things that a correction replaces: a day, a month, a number.
fn values(lower: &str) -> BTreeSet<&'static str> {
    let words = lower.split(|c: char| !c.is_alphanumeric());
    words
        .filter_map(|word| {
            let is_in = |list: &str| !word.is_empty() && list.split(' ').any(|entry| entry == word);
            if is_in(DAYS) {
                Some("day")
            } else if is_in(MONTHS) {
                Some("month")
            } else if word.starts_with(|c: char| c.is_ascii_digit()) {
                Some("number")
            } else {
                None
            }
        })
        .collect()
}

/// Whether one of the cues (parted by `|`) stands in the text as whole words.
fn has_cue(lower: &str, cues: &str) -> bool {
    cues.split('|').any(|cue| {
        lower.match_indices(cue).any(|(at, _)| {
            let before = lower[..at].chars().next_back();
            let after = lower[at + cue.len()..].chars().next();
            !before.is_some_and(char::is_alphanumeric)
                && (!after.is_some_and(char::is_alphanumeric) || cue.chars().any(is_unspaced))
        })
    })
}

fn begins_with_cue(lower: &str, cues: &str) -> bool {
    let text = lower.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '+' && c != '👍');
    cues.split('|').any(|cue| {
        text.strip_prefix(cue)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
    })
}

/// A cue at the beginning of the sentence or of one of its parts: behind a comma, `and`, `then`.
fn begins_clause_with_cue(lower: &str, cues: &str) -> bool {
    let clauses = lower.split([',', ';', ':', '–', '—']);
    clauses
        .flat_map(|clause| [clause, after_joint(clause)])
        .any(|c| begins_with_cue(c, cues))
}

fn after_joint(clause: &str) -> &str {
    let clause = clause.trim_start();
    [
        "and ", "then ", "so ", "ok ", "okay ", "yes ", "sure ", "und ", "dann ", "y ", "et ",
        "alors ",
    ]
    .iter()
    .find_map(|joint| clause.strip_prefix(joint))
    .unwrap_or(clause)
}

/// `@bo can you …`, `@bo please …`: who is asked to do something.
fn asked_handle(lower: &str) -> Option<String> {
    lower.match_indices('@').find_map(|(at, _)| {
        let rest = &lower[at + 1..];
        let is_handle = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let length = rest.find(|c| !is_handle(c)).unwrap_or(rest.len());
        let (handle, rest) = rest.split_at(length);
        (!handle.is_empty() && begins_with_cue(rest, REQUESTS)).then(|| handle.to_owned())
    })
}

const DECISIONS: &str = "\
    we agreed|agreed to|agreed on|agreed:|decided|decision:|we'll go with|we go with|\
    let's go with|going with|we settled|settled on|settled:|it's settled|final answer|we will|\
    we'll|we are going to|we chose|approved|beschlossen|entschieden|entscheidung:|einigen uns|\
    wir nehmen|wir machen|wir bleiben bei|abgemacht|vereinbart|geeinigt|decidimos|acordamos|\
    quedamos en|decidido|acordado|decisión:|vamos con|on a décidé|nous avons décidé|décidé|\
    décision :|décision:|on part sur|on prend|nous avons convenu|c'est décidé|convenu";
const DOUBTS: &str = "\
    not decided|undecided|haven't|hasn't|not agreed|not yet|if we|unless|maybe|perhaps|might|\
    should we|before we|noch nicht|nicht entschieden|vielleicht|falls|wenn wir|quizás|tal vez|\
    no hemos|si decidimos|peut-être|pas encore|pas décidé";
const PROPOSALS: &str = "\
    let's|let us|i propose|i suggest|i'd go|i would|we should|we could|my proposal|lasst uns|\
    ich schlage|wir sollten|wir könnten|vorschlag|propongo|sugiero|deberíamos|podríamos|\
    je propose|je suggère|on devrait|on pourrait|nous devrions";
const AGREEMENTS: &str = "\
    +1|👍|agreed|agree|i agree|yes|yep|yeah|ok|okay|sounds good|works for me|fine by me|\
    fine with me|deal|perfect|good idea|let's do|ja|einverstanden|passt|klingt gut|genau|\
    gute idee|sí|si|de acuerdo|vale|perfecto|me parece bien|oui|d'accord|ça marche|parfait|\
    ça me va";
const REFUSALS: &str = "\
    no|nope|not yet|nobody|none|never|nein|niemand|noch nicht|nadie|todavía no|non|personne|\
    pas encore";
const CORRECTIONS: &str = "\
    actually|correction|instead|scratch that|rather|changed my mind|i was wrong|on second thought|\
    make it|make that|no longer|moved to|doch lieber|doch|stattdessen|korrektur|eigentlich|lieber|\
    verschoben|mejor|en lugar|en vez|corrección|en realidad|finalmente|plutôt|finalement|en fait|\
    au lieu|à la place";
const PROMISES: &str = "\
    i'll|i’ll|i will|i'm going to|i am going to|i can do|i can take|i take|i'll take|let me|\
    i'm on it|on it|ich mache|ich werde|ich kümmere|ich übernehme|ich schreibe|ich schicke|\
    ich prüfe|yo me encargo|me encargo|voy a|lo hago|je vais|je m'occupe|je m'en occupe|je ferai|\
    je prends";
const REQUESTS: &str = "\
    can you|could you|would you|will you|please|pls|kannst du|könntest du|bitte|machst du|puedes|\
    podrías|por favor|peux-tu|tu peux|pourrais-tu|s'il te plaît";
const SUMMARY_WISHES: &str = "\
    summary|summarise|summarize|sum up|tl;dr|tldr|recap|catch me up|what happened|what did i miss|\
    zusammenfassung|fasse|fass|zusammenfassen|resumen|resume|resumir|résumé|résume|résumer|\
    condense";
const DECISION_WISHES: &str = "\
    decision|decisions|decide|decided|agree|agreed|agreement|entschieden|entscheidung|\
    entscheidungen|beschlossen|decidido|decidimos|decisiones|decisión|acordado|acordamos|décidé|\
    décision|décisions|convenu";
const QUESTION_WISHES: &str = "\
    open question|open questions|still open|unanswered|what is open|what's open|offene fragen|\
    noch offen|offen|preguntas abiertas|pendiente|pendientes|questions ouvertes|en suspens";
const PROMISE_WISHES: &str = "\
    action item|action items|to-do|todo|todos|to do|who does|who will|next steps|tasks|aufgaben|\
    wer macht|wer übernimmt|nächste schritte|tareas|quién hace|próximos pasos|tâches|qui fait|\
    prochaines étapes";
const DAYS: &str = "\
    monday tuesday wednesday thursday friday saturday sunday today tomorrow montag dienstag \
    mittwoch donnerstag freitag samstag sonntag heute morgen lunes martes miércoles jueves viernes \
    sábado domingo hoy mañana lundi mardi mercredi jeudi vendredi samedi dimanche aujourd demain";
const MONTHS: &str = "\
    january february march april may june july august september october november december januar \
    februar märz mai juni juli oktober dezember enero febrero marzo abril mayo junio julio agosto \
    septiembre octubre noviembre diciembre janvier février mars avril juin juillet août septembre \
    octobre novembre décembre";
const STOP_EN: &str = "\
    a about above after again all also am an and any anyone are as at be because been before being \
    below between both but by can could did do does doing done down each else ever few for from \
    further get go had has have having he her here hers him his how however i if in into is it its \
    just know let like many may me might more most must my no nor not now of off ok on once one \
    only or other our out over own please re said same say says see she should so some something \
    still such tell than that the their them then there these they thing think this those though \
    through to too under until up us use very was we were what when where which while who whom \
    whose why will with would yes yet you your ll ve don didn doesn isn t s m d";
const STOP_DE: &str = "\
    aber alle als also am an auch auf aus bei bin bis bitte da damit dann das dass dein dem den \
    der des dich die dies diese dir doch du durch ein eine einem einen einer es etwas für gegen \
    gibt hat haben habe hast hier hin ich ihr im in ist ja jede kann kein keine man mehr mein mich \
    mir mit muss nach nicht noch nun nur ob oder ohne schon sein sich sie sind so soll über um und \
    uns unter vom von vor war was wann warum weil wenn wer werden wie wieder wir wird wo zu zum \
    zur";
const STOP_ES: &str = "\
    al algo así aún con como cómo cuando cuándo cual cuál de del desde donde dónde el ella ellos \
    en entre era es esa ese eso esta está están este esto fue ha hay la las le les lo los más me \
    mi muy ni no nos nosotros o para pero por porque qué que quién se ser si sí sin sobre son su \
    sus también te tiene todo tu tú un una unos y ya yo";
const STOP_FR: &str = "\
    à au aux avec ce ces cet cette ceci cela comme dans de des donc du elle en est et être eu fait \
    il ils je la le les leur lui ma mais me même mes moi mon ne nos notre nous on ont ou où par \
    pas pour pourquoi qu quand que quel quelle qui quoi sa sans se ses si son sont sur ta te tes \
    toi ton tu un une va vos votre vous y c d j l m n s t";

#[cfg(test)]
mod tests {
    use super::*;

    fn dialogue(lines: &[(&str, &str)]) -> Dialogue {
        let said = |(name, text): &(&str, &str)| Utterance {
            speaker: Some(Speaker {
                name: name.trim_end_matches('*').to_owned(),
                is_person: !name.ends_with('*'),
            }),
            text: (*text).to_owned(),
        };
        Dialogue::new(lines.iter().map(said).collect())
    }

    fn texts(points: &[Point]) -> Vec<&str> {
        points.iter().map(|point| point.text.as_str()).collect()
    }

    #[test]
    fn prose_is_cut_into_sentences_and_code_is_left_out() {
        let text = "## Plan\nShip v1.2 on Friday. Or Monday?  e.g. early!\n1. First\n> quoted\n```\ncode.\n```\n- last point\n今日は。はい。";
        assert_eq!(
            sentences(text),
            [
                "Plan",
                "Ship v1.2 on Friday.",
                "Or Monday?",
                "e.g. early!",
                "1. First",
                "last point",
                "今日は。",
                "はい。"
            ]
        );
    }

    #[test]
    fn forms_of_one_word_meet() {
        assert_eq!(keywords("shipping"), keywords("shipped"));
        assert_eq!(keywords("release"), keywords("the releases"));
        assert_eq!(keywords("decided"), keywords("decide"));
        assert_eq!(keywords("What did you say about it?"), BTreeSet::new());
    }

    #[test]
    fn a_decision_that_was_corrected_gives_way() {
        let talk = dialogue(&[
            ("Ada", "We agreed to ship the importer on Friday."),
            ("Bo", "The fair needs a quiet day before it."),
            ("Ada", "Actually, Monday is better then."),
            ("Bo", "Agreed."),
            ("Cy", "We decided on Postgres for the archive."),
            ("Cy", "We have not decided on the colour yet."),
        ]);
        assert_eq!(
            texts(&talk.decisions()),
            [
                "Actually, Monday is better then.",
                "We decided on Postgres for the archive."
            ]
        );
    }

    #[test]
    fn a_proposal_is_a_decision_once_somebody_else_agrees() {
        let agreed = dialogue(&[
            ("Ada", "Let's use blue for the logo."),
            ("Bo", "Sounds good!"),
        ]);
        assert_eq!(texts(&agreed.decisions()), ["Let's use blue for the logo."]);
        let alone = dialogue(&[
            ("Ada", "Let's use blue for the logo."),
            ("Ada", "Yes."),
            ("Bo", "No."),
        ]);
        assert_eq!(texts(&alone.decisions()), Vec::<&str>::new());
        let agent = dialogue(&[("Vibe*", "We decided to buy it."), ("Bo", "Hm.")]);
        assert_eq!(texts(&agent.decisions()), Vec::<&str>::new());
    }

    #[test]
    fn decisions_are_found_in_four_languages() {
        for text in [
            "Wir haben beschlossen, am Montag zu liefern.",
            "Decidimos entregar el lunes.",
            "On part sur lundi pour la livraison.",
            "We'll go with Monday.",
        ] {
            assert_eq!(texts(&dialogue(&[("Ada", text)]).decisions()), [text]);
        }
    }

    #[test]
    fn a_question_is_open_until_somebody_else_says_something() {
        let talk = dialogue(&[
            ("Ada", "Who tests the importer?"),
            ("Bo", "Cy does."),
            ("Bo", "What does the licence cost?"),
            ("Cy", "And who pays for it?"),
        ]);
        let open = talk.open_questions();
        assert_eq!(
            texts(&open),
            ["What does the licence cost?", "And who pays for it?"]
        );
        assert_eq!(open[0].utterance, 2);
    }

    #[test]
    fn a_change_of_subject_is_no_answer_and_a_request_no_question() {
        let talk = dialogue(&[
            ("Bo", "Who tells the customers?"),
            (
                "Ada",
                "Actually, let's ship it on Monday, for the fair needs two quiet days before it.",
            ),
            ("Bo", "@cy can you check the backups?"),
            ("Ada", "Do we need a banner?"),
            ("Cy", "No, that is too much."),
        ]);
        assert_eq!(texts(&talk.open_questions()), ["Who tells the customers?"]);
    }

    #[test]
    fn the_main_points_are_about_what_comes_up_most() {
        let talk = dialogue(&[
            ("Ada", "The importer fails on large files."),
            ("Bo", "Nice weather today, everybody."),
            ("Cy", "Large files break the importer since the update."),
        ]);
        assert_eq!(
            texts(&talk.main_points(2)),
            [
                "The importer fails on large files.",
                "Large files break the importer since the update."
            ]
        );
    }

    #[test]
    fn promises_have_an_owner() {
        let talk = dialogue(&[
            (
                "Ada",
                "Good point, I'll write the release notes by Thursday.",
            ),
            ("Bo", "@cy can you check the backups?"),
            ("Cy", "Ich kümmere mich um die Folien."),
            ("Cy", "Will I'll be a word?"),
            ("Vibe*", "I will help."),
        ]);
        let promises: Vec<(String, bool)> = talk
            .promises()
            .into_iter()
            .map(|p| (p.owner, p.is_own_word))
            .collect();
        assert_eq!(
            promises,
            [
                ("Ada".to_owned(), true),
                ("cy".to_owned(), false),
                ("Cy".to_owned(), true)
            ]
        );
    }

    #[test]
    fn what_is_relevant_shares_rare_words_with_the_question() {
        let talk = dialogue(&[
            ("Ada", "The importer is slow. The budget is 5000 euros."),
            ("Bo", "I like the new logo."),
            ("Cy", "The importer reads CSV files only."),
            ("Ada", "Correction, the budget is 6000 euros."),
        ]);
        assert_eq!(
            texts(&talk.relevant("which files does the importer read?", 1)),
            ["The importer reads CSV files only."]
        );
        assert_eq!(
            texts(&talk.relevant("What is our budget?", 3)),
            ["Correction, the budget is 6000 euros."]
        );
        assert_eq!(
            texts(&talk.relevant("what did Bo say?", 3)),
            ["I like the new logo."]
        );
        assert!(talk.relevant("How is the weather in Lisbon?", 3).is_empty());
    }

    #[test]
    fn a_wish_is_told_by_its_words() {
        for (question, wanted) in [
            ("please summarise this", Wish::Summary),
            ("TL;DR?", Wish::Summary),
            ("Fasse das bitte zusammen", Wish::Summary),
            ("what did we decide?", Wish::Decisions),
            ("what is still open?", Wish::OpenQuestions),
            ("Who does what?", Wish::Promises),
            ("what speaks for Monday?", Wish::Answer),
        ] {
            assert_eq!(wish(question), wanted, "{question}");
        }
    }
}
