//! Export and import, copies, templates, drafts that are tried before saving, and sandbox policies.

use serde_json::{Value, json};

use crate::support::{
    Person, Team, TestApp, id, instructions_of, list, number, team, text, unknown_id,
};

fn form(name: &str) -> Value {
    json!({"name": name, "instructions": instructions_of(name)})
}

fn with(mut form: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else {
        panic!("fields are an object: {fields}");
    };
    for (field, value) in fields {
        form[field] = value;
    }
    form
}

async fn make(person: &Person, name: &str, fields: Value) -> Value {
    person
        .post("/v1/agents", with(form(name), fields))
        .await
        .is(201)
}

fn path(agent: &Value) -> String {
    format!("/v1/agents/{}", id(agent))
}

async fn export(person: &Person, agent: &Value) -> Value {
    person.get(&format!("{}/export", path(agent))).await.ok()
}

async fn import(person: &Person, body: Value) -> Value {
    person.post("/v1/agents/import", body).await.is(201)
}

async fn preview(person: &Person, body: Value) -> Value {
    person.post("/v1/agents/preview", body).await.is(200)
}

fn segments(preview: &Value) -> Vec<String> {
    list(preview, "/segments")
        .iter()
        .map(|s| text(s, "/name"))
        .collect()
}

/// Fields that an agent keeps when it is imported into another workspace.
fn luggage() -> Value {
    json!({
        "display_name": "Sage", "description": "Knows", "avatar": {"emoji": "🌿"}, "identity": "- Name: Sage\n- Emoji: 🌿\n",
        "model": "tiny", "max_output_tokens": 77, "temperature": 0.5, "top_p": 0.5, "capabilities": ["docs"],
        "role": "reviewer", "agency": {"role_description": null, "responsibilities": ["Read"], "expected_outputs": [],
            "constraints": [], "delegation_rules": []},
        "memory": {"conversation_retention_days": 9, "summary_enabled": null, "summary_model": null, "scopes": null,
            "vector_store_ids": []},
        "sentiment": {"enabled": true, "profile": "tutor", "method": null, "model": null, "history_window": null,
            "frustration_threshold": -0.5, "satisfaction_threshold": null, "consecutive_turns": null, "presets": []},
        "reflection": {"interval_turns": 5, "metaprompts": [{"id": "check-in", "description": "",
            "template": "How is {{current_mood}}?", "trigger": {"type": "manual"}, "temperature": null,
            "max_output_tokens": null}]},
        "metadata": {"team": "blue"}, "store": false, "mentionable": false,
    })
}

async fn two_workspaces() -> (TestApp, Person, Person) {
    let app = TestApp::with(&[("SIGNUP", "open")]).await;
    let (ada, bo) = (app.founder("Ada").await, app.founder("Bo").await);
    (app, ada, bo)
}

#[tokio::test]
async fn an_agent_moves_to_another_workspace_with_its_files() {
    let (_app, ada, bo) = two_workspaces().await;
    let tools = json!({"tools": [{"type": "function", "name": "f"}]});
    let sage = make(&ada, "sage", with(luggage(), tools)).await;
    for (file, content) in [
        ("MEMORY.md", "Kept"),
        ("memory/2026-11-20.md", "Logged"),
        ("TOOLS.md", "Own tools"),
    ] {
        ada.put(
            &format!("{}/files/{file}", path(&sage)),
            json!({"content": content}),
        )
        .await
        .is(200);
    }
    let export = export(&ada, &sage).await;
    assert_eq!(
        (&export["object"], &export["format"]),
        (&json!("agent_export"), &json!(1))
    );
    assert_eq!(
        export["files"],
        json!({"MEMORY.md": "Kept", "TOOLS.md": "Own tools", "memory/2026-11-20.md": "Logged"})
    );
    let moved = import(&bo, export.clone()).await;
    assert_eq!(
        (&moved["name"], &moved["version"]),
        (&json!("sage"), &json!(1))
    );
    assert_eq!(
        (&moved["created_by"], &moved["workspace_id"]),
        (&json!(bo.id), &json!(bo.workspace))
    );
    assert_ne!(moved["id"], sage["id"]);
    for field in luggage()
        .as_object()
        .unwrap()
        .keys()
        .chain([&"tools".to_owned(), &"instructions".to_owned()])
    {
        assert_eq!(moved[field], sage[field], "{field}");
    }
    for (file, content) in [
        ("MEMORY.md", "Kept"),
        ("memory/2026-11-20.md", "Logged"),
        ("TOOLS.md", "Own tools"),
    ] {
        assert_eq!(
            bo.get(&format!("{}/files/{file}", path(&moved))).await.ok()["content"],
            content
        );
    }
    assert_eq!(self::export(&bo, &moved).await, export, "the same again");
}

