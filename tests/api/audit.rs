//! The audit log and its filters.

use serde_json::{Value, json};

use crate::support::{Person, Team, id, list, team, text, unknown_id};

async fn log(who: &Person, query: &str) -> Vec<Value> {
    let page = who.get(&format!("/v1/audit-log?limit=100&{query}")).await;
    list(&page.ok(), "/data")
}

async fn actions(who: &Person, query: &str) -> Vec<String> {
    let entries = log(who, query).await;
    entries.iter().map(|entry| text(entry, "/action")).collect()
}

/// Performs every audited admin action once.
async fn everything(t: &Team) {
    let workspace = format!("/v1/workspaces/{}", t.ada.workspace);
    let member = format!("/v1/members/{}", t.bo.id);
    let ada = &t.ada;
    let (_, key) = t.bo.make_key(&["chat:read"]).await;
    let thread = t.bo.thread(&t.general, "Root").await;
    let said = t.bo.tell(&thread, "To be deleted").await;
    let channel = t.bo.post("/v1/channels", json!({"name": "bos"})).await;
    let channel = format!("/v1/channels/{}", id(&channel.is(201)));
    let invite = ada.post("/v1/invites", json!({"role": "member"})).await;
    let invite = id(&invite.is(201));
    ada.delete(&format!("/v1/invites/{invite}")).await.is(204);
    ada.patch(&workspace, json!({"name": "New name"}))
        .await
        .is(200);
    let policy = json!({"required_text": "Be kind."});
    ada.patch(&format!("{workspace}/policy"), policy)
        .await
        .is(200);
    let file = json!({"content": "For all."});
    let path = format!("{workspace}/files/AGENTS.md");
    ada.put(&path, file).await.is(200);
    ada.delete(&path).await.is(204);
    let agent = ada.make_agent("sage").await;
    let agent = format!("/v1/agents/{}", id(&agent));
    ada.patch(&agent, json!({"description": "Wiser"}))
        .await
        .is(200);
    ada.delete(&agent).await.is(200);
    ada.delete(&format!("/v1/messages/{said}")).await.is(200);
    ada.act(&format!("{channel}/archive")).await.is(200);
    ada.delete(&format!("/v1/api-keys/{key}")).await.is(204);
    ada.patch(&member, json!({"handle": "bobby"})).await.is(200);
    ada.patch(&member, json!({"role": "viewer"})).await.is(200);
    ada.delete(&member).await.is(204);
}

#[tokio::test]
async fn admin_actions_on_other_users_are_audited() {
    let t = team().await;
    everything(&t).await;
    let found = actions(&t.ada, &format!("actor_id={}", t.ada.id)).await;
    for action in [
        "invite.created",
        "invite.withdrawn",
        "workspace.updated",
        "policy.changed",
        "file.changed",
        "file.deleted",
        "agent.created",
        "agent.updated",
        "agent.status_changed",
        "message.deleted",
        "channel.archived",
        "key.deleted",
        "member.handle_changed",
        "member.role_changed",
        "member.removed",
    ] {
        assert!(found.contains(&action.to_owned()), "{action}: {found:?}");
    }
    let whole = json!(log(&t.ada, "").await).to_string();
    assert!(!whole.contains("To be deleted"), "no message text");
}

#[tokio::test]
async fn actions_on_oneself_are_not_audited() {
    let t = team().await;
    let thread = t.bo.thread(&t.general, "Root").await;
    let said = t.bo.tell(&thread, "Mine").await;
    t.bo.delete(&format!("/v1/messages/{said}")).await.is(200);
    let handle = json!({"handle": "bobby"});
    t.bo.patch(&format!("/v1/members/{}", t.bo.id), handle)
        .await
        .is(200);
    assert!(
        actions(&t.ada, &format!("actor_id={}", t.bo.id))
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn entries_are_filtered_by_actor_and_action_in_both_orders() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "admin").await;
    let rename = |who: &Person, name: &'static str| {
        let (who, path) = (who.clone(), format!("/v1/workspaces/{}", t.ada.workspace));
        async move { who.patch(&path, json!({"name": name})).await.is(200) }
    };
    rename(&t.ada, "One").await;
    rename(&cy, "Two").await;
    rename(&t.ada, "Three").await;
    let names = |entries: Vec<Value>| -> Vec<String> {
        entries.iter().map(|e| text(e, "/data/name")).collect()
    };
    let renamed = "action=workspace.updated";
    assert_eq!(names(log(&t.ada, renamed).await), ["One", "Two", "Three"]);
    let newest = format!("{renamed}&order=newest");
    assert_eq!(names(log(&t.ada, &newest).await), ["Three", "Two", "One"]);
    let own = format!("{renamed}&actor_id={}", t.ada.id);
    assert_eq!(names(log(&t.ada, &own).await), ["One", "Three"]);

    let first = t
        .ada
        .get(&format!("/v1/audit-log?{newest}&limit=1"))
        .await
        .ok();
    assert_eq!(first["has_more"], true);
    let last = text(&first, "/last_id");
    let path = format!("/v1/audit-log?{newest}&limit=1&after={last}");
    let next = t.ada.get(&path).await.ok();
    assert_eq!(
        (&next["data"][0]["data"]["name"], &next["has_more"]),
        (&json!("Two"), &json!(true))
    );
    let back = log(
        &t.ada,
        &format!("{newest}&before={}", text(&next, "/last_id")),
    )
    .await;
    assert_eq!(names(back), ["Three"]);
    assert!(log(&t.ada, "action=workspace").await.is_empty());
    let nobody = format!("/v1/audit-log?actor_id={}", unknown_id("user"));
    assert_eq!(t.ada.get(&nobody).await.refused(404), "member_not_found");
    t.ada
        .delete(&format!("/v1/members/{}", cy.id))
        .await
        .is(204);
    let of_cy = format!("{renamed}&actor_id={}", cy.id);
    assert_eq!(names(log(&t.ada, &of_cy).await), ["Two"]);
    for bad in ["order=random", "actor_id=ada", "after=x", "what=1"] {
        t.ada
            .get(&format!("/v1/audit-log?{bad}"))
            .await
            .refused(400);
    }
    t.bo.get("/v1/audit-log").await.refused(403);
}

#[tokio::test]
async fn admins_see_no_private_channels_that_they_are_not_in() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "admin").await;
    let board = t.bo.private_channel("board", &[&t.ada]).await;
    let form = json!({"name": "Robot", "channel_id": board});
    t.bo.post("/v1/hooks", form).await.is(201);
    let path = format!("/v1/channels/{board}/archive");
    t.ada.act(&path).await.is(200);
    let only = async |who: &Person, action: &str| {
        let mut entries = log(who, &format!("action={action}")).await;
        assert_eq!(entries.len(), 1, "{entries:?}");
        entries.remove(0)
    };
    let created = only(&t.ada, "hook.created").await;
    assert_eq!(created["data"]["channel_id"], board.as_str());
    let archived = only(&t.ada, "channel.archived").await;
    assert_eq!(
        (&archived["target"], &archived["data"]),
        (&json!(board), &json!({"name": "board"}))
    );
    let created = only(&cy, "hook.created").await;
    assert_eq!(created["data"]["channel_id"], Value::Null);
    assert!(created["target"].is_string(), "{created}");
    let archived = only(&cy, "channel.archived").await;
    assert_eq!(
        (&archived["target"], &archived["data"]),
        (&Value::Null, &json!({}))
    );
    assert_eq!(archived["actor_id"], t.ada.id.as_str());
    let all = cy.get("/v1/audit-log?limit=100").await;
    assert!(!all.text.contains(&board), "{}", all.text);
}
