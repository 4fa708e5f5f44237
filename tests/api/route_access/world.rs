//! A workspace with every kind of caller, a second workspace, and the objects that calls need.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::recipes::{posted_file, remembered};
use super::table::{COLUMNS, TestCaller};
use crate::{
    code::stored_code,
    factors::{self, Authenticator},
    support::{
        Answer, McpServer, Person, TestApp, TestDatabase, function, id, list, pause, sign_up, text,
        visitor, within,
    },
    tools_loop::reader,
};

/// Settings of the fixture's server.
pub const SETTINGS: &[(&str, &str)] = &[
    ("SIGNUP", "open"),
    ("RATE_LIMITS", "off"),
    ("MODEL_BASE_URL", ""),
    ("MODEL_API_KEY", ""),
    ("MCP_ALLOW", "127.0.0.1"),
    ("PUSH_ALLOW", "127.0.0.1"),
    ("HOOK_ALLOW", "127.0.0.1"),
    ("SECRET_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
    // Permits the model server, because the second workspace uses it, too.
    ("MODEL_ALLOW", "127.0.0.1"),
];

/// One object of each kind, all in a channel or workspace that others cannot see.
pub struct Things {
    of_kind: BTreeMap<&'static str, String>,
}

impl Things {
    pub fn one(kind: &'static str, id: String) -> Self {
        Self {
            of_kind: BTreeMap::from([(kind, id)]),
        }
    }

    /// ID of the object of this kind, if any.
    pub fn get(&self, kind: &str) -> Option<&str> {
        self.of_kind.get(kind).map(String::as_str)
    }
}

pub struct AccessFixture {
    pub app: TestApp,
    /// Admin and owner of the API keys.
    pub ada: Person,
    /// A member who creates all objects that a call needs, unless the caller must have created them.
    pub olu: Person,
    /// The caller with the role member.
    pub bo: Person,
    /// The caller with the role viewer.
    pub vera: Person,
    /// The caller with the role guest, in #general.
    pub gus: Person,
    /// Admin of another workspace.
    pub zoe: Person,
    pub general: String,
    /// Server of all tools in Ada's workspace.
    pub tools: McpServer,
    /// Objects in a private channel whose only member is Olu.
    pub private: Things,
    /// Objects in Zoe's workspace.
    pub foreign: Things,
    keys: BTreeMap<&'static str, Person>,
    made: AtomicU64,
    action: OnceCell<String>,
    grant: OnceCell<String>,
}

impl AccessFixture {
    pub async fn new() -> Self {
        let place = TestDatabase::migrated().await;
        let backups = place.dir.join("backups");
        let mut settings = SETTINGS.to_vec();
        settings.push(("BACKUP_TO", backups.to_str().unwrap()));
        let app = TestApp::on(place, &settings).await;
        let tools = McpServer::start().await;
        tools.list([function("create", "Creates an issue")]);
        let ada = app.founder("Ada").await;
        use_model(&app, &ada).await;
        let olu = app.join(&ada, "Olu", "member").await;
        let bo = app.join(&ada, "Bo", "member").await;
        let vera = app.join(&ada, "Vera", "viewer").await;
        let gus = app.join_as_guest(&ada, "Gus", &["general"]).await;
        let zoe = app.founder("Zoe").await;
        use_model(&app, &zoe).await;
        // Agent for the test that makes replies fail; other tests do not use it.
        ada.make_agent("grump").await;
        for admin in [&ada, &zoe] {
            reader(admin, "clerk", json!({"trust": {"approve": ["search"]}})).await;
        }
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
        let code = stored_code(&app, &zoe, &elsewhere, "kept").await;
        foreign.of_kind.insert("runner", code.runner);
        foreign.of_kind.insert("repository", code.repository);
        Self {
            app,
            ada,
            olu,
            bo,
            vera,
            gus,
            zoe,
            general,
            tools,
            private,
            foreign,
            keys,
            made: AtomicU64::new(0),
            action: OnceCell::new(),
            grant: OnceCell::new(),
        }
    }

    /// A unique number for names.
    pub fn next(&self) -> u64 {
        self.made.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns a caller's client. A caller from another workspace sends the ID of this one.
    pub fn caller(&self, who: TestCaller) -> Person {
        match who {
            TestCaller::Nobody => visitor(&self.app.base),
            TestCaller::Viewer => self.vera.clone(),
            TestCaller::Member => self.bo.clone(),
            TestCaller::Admin => self.ada.clone(),
            TestCaller::Foreign => self.zoe.in_workspace(&self.ada.workspace),
            TestCaller::Key(scope) => self.keys[scope].clone(),
            TestCaller::Guest => self.gus.clone(),
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

    /// Creates a user with the caller's permissions, for calls that end a session, change a password, or remove a membership.
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
            TestCaller::Guest => self.app.join_as_guest(&self.ada, &name, &["general"]).await,
        };
        let asks = match who {
            TestCaller::Key(scope) => person.make_key(&[scope]).await.0,
            TestCaller::Foreign => person.in_workspace(&self.ada.workspace),
            _ => person.clone(),
        };
        Double { person, asks }
    }

    /// Waits until no agent is running, and until no job has anything left to do, so that later changes come from a call.
    pub async fn settle(&self) {
        const OPEN: [&str; 7] = [
            "select count(*) from erasures where finished_at is null",
            "select count(*) from thread_removals",
            "select count(*) from member_merges",
            "select count(*) from imports where state in ('reading', 'running', 'undoing')",
            "select count(*) from exports where state = 'running'",
            // The result of the first look at a web page is announced.
            "select count(*) from vector_store_urls where refreshed_at is null and failure is null",
            // The conditions of `list_due` and `find_unused` in `src/meaning/rows.rs`.
            "select count(*) from embedding_models m left join embedding_progress p on p.model_id = m.id \
             where (m.is_current = TRUE and p.retry_at is null and (m.is_serving = FALSE or exists \
             (select 1 from passages x where x.workspace_id = m.workspace_id and x.no > coalesce(p.done_no, 0)))) \
             or (m.is_current = FALSE and m.is_serving = FALSE)",
        ];
        while self.app.place.under_way(&OPEN).await > 0 {
            pause().await;
        }
    }

    pub async fn set_role(&self, person: &Person, role: &str) {
        let path = format!("/v1/members/{}", person.id);
        self.ada.patch(&path, json!({"role": role})).await.is(200);
    }

    /// Makes a person a guest in #general.
    pub async fn make_guest(&self, person: &Person) {
        let path = format!("/v1/members/{}", person.id);
        let form = json!({"role": "guest", "channel_ids": [self.general]});
        self.ada.patch(&path, form).await.is(200);
    }

    /// An action of Olu that calls can use if they do not decide about it.
    pub async fn standing_action(&self) -> String {
        let action = self.action.get_or_init(|| self.waiting_action(&self.olu));
        action.await.clone()
    }

    /// A permission of Olu that calls can use if they do not revoke it.
    pub async fn standing_grant(&self) -> String {
        let grant = self.grant.get_or_init(|| self.new_grant(&self.olu));
        grant.await.clone()
    }

    /// Creates an action that waits for this person's approval.
    pub async fn waiting_action(&self, by: &Person) -> String {
        // Replies that continue after an earlier approval must not receive the scripted call.
        self.settle().await;
        waiting_action(&self.app, by, &self.general).await
    }

    /// Creates a permission that this person gives.
    pub async fn new_grant(&self, by: &Person) -> String {
        self.settle().await;
        grant(&self.app, by, &self.general).await
    }

    /// Creates a failed task of this person.
    pub async fn failed_task(&self, by: &Person) -> String {
        let thread = by.thread(&self.general, "Root").await;
        // An earlier retry must receive the default response, not the one that is scripted here.
        self.settle().await;
        self.app.model.script("grump", [Answer::status(400, "{}")]);
        let mut socket = by.socket().await;
        let task = by.ask(&thread, "@grump hi").await;
        let ended = socket.ended(&task).await;
        assert_eq!(ended["status"], "failed", "{ended}");
        task
    }
}

pub struct Double {
    /// The user, with a browser session.
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

/// A thread with enough messages to be compacted.
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
    // The log of the fixture becomes too long to be read for each object.
    let mut socket = by.socket().await;
    let queued = by.post(&path, json!({})).await.is(202);
    let done = socket.ended(&text(&queued, "/task/id")).await;
    assert_eq!(done["status"], "completed", "{done}");
    text(&done, "/output/compaction_ids/0")
}

/// Stores a response of the Responses API and returns its ID.
pub async fn kept_response(by: &Person) -> String {
    let asked = json!({"input": "Hello", "store": true});
    id(&by.post("/v1/responses", asked).await.is(200))
}

/// Makes this person's workspace use the scripted model server.
async fn use_model(app: &TestApp, admin: &Person) {
    let model = format!("/v1/workspaces/{}/model", admin.workspace);
    let form = json!({"provider": "other", "base_url": app.model.url, "model": "tiny"});
    admin.put(&model, form).await.is(200);
}

/// Creates an action that waits for this person's approval; its task is parked.
async fn waiting_action(app: &TestApp, by: &Person, channel: &str) -> String {
    let thread = by.thread(channel, "Root").await;
    let search = ("search_messages", json!({"query": "hello"}));
    app.model.script("clerk", [Answer::calls("", &[search])]);
    let mut socket = by.socket().await;
    let task = by.ask(&thread, "@clerk find it").await;
    let requested = socket
        .until("an action to wait", |event| {
            let action = &event["data"]["action"];
            event["type"] == "action.requested"
                && action["task_id"] == task.as_str()
                && action["state"] == "waiting"
        })
        .await;
    socket
        .until("a task to be parked", |event| {
            event["data"]["task"]["id"] == task.as_str()
                && event["data"]["task"]["wait_reason"] == "approval"
        })
        .await;
    text(&requested, "/data/action/id")
}

/// Creates a permission that this person gives; the reply for which it was given has ended.
async fn grant(app: &TestApp, by: &Person, channel: &str) -> String {
    let action = waiting_action(app, by, channel).await;
    let path = format!("/v1/actions/{action}");
    let shown = by.get(&path).await.ok();
    let form = json!({"arguments_hash": shown["arguments_hash"], "for": "hour"});
    let mut socket = by.socket().await;
    by.post(&format!("{path}/approve"), form).await.is(200);
    let ended = socket.ended(&text(&shown, "/task_id")).await;
    assert_eq!(ended["status"], "completed", "{ended}");
    let own = by.get("/v1/waiting").await.ok();
    id(list(&own, "/grants").last().unwrap())
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
            ("grant", grant(app, by, channel).await),
            ("act", waiting_action(app, by, channel).await),
            ("schedule", schedule(by, channel).await),
            ("hook", hook(by, channel).await.0),
            ("store", vector_store(by, Some(channel)).await),
            (
                "skill",
                skill(by, &format!("of-{}", by.name.to_lowercase()), Some(channel)).await,
            ),
            ("run", private_run(by, channel).await),
            ("code", stored_code(app, by, channel, "kept").await.session),
        ]),
    }
}