#[tokio::test]
async fn an_export_contains_nothing_specific_to_its_workspace() {
    let t = team().await;
    let policy = sandbox(&t.ada, "box", json!({})).await;
    let trust = json!({"autonomous": [], "approve": [], "escalate": [],
        "approval_rules": [{"action": "search", "requires": "specific_user", "user_id": t.bo.id}]});
    let fields = json!({"access_control": {"allowed_subjects": [t.bo.id], "denied_subjects": []},
        "sandbox_policy_id": policy["id"], "trust": trust});
    let sage = make(&t.ada, "sage", fields).await;
    let export = t.bo.get(&format!("{}/export", path(&sage))).await;
    for secret in [
        t.bo.id.as_str(),
        t.ada.id.as_str(),
        &t.ada.workspace,
        &id(&policy),
        &id(&sage),
    ] {
        assert!(!export.text.contains(secret), "{secret}: {}", export.text);
    }
    let agent = export.ok()["agent"].clone();
    let asks = json!([{"action": "search", "requires": "admin"}]);
    assert_eq!(agent["trust"]["approval_rules"], asks);
    for field in [
        "id",
        "version",
        "created_at",
        "status",
        "is_default",
        "base_profile_id",
    ] {
        assert!(agent.get(field).is_none(), "{field}: {agent}");
    }
    let codes = json!({"tools": [{"type": "code_interpreter", "sandbox_policy_id": policy["id"]}]});
    let owl = make(&t.ada, "owl", codes).await;
    let export = self::export(&t.ada, &owl).await;
    assert!(!export.to_string().contains(&id(&policy)), "{export}");
}

#[tokio::test]
async fn a_copy_keeps_approval_rules_and_reads_no_further_channels() {
    let (_app, ada, bo) = two_workspaces().await;
    let general = id(&ada.channel("general").await);
    let tools = json!([{"type": "file_search", "filters": {"channel_ids": [general]}}]);
    let rules = json!([{"action": "read", "requires": "any_member", "timeout_s": 60}]);
    let trust = json!({"autonomous": [], "approve": ["search"], "escalate": ["mcp:jira.*"], "approval_rules": rules});
    let fields = json!({"tools": tools, "trust": trust});
    let export = export(&ada, &make(&ada, "sage", fields).await).await;
    assert!(!export.to_string().contains(&general), "{export}");
    let copy = import(&bo, export).await;
    assert_eq!(copy["trust"], trust);
    assert_eq!(copy["tools"][0]["filters"], json!({"channel_ids": []}));
}

#[tokio::test]
async fn an_export_can_be_imported_into_its_own_workspace_under_another_name() {
    let t = team().await;
    let sage = make(&t.ada, "sage", luggage()).await;
    let mut export = export(&t.ada, &sage).await;
    assert_eq!(
        t.ada
            .post("/v1/agents/import", export.clone())
            .await
            .refused(409),
        "name_taken"
    );
    export["agent"]["name"] = "owl".into();
    export["agent"]["display_name"] = "Owl".into();
    let mut socket = t.bo.socket().await;
    let owl = import(&t.bo, export).await;
    assert_eq!(
        socket.of("agent.created").await["data"]["agent"]["id"],
        owl["id"]
    );
    let versions = t.ada.get(&format!("{}/versions", path(&owl))).await.ok();
    assert_eq!(versions["data"][0]["change_summary"], "imported");
}

