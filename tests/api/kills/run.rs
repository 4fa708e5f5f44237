//! A run with all kinds of steps, and with functions of a tool server that recognizes the keys of some calls.

use serde_json::{Value, json};

use super::{POLL, Stage, Work, get, kills, post, works::thread};
use crate::{
    faults::prepared,
    run_faults::approve,
    support::{Answer, McpServer, Person, Request, contents_of_run, id, list, text},
    tools_loop::reader,
    tools_outward::{NEAR, jira},
};

/// A function whose calls with the same key have only one effect, so that a call can be repeated.
const KEYED: &str = "jira__create";
/// A function of which every call has an effect.
const PLAIN: &str = "jira__note";
/// Result of a call with an unknown outcome, after a person decided that it did not happen.
const DID_NOT_HAPPEN: &str = "did_not_happen";
/// Beginning of the prompt of the step that calls functions; the run's name follows.
const RECORD: &str = "Record it as ";

/// Eight steps that cover all kinds.
fn steps(recorder: &Value) -> Value {
    json!([
        {"id": "ask", "kind": "approval", "text": "Go on?", "who": "requester"},
        {"id": "think", "kind": "fork", "title": "The day", "goal": "Find a day."},
        {"id": "record", "kind": "agent", "agent_id": recorder["id"], "prompt": format!("{RECORD}{{{{input}}}}.")},
        {"id": "judge", "kind": "condition", "value": "{{steps.think.output}}", "op": "model_says", "with": "Is it a day?",
            "then": "both", "else": "end"},
        {"id": "both", "kind": "parallel", "branches": [
            [{"id": "one", "kind": "agent", "prompt": "One"}],
            [{"id": "note", "kind": "output", "content": "Noted."}],
        ]},
        {"id": "tell", "kind": "output", "content": "Result: {{steps.think.output}}"},
    ])
}

/// Scripted reply: calls each function again until it has succeeded.
fn record(request: &Request) -> Answer {
    let all = request.all();
    let (_, rest) = all.split_once(RECORD).expect("the prompt of the step");
    let (name, _) = rest.split_once('.').unwrap();
    let called: Vec<String> = request.rounds().concat();
    let results = request.results();
    // The arguments differ between attempts, because a task can make the same call only twice.
    let attempt = results.len();
    let mut calls = Vec::new();
    for function in [KEYED, PLAIN] {
        let mut newest_first = called.iter().zip(&results).rev();
        let newest = newest_first.find(|(called, _)| *called == function);
        if newest.is_none_or(|(_, result)| result == DID_NOT_HAPPEN) {
            let arguments = json!({"key": name, "attempt": attempt});
            calls.push((function, arguments));
        }
    }
    if calls.is_empty() {
        Answer::text("It is recorded.")
    } else {
        Answer::calls("", &calls)
    }
}

struct Run {
    channel: String,
    /// Path of the workflow.
    flow: String,
    jira: McpServer,
}

impl Run {
    /// Starts the run if it does not exist yet; returns the thread and the run.
    async fn start(&self, ada: &Person, name: &str) -> Option<(String, String)> {
        let posted = thread(ada, &self.channel, "When?", name).await?;
        let thread = text(&posted, "/thread/id");
        let wish = json!({"thread_id": thread, "input": name, "client_id": format!("{name}-run")});
        let started = post(ada, &format!("{}/runs", self.flow), wish).await?;
        Some((thread, text(&started, "/run/id")))
    }

    /// Number of calls of a function for a run that the tool server received.
    fn calls(&self, function: &str, name: &str) -> usize {
        let received = self.jira.received();
        let calls = received.iter().filter(|one| {
            one.method == "tools/call"
                && one.params["name"] == function
                && one.params["arguments"]["key"] == name
        });
        calls.count()
    }

    /// Does what a step waits for: approves, publishes, or settles.
    async fn help(&self, ada: &Person, name: &str, step: &Value) -> Option<()> {
        if let Some(action) = step["action_id"].as_str() {
            approve(ada, action).await?;
        }
        if let Some(fork) = step["fork_id"].as_str() {
            let form = json!({"resolution": {"headline": "Monday it is"}});
            ada.try_post(&format!("/v1/forks/{fork}/publish"), form)
                .await?;
        }
        let Some(task) = step["task_id"].as_str() else {
            return Some(());
        };
        let found = get(ada, &format!("/v1/actions?task_id={task}")).await?;
        for action in list(&found, "/data") {
            match action["state"].as_str()? {
                "waiting" => approve(ada, &id(&action)).await?,
                "unknown" => self.settle(ada, name, &action).await?,
                _ => {}
            }
        }
        Some(())
    }

