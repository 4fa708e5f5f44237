//! Properties that hold for any text.

use proptest::prelude::*;

use super::super::{Line, Material, Person, Reading, Speaker};
use super::{day, limits};

/// Fragments that affect the extractor, mixed with arbitrary characters.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("@bo can you send the draft by Friday?".to_owned()),
        Just("I'll write it on 14 March. ".to_owned()),
        Just("Actually Monday, not Friday. ".to_owned()),
        Just("We agreed to ship on Friday at 10:00. ".to_owned()),
        Just("let's not do that after all ".to_owned()),
        Just("Ich kümmere mich um den Raum bis morgen. ".to_owned()),
        Just("¿Quién paga? ".to_owned()),
        Just("je m'en occupe ".to_owned()),
        Just("yes\n".to_owned()),
        Just("make that 12 instead of 10, no wait, 14 ".to_owned()),
        Just("11. bis 13. Mai → 4/5, v2.3 for €500 ".to_owned()),
        Just("SQLite instead of Postgres ".to_owned()),
        Just("> quoted \"and “not» closed `code ".to_owned()),
        Just("```\n".to_owned()),
        Just("Let's park that. ".to_owned()),
        "\\PC{0,40}",
        "[a-zé'’ ?!.,:;/@#0-9\\n-]{0,60}",
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

fn material() -> impl Strategy<Value = Material> {
    let line = (text(), 0..4_usize, any::<bool>()).prop_map(|(text, person, is_agent)| Line {
        speaker: if is_agent && person == 3 {
            Speaker::Agent("Vibe".to_owned())
        } else {
            Speaker::Person(person)
        },
        text,
        files: Vec::new(),
        day: day(),
    });
    prop::collection::vec(line, 0..14).prop_map(|lines| Material {
        people: ["Ada", "Bo", "Mia Lane", "Mia"]
            .map(|name| Person {
                name: name.to_owned(),
                handle: name.to_lowercase().replace(' ', "-"),
            })
            .into(),
        lines,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_outline_keeps_its_limits_and_is_the_same_each_time(material in material()) {
        let reading = Reading::new(&material);
        let outline = reading.outline();
        prop_assert_eq!(limits(&outline, &material), Vec::<String>::new());
        prop_assert_eq!(Reading::new(&material).outline(), outline);
        for gone in reading.superseded() {
            prop_assert!(gone.line < material.lines.len());
        }
        for line in 0..=material.lines.len() {
            let is_agent = matches!(material.lines.get(line).map(|line| &line.speaker), Some(Speaker::Agent(_)));
            prop_assert!(is_agent || !reading.is_taken_up(line));
        }
    }
}
