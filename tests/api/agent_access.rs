//! Agent permissions: roles, keys, and access lists.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    Gate, Person, Team, id, instructions_of, list, number, team, text, unknown_id,
};

const SCOPES: [&str; 8] = [
    "chat:read",
    "chat:write",
    "workspace:admin",
    "agents:read",
    "agents:write",
    "agents:delete",
    "agents:admin",
    "agents:use",
];

fn form(name: &str) -> Value {
    json!({"name": name, "instructions": instructions_of(name)})
}

fn path(agent: &str) -> String {
    format!("/v1/agents/{agent}")
}

async fn make(person: &Person, name: &str, access: Value) -> String {
    let mut form = form(name);
    form["access_control"] = access;
    form["editors"] = json!([]);
    id(&person.post("/v1/agents", form).await.is(201))
}

fn only(subjects: &[&str]) -> Value {
    json!({"allowed_subjects": subjects, "denied_subjects": []})
}

fn but(subjects: &[&str]) -> Value {
    json!({"allowed_subjects": [], "denied_subjects": subjects})
}

fn sandbox(name: &str) -> Value {
    json!({"name": name, "image": "x", "cpu_max": 1, "memory_mb_max": 64, "network": "none", "timeout_s_max": 1,
        "filesystem": "none"})
}

struct Call {
    method: Method,
    path: String,
    body: Value,
    /// Scope that the route requires.
    scope: &'static str,
}

