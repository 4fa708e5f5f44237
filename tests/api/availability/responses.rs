//! Responses that clients do not read.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, routing::get};
use futures::future::join_all;
use openvibe::http::serve::{Bounds, serve};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{Bystander, connect_from};
use crate::support::{
    ModelServer, Person, TestApp, TestDatabase, TestProcess, id, sign_up, within,
};

const MESSAGE_BYTES: usize = 32 * 1024;
const HOUR: Duration = Duration::from_hours(1);

/// Creates a page with this many large messages; returns its path.
async fn large_page(person: &Person, messages: usize) -> String {
    let general = id(&person.channel("general").await);
    let thread = person.thread(&general, "Root").await;
    let content = "x".repeat(MESSAGE_BYTES);
    for _ in 0..messages {
        person.say(&thread, &content).await;
    }
    format!("/v1/threads/{thread}/messages?limit=100")
}

/// Sends a request and reads only the status of its response; returns the connection and the status.
async fn asked(person: &Person, path: &str) -> (TcpStream, u16) {
    let mut tcp = connect_from(&person.base, [127, 0, 0, 2], Some(4096))
        .await
        .unwrap();
    let host = person.base.trim_start_matches("http://");
    let cookie = person.cookie.clone().unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\n\r\n");
    tcp.write_all(request.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    let read = within("a status", tcp.read_exact(&mut status)).await;
    read.unwrap();
    let status = std::str::from_utf8(&status[9..]).unwrap().parse().unwrap();
    (tcp, status)
}

#[tokio::test]
async fn unread_responses_are_limited_to_the_users_share_of_memory() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let server = TestProcess::start(
        &place,
        &model,
        &[("SIGNUP", "open"), ("RATE_LIMITS", "off")],
    )
    .await;
    let mut bystander = Bystander::start(&server.base).await;
    let mut attacker = sign_up(&server.base, "Mallory", None).await;
    let workspace = attacker
        .post("/v1/workspaces", json!({"name": "Attack"}))
        .await
        .is(201);
    attacker.enter(&id(&workspace)).await;
    let page = large_page(&attacker, 100).await;
    // Fills the database's caches first, so that they do not count.
    attacker.get(&page).await.is(200);
    let before = server.resident_bytes();
    let (mut held, mut refused) = (Vec::new(), 0);
    for _ in 0..40 {
        match asked(&attacker, &page).await {
            (tcp, 200) => held.push(tcp),
            (_, 503) => refused += 1,
            (_, status) => panic!("{status}"),
        }
    }
    // Each page is 6.6 MB. On a slow machine, the server may meanwhile disconnect the first clients, which makes room for more, but
    // some requests must be rejected.
    assert!(refused > 0, "{} responses", held.len());
    let more = server.resident_bytes().saturating_sub(before);
    assert!(more < 160 * 1024 * 1024, "{more} bytes more");
    bystander.rounds(3).await;
    // Changes and small responses still work.
    attacker
        .post("/v1/workspaces", json!({"name": "Other"}))
        .await
        .is(201);
    bystander.stop().await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_disconnected() {
    let app = TestApp::bounded(&[("SIGNUP", "open"), ("RATE_LIMITS", "off")], |bounds| {
        bounds.deadlines.stalled_within = Duration::from_millis(200);
    })
    .await;
    let mut bystander = Bystander::start(&app.base).await;
    let attacker = app.founder("Mallory").await;
    let page = large_page(&attacker, 100).await;
    let opened = join_all((0..4).map(|_| asked(&attacker, &page))).await;
    // A round takes at least 100 ms, so the stall limit is exceeded several times before the client reads.
    bystander.rounds(10).await;
    for (mut tcp, status) in opened {
        assert_eq!(status, 200);
        let mut read = Vec::new();
        // A connection reset also counts as the end.
        let ended = within("the end of the connection", tcp.read_to_end(&mut read)).await;
        assert!(
            ended.is_err() || read.len() < 100 * MESSAGE_BYTES,
            "{} bytes",
            read.len()
        );
        tcp.shutdown().await.ok();
    }
    bystander.stop().await;
}

#[tokio::test]
async fn a_client_that_reads_byte_by_byte_is_disconnected() {
    let app = TestApp::bounded(&[("RATE_LIMITS", "off")], |bounds| {
        bounds.deadlines.stalled_within = HOUR;
        bounds.deadlines.sent_within = Duration::from_millis(300);
        bounds.deadlines.bytes_per_second = u64::MAX;
    })
    .await;
    let attacker = app.founder("Mallory").await;
    let page = large_page(&attacker, 100).await;
    let (mut tcp, status) = asked(&attacker, &page).await;
    assert_eq!(status, 200);
    let mut pace = tokio::time::interval(Duration::from_millis(5));
    let mut piece = [0; 4096];
    let mut read = 0;
    let drip = async {
        loop {
            pace.tick().await;
            match tcp.read(&mut piece).await {
                Ok(0) | Err(_) => break,
                Ok(n) => read += n,
            }
        }
    };
    within("the end of the connection", drip).await;
    assert!(read < 100 * MESSAGE_BYTES, "{read} bytes");
}

#[tokio::test]
async fn a_user_whose_share_is_used_up_cannot_read_until_responses_are_released() {
    let app = TestApp::bounded(&[("SIGNUP", "open"), ("RATE_LIMITS", "off")], |bounds| {
        bounds.deadlines.stalled_within = HOUR;
        // Enough for one page with 64 messages, each of which contains its text twice, but not for two pages.
        bounds.unsent.share = 6 * 1024 * 1024;
    })
    .await;
    let mut bystander = Bystander::start(&app.base).await;
    let attacker = app.founder("Mallory").await;
    let page = large_page(&attacker, 64).await;
    let whole = attacker.get(&page).await;
    assert!(
        whole.text.len() > 64 * MESSAGE_BYTES,
        "{}",
        whole.text.len()
    );
    whole.is(200);
    let (held, status) = asked(&attacker, &page).await;
    assert_eq!(status, 200);
    let refused = attacker.get(&page).await;
    assert!(refused.header("retry-after").is_some());
    assert_eq!(refused.refused(503), "overloaded");
    attacker.get("/v1/auth/me").await.is(200);
    bystander.rounds(2).await;
    drop(held);
    within("the share to be free", async {
        while attacker.get(&page).await.status != 200 {
            crate::support::pause().await;
        }
    })
    .await;
    bystander.stop().await;
}

#[tokio::test]
async fn a_large_response_to_a_post_that_only_reads_is_refused_and_one_to_a_change_is_not() {
    let app = TestApp::bounded(&[], |bounds| {
        bounds.unsent.share = 128 * 1024;
    })
    .await;
    let ada = app.founder("Ada").await;
    let large = "x".repeat(200 * 1024);
    let file = json!({"agent_id": "main", "path": "notes.md", "content": large});
    ada.post("/v1/rpc/agents.files.set", file).await.is(200);
    let file = json!({"agent_id": "main", "path": "notes.md"});
    let refused = ada.post("/v1/rpc/agents.files.get", file).await;
    assert_eq!(refused.refused(503), "overloaded");
    let draft = json!({"agent": {"name": "draft", "instructions": large}});
    let refused = ada.post("/v1/agents/preview", draft).await;
    assert_eq!(refused.refused(503), "overloaded");
    let soul = json!({"soul": large});
    ada.post("/v1/rpc/agent.identity.update_soul", soul)
        .await
        .is(200);
}

#[tokio::test]
async fn the_time_to_make_a_response_is_not_taken_from_the_time_to_read_it() {
    const PIECE_BYTES: usize = 16 * 1024 * 1024;
    let mut bounds = Bounds::new(8);
    bounds.deadlines.sent_within = Duration::from_millis(500);
    bounds.deadlines.bytes_per_second = u64::MAX;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let handler = async || {
        let late = futures::stream::once(async {
            // Longer than the time in which a client must read the response.
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok::<_, std::io::Error>(vec![b'x'; PIECE_BYTES])
        });
        axum::body::Body::from_stream(late)
    };
    let router = Router::new().route("/", get(handler));
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        serve(listener, router, &bounds, CancellationToken::new()).await;
    });
    // Fails if another test has already installed the provider.
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let read = within("the response", client.get(base).send()).await;
    let body = within("the body", read.unwrap().bytes()).await;
    assert_eq!(body.unwrap().len(), PIECE_BYTES);
}

