//! Uploads: type detection, access, serving, and deletion.

use std::path::PathBuf;

use proptest::prelude::*;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::Connection;

use crate::support::{
    Answer, MULTIPART, ModelServer, Person, Reply, Team, TestApp, TestDatabase, TestProcess, id,
    list, multipart, sign_up_with_workspace, team, team_with, text, unknown_id, visitor, within,
};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x03\0\0\0\x02\x08\x06\0\0\0";
const MIB: usize = 1024 * 1024;

async fn send(person: &Person, body: Vec<u8>) -> Reply {
    send_as(person, MULTIPART, body).await
}

async fn send_as(person: &Person, content_type: &str, body: Vec<u8>) -> Reply {
    let headers = [("content-type", content_type)];
    person
        .send(Method::POST, "/v1/files", &headers, Some(body))
        .await
}

async fn try_upload(person: &Person, name: &str, bytes: &[u8]) -> Reply {
    let disposition = format!("name=\"file\"; filename=\"{name}\"");
    send(person, multipart(&[(&disposition, bytes)])).await
}

async fn fetch(person: &Person, file: &Value, headers: &[(&str, &str)]) -> Reply {
    person
        .send(Method::GET, &text(file, "/url"), headers, None)
        .await
}

/// Posts a message with these files. Returns `{message,tasks}`.
async fn post_with(person: &Person, thread: &str, content: &str, files: &[&Value]) -> Reply {
    let files: Vec<String> = files.iter().map(|file| id(file)).collect();
    person
        .post(
            &format!("/v1/threads/{thread}/messages"),
            json!({"content": content, "attachments": files}),
        )
        .await
}

