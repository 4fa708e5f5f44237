//! Ways of signing in other than a password, and confirmations.

use std::time::Duration;

use futures::future::join_all;
use openvibe::{
    auth::operator,
    db::{Conn, now},
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{PASSWORD, Person, TestApp, list, team, text, visitor};

/// Makes all sessions and unfinished sign-ins older, as if this much time had passed.
pub async fn let_pass(app: &TestApp, time: Duration) {
    app.db()
        .write(Uuid::nil(), async move |c: &mut Conn| {
            c.q("update sessions set created_at = $1, confirmed_at = case when confirmed_at is not null then $1 end")
                .bind(now() - time)
                .run()
                .await?;
            c.q("update auth_flows set expires_at = $1 where expires_at < $2")
                .bind(now() - Duration::from_secs(1))
                .bind(now() + time)
                .run()
                .await
        })
        .await
        .unwrap();
}

const ELEVEN_MINUTES: Duration = Duration::from_mins(11);

async fn confirm(who: &Person, password: &str) -> crate::support::Reply {
    who.post("/v1/auth/confirm", json!({"password": password}))
        .await
}

async fn login(app: &TestApp, who: &Person) -> crate::support::Reply {
    let form = json!({"email": who.email, "password": PASSWORD});
    visitor(&app.base).post("/v1/auth/login", form).await
}

fn admins_only() -> Value {
    json!({"password_sign_in": "server_admins"})
}

#[tokio::test]
async fn a_sign_in_counts_for_ten_minutes_and_then_needs_a_confirmation() {
    let t = team().await;
    let everyone = json!({"password_sign_in": "everyone"});
    t.ada.patch("/v1/server", everyone.clone()).await.is(200);
    let_pass(&t.app, ELEVEN_MINUTES).await;
    let refused = t.ada.patch("/v1/server", everyone.clone()).await;
    assert_eq!(refused.refused(403), "confirmation_required");
    let wrong = confirm(&t.ada, "wrong horse").await;
    assert_eq!(wrong.json()["error"]["param"], "password");
    assert_eq!(wrong.refused(403), "wrong_password");
    t.ada
        .patch("/v1/server", everyone.clone())
        .await
        .refused(403);
    confirm(&t.ada, PASSWORD).await.is(204);
    t.ada.patch("/v1/server", everyone.clone()).await.is(200);
    // Another session of the same person is not confirmed.
    let reply = login(&t.app, &t.ada).await;
    let mut other = t.ada.signed_out();
    other.cookie = Some(reply.cookie());
    let_pass(&t.app, ELEVEN_MINUTES).await;
    confirm(&t.ada, PASSWORD).await.is(204);
    other
        .patch("/v1/server", everyone.clone())
        .await
        .refused(403);
    let (robot, _) = t.ada.make_key(&["workspace:admin"]).await;
    let refused = robot.patch("/v1/server", everyone).await;
    assert_eq!(refused.refused(403), "session_required");
}

#[tokio::test]
async fn new_admins_their_keys_and_erasures_need_a_confirmation() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let (robot, _) = t.ada.make_key(&["workspace:admin"]).await;
    let_pass(&t.app, ELEVEN_MINUTES).await;
    let bo = format!("/v1/members/{}", t.bo.id);
    let handle = text(
        &t.ada.get(&format!("/v1/members/{}", cy.id)).await.ok(),
        "/handle",
    );
    let key = |scope: &str| json!({"name": "CI", "scopes": [scope]});
    let acts = async || {
        let erase = format!("/v1/members/{}/erase", cy.id);
        [
            t.ada.patch(&bo, json!({"role": "admin"})).await,
            t.ada.post("/v1/invites", json!({"role": "admin"})).await,
            t.ada.post("/v1/api-keys", key("workspace:admin")).await,
            t.ada.post(&erase, json!({"handle": handle})).await,
        ]
    };
    for reply in acts().await {
        assert_eq!(reply.refused(403), "confirmation_required");
    }
    assert_eq!(t.ada.get(&bo).await.ok()["role"], "member");
    cy.get("/v1/auth/me").await.is(200);
    // Changes that make nobody an admin need no confirmation, and programs need none either.
    t.ada.patch(&bo, json!({"role": "viewer"})).await.is(200);
    t.ada.post("/v1/invites", json!({})).await.is(201);
    t.ada.post("/v1/api-keys", key("chat:read")).await.is(201);
    robot.patch(&bo, json!({"role": "admin"})).await.is(200);
    t.ada.patch(&bo, json!({"role": "member"})).await.is(200);
    // Rights are checked first.
    let refused = t.bo.patch(&bo, json!({"role": "admin"})).await;
    assert_eq!(refused.refused(403), "role_too_low");
    confirm(&t.ada, PASSWORD).await.is(204);
    for reply in acts().await {
        reply.ok();
    }
}

