//! Units: the sentences of a conversation with their acts, which are read from phrases of the data files.

use chrono::NaiveDate;

use crate::{
    lexicon::{Cue, Hit, Language, Lexicon, lexicon, members},
    people::{Named, People},
    sentences::Sentence,
    text::{Kind, Token},
    values::{self, Value},
};

macro_rules! acts {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Function of a sentence in a conversation. A sentence can have several.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Act { $($(#[$doc])* $name),* }
        const ACTS: &[Act] = &[$(Act::$name),*];
    };
}

acts! {
    Statement,
    Question,
    /// Suggests something to the group, possibly as a question.
    Proposal,
    /// States that something is settled, or makes a decision alone.
    Decision,
    Assent,
    Dissent,
    /// Gives up an objection.
    Yielding,
    /// The speaker takes on a task.
    Commitment,
    /// Asks somebody to do something, or states what somebody else does.
    Request,
    /// The speaker cannot or will not do something.
    Refusal,
    /// States that something has to be done, or asks who does it.
    Need,
    Correction,
    Retraction,
    Deferral,
    /// Small talk, laughter, and emoji.
    Chatter,
    Joke,
    /// Orders to an assistant, reader, or system, including quoted ones.
    Machine,
    /// States that the speaker does not know the answer.
    Unsure,
    /// A maybe, or a condition.
    Hedge,
    /// States that something is already done.
    Done,
}

/// A replaced part of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    /// Token positions.
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) new: String,
    pub(crate) line: usize,
}

#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) line: usize,
    /// Number of lines by people before this one; distances are counted in such lines.
    pub(crate) turn: usize,
    pub(crate) day: NaiveDate,
    /// `None` for agents.
    pub(crate) person: Option<usize>,
    pub(crate) text: String,
    pub(crate) tokens: Vec<Token>,
    pub(crate) named: Vec<Option<Named>>,
    pub(crate) hits: Vec<Hit>,
    pub(crate) values: Vec<Value>,
    /// Stems of content words without names, sorted.
    pub(crate) words: Vec<String>,
    /// The words that are not part of a value or of a phrase that expresses a decision or agreement, sorted.
    pub(crate) subject: Vec<String>,
    pub(crate) acts: u32,
    /// Bit set of [`Cue`]s.
    pub(crate) cues: u64,
    pub(crate) language: Language,
    pub(crate) is_ticked: Option<bool>,
    pub(crate) edits: Vec<Edit>,
}

impl Unit {
    pub(crate) fn is(&self, act: Act) -> bool {
        self.acts & (1 << act as u32) != 0
    }

    pub(crate) fn add(&mut self, act: Act) {
        self.acts |= 1 << act as u32;
    }

    pub(crate) fn acts(&self) -> impl Iterator<Item = Act> {
        ACTS.iter().copied().filter(|act| self.is(*act))
    }

    /// Cues found in the unit, each once.
    pub(crate) fn cues(&self) -> impl Iterator<Item = Cue> {
        members(self.cues)
    }

    pub(crate) fn has(&self, cue: Cue) -> bool {
        self.hits.iter().any(|hit| hit.cue == cue)
    }

    pub(crate) fn all(&self, cue: Cue) -> impl Iterator<Item = &Hit> {
        self.hits.iter().filter(move |hit| hit.cue == cue)
    }

    /// Checks whether the unit is chatter, a joke, a quotation, or text for machines. Such units never become results.
    pub(crate) fn is_idle(&self) -> bool {
        let idle = [Act::Chatter, Act::Joke, Act::Machine];
        self.is_quotation() || idle.iter().any(|act| self.is(*act))
    }

    /// Checks whether most of the sentence is somebody else's words.
    pub(crate) fn is_quotation(&self) -> bool {
        self.tokens.iter().filter(|token| token.is_quoted).count() * 2 > self.tokens.len()
    }

    /// Number of content words that are not numbers.
    pub(crate) fn terms(&self) -> usize {
        self.words.iter().filter(|word| !word.starts_with(|c: char| c.is_ascii_digit())).count()
    }

    pub(crate) fn shared(&self, other: &Self) -> usize {
        self.words.iter().filter(|word| other.words.binary_search(word).is_ok()).count()
    }

    /// Checks whether a sentence only agrees or states that something is settled.
    pub(crate) fn is_bare_assent(&self) -> bool {
        (self.is(Act::Assent) || self.is(Act::Decision))
            && self.subject.is_empty()
            && self.values.is_empty()
            && self.people().next().is_none()
    }

    /// Checks whether the two subjects have at least two words each and none in common.
    pub(crate) fn has_other_subject(&self, other: &Self) -> bool {
        let is_other = |word: &String| other.subject.binary_search(word).is_err();
        self.subject.len().min(other.subject.len()) >= 2 && self.subject.iter().all(is_other)
    }

