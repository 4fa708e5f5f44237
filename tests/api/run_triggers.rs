//! Runs that messages start, and workflow recipes.

use serde_json::{Value, json};

use crate::{
    runs::{reaches, start, states},
    support::{Person, Team, id, list, number, team, team_with, text},
};

/// Creates a workflow that answers each message of a channel with a message.
async fn echo(by: &Person, channel: &str, fields: Value) -> String {
    let mut trigger = json!({"channel_id": channel});
    for (field, value) in fields.as_object().unwrap() {
        trigger[field] = value.clone();
    }
    let form = json!({"name": "echo", "on_message": trigger, "steps": [
        {"id": "post", "kind": "output", "content": "{{author}}: {{message}}"},
    ]});
    let made = by.post("/v1/workflows", form).await.is(201);
    format!("/v1/workflows/{}", id(&made))
}

async fn runs(by: &Person) -> Vec<Value> {
    by.every("/v1/runs").await
}

#[tokio::test]
async fn a_matching_message_starts_a_run_for_the_owner() {
    let t = team().await;
    let flow = echo(
        &t.ada,
        &t.general,
        json!({"words": ["urgent"], "new_threads_only": true}),
    )
    .await;
    let started = t.bo.start(&t.general, "This is URGENT.").await;
    let thread = text(&started, "/thread/id");
    let found = runs(&t.bo).await;
    assert_eq!(found.len(), 1);
    let run = &found[0];
    assert_eq!(run["requested_by"], json!(t.ada.id), "not the author");
    assert_eq!(
        run["cause"],
        json!({"type": "message", "id": started["message"]["id"]})
    );
    reaches(&t.bo, &id(run), "completed").await;
    assert_eq!(
        t.bo.contents(&thread).await,
        ["This is URGENT.", "Bo: This is URGENT."]
    );
    t.bo.tell(&thread, "Still urgent").await;
    t.bo.start(&t.general, "Nothing urgently new").await;
    let message = text(&started, "/message/id");
    let edit = json!({"content": "Urgent again"});
    t.bo.patch(&format!("/v1/messages/{message}"), edit)
        .await
        .ok();
    let other = t.ada.post("/v1/channels", json!({"name": "other"})).await;
    t.bo.start(&id(&other.is(201)), "urgent").await;
    assert_eq!(runs(&t.bo).await.len(), 1);
    t.ada.delete(&flow).await.is(200);
    t.bo.start(&t.general, "urgent").await;
    assert_eq!(runs(&t.bo).await.len(), 1, "an archived one starts nothing");
}

#[tokio::test]
async fn messages_by_people_and_by_keys_are_distinguished() {
    for (from, by_people, by_keys) in [("people", 1, 0), ("keys", 0, 1), ("any", 1, 1)] {
        let t = team().await;
        echo(&t.ada, &t.general, json!({"from": from})).await;
        t.bo.start(&t.general, "By hand").await;
        assert_eq!(runs(&t.bo).await.len(), by_people, "{from}");
        let (key, _) = t.bo.make_key(&["chat:read", "chat:write"]).await;
        key.start(&t.general, "By a program").await;
        assert_eq!(runs(&t.bo).await.len(), by_people + by_keys, "{from}");
    }
}

#[tokio::test]
async fn messages_beyond_six_a_minute_are_counted() {
    let t = team().await;
    let flow = echo(&t.ada, &t.general, json!({})).await;
    for n in 0..8 {
        t.bo.start(&t.general, &format!("Message {n}")).await;
    }
    assert_eq!(runs(&t.bo).await.len(), 6);
    assert_eq!(number(&t.ada.get(&flow).await.ok(), "/dropped"), 2);
}

