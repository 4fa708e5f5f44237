//! Creates a backup while the server keeps running.

use std::io::{self, Read, Seek, Write};

use anyhow::Context;
use sha2::{Digest, Sha256};

use super::format::{Manifest, Writer};
use crate::{
    db::{
        DatabaseUrl, DbError, Engine,
        dump::{BlobRow, Dump},
    },
    storage::{BUCKET_META_KEY, Blob, BlobSettings, BlobStore, Bucket, directory},
    time::Timestamp,
};

/// Maximum size of an entry with rows.
const ROWS_BYTES: usize = 2 * 1024 * 1024;
/// Maximum size of an entry with a chunk of an upload; the same as for chunks in the database.
const CHUNK_BYTES: u64 = 1024 * 1024;
/// Maximum number of stores that are tried for an upload that is moved during the backup.
const PLACES_MAX: usize = 4;

/// Contents of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    pub tables: usize,
    pub rows: u64,
    pub blobs: u64,
    /// Warnings about individual uploads.
    pub warnings: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
enum TakeError {
    #[error(transparent)]
    Db(#[from] DbError),
    #[error("cannot write the backup: {0}")]
    Io(#[from] io::Error),
}

/// Writes a consistent snapshot of a database, with the uploads that it refers to, to `out`.
///
/// # Errors
/// If the database cannot be read or `out` cannot be written.
pub async fn take<W: Write>(
    place: &DatabaseUrl,
    settings: &BlobSettings,
    out: W,
) -> anyhow::Result<(W, Taken)> {
    let mut dump = Dump::open(place).await?;
    let tables = dump.tables().await?;
    let engine = match dump.engine() {
        Engine::Sqlite => "sqlite",
        Engine::Postgres => "postgres",
    };
    let manifest = Manifest::new(
        dump.version().await?,
        engine,
        Timestamp::now().to_text(),
        dump.meta("epoch").await?,
        tables.clone(),
    );
    let mut writer = Writer::begin(out, &manifest)?;
    let (mut warnings, mut bucket) = (Vec::new(), None);
    // Uploads come first, because cleanup keeps removing unreferenced ones in the meantime.
    if tables.iter().any(|table| table.name == "blobs") {
        let bucket_url = dump.meta(BUCKET_META_KEY).await?;
        for row in dump.blobs().await? {
            let source = Source {
                place,
                settings,
                bucket_url: bucket_url.clone(),
                bucket: &mut bucket,
            };
            let mut pieces = Pieces {
                source,
                blob: row.blob.clone(),
                size_bytes: row.size_bytes.unsigned_abs(),
                file: None,
                newer: None,
                is_deleted: false,
            };
            copy_blob(&mut dump, &row, &mut pieces, &mut writer, &mut warnings).await?;
        }
    }
    for table in &tables {
        let (mut rows, mut n, mut part) = (String::new(), 0, 0);
        dump.each_row(table, |line| {
            rows.push_str(&line);
            rows.push('\n');
            n += 1;
            if rows.len() >= ROWS_BYTES {
                writer.add(&part_name(&table.name, part), rows.as_bytes())?;
                part += 1;
                rows.clear();
            }
            Ok::<_, TakeError>(())
        })
        .await?;
        if !rows.is_empty() {
            writer.add(&part_name(&table.name, part), rows.as_bytes())?;
        }
        writer.count_rows(&table.name, n);
    }
    let (out, index) = writer.finish()?;
    let taken = Taken {
        tables: tables.len(),
        rows: index.rows.values().sum(),
        blobs: index.blobs,
        warnings,
    };
    Ok((out, taken))
}

fn part_name(table: &str, part: usize) -> String {
    format!("tables/{table}/{part:06}.ndjson")
}

fn chunk_name(blob: &Blob, n: u64) -> String {
    format!("blobs/{}/{}/{n:06}", blob.hash, blob.upload_id)
}

/// Locations in which uploads are stored.
struct Source<'a> {
    place: &'a DatabaseUrl,
    settings: &'a BlobSettings,
    bucket_url: Option<String>,
    /// The bucket; opened when the first upload that is stored in it is read.
    bucket: &'a mut Option<Bucket>,
}

/// Reads an upload piece by piece, even if it is moved in the meantime.
struct Pieces<'a> {
    source: Source<'a>,
    blob: Blob,
    size_bytes: u64,
    file: Option<std::fs::File>,
    /// A newer state of the database, read after the upload was moved.
    newer: Option<Dump>,
    /// True if the upload was deleted after the snapshot, together with the last row that referred
    /// to it.
    is_deleted: bool,
}

