//! Invariants checked after all faults.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use chrono::Utc;
use serde_json::{Value, json};

use super::{
    Stage, say,
    worker::{Worker, hash, word},
};
use crate::{
    property::{Fresh, fresh},
    support::{Person, id, list, number, text},
};

/// Messages by thread and number.
type Messages = BTreeMap<(String, i64), Value>;

/// Messages and forks of a channel, loaded from scratch.
pub(super) async fn messages(person: &Person, channel: &str) -> (Messages, Vec<String>) {
    let (mut messages, mut places, mut forks) = (Messages::new(), Vec::new(), Vec::new());
    let threads = person
        .every(&format!("/v1/channels/{channel}/threads"))
        .await;
    for thread in threads.iter().map(id) {
        let dives = person.every(&format!("/v1/threads/{thread}/forks")).await;
        forks.extend(dives.iter().map(id));
        places.push(format!("/v1/threads/{thread}/messages"));
    }
    places.extend(
        forks
            .iter()
            .map(|fork| format!("/v1/forks/{fork}/messages")),
    );
    for place in places {
        let mut before = String::new();
        loop {
            let page = person.get(&format!("{place}?limit=100{before}")).await.ok();
            for message in list(&page, "/data") {
                let key = (text(&message, "/thread_id"), number(&message, "/seq"));
                let known = messages.insert(key, message);
                assert_eq!(known, None, "a message is listed twice");
            }
            if page["has_more"] == false {
                break;
            }
            before = format!("&before={}", text(&page, "/first_id"));
        }
    }
    (messages, forks)
}

/// Maximum time without progress of any task, whatever responses are scripted: longer than the lease of a compaction that a reply's
/// worker runs.
const SOME_TASK_WITHIN: Duration = Duration::from_secs(40);

