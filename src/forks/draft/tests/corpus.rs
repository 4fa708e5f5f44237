//! Answers that models gave when asked for JSON.

use openvibe_extract::{Material, Outline, Reading};
use proptest::prelude::*;

use super::{limits::holds, material, shown};
use crate::{
    corpus,
    forks::draft::{
        AgentLines, DraftRequest, Fault, brief, check, parse::parse, repair_brief, trim,
    },
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
    material(
        "Ada Lovelace: Friday or Monday?
Bo: Monday suits everybody.
Ada Lovelace: Right, Friday is a holiday. We ship on Monday.
Bo: I will book the room by Monday.
AI Vibe: Somebody has to tell support.
Ada Lovelace: Who tells support?",
    )
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
    let checked = check(&raw, &material, &reading, AgentLines::Ideas);
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
    let outline = trim(checked, &material)
        .map_err(|rubbish| format!("{rubbish}\n\n{}", faults.join("\n")))?;
    Ok((outline, faults))
}

#[test]
fn every_corpus_response_is_a_draft_or_a_named_fault() {
    for case in corpus::cases("drafts", "txt") {
        case.expect(&match read(case.text()) {
            Ok((outline, faults)) => format!("{}\n\n{}", shown(&outline), faults.join("\n")),
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
                prop_assert!(!shown(&outline).trim().is_empty());
            }
            Err(rubbish) => prop_assert!(!rubbish.is_empty()),
        }
    }
}
