//! Approval rules of agents and workspaces: the actions and people that rules can name, and people who have left.

use serde_json::{Value, json};

use crate::{
    approvals::{is_parked, waiting},
    support::{Answer, Person, Team, id, instructions_of, list, team, text, unknown_id},
    tools_loop::{actions, reader},
};

/// Rules that require a person's approval for searches.
fn asking(user: &str) -> Value {
    json!([{"action": "search", "requires": "specific_user", "user_id": user}])
}

fn policy(t: &Team) -> String {
    format!("/v1/workspaces/{}/policy", t.ada.workspace)
}

fn path(agent: &Value) -> String {
    format!("/v1/agents/{}", id(agent))
}

fn search() -> Answer {
    Answer::calls("", &[("search_messages", json!({"query": "zebra"}))])
}

/// Asks `@sage` in a new thread; returns the task.
async fn ask(t: &Team) -> String {
    let thread = t.bo.thread(&t.general, "Root").await;
    t.bo.ask(&thread, "@sage find it").await
}

/// Errors of a completed task's actions.
async fn errors(person: &Person, task: &str) -> Vec<Value> {
    let task = person.completed(task).await;
    let found = actions(person, &task).await;
    found.iter().map(|action| action["error"].clone()).collect()
}

#[tokio::test]
async fn an_agent_whose_approver_left_can_still_be_changed() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let trust = json!({"trust": {"approval_rules": asking(&cy.id)}});
    let sage = reader(&t.ada, "sage", trust).await;
    let path = path(&sage);
    let member = format!("/v1/members/{}", cy.id);
    t.ada.delete(&member).await.is(204);
    let described = json!({"description": "Finds things"});
    t.ada.patch(&path, described).await.is(200);
    let shown = t.ada.get(&path).await.ok();
    t.ada.put(&path, shown.clone()).await.is(200);
    let copies = format!("{path}/duplicate");
    let copy = t.ada.act(&copies).await.is(201);
    assert_eq!(copy["trust"], shown["trust"]);
    let earlier = json!({"target_version": 1});
    let rollback = format!("{path}/rollback");
    t.ada.post(&rollback, earlier).await.is(200);
    let draft = json!({"instructions": instructions_of("sage"), "trust": shown["trust"]});
    let preview = json!({"agent_id": id(&sage), "agent": draft});
    t.ada.post("/v1/agents/preview", preview).await.is(200);
    t.model().script("sage", [search(), Answer::text("Done.")]);
    let task = ask(&t).await;
    assert_eq!(errors(&t.bo, &task).await, ["no_approver"]);
    let mut rules = asking(&cy.id);
    rules[0]["timeout_s"] = json!(60);
    let changed = json!({"trust": {"approval_rules": rules}});
    let reply = t.ada.patch(&path, changed).await;
    assert_eq!(reply.refused(404), "member_not_found");
    let off = json!({"status": "inactive"});
    t.ada.patch(&path, off).await.is(200);
}

#[tokio::test]
async fn rules_of_the_workspace_name_people_who_can_approve() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let vera = t.app.join(&t.ada, "Vera", "viewer").await;
    for (user, status, code) in [
        (unknown_id("user"), 404, "member_not_found"),
        (vera.id.clone(), 422, "invalid_value"),
    ] {
        let rules = json!({"approval_rules": asking(&user)});
        let reply = t.ada.patch(&policy(&t), rules).await;
        assert_eq!(text(&reply.json(), "/error/param"), "approval_rules");
        assert_eq!(reply.refused(status), code);
    }
    let rules = json!({"approval_rules": asking(&cy.id)});
    t.ada.patch(&policy(&t), rules.clone()).await.is(200);
    let member = format!("/v1/members/{}", cy.id);
    t.ada.delete(&member).await.is(204);
    t.ada.patch(&policy(&t), rules).await.is(200);
    let level = json!({"trust_level": 1});
    t.ada.patch(&policy(&t), level).await.is(200);
}

#[tokio::test]
async fn lists_and_rules_name_known_actions() {
    let t = team().await;
    let path = path(&reader(&t.ada, "sage", json!({})).await);
    for name in [
        "serach",
        "Search",
        "search_messages",
        "respond",
        "mcp:jira",
        "mcp:*",
    ] {
        let rules = json!([{"action": name, "requires": "admin"}]);
        for trust in [
            json!({"approve": [name]}),
            json!({"escalate": [name]}),
            json!({"approval_rules": rules}),
        ] {
            let reply = t.ada.patch(&path, json!({"trust": trust})).await;
            let message = text(&reply.json(), "/error/message");
            assert!(message.contains("`search`"), "{message}");
            assert_eq!(reply.refused(422), "invalid_value");
        }
        let rules = json!({"approval_rules": rules});
        let reply = t.ada.patch(&policy(&t), rules).await;
        assert_eq!(reply.refused(422), "invalid_value");
    }
    for name in ["post_elsewhere", "mcp:jira.create", "mcp:jira.*"] {
        let trust = json!({"trust": {"autonomous": ["respond"], "approve": [name]}});
        t.ada.patch(&path, trust).await.is(200);
    }
}

