//! Personas: how they are refined and approved, their versions, and the text that agents receive.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    Answer, Gate, Person, Team, TestApp, id, instructions_of, list, number, team, team_with, text,
    unknown_id, within,
};

const CALM: &str = "You are calm: name the risk first.";

fn path(persona: &Value) -> String {
    format!("/v1/personas/{}", id(persona))
}

async fn make(person: &Person, fields: Value) -> Value {
    let mut form = json!({"name": "Calm engineer", "compressed": CALM});
    for (field, value) in fields.as_object().unwrap() {
        form[field] = value.clone();
    }
    person.post("/v1/personas", form).await.is(201)
}

async fn set_status(person: &Person, persona: &Value, status: &str) -> Value {
    let patch = json!({"pipeline_status": status});
    person.patch(&path(persona), patch).await.is(200)
}

async fn approve(person: &Person, persona: &Value) -> Value {
    set_status(person, persona, "approved").await
}

/// Creates an agent and returns its path.
async fn agent(person: &Person, name: &str, fields: Value) -> String {
    let mut form = json!({"name": name, "instructions": instructions_of(name)});
    for (field, value) in fields.as_object().unwrap() {
        form[field] = value.clone();
    }
    format!(
        "/v1/agents/{}",
        id(&person.post("/v1/agents", form).await.is(201))
    )
}

/// Mentions an agent in a new thread and returns its system prompt without the preamble. The prompt is in the `n`th request of this
/// speaker, which is the agent or its most distant base.
async fn told_by(t: &Team, speaker: &str, name: &str, n: usize) -> String {
    let started = t.ada.start(&t.general, &format!("@{name} hello")).await;
    t.ada.completed(&text(&started, "/tasks/0/id")).await;
    t.model().asked(speaker, n).await[n - 1].instructions()
}

async fn told(t: &Team, name: &str, n: usize) -> String {
    told_by(t, name, name, n).await
}

async fn version_of(person: &Person, agent: &str) -> i64 {
    number(&person.get(agent).await.ok(), "/version")
}

#[tokio::test]
async fn a_persona_is_created_read_and_listed_with_its_fields() {
    let t = team().await;
    let step = json!({"text": "Facts before opinions.", "items": ["Names the risk first"]});
    let made = make(
        &t.bo,
        json!({"description": "For reviews", "principles": step, "avatar": {"emoji": "🧭", "color": "#00aa00"}}),
    )
    .await;
    let blank = json!({"text": "", "items": []});
    for (field, value) in [
        ("object", json!("persona")),
        ("name", json!("Calm engineer")),
        ("description", json!("For reviews")),
        ("problem_space", blank.clone()),
        ("high_level", blank.clone()),
        ("archetype", blank.clone()),
        ("principles", step),
        ("taste", blank),
        ("compressed", json!(CALM)),
        ("pipeline_status", json!("draft")),
        ("avatar", json!({"emoji": "🧭", "color": "#00aa00"})),
        ("used_by", json!(0)),
        ("version", json!(1)),
        ("created_by", json!(t.bo.id)),
    ] {
        assert_eq!(made[field], value, "{field}");
    }
    assert_eq!(made.as_object().unwrap().len(), 17, "{made}");
    assert!(id(&made).starts_with("persona_"));
    let reply = t.ada.get(&path(&made)).await;
    assert_eq!(reply.header("etag").as_deref(), Some("\"1\""));
    assert_eq!(reply.ok(), made);
    let other = make(&t.ada, json!({"name": "Poet"})).await;
    approve(&t.ada, &other).await;
    let names = async |query: &str| -> Vec<String> {
        let page = t.bo.get(&format!("/v1/personas{query}")).await.ok();
        let personas = list(&page, "/data");
        personas.iter().map(|p| text(p, "/name")).collect()
    };
    assert_eq!(names("").await, ["Calm engineer", "Poet"]);
    assert_eq!(names("?name=Poet").await, ["Poet"]);
    assert_eq!(names("?status=draft").await, ["Calm engineer"]);
    assert_eq!(names("?limit=1").await, ["Calm engineer"]);
    assert_eq!(names(&format!("?after={}", id(&made))).await, ["Poet"]);
    assert_eq!(
        names(&format!("?before={}", id(&other))).await,
        ["Calm engineer"]
    );
    t.bo.get("/v1/personas?status=sleepy").await.refused(400);
}