/// One request per agent route, in an order in which all succeed for an authorized caller; `n` makes names unique.
async fn calls(t: &Team, n: usize) -> Vec<Call> {
    // Members can change the default agent, too.
    let open = json!({"editors": []});
    t.ada.patch("/v1/agents/main", open).await.is(200);
    let mut agents = Vec::new();
    for use_of in ["one", "file", "gone", "default"] {
        agents.push(make(&t.ada, &format!("{use_of}-{n}"), Value::Null).await);
    }
    let old = format!("one-{n}");
    let (one, gone, archived, default) = (
        path(&agents[0]),
        path(&agents[1]),
        path(&agents[2]),
        path(&agents[3]),
    );
    t.ada.patch(&one, json!({"description": "2"})).await.is(200);
    t.ada
        .put(&format!("{one}/files/a.md"), json!({"content": "x"}))
        .await
        .is(200);
    let workspace = format!("/v1/workspaces/{}", t.ada.workspace);
    t.ada
        .put(
            &format!("{workspace}/files/TOOLS.md"),
            json!({"content": "x"}),
        )
        .await
        .is(200);
    let box_of = |name: String| sandbox(&name);
    let kept = id(&t
        .ada
        .post("/v1/sandbox-policies", box_of(format!("kept {n}")))
        .await
        .is(201));
    let kept = format!("/v1/sandbox-policies/{kept}");
    let rpc = |method: &str| format!("/v1/rpc/{method}");
    let of = |agent: &str| json!({"agent_id": agent});
    let file = |content: Option<&str>| {
        let mut params = json!({"agent_id": old, "path": "b.md"});
        if let Some(content) = content {
            params["content"] = content.into();
        }
        params
    };
    let (get, post, put, patch, delete) = (
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
    );
    [
        (&get, "/v1/agents".to_owned(), Value::Null, "agents:read"),
        (&get, one.clone(), Value::Null, "agents:read"),
        (
            &get,
            "/v1/agents/main".to_owned(),
            Value::Null,
            "agents:read",
        ),
        (
            &get,
            format!("{one}?resolve=true"),
            Value::Null,
            "agents:read",
        ),
        (&get, format!("{one}/versions"), Value::Null, "agents:read"),
        (
            &get,
            format!("{one}/versions/1"),
            Value::Null,
            "agents:read",
        ),
        (
            &get,
            format!("{one}/versions/2/diff"),
            Value::Null,
            "agents:read",
        ),
        (&get, format!("{one}/export"), Value::Null, "agents:read"),
        (&get, format!("{one}/files"), Value::Null, "agents:read"),
        (
            &get,
            format!("{one}/files/SOUL.md"),
            Value::Null,
            "agents:read",
        ),
        (
            &get,
            format!("{one}/files/a.md"),
            Value::Null,
            "agents:read",
        ),
        (
            &get,
            "/v1/agent-templates".to_owned(),
            Value::Null,
            "agents:read",
        ),
        (
            &post,
            "/v1/agents/preview".to_owned(),
            json!({"agent": {"instructions": "x"}}),
            "agents:read",
        ),
        (
            &get,
            format!("{workspace}/policy"),
            Value::Null,
            "agents:read",
        ),
        (
            &get,
            format!("{workspace}/files"),
            Value::Null,
            "agents:read",
        ),
        (
            &get,
            format!("{workspace}/files/TOOLS.md"),
            Value::Null,
            "agents:read",
        ),
        (
            &get,
            "/v1/sandbox-policies".to_owned(),
            Value::Null,
            "agents:read",
        ),
        (&get, kept.clone(), Value::Null, "agents:read"),
        (&post, rpc("agents.list"), json!({}), "agents:read"),
        (&post, rpc("agents.get"), of("main"), "agents:read"),
        (&post, rpc("agents.files.list"), of("main"), "agents:read"),
        (
            &post,
            rpc("agents.files.get"),
            json!({"agent_id": "main", "path": "SOUL.md"}),
            "agents:read",
        ),
        (&post, rpc("agent.identity.get"), json!({}), "agents:read"),
        (
            &post,
            "/v1/agents".to_owned(),
            form(&format!("new-{n}")),
            "agents:write",
        ),
        (
            &patch,
            one.clone(),
            json!({"description": n.to_string()}),
            "agents:write",
        ),
        (&put, one.clone(), form(&old), "agents:write"),
        (
            &post,
            format!("{one}/rollback"),
            json!({"target_version": 1}),
            "agents:write",
        ),
        (&post, format!("{one}/duplicate"), json!({}), "agents:write"),
        (
            &post,
            "/v1/agents/import".to_owned(),
            json!({"agent": form(&format!("imported-{n}"))}),
            "agents:write",
        ),
        (
            &put,
            format!("{one}/files/MEMORY.md"),
            json!({"content": "x"}),
            "agents:write",
        ),
        (
            &put,
            format!("{one}/files/SOUL.md"),
            json!({"content": "You are One."}),
            "agents:write",
        ),
        (
            &delete,
            format!("{one}/files/a.md"),
            Value::Null,
            "agents:write",
        ),
        (
            &post,
            rpc("agents.create"),
            json!({"id": format!("called-{n}")}),
            "agents:write",
        ),
        (
            &post,
            rpc("agents.update"),
            json!({"agent_id": agents[0], "soul": "You are One."}),
            "agents:write",
        ),
        (
            &post,
            rpc("agents.files.set"),
            file(Some("x")),
            "agents:write",
        ),
        (
            &post,
            rpc("agent.identity.update"),
            json!({"identity": format!("Owl {n}")}),
            "agents:write",
        ),
        (
            &post,
            rpc("agent.identity.update_soul"),
            json!({"soul": format!("You are Vibe {n}.")}),
            "agents:write",
        ),
        (&delete, archived, Value::Null, "agents:delete"),
        (&post, rpc("agents.delete"), of(&agents[2]), "agents:delete"),
        (
            &delete,
            format!("{gone}?permanent=true"),
            Value::Null,
            "agents:admin",
        ),
        (
            &post,
            format!("{default}/default"),
            Value::Null,
            "agents:admin",
        ),
        (&post, rpc("agents.set_default"), of("main"), "agents:admin"),
        (
            &post,
            "/v1/sandbox-policies".to_owned(),
            box_of(format!("new {n}")),
            "agents:admin",
        ),
        (
            &put,
            kept.clone(),
            box_of(format!("changed {n}")),
            "agents:admin",
        ),
        (&delete, kept, Value::Null, "agents:admin"),
        (
            &patch,
            format!("{workspace}/policy"),
            json!({"required_text": n.to_string()}),
            "workspace:admin",
        ),
        (
            &put,
            format!("{workspace}/files/AGENTS.md"),
            json!({"content": "x"}),
            "workspace:admin",
        ),
        (
            &delete,
            format!("{workspace}/files/TOOLS.md"),
            Value::Null,
            "workspace:admin",
        ),
    ]
    .into_iter()
    .map(|(method, path, body, scope)| Call {
        method: method.clone(),
        path,
        body,
        scope,
    })
    .collect()
}

async fn check_calls(t: &Team, who: &Person, n: usize, granted: &[&str]) {
    for call in calls(t, n).await {
        let body = (!call.body.is_null()).then(|| call.body.to_string().into_bytes());
        let reply = who.send(call.method.clone(), &call.path, &[], body).await;
        let what = format!(
            "{} {} with {granted:?}: {} {}",
            call.method, call.path, reply.status, reply.text
        );
        if granted.contains(&call.scope) {
            assert!((200..300).contains(&reply.status), "{what}");
        } else {
            assert_eq!(reply.status, 403, "{what}");
            reply.refused(403);
        }
    }
}

