//! Requirements of a workspace for the sessions that enter it.

use std::time::Duration;

use openvibe::{
    auth::operator,
    db::{Conn, DbError, Json, now},
    ids::{UserId, WorkspaceId},
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    factors::{begin, code, set_up_app},
    oidc::{Browser, person, provide},
    sign_in::let_pass,
    support::{
        OidcServer, PASSWORD, Person, Reply, SECRET_KEY, Team, list, sign_up_with, team_with, text,
        unknown_id, visitor,
    },
};

async fn team() -> Team {
    team_with(&[("SECRET_KEY", SECRET_KEY)]).await
}

async fn demand(admin: &Person, demands: Value) -> Reply {
    let path = format!("/v1/workspaces/{}", admin.workspace);
    admin.patch(&path, json!({"sign_in": demands})).await
}

fn second_factor() -> Value {
    json!({"second_factor": "required"})
}

/// Changes times of all sessions.
async fn sql(t: &Team, sql: &'static str, time: Duration) {
    let act = async move |c: &mut Conn| c.q(sql).bind(now() - time).run().await;
    t.app.db().write(Uuid::nil(), act).await.unwrap();
}

/// A second session of a person, with a code of their app.
async fn with_code(t: &Team, who: &Person, secret: &str, step: i64) -> Person {
    let forget = async |c: &mut Conn| c.q("update totp_apps set last_step = 0").run().await;
    t.app.db().write(Uuid::nil(), forget).await.unwrap();
    let (flow, _) = begin(&t.app, who).await;
    let form = json!({"flow": flow, "code": code(secret, step)});
    let reply = visitor(&t.app.base)
        .post("/v1/auth/second-factor", form)
        .await;
    assert_eq!(reply.status, 200);
    let mut other = who.signed_out();
    other.cookie = Some(reply.cookie());
    other
}

#[tokio::test]
async fn a_workspace_refuses_sessions_without_a_second_factor_and_others_go_on() {
    let t = team().await;
    let (robot, _) = t.bo.make_key(&["chat:read", "chat:write"]).await;
    let thread = t.bo.thread(&t.general, "hello").await;
    set_up_app(&t.ada).await;
    let (mut closed, mut kept) = (t.bo.socket().await, t.ada.socket().await);
    let mut of_key = robot.socket().await;
    let changed = demand(&t.ada, second_factor()).await.is(200);
    assert_eq!(
        changed["sign_in"],
        json!({"second_factor": "required", "from": null, "providers": null, "idle_s": 2_592_000, "age_s": 15_552_000})
    );
    assert_eq!(closed.closed().await, 4003);
    for path in [
        "/v1/snapshot".to_owned(),
        "/v1/channels".to_owned(),
        format!("/v1/workspaces/{}", t.bo.workspace),
        format!("/v1/threads/{thread}/messages"),
        format!("/v1/channels/{}/threads", t.general),
        "/v1/search?q=hello".to_owned(),
    ] {
        let refused = t.bo.get(&path).await;
        assert_eq!(refused.refused(403), "second_factor_required", "{path}");
        t.ada.get(&path).await.ok();
        robot.get(&path).await.ok();
    }
    let refused =
        t.bo.post(
            &format!("/v1/threads/{thread}/messages"),
            json!({"content": "x"}),
        )
        .await;
    assert_eq!(refused.refused(403), "second_factor_required");
    let key = json!({"name": "mine", "scopes": ["chat:read"]});
    t.bo.post("/v1/api-keys", key).await.refused(403);
    kept.send(&json!({"type": "ping", "id": 1})).await;
    kept.until("an answer", |frame| frame["id"] == 1).await;
    of_key.send(&json!({"type": "ping", "id": 1})).await;
    of_key.until("an answer", |frame| frame["id"] == 1).await;
    // The account and other workspaces go on.
    t.bo.get("/v1/auth/me").await.ok();
    let (secret, _) = set_up_app(&t.bo).await;
    t.bo.get("/v1/snapshot").await.ok();
    let again = with_code(&t, &t.bo, &secret, 0).await;
    again.in_workspace(&t.bo.workspace).socket().await;
    let audit = t.ada.get("/v1/audit-log?action=sign_in.changed").await.ok();
    assert_eq!(audit["data"][0]["data"]["second_factor"], "required");
    demand(&t.ada, json!({"second_factor": "off"}))
        .await
        .is(200);
    assert_eq!(t.app.place.count("workspace_sign_ins").await, 0);
}

