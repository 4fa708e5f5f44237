//! Agent profiles: list, get, create, change, and versions.

use serde_json::{Value, json};

use crate::support::{id, list, team, team_with, text};

fn form(name: &str) -> Value {
    json!({"name": name, "instructions": "You are Sage, made for a test."})
}

#[tokio::test]
async fn an_agent_starts_with_defaults() {
    let t = team().await;
    let mut socket = t.bo.socket().await;
    let reply = t.bo.post("/v1/agents", form("sage")).await;
    assert_eq!(reply.header("etag").as_deref(), Some("\"1\""));
    let agent = reply.is(201);
    assert_eq!(agent["object"], "agent_profile");
    assert_eq!(agent["workspace_id"], t.ada.workspace.as_str());
    assert_eq!(agent["created_by"], t.bo.id.as_str());
    assert_eq!(agent["instructions"], "You are Sage, made for a test.");
    assert_eq!(
        (&agent["role"], &agent["status"]),
        (&json!("specialist"), &json!("active"))
    );
    assert_eq!(
        (&agent["max_output_tokens"], &agent["version"]),
        (&json!(4096), &json!(1))
    );
    assert_eq!(
        (
            &agent["mentionable"],
            &agent["is_default"],
            &agent["is_system"]
        ),
        (&json!(true), &json!(false), &json!(false))
    );
    assert_eq!(
        (&agent["capabilities"], &agent["metadata"]),
        (&json!([]), &json!({}))
    );
    for unset in [
        "display_name",
        "description",
        "avatar",
        "model",
        "temperature",
        "top_p",
    ] {
        assert!(agent.get(unset).is_some_and(Value::is_null), "{unset}");
    }
    let event = socket.of("agent.created").await;
    assert_eq!(event["data"]["agent"]["id"], agent["id"]);
    assert_eq!(
        t.ada.get(&format!("/v1/agents/{}", id(&agent))).await.ok(),
        agent
    );
}

#[tokio::test]
async fn all_provided_fields_are_stored() {
    let t = team().await;
    let mut whole = form("sage");
    for (field, value) in [
        ("display_name", json!("Sage 🌿")),
        ("description", json!("Knows")),
        ("avatar", json!({"emoji": "🌿", "color": "#00ff00"})),
        ("model", json!("tiny")),
        ("max_output_tokens", json!(77)),
        ("temperature", json!(1.5)),
        ("top_p", json!(0.5)),
        ("capabilities", json!(["a", "b"])),
        ("role", json!("reviewer")),
        ("mentionable", json!(false)),
        ("metadata", json!({"k": "v"})),
    ] {
        whole[field] = value;
    }
    let agent = t.ada.post("/v1/agents", whole.clone()).await.is(201);
    for (field, value) in whole.as_object().unwrap() {
        assert_eq!(agent[field], *value, "{field}");
    }
    assert_eq!(
        t.ada
            .say(&t.ada.thread(&t.general, "x").await, "@sage hi")
            .await["tasks"],
        json!([]),
        "not mentionable"
    );
}

#[tokio::test]
async fn main_is_the_workspaces_default_agent() {
    let t = team().await;
    let main = t.bo.get("/v1/agents/main").await.ok();
    assert_eq!(main["name"], "vibe");
    assert_eq!(main["is_default"], true);
    assert!(text(&main, "/instructions").contains("Vibe"));
}

#[tokio::test]
async fn agents_are_listed_by_status_and_name() {
    let t = team().await;
    let names = async |query: &str| -> Vec<String> {
        let page = t.bo.get(&format!("/v1/agents?{query}")).await.ok();
        list(&page, "/data")
            .iter()
            .map(|a| text(a, "/name"))
            .collect()
    };
    assert_eq!(names("status=active").await, ["vibe", "coder"]);
    assert_eq!(names("status=inactive").await, ["researcher", "writer"]);
    assert_eq!(names("name=coder").await, ["coder"]);
    assert!(names("name=nobody").await.is_empty());
    assert_eq!(names("limit=1").await, ["vibe"]);
}

