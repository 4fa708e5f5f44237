//! Usage by user, agent, month, and model.

use serde_json::{Value, json};

use crate::support::{
    Answer, Gate, MULTIPART, Person, Team, id, list, multipart, number, team, team_with, text,
    unknown_id, within,
};

fn answer(text: &str, input: i64, output: i64) -> Answer {
    Answer::stream()
        .piece(text)
        .finish("stop")
        .usage(input, output)
        .done()
}

async fn usage(who: &Person, query: &str) -> Value {
    who.get(&format!("/v1/usage?{query}")).await.is(200)
}

/// Returns the row of a key: all tasks, failed tasks, input tokens, and output tokens.
fn row(answer: &Value, key: &str) -> [i64; 4] {
    let rows = list(answer, "/data");
    let row = rows.iter().find(|row| row["key"] == key);
    sums(row.unwrap_or_else(|| panic!("no {key} in {answer}")))
}

fn sums(row: &Value) -> [i64; 4] {
    ["/tasks", "/failed", "/input_tokens", "/output_tokens"].map(|field| number(row, field))
}

/// A team in which Ada has asked Vibe twice and Coder once, which failed, and Bo has asked Vibe once.
async fn used() -> Team {
    let t = team_with(&[("RETRY_DELAYS", "1ms")]).await;
    t.model().script(
        "vibe",
        [
            answer("One.", 100, 10),
            answer("Two.", 200, 20),
            answer("Three.", 400, 40),
        ],
    );
    t.model().script("coder", [Answer::status(400, "{}")]);
    let thread = t.ada.thread(&t.general, "Root").await;
    for who in [&t.ada, &t.ada, &t.bo] {
        let task = who.ask(&thread, "@vibe go").await;
        who.completed(&task).await;
    }
    let task = t.ada.ask(&thread, "@coder go").await;
    t.ada.failed(&task).await;
    t
}

fn this_month() -> String {
    chrono::Utc::now().format("%Y-%m").to_string()
}

#[tokio::test]
async fn an_admin_sees_all_usage_by_user_agent_month_and_model() {
    let t = used().await;
    let month = this_month();
    let people = usage(&t.ada, "").await;
    assert_eq!(people["group_by"], "person");
    assert_eq!(
        (&people["from"], &people["to"]),
        (&json!(month), &json!(month))
    );
    assert_eq!(row(&people, &t.ada.id), [3, 1, 300, 30]);
    assert_eq!(row(&people, &t.bo.id), [1, 0, 400, 40]);
    assert_eq!(sums(&people["total"]), [4, 1, 700, 70]);
    assert_eq!(people["data"][0]["name"], "Bo", "sorted by highest usage");
    assert!(people["total"].get("key").is_none());

    let agents = usage(&t.ada, "group_by=agent").await;
    assert_eq!(
        row(&agents, &id(&t.ada.agent("vibe").await)),
        [3, 0, 700, 70]
    );
    assert_eq!(row(&agents, &id(&t.ada.agent("coder").await)), [1, 1, 0, 0]);
    assert_eq!(agents["data"][0]["name"], "Vibe");

    let months = usage(&t.ada, "group_by=month&from=2020-01").await;
    assert_eq!(row(&months, &month), [4, 1, 700, 70]);
    let models = usage(&t.ada, "group_by=model").await;
    assert_eq!(row(&models, "none"), [1, 1, 0, 0]);
    assert_eq!(list(&models, "/data").len(), 2, "{models}");
    let before = usage(&t.ada, "from=2020-01&to=2020-12").await;
    assert_eq!(
        (list(&before, "/data").len(), sums(&before["total"])),
        (0, [0; 4])
    );
    let of_bo = usage(&t.ada, &format!("user_id={}", t.bo.id)).await;
    assert_eq!(sums(&of_bo["total"]), [1, 0, 400, 40]);
}

#[tokio::test]
async fn other_users_see_only_their_own_usage() {
    let t = used().await;
    for path in [
        "/v1/usage",
        "/v1/usage?group_by=month",
        &format!("/v1/usage?group_by=agent&user_id={}", t.ada.id),
    ] {
        assert_eq!(t.bo.get(path).await.refused(403), "role_too_low", "{path}");
    }
    for by in ["month", "agent", "model"] {
        let own = usage(&t.bo, &format!("group_by={by}&user_id=me")).await;
        assert_eq!(sums(&own["total"]), [1, 0, 400, 40], "{by}");
    }
    let (robot, _) = t.bo.make_key(&["agents:read"]).await;
    robot.get("/v1/usage?user_id=me").await.refused(403);
    t.bo.signed_out().get("/v1/usage").await.refused(401);
}

