//! Workspaces, and users who belong to several of them.

use serde_json::json;

use crate::support::{TestApp, id, list, sign_up, team, text, unknown_id};

#[tokio::test]
async fn a_workspace_starts_with_channels_agents_and_its_creator_as_admin() {
    let app = TestApp::start().await;
    let mut ada = sign_up(&app.base, "Ada", None).await;
    ada.get("/v1/channels").await.refused(404);
    let made = ada
        .post("/v1/workspaces", json!({"name": "Acme Works"}))
        .await
        .is(201);
    assert_eq!(made["name"], "Acme Works");
    assert_eq!(made["slug"], "acme-works");
    assert_eq!(made["role"], "admin");
    ada.enter(&id(&made)).await;
    let agents = list(&ada.get("/v1/agents").await.ok(), "/data");
    let found: Vec<(String, String)> = agents
        .iter()
        .map(|a| (text(a, "/name"), text(a, "/status")))
        .collect();
    let expected = [
        ("vibe", "active"),
        ("coder", "active"),
        ("researcher", "inactive"),
        ("writer", "inactive"),
    ];
    assert_eq!(
        found,
        expected.map(|(name, status)| (name.to_owned(), status.to_owned()))
    );
    assert_eq!(agents[0]["is_default"], true);
    assert_eq!(agents[0]["role"], "primary");
    assert!(
        agents[0].get("instructions").is_none(),
        "a list shows no instructions"
    );
    assert_eq!(list(&ada.get("/v1/members").await.ok(), "/data").len(), 1);
}

#[tokio::test]
async fn every_workspace_numbers_its_events_from_1() {
    let app = TestApp::with(&[("SIGNUP", "open")]).await;
    let (ada, bo) = (app.founder("Ada").await, app.founder("Bo").await);
    for person in [&ada, &bo, &ada] {
        person
            .thread(&id(&person.channel("general").await), "Hello")
            .await;
    }
    for (person, threads) in [(&ada, 2), (&bo, 1)] {
        let events = person.events().await;
        let seqs: Vec<i64> = events.iter().map(|e| e["seq"].as_i64().unwrap()).collect();
        assert_eq!(
            seqs,
            (1..=i64::try_from(seqs.len()).unwrap()).collect::<Vec<_>>()
        );
        assert_eq!(
            events
                .iter()
                .filter(|e| e["type"] == "thread.created")
                .count(),
            threads
        );
        let snapshot = person.get("/v1/snapshot").await.ok();
        assert_eq!(snapshot["seq"], *seqs.last().unwrap());
    }
}

#[tokio::test]
async fn a_user_in_several_workspaces_must_name_one() {
    let app = TestApp::start().await;
    let ada = app.founder("Ada").await;
    let second = id(&ada
        .post("/v1/workspaces", json!({"name": "Second"}))
        .await
        .is(201));
    assert_eq!(
        ada.get("/v1/channels").await.refused(400),
        "workspace_required"
    );
    ada.in_workspace(&second).get("/v1/channels").await.is(200);
    assert_eq!(
        list(&ada.get("/v1/workspaces").await.ok(), "/data").len(),
        2
    );
    ada.in_workspace(&unknown_id("ws"))
        .get("/v1/channels")
        .await
        .refused(404);
    ada.in_workspace("nonsense")
        .get("/v1/channels")
        .await
        .refused(400);
    let me = ada.get("/v1/auth/me").await.ok();
    let names: Vec<String> = list(&me, "/workspaces")
        .iter()
        .map(|w| text(w, "/name"))
        .collect();
    assert_eq!(names, ["Ada Works", "Second"]);
}

#[tokio::test]
async fn a_member_cannot_create_workspaces_unless_the_server_is_open() {
    let t = team().await;
    t.bo.post("/v1/workspaces", json!({"name": "Bo's"}))
        .await
        .refused(403);
    t.ada
        .post("/v1/workspaces", json!({"name": "Second"}))
        .await
        .is(201);
}

#[tokio::test]
async fn name_and_slug_changes_are_sent_to_all_members() {
    let t = team().await;
    let path = format!("/v1/workspaces/{}", t.ada.workspace);
    let mut socket = t.bo.socket().await;
    let changed = t
        .ada
        .patch(&path, json!({"name": "Acme", "slug": "acme"}))
        .await
        .is(200);
    assert_eq!(
        (&changed["name"], &changed["slug"], &changed["role"]),
        (&json!("Acme"), &json!("acme"), &json!("admin"))
    );
    let event = socket.of("workspace.updated").await;
    assert_eq!(event["data"]["workspace"]["name"], "Acme");
    assert!(
        event["data"]["workspace"].get("role").is_none(),
        "an event is the same for all"
    );
    let seen = t.bo.get(&path).await.ok();
    assert_eq!(
        (&seen["name"], &seen["role"]),
        (&json!("Acme"), &json!("member"))
    );
}