#[tokio::test]
async fn a_key_with_one_scope_has_the_matching_agent_permissions() {
    let t = team().await;
    for (n, scope) in SCOPES.into_iter().enumerate() {
        let (robot, _) = t.ada.make_key(&[scope]).await;
        check_calls(&t, &robot, n, &[scope]).await;
    }
}

#[tokio::test]
async fn an_admin_has_all_agent_permissions() {
    let t = team().await;
    check_calls(&t, &t.ada, 0, &SCOPES).await;
}

#[tokio::test]
async fn a_member_can_read_and_write_agents() {
    let t = team().await;
    check_calls(&t, &t.bo, 0, &["agents:read", "agents:write"]).await;
}

#[tokio::test]
async fn a_viewer_can_read_agents() {
    let t = team().await;
    let vera = t.app.join(&t.ada, "Vera", "viewer").await;
    check_calls(&t, &vera, 0, &["agents:read"]).await;
}

#[tokio::test]
async fn agent_routes_require_an_account() {
    let t = team().await;
    let nobody = t.bo.signed_out();
    for call in calls(&t, 0).await {
        let body = (!call.body.is_null()).then(|| call.body.to_string().into_bytes());
        nobody
            .send(call.method, &call.path, &[], body)
            .await
            .refused(401);
    }
}

#[tokio::test]
async fn a_status_change_requires_more_than_write_access() {
    let t = team().await;
    let agent = make(&t.bo, "sage", Value::Null).await;
    let (deleter, _) = t.ada.make_key(&["agents:write", "agents:delete"]).await;
    let (admin, _) = t.ada.make_key(&["agents:write", "agents:admin"]).await;
    for status in ["inactive", "archived"] {
        t.bo.patch(&path(&agent), json!({"status": status}))
            .await
            .refused(403);
        let mut put = form("sage");
        put["status"] = status.into();
        t.bo.put(&path(&agent), put).await.refused(403);
    }
    deleter
        .patch(&path(&agent), json!({"status": "inactive"}))
        .await
        .refused(403);
    deleter
        .patch(&path(&agent), json!({"status": "archived"}))
        .await
        .is(200);
    deleter
        .patch(&path(&agent), json!({"status": "active"}))
        .await
        .refused(403);
    admin
        .patch(&path(&agent), json!({"status": "active"}))
        .await
        .is(200);
    admin
        .patch(&path(&agent), json!({"status": "inactive"}))
        .await
        .is(200);
    t.bo.patch(
        &path(&agent),
        json!({"status": "inactive", "description": "x"}),
    )
    .await
    .is(200);
}

/// Access lists of an agent, and whether they allow the members Bo and Cy.
fn cases(t: &Team, cy: &Person) -> Vec<(Value, bool, bool)> {
    let both = |allowed: &[&str], denied: &[&str]| json!({"allowed_subjects": allowed, "denied_subjects": denied});
    vec![
        (Value::Null, true, true),
        (both(&[], &[]), true, true),
        (both(&[&t.bo.id], &[]), true, false),
        (both(&["role:member"], &[]), true, true),
        (both(&["role:admin"], &[]), false, false),
        (both(&["role:admin", &cy.id], &[]), false, true),
        (both(&[], &[&t.bo.id]), false, true),
        (both(&[], &["role:member"]), false, false),
        (both(&[], &["role:viewer", "role:admin"]), true, true),
        (both(&[&t.bo.id], &["role:member"]), false, false),
        (both(&["role:member"], &[&t.bo.id]), false, true),
        (both(&[&t.bo.id, &cy.id], &[&cy.id]), true, false),
    ]
}

/// Returns whether the user sees the agent, after checking that every view agrees.
async fn sees(person: &Person, agent: &str) -> bool {
    let found = person.get(&path(agent)).await;
    let sees = found.status == 200;
    if !sees {
        assert_eq!(found.refused(404), "agent_not_found");
    }
    for rest in [
        "?resolve=true",
        "/versions",
        "/versions/1",
        "/versions/1/diff",
        "/export",
        "/files",
        "/files/SOUL.md",
    ] {
        let reply = person.get(&format!("{}{rest}", path(agent))).await;
        assert_eq!(reply.status, if sees { 200 } else { 404 }, "{rest}");
    }
    let listed = list(&person.get("/v1/agents?limit=100").await.ok(), "/data");
    let shown = list(&person.get("/v1/snapshot").await.ok(), "/agents");
    for all in [listed, shown] {
        assert_eq!(all.iter().any(|a| a["id"] == agent), sees);
    }
    let name = text(&person.get("/v1/agents?name=sage").await.ok(), "/object");
    assert_eq!(name, "list");
    let named = list(&person.get("/v1/agents?name=sage").await.ok(), "/data");
    assert_eq!(named.len(), usize::from(sees));
    sees
}

