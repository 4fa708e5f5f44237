//! Sign-in with identity providers: settings, whose account it is, connections, and roles.

use std::{collections::HashMap, time::Duration};

use openvibe::{
    auth::{oidc::provider, placeholders},
    db::Conn,
    ids::{IdentityProviderId, UserId, WorkspaceId},
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    imports,
    sign_in::let_pass,
    support::{
        CLIENT_ID, CLIENT_SECRET, MailServer, OidcServer, PASSWORD, Person, SECRET_KEY, Team,
        TestApp, id, list, number, team_with, text, unknown_id, visitor, within,
    },
};

const ELEVEN_MINUTES: Duration = Duration::from_mins(11);

/// A browser that does not follow redirects, so that tests see them.
pub struct Browser {
    http: reqwest::Client,
    base: String,
    /// Values by name.
    cookies: HashMap<String, String>,
}

/// Target of a redirect.
#[derive(Debug)]
pub struct Location {
    pub path: String,
    pub query: HashMap<String, String>,
}

impl Browser {
    pub fn new(base: &str) -> Self {
        // Installs the provider of cryptography.
        drop(visitor(base));
        let http = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .redirect(reqwest::redirect::Policy::none())
            .build();
        Self {
            http: http.unwrap(),
            base: base.to_owned(),
            cookies: HashMap::new(),
        }
    }

    /// The browser of a person who is signed in.
    pub fn of(person: &Person) -> Self {
        let mut this = Self::new(&person.base);
        let cookie = person.cookie.clone().unwrap();
        let (name, value) = cookie.split_once('=').unwrap();
        this.cookies.insert(name.to_owned(), value.to_owned());
        this
    }

    /// The same browser at another node.
    pub fn at_node(mut self, base: &str) -> Self {
        base.clone_into(&mut self.base);
        self
    }

    /// The person who is signed in.
    pub fn person(&self) -> Person {
        let mut person = visitor(&self.base);
        let session = self.cookies.get("openvibe_session");
        person.cookie = session.map(|value| format!("openvibe_session={value}"));
        person
    }

