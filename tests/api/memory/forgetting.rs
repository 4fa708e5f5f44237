//! Forgetting: deleted, edited, and erased sources and entries.

use serde_json::{Value, json};

use super::{path, remember};
use crate::support::{Person, Team, id, list, team, team_with, text, within};

/// Words that occur nowhere else (they contain `u`, and IDs do not), and that stemmers do not shorten.
fn words(from: usize, count: usize) -> Vec<String> {
    (from..from + count)
        .map(|n| format!("qux{}k", 710_000 + 7 * n))
        .collect()
}

pub(super) async fn assert_gone(t: &Team, words: &[String]) {
    for word in words {
        assert_eq!(
            t.app.place.places_of(word).await,
            Vec::<String>::new(),
            "{word}"
        );
    }
    let everything = t.app.place.every_text().await;
    for word in words {
        let rest: Vec<&(String, String)> = everything
            .iter()
            .filter(|(_, text)| text.contains(word.as_str()))
            .collect();
        assert_eq!(rest, Vec::<&(String, String)>::new(), "{word}");
    }
}

async fn asked(who: &Person, thread: &str, agent: &str) -> String {
    let task = who
        .ask(thread, &format!("@{agent} which harbor ferry?"))
        .await;
    who.completed(&task).await;
    let seen = who.task_context(&task).await;
    assert!(!list(&seen, "/memories/used").is_empty(), "{seen}");
    task
}

#[tokio::test]
async fn nothing_remains_of_what_was_forgotten() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let (mut deleted, mut sources, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
    let planted = words(0, 48);
    for (n, words) in planted.chunks(16).enumerate() {
        let thread = t.ada.thread(&t.general, &format!("Thread {n}")).await;
        for (k, word) in words.iter().enumerate() {
            let sentence = format!("The harbor ferry is called {word}");
            match k % 4 {
                // Entry written by hand and forgotten by ID.
                0 => deleted.push(remember(&t.ada, &sentence, json!({})).await),
                1 => deleted.push(remember(&t.ada, &sentence, json!({"thread_id": thread})).await),
                // Entry taken from a message and forgotten with it.
                _ => {
                    let source = t.ada.tell(&thread, &sentence).await;
                    let scope = if k % 4 == 2 { "user" } else { "conversation" };
                    let mut fields = json!({"scope": scope, "source_message_ids": [source]});
                    if scope == "conversation" {
                        fields["thread_id"] = thread.as_str().into();
                    }
                    let made = remember(&t.ada, &sentence, fields).await;
                    assert_eq!(made["source_message_ids"], json!([source]));
                    sources.push(source);
                }
            }
            if k % 8 == 7 {
                tasks.push(asked(&t.ada, &thread, "vibe").await);
            }
        }
    }
    let shown = t.ada.task_context(&tasks[0]).await.to_string();
    assert!(
        planted.iter().any(|word| shown.contains(word.as_str())),
        "{shown}"
    );
    for entry in &deleted {
        let gone = t.ada.delete(&path(entry)).await.is(200);
        let remaining = json!({"rows": 0, "index": 0, "contexts": 0});
        assert_eq!(
            gone,
            json!({"id": entry["id"], "object": "memory", "deleted": true, "remaining": remaining})
        );
        t.ada.get(&path(entry)).await.refused(404);
    }
    for source in &sources {
        t.ada
            .delete(&format!("/v1/messages/{source}"))
            .await
            .is(200);
    }
    assert_gone(&t, &planted).await;
    for task in &tasks {
        let seen = t.ada.task_context(task).await;
        assert!(
            !planted
                .iter()
                .any(|word| seen.to_string().contains(word.as_str())),
            "{seen}"
        );
        for used in list(&seen, "/memories/used") {
            assert_eq!(used["text"], Value::Null);
        }
    }
    let export = t.ada.get(&format!("/v1/members/{}/export", t.ada.id)).await;
    assert!(
        !planted
            .iter()
            .any(|word| export.text.contains(word.as_str()))
    );
    // Later prompts do not contain the words either.
    let thread = t.ada.thread(&t.general, "Later").await;
    let task = t.ada.ask(&thread, "@vibe which harbor ferry?").await;
    t.ada.completed(&task).await;
    let seen = t.ada.task_context(&task).await;
    assert_eq!(
        seen["memories"],
        json!({"considered": {}, "hidden": [], "messages": [], "used": []})
    );
}

