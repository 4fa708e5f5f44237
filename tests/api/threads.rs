//! Threads of a channel.

use serde_json::{Value, json};

use crate::support::{id, list, number, team, text};

#[tokio::test]
async fn posting_in_a_channel_starts_a_thread() {
    let t = team().await;
    let path = format!("/v1/channels/{}/threads", t.general);
    let started = t
        .ada
        .post(&path, json!({"content": "Hello", "title": "Greetings"}))
        .await
        .is(201);
    let thread = &started["thread"];
    assert_eq!(thread["workspace_id"], t.ada.workspace.as_str());
    assert_eq!(thread["channel_id"], t.general.as_str());
    assert_eq!(thread["title"], "Greetings");
    assert_eq!(thread["status"], "open");
    assert_eq!(thread["root_message_id"], started["message"]["id"]);
    assert_eq!(thread["reply_count"], 0);
    assert_eq!(thread["created_by"], t.ada.id.as_str());
    assert!(thread["agent_id"].is_null());
    assert_eq!(thread["last_seq"], started["message"]["seq"]);
    assert_eq!(started["tasks"], json!([]));
}

#[tokio::test]
async fn a_thread_is_announced_before_its_first_message() {
    let t = team().await;
    let mut socket = t.bo.socket().await;
    let started = t.ada.start(&t.general, "Hello").await;
    let (thread, message) = (socket.event().await, socket.event().await);
    assert_eq!(thread["type"], "thread.created");
    for field in [
        "id",
        "channel_id",
        "title",
        "status",
        "agent_id",
        "root_message_id",
        "reply_count",
        "created_by",
    ] {
        assert_eq!(
            thread["data"]["thread"][field], started["thread"][field],
            "{field}"
        );
    }
    assert_eq!(message["type"], "message.created");
    assert_eq!(message["data"]["message"], started["message"]);
}

#[tokio::test]
async fn a_thread_counts_its_replies_and_participants() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    t.bo.say(&thread, "One").await;
    t.ada.say(&thread, "Two").await;
    let task = t.bo.ask(&thread, "@vibe three").await;
    t.bo.completed(&task).await;
    let found = t.bo.get(&format!("/v1/threads/{thread}")).await.ok();
    assert_eq!(found["reply_count"], 4);
    assert_eq!(found["root_message"]["content"], "Root");
    assert_eq!(found["last_message"]["content"], "Fine.");
    assert_eq!(found["active_tasks"], json!([]));
    let names: Vec<String> = list(&found, "/participants")
        .iter()
        .map(|p| text(p, "/name"))
        .collect();
    assert_eq!(names, ["Ada", "Bo", "Vibe"]);
}