/// Returns whether the user can invoke the agent, after checking that every way to invoke it agrees.
async fn uses(t: &Team, person: &Person, agent: &str) -> bool {
    let thread = person.thread(&t.general, "Root").await;
    let root = text(&person.messages(&thread).await[0], "/id");
    let posted = person.say(&thread, "@sage hi").await;
    let uses = list(&posted, "/tasks").len() == 1;
    assert_eq!(
        list(&posted, "/message/mentions").len(),
        usize::from(uses),
        "{posted}"
    );
    let threads = format!("/v1/channels/{}/threads", t.general);
    let works = if uses { 201 } else { 404 };
    let granted = |status: u16| {
        if uses {
            (200..300).contains(&status)
        } else {
            status == 404
        }
    };
    for (what, reply) in [
        (
            "thread",
            person
                .post(&threads, json!({"content": "Hi", "agent_id": agent}))
                .await,
        ),
        (
            "dive",
            person
                .try_fork(&thread, &root, json!({"agent_id": agent}))
                .await,
        ),
    ] {
        assert_eq!(reply.status, works, "{what}: {}", reply.text);
    }
    for (what, reply) in [
        (
            "bind",
            person
                .patch(&format!("/v1/threads/{thread}"), json!({"agent_id": agent}))
                .await,
        ),
        (
            "direct",
            person.post("/v1/direct", json!({"agent_id": agent})).await,
        ),
    ] {
        assert!(
            granted(reply.status),
            "{what}: {} {}",
            reply.status,
            reply.text
        );
    }
    uses
}

#[tokio::test]
async fn access_lists_determine_who_can_see_and_use_an_agent() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let agent = make(&t.ada, "sage", Value::Null).await;
    for (access, bo, other) in cases(&t, &cy) {
        t.ada
            .patch(&path(&agent), json!({"access_control": access}))
            .await
            .is(200);
        for (person, expected) in [(&t.bo, bo), (&cy, other)] {
            assert_eq!(
                sees(person, &agent).await,
                expected,
                "{} {access}",
                person.name
            );
            assert_eq!(
                uses(&t, person, &agent).await,
                expected,
                "{} {access}",
                person.name
            );
        }
    }
}

#[tokio::test]
async fn an_admin_sees_every_agent_and_uses_those_that_the_lists_permit() {
    let t = team().await;
    let agent = make(&t.ada, "sage", only(&[&t.bo.id])).await;
    assert!(sees(&t.ada, &agent).await);
    assert!(!uses(&t, &t.ada, &agent).await);
    t.ada
        .patch(
            &path(&agent),
            json!({"access_control": but(&["role:admin"])}),
        )
        .await
        .is(200);
    assert!(sees(&t.ada, &agent).await);
    assert!(!uses(&t, &t.ada, &agent).await);
    assert!(uses(&t, &t.bo, &agent).await);
}

#[tokio::test]
async fn a_viewer_sees_agents_that_the_lists_permit() {
    let t = team().await;
    let vera = t.app.join(&t.ada, "Vera", "viewer").await;
    let agent = make(&t.ada, "sage", but(&["role:viewer"])).await;
    assert!(!sees(&vera, &agent).await);
    t.ada
        .patch(
            &path(&agent),
            json!({"access_control": only(&["role:viewer"])}),
        )
        .await
        .is(200);
    assert!(sees(&vera, &agent).await);
    assert!(!sees(&t.bo, &agent).await);
}

#[tokio::test]
async fn empty_lists_do_not_restrict_access() {
    let t = team().await;
    let agent = make(
        &t.ada,
        "sage",
        json!({"allowed_subjects": [], "denied_subjects": []}),
    )
    .await;
    assert!(t.ada.get(&path(&agent)).await.ok()["access_control"].is_null());
    t.ada
        .patch(&path(&agent), json!({"access_control": {}}))
        .await
        .is(200);
    assert_eq!(t.ada.get(&path(&agent)).await.ok()["version"], 1);
    let half = t
        .ada
        .patch(
            &path(&agent),
            json!({"access_control": {"denied_subjects": ["role:viewer"]}}),
        )
        .await
        .is(200);
    assert_eq!(half["access_control"], but(&["role:viewer"]));
}

