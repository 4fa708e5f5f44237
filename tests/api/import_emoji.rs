//! Custom emoji of archives.

use serde_json::{Value, json};

use crate::{
    emoji::{GIF, PNG, add_emoji, emoji_names},
    exports::{archive, entries, lines},
    imports::{OFF, imported, messages, state, sums, unlimited_team, with_content, zipped},
    support::{Person, TestApp, id, list, text},
};

async fn other_server() -> (TestApp, Person) {
    let app = TestApp::with(&[OFF]).await;
    let zoe = app.founder("Zoe").await;
    (app, zoe)
}

async fn counts(app: &TestApp) -> Vec<i64> {
    let mut all = Vec::new();
    for table in ["emoji", "files", "users", "imported"] {
        all.push(app.place.count(table).await);
    }
    all
}

/// Name and creator's name of each emoji of an archive.
fn shown(archive: &[u8]) -> Vec<(String, String)> {
    let entries = entries(archive);
    let people = lines(&entries, "people.jsonl");
    let emoji = lines(&entries, "emoji.jsonl");
    let name = |user: &Value| {
        let found = people.iter().find(|person| person["user_id"] == *user);
        text(found.unwrap(), "/name")
    };
    emoji
        .iter()
        .map(|emoji| {
            let picture = format!("files/{}/", text(emoji, "/file_id"));
            assert!(entries.keys().any(|entry| entry.starts_with(&picture)));
            (text(emoji, "/name"), name(&emoji["created_by"]))
        })
        .collect()
}

#[tokio::test]
async fn emoji_of_an_export_are_restored_once_and_undone() {
    let t = unlimited_team().await;
    add_emoji(&t.bo, "party-parrot", GIF).await;
    let acme = add_emoji(&t.ada, "acme", PNG).await;
    let form = json!({"name": "acme2", "file_id": acme["file_id"]});
    t.ada.post("/v1/emoji", form).await.is(201);
    let thread = t.bo.thread(&t.general, "We did it :acme:").await;
    let message = id(&t.bo.messages(&thread).await[0]);
    let reaction = format!("/v1/messages/{message}/reactions/:party-parrot:");
    t.ada.put(&reaction, json!({})).await.is(200);
    let first = archive(&t.ada, json!({})).await;

    let (app, zoe) = other_server().await;
    let before = counts(&app).await;
    let report = imported(&zoe, &first).await;
    sums(&report);
    assert_eq!(report["kinds"]["emoji"]["imported"], 3, "{report}");
    assert_eq!(emoji_names(&zoe).await, ["acme", "acme2", "party-parrot"]);
    for emoji in list(&zoe.get("/v1/emoji").await.ok(), "/data") {
        assert_eq!(zoe.get(&text(&emoji, "/url")).await.status, 200);
    }
    let general = id(&zoe.channel("general").await);
    let done = with_content(&messages(&zoe, &general).await, "We did it");
    assert_eq!(done["reactions"][0]["emoji"], ":party-parrot:");
    assert_eq!(shown(&archive(&zoe, json!({})).await), shown(&first));

    // Again: nothing new, and a deleted emoji stays deleted.
    zoe.delete("/v1/emoji?name=acme2").await.is(204);
    let again = imported(&zoe, &first).await;
    sums(&again);
    assert_eq!(again["kinds"]["emoji"]["existing"], 3, "{again}");
    assert_eq!(emoji_names(&zoe).await, ["acme", "party-parrot"]);

    for import in list(&zoe.get("/v1/imports").await.ok(), "/data") {
        let import = id(&import);
        zoe.delete(&format!("/v1/imports/{import}")).await.is(202);
        state(&zoe, &import, "undone").await;
    }
    assert!(emoji_names(&zoe).await.is_empty());
    // The picture of the emoji that was deleted here waits for the cleanup.
    let after = counts(&app).await;
    assert_eq!((after[0], after[2]), (before[0], before[2]), "{after:?}");
    let report = imported(&zoe, &first).await;
    assert_eq!(report["kinds"]["emoji"]["imported"], 3, "{report}");
}

/// An export of this program with these emoji, each with a picture.
fn export(emoji: &[(&str, &[u8])]) -> Vec<u8> {
    let manifest =
        json!({"format": "openvibe", "version": 1, "workspace": {"id": "ws_of_a_stranger"}});
    let mut listed = String::new();
    let mut all = vec![
        (
            "manifest.json".to_owned(),
            manifest.to_string().into_bytes(),
        ),
        ("channels.jsonl".to_owned(), Vec::new()),
    ];
    for (n, (name, picture)) in emoji.iter().enumerate() {
        let line = json!({"name": name, "file_id": format!("f{n}"), "created_by": "nobody"});
        listed.push_str(&line.to_string());
        listed.push('\n');
        all.push((format!("files/f{n}/../../picture"), picture.to_vec()));
    }
    listed
        .push_str("{\"name\": \"lost\", \"file_id\": \"f99\"}\n[1]\n{}\n{\"name\": 7}\nnot JSON\n");
    all.push(("emoji.jsonl".to_owned(), listed.into_bytes()));
    let all: Vec<(&str, Vec<u8>)> = all
        .iter()
        .map(|(name, bytes)| (name.as_str(), bytes.clone()))
        .collect();
    zipped(&all)
}

#[tokio::test]
async fn hostile_emoji_are_left_out_with_a_reason() {
    let t = unlimited_team().await;
    add_emoji(&t.bo, "taken", PNG).await;
    let huge = [&PNG[..16], b"\0\0\x75\x30\0\0\x75\x30\x08\x06\0\0\0"].concat();
    let large = [PNG, vec![1; 300 << 10].as_slice()].concat();
    let archive = export(&[
        ("good", PNG),
        ("wave", PNG),
        ("taken", GIF),
        ("../up", PNG),
        ("script", b"<svg onload='alert(1)'/>"),
        ("empty", b""),
        ("huge", &huge),
        ("large", &large),
        ("good", GIF),
    ]);
    let report = imported(&t.ada, &archive).await;
    sums(&report);
    let n = &report["kinds"]["emoji"];
    let seen = (&n["read"], &n["imported"], &n["existing"], &n["left_out"]);
    let expected = (&json!(10), &json!(1), &json!(1), &json!(8));
    assert_eq!(seen, expected, "{report}");
    assert_eq!(emoji_names(&t.bo).await, ["good", "taken"]);
    let problems = report["problems"].to_string();
    assert!(problems.contains("emoji.jsonl line"), "{problems}");
    let all = t.bo.get("/v1/emoji").await.ok();
    for emoji in list(&all, "/data") {
        let picture = t.bo.get(&text(&emoji, "/url")).await;
        assert_eq!(picture.status, 200);
        assert!(picture.text.contains("PNG"), "the first picture stays");
    }
}
