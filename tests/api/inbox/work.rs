//! Items that agents and work cause: each opens with its cause and closes with its end.

use std::time::Duration;

use serde_json::{Value, json};

use super::{inbox, only_item, open_items, read, set_state};
use crate::{
    approvals::{is_parked, waiting},
    collaboration,
    faults::prepared,
    runs::{flow, reaches, start},
    schedules::{created, due, in_channel, paused, run},
    support::{
        Answer, Person, Team, TestProcess, at_points, drafting, id, list, number, sign_up, team,
        text,
    },
    tools_loop::reader,
};

/// Reasons of the open items, newest first.
async fn reasons(person: &Person) -> Vec<String> {
    let items = open_items(person).await;
    items.iter().map(|item| text(item, "/reason")).collect()
}

async fn item_of(person: &Person, reason: &str) -> Value {
    let items = open_items(person).await;
    let found = items.iter().find(|item| item["reason"] == reason);
    found
        .unwrap_or_else(|| panic!("no {reason}: {items:?}"))
        .clone()
}

async fn has(person: &Person, reason: &str) -> bool {
    reasons(person).await.iter().any(|found| found == reason)
}

fn search() -> (&'static str, Value) {
    ("search_messages", json!({"query": "zebra"}))
}

#[tokio::test]
async fn a_completed_reply_is_an_answer_for_its_requester_until_it_is_read() {
    let t = team().await;
    t.model()
        .script("vibe", [Answer::text("High tide is at two.")]);
    let thread = t.bo.thread(&t.general, "Root").await;
    let said = t.bo.say(&thread, "@vibe when is high tide?").await;
    t.bo.completed(&text(&said, "/tasks/0/id")).await;
    let item = only_item(&t.bo).await;
    assert_eq!(
        json!([
            item["reason"],
            item["text"],
            item["subject_id"],
            item["from"]["type"],
            item["unread"],
            item["notifies"]
        ]),
        json!([
            "answer",
            "High tide is at two.",
            said["message"]["id"],
            "agent",
            true,
            true
        ])
    );
    assert_ne!(item["message_id"], item["subject_id"]);
    assert!(open_items(&t.ada).await.is_empty());
    read(&t.bo, &thread).await;
    assert!(open_items(&t.bo).await.is_empty());
}

#[tokio::test]
async fn a_chain_has_one_answer_the_last() {
    let t = team().await;
    t.model().script("coder", [Answer::text("First.")]);
    t.model().script("vibe", [Answer::text("Second.")]);
    let thread = t.bo.thread(&t.general, "Root").await;
    let said = t.bo.say(&thread, "@coder a → @vibe b").await;
    for task in list(&said, "/tasks") {
        t.bo.completed(&id(&task)).await;
    }
    assert_eq!(inbox(&t.bo, "").await, ["answer open Second."]);
}

#[tokio::test]
async fn a_failed_reply_is_an_item_until_it_is_tried_again() {
    let t = team().await;
    t.model()
        .script("vibe", [Answer::status(400, "{}"), Answer::text("Better.")]);
    let thread = t.bo.thread(&t.general, "Root").await;
    let task = t.bo.ask(&thread, "@vibe help").await;
    t.bo.failed(&task).await;
    let item = only_item(&t.bo).await;
    assert_eq!(item["reason"], "failed");
    read(&t.bo, &thread).await;
    assert_eq!(reasons(&t.bo).await, ["failed"], "reading is not enough");
    let again = t.bo.act(&format!("/v1/tasks/{task}/retry")).await;
    let again = text(&again.ok(), "/id");
    assert!(!has(&t.bo, "failed").await);
    t.bo.completed(&again).await;
    assert_eq!(inbox(&t.bo, "").await, ["answer open Better."]);
}

