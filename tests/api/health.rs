//! Health checks, metrics, and other endpoints outside the API.

use serde_json::json;

use crate::support::{
    ModelServer, TestApp, TestDatabase, TestProcess, command, team, text, visitor,
};

#[tokio::test]
async fn a_healthy_server_reports_it() {
    let app = TestApp::start().await;
    let who = visitor(&app.base);
    assert_eq!(who.get("/healthz").await.is(200)["status"], "ok");
    let ready = who.get("/readyz").await.is(200);
    assert_eq!(
        (&ready["database"], &ready["migrations"]),
        (&json!("ok"), &json!("ok"))
    );
}

#[tokio::test]
async fn metrics_are_available_on_the_local_machine() {
    let t = team().await;
    t.ada.thread(&t.general, "Hello").await;
    let who = visitor(&t.app.base);
    let reply = who.get("/metrics").await;
    assert_eq!(reply.status, 200);
    assert!(
        reply.text.contains("openvibe_tasks_queued"),
        "{}",
        reply.text
    );
    let forwarded = who
        .send(
            reqwest::Method::GET,
            "/metrics",
            &[("x-forwarded-for", "1.2.3.4")],
            None,
        )
        .await;
    assert!(matches!(forwarded.status, 401 | 403));
    // A page of another site whose name points to this machine.
    let host = [("host", "evil.example")];
    let rebound = who
        .send(reqwest::Method::GET, "/metrics", &host, None)
        .await;
    assert!(matches!(rebound.status, 400 | 403), "{}", rebound.text);
}

#[tokio::test]
async fn pages_of_other_sites_do_not_read_the_metrics_of_a_server_on_all_addresses() {
    let app = TestApp::with(&[("LISTEN", "0.0.0.0:0")]).await;
    let who = visitor(&app.base.replace("0.0.0.0", "127.0.0.1"));
    assert_eq!(who.get("/metrics").await.status, 200);
    let host = [("host", "evil.example")];
    let rebound = who
        .send(reqwest::Method::GET, "/metrics", &host, None)
        .await;
    assert_eq!(rebound.refused(403), "metrics_closed");
}

#[tokio::test]
async fn with_a_metrics_token_metrics_require_it() {
    let app = TestApp::with(&[("METRICS_TOKEN", "secret")]).await;
    let who = visitor(&app.base);
    let with = async |token: &str| {
        who.send(
            reqwest::Method::GET,
            "/metrics",
            &[("authorization", token)],
            None,
        )
        .await
        .status
    };
    assert!(matches!(who.get("/metrics").await.status, 401 | 403));
    assert!(matches!(with("Bearer wrong").await, 401 | 403));
    assert_eq!(with("Bearer secret").await, 200);
}

#[tokio::test]
async fn pages_disable_sniffing_and_api_responses_disable_caching() {
    let t = team().await;
    let reply = t.ada.get("/v1/auth/me").await;
    assert_eq!(
        reply.header("x-content-type-options").as_deref(),
        Some("nosniff")
    );
    assert_eq!(reply.header("cache-control").as_deref(), Some("no-store"));
    assert!(
        reply
            .header("content-type")
            .unwrap()
            .starts_with("application/json")
    );
}

#[tokio::test]
async fn a_second_server_on_the_same_data_does_not_start() {
    let (place, model) = (TestDatabase::new().await, ModelServer::start().await);
    let first = TestProcess::start(&place, &model, &[]).await;
    let second = TestProcess::try_start(&place, &model, &[]).await;
    assert!(!second.err().expect("no second server").success());
    assert_eq!(visitor(&first.base).get("/healthz").await.status, 200);
    first.kill().await;
    TestProcess::start(&place, &model, &[]).await;
}

#[tokio::test]
async fn an_invalid_setting_is_named() {
    let (place, model) = (TestDatabase::new().await, ModelServer::start().await);
    for (name, value) in [
        ("WORKERS", "none"),
        ("SIGNUP", "everyone"),
        ("RETRY_DELAYS", "soon"),
        ("LISTEN", "nowhere"),
    ] {
        let output = command(&place, &model, &[(name, value)]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains(&format!("OPENVIBE_{name}")),
            "{said}"
        );
    }
}

#[tokio::test]
async fn settings_come_from_a_file_and_flags_override_it() {
    let (place, model) = (TestDatabase::new().await, ModelServer::start().await);
    let file = place.dir.join("openvibe.toml");
    std::fs::write(&file, "signup = \"open\"\nworkers = 2\n").unwrap();
    let server = TestProcess::start(&place, &model, &[]).await;
    let setup = visitor(&server.base).get("/v1/auth/setup").await.ok();
    assert_eq!(text(&setup, "/signup"), "open");
    server.kill().await;
    let server = TestProcess::start(&place, &model, &[("SIGNUP", "invite")]).await;
    let setup = visitor(&server.base).get("/v1/auth/setup").await.ok();
    assert_eq!(
        text(&setup, "/signup"),
        "invite",
        "the environment overrides the file"
    );
    server.kill().await;
    std::fs::write(&file, "workers = 2\nworker = 3\n").unwrap();
    let output = command(&place, &model, &[]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("`worker` is not a setting"));
    std::fs::remove_file(&file).unwrap();
    let output = command(&place, &model, &[])
        .args(["serve", "--listen", "nowhere"])
        .output()
        .unwrap();
    assert!(!output.status.success());
}

#[tokio::test]
async fn migrations_can_run_as_a_separate_command() {
    let (place, model) = (TestDatabase::new().await, ModelServer::start().await);
    for _ in 0..2 {
        let output = command(&place, &model, &[])
            .arg("migrate")
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    TestProcess::start(&place, &model, &[]).await;
}
