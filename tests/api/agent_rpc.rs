//! `POST /v1/rpc/{method}`: agent operations under the method names used by other agent programs.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Person, TestDatabase, id, instructions_of, list, team, text, unknown_id};

async fn call(person: &Person, method: &str, params: Value) -> Value {
    person
        .post(&format!("/v1/rpc/{method}"), params)
        .await
        .is(200)
}

async fn refused(person: &Person, method: &str, params: Value, status: u16) -> String {
    person
        .post(&format!("/v1/rpc/{method}"), params)
        .await
        .refused(status)
}

#[tokio::test]
async fn agents_list_returns_the_default_and_all_agents_that_are_not_archived() {
    let t = team().await;
    let sage = id(&t.ada.make_agent("sage").await);
    let writer = id(&t.ada.agent("writer").await);
    t.ada.delete(&format!("/v1/agents/{writer}")).await.is(200);
    let all = call(&t.bo, "agents.list", json!({})).await;
    assert_eq!(all["default_id"], t.ada.agent("vibe").await["id"]);
    let names: Vec<String> = list(&all, "/agents")
        .iter()
        .map(|a| text(a, "/name"))
        .collect();
    assert_eq!(names, ["vibe", "coder", "researcher", "sage"]);
    let last = list(&all, "/agents").pop().unwrap();
    assert_eq!(
        (&last["id"], &last["label"], &last["is_default"]),
        (&json!(sage), &json!("sage"), &json!(false))
    );
    let without_body = t.bo.act("/v1/rpc/agents.list").await.is(200);
    assert_eq!(without_body, all);
}

/// Adds copies of the agent `sage`.
async fn copy_agent(place: &TestDatabase, count: usize) {
    let new_id = if place.postgres.is_some() {
        "gen_random_uuid()"
    } else {
        "randomblob(16)"
    };
    let agents = format!(
        "with recursive n (i) as (select 1 union all select i + 1 from n where i < {count}) \
         insert into agents (id, workspace_id, name, status, is_system, mentionable, version, profile, summary, created_by, created_at, updated_at, \
         name_skeleton, name_folded) \
         select {new_id}, a.workspace_id, 'copy-' || cast(n.i as text), a.status, a.is_system, a.mentionable, a.version, a.profile, a.summary, \
           a.created_by, a.created_at, a.updated_at, a.name_skeleton || n.i, a.name_folded || n.i \
         from agents a cross join n where a.name = 'sage'"
    );
    place.run(&[&agents]).await;
}

#[tokio::test]
async fn lists_of_more_than_1000_agents_are_complete_or_report_what_is_missing() {
    const COPIES: usize = 1001;
    let t = team().await;
    t.ada.make_agent("sage").await;
    copy_agent(&t.app.place, COPIES).await;
    let copies = |found: &Value, pointer: &str, field: &str| -> BTreeSet<String> {
        list(found, pointer)
            .iter()
            .map(|agent| text(agent, field))
            .filter(|name| name.contains("copy-"))
            .collect()
    };

    let mut listed = BTreeSet::new();
    let mut page = call(&t.bo, "agents.list", json!({})).await;
    assert_eq!(list(&page, "/agents").len(), 1000);
    while page["after"].is_string() {
        listed.extend(copies(&page, "/agents", "/name"));
        page = call(&t.bo, "agents.list", json!({"after": page["after"]})).await;
    }
    listed.extend(copies(&page, "/agents", "/name"));
    assert_eq!(listed.len(), COPIES);

    let models = t.bo.get("/v1/models").await.is(200);
    assert_eq!(copies(&models, "/data", "/id").len(), COPIES);

    let snapshot = t.bo.get("/v1/snapshot").await.is(200);
    assert_eq!(list(&snapshot, "/agents").len(), 500);
    assert_eq!(snapshot["agents_truncated"], true);
}

