//! Bots with keys: programs act as bots, in the channels that these are in, and nowhere else.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    emoji::PNG,
    support::{Person, Team, id, list, team, text, visitor},
};

/// A bot, and a program with its key.
struct Robot {
    id: String,
    key_id: String,
    program: Person,
}

async fn robot(t: &Team, name: &str, channels: &[&str]) -> Robot {
    let form = json!({"name": name, "channel_ids": channels});
    let bot = id(&t.ada.post("/v1/bots", form).await.is(201));
    let keys = format!("/v1/bots/{bot}/keys");
    let key = t.ada.post(&keys, json!({"name": "CI"})).await.is(201);
    let secret = text(&key, "/key");
    assert!(secret.starts_with("ov_"), "{secret}");
    Robot {
        key_id: id(&key),
        program: visitor(&t.app.base).with_key(&secret),
        id: bot,
    }
}

async fn threads(by: &Person, channel: &str) -> Vec<Value> {
    let path = format!("/v1/channels/{channel}/threads");
    list(&by.get(&path).await.ok(), "/data").clone()
}

fn start(channel: &str) -> String {
    format!("/v1/channels/{channel}/threads")
}

#[tokio::test]
async fn a_bot_posts_edits_reacts_and_deletes_its_own_messages() {
    let t = team().await;
    let bot = robot(&t, "Deploy", &[&t.general]).await;
    let form = json!({"content": "Deploying for @bo and @vibe", "client_id": "one"});
    let made = bot
        .program
        .post(&start(&t.general), form.clone())
        .await
        .is(201);
    let message = text(&made, "/message/id");
    assert_eq!(made["message"]["author"]["type"], "bot");
    assert_eq!(made["message"]["author"]["id"], json!(bot.id));
    // The mention of a person counts, and that of an agent is text.
    let mentions = list(&made["message"], "/mentions").clone();
    assert_eq!(mentions.len(), 1);
    assert_eq!(mentions[0]["id"], json!(t.bo.id));
    assert_eq!(made["tasks"], json!([]));
    let again = bot.program.post(&start(&t.general), form).await.is(200);
    assert_eq!(again["message"]["id"], json!(message));
    let thread = text(&made, "/thread/id");
    let reply = bot
        .program
        .post(
            &format!("/v1/threads/{thread}/messages"),
            json!({"content": "Done"}),
        )
        .await
        .is(201);
    assert_eq!(reply["message"]["thread_id"], json!(thread));
    let path = format!("/v1/messages/{message}");
    let edited = bot
        .program
        .patch(&path, json!({"content": "Deployed, @vibe"}))
        .await
        .is(200);
    assert_eq!(edited["content"], "Deployed, @vibe");
    assert_eq!(edited["mentions"], json!([]));
    let own = format!("{path}/reactions/%F0%9F%91%8D");
    let reacted = bot.program.put(&own, json!({})).await.is(200);
    assert_eq!(reacted["reactions"][0]["bot_ids"], json!([bot.id]));
    assert_eq!(reacted["reactions"][0]["user_ids"], json!([]));
    let reacted = bot.program.delete(&own).await.is(200);
    assert_eq!(reacted["reactions"], json!([]));
    let read = bot
        .program
        .get(&format!("/v1/threads/{thread}/messages"))
        .await
        .is(200);
    assert_eq!(list(&read, "/data").len(), 2);
    // Messages of people are not its own.
    let theirs = t.bo.thread(&t.general, "From Bo").await;
    let theirs =
        t.bo.get(&format!("/v1/threads/{theirs}/messages"))
            .await
            .ok();
    let path_of_theirs = format!("/v1/messages/{}", text(&theirs, "/data/0/id"));
    bot.program
        .patch(&path_of_theirs, json!({"content": "x"}))
        .await
        .is(403);
    bot.program.delete(&path_of_theirs).await.is(403);
    bot.program.delete(&path).await.is(200);
    assert!(
        t.ada.get("/v1/bots").await.ok()["data"][0]["last_used_at"].is_string(),
        "the bot was used"
    );
}

#[tokio::test]
async fn a_bot_uploads_files_for_its_messages() {
    let t = team().await;
    let bot = robot(&t, "Deploy", &[&t.general]).await;
    let body = "--x\r\ncontent-disposition: form-data; name=\"file\"; filename=\"log.txt\"\r\n\r\nall green\r\n--x--\r\n";
    let headers = [("content-type", "multipart/form-data; boundary=x")];
    let reply = bot
        .program
        .send(Method::POST, "/v1/files", &headers, Some(body.into()))
        .await;
    let file = id(&reply.is(201));
    let made = bot
        .program
        .post(
            &start(&t.general),
            json!({"content": "", "attachments": [file]}),
        )
        .await
        .is(201);
    assert_eq!(made["message"]["attachments"][0]["id"], json!(file));
    let read = t.bo.get(&format!("/v1/files/{file}")).await;
    assert_eq!((read.status, read.text.as_str()), (200, "all green"));
}