#[tokio::test]
async fn a_failed_run_is_an_item_until_it_is_resumed() {
    let t = team().await;
    t.model()
        .script("vibe", [Answer::status(400, "{}"), Answer::text("Hi.")]);
    let steps = json!([{"id": "draft", "kind": "agent", "prompt": "Greet."}]);
    let flow = flow(&t.bo, "greeting", steps).await;
    let started = start(&t.bo, &flow, json!({"channel_id": t.general})).await;
    reaches(&t.bo, &started, "failed").await;
    let item = only_item(&t.bo).await;
    assert_eq!(
        json!([item["reason"], item["subject_id"], item["title"]]),
        json!(["failed", started, "greeting"])
    );
    assert!(text(&item, "/text").contains("stopped at step 1"), "{item}");
    t.bo.act(&format!("/v1/runs/{started}/resume")).await.ok();
    assert!(!has(&t.bo, "failed").await);
}

#[tokio::test]
async fn a_schedule_that_fails_or_is_paused_is_an_item_of_its_owner() {
    let t = team().await;
    let schedule = created(&t.bo, in_channel(&t), json!({})).await;
    t.model()
        .script("vibe", [Answer::status(400, "{}"), Answer::text("News.")]);
    let task = run(&t.bo, &schedule).await;
    t.bo.failed(&task).await;
    let item = only_item(&t.bo).await;
    assert_eq!(
        json!([item["reason"], item["subject_id"], item["title"]]),
        json!(["failed", schedule, "Daily news"])
    );
    let task = run(&t.bo, &schedule).await;
    t.bo.completed(&task).await;
    assert_eq!(inbox(&t.bo, "").await, ["answer open News."]);
    let path = format!("/v1/schedules/{schedule}");
    t.ada.patch(&path, json!({"status": "paused"})).await.ok();
    assert_eq!(
        item_of(&t.bo, "failed").await["text"],
        "Paused by an admin."
    );
    t.ada.patch(&path, json!({"status": "active"})).await.ok();
    assert!(!has(&t.bo, "failed").await);
    // A slot of last week is not run anymore: it was missed.
    t.bo.patch(&path, json!({"missed": "skip"})).await.ok();
    due(&t, &schedule, Duration::from_hours(48)).await;
    t.bo.event_where("a missed slot", |event| {
        event["data"]["schedule"]["id"] == schedule
            && event["data"]["schedule"]["last_slot"]["state"] == "missed"
    })
    .await;
    assert!(has(&t.bo, "failed").await);
    t.bo.delete(&path).await.is(204);
    assert!(!has(&t.bo, "failed").await);
    assert!(open_items(&t.ada).await.is_empty());
}

#[tokio::test]
async fn a_schedule_whose_owner_is_gone_is_a_notice_for_admins() {
    let t = team().await;
    let schedule = created(&t.bo, in_channel(&t), json!({})).await;
    let member = format!("/v1/members/{}", t.bo.id);
    assert_eq!(t.ada.delete(&member).await.status / 100, 2);
    due(&t, &schedule, Duration::ZERO).await;
    paused(&t.ada, &schedule, "owner_gone").await;
    let item = only_item(&t.ada).await;
    assert_eq!(
        json!([
            item["reason"],
            item["subject_id"],
            item["title"],
            item["notifies"]
        ]),
        json!(["notice", schedule, "Daily news", false])
    );
    t.ada
        .delete(&format!("/v1/schedules/{schedule}"))
        .await
        .is(204);
    assert!(open_items(&t.ada).await.is_empty());
}

#[tokio::test]
async fn a_result_is_an_item_for_followers_until_it_is_read() {
    let t = team().await;
    let cem = t.app.join(&t.ada, "Cem", "member").await;
    let dive = t.dive().await;
    t.bo.say_in(&dive.fork, "Monday suits everybody.").await;
    cem.say(&dive.thread, "Ship it").await;
    let published = t
        .ada
        .publish_as(&dive.fork, json!({"headline": "Ship on Monday"}))
        .await;
    for person in [&t.bo, &cem] {
        let item = item_of(person, "result").await;
        assert_eq!(
            json!([item["subject_id"], item["message_id"], item["fork_id"]]),
            json!([dive.fork, published["message"]["id"], null])
        );
        assert!(text(&item, "/text").starts_with("Ship on Monday"), "{item}");
        read(person, &dive.thread).await;
        assert!(!has(person, "result").await);
    }
    assert!(!has(&t.ada, "result").await, "the author");
}