#[tokio::test]
async fn agents_get_accepts_an_id_a_name_or_main() {
    let t = team().await;
    let sage = id(&t.ada.make_agent("sage").await);
    let by_id = call(&t.bo, "agents.get", json!({"agent_id": sage})).await;
    assert_eq!(by_id["soul"], instructions_of("sage"));
    assert!(text(&by_id, "/identity").contains("- Name: sage"));
    assert_eq!(
        call(&t.bo, "agents.get", json!({"agent_id": "sage"})).await,
        by_id
    );
    let main = call(&t.bo, "agents.get", json!({"agent_id": "main"})).await;
    assert_eq!(
        (&main["name"], &main["is_default"]),
        (&json!("vibe"), &json!(true))
    );
    assert_eq!(
        refused(&t.bo, "agents.get", json!({"agent_id": "nobody"}), 404).await,
        "agent_not_found"
    );
    assert_eq!(
        refused(
            &t.bo,
            "agents.get",
            json!({"agent_id": unknown_id("agent")}),
            404
        )
        .await,
        "agent_not_found"
    );
    refused(&t.bo, "agents.get", json!({"agent_id": "../etc"}), 404).await;
}

#[tokio::test]
async fn agents_create_and_update_change_the_profile() {
    let t = team().await;
    let form = json!({"id": "sage", "label": "Sage", "emoji": "🌿", "soul": "You are Sage."});
    let made = call(&t.bo, "agents.create", form).await;
    assert_eq!(
        (&made["label"], &made["soul"]),
        (&json!("Sage"), &json!("You are Sage."))
    );
    let path = format!("/v1/agents/{}", id(&made));
    let agent = t.bo.get(&path).await.ok();
    assert_eq!(
        (&agent["name"], &agent["display_name"]),
        (&json!("sage"), &json!("Sage"))
    );
    assert_eq!(
        (&agent["avatar"]["emoji"], &agent["created_by"]),
        (&json!("🌿"), &json!(t.bo.id))
    );
    let changed = json!({"agent_id": "sage", "label": "Owl", "identity": "- Creature: owl", "soul": "You are Owl."});
    let changed = call(&t.bo, "agents.update", changed).await;
    assert_eq!(
        (&changed["version"], &changed["label"]),
        (&json!(2), &json!("Owl"))
    );
    assert_eq!(
        (&changed["identity"], &changed["soul"]),
        (&json!("- Creature: owl"), &json!("You are Owl."))
    );
    let agent = t.bo.get(&path).await.ok();
    assert_eq!(
        (&agent["version"], &agent["instructions"]),
        (&json!(2), &json!("You are Owl."))
    );
    let plain = call(&t.bo, "agents.create", json!({"id": "plain"})).await;
    assert!(!text(&plain, "/soul").is_empty());
    assert_eq!(
        refused(&t.bo, "agents.create", json!({"id": "sage"}), 409).await,
        "name_taken"
    );
    for bad in ["main", "a/b", "..", "", "Sage"] {
        refused(&t.bo, "agents.create", json!({"id": bad}), 422).await;
    }
}

#[tokio::test]
async fn agents_delete_archives_but_rejects_the_default() {
    let t = team().await;
    let sage = id(&t.ada.make_agent("sage").await);
    refused(&t.bo, "agents.delete", json!({"agent_id": "sage"}), 403).await;
    let gone = call(&t.ada, "agents.delete", json!({"agent_id": "sage"})).await;
    assert_eq!(
        (&gone["id"], &gone["deleted"], &gone["status"]),
        (&json!(sage), &json!(true), &json!("archived"))
    );
    assert_eq!(
        t.ada.get(&format!("/v1/agents/{sage}")).await.ok()["status"],
        "archived"
    );
    assert_eq!(
        refused(&t.ada, "agents.delete", json!({"agent_id": "main"}), 409).await,
        "default_agent"
    );
}

#[tokio::test]
async fn agents_set_default_changes_the_default_agent() {
    let t = team().await;
    t.ada.make_agent("sage").await;
    refused(
        &t.bo,
        "agents.set_default",
        json!({"agent_id": "sage"}),
        403,
    )
    .await;
    let now = call(&t.ada, "agents.set_default", json!({"agent_id": "sage"})).await;
    assert_eq!(now["is_default"], true);
    assert_eq!(t.ada.get("/v1/agents/main").await.ok()["name"], "sage");
    assert_eq!(
        refused(
            &t.ada,
            "agents.set_default",
            json!({"agent_id": "writer"}),
            409
        )
        .await,
        "not_active"
    );
}