    /// Settles a call with an unknown outcome: `PLAIN` calls can be looked up on the tool server, and `KEYED` calls can be repeated.
    async fn settle(&self, ada: &Person, name: &str, action: &Value) -> Option<()> {
        let has_happened = action["function"] == PLAIN && self.calls("note", name) > 0;
        let outcome = if has_happened {
            "happened"
        } else {
            DID_NOT_HAPPEN
        };
        let path = format!("/v1/actions/{}/settle", id(action));
        ada.try_post(&path, json!({"outcome": outcome})).await?;
        Some(())
    }
}

impl Work for Run {
    async fn proceed(&self, ada: &Person, name: &str) -> Option<()> {
        let (_, run) = self.start(ada, name).await?;
        loop {
            let now = get(ada, &format!("/v1/runs/{run}")).await?;
            if matches!(
                now["status"].as_str()?,
                "completed" | "failed" | "cancelled"
            ) {
                return Some(());
            }
            for step in list(&now, "/steps") {
                if matches!(step["state"].as_str()?, "running" | "waiting") {
                    self.help(ada, name, &step).await?;
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn check(&self, ada: &Person, name: &str) {
        let (thread, run) = self.start(ada, name).await.unwrap();
        let done = ada.get(&format!("/v1/runs/{run}")).await.ok();
        let steps = list(&done, "/steps");
        let is_done = |step: &Value| step["state"] == "completed";
        assert_eq!(steps.len(), 8, "{name}: {done}");
        assert!(steps.iter().all(is_done), "{name}: {done}");
        assert_eq!(self.calls("note", name), 1, "{name}: effects without a key");
        assert!(
            self.calls("create", name) > 0,
            "{name}: no effect with a key"
        );
        let messages = ada.messages(&thread).await;
        let own = contents_of_run(&messages, &run);
        assert_eq!(own.len(), 2, "{name}: {own:?}");
        assert_eq!(own[0], "Noted.", "{name}");
        assert!(own[1].starts_with("Result: "), "{name}: {own:?}");
        let resolutions = messages
            .iter()
            .filter(|message| message["kind"] == "resolution");
        assert_eq!(resolutions.count(), 1, "{name}: {messages:?}");
        let forks = ada.get(&format!("/v1/threads/{thread}/forks")).await.ok();
        let forks = list(&forks, "/data");
        assert_eq!(forks.len(), 1, "{name}: {forks:?}");
        let contents = ada.contents_in(&id(&forks[0])).await;
        let goals = contents.iter().filter(|content| *content == "Find a day.");
        assert_eq!(goals.count(), 1, "{name}: {contents:?}");
        check_tree(ada, name, &text(&done, "/root_task_id")).await;
    }
}

/// Checks the approval of a run, and the tasks of its steps.
async fn check_tree(ada: &Person, name: &str, root: &str) {
    let actions = ada.get(&format!("/v1/actions?task_id={root}")).await.ok();
    let actions = list(&actions, "/data");
    assert_eq!(actions.len(), 1, "{name}: {actions:?}");
    let tree = ada.get(&format!("/v1/tasks/{root}/tree")).await.ok();
    let tasks = list(&tree, "/tasks");
    for step in ["record", "judge", "one"] {
        let of_step = tasks.iter().filter(|task| task["step_id"] == step);
        assert_eq!(of_step.count(), 1, "{name}: {step} in {tasks:?}");
    }
}

#[tokio::test]
async fn kills_during_a_run_of_all_steps_lose_and_repeat_nothing() {
    let p = prepared().await;
    let scripted = McpServer::start().await;
    let settings = [NEAR[0], NEAR[1], ("RATE_LIMITS", "off")];
    let (server, ada) = p.start(&settings).await;
    let (_, of_agent) = jira(&ada, &scripted).await;
    let recorder = reader(&ada, "sage", json!({"tools": [of_agent]})).await;
    let form = json!({"name": "all", "agents": [recorder["id"]], "steps": steps(&recorder)});
    let flow = ada.post("/v1/workflows", form).await.is(201);
    let run = Run {
        channel: id(&ada.channel("general").await),
        flow: format!("/v1/workflows/{}", id(&flow)),
        jira: scripted,
    };
    server.kill().await;
    p.model.answer_by("sage", record);
    p.model.answer_by("condition", |_| Answer::text("Yes."));
    let stage = Stage {
        p: &p,
        settings: &settings,
    };
    stage.kill_during(&run, kills()).await;
}
