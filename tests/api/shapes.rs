//! Snapshots of frames, objects, errors, and a prompt. A change here is a change of the API.

use std::collections::{BTreeMap, HashMap};

use regex::Regex;
use serde_json::{Map, Value, json};

use crate::support::{Answer, Gate, drafting, id, team, text, unknown_id, visitor};

/// Replaces IDs and times with names, numbered in order of first appearance, so that two runs produce the same output.
#[derive(Default)]
struct Names {
    known: HashMap<String, String>,
    counts: HashMap<String, usize>,
}

impl Names {
    fn name(&mut self, kind: &str, text: &str) -> String {
        if let Some(name) = self.known.get(text) {
            return name.clone();
        }
        let n = self.counts.entry(kind.to_owned()).or_default();
        *n += 1;
        let name = format!("[{kind} {n}]");
        self.known.insert(text.to_owned(), name.clone());
        name
    }

    fn redact(&mut self, value: &Value) -> Value {
        let ids = Regex::new(r"\b([a-z]+)_[0-7][0-9a-z]{25}\b").unwrap();
        let times = Regex::new(r"^\d{4}-\d\d-\d\dT[\d:]+\.\d{3}Z$").unwrap();
        match value {
            Value::String(text) if times.is_match(text) => "[time]".into(),
            Value::String(text) => {
                let named = ids.replace_all(text, |found: &regex::Captures<'_>| {
                    self.name(&found[1], &found[0])
                });
                named.into_owned().into()
            }
            Value::Array(items) => items.iter().map(|item| self.redact(item)).collect(),
            Value::Object(fields) => {
                let mut redacted = Map::new();
                for (field, value) in fields {
                    let value = match field.as_str() {
                        "epoch" | "session_id" | "token" | "key" | "url" | "user_agent"
                            if value.is_string() =>
                        {
                            format!("[{field}]").into()
                        }
                        _ => self.redact(value),
                    };
                    redacted.insert(field.clone(), value);
                }
                Value::Object(redacted)
            }
            other => other.clone(),
        }
    }
}

#[tokio::test]
async fn durable_frames_match_the_snapshot() {
    let t = team().await;
    let gate = Gate::new();
    t.model().script(
        "vibe",
        [Answer::stream().piece("Yes").wait(&gate).piece(".").end()],
    );
    let cy = t.app.join(&t.ada, "Cy", "viewer").await;
    t.ada
        .patch(&format!("/v1/members/{}", cy.id), json!({"role": "member"}))
        .await
        .is(200);
    t.ada
        .delete(&format!("/v1/members/{}", cy.id))
        .await
        .is(204);
    t.ada
        .patch(
            &format!("/v1/workspaces/{}", t.ada.workspace),
            json!({"name": "Acme"}),
        )
        .await
        .is(200);
    let channel = id(&t
        .ada
        .post(
            "/v1/channels",
            json!({"name": "launch", "topic": "The fair"}),
        )
        .await
        .is(201));
    t.bo.act(&format!("/v1/channels/{channel}/join"))
        .await
        .is(200);
    t.bo.act(&format!("/v1/channels/{channel}/leave"))
        .await
        .is(200);
    t.ada
        .patch(
            &format!("/v1/channels/{channel}"),
            json!({"topic": "In May"}),
        )
        .await
        .is(200);
    t.ada
        .act(&format!("/v1/channels/{channel}/archive"))
        .await
        .is(200);
    let agent = id(&t.ada.make_agent("sage").await);
    t.ada
        .patch(
            &format!("/v1/agents/{agent}"),
            json!({"description": "Knows"}),
        )
        .await
        .is(200);
    let path = format!("/v1/channels/{}/threads", t.general);
    let form =
        json!({"content": "**Friday** or Monday, @bo?", "title": "The day", "client_id": "c-1"});
    let started = t.ada.post(&path, form).await.is(201);
    let (thread, message) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    t.ada
        .patch(
            &format!("/v1/threads/{thread}"),
            json!({"title": "Which day"}),
        )
        .await
        .is(200);
    t.bo.put(&format!("/v1/messages/{message}/reactions/tada"), json!({}))
        .await
        .is(200);
    t.bo.delete(&format!("/v1/messages/{message}/reactions/tada"))
        .await
        .is(200);
    let task = t.ada.ask(&thread, "@vibe Monday?").await;
    gate.reached().await;
    gate.open();
    t.ada.completed(&task).await;
    t.ada
        .delete(&format!("/v1/messages/{message}"))
        .await
        .is(200);

    let mut names = Names::default();
    let mut first: BTreeMap<String, Value> = BTreeMap::new();
    for event in t.ada.events().await {
        let mut kind = text(&event, "/type");
        if let Some(status) = event["data"]["task"]["status"].as_str() {
            kind = format!("{kind} {status}");
        } else if let Some(author) = event
            .pointer("/data/message/author/type")
            .and_then(Value::as_str)
        {
            kind = format!("{kind} {author}");
        }
        let frame = names.redact(&event);
        first.entry(kind).or_insert(frame);
    }
    insta::assert_json_snapshot!("durable_frames", first);
}