#[tokio::test]
async fn toggle_active_turns_an_agent_off_and_on() {
    let t = team().await;
    t.ada.make_agent("sage").await;
    refused(
        &t.bo,
        "agent.toggleActive",
        json!({"agent_id": "sage"}),
        403,
    )
    .await;
    assert_eq!(
        call(&t.ada, "agent.toggleActive", json!({"agent_id": "sage"})).await["status"],
        "inactive"
    );
    assert_eq!(
        call(&t.ada, "agent.toggleActive", json!({"agent_id": "sage"})).await["status"],
        "active"
    );
    assert_eq!(
        refused(
            &t.ada,
            "agent.toggleActive",
            json!({"agent_id": "main"}),
            409
        )
        .await,
        "default_agent"
    );
}

#[tokio::test]
async fn agents_files_methods_match_the_http_routes() {
    let t = team().await;
    let sage = id(&t.ada.make_agent("sage").await);
    let set = json!({"agent_id": "sage", "path": "memory/2026-11-20.md", "content": "Logged"});
    let set = call(&t.bo, "agents.files.set", set).await;
    assert_eq!(
        (&set["path"], &set["version"]),
        (&json!("memory/2026-11-20.md"), &json!(1))
    );
    let of = json!({"agent_id": "sage", "path": "memory/2026-11-20.md"});
    let found = call(&t.bo, "agents.files.get", of).await;
    assert_eq!(
        found,
        t.bo.get(&format!("/v1/agents/{sage}/files/memory/2026-11-20.md"))
            .await
            .ok()
    );
    let all = call(&t.bo, "agents.files.list", json!({"agent_id": "sage"})).await;
    assert_eq!(
        all["files"],
        t.bo.get(&format!("/v1/agents/{sage}/files")).await.ok()["data"]
    );
    call(
        &t.bo,
        "agents.files.set",
        json!({"agent_id": "sage", "path": "SOUL.md", "content": "You are Owl."}),
    )
    .await;
    assert_eq!(
        t.bo.get(&format!("/v1/agents/{sage}")).await.ok()["instructions"],
        "You are Owl."
    );
    for path in ["../SOUL.md", "/etc/passwd", "a b", ""] {
        let of = json!({"agent_id": "sage", "path": path});
        assert_eq!(
            refused(&t.bo, "agents.files.get", of, 400).await,
            "invalid_path",
            "{path}"
        );
    }
    refused(
        &t.bo,
        "agents.files.get",
        json!({"agent_id": "sage", "path": "none.md"}),
        404,
    )
    .await;
    refused(
        &t.bo,
        "agents.files.set",
        json!({"agent_id": "sage", "path": "USER.md", "content": "x"}),
        422,
    )
    .await;
}

#[tokio::test]
async fn identity_methods_use_the_threads_agent_or_the_default() {
    let t = team().await;
    let sage = id(&t.ada.make_agent("sage").await);
    let threads = format!("/v1/channels/{}/threads", t.general);
    let started = t
        .ada
        .post(&threads, json!({"content": "Hi", "agent_id": sage}))
        .await
        .is(201);
    let bound = text(&started, "/thread/id");
    let unbound = t.ada.thread(&t.general, "Nobody here").await;
    let name =
        async |params: Value| call(&t.bo, "agent.identity.get", params).await["name"].clone();
    assert_eq!(name(json!({"thread_id": bound})).await, "sage");
    assert_eq!(name(json!({"thread_id": unbound})).await, "vibe");
    assert_eq!(name(json!({})).await, "vibe");
    assert_eq!(name(json!({"thread_id": null})).await, "vibe");
    let soul = json!({"thread_id": bound, "soul": "You are Owl."});
    assert_eq!(
        call(&t.bo, "agent.identity.update_soul", soul).await["soul"],
        "You are Owl."
    );
    let identity = json!({"thread_id": bound, "identity": "- Name: Owl"});
    assert_eq!(
        call(&t.bo, "agent.identity.update", identity).await["label"],
        "Owl"
    );
    let agent = t.ada.get(&format!("/v1/agents/{sage}")).await.ok();
    assert_eq!(
        (&agent["instructions"], &agent["version"]),
        (&json!("You are Owl."), &json!(3))
    );
    assert_eq!(t.ada.agent("vibe").await["version"], 1);
    call(
        &t.ada,
        "agent.identity.update",
        json!({"identity": "- Creature: fox"}),
    )
    .await;
    assert_eq!(t.ada.agent("vibe").await["version"], 2);
}