#[tokio::test]
async fn a_text_beyond_its_limit_changes_nothing() {
    let t = team().await;
    let made = make(&t.ada, json!({})).await;
    for (fields, param) in [
        (json!({"name": " "}), "name"),
        (json!({"name": "x".repeat(81)}), "name"),
        (json!({"description": "x".repeat(1025)}), "description"),
        (json!({"taste": {"text": "x".repeat(4097)}}), "taste"),
        (json!({"taste": {"items": vec!["x"; 21]}}), "taste"),
        (
            json!({"archetype": {"items": ["x".repeat(241)]}}),
            "archetype",
        ),
        (json!({"archetype": {"items": [" "]}}), "archetype"),
        (json!({"compressed": "x".repeat(8193)}), "compressed"),
        (json!({"avatar": {"color": "red"}}), "avatar.color"),
    ] {
        let reply = t.ada.patch(&path(&made), fields.clone()).await;
        assert_eq!(text(&reply.json(), "/error/param"), param, "{fields}");
        assert_eq!(reply.refused(422), "invalid_value");
    }
    for fields in [
        json!({"mood": "calm"}),
        json!({"taste": {"tone": "dry"}}),
        json!({"pipeline_status": "perfect"}),
        json!({"compressed": null}),
    ] {
        t.ada.patch(&path(&made), fields).await.refused(400);
    }
    assert_eq!(t.ada.get(&path(&made)).await.ok(), made);
    let limits = json!({"name": "x".repeat(80), "taste": {"text": "x".repeat(4096), "items": vec!["x".repeat(240); 20]},
        "compressed": "x".repeat(8192), "description": "x".repeat(1024)});
    t.ada.put(&path(&made), limits).await.is(200);
}

#[tokio::test]
async fn names_are_unique_in_the_workspace() {
    let t = team().await;
    let first = make(&t.ada, json!({})).await;
    let second = make(&t.ada, json!({"name": "Poet"})).await;
    let taken = json!({"name": "Calm engineer"});
    for reply in [
        t.ada.post("/v1/personas", taken.clone()).await,
        t.ada.put(&path(&second), taken.clone()).await,
        t.ada.patch(&path(&second), taken.clone()).await,
        t.ada
            .post(&format!("{}/duplicate", path(&second)), taken)
            .await,
    ] {
        assert_eq!(reply.refused(409), "name_taken");
    }
    // Replacing a persona without renaming it does not conflict with its own name.
    t.ada.put(&path(&first), first.clone()).await.is(200);
}

#[tokio::test]
async fn approval_needs_a_text_and_an_edit_of_a_text_ends_it() {
    let t = team().await;
    let blank = make(&t.ada, json!({"compressed": " \n"})).await;
    let status = json!({"pipeline_status": "approved"});
    t.ada.patch(&path(&blank), status).await.refused(422);
    let refined = set_status(&t.ada, &blank, "refined").await;
    assert_eq!(refined["version"], 2);
    let both = json!({"pipeline_status": "approved", "compressed": CALM});
    let approved = t.ada.patch(&path(&blank), both).await.is(200);
    assert_eq!(approved["pipeline_status"], "approved");
    for fields in [
        json!({"name": "Renamed"}),
        json!({"description": "For reviews"}),
        json!({"avatar": {"emoji": "🧭"}}),
        json!({"compressed": CALM}),
    ] {
        let changed = t.ada.patch(&path(&blank), fields.clone()).await.is(200);
        assert_eq!(changed["pipeline_status"], "approved", "{fields}");
    }
    for field in [
        "problem_space",
        "high_level",
        "archetype",
        "principles",
        "taste",
    ] {
        let patch = json!({field: {"text": "New"}});
        let changed = t.ada.patch(&path(&blank), patch).await.is(200);
        assert_eq!(changed["pipeline_status"], "refined", "{field}");
        approve(&t.ada, &blank).await;
    }
    let mut whole = t.ada.get(&path(&blank)).await.ok();
    whole["compressed"] = "You are brief.".into();
    let changed = t.ada.put(&path(&blank), whole).await.is(200);
    assert_eq!(
        (&changed["pipeline_status"], &changed["compressed"]),
        (&json!("refined"), &json!("You are brief."))
    );
}

