//! Rate limits and quotas per person, key, and address.

use std::time::Duration;

use futures::{StreamExt, stream};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, task::JoinSet};
use tokio_tungstenite::tungstenite::Error;

use crate::support::{
    Answer, Gate, ModelServer, PASSWORD, Person, Reply, Socket, Team, TestApp, TestDatabase,
    TestProcess, id, list, number, sign_up_with_workspace, team, team_with, text, unknown_id,
    visitor, within,
};

/// Larger than any limit in these tests.
const MANY: usize = 2_000;
/// Permits are not refilled: otherwise a limit is never reached on a machine that is slower than its rate.
const STOPPED: (&str, &str) = ("RATES_STOPPED", "on");

/// Repeats a request, 32 at a time, until one is rejected by a limit. Returns that response and the number of
/// requests that were accepted before it (up to 31 later ones were already sent).
async fn until_limited<F: Future<Output = Reply>>(send: impl Fn(usize) -> F) -> (Reply, usize) {
    let mut replies = stream::iter((0..MANY).map(send)).buffered(32);
    let mut granted = 0;
    while let Some(reply) = replies.next().await {
        if reply.status == 429 {
            return (reply, granted);
        }
        granted += 1;
    }
    panic!("nothing was refused");
}

/// Returns the retry delay, after checking that header and body agree.
#[track_caller]
fn wait_of(reply: Reply) -> u64 {
    let header = reply.header("retry-after").expect("Retry-After");
    let seconds: u64 = header.parse().expect("whole seconds");
    let error = &reply.json()["error"];
    assert_eq!(error["retry_after_s"], seconds, "{error}");
    assert_eq!(reply.refused(429), "rate_limited");
    seconds
}

/// Sends a write that is rejected because its object does not exist, but counts toward the limit.
async fn change(who: &Person) -> Reply {
    who.delete(&format!("/v1/messages/{}", unknown_id("msg")))
        .await
}

#[tokio::test]
async fn a_user_over_the_write_limit_waits_and_others_do_not() {
    let t = team_with(&[STOPPED]).await;
    let elsewhere = t.bo.log_in().await;
    let (robot, _) = t.bo.make_key(&["chat:read", "chat:write"]).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let (refused, granted) = until_limited(|_| change(&t.bo)).await;
    assert!(granted >= 340, "{granted} after what the test did before");
    assert_eq!(wait_of(refused), 1);
    for same in [&elsewhere, &robot] {
        let (limited, granted) = until_limited(|_| change(same)).await;
        assert!(granted < 300, "{granted} of the same person");
        wait_of(limited);
    }
    t.ada.say(&thread, "I am not in this").await;
    t.bo.get("/v1/auth/me").await.is(200);
    assert_eq!(t.bo.messages(&thread).await.len(), 2);
}

#[tokio::test]
async fn requests_with_keys_count_toward_their_users_limit() {
    let t = team_with(&[STOPPED]).await;
    let (robot, _) = t.bo.make_key(&["chat:read"]).await;
    let (other, _) = t.bo.make_key(&["chat:read"]).await;
    let (refused, granted) = until_limited(|_| robot.get("/v1/auth/me")).await;
    assert!(granted >= 960, "{granted}");
    assert_eq!(wait_of(refused), 1);
    for same in [&other, &t.bo] {
        let (limited, granted) = until_limited(|_| same.get("/v1/auth/me")).await;
        assert!(granted < 900, "{granted} of the same person");
        wait_of(limited);
    }
    t.ada.get("/v1/auth/me").await.is(200);
}

/// A message of the maximum size.
fn long_text() -> String {
    "word ".repeat(32 * 1024 / 5)
}

/// Asserts that the number of accepted writes of `long_text` fits their limit: 400 tokens, and 9 for each write.
fn fits_limit(granted: usize) {
    assert!(granted * 9 <= 400 + 9, "{granted}");
}

