//! Agent files: views of the profile, stored files, and files shared across the workspace.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Person, Team, id, instructions_of, list, number, team, team_with, text};

const KIB_256: usize = 256 * 1024;

fn form(name: &str) -> Value {
    json!({"name": name, "instructions": instructions_of(name)})
}

/// Creates an agent with these additional fields and returns its path.
async fn make(person: &Person, name: &str, fields: Value) -> String {
    let mut form = form(name);
    form["editors"] = json!([]);
    for (field, value) in fields.as_object().unwrap() {
        form[field] = value.clone();
    }
    format!(
        "/v1/agents/{}",
        id(&person.post("/v1/agents", form).await.is(201))
    )
}

async fn read(person: &Person, agent: &str, file: &str) -> Value {
    person.get(&format!("{agent}/files/{file}")).await.ok()
}

async fn write(person: &Person, agent: &str, file: &str, content: &str) -> Value {
    person
        .put(
            &format!("{agent}/files/{file}"),
            json!({"content": content}),
        )
        .await
        .is(200)
}

fn shared(t: &Team, file: &str) -> String {
    format!("/v1/workspaces/{}/files/{file}", t.ada.workspace)
}

fn paths(files: &Value) -> Vec<(String, String)> {
    list(files, "/data")
        .iter()
        .map(|f| (text(f, "/path"), text(f, "/source")))
        .collect()
}

/// System prompt of the speaker's `n`th model request, after the preamble.
async fn told(t: &Team, speaker: &str, n: usize) -> String {
    let asked = t.model().asked(speaker, n).await;
    asked[n - 1].instructions()
}

async fn ask(t: &Team, content: &str) {
    let started = t.ada.start(&t.general, content).await;
    t.ada.completed(&text(&started, "/tasks/0/id")).await;
}

#[tokio::test]
async fn a_new_agent_has_derived_files_and_an_empty_memory() {
    let t = team().await;
    let sage = make(
        &t.ada,
        "sage",
        json!({"display_name": "Sage", "avatar": {"emoji": "🌿"}, "description": "Knows."}),
    )
    .await;
    let files = t.bo.get(&format!("{sage}/files")).await.ok();
    assert_eq!(files["object"], "list");
    let of = |path: &str, source: &str| (path.to_owned(), source.to_owned());
    assert_eq!(
        paths(&files),
        [
            of("IDENTITY.md", "profile"),
            of("MEMORY.md", "agent"),
            of("SOUL.md", "profile")
        ]
    );
    assert!(
        list(&files, "/data")
            .iter()
            .all(|f| f.get("content").is_none())
    );
    let soul = read(&t.bo, &sage, "SOUL.md").await;
    assert_eq!(
        (&soul["object"], &soul["path"]),
        (&json!("agent_file"), &json!("SOUL.md"))
    );
    assert_eq!(soul["content"], instructions_of("sage"));
    assert_eq!(
        number(&soul, "/size_bytes"),
        i64::try_from(instructions_of("sage").len()).unwrap()
    );
    let identity = text(&read(&t.bo, &sage, "IDENTITY.md").await, "/content");
    assert!(
        identity.contains("- Name: Sage\n") && identity.contains("- Emoji: 🌿\n"),
        "{identity}"
    );
    let memory = read(&t.bo, &sage, "MEMORY.md").await;
    assert_eq!(
        (
            &memory["content"],
            &memory["version"],
            &memory["size_bytes"]
        ),
        (&json!(""), &json!(0), &json!(0))
    );
    assert!(memory["updated_at"].is_null() && memory["updated_by"].is_null());
}

#[tokio::test]
async fn soul_md_and_the_instructions_stay_in_sync() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({})).await;
    let mut socket = t.ada.socket().await;
    let reply =
        t.bo.put(
            &format!("{sage}/files/SOUL.md"),
            json!({"content": "You are Sage, by file.\n"}),
        )
        .await;
    assert_eq!(reply.header("etag").as_deref(), Some("\"2\""));
    let file = reply.is(200);
    assert_eq!(
        (&file["version"], &file["source"]),
        (&json!(2), &json!("profile"))
    );
    let agent = t.ada.get(&sage).await.ok();
    assert_eq!(
        (&agent["instructions"], &agent["version"]),
        (&json!("You are Sage, by file.\n"), &json!(2))
    );
    assert_eq!(
        socket.of("agent.updated").await["data"]["agent"]["instructions"],
        "You are Sage, by file.\n"
    );
    let versions = t.ada.get(&format!("{sage}/versions")).await.ok();
    assert_eq!(versions["data"][0]["changed_by"], t.bo.id.as_str());
    t.ada
        .patch(&sage, json!({"instructions": "You are Sage, by field."}))
        .await
        .is(200);
    let soul = read(&t.bo, &sage, "SOUL.md").await;
    assert_eq!(
        (&soul["content"], &soul["version"]),
        (&json!("You are Sage, by field."), &json!(3))
    );
    write(&t.bo, &sage, "SOUL.md", "You are Sage, by field.").await;
    assert_eq!(
        t.ada.get(&sage).await.ok()["version"],
        3,
        "the same text is not a change"
    );
}