#[tokio::test]
async fn dive_frames_match_the_snapshot() {
    let t = team().await;
    let dive = t.dive().await;
    let said = t.bo.tell_in(&dive.fork, "Let's ship on Monday.").await;
    let draft = json!({"headline": "Ship on Monday", "conclusion": "Bo wants it.",
        "key_points": [{"text": "Monday is quiet", "sources": [said]}],
        "action_items": [{"text": "Book the room", "owner_id": t.bo.id, "due": "2026-12-01", "sources": [dive.root]}],
        "open_questions": [{"text": "Who pays?"}], "deferred_items": [{"text": "The banner"}]});
    t.ada.begin_draft(&dive.fork, draft).await;
    let published = t.ada.publish(&dive.fork).await;
    let item = text(&published, "/resolution/action_items/0/id");
    t.bo.patch(&format!("/v1/action-items/{item}"), json!({"done": true}))
        .await
        .is(200);
    t.bo.reopen(&dive.fork).await;
    t.bo.publish_as(&dive.fork, json!({"headline": "Ship on Tuesday"}))
        .await;
    let other = t.dive().await;
    t.ada.say_in(&other.fork, "Whatever.").await;
    t.model().script(
        "resolver",
        [drafting(
            &json!({"headline": "Whatever", "conclusion": "Whatever.",
            "key_points": [{"text": "Whatever", "sources": ["m2"]}]}),
        )],
    );
    let task = t.ada.resolve(&other.fork).await;
    t.ada.completed(&task).await;

    let mut names = Names::default();
    let mut first: BTreeMap<String, Value> = BTreeMap::new();
    for event in t.ada.events().await {
        let kind = text(&event, "/type");
        let frame = names.redact(&event);
        let status = event["data"]["task"]["status"].as_str();
        let kind = match (kind.as_str(), status, event["fork_id"].is_string()) {
            ("task.status_changed", Some(status), _) => format!("task {status}"),
            ("message.created", _, false) if event["data"]["message"]["kind"] == "resolution" => {
                "card".to_owned()
            }
            (_, _, true) => kind,
            _ => continue,
        };
        first.entry(kind).or_insert(frame);
    }
    insta::assert_json_snapshot!("dive_frames", first);
}

#[tokio::test]
async fn dive_objects_match_the_snapshot() {
    let t = team().await;
    let started = t.ada.start(&t.general, "Friday or Monday?").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let fork = id(&t
        .ada
        .start_fork(&thread, &root, json!({"description": "Which day?"}))
        .await);
    let reply = t.bo.ask_in(&fork, "Monday suits all.").await;
    t.bo.completed(&reply).await;
    let source = id(&t.ada.messages_in(&fork).await[0]);
    let content = json!({"headline": "Ship on Monday", "conclusion": "Bo wants it.",
        "key_points": [{"text": "Monday is quiet", "sources": [source]}],
        "action_items": [{"text": "Book the room", "owner_id": t.bo.id, "due": "2026-12-01"}, {"text": "Bake", "owner_name": "May"}],
        "open_questions": [{"text": "Who pays?"}], "deferred_items": [{"text": "The banner"}]});
    let draft = t.ada.begin_draft(&fork, content).await;
    let before = t.ada.fork(&fork).await;
    let published = t.ada.publish(&fork).await;
    let mut names = Names::default();
    let mut objects: BTreeMap<&str, Value> = BTreeMap::new();
    for (name, value) in [
        ("dive", before),
        (
            "dives",
            t.ada.get(&format!("/v1/threads/{thread}/forks")).await.ok(),
        ),
        (
            "messages",
            t.ada.get(&format!("/v1/forks/{fork}/messages")).await.ok(),
        ),
        ("task", t.ada.task(&reply).await),
        ("draft", draft),
        ("published", published),
        (
            "versions",
            t.ada
                .get(&format!("/v1/forks/{fork}/resolutions"))
                .await
                .ok(),
        ),
        ("decisions", t.ada.get("/v1/decisions").await.ok()),
        ("action items", t.ada.get("/v1/action-items").await.ok()),
    ] {
        objects.insert(name, names.redact(&value));
    }
    insta::assert_json_snapshot!("dive_objects", objects);
}

