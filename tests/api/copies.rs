//! Copies of a server: a quiet one acts in no way, and a restored one runs nothing by itself.

use std::time::Duration;

use openvibe::db::Conn;
use serde_json::json;
use uuid::Uuid;

use crate::{
    schedules::{created, due, in_channel, slots},
    support::{Answer, list, team, within},
};

#[tokio::test]
async fn in_a_quiet_copy_mentions_wait_and_nothing_leaves() {
    let mut t = team().await;
    let thread = t.ada.thread(&t.general, "Root about the budget").await;
    t.app.restart(&[("QUIET", "on")]).await;
    let ada = t.ada.at(&t.app.base);
    let task = ada.ask(&thread, "@vibe are you there?").await;
    let found = ada.get("/v1/search?q=budget").await.ok();
    assert!(!list(&found, "/data").is_empty(), "{found}");
    for (path, form) in [
        ("/v1/responses", json!({"input": "Hi"})),
        (
            "/v1/chat/completions",
            json!({"model": "agent:vibe", "messages": [{"role": "user", "content": "Hi"}]}),
        ),
        ("/v1/model-test", json!({})),
    ] {
        let refused = ada.post(path, form).await;
        assert_eq!(refused.status, 409, "{path}: {}", refused.text);
        assert!(refused.text.contains("quiet copy"), "{}", refused.text);
    }
    let server = ada.get("/v1/server").await.ok();
    assert_eq!(server["agents_state"], "quiet");
    let snapshot = ada.get("/v1/snapshot").await.ok();
    assert_eq!(snapshot["agents_state"], "quiet");
    let waiting = ada.get(&format!("/v1/tasks/{task}")).await.ok();
    assert_eq!(waiting["status"], "queued", "{waiting}");
    assert!(t.model().requests().is_empty());
    t.model().script("vibe", [Answer::text("Yes.")]);
    t.app.restart(&[("QUIET", "off")]).await;
    t.ada.at(&t.app.base).completed(&task).await;
}

#[tokio::test]
async fn schedules_of_a_sleeping_copy_do_not_fire() {
    let t = team().await;
    let schedule = created(&t.ada, in_channel(&t), json!({})).await;
    let sleep = async |c: &mut Conn| {
        c.q("insert into meta (key, value) values ('asleep', '1')")
            .run()
            .await
    };
    t.app.db().write(Uuid::nil(), sleep).await.unwrap();
    due(&t, &schedule, Duration::from_secs(1)).await;
    assert!(!openvibe::schedules::fire_due(t.app.db()).await.unwrap());
    assert!(slots(&t.ada, &schedule).await.is_empty());
    t.model().script("vibe", [Answer::text("News.")]);
    t.ada.post("/v1/server/resume", json!({})).await.is(200);
    within("the slot to fire", async {
        while slots(&t.ada, &schedule).await.is_empty() {}
    })
    .await;
}
