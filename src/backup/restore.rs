//! Restores a backup into an empty target. A restore takes effect only when it is complete: a `SQLite` file is filled
//! under another name, a `PostgreSQL` database in one transaction.

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
    DatabaseUrl,
    dump::{self, Load, Table},
};
use crate::storage::{
    Blob, BlobSettings, BlobStore, Bucket, LOCAL_BYTES_MAX, directory, directory::holds_files,
    is_hash,
};

/// Contents of a restored backup.
#[derive(Debug, Clone)]
pub struct Restored {
    pub manifest: Manifest,
    /// Number of rows per table.
    pub rows: BTreeMap<String, u64>,
    pub blobs: u64,
    /// Number of uploads that were restored to the configured bucket; `None` if the tables of this version cannot refer
    /// to a bucket.
    pub in_bucket: Option<usize>,
}

/// Temporary location of a restore until it takes effect.
struct Staging {
    /// `None` for `PostgreSQL`, where a transaction is used instead.
    database: Option<(PathBuf, PathBuf)>,
    blobs: PathBuf,
}

impl Drop for Staging {
    /// Removes leftovers of a failed restore. After a successful restore, there are none.
    fn drop(&mut self) {
        if let Some((path, _)) = &self.database {
            drop(fs::remove_file(path));
        }
        drop(fs::remove_dir_all(&self.blobs));
    }
}

/// Fails if the target contains data.
fn require_empty(place: &DatabaseUrl, data_dir: &Path) -> anyhow::Result<()> {
    let DatabaseUrl::Sqlite(path) = place else {
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
        "{} contains uploads: restore into an empty directory, or move the old data away",
        blobs.display()
    );
    Ok(())
}

/// Credentials that a restore can omit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Sessions,
    ApiKeys,
}

/// What agents do after a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentsAfter {
    /// Nothing runs by itself until somebody starts it.
    Asleep,
    /// Interrupted tasks and schedules continue, for moves to another database or machine.
    Running,
}

impl Access {
    fn table(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::ApiKeys => "api_keys",
        }
    }
}

impl Staging {
    fn new(place: &DatabaseUrl, data_dir: &Path) -> Self {
        Self {
            database: match place {
                DatabaseUrl::Sqlite(path) => {
                    let mut name = path.clone().into_os_string();
                    name.push(".restoring");
                    Some((name.into(), path.clone()))
                }
                DatabaseUrl::Postgres(_) => None,
            },
            blobs: data_dir.join("blobs.restoring"),
        }
    }
}

/// Opens the database into which the backup is restored.
async fn open_target(place: &DatabaseUrl, staging: &Staging, schema: i64) -> anyhow::Result<Load> {
    Ok(match (place, &staging.database) {
        (DatabaseUrl::Postgres(url), _) => Load::into_postgres(url, schema).await?,
        (_, Some((path, _))) => {
            drop(fs::remove_file(path));
            if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
                fs::create_dir_all(dir)?;
            }
            Load::into_file(path, schema).await?
        }
        (DatabaseUrl::Sqlite(_), None) => anyhow::bail!("no restore target is configured"),
    })
}

