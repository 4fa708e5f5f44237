//! A workspace with every kind of caller, a second workspace, and the objects of the calls.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use serde_json::{Value, json};

use super::recipes::{posted_file, remembered};
use super::table::{COLUMNS, TestCaller};
use crate::support::{Answer, Person, TestApp, id, list, sign_up, text, visitor};

/// One object of each kind, all in a place that others cannot see.
pub struct Things {
    of_kind: BTreeMap<&'static str, String>,
}

impl Things {
    /// ID of the object of this kind, if any.
    pub fn get(&self, kind: &str) -> Option<&str> {
        self.of_kind.get(kind).map(String::as_str)
    }
}

pub struct AccessFixture {
    pub app: TestApp,
    /// Admin and owner of the API keys.
    pub ada: Person,
    /// Creates all objects that the caller did not create.
    pub olu: Person,
    /// The member among the callers.
    pub bo: Person,
    /// The viewer among the callers.
    pub vera: Person,
    /// Admin of another workspace.
    pub zoe: Person,
    pub general: String,
    /// In a private channel whose only member is Olu.
    pub private: Things,
    /// In Zoe's workspace.
    pub foreign: Things,
    keys: BTreeMap<&'static str, Person>,
    made: AtomicU64,
}

impl AccessFixture {
    pub async fn new() -> Self {
        let app = TestApp::with(&[
            ("SIGNUP", "open"),
            ("RATE_LIMITS", "off"),
            ("MODEL_BASE_URL", ""),
            ("MODEL_API_KEY", ""),
        ])
        .await;
        let ada = app.founder("Ada").await;
        let model = format!("/v1/workspaces/{}/model", ada.workspace);
        let form = json!({"provider": "other", "base_url": app.model.url});
        ada.put(&model, form).await.is(200);
        let olu = app.join(&ada, "Olu", "member").await;
        let bo = app.join(&ada, "Bo", "member").await;
        let vera = app.join(&ada, "Vera", "viewer").await;
        let zoe = app.founder("Zoe").await;
        // An agent whose replies a test can make fail; no other test invokes it.
        ada.make_agent("grump").await;
        let general = id(&ada.channel("general").await);
        let mut keys = BTreeMap::new();
        for column in COLUMNS {
            if let TestCaller::Key(scope) = column {
                keys.insert(*scope, ada.make_key(&[scope]).await.0);
            }
        }
        let hidden = olu.private_channel("hidden", &[]).await;
        let private = things(&app, &olu, &hidden).await;
        let elsewhere = id(&zoe.channel("general").await);
        let mut foreign = things(&app, &zoe, &elsewhere).await;
        let admins = admins_things(&zoe).await;
        foreign.of_kind.extend(admins);
        Self {
            app,
            ada,
            olu,
            bo,
            vera,
            zoe,
            general,
            private,
            foreign,
            keys,
            made: AtomicU64::new(0),
        }
    }

    /// A unique number for names.
    pub fn next(&self) -> u64 {
        self.made.fetch_add(1, Ordering::Relaxed)
    }

    /// The client of a caller. A caller from another workspace sends this workspace's ID.
    pub fn caller(&self, who: TestCaller) -> Person {
        match who {
            TestCaller::Nobody => visitor(&self.app.base),
            TestCaller::Viewer => self.vera.clone(),
            TestCaller::Member => self.bo.clone(),
            TestCaller::Admin => self.ada.clone(),
            TestCaller::Foreign => self.zoe.in_workspace(&self.ada.workspace),
            TestCaller::Key(scope) => self.keys[scope].clone(),
        }
    }

    /// The caller's user, with a browser session.
    pub fn person(&self, who: TestCaller) -> Person {
        match who {
            TestCaller::Key(_) => self.ada.clone(),
            TestCaller::Foreign => self.zoe.clone(),
            other => self.caller(other),
        }
    }

    /// A new user with the caller's permissions, for calls that end a session, change a password, or remove a
    /// membership.
    pub async fn double(&self, who: TestCaller) -> Double {
        let name = format!("Double {}", self.next());
        let person = match who {
            TestCaller::Nobody => visitor(&self.app.base),
            TestCaller::Viewer => self.app.join(&self.ada, &name, "viewer").await,
            TestCaller::Member => self.app.join(&self.ada, &name, "member").await,
            TestCaller::Admin | TestCaller::Key(_) => {
                self.app.join(&self.ada, &name, "admin").await
            }
            TestCaller::Foreign => self.app.founder(&name).await,
        };
        let asks = match who {
            TestCaller::Key(scope) => person.make_key(&[scope]).await.0,
            TestCaller::Foreign => person.in_workspace(&self.ada.workspace),
            _ => person.clone(),
        };
        Double { person, asks }
    }

    /// Waits until no agent is running, so that later changes are caused by a call.
    pub async fn settle(&self) {
        let mut sockets = Vec::new();
        for person in [&self.ada, &self.olu, &self.zoe] {
            sockets.push(person.socket().await);
        }
        while self.app.place.tasks_under_way().await > 0 {
            let ends = sockets
                .iter_mut()
                .map(|s| Box::pin(s.of("task.status_changed")));
            // The end of a reflection is sent only to its requester.
            let ended = futures::future::select_all(ends);
            drop(tokio::time::timeout(Duration::from_millis(50), ended).await);
        }
    }