/// Creates objects of a workspace that do not belong to a channel.
async fn admins_things(by: &Person) -> BTreeMap<&'static str, String> {
    let invite = by.post("/v1/invites", json!({})).await.is(201);
    let key = by.make_key(&["chat:read"]).await.1;
    let sandbox = by
        .post("/v1/sandbox-policies", sandbox("theirs"))
        .await
        .is(201);
    let sessions = by.get("/v1/auth/sessions").await.ok();
    let audit = by.get("/v1/audit-log").await.ok();
    let owner = sign_up(&by.base, &format!("Passkeys of {}", by.name), None).await;
    let mut authenticator = Authenticator::new(&by.base);
    let passkey = factors::add_passkey(&owner, &mut authenticator)
        .await
        .is(201);
    BTreeMap::from([
        ("workspace", by.workspace.clone()),
        ("user", by.id.clone()),
        ("agent", id(&by.agent("vibe").await)),
        ("invite", id(&invite)),
        ("invite token", text(&invite, "/token")),
        ("key", key),
        ("sandbox", id(&sandbox)),
        ("persona", persona(by, "Theirs").await),
        ("flow", workflow(by, "theirs").await),
        ("tool", id(&client_function(by, "theirs").await)),
        ("session", id(&list(&sessions, "/data")[0])),
        ("passkey", id(&passkey)),
        ("audit", id(&list(&audit, "/data")[0])),
        ("response", kept_response(by).await),
        ("bot", a_bot(by).await),
        ("import", crate::imports::created(by).await),
        ("export", crate::exports::requested(by, json!({})).await),
    ])
}