#[tokio::test]
async fn identity_md_and_the_profile_text_stay_in_sync() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({})).await;
    let file = write(&t.ada, &sage, "IDENTITY.md", "- Creature: owl\n").await;
    assert_eq!(file["version"], 2);
    assert_eq!(t.ada.get(&sage).await.ok()["identity"], "- Creature: owl\n");
    t.ada
        .patch(&sage, json!({"identity": "- Creature: fox\n"}))
        .await
        .is(200);
    assert_eq!(
        read(&t.ada, &sage, "IDENTITY.md").await["content"],
        "- Creature: fox\n"
    );
    t.ada
        .delete(&format!("{sage}/files/IDENTITY.md"))
        .await
        .is(204);
    let agent = t.ada.get(&sage).await.ok();
    assert_eq!(
        (&agent["identity"], &agent["version"]),
        (&Value::Null, &json!(4))
    );
    assert_eq!(
        read(&t.ada, &sage, "IDENTITY.md").await["source"],
        "profile"
    );
}

#[tokio::test]
async fn name_and_emoji_lines_and_fields_stay_in_sync() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({"avatar": {"color": "#112233"}})).await;
    write(
        &t.ada,
        &sage,
        "IDENTITY.md",
        "# Who\n- Name: Owl\n- **Emoji:** 🦉\n- Vibe: calm\n",
    )
    .await;
    let agent = t.ada.get(&sage).await.ok();
    assert_eq!(agent["display_name"], "Owl");
    assert_eq!(agent["avatar"], json!({"emoji": "🦉", "color": "#112233"}));
    t.ada
        .patch(
            &sage,
            json!({"display_name": "Fox", "avatar": {"emoji": "🦊"}}),
        )
        .await
        .is(200);
    let content = text(&read(&t.ada, &sage, "IDENTITY.md").await, "/content");
    assert_eq!(
        content,
        "# Who\n- Name: Fox\n- **Emoji:** 🦊\n- Vibe: calm\n"
    );
    let now = t
        .ada
        .patch(&sage, json!({"description": "Else"}))
        .await
        .is(200);
    assert_eq!(
        (&now["display_name"], &now["identity"]),
        (&json!("Fox"), &json!(content))
    );
    let put = json!({"name": "sage", "instructions": "x", "identity": "- Name: Wolf\n"});
    assert_eq!(t.ada.put(&sage, put).await.is(200)["display_name"], "Wolf");
}

#[tokio::test]
async fn a_name_in_identity_md_follows_the_name_rules() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({"display_name": "Sage"})).await;
    for bad in ["Vibe (AI)", "[Ada]", &"x".repeat(81), "a\u{202e}b\u{7}"] {
        let content = json!({"content": format!("- Name: {bad}\n")});
        let reply = t
            .ada
            .put(&format!("{sage}/files/IDENTITY.md"), content)
            .await;
        let agent = t.ada.get(&sage).await.ok();
        assert_eq!(
            agent["display_name"], "Sage",
            "{} {}",
            reply.status, reply.text
        );
        reply.refused(422);
        t.ada
            .patch(&sage, json!({"identity": format!("Name: {bad}")}))
            .await
            .refused(422);
        let mut made = form("owl");
        made["identity"] = format!("Name: {bad}").into();
        t.ada.post("/v1/agents", made).await.refused(422);
    }
}

