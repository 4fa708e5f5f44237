//! Version history of an agent: contents, changes, and restoring a version.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Person, id, instructions_of, list, number, team, text, unknown_id};

fn form(name: &str) -> Value {
    json!({"name": name, "instructions": instructions_of(name), "editors": []})
}

/// Creates an agent with this many versions and returns its path. Each version has its number as description.
async fn aged(person: &Person, name: &str, versions: usize) -> String {
    let mut fields = form(name);
    fields["description"] = "1".into();
    let path = format!(
        "/v1/agents/{}",
        id(&person.post("/v1/agents", fields).await.is(201))
    );
    for n in 2..=versions {
        person
            .patch(&path, json!({"description": n.to_string()}))
            .await
            .is(200);
    }
    path
}

fn numbers(page: &Value) -> Vec<i64> {
    list(page, "/data")
        .iter()
        .map(|v| number(v, "/version"))
        .collect()
}

async fn roll_back(person: &Person, path: &str, target: i64) -> Value {
    person
        .post(
            &format!("{path}/rollback"),
            json!({"target_version": target}),
        )
        .await
        .is(200)
}

#[tokio::test]
async fn a_change_has_the_summary_of_the_person_who_makes_it() {
    let t = team().await;
    let path = aged(&t.ada, "sage", 1).await;
    let summary = "  Answers in two sentences, as support asked  ";
    let patch = json!({"description": "2", "change_summary": summary});
    t.ada.patch(&path, patch).await.is(200);
    let mut whole = form("sage");
    whole["change_summary"] = "Back to the basics".into();
    let replaced = t.ada.put(&path, whole).await.is(200);
    assert!(replaced.get("change_summary").is_none());
    let back = json!({"target_version": 2, "change_summary": "Support needs it short"});
    t.ada.post(&format!("{path}/rollback"), back).await.is(200);
    roll_back(&t.ada, &path, 1).await;
    t.ada
        .patch(&path, json!({"description": "6", "change_summary": " "}))
        .await
        .is(200);
    let versions = t.bo.get(&format!("{path}/versions")).await.ok();
    let summaries = list(&versions, "/data");
    let summaries: Vec<String> = summaries
        .iter()
        .map(|one| text(one, "/change_summary"))
        .collect();
    assert_eq!(
        summaries,
        [
            "changed description",
            "rolled back to version 1",
            "Support needs it short",
            "Back to the basics",
            summary.trim(),
            "created",
        ]
    );
    let same = json!({"description": "6", "change_summary": "Nothing"});
    assert_eq!(
        t.ada.patch(&path, same).await.is(200)["version"],
        6,
        "nothing has changed"
    );
    for (text, status) in [("x".repeat(240), 200), ("x".repeat(241), 422)] {
        let patch = json!({"description": text, "change_summary": text});
        let reply = t.ada.patch(&path, patch).await;
        assert_eq!(reply.status, status);
        if status == 422 {
            assert_eq!(reply.json()["error"]["param"], "change_summary");
        }
    }
    let long = json!({"target_version": 1, "change_summary": "x".repeat(241)});
    assert_eq!(
        t.ada.post(&format!("{path}/rollback"), long).await.status,
        422
    );
}

#[tokio::test]
async fn versions_are_listed_newest_first_page_by_page() {
    let t = team().await;
    let path = aged(&t.ada, "sage", 25).await;
    let first = t.bo.get(&format!("{path}/versions")).await.ok();
    assert_eq!(first["object"], "list");
    assert_eq!(
        numbers(&first),
        (6..=25).rev().collect::<Vec<i64>>(),
        "20 by default"
    );
    assert_eq!(first["has_more"], true);
    let cursor = text(&first, "/next_cursor");
    let second =
        t.bo.get(&format!("{path}/versions?cursor={cursor}"))
            .await
            .ok();
    assert_eq!(numbers(&second), [5, 4, 3, 2, 1]);
    assert_eq!(second["has_more"], false);
    assert!(second["next_cursor"].is_null());
    let three =
        t.bo.get(&format!("{path}/versions?limit=3&cursor={cursor}"))
            .await
            .ok();
    assert_eq!(
        (numbers(&three), &three["has_more"]),
        (vec![5, 4, 3], &json!(true))
    );
    for bad in [
        "limit=0",
        "limit=101",
        "limit=x",
        "cursor=x",
        "after=3",
        "cursor=agent_x",
    ] {
        t.bo.get(&format!("{path}/versions?{bad}"))
            .await
            .refused(400);
    }
}

