//! First steps of a new member.

use openvibe::db::{Conn, DbError};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Person, TestApp, id, list, text};

async fn checklist(who: &Person) -> Value {
    who.get("/v1/snapshot").await.ok()["checklist"].clone()
}

/// Names of the steps that are listed, and of those that are done.
async fn steps(who: &Person) -> (Vec<String>, Vec<String>) {
    let all = list(&checklist(who).await, "");
    let names = |steps: Vec<&Value>| steps.into_iter().map(|step| text(step, "/name")).collect();
    let done = all.iter().filter(|step| step["done"] == true).collect();
    (names(all.iter().collect()), names(done))
}

async fn run(app: &TestApp, sql: &'static str) {
    let run = async move |c: &mut Conn| {
        c.q(sql).run().await?;
        Ok::<_, DbError>(())
    };
    app.db().write(Uuid::nil(), run).await.unwrap();
}

#[tokio::test]
async fn each_person_sees_their_own_steps_until_they_are_done() {
    let app = TestApp::with(&[("SIGNUP", "open")]).await;
    let ada = app.founder("Ada").await;
    let (all, done) = steps(&ada).await;
    assert_eq!(
        all,
        [
            "connect_model",
            "invite",
            "start_thread",
            "start_fork",
            "notifications",
            "check_server",
            "set_up_email",
            "look_for_updates"
        ]
    );
    // The tests' server has a model.
    assert_eq!(done, ["connect_model"]);
    let bo = app.join(&ada, "Bo", "member").await;
    let (all, done) = steps(&bo).await;
    assert_eq!(all, ["start_thread", "start_fork", "notifications"]);
    assert!(done.is_empty());
    let zoe = app.founder("Zoe").await;
    let (all, _) = steps(&zoe).await;
    assert!(!all.contains(&"check_server".to_owned()), "{all:?}");
    let general = id(&ada.channel("general").await);
    let started = ada.start(&general, "Where do we meet?").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    ada.start_fork(&thread, &root, json!({"agent_id": null}))
        .await;
    ada.post("/v1/server/checks", json!({})).await.ok();
    ada.patch("/v1/server", json!({"look_for_updates": true}))
        .await
        .is(200);
    let (_, done) = steps(&ada).await;
    assert_eq!(
        done,
        [
            "connect_model",
            "invite",
            "start_thread",
            "start_fork",
            "check_server",
            "look_for_updates"
        ]
    );
    assert!(steps(&bo).await.1.is_empty());
}

#[tokio::test]
async fn the_steps_are_hidden_on_request_and_after_a_month() {
    let app = TestApp::start().await;
    let ada = app.founder("Ada").await;
    let bo = app.join(&ada, "Bo", "member").await;
    let viewer = app.join(&ada, "Vi", "viewer").await;
    assert!(checklist(&viewer).await.is_null());
    let hide = json!({"checklist": false});
    ada.patch("/v1/auth/me", hide).await.is(200);
    assert!(checklist(&ada).await.is_null());
    assert!(checklist(&bo).await.is_array());
    ada.patch("/v1/auth/me", json!({"checklist": true}))
        .await
        .is(200);
    assert!(checklist(&ada).await.is_array());
    ada.patch("/v1/auth/me", json!({"checklist": null}))
        .await
        .refused(400);
    run(
        &app,
        "update members set joined_at = '2020-01-01T00:00:00+00:00'",
    )
    .await;
    assert!(checklist(&bo).await.is_null());
}
