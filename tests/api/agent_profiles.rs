//! Complete agent profiles: fields, limits and errors, lists, and change detection.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    Answer, Person, Team, TestApp, id, instructions_of, list, number, team, team_with, text,
    unknown_id,
};

const FIELDS: &[&str] = &[
    "access_control",
    "adapts",
    "agency",
    "authors",
    "avatar",
    "base_profile_id",
    "capabilities",
    "coding",
    "created_at",
    "created_by",
    "description",
    "display_name",
    "editors",
    "effective_model",
    "id",
    "identity",
    "instructions",
    "is_default",
    "is_system",
    "max_output_tokens",
    "memory",
    "mentionable",
    "metadata",
    "missing_skills",
    "model",
    "name",
    "not_in_force",
    "object",
    "persona",
    "persona_id",
    "prompting",
    "reflection",
    "role",
    "sandbox_policy_id",
    "sentiment",
    "skills",
    "status",
    "store",
    "store_required",
    "temperature",
    "tools",
    "top_p",
    "trust",
    "updated_at",
    "version",
    "workspace_id",
];

const SUMMARY_FIELDS: &[&str] = &[
    "access_control",
    "adapts",
    "avatar",
    "base_profile_id",
    "capabilities",
    "created_at",
    "description",
    "display_name",
    "effective_model",
    "id",
    "is_default",
    "is_system",
    "mentionable",
    "model",
    "name",
    "object",
    "role",
    "status",
    "updated_at",
    "version",
];

fn form(name: &str) -> Value {
    json!({"name": name, "instructions": instructions_of(name)})
}

/// Returns the form with the fields of another object added or overwritten.
fn with(mut form: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else {
        panic!("fields are an object: {fields}");
    };
    for (field, value) in fields {
        form[field] = value;
    }
    form
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    keys
}

/// All fields that a client can set without referring to other objects.
fn everything() -> Value {
    json!({
        "display_name": "Sage 🌿", "description": "Knows the docs", "avatar": {"emoji": "🌿", "color": "#00ff00"},
        "identity": "- Name: Sage 🌿\n- Emoji: 🌿\n- Creature: owl\n", "model": "tiny", "max_output_tokens": 77,
        "temperature": 1.5, "top_p": 0.5, "capabilities": ["docs", "search"], "role": "reviewer",
        "agency": {"role_description": "Keeps the docs", "responsibilities": ["Read"], "expected_outputs": ["Links"],
            "constraints": ["No guesses"], "delegation_rules": ["Ask Coder"]},
        "tools": [{"type": "function", "name": "look_up", "description": "Looks", "parameters": {"type": "object"}}],
        "memory": {"conversation_retention_days": 90, "summary_enabled": true, "summary_model": "tiny",
            "scopes": {"conversation": true, "user": false, "persona": null, "organization": false, "agent": true},
            "vector_store_ids": []},
        "prompting": {"profile": "concise", "compaction": "standard"},
        "sentiment": {"enabled": true, "profile": "basic", "method": "lexicon", "model": "tiny", "history_window": 10,
            "frustration_threshold": -0.3, "satisfaction_threshold": 0.3, "consecutive_turns": 2,
            "presets": ["frustration_recovery"]},
        "reflection": {"interval_turns": 5, "metaprompts": [{"id": "check-in", "description": "Looks back",
            "template": "How is {{current_mood}}?", "trigger": {"type": "event_based", "event": "user_confused"},
            "temperature": 0.5, "max_output_tokens": 100}]},
        "trust": {"autonomous": ["read"], "approve": ["web_fetch"], "escalate": ["mcp:jira.delete"],
            "approval_rules": [{"action": "mcp:jira.*", "requires": "any_member", "timeout_s": 60}]},
        "access_control": {"allowed_subjects": ["role:admin", "role:member"], "denied_subjects": ["role:viewer"]},
        "store": true, "store_required": false, "mentionable": false, "metadata": {"team": "blue"},
    })
}

/// Metaprompts that run only on request.
fn metaprompts(count: usize, template: &str) -> Value {
    let metaprompt = |n: usize| json!({"id": format!("ask-{n}"), "template": template, "trigger": {"type": "manual"}});
    (0..count).map(metaprompt).collect()
}

async fn make(person: &Person, fields: Value) -> Value {
    person.post("/v1/agents", fields).await.is(201)
}

/// Creates an agent with this name and returns its path.
async fn path_of(person: &Person, name: &str) -> String {
    format!("/v1/agents/{}", id(&make(person, form(name)).await))
}

async fn names(person: &Person, query: &str) -> Vec<String> {
    let page = person.get(&format!("/v1/agents?{query}")).await.ok();
    list(&page, "/data")
        .iter()
        .map(|a| text(a, "/name"))
        .collect()
}

#[tokio::test]
async fn an_agent_has_exactly_the_documented_fields() {
    let t = team().await;
    let agent = make(&t.ada, form("sage")).await;
    assert_eq!(keys(&agent), FIELDS);
    for unset in [
        "agency",
        "access_control",
        "base_profile_id",
        "coding",
        "identity",
        "memory",
        "persona",
        "persona_id",
        "prompting",
        "reflection",
        "sandbox_policy_id",
        "sentiment",
        "skills",
        "store",
        "store_required",
        "trust",
    ] {
        assert!(agent[unset].is_null(), "{unset}: {}", agent[unset]);
    }
    assert_eq!(agent["tools"], json!([]));
    assert!(id(&agent).starts_with("agent_"));
    assert!(text(&agent, "/created_at").ends_with('Z'));
}

#[tokio::test]
async fn every_provided_field_is_returned_and_stored() {
    let t = team().await;
    let made = make(&t.ada, with(form("sage"), everything())).await;
    let found = t.ada.get(&format!("/v1/agents/{}", id(&made))).await.ok();
    assert_eq!(found, made);
    for (field, value) in everything().as_object().unwrap() {
        if field == "tools" {
            assert_eq!(made["tools"][0]["name"], "look_up");
            assert_eq!(made["tools"][0]["parameters"], json!({"type": "object"}));
            assert_eq!(made["tools"][0]["available"], false);
            assert_eq!(made["tools"][0]["unavailable_because"], "client_only");
            continue;
        }
        assert_eq!(made[field], *value, "{field}");
    }
}

