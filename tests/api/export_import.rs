//! An export of one server, imported into another one, and exported again.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    exports::{Entries, archive, entries, lines, talkative},
    imports::{OFF, imported, ready, state, sums, unlimited_team},
    support::{Person, TestApp, command, id, list, text},
};

/// What people wrote: channel, title and first message of the thread, author, text, time, reactions with names, and files.
type Said = (
    String,
    String,
    String,
    String,
    String,
    Vec<String>,
    Vec<String>,
);

fn names(entries: &Entries, list: &str, key: &str) -> Vec<(String, String)> {
    lines(entries, list)
        .iter()
        .map(|line| (text(line, key), text(line, "/name")))
        .collect()
}

fn name_of(names: &[(String, String)], id: &str) -> String {
    let found = names.iter().find(|(known, _)| known == id);
    found.map_or_else(|| id.to_owned(), |(_, name)| name.clone())
}

/// Messages outside of deep dives, with names instead of IDs.
fn said(entries: &Entries) -> Vec<Said> {
    let people = names(entries, "people.jsonl", "/user_id");
    let channels: Vec<(String, String)> = lines(entries, "channels.jsonl")
        .iter()
        .map(|c| {
            let name = c["name"].as_str().unwrap_or("direct");
            (id(c), format!("{} {name}", text(c, "/kind")))
        })
        .collect();
    let messages: Vec<Value> = lines(entries, "messages/")
        .into_iter()
        .filter(|m| !m["root"].is_null() && m["kind"] != "notice")
        .collect();
    let content_of = |wanted: &Value| {
        let found = messages.iter().find(|m| m["id"] == *wanted).unwrap();
        text(found, "/content").trim_end().to_owned()
    };
    let mut said: Vec<Said> = messages
        .iter()
        .map(|m| {
            let reactions = list(m, "/reactions").into_iter().map(|reaction| {
                let users = list(&reaction, "/user_ids").into_iter();
                let mut users: Vec<String> = users
                    .map(|user| name_of(&people, user.as_str().unwrap()))
                    .collect();
                users.sort();
                format!("{} {}", text(&reaction, "/emoji"), users.join(" "))
            });
            let files = list(m, "/attachments").into_iter();
            (
                name_of(&channels, &text(m, "/channel_id")),
                format!("{} {}", m["root"]["title"], content_of(&m["root"]["id"])),
                text(m, "/author/name"),
                text(m, "/content").trim_end().to_owned(),
                text(m, "/created_at"),
                reactions.collect(),
                files.map(|file| text(&file, "/name")).collect(),
            )
        })
        .collect();
    said.sort();
    said
}

/// IDs of messages, of their threads and files, of deep dives, results, and action items, and of channels that only the archive has.
fn ids(entries: &Entries) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for message in lines(entries, "messages/") {
        if message["kind"] != "notice" {
            ids.insert(id(&message));
            ids.insert(text(&message, "/thread_id"));
            ids.extend(list(&message, "/attachments").iter().map(id));
        }
    }
    for name in ["forks.jsonl", "resolutions.jsonl", "action_items.jsonl"] {
        ids.extend(lines(entries, name).iter().map(id));
    }
    let channels = lines(entries, "channels.jsonl");
    let own = channels
        .iter()
        .filter(|c| c["name"] != "general" && c["name"] != "random");
    ids.extend(own.map(id));
    ids
}

fn people(entries: &Entries) -> BTreeSet<String> {
    let people = lines(entries, "people.jsonl");
    people.iter().map(|p| text(p, "/user_id")).collect()
}

/// Exports everything with the command.
async fn everything(app: &TestApp) -> Vec<u8> {
    let file = app.place.dir.join("everything.zip");
    let mut command = command(&app.place, &app.model, &[]);
    command.args(["export", file.to_str().unwrap()]);
    let output = openvibe::blocking::blocking((), move || command.output());
    let output = output.await.unwrap().unwrap();
    assert!(output.status.success(), "{output:?}");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    bytes
}

async fn other_server() -> (TestApp, Person) {
    let app = TestApp::with(&[OFF]).await;
    let zoe = app.founder("Zoe").await;
    (app, zoe)
}

#[tokio::test]
async fn what_was_exported_imported_and_exported_again_is_equal() {
    let t = talkative().await;
    let first = everything(&t.app).await;
    let before = said(&entries(&first));
    assert!(before.iter().any(|m| m.5 == ["👍 Ada"]), "{before:?}");
    assert!(before.iter().any(|m| m.6 == ["plan.txt"]), "{before:?}");
    let (app, zoe) = other_server().await;
    let own = ids(&entries(&everything(&app).await));
    let report = imported(&zoe, &first).await;
    sums(&report);
    assert_eq!(report["kinds"]["forks"]["imported"], 1, "{report}");
    let again = entries(&everything(&app).await);
    assert_eq!(said(&again), before);
    assert_eq!(&ids(&again) - &own, ids(&entries(&first)));
    assert!(people(&again).is_superset(&people(&entries(&first))));
    // Importing it once more changes nothing.
    let report = imported(&zoe, &first).await;
    sums(&report);
    for kind in [
        "people",
        "channels",
        "messages",
        "files",
        "forks",
        "resolutions",
    ] {
        assert_eq!(report["kinds"][kind]["imported"], 0, "{report}");
    }
    let again = entries(&everything(&app).await);
    assert_eq!(said(&again), before);
    assert_eq!(&ids(&again) - &own, ids(&entries(&first)));
}

