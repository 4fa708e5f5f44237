//! Checks of broken set-ups: each is found by the check that is responsible, with a hint that names the remedy.

mod command;
mod outside;
mod proxy;
mod surroundings;

use std::{
    io::{Read, Write},
    net::TcpListener,
    time::Duration,
};

use openvibe::db::{Conn, DbError, now};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Canned, OidcServer, Person, TestApp, TestDatabase, list, own_port, text};

/// One check of a result.
fn check<'a>(result: &'a Value, name: &str) -> &'a Value {
    let checks = result["data"].as_array().unwrap();
    let found = checks.iter().find(|check| check["name"] == name);
    found.unwrap_or_else(|| panic!("no check {name}: {result}"))
}

/// Asserts the state of a check, and a part of its text and hint together.
#[track_caller]
fn assert_found(result: &Value, name: &str, state: &str, parts: &[&str]) {
    let check = check(result, name);
    assert_eq!(check["state"], state, "{check}");
    let said = format!(
        "{}: {}",
        check["text"].as_str().unwrap(),
        check["hint"].as_str().unwrap_or_default()
    );
    for part in parts {
        assert!(said.contains(part), "{part}: {check}");
    }
}

async fn checked(who: &Person) -> Value {
    who.post("/v1/server/checks", json!({})).await.ok()
}

async fn set_meta(app: &TestApp, key: &'static str, value: Value) {
    let set = async move |c: &mut Conn| {
        c.q("insert into meta (key, value) values ($1, $2) on conflict (key) do update set value = excluded.value")
            .bind(key.to_owned())
            .bind(value.to_string())
            .run()
            .await?;
        Ok::<_, DbError>(())
    };
    app.db().write(Uuid::nil(), set).await.unwrap();
}

#[tokio::test]
async fn admins_of_the_server_run_the_checks_and_the_results_are_kept() {
    let app = TestApp::with(&[("SIGNUP", "open")]).await;
    let ada = app.founder("Ada").await;
    let bo = app.join(&ada, "Bo", "member").await;
    let zoe = app.founder("Zoe").await;
    for who in [&bo, &zoe] {
        who.post("/v1/server/checks", json!({})).await.refused(404);
        who.post("/v1/server/certificate", json!({}))
            .await
            .refused(404);
        who.patch("/v1/server", json!({"key_copied": true}))
            .await
            .refused(404);
    }
    let before = ada.get("/v1/server").await.ok();
    assert!(before["checks"].is_null() && before["checked_at"].is_null());
    let result = checked(&ada).await;
    let names: Vec<String> = list(&result, "/data")
        .iter()
        .map(|check| text(check, "/name"))
        .collect();
    assert_eq!(
        names,
        [
            "settings",
            "limits",
            "data",
            "database",
            "nodes",
            "clock",
            "dns",
            "ports",
            "public",
            "https",
            "proxy",
            "websocket",
            "stream",
            "upload",
            "model",
            "mail",
            "push",
            "sign_in",
            "backup"
        ]
    );
    for name in [
        "settings",
        "database",
        "ports",
        "public",
        "websocket",
        "stream",
        "upload",
        "model",
    ] {
        assert_found(&result, name, "ok", &[]);
    }
    for name in ["dns", "https", "proxy", "mail", "push", "sign_in"] {
        assert_found(&result, name, "skipped", &[]);
    }
    assert_found(
        &result,
        "backup",
        "warning",
        &["no backups", "OPENVIBE_BACKUP_TO"],
    );
    let after = ada.get("/v1/server").await.ok();
    assert_eq!(after["checks"], result["data"]);
    assert!(after["checked_at"].is_string());
    // A run on another node.
    let later = (now() + Duration::from_mins(1)).to_text();
    let running = async move |c: &mut Conn| {
        c.q("insert into meta (key, value) values ('checks_until', $1)")
            .bind(later.clone())
            .run()
            .await?;
        Ok::<_, DbError>(())
    };
    app.db().write(Uuid::nil(), running).await.unwrap();
    let refused = ada.post("/v1/server/checks", json!({})).await;
    assert_eq!(refused.refused(409), "checks_running");
}