#[tokio::test]
async fn hidden_agents_look_exactly_like_missing_ones() {
    let t = team().await;
    let hidden = make(&t.ada, "sage", only(&[&t.ada.id])).await;
    let none = unknown_id("agent");
    let body = |value: Value| Some(value.to_string().into_bytes());
    for (method, rest, form) in [
        (Method::GET, "", None),
        (Method::GET, "?resolve=true", None),
        (Method::GET, "/versions", None),
        (Method::GET, "/versions/1", None),
        (Method::GET, "/versions/9", None),
        (Method::GET, "/export", None),
        (Method::GET, "/files/MEMORY.md", None),
        (Method::PATCH, "", body(json!({"description": "x"}))),
        (Method::PATCH, "", body(json!({"temperature": 9}))),
        (Method::PATCH, "", body(json!({"status": "archived"}))),
        (Method::PUT, "", body(form("sage"))),
        (Method::POST, "/duplicate", None),
        (
            Method::POST,
            "/rollback",
            body(json!({"target_version": 1})),
        ),
        (Method::PUT, "/files/SOUL.md", body(json!({"content": "x"}))),
        (
            Method::PUT,
            "/files/MEMORY.md",
            body(json!({"content": "x"})),
        ),
        (Method::DELETE, "/files/MEMORY.md", None),
    ] {
        let there =
            t.bo.send(
                method.clone(),
                &format!("{}{rest}", path(&hidden)),
                &[],
                form.clone(),
            )
            .await;
        let absent =
            t.bo.send(method.clone(), &format!("{}{rest}", path(&none)), &[], form)
                .await;
        assert_eq!(there.status, 404, "{method} {rest} {}", there.text);
        assert_eq!(there.status, absent.status, "{method} {rest}");
        assert_eq!(
            there.text.replace(&hidden, &none),
            absent.text,
            "{method} {rest}"
        );
    }
    let threads = format!("/v1/channels/{}/threads", t.general);
    for path in [threads.as_str(), "/v1/direct"] {
        let ask = |agent: &str| json!({"content": "Hi", "agent_id": agent});
        let form = |agent: &str| {
            if path == "/v1/direct" {
                json!({"agent_id": agent})
            } else {
                ask(agent)
            }
        };
        let (there, absent) = (
            t.bo.post(path, form(&hidden)).await,
            t.bo.post(path, form(&none)).await,
        );
        assert_eq!(there.text.replace(&hidden, &none), absent.text);
    }
    for query in [format!("after={hidden}"), format!("before={hidden}")] {
        t.bo.get(&format!("/v1/agents?{query}")).await.refused(404);
    }
    for (method, params) in [
        ("agents.get", json!({"agent_id": "sage"})),
        ("agents.get", json!({"agent_id": hidden})),
        ("agents.update", json!({"agent_id": "sage", "soul": "x"})),
        (
            "agents.files.set",
            json!({"agent_id": "sage", "path": "MEMORY.md", "content": "x"}),
        ),
    ] {
        t.bo.post(&format!("/v1/rpc/{method}"), params)
            .await
            .refused(404);
    }
}

#[tokio::test]
async fn pages_are_filled_with_visible_agents() {
    let t = team().await;
    let mut mine = Vec::new();
    for n in 0..12 {
        let access = if n % 4 == 0 {
            Value::Null
        } else {
            only(&["role:admin"])
        };
        let mut form = form(&format!("sage-{n}"));
        form["access_control"] = access;
        form["metadata"] = json!({"set": "test"});
        let made = id(&t.ada.post("/v1/agents", form).await.is(201));
        if n % 4 == 0 {
            mine.push(made);
        }
    }
    let page = async |query: String| {
        t.bo.get(&format!("/v1/agents?metadata.set=test&{query}"))
            .await
            .ok()
    };
    let of = |page: &Value| -> Vec<String> { list(page, "/data").iter().map(id).collect() };
    let first = page("limit=2".to_owned()).await;
    assert_eq!(
        (of(&first), &first["has_more"]),
        (mine[..2].to_vec(), &json!(true))
    );
    let rest = page(format!("limit=2&after={}", mine[1])).await;
    assert_eq!(
        (of(&rest), &rest["has_more"]),
        (mine[2..].to_vec(), &json!(false))
    );
    let back = page(format!("limit=1&before={}", mine[2])).await;
    assert_eq!(
        (of(&back), &back["has_more"]),
        (mine[1..2].to_vec(), &json!(true))
    );
}

fn agent_events(events: &[Value]) -> Vec<(String, String)> {
    let of_agents = events
        .iter()
        .filter(|e| e["type"].as_str().is_some_and(|t| t.starts_with("agent.")));
    of_agents
        .map(|e| (text(e, "/type"), text(e, "/data/agent/name")))
        .collect()
}

