//! Crashes between drafting and publishing a resolution.

use serde_json::{Value, json};

use crate::support::{
    Answer, Gate, ModelServer, Person, TestDatabase, TestProcess, drafting, id, list, number,
    sign_up_with_workspace, text,
};

/// Data of a stopped server with a fork in which a decision was made.
pub struct Prepared {
    pub place: TestDatabase,
    pub model: ModelServer,
    pub ada: Person,
    thread: String,
    pub fork: String,
}

pub async fn prepared() -> Prepared {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let server = TestProcess::start(&place, &model, &[]).await;
    let ada = sign_up_with_workspace(&server.base, "Ada").await;
    let started = ada
        .start(&id(&ada.channel("general").await), "Friday or Monday?")
        .await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let fork = id(&ada
        .start_fork(&thread, &root, json!({"agent_id": null}))
        .await);
    ada.say_in(&fork, "Let's ship on Monday.").await;
    ada.say_in(&fork, "Agreed, Monday. I'll book the room.")
        .await;
    server.kill().await;
    Prepared {
        place,
        model,
        ada,
        thread,
        fork,
    }
}

pub fn answer() -> Value {
    json!({"headline": "Ship on Monday", "conclusion": "Monday was agreed.",
        "key_points": [{"text": "Ada wants Monday", "sources": ["m2"]}, {"text": "It was agreed", "sources": ["m3"]}],
        "action_items": [{"text": "Book the room", "owner": "ada", "due": null, "sources": ["m3"]}],
        "open_questions": [], "deferred_items": []})
}

impl Prepared {
    pub async fn start(&self, settings: &[(&str, &str)]) -> (TestProcess, Person) {
        let server = TestProcess::start(&self.place, &self.model, settings).await;
        let ada = self.ada.at(&server.base);
        (server, ada)
    }

    /// Starts a server that crashes when it reaches this failpoint for the first time after its startup.
    async fn doomed(&self, failpoint: &str) -> (TestProcess, Person) {
        // The failpoint can also be reached during startup, so this increases the number until the server starts.
        for n in 1..20 {
            let setting = format!("{failpoint}:{n}");
            let settings = [("FAILPOINT", setting.as_str())];
            let server = TestProcess::try_start(&self.place, &self.model, &settings).await;
            if let Ok(server) = server {
                let ada = self.ada.at(&server.base);
                return (server, ada);
            }
        }
        panic!("the server does not start without {failpoint}");
    }

    /// Returns the draft and the resolution messages. Checks that one of them exists, but not both, that each message was announced
    /// once, and that sequence numbers have no gaps.
    pub async fn check(&self, ada: &Person) -> (Option<Value>, Vec<Value>) {
        let messages = ada.messages(&self.thread).await;
        let cards: Vec<Value> = messages
            .into_iter()
            .filter(|m| m["kind"] == "resolution")
            .collect();
        let fork = ada.fork(&self.fork).await;
        let newest = ada
            .get(&format!("/v1/forks/{}/resolution", self.fork))
            .await;
        let draft = (newest.status == 200)
            .then(|| newest.json())
            .filter(|r| r["status"] == "draft");
        assert_eq!(
            fork["draft_id"],
            draft.as_ref().map_or(Value::Null, |d| d["id"].clone())
        );
        let path = format!("/v1/forks/{}/resolutions", self.fork);
        let versions = list(&ada.get(&path).await.ok(), "/data");
        assert_eq!(versions.len(), cards.len());
        let is_resolved = fork["status"] == "resolved";
        assert_eq!(is_resolved, !cards.is_empty());
        assert_ne!(
            is_resolved,
            draft.is_some(),
            "either a draft or a resolution message"
        );
        let events = ada.events().await;
        let told = |kind: &str| events.iter().filter(|e| e["type"] == kind).count();
        assert_eq!(told("resolution.published"), cards.len());
        let seqs: Vec<i64> = events.iter().map(|e| number(e, "/seq")).collect();
        assert_eq!(
            seqs,
            (1..=i64::try_from(seqs.len()).unwrap()).collect::<Vec<_>>(),
            "without gaps"
        );
        (draft, cards)
    }
}

#[tokio::test]
async fn a_crash_before_storing_the_draft_leaves_one_draft() {
    for failpoint in ["resolve_drafted", "resolve_stored"] {
        let p = prepared().await;
        p.model.script("resolver", vec![drafting(&answer()); 2]);
        let (server, ada) = p.doomed(failpoint).await;
        let task = ada.resolve(&p.fork).await;
        server.exited().await;
        let (_server, ada) = p.start(&[]).await;
        let done = ada.completed(&task).await;
        let (draft, cards) = p.check(&ada).await;
        let draft = draft.unwrap();
        assert!(cards.is_empty());
        assert_eq!(done["output"]["resolution_id"], draft["id"]);
        assert_eq!(draft["headline"], "Ship on Monday");
        let drafted = ada.events().await;
        let drafted = drafted.iter().filter(|e| e["type"] == "resolution.drafted");
        assert_eq!(drafted.count(), 1, "{failpoint}");
    }
}

#[tokio::test]
async fn a_crash_with_publish_true_leaves_one_resolution_message() {
    for failpoint in ["resolve_drafted", "publish", "resolve_stored"] {
        let p = prepared().await;
        p.model.script("resolver", vec![drafting(&answer()); 2]);
        let (server, ada) = p.doomed(failpoint).await;
        let resolving = ada
            .try_resolve(&p.fork, json!({"publish": true}))
            .await
            .is(202);
        server.exited().await;
        let (_server, ada) = p.start(&[]).await;
        let done = ada.completed(&text(&resolving, "/task/id")).await;
        let (draft, cards) = p.check(&ada).await;
        assert!(draft.is_none());
        assert_eq!(cards.len(), 1, "{failpoint}");
        assert_eq!(done["output"]["message_id"], cards[0]["id"]);
    }
}

