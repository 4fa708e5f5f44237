//! Disks, mail servers, and settings that do not fit the running server.

use std::time::Duration;

use openvibe::db::now;
use serde_json::json;

use super::{assert_found, checked, command::run, set_meta};
use crate::support::{
    MailBehavior, MailServer, ModelServer, SECRET_KEY, TestApp, TestDatabase, TestProcess, command,
    own_port,
};

#[tokio::test]
async fn a_disk_that_fills_is_found() {
    let app = TestApp::start().await;
    let ada = app.founder("Ada").await;
    let server = ada.get("/v1/server").await.ok();
    let Some(free) = server["disk"]["free_bytes"].as_u64() else {
        panic!("no free space: {server}");
    };
    // Half of the space went in four days, so the other half lasts about as long.
    let before = now() - Duration::from_hours(4 * 24);
    let samples = json!([{"at": before, "free_bytes": free * 2}]);
    set_meta(&app, "disk_samples", samples).await;
    let result = checked(&ada).await;
    let data = super::check(&result, "data");
    // On a disk that is full already, that is said instead.
    if data["state"] != "failed" {
        let parts = ["will be full in", "larger disk"];
        assert_found(&result, "data", "warning", &parts);
    }
}

#[tokio::test]
async fn a_mail_server_that_sends_nothing_is_found() {
    let mails = MailServer::start().await;
    let url = mails.url.as_str();
    let mut app = TestApp::with(&[("SMTP_URL", url), ("SECRET_KEY", SECRET_KEY)]).await;
    let ada = app.founder("Ada").await;
    assert_found(
        &checked(&ada).await,
        "mail",
        "warning",
        &["openvibe@localhost", "set OPENVIBE_MAIL_FROM"],
    );
    mails.behave(MailBehavior::RefuseLogin);
    assert_found(
        &checked(&ada).await,
        "mail",
        "failed",
        &["correct user, password, or port in OPENVIBE_SMTP_URL"],
    );
    mails.behave(MailBehavior::Accept);
    app.restart(&[("MAIL_FROM", "chat@example.org")]).await;
    let result = checked(&ada.at(&app.base)).await;
    assert_found(&result, "mail", "ok", &["the sender is chat@example.org"]);
    let closed = format!("smtp://127.0.0.1:{}", own_port());
    app.restart(&[("SMTP_URL", &closed)]).await;
    let result = checked(&ada.at(&app.base)).await;
    let parts = ["cannot be reached", "start the mail server"];
    assert_found(&result, "mail", "failed", &parts);
    // Such as a server that waits for TLS.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("smtp://{}", silent.local_addr().unwrap());
    app.restart(&[("SMTP_URL", &url)]).await;
    let result = checked(&ada.at(&app.base)).await;
    let parts = ["no answer within", "smtps:// for port 465"];
    assert_found(&result, "mail", "failed", &parts);
}

// The command waits for the model server, which runs in this process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_and_programs_of_another_server_are_found() {
    let (place, model) = (TestDatabase::new().await, ModelServer::start().await);
    let listen = format!("127.0.0.1:{}", own_port());
    let settings = [("LISTEN", listen.as_str())];
    let _server = TestProcess::start(&place, &model, &settings).await;
    let elsewhere = format!("127.0.0.1:{}", own_port());
    let (result, _) = run(command(&place, &model, &[("LISTEN", &elsewhere)]));
    assert_found(
        &result,
        "ports",
        "warning",
        &[
            &format!("does not listen on {elsewhere}"),
            "start it again with the present OPENVIBE_LISTEN",
        ],
    );
    // A program that knows fewer tables than the one that runs.
    place
        .run(&["insert into _sqlx_migrations (version, description, success, checksum, execution_time) \
                select 29990101000000, 'later', success, checksum, 0 from _sqlx_migrations limit 1"])
        .await;
    let (result, status) = run(command(&place, &model, &settings));
    assert_eq!(status, 1);
    assert_found(
        &result,
        "database",
        "failed",
        &[
            "another version than this program",
            "use the program of the running server",
        ],
    );
}
