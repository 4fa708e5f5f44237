//! Chains: agents joined by arrows reply one after the other.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    faults::{Prepared, prepared},
    support::{
        Answer, Gate, Person, Team, TestProcess, id, list, number, team, team_with, text, within,
    },
};

/// A team with the agents `coder`, `reviewer`, and `tester`.
async fn chain_team() -> Team {
    with_agents(team().await).await
}

async fn with_agents(t: Team) -> Team {
    for name in ["reviewer", "tester"] {
        t.ada.make_agent(name).await;
    }
    t
}

fn ids(tasks: &[Value]) -> Vec<String> {
    tasks.iter().map(id).collect()
}

/// Posts a chain. Returns the message and the IDs of its links.
async fn post(by: &Person, thread: &str, content: &str) -> (Value, Vec<String>) {
    let posted = by.say(thread, content).await;
    let links = ids(&list(&posted, "/tasks"));
    assert_eq!(
        posted["message"]["metadata"]["chain"],
        json!(links),
        "{posted}"
    );
    (posted["message"].clone(), links)
}

async fn cancel(by: &Person, task: &str, scope: &str) -> Value {
    let path = format!("/v1/tasks/{task}/cancel");
    by.post(&path, json!({"scope": scope})).await.is(200)
}

async fn statuses(by: &Person, links: &[String]) -> Vec<String> {
    let mut statuses = Vec::new();
    for link in links {
        statuses.push(text(&by.task(link).await, "/status"));
    }
    statuses
}

#[derive(Deserialize)]
struct Case {
    text: String,
    links: Vec<(String, String)>,
}

#[tokio::test]
async fn every_text_of_the_corpus_starts_the_expected_links() {
    let t = chain_team().await;
    let corpus = include_str!("../corpus/arrows.json");
    let cases: Vec<Case> = serde_json::from_str(corpus).unwrap();
    let mut agents = std::collections::HashMap::new();
    for name in ["coder", "reviewer", "tester"] {
        agents.insert(id(&t.ada.agent(name).await), name);
    }
    for case in cases {
        let started = t.bo.start(&t.general, &case.text).await;
        let tasks = list(&started, "/tasks");
        let chained = tasks
            .iter()
            .filter(|task| task["input"]["chain"].is_object());
        let found: Vec<(String, String)> = chained
            .map(|task| {
                let agent = agents[&text(task, "/agent_id")].to_owned();
                (agent, text(task, "/input/prompt"))
            })
            .collect();
        assert_eq!(found, case.links, "{:?}", case.text);
        for task in tasks {
            t.bo.completed(&id(&task)).await;
        }
    }
}

#[tokio::test]
async fn two_agents_reply_one_after_the_other_and_the_second_reads_the_first() {
    let t = chain_team().await;
    let gate = Gate::new();
    t.model()
        .script("coder", [Answer::text("The draft.").held(&gate)]);
    t.model().script("reviewer", [Answer::text("Looks right.")]);
    let thread = t.bo.thread(&t.general, "Root").await;
    let content = "@coder write it → @reviewer check it";
    let (message, links) = post(&t.bo, &thread, content).await;
    gate.reached().await;
    let [first, second] = &links[..] else {
        panic!("{links:?}")
    };
    let parked = t.bo.task(second).await;
    assert_eq!(
        (&parked["status"], &parked["wait_reason"]),
        (&json!("queued"), &json!("chain"))
    );
    for (field, wanted) in [
        ("after_task_id", json!(first)),
        ("parent_task_id", json!(first)),
        ("root_task_id", json!(first)),
        ("retry_at", Value::Null),
    ] {
        assert_eq!(parked[field], wanted, "{field}");
    }
    assert_eq!(parked["input"]["chain"], json!({"step": 2, "steps": 2}));
    t.bo.tell(&thread, "One more thing: keep it short.").await;
    gate.open();
    t.bo.completed(second).await;
    let replies = t.bo.contents(&thread).await.split_off(2);
    assert!(
        replies.contains(&"The draft.".to_owned()) && replies.last().unwrap() == "Looks right."
    );
    let asked = t.model().asked_once("coder").await;
    let last = asked.turns().pop().unwrap();
    assert!(
        last.contains("This is step 1 of 2.") && last.ends_with("write it"),
        "{last}"
    );
    assert!(
        last.contains("→ @reviewer check it"),
        "the whole message: {last}"
    );
    assert!(!asked.all().contains("keep it short"));
    let asked = t.model().asked_once("reviewer").await;
    let last = asked.turns().pop().unwrap();
    assert!(
        last.contains("This is step 2 of 2.") && last.ends_with("check it"),
        "{last}"
    );
    for read in [content, "The draft.", "keep it short"] {
        assert!(asked.all().contains(read), "{read}: {}", asked.all());
    }
    let reply = text(&t.bo.task(second).await, "/reply_message_id");
    assert_eq!(t.bo.message(&reply).await["parent_id"], message["id"]);
}

