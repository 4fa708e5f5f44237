//! Imports of exports of `DiscordChatExporter`.

use serde_json::{Value, json};

use crate::{
    imports::{
        export, imported, messages, ready, state, sums, threads, unlimited_team, upload,
        with_content, zipped,
    },
    support::{Team, id, list, number, text},
};

/// 2021-05-03, 10:00.
const AT: u64 = 1_620_036_000_000;
const DAY: u64 = 24 * 3600 * 1000;

/// An ID of this time.
fn snowflake(ms: u64, n: u64) -> String {
    (((ms - 1_420_070_400_000) << 22) | n).to_string()
}

/// Time of an ID.
fn time_of(snowflake: &str) -> String {
    let ms = (snowflake.parse::<u64>().unwrap() >> 22) + 1_420_070_400_000;
    let at = chrono::DateTime::from_timestamp_millis(i64::try_from(ms).unwrap());
    at.unwrap().to_rfc3339()
}

fn message(key: &str, author: &str, content: &str, more: Value) -> Value {
    let mut message = json!({"id": key, "type": "Default", "timestamp": time_of(key), "content": content,
        "author": {"id": author, "name": format!("user{author}"), "nickname": format!("User {author}"), "isBot": false}});
    if let (Some(message), Value::Object(more)) = (message.as_object_mut(), more) {
        message.extend(more);
    }
    message
}

fn plans() -> String {
    snowflake(AT - 100 * DAY, 0)
}

/// An export of a channel with a thread and a file.
fn archive() -> Vec<u8> {
    let guild = json!({"id": "42", "name": "Guild"});
    let root = snowflake(AT + 2 * DAY, 1);
    let plans = json!({
        "guild": guild, "channel": {"id": plans(), "type": "GuildTextChat", "name": "plans", "topic": "What we plan"},
        "messages": [
            message(&snowflake(AT, 1), "7", "Hello <@8>", json!({
                "attachments": [
                    {"id": "1", "url": "plans.json_Files\\notes.txt", "fileName": "notes.txt"},
                    {"id": "2", "url": "https://cdn.discordapp.com/2/lost.png?ex=1", "fileName": "lost.png"}],
                "reactions": [{"emoji": {"id": "", "name": "👍", "code": "thumbsup"}, "count": 1, "users": [{"id": "8", "name": "user8"}]}]})),
            message(&snowflake(AT + 1000, 2), "8", "Thanks", json!({"type": "Reply", "timestampEdited": "2021-05-03T10:00:05+00:00",
                "reference": {"messageId": snowflake(AT, 1)}})),
            message(&snowflake(AT + 2000, 3), "8", "", json!({"type": "GuildMemberJoin"})),
            message(&snowflake(AT + DAY, 4), "7", "The next day", json!({})),
            message(&root, "7", "Let us plan the fair", json!({})),
            message(&snowflake(AT + 3 * DAY, 5), "9", "", json!({"author": {"id": "9", "name": "Builder", "isBot": true},
                "embeds": [{"title": "Built", "url": "https://ci.example.com/1", "fields": [{"name": "To", "value": "prod"}]}]})),
        ],
    });
    let thread = json!({
        "guild": {"id": "42", "name": "Guild"},
        "channel": {"id": root, "type": "GuildPublicThread", "categoryId": self::plans(), "category": "plans", "name": "The fair"},
        "messages": [message(&snowflake(AT + 2 * DAY + 5000, 6), "8", "In the thread", json!({}))],
    });
    zipped(&[
        ("out/plans.json", plans.to_string().into_bytes()),
        ("out/fair.json", thread.to_string().into_bytes()),
        ("out/plans.json_Files/notes.txt", b"The notes".to_vec()),
    ])
}

/// The channel of the archive, for a person who can see it.
async fn imported_channel(t: &Team) -> Option<String> {
    let all = t.ada.get("/v1/channels").await.ok();
    let found = list(&all, "/data")
        .into_iter()
        .find(|channel| channel["name"] == "plans");
    found.map(|channel| id(&channel))
}