#[tokio::test]
async fn users_who_cannot_see_an_agent_receive_no_events_about_it() {
    let t = team().await;
    let mut bo = t.bo.socket().await;
    let mut ada = t.ada.socket().await;
    let from = t.ada.events().await.len();
    let agent = make(&t.ada, "sage", only(&["role:admin"])).await;
    t.ada
        .patch(&path(&agent), json!({"description": "Quiet"}))
        .await
        .is(200);
    t.ada
        .patch(&path(&agent), json!({"status": "inactive"}))
        .await
        .is(200);
    t.ada.delete(&path(&agent)).await.is(200);
    t.ada
        .delete(&format!("{}?permanent=true", path(&agent)))
        .await
        .is(200);
    let heard = bo.settle().await;
    assert!(agent_events(&heard).is_empty(), "{heard:?}");
    assert!(agent_events(&t.bo.events().await).is_empty());
    let kinds: Vec<String> = agent_events(&ada.settle().await)
        .into_iter()
        .map(|(kind, _)| kind)
        .collect();
    assert_eq!(
        kinds,
        [
            "agent.created",
            "agent.updated",
            "agent.updated",
            "agent.archived",
            "agent.archived"
        ]
    );
    let seqs: Vec<i64> = t.ada.events().await[from..]
        .iter()
        .map(|e| number(e, "/seq"))
        .collect();
    assert!(
        seqs.windows(2).all(|w| w[1] == w[0] + 1),
        "no gaps for a reader who sees everything: {seqs:?}"
    );
}

#[tokio::test]
async fn users_who_lose_access_to_an_agent_receive_only_an_archived_event() {
    let t = team().await;
    let agent = make(&t.ada, "sage", Value::Null).await;
    let mut bo = t.bo.socket().await;
    let mut ada = t.ada.socket().await;
    let secret =
        json!({"instructions": "A confidential note.", "access_control": only(&["role:admin"])});
    t.ada.patch(&path(&agent), secret).await.is(200);
    t.ada
        .patch(&path(&agent), json!({"description": "Quiet"}))
        .await
        .is(200);
    // Once Ada has received the last change, the server has also sent all earlier events.
    let told = ada
        .through("the last change", |e| {
            e["data"]["agent"]["description"] == "Quiet"
        })
        .await;
    let heard = bo.settle().await;
    assert_eq!(
        agent_events(&heard),
        [("agent.archived".to_owned(), "sage".to_owned())]
    );
    assert!(
        !json!(heard).to_string().contains("confidential"),
        "{heard:?}"
    );
    let last = heard
        .iter()
        .find(|e| e["type"] == "agent.archived")
        .unwrap();
    assert_eq!(last["data"]["agent"]["status"], "archived");
    assert_eq!(
        agent_events(&t.bo.events().await).last().unwrap().0,
        "agent.archived"
    );
    let told = agent_events(&told);
    assert!(
        told.iter().all(|(kind, _)| kind == "agent.updated"),
        "{told:?}"
    );
    assert_eq!(t.ada.get(&path(&agent)).await.ok()["status"], "active");
    t.ada
        .patch(&path(&agent), json!({"access_control": null}))
        .await
        .is(200);
    let back = bo.of("agent.updated").await;
    assert_eq!(
        back["data"]["agent"]["instructions"],
        "A confidential note."
    );
    assert_eq!(back["data"]["agent"]["status"], "active");
}

#[tokio::test]
async fn a_bound_agent_replies_only_to_users_who_can_use_it() {
    let t = team().await;
    let agent = make(&t.ada, "sage", only(&["role:admin"])).await;
    let threads = format!("/v1/channels/{}/threads", t.general);
    let started = t
        .ada
        .post(&threads, json!({"content": "Hi", "agent_id": agent}))
        .await
        .is(201);
    let thread = text(&started, "/thread/id");
    t.ada.completed(&text(&started, "/tasks/0/id")).await;
    assert_eq!(t.bo.say(&thread, "And me?").await["tasks"], json!([]));
    let task = t.ada.ask(&thread, "And me?").await;
    t.ada.completed(&task).await;
    let root = text(&started, "/message/id");
    let fork = t.bo.start_fork(&thread, &root, json!({})).await;
    assert_ne!(
        fork["agent_id"],
        agent.as_str(),
        "a fork does not bypass the access lists"
    );
    assert_eq!(
        t.bo.messages(&thread).await.len(),
        5,
        "readers of the conversation see the replies"
    );
}

#[tokio::test]
async fn tasks_do_not_reveal_the_instructions_of_hidden_agents() {
    let t = team().await;
    let agent = make(&t.ada, "sage", Value::Null).await;
    let private = json!({"instructions": "You are Sage with a confidential note.", "access_control": only(&["role:admin"])});
    t.ada.patch(&path(&agent), private).await.is(200);
    let started = t.ada.start(&t.general, "@sage hi").await;
    let task = text(&started, "/tasks/0/id");
    t.ada.completed(&task).await;
    let context = t.bo.get(&format!("/v1/tasks/{task}/context")).await;
    assert!(!context.text.contains("confidential"), "{}", context.text);
    let own = t.ada.task_context(&task).await;
    assert!(own.to_string().contains("confidential"), "{own}");
}

