//! Checks a draft against its conversation.
//!
//! `read` turns a model's answer into an outline with the sources, owners, and dates that exist; `judge` then checks an
//! outline of any origin.

use std::collections::BTreeSet;

use chrono::{Days, NaiveDate};
use openvibe_extract::{Item, Material, Outline, Owner, Point, Reading, plain_sentences};
use unicode_normalization::UnicodeNormalization;

use super::{
    CONCLUSION_SENTENCES_MAX, KEY_POINTS_MAX, WORDS_MAX,
    clean::{units, words},
    doubt::AgentLines,
    evidence::{Evidence, Origin, plain},
    fault::{Fault, FieldPath, Kind},
    owner::{self, Found},
    parse::{Raw, RawItem, RawPoint},
    source::RawSource,
};

/// Maximum days between the last message and a due date; a later date is an error.
const DUE_DAYS_MAX: u64 = 3_660;
/// Minimum number of shared words for two texts to count as duplicates.
const SAME_WORDS_MIN: usize = 4;

/// An answer as an outline, and its faults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The answer without sources, owners, and dates that do not exist. Everything else is only removed by `trim`.
    pub outline: Outline,
    pub faults: Vec<Fault>,
}

impl Checked {
    /// Returns the answer or its repair, whichever has fewer faults; the repair in case of a tie.
    #[must_use]
    pub fn or_better(self, repaired: Self) -> Self {
        if repaired.faults.len() <= self.faults.len() {
            repaired
        } else {
            self
        }
    }
}

/// Checks a model's answer. `reading` must be the reading of `material`.
pub fn check(raw: &Raw, material: &Material, reading: &Reading, agents: AgentLines) -> Checked {
    let evidence = Evidence::new(material, reading, agents);
    let mut check = Check::new(&evidence);
    let mut outline = check.read(raw);
    check.judge(&mut outline);
    Checked {
        outline,
        faults: check.faults,
    }
}

/// Checks an extracted outline.
pub(super) fn check_outline(
    mut outline: Outline,
    material: &Material,
    reading: &Reading,
) -> Checked {
    let evidence = Evidence::new(material, reading, AgentLines::Ideas);
    let mut check = Check::new(&evidence);
    check.judge(&mut outline);
    Checked {
        outline,
        faults: check.faults,
    }
}

struct Check<'a> {
    evidence: &'a Evidence<'a>,
    faults: Vec<Fault>,
}

impl<'a> Check<'a> {
    fn new(evidence: &'a Evidence<'a>) -> Self {
        Self {
            evidence,
            faults: Vec::new(),
        }
    }

    fn add(&mut self, path: FieldPath, kind: Kind, text: &str) {
        self.faults.push(Fault::new(path, kind, text));
    }

    fn read(&mut self, raw: &Raw) -> Outline {
        let mut points = |raw: &[RawPoint], path: fn(usize) -> FieldPath| -> Vec<Point> {
            let points = raw.iter().enumerate();
            points
                .map(|(at, point)| Point {
                    text: point.text.clone(),
                    sources: self.sources(path(at), &point.text, &point.sources),
                })
                .collect()
        };
        let [key_points, open_questions, deferred_items] = [
            points(&raw.key_points, FieldPath::KeyPoint),
            points(&raw.open_questions, FieldPath::OpenQuestion),
            points(&raw.deferred_items, FieldPath::Deferred),
        ];
        let items = raw.action_items.iter().enumerate();
        // One of the two can stand for the other.
        let opening = plain_sentences(&raw.conclusion)
            .into_iter()
            .next()
            .unwrap_or_default();
        let either = |text: &str, other: String| {
            if text.is_empty() {
                other
            } else {
                text.to_owned()
            }
        };
        Outline {
            headline: either(&raw.headline, opening),
            conclusion: either(&raw.conclusion, raw.headline.clone()),
            key_points,
            action_items: items
                .map(|(at, item)| {
                    let path = FieldPath::ActionItem(at);
                    Item {
                        text: item.text.clone(),
                        owner: self.owner(path, item),
                        due: self.date(path, item),
                        sources: self.sources(path, &item.text, &item.sources),
                    }
                })
                .collect(),
            open_questions,
            deferred_items,
        }
    }