#[tokio::test]
async fn other_workspaces_demand_nothing() {
    let t = team().await;
    let other = t
        .ada
        .post("/v1/workspaces", json!({"name": "Other"}))
        .await
        .is(201);
    let home = t.ada.in_workspace(&t.ada.workspace);
    let inside = t.ada.in_workspace(&text(&other, "/id"));
    set_up_app(&t.ada).await;
    demand(&inside, second_factor()).await.is(200);
    // A session from before the app.
    sql(
        &t,
        "update sessions set second_factor_at = null where created_at > $1",
        Duration::from_hours(1),
    )
    .await;
    let refused = inside.get("/v1/snapshot").await;
    assert_eq!(refused.refused(403), "second_factor_required");
    home.get("/v1/snapshot").await.ok();
    let stranger = sign_up_in(&home).await;
    let path = format!("/v1/workspaces/{}", text(&other, "/id"));
    let hidden = stranger.get(&path).await;
    assert_eq!(hidden.refused(404), "workspace_not_found");
}

async fn sign_up_in(admin: &Person) -> Person {
    let invite = admin.post("/v1/invites", json!({})).await.is(201);
    let form = json!({"invite": text(&invite, "/token")});
    sign_up_with(&admin.base, "Cy", form).await
}

#[tokio::test]
async fn sessions_end_in_a_workspace_by_age_and_without_use() {
    let t = team().await;
    demand(&t.ada, json!({"idle_s": 3600, "age_s": 7200}))
        .await
        .is(200);
    t.bo.get("/v1/snapshot").await.ok();
    let seen = "update sessions set last_seen_at = $1";
    sql(&t, seen, Duration::from_mins(50)).await;
    t.bo.get("/v1/snapshot").await.ok();
    sql(&t, seen, Duration::from_mins(61)).await;
    // Using the account does not make the session younger.
    t.bo.get("/v1/auth/me").await.ok();
    t.bo.get("/v1/auth/me").await.ok();
    let refused = t.bo.get("/v1/snapshot").await;
    assert_eq!(refused.refused(403), "session_too_old");
    let again = t.bo.log_in().await.in_workspace(&t.bo.workspace);
    again.get("/v1/snapshot").await.ok();
    sql(
        &t,
        "update sessions set created_at = $1",
        Duration::from_mins(121),
    )
    .await;
    let refused = again.get("/v1/snapshot").await;
    assert_eq!(refused.refused(403), "session_too_old");
}

#[tokio::test]
async fn a_second_factor_can_be_required_from_a_later_day() {
    let t = team().await;
    set_up_app(&t.ada).await;
    let day = |days: i64| {
        let at = now().datetime() + chrono::Duration::days(days);
        at.date_naive().to_string()
    };
    let soon = json!({"second_factor": "required", "from": day(2)});
    let changed = demand(&t.ada, soon).await.is(200);
    assert_eq!(changed["sign_in"]["from"], day(2));
    t.bo.get("/v1/snapshot").await.ok();
    demand(&t.ada, json!({"from": day(0)})).await.is(200);
    let refused = t.bo.get("/v1/snapshot").await;
    assert_eq!(refused.refused(403), "second_factor_required");
    demand(&t.ada, json!({"from": day(30)})).await.is(200);
    t.bo.get("/v1/snapshot").await.ok();
    let before = demand(&t.ada, json!({})).await.is(200)["sign_in"].clone();
    for (demands, param) in [
        (json!({"from": day(31)}), "sign_in.from"),
        (json!({"from": "2026-02-30"}), "sign_in.from"),
        (json!({"from": "tomorrow"}), "sign_in.from"),
        (json!({"idle_s": 899}), "sign_in.idle_s"),
        (json!({"idle_s": 2_592_001}), "sign_in.idle_s"),
        (json!({"age_s": 3599}), "sign_in.age_s"),
        (json!({"age_s": 15_552_001}), "sign_in.age_s"),
        (json!({"providers": []}), "sign_in.providers"),
        (
            json!({"providers": ["idp_01h455vb4pex5vsknk084sn02q"]}),
            "sign_in.providers",
        ),
    ] {
        let refused = demand(&t.ada, demands.clone()).await;
        assert_eq!(refused.json()["error"]["param"], param, "{demands}");
        assert_eq!(refused.refused(422), "invalid_value", "{demands}");
    }
    for demands in [
        json!({"second_factor": "maybe"}),
        json!({"more": 1}),
        json!({"idle_s": null}),
    ] {
        assert_eq!(
            demand(&t.ada, demands.clone()).await.status,
            400,
            "{demands}"
        );
    }
    assert_eq!(
        demand(&t.ada, json!({})).await.is(200)["sign_in"],
        before,
        "bad input changes nothing"
    );
}