#[tokio::test]
async fn a_task_continues_after_its_requester_loses_access_to_the_agent() {
    let t = team().await;
    let agent = make(&t.ada, "sage", Value::Null).await;
    let gate = Gate::new();
    t.model().script(
        "sage",
        [crate::support::Answer::text("Still here.").held(&gate)],
    );
    let started = t.bo.start(&t.general, "@sage hi").await;
    gate.reached().await;
    t.ada
        .patch(
            &path(&agent),
            json!({"access_control": only(&["role:admin"])}),
        )
        .await
        .is(200);
    gate.open();
    t.bo.completed(&text(&started, "/tasks/0/id")).await;
    assert_eq!(
        t.bo.contents(&text(&started, "/thread/id")).await[1],
        "Still here."
    );
}

#[tokio::test]
async fn a_key_without_agents_read_receives_no_agent_events() {
    let t = team().await;
    let (robot, _) = t.bo.make_key(&["chat:read"]).await;
    let mut socket = robot.socket().await;
    make(&t.ada, "sage", Value::Null).await;
    assert!(agent_events(&socket.settle().await).is_empty());
    assert!(agent_events(&robot.events().await).is_empty());
    assert_eq!(robot.get("/v1/snapshot").await.ok()["agents"], json!([]));
}

#[tokio::test]
async fn an_admin_key_without_agents_admin_is_subject_to_the_lists() {
    let t = team().await;
    let agent = make(&t.ada, "sage", only(&[&t.bo.id])).await;
    let (robot, _) = t.ada.make_key(&["chat:read", "agents:read"]).await;
    assert!(!sees(&robot, &agent).await);
    let mut socket = robot.socket().await;
    t.ada
        .patch(&path(&agent), json!({"description": "x"}))
        .await
        .is(200);
    assert!(agent_events(&socket.settle().await).is_empty());
    let (admin, _) = t
        .ada
        .make_key(&["chat:read", "agents:read", "agents:admin"])
        .await;
    assert!(sees(&admin, &agent).await);
}

#[tokio::test]
async fn a_hidden_default_agent_is_not_available_as_main() {
    let t = team().await;
    t.ada
        .patch(
            "/v1/agents/main",
            json!({"access_control": only(&["role:admin"])}),
        )
        .await
        .is(200);
    t.bo.get("/v1/agents/main").await.refused(404);
    t.bo.get("/v1/agents/main/files/SOUL.md").await.refused(404);
    t.bo.post("/v1/rpc/agent.identity.get", json!({}))
        .await
        .refused(404);
    let all = t.bo.post("/v1/rpc/agents.list", json!({})).await.is(200);
    assert!(all["default_id"].is_null(), "{all}");
    assert_eq!(t.bo.start(&t.general, "@vibe hi").await["tasks"], json!([]));
}

#[tokio::test]
async fn access_lists_can_keep_former_members() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let agent = make(&t.ada, "sage", but(&[&cy.id])).await;
    t.ada
        .delete(&format!("/v1/members/{}", cy.id))
        .await
        .is(204);
    t.ada
        .patch(&path(&agent), json!({"description": "x"}))
        .await
        .is(200);
    let whole = t.ada.get(&path(&agent)).await.ok();
    t.ada.put(&path(&agent), whole).await.is(200);
    t.ada
        .post(
            &format!("{}/rollback", path(&agent)),
            json!({"target_version": 1}),
        )
        .await
        .is(200);
    let copy = t
        .ada
        .act(&format!("{}/duplicate", path(&agent)))
        .await
        .is(201);
    assert_eq!(copy["name"], "sage-copy");
    t.ada
        .patch(&path(&agent), json!({"access_control": null}))
        .await
        .is(200);
    t.ada
        .patch(&path(&agent), json!({"access_control": but(&[&cy.id])}))
        .await
        .refused(404);
}

#[tokio::test]
async fn agent_changes_are_in_the_audit_log() {
    let t = team().await;
    let agent = make(&t.ada, "sage", Value::Null).await;
    t.ada
        .act(&format!("{}/default", path(&agent)))
        .await
        .is(200);
    let vibe = id(&t.ada.agent("vibe").await);
    t.ada.delete(&path(&vibe)).await.is(200);
    t.ada
        .delete(&format!("{}?permanent=true", path(&vibe)))
        .await
        .is(200);
    let log = t.ada.get("/v1/audit-log?limit=100").await.ok().to_string();
    for action in [
        "agent.made_default",
        "agent.status_changed",
        "agent.deleted",
    ] {
        assert!(log.contains(action), "{action}: {log}");
    }
}

