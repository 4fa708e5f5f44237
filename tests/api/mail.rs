//! Emails: the queue, confirmed addresses, invitations, and forgotten passwords.

use serde_json::{Value, json};

use crate::{
    factors::set_up_app,
    faults::prepared,
    support::{
        DEADLINE, MailBehavior, MailServer, PASSWORD, Person, Reply, SECRET_KEY, TestApp, list,
        sign_up_with, team, text, visitor,
    },
};

const NEW_PASSWORD: &str = "another long enough phrase";

async fn app_with_mail() -> (TestApp, Person, MailServer) {
    let mails = MailServer::start().await;
    let settings = [
        ("SMTP_URL", mails.url.as_str()),
        ("SECRET_KEY", SECRET_KEY),
        ("MAIL_FROM", "Chat <chat@example.org>"),
    ];
    let app = TestApp::with(&settings).await;
    let ada = app.founder("Ada").await;
    (app, ada, mails)
}

/// Reads the state of the emails until `is_wanted`.
async fn mail_state(admin: &Person, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let reading = async {
        loop {
            let server = admin.get("/v1/server").await.ok();
            if is_wanted(&server["mail"]) {
                return server["mail"].clone();
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(DEADLINE, reading)
        .await
        .expect("the wanted state of emails")
}

trait Refusal {
    fn refused_as(self, status: u16, code: &str);
}

impl Refusal for Reply {
    #[track_caller]
    fn refused_as(self, status: u16, code: &str) {
        assert_eq!(self.refused(status), code);
    }
}

async fn can_sign_in(app: &TestApp, person: &Person, password: &str) -> bool {
    let form = json!({"email": person.email, "password": password});
    let reply = visitor(&app.base).post("/v1/auth/login", form).await;
    reply.status == 200
}

#[tokio::test]
async fn people_are_told_about_changes_to_how_they_sign_in() {
    let (app, ada, mails) = app_with_mail().await;
    set_up_app(&ada).await;
    let told = mails.nth(1).await;
    assert_eq!(told.to, ada.email);
    assert!(
        told.text
            .contains("Subject: An authenticator app was added"),
        "{}",
        told.text
    );
    assert!(told.text.contains(&app.base), "{}", told.text);
    ada.delete("/v1/auth/totp").await.is(204);
    let told = mails.nth(2).await.text;
    assert!(
        told.contains("Your authenticator app was removed"),
        "{told}"
    );
    // A change that is refused is not told.
    ada.act("/v1/auth/recovery-codes")
        .await
        .refused_as(409, "no_second_factor");
    let form = json!({"current_password": PASSWORD, "new_password": NEW_PASSWORD});
    ada.post("/v1/auth/password", form).await.is(204);
    let told = mails.nth(3).await.text;
    assert!(told.contains("Your password was changed"), "{told}");
}

#[tokio::test]
async fn without_a_mail_server_nothing_is_sent_and_admins_are_told_the_setting() {
    let t = team().await;
    let test = t.ada.post("/v1/server/mail-test", json!({})).await;
    assert!(test.text.contains("OPENVIBE_SMTP_URL"), "{}", test.text);
    test.refused_as(422, "mail_off");
    t.ada
        .post("/v1/mail/confirmation", json!({}))
        .await
        .refused_as(422, "mail_off");
    let reset = visitor(&t.app.base)
        .post("/v1/auth/reset", json!({"email": t.ada.email}))
        .await;
    reset.refused_as(422, "mail_off");
    let made = t
        .ada
        .post("/v1/invites", json!({"email": "bo@example.org"}))
        .await
        .is(201);
    assert_eq!(made["mail"], "off");
    assert_eq!(t.ada.get("/v1/server").await.ok()["mail"]["enabled"], false);
}

#[tokio::test]
async fn a_test_email_says_what_the_mail_server_answered() {
    let (_app, ada, mails) = app_with_mail().await;
    let test = ada.post("/v1/server/mail-test", json!({})).await.ok();
    assert_eq!(
        (&test["sent"], &test["answer"]),
        (&json!(true), &json!("250 2.0.0 queued as 1"))
    );
    let mail = mails.nth(1).await;
    assert_eq!(mail.to, ada.email);
    for part in [
        "From: Chat <chat@example.org>",
        "Auto-Submitted: auto-generated",
        "text/html",
    ] {
        assert!(mail.text.contains(part), "{part} in {}", mail.text);
    }
    mails.behave(MailBehavior::RefuseLogin);
    let test = ada.post("/v1/server/mail-test", json!({})).await.ok();
    assert_eq!(test["sent"], false);
    assert!(
        text(&test, "/answer").contains("535 5.7.8 wrong password"),
        "{test}"
    );
    assert!(!test.to_string().contains("hunter2"));
}

#[tokio::test]
async fn an_address_is_confirmed_by_the_link_that_was_sent_to_it_once() {
    let (app, ada, mails) = app_with_mail().await;
    let me = ada.get("/v1/auth/me").await.ok();
    assert_eq!(me["user"]["email_confirmed"], false);
    assert_eq!(
        ada.post("/v1/mail/confirmation", json!({})).await.status,
        202
    );
    let token = mails.nth(1).await.token("/confirm/");
    let confirm = async |token: &str| {
        visitor(&app.base)
            .post("/v1/mail/confirm", json!({"token": token}))
            .await
    };
    confirm("not-a-token").await.refused_as(404, "link_expired");
    assert_eq!(confirm(&token).await.status, 204);
    confirm(&token).await.refused_as(404, "link_expired");
    let me = ada.get("/v1/auth/me").await.ok();
    assert_eq!(me["user"]["email_confirmed"], true);
    ada.post("/v1/mail/confirmation", json!({}))
        .await
        .refused_as(409, "address_confirmed");
}

#[tokio::test]
async fn three_confirmations_are_sent_in_a_day() {
    let (_app, ada, mails) = app_with_mail().await;
    for n in 1..=3 {
        assert_eq!(
            ada.post("/v1/mail/confirmation", json!({})).await.status,
            202,
            "{n}"
        );
    }
    ada.post("/v1/mail/confirmation", json!({}))
        .await
        .refused_as(429, "rate_limited");
    mails.nth(3).await;
}

#[tokio::test]
async fn a_forgotten_password_is_set_with_a_link_that_works_once() {
    let (app, ada, mails) = app_with_mail().await;
    let (program, _) = ada.make_key(&["chat:read"]).await;
    let reset = async |email: &str| {
        visitor(&app.base)
            .post("/v1/auth/reset", json!({"email": email}))
            .await
            .status
    };
    assert_eq!(
        reset("nobody@example.org").await,
        202,
        "callers cannot tell"
    );
    assert_eq!(reset(&ada.email).await, 202);
    let token = mails.nth(1).await.token("/reset/");
    let set = async |token: &str, password: &str| {
        let form = json!({"token": token, "password": password});
        visitor(&app.base)
            .post("/v1/auth/reset/confirm", form)
            .await
    };
    set(&token, "short").await.refused_as(422, "invalid_value");
    let (one, other) = tokio::join!(set(&token, NEW_PASSWORD), set(&token, NEW_PASSWORD));
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [204, 404], "the link works once");
    ada.get("/v1/auth/me")
        .await
        .refused_as(401, "not_signed_in");
    assert!(!can_sign_in(&app, &ada, PASSWORD).await);
    assert!(can_sign_in(&app, &ada, NEW_PASSWORD).await);
    program
        .get("/v1/auth/me")
        .await
        .refused_as(401, "not_signed_in");
    let notice = mails.nth(2).await;
    assert!(
        notice.text.contains("Subject: Your password was changed"),
        "{}",
        notice.text
    );
}

#[tokio::test]
async fn three_links_for_a_new_password_are_sent_in_an_hour() {
    let (app, ada, mails) = app_with_mail().await;
    let reset = async || {
        let form = json!({"email": ada.email});
        let reply = visitor(&app.base).post("/v1/auth/reset", form).await;
        assert_eq!(reply.status, 202);
    };
    for n in 1..=3 {
        reset().await;
        mails.nth(n).await.token("/reset/");
    }
    reset().await;
    let form = json!({});
    ada.post("/v1/mail/confirmation", form).await.is(202);
    mails.nth(4).await.token("/confirm/");
}

#[tokio::test]
async fn links_of_emails_lead_to_the_public_url_whatever_the_request_names() {
    let mails = MailServer::start().await;
    let settings = [
        ("SMTP_URL", mails.url.as_str()),
        ("SECRET_KEY", SECRET_KEY),
        ("PUBLIC_URL", "https://chat.example.org"),
        ("SETUP_TOKEN", "first-account-of-this-test"),
    ];
    let app = TestApp::with(&settings).await;
    let form = json!({"setup_token": "first-account-of-this-test"});
    let ada = sign_up_with(&app.base, "Ada", form).await;
    let body = serde_json::to_vec(&json!({"email": ada.email})).unwrap();
    let headers = [("x-forwarded-host", "evil.example")];
    let sent = visitor(&app.base)
        .send(
            reqwest::Method::POST,
            "/v1/auth/reset",
            &headers,
            Some(body),
        )
        .await;
    assert_eq!(sent.status, 202);
    let mail = mails.nth(1).await;
    assert!(
        mail.text.contains("https://chat.example.org/reset/"),
        "{}",
        mail.text
    );
    assert!(!mail.text.contains("evil.example"), "{}", mail.text);
}

#[tokio::test]
async fn an_invited_address_gets_a_link_that_confirms_it() {
    let (app, ada, mails) = app_with_mail().await;
    let made = ada
        .post(
            "/v1/invites",
            json!({"email": "Bo@Example.org", "max_uses": 1}),
        )
        .await
        .is(201);
    assert_eq!(made["mail"], "queued");
    let mail = mails.nth(1).await;
    assert_eq!(mail.to, "bo@example.org");
    let token = mail.token("/invite/");
    assert_ne!(
        token,
        text(&made, "/token"),
        "the admin does not see the token that confirms"
    );
    let form = json!({"invite": token});
    let bo = sign_up_with(&app.base, "Bo", form).await;
    assert_eq!(
        bo.get("/v1/auth/me").await.ok()["user"]["email_confirmed"],
        true
    );
    let mut sent = json!(null);
    for _ in 0..100 {
        let invites = ada.get("/v1/invites").await.ok();
        sent = list(&invites, "/data")
            .into_iter()
            .find(|i| i["id"] == made["id"])
            .unwrap()["mail"]
            .clone();
        if sent == "sent" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(sent, "sent");
}

#[tokio::test]
async fn the_link_that_an_admin_sees_confirms_nothing() {
    let (app, ada, _mails) = app_with_mail().await;
    let made = ada
        .post("/v1/invites", json!({"email": "bo@example.org"}))
        .await
        .is(201);
    let form = json!({"invite": text(&made, "/token")});
    let bo = sign_up_with(&app.base, "Bo", form).await;
    assert_eq!(
        bo.get("/v1/auth/me").await.ok()["user"]["email_confirmed"],
        false
    );
}

#[tokio::test]
async fn several_people_are_invited_at_once_and_again() {
    let (_app, ada, mails) = app_with_mail().await;
    let emails = json!({"emails": ["bo@example.org", "cy@example.org"]});
    let made = ada.post("/v1/invites", emails).await.is(201);
    assert_eq!(list(&made, "/data").len(), 2);
    mails.nth(2).await;
    let id = text(&made, "/data/0/id");
    for n in 1..=3 {
        let sent = ada
            .post(&format!("/v1/invites/{id}/send"), json!({}))
            .await
            .is(202);
        assert_eq!(sent["mail"], "queued", "{n}");
    }
    ada.post(&format!("/v1/invites/{id}/send"), json!({}))
        .await
        .refused_as(429, "rate_limited");
    mails.nth(5).await;
    for wrong in [
        json!({"email": "bo@example.org", "emails": ["cy@example.org"]}),
        json!({"emails": []}),
        json!({"member_ids": []}),
    ] {
        ada.post("/v1/invites", wrong)
            .await
            .refused_as(422, "invalid_value");
    }
    let open = ada.post("/v1/invites", json!({})).await.is(201);
    let id = text(&open, "/id");
    ada.post(&format!("/v1/invites/{id}/send"), json!({}))
        .await
        .refused_as(422, "invalid_value");
}

#[tokio::test]
async fn a_hundred_people_are_invited_at_once_and_five_hundred_a_day() {
    let (_app, ada, _mails) = app_with_mail().await;
    let invite = async |round: usize, people: usize| {
        let email = |n| format!("person{n}@round{round}.example.org");
        let emails: Vec<String> = (0..people).map(email).collect();
        ada.post("/v1/invites", json!({"emails": emails})).await
    };
    invite(0, 101).await.refused_as(422, "invalid_value");
    for round in 1..=5 {
        let made = invite(round, 100).await.is(201);
        assert_eq!(list(&made, "/data").len(), 100);
    }
    invite(6, 1).await.refused_as(429, "rate_limited");
}

#[tokio::test]
async fn a_withdrawn_invite_ends_its_links() {
    let (app, ada, mails) = app_with_mail().await;
    let made = ada
        .post("/v1/invites", json!({"email": "bo@example.org"}))
        .await
        .is(201);
    let token = mails.nth(1).await.token("/invite/");
    let id = text(&made, "/id");
    assert_eq!(ada.delete(&format!("/v1/invites/{id}")).await.status, 204);
    visitor(&app.base)
        .get(&format!("/v1/invites/{token}"))
        .await
        .refused_as(404, "invite_not_found");
}

#[tokio::test]
async fn a_refused_login_keeps_the_queue_and_tells_admins() {
    let (mut app, ada, mails) = app_with_mail().await;
    mails.behave(MailBehavior::RefuseLogin);
    ada.post("/v1/mail/confirmation", json!({})).await.is(202);
    let state = mail_state(&ada, |mail| mail["problem"].is_object()).await;
    assert_eq!(state["waiting"], 1);
    assert!(
        text(&state, "/problem/text").contains("wrong password"),
        "{state}"
    );
    mails.behave(MailBehavior::Accept);
    let settings = [("SMTP_URL", mails.url.as_str()), ("SECRET_KEY", SECRET_KEY)];
    app.restart(&settings).await;
    mails.nth(1).await;
    mail_state(&ada.at(&app.base), |mail| {
        mail["problem"].is_null() && mail["waiting"] == 0
    })
    .await;
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_keeps_the_queue_until_its_authority_is_known() {
    let mails = MailServer::encrypted().await;
    let p = prepared().await;
    let settings = [
        ("SMTP_URL", mails.url.as_str()),
        ("SECRET_KEY", SECRET_KEY),
        ("MAIL_FROM", "Chat <chat@example.org>"),
    ];
    let (server, ada) = p.start(&settings).await;
    ada.post("/v1/mail/confirmation", json!({})).await.is(202);
    let state = mail_state(&ada, |mail| mail["problem"].is_object()).await;
    assert_eq!(state["waiting"], 1);
    let problem = text(&state, "/problem/text");
    assert!(problem.contains("certificate"), "{problem}");
    server.kill().await;
    let authority = mails.authority();
    let [url, key, from] = settings;
    let trusting = [url, key, from, ("CA_FILE", authority.as_str())];
    let (_server, ada) = p.start(&trusting).await;
    assert_eq!(mails.nth(1).await.to, ada.email);
    mail_state(&ada, |mail| {
        mail["problem"].is_null() && mail["waiting"] == 0
    })
    .await;
}

#[tokio::test]
async fn a_busy_server_gets_the_email_later_and_a_refused_recipient_never() {
    let (_app, ada, mails) = app_with_mail().await;
    mails.behave(MailBehavior::RefuseRecipient);
    ada.post("/v1/invites", json!({"email": "bo@example.org"}))
        .await
        .is(201);
    mail_state(&ada, |mail| mail["waiting"] == 0).await;
    let invites = ada.get("/v1/invites").await.ok();
    assert_eq!(list(&invites, "/data").last().unwrap()["mail"], "refused");
    for behavior in [MailBehavior::Busy, MailBehavior::HangUp] {
        let before = mails.attempts();
        mails.behave(behavior);
        ada.post("/v1/invites", json!({"email": "cy@example.org"}))
            .await
            .is(201);
        let trying = async {
            while mails.attempts() == before {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(DEADLINE, trying)
            .await
            .expect("an attempt");
    }
    mail_state(&ada, |mail| mail["waiting"] == 2).await;
    assert!(mails.received().is_empty());
}

#[tokio::test]
async fn admins_hand_over_links_for_new_passwords_only_to_people_of_their_own_workspaces() {
    let t = team().await;
    let link = async |who: &Person, of: &Person| {
        who.post(&format!("/v1/members/{}/reset-link", of.id), json!({}))
            .await
    };
    link(&t.bo, &t.ada).await.refused_as(403, "role_too_low");
    let made = link(&t.ada, &t.bo).await.is(201);
    let url = text(&made, "/url");
    let token = url.rsplit('/').next().unwrap();
    let form = json!({"token": token, "password": NEW_PASSWORD});
    assert_eq!(
        visitor(&t.app.base)
            .post("/v1/auth/reset/confirm", form)
            .await
            .status,
        204
    );
    assert!(can_sign_in(&t.app, &t.bo, NEW_PASSWORD).await);
}
