//! Paragraphs of agents' files, which are used as entries.

use serde_json::{Value, json};

use super::{path, remember};
use crate::support::{Person, Team, id, list, team, text};

struct Sage {
    t: Team,
    agent: String,
}

impl Sage {
    async fn new() -> Self {
        let t = team().await;
        let agent = id(&t.ada.make_agent("sage").await);
        Self { t, agent }
    }

    fn file(&self, path: &str) -> String {
        format!("/v1/agents/{}/files/{path}", self.agent)
    }

    async fn write(&self, path: &str, content: &str) {
        let body = json!({"content": content});
        self.t.bo.put(&self.file(path), body).await.is(200);
    }

    /// Entries of the agent, oldest first.
    async fn entries(&self) -> Vec<Value> {
        let path = format!("/v1/memories?scope=agent&agent_id={}", self.agent);
        let mut entries = self.t.bo.every(&path).await;
        entries.sort_by_key(id);
        entries
    }

    async fn texts(&self) -> Vec<String> {
        let entries = self.entries().await;
        entries.iter().map(|entry| text(entry, "/text")).collect()
    }

    /// Asks a question in a new thread; returns the task and the model request.
    async fn asked(&self, who: &Person, question: &str) -> (String, String) {
        let thread = who.thread(&self.t.general, "Root").await;
        let task = who.ask(&thread, &format!("@sage {question}")).await;
        who.completed(&task).await;
        let request = self.t.model().requests().pop().unwrap();
        (task, request.turns().join("\n\n"))
    }
}

#[tokio::test]
async fn paragraphs_of_logs_are_read_only_entries() {
    let s = Sage::new().await;
    let log =
        "# Monday\n\nThe ferry left late.\n\nThe harbor was closed.\n\nThe harbor was closed.\n";
    s.write("memory/2026-11-16.md", log).await;
    let wanted = ["# Monday\n\nThe ferry left late.", "The harbor was closed."];
    assert_eq!(s.texts().await, wanted);
    let entry = s.entries().await.remove(1);
    for (field, wanted) in [
        ("scope", json!("agent")),
        ("kind", json!("note")),
        ("origin", json!("file")),
        ("visibility", json!("workspace")),
        ("trust", json!("person")),
        ("agent_id", json!(s.agent)),
        ("created_by", Value::Null),
        ("created_at", json!("2026-11-16T00:00:00.000Z")),
    ] {
        assert_eq!(entry[field], wanted, "{field}");
    }
    for change in [json!({"text": "Open"}), json!({"kind": "fact"})] {
        let reply = s.t.ada.patch(&path(&entry), change).await;
        assert_eq!(reply.refused(409), "from_file");
    }
    let reply = s.t.ada.delete(&path(&entry)).await;
    assert_eq!(reply.refused(409), "from_file");
    let all = format!("/v1/memories?agent_id={}", s.agent);
    assert_eq!(s.t.ada.delete(&all).await.is(200)["deleted"], 0);
    assert_eq!(s.entries().await.len(), 2);
}

#[tokio::test]
async fn entries_follow_their_file() {
    let s = Sage::new().await;
    s.write("memory/2026-11-16.md", "One pier.\n\nTwo piers.")
        .await;
    s.write("memory/2026-11-17.md", "One pier.\n\nFour piers.")
        .await;
    let kept = s.entries().await.remove(0);
    s.write("memory/2026-11-16.md", "Three piers.\n\nOne pier.")
        .await;
    let wanted = ["One pier.", "One pier.", "Four piers.", "Three piers."];
    assert_eq!(s.texts().await, wanted);
    assert_eq!(s.entries().await[0], kept);
    s.t.bo.delete(&s.file("memory/2026-11-16.md")).await.is(204);
    assert_eq!(s.texts().await, ["One pier.", "Four piers."]);
    s.t.ada
        .delete(&format!("/v1/agents/{}", s.agent))
        .await
        .is(200);
    assert_eq!(s.entries().await.len(), 2, "archiving keeps them");
    let permanently = format!("/v1/agents/{}?permanent=true", s.agent);
    s.t.ada.delete(&permanently).await.is(200);
    assert_eq!(s.t.app.place.count("memories").await, 0);
    assert_eq!(s.t.app.place.count("memory_words").await, 0);
}

