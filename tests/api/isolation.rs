//! Objects of another workspace are not found.

use serde_json::json;

use crate::support::{Person, TestApp, id, text};

struct Two {
    app: TestApp,
    ada: Person,
    bo: Person,
    /// A channel in Bo's workspace.
    channel: String,
    thread: String,
    message: String,
    task: String,
    agent: String,
    /// A resolved fork of that thread, and the action item of its resolution.
    fork: String,
    item: String,
}

/// Creates a workspace for Ada and one for Bo, with objects in Bo's.
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
    let fork = id(&bo
        .start_fork(&thread, &message, json!({"agent_id": null}))
        .await);
    bo.say_in(&fork, "In the dive").await;
    let content = json!({"headline": "Theirs", "action_items": [{"text": "Theirs too"}]});
    let published = bo.publish_as(&fork, content).await;
    let item = text(&published, "/resolution/action_items/0/id");
    Two {
        app,
        ada,
        bo,
        channel,
        thread,
        message,
        task,
        agent,
        fork,
        item,
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
        format!("/v1/threads/{}/forks", w.thread),
        format!("/v1/forks/{}", w.fork),
        format!("/v1/forks/{}/messages", w.fork),
        format!("/v1/forks/{}/resolution", w.fork),
        format!("/v1/forks/{}/resolutions", w.fork),
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
        (
            format!("/v1/threads/{}/forks", w.thread),
            json!({"message_id": w.message}),
        ),
        (
            format!("/v1/forks/{}/messages", w.fork),
            json!({"content": "x"}),
        ),
        (format!("/v1/forks/{}/resolve", w.fork), json!({})),
        (format!("/v1/forks/{}/publish", w.fork), json!({})),
        (format!("/v1/forks/{}/abandon", w.fork), json!({})),
        (format!("/v1/forks/{}/reopen", w.fork), json!({})),
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
        (format!("/v1/forks/{}", w.fork), json!({"title": "x"})),
        (
            format!("/v1/action-items/{}", w.item),
            json!({"done": true}),
        ),
    ] {
        w.ada.patch(&path, body).await.refused(404);
    }
    w.ada
        .edit_draft(&w.fork, 1, json!({"headline": "x"}))
        .await
        .refused(404);
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
    assert_eq!(
        w.bo.contents(&w.thread).await[..2],
        ["@vibe hello", "Fine."]
    );
    assert_eq!(w.bo.fork(&w.fork).await["status"], "resolved");
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
        format!("/v1/threads/{own}/forks?after={}", w.fork),
        format!("/v1/decisions?channel_id={}", w.channel),
        format!("/v1/action-items?channel_id={}", w.channel),
        format!("/v1/action-items?after={}", w.item),
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
    w.ada
        .try_fork(&own, &w.message, json!({}))
        .await
        .refused(404);
    let root = id(&w.ada.messages(&own).await[0]);
    w.ada
        .try_fork(&own, &root, json!({"agent_id": w.agent}))
        .await
        .refused(404);
    let fork = id(&w
        .ada
        .start_fork(&own, &root, json!({"agent_id": null}))
        .await);
    w.ada
        .patch(&format!("/v1/forks/{fork}"), json!({"agent_id": w.agent}))
        .await
        .refused(404);
    w.ada
        .post(
            &format!("/v1/forks/{fork}/messages"),
            json!({"content": "x", "parent_id": w.message}),
        )
        .await
        .refused(404);
}

#[tokio::test]
async fn decisions_and_action_items_of_another_workspace_are_not_listed() {
    let w = two().await;
    for list in [
        "/v1/decisions",
        "/v1/decisions?q=theirs",
        "/v1/action-items",
    ] {
        assert_eq!(w.ada.get(list).await.ok()["data"], json!([]), "{list}");
    }
    w.bo.reopen(&w.fork).await;
    let snapshot = w.ada.get("/v1/snapshot").await.ok();
    assert_eq!(snapshot["open_forks"], json!([]));
}

#[tokio::test]
async fn the_header_of_another_workspace_is_rejected_as_not_found() {
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
        "/v1/decisions",
        "/v1/action-items",
    ] {
        intruder.get(path).await.refused(404);
    }
    intruder
        .post("/v1/channels", json!({"name": "x"}))
        .await
        .refused(404);
}