#[tokio::test]
async fn usage_is_counted_only_in_its_workspace() {
    let t = used().await;
    let other = t.ada.post("/v1/workspaces", json!({"name": "Other"})).await;
    let there = t.ada.in_workspace(&id(&other.is(201)));
    assert_eq!(sums(&usage(&there, "").await["total"]), [0; 4]);
    let of_bo = format!("/v1/usage?user_id={}", t.bo.id);
    there.get(&of_bo).await.refused(404);
    assert!(usage(&there, "").await["total"]["cost_usd"].is_null());
}

#[tokio::test]
async fn api_calls_and_canceled_tasks_are_counted() {
    let t = team().await;
    let (robot, _) = t.ada.make_key(&["chat:read", "agents:use"]).await;
    let reply = robot.post("/v1/responses", json!({"input": "Hello"})).await;
    reply.is(200);
    let agents = usage(&t.ada, "group_by=agent").await;
    let [tasks, failed, input, output] = row(&agents, "none");
    assert_eq!((tasks, failed), (1, 0));
    assert!(input > 0 && output > 0);
    assert_eq!(agents["data"][0]["name"], "No agent");
    t.model().script("vibe", [Answer::stream().silence()]);
    let started = t.ada.start(&t.general, "@vibe wait").await;
    let cancel = format!("/v1/tasks/{}/cancel", text(&started, "/tasks/0/id"));
    t.ada.act(&cancel).await.is(200);
    assert_eq!(sums(&usage(&t.ada, "").await["total"])[0], 2);
}

#[tokio::test]
async fn an_invalid_usage_query_is_rejected() {
    let t = team().await;
    for query in [
        "from=2026",
        "from=2026-13",
        "to=soon",
        "from=2026-03&to=2026-02",
        "group_by=mood",
        "user_id=ada",
        "user_id=agent_01k5t00000e008000000000000",
        "since=2026-01",
    ] {
        let reply = t.ada.get(&format!("/v1/usage?{query}")).await;
        assert!(
            [400, 422].contains(&reply.status),
            "{query}: {}",
            reply.text
        );
    }
    let nobody = format!("/v1/usage?user_id={}", unknown_id("user"));
    assert_eq!(t.ada.get(&nobody).await.refused(404), "member_not_found");
    let unused = usage(&t.ada, &format!("user_id={}", t.bo.id)).await;
    assert_eq!(sums(&unused["total"]), [0; 4]);
}

async fn stored_bytes(who: &Person) -> i64 {
    number(&usage(who, "").await, "/storage/bytes")
}

/// Size in bytes that is counted for a message in addition to its Markdown and plain text.
const ROW: i64 = 512;
const QUOTA: i64 = 512 * 1024;

#[tokio::test]
async fn messages_count_in_the_quota_until_they_are_deleted() {
    let mut t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let before = stored_bytes(&t.ada).await;
    let message = t.ada.tell(&thread, &"x".repeat(1000)).await;
    assert_eq!(stored_bytes(&t.ada).await, before + ROW + 2000);
    let path = format!("/v1/messages/{message}");
    t.ada
        .patch(&path, json!({"content": "short"}))
        .await
        .is(200);
    assert_eq!(stored_bytes(&t.ada).await, before + ROW + 10);
    t.model().script("vibe", [answer("An answer.", 1, 1)]);
    let task = t.ada.ask(&thread, "@vibe hi").await;
    t.ada.completed(&task).await;
    let after_reply = before + 3 * ROW + 10 + 2 * 8 + 2 * 10;
    assert_eq!(stored_bytes(&t.ada).await, after_reply);
    t.ada.delete(&path).await.is(200);
    t.ada.delete(&path).await.is(200);
    assert_eq!(stored_bytes(&t.ada).await, after_reply - 10);

    // A canceled reply counts with the text that was stored.
    let gate = Gate::new();
    let partial = Answer::pieces_open(&["Partial"]).wait(&gate).end();
    t.model().script("vibe", [partial]);
    let task = t.ada.ask(&thread, "@vibe go").await;
    t.ada
        .event_where("the reply", |event| {
            let message = &event["data"]["message"];
            event["type"] == "message.created" && message["metadata"]["task_id"] == task
        })
        .await;
    gate.reached().await;
    t.ada.act(&format!("/v1/tasks/{task}/cancel")).await.is(200);
    let messages = t.ada.messages(&thread).await;
    let kept = text(messages.last().unwrap(), "/content").len();
    let after_cancel = after_reply - 10 + 2 * ROW + 2 * 8 + 2 * i64::try_from(kept).unwrap();
    assert_eq!(stored_bytes(&t.ada).await, after_cancel);

    // The texts of an erased user no longer count.
    t.bo.tell(&thread, &"y".repeat(500)).await;
    assert_eq!(stored_bytes(&t.ada).await, after_cancel + ROW + 1000);
    t.ada.erase(&t.bo).await;
    assert_eq!(stored_bytes(&t.ada).await, after_cancel + ROW);
    t.app.restart(&[]).await;
    assert_eq!(
        stored_bytes(&t.ada.at(&t.app.base)).await,
        after_cancel + ROW
    );
}

