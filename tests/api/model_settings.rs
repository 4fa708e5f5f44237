//! Settings › Model: a model server for each workspace, connected without a restart.

use std::{net::TcpListener, os::unix::fs::PermissionsExt};

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    Answer, Gate, ModelServer, Person, Reply, Team, id, list, number, team, team_with, text,
};

const KEY: &str = "sk-flamingo-8c1f";
/// 32 bytes in base64, used as a secret key.
const FIRST: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const SECOND: &str = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";

fn path(who: &Person) -> String {
    format!("/v1/workspaces/{}/model", who.workspace)
}

/// A server with these settings, but without a model.
async fn without_model(settings: &[(&str, &str)]) -> Team {
    let mut all = vec![
        ("MODEL_BASE_URL", ""),
        ("MODEL_API_KEY", ""),
        ("SECRET_KEY", FIRST),
        ("SIGNUP", "open"),
    ];
    all.extend(settings);
    team_with(&all).await
}

fn other(url: &str) -> Value {
    json!({"provider": "other", "base_url": url, "model": "tiny"})
}

async fn get(who: &Person) -> Value {
    who.get(&path(who)).await.ok()
}

async fn put_if(who: &Person, version: i64, form: &Value) -> Reply {
    let etag = format!("\"{version}\"");
    let body = Some(form.to_string().into_bytes());
    who.send(Method::PUT, &path(who), &[("if-match", &etag)], body)
        .await
}

/// Status, code, and field of the error for a rejected form.
async fn refused(who: &Person, form: Value) -> (u16, String, String) {
    let reply = who.put(&path(who), form).await;
    let error = reply.json()["error"].clone();
    let field = error["param"].as_str().unwrap_or_default().to_owned();
    (reply.status, text(&error, "/code"), field)
}

fn rejected(code: &str, field: &str) -> (u16, String, String) {
    (422, code.to_owned(), field.to_owned())
}

/// Asks Vibe in #general and returns the reply.
async fn ask(who: &Person) -> String {
    let general = id(&who.channel("general").await);
    let thread = who.thread(&general, "Root").await;
    let task = who.ask(&thread, "@vibe hi").await;
    who.completed(&task).await;
    who.contents(&thread).await.pop().unwrap()
}

#[tokio::test]
async fn a_model_must_be_chosen_if_several_that_can_chat_are_listed() {
    let t = without_model(&[]).await;
    let form = json!({"provider": "other", "base_url": t.model().url});
    t.model().offer(&["dall-e-3", "small", "large"]);
    let reply = t.ada.put(&path(&t.ada), form.clone()).await;
    let error = reply.json()["error"].clone();
    assert_eq!(
        (reply.status, text(&error, "/code")),
        (422, "no_model".to_owned())
    );
    assert_eq!(error["param"], "model");
    assert_eq!(error["message"], "Choose a model: 2 are listed.");
    assert!(t.model().requests().is_empty());
    let mut chosen = form.clone();
    chosen["model"] = "large".into();
    t.ada.put(&path(&t.ada), chosen).await.is(200);
    t.model().offer(&["dall-e-3", "small"]);
    t.ada.put(&path(&t.ada), form).await.is(200);
    assert_eq!(ask(&t.ada).await, "Fine.");
    let request = t.model().requests().pop().unwrap();
    assert_eq!(request.body["model"], "small");
}

