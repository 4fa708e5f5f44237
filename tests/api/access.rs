//! Permissions of accounts, keys, and members: default agents, account events, other users' keys, hidden agents.

use serde_json::{Value, json};

use crate::support::{
    Answer, ModelServer, PASSWORD, Person, Team, TestDatabase, TestProcess, command, id, list,
    sign_up_with_workspace, team, text, unknown_id, visitor,
};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x03\0\0\0\x02\x08\x06\0\0\0";

async fn fresh(t: &Team, name: &str) -> Value {
    t.ada.agent(name).await
}

/// Asserts that the request was rejected because of the default agent, and that the agent's version is unchanged.
async fn refused_as_default(t: &Team, reply: crate::support::Reply, what: &str) {
    let vibe = fresh(t, "vibe").await;
    assert_eq!(reply.refused(403), "default_agent", "{what}");
    let after = fresh(t, "vibe").await;
    assert_eq!(after["version"], vibe["version"], "{what}");
}

#[tokio::test]
async fn a_member_cannot_take_the_default_agent_from_the_others() {
    let t = team().await;
    let vibe = id(&fresh(&t, "vibe").await);
    let path = format!("/v1/agents/{vibe}");
    t.ada.patch(&path, json!({"editors": []})).await.is(200);
    let whole = t.ada.get(&path).await.ok();
    let alone = json!({"allowed_subjects": [t.bo.id], "denied_subjects": []});
    for patch in [
        json!({"name": "other"}),
        json!({"access_control": alone}),
        json!({"mentionable": false}),
        json!({"status": "inactive"}),
        json!({"role": "specialist"}),
    ] {
        let reply = t.bo.patch(&path, patch.clone()).await;
        refused_as_default(&t, reply, &patch.to_string()).await;
    }
    let form = json!({"name": "other", "instructions": whole["instructions"]});
    refused_as_default(&t, t.bo.put(&path, form).await, "PUT").await;
    let toggle = json!({"agent_id": "main"});
    let reply = t.bo.post("/v1/rpc/agent.toggleActive", toggle).await;
    refused_as_default(&t, reply, "rpc").await;

    // Members can still edit the agent's prompt; only admins can change who can use it.
    t.bo.patch(&path, json!({"instructions": "Be brief."}))
        .await
        .is(200);
    t.bo.put(
        &format!("{path}/files/SOUL.md"),
        json!({"content": "Be kind."}),
    )
    .await
    .is(200);
    let members = json!({"allowed_subjects": ["role:member"], "denied_subjects": []});
    let limited = t
        .ada
        .patch(&path, json!({"access_control": members}))
        .await
        .is(200);
    t.ada
        .patch(&path, json!({"access_control": null}))
        .await
        .is(200);
    let back = json!({"target_version": limited["version"]});
    let reply = t.bo.post(&format!("{path}/rollback"), back).await;
    refused_as_default(&t, reply, "rollback").await;
}

#[tokio::test]
async fn a_base_cannot_close_the_default_agent() {
    let t = team().await;
    let vibe = format!("/v1/agents/{}", id(&fresh(&t, "vibe").await));
    t.ada.patch(&vibe, json!({"editors": []})).await.is(200);
    let alone = json!({"allowed_subjects": [t.bo.id], "denied_subjects": []});
    let base = t.bo.make_agent("base").await;
    let closed = json!({"name": "closed", "instructions": "x", "access_control": alone});
    let closed = t.bo.post("/v1/agents", closed).await.is(201);
    let onto = json!({"base_profile_id": id(&closed)});
    refused_as_default(&t, t.bo.patch(&vibe, onto).await, "another base").await;
    t.bo.patch(&vibe, json!({"base_profile_id": id(&base)}))
        .await
        .is(200);
    let reply =
        t.bo.patch(
            &format!("/v1/agents/{}", id(&base)),
            json!({"access_control": alone}),
        )
        .await;
    refused_as_default(&t, reply, "its base").await;
}

#[tokio::test]
async fn only_admins_can_save_an_access_list_that_excludes_them() {
    let t = team().await;
    let without = json!({"allowed_subjects": [t.ada.id], "denied_subjects": []});
    let form = |name: &str| json!({"name": name, "instructions": "x", "access_control": without});
    let refused = t.bo.post("/v1/agents", form("mine")).await;
    assert_eq!(refused.refused(422), "locks_you_out");
    let scout = format!("/v1/agents/{}", id(&t.bo.make_agent("scout").await));
    let refused = t.bo.patch(&scout, json!({"access_control": without})).await;
    assert_eq!(refused.refused(422), "locks_you_out");
    let denied = json!({"allowed_subjects": [], "denied_subjects": ["role:member"]});
    let refused = t.bo.patch(&scout, json!({"access_control": denied})).await;
    assert_eq!(refused.refused(422), "locks_you_out");
    let without_ada = json!({"allowed_subjects": [t.bo.id], "denied_subjects": []});
    t.ada
        .patch(&scout, json!({"access_control": without_ada}))
        .await
        .is(200);
}