#[tokio::test]
async fn a_person_who_writes_many_bytes_waits_and_others_do_not() {
    let t = team_with(&[STOPPED]).await;
    let thread = t.bo.thread(&t.general, "Root").await;
    let path = format!("/v1/threads/{thread}/messages");
    let post = || t.bo.post(&path, json!({"content": long_text()}));
    let (refused, granted) = until_limited(|_| post()).await;
    assert!(granted >= 30, "{granted}");
    fits_limit(granted);
    wait_of(refused);
    // Edits, files of agents, and frames of sockets count in the same way.
    let message = id(&t.bo.messages(&thread).await[1]);
    let edited = format!("/v1/messages/{message}");
    let edit = || t.bo.patch(&edited, json!({"content": long_text()}));
    let (refused, granted) = until_limited(|_| edit()).await;
    fits_limit(granted);
    wait_of(refused);
    let mut socket = t.bo.socket().await;
    let mut granted = 0;
    let refused = loop {
        let send = json!({"type": "message.send", "thread_id": thread, "content": long_text(),
            "client_id": granted.to_string()});
        let answer = socket.request(send).await;
        if answer["type"] == "error" {
            break answer;
        }
        granted += 1;
    };
    assert_eq!(refused["error"]["code"], "rate_limited", "{refused}");
    fits_limit(granted);
    t.ada.say(&thread, &long_text()).await;
    t.bo.get("/v1/auth/me").await.is(200);
}

/// A thread with 20 messages of the maximum size, and its path. The answer with all of them counts like 20 reads.
async fn long_thread() -> (Team, String) {
    let mut t = team_with(&[("RATE_LIMITS", "off")]).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    for _ in 0..20 {
        t.ada.say(&thread, &long_text()).await;
    }
    t.app.restart(&[("RATE_LIMITS", "on"), STOPPED]).await;
    (t.ada, t.bo) = (t.ada.at(&t.app.base), t.bo.at(&t.app.base));
    (t, format!("/v1/threads/{thread}/messages?limit=100"))
}

/// Asserts that the number of accepted reads of the long thread fits their limit: 1000 tokens, and 20 for each read, of which 32 are
/// under way when the first one is refused.
fn fits_read_limit(granted: usize) {
    assert!(granted <= 1000 / 20 + 32, "{granted}");
}

#[tokio::test]
async fn a_person_who_reads_many_bytes_waits_and_others_do_not() {
    let (t, path) = long_thread().await;
    let gzip = [("accept-encoding", "gzip")];
    let (refused, granted) = until_limited(|_| t.bo.send(Method::GET, &path, &gzip, None)).await;
    assert!(granted >= 35, "{granted}");
    fits_read_limit(granted);
    wait_of(refused);
    t.ada.get(&path).await.is(200);
    t.bo.delete(&format!("/v1/messages/{}", unknown_id("msg")))
        .await
        .refused(404);
    // The newest page counts in the same way, also if it was compressed before.
    let newest = path.replace("limit=100", "limit=50");
    let (_, granted) = until_limited(|_| t.ada.send(Method::GET, &newest, &gzip, None)).await;
    fits_read_limit(granted);
}

#[tokio::test]
async fn answers_count_even_if_the_client_disconnects_before_them() {
    let (t, path) = long_thread().await;
    let host = t.app.base.trim_start_matches("http://").to_owned();
    let cookie = t.bo.cookie.clone().expect("a session");
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\naccept-encoding: gzip\r\n\r\n"
    );
    let mut count = 0;
    let limited = async {
        while t.bo.get("/v1/auth/me").await.status != 429 {
            let mut tcp = tokio::net::TcpStream::connect(&host).await.unwrap();
            tcp.write_all(head.as_bytes()).await.unwrap();
            // Enough for the server to identify the sender. If the answer is sent in that time, it counts as well.
            tokio::time::sleep(Duration::from_millis(20)).await;
            drop(tcp);
            count += 1;
        }
    };
    within("the limit", limited).await;
    assert!(count < 250, "{count}");
    t.ada.get(&path).await.is(200);
}

/// Sends a request through a proxy that reports this client address.
async fn from(who: &Person, address: &str, path: &str) -> Reply {
    who.send(Method::GET, path, &[("x-forwarded-for", address)], None)
        .await
}

#[tokio::test]
async fn anonymous_clients_are_limited_by_address_without_affecting_signed_in_users() {
    let t = team_with(&[("TRUSTED_PROXIES", "127.0.0.1"), STOPPED]).await;
    let nobody = visitor(&t.app.base);
    let (flood, neighbour) = ("203.0.113.7", "203.0.113.8");
    let setup = "/v1/auth/setup";
    let (refused, granted) = until_limited(|_| from(&nobody, flood, setup)).await;
    assert!(granted >= 160, "{granted}");
    assert!(wait_of(refused) >= 1);
    from(&nobody, neighbour, setup).await.is(200);
    from(&t.ada, flood, "/v1/auth/me").await.is(200);
    let mut forged = nobody.clone();
    forged.cookie = Some("openvibe_session=made-up".to_owned());
    from(&forged, neighbour, "/v1/auth/me").await.refused(401);
    let (forged_refused, _) = until_limited(|_| from(&forged, flood, "/v1/auth/me")).await;
    wait_of(forged_refused);
    from(&nobody, flood, "/healthz").await.is(200);
}

