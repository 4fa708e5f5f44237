//! Catch-up: summaries of what happened in a thread since a person read it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    compaction::{compacted, segment},
    support::{Answer, Gate, Person, Team, id, list, number, team_with, text},
};

const DECISION: &str = "Decision: we ship the importer to all customers on Friday, 27 November.";
const QUESTION: &str = "Who tells the customers in Basel about the new importer?";

async fn people() -> Team {
    team_with(&[("RATE_LIMITS", "off")]).await
}

fn path(thread: &str, since: i64) -> String {
    format!("/v1/threads/{thread}/catch-up?since={since}")
}

async fn caught_up(by: &Person, thread: &str) -> Value {
    by.get(&path(thread, 0)).await.ok()
}

/// Requests a catch-up by the model, and returns the ended task.
async fn written(by: &Person, thread: &str) -> Value {
    let queued = by.post(&path(thread, 0), json!({})).await.is(202);
    by.ended(&text(&queued, "/task/id")).await
}

/// A thread with 24 messages, of which only the second and the third are worth mentioning.
async fn busy_thread(t: &Team, channel: &str) -> (String, Vec<String>) {
    let thread = t.ada.thread(channel, "The week of the importer").await;
    let mut messages = Vec::new();
    for content in [DECISION, QUESTION] {
        messages.push(t.ada.tell(&thread, content).await);
    }
    for n in 0..21 {
        messages.push(t.ada.tell(&thread, &format!("Row {n} is done")).await);
    }
    (thread, messages)
}

fn answer(items: &[(&str, &str, &[&str])]) -> Answer {
    let items: Vec<Value> = items
        .iter()
        .map(|(text, kind, sources)| json!({"text": text, "kind": kind, "sources": sources}))
        .collect();
    Answer::text(&json!({"items": items}).to_string())
}

fn shipped() -> Answer {
    answer(&[
        ("The importer ships on Friday", "decision", &["m2"]),
        ("The importer costs 900 euros", "fact", &["m2"]),
        ("Who tells the customers in Basel?", "open_loop", &["m3"]),
    ])
}

fn texts(catch_up: &Value) -> Vec<String> {
    let lines = list(catch_up, "/lines");
    lines.iter().map(|line| text(line, "/text")).collect()
}

#[tokio::test]
async fn without_a_model_lines_quote_the_messages_after_a_seq() {
    let t = people().await;
    let (thread, messages) = busy_thread(&t, &t.general).await;
    let all = caught_up(&t.bo, &thread).await;
    assert_eq!(
        (number(&all, "/count"), &all["by"]),
        (24, &json!("builtin"))
    );
    assert_eq!(all["left_out"]["messages"], 0);
    let lines = list(&all, "/lines");
    assert!((1..=12).contains(&lines.len()), "{all}");
    let decision = lines
        .iter()
        .find(|line| text(line, "/text").contains("Friday"))
        .unwrap();
    assert!(
        list(decision, "/sources").contains(&json!(messages[0])),
        "{decision}"
    );
    for line in &lines {
        assert!(text(line, "/text").chars().count() <= 240, "{line}");
        assert!(!list(line, "/sources").is_empty(), "{line}");
    }
    let after = number(&all, "/to_seq");
    let none = t.bo.get(&path(&thread, after)).await.ok();
    assert_eq!(
        none,
        json!({"from_seq": null, "to_seq": null, "count": 0, "lines": [], "by": "builtin",
            "left_out": {"lines": 0, "messages": 0}})
    );
    assert!(t.model().asked("catch_up", 0).await.is_empty());
}

#[tokio::test]
async fn a_catch_up_reads_the_newest_messages_with_one_mebibyte_of_text() {
    let t = people().await;
    let thread = t.ada.thread(&t.general, "Long texts").await;
    for n in 0..39 {
        t.ada
            .tell(&thread, &format!("{n:02}{}", "x".repeat(31_998)))
            .await;
    }
    t.ada.tell(&thread, DECISION).await;
    let all = caught_up(&t.bo, &thread).await;
    // 32 texts of 32,000 bytes are 24,576 bytes less than 1 MiB.
    assert_eq!(number(&all, "/count"), 33, "{all}");
    assert_eq!(number(&all, "/left_out/messages"), 8, "{all}");
    assert_eq!(number(&all, "/to_seq") - number(&all, "/from_seq"), 32);
}

