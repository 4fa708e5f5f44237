//! Imports of a person's chats with models of other products.

use serde_json::{Value, json};

use crate::{
    imports::{messages, state, sums, threads, unlimited_team, upload, with_content, zipped},
    support::{Person, Team, id, list, number, text},
};

/// A part of a chat of `ChatGPT`.
fn node(parent: &str, at: f64, role: &str, parts: &Value) -> Value {
    let message = json!({"author": {"role": role}, "create_time": at, "recipient": "all",
        "content": {"content_type": "multimodal_text", "parts": parts}, "metadata": {"model_slug": "gpt-4o"}});
    json!({"message": message, "parent": parent})
}

/// An export of `ChatGPT` with two chats, a picture, and another version of an answer.
fn export() -> Vec<u8> {
    let at = 1_700_000_000.0;
    let picture =
        json!({"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-abc"});
    let chats = json!([
        {"conversation_id": "c1", "title": "Trip to the lake", "create_time": at, "current_node": "d", "mapping": {
            "root": {"message": null, "parent": null},
            "a": node("root", at, "user", &json!(["Where is this?", picture])),
            "b": node("a", at + 1.0, "assistant", &json!(["On the moon"])),
            "c": node("a", at + 2.0, "assistant", &json!(["At the lake"])),
            "d": node("c", at + 3.0, "user", &json!(["Thanks"]))}},
        {"conversation_id": "c2", "title": null, "create_time": at + 100.0, "current_node": "a", "mapping": {
            "a": node("", at + 100.0, "user", &json!(["Second chat"]))}},
    ]);
    let mut picture = b"\x89PNG\r\n\x1a\n".to_vec();
    picture.extend([0; 64]);
    zipped(&[
        ("conversations.json", chats.to_string().into_bytes()),
        ("user.json", b"{}".to_vec()),
        ("file-abc-photo.png", picture),
    ])
}

/// Opens the chat of a person with the agent of the workspace.
async fn chat(by: &Person) -> String {
    let agent = id(&by.agent("vibe").await);
    let channel = by.post("/v1/direct", json!({"agent_id": agent})).await;
    id(&channel.json())
}

async fn created(by: &Person, channel: &str) -> String {
    let form = json!({"format": "chats", "options": {"channel_id": channel}});
    id(&by.post("/v1/imports", form).await.is(201))
}

async fn imported(by: &Person, channel: &str, archive: &[u8]) -> (String, Value) {
    let import = created(by, channel).await;
    upload(by, &import, archive).await.ok();
    state(by, &import, "ready").await;
    by.act(&format!("/v1/imports/{import}/start")).await.is(202);
    state(by, &import, "done").await;
    let report = by.get(&format!("/v1/imports/{import}/report")).await.ok();
    (import, report)
}

async fn own(by: &Person) -> Vec<String> {
    let found = by.get("/v1/imports?format=chats").await.ok();
    list(&found, "/data").iter().map(id).collect()
}

#[tokio::test]
async fn a_member_imports_chats_that_nobody_else_sees() {
    let t = unlimited_team().await;
    let channel = chat(&t.bo).await;
    let (import, report) = imported(&t.bo, &channel, &export()).await;
    sums(&report);
    assert_eq!(
        report["kinds"]["messages"],
        json!({"read": 6, "imported": 6, "existing": 0, "merged": 0, "left_out": 0})
    );
    assert_eq!(report["kinds"]["files"]["imported"], 2);
    let found = threads(&t.bo, &channel).await;
    let mut titles: Vec<&Value> = found.iter().map(|thread| &thread["title"]).collect();
    titles.sort_by_key(|title| title.is_null());
    let trip = json!("Trip to the lake");
    assert_eq!(titles, [&trip, &Value::Null, &Value::Null]);
    let said = messages(&t.bo, &channel).await;
    let answer = with_content(&said, "At the lake");
    assert_eq!(answer["author"]["type"], "agent");
    assert_eq!(answer["metadata"]["shown_as"]["name"], "gpt-4o · ChatGPT");
    let question = with_content(&said, "Where is this?");
    assert_eq!(question["author"]["id"], json!(t.bo.id));
    assert_eq!(list(&question, "/attachments").len(), 1);
    assert!(number(&question, "/seq") < number(&answer, "/seq"));
    // The same archive again changes nothing.
    let (_, again) = imported(&t.bo, &channel, &export()).await;
    assert_eq!(again["kinds"]["messages"]["existing"], 6);
    assert_eq!(threads(&t.bo, &channel).await.len(), 3);
    // Nobody else sees the imports, and members see no others.
    assert_eq!(own(&t.bo).await.len(), 2);
    assert_eq!(own(&t.ada).await, Vec::<String>::new());
    let all = t.ada.get("/v1/imports").await.ok();
    assert_eq!(list(&all, "/data").len(), 0);
    for path in ["", "/preview", "/report"] {
        let path = format!("/v1/imports/{import}{path}");
        t.ada.get(&path).await.refused(404);
    }
    t.ada
        .delete(&format!("/v1/imports/{import}"))
        .await
        .refused(404);
    t.bo.get("/v1/imports").await.refused(403);
    // An imported chat goes on.
    let trip = found
        .iter()
        .find(|thread| thread["title"].is_string())
        .map(id)
        .unwrap();
    // The other answer is a variant of the chat, which asks the question again.
    let variant = found.iter().find(|thread| thread["variant_of"].is_object());
    let variant = variant.unwrap();
    assert_eq!(variant["variant_of"]["thread_id"], trip.as_str());
    let said = t.bo.contents(&id(variant)).await;
    assert_eq!(said, ["Where is this?", "On the moon"]);
    let task = t.bo.ask(&trip, "And how deep is it?").await;
    t.bo.completed(&task).await;
}