/// Stored uploads: file names on `SQLite`, or IDs of uploads with chunks on `PostgreSQL`.
async fn stored(place: &TestDatabase) -> Vec<String> {
    let Some(url) = &place.postgres else {
        let mut found = Vec::new();
        let mut folders = vec![place.dir.join("data/blobs")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path: PathBuf = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push(path.file_name().unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        return found;
    };
    let mut c = sqlx::PgConnection::connect(url).await.unwrap();
    sqlx::query_scalar("select distinct upload_id::text from blob_chunks")
        .fetch_all(&mut c)
        .await
        .unwrap()
}

/// Waits until this many blobs are stored; in these tests, the cleanup runs four times a second.
async fn until_stored(place: &TestDatabase, count: usize) {
    let wait = async {
        while stored(place).await.len() != count {
            crate::support::pause().await;
        }
    };
    within("the tidy round", wait).await;
}

#[tokio::test]
async fn an_upload_is_served_unchanged_and_sandboxed() {
    let t = team().await;
    let file = t.ada.upload("plan.png", PNG).await;
    assert_eq!(file["object"], "file");
    assert_eq!(file["name"], "plan.png");
    assert_eq!(file["content_type"], "image/png");
    assert_eq!(file["size_bytes"], PNG.len());
    assert_eq!((&file["width"], &file["height"]), (&json!(3), &json!(2)));
    assert_eq!(file["created_by"], t.ada.id.as_str());
    assert_eq!(file["workspace_id"], t.ada.workspace.as_str());
    assert_eq!(file["message_id"], Value::Null);
    let reply = fetch(&t.ada, &file, &[]).await;
    assert_eq!(reply.status, 200);
    for (name, value) in [
        ("content-type", "image/png"),
        ("content-length", "29"),
        ("x-content-type-options", "nosniff"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "private, no-cache"),
        ("accept-ranges", "bytes"),
        (
            "content-disposition",
            "inline; filename=\"plan.png\"; filename*=UTF-8''plan.png",
        ),
    ] {
        assert_eq!(reply.header(name).as_deref(), Some(value), "{name}");
    }
    let policy = reply.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("sandbox; default-src 'none'"),
        "{policy}"
    );
    let path = format!("{}/metadata", text(&file, "/url"));
    let mut metadata = t.ada.get(&path).await.is(200);
    let document = metadata.as_object_mut().unwrap().remove("document");
    let seen = metadata.as_object_mut().unwrap().remove("seen");
    assert_eq!(seen, Some(json!(true)), "the default model sees pictures");
    let fits = metadata.as_object_mut().unwrap().remove("fits");
    assert_eq!(fits, Some(Value::Null));
    assert_eq!(metadata, file);
    let none = json!({"state": "none", "reason": null, "parts": 0});
    assert_eq!(document, Some(none));
    let saved = t
        .ada
        .get(&format!("{}?download=1", text(&file, "/url")))
        .await;
    let disposition = saved.header("content-disposition").unwrap();
    assert!(disposition.starts_with("attachment;"), "{disposition}");
    let head = t
        .ada
        .send(Method::HEAD, &text(&file, "/url"), &[], None)
        .await;
    assert_eq!(
        (head.status, head.header("content-length").as_deref()),
        (200, Some("29"))
    );
}

#[tokio::test]
async fn part_of_a_file_can_be_requested() {
    let t = team().await;
    let file = t.ada.upload("digits.txt", b"0123456789").await;
    for (range, status, body, told) in [
        ("bytes=2-4", 206, "234", Some("bytes 2-4/10")),
        ("bytes=7-", 206, "789", Some("bytes 7-9/10")),
        ("bytes=-3", 206, "789", Some("bytes 7-9/10")),
        ("bytes=0-999", 206, "0123456789", Some("bytes 0-9/10")),
        ("bytes=0-1,4-5", 200, "0123456789", None),
        ("lines=1-2", 200, "0123456789", None),
        ("bytes=x", 200, "0123456789", None),
    ] {
        let reply = fetch(&t.ada, &file, &[("range", range)]).await;
        assert_eq!(
            (reply.status, reply.text.as_str()),
            (status, body),
            "{range}"
        );
        assert_eq!(reply.header("content-range").as_deref(), told, "{range}");
    }
    let beyond = fetch(&t.ada, &file, &[("range", "bytes=10-12")]).await;
    assert_eq!(beyond.status, 416);
    assert_eq!(
        beyond.header("content-range").as_deref(),
        Some("bytes */10")
    );
    let tag = fetch(&t.ada, &file, &[]).await.header("etag").unwrap();
    let part = [("range", "bytes=0-1"), ("if-range", tag.as_str())];
    assert_eq!(fetch(&t.ada, &file, &part).await.status, 206);
    let other = [("range", "bytes=0-1"), ("if-range", "\"other\"")];
    assert_eq!(fetch(&t.ada, &file, &other).await.status, 200);
}

#[tokio::test]
async fn an_empty_file_is_a_file() {
    let t = team().await;
    t.model().script("vibe", [Answer::text("Nothing in it.")]);
    let file = t.ada.upload(".gitkeep", b"").await;
    assert_eq!(
        (&file["name"], &file["size_bytes"], &file["content_type"]),
        (&json!(".gitkeep"), &json!(0), &json!("text/plain"))
    );
    // The same bytes again.
    let second = t.ada.upload("__init__.py", b"").await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let posted = post_with(&t.ada, &thread, "@vibe read it", &[&file, &second]).await;
    t.ada.completed(&text(&posted.is(201), "/tasks/0/id")).await;
    for file in [&file, &second] {
        let whole = fetch(&t.bo, file, &[]).await;
        assert_eq!(whole.header("content-length").as_deref(), Some("0"));
        whole.ok_text("");
        let part = fetch(&t.bo, file, &[("range", "bytes=0-9")]).await;
        assert_eq!(part.status, 416);
    }
    let asked = t.model().asked_once("vibe").await;
    let said = asked.turns().pop().unwrap();
    assert!(said.contains("[attached: .gitkeep, 0 bytes]"), "{said}");
}

#[tokio::test]
async fn a_range_spans_the_chunks_of_a_large_file() {
    let t = team().await;
    let bytes: Vec<u8> = (0..5 * MIB / 2)
        .map(|n| b'a' + u8::try_from(n / 1000 % 26).unwrap())
        .collect();
    let file = t.ada.upload("large.txt", &bytes).await;
    let range = format!("bytes={}-{}", MIB - 3, 2 * MIB + 2);
    let reply = fetch(&t.ada, &file, &[("range", &range)]).await;
    assert_eq!(reply.status, 206);
    assert!(reply.text.as_bytes() == &bytes[MIB - 3..=2 * MIB + 2]);
    assert!(fetch(&t.ada, &file, &[]).await.text.as_bytes() == bytes);
}

#[tokio::test]
async fn an_unchanged_file_is_not_sent_again() {
    let t = team().await;
    let file = t.ada.upload("a.txt", b"words").await;
    let tag = fetch(&t.ada, &file, &[]).await.header("etag").unwrap();
    let again = fetch(&t.ada, &file, &[("if-none-match", &tag)]).await;
    assert_eq!((again.status, again.text.as_str()), (304, ""));
    assert_eq!(again.header("etag"), Some(tag));
    let other = fetch(&t.ada, &file, &[("if-none-match", "\"x\"")]).await;
    assert_eq!(other.status, 200);
    let known = [("if-none-match", "*")];
    fetch(&t.bo, &file, &known).await.refused(404);
}

#[tokio::test]
async fn executable_content_is_served_as_a_text_download() {
    let t = team().await;
    for (name, bytes) in [
        ("cat.png", "<!doctype html><script>alert(1)</script>"),
        (
            "a.svg",
            "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
        ),
        ("a.xml", "<?xml version='1.0'?><a/>"),
        ("a.js", "alert(1)"),
    ] {
        let file = t.ada.upload(name, bytes.as_bytes()).await;
        assert_eq!(file["content_type"], "text/plain", "{name}");
        let reply = fetch(&t.ada, &file, &[]).await;
        assert_eq!(
            reply.header("content-type").as_deref(),
            Some("text/plain; charset=utf-8"),
            "{name}"
        );
        let disposition = reply.header("content-disposition").unwrap();
        assert!(disposition.starts_with("attachment"), "{name}");
        let policy = reply.header("content-security-policy").unwrap();
        assert_eq!(policy, "sandbox; default-src 'none'", "{name}");
    }
    let note = t.ada.upload("note.html.txt", b"Just words").await;
    let reply = fetch(&t.ada, &note, &[]).await;
    assert!(
        reply
            .header("content-disposition")
            .unwrap()
            .starts_with("inline")
    );
}

#[tokio::test]
async fn a_file_name_is_sanitized() {
    let t = team().await;
    for (sent, name) in [
        ("filename=\"../../etc/passwd\"", "passwd"),
        ("filename=\"C:\\\\x\\\\Plan \u{202e}B.pdf\"", "Plan B.pdf"),
        ("filename=\"a%22b%0D%0Ac.txt\"", "a\"b  c.txt"),
        (
            "filename=\"x\"; filename*=UTF-8''%C3%9Cber%20uns.txt",
            "Über uns.txt",
        ),
        ("filename=\"\"", "file"),
    ] {
        let disposition = format!("name=\"file\"; {sent}");
        let file = send(&t.ada, multipart(&[(&disposition, b"x")]))
            .await
            .is(201);
        assert_eq!(file["name"], name, "{sent}");
        assert_eq!(fetch(&t.ada, &file, &[]).await.status, 200, "{sent}");
    }
    let long = t
        .ada
        .upload(&format!("{}.txt", "n".repeat(400)), b"x")
        .await;
    assert_eq!(text(&long, "/name").len(), 200);
    assert!(text(&long, "/name").ends_with("n.txt"));
}

#[tokio::test]
async fn twenty_five_mebibytes_are_accepted_and_one_byte_more_is_rejected_cleanly() {
    let t = team().await;
    let mut bytes = vec![0_u8; 25 * MIB];
    let file = t.ada.upload("zeros", &bytes).await;
    assert_eq!(file["size_bytes"], 25 * MIB);
    assert_eq!(file["content_type"], "application/octet-stream");
    bytes.push(0);
    let refused = try_upload(&t.ada, "zeros", &bytes).await;
    assert_eq!(refused.refused(413), "file_too_large");
    // After the rejection, the same connection can be used for the next request.
    t.ada.get("/v1/auth/me").await.is(200);
    until_stored(&t.app.place, 1).await;
}

#[tokio::test]
async fn the_upload_limit_is_configurable() {
    let t = team_with(&[("UPLOAD_BYTES_MAX", "1KiB")]).await;
    t.ada.upload("a", &[7; 1024]).await;
    let refused = try_upload(&t.ada, "a", &[7; 1025]).await;
    assert_eq!(refused.refused(413), "file_too_large");
}

#[tokio::test]
async fn an_invalid_upload_is_rejected_without_leftovers() {
    let t = team().await;
    let good = multipart(&[("name=\"file\"; filename=\"a\"", b"x")]);
    for (content_type, body, code) in [
        ("application/json", good.clone(), "invalid_multipart"),
        ("multipart/form-data", good.clone(), "invalid_multipart"),
        (
            "multipart/form-data; boundary=other",
            good.clone(),
            "invalid_multipart",
        ),
        (MULTIPART, Vec::new(), "invalid_multipart"),
        (
            MULTIPART,
            multipart(&[("name=\"other\"", b"x")]),
            "invalid_multipart",
        ),
        (
            MULTIPART,
            multipart(&[("name=\"file\"", b"x"), ("name=\"file\"", b"x")]),
            "invalid_multipart",
        ),
        (
            MULTIPART,
            multipart(&[("name=\"client_id\"", b"x")]),
            "invalid_multipart",
        ),
        (
            MULTIPART,
            good[..good.len() - 10].to_vec(),
            "invalid_multipart",
        ),
        (
            MULTIPART,
            [b"--boundary-4711\r\nx: ".to_vec(), vec![b'a'; 4 * MIB]].concat(),
            "invalid_multipart",
        ),
    ] {
        let length = body.len();
        let reply = send_as(&t.ada, content_type, body).await;
        assert_eq!(reply.refused(400), code, "{content_type} {length}");
    }
    let parts: [(&str, &[u8]); 2] = [
        ("name=\"file\"; filename=\"a\"", b"x"),
        ("name=\"client_id\"", &[b'x'; 65]),
    ];
    assert_eq!(
        send(&t.ada, multipart(&parts)).await.refused(422),
        "invalid_value"
    );
    until_stored(&t.app.place, 0).await;
}

#[tokio::test]
async fn permissions_are_checked_before_the_upload_is_read() {
    let t = team().await;
    let body = multipart(&[("name=\"file\"; filename=\"a\"", &[0].repeat(3 * MIB))]);
    send(&visitor(&t.app.base), body.clone()).await.refused(401);
    let eve = t.app.join(&t.ada, "Eve", "viewer").await;
    assert_eq!(send(&eve, body.clone()).await.refused(403), "role_too_low");
    let mut elsewhere = t.ada.clone();
    elsewhere.origin = Some("https://evil.example".to_owned());
    assert_eq!(
        send(&elsewhere, body.clone()).await.refused(403),
        "cross_origin"
    );
    let (reader, _) = t.ada.make_key(&["chat:read"]).await;
    assert_eq!(
        send(&reader, body.clone()).await.refused(403),
        "scope_missing"
    );
    let (writer, _) = t.ada.make_key(&["chat:write"]).await;
    let file = send(&writer, body).await.is(201);
    assert_eq!(
        fetch(&writer, &file, &[]).await.refused(403),
        "scope_missing"
    );
    assert_eq!(fetch(&reader, &file, &[]).await.status, 200);
    assert_eq!(stored(&t.app.place).await.len(), 1);
}

#[tokio::test]
async fn file_permissions_follow_the_message() {
    let t = team_with(&[("SIGNUP", "open")]).await;
    let room = t.ada.private_channel("room", &[&t.bo]).await;
    let eve = t.app.join(&t.ada, "Eve", "viewer").await;
    let zoe = t.app.founder("Zoe").await;
    let file = t.ada.upload("a.txt", b"words").await;
    let url = text(&file, "/url");
    for other in [&t.bo, &eve, &zoe] {
        other.get(&url).await.refused(404);
        other.get(&format!("{url}/metadata")).await.refused(404);
        other.delete(&url).await.refused(404);
    }
    visitor(&t.app.base).get(&url).await.refused(401);
    let thread = t.ada.thread(&room, "Root").await;
    let posted = post_with(&t.ada, &thread, "Here", &[&file]).await.is(201);
    t.bo.get(&url).await.ok_text("words");
    eve.get(&url).await.refused(404);
    zoe.get(&url).await.refused(404);
    let about = t.bo.get(&format!("{url}/metadata")).await.is(200);
    assert_eq!(about["message_id"], posted["message"]["id"]);
    assert_eq!(t.bo.delete(&url).await.refused(403), "not_yours");
    assert_eq!(t.ada.delete(&url).await.refused(409), "in_use");
    // After leaving the channel, a user can no longer read its files.
    let tag = t.bo.get(&url).await.header("etag").unwrap();
    t.bo.act(&format!("/v1/channels/{room}/leave")).await.ok();
    t.bo.get(&url).await.refused(404);
    fetch(&t.bo, &file, &[("if-none-match", &tag)])
        .await
        .refused(404);
    let open = t.ada.upload("b.txt", b"open").await;
    let body = json!({"content": "", "attachments": [id(&open)]});
    t.ada
        .post(&format!("/v1/channels/{}/threads", t.general), body)
        .await
        .is(201);
    eve.get(&text(&open, "/url")).await.ok_text("open");
    zoe.get(&text(&open, "/url")).await.refused(404);
    let bad = "/v1/files/nonsense";
    t.ada.get(bad).await.refused(400);
    t.ada
        .get(&format!("/v1/files/{}", unknown_id("file")))
        .await
        .refused(404);
}

#[tokio::test]
async fn a_message_includes_its_files_everywhere() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let mut socket = t.bo.socket().await;
    let (a, b) = (
        t.ada.upload("a.png", PNG).await,
        t.ada.upload("b.txt", b"b").await,
    );
    let posted = post_with(&t.ada, &thread, "", &[&b, &a]).await.is(201);
    let message = id(&posted["message"]);
    let mut expected = [b.clone(), a.clone()];
    for file in &mut expected {
        file["message_id"] = message.as_str().into();
    }
    let expected = json!(expected);
    assert_eq!(posted["message"]["attachments"], expected);
    let event = socket.of("message.created").await;
    assert_eq!(event["data"]["message"]["attachments"], expected);
    assert_eq!(t.bo.message(&message).await["attachments"], expected);
    assert_eq!(t.bo.messages(&thread).await[1]["attachments"], expected);
    let threads =
        t.bo.get(&format!("/v1/channels/{}/threads", t.general))
            .await
            .ok();
    assert_eq!(threads["data"][0]["last_message"]["attachments"], expected);
    // Attachments are kept when the message is edited, even if the text becomes blank.
    let path = format!("/v1/messages/{message}");
    for content in ["Now with words", ""] {
        let edited = t
            .ada
            .patch(&path, json!({"content": content}))
            .await
            .is(200);
        assert_eq!(edited["attachments"], expected);
        let event = socket.of("message.updated").await;
        assert_eq!(event["data"]["message"]["attachments"], expected);
    }
    let bare = t.ada.tell(&thread, "words").await;
    let blank = t
        .ada
        .patch(&format!("/v1/messages/{bare}"), json!({"content": " "}))
        .await;
    assert_eq!(blank.refused(422), "invalid_value");
    let nothing = json!({"content": "", "attachments": []});
    t.ada
        .post(&format!("/v1/threads/{thread}/messages"), nothing)
        .await
        .refused(422);
}

