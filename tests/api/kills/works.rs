//! Chains, delegations, collaborations, and Stop.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{POLL, Stage, Work, ended, get, kills, post};
use crate::{
    collaboration::{self, GOAL},
    delegation::{self, delegate, delegating},
    faults::{Prepared, prepared},
    support::{Answer, Person, Request, id, list, text},
    tools_loop::actions,
};

/// Starts a thread in #general; returns the existing one if an earlier request has started it.
pub(super) async fn thread(by: &Person, channel: &str, content: &str, name: &str) -> Option<Value> {
    let form = json!({"content": content, "client_id": format!("{name}-thread")});
    let path = format!("/v1/channels/{channel}/threads");
    post(by, &path, form).await
}

async fn general(p: &Prepared) -> String {
    let (server, ada) = p.start(&[]).await;
    let general = id(&ada.channel("general").await);
    server.kill().await;
    general
}

/// Number of kills for each kind of work other than a run.
fn share() -> usize {
    (kills() / 5).max(2)
}

const SETTINGS: [(&str, &str); 1] = [("RATE_LIMITS", "off")];

async fn kill_during(p: &Prepared, work: &impl Work) {
    let stage = Stage {
        p,
        settings: &SETTINGS,
    };
    stage.kill_during(work, share()).await;
}

/// Work: a chain of three links.
struct Chain {
    channel: String,
}

impl Chain {
    async fn start(&self, ada: &Person, name: &str) -> Option<Value> {
        let content = "@coder write it → @vibe check it → @coder mend it";
        thread(ada, &self.channel, content, name).await
    }
}

/// Returns the task IDs of a chain's links.
fn links(posted: &Value) -> Vec<String> {
    let links = list(posted, "/message/metadata/chain");
    let links = links.iter().filter_map(Value::as_str);
    links.map(str::to_owned).collect()
}

impl Work for Chain {
    async fn proceed(&self, ada: &Person, name: &str) -> Option<()> {
        for link in links(&self.start(ada, name).await?) {
            ended(ada, &link).await?;
        }
        Some(())
    }

    async fn check(&self, ada: &Person, name: &str) {
        let posted = self.start(ada, name).await.unwrap();
        let mut replies = BTreeSet::new();
        for link in links(&posted) {
            let task = ada.task(&link).await;
            assert_eq!(task["status"], "completed", "{name}: {task}");
            replies.insert(text(&task, "/output/message_id"));
        }
        assert_eq!(replies.len(), 3, "{name}");
        let messages = ada.messages(&text(&posted, "/thread/id")).await;
        assert_eq!(messages.len(), 4, "{name}: {messages:?}");
        let is_whole = |message: &Value| message["state"] == "complete";
        assert!(messages.iter().all(is_whole), "{name}: {messages:?}");
    }
}

#[tokio::test]
async fn kills_during_chains_lose_and_repeat_nothing() {
    let p = prepared().await;
    let chain = Chain {
        channel: general(&p).await,
    };
    kill_during(&p, &chain).await;
}

/// Work: a chain whose first agent never finishes, until a person stops the tree.
struct StoppedChain {
    chain: Chain,
}

impl Work for StoppedChain {
    async fn proceed(&self, ada: &Person, name: &str) -> Option<()> {
        let links = links(&self.chain.start(ada, name).await?);
        let first = format!("/v1/tasks/{}", links[0]);
        while get(ada, &first).await?["status"] == "queued" {
            tokio::time::sleep(POLL).await;
        }
        post(ada, &format!("{first}/cancel"), json!({"scope": "tree"})).await?;
        for link in &links {
            ended(ada, link).await?;
        }
        Some(())
    }

    async fn check(&self, ada: &Person, name: &str) {
        let posted = self.chain.start(ada, name).await.unwrap();
        for link in links(&posted) {
            let task = ada.task(&link).await;
            assert_eq!(task["status"], "cancelled", "{name}: {task}");
        }
        let messages = ada.messages(&text(&posted, "/thread/id")).await;
        let replies = &messages[1..];
        assert!(replies.len() <= 1, "{name}: {messages:?}");
        let is_stopped = |reply: &Value| reply["state"] == "interrupted";
        assert!(replies.iter().all(is_stopped), "{name}: {messages:?}");
    }
}

#[tokio::test]
async fn kills_during_stop_leave_nothing_running() {
    let p = prepared().await;
    p.model
        .answer_by("coder", |_| Answer::pieces_open(&["One moment."]).silence());
    let chain = Chain {
        channel: general(&p).await,
    };
    kill_during(&p, &StoppedChain { chain }).await;
}