/// Creates a vector store for the readers of a channel, or for everyone in the workspace. Returns its ID; an existing one if possible,
/// because the number of vector stores is limited.
pub async fn vector_store(by: &Person, channel: Option<&str>) -> String {
    let form = json!({"name": "Handbook", "channel_id": channel});
    let made = by.post("/v1/vector_stores", form).await;
    if made.status == 409 {
        let all = by.get("/v1/vector_stores?limit=100").await.ok();
        let mut known = list(&all, "/data").into_iter();
        return id(&known
            .find(|store| store["channel_id"] == json!(channel))
            .unwrap());
    }
    id(&made.is(200))
}

/// Form of a skill with this name.
pub fn skill_form(name: &str) -> Value {
    let main = format!("---\nname: {name}\ndescription: For a test\n---\nSteps.\n");
    json!({"files": [{"path": "SKILL.md", "content": main}]})
}

/// Creates a skill for the readers of a channel, or for everyone in the workspace; returns its ID.
pub async fn skill(by: &Person, name: &str, channel: Option<&str>) -> String {
    let mut form = skill_form(name);
    form["channel_ids"] = channel.map_or(Value::Null, |channel| json!([channel]));
    id(&by.post("/v1/skills", form).await.is(201))
}

/// Creates a webhook; returns its ID and that of its bot.
pub async fn hook(by: &Person, channel: &str) -> (String, String) {
    let form = json!({"name": "Build robot", "channel_id": channel});
    let made = by.post("/v1/hooks", form).await.is(201);
    (id(&made), text(&made, "/bot_id"))
}