#[tokio::test]
async fn a_base_is_exported_by_name() {
    let (_app, ada, bo) = two_workspaces().await;
    let base = make(&ada, "base", json!({})).await;
    let child = make(&ada, "child", json!({"base_profile_id": base["id"]})).await;
    let exported = export(&ada, &child).await;
    assert_eq!(exported["agent"]["base"], "base");
    assert_eq!(
        exported["agent"]["instructions"],
        instructions_of("child"),
        "its own, not the resolved one"
    );
    assert_eq!(
        bo.post("/v1/agents/import", exported.clone())
            .await
            .refused(422),
        "no_such_base"
    );
    import(&bo, export(&ada, &base).await).await;
    let moved = import(&bo, exported).await;
    assert_eq!(moved["base_profile_id"], bo.agent("base").await["id"]);
    let main = json!({"agent": with(form("other"), json!({"base": "main"}))});
    assert_eq!(
        import(&bo, main).await["base_profile_id"],
        bo.agent("vibe").await["id"]
    );
    let none = json!({"agent": with(form("another"), json!({"base": null}))});
    assert!(import(&bo, none).await["base_profile_id"].is_null());
}

#[tokio::test]
async fn an_import_states_the_effect_of_each_file() {
    let t = team().await;
    let files = json!({"SOUL.md": "You are Sage.", "IDENTITY.md": "An owl", "AGENTS.md": "Be brief.", "MEMORY.md": "Kept",
        "memory/2026-11-20.md": "Logged", "notes.md": "Noted"});
    let body = json!({"agent": {"name": "sage"}, "files": files});
    let sage = import(&t.bo, body).await;
    let effect = |path: &str, effect: &str| json!({"path": path, "effect": effect});
    let wanted = [
        effect(
            "AGENTS.md",
            "sent with every reply instead of the workspace's file",
        ),
        effect(
            "IDENTITY.md",
            "sent with every reply as the agent's identity",
        ),
        effect(
            "MEMORY.md",
            "the first 2,000 tokens are sent with every reply",
        ),
        effect(
            "SOUL.md",
            "sent with every reply as the agent's instructions",
        ),
        effect("memory/2026-11-20.md", "searched by paragraph"),
        effect("notes.md", "stored, but not used in replies"),
    ];
    assert_eq!(sage["effects"], json!(wanted));
    assert_eq!(sage["version"], 1, "AGENTS.md is part of the first version");
    let none = import(&t.bo, json!({"agent": form("owl")})).await;
    assert_eq!(none["effects"], json!([]));
}

#[tokio::test]
async fn files_can_replace_instructions_and_identity() {
    let t = team().await;
    let files = json!({"SOUL.md": "You are Sage.", "IDENTITY.md": "- Name: Sage\n- Emoji: 🌿\n", "MEMORY.md": "Kept"});
    let sage = import(
        &t.bo,
        json!({"agent": {"name": "sage", "model": "tiny"}, "files": files}),
    )
    .await;
    assert_eq!(
        (&sage["instructions"], &sage["display_name"]),
        (&json!("You are Sage."), &json!("Sage"))
    );
    assert_eq!(
        (&sage["avatar"]["emoji"], &sage["model"]),
        (&json!("🌿"), &json!("tiny"))
    );
    assert_eq!(
        t.bo.get(&format!("{}/files/MEMORY.md", path(&sage)))
            .await
            .ok()["content"],
        "Kept"
    );
    let twice = json!({"agent": form("owl"), "files": {"SOUL.md": "You are Owl."}});
    t.bo.post("/v1/agents/import", twice).await.refused(422);
}

#[tokio::test]
async fn an_import_is_all_or_nothing() {
    let t = team().await;
    let file = |path: &str, content: &str| json!({"agent": form("sage"), "files": {"MEMORY.md": "Kept", path: content}});
    for (body, status) in [
        (file("../x", "x"), 400),
        (file("/etc/passwd", "x"), 400),
        (file("USER.md", "x"), 422),
        (file("notes.md", &"x".repeat(256 * 1024 + 1)), 413),
        (
            json!({"agent": with(form("sage"), json!({"instructions": "x".repeat(256 * 1024 + 1)}))}),
            413,
        ),
        (json!({"agent": {"name": "sage"}}), 400),
        (
            json!({"agent": with(form("sage"), json!({"tone": 5}))}),
            400,
        ),
        (
            json!({"agent": with(form("sage"), json!({"temperature": 3}))}),
            422,
        ),
        (
            json!({"agent": with(form("sage"), json!({"base": "nobody"}))}),
            422,
        ),
        (
            json!({"agent": with(form("sage"), json!({"base": 7}))}),
            400,
        ),
        (json!({"agent": form("sage"), "files": {"a.md": 7}}), 400),
        (json!({"agent": form("sage"), "files": []}), 400),
        (json!({"agent": form("sage"), "more": 1}), 400),
        (json!({"agent": "sage"}), 400),
        (json!({}), 400),
        (json!({"agent": form("main")}), 422),
        (json!({"agent": form("sage"), "format": 2}), 422),
        (json!({"agent": form("sage"), "object": "cat"}), 422),
    ] {
        let reply = t.ada.post("/v1/agents/import", body.clone()).await;
        assert_eq!(
            reply.status,
            status,
            "{} {}",
            body.to_string().chars().take(200).collect::<String>(),
            reply.text
        );
        reply.refused(status);
    }
    assert!(list(&t.ada.get("/v1/agents?name=sage").await.ok(), "/data").is_empty());
    import(&t.ada, json!({"agent": form("sage")})).await;
}

