//! Imports of archives in a directory of the server, without an upload.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    imports::{OFF, messages, state, with_content, zipped},
    support::{Person, Team, id, number, team_with, text, within},
};

/// A directory that is removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        let name = format!("openvibe-imports-{}", uuid::Uuid::now_v7());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// An export of Slack that is larger than a piece.
fn archive() -> Vec<u8> {
    // Cannot be compressed.
    let noise = (0_u64..(17 << 17)).flat_map(|n| {
        let mixed = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed ^ (mixed >> 29))
            .wrapping_mul(0xBF58_476D_1CE4_E5B9)
            .to_le_bytes()
    });
    let said =
        json!([{"type": "message", "user": "U1", "ts": "1620000001.000100", "text": "From disk"}]);
    zipped(&[
        (
            "users.json",
            bytes(
                &json!([{"id": "U1", "team_id": "T1", "name": "una", "profile": {"real_name": "Una"}}]),
            ),
        ),
        (
            "channels.json",
            bytes(
                &json!([{"id": "C1", "name": "general", "created": 1_600_000_000, "creator": "U1", "members": ["U1"]}]),
            ),
        ),
        ("general/2021-05-03.json", bytes(&said)),
        ("bulk.bin", noise.collect()),
    ])
}

async fn team_with_directory(directory: &Directory) -> Team {
    team_with(&[("IMPORT_DIR", directory.path().to_str().unwrap()), OFF]).await
}

async fn refused(by: &Person, path: &str, expected: &str) {
    let reply = by.post("/v1/imports", json!({"path": path})).await;
    assert_eq!(reply.status, 422, "{path}");
    assert!(reply.text.contains(expected), "{path}: {}", reply.text);
}

#[tokio::test]
async fn an_archive_in_the_directory_needs_no_upload() {
    let directory = Directory::new();
    let whole = archive();
    assert!(whole.len() > 16 << 20);
    fs::write(directory.path().join("slack.zip"), &whole).unwrap();
    let t = team_with_directory(&directory).await;
    let made = t
        .ada
        .post("/v1/imports", json!({"path": "slack.zip"}))
        .await
        .is(201);
    assert_eq!(made["path"], "slack.zip");
    let import = id(&made);
    let ready = state(&t.ada, &import, "ready").await;
    assert_eq!(
        (number(&ready, "/received"), text(&ready, "/format")),
        (i64::try_from(whole.len()).unwrap(), "slack".to_owned())
    );
    // It was copied: the file is not needed any longer.
    fs::remove_file(directory.path().join("slack.zip")).unwrap();
    t.ada
        .act(&format!("/v1/imports/{import}/start"))
        .await
        .is(202);
    state(&t.ada, &import, "done").await;
    with_content(&messages(&t.ada, &t.general).await, "From disk");
    assert_eq!(t.app.place.count("import_pieces").await, 0);
}

#[tokio::test]
async fn only_files_of_the_directory_are_read_and_only_for_admins_of_the_server() {
    let directory = Directory::new();
    let inside = directory.path().join("inside");
    fs::create_dir(&inside).unwrap();
    fs::write(directory.path().join("secret.zip"), b"secret").unwrap();
    fs::write(inside.join("notes.zip"), b"not a zip").unwrap();
    std::os::unix::fs::symlink("../secret.zip", inside.join("link.zip")).unwrap();
    let settings = [
        ("IMPORT_DIR", inside.to_str().unwrap()),
        OFF,
        ("SIGNUP", "open"),
    ];
    let t = team_with(&settings).await;
    let secret = directory.path().join("secret.zip");
    for path in [
        "../secret.zip",
        "link.zip",
        secret.to_str().unwrap(),
        "missing.zip",
        ".",
        "",
    ] {
        refused(&t.ada, path, "has no file").await;
    }
    let form = json!({"path": "notes.zip"});
    t.bo.post("/v1/imports", form.clone()).await.refused(403);
    let second = t.bo.post("/v1/workspaces", json!({"name": "Second"})).await;
    let bo = t.bo.in_workspace(&id(&second.is(201)));
    refused(&bo, "notes.zip", "admins of the server").await;
    // A file that is not an archive fails with the reason.
    let made = t.ada.post("/v1/imports", form).await.is(201);
    let path = format!("/v1/imports/{}", id(&made));
    let failed = within("the import", async {
        loop {
            let import = t.ada.get(&path).await.ok();
            if import["state"] == "failed" {
                return import;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert!(failed["problem"].is_string(), "{failed}");
    let nowhere = team_with(&[OFF]).await;
    refused(&nowhere.ada, "notes.zip", "is not set").await;
}
