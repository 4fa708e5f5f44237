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

/// Maximum number of tokens that are read from a sentence. Longer ones are lists and logs, and comparisons take quadratic time.
const TOKENS_MAX: usize = 400;

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
        Self::read(material, model, &|| false).0
    }

    /// Reads the newest line, and then older ones until `stop` returns true, which is called before each of them. Returns the position
    /// of the first line that was read as well; positions in the reading are relative to it.
    pub fn newest(material: &Material, stop: &dyn Fn() -> bool) -> (Self, usize) {
        Self::read(material, Model::built_in(), stop)
    }

    fn read(material: &Material, model: &Model, stop: &dyn Fn() -> bool) -> (Self, usize) {
        let mut all = LanguageCounts::default();
        let mut is_foreign = (0, 0);
        let mut read = Vec::new();
        let mut first = material.lines.len();
        for (line, said) in material.lines.iter().enumerate().rev() {
            if first < material.lines.len() && stop() {
                break;
            }
            first = line;
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
                    tokens.truncate(TOKENS_MAX);
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
            let place = Place { line, turn: 0, person, day: said.day };
            read.push((place, counts, sentences));
        }
        let is_foreign = is_foreign.0 * 2 > is_foreign.1;
        let language = if is_foreign { Language::Other } else { all.language(Language::English) };
        let people = People::new(material);
        let mut found: Vec<(usize, Vec<Unit>)> = Vec::new();
        for (place, counts, sentences) in read {
            if let Some((line, _)) = found.last()
                && stop()
            {
                first = *line;
                break;
            }
            // A line in a supported language that differs from the conversation's is read in its own language.
            let own =
                if language == Language::Other { language } else { counts.line_language(language) };
            let sentences = sentences.into_iter();
            let units = sentences
                .map(|(sentence, tokens)| units::read(&place, sentence, tokens, own, &people));
            let mut units: Vec<Unit> = units.collect();
            // An order to a machine disqualifies its whole message.
            if units.iter().any(|unit| unit.is(Act::Machine)) {
                for unit in &mut units {
                    unit.add(Act::Machine);
                }
            }
            found.push((place.line, units));
        }
        let said_by_people =
            |line: &usize| matches!(material.lines[*line].speaker, Speaker::Person(_));
        let mut turn = 0;
        let mut units = Vec::new();
        for (line, mut of_line) in found.into_iter().rev() {
            for unit in &mut of_line {
                (unit.line, unit.turn) = (line - first, turn);
            }
            turn += usize::from(said_by_people(&line));
            units.append(&mut of_line);
        }
        let names = material.people.iter().map(|person| person.name.clone()).collect();
        let mut thread = Thread::new(units);
        thread.overrule();
        thread.weigh(model);
        (Self { names, thread, language }, first)
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
        self.thread.adopted.iter().any(|(adopted, _)| *adopted == line)
    }

    /// Checks whether a line states or repeats something that the group settled.
    pub fn is_settled(&self, line: usize) -> bool {
        let first = self.thread.units.partition_point(|unit| unit.line < line);
        let all = (first..).zip(self.units(line));
        all.into_iter().any(|(at, _)| self.thread.settlement(at).is_some())
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
            let points = [maker.result(at), action, maker.open_question(at), maker.dissent(at)];
            Candidate { line: self.thread.units[at].line, points, features }
        };
        told.map(candidate).collect()
    }

    pub(crate) fn units(&self, line: usize) -> impl Iterator<Item = &Unit> {
        let first = self.thread.units.partition_point(|unit| unit.line < line);
        self.thread.units[first..].iter().take_while(move |unit| unit.line == line)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::{Line, Person};

    #[test]
    fn a_reading_that_is_stopped_contains_the_newest_lines() {
        let text = |n: usize| match n {
            3 => "Let's order 10 chairs for Friday.".to_owned(),
            4 => "Sorry, 12 chairs, not 10 chairs.".to_owned(),
            _ => format!("Row {n} is done."),
        };
        let line = |n: usize| Line {
            speaker: Speaker::Person(0),
            text: text(n),
            files: Vec::new(),
            day: chrono::NaiveDate::default(),
        };
        let person = Person { name: "Ada".to_owned(), handle: "ada".to_owned() };
        let material = Material { people: vec![person], lines: (0..5).map(line).collect() };
        let calls = Cell::new(0);
        // The third call is that for line 1.
        let stop = || calls.replace(calls.get() + 1) == 2;
        let (reading, first) = Reading::newest(&material, &stop);
        assert_eq!(first, 2);
        let newest = Material { lines: material.lines[2..].to_vec(), ..material.clone() };
        let whole = Reading::new(&newest);
        assert_eq!(reading.outline(), whole.outline());
        assert_eq!(reading.superseded(), whole.superseded());
        assert_eq!(reading.superseded().len(), 1);
        assert_eq!(reading.acts(0), whole.acts(0));
        let (one, first) = Reading::newest(&material, &|| true);
        assert_eq!((first, one.acts(0).is_empty()), (4, false));
    }
}
