//! Changes of sessions: patches, logs, pushes that people approve, questions of agents, and closed sessions.

use openvibe::{
    db::{Conn, DbError, Json},
    ids::MessageId,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    approvals::waiting,
    chats::removed,
    code::{allow, team_with_runner},
    code_turns::{COMMIT, TREE, Turn, begun, done, started},
    support::{Person, ScriptedRunner, id, list, new_runner, pause, text, unknown_id, within},
};

/// Commit that the runner pushes.
const PUSHED: &str = "3333333333333333333333333333333333333333";
/// Tree of later changes.
const OTHER_TREE: &str = "4444444444444444444444444444444444444444";

/// The push of a session that waits for approval.
async fn push_of(turn: &Turn) -> Value {
    let session = turn.session().await;
    let path = format!("/v1/actions/{}", text(&session, "/action_id"));
    turn.t.ada.get(&path).await.ok()
}

async fn decide(person: &Person, action: &Value, verb: &str) -> Value {
    let path = format!("/v1/actions/{}/{verb}", id(action));
    let form = json!({"arguments_hash": action["arguments_hash"]});
    person.post(&path, form).await.is(200)
}

/// A turn that has changed a file.
async fn changed() -> Turn {
    let mut turn = started().await;
    turn.write("Fix the login\n\nThe cookie was missing.").await;
    turn.finish(1).await;
    turn
}

#[tokio::test]
async fn readers_of_the_conversation_see_the_patch_and_the_log_of_a_turn() {
    let mut turn = started().await;
    let step = json!({"step": 0, "title": "Read", "kind": "read", "state": "done", "ms": 7});
    turn.event(json!({"type": "step", "steps": [step]})).await;
    let log = format!(
        "/v1/code-sessions/{}/log?task_id={}",
        turn.session, turn.task
    );
    let patch = format!("/v1/code-sessions/{}/patch", turn.session);
    let bo = &turn.t.bo;
    bo.get(&patch).await.ok_text("");
    let shown: Value = serde_json::from_str(bo.get(&log).await.text.trim()).unwrap();
    assert_eq!((&shown["title"], &shown["ms"]), (&json!("Read"), &json!(7)));
    for (name, content) in [
        ("patch", "diff --git a/x b/x\n"),
        ("log", "{\"kind\":\"content\"}\n"),
    ] {
        let path = format!("{}/{name}?task_id={}", turn.session, turn.task);
        assert_eq!(turn.runner.put(&path, content).await, 204);
        let wrong = format!("{}/{name}?task_id={}", turn.session, unknown_id("task"));
        assert_eq!(turn.runner.put(&wrong, content).await, 404);
        let missing = format!("{}/{name}", turn.session);
        assert_eq!(turn.runner.put(&missing, content).await, 404);
    }
    bo.get(&patch).await.ok_text("diff --git a/x b/x\n");
    bo.get(&log).await.ok_text("{\"kind\":\"content\"}\n");
    let other = format!(
        "/v1/code-sessions/{}/log?task_id={}",
        turn.session,
        unknown_id("task")
    );
    assert_eq!(bo.get(&other).await.refused(404), "task_not_found");
}

/// Storage use of the workspace in bytes.
async fn stored_bytes(person: &Person) -> i64 {
    let usage = person.get("/v1/usage").await.ok();
    usage["storage"]["bytes"].as_i64().unwrap()
}

#[tokio::test]
async fn texts_of_turns_count_toward_the_storage_of_the_workspace() {
    let turn = started().await;
    let ada = &turn.t.ada;
    let before = stored_bytes(ada).await;
    let mut sizes = Vec::new();
    for name in ["patch", "log"] {
        let path = format!("{}/{name}?task_id={}", turn.session, turn.task);
        // The second one replaces the first one.
        for content in ["x", "abcdefghijklmnopqrstuvwxyz"] {
            assert_eq!(turn.runner.put(&path, content).await, 204);
            sizes.push(stored_bytes(ada).await);
        }
    }
    assert!(before < sizes[0] && sizes[0] < sizes[1], "{sizes:?}");
    assert_eq!(sizes[3] - sizes[1], sizes[1] - before, "{sizes:?}");
    let all = ada.get("/v1/runners").await.ok();
    let path = format!("/v1/runners/{}", id(&all["data"][0]));
    ada.delete(&path).await.ok();
    let texts = "select code_bytes from workspace_sizes";
    assert_eq!(count(&turn, texts).await, 0);
}