    async fn send(
        &mut self,
        request: reqwest::RequestBuilder,
    ) -> (u16, reqwest::header::HeaderMap, String) {
        let cookies: Vec<String> = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let request = request
            .header("cookie", cookies.join("; "))
            .header("origin", &self.base);
        let response = within("an answer", request.send()).await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        for cookie in headers.get_all("set-cookie") {
            let cookie = cookie.to_str().unwrap();
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            if name == "openvibe_flow" && !value.is_empty() {
                for part in [
                    "; HttpOnly",
                    "; SameSite=Lax",
                    "; Max-Age=600",
                    "; Path=/v1/auth/oidc",
                ] {
                    assert!(cookie.contains(part), "{cookie}");
                }
            }
            if value.is_empty() {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        (status, headers, response.text().await.unwrap())
    }

    pub async fn post(&mut self, path: &str, form: &Value) -> (u16, Value) {
        let request = self.http.post(format!("{}{path}", self.base)).json(form);
        let (status, _, text) = self.send(request).await;
        (status, serde_json::from_str(&text).unwrap_or_default())
    }

    /// Status of a page or resource for the person who is signed in.
    async fn status_of(&mut self, path: &str) -> u16 {
        let request = self.http.get(format!("{}{path}", self.base));
        self.send(request).await.0
    }

    /// Begins to sign in; returns the provider's page.
    pub async fn start(&mut self, provider: &str, form: Value) -> String {
        let path = format!("/v1/auth/oidc/{provider}/start");
        let (status, begun) = self.post(&path, &form).await;
        assert_eq!(status, 200, "{begun}");
        text(&begun, "/url")
    }

    /// Returns from the provider.
    pub async fn arrive(&mut self, provider: &str, query: &[(&str, &str)]) -> Location {
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(query)
            .finish();
        let url = format!("{}/v1/auth/oidc/{provider}/callback?{query}", self.base);
        let request = self.http.get(url);
        let (status, headers, text) = self.send(request).await;
        assert_eq!(status, 303, "{text}");
        let location = headers["location"].to_str().unwrap();
        assert!(
            location.starts_with('/') && !location.starts_with("//"),
            "{location}"
        );
        let url = reqwest::Url::parse(&format!("http://here{location}")).unwrap();
        Location {
            path: url.path().to_owned(),
            query: url.query_pairs().into_owned().collect(),
        }
    }

    /// Signs in to the provider as a person with these claims, and returns.
    pub async fn pass(
        &mut self,
        corp: &OidcServer,
        provider: &str,
        form: Value,
        claims: &Value,
    ) -> Location {
        let page = self.start(provider, form).await;
        let code = corp.grant(&page, claims);
        let state = state_of(&page);
        let query = [
            ("code", code.as_str()),
            ("state", &state),
            ("iss", &corp.url),
        ];
        self.arrive(provider, &query).await
    }
}

impl Location {
    /// Asserts that the sign-in failed with this code; returns the detail.
    #[track_caller]
    pub fn failed(&self, code: &str) -> Option<String> {
        assert_eq!(self.path, "/sign-in", "{self:?}");
        assert_eq!(
            self.query.get("error").map(String::as_str),
            Some(code),
            "{self:?}"
        );
        self.query.get("detail").cloned()
    }
}

pub fn state_of(page: &str) -> String {
    let page = reqwest::Url::parse(page).unwrap();
    let state = page.query_pairs().find(|(name, _)| name == "state");
    state.unwrap().1.into_owned()
}

pub async fn team() -> Team {
    team_with(&[("SECRET_KEY", SECRET_KEY)]).await
}

/// Adds a provider and turns it on, after a try.
pub async fn provide(admin: &Person, corp: &OidcServer, fields: Value) -> String {
    let mut form = json!({"name": "Corp", "issuer": corp.url, "client_id": CLIENT_ID, "domains": ["example.org"]});
    for (key, value) in fields.as_object().unwrap() {
        form[key] = value.clone();
    }
    let made = admin.post("/v1/identity-providers", form).await.is(201);
    let provider = id(&made);
    let path = format!("/v1/identity-providers/{provider}");
    let secret = json!({"value": CLIENT_SECRET});
    admin.put(&format!("{path}/secret"), secret).await.is(204);
    try_out(admin, corp, &provider).await;
    admin.patch(&path, json!({"enabled": true})).await.is(200);
    provider
}

async fn try_out(admin: &Person, corp: &OidcServer, provider: &str) {
    let mut browser = Browser::of(admin);
    let path = format!("/v1/identity-providers/{provider}/try");
    let (status, begun) = browser.post(&path, &json!({"next": "/acme"})).await;
    assert_eq!(status, 200, "{begun}");
    let page = text(&begun, "/url");
    let code = corp.grant(&page, &person("admin-sub", "root@example.org"));
    let query = [
        ("code", code.as_str()),
        ("state", &state_of(&page)),
        ("iss", &corp.url),
    ];
    let there = browser.arrive(provider, &query).await;
    assert_eq!(
        (there.path.as_str(), &there.query["tried"]),
        ("/acme", &provider.to_owned())
    );
}

/// Claims of a person with a confirmed address.
pub fn person(subject: &str, email: &str) -> Value {
    json!({"sub": subject, "email": email, "email_verified": true, "name": "Person of Corp"})
}

async fn me(browser: &Browser) -> Value {
    browser.person().get("/v1/auth/me").await.is(200)["user"].clone()
}

async fn confirm_address(app: &TestApp, who: &Person) {
    let email = who.email.clone();
    app.db()
        .write(Uuid::nil(), async move |c: &mut Conn| {
            c.q("update users set email_confirmed_at = created_at where email = $1")
                .bind(email.clone())
                .run()
                .await
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn only_server_admins_with_a_confirmed_session_manage_providers() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let form = json!({"name": "Corp", "issuer": corp.url, "client_id": CLIENT_ID});
    let made = t.ada.post("/v1/identity-providers", form.clone()).await;
    assert_eq!(made.header("etag").unwrap(), "\"1\"");
    let made = made.is(201);
    assert_eq!(made["state"], "ok");
    assert_eq!(made["enabled"], false);
    assert_eq!(made["secret_set"], false);
    assert_eq!(made["email_trust"], "claim");
    assert_eq!(made["groups_claim"], "groups");
    let path = format!("/v1/identity-providers/{}", id(&made));
    assert_eq!(
        text(&made, "/redirect_uri"),
        format!("{}/v1/auth/oidc/{}/callback", t.app.base, id(&made))
    );
    for reply in [
        t.bo.get("/v1/identity-providers").await,
        t.bo.post("/v1/identity-providers", form.clone()).await,
        t.bo.patch(&path, json!({"name": "Evil"})).await,
        t.bo.delete(&path).await,
    ] {
        assert_eq!(reply.refused(404), "route_not_found");
    }
    let (robot, _) = t.ada.make_key(&["workspace:admin"]).await;
    assert_eq!(robot.get(&path).await.refused(403), "session_required");
    let not_tried = t.ada.patch(&path, json!({"enabled": true})).await;
    assert_eq!(not_tried.refused(422), "not_tried");
    let stale = t
        .ada
        .patch_if(&path, "\"7\"", json!({"name": "Stale"}))
        .await;
    let current = stale.json()["error"]["current"].clone();
    assert_eq!(stale.refused(409), "version_conflict");
    assert_eq!(current["name"], "Corp");
    let changed = t
        .ada
        .patch_if(&path, "\"1\"", json!({"name": "Corp 2"}))
        .await
        .is(200);
    assert_eq!(number(&changed, "/version"), 2);
    for (field, value) in [
        ("name", json!("")),
        ("name", json!("x".repeat(41))),
        ("domains", json!(["exa mple.org"])),
        ("domains", json!(vec!["a.org"; 51])),
        ("groups_claim", json!(" ")),
        (
            "workspaces",
            json!([{"workspace_id": "ws_01k5t00000e008000000000000"}]),
        ),
        (
            "workspaces",
            json!([{"workspace_id": t.ada.workspace, "role": "admin"}]),
        ),
        (
            "workspaces",
            json!([{"workspace_id": t.ada.workspace}, {"workspace_id": t.ada.workspace}]),
        ),
    ] {
        let reply = t.ada.patch(&path, json!({field: value})).await;
        assert_eq!(reply.refused(422), "invalid_value", "{field} {value}");
    }
    let all = json!({"domains": ["*"], "email_trust": "issuer"});
    assert_eq!(t.ada.patch(&path, all).await.refused(422), "invalid_value");
    for issuer in [
        "http://id.example.org",
        "ftp://127.0.0.1/",
        "id.example.org",
    ] {
        let mut form = form.clone();
        form["issuer"] = issuer.into();
        let reply = t.ada.post("/v1/identity-providers", form).await;
        assert_eq!(reply.refused(422), "not_https", "{issuer}");
    }
    let mut slash = form.clone();
    slash["issuer"] = format!("{}/", corp.url).into();
    let mismatch = t.ada.post("/v1/identity-providers", slash).await;
    assert_eq!(mismatch.refused(422), "issuer_mismatch");
    // Nothing can be enabled with the secret of another try.
    try_out_fails_without_secret(&t, &corp, &path).await;
    let_pass(&t.app, ELEVEN_MINUTES).await;
    let late = t.ada.patch(&path, json!({"name": "Late"})).await;
    assert_eq!(late.refused(403), "confirmation_required");
    t.ada
        .post("/v1/auth/confirm", json!({"password": PASSWORD}))
        .await
        .is(204);
    t.ada.delete(&path).await.is(204);
    assert_eq!(t.ada.get(&path).await.refused(404), "not_found");
    let audit = t.ada.get("/v1/audit-log?order=newest").await.ok();
    let actions: Vec<String> = list(&audit, "/data")
        .iter()
        .map(|entry| text(entry, "/action"))
        .collect();
    assert_eq!(actions[..2], ["provider.deleted", "provider.updated"]);
    assert!(actions.contains(&"provider.created".to_owned()));
}

#[tokio::test]
async fn a_server_has_ten_providers_and_a_workspace_a_hundred_rules() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let form = |rules: usize| {
        let rules = vec![json!({"group": "staff", "role": "member"}); rules];
        let workspaces = json!([{"workspace_id": t.ada.workspace, "rules": rules}]);
        json!({"name": "Corp", "issuer": corp.url, "client_id": CLIENT_ID, "workspaces": workspaces})
    };
    let add = async |rules| t.ada.post("/v1/identity-providers", form(rules)).await;
    assert_eq!(add(101).await.refused(422), "invalid_value");
    for _ in 0..10 {
        add(100).await.is(201);
    }
    assert_eq!(add(0).await.refused(422), "quota_exceeded");
}

async fn try_out_fails_without_secret(t: &Team, corp: &OidcServer, path: &str) {
    let mut browser = Browser::of(&t.ada);
    let provider = path.rsplit('/').next().unwrap();
    let (_, begun) = browser
        .post(&format!("{path}/try"), &json!({"next": "/acme?x=1#y"}))
        .await;
    let page = text(&begun, "/url");
    let code = corp.grant(&page, &person("s", "root@example.org"));
    let query = [
        ("code", code.as_str()),
        ("state", &state_of(&page)),
        ("iss", &corp.url),
    ];
    let there = browser.arrive(provider, &query).await;
    assert_eq!(
        (there.path.as_str(), there.query["error"].as_str()),
        ("/acme", "misconfigured")
    );
    assert_eq!(there.query["detail"], "invalid_client");
    let shown = t.ada.get(path).await.ok();
    assert_eq!(shown["state"], "misconfigured");
    assert_eq!(shown["tried_at"], Value::Null);
    let not_tried = t.ada.patch(path, json!({"enabled": true})).await;
    assert_eq!(not_tried.refused(422), "not_tried");
}

#[tokio::test]
async fn a_try_shows_what_would_happen_and_changes_nothing() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let before = t.app.place.count("users").await;
    let rules = json!([{"workspace_id": t.ada.workspace, "join": "everyone", "role": "viewer",
        "rules": [{"group": "staff", "role": "member"}]}]);
    let provider = provide(&t.ada, &corp, json!({"workspaces": rules})).await;
    let path = format!("/v1/identity-providers/{provider}");
    let shown = t.ada.get(&path).await.ok();
    assert_eq!(shown["last_try"]["account"], "new");
    assert_eq!(shown["last_try"]["claims"]["sub"], "admin-sub");
    assert_eq!(shown["last_try"]["roles"][0]["role"], "viewer");
    assert!(shown["tried_at"].is_string());
    assert_eq!(shown["state"], "ok");
    assert_eq!(t.app.place.count("users").await, before);
    assert_eq!(t.app.place.count("identities").await, 0);
    assert_eq!(
        t.app.place.places_of(CLIENT_SECRET).await,
        Vec::<String>::new()
    );
    // Another client ID needs another try, and turns the provider off.
    let changed = t
        .ada
        .patch(&path, json!({"client_id": "other"}))
        .await
        .is(200);
    assert_eq!(
        (&changed["enabled"], &changed["tried_at"]),
        (&json!(false), &Value::Null)
    );
    let methods = visitor(&t.app.base).get("/v1/auth/methods").await.ok();
    assert_eq!(methods["providers"], json!([]));
    let begun = visitor(&t.app.base)
        .post(&format!("/v1/auth/oidc/{provider}/start"), json!({}))
        .await;
    assert_eq!(begun.refused(404), "not_found");
}

#[tokio::test]
async fn a_new_person_joins_a_workspace_that_is_open_to_everyone() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let open = json!([{"workspace_id": t.ada.workspace, "join": "everyone", "role": "viewer"}]);
    let provider = provide(&t.ada, &corp, json!({"workspaces": open})).await;
    let methods = visitor(&t.app.base)
        .get("/v1/auth/methods?email=cy@example.org")
        .await
        .ok();
    assert_eq!(
        methods["providers"],
        json!([{"id": provider, "name": "Corp", "for_domain": true}])
    );
    let methods = visitor(&t.app.base)
        .get("/v1/auth/methods?email=cy@other.org")
        .await
        .ok();
    assert_eq!(methods["providers"][0]["for_domain"], false);
    let mut browser = Browser::new(&t.app.base);
    let claims = person("cy", "Cy@Example.org");
    let there = browser
        .pass(&corp, &provider, json!({"next": "/acme/inbox"}), &claims)
        .await;
    assert_eq!(there.path, "/acme/inbox");
    let cy = me(&browser).await;
    assert_eq!(
        (&cy["email"], &cy["name"]),
        (&json!("cy@example.org"), &json!("Person of Corp"))
    );
    assert_eq!(cy["email_confirmed"], true);
    let person = browser.person();
    let mine = person.get("/v1/auth/me").await.ok()["workspaces"].clone();
    assert_eq!(
        (list(&mine, "").len(), &mine[0]["role"]),
        (1, &json!("viewer"))
    );
    // Again: the same account, and no password signs in to it.
    let mut again = Browser::new(&t.app.base);
    let renamed = self::person("cy", "cy@example.org");
    again.pass(&corp, &provider, json!({}), &renamed).await;
    assert_eq!(me(&again).await["id"], cy["id"]);
    for password in ["", "password", PASSWORD] {
        let form = json!({"email": "cy@example.org", "password": password});
        let reply = visitor(&t.app.base).post("/v1/auth/login", form).await;
        assert_eq!(reply.refused(401), "wrong_credentials");
    }
    // It is the only way of one person.
    let shown = t
        .ada
        .get(&format!("/v1/identity-providers/{provider}"))
        .await
        .ok();
    assert_eq!(number(&shown, "/only_way_of"), 1);
    let own = again.person().get("/v1/auth/identities").await.ok();
    let own = list(&own, "/data");
    assert_eq!((own.len(), &own[0]["provider"]), (1, &json!("Corp")));
    let gone = again
        .person()
        .delete(&format!("/v1/auth/identities/{}", id(&own[0])))
        .await;
    assert_eq!(gone.refused(409), "last_method");
    let own_data = format!("/v1/members/{}/export", text(&cy, "/id"));
    let exported = again.person().get(&own_data).await;
    assert!(
        exported.text.contains("identity_provider"),
        "{}",
        exported.text
    );
}

#[tokio::test]
async fn a_confirmed_address_makes_a_new_person_the_placeholder_of_an_import() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let open = json!([{"workspace_id": t.ada.workspace, "join": "everyone", "role": "member"}]);
    let provider = provide(&t.ada, &corp, json!({"workspaces": open})).await;
    let past = imports::placeholder(&t.app, &t.ada.workspace, "Cy").await;
    let (workspace, user) = (
        WorkspaceId::parse(&t.ada.workspace).unwrap(),
        UserId::parse(&past).unwrap(),
    );
    let store = async move |c: &mut Conn| {
        placeholders::store_address(c, workspace, user, "Cy@Example.org").await
    };
    t.app.db().write(workspace.0, store).await.unwrap();
    let thread = t.ada.thread(&t.general, "@cy look").await;
    let mut browser = Browser::new(&t.app.base);
    let claims = person("cy", "cy@example.org");
    browser.pass(&corp, &provider, json!({}), &claims).await;
    let cy = text(&me(&browser).await, "/id");
    within("the merge", async {
        while t.ada.get(&format!("/v1/members/{past}")).await.status == 200 {
            crate::support::pause().await;
        }
    })
    .await;
    let messages = t.ada.messages(&thread).await;
    assert_eq!(messages[0]["mentions"][0]["id"], cy.as_str());
}

