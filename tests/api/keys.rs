//! API keys, with which programs act for a member.

use serde_json::{Value, json};
use sqlx::{Connection, Executor};

use crate::support::{Socket, id, list, sign_up, team, text, within};

#[tokio::test]
async fn a_key_is_shown_once_and_acts_as_its_creator() {
    let t = team().await;
    let made =
        t.bo.post(
            "/v1/api-keys",
            json!({"name": "robot", "scopes": ["chat:read", "chat:write"]}),
        )
        .await
        .is(201);
    let secret = text(&made, "/key");
    assert!(secret.starts_with("ov_"), "{secret}");
    assert_eq!(made["scopes"], json!(["chat:read", "chat:write"]));
    let listed = t.bo.get("/v1/api-keys").await.ok();
    assert_eq!(listed["data"][0]["id"], made["id"]);
    assert!(!listed.to_string().contains(&secret));
    assert_eq!(
        t.app.place.places_of(&secret).await,
        Vec::<String>::new(),
        "only its hash is stored"
    );
    let robot = t.bo.with_key(&secret);
    let thread = robot.thread(&t.general, "Beep").await;
    let message = &t.ada.messages(&thread).await[0];
    assert_eq!(message["author"]["id"], t.bo.id.as_str());
    assert_eq!(message["metadata"]["api_key_id"], made["id"]);
}

#[tokio::test]
async fn a_key_needs_no_origin() {
    let t = team().await;
    let (mut robot, _) = t.bo.make_key(&["chat:read", "chat:write"]).await;
    robot.thread(&t.general, "Beep").await;
    robot.origin = Some("https://elsewhere.example".to_owned());
    robot.thread(&t.general, "Boop").await;
}

#[tokio::test]
async fn a_key_is_limited_to_its_scopes() {
    let t = team().await;
    let thread = t.bo.thread(&t.general, "Hello").await;
    let (reader, _) = t.bo.make_key(&["chat:read"]).await;
    reader
        .get(&format!("/v1/threads/{thread}/messages"))
        .await
        .is(200);
    let post = reader
        .post(
            &format!("/v1/threads/{thread}/messages"),
            json!({"content": "x"}),
        )
        .await;
    assert_eq!(post.refused(403), "scope_missing");
    reader.get("/v1/agents").await.refused(403);
    let (writer, _) = t.bo.make_key(&["chat:write"]).await;
    writer
        .post(
            &format!("/v1/threads/{thread}/messages"),
            json!({"content": "x"}),
        )
        .await
        .is(201);
    for path in [
        "/v1/snapshot".to_owned(),
        "/v1/channels".to_owned(),
        "/v1/events".to_owned(),
        format!("/v1/threads/{thread}/messages"),
    ] {
        writer.get(&path).await.refused(403);
    }
    let (agents, _) = t.bo.make_key(&["agents:read"]).await;
    agents.get("/v1/agents").await.is(200);
    agents
        .post("/v1/agents", json!({"name": "x", "instructions": "x"}))
        .await
        .refused(403);
}

#[tokio::test]
async fn without_agents_use_a_keys_agent_mentions_are_plain_text() {
    let t = team().await;
    let (robot, _) = t.bo.make_key(&["chat:read", "chat:write"]).await;
    let started = robot.start(&t.general, "@vibe and @ada").await;
    assert_eq!(started["tasks"], json!([]));
    let kinds: Vec<String> = list(&started, "/message/mentions")
        .iter()
        .map(|m| text(m, "/type"))
        .collect();
    assert_eq!(kinds, ["user"]);
    let (user, _) =
        t.bo.make_key(&["chat:read", "chat:write", "agents:use"])
            .await;
    assert_eq!(
        list(&user.start(&t.general, "@vibe hi").await, "/tasks").len(),
        1
    );
}

#[tokio::test]
async fn without_agents_use_a_key_does_not_invoke_a_bound_agent() {
    let t = team().await;
    let vibe = id(&t.ada.agent("vibe").await);
    let path = format!("/v1/channels/{}/threads", t.general);
    let started =
        t.bo.post(&path, json!({"content": "Hello", "agent_id": vibe}))
            .await
            .is(201);
    let (robot, _) = t.bo.make_key(&["chat:read", "chat:write"]).await;
    let posted = robot
        .say(&text(&started, "/thread/id"), "From a program")
        .await;
    assert_eq!(posted["tasks"], json!([]));
}