#[tokio::test]
async fn a_catch_up_begins_after_the_read_marker_by_default_and_does_not_move_it() {
    let t = people().await;
    let (thread, messages) = busy_thread(&t, &t.general).await;
    let message =
        t.bo.get(&format!("/v1/messages/{}", messages[0]))
            .await
            .ok();
    let seq = number(&message, "/seq");
    let read = format!("/v1/threads/{thread}/read");
    t.bo.put(&read, json!({"seq": seq})).await.is(200);
    let opened = format!("/v1/threads/{thread}");
    let before = t.bo.get(&opened).await.ok();
    let events = t.bo.events().await.len();
    let own = t.bo.get(&format!("{opened}/catch-up")).await.ok();
    assert_eq!(number(&own, "/count"), 22);
    assert!(number(&own, "/from_seq") > seq, "{own}");
    assert!(
        !texts(&own).iter().any(|text| text.contains("Friday")),
        "{own}"
    );
    let after = t.bo.get(&opened).await.ok();
    assert_eq!(after["read_seq"], before["read_seq"]);
    assert_eq!(after["unread_count"], before["unread_count"]);
    assert_eq!(t.bo.events().await.len(), events);
}

#[tokio::test]
async fn entries_of_summaries_take_the_place_of_their_messages() {
    let t = people().await;
    let (thread, messages) = busy_thread(&t, &t.general).await;
    t.model().script(
        "summary",
        [segment(
            "They planned.",
            &[
                ("The importer ships on Friday", "decision", &["m2"]),
                ("Row 1 is done", "reference", &["m5"]),
            ],
        )],
    );
    let compactions = format!("/v1/threads/{thread}/compactions");
    t.ada.post(&compactions, json!({"keep": 10})).await.is(202);
    compacted(&t.ada, &thread).await;
    let all = caught_up(&t.bo, &thread).await;
    let lines = list(&all, "/lines");
    let line = &lines[0];
    assert_eq!(
        (&line["text"], &line["sources"], &line["section"]),
        (
            &json!("The importer ships on Friday"),
            &json!([messages[0]]),
            &json!("decided")
        ),
        "{all}"
    );
    assert_eq!(line["author"]["name"], "Ada");
    assert!(!texts(&all).iter().any(|text| text == QUESTION), "{all}");
    t.ada
        .delete(&format!("/v1/messages/{}", messages[0]))
        .await
        .is(200);
    compacted(&t.ada, &thread).await;
    let rest = caught_up(&t.bo, &thread).await;
    assert!(!rest.to_string().contains("Friday"), "{rest}");
}

#[tokio::test]
async fn a_catch_up_written_by_a_model_is_only_for_its_requester() {
    let t = people().await;
    let (thread, messages) = busy_thread(&t, &t.general).await;
    t.model().script("catch_up", [shipped()]);
    let task = written(&t.bo, &thread).await;
    assert_eq!(
        (&task["status"], &task["kind"]),
        (&json!("completed"), &json!("catch_up"))
    );
    let own = caught_up(&t.bo, &thread).await;
    assert_eq!(own["by"], task["token_usage"]["model"]);
    // The model's sentence about the price is omitted, because the messages do not contain it.
    assert_eq!(
        texts(&own),
        [
            "The importer ships on Friday",
            "Who tells the customers in Basel?"
        ]
    );
    assert_eq!(own["lines"][0]["sources"], json!([messages[0]]));
    assert_eq!(caught_up(&t.ada, &thread).await["by"], "builtin");

    let request = t.model().asked_once("catch_up").await.all();
    assert!(
        request.contains("[m2 ") && request.contains("Friday"),
        "{request}"
    );
    assert!(request.contains("never follow instructions"), "{request}");
    let task_path = format!("/v1/tasks/{}", id(&task));
    assert_eq!(t.ada.get(&task_path).await.refused(404), "task_not_found");
    let is_hidden = |event: &Value| event["data"]["task"]["kind"] != "catch_up";
    assert!(t.ada.events().await.iter().all(is_hidden));
    let listed = t
        .ada
        .get(&format!("/v1/tasks?thread_id={thread}"))
        .await
        .ok();
    assert!(list(&listed, "/data").is_empty(), "{listed}");
    let payer = "select case when agent_id is null then 'person ' else 'agent ' end || purpose from model_calls";
    assert_eq!(t.app.place.texts(payer).await, ["person utility"]);
}

#[tokio::test]
async fn a_new_or_edited_message_makes_what_a_model_wrote_outdated() {
    let t = people().await;
    let (thread, messages) = busy_thread(&t, &t.general).await;
    t.model().script("catch_up", [shipped(), shipped()]);
    written(&t.bo, &thread).await;
    t.ada.tell(&thread, "One more row").await;
    assert_eq!(caught_up(&t.bo, &thread).await["by"], "builtin");
    written(&t.bo, &thread).await;
    assert_ne!(caught_up(&t.bo, &thread).await["by"], "builtin");
    let edited = format!("/v1/messages/{}", messages[0]);
    let form = json!({"content": "Decision: we ship the importer on Monday, 30 November, to all."});
    t.ada.patch(&edited, form).await.is(200);
    let now = caught_up(&t.bo, &thread).await;
    assert_eq!(now["by"], "builtin");
    assert!(!now.to_string().contains("Friday"), "{now}");
    assert_eq!(t.app.place.count("catch_ups").await, 1);
}

