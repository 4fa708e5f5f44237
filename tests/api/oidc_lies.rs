//! Identity providers that lie, break, or stall, and people who try to use what belongs to others.

use std::{future::Future, time::Duration};

use serde_json::{Value, json};

use crate::{
    oidc::{Browser, person, provide, state_of, team},
    sign_in::let_pass,
    support::{Canned, OidcServer, Signer, Team, list, visitor},
};

struct World {
    t: Team,
    corp: OidcServer,
    provider: String,
}

/// A provider whose people can all join.
async fn world() -> World {
    let (t, corp) = (team().await, OidcServer::start().await);
    let open = json!([{"workspace_id": t.ada.workspace, "join": "everyone"}]);
    let provider = provide(&t.ada, &corp, json!({"workspaces": open})).await;
    World { t, corp, provider }
}

impl World {
    /// Signs in with these claims; returns the code and the detail of the failure, or `ok`.
    async fn outcome(&self, claims: &Value) -> (String, String) {
        let mut browser = Browser::new(&self.t.app.base);
        let there = browser
            .pass(&self.corp, &self.provider, json!({}), claims)
            .await;
        let signed_in = browser.person().get("/v1/auth/me").await.status == 200;
        let part = |name: &str| there.query.get(name).cloned().unwrap_or_default();
        assert_eq!(signed_in, part("error").is_empty(), "{there:?}");
        if signed_in {
            ("ok".to_owned(), String::new())
        } else {
            (part("error"), part("detail"))
        }
    }

    async fn refused(&self, claims: &Value) -> String {
        let (error, detail) = self.outcome(claims).await;
        assert_eq!(error, "refused", "{claims}");
        detail
    }
}

fn cy() -> Value {
    person("cy", "cy@example.org")
}

fn with(field: &str, value: impl Into<Value>) -> Value {
    let mut claims = cy();
    claims[field] = value.into();
    claims
}

#[tokio::test]
async fn every_permitted_algorithm_signs_in_and_no_other() {
    let w = world().await;
    for signer in [
        Signer::Es256,
        Signer::Es384,
        Signer::EdDsa,
        Signer::Rs256,
        Signer::Ps256,
    ] {
        w.corp.sign_with(signer);
        assert_eq!(w.outcome(&cy()).await.0, "ok", "{signer:?}");
    }
    for (signer, detail) in [
        (Signer::None, "algorithm_not_permitted"),
        (Signer::Hs256, "algorithm_not_permitted"),
        (Signer::Foreign, "invalid_signature"),
    ] {
        w.corp.sign_with(signer);
        assert_eq!(w.refused(&cy()).await, detail, "{signer:?}");
    }
}

#[tokio::test]
async fn tokens_for_others_are_refused() {
    let w = world().await;
    for (claims, detail) in [
        (with("iss", "https://evil.example"), "wrong_issuer"),
        (with("iss", format!("{}/", w.corp.url)), "wrong_issuer"),
        (with("iss", Value::Null), "wrong_issuer"),
        (with("aud", "other"), "wrong_audience"),
        (with("aud", json!([])), "wrong_audience"),
        (with("aud", Value::Null), "wrong_audience"),
        (with("aud", json!(["openvibe", "other"])), "wrong_audience"),
        (with("azp", "other"), "wrong_audience"),
        (with("azp", 7), "wrong_audience"),
        (with("nonce", "other"), "wrong_nonce"),
        (with("nonce", Value::Null), "wrong_nonce"),
        (with("sub", ""), "invalid_subject"),
        (with("sub", "x".repeat(256)), "invalid_subject"),
        (with("sub", Value::Null), "invalid_subject"),
        (with("exp", Value::Null), "invalid_token"),
        (with("iat", Value::Null), "invalid_token"),
        (with("padding", "x".repeat(70_000)), "invalid_token"),
    ] {
        assert_eq!(w.refused(&claims).await, detail, "{claims}");
    }
    let mut two = with("aud", json!(["openvibe", "other"]));
    two["azp"] = "openvibe".into();
    assert_eq!(w.outcome(&two).await.0, "ok");
    assert_eq!(
        w.outcome(&with("sub", "x".repeat(255))).await.0,
        "address_in_use"
    );
}

