//! Authors of what an agent is told, its editors, and notices about changes.

use openvibe::{
    agents::profiles::{self, TextAuthor},
    ids::{AgentId, UserId},
};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    faults::prepared,
    support::{
        Answer, Person, Reply, Team, at_points, id, number, sign_up, team, text, unknown_id,
    },
};

const PARTS: [&str; 6] = [
    "instructions",
    "identity",
    "agency",
    "tools",
    "agents_md",
    "tools_md",
];

/// Fields of an agent with all parts.
fn whole(name: &str) -> Value {
    json!({"name": name, "instructions": "Know the tide.", "identity": "A calm owl.", "editors": [],
        "agency": {"role_description": "Watches the sea."}, "tools": [{"type": "web_fetch"}]})
}

/// Creates an agent with all parts that everyone can change; returns its path.
async fn make_whole(person: &Person, name: &str) -> String {
    let path = format!(
        "/v1/agents/{}",
        id(&person.post("/v1/agents", whole(name)).await.is(201))
    );
    for file in ["AGENTS.md", "TOOLS.md"] {
        let file = format!("{path}/files/{file}");
        person
            .put(&file, json!({"content": "Be brief."}))
            .await
            .is(200);
    }
    path
}

/// Parts of the agent by a person.
async fn parts_by(person: &Person, path: &str) -> Vec<&'static str> {
    let agent = person.get(path).await.ok();
    let mut parts = PARTS.to_vec();
    parts.retain(|part| agent["authors"][part] == person.id.as_str());
    parts
}

pub async fn version(t: &Team, path: &str) -> i64 {
    number(&t.ada.get(path).await.ok(), "/version")
}

pub async fn accept(person: &Person, path: &str, version: i64) -> Reply {
    let (path, version) = (format!("{path}/accept"), version.to_string());
    let header = [("if-match", version.as_str())];
    person.send(Method::POST, &path, &header, None).await
}

fn bytes(body: &Value) -> Option<Vec<u8>> {
    Some(body.to_string().into_bytes()).filter(|_| !body.is_null())
}

/// Method, path, and body.
type Write = (Method, String, Value);

#[tokio::test]
async fn each_write_makes_the_writer_the_author_of_the_changed_parts_only() {
    let t = team().await;
    let path = make_whole(&t.ada, "sage").await;
    assert_eq!(parts_by(&t.ada, &path).await, PARTS);
    let put = {
        let mut form = whole("sage");
        form["agency"] = json!({"role_description": "Watches the moon."});
        form
    };
    let rpc = |method: &str, params: Value| (Method::POST, format!("/v1/rpc/{method}"), params);
    let reference = path.trim_start_matches("/v1/agents/").to_owned();
    let file = |name: &str, content: &str| {
        let path = format!("{path}/files/{name}");
        (Method::PUT, path, json!({"content": content}))
    };
    let patch = |fields: Value| (Method::PATCH, path.clone(), fields);
    let writes: Vec<(Write, &[&str])> = vec![
        (patch(json!({"temperature": 0.5})), &[]),
        (
            patch(json!({"instructions": "Know the ebb."})),
            &["instructions"],
        ),
        (patch(json!({"display_name": "Sage"})), &["instructions"]),
        (
            patch(json!({"identity": "A calm gull.", "tools": []})),
            // The agent no longer has tools.
            &["identity"],
        ),
        (
            (Method::PUT, path.clone(), put),
            &["instructions", "identity", "agency", "tools"],
        ),
        (file("SOUL.md", "Know the flow."), &["instructions"]),
        (file("IDENTITY.md", "A calm seal."), &["identity"]),
        (file("AGENTS.md", "Be exact."), &["agents_md"]),
        (file("TOOLS.md", "Use few."), &["tools_md"]),
        (file("MEMORY.md", "The fair is on Friday."), &[]),
        (
            rpc(
                "agents.update",
                json!({"agent_id": reference, "soul": "Know the moon."}),
            ),
            &["instructions"],
        ),
        (
            rpc(
                "agents.update",
                json!({"agent_id": reference, "identity": "A calm crab."}),
            ),
            &["identity"],
        ),
        (
            rpc(
                "agents.files.set",
                json!({"agent_id": reference, "path": "TOOLS.md", "content": "x"}),
            ),
            &["tools_md"],
        ),
    ];
    for ((method, at, body), changed) in writes {
        let before = version(&t, &path).await;
        accept(&t.ada, &path, before).await.is(200);
        let what = format!("{method} {at} {body}");
        let reply = t.bo.send(method, &at, &[], bytes(&body)).await;
        assert_eq!(reply.status, 200, "{what}: {}", reply.text);
        assert_eq!(parts_by(&t.bo, &path).await, changed, "{what}");
    }
}

