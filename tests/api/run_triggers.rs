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
