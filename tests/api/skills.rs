//! Skills: their texts and readers, and their use by agents.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    imports::{unlimited_team, zipped},
    support::{
        Answer, Person, Reply, Request, Team, TestApp, id, instructions_of, list, number, team,
        text, unknown_id,
    },
    tools_loop::reader,
};

/// An address that the server refuses after the call was allowed, so nothing leaves this machine.
const LEAK: &str = "https://127.0.0.1/leak?q=secret";

fn main_file(name: &str, description: &str) -> String {
    format!(
        "---\nname: {name}\ndescription: {description}\nallowed-tools: Bash\n---\nCount the waves of {name}.\n"
    )
}

fn form(name: &str) -> Value {
    json!({"files": [{"path": "SKILL.md", "content": main_file(name, "Reads the tide table")}]})
}

async fn make(by: &Person, name: &str, channels: Option<&[&str]>) -> Value {
    let mut form = form(name);
    form["channel_ids"] = json!(channels);
    by.post("/v1/skills", form).await.is(201)
}

fn path(skill: &Value) -> String {
    format!("/v1/skills/{}", id(skill))
}

async fn names(by: &Person) -> Vec<String> {
    let all = by.get("/v1/skills").await.ok();
    let all = list(&all, "/data");
    all.iter().map(|skill| text(skill, "/name")).collect()
}

async fn put_if(by: &Person, skill: &Value, version: i64, form: Value) -> Reply {
    let version = version.to_string();
    let headers = [
        ("if-match", version.as_str()),
        ("content-type", "application/json"),
    ];
    let body = form.to_string().into_bytes();
    by.send(Method::PUT, &path(skill), &headers, Some(body))
        .await
}

async fn send_zip(by: &Person, method: Method, path: &str, zip: Vec<u8>) -> Reply {
    let headers = [("content-type", "application/zip")];
    by.send(method, path, &headers, Some(zip)).await
}

/// Versions in the events about a skill that a person received, oldest first.
async fn told(person: &Person, skill: &Value) -> Vec<Value> {
    let events = person.events().await;
    let own = events.iter().filter(|event| {
        event["type"] == "skill.updated" && event["data"]["skill_id"] == skill["id"]
    });
    own.map(|event| event["data"]["version"].clone()).collect()
}

#[tokio::test]
async fn a_skill_is_created_read_changed_and_deleted() {
    let t = team().await;
    let mut wanted = form("tides");
    wanted["files"]
        .as_array_mut()
        .unwrap()
        .push(json!({"path": "scripts/é.sh", "content": "echo ü\n"}));
    let made = t.bo.post("/v1/skills", wanted).await.is(201);
    for (field, value) in [
        ("object", json!("skill")),
        ("name", json!("tides")),
        ("description", json!("Reads the tide table")),
        ("channel_ids", Value::Null),
        ("used_by", json!(0)),
        ("version", json!(1)),
        ("created_by", json!(t.bo.id)),
        ("written_by", json!(t.bo.id)),
    ] {
        assert_eq!(made[field], value, "{field}");
    }
    assert_eq!(
        made["files"][1],
        json!({"path": "scripts/é.sh", "bytes": 8, "content": "echo ü\n"})
    );
    let reply = t.ada.get(&path(&made)).await;
    assert_eq!(reply.header("etag").as_deref(), Some("\"1\""));
    assert_eq!(reply.ok(), made);
    let listed = t.ada.get("/v1/skills").await.ok();
    assert_eq!(
        listed["data"][0]["files"][1],
        json!({"path": "scripts/é.sh", "bytes": 8})
    );

    // The name follows the front matter, and the ID stays.
    let changed = put_if(&t.ada, &made, 1, form("moon")).await.is(200);
    assert_eq!(
        (&changed["id"], &changed["name"]),
        (&made["id"], &json!("moon"))
    );
    assert_eq!(
        (&changed["version"], &changed["written_by"]),
        (&json!(2), &json!(t.ada.id))
    );
    assert_eq!(
        (&changed["created_by"], list(&changed, "/files").len()),
        (&made["created_by"], 1)
    );
    let stale = put_if(&t.bo, &made, 1, form("sun")).await;
    assert_eq!(stale.json()["error"]["current"]["version"], 2);
    assert_eq!(stale.refused(409), "version_conflict");
    // The same texts change nothing.
    assert_eq!(t.bo.put(&path(&made), form("moon")).await.is(200), changed);
    // Other channels do not make a person the author of the texts.
    let narrow = json!({"channel_ids": [t.general]});
    let narrowed = t.bo.put(&path(&made), narrow).await.is(200);
    assert_eq!(narrowed["written_by"], json!(t.ada.id));
    assert_eq!(narrowed["channel_ids"], json!([t.general]));

    let gone = t.bo.delete(&path(&made)).await.is(200);
    assert_eq!(
        gone,
        json!({"id": made["id"], "object": "skill", "deleted": true})
    );
    assert_eq!(t.bo.get(&path(&made)).await.refused(404), "skill_not_found");
    assert_eq!(t.app.place.count("skill_files").await, 0);
    let log = t.ada.get("/v1/audit-log?order=oldest&limit=100").await.ok();
    let log = list(&log, "/data");
    let actions = log.iter().map(|entry| text(entry, "/action"));
    let actions: Vec<String> = actions
        .filter(|action| action.starts_with("skill."))
        .collect();
    assert_eq!(
        actions,
        [
            "skill.created",
            "skill.updated",
            "skill.updated",
            "skill.deleted"
        ]
    );
    assert_eq!(
        told(&t.bo, &made).await,
        [json!(1), json!(2), json!(3), Value::Null]
    );
}