#[tokio::test]
async fn attachments_can_be_sent_over_the_socket_and_in_a_dive() {
    let t = team().await;
    let root = t.ada.start(&t.general, "Root").await;
    let files = [
        t.ada.upload("a.txt", b"a").await,
        t.ada.upload("b.txt", b"b").await,
        t.ada.upload("c.txt", b"c").await,
    ];
    let mut socket = t.ada.socket().await;
    let request = json!({"type": "message.send", "thread_id": text(&root, "/thread/id"), "content": "",
        "attachments": [id(&files[0])], "client_id": "one"});
    let sent = socket.ack(request.clone()).await;
    assert_eq!(sent["message"]["attachments"][0]["id"], files[0]["id"]);
    assert_eq!(socket.ack(request).await["message"], sent["message"]);
    let request = json!({"type": "message.send", "channel_id": t.general, "content": "", "attachments": [id(&files[1])], "client_id": "two"});
    let sent = socket.ack(request).await;
    assert_eq!(sent["message"]["attachments"][0]["id"], files[1]["id"]);
    let path = format!("/v1/threads/{}/forks", text(&root, "/thread/id"));
    let fork = t
        .ada
        .post(
            &path,
            json!({"message_id": text(&root, "/message/id"), "agent_id": null}),
        )
        .await
        .is(201);
    let path = format!("/v1/forks/{}/messages", text(&fork, "/fork/id"));
    let body = json!({"content": "", "attachments": [id(&files[2])]});
    let said = t.ada.post(&path, body).await.is(201);
    assert_eq!(said["message"]["attachments"][0]["id"], files[2]["id"]);
    t.bo.get(&text(&files[2], "/url")).await.ok_text("c");
}

