//! Answers in every form, and texts that are not answers.

use serde_json::json;

use crate::{
    forks::draft::{ANSWER_BYTES_MAX, Raw, RawSource, UnparsableDraft, parse::parse, parse_answer},
    model::Collected,
};

fn ids() -> Vec<String> {
    (1..=6).map(|n| format!("msg_{n}")).collect()
}

fn read(answer: &str) -> Result<Raw, UnparsableDraft> {
    parse(answer, &ids())
}

/// Headline, conclusion, and each entry with owner, due date, and sources.
fn shown(raw: &Raw) -> String {
    let sources = |sources: &[RawSource]| {
        let shown = |source: &RawSource| match source {
            RawSource::Line(at) => format!(" {at}"),
            RawSource::Unknown(text) => format!(" ?{text}"),
        };
        sources.iter().map(shown).collect::<String>()
    };
    let mut lines = vec![raw.headline.clone(), raw.conclusion.clone()];
    lines.extend(
        raw.key_points
            .iter()
            .map(|p| format!("point {}{}", p.text, sources(&p.sources))),
    );
    lines.extend(raw.action_items.iter().map(|item| {
        let named = |name: &Option<String>| name.clone().unwrap_or("-".to_owned());
        let (owner, due) = (named(&item.owner), named(&item.due));
        format!("item {} {owner} {due}{}", item.text, sources(&item.sources))
    }));
    lines.extend(
        raw.open_questions
            .iter()
            .map(|p| format!("open {}{}", p.text, sources(&p.sources))),
    );
    lines.extend(
        raw.deferred_items
            .iter()
            .map(|p| format!("later {}{}", p.text, sources(&p.sources))),
    );
    lines.join("\n")
}

const PLAIN: &str = r#"{"headline": "Ship on Monday", "conclusion": "We ship on Monday.",
"key_points": [{"text": "Two quiet days", "sources": ["m2", "m3"]}],
"action_items": [{"text": "Write the notes", "owner": "ada", "due": "2026-11-23", "sources": ["m4"]}],
"open_questions": [{"text": "Who tells Bo?", "sources": ["m5"]}],
"deferred_items": [{"text": "The logo", "sources": ["m6"]}]}"#;

const WANTED: &str = "Ship on Monday\nWe ship on Monday.\npoint Two quiet days 1 2\n\
item Write the notes ada 2026-11-23 3\nopen Who tells Bo? 4\nlater The logo 5";

#[test]
fn a_response_is_parsed_identically_in_every_wrapping() {
    let string = serde_json::to_string(PLAIN).unwrap();
    for answer in [
        PLAIN.to_owned(),
        format!("```json\n{PLAIN}\n```"),
        format!("```\n{PLAIN}\n```\nI hope this helps!"),
        format!("Sure! Here is the result:\n\n{PLAIN}\n\nLet me know {{if}} it fits."),
        format!("<think>Ada said {{\"conclusion\": \"wrong\"}}, so…</think>\n{PLAIN}"),
        format!("thoughts without a beginning {{\"headline\"}}</think>{PLAIN}"),
        format!("{{\"resolution\": {PLAIN}}}"),
        format!("{{\"result\": {{\"resolution\": {PLAIN}}}}}"),
        format!("{{\"name\": \"resolve\", \"arguments\": {string}}}"),
        format!("[{PLAIN}]"),
        string.clone(),
        format!("\u{feff}{PLAIN}"),
        PLAIN.replace("\"]}", "\",]},").replace("}],", "},],"),
        PLAIN
            .replace("key_points", "keyPoints")
            .replace("action_items", "Action Items")
            .replace("owner", "assignee")
            .replace("due", "dueDate"),
        format!(
            "{{\"headline\": \"a first try\", \"conclusion\": \"x\", \"key_points\": [], \"action_items\": [], \"open_questions\": [], \"deferred_items\": []}}\nNo, better:\n{PLAIN}"
        ),
    ] {
        let raw = read(&answer).unwrap_or_else(|e| panic!("{e}: {answer}"));
        assert_eq!(shown(&raw), WANTED, "{answer}");
    }
}