#[tokio::test]
async fn a_zip_file_becomes_a_skill_and_replaces_one() {
    let t = team().await;
    let zip = |name: &str, more: &[(&str, &[u8])]| {
        let main = (
            format!("{name}/SKILL.md"),
            main_file("tides", "Reads").into_bytes(),
        );
        let more = more
            .iter()
            .map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec()));
        let all: Vec<(String, Vec<u8>)> = std::iter::once(main).chain(more).collect();
        let all: Vec<(&str, Vec<u8>)> = all.iter().map(|(n, b)| (n.as_str(), b.clone())).collect();
        zipped(&all)
    };
    let good = zip("tides", &[("tides/a.md", b"One")]);
    let made = send_zip(&t.bo, Method::POST, "/v1/skills", good)
        .await
        .is(201);
    assert_eq!(made["files"][1]["content"], "One");
    let narrow = json!({"channel_ids": [t.general]});
    t.bo.put(&path(&made), narrow).await.is(200);
    let next = zip("tides", &[("tides/a.md", b"Two")]);
    let changed = send_zip(&t.bo, Method::PUT, &path(&made), next)
        .await
        .is(200);
    assert_eq!(changed["files"][1]["content"], "Two");
    // Channels stay.
    assert_eq!(changed["channel_ids"], json!([t.general]));
    for (zip, part) in [
        (zip("moon", &[]), "`moon`"),
        (zip("tides", &[("tides/../x", b"x")]), "../x"),
        (zip("tides", &[("tides/b.md", b"1\n\xff")]), "b.md, line 2"),
        (b"no zip".to_vec(), "zip"),
    ] {
        let reply = send_zip(&t.bo, Method::POST, "/v1/skills", zip).await;
        let message = text(&reply.json(), "/error/message");
        assert!(message.contains(part), "{message}");
        assert_eq!(reply.refused(422), "bad_skill");
    }
    let vera = t.app.join(&t.ada, "Vera", "viewer").await;
    let refused = send_zip(&vera, Method::POST, "/v1/skills", b"no zip".to_vec()).await;
    assert_eq!(refused.status, 403);
}

#[tokio::test]
async fn bad_forms_change_nothing() {
    let t = unlimited_team().await;
    make(&t.ada, "tides", None).await;
    let taken = t.bo.post("/v1/skills", form("tides")).await;
    assert_eq!(taken.refused(409), "name_taken");
    let moon = make(&t.ada, "moon", None).await;
    let taken = t.bo.put(&path(&moon), form("tides")).await;
    assert_eq!(taken.refused(409), "name_taken");
    let mut bad = form("sun");
    bad["files"][0]["content"] = json!("---\nname: SUN\ndescription: x\n---\n");
    let refused = t.bo.post("/v1/skills", bad).await;
    let message = text(&refused.json(), "/error/message");
    assert!(message.starts_with("SKILL.md, line 2: "), "{message}");
    assert_eq!(refused.refused(422), "bad_skill");
    assert_eq!(
        t.bo.post("/v1/skills", json!({})).await.refused(422),
        "bad_skill"
    );
    for (channels, status) in [
        (json!([]), 422),
        (json!(vec![t.general.as_str(); 51]), 422),
        (json!([unknown_id("chan")]), 404),
        (json!("all"), 400),
    ] {
        let mut form = form("sun");
        form["channel_ids"] = channels.clone();
        t.bo.post("/v1/skills", form).await.refused(status);
        let only = json!({"channel_ids": channels});
        t.bo.put(&path(&moon), only).await.refused(status);
    }
    assert_eq!(t.ada.get(&path(&moon)).await.ok(), moon);
    assert_eq!(names(&t.ada).await, ["moon", "tides"]);
    for n in 2..100 {
        make(&t.ada, &format!("skill-{n}"), None).await;
    }
    let full = t.ada.post("/v1/skills", form("one-more")).await;
    assert_eq!(full.refused(409), "too_many_skills");
    t.ada.delete(&path(&moon)).await.is(200);
    make(&t.ada, "one-more", None).await;
}