#[tokio::test]
async fn choices_and_the_certificate_are_part_of_the_state_of_the_server() {
    let app = TestApp::start().await;
    let ada = app.founder("Ada").await;
    let before = ada.get("/v1/server").await.ok();
    assert_eq!(before["update"]["enabled"], false);
    assert_eq!(before["backups"]["key_copied"], false);
    assert_eq!(
        before["certificate"],
        json!({"source": "none", "names": [], "issuer": null, "expires_at": null, "renew_at": null, "state": null, "error": null,
            "next_attempt_at": null})
    );
    let on = json!({"key_copied": true, "look_for_updates": true});
    let after = ada.patch("/v1/server", on).await.is(200);
    assert_eq!(after["update"]["enabled"], true);
    assert_eq!(after["backups"]["key_copied"], true);
    let off = ada.patch("/v1/server", json!({"look_for_updates": false}));
    let off = off.await.is(200);
    assert_eq!(off["update"]["enabled"], false);
    assert_eq!(off["backups"]["key_copied"], true);
    let refused = ada.post("/v1/server/certificate", json!({})).await;
    assert_eq!(refused.refused(422), "certificate_not_ordered");
    let audit = ada.get("/v1/audit-log?action=server.updated").await.ok();
    let entries = list(&audit, "/data");
    let data: Vec<&Value> = entries.iter().map(|entry| &entry["data"]).collect();
    assert_eq!(data.len(), 2);
    assert!(
        data.contains(&&json!({"look_for_updates": false})),
        "{data:?}"
    );
}

#[tokio::test]
async fn a_missing_old_or_damaged_backup_is_found() {
    let place = TestDatabase::migrated().await;
    let dir = place.dir.join("backups");
    std::fs::write(place.dir.join("file"), b"").unwrap();
    let file = place.dir.join("file").display().to_string();
    let app = TestApp::on(place, &[("BACKUP_TO", dir.to_str().unwrap())]).await;
    let mut ada = app.founder("Ada").await;
    let mut app = app;
    let result = checked(&ada).await;
    let check = check(&result, "backup");
    assert_ne!(check["state"], "failed", "{check}");
    let ago = |hours: u64| (now() - Duration::from_hours(hours)).to_text();
    let last = |hours: u64| json!({"name": "openvibe-1.ovb", "at": ago(hours), "bytes": 1});
    let drill = |fault: Value, skipped: Value| json!({"name": "openvibe-1.ovb", "at": ago(1), "fault": fault, "skipped": skipped});
    for (stored, state, parts) in [
        (
            json!({"last": last(40)}),
            "failed",
            &["40 hours old", "Back up now"][..],
        ),
        (
            json!({"error": "disk full"}),
            "failed",
            &["failed (disk full)", "correct the cause"],
        ),
        (
            json!({"last": last(1), "drill": drill(json!("rows are missing"), Value::Null)}),
            "failed",
            &["cannot be restored (rows are missing)", "Test a restore"],
        ),
        (
            json!({"last": last(1), "drill": drill(Value::Null, json!("too little space"))}),
            "warning",
            &["not tested (too little space)", "free some space"],
        ),
    ] {
        set_meta(&app, "backups", stored).await;
        assert_found(&checked(&ada).await, "backup", state, parts);
    }
    set_meta(&app, "backups", json!({"last": last(1)})).await;
    let secret = app.place.dir.join("data/secret.key");
    if secret.parent().is_some_and(std::path::Path::exists) {
        let is_new = !secret.exists();
        if is_new {
            std::fs::write(&secret, b"x").unwrap();
        }
        let result = checked(&ada).await;
        assert_found(&result, "backup", "warning", &["secret.key", "keep a copy"]);
        let copied = ada.patch("/v1/server", json!({"key_copied": true}));
        copied.await.is(200);
        let result = checked(&ada).await;
        let backup = super::doctor::check(&result, "backup").to_string();
        assert!(!backup.contains("secret.key"), "{backup}");
        if is_new {
            std::fs::remove_file(&secret).unwrap();
        }
    }
    app.restart(&[("BACKUP_TO", &file)]).await;
    ada = ada.at(&app.base);
    let result = checked(&ada).await;
    assert_found(
        &result,
        "backup",
        "failed",
        &["cannot be written", "create the directory"],
    );
}

#[tokio::test]
async fn a_data_directory_of_others_is_found() {
    use std::os::unix::fs::{PermissionsExt, chown};

    let app = TestApp::start().await;
    let ada = app.founder("Ada").await;
    let result = ada.get("/v1/server").await.ok();
    assert!(result["disk"]["free_bytes"].is_number());
    let data = app.place.dir.join("data");
    if !data.exists() {
        return;
    }
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_found(
        &checked(&ada).await,
        "data",
        "warning",
        &["others on this machine can enter", "chmod go="],
    );
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700)).unwrap();
    // Only root can give files away.
    if chown(&data, Some(12_345), None).is_ok() {
        assert_found(
            &checked(&ada).await,
            "data",
            "failed",
            &["belongs to user 12345", "chown -R"],
        );
        chown(&data, Some(own_user()), None).unwrap();
    }
}

fn own_user() -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid()
}