/// Restores a verified backup, except for the credentials in `ended`. The caller must hold the lock on `data_dir`.
///
/// # Errors
/// If the target is not empty, or if the backup is damaged, newer than this version, or does not match the tables of
/// its version. Nothing is changed in these cases.
pub async fn restore(
    file: &Path,
    whole: Verified,
    place: &DatabaseUrl,
    settings: &BlobSettings,
    ended: &[Access],
    agents: AgentsAfter,
) -> anyhow::Result<Restored> {
    let data_dir = settings.data_dir.as_path();
    let Verified { manifest, index } = whole;
    anyhow::ensure!(
        manifest.migration >= dump::oldest_version(),
        "the backup was created by a development version of OpenVibe (migration {}), which cannot be restored",
        manifest.migration
    );
    require_empty(place, data_dir)?;
    let bucket = settings.open_bucket().await?;
    let staging = Staging::new(place, data_dir);
    // Leftovers of an earlier restore that was killed.
    drop(fs::remove_dir_all(&staging.blobs));
    let mut load = open_target(place, &staging, manifest.migration).await?;
    let tables = load.tables().await?;
    let mut bucket = bucket.map(|bucket| BucketTarget::new(bucket, &index, &staging));
    let filled = async {
        let mut rows = fill(
            file,
            &manifest,
            &index,
            &tables,
            &mut load,
            &staging,
            bucket.as_mut(),
        )
        .await?;
        for access in ended {
            load.clear(access.table()).await?;
            rows.remove(access.table());
        }
        let stored = bucket.as_ref().map_or(&[][..], |bucket| &bucket.stored);
        let url = settings.bucket.as_ref().map(ToString::to_string);
        load.place_blobs(stored, url.as_deref()).await?;
        // The backup may be that of a copy that slept.
        load.execute("delete from meta where key = 'asleep'")
            .await?;
        if agents == AgentsAfter::Asleep {
            load.put_to_sleep().await?;
        }
        anyhow::Ok(rows)
    };
    let filled = filled.await;
    if let (Err(_), Some(bucket)) = (&filled, &bucket) {
        bucket.discard().await;
    }
    let rows = filled?;
    load.finish(&Uuid::now_v7().simple().to_string()).await?;
    publish(&staging, data_dir)?;
    Ok(Restored {
        manifest,
        rows,
        blobs: index.blobs,
        in_bucket: bucket.map(|bucket| bucket.stored.len()),
    })
}

/// Stores large uploads in the bucket, each one once its last piece has been read.
struct BucketTarget {
    bucket: Bucket,
    /// Sizes of the uploads for the bucket, by `HASH/UPLOAD`.
    sizes: HashMap<String, u64>,
    /// File with the pieces of the upload that is being read.
    spool: PathBuf,
    spooled_bytes: u64,
    /// Objects stored by this restore. They get new upload IDs, because objects with the IDs in the backup may still exist.
    stored: Vec<Blob>,
}

impl BucketTarget {
    fn new(bucket: Bucket, index: &Index, staging: &Staging) -> Self {
        let mut sizes = HashMap::new();
        for (name, size_bytes) in index.sizes() {
            let blob = name
                .strip_prefix("blobs/")
                .and_then(|name| name.rsplit_once('/'));
            if let Some((key, _)) = blob {
                *sizes.entry(key.to_owned()).or_default() += size_bytes;
            }
        }
        sizes.retain(|_, size_bytes| *size_bytes > LOCAL_BYTES_MAX);
        Self {
            bucket,
            sizes,
            spool: staging.blobs.join("spool"),
            spooled_bytes: 0,
            stored: Vec::new(),
        }
    }

    /// Adds a piece of an upload, named `HASH/UPLOAD/N`; returns false if the upload does not belong in the bucket.
    async fn put(&mut self, name: &str, bytes: &[u8]) -> anyhow::Result<bool> {
        let key = name.rsplit_once('/').map_or(name, |(key, _)| key);
        let Some(size_bytes) = self.sizes.get(key).copied() else {
            return Ok(false);
        };
        let (hash, _) =
            Blob::parse_key(key).with_context(|| format!("blobs/{name} is not a valid name"))?;
        append(&self.spool, bytes)?;
        self.spooled_bytes += bytes.len() as u64;
        if self.spooled_bytes == size_bytes {
            let blob = Blob {
                hash: hash.to_owned(),
                upload_id: Uuid::now_v7(),
                store: BlobStore::S3,
            };
            let stored = self
                .bucket
                .put_file(&blob.key(), &self.spool, size_bytes)
                .await;
            stored.with_context(|| format!("cannot write to {}", self.bucket.url()))?;
            self.stored.push(blob);
            fs::remove_file(&self.spool)?;
            self.spooled_bytes = 0;
        }
        Ok(true)
    }