#[tokio::test]
async fn a_muted_thread_has_no_result() {
    let t = team().await;
    let dive = t.dive().await;
    t.bo.say_in(&dive.fork, "Monday suits everybody.").await;
    let mute = json!({"level": "none"});
    t.bo.put(&format!("/v1/threads/{}/follow", dive.thread), mute)
        .await
        .ok();
    t.ada
        .publish_as(&dive.fork, json!({"headline": "Ship on Monday"}))
        .await;
    assert!(!has(&t.bo, "result").await);
}

#[tokio::test]
async fn an_action_item_is_an_item_of_its_owner_until_it_is_done_or_reassigned() {
    let t = team().await;
    let cem = t.app.join(&t.ada, "Cem", "member").await;
    let dive = t.dive().await;
    t.bo.say_in(&dive.fork, "Monday suits everybody.").await;
    let form = json!({"headline": "Ship on Monday", "action_items": [
        {"text": "Book the room", "owner_id": t.bo.id}, {"text": "Order cake", "owner_id": t.ada.id}]});
    let published = t.ada.publish_as(&dive.fork, form).await;
    let action_item = text(&published, "/resolution/action_items/0/id");
    let item = item_of(&t.bo, "assigned").await;
    assert_eq!(
        json!([item["subject_id"], item["text"], item["from"]["name"]]),
        json!([action_item, "Book the room", "Ada"])
    );
    assert!(
        !has(&t.bo, "result").await,
        "one item for the message of the result"
    );
    assert!(!has(&t.ada, "assigned").await, "she assigned it herself");
    let path = format!("/v1/action-items/{action_item}");
    let to = |user: &str| json!({"owner_id": user});
    t.ada.patch(&path, to(&cem.id)).await.ok();
    assert!(!has(&t.bo, "assigned").await);
    assert!(has(&cem, "assigned").await);
    cem.patch(&path, json!({"done": true})).await.ok();
    assert!(!has(&cem, "assigned").await);
}

#[tokio::test]
async fn an_action_item_that_a_new_version_drops_closes_its_item() {
    let t = team().await;
    let dive = t.dive().await;
    t.bo.say_in(&dive.fork, "Monday suits everybody.").await;
    let form = json!({"headline": "Ship on Monday",
        "action_items": [{"text": "Book the room", "owner_id": t.bo.id}]});
    t.ada.publish_as(&dive.fork, form).await;
    assert!(has(&t.bo, "assigned").await);
    t.ada.reopen(&dive.fork).await;
    let form = json!({"headline": "Ship on Tuesday", "action_items": []});
    t.ada.publish_as(&dive.fork, form).await;
    assert!(!has(&t.bo, "assigned").await);
    assert!(has(&t.bo, "result").await);
}

#[tokio::test]
async fn a_draft_is_an_item_of_its_requester_until_it_is_published() {
    let t = team().await;
    for publishes in [true, false] {
        let dive = t.dive().await;
        t.bo.say_in(&dive.fork, "Monday suits everybody.").await;
        let draft = json!({"headline": "Monday it is", "conclusion": "Both agreed.", "key_points": [],
            "action_items": [], "open_questions": [], "deferred_items": []});
        t.model().script("resolver", [drafting(&draft)]);
        let task = t.bo.resolve(&dive.fork).await;
        t.bo.completed(&task).await;
        let item = item_of(&t.bo, "draft").await;
        assert_eq!(
            json!([item["subject_id"], item["fork_id"], item["title"]]),
            json!([dive.fork, dive.fork, "The day"])
        );
        assert!(!has(&t.ada, "draft").await);
        if publishes {
            t.ada.publish(&dive.fork).await;
        } else {
            t.ada.abandon(&dive.fork).await;
        }
        assert!(!has(&t.bo, "draft").await);
        for item in open_items(&t.bo).await {
            set_state(&t.bo, &[&id(&item)], "done").await;
        }
    }
}

