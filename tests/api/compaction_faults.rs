//! Passes that are canceled, starved, or concurrent, and texts that must neither remain nor leak.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    compaction::{answered, compacted, compactions, long_thread, sage_team, segment},
    support::{Gate, Person, id, list, number, team_with, text, within},
};

const RECORDS: &str = "compactions";

fn path(thread: &str) -> String {
    format!("/v1/threads/{thread}/{RECORDS}")
}

async fn records(ada: &Person, thread: &str) -> Vec<Value> {
    list(&ada.get(&path(thread)).await.ok(), "/data")
}

/// Queues a pass over all but the newest ten messages; returns its task's ID.
async fn queued(ada: &Person, thread: &str) -> String {
    let queued = ada.post(&path(thread), json!({})).await.is(202);
    text(&queued, "/task/id")
}

#[tokio::test]
async fn passes_that_become_due_together_leave_half_of_the_workers_to_replies() {
    let mut t = team_with(&[("WORKERS", "2"), ("RATE_LIMITS", "off")]).await;
    let mut threads = Vec::new();
    for _ in 0..2 {
        threads.push(long_thread(&t.ada, &t.general, 25).await.0);
    }
    let (first, gate) = (Gate::new(), Gate::new());
    let held = |gate: &Gate| segment("They counted.", &[]).held(gate);
    t.app
        .model
        .script("summary", [held(&first), held(&gate), held(&gate)]);
    let mut passes = vec![queued(&t.ada, &threads[0]).await];
    first.reached().await;
    passes.push(queued(&t.ada, &threads[1]).await);
    t.app.restart(&[]).await;
    let ada = t.ada.at(&t.app.base);
    gate.reached().await;
    let thread = ada.thread(&t.general, "Root").await;
    answered(&ada, &thread, "@vibe hello").await;
    gate.open();
    for pass in passes {
        ada.completed(&pass).await;
    }
}

#[tokio::test]
async fn passes_of_a_person_leave_half_of_their_share_to_their_replies() {
    let t = team_with(&[("WORKERS", "4"), ("RATE_LIMITS", "off")]).await;
    let second = json!({"name": "Second"});
    t.ada.post("/v1/workspaces", second).await.is(201);
    let gate = Gate::new();
    let held = || segment("They counted.", &[]).held(&gate);
    t.app.model.script("summary", [held(), held()]);
    let mut passes = Vec::new();
    for _ in 0..2 {
        let (thread, _) = long_thread(&t.ada, &t.general, 25).await;
        passes.push(queued(&t.ada, &thread).await);
    }
    gate.reached().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    answered(&t.ada, &thread, "@vibe hello").await;
    gate.open();
    for pass in passes {
        t.ada.completed(&pass).await;
    }
}

#[tokio::test]
async fn a_reply_goes_on_if_somebody_cancels_its_pass() {
    let t = sage_team().await;
    let (thread, _) = long_thread(&t.ada, &t.general, 50).await;
    let gate = Gate::new();
    t.app
        .model
        .script("summary", [segment("Late.", &[]).held(&gate)]);
    let task = t.ada.ask(&thread, "@sage sum up").await;
    gate.reached().await;
    let pass = id(&compactions(&t.ada, &thread).await[0]);
    t.bo.act(&format!("/v1/tasks/{pass}/cancel")).await.is(200);
    let done = t.ada.completed(&task).await;
    assert_eq!(done["attempt"], 1, "{done}");
    let prompt = t.model().asked_once("sage").await.all();
    assert!(
        prompt.contains("(30 earlier messages are not summarized yet.)"),
        "{prompt}"
    );
    gate.open();
}

/// A server with a single slot for passes, which is occupied by a pass that waits for the gate.
struct Busy {
    t: crate::support::Team,
    gate: Gate,
}

impl Busy {
    async fn new() -> Self {
        let t = team_with(&[
            ("WORKERS", "2"),
            ("COMPACTION_INTERVAL", "0s"),
            ("RATE_LIMITS", "off"),
        ])
        .await;
        let sage = id(&t.ada.make_agent("sage").await);
        let aggressive = json!({"prompting": {"compaction": "aggressive"}});
        let sage = format!("/v1/agents/{sage}");
        t.ada.patch(&sage, aggressive).await.is(200);
        let (thread, _) = long_thread(&t.ada, &t.general, 25).await;
        let gate = Gate::new();
        t.app
            .model
            .script("summary", [segment("Busy.", &[]).held(&gate)]);
        queued(&t.ada, &thread).await;
        gate.reached().await;
        Self { t, gate }
    }
}

