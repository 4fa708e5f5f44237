//! Dialogues with their expected extraction results.

mod english;
mod examiner;
mod face;
mod fifth;
mod fourth;
mod french;
mod german;
mod others;
mod properties;
mod second;
mod spanish;
mod templates;
mod third;

use chrono::NaiveDate;

use super::{Line, Material, Outline, Owner, Person, Reading, Speaker};

/// A Wednesday.
fn day() -> NaiveDate {
    date("2026-03-11")
}

fn date(text: &str) -> NaiveDate {
    text.parse().unwrap()
}

/// Parses a script with one message per line: `ada: …` from a person, `Vibe*: …` from an agent; `| …` continues the
/// previous message. `# 2026-03-12` sets the date from there on; the initial date is Wednesday, 2026-03-11.
fn material(script: &str) -> Material {
    let mut material = Material::default();
    let mut day = day();
    for name in ["Ada", "Bo", "Mia", "Cy"] {
        material.people.push(Person {
            name: name.to_owned(),
            handle: name.to_lowercase(),
        });
    }
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        if let Some(text) = line.strip_prefix('|') {
            let last = material.lines.last_mut().unwrap();
            last.text.push('\n');
            last.text.push_str(text.trim_start_matches(' '));
            continue;
        }
        if let Some(text) = line.strip_prefix("# ") {
            day = date(text);
            continue;
        }
        let (who, text) = line.split_once(": ").unwrap();
        let speaker = match who.strip_suffix('*') {
            Some(agent) => Speaker::Agent(agent.to_owned()),
            None => Speaker::Person(person(&mut material, who)),
        };
        material.lines.push(Line {
            speaker,
            text: text.to_owned(),
            files: Vec::new(),
            day,
        });
    }
    material
}

fn person(material: &mut Material, handle: &str) -> usize {
    if let Some(known) = material
        .people
        .iter()
        .position(|person| person.handle == handle)
    {
        return known;
    }
    let mut name = handle.to_owned();
    name[..1].make_ascii_uppercase();
    material.people.push(Person {
        name,
        handle: handle.to_owned(),
    });
    material.people.len() - 1
}

/// Expected and forbidden results of a dialogue.
#[derive(Debug, Default)]
struct Expected {
    /// Each entry's words occur together in a key point, the conclusion, or the headline.
    decisions: &'static [&'static str],
    /// The complete list: the owner's handle (`-` for none, capitalized for a nonmember), words of the task, and the
    /// due date or `-`.
    items: &'static [(&'static str, &'static str, &'static str)],
    /// Words that must not occur anywhere.
    gone: &'static [&'static str],
    /// The complete list, with words of each entry.
    questions: &'static [&'static str],
    /// The complete list, with words of each entry.
    deferred: &'static [&'static str],
    /// Words of the conclusion.
    conclusion: &'static str,
}

fn has_words(text: &str, words: &str) -> bool {
    let lower = text.to_lowercase();
    let all: Vec<&str> = lower
        .split(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | ',' | ':' | '\'' | '-' | '/')))
        .map(|word| word.trim_end_matches(['.', ':', ',']))
        .collect();
    words
        .to_lowercase()
        .split(' ')
        .map(|word| word.trim_end_matches('.'))
        .all(|word| {
            all.contains(&word)
                || (word.ends_with('*')
                    && all
                        .iter()
                        .any(|w| w.starts_with(word.trim_end_matches('*'))))
        })
}

fn texts(outline: &Outline) -> Vec<&str> {
    let points = outline
        .key_points
        .iter()
        .chain(&outline.open_questions)
        .chain(&outline.deferred_items);
    points
        .map(|point| point.text.as_str())
        .chain(outline.action_items.iter().map(|item| item.text.as_str()))
        .chain([outline.headline.as_str(), outline.conclusion.as_str()])
        .collect()
}