#[tokio::test]
async fn another_change_does_not_launder_a_part() {
    let t = team().await;
    let path = make_whole(&t.bo, "sage").await;
    let fields = [
        json!({"temperature": 0.5}),
        json!({"display_name": "Sage", "description": "Knows the sea"}),
        json!({"status": "inactive"}),
        json!({"status": "active", "name": "owl"}),
    ];
    for fields in fields {
        t.ada.patch(&path, fields).await.is(200);
        assert_eq!(parts_by(&t.bo, &path).await, PARTS);
    }
    // A form that sends everything back changes nothing.
    let same = t.ada.get(&path).await.ok();
    t.ada.put(&path, same).await.is(200);
    assert_eq!(parts_by(&t.bo, &path).await, PARTS);
    t.ada
        .patch(&path, json!({"instructions": "Know the moon."}))
        .await
        .is(200);
    assert_eq!(parts_by(&t.ada, &path).await, ["instructions"]);
}

#[tokio::test]
async fn copies_imports_and_restored_versions_are_by_whoever_makes_them() {
    let t = team().await;
    let path = make_whole(&t.bo, "sage").await;
    let old = version(&t, &path).await;
    t.ada
        .patch(&path, json!({"instructions": "Know the moon."}))
        .await
        .is(200);
    let back = json!({"target_version": old});
    t.ada.post(&format!("{path}/rollback"), back).await.is(200);
    assert_eq!(parts_by(&t.ada, &path).await, ["instructions"]);

    let copy = t.ada.act(&format!("{path}/duplicate")).await.is(201);
    let copy_path = format!("/v1/agents/{}", id(&copy));
    assert_eq!(parts_by(&t.ada, &copy_path).await, PARTS);
    assert_eq!(copy["editors"], json!([t.ada.id]));

    let mut export = t.bo.get(&format!("{path}/export")).await.ok();
    assert!(export["agent"].get("editors").is_none(), "{export}");
    export["agent"]["name"] = "moss".into();
    let import = t.ada.post("/v1/agents/import", export).await.is(201);
    let import_path = format!("/v1/agents/{}", id(&import));
    assert_eq!(parts_by(&t.ada, &import_path).await, PARTS);
    assert_eq!(import["editors"], json!([t.ada.id]));
}

#[tokio::test]
async fn an_agent_is_told_its_bases_texts_by_their_authors() {
    let t = team().await;
    let base = make_whole(&t.bo, "base").await;
    let base_id = base.trim_start_matches("/v1/agents/");
    let form =
        json!({"name": "child", "instructions": "Know the fog.", "base_profile_id": base_id});
    let child = format!(
        "/v1/agents/{}",
        id(&t.ada.post("/v1/agents", form).await.is(201))
    );
    t.bo.patch(&base, json!({"instructions": "Know the storm."}))
        .await
        .is(200);
    assert_eq!(parts_by(&t.ada, &child).await, ["instructions"]);

    let version = version(&t, &child).await;
    let agent: AgentId = child.trim_start_matches("/v1/agents/").parse().unwrap();
    let mut c = t.app.db().read().await.unwrap();
    let parts = profiles::authored_parts(&mut c, agent, version)
        .await
        .unwrap();
    let told: Vec<(String, &str, TextAuthor)> = parts
        .into_iter()
        .map(|part| (part.agent_name, part.noun, part.author))
        .collect();
    let person = |person: &Person| TextAuthor::Person(person.id.parse().unwrap());
    let by_bo = |noun| ("base".to_owned(), noun, person(&t.bo));
    assert_eq!(
        told,
        [
            by_bo("instructions"),
            by_bo("identity"),
            by_bo("agency"),
            by_bo("tools"),
            ("child".to_owned(), "instructions", person(&t.ada)),
        ]
    );
    let vibe: AgentId = id(&t.ada.agent("vibe").await).parse().unwrap();
    let parts = profiles::authored_parts(&mut c, vibe, 1).await.unwrap();
    assert!(!parts.is_empty() && parts.iter().all(|part| part.author == TextAuthor::Server));
}

