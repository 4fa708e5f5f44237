//! Security properties that no other file tests: secrets at rest and in logs, sessions, outgoing requests.
//! Access to routes is tested in `route_access`, browser behavior in `web/e2e/security.test.mjs`.

use std::path::Path;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use openvibe::{auth::hash_token, config::Config, db::Conn, ids::UserId};
use serde_json::json;
use uuid::Uuid;

use crate::support::{
    Answer, ModelServer, PASSWORD, TestDatabase, TestProcess, id, sign_up, team, team_with, text,
    visitor,
};

#[tokio::test]
async fn passwords_are_stored_as_argon2id_with_19_mib_and_individual_salts() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let server = TestProcess::start(&place, &model, &[]).await;
    let mut ada = sign_up(&server.base, "Ada", None).await;
    let workspace = ada.post("/v1/workspaces", json!({"name": "Ada Works"}));
    let workspace = workspace.await.is(201);
    ada.enter(&id(&workspace)).await;
    let invite = ada.post("/v1/invites", json!({"role": "member"})).await;
    sign_up(&server.base, "Bo", Some(&text(&invite.is(201), "/token"))).await;
    let stored = place.texts("select password_hash from users").await;
    assert_eq!(stored.len(), 2);
    for hash in &stored {
        assert!(
            hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
            "{hash}"
        );
    }
    assert_ne!(stored[0], stored[1], "the same password with another salt");
    assert_eq!(place.places_of(PASSWORD).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_session_token_has_256_random_bits_and_only_its_hash_is_stored() {
    let t = team().await;
    let tokens: Vec<String> = [&t.ada, &t.bo]
        .iter()
        .map(|person| person.cookie.as_ref().unwrap().split_once('=').unwrap().1)
        .map(str::to_owned)
        .collect();
    for token in &tokens {
        assert_eq!(URL_SAFE_NO_PAD.decode(token).unwrap().len(), 32);
        assert_eq!(t.app.place.places_of(token).await, Vec::<String>::new());
    }
    assert_ne!(tokens[0], tokens[1]);
}

#[tokio::test]
async fn a_session_token_can_begin_like_a_key() {
    let t = team().await;
    let key_like = format!("ov_{}", "a".repeat(40));
    let (user, hash) = (UserId::parse(&t.bo.id).unwrap(), hash_token(&key_like));
    t.app
        .db()
        .write(Uuid::nil(), async move |c: &mut Conn| {
            c.q("update sessions set token_hash = $2 where user_id = $1")
                .bind(user)
                .bind(hash.clone())
                .run()
                .await
        })
        .await
        .unwrap();
    let with_cookie = |token: &str| {
        let mut person = t.bo.signed_out();
        person.cookie = Some(format!("openvibe_session={token}"));
        person
    };
    let browser = with_cookie(&key_like);
    browser.get("/v1/auth/me").await.is(200);
    browser.socket().await;
    let as_key = t.bo.with_key(&key_like);
    as_key.get("/v1/channels").await.refused(401);
    let (robot, _) = t.ada.make_key(&["chat:read"]).await;
    let key = robot.key.unwrap();
    with_cookie(&key).get("/v1/channels").await.refused(401);
}

/// Settings of a server behind a proxy with TLS.
const BEHIND_A_PROXY: [(&str, &str); 2] = [
    ("PUBLIC_URL", "https://chat.example.org"),
    ("SETUP_TOKEN", "first-account-of-this-test"),
];

#[tokio::test]
async fn the_cookie_is_limited_to_this_server_and_hidden_from_scripts() {
    let t = team_with(&BEHIND_A_PROXY).await;
    let form = json!({"email": t.ada.email, "password": PASSWORD});
    let mut at_home = visitor(&t.app.base);
    at_home.origin = Some("https://chat.example.org".to_owned());
    let reply = at_home.post("/v1/auth/login", form).await;
    let cookie = reply.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Lax", "Secure", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Domain"), "{cookie}");
}

#[tokio::test]
async fn browsers_stay_on_https_if_the_public_address_uses_it() {
    let t = team_with(&BEHIND_A_PROXY).await;
    let plain = team().await;
    for path in [
        "/",
        "/v1/auth/setup",
        "/v1/channels",
        "/v1/nowhere",
        "/openapi.json",
        "/readyz",
        "/%00",
    ] {
        let sent = |base: String| async move {
            let reply = visitor(&base).get(path).await;
            reply.header("strict-transport-security")
        };
        let header = sent(t.app.base.clone()).await;
        assert_eq!(header.as_deref(), Some("max-age=2592000"), "{path}");
        assert_eq!(sent(plain.app.base.clone()).await, None, "{path}");
    }
}

