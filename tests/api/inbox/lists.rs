//! Unanswered questions, and followed conversations.

use serde_json::{Value, json};

use crate::support::{Person, id, list, team, text};

async fn asked(person: &Person) -> Vec<String> {
    let asked = person.get("/v1/inbox/asked").await.ok();
    let messages = list(&asked, "/data");
    messages
        .iter()
        .map(|message| text(message, "/content"))
        .collect()
}

#[tokio::test]
async fn questions_wait_until_everyone_has_written_there() {
    let t = team().await;
    let cem = t.app.join(&t.ada, "Cem", "member").await;
    let thread = t.ada.thread(&t.general, "Launch").await;
    t.ada.say(&thread, "@bo @cem can you come?").await;
    t.ada.say(&thread, "@bo thank you").await;
    t.ada.say(&thread, "Is anyone there?").await;
    assert_eq!(asked(&t.ada).await, ["@bo @cem can you come?"]);
    assert!(asked(&t.bo).await.is_empty());
    t.bo.say(&thread, "Yes").await;
    assert_eq!(asked(&t.ada).await, ["@bo @cem can you come?"]);
    cem.say(&thread, "Yes").await;
    assert!(asked(&t.ada).await.is_empty());
    let dive = t.dive().await;
    t.ada.say_in(&dive.fork, "@bo what do you think?").await;
    t.bo.say(&dive.thread, "Elsewhere").await;
    assert_eq!(asked(&t.ada).await, ["@bo what do you think?"]);
    t.bo.say_in(&dive.fork, "Monday").await;
    assert!(asked(&t.ada).await.is_empty());
}

#[tokio::test]
async fn questions_in_a_channel_that_was_left_are_not_listed() {
    let t = team().await;
    let channel = t.bo.private_channel("board", &[&t.ada]).await;
    let thread = t.ada.thread(&channel, "Root").await;
    t.ada.say(&thread, "@bo can you come?").await;
    assert_eq!(asked(&t.ada).await.len(), 1);
    t.ada
        .act(&format!("/v1/channels/{channel}/leave"))
        .await
        .ok();
    assert!(asked(&t.ada).await.is_empty());
}

/// Kinds and titles of followed conversations, latest activity first.
async fn following(person: &Person, query: &str) -> Vec<String> {
    let page = person.get(&format!("/v1/following{query}")).await.ok();
    names(&page)
}

fn names(page: &Value) -> Vec<String> {
    list(page, "/data")
        .iter()
        .map(|row| {
            let title = match row["fork"]["title"].as_str() {
                Some(title) => title.to_owned(),
                None => text(row, "/thread/root_message/content"),
            };
            format!("{} {title}", text(row, "/kind"))
        })
        .collect()
}

#[tokio::test]
async fn followed_threads_forks_and_chats_are_listed_by_activity() {
    let t = team().await;
    let direct = t.ada.post("/v1/direct", json!({"member_ids": []})).await;
    let launch = t.ada.thread(&t.general, "Launch").await;
    let dive = t.dive().await;
    t.bo.thread(&t.general, "Not followed").await;
    let mut wanted = vec!["fork The day", "thread Friday or Monday?", "thread Launch"];
    if direct.status / 100 == 2 {
        t.ada.thread(&id(&direct.json()), "A chat").await;
        wanted.insert(0, "chat A chat");
        assert_eq!(following(&t.ada, "?kind=chat").await, ["chat A chat"]);
    }
    let mut found = following(&t.ada, "").await;
    found.sort();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    t.bo.say(&launch, "Friday").await;
    assert_eq!(following(&t.ada, "").await[0], "thread Launch");
    assert_eq!(following(&t.ada, "?unread=true").await, ["thread Launch"]);
    t.bo.say_in(&dive.fork, "Monday").await;
    assert_eq!(
        following(&t.ada, "?unread=true").await,
        ["fork The day", "thread Launch"]
    );
    assert_eq!(following(&t.ada, "?kind=fork").await, ["fork The day"]);
    assert_eq!(following(&t.ada, "?q=laun").await, ["thread Launch"]);
    assert_eq!(following(&t.ada, "?q=%25").await, Vec::<String>::new());
}

#[tokio::test]
async fn following_is_paged() {
    let t = team().await;
    for n in 1..=5 {
        t.ada.thread(&t.general, &format!("Thread {n}")).await;
    }
    let mut found = Vec::new();
    let mut query = "?limit=2".to_owned();
    loop {
        let page = t.ada.get(&format!("/v1/following{query}")).await.ok();
        found.extend(names(&page));
        match page["next_cursor"].as_str() {
            Some(cursor) => query = format!("?limit=2&cursor={cursor}"),
            None => break,
        }
    }
    let wanted = [5, 4, 3, 2, 1].map(|n| format!("thread Thread {n}"));
    assert_eq!(found, wanted);
    let foreign = t.ada.get("/v1/following?cursor=dGhyZWFkczo0Mg").await;
    assert_eq!(foreign.refused(400), "invalid_cursor");
}