#[tokio::test]
async fn an_admin_accepts_all_parts_and_files_of_an_agent() {
    let t = team().await;
    let path = make_whole(&t.bo, "sage").await;
    let notes = format!("{path}/files/MEMORY.md");
    t.bo.put(&notes, json!({"content": "The fair is on Friday."}))
        .await
        .is(200);
    let read = version(&t, &path).await;
    assert_eq!(
        accept(&t.bo, &path, read).await.refused(403),
        "role_too_low"
    );
    let without = t.ada.act(&format!("{path}/accept")).await;
    assert_eq!(without.refused(428), "precondition_required");
    assert_eq!(
        accept(&t.ada, &path, read - 1).await.refused(409),
        "version_conflict"
    );
    let accepted = accept(&t.ada, &path, read).await.is(200);
    assert_eq!(number(&accepted, "/version"), read + 1);
    assert_eq!(parts_by(&t.ada, &path).await, PARTS);
    assert_eq!(
        t.ada.get(&notes).await.ok()["updated_by"],
        t.ada.id.as_str()
    );
    let versions = t.ada.get(&format!("{path}/versions?limit=1")).await.ok();
    assert_eq!(versions["data"][0]["change_summary"], "accepted by Ada");
    let log = t.ada.get("/v1/audit-log?action=agent.accepted").await.ok();
    assert_eq!(log["data"][0]["data"]["version"], read + 1);
}

#[tokio::test]
async fn only_editors_and_admins_change_an_agent() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let form = json!({"name": "sage", "instructions": "Know the tide."});
    let path = format!(
        "/v1/agents/{}",
        id(&t.bo.post("/v1/agents", form).await.is(201))
    );
    assert_eq!(t.bo.get(&path).await.ok()["editors"], json!([t.bo.id]));
    let reference = path.trim_start_matches("/v1/agents/");
    let text = json!({"content": "x"});
    let writes = [
        (Method::PATCH, path.clone(), json!({"temperature": 1})),
        (
            Method::PUT,
            path.clone(),
            json!({"name": "sage", "instructions": "x"}),
        ),
        (
            Method::POST,
            format!("{path}/rollback"),
            json!({"target_version": 1}),
        ),
        (Method::PUT, format!("{path}/files/SOUL.md"), text.clone()),
        (Method::PUT, format!("{path}/files/AGENTS.md"), text.clone()),
        (Method::PUT, format!("{path}/files/MEMORY.md"), text.clone()),
        (
            Method::PUT,
            format!("{path}/files/HEARTBEAT.md"),
            text.clone(),
        ),
        (
            Method::PUT,
            format!("{path}/files/memory/2026-11-27.md"),
            text,
        ),
        (
            Method::DELETE,
            format!("{path}/files/MEMORY.md"),
            Value::Null,
        ),
        (
            Method::DELETE,
            format!("{path}/files/IDENTITY.md"),
            Value::Null,
        ),
        (
            Method::DELETE,
            format!("{path}/files/TOOLS.md"),
            Value::Null,
        ),
        (
            Method::POST,
            "/v1/rpc/agents.update".to_owned(),
            json!({"agent_id": reference, "soul": "x"}),
        ),
        (
            Method::POST,
            "/v1/rpc/agents.files.set".to_owned(),
            json!({"agent_id": reference, "path": "MEMORY.md", "content": "x"}),
        ),
    ];
    for (method, at, body) in writes {
        let stale = [("if-match", "99")];
        let reply = cy.send(method.clone(), &at, &stale, bytes(&body)).await;
        assert_eq!(reply.refused(403), "not_editor", "{method} {at}");
    }
    assert_eq!(version(&t, &path).await, 1);
    t.ada.patch(&path, json!({"temperature": 1})).await.is(200);

    // For a seeded agent, too, `not_editor` comes before the rules for the default agent.
    let vibe = format!("/v1/agents/{}", id(&t.ada.agent("vibe").await));
    assert_eq!(t.bo.get(&vibe).await.ok()["editors"], json!(["role:admin"]));
    let reply = t.bo.patch(&vibe, json!({"name": "other"})).await;
    assert_eq!(reply.refused(403), "not_editor");

    t.bo.patch(&path, json!({"editors": [t.bo.id, "role:member"]}))
        .await
        .is(200);
    cy.patch(&path, json!({"temperature": 0.2})).await.is(200);
    let role = json!({"role": "viewer"});
    t.ada
        .patch(&format!("/v1/members/{}", cy.id), role)
        .await
        .is(200);
    cy.patch(&path, json!({"temperature": 0.3}))
        .await
        .refused(403);
}

