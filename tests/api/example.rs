//! The example in #general of a new workspace. What is made of it without a model is in `seeds/example.yaml`.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    exports::{archive, entries, lines},
    support::{Person, Team, TestApp, id, list, team, team_with, text},
};

#[derive(Deserialize)]
struct Seed {
    people: Vec<String>,
    messages: Vec<SeedMessage>,
    deep_dive: SeedFork,
    expected: Expected,
}

#[derive(Debug, PartialEq, Deserialize)]
struct SeedMessage {
    author: String,
    text: String,
}

#[derive(Deserialize)]
struct SeedFork {
    title: String,
    from: usize,
    messages: Vec<SeedMessage>,
}

#[derive(Deserialize)]
struct Expected {
    catch_up: Value,
    draft: Value,
    answer: String,
}

fn seed() -> Seed {
    serde_yaml_ng::from_str(include_str!("../../seeds/example.yaml")).unwrap()
}

/// A team without a model, whose workspace has the example.
async fn newcomers() -> Team {
    team_with(&[
        ("EXAMPLE", "on"),
        ("MODEL_BASE_URL", ""),
        ("MODEL_API_KEY", ""),
    ])
    .await
}

async fn threads(t: &Team) -> Vec<Value> {
    let path = format!("/v1/channels/{}/threads", t.general);
    list(&t.bo.get(&path).await.ok(), "/data")
}

/// The IDs of the thread and of its deep dive.
async fn example(t: &Team) -> (String, String) {
    let thread = id(&threads(t).await[0]);
    let forks = t.bo.get(&format!("/v1/threads/{thread}/forks")).await.ok();
    (thread, id(&list(&forks, "/data")[0]))
}

/// Messages without what depends on the time.
fn said(messages: &[Value]) -> Vec<SeedMessage> {
    let said = messages.iter().map(|message| SeedMessage {
        author: text(message, "/author/name"),
        text: text(message, "/content"),
    });
    said.collect()
}

async fn author_of(by: &Person, message: &Value) -> Value {
    let message = by.message(message.as_str().unwrap()).await;
    message["author"]["name"].clone()
}

/// Points of a draft with the authors of their sources instead of their IDs.
async fn with_authors(by: &Person, draft: &Value, pointer: &str) -> Vec<Value> {
    let mut points = Vec::new();
    for point in list(draft, pointer) {
        let mut authors = Vec::new();
        for source in list(&point, "/sources") {
            authors.push(author_of(by, &source).await);
        }
        let mut shown = json!({"authors": authors, "text": point["text"]});
        if pointer == "/action_items" {
            shown["owner"] = point["owner_name"].clone();
        }
        points.push(shown);
    }
    points
}

async fn assert_no_items(who: &Person) {
    let inbox = who.get("/v1/inbox").await.ok();
    assert_eq!(list(&inbox, "/data"), Vec::<Value>::new());
}

#[tokio::test]
async fn the_lines_the_draft_and_the_answer_are_those_of_the_file() {
    let t = newcomers().await;
    let (thread, fork) = example(&t).await;
    let expected = seed().expected;

    // No message is unread, so that the default is the whole thread.
    for query in ["", "?since=0"] {
        let path = format!("/v1/threads/{thread}/catch-up{query}");
        let found = t.bo.get(&path).await.ok();
        assert_eq!(found["by"], "builtin");
        let found = list(&found, "/lines").into_iter().map(|line| {
            json!({"section": line["section"], "author": line["author"]["name"], "text": line["text"]})
        });
        assert_eq!(Value::Array(found.collect()), expected.catch_up, "{query}");
    }

    let draft = t.bo.drafted(&fork).await;
    assert_eq!(draft["generated_by"], "builtin");
    let shown = json!({
        "headline": draft["headline"],
        "conclusion": draft["conclusion"],
        "key_points": with_authors(&t.bo, &draft, "/key_points").await,
        "action_items": with_authors(&t.bo, &draft, "/action_items").await,
        "open_questions": with_authors(&t.bo, &draft, "/open_questions").await,
    });
    assert_eq!(shown, expected.draft);

    let task = t.bo.ask(&thread, "@vibe What did we decide?").await;
    let done = t.bo.completed(&task).await;
    let reply = t.bo.message(&text(&done, "/output/message_id")).await;
    let content = text(&reply, "/content");
    let answer = content.split("\n\nI am OpenVibe's").next().unwrap();
    assert_eq!(answer, expected.answer);
    // Neither the draft nor the answer is an item.
    assert_no_items(&t.bo).await;
}