#[tokio::test]
async fn a_copy_has_everything_except_the_name_and_history() {
    let t = team().await;
    let sage = make(&t.ada, "sage", luggage()).await;
    t.ada
        .patch(
            &path(&sage),
            json!({"description": "Newer", "status": "inactive"}),
        )
        .await
        .is(200);
    let original = t.ada.get(&path(&sage)).await.ok();
    let copy =
        t.bo.act(&format!("{}/duplicate", path(&sage)))
            .await
            .is(201);
    assert_eq!(
        (&copy["name"], &copy["version"]),
        (&json!("sage-copy"), &json!(1))
    );
    assert_eq!(
        (&copy["created_by"], &copy["status"]),
        (&json!(t.bo.id), &json!("active"))
    );
    // No two agents look the same.
    assert_eq!(
        (&copy["display_name"], &copy["identity"]),
        (
            &json!("Sage copy"),
            &json!("- Name: Sage copy\n- Emoji: 🌿\n")
        )
    );
    for field in luggage()
        .as_object()
        .unwrap()
        .keys()
        .chain([&"instructions".to_owned()])
        .filter(|field| !["display_name", "identity"].contains(&field.as_str()))
    {
        assert_eq!(copy[field], original[field], "{field}");
    }
    let versions = t.ada.get(&format!("{}/versions", path(&copy))).await.ok();
    assert_eq!(list(&versions, "/data").len(), 1);
    assert_eq!(
        versions["data"][0]["change_summary"],
        "copied from sage, version 2"
    );
}

#[tokio::test]
async fn copies_are_numbered() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({})).await;
    let copies = format!("{}/duplicate", path(&sage));
    for name in ["sage-copy", "sage-copy-2", "sage-copy-3"] {
        assert_eq!(t.ada.act(&copies).await.is(201)["name"], name);
    }
    let together = (0..8).map(|_| t.ada.post(&copies, json!({})));
    let mut names: Vec<String> = futures::future::join_all(together)
        .await
        .into_iter()
        .map(|r| text(&r.is(201), "/name"))
        .collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 8);
    let long = make(&t.ada, &"x".repeat(64), json!({})).await;
    let copy = t
        .ada
        .act(&format!("{}/duplicate", path(&long)))
        .await
        .is(201);
    let name = text(&copy, "/name");
    assert!(name.len() <= 64 && name.ends_with("-copy"), "{name}");
}

#[tokio::test]
async fn a_copy_can_be_given_a_name() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({"display_name": "Sage"})).await;
    let copies = format!("{}/duplicate", path(&sage));
    let copy = t
        .ada
        .post(&copies, json!({"name": "owl", "display_name": "Owl"}))
        .await
        .is(201);
    assert_eq!(
        (&copy["name"], &copy["display_name"]),
        (&json!("owl"), &json!("Owl"))
    );
    assert_eq!(
        t.ada
            .post(&copies, json!({"name": "vibe"}))
            .await
            .refused(409),
        "name_taken"
    );
    t.ada
        .post(&copies, json!({"name": "main"}))
        .await
        .refused(422);
    t.ada
        .post(&copies, json!({"display_name": "x".repeat(81)}))
        .await
        .refused(422);
    t.ada
        .post(&copies, json!({"title": "x"}))
        .await
        .refused(400);
}