#[tokio::test]
async fn a_list_of_editors_is_checked_and_restored() {
    let t = team().await;
    let path = format!("/v1/agents/{}", id(&t.bo.make_agent("sage").await));
    let invalid: Vec<Value> = (0..51).map(|_| json!(UserId::new())).collect();
    for (editors, status, code) in [
        (json!(["role:owner"]), 422, "invalid_value"),
        (json!(["everyone"]), 422, "invalid_value"),
        (json!(invalid), 422, "invalid_value"),
        (
            json!([t.bo.id, unknown_id("user")]),
            404,
            "member_not_found",
        ),
        (json!([t.ada.id]), 422, "locks_you_out"),
        (json!(["role:viewer"]), 422, "locks_you_out"),
    ] {
        let reply = t.bo.patch(&path, json!({"editors": editors})).await;
        assert_eq!(reply.refused(status), code, "{editors}");
    }
    let many = vec![json!(t.bo.id); 60];
    let agent = t.bo.patch(&path, json!({"editors": many})).await.is(200);
    assert_eq!(agent["editors"], json!([t.bo.id]));
    let form = json!({"name": "moss", "instructions": "x", "editors": [t.ada.id]});
    assert_eq!(
        t.bo.post("/v1/agents", form).await.refused(422),
        "locks_you_out"
    );

    // An admin can leave the list, and a rollback restores it.
    let before = version(&t, &path).await;
    let agent = t.ada.patch(&path, json!({"editors": []})).await.is(200);
    assert_eq!(agent["editors"], json!([]));
    let of_ada = t
        .ada
        .patch(&path, json!({"editors": [t.ada.id]}))
        .await
        .is(200);
    let back = json!({"target_version": before});
    let agent = t.ada.post(&format!("{path}/rollback"), back).await.is(200);
    assert_eq!(agent["editors"], json!([t.bo.id]));
    let back = json!({"target_version": of_ada["version"]});
    let reply = t.bo.post(&format!("{path}/rollback"), back).await;
    assert_eq!(reply.refused(422), "locks_you_out");
    // `PUT` without the field empties the list, as it resets every field.
    let form = json!({"name": "sage", "instructions": "x"});
    let open = t.bo.put(&path, form).await.is(200);
    assert_eq!(open["editors"], json!([]));
}

#[tokio::test]
async fn the_author_of_a_part_is_who_changed_it_last() {
    let t = team().await;
    let path = make_whole(&t.bo, "sage").await;
    t.ada.patch(&path, json!({"tools": []})).await.is(200);
    t.ada
        .patch(
            &path,
            json!({"tools": [{"type": "file_search"}], "temperature": 1}),
        )
        .await
        .is(200);
    t.bo.put(
        &format!("{path}/files/TOOLS.md"),
        json!({"content": "Use few."}),
    )
    .await
    .is(200);
    let vibe = format!("/v1/agents/{}", id(&t.ada.agent("vibe").await));
    t.ada
        .patch(&vibe, json!({"instructions": "Be kind."}))
        .await
        .is(200);
    let form = json!({"name": "child", "instructions": "Know the fog.",
        "base_profile_id": path.trim_start_matches("/v1/agents/")});
    let child = format!(
        "/v1/agents/{}",
        id(&t.ada.post("/v1/agents", form).await.is(201))
    );
    t.bo.patch(&path, json!({"instructions": "Know the storm."}))
        .await
        .is(200);
    let mut known = Vec::new();
    for path in [&path, &vibe, &child] {
        known.push(t.ada.get(path).await.ok()["authors"].clone());
    }
    assert_eq!(known[0]["tools"], t.ada.id.as_str());
    assert_eq!(
        known[1],
        json!({"instructions": t.ada.id, "identity": null, "agency": null, "tools": null,
        "agents_md": null, "tools_md": null})
    );
}

async fn notices(person: &Person, thread: &str) -> Vec<String> {
    let messages = person.messages(thread).await;
    let notices = messages
        .iter()
        .filter(|message| message["kind"] == "notice");
    notices.map(|notice| text(notice, "/content")).collect()
}