#[tokio::test]
async fn a_hidden_agent_is_not_found_before_scopes_and_rules_are_checked() {
    let t = team().await;
    let only = json!({"allowed_subjects": [t.ada.id], "denied_subjects": []});
    let form = json!({"name": "secret", "instructions": "x", "access_control": only});
    let hidden = id(&t.ada.post("/v1/agents", form).await.is(201));
    let unknown = unknown_id("agent");
    let (key, _) = t.bo.make_key(&["chat:read"]).await;
    for asker in [&t.bo, &key] {
        for agent in [&hidden, &unknown] {
            let path = format!("/v1/agents/{agent}");
            asker.get(&path).await.refused(404);
            asker.delete(&path).await.refused(404);
            asker
                .post(&format!("{path}/default"), json!({}))
                .await
                .refused(404);
            asker
                .delete(&format!("{path}/files/SOUL.md"))
                .await
                .refused(404);
            asker.patch(&path, json!({"name": ""})).await.refused(404);
        }
    }
    for agent in [&hidden, &unknown] {
        let search = format!("/v1/search?q=x&author_id={agent}");
        t.bo.get(&search).await.refused(404);
        for method in ["agents.get", "agents.delete", "agents.set_default"] {
            let of = json!({"agent_id": agent});
            t.bo.post(&format!("/v1/rpc/{method}"), of)
                .await
                .refused(404);
        }
    }
    t.ada
        .get(&format!("/v1/search?q=x&author_id={hidden}"))
        .await
        .is(200);
}

#[tokio::test]
async fn a_key_sees_its_own_workspace_and_no_email() {
    let t = team().await;
    let (key, _) = t.ada.make_key(&["chat:read"]).await;
    t.ada
        .post("/v1/workspaces", json!({"name": "Second"}))
        .await
        .is(201);
    let me = key.get("/v1/auth/me").await.is(200);
    assert_eq!(me["user"]["id"], t.ada.id.as_str());
    assert_eq!(me["user"]["name"], "Ada");
    assert!(me["user"].get("email").is_none(), "{me}");
    let ids: Vec<String> = list(&me, "/workspaces").iter().map(id).collect();
    assert_eq!(ids, std::slice::from_ref(&t.ada.workspace));
    let own = t.ada.get("/v1/auth/me").await.is(200);
    assert_eq!(own["user"]["email"], t.ada.email.as_str());
    assert_eq!(list(&own, "/workspaces").len(), 2);
}

#[tokio::test]
async fn instructions_in_a_task_context_need_agents_read() {
    let t = team().await;
    let thread = t.bo.thread(&t.general, "Root").await;
    let task = t.bo.ask(&thread, "@vibe hi").await;
    t.bo.completed(&task).await;
    let path = format!("/v1/tasks/{task}/context");
    let (narrow, _) = t.bo.make_key(&["chat:read"]).await;
    let hidden = narrow.get(&path).await.is(200);
    assert_eq!(hidden["system"]["hidden"], true);
    assert_eq!(hidden["system"]["text"], "");
    let (reader, _) = t.bo.make_key(&["chat:read", "agents:read"]).await;
    let shown = reader.get(&path).await.is(200);
    assert_ne!(shown["system"]["text"], "");
}

#[tokio::test]
async fn required_text_and_allowed_tools_apply_without_an_agent() {
    let t = team().await;
    let policy = format!("/v1/workspaces/{}/policy", t.ada.workspace);
    let rules = json!({"required_text": "Never name prices.", "allowed_tools": []});
    t.ada.patch(&policy, rules).await.is(200);
    let tool = json!({"type": "function", "name": "buy", "parameters": {"type": "object", "properties": {}}});
    let ask = json!({"input": "Hi", "instructions": "Be brief.", "tools": [tool]});
    t.bo.post("/v1/responses", ask).await.is(200);
    let requests = t.model().requests();
    let body = &requests.last().unwrap().body;
    assert_eq!(body["messages"][0]["role"], "system");
    assert_eq!(
        body["messages"][0]["content"],
        "Never name prices.\n\nBe brief."
    );
    assert!(body.get("tools").is_none(), "{body}");
}

