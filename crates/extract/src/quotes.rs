//! Statements quoted from a conversation, for notes about it.

use crate::{Decision, Item, Point, Reading, outline::cut};

/// Maximum length of a quoted text, in words and in UTF-16 code units. Longer texts are shortened.
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
    /// Decisions, oldest first.
    pub fn decisions(&self) -> Vec<Decision> {
        self.maker().decisions()
    }

    /// Decisions as texts, oldest first: the words of one person, or quotations with their authors.
    pub fn decision_points(&self) -> Vec<Point> {
        quoted(self.maker().decision_points())
    }

    /// People's unanswered questions.
    pub fn open_questions(&self) -> Vec<Point> {
        quoted(self.maker().questions(&self.maker().decision_points()))
    }

    /// Tasks that people took on or were asked to do.
    pub fn tasks(&self) -> Vec<Item> {
        let items = self.maker().items().into_iter();
        let items = items.filter(|item| item.owner.is_some());
        items.map(|item| Item { text: shortened(&item.text), ..item }).collect()
    }
}