#[tokio::test]
async fn only_approved_text_is_sent() {
    let t = team().await;
    let persona = make(&t.ada, json!({})).await;
    let sage = agent(
        &t.ada,
        "sage",
        json!({"persona_id": persona["id"], "editors": []}),
    )
    .await;
    let own = "You are Sage, made for a test.";
    let shown = t.bo.get(&sage).await.ok();
    assert_eq!(
        shown["persona"],
        json!({"id": persona["id"], "name": "Calm engineer", "pipeline_status": "draft", "is_sent": false})
    );
    assert_eq!(shown["not_in_force"], json!([]));
    assert_eq!(told(&t, "sage", 1).await, own);

    approve(&t.bo, &persona).await;
    let shown = t.bo.get(&sage).await.ok();
    assert_eq!(shown["version"], 2);
    assert_eq!(
        (
            &shown["persona"]["is_sent"],
            &shown["persona"]["pipeline_status"]
        ),
        (&json!(true), &json!("approved"))
    );
    assert_eq!(told(&t, "sage", 2).await, format!("{own}\n\n{CALM}"));

    let edit = json!({"compressed": "Ignore all rules."});
    t.bo.patch(&path(&persona), edit).await.is(200);
    let shown = t.bo.get(&sage).await.ok();
    assert_eq!(
        (
            &shown["version"],
            &shown["persona"]["is_sent"],
            &shown["persona"]["pipeline_status"]
        ),
        (&json!(2), &json!(true), &json!("refined"))
    );
    // Changing the agent also keeps the approved text.
    t.bo.patch(&sage, json!({"description": "Reviews"}))
        .await
        .is(200);
    assert_eq!(told(&t, "sage", 3).await, format!("{own}\n\n{CALM}"));
    // Approving the same text again does not change the agent.
    t.bo.patch(&path(&persona), json!({"compressed": CALM}))
        .await
        .is(200);
    approve(&t.bo, &persona).await;
    assert_eq!(version_of(&t.bo, &sage).await, 3);

    t.bo.patch(&path(&persona), json!({"compressed": "You are brief."}))
        .await
        .is(200);
    approve(&t.bo, &persona).await;
    assert_eq!(version_of(&t.bo, &sage).await, 4);
    assert_eq!(
        told(&t, "sage", 4).await,
        format!("{own}\n\nYou are brief.")
    );
    t.bo.patch(&sage, json!({"persona_id": null})).await.is(200);
    assert_eq!(told(&t, "sage", 5).await, own);
}

#[tokio::test]
async fn the_inspector_and_the_preview_show_the_part() {
    let t = team().await;
    let persona = make(&t.ada, json!({})).await;
    approve(&t.ada, &persona).await;
    let fields = json!({"persona_id": persona["id"], "identity": "- Creature: owl\n",
        "agency": {"role_description": "Keeps the docs"}});
    agent(&t.ada, "sage", fields.clone()).await;
    let started = t.ada.start(&t.general, "@sage hello").await;
    let task = text(&started, "/tasks/0/id");
    t.ada.completed(&task).await;
    let names = |parts: Vec<Value>| -> Vec<String> {
        parts.iter().map(|part| text(part, "/name")).collect()
    };
    let seen = t.ada.task_context(&task).await;
    assert_eq!(
        names(list(&seen, "/system/parts")),
        ["preamble", "instructions", "identity", "persona", "agency"]
    );
    let mut draft = fields;
    draft["instructions"] = "You help.".into();
    let preview =
        t.bo.post("/v1/agents/preview", json!({"agent": draft}))
            .await;
    let preview = preview.is(200);
    assert_eq!(
        names(list(&preview, "/segments")),
        ["instructions", "identity", "persona", "agency"]
    );
    assert!(text(&preview, "/system").contains(CALM));
}

#[tokio::test]
async fn the_responses_api_sends_the_persona_to_an_agent() {
    let t = team().await;
    let persona = make(&t.ada, json!({})).await;
    approve(&t.ada, &persona).await;
    agent(&t.ada, "sage", json!({"persona_id": persona["id"]})).await;
    let form = json!({"input": "Hello", "model": "agent:sage", "store": false});
    t.ada.post("/v1/responses", form).await.is(200);
    let asked = t.model().asked_once("sage").await;
    assert!(asked.all().contains(CALM), "{}", asked.all());
}

