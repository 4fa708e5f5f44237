//! Removes faulty parts of a draft and enforces every limit.

use std::{
    collections::{BTreeSet, HashMap},
    mem,
};

use openvibe_extract::{Material, Outline, Owner, Reading, plain_sentences};

use super::{
    CONCLUSION_SENTENCES_MAX, OWNER_NAME_UNITS_MAX, SOURCES_MAX, UnparsableDraft, WORDS_MAX,
    check::{Checked, check_extracted},
    clean::{clean, cut_to_units, cut_to_words},
    fault::{Fault, FieldPath},
    field::{DraftField, fields_of, outline_of, words_of},
};

/// Decreasing word limits per text, applied while the draft has too many words.
const TEXT_WORDS_STEPS: [usize; 5] = [40, 30, 22, 16, 12];
const CONCLUSION_WORDS_MAX: usize = 60;
const HEADLINE_WORDS_MAX: usize = 24;
/// Key points that are shortened before they are dropped.
const KEY_POINTS_KEPT: usize = 2;

/// Removes the faulty parts that were not repaired, and cuts the rest to the limits. `material` must be that of the
/// check.
///
/// # Errors
/// `Unsupported` if the headline or the conclusion is faulty.
pub fn trim(checked: Checked, material: &Material) -> Result<Outline, UnparsableDraft> {
    let outline = kept(checked);
    if outline.headline.is_empty() || outline.conclusion.is_empty() {
        return Err(UnparsableDraft::Unsupported);
    }
    Ok(fit(outline, material))
}

/// The extractor's draft, checked like a model's.
pub fn extracted(material: &Material, reading: &Reading) -> Outline {
    let mut outline = kept(check_extracted(material, reading));
    let point = outline.key_points.first().map(|point| point.text.clone());
    for (text, name) in [
        (&mut outline.headline, "none-headline"),
        (&mut outline.conclusion, "none"),
    ] {
        if text.is_empty() {
            let point = point.clone();
            *text = point.unwrap_or_else(|| reading.phrase(name).to_owned());
        }
    }
    fit(outline, material)
}

/// The outline without texts that have a fatal fault.
fn kept(checked: Checked) -> Outline {
    let mut faults = checked.faults;
    faults.retain(Fault::is_fatal);
    let mut fields = fields_of(checked.outline);
    fields.retain(|field| faults.iter().all(|fault| fault.path != field.path));
    outline_of(fields)
}

/// Cuts the outline to every limit: lengths, counts, existing sources and owners, and fewer than
/// `WORDS_MAX` words.
pub(super) fn fit(outline: Outline, material: &Material) -> Outline {
    let mut fields = fields_of(outline);
    for field in &mut fields {
        fit_field(field, material);
    }
    let mut counts = HashMap::new();
    fields.retain(|field| !field.text.is_empty());
    fields.retain(|field| {
        let count = counts.entry(mem::discriminant(&field.path)).or_insert(0);
        *count += 1;
        *count <= field.path.count_max()
    });
    shorten(&mut fields, material);
    outline_of(fields)
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

/// Shortens the outline, least important parts first.
fn shorten(fields: &mut Vec<DraftField>, material: &Material) {
    drop_last(fields, FieldPath::Deferred(0), 0, material);
    drop_last(fields, FieldPath::OpenQuestion(0), 0, material);
    drop_last(fields, FieldPath::KeyPoint(0), KEY_POINTS_KEPT, material);
    for words_max in TEXT_WORDS_STEPS {
        cut_texts(fields, material, |path| match path {
            FieldPath::KeyPoint(_) | FieldPath::ActionItem(_) => words_max,
            _ => usize::MAX,
        });
    }
    cut_texts(fields, material, |path| match path {
        FieldPath::Headline => HEADLINE_WORDS_MAX,
        FieldPath::Conclusion => CONCLUSION_WORDS_MAX,
        _ => usize::MAX,
    });
    drop_last(fields, FieldPath::ActionItem(0), 0, material);
    drop_last(fields, FieldPath::KeyPoint(0), 0, material);
}

fn is_over(fields: &[DraftField], material: &Material) -> bool {
    words_of(fields, material) >= WORDS_MAX
}

/// Drops the last entries of a list, except for the first `kept`, while there are too many words.
fn drop_last(fields: &mut Vec<DraftField>, list: FieldPath, kept: usize, material: &Material) {
    let positions = (0..fields.len()).filter(|at| fields[*at].path.is_beside(list));
    let positions: Vec<usize> = positions.skip(kept).collect();
    for at in positions.into_iter().rev() {
        if is_over(fields, material) {
            fields.remove(at);
        }
    }
}

/// Cuts each text to its number of words if there are too many words.
fn cut_texts(
    fields: &mut [DraftField],
    material: &Material,
    words_max: impl Fn(FieldPath) -> usize,
) {
    if is_over(fields, material) {
        for field in fields {
            field.text = cut_to_words(&field.text, words_max(field.path));
        }
    }
}