#[tokio::test]
async fn a_slug_is_unique() {
    let app = TestApp::start().await;
    let ada = app.founder("Ada").await;
    ada.post("/v1/workspaces", json!({"name": "Other", "slug": "same"}))
        .await
        .is(201);
    assert_eq!(
        ada.post("/v1/workspaces", json!({"name": "Other", "slug": "same"}))
            .await
            .refused(409),
        "slug_taken"
    );
    for bad in ["", "Not A Slug", "-x", "ä", "mcp"] {
        ada.post("/v1/workspaces", json!({"name": "Other", "slug": bad}))
            .await
            .refused(422);
    }
    let first = ada
        .post("/v1/workspaces", json!({"name": "Twice"}))
        .await
        .is(201);
    let second = ada
        .post("/v1/workspaces", json!({"name": "Twice"}))
        .await
        .is(201);
    assert_ne!(
        first["slug"], second["slug"],
        "a slug made from the name is numbered"
    );
}

#[tokio::test]
async fn admin_actions_are_audited() {
    let t = team().await;
    t.ada
        .patch(
            &format!("/v1/members/{}", t.bo.id),
            json!({"role": "viewer"}),
        )
        .await
        .is(200);
    let page = t.ada.get("/v1/audit-log").await.ok();
    let actions: Vec<String> = list(&page, "/data")
        .iter()
        .map(|e| text(e, "/action"))
        .collect();
    assert!(
        actions.contains(&"member.role_changed".to_owned()),
        "{actions:?}"
    );
    t.bo.get("/v1/audit-log").await.refused(403);
}

#[tokio::test]
async fn handles_are_derived_from_names_and_numbered() {
    let t = team().await;
    let app = &t.app;
    assert_eq!(t.bo.handle, "bo");
    assert_eq!(
        app.join(&t.ada, "Zoë O’Neill", "member").await.handle,
        "zoe-oneill"
    );
    assert_eq!(
        app.join(&t.ada, "Дмитрий Ёлкин", "member").await.handle,
        "dmitrii-elkin"
    );
    let unwritable = app.join(&t.ada, "李小龍", "member").await;
    assert_eq!(unwritable.handle, "member", "nor has the email address");
    let shown = json!({"display_name": "Helper"});
    t.ada.patch("/v1/agents/main", shown).await.is(200);
    assert_eq!(
        app.join(&t.ada, "Vibe", "member").await.handle,
        "vibe-2",
        "the agent has it"
    );
    let everyone = app.join(&t.ada, "Everyone", "member").await.handle;
    assert_ne!(everyone, "everyone", "a reserved word");
}

#[tokio::test]
async fn a_handle_can_be_changed_to_a_free_one() {
    let t = team().await;
    let path = format!("/v1/members/{}", t.bo.id);
    let mut socket = t.ada.socket().await;
    assert_eq!(
        t.bo.patch(&path, json!({"handle": "bobby"})).await.is(200)["handle"],
        "bobby"
    );
    assert_eq!(
        socket.of("member.updated").await["data"]["member"]["handle"],
        "bobby"
    );
    for taken in ["ada", "vibe"] {
        assert_eq!(
            t.bo.patch(&path, json!({"handle": taken}))
                .await
                .refused(409),
            "handle_taken"
        );
    }
    for bad in [
        "main",
        "everyone",
        "here",
        "channel",
        "_x",
        "Bo",
        "b o",
        "",
        "ö",
        &"x".repeat(65),
    ] {
        t.bo.patch(&path, json!({"handle": bad})).await.refused(422);
    }
    t.ada.patch(&path, json!({"handle": "bo"})).await.is(200);
}

#[tokio::test]
async fn a_member_is_found_by_id_until_they_leave() {
    let t = team().await;
    let path = format!("/v1/members/{}", t.bo.id);
    let listed = list(&t.ada.get("/v1/members").await.ok(), "/data");
    let bo = listed
        .iter()
        .find(|member| member["user_id"] == t.bo.id.as_str());
    assert_eq!(&t.ada.get(&path).await.ok(), bo.unwrap());
    assert_eq!(&t.bo.get(&path).await.ok(), bo.unwrap());
    let unknown = format!("/v1/members/{}", unknown_id("user"));
    assert_eq!(t.ada.get(&unknown).await.refused(404), "member_not_found");
    t.ada.delete(&path).await.is(204);
    assert_eq!(t.ada.get(&path).await.refused(404), "member_not_found");
}

#[tokio::test]
async fn a_stale_policy_is_not_overwritten() {
    let t = team().await;
    let path = format!("/v1/workspaces/{}/policy", t.ada.workspace);
    let read = t.bo.get(&path).await;
    assert_eq!(read.header("etag").as_deref(), Some("\"0\""));
    let text = |text: &str| json!({"required_text": text});
    let first = t.ada.patch_if(&path, "\"0\"", text("First")).await;
    assert_eq!(first.header("etag").as_deref(), Some("\"1\""));
    first.is(200);
    let stale = t.ada.patch_if(&path, "\"0\"", text("Second")).await;
    assert_eq!(stale.json()["error"]["current"]["required_text"], "First");
    assert_eq!(stale.refused(409), "version_conflict");
    let whatever = t.ada.patch(&path, text("Third")).await;
    assert_eq!(whatever.header("etag").as_deref(), Some("\"2\""));
    let read = t.ada.get(&path).await;
    assert_eq!(read.header("etag").as_deref(), Some("\"2\""));
    assert_eq!(read.is(200)["required_text"], "Third");
}