impl Pieces<'_> {
    /// Reads the `n`th piece. Returns `None` if its bytes are missing.
    async fn read(&mut self, snapshot: &mut Dump, n: u64) -> anyhow::Result<Option<Vec<u8>>> {
        for _ in 0..PLACES_MAX {
            let dump = self.newer.as_mut().unwrap_or(&mut *snapshot);
            let piece = match self.blob.store {
                BlobStore::Db => {
                    let n = i64::try_from(n).unwrap_or(i64::MAX);
                    dump.chunk(self.blob.upload_id, n).await?
                }
                BlobStore::File => self.read_file(n)?,
                BlobStore::S3 => self.read_object(n).await?,
            };
            if let Some(piece) = piece.filter(|piece| !piece.is_empty()) {
                return Ok(Some(piece));
            }
            let mut newer = Dump::open(self.source.place).await?;
            let found = newer.find_blob(&self.blob.hash).await?;
            self.is_deleted = found.is_none();
            match found {
                Some(found) if found != self.blob => {
                    self.blob = found;
                    self.source.bucket_url = newer.meta(BUCKET_META_KEY).await?;
                    (self.file, self.newer) = (None, Some(newer));
                }
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    fn read_file(&mut self, n: u64) -> io::Result<Option<Vec<u8>>> {
        if self.file.is_none() {
            let dir = self.source.settings.data_dir.join("blobs");
            self.file = directory::open(&dir, &self.blob)?;
            if let Some(file) = &mut self.file {
                file.seek(io::SeekFrom::Start(n * CHUNK_BYTES))?;
            }
        }
        let Some(file) = &mut self.file else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        file.take(CHUNK_BYTES).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    async fn read_object(&mut self, n: u64) -> anyhow::Result<Option<Vec<u8>>> {
        let source = &mut self.source;
        let bucket = match source.bucket.take() {
            Some(bucket) => bucket,
            None => source.settings.known_bucket(source.bucket_url.as_deref())?,
        };
        let bucket = &*source.bucket.insert(bucket);
        let range = n * CHUNK_BYTES..self.size_bytes.min((n + 1) * CHUNK_BYTES);
        let bytes = bucket.get(&self.blob.key(), range).await;
        let bytes = bytes.with_context(|| format!("cannot read from {}", bucket.url()))?;
        Ok(bytes.map(Vec::from))
    }
}

async fn copy_blob<W: Write>(
    dump: &mut Dump,
    row: &BlobRow,
    pieces: &mut Pieces<'_>,
    writer: &mut Writer<W>,
    warnings: &mut Vec<String>,
) -> anyhow::Result<()> {
    if pieces.size_bytes == 0 {
        writer.add(&chunk_name(&row.blob, 0), &[])?;
        writer.count_blob();
        return Ok(());
    }
    let (mut n, mut hash) = (0, Sha256::new());
    while n * CHUNK_BYTES < pieces.size_bytes {
        let Some(bytes) = pieces.read(dump, n).await? else {
            break;
        };
        hash.update(&bytes);
        writer.add(&chunk_name(&row.blob, n), &bytes)?;
        n += 1;
    }
    let name = &row.blob.hash;
    if n == 0 {
        // An upload that was deleted after the snapshot needs no warning.
        if !pieces.is_deleted {
            warnings.push(format!("the upload {name} is missing"));
        }
        return Ok(());
    }
    if pieces.is_deleted {
        warnings.push(format!(
            "the upload {name} was deleted during the backup; its end is missing"
        ));
    } else if hex::encode(hash.finalize()) != *name {
        warnings.push(format!(
            "the upload {name} is damaged; it is included unchanged"
        ));
    }
    writer.count_blob();
    Ok(())
}