#[tokio::test]
async fn addresses_of_one_ipv6_network_count_as_one() {
    let app = TestApp::with(&[("TRUSTED_PROXIES", "127.0.0.1"), STOPPED]).await;
    let nobody = visitor(&app.base);
    let (nobody, setup) = (&nobody, "/v1/auth/setup");
    let send = |n| async move { from(nobody, &format!("2001:db8:0:1::{n:x}"), setup).await };
    let (refused, granted) = until_limited(send).await;
    assert!(granted >= 160, "{granted}");
    wait_of(refused);
    from(nobody, "2001:db8:0:2::1", setup).await.is(200);
}

#[tokio::test]
async fn an_untrusted_proxy_counts_as_the_client_address() {
    let app = TestApp::with(&[STOPPED]).await;
    let nobody = visitor(&app.base);
    let (nobody, setup) = (&nobody, "/v1/auth/setup");
    let send = |n| async move { from(nobody, &format!("203.0.113.{}", n % 250), setup).await };
    let (refused, _) = until_limited(send).await;
    wait_of(refused);
}

#[tokio::test]
async fn openai_clients_receive_rate_limit_errors_in_their_format() {
    let t = team_with(&[STOPPED]).await;
    let (robot, _) = t.ada.make_key(&["chat:read", "agents:use"]).await;
    let (refused, _) = until_limited(|_| robot.get("/v1/models")).await;
    assert!(refused.header("retry-after").is_some());
    let error = refused.json()["error"].clone();
    assert_eq!(error["type"], "rate_limit_error");
    assert_eq!(error["code"], "rate_limited");
}

#[tokio::test]
async fn unknown_keys_are_limited_for_methods_of_slack_that_are_not_offered() {
    let app = TestApp::with(&[STOPPED]).await;
    let stranger = visitor(&app.base).with_key("ov_unknown");
    let ask = |_| stranger.post("/api/views.open", json!({}));
    let (refused, granted) = until_limited(ask).await;
    assert!(granted >= 160, "{granted}");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(refused.json()["error"], "ratelimited");
}

fn log_in(email: &str, password: &str) -> Value {
    json!({"email": email, "password": password})
}

/// Attempts to log in through a proxy that reports this client address.
async fn log_in_from(who: &Person, address: &str, email: &str, password: &str) -> Reply {
    let body = log_in(email, password).to_string().into_bytes();
    let headers = [("x-forwarded-for", address)];
    who.send(Method::POST, "/v1/auth/login", &headers, Some(body))
        .await
}

#[tokio::test]
async fn password_guesses_from_one_address_do_not_affect_other_addresses() {
    let t = team_with(&[("TRUSTED_PROXIES", "127.0.0.1")]).await;
    let who = visitor(&t.app.base);
    let (attacker, ada) = ("203.0.113.7", "ada@example.org");
    // Concurrent guesses must not get further than sequential ones.
    let guesses = (0..20).map(|_| log_in_from(&who, attacker, ada, "wrong horse"));
    let replies = futures::future::join_all(guesses).await;
    let checked = replies.iter().filter(|reply| reply.status == 401).count();
    assert!((10..=15).contains(&checked), "{checked}");
    for reply in replies.into_iter().filter(|reply| reply.status != 401) {
        let seconds = number(&reply.json(), "/error/retry_after_s");
        assert!((1..=6).contains(&seconds), "{seconds}");
        assert_eq!(reply.refused(429), "too_many_attempts");
    }
    log_in_from(&who, "203.0.113.8", ada, PASSWORD)
        .await
        .is(200);
    log_in_from(&who, attacker, "bo@example.org", PASSWORD)
        .await
        .is(200);
    t.ada.get("/v1/auth/me").await.is(200);
    let change = json!({"current_password": PASSWORD, "new_password": "another battery"});
    t.ada.post("/v1/auth/password", change).await.is(204);
}