#[tokio::test]
async fn a_key_has_no_more_permissions_than_its_creator() {
    let t = team().await;
    t.bo.post(
        "/v1/api-keys",
        json!({"name": "x", "scopes": ["workspace:admin"]}),
    )
    .await
    .refused(403);
    let (admin, _) = t
        .ada
        .make_key(&["chat:read", "chat:write", "workspace:admin"])
        .await;
    admin.post("/v1/invites", json!({})).await.is(201);
    t.ada
        .patch(
            &format!("/v1/members/{}", t.bo.id),
            json!({"role": "admin"}),
        )
        .await
        .is(200);
    t.bo.patch(
        &format!("/v1/members/{}", t.ada.id),
        json!({"role": "viewer"}),
    )
    .await
    .is(200);
    admin.post("/v1/invites", json!({})).await.refused(403);
    admin
        .post("/v1/channels", json!({"name": "x"}))
        .await
        .refused(403);
    admin.get("/v1/channels").await.is(200);
}

#[tokio::test]
async fn an_unknown_or_missing_scope_is_rejected() {
    let t = team().await;
    t.ada
        .post(
            "/v1/api-keys",
            json!({"name": "x", "scopes": ["chat:everything"]}),
        )
        .await
        .refused(400);
    t.ada
        .post("/v1/api-keys", json!({"name": "x", "scopes": []}))
        .await
        .refused(422);
    t.ada
        .post("/v1/api-keys", json!({"name": "", "scopes": ["chat:read"]}))
        .await
        .refused(422);
    t.ada
        .post(
            "/v1/api-keys",
            json!({"name": "x", "scopes": ["chat:read"], "expires_in_s": 0}),
        )
        .await
        .refused(422);
}

#[tokio::test]
async fn a_deleted_key_is_rejected() {
    let t = team().await;
    let (robot, key) = t.bo.make_key(&["chat:read"]).await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    cy.delete(&format!("/v1/api-keys/{key}")).await.refused(404);
    t.bo.delete(&format!("/v1/api-keys/{key}")).await.is(204);
    robot.get("/v1/channels").await.refused(401);
    assert_eq!(t.bo.get("/v1/api-keys").await.ok()["data"], json!([]));
}

#[tokio::test]
async fn a_key_cannot_change_other_keys_or_memberships_but_can_revoke_itself() {
    let t = team().await;
    let (robot, own) =
        t.bo.make_key(&["chat:read", "chat:write", "agents:use"])
            .await;
    let (_, other) = t.bo.make_key(&["chat:read"]).await;
    for refused in [
        robot.get("/v1/api-keys").await,
        robot.delete(&format!("/v1/api-keys/{other}")).await,
        robot.delete(&format!("/v1/members/{}", t.bo.id)).await,
    ] {
        assert_eq!(refused.refused(403), "session_required");
    }
    assert_eq!(list(&t.bo.get("/v1/api-keys").await.ok(), "/data").len(), 2);
    robot.delete(&format!("/v1/api-keys/{own}")).await.is(204);
    robot.get("/v1/channels").await.refused(401);
}

#[tokio::test]
async fn a_key_expires_with_the_membership() {
    let t = team().await;
    let (robot, _) = t.bo.make_key(&["chat:read"]).await;
    let mut socket = robot.socket().await;
    t.ada
        .delete(&format!("/v1/members/{}", t.bo.id))
        .await
        .is(204);
    assert_eq!(socket.closed().await, 4003);
    let after = robot.get("/v1/channels").await;
    assert!(matches!(after.status, 401 | 404), "{}", after.status);
}

#[tokio::test]
async fn a_key_is_limited_to_its_workspace() {
    let t = team().await;
    let second = id(&t
        .ada
        .post("/v1/workspaces", json!({"name": "Second"}))
        .await
        .is(201));
    let there = t.ada.in_workspace(&second);
    let elsewhere = id(&there.channel("general").await);
    let ada = t.ada.in_workspace(&t.ada.workspace);
    let (robot, _) = ada.make_key(&["chat:read", "chat:write"]).await;
    let mut robot = robot;
    robot.workspace_header = None;
    let own: Vec<String> = list(&robot.get("/v1/channels").await.ok(), "/data")
        .iter()
        .map(id)
        .collect();
    assert!(
        !own.contains(&elsewhere),
        "its own workspace without a header"
    );
    robot
        .get(&format!("/v1/channels/{elsewhere}"))
        .await
        .refused(404);
    robot
        .post(
            &format!("/v1/channels/{elsewhere}/threads"),
            json!({"content": "x"}),
        )
        .await
        .refused(404);
    robot
        .get(&format!("/v1/workspaces/{second}"))
        .await
        .refused(404);
    robot.workspace_header = Some(second);
    robot.get("/v1/channels").await.refused(404);
}

