//! Imports of bulk exports of Mattermost.

use serde_json::{Value, json};

use crate::{
    emoji::{PNG, emoji_names},
    imports::{
        confirm, imported, messages, ready, said, sums, unlimited_team, with_content, zipped,
    },
    support::{id, list, number, text},
};

const AT: i64 = 1_620_000_000_000;

fn user(name: &str, email: &str, channels: &[&str]) -> Value {
    let channels: Vec<Value> = channels.iter().map(|name| json!({"name": name})).collect();
    json!({"type": "user", "user": {"username": name, "email": email, "first_name": name.to_uppercase(), "last_name": "",
        "teams": [{"name": "acme", "channels": channels}]}})
}

fn channel(name: &str, kind: &str) -> Value {
    json!({"type": "channel", "channel": {"team": "acme", "name": name, "display_name": name, "type": kind, "header": "A header"}})
}

fn post(channel: &str, user: &str, at: i64, message: &str, more: Value) -> Value {
    let mut post = json!({"team": "acme", "channel": channel, "user": user, "create_at": AT + at, "message": message});
    if let (Some(post), Value::Object(more)) = (post.as_object_mut(), more) {
        post.extend(more);
    }
    json!({"type": "post", "post": post})
}

/// A bulk export with oddities.
fn lines() -> Vec<Value> {
    vec![
        json!({"type": "version", "version": 1}),
        json!({"type": "team", "team": {"name": "acme", "display_name": "Acme", "type": "O"}}),
        channel("general", "O"),
        channel("secret", "P"),
        user("una", "una@example.com", &["general", "secret"]),
        user("bo", "bo@example.com", &["general"]),
        json!({"type": "bot", "bot": {"username": "builder", "display_name": "Builder", "owner": "una"}}),
        json!({"type": "emoji", "emoji": {"name": "acme", "image": "exported_emoji/1/image"}}),
        json!({"type": "emoji", "emoji": {"name": "lost", "image": "exported_emoji/2/image"}}),
        json!({"type": "of_next_year", "of_next_year": {}}),
        post(
            "general",
            "una",
            5000,
            "Hello @bo, see ~secret",
            json!({
                "replies": [
                    {"user": "bo", "create_at": AT + 6000, "message": "Thanks", "edit_at": AT + 7000},
                    {"user": "bo", "create_at": AT + 6500, "message": "Gone", "delete_at": AT + 6600},
                    {"user": "una", "create_at": AT + 6000, "message": "Same moment"},
                    {"user": "una", "create_at": AT + 6000, "message": "Same moment, again"}],
                "reactions": [{"user": "bo", "emoji_name": "+1", "create_at": AT}, {"user": "lost", "emoji_name": "+1", "create_at": AT}],
                "attachments": [{"path": "20210503/teams/notes.txt"}, {"path": "20210503/lost.txt"}],
            }),
        ),
        post(
            "general",
            "una",
            1000,
            "una joined",
            json!({"type": "system_join_channel"}),
        ),
        post(
            "general",
            "una",
            2000,
            "",
            json!({"props": {"from_webhook": "true", "override_username": "Deploys",
            "attachments": [{"title": "Deployed", "title_link": "https://ci.example.com/1", "fields": [{"title": "To", "value": "prod"}]}]}}),
        ),
        post("general", "builder", 3000, "Built", json!({})),
        post("secret", "una", 4000, "Hidden words", json!({})),
        json!({"type": "direct_channel", "direct_channel": {"members": ["una", "bo"]}}),
        json!({"type": "direct_post", "direct_post": {"channel_members": ["bo", "una"], "user": "bo", "create_at": AT, "message": "Between us"}}),
    ]
}

fn export(lines: &[Value], broken: &str) -> Vec<u8> {
    let mut text: Vec<String> = lines.iter().map(Value::to_string).collect();
    text.push(broken.to_owned());
    zipped(&[
        ("import.jsonl", text.join("\n").into_bytes()),
        ("data/20210503/teams/notes.txt", b"The notes".to_vec()),
        ("data/exported_emoji/1/image", PNG.to_vec()),
    ])
}