#[tokio::test]
async fn logging_in_starts_a_new_session_and_ends_the_previous_one() {
    let t = team().await;
    let form = json!({"email": t.ada.email, "password": PASSWORD});
    let reply = t.ada.post("/v1/auth/login", form.clone()).await;
    let new = reply.cookie();
    assert_ne!(Some(&new), t.ada.cookie.as_ref());
    reply.is(200);
    t.ada.get("/v1/auth/me").await.refused(401);
    let mut ada = t.ada.clone();
    ada.cookie = Some(new);
    ada.get("/v1/auth/me").await.is(200);
    // The server never adopts a session cookie that someone else set.
    let planted = format!("openvibe_session={}", "A".repeat(43));
    let mut lured = t.ada.clone();
    lured.cookie = Some(planted.clone());
    let reply = lured.post("/v1/auth/login", form).await;
    assert_ne!(reply.cookie(), planted);
    reply.is(200);
    lured.get("/v1/auth/me").await.refused(401);
    ada.get("/v1/auth/me").await.is(200);
}

#[tokio::test]
async fn a_failed_login_ends_no_session() {
    let t = team().await;
    let wrong = json!({"email": t.ada.email, "password": "wrong horse"});
    t.ada.post("/v1/auth/login", wrong).await.refused(401);
    t.ada.get("/v1/auth/me").await.is(200);
}

#[tokio::test]
async fn an_unknown_email_is_rejected_like_a_wrong_password() {
    let t = team().await;
    let log_in = async |email: &str| {
        let form = json!({"email": email, "password": "wrong horse"});
        let reply = visitor(&t.app.base).post("/v1/auth/login", form).await;
        (reply.status, reply.text)
    };
    assert_eq!(
        log_in(&t.ada.email).await,
        log_in("nobody@example.org").await
    );
}

/// Secrets that careless code could write to a log or a response.
const SECRETS: [&str; 5] = [
    "sk-model-secret-7f3a",
    "metrics-secret-91bc",
    "correct horse",
    "another secret horse",
    "db-secret-55de",
];

#[tokio::test]
async fn no_secret_appears_in_logs_responses_or_events() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let settings = [
        ("MODEL_API_KEY", SECRETS[0]),
        ("METRICS_TOKEN", SECRETS[1]),
        ("LOG", "trace"),
        ("LISTEN", "0.0.0.0:0"),
    ];
    let server = TestProcess::start(&place, &model, &settings).await;
    let base = server.base.replace("0.0.0.0", "127.0.0.1");
    let printed = server.said.join("\n");
    let setup_token = printed
        .split_once("setup_token=")
        .map(|(_, rest)| rest.split_whitespace().next().unwrap().to_owned());
    let setup_token = setup_token.unwrap_or_else(|| panic!("no setup link in {printed}"));
    let form = json!({"email": "ada@example.org", "password": PASSWORD, "name": "Ada", "setup_token": setup_token});
    let reply = visitor(&base).post("/v1/auth/signup", form).await;
    let mut ada = visitor(&base);
    ada.cookie = Some(reply.cookie());
    ada.id = text(&reply.is(201), "/user/id");
    let workspace = ada
        .post("/v1/workspaces", json!({"name": "Works"}))
        .await
        .is(201);
    ada.enter(&text(&workspace, "/id")).await;
    let invite = text(&ada.post("/v1/invites", json!({})).await.is(201), "/token");
    let bo = sign_up(&base, "Bo", Some(&invite)).await;
    let (robot, _) = ada.make_key(&["chat:read", "chat:write"]).await;
    // Error of a provider that repeats the API key.
    let echo = format!(
        "{{\"error\":{{\"message\":\"Incorrect API key provided: {}\"}}}}",
        SECRETS[0]
    );
    model.script(
        "vibe",
        [Answer::status(401, &echo), Answer::status(400, &echo)],
    );
    let general = text(&ada.channel("general").await, "/id");
    let mut answers = Vec::new();
    for _ in 0..2 {
        let thread = ada.thread(&general, "Root").await;
        let task = ada.ask(&thread, "@vibe hi").await;
        answers.push(ada.failed(&task).await.0.to_string());
        answers.push(ada.contents(&thread).await.join("\n"));
    }
    robot.thread(&general, "Beep").await;
    let change = json!({"current_password": PASSWORD, "new_password": SECRETS[3]});
    bo.post("/v1/auth/password", change).await.is(204);
    let wrong = json!({"email": ada.email, "password": SECRETS[3], "unknown": SECRETS[3]});
    answers.push(visitor(&base).post("/v1/auth/login", wrong).await.text);
    answers.push(visitor(&base).get("/metrics").await.text);
    for path in [
        "/v1/events",
        "/v1/audit-log",
        "/v1/api-keys",
        "/v1/invites",
        "/v1/snapshot",
        "/v1/auth/sessions",
    ] {
        answers.push(ada.get(path).await.text);
    }
    let tokens = [&ada, &bo].map(|p| p.cookie.clone().unwrap());
    let mut secrets: Vec<String> = SECRETS.iter().map(|s| (*s).to_owned()).collect();
    secrets.extend(
        tokens
            .iter()
            .map(|c| c.split_once('=').unwrap().1.to_owned()),
    );
    secrets.extend([robot.key.clone().unwrap(), invite]);
    for answer in &answers {
        for secret in &secrets {
            assert!(!answer.contains(secret.as_str()), "{secret} in {answer}");
        }
    }
    server.kill().await;
    let log = std::fs::read_to_string(place.dir.join("stderr.log")).unwrap();
    // With `LOG=trace`, only the program's own lines are logged, and none of them is below the level DEBUG.
    assert!(log.contains("DEBUG"), "the most verbose log");
    secrets.push(setup_token);
    for secret in &secrets {
        let line = log.lines().find(|line| line.contains(secret.as_str()));
        assert_eq!(line, None, "{secret} is in the log");
    }
}

