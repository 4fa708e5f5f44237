//! Effects of an agent's profile and the workspace's policy on `/v1/responses`.

use openvibe_sqlite::SqliteConnectOptions;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection};

use crate::support::{
    Answer, Person, Team, TestDatabase, id, instructions_of, list, team, team_with, text, within,
};

const PATH: &str = "/v1/responses";

/// Creates the agent `poet` with its own instructions and these fields.
async fn poet(team: &Team, mut fields: Value) -> Value {
    fields["name"] = "poet".into();
    fields["instructions"] = instructions_of("poet").into();
    team.ada.post("/v1/agents", fields).await.is(201)
}

async fn ask(who: &Person, mut body: Value) -> Value {
    body["agent_id"] = "poet".into();
    body["input"] = body.get("input").cloned().unwrap_or("Rhyme".into());
    who.post(PATH, body).await.is(200)
}

async fn set_policy(team: &Team, policy: Value) {
    let path = format!("/v1/workspaces/{}/policy", team.ada.workspace);
    team.ada.patch(&path, policy).await.is(200);
}

fn function(name: &str, description: &str) -> Value {
    json!({"type": "function", "name": name, "description": description, "parameters": null, "strict": null})
}

/// Functions that the last model request offers, as `name: description`.
fn offered(team: &Team) -> Vec<String> {
    let request = team.model().requests().last().unwrap().clone();
    let tools = request.body["tools"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    tools
        .iter()
        .map(|tool| {
            let function = &tool["function"];
            format!(
                "{}: {}",
                text(function, "/name"),
                text(function, "/description")
            )
        })
        .collect()
}

/// Runs SQL directly on the server's database.
async fn run_sql(place: &TestDatabase, sql: &str) {
    let sql = AssertSqlSafe(sql.to_owned());
    if let Some(url) = &place.postgres {
        let mut c = PgConnection::connect(url).await.unwrap();
        sqlx::raw_sql(sql).execute(&mut c).await.unwrap();
        return;
    }
    let options = SqliteConnectOptions::new().filename(place.dir.join("data/openvibe.db"));
    let mut c = options.connect().await.unwrap();
    sqlx::raw_sql(sql).execute(&mut c).await.unwrap();
    c.close().await.unwrap();
}

#[tokio::test]
async fn functions_of_agent_and_request_are_offered_and_the_requests_take_precedence() {
    let team = team().await;
    let tools = json!([function("rhyme", "agent's"), function("count", "agent's"), {"type": "code_interpreter"}]);
    poet(&team, json!({"tools": tools})).await;
    let plain = ask(&team.bo, json!({})).await;
    assert_eq!(offered(&team), ["rhyme: agent's", "count: agent's"]);
    assert_eq!(
        plain["tools"],
        json!([function("rhyme", "agent's"), function("count", "agent's")])
    );
    let own = json!([
        function("rhyme", "request's"),
        function("sing", "request's")
    ]);
    ask(&team.bo, json!({"tools": own})).await;
    assert_eq!(
        offered(&team),
        ["count: agent's", "rhyme: request's", "sing: request's"]
    );
    let chosen = json!({"tool_choice": {"type": "function", "name": "count"}});
    ask(&team.bo, chosen).await;
    let request = team.model().requests().last().unwrap().clone();
    assert_eq!(request.body["tool_choice"]["function"]["name"], "count");
}

#[tokio::test]
async fn functions_forbidden_by_the_workspace_are_not_sent_to_the_model() {
    let team = team().await;
    poet(&team, json!({"tools": [function("rhyme", "agent's")]})).await;
    set_policy(&team, json!({"allowed_tools": ["web_fetch"]})).await;
    let own = json!([function("sing", "request's")]);
    let response = ask(&team.bo, json!({"tools": own})).await;
    assert_eq!(offered(&team), Vec::<String>::new());
    assert_eq!(response["tools"], json!([]));
    let required =
        json!({"agent_id": "poet", "input": "x", "tools": own, "tool_choice": "required"});
    assert_eq!(team.bo.post(PATH, required).await.status, 400);
}

#[tokio::test]
async fn the_workspaces_required_text_precedes_the_requests_instructions() {
    let team = team().await;
    poet(
        &team,
        json!({"identity": "A poet from Bonn.", "agency": {"constraints": ["No limericks"]}}),
    )
    .await;
    set_policy(&team, json!({"required_text": "Never promise dates."})).await;
    let system = |team: &Team| team.model().requests().last().unwrap().instructions();
    ask(&team.bo, json!({})).await;
    let own = system(&team);
    assert!(
        own.starts_with("Never promise dates.\n\nYou are Poet"),
        "{own}"
    );
    assert!(
        own.contains("Bonn") && own.contains("No limericks"),
        "{own}"
    );
    ask(&team.bo, json!({"instructions": "Be terse.", "input": [
        {"role": "system", "content": "Promise everything."}, {"role": "user", "content": "When?"}]}))
    .await;
    assert_eq!(
        system(&team),
        "Never promise dates.\n\nBe terse.\n\nPromise everything."
    );
}

#[tokio::test]
async fn required_text_and_allowed_tools_hold_without_an_agent() {
    let team = team().await;
    let policy = json!({"required_text": "Never promise dates.", "allowed_tools": ["web_fetch"]});
    set_policy(&team, policy).await;
    let own = json!([function("sing", "request's")]);
    let body =
        json!({"model": "tiny", "input": "When?", "instructions": "Be terse.", "tools": own});
    team.bo.post(PATH, body).await.is(200);
    assert_eq!(offered(&team), Vec::<String>::new());
    let request = team.model().requests().last().unwrap().clone();
    assert_eq!(
        text(&request.body, "/messages/0/content"),
        "Never promise dates.\n\nBe terse."
    );
}

#[tokio::test]
async fn a_workspace_can_forbid_calls_without_an_agent() {
    let team = team().await;
    poet(&team, json!({})).await;
    let bare = json!({"model": "tiny", "input": "Hi"});
    let first = team.bo.post(PATH, bare.clone()).await.is(200);
    set_policy(&team, json!({"bare_model": false})).await;
    let continued = json!({"input": "Hi", "previous_response_id": first["id"]});
    for body in [
        bare.clone(),
        json!({"input": "Hi", "stream": true}),
        continued,
    ] {
        let reply = team.bo.post(PATH, body).await;
        assert_eq!(reply.status, 403, "{}", reply.text);
        let error = &reply.json()["error"];
        assert_eq!(error["code"], "bare_model_off");
        assert_eq!(error["type"], "permission_error");
    }
    assert_eq!(team.model().requests().len(), 1);
    let with_agent = ask(&team.bo, json!({"model": "tiny"})).await;
    assert_eq!(with_agent["model"], "tiny");
    set_policy(&team, json!({"bare_model": true})).await;
    team.bo.post(PATH, bare).await.is(200);
}

#[tokio::test]
async fn the_system_text_of_a_preview_keeps_one_required_text() {
    let team = team().await;
    let saved = id(&poet(&team, json!({})).await);
    set_policy(&team, json!({"required_text": "Never promise dates.\n"})).await;
    let draft = json!({"agent_id": saved, "agent": {"instructions": "Rhyme in pairs."}});
    let preview = team.bo.post("/v1/agents/preview", draft).await.is(200);
    let system = text(&preview, "/system");
    assert!(system.starts_with("Never promise dates."), "{system}");
    // A draft is tried without its agent, but an API client can also name the agent.
    for body in [json!({}), json!({"agent_id": saved})] {
        let mut body = body;
        body["input"] = "When?".into();
        body["instructions"] = system.clone().into();
        team.bo.post(PATH, body.clone()).await.is(200);
        let request = team.model().requests().last().unwrap().clone();
        assert_eq!(text(&request.body, "/messages/0/content"), system, "{body}");
    }
}

#[tokio::test]
async fn an_agent_that_the_caller_cannot_see_is_not_found() {
    let team = team().await;
    let access = json!({"allowed_subjects": [team.ada.id], "denied_subjects": []});
    let poet = poet(&team, json!({"access_control": access})).await;
    for name in ["poet".to_owned(), id(&poet)] {
        for body in [
            json!({"agent_id": name, "input": "Hi"}),
            json!({"model": format!("agent:{name}"), "input": "Hi", "stream": true}),
        ] {
            let reply = team.bo.post(PATH, body.clone()).await;
            assert_eq!(reply.status, 404);
            assert_eq!(reply.json()["error"]["code"], "agent_not_found");
            assert_eq!(team.ada.post(PATH, body).await.status, 200);
        }
    }
    let named = |models: Value| {
        list(&models, "/data")
            .iter()
            .any(|m| m["id"] == "agent:poet")
    };
    assert!(named(team.ada.get("/v1/models").await.is(200)));
    assert!(!named(team.bo.get("/v1/models").await.is(200)));
    assert_eq!(team.bo.get("/v1/models/agent:poet").await.status, 404);
    assert_eq!(team.ada.get("/v1/models/agent:poet").await.status, 200);
}

#[tokio::test]
async fn losing_access_to_an_agent_ends_conversations_with_it() {
    let team = team().await;
    let poet = poet(&team, json!({})).await;
    let first = ask(&team.bo, json!({})).await;
    let path = format!("/v1/agents/{}", id(&poet));
    let denied =
        json!({"access_control": {"allowed_subjects": [], "denied_subjects": [team.bo.id]}});
    team.ada.patch(&path, denied).await.is(200);
    let next = json!({"input": "More", "previous_response_id": first["id"]});
    assert_eq!(team.bo.post(PATH, next).await.status, 404);
}

#[tokio::test]
async fn the_agent_sets_the_storage_default_and_the_request_can_override_it() {
    let team = team().await;
    let agent = poet(&team, json!({"store": false})).await;
    assert_eq!(ask(&team.bo, json!({})).await["store"], false);
    let kept = ask(&team.bo, json!({"store": true})).await;
    let path = format!("{PATH}/{}", id(&kept));
    assert_eq!(team.bo.get(&path).await.is(200), kept);

    let agent = format!("/v1/agents/{}", id(&agent));
    let required = json!({"store": null, "store_required": true});
    team.ada.patch(&agent, required).await.is(200);
    assert_eq!(ask(&team.bo, json!({})).await["store"], true);
    let refused = json!({"agent_id": "poet", "input": "x", "store": false});
    let reply = team.bo.post(PATH, refused).await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json()["error"]["param"], "store");
    assert_eq!(reply.json()["error"]["code"], "store_required");
}

