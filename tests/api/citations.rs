//! Citations of a model's reply: checked, numbered, or removed.

use serde_json::{Value, json};

use crate::{
    documents::{pdf, read},
    support::{Answer, Gate, Team, id, list, team, text},
    tools_loop::{actions, reader},
};

fn search(query: &str) -> (&'static str, Value) {
    ("search_messages", json!({"query": query, "author": "Bo"}))
}

/// Asks an agent that searches for `query` and then answers; returns its reply.
async fn answered(t: &Team, channel: &str, query: &str, answer: &str) -> Value {
    t.model().script(
        "sage",
        [Answer::calls("", &[search(query)]), Answer::text(answer)],
    );
    let thread = t.ada.thread(channel, "Root").await;
    let task = t.ada.ask(&thread, "@sage what is known?").await;
    t.ada.completed(&task).await;
    t.ada.messages(&thread).await.pop().unwrap()
}

fn cited(reply: &Value) -> (String, usize, Value) {
    let sources = reply["metadata"]["sources"].as_array().map_or(0, Vec::len);
    let removed = reply["metadata"]["sources_removed"].clone();
    (text(reply, "/content"), sources, removed)
}

#[tokio::test]
async fn a_supported_citation_becomes_a_number_with_its_source() {
    let t = team().await;
    reader(&t.ada, "sage", json!({})).await;
    let said = t.bo.start(&t.general, "The zebra budget is 40 euros").await;
    let reply = answered(&t, &t.general, "zebra", "The zebra costs 40 euros [S1].").await;
    assert_eq!(
        cited(&reply),
        ("The zebra costs 40 euros [1].".to_owned(), 1, Value::Null)
    );
    let source = json!({"n": 1, "message_id": said["message"]["id"], "thread_id": said["thread"]["id"],
        "fork_id": null, "channel_id": t.general});
    assert_eq!(reply["metadata"]["sources"], json!([source]));
    assert_eq!(reply["content_plain"], "The zebra costs 40 euros [1].");
    let found = t.ada.get("/v1/search?q=costs").await.ok();
    assert!(found.to_string().contains(&text(&reply, "/id")));
}

#[tokio::test]
async fn a_citation_without_support_is_removed_and_counted() {
    let t = team().await;
    reader(&t.ada, "sage", json!({})).await;
    t.bo.start(&t.general, "The zebra budget is 40 euros").await;
    for (answer, shown, sources, removed) in [
        (
            "The zebra budget is 50 euros [S1].",
            "The zebra budget is 50 euros.",
            0,
            json!(1),
        ),
        (
            "Elephants sleep standing, as keepers report [S1].",
            "Elephants sleep standing, as keepers report.",
            0,
            json!(1),
        ),
        (
            "The zebra budget is 40 euros [S1][S9]. See `[S1]` [1].",
            "The zebra budget is 40 euros [1]. See `[S1]`.",
            1,
            json!(2),
        ),
        ("[S9]", "", 0, json!(1)),
    ] {
        let reply = answered(&t, &t.general, "zebra", answer).await;
        assert_eq!(cited(&reply), (shown.to_owned(), sources, removed));
    }
}