#[tokio::test]
async fn without_an_invite_nobody_gets_an_account() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let provider = provide(&t.ada, &corp, json!({})).await;
    let accounts = t.app.place.count("users").await;
    let mut browser = Browser::new(&t.app.base);
    let there = browser
        .pass(&corp, &provider, json!({}), &person("cy", "cy@example.org"))
        .await;
    there.failed("not_invited");
    let foreign = browser
        .pass(&corp, &provider, json!({}), &person("cy", "cy@other.org"))
        .await;
    foreign.failed("not_invited");
    let mut unverified = person("cy", "cy@example.org");
    unverified["email_verified"] = false.into();
    let there = browser.pass(&corp, &provider, json!({}), &unverified).await;
    there.failed("email_not_verified");
    assert_eq!(t.app.place.count("users").await, accounts);
    // An invite for the address, and one that the person holds.
    let form = json!({"email": "cy@example.org", "role": "viewer"});
    t.ada.post("/v1/invites", form).await.is(201);
    browser
        .pass(&corp, &provider, json!({}), &person("cy", "cy@example.org"))
        .await;
    let mine = browser.person().get("/v1/auth/me").await.is(200);
    assert_eq!(mine["workspaces"][0]["role"], "viewer");
    let held = t
        .ada
        .post("/v1/invites", json!({"max_uses": 1}))
        .await
        .is(201);
    let held = json!({"invite": text(&held, "/token")});
    let mut other = Browser::new(&t.app.base);
    other
        .pass(
            &corp,
            &provider,
            held.clone(),
            &person("di", "di@example.org"),
        )
        .await;
    assert_eq!(me(&other).await["email"], "di@example.org");
    let path = format!("/v1/auth/oidc/{provider}/start");
    assert_eq!(
        visitor(&t.app.base).post(&path, held).await.refused(404),
        "invite_not_found"
    );
    // An invite for another address does not help.
    let foreign = t
        .ada
        .post("/v1/invites", json!({"email": "someone@example.org"}))
        .await
        .is(201);
    let foreign = json!({"invite": text(&foreign, "/token")});
    let there = Browser::new(&t.app.base)
        .pass(&corp, &provider, foreign, &person("ed", "ed@example.org"))
        .await;
    there.failed("not_invited");
}