#[tokio::test]
async fn sessions_in_private_channels_are_hidden_from_others() {
    let (t, mut runner) = team_with_runner().await;
    let private = t.ada.private_channel("secret", &[]).await;
    allow(&t.ada, "api", &[&private]).await;
    let thread = t.ada.thread(&private, "Root").await;
    let task = t.ada.ask(&thread, "@coder fix the login").await;
    let session = text(&runner.command("open").await, "/session");
    let opened = json!({"type": "opened", "commit": COMMIT});
    runner.event(&session, opened).await;
    let words = json!({"type": "text", "task": task, "text": "The secret is 42."});
    runner.event(&session, words).await;
    runner.event(&session, done(&task, 1)).await;
    t.ada.completed(&task).await;
    let path = format!("/v1/code-sessions/{session}");
    // The text of the commit is not that of the reply: a repository has other readers.
    assert_eq!(t.ada.get(&path).await.ok()["title"], "Changes by Coder");
    let log = format!("{path}/log?task_id={task}");
    for hidden in [path.clone(), format!("{path}/patch"), log] {
        let refused = t.bo.get(&hidden).await.refused(404);
        assert_eq!(refused, "code_session_not_found", "{hidden}");
    }
    let refused = t.bo.patch(&path, json!({"title": "Mine"})).await;
    assert_eq!(refused.refused(404), "code_session_not_found");
    let refused = t.bo.act(&format!("{path}/close")).await;
    assert_eq!(refused.refused(404), "code_session_not_found");
    assert_eq!(t.bo.get("/v1/code-sessions").await.ok()["data"], json!([]));
    let mine = t.ada.get("/v1/code-sessions").await.ok();
    assert_eq!(list(&mine, "/data").len(), 1);
    let events = t.bo.events().await;
    assert!(
        events
            .iter()
            .all(|event| event["type"] != "code_session.updated")
    );
}

#[tokio::test]
async fn changes_are_pushed_as_soon_as_someone_approves_them() {
    let mut turn = started().await;
    let patch = format!("{}/patch?task_id={}", turn.session, turn.task);
    assert_eq!(turn.runner.put(&patch, "first").await, 204);
    turn.write("Let me look.").await;
    let last = "Fix the login\n\nThe cookie was missing.";
    turn.write(&format!("\n\n{last}")).await;
    let mut end = done(&turn.task, 1);
    end["last_text_bytes"] = json!(last.len());
    turn.event(end).await;
    turn.t.ada.completed(&turn.task).await;
    let action = push_of(&turn).await;
    for (field, value) in [
        ("state", json!("waiting")),
        ("function", json!("push")),
        ("title", json!("Push to vibe/1")),
        ("grantable", json!(false)),
    ] {
        assert_eq!(action[field], value, "{field}");
    }
    assert_eq!(
        action["arguments"],
        json!({
            "repository": "api", "branch": "vibe/1", "base": "main", "parent": COMMIT, "tree": TREE,
            "title": "Fix the login", "body": "The cookie was missing.",
        })
    );
    decide(&turn.t.ada, &action, "approve").await;
    let push = turn.runner.command("push").await;
    for (field, value) in [
        ("action", json!(id(&action))),
        ("tree", json!(TREE)),
        ("parent", json!(COMMIT)),
        ("branch", json!("vibe/1")),
        ("title", json!("Fix the login")),
    ] {
        assert_eq!(push[field], value, "{field}");
    }
    let url = "https://git.example/team/api/pull/7";
    let pushed = json!({"type": "pushed", "action": id(&action), "commit": PUSHED, "url": url, "note": null});
    turn.runner.event(&turn.session.clone(), pushed).await;
    let session = turn.session().await;
    assert_eq!(session["pushed"]["commit"], PUSHED);
    assert_eq!(session["pushed"]["url"], url);
    assert_eq!(session["pushed"]["tree"], TREE);
    assert_eq!(session["pushed"]["by"], json!(turn.t.ada.id));
    assert_eq!(push_of(&turn).await["state"], "done");
    let audit = turn.t.ada.get("/v1/audit-log?limit=100").await.ok();
    let entries = list(&audit, "/data");
    let entry = entries
        .iter()
        .find(|entry| entry["action"] == "code.pushed");
    assert_eq!(entry.unwrap()["data"]["commit"], PUSHED);
    // The next push builds on this one.
    turn.task = turn.t.ada.ask(&turn.thread, "@coder more").await;
    turn.runner.command("prompt").await;
    let patch = format!("{}/patch?task_id={}", turn.session, turn.task);
    assert_eq!(turn.runner.put(&patch, "second").await, 204);
    let mut end = done(&turn.task, 2);
    end["tree"] = OTHER_TREE.into();
    turn.runner.event(&turn.session.clone(), end).await;
    turn.t.ada.completed(&turn.task).await;
    assert_eq!(push_of(&turn).await["arguments"]["parent"], PUSHED);
    // What was pushed can be compared with what is new.
    let path = format!("/v1/code-sessions/{}/patch", turn.session);
    for (query, patch) in [
        (String::new(), "second"),
        (format!("?tree={OTHER_TREE}"), "second"),
        (format!("?tree={TREE}"), "first"),
    ] {
        let found = turn.t.bo.get(&format!("{path}{query}")).await;
        found.ok_text(patch);
    }
    let unknown = turn.t.bo.get(&format!("{path}?tree={PUSHED}")).await;
    assert_eq!(unknown.refused(409), "diff_changed");
}

