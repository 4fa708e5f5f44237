//! Public API: quotes for the built-in responder, corrected values, and accepted suggestions of agents.

use super::super::{
    Reading,
    dialogue::{Quote, Wish, keywords, sentences, wish},
};
use super::material;

fn reading(script: &str) -> Reading {
    Reading::new(&material(script))
}

fn told(quotes: &[Quote]) -> Vec<&str> {
    quotes.iter().map(|quote| quote.text.as_str()).collect()
}

#[test]
fn prose_is_cut_into_sentences_and_code_is_left_out() {
    let text = "## Plan\nShip v1.2 on Friday. Or Monday?  e.g. early!\n1. First\n> quoted\n```\ncode.\n```\n\
        - last `point`\nAm 14. März um 10. Danach nicht.\n今日は。はい。";
    let found = [
        "Plan",
        "Ship v1.2 on Friday.",
        "Or Monday?",
        "e.g. early!",
        "1. First",
        "last point",
        "Am 14. März um 10.",
        "Danach nicht.",
        "今日は。",
        "はい。",
    ];
    assert_eq!(sentences(text), found);
}

#[test]
fn forms_of_one_word_meet() {
    assert_eq!(keywords("shipping"), keywords("shipped"));
    assert_eq!(keywords("release"), keywords("the releases"));
    assert_eq!(keywords("decided"), keywords("decide"));
    assert!(keywords("What did you say about it?").is_empty());
}

#[test]
fn a_wish_is_told_by_its_words() {
    for (question, wanted) in [
        ("please summarise this", Wish::Summary),
        ("TL;DR?", Wish::Summary),
        ("Fasse das bitte zusammen", Wish::Summary),
        ("what did we decide?", Wish::Decisions),
        ("what is still open?", Wish::OpenQuestions),
        ("Who does what?", Wish::Promises),
        ("what speaks for Monday?", Wish::Answer),
    ] {
        assert_eq!(wish(question), wanted, "{question}");
    }
}

#[test]
fn a_decision_that_was_corrected_gives_way() {
    let talk = reading(
        "ada: We agreed to ship the importer on Friday.
        bo: The fair needs a quiet day before it.
        ada: Actually, Monday is better then.
        bo: Agreed.
        cy: We decided on Postgres for the archive.
        cy: We have not decided on the colour yet.",
    );
    assert_eq!(
        told(&talk.decisions()),
        [
            "Actually, Monday is better then.",
            "We decided on Postgres for the archive."
        ]
    );
}

#[test]
fn decisions_are_found_in_four_languages() {
    for text in [
        "Wir haben beschlossen, am Montag zu liefern.",
        "Decidimos entregar el lunes.",
        "On part sur lundi pour la livraison.",
        "We'll go with Monday.",
    ] {
        assert_eq!(told(&reading(&format!("ada: {text}")).decisions()), [text]);
        assert!(Reading::reads_like_a_decision(text), "{text}");
    }
    for text in ["Nothing was decided yet.", "The room is blue.", ""] {
        assert!(!Reading::reads_like_a_decision(text), "{text}");
    }
}

#[test]
fn a_change_of_subject_is_no_answer_and_a_request_no_question() {
    let talk = reading(
        "bo: Who tells the customers?
        ada: Actually, let's ship it on Monday, for the fair needs two quiet days before it.
        bo: @cy can you check the backups?
        ada: Do we need a banner?
        cy: No, that is too much.",
    );
    assert_eq!(told(&talk.open_questions()), ["Who tells the customers?"]);
}

#[test]
fn the_main_points_are_about_what_comes_up_most() {
    let talk = reading(
        "ada: The importer fails on large files.
        bo: Nice weather today, everybody.
        cy: Large files break the importer since the update.",
    );
    assert_eq!(
        told(&talk.main_points(2)),
        [
            "The importer fails on large files.",
            "Large files break the importer since the update."
        ]
    );
}

#[test]
fn what_is_relevant_shares_rare_words_with_the_question() {
    let talk = reading(
        "ada: The importer is slow. The budget is 5000 euros.
        bo: I like the new logo.
        cy: The importer reads CSV files only.
        ada: Correction, the budget is 6000 euros.",
    );
    for (question, most, found) in [
        (
            "which files does the importer read?",
            1,
            "The importer reads CSV files only.",
        ),
        (
            "What is our budget?",
            3,
            "Correction, the budget is 6000 euros.",
        ),
        ("what did Bo say?", 3, "I like the new logo."),
    ] {
        assert_eq!(told(&talk.relevant(question, most)), [found]);
    }
    assert!(talk.relevant("How is the weather in Lisbon?", 3).is_empty());
}

#[test]
fn corrected_values_are_listed_with_the_line_of_the_correction() {
    let talk = reading(
        "ada: Let's meet on Friday at 10:00.
        bo: ok
        ada: Actually Monday, not Friday.
        bo: And make it 11:00.",
    );
    let found = talk.superseded();
    let rows: Vec<_> = found
        .iter()
        .map(|value| (value.old.as_str(), value.new.as_str(), value.line))
        .collect();
    assert_eq!(rows, [("Friday", "Monday", 2), ("10:00", "11:00", 3)]);
}

#[test]
fn an_agents_line_is_taken_up_by_a_person_only() {
    let talk = reading(
        "ada: @vibe what next?
        Vibe*: I suggest we begin with the tests.
        Coder*: yes, let's do that
        bo: Yes, let's do that.
        Coder*: The plan is to rewrite everything in one go.
        mia: thanks",
    );
    let found: Vec<usize> = (0..6).filter(|line| talk.is_taken_up(*line)).collect();
    assert_eq!(found, [1]);
}
