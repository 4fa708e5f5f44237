//! Data that survives a crash of the process.

use std::{collections::HashSet, time::Instant};

use serde_json::{Value, json};

use crate::support::{
    Answer, Gate, ModelServer, Person, TestDatabase, TestProcess, id, list, number,
    sign_up_with_workspace, text,
};

/// Data of a stopped server with a workspace and a thread in #general, and the user who created both.
pub struct Prepared {
    pub place: TestDatabase,
    pub model: ModelServer,
    pub ada: Person,
    pub thread: String,
}

pub async fn prepared() -> Prepared {
    prepared_at(TestDatabase::migrated().await).await
}

pub async fn prepared_at(place: TestDatabase) -> Prepared {
    let model = ModelServer::start().await;
    let server = TestProcess::start(&place, &model, &[]).await;
    let ada = sign_up_with_workspace(&server.base, "Ada").await;
    let thread = ada.thread(&id(&ada.channel("general").await), "Root").await;
    server.kill().await;
    Prepared {
        place,
        model,
        ada,
        thread,
    }
}

impl Prepared {
    pub async fn start(&self, settings: &[(&str, &str)]) -> (TestProcess, Person) {
        let server = TestProcess::start(&self.place, &self.model, settings).await;
        let ada = self.ada.at(&server.base);
        (server, ada)
    }

    /// Posts until the server crashes. Returns the acknowledged messages and the one in flight.
    async fn post_until_death(&self, failpoint: &str) -> (Vec<String>, Option<String>) {
        let server =
            TestProcess::try_start(&self.place, &self.model, &[("FAILPOINT", failpoint)]).await;
        let Ok(server) = server else {
            return (Vec::new(), None);
        };
        let ada = self.ada.at(&server.base);
        let path = format!("/v1/threads/{}/messages", self.thread);
        let mut acknowledged = Vec::new();
        for n in 0.. {
            assert!(n < 200, "{failpoint} was never reached");
            let client_id = format!("{failpoint}-{n}");
            let content = if n % 2 == 0 {
                format!("@vibe {client_id}")
            } else {
                client_id.clone()
            };
            let reply = ada
                .try_post(&path, json!({"content": content, "client_id": client_id}))
                .await;
            match reply {
                Some(reply) if reply.status == 201 => acknowledged.push(client_id),
                _ => {
                    server.exited().await;
                    return (acknowledged, Some(client_id));
                }
            }
        }
        unreachable!()
    }

    /// Checks the invariants after a restart.
    pub async fn check(&self, acknowledged: &[String], in_flight: Option<&str>) {
        let (server, ada) = self.start(&[]).await;
        self.check_at(&ada, acknowledged, in_flight).await;
        server.kill().await;
    }

    /// Checks the invariants on a server that has recovered.
    pub async fn check_at(&self, ada: &Person, acknowledged: &[String], in_flight: Option<&str>) {
        if let Some(client_id) = in_flight {
            let path = format!("/v1/threads/{}/messages", self.thread);
            let again = ada
                .post(&path, json!({"content": client_id, "client_id": client_id}))
                .await;
            assert!(matches!(again.status, 200 | 201), "{}", again.text);
        }
        let mut after = String::new();
        loop {
            let page = ada.get(&format!("/v1/tasks?limit=100{after}")).await.ok();
            for task in list(&page, "/data") {
                ada.ended(&id(&task)).await;
            }
            if page["has_more"] == false {
                break;
            }
            after = format!("&after={}", text(&page, "/last_id"));
        }
        let mut messages = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = ada
                .get(&format!(
                    "/v1/threads/{}/messages?limit=100{cursor}",
                    self.thread
                ))
                .await
                .ok();
            let mut older = list(&page, "/data");
            older.extend(messages);
            messages = older;
            if page["has_more"] == false {
                break;
            }
            cursor = format!("&before={}", id(&messages[0]));
        }
        for client_id in acknowledged.iter().map(String::as_str).chain(in_flight) {
            let n = messages
                .iter()
                .filter(|m| m["client_id"] == client_id)
                .count();
            assert_eq!(n, 1, "{client_id}");
        }
        assert!(messages.iter().all(|m| m["state"] != "streaming"));
        let replies: Vec<&Value> = messages
            .iter()
            .filter(|m| m["author"]["type"] == "agent")
            .collect();
        let answered: HashSet<String> = replies.iter().map(|m| text(m, "/parent_id")).collect();
        assert_eq!(answered.len(), replies.len(), "one reply to a question");
        let seqs: Vec<i64> = ada
            .events()
            .await
            .iter()
            .map(|e| number(e, "/seq"))
            .collect();
        assert_eq!(
            seqs,
            (1..=i64::try_from(seqs.len()).unwrap()).collect::<Vec<_>>(),
            "without gaps"
        );
        let head = number(&ada.get("/v1/snapshot").await.ok(), "/seq");
        assert_eq!(seqs.last(), Some(&head));
    }
}