#[tokio::test]
async fn a_file_can_be_in_only_one_message_of_its_uploader() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let file = t.ada.upload("a.txt", b"a").await;
    let foreign = post_with(&t.bo, &thread, "Mine", &[&file]).await;
    assert_eq!(foreign.refused(404), "file_not_found");
    let twice = post_with(&t.ada, &thread, "Twice", &[&file, &file]).await;
    assert_eq!(twice.refused(422), "invalid_value");
    let unknown = json!({"id": unknown_id("file")});
    let unknown = post_with(&t.ada, &thread, "None", &[&file, &unknown]).await;
    assert_eq!(unknown.refused(404), "file_not_found");
    let wrong = json!({"id": t.ada.id});
    post_with(&t.ada, &thread, "Wrong", &[&wrong])
        .await
        .refused(422);
    assert_eq!(
        t.ada.contents(&thread).await,
        ["Root"],
        "nothing was posted"
    );
    post_with(&t.ada, &thread, "Here", &[&file]).await.is(201);
    let again = post_with(&t.ada, &thread, "Again", &[&file]).await;
    assert_eq!(again.refused(409), "file_in_use");
    let mut many = Vec::new();
    for n in 0..11 {
        many.push(t.ada.upload(&format!("{n}.txt"), b"many").await);
    }
    let all: Vec<&Value> = many.iter().collect();
    let refused = post_with(&t.ada, &thread, "Many", &all).await;
    assert_eq!(refused.refused(422), "too_many_attachments");
    let ten = post_with(&t.ada, &thread, "Ten", &all[..10]).await.is(201);
    assert_eq!(list(&ten, "/message/attachments").len(), 10);
    // The file does not exist in another workspace of the same person.
    let other = t
        .ada
        .post("/v1/workspaces", json!({"name": "Other"}))
        .await
        .is(201);
    let there = t.ada.in_workspace(&id(&other));
    let general = id(&there.channel("general").await);
    let thread = there.thread(&general, "Root").await;
    let refused = post_with(&there, &thread, "Here", &[&many[10]]).await;
    assert_eq!(refused.refused(404), "file_not_found");
}

