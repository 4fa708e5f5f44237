//! Creates a backup while the server keeps running.

use std::{
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use super::format::{Manifest, Writer};
use crate::{
    db::{
        DatabaseUrl, DbError, Engine,
        dump::{self, BlobRow, Dump},
    },
    time::Timestamp,
};

/// Maximum size of an entry with rows.
const ROWS_BYTES: usize = 2 * 1024 * 1024;
/// Maximum size of an entry with a chunk of an upload, as for chunks in the database.
const CHUNK_BYTES: usize = 1024 * 1024;

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
    data_dir: &Path,
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
    let mut warnings = Vec::new();
    // Uploads come first, because cleanup keeps removing unreferenced ones in the meantime.
    if tables.iter().any(|table| table.name == "blobs") {
        for blob in dump.blobs().await? {
            match dump.engine() {
                Engine::Sqlite => {
                    let path = data_dir
                        .join("blobs")
                        .join(&blob.hash[..2])
                        .join(&blob.hash);
                    copy_file(place, &blob, &path, &mut writer, &mut warnings).await?;
                }
                Engine::Postgres => copy_chunks(&mut dump, &blob, &mut writer).await?,
            }
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

fn chunk_name(blob: &BlobRow, n: i64) -> String {
    format!("blobs/{}/{}/{n:06}", blob.hash, blob.upload)
}

async fn copy_chunks<W: Write>(
    dump: &mut Dump,
    blob: &BlobRow,
    writer: &mut Writer<W>,
) -> anyhow::Result<()> {
    let mut n = 0;
    while let Some(bytes) = dump.chunk(blob.upload, n).await? {
        writer.add(&chunk_name(blob, n), &bytes)?;
        n += 1;
    }
    writer.count_blob();
    Ok(())
}

async fn copy_file<W: Write>(
    place: &DatabaseUrl,
    blob: &BlobRow,
    path: &PathBuf,
    writer: &mut Writer<W>,
    warnings: &mut Vec<String>,
) -> anyhow::Result<()> {
    let mut file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            // Deleted since, together with the last row that referred to it: the backup shows an earlier state.
            if dump::names_blob(place, &blob.hash).await? {
                warnings.push(format!("the upload {} is missing", path.display()));
            }
            return Ok(());
        }
        Err(e) => return Err(e.into()),
    };
    let (mut n, mut hash) = (0, Sha256::new());
    loop {
        let mut bytes = Vec::with_capacity(CHUNK_BYTES);
        Read::by_ref(&mut file)
            .take(CHUNK_BYTES as u64)
            .read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            break;
        }
        hash.update(&bytes);
        writer.add(&chunk_name(blob, n), &bytes)?;
        n += 1;
    }
    if hex::encode(hash.finalize()) != blob.hash {
        let text = format!(
            "the upload {} is damaged; it is included unchanged",
            path.display()
        );
        warnings.push(text);
    }
    writer.count_blob();
    Ok(())
}