#[tokio::test]
async fn a_reply_that_runs_somebodys_pass_leaves_the_rest_of_it() {
    let Busy { t, gate } = Busy::new().await;
    let (thread, _) = long_thread(&t.ada, &t.general, 60).await;
    let manual = queued(&t.ada, &thread).await;
    answered(&t.ada, &thread, "@sage sum up").await;
    gate.open();
    let done = t.ada.completed(&manual).await;
    let counts = records(&t.ada, &thread).await;
    let counts: Vec<i64> = counts.iter().map(|r| number(r, "/message_count")).collect();
    // There are 60 messages, a question, and its reply; all but the newest ten are compacted.
    assert_eq!(counts.iter().sum::<i64>(), 52, "{counts:?}");
    let ids = list(&done, "/output/compaction_ids");
    assert_eq!(ids.len(), counts.len(), "{done}");
}

#[tokio::test]
async fn a_pass_in_the_worker_of_a_canceled_reply_is_repeated_at_once() {
    let Busy { t, gate } = Busy::new().await;
    let (thread, _) = long_thread(&t.ada, &t.general, 60).await;
    let manual = queued(&t.ada, &thread).await;
    let held = Gate::new();
    t.app
        .model
        .script("summary", [segment("Late.", &[]).held(&held)]);
    let task = t.ada.ask(&thread, "@sage sum up").await;
    held.reached().await;
    t.ada.act(&format!("/v1/tasks/{task}/cancel")).await.is(200);
    gate.open();
    let done = t.ada.completed(&manual).await;
    assert_eq!(number(&done, "/attempt"), 2);
    held.open();
}

#[tokio::test]
async fn messages_of_a_deleted_record_are_compacted_again_even_during_a_pass() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let (thread, _) = long_thread(&t.ada, &t.general, 30).await;
    let first = queued(&t.ada, &thread).await;
    t.ada.completed(&first).await;
    let record = id(&records(&t.ada, &thread).await[0]);
    for n in 0..20 {
        t.ada.say(&thread, &format!("later {n}")).await;
    }
    let gate = Gate::new();
    t.app
        .model
        .script("summary", [segment("Later.", &[]).held(&gate)]);
    let second = queued(&t.ada, &thread).await;
    gate.reached().await;
    let record = format!("/v1/compactions/{record}");
    t.ada.delete(&record).await.is(200);
    gate.open();
    t.ada.completed(&second).await;
    let third = queued(&t.ada, &thread).await;
    t.ada.completed(&third).await;
    let counts = records(&t.ada, &thread).await;
    let counts = counts.iter().map(|r| number(r, "/message_count"));
    assert_eq!(counts.sum::<i64>(), 40);
}

#[tokio::test]
async fn messages_between_segments_are_summarized_before_the_window_moves() {
    let t = sage_team().await;
    let (thread, _) = long_thread(&t.ada, &t.general, 100).await;
    let pass = queued(&t.ada, &thread).await;
    t.ada.completed(&pass).await;
    let record = id(&records(&t.ada, &thread).await[0]);
    let record = format!("/v1/compactions/{record}");
    t.ada.delete(&record).await.is(200);
    answered(&t.ada, &thread, "@sage sum up").await;
    let prompt = t.model().asked_once("sage").await.all();
    assert!(
        prompt.contains("Summary of 80 earlier messages"),
        "{prompt}"
    );
    assert!(!prompt.contains("not summarized yet"), "{prompt}");
}

#[tokio::test]
async fn a_deleted_agent_does_not_keep_messages_from_being_summarized() {
    let t = sage_team().await;
    let (thread, messages) = long_thread(&t.ada, &t.general, 50).await;
    answered(&t.ada, &thread, "@sage sum up").await;
    compacted(&t.ada, &thread).await;
    let sage = id(&t.ada.agent("sage").await);
    t.ada
        .delete(&format!("/v1/agents/{sage}?permanent=true"))
        .await
        .is(200);
    let covered = format!("/v1/messages/{}", messages[3]);
    t.ada.delete(&covered).await.is(200);
    let passes = compacted(&t.ada, &thread).await;
    assert!(
        passes.iter().all(|pass| pass["status"] == "completed"),
        "{passes:?}"
    );
    let states = records(&t.ada, &thread).await;
    assert!(states.iter().all(|r| r["state"] == "active"), "{states:?}");
    let pass = queued(&t.ada, &thread).await;
    t.ada.completed(&pass).await;
    let redo = format!("/v1/compactions/{}/redo", id(&states[0]));
    let redone = t.bo.act(&redo).await.is(202);
    t.ada.completed(&text(&redone, "/task/id")).await;
}

