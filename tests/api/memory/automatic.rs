//! Entries that passes make: where they are used, their personal forms, and how edits and deletions of messages and entries affect
//! them.

use serde_json::{Value, json};

use super::{forgetting::assert_gone, path, remember};
use crate::{
    compaction::compacted,
    support::{Answer, Person, Team, id, list, team, team_with, text, within},
};

/// A model's answer for a segment.
fn answer(items: &[Value]) -> Answer {
    Answer::text(&json!({"gist": "They talked.", "items": items}).to_string())
}

fn item(text: &str, kind: &str, sources: &[&str]) -> Value {
    json!({"text": text, "kind": kind, "sources": sources, "about": null, "for_agent": false})
}

fn about(person: &str, item: Value) -> Value {
    let mut item = item;
    item["about"] = person.into();
    item
}

/// Posts ten messages, which are too new to be compacted, and compacts everything before them. Returns the segment's ID.
async fn compact(who: &Person, thread: &str) -> String {
    for n in 0..10 {
        who.say(thread, &format!("later {n}")).await;
    }
    let queued = who
        .post(&format!("/v1/threads/{thread}/compactions"), json!({}))
        .await
        .is(202);
    let done = who.completed(&text(&queued, "/task/id")).await;
    text(&done, "/output/compaction_ids/0")
}

/// Creates a thread with these messages after the root and compacts it with this answer. Returns the thread, the messages, and the
/// segment's ID.
async fn compacted_thread(
    t: &Team,
    channel: &str,
    sentences: &[&str],
    items: &[Value],
) -> (String, Vec<String>, String) {
    let thread = t.ada.thread(channel, "Root").await;
    let mut messages = Vec::new();
    for sentence in sentences {
        messages.push(t.ada.tell(&thread, sentence).await);
    }
    t.model().script("summary", [answer(items)]);
    let record = compact(&t.ada, &thread).await;
    (thread, messages, record)
}

async fn entries(who: &Person, filter: &str) -> Vec<Value> {
    who.every(&format!("/v1/memories?{filter}")).await
}

fn texts(entries: &[Value]) -> Vec<&str> {
    entries
        .iter()
        .map(|e| e["text"].as_str().unwrap())
        .collect()
}

/// Asks a question in a new thread of the channel; returns the prompt.
async fn prompt(t: &Team, channel: &str, question: &str) -> String {
    let thread = t.ada.thread(channel, "Elsewhere").await;
    let task = t.ada.ask(&thread, question).await;
    t.ada.completed(&task).await;
    t.model().requests().pop().unwrap().all()
}

