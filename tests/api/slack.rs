//! Slack's Web API: programs that were written for Slack work with a key, and get no more than the key allows.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    imports::{export, imported, unlimited_team},
    support::{Person, Reply, Team, id, list, team, text, visitor},
};

/// A program with a key.
struct Program {
    caller: Person,
}

impl Program {
    async fn json(&self, method: &str, args: Value) -> Value {
        let reply = self.caller.post(&format!("/api/{method}"), args).await;
        reply.is(200)
    }

    async fn good(&self, method: &str, args: Value) -> Value {
        let answer = self.json(method, args).await;
        assert_eq!(answer["ok"], true, "{method}: {answer}");
        answer
    }

    async fn refused(&self, method: &str, args: Value, error: &str) {
        let answer = self.json(method, args).await;
        assert_eq!(
            (&answer["ok"], &answer["error"]),
            (&json!(false), &json!(error)),
            "{method}"
        );
    }
}

async fn bot(t: &Team, channels: &[&str]) -> (String, Program) {
    let form = json!({"name": "Deploy", "channel_ids": channels});
    let bot = id(&t.ada.post("/v1/bots", form).await.is(201));
    let key = t
        .ada
        .post(&format!("/v1/bots/{bot}/keys"), json!({"name": "CI"}))
        .await;
    let caller = visitor(&t.app.base).with_key(&text(&key.is(201), "/key"));
    (bot, Program { caller })
}

async fn person(by: &Person) -> Program {
    let (caller, _) = by.make_key(&["chat:read", "chat:write"]).await;
    Program { caller }
}

/// An ID in Slack's form.
fn slack_id(letter: char, id: &str) -> String {
    format!("{letter}{}", id.rsplit('_').next().unwrap().to_uppercase())
}

async fn form(by: &Person, method: &str, key: Option<&str>, body: &str) -> Reply {
    let mut headers = vec![("content-type", "application/x-www-form-urlencoded")];
    let bearer = key.map(|key| format!("Bearer {key}"));
    if let Some(bearer) = &bearer {
        headers.push(("authorization", bearer.as_str()));
    }
    by.send(
        Method::POST,
        &format!("/api/{method}"),
        &headers,
        Some(body.into()),
    )
    .await
}

#[tokio::test]
async fn a_bot_posts_updates_and_deletes_as_in_slack() {
    let t = team().await;
    let (bot, program) = bot(&t, &[&t.general]).await;
    let channel = slack_id('C', &t.general);
    let me = program.good("auth.test", json!({})).await;
    assert_eq!(me["user_id"], json!(slack_id('U', &bot)));
    assert_eq!(me["bot_id"], json!(slack_id('B', &bot)));
    let bo = slack_id('U', &t.bo.id);
    let post = json!({"channel": channel, "text": format!("*Deploying* for <@{bo}>"), "client_msg_id": "one"});
    let posted = program.good("chat.postMessage", post.clone()).await;
    assert_eq!(posted["channel"], json!(channel));
    assert_eq!(
        posted["message"]["text"],
        json!(format!("*Deploying* for <@{bo}>"))
    );
    assert_eq!(posted["message"]["bot_id"], json!(slack_id('B', &bot)));
    let ts = text(&posted, "/ts");
    assert_eq!(
        program.good("chat.postMessage", post).await["ts"],
        json!(ts)
    );
    let threads = t
        .ada
        .get(&format!("/v1/channels/{}/threads", t.general))
        .await
        .ok();
    let root = &threads["data"][0]["root_message"];
    assert_eq!(root["content"], "**Deploying** for @bo");
    assert_eq!(root["mentions"][0]["id"], json!(t.bo.id));
    // By the name of the channel, in a thread, with blocks as JSON text.
    let blocks = r#"[{"type": "section", "text": {"type": "mrkdwn", "text": "_done_"}}]"#;
    let reply =
        json!({"channel": "#general", "thread_ts": ts, "blocks": blocks, "text": "not shown"});
    let reply = program.good("chat.postMessage", reply).await;
    let replies = program
        .good(
            "conversations.replies",
            json!({"channel": channel, "ts": ts}),
        )
        .await;
    let shown = list(&replies, "/messages");
    assert_eq!(shown.len(), 2);
    assert_eq!(
        (&shown[1]["text"], &shown[1]["thread_ts"]),
        (&json!("_done_"), &json!(ts))
    );
    assert_eq!(shown[1]["ts"], reply["ts"]);
    let changed = json!({"channel": channel, "ts": ts, "text": "*Deployed*"});
    program.good("chat.update", changed).await;
    let history = program
        .good("conversations.history", json!({"channel": channel}))
        .await;
    assert_eq!(list(&history, "/messages").len(), 1);
    assert_eq!(history["messages"][0]["text"], "*Deployed*");
    assert_eq!(history["messages"][0]["reply_count"], 1);
    let link = json!({"channel": channel, "message_ts": ts});
    let link = text(&program.good("chat.getPermalink", link).await, "/permalink");
    assert!(link.contains("/t/thread_"), "{link}");
    let own = json!({"channel": channel, "ts": text(&reply, "/ts")});
    program.good("chat.delete", own.clone()).await;
    program.good("chat.delete", own).await;
    for (args, error) in [
        (json!({"channel": channel}), "no_text"),
        (
            json!({"channel": channel, "text": "x", "thread_ts": "1.000001"}),
            "thread_not_found",
        ),
        (json!({"channel": "C123", "text": "x"}), "channel_not_found"),
        (json!({"text": "x"}), "channel_not_found"),
        (json!({"channel": channel, "blocks": "["}), "invalid_blocks"),
    ] {
        program.refused("chat.postMessage", args, error).await;
    }
}