#[tokio::test]
async fn an_admin_does_not_see_the_addresses_of_another_users_sessions() {
    let t = team().await;
    let export = format!("/v1/members/{}/export", t.bo.id);
    let others = t.ada.get(&export).await.is(200);
    assert!(others.get("sessions").is_none(), "{others}");
    let own = t.bo.get(&export).await.is(200);
    assert_eq!(list(&own, "/sessions").len(), 1);
}

#[tokio::test]
async fn weak_passwords_are_rejected() {
    let t = team().await;
    let easy = "the password is easy to guess: choose another one";
    let invite = t.ada.post("/v1/invites", json!({})).await.is(201);
    let form = |password: &str| {
        json!({"email": "cleo@example.org", "name": "Cleo", "password": password,
            "invite": text(&invite, "/token")})
    };
    for password in ["password", "12345678", "cleo-is-great", "cleo@example.org"] {
        let reply = visitor(&t.app.base)
            .post("/v1/auth/signup", form(password))
            .await;
        assert_eq!(reply.status, 422, "{password}: {}", reply.text);
        assert_eq!(reply.json()["error"]["message"], easy);
    }
    let change = json!({"current_password": PASSWORD, "new_password": "PassWord"});
    let reply = t.ada.post("/v1/auth/password", change).await;
    assert_eq!(reply.json()["error"]["message"], easy);
    reply.refused(422);
}

#[tokio::test]
async fn a_new_password_revokes_keys_when_asked() {
    let t = team().await;
    let (key, _) = t.bo.make_key(&["chat:read"]).await;
    let change = |from: &str, to: &str, revoke: bool| json!({"current_password": from, "new_password": to, "revoke_keys": revoke});
    t.bo.post(
        "/v1/auth/password",
        change(PASSWORD, "battery staple", false),
    )
    .await
    .is(204);
    key.get("/v1/auth/me").await.is(200);
    t.bo.post(
        "/v1/auth/password",
        change("battery staple", "paper clips", true),
    )
    .await
    .is(204);
    key.get("/v1/auth/me").await.refused(401);
}

#[tokio::test]
async fn an_admin_lists_and_revokes_keys_of_others() {
    let t = team().await;
    let (key, key_id) = t.bo.make_key(&["chat:read"]).await;
    t.ada.make_key(&["chat:read", "chat:write"]).await;
    key.get("/v1/auth/me").await.is(200);
    t.bo.get("/v1/api-keys?all=true").await.refused(403);
    let all = t.ada.get("/v1/api-keys?all=true").await.is(200);
    let owners: Vec<String> = list(&all, "/data")
        .iter()
        .map(|k| text(k, "/user_id"))
        .collect();
    assert_eq!(owners, [t.bo.id.clone(), t.ada.id.clone()]);
    assert_eq!(all["data"][0]["scopes"], json!(["chat:read"]));
    let page = t.ada.get("/v1/api-keys?all=true&limit=1").await.is(200);
    assert_eq!(page["has_more"], true);
    t.ada
        .delete(&format!("/v1/api-keys/{key_id}"))
        .await
        .is(204);
    key.get("/v1/auth/me").await.refused(401);
    let own = t.ada.get("/v1/api-keys").await.is(200);
    assert_eq!(list(&own, "/data").len(), 1);
}

/// Kinds of an account's events, newest first, once there are at least `n`.
async fn kinds(person: &Person, n: usize) -> Vec<String> {
    crate::support::within("events of the account", async {
        loop {
            let events = person.get("/v1/auth/events").await.is(200);
            let all: Vec<String> = list(&events, "/data")
                .iter()
                .map(|e| text(e, "/kind"))
                .collect();
            if all.len() >= n {
                return all;
            }
            // A failed sign-in is recorded after its response.
            crate::support::pause().await;
        }
    })
    .await
}

#[tokio::test]
async fn an_account_lists_its_sign_ins_failures_password_changes_and_keys() {
    let t = team().await;
    let wrong = json!({"email": t.bo.email, "password": "wrong horse"});
    visitor(&t.app.base)
        .post("/v1/auth/login", wrong)
        .await
        .refused(401);
    assert_eq!(kinds(&t.bo, 2).await, ["sign_in_failed", "signed_in"]);
    t.bo.make_key(&["chat:read"]).await;
    let change = json!({"current_password": PASSWORD, "new_password": "battery staple"});
    t.bo.post("/v1/auth/password", change).await.is(204);
    let all = t.bo.get("/v1/auth/events").await.is(200);
    let kinds: Vec<String> = list(&all, "/data")
        .iter()
        .map(|e| text(e, "/kind"))
        .collect();
    assert_eq!(
        kinds,
        [
            "password_changed",
            "key_created",
            "sign_in_failed",
            "signed_in"
        ]
    );
    assert_eq!(all["data"][1]["detail"], "robot");
    assert_eq!(all["data"][0]["address"], "127.0.0.1");
    let first = t.bo.get("/v1/auth/events?limit=3").await.is(200);
    let rest = format!("/v1/auth/events?cursor={}", text(&first, "/next_cursor"));
    assert_eq!(list(&t.bo.get(&rest).await.is(200), "/data").len(), 1);
    let (key, _) = t.ada.make_key(&["workspace:admin"]).await;
    key.get("/v1/auth/events").await.refused(403);
}