#[tokio::test]
async fn a_copy_of_the_default_agent_is_not_the_default() {
    let t = team().await;
    let copy = t.bo.act("/v1/agents/main/duplicate").await.is(201);
    assert_eq!(
        (&copy["name"], &copy["is_default"]),
        (&json!("vibe-copy"), &json!(false))
    );
    assert_eq!(copy["role"], "specialist");
}

#[tokio::test]
async fn each_template_creates_an_agent() {
    let t = team().await;
    let templates = t.bo.get("/v1/agent-templates").await.ok();
    let all = list(&templates, "/data");
    assert_eq!(
        (&templates["object"], &templates["has_more"]),
        (&json!("list"), &json!(false))
    );
    let names: Vec<String> = all.iter().map(|a| text(a, "/name")).collect();
    assert_eq!(
        names,
        [
            "security-analyst",
            "data-engineer",
            "docs-writer",
            "devops-assistant"
        ]
    );
    for mut template in all {
        assert_eq!(template["object"], "agent_template");
        template.as_object_mut().unwrap().remove("object");
        let made = t.bo.post("/v1/agents", template.clone()).await.is(201);
        for (field, value) in template.as_object().unwrap() {
            if !value.is_null() && field != "tools" {
                assert_eq!(made[field], *value, "{field}");
            }
        }
    }
    t.bo.get("/v1/agent-templates?limit=0").await.is(200);
}

#[tokio::test]
async fn a_preview_shows_the_agents_prompt() {
    let t = team().await;
    let workspace = format!("/v1/workspaces/{}", t.ada.workspace);
    t.ada
        .patch(
            &format!("{workspace}/policy"),
            json!({"required_text": "House rules."}),
        )
        .await
        .is(200);
    t.ada
        .put(
            &format!("{workspace}/files/AGENTS.md"),
            json!({"content": "Orders."}),
        )
        .await
        .is(200);
    let base = make(&t.ada, "base", json!({"model": "tiny", "temperature": 0.5})).await;
    let draft = with(
        form("sage"),
        json!({"base_profile_id": base["id"], "identity": "An owl", "agency": {"constraints": ["Brief"]}, "max_output_tokens": 55}),
    );
    let shown = preview(&t.bo, json!({"agent": draft})).await;
    assert_eq!(
        segments(&shown),
        [
            "required",
            "base",
            "instructions",
            "identity",
            "agency",
            "agents_md"
        ]
    );
    assert_eq!(
        (&shown["model"], &shown["temperature"]),
        (&json!("tiny"), &json!(0.5))
    );
    assert_eq!(
        (&shown["max_output_tokens"], &shown["top_p"]),
        (&json!(55), &Value::Null)
    );
    assert_eq!(
        shown["resolved_from"],
        json!([{"id": base["id"], "name": "base", "version": 1}])
    );
    assert!(number(&shown, "/tokens") > 0);
    assert!(
        list(&t.ada.get("/v1/agents?name=sage").await.ok(), "/data").is_empty(),
        "nothing is stored"
    );
    t.bo.post("/v1/agents", draft).await.is(201);
    let started = t.ada.start(&t.general, "@sage hi").await;
    t.ada.completed(&text(&started, "/tasks/0/id")).await;
    let request = t.model().asked_once("base").await;
    // The system prompt begins with the server's preamble.
    let system = text(&request.body, "/messages/0/content");
    assert!(system.ends_with(&format!("\n\n{}", text(&shown, "/system"))));
}

#[tokio::test]
async fn a_preview_of_a_change_includes_files_and_changes_nothing() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({})).await;
    t.ada
        .put(
            &format!("{}/files/TOOLS.md", path(&sage)),
            json!({"content": "Own tools."}),
        )
        .await
        .is(200);
    let draft = json!({"instructions": "You are Sage, draft."});
    let shown = preview(&t.bo, json!({"agent_id": sage["id"], "agent": draft})).await;
    assert_eq!(shown["system"], "You are Sage, draft.\n\nOwn tools.");
    let alone = preview(&t.bo, json!({"agent": draft})).await;
    assert_eq!(alone["system"], "You are Sage, draft.");
    let whole = t.ada.get(&path(&sage)).await.ok();
    let shown = preview(&t.bo, json!({"agent_id": sage["id"], "agent": whole})).await;
    assert_eq!(
        shown["system"],
        format!("{}\n\nOwn tools.", instructions_of("sage"))
    );
    assert_eq!(t.ada.get(&path(&sage)).await.ok(), whole);
}