#[tokio::test]
async fn a_guest_is_not_told_who_changed_an_agent() {
    let t = team().await;
    let gus = t.app.join_as_guest(&t.ada, "Gus", &["general"]).await;
    let path = format!("/v1/agents/{}", id(&t.ada.make_agent("sage").await));
    t.model()
        .script("sage", (0..2).map(|_| Answer::text("Yes.")));
    let with_bo = json!({"member_ids": [t.bo.id]});
    let direct = id(&gus.post("/v1/direct", with_bo).await.is(201));
    let thread = gus.thread(&direct, "Hello").await;
    for change in [None, Some(json!({"identity": "A calm owl."}))] {
        if let Some(change) = change {
            t.ada.patch(&path, change).await.is(200);
        }
        let task = t.bo.ask(&thread, "@sage is it high tide?").await;
        t.bo.completed(&task).await;
    }
    let told = notices(&gus, &thread).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("Someone changed sage's identity on "),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_private_conversation_is_told_of_changes_by_others_once() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let path = format!("/v1/agents/{}", id(&t.ada.make_agent("sage").await));
    t.model()
        .script("sage", (0..5).map(|_| Answer::text("Yes.")));
    let direct = id(&t
        .bo
        .post("/v1/direct", json!({"member_ids": [cy.id]}))
        .await
        .is(201));
    let private = t.ada.private_channel("board", &[&t.bo]).await;
    let thread = t.bo.thread(&direct, "Hello").await;
    let ask = async |thread: &str| {
        let task = t.bo.ask(thread, "@sage is it high tide?").await;
        t.bo.completed(&task).await;
    };
    ask(&thread).await;
    assert_eq!(
        notices(&t.bo, &thread).await,
        [""; 0],
        "creating it is no change"
    );

    let tools = json!({"tools": [{"type": "web_fetch"}], "identity": "A calm owl."});
    t.ada.patch(&path, tools).await.is(200);
    t.ada.patch(&path, json!({"temperature": 1})).await.is(200);
    ask(&thread).await;
    ask(&thread).await;
    let told = notices(&t.bo, &thread).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("Ada changed sage's identity and tools on "),
        "{told:?}"
    );
    assert_eq!(notices(&t.bo, &thread).await.len(), 1);

    // Accepting the agent is not a change, and the next change is told again.
    accept(&t.ada, &path, version(&t, &path).await)
        .await
        .is(200);
    t.ada.patch(&path, json!({"tools": []})).await.is(200);
    ask(&thread).await;
    let told = notices(&t.bo, &thread).await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[1].starts_with("Ada changed sage's tools on "),
        "{told:?}"
    );

    // Ada is in this channel.
    let thread = t.bo.thread(&private, "Hello").await;
    ask(&thread).await;
    assert_eq!(notices(&t.bo, &thread).await, [""; 0]);
}

async fn crash_around_a_change_notice(failpoint: &str) {
    let p = prepared().await;
    let (server, ada) = p.start(&[]).await;
    let invite = ada.post("/v1/invites", json!({"role": "member"})).await;
    let token = text(&invite.is(201), "/token");
    let bo = sign_up(&server.base, "Bo", Some(&token)).await;
    let sage = format!("/v1/agents/{}", id(&ada.make_agent("sage").await));
    let board = bo.private_channel("board", &[]).await;
    let thread = bo.thread(&board, "Hello").await;
    p.model.script("sage", [Answer::text("Yes.")]);
    let task = bo.ask(&thread, "@sage is it high tide?").await;
    bo.completed(&task).await;
    let change = json!({"identity": "A calm owl."});
    ada.patch(&sage, change).await.is(200);
    server.kill().await;

    p.model
        .script("sage", [Answer::text("Yes."), Answer::text("Yes.")]);
    let (server, _) = p.start(&[("FAILPOINT", failpoint)]).await;
    let task = bo
        .at(&server.base)
        .ask(&thread, "@sage is it low tide?")
        .await;
    server.exited().await;
    let (server, _) = p.start(&[]).await;
    let bo = bo.at(&server.base);
    bo.completed(&task).await;
    let told = notices(&bo, &thread).await;
    assert_eq!(told.len(), 1, "{failpoint}: {told:?}");
    assert!(told[0].starts_with("Ada changed sage's identity on "));
    server.kill().await;
}

at_points! {
    a_crash_around_a_change_notice_neither_loses_nor_repeats_it, crash_around_a_change_notice:
    turn_open_1,
    turn_opened_1,
    turn_complete_1,
    turn_completed_1,
}