#[tokio::test]
async fn threads_are_listed_by_latest_activity() {
    let t = team().await;
    let mut threads = Vec::new();
    for n in 0..5 {
        threads.push(t.ada.thread(&t.general, &n.to_string()).await);
    }
    t.bo.say(&threads[1], "Again").await;
    let expected: Vec<&String> = [1, 4, 3, 2, 0].iter().map(|n| &threads[*n]).collect();
    let path = format!("/v1/channels/{}/threads", t.general);
    let mut seen = Vec::new();
    let mut query = "?limit=2".to_owned();
    loop {
        let page = t.bo.get(&format!("{path}{query}")).await.ok();
        seen.extend(list(&page, "/data").iter().map(id));
        let cursor = page["next_cursor"].as_str();
        assert_eq!(page["has_more"], cursor.is_some());
        let Some(cursor) = cursor else {
            assert_eq!(page.get("next_cursor"), Some(&Value::Null));
            break;
        };
        query = format!("?limit=2&cursor={cursor}");
    }
    assert_eq!(seen.iter().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_thread_list_can_be_filtered() {
    let t = team().await;
    let (dive, _) = t.resolved("Friday").await;
    let mut plain = Vec::new();
    for n in 0..3 {
        plain.push(t.ada.thread(&t.general, &n.to_string()).await);
    }
    let asked = t.ada.thread(&t.general, "A question").await;
    t.ada.ask(&asked, "@vibe hello").await;
    t.settled().await;
    let path = format!("/v1/channels/{}/threads", t.general);
    let found = async |filter: &str| -> Vec<String> {
        let mut seen = Vec::new();
        let mut query = format!("?limit=1&filter={filter}");
        loop {
            let page = t.bo.get(&format!("{path}{query}")).await.ok();
            seen.extend(list(&page, "/data").iter().map(id));
            let Some(cursor) = page["next_cursor"].as_str() else {
                return seen;
            };
            query = format!("?limit=1&filter={filter}&cursor={cursor}");
        }
    };
    assert_eq!(found("results").await, [dive.thread.as_str()]);
    assert!(found("agents").await.contains(&asked));
    assert!(!found("agents").await.contains(&plain[0]));

    t.bo.act(&format!("/v1/channels/{}/read", t.general))
        .await
        .ok();
    assert_eq!(found("unread").await, [""; 0]);
    t.ada.say(&plain[1], "Again").await;
    t.ada.say(&plain[0], "Again").await;
    t.bo.say(&plain[2], "My own").await;
    assert_eq!(found("unread").await, [plain[0].as_str(), &plain[1]]);
    t.bo.put(
        &format!("/v1/threads/{}/follow", plain[1]),
        json!({"level": "none"}),
    )
    .await
    .ok();
    assert_eq!(found("unread").await, [plain[0].as_str()]);
    t.bo.get(&format!("{path}?filter=mine")).await.refused(400);
}

#[tokio::test]
async fn a_thread_list_shows_unfinished_tasks() {
    let t = team().await;
    let gate = crate::support::Gate::new();
    t.model()
        .script("vibe", [crate::support::Answer::text("Done.").held(&gate)]);
    let started = t.ada.start(&t.general, "@vibe wait").await;
    gate.reached().await;
    let page =
        t.bo.get(&format!("/v1/channels/{}/threads", t.general))
            .await
            .ok();
    assert_eq!(
        page["data"][0]["active_tasks"][0]["id"],
        started["tasks"][0]["id"]
    );
    assert_eq!(page["data"][0]["active_tasks"][0]["status"], "running");
    gate.open();
}

#[tokio::test]
async fn a_foreign_cursor_is_rejected() {
    let t = team().await;
    for bad in ["x", "MTIz", "%20", "e30="] {
        t.ada
            .get(&format!("/v1/channels/{}/threads?cursor={bad}", t.general))
            .await
            .refused(400);
    }
}

#[tokio::test]
async fn a_threads_title_can_be_changed_and_cleared() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let path = format!("/v1/threads/{thread}");
    let mut socket = t.bo.socket().await;
    assert_eq!(
        t.bo.patch(&path, json!({"title": "Plan"})).await.is(200)["title"],
        "Plan"
    );
    assert_eq!(
        socket.of("thread.updated").await["data"]["thread"]["title"],
        "Plan"
    );
    assert_eq!(t.bo.patch(&path, json!({})).await.is(200)["title"], "Plan");
    assert!(t.bo.patch(&path, json!({"title": null})).await.is(200)["title"].is_null());
}

#[tokio::test]
async fn an_archived_thread_accepts_no_messages_until_it_is_reopened() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let path = format!("/v1/threads/{thread}");
    assert_eq!(
        t.ada
            .patch(&path, json!({"status": "archived"}))
            .await
            .is(200)["status"],
        "archived"
    );
    t.bo.post(&format!("{path}/messages"), json!({"content": "x"}))
        .await
        .refused(409);
    assert_eq!(
        t.bo.contents(&thread).await,
        ["Root"],
        "it can still be read"
    );
    t.ada.patch(&path, json!({"status": "open"})).await.is(200);
    t.bo.say(&thread, "Again").await;
}

#[tokio::test]
async fn a_threads_last_activity_is_the_time_of_its_newest_message() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let posted = t.bo.say(&thread, "Newer").await;
    let found = t.ada.get(&format!("/v1/threads/{thread}")).await.ok();
    assert_eq!(found["last_activity_at"], posted["message"]["created_at"]);
    assert_eq!(number(&found, "/last_seq"), number(&posted, "/message/seq"));
}

#[tokio::test]
async fn a_thread_cannot_be_bound_to_an_agent_that_cannot_be_invoked() {
    let t = team().await;
    let researcher = id(&t.ada.agent("researcher").await);
    let path = format!("/v1/channels/{}/threads", t.general);
    let unknown = crate::support::unknown_id("agent");
    t.ada
        .post(&path, json!({"content": "x", "agent_id": unknown}))
        .await
        .refused(404);
    let inactive = t
        .ada
        .post(&path, json!({"content": "x", "agent_id": researcher}))
        .await;
    assert!(matches!(inactive.status, 404 | 422), "{}", inactive.text);
    t.ada
        .post(&path, json!({"content": "x", "agent_id": t.ada.id}))
        .await
        .refused(422);
    assert_eq!(t.ada.get(&path).await.ok()["data"], json!([]));
}

#[tokio::test]
async fn auto_reply_without_an_agent_is_rejected() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    t.ada
        .patch(
            &format!("/v1/threads/{thread}"),
            json!({"auto_reply": true}),
        )
        .await
        .refused(422);
    let found: Value = t.ada.get(&format!("/v1/threads/{thread}")).await.ok();
    assert_eq!(found["auto_reply"], false);
}
