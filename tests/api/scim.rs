//! Provisioning (SCIM 2.0): accounts and groups that an identity provider sends, as Entra and Okta do.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    oidc::{Browser, provide, team},
    sign_in::let_pass,
    support::{OidcServer, Person, Socket, Team, id, list, number, text, unknown_id, visitor},
};

const ELEVEN_MINUTES: Duration = Duration::from_mins(11);
const USER: &str = "urn:ietf:params:scim:schemas:core:2.0:User";
const GROUP: &str = "urn:ietf:params:scim:schemas:core:2.0:Group";
const PATCH: &str = "urn:ietf:params:scim:api:messages:2.0:PatchOp";

/// A team with a provider that is open to everyone, makes the group `Ops` members, and has a SCIM token.
struct World {
    t: Team,
    corp: OidcServer,
    provider: String,
    scim: Person,
}

async fn world() -> World {
    let (t, corp) = (team().await, OidcServer::start().await);
    let open = json!([{"workspace_id": t.ada.workspace, "join": "everyone", "role": "viewer",
        "rules": [{"group": "Ops", "role": "member"}]}]);
    let provider = provide(&t.ada, &corp, json!({"workspaces": open})).await;
    let scim = make_token(&t.ada, &provider).await.0;
    World {
        t,
        corp,
        provider,
        scim,
    }
}

fn tokens_of(provider: &str) -> String {
    format!("/v1/identity-providers/{provider}/scim-tokens")
}

/// Creates a token; returns a client with it, and its ID.
async fn make_token(admin: &Person, provider: &str) -> (Person, String) {
    let made = admin.post(&tokens_of(provider), json!({})).await.is(201);
    let scim = visitor(&admin.base).with_key(&text(&made, "/token"));
    (scim, id(&made))
}

/// A user as Entra sends it.
fn entra_user(name: &str) -> Value {
    json!({
        "schemas": [USER, "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"],
        "externalId": format!("{name}-0a21f0f2"), "userName": format!("{name}@example.org"), "active": true, "displayName": format!("{name} of Corp"),
        "emails": [{"primary": true, "type": "work", "value": format!("{name}@example.org")}],
        "meta": {"resourceType": "User"},
        "name": {"formatted": format!("{name} Corp"), "familyName": "Corp", "givenName": name},
        "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User": {"department": "Sums"},
        "title": "Analyst", "preferredLanguage": "en-US",
    })
}

/// A user as Okta sends it.
fn okta_user(name: &str) -> Value {
    json!({
        "schemas": [USER], "userName": format!("{name}@example.org"), "name": {"givenName": name, "familyName": "Okta"},
        "emails": [{"primary": true, "value": format!("{name}@example.org"), "type": "work"}],
        "displayName": format!("{name} Okta"), "locale": "en-US", "externalId": format!("00u-{name}"), "groups": [],
        "password": "1mz050nq", "active": true,
    })
}

fn patch(operations: &Value) -> Value {
    json!({"schemas": [PATCH], "Operations": operations})
}

fn at(user: &Value) -> String {
    format!("/scim/v2/Users/{}", id(user))
}

/// Asserts an error of RFC 7644.
#[track_caller]
fn refused(reply: crate::support::Reply, status: u16, kind: Option<&str>) {
    let what = format!("{reply:?}");
    assert_eq!(
        reply.header("content-type").as_deref(),
        Some("application/scim+json"),
        "{what}"
    );
    let error = reply.is(status);
    assert_eq!(
        error["schemas"][0], "urn:ietf:params:scim:api:messages:2.0:Error",
        "{what}"
    );
    assert_eq!(error["status"], status.to_string(), "{what}");
    assert_eq!(error["scimType"].as_str(), kind, "{what}");
    assert!(error["detail"].is_string(), "{what}");
}

async fn member(admin: &Person, user: &str) -> Value {
    admin.get(&format!("/v1/members/{user}")).await.ok()
}

/// Signs in with the provider.
async fn sign_in(w: &World, name: &str) -> Person {
    let mut browser = Browser::new(&w.t.app.base);
    let claims = json!({"sub": format!("{name}-sub"), "email": format!("{name}@example.org"), "email_verified": true, "name": name});
    let there = browser.pass(&w.corp, &w.provider, json!({}), &claims).await;
    assert_eq!(there.path, "/", "{there:?}");
    let mut person = browser.person();
    let me = person.get("/v1/auth/me").await.ok();
    person.id = text(&me, "/user/id");
    person
}