#[tokio::test]
async fn a_socket_receives_only_its_own_workspace() {
    let w = two().await;
    let mut socket = w.ada.socket().await;
    w.bo.say(&w.thread, "Not for Ada").await;
    w.bo.reopen(&w.fork).await;
    w.bo.say_in(&w.fork, "Nor this").await;
    for fork in [
        json!({"type": "subscribe", "fork_id": w.fork}),
        json!({"type": "message.send", "fork_id": w.fork, "content": "x", "client_id": "3"}),
    ] {
        assert_eq!(socket.request(fork).await["error"]["type"], "not_found");
    }
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
        "data of the other workspace: {seen:?}"
    );
    let mut greeted = crate::support::Socket::silent(&w.ada).await;
    greeted
        .send(&json!({"type": "hello", "protocol": 1, "workspace_id": w.bo.workspace}))
        .await;
    assert_eq!(greeted.closed().await, 4003);
}

#[tokio::test]
async fn events_of_a_users_two_workspaces_are_separate_on_sockets() {
    let w = two().await;
    let token = text(&w.bo.post("/v1/invites", json!({})).await.is(201), "/token");
    w.ada.act(&format!("/v1/invites/{token}/accept")).await.ok();
    let mut own = w.ada.in_workspace(&w.ada.workspace).socket().await;
    let subscribe = own
        .request(json!({"type": "subscribe", "thread_id": w.thread}))
        .await;
    assert_eq!(
        subscribe["error"]["type"], "not_found",
        "a conversation outside of the socket's workspace"
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
async fn mentions_match_only_people_and_agents_of_the_workspace() {
    let w = two().await;
    w.bo.make_agent("sage").await;
    let started = w
        .ada
        .start(&id(&w.ada.channel("general").await), "@bo and @sage")
        .await;
    assert_eq!(started["message"]["mentions"], json!([]));
    assert_eq!(started["tasks"], json!([]));
}

#[tokio::test]
async fn dives_of_a_users_two_workspaces_are_separate() {
    let w = two().await;
    let token = text(&w.bo.post("/v1/invites", json!({})).await.is(201), "/token");
    w.ada.act(&format!("/v1/invites/{token}/accept")).await.ok();
    let here = w.ada.in_workspace(&w.ada.workspace);
    let there = w.ada.in_workspace(&w.bo.workspace);
    assert_eq!(
        there.get("/v1/decisions").await.ok()["data"][0]["headline"],
        "Theirs"
    );
    assert_eq!(
        there.get("/v1/action-items").await.ok()["data"][0]["text"],
        "Theirs too"
    );
    for list in ["/v1/decisions", "/v1/action-items"] {
        assert_eq!(here.get(list).await.ok()["data"], json!([]), "{list}");
    }
    for query in [
        format!("/v1/decisions?channel_id={}", w.channel),
        format!("/v1/action-items?channel_id={}", w.channel),
        format!("/v1/action-items?after={}", w.item),
        format!("/v1/action-items?before={}", w.item),
    ] {
        let reply = here.get(&query).await;
        assert_eq!(reply.status, 404, "{query}: {}", reply.text);
    }
    drop(w.app);
}

#[tokio::test]
async fn a_dive_starts_in_the_workspace_of_its_message() {
    let w = two().await;
    let token = text(&w.bo.post("/v1/invites", json!({})).await.is(201), "/token");
    w.ada.act(&format!("/v1/invites/{token}/accept")).await.ok();
    let here = w.ada.in_workspace(&w.ada.workspace);
    let own = here
        .start(&id(&here.channel("general").await), "Mine")
        .await;
    let (thread, root) = (text(&own, "/thread/id"), text(&own, "/message/id"));
    let foreign = here.try_fork(&thread, &w.message, json!({})).await;
    assert_eq!(foreign.status, 404, "{}", foreign.text);
    let foreign = here
        .try_fork(&thread, &root, json!({"agent_id": w.agent}))
        .await;
    assert_eq!(foreign.status, 404, "{}", foreign.text);
}

#[tokio::test]
async fn a_socket_of_one_workspace_receives_no_dives_of_the_users_other() {
    let w = two().await;
    let token = text(&w.bo.post("/v1/invites", json!({})).await.is(201), "/token");
    w.ada.act(&format!("/v1/invites/{token}/accept")).await.ok();
    w.bo.reopen(&w.fork).await;
    let mut socket = w.ada.in_workspace(&w.ada.workspace).socket().await;
    let subscribe = socket
        .request(json!({"type": "subscribe", "fork_id": w.fork}))
        .await;
    assert_eq!(subscribe["error"]["type"], "not_found");
    w.bo.say_in(&w.fork, "There").await;
    let seen = socket.settle().await;
    assert!(seen.iter().all(|f| f["data"].is_null()), "{seen:?}");
    drop(w.app);
}
