//! Removes faulty parts of a draft and enforces every limit.

use std::collections::BTreeSet;

use openvibe_extract::{Item, Material, Outline, Owner, Reading, plain_sentences};

use super::{
    ACTION_ITEMS_MAX, CONCLUSION_SENTENCES_MAX, CONCLUSION_UNITS_MAX, DEFERRED_ITEMS_MAX,
    HEADLINE_UNITS_MAX, KEY_POINTS_MAX, OPEN_QUESTIONS_MAX, OWNER_NAME_UNITS_MAX, SOURCES_MAX,
    TEXT_UNITS_MAX, UnparsableDraft, WORDS_MAX,
    check::{Checked, check_outline, words_of},
    clean::{clean, cut_to_units, cut_to_words},
    fault::FieldPath,
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
    let mut outline = kept(check_outline(cleaned(reading.outline()), material, reading));
    let point = outline.key_points.first().map(|point| point.text.clone());
    for (text, name) in [
        (&mut outline.headline, "none-headline"),
        (&mut outline.conclusion, "none"),
    ] {
        if text.is_empty() {
            *text = point
                .clone()
                .unwrap_or_else(|| reading.phrase(name).to_owned());
        }
    }
    fit(outline, material)
}

/// Removes the entries at the positions for which `is_fatal` holds.
fn keep<T>(entries: &mut Vec<T>, is_fatal: impl Fn(usize) -> bool) {
    let mut at = 0..;
    entries.retain(|_| !at.next().is_some_and(&is_fatal));
}

/// The outline without texts that have a fatal fault.
fn kept(checked: Checked) -> Outline {
    let Checked {
        mut outline,
        faults,
    } = checked;
    let fatal = |path| {
        faults
            .iter()
            .any(|fault| fault.path == path && fault.is_fatal())
    };
    for (text, path) in [
        (&mut outline.headline, FieldPath::Headline),
        (&mut outline.conclusion, FieldPath::Conclusion),
    ] {
        if fatal(path) {
            text.clear();
        }
    }
    keep(&mut outline.key_points, |at| fatal(FieldPath::KeyPoint(at)));
    keep(&mut outline.action_items, |at| {
        fatal(FieldPath::ActionItem(at))
    });
    keep(&mut outline.open_questions, |at| {
        fatal(FieldPath::OpenQuestion(at))
    });
    keep(&mut outline.deferred_items, |at| {
        fatal(FieldPath::Deferred(at))
    });
    outline
}

fn cleaned(mut outline: Outline) -> Outline {
    outline.headline = clean(&outline.headline);
    outline.conclusion = clean(&outline.conclusion);
    let points = [
        &mut outline.key_points,
        &mut outline.open_questions,
        &mut outline.deferred_items,
    ];
    for point in points.into_iter().flatten() {
        point.text = clean(&point.text);
    }
    for item in &mut outline.action_items {
        item.text = clean(&item.text);
    }
    outline
}

/// Cuts the outline to every limit: lengths, counts, existing sources and owners, and fewer than
/// `WORDS_MAX` words.
pub(super) fn fit(outline: Outline, material: &Material) -> Outline {
    let mut outline = cleaned(outline);
    outline.headline = cut_to_units(&outline.headline, HEADLINE_UNITS_MAX);
    outline.conclusion = cut_to_units(&first_sentences(&outline.conclusion), CONCLUSION_UNITS_MAX);
    let lists = [
        (&mut outline.key_points, KEY_POINTS_MAX),
        (&mut outline.open_questions, OPEN_QUESTIONS_MAX),
        (&mut outline.deferred_items, DEFERRED_ITEMS_MAX),
    ];
    for (points, count_max) in lists {
        for point in points.iter_mut() {
            point.text = cut_to_units(&point.text, TEXT_UNITS_MAX);
            fit_sources(&mut point.sources, material);
        }
        points.retain(|point| !point.text.is_empty());
        points.truncate(count_max);
    }
    for item in &mut outline.action_items {
        fit_item(item, material);
    }
    outline.action_items.retain(|item| !item.text.is_empty());
    outline.action_items.truncate(ACTION_ITEMS_MAX);
    shorten(&mut outline, material);
    outline
}

fn fit_item(item: &mut Item, material: &Material) {
    item.text = cut_to_units(&item.text, TEXT_UNITS_MAX);
    fit_sources(&mut item.sources, material);
    item.owner = match item.owner.take() {
        Some(Owner::Person(at)) if at < material.people.len() => Some(Owner::Person(at)),
        Some(Owner::Named(name)) => {
            let name = cut_to_units(&clean(&name), OWNER_NAME_UNITS_MAX);
            (!name.is_empty()).then_some(Owner::Named(name))
        }
        _ => None,
    };
}

fn fit_sources(sources: &mut Vec<usize>, material: &Material) {
    let mut seen = BTreeSet::new();
    sources.retain(|line| *line < material.lines.len() && seen.insert(*line));
    sources.truncate(SOURCES_MAX);
}

fn first_sentences(text: &str) -> String {
    let sentences = plain_sentences(text);
    if sentences.len() <= CONCLUSION_SENTENCES_MAX {
        return text.to_owned();
    }
    sentences[..CONCLUSION_SENTENCES_MAX].join(" ")
}

/// Shortens the outline, least important parts first.
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
