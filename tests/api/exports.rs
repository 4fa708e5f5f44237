//! Exports of workspaces, from the request to the archive.

use std::{
    collections::BTreeMap,
    io::{Cursor, Read},
    process::Output,
    time::Duration,
};

use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use zip::ZipArchive;

use crate::{
    faults::prepared,
    imports::{OFF, imported, said, sums, unlimited_team},
    support::{
        Person, Team, TestApp, TestProcess, command, id, list, number, team, team_with, text,
        visitor, within,
    },
};

const POLL: Duration = Duration::from_millis(50);

/// Entries of an archive by name.
pub type Entries = BTreeMap<String, Vec<u8>>;

pub fn entries(archive: &[u8]) -> Entries {
    let mut zip = ZipArchive::new(Cursor::new(archive)).unwrap();
    let mut entries = Entries::new();
    for n in 0..zip.len() {
        let mut entry = zip.by_index(n).unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        let name = entry.name().unwrap().into_owned();
        assert!(entries.insert(name.clone(), bytes).is_none(), "{name}");
    }
    entries
}

/// Requests an export; returns its ID.
pub async fn requested(by: &Person, form: Value) -> String {
    id(&by.post("/v1/exports", form).await.is(202))
}

pub async fn ended(by: &Person, export: &str) -> Value {
    within("the export", async {
        loop {
            let export = by.get(&format!("/v1/exports/{export}")).await.ok();
            if export["state"] != "running" {
                return export;
            }
            tokio::time::sleep(POLL).await;
        }
    })
    .await
}

/// An export that is done; returns its ID.
pub async fn done(by: &Person) -> String {
    let export = requested(by, json!({})).await;
    assert_eq!(ended(by, &export).await["state"], "done");
    export
}

pub async fn archive(by: &Person, form: Value) -> Vec<u8> {
    let export = requested(by, form).await;
    let ended = ended(by, &export).await;
    assert_eq!(ended["state"], "done", "{ended}");
    let path = format!("/v1/exports/{export}/file");
    let bytes = by.stream(&path).await.bytes().await.unwrap();
    assert_eq!(number(&ended, "/size_bytes"), count(bytes.len()));
    bytes.to_vec()
}

/// Objects of all entries whose names begin like this, one per line.
pub fn lines(entries: &Entries, begin: &str) -> Vec<Value> {
    let found = entries.iter().filter(|(name, _)| name.starts_with(begin));
    let texts = found.map(|(_, bytes)| std::str::from_utf8(bytes).unwrap());
    texts
        .flat_map(str::lines)
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap()
}

fn all_text(entries: &Entries) -> String {
    let texts = entries.values().map(|bytes| String::from_utf8_lossy(bytes));
    texts.collect()
}

/// A team with messages in a public, a private, and a direct channel, a file, a reaction, and a result. The private channel is Bo's.
pub async fn talkative() -> Team {
    let t = unlimited_team().await;
    let thread = t.ada.thread(&t.general, "Hello **everyone**").await;
    let titled = json!({"title": "Greetings"});
    t.ada
        .patch(&format!("/v1/threads/{thread}"), titled)
        .await
        .ok();
    let reply = t.bo.tell(&thread, "Hello Ada").await;
    t.ada
        .put(&format!("/v1/messages/{reply}/reactions/👍"), json!({}))
        .await
        .ok();
    let file = t.bo.upload("plan.txt", b"The plan").await;
    let form = json!({"content": "See the plan", "attachments": [id(&file)]});
    t.bo.post(&format!("/v1/threads/{thread}/messages"), form)
        .await
        .is(201);
    let secret = t.bo.private_channel("hushhush", &[]).await;
    t.bo.thread(&secret, "Hidden words").await;
    let direct = t
        .ada
        .post("/v1/direct", json!({"member_ids": [t.bo.id]}))
        .await;
    t.ada.thread(&id(&direct.ok()), "Between us").await;
    t.resolved("Monday it is").await;
    t
}