#[tokio::test]
async fn a_model_server_is_tested_stored_and_used_at_once() {
    let t = without_model(&[]).await;
    let none = get(&t.ada).await;
    assert_eq!(
        none,
        json!({"provider": null, "base_url": null, "model": null, "utility_model": null, "key_set": false,
            "source": "none", "status": "no_model", "checked_at": null, "version": 0})
    );
    assert!(ask(&t.ada).await.contains("built-in responder"));
    let mut form = other(&t.model().url);
    form["model"] = json!("tiny");
    form["api_key"] = json!(KEY);
    let reply = put_if(&t.ada, 0, &form).await;
    assert_eq!(reply.header("etag").unwrap(), "\"1\"");
    let stored = reply.is(200);
    assert_eq!(
        stored,
        json!({"provider": "other", "base_url": t.model().url, "model": "tiny", "utility_model": null, "key_set": true,
            "source": "settings", "status": "ok", "checked_at": stored["checked_at"], "version": 1})
    );
    assert!(stored["checked_at"].is_string());
    assert_eq!(get(&t.ada).await, stored);
    let agents = t.ada.get("/v1/agents").await.ok();
    assert_eq!(list(&agents, "/data")[0]["effective_model"], "tiny");
    t.model().script("vibe", [Answer::text("From the server.")]);
    assert_eq!(ask(&t.bo).await, "From the server.");
    let asked = t.model().asked_once("vibe").await;
    assert_eq!(asked.authorization.unwrap(), format!("Bearer {KEY}"));
    assert_eq!(asked.body["model"], "tiny");
    let response = json!({"input": "Hi"});
    t.model().script("", [Answer::text("Yes.")]);
    let response = t.ada.post("/v1/responses", response).await.is(200);
    assert_eq!(response["model"], "tiny");
    assert_eq!(
        t.ada.post("/v1/model-test", json!({})).await.ok()["ok"],
        true
    );

    t.ada.delete(&path(&t.ada)).await.is(204);
    let gone = get(&t.ada).await;
    assert_eq!(
        (&gone["source"], number(&gone, "/version")),
        (&json!("none"), 2)
    );
    assert!(ask(&t.ada).await.contains("built-in responder"));
    assert_eq!(t.app.place.count("secrets").await, 0);
    t.ada.delete(&path(&t.ada)).await.is(204);
    assert_eq!(number(&get(&t.ada).await, "/version"), 2);
    let log = t.ada.get("/v1/audit-log?order=newest").await.ok();
    let entries = list(&log, "/data");
    let actions: Vec<String> = entries.iter().map(|entry| text(entry, "/action")).collect();
    assert_eq!(actions[..2], ["model.removed", "model.changed"]);
    assert_eq!(entries[1]["data"]["api_key"], "replaced");
    assert_eq!(entries[1]["target"], t.ada.workspace.as_str());
}

#[tokio::test]
async fn only_admins_read_and_change_the_settings_and_no_version_is_overwritten() {
    let t = without_model(&[]).await;
    let form = other(&t.model().url);
    assert_eq!(t.bo.get(&path(&t.bo)).await.refused(403), "role_too_low");
    t.bo.put(&path(&t.ada), form.clone()).await.refused(403);
    t.bo.delete(&path(&t.ada)).await.refused(403);
    let (robot, _) = t.ada.make_key(&["agents:admin"]).await;
    robot.get(&path(&t.ada)).await.refused(403);
    assert!(t.model().requests().is_empty(), "nothing was tested");
    put_if(&t.ada, 0, &form).await.is(200);
    let stale = put_if(&t.ada, 0, &form).await;
    assert_eq!(stale.json()["error"]["current"]["version"], 1);
    assert_eq!(stale.refused(409), "version_conflict");
    let (path, header) = (path(&t.ada), [("if-match", "\"0\"")]);
    let stale = t.ada.send(Method::DELETE, &path, &header, None).await;
    assert_eq!(stale.refused(409), "version_conflict");
    put_if(&t.ada, 1, &form).await.is(200);
    assert_eq!(number(&get(&t.ada).await, "/version"), 2);
}

#[tokio::test]
async fn the_environment_takes_precedence() {
    let t = team().await;
    let shown = get(&t.ada).await;
    assert_eq!(
        (
            &shown["source"],
            &shown["provider"],
            &shown["base_url"],
            &shown["key_set"],
            &shown["status"]
        ),
        (
            &json!("environment"),
            &json!("other"),
            &json!(t.model().url),
            &json!(true),
            &json!("ok")
        )
    );
    let own = ModelServer::start().await;
    let refused = t.ada.put(&path(&t.ada), other(&own.url)).await;
    assert_eq!(refused.refused(409), "set_by_environment");
    assert_eq!(
        t.ada.delete(&path(&t.ada)).await.refused(409),
        "set_by_environment"
    );
    assert!(own.requests().is_empty());

    let mut t = without_model(&[]).await;
    t.ada.put(&path(&t.ada), other(&own.url)).await.is(200);
    let url = t.model().url.clone();
    t.app
        .restart(&[("MODEL_BASE_URL", &url.replace("//", "//ada:secret-in-url@"))])
        .await;
    let ada = t.ada.at(&t.app.base);
    let shown = get(&ada).await;
    assert_eq!(
        (&shown["source"], &shown["base_url"]),
        (&json!("environment"), &json!(url))
    );
    t.model()
        .script("vibe", [Answer::text("From the environment.")]);
    assert_eq!(ask(&ada).await, "From the environment.");
}