#[tokio::test]
async fn a_handle_of_another_task_is_unknown() {
    let t = team().await;
    reader(&t.ada, "sage", json!({})).await;
    t.bo.start(&t.general, "The zebra budget is 40 euros").await;
    answered(
        &t,
        &t.general,
        "zebra",
        "The zebra budget is 40 euros [S1].",
    )
    .await;
    t.model()
        .script("sage", [Answer::text("The zebra budget is 40 euros [S1].")]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@sage and again?").await;
    t.ada.completed(&task).await;
    let reply = t.ada.messages(&thread).await.pop().unwrap();
    assert_eq!(
        cited(&reply),
        ("The zebra budget is 40 euros.".to_owned(), 0, json!(1))
    );
}

#[tokio::test]
async fn a_message_deleted_during_the_answer_is_not_cited() {
    let t = team().await;
    reader(&t.ada, "sage", json!({})).await;
    let said = t.bo.start(&t.general, "The zebra budget is 40 euros").await;
    let gate = Gate::new();
    t.model().script(
        "sage",
        [
            Answer::calls("", &[search("zebra")]),
            Answer::pieces_open(&["The zebra budget"])
                .wait(&gate)
                .piece(" is 40 euros [S1].")
                .end(),
        ],
    );
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@sage what is known?").await;
    gate.reached().await;
    let message = text(&said, "/message/id");
    t.bo.delete(&format!("/v1/messages/{message}"))
        .await
        .is(200);
    gate.open();
    t.ada.completed(&task).await;
    let reply = t.ada.messages(&thread).await.pop().unwrap();
    assert_eq!(
        cited(&reply),
        ("The zebra budget is 40 euros.".to_owned(), 0, json!(1))
    );
}

#[tokio::test]
async fn a_message_of_a_hidden_channel_is_cited_only_where_everyone_can_read_it() {
    let t = team().await;
    reader(&t.ada, "sage", json!({})).await;
    let secret = t.ada.private_channel("vault", &[&t.bo]).await;
    t.bo.start(&secret, "The zebra budget is 40 euros").await;
    let answer = "The zebra budget is 40 euros [S1].";
    let inside = answered(&t, &secret, "zebra", answer).await;
    assert_eq!(cited(&inside).1, 1);
    let outside = answered(&t, &t.general, "zebra", answer).await;
    assert_eq!(
        cited(&outside),
        ("The zebra budget is 40 euros.".to_owned(), 0, json!(1))
    );
}

#[tokio::test]
async fn a_file_supports_what_it_contains() {
    let t = team().await;
    reader(&t.ada, "sage", json!({})).await;
    let file =
        t.bo.upload("plan.txt", b"The lemur house opens on 12 June.")
            .await;
    t.bo.post(
        &format!("/v1/channels/{}/threads", t.general),
        json!({"content": "The plan for the zoo", "attachments": [id(&file)]}),
    )
    .await
    .is(201);
    let reply = answered(
        &t,
        &t.general,
        "zoo",
        "The lemur house opens on 12 June [F1]. It opens on 13 June [F1].",
    )
    .await;
    assert_eq!(
        cited(&reply),
        (
            "The lemur house opens on 12 June [1]. It opens on 13 June.".to_owned(),
            1,
            json!(1)
        )
    );
}

#[tokio::test]
async fn a_document_is_cited_with_its_page() {
    let t = team().await;
    reader(&t.ada, "sage", json!({})).await;
    let pages = ["The zoo opens in May", "The lemur house opens on 12 June"];
    let file = t.bo.upload("Zoo.pdf", &pdf(&pages)).await;
    read(&t.bo, &file).await;
    let form = json!({"content": "The plan for the zoo", "attachments": [id(&file)]});
    let path = format!("/v1/channels/{}/threads", t.general);
    let posted = t.bo.post(&path, form).await.is(201);
    let answer = "The lemur house opens on 12 June [F1]. The zoo opens in May [F1]. The tapir house opens on 13 June [F1].";
    let reply = answered(&t, &t.general, "zoo", answer).await;
    let shown = "The lemur house opens on 12 June [1]. The zoo opens in May [2]. The tapir house opens on 13 June.";
    assert_eq!(cited(&reply), (shown.to_owned(), 2, json!(1)));
    let sources = &reply["metadata"]["sources"];
    let source = json!({"n": 1, "message_id": posted["message"]["id"], "thread_id": posted["thread"]["id"],
        "fork_id": null, "channel_id": t.general, "file_id": file["id"], "part": 2, "label": "page 2", "from": 0, "to": 32});
    assert_eq!(sources[0], source);
    assert_eq!(sources[1]["label"], "page 1");
}

#[tokio::test]
async fn a_published_result_supports_its_action_items() {
    let t = team().await;
    reader(&t.ada, "sage", json!({})).await;
    let dive = t.dive().await;
    let said = t.bo.tell_in(&dive.fork, "I write the zebra plan.").await;
    let content = json!({"headline": "The zebra plan is next", "conclusion": "Bo starts.", "action_items": [
        {"text": "Write the zebra plan", "owner_id": t.bo.id, "due": "2026-12-01", "sources": [said]}]});
    t.ada.publish_as(&dive.fork, content).await;
    let items = ("list_action_items", json!({}));
    let answer =
        "Bo writes the zebra plan by 2026-12-01 [S1]. Bo writes the zebra plan by 2026-12-09 [S1].";
    t.model()
        .script("sage", [Answer::calls("", &[items]), Answer::text(answer)]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@sage who does what?").await;
    t.ada.completed(&task).await;
    let reply = t.ada.messages(&thread).await.pop().unwrap();
    let shown =
        "Bo writes the zebra plan by 2026-12-01 [1]. Bo writes the zebra plan by 2026-12-09.";
    assert_eq!(cited(&reply), (shown.to_owned(), 1, json!(1)));
}

#[tokio::test]
async fn marks_of_an_agent_without_tools_stay() {
    let t = team().await;
    reader(&t.ada, "sage", json!({"tools": []})).await;
    t.model()
        .script("sage", [Answer::text("Store it in [S3] and [1].")]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@sage where?").await;
    let task = t.ada.completed(&task).await;
    assert_eq!(
        t.ada.contents(&thread).await.pop().unwrap(),
        "Store it in [S3] and [1]."
    );
    assert!(actions(&t.ada, &task).await.is_empty());
}

#[tokio::test]
async fn the_seeded_agents_search_the_workspace() {
    let t = team().await;
    for (name, expected) in [
        ("vibe", &["file_search", "delegate"][..]),
        ("researcher", &["file_search", "web_fetch"]),
        ("coder", &["file_search"]),
    ] {
        let path = format!("/v1/agents/{}", id(&t.ada.agent(name).await));
        let tools = list(&t.ada.get(&path).await.ok(), "/tools").into_iter();
        let tools: Vec<String> = tools.map(|tool| text(&tool, "/type")).collect();
        assert_eq!(tools, expected, "{name}");
    }
}

#[tokio::test]
async fn neither_replies_of_agents_nor_the_question_are_sources() {
    let t = team().await;
    reader(&t.ada, "sage", json!({})).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    t.model()
        .script("sage", [Answer::text("The zebra costs 50 euros.")]);
    let task = t.ada.ask(&thread, "@sage guess").await;
    t.ada.completed(&task).await;
    t.bo.start(&t.general, "The zebra budget is 40 euros").await;
    let search = ("search_messages", json!({"query": "zebra"}));
    let read = ("read_thread", json!({"thread": thread}));
    t.model().script(
        "sage",
        [
            Answer::calls("Of the zebra:", &[search]),
            Answer::calls("", &[read]),
            Answer::text("The zebra budget is 40 euros [S1]. The zebra costs 50 euros [S4]."),
        ],
    );
    let other = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&other, "@sage what does the zebra cost?").await;
    t.ada.completed(&task).await;
    let results = t.model().asked("sage", 4).await[3].results();
    assert!(results[0].contains("budget is 40 euros"), "{}", results[0]);
    for other in ["50 euros", "what does", "[S2]"] {
        assert!(!results[0].contains(other), "{}", results[0]);
    }
    // A thread that the agent reads contains agents' messages, but those are not cited.
    assert!(results[1].contains("[S4] sage"), "{}", results[1]);
    let reply = t.ada.messages(&other).await.pop().unwrap();
    let (content, sources, removed) = cited(&reply);
    assert!(
        content.ends_with("The zebra budget is 40 euros [1]. The zebra costs 50 euros."),
        "{content}"
    );
    assert_eq!((sources, removed), (1, json!(1)));
}
