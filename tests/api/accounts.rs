//! Accounts, log-in, sessions, and client addresses.

use futures::future::join;
use serde_json::{Value, json};

use crate::support::{
    Hold, ModelServer, TestApp, TestDatabase, TestProcess, id, list, sign_up, team, text, visitor,
};

const PASSWORD: &str = "correct horse";

fn form(email: &str) -> Value {
    json!({"email": email, "password": PASSWORD, "name": "Someone"})
}

#[tokio::test]
async fn the_first_account_needs_no_invite_and_the_second_does() {
    let app = TestApp::start().await;
    let before = visitor(&app.base).get("/v1/auth/setup").await.ok();
    assert_eq!(
        before,
        json!({"needs_setup": true, "signup": "first", "setup_token_required": false, "mail": false})
    );
    let ada = app.founder("Ada").await;
    assert_eq!(
        visitor(&app.base).get("/v1/auth/setup").await.ok()["needs_setup"],
        false
    );
    // The response does not reveal that an email address is taken.
    for email in ["bo@example.org", "ada@example.org"] {
        let second = visitor(&app.base)
            .post("/v1/auth/signup", form(email))
            .await;
        assert_eq!(second.refused(403), "signup_closed", "{email}");
    }
    app.join(&ada, "Bo", "member").await;
}

#[tokio::test]
async fn only_one_of_two_concurrent_first_accounts_is_created() {
    let app = TestApp::start().await;
    let who = visitor(&app.base);
    let posts = (0..5).map(|n| who.post("/v1/auth/signup", form(&format!("p{n}@example.org"))));
    let made = futures::future::join_all(posts)
        .await
        .iter()
        .filter(|r| r.status == 201)
        .count();
    assert_eq!(made, 1);
}

#[tokio::test]
async fn an_open_server_lets_everyone_sign_up_and_create_workspaces() {
    let app = TestApp::with(&[("SIGNUP", "open")]).await;
    app.founder("Ada").await;
    let bo = sign_up(&app.base, "Bo", None).await;
    assert_eq!(
        bo.post("/v1/workspaces", json!({"name": "Bo's"}))
            .await
            .is(201)["role"],
        "admin"
    );
}

const SETUP_TOKEN: &str = "first-account-of-this-test";

/// Settings of a server behind a proxy with TLS.
const BEHIND_A_PROXY: [(&str, &str); 2] = [
    ("PUBLIC_URL", "https://chat.example"),
    ("SETUP_TOKEN", SETUP_TOKEN),
];

/// Form of a sign-up with the setup token.
fn first_form(email: &str) -> Value {
    let mut form = form(email);
    form["setup_token"] = SETUP_TOKEN.into();
    form
}

#[tokio::test]
async fn the_first_account_of_a_public_or_closed_server_requires_the_setup_token() {
    for (name, value) in [
        ("PUBLIC_URL", "https://chat.example"),
        ("PUBLIC_URL", "http://192.0.2.7:8080"),
        ("SIGNUP", "invite"),
    ] {
        for signup in ["first", "open"] {
            let settings = [
                ("SETUP_TOKEN", SETUP_TOKEN),
                ("SIGNUP", signup),
                (name, value),
            ];
            let app = TestApp::with(&settings).await;
            let who = visitor(&app.base);
            let setup = who.get("/v1/auth/setup").await.ok();
            assert_eq!(setup["setup_token_required"], true, "{name}={value}");
            let refused = who.post("/v1/auth/signup", form("eve@example.org")).await;
            assert_eq!(refused.refused(403), "setup_token_required");
            let who = visitor(&app.base);
            who.post("/v1/auth/signup", first_form("ada@example.org"))
                .await
                .is(201);
        }
    }
}