#[tokio::test]
async fn memory_and_log_files_have_their_own_versions() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({})).await;
    for (n, content) in ["One", "Two"].into_iter().enumerate() {
        let path = format!("{sage}/files/memory/2026-11-20.md");
        let reply = t.bo.put(&path, json!({"content": content})).await;
        let version = n + 1;
        assert_eq!(reply.header("etag"), Some(format!("\"{version}\"")));
        let file = reply.is(200);
        assert_eq!(
            (&file["content"], &file["version"]),
            (&json!(content), &json!(version))
        );
        assert_eq!(
            (&file["source"], &file["updated_by"]),
            (&json!("agent"), &json!(t.bo.id))
        );
        let found = t.ada.get(&path).await;
        assert_eq!(found.header("etag"), Some(format!("\"{version}\"")));
        assert_eq!(found.ok(), file);
    }
    write(&t.ada, &sage, "MEMORY.md", "Kept").await;
    assert_eq!(read(&t.ada, &sage, "MEMORY.md").await["version"], 1);
    assert_eq!(
        t.ada.get(&sage).await.ok()["version"],
        1,
        "the profile is unchanged"
    );
    write(&t.ada, &sage, "MEMORY.md", "Kept").await;
    assert_eq!(
        read(&t.ada, &sage, "MEMORY.md").await["version"],
        1,
        "the same text is not a change"
    );
    let files = paths(&t.ada.get(&format!("{sage}/files")).await.ok());
    let named: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(
        named,
        [
            "IDENTITY.md",
            "MEMORY.md",
            "SOUL.md",
            "memory/2026-11-20.md"
        ]
    );
}

#[tokio::test]
async fn each_agent_has_its_own_files() {
    let t = team().await;
    let (sage, owl) = (
        make(&t.ada, "sage", json!({})).await,
        make(&t.ada, "owl", json!({})).await,
    );
    write(&t.ada, &sage, "MEMORY.md", "Sage's").await;
    write(&t.ada, &sage, "notes.md", "Sage's").await;
    assert_eq!(read(&t.ada, &owl, "MEMORY.md").await["content"], "");
    assert_eq!(
        t.ada
            .get(&format!("{owl}/files/notes.md"))
            .await
            .refused(404),
        "file_not_found"
    );
}

#[tokio::test]
async fn a_file_supports_if_match() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({})).await;
    let put = async |file: &str, version: &str, content: &str| {
        let body = Some(json!({"content": content}).to_string().into_bytes());
        t.ada
            .send(
                Method::PUT,
                &format!("{sage}/files/{file}"),
                &[("if-match", version)],
                body,
            )
            .await
    };
    put("MEMORY.md", "1", "x").await.refused(409);
    put("MEMORY.md", "\"0\"", "One").await.is(200);
    put("MEMORY.md", "0", "Late").await.refused(409);
    put("MEMORY.md", "1", "Two").await.is(200);
    put("MEMORY.md", "x", "Three").await.refused(400);
    put("SOUL.md", "\"1\"", "You are Sage, anew.").await.is(200);
    let stale = put("SOUL.md", "1", "You are Sage, late.").await;
    assert_eq!(stale.json()["error"]["current"]["version"], 2);
    assert_eq!(stale.refused(409), "version_conflict");
    put("IDENTITY.md", "1", "Late").await.refused(409);
    put("IDENTITY.md", "2", "Owl").await.is(200);
    let delete = async |file: &str, version: &str| {
        t.ada
            .send(
                Method::DELETE,
                &format!("{sage}/files/{file}"),
                &[("if-match", version)],
                None,
            )
            .await
    };
    delete("MEMORY.md", "1").await.refused(409);
    delete("MEMORY.md", "x").await.refused(400);
    delete("IDENTITY.md", "2").await.refused(409);
    delete("MEMORY.md", "2").await.is(204);
    delete("IDENTITY.md", "\"3\"").await.is(204);
    assert_eq!(read(&t.ada, &sage, "MEMORY.md").await["content"], "");
}

#[tokio::test]
async fn one_of_twenty_concurrent_writers_of_a_file_version_wins() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({})).await;
    let path = format!("{sage}/files/MEMORY.md");
    let writes = (0..20).map(|n| {
        let body = Some(json!({"content": n.to_string()}).to_string().into_bytes());
        t.ada.send(Method::PUT, &path, &[("if-match", "0")], body)
    });
    let replies = futures::future::join_all(writes).await;
    assert_eq!(replies.iter().filter(|r| r.status == 200).count(), 1);
    assert_eq!(replies.iter().filter(|r| r.status == 409).count(), 19);
    assert_eq!(read(&t.ada, &sage, "MEMORY.md").await["version"], 1);
}