#[tokio::test]
async fn a_crash_while_publishing_leaves_the_draft_or_the_resolution_message() {
    let p = prepared().await;
    let (server, ada) = p.start(&[]).await;
    ada.begin_draft(&p.fork, json!({"headline": "Ship on Monday"}))
        .await;
    server.kill().await;
    let path = format!("/v1/forks/{}/publish", p.fork);
    for failpoint in ["publish", "before_commit", "after_commit"] {
        let (server, ada) = p.doomed(failpoint).await;
        assert!(ada.try_post(&path, json!({})).await.is_none());
        server.exited().await;
        let (server, ada) = p.start(&[]).await;
        let (draft, cards) = p.check(&ada).await;
        assert_eq!(
            (draft.is_some(), cards.len()),
            if failpoint == "after_commit" {
                (false, 1)
            } else {
                (true, 0)
            },
            "{failpoint}"
        );
        server.kill().await;
    }
    let (_server, ada) = p.start(&[]).await;
    let again = ada.publish(&p.fork).await;
    let (_, cards) = p.check(&ada).await;
    assert_eq!(
        cards,
        [again["message"].clone()],
        "the same resolution message"
    );
    let items = ada.get("/v1/decisions").await.ok();
    assert_eq!(list(&items, "/data").len(), 1);
}

#[tokio::test]
async fn a_crash_while_publishing_a_second_version_leaves_one_of_the_versions() {
    let p = prepared().await;
    let (server, ada) = p.start(&[]).await;
    let first = ada
        .publish_as(
            &p.fork,
            json!({"headline": "Friday", "action_items": [{"text": "Book the room"}]}),
        )
        .await;
    ada.reopen(&p.fork).await;
    ada.change_draft(&p.fork, json!({"headline": "Monday"}))
        .await;
    server.kill().await;
    let (server, ada) = p.doomed("publish").await;
    let path = format!("/v1/forks/{}/publish", p.fork);
    assert!(ada.try_post(&path, json!({})).await.is_none());
    server.exited().await;
    let (_server, ada) = p.start(&[]).await;
    let decisions = list(&ada.get("/v1/decisions").await.ok(), "/data");
    assert_eq!(
        decisions,
        [first["resolution"].clone()],
        "nothing from the second publication"
    );
    let second = ada.publish(&p.fork).await;
    assert_eq!(second["resolution"]["version"], 2);
    let items = list(&ada.get("/v1/action-items").await.ok(), "/data");
    assert_eq!(items.len(), 1);
    assert_eq!(items[0]["id"], first["resolution"]["action_items"][0]["id"]);
}

#[tokio::test]
async fn a_resolve_that_loses_its_worker_three_times_ends_with_an_extracted_draft() {
    let p = prepared().await;
    let gates: Vec<Gate> = (0..3).map(|_| Gate::new()).collect();
    p.model.script(
        "resolver",
        gates
            .iter()
            .map(|gate| Answer::stream().piece("{\"headline\":").wait(gate)),
    );
    let mut task = String::new();
    for (n, gate) in gates.iter().enumerate() {
        let (server, ada) = p.start(&[]).await;
        if n == 0 {
            task = ada.resolve(&p.fork).await;
        }
        gate.reached().await;
        server.kill().await;
    }
    let (_server, ada) = p.start(&[]).await;
    let done = ada.completed(&task).await;
    let (draft, _) = p.check(&ada).await;
    let draft = draft.unwrap();
    assert_eq!(draft["generated_by"], "builtin");
    assert_eq!(done["output"]["resolution_id"], draft["id"]);
    assert_eq!(
        p.model.asked("resolver", 3).await.len(),
        3,
        "no fourth model call"
    );
    assert_eq!(ada.messages_in(&p.fork).await.len(), 2, "no notice");
}

#[tokio::test]
async fn a_running_resolve_resumes_after_a_restart() {
    let p = prepared().await;
    let gate = Gate::new();
    p.model.script(
        "resolver",
        [Answer::stream().piece("{").wait(&gate), drafting(&answer())],
    );
    let (server, ada) = p.start(&[]).await;
    let task = ada.resolve(&p.fork).await;
    gate.reached().await;
    server.terminate();
    assert!(server.exited().await.success());
    let (_server, ada) = p.start(&[]).await;
    ada.completed(&task).await;
    let (draft, _) = p.check(&ada).await;
    assert_eq!(draft.unwrap()["headline"], "Ship on Monday");
}

#[tokio::test]
async fn retrying_a_dive_start_after_a_crash_creates_no_second_dive() {
    let p = prepared().await;
    let path = format!("/v1/threads/{}/forks", p.thread);
    let (server, ada) = p.start(&[]).await;
    let root = id(&ada.messages(&p.thread).await[0]);
    server.kill().await;
    for (n, failpoint) in ["before_commit", "after_commit"].iter().enumerate() {
        let form = json!({"message_id": root, "client_id": failpoint, "agent_id": null});
        let (server, ada) = p.doomed(failpoint).await;
        assert!(ada.try_post(&path, form.clone()).await.is_none());
        server.exited().await;
        let (server, ada) = p.start(&[]).await;
        let again = ada.post(&path, form).await;
        assert_eq!(again.status, if n == 0 { 201 } else { 200 }, "{failpoint}");
        let forks = list(&ada.get(&path).await.ok(), "/data");
        assert_eq!(forks.len(), n + 2, "{failpoint}");
        server.kill().await;
    }
}