#[tokio::test]
async fn an_export_has_everything_of_public_channels() {
    let t = talkative().await;
    let archive = archive(&t.ada, json!({})).await;
    let entries = entries(&archive);
    let people = lines(&entries, "people.jsonl");
    assert_eq!(people.len(), 2);
    assert!(people.iter().any(|p| p["user_id"] == t.bo.id.as_str()));
    let channels = lines(&entries, "channels.jsonl");
    assert!(channels.iter().all(|channel| channel["kind"] == "public"));
    let general = channels.iter().find(|c| c["id"] == t.general.as_str());
    assert_eq!(list(general.unwrap(), "/member_ids").len(), 2);
    let messages = lines(&entries, "messages/");
    let of = |content: &str| {
        let found = messages.iter().find(|m| m["content"] == content);
        found.unwrap_or_else(|| panic!("no {content}")).clone()
    };
    let root = of("Hello **everyone**");
    let reply = of("Hello Ada");
    assert_eq!(root["root"]["id"], root["id"]);
    assert_eq!(root["root"]["title"], "Greetings");
    assert_eq!(reply["root"]["id"], root["id"]);
    assert_eq!(reply["author"]["id"], t.bo.id.as_str());
    assert_eq!(reply["reactions"][0]["user_ids"][0], t.ada.id.as_str());
    // A deep dive is in entries of its own.
    assert!(of("Monday suits everybody.")["root"].is_null());
    assert!(entries.keys().any(|name| name.contains("/deep-dives/")));
    assert_eq!(lines(&entries, "forks.jsonl")[0]["title"], "The day");
    assert_eq!(
        lines(&entries, "resolutions.jsonl")[0]["headline"],
        "Monday it is"
    );
    let file = entries.keys().find(|name| name.ends_with("/plan.txt"));
    assert_eq!(entries[file.unwrap()], b"The plan");
    assert!(entries.contains_key("agents/vibe.json"));
    let everything = all_text(&entries);
    for foreign in ["Hidden words", "Between us", "hushhush"] {
        assert!(!everything.contains(foreign), "{foreign}");
    }

    let manifest: Value = serde_json::from_slice(&entries["manifest.json"]).unwrap();
    assert_eq!(manifest["format"], "openvibe");
    assert_eq!(manifest["workspace"]["id"], t.ada.workspace.as_str());
    assert_eq!(number(&manifest, "/counts/messages"), count(messages.len()));
    let listed = list(&manifest, "/entries");
    assert_eq!(listed.len(), entries.len() - 1);
    for entry in listed {
        let hash = hex::encode(Sha256::digest(&entries[&text(&entry, "/name")]));
        assert_eq!(text(&entry, "/sha256"), hash);
    }
}

#[tokio::test]
async fn a_person_exports_only_channels_that_they_can_read() {
    let t = talkative().await;
    let own = archive(&t.ada, json!({"scope": "mine", "files": false})).await;
    let entries = entries(&own);
    let everything = all_text(&entries);
    assert!(everything.contains("Between us"));
    assert!(!everything.contains("Hidden words"));
    assert!(!entries.keys().any(|name| name.starts_with("files/")));
    // Another admin cannot download it, a member can do nothing at all.
    let export = requested(&t.ada, json!({"scope": "mine"})).await;
    ended(&t.ada, &export).await;
    let path = format!("/v1/exports/{export}");
    let eve = t.app.join(&t.ada, "Eve", "admin").await;
    eve.get(&path).await.ok();
    eve.get(&format!("{path}/file")).await.refused(404);
    t.bo.get(&path).await.refused(403);
    t.bo.post("/v1/exports", json!({})).await.refused(403);
    // A key that cannot read chats gets none in an archive.
    let (key, _) = t.ada.make_key(&["workspace:admin"]).await;
    let form = json!({"scope": "mine"});
    key.post("/v1/exports", form).await.refused(403);
    key.get(&format!("{path}/file")).await.refused(403);
    key.post("/v1/exports", json!({"files": false}))
        .await
        .is(202);
    t.ada
        .post("/v1/exports", json!({"scope": "everything"}))
        .await
        .refused(400);
}

#[tokio::test]
async fn an_archive_can_be_downloaded_in_parts_and_expires() {
    let t = talkative().await;
    let export = done(&t.ada).await;
    let path = format!("/v1/exports/{export}/file");
    let whole = t.ada.stream(&path).await.bytes().await.unwrap();
    let range = format!("bytes={}-", whole.len() - 22);
    let part = t
        .ada
        .send(Method::GET, &path, &[("range", &range)], None)
        .await;
    assert_eq!(part.status, 206);
    assert!(part.text.starts_with("PK\u{5}\u{6}"), "{:?}", part.text);
    let beyond = format!("bytes={}-", whole.len());
    let part = t
        .ada
        .send(Method::GET, &path, &[("range", &beyond)], None)
        .await;
    assert_eq!(part.status, 416);
    t.app
        .place
        .run(&["update exports set expires_at = created_at"])
        .await;
    t.ada.get(&path).await.refused(404);
}