#[tokio::test]
async fn a_push_that_fails_is_a_note_of_the_session() {
    let mut turn = changed().await;
    let action = push_of(&turn).await;
    decide(&turn.t.ada, &action, "approve").await;
    turn.runner.command("push").await;
    let failed = json!({
        "type": "failed", "task": null, "action": id(&action), "code": "push_failed", "message": "The branch is protected.",
    });
    turn.runner.event(&turn.session.clone(), failed).await;
    let session = turn.session().await;
    assert_eq!(
        session["notes"],
        json!(["The push failed: The branch is protected."])
    );
    assert_eq!(push_of(&turn).await["state"], "failed");
}

#[tokio::test]
async fn a_push_that_failed_is_offered_again_with_the_same_text() {
    let mut turn = changed().await;
    let first = push_of(&turn).await;
    let path = format!("/v1/code-sessions/{}", turn.session);
    let form = json!({"title": turn.session().await["title"]});
    decide(&turn.t.ada, &first, "approve").await;
    turn.runner.command("push").await;
    // The runner can still do it.
    turn.t.bo.patch(&path, form.clone()).await.ok();
    assert_eq!(turn.session().await["action_id"], first["id"]);
    let failed = json!({
        "type": "failed", "task": null, "action": id(&first), "code": "push_failed", "message": "The git server is down.",
    });
    turn.runner.event(&turn.session, failed).await;
    let offered = turn.t.bo.patch(&path, form.clone()).await.ok();
    assert_ne!(offered["action_id"], first["id"]);
    let second = push_of(&turn).await;
    assert_eq!(
        (&second["state"], &second["arguments"]),
        (&json!("waiting"), &first["arguments"])
    );
    decide(&turn.t.ada, &second, "approve").await;
    let push = turn.runner.command("push").await;
    assert_eq!(push["action"], second["id"]);
    let failed = json!({
        "type": "failed", "task": null, "action": id(&second), "code": "push_failed", "message": "The git server is down.",
    });
    turn.runner.event(&turn.session, failed).await;
    // Neither while the next turn changes the files, nor with its changes if it is stopped.
    turn.task = turn.t.ada.ask(&turn.thread, "@coder more").await;
    turn.runner.command("prompt").await;
    for is_stopped in [false, true] {
        if is_stopped {
            stop(&mut turn).await;
            end_late(&mut turn).await;
        }
        let refused = turn.t.bo.patch(&path, form.clone()).await;
        assert_eq!(refused.refused(422), "invalid_value");
    }
    assert_eq!(turn.session().await["action_id"], second["id"]);
}

#[tokio::test]
async fn a_push_fails_if_the_repository_is_no_longer_allowed() {
    let turn = changed().await;
    let action = push_of(&turn).await;
    allow(&turn.t.ada, "api", &[]).await;
    decide(&turn.t.ada, &action, "approve").await;
    assert_eq!(push_of(&turn).await["state"], "failed");
    let cause = "The push failed: The repository is no longer allowed in this channel.";
    assert_eq!(turn.session().await["notes"], json!([cause]));
    let pushes = "select count(*) from runner_commands where command like '%\"push\"%'";
    assert_eq!(count(&turn, pushes).await, 0);
}

#[tokio::test]
async fn a_deleted_runner_ends_its_pushes() {
    for (verb, state) in [(None, "cancelled"), (Some("approve"), "failed")] {
        let turn = changed().await;
        let action = push_of(&turn).await;
        if let Some(verb) = verb {
            decide(&turn.t.ada, &action, verb).await;
        }
        let all = turn.t.ada.get("/v1/runners").await.ok();
        let runner = format!("/v1/runners/{}", id(&all["data"][0]));
        turn.t.ada.delete(&runner).await.ok();
        let path = format!("/v1/actions/{}", id(&action));
        assert_eq!(turn.t.ada.get(&path).await.ok()["state"], state);
    }
}

#[tokio::test]
async fn a_push_fails_if_the_runner_has_lost_its_work() {
    let mut turn = changed().await;
    let action = push_of(&turn).await;
    decide(&turn.t.ada, &action, "approve").await;
    turn.runner.command("push").await;
    let (base, key) = (turn.runner.base.clone(), turn.runner.key.clone());
    turn.runner = ScriptedRunner::connect(&base, &key, &["api"]).await;
    assert_eq!(turn.session().await["state"], "lost");
    assert_eq!(push_of(&turn).await["state"], "failed");
}

#[tokio::test]
async fn a_denied_push_or_one_whose_changes_were_replaced_is_not_sent() {
    let mut turn = changed().await;
    let first = push_of(&turn).await;
    turn.task = turn.t.ada.ask(&turn.thread, "@coder more").await;
    turn.runner.command("prompt").await;
    let path = format!("/v1/actions/{}", id(&first));
    assert_eq!(turn.t.ada.get(&path).await.ok()["state"], "cancelled");
    turn.finish(1).await;
    let second = push_of(&turn).await;
    assert_ne!(second["id"], first["id"]);
    decide(&turn.t.ada, &second, "deny").await;
    turn.task = turn.t.ada.ask(&turn.thread, "@coder still more").await;
    // No push was sent before this command.
    let next = turn.runner.next_command().await;
    assert_eq!(next["type"], "prompt", "{next}");
}

