//! Checks an answer against its conversation.

use std::collections::BTreeSet;

use chrono::{Days, NaiveDate};
use openvibe_extract::{
    Item, Material, Outline, Owner, Point, Reading, Speaker, keywords, plain_sentences,
};

use super::{
    CONCLUSION_SENTENCES_MAX, KEY_POINTS_MAX, KEY_POINTS_MIN, TALK_LINES_MIN, WORDS_MAX,
    clean::{units, words},
    fault::{Fault, FieldPath, Kind},
    grounds::SourceIndex,
    owner::{self, Found},
    parse::{Raw, RawItem, RawPoint},
    source::RawSource,
    words::tokens,
};

/// Maximum days between the last message and a due date; a later date is an error.
const DUE_DAYS_MAX: u64 = 3_660;
/// Minimum number of shared keywords for two texts to count as duplicates.
const SAME_WORDS_MIN: usize = 4;

/// An answer as an outline, and its faults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The answer without unsupported sources, owners, and dates. Limits are only enforced by
    /// `trim`.
    pub outline: Outline,
    pub faults: Vec<Fault>,
}

impl Checked {
    /// Returns the answer or its repair, whichever has fewer faults; the repair if equal.
    #[must_use]
    pub fn or_better(self, repaired: Self) -> Self {
        if repaired.faults.len() <= self.faults.len() {
            repaired
        } else {
            self
        }
    }
}

/// Checks everything that needs no model. `reading` must be the reading of `material`.
pub fn check(raw: &Raw, material: &Material, reading: &Reading) -> Checked {
    let grounds = SourceIndex::new(material, reading);
    let mut check = Check {
        grounds: &grounds,
        faults: Vec::new(),
    };
    let outline = check.outline(raw);
    Checked {
        outline,
        faults: check.faults,
    }
}

struct Check<'a> {
    grounds: &'a SourceIndex<'a>,
    faults: Vec<Fault>,
}