#[tokio::test]
async fn an_account_under_attack_stays_open_to_known_addresses_and_browsers() {
    let t = team_with(&[("TRUSTED_PROXIES", "127.0.0.1")]).await;
    let who = visitor(&t.app.base);
    let ada = "ada@example.org";
    let (home, anonymous) = ("198.51.100.7", "198.51.100.8");
    let reply = log_in_from(&who, home, ada, PASSWORD).await;
    let cookies = reply.headers.get_all("set-cookie").iter();
    let browser = cookies
        .filter_map(|cookie| cookie.to_str().ok()?.split(';').next())
        .find(|cookie| cookie.starts_with("openvibe_browser="))
        .expect("a mark for the browser")
        .to_owned();
    reply.is(200);
    let guesses = (0..130).map(|n| {
        let (who, address) = (&who, format!("203.0.113.{n}"));
        async move { log_in_from(who, &address, ada, "wrong horse").await.status }
    });
    let statuses: Vec<u16> = stream::iter(guesses).buffered(8).collect().await;
    assert!(statuses.iter().all(|status| *status == 401), "{statuses:?}");
    log_in_from(&who, anonymous, ada, "wrong horse")
        .await
        .refused(401);
    let refused = log_in_from(&who, anonymous, ada, PASSWORD).await;
    let seconds = number(&refused.json(), "/error/retry_after_s");
    assert!((2..=60).contains(&seconds), "{seconds}");
    assert_eq!(refused.refused(429), "too_many_attempts");
    log_in_from(&who, home, ada, PASSWORD).await.is(200);
    let mut known = who.clone();
    known.cookie = Some(browser);
    log_in_from(&known, anonymous, ada, PASSWORD).await.is(200);
    log_in_from(&who, anonymous, "bo@example.org", PASSWORD)
        .await
        .is(200);
}

#[tokio::test]
async fn wrong_current_passwords_are_counted_per_session() {
    let t = team().await;
    let elsewhere = t.ada.log_in().await;
    let change = |who: &Person, current: &str| {
        let form = json!({"current_password": current, "new_password": "another battery"});
        let who = who.clone();
        async move { who.post("/v1/auth/password", form).await }
    };
    let mut refused = change(&t.ada, "wrong horse").await;
    for _ in 0..30 {
        if refused.status == 429 {
            break;
        }
        refused = change(&t.ada, "wrong horse").await;
    }
    assert_eq!(refused.refused(429), "too_many_attempts");
    t.ada.log_in().await;
    change(&elsewhere, PASSWORD).await.is(204);
}

#[tokio::test]
async fn guesses_from_an_address_are_counted_across_accounts() {
    let t = team_with(&[("TRUSTED_PROXIES", "127.0.0.1")]).await;
    let who = visitor(&t.app.base);
    let attempt = |address: &'static str, email: String, password: &'static str| {
        let who = who.clone();
        async move {
            let body = log_in(&email, password).to_string().into_bytes();
            let headers = [("x-forwarded-for", address)];
            who.send(Method::POST, "/v1/auth/login", &headers, Some(body))
                .await
        }
    };
    let send = |n| attempt("203.0.113.7", format!("nobody{n}@example.org"), "wrong");
    let (refused, granted) = until_limited(send).await;
    assert!(granted >= 28, "{granted}");
    assert_eq!(refused.refused(429), "too_many_attempts");
    let right = |address| attempt(address, "ada@example.org".to_owned(), "correct horse");
    right("203.0.113.8").await.is(200);
    within("the right password to be refused as well", async {
        // The limit recovers one attempt per second, which can be faster than the requests of a slow machine.
        while right("203.0.113.7").await.status != 429 {
            until_limited(send).await;
        }
    })
    .await;
}

#[tokio::test]
async fn successful_logins_are_not_counted() {
    let t = team().await;
    for _ in 0..15 {
        t.ada.log_in().await;
    }
}

#[tokio::test]
async fn socket_frames_count_as_requests() {
    let t = team_with(&[STOPPED]).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let mut socket = t.bo.socket().await;
    let mark = json!({"type": "read", "thread_id": thread, "seq": 0});
    let mut refused = Value::Null;
    for _ in 0..MANY {
        let answer = socket.request(mark.clone()).await;
        if answer["type"] == "error" {
            refused = answer;
            break;
        }
    }
    assert_eq!(refused["error"]["code"], "rate_limited", "{refused}");
    assert_eq!(refused["error"]["retry_after_s"], 1);
    // The limit applies to the person, for HTTP and sockets together.
    let (limited, granted) = until_limited(|_| change(&t.bo)).await;
    assert!(granted < 300, "{granted}");
    wait_of(limited);
    socket.ack(json!({"type": "ping"})).await;
    let mut other = t.ada.socket().await;
    other
        .ack(json!({"type": "message.send", "thread_id": thread, "content": "Mine", "client_id": "a"}))
        .await;
}