    /// Returns the distinct sources that exist.
    fn sources(&mut self, path: FieldPath, text: &str, raw: &[RawSource]) -> Vec<usize> {
        let (mut lines, mut unknown) = (Vec::new(), Vec::new());
        for source in raw {
            match source {
                RawSource::Line(at) if *at < self.evidence.material.lines.len() => {
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
        lines
    }

    fn owner(&mut self, path: FieldPath, raw: &RawItem) -> Option<Owner> {
        let named = raw.owner.as_deref()?;
        let kind = match owner::find(named, self.evidence) {
            Found::Owner(owner) => return Some(owner),
            Found::Nobody => return None,
            Found::Agent(name) => Kind::OwnerIsAgent(name),
            Found::Unknown => Kind::UnknownOwner(named.to_owned()),
        };
        self.add(path, kind, &raw.text);
        None
    }

    fn date(&mut self, path: FieldPath, raw: &RawItem) -> Option<NaiveDate> {
        let written = raw.due.as_deref()?;
        let day = written
            .get(..10)
            .and_then(|day| NaiveDate::parse_from_str(day, "%Y-%m-%d").ok());
        let day = day.filter(|_| written.len() == 10 || written[10..].starts_with(['T', ' ']));
        if day.is_none() {
            self.add(path, Kind::NotADate(written.to_owned()), &raw.text);
        }
        day
    }

    /// Checks every text; removes owners and dates that the sources do not support.
    fn judge(&mut self, outline: &mut Outline) {
        for (path, text) in [
            (FieldPath::Headline, &outline.headline),
            (FieldPath::Conclusion, &outline.conclusion),
        ] {
            let backing = self.evidence.backing(text, &outline.key_points);
            self.text(path, text, Origin::Whole(&backing));
        }
        if plain_sentences(&outline.conclusion).len() > CONCLUSION_SENTENCES_MAX {
            self.add(
                FieldPath::Conclusion,
                Kind::TooManySentences,
                &outline.conclusion,
            );
        }
        self.points(&outline.key_points, FieldPath::KeyPoint);
        self.items(&mut outline.action_items);
        self.points(&outline.open_questions, FieldPath::OpenQuestion);
        self.points(&outline.deferred_items, FieldPath::Deferred);
        let count = outline.key_points.len();
        if count > KEY_POINTS_MAX {
            self.add(FieldPath::KeyPoints, Kind::TooManyKeyPoints(count), "");
        }
        let words = words_of(outline, self.evidence.material);
        if words >= WORDS_MAX {
            self.add(FieldPath::Whole, Kind::TooManyWords(words), "");
        }
    }

    fn points(&mut self, points: &[Point], path: fn(usize) -> FieldPath) {
        for (at, point) in points.iter().enumerate() {
            self.text(path(at), &point.text, Origin::Cited(&point.sources));
            if points[..at]
                .iter()
                .any(|other| is_same(&other.text, &point.text))
            {
                self.add(path(at), Kind::Duplicate, &point.text);
            }
        }
    }

    fn items(&mut self, items: &mut [Item]) {
        for at in 0..items.len() {
            let (before, rest) = items.split_at_mut(at);
            let item = &mut rest[0];
            let path = FieldPath::ActionItem(at);
            self.text(path, &item.text, Origin::Cited(&item.sources));
            self.settle_owner(path, item);
            self.settle_due(path, item);
            let owner = item.owner.as_ref();
            if !item.sources.is_empty() && !self.evidence.commits(&item.sources, owner) {
                self.add(path, Kind::NoCommitment, &item.text);
            }
            let is_told =
                |other: &Item| is_same(&other.text, &item.text) && other.owner == item.owner;
            if before.iter().any(is_told) {
                self.add(path, Kind::Duplicate, &item.text);
            }
        }
    }

    /// The checks of one text. Headline and conclusion have no sources of their own.
    fn text(&mut self, path: FieldPath, text: &str, origin: Origin<'_>) {
        if text.is_empty() {
            return self.add(path, Kind::Empty, "");
        }
        let units_max = Fault::units_max(path);
        if units(text) > units_max {
            self.add(path, Kind::TooLong { units_max }, text);
        }
        let (Origin::Cited(sources) | Origin::Whole(sources)) = origin;
        if matches!(origin, Origin::Cited([])) {
            return self.add(path, Kind::NoSource, text);
        }
        let evidence = self.evidence;
        // Full-width digits are digits.
        let (told, text) = (text, text.nfkc().collect::<String>());
        let text = text.as_str();
        if !evidence.supports(text, origin) {
            self.add(path, Kind::Unsupported, told);
        }
        if let Some(value) = evidence.superseded_in(text, sources) {
            let (old, new) = (value.old.clone(), value.new.clone());
            self.add(path, Kind::Superseded { old, new }, text);
        }
        if let Some(value) = evidence.unknown_value(text, origin) {
            self.add(path, Kind::UnknownValue(value), text);
        }
        let is_result = !matches!(path, FieldPath::OpenQuestion(_) | FieldPath::Deferred(_));
        let is_view = matches!(path, FieldPath::KeyPoint(_)) && evidence.is_view(text, sources);
        if is_result
            && !is_view
            && let Some(doubt) = evidence.doubt(text, origin)
        {
            self.add(path, Kind::NotAdopted(doubt), text);
        }
    }

    fn settle_owner(&mut self, path: FieldPath, item: &mut Item) {
        let evidence = self.evidence;
        let (name, takes_part) = match &item.owner {
            Some(Owner::Person(at)) => {
                let name = evidence
                    .material
                    .people
                    .get(*at)
                    .map_or_else(String::new, |p| p.name.clone());
                if evidence.refuses(*at, &item.sources) {
                    item.owner = None;
                    return self.add(path, Kind::OwnerRefused(name), &item.text);
                }
                (name, evidence.takes_part(*at, &item.sources))
            }
            Some(Owner::Named(name)) => (
                name.clone(),
                evidence.is_mentioned(name, Some(&item.sources)),
            ),
            None => return,
        };
        if !takes_part && !item.sources.is_empty() {
            item.owner = None;
            self.add(path, Kind::OwnerAbsent(name), &item.text);
        }
    }

    fn settle_due(&mut self, path: FieldPath, item: &mut Item) {
        let Some(due) = item.due else { return };
        let evidence = self.evidence;
        let is_near = evidence.days().is_some_and(|(first, last)| {
            due >= first && Some(due) <= last.checked_add_days(Days::new(DUE_DAYS_MAX))
        });
        let kind = if !is_near {
            Kind::DueOutOfRange(due)
        } else if let Some(value) = evidence.superseded_due(due, &item.sources) {
            let (old, new) = (value.old.clone(), value.new.clone());
            Kind::DueSuperseded { old, new }
        } else if !evidence.is_dated(due, &item.sources) {
            Kind::DueUnfounded(due)
        } else {
            return;
        };
        item.due = None;
        self.add(path, kind, &item.text);
    }
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

/// Checks whether both texts have the same words, or share nearly all of them.
fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (plain(one), plain(other));
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<BTreeSet<_>>()
    };
    let (mine, theirs) = (words(&one), words(&other));
    let shared = mine.intersection(&theirs).count();
    let all = mine.len() + theirs.len() - shared;
    one == other || (shared >= SAME_WORDS_MIN && shared * 100 >= all * 85)
}
