//! Items without a model, by the extractor.

use openvibe_extract::{Line, Material, Person, Reading, Speaker};

use crate::memory::entry::MemoryKind;

use super::{
    draft::{RawDraft, RawItem},
    item::{SegmentPerson, SourceLine},
};

/// Maximum number of statements that are kept as facts.
const FACTS_MAX: usize = 6;
/// Number of characters of a message that are read.
const LINE_CHARS_MAX: usize = 8_000;

/// Converts messages for the extractor.
pub(super) fn material(lines: &[SourceLine], people: &[SegmentPerson]) -> Material {
    let people = people.iter().map(|person| Person {
        name: person.name.clone(),
        handle: String::new(),
    });
    let lines = lines.iter().map(|line| Line {
        speaker: match line.person {
            Some(person) => Speaker::Person(person),
            None => Speaker::Agent(line.name.clone()),
        },
        text: line.text.chars().take(LINE_CHARS_MAX).collect(),
        files: Vec::new(),
        day: line.day,
    });
    Material {
        people: people.collect(),
        lines: lines.collect(),
    }
}

/// Returns a draft that consists of quotes.
pub(super) fn draft(reading: &Reading) -> RawDraft {
    let mut items: Vec<RawItem> = Vec::new();
    let mut add = |kind: MemoryKind, lines: &[usize], text: &str| {
        items.push(RawItem {
            text: text.to_owned(),
            kind: kind.to_string(),
            sources: lines.iter().map(|line| format!("m{}", line + 1)).collect(),
            about: None,
            for_agent: false,
        });
    };
    for point in reading.decisions() {
        add(MemoryKind::Decision, &point.sources, &point.text);
    }
    for task in reading.tasks() {
        add(MemoryKind::Todo, &task.sources, &task.text);
    }
    for point in reading.open_questions() {
        add(MemoryKind::OpenLoop, &point.sources, &point.text);
    }
    for point in reading.main_points(FACTS_MAX) {
        add(MemoryKind::Fact, &point.sources, &point.text);
    }
    let outline = reading.outline();
    RawDraft {
        gist: format!(
            "{}. {}",
            outline.headline.trim_end_matches('.'),
            outline.conclusion
        ),
        items,
        is_prose: false,
    }
}
