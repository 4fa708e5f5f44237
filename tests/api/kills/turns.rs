//! Turns on a runner: from a mention to a pushed commit, on one node and on two.

use serde_json::{Value, json};

use super::{
    POLL, Points, Stage, Work, get, kills, note, post,
    runner::{ANSWER, REPLY, WorkingRunner},
    works::thread,
};
use crate::{
    code::allow,
    faults::{Prepared, prepared},
    run_faults::approve,
    support::{
        Person, TestProcess, at_points, id, is_shared_engine, list, new_runner, pause, text, within,
    },
};

const SETTINGS: [(&str, &str); 1] = [("RATE_LIMITS", "off")];

/// Number of kills on one node, and of those on two.
fn share() -> usize {
    (kills() / 2).max(3)
}

/// Work: an agent changes a repository after a question, and a person approves the push.
struct CodeTurn {
    channel: String,
    runner: WorkingRunner,
}

/// A stopped server with a runner, whose repository is allowed in #general.
async fn prepared_turn() -> (Prepared, CodeTurn) {
    let p = prepared().await;
    let (server, ada) = p.start(&SETTINGS).await;
    let channel = id(&ada.channel("general").await);
    let (_, key) = new_runner(&ada, "build-1").await;
    let runner = WorkingRunner::start(&key);
    runner.connect_to(&[ada.base.as_str()]);
    within("the runner to connect", async {
        while list(&ada.get("/v1/repositories").await.ok(), "/data").is_empty() {
            pause().await;
        }
    })
    .await;
    allow(&ada, "api", &[&channel]).await;
    server.kill().await;
    (p, CodeTurn { channel, runner })
}

impl CodeTurn {
    fn content(name: &str) -> String {
        format!("@coder fix the login: {name}")
    }

    /// Returns the IDs of the thread and of the task.
    async fn start(&self, ada: &Person, name: &str) -> Option<(String, String)> {
        let posted = thread(ada, &self.channel, &Self::content(name), name).await?;
        let task = text(&posted, "/tasks/0/id");
        Some((text(&posted, "/thread/id"), task))
    }

    /// Answers the question of a task, and approves its push.
    async fn help(ada: &Person, task: &str) -> Option<()> {
        let found = get(ada, &format!("/v1/actions?task_id={task}")).await?;
        for action in list(&found, "/data") {
            if action["state"] != "waiting" {
                continue;
            }
            if action["kind"] == "question" {
                let path = format!("/v1/actions/{}/answer", id(&action));
                post(ada, &path, json!({"value": ANSWER})).await?;
            } else {
                approve(ada, &id(&action)).await?;
            }
        }
        Some(())
    }
}

/// The sessions of a thread; `None` if the server has crashed.
async fn sessions(ada: &Person, thread: &str) -> Option<Vec<Value>> {
    let found = get(ada, &format!("/v1/code-sessions?thread_id={thread}")).await?;
    Some(list(&found, "/data"))
}

impl Work for CodeTurn {
    async fn proceed(&self, ada: &Person, name: &str) -> Option<()> {
        if !self.runner.knows(&ada.base) {
            self.runner.connect_to(&[ada.base.as_str()]);
        }
        let (thread, task) = self.start(ada, name).await?;
        loop {
            let now = get(ada, &format!("/v1/tasks/{task}")).await?;
            let found = sessions(ada, &thread).await?;
            let is_pushed = found.iter().any(|session| !session["pushed"].is_null());
            if is_pushed || matches!(now["status"].as_str()?, "failed" | "cancelled") {
                return Some(());
            }
            Self::help(ada, &task).await?;
            tokio::time::sleep(POLL).await;
        }
    }

    async fn check(&self, ada: &Person, name: &str) {
        let (thread, task) = self.start(ada, name).await.unwrap();
        let ended = ada.task(&task).await;
        assert_eq!(ended["status"], "completed", "{name}: {ended}");
        let contents = ada.contents(&thread).await;
        assert_eq!(contents, [Self::content(name).as_str(), REPLY], "{name}");
        let reply = ada.messages(&thread).await.pop().unwrap();
        assert_eq!(reply["state"], "complete", "{name}: {reply}");
        assert_eq!(reply["metadata"]["steps"], 1, "{name}: {reply}");
        let found = sessions(ada, &thread).await.unwrap();
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        let session = &found[0];
        assert_eq!(session["state"], "ready", "{name}: {session}");
        let commits = self.runner.commits(&text(session, "/branch"));
        let commits: Vec<&str> = commits.iter().map(String::as_str).collect();
        assert_eq!(commits, [text(session, "/pushed/commit")], "{name}");
        let path = format!("/v1/code-sessions/{}", id(session));
        ada.get(&format!("{path}/patch")).await.ok_text("patch");
        let log = format!("{path}/log?task_id={task}");
        ada.get(&log).await.ok_text("log");
        let actions = ada.get(&format!("/v1/actions?task_id={task}")).await.ok();
        let actions = list(&actions, "/data");
        let is_done = |action: &Value| action["state"] == "done";
        assert!(actions.iter().all(is_done), "{name}: {actions:?}");
        assert_eq!(actions.len(), 2, "{name}: {actions:?}");
    }
}