#[tokio::test]
async fn a_fork_of_a_run_without_agents_waits_for_the_person_who_started_it() {
    let t = team().await;
    for ends_by in ["draft", "abandon", "cancel"] {
        let steps = json!([{"id": "think", "kind": "fork", "goal": "Find a day."}]);
        let flow = flow(&t.bo, &format!("fair-{ends_by}"), steps).await;
        let started = start(&t.bo, &flow, json!({"channel_id": t.general})).await;
        let waiting = reaches(&t.bo, &started, "waiting").await;
        let fork = text(&waiting, "/steps/0/fork_id");
        let item = item_of(&t.bo, "resolve").await;
        assert_eq!(
            json!([item["subject_id"], item["text"]]),
            json!([
                fork,
                format!("fair-{ends_by}, step 1: resolve this deep dive")
            ])
        );
        assert!(!has(&t.ada, "resolve").await);
        match ends_by {
            "draft" => {
                t.bo.begin_draft(&fork, json!({"headline": "Monday"})).await;
            }
            "abandon" => {
                t.bo.act(&format!("/v1/forks/{fork}/abandon")).await.ok();
            }
            _ => {
                t.bo.act(&format!("/v1/runs/{started}/cancel")).await.ok();
            }
        }
        assert!(!has(&t.bo, "resolve").await, "{ends_by}");
    }
}

#[tokio::test]
async fn a_fork_of_a_run_waits_for_a_person_once_its_agent_has_answered() {
    let t = team().await;
    let vibe = id(&t.ada.agent("vibe").await);
    t.model().script("vibe", [Answer::text("Monday.")]);
    let steps =
        json!([{"id": "think", "kind": "fork", "goal": "Find a day.", "agent_ids": [vibe]}]);
    let flow = flow(&t.bo, "fair", steps).await;
    let started = start(&t.bo, &flow, json!({"channel_id": t.general})).await;
    reaches(&t.bo, &started, "waiting").await;
    t.bo.event_where("the item", |event| {
        event["data"]["task"]["status"] == "completed"
    })
    .await;
    t.settled().await;
    assert_eq!(reasons(&t.bo).await, ["resolve"]);
}

#[tokio::test]
async fn a_collaboration_without_a_draft_waits_for_the_person_who_started_it() {
    let t = team().await;
    t.model().script("coder", [Answer::status(400, "{}")]);
    let started = collaboration::pair(&t, json!({"turns_max": 4})).await;
    t.bo.failed(&started.task).await;
    let item = item_of(&t.bo, "resolve").await;
    assert_eq!(
        json!([item["subject_id"], item["text"]]),
        json!([started.fork, "Coder and reviewer ended without a result"])
    );
    t.bo.abandon(&started.fork).await;
    assert!(!has(&t.bo, "resolve").await);
}

/// Bo's task whose search needs these approvals, and the action that waits.
async fn asking(t: &Team, agent: Value, policy: Value) -> (String, Value) {
    reader(&t.ada, "sage", agent).await;
    let path = format!("/v1/workspaces/{}/policy", t.ada.workspace);
    t.ada.patch(&path, policy).await.is(200);
    t.model().script(
        "sage",
        [Answer::calls("", &[search()]), Answer::text("Searched.")],
    );
    let thread = t.bo.thread(&t.general, "Root").await;
    let task = t.bo.ask(&thread, "@sage find it").await;
    let action = waiting(&t.bo, &task).await;
    is_parked(&t.bo, &task).await;
    (task, action)
}

async fn decide(by: &Person, action: &Value, verb: &str) {
    let form = json!({"arguments_hash": action["arguments_hash"]});
    let path = format!("/v1/actions/{}/{verb}", id(action));
    by.post(&path, form).await.is(200);
}

#[tokio::test]
async fn an_approval_is_an_item_of_the_requester_until_it_is_decided() {
    for verb in ["approve", "deny"] {
        let t = team().await;
        let (task, action) = asking(&t, json!({"trust": {"approve": ["search"]}}), json!({})).await;
        let item = only_item(&t.bo).await;
        assert_eq!(
            json!([item["reason"], item["subject_id"], item["text"]]),
            json!(["approval", action["id"], action["title"]])
        );
        assert!(!has(&t.ada, "approval").await);
        let form = json!({"ids": [item["id"]], "state": "done"});
        let refused = t.bo.put("/v1/inbox/state", form).await;
        assert_eq!(refused.refused(422), "decide_first");
        decide(&t.bo, &action, verb).await;
        assert!(!has(&t.bo, "approval").await, "{verb}");
        t.bo.completed(&task).await;
    }
}

