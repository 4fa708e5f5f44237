//! Workflows: their steps, versions, and permissions.

use serde_json::{Value, json};

use crate::support::{Person, id, list, number, team, text};

fn step(fields: Value) -> Value {
    let mut step = json!({"id": "post", "kind": "output", "content": "Hello {{input}}."});
    let Value::Object(fields) = fields else {
        panic!("not an object: {fields}")
    };
    step.as_object_mut().unwrap().extend(fields);
    step
}

fn form(name: &str, steps: Value) -> Value {
    let mut form = json!({"name": name});
    form["steps"] = steps;
    form
}

async fn make(by: &Person, name: &str) -> Value {
    let form = form(name, json!([step(json!({}))]));
    by.post("/v1/workflows", form).await.is(201)
}

fn path(workflow: &Value) -> String {
    format!("/v1/workflows/{}", id(workflow))
}

/// Code and field of the error that rejects a workflow with these steps.
async fn refusal(by: &Person, steps: Value) -> (String, String) {
    let reply = by.post("/v1/workflows", form("refused", steps)).await;
    assert_eq!(reply.status, 422, "{}", reply.text);
    let error = &reply.json()["error"];
    (text(error, "/code"), text(error, "/param"))
}

#[tokio::test]
async fn a_workflow_is_created_read_and_listed_with_its_steps() {
    let t = team().await;
    let vibe = id(&t.ada.agent("vibe").await);
    let steps = json!([
        {"id": "draft", "kind": "agent", "title": "Draft", "prompt": "Greet {{input}}.", "on_error": "continue"},
        {"id": "check", "kind": "condition", "value": "{{steps.draft.output}}", "op": "contains", "with": "hello",
            "then": "end", "else": "post"},
        {"id": "post", "kind": "output", "content": "{{steps.draft.output}}"},
    ]);
    let form =
        json!({"name": "greeting", "description": "Greets", "agents": [vibe], "steps": steps});
    let made = t.bo.post("/v1/workflows", form).await.is(201);
    for (field, value) in [
        ("object", json!("workflow")),
        ("name", json!("greeting")),
        ("description", json!("Greets")),
        ("owner_id", json!(t.bo.id)),
        ("default_agent_id", json!(vibe)),
        ("agents", json!([vibe])),
        ("on_message", Value::Null),
        ("status", json!("active")),
        ("paused_reason", Value::Null),
        ("dropped", json!(0)),
        ("version", json!(1)),
    ] {
        assert_eq!(made[field], value, "{field}");
    }
    assert_eq!(
        made["steps"][0],
        json!({"id": "draft", "kind": "agent", "agent_id": null, "prompt": "Greet {{input}}.", "post": false,
            "title": "Draft", "on_error": "continue"})
    );
    assert_eq!(
        made["steps"][1],
        json!({"id": "check", "kind": "condition", "value": "{{steps.draft.output}}", "op": "contains",
            "with": "hello", "then": "end", "else": "post", "title": null, "on_error": "stop"})
    );
    assert_eq!(t.ada.get(&path(&made)).await.ok(), made);
    let listed = t.ada.get("/v1/workflows?name=greeting").await.ok();
    assert_eq!(list(&listed, "/data"), std::slice::from_ref(&made));
    // A workflow can be sent back as it was returned.
    let put = t.bo.put(&path(&made), made.clone()).await.is(200);
    assert_eq!(put, made, "nothing has changed");
}