#[tokio::test]
async fn only_confirmed_admins_whose_session_meets_them_change_demands() {
    let t = team().await;
    let later = now().datetime() + chrono::Duration::days(9);
    let soon = json!({"second_factor": "required", "from": later.date_naive().to_string()});
    for demands in [second_factor(), soon] {
        let refused = demand(&t.ada, demands).await;
        assert_eq!(refused.refused(409), "would_lock_you_out");
    }
    assert_eq!(
        demand(&t.bo, second_factor()).await.refused(403),
        "role_too_low"
    );
    let (robot, _) = t.ada.make_key(&["workspace:admin"]).await;
    let by_key = demand(&robot.in_workspace(&t.ada.workspace), second_factor()).await;
    assert_eq!(by_key.refused(403), "session_required");
    set_up_app(&t.ada).await;
    let_pass(&t.app, Duration::from_mins(11)).await;
    let refused = demand(&t.ada, second_factor()).await;
    assert_eq!(refused.refused(403), "confirmation_required");
    let confirm = json!({"password": PASSWORD});
    t.ada.post("/v1/auth/confirm", confirm).await.is(204);
    demand(&t.ada, second_factor()).await.is(200);
    // The session is older than an hour.
    sql(
        &t,
        "update sessions set created_at = $1",
        Duration::from_mins(61),
    )
    .await;
    let refused = demand(&t.ada, json!({"age_s": 3600})).await;
    assert_eq!(refused.refused(409), "would_lock_you_out");
    let actions = t.ada.get("/v1/audit-log?action=sign_in.changed").await.ok();
    assert_eq!(list(&actions, "/data").len(), 1);
}

#[tokio::test]
async fn a_confirmation_with_a_code_counts_as_a_second_factor() {
    let t = team().await;
    let (secret, _) = set_up_app(&t.ada).await;
    demand(&t.ada, second_factor()).await.is(200);
    sql(
        &t,
        "update sessions set second_factor_at = null where created_at > $1",
        Duration::from_hours(1),
    )
    .await;
    t.ada.get("/v1/snapshot").await.refused(403);
    let password = json!({"password": PASSWORD});
    t.ada.post("/v1/auth/confirm", password).await.is(204);
    t.ada.get("/v1/snapshot").await.refused(403);
    let forget = async |c: &mut Conn| c.q("update totp_apps set last_step = 0").run().await;
    t.app.db().write(Uuid::nil(), forget).await.unwrap();
    let confirm = json!({"code": code(&secret, 0)});
    t.ada.post("/v1/auth/confirm", confirm).await.is(204);
    t.ada.get("/v1/snapshot").await.ok();
}

/// Way in which a person signs in.
#[derive(Debug, Clone, Copy)]
enum Way {
    Password,
    Code,
    Provider,
    OtherProvider,
    /// With `amr`.
    ProviderAndFactor,
}