impl Check<'_> {
    fn add(&mut self, path: FieldPath, kind: Kind, text: &str) {
        self.faults.push(Fault::new(path, kind, text));
    }

    fn outline(&mut self, raw: &Raw) -> Outline {
        let outline = Outline {
            headline: self.statement(FieldPath::Headline, &raw.headline),
            conclusion: self.statement(FieldPath::Conclusion, &raw.conclusion),
            key_points: self.points(&raw.key_points, FieldPath::KeyPoint),
            action_items: self.items(&raw.action_items),
            open_questions: self.points(&raw.open_questions, FieldPath::OpenQuestion),
            deferred_items: self.points(&raw.deferred_items, FieldPath::Deferred),
        };
        self.counts(&outline);
        outline
    }

    /// Checks the headline or the conclusion.
    fn statement(&mut self, path: FieldPath, text: &str) -> String {
        let text = self.grounds.without_foreign_links(text);
        if text.is_empty() {
            self.add(path, Kind::Empty, "");
            return text;
        }
        self.length(path, &text);
        if path == FieldPath::Conclusion && plain_sentences(&text).len() > CONCLUSION_SENTENCES_MAX
        {
            self.add(path, Kind::TooManySentences, &text);
        }
        self.values(path, &text, &[]);
        if self.grounds.only_agents_said(&text) && !self.grounds.is_told_as_view(&text) {
            self.add(path, Kind::AgentsOnly, &text);
        }
        text
    }

    fn points(&mut self, raw: &[RawPoint], path: fn(usize) -> FieldPath) -> Vec<Point> {
        let mut points: Vec<Point> = Vec::with_capacity(raw.len());
        for (at, point) in raw.iter().enumerate() {
            let point = self.point(path(at), point);
            if points.iter().any(|other| is_same(&other.text, &point.text)) {
                self.add(path(at), Kind::Duplicate, &point.text);
            }
            points.push(point);
        }
        points
    }

    fn point(&mut self, path: FieldPath, raw: &RawPoint) -> Point {
        let text = self.grounds.without_foreign_links(&raw.text);
        if text.is_empty() {
            self.add(path, Kind::Empty, "");
        }
        self.length(path, &text);
        let sources = self.sources(path, &text, &raw.sources);
        self.values(path, &text, &sources);
        let is_claim = matches!(path, FieldPath::KeyPoint(_) | FieldPath::ActionItem(_));
        let is_theirs = self.grounds.are_idle(&sources) || self.grounds.only_agents_said(&text);
        let is_view = matches!(path, FieldPath::KeyPoint(_)) && self.grounds.is_told_as_view(&text);
        if is_claim && is_theirs && !is_view {
            self.add(path, Kind::AgentsOnly, &text);
        }
        Point { text, sources }
    }

    fn items(&mut self, raw: &[RawItem]) -> Vec<Item> {
        let mut items: Vec<Item> = Vec::with_capacity(raw.len());
        for (at, raw) in raw.iter().enumerate() {
            let path = FieldPath::ActionItem(at);
            let point = RawPoint {
                text: raw.text.clone(),
                sources: raw.sources.clone(),
            };
            let Point { text, sources } = self.point(path, &point);
            let owner = self.owner(path, raw, &text, &sources);
            let due = self.due(path, raw, &text, &sources);
            let person = match owner {
                Some(Owner::Person(at)) => Some(at),
                _ => None,
            };
            if !sources.is_empty() && !self.grounds.commits(&sources, person) {
                self.add(path, Kind::NoCommitment, &text);
            }
            let is_told = |other: &Item| is_same(&other.text, &text) && other.owner == owner;
            if items.iter().any(is_told) {
                self.add(path, Kind::Duplicate, &text);
            }
            items.push(Item {
                text,
                owner,
                due,
                sources,
            });
        }
        items
    }

    fn length(&mut self, path: FieldPath, text: &str) {
        let units_max = Fault::units_max(path);
        if units(text) > units_max {
            self.add(path, Kind::TooLong { units_max }, text);
        }
    }

    /// Returns the distinct sources that exist.
    fn sources(&mut self, path: FieldPath, text: &str, raw: &[RawSource]) -> Vec<usize> {
        let (mut lines, mut unknown) = (Vec::new(), Vec::new());
        for source in raw {
            match source {
                RawSource::Line(at) if *at < self.grounds.material.lines.len() => {
                    if !lines.contains(at) {
                        lines.push(*at);
                    }
                }
                RawSource::Line(at) => unknown.push(super::handle(*at)),
                RawSource::Unknown(named) => unknown.push(named.clone()),
            }
        }
        if !unknown.is_empty() {
            unknown.truncate(super::SOURCES_MAX);
            self.add(path, Kind::NoSuchSource(unknown), text);
        }
        if lines.is_empty() {
            self.add(path, Kind::NoSource, text);
        }
        lines
    }

    /// Checks for superseded values and unknown numbers.
    fn values(&mut self, path: FieldPath, text: &str, sources: &[usize]) {
        if let Some(value) = self.grounds.superseded_in(text, sources) {
            let (old, new) = (value.old.clone(), value.new.clone());
            self.add(path, Kind::Superseded { old, new }, text);
        }
        if let Some(number) = self.grounds.unknown_number(text) {
            self.add(path, Kind::UnknownNumber(number), text);
        }
    }

    fn owner(
        &mut self,
        path: FieldPath,
        raw: &RawItem,
        text: &str,
        sources: &[usize],
    ) -> Option<Owner> {
        let named = raw.owner.as_deref()?;
        let kind = match owner::find(named, self.grounds) {
            Found::Owner(Owner::Person(at)) if self.grounds.refused(at, sources) => {
                Kind::OwnerRefused(self.grounds.material.people[at].name.clone())
            }
            Found::Owner(owner) => return Some(owner),
            Found::Nobody => return None,
            Found::Agent(name) => Kind::OwnerIsAgent(name),
            Found::Unknown => Kind::UnknownOwner(named.to_owned()),
        };
        self.add(path, kind, text);
        None
    }

    fn due(
        &mut self,
        path: FieldPath,
        raw: &RawItem,
        text: &str,
        sources: &[usize],
    ) -> Option<NaiveDate> {
        let written = raw.due.as_deref()?;
        let Some(due) = date(written) else {
            self.add(path, Kind::NotADate(written.to_owned()), text);
            return None;
        };
        let grounds = self.grounds;
        let last = grounds
            .last_day()
            .and_then(|day| day.checked_add_days(Days::new(DUE_DAYS_MAX)));
        let is_out = grounds.first_day().is_some_and(|first| due < first)
            || last.is_some_and(|last| due > last);
        let kind = if is_out {
            Kind::DueOutOfRange(due)
        } else if !grounds.speaks_of_time(sources) {
            Kind::DueUnfounded(due)
        } else if let Some(value) = grounds.superseded_due(due, sources) {
            let (old, new) = (value.old.clone(), value.new.clone());
            Kind::DueSuperseded { old, new }
        } else {
            return Some(due);
        };
        self.add(path, kind, text);
        None
    }

    fn counts(&mut self, outline: &Outline) {
        let lines = self.grounds.material.lines.iter().skip(1);
        let talk = lines
            .filter(|line| matches!(line.speaker, Speaker::Person(_)))
            .count();
        let count = outline.key_points.len();
        if count > KEY_POINTS_MAX {
            self.add(FieldPath::KeyPoints, Kind::TooManyKeyPoints(count), "");
        } else if count < KEY_POINTS_MIN && talk >= TALK_LINES_MIN {
            self.add(FieldPath::KeyPoints, Kind::TooFewKeyPoints, "");
        }
        let words = words_of(outline, self.grounds.material);
        if words >= WORDS_MAX {
            self.add(FieldPath::Whole, Kind::TooManyWords(words), "");
        }
    }
}

/// Parses `2026-11-20`, optionally followed by a time.
fn date(text: &str) -> Option<NaiveDate> {
    let day = text.get(..10)?;
    let rest = &text[10..];
    let is_time = rest.is_empty() || rest.starts_with(['T', ' ']);
    NaiveDate::parse_from_str(day, "%Y-%m-%d")
        .ok()
        .filter(|_| is_time)
}

/// Number of words of all texts, including owner names and one word per date, as in the resolution
/// message.
pub(super) fn words_of(outline: &Outline, material: &Material) -> usize {
    let points = [
        &outline.key_points,
        &outline.open_questions,
        &outline.deferred_items,
    ];
    let points = points.into_iter().flatten().map(|point| words(&point.text));
    let items = outline.action_items.iter().map(|item| {
        let owner = match &item.owner {
            Some(Owner::Person(at)) => material
                .people
                .get(*at)
                .map_or(0, |person| words(&person.name)),
            Some(Owner::Named(name)) => words(name),
            None => 0,
        };
        words(&item.text) + owner + usize::from(item.due.is_some())
    });
    words(&outline.headline)
        + words(&outline.conclusion)
        + points.sum::<usize>()
        + items.sum::<usize>()
}

/// Whether both texts have the same words, or share nearly all of their keywords.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    if tokens(one) == tokens(other) {
        return true;
    }
    let (one, other): (BTreeSet<_>, BTreeSet<_>) = (keywords(one), keywords(other));
    let shared = one.intersection(&other).count();
    let all = one.len() + other.len() - shared;
    shared >= SAME_WORDS_MIN && shared * 100 >= all * 85
}