#[tokio::test]
async fn an_export_ends_when_the_person_is_no_admin_any_longer() {
    let t = talkative().await;
    let eve = t.app.join(&t.ada, "Eve", "admin").await;
    let export = done(&eve).await;
    let member = format!("/v1/members/{}", eve.id);
    t.ada.patch(&member, json!({"role": "member"})).await.ok();
    // The export goes on as if its end had not been written.
    let again = "update exports set state = 'running', finished_at = null, expires_at = null";
    t.app.place.run(&[again]).await;
    let ended = ended(&t.ada, &export).await;
    assert_eq!(ended["state"], "failed");
    assert_eq!(ended["problem"], "Only admins can export a workspace.");
    assert_eq!(t.app.place.count("export_pieces").await, 0);
    eve.get(&format!("/v1/exports/{export}/file"))
        .await
        .refused(403);
}

#[tokio::test]
async fn an_export_has_no_secrets() {
    let t = talkative().await;
    let (robot, _) = t.ada.make_key(&["chat:read"]).await;
    let key = robot.key.unwrap();
    let hook = t
        .ada
        .post(
            "/v1/hooks",
            json!({"name": "Robot", "channel_id": t.general}),
        )
        .await
        .is(201);
    let archive = archive(&t.ada, json!({"scope": "mine"})).await;
    let entries = entries(&archive);
    assert_eq!(lines(&entries, "hooks.jsonl")[0]["id"], hook["id"]);
    let everything = all_text(&entries);
    let url = text(&hook, "/url");
    let secret = url.rsplit('/').next().unwrap();
    for hidden in [secret, key.as_str(), "argon2", "secret_hash"] {
        assert!(!everything.contains(hidden), "{hidden}");
    }
}

#[tokio::test]
async fn exports_are_listed_and_canceled() {
    let t = talkative().await;
    let eve = t.app.join(&t.ada, "Eve", "admin").await;
    let first = done(&t.ada).await;
    let mine = requested(&eve, json!({"scope": "mine"})).await;
    assert_eq!(ended(&eve, &mine).await["state"], "done");
    let all = t.ada.get("/v1/exports").await.ok();
    let ids: Vec<String> = list(&all, "/data").iter().map(id).collect();
    assert_eq!(ids, [mine.clone(), first.clone()]);
    t.bo.get("/v1/exports").await.refused(403);
    let path = |export: &str| format!("/v1/exports/{export}");
    t.bo.delete(&path(&first)).await.refused(403);
    t.ada.delete(&path(&first)).await.is(204);
    t.ada.delete(&path(&first)).await.refused(404);
    t.ada
        .get(&format!("{}/file", path(&first)))
        .await
        .refused(404);
    assert_eq!(
        ended(&eve, &mine).await["state"],
        "done",
        "the other one stays"
    );
    // A deleted export that was being written stores nothing more.
    let again = "update exports set state = 'running', finished_at = null, expires_at = null";
    t.app.place.run(&[again]).await;
    t.ada.delete(&path(&mine)).await.is(204);
    for table in ["exports", "export_pieces", "export_entries"] {
        assert_eq!(t.app.place.count(table).await, 0, "{table}");
    }
    let all = t.ada.get("/v1/exports").await.ok();
    assert_eq!(all["data"], json!([]));
    // The next one is written.
    done(&t.ada).await;
}

#[tokio::test]
async fn erasing_a_person_deletes_the_archives_of_the_workspace() {
    let t = talkative().await;
    let export = done(&t.ada).await;
    t.ada.erase(&t.bo).await;
    t.ada
        .get(&format!("/v1/exports/{export}"))
        .await
        .refused(404);
}

