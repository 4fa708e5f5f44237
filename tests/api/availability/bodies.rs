//! Request bodies that are announced but not sent.

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

/// Sends a request with only this part of its body.
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

/// Status and error code of the response.
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

/// A sign-in that fails, but is handled.
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
    // Any two get no turn in time; the others wait for the rest of their bodies.
    for _ in 0..2 {
        let refused = pending.next().await.unwrap();
        assert_eq!(refused, (503, "overloaded".to_owned()));
    }
    bystander.rounds(3).await;
    sign_in(&visitor(&app.base)).await;
    bystander.stop().await;
    // None of the four times out before the real limit of 10 s.
    for _ in 0..4 {
        let timed_out = pending.next().await.unwrap();
        assert_eq!(timed_out, (400, "body_too_slow".to_owned()));
    }
    sign_in(&visitor(&app.base).at_address([127, 0, 0, 2].into())).await;
}

#[tokio::test]
async fn requests_with_a_body_from_many_networks_share_their_turns_without_a_session() {
    let app = TestApp::bounded(&[("SIGNUP", "open")], |bounds| {
        bounds.bodies.anonymous_max = 5;
        bounds.bodies.handled_within = Duration::from_secs(2);
    })
    .await;
    let mut bystander = Bystander::start(&app.base).await;
    let mut pending = FuturesUnordered::new();
    for network in [2, 2, 2, 2, 3, 4] {
        let address = [127, 0, 0, network];
        let tcp = half_sent(&app.base, address, "/v1/auth/login", "", 100, b"{").await;
        pending.push(refusal(tcp));
    }
    let refused = pending.next().await.unwrap();
    assert_eq!(refused, (503, "overloaded".to_owned()));
    // People who are signed in do not wait for strangers.
    bystander.rounds(3).await;
    bystander.stop().await;
    drop(pending);
    sign_in(&visitor(&app.base)).await;
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
        // Time to read the rest before the response.
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
    // The same upload is accepted at full speed.
    ada.upload("a", &vec![b'x'; 256 * 1024]).await;
}