#[tokio::test]
async fn a_forwarded_request_cannot_create_the_first_account_without_the_setup_token() {
    let app = TestApp::with(&[("SETUP_TOKEN", SETUP_TOKEN)]).await;
    let who = visitor(&app.base);
    let body = form("eve@example.org").to_string().into_bytes();
    for header in [
        ("x-forwarded-for", "203.0.113.7"),
        ("forwarded", "for=203.0.113.7"),
        ("x-forwarded-proto", "https"),
        ("x-real-ip", "203.0.113.7"),
        ("via", "1.1 proxy"),
    ] {
        let setup = who
            .send(reqwest::Method::GET, "/v1/auth/setup", &[header], None)
            .await;
        assert_eq!(setup.ok()["setup_token_required"], true, "{header:?}");
        let refused = who
            .send(
                reqwest::Method::POST,
                "/v1/auth/signup",
                &[header],
                Some(body.clone()),
            )
            .await;
        assert_eq!(refused.refused(403), "setup_token_required", "{header:?}");
    }
    who.post("/v1/auth/signup", form("ada@example.org"))
        .await
        .is(201);
}

#[tokio::test]
async fn an_invite_only_server_has_no_further_accounts_without_an_invite() {
    let settings = [("SIGNUP", "invite"), ("SETUP_TOKEN", SETUP_TOKEN)];
    let app = TestApp::with(&settings).await;
    app.founder("Ada").await;
    let refused = visitor(&app.base)
        .post("/v1/auth/signup", first_form("eve@example.org"))
        .await;
    assert_eq!(refused.refused(403), "signup_closed");
}

#[tokio::test]
async fn the_setup_link_is_printed_until_it_is_used() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let settings = [("LISTEN", "0.0.0.0:0")];
    let server = TestProcess::start(&place, &model, &settings).await;
    let base = server.base.replace("0.0.0.0", "127.0.0.1");
    let printed: Vec<String> = server
        .said
        .iter()
        .filter_map(|line| line.strip_prefix("setup link: ").map(str::to_owned))
        .collect();
    assert!(
        printed.iter().all(|link| !link.contains("0.0.0.0")),
        "{printed:?}"
    );
    let token_of = |link: &str| link.split("setup_token=").nth(1).unwrap().trim().to_owned();
    let token = token_of(&printed[0]);
    let print_link = |settings: &[(&str, &str)]| {
        crate::support::command(&place, &model, settings)
            .arg("setup-link")
            .output()
            .unwrap()
    };
    let output = print_link(&[("PUBLIC_URL", "https://chat.example")]);
    let link = String::from_utf8(output.stdout).unwrap();
    let expected = format!("https://chat.example/setup?setup_token={token}\n");
    assert_eq!(link, expected);
    server.kill().await;
    let server = TestProcess::start(&place, &model, &settings).await;
    let again = server
        .said
        .iter()
        .find(|line| line.contains("setup_token="));
    assert_eq!(token_of(again.unwrap()), token, "after a restart");
    let base = base.replace(
        base.rsplit(':').next().unwrap(),
        server.base.rsplit(':').next().unwrap(),
    );
    let mut first = form("ada@example.org");
    first["setup_token"] = token.into();
    visitor(&base).post("/v1/auth/signup", first).await.is(201);
    let output = print_link(&[]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("its setup link is used up"), "{error}");
}

#[tokio::test]
async fn a_command_does_not_create_a_database() {
    let (place, model) = (TestDatabase::new().await, ModelServer::start().await);
    let empty = place.dir.join("nothing-here");
    let database = format!("sqlite://{}/openvibe.db", empty.display());
    let settings = [
        ("DATA_DIR", empty.to_str().unwrap()),
        ("DATABASE_URL", &database),
    ];
    for arguments in [
        &["user", "reset-password", "--email", "ada@example.org"][..],
        &[
            "user",
            "create",
            "--email",
            "ada@example.org",
            "--name",
            "Ada",
        ],
        &["setup-link"],
        &["epoch", "new"],
    ] {
        let output = crate::support::command(&place, &model, &settings)
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("there is no database at "), "{error}");
        assert!(!empty.join("openvibe.db").exists(), "{arguments:?}");
    }
}

