//! Answers that models gave when asked for JSON.

use openvibe_extract::{Material, Outline, Owner, Reading};
use proptest::prelude::*;

use super::{Talk, limits::holds, material};
use crate::{
    corpus,
    forks::draft::{DraftRequest, Fault, brief, check, parse, repair_brief, trim},
};

/// Pieces of answers.
const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    ":",
    ",",
    "\\",
    "\\u",
    "\\u0000",
    "\\ud83d",
    "null",
    "```json\n",
    "\n",
    "<think>",
    "</think>",
    "\"headline\"",
    "\"conclusion\":\"We ship on Monday.\"",
    "\"key_points\":[",
    "\"action_items\":[",
    "{\"text\":\"x\",\"sources\":[\"m2\"]}",
    "\"sources\"",
    "\"m4\"",
    "m99",
    "\"owner\":\"bo\"",
    "\"due\":\"2026-11-23\"",
    "//",
    "/*",
    "“",
    "👍",
    "Monday ",
    "700 ",
];

fn talk() -> Material {
    material(&[
        Talk::Person("Ada Lovelace", "Friday or Monday?"),
        Talk::Person("Bo", "Monday suits everybody."),
        Talk::Person(
            "Ada Lovelace",
            "Right, Friday is a holiday. We ship on Monday.",
        ),
        Talk::Person("Bo", "I will book the room by Monday."),
        Talk::Agent("Vibe", "Somebody has to tell support."),
        Talk::Person("Ada Lovelace", "Who tells support?"),
    ])
}

fn ids(material: &Material) -> Vec<String> {
    (0..material.lines.len())
        .map(|n| format!("msg_{n}"))
        .collect()
}

/// The trimmed draft and the faults of the answer, or the error.
fn read(answer: &str) -> Result<(Outline, Vec<String>), String> {
    let material = talk();
    let raw = parse(answer, &ids(&material)).map_err(|rubbish| rubbish.to_string())?;
    let reading = Reading::new(&material);
    let checked = check(&raw, &material, &reading);
    let faults: Vec<String> = checked.faults.iter().map(Fault::sentence).collect();
    let asked = DraftRequest {
        background: &[],
        material: &material,
        description: None,
        guidance: None,
    };
    if !checked.faults.is_empty() {
        repair_brief(&brief(&asked), answer, &checked.faults);
    }
    Ok((trim(checked, &material, &reading), faults))
}

fn told(outline: &Outline) -> String {
    let mut lines = vec![outline.headline.clone(), outline.conclusion.clone()];
    let lists = [
        ("-", &outline.key_points),
        ("?", &outline.open_questions),
        ("later:", &outline.deferred_items),
    ];
    for (mark, points) in lists {
        lines.extend(
            points
                .iter()
                .map(|p| format!("{mark} {} {:?}", p.text, p.sources)),
        );
    }
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

#[test]
fn every_corpus_response_is_a_draft_or_a_named_fault() {
    for case in corpus::cases("drafts", "txt") {
        case.expect(&match read(case.text()) {
            Ok((outline, faults)) => format!("{}\n\n{}", told(&outline), faults.join("\n")),
            Err(rubbish) => format!("rubbish: {rubbish}"),
        });
    }
}

proptest! {
    #![proptest_config(corpus::config(256))]

    #[test]
    fn any_model_response_is_a_draft_within_its_limits_or_a_named_fault(
        answer in corpus::mutated_text("drafts", "txt", WORDS),
    ) {
        match read(&answer) {
            Ok((outline, faults)) => {
                holds(&outline, &talk())?;
                prop_assert!(faults.iter().all(|fault| fault.ends_with('.') && fault.len() > 10), "{:?}", faults);
                // An answer without content is rejected.
                prop_assert!(!told(&outline).trim().is_empty());
            }
            Err(rubbish) => prop_assert!(!rubbish.is_empty()),
        }
    }
}