#[tokio::test]
async fn a_version_records_its_author_time_and_changes() {
    let t = team().await;
    let path = aged(&t.ada, "sage", 1).await;
    t.bo.patch(
        &path,
        json!({"temperature": 1, "tools": [{"type": "web_fetch"}]}),
    )
    .await
    .is(200);
    t.ada.patch(&path, json!({"name": "owl"})).await.is(200);
    t.ada
        .patch(&path, json!({"status": "inactive"}))
        .await
        .is(200);
    let versions = t.ada.get(&format!("{path}/versions")).await.ok();
    let all = list(&versions, "/data");
    let agent = t.ada.get(&path).await.ok();
    for version in &all {
        assert_eq!(version["object"], "agent_version");
        assert_eq!(version["agent_id"], agent["id"]);
        assert!(text(version, "/changed_at").ends_with('Z'));
        assert!(version.get("snapshot").is_none());
    }
    let by: Vec<&Value> = all.iter().map(|v| &v["changed_by"]).collect();
    assert_eq!(
        by,
        [
            &json!(t.ada.id),
            &json!(t.ada.id),
            &json!(t.bo.id),
            &json!(t.ada.id)
        ]
    );
    let said: Vec<String> = all.iter().map(|v| text(v, "/change_summary")).collect();
    assert!(said[0].contains("inactive"), "{said:?}");
    assert!(said[1].contains("owl"), "{said:?}");
    assert!(
        said[2].contains("temperature") && said[2].contains("tools"),
        "{said:?}"
    );
    assert!(!said[2].contains("description"), "{said:?}");
}

#[tokio::test]
async fn a_version_is_returned_as_written_and_as_resolved() {
    let t = team().await;
    let base = id(&t.ada.post("/v1/agents", form("base")).await.is(201));
    let mut child = form("child");
    child["base_profile_id"] = base.as_str().into();
    child["metadata"] = json!({"k": "1"});
    let path = format!(
        "/v1/agents/{}",
        id(&t.ada.post("/v1/agents", child).await.is(201))
    );
    t.ada
        .patch(
            &path,
            json!({"name": "kid", "mentionable": false, "metadata": {"k": "2"}}),
        )
        .await
        .is(200);
    t.ada
        .patch(
            &format!("/v1/agents/{base}"),
            json!({"instructions": "You are Base, anew."}),
        )
        .await
        .is(200);
    let first = t.bo.get(&format!("{path}/versions/1")).await.ok();
    assert_eq!(
        (&first["object"], &first["version"]),
        (&json!("agent_version"), &json!(1))
    );
    let snapshot = &first["snapshot"];
    assert_eq!(
        (&snapshot["name"], &snapshot["mentionable"]),
        (&json!("child"), &json!(true))
    );
    assert_eq!(snapshot["instructions"], instructions_of("child"));
    assert_eq!(
        (&snapshot["metadata"], &snapshot["status"]),
        (&json!({"k": "1"}), &json!("active"))
    );
    assert_eq!(snapshot["base_profile_id"], base.as_str());
    assert_eq!(
        first["resolved"]["instructions"],
        format!(
            "{}\n\n{}",
            instructions_of("base"),
            instructions_of("child")
        )
    );
    let third = t.bo.get(&format!("{path}/versions/3")).await.ok();
    assert_eq!(third["snapshot"]["name"], "kid");
    assert_eq!(
        third["resolved"]["instructions"],
        format!("You are Base, anew.\n\n{}", instructions_of("child"))
    );
    assert_eq!(third["resolved"]["metadata"], json!({"k": "2"}));
}