#[tokio::test]
async fn a_key_opens_a_socket_without_origin() {
    let t = team().await;
    let (robot, key) = t.bo.make_key(&["chat:read"]).await;
    let mut socket = robot.socket().await;
    t.ada.thread(&t.general, "Hello").await;
    assert_eq!(
        socket.of("message.created").await["data"]["message"]["content"],
        "Hello"
    );
    t.bo.delete(&format!("/v1/api-keys/{key}")).await.is(204);
    assert_eq!(socket.closed().await, 4001);
}

#[tokio::test]
async fn account_settings_require_a_session() {
    let t = team().await;
    let (robot, _) = t
        .ada
        .make_key(&["chat:read", "chat:write", "workspace:admin"])
        .await;
    robot
        .post(
            "/v1/auth/password",
            json!({"current_password": "correct horse", "new_password": "battery staple"}),
        )
        .await
        .refused(403);
    robot.act("/v1/auth/logout").await.refused(403);
    robot
        .patch("/v1/auth/me", json!({"name": "Robot"}))
        .await
        .refused(403);
    robot
        .post("/v1/workspaces", json!({"name": "Robots"}))
        .await
        .refused(403);
    robot.get("/v1/auth/me").await.is(200);
}

#[tokio::test]
async fn a_key_records_its_last_use() {
    let t = team().await;
    let (robot, _) = t.bo.make_key(&["chat:read"]).await;
    let fresh: Value = t.bo.get("/v1/api-keys").await.ok();
    assert!(fresh["data"][0]["last_used_at"].is_null());
    let mut socket: Socket = robot.socket().await;
    socket.settle().await;
    robot.get("/v1/channels").await.is(200);
    // The time of use is recorded asynchronously.
    let noted = async {
        while t.bo.get("/v1/api-keys").await.ok()["data"][0]["last_used_at"].is_null() {
            crate::support::pause().await;
        }
    };
    crate::support::within("the use to be noted", noted).await;
}

#[tokio::test]
async fn an_expired_key_is_rejected() {
    let t = team().await;
    let form = json!({"name": "short", "scopes": ["chat:read"], "expires_in_s": 1});
    let robot = t.bo.with_key(&text(
        &t.bo.post("/v1/api-keys", form).await.is(201),
        "/key",
    ));
    robot.get("/v1/channels").await.is(200);
    let expired = async {
        while robot.get("/v1/channels").await.status == 200 {
            crate::support::pause().await;
        }
    };
    crate::support::within("the key to expire", expired).await;
    robot.get("/v1/channels").await.refused(401);
}

#[tokio::test]
async fn a_socket_closes_when_its_key_expires() {
    let t = team().await;
    let form = json!({"name": "short", "scopes": ["chat:read"], "expires_in_s": 5});
    let key = t.bo.post("/v1/api-keys", form).await.is(201);
    let mut socket = t.bo.with_key(&text(&key, "/key")).socket().await;
    assert_eq!(socket.closed().await, 4001);
    let heartbeats = socket.drained();
    let heartbeats = heartbeats
        .iter()
        .filter(|frame| frame["type"] == "heartbeat");
    assert_eq!(heartbeats.count(), 0, "the access was checked before that");
}

#[tokio::test]
async fn a_user_in_several_workspaces_has_keys_in_each() {
    let t = team().await;
    let second = id(&t
        .ada
        .post("/v1/workspaces", json!({"name": "Second"}))
        .await
        .is(201));
    let first = t.ada.in_workspace(&t.ada.workspace);
    first.make_key(&["chat:read"]).await;
    assert_eq!(
        t.ada.in_workspace(&second).get("/v1/api-keys").await.ok()["data"],
        json!([])
    );
    let cy = sign_up(
        &t.app.base,
        "Cy",
        Some(&text(
            &first.post("/v1/invites", json!({})).await.is(201),
            "/token",
        )),
    )
    .await;
    assert_eq!(
        cy.get("/v1/api-keys").await.ok()["data"],
        json!([]),
        "only the caller's own"
    );
}

