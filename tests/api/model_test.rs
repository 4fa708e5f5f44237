//! Testing the model connection with a one-word prompt.

use futures::future::join;
use serde_json::{Value, json};

use crate::support::{Answer, Gate, Person, id, team, team_with};

async fn test(who: &Person, form: Value) -> Value {
    who.post("/v1/model-test", form).await.is(200)
}

#[tokio::test]
async fn a_working_model_is_reported_with_its_reply() {
    let t = team().await;
    let found = test(&t.ada, json!({})).await;
    assert_eq!(found["ok"], true, "{found}");
    assert_eq!(found["reply"], "Fine.");
    assert!(found["provider"].as_str().unwrap().starts_with("127.0.0.1"));
    assert!(!found["model"].as_str().unwrap().is_empty());
    assert!(found["latency_ms"].is_u64() && found["error"].is_null());
    let named = test(&t.ada, json!({"model": "another-one"})).await;
    assert_eq!(named["model"], "another-one");
    let asked = t.model().requests();
    assert_eq!(asked.len(), 2);
    assert!(
        t.ada.get("/v1/tasks").await.ok()["data"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn a_failing_model_is_reported_with_a_reason_and_no_secret() {
    let t = team().await;
    let refusal = r#"{"error":{"message":"Incorrect API key provided: sk-test-key."}}"#;
    for (answer, code) in [
        (Answer::status(401, refusal), "auth"),
        (
            Answer::status(404, r#"{"error":{"message":"no such model"}}"#),
            "bad_request",
        ),
        (Answer::status(503, "busy"), "model_unavailable"),
        (Answer::status(429, "slow down"), "rate_limited"),
        (Answer::text(" "), "bad_response"),
        (Answer::stream().cut(), "model_unavailable"),
    ] {
        t.model().script("target", [answer]);
        let found = test(&t.ada, json!({})).await;
        assert_eq!(
            (&found["ok"], &found["reply"]),
            (&json!(false), &Value::Null)
        );
        assert_eq!(found["error"]["code"], code, "{found}");
        assert!(!found["error"]["message"].as_str().unwrap().is_empty());
        assert!(!found.to_string().contains("sk-test-key"), "{found}");
    }
}

#[tokio::test]
async fn errors_do_not_quote_a_server_at_a_local_address() {
    const SECRET: &str = "db-password-4711";
    let t = team_with(&[("MODEL_BASE_URL", ""), ("MODEL_API_KEY", "")]).await;
    let model = format!("/v1/workspaces/{}/model", t.ada.workspace);
    let form = json!({"provider": "other", "base_url": t.model().url, "force": true});
    let stream_error = format!(r#"{{"error":{{"message":"{SECRET}"}}}}"#);
    let answers = || {
        [
            Answer::status(400, SECRET),
            Answer::status(
                404,
                &format!(r#"{{"error":{{"message":"no model {SECRET}"}}}}"#),
            ),
            Answer::status(401, SECRET),
            Answer::status(503, &format!("<title>{SECRET}</title>")),
            Answer::status(200, &stream_error).header("content-type", "application/json"),
        ]
    };
    for answer in answers() {
        t.model().script("target", [answer]);
        let mut tested = form.clone();
        tested["force"] = json!(false);
        let reply = t.ada.put(&model, tested).await;
        assert!(
            reply.status == 422 && !reply.text.contains(SECRET),
            "{}",
            reply.text
        );
    }
    t.ada.put(&model, form).await.is(200);
    for answer in answers() {
        t.model().script("target", [answer]);
        let found = test(&t.ada, json!({})).await;
        assert_eq!(found["ok"], false);
        assert!(!found["error"]["message"].as_str().unwrap().is_empty());
        assert!(!found.to_string().contains(SECRET), "{found}");
    }
    // An admin could otherwise read the texts from failed replies.
    let thread = t.ada.thread(&t.general, "Root").await;
    t.model().script("vibe", [Answer::status(400, SECRET)]);
    let task = t.ada.ask(&thread, "@vibe hi").await;
    let (failed, notice) = t.ada.failed(&task).await;
    assert!(!failed.to_string().contains(SECRET), "{failed}");
    assert!(!notice.contains(SECRET), "{notice}");
}

#[tokio::test]
async fn a_test_of_the_operators_local_server_is_not_quoted_either() {
    let t = team().await;
    t.model()
        .script("target", [Answer::status(400, "db-password-4711")]);
    let found = test(&t.ada, json!({})).await;
    assert_eq!(
        found["error"]["message"],
        "the provider rejected the request: status 400"
    );
}

#[tokio::test]
async fn without_a_model_the_test_fails() {
    let t = team_with(&[("MODEL_BASE_URL", ""), ("MODEL_API_KEY", "")]).await;
    let found = test(&t.ada, json!({})).await;
    assert_eq!(
        (&found["ok"], &found["provider"]),
        (&json!(false), &json!("builtin"))
    );
    let message = found["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("no model is connected"), "{message}");
}

#[tokio::test]
async fn only_admins_can_test_and_only_valid_model_settings() {
    let t = team().await;
    let viewer = t.app.join(&t.ada, "Vi", "viewer").await;
    for who in [&t.bo, &viewer] {
        let reply = who.post("/v1/model-test", json!({})).await;
        assert_eq!(reply.refused(403), "role_too_low");
    }
    let (robot, _) = t.ada.make_key(&["chat:read"]).await;
    robot.post("/v1/model-test", json!({})).await.refused(403);
    for bad in ["", " ", "a\nb", &"x".repeat(201)] {
        let reply = t.ada.post("/v1/model-test", json!({"model": bad})).await;
        reply.refused(422);
    }
    let reply = t.ada.post("/v1/model-test", json!({"key": "sk-1"})).await;
    reply.refused(400);
    assert_eq!(t.model().requests().len(), 0);
}

#[tokio::test]
async fn a_workspace_and_a_person_can_test_one_model_at_a_time() {
    let t = team_with(&[("SIGNUP", "open")]).await;
    let cy = t.app.join(&t.ada, "Cy", "admin").await;
    let own = json!({"name": "Another"});
    let own = t.ada.post("/v1/workspaces", own).await.is(201);
    let elsewhere = t.ada.in_workspace(&id(&own));
    let ada = t.ada.in_workspace(&t.ada.workspace);
    let eve = t.app.founder("Eve").await;
    let gate = Gate::new();
    let slow = Answer::stream().wait(&gate).piece("OK").end();
    t.model()
        .script("target", [slow, Answer::text("OK"), Answer::text("OK")]);
    let during = async {
        gate.reached().await;
        for who in [&ada, &cy, &elsewhere] {
            let reply = who.post("/v1/model-test", json!({})).await;
            assert_eq!(reply.refused(409), "still_running");
        }
        let other = test(&eve, json!({})).await;
        assert_eq!(other["ok"], true, "{other}");
        gate.open();
    };
    let (first, ()) = join(test(&ada, json!({})), during).await;
    assert_eq!(first["ok"], true, "{first}");
    assert_eq!(test(&cy, json!({})).await["ok"], true);
}
