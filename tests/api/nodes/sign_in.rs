//! Sign-ins that begin on one node and end on another, and sessions that end on all nodes.

use serde_json::{Value, json};

use super::Pair;
use crate::{
    factors::{begin, code, set_up_app},
    oidc::{Browser, person, provide, state_of},
    support::{OidcServer, Person, Socket, id, is_shared_engine, text, visitor, within},
};

/// Signs in at the first node; returns the person at the second one, with an open socket there.
async fn enter(pair: &Pair, corp: &OidcServer, provider: &str, claims: &Value) -> (Person, Socket) {
    let mut browser = Browser::new(&pair.first.base);
    let there = browser.pass(corp, provider, json!({}), claims).await;
    assert_eq!(there.path, "/", "{there:?}");
    let cy = browser.person().at(&pair.second.base);
    let cy = cy.in_workspace(&pair.ada.workspace);
    cy.get("/v1/snapshot").await.is(200);
    let socket = Socket::open(&cy, json!({})).await;
    (cy, socket)
}

#[tokio::test]
async fn what_a_provider_ends_is_ended_on_all_nodes() {
    if !is_shared_engine() {
        return;
    }
    let pair = Pair::over_nats().await;
    let corp = OidcServer::start().await;
    let open = json!([{"workspace_id": pair.ada.workspace, "join": "everyone"}]);
    let provider = provide(&pair.ada, &corp, json!({"workspaces": open})).await;
    let mut claims = person("cy", "cy@example.org");
    claims["sid"] = "one".into();

    let (cy, mut socket) = enter(&pair, &corp, &provider, &claims).await;
    let events = json!({"http://schemas.openid.net/event/backchannel-logout": {}});
    let token = corp.token(&json!({"sid": "one", "jti": "1", "events": events}));
    let body = form_urlencoded::Serializer::new(String::new())
        .append_pair("logout_token", &token)
        .finish();
    let http = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .build()
        .unwrap();
    let path = format!("{}/v1/auth/oidc/{provider}/logout", pair.first.base);
    let request = http
        .post(path)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(body);
    let reply = within("the logout", request.send()).await.unwrap();
    assert_eq!(reply.status(), 200);
    assert_eq!(socket.closed().await, 4001);
    assert_eq!(cy.get("/v1/auth/me").await.status, 401);

    // The same by SCIM, for everything that the person has.
    let (cy, mut socket) = enter(&pair, &corp, &provider, &claims).await;
    let tokens = format!("/v1/identity-providers/{provider}/scim-tokens");
    let made = pair.ada.post(&tokens, json!({})).await.is(201);
    let scim = visitor(&pair.first.base).with_key(&text(&made, "/token"));
    let form = json!({"userName": "cy@example.org"});
    let user = scim.post("/scim/v2/Users", form).await.is(201);
    let off = json!({"Operations": [{"op": "replace", "path": "active", "value": false}]});
    scim.patch(&format!("/scim/v2/Users/{}", id(&user)), off)
        .await
        .is(200);
    let code = socket.closed().await;
    assert!([4001, 4003].contains(&code), "{code}");
    assert_eq!(cy.get("/v1/snapshot").await.status, 401);
}

#[tokio::test]
async fn a_sign_in_that_began_on_one_node_ends_on_another() {
    if !is_shared_engine() {
        return;
    }
    let pair = Pair::over_nats().await;
    let corp = OidcServer::start().await;
    let open = json!([{"workspace_id": pair.ada.workspace, "join": "everyone"}]);
    let provider = provide(&pair.ada, &corp, json!({"workspaces": open})).await;
    let mut browser = Browser::new(&pair.first.base);
    let page = browser.start(&provider, json!({})).await;
    // Nodes have one public address; in tests, each has its own.
    let port = |base: &str| format!("%3A{}%2F", base.rsplit(':').next().unwrap());
    let page = page.replace(&port(&pair.first.base), &port(&pair.second.base));
    let granted = corp.grant(&page, &person("cy", "cy@example.org"));
    let query = [
        ("code", granted.as_str()),
        ("state", &state_of(&page)),
        ("iss", &corp.url),
    ];
    let mut browser = browser.at_node(&pair.second.base);
    assert_eq!(browser.arrive(&provider, &query).await.path, "/");
    browser.person().get("/v1/auth/me").await.is(200);

    // The same with a second factor.
    let (secret, _) = set_up_app(&pair.ada).await;
    let (flow, _) = begin(&pair.first, &pair.ada).await;
    let form = json!({"flow": flow, "code": code(&secret, 1)});
    visitor(&pair.second.base)
        .post("/v1/auth/second-factor", form)
        .await
        .is(200);
}