#[tokio::test]
async fn five_links_run_in_order_and_an_agent_can_occur_twice() {
    let t = chain_team().await;
    t.model()
        .script("coder", [Answer::text("One."), Answer::text("Three.")]);
    t.model()
        .script("reviewer", [Answer::text("Two."), Answer::text("Five.")]);
    t.model().script("tester", [Answer::text("Four.")]);
    let thread = t.bo.thread(&t.general, "Root").await;
    let content = "@coder a → @reviewer b → @coder c → @tester d → @reviewer e";
    let (_, links) = post(&t.bo, &thread, content).await;
    t.bo.completed(&links[4]).await;
    assert_eq!(
        t.bo.contents(&thread).await[2..],
        ["One.", "Two.", "Three.", "Four.", "Five."]
    );
    let asked = t.model().asked("coder", 2).await;
    assert!(asked[1].all().contains("Two.") && asked[1].all().contains("One."));
    assert!(asked[1].all().contains("This is step 3 of 5."));
}

#[tokio::test]
async fn a_chain_of_six_is_rejected_and_stores_nothing() {
    let t = chain_team().await;
    let thread = t.bo.thread(&t.general, "Root").await;
    let content = "@coder a → @reviewer b → @coder c → @tester d → @coder e → @tester f";
    let path = format!("/v1/threads/{thread}/messages");
    let reply = t.bo.post(&path, json!({"content": content})).await;
    assert_eq!(reply.refused(422), "chain_too_long");
    assert_eq!(t.bo.contents(&thread).await, ["Root"]);
    assert!(t.bo.every("/v1/tasks").await.is_empty());
}

#[tokio::test]
async fn a_resent_chain_is_stored_once() {
    let t = chain_team().await;
    let thread = t.bo.thread(&t.general, "Root").await;
    let path = format!("/v1/threads/{thread}/messages");
    let form = json!({"content": "@coder a → @reviewer b", "client_id": "once"});
    let first = t.bo.post(&path, form.clone()).await.is(201);
    let again = t.bo.post(&path, form).await.is(200);
    assert_eq!(ids(&list(&first, "/tasks")), ids(&list(&again, "/tasks")));
    assert_eq!(first["message"]["metadata"], again["message"]["metadata"]);
    let links = ids(&list(&first, "/tasks"));
    t.bo.completed(&links[1]).await;
    assert_eq!(t.bo.contents(&thread).await.len(), 4);
}

#[tokio::test]
async fn a_failed_link_cancels_the_later_ones_with_one_notice() {
    let t = chain_team().await;
    t.model().script("coder", [Answer::status(400, "{}")]);
    let thread = t.bo.thread(&t.general, "Root").await;
    let (_, links) = post(&t.bo, &thread, "@coder a → @reviewer b → @tester c").await;
    t.bo.failed(&links[0]).await;
    assert_eq!(
        statuses(&t.bo, &links).await,
        ["failed", "cancelled", "cancelled"]
    );
    let notices = t.bo.messages(&thread).await.split_off(2);
    assert_eq!(notices.len(), 1, "{notices:?}");
    let notice = text(&notices[0], "/content");
    assert!(notice.starts_with("Coder could not answer: "), "{notice}");
    assert!(
        notice.ends_with(
            "Coder could not answer, so reviewer, tester were not asked. Retry continues with Coder."
        ),
        "{notice}"
    );
}