#[tokio::test]
async fn a_workflow_whose_owner_cannot_post_is_paused_until_an_admin_takes_it_over() {
    let t: Team = team().await;
    let flow = echo(&t.bo, &t.general, json!({})).await;
    let member = format!("/v1/members/{}", t.bo.id);
    t.ada.patch(&member, json!({"role": "viewer"})).await.ok();
    t.ada.start(&t.general, "Hello").await;
    assert!(runs(&t.ada).await.is_empty());
    let paused = t.ada.get(&flow).await.ok();
    assert_eq!(
        (&paused["status"], &paused["paused_reason"]),
        (&json!("paused"), &json!("owner_gone"))
    );
    let waiting = t.ada.get("/v1/waiting").await.ok();
    let told = &list(&waiting, "/paused")[0];
    assert_eq!(
        (&told["workflow_id"], &told["schedule_id"], &told["reason"]),
        (&paused["id"], &Value::Null, &json!("owner_gone"))
    );
    let taken = t.ada.patch(&flow, json!({"owner_id": t.ada.id})).await;
    let taken = taken.is(200);
    assert_eq!(
        (&taken["status"], &taken["paused_reason"]),
        (&json!("active"), &Value::Null)
    );
    t.ada.start(&t.general, "Hello again").await;
    assert_eq!(runs(&t.ada).await.len(), 1);
}

#[tokio::test]
async fn each_recipe_can_be_posted() {
    let t = team().await;
    let recipes = t.bo.get("/v1/workflow-recipes").await.ok();
    let recipes = list(&recipes, "/data");
    assert_eq!(recipes.len(), 5);
    for recipe in recipes {
        let made = t.bo.post("/v1/workflows", recipe.clone()).await.is(201);
        assert_eq!(made["steps"], recipe["steps"]);
    }
}

#[tokio::test]
async fn an_alert_is_assessed_without_a_model() {
    let t = team_with(&[("MODEL_BASE_URL", ""), ("MODEL_API_KEY", "")]).await;
    let recipes = t.bo.get("/v1/workflow-recipes").await.ok();
    let recipes = list(&recipes, "/data");
    let mut triage = recipes
        .into_iter()
        .find(|recipe| recipe["name"] == "alert-triage")
        .unwrap();
    triage["on_message"] = json!({"channel_id": t.general, "from": "keys"});
    t.bo.post("/v1/workflows", triage).await.is(201);
    let (key, _) = t.ada.make_key(&["chat:read", "chat:write"]).await;
    key.start(&t.general, "The backup is late").await;
    let run = id(&runs(&t.bo).await[0]);
    // The prompt contains the word that the condition looks for, but the alert does not.
    let done = reaches(&t.bo, &run, "completed").await;
    assert_eq!(
        states(&done),
        [
            "assess completed",
            "is_urgent completed",
            "respond skipped",
            "note completed"
        ]
    );
    let output = text(&done, "/steps/0/output");
    assert_eq!(output, "Written without a model:\n\n> The backup is late");
    key.start(&t.general, "Urgent: the shop is down").await;
    let run = id(&runs(&t.bo).await[0]);
    let waiting = reaches(&t.bo, &run, "waiting").await;
    assert_eq!(
        states(&waiting),
        [
            "assess completed",
            "is_urgent completed",
            "respond waiting",
            "note pending"
        ]
    );
    let fork = text(&waiting, "/steps/2/fork_id");
    t.ada
        .publish_as(&fork, json!({"headline": "Ada looks at it"}))
        .await;
    let done = reaches(&t.bo, &run, "completed").await;
    let said = t.bo.contents(&text(&done, "/thread_id")).await;
    let results = said.iter().filter(|text| text.contains("Ada looks at it"));
    assert_eq!(results.count(), 1, "{said:?}");
}