#[tokio::test]
async fn storage_is_counted_and_released() {
    let t = team().await;
    let bytes = async || number(&t.ada.get("/v1/usage").await.ok(), "/storage/bytes");
    let before = bytes().await;
    let mut large = form("tides");
    let more = json!({"path": "a.md", "content": "x".repeat(500_000)});
    large["files"].as_array_mut().unwrap().push(more);
    let made = t.ada.post("/v1/skills", large).await.is(201);
    assert!(bytes().await >= before + 500_000);
    t.ada.put(&path(&made), form("tides")).await.is(200);
    assert!(bytes().await < before + 500_000);
    t.ada.delete(&path(&made)).await.is(200);
    assert_eq!(bytes().await, before);
}

#[tokio::test]
async fn only_readers_of_its_channels_see_a_skill_and_only_the_channels_they_read() {
    let t = team().await;
    let (ada, bo) = (&t.ada, &t.bo);
    let theirs = bo.private_channel("theirs", &[]).await;
    let both = ada.private_channel("both", &[bo]).await;
    let hidden = make(bo, "hidden", Some(&[&theirs])).await;
    // An admin who is not in the channel does not see it either.
    assert_eq!(
        ada.get(&path(&hidden)).await.refused(404),
        "skill_not_found"
    );
    assert_eq!(
        ada.put(&path(&hidden), form("x")).await.refused(404),
        "skill_not_found"
    );
    assert_eq!(
        ada.delete(&path(&hidden)).await.refused(404),
        "skill_not_found"
    );
    assert!(names(ada).await.is_empty());
    assert!(told(ada, &hidden).await.is_empty());
    assert_eq!(told(bo, &hidden).await, [json!(1)]);
    let foreign = json!({"channel_ids": [theirs]});
    let open = make(ada, "open", None).await;
    assert_eq!(
        ada.put(&path(&open), foreign).await.refused(404),
        "channel_not_found"
    );

    let shared = make(bo, "shared", Some(&[&theirs, &both])).await;
    let seen = ada.get(&path(&shared)).await.ok();
    assert_eq!(seen["channel_ids"], json!([both]));
    // A change by somebody who does not see a channel leaves that channel as it is.
    let to = json!({"channel_ids": [t.general]});
    let changed = ada.put(&path(&shared), to).await.is(200);
    assert_eq!(changed["channel_ids"], json!([t.general]));
    let channels = bo.get(&path(&shared)).await.ok()["channel_ids"].clone();
    let mut expected = [theirs.clone(), t.general.clone()];
    expected.sort();
    let mut channels: Vec<String> = serde_json::from_value(channels).unwrap();
    channels.sort();
    assert_eq!(channels, expected);

    // People who lose access to a skill get an event without its version.
    bo.put(&path(&open), json!({"channel_ids": [theirs]}))
        .await
        .is(200);
    assert_eq!(told(ada, &open).await, [json!(1), Value::Null]);
    assert_eq!(told(bo, &open).await, [json!(1), json!(2)]);
    assert_eq!(ada.get(&path(&open)).await.status, 404);
    bo.put(&path(&open), json!({"channel_ids": null}))
        .await
        .is(200);
    assert_eq!(told(ada, &open).await, [json!(1), Value::Null, json!(3)]);
}

#[tokio::test]
async fn a_skill_whose_channels_are_gone_is_for_admins_only() {
    let t = team().await;
    let theirs = t.bo.private_channel("theirs", &[]).await;
    let skill = make(&t.bo, "tides", Some(&[&theirs])).await;
    t.app.place.run(&["delete from skill_channels"]).await;
    assert_eq!(t.bo.get(&path(&skill)).await.status, 404);
    let seen = t.ada.get(&path(&skill)).await.ok();
    assert_eq!(seen["channel_ids"], json!([]));
    t.ada.delete(&path(&skill)).await.is(200);
}

