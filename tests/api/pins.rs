//! Pinned messages.

use serde_json::{Value, json};

use crate::{
    imports::{export, imported, messages, unlimited_team, with_content},
    support::{Person, id, list, sign_up_with_workspace, team, team_with, text},
};

async fn pinned(by: &Person, channel: &str) -> Vec<String> {
    let all = by.get(&format!("/v1/channels/{channel}/pins")).await.ok();
    let all = list(&all, "/data");
    all.iter()
        .map(|message| text(message, "/content"))
        .collect()
}

#[tokio::test]
async fn people_pin_and_unpin_messages_of_their_channels() {
    let t = team().await;
    let thread = t.bo.thread(&t.general, "First").await;
    let first = id(&t.bo.messages(&thread).await[0]);
    let second = t.ada.thread(&t.general, "Second").await;
    let second = id(&t.ada.messages(&second).await[0]);
    let mut window = t.ada.socket().await;
    let pin = |message: &str| format!("/v1/messages/{message}/pin");
    let done = t.bo.put(&pin(&first), json!({})).await.is(200);
    assert_eq!(done["metadata"]["pinned_by"], t.bo.id.as_str());
    let updated = window.of("message.updated").await;
    assert_eq!(
        updated["data"]["message"]["metadata"]["pinned_by"],
        t.bo.id.as_str()
    );
    t.ada.put(&pin(&second), json!({})).await.is(200);
    // Again: it stays where it is, and with whom.
    let again = t.ada.put(&pin(&first), json!({})).await.is(200);
    assert_eq!(again["metadata"]["pinned_by"], t.bo.id.as_str());
    assert_eq!(pinned(&t.bo, &t.general).await, ["Second", "First"]);
    t.ada.delete(&pin(&second)).await.is(200);
    t.ada.delete(&pin(&second)).await.is(200);
    assert_eq!(pinned(&t.bo, &t.general).await, ["First"]);
    // An edit keeps the pin; a deletion ends it.
    t.bo.patch(
        &format!("/v1/messages/{first}"),
        json!({"content": "Edited"}),
    )
    .await
    .is(200);
    assert_eq!(pinned(&t.bo, &t.general).await, ["Edited"]);
    t.bo.delete(&format!("/v1/messages/{first}")).await;
    assert!(pinned(&t.bo, &t.general).await.is_empty());
    let gone = t.bo.message(&first).await;
    assert_eq!(gone["metadata"]["pinned_by"], Value::Null);
    t.bo.put(&pin(&first), json!({})).await.refused(409);
}

#[tokio::test]
async fn pins_of_private_channels_are_hidden_from_others() {
    let t = team_with(&[("SIGNUP", "open")]).await;
    let secret = t.bo.private_channel("secret", &[]).await;
    let thread = t.bo.thread(&secret, "Hidden words").await;
    let message = id(&t.bo.messages(&thread).await[0]);
    let pin = format!("/v1/messages/{message}/pin");
    t.bo.put(&pin, json!({})).await.is(200);
    let eve = sign_up_with_workspace(&t.app.base, "Eve").await;
    for who in [&t.ada, &eve] {
        let path = format!("/v1/channels/{secret}/pins");
        assert_eq!(who.get(&path).await.refused(404), "channel_not_found");
        let refused = who.put(&pin, json!({})).await.refused(404);
        assert_eq!(refused, "message_not_found");
        who.delete(&pin).await.refused(404);
    }
    let viewer = t.app.join(&t.ada, "Vic", "viewer").await;
    let open = t.bo.thread(&t.general, "Open").await;
    let open = id(&t.bo.messages(&open).await[0]);
    let pin = format!("/v1/messages/{open}/pin");
    viewer.put(&pin, json!({})).await.refused(403);
    t.bo.put(&pin, json!({})).await.is(200);
    assert_eq!(pinned(&viewer, &t.general).await, ["Open"]);
}

#[tokio::test]
async fn a_channel_has_at_most_a_hundred_pins() {
    let t = unlimited_team().await;
    let thread = t.bo.thread(&t.general, "0").await;
    let mut last = String::new();
    for n in 0..101 {
        let message = text(&t.bo.say(&thread, &n.to_string()).await, "/message/id");
        last = format!("/v1/messages/{message}/pin");
        if n < 100 {
            t.bo.put(&last, json!({})).await.is(200);
        }
    }
    let refused = t.bo.put(&last, json!({})).await;
    assert_eq!(refused.refused(422), "invalid_value");
    assert_eq!(pinned(&t.bo, &t.general).await.len(), 100);
}

#[tokio::test]
async fn an_imported_pin_stays_and_an_erased_person_is_not_named() {
    let t = unlimited_team().await;
    let general = json!([
        {"type": "message", "user": "U1", "ts": "1620000001.000100", "text": "The rules", "pinned_to": ["C1"]},
        {"type": "message", "user": "U1", "ts": "1620000002.000100", "text": "Not a rule"}]);
    let archive = export(&[("general/2021-05-03.json", general)]);
    imported(&t.ada, &archive).await;
    assert_eq!(pinned(&t.bo, &t.general).await, ["The rules"]);
    let all = messages(&t.bo, &t.general).await;
    let rules = with_content(&all, "The rules");
    assert_eq!(rules["metadata"]["pinned_by"], t.ada.id.as_str());
    let other = with_content(&all, "Not a rule");
    let pin = format!("/v1/messages/{}/pin", id(&other));
    t.bo.put(&pin, json!({})).await.is(200);
    t.ada.erase(&t.bo).await;
    let shown = t.ada.message(&id(&other)).await;
    let by = text(&shown, "/metadata/pinned_by");
    assert_ne!(by, t.bo.id);
}
