//! `openvibe demo`, as someone who evaluates the product runs it.

use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{ModelServer, Person, id, list, text, visitor};

/// A temporary directory, removed on drop.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Self {
        let dir = std::env::temp_dir().join(format!("openvibe-demo-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A running demo, and the output that it printed before it started listening.
struct Demo {
    child: Child,
    said: Vec<String>,
}

impl Drop for Demo {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn command(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_openvibe"));
    command
        .arg("demo")
        .env_clear()
        .current_dir(dir)
        .env("OPENVIBE_LISTEN", "127.0.0.1:0")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

async fn start(dir: &Path) -> Demo {
    start_with(dir, &[]).await
}

async fn start_with(dir: &Path, settings: &[(&str, &str)]) -> Demo {
    let mut command = command(dir);
    command.envs(settings.iter().copied());
    openvibe::blocking::blocking((), move || {
        let mut child = command.spawn().unwrap();
        let mut said = Vec::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            said.push(line.unwrap());
            if said.last().unwrap().starts_with("listening on ") {
                return Demo { child, said };
            }
        }
        let mut error = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut error)
            .unwrap();
        child.wait().unwrap();
        panic!("the demo ended: {said:?} {error}");
    })
    .await
    .unwrap()
}

impl Demo {
    fn base(&self) -> &str {
        self.said
            .last()
            .unwrap()
            .strip_prefix("listening on ")
            .unwrap()
    }

    fn sign_in(&self) -> (&str, &str) {
        let line = self
            .said
            .iter()
            .find_map(|line| line.strip_prefix("Sign in as "));
        line.unwrap().split_once(" with the password ").unwrap()
    }

    /// The demo's user, logged in with the printed credentials.
    async fn person(&self) -> Person {
        let (email, password) = self.sign_in();
        let mut person = visitor(self.base());
        let form = json!({"email": email, "password": password});
        let reply = person.post("/v1/auth/login", form).await;
        let cookie = reply.cookie();
        reply.is(200);
        person.cookie = Some(cookie);
        person
    }
}

#[tokio::test]
async fn the_demo_shows_people_threads_an_open_dive_and_a_result() {
    let dir = Dir::new();
    let demo = start(&dir.0).await;
    let mara = demo.person().await;
    let snapshot = mara.get("/v1/snapshot").await.ok();
    assert!(snapshot["members"].as_array().unwrap().len() >= 4);
    let channels = snapshot["channels"].as_array().unwrap();
    assert!(channels.len() >= 5, "{channels:?}");
    assert!(channels.iter().any(|c| c["kind"] == "private"));
    assert!(
        channels
            .iter()
            .any(|c| c["unread_count"].as_i64() > Some(0))
    );
    assert_eq!(snapshot["open_forks"].as_array().unwrap().len(), 1);
    let decisions = mara.get("/v1/decisions").await.ok();
    assert_eq!(list(&decisions, "/data").len(), 1);
    let items = mara.get("/v1/action-items").await.ok();
    assert!(list(&items, "/data").len() >= 2, "{items}");
    let tasks = mara.get("/v1/tasks?limit=100").await.ok();
    let tasks = list(&tasks, "/data");
    assert!(tasks.len() >= 3);
    assert!(
        tasks.iter().all(|task| task["status"] == "completed"),
        "{tasks:?}"
    );
}

/// Expected answers to the questions in the demo, by the title of the thread.
fn expected_answers() -> Vec<(String, String)> {
    let story: Value = serde_yaml_ng::from_str(include_str!("../../seeds/demo.yaml")).unwrap();
    let mut found = Vec::new();
    for thread in list(&story, "/threads") {
        let replies = thread["replies"].as_array().cloned().unwrap_or_default();
        let answers = replies.iter().filter_map(|reply| reply["answer"].as_str());
        found.extend(answers.map(|answer| (text(&thread, "/title"), answer.to_owned())));
    }
    found
}

#[tokio::test]
async fn the_questions_in_the_demo_get_the_answers_in_its_file() {
    let dir = Dir::new();
    let demo = start(&dir.0).await;
    let mara = demo.person().await;
    let expected = expected_answers();
    assert_eq!(expected.len(), 2);
    let snapshot = mara.get("/v1/snapshot").await.ok();
    for (title, answer) in expected {
        let mut answers = Vec::new();
        for channel in list(&snapshot, "/channels") {
            let path = format!("/v1/channels/{}/threads?limit=50", id(&channel));
            let threads = list(&mara.get(&path).await.ok(), "/data");
            for thread in threads.iter().filter(|thread| thread["title"] == *title) {
                let messages = mara.messages(&id(thread)).await;
                let agents = messages
                    .iter()
                    .filter(|one| one["author"]["type"] == "agent");
                answers.extend(agents.map(|one| text(one, "/content")));
            }
        }
        assert_eq!(answers.len(), 1, "{title}");
        let (said, intro) = answers[0].rsplit_once("\n\n").unwrap();
        assert_eq!(said, answer.trim(), "{title}");
        assert!(
            intro.starts_with("I am OpenVibe's built-in responder"),
            "{intro}"
        );
    }
}

#[tokio::test]
async fn the_agents_of_the_demo_use_the_configured_model() {
    let (dir, model) = (Dir::new(), ModelServer::start().await);
    let demo = start_with(&dir.0, &[("OPENVIBE_MODEL_BASE_URL", &model.url)]).await;
    assert!(
        demo.said
            .iter()
            .any(|line| line.ends_with("agents that use the configured model.")),
        "{:?}",
        demo.said
    );
    assert!(!model.requests().is_empty());
    let mara = demo.person().await;
    let tasks = list(&mara.get("/v1/tasks?limit=100").await.ok(), "/data");
    let replies: Vec<_> = tasks
        .iter()
        .filter(|task| task["kind"] == "reply")
        .collect();
    assert!(!replies.is_empty());
    for task in replies {
        assert_eq!(task["token_usage"]["model"], "claude-sonnet-4-5", "{task}");
    }
}

#[tokio::test]
async fn the_demo_resumes_as_it_was_left() {
    let dir = Dir::new();
    let first = start(&dir.0).await;
    let before = first.person().await.get("/v1/decisions").await.ok();
    let sign_in = first.sign_in().1.to_owned();
    drop(first);
    let again = start(&dir.0).await;
    assert_eq!(again.sign_in().1, sign_in);
    assert_eq!(again.person().await.get("/v1/decisions").await.ok(), before);
}

#[tokio::test]
async fn the_demo_does_not_change_other_data() {
    let dir = Dir::new();
    std::fs::write(dir.0.join("openvibe.db"), "somebody's").unwrap();
    let mut command = command(&dir.0);
    command.env("OPENVIBE_DATA_DIR", &dir.0);
    let output = openvibe::blocking::blocking((), move || command.output().unwrap());
    let output = output.await.unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("not a complete demo"), "{error}");
    let kept = std::fs::read_to_string(dir.0.join("openvibe.db")).unwrap();
    assert_eq!(kept, "somebody's");
}
