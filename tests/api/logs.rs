//! Log output: request IDs and spans, and no confidential data.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    faults::{Prepared, prepared},
    support::{
        Answer, ModelServer, NatsServer, Person, S3, SECRET_KEY, Socket, TestDatabase, TestProcess,
        command, id, list, sign_up, text, visitor,
    },
};

const ID: &str = "x-request-id";

fn log(place: &TestDatabase) -> String {
    std::fs::read_to_string(place.dir.join("stderr.log")).unwrap()
}

/// All log lines in JSON. A server with JSON logs writes no other lines.
fn lines(place: &TestDatabase) -> Vec<Value> {
    let of_json = |line: &str| serde_json::from_str(line).ok().filter(Value::is_object);
    log(place).lines().filter_map(of_json).collect()
}

fn of_request(all: &[Value], request: &str) -> Vec<Value> {
    let wanted = |line: &&Value| line["request.id"] == request;
    all.iter().filter(wanted).cloned().collect()
}

/// A server with verbose JSON logs.
async fn talkative(settings: &[(&str, &str)]) -> (Prepared, TestProcess, Person) {
    let p = prepared().await;
    let mut all = vec![("LOG", "debug"), ("LOG_FORMAT", "json")];
    all.extend(settings);
    let (server, ada) = p.start(&all).await;
    (p, server, ada)
}

async fn say_as(ada: &Person, thread: &str, request: &str, content: &str) -> crate::support::Reply {
    let path = format!("/v1/threads/{thread}/messages");
    let body = json!({"content": content}).to_string().into_bytes();
    ada.send(Method::POST, &path, &[(ID, request)], Some(body))
        .await
}

/// Stops the server, so that its log is complete.
async fn end(server: TestProcess) {
    server.terminate();
    assert!(server.exited().await.success());
}

#[tokio::test]
async fn a_response_has_the_request_id_of_its_log_lines() {
    let (p, server, ada) = talkative(&[]).await;
    let reply = say_as(&ada, &p.thread, "trace-4711.a_B", "Hello").await;
    assert_eq!(reply.header(ID).as_deref(), Some("trace-4711.a_B"));
    let own = ada.get("/v1/channels").await.header(ID).unwrap();
    let other = ada.get("/nowhere").await.header(ID).unwrap();
    assert!(own.starts_with("req_") && other.starts_with("req_") && own != other);
    let forged = say_as(&ada, &p.thread, "a b\"c", "Again").await;
    assert!(forged.header(ID).unwrap().starts_with("req_"));
    end(server).await;
    let all = lines(&p.place);
    let found = of_request(&all, "trace-4711.a_B");
    let answered: Vec<&Value> = found
        .iter()
        .filter(|line| line["message"] == "request completed")
        .collect();
    assert_eq!(answered.len(), 1, "{found:?}");
    let line = answered[0];
    assert_eq!(line["method"], "POST");
    assert_eq!(line["route"], "/v1/threads/{id}/messages");
    assert_eq!(line["status"], 201);
    assert_eq!(line["user.id"], ada.id.as_str());
    assert_eq!(line["workspace.id"], ada.workspace.as_str());
    assert!(line["duration_ms"].is_u64() && line["timestamp"].is_string());
    assert_eq!(
        of_request(&all, &own).last().unwrap()["route"],
        "/v1/channels"
    );
    assert_eq!(
        of_request(&all, &other).last().unwrap()["route"],
        "unmatched"
    );
}

#[tokio::test]
async fn a_failed_request_is_logged_with_its_id_even_at_low_verbosity() {
    let p = prepared().await;
    let settings = [
        ("LOG", "info"),
        ("LOG_FORMAT", "json"),
        ("RETRY_DELAYS", "1ms"),
    ];
    let (server, ada) = p.start(&settings).await;
    p.model
        .script("", [Answer::status(503, "no"), Answer::status(503, "no")]);
    let form = json!({"model": "tiny", "input": "Hello", "store": false});
    let headers = [(ID, "r-503")];
    let reply = ada
        .send(
            Method::POST,
            "/v1/responses",
            &headers,
            Some(form.to_string().into_bytes()),
        )
        .await;
    assert_eq!(
        (reply.status, reply.header(ID).as_deref()),
        (503, Some("r-503"))
    );
    end(server).await;
    let found = of_request(&lines(&p.place), "r-503");
    let last = found.last().unwrap();
    assert_eq!(last["message"], "a request failed");
    assert_eq!(
        (&last["level"], &last["code"]),
        (&json!("WARN"), &json!("model_unavailable"))
    );
    let calls = found
        .iter()
        .filter(|line| line["message"] == "a model call failed");
    let calls: Vec<&Value> = calls.collect();
    assert_eq!(calls.len(), 2, "{found:?}");
    assert!(
        calls
            .iter()
            .all(|line| text(line, "/response.id").starts_with("resp_"))
    );
}