#[tokio::test]
async fn a_new_title_needs_a_new_approval() {
    let mut turn = changed().await;
    let first = push_of(&turn).await;
    let path = format!("/v1/code-sessions/{}", turn.session);
    for (bad, field) in [
        (json!({"title": " "}), "title"),
        (json!({"title": "a\nb"}), "title"),
        (json!({"title": "x".repeat(201)}), "title"),
        (json!({"body": "x".repeat(32 * 1024 + 1)}), "body"),
    ] {
        let refused = turn.t.ada.patch(&path, bad).await;
        assert_eq!(refused.json()["error"]["param"], field);
        assert_eq!(refused.refused(422), "invalid_value");
    }
    let title = json!({"title": " Repair the login "});
    let stale = turn.t.ada.patch_if(&path, "\"1\"", title.clone()).await;
    assert_eq!(stale.refused(409), "version_conflict");
    let version = format!("\"{}\"", turn.session().await["version"]);
    let changed = turn.t.ada.patch_if(&path, &version, title).await.ok();
    assert_eq!(changed["title"], "Repair the login");
    assert_ne!(changed["action_id"], first["id"]);
    let stale = format!("/v1/actions/{}/approve", id(&first));
    let form = json!({"arguments_hash": first["arguments_hash"]});
    assert_eq!(turn.t.ada.post(&stale, form).await.status, 409);
    let second = push_of(&turn).await;
    assert_eq!(second["arguments"]["title"], "Repair the login");
    decide(&turn.t.ada, &second, "approve").await;
    let push = turn.runner.command("push").await;
    assert_eq!(push["title"], "Repair the login");
}

#[tokio::test]
async fn only_people_who_may_start_work_change_or_close_a_session() {
    let turn = changed().await;
    let all = turn.t.ada.get("/v1/repositories").await.ok();
    let repository = format!("/v1/repositories/{}", id(&all["data"][0]));
    turn.t
        .ada
        .patch(&repository, json!({"starters": "admins"}))
        .await
        .ok();
    let path = format!("/v1/code-sessions/{}", turn.session);
    let refused = turn.t.bo.patch(&path, json!({"title": "Mine"})).await;
    assert_eq!(refused.refused(403), "not_starter");
    let refused = turn.t.bo.act(&format!("{path}/close")).await;
    assert_eq!(refused.refused(403), "not_starter");
}

#[tokio::test]
async fn a_closed_session_keeps_its_patch_for_a_new_copy() {
    let mut turn = started().await;
    assert_eq!(turn.runner.patch(&turn.session).await, Err(404));
    let path = format!("{}/patch?task_id={}", turn.session, turn.task);
    assert_eq!(turn.runner.put(&path, "diff").await, 204);
    turn.finish(1).await;
    let action = push_of(&turn).await;
    let path = format!("/v1/code-sessions/{}", turn.session);
    let closed = turn.t.bo.act(&format!("{path}/close")).await.ok();
    assert_eq!(
        (&closed["state"], &closed["tree"]),
        (&json!("closed"), &json!(TREE))
    );
    assert_eq!(
        turn.runner.command("close").await["session"],
        json!(turn.session)
    );
    let action = format!("/v1/actions/{}", id(&action));
    assert_eq!(turn.t.ada.get(&action).await.ok()["state"], "cancelled");
    turn.t
        .ada
        .get(&format!("{path}/patch"))
        .await
        .ok_text("diff");
    turn.t.ada.ask(&turn.thread, "@coder go on").await;
    let open = turn.runner.command("open").await;
    assert_eq!(
        (&open["session"], &open["patch"]),
        (&json!(turn.session), &json!(true))
    );
    // A runner that has forgotten the session continues its events.
    assert_eq!(open["last_event"], 2);
    let patch = turn.runner.patch(&turn.session).await;
    assert_eq!(patch, Ok((4, "diff".to_owned())));
    let (_, key) = new_runner(&turn.t.ada, "build-2").await;
    let other = ScriptedRunner::connect(&turn.t.app.base, &key, &["web"]).await;
    assert_eq!(other.patch(&turn.session).await, Err(404));
}

#[tokio::test]
async fn closing_a_session_stops_its_turn() {
    let mut turn = started().await;
    let path = format!("/v1/code-sessions/{}/close", turn.session);
    turn.t.ada.act(&path).await.ok();
    assert_eq!(turn.t.ada.ended(&turn.task).await["status"], "cancelled");
    let seen = turn.t.ada.task_context(&turn.task).await;
    assert_eq!(seen["attempts"][0]["outcome"], "cancelled");
    assert_eq!(
        turn.runner.command("cancel").await["task"],
        json!(turn.task)
    );
    turn.runner.command("close").await;
    // The runner reports the changes of the stopped turn late.
    let end = done(&turn.task, 1);
    turn.runner.event(&turn.session, end).await;
    let session = turn.session().await;
    assert_eq!(
        (&session["state"], &session["tree"]),
        (&json!("closed"), &json!(TREE))
    );
}

