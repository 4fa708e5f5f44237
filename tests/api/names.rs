//! Names that imitate others: people, agents, workspaces, personas, and tools.

use futures::future::join;
use serde_json::{Value, json};

use crate::support::{
    PASSWORD, Person, Reply, id, instructions_of, list, sign_up, team_with, text, visitor,
};

/// Names that nothing can have.
const IMITATIONS: [&str; 8] = [
    "V\u{200b}ibe",
    "Vi\u{ad}be",
    "Аda",
    "Ada (admin)",
    "Ada (Bot)",
    "Ada （system）",
    "System",
    "SYSTEM",
];
/// Names that look like the agent Vibe.
const LIKE_VIBE: [&str; 5] = ["Vibe", "VIBE", "vibe", "Ⅴibe", "𝐕𝐢𝐛𝐞"];

async fn invite(admin: &Person) -> String {
    text(
        &admin.post("/v1/invites", json!({})).await.is(201),
        "/token",
    )
}

async fn try_sign_up(base: &str, name: &str, email: &str, invite: Option<&str>) -> Reply {
    let mut form = json!({"email": email, "password": PASSWORD, "name": name});
    if let Some(invite) = invite {
        form["invite"] = invite.into();
    }
    visitor(base).post("/v1/auth/signup", form).await
}

/// Requires a reply to reject the field.
#[expect(
    clippy::needless_pass_by_value,
    reason = "callers have no other use for the reply"
)]
fn rejects(reply: Reply, param: &str, name: &str) {
    let error = reply.json()["error"].clone();
    assert_eq!(
        (reply.status, &error["code"], &error["param"]),
        (422, &json!("invalid_value"), &json!(param)),
        "{name:?}: {error}"
    );
}

async fn make(who: &Person, name: &str, display_name: &str) -> Reply {
    let form =
        json!({"name": name, "display_name": display_name, "instructions": instructions_of(name)});
    who.post("/v1/agents", form).await
}

#[tokio::test]
async fn people_cannot_sign_up_with_a_name_that_imitates_others() {
    let t = team_with(&[("SIGNUP", "open"), ("RATE_LIMITS", "off")]).await;
    let token = invite(&t.ada).await;
    let users = t.app.place.count("users").await;
    for name in IMITATIONS.iter().chain(&LIKE_VIBE) {
        for invite in [None, Some(&*token)] {
            let reply = try_sign_up(&t.app.base, name, "new@example.org", invite).await;
            rejects(reply, "name", name);
        }
    }
    assert_eq!(t.app.place.count("users").await, users);
    // Another person can have the same name, and agents of other workspaces do not matter.
    make(&t.ada, "sage", "Sage").await.is(201);
    for (name, invite) in [("Ada", Some(&*token)), ("Sage", None)] {
        let email = format!("{}.new@example.org", name.to_lowercase());
        try_sign_up(&t.app.base, name, &email, invite).await.is(201);
    }
}

#[tokio::test]
async fn names_in_all_scripts_are_accepted() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let token = invite(&t.ada).await;
    for (n, name) in [
        "Łukasz",
        "O'Brien",
        "Zoë",
        "عبد الرحمن",
        "می\u{200c}خواهم",
        "דָּוִד",
        "สมชาย",
        "क्\u{200d}षितिज",
        "山田さくらサクラ",
        "Anna 山田",
        "Ada 👩\u{200d}👩\u{200d}👧",
    ]
    .into_iter()
    .enumerate()
    {
        let email = format!("n{n}@example.org");
        let made = try_sign_up(&t.app.base, name, &email, Some(&token))
            .await
            .is(201);
        assert_eq!(made["user"]["name"], name);
    }
}

#[tokio::test]
async fn a_person_cannot_take_the_name_of_an_agent_later() {
    let t = team_with(&[("SIGNUP", "open"), ("RATE_LIMITS", "off")]).await;
    let own = json!({"name": "Another"});
    let elsewhere = t
        .ada
        .in_workspace(&id(&t.ada.post("/v1/workspaces", own).await.is(201)));
    make(&elsewhere, "sage", "Sage").await.is(201);
    for name in IMITATIONS.iter().chain(&LIKE_VIBE).chain(&["Sage", "SAGE"]) {
        let reply = t.ada.patch("/v1/auth/me", json!({"name": name})).await;
        rejects(reply, "name", name);
    }
    assert_eq!(t.ada.get("/v1/auth/me").await.ok()["user"]["name"], "Ada");
    t.bo.patch("/v1/auth/me", json!({"name": "Sage"}))
        .await
        .is(200);
    // Bo cannot join a workspace whose agent has this name, and can after another change.
    let path = format!("/v1/invites/{}/accept", invite(&elsewhere).await);
    rejects(t.bo.act(&path).await, "name", "Sage");
    assert_eq!(
        list(&elsewhere.get("/v1/members").await.ok(), "/data").len(),
        1
    );
    t.bo.patch("/v1/auth/me", json!({"name": "Bo"}))
        .await
        .is(200);
    t.bo.act(&path).await.is(200);
    // A new workspace would begin with this agent.
    let vi = sign_up(&t.app.base, "Vi", None).await;
    vi.patch("/v1/auth/me", json!({"name": "Coder"}))
        .await
        .is(200);
    let reply = vi.post("/v1/workspaces", json!({"name": "Own"})).await;
    rejects(reply, "name", "Coder");
}

