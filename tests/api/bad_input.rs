//! Malformed requests are rejected with the standard error format and do not change anything.

use serde_json::{Value, json};

use crate::support::{Team, id, team, text, unknown_id};

/// Sends invalid messages to a thread. Every response has `status`, and nothing is posted.
async fn refused_posts(t: &Team, status: u16, bodies: &[&[u8]]) {
    let thread = t.ada.thread(&t.general, "Root").await;
    let before = t.ada.events().await.len();
    for body in bodies {
        let path = format!("/v1/threads/{thread}/messages");
        t.ada.post_bytes(&path, *body).await.refused(status);
    }
    assert_eq!(t.ada.events().await.len(), before);
}

#[tokio::test]
async fn a_body_that_is_not_json_is_rejected() {
    let t = team().await;
    let bodies: &[&[u8]] = &[
        b"{",
        b"content=x",
        b"{\"content\":\"x\"} trailing",
        b"{\"content\":\"x\"",
        b"\xff\xfe",
        b"{\"content\":\"\xff\"}",
        b"{\"content\":\"\\ud800\"}",
        b"{\"content\":\"raw \x00 nul\"}",
        b"{'content':'x'}",
        b"{\"content\":NaN}",
    ];
    refused_posts(&t, 400, bodies).await;
}

#[tokio::test]
async fn json_of_the_wrong_shape_is_rejected() {
    let t = team().await;
    let bodies: &[&[u8]] = &[
        b"",
        b"null",
        b"[]",
        b"\"x\"",
        b"7",
        b"{}",
        b"{\"content\":null}",
        b"{\"content\":7}",
        b"{\"content\":[\"x\"]}",
        b"{\"content\":{\"text\":\"x\"}}",
        b"{\"content\":\"x\",\"unknown\":1}",
        b"{\"content\":\"x\",\"content\":\"y\"}",
        b"{\"content\":\"x\",\"client_id\":7}",
        b"{\"content\":\"x\",\"parent_id\":7}",
    ];
    refused_posts(&t, 400, bodies).await;
}

