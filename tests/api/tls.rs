//! HTTPS without a proxy.

use std::time::Duration;

use reqwest::StatusCode;
use tokio::{io::AsyncReadExt, net::TcpStream};

use crate::support::{
    ModelServer, OrderRefusal, Pebble, RefusingAuthority, SECRET_KEY, TestDatabase, TestProcess,
    command, https_client, is_shared_engine, own_port, refusal, within,
};

const NAME: &str = "chat.example.org";

async fn start(place: &TestDatabase, settings: &[(&str, String)]) -> Result<TestProcess, String> {
    let model = ModelServer::start().await;
    let settings: Vec<_> = settings.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let started = TestProcess::try_start(place, &model, &settings).await;
    started.map_err(|status| format!("ended with {status}"))
}

/// Waits until the server answers over HTTPS, and returns its response to `path`.
async fn served(client: &reqwest::Client, url: &str) -> reqwest::Response {
    let served = async {
        loop {
            if let Ok(response) = client.get(url).send().await {
                return response;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    within("the server to have a certificate", served).await
}

/// Output of `openvibe doctor` beside the running server.
async fn doctor(place: &TestDatabase, settings: &[(&str, String)]) -> String {
    let model = ModelServer::start().await;
    let settings: Vec<_> = settings.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let mut command = command(place, &model, &settings);
    command.arg("doctor");
    let output = openvibe::blocking::blocking((), move || command.output().unwrap());
    String::from_utf8(output.await.unwrap().stdout).unwrap()
}

/// Waits until an order has failed, and returns the page that names the cause.
async fn failed(http_port: u16) -> String {
    // Fails only if a provider was already installed in this process.
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let page = async {
        loop {
            let page = client.get(format!("http://127.0.0.1:{http_port}/"));
            if let Ok(page) = page.send().await {
                assert_eq!(page.status(), StatusCode::SERVICE_UNAVAILABLE);
                let text = page.text().await.unwrap();
                assert!(
                    text.contains("OpenVibe is waiting for its certificate"),
                    "{text}"
                );
                if text.contains("Next attempt") {
                    return text;
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    within("the first order to fail", page).await
}

/// Certificate of the server's side of the connection on which a response came.
fn certificate_of(response: &reqwest::Response) -> Vec<u8> {
    let info = response.extensions().get::<reqwest::tls::TlsInfo>();
    let certificate = info.and_then(reqwest::tls::TlsInfo::peer_certificate);
    certificate.unwrap().to_vec()
}

#[tokio::test]
async fn a_renewal_closes_no_connection() {
    let (place, pebble) = (TestDatabase::new().await, Pebble::start().await);
    let _server = start(&place, &pebble.settings(NAME)).await.unwrap();
    let url = format!("https://{NAME}:{}/healthz", pebble.https_port);
    let kept = pebble.client(NAME).await;
    let response = served(&kept, &url).await;
    let first = certificate_of(&response);
    // The connection can be used again once its response was read.
    response.bytes().await.unwrap();
    // Between the writes of the server.
    place
        .run(&["update certificates set renew_at = '2020-01-01T00:00:00+00:00'"])
        .await;
    let renewed = async {
        loop {
            let fresh = pebble.client(NAME).await;
            if certificate_of(&served(&fresh, &url).await) != first {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    within("the certificate to be renewed", renewed).await;
    assert_eq!(pebble.issued(), 2);
    let again = kept.get(&url).send().await.unwrap();
    assert_eq!(again.status(), StatusCode::OK);
    assert_eq!(certificate_of(&again), first, "the connection was closed");
}

#[tokio::test]
async fn nodes_share_a_certificate_and_its_renewal() {
    if !is_shared_engine() {
        return;
    }
    let (place, pebble) = (TestDatabase::new().await, Pebble::start().await);
    let _first = start(&place, &pebble.settings(NAME)).await.unwrap();
    let url = |port: u16| format!("https://{NAME}:{port}/healthz");
    let client = pebble.client(NAME).await;
    let shared = certificate_of(&served(&client, &url(pebble.https_port)).await);
    let https = own_port();
    let mut settings = pebble.settings(NAME);
    settings[1].1 = format!("127.0.0.1:{https}");
    settings[2].1 = format!("127.0.0.1:{}", own_port());
    let data = place.dir.join("data-second").display().to_string();
    settings.extend([("DATA_DIR", data), ("NODE_NAME", "second".to_owned())]);
    let _second = start(&place, &settings).await.unwrap();
    let of_second = certificate_of(&served(&client, &url(https)).await);
    assert!(
        of_second == shared,
        "the second node has another certificate"
    );
    place
        .run(&["update certificates set renew_at = '2020-01-01T00:00:00+00:00'"])
        .await;
    let mut renewed = Vec::new();
    for port in [pebble.https_port, https] {
        let loaded = async {
            loop {
                let fresh = pebble.client(NAME).await;
                let found = certificate_of(&served(&fresh, &url(port)).await);
                if found != shared {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        renewed.push(within("a node to load the new certificate", loaded).await);
    }
    assert!(renewed[0] == renewed[1], "each node renewed for itself");
    assert_eq!(pebble.issued(), 2);
}

#[tokio::test]
async fn a_closed_port_443_leaves_the_other_challenge() {
    let (place, pebble) = (TestDatabase::new().await, Pebble::start().await);
    let mut settings = pebble.settings(NAME);
    // The authority connects to a port on which nobody listens.
    let elsewhere = own_port();
    settings[1].1 = format!("127.0.0.1:{elsewhere}");
    let server = start(&place, &settings).await.unwrap();
    failed(pebble.http_port).await;
    server.terminate();
    assert!(server.exited().await.success());
    place
        .run(&["update certificates set next_attempt_at = null"])
        .await;
    let _server = start(&place, &settings).await.unwrap();
    let url = format!("https://{NAME}:{elsewhere}/healthz");
    served(&pebble.client(NAME).await, &url).await;
    assert_eq!(pebble.issued(), 1);
}

#[tokio::test]
async fn each_refusal_of_an_authority_is_told_with_what_to_do() {
    for (status, kind, retry_after_s, part) in [
        (
            429,
            "rateLimited",
            Some(7_200),
            "localhost accepts no more orders for chat.example.org until",
        ),
        (
            403,
            "caa",
            None,
            "the CAA record of chat.example.org does not permit localhost",
        ),
        (
            400,
            "dns",
            None,
            "localhost could not find chat.example.org",
        ),
        (
            403,
            "unauthorized",
            None,
            "localhost reached another server at chat.example.org, port 443",
        ),
        (
            500,
            "serverInternal",
            None,
            "localhost refused the order: because of a test.",
        ),
    ] {
        let place = TestDatabase::new().await;
        let authority = RefusingAuthority::start(OrderRefusal {
            status,
            kind,
            retry_after_s,
            bad_nonces: 3,
        })
        .await;
        let (https, http) = (own_port(), own_port());
        let mut settings = authority.settings();
        settings.extend([
            ("DOMAIN", NAME.to_owned()),
            ("LISTEN", format!("127.0.0.1:{https}")),
            ("HTTP_LISTEN", format!("127.0.0.1:{http}")),
            ("SECRET_KEY", SECRET_KEY.to_owned()),
        ]);
        let server = start(&place, &settings).await.unwrap();
        let text = failed(http).await;
        assert!(text.contains(part), "{kind}: {text}");
        if kind == "caa" {
            let said = doctor(&place, &settings).await;
            assert!(said.contains(&format!("failed  https: {part}")), "{said}");
        }
        // Rejected nonces are no failures, and no order follows the refused one.
        assert_eq!(authority.orders(), 4, "{kind}");
        server.kill().await;
    }
}

#[tokio::test]
async fn a_quiet_copy_orders_no_certificate() {
    let place = TestDatabase::new().await;
    let authority = RefusingAuthority::start(OrderRefusal {
        status: 403,
        kind: "caa",
        retry_after_s: None,
        bad_nonces: 0,
    })
    .await;
    let (https, http) = (own_port(), own_port());
    let mut settings = authority.settings();
    settings.extend([
        ("DOMAIN", NAME.to_owned()),
        ("LISTEN", format!("127.0.0.1:{https}")),
        ("HTTP_LISTEN", format!("127.0.0.1:{http}")),
        ("SECRET_KEY", SECRET_KEY.to_owned()),
        ("QUIET", "on".to_owned()),
    ]);
    let quiet = start(&place, &settings).await.unwrap();
    quiet.terminate();
    assert!(quiet.exited().await.success());
    assert_eq!(authority.orders(), 0);
    settings.pop();
    let _server = start(&place, &settings).await.unwrap();
    failed(http).await;
    assert_eq!(authority.orders(), 1);
}

#[tokio::test]
async fn a_server_gets_its_certificate_by_itself() {
    let (place, pebble) = (TestDatabase::new().await, Pebble::start().await);
    let server = start(&place, &pebble.settings(NAME)).await.unwrap();
    assert_eq!(
        server.base,
        format!("https://127.0.0.1:{}", pebble.https_port)
    );
    let client = pebble.client(NAME).await;
    let url = format!("https://{NAME}:{}", pebble.https_port);
    let page = served(&client, &url).await;
    assert_eq!(page.status(), StatusCode::OK);
    assert_eq!(
        page.headers()["strict-transport-security"],
        "max-age=2592000"
    );
    // Plain HTTP leads to the public name, whatever host was asked for.
    let plain = client.get(format!("http://127.0.0.1:{}/c/ops?x=1", pebble.http_port));
    let plain = plain.header("host", "evil.example").send().await.unwrap();
    assert_eq!(plain.status(), StatusCode::PERMANENT_REDIRECT);
    assert_eq!(plain.headers()["location"], format!("{url}/c/ops?x=1"));
    let probe = client.get(format!("http://127.0.0.1:{}/healthz", pebble.http_port));
    assert_eq!(probe.send().await.unwrap().status(), StatusCode::OK);
    // A name that the certificate does not have is refused in the handshake.
    let other = pebble.client("other.example.org").await;
    let refused = other.get(format!("https://other.example.org:{}", pebble.https_port));
    assert!(refused.send().await.is_err());
    // The certificate survives a restart, which orders no other.
    server.terminate();
    assert!(server.exited().await.success());
    let _again = start(&place, &pebble.settings(NAME)).await.unwrap();
    served(&client, &url).await;
    assert_eq!(pebble.issued(), 1);
}

#[tokio::test]
async fn an_order_that_a_crash_interrupts_is_completed_with_the_same_key() {
    for failpoint in ["acme_ordered", "acme_issued"] {
        let (place, pebble) = (TestDatabase::new().await, Pebble::start().await);
        let mut settings = pebble.settings(NAME);
        settings.push(("FAILPOINT", failpoint.to_owned()));
        if let Ok(server) = start(&place, &settings).await {
            assert!(!server.exited().await.success());
        }
        settings.pop();
        let _server = start(&place, &settings).await.unwrap();
        let url = format!("https://{NAME}:{}/healthz", pebble.https_port);
        served(&pebble.client(NAME).await, &url).await;
        assert_eq!(pebble.issued(), 1, "{failpoint}");
    }
}

#[tokio::test]
async fn an_external_account_is_bound_to_the_order() {
    let (place, pebble) = (
        TestDatabase::new().await,
        Pebble::requiring_account(true).await,
    );
    let mut settings = pebble.settings(NAME);
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    settings.push(("ACME_EAB", format!("kid-1:{key}")));
    settings.push(("ACME_EMAIL", "ops@example.org".to_owned()));
    let _server = start(&place, &settings).await.unwrap();
    let url = format!("https://{NAME}:{}/healthz", pebble.https_port);
    served(&pebble.client(NAME).await, &url).await;
}

#[tokio::test]
async fn a_server_without_a_certificate_says_what_it_waits_for() {
    let (place, pebble) = (TestDatabase::new().await, Pebble::start().await);
    let mut settings = pebble.settings(NAME);
    // The authority connects to a port on which nobody listens.
    let elsewhere = own_port();
    settings[1].1 = format!("127.0.0.1:{elsewhere}");
    let _server = start(&place, &settings).await.unwrap();
    let client = pebble.client(NAME).await;
    let text = failed(pebble.http_port).await;
    assert!(
        text.contains("localhost could not connect to chat.example.org, port 443"),
        "{text}"
    );
    // Handshakes are closed at once, because there is nothing to show.
    let refused = client
        .get(format!("https://{NAME}:{elsewhere}/"))
        .send()
        .await;
    assert!(refused.is_err());
}

#[tokio::test]
async fn own_files_are_served_and_read_again_after_a_signal() {
    let place = TestDatabase::new().await;
    let (https, http) = (own_port(), own_port());
    let made = |name: &str| rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let write = |name: &str| {
        let made = made(name);
        std::fs::write(place.dir.join("chain.pem"), made.cert.pem()).unwrap();
        std::fs::write(place.dir.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        https_client(made.cert.pem().as_bytes(), name, https)
    };
    let first = write(NAME);
    let settings = [
        (
            "TLS_CERT",
            place.dir.join("chain.pem").display().to_string(),
        ),
        ("TLS_KEY", place.dir.join("key.pem").display().to_string()),
        ("LISTEN", format!("127.0.0.1:{https}")),
        ("HTTP_LISTEN", format!("127.0.0.1:{http}")),
    ];
    let server = start(&place, &settings).await.unwrap();
    let page = served(&first, &format!("https://{NAME}:{https}/healthz")).await;
    // Clients cannot verify a certificate that has signed itself.
    let header = page.headers().get("strict-transport-security");
    assert_eq!(header, None);
    // Silent clients do not keep others from their handshake.
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(("127.0.0.1", https)).await.unwrap());
    }
    let second = write("new.example.org");
    server.signal("HUP");
    served(&second, &format!("https://new.example.org:{https}/healthz")).await;
    // Plain HTTP on the port for HTTPS is no handshake.
    let mut plain = TcpStream::connect(("127.0.0.1", https)).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut plain, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    drop(plain.read_to_end(&mut answer).await);
    assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
}

#[tokio::test]
async fn contradicting_settings_are_refused_in_words() {
    let (place, model) = (TestDatabase::new().await, ModelServer::start().await);
    let said = |settings: &[(&str, &str)]| refusal(&command(&place, &model, settings));
    let both = said(&[("TLS_CERT", "chain.pem")]);
    assert!(
        both.ends_with("belong together: set both, or OPENVIBE_DOMAIN alone"),
        "{both}"
    );
    let absent = said(&[
        ("TLS_CERT", "absent.pem"),
        ("TLS_KEY", "absent.pem"),
        ("LISTEN", "127.0.0.1:0"),
        ("HTTP_LISTEN", "127.0.0.1:0"),
    ]);
    assert!(
        absent.contains("OPENVIBE_TLS_CERT: absent.pem: ")
            && absent.matches("No such file").count() == 1,
        "{absent}"
    );
    let name = said(&[("DOMAIN", "https://chat.example.org")]);
    assert!(
        name.contains("is not a name such as chat.example.org"),
        "{name}"
    );
    let database = ("DATABASE_URL", "postgres://db.invalid/openvibe");
    let secret = said(&[("DOMAIN", "chat.example.org"), database]);
    assert!(
        secret.starts_with("openvibe: OPENVIBE_DOMAIN needs OPENVIBE_SECRET_KEY"),
        "{secret}"
    );
    let file = said(&[("CA_FILE", "absent.pem")]);
    assert!(file.contains("OPENVIBE_CA_FILE: absent.pem: "), "{file}");
}