#[tokio::test]
async fn log_lines_of_a_task_have_its_id_and_the_id_of_its_request() {
    let (p, server, ada) = talkative(&[("RETRY_DELAYS", "1ms")]).await;
    p.model
        .script("vibe", [Answer::status(500, "{}"), Answer::text("Hello.")]);
    let reply = say_as(&ada, &p.thread, "who-asked", "@vibe hi")
        .await
        .is(201);
    let task = text(&reply, "/tasks/0/id");
    ada.completed(&task).await;
    let agent = id(&ada.agent("vibe").await);
    end(server).await;
    let all = lines(&p.place);
    let of_task: Vec<&Value> = all
        .iter()
        .filter(|line| line["task.id"] == task.as_str())
        .collect();
    let asked = of_task
        .iter()
        .find(|line| line["message"] == "task requested");
    assert_eq!(asked.unwrap()["request.id"], "who-asked");
    let run: Vec<&&Value> = of_task
        .iter()
        .filter(|line| line["target"].as_str().unwrap().starts_with("openvibe::"))
        .filter(|line| line["request.id"].is_null())
        .collect();
    for line in &run {
        assert_eq!(line["task.kind"], "reply");
        assert_eq!(line["agent.id"], agent.as_str());
        assert_eq!(line["workspace.id"], ada.workspace.as_str());
    }
    let said = |what: &str| run.iter().filter(|line| line["message"] == what).count();
    assert_eq!(said("a model call failed"), 1);
    assert_eq!(said("task run ended"), 2);
}

#[tokio::test]
async fn socket_requests_are_logged_with_the_sockets_request_id() {
    let (p, server, ada) = talkative(&[]).await;
    let mut socket = ada.socket().await;
    let sent = json!({"type": "message.send", "thread_id": p.thread, "content": "@vibe hi", "client_id": "c-1"});
    let ack = socket.ack(sent).await;
    let task = text(&ack, "/tasks/0/id");
    end(server).await;
    let all = lines(&p.place);
    let asked = all
        .iter()
        .find(|line| line["message"] == "task requested" && line["task.id"] == task.as_str())
        .unwrap();
    assert_eq!(asked["user.id"], ada.id.as_str());
    let request = text(asked, "/request.id");
    let upgraded = of_request(&all, &request);
    assert!(
        upgraded
            .iter()
            .any(|line| line["route"] == "/v1/ws" && line["status"] == 101)
    );
}

#[tokio::test]
async fn a_proxy_that_forwards_no_websockets_is_logged_once() {
    let (p, server, ada) = talkative(&[]).await;
    for _ in 0..3 {
        assert_eq!(ada.get("/v1/ws").await.refused(400), "upgrade_required");
    }
    end(server).await;
    let warned = lines(&p.place);
    let warned = warned.iter().filter(|line| {
        line["level"] == "WARN"
            && line["message"]
                == "a request for /v1/ws came without Upgrade: the proxy in front must forward WebSockets"
    });
    assert_eq!(warned.count(), 1);
}

#[tokio::test]
async fn a_slow_commit_is_logged_for_its_waiting_requests() {
    let settings = [
        ("LOG", "warn,openvibe=info"),
        ("FAILPOINT", "before_commit:25:pause=1100"),
    ];
    let (p, server, ada) = talkative(&settings).await;
    for n in 0..40 {
        let reply = say_as(&ada, &p.thread, &format!("slow-{n}"), "Hello").await;
        reply.is(201);
    }
    end(server).await;
    let all = lines(&p.place);
    let slow: Vec<&Value> = all
        .iter()
        .filter(|line| line["message"] == "slow commit")
        .collect();
    assert_eq!(slow.len(), 1, "{slow:?}");
    assert!(text(slow[0], "/request.id").starts_with("slow-"));
    assert_eq!(slow[0]["route"], "/v1/threads/{id}/messages");
    assert_eq!(slow[0]["commands"], 1);
    assert!(slow[0]["duration_ms"].as_u64().unwrap() >= 1100);
}