#[tokio::test]
async fn a_missing_version_is_not_found() {
    let t = team().await;
    let path = aged(&t.ada, "sage", 2).await;
    for rest in [
        "versions/3",
        "versions/0",
        "versions/-1",
        "versions/3/diff",
        "versions/2/diff?against=9",
    ] {
        assert_eq!(
            t.ada.get(&format!("{path}/{rest}")).await.refused(404),
            "version_not_found",
            "{rest}"
        );
    }
    let target = json!({"target_version": 3});
    assert_eq!(
        t.ada
            .post(&format!("{path}/rollback"), target)
            .await
            .refused(404),
        "version_not_found"
    );
    for rest in [
        "versions/x",
        "versions/1.5",
        "versions/x/diff",
        "versions/2/diff?against=x",
        "versions/2/diff?to=1",
    ] {
        t.ada.get(&format!("{path}/{rest}")).await.refused(400);
    }
    let none = format!("/v1/agents/{}", unknown_id("agent"));
    assert_eq!(
        t.ada.get(&format!("{none}/versions")).await.refused(404),
        "agent_not_found"
    );
    assert_eq!(
        t.ada.get(&format!("{none}/versions/1")).await.refused(404),
        "agent_not_found"
    );
    for body in [
        json!({}),
        json!({"target_version": "1"}),
        json!({"target_version": 1, "why": "x"}),
        json!({"target_version": null}),
    ] {
        t.ada
            .post(&format!("{path}/rollback"), body)
            .await
            .refused(400);
    }
    assert_eq!(t.ada.get(&path).await.ok()["version"], 2);
}

#[tokio::test]
async fn a_diff_lists_each_changed_field() {
    let t = team().await;
    let path = aged(&t.ada, "sage", 3).await;
    let changes = json!({"name": "owl", "temperature": 0.5, "metadata": {"k": "v"}, "status": "inactive", "mentionable": false});
    t.ada.patch(&path, changes).await.is(200);
    let diff = t.bo.get(&format!("{path}/versions/4/diff")).await.ok();
    assert_eq!(
        (&diff["object"], &diff["from"], &diff["to"]),
        (&json!("agent_diff"), &json!(3), &json!(4))
    );
    assert_eq!(diff["agent_id"], t.ada.get(&path).await.ok()["id"]);
    let mut fields: Vec<String> = list(&diff, "/changes")
        .iter()
        .map(|c| text(c, "/field"))
        .collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        ["mentionable", "metadata", "name", "status", "temperature"]
    );
    let of = |field: &str| {
        list(&diff, "/changes")
            .into_iter()
            .find(|c| c["field"] == field)
            .unwrap()
    };
    assert_eq!(
        (&of("name")["before"], &of("name")["after"]),
        (&json!("sage"), &json!("owl"))
    );
    assert_eq!(
        (&of("temperature")["before"], &of("temperature")["after"]),
        (&Value::Null, &json!(0.5))
    );
    let back =
        t.bo.get(&format!("{path}/versions/1/diff?against=3"))
            .await
            .ok();
    assert_eq!(
        back["changes"],
        json!([{"field": "description", "before": "3", "after": "1"}])
    );
    let same =
        t.bo.get(&format!("{path}/versions/2/diff?against=2"))
            .await
            .ok();
    assert_eq!(same["changes"], json!([]));
    let first = t.bo.get(&format!("{path}/versions/1/diff")).await.ok();
    assert_eq!(
        first["changes"],
        json!([]),
        "there is none before the first"
    );
}