#[tokio::test]
async fn a_confirmed_account_is_linked_and_an_unconfirmed_one_only_with_its_password() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let provider = provide(&t.ada, &corp, json!({})).await;
    confirm_address(&t.app, &t.bo).await;
    let mut browser = Browser::new(&t.app.base);
    browser
        .pass(&corp, &provider, json!({}), &person("bo", &t.bo.email))
        .await;
    assert_eq!(me(&browser).await["id"], t.bo.id);
    let events = t.bo.get("/v1/auth/events").await.ok();
    assert!(
        list(&events, "/data")
            .iter()
            .any(|event| event["kind"] == "identity_added")
    );
    let audit = t.ada.get("/v1/audit-log?action=identity.linked").await.ok();
    assert_eq!(list(&audit, "/data")[0]["target"], t.bo.id);
    // Another subject with the address of an account that has an identity here is somebody else.
    let there = Browser::new(&t.app.base)
        .pass(&corp, &provider, json!({}), &person("bo2", &t.bo.email))
        .await;
    assert_eq!(there.failed("address_in_use"), Some(t.bo.email.clone()));
    // Nor is an admin of the server linked by address.
    confirm_address(&t.app, &t.ada).await;
    let there = Browser::new(&t.app.base)
        .pass(&corp, &provider, json!({}), &person("ada", &t.ada.email))
        .await;
    there.failed("address_in_use");

    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let mut browser = Browser::new(&t.app.base);
    let there = browser
        .pass(
            &corp,
            &provider,
            json!({"next": "/acme"}),
            &person("cy", &cy.email),
        )
        .await;
    assert_eq!(there.path, "/sign-in");
    assert_eq!(
        (&there.query["link"], there.query["next"].as_str()),
        (&provider, "/acme")
    );
    assert_eq!(browser.person().get("/v1/auth/me").await.status, 401);
    let (status, error) = browser
        .post("/v1/auth/oidc/link", &json!({"password": "wrong horse"}))
        .await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (401, &json!("wrong_credentials"))
    );
    let (status, _) = browser
        .post(
            "/v1/auth/oidc/link",
            &json!({"password": PASSWORD, "unknown": true}),
        )
        .await;
    assert_eq!(status, 422);
    let (status, account) = browser
        .post("/v1/auth/oidc/link", &json!({"password": PASSWORD}))
        .await;
    assert_eq!((status, &account["user"]["id"]), (200, &json!(cy.id)));
    assert_eq!(me(&browser).await["email_confirmed"], true);
    // Once, and only in the browser that began.
    let (status, _) = browser
        .post("/v1/auth/oidc/link", &json!({"password": PASSWORD}))
        .await;
    assert_eq!(status, 401);
    cy.get("/v1/auth/me").await.is(200);
}

#[tokio::test]
async fn whoever_registered_an_address_first_gains_nothing() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let provider = provide(&t.ada, &corp, json!({})).await;
    let squatter = t.app.join(&t.ada, "Victim", "member").await;
    let (robot, _) = squatter.make_key(&["chat:read"]).await;
    let (secret, _) = crate::factors::set_up_app(&squatter).await;
    let mut browser = Browser::new(&t.app.base);
    browser
        .pass(
            &corp,
            &provider,
            json!({}),
            &person("victim", &squatter.email),
        )
        .await;
    let (status, account) = browser
        .post("/v1/auth/oidc/link", &json!({"unknown": true}))
        .await;
    assert_eq!((status, &account["user"]["id"]), (200, &json!(squatter.id)));
    assert_eq!(squatter.get("/v1/auth/me").await.status, 401);
    assert_eq!(robot.get("/v1/channels").await.status, 401);
    let form = json!({"email": squatter.email, "password": PASSWORD});
    let login = visitor(&t.app.base).post("/v1/auth/login", form).await;
    assert_eq!(login.refused(401), "wrong_credentials");
    let factors = browser.person().get("/v1/auth/factors").await.ok();
    assert_eq!(factors["app"], false);
    assert!(!secret.is_empty());
    assert_eq!(me(&browser).await["email_confirmed"], true);
}