#[tokio::test]
async fn a_new_workspace_has_the_example_in_general() {
    let t = newcomers().await;
    let seed = seed();
    let (thread, fork) = example(&t).await;
    let messages = t.bo.messages(&thread).await;
    assert_eq!(said(&messages), seed.messages);
    let forked = t.bo.fork(&fork).await;
    assert_eq!(
        (&forked["title"], &forked["message_id"], &forked["status"]),
        (
            &json!(seed.deep_dive.title),
            &messages[seed.deep_dive.from - 1]["id"],
            &json!("active")
        )
    );
    let path = format!("/v1/forks/{fork}/messages");
    let below = list(&t.bo.get(&path).await.ok(), "/data");
    assert_eq!(said(&below), seed.deep_dive.messages);
    let mut all = messages.iter().chain(&below);
    assert!(all.all(|message| message["metadata"] == json!({"example": true})));
    assert_eq!(threads(&t).await.len(), 1);
}

#[tokio::test]
async fn the_authors_of_the_example_are_not_members() {
    let t = newcomers().await;
    let members = list(&t.ada.get("/v1/members").await.ok(), "/data");
    let names: Vec<String> = members.iter().map(|m| text(m, "/name")).collect();
    for name in seed().people {
        assert!(!names.contains(&name), "{name} is a member");
    }
    let posted = t.ada.start(&t.general, "@nora @sam hello").await;
    assert_eq!(posted["message"]["mentions"], json!([]));
}

#[tokio::test]
async fn the_example_makes_no_items_and_nothing_unread() {
    let t = newcomers().await;
    assert_no_items(&t.bo).await;
    for who in [&t.ada, &t.bo] {
        let general = who.channel("general").await;
        assert_eq!(
            (&general["unread_count"], &general["mention_count"]),
            (&json!(0), &json!(0))
        );
        let path = format!("/v1/threads/{}", example(&t).await.0);
        let thread = who.get(&path).await.ok();
        assert_eq!(thread["unread_count"], 0);
        assert_eq!(thread["first_unread_id"], Value::Null);
    }
}

#[tokio::test]
async fn an_export_leaves_the_example_out() {
    let t = newcomers().await;
    t.ada.thread(&t.general, "Ours").await;
    let entries = entries(&archive(&t.ada, json!({})).await);
    let contents: Vec<String> = lines(&entries, "messages/")
        .iter()
        .map(|message| text(message, "/content"))
        .collect();
    assert_eq!(contents, ["Ours"]);
    assert_eq!(lines(&entries, "threads.jsonl").len(), 1);
    assert_eq!(lines(&entries, "forks.jsonl"), Vec::<Value>::new());
    let people = lines(&entries, "people.jsonl");
    assert_eq!(people.len(), 2, "{people:?}");
}

#[tokio::test]
async fn an_admin_removes_the_example() {
    let t = newcomers().await;
    let (thread, _) = example(&t).await;
    let path = format!("/v1/threads/{thread}");
    assert_eq!(t.bo.delete(&path).await.refused(403), "not_deletable");
    t.ada.delete(&path).await.is(204);
    assert_eq!(t.bo.get(&path).await.refused(404), "thread_not_found");
    assert_eq!(threads(&t).await, Vec::<Value>::new());
}

#[tokio::test]
async fn each_new_workspace_of_a_server_has_its_own_example() {
    let app = TestApp::with(&[("EXAMPLE", "on")]).await;
    let founder = app.founder("Ada").await;
    let second = founder.post("/v1/workspaces", json!({"name": "Second"}));
    let second = id(&second.await.is(201));
    let ada = founder.in_workspace(&second);
    let general = id(&ada.channel("general").await);
    let path = format!("/v1/channels/{general}/threads");
    let threads = list(&ada.get(&path).await.ok(), "/data");
    assert_eq!(threads.len(), 1);
    assert_eq!(threads[0]["workspace_id"], second.as_str());
}

#[tokio::test]
async fn a_server_can_do_without_the_example() {
    let t = team().await;
    assert_eq!(threads(&t).await, Vec::<Value>::new());
}