#[tokio::test]
async fn a_private_thread_is_not_found_for_nonmembers() {
    let t = team().await;
    let channel = t.ada.private_channel("secret", &[]).await;
    let thread = t.ada.thread(&channel, "Ours").await;
    for (method, params) in [
        ("agent.identity.get", json!({"thread_id": thread})),
        (
            "agent.identity.update",
            json!({"thread_id": thread, "identity": "x"}),
        ),
        (
            "agent.identity.update_soul",
            json!({"thread_id": thread, "soul": "x"}),
        ),
        (
            "agent.identity.get",
            json!({"thread_id": unknown_id("thread")}),
        ),
    ] {
        assert_eq!(
            refused(&t.bo, method, params, 404).await,
            "thread_not_found"
        );
    }
    assert_eq!(t.ada.agent("vibe").await["version"], 1);
}

#[tokio::test]
async fn an_unknown_method_or_parameter_is_rejected() {
    let t = team().await;
    for method in ["agents.explode", "agents", "AGENTS.LIST", "agents.list.x"] {
        assert_eq!(
            refused(&t.ada, method, json!({}), 404).await,
            "method_not_found"
        );
    }
    for (method, params) in [
        ("agents.list", json!({"x": 1})),
        ("agents.get", json!({})),
        ("agents.get", json!({"agent_id": 7})),
        ("agents.get", json!({"agent_id": "main", "x": 1})),
        ("agents.create", json!({"label": "x"})),
        ("agents.update", json!({"soul": "x"})),
        (
            "agents.files.set",
            json!({"agent_id": "main", "path": "MEMORY.md"}),
        ),
        ("agent.identity.get", json!({"thread_id": "x"})),
        ("agent.identity.update", json!({})),
        ("agents.list", json!([])),
    ] {
        refused(&t.ada, method, params, 400).await;
    }
    t.ada.get("/v1/rpc/agents.list").await.refused(405);
}

#[tokio::test]
async fn errors_name_the_parameters_of_the_methods() {
    let t = team().await;
    t.ada.make_agent("sage").await;
    let long = "x".repeat(256 * 1024 + 1);
    for (method, params, status, param) in [
        ("agents.create", json!({"id": "Not a name"}), 422, "id"),
        ("agents.create", json!({"id": "sage"}), 409, "id"),
        (
            "agents.create",
            json!({"id": "owl", "label": "x".repeat(81)}),
            422,
            "label",
        ),
        (
            "agents.update",
            json!({"agent_id": "sage", "label": "[x]"}),
            422,
            "label",
        ),
        (
            "agent.identity.update_soul",
            json!({"soul": long}),
            413,
            "soul",
        ),
        ("agents.get", json!({"agent_id": 7}), 400, "agent_id"),
        ("agents.get", json!({}), 400, "agent_id"),
    ] {
        let reply = t.ada.post(&format!("/v1/rpc/{method}"), params).await;
        assert_eq!(reply.status, status, "{method}");
        assert_eq!(reply.json()["error"]["param"], param, "{method}");
    }
}

#[tokio::test]
async fn profile_rules_also_apply_to_methods() {
    let t = team().await;
    t.ada.make_agent("sage").await;
    refused(
        &t.ada,
        "agents.update",
        json!({"agent_id": "sage", "label": "x".repeat(81)}),
        422,
    )
    .await;
    refused(
        &t.ada,
        "agents.update",
        json!({"agent_id": "sage", "soul": " "}),
        422,
    )
    .await;
    refused(
        &t.ada,
        "agents.update",
        json!({"agent_id": "sage", "soul": "x".repeat(256 * 1024 + 1)}),
        413,
    )
    .await;
    refused(
        &t.ada,
        "agents.create",
        json!({"id": "owl", "label": "Owl (AI)"}),
        422,
    )
    .await;
    let same = call(&t.ada, "agents.update", json!({"agent_id": "sage"})).await;
    assert_eq!(same["version"], 1);
}
