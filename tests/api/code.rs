//! Runners and repositories: keys, connections, and rights.

use openvibe::{
    db::{Conn, Json, now},
    ids::{
        AgentId, ChannelId, CodeSessionId, RepositoryId, RunnerId, ThreadId, UserId, WorkspaceId,
    },
};
use serde_json::{Value, json};

use crate::support::{
    Person, ScriptedRunner, Team, TestApp, greeting, id, list, new_runner, number, pause, team,
    text, unknown_id,
};

/// Allows a repository in channels, and returns it.
pub async fn allow(admin: &Person, name: &str, channels: &[&str]) -> Value {
    let all = admin.get("/v1/repositories").await.ok();
    let all = list(&all, "/data");
    let found = all.iter().find(|one| one["name"] == name).expect(name);
    let path = format!("/v1/repositories/{}", id(found));
    let patch = json!({"state": "allowed", "channel_ids": channels});
    admin.patch(&path, patch).await.ok()
}

/// A team with a runner that offers `api`, which is allowed in #general.
pub async fn team_with_runner() -> (Team, ScriptedRunner) {
    let t = team().await;
    let (_, key) = new_runner(&t.ada, "build-1").await;
    let runner = ScriptedRunner::connect(&t.app.base, &key, &["api"]).await;
    allow(&t.ada, "api", &[&t.general]).await;
    (t, runner)
}

/// A runner that was never connected, its repository, and a session in a conversation.
pub struct StoredCode {
    pub runner: String,
    pub repository: String,
    pub session: String,
    /// Task of the session's agent.
    pub task: String,
}

/// Stores a runner with this name, whose repository is allowed in a channel, and a session of Vibe there.
pub async fn stored_code(app: &TestApp, by: &Person, channel: &str, name: &str) -> StoredCode {
    let thread = by.thread(channel, "Root").await;
    let task = by.ask(&thread, "@vibe hi").await;
    by.completed(&task).await;
    let agent: AgentId = id(&by.agent("vibe").await).parse().unwrap();
    let workspace: WorkspaceId = by.workspace.parse().unwrap();
    let user: UserId = by.id.parse().unwrap();
    let channel: ChannelId = channel.parse().unwrap();
    let thread: ThreadId = thread.parse().unwrap();
    let (runner, repository) = (RunnerId::new(), RepositoryId::new());
    let session = CodeSessionId::new();
    let name = name.to_owned();
    let store = async move |c: &mut Conn| {
        let none = Json(json!([]));
        c.q("insert into runners (id, workspace_id, name, key_hash, engines, created_by, created_at) values ($1, $2, $3, $4, $5, $6, $7)")
            .bind(runner)
            .bind(workspace)
            .bind(name.clone())
            .bind(runner.to_string())
            .bind(none.clone())
            .bind(user)
            .bind(now())
            .run()
            .await?;
        c.q("insert into repositories (id, workspace_id, runner_id, name, base, can_push, is_offered, is_allowed, starters, last_number, \
             version, created_at) values ($1, $2, $3, 'api', 'main', FALSE, TRUE, TRUE, 'members', 1, 1, $4)")
            .bind(repository)
            .bind(workspace)
            .bind(runner)
            .bind(now())
            .run()
            .await?;
        c.q("insert into repository_channels (repository_id, channel_id) values ($1, $2)")
            .bind(repository)
            .bind(channel)
            .run()
            .await?;
        c.q("insert into code_sessions (id, workspace_id, repository_id, number, agent_id, channel_id, thread_id, conversation_id, engine, \
             state, files, file_count, additions, deletions, check_state, check_ms, title, push_sent, notes, read_seq, last_command, \
             last_event, started_by, version, created_at, turn_at) values ($1, $2, $3, 1, $4, $5, $6, $6, 'builtin', 'ready', $7, 0, 0, 0, \
             'none', 0, 'Fix', FALSE, $7, 0, 0, 0, $8, 1, $9, $9)")
            .bind(session)
            .bind(workspace)
            .bind(repository)
            .bind(agent)
            .bind(channel)
            .bind(thread)
            .bind(none.clone())
            .bind(user)
            .bind(now())
            .run()
            .await
    };
    app.db().write(workspace.0, store).await.unwrap();
    StoredCode {
        runner: runner.to_string(),
        repository: repository.to_string(),
        session: session.to_string(),
        task,
    }
}

async fn names(person: &Person) -> Vec<String> {
    let all = person.get("/v1/repositories").await.ok();
    let all = list(&all, "/data");
    all.iter().map(|one| text(one, "/name")).collect()
}

