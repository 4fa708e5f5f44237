//! People who can sign in only with an identity provider, and links that give them another way.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    oidc::{Browser, person, provide, team},
    sign_in::let_pass,
    support::{
        MailServer, OidcServer, PASSWORD, Person, SECRET_KEY, Team, list, number, team_with, text,
        unknown_id, visitor,
    },
};

/// A provider that is open to everyone.
async fn open_provider(t: &Team, corp: &OidcServer) -> String {
    let open = json!([{"workspace_id": t.ada.workspace, "join": "everyone"}]);
    provide(&t.ada, corp, json!({"workspaces": open})).await
}

/// Signs in with the provider; returns the person.
async fn enter(t: &Team, corp: &OidcServer, provider: &str, name: &str) -> Person {
    let mut browser = Browser::new(&t.app.base);
    let claims = person(name, &format!("{name}@example.org"));
    let there = browser.pass(corp, provider, json!({}), &claims).await;
    assert_eq!(there.path, "/", "{there:?}");
    browser.person()
}

async fn addresses(admin: &Person, provider: &str) -> Vec<String> {
    let path = format!("/v1/identity-providers/{provider}/people");
    let people = list(&admin.get(&path).await.ok(), "/data");
    people.iter().map(|one| text(one, "/email")).collect()
}

#[tokio::test]
async fn those_without_another_way_are_listed() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let provider = open_provider(&t, &corp).await;
    assert!(addresses(&t.ada, &provider).await.is_empty());
    let cy = enter(&t, &corp, &provider, "cy").await;
    enter(&t, &corp, &provider, "di").await;
    let both = ["cy@example.org", "di@example.org"];
    assert_eq!(addresses(&t.ada, &provider).await, both);
    // Bo has a password, until only admins of the server can use theirs.
    let connect = json!({"connect": true});
    let mut browser = Browser::of(&t.bo);
    let claims = person("bo", &t.bo.email);
    browser.pass(&corp, &provider, connect, &claims).await;
    assert_eq!(addresses(&t.ada, &provider).await, both);
    let only_admins = json!({"password_sign_in": "server_admins"});
    t.ada.patch("/v1/server", only_admins).await.is(200);
    assert_eq!(addresses(&t.ada, &provider).await.len(), 3);
    let everyone = json!({"password_sign_in": "everyone"});
    t.ada.patch("/v1/server", everyone).await.is(200);
    // Another provider is another way, while it is on.
    let lab = OidcServer::start().await;
    let second = provide(&t.ada, &lab, json!({"name": "Lab"})).await;
    let mut browser = Browser::of(&cy);
    let claims = person("cy-lab", "cy@example.org");
    let connect = json!({"connect": true});
    browser.pass(&lab, &second, connect, &claims).await;
    assert_eq!(addresses(&t.ada, &provider).await, ["di@example.org"]);
    let path = format!("/v1/identity-providers/{second}");
    t.ada.patch(&path, json!({"enabled": false})).await.is(200);
    assert_eq!(addresses(&t.ada, &provider).await, both);
    let shown = format!("/v1/identity-providers/{provider}");
    let shown = t.ada.get(&shown).await.ok();
    assert_eq!(number(&shown, "/only_way_of"), 2);
    let nobody = format!("/v1/identity-providers/{}/people", unknown_id("idp"));
    assert_eq!(t.ada.get(&nobody).await.refused(404), "not_found");
}

#[tokio::test]
async fn a_link_gives_each_of_them_a_password() {
    let mails = MailServer::start().await;
    let settings = [("SMTP_URL", mails.url.as_str()), ("SECRET_KEY", SECRET_KEY)];
    let (t, corp) = (team_with(&settings).await, OidcServer::start().await);
    let provider = open_provider(&t, &corp).await;
    enter(&t, &corp, &provider, "cy").await;
    let path = format!("/v1/identity-providers/{provider}/links");
    assert_eq!(
        t.bo.post(&path, json!({})).await.refused(404),
        "route_not_found"
    );
    assert_eq!(t.ada.act(&path).await.is(202), json!({"people": 1}));
    let mail = mails.nth(1).await;
    assert_eq!(mail.to, "cy@example.org");
    assert!(mail.text.contains("Corp"), "{}", mail.text);
    let form = json!({"token": mail.token("/reset/"), "password": PASSWORD});
    let cy = visitor(&t.app.base);
    cy.post("/v1/auth/reset/confirm", form).await.is(204);
    let login = json!({"email": "cy@example.org", "password": PASSWORD});
    visitor(&t.app.base)
        .post("/v1/auth/login", login)
        .await
        .is(200);
    assert!(addresses(&t.ada, &provider).await.is_empty());
    assert_eq!(t.ada.act(&path).await.is(202), json!({"people": 0}));
    let log = t
        .ada
        .get("/v1/audit-log?action=provider.links_sent")
        .await
        .ok();
    let entries = list(&log, "/data");
    assert_eq!(entries.len(), 2);
    assert!(
        entries
            .iter()
            .all(|entry: &Value| entry["target"] == provider.as_str())
    );
    let only_admins = json!({"password_sign_in": "server_admins"});
    t.ada.patch("/v1/server", only_admins).await.is(200);
    let off = t.ada.act(&path).await;
    assert_eq!(off.refused(403), "password_sign_in_off");
    let_pass(&t.app, Duration::from_mins(11)).await;
    let late = t.ada.act(&path).await;
    assert_eq!(late.refused(403), "confirmation_required");
}

#[tokio::test]
async fn without_email_no_links_are_sent() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let provider = open_provider(&t, &corp).await;
    enter(&t, &corp, &provider, "cy").await;
    let path = format!("/v1/identity-providers/{provider}/links");
    assert_eq!(t.ada.act(&path).await.refused(422), "mail_off");
    let log = t
        .ada
        .get("/v1/audit-log?action=provider.links_sent")
        .await
        .ok();
    assert!(list(&log, "/data").is_empty());
    let unknown = format!("/v1/identity-providers/{}/links", unknown_id("idp"));
    assert_eq!(t.ada.act(&unknown).await.refused(404), "not_found");
}