#[tokio::test]
async fn a_retry_continues_with_the_failed_link_in_a_new_tree() {
    let t = chain_team().await;
    t.model().script("coder", [Answer::text("The draft.")]);
    t.model().script(
        "reviewer",
        [Answer::status(400, "{}"), Answer::text("Right.")],
    );
    t.model().script("tester", [Answer::text("It passes.")]);
    let thread = t.bo.thread(&t.general, "Root").await;
    let (_, links) = post(&t.bo, &thread, "@coder a → @reviewer b → @tester c").await;
    t.bo.failed(&links[1]).await;
    let retry = |task: &str| format!("/v1/tasks/{task}/retry");
    assert_eq!(t.bo.act(&retry(&links[2])).await.refused(409), "not_root");
    assert_eq!(
        t.bo.act(&retry(&links[0])).await.refused(409),
        "not_retryable"
    );
    let again = t.bo.act(&retry(&links[1])).await.is(201);
    assert_eq!(again["retry_of"], json!(links[1]));
    assert_eq!(again["root_task_id"], again["id"]);
    let tree =
        t.bo.get(&format!("/v1/tasks/{}/tree", id(&again)))
            .await
            .ok();
    let copies = list(&tree, "/tasks");
    let last = copies
        .iter()
        .find(|task| task["retry_of"] == json!(links[2]))
        .unwrap();
    assert_eq!(last["input"]["chain"], json!({"step": 3, "steps": 3}));
    t.bo.completed(&id(last)).await;
    assert_eq!(
        t.bo.contents(&thread).await,
        [
            "Root",
            "@coder a → @reviewer b → @tester c",
            "The draft.",
            "",
            "Right.",
            "It passes."
        ],
        "the notice is a tombstone"
    );
    assert_eq!(t.model().asked("coder", 1).await.len(), 1);
    let asked = t.model().asked("reviewer", 2).await;
    assert_eq!(
        asked[0].turns(),
        asked[1].turns(),
        "it reads the same messages"
    );
    assert_eq!(
        t.bo.act(&retry(&links[1])).await.refused(409),
        "already_retried"
    );
}

#[tokio::test]
async fn stopping_a_link_cancels_the_later_ones_without_a_notice() {
    let t = chain_team().await;
    let gate = Gate::new();
    t.model()
        .script("reviewer", [Answer::text("Never.").held(&gate)]);
    let thread = t.bo.thread(&t.general, "Root").await;
    let (_, links) = post(&t.bo, &thread, "@coder a → @reviewer b → @tester c").await;
    gate.reached().await;
    assert_eq!(
        cancel(&t.ada, &links[1], "task").await["status"],
        "cancelled"
    );
    assert_eq!(
        statuses(&t.bo, &links).await,
        ["completed", "cancelled", "cancelled"]
    );
    assert_eq!(t.bo.contents(&thread).await.len(), 3, "no notice");
    let path = format!("/v1/tasks/{}/retry", links[1]);
    assert_eq!(t.bo.act(&path).await.refused(409), "not_root");
}

#[tokio::test]
async fn stopping_the_tree_ends_it_although_the_root_has_completed() {
    let t = chain_team().await;
    let gate = Gate::new();
    t.model()
        .script("reviewer", [Answer::text("Never.").held(&gate)]);
    let thread = t.bo.thread(&t.general, "Root").await;
    let (_, links) = post(&t.bo, &thread, "@coder a → @reviewer b → @tester c").await;
    gate.reached().await;
    assert_eq!(
        cancel(&t.bo, &links[0], "task").await["status"],
        "completed"
    );
    assert_eq!(
        statuses(&t.bo, &links).await[1],
        "running",
        "the root has ended"
    );
    assert_eq!(
        cancel(&t.bo, &links[0], "tree").await["status"],
        "completed"
    );
    assert_eq!(
        statuses(&t.bo, &links).await,
        ["completed", "cancelled", "cancelled"]
    );
    cancel(&t.bo, &links[2], "tree").await;
    let path = format!("/v1/tasks/{}/cancel", links[0]);
    let wrong = t.bo.post(&path, json!({"scope": "all"})).await;
    assert_eq!(wrong.refused(400), "invalid_field");
}