#[tokio::test]
async fn a_model_server_that_does_not_serve_is_found() {
    let mut app = TestApp::start().await;
    let ada = app.founder("Ada").await;
    let server = |answer: &'static str| async move {
        let proxy = proxy::Proxy::start().await;
        proxy.fail(proxy::Fault::Answers(answer));
        proxy
    };
    let closed = format!("http://127.0.0.1:{}/v1", own_port());
    app.restart(&[("MODEL_BASE_URL", &closed)]).await;
    let result = checked(&ada.at(&app.base)).await;
    assert_found(
        &result,
        "model",
        "failed",
        &["127.0.0.1 refuses connections", "OPENVIBE_MODEL_BASE_URL"],
    );
    for (answer, state, parts) in [
        (
            "401 Unauthorized",
            "failed",
            &["does not accept the API key", "OPENVIBE_MODEL_API_KEY"][..],
        ),
        (
            "404 Not Found",
            "warning",
            &["no list of models", "ends with /v1"],
        ),
        (
            "500 Internal Server Error",
            "failed",
            &["status 500", "log"],
        ),
        ("200 OK", "warning", &["no list of models"]),
    ] {
        let other = server(answer).await;
        let url = format!("http://127.0.0.1:{}/v1", other.port);
        app.restart(&[("MODEL_BASE_URL", &url)]).await;
        assert_found(&checked(&ada.at(&app.base)).await, "model", state, parts);
    }
    // The cause has a remedy of its own.
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/v1", plain.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut client in plain.incoming().flatten() {
            drop(client.read(&mut [0; 4096]));
            drop(client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
        }
    });
    app.restart(&[("MODEL_BASE_URL", &url)]).await;
    let result = checked(&ada.at(&app.base)).await;
    let hint = &check(&result, "model")["hint"];
    assert_eq!(hint, "use http:// instead of https://");
    // Its clock, too.
    let past = server("200 OK\r\ndate: Tue, 15 Nov 1994 08:12:31 GMT").await;
    let url = format!("http://127.0.0.1:{}/v1", past.port);
    app.restart(&[("MODEL_BASE_URL", &url)]).await;
    let result = checked(&ada.at(&app.base)).await;
    assert_found(
        &result,
        "clock",
        "failed",
        &["ahead of that of 127.0.0.1", "timedatectl"],
    );
}

#[tokio::test]
async fn a_quiet_copy_asks_no_other_server() {
    let mut app = TestApp::start().await;
    let ada = app.founder("Ada").await;
    app.restart(&[("QUIET", "on")]).await;
    let result = checked(&ada.at(&app.base)).await;
    for name in ["clock", "public", "https", "upload", "model", "sign_in"] {
        assert_found(&result, name, "skipped", &[]);
    }
}

#[tokio::test]
async fn an_identity_provider_that_cannot_sign_people_in_is_found() {
    let (t, corp) = (crate::oidc::team().await, OidcServer::start().await);
    let none = checked(&t.ada).await;
    assert_found(&none, "sign_in", "skipped", &["no identity provider"]);
    crate::oidc::provide(&t.ada, &corp, json!({})).await;
    let works = checked(&t.ada).await;
    assert_found(&works, "sign_in", "ok", &["Corp can sign people in"]);
    for (path, canned, part) in [
        (
            "/keys",
            Canned::Json(200, json!({"keys": []})),
            "no usable addresses or keys (keys_missing)",
        ),
        (
            "/keys",
            Canned::Json(500, json!({})),
            "does not answer (500)",
        ),
        (
            "/.well-known/openid-configuration",
            Canned::Json(404, json!({})),
            "does not answer (404",
        ),
    ] {
        corp.can(path, canned);
        assert_found(&checked(&t.ada).await, "sign_in", "failed", &[part]);
        corp.mend();
    }
    corp.publish(json!({"issuer": "https://other.example"}));
    let parts = ["publishes another issuer", "exactly as it is published"];
    assert_found(&checked(&t.ada).await, "sign_in", "failed", &parts);
}

#[tokio::test]
async fn a_server_whose_notifications_apple_refuses_is_found() {
    let mut app = TestApp::start().await;
    let ada = app.founder("Ada").await;
    let (robot, _) = ada.make_key(&["workspace:admin"]).await;
    for (settings, state, part) in [
        (
            &[("PUBLIC_URL", "http://chat.invalid")][..],
            "warning",
            "only with HTTPS",
        ),
        (
            &[("PUBLIC_URL", "https://chat.invalid")],
            "warning",
            "set OPENVIBE_PUSH_SUBJECT to mailto:",
        ),
        (
            &[("PUSH_SUBJECT", "mailto:ops@example.org")],
            "ok",
            "mailto:ops@example.org",
        ),
    ] {
        app.restart(settings).await;
        let result = checked(&robot.at(&app.base)).await;
        assert_found(&result, "push", state, &[part]);
    }
}