#[tokio::test]
async fn ids_that_another_workspace_has_are_made_again() {
    let t = talkative().await;
    let first = everything(&t.app).await;
    let eve = t.app.join(&t.ada, "Eve", "admin").await;
    let own = json!({"name": "Eve Works"});
    let own = eve.post("/v1/workspaces", own).await.is(201);
    let eve = eve.in_workspace(&id(&own));
    imported(&eve, &first).await;
    let (source, again) = (entries(&first), entries(&archive(&eve, json!({})).await));
    assert_eq!(lines(&again, "forks.jsonl").len(), 1);
    assert!(ids(&again).is_disjoint(&ids(&source)));
    assert!(people(&again).is_disjoint(&people(&source)));
    // The IDs stay those of the first import.
    imported(&eve, &first).await;
    let later = entries(&archive(&eve, json!({})).await);
    assert_eq!(ids(&later), ids(&again));
    // The other workspace keeps its own.
    let own = entries(&archive(&t.ada, json!({})).await);
    assert!(ids(&own).is_subset(&ids(&source)));
    assert_eq!(lines(&own, "forks.jsonl").len(), 1);
}

#[tokio::test]
async fn an_erased_person_who_is_in_another_workspace_is_left_out() {
    let t = unlimited_team().await;
    let quill = t.app.join(&t.ada, "Quill", "admin").await;
    quill.start(&t.general, "Nine million").await;
    let first = archive(&t.ada, json!({})).await;
    let own = json!({"name": "Quill Works"});
    quill.post("/v1/workspaces", own).await.is(201);
    t.ada.erase(&quill).await;
    let report = imported(&t.ada, &first).await;
    sums(&report);
    assert_eq!(report["kinds"]["people"]["left_out"], 1, "{report}");
    let all = t.ada.get("/v1/members/placeholders").await.ok();
    let names: Vec<String> = list(&all, "/data")
        .iter()
        .map(|member| text(member, "/name"))
        .collect();
    assert!(!names.contains(&quill.name), "{names:?}");
    let again = entries(&archive(&t.ada, json!({})).await);
    assert!(
        lines(&again, "messages/")
            .iter()
            .all(|m| m["content"] != "Nine million")
    );
}

#[tokio::test]
async fn an_import_that_kept_ids_is_undone_and_can_be_made_again() {
    let t = talkative().await;
    let first = everything(&t.app).await;
    let (app, zoe) = other_server().await;
    let before = entries(&everything(&app).await);
    imported(&zoe, &first).await;
    let import = list(&zoe.get("/v1/imports").await.ok(), "/data").remove(0);
    let path = format!("/v1/imports/{}", id(&import));
    zoe.delete(&path).await.is(202);
    state(&zoe, &id(&import), "undone").await;
    let undone = entries(&everything(&app).await);
    assert_eq!(ids(&undone), ids(&before));
    assert_eq!(people(&undone), people(&before));
    imported(&zoe, &first).await;
    let again = entries(&everything(&app).await);
    assert_eq!(&ids(&again) - &ids(&before), ids(&entries(&first)));
}

#[tokio::test]
async fn agents_are_restored_with_their_files_if_their_name_is_free() {
    let t = talkative().await;
    let base = id(&t.ada.make_agent("scribe").await);
    let file = json!({"content": "The fair is on Wednesday.\n"});
    t.ada
        .put(&format!("/v1/agents/{base}/files/MEMORY.md"), file)
        .await
        .ok();
    let based = json!({"name": "critic", "display_name": "critic", "instructions": "You find mistakes.",
        "model": "claude-sonnet-4-5", "base_profile_id": base});
    t.ada.post("/v1/agents", based).await.is(201);
    let archive = archive(&t.ada, json!({})).await;
    let (_app, zoe) = other_server().await;
    let report = imported(&zoe, &archive).await;
    sums(&report);
    let n = &report["kinds"]["agents"];
    assert_eq!((&n["imported"], &n["left_out"]), (&json!(2), &json!(0)));
    let scribe = t.ada.agent("scribe").await;
    let restored = zoe.agent("scribe").await;
    assert_eq!(restored["instructions"], scribe["instructions"]);
    let memory = format!("/v1/agents/{}/files/MEMORY.md", id(&restored));
    let memory = zoe.get(&memory).await.ok();
    assert!(text(&memory, "/content").contains("Wednesday"), "{memory}");
    zoe.agent("critic").await;
    let report = imported(&zoe, &archive).await;
    assert_eq!(report["kinds"]["agents"]["imported"], 0);
}

#[tokio::test]
async fn an_imported_export_shows_nobody_more_than_before() {
    let t = talkative().await;
    let (_app, zoe) = other_server().await;
    imported(&zoe, &everything(&t.app).await).await;
    let channels = zoe.get("/v1/channels?limit=100").await.ok().to_string();
    assert!(!channels.contains("hushhush"), "{channels}");
    for hidden in ["hidden", "between"] {
        let found = zoe.get(&format!("/v1/search?q={hidden}")).await.ok();
        assert_eq!(list(&found, "/data").len(), 0, "{found}");
    }
    let shown = zoe.get("/v1/search?q=everyone").await.ok();
    assert_eq!(list(&shown, "/data").len(), 1, "{shown}");
}

#[tokio::test]
async fn the_format_of_an_export_is_detected() {
    let t = talkative().await;
    let archive = archive(&t.ada, json!({})).await;
    let (_app, zoe) = other_server().await;
    let import = ready(&zoe, &archive).await;
    let import = zoe.get(&format!("/v1/imports/{import}")).await.ok();
    assert_eq!(import["format"], "openvibe");
    let source = format!("openvibe:{}", t.ada.workspace);
    assert_eq!(import["source"], source.as_str());
}
