//! Permissions of admins, members, and viewers.

use serde_json::json;

use crate::support::{id, list, number, team, text};

#[tokio::test]
async fn a_viewer_can_read_and_mark_as_read() {
    let t = team().await;
    let vera = t.app.join(&t.ada, "Vera", "viewer").await;
    let started = t.ada.start(&t.general, "Hello").await;
    let (thread, message) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let dive = t.resolved("Monday it is").await.0;
    for path in [
        format!("/v1/threads/{}/forks", dive.thread),
        format!("/v1/forks/{}", dive.fork),
        format!("/v1/forks/{}/messages", dive.fork),
        format!("/v1/forks/{}/resolution", dive.fork),
        format!("/v1/forks/{}/resolutions", dive.fork),
        "/v1/decisions".to_owned(),
        "/v1/action-items".to_owned(),
        "/v1/snapshot".to_owned(),
        "/v1/channels".to_owned(),
        "/v1/members".to_owned(),
        "/v1/events".to_owned(),
        "/v1/agents".to_owned(),
        "/v1/tasks".to_owned(),
        "/v1/auth/me".to_owned(),
        format!("/v1/channels/{}/threads", t.general),
        format!("/v1/threads/{thread}"),
        format!("/v1/threads/{thread}/messages"),
        format!("/v1/messages/{message}"),
    ] {
        vera.get(&path).await.is(200);
    }
    let seq = number(&started, "/message/seq");
    let mark = vera
        .put(&format!("/v1/threads/{thread}/read"), json!({"seq": seq}))
        .await
        .is(200);
    assert_eq!(mark["unread_count"], 0);
    vera.act(&format!("/v1/channels/{}/read", t.general))
        .await
        .is(200);
    let mut socket = vera.socket().await;
    t.ada.say(&thread, "Live").await;
    assert_eq!(
        socket.of("message.created").await["data"]["message"]["content"],
        "Live"
    );
}

#[tokio::test]
async fn a_viewer_can_do_nothing_else() {
    let t = team().await;
    let vera = t.app.join(&t.ada, "Vera", "viewer").await;
    let started = t.ada.start(&t.general, "@vibe hello").await;
    let (thread, message) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let task = text(&started, "/tasks/0/id");
    t.ada.completed(&task).await;
    let vibe = id(&t.ada.agent("vibe").await);
    let (dive, _) = t.resolved("Monday it is").await;
    t.ada.reopen(&dive.fork).await;
    let fork = format!("/v1/forks/{}", dive.fork);
    let content = json!({"headline": "x", "action_items": [{"text": "x"}]});
    let published = t.ada.publish_as(&dive.fork, content).await;
    let item = text(&published, "/resolution/action_items/0/id");
    t.ada.reopen(&dive.fork).await;
    let before = t.ada.events().await.len();
    for (path, body) in [
        (
            format!("/v1/threads/{}/forks", dive.thread),
            json!({"message_id": dive.root}),
        ),
        (format!("{fork}/messages"), json!({"content": "x"})),
        (format!("{fork}/resolve"), json!({})),
        (
            format!("{fork}/publish"),
            json!({"resolution": {"headline": "x"}}),
        ),
        (format!("{fork}/abandon"), json!({})),
        (format!("{fork}/reopen"), json!({})),
        (
            format!("/v1/threads/{thread}/messages"),
            json!({"content": "x"}),
        ),
        (
            format!("/v1/channels/{}/threads", t.general),
            json!({"content": "x"}),
        ),
        ("/v1/channels".to_owned(), json!({"name": "x"})),
        ("/v1/direct".to_owned(), json!({"member_ids": [t.ada.id]})),
        ("/v1/invites".to_owned(), json!({})),
        (
            "/v1/agents".to_owned(),
            json!({"name": "x", "instructions": "x"}),
        ),
        (
            format!("/v1/channels/{}/members", t.general),
            json!({"user_id": t.bo.id}),
        ),
        (format!("/v1/channels/{}/archive", t.general), json!({})),
        (format!("/v1/channels/{}/leave", t.general), json!({})),
        (format!("/v1/tasks/{task}/cancel"), json!({})),
        (format!("/v1/tasks/{task}/retry"), json!({})),
        (
            "/v1/api-keys".to_owned(),
            json!({"name": "x", "scopes": ["chat:write"]}),
        ),
    ] {
        vera.post(&path, body).await.refused(403);
    }
    for (path, body) in [
        (format!("/v1/messages/{message}"), json!({"content": "x"})),
        (format!("/v1/threads/{thread}"), json!({"title": "x"})),
        (format!("/v1/channels/{}", t.general), json!({"topic": "x"})),
        (format!("/v1/agents/{vibe}"), json!({"description": "x"})),
        (
            format!("/v1/workspaces/{}", t.ada.workspace),
            json!({"name": "x"}),
        ),
        (
            format!("/v1/members/{}", t.bo.id),
            json!({"role": "viewer"}),
        ),
        (fork, json!({"title": "x"})),
        (format!("/v1/action-items/{item}"), json!({"done": true})),
    ] {
        vera.patch(&path, body).await.refused(403);
    }
    vera.edit_draft(&dive.fork, 1, json!({"headline": "x"}))
        .await
        .refused(403);
    vera.put(&format!("/v1/messages/{message}/reactions/x"), json!({}))
        .await
        .refused(403);
    vera.delete(&format!("/v1/messages/{message}"))
        .await
        .refused(403);
    vera.delete(&format!("/v1/members/{}", t.bo.id))
        .await
        .refused(403);
    let mut socket = vera.socket().await;
    let refused = socket
        .request(
            json!({"type": "message.send", "thread_id": thread, "content": "x", "client_id": "1"}),
        )
        .await;
    assert_eq!(refused["error"]["type"], "permission_denied");
    let refused = socket
        .request(
            json!({"type": "message.send", "fork_id": dive.fork, "content": "x", "client_id": "2"}),
        )
        .await;
    assert_eq!(refused["error"]["type"], "permission_denied");
    assert_eq!(t.ada.events().await.len(), before, "nothing changed");
}