#[tokio::test]
async fn clocks_may_differ_by_a_minute() {
    let w = world().await;
    let now = || openvibe::db::now().unix_s();
    for (issued, expires, outcome) in [
        (50, 350, ("ok", "")),
        (-300, -50, ("ok", "")),
        (300, 600, ("clock_skew", "-5")),
        (-3630, -3000, ("clock_skew", "60")),
    ] {
        let mut claims = with("iat", now() + issued + 1);
        claims["exp"] = (now() + expires).into();
        let (error, detail) = w.outcome(&claims).await;
        assert_eq!((error.as_str(), detail.as_str()), outcome, "{issued}");
    }
    let later = with("nbf", now() + 3600);
    assert_eq!(w.outcome(&later).await.0, "clock_skew");
}

#[tokio::test]
async fn keys_are_read_again_once_a_minute() {
    let w = world().await;
    assert_eq!(w.outcome(&cy()).await.0, "ok");
    assert_eq!(w.corp.requests_to("/keys"), 1);
    w.corp.rotate();
    assert_eq!(w.outcome(&cy()).await.0, "ok");
    assert_eq!(w.corp.requests_to("/keys"), 2);
    // Unknown keys cannot make the server ask again and again.
    for _ in 0..3 {
        assert_eq!(
            w.refused(&with("kid", "unknown")).await,
            "invalid_signature"
        );
    }
    assert_eq!(w.corp.requests_to("/keys"), 2);
    assert_eq!(w.corp.requests_to("/.well-known/openid-configuration"), 1);
}