#[tokio::test]
async fn guests_and_keys_without_scopes_have_no_skills() {
    let t = team().await;
    let skill = make(&t.ada, "tides", Some(&[&t.general])).await;
    let gus = t.app.join_as_guest(&t.ada, "Gus", &["general"]).await;
    gus.get("/v1/skills").await.refused(403);
    gus.get(&path(&skill)).await.refused(403);
    t.ada.put(&path(&skill), form("moon")).await.is(200);
    assert!(told(&gus, &skill).await.is_empty());
    let (reads, _) = t.ada.make_key(&["agents:read"]).await;
    assert_eq!(names(&reads).await, ["moon"]);
    reads.put(&path(&skill), form("sun")).await.refused(403);
    reads.delete(&path(&skill)).await.refused(403);
    let (chats, _) = t.ada.make_key(&["chat:read"]).await;
    chats.get("/v1/skills").await.refused(403);
    let (writes, _) = t.ada.make_key(&["agents:write"]).await;
    writes.put(&path(&skill), form("sun")).await.is(200);
}

#[tokio::test]
async fn a_profile_names_skills_and_keeps_the_names_of_deleted_ones() {
    let t = team().await;
    let tides = make(&t.ada, "tides", None).await;
    let own = t.bo.private_channel("own", &[]).await;
    make(&t.bo, "secret", Some(&[&own])).await;
    let agent = |skills: Value| json!({"name": "sage", "instructions": instructions_of("sage"), "skills": skills, "editors": []});
    for (skills, status) in [
        (json!(["nowhere"]), 422),
        (json!(["secret"]), 422),
        (json!("some"), 400),
        (json!([1]), 400),
        (json!(vec!["tides"; 101]), 422),
    ] {
        t.ada
            .post("/v1/agents", agent(skills))
            .await
            .refused(status);
    }
    let sage = t
        .ada
        .post("/v1/agents", agent(json!(["tides"])))
        .await
        .is(201);
    assert_eq!(
        (&sage["skills"], &sage["missing_skills"]),
        (&json!(["tides"]), &json!([]))
    );
    let of_sage = format!("/v1/agents/{}", id(&sage));
    let child = json!({"name": "child", "instructions": "Help.", "base_profile_id": sage["id"]});
    let child = t.ada.post("/v1/agents", child).await.is(201);
    let resolved = format!("/v1/agents/{}?resolve=true", id(&child));
    assert_eq!(t.ada.get(&resolved).await.ok()["skills"], json!(["tides"]));
    assert_eq!(t.ada.get(&path(&tides)).await.ok()["used_by"], 2);
    let of_child = format!("/v1/agents/{}", id(&child));
    let archived = json!({"status": "archived"});
    t.ada.patch(&of_child, archived).await.is(200);
    assert_eq!(t.ada.get(&path(&tides)).await.ok()["used_by"], 1);

    t.ada.delete(&path(&tides)).await.is(200);
    let seen = t.ada.get(&of_sage).await.ok();
    assert_eq!(
        (&seen["skills"], &seen["missing_skills"]),
        (&json!(["tides"]), &json!(["tides"]))
    );
    // The name stays valid in other changes, but is not new anywhere.
    let patch = json!({"description": "Knows the sea", "skills": ["tides"]});
    t.bo.patch(&of_sage, patch).await.is(200);
    let other = json!({"name": "other", "instructions": "Help.", "skills": ["tides"]});
    assert_eq!(
        t.ada.post("/v1/agents", other).await.refused(422),
        "skill_not_found"
    );

    let export = t.ada.get(&format!("{of_sage}/export")).await.ok();
    assert_eq!(export["agent"]["skills"], json!(["tides"]));
    t.bo.patch(&of_sage, json!({"skills": "all"})).await.is(200);
    let seen = t.ada.get(&of_sage).await.ok();
    assert_eq!(
        (&seen["skills"], &seen["missing_skills"]),
        (&json!("all"), &json!([]))
    );
    t.bo.patch(&of_sage, json!({"skills": null})).await.is(200);
    assert!(t.ada.get(&of_sage).await.ok()["skills"].is_null());
}