#[tokio::test]
async fn a_copy_that_is_ready_after_its_session_was_closed_is_not_used() {
    let (t, mut runner) = team_with_runner().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    t.ada.ask(&thread, "@coder fix the login").await;
    let session = text(&runner.command("open").await, "/session");
    let path = format!("/v1/code-sessions/{session}");
    t.ada.act(&format!("{path}/close")).await.ok();
    let opened = json!({"type": "opened", "commit": COMMIT});
    runner.event(&session, opened).await;
    runner.command("close").await;
    let closed = t.ada.get(&path).await.ok();
    assert_eq!(
        (&closed["state"], &closed["base_commit"]),
        (&json!("closed"), &Value::Null)
    );
    t.ada.ask(&thread, "@coder go on").await;
    assert_eq!(runner.command("open").await["session"], json!(session));
}

/// A question of the agent of a turn, with its action.
async fn asked(turn: &mut Turn, ask: &str, options: Value, schema: Value) -> Value {
    let question = json!({
        "type": "ask", "ask": ask, "kind": "question", "title": "Which test?", "options": options, "schema": schema,
    });
    turn.event(question).await;
    waiting(&turn.t.ada, &turn.task).await
}

#[tokio::test]
async fn the_requester_answers_a_question_of_the_agent() {
    let mut turn = started().await;
    let form = json!({
        "type": "object", "required": ["name"],
        "properties": {"name": {"type": "string"}, "kind": {"type": "string", "enum": ["unit", "whole"]}},
    });
    let action = asked(&mut turn, "a1", json!([]), form.clone()).await;
    assert_eq!(
        (&action["kind"], &action["title"]),
        (&json!("question"), &json!("Which test?"))
    );
    assert_eq!(action["arguments"]["schema"], form);
    // The agent goes on meanwhile.
    assert_eq!(turn.t.ada.task(&turn.task).await["status"], "running");
    let path = format!("/v1/actions/{}/answer", id(&action));
    for bad in [
        json!("login"),
        json!({}),
        json!({"name": 1}),
        json!({"name": "login", "kind": "other"}),
        json!({"name": "login", "other": 1}),
    ] {
        let refused = turn.t.ada.post(&path, json!({"value": bad})).await;
        assert_eq!(refused.refused(422), "invalid_value");
    }
    let value = json!({"value": {"name": "login", "kind": "unit"}});
    assert_eq!(
        turn.t.bo.post(&path, value.clone()).await.refused(403),
        "not_your_approval"
    );
    for _ in 0..2 {
        let answered = turn.t.ada.post(&path, value.clone()).await.is(200);
        assert_eq!(answered["state"], "done");
    }
    let answer = turn.runner.command("answer").await;
    assert_eq!(
        (&answer["ask"], &answer["value"]),
        (&json!("a1"), &value["value"])
    );
    turn.finish(0).await;
    // The person repeats the answer after the runner was deleted.
    let all = turn.t.ada.get("/v1/runners").await.ok();
    let runner = format!("/v1/runners/{}", id(&all["data"][0]));
    turn.t.ada.delete(&runner).await.ok();
    let answered = turn.t.ada.post(&path, value).await.is(200);
    assert_eq!(answered["state"], "done");
}

#[tokio::test]
async fn a_question_with_options_is_answered_with_one_of_them_or_declined() {
    let mut turn = started().await;
    let options = json!([{"id": "allow", "name": "Allow"}, {"id": "reject", "name": "Reject"}]);
    let action = asked(&mut turn, "a1", options.clone(), Value::Null).await;
    assert_eq!(action["arguments"]["options"], options);
    let path = format!("/v1/actions/{}/answer", id(&action));
    let wrong = turn.t.ada.post(&path, json!({"value": "other"})).await;
    assert_eq!(wrong.refused(422), "invalid_value");
    let form = json!({"arguments_hash": action["arguments_hash"]});
    let approve = format!("/v1/actions/{}/approve", id(&action));
    assert_eq!(
        turn.t.ada.post(&approve, form).await.refused(422),
        "invalid_value"
    );
    decide(&turn.t.ada, &action, "deny").await;
    let answer = turn.runner.command("answer").await;
    assert_eq!(
        (&answer["ask"], &answer["value"]),
        (&json!("a1"), &Value::Null)
    );
    let late = turn.t.ada.post(&path, json!({"value": "allow"})).await;
    assert_eq!(late.status, 409);
    // A question that cannot be shown is declined at once.
    let question = json!({"type": "ask", "ask": "a2", "kind": "question", "title": "?", "options": [], "schema": null});
    turn.event(question).await;
    let answer = turn.runner.command("answer").await;
    assert_eq!(
        (&answer["ask"], &answer["value"]),
        (&json!("a2"), &Value::Null)
    );
}

