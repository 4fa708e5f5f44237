//! The server is killed between a cause and its item: both exist, or neither does. Mentions, results, and answers are in `work.rs`.

use serde_json::{Value, json};

use crate::{
    approvals::waiting,
    faults::{Prepared, prepared},
    runs::{flow, reaches, start as begin},
    support::{Answer, Person, TestProcess, at_points, drafting, id, sign_up, text},
    tools_loop::reader,
};

/// Data of a stopped server whose workspace has two people.
struct TwoPeople {
    p: Prepared,
    bo: Person,
    general: String,
}

impl TwoPeople {
    async fn new() -> Self {
        let p = prepared().await;
        let (server, ada) = p.start(&[]).await;
        let invite = ada.post("/v1/invites", json!({"role": "member"})).await;
        let token = text(&invite.is(201), "/token");
        let bo = sign_up(&server.base, "Bo", Some(&token)).await;
        let general = id(&ada.channel("general").await);
        server.kill().await;
        Self { p, bo, general }
    }

    async fn start(&self, settings: &[(&str, &str)]) -> (TestProcess, Person, Person) {
        let (server, ada) = self.p.start(settings).await;
        let bo = self.bo.at(&server.base);
        (server, ada, bo)
    }

    /// Sends a request to a server that dies at a failpoint.
    async fn dies(&self, by: &Person, failpoint: &str, path: &str, form: Value) {
        let (server, _, _) = self.start(&[("FAILPOINT", failpoint)]).await;
        // The server may die after its response.
        drop(by.at(&server.base).try_post(path, form).await);
        server.exited().await;
    }

    /// Ada posts a text that opens an item for Bo: the server dies, and she posts it again. Bo has an item for each of her messages.
    async fn post_again(&self, failpoint: &str, reason: &str, channel: &str, content: &str) {
        let path = format!("/v1/channels/{channel}/threads");
        let form = json!({"content": content});
        self.dies(&self.p.ada, failpoint, &path, form.clone()).await;
        let (server, ada, bo) = self.start(&[]).await;
        let stored = posted(&ada, content).await;
        assert_eq!(items(&bo, reason).await, stored, "{failpoint}");
        ada.post(&path, form).await.is(201);
        assert_eq!(posted(&ada, content).await, stored + 1);
        assert_eq!(items(&bo, reason).await, stored + 1, "{failpoint}");
        server.kill().await;
    }
}

/// Number of open items with a reason.
async fn items(person: &Person, reason: &str) -> usize {
    let path = format!("/v1/inbox?reason={reason}");
    person.every(&path).await.len()
}

/// Number of messages with this text.
async fn posted(person: &Person, content: &str) -> usize {
    let events = person.events().await;
    let posted = events.iter().filter(|event| {
        event["type"] == "message.created" && event["data"]["message"]["content"] == content
    });
    posted.count()
}

/// Waits until all tasks have ended, and returns them.
async fn all_ended(person: &Person) -> Vec<Value> {
    let mut tasks = Vec::new();
    for task in person.every("/v1/tasks").await {
        tasks.push(person.ended(&id(&task)).await);
    }
    tasks
}

async fn direct(failpoint: &str) {
    let two = TwoPeople::new().await;
    let (server, ada, bo) = two.start(&[]).await;
    let form = json!({"member_ids": [bo.id]});
    let channel = id(&ada.post("/v1/direct", form).await.ok());
    server.kill().await;
    two.post_again(failpoint, "direct", &channel, "Lunch?")
        .await;
}

async fn group(failpoint: &str) {
    let two = TwoPeople::new().await;
    let text = "@channel the fair is on Friday";
    two.post_again(failpoint, "group", &two.general, text).await;
}

async fn new_thread(failpoint: &str) {
    let two = TwoPeople::new().await;
    let (server, _, bo) = two.start(&[]).await;
    let path = format!("/v1/channels/{}/level", two.general);
    bo.put(&path, json!({"level": "all"})).await.ok();
    server.kill().await;
    two.post_again(failpoint, "thread", &two.general, "Loud news")
        .await;
}

/// Both post in a fork. Returns it.
async fn fork(two: &TwoPeople) -> String {
    let (server, ada, bo) = two.start(&[]).await;
    let root = ada.tell(&two.p.thread, "Friday or Monday?").await;
    let form = json!({"agent_id": null});
    let fork = id(&ada.start_fork(&two.p.thread, &root, form).await);
    bo.say_in(&fork, "Monday suits everybody.").await;
    server.kill().await;
    fork
}

async fn assigned(failpoint: &str) {
    let two = TwoPeople::new().await;
    let fork = fork(&two).await;
    let items_of = json!([{"text": "Book the room", "owner_id": two.bo.id}]);
    let form = json!({"resolution": {"headline": "Monday", "action_items": items_of}});
    let path = format!("/v1/forks/{fork}/publish");
    two.dies(&two.p.ada, failpoint, &path, form.clone()).await;
    let (server, ada, bo) = two.start(&[]).await;
    let is_published = ada.fork(&fork).await["status"] == "resolved";
    assert_eq!(items(&bo, "assigned").await, usize::from(is_published));
    if !is_published {
        assert_eq!(ada.post(&path, form).await.status / 100, 2);
    }
    assert_eq!(items(&bo, "assigned").await, 1, "{failpoint}");
    server.kill().await;
}

