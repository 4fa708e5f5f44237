//! Invite links.

use serde_json::{Value, json};

use crate::support::{
    PASSWORD, Person, Reply, TestApp, id, list, sign_up, team, team_with, text, unknown_id, visitor,
};

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
    assert_eq!(made["is_local_only"], false, "nobody else can connect");
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
async fn without_a_public_url_an_invite_link_names_the_address_of_its_creator() {
    let settings = [
        ("LISTEN", "0.0.0.0:0"),
        ("SETUP_TOKEN", "first-account-of-this-test"),
    ];
    let app = TestApp::with(&settings).await;
    let ada = app.founder("Ada").await;
    let port = app.base.rsplit(':').next().unwrap().to_owned();
    let create = async |who: &Person, host: &str, origin: Option<String>| {
        let mut who = who.clone();
        who.origin = origin;
        let headers = [("host", host)];
        let body = Some(b"{}".to_vec());
        let made = who
            .send(reqwest::Method::POST, "/v1/invites", &headers, body)
            .await
            .is(201);
        (text(&made, "/url"), made["is_local_only"] == true)
    };
    let host = format!("192.0.2.7:{port}");
    let (url, is_local_only) = create(&ada, &host, Some(format!("http://{host}"))).await;
    assert!(url.starts_with(&format!("http://{host}/invite/")), "{url}");
    assert!(!is_local_only);
    let (url, _) = create(&ada, &host, Some(format!("https://{host}"))).await;
    assert!(url.starts_with(&format!("https://{host}/")), "{url}");
    let local = format!("localhost:{port}");
    let (url, is_local_only) = create(&ada, &local, Some(format!("http://{local}"))).await;
    assert!(url.starts_with(&format!("http://{local}/")), "{url}");
    assert!(is_local_only, "others can connect to the server");
    let (robot, _) = ada.make_key(&["workspace:admin"]).await;
    let (url, _) = create(&robot, &host, None).await;
    assert!(url.starts_with(&format!("http://{host}/")), "{url}");
}