#[tokio::test]
async fn chats_are_undone_by_their_person() {
    let t = unlimited_team().await;
    let channel = chat(&t.bo).await;
    let (import, _) = imported(&t.bo, &channel, &export()).await;
    t.bo.delete(&format!("/v1/imports/{import}")).await.is(202);
    state(&t.bo, &import, "undone").await;
    assert_eq!(threads(&t.bo, &channel).await.len(), 0);
    assert_eq!(t.app.place.count("bindings").await, 0);
}

#[tokio::test]
async fn chats_only_go_to_an_own_chat_with_an_agent() {
    let t: Team = unlimited_team().await;
    let theirs = chat(&t.ada).await;
    let notes = t.bo.post("/v1/direct", json!({"member_ids": []})).await;
    for channel in [theirs, t.general.clone(), id(&notes.json())] {
        let form = json!({"format": "chats", "options": {"channel_id": channel}});
        t.bo.post("/v1/imports", form).await.refused(422);
    }
    let form = json!({"format": "chats"});
    t.bo.post("/v1/imports", form).await.refused(422);
    t.bo.post("/v1/imports", json!({})).await.refused(403);
    let form = json!({"options": {"channel_id": t.general}});
    t.ada.post("/v1/imports", form).await.refused(422);
}

#[tokio::test]
async fn json_of_other_products_is_read_and_the_rest_is_refused() {
    let t = unlimited_team().await;
    let channel = chat(&t.bo).await;
    let web_ui = json!([{"id": "w1", "title": "Soup", "chat": {"history": {"currentId": "2", "messages": {
        "1": {"role": "user", "content": "A recipe for soup?", "parentId": null, "timestamp": 1_700_000_000},
        "2": {"role": "assistant", "content": "Boil water", "parentId": "1", "timestamp": 1_700_000_005, "modelName": "Llama"}}}}}]);
    let libre = json!({"conversationId": "l1", "title": "Bread", "messages": [
        {"messageId": "1", "text": "Bread?", "isCreatedByUser": true, "createdAt": "2023-11-14T22:13:20.000Z"},
        {"messageId": "2", "parentMessageId": "1", "text": "Flour", "isCreatedByUser": false, "sender": "Claude",
         "createdAt": "2023-11-14T22:13:25.000Z"}]});
    for archive in [web_ui, libre] {
        let (_, report) = imported(&t.bo, &channel, archive.to_string().as_bytes()).await;
        assert_eq!(report["kinds"]["messages"]["imported"], 2, "{archive}");
    }
    let said = messages(&t.bo, &channel).await;
    for (content, name) in [
        ("Boil water", "Llama · Open WebUI"),
        ("Flour", "Claude · LibreChat"),
    ] {
        let answer = with_content(&said, content);
        assert_eq!(text(&answer, "/metadata/shown_as/name"), name);
    }
    let import = created(&t.bo, &channel).await;
    let reply = upload(&t.bo, &import, b"{\"a\": 1}").await;
    reply.refused(422);
}