#[tokio::test]
async fn an_export_of_discord_becomes_a_private_channel_with_threads_by_day() {
    let t = unlimited_team().await;
    let report = imported(&t.ada, &archive()).await;
    sums(&report);
    let n = &report["kinds"];
    assert_eq!(number(n, "/people/imported"), 3);
    assert_eq!(
        n["messages"],
        json!({"read": 7, "imported": 6, "existing": 0, "merged": 0, "left_out": 1})
    );
    assert_eq!(
        (number(n, "/files/imported"), number(n, "/files/left_out")),
        (1, 1)
    );
    let channel = imported_channel(&t).await.unwrap();
    assert_eq!(
        t.ada.get(&format!("/v1/channels/{channel}")).await.ok()["kind"],
        "private"
    );
    t.bo.get(&format!("/v1/channels/{channel}"))
        .await
        .refused(404);
    let all = messages(&t.ada, &channel).await;
    let of = |content: &str| with_content(&all, content);
    let (hello, thanks) = (of("Hello"), of("Thanks"));
    assert!(text(&hello, "/content").starts_with("Hello @user"));
    assert_eq!(list(&hello, "/mentions").len(), 1);
    assert!(text(&hello, "/content").contains("(<https://cdn.discordapp.com/2/lost.png>)"));
    assert_eq!(hello["created_at"], "2021-05-03T10:00:00.000Z");
    assert_eq!(hello["reactions"][0]["emoji"], "👍");
    t.ada
        .get(&text(&hello, "/attachments/0/url"))
        .await
        .ok_text("The notes");
    assert_eq!(thanks["thread_id"], hello["thread_id"], "the same day");
    assert_eq!(thanks["edited_at"], "2021-05-03T10:00:05.000Z");
    assert_ne!(of("The next day")["thread_id"], hello["thread_id"]);
    let fair = of("Let us plan");
    assert_eq!(of("In the thread")["thread_id"], fair["thread_id"]);
    let titles: Vec<Value> = threads(&t.ada, &channel)
        .await
        .iter()
        .map(|thread| thread["title"].clone())
        .collect();
    assert!(titles.contains(&json!("The fair")), "{titles:?}");
    let built = of("[Built](<https://ci.example.com/1>)");
    assert_eq!(built["author"]["type"], "bot");
    assert!(text(&built, "/content").contains("**To** prod"));
    // Again: nothing new.
    let again = imported(&t.ada, &archive()).await;
    sums(&again);
    assert_eq!(number(&again, "/kinds/messages/imported"), 0);
    assert_eq!(number(&again, "/kinds/messages/existing"), 6);
}

#[tokio::test]
async fn a_stated_time_counts_more_than_that_of_an_id() {
    let t = unlimited_team().await;
    let guild = json!({"id": "42", "name": "Guild"});
    let at = |day: u32| json!({"timestamp": format!("2021-05-0{day}T10:00:00.000+00:00")});
    let plans = json!({"guild": guild, "channel": {"id": "1", "type": "GuildTextChat", "name": "plans"}, "messages": [
        message("101", "7", "First", at(3)), message("102", "7", "A thread begins", at(4))]});
    let thread = json!({"guild": guild,
        "channel": {"id": "102", "type": "GuildPublicThread", "categoryId": "1", "category": "plans", "name": "Fair"},
        "messages": [message("103", "8", "In the thread", at(5))]});
    let archive = zipped(&[
        ("plans.json", plans.to_string().into_bytes()),
        ("thread.json", thread.to_string().into_bytes()),
    ]);
    let report = imported(&t.ada, &archive).await;
    assert_eq!(number(&report, "/kinds/messages/imported"), 3, "{report}");
    let channel = imported_channel(&t).await.unwrap();
    let all = messages(&t.ada, &channel).await;
    assert_eq!(all.len(), 3, "{all:?}");
    let first = with_content(&all, "First");
    assert_eq!(first["created_at"], "2021-05-03T10:00:00.000Z");
    let reply = with_content(&all, "In the thread");
    let root = with_content(&all, "A thread begins");
    assert_eq!(reply["thread_id"], root["thread_id"]);
}

#[tokio::test]
async fn only_a_channel_without_permissions_can_be_made_public() {
    let t = unlimited_team().await;
    let import = ready(&t.ada, &archive()).await;
    let path = format!("/v1/imports/{import}");
    let preview = t.ada.get(&format!("{path}/preview")).await.ok();
    assert_eq!(preview["channels"][0]["kind"], "private");
    let choice = json!({"channels": {plans(): "public"}});
    t.ada.patch(&path, choice).await.ok();
    t.ada.act(&format!("{path}/start")).await.is(202);
    state(&t.ada, &import, "done").await;
    let channel = imported_channel(&t).await.unwrap();
    let shown = t.bo.get(&format!("/v1/channels/{channel}")).await.ok();
    assert_eq!(shown["kind"], "public");
    let of_slack = ready(&t.ada, &export(&[])).await;
    let path = format!("/v1/imports/{of_slack}");
    for key in ["G1", "C1"] {
        let choice = json!({"channels": {key: "public"}});
        t.ada.patch(&path, choice).await.refused(422);
    }
    // Chosen before the archive is read.
    let early = json!({"options": {"channels": {"G1": "public", "D1": "public"}}});
    let import = id(&t.ada.post("/v1/imports", early).await.is(201));
    upload(&t.ada, &import, &export(&[])).await.ok();
    state(&t.ada, &import, "ready").await;
    t.ada
        .act(&format!("/v1/imports/{import}/start"))
        .await
        .is(202);
    state(&t.ada, &import, "done").await;
    for word in ["hidden", "between"] {
        let found = t.bo.get(&format!("/v1/search?q={word}")).await.ok();
        assert_eq!(list(&found, "/data").len(), 0, "{word}");
    }
}
