//! Checks a draft against its conversation.
//!
//! `read` turns a model's answer into fields with the sources, owners, and dates that exist; `judge` then checks fields
//! of any origin.

use std::collections::BTreeSet;

use chrono::NaiveDate;
use openvibe_extract::{Material, Outline, Owner, Reading, plain_sentences};
use unicode_normalization::UnicodeNormalization;

use super::{
    CONCLUSION_SENTENCES_MAX, KEY_POINTS_MAX, SOURCES_MAX, WORDS_MAX,
    clean::{clean, units},
    evidence::Evidence,
    fault::{Fault, FieldPath, Kind},
    field::{DraftField, fields_of, outline_of, words_of},
    handle,
    line::{AgentLines, plain},
    owner::{self, Found},
    parse::{Raw, RawItem},
    source::RawSource,
};

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
    let mut check = Check {
        evidence: &Evidence::new(material, reading, agents),
        faults: Vec::new(),
    };
    let fields = check.read(raw);
    check.judge(fields)
}

/// Checks the extractor's outline.
pub(super) fn check_extracted(material: &Material, reading: &Reading) -> Checked {
    let mut fields = fields_of(&reading.outline());
    for field in &mut fields {
        field.text = clean(&field.text);
    }
    let check = Check {
        evidence: &Evidence::new(material, reading, AgentLines::Ideas),
        faults: Vec::new(),
    };
    check.judge(fields)
}

struct Check<'a> {
    evidence: &'a Evidence<'a>,
    faults: Vec<Fault>,
}