/// Waits until the only runner of the workspace is online or not.
async fn until_online(admin: &Person, is_online: bool) {
    loop {
        let all = admin.get("/v1/runners").await.ok();
        if all["data"][0]["online"] == is_online {
            return;
        }
        pause().await;
    }
}

#[tokio::test]
async fn a_runner_connects_with_its_key_and_offers_repositories() {
    let t = team().await;
    let (runner_id, key) = new_runner(&t.ada, "build-1").await;
    assert!(key.starts_with("ovr_"), "{key}");
    let listed = t.ada.get("/v1/runners").await.ok();
    assert_eq!(listed["data"][0]["id"], json!(runner_id));
    assert_eq!(listed["data"][0]["online"], false);
    assert!(!listed.to_string().contains(&key));
    let runner = ScriptedRunner::connect(&t.app.base, &key, &["api", "web"]).await;
    assert_eq!(runner.ready["sessions"], json!({}));
    until_online(&t.ada, true).await;
    let all = t.ada.get("/v1/repositories").await.ok();
    let api = &all["data"][0];
    for (field, value) in [
        ("name", json!("api")),
        ("state", json!("offered")),
        ("base", json!("main")),
        ("channel_ids", json!([])),
        ("starters", json!("members")),
        ("can_push", json!(true)),
        ("version", json!(1)),
        ("engine", Value::Null),
    ] {
        assert_eq!(api[field], value, "{field}");
    }
    assert_eq!(api["runner"]["name"], "build-1");
    assert_eq!(
        api["engines"][1],
        json!({"name": "claude", "to": "api.example"})
    );
    drop(runner);
    until_online(&t.ada, false).await;
    // The runner comes back with one repository less.
    let _again = ScriptedRunner::connect(&t.app.base, &key, &["web"]).await;
    let all = t.ada.get("/v1/repositories").await.ok();
    assert_eq!(all["data"][0]["state"], "gone");
    assert_eq!(all["data"][1]["state"], "offered");
}

#[tokio::test]
async fn wrong_keys_and_greetings_are_rejected() {
    let t = team().await;
    let (_, key) = new_runner(&t.ada, "build-1").await;
    let base = t.app.base.as_str();
    let person_key = t.ada.make_key(&["agents:admin"]).await.0.key.unwrap();
    for wrong in ["", "ovr_unknown", person_key.as_str()] {
        assert_eq!(ScriptedRunner::refused(base, wrong).await, 401, "{wrong}");
    }
    // The key of a runner opens nothing else.
    assert_eq!(t.ada.with_key(&key).get("/v1/runners").await.status, 401);
    let mut newer = greeting(&["api"]);
    newer["protocol"] = 2.into();
    let rejected = ScriptedRunner::rejected(base, &key, &newer.to_string()).await;
    assert_eq!(rejected, (1008, "Upgrade the runner.".to_owned()));
    for bad in ["{}", "no json", &greeting(&["../x"]).to_string()] {
        assert_eq!(ScriptedRunner::rejected(base, &key, bad).await.0, 1008);
    }
    assert!(names(&t.ada).await.is_empty());
}

#[tokio::test]
async fn five_bad_frames_end_a_connection() {
    let t = team().await;
    let (_, key) = new_runner(&t.ada, "build-1").await;
    let mut runner = ScriptedRunner::connect(&t.app.base, &key, &["api"]).await;
    for n in 0..5 {
        runner
            .send_text(&format!("{{\"type\":\"dance\",\"n\":{n}}}"))
            .await;
    }
    assert_eq!(runner.closed().await.0, 1008);
}

#[tokio::test]
async fn the_newest_connection_serves_a_runner_and_a_deleted_runner_has_none() {
    let t = team().await;
    let (runner_id, key) = new_runner(&t.ada, "build-1").await;
    let first = ScriptedRunner::connect(&t.app.base, &key, &["api"]).await;
    let second = ScriptedRunner::connect(&t.app.base, &key, &["api"]).await;
    assert_eq!(first.closed().await.0, 4001);
    let path = format!("/v1/runners/{runner_id}");
    assert_eq!(t.bo.delete(&path).await.refused(403), "role_too_low");
    t.ada.delete(&path).await.ok();
    assert_eq!(second.closed().await.0, 4001);
    assert_eq!(ScriptedRunner::refused(&t.app.base, &key).await, 401);
    assert!(names(&t.ada).await.is_empty());
    assert_eq!(t.ada.delete(&path).await.refused(404), "runner_not_found");
}

