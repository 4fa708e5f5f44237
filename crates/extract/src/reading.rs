//! Analysis of a conversation in one pass.

use crate::{
    Material, Outline, Point, Speaker, Superseded,
    features::features as features_of,
    lexicon::{Language, LanguageCounts, lexicon},
    outline::Maker,
    people::People,
    roles::Model,
    sentences::sentences,
    text::{continue_quotation, tokens},
    thread::Thread,
    units::{self, Act, Place, Unit},
    values::Value,
};

/// Prefix of the built-in responder's replies, which only quote people.
const BUILT_IN: &str = "I am OpenVibe's built-in responder";

/// A sentence, with the entry that it would become in each of [`crate::ROLES`].
#[derive(Debug, Clone)]
pub struct Candidate {
    pub line: usize,
    pub points: [Point; 4],
    pub features: Vec<String>,
}

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
        Self::with_model(material, Model::built_in())
    }

    /// Reads every line with a model other than the one in the data files.
    pub fn with_model(material: &Material, model: &Model) -> Self {
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
            // A line in a supported language that differs from the conversation's is read in its own language.
            let own =
                if language == Language::Other { language } else { counts.line_language(language) };
            let first = found.len();
            for (sentence, tokens) in sentences {
                found.push(units::read(&place, sentence, tokens, own, &people));
            }
            // An order to a machine disqualifies its whole message.
            if found[first..].iter().any(|unit| unit.is(Act::Machine)) {
                found[first..].iter_mut().for_each(|unit| unit.add(Act::Machine));
            }
        }
        let names = material.people.iter().map(|person| person.name.clone()).collect();
        let mut thread = Thread::new(found);
        thread.overrule();
        thread.weigh(model);
        Self { names, thread, language }
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

    /// Acts of the sentences in a line, in order of appearance, without consecutive duplicates.
    pub fn acts(&self, line: usize) -> Vec<Act> {
        let mut acts: Vec<Act> = self.units(line).flat_map(Unit::acts).collect();
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

    /// Stems of the words that name the subject of a line, without its values.
    pub fn subject(&self, line: usize) -> impl Iterator<Item = &str> {
        self.units(line).flat_map(|unit| &unit.subject).map(String::as_str)
    }

    /// Checks whether a person agreed to an agent's statement in this line.
    pub fn is_adopted(&self, line: usize) -> bool {
        self.thread.adopted.contains(&line)
    }

    /// Checks whether everything that a line suggests or states was retracted, overruled, or objected to.
    pub fn is_rejected(&self, line: usize) -> bool {
        let first = self.thread.units.partition_point(|unit| unit.line < line);
        let told = (first..)
            .zip(self.units(line))
            .filter(|(_, unit)| !unit.words.is_empty() || !unit.values.is_empty());
        let mut told = told.map(|(at, _)| at).peekable();
        told.peek().is_some() && told.all(|at| self.thread.rejected[at])
    }

    /// Sentences that can have a role, with the entries that they would become, for training a model.
    pub fn candidates(&self) -> Vec<Candidate> {
        let maker = self.maker();
        let all = 0..self.thread.units.len();
        let told = all.filter(|at| self.thread.chances[*at][0] > f32::NEG_INFINITY);
        let candidate = |at: usize| {
            let task = self.thread.task(at);
            let item = maker.item(&task);
            let action = Point { text: item.text, sources: item.sources };
            let mut features = Vec::new();
            features_of(&self.thread, at, &mut |name| features.push(name.to_owned()));
            let points = [maker.decision(at), action, maker.open_question(at), maker.dissent(at)];
            Candidate { line: self.thread.units[at].line, points, features }
        };
        told.map(candidate).collect()
    }

    pub(crate) fn units(&self, line: usize) -> impl Iterator<Item = &Unit> {
        let first = self.thread.units.partition_point(|unit| unit.line < line);
        self.thread.units[first..].iter().take_while(move |unit| unit.line == line)
    }
}
