//! Checks a draft against its conversation.
//!
//! `read` turns a model's answer into fields with the sources, owners, and dates that exist; `judge` then checks fields
//! of any origin.

use std::{cmp::min_by_key, collections::BTreeSet};

use chrono::NaiveDate;
use openvibe_extract::{Material, Outline, Reading, plain_sentences};
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

/// Outline of an answer, and the faults found in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The answer without sources that do not exist, and without owners and due dates that do not exist or are not supported. `trim`
    /// removes all other faulty parts.
    pub outline: Outline,
    pub faults: Vec<Fault>,
}

impl Checked {
    /// Returns the answer or its repair, whichever has fewer faults. Returns the repair if both have the same number.
    #[must_use]
    pub fn or_better(self, repaired: Self) -> Self {
        min_by_key(repaired, self, |checked| checked.faults.len())
    }
}

/// Checks a model's answer. `reading` must be the reading of `material`.
pub fn check(raw: &Raw, material: &Material, reading: &Reading, agents: AgentLines) -> Checked {
    let evidence = &Evidence::new(material, reading, agents);
    let mut faults = Vec::new();
    let fields = read(raw, evidence, &mut faults);
    judge(fields, evidence, faults)
}

/// Checks the extractor's outline.
pub(super) fn check_extracted(material: &Material, reading: &Reading) -> Checked {
    let evidence = &Evidence::new(material, reading, AgentLines::Ideas);
    let mut fields = fields_of(reading.outline());
    for field in &mut fields {
        field.text = clean(&field.text);
    }
    judge(fields, evidence, Vec::new())
}

/// Converts an answer to fields. Omits sources, owners, and dates that do not exist, and adds them to `faults`.
fn read(raw: &Raw, evidence: &Evidence<'_>, faults: &mut Vec<Fault>) -> Vec<DraftField> {
    let (mut headline, mut conclusion) = (raw.headline.clone(), raw.conclusion.clone());
    // If the headline or the conclusion is missing, it is taken from the other one.
    if headline.is_empty() {
        let mut sentences = plain_sentences(&conclusion).into_iter();
        headline = sentences.next().unwrap_or_default();
    } else if conclusion.is_empty() {
        conclusion.clone_from(&headline);
    }
    let mut fields = vec![
        DraftField::new(FieldPath::Headline, headline),
        DraftField::new(FieldPath::Conclusion, conclusion),
    ];
    let mut read = |path: fn(usize) -> FieldPath, list: &[RawItem]| {
        for (at, raw) in list.iter().enumerate() {
            let mut field = DraftField::new(path(at), raw.text.clone());
            for kind in read_item(raw, &mut field, evidence) {
                faults.push(Fault::new(field.path, kind, &raw.text));
            }
            fields.push(field);
        }
    };
    read(FieldPath::KeyPoint, &raw.key_points);
    read(FieldPath::ActionItem, &raw.action_items);
    read(FieldPath::OpenQuestion, &raw.open_questions);
    read(FieldPath::Deferred, &raw.deferred_items);
    fields
}

/// Sets the owner, the due date, and the sources of an entry. Returns the faults found in them.
fn read_item(raw: &RawItem, field: &mut DraftField, evidence: &Evidence<'_>) -> Vec<Kind> {
    let mut kinds = Vec::new();
    if let FieldPath::ActionItem(_) = field.path {
        if let Some(named) = &raw.owner {
            match owner::find(named, evidence) {
                Found::Owner(owner) => field.owner = Some(owner),
                Found::Nobody => {}
                Found::Agent(name) => kinds.push(Kind::OwnerIsAgent(name)),
                Found::Unknown => kinds.push(Kind::UnknownOwner(named.clone())),
            }
        }
        field.due = raw.due.as_deref().and_then(date);
        let unread = raw.due.clone().filter(|_| field.due.is_none());
        kinds.extend(unread.map(Kind::NotADate));
    }
    let mut unknown = Vec::new();
    for source in &raw.sources {
        match source {
            RawSource::Line(at) if *at < evidence.lines.len() => field.sources.push(*at),
            RawSource::Line(at) => unknown.push(handle(*at)),
            RawSource::Unknown(named) => unknown.push(named.clone()),
        }
    }
    if !unknown.is_empty() {
        unknown.truncate(SOURCES_MAX);
        kinds.push(Kind::NoSuchSource(unknown));
    }
    kinds
}

/// The day of a date, which may include a time.
fn date(written: &str) -> Option<NaiveDate> {
    let (day, time) = written.split_at_checked(10)?;
    let is_day = time.is_empty() || time.starts_with(['T', ' ']);
    let day = NaiveDate::parse_from_str(day, "%Y-%m-%d").ok();
    day.filter(|_| is_day)
}

/// Checks every field. Replaces an owner whom the sources do not support with the person who takes on the task in the sources, if
/// there is exactly one. Removes an unsupported due date.
fn judge(mut fields: Vec<DraftField>, evidence: &Evidence<'_>, mut faults: Vec<Fault>) -> Checked {
    let mut add = |path, kind, text: &str| faults.push(Fault::new(path, kind, text));
    for at in 0..fields.len() {
        if fields[at].is_whole() {
            fields[at].sources = evidence.backing(&fields[at].text, &fields);
        }
        let (before, rest) = fields.split_at_mut(at);
        let field = &mut rest[0];
        for kind in judge_field(field, before, evidence) {
            add(field.path, kind, &field.text);
        }
    }
    let outline = outline_of(fields);
    let count = outline.key_points.len();
    if count > KEY_POINTS_MAX {
        add(FieldPath::KeyPoints, Kind::TooManyKeyPoints(count), "");
    }
    let words = words_of(&outline, evidence.material);
    if words >= WORDS_MAX {
        add(FieldPath::Whole, Kind::TooManyWords(words), "");
    }
    Checked { outline, faults }
}

fn judge_field(
    field: &mut DraftField,
    before: &[DraftField],
    evidence: &Evidence<'_>,
) -> Vec<Kind> {
    let mut kinds = judge_text(field, evidence);
    let is_conclusion = field.path == FieldPath::Conclusion;
    if is_conclusion && plain_sentences(&field.text).len() > CONCLUSION_SENTENCES_MAX {
        kinds.push(Kind::TooManySentences);
    }
    if let Some(kind) = evidence.owner_fault(field) {
        field.owner = evidence.taker(field);
        kinds.push(kind);
    }
    if let Some(kind) = evidence.due_fault(field) {
        field.due = None;
        kinds.push(kind);
    }
    let is_item = matches!(field.path, FieldPath::ActionItem(_)) && !field.sources.is_empty();
    if is_item && !evidence.commits(field) {
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

fn judge_text(field: &DraftField, evidence: &Evidence<'_>) -> Vec<Kind> {
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
    // Normalized, so that full-width digits count as digits.
    let text = field.text.nfkc().collect();
    let field = &DraftField {
        text,
        ..field.clone()
    };
    if !evidence.supports(field) {
        kinds.push(Kind::Unsupported);
    }
    kinds.extend(evidence.superseded_in(field).map(|value| {
        let (old, new) = (value.old.clone(), value.new.clone());
        Kind::Superseded { old, new }
    }));
    kinds.extend(evidence.unknown_value(field).map(Kind::UnknownValue));
    kinds.extend(evidence.doubt(field).map(Kind::NotAdopted));
    kinds
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