#[tokio::test]
async fn agent_names_are_unique_handles_in_the_workspace() {
    let t = team().await;
    for taken in ["vibe", "ada", "researcher"] {
        assert_eq!(
            t.ada.post("/v1/agents", form(taken)).await.refused(409),
            "name_taken"
        );
    }
    for bad in [
        "",
        "main",
        "everyone",
        "here",
        "channel",
        "_x",
        "Sage",
        "a b",
        "é",
        "-x",
        &"x".repeat(65),
    ] {
        t.ada.post("/v1/agents", form(bad)).await.refused(422);
    }
    t.ada
        .post("/v1/agents", form(&"x".repeat(64)))
        .await
        .is(201);
    let posts = (0..8).map(|_| t.ada.post("/v1/agents", form("race")));
    let won = futures::future::join_all(posts)
        .await
        .iter()
        .filter(|r| r.status == 201)
        .count();
    assert_eq!(won, 1);
}

#[tokio::test]
async fn a_value_that_breaks_a_rule_is_rejected() {
    let t = team().await;
    for (field, value) in [
        ("instructions", json!("")),
        ("instructions", json!("  ")),
        ("temperature", json!(2.1)),
        ("temperature", json!(-0.1)),
        ("top_p", json!(1.1)),
        ("max_output_tokens", json!(0)),
        ("display_name", json!("Vibe (AI)")),
        ("display_name", json!("[x]")),
        (
            "metadata",
            json!(
                (0..17)
                    .map(|n| (n.to_string(), "v"))
                    .collect::<std::collections::BTreeMap<_, _>>()
            ),
        ),
        ("metadata", json!({"k": "v".repeat(513)})),
    ] {
        let mut bad = form("sage");
        bad[field] = value.clone();
        t.ada.post("/v1/agents", bad).await.refused(422);
        let vibe = id(&t.ada.agent("vibe").await);
        t.ada
            .patch(&format!("/v1/agents/{vibe}"), json!({field: value}))
            .await
            .refused(422);
    }
    for (field, value) in [
        ("temperature", json!("warm")),
        ("role", json!("boss")),
        ("metadata", json!({"k": 1})),
        ("max_output_tokens", json!(1.5)),
        ("sentiments", json!({})),
        ("name", json!(7)),
    ] {
        let mut bad = form("sage");
        bad[field] = value;
        t.ada.post("/v1/agents", bad).await.refused(400);
    }
    t.ada
        .post("/v1/agents", json!({"name": "sage"}))
        .await
        .refused(400);
    assert_eq!(t.ada.agent("vibe").await["version"], 1);
}

#[tokio::test]
async fn a_change_creates_a_version_and_keeps_omitted_fields() {
    let t = team().await;
    let agent = id(&t.ada.post("/v1/agents", form("sage")).await.is(201));
    let path = format!("/v1/agents/{agent}");
    let mut socket = t.bo.socket().await;
    let reply = t
        .ada
        .patch(
            &path,
            json!({"description": "Knows", "metadata": {"a": "1", "b": "2"}}),
        )
        .await;
    assert_eq!(reply.header("etag").as_deref(), Some("\"2\""));
    let changed = reply.is(200);
    assert_eq!(
        (&changed["description"], &changed["version"]),
        (&json!("Knows"), &json!(2))
    );
    assert_eq!(changed["instructions"], "You are Sage, made for a test.");
    assert_eq!(
        socket.of("agent.updated").await["data"]["agent"]["version"],
        2
    );
    let merged = t
        .ada
        .patch(&path, json!({"metadata": {"a": null, "c": "3"}}))
        .await
        .is(200);
    assert_eq!(merged["metadata"], json!({"b": "2", "c": "3"}));
    assert_eq!(merged["description"], "Knows");
    let emptied = t
        .ada
        .patch(&path, json!({"description": null}))
        .await
        .is(200);
    assert!(emptied["description"].is_null());
    assert_eq!(emptied["version"], 4);
    let reply = t.ada.get(&path).await;
    assert_eq!(reply.header("etag").as_deref(), Some("\"4\""));
}