#[tokio::test]
async fn each_violation_names_its_field() {
    let t = team().await;
    let other = id(&t.ada.make_agent("other").await);
    let agent = |fields: Value| {
        let mut step = json!({"id": "ask", "kind": "agent", "prompt": "Hello"});
        for (field, value) in fields.as_object().unwrap() {
            step[field] = value.clone();
        }
        step
    };
    let condition = |fields: Value| {
        let mut step = json!({"id": "if", "kind": "condition", "value": "{{input}}", "op": "contains", "with": "a",
            "then": "post", "else": "end"});
        for (field, value) in fields.as_object().unwrap() {
            step[field] = value.clone();
        }
        json!([step, {"id": "post", "kind": "output", "content": "x"}])
    };
    let approval = |timeout_s: u32| json!([{"id": "ask", "kind": "approval", "text": "Go?", "who": "requester", "timeout_s": timeout_s}]);
    let many: Vec<Value> = (0..31)
        .map(|n| step(json!({"id": format!("s{n}")})))
        .collect();
    for (steps, param) in [
        (json!([]), "steps"),
        (json!(many), "steps"),
        (json!([step(json!({"id": "end"}))]), "steps[0].id"),
        (json!([step(json!({"id": "A"}))]), "steps[0].id"),
        (json!([step(json!({})), step(json!({}))]), "steps[1].id"),
        (json!([step(json!({"kind": "loop"}))]), "steps[0].kind"),
        (json!([step(json!({"goal": "x"}))]), "steps[0].goal"),
        (json!([step(json!({"content": null}))]), "steps[0].content"),
        (json!([step(json!({"content": " "}))]), "steps[0].content"),
        (
            json!([step(json!({"content": "a".repeat(32 * 1024 + 1)}))]),
            "steps[0].content",
        ),
        (
            json!([step(json!({"content": "{{unknown}}"}))]),
            "steps[0].content",
        ),
        (
            json!([step(json!({"content": "{{steps.post.output}}"}))]),
            "steps[0].content",
        ),
        (
            json!([step(json!({"title": "a".repeat(81)}))]),
            "steps[0].title",
        ),
        (
            json!([agent(json!({"prompt": "a".repeat(8 * 1024 + 1)}))]),
            "steps[0].prompt",
        ),
        (
            json!([agent(json!({"agent_id": other}))]),
            "steps[0].agent_id",
        ),
        (condition(json!({"then": "if"})), "steps[0].then"),
        (condition(json!({"else": "nowhere"})), "steps[0].else"),
        (condition(json!({"else": null})), "steps[0].else"),
        (
            condition(json!({"op": "matches", "with": "("})),
            "steps[0].with",
        ),
        (condition(json!({"with": "a".repeat(501)})), "steps[0].with"),
        (approval(0), "steps[0].timeout_s"),
        (approval(604_801), "steps[0].timeout_s"),
    ] {
        assert_eq!(
            refusal(&t.bo, steps.clone()).await,
            ("invalid_value".to_owned(), param.to_owned()),
            "{steps}"
        );
    }
    let wrong = form("wrong", json!([step(json!({"on_error": 7}))]));
    assert_eq!(
        t.bo.post("/v1/workflows", wrong).await.refused(400),
        "invalid_field"
    );
    assert!(t.bo.every("/v1/workflows").await.is_empty());
}

#[tokio::test]
async fn a_name_is_unique_and_a_handle() {
    let t = team().await;
    let first = make(&t.bo, "greeting").await;
    let again = form("greeting", json!([step(json!({}))]));
    let reply = t.ada.post("/v1/workflows", again).await;
    assert_eq!(reply.refused(409), "name_taken");
    let wrong = form("No handle", json!([step(json!({}))]));
    let reply = t.ada.post("/v1/workflows", wrong).await;
    assert_eq!(reply.refused(422), "invalid_value");
    let second = make(&t.bo, "farewell").await;
    let reply =
        t.bo.patch(&path(&second), json!({"name": "greeting"}))
            .await;
    assert_eq!(reply.refused(409), "name_taken");
    t.bo.delete(&path(&first)).await.is(200);
    let reply =
        t.bo.patch(&path(&second), json!({"name": "greeting"}))
            .await;
    assert_eq!(
        reply.refused(409),
        "name_taken",
        "archived ones keep theirs"
    );
}