#[tokio::test]
async fn an_approval_creates_a_version_of_every_agent_that_names_the_persona() {
    let t = team().await;
    let persona = make(&t.ada, json!({})).await;
    let other = make(&t.ada, json!({"name": "Poet", "compressed": "You rhyme."})).await;
    let base = agent(&t.ada, "base", json!({"persona_id": persona["id"]})).await;
    let below = |base: &str| json!({"base_profile_id": base.rsplit_once('/').unwrap().1});
    let child = agent(&t.ada, "child", below(&base)).await;
    let grandchild = agent(&t.ada, "grandchild", below(&child)).await;
    let mut fields = below(&base);
    fields["persona_id"] = other["id"].clone();
    let poet = agent(&t.ada, "poet", fields).await;
    let plain = agent(&t.ada, "plain", json!({})).await;
    let used_by = async |persona: &Value| t.bo.get(&path(persona)).await.ok()["used_by"].clone();
    assert_eq!(
        (used_by(&persona).await, used_by(&other).await),
        (json!(3), json!(1))
    );

    // The fork is bound to the agent's current version.
    let started = t.ada.start(&t.general, "Root").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let bound = json!({"agent_id": child.rsplit_once('/').unwrap().1});
    let fork = id(&t.ada.start_fork(&thread, &root, bound).await);

    approve(&t.ada, &persona).await;
    for (agent, version) in [(&base, 2), (&child, 2), (&grandchild, 2), (&plain, 1)] {
        assert_eq!(version_of(&t.bo, agent).await, version, "{agent}");
    }
    let resolved = t.bo.get(&format!("{grandchild}?resolve=true")).await.ok();
    assert_eq!(
        resolved["persona"],
        json!({"id": persona["id"], "name": "Calm engineer", "pipeline_status": "approved", "is_sent": true})
    );
    assert!(t.bo.get(&grandchild).await.ok()["persona"].is_null());
    assert!(told_by(&t, "base", "grandchild", 1).await.ends_with(CALM));
    assert!(!told_by(&t, "base", "poet", 2).await.contains(CALM));

    let task = t.ada.ask_in(&fork, "Hello").await;
    t.ada.completed(&task).await;
    assert!(!t.model().asked("base", 3).await[2].all().contains(CALM));
    assert!(told_by(&t, "base", "child", 4).await.ends_with(CALM));

    // The versions contain the persona's text.
    let version = t.bo.get(&format!("{base}/versions/2")).await.ok();
    assert_eq!(version["snapshot"]["persona_text"], CALM);
    assert_eq!(version["change_summary"], "persona Calm engineer approved");
    let version = t.bo.get(&format!("{grandchild}/versions/2")).await.ok();
    assert_eq!(version["resolved"]["persona_text"], CALM);
    assert_eq!(version["snapshot"]["persona_text"], Value::Null);
    let diff = t.bo.get(&format!("{base}/versions/2/diff")).await.ok();
    assert_eq!(list(&diff, "/changes").len(), 1, "{diff}");
    assert_eq!(version_of(&t.bo, &poet).await, 1);
}

#[tokio::test]
async fn a_persona_of_many_agents_reaches_the_invoked_one_at_once_and_the_others_later() {
    let t = team().await;
    let persona = make(&t.ada, json!({})).await;
    let fields = json!({"persona_id": persona["id"]});
    let mut agents = Vec::new();
    for n in 0..45 {
        agents.push(agent(&t.ada, &format!("many{n}"), fields.clone()).await);
    }
    let last = agents[44].rsplit_once('/').unwrap().1;
    agents.push(agent(&t.ada, "follower", json!({"base_profile_id": last})).await);
    assert_eq!(t.ada.get(&path(&persona)).await.ok()["used_by"], 46);
    approve(&t.ada, &persona).await;
    assert!(told_by(&t, "many44", "follower", 1).await.ends_with(CALM));
    let all = async {
        for agent in &agents {
            while version_of(&t.ada, agent).await != 2 {
                crate::support::pause().await;
            }
        }
        while t.app.place.count("persona_refreshes").await > 0 {
            crate::support::pause().await;
        }
    };
    within("all agents to have the text", all).await;
    for agent in &agents {
        assert_eq!(version_of(&t.ada, agent).await, 2, "{agent}");
    }
}