#[tokio::test]
async fn a_resend_returns_the_first_message_and_its_files() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let parts: [(&str, &[u8]); 2] = [
        ("name=\"file\"; filename=\"a.txt\"", b"one"),
        ("name=\"client_id\"", b"upload-1"),
    ];
    let file = send(&t.ada, multipart(&parts)).await.is(201);
    assert_eq!(send(&t.ada, multipart(&parts)).await.is(200), file);
    let body = json!({"content": "x", "attachments": [id(&file)], "client_id": "post-1"});
    let path = format!("/v1/threads/{thread}/messages");
    let first = t.ada.post(&path, body.clone()).await.is(201);
    assert_eq!(t.ada.post(&path, body).await.is(200), first);
    let reused = json!({"content": "x", "client_id": "upload-1"});
    assert_eq!(
        t.ada.post(&path, reused).await.refused(409),
        "client_id_reused"
    );
    let now = send(&t.ada, multipart(&parts)).await.is(200);
    assert_eq!(now["message_id"], first["message"]["id"]);
    // Once the message is deleted, the same upload creates a new file.
    let message = text(&first, "/message/id");
    t.ada
        .delete(&format!("/v1/messages/{message}"))
        .await
        .is(200);
    assert_ne!(
        send(&t.ada, multipart(&parts)).await.is(201)["id"],
        file["id"]
    );
}