#[tokio::test]
async fn server_admins_make_two_tokens_that_are_shown_once() {
    let w = world().await;
    let path = tokens_of(&w.provider);
    w.scim.get("/scim/v2/Users").await.is(200);
    let (second, second_id) = make_token(&w.t.ada, &w.provider).await;
    let third = w.t.ada.post(&path, json!({})).await;
    assert_eq!(third.refused(422), "quota_exceeded");
    let listed = w.t.ada.get(&path).await.ok();
    assert_eq!(list(&listed, "/data").len(), 2);
    assert!(listed["data"][0]["last_used_at"].is_string());
    assert!(!listed.to_string().contains("ovscim_"));
    let secret = second.key.clone().unwrap();
    assert_eq!(w.t.app.place.places_of(&secret).await, Vec::<String>::new());
    let one = format!("{path}/{second_id}");
    for reply in [
        w.t.bo.get(&path).await,
        w.t.bo.post(&path, json!({})).await,
        w.t.bo.delete(&one).await,
    ] {
        assert_eq!(reply.refused(404), "route_not_found");
    }
    w.t.ada.delete(&one).await.is(204);
    assert_eq!(w.t.ada.delete(&one).await.refused(404), "not_found");
    refused(second.get("/scim/v2/Users").await, 401, None);
    let nobody = visitor(&w.t.app.base);
    refused(nobody.get("/scim/v2/Users").await, 401, None);
    refused(
        nobody.with_key("ovscim_x").get("/scim/v2/Schemas").await,
        401,
        None,
    );
    let (robot, _) = w.t.ada.make_key(&["workspace:admin"]).await;
    refused(robot.get("/scim/v2/Users").await, 401, None);
    // A token opens nothing else.
    assert_eq!(w.scim.get("/v1/members").await.status, 401);
    let audit = w.t.ada.get("/v1/audit-log?order=newest").await.ok();
    let actions: Vec<String> = list(&audit, "/data")
        .iter()
        .map(|entry| text(entry, "/action"))
        .collect();
    for action in ["scim.token_created", "scim.token_deleted"] {
        assert!(actions.contains(&action.to_owned()), "{actions:?}");
    }
    // A provider that is off sends nothing.
    let provider = format!("/v1/identity-providers/{}", w.provider);
    w.t.ada
        .patch(&provider, json!({"enabled": false}))
        .await
        .is(200);
    refused(w.scim.get("/scim/v2/Users").await, 401, None);
    let_pass(&w.t.app, ELEVEN_MINUTES).await;
    let late = w.t.ada.post(&path, json!({})).await;
    assert_eq!(late.refused(403), "confirmation_required");
}