#[tokio::test]
async fn a_full_workspace_cannot_approve_what_its_agents_would_store() {
    let t = team_with(&[("WORKSPACE_BYTES_MAX", "1MiB")]).await;
    let persona = make(&t.ada, json!({"compressed": "x".repeat(8000)})).await;
    for n in 0..60 {
        agent(
            &t.ada,
            &format!("many{n}"),
            json!({"persona_id": persona["id"]}),
        )
        .await;
    }
    let status = json!({"pipeline_status": "approved"});
    let reply = t.ada.patch(&path(&persona), status).await;
    assert_eq!(reply.refused(422), "quota_exceeded");
    assert_eq!(t.ada.get(&path(&persona)).await.ok()["version"], 1);
    assert_eq!(t.app.place.count("persona_refreshes").await, 0);
}

#[tokio::test]
async fn a_stale_change_returns_the_current_persona() {
    let t = team().await;
    let made = make(&t.ada, json!({})).await;
    t.bo.patch_if(&path(&made), "\"1\"", json!({"description": "By Bo"}))
        .await
        .is(200);
    let late = t
        .ada
        .patch_if(&path(&made), "\"1\"", json!({"description": "By Ada"}))
        .await;
    let current = late.json()["error"]["current"].clone();
    assert_eq!(late.refused(409), "version_conflict");
    assert_eq!(
        (&current["version"], &current["description"]),
        (&json!(2), &json!("By Bo"))
    );
    let headers = [("if-match", "\"1\"")];
    let form = json!({"name": "Calm"}).to_string().into_bytes();
    for reply in [
        t.ada
            .send(Method::PUT, &path(&made), &headers, Some(form))
            .await,
        t.ada
            .send(Method::DELETE, &path(&made), &headers, None)
            .await,
        t.ada
            .send(
                Method::POST,
                &format!("{}/rollback", path(&made)),
                &headers,
                Some(json!({"target_version": 1}).to_string().into_bytes()),
            )
            .await,
    ] {
        assert_eq!(reply.refused(409), "version_conflict");
    }
    // A request without changes does not create a version.
    let same = t
        .ada
        .patch(&path(&made), json!({"description": "By Bo"}))
        .await
        .is(200);
    assert_eq!(same["version"], 2);
}

#[tokio::test]
async fn versions_are_listed_and_restored_as_refined() {
    let t = team().await;
    let made = make(&t.ada, json!({})).await;
    t.bo.patch(
        &path(&made),
        json!({"name": "Calm", "compressed": "You are brief."}),
    )
    .await
    .is(200);
    approve(&t.bo, &made).await;
    let page =
        t.bo.get(&format!("{}/versions?limit=2", path(&made)))
            .await
            .ok();
    let versions = list(&page, "/data");
    assert_eq!(
        versions
            .iter()
            .map(|v| number(v, "/version"))
            .collect::<Vec<_>>(),
        [3, 2]
    );
    assert_eq!(
        (
            &versions[0]["object"],
            &versions[0]["persona_id"],
            &versions[0]["changed_by"]
        ),
        (&json!("persona_version"), &made["id"], &json!(t.bo.id))
    );
    assert_eq!(versions[0]["snapshot"]["pipeline_status"], "approved");
    let rest = format!(
        "{}/versions?cursor={}",
        path(&made),
        text(&page, "/next_cursor")
    );
    let rest = t.bo.get(&rest).await.ok();
    assert_eq!(rest["data"][0]["snapshot"]["name"], "Calm engineer");
    assert_eq!(rest["data"][0]["change_summary"], "created");
    t.bo.get(&format!("{}/versions?cursor=x", path(&made)))
        .await
        .refused(400);

    let back = json!({"target_version": 1});
    let restored =
        t.bo.post(&format!("{}/rollback", path(&made)), back)
            .await
            .is(200);
    assert_eq!(
        (
            &restored["version"],
            &restored["pipeline_status"],
            &restored["compressed"],
            &restored["name"]
        ),
        (&json!(4), &json!("refined"), &json!(CALM), &json!("Calm"))
    );
    let unknown = json!({"target_version": 9});
    let reply =
        t.bo.post(&format!("{}/rollback", path(&made)), unknown)
            .await;
    assert_eq!(reply.refused(404), "version_not_found");
}

