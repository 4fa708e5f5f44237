//! `openvibe demo`, as someone who evaluates the product runs it.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    runs::reaches,
    support::{ModelServer, Person, id, list, text, visitor},
};

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
    // One run waits for Mara.
    let is_waiting = |task: &&Value| task["status"] != "completed";
    let waiting: Vec<&Value> = tasks.iter().filter(is_waiting).collect();
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    assert!(waiting[0]["run_id"].is_string(), "{waiting:?}");
}

/// Threads of all channels by their title.
async fn threads(by: &Person) -> BTreeMap<String, String> {
    let snapshot = by.get("/v1/snapshot").await.ok();
    let mut found = BTreeMap::new();
    for channel in list(&snapshot, "/channels") {
        let path = format!("/v1/channels/{}/threads?limit=50", id(&channel));
        for thread in list(&by.get(&path).await.ok(), "/data") {
            if let Some(title) = thread["title"].as_str() {
                found.insert(title.to_owned(), id(&thread));
            }
        }
    }
    found
}

/// The agent's message in a thread.
async fn answer_in(by: &Person, thread: &str) -> Value {
    let messages = by.messages(thread).await;
    let mut answers = messages
        .into_iter()
        .filter(|one| one["author"]["type"] == "agent");
    answers.next().expect("an agent has answered")
}

const MODEL: &str = "Recorded for this demo";

#[tokio::test]
async fn the_demo_shows_what_agents_can_do_without_a_model() {
    let dir = Dir::new();
    let demo = start(&dir.0).await;
    let mara = demo.person().await;
    let threads = threads(&mara).await;

    // Vibe asked Coder.
    let answer = answer_in(&mara, &threads["Departures for the widget"]).await;
    let path = format!(
        "/v1/tasks?thread_id={}",
        threads["Departures for the widget"]
    );
    let tasks = list(&mara.get(&path).await.ok(), "/data");
    let root = tasks.iter().find(|task| task["kind"] == "reply").unwrap();
    let tree = mara.get(&format!("/v1/tasks/{}/tree", id(root))).await.ok();
    let tasks = list(&tree, "/tasks");
    let kinds: Vec<String> = tasks.iter().map(|task| text(task, "/kind")).collect();
    assert_eq!(kinds, ["reply", "delegate"]);
    for task in &tasks {
        assert_eq!(task["token_usage"]["model"], MODEL, "{task}");
    }
    assert!(text(&answer, "/content").contains("Coder's sketch"));

    // An answer with sources.
    let answer = answer_in(&mara, &threads["The harbour office calls at four"]).await;
    let content = text(&answer, "/content");
    for number in ["[1]", "[2]", "[3]"] {
        assert!(content.contains(number), "{content}");
    }
    assert_eq!(list(&answer, "/metadata/sources").len(), 3, "{answer}");

    // A review that waits for Mara, and a completed one.
    let runs = list(&mara.get("/v1/runs?limit=50").await.ok(), "/data");
    let with = |status: &str| runs.iter().find(|run| run["status"] == status).unwrap();
    let done = mara
        .get(&format!("/v1/runs/{}", id(with("completed"))))
        .await
        .ok();
    let said = mara.contents(&text(&done, "/thread_id")).await;
    assert!(
        said[1].starts_with("We are sorry that you waited"),
        "{said:?}"
    );
    let path = format!("/v1/runs/{}", id(with("waiting")));
    let waiting = mara.get(&path).await.ok();
    let steps = list(&waiting, "/steps");
    let action = steps
        .iter()
        .find_map(|step| step["action_id"].as_str())
        .unwrap();
    let action = format!("/v1/actions/{action}");
    let shown = mara.get(&action).await.ok();
    let form = json!({"arguments_hash": shown["arguments_hash"]});
    mara.post(&format!("{action}/approve"), form).await.is(200);
    let published = reaches(&mara, &id(&waiting), "completed").await;
    let said = mara.contents(&text(&published, "/thread_id")).await;
    assert!(
        said[1].starts_with("With version 4, you have the tides"),
        "{said:?}"
    );

    let schedules = list(&mara.get("/v1/schedules").await.ok(), "/data");
    assert_eq!(schedules.len(), 1);
    assert_eq!(
        (&schedules[0]["name"], &schedules[0]["cron"]),
        (&json!("Stand-up"), &json!("0 9 * * 1-5"))
    );
    let memories = list(&mara.get("/v1/memories").await.ok(), "/data");
    let mut scopes: Vec<String> = memories.iter().map(|one| text(one, "/scope")).collect();
    scopes.sort_unstable();
    assert_eq!(
        scopes,
        ["conversation", "conversation", "organization", "user"]
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
    let threads = threads(&mara).await;
    for (title, answer) in expected {
        let found = text(&answer_in(&mara, &threads[&title]).await, "/content");
        let (said, intro) = found.rsplit_once("\n\n").unwrap();
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
    assert!(model.requests().is_empty(), "the demo is filled offline");
    let mara = demo.person().await;
    let thread = threads(&mara).await["Map tiles at night"].clone();
    let task = mara
        .ask(&thread, "@vibe is the coast line easier to see?")
        .await;
    let done = mara.completed(&task).await;
    assert_eq!(done["token_usage"]["model"], "claude-sonnet-4-5", "{done}");
    assert_eq!(model.requests().len(), 1);
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
