//! Mentions and their positions in the text.

use serde_json::{Value, json};

use crate::support::{Team, id, list, team, text};

/// Posts a message as Ada; returns its mentions as `(type, handle, text of the span)`.
async fn mentions(t: &Team, content: &str) -> Vec<(String, String, String)> {
    let started = t.ada.start(&t.general, content).await;
    let units: Vec<u16> = content.encode_utf16().collect();
    list(&started, "/message/mentions")
        .iter()
        .map(|m| {
            let start = usize::try_from(m["start"].as_u64().unwrap()).unwrap();
            let length = usize::try_from(m["length"].as_u64().unwrap()).unwrap();
            let span = String::from_utf16(&units[start..start + length]).unwrap();
            (text(m, "/type"), text(m, "/handle"), span)
        })
        .collect()
}

fn found(kind: &str, handle: &str, span: &str) -> (String, String, String) {
    (kind.to_owned(), handle.to_owned(), span.to_owned())
}

#[tokio::test]
async fn people_agents_and_groups_can_be_mentioned() {
    let t = team().await;
    let started = t.ada.start(&t.general, "@vibe @bo @everyone").await;
    assert_eq!(
        started["message"]["mentions"],
        json!([
            {"type": "agent", "id": id(&t.ada.agent("vibe").await), "handle": "vibe", "start": 0, "length": 5},
            {"type": "user", "id": t.bo.id, "handle": "bo", "start": 6, "length": 3},
            {"type": "group", "id": null, "handle": "everyone", "start": 10, "length": 9},
        ])
    );
    assert_eq!(
        mentions(&t, "@here, @channel!").await,
        [
            found("group", "here", "@here"),
            found("group", "channel", "@channel")
        ]
    );
}

#[tokio::test]
async fn spans_count_utf_16_code_units() {
    let t = team().await;
    assert_eq!(
        mentions(&t, "👋🏽 Grüße, @Bo, ok").await,
        [found("user", "bo", "@Bo")]
    );
    let started = t.ada.start(&t.general, "👋 @bo").await;
    assert_eq!(started["message"]["mentions"][0]["start"], 3);
}

#[tokio::test]
async fn a_mention_matches_in_any_case_and_beside_punctuation() {
    let t = team().await;
    for content in [
        "@VIBE",
        "(@vibe)",
        "Hi,@vibe",
        "@vibe.",
        "@vibe:",
        "*@vibe*",
        "- @vibe",
        "# @vibe",
        "\"@vibe\"",
        "@vibe's",
        "x: @vibe\n",
    ] {
        let all = mentions(&t, content).await;
        assert_eq!(all.len(), 1, "{content}: {all:?}");
        assert_eq!(all[0].1, "vibe", "{content}");
    }
}

#[tokio::test]
async fn text_that_is_not_a_mention_is_ignored() {
    let t = team().await;
    for content in [
        "mail me: ada@vibe",
        "ada@vibe.example",
        "word_@vibe",
        "9@vibe",
        "https://example.org/@vibe",
        "`@vibe`",
        "``a ` @vibe``",
        "```\n@vibe\n```",
        "~~~\n@vibe\n~~~",
        "```\n@vibe and no end",
        "    @vibe indented",
        "> @vibe quoted",
        "\\@vibe",
        "@ vibe",
        "@vibex",
        "@nobody",
        "[a](https://example.org/@vibe)",
    ] {
        assert_eq!(mentions(&t, content).await, [], "{content}");
    }
}

#[tokio::test]
async fn mentions_after_code_or_a_quote_are_recognized() {
    let t = team().await;
    for content in [
        "`code` @vibe",
        "```\ncode\n```\n@vibe",
        "> quoted\n\n@vibe",
        "    code\n\n@vibe",
    ] {
        assert_eq!(mentions(&t, content).await.len(), 1, "{content}");
    }
}

#[tokio::test]
async fn the_same_handle_twice_creates_two_mentions_and_one_task() {
    let t = team().await;
    let started = t.ada.start(&t.general, "@vibe @vibe").await;
    assert_eq!(list(&started, "/message/mentions").len(), 2);
    assert_eq!(list(&started, "/tasks").len(), 1);
}

#[tokio::test]
async fn an_agents_reply_creates_no_mentions() {
    let t = team().await;
    t.model()
        .script("vibe", [crate::support::Answer::text("Ask @bo or @coder.")]);
    let started = t.ada.start(&t.general, "@vibe whom?").await;
    let done = t.ada.completed(&text(&started, "/tasks/0/id")).await;
    let reply: Value = t.ada.message(&text(&done, "/output/message_id")).await;
    assert_eq!(list(&t.ada.get("/v1/tasks").await.ok(), "/data").len(), 1);
    assert_eq!(t.bo.channel("general").await["mention_count"], 0, "{reply}");
}

#[tokio::test]
async fn only_the_first_of_very_many_mentions_in_a_message_are_recognized() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let strangers = |n: usize| {
        let all: Vec<String> = (0..n).map(|n| format!("@nobody{n}")).collect();
        all.join(" ")
    };
    let near = format!("{} @bo", strangers(150));
    let posted = t.ada.say(&thread, &near).await;
    assert_eq!(posted["message"]["mentions"][0]["handle"], "bo");
    let far = format!("{} @bo and @everyone", strangers(2000));
    let posted = t.ada.say(&thread, &far).await;
    let found = list(&posted, "/message/mentions");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["handle"], "everyone", "no lookup needed");
    let posted = t.ada.say(&thread, &"@bo ".repeat(5000)).await;
    assert_eq!(list(&posted, "/message/mentions").len(), 200);
}