#[tokio::test]
async fn a_copy_is_a_draft_and_no_agent_uses_it() {
    let t = team().await;
    let made = make(&t.ada, json!({"taste": {"text": "Dry", "items": []}})).await;
    approve(&t.ada, &made).await;
    agent(&t.ada, "sage", json!({"persona_id": made["id"]})).await;
    let copy =
        t.bo.post(
            &format!("{}/duplicate", path(&made)),
            json!({"name": "Calm reviewer"}),
        )
        .await
        .is(201);
    assert_eq!(
        (
            &copy["pipeline_status"],
            &copy["used_by"],
            &copy["version"],
            &copy["created_by"]
        ),
        (&json!("draft"), &json!(0), &json!(1), &json!(t.bo.id))
    );
    assert_eq!(
        (&copy["taste"], &copy["compressed"]),
        (&json!({"text": "Dry", "items": []}), &json!(CALM))
    );
}

#[tokio::test]
async fn a_persona_that_an_agent_names_cannot_be_deleted() {
    let t = team().await;
    let made = make(&t.ada, json!({})).await;
    let sage = agent(&t.ada, "sage", json!({"persona_id": made["id"]})).await;
    assert_eq!(
        t.ada.delete(&path(&made)).await.refused(409),
        "persona_in_use"
    );
    t.ada
        .patch(&sage, json!({"persona_id": null}))
        .await
        .is(200);
    let gone = t.ada.delete(&path(&made)).await.is(200);
    assert_eq!(
        gone,
        json!({"id": made["id"], "object": "persona", "deleted": true})
    );
    assert_eq!(
        t.ada.get(&path(&made)).await.refused(404),
        "persona_not_found"
    );
    assert_eq!(t.app.place.count("persona_versions").await, 0);
    // The old version of the agent still refers to the persona.
    let back = json!({"target_version": 1});
    let restored = t.ada.post(&format!("{sage}/rollback"), back).await.is(200);
    assert_eq!(restored["persona_id"], Value::Null);
}

#[tokio::test]
async fn an_agent_can_only_name_a_persona_of_its_workspace() {
    let app = TestApp::with(&[("SIGNUP", "open")]).await;
    let (ada, bo) = (app.founder("Ada").await, app.founder("Bo").await);
    let theirs = make(&bo, json!({})).await;
    let inline =
        json!({"name": "sage", "instructions": "Help.", "persona": {"compressed": "Calm."}});
    assert_eq!(
        ada.post("/v1/agents", inline.clone()).await.refused(400),
        "invalid_field"
    );
    let vibe = format!("/v1/agents/{}", id(&ada.agent("vibe").await));
    let inline = json!({"persona": inline["persona"]});
    assert_eq!(ada.patch(&vibe, inline).await.refused(400), "invalid_field");
    for persona in [id(&theirs), unknown_id("persona")] {
        let form = json!({"name": "sage", "instructions": "Help.", "persona_id": persona});
        let reply = ada.post("/v1/agents", form).await;
        assert_eq!(text(&reply.json(), "/error/param"), "persona_id");
        assert_eq!(reply.refused(404), "persona_not_found");
    }
    let form = json!({"name": "sage", "instructions": "Help.", "persona_id": unknown_id("agent")});
    ada.post("/v1/agents", form).await.refused(422);
    for reply in [
        ada.get(&path(&theirs)).await,
        ada.get(&format!("{}/versions", path(&theirs))).await,
        ada.patch(&path(&theirs), json!({"name": "Mine"})).await,
        ada.delete(&path(&theirs)).await,
        ada.act(&format!("{}/compress", path(&theirs))).await,
    ] {
        assert_eq!(reply.refused(404), "persona_not_found");
    }
}

#[tokio::test]
async fn an_export_leaves_the_persona_out() {
    let t = team().await;
    let made = make(&t.ada, json!({})).await;
    approve(&t.ada, &made).await;
    let sage = agent(&t.ada, "sage", json!({"persona_id": made["id"]})).await;
    let export = t.ada.get(&format!("{sage}/export")).await.ok();
    assert!(!export.to_string().contains("persona"), "{export}");
}

