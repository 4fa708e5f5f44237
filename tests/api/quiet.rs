//! Conversations in which nobody has posted for a while.

use serde_json::{Value, json};

use crate::{
    compaction::{answered, compacted, compactions, long_thread, segment},
    support::{Person, Team, id, list, team_with, text},
};

/// A server that checks for quiet conversations at short intervals.
async fn watched() -> Team {
    team_with(&[("COMPACTION_INTERVAL", "0s"), ("RATE_LIMITS", "off")]).await
}

/// Makes messages old, as if nothing had been compacted since then.
const AGE: [&str; 2] = [
    "update messages set created_at = '2026-01-02 03:04:05+00:00' where content <> 'Just now'",
    "update conversations set last_compacted_at = null",
];

/// Restarts the server after changing the database; returns Ada.
async fn restarted(t: &mut Team, changes: &[&str]) -> Person {
    t.app.stop().await;
    t.app.place.run(changes).await;
    t.app.restart(&[]).await;
    t.ada.at(&t.app.base)
}

/// Restarts the server after making messages old; returns Ada.
async fn aged(t: &mut Team) -> Person {
    restarted(t, &AGE).await
}

/// A thread with six messages of people and a reply of an agent.
async fn talk(ada: &Person, channel: &str, agent: &str) -> String {
    let (thread, _) = long_thread(ada, channel, 5).await;
    answered(ada, &thread, &format!("@{agent} hello")).await;
    thread
}

/// Waits for the first segment of a thread; returns the segment.
async fn remembered(ada: &Person, thread: &str) -> Value {
    ada.event_where("a quiet conversation to be compacted", |event| {
        event["type"] == "compaction.created" && event["data"]["compaction"]["thread_id"] == thread
    })
    .await;
    let records = ada
        .get(&format!("/v1/threads/{thread}/compactions"))
        .await
        .ok();
    list(&records, "/data").remove(0)
}

#[tokio::test]
async fn a_quiet_conversation_is_summarized_once_for_all_agents_and_other_threads() {
    let mut t = watched().await;
    let (thread, _) = long_thread(&t.ada, &t.general, 5).await;
    let task = answered(&t.bo, &thread, "@vibe hello").await;
    t.ada
        .say(&thread, "The harbor ferry starts at Pier 4711")
        .await;
    let fact: &[(&str, &str, &[&str])] =
        &[("The harbor ferry starts at Pier 4711", "fact", &["m8"])];
    t.model()
        .script("summary", [segment("They counted.", fact)]);
    let ada = aged(&mut t).await;
    let record = remembered(&ada, &thread).await;
    assert_eq!(
        (&record["trigger"], &record["message_count"]),
        (&json!("quiet"), &json!(8)),
        "five messages, a question, its reply, and one more"
    );
    let passes = compacted(&ada, &thread).await;
    assert_eq!(passes.len(), 1, "{passes:?}");
    for (field, wanted) in [
        ("parent_task_id", json!(task)),
        ("requested_by", json!(t.bo.id)),
        ("status", json!("completed")),
    ] {
        assert_eq!(passes[0][field], wanted, "{field}");
    }
    let lanes = "select lane from tasks where kind = 'compact'";
    assert_eq!(t.app.place.texts(lanes).await, ["background"]);
    let elsewhere = ada.thread(&t.general, "Elsewhere").await;
    answered(
        &ada,
        &elsewhere,
        "@coder where does the harbor ferry start?",
    )
    .await;
    let seen = t.model().asked_once("coder").await.all();
    assert!(
        seen.contains(") The harbor ferry starts at Pier 4711"),
        "{seen}"
    );

    // Fewer than six new messages do not cause a second pass.
    for n in 0..5 {
        ada.say(&thread, &format!("later {n}")).await;
    }
    let other = talk(&ada, &t.general, "vibe").await;
    let ada = aged(&mut t).await;
    remembered(&ada, &other).await;
    assert_eq!(compactions(&ada, &thread).await.len(), 1);
}

#[tokio::test]
async fn conversations_that_are_not_due_are_left_alone() {
    let mut t = watched().await;
    let off = id(&t.ada.make_agent("sage").await);
    t.ada
        .patch(
            &format!("/v1/agents/{off}"),
            json!({"prompting": {"compaction": "off"}}),
        )
        .await
        .is(200);
    let (unanswered, _) = long_thread(&t.ada, &t.general, 20).await;
    let (short, _) = long_thread(&t.ada, &t.general, 4).await;
    answered(&t.ada, &short, "@vibe hello").await;
    let without = talk(&t.ada, &t.general, "sage").await;
    let forgetful = talk(&t.ada, &t.general, "vibe").await;
    t.ada
        .patch(
            &format!("/v1/threads/{forgetful}"),
            json!({"memory": "off"}),
        )
        .await
        .is(200);
    let lively = talk(&t.ada, &t.general, "vibe").await;
    t.ada.say(&lively, "Just now").await;
    let due = talk(&t.ada, &t.general, "vibe").await;
    let ada = aged(&mut t).await;
    // This conversation is the last one to be checked.
    remembered(&ada, &due).await;
    for thread in [unanswered, short, without, forgetful, lively] {
        assert_eq!(compactions(&ada, &thread).await, Vec::<Value>::new());
    }
}

#[tokio::test]
async fn a_quiet_conversation_waits_for_another_pass() {
    let mut t = watched().await;
    let waiting = talk(&t.ada, &t.general, "vibe").await;
    answered(&t.ada, &waiting, "@vibe hello again").await;
    let other = talk(&t.ada, &t.general, "vibe").await;
    // Turns the task of the first reply into a pass that waits for its next attempt.
    let busy = "update tasks set kind = 'compact', lane = 'background', status = 'queued', completed_at = null, \
        retry_at = '2099-01-01 00:00:00+00:00' where id = (select id from tasks where kind = 'reply' order by id limit 1)";
    let ada = restarted(&mut t, &[AGE[0], AGE[1], busy]).await;
    // This conversation is the last one to be checked.
    remembered(&ada, &other).await;
    let passes = compactions(&ada, &waiting).await;
    assert_eq!(passes.len(), 1, "{passes:?}");
    let end = "update tasks set status = 'cancelled' where kind = 'compact' and status = 'queued'";
    let ada = restarted(&mut t, &[end]).await;
    assert_eq!(remembered(&ada, &waiting).await["trigger"], "quiet");
    assert_eq!(compactions(&ada, &other).await.len(), 1);
}

#[tokio::test]
async fn the_policy_turns_quiet_passes_off() {
    for rule in [json!({"quiet": false}), json!({"enabled": false})] {
        let mut t = watched().await;
        let policy = format!("/v1/workspaces/{}/policy", t.ada.workspace);
        t.ada.patch(&policy, json!({"memory": rule})).await.is(200);
        let thread = talk(&t.ada, &t.general, "vibe").await;
        let second = t
            .ada
            .post("/v1/workspaces", json!({"name": "Second"}))
            .await;
        let second = text(&second.is(201), "/id");
        let there = t.ada.in_workspace(&second);
        let channel = id(&there.channel("general").await);
        let due = talk(&there, &channel, "vibe").await;
        let first = t.ada.workspace.clone();
        let ada = aged(&mut t).await;
        remembered(&ada.in_workspace(&second), &due).await;
        let ada = ada.in_workspace(&first);
        assert_eq!(
            compactions(&ada, &thread).await,
            Vec::<Value>::new(),
            "{rule}"
        );
    }
}
