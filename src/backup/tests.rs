//! Damaged backups and other files: they are rejected with a reason, and nothing is left behind.

use std::{fs, io::Read as _, path::PathBuf};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use proptest::{prelude::*, sample::Index as Pick};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{AgentsAfter, Damage, Index, Manifest, Verified, restore, take, verify};
use crate::{
    corpus,
    db::{
        DatabaseUrl,
        dump::{self, Load},
    },
    storage::BlobSettings,
};

/// A directory that is deleted when the test ends.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("openvibe-backup-{}", Uuid::now_v7()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(&self.0).unwrap().next().is_none()
    }

    fn settings(&self) -> BlobSettings {
        BlobSettings {
            data_dir: self.0.clone(),
            ..BlobSettings::default()
        }
    }

    fn place(&self) -> DatabaseUrl {
        DatabaseUrl::Sqlite(self.0.join("openvibe.db"))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn check(bytes: &[u8]) -> Result<Verified, Damage> {
    let dir = Dir::new();
    let file = dir.0.join("x.ovb");
    fs::write(&file, bytes).unwrap();
    verify(&file)
}

#[test]
fn every_corpus_archive_is_valid_or_rejected_with_a_reason() {
    for case in corpus::cases("archives", "ovb") {
        let found = check(&case.bytes);
        let is_whole = case.name.starts_with("archives/whole");
        assert_eq!(found.is_ok(), is_whole, "{}", case.name);
        case.expect(&match found {
            Ok(whole) => format!(
                "whole: {:?} and {} uploads",
                whole.index.rows, whole.index.blobs
            ),
            Err(damage) => damage.to_string(),
        });
    }
}

/// Returns true if the error message is useful to someone restoring a backup.
fn is_told(damage: &Damage) -> bool {
    let text = damage.to_string();
    text.contains("backup") || text.contains("cannot be read")
}

fn unpacked(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut tar = tar::Archive::new(GzDecoder::new(bytes));
    let read = |entry: std::io::Result<tar::Entry<'_, GzDecoder<&[u8]>>>| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_str().unwrap().to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (name, bytes)
    };
    tar.entries().unwrap().map(read).collect()
}

fn packed(entries: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, bytes) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        // `append_data` rejects names that point outside of the directory, so they are written directly.
        let raw = name.as_bytes();
        let room = &mut header.as_old_mut().name;
        let len = raw.len().min(room.len());
        room[..len].copy_from_slice(&raw[..len]);
        if raw.len() > len {
            tar.append_data(&mut header, name, bytes.as_slice())
                .unwrap();
        } else {
            header.set_cksum();
            tar.append(&header, bytes.as_slice()).unwrap();
        }
    }
    tar.into_inner().unwrap().finish().unwrap()
}

/// Rebuilds the index, as someone who tampers with a backup would.
fn sealed(entries: &mut [(String, Vec<u8>)]) {
    let Some((index, rest)) = entries.split_last_mut() else {
        return;
    };
    if index.0 != "index.json" {
        return;
    }
    // A changed index is not necessarily an object, or even JSON.
    let Ok(mut told) = serde_json::from_slice::<serde_json::Map<_, _>>(&index.1) else {
        return;
    };
    let entries = rest.iter().map(|(name, bytes)| {
        serde_json::json!({"name": name, "size_bytes": bytes.len(), "sha256": hex::encode(Sha256::digest(bytes))})
    });
    told.insert("entries".to_owned(), entries.collect());
    index.1 = serde_json::Value::Object(told).to_string().into_bytes();
}