#[tokio::test]
async fn a_bot_sees_only_its_channels_and_no_addresses() {
    let t = team().await;
    let (_, program) = bot(&t, &[]).await;
    let channel = slack_id('C', &t.general);
    let post = json!({"channel": channel, "text": "x"});
    program
        .refused("chat.postMessage", post.clone(), "channel_not_found")
        .await;
    program
        .refused(
            "conversations.history",
            json!({"channel": "general"}),
            "channel_not_found",
        )
        .await;
    program
        .refused(
            "conversations.join",
            json!({"channel": channel}),
            "restricted_action",
        )
        .await;
    let all = json!({"types": "public_channel,private_channel,im,mpim"});
    let seen = program.good("conversations.list", all.clone()).await;
    assert_eq!(seen["channels"], json!([]));
    let users = program.good("users.list", json!({})).await;
    assert_eq!(list(&users, "/members").len(), 3);
    assert!(!users.to_string().contains("email\""), "{users}");
    let email = json!({"email": "bo@example.org"});
    program
        .refused("users.lookupByEmail", email, "users_not_found")
        .await;
    // A message of a person is not its own.
    t.ada
        .put(
            &format!(
                "/v1/channels/{}/bots/{}",
                t.general,
                list(&t.ada.get("/v1/bots").await.ok(), "/data")[0]["id"]
                    .as_str()
                    .unwrap()
            ),
            json!({}),
        )
        .await
        .is(200);
    t.bo.thread(&t.general, "From Bo").await;
    let history = program
        .good("conversations.history", json!({"channel": channel}))
        .await;
    let ts = text(&history, "/messages/0/ts");
    assert_eq!(
        history["messages"][0]["user"],
        json!(slack_id('U', &t.bo.id))
    );
    let theirs = json!({"channel": channel, "ts": ts, "text": "x"});
    program
        .refused("chat.update", theirs.clone(), "cant_update_message")
        .await;
    program
        .refused("chat.delete", theirs, "cant_delete_message")
        .await;
    let seen = program.good("conversations.list", all).await;
    assert_eq!(list(&seen, "/channels").len(), 1);
    assert_eq!(seen["channels"][0]["id"], json!(channel));
}

#[tokio::test]
async fn a_bot_writes_to_people_directly() {
    let t = team().await;
    let (bot, program) = bot(&t, &[]).await;
    let bo = slack_id('U', &t.bo.id);
    let direct = program
        .good(
            "chat.postMessage",
            json!({"channel": bo, "text": "Your build failed"}),
        )
        .await;
    let channel = text(&direct, "/channel");
    assert!(channel.starts_with('D'), "{direct}");
    let opened = program
        .good("conversations.open", json!({"users": bo}))
        .await;
    let opened = &opened["channel"];
    assert_eq!(
        (&opened["id"], &opened["user"]),
        (&json!(channel), &json!(bo))
    );
    assert_eq!(
        (&opened["is_im"], &opened["is_mpim"]),
        (&json!(true), &json!(false))
    );
    let listed = program
        .good("conversations.list", json!({"types": "im"}))
        .await;
    assert_eq!(list(&listed, "/channels").len(), 1);
    // The person sees the bot, an unread message, and an item, and answers.
    let channels = t.bo.get("/v1/channels").await.ok();
    let mut all = list(&channels, "/data").into_iter();
    let shown = all.find(|channel| channel["bot_id"] == json!(bot)).unwrap();
    assert_eq!(
        (&shown["kind"], &shown["member_ids"], &shown["unread_count"]),
        (&json!("direct"), &json!([t.bo.id]), &json!(1))
    );
    let inbox = t.bo.get("/v1/inbox").await.ok();
    assert_eq!(inbox["data"][0]["reason"], "direct");
    let place = text(&shown, "/id");
    t.bo.thread(&place, "Thanks").await;
    let history = program
        .good("conversations.history", json!({"channel": channel}))
        .await;
    assert_eq!(history["messages"][0]["text"], "Thanks");
    // Others do not see it, and nobody removes the bot.
    t.ada.get(&format!("/v1/channels/{place}")).await.is(404);
    let path = format!("/v1/channels/{place}/bots/{bot}");
    assert_eq!(t.bo.delete(&path).await.refused(422), "direct_is_fixed");
    let form = json!({"channel_ids": []});
    t.ada.patch(&format!("/v1/bots/{bot}"), form).await.is(200);
    program
        .good("conversations.info", json!({"channel": channel}))
        .await;
    // With two people, it is a group.
    let users = format!("{bo},{}", slack_id('U', &t.ada.id));
    let group = program
        .good("conversations.open", json!({"users": users}))
        .await;
    assert_eq!(group["channel"]["is_mpim"], true);
    for (types, id) in [("im", &json!(channel)), ("mpim", &group["channel"]["id"])] {
        let listed = program
            .good("conversations.list", json!({"types": types}))
            .await;
        assert_eq!(list(&listed, "/channels").len(), 1, "{types}");
        assert_eq!(&listed["channels"][0]["id"], id);
    }
    program
        .refused(
            "conversations.open",
            json!({"users": slack_id('U', &bot)}),
            "user_not_found",
        )
        .await;
}