#[tokio::test]
async fn an_approval_closes_for_a_person_once_their_needs_are_filled() {
    let t = team().await;
    let (_, action) = asking(&t, json!({"trust": {"escalate": ["search"]}}), json!({})).await;
    assert!(has(&t.bo, "approval").await && has(&t.ada, "approval").await);
    decide(&t.bo, &action, "approve").await;
    assert!(!has(&t.bo, "approval").await);
    assert!(has(&t.ada, "approval").await);
    decide(&t.ada, &action, "approve").await;
    assert!(!has(&t.ada, "approval").await);
}

#[tokio::test]
async fn an_approval_is_no_item_of_someone_who_is_no_longer_an_admin() {
    let t = team().await;
    let cat = t.app.join(&t.ada, "Cat", "admin").await;
    asking(&t, json!({"trust": {"escalate": ["search"]}}), json!({})).await;
    assert!(has(&t.ada, "approval").await && has(&cat, "approval").await);
    for (role, is_decider) in [("member", false), ("admin", true)] {
        let path = format!("/v1/members/{}", cat.id);
        t.ada.patch(&path, json!({"role": role})).await.is(200);
        assert_eq!(has(&cat, "approval").await, is_decider, "{role}");
        let page = cat.get("/v1/inbox").await.ok();
        assert_eq!(number(&page, "/open"), i64::from(is_decider), "{role}");
        assert!(has(&t.bo, "approval").await && has(&t.ada, "approval").await);
    }
}

#[tokio::test]
async fn canceling_a_task_closes_its_approval() {
    let t = team().await;
    let (task, _) = asking(&t, json!({"trust": {"approve": ["search"]}}), json!({})).await;
    assert!(has(&t.bo, "approval").await);
    t.bo.act(&format!("/v1/tasks/{task}/cancel")).await.ok();
    assert!(open_items(&t.bo).await.is_empty());
}

#[tokio::test]
async fn losing_the_channel_deletes_items_of_every_reason() {
    let t = team().await;
    let channel = t.ada.private_channel("board", &[&t.bo]).await;
    t.model().script("vibe", [Answer::text("At two.")]);
    let thread = t.bo.thread(&channel, "Root").await;
    let task = t.bo.ask(&thread, "@vibe when is high tide?").await;
    t.bo.completed(&task).await;
    let started = t.ada.start(&channel, "Friday or Monday?").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let fork = t
        .ada
        .start_fork(&thread, &root, json!({"agent_id": null}))
        .await;
    let fork = id(&fork);
    t.bo.say_in(&fork, "Monday suits everybody.").await;
    let form =
        json!({"headline": "Monday", "action_items": [{"text": "Book", "owner_id": t.bo.id}]});
    t.ada.publish_as(&fork, form).await;
    let mut found = reasons(&t.bo).await;
    found.sort();
    assert_eq!(found, ["answer", "assigned"]);
    t.bo.act(&format!("/v1/channels/{channel}/leave"))
        .await
        .ok();
    assert!(open_items(&t.bo).await.is_empty());
    assert_eq!(t.app.place.count("inbox_items").await, 0);
}