    pub async fn set_role(&self, person: &Person, role: &str) {
        let path = format!("/v1/members/{}", person.id);
        self.ada.patch(&path, json!({"role": role})).await.is(200);
    }

    /// A failed task of this person.
    pub async fn failed_task(&self, by: &Person) -> String {
        let thread = by.thread(&self.general, "Root").await;
        // An earlier retry must receive the default response, not this one.
        self.settle().await;
        self.app.model.script("grump", [Answer::status(400, "{}")]);
        let task = by.ask(&thread, "@grump hi").await;
        by.failed(&task).await;
        task
    }
}

pub struct Double {
    /// With a browser session.
    pub person: Person,
    /// The same user with the caller's credentials, which may be a key.
    pub asks: Person,
}

/// A resolved fork and its resolution.
pub struct Resolved {
    pub thread: String,
    pub root: String,
    pub fork: String,
    pub item: String,
    pub resolution: String,
}

/// A thread and a fork of it that contains one message.
pub async fn dive(by: &Person, channel: &str) -> (String, String, String) {
    let started = by.start(channel, "Friday or Monday?").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let fork = id(&by
        .start_fork(&thread, &root, json!({"agent_id": null}))
        .await);
    by.say_in(&fork, "Monday suits everybody.").await;
    (thread, root, fork)
}

pub async fn resolved(by: &Person, channel: &str) -> Resolved {
    let (thread, root, fork) = dive(by, channel).await;
    let content = json!({"headline": "Monday", "action_items": [{"text": "Book the room"}]});
    let published = by.publish_as(&fork, content).await;
    Resolved {
        thread,
        root,
        fork,
        item: text(&published, "/resolution/action_items/0/id"),
        resolution: text(&published, "/resolution/id"),
    }
}

/// A thread with messages that can be compacted.
pub async fn compactable(by: &Person, channel: &str) -> String {
    let thread = by.thread(channel, "Where do we launch?").await;
    for n in 0..10 {
        by.say(&thread, &format!("Idea {n}")).await;
    }
    thread
}

/// Compacts messages and returns the ID of the record.
pub async fn compaction(by: &Person, channel: &str) -> String {
    let thread = compactable(by, channel).await;
    let path = format!("/v1/threads/{thread}/compactions");
    let queued = by.post(&path, json!({})).await.is(202);
    let done = by.completed(&text(&queued, "/task/id")).await;
    text(&done, "/output/compaction_ids/0")
}

/// Stores a response of the Responses API and returns its ID.
pub async fn kept_response(by: &Person) -> String {
    let asked = json!({"input": "Hello", "store": true});
    id(&by.post("/v1/responses", asked).await.is(200))
}

async fn things(app: &TestApp, by: &Person, channel: &str) -> Things {
    let done = resolved(by, channel).await;
    let task = by.ask(&done.thread, "@vibe hi").await;
    by.completed(&task).await;
    drop(app.model.requests());
    Things {
        of_kind: BTreeMap::from([
            ("channel", channel.to_owned()),
            ("thread", done.thread),
            ("message", done.root),
            ("fork", done.fork),
            ("item", done.item),
            ("resolution", done.resolution),
            ("task", task),
            ("compaction", compaction(by, channel).await),
            ("file", posted_file(by, channel).await),
            ("memory", remembered(by, channel).await),
        ]),
    }
}

/// Objects of a workspace that are not in a channel.
async fn admins_things(by: &Person) -> BTreeMap<&'static str, String> {
    let invite = by.post("/v1/invites", json!({})).await.is(201);
    let key = by.make_key(&["chat:read"]).await.1;
    let sandbox = by
        .post("/v1/sandbox-policies", sandbox("theirs"))
        .await
        .is(201);
    let sessions = by.get("/v1/auth/sessions").await.ok();
    let audit = by.get("/v1/audit-log").await.ok();
    BTreeMap::from([
        ("workspace", by.workspace.clone()),
        ("user", by.id.clone()),
        ("agent", id(&by.agent("vibe").await)),
        ("invite", id(&invite)),
        ("invite token", text(&invite, "/token")),
        ("key", key),
        ("sandbox", id(&sandbox)),
        ("persona", persona(by, "Theirs").await),
        ("session", id(&list(&sessions, "/data")[0])),
        ("audit", id(&list(&audit, "/data")[0])),
        ("response", kept_response(by).await),
    ])
}

pub fn sandbox(name: &str) -> Value {
    json!({"name": name, "image": "python:3.13-slim", "cpu_max": 1.0, "memory_mb_max": 256,
        "network": "none", "allowed_hosts": [], "timeout_s_max": 30, "filesystem": "read_only"})
}

/// Creates a persona and returns its ID.
pub async fn persona(by: &Person, name: &str) -> String {
    let form = json!({"name": name, "compressed": "You are calm."});
    id(&by.post("/v1/personas", form).await.is(201))
}

/// A new account without a workspace.
pub async fn newcomer(world: &AccessFixture) -> Person {
    sign_up(&world.app.base, &format!("Newcomer {}", world.next()), None).await
}
