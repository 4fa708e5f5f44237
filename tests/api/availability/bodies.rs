//! Request bodies that are announced by their length but not sent completely.

use std::{net::IpAddr, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use openvibe::http::bodies::UploadPace;

use super::{Bystander, connect_from};
use crate::support::{Person, TestApp, visitor, within};

/// Sends a request with only part of its announced body.
pub(super) async fn half_sent(
    base: &str,
    address: impl Into<IpAddr>,
    path: &str,
    headers: &str,
    promised: usize,
    sent: &[u8],
) -> TcpStream {
    let mut tcp = connect_from(base, address, None).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {}\r\norigin: {base}\r\n{headers}content-length: {promised}\r\n\r\n",
        base.trim_start_matches("http://")
    );
    // The server may reject the request and close the connection before everything is sent.
    if tcp.write_all(head.as_bytes()).await.is_ok() {
        drop(tcp.write_all(sent).await);
    }
    tcp
}

/// Reads the response; returns its status and error code.
pub(super) async fn refusal(mut tcp: impl AsyncRead + Unpin) -> (u16, String) {
    let mut text = Vec::new();
    let read = async {
        while !text.ends_with(b"}}") {
            match tcp.read_buf(&mut text).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
    };
    within("a refusal", read).await;
    let text = String::from_utf8_lossy(&text);
    let status = text.get(9..12).and_then(|status| status.parse().ok());
    let code = text
        .split_once("\"code\":\"")
        .and_then(|(_, rest)| rest.split('"').next());
    let found = status.zip(code.map(str::to_owned));
    found.unwrap_or_else(|| panic!("no refusal: {text:?}"))
}

const MIB: usize = 1024 * 1024;

#[tokio::test]
async fn bodies_with_an_invalid_session_are_rejected_unread() {
    let app = TestApp::with(&[("SIGNUP", "open")]).await;
    let mut bystander = Bystander::start(&app.base).await;
    let made_up = "cookie: openvibe_session=made-up\r\n";
    let mut refused = Vec::new();
    for n in 0..260_usize {
        let (path, headers) = match n % 3 {
            0 => ("/v1/workspaces", made_up),
            1 => ("/v1/workspaces", ""),
            _ => ("/v1/files", made_up),
        };
        let address = [127, 0, 0, 2 + u8::try_from(n % 4).unwrap()];
        let tcp = half_sent(&app.base, address, path, headers, MIB - 1, b"{").await;
        refused.push(refusal(tcp).await);
    }
    assert!(
        refused.iter().all(|refused| matches!(refused.0, 401 | 429)),
        "{refused:?}"
    );
    assert_eq!(refused[0], (401, "not_signed_in".to_owned()));
    bystander.rounds(3).await;
    bystander.stop().await;
}

/// A sign-in that the server handles, although the password is wrong.
async fn sign_in(who: &Person) {
    let form = json!({"email": "a@example.org", "password": "x"});
    who.post("/v1/auth/login", form).await.refused(401);
}

#[tokio::test]
async fn one_network_can_have_four_requests_with_a_body_in_work_without_a_session() {
    let app = TestApp::bounded(&[("SIGNUP", "open")], |bounds| {
        bounds.bodies.handled_within = Duration::from_secs(2);
    })
    .await;
    let mut bystander = Bystander::start(&app.base).await;
    let mut pending = FuturesUnordered::new();
    for _ in 0..6 {
        let tcp = half_sent(&app.base, [127, 0, 0, 2], "/v1/auth/login", "", 100, b"{").await;
        pending.push(refusal(tcp));
    }
    // Two of the six get no turn in time; the server waits for the bodies of the other four.
    for _ in 0..2 {
        let refused = pending.next().await.unwrap();
        assert_eq!(refused, (503, "overloaded".to_owned()));
    }
    bystander.rounds(3).await;
    sign_in(&visitor(&app.base)).await;
    bystander.stop().await;
    // The other four time out after the default limit of 10 s.
    for _ in 0..4 {
        let timed_out = pending.next().await.unwrap();
        assert_eq!(timed_out, (400, "body_too_slow".to_owned()));
    }
    sign_in(&visitor(&app.base).at_address([127, 0, 0, 2].into())).await;
}

#[tokio::test]
async fn half_sent_bodies_from_many_networks_do_not_block_sign_ins() {
    let app = TestApp::bounded(&[("SIGNUP", "open")], |bounds| {
        bounds.bodies.anonymous_max = 2;
    })
    .await;
    let mut bystander = Bystander::start(&app.base).await;
    let mut pending = Vec::new();
    for network in [2, 2, 2, 2, 3, 3, 3, 3, 4] {
        let address = [127, 0, 0, network];
        pending.push(half_sent(&app.base, address, "/v1/auth/login", "", 100, b"{").await);
    }
    sign_in(&visitor(&app.base)).await;
    bystander.rounds(3).await;
    bystander.stop().await;
    drop(pending);
}

#[tokio::test]
async fn requests_with_a_body_share_their_turns_without_a_session() {
    let app = TestApp::bounded(&[("SIGNUP", "open")], |bounds| {
        bounds.bodies.anonymous_max = 1;
        bounds.bodies.handled_within = Duration::ZERO;
    })
    .await;
    let mut bystander = Bystander::start(&app.base).await;
    let body = br#"{"email": "nobody@example.org", "password": "correct horse"}"#;
    let base = &app.base;
    let attempts = (2..14).map(|network| async move {
        let address = [127, 0, 0, network];
        let tcp = half_sent(base, address, "/v1/auth/login", "", body.len(), body).await;
        refusal(tcp).await
    });
    let refused = futures::future::join_all(attempts).await;
    assert!(
        refused.contains(&(503, "overloaded".to_owned())),
        "{refused:?}"
    );
    assert!(
        refused.iter().any(|(status, _)| *status == 401),
        "{refused:?}"
    );
    // Members do not wait for anonymous users.
    bystander.rounds(3).await;
    bystander.stop().await;
}

#[tokio::test]
async fn a_body_without_a_session_is_limited_to_a_small_size() {
    let app = TestApp::start().await;
    for path in ["/v1/auth/login", "/v1/auth/signup", "/v1/invites/x/accept"] {
        let body = vec![b'x'; 16 * 1024 + 1];
        let tcp = half_sent(&app.base, [127, 0, 0, 2], path, "", MIB, &body).await;
        assert_eq!(refusal(tcp).await, (413, "body_too_large".to_owned()));
    }
    let who = visitor(&app.base);
    let padded = format!(
        "{{\"email\": \"a@example.org\", {}\"password\": \"x\"}}",
        " ".repeat(15_000)
    );
    who.post_bytes("/v1/auth/login", padded).await.refused(401);
}

#[tokio::test]
async fn one_member_can_have_eight_mebibytes_of_bodies_in_flight() {
    let app = TestApp::with(&[("SIGNUP", "open")]).await;
    let mut bystander = Bystander::start(&app.base).await;
    let attacker = app.founder("Mallory").await;
    let cookie = format!("cookie: {}\r\n", attacker.cookie.clone().unwrap());
    let mut pending = FuturesUnordered::new();
    for _ in 0..9 {
        // The maximum body size minus one byte.
        let sent = vec![b' '; MIB - 1];
        let tcp = half_sent(
            &app.base,
            [127, 0, 0, 2],
            "/v1/workspaces",
            &cookie,
            MIB,
            &sent,
        );
        pending.push(refusal(tcp.await));
    }
    let refused = pending.next().await.unwrap();
    assert_eq!(refused, (503, "overloaded".to_owned()));
    bystander.rounds(3).await;
    bystander.stop().await;
}

#[tokio::test]
async fn a_body_that_does_not_arrive_in_time_is_aborted() {
    let app = TestApp::bounded(&[], |bounds| {
        bounds.bodies.member_within = Duration::from_millis(100);
        bounds.bodies.anonymous_within = Duration::from_millis(100);
    })
    .await;
    let ada = app.founder("Ada").await;
    let cookie = format!("cookie: {}\r\n", ada.cookie.clone().unwrap());
    for (path, headers) in [("/v1/workspaces", cookie.as_str()), ("/v1/auth/login", "")] {
        let tcp = half_sent(&app.base, [127, 0, 0, 2], path, headers, 100, b"{").await;
        assert_eq!(
            refusal(tcp).await,
            (400, "body_too_slow".to_owned()),
            "{path}"
        );
    }
}

#[tokio::test]
async fn an_upload_that_drips_is_rejected_as_too_slow() {
    let app = TestApp::bounded(&[], |bounds| {
        bounds.bodies.upload_pace = UploadPace(Duration::from_millis(200));
        // Time limit for reading the rest of the body before the response.
        bounds.bodies.member_within = Duration::from_millis(100);
    })
    .await;
    let ada = app.founder("Ada").await;
    let headers = format!(
        "cookie: {}\r\nx-workspace-id: {}\r\ncontent-type: multipart/form-data; boundary=b\r\n",
        ada.cookie.clone().unwrap(),
        ada.workspace
    );
    let begin = b"--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n";
    let tcp = half_sent(&app.base, [127, 0, 0, 2], "/v1/files", &headers, MIB, begin).await;
    let (mut response, mut request) = tcp.into_split();
    let drip = async {
        // Ends when the server closes the connection.
        while request.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let (refused, ()) = tokio::join!(refusal(&mut response), within("the end", drip));
    assert_eq!(refused, (400, "upload_too_slow".to_owned()));
    // Without a delay, the same upload is accepted.
    ada.upload("a", &vec![b'x'; 256 * 1024]).await;
}