#[tokio::test]
async fn a_bot_reads_its_direct_channels_and_writes_only_to_people_who_are_there() {
    let t = team().await;
    let (bot, program) = bot(&t, &[]).await;
    let bo = slack_id('U', &t.bo.id);
    let of_two = program
        .good("conversations.open", json!({"users": bo}))
        .await;
    let users = format!("{bo},{}", slack_id('U', &t.ada.id));
    program
        .good("conversations.open", json!({"users": users}))
        .await;
    t.ada
        .delete(&format!("/v1/members/{}", t.bo.id))
        .await
        .is(204);
    let sent = json!({"channel": of_two["channel"]["id"], "text": "Your build failed"});
    program
        .refused("chat.postMessage", sent, "restricted_action")
        .await;
    program
        .refused("conversations.open", json!({"users": bo}), "user_not_found")
        .await;
    let channels = t.ada.get("/v1/channels").await.ok();
    let mut all = list(&channels, "/data").into_iter();
    let group = all.find(|channel| channel["bot_id"] == json!(bot));
    t.ada.thread(&id(&group.unwrap()), "Are you there?").await;
}

#[tokio::test]
async fn a_person_acts_as_that_person() {
    let t = team().await;
    let program = person(&t.bo).await;
    let me = program.good("auth.test", json!({})).await;
    assert_eq!(me["user_id"], json!(slack_id('U', &t.bo.id)));
    assert_eq!(me.get("bot_id"), None);
    let ada = slack_id('U', &t.ada.id);
    let direct = program
        .good("chat.postMessage", json!({"channel": ada, "text": "hello"}))
        .await;
    assert!(text(&direct, "/channel").starts_with('D'), "{direct}");
    assert_eq!(direct["message"]["user"], json!(slack_id('U', &t.bo.id)));
    let opened = program
        .good("conversations.open", json!({"users": ada}))
        .await;
    assert_eq!(opened["channel"]["id"], direct["channel"]);
    assert_eq!(opened["channel"]["is_im"], true);
    assert_eq!(opened["channel"]["user"], json!(ada));
    let user = program.good("users.info", json!({"user": ada})).await;
    let email = user["user"]["profile"]["email"].clone();
    assert!(email.is_string(), "{user}");
    let found = program
        .good("users.lookupByEmail", json!({"email": email}))
        .await;
    assert_eq!(found["user"]["id"], json!(ada));
    // A private channel of others looks absent.
    let hidden = t
        .ada
        .post("/v1/channels", json!({"name": "secret", "private": true}))
        .await;
    let hidden = slack_id('C', &id(&hidden.is(201)));
    for channel in [hidden.as_str(), "#secret"] {
        program
            .refused(
                "conversations.info",
                json!({"channel": channel}),
                "channel_not_found",
            )
            .await;
    }
    program
        .refused("users.info", json!({"user": "U1"}), "user_not_found")
        .await;
    let members = program
        .good("conversations.members", json!({"channel": "general"}))
        .await;
    assert_eq!(list(&members, "/members").len(), 2);
}

#[tokio::test]
async fn lists_continue_at_their_cursors() {
    let t = team().await;
    let program = person(&t.bo).await;
    for n in 0..3 {
        let channel = json!({"name": format!("more-{n}")});
        t.ada.post("/v1/channels", channel).await.is(201);
        t.bo.thread(&t.general, &format!("Thread {n}")).await;
    }
    for (method, member, args) in [
        ("conversations.list", "channels", json!({})),
        (
            "conversations.history",
            "messages",
            json!({"channel": "general"}),
        ),
        ("users.list", "members", json!({})),
        (
            "conversations.members",
            "members",
            json!({"channel": "general"}),
        ),
    ] {
        let whole = program.good(method, args.clone()).await;
        let (mut found, mut cursor) = (Vec::new(), String::new());
        for _ in 0..10 {
            let mut args = args.clone();
            args["limit"] = 1.into();
            args["cursor"] = cursor.as_str().into();
            let page = program.good(method, args).await;
            found.extend(list(&page, &format!("/{member}")).clone());
            cursor = text(&page, "/response_metadata/next_cursor");
            if cursor.is_empty() {
                break;
            }
        }
        assert_eq!(json!(found), whole[member], "{method}");
        let mut args = args;
        args["cursor"] = "nothing".into();
        program.refused(method, args, "invalid_cursor").await;
    }
    let history = program
        .good("conversations.history", json!({"channel": "general"}))
        .await;
    let middle = text(&history, "/messages/1/ts");
    let after = json!({"channel": "general", "oldest": middle});
    let after = program.good("conversations.history", after).await;
    assert_eq!(list(&after, "/messages").len(), 1);
    let until = json!({"channel": "general", "latest": middle, "inclusive": true});
    let until = program.good("conversations.history", until).await;
    assert_eq!(until["messages"][0]["ts"], json!(middle));
}