#[test]
fn printed_settings_contain_no_secrets() {
    let values = [
        ("MODEL_API_KEY", SECRETS[0].to_owned()),
        ("METRICS_TOKEN", SECRETS[1].to_owned()),
        (
            "DATABASE_URL",
            format!("postgres://ada:{}@db.example/ov", SECRETS[4]),
        ),
        (
            "MODEL_BASE_URL",
            format!(
                "https://ada:{}@model.example/v1",
                SECRETS[3].replace(' ', "-")
            ),
        ),
    ];
    let values = values.map(|(name, value)| (name.to_owned(), value));
    let config = Config::from_values(values.into_iter().collect()).unwrap();
    let printed = format!("{config:?} {config:#?}");
    for secret in SECRETS {
        assert!(!printed.contains(secret), "{printed}");
        assert!(!printed.contains(&secret.replace(' ', "-")), "{printed}");
    }
}

/// Requests to an address that a person or a model supplies must reject private addresses, so only the modules listed below can send
/// requests: those that call the operator's models, those that check addresses with `outbound`, and the command line, which calls the
/// server that its user names.
#[test]
fn only_the_model_client_and_the_command_line_make_outgoing_requests() {
    fn files(dir: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, found);
            } else {
                found.push(path);
            }
        }
    }
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    files(&src, &mut all);
    for file in all {
        let name = file
            .strip_prefix(&src)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        // `networks` only parses addresses. A failpoint in a debug build connects to the test that controls it. Addresses that `providers` calls are constant or
        // checked by `outbound`, as are those of identity providers, files of imports, and `poster`, which sends what `outgoing` and `push` build. `web` and `mcp` resolve names with `outbound`; `mcp` starts only the programs in the operator's
        // file. `db` connects to the operator's database, and `tls` to the operator's certificate authority. `trust` and `proxy` only begin clients. `doctor` asks the servers
        // that the operator's settings name, and `release` the address that the operator's command names.
        let allowed = [
            "model/",
            "providers/",
            "cli",
            "outbound.rs",
            "proxy.rs",
            "networks.rs",
            "failpoint.rs",
            "web/",
            "mcp/",
            "db/sessions.rs",
            "doctor/",
            "release/",
            "tls/acme/",
            "trust.rs",
            "auth/oidc/client.rs",
            "imports/fetch.rs",
            "outgoing/sender.rs",
            "poster.rs",
            "push/client.rs",
        ];
        let may = allowed.iter().any(|prefix| name.starts_with(prefix));
        let text = std::fs::read_to_string(&file).unwrap();
        // Unit tests are not part of the server.
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        for way in [
            "reqwest",
            "hyper_util::client",
            "hyper::client",
            "TcpStream::connect",
            "connect_async",
            "process::Command",
        ] {
            assert!(
                may || !text.contains(way),
                "{name} uses {way}: does it reject private addresses?"
            );
        }
    }
}