#[tokio::test]
async fn a_rollback_creates_a_version_and_keeps_the_history() {
    let t = team().await;
    let path = aged(&t.ada, "sage", 3).await;
    let mut socket = t.ada.socket().await;
    let reply =
        t.bo.post(&format!("{path}/rollback"), json!({"target_version": 1}))
            .await;
    assert_eq!(reply.header("etag").as_deref(), Some("\"4\""));
    let now = reply.is(200);
    assert_eq!(
        (&now["version"], &now["description"]),
        (&json!(4), &json!("1"))
    );
    assert_eq!(
        socket.of("agent.updated").await["data"]["agent"]["version"],
        4
    );
    let versions = t.ada.get(&format!("{path}/versions")).await.ok();
    assert_eq!(numbers(&versions), [4, 3, 2, 1]);
    assert_eq!(
        versions["data"][0]["change_summary"],
        "rolled back to version 1"
    );
    assert_eq!(versions["data"][0]["changed_by"], t.bo.id.as_str());
    let third = t.ada.get(&format!("{path}/versions/3")).await.ok();
    assert_eq!(third["snapshot"]["description"], "3");
    let forward = roll_back(&t.ada, &path, 3).await;
    assert_eq!(
        (&forward["version"], &forward["description"]),
        (&json!(5), &json!("3"))
    );
    let log = t.ada.get("/v1/audit-log?limit=100").await.ok();
    let versions: Vec<Value> = list(&log, "/data")
        .iter()
        .filter(|entry| entry["action"] == "agent.updated")
        .map(|entry| entry["data"]["version"].clone())
        .collect();
    assert_eq!(versions, [2, 3, 4, 5]);
}

#[tokio::test]
async fn a_rollback_to_the_current_version_is_also_recorded() {
    let t = team().await;
    let path = aged(&t.ada, "sage", 2).await;
    let now = roll_back(&t.ada, &path, 2).await;
    assert_eq!(
        (&now["version"], &now["description"]),
        (&json!(3), &json!("2"))
    );
}

#[tokio::test]
async fn name_and_status_are_not_rolled_back() {
    let t = team().await;
    let path = aged(&t.ada, "sage", 1).await;
    t.ada
        .patch(
            &path,
            json!({"name": "owl", "status": "inactive", "mentionable": false}),
        )
        .await
        .is(200);
    let now = roll_back(&t.ada, &path, 1).await;
    assert_eq!(
        (&now["name"], &now["status"]),
        (&json!("owl"), &json!("inactive"))
    );
    assert_eq!(now["mentionable"], true);
}

#[tokio::test]
async fn a_rollback_restores_the_whole_profile() {
    let t = team().await;
    let mut whole = form("sage");
    for (field, value) in [
        ("tools", json!([{"type": "function", "name": "f"}])),
        ("memory", json!({"conversation_retention_days": 9})),
        ("agency", json!({"constraints": ["x"]})),
        ("metadata", json!({"a": "1", "b": "2"})),
        (
            "access_control",
            json!({"allowed_subjects": ["role:admin"], "denied_subjects": []}),
        ),
        ("identity", json!("A plain text")),
    ] {
        whole[field] = value;
    }
    let made = t.ada.post("/v1/agents", whole).await.is(201);
    let path = format!("/v1/agents/{}", id(&made));
    t.ada.put(&path, form("sage")).await.is(200);
    let mut now = roll_back(&t.ada, &path, 1).await;
    for changed in ["version", "updated_at"] {
        now[changed] = made[changed].clone();
    }
    assert_eq!(now, made);
}

#[tokio::test]
async fn a_rollback_to_an_invalid_state_is_rejected() {
    let t = team().await;
    let base = id(&t.ada.post("/v1/agents", form("base")).await.is(201));
    let mut child = form("child");
    child["base_profile_id"] = base.as_str().into();
    let path = format!(
        "/v1/agents/{}",
        id(&t.ada.post("/v1/agents", child).await.is(201))
    );
    t.ada
        .patch(&path, json!({"base_profile_id": null}))
        .await
        .is(200);
    t.ada.delete(&format!("/v1/agents/{base}")).await.is(200);
    let target = json!({"target_version": 1});
    assert_eq!(
        t.ada
            .post(&format!("{path}/rollback"), target.clone())
            .await
            .refused(422),
        "base_archived"
    );
    t.ada
        .delete(&format!("/v1/agents/{base}?permanent=true"))
        .await
        .is(200);
    t.ada
        .post(&format!("{path}/rollback"), target)
        .await
        .refused(404);
    assert_eq!(t.ada.get(&path).await.ok()["version"], 2);
}