#[tokio::test]
async fn a_stale_version_is_rejected_with_the_current_agent() {
    let t = team().await;
    let vibe = id(&t.ada.agent("vibe").await);
    let path = format!("/v1/agents/{vibe}");
    t.ada
        .patch_if(&path, "\"1\"", json!({"description": "First"}))
        .await
        .is(200);
    t.ada
        .patch_if(&path, "2", json!({"description": "Second"}))
        .await
        .is(200);
    let stale = t
        .ada
        .patch_if(&path, "\"2\"", json!({"description": "Third"}))
        .await;
    let body = stale.json();
    assert_eq!(stale.refused(409), "version_conflict");
    assert_eq!(
        (
            &body["error"]["current"]["version"],
            &body["error"]["current"]["description"]
        ),
        (&json!(3), &json!("Second"))
    );
    t.ada
        .patch_if(&path, "99", json!({"description": "Future"}))
        .await
        .refused(409);
    t.ada
        .patch(&path, json!({"description": "Without"}))
        .await
        .is(200);
}

#[tokio::test]
async fn one_of_fifty_concurrent_editors_of_a_version_wins() {
    let t = team().await;
    let vibe = id(&t.ada.agent("vibe").await);
    let path = format!("/v1/agents/{vibe}");
    let edits = (0..50).map(|n| {
        t.ada
            .patch_if(&path, "\"1\"", json!({"description": n.to_string()}))
    });
    let replies = futures::future::join_all(edits).await;
    assert_eq!(replies.iter().filter(|r| r.status == 200).count(), 1);
    assert_eq!(replies.iter().filter(|r| r.status == 409).count(), 49);
    let won = replies
        .into_iter()
        .find(|r| r.status == 200)
        .unwrap()
        .json();
    let now = t.ada.get(&path).await.ok();
    assert_eq!(
        (&now["version"], &now["description"]),
        (&json!(2), &won["description"])
    );
}

#[tokio::test]
async fn an_inactive_agent_is_not_invoked_and_keeps_its_name() {
    let t = team().await;
    let sage = id(&t.ada.make_agent("sage").await);
    let path = format!("/v1/agents/{sage}");
    t.bo.patch(&path, json!({"status": "inactive"}))
        .await
        .refused(403);
    assert_eq!(
        t.ada
            .patch(&path, json!({"status": "inactive"}))
            .await
            .is(200)["status"],
        "inactive"
    );
    assert_eq!(
        t.ada.start(&t.general, "@sage hi").await["tasks"],
        json!([])
    );
    t.ada.post("/v1/agents", form("sage")).await.refused(409);
    t.ada
        .patch(&path, json!({"status": "active"}))
        .await
        .is(200);
    assert_eq!(
        list(&t.ada.start(&t.general, "@sage hi").await, "/tasks").len(),
        1
    );
    t.ada
        .patch(&path, json!({"status": "asleep"}))
        .await
        .refused(400);
}

#[tokio::test]
async fn the_default_agent_must_stay_active() {
    let t = team().await;
    let vibe = id(&t.ada.agent("vibe").await);
    t.ada
        .patch(&format!("/v1/agents/{vibe}"), json!({"status": "inactive"}))
        .await
        .refused(409);
}

#[tokio::test]
async fn a_task_continues_after_its_agent_is_turned_off() {
    let t = team().await;
    let sage = id(&t.ada.make_agent("sage").await);
    let gate = crate::support::Gate::new();
    t.model().script(
        "sage",
        [crate::support::Answer::text("Still here.").held(&gate)],
    );
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@sage hi").await;
    gate.reached().await;
    t.ada
        .patch(&format!("/v1/agents/{sage}"), json!({"status": "inactive"}))
        .await
        .is(200);
    gate.open();
    t.ada.completed(&task).await;
    assert_eq!(t.ada.contents(&thread).await[2], "Still here.");
}