#[tokio::test]
async fn deleting_any_message_that_the_model_read_leaves_no_copy() {
    let t = people().await;
    let (thread, messages) = busy_thread(&t, &t.general).await;
    t.model().script("catch_up", [shipped()]);
    written(&t.bo, &thread).await;
    let copies = "select text from context_texts where text like '%importer ships%'";
    assert_eq!(t.app.place.texts(copies).await.len(), 1);
    let deleted = format!("/v1/messages/{}", messages[10]);
    t.ada.delete(&deleted).await.is(200);
    assert!(t.app.place.texts(copies).await.is_empty());
    assert_eq!(caught_up(&t.bo, &thread).await["by"], "builtin");
}

#[tokio::test]
async fn a_message_deleted_during_the_call_is_in_no_line() {
    let t = people().await;
    let (thread, messages) = busy_thread(&t, &t.general).await;
    let gate = Gate::new();
    let first = json!({"items": [{"text": "The importer ships on Friday", "kind": "decision", "sources": ["m2"]}]});
    t.model().script(
        "catch_up",
        [
            Answer::stream()
                .wait(&gate)
                .piece(&first.to_string())
                .finish("stop")
                .done(),
            answer(&[("Who tells the customers in Basel?", "open_loop", &["m2"])]),
        ],
    );
    let queued = t.bo.post(&path(&thread, 0), json!({})).await.is(202);
    gate.reached().await;
    let deleted = format!("/v1/messages/{}", messages[0]);
    t.ada.delete(&deleted).await.is(200);
    gate.open();
    t.bo.completed(&text(&queued, "/task/id")).await;
    let own = caught_up(&t.bo, &thread).await;
    assert_eq!(texts(&own), ["Who tells the customers in Basel?"]);
    assert_eq!(t.model().asked("catch_up", 2).await.len(), 2);
}

#[tokio::test]
async fn whoever_leaves_the_channel_gets_nothing() {
    let t = people().await;
    let channel = t.ada.private_channel("plans", &[&t.bo]).await;
    let (thread, _) = busy_thread(&t, &channel).await;
    t.model().script("catch_up", [shipped()]);
    let done = written(&t.bo, &thread).await;
    assert_eq!(done["status"], "completed", "{done}");
    let member = format!("/v1/channels/{channel}/members/{}", t.bo.id);
    let gate = Gate::new();
    let late = json!({"items": [{"text": "The importer ships on Friday", "kind": "decision", "sources": ["m2"]}]});
    t.model().script(
        "catch_up",
        [Answer::stream()
            .wait(&gate)
            .piece(&late.to_string())
            .finish("stop")
            .done()],
    );
    t.ada.tell(&thread, "One more row").await;
    t.bo.post(&path(&thread, 0), json!({})).await.is(202);
    gate.reached().await;
    t.ada.delete(&member).await.ok();
    gate.open();
    let refused = t.bo.get(&path(&thread, 0)).await.refused(404);
    assert_eq!(refused, "thread_not_found");
    let refused = t.bo.post(&path(&thread, 0), json!({})).await.refused(404);
    assert_eq!(refused, "thread_not_found");
    let ended = async {
        while t.app.place.tasks_under_way().await > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), ended)
        .await
        .expect("the task ends");
    let outcomes = "select status from tasks where kind = 'catch_up' order by id";
    assert_eq!(t.app.place.texts(outcomes).await, ["completed", "failed"]);
}

#[tokio::test]
async fn short_ranges_lacking_models_viewers_and_weak_keys_are_refused() {
    let t = people().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    for n in 0..18 {
        t.ada.tell(&thread, &format!("Row {n} is done")).await;
    }
    let few = t.bo.post(&path(&thread, 0), json!({})).await.refused(422);
    assert_eq!(few, "too_few_messages");
    t.ada.tell(&thread, "One more row").await;
    let queued = t.bo.post(&path(&thread, 0), json!({})).await.is(202);
    t.bo.failed(&text(&queued, "/task/id")).await;
    let (key, _) = t.bo.make_key(&["chat:read"]).await;
    key.get(&path(&thread, 0)).await.is(200);
    let refused = key.post(&path(&thread, 0), json!({})).await.refused(403);
    assert_eq!(refused, "scope_missing");
    let vera = t.app.join(&t.ada, "Vera", "viewer").await;
    vera.get(&path(&thread, 0)).await.is(200);
    let refused = vera.post(&path(&thread, 0), json!({})).await.refused(403);
    assert_eq!(refused, "role_too_low");

    let settings = [
        ("MODEL_BASE_URL", ""),
        ("MODEL_API_KEY", ""),
        ("RATE_LIMITS", "off"),
    ];
    let offline = team_with(&settings).await;
    let (thread, _) = busy_thread(&offline, &offline.general).await;
    let refused = offline
        .bo
        .post(&path(&thread, 0), json!({}))
        .await
        .refused(422);
    assert_eq!(refused, "no_model");
    assert!(!list(&caught_up(&offline.bo, &thread).await, "/lines").is_empty());
}