#[tokio::test]
async fn wrong_passwords_of_confirmations_are_limited() {
    let t = team().await;
    for _ in 0..10 {
        confirm(&t.bo, "wrong horse").await.refused(403);
    }
    confirm(&t.bo, PASSWORD).await.refused(429);
    confirm(&t.ada, PASSWORD).await.is(204);
}

#[tokio::test]
async fn passwords_can_be_limited_to_the_admins_of_the_server() {
    let t = team().await;
    let refused = t.bo.patch("/v1/server", admins_only()).await;
    assert_eq!(refused.refused(404), "route_not_found");
    let after = t.ada.patch("/v1/server", admins_only()).await.is(200);
    assert_eq!(after["password_sign_in"], "server_admins");
    assert_eq!(
        login(&t.app, &t.bo).await.refused(403),
        "password_sign_in_off"
    );
    let wrong = json!({"email": t.bo.email, "password": "wrong horse"});
    let wrong = visitor(&t.app.base).post("/v1/auth/login", wrong).await;
    assert_eq!(wrong.refused(401), "wrong_credentials");
    login(&t.app, &t.ada).await.is(200);
    let invite = t.ada.post("/v1/invites", json!({})).await.is(201);
    let form = json!({"email": "cy@example.org", "password": PASSWORD, "name": "Cy", "invite": text(&invite, "/token")});
    let refused = visitor(&t.app.base).post("/v1/auth/signup", form).await;
    assert_eq!(refused.refused(403), "password_sign_in_off");
    let audit = t.ada.get("/v1/audit-log?action=server.updated").await.ok();
    assert_eq!(audit["data"][0]["data"], admins_only());
    t.ada
        .patch("/v1/server", json!({"password_sign_in": "everyone"}))
        .await
        .is(200);
    login(&t.app, &t.bo).await.is(200);
}

async fn open_link(app: &TestApp, token: &str) -> crate::support::Reply {
    visitor(&app.base)
        .post("/v1/auth/sign-in-link", json!({"token": token}))
        .await
}

#[tokio::test]
async fn a_link_of_the_operator_signs_in_once_whatever_the_settings_are() {
    let t = team().await;
    t.ada.patch("/v1/server", admins_only()).await.is(200);
    let token = operator::create_sign_in_link(t.app.db(), &t.bo.email)
        .await
        .unwrap();
    assert_eq!(t.app.place.places_of(&token).await, Vec::<String>::new());
    let opened = join_all((0..5).map(|_| open_link(&t.app, &token))).await;
    let (opened, refused): (Vec<_>, Vec<_>) =
        opened.into_iter().partition(|reply| reply.status == 200);
    assert_eq!(opened.len(), 1);
    for reply in refused {
        assert_eq!(reply.refused(401), "flow_expired");
    }
    let mut bo = t.bo.signed_out();
    bo.cookie = Some(opened[0].cookie());
    assert_eq!(bo.get("/v1/auth/me").await.ok()["user"]["id"], t.bo.id);
    let events = bo.get("/v1/auth/events").await.ok();
    let kinds: Vec<String> = list(&events, "/data")
        .iter()
        .map(|event| text(event, "/kind"))
        .collect();
    assert_eq!(kinds[..2], ["signed_in", "sign_in_link_created"]);
    let audit = "/v1/audit-log?action=sign_in.link_created";
    let entries = list(&t.ada.get(audit).await.ok(), "/data");
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["actor_kind"], "operator");
    assert_eq!(entries[0]["actor_id"], Value::Null);
    assert_eq!(entries[0]["target"], t.bo.id.as_str());
}

#[tokio::test]
async fn a_link_ends_after_ten_minutes_with_a_newer_one_and_with_a_new_password() {
    let t = team().await;
    let create = async || {
        operator::create_sign_in_link(t.app.db(), &t.bo.email)
            .await
            .unwrap()
    };
    let first = create().await;
    let second = create().await;
    open_link(&t.app, &first).await.refused(401);
    let_pass(&t.app, ELEVEN_MINUTES).await;
    open_link(&t.app, &second).await.refused(401);
    let third = create().await;
    let form = json!({"current_password": PASSWORD, "new_password": "another horse"});
    t.bo.post("/v1/auth/password", form).await.is(204);
    open_link(&t.app, &third).await.refused(401);
    let unknown = operator::create_sign_in_link(t.app.db(), "nobody@example.org").await;
    assert!(unknown.is_err());
}

#[tokio::test]
async fn another_site_cannot_open_a_link() {
    let t = team().await;
    let token = operator::create_sign_in_link(t.app.db(), &t.bo.email)
        .await
        .unwrap();
    let mut lured = visitor(&t.app.base);
    lured.origin = Some("https://evil.example".to_owned());
    let reply = lured.post("/v1/auth/sign-in-link", json!({"token": token}));
    assert_eq!(reply.await.refused(403), "cross_origin");
    open_link(&t.app, &token).await.is(200);
}