#[tokio::test]
async fn a_full_workspace_does_not_repeat_passes_without_end() {
    let mut t = team_with(&[("RATE_LIMITS", "off")]).await;
    let (thread, messages) = long_thread(&t.ada, &t.general, 30).await;
    let pass = queued(&t.ada, &thread).await;
    t.ada.completed(&pass).await;
    t.app.restart(&[("WORKSPACE_BYTES_MAX", "1KiB")]).await;
    let ada = t.ada.at(&t.app.base);
    let covered = format!("/v1/messages/{}", messages[3]);
    ada.delete(&covered).await.is(200);
    let postponed = async {
        while compactions(&ada, &thread).await[0]["retry_at"].is_null() {
            crate::support::pause().await;
        }
    };
    within("the pass to be postponed", postponed).await;
    // By now, a pass that is repeated endlessly would have been repeated.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let redo = compactions(&ada, &thread).await.remove(0);
    assert_eq!(redo["status"], "queued", "{redo}");
    assert!(number(&redo, "/attempt") <= 2, "{redo}");
    assert!(redo["retry_at"].is_string(), "{redo}");
}

#[tokio::test]
async fn of_two_requests_at_once_one_starts_a_pass() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let (thread, _) = long_thread(&t.ada, &t.general, 30).await;
    let gate = Gate::new();
    let held = || segment("They counted.", &[]).held(&gate);
    t.app.model.script("summary", [held(), held()]);
    let path = path(&thread);
    let (one, other) = tokio::join!(t.ada.post(&path, json!({})), t.bo.post(&path, json!({})));
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [202, 409]);
    gate.open();
    compacted(&t.ada, &thread).await;
    assert_eq!(records(&t.ada, &thread).await.len(), 1);
}

#[tokio::test]
async fn what_was_made_from_a_deleted_message_goes_from_every_conversation() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let mut deleted = String::new();
    for n in 0..30 {
        let message = t.bo.tell(&thread, &format!("Zanzibar launch {n}")).await;
        if n == 7 {
            deleted = message;
        }
    }
    let items: &[(&str, &str, &[&str])] = &[
        (
            "The Zanzibar launch needs quokkas and wombats",
            "fact",
            &["m3"],
        ),
        (
            "Somebody books quokkas for the Zanzibar launch",
            "todo",
            &["m5", "m9"],
        ),
    ];
    t.app
        .model
        .script("summary", [segment("Quokkas were discussed.", items)]);
    let pass = queued(&t.ada, &thread).await;
    t.ada.completed(&pass).await;
    let other = t.ada.thread(&t.general, "Another topic").await;
    let task = answered(&t.ada, &other, "@vibe what does the Zanzibar launch need?").await;
    let prompt = t.model().asked_once("vibe").await.all();
    assert!(prompt.contains("needs quokkas"), "{prompt}");
    let seen = t.ada.task_context(&task).await.to_string();
    assert!(seen.contains("quokkas"), "{seen}");

    let gate = Gate::new();
    t.app
        .model
        .script("summary", [segment("Nothing.", &[]).held(&gate)]);
    t.ada
        .delete(&format!("/v1/messages/{deleted}"))
        .await
        .is(200);
    gate.reached().await;
    let blank = records(&t.ada, &thread).await.remove(0);
    assert_eq!(blank["state"], "blank");
    assert_eq!(blank["summary_markdown"], "");
    assert_eq!(blank["left_out"], json!({}));
    let seen = t.ada.task_context(&task).await.to_string();
    assert!(!seen.contains("quokkas"), "{seen}");
    for word in ["quokkas", "Quokkas", "wombat"] {
        let places = t.app.place.places_of(word).await;
        assert_eq!(places, Vec::<String>::new(), "{word}");
    }
    gate.open();
    compacted(&t.ada, &thread).await;
    let record = records(&t.ada, &thread).await.remove(0);
    assert_eq!(record["state"], "active");
    assert_eq!(record["message_count"], 20);
}