#[tokio::test]
async fn a_direct_channel_does_not_bypass_the_lists() {
    let t = team().await;
    let agent = make(&t.ada, "sage", Value::Null).await;
    let channel = id(&t
        .bo
        .post("/v1/direct", json!({"agent_id": agent}))
        .await
        .is(201));
    let first = t.bo.start(&channel, "Hi").await;
    assert_eq!(first["tasks"][0]["agent_id"], agent.as_str());
    t.bo.completed(&text(&first, "/tasks/0/id")).await;
    t.ada
        .patch(&path(&agent), json!({"access_control": but(&[&t.bo.id])}))
        .await
        .is(200);
    let thread = text(&first, "/thread/id");
    for posted in [
        t.bo.say(&thread, "Still?").await,
        t.bo.start(&channel, "Anew?").await,
    ] {
        assert!(
            list(&posted, "/tasks")
                .iter()
                .all(|task| task["agent_id"] != agent.as_str()),
            "{posted}"
        );
    }
}

#[tokio::test]
async fn a_dive_is_not_resolved_by_an_agent_that_the_requester_cannot_use() {
    let t = team().await;
    let agent = make(&t.ada, "sage", only(&["role:admin"])).await;
    let started = t.ada.start(&t.general, "Friday or Monday?").await;
    let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
    let fork = id(&t
        .ada
        .start_fork(&thread, &root, json!({"agent_id": agent}))
        .await);
    assert_eq!(t.bo.say_in(&fork, "Monday").await["tasks"], json!([]));
    let task = t.bo.resolve(&fork).await;
    assert_ne!(t.bo.task(&task).await["agent_id"], agent.as_str());
}

#[tokio::test]
async fn a_failed_task_cannot_be_retried_after_losing_access_to_its_agent() {
    let t = team().await;
    let agent = make(&t.ada, "sage", Value::Null).await;
    t.model().script(
        "sage",
        [crate::support::Answer::status(
            400,
            r#"{"error":{"message":"no"}}"#,
        )],
    );
    let started = t.bo.start(&t.general, "@sage hi").await;
    let task = text(&started, "/tasks/0/id");
    t.bo.failed(&task).await;
    t.ada
        .patch(&path(&agent), json!({"access_control": but(&[&t.bo.id])}))
        .await
        .is(200);
    let retried = t.bo.act(&format!("/v1/tasks/{task}/retry")).await;
    assert!(
        matches!(retried.status, 403 | 404),
        "{} {}",
        retried.status,
        retried.text
    );
}

#[tokio::test]
async fn main_is_the_default_agent_of_the_requested_workspace() {
    let t = team().await;
    let second = id(&t
        .ada
        .post("/v1/workspaces", json!({"name": "Second"}))
        .await
        .is(201));
    assert_eq!(
        t.ada.get("/v1/agents/main").await.refused(400),
        "workspace_required"
    );
    let (here, there) = (
        t.ada.in_workspace(&t.ada.workspace),
        t.ada.in_workspace(&second),
    );
    let (ours, theirs) = (
        here.get("/v1/agents/main").await.ok(),
        there.get("/v1/agents/main").await.ok(),
    );
    assert_ne!(ours["id"], theirs["id"]);
    assert_eq!(theirs["workspace_id"], second.as_str());
    let named = here.get(&path(&id(&theirs))).await.ok();
    assert_eq!(named["id"], theirs["id"], "an ID determines the workspace");
    here.post("/v1/rpc/agents.get", json!({"agent_id": theirs["id"]}))
        .await
        .refused(404);
    here.get(&format!("/v1/agents?after={}", id(&theirs)))
        .await
        .refused(404);
}

#[tokio::test]
async fn a_key_without_agents_use_cannot_retry_tasks() {
    let t = team().await;
    make(&t.ada, "sage", Value::Null).await;
    t.model().script(
        "sage",
        [crate::support::Answer::status(
            400,
            r#"{"error":{"message":"no"}}"#,
        )],
    );
    let started = t.bo.start(&t.general, "@sage hi").await;
    let task = text(&started, "/tasks/0/id");
    t.bo.failed(&task).await;
    let (robot, _) = t.bo.make_key(&["chat:read", "chat:write"]).await;
    let refused = robot.act(&format!("/v1/tasks/{task}/retry")).await;
    assert_eq!(refused.refused(403), "scope_missing");
    let (robot, _) =
        t.bo.make_key(&["chat:read", "chat:write", "agents:use"])
            .await;
    robot.act(&format!("/v1/tasks/{task}/retry")).await.is(201);
}