#[tokio::test]
async fn on_a_public_address_the_first_sign_up_requires_the_setup_token() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let server = TestProcess::start(&place, &model, &[("LISTEN", "0.0.0.0:0")]).await;
    let base = server.base.replace("0.0.0.0", "127.0.0.1");
    let link = server
        .said
        .iter()
        .find(|line| line.contains("setup_token="))
        .expect("a setup link");
    let token = link.split("setup_token=").nth(1).unwrap().trim();
    let who = visitor(&base);
    assert_eq!(
        who.get("/v1/auth/setup").await.ok()["setup_token_required"],
        true
    );
    who.post("/v1/auth/signup", form("eve@example.org"))
        .await
        .refused(403);
    let mut wrong = form("eve@example.org");
    wrong["setup_token"] = "nonsense".into();
    who.post("/v1/auth/signup", wrong).await.refused(403);
    let mut right = form("ada@example.org");
    right["setup_token"] = token.into();
    who.post("/v1/auth/signup", right).await.is(201);
    assert_eq!(
        who.get("/v1/auth/setup").await.ok()["setup_token_required"],
        false
    );
}

#[tokio::test]
async fn signing_up_starts_a_session() {
    let app = TestApp::start().await;
    let reply = visitor(&app.base)
        .post("/v1/auth/signup", form("Ada@Example.org "))
        .await;
    let cookie = reply.header("set-cookie").unwrap();
    assert!(cookie.starts_with("openvibe_session="), "{cookie}");
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax") && cookie.contains("Path=/"),
        "{cookie}"
    );
    assert!(!cookie.contains("Secure"), "{cookie}");
    let account = reply.is(201);
    assert_eq!(account["user"]["email"], "ada@example.org");
    assert_eq!(account["user"]["name"], "Someone");
    assert_eq!(account["workspaces"], json!([]));
    assert!(account["user"].get("password_hash").is_none());
}

#[tokio::test]
async fn under_https_the_cookie_is_secure() {
    let app = TestApp::with(&BEHIND_A_PROXY).await;
    let mut who = visitor(&app.base);
    who.origin = Some("https://chat.example".to_owned());
    let reply = who
        .post("/v1/auth/signup", first_form("ada@example.org"))
        .await;
    assert!(reply.header("set-cookie").unwrap().contains("Secure"));
}

#[tokio::test]
async fn an_account_that_breaks_a_rule_is_not_created() {
    let app = TestApp::with(&[("SIGNUP", "open")]).await;
    let who = visitor(&app.base);
    for (field, bad) in [
        ("email", "no-address"),
        ("email", "a@b@c"),
        ("email", ""),
        ("name", ""),
        ("name", "  "),
        ("name", "[Ada]"),
        ("name", "Vibe (AI)"),
        ("name", "a\nb"),
        ("name", &"x".repeat(81)),
        ("password", "short"),
    ] {
        let mut form = form("ada@example.org");
        form[field] = bad.into();
        who.post("/v1/auth/signup", form).await.refused(422);
    }
    assert_eq!(who.get("/v1/auth/setup").await.ok()["needs_setup"], true);
}

#[tokio::test]
async fn an_email_address_has_one_account() {
    let app = TestApp::with(&[("SIGNUP", "open")]).await;
    let who = visitor(&app.base);
    who.post("/v1/auth/signup", form("ada@example.org"))
        .await
        .is(201);
    who.post("/v1/auth/signup", form("ADA@example.org"))
        .await
        .refused(409);
}

#[tokio::test]
async fn sign_ups_with_a_taken_email_are_limited_like_logins() {
    let app = TestApp::with(&[("SIGNUP", "open")]).await;
    let who = visitor(&app.base);
    let sign_up = || who.post("/v1/auth/signup", form("ada@example.org"));
    sign_up().await.is(201);
    let mut codes = Vec::new();
    for _ in 0..20 {
        codes.push(text(&sign_up().await.json(), "/error/code"));
    }
    assert!(codes.iter().any(|code| code == "email_taken"), "{codes:?}");
    assert_eq!(codes[19], "too_many_attempts", "{codes:?}");
}

#[tokio::test]
async fn login_requires_email_and_password() {
    let t = team().await;
    let who = visitor(&t.app.base);
    let right = json!({"email": "ADA@example.org", "password": PASSWORD});
    let account = who.post("/v1/auth/login", right).await.is(200);
    assert_eq!(account["user"]["id"], t.ada.id.as_str());
    assert_eq!(account["workspaces"][0]["role"], "admin");
    for wrong in [
        json!({"email": "ada@example.org", "password": "wrong horse"}),
        json!({"email": "eve@example.org", "password": PASSWORD}),
    ] {
        who.post("/v1/auth/login", wrong).await.refused(401);
    }
}