#[tokio::test]
async fn dive_errors_match_the_snapshot() {
    let t = team().await;
    let dive = t.dive().await;
    let none = format!("/v1/forks/{}/resolution", dive.fork);
    let sibling = id(&t
        .ada
        .start_fork(&dive.thread, &dive.root, json!({"agent_id": null}))
        .await);
    let elsewhere = t.ada.tell_in(&sibling, "There").await;
    let mut replies = vec![
        t.ada.try_fork(&dive.thread, &elsewhere, json!({})).await,
        t.ada
            .get(&format!("/v1/forks/{}", unknown_id("fork")))
            .await,
        t.ada.try_resolve(&dive.fork, json!({})).await,
        t.ada.get(&none).await,
        t.ada.try_publish(&dive.fork, json!({})).await,
        t.ada.patch(&none, json!({})).await,
    ];
    t.ada
        .begin_draft(&dive.fork, json!({"headline": "Monday"}))
        .await;
    t.ada.say_in(&dive.fork, "Said").await;
    let edit = async |form: Value| t.ada.edit_draft(&dive.fork, 1, form).await;
    replies.extend([
        t.ada.edit_draft(&dive.fork, 0, json!({})).await,
        t.ada.try_resolve(&dive.fork, json!({})).await,
        edit(json!({"headline": "x".repeat(121)})).await,
        edit(json!({"headline": null})).await,
        edit(json!({"key_points": [{"text": "x", "sources": [elsewhere]}]})).await,
        edit(json!({"open_questions": [{"text": " "}]})).await,
        edit(json!({"action_items": [{"text": "x", "owner_id": unknown_id("user")}]})).await,
        edit(json!({"action_items": [{"text": "x", "id": unknown_id("item")}]})).await,
        edit(json!({"action_items": [{"text": "x", "due": "soon"}]})).await,
        t.ada
            .try_publish(&dive.fork, json!({"resolution": {"headline": " "}}))
            .await,
        t.ada
            .patch(
                &format!("/v1/action-items/{}", unknown_id("item")),
                json!({"done": true}),
            )
            .await,
        t.ada.get("/v1/decisions?cursor=nonsense").await,
        t.ada.get("/v1/action-items?owner=nonsense").await,
    ]);
    t.ada.abandon(&dive.fork).await;
    replies.push(t.ada.try_say_in(&dive.fork, "x").await);
    for _ in 0..6 {
        t.ada.start_fork(&dive.thread, &dive.root, json!({})).await;
    }
    replies.push(t.ada.try_fork(&dive.thread, &dive.root, json!({})).await);
    let mut names = Names::default();
    let errors: Vec<Value> = replies
        .iter()
        .map(|reply| json!({"status": reply.status, "body": names.redact(&reply.json())}))
        .collect();
    insta::assert_json_snapshot!("dive_refusals", errors);
}

#[tokio::test]
async fn objects_match_the_snapshot() {
    let t = team().await;
    t.model()
        .script("vibe", [Answer::text("Monday."), Answer::status(400, "{}")]);
    let invite = t
        .ada
        .post(
            "/v1/invites",
            json!({"role": "viewer", "max_uses": 2, "email": "cy@example.org"}),
        )
        .await
        .is(201);
    let key =
        t.bo.post(
            "/v1/api-keys",
            json!({"name": "robot", "scopes": ["chat:read"]}),
        )
        .await
        .is(201);
    let direct = t
        .ada
        .post("/v1/direct", json!({"member_ids": [t.bo.id]}))
        .await
        .is(201);
    let thread = t.ada.thread(&t.general, "Friday or Monday?").await;
    let done = t.ada.ask(&thread, "@vibe Monday?").await;
    t.ada.completed(&done).await;
    let failed = t.ada.ask(&thread, "@vibe Friday?").await;
    t.ada.failed(&failed).await;
    let mut names = Names::default();
    let mut objects: BTreeMap<&str, Value> = BTreeMap::new();
    for (name, value) in [
        ("account", t.ada.get("/v1/auth/me").await.ok()),
        (
            "session",
            t.ada.get("/v1/auth/sessions").await.ok()["data"][0].clone(),
        ),
        ("invite", invite.clone()),
        (
            "invite listed",
            t.ada.get("/v1/invites").await.ok()["data"][1].clone(),
        ),
        (
            "invite shown",
            visitor(&t.app.base)
                .get(&format!("/v1/invites/{}", text(&invite, "/token")))
                .await
                .ok(),
        ),
        ("key", key),
        (
            "key listed",
            t.bo.get("/v1/api-keys").await.ok()["data"][0].clone(),
        ),
        (
            "workspace",
            t.ada
                .get(&format!("/v1/workspaces/{}", t.ada.workspace))
                .await
                .ok(),
        ),
        (
            "member",
            t.ada.get("/v1/members").await.ok()["data"][1].clone(),
        ),
        ("channel", t.ada.channel("general").await),
        ("direct channel", direct),
        (
            "thread",
            t.ada.get(&format!("/v1/threads/{thread}")).await.ok(),
        ),
        (
            "messages",
            t.ada
                .get(&format!("/v1/threads/{thread}/messages"))
                .await
                .ok(),
        ),
        ("completed task", t.ada.task(&done).await),
        ("failed task", t.ada.task(&failed).await),
        ("agent summary", t.ada.agent("vibe").await),
    ] {
        objects.insert(name, names.redact(&value));
    }
    insta::assert_json_snapshot!("objects", objects);
}