impl Check<'_> {
    fn add(&mut self, path: FieldPath, kind: Kind, text: &str) {
        self.faults.push(Fault::new(path, kind, text));
    }

    fn read(&mut self, raw: &Raw) -> Vec<DraftField> {
        // One of the two can stand for the other.
        let opening = plain_sentences(&raw.conclusion).into_iter().next();
        let (headline, conclusion) = match (&raw.headline[..], &raw.conclusion[..]) {
            ("", conclusion) => (opening.unwrap_or_default(), conclusion),
            (headline, "") => (headline.to_owned(), headline),
            (headline, conclusion) => (headline.to_owned(), conclusion),
        };
        let mut fields = vec![
            DraftField::new(FieldPath::Headline, &headline),
            DraftField::new(FieldPath::Conclusion, conclusion),
        ];
        let lists: [(fn(usize) -> FieldPath, &[RawItem]); 4] = [
            (FieldPath::KeyPoint, &raw.key_points),
            (FieldPath::ActionItem, &raw.action_items),
            (FieldPath::OpenQuestion, &raw.open_questions),
            (FieldPath::Deferred, &raw.deferred_items),
        ];
        for (path, list) in lists {
            let entries = list.iter().enumerate();
            fields.extend(entries.map(|(at, item)| self.read_item(path(at), item)));
        }
        fields
    }

    fn read_item(&mut self, path: FieldPath, raw: &RawItem) -> DraftField {
        let mut field = DraftField::new(path, &raw.text);
        if let FieldPath::ActionItem(_) = path {
            field.owner = self.owner(path, raw);
            field.due = self.date(path, raw);
        }
        field.sources = self.sources(path, raw);
        field
    }

    /// Returns the distinct sources that exist.
    fn sources(&mut self, path: FieldPath, raw: &RawItem) -> Vec<usize> {
        let (mut lines, mut unknown) = (Vec::new(), Vec::new());
        for source in &raw.sources {
            match source {
                RawSource::Line(at) if *at >= self.evidence.lines.len() => {
                    unknown.push(handle(*at))
                }
                RawSource::Line(at) if !lines.contains(at) => lines.push(*at),
                RawSource::Line(_) => {}
                RawSource::Unknown(named) => unknown.push(named.clone()),
            }
        }
        if !unknown.is_empty() {
            unknown.truncate(SOURCES_MAX);
            self.add(path, Kind::NoSuchSource(unknown), &raw.text);
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
        let (day, time) = written.split_at_checked(10).unwrap_or_default();
        let day = NaiveDate::parse_from_str(day, "%Y-%m-%d").ok();
        let day = day.filter(|_| time.is_empty() || time.starts_with(['T', ' ']));
        if day.is_none() {
            self.add(path, Kind::NotADate(written.to_owned()), &raw.text);
        }
        day
    }

    /// Checks every field; removes owners and dates that the sources do not support.
    fn judge(mut self, mut fields: Vec<DraftField>) -> Checked {
        for at in 0..fields.len() {
            if fields[at].is_whole() {
                fields[at].sources = self.evidence.backing(&fields[at].text, &fields);
            }
            let (before, rest) = fields.split_at_mut(at);
            let field = &mut rest[0];
            for kind in self.judge_field(field, before) {
                self.add(field.path, kind, &field.text);
            }
        }
        let key_points = fields
            .iter()
            .filter(|field| field.path.is_beside(FieldPath::KeyPoint(0)));
        let count = key_points.count();
        if count > KEY_POINTS_MAX {
            self.add(FieldPath::KeyPoints, Kind::TooManyKeyPoints(count), "");
        }
        let words = words_of(&fields, self.evidence.material);
        if words >= WORDS_MAX {
            self.add(FieldPath::Whole, Kind::TooManyWords(words), "");
        }
        Checked {
            outline: outline_of(fields),
            faults: self.faults,
        }
    }

    fn judge_field(&self, field: &mut DraftField, before: &[DraftField]) -> Vec<Kind> {
        let mut kinds = self.judge_text(field);
        if field.path == FieldPath::Conclusion
            && plain_sentences(&field.text).len() > CONCLUSION_SENTENCES_MAX
        {
            kinds.push(Kind::TooManySentences);
        }
        if let Some(kind) = self.evidence.owner_fault(field) {
            field.owner = None;
            kinds.push(kind);
        }
        if let Some(kind) = self.evidence.due_fault(field) {
            field.due = None;
            kinds.push(kind);
        }
        let is_item = matches!(field.path, FieldPath::ActionItem(_)) && !field.sources.is_empty();
        if is_item && !self.evidence.commits(field) {
            kinds.push(Kind::NoCommitment);
        }
        let is_told = |other: &DraftField| {
            other.path.is_beside(field.path)
                && is_same(&other.text, &field.text)
                && other.owner == field.owner
        };
        if before.iter().any(is_told) {
            kinds.push(Kind::Duplicate);
        }
        kinds
    }

    fn judge_text(&self, field: &DraftField) -> Vec<Kind> {
        if field.text.is_empty() {
            return vec![Kind::Empty];
        }
        let mut kinds = Vec::new();
        let units_max = field.path.units_max();
        if units(&field.text) > units_max {
            kinds.push(Kind::TooLong { units_max });
        }
        if !field.is_whole() && field.sources.is_empty() {
            kinds.push(Kind::NoSource);
            return kinds;
        }
        // Full-width digits are digits.
        let text = field.text.nfkc().collect();
        let field = &DraftField {
            text,
            ..field.clone()
        };
        if !self.evidence.supports(field) {
            kinds.push(Kind::Unsupported);
        }
        kinds.extend(self.evidence.superseded_in(field).map(|value| {
            let (old, new) = (value.old.clone(), value.new.clone());
            Kind::Superseded { old, new }
        }));
        kinds.extend(self.evidence.unknown_value(field).map(Kind::UnknownValue));
        kinds.extend(self.evidence.doubt(field).map(Kind::NotAdopted));
        kinds
    }
}

/// Checks whether both texts have the same words, or share nearly all of them.
fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (plain(one), plain(other));
    let words = |text| str::split_whitespace(text).collect::<BTreeSet<_>>();
    let (mine, theirs) = (words(&one), words(&other));
    let shared = mine.intersection(&theirs).count();
    let all = mine.union(&theirs).count();
    one == other || (shared >= SAME_WORDS_MIN && shared * 100 >= all * 85)
}