/// Differences from the expected results; empty if there are none.
fn faults(script: &str, expected: &Expected) -> Vec<String> {
    let material = material(script);
    let outline = Reading::new(&material).outline();
    let mut faults = limits(&outline, &material);
    let mut told: Vec<&str> = outline
        .key_points
        .iter()
        .map(|point| point.text.as_str())
        .collect();
    told.extend([outline.headline.as_str(), outline.conclusion.as_str()]);
    for decision in expected.decisions {
        if !told.iter().any(|text| has_words(text, decision)) {
            faults.push(format!("decision not found: {decision}"));
        }
    }
    let is_undecided = [
        "clear",
        "klares",
        "conclusión clara",
        "conclusion claire",
        "No decision",
        "nichts entschieden",
        "No se decidió",
        "Rien n'a",
    ]
    .iter()
    .any(|words| outline.conclusion.contains(words));
    if expected.decisions.is_empty()
        && !is_undecided
        && !outline.conclusion.contains("without a model")
    {
        faults.push("a decision was invented".to_owned());
    }
    let mut left: Vec<String> = Vec::new();
    let mut missing: Vec<&(&str, &str, &str)> = expected.items.iter().collect();
    for item in &outline.action_items {
        let owner = match &item.owner {
            Some(Owner::Person(at)) => material.people[*at].handle.clone(),
            Some(Owner::Named(name)) => name.clone(),
            None => "-".to_owned(),
        };
        let due = item.due.map_or("-".to_owned(), |due| due.to_string());
        let found = missing.iter().position(|(who, words, until)| {
            *who == owner && *until == due && has_words(&item.text, words)
        });
        match found {
            Some(at) => {
                missing.remove(at);
            }
            None => left.push(format!("{owner} | {} | {due}", item.text)),
        }
    }
    faults.extend(
        left.into_iter()
            .map(|item| format!("item not expected: {item}")),
    );
    faults.extend(
        missing
            .into_iter()
            .map(|item| format!("item not found: {item:?}")),
    );
    for gone in expected.gone {
        faults.extend(
            texts(&outline)
                .iter()
                .filter(|text| has_words(text, gone))
                .map(|text| format!("told though gone: {gone} in {text}")),
        );
    }
    for (name, found, wanted) in [
        ("question", &outline.open_questions, expected.questions),
        ("deferral", &outline.deferred_items, expected.deferred),
    ] {
        let mut wanted: Vec<&&str> = wanted.iter().collect();
        for point in found {
            match wanted
                .iter()
                .position(|words| has_words(&point.text, words))
            {
                Some(at) => {
                    wanted.remove(at);
                }
                None => faults.push(format!("{name} not expected: {}", point.text)),
            }
        }
        faults.extend(
            wanted
                .into_iter()
                .map(|words| format!("{name} not found: {words}")),
        );
    }
    if !has_words(&outline.conclusion, expected.conclusion) && !expected.conclusion.is_empty() {
        faults.push(format!("the conclusion lacks: {}", expected.conclusion));
    }
    if !faults.is_empty() {
        faults.push(told_of(&outline));
    }
    faults
}

/// A short summary for test failures.
fn told_of(outline: &Outline) -> String {
    let mut lines = vec![
        format!("  HEAD {}", outline.headline),
        format!("  CONC {}", outline.conclusion),
    ];
    let points = [
        ("KEY ", &outline.key_points),
        ("OPEN", &outline.open_questions),
        ("LATE", &outline.deferred_items),
    ];
    for (name, points) in points {
        lines.extend(
            points
                .iter()
                .map(|point| format!("  {name} {} {:?}", point.text, point.sources)),
        );
    }
    lines.extend(
        outline
            .action_items
            .iter()
            .map(|item| format!("  ITEM {:?} {:?}", item, item.sources)),
    );
    lines.join("\n")
}

fn limits(outline: &Outline, material: &Material) -> Vec<String> {
    let mut faults = Vec::new();
    let words: usize = texts(outline)
        .iter()
        .map(|text| text.split_whitespace().count())
        .sum();
    if words >= 200 {
        faults.push(format!("{words} words"));
    }
    if outline.headline.encode_utf16().count() > 120
        || outline.headline.trim().is_empty()
        || outline.conclusion.trim().is_empty()
    {
        faults.push("headline or conclusion".to_owned());
    }
    if outline.key_points.len() > 4
        || texts(outline)
            .iter()
            .any(|text| text.contains('\n') || text.trim().is_empty())
    {
        faults.push("too many points, or an empty or broken line".to_owned());
    }
    let sources = outline
        .key_points
        .iter()
        .chain(&outline.open_questions)
        .chain(&outline.deferred_items)
        .map(|point| &point.sources);
    let sources = sources.chain(outline.action_items.iter().map(|item| &item.sources));
    for sources in sources {
        if sources.is_empty() || sources.iter().any(|source| *source >= material.lines.len()) {
            faults.push(format!("sources {sources:?}"));
        }
    }
    faults
}

fn check(name: &str, script: &str, expected: &Expected) {
    let faults = faults(script, expected);
    assert!(faults.is_empty(), "{name}\n{}", faults.join("\n"));
}

/// One test per dialogue: name, script, and expected differences from an empty result.
macro_rules! dialogues {
    ($($name:ident: $script:expr, { $($field:ident: $value:expr),* $(,)? })*) => {
        $(
            #[test]
            fn $name() {
                let expected = super::Expected { $($field: $value,)* ..Default::default() };
                super::check(stringify!($name), $script, &expected);
            }
        )*
    };
}
use dialogues;