#[tokio::test]
async fn a_workspace_has_at_most_20_runners() {
    let t = team().await;
    for n in 0..20 {
        new_runner(&t.ada, &format!("build {n}")).await;
    }
    let more = t.ada.post("/v1/runners", json!({"name": "more"})).await;
    assert_eq!(more.refused(409), "too_many_runners");
    let blank = t.ada.post("/v1/runners", json!({"name": " "})).await;
    assert_eq!(blank.refused(422), "invalid_value");
    let by_bo = t.bo.post("/v1/runners", json!({"name": "mine"})).await;
    assert_eq!(by_bo.refused(403), "role_too_low");
}

#[tokio::test]
async fn a_runner_has_at_most_300_repositories() {
    let t = team().await;
    let (_, key) = new_runner(&t.ada, "build-1").await;
    for round in 0..4 {
        let names: Vec<String> = (0..90).map(|n| format!("r{round}-{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        ScriptedRunner::connect(&t.app.base, &key, &names).await;
    }
    let mut c = t.app.db().read().await.unwrap();
    let stored = c.q("select count(*) from repositories").value();
    let stored: i64 = stored.await.unwrap();
    assert_eq!(stored, 300);
}

#[tokio::test]
async fn members_see_the_repositories_of_their_channels() {
    let t = team().await;
    let (_, key) = new_runner(&t.ada, "build-1").await;
    let _runner = ScriptedRunner::connect(&t.app.base, &key, &["api", "web"]).await;
    assert_eq!(names(&t.ada).await, ["api", "web"]);
    assert!(names(&t.bo).await.is_empty());
    let private = t.ada.private_channel("secret", &[]).await;
    allow(&t.ada, "api", &[&t.general, &private]).await;
    allow(&t.ada, "web", &[&private]).await;
    assert_eq!(names(&t.bo).await, ["api"]);
    let all = t.bo.get("/v1/repositories").await.ok();
    assert_eq!(all["data"][0]["channel_ids"], json!([t.general]));
    let guest = t.app.join_as_guest(&t.ada, "Gil", &["general"]).await;
    assert_eq!(guest.get("/v1/repositories").await.status, 403);
}

#[tokio::test]
async fn an_admin_decides_where_and_by_whom_a_repository_is_used() {
    let t = team().await;
    let (_, key) = new_runner(&t.ada, "build-1").await;
    let _runner = ScriptedRunner::connect(&t.app.base, &key, &["api"]).await;
    let made = allow(&t.ada, "api", &[&t.general]).await;
    assert_eq!(
        (text(&made, "/state"), number(&made, "/version")),
        ("allowed".to_owned(), 2)
    );
    let path = format!("/v1/repositories/{}", id(&made));
    let stale = t
        .ada
        .patch_if(&path, "\"1\"", json!({"engine": "claude"}))
        .await;
    assert_eq!(stale.refused(409), "version_conflict");
    let starters = json!({"starters": [t.bo.id], "engine": "claude"});
    let changed = t.ada.patch_if(&path, "\"2\"", starters).await.ok();
    assert_eq!(changed["starters"], json!([t.bo.id]));
    assert_eq!(changed["engine"], "claude");
    let guest = t.app.join_as_guest(&t.ada, "Gil", &["general"]).await;
    for (patch, status, code) in [
        (json!({"engine": "unknown"}), 422, "invalid_value"),
        (json!({"state": "gone"}), 422, "invalid_value"),
        (json!({"starters": [guest.id]}), 404, "member_not_found"),
        (
            json!({"channel_ids": [unknown_id("chan")]}),
            404,
            "channel_not_found",
        ),
    ] {
        let refused = t.ada.patch(&path, patch.clone()).await;
        assert_eq!(refused.refused(status), code, "{patch}");
    }
    let by_bo = t.bo.patch(&path, json!({"state": "offered"})).await;
    assert_eq!(by_bo.refused(403), "role_too_low");
    // Members who have left do not start work when they come back.
    let member = format!("/v1/members/{}", t.bo.id);
    t.ada.delete(&member).await.is(204);
    let all = t.ada.get("/v1/repositories").await.ok();
    assert_eq!(all["data"][0]["starters"], json!([]));
    let audit = t.ada.get("/v1/audit-log?limit=100").await.ok();
    let actions: Vec<String> = list(&audit, "/data")
        .iter()
        .map(|entry| text(entry, "/action"))
        .collect();
    for action in ["runner.created", "repository.updated"] {
        assert!(
            actions.contains(&action.to_owned()),
            "{action} in {actions:?}"
        );
    }
}