    /// People who are named or mentioned, in order of appearance.
    pub(crate) fn people(&self) -> impl Iterator<Item = usize> {
        self.named.iter().filter_map(|named| match named {
            Some(Named::Person(at)) => Some(*at),
            _ => None,
        })
    }

    pub(crate) fn addresses_agent(&self) -> bool {
        self.named
            .iter()
            .zip(&self.tokens)
            .any(|(named, token)| *named == Some(Named::Agent) && token.kind == Kind::Mention)
            || self.named.iter().find(|named| named.is_some()) == Some(&Some(Named::Agent))
                && self.named.first() == Some(&Some(Named::Agent))
    }

    /// The text from one token to another, with corrected values.
    pub(crate) fn render(&self, from: usize, to: usize) -> String {
        let mut text = String::new();
        let Some(first) = self.tokens.get(from).filter(|_| from < to) else {
            return text;
        };
        let mut at = first.from;
        let end = self.tokens[to - 1].to;
        for edit in self.edits.iter().filter(|edit| from <= edit.from && edit.to <= to) {
            let start = self.tokens[edit.from].from;
            if start >= at {
                text.push_str(&self.text[at..start]);
                text.push_str(&edit.new);
                at = self.tokens[edit.to - 1].to;
            }
        }
        text.push_str(&self.text[at..end]);
        text
    }
}

/// Text for phrase matching, in the form ` word word `: a name becomes `@name`, a quoted word becomes a quotation mark.
fn pattern_text(tokens: &[Token], named: &[Option<Named>], with_quotes: bool) -> String {
    let mut text = String::from(" ");
    for (token, named) in tokens.iter().zip(named) {
        if token.is_quoted && !with_quotes {
            text.push('"');
        } else {
            if matches!(named, Some(Named::Person(_))) && token.kind != Kind::Mention {
                text.push('@');
            }
            text.push_str(&token.word.replace(' ', "_"));
        }
        text.push(' ');
    }
    text
}

pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) turn: usize,
    pub(crate) person: Option<usize>,
    pub(crate) day: NaiveDate,
}

pub(crate) fn read(
    place: &Place,
    sentence: Sentence,
    tokens: Vec<Token>,
    language: Language,
    people: &People,
) -> Unit {
    let lexicon = lexicon(language);
    let named: Vec<Option<Named>> =
        tokens.iter().map(|token| people.named(token, &sentence.text, lexicon)).collect();
    let hits = lexicon.hits(&pattern_text(&tokens, &named, false));
    let cues = hits.iter().fold(0, |set, hit| set | 1 << hit.cue as u64);
    let values = values::find(&sentence.text, &tokens, lexicon, place.day);
    // "+1" is not an amount.
    let is_vote = |value: &Value| {
        let covers = |hit: &Hit| hit.from <= value.from && value.to <= hit.to;
        hits.iter().any(|hit| hit.cue == Cue::Assent && covers(hit))
    };
    let values: Vec<Value> = values
        .into_iter()
        .filter(|value| !tokens[value.from].is_quoted && !is_vote(value))
        .collect();
    let content: Vec<(usize, String)> = (tokens.iter().zip(&named).enumerate())
        .filter(|(_, (token, named))| named.is_none() && !token.is_quoted)
        .filter_map(|(at, (token, _))| Some((at, lexicon.content(token)?)))
        .collect();
    let settles = |cue: Cue| matches!(cue, Cue::Decide | Cue::Assent | Cue::Ok);
    let is_subject = |at: usize| {
        !values.iter().any(|value| (value.from..value.to).contains(&at))
            && !hits.iter().any(|hit| settles(hit.cue) && (hit.from..hit.to).contains(&at))
    };
    let subject = content.iter().filter(|(at, _)| is_subject(*at)).map(|(_, word)| word.clone());
    let subject = sorted(subject);
    let words = sorted(content.into_iter().map(|(_, word)| word));
    let mut unit = Unit {
        line: place.line,
        turn: place.turn,
        day: place.day,
        person: place.person,
        text: sentence.text,
        tokens,
        named,
        hits,
        values,
        words,
        subject,
        acts: 0,
        cues,
        language,
        is_ticked: sentence.is_ticked,
        edits: Vec::new(),
    };
    classify(&mut unit, lexicon);
    unit
}

fn sorted(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut words: Vec<String> = words.collect();
    words.sort();
    words.dedup();
    words
}