#[tokio::test]
async fn password_guessing_is_slowed_down() {
    let t = team().await;
    let who = visitor(&t.app.base);
    let guess = json!({"email": "ada@example.org", "password": "wrong horse"});
    let mut refused = None;
    for _ in 0..20 {
        let reply = who.post("/v1/auth/login", guess.clone()).await;
        if reply.status == 429 {
            refused = Some(reply);
            break;
        }
        reply.refused(401);
    }
    let refused = refused.expect("a limit");
    assert!(
        refused
            .header("retry-after")
            .unwrap()
            .parse::<u64>()
            .unwrap()
            >= 1
    );
    refused.refused(429);
}

#[tokio::test]
async fn without_rate_limits_nobody_is_slowed_down() {
    let t = crate::support::team_with(&[("RATE_LIMITS", "off")]).await;
    let who = visitor(&t.app.base);
    for _ in 0..15 {
        who.post(
            "/v1/auth/login",
            json!({"email": "ada@example.org", "password": "x"}),
        )
        .await
        .refused(401);
    }
}

#[tokio::test]
async fn requests_without_a_session_are_rejected() {
    let t = team().await;
    let nobody = t.ada.signed_out();
    for path in [
        "/v1/auth/me",
        "/v1/snapshot",
        "/v1/channels",
        "/v1/members",
        "/v1/events",
        "/v1/agents",
        "/v1/tasks",
        "/v1/workspaces",
    ] {
        nobody.get(path).await.refused(401);
    }
    let mut forged = nobody.clone();
    forged.cookie = Some("openvibe_session=made-up".to_owned());
    forged.get("/v1/auth/me").await.refused(401);
    nobody
        .with_key("ov_made_up")
        .get("/v1/auth/me")
        .await
        .refused(401);
    nobody
        .with_key("made-up")
        .get("/v1/auth/me")
        .await
        .refused(401);
}

#[tokio::test]
async fn logging_out_ends_only_that_session() {
    let t = team().await;
    let elsewhere = t.ada.log_in().await;
    let out = t.ada.act("/v1/auth/logout").await;
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    out.is(204);
    t.ada.get("/v1/auth/me").await.refused(401);
    elsewhere.get("/v1/auth/me").await.is(200);
}

#[tokio::test]
async fn sessions_are_listed_and_ended_one_by_one() {
    let t = team().await;
    let elsewhere = t.ada.log_in().await;
    let sessions = list(&t.ada.get("/v1/auth/sessions").await.ok(), "/data");
    assert_eq!(sessions.len(), 2);
    assert_eq!(sessions.iter().filter(|s| s["current"] == true).count(), 1);
    let other = sessions.iter().find(|s| s["current"] == false).unwrap();
    let path = format!("/v1/auth/sessions/{}", id(other));
    t.bo.delete(&path).await.refused(404);
    t.ada.delete(&path).await.is(204);
    elsewhere.get("/v1/auth/me").await.refused(401);
    t.ada.get("/v1/auth/me").await.is(200);
    t.ada.delete(&path).await.refused(404);
}

#[tokio::test]
async fn all_other_sessions_are_ended_at_once_with_their_sockets() {
    let t = team().await;
    let (one, two) = (t.ada.log_in().await, t.ada.log_in().await);
    let mut other = one.socket().await;
    let mut own = t.ada.socket().await;
    t.ada.delete("/v1/auth/sessions").await.is(204);
    assert_eq!(other.closed().await, 4001);
    for elsewhere in [one, two] {
        elsewhere.get("/v1/auth/me").await.refused(401);
    }
    own.ack(json!({"type": "ping"})).await;
    let left = list(&t.ada.get("/v1/auth/sessions").await.ok(), "/data");
    assert_eq!(left.len(), 1);
    t.bo.get("/v1/auth/me").await.is(200);
}