/// Reads `tides`, or fetches a page if the question asks for it.
fn sailor(request: &Request) -> Answer {
    match request.results().len() {
        0 => Answer::calls("", &[("read_skill", json!({"name": "tides"}))]),
        1 if request.all().contains("publish") => {
            Answer::calls("", &[("web_fetch", json!({"url": LEAK}))])
        }
        _ => Answer::text("Done."),
    }
}

/// Asks sage in a new thread of a channel; returns the requests of the reply.
async fn asked(t: &Team, by: &Person, channel: &str) -> Vec<Request> {
    t.model().forget();
    t.model().answer_by("sage", sailor);
    let started = by.start(channel, "@sage when is high water?").await;
    by.completed(&text(&started, "/tasks/0/id")).await;
    t.model().asked("sage", 2).await
}

#[tokio::test]
async fn an_agent_is_told_of_its_skills_and_reads_them() {
    let t = team().await;
    let mut tides = form("tides");
    let more = json!({"path": "table.md", "content": "High water at noon."});
    tides["files"].as_array_mut().unwrap().push(more);
    t.ada.post("/v1/skills", tides).await.is(201);
    make(&t.ada, "moon", None).await;
    reader(&t.ada, "sage", json!({"skills": ["tides"]})).await;
    let requests = asked(&t, &t.bo, &t.general).await;
    assert!(
        requests[0].instructions().ends_with(
            "## Skills\nInstructions for certain work:\n- tides: Reads the tide table\n\n\
             Before such work, read the skill with `read_skill`, and follow it."
        ),
        "{}",
        requests[0].instructions()
    );
    assert!(requests[0].offered().contains(&"read_skill".to_owned()));
    let result = &requests[1].results()[0];
    assert!(
        result.starts_with("Files: SKILL.md, table.md\n"),
        "{result}"
    );
    assert!(result.contains("Count the waves of tides."), "{result}");
    assert!(!result.contains("not instructions"), "{result}");
}

#[tokio::test]
async fn read_skill_finds_only_files_of_the_skills_of_the_agent() {
    let t = team().await;
    make(&t.ada, "tides", None).await;
    make(&t.ada, "moon", None).await;
    reader(&t.ada, "sage", json!({"skills": ["tides"]})).await;
    let calls = [
        ("read_skill", json!({"name": "moon"})),
        (
            "read_skill",
            json!({"name": "tides", "path": "../SKILL.md"}),
        ),
        ("read_skill", json!({"path": "SKILL.md"})),
    ];
    t.model()
        .script("sage", [Answer::calls("", &calls), Answer::text("Done.")]);
    let started = t.bo.start(&t.general, "@sage hello").await;
    t.bo.completed(&text(&started, "/tasks/0/id")).await;
    let requests = t.model().asked("sage", 2).await;
    let results = requests[1].results();
    for (result, code) in results
        .iter()
        .zip(["not_found", "not_found", "bad_arguments"])
    {
        assert!(result.starts_with(code), "{result}");
    }
    assert_eq!(results.len(), 3);
    assert!(!requests[1].all().contains("waves of moon"));
}

#[tokio::test]
async fn a_skill_is_used_only_where_all_readers_can_read_it() {
    let t = team().await;
    let (ada, bo) = (&t.ada, &t.bo);
    let both = ada.private_channel("both", &[bo]).await;
    let own = ada.private_channel("own", &[]).await;
    let skill = make(ada, "tides", Some(&[&both])).await;
    reader(ada, "sage", json!({"skills": "all"})).await;
    let is_told = |requests: &[Request]| {
        let is_listed = requests[0].instructions().contains("- tides: ");
        let is_offered = requests[0].offered().contains(&"read_skill".to_owned());
        assert_eq!(is_listed, is_offered);
        is_listed && requests[1].all().contains("waves of tides")
    };
    assert!(is_told(&asked(&t, bo, &both).await));
    for elsewhere in [&own, &t.general] {
        assert!(!is_told(&asked(&t, ada, elsewhere).await), "{elsewhere}");
    }
    ada.put(&path(&skill), json!({"channel_ids": null}))
        .await
        .is(200);
    for place in [&both, &own, &t.general] {
        assert!(is_told(&asked(&t, ada, place).await), "{place}");
    }
    // A guest reads #general from now on.
    t.app.join_as_guest(ada, "Gus", &["general"]).await;
    assert!(!is_told(&asked(&t, ada, &t.general).await));
    assert!(is_told(&asked(&t, ada, &own).await));
    let named = json!({"channel_ids": [t.general]});
    ada.put(&path(&skill), named).await.is(200);
    assert!(is_told(&asked(&t, ada, &t.general).await));
}