#[tokio::test]
async fn a_preview_is_rejected_for_the_same_reasons_as_the_agent() {
    let t = team().await;
    let base = make(
        &t.ada,
        "base",
        json!({"instructions": "b".repeat(200 * 1024)}),
    )
    .await;
    let child = make(&t.ada, "child", json!({"base_profile_id": base["id"]})).await;
    let grandchild = make(
        &t.ada,
        "grandchild",
        json!({"base_profile_id": child["id"]}),
    )
    .await;
    let of = |fields: Value| json!({"agent": with(json!({"instructions": "x"}), fields)});
    for (body, status) in [
        (json!({}), 400),
        (json!({"agent": {}}), 400),
        (of(json!({"tone": 1})), 400),
        (of(json!({"temperature": "x"})), 400),
        (of(json!({"temperature": 3})), 422),
        (of(json!({"instructions": " "})), 422),
        (of(json!({"instructions": "x".repeat(256 * 1024 + 1)})), 413),
        (of(json!({"base_profile_id": unknown_id("agent")})), 404),
        (of(json!({"base_profile_id": grandchild["id"]})), 422),
        (
            of(json!({"base_profile_id": base["id"], "instructions": "x".repeat(100 * 1024)})),
            422,
        ),
        (of(json!({"sandbox_policy_id": unknown_id("sbx")})), 422),
        (
            json!({"agent_id": unknown_id("agent"), "agent": {"instructions": "x"}}),
            404,
        ),
        (
            json!({"agent_id": base["id"], "agent": {"instructions": "x", "base_profile_id": child["id"]}}),
            422,
        ),
        (
            json!({"agent_id": "x", "agent": {"instructions": "x"}}),
            400,
        ),
        (
            json!({"agent": {"instructions": "x"}, "model": "tiny"}),
            400,
        ),
    ] {
        let reply = t.bo.post("/v1/agents/preview", body.clone()).await;
        assert_eq!(
            reply.status,
            status,
            "{} {}",
            body.to_string().chars().take(200).collect::<String>(),
            reply.text
        );
        reply.refused(status);
    }
}

async fn sandbox(person: &Person, name: &str, fields: Value) -> Value {
    person
        .post("/v1/sandbox-policies", limits(name, fields))
        .await
        .is(201)
}

fn limits(name: &str, fields: Value) -> Value {
    let form = json!({"name": name, "image": "python:3.12", "cpu_max": 2.0, "memory_mb_max": 512, "network": "none",
        "timeout_s_max": 60, "filesystem": "read_only"});
    with(form, fields)
}

#[tokio::test]
async fn sandbox_policies_are_created_read_replaced_and_deleted() {
    let t = team().await;
    let made = sandbox(
        &t.ada,
        "box",
        json!({"network": "allowlist", "allowed_hosts": ["a.example"]}),
    )
    .await;
    assert!(id(&made).starts_with("sbx_"));
    assert_eq!(made["object"], "sandbox_policy");
    for (field, value) in limits(
        "box",
        json!({"network": "allowlist", "allowed_hosts": ["a.example"]}),
    )
    .as_object()
    .unwrap()
    {
        assert_eq!(made[field], *value, "{field}");
    }
    let path = format!("/v1/sandbox-policies/{}", id(&made));
    assert_eq!(t.bo.get(&path).await.ok(), made);
    assert_eq!(
        t.bo.get("/v1/sandbox-policies").await.ok()["data"],
        json!([made])
    );
    let now = t
        .ada
        .put(&path, limits("smaller", json!({"cpu_max": 0.5})))
        .await
        .is(200);
    assert_eq!(
        (&now["id"], &now["name"], &now["cpu_max"]),
        (&made["id"], &json!("smaller"), &json!(0.5))
    );
    assert_eq!(now["allowed_hosts"], json!([]));
    t.ada.delete(&path).await.is(204);
    t.ada.get(&path).await.refused(404);
    t.ada.put(&path, limits("x", json!({}))).await.refused(404);
    t.ada.delete(&path).await.refused(404);
    t.ada.get("/v1/sandbox-policies/x").await.refused(400);
}