#[tokio::test]
async fn deep_nesting_is_rejected_safely() {
    let t = team().await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    refused_posts(
        &t,
        400,
        &[
            deep.as_bytes(),
            format!("{{\"content\":{deep}}}").as_bytes(),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_nul_character_is_rejected_everywhere() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    for (path, body) in [
        (
            format!("/v1/threads/{thread}/messages"),
            r#"{"content":"a\u0000b"}"#,
        ),
        (
            format!("/v1/threads/{thread}/messages"),
            r#"{"content":"x","client_id":"a\u0000b"}"#,
        ),
        ("/v1/channels".to_owned(), r#"{"name":"a\u0000b"}"#),
        (
            "/v1/channels".to_owned(),
            r#"{"name":"x","topic":"a\u0000b"}"#,
        ),
        ("/v1/workspaces".to_owned(), r#"{"name":"a\u0000b"}"#),
        (
            "/v1/agents".to_owned(),
            r#"{"name":"x","instructions":"a\u0000b"}"#,
        ),
        (
            "/v1/agents".to_owned(),
            r#"{"name":"x","instructions":"x","metadata":{"a\u0000b":"c"}}"#,
        ),
        (
            "/v1/auth/login".to_owned(),
            r#"{"email":"a\u0000b","password":"x"}"#,
        ),
    ] {
        let reply = t.ada.post_bytes(&path, body).await;
        assert!(
            matches!(reply.status, 400 | 422),
            "{path} {body}: {}",
            reply.text
        );
    }
    t.ada.get("/v1/agents?name=a%00b").await.refused(400);
    t.ada.get("/v1/channels/a%00b").await.refused(400);
    t.ada.get("/v1/tasks?status=%00").await.refused(400);
}

#[tokio::test]
async fn an_escaped_backslash_before_u0000_is_text() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let message = t.ada.tell(&thread, "a\\u0000b").await;
    assert_eq!(t.ada.message(&message).await["content"], "a\\u0000b");
}

#[tokio::test]
async fn malformed_ids_are_rejected_with_400() {
    let t = team().await;
    let malformed = [
        "x".to_owned(),
        "msg_".to_owned(),
        "msg_01k5".to_owned(),
        unknown_id("msg").to_uppercase(),
        format!("{}x", unknown_id("msg")),
        unknown_id("msg").replace("msg_0", "msg_8"),
        unknown_id("msg").replace('k', "u"),
        "0192d3b4-0000-7000-8000-000000000000".to_owned(),
        "1".to_owned(),
        "%20".to_owned(),
        "é".to_owned(),
    ];
    for bad in malformed {
        t.ada.get(&format!("/v1/messages/{bad}")).await.refused(400);
        t.ada
            .get(&format!("/v1/channels?after={bad}"))
            .await
            .refused(400);
        let body = json!({"content": "x", "parent_id": bad});
        let thread = t.ada.thread(&t.general, "Root").await;
        t.ada
            .post(&format!("/v1/threads/{thread}/messages"), body)
            .await
            .refused(400);
    }
}

#[tokio::test]
async fn an_unknown_id_is_not_found() {
    let t = team().await;
    for path in [
        "channels",
        "threads",
        "messages",
        "tasks",
        "agents",
        "workspaces",
    ] {
        let prefix = match path {
            "channels" => "chan",
            "threads" => "thread",
            "messages" => "msg",
            "tasks" => "task",
            "agents" => "agent",
            _ => "ws",
        };
        t.ada
            .get(&format!("/v1/{path}/{}", unknown_id(prefix)))
            .await
            .refused(404);
    }
    t.ada
        .delete(&format!("/v1/members/{}", unknown_id("user")))
        .await
        .refused(404);
    t.ada
        .delete(&format!("/v1/invites/{}", unknown_id("inv")))
        .await
        .refused(404);
    t.ada
        .delete(&format!("/v1/api-keys/{}", unknown_id("key")))
        .await
        .refused(404);
}

#[tokio::test]
async fn an_id_of_the_wrong_kind_in_a_body_is_unprocessable() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let wrong = [
        (
            format!("/v1/threads/{thread}/messages"),
            json!({"content": "x", "parent_id": thread}),
        ),
        (
            format!("/v1/channels/{}/threads", t.general),
            json!({"content": "x", "agent_id": t.ada.id}),
        ),
        (
            format!("/v1/channels/{}/members", t.general),
            json!({"user_id": t.general}),
        ),
        ("/v1/direct".to_owned(), json!({"member_ids": [t.general]})),
        ("/v1/direct".to_owned(), json!({"agent_id": t.ada.id})),
    ];
    for (path, body) in wrong {
        assert_eq!(
            t.ada.post(&path, body).await.refused(422),
            "wrong_kind_of_id"
        );
    }
    t.ada
        .patch(
            &format!("/v1/threads/{thread}"),
            json!({"agent_id": t.general}),
        )
        .await
        .refused(422);
}

#[tokio::test]
async fn a_limit_out_of_range_is_rejected_and_never_clamped() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let lists = [
        "/v1/channels".to_owned(),
        "/v1/members".to_owned(),
        "/v1/agents".to_owned(),
        "/v1/tasks".to_owned(),
        "/v1/invites".to_owned(),
        "/v1/audit-log".to_owned(),
        "/v1/events".to_owned(),
        format!("/v1/channels/{}/threads", t.general),
        format!("/v1/channels/{}/members", t.general),
        format!("/v1/threads/{thread}/messages"),
    ];
    for path in lists {
        for bad in [
            "",
            "0",
            "-1",
            "101",
            "1.5",
            "many",
            "99999999999999999999",
            "%00",
            "1e1",
            "0x10",
        ] {
            t.ada.get(&format!("{path}?limit={bad}")).await.refused(400);
        }
        let repeated = format!("{path}?limit=5&limit=7");
        t.ada.get(&repeated).await.refused(400);
        for good in ["1", "100"] {
            t.ada.get(&format!("{path}?limit={good}")).await.is(200);
        }
    }
}

#[tokio::test]
async fn unknown_and_repeated_parameters_are_rejected() {
    let t = team().await;
    t.ada.get("/v1/channels?colour=red").await.refused(400);
    t.ada.get("/v1/channels?limit=1&limit=2").await.refused(400);
    t.ada.get("/v1/tasks?limit=1&li%6Dit=1").await.refused(400);
    for empty in ["limit", "after", "before", "thread_id"] {
        let path = format!("/v1/tasks?{empty}=");
        let code = t.ada.get(&path).await.refused(400);
        let expected = if empty == "limit" {
            "invalid_limit"
        } else {
            "invalid_id"
        };
        assert_eq!(code, expected, "{path}");
    }
    t.ada.get("/v1/tasks?status=asleep").await.refused(400);
    t.ada.get("/v1/agents?status=asleep").await.refused(400);
    t.ada.get("/v1/events?after=-1").await.refused(400);
    t.ada.get("/v1/events?after=now").await.refused(400);
    let id = id(&t.ada.channel("general").await);
    t.ada
        .get(&format!("/v1/channels?after={id}&before={id}"))
        .await
        .refused(400);
}

#[tokio::test]
async fn unknown_enum_values_are_rejected() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    t.ada
        .patch(&format!("/v1/threads/{thread}"), json!({"status": "lost"}))
        .await
        .refused(400);
    t.ada
        .patch(
            &format!("/v1/members/{}", t.bo.id),
            json!({"role": "owner"}),
        )
        .await
        .refused(400);
    t.ada
        .post(
            "/v1/agents",
            json!({"name": "x", "instructions": "x", "role": "boss"}),
        )
        .await
        .refused(400);
}