#[tokio::test]
async fn a_stopped_first_link_can_be_retried_with_all_links() {
    let t = chain_team().await;
    let gate = Gate::new();
    t.model()
        .script("coder", [Answer::text("Never.").held(&gate)]);
    let thread = t.bo.thread(&t.general, "Root").await;
    let (_, links) = post(&t.bo, &thread, "@coder a → @reviewer b").await;
    gate.reached().await;
    cancel(&t.bo, &links[0], "tree").await;
    let again =
        t.bo.act(&format!("/v1/tasks/{}/retry", links[0]))
            .await
            .is(201);
    let tree =
        t.bo.get(&format!("/v1/tasks/{}/tree", id(&again)))
            .await
            .ok();
    let second = &list(&tree, "/tasks")[1];
    t.bo.completed(&id(second)).await;
    assert_eq!(second["retry_of"], json!(links[1]));
}

#[tokio::test]
async fn a_text_that_was_edited_away_is_sent_to_no_later_link() {
    let t = chain_team().await;
    for (edited, wanted) in [
        ("@coder a → @reviewer check it → @tester c", "check it"),
        ("@coder a, ask somebody else", "@coder a, ask somebody else"),
    ] {
        let gate = Gate::new();
        t.model()
            .script("coder", [Answer::text("The draft.").held(&gate)]);
        let thread = t.bo.thread(&t.general, "Root").await;
        let content = "@coder a → @reviewer SECRET-1 → @tester c";
        let (message, links) = post(&t.bo, &thread, content).await;
        gate.reached().await;
        let path = format!("/v1/messages/{}", id(&message));
        t.bo.patch(&path, json!({"content": edited})).await.ok();
        gate.open();
        t.bo.completed(&links[2]).await;
        let asked = t.model().asked("reviewer", 1).await.pop().unwrap();
        assert!(!asked.all().contains("SECRET-1"), "{}", asked.all());
        let last = asked.turns().pop().unwrap();
        assert!(last.contains("This is step 2 of 3."), "{last}");
        assert!(last.ends_with(wanted), "{last}");
        let prompt = t.bo.task(&links[1]).await["input"]["prompt"].clone();
        assert_eq!(prompt, wanted);
    }
}

#[tokio::test]
async fn a_link_that_was_stopped_before_its_turn_has_no_notice() {
    let t = chain_team().await;
    let gate = Gate::new();
    let (_, thread, links) = held_in_private(&t, &gate).await;
    cancel(&t.bo, &links[1], "task").await;
    let member = format!("/v1/members/{}", t.bo.id);
    t.ada.patch(&member, json!({"role": "viewer"})).await.ok();
    gate.open();
    t.ada.completed(&links[0]).await;
    assert_eq!(
        statuses(&t.ada, &links).await,
        ["completed", "cancelled", "cancelled"]
    );
    assert_eq!(t.ada.contents(&thread).await.len(), 3, "no notice");
}

#[tokio::test]
async fn a_person_can_retry_a_chain_whose_key_was_revoked_but_a_revoked_key_continues_none() {
    let t = chain_team().await;
    let scopes = ["chat:read", "chat:write", "agents:use"];
    for is_by_key in [false, true] {
        let gate = Gate::new();
        let again = Answer::text("The draft.").held(&gate);
        t.model()
            .script("coder", [Answer::status(400, "{}"), again]);
        let thread = t.bo.thread(&t.general, "Root").await;
        let (by_key, key) = t.bo.make_key(&scopes).await;
        let (_, links) = post(&by_key, &thread, "@coder a → @reviewer b").await;
        t.bo.failed(&links[0]).await;
        let retry = format!("/v1/tasks/{}/retry", links[0]);
        let by = if is_by_key { &by_key } else { &t.bo };
        let first = id(&by.act(&retry).await.is(201));
        gate.reached().await;
        t.bo.delete(&format!("/v1/api-keys/{key}")).await.ok();
        gate.open();
        let tree = t.bo.get(&format!("/v1/tasks/{first}/tree")).await.ok();
        let second = id(&list(&tree, "/tasks")[1]);
        if is_by_key {
            assert_eq!(t.bo.failed(&second).await.1, "not_allowed");
        } else {
            t.bo.completed(&second).await;
        }
    }
}