#[tokio::test]
async fn sessions_of_each_kind_meet_the_demands_for_them() {
    use Way::{Code, OtherProvider, Password, Provider, ProviderAndFactor};
    let t = team().await;
    let (corp, other) = (OidcServer::start().await, OidcServer::start().await);
    let everyone = json!([{"workspace_id": t.ada.workspace, "join": "everyone"}]);
    let first = provide(&t.ada, &corp, json!({"workspaces": everyone})).await;
    let second = provide(
        &t.ada,
        &other,
        json!({"name": "Other", "domains": ["example.net"], "workspaces": everyone}),
    )
    .await;
    let (secret, _) = set_up_app(&t.ada).await;
    // A member without server rights who has an app, too.
    let cy = sign_up_in(&t.ada).await;
    let (of_cy, _) = set_up_app(&cy).await;
    let enter = async |way: Way| match way {
        Password => t.bo.clone(),
        Code => with_code(&t, &cy, &of_cy, 0).await,
        Provider | ProviderAndFactor => {
            let mut claims = person("di", "di@example.org");
            if matches!(way, ProviderAndFactor) {
                claims["amr"] = json!(["pwd", "mfa"]);
            }
            let mut browser = Browser::new(&t.app.base);
            browser.pass(&corp, &first, json!({}), &claims).await;
            browser.person()
        }
        OtherProvider => {
            let claims = person("ed", "ed@example.net");
            let mut browser = Browser::new(&t.app.base);
            browser.pass(&other, &second, json!({}), &claims).await;
            browser.person()
        }
    };
    let mut sessions = Vec::new();
    for way in [Password, Code, Provider, OtherProvider, ProviderAndFactor] {
        sessions.push((way, enter(way).await.in_workspace(&t.ada.workspace)));
    }
    let admin = with_code(&t, &t.ada, &secret, 0)
        .await
        .in_workspace(&t.ada.workspace);
    let (factor, by) = ("second_factor_required", "provider_required");
    for (demands, wanted) in [
        (
            json!({"second_factor": "required", "providers": null}),
            [factor, "", factor, factor, ""],
        ),
        (
            json!({"second_factor": "off", "providers": [first]}),
            [by, by, "", by, ""],
        ),
        (
            json!({"second_factor": "off", "providers": [first, second]}),
            [by, by, "", "", ""],
        ),
        (
            json!({"second_factor": "required", "providers": [first, second]}),
            [by, by, factor, factor, ""],
        ),
        (
            json!({"second_factor": "off", "providers": null}),
            ["", "", "", "", ""],
        ),
    ] {
        demand(&admin, demands.clone()).await.is(200);
        for ((way, session), code) in sessions.iter().zip(wanted) {
            let reply = session.get("/v1/snapshot").await;
            if code.is_empty() {
                assert_eq!(reply.status, 200, "{way:?} {demands}");
            } else {
                assert_eq!(reply.refused(403), code, "{way:?} {demands}");
            }
        }
        // Admins of the server with a password and a second factor are not bound by providers.
        admin.get("/v1/snapshot").await.ok();
    }
}

#[tokio::test]
async fn a_provider_that_was_deleted_lets_nobody_in_but_server_admins() {
    let t = team().await;
    let corp = OidcServer::start().await;
    let provider = provide(&t.ada, &corp, json!({})).await;
    set_up_app(&t.ada).await;
    demand(&t.ada, json!({"providers": [provider]}))
        .await
        .is(200);
    let delete = format!("/v1/identity-providers/{provider}");
    t.ada.delete(&delete).await.is(204);
    let refused = t.bo.get("/v1/snapshot").await;
    assert_eq!(refused.refused(403), "provider_required");
    t.ada.get("/v1/snapshot").await.ok();
    demand(&t.ada, json!({"providers": null})).await.is(200);
    t.bo.get("/v1/snapshot").await.ok();
}

#[tokio::test]
async fn a_link_of_the_operator_meets_all_demands_for_an_hour() {
    let t = team().await;
    set_up_app(&t.ada).await;
    demand(&t.ada, second_factor()).await.is(200);
    let token = operator::create_sign_in_link(t.app.db(), &t.bo.email)
        .await
        .unwrap();
    let opened = visitor(&t.app.base)
        .post("/v1/auth/sign-in-link", json!({"token": token}))
        .await;
    let mut linked = t.bo.signed_out();
    linked.cookie = Some(opened.cookie());
    let linked = linked.in_workspace(&t.bo.workspace);
    linked.get("/v1/snapshot").await.ok();
    t.bo.get("/v1/snapshot").await.refused(403);
    sql(
        &t,
        "update sessions set exempt_until = $1 where exempt_until is not null",
        Duration::from_secs(1),
    )
    .await;
    let refused = linked.get("/v1/snapshot").await;
    assert_eq!(refused.refused(403), "second_factor_required");
}

/// Settings that keep people out.
#[derive(Debug, Clone, Copy)]
struct Lock {
    admins_only: bool,
    second_factor: &'static str,
    from_day: Option<&'static str>,
    /// Demands the provider, or none that exists.
    provider: Option<bool>,
    provider_is_on: bool,
    idle_s: i64,
    age_s: i64,
    role: &'static str,
}