#[tokio::test]
async fn users_of_entra_and_okta_become_members_and_are_found() {
    let w = world().await;
    for (form, name) in [(entra_user("cy"), "cy"), (okta_user("di"), "di")] {
        let reply = w.scim.post("/scim/v2/Users", form.clone()).await;
        let location = reply.header("location").unwrap();
        let user = reply.is(201);
        assert_eq!(location, text(&user, "/meta/location"));
        assert!(location.ends_with(&at(&user)), "{location}");
        assert_eq!(user["userName"], form["userName"]);
        assert_eq!(user["externalId"], form["externalId"]);
        assert_eq!(user["name"], form["name"]);
        assert_eq!(user["emails"], form["emails"]);
        assert_eq!(user["active"], true);
        assert_eq!(user.get("password"), None);
        assert_eq!(w.scim.get(&at(&user)).await.ok(), user);
        let member = member(&w.t.ada, &id(&user)).await;
        assert_eq!(member["status"], "active");
        assert_eq!(member["role"], "viewer");
        assert_eq!(member["name"], form["displayName"]);
        refused(
            w.scim.post("/scim/v2/Users", form.clone()).await,
            409,
            Some("uniqueness"),
        );
        for filter in [
            format!("userName eq \"{}@EXAMPLE.org\"", name.to_uppercase()),
            format!("externalId eq {}", form["externalId"]),
            format!("emails.value eq \"{name}@example.org\""),
            format!("emails[type eq \"work\"].value eq \"{name}@example.org\""),
            format!("displayName eq {}", form["displayName"]),
            format!(
                "id EQ \"{}\" And {USER}:userName eq \"{name}@example.org\"",
                id(&user)
            ),
        ] {
            let query = form_urlencoded::Serializer::new(String::new())
                .append_pair("filter", &filter)
                .append_pair("attributes", "userName,name.givenName")
                .finish();
            let found = w.scim.get(&format!("/scim/v2/Users?{query}")).await.ok();
            assert_eq!(number(&found, "/totalResults"), 1, "{filter}");
            assert_eq!(
                found["Resources"][0],
                json!({"schemas": [USER], "id": id(&user), "userName": form["userName"], "name": {"givenName": name}})
            );
        }
    }
    let none = "/scim/v2/Users?filter=userName%20eq%20%22nobody@example.org%22";
    assert_eq!(number(&w.scim.get(none).await.ok(), "/totalResults"), 0);
    let page = "/scim/v2/Users?startIndex=2&count=1&excludedAttributes=emails,groups";
    let page = w.scim.get(page).await.ok();
    assert_eq!(number(&page, "/totalResults"), 2);
    assert_eq!(number(&page, "/startIndex"), 2);
    assert_eq!(number(&page, "/itemsPerPage"), 1);
    assert_eq!(page["Resources"][0].get("emails"), None);
    let counted = w.scim.get("/scim/v2/Users?count=0").await.ok();
    assert_eq!(number(&counted, "/totalResults"), 2);
    // The first sign-in adds the identity to the same account.
    let cy = sign_in(&w, "cy").await;
    let again = w
        .scim
        .get("/scim/v2/Users?filter=userName%20eq%20%22cy@example.org%22")
        .await
        .ok();
    assert_eq!(text(&again, "/Resources/0/id"), cy.id);
    let of_group = format!("Schemas/{GROUP}");
    let described = [
        ("ServiceProviderConfig", "/filter/supported"),
        ("ResourceTypes/User", "/endpoint"),
        ("ResourceTypes", "/Resources/1/name"),
        ("Schemas", "/Resources/0/attributes/0/name"),
        (of_group.as_str(), "/attributes/1/subAttributes/0/name"),
    ];
    for (path, pointer) in described {
        let shown = w.scim.get(&format!("/scim/v2/{path}")).await.ok();
        assert!(shown.pointer(pointer).is_some(), "{path} {shown}");
    }
}