#[tokio::test]
async fn a_crash_before_a_commit_loses_no_acknowledged_write() {
    let p = prepared().await;
    for n in 1..=9 {
        let (acknowledged, in_flight) = p.post_until_death(&format!("before_commit:{n}")).await;
        p.check(&acknowledged, in_flight.as_deref()).await;
    }
}

#[tokio::test]
async fn a_crash_after_a_commit_duplicates_nothing() {
    let p = prepared().await;
    for n in 1..=9 {
        let (acknowledged, in_flight) = p.post_until_death(&format!("after_commit:{n}")).await;
        p.check(&acknowledged, in_flight.as_deref()).await;
    }
}

#[tokio::test]
async fn a_crash_at_any_model_frame_leaves_no_partial_reply() {
    let p = prepared().await;
    for failpoint in [
        "model_text:1",
        "model_text:2",
        "model_text:4",
        "model_usage:1",
        "model_usage:2",
        "model_stop:1",
        "model_stop:2",
    ] {
        p.model.script(
            "vibe",
            [
                Answer::pieces(&["One ", "two ", "three."]),
                Answer::pieces(&["One ", "two ", "three."]),
            ],
        );
        let (acknowledged, in_flight) = p.post_until_death(failpoint).await;
        assert!(in_flight.is_some(), "{failpoint}");
        p.check(&acknowledged, in_flight.as_deref()).await;
    }
}

#[tokio::test]
async fn an_unfinished_reply_is_restarted() {
    let p = prepared().await;
    let gate = Gate::new();
    p.model.script(
        "vibe",
        [
            Answer::stream().piece("HALF").wait(&gate),
            Answer::text("Whole."),
        ],
    );
    let (server, ada) = p.start(&[]).await;
    let task = ada.ask(&p.thread, "@vibe hi").await;
    let begun = ada
        .event_where("the reply to begin", |e| {
            e["data"]["message"]["state"] == "streaming"
        })
        .await;
    server.kill().await;
    let (_server, ada) = p.start(&[]).await;
    let done = ada.completed(&task).await;
    assert_eq!(done["attempt"], 2);
    assert_eq!(
        done["output"]["message_id"], begun["data"]["message"]["id"],
        "it is the same message"
    );
    assert_eq!(
        ada.contents(&p.thread).await,
        ["Root", "@vibe hi", "Whole."]
    );
}

#[tokio::test]
async fn a_task_that_loses_its_worker_three_times_fails() {
    let p = prepared().await;
    let gates: Vec<Gate> = (0..3).map(|_| Gate::new()).collect();
    p.model.script(
        "vibe",
        gates
            .iter()
            .map(|gate| Answer::stream().piece("Half").wait(gate)),
    );
    let mut task = String::new();
    for (n, gate) in gates.iter().enumerate() {
        let (server, ada) = p.start(&[]).await;
        if n == 0 {
            task = ada.ask(&p.thread, "@vibe hi").await;
        }
        gate.reached().await;
        server.kill().await;
    }
    let (_server, ada) = p.start(&[]).await;
    let (failed, code) = ada.failed(&task).await;
    assert_eq!(code, "worker_lost", "{failed}");
    let after = ada.messages(&p.thread).await.split_off(2);
    assert_eq!(after.iter().filter(|m| m["kind"] == "notice").count(), 1);
    assert!(after.iter().all(|m| m["state"] != "streaming"), "{after:?}");
    assert_eq!(p.model.asked("vibe", 3).await.len(), 3);
}

#[tokio::test]
async fn a_waiting_task_resumes_after_a_restart() {
    let p = prepared().await;
    p.model
        .script("vibe", [Answer::status(503, "{}"), Answer::text("Here.")]);
    let (server, ada) = p.start(&[("RETRY_DELAYS", "3s,3s,3s")]).await;
    let task = ada.ask(&p.thread, "@vibe hi").await;
    ada.event_where("the wait", |e| {
        e["data"]["task"]["wait_reason"] == "unavailable"
    })
    .await;
    server.kill().await;
    let (_server, ada) = p.start(&[]).await;
    assert_eq!(ada.completed(&task).await["attempt"], 2);
}

#[tokio::test]
async fn failure_counts_survive_a_restart() {
    let p = prepared().await;
    let refusal = Answer::status(503, "{}");
    p.model.script("vibe", vec![refusal; 4]);
    let mut task = String::new();
    for attempt in 2..=3 {
        let (server, ada) = p.start(&[("RETRY_DELAYS", "4s,4s,4s")]).await;
        if attempt == 2 {
            task = ada.ask(&p.thread, "@vibe hi").await;
        }
        ada.event_where("the wait", |e| {
            e["data"]["task"]["wait_reason"] == "unavailable"
                && e["data"]["task"]["attempt"] == attempt
        })
        .await;
        server.kill().await;
    }
    let (_server, ada) = p.start(&[]).await;
    let (failed, code) = ada.failed(&task).await;
    assert_eq!(
        (code.as_str(), number(&failed, "/attempt")),
        ("model_unavailable", 4)
    );
}