#[tokio::test]
async fn a_log_is_searched_and_never_sent_whole() {
    let s = Sage::new().await;
    let log = "The harbor ferry starts at Pier 4711.\n\nBicycles are parked below.";
    s.write("memory/2026-11-16.md", log).await;
    let (task, sent) = s
        .asked(&s.t.ada, "where does the harbor ferry start?")
        .await;
    assert!(
        sent.contains("- (note, 2026-11-16) The harbor ferry starts at Pier 4711."),
        "{sent}"
    );
    assert!(!sent.contains("Bicycles"), "{sent}");
    let seen = s.t.bo.task_context(&task).await;
    assert_eq!(seen["memories"]["considered"], json!({"agent": 1}));
    assert_eq!(list(&seen, "/memories/used")[0]["scope"], "agent");
    // Other agents do not use this memory.
    let thread = s.t.ada.thread(&s.t.general, "Root").await;
    let task =
        s.t.ada
            .ask(&thread, "@vibe where does the harbor ferry start?")
            .await;
    s.t.ada.completed(&task).await;
    assert!(
        !s.t.model()
            .requests()
            .pop()
            .unwrap()
            .all()
            .contains(" 4711")
    );
}

#[tokio::test]
async fn the_rest_of_memory_md_is_searched() {
    let s = Sage::new().await;
    let notes = format!(
        "The lighthouse is white.\n\n{}\n\nThe harbor ferry starts at Pier 4711.",
        "All work and no play. ".repeat(400)
    );
    s.write("MEMORY.md", &notes).await;
    let texts = s.texts().await;
    assert!(!texts.iter().any(|text| text.contains("lighthouse")));
    assert_eq!(
        texts.last().unwrap(),
        "The harbor ferry starts at Pier 4711."
    );
    let (_, sent) = s.asked(&s.t.ada, "good morning").await;
    assert!(sent.contains("lighthouse") && !sent.contains(" 4711"));
    let (_, sent) = s
        .asked(&s.t.ada, "where does the harbor ferry start?")
        .await;
    assert!(
        sent.contains(") The harbor ferry starts at Pier 4711."),
        "{sent}"
    );
    s.write("MEMORY.md", "The harbor ferry starts at Pier 4711.")
        .await;
    assert_eq!(s.entries().await.len(), 0, "all of it is sent");
}

#[tokio::test]
async fn secrets_and_other_files_are_not_searched() {
    let s = Sage::new().await;
    let log = "The password is Hunter22.\n\nThe harbor is open.";
    s.write("memory/2026-11-16.md", log).await;
    s.write("notes.md", "The ferry is green.").await;
    s.write("AGENTS.md", "Be brief.").await;
    assert_eq!(s.texts().await, ["The harbor is open."]);
}

#[tokio::test]
async fn files_of_an_import_are_searched() {
    let s = Sage::new().await;
    let agent = json!({"name": "owl", "instructions": "You are Owl."});
    let files = json!({"memory/2026-11-16.md": "The harbor is open.", "MEMORY.md": "Short."});
    let body = json!({"agent": agent, "files": files});
    let owl = s.t.bo.post("/v1/agents/import", body).await.is(201);
    let path = format!("/v1/memories?scope=agent&agent_id={}", id(&owl));
    let entries = s.t.bo.every(&path).await;
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["text"], "The harbor is open.");
    // Method names that other clients use also work.
    let set =
        json!({"agent_id": "owl", "path": "memory/2026-11-16.md", "content": "It is closed."});
    s.t.bo.post("/v1/rpc/agents.files.set", set).await.is(200);
    assert_eq!(s.t.bo.every(&path).await[0]["text"], "It is closed.");
}

#[tokio::test]
async fn an_import_makes_as_many_entries_as_an_agent_can_have() {
    let s = Sage::new().await;
    let log = |day: u32| -> String {
        let paragraphs = (1..=1_001).map(|n| format!("On day {day}, ferry {n} was full.\n\n"));
        paragraphs.collect()
    };
    let agent = json!({"name": "owl", "instructions": "You are Owl."});
    let path = |day: u32| format!("memory/2026-11-{day}.md");
    let files = json!({path(16): log(16), path(17): log(17), path(18): log(18)});
    let body = json!({"agent": agent, "files": files});
    s.t.bo.post("/v1/agents/import", body).await.is(201);
    for (day, wanted) in [(16, 0), (17, 1_000), (18, 1_000)] {
        let entries = format!("memories where path = '{}'", path(day));
        assert_eq!(s.t.app.place.count(&entries).await, wanted, "{day}");
    }
}

#[tokio::test]
async fn a_file_outlives_the_account_of_its_writer() {
    let s = Sage::new().await;
    s.write("memory/2026-11-16.md", "The harbor is open.").await;
    remember(&s.t.bo, "The ferry is green", json!({})).await;
    s.t.ada.erase(&s.t.bo).await;
    let path = format!("/v1/memories?scope=agent&agent_id={}", s.agent);
    assert_eq!(s.t.ada.every(&path).await.len(), 1);
    assert_eq!(s.t.app.place.count("memories").await, 1);
}