#[tokio::test]
async fn a_deleted_file_is_gone_and_its_version_numbers_continue() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({})).await;
    write(&t.ada, &sage, "notes.md", "x").await;
    let path = format!("{sage}/files/notes.md");
    t.ada.delete(&path).await.is(204);
    assert_eq!(t.ada.get(&path).await.refused(404), "file_not_found");
    assert_eq!(t.ada.delete(&path).await.refused(404), "file_not_found");
    assert_eq!(
        paths(&t.ada.get(&format!("{sage}/files")).await.ok()).len(),
        3
    );
    assert_eq!(write(&t.ada, &sage, "notes.md", "x").await["version"], 3);
    t.ada
        .delete(&format!("{sage}/files/SOUL.md"))
        .await
        .refused(422);
    t.ada
        .delete(&format!("{sage}/files/TOOLS.md"))
        .await
        .refused(404);
}

#[tokio::test]
async fn only_safe_relative_paths_are_accepted() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({})).await;
    for good in [
        "a",
        "a.b-c_d.TXT",
        "memory/2026-11-20.md",
        "a/b/c/d/e/f/g/h",
        "...",
        ".hidden",
        "0",
    ] {
        assert_eq!(write(&t.ada, &sage, good, good).await["path"], good);
        assert_eq!(read(&t.ada, &sage, good).await["content"], good);
    }
    let long = "x".repeat(201);
    // Clients resolve `..` as a path segment, but not if its slash is encoded as `%2F`.
    for bad in [
        "%2e%2e%2Fx",
        "..%2FSOUL.md",
        "a%2F..",
        "a%2F..%2FSOUL.md",
        ".%2Fa",
        "%2Fetc%2Fpasswd",
        "/etc/passwd",
        "a//b",
        "a/",
        "a%5Cb",
        "a%20b",
        "%C3%BC.md",
        "C:/x",
        "a%0Ab",
        "a%3Fb",
        "%7Euser",
        "a+b",
        "a;b",
        long.as_str(),
        "a/b/c/d/e/f/g/h/i",
    ] {
        let path = format!("{sage}/files/{bad}");
        assert_eq!(
            t.ada.put(&path, json!({"content": "x"})).await.refused(400),
            "invalid_path",
            "{bad}"
        );
        assert_eq!(t.ada.get(&path).await.refused(400), "invalid_path", "{bad}");
        assert_eq!(
            t.ada.delete(&path).await.refused(400),
            "invalid_path",
            "{bad}"
        );
    }
    assert_eq!(
        paths(&t.ada.get(&format!("{sage}/files")).await.ok()).len(),
        10
    );
}

#[tokio::test]
async fn user_md_does_not_belong_to_an_agent() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({})).await;
    for path in ["USER.md", "user.md", "User.MD"] {
        let path = format!("{sage}/files/{path}");
        t.ada.put(&path, json!({"content": "x"})).await.refused(422);
        t.ada.get(&path).await.refused(422);
    }
}

#[tokio::test]
async fn a_file_is_limited_to_256_kib_of_utf8() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let sage = make(&t.ada, "sage", json!({})).await;
    let most = "ü".repeat(KIB_256 / 2);
    for file in [
        "MEMORY.md",
        "memory/2026-11-20.md",
        "AGENTS.md",
        "SOUL.md",
        "IDENTITY.md",
    ] {
        let written = write(&t.ada, &sage, file, &most).await;
        assert_eq!(
            number(&written, "/size_bytes"),
            i64::try_from(KIB_256).unwrap()
        );
        let above = json!({"content": format!("{most}x")});
        t.ada
            .put(&format!("{sage}/files/{file}"), above)
            .await
            .refused(413);
        assert_eq!(
            read(&t.ada, &sage, file).await["version"],
            written["version"]
        );
    }
    let path = shared(&t, "TOOLS.md");
    t.ada.put(&path, json!({"content": most})).await.is(200);
    t.ada
        .put(&path, json!({"content": format!("{most}x")}))
        .await
        .refused(413);
}

#[tokio::test]
async fn a_file_body_has_a_single_text_field() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({})).await;
    let path = format!("{sage}/files/MEMORY.md");
    for bad in [
        json!({}),
        json!({"content": 7}),
        json!({"content": null}),
        json!({"content": "x", "mode": "a"}),
        json!("x"),
    ] {
        t.ada.put(&path, bad).await.refused(400);
    }
    for blank in ["", " \n"] {
        t.ada
            .put(&format!("{sage}/files/SOUL.md"), json!({"content": blank}))
            .await
            .refused(422);
    }
    write(&t.ada, &sage, "MEMORY.md", "").await;
    assert_eq!(read(&t.ada, &sage, "MEMORY.md").await["content"], "");
}