#[tokio::test]
async fn the_history_continues_before_its_oldest_message() {
    let t = team().await;
    let program = person(&t.bo).await;
    for n in 0..3 {
        t.bo.thread(&t.general, &format!("Thread {n}")).await;
    }
    let mut found = Vec::new();
    let mut args = json!({"channel": "general", "limit": 1});
    for _ in 0..3 {
        let page = program.good("conversations.history", args.clone()).await;
        let messages = list(&page, "/messages");
        assert_eq!(messages.len(), 1, "{page}");
        found.push(text(&messages[0], "/text"));
        args["latest"] = messages[0]["ts"].clone();
        assert_eq!(page["has_more"], json!(found.len() < 3));
    }
    assert_eq!(found, ["Thread 2", "Thread 1", "Thread 0"]);
}

#[tokio::test]
async fn reactions_go_by_name_or_character() {
    let t = team().await;
    let (_, program) = bot(&t, &[&t.general]).await;
    let posted = program
        .good(
            "chat.postMessage",
            json!({"channel": "general", "text": "x"}),
        )
        .await;
    let at = |name: &str| json!({"channel": "general", "timestamp": posted["ts"], "name": name});
    program.good("reactions.add", at("smile")).await;
    program
        .refused("reactions.add", at("😄"), "already_reacted")
        .await;
    let seen = program.good("reactions.get", at("")).await;
    assert_eq!(seen["message"]["reactions"][0]["name"], "smile");
    assert_eq!(seen["message"]["reactions"][0]["count"], 1);
    program.good("reactions.remove", at("😄")).await;
    program
        .refused("reactions.remove", at("smile"), "no_reaction")
        .await;
    program
        .refused(
            "reactions.add",
            json!({"channel": "general", "timestamp": posted["ts"]}),
            "invalid_name",
        )
        .await;
    program
        .refused("reactions.add", at("no_such_emoji"), "invalid_name")
        .await;
}

#[tokio::test]
async fn a_message_is_pinned_and_unpinned_once() {
    let t = team().await;
    let program = person(&t.bo).await;
    let message = json!({"channel": "general", "text": "The rules"});
    let posted = program.good("chat.postMessage", message).await;
    let at = json!({"channel": "general", "timestamp": posted["ts"]});
    program.refused("pins.remove", at.clone(), "no_pin").await;
    program.good("pins.add", at.clone()).await;
    program
        .refused("pins.add", at.clone(), "already_pinned")
        .await;
    let listed = program.good("pins.list", at.clone()).await;
    assert_eq!(listed["items"][0]["message"]["ts"], posted["ts"]);
    program.good("pins.remove", at).await;
}

#[tokio::test]
async fn keys_and_arguments_come_as_slacks_clients_send_them() {
    let t = team().await;
    let made = json!({"name": "robot", "scopes": ["chat:read", "chat:write"]});
    let key = text(&t.bo.post("/v1/api-keys", made).await.is(201), "/key");
    let nobody = visitor(&t.app.base);
    for prefix in ["", "xoxb-", "xoxp-", "xapp-"] {
        let reply = form(&nobody, "auth.test", Some(&format!("{prefix}{key}")), "").await;
        assert!(reply.header("x-oauth-scopes").is_some());
        assert_eq!(reply.is(200)["ok"], true, "{prefix}");
    }
    // In the form, as older libraries do, and in the query.
    let body = format!("token={key}&channel=general&text=a+%26amp%3B+b");
    let posted = form(&nobody, "chat.postMessage", None, &body).await.is(200);
    assert_eq!(posted["message"]["text"], "a &amp; b", "{posted}");
    let path = format!("/api/users.info?token={key}&user=%40bo");
    assert_eq!(nobody.get(&path).await.is(200)["user"]["name"], "bo");
    for (method, key, body, error) in [
        ("auth.test", None, "", "not_authed"),
        ("auth.test", Some("ov_wrong"), "", "invalid_auth"),
        ("auth.test", None, "token=ov_wrong", "invalid_auth"),
        ("auth.test", None, "token=wrong", "invalid_auth"),
        ("files.upload", Some(key.as_str()), "", "unknown_method"),
        ("views.open", Some(key.as_str()), "", "not_supported"),
        (
            "conversations.list",
            Some(key.as_str()),
            "limit=x",
            "invalid_arguments",
        ),
        (
            "conversations.list",
            Some(key.as_str()),
            "types=x",
            "invalid_arguments",
        ),
    ] {
        let answer = form(&nobody, method, key, body).await.is(200);
        assert_eq!(
            (&answer["ok"], &answer["error"]),
            (&json!(false), &json!(error)),
            "{method} {body}"
        );
    }
    assert_eq!(
        form(&nobody, "api.test", None, "").await.is(200)["ok"],
        true
    );
    // A session is not a key: other sites could make a browser send it.
    let answer = t.bo.get("/api/auth.test").await.is(200);
    assert_eq!(answer["error"], "not_authed");
    let answer = form(&nobody, "usergroups.list", Some(&key), "")
        .await
        .is(200);
    assert_eq!(answer["usergroups"], json!([]));
}

