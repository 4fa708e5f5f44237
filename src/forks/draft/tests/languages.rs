//! Correct answers about ordinary conversations, in which the check must find no faults.

use openvibe_extract::{Material, Reading};
use serde_json::{Value, json};

use super::material;
use crate::forks::draft::{AgentLines, Fault, check, parse::parse, trim};

/// Asserts that there is no fault and that `trim` changes nothing.
fn is_good(talk: &str, answer: &Value) {
    let material: Material = material(talk);
    let reading = Reading::new(&material);
    let raw = parse(
        &answer.to_string(),
        &vec![String::new(); material.lines.len()],
    )
    .unwrap();
    let checked = check(&raw, &material, &reading, AgentLines::Ideas);
    let said: Vec<String> = checked.faults.iter().map(Fault::sentence).collect();
    assert_eq!(said, Vec::<String>::new(), "{answer}");
    assert_eq!(trim(checked.clone(), &material), Ok(checked.outline));
}

#[test]
fn english_text_is_checked() {
    let talk =
        "AI Vibe: There are two ways: keep SQLite, or move to Postgres. Moving takes about 3 days.
Ada: How much does a managed Postgres cost?
AI Vibe: About 15 to 50 dollars a month, depending on the size.
Bo: We have 1,200 users and about 40 GB. SQLite holds that for now.
Ada: Agreed, we stay with SQLite until we pass 5k users.
Bo: Then I'll set up the nightly backups by next Friday.
Ada: Thanks. Somebody from Initech should look at the restore. Cleo?
Bo: I ask Cleo. The price of the disk we look at later.";
    is_good(
        talk,
        &json!({
            "headline": "SQLite stays until there are 5,000 users",
            "conclusion": "The team keeps SQLite until it passes 5,000 users. Bo sets up nightly backups.",
            "key_points": [
                {"text": "There are 1200 users and 40 GB of data, which SQLite holds.", "sources": ["m4"]},
                {"text": "Vibe put a managed Postgres at 15 to 50 dollars a month.", "sources": ["m3"]},
            ],
            "action_items": [
                {"text": "Set up nightly backups", "owner": "bo", "due": "2026-11-27", "sources": ["m6"]},
                {"text": "Ask Cleo to look at the restore", "owner": "bo", "due": null, "sources": ["m7", "m8"]},
            ],
            "open_questions": [],
            "deferred_items": [{"text": "The price of the disk", "sources": ["m8"]}],
        }),
    );
}

#[test]
fn a_conversation_without_decisions_is_checked() {
    let talk = "Ada: Should the app be dark by default?
Bo: Dark, our users work at night.
Mia: Light. It is easier to read for most people.
AI Vibe: You could follow the setting of the system.
Bo: Not sure about that.
Mia: Me neither.";
    is_good(
        talk,
        &json!({
            "headline": "No decision yet on a dark or light default",
            "conclusion": "It stayed open whether the app is dark or light by default.",
            "key_points": [
                {"text": "Bo is for dark, because users work at night.", "sources": ["m2"]},
                {"text": "Mia is for light, because most people read it more easily.", "sources": ["m3"]},
                {"text": "Vibe's idea to follow the system's setting convinced nobody so far.", "sources": ["m4", "m5", "m6"]},
            ],
            "action_items": [],
            "open_questions": [{"text": "Dark or light by default?", "sources": ["m1"]}],
            "deferred_items": [],
        }),
    );
}

#[test]
fn german_text_is_checked() {
    let talk = "Ada: Wann machen wir das Sommerfest?
Bo: Am 12. Juni, da ist die Halle frei. Kostet 450 Euro.
Mia: Passt. Ich kümmere mich bis Montag um die Einladungen.
Ada: Bo, kannst du die Halle buchen?
Bo: Mache ich.";
    is_good(
        talk,
        &json!({
            "headline": "Das Sommerfest ist am 12. Juni",
            "conclusion": "Das Sommerfest findet am 12. Juni in der Halle statt.",
            "key_points": [
                {"text": "Die Halle ist am 12. Juni frei.", "sources": ["m2"]},
                {"text": "Sie kostet 450 Euro.", "sources": ["m2"]},
            ],
            "action_items": [
                {"text": "Einladungen verschicken", "owner": "mia", "due": "2026-11-23", "sources": ["m3"]},
                {"text": "Halle buchen", "owner": "bo", "due": null, "sources": ["m4", "m5"]},
            ],
            "open_questions": [],
            "deferred_items": [],
        }),
    );
}

#[test]
fn spanish_and_french_text_is_checked() {
    let talk = "Ada: ¿Cuándo publicamos la versión nueva?
Bo: El jueves por la tarde, a las 16:30.
Mia: Vale. Yo me encargo de las notas.";
    is_good(
        talk,
        &json!({
            "headline": "La versión nueva sale el jueves",
            "conclusion": "La versión nueva se publica el jueves a las 16.30.",
            "key_points": [{"text": "Se publica por la tarde.", "sources": ["m2"]}],
            "action_items": [{"text": "Escribir las notas", "owner": "Mia", "due": null, "sources": ["m3"]}],
            "open_questions": [], "deferred_items": [],
        }),
    );
    let talk = "Ada: Qui prépare la démo de mardi ?
Bo: Je m'en occupe pour lundi. Il y aura 35 personnes.
Ada: D'accord, merci.";
    is_good(
        talk,
        &json!({
            "headline": "Bo prépare la démo de mardi",
            "conclusion": "Bo prépare la démo de mardi pour 35 personnes.",
            "key_points": [],
            "action_items": [{"text": "Préparer la démo", "owner": "bo", "due": "2026-11-23", "sources": ["m2"]}],
            "open_questions": [], "deferred_items": [],
        }),
    );
}

#[test]
fn text_in_a_language_without_cue_words_is_checked() {
    let talk = "Ada: リリースはいつにしますか？
Bo: 来週の金曜日にしましょう。
Ada: わかりました。リリースノートは私が書きます。";
    is_good(
        talk,
        &json!({
            "headline": "リリースは来週の金曜日",
            "conclusion": "リリースは来週の金曜日に行う。リリースノートはAdaが書く。",
            "key_points": [{"text": "金曜日に決まった。", "sources": ["m2"]}],
            "action_items": [{"text": "リリースノートを書く", "owner": "ada", "due": "2026-11-27", "sources": ["m3"]}],
            "open_questions": [], "deferred_items": [],
        }),
    );
}

#[test]
fn a_person_alone_decides() {
    is_good(
        "Ada: Which color for the door?\nAI Vibe: Red is warm.\nAda: Blue fits the house.",
        &json!({
            "headline": "Blue fits the house", "conclusion": "The door becomes blue.",
            "key_points": [], "action_items": [], "open_questions": [], "deferred_items": [],
        }),
    );
}
