//! Custom emoji.

use serde_json::{Value, json};

use crate::support::{
    Person, id, list, sign_up_with_workspace, team, team_with, text, visitor, within,
};

/// A picture of 3 × 2 pixels.
pub const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x03\0\0\0\x02\x08\x06\0\0\0";
pub const GIF: &[u8] = b"GIF89a\x03\0\x02\0\x80\0\0";

pub async fn add_emoji(by: &Person, name: &str, picture: &[u8]) -> Value {
    let file = id(&by.upload("picture", picture).await);
    let form = json!({"name": name, "file_id": file});
    by.post("/v1/emoji", form).await.is(201)
}

/// Names of the emoji that a person sees.
pub async fn emoji_names(by: &Person) -> Vec<String> {
    let all = by.get("/v1/emoji").await.ok();
    let all = list(&all, "/data");
    all.iter().map(|emoji| text(emoji, "/name")).collect()
}

#[tokio::test]
async fn a_member_adds_an_emoji_that_everyone_sees() {
    let t = team().await;
    let mut window = t.ada.socket().await;
    let parrot = add_emoji(&t.bo, "party-parrot", GIF).await;
    assert_eq!(parrot["object"], "emoji");
    assert_eq!(parrot["created_by"], t.bo.id.as_str());
    let updated = window.of("emoji.updated").await;
    assert_eq!(updated["data"]["name"], "party-parrot");
    assert_eq!(updated["data"]["emoji"], parrot);
    add_emoji(&t.ada, "acme", PNG).await;
    let viewer = t.app.join(&t.ada, "Vic", "viewer").await;
    for who in [&t.ada, &t.bo, &viewer] {
        assert_eq!(emoji_names(who).await, ["acme", "party-parrot"]);
        assert_eq!(who.get(&text(&parrot, "/url")).await.status, 200);
    }
    let form = json!({"name": "mine", "file_id": parrot["file_id"]});
    viewer.post("/v1/emoji", form).await.refused(403);
    // The same picture can have two names.
    let form = json!({"name": "bird", "file_id": parrot["file_id"]});
    t.ada.post("/v1/emoji", form).await.is(201);
}

#[tokio::test]
async fn a_guest_sees_emoji_and_not_who_added_them() {
    let t = team().await;
    let acme = add_emoji(&t.bo, "acme", PNG).await;
    let guest = t.app.join_as_guest(&t.ada, "Gia", &["general"]).await;
    let all = guest.get("/v1/emoji").await.ok();
    assert_eq!(all["data"][0]["name"], "acme");
    assert_eq!(all["data"][0]["created_by"], Value::Null);
    assert_eq!(guest.get(&text(&acme, "/url")).await.status, 200);
    let form = json!({"name": "mine", "file_id": acme["file_id"]});
    guest.post("/v1/emoji", form).await.refused(403);
    guest.delete("/v1/emoji?name=acme").await.refused(403);
}

#[tokio::test]
async fn a_name_and_a_picture_are_checked() {
    let t = team().await;
    add_emoji(&t.bo, "acme", PNG).await;
    let own = id(&t.ada.upload("a.png", PNG).await);
    let try_name = async |name: &str| {
        let form = json!({"name": name, "file_id": own});
        t.ada.post("/v1/emoji", form).await
    };
    assert_eq!(try_name("acme").await.refused(409), "name_taken");
    for name in ["wave", "+1", "Acme", "a b", ":acme:", "", "a/../b"] {
        assert_eq!(try_name(name).await.refused(422), "invalid_value", "{name}");
    }
    let huge = [&PNG[..16], b"\0\0\x75\x30\0\0\x75\x30\x08\x06\0\0\0"].concat();
    let large = [PNG, vec![1; 300 << 10].as_slice()].concat();
    for picture in [
        b"<svg onload='alert(1)'/>".as_slice(),
        b"words",
        b"\xff\xd8\xff\xe0\0\x10JFIF",
        b"GIF89a\x80",
        &huge,
        &large,
    ] {
        let file = id(&t.ada.upload("a.png", picture).await);
        let form = json!({"name": "other", "file_id": file});
        let refused = t.ada.post("/v1/emoji", form).await;
        assert_eq!(refused.refused(422), "invalid_value");
    }
    // Only the uploader can show a picture to everyone, and only one that is not in a message.
    let theirs = id(&t.bo.upload("b.png", PNG).await);
    let form = json!({"name": "other", "file_id": theirs});
    let refused = t.ada.post("/v1/emoji", form.clone()).await;
    assert_eq!(refused.refused(404), "file_not_found");
    let post = json!({"content": "See", "attachments": [theirs]});
    let threads = format!("/v1/channels/{}/threads", t.general);
    t.bo.post(&threads, post).await.is(201);
    let refused = t.bo.post("/v1/emoji", form).await;
    assert_eq!(refused.refused(409), "file_in_use");
    assert_eq!(emoji_names(&t.ada).await, ["acme"]);
}

