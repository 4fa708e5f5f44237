//! Removes faulty parts of a draft and enforces every limit.

use std::collections::BTreeSet;

use openvibe_extract::{Item, Material, Outline, Owner, Point, Reading, Speaker, plain_sentences};

use super::{
    ACTION_ITEMS_MAX, CONCLUSION_SENTENCES_MAX, CONCLUSION_UNITS_MAX, DEFERRED_ITEMS_MAX,
    HEADLINE_UNITS_MAX, KEY_POINTS_MAX, KEY_POINTS_MIN, OPEN_QUESTIONS_MAX, OWNER_NAME_UNITS_MAX,
    SOURCES_MAX, TALK_LINES_MIN, TEXT_UNITS_MAX, WORDS_MAX,
    check::{Checked, is_same, words_of},
    clean::{clean, cut_to_units, cut_to_words},
    fault::{FieldPath, Kind},
    grounds::SourceIndex,
};

/// Decreasing word limits per text, applied while the draft has too many words.
const TEXT_WORDS_STEPS: [usize; 5] = [40, 30, 22, 16, 12];
const CONCLUSION_WORDS_MAX: usize = 60;
const HEADLINE_WORDS_MAX: usize = 24;
/// Maximum number of key points for which extracted points are added.
const FILLED_MAX: usize = KEY_POINTS_MIN;

/// Drops faulty parts that were not repaired, fills the gaps from `reading`, and cuts the rest to
/// the limits. `material` and `reading` must be those of the check.
pub fn trim(checked: Checked, material: &Material, reading: &Reading) -> Outline {
    let grounds = SourceIndex::new(material, reading);
    let Checked {
        mut outline,
        faults,
    } = checked;
    let dropped: BTreeSet<FieldPath> = faults
        .iter()
        .filter(|fault| is_fatal(&fault.kind))
        .map(|fault| fault.path)
        .collect();
    let unsourced: BTreeSet<FieldPath> = faults
        .iter()
        .filter(|fault| fault.kind == Kind::NoSource)
        .map(|fault| fault.path)
        .collect();
    let tells_wrongly = |path| {
        let mut faults = faults.iter().filter(|fault| fault.path == path);
        faults.any(|fault| matches!(fault.kind, Kind::Superseded { .. } | Kind::AgentsOnly))
    };
    let is_misled = [FieldPath::Headline, FieldPath::Conclusion].map(tells_wrongly);

    let count = outline.key_points.len();
    let weak = keep(&mut outline, &dropped, &unsourced);
    let offline = cleaned(reading.outline());
    let talk = material.lines.iter().skip(1);
    let talk = talk
        .filter(|line| matches!(line.speaker, Speaker::Person(_)))
        .count();
    let points = outline.key_points.len();
    let lost_all = points == 0 && (count > 0 || outline.action_items.is_empty());
    if lost_all || (points < KEY_POINTS_MIN && talk >= TALK_LINES_MIN) {
        fill(&mut outline.key_points, &offline.key_points, &grounds);
    }
    if outline.key_points.is_empty() && outline.action_items.is_empty() {
        // Keep entries without sources if nothing else is left: people see that they have none and
        // decide.
        outline.key_points = weak.key_points;
        outline.action_items = weak.action_items;
    }
    statements(&mut outline, &offline, &dropped, is_misled, &grounds);
    fit(outline, material)
}

/// Whether an entry with this fault is dropped.
fn is_fatal(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Empty
            | Kind::Superseded { .. }
            | Kind::AgentsOnly
            | Kind::UnknownNumber(_)
            | Kind::Duplicate
    )
}

/// Keeps valid entries and returns those that only lack a source.
fn keep(
    outline: &mut Outline,
    dropped: &BTreeSet<FieldPath>,
    unsourced: &BTreeSet<FieldPath>,
) -> Outline {
    fn split<T>(
        entries: &mut Vec<T>,
        path: fn(usize) -> FieldPath,
        dropped: &BTreeSet<FieldPath>,
        unsourced: &BTreeSet<FieldPath>,
    ) -> Vec<T> {
        let (mut kept, mut weak) = (Vec::new(), Vec::new());
        for (at, entry) in entries.drain(..).enumerate() {
            if dropped.contains(&path(at)) {
                continue;
            }
            let into = if unsourced.contains(&path(at)) {
                &mut weak
            } else {
                &mut kept
            };
            into.push(entry);
        }
        *entries = kept;
        weak
    }
    Outline {
        key_points: split(
            &mut outline.key_points,
            FieldPath::KeyPoint,
            dropped,
            unsourced,
        ),
        action_items: split(
            &mut outline.action_items,
            FieldPath::ActionItem,
            dropped,
            unsourced,
        ),
        open_questions: split(
            &mut outline.open_questions,
            FieldPath::OpenQuestion,
            dropped,
            unsourced,
        ),
        deferred_items: split(
            &mut outline.deferred_items,
            FieldPath::Deferred,
            dropped,
            unsourced,
        ),
        ..Outline::default()
    }
}

/// Adds valid extracted points that are not in the list yet.
fn fill(points: &mut Vec<Point>, offline: &[Point], grounds: &SourceIndex<'_>) {
    for point in offline {
        if points.len() >= FILLED_MAX {
            return;
        }
        let holds = !point.text.is_empty()
            && !point.sources.is_empty()
            && !grounds.are_idle(&point.sources)
            && grounds.superseded_in(&point.text, &point.sources).is_none();
        if holds && !points.iter().any(|other| is_same(&other.text, &point.text)) {
            points.push(point.clone());
        }
    }
}

/// Replaces a dropped headline or conclusion. If it stated a corrected value or only an assistant's
/// view, prefers the extracted text; otherwise the first key point.
fn statements(
    outline: &mut Outline,
    offline: &Outline,
    dropped: &BTreeSet<FieldPath>,
    is_misled: [bool; 2],
    grounds: &SourceIndex<'_>,
) {
    let point = outline
        .key_points
        .first()
        .map_or("", |point| point.text.as_str());
    let stands = |path: FieldPath, text: &str| {
        if dropped.contains(&path) {
            String::new()
        } else {
            text.to_owned()
        }
    };
    let given = [
        stands(FieldPath::Headline, &outline.headline),
        stands(FieldPath::Conclusion, &outline.conclusion),
    ];
    let forked = grounds.material.lines.first();
    let about = forked.map_or(String::new(), |line| {
        clean(
            line.text
                .lines()
                .find(|line| !line.trim().is_empty())
                .unwrap_or_default(),
        )
    });
    let first_that_holds = |candidates: &[&str]| {
        let holds =
            |text: &&&str| !text.trim().is_empty() && grounds.superseded_in(text, &[]).is_none();
        candidates
            .iter()
            .find(holds)
            .map_or(String::new(), |text| (*text).to_owned())
    };
    let conclusion = if is_misled[1] {
        first_that_holds(&[&given[1], &offline.conclusion, point, &given[0]])
    } else {
        first_that_holds(&[&given[1], point, &offline.conclusion, &given[0]])
    };
    let opening = plain_sentences(&conclusion)
        .into_iter()
        .next()
        .unwrap_or_default();
    outline.headline = if is_misled[0] {
        first_that_holds(&[&given[0], &offline.headline, &opening, point, &about])
    } else {
        first_that_holds(&[&given[0], &opening, point, &offline.headline, &about])
    };
    outline.conclusion = conclusion;
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
/// `WORDS_MAX` words. Also used for extracted outlines.
pub fn fit(outline: Outline, material: &Material) -> Outline {
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
    while is_over(outline) && outline.key_points.len() > KEY_POINTS_MIN {
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