#[tokio::test]
async fn a_provider_is_connected_and_disconnected_in_the_settings() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let provider = provide(&t.ada, &corp, json!({"domains": []})).await;
    let connect = json!({"connect": true, "next": "/settings"});
    let mut browser = Browser::of(&t.ada);
    // The address does not matter, and admins of the server connect like everyone.
    let there = browser
        .pass(
            &corp,
            &provider,
            connect.clone(),
            &person("ada", "private@other.org"),
        )
        .await;
    assert_eq!((there.path.as_str(), there.query.len()), ("/settings", 0));
    let mut signed_in = Browser::new(&t.app.base);
    signed_in
        .pass(
            &corp,
            &provider,
            json!({}),
            &person("ada", "private@other.org"),
        )
        .await;
    let ada = me(&signed_in).await;
    assert_eq!(
        (&ada["id"], &ada["email"]),
        (&json!(t.ada.id), &json!(t.ada.email))
    );
    // The identity of one account cannot be taken by another.
    let mut other = Browser::of(&t.bo);
    let there = other
        .pass(
            &corp,
            &provider,
            connect.clone(),
            &person("ada", "x@other.org"),
        )
        .await;
    assert_eq!(
        (there.path.as_str(), there.query["error"].as_str()),
        ("/settings", "address_in_use")
    );
    assert_eq!(there.query.get("detail"), None, "an address of other.org");
    // Without a session, with an old one, and for a session that has ended meanwhile.
    let path = format!("/v1/auth/oidc/{provider}/start");
    assert_eq!(
        visitor(&t.app.base)
            .post(&path, connect.clone())
            .await
            .status,
        401
    );
    let page = other.start(&provider, connect.clone()).await;
    t.bo.act("/v1/auth/logout").await.is(204);
    let code = corp.grant(&page, &person("bo", "bo@other.org"));
    let query = [
        ("code", code.as_str()),
        ("state", &state_of(&page)),
        ("iss", &corp.url),
    ];
    assert_eq!(
        other.arrive(&provider, &query).await.query["error"],
        "not_signed_in"
    );
    let bo = t.bo.log_in().await;
    let_pass(&t.app, ELEVEN_MINUTES).await;
    assert_eq!(
        bo.post(&path, connect).await.refused(403),
        "confirmation_required"
    );
    let identity = id(&list(&t.ada.get("/v1/auth/identities").await.ok(), "/data")[0]);
    let path = format!("/v1/auth/identities/{identity}");
    assert_eq!(
        t.ada.delete(&path).await.refused(403),
        "confirmation_required"
    );
    t.ada
        .post("/v1/auth/confirm", json!({"password": PASSWORD}))
        .await
        .is(204);
    assert_eq!(
        bo.log_in().await.delete(&path).await.refused(404),
        "not_found"
    );
    t.ada.delete(&path).await.is(204);
    let there = signed_in
        .pass(
            &corp,
            &provider,
            json!({}),
            &person("ada", "private@other.org"),
        )
        .await;
    there.failed("not_invited");
}

#[tokio::test]
async fn without_connect_a_browser_with_a_session_signs_in_as_the_person_of_the_provider() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let open = json!([{"workspace_id": t.ada.workspace, "join": "everyone"}]);
    let provider = provide(&t.ada, &corp, json!({"workspaces": open})).await;
    let mut browser = Browser::of(&t.bo);
    let claims = person("cy", "cy@example.org");
    browser.pass(&corp, &provider, json!({}), &claims).await;
    assert_eq!(me(&browser).await["email"], "cy@example.org");
    let of_bo = t.bo.log_in().await.get("/v1/auth/identities").await.ok();
    assert!(list(&of_bo, "/data").is_empty());
}

#[tokio::test]
async fn a_new_sign_in_at_the_provider_confirms_the_same_person() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let open = json!([{"workspace_id": t.ada.workspace, "join": "everyone"}]);
    let provider = provide(&t.ada, &corp, json!({"workspaces": open})).await;
    let mut browser = Browser::new(&t.app.base);
    browser
        .pass(&corp, &provider, json!({}), &person("cy", "cy@example.org"))
        .await;
    let_pass(&t.app, ELEVEN_MINUTES).await;
    let setup = browser.person().act("/v1/auth/totp").await;
    assert_eq!(setup.refused(403), "confirmation_required");
    let form = || json!({"confirm": true, "next": "/settings"});
    let page = browser.start(&provider, form()).await;
    assert!(page.contains("max_age=0"), "{page}");
    let mut old = person("cy", "cy@example.org");
    old["auth_time"] = (openvibe::db::now().unix_s() - 3600).into();
    for (claims, detail) in [
        (person("other", "cy@example.org"), "another_person"),
        (old, "old_sign_in"),
    ] {
        let there = browser.pass(&corp, &provider, form(), &claims).await;
        assert_eq!(
            (
                there.query["error"].as_str(),
                there.query["detail"].as_str()
            ),
            ("refused", detail)
        );
    }
    assert_eq!(browser.person().act("/v1/auth/totp").await.status, 403);
    let there = browser
        .pass(&corp, &provider, form(), &person("cy", "cy@example.org"))
        .await;
    assert_eq!((there.path.as_str(), there.query.len()), ("/settings", 0));
    browser.person().act("/v1/auth/totp").await.is(200);
}

#[tokio::test]
async fn a_new_address_replaces_the_old_one_if_it_is_free() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let open = json!([{"workspace_id": t.ada.workspace, "join": "everyone"}]);
    let provider = provide(&t.ada, &corp, json!({"workspaces": open})).await;
    let mut browser = Browser::new(&t.app.base);
    for (claimed, email) in [
        ("cy@example.org", "cy@example.org"),
        ("cy.new@example.org", "cy.new@example.org"),
        // Belongs to somebody else.
        (t.bo.email.as_str(), "cy.new@example.org"),
        // In a foreign domain.
        ("cy@other.org", "cy.new@example.org"),
    ] {
        browser
            .pass(&corp, &provider, json!({}), &person("cy", claimed))
            .await;
        assert_eq!(me(&browser).await["email"], email);
    }
    let events = browser.person().get("/v1/auth/events").await.ok();
    assert!(
        list(&events, "/data")
            .iter()
            .any(|event| event["kind"] == "address_changed")
    );
}

#[tokio::test]
async fn the_old_address_gets_emails_about_a_connection_and_a_new_address() {
    let mails = MailServer::start().await;
    let settings = [("SMTP_URL", mails.url.as_str()), ("SECRET_KEY", SECRET_KEY)];
    let (t, corp) = (team_with(&settings).await, OidcServer::start().await);
    let provider = provide(&t.ada, &corp, json!({})).await;
    confirm_address(&t.app, &t.bo).await;
    let changes = [
        (t.bo.email.as_str(), "An identity provider was connected"),
        ("bo.new@example.org", "Your email address was changed"),
    ];
    for (n, (email, subject)) in (1..).zip(changes) {
        Browser::new(&t.app.base)
            .pass(&corp, &provider, json!({}), &person("bo", email))
            .await;
        let mail = mails.nth(n).await;
        assert_eq!(mail.to, t.bo.email);
        let subject = format!("Subject: {subject}");
        assert!(mail.text.contains(&subject), "{}", mail.text);
    }
}