#[tokio::test]
async fn an_entry_goes_with_its_last_source() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let one = t.ada.tell(&thread, "The harbor ferry is green").await;
    let two = t.ada.tell(&thread, "Yes, green").await;
    let fields = json!({"thread_id": thread, "source_message_ids": [one, two]});
    let made = remember(&t.ada, "The harbor ferry is green", fields).await;
    let alone = remember(
        &t.ada,
        "The ferry has no source",
        json!({"thread_id": thread}),
    )
    .await;
    t.ada.delete(&format!("/v1/messages/{one}")).await.is(200);
    let left = t.ada.get(&path(&made)).await.is(200);
    assert_eq!(left["source_message_ids"], json!([two]));
    t.ada.delete(&format!("/v1/messages/{two}")).await.is(200);
    t.ada.get(&path(&made)).await.refused(404);
    t.ada.get(&path(&alone)).await.is(200);
}

#[tokio::test]
async fn an_edited_source_makes_an_entry_stale_until_it_is_confirmed() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let source = t.ada.tell(&thread, "The harbor ferry costs 3 euros").await;
    let fields = json!({"source_message_ids": [source]});
    let made = remember(&t.ada, "The harbor ferry costs 3 euros", fields).await;
    let used = async || -> usize {
        let task = t.ada.ask(&thread, "@vibe which harbor ferry?").await;
        t.ada.completed(&task).await;
        list(&t.ada.task_context(&task).await, "/memories/used").len()
    };
    assert_eq!(used().await, 1);
    let edit = json!({"content": "The harbor ferry costs 4 euros"});
    t.ada
        .patch(&format!("/v1/messages/{source}"), edit)
        .await
        .is(200);
    let stale = t.ada.get(&path(&made)).await.is(200);
    assert_eq!(
        (&stale["status"], &stale["version"]),
        (&json!("stale"), &json!(2))
    );
    assert_eq!(used().await, 0);
    t.ada
        .patch(&path(&made), json!({"status": "active"}))
        .await
        .is(200);
    assert_eq!(used().await, 1);
    let edit = json!({"content": "The harbor ferry costs 5 euros"});
    t.ada
        .patch(&format!("/v1/messages/{source}"), edit)
        .await
        .is(200);
    let corrected = json!({"text": "The harbor ferry costs 5 euros"});
    let corrected = t.ada.patch(&path(&made), corrected).await.is(200);
    assert_eq!(corrected["status"], "active");
    assert_eq!(used().await, 1);
}

#[tokio::test]
async fn everything_about_a_person_of_a_thread_or_of_an_agent_is_forgotten_at_once() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let agent = id(&t.ada.agent("vibe").await);
    for n in 0..3 {
        remember(&t.bo, &format!("Fact {n}"), json!({})).await;
        remember(
            &t.bo,
            &format!("Fact {n}"),
            json!({"scope": "persona", "agent_id": agent}),
        )
        .await;
        remember(&t.bo, &format!("Fact {n}"), json!({"thread_id": thread})).await;
        remember(
            &t.bo,
            &format!("Fact {n}"),
            json!({"scope": "agent", "agent_id": agent}),
        )
        .await;
    }
    let count = async |who: &Person| who.every("/v1/memories").await.len();
    assert_eq!(count(&t.bo).await, 12);
    for bad in [
        "",
        "?user_id=me&agent_id=x",
        &format!("?user_id=me&thread_id={thread}"),
    ] {
        t.bo.delete(&format!("/v1/memories{bad}"))
            .await
            .refused(400);
    }
    let path = format!("/v1/memories?user_id={}", t.bo.id);
    t.bo.delete(&path).await.refused(403);
    assert_eq!(
        t.bo.delete("/v1/memories?user_id=me").await.is(200),
        json!({"deleted": 6})
    );
    assert_eq!(count(&t.bo).await, 6);
    remember(&t.bo, "Fact again", json!({})).await;
    assert_eq!(t.ada.delete(&path).await.is(200), json!({"deleted": 1}));
    let audit = t.ada.get("/v1/audit-log?action=memory.deleted").await.ok();
    assert_eq!(audit["data"][0]["target"], t.bo.id.as_str());
    assert_eq!(audit["data"][0]["data"], json!({"deleted": 1}));
    let of_thread = format!("/v1/memories?thread_id={thread}");
    assert_eq!(
        t.ada.delete(&of_thread).await.is(200),
        json!({"deleted": 3})
    );
    let of_agent = format!("/v1/memories?agent_id={agent}");
    assert_eq!(t.ada.delete(&of_agent).await.is(200), json!({"deleted": 3}));
    assert_eq!(count(&t.ada).await, 0);
}

