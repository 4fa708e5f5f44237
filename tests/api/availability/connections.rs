//! Many connections from one address, and requests with an unknown host name.

use std::net::IpAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{Bystander, connect_from};
use crate::support::{TestApp, team, visitor, within};

/// A quarter of the limit of 40 connections.
const SHARE: usize = 10;
const SETTINGS: [(&str, &str); 2] = [("SIGNUP", "open"), ("CONNECTIONS_MAX", "40")];

/// Opens a connection and reads the beginning of its first response; returns `None` if the server closed it instead.
async fn served(base: &str, address: [u8; 4]) -> Option<TcpStream> {
    let mut tcp = connect_from(base, address, None).await.unwrap();
    let request = format!(
        "GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n",
        base.trim_start_matches("http://")
    );
    // The server may have already closed the connection.
    tcp.write_all(request.as_bytes()).await.ok()?;
    let mut first = [0; 12];
    let read = within("a response or the end", tcp.read_exact(&mut first)).await;
    read.is_ok().then_some(tcp)
}

#[tokio::test]
async fn one_address_can_hold_a_quarter_of_the_connections() {
    let app = TestApp::with(&SETTINGS).await;
    let mut bystander = Bystander::start(&app.base).await;
    let attacker = [127, 0, 0, 2];
    let mut held = Vec::new();
    for _ in 0..40 {
        held.extend(served(&app.base, attacker).await);
    }
    assert_eq!(held.len(), SHARE);
    bystander.rounds(3).await;
    drop(held);
    within("a place to be free", async {
        while served(&app.base, attacker).await.is_none() {
            crate::support::pause().await;
        }
    })
    .await;
    bystander.stop().await;
}

#[tokio::test]
async fn pipelined_requests_without_reads_do_not_block_others() {
    let app = TestApp::with(&SETTINGS).await;
    let mut bystander = Bystander::start(&app.base).await;
    let host = app.base.trim_start_matches("http://");
    let requests = format!("GET /openapi.json HTTP/1.1\r\nhost: {host}\r\n\r\n").repeat(20);
    let mut held = Vec::new();
    for n in 0..50 {
        let address: IpAddr = [127, 0, 0, 2 + n % 3].into();
        let mut tcp = connect_from(&app.base, address, Some(4096)).await.unwrap();
        // The server has already closed the connections that exceed the share.
        drop(tcp.write_all(requests.as_bytes()).await);
        held.push(tcp);
    }
    bystander.rounds(5).await;
    bystander.stop().await;
}

#[tokio::test]
async fn a_trusted_proxy_can_use_all_connections() {
    let settings = [SETTINGS[1], ("TRUSTED_PROXIES", "127.0.0.3")];
    let app = TestApp::with(&settings).await;
    let mut held = Vec::new();
    for _ in 0..2 * SHARE {
        let tcp = served(&app.base, [127, 0, 0, 3]).await;
        held.push(tcp.expect("a connection for each client of the proxy"));
    }
}

#[tokio::test]
async fn a_loopback_server_accepts_only_its_own_host_names() {
    let settings = [("PUBLIC_URL", "https://chat.example")];
    let app = TestApp::with(&settings).await;
    let who = visitor(&app.base);
    let get = async |path: &'static str, host: &'static str| {
        let headers = [("host", host)];
        who.send(reqwest::Method::GET, path, &headers, None).await
    };
    for path in ["/", "/v1/auth/setup", "/openapi.json"] {
        let refused = get(path, "evil.example").await;
        assert_eq!(refused.refused(400), "unknown_host", "{path}");
        for host in ["localhost:1", "[::1]"] {
            assert_eq!(get(path, host).await.status, 200, "{path} of {host}");
        }
    }
    assert_eq!(
        get("/metrics", "evil.example").await.refused(400),
        "unknown_host"
    );
    for path in ["/", "/v1/auth/setup", "/openapi.json"] {
        assert_eq!(get(path, "chat.example").await.status, 200, "{path}");
    }
    // A proxy may send any name, so all requests may come from one.
    for host in ["chat.example", "localhost:1"] {
        assert_eq!(get("/metrics", host).await.refused(403), "metrics_closed");
    }
    for path in ["/healthz", "/readyz"] {
        get(path, "evil.example").await.is(200);
    }
    let form =
        serde_json::json!({"email": "eve@example.org", "password": "correct horse", "name": "Eve"});
    let headers = [("host", "evil.example"), ("sec-fetch-site", "same-origin")];
    let mut page = who.clone();
    page.origin = None;
    let body = form.to_string().into_bytes();
    let signed_up = page
        .send(
            reqwest::Method::POST,
            "/v1/auth/signup",
            &headers,
            Some(body),
        )
        .await;
    assert_eq!(signed_up.refused(400), "unknown_host");
}

#[tokio::test]
async fn a_client_cannot_choose_its_address_behind_a_proxy() {
    let t = crate::support::team_with(&[("TRUSTED_PROXIES", "127.0.0.1")]).await;
    let nobody = visitor(&t.app.base);
    let mut refused = 0;
    for n in 0..400 {
        // The client sends the first header; HAProxy adds the second.
        let forged = format!("198.51.100.{}", n % 250);
        let headers = [
            ("x-forwarded-for", forged.as_str()),
            ("x-forwarded-for", "203.0.113.7:4711"),
        ];
        let setup = nobody.send(reqwest::Method::GET, "/v1/auth/setup", &headers, None);
        refused += usize::from(setup.await.status == 429);
        if refused > 0 {
            break;
        }
    }
    assert!(refused > 0, "the forged address counted");
    let neighbor = [("x-forwarded-for", "203.0.113.8:4711")];
    nobody
        .send(reqwest::Method::GET, "/v1/auth/setup", &neighbor, None)
        .await
        .is(200);
}

#[tokio::test]
async fn json_is_compressed_for_clients_that_accept_it() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, &"Long text. ".repeat(200)).await;
    let path = format!("/v1/threads/{thread}/messages");
    let get = |path: String, accepted: &'static str| {
        let url = format!("{}{path}", t.app.base);
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut request = client.get(url).header("accept-encoding", accepted);
        for (name, value) in t.ada.credentials() {
            request = request.header(name, value);
        }
        async move {
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), 200);
            let headers = response.headers().clone();
            (headers, response.bytes().await.unwrap())
        }
    };
    // The second request for the messages is answered from the cache.
    for path in [path.clone(), path, "/openapi.json".to_owned()] {
        let (plain_headers, plain) = get(path.clone(), "br, gzip;q=0").await;
        assert!(plain_headers.get("content-encoding").is_none());
        assert_eq!(plain_headers["vary"], "accept-encoding");
        let (headers, packed) = get(path.clone(), "gzip, br").await;
        assert_eq!(headers["content-encoding"], "gzip");
        assert_eq!(headers["vary"], "accept-encoding");
        assert_eq!(headers["content-length"], packed.len().to_string().as_str());
        assert_eq!(headers["content-type"], plain_headers["content-type"]);
        assert!(packed.len() * 3 < plain.len(), "{}", packed.len());
        let mut unpacked = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(&packed[..]);
        std::io::Read::read_to_end(&mut decoder, &mut unpacked).unwrap();
        assert!(unpacked == plain, "{path} differs");
    }
    // Small responses are not compressed.
    let (headers, _) = get("/v1/auth/me".to_owned(), "gzip").await;
    assert!(headers.get("content-encoding").is_none());
}