#[tokio::test]
async fn a_skill_by_another_member_makes_calls_ask() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let skill = make(&t.bo, "tides", None).await;
    let fields = json!({"skills": ["tides"], "tools": [{"type": "web_fetch"}]});
    reader(&t.ada, "sage", fields).await;
    t.model().answer_by("sage", sailor);
    let labels = async |by: &Person| -> Vec<String> {
        let started = by.start(&t.general, "@sage read, and publish it").await;
        let task = text(&started, "/tasks/0/id");
        let event = by
            .event_where("the call", |event| {
                let action = &event["data"]["action"];
                action["task_id"] == task && action["function"] == "web_fetch"
            })
            .await;
        let action = by
            .get(&format!("/v1/actions/{}", text(&event, "/data/action/id")))
            .await
            .ok();
        let mut sources = list(&action, "/sources");
        sources.retain(|source| source["kind"] == "author");
        let mut labels: Vec<String> = sources
            .iter()
            .map(|source| text(source, "/label"))
            .collect();
        labels.dedup();
        assert_eq!(action["state"] == "waiting", !labels.is_empty(), "{action}");
        labels
    };
    assert_eq!(labels(&cy).await, ["sage's skills, by Bo"]);
    // His own, or an admin's, do not; other channels do not make the admin the author.
    assert!(labels(&t.bo).await.is_empty());
    let channels = json!({"channel_ids": [t.general]});
    t.ada.put(&path(&skill), channels).await.is(200);
    assert_eq!(labels(&cy).await, ["sage's skills, by Bo"]);
    let mut by_ada = form("tides");
    by_ada["files"][0]["content"] = json!(main_file("tides", "By Ada"));
    t.ada.put(&path(&skill), by_ada).await.is(200);
    assert!(labels(&cy).await.is_empty());
}

#[tokio::test]
async fn the_record_of_a_reply_and_the_dry_run_show_the_part() {
    let t = team().await;
    make(&t.ada, "tides", None).await;
    let sage = reader(&t.ada, "sage", json!({"skills": "all"})).await;
    t.model().answer_by("sage", sailor);
    let thread = t.bo.thread(&t.general, "Root").await;
    let task = t.bo.ask(&thread, "@sage hello").await;
    t.bo.completed(&task).await;
    let dry = format!("/v1/threads/{thread}/context?agent_id={}", id(&sage));
    for seen in [t.bo.task_context(&task).await, t.bo.get(&dry).await.ok()] {
        let sources = list(&seen, "/sources");
        let part = sources
            .iter()
            .find(|source| source["name"] == "skills")
            .unwrap();
        assert_eq!(
            (&part["state"], &part["owner"]["type"]),
            (&json!("sent"), &json!("workspace"))
        );
        let shown = text(part, "/text");
        assert!(
            shown.contains("- tides: ") && shown.contains("`read_skill`"),
            "{shown}"
        );
        assert!(number(part, "/tokens") > 0);
    }
}

#[tokio::test]
async fn skills_survive_a_restart_and_an_erasure() {
    let mut t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let skill = make(&cy, "tides", None).await;
    let export = t
        .ada
        .get(&format!("/v1/members/{}/export", cy.id))
        .await
        .ok();
    assert_eq!(export["skills"][0]["name"], "tides");
    t.ada.erase(&cy).await;
    t.app.restart(&[]).await;
    let ada = t.ada.at(&t.app.base);
    let left = ada.get(&path(&skill)).await.ok();
    assert_eq!(left["files"], skill["files"]);
    assert_ne!(left["created_by"], json!(cy.id));
    assert_ne!(left["written_by"], json!(cy.id));
}

#[tokio::test]
async fn workspaces_have_skills_of_their_own() {
    let app = TestApp::with(&[("SIGNUP", "open")]).await;
    let (ada, zoe) = (app.founder("Ada").await, app.founder("Zoe").await);
    let skill = make(&ada, "tides", None).await;
    make(&zoe, "tides", None).await;
    assert_eq!(zoe.get(&path(&skill)).await.refused(404), "skill_not_found");
    assert_eq!(
        zoe.delete(&path(&skill)).await.refused(404),
        "skill_not_found"
    );
    assert!(told(&zoe, &skill).await.is_empty());
}