/// Creates a webhook that received a request; returns the ID of both.
pub async fn received(by: &Person, channel: &str) -> (String, String) {
    let form = json!({"name": "Build robot", "channel_id": channel});
    let made = by.post("/v1/hooks", form).await.is(201);
    let url = text(&made, "/url");
    let path = &url[url.find("/hooks/").unwrap()..];
    let reply = by.post(path, json!({"text": "Disk full"})).await;
    assert_eq!(reply.status, 200);
    let requests = by.get(&format!("/v1/hooks/{}/requests", id(&made))).await;
    (id(&made), id(&list(&requests.ok(), "/data")[0]))
}

/// Creates a bot in the first public channel.
async fn a_bot(by: &Person) -> String {
    let channels = by.get("/v1/channels").await.ok();
    hook(by, &id(&list(&channels, "/data")[0])).await.1
}

/// A schedule that does not fire during the tests.
pub fn yearly(channel: &str) -> Value {
    let day = chrono::Utc::now() + chrono::Days::new(100);
    json!({"name": "Yearly", "cron": day.format("0 6 1 %-m *").to_string(), "timezone": "UTC",
        "target": {"type": "agent", "prompt": "What did we decide?"}, "deliver": {"channel_id": channel}})
}

/// Returns a schedule of this person in a channel, an existing one if possible, because the number of schedules is limited.
pub async fn schedule(by: &Person, channel: &str) -> String {
    let known = list(&by.get("/v1/schedules").await.ok(), "/data");
    let own = known.iter().find(|schedule| {
        schedule["owner_id"] == json!(by.id) && schedule["deliver"]["channel_id"] == channel
    });
    match own {
        Some(own) => id(own),
        None => id(&by.post("/v1/schedules", yearly(channel)).await.is(201)),
    }
}

pub fn sandbox(name: &str) -> Value {
    json!({"name": name, "image": "python:3.13-slim", "cpu_max": 1.0, "memory_mb_max": 256,
        "network": "none", "allowed_hosts": [], "timeout_s_max": 30, "filesystem": "read_only"})
}

/// Registers a function that clients run.
async fn client_function(by: &Person, name: &str) -> Value {
    let form = json!({"kind": "function", "name": name, "config": {}});
    by.post("/v1/tools", form).await.is(201)
}

/// Creates a persona and returns its ID.
pub async fn persona(by: &Person, name: &str) -> String {
    let form = json!({"name": name, "compressed": "You are calm."});
    id(&by.post("/v1/personas", form).await.is(201))
}

pub fn workflow_form(name: &str) -> Value {
    // Without an input, the message is blank, and the run fails.
    let step = json!({"id": "post", "kind": "output", "content": "{{input}}"});
    json!({"name": name, "steps": [step]})
}

/// Starts a run that fails, and returns its ID.
pub async fn failed_run(by: &Person, workflow: &str, channel: &str) -> String {
    let path = format!("/v1/workflows/{workflow}/runs");
    let started = by.post(&path, json!({"channel_id": channel})).await.is(202);
    let task = text(&started, "/task/id");
    within("the run to fail", async {
        while by.task(&task).await["status"] != "failed" {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    text(&started, "/run/id")
}

/// Creates a workflow and returns its ID.
pub async fn workflow(by: &Person, name: &str) -> String {
    id(&by.post("/v1/workflows", workflow_form(name)).await.is(201))
}

async fn private_run(by: &Person, channel: &str) -> String {
    let flow = workflow(by, &format!("in-{}", &channel[channel.len() - 8..])).await;
    failed_run(by, &flow, channel).await
}

/// A new account that is not in a workspace.
pub async fn newcomer(world: &AccessFixture) -> Person {
    sign_up(&world.app.base, &format!("Newcomer {}", world.next()), None).await
}