#[tokio::test]
async fn a_resent_upload_gets_the_first_file_although_the_workspace_is_full() {
    let t = team_with(&[("WORKSPACE_BYTES_MAX", "3MiB")]).await;
    let content = vec![b'x'; 2 * MIB];
    let file: (&str, &[u8]) = ("name=\"file\"; filename=\"a\"", &content);
    let named = |client_id: &'static str| ("name=\"client_id\"", client_id.as_bytes());
    let first = send(&t.ada, multipart(&[file, named("first")])).await;
    let first = first.is(201);
    for parts in [[file, named("first")], [named("first"), file]] {
        let again = send(&t.ada, multipart(&parts)).await;
        assert_eq!(again.is(200)["id"], first["id"]);
    }
    let path = format!("/v1/channels/{}/threads", t.general);
    let post = json!({"content": "Posted", "client_id": "posted"});
    t.ada.post(&path, post).await.is(201);
    for (who, client_id, status, code) in [
        (&t.ada, "second", 422, "quota_exceeded"),
        (&t.bo, "first", 422, "quota_exceeded"),
        (&t.ada, "posted", 409, "client_id_reused"),
    ] {
        let rejected = send(who, multipart(&[file, named(client_id)])).await;
        assert_eq!(rejected.refused(status), code, "{client_id}");
    }
    assert_eq!(
        try_upload(&t.bo, "a", &content).await.refused(422),
        "quota_exceeded"
    );
    until_stored(&t.app.place, 1).await;
}

/// A server that deletes unused uploads after a second.
async fn tidy_team() -> Team {
    team_with(&[("UPLOAD_ORPHAN_AFTER", "1s")]).await
}

#[tokio::test]
async fn a_deleted_message_deletes_its_files() {
    let t = tidy_team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let file = t.ada.upload("xyzzy-plugh-4711.txt", b"secret words").await;
    let posted = post_with(&t.ada, &thread, "", &[&file]).await.is(201);
    let message = text(&posted, "/message/id");
    let mut socket = t.bo.socket().await;
    let tombstone = t
        .ada
        .delete(&format!("/v1/messages/{message}"))
        .await
        .is(200);
    assert_eq!(tombstone["attachments"], json!([]));
    let event = socket.of("message.deleted").await;
    assert_eq!(event["data"]["message"]["attachments"], json!([]));
    t.ada.get(&text(&file, "/url")).await.refused(404);
    until_stored(&t.app.place, 0).await;
    assert_eq!(
        t.app.place.places_of("xyzzy-plugh-4711").await,
        Vec::<String>::new()
    );
    for event in t.bo.events().await {
        let files = &event["data"]["message"]["attachments"];
        assert!(files.is_null() || *files == json!([]), "{event}");
    }
}

#[tokio::test]
async fn unattached_uploads_expire_and_attached_ones_are_kept() {
    let t = tidy_team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let used = t.ada.upload("used.txt", b"used").await;
    post_with(&t.ada, &thread, "", &[&used]).await.is(201);
    t.ada.upload("loose.txt", b"loose").await;
    until_stored(&t.app.place, 1).await;
    t.ada.get(&text(&used, "/url")).await.ok_text("used");
}