async fn draft(failpoint: &str) {
    let two = TwoPeople::new().await;
    let fork = fork(&two).await;
    let draft = json!({"headline": "Monday it is", "conclusion": "Both agreed.", "key_points": [],
        "action_items": [], "open_questions": [], "deferred_items": []});
    two.p
        .model
        .script("resolver", [drafting(&draft), drafting(&draft)]);
    let path = format!("/v1/forks/{fork}/resolve");
    two.dies(&two.bo, failpoint, &path, json!({})).await;
    let (server, _, bo) = two.start(&[]).await;
    all_ended(&bo).await;
    assert_eq!(bo.resolution(&fork).await["headline"], "Monday it is");
    assert_eq!(items(&bo, "draft").await, 1, "{failpoint}");
    server.kill().await;
}

async fn failed(failpoint: &str) {
    let two = TwoPeople::new().await;
    two.p
        .model
        .script("vibe", vec![Answer::status(400, "{}"); 2]);
    let path = format!("/v1/threads/{}/messages", two.p.thread);
    let form = json!({"content": "@vibe help"});
    two.dies(&two.bo, failpoint, &path, form).await;
    let (server, _, bo) = two.start(&[]).await;
    let tasks = all_ended(&bo).await;
    let failed = tasks.iter().filter(|task| task["status"] == "failed");
    assert_eq!(failed.count(), 1, "{tasks:?}");
    assert_eq!(items(&bo, "failed").await, 1, "{failpoint}");
    server.kill().await;
}

async fn resolve(failpoint: &str) {
    let two = TwoPeople::new().await;
    let (server, _, bo) = two.start(&[]).await;
    let steps = json!([{"id": "think", "kind": "fork", "goal": "Find a day."}]);
    let flow = flow(&bo, "fair", steps).await;
    server.kill().await;
    let form = json!({"thread_id": two.p.thread});
    let path = format!("{flow}/runs");
    two.dies(&two.bo, failpoint, &path, form.clone()).await;
    let (server, _, bo) = two.start(&[]).await;
    // The run does not exist if the server died while it began.
    let run = match bo.every("/v1/runs").await.as_slice() {
        [] => begin(&bo, &flow, form).await,
        [run] => id(run),
        runs => panic!("{runs:?}"),
    };
    reaches(&bo, &run, "waiting").await;
    assert_eq!(items(&bo, "resolve").await, 1, "{failpoint}");
    server.kill().await;
}

async fn approval(failpoint: &str) {
    let two = TwoPeople::new().await;
    let (server, ada, _) = two.start(&[]).await;
    let trust = json!({"trust": {"approve": ["search"]}});
    reader(&ada, "sage", trust).await;
    server.kill().await;
    let search = ("search_messages", json!({"query": "zebra"}));
    two.p
        .model
        .script("sage", vec![Answer::calls("", &[search]); 2]);
    let path = format!("/v1/threads/{}/messages", two.p.thread);
    let form = json!({"content": "@sage find it"});
    two.dies(&two.bo, failpoint, &path, form).await;
    let (server, _, bo) = two.start(&[]).await;
    let tasks = bo.every("/v1/tasks").await;
    let replies: Vec<&Value> = tasks
        .iter()
        .filter(|task| task["kind"] == "reply")
        .collect();
    assert_eq!(replies.len(), 1, "{tasks:?}");
    let action = waiting(&bo, &id(replies[0])).await;
    let asked = bo.every("/v1/inbox?reason=approval").await;
    let subjects: Vec<&Value> = asked.iter().map(|item| &item["subject_id"]).collect();
    assert_eq!(subjects, [&action["id"]], "{failpoint}");
    server.kill().await;
}

at_points! {
    a_direct_message_and_its_item_are_stored_together, direct:
    inbox_open_1,
}

at_points! {
    a_mention_of_the_channel_and_its_item_are_stored_together, group:
    inbox_open_1,
}

at_points! {
    a_new_thread_and_its_item_are_stored_together, new_thread:
    inbox_open_1,
}

at_points! {
    an_action_item_and_its_item_are_stored_together, assigned:
    inbox_open_1,
    publish_1,
}

at_points! {
    a_draft_and_its_item_are_stored_together, draft:
    resolve_drafted_1,
    inbox_open_1,
    resolve_stored_1,
}

at_points! {
    a_failure_and_its_item_are_stored_together, failed:
    turn_fail_1,
    inbox_open_1,
    turn_failed_1,
}

at_points! {
    a_fork_that_waits_and_its_item_are_stored_together, resolve:
    inbox_open_1,
}

at_points! {
    an_approval_and_its_item_are_stored_together, approval:
    round_park_1,
    inbox_open_1,
    round_parked_1,
}