#[tokio::test]
async fn a_bot_sees_and_writes_only_the_channels_that_it_is_in() {
    let t = team().await;
    let bot = robot(&t, "Deploy", &[]).await;
    // Not even public channels.
    bot.program.get(&start(&t.general)).await.is(404);
    bot.program
        .post(&start(&t.general), json!({"content": "x"}))
        .await
        .is(404);
    let thread = t.bo.thread(&t.general, "From Bo").await;
    let messages = format!("/v1/threads/{thread}/messages");
    bot.program.get(&messages).await.is(404);
    let first = t.bo.get(&messages).await.ok();
    let message = format!("/v1/messages/{}", text(&first, "/data/0/id"));
    bot.program.get(&message).await.is(404);
    bot.program
        .put(&format!("{message}/reactions/x"), json!({}))
        .await
        .is(404);
    // Everyone who can add people can add it, and remove it.
    let private = id(&t
        .bo
        .post("/v1/channels", json!({"name": "ops", "private": true}))
        .await
        .is(201));
    let place = format!("/v1/channels/{private}/bots/{}", bot.id);
    t.ada.put(&place, json!({})).await.is(404);
    let added = t.bo.put(&place, json!({})).await.is(200);
    assert_eq!(added["channel_ids"], json!([private]));
    bot.program
        .post(&start(&private), json!({"content": "hello"}))
        .await
        .is(201);
    assert_eq!(threads(&t.bo, &private).await.len(), 1);
    // Others do not see that it is there.
    let seen = t.ada.get(&format!("/v1/bots/{}", bot.id)).await.ok();
    assert_eq!(seen["channel_ids"], json!([]));
    t.bo.delete(&place).await.is(204);
    t.bo.delete(&place).await.is(404);
    bot.program
        .post(&start(&private), json!({"content": "x"}))
        .await
        .is(404);
    // A direct channel has no bots.
    let direct =
        t.bo.post("/v1/direct", json!({"member_ids": [t.ada.id]}))
            .await;
    let direct = id(&direct.is(201));
    let path = format!("/v1/channels/{direct}/bots/{}", bot.id);
    assert!((400..500).contains(&t.bo.put(&path, json!({})).await.status));
}

#[tokio::test]
async fn an_admin_replaces_the_channels_of_a_bot_that_the_admin_can_read() {
    let t = team().await;
    let bot = robot(&t, "Deploy", &[&t.general]).await;
    let hidden = t.bo.private_channel("hidden", &[]).await;
    let place = format!("/v1/channels/{hidden}/bots/{}", bot.id);
    t.bo.put(&place, json!({})).await.is(200);
    let ops = id(&t
        .ada
        .post("/v1/channels", json!({"name": "ops"}))
        .await
        .is(201));
    let path = format!("/v1/bots/{}", bot.id);
    let form = json!({"channel_ids": [ops]});
    t.bo.patch(&path, form.clone()).await.is(403);
    let changed = t.ada.patch(&path, form).await.is(200);
    assert_eq!(changed["channel_ids"], json!([ops]));
    let post = json!({"content": "hello"});
    for (channel, status) in [(&ops, 201), (&hidden, 201), (&t.general, 404)] {
        let posted = bot.program.post(&start(channel), post.clone()).await;
        assert_eq!(posted.status, status, "{channel}");
    }
    // A channel that the admin cannot read is like one that does not exist, and nothing changes.
    let form = json!({"channel_ids": [hidden], "about": "Deploys."});
    t.ada.patch(&path, form).await.is(404);
    // A conflict shows the whole bot.
    let reply = t.ada.patch_if(&path, "1", json!({})).await.is(409);
    let current = &reply["error"]["current"];
    assert_eq!(
        (&current["channel_ids"], &current["about"]),
        (&json!([ops]), &Value::Null)
    );
}

