//! Notices for admins about identity providers: addresses and roles that stay, and providers that fail for long.

use std::time::Duration;

use openvibe::{
    auth::oidc::{ProviderClient, notices::close_settled, outages},
    db::{Conn, DbError, now},
    outbound::{OwnServer, Rules},
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    oidc::{Browser, person, provide, team},
    support::{Canned, OidcServer, Person, Team, list, text},
};

const DISCOVERY: &str = "/.well-known/openid-configuration";

/// Titles and texts of the open notices of a person.
async fn notices(who: &Person) -> Vec<(String, String)> {
    let open = who.get("/v1/inbox").await.ok();
    let notices = list(&open, "/data");
    let notices = notices.iter().filter(|item| item["reason"] == "notice");
    notices
        .map(|item| (text(item, "/title"), text(item, "/text")))
        .collect()
}

/// Signs in as `cy`, with other claims.
async fn sign_in(t: &Team, corp: &OidcServer, provider: &str, email: &str, groups: &[&str]) {
    let mut claims = person("cy", email);
    claims["groups"] = json!(groups);
    let mut browser = Browser::new(&t.app.base);
    let there = browser.pass(corp, provider, json!({}), &claims).await;
    assert_eq!(there.path, "/", "{there:?}");
}

#[tokio::test]
async fn admins_learn_that_an_account_keeps_its_address_until_it_gets_the_new_one() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let open = json!([{"workspace_id": t.ada.workspace, "join": "everyone"}]);
    let provider = provide(&t.ada, &corp, json!({"workspaces": open})).await;
    sign_in(&t, &corp, &provider, "cy@example.org", &[]).await;
    assert!(notices(&t.ada).await.is_empty());
    for _ in 0..2 {
        sign_in(&t, &corp, &provider, &t.bo.email, &[]).await;
        let found = notices(&t.ada).await;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, "Person of Corp");
        assert!(
            found[0].1.starts_with("Corp has a new address"),
            "{found:?}"
        );
        assert!(!found[0].1.contains(&t.bo.email), "{found:?}");
    }
    assert!(notices(&t.bo).await.is_empty());
    close_settled(t.app.db()).await.unwrap();
    assert_eq!(notices(&t.ada).await.len(), 1);
    sign_in(&t, &corp, &provider, "cy.new@example.org", &[]).await;
    close_settled(t.app.db()).await.unwrap();
    assert!(notices(&t.ada).await.is_empty());
    // The same again, and the provider is deleted.
    sign_in(&t, &corp, &provider, &t.bo.email, &[]).await;
    assert_eq!(notices(&t.ada).await.len(), 1);
    let path = format!("/v1/identity-providers/{provider}");
    t.ada.delete(&path).await.is(204);
    close_settled(t.app.db()).await.unwrap();
    assert!(notices(&t.ada).await.is_empty());
}

#[tokio::test]
async fn a_sign_in_with_another_provider_does_not_settle_an_address() {
    let (t, corp, lab) = (
        team().await,
        OidcServer::start().await,
        OidcServer::start().await,
    );
    let open = json!([{"workspace_id": t.ada.workspace, "join": "everyone"}]);
    let first = provide(&t.ada, &corp, json!({"workspaces": open})).await;
    let second = provide(&t.ada, &lab, json!({"name": "Lab"})).await;
    let claims = person("cy", "cy@example.org");
    let mut browser = Browser::new(&t.app.base);
    browser.pass(&corp, &first, json!({}), &claims).await;
    let connect = json!({"connect": true});
    Browser::of(&browser.person())
        .pass(&lab, &second, connect, &claims)
        .await;
    sign_in(&t, &corp, &first, &t.bo.email, &[]).await;
    let there = Browser::new(&t.app.base)
        .pass(&lab, &second, json!({}), &claims)
        .await;
    assert_eq!(there.path, "/", "{there:?}");
    close_settled(t.app.db()).await.unwrap();
    assert_eq!(notices(&t.ada).await.len(), 1);
}

#[tokio::test]
async fn admins_learn_of_a_role_that_a_provider_could_not_change_until_it_wants_it() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let rules = json!([{"workspace_id": t.ada.workspace, "join": "everyone", "role": "viewer",
        "rules": [{"group": "ops", "role": "admin"}]}]);
    let provider = provide(&t.ada, &corp, json!({"workspaces": rules})).await;
    let of_cy = async |groups: &[&str]| {
        sign_in(&t, &corp, &provider, "cy@example.org", groups).await;
        notices(&t.ada).await
    };
    assert!(of_cy(&["ops"]).await.is_empty());
    let found = of_cy(&[]).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, "Person of Corp");
    assert!(found[0].1.contains("the last admin"), "{found:?}");
    assert!(notices(&t.bo).await.is_empty());
    assert!(of_cy(&["ops"]).await.is_empty());
}