#[tokio::test]
async fn each_change_is_a_version_and_a_rollback_restores_one() {
    let t = team().await;
    let made = make(&t.bo, "greeting").await;
    let at = path(&made);
    let changed = json!({"description": "Greets", "steps": [step(json!({"content": "Bye."}))]});
    let second = t.bo.patch_if(&at, "\"1\"", changed).await.is(200);
    assert_eq!(number(&second, "/version"), 2);
    let stale =
        t.bo.patch_if(&at, "\"1\"", json!({"description": "x"}))
            .await;
    assert_eq!(
        stale.json()["error"]["current"]["version"],
        2,
        "{}",
        stale.text
    );
    assert_eq!(stale.refused(409), "version_conflict");
    let back = json!({"target_version": 1});
    let third = t.bo.post(&format!("{at}/rollback"), back).await.is(200);
    assert_eq!(third["steps"], made["steps"]);
    assert_eq!(third["description"], "");
    let missing = json!({"target_version": 9});
    let reply = t.bo.post(&format!("{at}/rollback"), missing).await;
    assert_eq!(reply.refused(404), "version_not_found");
    let versions = t.ada.every(&format!("{at}/versions")).await;
    let summaries: Vec<String> = versions
        .iter()
        .map(|version| text(version, "/change_summary"))
        .collect();
    assert_eq!(
        summaries,
        [
            "rolled back to version 1",
            "changed description, steps",
            "created"
        ]
    );
    assert_eq!(versions[1]["snapshot"]["description"], "Greets");
}

#[tokio::test]
async fn only_the_owner_and_admins_change_a_workflow_and_an_admin_takes_it_over() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let at = path(&make(&t.bo, "greeting").await);
    let patch = json!({"description": "x"});
    assert_eq!(cy.patch(&at, patch.clone()).await.refused(403), "not_yours");
    assert_eq!(cy.delete(&at).await.refused(403), "not_yours");
    let taken = cy.patch(&at, json!({"owner_id": cy.id})).await;
    assert_eq!(taken.refused(403), "not_yours");
    t.ada.patch(&at, patch).await.is(200);
    let given = t.ada.patch(&at, json!({"owner_id": cy.id})).await;
    assert_eq!(given.refused(422), "invalid_value");
    let taken = t
        .ada
        .patch(&at, json!({"owner_id": t.ada.id}))
        .await
        .is(200);
    assert_eq!(taken["owner_id"], json!(t.ada.id));
    assert_eq!(
        t.bo.patch(&at, json!({"description": "y"}))
            .await
            .refused(403),
        "not_yours"
    );
}

#[tokio::test]
async fn events_of_a_workflow_reach_its_owner_and_admins() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let made = make(&t.bo, "greeting").await;
    t.bo.patch(&path(&made), json!({"status": "paused"}))
        .await
        .is(200);
    t.bo.delete(&path(&made)).await.is(200);
    let types = |events: Vec<Value>| -> Vec<String> {
        let own = events
            .iter()
            .filter(|event| event["data"]["workflow"]["id"] == made["id"]);
        own.map(|event| text(event, "/type")).collect()
    };
    let all = ["workflow.created", "workflow.updated", "workflow.archived"];
    assert_eq!(types(t.bo.events().await), all);
    assert_eq!(types(t.ada.events().await), all);
    assert!(types(cy.events().await).is_empty());
}

#[tokio::test]
async fn keys_without_a_scope_for_agents_receive_no_events_of_workflows() {
    let t = team().await;
    let mut wanted = form("greeting", json!([step(json!({}))]));
    wanted["on_message"] = json!({"channel_id": t.general});
    t.bo.post("/v1/workflows", wanted).await.is(201);
    for (scopes, expected) in [
        (vec!["chat:read"], 0),
        (vec!["chat:read", "agents:read"], 1),
    ] {
        let (robot, _) = t.bo.make_key(&scopes).await;
        let events = robot.events().await;
        let own = events
            .iter()
            .filter(|event| event["type"] == "workflow.created");
        assert_eq!(own.count(), expected, "{scopes:?}");
    }
}