#[tokio::test]
async fn a_key_reads_and_writes_dives_within_its_scopes() {
    let t = team().await;
    let (dive, published) = t.resolved("Monday it is").await;
    let fork = format!("/v1/forks/{}", dive.fork);
    let (reader, _) = t.bo.make_key(&["chat:read"]).await;
    let (writer, _) = t.bo.make_key(&["chat:write"]).await;
    let reads = [
        format!("/v1/threads/{}/forks", dive.thread),
        fork.clone(),
        format!("{fork}/messages"),
        format!("{fork}/resolution"),
        format!("{fork}/resolutions"),
        "/v1/decisions".to_owned(),
        "/v1/action-items".to_owned(),
    ];
    for path in &reads {
        reader.get(path).await.is(200);
        assert_eq!(
            writer.get(path).await.refused(403),
            "scope_missing",
            "{path}"
        );
    }
    t.bo.reopen(&dive.fork).await;
    let revision = published["resolution"]["revision"].as_i64().unwrap();
    for refused in [
        reader.try_fork(&dive.thread, &dive.root, json!({})).await,
        reader.patch(&fork, json!({"title": "x"})).await,
        reader.try_say_in(&dive.fork, "x").await,
        reader.try_resolve(&dive.fork, json!({})).await,
        reader
            .edit_draft(&dive.fork, revision, json!({"headline": "x"}))
            .await,
        reader.try_publish(&dive.fork, json!({})).await,
        reader.act(&format!("{fork}/abandon")).await,
        reader.act(&format!("{fork}/reopen")).await,
    ] {
        assert_eq!(refused.refused(403), "scope_missing");
    }
    writer.say_in(&dive.fork, "Beep").await;
    writer
        .edit_draft(&dive.fork, revision, json!({"headline": "Beep"}))
        .await
        .is(200);
    writer.publish(&dive.fork).await;
    let card = t.ada.messages(&dive.thread).await.pop().unwrap();
    assert_eq!(card["author"]["id"], t.bo.id.as_str());
}

#[tokio::test]
async fn without_agents_use_a_key_cannot_resolve_with_an_agent() {
    let t = team().await;
    let dive = t.dive().await;
    let (robot, _) = t.bo.make_key(&["chat:read", "chat:write"]).await;
    let vibe = t.ada.agent("vibe").await["id"].clone();
    let chosen = robot
        .try_fork(&dive.thread, &dive.root, json!({"agent_id": vibe}))
        .await;
    assert_eq!(chosen.refused(403), "scope_missing");
    let changed = robot
        .patch(
            &format!("/v1/forks/{}", dive.fork),
            json!({"agent_id": vibe}),
        )
        .await;
    assert_eq!(changed.refused(403), "scope_missing");
    let fork = robot.start_fork(&dive.thread, &dive.root, json!({})).await;
    let fork = id(&fork);
    let said = robot.say_in(&fork, "From a program").await;
    assert_eq!(said["tasks"], json!([]));
    let mentioned = robot.say_in(&fork, "@vibe please").await;
    assert_eq!(mentioned["tasks"], json!([]));
    let resolved = robot.try_resolve(&fork, json!({})).await;
    assert_eq!(resolved.refused(403), "scope_missing");
    let (user, _) =
        t.bo.make_key(&["chat:read", "chat:write", "agents:use"])
            .await;
    let task = user.resolve(&fork).await;
    t.bo.completed(&task).await;
}

#[tokio::test]
async fn a_key_is_not_made_after_a_password_change_that_ends_the_session() {
    let t = team().await;
    let Some(url) = t.app.place.postgres.clone() else {
        // SQLite has only one writer, so the two commands cannot overlap.
        return;
    };
    let mut change = sqlx::PgConnection::connect(&url).await.unwrap();
    let mut observer = sqlx::PgConnection::connect(&url).await.unwrap();
    // Begins a password change without committing it.
    change
        .execute("begin; update users set password_hash = password_hash; delete from api_keys; delete from sessions")
        .await
        .unwrap();
    let form = json!({"name": "Robot", "scopes": ["chat:read"]});
    let waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    let commit = async {
        let blocked = async {
            loop {
                let waiting: i64 = sqlx::query_scalar(waits)
                    .fetch_one(&mut observer)
                    .await
                    .unwrap();
                if waiting > 0 {
                    break;
                }
                crate::support::pause().await;
            }
        };
        within("the key to wait for the change", blocked).await;
        change.execute("commit").await.unwrap();
    };
    let (made, ()) = tokio::join!(t.bo.post("/v1/api-keys", form), commit);
    made.refused(401);
    let keys: i64 = sqlx::query_scalar("select count(*) from api_keys")
        .fetch_one(&mut observer)
        .await
        .unwrap();
    assert_eq!(keys, 0);
}