#[tokio::test]
async fn a_bulk_export_of_mattermost_becomes_people_channels_and_threads() {
    let t = unlimited_team().await;
    confirm(&t, &t.bo, "bo@example.com").await;
    let archive = export(&lines(), "{ this is not JSON");
    let report = imported(&t.ada, &archive).await;
    sums(&report);
    let n = &report["kinds"];
    assert_eq!(
        n["emoji"],
        json!({"read": 2, "imported": 1, "existing": 0, "merged": 0, "left_out": 1})
    );
    assert_eq!(emoji_names(&t.bo).await, ["acme"]);
    assert_eq!(
        n["people"],
        json!({"read": 3, "imported": 2, "existing": 1, "merged": 0, "left_out": 0})
    );
    assert_eq!(
        n["channels"],
        json!({"read": 3, "imported": 2, "existing": 1, "merged": 0, "left_out": 0})
    );
    assert_eq!(
        n["messages"],
        json!({"read": 10, "imported": 8, "existing": 0, "merged": 0, "left_out": 2})
    );
    assert_eq!(
        (number(n, "/files/imported"), number(n, "/files/left_out")),
        (1, 1)
    );
    assert!(
        report["problems"].to_string().contains("line 18"),
        "{report}"
    );
    let all = messages(&t.bo, &t.general).await;
    let of = |content: &str| with_content(&all, content);
    let root = of("Hello");
    assert!(text(&root, "/content").starts_with("Hello @bo, see #secret"));
    assert_eq!(root["mentions"][0]["id"], t.bo.id.as_str());
    assert_eq!(root["reactions"][0]["emoji"], "👍");
    assert_eq!(list(&root, "/reactions/0/user_ids").len(), 2);
    t.bo.get(&text(&root, "/attachments/0/url"))
        .await
        .ok_text("The notes");
    assert!(text(&root, "/content").contains("(lost.txt, not in the export)"));
    let thanks = of("Thanks");
    assert_eq!(thanks["thread_id"], root["thread_id"]);
    assert_eq!(thanks["author"]["id"], t.bo.id.as_str());
    assert_eq!(thanks["edited_at"], "2021-05-03T00:00:07.000Z");
    of("Same moment, again");
    assert_eq!(of("Built")["author"]["name"], "Builder");
    let deployed = of("Deployed");
    assert_eq!(deployed["author"]["name"], "Deploys");
    assert!(text(&deployed, "/content").contains("**To**: prod"));
    // What was private is read only by its members.
    for who in [&t.ada, &t.bo] {
        let found = who.get("/v1/search?q=hidden").await.ok();
        assert_eq!(list(&found, "/data").len(), 0);
    }
    let found = t.bo.get("/v1/search?q=between").await.ok();
    assert_eq!(list(&found, "/data").len(), 1);
    let found = t.ada.get("/v1/search?q=between").await.ok();
    assert_eq!(list(&found, "/data").len(), 0);
    let list = t.ada.get("/v1/imports").await.ok();
    assert_eq!(
        (&list["data"][0]["format"], &list["data"][0]["source"]),
        (&json!("mattermost"), &json!("mattermost:acme"))
    );
}

#[tokio::test]
async fn importing_a_bulk_export_again_adds_only_what_is_new() {
    let t = unlimited_team().await;
    imported(&t.ada, &export(&lines(), "")).await;
    let before = t.app.place.count("messages").await;
    let mut more = lines();
    more.insert(8, post("general", "una", 100, "An earlier one", json!({})));
    let report = imported(&t.ada, &export(&more, "")).await;
    sums(&report);
    let n = &report["kinds"]["messages"];
    assert_eq!((number(n, "/imported"), number(n, "/existing")), (1, 8));
    assert_eq!(t.app.place.count("messages").await, before + 1);
    let said = said(&t.ada, &t.general).await;
    assert_eq!(said[0].1, "An earlier one", "by time: {said:?}");
}

#[tokio::test]
async fn a_chosen_format_is_checked() {
    let t = unlimited_team().await;
    let archive = export(&lines(), "");
    let ready = ready(&t.ada, &archive).await;
    let preview = t
        .ada
        .get(&format!("/v1/imports/{ready}/preview"))
        .await
        .ok();
    let n = &preview["counts"];
    assert_eq!((number(n, "/messages"), number(n, "/left_out")), (8, 2));
    let made = t.ada.post("/v1/imports", json!({"format": "slack"})).await;
    let import = id(&made.is(201));
    let refused = crate::imports::upload(&t.ada, &import, &archive).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text.contains("unknown_archive"), "{}", refused.text);
}