#[tokio::test]
async fn a_viewer_cannot_approve() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let trust = json!({"trust": {"approval_rules": asking(&cy.id)}});
    reader(&t.ada, "sage", trust).await;
    let answers = [search(), search(), Answer::text("Done.")];
    t.model().script("sage", answers);
    let task = ask(&t).await;
    let action = waiting(&cy, &task).await;
    is_parked(&t.bo, &task).await;
    let own = cy.get("/v1/waiting").await.ok();
    assert_eq!(list(&own, "/actions").len(), 1, "{own}");
    let member = format!("/v1/members/{}", cy.id);
    t.ada
        .patch(&member, json!({"role": "viewer"}))
        .await
        .is(200);
    let own = cy.get("/v1/waiting").await.ok();
    assert_eq!(own["actions"], json!([]));
    let form = json!({"arguments_hash": action["arguments_hash"]});
    for verb in ["approve", "deny"] {
        let path = format!("/v1/actions/{}/{verb}", id(&action));
        let reply = cy.post(&path, form.clone()).await;
        assert_eq!(reply.refused(403), "not_your_approval");
    }
    let task = ask(&t).await;
    assert_eq!(errors(&t.bo, &task).await, ["no_approver"]);
}

#[tokio::test]
async fn at_level_1_any_member_does_not_replace_the_requester() {
    let t = team().await;
    let rules = json!([{"action": "search", "requires": "any_member"}]);
    let strict = json!({"trust_level": 1, "approval_rules": rules});
    t.ada.patch(&policy(&t), strict).await.is(200);
    let trust = json!({"trust": {"approve": ["search"]}});
    reader(&t.ada, "sage", trust).await;
    t.model().script("sage", [search()]);
    let task = ask(&t).await;
    let action = waiting(&t.bo, &task).await;
    assert_eq!(action["needs"][0]["who"], "requester");
}

#[tokio::test]
async fn nobody_is_asked_about_a_call_that_cannot_run() {
    let t = team().await;
    let fields = json!({"tools": [{"type": "web_fetch"}], "trust": {"approve": ["web_fetch"]}});
    reader(&t.ada, "sage", fields).await;
    let calls = [
        json!({}),
        json!({"url": ["https://example.org/", "https://example.org/"]}),
        json!({"url": "https://example.org/", "method": "POST"}),
    ]
    .map(|arguments| ("web_fetch", arguments));
    let answers = [Answer::calls("", &calls), Answer::text("Done.")];
    t.model().script("sage", answers);
    let task = ask(&t).await;
    assert_eq!(errors(&t.bo, &task).await, ["bad_arguments"; 3]);
}

#[tokio::test]
async fn a_rollback_leaves_out_deleted_tools_but_no_limits() {
    let t = team().await;
    let function = json!({"kind": "function", "name": "weather", "config": {}});
    let tool = t.ada.post("/v1/tools", function).await.is(201);
    let limits = json!({"name": "box", "image": "python:3.12", "cpu_max": 1, "memory_mb_max": 512, "network": "none",
        "timeout_s_max": 30, "filesystem": "read_only"});
    let sandbox = t.ada.post("/v1/sandbox-policies", limits).await.is(201);
    let registered = json!([{"type": "function", "registry_id": id(&tool)}, {"type": "web_fetch"}]);
    let path = path(&reader(&t.ada, "sage", json!({"tools": registered})).await);
    let limited = json!({"tools": [], "sandbox_policy_id": id(&sandbox)});
    t.ada.patch(&path, limited).await.is(200);
    let none = json!({"sandbox_policy_id": null});
    t.ada.patch(&path, none).await.is(200);
    for object in [
        format!("/v1/tools/{}", id(&tool)),
        format!("/v1/sandbox-policies/{}", id(&sandbox)),
    ] {
        t.ada.delete(&object).await.is(204);
    }
    let rollback = format!("{path}/rollback");
    let restored = t.ada.post(&rollback, json!({"target_version": 1})).await;
    let tools = list(&restored.is(200), "/tools");
    let kinds: Vec<&Value> = tools.iter().map(|tool| &tool["type"]).collect();
    assert_eq!(json!(kinds), json!(["web_fetch"]));
    let reply = t.ada.post(&rollback, json!({"target_version": 2})).await;
    assert_eq!(reply.refused(422), "no_such_sandbox_policy");
}
