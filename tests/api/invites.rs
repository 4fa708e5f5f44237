//! Invite links.

use serde_json::{Value, json};

use crate::support::{TestApp, id, list, sign_up, team, text, visitor};

#[tokio::test]
async fn an_invite_is_a_link_that_is_shown_once() {
    let t = team().await;
    let made = t
        .ada
        .post(
            "/v1/invites",
            json!({"role": "viewer", "max_uses": 3, "expires_in_s": 3600}),
        )
        .await
        .is(201);
    let token = text(&made, "/token");
    assert_eq!(made["url"], format!("{}/invite/{token}", t.app.base));
    assert_eq!(
        (&made["role"], &made["max_uses"], &made["uses"]),
        (&json!("viewer"), &json!(3), &json!(0))
    );
    let listed = t.ada.get("/v1/invites").await.ok();
    assert!(
        !listed.to_string().contains(&token),
        "the token is not shown again"
    );
    let found = list(&listed, "/data")
        .into_iter()
        .find(|invite| invite["id"] == made["id"]);
    assert_eq!(found.unwrap()["role"], "viewer");
    let preview = visitor(&t.app.base)
        .get(&format!("/v1/invites/{token}"))
        .await
        .ok();
    assert_eq!(preview["workspace"]["id"], t.ada.workspace.as_str());
    assert_eq!(preview["role"], "viewer");
}

#[tokio::test]
async fn an_invite_adds_a_new_user_with_its_role() {
    let t = team().await;
    let mut socket = t.ada.socket().await;
    let vera = t.app.join(&t.ada, "Vera", "viewer").await;
    let joined = socket.of("member.joined").await;
    assert_eq!(joined["data"]["member"]["user_id"], vera.id.as_str());
    assert_eq!(joined["data"]["member"]["role"], "viewer");
    assert_eq!(vera.workspace, t.ada.workspace);
    assert_eq!(vera.channel("general").await["is_member"], true);
}

#[tokio::test]
async fn an_invite_adds_an_existing_user() {
    let app = TestApp::with(&[("SIGNUP", "open")]).await;
    let ada = app.founder("Ada").await;
    let bo = app.founder("Bo").await;
    let token = text(&ada.post("/v1/invites", json!({})).await.is(201), "/token");
    let accepted = bo.act(&format!("/v1/invites/{token}/accept")).await.ok();
    assert_eq!(accepted["workspace"]["id"], ada.workspace.as_str());
    assert_eq!(accepted["member"]["user_id"], bo.id.as_str());
    assert_eq!(accepted["member"]["role"], "member");
    assert_eq!(list(&bo.get("/v1/workspaces").await.ok(), "/data").len(), 2);
    bo.act(&format!("/v1/invites/{token}/accept")).await.ok();
    assert_eq!(
        list(&ada.get("/v1/members").await.ok(), "/data").len(),
        2,
        "accepting twice counts once"
    );
}

#[tokio::test]
async fn a_used_up_invite_is_rejected() {
    let t = team().await;
    let token = text(
        &t.ada
            .post("/v1/invites", json!({"max_uses": 1}))
            .await
            .is(201),
        "/token",
    );
    sign_up(&t.app.base, "Cy", Some(&token)).await;
    let form = json!({"email": "d@example.org", "password": "correct horse", "name": "Dee", "invite": token});
    visitor(&t.app.base)
        .post("/v1/auth/signup", form)
        .await
        .refused(404);
    visitor(&t.app.base)
        .get(&format!("/v1/invites/{token}"))
        .await
        .refused(404);
}

#[tokio::test]
async fn one_of_several_concurrent_uses_of_a_single_use_invite_wins() {
    let app = TestApp::with(&[("SIGNUP", "open")]).await;
    let ada = app.founder("Ada").await;
    let token = text(
        &ada.post("/v1/invites", json!({"max_uses": 1}))
            .await
            .is(201),
        "/token",
    );
    let mut people = Vec::new();
    for n in 0..5 {
        people.push(sign_up(&app.base, &format!("P{n}"), None).await);
    }
    let path = format!("/v1/invites/{token}/accept");
    let replies = futures::future::join_all(people.iter().map(|p| p.act(&path))).await;
    assert_eq!(replies.iter().filter(|r| r.status < 300).count(), 1);
    assert_eq!(list(&ada.get("/v1/members").await.ok(), "/data").len(), 2);
}

#[tokio::test]
async fn a_revoked_or_unknown_invite_is_rejected() {
    let t = team().await;
    let made = t.ada.post("/v1/invites", json!({})).await.is(201);
    t.bo.delete(&format!("/v1/invites/{}", id(&made)))
        .await
        .refused(403);
    t.ada
        .delete(&format!("/v1/invites/{}", id(&made)))
        .await
        .is(204);
    t.ada
        .delete(&format!("/v1/invites/{}", id(&made)))
        .await
        .refused(404);
    for token in [text(&made, "/token"), "made-up".to_owned()] {
        visitor(&t.app.base)
            .get(&format!("/v1/invites/{token}"))
            .await
            .refused(404);
        t.bo.act(&format!("/v1/invites/{token}/accept"))
            .await
            .refused(404);
        let form = json!({"email": "d@example.org", "password": "correct horse", "name": "Dee", "invite": token});
        visitor(&t.app.base)
            .post("/v1/auth/signup", form)
            .await
            .refused(404);
    }
}

#[tokio::test]
async fn an_invite_for_an_email_address_works_only_for_that_address() {
    let t = team().await;
    let token = text(
        &t.ada
            .post("/v1/invites", json!({"email": "cy@example.org"}))
            .await
            .is(201),
        "/token",
    );
    let form = |email: &str| json!({"email": email, "password": "correct horse", "name": "Cy", "invite": token});
    visitor(&t.app.base)
        .post("/v1/auth/signup", form("eve@example.org"))
        .await
        .refused(403);
    visitor(&t.app.base)
        .post("/v1/auth/signup", form("Cy@example.org"))
        .await
        .is(201);
}

#[tokio::test]
async fn an_invite_that_breaks_a_rule_is_rejected() {
    let t = team().await;
    for bad in [
        json!({"max_uses": 0}),
        json!({"max_uses": -1}),
        json!({"expires_in_s": 0}),
        json!({"email": "nonsense"}),
    ] {
        t.ada.post("/v1/invites", bad).await.refused(422);
    }
    for bad in [
        json!({"role": "owner"}),
        json!({"max_uses": "many"}),
        json!({"unknown": 1}),
    ] {
        t.ada.post("/v1/invites", bad).await.refused(400);
    }
    let listed: Value = t.ada.get("/v1/invites").await.ok();
    assert_eq!(
        list(&listed, "/data").len(),
        1,
        "only the invite that Bo used"
    );
}
