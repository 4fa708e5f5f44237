//! Archives of workspaces.

use std::{
    collections::BTreeMap,
    io::{Cursor, Read},
    process::Output,
};

use serde_json::json;
use zip::ZipArchive;

use crate::{
    imports::unlimited_team,
    support::{Team, command, id},
};

/// Entries of an archive by name.
type Entries = BTreeMap<String, Vec<u8>>;

fn entries(archive: &[u8]) -> Entries {
    let mut zip = ZipArchive::new(Cursor::new(archive)).unwrap();
    let mut entries = Entries::new();
    for n in 0..zip.len() {
        let mut entry = zip.by_index(n).unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        let name = entry.name().to_owned();
        assert!(entries.insert(name.clone(), bytes).is_none(), "{name}");
    }
    entries
}

fn all_text(entries: &Entries) -> String {
    let texts = entries.values().map(|bytes| String::from_utf8_lossy(bytes));
    texts.collect()
}

/// A team with messages in a public, a private, and a direct channel, a file, a reaction, and a result. The private channel is Bo's.
async fn talkative() -> Team {
    let t = unlimited_team().await;
    let thread = t.ada.thread(&t.general, "Hello **everyone**").await;
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

/// Tables whose rows, or the newest of them, are in an export with everything.
const EXPORTED: [&str; 22] = [
    "action_items",
    "agent_files",
    "agent_versions",
    "agents",
    "bindings",
    "blobs",
    "bots",
    "channel_members",
    "channels",
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
const LEFT_OUT: [(&str, &[&str]); 10] = [
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
            "task_rounds",
            "task_taints",
            "task_trees",
            "tasks",
            "tree_delegations",
            "tree_turns",
        ],
    ),
    ("events", &["event_recipients", "events"]),
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
            "handles",
            "memory_words",
            "message_mentions",
            "search_backlog",
            "search_spaces",
            "usage",
            "workspace_sizes",
        ],
    ),
    (
        "settings of the workspace and its agents, which name people and servers",
        &[
            "bot_channels",
            "budget_counters",
            "budget_lists",
            "budgets",
            "channel_agents",
            "conversation_agents",
            "grants",
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
            "client_ids",
            "erasures",
            "hook_requests",
            "hook_threads",
            "import_pieces",
            "imported",
            "imports",
            "member_merges",
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
