//! Permissions to run a replay and to stop it.

use serde_json::{Value, json};

use crate::{
    replays::{asked, draft, read, started},
    support::{Answer, Gate, list, team, team_with},
};

#[tokio::test]
async fn a_replay_makes_no_further_call_without_the_right_to_start_it() {
    let t = team_with(&[("WORKERS", "2")]).await;
    let sage = t.ada.make_agent("sage").await;
    for question in ["which day?", "which month?", "which year?"] {
        asked(&t.bo, &t.general, question).await;
    }
    let (key, of_key) = t.bo.make_key(&["chat:read", "agents:write"]).await;
    for is_by_key in [true, false] {
        let gate = Gate::new();
        t.model()
            .script("sage", [Answer::text("Monday.").held(&gate)]);
        let by = if is_by_key { &key } else { &t.bo };
        let task = started(by, &sage, draft()).await;
        gate.reached().await;
        if is_by_key {
            t.bo.delete(&format!("/v1/api-keys/{of_key}")).await.is(204);
        } else {
            let path = format!("/v1/members/{}", t.bo.id);
            t.ada.patch(&path, json!({"role": "viewer"})).await.ok();
        }
        gate.open();
        t.bo.completed(&task).await;
        let cases = list(&read(&t.bo, &task).await.ok(), "/cases");
        let codes: Value = cases
            .iter()
            .map(|case| case["after"]["error"]["code"].clone())
            .collect();
        let expected = json!([null, "not_allowed", "not_allowed"]);
        assert_eq!(codes, expected, "{is_by_key}");
    }
}

#[tokio::test]
async fn the_requester_can_stop_a_replay_after_leaving_its_channel() {
    let t = team().await;
    let sage = t.ada.make_agent("sage").await;
    let plans = t.ada.private_channel("plans", &[&t.bo]).await;
    asked(&t.bo, &t.general, "which day?").await;
    asked(&t.bo, &plans, "which plan?").await;
    let gate = Gate::new();
    let late = || Answer::text("Late.").held(&gate);
    t.model().script("sage", [late(), late()]);
    let task = started(&t.bo, &sage, draft()).await;
    gate.reached().await;
    let path = format!("/v1/channels/{plans}/members/{}", t.bo.id);
    t.ada.delete(&path).await.ok();
    let path = format!("/v1/tasks/{task}/cancel");
    t.ada.act(&path).await.refused(404);
    let stopped = t.bo.act(&path).await.is(200);
    assert_eq!(stopped["status"], "cancelled");
    gate.open();
}
