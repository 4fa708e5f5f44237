//! Restoring a backup into an empty place. Until it is whole nothing of it counts: a file is filled under another name, a
//! `PostgreSQL` database in one transaction.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use uuid::Uuid;

use super::{
    Manifest,
    format::{Index, Reader, Verified, table_of},
};
use crate::db::{
    Place,
    dump::{Load, Table},
};

/// What was restored.
#[derive(Debug, Clone)]
pub struct Restored {
    pub manifest: Manifest,
    /// Rows of each table.
    pub rows: BTreeMap<String, u64>,
    pub blobs: u64,
}

/// Where a restore works before it counts.
struct Staging {
    /// `None` with `PostgreSQL`, where the transaction is the place.
    database: Option<(PathBuf, PathBuf)>,
    blobs: PathBuf,
}

impl Drop for Staging {
    /// What is left of one that failed; nothing, when it went well.
    fn drop(&mut self) {
        if let Some((path, _)) = &self.database {
            drop(fs::remove_file(path));
        }
        drop(fs::remove_dir_all(&self.blobs));
    }
}

fn holds_files(dir: &Path) -> io::Result<bool> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e),
    };
    for entry in entries {
        let path = entry?.path();
        if !path.is_dir() || holds_files(&path)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Refuses a place that holds data.
fn require_empty(place: &Place, data_dir: &Path) -> anyhow::Result<()> {
    let Place::Sqlite(path) = place else {
        return Ok(());
    };
    for suffix in ["", "-wal"] {
        let mut name = path.clone().into_os_string();
        name.push(suffix);
        let file = PathBuf::from(name);
        anyhow::ensure!(
            !file.exists(),
            "{} exists: restore into an empty directory, or move the old data away",
            file.display()
        );
    }
    let blobs = data_dir.join("blobs");
    anyhow::ensure!(
        !holds_files(&blobs)?,
        "{} holds uploads: restore into an empty directory, or move the old data away",
        blobs.display()
    );
    Ok(())
}

/// Access in a backup that a restore does not bring back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Sessions,
    ApiKeys,
}

impl Access {
    fn table(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::ApiKeys => "api_keys",
        }
    }
}

/// Restores a backup that `verify` found whole, without the access in `ended`. The caller holds the lock on `data_dir`.
///
/// # Errors
/// When the place is not empty, or the backup damaged, newer, or not of the tables that its version has. Nothing is changed then.
pub async fn restore(
    file: &Path,
    whole: Verified,
    place: &Place,
    data_dir: &Path,
    ended: &[Access],
) -> anyhow::Result<Restored> {
    let Verified { manifest, index } = whole;
    require_empty(place, data_dir)?;
    let staging = Staging {
        database: match place {
            Place::Sqlite(path) => {
                let mut name = path.clone().into_os_string();
                name.push(".restoring");
                Some((name.into(), path.clone()))
            }
            Place::Postgres(_) => None,
        },
        blobs: data_dir.join("blobs.restoring"),
    };
    // Of an earlier one that was killed.
    drop(fs::remove_dir_all(&staging.blobs));
    let mut load = match (place, &staging.database) {
        (Place::Postgres(url), _) => Load::into_postgres(url, manifest.migration).await?,
        (_, Some((path, _))) => {
            drop(fs::remove_file(path));
            if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
                fs::create_dir_all(dir)?;
            }
            Load::into_file(path, manifest.migration).await?
        }
        (Place::Sqlite(_), None) => anyhow::bail!("there is no place to restore to"),
    };
    let mut rows = fill(file, &manifest, &index, &mut load, &staging).await?;
    for access in ended {
        load.clear(access.table()).await?;
        rows.remove(access.table());
    }
    load.finish(&Uuid::now_v7().simple().to_string()).await?;
    publish(&staging, data_dir)?;
    Ok(Restored {
        manifest,
        rows,
        blobs: index.blobs,
    })
}