#[tokio::test]
async fn server_set_fields_are_ignored_in_every_form() {
    let t = team().await;
    let server = json!({"id": unknown_id("agent"), "object": "cat", "version": 9, "created_at": "2001-01-01T00:00:00.000Z",
        "updated_at": 7, "created_by": t.bo.id, "workspace_id": unknown_id("ws"), "is_default": true, "is_system": false});
    let made = make(&t.ada, with(form("sage"), server.clone())).await;
    assert_ne!(made["id"], server["id"]);
    assert_eq!(
        (&made["version"], &made["object"]),
        (&json!(1), &json!("agent_profile"))
    );
    assert_eq!(
        (&made["is_default"], &made["is_system"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(made["created_by"], t.ada.id.as_str());
    assert_eq!(made["workspace_id"], t.ada.workspace.as_str());
    let path = format!("/v1/agents/{}", id(&made));
    let patched = t
        .ada
        .patch(&path, with(json!({"description": "x"}), server.clone()))
        .await
        .is(200);
    let put = t.ada.put(&path, with(form("sage"), server)).await.is(200);
    for now in [patched, put] {
        for field in [
            "id",
            "created_at",
            "created_by",
            "workspace_id",
            "is_default",
            "is_system",
        ] {
            assert_eq!(now[field], made[field], "{field}");
        }
    }
}

#[tokio::test]
async fn no_request_makes_a_system_agent() {
    let t = team().await;
    let path = path_of(&t.ada, "sage").await;
    let system = json!({"is_system": true});
    for reply in [
        t.ada
            .post("/v1/agents", with(form("owl"), system.clone()))
            .await,
        t.ada.put(&path, with(form("sage"), system.clone())).await,
        t.ada.patch(&path, system).await,
    ] {
        assert_eq!(reply.refused(400), "invalid_field");
    }
    assert_eq!(t.ada.get(&path).await.ok()["is_system"], false);
}

#[tokio::test]
async fn an_agent_sent_back_unchanged_creates_no_version() {
    let t = team().await;
    for (name, fields) in [("sage", json!({})), ("owl", everything())] {
        let made = make(&t.ada, with(form(name), fields)).await;
        let path = format!("/v1/agents/{}", id(&made));
        let put = t.ada.put(&path, made.clone()).await.is(200);
        assert_eq!(put, made, "{name}");
    }
}

#[tokio::test]
async fn an_unknown_field_is_rejected_at_every_level() {
    let t = team().await;
    let path = path_of(&t.ada, "sage").await;
    for fields in [
        json!({"sentiments": {}}),
        json!({"tone": 5}),
        json!({"agency": {"boss": true}}),
        json!({"memory": {"days": 3}}),
        json!({"memory": {"scopes": {"family": true}}}),
        json!({"avatar": {"shape": "round"}}),
        json!({"tools": [{"type": "function", "name": "f", "colour": "red"}]}),
        json!({"prompting": {"preset": "x"}}),
        json!({"sentiment": {"volume": 1}}),
        json!({"sentiment": {"provider": "x"}}),
        json!({"reflection": {"questions": []}}),
        json!({"reflection": {"metaprompts": [{"id": "a", "template": "b", "trigger": {"type": "manual"}, "role": "user"}]}}),
        json!({"reflection": {"metaprompts": [{"id": "a", "template": "b", "trigger": {"type": "manual", "hour": 1}}]}}),
        json!({"trust": {"always": []}}),
        json!({"access_control": {"allowed": []}}),
    ] {
        let bad = with(form("owl"), fields.clone());
        t.ada.post("/v1/agents", bad.clone()).await.refused(400);
        t.ada.put(&path, bad).await.refused(400);
        t.ada.patch(&path, fields).await.refused(400);
    }
    assert_eq!(t.ada.get(&path).await.ok()["version"], 1);
    assert!(names(&t.ada, "name=owl").await.is_empty());
}

#[tokio::test]
async fn a_value_of_the_wrong_type_is_rejected_with_its_field() {
    let t = team().await;
    let path = path_of(&t.ada, "sage").await;
    for (fields, param) in [
        (json!({"name": 7}), "name"),
        (json!({"instructions": ["x"]}), "instructions"),
        (json!({"display_name": 7}), "display_name"),
        (json!({"temperature": "warm"}), "temperature"),
        (json!({"max_output_tokens": 1.5}), "max_output_tokens"),
        (json!({"max_output_tokens": -1}), "max_output_tokens"),
        (json!({"capabilities": "code"}), "capabilities"),
        (json!({"role": "boss"}), "role"),
        (json!({"status": "asleep"}), "status"),
        (json!({"mentionable": "yes"}), "mentionable"),
        (json!({"metadata": {"k": 1}}), "metadata"),
        (json!({"metadata": {"k": {}}}), "metadata"),
        (json!({"metadata": []}), "metadata"),
        (json!({"avatar": "🌿"}), "avatar"),
        (json!({"agency": {"constraints": "none"}}), "agency"),
        (
            json!({"memory": {"conversation_retention_days": "long"}}),
            "memory",
        ),
        (
            json!({"prompting": {"compaction": "sometimes"}}),
            "prompting",
        ),
        (json!({"sentiment": {"method": "guess"}}), "sentiment"),
        (
            json!({"sentiment": {"method": "trained_classifier"}}),
            "sentiment",
        ),
        (json!({"sentiment": {"presets": ["calm"]}}), "sentiment"),
        (
            json!({"reflection": {"metaprompts": [{"id": "a", "template": "b", "trigger": {"type": "hourly"}}]}}),
            "reflection",
        ),
        (json!({"reflection": {"metaprompts": null}}), "reflection"),
        (
            json!({"trust": {"approval_rules": [{"action": "x", "requires": "nobody"}]}}),
            "trust",
        ),
        (
            json!({"access_control": {"allowed_subjects": ["role:owner"]}}),
            "access_control",
        ),
        (
            json!({"access_control": {"denied_subjects": ["bo"]}}),
            "access_control",
        ),
        (json!({"store": "yes"}), "store"),
        (json!({"base_profile_id": "sage"}), "base_profile_id"),
    ] {
        for reply in [
            t.ada
                .post("/v1/agents", with(form("owl"), fields.clone()))
                .await,
            t.ada.put(&path, with(form("owl"), fields.clone())).await,
            t.ada.patch(&path, fields.clone()).await,
        ] {
            let error = reply.json()["error"].clone();
            reply.refused(400);
            let named = error["param"].as_str().unwrap_or_default();
            assert!(named.starts_with(param), "{fields}: {error}");
        }
    }
    assert_eq!(t.ada.get(&path).await.ok()["version"], 1);
}

#[tokio::test]
async fn an_id_of_another_kind_is_unprocessable() {
    let t = team().await;
    for fields in [
        json!({"base_profile_id": t.bo.id}),
        json!({"access_control": {"allowed_subjects": [unknown_id("agent")]}}),
        json!({"sandbox_policy_id": unknown_id("agent")}),
    ] {
        t.ada
            .post("/v1/agents", with(form("owl"), fields))
            .await
            .refused(422);
    }
}

#[tokio::test]
async fn every_limit_is_enforced_exactly() {
    let t = team().await;
    let path = path_of(&t.ada, "sage").await;
    let lines = |n: usize, units: usize| vec!["x".repeat(units); n];
    let pairs = |n: usize| {
        (0..n)
            .map(|n| (n.to_string(), "v"))
            .collect::<BTreeMap<_, _>>()
    };
    // Lengths are UTF-16 code units: an emoji is two.
    for (fits, breaks) in [
        (
            json!({"display_name": "x".repeat(80)}),
            json!({"display_name": "x".repeat(81)}),
        ),
        (json!({"temperature": 0}), json!({"temperature": -0.01})),
        (json!({"temperature": 2}), json!({"temperature": 2.01})),
        (json!({"top_p": 0}), json!({"top_p": -0.01})),
        (json!({"top_p": 1}), json!({"top_p": 1.01})),
        (
            json!({"max_output_tokens": 1}),
            json!({"max_output_tokens": 0}),
        ),
        (
            json!({"metadata": pairs(16)}),
            json!({"metadata": pairs(17)}),
        ),
        (
            json!({"metadata": {"k": "v".repeat(512)}}),
            json!({"metadata": {"k": "v".repeat(513)}}),
        ),
        (
            json!({"metadata": {"k": "🌿".repeat(256)}}),
            json!({"metadata": {"k": "🌿".repeat(257)}}),
        ),
        (
            json!({"metadata": {"k".repeat(512): "v"}}),
            json!({"metadata": {"k".repeat(513): "v"}}),
        ),
        (
            json!({"metadata": {"🌿".repeat(256): "v"}}),
            json!({"metadata": {"🌿".repeat(257): "v"}}),
        ),
        (
            json!({"capabilities": lines(32, 64)}),
            json!({"capabilities": lines(33, 1)}),
        ),
        (
            json!({"agency": {"constraints": lines(50, 1000)}}),
            json!({"agency": {"constraints": lines(51, 1)}}),
        ),
        (
            json!({"memory": {"conversation_retention_days": 0}}),
            json!({"memory": {"conversation_retention_days": 36501}}),
        ),
        (
            json!({"sentiment": {"history_window": 100}}),
            json!({"sentiment": {"history_window": 101}}),
        ),
        (
            json!({"sentiment": {"frustration_threshold": -1}}),
            json!({"sentiment": {"frustration_threshold": -1.1}}),
        ),
        (
            json!({"sentiment": {"frustration_threshold": 0}}),
            json!({"sentiment": {"frustration_threshold": 0.1}}),
        ),
        (
            json!({"sentiment": {"satisfaction_threshold": 1}}),
            json!({"sentiment": {"satisfaction_threshold": 1.1}}),
        ),
        (
            json!({"sentiment": {"satisfaction_threshold": 0}}),
            json!({"sentiment": {"satisfaction_threshold": -0.1}}),
        ),
        (
            json!({"sentiment": {"consecutive_turns": 1}}),
            json!({"sentiment": {"consecutive_turns": 0}}),
        ),
        (
            json!({"sentiment": {"model": "m"}}),
            json!({"sentiment": {"model": " "}}),
        ),
        (
            json!({"reflection": {"interval_turns": 2}}),
            json!({"reflection": {"interval_turns": 1}}),
        ),
        (
            json!({"reflection": {"interval_turns": 100}}),
            json!({"reflection": {"interval_turns": 101}}),
        ),
        (
            json!({"reflection": {"metaprompts": metaprompts(10, "{{evidence}}")}}),
            json!({"reflection": {"metaprompts": metaprompts(11, "{{evidence}}")}}),
        ),
        (
            json!({"reflection": {"metaprompts": metaprompts(1, &"x".repeat(4000))}}),
            json!({"reflection": {"metaprompts": metaprompts(1, &"x".repeat(4001))}}),
        ),
        (
            json!({"reflection": {"metaprompts": metaprompts(1, "Mood: {{ current_mood }}")}}),
            json!({"reflection": {"metaprompts": metaprompts(1, "Mood: {{ current_temper }}")}}),
        ),
        (
            json!({"avatar": {"color": "#12abEF"}}),
            json!({"avatar": {"color": "#12abE"}}),
        ),
        (
            json!({"name": "x".repeat(64)}),
            json!({"name": "x".repeat(65)}),
        ),
    ] {
        let field = keys(&fits)[0].to_owned();
        // PATCH merges metadata, so each case first replaces the whole agent.
        let base = json!({"name": "sage", "instructions": "Keep."});
        t.ada.put(&path, with(base.clone(), fits)).await.is(200);
        let error = t.ada.put(&path, with(base.clone(), breaks.clone())).await;
        let param = text(&error.json(), "/error/param");
        error.refused(422);
        assert!(param.starts_with(&field), "{field}: {param}");
        t.ada.patch(&path, breaks.clone()).await.refused(422);
        t.ada
            .post("/v1/agents", with(form("owl"), breaks))
            .await
            .refused(422);
    }
}

#[tokio::test]
async fn instructions_and_identity_are_limited_to_256_kib_of_utf8() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let path = path_of(&t.ada, "sage").await;
    let most = "ü".repeat(128 * 1024);
    let above = format!("{most}x");
    for field in ["instructions", "identity"] {
        t.ada.patch(&path, json!({field: most})).await.is(200);
        let before = number(&t.ada.get(&path).await.ok(), "/version");
        t.ada.patch(&path, json!({field: above})).await.refused(413);
        t.ada
            .put(&path, with(form("sage"), json!({field: above})))
            .await
            .refused(413);
        t.ada
            .post("/v1/agents", with(form("owl"), json!({field: above})))
            .await
            .refused(413);
        assert_eq!(t.ada.get(&path).await.ok()["version"], before);
    }
    let owl = make(&t.ada, with(form("owl"), json!({"instructions": most}))).await;
    assert_eq!(text(&owl, "/instructions").len(), 256 * 1024);
}

#[tokio::test]
async fn metadata_limits_include_existing_pairs() {
    let t = team().await;
    let path = path_of(&t.ada, "sage").await;
    let pairs: BTreeMap<String, &str> = (0..16).map(|n| (n.to_string(), "v")).collect();
    t.ada.patch(&path, json!({"metadata": pairs})).await.is(200);
    t.ada
        .patch(&path, json!({"metadata": {"one more": "v"}}))
        .await
        .refused(422);
    let swapped = t
        .ada
        .patch(&path, json!({"metadata": {"one more": "v", "0": null}}))
        .await
        .is(200);
    assert_eq!(swapped["metadata"].as_object().unwrap().len(), 16);
    assert_eq!(swapped["version"], 3);
}

#[tokio::test]
async fn a_put_resets_omitted_fields_to_their_defaults() {
    let t = team().await;
    let made = make(&t.ada, with(form("sage"), everything())).await;
    let path = format!("/v1/agents/{}", id(&made));
    let put = t.ada.put(&path, form("sage")).await.is(200);
    let plain = make(&t.ada, with(form("plain"), json!({"editors": []}))).await;
    for field in FIELDS {
        if ![
            "id",
            "name",
            "instructions",
            "created_at",
            "updated_at",
            "version",
        ]
        .contains(field)
        {
            assert_eq!(put[field], plain[field], "{field}");
        }
    }
    assert_eq!(put["version"], 2);
}

#[tokio::test]
async fn a_put_without_status_keeps_the_status() {
    let t = team().await;
    let path = path_of(&t.ada, "sage").await;
    t.ada
        .patch(&path, json!({"status": "inactive"}))
        .await
        .is(200);
    let put = t
        .ada
        .put(&path, with(form("sage"), json!({"description": "x"})))
        .await
        .is(200);
    assert_eq!(put["status"], "inactive");
    let put = t
        .ada
        .put(&path, with(form("sage"), json!({"status": "active"})))
        .await
        .is(200);
    assert_eq!(put["status"], "active");
}

#[tokio::test]
async fn a_put_requires_a_name_and_instructions() {
    let t = team().await;
    let path = path_of(&t.ada, "sage").await;
    t.ada.put(&path, json!({"name": "sage"})).await.refused(400);
    t.ada
        .put(&path, json!({"instructions": "Keep."}))
        .await
        .refused(400);
    t.ada.put(&path, json!([])).await.refused(400);
    t.ada.patch(&path, json!(["x"])).await.refused(400);
}

#[tokio::test]
async fn tools_memory_and_agency_are_replaced_completely() {
    let t = team().await;
    let made = make(&t.ada, with(form("sage"), everything())).await;
    let path = format!("/v1/agents/{}", id(&made));
    let changed = t
        .ada
        .patch(
            &path,
            json!({"tools": [{"type": "web_fetch"}], "memory": {"summary_enabled": false}, "agency": {"constraints": ["Brief"]}}),
        )
        .await
        .is(200);
    assert_eq!(
        changed["tools"],
        json!([{"type": "web_fetch", "available": true, "unavailable_because": null}])
    );
    assert_eq!(changed["memory"]["summary_enabled"], false);
    assert!(changed["memory"]["conversation_retention_days"].is_null());
    assert_eq!(changed["memory"]["vector_store_ids"], json!([]));
    assert_eq!(changed["agency"]["constraints"], json!(["Brief"]));
    assert_eq!(changed["agency"]["responsibilities"], json!([]));
    assert_eq!(
        changed["metadata"], made["metadata"],
        "omitted fields are unchanged"
    );
    assert_eq!(changed["version"], 2);
}

#[tokio::test]
async fn null_clears_a_field_but_a_name_cannot_be_cleared() {
    let t = team().await;
    let made = make(&t.ada, with(form("sage"), everything())).await;
    let path = format!("/v1/agents/{}", id(&made));
    for field in [
        "display_name",
        "description",
        "avatar",
        "model",
        "temperature",
        "top_p",
        "agency",
        "memory",
        "prompting",
        "reflection",
        "sentiment",
        "trust",
        "access_control",
        "store",
        "store_required",
        "identity",
    ] {
        let now = t.ada.patch(&path, json!({field: null})).await.is(200);
        assert!(now[field].is_null(), "{field}: {}", now[field]);
    }
    let now = t
        .ada
        .patch(&path, json!({"max_output_tokens": null, "capabilities": null, "tools": null, "metadata": null}))
        .await
        .is(200);
    assert_eq!(now["max_output_tokens"], 4096);
    assert_eq!(
        (&now["capabilities"], &now["tools"]),
        (&json!([]), &json!([]))
    );
    for field in ["name", "instructions"] {
        t.ada.patch(&path, json!({field: null})).await.refused(400);
    }
}

#[tokio::test]
async fn people_and_agents_share_one_namespace() {
    let t = team().await;
    let path = path_of(&t.ada, "sage").await;
    assert_eq!(
        t.ada.post("/v1/agents", form("bo")).await.refused(409),
        "name_taken"
    );
    assert_eq!(
        t.ada.patch(&path, json!({"name": "bo"})).await.refused(409),
        "name_taken"
    );
    assert_eq!(
        t.ada.put(&path, form("bo")).await.refused(409),
        "name_taken"
    );
    let shown = json!({"display_name": "Owl"});
    t.ada.patch(&path, shown).await.is(200);
    let newcomer = t.app.join(&t.ada, "Sage", "member").await;
    assert_ne!(newcomer.handle, "sage");
    t.ada
        .patch(
            &format!("/v1/members/{}", t.bo.id),
            json!({"handle": "sage"}),
        )
        .await
        .refused(409);
    t.ada.delete(&path).await.is(200);
    t.ada
        .patch(
            &format!("/v1/members/{}", t.bo.id),
            json!({"handle": "sage"}),
        )
        .await
        .refused(409);
    for reserved in ["main", "everyone", "here", "channel", "_x"] {
        t.ada.put(&path, form(reserved)).await.refused(422);
        t.ada
            .patch(&path, json!({"name": reserved}))
            .await
            .refused(422);
    }
}

#[tokio::test]
async fn objects_referenced_by_a_profile_must_exist() {
    let t = team().await;
    let path = path_of(&t.ada, "sage").await;
    for (fields, status, param) in [
        (
            json!({"base_profile_id": unknown_id("agent")}),
            404,
            "base_profile_id",
        ),
        (
            json!({"sandbox_policy_id": unknown_id("sbx")}),
            422,
            "sandbox_policy_id",
        ),
        (
            json!({"access_control": {"denied_subjects": [unknown_id("user")]}}),
            404,
            "access_control",
        ),
        (
            json!({"trust": {"approval_rules": [{"action": "code", "requires": "specific_user", "user_id": unknown_id("user")}]}}),
            404,
            "trust",
        ),
    ] {
        for reply in [
            t.ada
                .post("/v1/agents", with(form("owl"), fields.clone()))
                .await,
            t.ada.patch(&path, fields.clone()).await,
            t.ada.put(&path, with(form("sage"), fields.clone())).await,
        ] {
            let named = text(&reply.json(), "/error/param");
            reply.refused(status);
            assert!(named.starts_with(param), "{named}");
        }
    }
    assert_eq!(t.ada.get(&path).await.ok()["version"], 1);
}

#[tokio::test]
async fn a_profile_cannot_reference_objects_of_another_workspace() {
    let app = TestApp::with(&[("SIGNUP", "open")]).await;
    let (ada, bo) = (app.founder("Ada").await, app.founder("Bo").await);
    let theirs = id(&make(&bo, form("theirs")).await);
    let policy = json!({"name": "box", "image": "x", "cpu_max": 1, "memory_mb_max": 64, "network": "none",
        "timeout_s_max": 1, "filesystem": "none"});
    let policy = id(&bo.post("/v1/sandbox-policies", policy).await.is(201));
    for (fields, status) in [
        (json!({"base_profile_id": theirs}), 404),
        (json!({"sandbox_policy_id": policy}), 422),
        (
            json!({"access_control": {"allowed_subjects": [bo.id]}}),
            404,
        ),
    ] {
        ada.post("/v1/agents", with(form("sage"), fields))
            .await
            .refused(status);
    }
    for query in [format!("after={theirs}"), format!("before={theirs}")] {
        ada.get(&format!("/v1/agents?{query}")).await.refused(404);
    }
    ada.get(&format!("/v1/sandbox-policies/{policy}"))
        .await
        .refused(404);
}

#[tokio::test]
async fn agent_routes_return_not_found_for_another_workspace() {
    let app = TestApp::with(&[("SIGNUP", "open")]).await;
    let (ada, bo) = (app.founder("Ada").await, app.founder("Bo").await);
    let theirs = format!("/v1/agents/{}", id(&make(&bo, form("theirs")).await));
    for path in [
        theirs.clone(),
        format!("{theirs}?resolve=true"),
        format!("{theirs}/versions"),
        format!("{theirs}/versions/1"),
        format!("{theirs}/versions/1/diff"),
        format!("{theirs}/export"),
        format!("{theirs}/files"),
        format!("{theirs}/files/SOUL.md"),
        format!("/v1/workspaces/{}/policy", bo.workspace),
        format!("/v1/workspaces/{}/files", bo.workspace),
    ] {
        ada.get(&path).await.refused(404);
    }
    ada.patch(&theirs, json!({"description": "x"}))
        .await
        .refused(404);
    ada.put(&theirs, form("theirs")).await.refused(404);
    ada.delete(&theirs).await.refused(404);
    ada.act(&format!("{theirs}/duplicate")).await.refused(404);
    ada.act(&format!("{theirs}/default")).await.refused(404);
    ada.post(&format!("{theirs}/rollback"), json!({"target_version": 1}))
        .await
        .refused(404);
    ada.put(
        &format!("{theirs}/files/MEMORY.md"),
        json!({"content": "x"}),
    )
    .await
    .refused(404);
    assert_eq!(bo.get(&theirs).await.ok()["version"], 1);
}

#[tokio::test]
async fn if_match_accepts_quoted_and_bare_versions() {
    let t = team().await;
    let path = path_of(&t.ada, "sage").await;
    for (version, description) in [("\"1\"", "2"), ("2", "3")] {
        let body = with(form("sage"), json!({"description": description}));
        let body = Some(body.to_string().into_bytes());
        t.ada
            .send(Method::PUT, &path, &[("if-match", version)], body)
            .await
            .is(200);
    }
    t.ada
        .patch_if(&path, "\"3\"", json!({"description": "4"}))
        .await
        .is(200);
    let body = || Some(br#"{"target_version":1}"#.to_vec());
    let rollback = format!("{path}/rollback");
    t.ada
        .send(Method::POST, &rollback, &[("if-match", "\"4\"")], body())
        .await
        .is(200);
    t.ada
        .send(Method::DELETE, &path, &[("if-match", "5")], None)
        .await
        .is(200);
    assert_eq!(t.ada.get(&path).await.ok()["version"], 6);
}

#[tokio::test]
async fn a_stale_or_malformed_if_match_is_rejected_on_every_change() {
    let t = team().await;
    let path = path_of(&t.ada, "sage").await;
    t.ada
        .patch(&path, json!({"description": "Now"}))
        .await
        .is(200);
    let change = async |version: &str, n: usize| {
        let head = [("if-match", version)];
        let body = |value: Value| Some(value.to_string().into_bytes());
        match n {
            0 => {
                t.ada
                    .send(Method::PUT, &path, &head, body(form("sage")))
                    .await
            }
            1 => {
                t.ada
                    .send(
                        Method::PATCH,
                        &path,
                        &head,
                        body(json!({"description": "x"})),
                    )
                    .await
            }
            2 => t.ada.send(Method::DELETE, &path, &head, None).await,
            3 => {
                t.ada
                    .send(
                        Method::DELETE,
                        &format!("{path}?permanent=true"),
                        &head,
                        None,
                    )
                    .await
            }
            4 => {
                t.ada
                    .send(
                        Method::POST,
                        &format!("{path}/rollback"),
                        &head,
                        body(json!({"target_version": 1})),
                    )
                    .await
            }
            // The version is checked even if the change has no effect.
            _ => {
                t.ada
                    .send(
                        Method::PATCH,
                        &path,
                        &head,
                        body(json!({"description": "Now"})),
                    )
                    .await
            }
        }
    };
    for n in 0..6 {
        for stale in ["\"1\"", "1", "3", "0"] {
            let reply = change(stale, n).await;
            let error = reply.json()["error"].clone();
            assert_eq!(reply.refused(409), "version_conflict", "{n} {stale}");
            assert_eq!(error["current"]["version"], 2, "{n}: {error}");
            assert_eq!(error["current"]["description"], "Now");
            // The effective model is computed, not stored.
            let stored: Vec<_> = FIELDS.iter().filter(|f| **f != "effective_model").collect();
            assert_eq!(keys(&error["current"]).iter().collect::<Vec<_>>(), stored);
        }
        for garbage in ["x", "\"x\"", "-1", "1.0", "\"1", "W/\"2\"", "\"2\", \"3\""] {
            change(garbage, n).await.refused(400);
        }
    }
    assert_eq!(t.ada.get(&path).await.ok()["version"], 2);
}

#[tokio::test]
async fn one_of_fifty_concurrent_editors_using_different_methods_wins() {
    let t = team().await;
    let path = path_of(&t.ada, "sage").await;
    t.ada
        .patch(&path, json!({"description": "2"}))
        .await
        .is(200);
    let edit = async |n: usize| {
        let head = [("if-match", "\"2\"")];
        let body = |value: Value| Some(value.to_string().into_bytes());
        match n % 4 {
            0 => {
                t.ada
                    .send(
                        Method::PATCH,
                        &path,
                        &head,
                        body(json!({"description": n.to_string()})),
                    )
                    .await
            }
            1 => {
                let form = with(form("sage"), json!({"description": n.to_string()}));
                t.ada.send(Method::PUT, &path, &head, body(form)).await
            }
            2 => {
                t.ada
                    .send(
                        Method::POST,
                        &format!("{path}/rollback"),
                        &head,
                        body(json!({"target_version": 1})),
                    )
                    .await
            }
            _ => {
                let file = json!({"content": format!("You are Sage {n}.")});
                t.ada
                    .send(
                        Method::PUT,
                        &format!("{path}/files/SOUL.md"),
                        &head,
                        body(file),
                    )
                    .await
            }
        }
    };
    let replies = futures::future::join_all((0..50).map(edit)).await;
    assert_eq!(replies.iter().filter(|r| r.status == 200).count(), 1);
    assert_eq!(replies.iter().filter(|r| r.status == 409).count(), 49);
    assert_eq!(t.ada.get(&path).await.ok()["version"], 3);
    let versions = t.ada.get(&format!("{path}/versions")).await.ok();
    assert_eq!(list(&versions, "/data").len(), 3);
}

#[tokio::test]
async fn parallel_changes_without_if_match_each_create_a_version() {
    let t = team().await;
    let path = path_of(&t.ada, "sage").await;
    let edits = (0..20).map(|n| {
        t.ada
            .patch(&path, json!({"metadata": {"n": n.to_string()}}))
    });
    for reply in futures::future::join_all(edits).await {
        reply.is(200);
    }
    assert_eq!(t.ada.get(&path).await.ok()["version"], 21);
}

#[tokio::test]
async fn a_rejected_or_empty_change_creates_no_version_and_no_event() {
    let t = team().await;
    let fields = json!({"metadata": {"a": "1"}, "editors": []});
    let made = make(&t.ada, with(form("sage"), fields)).await;
    let path = format!("/v1/agents/{}", id(&made));
    let mut socket = t.bo.socket().await;
    t.ada.patch(&path, json!({})).await.is(200);
    t.ada.patch(&path, json!({"metadata": {}})).await.is(200);
    t.ada
        .patch(&path, json!({"metadata": {"a": "1", "b": null}}))
        .await
        .is(200);
    t.ada
        .patch(&path, json!({"version": 7, "status": "active"}))
        .await
        .is(200);
    t.ada
        .put(&path, with(form("sage"), json!({"metadata": {"a": "1"}})))
        .await
        .is(200);
    t.ada
        .patch(&path, json!({"temperature": 3}))
        .await
        .refused(422);
    t.ada
        .patch(&path, json!({"description": "x", "name": "vibe"}))
        .await
        .refused(409);
    t.ada
        .patch(
            &path,
            json!({"description": "x", "base_profile_id": unknown_id("agent")}),
        )
        .await
        .refused(404);
    let frames = socket.settle().await;
    assert!(
        frames.iter().all(|f| f["type"] != "agent.updated"),
        "{frames:?}"
    );
    assert_eq!(t.ada.get(&path).await.ok(), made);
}

#[tokio::test]
async fn a_list_contains_only_summaries() {
    let t = team().await;
    let made = make(&t.ada, with(form("sage"), everything())).await;
    let page = t.bo.get("/v1/agents?name=sage").await.ok();
    let summary = &page["data"][0];
    assert_eq!(keys(summary), SUMMARY_FIELDS);
    for field in SUMMARY_FIELDS {
        assert_eq!(summary[field], made[field], "{field}");
    }
    let snapshot = t.bo.get("/v1/snapshot").await.ok();
    let shown = list(&snapshot, "/agents")
        .into_iter()
        .find(|a| a["name"] == "sage");
    assert_eq!(shown.as_ref(), Some(summary));
    let text = snapshot["agents"].to_string();
    assert!(!text.contains(&instructions_of("sage")), "{text}");
}

async fn agents_of(t: &Team, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..count {
        let fields =
            json!({"metadata": {"set": "test", "half": (n % 2).to_string(), "a.b=c": "x y&z"}});
        ids.push(id(
            &make(&t.ada, with(form(&format!("sage-{n}")), fields)).await
        ));
    }
    ids
}

#[tokio::test]
async fn a_list_is_paged_by_id_in_both_directions() {
    let t = team().await;
    let ids = agents_of(&t, 7).await;
    let page = async |query: &str| {
        t.bo.get(&format!("/v1/agents?metadata.set=test&{query}"))
            .await
            .ok()
    };
    let first = page("limit=3").await;
    let of = |page: &Value| -> Vec<String> { list(page, "/data").iter().map(id).collect() };
    assert_eq!(first["object"], "list");
    assert_eq!(of(&first), ids[0..3]);
    assert_eq!(
        (&first["first_id"], &first["last_id"]),
        (&json!(ids[0]), &json!(ids[2]))
    );
    assert_eq!(first["has_more"], true);
    let second = page(&format!("limit=3&after={}", ids[2])).await;
    assert_eq!(
        (of(&second), &second["has_more"]),
        (ids[3..6].to_vec(), &json!(true))
    );
    let third = page(&format!("limit=3&after={}", ids[5])).await;
    assert_eq!(
        (of(&third), &third["has_more"]),
        (ids[6..].to_vec(), &json!(false))
    );
    let back = page(&format!("limit=3&before={}", ids[6])).await;
    assert_eq!(
        (of(&back), &back["has_more"]),
        (ids[3..6].to_vec(), &json!(true))
    );
    let start = page(&format!("limit=3&before={}", ids[3])).await;
    assert_eq!(
        (of(&start), &start["has_more"]),
        (ids[0..3].to_vec(), &json!(false))
    );
    let none = page(&format!("after={}", ids[6])).await;
    assert_eq!(
        (&none["data"], &none["has_more"]),
        (&json!([]), &json!(false))
    );
}

#[tokio::test]
async fn list_filters_can_be_combined() {
    let t = team().await;
    let ids = agents_of(&t, 6).await;
    t.ada
        .patch(
            &format!("/v1/agents/{}", ids[0]),
            json!({"status": "inactive"}),
        )
        .await
        .is(200);
    t.ada
        .delete(&format!("/v1/agents/{}", ids[2]))
        .await
        .is(200);
    assert_eq!(
        names(&t.bo, "metadata.set=test&metadata.half=0").await,
        ["sage-0", "sage-2", "sage-4"]
    );
    assert_eq!(
        names(&t.bo, "metadata.set=test&metadata.half=0&status=active").await,
        ["sage-4"]
    );
    assert_eq!(
        names(&t.bo, "metadata.half=0&status=archived").await,
        ["sage-2"]
    );
    assert_eq!(
        names(&t.bo, "metadata.half=0&status=inactive&name=sage-0").await,
        ["sage-0"]
    );
    assert!(names(&t.bo, "metadata.half=1&name=sage-0").await.is_empty());
    assert!(names(&t.bo, "status=archived&name=sage-0").await.is_empty());
    assert!(names(&t.bo, "metadata.set=tes").await.is_empty());
    assert!(names(&t.bo, "metadata.Set=test").await.is_empty());
    assert_eq!(
        names(&t.bo, "metadata.a.b%3Dc=x+y%26z&limit=1").await,
        ["sage-0"]
    );
    let after = format!("metadata.half=1&status=active&limit=1&after={}", ids[1]);
    assert_eq!(names(&t.bo, &after).await, ["sage-3"]);
    let before = format!(
        "metadata.half=1&metadata.set=test&limit=1&before={}",
        ids[5]
    );
    assert_eq!(names(&t.bo, &before).await, ["sage-3"]);
    let before = format!("status=active&limit=2&before={}", ids[4]);
    assert_eq!(names(&t.bo, &before).await, ["sage-1", "sage-3"]);
}

#[tokio::test]
async fn a_filtered_list_reports_whether_there_is_more() {
    let t = team().await;
    agents_of(&t, 6).await;
    for (query, more) in [
        ("metadata.set=test&metadata.half=0&limit=2", true),
        ("metadata.set=test&metadata.half=0&limit=3", false),
        ("metadata.set=test&status=active&limit=5", true),
        ("metadata.set=test&status=active&limit=6", false),
    ] {
        let page = t.bo.get(&format!("/v1/agents?{query}")).await.ok();
        assert_eq!(page["has_more"], more, "{query}");
    }
}

#[tokio::test]
async fn agents_are_found_by_their_current_metadata() {
    let t = team().await;
    let path = path_of(&t.ada, "sage").await;
    t.ada
        .patch(&path, json!({"metadata": {"team": "blue", "floor": "2"}}))
        .await
        .is(200);
    assert_eq!(names(&t.ada, "metadata.floor=2").await, ["sage"]);
    t.ada
        .patch(&path, json!({"metadata": {"team": "red", "floor": null}}))
        .await
        .is(200);
    assert!(names(&t.ada, "metadata.team=blue").await.is_empty());
    assert!(names(&t.ada, "metadata.floor=2").await.is_empty());
    assert_eq!(names(&t.ada, "metadata.team=red").await, ["sage"]);
    t.ada
        .post(&format!("{path}/rollback"), json!({"target_version": 2}))
        .await
        .is(200);
    assert_eq!(names(&t.ada, "metadata.floor=2").await, ["sage"]);
    t.ada
        .delete(&format!("{path}?permanent=true"))
        .await
        .is(200);
    assert!(names(&t.ada, "metadata.floor=2").await.is_empty());
}

#[tokio::test]
async fn a_malformed_list_query_is_rejected() {
    let t = team().await;
    let vibe = id(&t.ada.agent("vibe").await);
    for query in [
        "limit=0",
        "limit=101",
        "limit=x",
        "limit=-1",
        "status=asleep",
        "color=red",
        "metadata=x",
        "metadata.=x",
        "after=vibe",
        "before=agent_x",
        &format!("after={}", unknown_id("user")),
        &format!("after={vibe}&before={vibe}"),
    ] {
        t.bo.get(&format!("/v1/agents?{query}")).await.refused(400);
    }
    t.bo.get(&format!("/v1/agents?after={}", unknown_id("agent")))
        .await
        .refused(404);
    t.bo.get("/v1/agents?limit=100").await.is(200);
    for query in ["name=%00", "metadata.k=%00", "metadata.%00=x"] {
        t.bo.get(&format!("/v1/agents?{query}")).await.refused(400);
    }
}

#[tokio::test]
async fn an_agent_with_a_long_history_is_deleted_completely() {
    let t = team().await;
    let stored = async || {
        let usage = t.ada.get("/v1/usage").await.ok();
        usage["storage"]["bytes"].as_i64().unwrap()
    };
    let before = stored().await;
    let path = format!("/v1/agents/{}", id(&make(&t.ada, form("sage")).await));
    for n in 0..50 {
        let change =
            json!({"instructions": format!("Version {n}. {}", "Be precise. ".repeat(2000))});
        t.ada.patch(&path, change).await.is(200);
        let file = format!("{path}/files/notes.md");
        t.ada
            .put(&file, json!({"content": format!("Note {n}")}))
            .await
            .ok();
    }
    assert!(stored().await > before + 1_000_000);
    let mut socket = t.bo.socket().await;
    let gone = t
        .ada
        .delete(&format!("{path}?permanent=true"))
        .await
        .is(200);
    assert_eq!(gone["status"], "archived");
    assert_eq!(
        socket.of("agent.archived").await["data"]["agent"]["name"],
        "sage"
    );
    t.ada.get(&path).await.refused(404);
    assert_eq!(stored().await, before);
    for table in ["agent_versions", "agent_file_versions"] {
        let sql = format!("select count(*) from {table} where version > 10");
        assert_eq!(t.app.place.numbers(&[sql]).await, [0], "{table}");
    }
    make(&t.ada, form("sage")).await;
}

#[tokio::test]
async fn deleting_archives_the_agent_and_reports_it() {
    let t = team().await;
    let made = make(&t.ada, form("sage")).await;
    let path = format!("/v1/agents/{}", id(&made));
    let mut socket = t.bo.socket().await;
    let gone = t.ada.delete(&path).await.is(200);
    assert_eq!(
        gone,
        json!({"id": made["id"], "object": "agent_profile", "status": "archived", "deleted": true})
    );
    let event = socket.of("agent.archived").await;
    assert_eq!(event["data"]["agent"]["status"], "archived");
    assert_eq!(event["data"]["agent"]["version"], 2);
    let now = t.bo.get(&path).await.ok();
    assert_eq!(
        (&now["status"], &now["version"]),
        (&json!("archived"), &json!(2))
    );
    assert_eq!(names(&t.bo, "status=archived").await, ["sage"]);
    let again = t.ada.delete(&path).await.is(200);
    assert_eq!(again["status"], "archived");
    assert_eq!(
        t.bo.get(&path).await.ok()["version"],
        2,
        "it was already archived"
    );
}

#[tokio::test]
async fn an_agent_cannot_be_created_as_archived() {
    let t = team().await;
    t.ada
        .post(
            "/v1/agents",
            with(form("sage"), json!({"status": "archived"})),
        )
        .await
        .refused(422);
    let made = make(&t.ada, with(form("sage"), json!({"status": "inactive"}))).await;
    assert_eq!(made["status"], "inactive");
}

#[tokio::test]
async fn permanent_deletion_leaves_nothing_and_frees_the_name() {
    let t = team().await;
    let made = make(&t.ada, form("sage")).await;
    let path = format!("/v1/agents/{}", id(&made));
    t.ada
        .put(
            &format!("{path}/files/MEMORY.md"),
            json!({"content": "Kept"}),
        )
        .await
        .is(200);
    let mut socket = t.bo.socket().await;
    let gone = t
        .ada
        .delete(&format!("{path}?permanent=true"))
        .await
        .is(200);
    assert_eq!((&gone["deleted"], &gone["id"]), (&json!(true), &made["id"]));
    assert_eq!(
        socket.of("agent.archived").await["data"]["agent"]["id"],
        made["id"]
    );
    for rest in [
        "",
        "?resolve=true",
        "/versions",
        "/versions/1",
        "/files",
        "/files/MEMORY.md",
        "/export",
    ] {
        assert_eq!(
            t.ada.get(&format!("{path}{rest}")).await.refused(404),
            "agent_not_found",
            "{rest}"
        );
    }
    t.ada.delete(&path).await.refused(404);
    make(&t.ada, form("sage")).await;
}

#[tokio::test]
async fn the_default_agent_cannot_be_archived_or_deleted() {
    let t = team().await;
    let vibe = id(&t.ada.agent("vibe").await);
    for path in [format!("/v1/agents/{vibe}"), "/v1/agents/main".to_owned()] {
        for query in ["", "?permanent=true"] {
            let refused = t.ada.delete(&format!("{path}{query}")).await;
            assert_eq!(refused.refused(409), "default_agent");
        }
        for fields in [
            json!({"status": "archived"}),
            json!({"status": "inactive"}),
            json!({"role": "specialist"}),
        ] {
            assert_eq!(
                t.ada.patch(&path, fields).await.refused(409),
                "default_agent"
            );
        }
    }
    assert_eq!(t.ada.agent("vibe").await["version"], 1);
}

#[tokio::test]
async fn a_base_agent_cannot_be_deleted_permanently() {
    let t = team().await;
    let base = id(&make(&t.ada, form("base")).await);
    let child = id(&make(
        &t.ada,
        with(form("child"), json!({"base_profile_id": base})),
    )
    .await);
    let path = format!("/v1/agents/{base}?permanent=true");
    assert_eq!(t.ada.delete(&path).await.refused(409), "has_children");
    t.ada.delete(&format!("/v1/agents/{child}")).await.is(200);
    assert_eq!(
        t.ada.delete(&path).await.refused(409),
        "has_children",
        "an archived child can come back"
    );
    t.ada
        .delete(&format!("/v1/agents/{child}?permanent=true"))
        .await
        .is(200);
    t.ada.delete(&path).await.is(200);
}

#[tokio::test]
async fn main_names_the_default_agent_in_every_route() {
    let t = team().await;
    let vibe = t.ada.agent("vibe").await;
    let reply = t.ada.get("/v1/agents/main").await;
    assert_eq!(reply.header("etag").as_deref(), Some("\"1\""));
    assert_eq!(reply.ok()["id"], vibe["id"]);
    let patched = t
        .ada
        .patch("/v1/agents/main", json!({"description": "Here"}))
        .await
        .is(200);
    assert_eq!(
        (&patched["id"], &patched["version"]),
        (&vibe["id"], &json!(2))
    );
    assert_eq!(
        list(&t.ada.get("/v1/agents/main/versions").await.ok(), "/data").len(),
        2
    );
    assert_eq!(
        t.ada.get("/v1/agents/main/files/SOUL.md").await.ok()["content"],
        patched["instructions"]
    );
    let coder = id(&t.ada.agent("coder").await);
    t.ada
        .act(&format!("/v1/agents/{coder}/default"))
        .await
        .is(200);
    assert_eq!(
        t.ada.get("/v1/agents/main").await.ok()["id"],
        coder.as_str()
    );
    for bad in ["vibe", "MAIN", "agent_x", &unknown_id("user")] {
        t.ada.get(&format!("/v1/agents/{bad}")).await.refused(400);
    }
    t.ada
        .get(&format!("/v1/agents/{}", unknown_id("agent")))
        .await
        .refused(404);
}

#[tokio::test]
async fn the_default_agent_is_primary() {
    let t = team().await;
    let made = make(&t.ada, with(form("sage"), json!({"role": "reviewer"}))).await;
    let path = format!("/v1/agents/{}", id(&made));
    let mut socket = t.bo.socket().await;
    let now = t.ada.act(&format!("{path}/default")).await.is(200);
    assert_eq!(
        (&now["role"], &now["is_default"]),
        (&json!("primary"), &json!(true))
    );
    let old = t.ada.agent("vibe").await;
    assert_eq!(
        (&old["role"], &old["is_default"]),
        (&json!("specialist"), &json!(false))
    );
    let mut told: Vec<(Value, Value)> = Vec::new();
    for _ in 0..2 {
        let agent = socket.of("agent.updated").await["data"]["agent"].clone();
        told.push((agent["name"].clone(), agent["is_default"].clone()));
    }
    told.sort_by_key(|(name, _)| name.to_string());
    assert_eq!(
        told,
        [(json!("sage"), json!(true)), (json!("vibe"), json!(false))]
    );
    let back = t
        .ada
        .patch("/v1/agents/main", json!({"role": "reviewer"}))
        .await;
    assert_eq!(back.refused(409), "default_agent");
    let vibe = format!("/v1/agents/{}", id(&old));
    let primary = t.ada.patch(&vibe, json!({"role": "primary"})).await.is(200);
    assert_eq!(
        (&primary["role"], &primary["is_default"]),
        (&json!("primary"), &json!(true))
    );
    let was = t.ada.get(&path).await.ok();
    assert_eq!(
        (&was["role"], &was["is_default"]),
        (&json!("reviewer"), &json!(false)),
        "its own role again"
    );
    t.ada.delete(&path).await.is(200);
}

#[tokio::test]
async fn only_admins_can_make_an_active_agent_the_default() {
    let t = team().await;
    let path = path_of(&t.bo, "sage").await;
    t.bo.act(&format!("{path}/default")).await.refused(403);
    t.bo.patch(&path, json!({"role": "primary"}))
        .await
        .refused(403);
    t.bo.put(&path, with(form("sage"), json!({"role": "primary"})))
        .await
        .refused(403);
    t.bo.post("/v1/agents", with(form("owl"), json!({"role": "primary"})))
        .await
        .refused(403);
    assert!(names(&t.ada, "name=owl").await.is_empty());
    t.ada
        .patch(&path, json!({"status": "inactive"}))
        .await
        .is(200);
    assert_eq!(
        t.ada.act(&format!("{path}/default")).await.refused(409),
        "not_active"
    );
    assert_eq!(
        t.ada
            .patch(&path, json!({"role": "primary"}))
            .await
            .refused(409),
        "not_active"
    );
    assert_eq!(t.ada.get("/v1/agents/main").await.ok()["name"], "vibe");
    let made = make(&t.ada, with(form("owl"), json!({"role": "primary"}))).await;
    assert_eq!(made["is_default"], true);
    assert_eq!(t.ada.get("/v1/agents/main").await.ok()["name"], "owl");
    assert_eq!(t.ada.agent("vibe").await["role"], "specialist");
}

#[tokio::test]
async fn tools_that_replies_cannot_use_are_stored_with_the_reason() {
    let t = team().await;
    let tools = json!([
        {"type": "mcp", "server_label": "wiki", "server_url": "https://wiki.example", "require_approval": "always",
            "allowed_tools": ["read"], "server_description": "Our wiki"},
        {"type": "function", "name": "f", "strict": true},
        {"type": "file_search", "vector_store_ids": [], "max_num_results": 5,
            "ranking_options": {"ranker": "auto", "score_threshold": 0.5}},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "web_fetch"},
        {"type": "delegate", "agents": ["coder"]},
    ]);
    let made = make(&t.ada, with(form("sage"), json!({"tools": tools}))).await;
    for (shown, sent) in list(&made, "/tools").iter().zip(tools.as_array().unwrap()) {
        let reason = match sent["type"].as_str().unwrap() {
            "mcp" => json!("not_registered"),
            "function" => json!("client_only"),
            "code_interpreter" => json!("no_runner"),
            _ => Value::Null,
        };
        assert_eq!(shown["unavailable_because"], reason, "{shown}");
        assert_eq!(shown["available"], reason.is_null(), "{shown}");
        for (field, value) in sent.as_object().unwrap() {
            assert_eq!(shown[field], *value, "{field}");
        }
    }
    let without_effect = json!(["tools.container", "tools.server_description"]);
    assert_eq!(made["not_in_force"], without_effect);
    let path = format!("/v1/agents/{}", id(&made));
    let again = t
        .ada
        .patch(&path, json!({"tools": made["tools"]}))
        .await
        .is(200);
    assert_eq!(again["version"], 1, "both fields are set by the server");
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@sage hi").await;
    t.ada.completed(&task).await;
    let body = t.model().asked_once("sage").await.body;
    let tools = list(&body, "/tools");
    let offered: Vec<String> = tools
        .iter()
        .map(|tool| text(tool, "/function/name"))
        .collect();
    let usable = [
        "search_messages",
        "read_thread",
        "search_decisions",
        "list_action_items",
        "search_files",
        "read_file",
        "remember",
        "delegate",
        "web_fetch",
    ];
    assert_eq!(offered, usable);
}

#[tokio::test]
async fn a_tool_of_an_unknown_kind_or_shape_is_rejected() {
    let t = team().await;
    for tool in [
        json!({"type": "time_machine"}),
        json!({"name": "f"}),
        json!({"type": "mcp", "server_label": "x", "require_approval": "maybe"}),
        json!("function"),
    ] {
        t.ada
            .post("/v1/agents", with(form("sage"), json!({"tools": [tool]})))
            .await
            .refused(400);
    }
    for tool in [
        json!({"type": "function"}),
        json!({"type": "function", "name": ""}),
        json!({"type": "function", "name": "two words"}),
        json!({"type": "function", "name": "f".repeat(65)}),
        json!({"type": "mcp"}),
        json!({"type": "mcp", "server_label": "two words"}),
        json!({"type": "mcp", "server_label": "x", "server_url": "ftp://x"}),
        json!({"type": "file_search", "max_num_results": 0}),
        json!({"type": "file_search", "max_num_results": 51}),
        json!({"type": "file_search", "vector_store_ids": ["vs_1"]}),
        json!({"type": "file_search", "ranking_options": {"ranker": "default-2024"}}),
        json!({"type": "file_search", "filters": {"type": "eq"}}),
        json!({"type": "file_search", "filters": {"channel_ids": "general"}}),
        json!({"type": "file_search", "filters": {"channel_ids": ["general"]}}),
        json!({"type": "function", "name": "f", "registry_id": "tool_1"}),
        json!({"type": "code_interpreter", "sandbox_policy_id": unknown_id("sbx")}),
    ] {
        t.ada
            .post("/v1/agents", with(form("sage"), json!({"tools": [tool]})))
            .await
            .refused(422);
    }
}

#[tokio::test]
async fn unset_fields_are_not_sent_to_the_model() {
    let t = team().await;
    let made = make(&t.ada, form("sage")).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@sage hi").await;
    t.ada.completed(&task).await;
    let fields = json!({"temperature": 0.25, "top_p": 0.5, "max_output_tokens": 99});
    t.ada
        .patch(&format!("/v1/agents/{}", id(&made)), fields)
        .await
        .is(200);
    t.model().script("sage", [Answer::text("Again.")]);
    let task = t.ada.ask(&thread, "@sage again").await;
    t.ada.completed(&task).await;
    let asked = t.model().asked("sage", 2).await;
    let (first, second) = (&asked[0].body, &asked[1].body);
    assert!(
        first.get("temperature").is_none() && first.get("top_p").is_none(),
        "{first}"
    );
    assert_eq!(
        (&second["temperature"], &second["top_p"]),
        (&json!(0.25), &json!(0.5))
    );
    let tokens = |body: &Value| {
        body.get("max_completion_tokens")
            .or(body.get("max_tokens"))
            .cloned()
    };
    assert_eq!(
        (tokens(first), tokens(second)),
        (Some(json!(4096)), Some(json!(99)))
    );
}

#[tokio::test]
async fn an_agent_of_the_maximum_size_is_returned_completely() {
    let t = team().await;
    let mut socket = t.bo.socket().await;
    let most = "ü".repeat(128 * 1024);
    let mut made = make(
        &t.ada,
        with(
            form("sage"),
            json!({"instructions": most, "identity": most}),
        ),
    )
    .await;
    made.as_object_mut().unwrap().remove("effective_model");
    let event = socket.of("agent.created").await;
    assert_eq!(event["data"]["agent"], made);
    assert_eq!(t.bo.events().await.last().unwrap()["data"]["agent"], made);
}

#[tokio::test]
async fn text_lengths_are_counted_in_utf16_code_units() {
    let t = team().await;
    let path = path_of(&t.ada, "sage").await;
    for (field, units) in [("display_name", 80), ("description", 1024), ("model", 128)] {
        let fits = "🌿".repeat(units / 2);
        assert_eq!(
            t.ada.patch(&path, json!({field: fits})).await.is(200)[field],
            fits.as_str()
        );
        let error = t.ada.patch(&path, json!({field: format!("{fits}x")})).await;
        assert_eq!(error.json()["error"]["param"], field);
        error.refused(422);
    }
    let tag = "🌿".repeat(32);
    t.ada
        .patch(&path, json!({"capabilities": [tag]}))
        .await
        .is(200);
    t.ada
        .patch(&path, json!({"capabilities": [format!("{tag}x")]}))
        .await
        .refused(422);
    t.ada
        .patch(&path, json!({"capabilities": [" "]}))
        .await
        .refused(422);
}

#[tokio::test]
async fn a_page_has_twenty_agents_by_default() {
    let t = team().await;
    for n in 0..17 {
        make(&t.ada, form(&format!("sage-{n}"))).await;
    }
    let page = t.bo.get("/v1/agents").await.ok();
    assert_eq!(
        (list(&page, "/data").len(), &page["has_more"]),
        (20, &json!(true))
    );
    let page = t.bo.get("/v1/agents?limit=21").await.ok();
    assert_eq!(
        (list(&page, "/data").len(), &page["has_more"]),
        (21, &json!(false))
    );
}