#[tokio::test]
async fn the_default_agent_replaces_a_missing_bound_agent_with_a_notice() {
    let t = team().await;
    let sage = id(&t.ada.make_agent("sage").await);
    let vibe = id(&t.ada.agent("vibe").await);
    let path = format!("/v1/channels/{}/threads", t.general);
    let started = t
        .ada
        .post(&path, json!({"content": "Hello", "agent_id": sage}))
        .await
        .is(201);
    let thread = text(&started, "/thread/id");
    t.ada.completed(&text(&started, "/tasks/0/id")).await;
    let mut socket = t.bo.socket().await;
    t.ada
        .patch(&format!("/v1/agents/{sage}"), json!({"status": "archived"}))
        .await
        .is(200);
    assert_eq!(socket.event().await["type"], "agent.archived");
    let posted = t.ada.say(&thread, "Anyone?").await;
    assert_eq!(list(&posted, "/tasks").len(), 1);
    assert_eq!(posted["tasks"][0]["agent_id"], vibe.as_str());
    t.ada.completed(&text(&posted, "/tasks/0/id")).await;
    let messages = t.ada.messages(&thread).await;
    let notices: Vec<&Value> = messages.iter().filter(|m| m["kind"] == "notice").collect();
    assert_eq!(notices.len(), 1, "{messages:?}");
    let said = text(notices[0], "/content");
    assert!(said.contains("sage") && said.contains("Vibe"), "{said}");
    let found = t.ada.get(&format!("/v1/threads/{thread}")).await.ok();
    assert_eq!(found["agent_id"], vibe.as_str());
    let next = t.ada.ask(&thread, "And again?").await;
    t.ada.completed(&next).await;
    let notices = t
        .ada
        .messages(&thread)
        .await
        .iter()
        .filter(|m| m["kind"] == "notice")
        .count();
    assert_eq!(notices, 1, "it is announced once");
}

#[tokio::test]
async fn an_archived_agent_keeps_its_name_and_messages() {
    let t = team().await;
    let sage = id(&t.ada.make_agent("sage").await);
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@sage hi").await;
    t.ada.completed(&task).await;
    let path = format!("/v1/agents/{sage}");
    t.ada
        .patch(&path, json!({"status": "archived"}))
        .await
        .is(200);
    assert_eq!(
        t.ada.post("/v1/agents", form("sage")).await.refused(409),
        "name_taken"
    );
    assert_eq!(t.ada.say(&thread, "@sage still?").await["tasks"], json!([]));
    let reply = &t.ada.messages(&thread).await[2];
    assert_eq!(reply["author"]["name"], "sage");
    t.ada
        .patch(&path, json!({"status": "active"}))
        .await
        .is(200);
    assert_eq!(
        list(&t.ada.say(&thread, "@sage back?").await, "/tasks").len(),
        1
    );
}

#[tokio::test]
async fn an_agent_can_be_renamed_to_a_free_name() {
    let t = team().await;
    let sage = id(&t.ada.make_agent("sage").await);
    let path = format!("/v1/agents/{sage}");
    assert_eq!(
        t.ada
            .patch(&path, json!({"name": "owl", "display_name": "Owl"}))
            .await
            .is(200)["name"],
        "owl"
    );
    for taken in ["vibe", "ada"] {
        assert_eq!(
            t.ada
                .patch(&path, json!({"name": taken}))
                .await
                .refused(409),
            "name_taken"
        );
    }
    t.ada
        .patch(&path, json!({"name": "main"}))
        .await
        .refused(422);
    let thread = t.ada.thread(&t.general, "Root").await;
    assert_eq!(t.ada.say(&thread, "@sage hi").await["tasks"], json!([]));
    assert_eq!(
        list(&t.ada.say(&thread, "@owl hi").await, "/tasks").len(),
        1
    );
    t.ada.post("/v1/agents", form("sage")).await.is(201);
}