#[tokio::test]
async fn a_reset_password_revokes_keys_unless_they_are_kept() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let server = TestProcess::start(&place, &model, &[]).await;
    let ada = sign_up_with_workspace(&server.base, "Ada").await;
    let (key, _) = ada.make_key(&["chat:read"]).await;
    server.kill().await;
    for (flag, status) in [(Some("--keep-keys"), 200), (None, 401)] {
        let mut reset = command(&place, &model, &[]);
        reset
            .args(["user", "reset-password", "--email", &ada.email])
            .args(flag);
        let output = reset.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let server = TestProcess::start(&place, &model, &[]).await;
        assert_eq!(key.at(&server.base).get("/v1/auth/me").await.status, status);
        server.kill().await;
    }
}

#[tokio::test]
async fn server_files_are_accessible_only_to_its_own_user() {
    use std::os::unix::fs::PermissionsExt;
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let server = TestProcess::start(&place, &model, &[]).await;
    let ada = sign_up_with_workspace(&server.base, "Ada").await;
    ada.upload("a.txt", b"hello").await;
    let backup = place.dir.join("backup.ovb");
    let output = command(&place, &model, &[])
        .args(["backup", backup.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&backup), 0o600);
    let mut folders = vec![place.dir.join("data")];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                assert_eq!(mode(&path), 0o600, "{}", path.display());
                files += 1;
            }
        }
    }
    assert!(files > 0, "nothing was looked at");
    server.kill().await;
    // File permissions that earlier versions set.
    let data = place.dir.join("data");
    let older = ["", "blobs", "openvibe.db", "openvibe.db-wal"].map(|name| data.join(name));
    let older: Vec<_> = older.iter().filter(|path| path.exists()).collect();
    for path in &older {
        let open = if path.is_dir() { 0o755 } else { 0o644 };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(open)).unwrap();
    }
    let server = TestProcess::start(&place, &model, &[]).await;
    for path in older.iter().filter(|path| path.exists()) {
        assert_eq!(mode(path) & 0o077, 0, "{}", path.display());
    }
    server.kill().await;
}

#[tokio::test]
async fn an_agents_avatar_is_in_its_messages() {
    let t = team().await;
    let file = id(&t.ada.upload("face.png", PNG).await);
    let vibe = format!("/v1/agents/{}", id(&fresh(&t, "vibe").await));
    t.ada
        .patch(&vibe, json!({"avatar": {"file_id": file}}))
        .await
        .is(200);
    t.model().script("vibe", [Answer::text("Hello.")]);
    let thread = t.bo.thread(&t.general, "Root").await;
    let mut socket = t.bo.socket().await;
    let task = t.bo.ask(&thread, "@vibe hi").await;
    let url = format!("/v1/files/{file}");
    loop {
        let event = socket.of("message.created").await;
        if event["data"]["message"]["author"]["type"] == "agent" {
            assert_eq!(
                event["data"]["message"]["author"]["avatar_url"],
                url.as_str()
            );
            break;
        }
    }
    t.bo.completed(&task).await;
    let messages = t.bo.messages(&thread).await;
    assert_eq!(
        messages.last().unwrap()["author"]["avatar_url"],
        url.as_str()
    );
}

#[tokio::test]
async fn an_access_list_that_comes_from_the_base_cannot_lock_its_editor_out() {
    let t = team().await;
    let only = |who: &Person| json!({"allowed_subjects": [who.id], "denied_subjects": []});
    let base = json!({"name": "base", "instructions": "x", "access_control": only(&t.ada)});
    let base = id(&t.ada.post("/v1/agents", base).await.is(201));
    let child = json!({"name": "child", "instructions": "x", "base_profile_id": base, "access_control": only(&t.bo),
        "editors": []});
    let child = id(&t.ada.post("/v1/agents", child).await.is(201));
    let path = format!("/v1/agents/{child}");
    let inherited = json!({"access_control": null});
    let refused = t.bo.patch(&path, inherited.clone()).await;
    assert_eq!(refused.refused(422), "locks_you_out");
    t.bo.patch(&path, json!({"description": "Still his"}))
        .await
        .is(200);
    t.ada.patch(&path, inherited).await.is(200);
    t.bo.get(&path).await.refused(404);
}