/// The server ends at a failpoint during a turn. Afterward, the turn exists once.
async fn survives(failpoint: &str) {
    let (p, turn) = prepared_turn().await;
    let settings = [SETTINGS[0], ("FAILPOINT", failpoint)];
    let (server, ada) = p.start(&settings).await;
    // People can see the end before the server crashes.
    let _seen = within("a turn to end", turn.proceed(&ada, failpoint)).await;
    let status = server.exited().await;
    assert_eq!(status.code(), None, "not at {failpoint}: {status}");
    let stage = Stage {
        p: &p,
        settings: &SETTINGS,
    };
    stage.finish(&turn, failpoint).await;
}

// Events are: opened, text, step, plan, usage, ask, text, done, pushed. Commands are: open, prompt, answer, push.
at_points! {
    a_turn_goes_on_wherever_the_server_dies, survives:
    runner_event_1,
    runner_event_2,
    runner_event_3,
    runner_event_4,
    runner_event_5,
    runner_event_6,
    runner_event_7,
    runner_event_8,
    runner_event_9,
    runner_event_stored_1,
    runner_event_stored_2,
    runner_event_stored_3,
    runner_event_stored_4,
    runner_event_stored_5,
    runner_event_stored_6,
    runner_event_stored_7,
    runner_event_stored_8,
    runner_event_stored_9,
    runner_command_1,
    runner_command_2,
    runner_command_3,
    runner_command_4,
    runner_command_sent_1,
    runner_command_sent_2,
    runner_command_sent_3,
    runner_command_sent_4,
    runner_ack_1,
    runner_ack_2,
    runner_ack_3,
    runner_ack_4,
}

#[tokio::test]
async fn kills_during_turns_on_a_runner_lose_and_repeat_nothing() {
    let (p, turn) = prepared_turn().await;
    let stage = Stage {
        p: &p,
        settings: &SETTINGS,
    };
    stage.kill_during(&turn, share()).await;
}

/// Settings of a node: a lost worker is noticed early.
fn node<'a>(name: &'a str, more: (&'a str, &'a str)) -> [(&'a str, &'a str); 4] {
    [SETTINGS[0], ("LEASE_MS", "1000"), ("NODE_NAME", name), more]
}

#[tokio::test]
async fn kills_of_a_node_during_turns_on_a_runner_lose_and_repeat_nothing() {
    if !is_shared_engine() {
        return;
    }
    let (p, turn) = prepared_turn().await;
    let data = p.place.dir.join("data-two");
    std::fs::create_dir_all(&data).unwrap();
    let data = data.to_str().unwrap();
    let mut points = Points::new();
    let mut killed = 0;
    for n in 1.. {
        if killed == share() {
            break;
        }
        assert!(n < 10 + 2 * share(), "the node dies too seldom");
        let (name, point) = (format!("work-{n}"), points.draw());
        note(&format!("{name}: {point}"));
        let second = node("two", ("DATA_DIR", data));
        let (second, ada) = p.start(&second).await;
        let failpoint = point.to_string();
        let first = node("one", ("FAILPOINT", failpoint.as_str()));
        let has_died = match TestProcess::try_start(&p.place, &p.model, &first).await {
            Ok(first) => {
                let nodes = [first.base.as_str(), second.base.as_str()];
                turn.runner.connect_to(&nodes);
                let at_first = p.ada.at(&first.base);
                let ended = within("a turn to end", turn.proceed(&at_first, &name)).await;
                if ended.is_some() {
                    first.kill().await;
                } else {
                    let status = first.exited().await;
                    assert_eq!(status.code(), None, "not at {point}: {status}");
                }
                ended.is_none()
            }
            Err(status) => {
                assert_eq!(status.code(), None, "not at {point}: {status}");
                true
            }
        };
        points.correct(point, has_died);
        killed += usize::from(has_died);
        let ended = within("a turn to end", turn.proceed(&ada, &name)).await;
        assert!(ended.is_some(), "{name}: the other node died");
        turn.check(&ada, &name).await;
        second.kill().await;
    }
}