#[tokio::test]
async fn a_later_agent_that_the_requester_cannot_invoke_does_not_block_a_retry() {
    let t = chain_team().await;
    t.model().script("coder", [Answer::status(400, "{}")]);
    let thread = t.bo.thread(&t.general, "Root").await;
    let (_, links) = post(&t.bo, &thread, "@coder a → @reviewer b").await;
    t.bo.failed(&links[0]).await;
    let reviewer = id(&t.ada.agent("reviewer").await);
    let closed = json!({"access_control": {"allowed_subjects": [], "denied_subjects": [t.bo.id]}});
    t.ada
        .patch(&format!("/v1/agents/{reviewer}"), closed)
        .await
        .is(200);
    let retry = format!("/v1/tasks/{}/retry", links[0]);
    let first = id(&t.bo.act(&retry).await.is(201));
    t.bo.completed(&first).await;
    let tree = t.bo.get(&format!("/v1/tasks/{first}/tree")).await.ok();
    let second = id(&list(&tree, "/tasks")[1]);
    assert_eq!(t.bo.failed(&second).await.1, "not_allowed");
}

#[tokio::test]
async fn deleting_the_message_cancels_all_links() {
    let t = chain_team().await;
    let gate = Gate::new();
    t.model()
        .script("coder", [Answer::text("Never.").held(&gate)]);
    let thread = t.bo.thread(&t.general, "Root").await;
    let content = "@coder SECRET-1 → @reviewer SECRET-2";
    let (message, links) = post(&t.bo, &thread, content).await;
    gate.reached().await;
    t.bo.delete(&format!("/v1/messages/{}", id(&message)))
        .await
        .ok();
    assert_eq!(statuses(&t.bo, &links).await, ["cancelled", "cancelled"]);
    for secret in ["SECRET-1", "SECRET-2"] {
        let gone = async {
            while !t.app.place.places_of(secret).await.is_empty() {
                crate::support::pause().await;
            }
        };
        within("the text to be gone", gone).await;
    }
}

/// Posts a chain in a private channel of Ada and Bo; its first link does not finish until the gate opens.
async fn held_in_private(t: &Team, gate: &Gate) -> (String, String, Vec<String>) {
    t.model()
        .script("coder", [Answer::text("The draft.").held(gate)]);
    let channel = t.ada.private_channel("plans", &[&t.bo]).await;
    let thread = t.bo.thread(&channel, "Root").await;
    let (_, links) = post(&t.bo, &thread, "@coder a → @reviewer b → @tester c").await;
    gate.reached().await;
    (channel, thread, links)
}

async fn expect_not_asked(t: &Team, thread: &str, links: &[String]) {
    let (failed, code) = t.ada.failed(&links[1]).await;
    assert_eq!(code, "not_allowed", "{failed}");
    assert_eq!(
        statuses(&t.ada, links).await,
        ["completed", "failed", "cancelled"]
    );
    let notice = t.ada.contents(thread).await.pop().unwrap();
    assert!(notice.starts_with("reviewer was not asked: "), "{notice}");
    assert!(notice.contains("so tester was not asked."), "{notice}");
}

#[tokio::test]
async fn no_link_starts_for_a_requester_who_has_left_the_channel() {
    let t = chain_team().await;
    let gate = Gate::new();
    let (channel, thread, links) = held_in_private(&t, &gate).await;
    let member = format!("/v1/channels/{channel}/members/{}", t.bo.id);
    t.ada.delete(&member).await.ok();
    gate.open();
    expect_not_asked(&t, &thread, &links).await;
}