#[tokio::test]
async fn uploads_count_in_the_quota_with_their_rows_until_they_are_removed() {
    let t = team_with(&[("UPLOAD_ORPHAN_AFTER", "1h")]).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let before = stored_bytes(&t.ada).await;
    let row = 1024;
    let first = t.ada.upload("a.txt", b"a").await;
    let attached = t.ada.upload("b.txt", b"bb").await;
    assert_eq!(stored_bytes(&t.ada).await, before + 2 * row + 3);
    t.ada.delete(&text(&first, "/url")).await;
    assert_eq!(stored_bytes(&t.ada).await, before + row + 2);
    let content = json!({"content": "", "attachments": [id(&attached)]});
    let posted = t
        .ada
        .post(&format!("/v1/threads/{thread}/messages"), content)
        .await
        .is(201);
    assert_eq!(stored_bytes(&t.ada).await, before + ROW + row + 2);
    let message = text(&posted, "/message/id");
    t.ada
        .delete(&format!("/v1/messages/{message}"))
        .await
        .is(200);
    let after_delete = before + ROW;
    assert_eq!(stored_bytes(&t.ada).await, after_delete);
    t.bo.upload("c.txt", b"ccc").await;
    t.bo.upload("d.txt", b"dddd").await;
    assert_eq!(stored_bytes(&t.ada).await, after_delete + 2 * row + 7);
    t.ada.erase(&t.bo).await;
    assert_eq!(stored_bytes(&t.ada).await, after_delete);
}

#[tokio::test]
async fn expired_uploads_no_longer_count_in_the_quota() {
    let t = team_with(&[("UPLOAD_ORPHAN_AFTER", "1s")]).await;
    let before = stored_bytes(&t.ada).await;
    t.ada.upload("loose.txt", b"loose").await;
    let removed = async {
        while t.app.place.count("files").await > 0 {
            crate::support::pause().await;
        }
    };
    within("the upload to expire", removed).await;
    assert_eq!(stored_bytes(&t.ada).await, before);
}

#[tokio::test]
async fn stored_responses_count_in_the_quota_until_they_are_deleted() {
    let t = team_with(&[("WORKSPACE_BYTES_MAX", "512KiB")]).await;
    let (robot, _) = t.bo.make_key(&["agents:use"]).await;
    let long = "x".repeat(30_000);
    let before = stored_bytes(&t.ada).await;
    let first = robot.post("/v1/responses", json!({"input": long})).await;
    let first = id(&first.is(200));
    let after_first = stored_bytes(&t.ada).await;
    assert!((30_000..40_000).contains(&(after_first - before)));
    let unstored = json!({"input": long, "store": false});
    robot.post("/v1/responses", unstored.clone()).await.is(200);
    assert_eq!(stored_bytes(&t.ada).await, after_first);
    robot
        .delete(&format!("/v1/responses/{first}"))
        .await
        .is(200);
    assert_eq!(stored_bytes(&t.ada).await, before);
    let mut stored = 0;
    let rejected = loop {
        let reply = robot.post("/v1/responses", json!({"input": long})).await;
        if reply.status != 200 {
            break reply;
        }
        stored += 1;
        assert!(stored < 20, "the quota was not reached");
    };
    assert_eq!(rejected.status, 422);
    assert_eq!(rejected.json()["error"]["code"], "quota_exceeded");
    // In a full workspace, responses that are not stored still work.
    robot.post("/v1/responses", unstored).await.is(200);
    t.ada.erase(&t.bo).await;
    assert_eq!(stored_bytes(&t.ada).await, before);
}

