//! Limits of an outline; the least important entries are dropped first.

use super::super::{Outline, Point, thread::add};
use super::{
    CONCLUSION_MAX, HEADLINE_MAX, ITEM_WORDS, POINT_MAX, POINT_WORDS, POINTS_MAX, SOURCES_MAX,
    WORDS_MAX, text::shortened, text::within,
};

/// Merges neighboring points if there are more than `POINTS_MAX`.
pub(super) fn bundle(mut points: Vec<Point>) -> Vec<Point> {
    while points.len() > POINTS_MAX {
        let shortest = (0..points.len() - 1)
            .min_by_key(|at| points[*at].text.len() + points[at + 1].text.len())
            .unwrap_or(0);
        let next = points.remove(shortest + 1);
        let point = &mut points[shortest];
        point.text = format!("{} {}", point.text, next.text);
        for source in next.sources {
            add(&mut point.sources, source);
        }
    }
    for point in &mut points {
        point.text = shortened(&point.text, POINT_WORDS + 10);
        point.sources.sort_unstable();
    }
    points
}

fn words(outline: &Outline) -> usize {
    let points = outline
        .key_points
        .iter()
        .chain(&outline.open_questions)
        .chain(&outline.deferred_items);
    let texts = points
        .map(|point| point.text.as_str())
        .chain(outline.action_items.iter().map(|item| item.text.as_str()))
        .chain([outline.headline.as_str(), outline.conclusion.as_str()]);
    texts.map(|text| text.split_whitespace().count()).sum()
}

/// Enforces all limits; drops the least important entries first.
pub(super) fn fit(outline: &mut Outline) {
    let units = |text: &mut String, max: usize| {
        let cut = within(text, max).len();
        text.truncate(cut);
    };
    units(&mut outline.headline, HEADLINE_MAX);
    units(&mut outline.conclusion, CONCLUSION_MAX);
    let mut cap = POINT_WORDS;
    while words(outline) > WORDS_MAX {
        if cap > 12 {
            cap -= 4;
            for point in outline
                .key_points
                .iter_mut()
                .chain(&mut outline.open_questions)
                .chain(&mut outline.deferred_items)
            {
                point.text = shortened(&point.text, cap);
            }
            outline.conclusion = shortened(&outline.conclusion, cap + 18);
            for item in &mut outline.action_items {
                item.text = shortened(&item.text, cap.min(ITEM_WORDS));
            }
        } else if outline.deferred_items.len() > 1 {
            outline.deferred_items.pop();
        } else if outline.open_questions.len() > 1 {
            outline.open_questions.remove(0);
        } else if outline.action_items.len() > 1 {
            outline.action_items.remove(0);
        } else {
            outline.key_points.pop();
        }
    }
    let points = outline
        .key_points
        .iter_mut()
        .chain(&mut outline.open_questions)
        .chain(&mut outline.deferred_items);
    for point in points {
        units(&mut point.text, POINT_MAX);
        point.sources.truncate(SOURCES_MAX);
    }
    for item in &mut outline.action_items {
        units(&mut item.text, POINT_MAX);
        item.sources.truncate(SOURCES_MAX);
    }
}