#[tokio::test]
async fn an_invite_link_names_the_public_url_whatever_the_request_names() {
    let settings = [
        ("PUBLIC_URL", "https://chat.example.org"),
        ("SETUP_TOKEN", "first-account-of-this-test"),
    ];
    let t = team_with(&settings).await;
    let made = t.ada.post("/v1/invites", json!({})).await.is(201);
    let url = text(&made, "/url");
    assert!(url.starts_with("https://chat.example.org/invite/"), "{url}");
    assert_eq!(made["is_local_only"], false);
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
async fn an_invite_of_another_workspace_is_unknown_to_members() {
    let t = team().await;
    let here = t.ada.in_workspace(&t.ada.workspace);
    let own = id(&here.post("/v1/invites", json!({})).await.is(201));
    let form = json!({"name": "Elsewhere"});
    let elsewhere = id(&t.ada.post("/v1/workspaces", form).await.is(201));
    let there = t.ada.in_workspace(&elsewhere);
    let foreign = id(&there.post("/v1/invites", json!({})).await.is(201));
    for invite in [&foreign, &unknown_id("inv")] {
        let path = format!("/v1/invites/{invite}");
        assert_eq!(t.bo.delete(&path).await.refused(404), "not_found");
        let sent = t.bo.act(&format!("{path}/send")).await;
        assert_eq!(sent.refused(404), "not_found");
    }
    let path = format!("/v1/invites/{own}");
    assert_eq!(t.bo.delete(&path).await.refused(403), "role_too_low");
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

/// Signs up with an invite; `handle` is sent if it is given.
async fn sign_up_as(base: &str, invite: &str, name: &str, handle: Option<&str>) -> Reply {
    let form = json!({
        "email": format!("{}@example.org", name.to_lowercase()), "password": PASSWORD, "name": name, "invite": invite,
        "handle": handle,
    });
    visitor(base).post("/v1/auth/signup", form).await
}

#[tokio::test]
async fn new_members_choose_their_handles() {
    let app = TestApp::with(&[("SIGNUP", "open")]).await;
    let ada = app.founder("Ada").await;
    let token = text(&ada.post("/v1/invites", json!({})).await.is(201), "/token");
    sign_up_as(&app.base, &token, "Cy", Some("cyclone"))
        .await
        .is(201);
    let dee = sign_up(&app.base, "Dee", None).await;
    let accept = format!("/v1/invites/{token}/accept");
    let joined = dee
        .post(&accept, json!({"handle": "dee-dee"}))
        .await
        .is(200);
    assert_eq!(joined["member"]["handle"], "dee-dee");
    let again = dee.post(&accept, json!({"handle": "other"})).await.is(200);
    assert_eq!(
        again["member"]["handle"], "dee-dee",
        "members stay as they are"
    );
    let made = dee
        .post("/v1/workspaces", json!({"name": "Fair", "handle": "boss"}))
        .await
        .is(201);
    let there = dee.in_workspace(&id(&made));
    let members = list(&there.get("/v1/members").await.ok(), "/data");
    assert_eq!(members[0]["handle"], "boss");
    let members = list(&ada.get("/v1/members").await.ok(), "/data");
    assert_eq!(members[1]["handle"], "cyclone");
}

#[tokio::test]
async fn a_handle_that_is_taken_or_invalid_creates_nothing() {
    let app = TestApp::with(&[("SIGNUP", "open")]).await;
    let ada = app.founder("Ada").await;
    let made = ada.post("/v1/invites", json!({})).await.is(201);
    let token = text(&made, "/token");
    for (handle, status, code) in [
        ("ada", 409, "handle_taken"),
        ("vibe", 409, "handle_taken"),
        ("Cy", 422, "invalid_value"),
        ("everyone", 422, "invalid_value"),
        ("", 422, "invalid_value"),
    ] {
        let reply = sign_up_as(&app.base, &token, "Cy", Some(handle)).await;
        assert_eq!(reply.json()["error"]["param"], "handle");
        assert_eq!(reply.refused(status), code, "{handle}");
    }
    let form =
        json!({"email": "cy@example.org", "password": PASSWORD, "name": "Cy", "handle": "cy"});
    let visitor = visitor(&app.base);
    let reply = visitor.post("/v1/auth/signup", form).await;
    assert_eq!(
        reply.json()["error"]["param"],
        "handle",
        "no workspace to be known in"
    );
    reply.refused(422);
    let invites = list(&ada.get("/v1/invites").await.ok(), "/data");
    assert_eq!(invites[0]["uses"], 0, "no use was counted");

    let cy = sign_up(&app.base, "Cy", None).await;
    let accept = format!("/v1/invites/{token}/accept");
    cy.post(&accept, json!({"handle": "ada"}))
        .await
        .refused(409);
    let form = json!({"name": "Fair", "handle": "coder"});
    assert_eq!(
        cy.post("/v1/workspaces", form).await.refused(409),
        "handle_taken"
    );
    let mine = list(&cy.get("/v1/workspaces").await.ok(), "/data");
    assert!(mine.is_empty(), "neither joined nor created");
    let joined = cy.act(&accept).await.is(200);
    assert_eq!(joined["member"]["handle"], "cy");
}

#[tokio::test]
async fn a_new_member_gets_the_handle_that_was_suggested() {
    let t = team().await;
    let made = t.ada.post("/v1/invites", json!({})).await.is(201);
    let token = text(&made, "/token");
    let nobody = visitor(&t.app.base);
    let suggest = async |form: Value| nobody.post("/v1/auth/handle", form).await;
    for (name, email, here, elsewhere) in [
        ("Bo", "bo2@example.org", "bo-2", "bo"),
        (
            "李小龍",
            "li.xiaolong+chat@example.org",
            "li-xiaolong",
            "li-xiaolong",
        ),
        ("李", "李@example.org", "member", "member"),
        ("Main", "x@example.org", "main-2", "main-2"),
    ] {
        let mut form = json!({"name": name, "email": email});
        assert_eq!(suggest(form.clone()).await.ok()["handle"], elsewhere);
        form["invite"] = token.as_str().into();
        assert_eq!(suggest(form.clone()).await.ok()["handle"], here, "{name}");
        form["password"] = PASSWORD.into();
        nobody.post("/v1/auth/signup", form).await.is(201);
        let members = list(&t.ada.get("/v1/members?limit=100").await.ok(), "/data");
        let new = members
            .iter()
            .find(|m| m["name"] == name && m["email"] == email);
        assert_eq!(new.unwrap()["handle"], here);
    }
    let unknown = json!({"name": "Cy", "email": "", "invite": "made-up"});
    assert_eq!(suggest(unknown).await.refused(404), "invite_not_found");
}