#[tokio::test]
async fn imported_messages_are_in_the_history() {
    let t = unlimited_team().await;
    imported(&t.ada, &export(&[])).await;
    let program = person(&t.bo).await;
    let history = program
        .good("conversations.history", json!({"channel": "general"}))
        .await;
    let mut roots = list(&history, "/messages").into_iter();
    let root = roots.find(|root| text(root, "/text").contains("welcome"));
    let thread = json!({"channel": "general", "ts": root.unwrap()["ts"]});
    let replies = program.good("conversations.replies", thread).await;
    let messages = list(&replies, "/messages");
    assert!(text(&messages[0], "/text").contains("welcome"), "{replies}");
    assert!(text(&messages[1], "/text").contains("Thanks"), "{replies}");
}

impl Program {
    /// Announces a file, and returns the path of its address, and its ID.
    async fn announce(&self, name: &str, length: usize) -> (String, String) {
        let args = json!({"filename": name, "length": length});
        let answer = self.good("files.getUploadURLExternal", args).await;
        let url = text(&answer, "/upload_url");
        let path = &url[url.find("/api/upload/").unwrap()..];
        (path.to_owned(), text(&answer, "/file_id"))
    }
}

async fn send_file(by: &Person, path: &str, body: &str) -> Reply {
    // As Python's standard library sends it.
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    by.send(Method::POST, path, &headers, Some(body.into()))
        .await
}

#[tokio::test]
async fn files_are_uploaded_without_a_key_and_shared_in_a_message() {
    let t = team().await;
    let (bot_id, program) = bot(&t, &[&t.general]).await;
    let nobody = visitor(&t.app.base);
    let (first, file) = program.announce("log.txt", 9).await;
    let sent = send_file(&nobody, &first, "all green").await;
    assert_eq!((sent.status, sent.text.as_str()), (200, "OK - 9"));
    // An address works once.
    let again = send_file(&nobody, &first, "all green").await;
    assert_eq!(again.status, 404, "{}", again.text);
    // A form with the file, as curl sends it.
    let (second, other) = program.announce("two.txt", 3).await;
    let form = "--x\r\ncontent-disposition: form-data; name=\"filename\"; filename=\"t\"\r\n\r\ntwo\r\n--x--\r\n";
    let headers = [("content-type", "multipart/form-data; boundary=x")];
    let sent = nobody
        .send(Method::POST, &second, &headers, Some(form.into()))
        .await;
    assert_eq!(sent.status, 200, "{}", sent.text);
    // Until it is shared, only the bot sees it.
    let theirs = person(&t.bo).await;
    theirs
        .refused("files.info", json!({"file": file}), "file_not_found")
        .await;
    let args = json!({"files": [{"id": file, "title": "Log"}, {"id": other}], "channel_id": slack_id('C', &t.general),
        "initial_comment": "*Done*"});
    let shared = program
        .good("files.completeUploadExternal", args.clone())
        .await;
    assert_eq!(shared["files"][0]["id"], json!(file));
    assert_eq!(shared["files"][0]["name"], "log.txt");
    assert_eq!(shared["files"][0]["user"], json!(slack_id('U', &bot_id)));
    let history = program
        .good("conversations.history", json!({"channel": "general"}))
        .await;
    assert_eq!(history["messages"][0]["text"], "*Done*");
    assert_eq!(list(&history["messages"][0], "/files").len(), 2);
    assert_eq!(history["messages"][0]["files"][1]["name"], "two.txt");
    let info = theirs.good("files.info", json!({"file": file})).await;
    let url = text(&info, "/file/url_private");
    let path = &url[url.find("/v1/files/").unwrap()..];
    for reader in [&t.bo, &program.caller] {
        let read = reader.get(path).await;
        assert_eq!((read.status, read.text.as_str()), (200, "all green"));
    }
    // A file is shared once, and deleted with its message.
    program
        .refused("files.completeUploadExternal", args, "invalid_arguments")
        .await;
    program
        .refused("files.delete", json!({"file": file}), "cant_delete_file")
        .await;
    let (third, unshared) = program.announce("three.txt", 5).await;
    assert_eq!(send_file(&nobody, &third, "three").await.status, 200);
    let kept = json!({"files": [{"id": unshared}]});
    program.good("files.completeUploadExternal", kept).await;
    program
        .good("files.delete", json!({"file": unshared}))
        .await;
    program
        .refused("files.info", json!({"file": unshared}), "file_not_found")
        .await;
}