#[tokio::test]
async fn a_code_a_state_and_a_browser_fit_together_once() {
    let w = world().await;
    let mut browser = Browser::new(&w.t.app.base);
    let page = browser.start(&w.provider, json!({})).await;
    let (code, state) = (w.corp.grant(&page, &cy()), state_of(&page));
    let query = [
        ("code", code.as_str()),
        ("state", state.as_str()),
        ("iss", w.corp.url.as_str()),
    ];
    // Another browser, even one that has begun a sign-in of its own.
    let mut other = Browser::new(&w.t.app.base);
    other
        .arrive(&w.provider, &query)
        .await
        .failed("flow_expired");
    other.start(&w.provider, json!({})).await;
    other
        .arrive(&w.provider, &query)
        .await
        .failed("flow_expired");
    // Unknown and absent states.
    let unknown = [
        ("code", code.as_str()),
        ("state", "unknown"),
        ("iss", w.corp.url.as_str()),
    ];
    Browser::new(&w.t.app.base)
        .arrive(&w.provider, &unknown)
        .await
        .failed("flow_expired");
    Browser::new(&w.t.app.base)
        .arrive(&w.provider, &unknown[..1])
        .await
        .failed("flow_expired");
    assert_eq!(browser.arrive(&w.provider, &query).await.path, "/");
    browser.person().get("/v1/auth/me").await.is(200);
    // Used, although the browser still has the cookie.
    browser
        .arrive(&w.provider, &query)
        .await
        .failed("flow_expired");
    // A code of another sign-in has another challenge and another nonce.
    let mut attacker = Browser::new(&w.t.app.base);
    let stolen = w
        .corp
        .grant(&attacker.start(&w.provider, json!({})).await, &cy());
    let mut victim = Browser::new(&w.t.app.base);
    let page = victim.start(&w.provider, json!({})).await;
    let query = [
        ("code", stolen.as_str()),
        ("state", &state_of(&page)),
        ("iss", &w.corp.url),
    ];
    let there = victim.arrive(&w.provider, &query).await;
    assert_eq!(there.failed("refused").unwrap(), "invalid_grant");
    // Too late.
    let page = victim.start(&w.provider, json!({})).await;
    let code = w.corp.grant(&page, &cy());
    let_pass(&w.t.app, Duration::from_mins(11)).await;
    let query = [
        ("code", code.as_str()),
        ("state", &state_of(&page)),
        ("iss", &w.corp.url),
    ];
    victim
        .arrive(&w.provider, &query)
        .await
        .failed("flow_expired");
    // Nothing of a sign-in is stored in the clear.
    let page = victim.start(&w.provider, json!({})).await;
    assert_eq!(
        w.t.app.place.places_of(&state_of(&page)).await,
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn providers_cannot_answer_for_each_other() {
    let w = world().await;
    let evil = OidcServer::start().await;
    let form = json!({"name": "Evil", "domains": ["evil.example"]});
    let other = provide(&w.t.ada, &evil, form).await;
    let mut browser = Browser::new(&w.t.app.base);
    // The answer to one is delivered to the other.
    let page = browser.start(&w.provider, json!({})).await;
    let code = evil.grant(&page, &cy());
    let query = [
        ("code", code.as_str()),
        ("state", &state_of(&page)),
        ("iss", &evil.url),
    ];
    browser.arrive(&other, &query).await.failed("flow_expired");
    // An answer names its issuer, if the provider announces that it does.
    for issuer in [Some(evil.url.as_str()), None] {
        let page = browser.start(&w.provider, json!({})).await;
        let (code, state) = (w.corp.grant(&page, &cy()), state_of(&page));
        let mut query = vec![("code", code.as_str()), ("state", &state)];
        query.extend(issuer.map(|issuer| ("iss", issuer)));
        let there = browser.arrive(&w.provider, &query).await;
        assert_eq!(there.failed("refused").unwrap(), "wrong_issuer");
    }
    // A provider vouches only for its own domains.
    let there = browser.pass(&evil, &other, json!({}), &cy()).await;
    there.failed("not_invited");
    // The same subject elsewhere is another person.
    assert_eq!(w.outcome(&cy()).await.0, "ok");
    let there = browser
        .pass(&evil, &other, json!({}), &person("cy", "cy@evil.example"))
        .await;
    there.failed("not_invited");
}

#[tokio::test]
async fn a_provider_that_breaks_lets_nobody_in() {
    let w = world().await;
    assert_eq!(w.outcome(&cy()).await.0, "ok");
    let many: Vec<Value> = (0..10_000)
        .map(|n| json!({"kty": "RSA", "kid": format!("{n:08}")}))
        .collect();
    let few: Vec<Value> = (0..51)
        .map(|n| json!({"kty": "RSA", "kid": format!("{n:08}")}))
        .collect();
    for (path, canned, outcome) in [
        (
            "/token",
            Canned::Json(400, json!({"error": "invalid_grant"})),
            ("refused", "invalid_grant"),
        ),
        (
            "/token",
            Canned::Json(401, json!({"error": "invalid_client"})),
            ("misconfigured", "invalid_client"),
        ),
        (
            "/token",
            Canned::Json(200, json!({"access_token": "x"})),
            ("refused", "no_id_token"),
        ),
        (
            "/token",
            Canned::Json(200, json!({"id_token": "a.b.c"})),
            ("refused", "invalid_token"),
        ),
        (
            "/token",
            Canned::Json(500, json!({})),
            ("provider_unreachable", ""),
        ),
        (
            "/token",
            Canned::Flood(50 << 20),
            ("misconfigured", "answer_too_large"),
        ),
        (
            "/token",
            Canned::Redirect("https://evil.example/".to_owned()),
            ("provider_unreachable", ""),
        ),
    ] {
        w.corp.can(path, canned.clone());
        let (error, detail) = w.outcome(&cy()).await;
        assert_eq!((error.as_str(), detail.as_str()), outcome, "{canned:?}");
        w.corp.mend();
    }
    let shown =
        w.t.ada
            .get(&format!("/v1/identity-providers/{}", w.provider))
            .await
            .ok();
    assert_eq!(shown["state"], "unreachable");
    assert_eq!(w.outcome(&cy()).await.0, "ok");
    let shown =
        w.t.ada
            .get(&format!("/v1/identity-providers/{}", w.provider))
            .await
            .ok();
    assert_eq!(
        (&shown["state"], &shown["error"]),
        (&json!("ok"), &Value::Null)
    );
    // Sets of keys that are too large, in a server that has not read any.
    for (keys, detail) in [(many, "answer_too_large"), (few, "too_many_keys")] {
        let w = world_with_keys(json!({"keys": keys})).await;
        assert_eq!(
            w.outcome(&cy()).await,
            ("misconfigured".to_owned(), detail.to_owned())
        );
    }
}

/// A provider that publishes other keys after the try.
async fn world_with_keys(keys: Value) -> World {
    let w = world().await;
    w.corp.can("/keys", Canned::Json(200, keys));
    w.corp.rotate();
    w
}

#[tokio::test]
async fn a_provider_that_stalls_delays_only_its_own_people() {
    let w = world().await;
    w.corp.can("/token", Canned::Stall);
    let mut browser = Browser::new(&w.t.app.base);
    let claims = cy();
    let stalled = browser.pass(&w.corp, &w.provider, json!({}), &claims);
    let others = async {
        for _ in 0..20 {
            w.t.bo.get("/v1/channels").await.is(200);
        }
    };
    let (there, ()) = both(stalled, others).await;
    there.failed("provider_unreachable");
    let lines = w.t.ada.get("/v1/identity-providers").await.ok();
    assert_eq!(list(&lines, "/data")[0]["state"], "unreachable");
}

async fn both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    futures::future::join(one, other).await
}

#[tokio::test]
async fn user_info_completes_the_token_but_not_for_another_person() {
    let w = world().await;
    let mut bare = cy();
    for field in ["email", "email_verified", "name"] {
        bare[field] = Value::Null;
    }
    assert_eq!(w.outcome(&bare).await.0, "email_not_verified");
    w.corp.set_user_info(person("other", "cy@example.org"));
    assert_eq!(w.refused(&bare).await, "wrong_subject");
    let mut nobody = cy();
    nobody["sub"] = Value::Null;
    w.corp.set_user_info(nobody);
    assert_eq!(w.refused(&bare).await, "wrong_subject");
    w.corp.set_user_info(cy());
    assert_eq!(w.outcome(&bare).await.0, "ok");
    // Its confirmation counts for the token's address only if it has the same one.
    let mut mixed = person("di", "di@example.org");
    mixed["email_verified"] = Value::Null;
    w.corp.set_user_info(person("di", "other@example.org"));
    assert_eq!(w.outcome(&mixed).await.0, "email_not_verified");
    w.corp.set_user_info(person("di", "di@example.org"));
    assert_eq!(w.outcome(&mixed).await.0, "ok");
}

#[tokio::test]
async fn user_info_that_cannot_be_read_confirms_nothing_and_keeps_nobody_out() {
    let w = world().await;
    assert_eq!(w.outcome(&cy()).await.0, "ok");
    w.corp.can(
        "/userinfo",
        Canned::Json(401, json!({"error": "invalid_token"})),
    );
    let mut known = cy();
    known["email_verified"] = Value::Null;
    assert_eq!(w.outcome(&known).await.0, "ok");
    let mut new = person("di", "di@example.org");
    new["email_verified"] = Value::Null;
    assert_eq!(w.outcome(&new).await.0, "email_not_verified");
    // What is needed besides is not left out.
    new["email"] = Value::Null;
    assert_eq!(w.outcome(&new).await.0, "misconfigured");
}

#[tokio::test]
async fn a_sign_in_returns_only_to_this_server() {
    let w = world().await;
    let path = format!("/v1/auth/oidc/{}/start", w.provider);
    for next in [
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "evil",
        "/\t/evil.example",
        "javascript:alert(1)",
    ] {
        let reply = visitor(&w.t.app.base)
            .post(&path, json!({"next": next}))
            .await;
        assert_eq!(reply.refused(422), "invalid_value", "{next:?}");
    }
    let mut foreign = visitor(&w.t.app.base);
    foreign.origin = Some("https://evil.example".to_owned());
    assert_eq!(
        foreign.post(&path, json!({})).await.refused(403),
        "cross_origin"
    );
    // The provider's own words are not shown, except for its code.
    let mut browser = Browser::new(&w.t.app.base);
    let page = browser.start(&w.provider, json!({})).await;
    let query = [
        ("error", "access_denied <b>"),
        ("error_description", "Call +1 900"),
        ("state", &state_of(&page)),
        ("iss", &w.corp.url),
    ];
    let there = browser.arrive(&w.provider, &query).await;
    assert_eq!(there.failed("refused").unwrap(), "access_deniedb");
    assert_eq!(there.query.len(), 3);
}
