//! Pictures of people.

use serde_json::{Value, json};

use crate::{
    emoji::{GIF, PNG},
    support::{Person, id, team, team_with, text},
};

const PATH: &str = "/v1/auth/me/avatar";

async fn set(who: &Person, file: &Value) -> Value {
    who.put(PATH, json!({"file_id": id(file)})).await.is(200)
}

#[tokio::test]
async fn a_picture_is_announced_and_read_in_all_workspaces_of_its_person() {
    let t = team_with(&[("SIGNUP", "open")]).await;
    let zoe = t.app.founder("Zoe").await;
    let mut window = t.ada.socket().await;
    let file = t.bo.upload("me.png", PNG).await;
    let url = text(&file, "/url");
    t.ada.get(&url).await.refused(404);
    let account = set(&t.bo, &file).await;
    assert_eq!(account["user"]["avatar_url"], url.as_str());
    let event = window.of("member.updated").await;
    assert_eq!(event["data"]["member"]["user_id"], t.bo.id.as_str());
    assert_eq!(event["data"]["member"]["avatar_url"], url.as_str());
    let seen = t.ada.get(&url).await;
    assert_eq!(
        (seen.status, seen.header("content-type").as_deref()),
        (200, Some("image/png"))
    );
    let started = t.bo.start(&t.general, "With a face").await;
    assert_eq!(started["message"]["author"]["avatar_url"], url.as_str());
    // Somebody who shares no workspace cannot read it; once they share one, they can.
    zoe.get(&url).await.refused(404);
    let invite = zoe
        .post("/v1/invites", json!({"role": "member"}))
        .await
        .is(201);
    let accept = format!("/v1/invites/{}/accept", text(&invite, "/token"));
    t.bo.post(&accept, json!({})).await.ok();
    assert_eq!(zoe.get(&url).await.status, 200);
    let (key, _) = zoe.make_key(&["chat:read"]).await;
    assert_eq!(key.get(&url).await.status, 200);
}

#[tokio::test]
async fn a_replaced_or_deleted_picture_is_gone() {
    let t = team().await;
    let (first, second) = (
        t.bo.upload("one.png", PNG).await,
        t.bo.upload("two.png", &[PNG, b"other"].concat()).await,
    );
    set(&t.bo, &first).await;
    set(&t.bo, &first).await;
    assert_eq!(t.ada.get(&text(&first, "/url")).await.status, 200);
    set(&t.bo, &second).await;
    t.bo.get(&text(&first, "/url")).await.refused(404);
    assert_eq!(t.ada.get(&text(&second, "/url")).await.status, 200);
    assert_eq!(
        t.bo.delete(&text(&second, "/url")).await.refused(409),
        "in_use"
    );
    let mut window = t.ada.socket().await;
    for _ in 0..2 {
        let account = t.bo.delete(PATH).await.is(200);
        assert_eq!(account["user"]["avatar_url"], Value::Null);
    }
    let event = window.of("member.updated").await;
    assert_eq!(event["data"]["member"]["avatar_url"], Value::Null);
    t.bo.get(&text(&second, "/url")).await.refused(404);
}

#[tokio::test]
async fn only_a_small_own_picture_that_is_in_no_message_is_accepted() {
    let t = team().await;
    let huge = [&PNG[..16], b"\0\0\x04\x01\0\0\0\x01\x08\x06\0\0\0"].concat();
    let large = [PNG, vec![1; 1 << 20].as_slice()].concat();
    for picture in [
        b"<svg onload='alert(1)'/>".as_slice(),
        b"words",
        GIF,
        &huge,
        &large,
    ] {
        let file = id(&t.bo.upload("me.png", picture).await);
        let refused = t.bo.put(PATH, json!({"file_id": file})).await;
        assert_eq!(refused.refused(422), "invalid_value");
    }
    let theirs = id(&t.ada.upload("ada.png", PNG).await);
    let refused = t.bo.put(PATH, json!({"file_id": theirs})).await;
    assert_eq!(refused.refused(404), "file_not_found");
    let own = id(&t.bo.upload("bo.png", PNG).await);
    let post = json!({"content": "See", "attachments": [own]});
    let threads = format!("/v1/channels/{}/threads", t.general);
    t.bo.post(&threads, post).await.is(201);
    let refused = t.bo.put(PATH, json!({"file_id": own})).await;
    assert_eq!(refused.refused(409), "file_in_use");
    let fresh = id(&t.bo.upload("bo.png", PNG).await);
    let (key, _) = t.bo.make_key(&["chat:write"]).await;
    key.put(PATH, json!({"file_id": fresh})).await.refused(403);
    key.delete(PATH).await.refused(403);
    let account = t.bo.get("/v1/auth/me").await.ok();
    assert_eq!(account["user"]["avatar_url"], Value::Null);
}

#[tokio::test]
async fn the_erasure_of_a_person_deletes_their_picture() {
    let t = team().await;
    let file = t.bo.upload("bo.png", PNG).await;
    set(&t.bo, &file).await;
    assert_eq!(t.ada.get(&text(&file, "/url")).await.status, 200);
    t.ada.erase(&t.bo).await;
    t.ada.get(&text(&file, "/url")).await.refused(404);
}