#[tokio::test]
async fn an_upload_needs_a_valid_address_and_the_announced_size() {
    let t = team().await;
    let (bot_id, program) = bot(&t, &[&t.general]).await;
    let nobody = visitor(&t.app.base);
    let wrong = send_file(&nobody, "/api/upload/wrong", "x").await;
    assert_eq!(wrong.status, 404, "{}", wrong.text);
    for body in ["four!", "fo"] {
        let (path, file) = program.announce("four.txt", 4).await;
        let sent = send_file(&nobody, &path, body).await;
        assert!((400..500).contains(&sent.status), "{body}: {}", sent.text);
        program
            .refused("files.info", json!({"file": file}), "file_not_found")
            .await;
    }
    for args in [
        json!({"filename": "x"}),
        json!({"length": 3}),
        json!({"filename": "x", "length": "x"}),
    ] {
        program
            .refused("files.getUploadURLExternal", args, "invalid_arguments")
            .await;
    }
    program
        .refused(
            "files.getUploadURLExternal",
            json!({"filename": "x", "length": 1_000_000_000}),
            "file_upload_size_restricted",
        )
        .await;
    // Access is checked again when the file arrives.
    let (paused, _) = program.announce("four.txt", 4).await;
    let (late, _) = program.announce("four.txt", 4).await;
    let path = format!("/v1/bots/{bot_id}");
    t.ada
        .patch(&path, json!({"status": "paused"}))
        .await
        .is(200);
    assert_eq!(send_file(&nobody, &paused, "four").await.status, 403);
    t.ada
        .patch(&path, json!({"status": "active"}))
        .await
        .is(200);
    t.app
        .place
        .run(&["update slack_uploads set expires_at = '2020-01-01T00:00:00+00:00'"])
        .await;
    assert_eq!(send_file(&nobody, &late, "four").await.status, 404);
}

#[tokio::test]
async fn methods_that_a_program_asks_for_in_vain_are_counted() {
    let t = unlimited_team().await;
    let (bot, program) = bot(&t, &[&t.general]).await;
    let view = json!({"trigger_id": "x", "view": {}});
    for _ in 0..3 {
        program
            .refused("views.open", view.clone(), "not_supported")
            .await;
    }
    program
        .refused("chat.scheduleMessage", json!({}), "unknown_method")
        .await;
    // Neither a person nor somebody without a key is counted, nor is every name.
    let mine = person(&t.ada).await;
    mine.refused("views.open", view.clone(), "not_supported")
        .await;
    let nobody = Program {
        caller: visitor(&t.app.base),
    };
    nobody.refused("views.open", view, "not_supported").await;
    program
        .refused(&"x".repeat(61), json!({}), "unknown_method")
        .await;
    for n in 0..30 {
        program
            .refused(&format!("made.up{n}"), json!({}), "unknown_method")
            .await;
    }
    let path = format!("/v1/bots/{bot}");
    let shown = t.ada.get(&path).await.ok();
    let asked = list(&shown, "/missing_methods");
    assert_eq!(asked.len(), 20, "{asked:?}");
    assert_eq!(asked[0], json!({"method": "views.open", "count": 3}));
    assert_eq!(
        asked[1],
        json!({"method": "chat.scheduleMessage", "count": 1})
    );
    assert_eq!(t.bo.get(&path).await.ok()["missing_methods"], json!([]));
}

#[tokio::test]
async fn the_user_of_an_agents_message_is_found() {
    let t = team().await;
    let (_, program) = bot(&t, &[&t.general]).await;
    let thread = t.bo.thread(&t.general, "Hello").await;
    let task = t.bo.ask(&thread, "@vibe are you there?").await;
    t.bo.completed(&task).await;
    let history = json!({"channel": "general"});
    let roots = program.good("conversations.history", history).await;
    let replies = json!({"channel": "general", "ts": roots["messages"][0]["ts"]});
    let replies = program.good("conversations.replies", replies).await;
    let reply = list(&replies, "/messages").pop().unwrap();
    for user in [text(&reply, "/user"), "@vibe".to_owned()] {
        let found = program.good("users.info", json!({"user": user})).await;
        assert_eq!(found["user"]["id"], reply["user"], "{found}");
        assert_eq!(found["user"]["name"], "vibe", "{found}");
        assert_eq!(found["user"]["is_bot"], true, "{found}");
    }
}