#[tokio::test]
async fn a_small_export_does_not_wait_for_the_end_of_a_large_one() {
    let t = team_with(&[OFF, ("SIGNUP", "open")]).await;
    let zoe = t.app.founder("Zoe").await;
    let thread = t.ada.thread(&t.general, "Files").await;
    for n in 0..4 {
        let file = t.ada.upload("large.bin", &vec![n; 16 << 20]).await;
        let form = json!({"content": "", "attachments": [id(&file)]});
        let path = format!("/v1/threads/{thread}/messages");
        t.ada.post(&path, form).await.is(201);
    }
    let large = requested(&t.ada, json!({})).await;
    let small = requested(&zoe, json!({})).await;
    let small = text(&ended(&zoe, &small).await, "/finished_at");
    let large = ended(&t.ada, &large).await;
    assert_eq!(large["state"], "done");
    assert_eq!(number(&large, "/counts/files"), 4);
    assert!(small < text(&large, "/finished_at"));
}

#[tokio::test]
async fn an_export_leaves_out_a_file_of_which_bytes_are_missing() {
    let t = talkative().await;
    if t.app.place.postgres.is_some() {
        // In PostgreSQL, the bytes cannot be missing, because other rows reference their rows.
        return;
    }
    let mut folders = vec![t.app.place.dir.join("data/blobs")];
    let mut shortened = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if std::fs::read(&path).unwrap() == b"The plan" {
                std::fs::write(&path, b"The").unwrap();
                shortened += 1;
            }
        }
    }
    assert_eq!(shortened, 1);
    let archive = archive(&t.ada, json!({})).await;
    let entries = entries(&archive);
    assert!(!entries.keys().any(|name| name.ends_with("/plan.txt")));
    let said = lines(&entries, "messages/");
    assert!(said.iter().any(|m| m["content"] == "See the plan"));
}

async fn run(t: &Team, arguments: &[&str]) -> Output {
    let mut command = command(&t.app.place, &t.app.model, &[]);
    command.args(arguments);
    openvibe::blocking::blocking((), move || command.output())
        .await
        .unwrap()
        .unwrap()
}

#[tokio::test]
async fn the_command_writes_everything_also_what_is_private() {
    let t = talkative().await;
    let file = t.app.place.dir.join("all.zip");
    let name = file.to_str().unwrap();
    let output = run(&t, &["export", name]).await;
    assert!(output.status.success(), "{output:?}");
    let entries = entries(&std::fs::read(&file).unwrap());
    let everything = all_text(&entries);
    for said in ["Hello Ada", "Hidden words", "Between us", "The plan"] {
        assert!(everything.contains(said), "{said}");
    }
    // It replaces no file, and writes nothing for a workspace that does not exist.
    let again = run(&t, &["export", name]).await;
    assert!(!again.status.success());
    let other = t.app.place.dir.join("other.zip");
    let arguments = ["export", "--workspace", "nowhere", other.to_str().unwrap()];
    let refused = run(&t, &arguments).await;
    assert!(!refused.status.success());
    assert!(!other.exists());
}

#[tokio::test]
async fn an_export_goes_on_after_a_crash() {
    let p = prepared().await;
    let settings = [("RATE_LIMITS", "off"), ("FAILPOINT", "exporting:1")];
    let crashing = TestProcess::start(&p.place, &p.model, &settings).await;
    let ada = p.ada.at(&crashing.base);
    ada.tell(&p.thread, "Before the crash").await;
    let export = requested(&ada, json!({})).await;
    within("the crash", crashing.exited()).await;
    let (_server, ada) = p.start(&[("RATE_LIMITS", "off")]).await;
    let ended = ended(&ada, &export).await;
    assert_eq!(ended["state"], "done", "{ended}");
    let path = format!("/v1/exports/{export}/file");
    let bytes = ada.stream(&path).await.bytes().await.unwrap();
    let entries = entries(&bytes);
    let said = lines(&entries, "messages/");
    let found = said.iter().filter(|m| m["content"] == "Before the crash");
    assert_eq!(found.count(), 1);
    let manifest: Value = serde_json::from_slice(&entries["manifest.json"]).unwrap();
    assert_eq!(number(&manifest, "/counts/messages"), count(said.len()));
}