#[tokio::test]
async fn a_body_above_1_mib_is_too_large() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let body = format!("{{\"content\":\"{}\"}}", "x".repeat(1024 * 1024));
    assert_eq!(
        t.ada
            .post_bytes(&format!("/v1/threads/{thread}/messages"), body)
            .await
            .refused(413),
        "body_too_large"
    );
    let instructions = json!({"name": "x", "instructions": "x".repeat(256 * 1024 + 1)});
    t.ada.post("/v1/agents", instructions).await.refused(413);
    let instructions = json!({"name": "x", "instructions": "x".repeat(256 * 1024)});
    t.ada.post("/v1/agents", instructions).await.is(201);
}

#[tokio::test]
async fn unknown_paths_return_404_and_wrong_methods_405() {
    let t = team().await;
    for path in [
        "/v1",
        "/v1/",
        "/v1/nothing",
        "/v1/channels/",
        "/v1/search/nothing",
        "/v1/files/",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
    ] {
        assert_eq!(
            t.ada.get(path).await.refused(404),
            "route_not_found",
            "{path}"
        );
    }
    t.ada.post("/v1/nothing", json!({})).await.refused(404);
    t.ada.delete("/v1/channels").await.refused(405);
    t.ada.put("/v1/auth/me", json!({})).await.refused(405);
}

#[tokio::test]
async fn an_action_accepts_an_empty_object_or_no_body() {
    let t = team().await;
    let path = format!("/v1/channels/{}/read", t.general);
    t.ada.act(&path).await.is(200);
    t.ada.post(&path, json!({})).await.is(200);
}

#[tokio::test]
async fn an_action_without_fields_takes_no_other_body() {
    let t = team().await;
    let dive = t.dive().await;
    let before = t.ada.events().await.len();
    for action in [
        format!("/v1/channels/{}/leave", t.general),
        format!("/v1/channels/{}/archive", t.general),
        format!("/v1/forks/{}/abandon", dive.fork),
        "/v1/auth/logout".to_owned(),
    ] {
        for body in ["{\"unknown\":1}", "[]", "null", "7", "{"] {
            t.ada.post_bytes(&action, body).await.refused(400);
        }
    }
    assert_eq!(t.ada.events().await.len(), before);
}

#[tokio::test]
async fn an_array_does_not_count_as_the_fields_of_an_object() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let before = t.ada.events().await.len();
    for body in [json!([]), json!(["Title"]), json!(["Title", null])] {
        let path = format!("/v1/threads/{thread}");
        let refused = t.ada.patch(&path, body).await;
        assert_eq!(refused.refused(400), "invalid_field");
    }
    t.ada
        .put(&format!("/v1/threads/{thread}/read"), json!([0]))
        .await
        .refused(400);
    assert_eq!(t.ada.events().await.len(), before);
}

#[tokio::test]
async fn an_error_names_the_field() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let path = format!("/v1/threads/{thread}/messages");
    for (body, param) in [
        (json!({"content": 7}), "content"),
        (json!({"content": " "}), "content"),
        (json!({"content": "x", "parent_id": "y"}), "parent_id"),
    ] {
        let error: Value = t.ada.post(&path, body).await.json();
        assert_eq!(text(&error, "/error/param"), param, "{error}");
    }
}

#[tokio::test]
async fn an_invalid_if_match_is_rejected() {
    let t = team().await;
    let vibe = id(&t.ada.agent("vibe").await);
    for bad in ["x", "\"x\"", "W/\"1\"", "\"1", "1.0", "-1", "*"] {
        t.ada
            .patch_if(
                &format!("/v1/agents/{vibe}"),
                bad,
                json!({"description": "x"}),
            )
            .await
            .refused(400);
    }
}