#[tokio::test]
async fn a_failed_test_is_reported_with_its_cause_and_stores_nothing() {
    let t = without_model(&[]).await;
    let refusal = format!(r#"{{"error":{{"message":"Incorrect API key: {KEY}"}}}}"#);
    let mut form = other(&t.model().url);
    form["api_key"] = json!(KEY);
    for (answer, code, field) in [
        (Answer::status(401, &refusal), "auth_failed", "api_key"),
        (
            Answer::status(
                404,
                r#"{"error":{"message":"the model `tiny` does not exist"}}"#,
            ),
            "no_model",
            "model",
        ),
        (Answer::status(503, "busy"), "unreachable", "base_url"),
        (
            Answer::status(200, "").header("content-type", "text/html"),
            "unreachable",
            "base_url",
        ),
    ] {
        t.model().script("target", [answer]);
        let reply = t.ada.put(&path(&t.ada), form.clone()).await;
        assert!(!reply.text.contains(KEY), "{}", reply.text);
        let error = reply.json()["error"].clone();
        assert_eq!(
            (reply.status, &error["code"], &error["param"]),
            (422, &json!(code), &json!(field))
        );
    }
    let nobody = "http://127.0.0.1:1/v1";
    assert_eq!(
        refused(&t.ada, other(nobody)).await,
        rejected("unreachable", "base_url")
    );
    assert_eq!(get(&t.ada).await["source"], "none");
    assert_eq!(t.app.place.count("secrets").await, 0);

    let mut forced = other(nobody);
    forced["force"] = json!(true);
    let stored = t.ada.put(&path(&t.ada), forced).await.is(200);
    assert_eq!(
        (&stored["source"], &stored["status"]),
        (&json!("settings"), &json!("unreachable"))
    );
}

#[tokio::test]
async fn invalid_values_are_rejected_with_their_field() {
    let t = without_model(&[]).await;
    let url = "https://model.example/v1";
    for (form, field) in [
        (json!({"provider": "other"}), "base_url"),
        (other("ftp://model.example"), "base_url"),
        (other("model.example:8000"), "base_url"),
        (other("https://ada:secret@model.example/v1"), "base_url"),
        (other("https://model.example/v1?key=secret"), "base_url"),
        (json!({"provider": "openai", "base_url": url}), "base_url"),
        (
            json!({"provider": "other", "base_url": url, "api_key": "two\nlines"}),
            "api_key",
        ),
        (
            json!({"provider": "other", "base_url": url, "api_key": "k".repeat(9000)}),
            "api_key",
        ),
        (
            json!({"provider": "other", "base_url": url, "model": "m".repeat(300)}),
            "model",
        ),
        (
            json!({"provider": "other", "base_url": url, "utility_model": "a\nb"}),
            "utility_model",
        ),
    ] {
        assert_eq!(
            refused(&t.ada, form).await,
            rejected("invalid_value", field)
        );
    }
    let unknown = t.ada.put(&path(&t.ada), json!({"provider": "acme"})).await;
    assert_eq!(unknown.status, 400);
}

#[tokio::test]
async fn two_workspaces_use_two_servers_at_once() {
    let t = without_model(&[("MODEL_ALLOW", "127.0.0.0/8")]).await;
    let zoe = t.app.founder("Zoe").await;
    let theirs = ModelServer::start().await;
    let same_version = [(&t.ada, t.model()), (&zoe, &theirs)];
    for (who, server) in same_version {
        let mut form = other(&server.url);
        form["api_key"] = json!(format!("{KEY}-{}", who.id));
        who.put(&path(who), form).await.is(200);
    }
    t.model().script("vibe", [Answer::text("For Ada.")]);
    theirs.script("vibe", [Answer::text("For Zoe.")]);
    let (for_ada, for_zoe) = tokio::join!(ask(&t.ada), ask(&zoe));
    assert_eq!(
        (for_ada.as_str(), for_zoe.as_str()),
        ("For Ada.", "For Zoe.")
    );
    let asked = theirs.asked_once("vibe").await;
    assert_eq!(
        asked.authorization.unwrap(),
        format!("Bearer {KEY}-{}", zoe.id)
    );
    zoe.delete(&path(&zoe)).await.is(204);
    assert!(ask(&zoe).await.contains("built-in responder"));
    t.model().script("vibe", [Answer::text("Still here.")]);
    assert_eq!(ask(&t.ada).await, "Still here.");
}

#[tokio::test]
async fn local_addresses_are_for_the_oldest_workspace() {
    let t = without_model(&[]).await;
    let zoe = t.app.founder("Zoe").await;
    let port = t.model().url.rsplit_once(':').unwrap().1.to_owned();
    let denied = rejected("address_not_allowed", "base_url");
    for host in [
        "127.0.0.1",
        "[::ffff:127.0.0.1]",
        "2130706433",
        "localhost",
        "LOCALHOST.",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "10.0.0.1",
    ] {
        let mut form = other(&format!("http://{host}:{port}"));
        assert_eq!(refused(&zoe, form.clone()).await, denied, "{host}");
        form["force"] = json!(true);
        assert_eq!(refused(&zoe, form).await, denied, "{host}");
    }
    let metadata = refused(&t.ada, other("http://169.254.169.254/v1")).await;
    assert_eq!(metadata, denied, "not even in the oldest workspace");
    let plain = refused(&t.ada, other("http://1.1.1.1/v1")).await;
    assert_eq!(plain, denied, "a key must not be sent in the clear");
    let own = refused(&t.ada, other(&format!("{}/v1", t.app.base))).await;
    assert_eq!(own, rejected("own_server", "base_url"));
    let absent = refused(&zoe, other("https://absent.invalid/v1")).await;
    assert_eq!(absent, rejected("unreachable", "base_url"));
    assert!(t.model().requests().is_empty(), "nothing was sent");
    for host in ["127.0.0.1", "[::ffff:127.0.0.1]", "localhost"] {
        let form = other(&format!("http://{host}:{port}"));
        t.ada.put(&path(&t.ada), form).await.is(200);
    }
}

#[tokio::test]
async fn an_address_that_is_no_longer_permitted_is_not_called() {
    let mut t = without_model(&[("MODEL_ALLOW", "127.0.0.1, localhost")]).await;
    let zoe = t.app.founder("Zoe").await;
    let literal = t.model().url.clone();
    for url in [&literal, &literal.replace("127.0.0.1", "localhost")] {
        let zoe = zoe.at(&t.app.base);
        zoe.put(&path(&zoe), other(url)).await.is(200);
        t.app.restart(&[("MODEL_ALLOW", "")]).await;
        t.model().forget();
        let zoe = zoe.at(&t.app.base);
        let tested = zoe.post("/v1/model-test", json!({})).await.ok();
        assert_eq!(tested["error"]["code"], "model_unavailable", "{tested}");
        assert!(t.model().requests().is_empty(), "{url}");
        t.app
            .restart(&[("MODEL_ALLOW", "127.0.0.1, localhost")])
            .await;
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let t = without_model(&[]).await;
    let other_server = ModelServer::start().await;
    let target = format!("{}/chat/completions", other_server.url);
    let redirect = Answer::status(307, "").header("location", &target);
    t.model().script("target", [redirect]);
    let mut form = other(&t.model().url);
    form["api_key"] = json!(KEY);
    let (status, ..) = refused(&t.ada, form).await;
    assert_eq!(status, 422);
    assert!(other_server.requests().is_empty());
}

#[tokio::test]
async fn a_key_is_never_sent_to_another_server() {
    let t = without_model(&[]).await;
    let mut form = other(&t.model().url);
    form["api_key"] = json!(KEY);
    t.ada.put(&path(&t.ada), form.clone()).await.is(200);
    let kept = json!({"provider": "other", "base_url": t.model().url, "model": "tiny"});
    let stored = t.ada.put(&path(&t.ada), kept).await.is(200);
    assert_eq!(stored["key_set"], true, "the stored key is kept");
    let sent = t.model().asked("target", 2).await;
    assert_eq!(
        sent[1].authorization.as_deref(),
        Some(format!("Bearer {KEY}").as_str())
    );
    let thief = ModelServer::start().await;
    let stored = t.ada.put(&path(&t.ada), other(&thief.url)).await.is(200);
    assert_eq!(stored["key_set"], false);
    assert_eq!(thief.asked_once("target").await.authorization, None);
    form["api_key"] = Value::Null;
    let stored = t.ada.put(&path(&t.ada), form).await.is(200);
    assert_eq!(stored["key_set"], false);
}

/// Checks that no file, table, response, export, or backup contains the key.
#[tokio::test]
async fn a_key_is_stored_encrypted_and_never_returned() {
    let mut t = without_model(&[]).await;
    let mut form = other(&t.model().url);
    form["api_key"] = json!(KEY);
    let stored = t.ada.put(&path(&t.ada), form).await;
    assert!(!stored.text.contains(KEY));
    assert_eq!(t.app.place.places_of(KEY).await, Vec::<String>::new());
    for read in [
        path(&t.ada),
        "/v1/audit-log".to_owned(),
        "/v1/snapshot".to_owned(),
        format!("/v1/members/{}/export", t.ada.id),
    ] {
        let reply = t.ada.get(&read).await;
        assert_eq!(reply.status, 200);
        assert!(!reply.text.contains(KEY), "{read}");
    }
    // With a different server key, the secret cannot be decrypted.
    t.app.restart(&[("SECRET_KEY", SECOND)]).await;
    let ada = t.ada.at(&t.app.base);
    let shown = get(&ada).await;
    assert_eq!(
        (&shown["key_set"], &shown["status"]),
        (&json!(true), &json!("auth_failed"))
    );
    // If the old key is listed after the new one, the secret is encrypted again; after that, the new key alone is enough.
    t.app
        .restart(&[("SECRET_KEY", &format!("{SECOND},{FIRST}"))])
        .await;
    t.app.restart(&[("SECRET_KEY", SECOND)]).await;
    let ada = t.ada.at(&t.app.base);
    assert_eq!(get(&ada).await["status"], "ok");
    t.model().forget();
    assert_eq!(ask(&ada).await, "Fine.");
    let sent = t.model().asked_once("vibe").await;
    assert_eq!(sent.authorization.unwrap(), format!("Bearer {KEY}"));
}

#[tokio::test]
async fn without_a_secret_key_only_sqlite_stores_keys() {
    let t = without_model(&[("SECRET_KEY", "")]).await;
    let mut form = other(&t.model().url);
    form["api_key"] = json!(KEY);
    let file = t.app.place.dir.join("data").join("secret.key");
    assert!(!file.exists());
    let reply = t.ada.put(&path(&t.ada), form).await;
    if t.app.place.postgres.is_some() {
        assert_eq!(reply.refused(503), "secret_key_missing");
        let without_key = other(&t.model().url);
        t.ada.put(&path(&t.ada), without_key).await.is(200);
        return;
    }
    reply.is(200);
    let mode = std::fs::metadata(file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(ask(&t.ada).await, "Fine.");
}

#[tokio::test]
async fn a_server_on_a_usual_local_port_is_offered_while_nothing_is_connected() {
    let t = without_model(&[]).await;
    let local = |who: &Person| format!("/v1/workspaces/{}/local-models", who.workspace);
    // Uses any of the usual ports that is free, because other programs on this machine may use some of them.
    let free = [11434, 1234, 8000, 8080, 4000, 1337]
        .into_iter()
        .find_map(|port| Some((port, TcpListener::bind(("127.0.0.1", port)).ok()?)));
    let (port, listener) = free.expect("a usual port is free");
    let _server = ModelServer::on(listener);
    let found = list(&t.ada.get(&local(&t.ada)).await.ok(), "/data");
    let base_url = format!("http://127.0.0.1:{port}/v1");
    let offer = found.iter().find(|server| server["base_url"] == base_url);
    assert_eq!(
        offer.unwrap()["models"],
        json!(["claude-sonnet-4-5", "tiny"])
    );
    let zoe = t.app.founder("Zoe").await;
    assert!(list(&zoe.get(&local(&zoe)).await.ok(), "/data").is_empty());
    t.bo.get(&local(&t.bo)).await.refused(403);
    t.ada.put(&path(&t.ada), other(&base_url)).await.is(200);
    assert!(list(&t.ada.get(&local(&t.ada)).await.ok(), "/data").is_empty());
}

#[tokio::test]
async fn a_connection_is_not_tested_again_while_its_test_runs() {
    let t = without_model(&[]).await;
    let gate = Gate::new();
    let slow = Answer::stream().wait(&gate).piece("OK").end();
    t.model().script("target", [slow]);
    let form = other(&t.model().url);
    let path = path(&t.ada);
    let during = async {
        gate.reached().await;
        let again = t.ada.put(&path, form.clone()).await;
        assert_eq!(again.refused(409), "still_running");
        gate.open();
    };
    let first = t.ada.put(&path, form.clone());
    let (first, ()) = futures::future::join(first, during).await;
    assert_eq!(first.is(200)["status"], "ok");
}