#[tokio::test]
async fn a_picture_is_kept_while_an_agent_version_uses_it() {
    let t = tidy_team().await;
    let (face, other) = (
        t.ada.upload("face.png", PNG).await,
        t.ada.upload("other.png", &[PNG, b"other"].concat()).await,
    );
    let with = |file: &Value| json!({"avatar": {"file_id": id(file)}});
    let agent = id(&t.ada.make_agent("scout").await);
    let path = format!("/v1/agents/{agent}");
    t.ada.patch(&path, with(&face)).await.is(200);
    t.ada.patch(&path, with(&other)).await.is(200);
    t.ada.upload("loose.txt", b"loose").await;
    until_stored(&t.app.place, 2).await;
    // The file is kept, because an earlier version that uses it can be restored.
    assert_eq!(t.bo.get(&text(&face, "/url")).await.status, 200);
    t.ada.delete(&path).await.is(200);
    t.ada.upload("loose.txt", b"loose again").await;
    until_stored(&t.app.place, 2).await;
    t.ada
        .delete(&format!("{path}?permanent=true"))
        .await
        .is(200);
    until_stored(&t.app.place, 0).await;
    t.bo.get(&text(&face, "/url")).await.refused(404);
}

#[tokio::test]
async fn a_file_with_missing_bytes_is_not_found() {
    let t = team().await;
    if t.app.place.postgres.is_some() {
        // In PostgreSQL, the bytes cannot be missing, because other rows reference their rows.
        return;
    }
    let file = t.ada.upload("a.txt", b"a").await;
    let hash = stored(&t.app.place).await.remove(0);
    let path = t.app.place.dir.join("data/blobs").join(&hash[..2]);
    std::fs::remove_file(path.join(&hash)).unwrap();
    let code = t.ada.get(&text(&file, "/url")).await.refused(404);
    assert_eq!(code, "file_not_found");
}

#[tokio::test]
async fn an_upload_can_be_deleted_before_it_is_attached() {
    let t = tidy_team().await;
    let file = t.ada.upload("a.txt", b"a").await;
    let url = text(&file, "/url");
    assert_eq!(t.ada.delete(&url).await.status, 204);
    t.ada.get(&url).await.refused(404);
    t.ada.delete(&url).await.refused(404);
    until_stored(&t.app.place, 0).await;
}

#[tokio::test]
async fn identical_uploads_are_stored_once_even_concurrently() {
    let t = tidy_team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let kept = t.ada.upload("kept.txt", b"the same").await;
    post_with(&t.ada, &thread, "", &[&kept]).await.is(201);
    // Runs uploads, deletions, and cleanups concurrently.
    let churn = (0..40).map(|n| {
        let ada = t.ada.clone();
        async move {
            let file = ada.upload(&format!("{n}.txt"), b"the other").await;
            if n % 2 == 0 {
                assert_eq!(ada.delete(&text(&file, "/url")).await.status, 204);
                None
            } else {
                ada.get(&text(&file, "/url")).await.ok_text("the other");
                Some(file)
            }
        }
    });
    let loose: Vec<Value> = futures::future::join_all(churn)
        .await
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(loose.len(), 20);
    until_stored(&t.app.place, 1).await;
    t.ada.get(&text(&kept, "/url")).await.ok_text("the same");
    let again = t.bo.upload("again.txt", b"the same").await;
    assert_ne!(again["id"], kept["id"]);
    until_stored(&t.app.place, 1).await;
}

#[tokio::test]
async fn an_interrupted_upload_leaves_nothing() {
    use tokio::io::AsyncWriteExt;
    let t = team().await;
    let address = t.app.base.trim_start_matches("http://").to_owned();
    let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
    let body = multipart(&[("name=\"file\"; filename=\"a\"", &[7].repeat(3 * MIB))]);
    let head = format!(
        "POST /v1/files HTTP/1.1\r\nhost: {address}\r\norigin: {}\r\ncookie: {}\r\n\
         content-type: multipart/form-data; boundary=boundary-4711\r\ncontent-length: {}\r\n\r\n",
        t.app.base,
        t.ada.cookie.clone().unwrap(),
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&body[..2 * MIB]).await.unwrap();
    stream.flush().await.unwrap();
    let begun = async {
        while stored(&t.app.place).await.is_empty() {
            crate::support::pause().await;
        }
    };
    within("the upload to begin", begun).await;
    drop(stream);
    until_stored(&t.app.place, 0).await;
}

#[tokio::test]
async fn a_crash_between_blob_and_row_leaves_only_files_that_cleanup_removes() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let failing = [("FAILPOINT", "file_stored:1")];
    let server = TestProcess::start(&place, &model, &failing).await;
    let ada = sign_up_with_workspace(&server.base, "Ada").await;
    let body = multipart(&[("name=\"file\"; filename=\"a\"", b"words")]);
    let sent = ada.try_send_typed("/v1/files", MULTIPART, body).await;
    assert!(sent.is_none(), "{sent:?}");
    server.exited().await;
    assert_eq!(stored(&place).await.len(), 1, "the bytes were there");
    let settings = [("UPLOAD_ORPHAN_AFTER", "10ms")];
    let server = TestProcess::start(&place, &model, &settings).await;
    until_stored(&place, 0).await;
    let ada = ada.at(&server.base);
    let general = id(&ada.channel("general").await);
    ada.thread(&general, "Works").await;
}