#[tokio::test]
async fn groups_set_the_role_of_memberships_that_the_provider_made() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let rules = json!([{"workspace_id": t.ada.workspace, "join": "everyone", "role": "viewer",
        "rules": [{"group": "staff", "role": "member"}, {"group": "ops", "role": "admin"}]}]);
    let provider = provide(&t.ada, &corp, json!({"workspaces": rules})).await;
    let mut browser = Browser::new(&t.app.base);
    for (groups, role) in [
        (json!(["staff"]), "member"),
        // Not named: unchanged.
        (Value::Null, "member"),
        (json!([]), "viewer"),
        (json!("staff"), "member"),
    ] {
        let mut claims = person("cy", "cy@example.org");
        claims["groups"] = groups.clone();
        browser.pass(&corp, &provider, json!({}), &claims).await;
        let mine = browser.person().get("/v1/auth/me").await.is(200);
        assert_eq!(mine["workspaces"][0]["role"], role, "{groups}");
    }
    let audit = t
        .ada
        .get("/v1/audit-log?action=member.role_changed")
        .await
        .ok();
    let first = list(&audit, "/data")[0].clone();
    assert_eq!(
        (&first["actor_kind"], &first["actor_id"]),
        (&json!("provider"), &Value::Null)
    );
    // People whom an admin invited keep their roles.
    confirm_address(&t.app, &t.bo).await;
    let mut claims = person("bo", &t.bo.email);
    claims["groups"] = json!(["ops"]);
    let mut bo = Browser::new(&t.app.base);
    bo.pass(&corp, &provider, json!({}), &claims).await;
    let mine = bo.person().get("/v1/auth/me").await.is(200);
    assert_eq!(mine["workspaces"][0]["role"], "member");
    // An admin of the server stays one, although the provider made the membership.
    let mut claims = person("cy", "cy@example.org");
    claims["groups"] = json!(["ops"]);
    browser.pass(&corp, &provider, json!({}), &claims).await;
    claims["groups"] = json!([]);
    browser.pass(&corp, &provider, json!({}), &claims).await;
    let mine = browser.person().get("/v1/auth/me").await.is(200);
    assert_eq!(mine["workspaces"][0]["role"], "admin");
    let kept = t
        .ada
        .get("/v1/audit-log?action=member.role_kept")
        .await
        .ok();
    assert_eq!(list(&kept, "/data").len(), 1);
}

#[tokio::test]
async fn without_rules_for_roles_people_keep_those_that_admins_chose() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let rules = json!([{"workspace_id": t.ada.workspace, "join": "everyone",
        "rules": [{"group": "staff", "channel_ids": [t.general]}]}]);
    let provider = provide(&t.ada, &corp, json!({"workspaces": rules})).await;
    let invite = json!({"email": "cy@example.org", "role": "viewer"});
    t.ada.post("/v1/invites", invite).await.is(201);
    let mut browser = Browser::new(&t.app.base);
    let mut claims = person("cy", "cy@example.org");
    claims["groups"] = json!([]);
    browser.pass(&corp, &provider, json!({}), &claims).await;
    let mine = browser.person().get("/v1/auth/me").await.is(200);
    assert_eq!(mine["workspaces"][0]["role"], "viewer");
    let path = format!("/v1/members/{}", text(&mine, "/user/id"));
    t.ada.patch(&path, json!({"role": "admin"})).await.is(200);
    claims["groups"] = json!(["staff"]);
    browser.pass(&corp, &provider, json!({}), &claims).await;
    let mine = browser.person().get("/v1/auth/me").await.is(200);
    assert_eq!(mine["workspaces"][0]["role"], "admin");
}

#[tokio::test]
async fn a_provider_makes_no_member_of_a_guest() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let rules = json!([{"workspace_id": t.ada.workspace, "join": "everyone", "role": "viewer",
        "rules": [{"group": "staff", "role": "member"}]}]);
    let provider = provide(&t.ada, &corp, json!({"workspaces": rules})).await;
    let mut browser = Browser::new(&t.app.base);
    let mut claims = person("cy", "cy@example.org");
    claims["groups"] = json!(["staff"]);
    browser.pass(&corp, &provider, json!({}), &claims).await;
    let mine = browser.person().get("/v1/auth/me").await.is(200);
    assert_eq!(mine["workspaces"][0]["role"], "member");
    let path = format!("/v1/members/{}", text(&mine, "/user/id"));
    let guest = json!({"role": "guest", "channel_ids": [t.general]});
    t.ada.patch(&path, guest).await.is(200);
    browser.pass(&corp, &provider, json!({}), &claims).await;
    let mine = browser.person().get("/v1/auth/me").await.is(200);
    assert_eq!(mine["workspaces"][0]["role"], "guest");
}

#[tokio::test]
async fn groups_bring_people_into_channels_and_out_of_them() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let secret = t.ada.private_channel("secret", &[]).await;
    let hidden = t.bo.private_channel("hidden", &[]).await;
    let plans = t.ada.private_channel("plans", &[]).await;
    let rules = |channels: &[&String]| {
        json!([{"workspace_id": t.ada.workspace, "join": "everyone", "rules": [
            {"group": "ops", "channel_ids": channels}, {"group": "staff", "channel_ids": [plans]},
            {"group": "heads", "role": "admin", "channel_ids": [plans]}]}])
    };
    let provider = provide(&t.ada, &corp, json!({"workspaces": rules(&[&secret])})).await;
    let path = format!("/v1/identity-providers/{provider}");
    // Admins of the server read private channels no more than others, and a rule does something.
    let unknown = unknown_id("chan");
    for channel in [&hidden, &unknown] {
        let form = json!({"workspaces": rules(&[channel])});
        let refused = t.ada.patch(&path, form).await;
        assert_eq!(refused.refused(422), "invalid_value", "{channel}");
    }
    let nothing = json!([{"workspace_id": t.ada.workspace, "rules": [{"group": "ops"}]}]);
    let refused = t.ada.patch(&path, json!({"workspaces": nothing})).await;
    assert_eq!(refused.refused(422), "invalid_value");
    let mut browser = Browser::new(&t.app.base);
    for (groups, in_secret, in_plans) in [
        (json!(["ops"]), true, false),
        // Not named: unchanged.
        (Value::Null, true, false),
        (json!(["ops", "staff"]), true, true),
        (json!(["staff", "heads"]), false, true),
        (json!([]), false, false),
    ] {
        let mut claims = person("cy", "cy@example.org");
        claims["groups"] = groups.clone();
        browser.pass(&corp, &provider, json!({}), &claims).await;
        let cy = browser.person();
        let mut seen = Vec::new();
        for channel in [&secret, &plans] {
            let reply = cy.get(&format!("/v1/channels/{channel}")).await;
            seen.push(reply.status == 200);
        }
        assert_eq!(seen, [in_secret, in_plans], "{groups}");
    }
    // A channel that was archived meanwhile stays as it is, and the rule can stay too.
    let archive = format!("/v1/channels/{plans}/archive");
    t.ada.act(&archive).await.ok();
    let mut claims = person("cy", "cy@example.org");
    claims["groups"] = json!(["staff"]);
    browser.pass(&corp, &provider, json!({}), &claims).await;
    let cy = browser.person();
    assert_eq!(cy.get(&format!("/v1/channels/{plans}")).await.status, 404);
    let again = json!({"workspaces": rules(&[&secret])});
    t.ada.patch(&path, again).await.is(200);
    // Memberships that an admin made keep their channels.
    confirm_address(&t.app, &t.bo).await;
    let mut claims = person("bo", &t.bo.email);
    claims["groups"] = json!(["ops"]);
    Browser::new(&t.app.base)
        .pass(&corp, &provider, json!({}), &claims)
        .await;
    assert_eq!(
        t.bo.get(&format!("/v1/channels/{secret}")).await.status,
        404
    );
}