#[tokio::test]
async fn agents_are_found_by_metadata() {
    let t = team().await;
    let mut tagged = form("sage");
    tagged["metadata"] = json!({"team": "blue"});
    t.ada.post("/v1/agents", tagged).await.is(201);
    let names = async |query: &str| -> Vec<String> {
        let page = t.bo.get(&format!("/v1/agents?{query}")).await.ok();
        list(&page, "/data")
            .iter()
            .map(|a| text(a, "/name"))
            .collect()
    };
    assert_eq!(names("metadata.team=blue").await, ["sage"]);
    assert!(names("metadata.team=red").await.is_empty());
}

#[tokio::test]
async fn an_agent_reports_its_effective_model() {
    let t = team().await;
    t.model().offer(&["small", "large"]);
    let base = json!({"name": "base", "instructions": "Help.", "model": "large"});
    let base = t.ada.post("/v1/agents", base).await.is(201);
    assert_eq!(base["effective_model"], "large");
    let child = json!({"name": "child", "instructions": "Help.", "base_profile_id": base["id"]});
    let child = t.ada.post("/v1/agents", child).await.is(201);
    assert_eq!(
        (&child["model"], &child["effective_model"]),
        (&Value::Null, &json!("large"))
    );
    let other = json!({"name": "other", "instructions": "Help.", "model": "gone"});
    let other = t.ada.post("/v1/agents", other).await.is(201);
    assert_eq!(
        (&other["model"], &other["effective_model"]),
        (&json!("gone"), &json!("small"))
    );
    let path = format!("/v1/agents/{}", id(&base));
    let change = json!({"model": "small"});
    t.ada.patch(&path, change).await.is(200);
    let now = |agents: Vec<Value>| {
        let of_child = agents.into_iter().find(|agent| agent["name"] == "child");
        of_child.unwrap()["effective_model"].clone()
    };
    assert_eq!(now(t.ada.every("/v1/agents").await), "small");
    let snapshot = t.ada.get("/v1/snapshot").await.ok();
    assert_eq!(now(list(&snapshot, "/agents")), "small");
}

#[tokio::test]
async fn a_preview_names_the_model_that_would_reply() {
    let t = team().await;
    t.model().offer(&["small", "large"]);
    let preview = async |model: Value| {
        let agent = json!({"instructions": "Help.", "model": model});
        let body = json!({"agent": agent});
        t.ada.post("/v1/agents/preview", body).await.is(200)
    };
    let asked = preview(json!("large")).await;
    assert_eq!(
        (&asked["model"], &asked["effective_model"]),
        (&json!("large"), &json!("large"))
    );
    let absent = preview(json!("gone")).await;
    assert_eq!(
        (&absent["model"], &absent["effective_model"]),
        (&json!("gone"), &json!("small"))
    );
    assert_eq!(preview(Value::Null).await["effective_model"], "small");
}

#[tokio::test]
async fn openvibe_model_overrides_what_profiles_ask_for() {
    let t = team_with(&[("MODEL", "tiny")]).await;
    let agent = json!({"name": "sage", "instructions": "Help.", "model": "large"});
    let agent = t.ada.post("/v1/agents", agent).await.is(201);
    assert_eq!(agent["effective_model"], "tiny");
    let body = json!({"agent": {"instructions": "Help.", "model": "large"}});
    let preview = t.ada.post("/v1/agents/preview", body).await.is(200);
    assert_eq!(preview["effective_model"], "tiny");
    let models = t.ada.get("/v1/models").await.ok();
    let overriding: Vec<String> = list(&models, "/data")
        .iter()
        .filter(|model| model["overrides_agents"] == true)
        .map(id)
        .collect();
    assert_eq!(overriding, ["tiny"]);
}

#[tokio::test]
async fn without_a_model_an_agent_has_no_effective_model() {
    let t = team_with(&[("MODEL_BASE_URL", "")]).await;
    let vibe = t.ada.agent("vibe").await;
    assert_eq!(vibe["effective_model"], Value::Null);
    let path = format!("/v1/agents/{}", id(&vibe));
    let vibe = t.ada.get(&path).await.ok();
    assert!(vibe.as_object().unwrap().contains_key("effective_model"));
}
