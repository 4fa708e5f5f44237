//! Test conversations, and properties of every answer.

mod adversary;
mod answers;
mod briefs;
mod checks;
mod corpus;
mod languages;
mod limits;

use chrono::NaiveDate;
use openvibe_extract::{Line, Material, Outline, Owner, Person, Point, Reading, Speaker};
use serde_json::Value;

use super::{AgentLines, check, extracted, parse::parse, trim};

/// Builds a conversation from one line per message: `Name: text` for a person, `AI Name: text` for an agent. The first message is the
/// forked one. All messages are from Friday, November 20, 2026; a handle is the lowercase first word of the name.
pub(super) fn material(talk: &str) -> Material {
    let mut material = Material::default();
    for said in talk.lines() {
        let (name, text) = said.split_once(": ").unwrap();
        let speaker = if let Some(agent) = name.strip_prefix("AI ") {
            Speaker::Agent(agent.to_owned())
        } else {
            let known = material
                .people
                .iter()
                .position(|person| person.name == name);
            Speaker::Person(known.unwrap_or_else(|| {
                let handle = name.split(' ').next().unwrap_or_default().to_lowercase();
                let name = name.to_owned();
                material.people.push(Person { name, handle });
                material.people.len() - 1
            }))
        };
        let (text, files, day) = (text.to_owned(), Vec::new(), day(20));
        material.lines.push(Line {
            speaker,
            text,
            files,
            day,
        });
    }
    material
}

/// A day in November 2026; the 20th is a Friday.
pub(super) fn day(day: u32) -> NaiveDate {
    NaiveDate::from_ymd_opt(2026, 11, day).unwrap()
}

/// The stored draft after an answer that is not repaired.
fn stored(answer: &Value, material: &Material) -> Outline {
    let reading = Reading::new(material);
    let raw = parse(
        &answer.to_string(),
        &vec![String::new(); material.lines.len()],
    )
    .unwrap();
    trim(check(&raw, material, &reading, AgentLines::Ideas), material)
        .unwrap_or_else(|_| extracted(material, &reading))
}

fn shown(outline: &Outline) -> String {
    let mut lines = vec![outline.headline.clone(), outline.conclusion.clone()];
    let mut list = |mark: &str, points: &[Point]| {
        lines.extend(
            points
                .iter()
                .map(|p| format!("{mark} {} {:?}", p.text, p.sources)),
        );
    };
    list("-", &outline.key_points);
    list("?", &outline.open_questions);
    list("later:", &outline.deferred_items);
    for item in &outline.action_items {
        let owner = match &item.owner {
            Some(Owner::Person(at)) => format!("person {at}"),
            Some(Owner::Named(name)) => name.clone(),
            None => "nobody".to_owned(),
        };
        let due = item
            .due
            .map(|due| format!(" due {due}"))
            .unwrap_or_default();
        lines.push(format!(
            "[ ] {} ({owner}{due}) {:?}",
            item.text, item.sources
        ));
    }
    lines.join("\n")
}
