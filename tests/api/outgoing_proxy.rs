//! Connections through the proxy of the operator (`OPENVIBE_PROXY`).

use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use crate::support::{ModelServer, TestDatabase, TestProcess, command, id, refusal, sign_up};

/// A proxy that refuses all connections.
struct RefusingProxy {
    url: String,
    /// First lines of the requests.
    requests: Arc<Mutex<Vec<String>>>,
    _serving: JoinSet<()>,
}

async fn refuse(mut tcp: TcpStream, requests: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tcp.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    let first = head.lines().next().unwrap_or_default().to_owned();
    requests.lock().unwrap().push(first);
    let answer = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    tcp.write_all(answer).await
}

impl RefusingProxy {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&requests);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                // The end of a connection is no failure of the test.
                drop(refuse(tcp, &shared).await);
            }
        });
        Self {
            url,
            requests,
            _serving: serving,
        }
    }

    /// Checks whether a connection to this host and port was requested.
    fn was_asked_for(&self, target: &str) -> bool {
        let requests = self.requests.lock().unwrap();
        let line = format!("CONNECT {target} HTTP/1.1");
        requests.contains(&line)
    }
}

// A command waits for the proxy, which runs in this process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn public_names_are_reached_through_the_proxy_of_the_operator() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let proxy = RefusingProxy::start().await;
    let settings = [("PROXY", proxy.url.as_str()), ("NO_PROXY", "corp.invalid")];
    let server = TestProcess::start(&place, &model, &settings).await;
    let mut ada = sign_up(&server.base, "Ada", None).await;
    let workspace = ada.post("/v1/workspaces", json!({"name": "Works"})).await;
    ada.enter(&id(&workspace.is(201))).await;
    for (name, host) in [("jira", "tools.example.org"), ("wiki", "wiki.corp.invalid")] {
        let url = format!("https://{host}/mcp");
        let form = json!({"kind": "mcp", "name": name, "config": {"url": url}});
        let made = ada.post("/v1/tools", form).await.is(201);
        let refresh = format!("/v1/tools/{}/refresh", id(&made));
        ada.post(&refresh, json!({})).await;
    }
    assert!(proxy.was_asked_for("tools.example.org:443"));
    assert!(!proxy.was_asked_for("wiki.corp.invalid:443"));
    // An address without encryption is refused, although it was not resolved.
    let form =
        json!({"kind": "mcp", "name": "plain", "config": {"url": "http://plain.example.org/mcp"}});
    ada.post("/v1/tools", form).await.refused(422);
    let output = command(&place, &model, &settings)
        .args([
            "update",
            "--check",
            "--from",
            "https://releases.example.org",
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(proxy.was_asked_for("releases.example.org:443"));
}

#[tokio::test]
async fn a_proxy_of_another_kind_is_refused() {
    let (place, model) = (TestDatabase::on_disk(), ModelServer::start().await);
    let said = refusal(&command(
        &place,
        &model,
        &[("PROXY", "socks5://ada:secret@proxy.example.org")],
    ));
    assert!(
        said.contains("OPENVIBE_PROXY") && said.contains("http://proxy.example.org:3128"),
        "{said}"
    );
    assert!(!said.contains("secret"), "{said}");
}
