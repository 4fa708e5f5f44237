//! Analysis of a conversation in one pass.

use crate::{
    Material, Outline, Speaker, Superseded,
    lexicon::{Cue, Language, LanguageCounts, lexicon},
    outline::Maker,
    people::People,
    sentences::sentences,
    text::{continue_quotation, tokens},
    thread::{Matter, State, Thread},
    units::{self, Act, Place, Unit},
    values::Value,
};

/// Prefix of the built-in responder's replies, which only quote people.
const BUILT_IN: &str = "I am OpenVibe's built-in responder";

/// Analysis of a conversation.
#[derive(Debug)]
pub struct Reading {
    pub(crate) names: Vec<String>,
    pub(crate) thread: Thread,
    pub(crate) language: Language,
}

impl Reading {
    /// A fixed phrase of the data files in the language of the conversation.
    pub fn phrase(&self, name: &str) -> &'static str {
        let known = lexicon(self.language).template(name);
        if known.is_empty() { lexicon(Language::English).template(name) } else { known }
    }

    /// Reads every line once. Time and memory are linear in the number of lines.
    pub fn new(material: &Material) -> Self {
        let mut all = LanguageCounts::default();
        let mut is_foreign = (0, 0);
        let mut read = Vec::new();
        let mut turn = 0;
        for (line, said) in material.lines.iter().enumerate() {
            let person = match &said.speaker {
                Speaker::Person(person) => Some(*person),
                Speaker::Agent(_) => None,
            };
            if person.is_none() && said.text.trim_start().starts_with(BUILT_IN) {
                continue;
            }
            let mut counts = LanguageCounts::default();
            let mut is_quoting = false;
            let sentences: Vec<_> = sentences(&said.text)
                .into_iter()
                .map(|sentence| {
                    let mut tokens = tokens(&sentence.text);
                    is_quoting = continue_quotation(&mut tokens, is_quoting);
                    counts.add(&tokens);
                    if person.is_some() {
                        all.add(&tokens);
                        let letters = sentence.text.chars().filter(|c| c.is_alphabetic());
                        let (alien, count) = letters.fold((0, 0), |(alien, count), c| {
                            (alien + usize::from(c as u32 > 0x24f), count + 1)
                        });
                        is_foreign = (is_foreign.0 + alien, is_foreign.1 + count);
                    }
                    (sentence, tokens)
                })
                .collect();
            let place = Place { line, turn, person, day: said.day };
            turn += usize::from(person.is_some());
            read.push((place, counts, sentences));
        }
        let is_foreign = is_foreign.0 * 2 > is_foreign.1;
        let language = if is_foreign { Language::Other } else { all.language(Language::English) };
        let people = People::new(material);
        let mut found: Vec<Unit> = Vec::new();
        for (place, counts, sentences) in read {
            // A line in another of the four languages is read in its own.
            let own =
                if language == Language::Other { language } else { counts.line_language(language) };
            let first = found.len();
            for (sentence, tokens) in sentences {
                found.push(units::read(&place, sentence, tokens, own, &people));
            }
            // Orders to a machine spoil their whole message.
            if found[first..].iter().any(|unit| unit.is(Act::Machine)) {
                found[first..].iter_mut().for_each(|unit| unit.add(Act::Machine));
            }
        }
        mark_jokes(&mut found);
        let names = material.people.iter().map(|person| person.name.clone()).collect();
        Self { names, thread: Thread::new(found), language }
    }

    /// Language of the people in the conversation.
    pub fn language(&self) -> Language {
        self.language
    }

    pub(crate) fn maker(&self) -> Maker<'_> {
        Maker { names: &self.names, thread: &self.thread, lexicon: lexicon(self.language) }
    }

    /// Draft of a resolution without a model.
    pub fn outline(&self) -> Outline {
        self.maker().outline()
    }

    /// Acts of the sentences of a line, in their order.
    pub fn acts(&self, line: usize) -> Vec<Act> {
        let mut acts: Vec<Act> = self
            .units(line)
            .flat_map(|unit| ACTS.into_iter().filter(|act| unit.is(*act)))
            .collect();
        acts.dedup();
        acts
    }

    /// Values of a line as they were written.
    pub fn values(&self, line: usize) -> Vec<&Value> {
        self.units(line).flat_map(|unit| &unit.values).collect()
    }

    /// Corrected values, in the order of the corrections.
    pub fn superseded(&self) -> &[Superseded] {
        &self.thread.superseded
    }

    /// Checks whether a person agreed to an agent's statement in this line.
    pub fn is_adopted(&self, line: usize) -> bool {
        self.thread.adopted.contains(&line)
    }

    /// Checks whether everything that a line suggests or states was retracted, overruled, or objected to.
    pub fn is_rejected(&self, line: usize) -> bool {
        let line_of = |matter: &Matter| self.thread.units[matter.unit].line;
        let first = self.thread.matters.partition_point(|matter| line_of(matter) < line);
        let mut matters =
            self.thread.matters[first..].iter().take_while(|m| line_of(m) == line).peekable();
        matters.peek().is_some()
            && matters.all(|matter| matches!(matter.state, State::Dropped | State::Contested))
    }

    pub(crate) fn units(&self, line: usize) -> impl Iterator<Item = &Unit> {
        let first = self.thread.units.partition_point(|unit| unit.line < line);
        self.thread.units[first..].iter().take_while(move |unit| unit.line == line)
    }
}

const ACTS: [Act; 20] = [
    Act::Statement,
    Act::Question,
    Act::Proposal,
    Act::Decision,
    Act::Assent,
    Act::Dissent,
    Act::Yielding,
    Act::Commitment,
    Act::Request,
    Act::Refusal,
    Act::Need,
    Act::Correction,
    Act::Retraction,
    Act::Deferral,
    Act::Chatter,
    Act::Joke,
    Act::Machine,
    Act::Unsure,
    Act::Hedge,
    Act::Done,
];

/// A line that the next one by somebody else only laughs at is a joke.
fn mark_jokes(units: &mut [Unit]) {
    let people: Vec<usize> = (0..units.len()).filter(|at| units[*at].person.is_some()).collect();
    for pair in people.windows(2) {
        let (said, next) = (pair[0], pair[1]);
        let is_laughter = (units[next].has(Cue::Laugh) || units[next].has(Cue::Joke))
            && !units[next].is(Act::Assent)
            && units[next].words.is_empty();
        let is_other =
            units[said].person != units[next].person && units[next].turn == units[said].turn + 1;
        if is_laughter && is_other && !units[said].is(Act::Question) {
            let line = units[said].line;
            // Whoever plays along in the two lines before jokes, too.
            let plays = |unit: &Unit| {
                unit.is(Act::Commitment) || unit.is(Act::Proposal) || unit.is(Act::Assent)
            };
            let first = units[said].turn.saturating_sub(2);
            let mut is_game = true;
            for unit in units[..=said].iter_mut().rev().take_while(|unit| unit.turn >= first) {
                is_game &= unit.line == line || plays(unit) && unit.values.is_empty();
                if is_game && unit.person.is_some() {
                    unit.add(Act::Joke);
                }
            }
        }
    }
}