fn classify(unit: &mut Unit, lexicon: &Lexicon) {
    let has_quotes = unit.tokens.iter().any(|token| token.is_quoted);
    let quoted = || lexicon.hits(&pattern_text(&unit.tokens, &unit.named, true));
    let is_machine =
        unit.has(Cue::Machine) || has_quotes && quoted().iter().any(|hit| hit.cue == Cue::Machine);
    if is_machine {
        unit.add(Act::Machine);
        return;
    }
    let pairs: [(Cue, Act); 11] = [
        (Cue::Propose, Act::Proposal),
        (Cue::Decide, Act::Decision),
        (Cue::Dissent, Act::Dissent),
        (Cue::Yield, Act::Yielding),
        (Cue::Refuse, Act::Refusal),
        (Cue::Need, Act::Need),
        (Cue::Retract, Act::Retraction),
        (Cue::Defer, Act::Deferral),
        (Cue::Unsure, Act::Unsure),
        (Cue::Done, Act::Done),
        (Cue::Joke, Act::Joke),
    ];
    for (cue, act) in pairs {
        if unit.has(cue) {
            unit.add(act);
        }
    }
    if unit.has(Cue::Correct) || unit.has(Cue::Instead) {
        unit.add(Act::Correction);
    }
    if unit.has(Cue::Hedge) || unit.has(Cue::Condition) {
        unit.add(Act::Hedge);
    }
    question(unit);
    let is_question = unit.is(Act::Question);
    if (unit.has(Cue::Assent) || unit.has(Cue::Ok)) && !is_question {
        unit.add(Act::Assent);
    }
    // "I'll be late" contains the words of a commitment inside an idle phrase.
    let idle: Vec<(usize, usize)> = unit.all(Cue::Idle).map(|hit| (hit.from, hit.to)).collect();
    let is_real = |hit: &&Hit| !idle.iter().any(|(from, to)| hit.from < *to && *from < hit.to);
    let commits = unit.all(Cue::Commit).chain(unit.all(Cue::Bare)).any(|hit| is_real(&hit));
    let is_dated = unit.values.iter().any(|value| value.day.is_some()) || unit.has(Cue::Now);
    let is_weak =
        unit.all(Cue::Weak).any(|hit| is_real(&hit)) && is_dated && !unit.is(Act::Proposal);
    let is_firm = !unit.is(Act::Hedge) && !unit.is(Act::Refusal) && !unit.is(Act::Joke);
    if (commits || is_weak) && is_firm && !is_question {
        unit.add(Act::Commitment);
    }
    let asks = unit.all(Cue::Request).any(|hit| is_real(&hit));
    if (asks || unit.has(Cue::Assign) && !is_question) && !unit.addresses_agent() {
        unit.add(Act::Request);
    }
    let says_nothing = unit.words.is_empty() && unit.acts == 0 && unit.people().next().is_none();
    let is_laughter = unit.words.is_empty() && unit.has(Cue::Laugh) && !unit.has(Cue::Assent);
    let serious = [Act::Commitment, Act::Request, Act::Decision, Act::Proposal];
    let is_greeting = unit.has(Cue::Chatter)
        && !serious.iter().any(|act| unit.is(*act))
        && (!unit.is(Act::Question) || unit.words.len() < 3);
    if says_nothing || is_laughter || is_greeting {
        unit.add(Act::Chatter);
    }
    if unit.acts == 0 {
        unit.add(Act::Statement);
    }
}

fn question(unit: &mut Unit) {
    let mark =
        unit.tokens.iter().rev().find(|token| token.kind != Kind::Emoji && token.word != ")");
    let is_marked = mark.is_some_and(|token| matches!(token.word.as_str(), "?" | "？"))
        || unit.tokens.windows(2).any(|pair| pair[0].word == "?" && pair[1].kind == Kind::Emoji);
    let is_closed = mark.is_some_and(|token| matches!(token.word.as_str(), "." | "!" | "…"));
    let starts = |cue: Cue| unit.all(cue).any(|hit| hit.from == 0);
    let (asks, inquires) = (unit.has(Cue::Ask), starts(Cue::Inquiry) || unit.has(Cue::Anyone));
    let is_tagged = unit.all(Cue::Tag).any(|hit| hit.from > 1);
    let is_asked =
        !is_closed && (asks || inquires && !unit.tokens.iter().any(|token| token.word == ","));
    if is_marked && is_tagged {
        unit.add(Act::Proposal);
    } else if is_marked || is_asked && unit.tokens.len() <= 14 {
        unit.add(Act::Question);
        // "Gym then?" asks for agreement; "Is it heated?" asks for information.
        if !unit.has(Cue::Ask) && !inquires && !unit.words.is_empty() && is_marked {
            unit.add(Act::Proposal);
        }
    }
}