#[tokio::test]
async fn sandbox_policies_are_listed_page_by_page() {
    let t = team().await;
    let mut all = Vec::new();
    for n in 0..3 {
        all.push(sandbox(&t.ada, &format!("box {n}"), json!({})).await);
    }
    let first = t.bo.get("/v1/sandbox-policies?limit=2").await.ok();
    assert_eq!(
        (&first["data"], &first["has_more"]),
        (&json!(all[..2]), &json!(true))
    );
    assert_eq!(first["last_id"], all[1]["id"]);
    let next = format!("/v1/sandbox-policies?after={}", id(&all[1]));
    let next = t.bo.get(&next).await.ok();
    assert_eq!(
        (&next["data"], &next["has_more"]),
        (&json!(all[2..]), &json!(false))
    );
    let limit = t.bo.get("/v1/sandbox-policies?limit=101").await;
    limit.refused(400);
}

#[tokio::test]
async fn a_sandbox_policy_enforces_its_limits() {
    let t = team().await;
    let path = format!(
        "/v1/sandbox-policies/{}",
        id(&sandbox(&t.ada, "box", json!({})).await)
    );
    sandbox(&t.ada, "taken", json!({})).await;
    for fields in [
        json!({"name": ""}),
        json!({"name": "x".repeat(65)}),
        json!({"image": " "}),
        json!({"image": "x".repeat(257)}),
        json!({"cpu_max": 0.09}),
        json!({"cpu_max": 64.1}),
        json!({"memory_mb_max": 15}),
        json!({"memory_mb_max": 1_048_577}),
        json!({"timeout_s_max": 0}),
        json!({"timeout_s_max": 86_401}),
        json!({"allowed_hosts": ["a.example"]}),
        json!({"network": "allowlist", "allowed_hosts": vec!["a.example"; 101]}),
        json!({"network": "allowlist", "allowed_hosts": ["https://a.example/x"]}),
    ] {
        t.ada
            .post("/v1/sandbox-policies", limits("new", fields.clone()))
            .await
            .refused(422);
        t.ada.put(&path, limits("box", fields)).await.refused(422);
    }
    for fields in [
        json!({"network": "some"}),
        json!({"filesystem": "rw"}),
        json!({"cpu_max": "2"}),
        json!({"memory_mb_max": 1.5}),
        json!({"gpu_max": 1}),
        json!({"image": null}),
    ] {
        t.ada
            .post("/v1/sandbox-policies", limits("new", fields.clone()))
            .await
            .refused(400);
        t.ada.put(&path, limits("box", fields)).await.refused(400);
    }
    let again = limits("taken", json!({}));
    let reply = t.ada.post("/v1/sandbox-policies", again).await;
    let message = text(&reply.json(), "/error/message");
    assert!(message.contains("another sandbox policy"), "{message}");
    assert_eq!(reply.refused(409), "name_taken");
    assert_eq!(
        t.ada
            .put(&path, limits("taken", json!({})))
            .await
            .refused(409),
        "name_taken"
    );
    for edge in [
        json!({"cpu_max": 0.1, "memory_mb_max": 16, "timeout_s_max": 1, "name": "x".repeat(64)}),
        json!({"cpu_max": 64, "memory_mb_max": 1_048_576, "timeout_s_max": 86_400, "image": "x".repeat(256)}),
    ] {
        t.ada.put(&path, limits("box", edge)).await.is(200);
    }
}

#[tokio::test]
async fn a_sandbox_policy_in_use_cannot_be_deleted() {
    let t = team().await;
    let policy = sandbox(&t.ada, "box", json!({})).await;
    let at = format!("/v1/sandbox-policies/{}", id(&policy));
    let sage = make(&t.ada, "sage", json!({"sandbox_policy_id": policy["id"]})).await;
    assert_eq!(
        t.ada.delete(&at).await.refused(409),
        "sandbox_policy_in_use"
    );
    let tool = json!([{"type": "code_interpreter", "sandbox_policy_id": policy["id"]}]);
    t.ada
        .patch(
            &path(&sage),
            json!({"sandbox_policy_id": null, "tools": tool}),
        )
        .await
        .is(200);
    assert_eq!(
        t.ada.delete(&at).await.refused(409),
        "sandbox_policy_in_use"
    );
    t.ada
        .patch(&path(&sage), json!({"tools": []}))
        .await
        .is(200);
    let workspace = format!("/v1/workspaces/{}/policy", t.ada.workspace);
    t.ada
        .patch(&workspace, json!({"sandbox_policy_id": policy["id"]}))
        .await
        .is(200);
    assert_eq!(
        t.ada.delete(&at).await.refused(409),
        "sandbox_policy_in_use"
    );
    t.ada
        .patch(&workspace, json!({"sandbox_policy_id": null}))
        .await
        .is(200);
    t.ada.delete(&at).await.is(204);
    t.ada
        .patch(&path(&sage), json!({"sandbox_policy_id": policy["id"]}))
        .await
        .refused(422);
}