#[tokio::test]
async fn instruction_files_fall_back_to_the_workspace() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({})).await;
    for file in ["AGENTS.md", "TOOLS.md"] {
        let own = format!("{sage}/files/{file}");
        t.ada.get(&own).await.refused(404);
        t.ada
            .put(&shared(&t, file), json!({"content": "Of all"}))
            .await
            .is(200);
        let found = t.bo.get(&own).await.ok();
        assert_eq!(
            (&found["content"], &found["source"]),
            (&json!("Of all"), &json!("workspace"))
        );
        let written = write(&t.bo, &sage, file, "Own").await;
        let version = t.bo.get(&sage).await.ok()["version"].clone();
        assert_eq!(
            (&written["source"], &written["version"]),
            (&json!("agent"), &version)
        );
        assert_eq!(t.bo.get(&own).await.ok()["content"], "Own");
        assert_eq!(t.bo.get(&shared(&t, file)).await.ok()["content"], "Of all");
        t.bo.delete(&own).await.is(204);
        assert_eq!(t.bo.get(&own).await.ok()["source"], "workspace");
        let listed = paths(&t.bo.get(&format!("{sage}/files")).await.ok());
        assert!(
            listed.contains(&(file.to_owned(), "workspace".to_owned())),
            "{listed:?}"
        );
        t.ada.delete(&shared(&t, file)).await.is(204);
        t.bo.get(&own).await.refused(404);
    }
}

#[tokio::test]
async fn instruction_files_are_in_the_system_prompt() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({})).await;
    t.ada
        .put(
            &shared(&t, "AGENTS.md"),
            json!({"content": "House orders."}),
        )
        .await
        .is(200);
    t.ada
        .put(&shared(&t, "TOOLS.md"), json!({"content": "House tools."}))
        .await
        .is(200);
    ask(&t, "@sage hi").await;
    assert_eq!(
        told(&t, "sage", 1).await,
        format!(
            "{}\n\nHouse orders.\n\nHouse tools.",
            instructions_of("sage")
        )
    );
    write(&t.ada, &sage, "AGENTS.md", "Own orders.").await;
    ask(&t, "@sage hi").await;
    assert_eq!(
        told(&t, "sage", 2).await,
        format!("{}\n\nOwn orders.\n\nHouse tools.", instructions_of("sage"))
    );
    t.ada.delete(&shared(&t, "TOOLS.md")).await.is(204);
    t.ada
        .delete(&format!("{sage}/files/AGENTS.md"))
        .await
        .is(204);
    ask(&t, "@sage hi").await;
    assert_eq!(
        told(&t, "sage", 3).await,
        format!("{}\n\nHouse orders.", instructions_of("sage"))
    );
}