#[tokio::test]
async fn many_small_uploads_reach_the_quota() {
    let t = team_with(&[("WORKSPACE_BYTES_MAX", "64KiB")]).await;
    let disposition = "name=\"file\"; filename=\"a.txt\"";
    let mut rejected = None;
    for _ in 0..64 {
        let file = multipart(&[(disposition, b"a")]);
        let typed = [("content-type", MULTIPART)];
        let reply = t
            .ada
            .send(reqwest::Method::POST, "/v1/files", &typed, Some(file))
            .await;
        if reply.status != 201 {
            rejected = Some(reply.refused(422));
            break;
        }
    }
    assert_eq!(rejected.as_deref(), Some("quota_exceeded"));
    assert!(stored_bytes(&t.ada).await <= 64 * 1024);
}

/// Posts until the quota is reached. Returns the message IDs.
async fn fill(admin: &Person, thread: &str) -> Vec<String> {
    let mut posted = Vec::new();
    loop {
        let free = QUOTA - stored_bytes(admin).await - ROW;
        if free < 2 {
            return posted;
        }
        let length = usize::try_from(free / 2).unwrap().min(32 * 1024);
        posted.push(admin.tell(thread, &"x".repeat(length)).await);
    }
}

#[tokio::test]
async fn posts_and_edits_beyond_the_quota_are_rejected_until_something_is_deleted() {
    let t = team_with(&[("WORKSPACE_BYTES_MAX", "512KiB")]).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let path = format!("/v1/threads/{thread}/messages");
    let first = json!({"content": "x".repeat(20_000), "client_id": "first"});
    let deleted = text(
        &t.bo.post(&path, first.clone()).await.is(201),
        "/message/id",
    );
    let posted = fill(&t.ada, &thread).await;
    let rejected = t.bo.post(&path, json!({"content": "more"})).await;
    assert!(
        rejected.text.contains(&QUOTA.to_string()),
        "{}",
        rejected.text
    );
    assert_eq!(rejected.refused(422), "quota_exceeded");
    let started = format!("/v1/channels/{}/threads", t.general);
    let started = t.bo.post(&started, json!({"content": "more"})).await;
    assert_eq!(started.refused(422), "quota_exceeded");
    let last = format!("/v1/messages/{}", posted.last().unwrap());
    let grown = json!({"content": "y".repeat(32 * 1024)});
    let edited = t.ada.patch(&last, grown).await;
    assert_eq!(edited.refused(422), "quota_exceeded");
    let full = stored_bytes(&t.ada).await;
    assert!(full <= QUOTA, "{full}");

    // Resending a stored message succeeds, and changes are still possible in a full workspace.
    t.bo.post(&path, first).await.is(200);
    let renamed = json!({"title": "Full"});
    t.ada
        .patch(&format!("/v1/threads/{thread}"), renamed)
        .await
        .is(200);
    t.ada.patch(&last, json!({"content": "s"})).await.is(200);
    t.bo.delete(&format!("/v1/messages/{deleted}"))
        .await
        .is(200);
    assert!(stored_bytes(&t.ada).await <= full - 40_000);
    t.bo.post(&path, json!({"content": "more"})).await.is(201);
}

#[tokio::test]
async fn a_full_workspace_stores_replies_in_progress_and_ends_queued_tasks_with_a_notice() {
    let t = team_with(&[("WORKSPACE_BYTES_MAX", "512KiB"), ("WORKERS", "1")]).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let gate = Gate::new();
    let long = "y".repeat(5000);
    let reply = Answer::pieces_open(&["Begun, "])
        .wait(&gate)
        .piece(&long)
        .end();
    t.model().script("vibe", [reply]);
    let running = t.ada.ask(&thread, "@vibe first").await;
    gate.reached().await;
    let queued = t.ada.ask(&thread, "@vibe second").await;
    let posted = fill(&t.ada, &thread).await;
    gate.open();
    let done = t.ada.completed(&running).await;
    let reply = t.ada.message(&text(&done, "/output/message_id")).await;
    assert_eq!(text(&reply, "/content"), format!("Begun, {long}"));
    let (_, code) = t.ada.failed(&queued).await;
    assert_eq!(code, "quota_exceeded");
    let notice = t.ada.messages(&thread).await.pop().unwrap();
    assert_eq!(notice["kind"], "notice");
    assert!(
        text(&notice, "/content").contains("storage limit"),
        "{notice}"
    );
    let retry = format!("/v1/tasks/{queued}/retry");
    assert_eq!(t.ada.act(&retry).await.refused(422), "quota_exceeded");
    t.ada
        .delete(&format!("/v1/messages/{}", posted[0]))
        .await
        .is(200);
    let again = id(&t.ada.act(&retry).await.is(201));
    t.ada.completed(&again).await;
}
