//! Imports of exports of Zulip.

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use crate::{
    emoji::{PNG, emoji_names},
    imports::{confirm, imported, messages, ready, sums, threads, unlimited_team, with_content},
    support::{id, list, number, text},
};

const AT: f64 = 1_620_036_000.25;

fn packed(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, bytes) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append_data(&mut header, name, bytes.as_slice())
            .unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

fn person(id: i64, name: &str, email: &str) -> Value {
    json!({"id": id, "full_name": name, "email": email, "delivery_email": email, "is_bot": false, "is_active": true})
}

fn said(id: i64, sender: i64, recipient: i64, subject: &str, content: &str, after_s: f64) -> Value {
    json!({"id": id, "sender": sender, "recipient": recipient, "subject": subject, "content": content,
        "date_sent": AT + after_s, "last_edit_time": null})
}

fn archive() -> Vec<u8> {
    let realm = json!({
        "zerver_realm": [{"id": 2, "string_id": "acme", "name": "Acme"}],
        "zerver_userprofile": [person(7, "Una", "una@example.com"), person(8, "Bo", "bo@example.com")],
        "zerver_userprofile_crossrealm": [{"id": 1, "full_name": "Notification Bot", "email": "n@zulip.com", "is_bot": true}],
        "zerver_stream": [
            {"id": 3, "name": "general", "description": "All", "invite_only": false, "date_created": AT - 1000.0},
            {"id": 4, "name": "secret", "description": "", "invite_only": true, "date_created": AT - 1000.0}],
        "zerver_recipient": [
            {"id": 30, "type": 2, "type_id": 3}, {"id": 40, "type": 2, "type_id": 4}, {"id": 80, "type": 1, "type_id": 8}],
        "zerver_subscription": [
            {"id": 1, "user_profile": 7, "recipient": 30, "active": true}, {"id": 2, "user_profile": 8, "recipient": 30, "active": true},
            {"id": 3, "user_profile": 7, "recipient": 40, "active": true}, {"id": 4, "user_profile": 8, "recipient": 40, "active": false}],
        "zerver_reaction": [
            {"id": 1, "message": 100, "user_profile": 8, "emoji_name": "+1", "reaction_type": "unicode_emoji"},
            {"id": 2, "message": 102, "user_profile": 7, "emoji_name": "thumbs_up", "emoji_code": "1f44d", "reaction_type": "unicode_emoji"}],
        "zerver_realmemoji": [
            {"id": 9, "author": 7, "name": "acme", "file_name": "9.png", "deactivated": false},
            {"id": 10, "author": 7, "name": "old", "file_name": "10.png", "deactivated": true}],
        "zerver_of_next_year": {"not": "a table"},
    });
    let first = json!({"zerver_usermessage": [{"id": 1}], "zerver_message": [
        said(100, 7, 30, "Lunch", "Hello @**Bo|8**, see [menu.txt](/user_uploads/2/ab/menu.txt)", 0.0),
        said(101, 8, 30, "Fair", "Who goes?", 10.0),
        said(102, 8, 30, "lunch", "Thanks", 20.0),
        said(103, 7, 40, "Plans", "Hidden words", 30.0),
        said(104, 7, 80, "", "Between us", 40.0)]});
    let second = json!({"zerver_message": [
        said(105, 1, 30, "Fair", "Topic was moved", 50.0),
        said(106, 8, 30, "Fair", "(deleted)", 60.0),
        said(107, 8, 99, "Lost", "In no channel", 70.0)]});
    packed(&[
        ("export/realm.json", realm.to_string().into_bytes()),
        (
            "export/messages-000001.json",
            first.to_string().into_bytes(),
        ),
        (
            "export/messages-000002.json",
            second.to_string().into_bytes(),
        ),
        ("export/uploads/2/ab/menu.txt", b"Soup".to_vec()),
        ("export/avatars/7.png", vec![1; 100]),
        ("export/emoji/2/emoji/images/9.png", PNG.to_vec()),
    ])
}

#[tokio::test]
async fn an_export_of_zulip_becomes_channels_with_a_thread_for_each_topic() {
    let t = unlimited_team().await;
    confirm(&t, &t.bo, "bo@example.com").await;
    let report = imported(&t.ada, &archive()).await;
    sums(&report);
    let n = &report["kinds"];
    assert_eq!(n["emoji"]["imported"], 1, "{report}");
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
        json!({"read": 8, "imported": 6, "existing": 0, "merged": 0, "left_out": 2})
    );
    let all = messages(&t.bo, &t.general).await;
    let of = |content: &str| with_content(&all, content);
    let lunch = of("Hello");
    assert_eq!(lunch["content"], "Hello @bo, see menu.txt");
    assert_eq!(lunch["mentions"][0]["id"], t.bo.id.as_str());
    assert_eq!(lunch["created_at"], "2021-05-03T10:00:00.250Z");
    assert_eq!(lunch["reactions"][0]["emoji"], "👍");
    t.bo.get(&text(&lunch, "/attachments/0/url"))
        .await
        .ok_text("Soup");
    let thanks = of("Thanks");
    assert_eq!(thanks["thread_id"], lunch["thread_id"], "the same topic");
    assert_eq!(thanks["reactions"][0]["emoji"], "👍");
    assert_eq!(thanks["author"]["id"], t.bo.id.as_str());
    assert_eq!(of("Topic was moved")["author"]["type"], "bot");
    let titles: Vec<Value> = threads(&t.bo, &t.general)
        .await
        .iter()
        .map(|thread| thread["title"].clone())
        .collect();
    assert!(titles.contains(&json!("Lunch")), "{titles:?}");
    assert!(titles.contains(&json!("Fair")), "{titles:?}");
    // Bo is no longer subscribed to the private channel, and Ada never was.
    for who in [&t.ada, &t.bo] {
        let found = who.get("/v1/search?q=hidden").await.ok();
        assert_eq!(list(&found, "/data").len(), 0);
    }
    let found = t.bo.get("/v1/search?q=between").await.ok();
    assert_eq!(list(&found, "/data").len(), 1);
    let again = imported(&t.ada, &archive()).await;
    sums(&again);
    assert_eq!(number(&again, "/kinds/messages/imported"), 0);
}

#[tokio::test]
async fn a_tar_file_without_a_realm_has_a_problem() {
    let t = unlimited_team().await;
    let import = ready(&t.ada, &packed(&[("notes.txt", b"Hello".to_vec())])).await;
    let preview = t.ada.get(&format!("/v1/imports/{import}/preview")).await;
    let preview = preview.ok();
    assert_eq!(number(&preview, "/counts/messages"), 0);
    assert!(
        preview["problems"].to_string().contains("realm.json"),
        "{preview}"
    );
    let shown = t.ada.get(&format!("/v1/imports/{import}")).await.ok();
    assert_eq!((id(&shown), &shown["format"]), (import, &json!("zulip")));
}