async fn fail_since(t: &Team, ago: Duration) {
    let since = now() - ago;
    let set = async move |c: &mut Conn| {
        c.q("update identity_providers set failing_since = $1 where failing_since is not null")
            .bind(since)
            .run()
            .await?;
        Ok::<_, DbError>(())
    };
    t.app.db().write(Uuid::nil(), set).await.unwrap();
}

/// A client that remembers nothing, as after a restart.
async fn follow(t: &Team) {
    let own = OwnServer::new("127.0.0.1:9".parse().unwrap(), &t.app.base);
    let client = ProviderClient::new(Rules {
        exempt: Vec::new(),
        own,
        ports: None,
    });
    outages::follow(t.app.db(), &client).await.unwrap();
}

/// Begins a sign-in that fails.
async fn fail(t: &Team, corp: &OidcServer, provider: &str) {
    let mut browser = Browser::new(&t.app.base);
    let claims = person("cy", "cy@example.org");
    let there = browser.pass(corp, provider, json!({}), &claims).await;
    assert_eq!(there.path, "/sign-in", "{there:?}");
}

fn check(checks: &Value) -> Value {
    let checks = list(checks, "/data");
    let found = checks.into_iter().find(|check| check["name"] == "sign_in");
    found.unwrap()
}

#[tokio::test]
async fn a_provider_that_fails_for_an_hour_is_a_notice_and_a_failed_check() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let provider = provide(&t.ada, &corp, json!({})).await;
    let checked = async || check(&t.ada.post("/v1/server/checks", json!({})).await.ok());
    assert_eq!(checked().await["state"], "ok");
    follow(&t).await;
    // The provider rejects this server.
    let rejected = Canned::Json(401, json!({"error": "invalid_client"}));
    corp.can("/token", rejected);
    fail(&t, &corp, &provider).await;
    assert_eq!(checked().await["state"], "warning");
    follow(&t).await;
    assert!(notices(&t.ada).await.is_empty());
    fail_since(&t, Duration::from_mins(61)).await;
    for _ in 0..2 {
        follow(&t).await;
        let found = notices(&t.ada).await;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, "Corp");
        assert!(found[0].1.contains("invalid_client"), "{found:?}");
        assert!(notices(&t.bo).await.is_empty());
    }
    let failed = checked().await;
    assert_eq!(failed["state"], "failed");
    assert!(text(&failed, "/text").contains("61 minutes"), "{failed}");
    // A successful sign-in settles it.
    corp.mend();
    let mut browser = Browser::new(&t.app.base);
    let claims = person("cy", "cy@example.org");
    let there = browser.pass(&corp, &provider, json!({}), &claims).await;
    there.failed("not_invited");
    follow(&t).await;
    assert!(notices(&t.ada).await.is_empty());
    assert_eq!(checked().await["state"], "ok");
}

#[tokio::test]
async fn a_provider_that_answers_again_is_no_notice_although_nobody_signed_in() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let provider = provide(&t.ada, &corp, json!({})).await;
    let path = format!("/v1/identity-providers/{provider}");
    corp.can("/token", Canned::Json(503, json!({})));
    fail(&t, &corp, &provider).await;
    fail_since(&t, Duration::from_hours(2)).await;
    assert_eq!(t.ada.get(&path).await.ok()["state"], "unreachable");
    follow(&t).await;
    assert!(notices(&t.ada).await.is_empty());
    assert_eq!(t.ada.get(&path).await.ok()["state"], "ok");
    // One that is down, and is turned off.
    fail(&t, &corp, &provider).await;
    corp.can(DISCOVERY, Canned::Json(503, json!({})));
    fail_since(&t, Duration::from_hours(2)).await;
    follow(&t).await;
    assert_eq!(notices(&t.ada).await.len(), 1);
    let checks = t.ada.post("/v1/server/checks", json!({})).await.ok();
    assert_eq!(check(&checks)["state"], "failed");
    t.ada.patch(&path, json!({"enabled": false})).await.is(200);
    follow(&t).await;
    assert!(notices(&t.ada).await.is_empty());
    let checks = t.ada.post("/v1/server/checks", json!({})).await.ok();
    assert_eq!(check(&checks)["state"], "skipped");
    // A deleted one takes its notice along.
    corp.mend();
    let again = provide(&t.ada, &corp, json!({"name": "Lab"})).await;
    corp.can("/token", Canned::Json(503, json!({})));
    fail(&t, &corp, &again).await;
    fail_since(&t, Duration::from_hours(2)).await;
    corp.can(DISCOVERY, Canned::Json(503, json!({})));
    follow(&t).await;
    assert_eq!(notices(&t.ada).await.len(), 1);
    let path = format!("/v1/identity-providers/{again}");
    t.ada.delete(&path).await.is(204);
    assert!(notices(&t.ada).await.is_empty());
}