#[tokio::test]
async fn a_viewer_can_leave_the_workspace() {
    let t = team().await;
    let vera = t.app.join(&t.ada, "Vera", "viewer").await;
    vera.delete(&format!("/v1/members/{}", vera.id))
        .await
        .is(204);
    vera.in_workspace(&t.ada.workspace)
        .get("/v1/channels")
        .await
        .refused(404);
}

#[tokio::test]
async fn a_member_has_no_admin_permissions() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let message = text(&t.ada.start(&t.general, "Ada's").await, "/message/id");
    t.bo.post("/v1/invites", json!({})).await.refused(403);
    t.bo.get("/v1/invites").await.refused(403);
    t.bo.get("/v1/audit-log").await.refused(403);
    t.bo.patch(&format!("/v1/members/{}", cy.id), json!({"role": "viewer"}))
        .await
        .refused(403);
    t.bo.patch(&format!("/v1/members/{}", cy.id), json!({"handle": "x"}))
        .await
        .refused(403);
    t.bo.patch(
        &format!("/v1/members/{}", t.bo.id),
        json!({"role": "admin"}),
    )
    .await
    .refused(403);
    t.bo.delete(&format!("/v1/members/{}", cy.id))
        .await
        .refused(403);
    t.bo.patch(
        &format!("/v1/workspaces/{}", t.ada.workspace),
        json!({"name": "x"}),
    )
    .await
    .refused(403);
    t.bo.delete(&format!("/v1/messages/{message}"))
        .await
        .refused(403);
    t.bo.act(&format!("/v1/channels/{}/archive", t.general))
        .await
        .refused(403);
}

#[tokio::test]
async fn an_admin_can_delete_other_users_messages() {
    let t = team().await;
    let started = t.bo.start(&t.general, "Bo's").await;
    let gone = t
        .ada
        .delete(&format!("/v1/messages/{}", text(&started, "/message/id")))
        .await
        .is(200);
    assert!(gone["deleted_at"].is_string());
}

#[tokio::test]
async fn a_role_change_takes_effect_at_once() {
    let t = team().await;
    let thread = t.bo.thread(&t.general, "Hello").await;
    let path = format!("/v1/members/{}", t.bo.id);
    assert_eq!(
        t.ada.patch(&path, json!({"role": "viewer"})).await.is(200)["role"],
        "viewer"
    );
    t.bo.post(
        &format!("/v1/threads/{thread}/messages"),
        json!({"content": "x"}),
    )
    .await
    .refused(403);
    t.ada.patch(&path, json!({"role": "admin"})).await.is(200);
    t.bo.post("/v1/invites", json!({})).await.is(201);
    t.ada
        .patch(&path, json!({"role": "owner"}))
        .await
        .refused(400);
}

#[tokio::test]
async fn the_last_admin_cannot_leave_or_be_demoted() {
    let t = team().await;
    let own = format!("/v1/members/{}", t.ada.id);
    assert_eq!(t.ada.delete(&own).await.refused(409), "last_admin");
    for role in ["member", "viewer"] {
        assert_eq!(
            t.ada.patch(&own, json!({"role": role})).await.refused(409),
            "last_admin"
        );
    }
    t.ada
        .patch(
            &format!("/v1/members/{}", t.bo.id),
            json!({"role": "admin"}),
        )
        .await
        .is(200);
    t.ada.patch(&own, json!({"role": "member"})).await.is(200);
    t.bo.delete(&own).await.is(204);
    assert_eq!(list(&t.bo.get("/v1/members").await.ok(), "/data").len(), 1);
}

#[tokio::test]
async fn one_of_two_admins_who_demote_each_other_concurrently_remains() {
    let t = team().await;
    t.ada
        .patch(
            &format!("/v1/members/{}", t.bo.id),
            json!({"role": "admin"}),
        )
        .await
        .is(200);
    let (own_a, own_b) = (
        format!("/v1/members/{}", t.ada.id),
        format!("/v1/members/{}", t.bo.id),
    );
    let (a, b) = tokio::join!(
        t.ada.patch(&own_a, json!({"role": "member"})),
        t.bo.patch(&own_b, json!({"role": "member"}))
    );
    let mut statuses = [a.status, b.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
}

#[tokio::test]
async fn a_removed_member_loses_access_and_their_messages_remain() {
    let t = team().await;
    let thread = t.bo.thread(&t.general, "Bo was here").await;
    let mut socket = t.ada.socket().await;
    t.ada
        .delete(&format!("/v1/members/{}", t.bo.id))
        .await
        .is(204);
    assert_eq!(
        socket.of("member.removed").await["data"]["member"]["user_id"],
        t.bo.id.as_str()
    );
    t.bo.in_workspace(&t.ada.workspace)
        .get("/v1/channels")
        .await
        .refused(404);
    t.bo.get(&format!("/v1/threads/{thread}"))
        .await
        .refused(404);
    let message = &t.ada.messages(&thread).await[0];
    assert_eq!(
        (&message["content"], &message["author"]["name"]),
        (&json!("Bo was here"), &json!("Bo"))
    );
    let again = t.app.join(&t.ada, "Bo Two", "member").await;
    assert_eq!(
        again.get(&format!("/v1/threads/{thread}")).await.status,
        200
    );
}