/// A thread bound to an agent that has replied in it.
async fn bound_thread(t: &Team, agent: &Value) -> String {
    let threads = format!("/v1/channels/{}/threads", t.general);
    let started = t
        .ada
        .post(&threads, json!({"content": "Hi", "agent_id": agent["id"]}))
        .await
        .is(201);
    t.ada.completed(&text(&started, "/tasks/0/id")).await;
    text(&started, "/thread/id")
}

#[tokio::test]
async fn permanently_deleting_an_agent_ends_its_running_task() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({"display_name": "Sage"})).await;
    let gate = crate::support::Gate::new();
    t.model().script(
        "sage",
        [crate::support::Answer::pieces_open(&["Begun"])
            .wait(&gate)
            .end()],
    );
    let started = t.ada.start(&t.general, "@sage hi").await;
    let thread = text(&started, "/thread/id");
    let task = text(&started, "/tasks/0/id");
    gate.reached().await;
    t.bo.say(&thread, "@sage and me?").await;
    t.ada
        .delete(&format!("{}?permanent=true", path(&sage)))
        .await
        .is(200);
    let ended = t.ada.ended(&task).await;
    assert!(
        ended["status"] == "cancelled" || ended["status"] == "failed",
        "{ended}"
    );
    gate.open();
    let open = t.ada.get("/v1/tasks?status=queued").await.ok();
    assert_eq!(open["data"], json!([]), "what waited has ended too");
    let running = t.ada.get("/v1/tasks?status=running").await.ok();
    assert_eq!(running["data"], json!([]));
    assert_eq!(
        t.ada.get("/v1/snapshot").await.ok()["active_tasks"],
        json!([])
    );
    t.ada.get(&format!("/v1/tasks/{task}")).await.is(200);
    t.ada.get(&format!("/v1/tasks/{task}/context")).await;
    t.ada.act(&format!("/v1/tasks/{task}/retry")).await;
    assert_eq!(
        t.ada.contents(&thread).await[0],
        "@sage hi",
        "the thread is readable"
    );
}

#[tokio::test]
async fn a_thread_of_a_permanently_deleted_agent_continues_with_the_default() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({"display_name": "Sage"})).await;
    let thread = bound_thread(&t, &sage).await;
    let root = text(&t.ada.messages(&thread).await[0], "/id");
    let fork = id(&t.ada.start_fork(&thread, &root, json!({})).await);
    t.ada
        .delete(&format!("{}?permanent=true", path(&sage)))
        .await
        .is(200);
    let vibe = t.ada.agent("vibe").await["id"].clone();
    for path in [format!("/v1/threads/{thread}"), format!("/v1/forks/{fork}")] {
        assert_eq!(t.ada.get(&path).await.is(200)["agent_id"], vibe);
    }
    for (posted, path) in [
        (
            t.bo.say(&thread, "Anyone?").await,
            format!("/v1/threads/{thread}"),
        ),
        (
            t.bo.say_in(&fork, "Anyone?").await,
            format!("/v1/forks/{fork}"),
        ),
    ] {
        assert_eq!(posted["tasks"][0]["agent_id"], vibe, "{posted}");
        t.ada.completed(&text(&posted, "/tasks/0/id")).await;
        assert_eq!(t.ada.get(&path).await.ok()["agent_id"], vibe);
    }
    for messages in [
        t.ada.messages(&thread).await,
        t.ada.messages_in(&fork).await,
    ] {
        // The conversation was rebound when the agent was deleted, so the next message does not cause a notice.
        assert!(
            messages.iter().all(|m| m["kind"] != "notice"),
            "{messages:?}"
        );
    }
    let reply = t.ada.messages(&thread).await[1].clone();
    assert_eq!(
        (&reply["author"]["type"], &reply["content"]),
        (&json!("agent"), &json!("Fine."))
    );
}