#[tokio::test]
async fn sigterm_during_a_reply_exits_soon_and_the_task_resumes_later() {
    let p = prepared().await;
    let gate = Gate::new();
    p.model.script(
        "vibe",
        [
            Answer::stream().piece("HALF").wait(&gate),
            Answer::text("Whole."),
        ],
    );
    let (server, ada) = p.start(&[]).await;
    let mut socket = ada.socket().await;
    let task = ada.ask(&p.thread, "@vibe hi").await;
    socket
        .until("the reply to begin", |e| {
            e["data"]["message"]["state"] == "streaming"
        })
        .await;
    let asked = Instant::now();
    server.terminate();
    assert_eq!(socket.closed().await, 1001);
    assert!(server.exited().await.success());
    assert!(asked.elapsed().as_secs() < 10, "{:?}", asked.elapsed());
    let (_server, ada) = p.start(&[]).await;
    ada.completed(&task).await;
    assert_eq!(
        ada.contents(&p.thread).await,
        ["Root", "@vibe hi", "Whole."]
    );
    let seen = ada.task_context(&task).await;
    assert_eq!(list(&seen, "/attempts").len(), 2);
}

#[tokio::test]
async fn sigterm_while_idle_exits_at_once() {
    let p = prepared().await;
    let (server, ada) = p.start(&[]).await;
    ada.get("/v1/auth/me").await.is(200);
    let asked = Instant::now();
    server.terminate();
    assert!(server.exited().await.success());
    assert!(asked.elapsed().as_secs() < 10, "{:?}", asked.elapsed());
}

#[tokio::test]
async fn a_client_that_resumes_after_a_crash_misses_nothing() {
    let p = prepared().await;
    let (server, ada) = p.start(&[]).await;
    let mut socket = ada.socket().await;
    let first = ada.tell(&p.thread, "before").await;
    socket
        .until("it", |f| f["data"]["message"]["id"] == first.as_str())
        .await;
    let (cursor, epoch) = (socket.cursor, socket.epoch());
    ada.say(&p.thread, "missed").await;
    server.kill().await;
    let (_server, ada) = p.start(&[]).await;
    let mut socket = crate::support::Socket::resume(&ada, cursor, &epoch).await;
    assert_eq!(socket.ready["resumed"], true);
    let missed = socket.event().await;
    assert_eq!(
        (
            number(&missed, "/seq"),
            text(&missed, "/data/message/content")
        ),
        (cursor + 1, "missed".to_owned())
    );
}

/// Nodes of two versions share a database during an upgrade, and the newer one can queue work that the older one cannot run.
#[tokio::test]
async fn tasks_of_a_kind_of_a_newer_version_do_not_stop_the_others() {
    let p = prepared().await;
    p.model
        .script("vibe", std::iter::repeat_n(Answer::status(503, "busy"), 3));
    let (server, ada) = p.start(&[("RETRY_DELAYS", "60s")]).await;
    let general = id(&ada.channel("general").await);
    let mut tasks = vec![ada.ask(&p.thread, "@vibe hi").await];
    for _ in 0..2 {
        let started = ada.start(&general, "@vibe hi").await;
        tasks.push(text(&started, "/tasks/0/id"));
    }
    for task in &tasks {
        ada.event_where("the wait", |event| {
            event["data"]["task"]["id"] == json!(task)
                && event["data"]["task"]["wait_reason"] == "unavailable"
        })
        .await;
    }
    server.kill().await;
    // In the order in which they were created: a queued task of a newer version, a running one whose node was lost, and a running
    // task of a known kind whose node was lost.
    p.place
        .run(&[
            "update tasks set retry_at = null where status = 'queued'",
            "update tasks set status = 'running', lease_token = id, lease_until = '2020-01-01 00:00:00+00:00' \
             where id > (select id from tasks order by id limit 1)",
            "update tasks set kind = 'of_a_newer_version' where id < (select id from tasks order by id desc limit 1)",
        ])
        .await;
    let (server, ada) = p.start(&[]).await;
    ada.completed(&tasks[2]).await;
    let started = ada.start(&general, "@vibe hello").await;
    ada.completed(&text(&started, "/tasks/0/id")).await;
    let others = "select status from tasks where kind = 'of_a_newer_version' order by id";
    assert_eq!(p.place.texts(others).await, ["queued", "running"]);
    server.kill().await;
}
