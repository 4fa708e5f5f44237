//! What belongs to another workspace does not exist.

use serde_json::json;

use crate::support::{Person, TestApp, id, text};

struct Two {
    app: TestApp,
    ada: Person,
    bo: Person,
    /// Of Bo's workspace.
    channel: String,
    thread: String,
    message: String,
    task: String,
    agent: String,
}

/// Ada's workspace and Bo's, and things in Bo's.
async fn two() -> Two {
    let app = TestApp::with(&[("SIGNUP", "open")]).await;
    let ada = app.founder("Ada").await;
    let bo = app.founder("Bo").await;
    let channel = id(&bo.channel("general").await);
    let started = bo.start(&channel, "@vibe hello").await;
    let task = text(&started, "/tasks/0/id");
    bo.completed(&task).await;
    let agent = id(&bo.agent("vibe").await);
    let (thread, message) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    Two {
        app,
        ada,
        bo,
        channel,
        thread,
        message,
        task,
        agent,
    }
}

#[tokio::test]
async fn ids_of_another_workspace_in_a_path_are_not_found() {
    let w = two().await;
    let key = id(&w
        .bo
        .post(
            "/v1/api-keys",
            json!({"name": "x", "scopes": ["chat:read"]}),
        )
        .await
        .is(201));
    let invite = id(&w.bo.post("/v1/invites", json!({})).await.is(201));
    for path in [
        format!("/v1/channels/{}", w.channel),
        format!("/v1/channels/{}/threads", w.channel),
        format!("/v1/channels/{}/members", w.channel),
        format!("/v1/threads/{}", w.thread),
        format!("/v1/threads/{}/messages", w.thread),
        format!("/v1/messages/{}", w.message),
        format!("/v1/tasks/{}", w.task),
        format!("/v1/tasks/{}/context", w.task),
        format!("/v1/agents/{}", w.agent),
        format!("/v1/workspaces/{}", w.bo.workspace),
    ] {
        w.ada.get(&path).await.refused(404);
    }
    for (path, body) in [
        (
            format!("/v1/channels/{}/threads", w.channel),
            json!({"content": "x"}),
        ),
        (format!("/v1/channels/{}/join", w.channel), json!({})),
        (format!("/v1/channels/{}/leave", w.channel), json!({})),
        (format!("/v1/channels/{}/archive", w.channel), json!({})),
        (format!("/v1/channels/{}/unarchive", w.channel), json!({})),
        (format!("/v1/channels/{}/read", w.channel), json!({})),
        (
            format!("/v1/channels/{}/members", w.channel),
            json!({"user_id": w.ada.id}),
        ),
        (
            format!("/v1/threads/{}/messages", w.thread),
            json!({"content": "x"}),
        ),
        (format!("/v1/tasks/{}/cancel", w.task), json!({})),
        (format!("/v1/tasks/{}/retry", w.task), json!({})),
    ] {
        w.ada.post(&path, body).await.refused(404);
    }
    for (path, body) in [
        (format!("/v1/channels/{}", w.channel), json!({"topic": "x"})),
        (format!("/v1/threads/{}", w.thread), json!({"title": "x"})),
        (
            format!("/v1/messages/{}", w.message),
            json!({"content": "x"}),
        ),
        (
            format!("/v1/agents/{}", w.agent),
            json!({"description": "x"}),
        ),
        (
            format!("/v1/workspaces/{}", w.bo.workspace),
            json!({"name": "x"}),
        ),
        (
            format!("/v1/members/{}", w.bo.id),
            json!({"role": "viewer"}),
        ),
    ] {
        w.ada.patch(&path, body).await.refused(404);
    }
    w.ada
        .put(&format!("/v1/threads/{}/read", w.thread), json!({"seq": 1}))
        .await
        .refused(404);
    w.ada
        .put(
            &format!("/v1/messages/{}/reactions/x", w.message),
            json!({}),
        )
        .await
        .refused(404);
    for path in [
        format!("/v1/messages/{}", w.message),
        format!("/v1/messages/{}/reactions/x", w.message),
        format!("/v1/members/{}", w.bo.id),
        format!("/v1/channels/{}/members/{}", w.channel, w.bo.id),
        format!("/v1/api-keys/{key}"),
        format!("/v1/invites/{invite}"),
    ] {
        w.ada.delete(&path).await.refused(404);
    }
    assert_eq!(w.bo.contents(&w.thread).await, ["@vibe hello", "Fine."]);
}

#[tokio::test]
async fn ids_of_another_workspace_in_a_query_are_not_found() {
    let w = two().await;
    let own = w
        .ada
        .thread(&id(&w.ada.channel("general").await), "Mine")
        .await;
    for path in [
        format!("/v1/tasks?thread_id={}", w.thread),
        format!("/v1/tasks?agent_id={}", w.agent),
        format!("/v1/threads/{own}/messages?after={}", w.message),
        format!("/v1/threads/{own}/messages?around={}", w.message),
        format!("/v1/members?after={}", w.bo.id),
    ] {
        w.ada.get(&path).await.refused(404);
    }
}