#[tokio::test]
async fn texts_of_a_private_channel_stay_there() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let harbor = t.ada.private_channel("harbor", &[&t.bo]).await;
    let eve = t.app.join(&t.ada, "Eve", "member").await;
    let (thread, _) = long_thread(&t.ada, &harbor, 30).await;
    let items: &[(&str, &str, &[&str])] = &[
        ("The Zanzibar merger needs quokkas", "fact", &["m3"]),
        ("Zanzibar merger prefers quokkas", "preference", &["m4"]),
    ];
    t.app.model.script(
        "summary",
        [segment("A Zanzibar merger with quokkas.", items)],
    );
    let pass = queued(&t.ada, &thread).await;
    t.ada.completed(&pass).await;
    let record = id(&records(&t.ada, &thread).await[0]);

    // The text does not reach another conversation, even for people who can read the private channel.
    let question = "@vibe what does the Zanzibar merger need?";
    for person in [&t.ada, &eve] {
        let other = person.thread(&t.general, "Another topic").await;
        let task = answered(person, &other, question).await;
        let prompt = t.model().requests().pop().unwrap().all();
        assert!(!prompt.contains("quokkas"), "{prompt}");
        let seen = person.task_context(&task).await.to_string();
        assert!(!seen.contains("quokkas"), "{seen}");
    }
    let here = t.ada.thread(&harbor, "Another topic").await;
    answered(&t.ada, &here, question).await;
    let prompt = t.model().requests().pop().unwrap().all();
    assert!(prompt.contains("needs quokkas"), "{prompt}");

    let mut seen = Vec::new();
    for path in [
        "/v1/memories?q=quokkas".to_owned(),
        "/v1/memories?scope=conversation".to_owned(),
        "/v1/tasks?limit=100".to_owned(),
        "/v1/search?q=quokkas".to_owned(),
    ] {
        seen.push(eve.get(&path).await.ok().to_string());
    }
    for event in eve.events().await {
        seen.push(event.to_string());
    }
    for text in seen {
        assert!(!text.contains("quokkas"), "{text}");
        assert!(!text.contains(&record) && !text.contains(&pass), "{text}");
    }
    let one = format!("/v1/compactions/{record}");
    for action in ["expand", "collapse", "redo"] {
        let refused = eve.act(&format!("{one}/{action}")).await.refused(404);
        assert_eq!(refused, "compaction_not_found", "{action}");
    }
    eve.get(&format!("/v1/tasks/{pass}")).await.refused(404);
    eve.get(&format!("/v1/tasks/{pass}/context"))
        .await
        .refused(404);
}

#[tokio::test]
async fn viewers_read_records_and_change_none() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let vera = t.app.join(&t.ada, "Vera", "viewer").await;
    let (thread, _) = long_thread(&t.ada, &t.general, 30).await;
    let pass = queued(&t.ada, &thread).await;
    t.ada.completed(&pass).await;
    let record = records(&vera, &thread).await.remove(0);
    let one = format!("/v1/compactions/{}", id(&record));
    vera.post(&path(&thread), json!({})).await.refused(403);
    for action in ["expand", "collapse", "redo"] {
        vera.act(&format!("{one}/{action}")).await.refused(403);
    }
    vera.delete(&one).await.refused(403);
    assert_eq!(vera.get(&one).await.ok(), record);
}

#[tokio::test]
async fn no_pass_runs_while_compaction_is_turned_off() {
    let mut t = team_with(&[("RATE_LIMITS", "off")]).await;
    let (thread, messages) = long_thread(&t.ada, &t.general, 30).await;
    let pass = queued(&t.ada, &thread).await;
    t.ada.completed(&pass).await;
    t.app.restart(&[("COMPACTION", "off")]).await;
    let ada = t.ada.at(&t.app.base);
    t.app.model.forget();
    let record = id(&records(&ada, &thread).await[0]);
    let refused = ada.post(&path(&thread), json!({})).await.refused(409);
    assert_eq!(refused, "compaction_off");
    let redo = format!("/v1/compactions/{record}/redo");
    assert_eq!(ada.act(&redo).await.refused(409), "compaction_off");
    let covered = format!("/v1/messages/{}", messages[3]);
    ada.delete(&covered).await.is(200);
    compacted(&ada, &thread).await;
    assert_eq!(records(&ada, &thread).await[0]["state"], "blank");
    assert_eq!(t.model().requests().len(), 0);

    t.app.restart(&[("COMPACTION", "on")]).await;
    let ada = t.ada.at(&t.app.base);
    let pass = queued(&ada, &thread).await;
    ada.completed(&pass).await;
    let again = within("the record", records(&ada, &thread)).await;
    assert_eq!(again[0]["state"], "active");
}

#[tokio::test]
async fn of_several_agents_the_strongest_profile_decides() {
    let t = sage_team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    for agent in ["vibe", "sage"] {
        answered(&t.ada, &thread, &format!("@{agent} hello")).await;
    }
    for n in 0..40 {
        t.ada.say(&thread, &format!("message {n}")).await;
    }
    answered(&t.ada, &thread, "@vibe and now?").await;
    let passes = compacted(&t.ada, &thread).await;
    assert_eq!(passes.len(), 1, "{passes:?}");
    assert_eq!(passes[0]["input"]["options"]["keep"], 20);
    let coder = t.ada.thread(&t.general, "Root").await;
    answered(&t.ada, &coder, "@coder hello").await;
    for n in 0..40 {
        t.ada.say(&coder, &format!("message {n}")).await;
    }
    answered(&t.ada, &coder, "@vibe and now?").await;
    assert_eq!(compactions(&t.ada, &coder).await, Vec::<Value>::new());
}