#[tokio::test]
async fn a_turn_ends_when_its_requester_leaves() {
    let (t, runner) = team_with_runner().await;
    let mut turn = begun(t, runner, |t| &t.bo).await;
    let options = json!([{"id": "all", "name": "All"}]);
    let question = json!({
        "type": "ask", "ask": "a1", "kind": "question", "title": "Which test?", "options": options, "schema": null,
    });
    turn.event(question).await;
    let action = waiting(&turn.t.bo, &turn.task).await;
    let member = format!("/v1/members/{}", turn.t.bo.id);
    turn.t.ada.delete(&member).await.is(204);
    let cancel = turn.runner.command("cancel").await;
    assert_eq!(cancel["task"], json!(turn.task));
    let path = format!("/v1/actions/{}", id(&action));
    assert_eq!(turn.t.ada.get(&path).await.ok()["state"], "cancelled");
    assert_eq!(turn.t.ada.task(&turn.task).await["status"], "cancelled");
}

#[tokio::test]
async fn a_question_without_a_valid_id_is_dropped() {
    let mut turn = started().await;
    let long = "x".repeat(200 * 1024);
    for ask in ["", "a b", "a\0b", "é", &long] {
        let question = json!({"type": "ask", "ask": ask, "kind": "question", "title": "?", "options": [], "schema": null});
        turn.event(question).await;
    }
    let question = json!({"type": "ask", "ask": "a1", "kind": "question", "title": "?", "options": [], "schema": null});
    turn.event(question).await;
    let answer = turn.runner.command("answer").await;
    assert_eq!(answer["ask"], "a1");
}

#[tokio::test]
async fn a_turn_has_at_most_20_questions_that_wait() {
    let mut turn = started().await;
    for n in 0..=20 {
        let question = json!({
            "type": "ask", "ask": format!("a{n}"), "kind": "question", "title": "Which test?",
            "options": [{"id": "all", "name": "All"}], "schema": null,
        });
        turn.event(question).await;
    }
    let declined = turn.runner.command("answer").await;
    assert_eq!(
        (&declined["ask"], &declined["value"]),
        (&json!("a20"), &json!(null))
    );
    let questions = "select count(*) from actions where kind = 'question'";
    assert_eq!(count(&turn, questions).await, 20);
}

#[tokio::test]
async fn an_answer_is_only_for_questions() {
    let turn = changed().await;
    let action = push_of(&turn).await;
    let path = format!("/v1/actions/{}/answer", id(&action));
    let refused = turn.t.ada.post(&path, json!({"value": "yes"})).await;
    assert_eq!(refused.refused(422), "invalid_value");
    assert_eq!(push_of(&turn).await["state"], "waiting");
}

#[tokio::test]
async fn a_deleted_message_takes_the_log_with_it_and_a_deleted_reply_the_changes() {
    let mut turn = started().await;
    let step = json!({"step": 0, "title": "Read", "kind": "read", "state": "done", "ms": 7});
    turn.event(json!({"type": "step", "steps": [step]})).await;
    for name in ["patch", "log"] {
        let path = format!("{}/{name}?task_id={}", turn.session, turn.task);
        assert_eq!(turn.runner.put(&path, name).await, 204);
    }
    turn.write("Fixed.").await;
    turn.finish(1).await;
    let messages = turn.t.ada.messages(&turn.thread).await;
    let (asked, reply) = (id(&messages[1]), id(&messages[2]));
    let ada = turn.t.ada.clone();
    let path = format!("/v1/code-sessions/{}", turn.session);
    let log = format!("{path}/log?task_id={}", turn.task);
    ada.get(&log).await.ok_text("log");
    ada.delete(&format!("/v1/messages/{asked}")).await.ok();
    ada.get(&log).await.ok_text("");
    let forget = turn.runner.command("forget").await;
    assert_eq!(forget["task"], json!(turn.task));
    ada.get(&log).await.ok_text("");
    ada.get(&format!("{path}/patch")).await.ok_text("patch");
    // A log that arrives late is not kept.
    let late = format!("{}/log?task_id={}", turn.session, turn.task);
    assert_eq!(turn.runner.put(&late, "late").await, 204);
    ada.get(&log).await.ok_text("");
    let push = format!("/v1/actions/{}", text(&turn.session().await, "/action_id"));
    ada.delete(&format!("/v1/messages/{reply}")).await.ok();
    let forget = turn.runner.command("forget").await;
    assert_eq!(forget["task"], Value::Null);
    let session = turn.session().await;
    for field in ["tree", "title", "body", "reply_id"] {
        assert_eq!(session[field], Value::Null, "{field}");
    }
    assert_eq!(session["files"], json!([]));
    ada.get(&format!("{path}/patch")).await.ok_text("");
    assert_eq!(ada.get(&push).await.ok()["state"], "cancelled");
}