    /// Deletes the objects of a failed restore. Objects that cannot be deleted now have no row, so a server deletes them
    /// later.
    async fn discard(&self) {
        for blob in &self.stored {
            if self.bucket.delete(&blob.key()).await.is_err() {
                return;
            }
        }
    }
}

/// Appends to a file, creating it and its directory first if necessary.
fn append(path: &Path, bytes: &[u8]) -> io::Result<fs::File> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let mut file = fs::File::options().create(true).append(true).open(path)?;
    file.write_all(bytes)?;
    Ok(file)
}

/// # Errors
/// If a table in the backup does not match the schema of the backup's version.
fn check_tables(manifest: &Manifest, tables: &[Table]) -> anyhow::Result<()> {
    let tables: HashMap<&str, &Table> = tables
        .iter()
        .map(|table| (table.name.as_str(), table))
        .collect();
    for table in &manifest.tables {
        let known = tables.get(table.name.as_str());
        let fits = known.is_some_and(|known| {
            let is_known = |column| known.columns.contains(column);
            table.columns.iter().all(is_known) && table.columns.len() == known.columns.len()
        });
        anyhow::ensure!(
            fits,
            "the backup's table {} does not match that of version {}",
            table.name,
            manifest.migration
        );
    }
    Ok(())
}

async fn fill(
    file: &Path,
    manifest: &Manifest,
    index: &Index,
    tables: &[Table],
    load: &mut Load,
    staging: &Staging,
    mut bucket: Option<&mut BucketTarget>,
) -> anyhow::Result<BTreeMap<String, u64>> {
    check_tables(manifest, tables)?;
    let mut rows = BTreeMap::new();
    let mut reader = Reader::open(file)?;
    for (nth, entry) in reader.entries()?.enumerate() {
        let (name, bytes) = entry?;
        // The file may have changed since it was verified.
        anyhow::ensure!(
            index.holds(nth, &name, &bytes),
            "{name} was changed during the restore"
        );
        if let Some(table) = table_of(&name) {
            let table = manifest
                .tables
                .iter()
                .find(|known| known.name == table)
                .with_context(|| format!("{name} does not belong to a table"))?;
            let text = std::str::from_utf8(&bytes).with_context(|| name.clone())?;
            let n = load.insert(table, text).await;
            *rows.entry(table.name.clone()).or_default() += n.with_context(|| name.clone())?;
        } else if let Some(blob) = name.strip_prefix("blobs/") {
            let is_stored = match &mut bucket {
                Some(bucket) => bucket.put(blob, &bytes).await?,
                None => false,
            };
            if !is_stored {
                put_blob(load, staging, blob, &bytes).await?;
            }
        }
    }
    let expected: BTreeMap<_, _> = index.rows.iter().filter(|(_, n)| **n > 0).collect();
    anyhow::ensure!(
        expected == rows.iter().collect(),
        "some rows are missing: expected {expected:?}, restored {rows:?}"
    );
    Ok(rows)
}

/// Restores a chunk of an upload; `name` is `HASH/UPLOAD/N`.
async fn put_blob(
    load: &mut Load,
    staging: &Staging,
    name: &str,
    bytes: &[u8],
) -> anyhow::Result<()> {
    let parts: Vec<&str> = name.split('/').collect();
    let [hash, upload, n] = parts.as_slice() else {
        anyhow::bail!("blobs/{name} is not a valid name");
    };
    anyhow::ensure!(is_hash(hash), "blobs/{name} is not a valid name");
    let upload = Uuid::parse_str(upload)?;
    if staging.database.is_none() {
        // An empty upload has no chunks.
        if !bytes.is_empty() {
            load.put_chunk(upload, n.parse()?, bytes).await?;
        }
        return Ok(());
    }
    let file = append(&directory::path_of(&staging.blobs, hash, upload), bytes)?;
    Ok(file.sync_all()?)
}

fn sync_directory(dir: &Path) -> io::Result<()> {
    fs::File::open(dir)?.sync_all()
}

/// Moves the restored data to its final location. The database is moved last, so that once it is in place, everything is.
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
            // Contains only empty directories, as checked earlier.
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
