//! Converts an outline, which refers to positions, into the content of a draft, which refers to
//! IDs.

use std::collections::HashSet;

use openvibe_extract::{Item, Outline, Owner, Point};

use super::{
    drafts::Content,
    form::one_line,
    material::ForkMaterial,
    resolution::{Resolution, ResolutionItem, SourcedText},
};
use crate::ids::{ActionItemId, MessageId, UserId};

/// Two items of one owner count as the same if they have at least this percentage of their words in common.
const SAME_WORDS_PERCENT: usize = 60;

/// Content of a draft. Items that the previous resolution already has keep their IDs and their
/// `done` state.
pub(super) fn content_of(
    dive: &ForkMaterial,
    outline: &Outline,
    before: Option<&Resolution>,
) -> Content {
    let mut known: Vec<&ResolutionItem> =
        before.map_or_else(Vec::new, |result| result.action_items.iter().collect());
    let points = |points: &[Point]| -> Vec<SourcedText> {
        points
            .iter()
            .map(|point| SourcedText {
                text: one_line(&point.text),
                sources: sources(dive, &point.sources),
            })
            .filter(|point| !point.text.is_empty())
            .collect()
    };
    Content {
        headline: one_line(&outline.headline),
        conclusion: one_line(&outline.conclusion),
        key_points: points(&outline.key_points),
        action_items: outline
            .action_items
            .iter()
            .map(|item| item_of(dive, item, &mut known))
            .filter(|item| !item.text.is_empty())
            .collect(),
        open_questions: points(&outline.open_questions),
        deferred_items: points(&outline.deferred_items),
    }
}

fn sources(dive: &ForkMaterial, lines: &[usize]) -> Vec<MessageId> {
    let mut seen = HashSet::new();
    lines
        .iter()
        .filter_map(|line| dive.message_ids.get(*line).copied())
        .filter(|id| seen.insert(*id))
        .collect()
}

fn item_of(dive: &ForkMaterial, item: &Item, known: &mut Vec<&ResolutionItem>) -> ResolutionItem {
    let text = one_line(&item.text);
    let (owner_id, owner_name): (Option<UserId>, Option<String>) = match &item.owner {
        Some(Owner::Person(n)) => (
            dive.people.get(*n).copied().flatten(),
            dive.material
                .people
                .get(*n)
                .map(|person| person.name.clone()),
        ),
        Some(Owner::Named(name)) => (None, Some(one_line(name))),
        None => (None, None),
    };
    let same = known
        .iter()
        .position(|old| old.owner_id == owner_id && is_same_text(&old.text, &text));
    let same = same.map(|n| known.remove(n));
    ResolutionItem {
        id: same.map_or_else(ActionItemId::new, |old| old.id),
        text,
        owner_id,
        owner_name,
        due: item.due.map(|day| day.format("%Y-%m-%d").to_string()),
        done: same.is_some_and(|old| old.done),
        sources: sources(dive, &item.sources),
    }
}

fn is_same_text(one: &str, other: &str) -> bool {
    let words = |text: &str| -> HashSet<String> {
        text.split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect()
    };
    let (one, other) = (words(one), words(other));
    let shared = one.intersection(&other).count();
    let all = one.union(&other).count();
    all > 0 && shared * 100 >= all * SAME_WORDS_PERCENT
}

#[cfg(test)]
mod tests {
    use super::is_same_text;

    #[test]
    fn an_item_is_matched_if_most_of_its_words_are_unchanged() {
        assert!(is_same_text("Send the draft to Mia", "send draft to Mia"));
        assert!(!is_same_text("Send the draft to Mia", "Book the room"));
        assert!(!is_same_text("", ""));
    }
}
