//! Properties that hold for every answer and every conversation.

use openvibe_extract::{
    Line, Material, Outline, Owner, Person, Point, Reading, Speaker, plain_sentences,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::day;
use crate::forks::draft::{
    ACTION_ITEMS_MAX, AgentLines, CONCLUSION_UNITS_MAX, DEFERRED_ITEMS_MAX, DraftRequest,
    HEADLINE_UNITS_MAX, KEY_POINTS_MAX, OPEN_QUESTIONS_MAX, SOURCES_MAX, TEXT_UNITS_MAX, brief,
    briefs, check, extracted, parse::parse, repair_brief, trim, trim::fit,
};

fn text() -> impl Strategy<Value = String> {
    let pieces = "We ship on Monday. |not Monday, Thursday|Ada|@bo |Bo will do it by Friday|700 euros |m3|(m2, m9)|\n|\r\n|<b>|<script>|```|# |- |1. |> |“quoted”|👍|é|。|no|yes, ok|[m1 Ada]: |\\|\"|{|}|https://x.example |\u{202e}|\u{0}|…|agreed: |maybe later |x";
    let pieces = prop::sample::select(pieces.split('|').collect::<Vec<_>>());
    let short = prop::collection::vec(pieces.clone(), 0..8);
    let long = (pieces, 1..400_usize).prop_map(|(piece, count)| vec![piece; count]);
    prop_oneof![4 => short, 1 => long].prop_map(|pieces| pieces.concat())
}

fn conversation() -> impl Strategy<Value = Material> {
    let line = (0..4_usize, text(), 18..24_u32).prop_map(|(who, text, on)| Line {
        speaker: if who == 3 {
            Speaker::Agent("Vibe".to_owned())
        } else {
            Speaker::Person(who)
        },
        text,
        files: Vec::new(),
        day: day(on),
    });
    prop::collection::vec(line, 0..12).prop_map(|lines| {
        let people = ["Ada Lovelace", "Bo", "Mia"].map(|name| Person {
            name: name.to_owned(),
            handle: name[..2].to_lowercase(),
        });
        Material {
            people: people.to_vec(),
            lines,
        }
    })
}

fn sources() -> impl Strategy<Value = Value> {
    prop_oneof![
        prop::collection::vec(0..20_u32, 0..4)
            .prop_map(|lines| json!(lines.iter().map(|n| format!("m{n}")).collect::<Vec<_>>())),
        text().prop_map(Value::String),
        Just(Value::Null),
        (-3..30_i64).prop_map(|n| json!(n)),
    ]
}

fn entries() -> impl Strategy<Value = Value> {
    let owner = prop_oneof![
        Just(Value::Null),
        prop::sample::select(vec!["Ada", "bo", "Vibe", "everyone", "Zoe", ""])
            .prop_map(|name| json!(name)),
        text().prop_map(Value::String),
    ];
    let due = prop::sample::select(vec![
        json!(null),
        json!("2026-11-27"),
        json!("soon"),
        json!("0001-01-01"),
    ]);
    let entry = (text(), owner, due, sources())
        .prop_map(|(text, owner, due, sources)| json!({"text": text, "owner": owner, "due": due, "sources": sources}));
    let entries = prop::collection::vec(
        prop_oneof![5 => entry, 1 => text().prop_map(Value::String)],
        0..30,
    );
    prop_oneof![6 => entries.prop_map(Value::Array), 1 => text().prop_map(Value::String), 1 => Just(Value::Null)]
}

fn answer() -> impl Strategy<Value = Value> {
    (text(), text(), entries(), entries(), entries(), entries()).prop_map(|(headline, conclusion, points, items, open, later)| {
        json!({"headline": headline, "conclusion": conclusion, "key_points": points, "action_items": items,
            "open_questions": open, "deferred_items": later})
    })
}

/// Checks every limit and that every position is in range.
pub(super) fn holds(outline: &Outline, material: &Material) -> Result<(), TestCaseError> {
    let units = |text: &str| text.encode_utf16().count();
    let lines = material.lines.len();
    let statement = |text: &str, units_max: usize| {
        prop_assert!(units(text) <= units_max, "{text:?}");
        prop_assert!(!text.contains(|c: char| c.is_control()), "{text:?}");
        prop_assert_eq!(text.trim(), text);
        Ok(())
    };
    let in_range = |sources: &[usize]| {
        prop_assert!(
            sources.len() <= SOURCES_MAX && sources.iter().all(|at| *at < lines),
            "{sources:?}"
        );
        Ok(())
    };
    let points = |points: &[Point], count_max: usize| {
        prop_assert!(points.len() <= count_max);
        for point in points {
            prop_assert!(!point.text.is_empty());
            statement(&point.text, TEXT_UNITS_MAX)?;
            in_range(&point.sources)?;
        }
        Ok(())
    };
    statement(&outline.headline, HEADLINE_UNITS_MAX)?;
    statement(&outline.conclusion, CONCLUSION_UNITS_MAX)?;
    prop_assert!(
        plain_sentences(&outline.conclusion).len() <= 2,
        "{:?}",
        outline.conclusion
    );
    points(&outline.key_points, KEY_POINTS_MAX)?;
    points(&outline.open_questions, OPEN_QUESTIONS_MAX)?;
    points(&outline.deferred_items, DEFERRED_ITEMS_MAX)?;
    prop_assert!(outline.action_items.len() <= ACTION_ITEMS_MAX);
    for item in &outline.action_items {
        prop_assert!(!item.text.is_empty());
        statement(&item.text, TEXT_UNITS_MAX)?;
        in_range(&item.sources)?;
        match &item.owner {
            Some(Owner::Person(at)) => prop_assert!(*at < material.people.len()),
            Some(Owner::Named(name)) => {
                prop_assert!(!name.is_empty());
                statement(name, 80)?;
            }
            None => {}
        }
    }
    let all = format!("{} {}", outline.headline, outline.conclusion);
    let lists = [
        &outline.key_points,
        &outline.open_questions,
        &outline.deferred_items,
    ];
    let texts = lists
        .into_iter()
        .flatten()
        .map(|p| &p.text)
        .chain(outline.action_items.iter().map(|i| &i.text));
    let words = all.split_whitespace().count()
        + texts
            .map(|text| text.split_whitespace().count())
            .sum::<usize>();
    prop_assert!(words < 200, "{words} words");
    Ok(())
}

fn ids(material: &Material) -> Vec<String> {
    (0..material.lines.len())
        .map(|n| format!("msg_{n}"))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_limit_holds_after_trimming(material in conversation(), answer in answer()) {
        let reading = Reading::new(&material);
        if let Ok(raw) = parse(&answer.to_string(), &ids(&material)) {
            let checked = check(&raw, &material, &reading, AgentLines::Ideas);
            let outline = trim(checked.clone(), &material).unwrap_or_else(|_| extracted(&material, &reading));
            holds(&outline, &material)?;
            holds(&fit(checked.outline, &material), &material)?;
            prop_assert_eq!(fit(outline.clone(), &material), outline);
        }
        holds(&extracted(&material, &reading), &material)?;
    }

    #[test]
    fn no_response_or_conversation_causes_a_panic(
        material in conversation(),
        pieces in prop::collection::vec(text(), 0..6),
        answer in answer(),
        cut in 0..2_000_usize,
        tokens_max in 0..3_000_u64,
    ) {
        let whole = answer.to_string();
        let cut = whole.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(whole.len());
        let reading = Reading::new(&material);
        let asked = DraftRequest { material: &material, background: &[], description: pieces.first().map(String::as_str), guidance: pieces.last().map(String::as_str) };
        for text in [pieces.concat(), format!("{}{}", pieces.concat(), &whole[..cut])] {
            if let Ok(raw) = parse(&text, &ids(&material)) {
                let checked = check(&raw, &material, &reading, AgentLines::Ideas);
                repair_brief(&brief(&asked), &text, &checked.faults);
                if let Ok(outline) = trim(checked, &material) {
                    holds(&outline, &material)?;
                }
            }
        }
        for brief in briefs(&asked, tokens_max) {
            prop_assert_eq!(brief.turns().len(), 1);
        }
    }
}