/// One change to the entries.
#[derive(Debug, Clone)]
enum Change {
    Drop(Pick),
    Swap(Pick, Pick),
    Repeat(Pick),
    Rename(Pick, &'static str),
    Empty(Pick),
    Flip(Pick, Pick),
    Cut(Pick, Pick),
}

fn change() -> impl Strategy<Value = Change> {
    let pick = any::<Pick>;
    let names = [
        "../x",
        "/x",
        "blobs/../x",
        "tables/users/000000.ndjson",
        "tables/meta/000009.ndjson",
        "index.json",
        "manifest.json",
        "blobs/a/b/0",
    ];
    prop_oneof![
        pick().prop_map(Change::Drop),
        (pick(), pick()).prop_map(|(a, b)| Change::Swap(a, b)),
        pick().prop_map(Change::Repeat),
        (pick(), prop::sample::select(names.to_vec()))
            .prop_map(|(at, name)| Change::Rename(at, name)),
        pick().prop_map(Change::Empty),
        (pick(), pick()).prop_map(|(at, byte)| Change::Flip(at, byte)),
        (pick(), pick()).prop_map(|(at, byte)| Change::Cut(at, byte)),
    ]
}

fn apply(entries: &mut Vec<(String, Vec<u8>)>, change: &Change) {
    if entries.is_empty() {
        return;
    }
    let n = entries.len();
    match change {
        Change::Drop(at) => drop(entries.remove(at.index(n))),
        Change::Swap(a, b) => entries.swap(a.index(n), b.index(n)),
        Change::Repeat(at) => {
            let entry = at.get(entries).clone();
            entries.insert(at.index(n), entry);
        }
        Change::Rename(at, name) => (*name).clone_into(&mut entries[at.index(n)].0),
        Change::Empty(at) => entries[at.index(n)].1.clear(),
        Change::Flip(at, byte) => {
            let bytes = &mut entries[at.index(n)].1;
            if !bytes.is_empty() {
                let at = byte.index(bytes.len());
                bytes[at] ^= 1;
            }
        }
        Change::Cut(at, byte) => {
            let bytes = &mut entries[at.index(n)].1;
            bytes.truncate(byte.index(bytes.len() + 1));
        }
    }
}

/// A small data directory and its backup.
async fn backed_up() -> (Dir, Vec<u8>) {
    let dir = Dir::new();
    let upload = b"an upload".repeat(100);
    let hash = hex::encode(Sha256::digest(&upload));
    let blobs = dir.0.join("blobs").join(&hash[..2]);
    fs::create_dir_all(&blobs).unwrap();
    let upload_id = Uuid::now_v7();
    fs::write(blobs.join(format!("{hash}.{upload_id}")), &upload).unwrap();
    let mut load = Load::into_file(&dir.0.join("openvibe.db"), dump::newest_version())
        .await
        .unwrap();
    let tables = load.tables().await.unwrap();
    let table = tables.iter().find(|table| table.name == "blobs").unwrap();
    let row: Vec<serde_json::Value> = table
        .columns
        .iter()
        .map(|column| match column.name.as_str() {
            "hash" => hash.clone().into(),
            "upload_id" => upload_id.to_string().into(),
            "size_bytes" => upload.len().into(),
            "store" => "file".into(),
            _ => "2026-11-20T00:00:00.000000Z".into(),
        })
        .collect();
    let lines = format!("{}\n", serde_json::json!(row));
    assert_eq!(load.insert(table, &lines).await.unwrap(), 1);
    load.finish("0123").await.unwrap();
    let (bytes, taken) = take(&dir.place(), &dir.settings(), Vec::new())
        .await
        .unwrap();
    assert_eq!((taken.blobs, taken.warnings.len()), (1, 0));
    (dir, bytes)
}

/// Restores into a new directory and returns the contents. If that fails, checks that the directory is empty and returns the error.
async fn restored(bytes: &[u8]) -> Result<(Manifest, Index), String> {
    let (from, to) = (Dir::new(), Dir::new());
    let file = from.0.join("x.ovb");
    fs::write(&file, bytes).unwrap();
    let whole = verify(&file).map_err(|damage| {
        assert!(is_told(&damage), "{damage}");
        damage.to_string()
    });
    let outcome = match whole {
        Err(e) => Err(e),
        Ok(whole) => {
            if let Err(e) = restore(
                &file,
                whole,
                &to.place(),
                &to.settings(),
                &[],
                AgentsAfter::Running,
            )
            .await
            {
                Err(format!("{e:#}"))
            } else {
                let (again, _) = take(&to.place(), &to.settings(), Vec::new()).await.unwrap();
                let whole = check(&again).unwrap();
                Ok((whole.manifest, whole.index))
            }
        }
    };
    if let Err(e) = &outcome {
        assert!(to.is_empty(), "{e}: something is left");
    }
    outcome
}

#[test]
fn a_modified_backup_is_rejected_without_leftovers_or_restores_identically() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (_dir, whole) = runtime.block_on(backed_up());
    let original = check(&whole).unwrap().index;
    let (manifest, _) = runtime.block_on(restored(&whole)).unwrap();
    let parts = unpacked(&whole);

    // Changes to the bytes of the file.
    let edits = prop::collection::vec((any::<Pick>(), 0..8_u8), 1..3);
    proptest!(corpus::config(128), |(edits in edits, cut in prop::option::of(any::<Pick>()))| {
        let mut bytes = whole.clone();
        for (at, bit) in edits {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        match check(&bytes) {
            Ok(found) => prop_assert_eq!(&found.index, &original),
            Err(damage) => prop_assert!(is_told(&damage), "{}", damage),
        }
    });

    // Changes to entries, with the original index or a rebuilt one.
    let changes = (prop::collection::vec(change(), 1..4), any::<bool>());
    proptest!(corpus::config(24), |((changes, is_sealed) in changes)| {
        let mut entries = parts.clone();
        for change in &changes {
            apply(&mut entries, change);
        }
        if is_sealed {
            sealed(&mut entries);
        }
        match runtime.block_on(restored(&packed(&entries))) {
            Ok((found, _)) => prop_assert_eq!(found.migration, manifest.migration),
            Err(e) => prop_assert!(!e.is_empty()),
        }
        if !is_sealed && entries != parts {
            let found = check(&packed(&entries));
            // The index has no checksum of its own; only its counts are verified.
            prop_assert!(found.is_err() || entries[..entries.len() - 1] == parts[..parts.len() - 1]);
        }
    });
}