#[tokio::test]
async fn without_json_log_lines_are_human_readable() {
    let p = prepared().await;
    let (server, ada) = p.start(&[("LOG", "debug")]).await;
    say_as(&ada, &p.thread, "for-people", "Hello").await.is(201);
    end(server).await;
    let all = log(&p.place);
    let line = all
        .lines()
        .find(|line| line.contains("for-people") && line.contains("request completed"))
        .unwrap();
    for part in [
        "DEBUG",
        "POST",
        "/v1/threads/{id}/messages",
        &ada.id,
        "status=201",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert_eq!(line.matches(&ada.workspace).count(), 1, "said once: {line}");
    assert!(!line.contains('\u{1b}'), "no colours in a file");
}

#[tokio::test]
async fn an_invalid_filter_is_reported_and_the_default_is_used() {
    let p = prepared().await;
    let (server, ada) = p
        .start(&[("LOG", "openvibe=everything"), ("LOG_FORMAT", "json")])
        .await;
    ada.get("/v1/channels").await.ok();
    end(server).await;
    let all = lines(&p.place);
    assert!(text(&all[0], "/message").contains("OPENVIBE_LOG"));
    assert!(all.iter().all(|line| line["level"] != "DEBUG"));
}

/// Secrets searched for in the log, each with a unique value.
struct Secrets(Vec<(&'static str, String)>);

impl Secrets {
    fn add(&mut self, what: &'static str, secret: impl Into<String>) -> String {
        let secret = secret.into();
        assert!(
            secret.len() >= 8,
            "{what} is too short to be looked for: {secret}"
        );
        self.0.push((what, secret.clone()));
        secret
    }

    /// Checks that the log contains none of the secrets, neither as text nor as a list of bytes.
    fn check(&self, log: &str) {
        for (what, secret) in &self.0 {
            let numbers = format!("{:?}", secret.as_bytes());
            for form in [secret.as_str(), numbers.trim_matches(['[', ']'])] {
                let found = log.lines().find(|line| line.contains(form));
                assert_eq!(found, None, "{what} is in the log");
            }
        }
    }
}

/// Uses valid and invalid secrets in every way in which people, programs, and models use them.
async fn live_with_secrets(server: &TestProcess, model: &ModelServer, secrets: &mut Secrets) {
    let mut ada = sign_up(&server.base, "Ada", None).await;
    let session = ada.cookie.clone().unwrap();
    secrets.add("a session", session.split_once('=').unwrap().1);
    let workspace = ada
        .post("/v1/workspaces", json!({"name": "Acme"}))
        .await
        .is(201);
    ada.enter(&id(&workspace)).await;
    let general = id(&ada.channel("general").await);

    // Accounts.
    let wrong = secrets.add("a wrong password", "wrong battery staple");
    let form = json!({"email": ada.email, "password": wrong});
    visitor(&server.base)
        .post("/v1/auth/login", form)
        .await
        .refused(401);
    let form = json!({"email": ada.email, "password": [wrong]});
    visitor(&server.base)
        .post("/v1/auth/login", form)
        .await
        .refused(400);
    let broken = format!("{{\"email\": \"{}\", \"password\": \"{wrong}", ada.email);
    visitor(&server.base)
        .post_bytes("/v1/auth/login", broken)
        .await
        .refused(400);
    let again = ada.log_in().await.cookie.unwrap();
    secrets.add("another session", again.split_once('=').unwrap().1);
    let new = secrets.add("a new password", "entirely new password");
    let form = json!({"current_password": crate::support::PASSWORD, "new_password": new});
    ada.post("/v1/auth/password", form).await.is(204);
    let mut thief = ada.clone();
    thief.cookie = Some(format!(
        "openvibe_session={}",
        secrets.add("no session", "guessed-session-token")
    ));
    thief.get("/v1/auth/me").await.refused(401);

    // Invites.
    let invite = ada
        .post("/v1/invites", json!({"role": "member"}))
        .await
        .is(201);
    let invite = secrets.add("an invite", text(&invite, "/token"));
    visitor(&server.base)
        .get(&format!("/v1/invites/{invite}"))
        .await
        .is(200);
    let no_invite = secrets.add("no invite", "guessed-invite-token");
    visitor(&server.base)
        .get(&format!("/v1/invites/{no_invite}"))
        .await
        .refused(404);
    visitor(&server.base)
        .get(&format!("/invite/{invite}"))
        .await;
    let bo = sign_up(&server.base, "Bo", Some(&invite)).await;
    secrets.add(
        "Bo's session",
        bo.cookie.as_ref().unwrap().split_once('=').unwrap().1,
    );

    // Keys.
    let (program, key) = ada.make_key(&["chat:read", "agents:use"]).await;
    secrets.add("a key", program.key.clone().unwrap());
    program.get("/v1/channels").await.is(200);
    program
        .post("/v1/channels", json!({"name": "no"}))
        .await
        .refused(403);
    ada.delete(&format!("/v1/api-keys/{key}")).await;
    program.get("/v1/channels").await.refused(401);
    let stolen = ada.with_key(&secrets.add("no key", "ov_guessed-api-key-4711"));
    stolen.get("/v1/channels").await.refused(401);
    let basic = secrets.add("another scheme", "QWxhZGRpbjpvcGVuIHNlc2FtZQ");
    let header = format!("Basic {basic}");
    visitor(&server.base)
        .send(Method::GET, "/metrics", &[("authorization", &header)], None)
        .await
        .refused(401);

    // Messages over HTTP and a socket.
    let said = secrets.add("a message", "the merger is on friday");
    let thread = ada.thread(&general, &said).await;
    let message = ada
        .tell(&thread, &secrets.add("a second message", "nobody may know"))
        .await;
    let edited = json!({"content": secrets.add("an edited message", "not even this version")});
    ada.patch(&format!("/v1/messages/{message}"), edited)
        .await
        .ok();
    ada.delete(&format!("/v1/messages/{message}")).await.ok();
    let sought = secrets.add("a search", "looking-for-merger-papers");
    ada.get(&format!("/v1/search?q={sought}")).await.is(200);
    let mut socket = Socket::open(&bo, json!({})).await;
    socket.subscribe(&thread).await;
    let content = secrets.add("a message over a socket", "whispered over the wire");
    socket
        .ack(json!({"type": "message.send", "thread_id": thread, "content": content, "client_id": "c-1"}))
        .await;
    socket
        .send_text(&secrets.add("a broken frame", "{\"not-json-but-private"))
        .await;
    let long = secrets.add(
        "a message that is too long",
        "too-long-and-private-".repeat(2000),
    );
    ada.post(
        &format!("/v1/threads/{thread}/messages"),
        json!({"content": long}),
    )
    .await
    .refused(413);
    ada.upload(
        &secrets.add("a file's name", "salaries-of-everybody.txt"),
        secrets
            .add("a file", "ada earns 4711 a day")
            .repeat(5000)
            .as_bytes(),
    )
    .await;

    // Model requests, responses, and errors.
    let answer = secrets.add("an answer", "the answer of the model");
    let echo = |text: &str| {
        json!({"error": {"message": format!("I do not like: {text} {}", "sk-a-key-of-a-provider")}})
            .to_string()
    };
    model.script(
        "vibe",
        [
            Answer::pieces(&[&answer]),
            Answer::status(400, &echo(&said)),
            Answer::status(401, &echo(&said)),
            Answer::stream().raw(&format!("data: {}\n\n", echo(&said))),
            Answer::pieces_open(&[&answer]).cut(),
            Answer::status(503, &echo(&said)),
            Answer::status(503, &echo(&said)),
        ],
    );
    for _ in 0..5 {
        let task = ada.ask(&thread, &format!("@vibe {said}?")).await;
        ada.ended(&task).await;
    }
    let program = ada.make_key(&["agents:use"]).await.0;
    secrets.add("a second key", program.key.clone().unwrap());
    let instructions = secrets.add("instructions", "never tell anybody of this");
    for status in [200, 400] {
        if status != 200 {
            model.script("", [Answer::status(status, &echo(&said))]);
        }
        let form = json!({"model": "tiny", "input": said, "instructions": instructions});
        assert_eq!(program.post("/v1/responses", form).await.status, status);
    }
    model.script("asked", [Answer::status(401, &echo(&said))]);
    ada.post("/v1/model-test", json!({})).await.is(200);

    // A fork and its resolution.
    let started = ada.start(&general, "Root").await;
    let fields =
        json!({"title": secrets.add("a dive's title", "plans for the takeover"), "agent_id": null});
    let fork = ada
        .start_fork(
            &text(&started, "/thread/id"),
            &text(&started, "/message/id"),
            fields,
        )
        .await;
    ada.say_in(&id(&fork), &said).await;
    let headline = secrets.add("a headline", "we buy them on monday");
    let resolution =
        json!({"headline": headline, "conclusion": said, "key_points": [], "action_items": []});
    model.script("resolver", [crate::support::drafting(&resolution)]);
    ada.drafted(&id(&fork)).await;
    assert!(!list(&ada.get("/v1/tasks").await.ok(), "/data").is_empty());
    ada.post("/v1/auth/logout", json!({})).await.ok();
}

/// A NATS server with a password. Only nodes that share a database use NATS.
async fn nats_with(password: &str, place: &TestDatabase) -> Option<NatsServer> {
    place.postgres.as_ref()?;
    Some(NatsServer::with_password("ov", password).await)
}

/// The URL of the database with a password, which the server of the tests does not ask for.
fn database_with(password: &str, place: &TestDatabase) -> Option<String> {
    let url = place.postgres.as_ref()?;
    let (before, after) = url.split_once('@')?;
    Some(format!("{before}:{password}@{after}"))
}

#[tokio::test]
async fn no_secret_is_logged_even_at_trace() {
    for format in ["json", "text"] {
        let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
        let mut secrets = Secrets(Vec::new());
        secrets.add("the secret key", SECRET_KEY);
        let password = secrets.add("the password of NATS", "letmein-to-the-bus");
        let server_of_bus = nats_with(&password, &place).await;
        let nats = server_of_bus.as_ref().map(|nats| {
            let login = format!("//ov:{password}@");
            nats.url().replace("//", &login)
        });
        let password = secrets.add("the password of PostgreSQL", "letmein-to-the-database");
        let database = database_with(&password, &place);
        let s3 = S3::new().await;
        for (name, value) in s3.credentials() {
            if name == "AWS_SECRET_ACCESS_KEY" {
                secrets.add("the key of S3", value);
            }
        }
        secrets.add("a password", crate::support::PASSWORD);
        secrets.add("a provider's key", "sk-a-key-of-a-provider");
        secrets.add("the word for figures", "figures-for-few");
        let with_password = secrets.add("a password in an address", "letmein-to-the-model");
        let address = model
            .url
            .replace("http://", &format!("http://someone:{with_password}@"));
        let mut settings = vec![
            ("LOG", "trace"),
            ("LOG_FORMAT", format),
            ("RETRY_DELAYS", "1ms"),
            ("MODEL_BASE_URL", &address),
            ("MODEL_API_KEY", "sk-a-key-of-a-provider"),
            ("METRICS_TOKEN", "figures-for-few"),
            ("SECRET_KEY", SECRET_KEY),
        ];
        settings.extend(s3.settings());
        settings.extend(nats.as_deref().map(|url| ("NATS_URL", url)));
        settings.extend(database.as_deref().map(|url| ("DATABASE_URL", url)));
        let by_hand = secrets.add("a password by hand", "set by the operator");
        let server = TestProcess::start(&place, &model, &settings).await;
        live_with_secrets(&server, &model, &mut secrets).await;
        end(server).await;
        let mut reset = command(&place, &model, &settings);
        reset.args([
            "user",
            "reset-password",
            "--email",
            "ada@example.org",
            "--password",
            &by_hand,
        ]);
        let reset = reset.output().unwrap();
        assert!(reset.status.success());
        let log = log(&place) + &String::from_utf8(reset.stderr).unwrap();
        // The full log contains every request and the log lines of libraries.
        for said in [
            "request completed",
            "sqlx::query",
            "a model call failed",
            "task run ended",
        ] {
            assert!(log.contains(said), "nothing of {said}");
        }
        assert_eq!(log.contains("connected to NATS"), nats.is_some());
        assert!(!s3.keys().await.is_empty(), "a file is in S3");
        secrets.check(&log);
    }
}