#[tokio::test]
async fn an_agent_without_storage_replies_and_nothing_is_stored() {
    let team = team().await;
    let nothing = json!({"memory": {"conversation_retention_days": 0}});
    let agent = poet(&team, nothing).await;
    let response = ask(&team.bo, json!({"store": true, "input": "pineapple"})).await;
    assert_eq!(response["store"], false);
    let path = format!("{PATH}/{}", id(&response));
    assert_eq!(team.bo.get(&path).await.status, 404);
    assert!(team.app.place.places_of("pineapple").await.is_empty());
    let agent = format!("/v1/agents/{}", id(&agent));
    team.ada
        .patch(&agent, json!({"store_required": true}))
        .await
        .is(200);
    let reply = team
        .bo
        .post(PATH, json!({"agent_id": "poet", "input": "x"}))
        .await;
    assert_eq!(
        reply.json()["error"]["code"],
        "store_required",
        "{}",
        reply.text
    );
}

#[tokio::test]
async fn an_expired_response_is_not_found_and_later_removed() {
    let team = team_with(&[("EVENT_RETENTION", "1s")]).await;
    let kept = json!({"memory": {"conversation_retention_days": 2}});
    poet(&team, kept).await;
    let response = ask(&team.bo, json!({"input": "pineapple"})).await;
    let other = ask(&team.bo, json!({"input": "cherry"})).await;
    let path = format!("{PATH}/{}", id(&response));
    assert_eq!(team.bo.get(&path).await.status, 200);
    // Expires only the responses that are kept for two days.
    let two_days = if team.app.place.postgres.is_some() {
        "expires_at between created_at + interval '47 hours' and created_at + interval '49 hours'"
    } else {
        "julianday(expires_at) - julianday(created_at) between 1.9 and 2.1"
    };
    let run_out = format!(
        "update responses set expires_at = '2020-01-01T00:00:00+00:00' where cast(input as text) like '%pineapple%' and {two_days}"
    );
    run_sql(&team.app.place, &run_out).await;
    assert_eq!(team.bo.get(&path).await.status, 404);
    assert_eq!(team.bo.delete(&path).await.status, 404);
    let next = json!({"input": "More", "previous_response_id": response["id"]});
    assert_eq!(team.bo.post(PATH, next).await.status, 404);
    within("what has run out to be removed", async {
        while !team.app.place.places_of("pineapple").await.is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    let path = format!("{PATH}/{}", id(&other));
    assert_eq!(team.bo.get(&path).await.status, 200);
}

#[tokio::test]
async fn a_base_and_files_affect_the_response() {
    let team = team().await;
    let form = json!({"name": "house", "instructions": "You are the House.", "mentionable": false, "tools": [function("rhyme", "base's")]});
    let base = team.ada.post("/v1/agents", form).await.is(201);
    poet(
        &team,
        json!({"base_profile_id": base["id"], "temperature": 0.3}),
    )
    .await;
    team.model()
        .script("house", [Answer::text("As the house says.")]);
    ask(&team.bo, json!({})).await;
    let request = team.model().requests().last().unwrap().clone();
    let system = request.instructions();
    assert!(
        system.starts_with("You are the House.\n\nYou are Poet"),
        "{system}"
    );
    assert_eq!(offered(&team), ["rhyme: base's"]);
    assert_eq!(request.body["temperature"], 0.3);
    // An agent that only serves as a base can be used by ID, but not by name.
    let by_name = json!({"agent_id": "house", "input": "Hi"});
    assert_eq!(team.bo.post(PATH, by_name).await.status, 404);
    let by_id = json!({"agent_id": base["id"], "input": "Hi"});
    assert_eq!(team.bo.post(PATH, by_id).await.status, 200);
}