#[tokio::test]
async fn a_person_has_a_hundred_sessions_and_another_one_ends_the_oldest() {
    let t = team().await;
    let mut oldest = t.ada.socket().await;
    let second = t.ada.log_in().await;
    for _ in 2..100 {
        t.ada.log_in().await;
    }
    t.ada.get("/v1/auth/me").await.is(200);
    let newest = t.ada.log_in().await;
    assert_eq!(oldest.closed().await, 4001);
    t.ada.get("/v1/auth/me").await.refused(401);
    second.get("/v1/auth/me").await.is(200);
    let page = newest.get("/v1/auth/sessions?limit=100").await.ok();
    assert_eq!(list(&page, "/data").len(), 100);
    assert_eq!(page["has_more"], false);
    t.bo.get("/v1/auth/me").await.is(200);
}

#[tokio::test]
async fn logging_in_again_in_a_browser_closes_the_sockets_of_its_previous_session() {
    let t = team().await;
    let browser = t.ada.log_in().await;
    let mut socket = browser.socket().await;
    let login = json!({"email": "ada@example.org", "password": PASSWORD});
    browser.post("/v1/auth/login", login).await.is(200);
    assert_eq!(socket.closed().await, 4001);
    browser.get("/v1/auth/me").await.refused(401);
    t.ada.get("/v1/auth/me").await.is(200);
}

#[tokio::test]
async fn a_password_that_changes_while_it_is_verified_does_not_log_in() {
    let (place, model) = (TestDatabase::new().await, ModelServer::start().await);
    let hold = Hold::new().await;
    let failpoint = hold.at("login_verified:1");
    let server = TestProcess::start(&place, &model, &[("FAILPOINT", &failpoint)]).await;
    let ada = sign_up(&server.base, "Ada", None).await;
    let who = visitor(&server.base);
    let old = json!({"email": "ada@example.org", "password": PASSWORD});
    let log_in = who.post("/v1/auth/login", old);
    let change_meanwhile = async {
        let held = hold.reached().await;
        let change = json!({"current_password": PASSWORD, "new_password": "battery staple"});
        ada.post("/v1/auth/password", change).await.is(204);
        drop(held);
    };
    let (reply, ()) = join(log_in, change_meanwhile).await;
    reply.refused(401);
    ada.get("/v1/auth/me").await.is(200);
}

#[tokio::test]
async fn changing_the_password_ends_the_other_sessions() {
    let t = team().await;
    let elsewhere = t.ada.log_in().await;
    let change =
        |current: &str| json!({"current_password": current, "new_password": "battery staple"});
    t.ada
        .post("/v1/auth/password", change("wrong horse"))
        .await
        .refused(403);
    t.ada
        .post(
            "/v1/auth/password",
            json!({"current_password": PASSWORD, "new_password": "short"}),
        )
        .await
        .refused(422);
    t.ada
        .post("/v1/auth/password", change(PASSWORD))
        .await
        .is(204);
    elsewhere.get("/v1/auth/me").await.refused(401);
    t.ada.get("/v1/auth/me").await.is(200);
    let who = visitor(&t.app.base);
    who.post(
        "/v1/auth/login",
        json!({"email": "ada@example.org", "password": PASSWORD}),
    )
    .await
    .refused(401);
    who.post(
        "/v1/auth/login",
        json!({"email": "ada@example.org", "password": "battery staple"}),
    )
    .await
    .is(200);
}

#[tokio::test]
async fn a_name_change_is_sent_to_the_workspace() {
    let t = team().await;
    let mut socket = t.bo.socket().await;
    let me = t
        .ada
        .patch("/v1/auth/me", json!({"name": "Ada L."}))
        .await
        .is(200);
    assert_eq!(me["user"]["name"], "Ada L.");
    let event = socket.of("member.updated").await;
    assert_eq!(event["data"]["member"]["name"], "Ada L.");
    assert_eq!(event["data"]["member"]["handle"], "ada", "the handle stays");
    t.ada
        .patch("/v1/auth/me", json!({"name": "Vibe (AI)"}))
        .await
        .refused(422);
}