#[tokio::test]
async fn no_link_starts_for_a_requester_who_became_a_viewer() {
    let t = chain_team().await;
    let gate = Gate::new();
    let (_, thread, links) = held_in_private(&t, &gate).await;
    let member = format!("/v1/members/{}", t.bo.id);
    t.ada.patch(&member, json!({"role": "viewer"})).await.ok();
    gate.open();
    expect_not_asked(&t, &thread, &links).await;
}

#[tokio::test]
async fn no_link_starts_for_an_agent_that_was_turned_off() {
    let t = chain_team().await;
    let gate = Gate::new();
    let (_, thread, links) = held_in_private(&t, &gate).await;
    let reviewer = id(&t.ada.agent("reviewer").await);
    let off = json!({"status": "inactive"});
    t.ada
        .patch(&format!("/v1/agents/{reviewer}"), off)
        .await
        .ok();
    gate.open();
    expect_not_asked(&t, &thread, &links).await;
}

#[tokio::test]
async fn no_link_starts_for_a_key_that_was_revoked() {
    let t = chain_team().await;
    let gate = Gate::new();
    t.model()
        .script("coder", [Answer::text("The draft.").held(&gate)]);
    let thread = t.bo.thread(&t.general, "Root").await;
    let scopes = ["chat:read", "chat:write", "agents:use"];
    let (by_key, key) = t.bo.make_key(&scopes).await;
    let (_, links) = post(&by_key, &thread, "@coder a → @reviewer b → @tester c").await;
    gate.reached().await;
    t.bo.delete(&format!("/v1/api-keys/{key}")).await.ok();
    gate.open();
    expect_not_asked(&t, &thread, &links).await;
}

#[tokio::test]
async fn waiting_links_do_not_count_toward_the_limit_of_the_queue() {
    let t = with_agents(team_with(&[("TASKS_QUEUED_MAX", "2")]).await).await;
    let gate = Gate::new();
    t.model().script(
        "coder",
        [Answer::text("One.").held(&gate), Answer::text("Two.")],
    );
    let thread = t.bo.thread(&t.general, "Root").await;
    let (_, first) = post(&t.bo, &thread, "@coder a → @reviewer b → @tester c").await;
    gate.reached().await;
    // Its first link waits until Coder has replied to the previous message.
    let (_, second) = post(&t.bo, &thread, "@coder d → @reviewer e").await;
    let third = t.bo.ask(&thread, "@coder f").await;
    let full = post(&t.bo, &thread, "@coder g → @reviewer h").await.1;
    let (failed, code) = t.bo.failed(&full[0]).await;
    assert_eq!(code, "queue_full");
    let notice = text(&failed, "/error/message");
    assert!(notice.ends_with("Retry continues with Coder."), "{notice}");
    assert_eq!(statuses(&t.bo, &full).await, ["failed", "cancelled"]);
    gate.open();
    for task in [&first[2], &second[1], &third] {
        t.bo.completed(task).await;
    }
}

#[tokio::test]
async fn a_chain_works_without_a_model() {
    let t = with_agents(team_with(&[("MODEL_BASE_URL", ""), ("MODEL_API_KEY", "")]).await).await;
    let thread = t.bo.thread(&t.general, "The launch is on Friday.").await;
    let (_, links) = post(&t.bo, &thread, "@coder when is the launch? → @vibe thanks!").await;
    t.bo.completed(&links[1]).await;
    assert_eq!(statuses(&t.bo, &links).await, ["completed", "completed"]);
}