#[tokio::test]
async fn a_rule_keeps_a_hidden_channel_only_for_its_group() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let secret = t.ada.private_channel("secret", &[&t.bo]).await;
    let rules = |group: &str, role: &str| {
        json!([{"workspace_id": t.ada.workspace,
            "rules": [{"group": group, "role": role, "channel_ids": [secret]}]}])
    };
    let first = json!({"workspaces": rules("ops", "member")});
    let provider = provide(&t.ada, &corp, first).await;
    let path = format!("/v1/identity-providers/{provider}");
    let left = t.ada.act(&format!("/v1/channels/{secret}/leave")).await;
    assert!((200..300).contains(&left.status), "{}", left.text);
    for (group, role, status) in [("ops", "viewer", 200), ("staff", "viewer", 422)] {
        let form = json!({"workspaces": rules(group, role)});
        let reply = t.ada.patch(&path, form).await;
        assert_eq!(reply.status, status, "{group} {role}");
    }
}

#[tokio::test]
async fn groups_make_guests_of_their_channels() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let plans = t.ada.private_channel("plans", &[]).await;
    let rules = |channels: &[&String]| {
        json!([{"workspace_id": t.ada.workspace, "join": "everyone", "role": "guest", "rules": [
            {"group": "partners", "role": "guest", "channel_ids": channels}, {"group": "staff", "role": "member"}]}])
    };
    let provider = provide(&t.ada, &corp, json!({"workspaces": rules(&[&plans])})).await;
    let path = format!("/v1/identity-providers/{provider}");
    let none = t.ada.patch(&path, json!({"workspaces": rules(&[])})).await;
    assert_eq!(none.refused(422), "invalid_value");
    let general = id(&t.ada.channel("general").await);
    let mut browser = Browser::new(&t.app.base);
    for (groups, role, seen) in [
        (json!(["partners"]), "guest", vec![&plans]),
        // Not named: unchanged.
        (Value::Null, "guest", vec![&plans]),
        (json!(["staff"]), "member", vec![&general]),
        (json!(["partners"]), "guest", vec![&plans]),
        (json!([]), "guest", vec![]),
        (
            json!(["partners", "staff"]),
            "member",
            vec![&general, &plans],
        ),
    ] {
        let mut claims = person("cy", "cy@example.org");
        claims["groups"] = groups.clone();
        browser.pass(&corp, &provider, json!({}), &claims).await;
        let cy = browser.person().in_workspace(&t.ada.workspace);
        let mine = cy.get("/v1/auth/me").await.is(200);
        assert_eq!(mine["workspaces"][0]["role"], role, "{groups}");
        for channel in [&general, &plans] {
            let status = cy.get(&format!("/v1/channels/{channel}")).await.status;
            assert_eq!(status == 200, seen.contains(&channel), "{groups} {channel}");
        }
        if role == "member" {
            // Those who become guests lose their keys.
            cy.make_key(&["chat:read"]).await;
        }
    }
    assert_eq!(t.app.place.count("api_keys").await, 1);
    assert_eq!(t.app.place.count("guests").await, 0);
    // Once an admin has chosen the channels, the provider changes nothing.
    let mine = browser.person().get("/v1/auth/me").await.is(200);
    let member = format!("/v1/members/{}", text(&mine, "/user/id"));
    let guest = json!({"role": "guest", "channel_ids": [general]});
    t.ada.patch(&member, guest).await.is(200);
    for group in ["partners", "staff"] {
        let mut claims = person("cy", "cy@example.org");
        claims["groups"] = json!([group]);
        browser.pass(&corp, &provider, json!({}), &claims).await;
        let cy = browser.person().in_workspace(&t.ada.workspace);
        cy.get(&format!("/v1/channels/{general}")).await.is(200);
        let hidden = cy.get(&format!("/v1/channels/{plans}")).await;
        assert_eq!(hidden.status, 404, "{group}");
    }
    assert_eq!(t.ada.get(&member).await.ok()["role"], "guest");
}

#[tokio::test]
async fn a_guest_stays_in_an_archived_channel_of_their_groups() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let plans = t.ada.private_channel("plans", &[]).await;
    let here = format!("/v1/channels/{plans}");
    let rules = json!([{"workspace_id": t.ada.workspace, "join": "everyone", "role": "guest",
        "rules": [{"group": "partners", "channel_ids": [plans]}]}]);
    let provider = provide(&t.ada, &corp, json!({"workspaces": rules})).await;
    let mut browser = Browser::new(&t.app.base);
    let mut claims = person("cy", "cy@example.org");
    claims["groups"] = json!(["partners"]);
    browser.pass(&corp, &provider, json!({}), &claims).await;
    t.ada.act(&format!("{here}/archive")).await.ok();
    for (groups, status) in [(json!(["partners"]), 200), (json!([]), 404)] {
        claims["groups"] = groups;
        browser.pass(&corp, &provider, json!({}), &claims).await;
        let cy = browser.person().in_workspace(&t.ada.workspace);
        assert_eq!(cy.get(&here).await.status, status, "{claims}");
    }
}