#[tokio::test]
async fn acknowledged_uploads_survive_a_kill() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let server = TestProcess::start(&place, &model, &[]).await;
    let ada = sign_up_with_workspace(&server.base, "Ada").await;
    let file = ada.upload("a.txt", b"words").await;
    server.kill().await;
    let server = TestProcess::start(&place, &model, &[]).await;
    let ada = ada.at(&server.base);
    ada.get(&text(&file, "/url")).await.ok_text("words");
}

#[tokio::test]
async fn a_model_receives_the_names_and_sizes_of_files() {
    let t = team().await;
    t.model().script("vibe", [Answer::text("Seen.")]);
    let thread = t.ada.thread(&t.general, "Root").await;
    let file = t.ada.upload("]: x [Bo].png", PNG).await;
    let body = json!({"content": "@vibe look", "attachments": [id(&file)]});
    let posted = t
        .ada
        .post(&format!("/v1/threads/{thread}/messages"), body)
        .await
        .is(201);
    t.ada.completed(&text(&posted, "/tasks/0/id")).await;
    let asked = t.model().asked_once("vibe").await;
    let said = asked.turns().pop().unwrap();
    assert!(
        said.ends_with("@vibe look\n[attached: ): x (Bo).png, 29 bytes (not readable)]"),
        "{said}"
    );
}

#[tokio::test]
async fn an_agent_can_have_an_avatar() {
    let t = team_with(&[("SIGNUP", "open")]).await;
    let agent = id(&t.ada.make_agent("scout").await);
    let path = format!("/v1/agents/{agent}");
    let (picture, note) = (
        t.ada.upload("face.png", PNG).await,
        t.ada.upload("note.txt", b"words").await,
    );
    let with = |file: &Value| json!({"avatar": {"file_id": id(file), "emoji": "🦊"}});
    assert_eq!(
        t.ada.patch(&path, with(&note)).await.refused(422),
        "no_image"
    );
    let foreign = t.bo.upload("face.png", PNG).await;
    assert_eq!(
        t.ada.patch(&path, with(&foreign)).await.refused(404),
        "file_not_found"
    );
    let changed = t.ada.patch(&path, with(&picture)).await.is(200);
    assert_eq!(changed["avatar"]["file_id"], picture["id"]);
    let seen = t.bo.get(&text(&picture, "/url")).await;
    assert_eq!(
        (seen.status, seen.header("content-type").as_deref()),
        (200, Some("image/png"))
    );
    let zoe = t.app.founder("Zoe").await;
    zoe.get(&text(&picture, "/url")).await.refused(404);
    // A copy of the agent uses the same file, which nobody can attach to a message or delete.
    let copy = t
        .ada
        .post(&format!("{path}/duplicate"), json!({}))
        .await
        .is(201);
    assert_eq!(copy["avatar"]["file_id"], picture["id"]);
    assert_eq!(
        t.ada.delete(&text(&picture, "/url")).await.refused(409),
        "in_use"
    );
    let thread = t.ada.thread(&t.general, "Root").await;
    let refused = post_with(&t.ada, &thread, "x", &[&picture]).await;
    assert_eq!(refused.refused(409), "file_in_use");
    let none = json!({"avatar": {"emoji": "🦊"}});
    t.ada.patch(&path, none).await.is(200);
    t.ada.patch(&path, with(&picture)).await.is(200);
}

#[test]
fn no_upload_causes_a_server_error() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (app, ada) = runtime.block_on(async {
        let app = TestApp::with(&[("RATE_LIMITS", "off")]).await;
        let ada = app.founder("Ada").await;
        (app, ada)
    });
    let pieces = prop::collection::vec(
        prop_oneof![
            Just(b"--boundary-4711".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b"--boundary-4711\r\n".to_vec()),
            Just(b"--boundary-4711--".to_vec()),
            Just(b"content-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n".to_vec()),
            Just(b"content-disposition: form-data; name=\"client_id\"\r\n\r\n".to_vec()),
            Just(
                b"content-disposition: form-data; name=\"file\"; filename*=UTF-8''%ff%\r\n\r\n"
                    .to_vec()
            ),
            Just(b"content-type: \xff\r\n".to_vec()),
            prop::collection::vec(any::<u8>(), 0..60),
        ],
        0..12,
    );
    let config = ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(pieces in pieces)| {
        // `send` panics if the status is 500 or higher.
        let reply = runtime.block_on(send(&ada, pieces.concat()));
        prop_assert!(matches!(reply.status, 201 | 200 | 400 | 422), "{}", reply.status);
    });
    runtime.block_on(async {
        ada.get("/v1/auth/me").await.is(200);
        drop(app);
    });
}