#[tokio::test]
async fn personal_entries_go_with_the_membership() {
    let t = team_with(&[("EVENT_RETENTION", "1s")]).await;
    let agent = id(&t.ada.agent("vibe").await);
    let persona = json!({"scope": "persona", "agent_id": agent});
    remember(&t.bo, "Prefers zanzibar tea", json!({})).await;
    remember(&t.bo, "Likes brief answers on zanzibar", persona).await;
    remember(&t.ada, "Stays here", json!({})).await;
    let path = format!("/v1/members/{}", t.bo.id);
    t.ada.delete(&path).await.is(204);
    within("their entries to be forgotten", async {
        while !t.app.place.places_of("zanzibar").await.is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(t.ada.every("/v1/memories").await.len(), 1);
}

#[tokio::test]
async fn export_and_erasure_cover_entries_by_and_about_a_person() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let planted = words(100, 3);
    let sentence = |n: usize| format!("The harbor ferry is called {}", planted[n]);
    remember(&t.bo, &sentence(0), json!({})).await;
    remember(&t.bo, &sentence(1), json!({"thread_id": thread})).await;
    let kept = remember(
        &t.ada,
        "The harbor ferry is green",
        json!({"thread_id": thread}),
    )
    .await;
    let third = remember(&t.bo, &sentence(2), json!({})).await;
    t.bo.patch("/v1/memory-settings", json!({"persona": false}))
        .await
        .is(200);
    asked(&t.bo, &thread, "vibe").await;
    t.bo.delete(&path(&third)).await.is(200);
    let export =
        t.bo.get(&format!("/v1/members/{}/export", t.bo.id))
            .await
            .ok();
    let texts: Vec<String> = list(&export, "/memories")
        .iter()
        .map(|entry| text(entry, "/text"))
        .collect();
    assert_eq!(texts, [sentence(0), sentence(1)]);
    t.ada.erase(&t.bo).await;
    assert_gone(&t, &planted).await;
    assert_eq!(t.app.place.count("memories").await, 1);
    assert_eq!(t.app.place.count("memory_settings").await, 0);
    t.ada.get(&path(&kept)).await.is(200);
}

#[tokio::test]
async fn a_memory_forgotten_while_the_model_replies_is_not_in_the_record() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let made = remember(&t.ada, "The harbor ferry is called quoll", json!({})).await;
    let gate = crate::support::Gate::new();
    t.model()
        .script("vibe", [crate::support::Answer::text("Fine.").held(&gate)]);
    let task = t.ada.ask(&thread, "@vibe which harbor ferry?").await;
    gate.reached().await;
    let gone = t.ada.delete(&path(&made)).await.is(200);
    assert_eq!(gone["remaining"]["contexts"], 0);
    gate.open();
    t.ada.completed(&task).await;
    let seen = t.ada.task_context(&task).await;
    assert!(!seen.to_string().contains("quoll"), "{seen}");
}