#[tokio::test]
async fn an_approved_push_that_the_runner_does_not_have_goes_with_its_reply() {
    let mut turn = changed().await;
    let action = push_of(&turn).await;
    let path = format!("/v1/actions/{}", id(&action));
    decide(&turn.t.ada, &action, "approve").await;
    while turn.runner.next_command().await["type"] != "push" {}
    let reply = id(&turn.last_message().await);
    let deleted = turn.t.ada.delete(&format!("/v1/messages/{reply}")).await;
    deleted.ok();
    while turn.runner.next_command().await["type"] != "forget" {}
    let ended = turn.t.ada.get(&path).await.ok();
    assert_eq!(
        (&ended["state"], &ended["result"]),
        (&json!("failed"), &json!("The reply was deleted."))
    );
    assert_eq!(ended["arguments"], Value::Null);
    let texts = "select count(*) from runner_commands where command like '%cookie%'";
    assert_eq!(count(&turn, texts).await, 0);
    // The runner had it already, but its acknowledgment was on the way.
    let pushed = json!({"type": "pushed", "action": id(&action), "commit": PUSHED, "url": null, "note": null});
    turn.runner.event(&turn.session, pushed).await;
    assert_eq!(turn.session().await["pushed"]["commit"], PUSHED);
    assert_eq!(turn.t.ada.get(&path).await.ok()["state"], "failed");
    turn.runner = turn.runner.reconnect(&["api"]).await;
    for _ in 0..2 {
        assert_eq!(turn.runner.next_command().await["type"], "forget");
    }
}

/// Stops the turn, and waits until the runner knows it.
async fn stop(turn: &mut Turn) {
    let path = format!("/v1/tasks/{}/cancel", turn.task);
    turn.t.ada.act(&path).await.is(200);
    turn.runner.command("cancel").await;
}

/// Sends the patch and the end of a turn that was stopped.
async fn end_late(turn: &mut Turn) {
    let patch = format!("{}/patch?task_id={}", turn.session, turn.task);
    assert_eq!(turn.runner.put(&patch, "late").await, 204);
    let end = done(&turn.task, 1);
    turn.runner.event(&turn.session, end).await;
}

#[tokio::test]
async fn deleted_changes_do_not_come_back_with_a_stopped_turn() {
    let mut turn = changed().await;
    let reply = id(&turn.last_message().await);
    turn.task = turn.t.ada.ask(&turn.thread, "@coder more").await;
    turn.runner.command("prompt").await;
    stop(&mut turn).await;
    let path = format!("/v1/messages/{reply}");
    turn.t.ada.delete(&path).await.ok();
    turn.runner.command("forget").await;
    end_late(&mut turn).await;
    let session = turn.session().await;
    assert_eq!(
        (&session["tree"], &session["files"]),
        (&Value::Null, &json!([]))
    );
    let patch = format!("/v1/code-sessions/{}/patch", turn.session);
    turn.t.ada.get(&patch).await.ok_text("");
}

#[tokio::test]
async fn late_texts_of_a_repository_that_is_no_longer_allowed_are_dropped() {
    let mut turn = started().await;
    allow(&turn.t.ada, "api", &[]).await;
    turn.runner.command("cancel").await;
    let log = format!("{}/log?task_id={}", turn.session, turn.task);
    assert_eq!(turn.runner.put(&log, "late").await, 204);
    end_late(&mut turn).await;
    assert_eq!(turn.session().await["tree"], Value::Null);
    assert_eq!(count(&turn, "select count(*) from code_texts").await, 0);
}

#[tokio::test]
async fn late_changes_go_with_the_reply_of_the_stopped_turn() {
    for is_deleted_first in [false, true] {
        let mut turn = started().await;
        turn.write("I will").await;
        stop(&mut turn).await;
        let reply = id(&turn.last_message().await);
        let path = format!("/v1/messages/{reply}");
        if is_deleted_first {
            turn.t.ada.delete(&path).await.ok();
            end_late(&mut turn).await;
            assert_eq!(turn.session().await["tree"], Value::Null);
        } else {
            end_late(&mut turn).await;
            let session = turn.session().await;
            assert_eq!(
                (&session["tree"], &session["reply_id"]),
                (&json!(TREE), &json!(reply))
            );
            turn.t.ada.delete(&path).await.ok();
        }
        turn.runner.command("forget").await;
        let session = turn.session().await;
        assert_eq!(
            (&session["tree"], &session["reply_id"]),
            (&Value::Null, &Value::Null)
        );
        let patch = format!("/v1/code-sessions/{}/patch", turn.session);
        turn.t.ada.get(&patch).await.ok_text("");
    }
}

async fn count(turn: &Turn, sql: &'static str) -> i64 {
    let mut c = turn.t.app.db().read().await.unwrap();
    c.q(sql).value().await.unwrap()
}