#[tokio::test]
async fn users_are_found_by_each_of_their_addresses() {
    let w = world().await;
    let mut form = entra_user("cy");
    form["emails"] = json!([{"primary": true, "type": "work", "value": "cy@example.org"},
        {"type": "home", "value": "Cy@Home.example"}]);
    let user = w.scim.post("/scim/v2/Users", form.clone()).await.is(201);
    assert_eq!(user["emails"], form["emails"]);
    let find = async |filter: &str| {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("filter", filter)
            .finish();
        let found = w.scim.get(&format!("/scim/v2/Users?{query}")).await.ok();
        number(&found, "/totalResults")
    };
    for (filter, count) in [
        (r#"emails.value eq "cy@home.example""#, 1),
        (r#"emails[type eq "home"].value eq "cy@home.example""#, 1),
        (r#"emails[type eq "work"].value eq "cy@home.example""#, 0),
        (r#"emails[primary eq true].value eq "cy@example.org""#, 1),
        (
            r#"emails.value eq "cy@example.org" and emails.value eq "cy@home.example""#,
            1,
        ),
    ] {
        assert_eq!(find(filter).await, count, "{filter}");
    }
    let moved = json!([{"op": "Replace", "path": "emails[type eq \"home\"].value", "value": "cy@new.example"}]);
    w.scim.patch(&at(&user), patch(&moved)).await.is(200);
    for (filter, count) in [
        (r#"emails.value eq "cy@home.example""#, 0),
        (r#"emails.value eq "cy@new.example""#, 1),
        (r#"emails.value eq "cy@example.org""#, 1),
    ] {
        assert_eq!(find(filter).await, count, "{filter}");
    }
}

#[tokio::test]
async fn a_user_without_active_is_active() {
    let w = world().await;
    let form = json!({"userName": "cy@example.org"});
    let user = w.scim.post("/scim/v2/Users", form).await.is(201);
    assert_eq!(user["active"], true);
    assert_eq!(w.scim.get(&at(&user)).await.ok(), user);
}

#[tokio::test]
async fn bad_requests_get_errors_of_scim_and_change_nothing() {
    let w = world().await;
    let user = w
        .scim
        .post("/scim/v2/Users", entra_user("cy"))
        .await
        .is(201);
    let users = w.t.app.place.count("users").await;
    let path = at(&user);
    let foreign = json!({"userName": "cy@other.org"});
    let taken = json!({"userName": "di@example.org"});
    w.scim.post("/scim/v2/Users", taken.clone()).await.is(201);
    for (form, status, kind) in [
        (foreign.clone(), 400, "invalidValue"),
        (json!({"userName": "no address"}), 400, "invalidValue"),
        (json!({"displayName": "Cy"}), 400, "invalidValue"),
        (
            json!({"userName": "e\u{0}@example.org"}),
            400,
            "invalidValue",
        ),
        (
            json!({"userName": "e@example.org", "active": "perhaps"}),
            400,
            "invalidValue",
        ),
        (json!([]), 400, "invalidSyntax"),
        // Bo's address is not confirmed, and Ada is an admin of the server.
        (json!({"userName": w.t.bo.email}), 409, "uniqueness"),
        (json!({"userName": w.t.ada.email}), 409, "uniqueness"),
    ] {
        let reply = w.scim.post("/scim/v2/Users", form).await;
        refused(reply, status, Some(kind));
    }
    for (form, status) in [(foreign, 400), (taken, 409)] {
        assert_eq!(w.scim.put(&path, form).await.status, status);
    }
    for (operations, kind) in [
        (
            json!([{"op": "replace", "path": "userName", "value": "cy@other.org"}]),
            "invalidValue",
        ),
        (
            json!([{"op": "replace", "path": "active", "value": 7}]),
            "invalidValue",
        ),
        (
            json!([{"op": "replace", "path": "id", "value": "x"}]),
            "mutability",
        ),
        (
            json!([{"op": "replace", "path": "meta.created", "value": "x"}]),
            "mutability",
        ),
        (json!([{"op": "remove"}]), "noTarget"),
        (
            json!([{"op": "add", "path": "emails[", "value": "x"}]),
            "invalidPath",
        ),
        (
            json!([{"op": "add", "path": "emails[type co \"x\"].value", "value": "x"}]),
            "invalidFilter",
        ),
        (
            json!([{"op": "copy", "path": "active", "value": true}]),
            "invalidSyntax",
        ),
        (json!(7), "invalidSyntax"),
    ] {
        let reply = w.scim.patch(&path, patch(&operations)).await;
        refused(reply, 400, Some(kind));
    }
    let filter = w
        .scim
        .get("/scim/v2/Users?filter=title%20eq%20%22x%22")
        .await;
    refused(filter, 400, Some("invalidFilter"));
    let nobody = unknown_id("user");
    let member = json!({"displayName": "Ops", "members": [{"value": nobody}]});
    refused(
        w.scim.post("/scim/v2/Groups", member).await,
        400,
        Some("invalidValue"),
    );
    let many = json!({"displayName": "Ops", "members": vec![json!({"value": nobody}); 2001]});
    refused(
        w.scim.post("/scim/v2/Groups", many).await,
        400,
        Some("invalidValue"),
    );
    for path in [
        format!("/scim/v2/Users/{nobody}"),
        "/scim/v2/Users/7".to_owned(),
        format!("/scim/v2/Groups/{}", unknown_id("group")),
        "/scim/v2/Bulk".to_owned(),
        "/scim/v2".to_owned(),
    ] {
        refused(w.scim.get(&path).await, 404, None);
    }
    // Bo is no user of the provider.
    let bo = format!("/scim/v2/Users/{}", w.t.bo.id);
    refused(w.scim.delete(&bo).await, 404, None);
    refused(
        w.scim
            .patch(
                &bo,
                patch(&json!([{"op": "replace", "path": "active", "value": false}])),
            )
            .await,
        404,
        None,
    );
    refused(w.scim.put("/scim/v2/Users", json!({})).await, 405, None);
    refused(w.scim.post("/scim/v2/.search", json!({})).await, 501, None);
    refused(w.scim.delete("/scim/v2/Schemas").await, 405, None);
    let large = json!({"userName": "x".repeat(1024 * 1024)});
    refused(w.scim.post("/scim/v2/Users", large).await, 413, None);
    assert_eq!(w.t.app.place.count("users").await, users + 1);
    assert_eq!(w.t.app.place.count("scim_groups").await, 0);
    assert_eq!(w.scim.get(&path).await.ok(), user);
}

#[tokio::test]
async fn a_sync_of_what_is_equal_writes_nothing() {
    let w = world().await;
    let user = w
        .scim
        .post("/scim/v2/Users", entra_user("cy"))
        .await
        .is(201);
    let form = json!({"displayName": "Ops", "externalId": "g1", "members": [{"value": id(&user)}]});
    let group = w.scim.post("/scim/v2/Groups", form.clone()).await.is(201);
    let user = w.scim.get(&at(&user)).await.ok();
    let events = w.t.app.place.count("events").await;
    let audit = w.t.app.place.count("audit_log").await;
    let at_group = format!("/scim/v2/Groups/{}", id(&group));
    for _ in 0..2 {
        let put = w.scim.put(&at(&user), entra_user("cy")).await.is(200);
        assert_eq!(put, user);
        for operations in [
            json!([{"op": "Replace", "path": "active", "value": "True"}]),
            json!([{"op": "replace", "value": {"active": true, "name.givenName": "cy"}}]),
            json!([{"op": "Add", "path": "emails[type eq \"work\"].value", "value": "cy@example.org"}]),
            json!([{"op": "Add", "path": "title", "value": "Countess"}]),
        ] {
            let same = w.scim.patch(&at(&user), patch(&operations)).await.is(200);
            assert_eq!(same, user);
        }
        assert_eq!(w.scim.put(&at_group, form.clone()).await.is(200), group);
        let same =
            patch(&json!([{"op": "Add", "path": "members", "value": [{"value": id(&user)}]}]));
        assert_eq!(w.scim.patch(&at_group, same).await.is(200), group);
    }
    assert_eq!(w.t.app.place.count("events").await, events);
    assert_eq!(w.t.app.place.count("audit_log").await, audit);
}

#[tokio::test]
async fn groups_decide_roles_as_rules_say() {
    let w = world().await;
    let role = async |user: &Value| text(&member(&w.t.ada, &id(user)).await, "/role");
    let cy = w
        .scim
        .post("/scim/v2/Users", entra_user("cy"))
        .await
        .is(201);
    let di = w.scim.post("/scim/v2/Users", okta_user("di")).await.is(201);
    let form = json!({"schemas": [GROUP], "displayName": "Ops", "externalId": "8aa1a0c0", "members": [],
        "meta": {"resourceType": "Group"}});
    let group = w.scim.post("/scim/v2/Groups", form).await.is(201);
    let path = format!("/scim/v2/Groups/{}", id(&group));
    assert_eq!(role(&cy).await, "viewer");
    let (cy_id, di_id) = (id(&cy), id(&di));
    // Operations of Entra and Okta, and the roles afterwards.
    for (operation, of_cy, of_di) in [
        (
            json!({"op": "Add", "path": "members", "value": [{"$ref": null, "value": cy_id}]}),
            "member",
            "viewer",
        ),
        (
            json!({"op": "add", "path": "members", "value": [{"value": di_id, "display": "di@example.org"}]}),
            "member",
            "member",
        ),
        (
            json!({"op": "Remove", "path": "members", "value": [{"$ref": null, "value": cy_id}]}),
            "viewer",
            "member",
        ),
        (
            json!({"op": "remove", "path": format!("members[value eq \"{di_id}\"]")}),
            "viewer",
            "viewer",
        ),
        (
            json!({"op": "replace", "path": "members", "value": [{"value": cy_id}, {"value": di_id}]}),
            "member",
            "member",
        ),
        (
            json!({"op": "replace", "value": {"id": id(&group), "displayName": "Old Ops"}}),
            "viewer",
            "viewer",
        ),
        (
            json!({"op": "Replace", "path": "displayName", "value": "Ops"}),
            "member",
            "member",
        ),
    ] {
        let what = operation.to_string();
        let changed = w
            .scim
            .patch(&path, patch(&json!([operation])))
            .await
            .is(200);
        assert_eq!(id(&changed), id(&group));
        assert_eq!(
            (role(&cy).await.as_str(), role(&di).await.as_str()),
            (of_cy, of_di),
            "{what}"
        );
    }
    let shown = w.scim.get(&at(&cy)).await.ok();
    assert_eq!(shown["groups"][0]["value"], id(&group));
    assert_eq!(shown["groups"][0]["display"], "Ops");
    let found = "/scim/v2/Groups?excludedAttributes=members&filter=displayName%20eq%20%22ops%22";
    let found = w.scim.get(found).await.ok();
    assert_eq!(text(&found, "/Resources/0/id"), id(&group));
    assert_eq!(found["Resources"][0].get("members"), None);
    let put = json!({"schemas": [GROUP], "displayName": "Ops", "members": [{"value": di_id}]});
    let put = w.scim.put(&path, put).await.is(200);
    let address = format!("{}/scim/v2/Users/{di_id}", w.t.app.base);
    let only = json!([{"value": di_id, "$ref": address, "type": "User"}]);
    assert_eq!(put["members"], only, "what a client sent, and no more");
    assert_eq!(
        (role(&cy).await.as_str(), role(&di).await.as_str()),
        ("viewer", "member")
    );
    w.scim.delete(&path).await.is(204);
    assert_eq!(role(&di).await, "viewer");
    refused(w.scim.get(&path).await, 404, None);
}

#[tokio::test]
async fn groups_decide_channels_as_rules_say() {
    let w = world().await;
    let ada = &w.t.ada;
    let secret = ada.private_channel("secret", &[]).await;
    let here = format!("/v1/channels/{secret}");
    let rules = json!([{"workspace_id": ada.workspace, "join": "everyone",
        "rules": [{"group": "Ops", "channel_ids": [secret]}]}]);
    let provider = format!("/v1/identity-providers/{}", w.provider);
    ada.patch(&provider, json!({"workspaces": rules}))
        .await
        .is(200);
    let cy = w
        .scim
        .post("/scim/v2/Users", entra_user("cy"))
        .await
        .is(201);
    let form = json!({"displayName": "Ops", "members": [{"value": id(&cy)}]});
    let group = w.scim.post("/scim/v2/Groups", form).await.is(201);
    let mut person = sign_in(&w, "cy").await;
    person.enter(&ada.workspace).await;
    person.get(&here).await.is(200);
    let mut socket = person.socket().await;
    let path = format!("/scim/v2/Groups/{}", id(&group));
    for (members, status) in [(json!([]), 404), (json!([{"value": id(&cy)}]), 200)] {
        let put = json!({"displayName": "Ops", "members": members});
        w.scim.put(&path, put).await.is(200);
        assert_eq!(person.get(&here).await.status, status);
    }
    // Those who are deactivated return to the channels of their groups.
    for (active, status) in [(false, "suspended"), (true, "active")] {
        let change = json!([{"op": "replace", "path": "active", "value": active}]);
        w.scim.patch(&at(&cy), patch(&change)).await.is(200);
        assert_eq!(member(ada, &id(&cy)).await["status"], status);
    }
    let inside = ada.get(&format!("{here}/members")).await.ok();
    assert_eq!(list(&inside, "/data").len(), 2);
    socket.closed().await;
    w.scim.delete(&path).await.is(204);
    let inside = ada.get(&format!("{here}/members")).await.ok();
    assert_eq!(list(&inside, "/data").len(), 1);
}

#[tokio::test]
async fn deactivation_takes_all_access_away_at_once_and_activation_restores_it() {
    let w = world().await;
    for off in [
        json!([{"op": "Replace", "path": "active", "value": "False"}]),
        json!([{"op": "replace", "value": {"active": false}}]),
    ] {
        let name = if off[0]["path"].is_string() {
            "cy"
        } else {
            "di"
        };
        let user = w
            .scim
            .post("/scim/v2/Users", entra_user(name))
            .await
            .is(201);
        let ops = json!({"displayName": "Ops", "members": [{"value": id(&user)}]});
        w.scim.post("/scim/v2/Groups", ops).await.is(201);
        let mut cy = sign_in(&w, name).await;
        cy.enter(&w.t.ada.workspace).await;
        let (robot, _) = cy.make_key(&["chat:read", "chat:write"]).await;
        let private =
            w.t.ada
                .private_channel(&format!("secret-{name}"), &[&cy])
                .await;
        let here = format!("/v1/channels/{private}");
        cy.get(&here).await.is(200);
        let for_them = json!({"email": format!("{name}@example.org")});
        let invite = w.t.ada.post("/v1/invites", for_them.clone()).await.is(201);
        let mut browser = Socket::open(&cy, json!({})).await;
        let mut program = Socket::open(&robot, json!({})).await;

        let changed = w.scim.patch(&at(&user), patch(&off)).await.is(200);
        assert_eq!(changed["active"], false);
        for socket in [&mut browser, &mut program] {
            let code = socket.closed().await;
            assert!([4001, 4003].contains(&code), "{code}");
        }
        let before: Vec<Value> = browser.drained();
        w.t.ada.start(&private, "not for everyone").await;
        assert!(!json!(before).to_string().contains("not for everyone"));
        for person in [&cy, &robot] {
            assert_eq!(person.get(&here).await.status, 401);
            assert_eq!(Socket::silent(person).await.closed().await, 4001);
        }
        let shown = member(&w.t.ada, &id(&user)).await;
        assert_eq!(
            (&shown["status"], &shown["role"]),
            (&json!("suspended"), &json!("member"))
        );
        let listed = w.t.ada.every("/v1/members").await;
        assert!(listed.contains(&shown), "{listed:?}");
        let inside = w.t.ada.get(&format!("{here}/members")).await.ok();
        assert_eq!(list(&inside, "/data").len(), 1);
        let open = w.t.ada.every("/v1/invites").await;
        assert!(open.iter().all(|one| one["id"] != invite["id"]), "{open:?}");
        // A new session has no workspace, and no invite brings it back.
        let mut again = sign_in(&w, name).await;
        again.workspace_header = Some(w.t.ada.workspace.clone());
        assert_eq!(again.get(&here).await.status, 404);
        assert_eq!(
            again.get("/v1/members").await.refused(404),
            "workspace_not_found"
        );
        let new = w.t.ada.post("/v1/invites", for_them).await.is(201);
        let token = text(&new, "/token");
        let back = again
            .post(&format!("/v1/invites/{token}/accept"), json!({}))
            .await;
        assert_eq!(back.refused(403), "member_suspended");
        let added = json!({"user_id": id(&user)});
        let added = w.t.ada.post(&format!("{here}/members"), added).await;
        assert_ne!(added.status, 201);

        let on = w
            .scim
            .patch(
                &at(&user),
                patch(&json!([{"op": "replace", "path": "active", "value": "True"}])),
            )
            .await
            .is(200);
        assert_eq!(on["active"], true);
        let shown = member(&w.t.ada, &id(&user)).await;
        assert_eq!(
            (&shown["status"], &shown["role"]),
            (&json!("active"), &json!("member"))
        );
        again.get(&here).await.is(200);
        assert_eq!(robot.get(&here).await.status, 401);
        // Deletion suspends too, and deletes nothing.
        w.scim.delete(&at(&user)).await.is(204);
        refused(w.scim.get(&at(&user)).await, 404, None);
        assert_eq!(member(&w.t.ada, &id(&user)).await["status"], "suspended");
        let returned = w
            .scim
            .post("/scim/v2/Users", entra_user(name))
            .await
            .is(201);
        assert_eq!(id(&returned), id(&user));
        assert_eq!(member(&w.t.ada, &id(&user)).await["status"], "active");
        let audit = w.t.ada.every("/v1/audit-log").await;
        let count = |action: &str| {
            let target =
                |entry: &&Value| entry["action"] == action && entry["target"] == user["id"];
            audit.iter().filter(target).count()
        };
        assert_eq!(
            (count("member.suspended"), count("member.restored")),
            (2, 2)
        );
        let by = audit.iter().find(|e| e["action"] == "member.suspended");
        let by = by.unwrap();
        assert_eq!(
            (&by["actor_kind"], &by["actor_id"]),
            (&json!("provider"), &Value::Null)
        );
        // Admins can remove a suspended member.
        w.scim.delete(&at(&user)).await.is(204);
        w.t.ada
            .delete(&format!("/v1/members/{}", id(&user)))
            .await
            .is(204);
        let gone = w.t.ada.get(&format!("/v1/members/{}", id(&user))).await;
        assert_eq!(gone.refused(404), "member_not_found");
    }
}

#[tokio::test]
async fn messages_and_action_items_of_a_deactivated_person_stay() {
    let w = world().await;
    let (ada, form) = (&w.t.ada, entra_user("cy"));
    let user = w.scim.post("/scim/v2/Users", form).await.is(201);
    let ops = json!({"displayName": "Ops", "members": [{"value": id(&user)}]});
    w.scim.post("/scim/v2/Groups", ops).await.is(201);
    let mut cy = sign_in(&w, "cy").await;
    cy.enter(&ada.workspace).await;
    let thread = cy.thread(&w.t.general, "I was here").await;
    let dive = w.t.dive().await;
    let task = json!({"text": "Book the room", "owner_id": cy.id});
    let content = json!({"headline": "Monday", "action_items": [task]});
    ada.publish_as(&dive.fork, content).await;
    let off = json!([{"op": "replace", "path": "active", "value": false}]);
    w.scim.patch(&at(&user), patch(&off)).await.is(200);
    let messages = ada.messages(&thread).await;
    assert_eq!(messages[0]["content"], "I was here");
    let items = list(&ada.get("/v1/action-items").await.ok(), "/data");
    assert_eq!(items.len(), 1);
    assert_eq!(items[0]["text"], "Book the room");
    assert_eq!(items[0]["owner_id"], cy.id);
}

#[tokio::test]
async fn the_last_admin_and_other_workspaces_are_left_alone() {
    let w = world().await;
    let ada = w.t.ada.in_workspace(&w.t.ada.workspace);
    let beta = ada
        .post("/v1/workspaces", json!({"name": "Beta", "slug": "beta"}))
        .await
        .is(201);
    let beta = ada.in_workspace(&id(&beta));
    let path = format!("/v1/identity-providers/{}", w.provider);
    let ops = json!([{"group": "Ops", "role": "admin"}]);
    let both = json!([{"workspace_id": ada.workspace, "join": "everyone"},
        {"workspace_id": beta.workspace, "join": "everyone", "rules": ops}]);
    ada.patch(&path, json!({"workspaces": both})).await.is(200);
    let user = w
        .scim
        .post("/scim/v2/Users", entra_user("cy"))
        .await
        .is(201);
    let group = json!({"displayName": "Ops", "members": [{"value": id(&user)}]});
    w.scim.post("/scim/v2/Groups", group).await.is(201);
    let mut cy = sign_in(&w, "cy").await;
    cy.enter(&beta.workspace).await;
    let cy = cy.in_workspace(&beta.workspace);
    beta.delete(&format!("/v1/members/{}", beta.id))
        .await
        .is(204);
    let off = patch(&json!([{"op": "replace", "path": "active", "value": false}]));
    w.scim.patch(&at(&user), off).await.is(200);
    assert_eq!(member(&ada, &id(&user)).await["status"], "suspended");
    // The session goes on in the other workspace.
    assert_eq!(member(&cy, &id(&user)).await["status"], "active");
    let elsewhere = cy.in_workspace(&ada.workspace);
    assert_eq!(
        elsewhere.get("/v1/members").await.refused(404),
        "workspace_not_found"
    );
    let audit = cy.every("/v1/audit-log").await;
    assert!(
        audit
            .iter()
            .any(|entry| entry["action"] == "member.not_suspended"),
        "{audit:?}"
    );
    let inbox = cy.get("/v1/inbox").await.ok();
    let about = |item: &Value| item["reason"] == "notice" && item["subject_id"] == user["id"];
    assert_eq!(
        list(&inbox, "/data")
            .iter()
            .filter(|item| about(item))
            .count(),
        1
    );
}

#[tokio::test]
async fn an_erasure_includes_what_providers_sent() {
    let w = world().await;
    let user = w
        .scim
        .post("/scim/v2/Users", entra_user("cy"))
        .await
        .is(201);
    let ops = json!({"displayName": "Ops", "members": [{"value": id(&user)}]});
    w.scim.post("/scim/v2/Groups", ops).await.is(201);
    let mut cy = sign_in(&w, "cy").await;
    cy.enter(&w.t.ada.workspace).await;
    w.t.ada.erase_as(&cy, &cy.handle).await;
    for table in [
        "identities",
        "scim_users",
        "scim_emails",
        "scim_group_members",
    ] {
        assert_eq!(w.t.app.place.count(table).await, 0, "{table}");
    }
    refused(w.scim.get(&at(&user)).await, 404, None);
}