#[test]
fn entries_are_parsed_in_every_form() {
    for (answer, wanted) in [
        (
            json!({"conclusion": "Done.", "key_points": ["We ship (m2)", {"point": "Quiet", "source": "m3, m4"}]}),
            "\nDone.\npoint We ship 1\npoint Quiet 2 3",
        ),
        (
            json!({"conclusion": "Done.", "key_points": "- one\n- two\n"}),
            "\nDone.\npoint one\npoint two",
        ),
        (
            json!({"conclusion": "Done.", "key_points": {"text": "alone", "sources": 2}}),
            "\nDone.\npoint alone 1",
        ),
        (
            json!({"conclusion": "Done.", "key_points": null, "action_items": []}),
            "\nDone.",
        ),
        (
            json!({"title": "T", "summary": "Done.", "actions": [{"task": "Do it", "who": {"handle": "ada", "name": "Ada"}, "deadline": "2026-11-23", "refs": ["msg_2", "msg_77"]}]}),
            "T\nDone.\nitem Do it ada 2026-11-23 1 ?msg_77",
        ),
        (
            json!({"conclusion": "Done.", "action_items": [{"text": "Do it", "owner": null, "owner_name": "Bo", "due": "none", "sources": "m1"}]}),
            "\nDone.\nitem Do it Bo - 0",
        ),
        (
            json!({"conclusion": "Done.", "action_items": [{"text": "Do it", "owner": ["Bo", "Ada"], "due": "TBD"}]}),
            "\nDone.\nitem Do it Bo -",
        ),
        (
            json!({"conclusion": "Done.", "action_items": ["None"], "open_questions": ["n/a", ""]}),
            "\nDone.",
        ),
        (
            json!({"headline": "# **Big** news", "conclusion": "<p>One\nline</p> (m2)."}),
            "**Big** news\nOne line.",
        ),
        (json!({"conclusion": ["Two", "parts"]}), "\nTwo parts"),
        (
            json!({"headline": 7, "conclusion": {"text": "Inside"}}),
            "7\nInside",
        ),
    ] {
        assert_eq!(
            shown(&read(&answer.to_string()).unwrap()),
            wanted,
            "{answer}"
        );
    }
}

#[test]
fn a_response_without_an_end_is_not_used() {
    let answer = |text: &str, is_cut| Collected {
        text: text.to_owned(),
        usage: None,
        is_cut,
    };
    let read = |answer: &Collected| parse_answer(answer, &ids()).map(|raw| shown(&raw));
    assert_eq!(read(&answer(PLAIN, false)).unwrap(), WANTED);
    // The model stopped at its limit, perhaps between two sentences of a text without an object.
    let stopped = read(&answer(PLAIN, true));
    assert_eq!(stopped, Err(UnparsableDraft::Incomplete));
    for end in (1..PLAIN.len()).step_by(7) {
        let cut = read(&answer(&PLAIN[..end], false));
        assert_eq!(cut, Err(UnparsableDraft::Incomplete), "{end}");
    }
}

#[test]
fn a_response_that_is_not_a_resolution_is_unparsable() {
    let large = format!("{}{}", PLAIN, " ".repeat(ANSWER_BYTES_MAX));
    for (answer, wanted) in [
        ("", UnparsableDraft::NoObject),
        ("   \n", UnparsableDraft::NoObject),
        ("null", UnparsableDraft::NoObject),
        ("[]", UnparsableDraft::NoObject),
        ("{}", UnparsableDraft::NoObject),
        ("{{{{{{", UnparsableDraft::NoObject),
        ("We ship on Monday.", UnparsableDraft::NoObject),
        (
            "{\"error\": {\"message\": \"overloaded\"}}",
            UnparsableDraft::NoObject,
        ),
        (
            "{\"type\": \"about:blank\", \"title\": \"Bad gateway\", \"status\": 502}",
            UnparsableDraft::NoObject,
        ),
        (
            "<!DOCTYPE html><html><body>{\"conclusion\": \"x\"}</body></html>",
            UnparsableDraft::WebPage,
        ),
        ("\n<html><head>", UnparsableDraft::WebPage),
        ("I cannot help with that.", UnparsableDraft::Refused),
        (
            "I’m sorry, but I can’t do this {really}.",
            UnparsableDraft::Refused,
        ),
        (
            "{\"headline\": \"\", \"conclusion\": \"I cannot help with this.\", \"key_points\": []}",
            UnparsableDraft::Refused,
        ),
        (
            "{\"headline\": \"Only this\", \"conclusion\": \" \", \"key_points\": [\"\"]}",
            UnparsableDraft::Blank,
        ),
        (
            "{\"conclusion\": null, \"key_points\": null, \"action_items\": {}}",
            UnparsableDraft::NoObject,
        ),
        (&large, UnparsableDraft::TooLarge),
    ] {
        let start: String = answer.chars().take(80).collect();
        match read(answer) {
            Err(rubbish)
                if matches!(
                    (rubbish, wanted),
                    (UnparsableDraft::Blank, UnparsableDraft::NoObject)
                ) => {}
            other => assert_eq!(other.map(|raw| shown(&raw)), Err(wanted), "{start}"),
        }
    }
}