#[tokio::test]
async fn the_direct_channel_of_a_bot_has_its_bot_in_both_layouts() {
    let t = team().await;
    let form = json!({"name": "Deploy", "channel_ids": []});
    let bot = id(&t.ada.post("/v1/bots", form).await.is(201));
    let keys = format!("/v1/bots/{bot}/keys");
    let key = t.ada.post(&keys, json!({"name": "CI"})).await.is(201);
    let program = visitor(&t.app.base).with_key(&text(&key, "/key"));
    let sent = json!({"channel": t.ada.id, "text": "Your build failed"});
    program.post("/api/chat.postMessage", sent).await.is(200);
    let own = archive(&t.ada, json!({"scope": "mine"})).await;
    let channels = lines(&entries(&own), "channels.jsonl");
    let mut bots = channels.iter().filter_map(|channel| channel.get("bot_id"));
    assert_eq!(bots.next(), Some(&json!(bot)));
    assert_eq!(bots.next(), None);
    let form = json!({"scope": "mine", "format": "slack"});
    let directs = entries(&archive(&t.ada, form).await).remove("dms.json");
    let directs: Vec<Value> = serde_json::from_slice(&directs.unwrap()).unwrap();
    let are_two = |direct: &Value| list(direct, "/members").len() == 2;
    assert!(directs.iter().any(are_two), "{directs:?}");
}

#[tokio::test]
async fn the_layout_of_slack_is_read_by_programs_for_it() {
    let t = talkative().await;
    let form = json!({"scope": "mine", "format": "slack"});
    let bytes = archive(&t.ada, form).await;
    let entries = entries(&bytes);
    let read = |name: &str| -> Vec<Value> { serde_json::from_slice(&entries[name]).unwrap() };
    let users = read("users.json");
    let bo = users.iter().find(|user| user["real_name"] == "Bo").unwrap();
    assert!(users.iter().any(|user| user["is_bot"] == true));
    let channels = read("channels.json");
    assert!(channels.iter().any(|channel| channel["name"] == "general"));
    assert!(read("groups.json").is_empty());
    let direct = &read("dms.json")[0];
    assert_eq!(list(direct, "/members").len(), 2);
    let day = entries.keys().find(|name| name.starts_with("general/"));
    let messages = read(day.unwrap());
    let of = |content: &str| {
        let found = messages.iter().find(|m| m["text"] == content);
        let found = found.unwrap_or_else(|| panic!("no {content}: {messages:?}"));
        found.clone()
    };
    let (root, reply) = (of("Hello *everyone*"), of("Hello Ada"));
    assert_eq!(reply["thread_ts"], root["ts"]);
    assert_eq!(reply["user"], bo["id"]);
    assert_eq!(reply["reactions"][0]["count"], 1);
    let file = &of("See the plan")["files"][0];
    let upload = format!("__uploads/{}/plan.txt", text(file, "/id"));
    assert_eq!(entries[&upload], b"The plan");
    let mut times: Vec<&Value> = messages.iter().map(|m| &m["ts"]).collect();
    times.dedup();
    assert_eq!(times.len(), messages.len());
    // Results are messages; deep dives are only named.
    let everything = all_text(&entries);
    assert!(everything.contains("Monday it is"));
    assert!(!everything.contains("Monday suits everybody."));
    let readme = String::from_utf8_lossy(&entries["README.txt"]).into_owned();
    assert!(readme.contains("general: The day"), "{readme}");
    assert!(!everything.contains("Hidden words"));

    let other = TestApp::with(&[OFF]).await;
    let zoe = other.founder("Zoe").await;
    let report = imported(&zoe, &bytes).await;
    sums(&report);
    assert_eq!(report["problems"], json!([]));
    let general = id(&zoe.channel("general").await);
    let said = said(&zoe, &general).await;
    for (author, text) in [
        ("Ada", "Hello **everyone**"),
        ("Bo", "Hello Ada"),
        ("Bo", "See the plan"),
    ] {
        let is_there = said.iter().any(|(a, t)| a == author && t == text);
        assert!(is_there, "{author}: {text} in {said:?}");
    }
}

/// Tables whose rows, or the newest of them, are in an export with everything.
const EXPORTED: [&str; 23] = [
    "action_items",
    "agent_files",
    "agent_versions",
    "agents",
    "bindings",
    "blobs",
    "bots",
    "channel_members",
    "channels",
    "emoji",
    "files",
    "forks",
    "hooks",
    "members",
    "memories",
    "messages",
    "resolutions",
    "schedules",
    "suspended_members",
    "threads",
    "users",
    "workflows",
    "workspaces",
];