#[tokio::test]
async fn a_session_survives_a_restart() {
    let mut t = team().await;
    t.app.restart(&[]).await;
    assert_eq!(
        t.ada.at(&t.app.base).get("/v1/auth/me").await.ok()["user"]["id"],
        t.ada.id.as_str()
    );
}

#[tokio::test]
async fn changes_with_a_cookie_require_the_servers_own_origin() {
    let t = team().await;
    let send = async |origin: Option<&str>, site: Option<&str>| -> u16 {
        let mut who = t.ada.clone();
        who.origin = origin.map(str::to_owned);
        let headers: Vec<(&str, &str)> = site.map(|s| ("sec-fetch-site", s)).into_iter().collect();
        let body = Some(br#"{"name":"Ada"}"#.to_vec());
        who.send(reqwest::Method::PATCH, "/v1/auth/me", &headers, body)
            .await
            .status
    };
    let port = t.app.base.rsplit(':').next().unwrap();
    let localhost = format!("http://localhost:{port}");
    let other_port = "http://127.0.0.1:1";
    assert_eq!(send(Some(&t.app.base), None).await, 200);
    assert_eq!(
        send(Some(&localhost), None).await,
        200,
        "loopback has several names"
    );
    assert_eq!(send(None, Some("same-origin")).await, 200);
    assert_eq!(send(None, None).await, 403);
    assert_eq!(send(None, Some("same-site")).await, 403);
    assert_eq!(send(None, Some("cross-site")).await, 403);
    assert_eq!(send(Some("https://evil.example"), None).await, 403);
    assert_eq!(
        send(Some("https://evil.example"), Some("same-origin")).await,
        403
    );
    assert_eq!(send(Some("null"), None).await, 403);
    assert_eq!(send(Some(other_port), None).await, 403);
}

#[tokio::test]
async fn login_and_sign_up_require_the_servers_own_origin() {
    let t = team().await;
    let mut evil = visitor(&t.app.base);
    for origin in [None, Some("https://evil.example".to_owned())] {
        evil.origin = origin;
        let login = json!({"email": "ada@example.org", "password": PASSWORD});
        evil.post("/v1/auth/login", login).await.refused(403);
        evil.post("/v1/auth/signup", form("eve@example.org"))
            .await
            .refused(403);
        evil.post("/v1/auth/signup/passkey", json!({}))
            .await
            .refused(403);
    }
}

#[tokio::test]
async fn reads_with_a_cookie_require_no_origin() {
    let t = team().await;
    let mut who = t.ada.clone();
    who.origin = None;
    who.get("/v1/auth/me").await.is(200);
}

#[tokio::test]
async fn the_public_url_is_an_accepted_origin() {
    let app = TestApp::with(&BEHIND_A_PROXY).await;
    let mut who = visitor(&app.base);
    who.origin = Some("https://chat.example".to_owned());
    who.post("/v1/auth/signup", first_form("ada@example.org"))
        .await
        .is(201);
    who.origin = Some("https://chat.example:8443".to_owned());
    who.post(
        "/v1/auth/login",
        json!({"email": "ada@example.org", "password": PASSWORD}),
    )
    .await
    .refused(403);
}

#[tokio::test]
async fn the_command_line_creates_accounts_and_resets_passwords() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let run = |args: &[&str]| {
        let output = crate::support::command(&place, &model, &[])
            .args(args)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    run(&[
        "user",
        "create",
        "--email",
        "ada@example.org",
        "--name",
        "Ada",
        "--password",
        PASSWORD,
    ]);
    let said = run(&["user", "reset-password", "--email", "ada@example.org"]);
    let password = said
        .lines()
        .find_map(|line| line.strip_prefix("password: "))
        .expect("a new password");
    let server = TestProcess::start(&place, &model, &[]).await;
    let who = visitor(&server.base);
    who.post(
        "/v1/auth/login",
        json!({"email": "ada@example.org", "password": PASSWORD}),
    )
    .await
    .refused(401);
    let account = who
        .post(
            "/v1/auth/login",
            json!({"email": "ada@example.org", "password": password}),
        )
        .await
        .is(200);
    assert_eq!(text(&account, "/user/name"), "Ada");
}