#[tokio::test]
async fn a_manual_run_of_a_recipe_posts_the_decisions() {
    let t = team().await;
    t.resolved("We ship on Monday").await;
    let steps = json!([{"id": "post", "kind": "output", "content": "{{date}}\n{{decisions}}\n{{action_items}}"}]);
    let form = json!({"name": "decisions", "steps": steps});
    let made = t.bo.post("/v1/workflows", form).await.is(201);
    let flow = format!("/v1/workflows/{}", id(&made));
    let run = start(&t.bo, &flow, json!({"channel_id": t.general})).await;
    let done = reaches(&t.bo, &run, "completed").await;
    let output = text(&done, "/steps/0/output");
    assert!(output.contains("- [We ship on Monday](/"), "{output}");
    assert!(output.ends_with("None."), "no items: {output}");
    let again = start(&t.bo, &flow, json!({"channel_id": t.general})).await;
    let done = reaches(&t.bo, &again, "completed").await;
    let output = text(&done, "/steps/0/output");
    assert!(!output.contains("Monday"), "since the last run: {output}");
}

/// Creates a webhook of #general; returns its ID and its path.
async fn hook(t: &Team, name: &str) -> (String, String) {
    let form = json!({"name": name, "channel_id": t.general});
    let made = t.ada.post("/v1/hooks", form).await.is(201);
    let url = text(&made, "/url");
    let path = url[url.find("/hooks/").unwrap()..].to_owned();
    (id(&made), path)
}

async fn send(t: &Team, path: &str, words: &str, key: &str) {
    let message = json!({"text": words, "thread_key": key});
    assert_eq!(t.bo.post(path, message).await.status, 200);
}

#[tokio::test]
async fn bots_start_only_workflows_that_are_for_bots() {
    for (from, expected) in [("people", 0), ("keys", 0), ("any", 0), ("bots", 1)] {
        let t = team().await;
        let flow = echo(&t.ada, &t.general, json!({"from": from})).await;
        let (_, path) = hook(&t, "Alerts").await;
        send(&t, &path, "@vibe Disk full", "disk").await;
        let found = runs(&t.ada).await;
        assert_eq!(found.len(), expected, "{from}");
        let Some(run) = found.first() else { continue };
        assert_eq!(run["requested_by"], json!(t.ada.id), "the owner");
        reaches(&t.ada, &id(run), "completed").await;
        // Neither an answer nor a message of a person starts one.
        send(&t, &path, "Still full", "disk").await;
        t.bo.start(&t.general, "By hand").await;
        assert_eq!(runs(&t.ada).await.len(), 1);
        assert_eq!(number(&t.ada.get(&flow).await.ok(), "/dropped"), 0);
        let tasks = t.ada.get("/v1/tasks").await.ok();
        let replies = list(&tasks, "/data")
            .into_iter()
            .filter(|task| task["kind"] == "reply");
        assert_eq!(replies.count(), 0, "a mention by a bot is text");
    }
}

#[tokio::test]
async fn runs_for_bots_are_limited_to_webhooks_and_to_a_number_a_day() {
    let t = team().await;
    let (chosen, path) = hook(&t, "Alerts").await;
    let (_, other) = hook(&t, "Builds").await;
    let trigger = json!({"from": "bots", "hook_ids": [chosen], "daily_max": 2});
    let flow = echo(&t.ada, &t.general, trigger).await;
    send(&t, &other, "Built", "build").await;
    assert!(runs(&t.ada).await.is_empty());
    for n in 0..3 {
        send(&t, &path, "Disk full", &format!("disk {n}")).await;
    }
    assert_eq!(runs(&t.ada).await.len(), 2);
    assert_eq!(number(&t.ada.get(&flow).await.ok(), "/dropped"), 1);
    for (fields, status, code) in [
        (json!({"from": "any", "daily_max": 2}), 422, "invalid_value"),
        (
            json!({"from": "bots", "daily_max": 0}),
            422,
            "invalid_value",
        ),
        (
            json!({"from": "bots", "hook_ids": ["hook_01k5t00000e008000000000000"]}),
            404,
            "hook_not_found",
        ),
    ] {
        let mut trigger = json!({"channel_id": t.general});
        trigger
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        let patch = json!({"on_message": trigger});
        assert_eq!(t.ada.patch(&flow, patch).await.refused(status), code);
    }
}