#[tokio::test]
async fn a_bot_has_only_its_scopes() {
    let t = team().await;
    let (bot_id, program) = bot(&t, &[&t.general]).await;
    let path = format!("/v1/bots/{bot_id}");
    let shown = t.ada.get(&path).await.ok();
    assert_eq!(shown["scopes"], json!(["chat:read", "chat:write"]));
    assert_eq!(shown["show_emails"], false);
    assert_eq!(shown["link_domains"], json!([]));
    let post = json!({"channel": "general", "text": "x"});
    let read = json!({"channel": "general"});
    t.ada
        .patch(&path, json!({"scopes": ["chat:read"]}))
        .await
        .is(200);
    program
        .refused("chat.postMessage", post.clone(), "missing_scope")
        .await;
    let start = format!("/v1/channels/{}/threads", t.general);
    program
        .caller
        .post(&start, json!({"content": "x"}))
        .await
        .is(403);
    program.good("conversations.history", read.clone()).await;
    let reply = form(&program.caller, "auth.test", None, "").await;
    let scopes = reply.header("x-oauth-scopes").unwrap_or_default();
    assert!(
        scopes.contains("channels:history") && !scopes.contains("chat:write"),
        "{scopes}"
    );
    t.ada
        .patch(&path, json!({"scopes": ["chat:write"]}))
        .await
        .is(200);
    program.good("chat.postMessage", post).await;
    program
        .refused("conversations.history", read, "missing_scope")
        .await;
    program.caller.get(&start).await.is(403);
    for wrong in [
        json!({"scopes": []}),
        json!({"scopes": ["workspace:admin"]}),
        json!({"link_domains": ["Example.org"]}),
        json!({"link_domains": vec!["a.example"; 21]}),
    ] {
        t.ada.patch(&path, wrong.clone()).await.is(422);
        let mut made = wrong;
        made["name"] = "Other".into();
        t.ada.post("/v1/bots", made).await.is(422);
    }
    assert_eq!(t.ada.get(&path).await.ok()["scopes"], json!(["chat:write"]));
}

#[tokio::test]
async fn a_bot_sees_addresses_only_if_an_admin_allows_it() {
    let t = team().await;
    let (bot_id, program) = bot(&t, &[]).await;
    let bo = slack_id('U', &t.bo.id);
    let path = format!("/v1/bots/{bot_id}");
    t.bo.patch(&path, json!({"show_emails": true}))
        .await
        .is(403);
    t.ada
        .patch(&path, json!({"show_emails": true}))
        .await
        .is(200);
    let seen = program.good("users.info", json!({"user": bo})).await;
    let email = text(&seen, "/user/profile/email");
    let found = program
        .good("users.lookupByEmail", json!({"email": email}))
        .await;
    assert_eq!(found["user"]["id"], json!(bo));
    let users = program.good("users.list", json!({})).await;
    assert!(users.to_string().contains(&email), "{users}");
    let reply = form(&program.caller, "auth.test", None, "").await;
    assert!(
        reply
            .header("x-oauth-scopes")
            .is_some_and(|scopes| scopes.contains("users:read.email"))
    );
    t.ada
        .patch(&path, json!({"show_emails": false}))
        .await
        .is(200);
    let users = program.good("users.list", json!({})).await;
    assert!(!users.to_string().contains(&email), "{users}");
    program
        .refused(
            "users.lookupByEmail",
            json!({"email": email}),
            "users_not_found",
        )
        .await;
}

#[tokio::test]
async fn an_ephemeral_message_reaches_one_person_and_is_not_stored() {
    let t = team().await;
    let (bot_id, program) = bot(&t, &[&t.general]).await;
    let (mut bo, mut ada) = (t.bo.socket().await, t.ada.socket().await);
    let to = slack_id('U', &t.bo.id);
    let args = json!({"channel": "general", "user": to, "text": "only *you*"});
    let answer = program.good("chat.postEphemeral", args.clone()).await;
    assert!(answer["message_ts"].is_string(), "{answer}");
    let frame = bo.of("ephemeral").await;
    assert_eq!(frame["content"], "only **you**");
    assert_eq!(frame["channel_id"], json!(t.general));
    assert_eq!(frame["thread_id"], Value::Null);
    assert_eq!(frame["bot_id"], json!(bot_id));
    assert_eq!(frame["name"], "Deploy");
    let history = program
        .good("conversations.history", json!({"channel": "general"}))
        .await;
    assert_eq!(history["messages"], json!([]));
    // Ada gets what follows, but not the message.
    t.bo.thread(&t.general, "From Bo").await;
    let seen = ada.settle().await;
    assert!(
        seen.iter().all(|frame| frame["type"] != "ephemeral"),
        "{seen:?}"
    );
    for (user, channel, error) in [
        (to.as_str(), "secret", "channel_not_found"),
        ("U1", "general", "user_not_in_channel"),
        (
            slack_id('U', &bot_id).as_str(),
            "general",
            "user_not_in_channel",
        ),
    ] {
        let args = json!({"channel": channel, "user": user, "text": "x"});
        program.refused("chat.postEphemeral", args, error).await;
    }
}