#[tokio::test]
async fn a_rollback_can_specify_the_expected_version() {
    let t = team().await;
    let path = aged(&t.ada, "sage", 3).await;
    let body = || Some(json!({"target_version": 1}).to_string().into_bytes());
    let rollback = format!("{path}/rollback");
    let stale = t
        .ada
        .send(Method::POST, &rollback, &[("if-match", "2")], body())
        .await;
    assert_eq!(stale.json()["error"]["current"]["version"], 3);
    assert_eq!(stale.refused(409), "version_conflict");
    t.ada
        .send(Method::POST, &rollback, &[("if-match", "\"3\"")], body())
        .await
        .is(200);
}

#[tokio::test]
async fn a_task_records_the_version_that_it_ran_with() {
    let t = team().await;
    let path = aged(&t.ada, "sage", 2).await;
    let started = t.ada.start(&t.general, "@sage hi").await;
    let task = text(&started, "/tasks/0/id");
    let ended = t.ada.completed(&task).await;
    assert_eq!(ended["agent_version"], 2);
    t.ada
        .patch(&path, json!({"description": "3"}))
        .await
        .is(200);
    assert_eq!(t.ada.task(&task).await["agent_version"], 2);
    let reply = &t.ada.messages(&text(&started, "/thread/id")).await[1];
    assert_eq!(reply["metadata"]["agent_version"], 2);
    let again = t.ada.start(&t.general, "@sage hi").await;
    assert_eq!(again["tasks"][0]["agent_version"], 3);
}

#[tokio::test]
async fn a_retry_runs_on_the_newest_version() {
    let t = team().await;
    let path = aged(&t.ada, "sage", 1).await;
    t.model().script(
        "sage",
        [crate::support::Answer::status(
            400,
            r#"{"error":{"message":"no"}}"#,
        )],
    );
    let started = t.ada.start(&t.general, "@sage hi").await;
    let task = text(&started, "/tasks/0/id");
    t.ada.failed(&task).await;
    t.ada
        .patch(&path, json!({"instructions": "You are Sage, wiser."}))
        .await
        .is(200);
    let retried = t.ada.act(&format!("/v1/tasks/{task}/retry")).await.is(201);
    assert_eq!(retried["agent_version"], 2, "{retried}");
    t.ada.completed(&id(&retried)).await;
    let asked = t.model().asked("sage", 2).await;
    assert!(text(&asked[1].body, "/messages/0/content").ends_with("\n\nYou are Sage, wiser."));
}

#[tokio::test]
async fn a_dive_keeps_the_version_that_its_thread_was_bound_to() {
    let t = team().await;
    let path = aged(&t.ada, "sage", 1).await;
    let sage = id(&t.ada.get(&path).await.ok());
    let threads = format!("/v1/channels/{}/threads", t.general);
    let started = t
        .ada
        .post(&threads, json!({"content": "Hi", "agent_id": sage}))
        .await
        .is(201);
    t.ada.completed(&text(&started, "/tasks/0/id")).await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let fork = id(&t.ada.start_fork(&thread, &root, json!({})).await);
    t.ada
        .patch(&path, json!({"instructions": "You are Sage, wiser."}))
        .await
        .is(200);
    let task = t.ada.ask_in(&fork, "And here?").await;
    assert_eq!(t.ada.completed(&task).await["agent_version"], 1);
    let moved = t
        .ada
        .patch(&format!("/v1/forks/{fork}"), json!({"agent_id": sage}))
        .await
        .is(200);
    assert_eq!(moved["agent_id"], sage.as_str());
    let task = t.ada.ask_in(&fork, "And now?").await;
    assert_eq!(t.ada.completed(&task).await["agent_version"], 2);
}

#[tokio::test]
async fn versions_of_an_archived_agent_remain_readable() {
    let t = team().await;
    let path = aged(&t.ada, "sage", 2).await;
    t.ada.delete(&path).await.is(200);
    let versions = t.bo.get(&format!("{path}/versions")).await.ok();
    assert_eq!(numbers(&versions), [3, 2, 1]);
    let said = text(&versions, "/data/0/change_summary");
    assert!(said.contains("archived"), "{said}");
    t.bo.get(&format!("{path}/versions/1")).await.is(200);
}