#[tokio::test]
async fn objects_that_a_person_cannot_see_are_refused() {
    let t = team().await;
    let private = t.ada.private_channel("secret", &[]).await;
    let elsewhere = json!([step(json!({"channel_id": private}))]);
    let mut heard = form("heard", json!([step(json!({}))]));
    heard["on_message"] = json!({"channel_id": private});
    for (wanted, param) in [
        (form("elsewhere", elsewhere), "steps[0].channel_id"),
        (heard, "on_message.channel_id"),
    ] {
        let reply = t.bo.post("/v1/workflows", wanted).await;
        assert_eq!(reply.json()["error"]["param"], param, "{}", reply.text);
        assert_eq!(reply.refused(404), "channel_not_found");
    }
    let direct = t.bo.post("/v1/direct", json!({"member_ids": [t.ada.id]}));
    let direct = json!([step(json!({"channel_id": id(&direct.await.json())}))]);
    assert_eq!(refusal(&t.bo, direct).await.1, "steps[0].channel_id");
    let access = json!({"allowed_subjects": [t.ada.id], "denied_subjects": []});
    let hidden = json!({"name": "hidden", "instructions": "You help.", "access_control": access});
    let hidden = id(&t.ada.post("/v1/agents", hidden).await.is(201));
    let mut wanted = form("uses-hidden", json!([step(json!({}))]));
    wanted["agents"] = json!([hidden]);
    let reply = t.bo.post("/v1/workflows", wanted).await;
    assert_eq!(
        reply.json()["error"]["param"],
        "agents[0]",
        "{}",
        reply.text
    );
    assert_eq!(reply.refused(404), "agent_not_found");
}

#[tokio::test]
async fn readers_of_a_workflow_see_no_private_channels_that_they_are_not_in() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let private = t.bo.private_channel("secret", &[]).await;
    let branches = json!([[step(json!({"channel_id": private}))],
        [{"id": "open", "kind": "output", "content": "Hello.", "channel_id": t.general}]]);
    let steps = json!([{"id": "both", "kind": "parallel", "branches": branches}]);
    let mut hidden = form("hidden", steps.clone());
    hidden["on_message"] = json!({"channel_id": private});
    let hidden = t.bo.post("/v1/workflows", hidden).await.is(201);
    // Readers of #general are not told about its changes, because they would name the other channel.
    let mut shown = form("shown", steps);
    shown["on_message"] = json!({"channel_id": t.general});
    let shown = t.bo.post("/v1/workflows", shown).await.is(201);
    for workflow in [&hidden, &shown] {
        for page in [
            path(workflow),
            "/v1/workflows".to_owned(),
            format!("{}/versions", path(workflow)),
        ] {
            // The owner and admins can change it, and replace all steps.
            for who in [&t.bo, &t.ada] {
                let reply = who.get(&page).await;
                assert!(reply.ok().to_string().contains(&private), "{page}");
            }
            let read = cy.get(&page).await.ok().to_string();
            assert!(!read.contains(&private), "{page}: {read}");
            assert!(read.contains(&t.general), "{page}: {read}");
        }
    }
    let read = cy.get(&path(&hidden)).await.ok();
    assert_eq!(read["on_message"], Value::Null);
    let outputs = &read["steps"][0]["branches"];
    assert_eq!(
        (&outputs[0][0]["channel_id"], &outputs[1][0]["channel_id"]),
        (&Value::Null, &json!(t.general))
    );
    let read = cy.get(&path(&shown)).await.ok();
    assert_eq!(read["on_message"]["channel_id"], t.general.as_str());
    let events = json!(cy.events().await).to_string();
    assert!(!events.contains(&private), "{events}");
    assert!(json!(t.ada.events().await).to_string().contains(&private));
}