#[tokio::test]
async fn a_deleted_thread_stays_until_the_runner_has_closed_its_session() {
    let mut turn = started().await;
    for name in ["patch", "log"] {
        let path = format!("{}/{name}?task_id={}", turn.session, turn.task);
        assert_eq!(turn.runner.put(&path, name).await, 204);
    }
    turn.write("Fixed.").await;
    turn.finish(1).await;
    turn.task = turn.t.ada.ask(&turn.thread, "@coder more").await;
    turn.runner.command("prompt").await;
    // Admins can delete examples.
    let root = id(&turn.t.ada.messages(&turn.thread).await[0]);
    let root: MessageId = root.parse().unwrap();
    let mark = async move |c: &mut Conn| {
        c.q("update messages set metadata = $2 where id = $1")
            .bind(root)
            .bind(Json(json!({"example": true})))
            .run()
            .await
    };
    let marked: Result<u64, DbError> = turn.t.app.db().write(Uuid::nil(), mark).await;
    assert_eq!(marked.unwrap(), 1);
    let ada = turn.t.ada.clone();
    let path = format!("/v1/threads/{}", turn.thread);
    ada.delete(&path).await.is(204);
    let session = format!("/v1/code-sessions/{}", turn.session);
    ada.get(&session).await.refused(404);
    assert_eq!(ada.get("/v1/code-sessions").await.ok()["data"], json!([]));
    assert_eq!(count(&turn, "select count(*) from code_texts").await, 0);
    let cancel = turn.runner.next_command().await;
    assert_eq!(
        (&cancel["type"], &cancel["task"]),
        (&json!("cancel"), &json!(turn.task))
    );
    let close = turn.runner.next_command().await;
    assert_eq!(
        (&close["type"], &close["session"]),
        (&json!("close"), &json!(turn.session))
    );
    let waiting = "select count(*) from thread_removals where is_waiting";
    within("the rest of the thread to be removed", async {
        while count(&turn, waiting).await == 0 {
            pause().await;
        }
    })
    .await;
    assert_eq!(count(&turn, "select count(*) from code_sessions").await, 1);
    turn.runner.acknowledge(&close).await;
    removed(&turn.t).await;
    assert_eq!(count(&turn, "select count(*) from code_sessions").await, 0);
}

#[tokio::test]
async fn comments_on_lines_are_a_message_that_quotes_them() {
    let mut turn = started().await;
    let patch = "diff --git a/src/login.rs b/src/login.rs\n--- a/src/login.rs\n+++ b/src/login.rs\n@@ -1 +1,2 @@\n-let a = 1;\n+let a = 2;\n+// @vibe\n";
    let path = format!("{}/patch?task_id={}", turn.session, turn.task);
    assert_eq!(turn.runner.put(&path, patch).await, 204);
    turn.write("Fixed.").await;
    turn.finish(1).await;
    let path = format!("/v1/threads/{}/messages", turn.thread);
    let comment = |side: &str, line: u32, text: &str| json!({"path": "src/login.rs", "side": side, "line": line, "text": text});
    let comments = json!([
        comment("new", 2, "Why is this here?"),
        comment("old", 1, "Keep it.")
    ]);
    let form = |tree: &str, comments: &Value| {
        let review = json!({"session_id": turn.session, "tree": tree, "comments": comments});
        json!({"content": "@coder 2 comments", "review": review})
    };
    for (tree, comments, status, code) in [
        (COMMIT, &comments, 409, "diff_changed"),
        (TREE, &json!([comment("new", 9, "?")]), 409, "diff_changed"),
        (TREE, &json!([]), 422, "invalid_value"),
        (TREE, &json!([comment("new", 1, " ")]), 422, "invalid_value"),
    ] {
        let refused = turn.t.bo.post(&path, form(tree, comments)).await;
        assert_eq!(refused.refused(status), code);
    }
    let other = turn.t.bo.thread(&turn.t.general, "Other").await;
    let elsewhere = format!("/v1/threads/{other}/messages");
    let refused = turn.t.bo.post(&elsewhere, form(TREE, &comments)).await;
    assert_eq!(refused.refused(404), "code_session_not_found");
    let posted = turn.t.bo.post(&path, form(TREE, &comments)).await.is(201);
    assert_eq!(
        posted["message"]["content"],
        "@coder 2 comments\n\n`src/login.rs`, line 2:\n```\n// @vibe\n```\nWhy is this here?\n\n\
         `src/login.rs`, removed line 1:\n```\nlet a = 1;\n```\nKeep it."
    );
    let review = json!({"session_id": turn.session, "tree": TREE, "comments": 2});
    assert_eq!(posted["message"]["metadata"]["review"], review);
    // Only the mention outside of the code counts.
    assert_eq!(list(&posted, "/tasks").len(), 1);
    let prompt = turn.runner.command("prompt").await;
    assert_eq!(prompt["task"], posted["tasks"][0]["id"]);
    assert!(
        text(&prompt, "/text").contains("Why is this here?"),
        "{prompt}"
    );
    turn.runner
        .event(&turn.session, done(&text(&prompt, "/task"), 1))
        .await;
    turn.t.bo.completed(&text(&prompt, "/task")).await;
    // Comments without a text are for the agent, too.
    let mut alone = form(TREE, &json!([comment("new", 1, "Why 2?")]));
    alone["content"] = "".into();
    let posted = turn.t.bo.post(&path, alone).await.is(201);
    assert_eq!(
        posted["message"]["content"],
        "@coder\n\n`src/login.rs`, line 1:\n```\nlet a = 2;\n```\nWhy 2?"
    );
    assert_eq!(list(&posted, "/tasks").len(), 1);
}