/// The process dies around the transaction that publishes a result: the result and its item exist together or not at all.
async fn result_and_item(failpoint: &str) {
    let p = prepared().await;
    let (server, ada) = p.start(&[]).await;
    let invite = ada.post("/v1/invites", json!({"role": "member"})).await;
    let token = text(&invite.is(201), "/token");
    let bo = sign_up(&server.base, "Bo", Some(&token)).await;
    let root = ada.tell(&p.thread, "Friday or Monday?").await;
    let fork = ada
        .start_fork(&p.thread, &root, json!({"agent_id": null}))
        .await;
    let fork = id(&fork);
    bo.say_in(&fork, "Monday suits everybody.").await;
    let before = open_items(&bo).await.len();
    server.kill().await;
    let (server, ada) = p.start(&[("FAILPOINT", failpoint)]).await;
    let publish = json!({"resolution": {"headline": "Monday"}});
    drop(
        ada.try_post(&format!("/v1/forks/{fork}/publish"), publish)
            .await,
    );
    server.exited().await;
    let (server, ada) = p.start(&[]).await;
    let bo = bo.at(&server.base);
    let is_published = ada.fork(&fork).await["status"] == "resolved";
    assert_eq!(has(&bo, "result").await, is_published, "{failpoint}");
    assert_eq!(
        open_items(&bo).await.len(),
        before + usize::from(is_published)
    );
    server.kill().await;
}

at_points! {
    a_result_and_its_item_are_stored_together, result_and_item:
    inbox_open_1,
    publish_1,
}

/// The process dies around a commit of messages that mention Bo: each message has its item, and each item its message.
async fn mention_and_item(failpoint: &str) {
    let p = prepared().await;
    let (server, ada) = p.start(&[]).await;
    let invite = ada.post("/v1/invites", json!({"role": "member"})).await;
    let token = text(&invite.is(201), "/token");
    let bo = sign_up(&server.base, "Bo", Some(&token)).await;
    server.kill().await;
    let settings = [("FAILPOINT", failpoint)];
    // Some of the first commits are made while the server starts.
    if let Ok(server) = TestProcess::try_start(&p.place, &p.model, &settings).await {
        let ada = ada.at(&server.base);
        let path = format!("/v1/threads/{}/messages", p.thread);
        for n in 0..60 {
            let form = json!({"content": format!("@bo can you? {n}")});
            if ada
                .try_post(&path, form)
                .await
                .is_none_or(|r| r.status != 201)
            {
                break;
            }
        }
        server.exited().await;
    }
    let (server, ada) = p.start(&[]).await;
    let bo = bo.at(&server.base);
    let mut said: Vec<String> = ada.messages(&p.thread).await.iter().map(id).collect();
    // The first message of the thread mentions nobody.
    said.remove(0);
    said.sort();
    let items = bo.every("/v1/inbox?reason=mention").await;
    let mut found: Vec<String> = items.iter().map(|item| text(item, "/message_id")).collect();
    found.sort();
    assert_eq!(found, said, "{failpoint}");
    server.kill().await;
}

at_points! {
    a_mention_and_its_item_are_stored_together, mention_and_item:
    inbox_open_1,
    inbox_open_4,
    before_commit_12,
    before_commit_15,
    after_commit_12,
    after_commit_15,
}

/// The process dies around the end of a reply: the requester gets one answer, which exists together with the reply.
async fn reply_and_answer(failpoint: &str) {
    let p = prepared().await;
    let (server, ada) = p.start(&[("FAILPOINT", failpoint)]).await;
    let path = format!("/v1/threads/{}/messages", p.thread);
    drop(ada.try_post(&path, json!({"content": "@vibe now?"})).await);
    server.exited().await;
    let (server, ada) = p.start(&[]).await;
    for task in ada.every("/v1/tasks").await {
        ada.ended(&id(&task)).await;
    }
    let messages = ada.messages(&p.thread).await;
    let replies = messages
        .iter()
        .filter(|message| message["author"]["type"] == "agent" && message["state"] == "complete");
    let replies: Vec<String> = replies.map(id).collect();
    let items = open_items(&ada).await;
    let answers: Vec<String> = items
        .iter()
        .filter(|item| item["reason"] == "answer")
        .map(|item| text(item, "/message_id"))
        .collect();
    assert_eq!(replies.len(), 1, "{failpoint}: {messages:?}");
    assert_eq!(answers, replies, "{failpoint}");
    server.kill().await;
}

at_points! {
    a_reply_and_its_answer_are_stored_together, reply_and_answer:
    turn_complete_1,
    inbox_open_1,
    turn_completed_1,
}