#[tokio::test]
async fn routes_that_are_not_open_to_bots_refuse_their_keys() {
    let t = team().await;
    let bot = robot(&t, "Deploy", &[&t.general]).await;
    let document = visitor(&t.app.base).get("/openapi.json").await.is(200);
    let open = [
        "GET /v1/channels/{id}/threads",
        "POST /v1/channels/{id}/threads",
        "GET /v1/threads/{id}/messages",
        "POST /v1/threads/{id}/messages",
        "GET /v1/messages/{id}",
        "PATCH /v1/messages/{id}",
        "DELETE /v1/messages/{id}",
        "PUT /v1/messages/{id}/reactions/{emoji}",
        "DELETE /v1/messages/{id}/reactions/{emoji}",
        "POST /v1/files",
        "GET /v1/files/{id}",
    ];
    let (mut refused, mut wrong) = (0, Vec::new());
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let route = format!("{} {path}", method.to_uppercase());
            let is_public = operation["security"] == json!([{}]);
            if is_public
                || !path.starts_with("/v1/")
                || path == "/v1/ws"
                || open.contains(&route.as_str())
            {
                continue;
            }
            let path = path.replace(['{', '}'], "");
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let headers = [("content-type", "application/json")];
            let body = (method != Method::GET).then(|| b"{}".to_vec());
            let reply = bot.program.send(method, &path, &headers, body).await;
            refused += 1;
            if reply.status != 403 || !reply.text.contains("not_for_bots") {
                wrong.push(format!("{route}: {} {}", reply.status, reply.text));
            }
        }
    }
    assert!(refused > 150, "{refused}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_bot_has_at_most_five_keys_and_each_ends_at_once() {
    let t = team().await;
    let bot = robot(&t, "Deploy", &[&t.general]).await;
    let keys = format!("/v1/bots/{}/keys", bot.id);
    t.bo.post(&keys, json!({"name": "mine"})).await.is(403);
    for n in 2..=5 {
        t.ada
            .post(&keys, json!({"name": format!("Key {n}")}))
            .await
            .is(201);
    }
    t.ada.post(&keys, json!({"name": "Key 6"})).await.is(409);
    let shown = t.ada.get(&format!("/v1/bots/{}", bot.id)).await.ok();
    assert_eq!(list(&shown, "/keys").len(), 5);
    assert!(!shown.to_string().contains("ov_"), "{shown}");
    let shown = t.bo.get(&format!("/v1/bots/{}", bot.id)).await.ok();
    assert_eq!(shown["keys"], json!([]));
    let post = json!({"content": "x"});
    bot.program
        .post(&start(&t.general), post.clone())
        .await
        .is(201);
    // A paused bot posts nothing.
    let path = format!("/v1/bots/{}", bot.id);
    t.ada
        .patch(&path, json!({"status": "paused"}))
        .await
        .is(200);
    let reply = bot.program.post(&start(&t.general), post.clone()).await;
    assert_eq!(reply.status, 403);
    assert!(reply.text.contains("bot_paused"), "{}", reply.text);
    t.ada
        .patch(&path, json!({"status": "active"}))
        .await
        .is(200);
    bot.program
        .post(&start(&t.general), post.clone())
        .await
        .is(201);
    t.ada
        .delete(&format!("{keys}/{}", bot.key_id))
        .await
        .is(204);
    t.ada
        .delete(&format!("{keys}/{}", bot.key_id))
        .await
        .is(404);
    bot.program.post(&start(&t.general), post).await.is(401);
}

#[tokio::test]
async fn a_deleted_bot_leaves_its_messages_and_their_name() {
    let t = team().await;
    let bot = robot(&t, "Deploy", &[&t.general]).await;
    bot.program
        .post(&start(&t.general), json!({"content": "kept"}))
        .await
        .is(201);
    let path = format!("/v1/bots/{}", bot.id);
    t.bo.delete(&path).await.is(403);
    t.ada.delete(&path).await.is(204);
    t.ada.get(&path).await.is(404);
    bot.program
        .post(&start(&t.general), json!({"content": "x"}))
        .await
        .is(401);
    let root = &threads(&t.ada, &t.general).await[0]["root_message"];
    assert_eq!(root["content"], "kept");
    assert_eq!(root["author"]["name"], "Deploy");
    // The name and the handle are free again.
    let made = t
        .ada
        .post("/v1/bots", json!({"name": "Deploy"}))
        .await
        .is(201);
    assert_eq!(made["handle"], "deploy");
    // Wrong forms change nothing.
    t.ada.post("/v1/bots", json!({"name": " "})).await.is(422);
    let long = "x".repeat(501);
    t.ada
        .post("/v1/bots", json!({"name": "Two", "about": long}))
        .await
        .is(422);
    assert_eq!(list(&t.ada.get("/v1/bots").await.ok(), "/data").len(), 1);
}

#[tokio::test]
async fn an_admin_sets_the_picture_of_a_bot() {
    let t = team().await;
    let bot = robot(&t, "Deploy", &[&t.general]).await;
    let path = format!("/v1/bots/{}", bot.id);
    let file = t.ada.upload("deploy.png", PNG).await;
    let url = text(&file, "/url");
    let theirs = t.bo.upload("bo.png", &[PNG, b"other"].concat()).await;
    let form = json!({"avatar_file_id": id(&theirs)});
    t.ada.patch(&path, form).await.refused(404);
    let form = json!({"avatar_file_id": id(&file)});
    t.bo.patch(&path, form.clone()).await.refused(403);
    let mut window = t.bo.socket().await;
    let changed = t.ada.patch(&path, form).await.is(200);
    assert_eq!(changed["avatar_url"], json!(url));
    let event = window.of("bot.updated").await;
    assert_eq!(event["data"]["bot"]["avatar_url"], json!(url));
    assert_eq!(t.bo.get(&url).await.status, 200);
    let sent = json!({"content": "Done"});
    let posted = bot.program.post(&start(&t.general), sent).await;
    let author = &posted.is(201)["message"]["author"];
    assert_eq!(author["avatar_url"], json!(url));
    let words = t.ada.upload("deploy.txt", b"No picture").await;
    let form = json!({"avatar_file_id": id(&words)});
    let error = t.ada.patch(&path, form).await.is(422);
    assert_eq!(error["error"]["param"], "avatar_file_id", "{error}");
    let none = json!({"avatar_file_id": null});
    let changed = t.ada.patch(&path, none).await.is(200);
    assert_eq!(changed["avatar_url"], Value::Null);
    t.ada.get(&url).await.refused(404);
}