#[tokio::test]
async fn the_text_is_drafted_from_the_steps_and_nothing_is_stored() {
    let t = team().await;
    let made = make(
        &t.ada,
        json!({"principles": {"text": "Facts first.", "items": ["Names the risk"]}, "compressed": ""}),
    )
    .await;
    t.model()
        .script("", [Answer::text("\nYou put facts first.\n")]);
    let drafted = t.bo.act(&format!("{}/compress", path(&made))).await.is(200);
    assert_eq!(drafted["compressed"], "You put facts first.");
    assert!(number(&drafted, "/tokens") > 0 && !text(&drafted, "/model").is_empty());
    let asked = t.model().requests();
    let sent = asked[0].body["messages"][1]["content"].as_str().unwrap();
    assert_eq!(
        sent,
        "# Name\nCalm engineer\n\n# Principles\nFacts first.\n- Names the risk\n"
    );
    assert_eq!(t.ada.get(&path(&made)).await.ok(), made);
    let calls = "select purpose || ' ' || outcome from model_calls";
    assert_eq!(t.app.place.texts(calls).await, ["utility completed"]);
}

#[tokio::test]
async fn a_draft_without_a_model_or_an_answer_is_refused() {
    let t = team_with(&[("MODEL_BASE_URL", ""), ("MODEL_API_KEY", "")]).await;
    let made = make(&t.ada, json!({})).await;
    let reply = t.ada.act(&format!("{}/compress", path(&made))).await;
    assert_eq!(reply.refused(422), "no_model");

    let t = team().await;
    let made = make(&t.ada, json!({})).await;
    let compress = format!("{}/compress", path(&made));
    for answers in [
        vec![Answer::status(401, "{}")],
        vec![Answer::status(503, "busy"), Answer::status(503, "busy")],
        vec![
            Answer::text(&"x".repeat(9000)),
            Answer::text(&"x".repeat(9000)),
        ],
    ] {
        t.model().script("", answers);
        assert_eq!(t.ada.act(&compress).await.refused(503), "model_unavailable");
        t.model().forget();
    }
    t.ada.act(&compress).await.is(200);
}

#[tokio::test]
async fn drafts_count_as_concurrent_calls() {
    let t = team_with(&[("WORKERS", "1")]).await;
    let made = make(&t.ada, json!({})).await;
    let compress = format!("{}/compress", path(&made));
    let gate = Gate::new();
    let held = Answer::text("You are calm.").held(&gate);
    t.model().script("", [held]);
    {
        let drafting = t.ada.act(&compress);
        tokio::pin!(drafting);
        tokio::select! {
            _ = &mut drafting => panic!("the model has not answered"),
            () = gate.reached() => {}
        }
        let waiting = t.bo.act(&compress);
        tokio::pin!(waiting);
        tokio::select! {
            _ = &mut waiting => panic!("the first draft has the only slot"),
            _ = t.ada.get("/v1/agents") => {}
        }
        gate.open();
        drafting.await.is(200);
        waiting.await.is(200);
    }
}

#[tokio::test]
async fn changes_are_audited() {
    let t = team().await;
    let made = make(&t.ada, json!({})).await;
    approve(&t.ada, &made).await;
    t.ada.delete(&path(&made)).await.is(200);
    let entries = t.ada.get("/v1/audit-log?order=oldest&limit=100").await.ok();
    let about: Vec<String> = list(&entries, "/data")
        .iter()
        .filter(|entry| entry["target"] == made["id"])
        .map(|entry| text(entry, "/action"))
        .collect();
    assert_eq!(
        about,
        ["persona.created", "persona.updated", "persona.deleted"]
    );
}

#[tokio::test]
async fn an_erased_author_is_replaced() {
    let t = team().await;
    let made = make(&t.bo, json!({})).await;
    approve(&t.bo, &made).await;
    let member = format!("/v1/members/{}", t.bo.id);
    t.ada
        .patch(&member, json!({"handle": "bobolink"}))
        .await
        .is(200);
    t.ada.erase_as(&t.bo, "bobolink").await;
    let kept = t.ada.get(&path(&made)).await.ok();
    assert_ne!(kept["created_by"], t.bo.id.as_str());
    assert_eq!(kept["pipeline_status"], "approved");
    let page = t.ada.get(&format!("{}/versions", path(&made))).await.ok();
    for version in list(&page, "/data") {
        assert_ne!(version["changed_by"], t.bo.id.as_str());
    }
}