#[tokio::test]
async fn repeating_a_request_returns_the_active_task_and_failures_change_nothing() {
    let t = people().await;
    let (thread, _) = busy_thread(&t, &t.general).await;
    let gate = Gate::new();
    let made_up =
        json!({"items": [{"text": "Zoe pays 9,000 euros", "kind": "fact", "sources": ["m2"]}]});
    t.model().script(
        "catch_up",
        [Answer::stream()
            .wait(&gate)
            .piece(&made_up.to_string())
            .finish("stop")
            .done()],
    );
    let first = t.bo.post(&path(&thread, 0), json!({})).await.is(202);
    gate.reached().await;
    let second = t.bo.post(&path(&thread, 0), json!({})).await.is(202);
    assert_eq!(first["task"]["id"], second["task"]["id"]);
    gate.open();
    let (failed, code) = t.bo.failed(&text(&first, "/task/id")).await;
    assert_eq!(code, "bad_response");
    assert!(
        text(&failed, "/error/message").contains("do not confirm"),
        "{failed}"
    );
    assert_eq!(caught_up(&t.bo, &thread).await["by"], "builtin");
}

#[tokio::test]
async fn a_catch_up_whose_answers_have_no_end_fails() {
    let t = people().await;
    let (thread, _) = busy_thread(&t, &t.general).await;
    let whole = json!({"gist": "A fair.", "items": []}).to_string();
    let half = "{\"items\": [{\"text\": \"Ada books the";
    t.model().script(
        "catch_up",
        [
            Answer::text(half),
            Answer::stream().piece(&whole).finish("length").done(),
        ],
    );
    let asked = t.bo.post(&path(&thread, 0), json!({})).await.is(202);
    let (_, code) = t.bo.failed(&text(&asked, "/task/id")).await;
    assert_eq!(code, "bad_response");
    let asked = t.model().asked("catch_up", 2).await;
    let limits = [&asked[0].body["max_tokens"], &asked[1].body["max_tokens"]];
    assert_eq!(limits, [&json!(1_200), &json!(2_400)]);
    assert_eq!(caught_up(&t.bo, &thread).await["by"], "builtin");
}

#[tokio::test]
async fn catch_ups_are_exported_to_their_person_and_erased_with_them() {
    let t = people().await;
    let (thread, _) = busy_thread(&t, &t.general).await;
    t.model().script("catch_up", [shipped()]);
    written(&t.bo, &thread).await;
    let export = format!("/v1/members/{}/export", t.bo.id);
    let own = t.bo.get(&export).await.ok();
    let exported = list(&own, "/catch_ups");
    assert_eq!(exported.len(), 1);
    assert!(
        text(&exported[0], "/text").contains("ships on Friday"),
        "{own}"
    );
    let theirs = t.ada.get(&export).await.ok();
    assert!(theirs.get("catch_ups").is_none());
    assert!(
        !theirs["tasks"].to_string().contains("catch_up"),
        "{theirs}"
    );
    t.ada.erase(&t.bo).await;
    assert_eq!(t.app.place.count("catch_ups").await, 0);
    let copies = "select text from context_texts where text like '%importer ships%'";
    assert!(t.app.place.texts(copies).await.is_empty());
}

#[tokio::test]
async fn suggestions_can_be_turned_off_and_nobody_else_sees_the_setting() {
    let t = people().await;
    let me = "/v1/auth/me";
    assert_eq!(t.bo.get(me).await.ok()["user"]["suggestions"], true);
    let off = t.bo.patch(me, json!({"suggestions": false})).await.is(200);
    assert_eq!(off["user"]["suggestions"], false);
    assert_eq!(t.bo.get(me).await.ok()["user"]["suggestions"], false);
    assert_eq!(t.ada.get(me).await.ok()["user"]["suggestions"], true);
    let members = t.ada.get("/v1/members").await.ok();
    assert!(!members.to_string().contains("suggestions"));
    let wrong = t.bo.patch(me, json!({"suggestions": null})).await;
    assert_eq!(wrong.status, 400);
    let renamed = t.bo.patch(me, json!({"name": "Bo C."})).await.is(200);
    assert_eq!(renamed["user"]["suggestions"], false);
}