/// A team with a server key, so that the server recognizes equal texts on every database.
async fn keyed_team() -> Team {
    team_with(&[("SECRET_KEY", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")]).await
}

const FERRY: &str = "The harbor ferry starts at Pier 4711";
const QUESTION: &str = "@vibe where does the harbor ferry start?";

#[tokio::test]
async fn entries_of_a_pass_are_used_where_their_sources_can_be_read() {
    let t = team().await;
    let items = [
        item(FERRY, "fact", &["m2"]),
        item("Ada likes the harbor ferry", "person", &["m3"]),
    ];
    let said = [FERRY, "Ada likes the harbor ferry, says everyone"];
    let (thread, messages, record) = compacted_thread(&t, &t.general, &said, &items).await;
    let stored = entries(&t.bo, &format!("thread_id={thread}&kind=fact")).await;
    assert_eq!(texts(&stored), [FERRY]);
    for (field, wanted) in [
        ("scope", json!("conversation")),
        ("origin", json!("auto")),
        ("trust", json!("person")),
        ("visibility", json!("workspace")),
        ("compaction_id", json!(record)),
        ("source_message_ids", json!([messages[0]])),
    ] {
        assert_eq!(stored[0][field], wanted, "{field}");
    }
    let seen = prompt(&t, &t.general, QUESTION).await;
    assert!(seen.contains(&format!(") {FERRY}")), "{seen}");
    assert!(seen.contains("- (fact, Ada, "), "{seen}");
    // Outside their conversation, statements about people are used only in their personal form.
    assert!(!seen.contains("Ada likes"), "{seen}");

    let harbor = t.ada.private_channel("harbor", &[]).await;
    let tunnel = "The harbor tunnel starts at Gate 815";
    let items = [item(tunnel, "fact", &["m2"])];
    let (private, ..) = compacted_thread(&t, &harbor, &[tunnel], &items).await;
    let stored = entries(&t.ada, &format!("thread_id={private}&kind=fact")).await;
    assert_eq!(stored[0]["visibility"], "channel");
    assert_eq!(entries(&t.bo, "q=tunnel").await, Vec::<Value>::new());
    let question = "@vibe where does the harbor tunnel start?";
    let open = prompt(&t, &t.general, question).await;
    assert!(!open.contains("Gate 815"), "{open}");
    let inside = prompt(&t, &harbor, question).await;
    assert!(inside.contains("Gate 815"), "{inside}");

    // When a thread's memory is off, other conversations do not use its entries, but its summary is kept.
    t.ada
        .patch(&format!("/v1/threads/{thread}"), json!({"memory": "off"}))
        .await
        .is(200);
    let seen = prompt(&t, &t.general, QUESTION).await;
    assert!(!seen.contains(" 4711"), "{seen}");
    let task = t.ada.ask(&thread, QUESTION).await;
    t.ada.completed(&task).await;
    let seen = t.model().requests().pop().unwrap().all();
    assert!(seen.contains(&format!(" fact (Ada): {FERRY}")), "{seen}");
    assert!(!seen.contains("Memories that may help"), "{seen}");
}

#[tokio::test]
async fn what_the_summary_contains_is_not_sent_twice() {
    let t = team().await;
    let items = [item(FERRY, "fact", &["m2"])];
    let (thread, ..) = compacted_thread(&t, &t.general, &[FERRY], &items).await;
    remember(&t.ada, "The harbor ferry costs 3 euros", json!({})).await;
    let task = t.ada.ask(&thread, QUESTION).await;
    t.ada.completed(&task).await;
    let seen = t.model().requests().pop().unwrap().all();
    let lines = seen.split("\\n").filter(|line| line.contains("Pier 4711"));
    let kinds: Vec<bool> = lines.map(|line| line.starts_with("- (message, ")).collect();
    assert_eq!(
        kinds,
        [false, true],
        "in the summary, and the message itself: {seen}"
    );
    assert!(seen.contains("3 euros"), "{seen}");
}

#[tokio::test]
async fn preferences_of_a_person_become_personal_entries() {
    let t = keyed_team().await;
    let vibe = id(&t.ada.agent("vibe").await);
    t.bo.patch("/v1/memory-settings", json!({"enabled": false}))
        .await
        .is(200);
    let thread = t.ada.thread(&t.general, "Root").await;
    t.ada.say(&thread, "I drink my coffee without sugar").await;
    t.bo.say(&thread, "I drink my tea with honey").await;
    let task = t
        .ada
        .ask(&thread, "@vibe answer me in French, always")
        .await;
    t.ada.completed(&task).await;
    t.bo.say(&thread, "Ada works from Lisbon").await;
    let mut french = about(
        "p1",
        item("Ada wants answers in French", "preference", &["m4"]),
    );
    french["for_agent"] = true.into();
    let items = [
        about(
            "p1",
            item("Ada drinks coffee without sugar", "preference", &["m2"]),
        ),
        about(
            "p2",
            item("Bo drinks tea with honey", "preference", &["m3"]),
        ),
        french,
        about("p1", item("Ada works from Lisbon", "person", &["m6"])),
    ];
    t.model().script("summary", [answer(&items)]);
    compact(&t.ada, &thread).await;
    let of_thread = entries(&t.ada, &format!("thread_id={thread}")).await;
    for made in &items {
        assert!(
            texts(&of_thread).contains(&made["text"].as_str().unwrap()),
            "{of_thread:?}"
        );
    }
    let user = entries(&t.ada, "scope=user&user_id=me").await;
    assert_eq!(texts(&user), ["Ada drinks coffee without sugar"]);
    assert_eq!(user[0]["origin"], "auto");
    let persona = entries(&t.ada, "scope=persona&user_id=me").await;
    assert_eq!(texts(&persona), ["Ada wants answers in French"]);
    assert_eq!(persona[0]["agent_id"], vibe);
    for scope in ["user", "persona"] {
        let filter = format!("scope={scope}&user_id=me");
        assert_eq!(entries(&t.bo, &filter).await, Vec::<Value>::new());
    }
    // An entry can be deleted by the person whom it is about, regardless of who wrote it.
    let lisbon = of_thread
        .iter()
        .find(|e| e["text"] == "Ada works from Lisbon");
    let lisbon = lisbon.unwrap();
    assert_eq!(lisbon["about_user_id"], t.ada.id);
    t.ada.delete(&path(lisbon)).await.is(200);
    // If another conversation contains the same statement, its message becomes an additional source.
    let again = [about(
        "p1",
        item("Ada drinks coffee without sugar!", "preference", &["m2"]),
    )];
    let said = ["I drink my coffee without sugar"];
    compacted_thread(&t, &t.general, &said, &again).await;
    let user = entries(&t.ada, "scope=user&user_id=me").await;
    assert_eq!(user.len(), 1);
    assert_eq!(list(&user[0], "/source_message_ids").len(), 2);
}

async fn redo(who: &Person, thread: &str, record: &str) {
    who.act(&format!("/v1/compactions/{record}/redo"))
        .await
        .is(202);
    compacted(who, thread).await;
}

#[tokio::test]
async fn a_redo_respects_what_people_did_with_the_entries() {
    let t = team().await;
    let said = [
        "The ferry is green",
        "The budget is 4,200 euros",
        "Olga paints the pier",
        "The market closes early",
    ];
    let items = [
        item("The ferry is green", "fact", &["m2"]),
        item("The budget is 4,200 euros", "fact", &["m3"]),
        item("Olga paints the pier", "fact", &["m4"]),
        item("The market closes early", "fact", &["m5"]),
    ];
    let (thread, _, record) = compacted_thread(&t, &t.general, &said, &items).await;
    let filter = format!("thread_id={thread}&kind=fact");
    let made = entries(&t.ada, &filter).await;
    let of = |text: &str| made.iter().find(|e| e["text"] == text).unwrap().clone();
    t.ada.delete(&path(&of("The ferry is green"))).await.is(200);
    t.ada
        .patch(
            &path(&of("The budget is 4,200 euros")),
            json!({"text": "The budget is 4,500 euros"}),
        )
        .await
        .is(200);
    t.ada
        .patch(
            &path(&of("Olga paints the pier")),
            json!({"status": "archived"}),
        )
        .await
        .is(200);
    t.model().script("summary", [answer(&items)]);
    redo(&t.ada, &thread, &record).await;
    let left = entries(&t.ada, &filter).await;
    let mut left = texts(&left);
    left.sort_unstable();
    assert_eq!(
        left,
        ["The budget is 4,500 euros", "The market closes early"]
    );
    let shown = t.ada.get(&format!("/v1/compactions/{record}")).await.ok();
    assert_eq!(shown["left_out"], json!({"fact": 3}));
    let facts = list(&shown, "/memory_json/facts");
    assert_eq!(facts.len(), 2, "{shown}");
    assert!(text(&shown, "/summary_markdown").contains("4,500"));
    // The same words in a later message make a new entry.
    t.ada.say(&thread, "The ferry is green").await;
    t.model().script(
        "summary",
        [answer(&[item("The ferry is green", "fact", &["m11"])])],
    );
    compact(&t.ada, &thread).await;
    assert_eq!(entries(&t.ada, &filter).await.len(), 3);
}

#[tokio::test]
async fn an_entry_of_two_segments_survives_the_deletion_in_one() {
    let t = keyed_team().await;
    let items = [item(FERRY, "fact", &[])];
    let (thread, messages, _) = compacted_thread(&t, &t.general, &[FERRY], &items).await;
    let again = t.ada.tell(&thread, &format!("{FERRY}, I said")).await;
    t.model().script("summary", [answer(&items)]);
    compact(&t.ada, &thread).await;
    let filter = format!("thread_id={thread}&kind=fact");
    let made = entries(&t.ada, &filter).await;
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!(made[0]["source_message_ids"], json!([messages[0], again]));
    t.model()
        .script("summary", [answer(&items), answer(&items)]);
    t.ada
        .delete(&format!("/v1/messages/{}", messages[0]))
        .await
        .is(200);
    compacted(&t.ada, &thread).await;
    let left = entries(&t.ada, &filter).await;
    assert_eq!(texts(&left), [FERRY]);
    assert_eq!(left[0]["source_message_ids"], json!([again]));
}

#[tokio::test]
async fn nothing_remains_of_deleted_messages_in_what_passes_made() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let (mut words, mut messages) = (Vec::new(), Vec::new());
    for n in 0..3 {
        let planted: Vec<String> = (0..6)
            .map(|k| format!("qux{}k", 910_000 + 7 * (6 * n + k)))
            .collect();
        let said: Vec<String> = planted
            .iter()
            .map(|word| format!("The harbor ferry is called {word}"))
            .collect();
        let said: Vec<&str> = said.iter().map(String::as_str).collect();
        let kinds = ["fact", "preference", "decision", "todo", "fact", "person"];
        let handles: Vec<String> = (0..6).map(|k| format!("m{}", k + 2)).collect();
        let items: Vec<Value> = (0..6)
            .map(|k| about("p1", item(said[k], kinds[k], &[&handles[k]])))
            .collect();
        let (thread, posted, _) = compacted_thread(&t, &t.general, &said, &items).await;
        let task = t.ada.ask(&thread, "@vibe which harbor ferry?").await;
        t.ada.completed(&task).await;
        let seen = t.ada.task_context(&task).await.to_string();
        assert!(seen.contains(&planted[0]), "{seen}");
        words.extend(planted);
        messages.extend(posted);
        assert_eq!(
            entries(&t.ada, "scope=user&user_id=me").await.len(),
            2 * (n + 1)
        );
    }
    let export = t.ada.get(&format!("/v1/members/{}/export", t.ada.id)).await;
    assert!(export.text.contains(&words[0]));
    for message in &messages {
        t.ada
            .delete(&format!("/v1/messages/{message}"))
            .await
            .is(200);
    }
    assert_gone(&t, &words).await;
    let passes = list(&t.ada.get("/v1/tasks?limit=100").await.ok(), "/data");
    for pass in passes.iter().filter(|task| task["kind"] == "compact") {
        t.ada.ended(&id(pass)).await;
    }
    assert_gone(&t, &words).await;
}

#[tokio::test]
async fn an_edit_hides_the_entry_until_it_is_made_again() {
    let t = team().await;
    let items = [item(FERRY, "fact", &["m2"])];
    let (thread, messages, record) = compacted_thread(&t, &t.general, &[FERRY], &items).await;
    let corrected = "The harbor ferry starts at Pier 12";
    t.model()
        .script("summary", [answer(&[item(corrected, "fact", &["m2"])])]);
    t.ada
        .patch(
            &format!("/v1/messages/{}", messages[0]),
            json!({"content": corrected}),
        )
        .await
        .is(200);
    compacted(&t.ada, &thread).await;
    let made = entries(&t.ada, &format!("thread_id={thread}&kind=fact")).await;
    assert_eq!(texts(&made), [corrected]);
    assert_eq!(made[0]["status"], "active");
    let shown = t.ada.get(&format!("/v1/compactions/{record}")).await.ok();
    assert_eq!(
        (&shown["state"], &shown["version"]),
        (&json!("active"), &json!(3))
    );
    let seen = prompt(&t, &t.general, QUESTION).await;
    assert!(
        seen.contains("Pier 12") && !seen.contains(" 4711"),
        "{seen}"
    );
}

#[tokio::test]
async fn unused_automatic_entries_expire() {
    let mut t = team().await;
    let items = [item(FERRY, "fact", &["m2"])];
    let (thread, ..) = compacted_thread(&t, &t.general, &[FERRY], &items).await;
    let by_hand = remember(&t.ada, "The harbor ferry costs 3 euros", json!({})).await;
    let filter = format!("thread_id={thread}&kind=fact");
    let made = entries(&t.ada, &filter).await.remove(0);
    assert_eq!(made["expires_at"], Value::Null);
    let policy = format!("/v1/workspaces/{}/policy", t.ada.workspace);
    t.ada
        .patch(&policy, json!({"memory": {"retention_days": 30}}))
        .await
        .is(200);
    let kept = t.ada.get(&path(&made)).await.ok();
    assert!(kept["expires_at"].is_string(), "{kept}");
    let seen = prompt(&t, &t.general, QUESTION).await;
    assert!(seen.contains(" 4711") && seen.contains("3 euros"), "{seen}");
    let long_ago = "'2026-01-02 03:04:05+00:00'";
    let age = format!("update memories set created_at = {long_ago}");
    let unused = format!("update memories set last_used_at = {long_ago}");

    // Retention counts from the last use.
    t.app.stop().await;
    t.app.place.run(&[&age]).await;
    t.app.restart(&[]).await;
    t.ada = t.ada.at(&t.app.base);
    assert_eq!(entries(&t.ada, &filter).await.len(), 1);
    t.app.stop().await;
    t.app.place.run(&[&unused]).await;
    t.app.restart(&[]).await;
    t.ada = t.ada.at(&t.app.base);
    assert_eq!(entries(&t.ada, &filter).await, Vec::<Value>::new());
    assert_eq!(t.ada.get(&path(&made)).await.status, 404);
    let hand = t.ada.get(&path(&by_hand)).await.ok();
    assert_eq!(hand["expires_at"], Value::Null);
    let seen = prompt(&t, &t.general, QUESTION).await;
    assert!(
        !seen.contains(" 4711") && seen.contains("3 euros"),
        "{seen}"
    );

    t.app.restart(&[("EVENT_RETENTION", "1s")]).await;
    t.ada = t.ada.at(&t.app.base);
    let left = "select count(*) from memories where forgotten_at is null".to_owned();
    within("the entry to be removed", async {
        while t.app.place.numbers(std::slice::from_ref(&left)).await != [1] {
            crate::support::pause().await;
        }
    })
    .await;
    assert_eq!(entries(&t.ada, "user_id=me").await.len(), 1);
}

#[tokio::test]
async fn entries_of_a_summary_that_is_sent_do_not_expire() {
    let mut t = team().await;
    let items = [item(FERRY, "fact", &["m2"])];
    let (thread, ..) = compacted_thread(&t, &t.general, &[FERRY], &items).await;
    let policy = format!("/v1/workspaces/{}/policy", t.ada.workspace);
    let rule = json!({"memory": {"retention_days": 30}});
    t.ada.patch(&policy, rule).await.is(200);
    let age = "update memories set created_at = '2026-01-02 03:04:05+00:00'";
    t.app.stop().await;
    t.app.place.run(&[age]).await;
    t.app.restart(&[]).await;
    t.ada = t.ada.at(&t.app.base);
    let filter = format!("thread_id={thread}&kind=fact");
    assert_eq!(entries(&t.ada, &filter).await, Vec::<Value>::new());
    let task = t.ada.ask(&thread, "@vibe good morning").await;
    t.ada.completed(&task).await;
    let seen = t.model().requests().pop().unwrap().all();
    assert!(seen.contains(" 4711"), "{seen}");
    let used = entries(&t.ada, &filter).await;
    assert_eq!((texts(&used), &used[0]["uses"]), (vec![FERRY], &json!(0)));
}

#[tokio::test]
async fn a_model_finds_entries_that_newer_ones_replace_or_settle() {
    let t = team().await;
    let said = ["Olga paints the harbor pier", "The harbor pier is green"];
    let items = [
        item(said[0], "todo", &["m2"]),
        item(said[1], "fact", &["m3"]),
    ];
    let (thread, _, record) = compacted_thread(&t, &t.general, &said, &items).await;
    let newer = "Olga painted the harbor pier blue";
    t.ada.say(&thread, newer).await;
    t.model()
        .script("summary", [answer(&[item(newer, "fact", &["m11"])])]);
    // The pair with the most words in common comes first.
    let verdict = json!({"superseded": [["e3", "e2"], ["e2", "e3"]], "done": ["e1", "e3"]});
    t.model()
        .script("judge", [Answer::text(&verdict.to_string())]);
    compact(&t.ada, &thread).await;
    let asked = t.model().asked_once("judge").await.all();
    assert!(asked.contains("Pairs: e1 e2; e3 e2"), "{asked}");
    assert!(
        asked.contains(&format!(" todo (Ada)]: {}", said[0])),
        "{asked}"
    );
    let of = async |status: &str| {
        let filter = format!("thread_id={thread}&status={status}");
        entries(&t.ada, &filter).await
    };
    assert_eq!(texts(&of("archived").await), [said[0]]);
    let (old, new) = (of("superseded").await, of("active").await);
    assert_eq!((texts(&old), texts(&new)), (vec![said[1]], vec![newer]));
    assert_eq!(old[0]["superseded_by"], new[0]["id"]);
    // Repeating a compaction does not restore archived entries.
    t.model().script("summary", [answer(&items)]);
    redo(&t.ada, &thread, &record).await;
    assert_eq!(texts(&of("archived").await), [said[0]]);
    assert!(!texts(&of("active").await).contains(&said[0]));
}