#[tokio::test]
async fn a_reaction_by_name_is_one_with_the_emoji() {
    let t = team().await;
    add_emoji(&t.bo, "party-parrot", GIF).await;
    let thread = t.bo.thread(&t.general, "We did it :party-parrot:").await;
    let message = id(&t.bo.messages(&thread).await[0]);
    let with = |emoji: &str| format!("/v1/messages/{message}/reactions/{emoji}");
    t.bo.put(&with("party-parrot"), json!({})).await.is(200);
    let both = t.ada.put(&with(":party-parrot:"), json!({})).await.is(200);
    assert_eq!(
        both["reactions"],
        json!([{"emoji": ":party-parrot:", "user_ids": [t.bo.id, t.ada.id], "agent_ids": []}])
    );
    assert_eq!(both["content"], "We did it :party-parrot:");
    t.bo.delete(&with("party-parrot")).await.is(200);
    let left = t.ada.delete(&with(":party-parrot:")).await.is(200);
    assert_eq!(left["reactions"], json!([]));
}

#[tokio::test]
async fn an_emoji_is_deleted_by_whoever_added_it_or_by_an_admin() {
    let t = team_with(&[("UPLOAD_ORPHAN_AFTER", "1s")]).await;
    let first = add_emoji(&t.ada, "first", PNG).await;
    let second = add_emoji(&t.bo, "second", GIF).await;
    let named = |name: &str| format!("/v1/emoji?name={name}");
    let refused = t.bo.delete(&named("first")).await.refused(403);
    assert_eq!(refused, "not_yours");
    let mut window = t.bo.socket().await;
    let recorded = t.app.place.count("audit_log").await;
    t.ada.delete(&named("second")).await.is(204);
    assert_eq!(t.app.place.count("audit_log").await, recorded + 1);
    let updated = window.of("emoji.updated").await;
    assert_eq!(updated["data"], json!({"name": "second", "emoji": null}));
    let again = t.ada.delete(&named("second")).await.refused(404);
    assert_eq!(again, "emoji_not_found");
    // Its picture is deleted, and the other one stays.
    let gone = async {
        while t.bo.get(&text(&second, "/url")).await.status != 404 {
            crate::support::pause().await;
        }
    };
    within("the cleanup of files", gone).await;
    assert_eq!(t.bo.get(&text(&first, "/url")).await.status, 200);
    assert_eq!(emoji_names(&t.bo).await, ["first"]);
}

#[tokio::test]
async fn emoji_of_another_workspace_are_not_seen() {
    let t = team_with(&[("SIGNUP", "open")]).await;
    let acme = add_emoji(&t.bo, "acme", PNG).await;
    let eve = sign_up_with_workspace(&t.app.base, "Eve").await;
    assert!(emoji_names(&eve).await.is_empty());
    eve.get(&text(&acme, "/url")).await.refused(404);
    let form = json!({"name": "acme", "file_id": acme["file_id"]});
    eve.post("/v1/emoji", form).await.refused(404);
    eve.delete("/v1/emoji?name=acme").await.refused(404);
    assert_eq!(emoji_names(&t.bo).await, ["acme"]);
}

#[tokio::test]
async fn an_emoji_does_not_name_a_person_who_was_erased() {
    let t = team().await;
    add_emoji(&t.bo, "acme", PNG).await;
    t.ada.erase(&t.bo).await;
    let all = t.ada.get("/v1/emoji").await.ok();
    assert_eq!(all["data"][0]["name"], "acme");
    assert_ne!(all["data"][0]["created_by"], t.bo.id.as_str());
}

#[tokio::test]
async fn programs_for_slack_list_emoji_and_react_with_them() {
    let t = team().await;
    let acme = add_emoji(&t.bo, "acme", PNG).await;
    let form = json!({"name": "Deploy", "channel_ids": [t.general]});
    let bot = id(&t.ada.post("/v1/bots", form).await.is(201));
    let keys = format!("/v1/bots/{bot}/keys");
    let key = t.ada.post(&keys, json!({"name": "CI"})).await.is(201);
    let program = visitor(&t.app.base).with_key(&text(&key, "/key"));
    let all = program.post("/api/emoji.list", json!({})).await.is(200);
    let url = text(&all, "/emoji/acme");
    assert!(url.ends_with(&text(&acme, "/url")), "{url}");
    let posted = json!({"channel": "#general", "text": "Deployed"});
    let posted = program.post("/api/chat.postMessage", posted).await.is(200);
    let own = json!({"channel": posted["channel"], "timestamp": posted["ts"], "name": "acme"});
    let reacted = program.post("/api/reactions.add", own.clone()).await;
    assert_eq!(reacted.is(200)["ok"], true);
    let again = program.post("/api/reactions.add", own.clone()).await;
    assert_eq!(again.is(200)["error"], "already_reacted");
    let seen = program.post("/api/reactions.get", own).await.is(200);
    assert_eq!(seen["message"]["reactions"][0]["name"], "acme");
    // Its key can neither add nor delete one.
    program.get("/v1/emoji").await.refused(403);
    program.delete("/v1/emoji?name=acme").await.refused(403);
}