#[tokio::test]
async fn a_pipelined_request_waits_until_the_previous_response_is_sent() {
    // Larger than all buffers of the two sockets.
    const BODY_BYTES: usize = 64 * 1024 * 1024;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let client_read = Arc::new(AtomicUsize::new(0));
    let (begun, mut requests) = mpsc::channel(2);
    let body = axum::body::Bytes::from(vec![b'x'; BODY_BYTES]);
    let handler = {
        let client_read = Arc::clone(&client_read);
        async move || {
            begun.try_send(client_read.load(Ordering::Relaxed)).unwrap();
            body.clone()
        }
    };
    let router = Router::new().route("/", get(handler));
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        serve(listener, router, &Bounds::new(8), CancellationToken::new()).await;
    });
    let mut tcp = connect_from(&base, [127, 0, 0, 2], Some(4096))
        .await
        .unwrap();
    let request = "GET / HTTP/1.1\r\nhost: here\r\n\r\n";
    tcp.write_all(request.repeat(2).as_bytes()).await.unwrap();
    let mut piece = vec![0; 64 * 1024];
    let mut read_at_begin = Vec::new();
    within("both requests to begin", async {
        while read_at_begin.len() < 2 {
            tokio::select! {
                read = requests.recv() => read_at_begin.push(read.unwrap()),
                n = tcp.read(&mut piece) => {
                    client_read.fetch_add(n.unwrap(), Ordering::Relaxed);
                }
            }
        }
    })
    .await;
    assert!(read_at_begin[1] > BODY_BYTES / 2, "{read_at_begin:?}");
}