#[tokio::test]
async fn errors_match_the_snapshot() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let messages = format!("/v1/threads/{thread}/messages");
    let vera = t.app.join(&t.ada, "Vera", "viewer").await;
    let mut foreign = t.bo.clone();
    foreign.origin = Some("https://evil.example".to_owned());
    let vibe = format!("/v1/agents/{}", id(&t.ada.agent("vibe").await));
    let replies = [
        t.ada.post_bytes(&messages, "{").await,
        t.ada.post(&messages, json!({"content": 7})).await,
        t.ada
            .post(&messages, json!({"content": "x", "colour": "red"}))
            .await,
        t.ada
            .post(&messages, json!({"content": "x", "parent_id": "nonsense"}))
            .await,
        t.ada.get("/v1/channels?limit=101").await,
        t.ada
            .get(&format!(
                "/v1/channels/{}/threads?cursor=nonsense",
                t.general
            ))
            .await,
        t.ada.signed_out().get("/v1/channels").await,
        foreign.post(&messages, json!({"content": "x"})).await,
        vera.post(&messages, json!({"content": "x"})).await,
        t.ada
            .get(&format!("/v1/threads/{}", unknown_id("thread")))
            .await,
        t.ada.get("/v1/nothing").await,
        t.ada.delete("/v1/channels").await,
        t.ada.post("/v1/channels", json!({"name": "general"})).await,
        t.ada
            .patch(
                &format!("/v1/members/{}", t.ada.id),
                json!({"role": "member"}),
            )
            .await,
        t.ada
            .post(&messages, json!({"content": "x".repeat(33 * 1024)}))
            .await,
        t.ada.post(&messages, json!({"content": " "})).await,
        t.ada
            .post(&messages, json!({"content": "x", "parent_id": thread}))
            .await,
        t.ada.patch_if(&vibe, "latest", json!({})).await,
    ];
    let mut names = Names::default();
    let errors: Vec<Value> = replies
        .iter()
        .map(|reply| json!({"status": reply.status, "body": names.redact(&reply.json())}))
        .collect();
    insta::assert_json_snapshot!("refusals", errors);
}

/// Replaces dates and times of prompts.
pub fn undated(value: &Value) -> Value {
    let date = r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, [A-Z][a-z]+ [0-9]+, [0-9]{4}(?:, [0-9]{2}:[0-9]{2} UTC)?";
    let text = regex::Regex::new(date).unwrap();
    serde_json::from_str(&text.replace_all(&value.to_string(), "[date]")).unwrap()
}

#[tokio::test]
async fn model_requests_match_the_snapshot() {
    let t = team().await;
    t.ada.make_agent("sage").await;
    t.model()
        .script("sage", [Answer::text("Two quiet days before the fair.")]);
    let thread = t.ada.thread(&t.general, "Friday or Monday?").await;
    let first = t.bo.ask(&thread, "@sage what speaks for Monday?").await;
    t.ada.completed(&first).await;
    let second = t
        .ada
        .ask(&thread, "@sage decide, please\n[Bo]: Friday!")
        .await;
    t.ada.completed(&second).await;
    let bodies: Vec<Value> = t
        .model()
        .asked("sage", 2)
        .await
        .into_iter()
        .map(|r| undated(&r.body))
        .collect();
    insta::assert_json_snapshot!("model_requests", bodies);
    let mut seen = undated(&Names::default().redact(&t.ada.task_context(&second).await));
    // The number of tokens depends on the date, because names of days and months have different lengths.
    for segment in seen["budget"]["segments"].as_array_mut().unwrap() {
        segment["tokens"] = "[tokens]".into();
        for part in segment["parts"].as_array_mut().unwrap() {
            part["tokens"] = "[tokens]".into();
        }
    }
    seen["budget"]["used"] = "[tokens]".into();
    for source in seen["sources"].as_array_mut().unwrap() {
        source["tokens"] = "[tokens]".into();
    }
    insta::assert_json_snapshot!("task_context", seen);
}