/// Tables that are not in an export, by reason.
const LEFT_OUT: [(&str, &[&str]); 13] = [
    (
        "secrets, sign-in, and devices",
        &[
            "acme_challenges",
            "api_keys",
            "auth_events",
            "auth_flows",
            "bot_keys",
            "certificates",
            "identities",
            "identity_providers",
            "known_clients",
            "login_attempts",
            "passkeys",
            "push_devices",
            "recovery_codes",
            "revocations",
            "scim_emails",
            "scim_group_members",
            "scim_groups",
            "scim_tokens",
            "scim_users",
            "secrets",
            "sessions",
            "totp_apps",
            "workspace_sign_ins",
        ],
    ),
    (
        "tasks and what was sent to models",
        &[
            "action_needs",
            "actions",
            "agent_refreshes",
            "compactions",
            "context_parts",
            "context_texts",
            "model_calls",
            "model_facts",
            "persona_refreshes",
            "replay_cases",
            "replays",
            "response_vendor_members",
            "responses",
            "run_steps",
            "runs",
            "task_contexts",
            "task_handles",
            "task_passages",
            "task_rounds",
            "task_steers",
            "task_taints",
            "task_trees",
            "tasks",
            "tree_delegations",
            "tree_turns",
        ],
    ),
    ("events", &["bot_deliveries", "event_recipients", "events"]),
    (
        "what a person has read, follows, or is told",
        &[
            "catch_ups",
            "deliveries",
            "follows",
            "inbox_items",
            "mails",
            "notification_settings",
            "preset_removals",
            "reads",
            "suspended_channels",
            "suspended_follows",
            "told_versions",
        ],
    ),
    (
        "derived from other tables",
        &[
            "adaptation_states",
            "agent_metadata",
            "agent_names",
            "citations",
            "conversations",
            "direct_members",
            "document_parts",
            "documents",
            "embedding_progress",
            "embeddings",
            "handles",
            "memory_words",
            "message_mentions",
            "passage_sets",
            "passages",
            "pins",
            "search_backlog",
            "search_passages",
            "search_spaces",
            "usage",
            "workspace_sizes",
        ],
    ),
    (
        "settings of the workspace and its agents, which name people and servers",
        &[
            "bot_channels",
            "bot_commands",
            "bot_subscriptions",
            "budget_counters",
            "budget_lists",
            "budgets",
            "channel_agents",
            "conversation_agents",
            "embedding_models",
            "embedding_settings",
            "grants",
            "guests",
            "invites",
            "memory_settings",
            "model_settings",
            "prompt_profiles",
            "sandbox_policies",
            "tool_functions",
            "tools",
            "workspace_policies",
        ],
    ),
    (
        "work of agents on repositories, whose code is in git",
        &[
            "code_sessions",
            "code_steps",
            "code_texts",
            "code_turns",
            "repositories",
            "repository_channels",
            "repository_reads",
            "repository_starters",
            "runner_commands",
            "runner_programs",
            "runners",
            "task_keys",
        ],
    ),
    (
        "skills, which people upload",
        &["skill_channels", "skill_files", "skills"],
    ),
    (
        "collections of files",
        &[
            "vector_store_batches",
            "vector_store_files",
            "vector_store_urls",
            "vector_store_versions",
            "vector_stores",
        ],
    ),
    (
        "a person's own: in their own export",
        &["persona_versions", "personas", "user_files"],
    ),
    (
        "older versions",
        &["agent_file_versions", "workflow_versions"],
    ),
    (
        "records of the server",
        &[
            "_sqlx_migrations",
            "audit_log",
            "blob_chunks",
            "bot_calls",
            "bot_responses",
            "bot_sockets",
            "button_presses",
            "client_ids",
            "erasures",
            "export_entries",
            "export_pieces",
            "exports",
            "hook_requests",
            "hook_threads",
            "import_pieces",
            "imported",
            "imports",
            "member_merges",
            "missing_methods",
            "placeholder_addresses",
            "probes",
            "schedule_slots",
            "slack_uploads",
            "thread_removals",
        ],
    ),
    ("the search index of PostgreSQL", &["search_index"]),
];

#[tokio::test]
async fn each_table_is_in_an_export_or_left_out_for_a_reason() {
    let t = unlimited_team().await;
    for (table, _) in t.app.place.row_counts().await {
        let is_left_out = LEFT_OUT
            .iter()
            .any(|(_, tables)| tables.contains(&table.as_str()));
        let is_exported = EXPORTED.contains(&table.as_str());
        assert!(
            is_exported != is_left_out,
            "{table}: add it to one of the lists, and to docs/export-format.md"
        );
    }
}