#[tokio::test]
async fn own_instruction_files_are_part_of_the_version() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({})).await;
    let put = async |version: &str, content: &str| {
        let body = Some(json!({"content": content}).to_string().into_bytes());
        let path = format!("{sage}/files/AGENTS.md");
        let headers = [("if-match", version)];
        t.bo.send(Method::PUT, &path, &headers, body).await
    };
    put("7", "Late").await.refused(409);
    let reply = put("1", "First orders.").await;
    assert_eq!(reply.header("etag").as_deref(), Some("\"2\""));
    reply.is(200);
    let stale = put("1", "Late").await;
    assert_eq!(stale.json()["error"]["current"]["version"], 2);
    assert_eq!(stale.refused(409), "version_conflict");
    assert_eq!(put("2", "First orders.").await.is(200)["version"], 2);
    assert_eq!(put("2", "Second orders.").await.is(200)["version"], 3);
    let versions = t.ada.get(&format!("{sage}/versions")).await.ok();
    assert_eq!(versions["data"][0]["change_summary"], "changed files");
    assert_eq!(versions["data"][0]["changed_by"], t.bo.id.as_str());
    let diff = t
        .ada
        .get(&format!("{sage}/versions/3/diff?against=2"))
        .await;
    let wanted =
        json!([{"field": "AGENTS.md", "before": "First orders.", "after": "Second orders."}]);
    assert_eq!(diff.ok()["changes"], wanted);
    let old = format!("{sage}/files/AGENTS.md?version=2");
    assert_eq!(t.ada.get(&old).await.ok()["content"], "First orders.");
    let none = format!("{sage}/files/AGENTS.md?version=1");
    t.ada.get(&none).await.refused(404);
    // Other changes, copies, and rollbacks keep these files.
    t.ada
        .patch(&sage, json!({"description": "Knows"}))
        .await
        .is(200);
    let whole = json!({"name": "sage", "instructions": instructions_of("sage")});
    t.ada.put(&sage, whole).await.is(200);
    assert_eq!(
        read(&t.bo, &sage, "AGENTS.md").await["content"],
        "Second orders."
    );
    let copy = t.ada.act(&format!("{sage}/duplicate")).await.is(201);
    let copy = format!("/v1/agents/{}", id(&copy));
    assert_eq!(
        read(&t.bo, &copy, "AGENTS.md").await["content"],
        "Second orders."
    );
    let target = json!({"target_version": 2});
    t.ada
        .post(&format!("{sage}/rollback"), target)
        .await
        .is(200);
    assert_eq!(
        read(&t.bo, &sage, "AGENTS.md").await["content"],
        "First orders."
    );
    // These files are not inherited.
    let parent = sage.rsplit_once('/').unwrap().1;
    let child = make(&t.ada, "owl", json!({"base_profile_id": parent})).await;
    t.ada
        .get(&format!("{child}/files/AGENTS.md"))
        .await
        .refused(404);
    ask(&t, "@owl hi").await;
    assert!(!told(&t, "sage", 1).await.contains("orders"));
}

#[tokio::test]
async fn a_bound_conversation_keeps_the_instruction_files_of_its_version() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({})).await;
    write(&t.ada, &sage, "AGENTS.md", "First orders.").await;
    let agent = sage.rsplit_once('/').unwrap().1;
    let form = json!({"content": "Hello", "agent_id": agent});
    let path = format!("/v1/channels/{}/threads", t.general);
    let started = t.ada.post(&path, form).await.is(201);
    t.ada.completed(&text(&started, "/tasks/0/id")).await;
    write(&t.ada, &sage, "AGENTS.md", "Second orders.").await;
    let thread = text(&started, "/thread/id");
    let said = t.ada.say(&thread, "And now?").await;
    t.ada.completed(&text(&said, "/tasks/0/id")).await;
    assert!(told(&t, "sage", 2).await.ends_with("First orders."));
    ask(&t, "@sage hi").await;
    assert!(told(&t, "sage", 3).await.ends_with("Second orders."));
}

#[tokio::test]
async fn a_log_is_named_by_a_real_date() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({})).await;
    for bad in [
        "memory/2026-02-29.md",
        "memory/today.md",
        "memory/2026-11-20/x.md",
    ] {
        let path = format!("{sage}/files/{bad}");
        let code = t.ada.put(&path, json!({"content": "x"})).await.refused(400);
        assert_eq!(code, "invalid_path", "{bad}");
        let import = json!({"agent": form("owl"), "files": {bad: "x"}});
        t.ada.post("/v1/agents/import", import).await.refused(400);
    }
    write(&t.ada, &sage, "memory/2028-02-29.md", "Leap").await;
}

#[tokio::test]
async fn soul_and_identity_are_in_the_system_prompt_and_memory_is_not() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({})).await;
    write(&t.ada, &sage, "SOUL.md", "You are Sage, by file.").await;
    write(&t.ada, &sage, "IDENTITY.md", "- Creature: owl").await;
    write(&t.ada, &sage, "MEMORY.md", "Remembered").await;
    write(&t.ada, &sage, "memory/2026-11-20.md", "Logged").await;
    write(&t.ada, &sage, "notes.md", "Noted").await;
    ask(&t, "@sage hi").await;
    let system = told(&t, "sage", 1).await;
    assert_eq!(system, "You are Sage, by file.\n\n- Creature: owl");
}