#[tokio::test]
async fn an_agent_cannot_look_like_a_person_or_another_agent() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let agents = t.app.place.count("agents").await;
    let taken = ["Ada", "ADA", "Bo", "B0"];
    let all = || IMITATIONS.iter().chain(&LIKE_VIBE).chain(&taken);
    for name in all() {
        rejects(make(&t.bo, "sage", name).await, "display_name", name);
    }
    assert_eq!(t.app.place.count("agents").await, agents);
    let sage = make(&t.bo, "sage", "Sage").await.is(201);
    let path = format!("/v1/agents/{}", id(&sage));
    let export = t.bo.get(&format!("{path}/export")).await.ok();
    for name in all() {
        let reply = t.bo.patch(&path, json!({"display_name": name})).await;
        rejects(reply, "display_name", name);
        let mut form = json!({"name": "sage", "instructions": "You are Sage."});
        form["display_name"] = (*name).into();
        rejects(t.bo.put(&path, form).await, "display_name", name);
        let identity = json!({"identity": format!("- Name: {name}\n")});
        rejects(t.bo.patch(&path, identity).await, "display_name", name);
        let copy = json!({"display_name": name});
        let reply = t.bo.post(&format!("{path}/duplicate"), copy).await;
        rejects(reply, "display_name", name);
        let mut import: Value = export.clone();
        import["agent"]["name"] = "owl".into();
        import["agent"]["display_name"] = (*name).into();
        let reply = t.bo.post("/v1/agents/import", import).await;
        rejects(reply, "display_name", name);
        for (method, form) in [
            (
                "create",
                json!({"id": "owl", "label": name, "soul": "You are Owl."}),
            ),
            ("update", json!({"agent_id": "sage", "label": name})),
        ] {
            let reply = t.bo.post(&format!("/v1/rpc/agents.{method}"), form).await;
            rejects(reply, "label", name);
        }
    }
    let stored = t.bo.get(&path).await.ok();
    assert_eq!(
        (&stored["display_name"], &stored["version"]),
        (&json!("Sage"), &json!(1))
    );
    // Without a display name, the handle is shown.
    let plain = json!({"name": "vlbe", "instructions": "You are plain."});
    t.bo.post("/v1/agents", plain).await.is(201);
    let system = json!({"name": "system", "instructions": "You are plain."});
    rejects(t.bo.post("/v1/agents", system).await, "name", "system");
    // The agent keeps its own name in another spelling.
    t.bo.patch(&path, json!({"display_name": "SAGE"}))
        .await
        .is(200);
}

#[tokio::test]
async fn a_copy_of_an_agent_gets_a_name_of_its_own() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let path = format!("/v1/agents/{}/duplicate", id(&t.bo.agent("coder").await));
    for name in ["Coder copy", "Coder copy 2", "Coder copy 3"] {
        let copy = t.bo.post(&path, json!({})).await.is(201);
        assert_eq!(copy["display_name"], name);
    }
}

#[tokio::test]
async fn workspaces_personas_and_tools_cannot_have_such_names() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let form = json!({"name": "Calm", "compressed": "You are calm."});
    let persona = format!(
        "/v1/personas/{}",
        id(&t.ada.post("/v1/personas", form).await.is(201))
    );
    let form = json!({"kind": "function", "name": "calm", "config": {}});
    let tool = format!(
        "/v1/tools/{}",
        id(&t.ada.post("/v1/tools", form).await.is(201))
    );
    let workspace = format!("/v1/workspaces/{}", t.ada.workspace);
    for name in IMITATIONS {
        let titled = json!({"title": name});
        let named = json!({"name": name});
        for (path, form) in [(&persona, &named), (&workspace, &named), (&tool, &titled)] {
            let reply = t.ada.patch(path, form.clone()).await;
            rejects(
                reply,
                form.as_object().unwrap().keys().next().unwrap(),
                name,
            );
        }
        rejects(
            t.ada.post("/v1/workspaces", named.clone()).await,
            "name",
            name,
        );
        let form = json!({"name": name, "compressed": "You are calm."});
        rejects(t.ada.post("/v1/personas", form).await, "name", name);
        let form = json!({"kind": "function", "name": "other", "title": name, "config": {}});
        rejects(t.ada.post("/v1/tools", form).await, "title", name);
    }
}

#[tokio::test]
async fn a_person_and_an_agent_cannot_take_a_name_at_the_same_time() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let token = invite(&t.ada).await;
    for n in 0..6 {
        let (name, handle) = (format!("Zed {n}"), format!("zed-{n}"));
        let email = format!("zed{n}@example.org");
        let (person, agent) = if n % 2 == 0 {
            join(
                try_sign_up(&t.app.base, &name, &email, Some(&token)),
                make(&t.ada, &handle, &name),
            )
            .await
        } else {
            let form = json!({"name": name});
            join(
                t.bo.patch("/v1/auth/me", form),
                make(&t.ada, &handle, &name),
            )
            .await
        };
        let statuses = (person.status, agent.status);
        let has_person = person.status < 300;
        assert!(
            has_person != (agent.status == 201)
                // 409 if the person's handle was stored first.
                && [409, 422].contains(&person.status.max(agent.status)),
            "{statuses:?}: {} {}",
            person.text,
            agent.text
        );
    }
}