#[tokio::test]
async fn no_limit_applies_when_limits_are_off() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let nobody = visitor(&t.app.base);
    let statuses = stream::iter(0..700).map(|n| {
        let (nobody, bo) = (nobody.clone(), t.bo.clone());
        async move {
            let strange = nobody.get("/v1/auth/setup").await.status;
            let changed = if n < 600 {
                change(&bo).await.status
            } else {
                404
            };
            (strange, changed)
        }
    });
    let statuses: Vec<_> = statuses.buffered(32).collect().await;
    assert!(statuses.iter().all(|status| *status == (200, 404)));
}

/// Returns the status, `Retry-After`, and error code of a rejected upgrade.
async fn upgrade_refused(person: &Person) -> (u16, String, String) {
    match Socket::try_open(person).await {
        Err(Error::Http(response)) => {
            let header = response.headers().get("retry-after").unwrap();
            let body = response.body().clone().unwrap_or_default();
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            (
                response.status().as_u16(),
                header.to_str().unwrap().to_owned(),
                body["error"]["code"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            )
        }
        Err(e) => panic!("{e}"),
        Ok(()) => panic!("the upgrade was granted"),
    }
}

#[tokio::test]
async fn a_users_sockets_are_limited() {
    let t = team_with(&[("SOCKETS_PER_USER", "2")]).await;
    let mut first = t.bo.socket().await;
    let (robot, _) = t.bo.make_key(&["chat:read"]).await;
    let _second = robot.socket().await;
    let (status, wait, code) = upgrade_refused(&t.bo).await;
    assert_eq!((status, code.as_str()), (429, "too_many_sockets"));
    assert!(wait.parse::<u64>().unwrap() >= 1);
    let _of_ada = t.ada.socket().await;
    first.ack(json!({"type": "ping"})).await;
    drop(first);
    within("a place to be free", async {
        while Socket::try_open(&t.bo).await.is_err() {
            crate::support::pause().await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_servers_sockets_are_limited() {
    let t = team_with(&[("SOCKETS_MAX", "2")]).await;
    let _first = t.ada.socket().await;
    let _second = t.bo.socket().await;
    for who in [&t.ada, &t.bo, &t.ada.signed_out()] {
        let (status, wait, code) = upgrade_refused(who).await;
        assert_eq!((status, code.as_str()), (503, "too_many_sockets"));
        assert!(wait.parse::<u64>().unwrap() >= 1);
    }
    t.ada.get("/v1/auth/me").await.is(200);
}

#[tokio::test]
async fn the_task_queue_limit_is_configurable() {
    let t = team_with(&[("WORKERS", "1"), ("TASKS_QUEUED_MAX", "2")]).await;
    let gate = Gate::new();
    t.model()
        .script("vibe", [Answer::text("Done.").held(&gate)]);
    let thread = t.ada.thread(&t.general, "@vibe hold the only worker").await;
    gate.reached().await;
    for n in 0..2 {
        t.ada.ask(&thread, &format!("@vibe {n}")).await;
    }
    let posted = t.ada.say(&thread, "@vibe one more").await;
    assert_eq!(posted["tasks"][0]["error"]["code"], "queue_full");
}

#[tokio::test]
async fn the_workspaces_per_user_limit_is_configurable() {
    let app = TestApp::with(&[("SIGNUP", "open"), ("WORKSPACES_PER_USER", "2")]).await;
    let ada = app.founder("Ada").await;
    let bo = app.founder("Bo").await;
    let make = |name: &'static str| ada.post("/v1/workspaces", json!({"name": name}));
    make("Second").await.is(201);
    assert_eq!(make("Third").await.refused(409), "too_many_workspaces");
    let invite = bo
        .post("/v1/invites", json!({"role": "member"}))
        .await
        .is(201);
    let accept = format!("/v1/invites/{}/accept", text(&invite, "/token"));
    assert_eq!(ada.act(&accept).await.refused(409), "too_many_workspaces");
    bo.act(&accept).await.is(200);
    assert_eq!(
        list(&ada.get("/v1/workspaces").await.ok(), "/data").len(),
        2
    );
}

#[tokio::test]
async fn a_flood_of_mentions_in_one_workspace_does_not_delay_another() {
    let app = TestApp::with(&[("SIGNUP", "open"), ("WORKERS", "1")]).await;
    let (ada, bo) = (app.founder("Ada").await, app.founder("Bo").await);
    let (here, there) = (
        id(&ada.channel("general").await),
        id(&bo.channel("general").await),
    );
    let gate = Gate::new();
    app.model
        .script("vibe", [Answer::text("Done.").held(&gate)]);
    ada.start(&here, "@vibe ADA holds the worker").await;
    gate.reached().await;
    let flood = (0..12).map(|n| {
        let (ada, here) = (ada.clone(), here.clone());
        async move {
            let thread = ada.thread(&here, "Flood").await;
            for _ in 0..18 {
                ada.say(&thread, &format!("@vibe ADA {n}")).await;
            }
        }
    });
    futures::future::join_all(flood).await;
    let theirs = bo.start(&there, "@vibe BO asks once").await;
    gate.open();
    bo.completed(&text(&theirs, "/tasks/0/id")).await;
    let before = app
        .model
        .requests()
        .iter()
        .take_while(|request| !request.all().contains("BO asks once"))
        .count();
    assert!(before <= 6, "{before} of the flood came first");
}

/// Opens a connection that announces a body but does not send it.
async fn hanging(base: &str) -> tokio::net::TcpStream {
    use tokio::io::AsyncWriteExt;
    let address = base.trim_start_matches("http://");
    let mut tcp = tokio::net::TcpStream::connect(address).await.unwrap();
    let head =
        format!("POST /v1/auth/login HTTP/1.1\r\nhost: {address}\r\ncontent-length: 100\r\n\r\n{{");
    tcp.write_all(head.as_bytes()).await.unwrap();
    tcp
}

#[tokio::test]
async fn under_load_sigterm_stops_the_server_in_time_without_losses() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let settings = [("RATE_LIMITS", "off")];
    let server = TestProcess::start(&place, &model, &settings).await;
    let ada = sign_up_with_workspace(&server.base, "Ada").await;
    let general = id(&ada.channel("general").await);
    let gate = Gate::new();
    let answer = Answer::stream()
        .piece("Half of it")
        .wait(&gate)
        .piece(" and more")
        .end();
    model.script("vibe", [answer]);
    let (mut sockets, thread) = (Vec::new(), ada.thread(&general, "@vibe stream").await);
    for _ in 0..8 {
        sockets.push(ada.socket().await);
    }
    sockets[0].subscribe(&thread).await;
    sockets[0].of("task.delta").await;
    gate.reached().await;
    let _hanging = hanging(&server.base).await;
    let busy = ada.thread(&general, "Busy").await;
    let mut writers = JoinSet::new();
    for w in 0..16 {
        let (ada, path) = (ada.clone(), format!("/v1/threads/{busy}/messages"));
        writers.spawn(async move {
            let mut acknowledged = Vec::new();
            for n in 0.. {
                let content = format!("{w}-{n}");
                let Some(reply) = ada.try_post(&path, json!({"content": content})).await else {
                    break;
                };
                if reply.status != 201 {
                    assert_eq!(reply.status, 503, "{}", reply.text);
                    break;
                }
                acknowledged.push(content);
            }
            acknowledged
        });
    }
    sockets[1]
        .until("the load to begin", |frame| {
            frame["data"]["message"]["thread_id"] == busy.as_str()
        })
        .await;
    let started = std::time::Instant::now();
    server.terminate();
    assert!(server.exited().await.success());
    let took = started.elapsed();
    assert!(took.as_secs() < 10, "{took:?}");
    for mut socket in sockets {
        assert_eq!(socket.closed().await, 1001);
    }
    let mut acknowledged = within("the writers to stop", writers.join_all())
        .await
        .concat();
    gate.open();
    let server = TestProcess::start(&place, &model, &settings).await;
    let ada = ada.at(&server.base);
    let mut kept = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/v1/threads/{busy}/messages?limit=100{cursor}");
        let page = list(&ada.get(&path).await.ok(), "/data");
        let Some(first) = page.first() else { break };
        cursor = format!("&before={}", id(first));
        kept.extend(page.iter().map(|message| text(message, "/content")));
    }
    acknowledged.retain(|content| !kept.contains(content));
    assert_eq!(acknowledged, Vec::<String>::new(), "lost");
    let task = ada.event_where("the task", |event| event["data"]["task"].is_object());
    let task = text(&task.await, "/data/task/id");
    ada.completed(&task).await;
}