fn locks() -> Vec<Lock> {
    let mut all = Vec::new();
    for (second_factor, from_day) in [
        ("off", None),
        ("required", None),
        ("required", Some("2020-01-01")),
    ] {
        for provider in [None, Some(true), Some(false)] {
            for (idle_s, age_s) in [(2_592_000, 15_552_000), (900, 3_600)] {
                for n in 0..4 {
                    all.push(Lock {
                        admins_only: n % 2 == 0,
                        second_factor,
                        from_day,
                        provider,
                        provider_is_on: n < 2,
                        idle_s,
                        age_s,
                        role: if n == 3 { "admin" } else { "member" },
                    });
                }
            }
        }
    }
    all
}

/// Three people, who have a password, an app too, or only a provider, each with 72 settings.
#[tokio::test]
async fn whatever_the_settings_are_the_operator_lets_people_in() {
    let t = team_with(&[("SECRET_KEY", SECRET_KEY), ("RATE_LIMITS", "off")]).await;
    let corp = OidcServer::start().await;
    let open = json!([{"workspace_id": t.ada.workspace, "join": "everyone"}]);
    let provider = provide(&t.ada, &corp, json!({"workspaces": open})).await;
    let di = t.app.join(&t.ada, "Di", "member").await;
    set_up_app(&di).await;
    let claims = person("ed", "ed@example.org");
    Browser::new(&t.app.base)
        .pass(&corp, &provider, json!({}), &claims)
        .await;
    let mut count = 0;
    for email in [&t.bo.email, &di.email, &"ed@example.org".to_owned()] {
        for lock in locks() {
            count += 1;
            set(&t, &provider, lock).await;
            let token = operator::create_sign_in_link(t.app.db(), email)
                .await
                .unwrap();
            let opened = visitor(&t.app.base)
                .post("/v1/auth/sign-in-link", json!({"token": token}))
                .await;
            assert_eq!(opened.status, 200, "{email} {lock:?}");
            let mut linked = t.bo.signed_out();
            linked.cookie = Some(opened.cookie());
            let linked = linked.in_workspace(&t.ada.workspace);
            for path in ["/v1/snapshot", "/v1/auth/factors", "/v1/auth/identities"] {
                let reply = linked.get(path).await;
                assert_eq!(reply.status, 200, "{email} {path} {lock:?}");
            }
        }
    }
    assert_eq!(count, 216);
}

async fn set(t: &Team, provider: &str, lock: Lock) {
    let workspace: WorkspaceId = t.ada.workspace.parse().unwrap();
    let admin: UserId = t.ada.id.parse().unwrap();
    let gone = unknown_id("idp");
    let demanded = lock
        .provider
        .map(|is_known| if is_known { provider } else { gone.as_str() })
        .map(|id| Json(json!([id])));
    let set = async move |c: &mut Conn| {
        for sql in [
            "delete from workspace_sign_ins",
            "delete from meta where key = 'admin_passwords_only'",
        ] {
            c.q(sql).run().await?;
        }
        if lock.admins_only {
            c.q("insert into meta (key, value) values ('admin_passwords_only', '1')")
                .run()
                .await?;
        }
        c.q("insert into workspace_sign_ins (workspace_id, second_factor, from_day, providers, idle_s, age_s) \
             values ($1, $2, $3, $4, $5, $6)")
            .bind(workspace)
            .bind(lock.second_factor.to_owned())
            .bind(lock.from_day.map(str::to_owned))
            .bind(demanded.clone())
            .bind(lock.idle_s)
            .bind(lock.age_s)
            .run()
            .await?;
        c.q("update identity_providers set enabled = $1")
            .bind(lock.provider_is_on)
            .run()
            .await?;
        c.q("update members set role = $1 where user_id <> $2")
            .bind(lock.role.to_owned())
            .bind(admin)
            .run()
            .await?;
        Ok::<_, DbError>(())
    };
    t.app.db().write(Uuid::nil(), set).await.unwrap();
}

#[tokio::test]
async fn admins_see_how_many_people_have_no_second_factor() {
    let t = team().await;
    let path = format!("/v1/workspaces/{}", t.ada.workspace);
    let counts = async |who: &Person| who.get(&path).await.ok()["second_factors"].clone();
    let missing = |without: i64| json!({"people": 2, "without_factor": without});
    assert_eq!(counts(&t.ada).await, missing(2));
    set_up_app(&t.bo).await;
    assert_eq!(counts(&t.ada).await, missing(1));
    set_up_app(&t.ada).await;
    assert_eq!(counts(&t.ada).await, missing(0));
    assert_eq!(counts(&t.bo).await, Value::Null);
}