async fn fill(
    file: &Path,
    manifest: &Manifest,
    index: &Index,
    load: &mut Load,
    staging: &Staging,
) -> anyhow::Result<BTreeMap<String, u64>> {
    let tables: HashMap<String, Table> = load
        .tables()
        .await?
        .into_iter()
        .map(|table| (table.name.clone(), table))
        .collect();
    for table in &manifest.tables {
        let known = tables.get(&table.name);
        let fits = known.is_some_and(|known| {
            table.columns.len() == known.columns.len()
                && table
                    .columns
                    .iter()
                    .all(|column| known.columns.contains(column))
        });
        anyhow::ensure!(
            fits,
            "the backup's table {} is not as version {} has it",
            table.name,
            manifest.migration
        );
    }
    let mut rows = BTreeMap::new();
    let mut reader = Reader::open(file)?;
    for (nth, entry) in reader.entries()?.enumerate() {
        let (name, bytes) = entry?;
        // It may have been changed since it was looked at.
        anyhow::ensure!(
            index.holds(nth, &name, &bytes),
            "{name} was changed while it was restored"
        );
        if let Some(table) = table_of(&name) {
            let table = manifest
                .tables
                .iter()
                .find(|known| known.name == table)
                .with_context(|| format!("{name} belongs to no table"))?;
            let text = std::str::from_utf8(&bytes).with_context(|| name.clone())?;
            let n = load
                .insert(table, text)
                .await
                .with_context(|| name.clone())?;
            *rows.entry(table.name.clone()).or_default() += n;
        } else if let Some(blob) = name.strip_prefix("blobs/") {
            put_blob(load, staging, blob, &bytes).await?;
        }
    }
    let expected: BTreeMap<_, _> = index.rows.iter().filter(|(_, n)| **n > 0).collect();
    anyhow::ensure!(
        expected == rows.iter().collect(),
        "not every row came in: {expected:?} were expected, {rows:?} are there"
    );
    Ok(rows)
}

/// A part of an upload: `HASH/UPLOAD/N`.
async fn put_blob(
    load: &mut Load,
    staging: &Staging,
    name: &str,
    bytes: &[u8],
) -> anyhow::Result<()> {
    let parts: Vec<&str> = name.split('/').collect();
    let [hash, upload, n] = parts.as_slice() else {
        anyhow::bail!("blobs/{name} is not understood");
    };
    let is_hash = hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit());
    anyhow::ensure!(is_hash, "blobs/{name} is not understood");
    if staging.database.is_none() {
        let upload = Uuid::parse_str(upload)?;
        return Ok(load.put_chunk(upload, n.parse()?, bytes).await?);
    }
    let dir = staging.blobs.join(&hash[..2]);
    fs::create_dir_all(&dir)?;
    let mut file = fs::File::options()
        .create(true)
        .append(true)
        .open(dir.join(hash))?;
    file.write_all(bytes)?;
    Ok(file.sync_all()?)
}

fn sync_directory(dir: &Path) -> io::Result<()> {
    fs::File::open(dir)?.sync_all()
}

/// Moves what was restored to its place, the database last: where that is, everything is.
fn publish(staging: &Staging, data_dir: &Path) -> anyhow::Result<()> {
    let Some((from, to)) = &staging.database else {
        return Ok(());
    };
    let blobs = data_dir.join("blobs");
    if staging.blobs.is_dir() {
        for folder in fs::read_dir(&staging.blobs)? {
            sync_directory(&folder?.path())?;
        }
        sync_directory(&staging.blobs)?;
        if blobs.is_dir() {
            // Empty folders only, as was looked at.
            fs::remove_dir_all(&blobs)?;
        }
        fs::rename(&staging.blobs, &blobs)?;
        sync_directory(data_dir)?;
    }
    fs::File::open(from)?.sync_all()?;
    fs::rename(from, to)?;
    if let Some(dir) = to.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        sync_directory(dir)?;
    }
    Ok(())
}
