//! Removes faulty parts of a draft and enforces every limit.

use std::collections::BTreeSet;

use openvibe_extract::{Material, Outline, Owner, Reading, plain_sentences};

use super::{
    ACTION_ITEMS_MAX, CONCLUSION_SENTENCES_MAX, DEFERRED_ITEMS_MAX, KEY_POINTS_MAX,
    OPEN_QUESTIONS_MAX, OWNER_NAME_UNITS_MAX, SOURCES_MAX, UnparsableDraft, WORDS_MAX,
    check::{Checked, check_extracted},
    clean::{clean, cut_to_units, cut_to_words},
    fault::{Fault, FieldPath},
    field::{DraftField, fields_of, outline_of, words_of},
};

/// Decreasing word limits per text, applied while the draft has too many words.
const TEXT_WORDS_STEPS: [usize; 5] = [40, 30, 22, 16, 12];
const CONCLUSION_WORDS_MAX: usize = 60;
const HEADLINE_WORDS_MAX: usize = 24;
/// Number of key points that are shortened before they are dropped.
const KEY_POINTS_KEPT: usize = 2;

/// Removes the faulty parts that were not repaired, and cuts the rest to the limits. `material` must be the same as for the check.
///
/// # Errors
/// `Unsupported` if the headline, the conclusion, or every entry is faulty.
pub fn trim(checked: Checked, material: &Material) -> Result<Outline, UnparsableDraft> {
    let had_entries = has_entries(&checked.outline);
    let outline = kept(checked);
    if outline.headline.is_empty()
        || outline.conclusion.is_empty()
        || had_entries && !has_entries(&outline)
    {
        return Err(UnparsableDraft::Unsupported);
    }
    Ok(fit(outline, material))
}

/// The extractor's draft, checked like a model's. The headline is empty if nothing was decided.
pub fn extracted(material: &Material, reading: &Reading) -> Outline {
    let mut outline = kept(check_extracted(material, reading));
    if outline.conclusion.is_empty() {
        outline.conclusion = match outline.headline.as_str() {
            "" => reading.phrase("none").to_owned(),
            headline => headline.to_owned(),
        };
    }
    fit(outline, material)
}

fn has_entries(outline: &Outline) -> bool {
    let points = [
        &outline.key_points,
        &outline.open_questions,
        &outline.deferred_items,
    ];
    !outline.action_items.is_empty() || points.iter().any(|points| !points.is_empty())
}

/// The outline without texts that have a fatal fault.
fn kept(checked: Checked) -> Outline {
    let mut faults = checked.faults;
    faults.retain(Fault::is_fatal);
    let mut fields = fields_of(checked.outline);
    fields.retain(|field| faults.iter().all(|fault| fault.path != field.path));
    outline_of(fields)
}

/// Applies every limit to the outline: lengths, counts, only existing sources and owners, and fewer than `WORDS_MAX` words.
pub(super) fn fit(outline: Outline, material: &Material) -> Outline {
    let mut fields = fields_of(outline);
    for field in &mut fields {
        fit_field(field, material);
    }
    fields.retain(|field| !field.text.is_empty());
    let mut outline = outline_of(fields);
    outline.key_points.truncate(KEY_POINTS_MAX);
    outline.action_items.truncate(ACTION_ITEMS_MAX);
    outline.open_questions.truncate(OPEN_QUESTIONS_MAX);
    outline.deferred_items.truncate(DEFERRED_ITEMS_MAX);
    shorten(&mut outline, material);
    outline
}

fn fit_field(field: &mut DraftField, material: &Material) {
    field.text = clean(&field.text);
    if field.path == FieldPath::Conclusion {
        let sentences = plain_sentences(&field.text);
        if sentences.len() > CONCLUSION_SENTENCES_MAX {
            field.text = sentences[..CONCLUSION_SENTENCES_MAX].join(" ");
        }
    }
    field.text = cut_to_units(&field.text, field.path.units_max());
    let mut seen = BTreeSet::new();
    let sources = &mut field.sources;
    sources.retain(|line| *line < material.lines.len() && seen.insert(*line));
    sources.truncate(SOURCES_MAX);
    field.owner = match field.owner.take() {
        Some(Owner::Person(at)) if at < material.people.len() => Some(Owner::Person(at)),
        Some(Owner::Named(name)) => {
            let name = cut_to_units(&clean(&name), OWNER_NAME_UNITS_MAX);
            (!name.is_empty()).then_some(Owner::Named(name))
        }
        _ => None,
    };
}

/// Shortens the outline until it is within the word limit, starting with the least important parts.
fn shorten(outline: &mut Outline, material: &Material) {
    let is_over = |outline: &Outline| words_of(outline, material) >= WORDS_MAX;
    while is_over(outline) && outline.deferred_items.pop().is_some() {}
    while is_over(outline) && outline.open_questions.pop().is_some() {}
    while is_over(outline) && outline.key_points.len() > KEY_POINTS_KEPT {
        outline.key_points.pop();
    }
    for words_max in TEXT_WORDS_STEPS {
        if !is_over(outline) {
            return;
        }
        for point in &mut outline.key_points {
            point.text = cut_to_words(&point.text, words_max);
        }
        for item in &mut outline.action_items {
            item.text = cut_to_words(&item.text, words_max);
        }
    }
    if is_over(outline) {
        outline.conclusion = cut_to_words(&outline.conclusion, CONCLUSION_WORDS_MAX);
        outline.headline = cut_to_words(&outline.headline, HEADLINE_WORDS_MAX);
    }
    while is_over(outline) && outline.action_items.pop().is_some() {}
    while is_over(outline) && outline.key_points.pop().is_some() {}
}
