//! Statements quoted from a conversation for notes on it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Item, Point, Reading,
    lexicon::keywords,
    outline::cut,
    units::{Act, Unit},
};

/// Longer sentences are cut in quotes; characters are UTF-16 code units.
const QUOTE_WORDS_MAX: usize = 40;
const QUOTE_CHARS_MAX: usize = 240;

fn shortened(text: &str) -> String {
    cut(text, QUOTE_WORDS_MAX, QUOTE_CHARS_MAX)
}

fn quoted(points: Vec<Point>) -> Vec<Point> {
    let points = points.into_iter();
    points.map(|point| Point { text: shortened(&point.text), ..point }).collect()
}

impl Reading {
    /// Results, oldest first.
    pub fn decisions(&self) -> Vec<Point> {
        quoted(self.maker().decisions())
    }

    /// People's unanswered questions.
    pub fn open_questions(&self) -> Vec<Point> {
        quoted(self.maker().questions())
    }

    /// Tasks that people took on or were asked to do.
    pub fn tasks(&self) -> Vec<Item> {
        let items = self.maker().items().into_iter();
        let items = items.filter(|item| item.owner.is_some());
        items.map(|item| Item { text: shortened(&item.text), ..item }).collect()
    }

    /// Returns at most `most` statements of people with the most frequent words, oldest first. Text for an agent or a
    /// machine is left out.
    pub fn main_points(&self, most: usize) -> Vec<Point> {
        let is_statement = |unit: &&Unit| {
            unit.person.is_some()
                && !unit.is(Act::Machine)
                && !unit.is(Act::Question)
                && !unit.is(Act::Correction)
                && !unit.is_idle()
                && !unit.addresses_agent()
        };
        let statements: Vec<(usize, String, BTreeSet<String>)> = (self.thread.units.iter())
            .filter(is_statement)
            .map(|unit| {
                let text = unit.render(0, unit.tokens.len());
                let words = keywords(&text);
                (unit.line, text, words)
            })
            .filter(|(_, _, words)| words.len() > 1)
            .collect();
        let mut counts: BTreeMap<&String, f64> = BTreeMap::new();
        for word in statements.iter().flat_map(|(_, _, words)| words) {
            *counts.entry(word).or_default() += 1.0;
        }
        let mut scored: Vec<(f64, usize)> = (statements.iter().enumerate())
            .map(|(at, (_, _, words))| {
                let repeated: f64 = words.iter().map(|word| counts[word] - 1.0).sum();
                let length = f64::from(u32::try_from(words.len()).unwrap_or(u32::MAX));
                (repeated / length.sqrt() + length.min(12.0) / 12.0, at)
            })
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        scored.truncate(most);
        scored.sort_by_key(|(_, at)| *at);
        let point = |(_, at): (f64, usize)| {
            let (line, text, _) = &statements[at];
            Point { text: shortened(text), sources: vec![*line] }
        };
        scored.into_iter().map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Line, Material, Person, Reading, Speaker};

    fn reading(texts: &[&str]) -> Reading {
        let lines = texts.iter().map(|text| Line {
            speaker: Speaker::Person(0),
            text: (*text).to_owned(),
            files: Vec::new(),
            day: chrono::NaiveDate::default(),
        });
        let people = vec![Person { name: "Ada".to_owned(), handle: "ada".to_owned() }];
        Reading::new(&Material { people, lines: lines.collect() })
    }

    #[test]
    fn decisions_tasks_and_questions_have_their_sources() {
        let reading = reading(&[
            "Where do we launch?",
            "We decided: the launch is in Lisbon.",
            "I'll book the hotel tomorrow.",
            "The importer reads CSV files and the importer is slow.",
            "Who pays the importer?",
        ]);
        let decisions = reading.decisions();
        assert!(
            decisions
                .iter()
                .any(|point| point.text.contains("Lisbon") && point.sources.contains(&1))
        );
        let tasks = reading.tasks();
        assert!(tasks.iter().any(|task| task.text.contains("hotel") && task.sources.contains(&2)));
        assert!(reading.open_questions().iter().any(|point| point.text.contains("Who pays")));
        assert!(reading.main_points(3).iter().any(|point| point.sources == [3]));
        assert_eq!(reading.main_points(0).len(), 0);
    }
}