/// Posts chains until the server crashes at a failpoint, repeats the last post after a restart, and checks that each link exists and
/// has replied once. Returns `false` if the server crashed during startup, before it could receive a post.
async fn crash(p: &Prepared, failpoint: &str) -> bool {
    let server = TestProcess::try_start(&p.place, &p.model, &[("FAILPOINT", failpoint)]).await;
    let path = format!("/v1/threads/{}/messages", p.thread);
    let form = |n: usize| json!({"content": "@coder a → @vibe b → @coder c", "client_id": format!("{failpoint}-{n}")});
    let mut sent = 0;
    let has_started = server.is_ok();
    if let Ok(server) = server {
        let ada = p.ada.at(&server.base);
        while sent < 10 && ada.try_post(&path, form(sent)).await.is_some() {
            sent += 1;
        }
        server.exited().await;
    }
    let (server, ada) = p.start(&[]).await;
    let posted = ada.post(&path, form(sent)).await.ok();
    for task in ada.every("/v1/tasks").await {
        if task["completed_at"].is_null() {
            ada.ended(&id(&task)).await;
        }
    }
    let message = json!(id(&posted["message"]));
    let tasks = ada.every("/v1/tasks").await;
    let links = tasks
        .iter()
        .filter(|task| task["trigger_message_id"] == message);
    let ended: Vec<&str> = links.map(|task| task["status"].as_str().unwrap()).collect();
    assert_eq!(ended, ["completed"; 3], "{failpoint}");
    let messages = ada.messages(&p.thread).await;
    let count = |field: &str, wanted: &Value| {
        let fits = messages.iter().filter(|message| message[field] == *wanted);
        fits.count()
    };
    assert_eq!(count("parent_id", &message), 3, "{failpoint}");
    let client_id = json!(format!("{failpoint}-{sent}"));
    assert_eq!(count("client_id", &client_id), 1, "{failpoint}");
    server.kill().await;
    has_started
}

#[tokio::test]
async fn a_crash_around_the_post_of_a_chain_stores_all_links_once() {
    let p = prepared().await;
    // The first few commits happen during startup.
    let mut posted = 0;
    for n in 1..=14 {
        for moment in ["before_commit", "after_commit"] {
            posted += usize::from(crash(&p, &format!("{moment}:{n}")).await);
        }
        if posted >= 6 {
            return;
        }
    }
    panic!("only {posted} servers got a post");
}

#[tokio::test]
async fn a_crash_around_the_end_of_a_link_wakes_the_next_once() {
    let p = prepared().await;
    for failpoint in [
        "turn_complete:1",
        "turn_complete:2",
        "turn_completed:1",
        "turn_completed:2",
        "turn_completed:3",
    ] {
        assert!(crash(&p, failpoint).await, "{failpoint}");
    }
}

#[tokio::test]
async fn a_link_that_loses_its_worker_three_times_ends_the_chain() {
    let p = prepared().await;
    let gates: Vec<Gate> = (0..3).map(|_| Gate::new()).collect();
    p.model.script(
        "coder",
        gates
            .iter()
            .map(|gate| Answer::stream().piece("Half").wait(gate)),
    );
    let mut links = Vec::new();
    for (n, gate) in gates.iter().enumerate() {
        let (server, ada) = p.start(&[]).await;
        if n == 0 {
            links = post(&ada, &p.thread, "@coder a → @vibe b").await.1;
        }
        gate.reached().await;
        server.kill().await;
    }
    let (_server, ada) = p.start(&[]).await;
    assert_eq!(ada.failed(&links[0]).await.1, "worker_lost");
    assert_eq!(statuses(&ada, &links).await, ["failed", "cancelled"]);
    let notice = ada.contents(&p.thread).await.pop().unwrap();
    assert!(notice.contains("so Vibe was not asked."), "{notice}");
}

#[tokio::test]
async fn the_second_link_starts_after_the_first_has_completed() {
    let t = chain_team().await;
    let thread = t.bo.thread(&t.general, "Root").await;
    let (_, links) = post(&t.bo, &thread, "@coder a → @reviewer b").await;
    t.bo.completed(&links[1]).await;
    let events = t.bo.events().await;
    let seq = |link: &str, status: &str| {
        let is_it = |event: &&Value| {
            event["data"]["task"]["id"] == link && event["data"]["task"]["status"] == status
        };
        number(events.iter().rev().find(is_it).unwrap(), "/seq")
    };
    assert!(seq(&links[0], "completed") < seq(&links[1], "running"));
}