#[tokio::test]
async fn a_bot_adds_previews_for_links_of_its_domains() {
    let t = team().await;
    let (bot_id, program) = bot(&t, &[&t.general]).await;
    let url = "https://git.example.org/pull/7";
    let thread = t.bo.thread(&t.general, &format!("Look at {url}.")).await;
    let messages = format!("/v1/threads/{thread}/messages");
    let message = text(&t.bo.get(&messages).await.ok(), "/data/0/id");
    let history = program
        .good("conversations.history", json!({"channel": "general"}))
        .await;
    let ts = text(&history, "/messages/0/ts");
    let args = |url: &str| json!({"channel": "general", "ts": ts, "unfurls": {url: {"title": "Fix zebrafinches", "text": "*2* files", "color": "good"}}});
    program
        .refused("chat.unfurl", args(url), "cannot_unfurl_url")
        .await;
    t.ada
        .patch(
            &format!("/v1/bots/{bot_id}"),
            json!({"link_domains": ["example.org"]}),
        )
        .await
        .is(200);
    program.good("chat.unfurl", args(url)).await;
    // Again replaces it.
    program.good("chat.unfurl", args(url)).await;
    let path = format!("/v1/messages/{message}");
    let unfurls = t.ada.get(&path).await.ok()["metadata"]["unfurls"].clone();
    assert_eq!(list(&unfurls, "").len(), 1, "{unfurls}");
    assert_eq!(unfurls[0]["url"], url);
    assert_eq!(unfurls[0]["bot_id"], json!(bot_id));
    let content = text(&unfurls, "/0/content");
    assert!(
        content.contains("Fix zebrafinches") && content.contains("**2** files"),
        "{content}"
    );
    for other in [
        "https://git.example.org/pull/70",
        "https://git.example.org/pull",
        "https://badexample.org/",
    ] {
        program
            .refused("chat.unfurl", args(other), "cannot_unfurl_url")
            .await;
    }
    let none = json!({"channel": "general", "ts": ts, "unfurls": {}});
    program
        .refused("chat.unfurl", none, "missing_unfurls")
        .await;
    person(&t.bo)
        .await
        .refused("chat.unfurl", args(url), "restricted_action")
        .await;
    // Only the author removes it: at once, or with the link.
    t.ada.delete(&format!("{path}/unfurls")).await.is(403);
    let left = t.bo.delete(&format!("{path}/unfurls")).await.is(200);
    assert_eq!(left["metadata"].get("unfurls"), None);
    program.good("chat.unfurl", args(url)).await;
    let edited = t.bo.patch(&path, json!({"content": "Never mind"})).await;
    assert_eq!(edited.is(200)["metadata"].get("unfurls"), None);
    // A preview is deleted with its message.
    t.bo.patch(&path, json!({"content": url})).await.is(200);
    program.good("chat.unfurl", args(url)).await;
    let deleted = t.bo.delete(&path).await.is(200);
    assert_eq!(deleted["metadata"].get("unfurls"), None);
    let places = t.app.place.places_of("Fix zebrafinches").await;
    assert_eq!(places, Vec::<String>::new());
    // Not for messages of programs.
    let own = program
        .good(
            "chat.postMessage",
            json!({"channel": "general", "text": url}),
        )
        .await;
    let own = json!({"channel": "general", "ts": own["ts"], "unfurls": {url: {"text": "x"}}});
    program
        .refused("chat.unfurl", own, "cannot_unfurl_message")
        .await;
}

#[tokio::test]
async fn topics_and_presence_are_as_in_slack() {
    let t = team().await;
    let (bot_id, robot) = bot(&t, &[&t.general]).await;
    let program = person(&t.bo).await;
    let topic = json!({"channel": "general", "topic": "What ships"});
    let changed = program.good("conversations.setTopic", topic.clone()).await;
    assert_eq!(changed["channel"]["topic"]["value"], "What ships");
    let cleared = json!({"channel": "general", "topic": ""});
    let changed = program.good("conversations.setTopic", cleared).await;
    assert_eq!(changed["channel"]["topic"]["value"], "");
    let long = json!({"channel": "general", "topic": "x".repeat(251)});
    program
        .refused("conversations.setTopic", long, "invalid_arguments")
        .await;
    robot
        .refused("conversations.setTopic", topic, "restricted_action")
        .await;
    let presence = async |user: &str| {
        let args = json!({"user": user});
        text(&robot.good("users.getPresence", args).await, "/presence")
    };
    let bo = slack_id('U', &t.bo.id);
    assert_eq!(presence(&bo).await, "away");
    let _window = t.bo.socket().await;
    assert_eq!(presence(&bo).await, "active");
    assert_eq!(presence(&slack_id('U', &bot_id)).await, "active");
    robot
        .refused("users.getPresence", json!({"user": "U1"}), "user_not_found")
        .await;
}

#[tokio::test]
async fn clients_learn_the_names_of_bots() {
    let t = team().await;
    let (bot_id, _) = bot(&t, &[]).await;
    let known = t.bo.get("/v1/snapshot").await.ok()["bots"].clone();
    assert_eq!(
        known,
        json!([{"id": bot_id, "handle": "deploy", "name": "Deploy", "commands": []}])
    );
    let mut window = t.bo.socket().await;
    t.ada
        .patch(&format!("/v1/bots/{bot_id}"), json!({"name": "Release"}))
        .await
        .is(200);
    let renamed = window.of("bot.updated").await;
    assert_eq!(renamed["data"]["bot"]["name"], "Release");
    let commands = json!({"commands": [{"name": "ship"}, {"name": "deploy"}]});
    t.ada
        .patch(&format!("/v1/bots/{bot_id}"), commands)
        .await
        .is(200);
    let named = window.of("bot.updated").await;
    assert_eq!(named["data"]["bot"]["commands"], json!(["deploy", "ship"]));
    let known = t.bo.get("/v1/snapshot").await.ok()["bots"].clone();
    assert_eq!(known[0]["commands"], json!(["deploy", "ship"]));
}