#[tokio::test]
async fn a_workspace_has_two_files_for_all_agents() {
    let t = team().await;
    let files = format!("/v1/workspaces/{}/files", t.ada.workspace);
    assert_eq!(t.bo.get(&files).await.ok()["data"], json!([]));
    t.bo.get(&shared(&t, "AGENTS.md")).await.refused(404);
    t.bo.put(&shared(&t, "AGENTS.md"), json!({"content": "x"}))
        .await
        .refused(403);
    for other in [
        "SOUL.md",
        "MEMORY.md",
        "notes.md",
        "memory/AGENTS.md",
        "agents.md",
        "USER.md",
    ] {
        t.ada
            .put(&shared(&t, other), json!({"content": "x"}))
            .await
            .refused(422);
    }
    t.ada
        .put(&shared(&t, "..%2FAGENTS.md"), json!({"content": "x"}))
        .await
        .refused(400);
    let reply = t
        .ada
        .put(&shared(&t, "AGENTS.md"), json!({"content": "One"}))
        .await;
    assert_eq!(reply.header("etag").as_deref(), Some("\"1\""));
    let file = reply.is(200);
    assert_eq!(
        (&file["source"], &file["updated_by"]),
        (&json!("workspace"), &json!(t.ada.id))
    );
    let body = || Some(json!({"content": "Two"}).to_string().into_bytes());
    let path = shared(&t, "AGENTS.md");
    t.ada
        .send(Method::PUT, &path, &[("if-match", "7")], body())
        .await
        .refused(409);
    t.ada
        .send(Method::PUT, &path, &[("if-match", "\"1\"")], body())
        .await
        .is(200);
    assert_eq!(
        paths(&t.bo.get(&files).await.ok()),
        [("AGENTS.md".to_owned(), "workspace".to_owned())]
    );
    t.bo.delete(&path).await.refused(403);
    t.ada
        .send(Method::DELETE, &path, &[("if-match", "1")], None)
        .await
        .refused(409);
    t.ada
        .send(Method::DELETE, &path, &[("if-match", "2")], None)
        .await
        .is(204);
    t.ada.delete(&path).await.refused(404);
}

#[tokio::test]
async fn files_of_an_archived_agent_are_kept() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({})).await;
    write(&t.ada, &sage, "MEMORY.md", "Kept").await;
    t.ada.delete(&sage).await.is(200);
    assert_eq!(read(&t.bo, &sage, "MEMORY.md").await["content"], "Kept");
    t.ada
        .patch(&sage, json!({"status": "active"}))
        .await
        .is(200);
    assert_eq!(read(&t.bo, &sage, "MEMORY.md").await["content"], "Kept");
}

#[tokio::test]
async fn a_stale_write_returns_the_current_file() {
    let t = team().await;
    let sage = make(&t.ada, "sage", json!({})).await;
    write(&t.ada, &sage, "MEMORY.md", "One").await;
    t.ada
        .put(&shared(&t, "TOOLS.md"), json!({"content": "One"}))
        .await
        .is(200);
    for path in [format!("{sage}/files/MEMORY.md"), shared(&t, "TOOLS.md")] {
        let body = Some(json!({"content": "Late"}).to_string().into_bytes());
        let put = t
            .ada
            .send(Method::PUT, &path, &[("if-match", "7")], body)
            .await;
        let delete = t
            .ada
            .send(Method::DELETE, &path, &[("if-match", "7")], None)
            .await;
        for stale in [put, delete] {
            let current = stale.json()["error"]["current"].clone();
            assert_eq!(stale.refused(409), "version_conflict");
            assert_eq!(
                (&current["version"], &current["content"]),
                (&json!(1), &json!("One")),
                "{current}"
            );
        }
    }
}

#[tokio::test]
async fn an_export_of_more_than_eight_mebibytes_of_files_is_refused() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let agent = make(&t.ada, "archivist", json!({})).await;
    let content = "x".repeat(KIB_256);
    for day in 1..=31 {
        let log = format!("memory/2026-01-{day:02}.md");
        write(&t.ada, &agent, &log, &content).await;
    }
    write(&t.ada, &agent, "memory/2026-02-01.md", &content).await;
    let export = format!("{agent}/export");
    let exported = t.ada.get(&export).await.ok();
    assert_eq!(exported["files"].as_object().unwrap().len(), 32);
    write(&t.ada, &agent, "memory/2026-02-02.md", "é").await;
    let listed = t.ada.get(&format!("{agent}/files")).await.ok();
    let last = list(&listed, "/data")
        .into_iter()
        .find(|file| file["path"] == "memory/2026-02-02.md");
    assert_eq!(last.unwrap()["size_bytes"], 2);
    let refused = t.ada.get(&export).await;
    assert_eq!(refused.refused(413), "export_too_large");
}
