//! Statements quoted from a conversation for notes on it.

use crate::{Item, Point, Reading, outline::cut};

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
    }
}