/// Waits until every task has ended. Cancels tasks that would wait for minutes, such as a failed compaction.
async fn tasks_to_end(person: &Person) {
    let (mut known, mut changed_at) = (Vec::new(), Instant::now());
    loop {
        let mut left = Vec::new();
        for status in ["queued", "running"] {
            left.extend(person.every(&format!("/v1/tasks?status={status}")).await);
        }
        if left.is_empty() {
            return;
        }
        let soon = (Utc::now() + SOME_TASK_WITHIN / 2).to_rfc3339();
        for task in left.iter().filter(|t| t["retry_at"].as_str() > Some(&soon)) {
            // Canceling another person's task returns 403; the loop over the people cancels it later.
            let path = format!("/v1/tasks/{}/cancel", id(task));
            person.post(&path, json!({})).await;
        }
        if left != known {
            (known, changed_at) = (left, Instant::now());
        }
        assert!(
            changed_at.elapsed() < SOME_TASK_WITHIN,
            "tasks that do not end: {known:?}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until every task has ended, including personal ones, and no more events are added.
async fn work_to_end(people: &[Person]) {
    loop {
        let before = head(&people[0]).await;
        for person in people {
            tasks_to_end(person).await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        if head(&people[0]).await == before {
            return;
        }
    }
}

async fn head(person: &Person) -> i64 {
    number(&person.get("/v1/snapshot").await.ok(), "/seq")
}

/// Checks that sequence numbers have no gaps, and that each task ends once and does not change afterwards. Changes of inbox items are
/// events for one person, so the log is what all people see together.
async fn log(people: &[Person]) -> i64 {
    let mut events: BTreeMap<i64, Value> = BTreeMap::new();
    for person in people {
        let seen = person.events().await;
        events.extend(
            seen.into_iter()
                .map(|event| (number(&event, "/seq"), event)),
        );
    }
    let mut ended: BTreeMap<String, String> = BTreeMap::new();
    for ((seq, event), n) in events.iter().zip(1..) {
        assert_eq!(*seq, n, "the log has a gap");
        if event["type"] == "task.status_changed" {
            let task = &event["data"]["task"];
            let before = ended.get(&id(task));
            assert_eq!(before, None, "the task changed after its end: {task}");
            let status = text(task, "/status");
            if !matches!(status.as_str(), "queued" | "running") {
                ended.insert(id(task), status);
            }
        }
    }
    let head = head(&people[0]).await;
    assert_eq!(i64::try_from(events.len()).unwrap(), head);
    head
}

/// Number of occurrences of each key.
fn how_many(keys: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for key in keys {
        *counts.entry(key).or_default() += 1;
    }
    counts
}

fn more_than_once(keys: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = how_many(keys);
    counts.retain(|_, n| *n > 1);
    counts
}

/// Checks that no write was applied twice.
fn once(stored: &Messages, tasks: &[Value]) {
    let messages = || stored.values();
    let twice = more_than_once(messages().filter_map(|m| {
        let client_id = m["client_id"].as_str()?;
        Some(format!("{} {client_id}", text(m, "/author/id")))
    }));
    assert!(twice.is_empty(), "stored twice: {twice:?}");
    let twice = more_than_once(messages().filter_map(|m| {
        let task = m["metadata"]["task_id"].as_str()?;
        Some(format!("{task} {}", text(m, "/kind")))
    }));
    assert!(twice.is_empty(), "posted twice: {twice:?}");
    let twice = more_than_once(messages().filter_map(|m| {
        let is_reply = m["author"]["type"] == "agent" && m["kind"] == "text";
        let is_whole = m["state"] == "complete" && m["deleted_at"].is_null();
        (is_reply && is_whole).then(|| text(m, "/parent_id"))
    }));
    assert!(twice.is_empty(), "answered twice: {twice:?}");
    let open = messages().find(|m| m["state"] == "streaming");
    assert_eq!(open, None, "a reply does not end");
    let by_id: BTreeMap<String, &Value> = messages().map(|m| (id(m), m)).collect();
    for task in tasks {
        if task["kind"] == "reply" && task["status"] == "completed" {
            let reply = by_id[&text(task, "/output/message_id")];
            assert_eq!(reply["state"], "complete", "{task} {reply}");
            assert_eq!(reply["parent_id"], task["trigger_message_id"]);
        }
    }
}

/// Checks that every published version of a resolution has exactly one resolution message. Returns their number.
async fn cards(person: &Person, stored: &Messages, forks: &[String]) -> usize {
    let of_dives = stored.values().filter(|m| m["kind"] == "resolution");
    let cards = how_many(of_dives.map(|m| text(m, "/metadata/resolution_id")));
    let mut results = BTreeMap::new();
    for fork in forks {
        let versions = person.every(&format!("/v1/forks/{fork}/resolutions")).await;
        results.extend(versions.iter().map(|result| (id(result), 1)));
    }
    assert_eq!(cards, results);
    cards.len()
}

pub(super) async fn all(stage: &Stage, workers: Vec<Worker>) {
    let bases = stage.bases.borrow().clone();
    let at_first = |worker: &Worker| worker.client.person.at(&bases[0]);
    let people: Vec<Person> = workers.iter().map(at_first).collect();
    let ada = &people[0];
    work_to_end(&people).await;
    let head = log(&people).await;
    let (stored, forks) = messages(ada, &stage.general).await;
    let tasks = ada.every("/v1/tasks").await;
    once(&stored, &tasks);
    let cards = cards(ada, &stored, &forks).await;
    let fresh = fresh(ada, &forks).await;
    for base in &bases[1..] {
        let there: Vec<Person> = people.iter().map(|person| person.at(base)).collect();
        is_the_same_at(&there, stage, (&stored, &fresh), head).await;
    }
    let posts: usize = workers.iter().map(|w| w.acknowledged.posts.len()).sum();
    for (n, mut worker) in workers.into_iter().enumerate() {
        worker.client.person = worker.client.person.at(&bases[n % bases.len()]);
        acknowledged(&worker, &stored, &tasks).await;
        agrees(&mut worker, &stored, &fresh, head).await;
    }
    let again = *stage.again.borrow();
    let by_status = how_many(tasks.iter().map(|t| text(t, "/status")));
    let mut waits = stage.waits.borrow().clone();
    waits.sort();
    let p99 = waits
        .get(waits.len() * 99 / 100)
        .copied()
        .unwrap_or_default();
    say(&format!(
        "{} acts, {posts} posts acknowledged, {again} requests sent again (99 % of them answered within {p99:.1?}), {head} events, \
         {} messages, {} dives, {cards} cards, tasks {by_status:?}: all there, once",
        stage.acts(),
        stored.len(),
        forks.len()
    ));
}

/// Checks that a fresh load from another node equals the one from the first node.
async fn is_the_same_at(
    people: &[Person],
    stage: &Stage,
    (stored, fresh_there): (&Messages, &Fresh),
    head: i64,
) {
    let ada = &people[0];
    assert_eq!(log(people).await, head);
    let (messages, forks) = messages(ada, &stage.general).await;
    assert_eq!(messages, *stored, "messages at {}", ada.base);
    assert_eq!(fresh(ada, &forks).await, *fresh_there, "at {}", ada.base);
}

/// Checks that the state of a client that replays events equals a fresh load.
async fn agrees(worker: &mut Worker, stored: &Messages, fresh: &Fresh, head: i64) {
    let (name, client) = (&worker.name, &mut worker.client);
    client.let_go();
    client.read_through(head).await;
    for (place, message) in stored {
        let shown = client.messages.get(place);
        assert_eq!(shown, Some(message), "{name} shows a different message");
    }
    assert_eq!(
        client.messages.len(),
        stored.len(),
        "{name} shows too many messages"
    );
    client.compare(fresh);
}

/// Checks that every write that was acknowledged to a client is stored.
async fn acknowledged(worker: &Worker, stored: &Messages, tasks: &[Value]) {
    let (name, known, person) = (&worker.name, &worker.acknowledged, &worker.client.person);
    let by_id: BTreeMap<String, &Value> = stored.values().map(|m| (id(m), m)).collect();
    let is_deleted = |message: &str| by_id[message]["deleted_at"].is_string();
    for (client_id, message) in &known.posts {
        let stored = by_id.get(message);
        let stored = stored.unwrap_or_else(|| panic!("{client_id} was acknowledged and is gone"));
        assert_eq!(stored["client_id"], client_id.as_str());
    }
    for (message, said) in &known.texts {
        let says = (!is_deleted(message)).then(|| text(by_id[message], "/content"));
        assert!(
            said.contains(&says),
            "{message}: expected {said:?}, got {says:?}"
        );
    }
    let found = known
        .texts
        .iter()
        .filter_map(|(message, said)| match said.as_slice() {
            [Some(said)] => Some((message, said)),
            _ => None,
        });
    for (message, said) in found.step_by(7) {
        let hits = person.every(&format!("/v1/search?q={}", word(said))).await;
        assert!(
            hits.iter().any(|hit| id(hit) == *message),
            "not found: {said}"
        );
    }
    for (description, fork) in &known.forks {
        let fork = person.fork(fork).await;
        assert_eq!(fork["description"], description.as_str());
    }
    for card in &known.cards {
        assert_eq!(by_id[card]["kind"], "resolution");
    }
    let statuses: BTreeMap<String, String> =
        tasks.iter().map(|t| (id(t), text(t, "/status"))).collect();
    for (task, ended) in &known.tasks {
        let status = &statuses[task];
        assert!(ended.as_ref().is_none_or(|ended| ended == status), "{task}");
    }
    for ((message, emoji), wanted) in &known.reactions {
        let reactions = list(by_id[message], "/reactions");
        let of_emoji = reactions.iter().find(|r| r["emoji"] == emoji.as_str());
        let is_there = of_emoji.is_some_and(|r| list(r, "/user_ids").contains(&json!(person.id)));
        if let Some(wanted) = wanted
            && !is_deleted(message)
        {
            assert_eq!(is_there, *wanted, "{emoji} of {name} at {message}");
        }
    }
    for (message, (url, hash_then)) in &known.files {
        if !is_deleted(message) {
            let file = person.get(url).await;
            assert_eq!(hash(file.text.as_bytes()), *hash_then, "{url}");
        }
    }
    for (thread, seq) in &known.reads {
        let thread = person.get(&format!("/v1/threads/{thread}")).await.ok();
        // The read marker can be higher, because the whole channel is marked as read when it has no more unread messages.
        assert!(number(&thread, "/read_seq") >= *seq, "{thread}");
    }
    for left in &known.left {
        let reply = left.at(&person.base).get("/v1/auth/me").await;
        assert_eq!(reply.status, 401, "a revoked session of {name}");
    }
}
