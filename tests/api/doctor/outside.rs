//! Proxies and names that do not lead to the server as they should.

use std::time::Duration;

use openvibe::{
    db::{Conn, DbError, now},
    doctor::probe,
};
use reqwest::StatusCode;
use serde_json::Value;
use uuid::Uuid;

use super::{
    assert_found, checked,
    proxy::{Fault, Proxy},
};
use crate::support::{Person, TestApp, own_port};

/// A server behind a proxy, and its admin.
async fn behind_proxy() -> (TestApp, Person, Proxy) {
    let proxy = Proxy::start().await;
    let url = format!("http://localhost:{}", proxy.port);
    let settings = [
        ("PUBLIC_URL", url.as_str()),
        ("TRUSTED_PROXIES", "127.0.0.1"),
    ];
    let app = TestApp::with(&settings).await;
    proxy.forward_to(&app.base);
    let ada = app.founder("Ada").await;
    (app, ada, proxy)
}

const THROUGH_PROXY: [&str; 4] = ["proxy", "websocket", "stream", "upload"];

#[tokio::test]
async fn each_fault_of_a_proxy_is_found_by_one_check() {
    let (_app, ada, proxy) = behind_proxy().await;
    let result = checked(&ada).await;
    for name in THROUGH_PROXY {
        assert_found(&result, name, "ok", &[]);
    }
    assert_found(&result, "proxy", "ok", &["203.0.113.7"]);
    for (fault, name, parts) in [
        (
            Fault::LosesHost,
            "proxy",
            &[
                "replaces Host by openvibe_backend",
                "proxy_set_header Host $host",
                "ProxyPreserveHost On",
            ][..],
        ),
        (
            Fault::Buffers,
            "stream",
            &["ms late", "turn buffering off: nginx `proxy_buffering off`"],
        ),
        (
            Fault::RefusesUpgrades,
            "websocket",
            &[
                "do not get through (status 400)",
                "proxy_set_header Upgrade $http_upgrade",
            ],
        ),
        (
            Fault::LimitsBodies,
            "upload",
            &[
                "refuses uploads of 25 MiB (status 413)",
                "client_max_body_size 26m",
            ],
        ),
    ] {
        proxy.fail(fault);
        let result = checked(&ada).await;
        assert_found(&result, "public", "ok", &[]);
        for other in THROUGH_PROXY.iter().filter(|other| **other != name) {
            assert_found(&result, other, "ok", &[]);
        }
        assert_found(&result, name, "failed", parts);
    }
}

#[tokio::test]
async fn another_server_at_the_public_url_is_named() {
    let (app, ada, proxy) = behind_proxy().await;
    let target = app.base.strip_prefix("http://").unwrap();
    let point = format!("point the proxy to {target}");
    for (answer, parts) in [
        (
            "200 OK\r\nserver: nginx",
            &["answers, but it is another server (nginx)", &point][..],
        ),
        ("404 Not Found", &["another server (status 404)", &point]),
        (
            "502 Bad Gateway\r\nserver: nginx",
            &["a proxy that does not reach this server (nginx)", &point],
        ),
        (
            "301 Moved Permanently\r\nlocation: https://www.example.org/",
            &[
                "redirects to https://www.example.org/",
                "set OPENVIBE_PUBLIC_URL",
            ],
        ),
    ] {
        proxy.fail(Fault::Answers(answer));
        let result = checked(&ada).await;
        assert_found(&result, "public", "failed", parts);
        for name in THROUGH_PROXY {
            assert_found(&result, name, "skipped", &["does not lead to this server"]);
        }
    }
}

#[tokio::test]
async fn an_unknown_proxy_a_closed_port_and_a_missing_name_are_found() {
    let (mut app, ada, proxy) = behind_proxy().await;
    app.restart(&[("TRUSTED_PROXIES", "")]).await;
    proxy.forward_to(&app.base);
    let result = checked(&ada.at(&app.base)).await;
    let parts = [
        "127.0.0.1 is not trusted",
        "set OPENVIBE_TRUSTED_PROXIES=127.0.0.1",
    ];
    assert_found(&result, "proxy", "warning", &parts);
    let closed = format!("http://localhost:{}", own_port());
    app.restart(&[("PUBLIC_URL", &closed)]).await;
    let result = checked(&ada.at(&app.base)).await;
    assert_found(
        &result,
        "public",
        "failed",
        &["refuses connections", "start the proxy"],
    );
    app.restart(&[("PUBLIC_URL", "http://chat.invalid")]).await;
    let result = checked(&ada.at(&app.base)).await;
    assert_found(
        &result,
        "dns",
        "failed",
        &["chat.invalid has no address", "A or AAAA record"],
    );
    assert_found(&result, "public", "failed", &["cannot be reached"]);
    assert_found(
        &result,
        "https",
        "warning",
        &["not encrypted", "OPENVIBE_DOMAIN"],
    );
}

#[tokio::test]
async fn a_nonce_permits_one_request_within_a_minute() {
    let app = TestApp::start().await;
    let client = reqwest::Client::new();
    let get = |nonce: &str| {
        let url = format!("{}/v1/server/probe/{nonce}", app.base);
        let sent = client.get(url).header("host", "other.example").send();
        async { sent.await.unwrap() }
    };
    let nonce = probe::announce(app.db()).await.unwrap();
    let first = get(&nonce).await;
    assert_eq!(first.status(), StatusCode::OK);
    let echo: Value = first.json().await.unwrap();
    assert_eq!(
        (&echo["nonce"], &echo["host"]),
        (&nonce.clone().into(), &"other.example".into())
    );
    assert_eq!(get(&nonce).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(get(&"x".repeat(43)).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(get("short").await.status(), StatusCode::NOT_FOUND);
    let old = probe::announce(app.db()).await.unwrap();
    let before = now() - Duration::from_secs(1);
    let expire = async move |c: &mut Conn| {
        c.q("update probes set expires_at = $1")
            .bind(before)
            .run()
            .await?;
        Ok::<_, DbError>(())
    };
    app.db().write(Uuid::nil(), expire).await.unwrap();
    assert_eq!(get(&old).await.status(), StatusCode::NOT_FOUND);
    // A body without a nonce is not read.
    let url = format!("{}/v1/server/probe/{old}/upload", app.base);
    let sent = client.post(url).body(vec![0; 1 << 20]).send().await;
    assert!(sent.is_err() || sent.unwrap().status() == StatusCode::NOT_FOUND);
}