#[tokio::test]
async fn signing_out_names_the_page_on_which_the_provider_ends_its_session() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let page = "https://corp.example.org/end?tenant=1";
    corp.publish(json!({"end_session_endpoint": page}));
    let open = json!([{"workspace_id": t.ada.workspace, "join": "everyone"}]);
    let provider = provide(&t.ada, &corp, json!({"workspaces": open})).await;
    let mut browser = Browser::new(&t.app.base);
    let claims = person("cy", "cy@example.org");
    browser.pass(&corp, &provider, json!({}), &claims).await;
    let cy = browser.person();
    let ended = cy.act("/v1/auth/logout").await.is(200);
    let url = format!("{page}&client_id={CLIENT_ID}");
    assert_eq!(ended, json!({"provider": {"name": "Corp", "url": url}}));
    cy.get("/v1/auth/me").await.refused(401);
    // A session with a password has no provider.
    t.bo.act("/v1/auth/logout").await.is(204);
}

#[tokio::test]
async fn a_provider_ends_its_sessions() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let open = json!([{"workspace_id": t.ada.workspace, "join": "everyone"}]);
    let provider = provide(&t.ada, &corp, json!({"workspaces": open})).await;
    let mut sessions = Vec::new();
    for sid in ["one", "two", "three"] {
        let mut browser = Browser::new(&t.app.base);
        let mut claims = person("cy", "cy@example.org");
        claims["sid"] = sid.into();
        browser.pass(&corp, &provider, json!({}), &claims).await;
        sessions.push(browser.person());
    }
    let workspace = text(
        &sessions[0].get("/v1/auth/me").await.ok(),
        "/workspaces/0/id",
    );
    let mut socket = sessions[0].in_workspace(&workspace).socket().await;
    let path = format!("{}/v1/auth/oidc/{provider}/logout", t.app.base);
    let http = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .build()
        .unwrap();
    let report = async |claims: Value| {
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("logout_token", &corp.token(&claims))
            .finish();
        let request = http
            .post(&path)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body);
        within("the logout", request.send())
            .await
            .unwrap()
            .status()
            .as_u16()
    };
    let events = json!({"http://schemas.openid.net/event/backchannel-logout": {}});
    let by_sid = json!({"sid": "one", "jti": "1", "events": events});
    for (field, value) in [
        ("nonce", json!("n")),
        ("events", Value::Null),
        ("sid", Value::Null),
        ("jti", Value::Null),
        ("iss", json!("https://evil.example")),
        ("aud", json!("other")),
    ] {
        let mut claims = by_sid.clone();
        claims[field] = value;
        assert_eq!(report(claims).await, 400, "{field}");
    }
    sessions[0].get("/v1/auth/me").await.is(200);
    assert_eq!(report(by_sid.clone()).await, 200);
    assert_eq!(sessions[0].get("/v1/auth/me").await.status, 401);
    assert_eq!(socket.closed().await, 4001);
    sessions[1].get("/v1/auth/me").await.is(200);
    // Once.
    assert_eq!(report(by_sid).await, 400);
    let by_subject = json!({"sub": "cy", "jti": "2", "events": events});
    assert_eq!(report(by_subject).await, 200);
    for session in &sessions {
        assert_eq!(session.get("/v1/auth/me").await.status, 401);
    }
    t.ada.get("/v1/auth/me").await.is(200);
}

#[tokio::test]
async fn the_operator_turns_a_provider_off() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let provider = provide(&t.ada, &corp, json!({})).await;
    let id: IdentityProviderId = provider.parse().unwrap();
    let listed = provider::list_for_operator(&mut t.app.db().read().await.unwrap())
        .await
        .unwrap();
    assert_eq!((listed.len(), listed[0].enabled), (1, true));
    let name = t
        .app
        .db()
        .write(Uuid::nil(), async move |c: &mut Conn| {
            provider::disable(c, id).await
        })
        .await
        .unwrap();
    assert_eq!(name, "Corp");
    let refused = visitor(&t.app.base)
        .post(&format!("/v1/auth/oidc/{provider}/start"), json!({}))
        .await;
    assert_eq!(refused.refused(404), "not_found");
    let audit = t
        .ada
        .get("/v1/audit-log?action=provider.disabled")
        .await
        .ok();
    assert_eq!(list(&audit, "/data")[0]["actor_kind"], "operator");
}

/// Each combination of an account, an address, a claim about it, a subject, and the trust in the provider: nobody enters the account of
/// another person.
#[tokio::test]
async fn no_combination_enters_a_foreign_account() {
    let (t, corp) = (team().await, OidcServer::start().await);
    let provider = provide(&t.ada, &corp, json!({})).await;
    let path = format!("/v1/identity-providers/{provider}");
    confirm_address(&t.app, &t.ada).await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    // Di has an identity here already.
    let di = t.app.join(&t.ada, "Di", "member").await;
    confirm_address(&t.app, &di).await;
    Browser::new(&t.app.base)
        .pass(&corp, &provider, json!({}), &person("di", &di.email))
        .await;
    let identities = t.app.place.count("identities").await;
    assert_eq!(identities, 1);
    let mut n = 0;
    for trust in ["claim", "issuer"] {
        let trusted = json!({"email_trust": trust});
        t.ada.patch(&path, trusted).await.is(200);
        for victim in [&t.ada, &t.bo, &cy, &di] {
            for email in [
                victim.email.clone(),
                victim.email.to_uppercase(),
                victim.email.replace("example.org", "other.org"),
            ] {
                for verified in [
                    json!(true),
                    json!(false),
                    json!("true"),
                    json!("no"),
                    Value::Null,
                ] {
                    for subject in [
                        victim.id.clone(),
                        victim.email.clone(),
                        "DI".to_owned(),
                        "di ".to_owned(),
                        format!("new-{n}"),
                    ] {
                        n += 1;
                        let claims = json!({"sub": subject, "email": email, "email_verified": verified, "name": victim.name});
                        let mut browser = Browser::new(&t.app.base).at(n);
                        browser.pass(&corp, &provider, json!({}), &claims).await;
                        // From the browser's own address: together, these requests exceed the limit of one.
                        let status = browser.status_of("/v1/auth/me").await;
                        assert_eq!(status, 401, "{trust} {claims}");
                    }
                }
            }
        }
    }
    assert_eq!(n, 600);
    assert_eq!(t.app.place.count("identities").await, identities);
}

impl Browser {
    /// The same browser at another address, which has its own limit.
    fn at(mut self, number: usize) -> Self {
        let (high, low) = (
            u8::try_from(1 + number / 100).unwrap(),
            u8::try_from(1 + number % 100).unwrap(),
        );
        self.http = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .redirect(reqwest::redirect::Policy::none())
            .local_address(std::net::IpAddr::from([127, 9, high, low]))
            .build()
            .unwrap();
        self
    }
}