#[tokio::test]
async fn ids_of_another_workspace_in_a_body_are_not_found() {
    let w = two().await;
    let general = id(&w.ada.channel("general").await);
    let own = w.ada.thread(&general, "Mine").await;
    w.ada
        .post("/v1/direct", json!({"member_ids": [w.bo.id]}))
        .await
        .refused(404);
    w.ada
        .post("/v1/direct", json!({"agent_id": w.agent}))
        .await
        .refused(404);
    w.ada
        .post(
            &format!("/v1/channels/{general}/members"),
            json!({"user_id": w.bo.id}),
        )
        .await
        .refused(404);
    let start = json!({"content": "x", "agent_id": w.agent});
    w.ada
        .post(&format!("/v1/channels/{general}/threads"), start)
        .await
        .refused(404);
    let answer = json!({"content": "x", "parent_id": w.message});
    w.ada
        .post(&format!("/v1/threads/{own}/messages"), answer)
        .await
        .refused(404);
    w.ada
        .patch(&format!("/v1/threads/{own}"), json!({"agent_id": w.agent}))
        .await
        .refused(404);
}

#[tokio::test]
async fn the_header_of_another_workspace_is_not_found() {
    let w = two().await;
    let intruder = w.ada.in_workspace(&w.bo.workspace);
    for path in [
        "/v1/channels",
        "/v1/members",
        "/v1/snapshot",
        "/v1/events",
        "/v1/agents",
        "/v1/tasks",
        "/v1/api-keys",
    ] {
        intruder.get(path).await.refused(404);
    }
    intruder
        .post("/v1/channels", json!({"name": "x"}))
        .await
        .refused(404);
}

#[tokio::test]
async fn a_socket_sees_its_own_workspace_only() {
    let w = two().await;
    let mut socket = w.ada.socket().await;
    w.bo.say(&w.thread, "Not for Ada").await;
    let subscribe = socket
        .request(json!({"type": "subscribe", "thread_id": w.thread}))
        .await;
    assert_eq!(subscribe["error"]["type"], "not_found");
    let send =
        json!({"type": "message.send", "thread_id": w.thread, "content": "x", "client_id": "1"});
    assert_eq!(socket.request(send).await["error"]["type"], "not_found");
    let send =
        json!({"type": "message.send", "channel_id": w.channel, "content": "x", "client_id": "2"});
    assert_eq!(socket.request(send).await["error"]["type"], "not_found");
    let read = socket
        .request(json!({"type": "read", "thread_id": w.thread, "seq": 1}))
        .await;
    assert_eq!(read["error"]["type"], "not_found");
    let seen = socket.settle().await;
    assert!(
        seen.iter().all(|frame| frame["data"].is_null()),
        "nothing of the other workspace: {seen:?}"
    );
    let mut greeted = crate::support::Socket::silent(&w.ada).await;
    greeted
        .send(&json!({"type": "hello", "protocol": 1, "workspace_id": w.bo.workspace}))
        .await;
    assert_eq!(greeted.closed().await, 4003);
}

#[tokio::test]
async fn who_is_in_both_workspaces_keeps_them_apart_on_a_socket() {
    let w = two().await;
    let token = text(&w.bo.post("/v1/invites", json!({})).await.is(201), "/token");
    w.ada.act(&format!("/v1/invites/{token}/accept")).await.ok();
    let mut own = w.ada.in_workspace(&w.ada.workspace).socket().await;
    let subscribe = own
        .request(json!({"type": "subscribe", "thread_id": w.thread}))
        .await;
    assert_eq!(
        subscribe["error"]["type"], "not_found",
        "a place of another workspace than the socket's"
    );
    let mut theirs = w.ada.in_workspace(&w.bo.workspace).socket().await;
    w.bo.say(&w.thread, "For Ada too").await;
    assert_eq!(
        theirs.of("message.created").await["data"]["message"]["content"],
        "For Ada too"
    );
    let seen = own.settle().await;
    assert!(seen.iter().all(|frame| frame["data"].is_null()), "{seen:?}");
    drop(w.app);
}

#[tokio::test]
async fn mentions_find_only_people_and_agents_of_the_workspace() {
    let w = two().await;
    w.bo.make_agent("sage").await;
    let started = w
        .ada
        .start(&id(&w.ada.channel("general").await), "@bo and @sage")
        .await;
    assert_eq!(started["message"]["mentions"], json!([]));
    assert_eq!(started["tasks"], json!([]));
}