/// Work: delegations to two agents at once, then to one of them again.
struct Delegation {
    channel: String,
}

impl Delegation {
    async fn start(&self, ada: &Person, name: &str) -> Option<Value> {
        thread(ada, &self.channel, "@lead write both parts", name).await
    }
}

fn lead(request: &Request) -> Answer {
    match request.results().len() {
        0 => Answer::calls(
            "",
            &[
                delegate("coder", "Draft the first part."),
                delegate("vibe", "Draft the second part."),
            ],
        ),
        2 => Answer::calls("", &[delegate("coder", "Join both parts.")]),
        _ => Answer::text("Both parts are done."),
    }
}

impl Work for Delegation {
    async fn proceed(&self, ada: &Person, name: &str) -> Option<()> {
        let posted = self.start(ada, name).await?;
        ended(ada, &text(&posted, "/tasks/0/id")).await
    }

    async fn check(&self, ada: &Person, name: &str) {
        let posted = self.start(ada, name).await.unwrap();
        let root = ada.task(&text(&posted, "/tasks/0/id")).await;
        assert_eq!(root["status"], "completed", "{name}: {root}");
        let children = delegation::children(ada, &root).await;
        assert_eq!(children.len(), 3, "{name}: {children:?}");
        let is_done = |child: &Value| child["status"] == "completed";
        assert!(children.iter().all(is_done), "{name}: {children:?}");
        let actions = actions(ada, &root).await;
        let asked: BTreeSet<String> = actions
            .iter()
            .filter(|action| action["state"] == "done")
            .map(|action| text(action, "/child_task_id"))
            .collect();
        assert_eq!((actions.len(), asked.len()), (3, 3), "{name}: {actions:?}");
        let children: BTreeSet<String> = children.iter().map(id).collect();
        assert_eq!(asked, children, "{name}");
        let contents = ada.contents(&text(&posted, "/thread/id")).await;
        let expected = ["@lead write both parts", "Both parts are done."];
        assert_eq!(contents, expected, "{name}");
    }
}

#[tokio::test]
async fn kills_during_delegations_lose_and_repeat_nothing() {
    let p = prepared().await;
    let (server, ada) = p.start(&[]).await;
    delegating(&ada, "lead", json!({})).await;
    server.kill().await;
    p.model.answer_by("lead", lead);
    let delegation = Delegation {
        channel: general(&p).await,
    };
    kill_during(&p, &delegation).await;
}

/// Work: a collaboration of two agents with three turns and a draft.
struct Collaboration {
    channel: String,
    agents: [String; 2],
}

impl Collaboration {
    async fn start(&self, ada: &Person, name: &str) -> Option<Value> {
        let root = thread(ada, &self.channel, "What do we tell people?", name).await?;
        let form = json!({"message_id": root["message"]["id"], "collaborators": self.agents, "goal": GOAL, "turns_max": 3,
            "client_id": format!("{name}-fork")});
        let path = format!("/v1/threads/{}/forks", text(&root, "/thread/id"));
        post(ada, &path, form).await
    }
}

impl Work for Collaboration {
    async fn proceed(&self, ada: &Person, name: &str) -> Option<()> {
        let begun = self.start(ada, name).await?;
        ended(ada, &text(&begun, "/task/id")).await
    }

    async fn check(&self, ada: &Person, name: &str) {
        let begun = self.start(ada, name).await.unwrap();
        let (fork, task) = (text(&begun, "/fork/id"), text(&begun, "/task/id"));
        for (kind, count) in [("reply", 3), ("resolve", 1)] {
            let children = collaboration::children(ada, &task, kind).await;
            assert_eq!(children.len(), count, "{name}: {children:?}");
        }
        let messages = ada.messages_in(&fork).await;
        assert_eq!(messages.len(), 4, "{name}: {messages:?}");
        let state = collaboration::state(ada, &fork).await;
        assert_eq!(state, ("done".to_owned(), 3), "{name}");
        let thread = text(&begun, "/fork/thread_id");
        let forks = get(ada, &format!("/v1/threads/{thread}/forks")).await;
        assert_eq!(list(&forks.unwrap(), "/data").len(), 1, "{name}");
    }
}

#[tokio::test]
async fn kills_during_collaborations_lose_and_repeat_nothing() {
    let p = prepared().await;
    p.model.answer_by("resolver", |_| collaboration::result());
    let (server, ada) = p.start(&[]).await;
    let agents = [id(&ada.agent("coder").await), id(&ada.agent("vibe").await)];
    server.kill().await;
    let collaboration = Collaboration {
        channel: general(&p).await,
        agents,
    };
    kill_during(&p, &collaboration).await;
}
