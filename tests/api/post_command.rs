//! `openvibe post`: scripts post through a webhook or with a key, once, and learn from the exit status what happened.

use std::{
    io::Write,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
};

use crate::support::{Team, id, list, team, text, within};

/// Runs the command with these variables.
async fn run(settings: &[(&str, &str)], arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_openvibe"));
    command
        .env_clear()
        .current_dir(std::env::temp_dir())
        .arg("post")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for (name, value) in settings {
        command.env(format!("OPENVIBE_{name}"), value);
    }
    let input = input.to_owned();
    let running = move || {
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A command that needs no input may have ended.
        drop(stdin.write_all(input.as_bytes()));
        drop(stdin);
        child.wait_with_output().unwrap()
    };
    openvibe::blocking::blocking((), running).await.unwrap()
}

#[track_caller]
fn printed(output: &Output) -> String {
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{problem}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Checks the exit status, and returns the problem.
#[track_caller]
fn failed(output: &Output, status: i32) -> String {
    let problem = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{problem}");
    problem
}

async fn hook(t: &Team) -> String {
    let form = json!({"name": "Build robot", "channel_id": t.general});
    text(&t.bo.post("/v1/hooks", form).await.is(201), "/url")
}

async fn threads(t: &Team) -> Vec<Value> {
    let path = format!("/v1/channels/{}/threads", t.general);
    list(&t.ada.get(&path).await.ok(), "/data")
}

/// A file in a directory of its own.
fn file(content: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("openvibe-post-{}", uuid::Uuid::now_v7()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("report.txt");
    std::fs::write(&path, content).unwrap();
    path
}

#[tokio::test]
async fn the_output_of_a_script_is_posted_through_a_webhook_in_one_thread() {
    let t = team().await;
    let address = hook(&t).await;
    let settings = [("HOOK", address.as_str())];
    let first = ["--title", "Build", "--code", "text", "--thread", "build"];
    let link = printed(&run(&settings, &first, "make: `ok`\n").await);
    let found = threads(&t).await;
    let root = &found[0]["root_message"];
    assert_eq!(root["content"], "**Build**\n\n```text\nmake: `ok`\n```");
    let ends = format!(
        "/c/{}/t/{}#m-{}",
        t.general,
        text(&found[0], "/id"),
        text(root, "/id")
    );
    assert!(link.ends_with(&ends), "{link}");
    let second = ["--thread", "build", "and again"];
    printed(&run(&settings, &second, "").await);
    let found = threads(&t).await;
    assert_eq!((found.len(), &found[0]["reply_count"]), (1, &json!(1)));
}

#[tokio::test]
async fn a_webhook_takes_files_with_a_text_or_without_one() {
    let t = team().await;
    let address = hook(&t).await;
    let settings = [("HOOK", address.as_str())];
    let path = file("42\n");
    let report = path.to_str().unwrap();
    let said = ["--title", "Build", "--thread", "build", "Done", "--file"];
    let first = [said.as_slice(), &[report]].concat();
    printed(&run(&settings, &first, "").await);
    let second = ["--thread", "build", "--file", report];
    printed(&run(&settings, &second, "").await);
    let found = threads(&t).await;
    assert_eq!((found.len(), &found[0]["reply_count"]), (1, &json!(1)));
    let root = &found[0]["root_message"];
    assert_eq!(root["content"], "**Build**\n\nDone");
    assert_eq!(root["attachments"][0]["name"], "report.txt");
    let read = t.bo.get(&text(root, "/attachments/0/url")).await;
    read.ok_text("42\n");
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

#[tokio::test]
async fn a_key_posts_files_in_a_channel_by_its_name() {
    let t = team().await;
    let (robot, _) = t.bo.make_key(&["chat:read", "chat:write"]).await;
    let key = robot.key.as_deref().unwrap();
    let settings = [("URL", robot.base.as_str()), ("API_KEY", key)];
    let path = file("42\n");
    let arguments = [
        "--channel",
        "#general",
        "--file",
        path.to_str().unwrap(),
        "Weekly report",
    ];
    printed(&run(&settings, &arguments, "").await);
    let found = threads(&t).await;
    let root = &found[0]["root_message"];
    assert_eq!(root["content"], "Weekly report");
    assert_eq!(root["attachments"][0]["name"], "report.txt");
    assert_eq!(root["author"]["id"], t.bo.id);
    let thread = text(&found[0], "/id");
    printed(&run(&settings, &["--thread", &thread, "Addition"], "").await);
    assert_eq!(threads(&t).await[0]["reply_count"], 1);
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

#[tokio::test]
async fn the_key_of_a_bot_posts_as_the_bot() {
    let t = team().await;
    let form = json!({"name": "Build", "channel_ids": [t.general]});
    let bot = id(&t.ada.post("/v1/bots", form).await.is(201));
    let keys = format!("/v1/bots/{bot}/keys");
    let key = t.ada.post(&keys, json!({"name": "CI"})).await.is(201);
    let key = text(&key, "/key");
    let settings = [("URL", t.ada.base.as_str()), ("API_KEY", key.as_str())];
    let arguments = ["--channel", "general", "Green"];
    let link = printed(&run(&settings, &arguments, "").await);
    let found = threads(&t).await;
    let thread = text(&found[0], "/id");
    assert!(link.contains(&format!("/t/{thread}#m-msg_")), "{link}");
    assert_eq!(found[0]["root_message"]["author"]["id"], json!(bot));
    let elsewhere = ["--channel", "random", "Green"];
    let problem = failed(&run(&settings, &elsewhere, "").await, 1);
    assert!(problem.contains("there is no channel #random"), "{problem}");
}

#[tokio::test]
async fn the_exit_status_tells_rejected_messages_from_wrong_arguments() {
    let t = team().await;
    let address = hook(&t).await;
    let wrong = format!("{address}x");
    let problem = failed(&run(&[("HOOK", &wrong)], &["hi"], "").await, 1);
    assert!(problem.contains("(404): no_service"), "{problem}");
    assert!(
        !problem.contains(&address),
        "the address is a secret: {problem}"
    );
    let settings = [("HOOK", address.as_str())];
    assert!(failed(&run(&settings, &[], " \n").await, 2).contains("the text is empty"));
    let files = ["--file", "/nowhere/report.txt", "hi"];
    assert!(failed(&run(&settings, &files, "").await, 1).contains("cannot read"));
    let channel = ["--channel", "general", "hi"];
    assert!(failed(&run(&settings, &channel, "").await, 2).contains("leave out --channel"));
    assert!(failed(&run(&[], &["hi"], "").await, 2).contains("set OPENVIBE_HOOK"));
    let (robot, _) = t.bo.make_key(&["chat:read", "chat:write"]).await;
    let key = robot.key.as_deref().unwrap();
    let settings = [("URL", robot.base.as_str()), ("API_KEY", key)];
    let nowhere = ["--channel", "nowhere", "hi"];
    let problem = failed(&run(&settings, &nowhere, "").await, 1);
    assert!(
        problem.contains("there is no channel #nowhere"),
        "{problem}"
    );
    failed(&run(&settings, &["--bogus"], "").await, 2);
    assert_eq!(threads(&t).await.len(), 0);
}

/// Reads a request, and returns its body.
async fn body_of(stream: &mut TcpStream) -> Value {
    let mut bytes = Vec::new();
    loop {
        stream.read_buf(&mut bytes).await.unwrap();
        let request = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((_, body)) = request.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str(body)
        {
            return body;
        }
    }
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_with_the_same_client_id() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/hooks/secret", server.local_addr().unwrap());
    let settings = [("HOOK", address.as_str())];
    let answering = async {
        let (mut stream, _) = server.accept().await.unwrap();
        let first = body_of(&mut stream).await;
        drop(stream);
        let (mut stream, _) = server.accept().await.unwrap();
        let second = body_of(&mut stream).await;
        let answer = json!({"ok": true, "url": "https://chat.example/m", "notes": []}).to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        stream.write_all((head + &answer).as_bytes()).await.unwrap();
        (first, second)
    };
    let (output, (first, second)) =
        tokio::join!(run(&settings, &["hi"], ""), within("requests", answering));
    assert_eq!(printed(&output), "https://chat.example/m");
    assert!(first["client_id"].is_string());
    assert_eq!(first, second);
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_tried_for_a_while() {
    // No other test gets the port, and connections to it are refused.
    let silent = TcpSocket::new_v4().unwrap();
    silent.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = format!("http://{}/hooks/secret", silent.local_addr().unwrap());
    let problem = failed(&run(&[("HOOK", &address)], &["hi"], "").await, 75);
    assert!(problem.contains("is the server running?"), "{problem}");
    assert!(!problem.contains("secret"), "{problem}");
}
