//! Writes archives: entries from the pages of the contents, in pieces. Each piece is stored with the entries that it completes and the
//! position after them, so an archive that was interrupted continues there.

use std::{collections::BTreeMap, path::Path, time::Duration};

use flate2::Crc;
use futures::StreamExt;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{
    added::{Added, ArchiveEnd},
    contents,
    error::ExportError,
    page::{Content, FilePage, Page, Place, Position, Rows, Shape},
    slack,
    target::Target,
    view::{ExportFormat, ExportScope, FileBytes, Sight, View},
    zip::{self, Body, Method, ZipEntry},
};
use crate::{
    blocking,
    db::{Conn, Db, DbError, now},
    disk::DiskSpace,
    files::{Blobs, Bytestream, FileError},
};

/// Version of our format.
const VERSION: u32 = 1;
/// Size of an entry above which its rows continue in another one. A reader needs memory for one entry.
const ENTRY_BYTES_MAX: u64 = 8 << 20;
/// Size of a piece of an archive.
const PIECE_BYTES: usize = 8 << 20;
/// Number of entries after which a piece ends even if it is small, so that its transaction is short.
const PIECE_ENTRIES_MAX: usize = 500;
/// Number of pieces after which it is another export's turn.
pub(super) const TURN_PIECES: u32 = 4;
/// Time to wait for the lane for slow reads.
const BUSY_PAUSE: Duration = Duration::from_secs(1);
/// Number of times that a page is tried while the lane is busy.
const BUSY_MAX: u32 = 60;
const MANIFEST: &str = "manifest.json";

/// Dependencies of exports.
#[derive(Clone)]
pub struct Exporter {
    pub db: Db,
    pub blobs: Blobs,
    pub disk: DiskSpace,
    pub shutdown: CancellationToken,
    /// Address of the server.
    pub public_url: String,
}

impl Exporter {
    /// # Errors
    /// `Stopped` if the process ends.
    fn check_running(&self) -> Result<(), ExportError> {
        if self.shutdown.is_cancelled() {
            return Err(ExportError::Stopped);
        }
        Ok(())
    }
}

/// Writes an archive to a new file on this machine. Returns the number of records by kind.
///
/// # Errors
/// `Io` if the file exists or cannot be written, or any error of reading.
pub async fn write_file(
    exporter: &Exporter,
    view: View,
    path: &Path,
) -> Result<BTreeMap<String, i64>, ExportError> {
    let mut writer = Writer {
        exporter: exporter.clone(),
        view,
        target: Target::new_file(path).await?,
        place: Place::default(),
        counts: BTreeMap::new(),
        buffer: Vec::new(),
        start: 0,
        entries: Vec::new(),
        turn: None,
        stored: 0,
    };
    writer.write().await?;
    Ok(writer.counts)
}

/// An entry that is being made.
struct OpenEntry {
    /// Name without the number.
    name: String,
    shape: Shape,
    body: Body,
    size_bytes: u64,
    rows: u64,
}

/// Name of the `number`th entry of a name.
fn numbered(name: &str, number: u32) -> String {
    match name.rsplit_once('.') {
        Some((stem, ending)) if number > 1 => format!("{stem}.{number}.{ending}"),
        _ => name.to_owned(),
    }
}

pub(super) struct Writer {
    pub(super) exporter: Exporter,
    pub(super) view: View,
    pub(super) target: Target,
    pub(super) place: Place,
    pub(super) counts: BTreeMap<String, i64>,
    /// Bytes that are not stored yet.
    pub(super) buffer: Vec<u8>,
    /// Position of `buffer`.
    pub(super) start: u64,
    /// Complete entries that are not stored yet.
    pub(super) entries: Vec<ZipEntry>,
    /// Number of pieces after which the writer stops, so that others have their turn.
    pub(super) turn: Option<u32>,
    /// Number of pieces that were stored.
    pub(super) stored: u32,
}

impl Writer {
    fn at(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }

    /// Writes the archive from its place on.
    ///
    /// # Errors
    /// Any error of reading or storing.
    pub(super) async fn write(&mut self) -> Result<(), ExportError> {
        let mut position = self.place.position.clone();
        let mut open: Option<OpenEntry> = None;
        loop {
            self.exporter.check_running()?;
            let next = self.next(&position).await?;
            let goes_on = match (&open, &next) {
                (
                    Some(open),
                    Some(Page {
                        content: Content::Rows(rows),
                        ..
                    }),
                ) => {
                    let has_room = open.shape == Shape::Array || open.size_bytes < ENTRY_BYTES_MAX;
                    open.name == rows.name && has_room
                }
                (
                    _,
                    Some(Page {
                        content: Content::Nothing,
                        ..
                    }),
                ) => true,
                _ => false,
            };
            if !goes_on && let Some(done) = open.take() {
                self.close(done, position.clone()).await?;
            }
            let Some(Page { content, next }) = next else {
                break;
            };
            match content {
                Content::Rows(rows) => {
                    let entry = match open.take() {
                        Some(entry) => entry,
                        None => self.open(&rows),
                    };
                    open = Some(self.add(entry, rows).await?);
                }
                Content::File(file) => self.file(file, next.clone()).await?,
                Content::Nothing => {}
            }
            position = next;
        }
        self.end().await
    }

    /// The next page. Waits while the lane for slow reads is busy.
    async fn next(&self, position: &Position) -> Result<Option<Page>, ExportError> {
        let mut tries = 0;
        loop {
            let read = match self.exporter.db.scan(self.view.share()).await {
                Ok(mut c) => self.read(&mut c, position).await,
                Err(e) => Err(e.into()),
            };
            match read {
                Err(ExportError::Db(DbError::Busy | DbError::TooSlow)) if tries < BUSY_MAX => {
                    tries += 1;
                    let pause = tokio::time::sleep(BUSY_PAUSE);
                    let paused = self.exporter.shutdown.run_until_cancelled(pause).await;
                    paused.ok_or(ExportError::Stopped)?;
                }
                read => return read,
            }
        }
    }

    async fn read(&self, c: &mut Conn, position: &Position) -> Result<Option<Page>, ExportError> {
        match self.view.format {
            ExportFormat::OpenVibe => contents::next(c, &self.view, position).await,
            ExportFormat::Slack => {
                slack::next(c, &self.view, &self.exporter.public_url, position).await
            }
        }
    }

    /// Begins an entry.
    fn open(&mut self, rows: &Rows) -> OpenEntry {
        if self.place.name == rows.name {
            self.place.number += 1;
        } else {
            self.place.name.clone_from(&rows.name);
            self.place.number = 1;
        }
        OpenEntry {
            name: rows.name.clone(),
            shape: rows.shape,
            body: Body::new(),
            size_bytes: 0,
            rows: 0,
        }
    }

    /// Adds rows to an entry.
    async fn add(&mut self, entry: OpenEntry, rows: Rows) -> Result<OpenEntry, ExportError> {
        let count = i64::try_from(rows.rows.len()).unwrap_or(0);
        if let Some(kind) = rows.kind {
            *self.counts.entry(kind.to_owned()).or_default() += count;
        }
        let OpenEntry {
            name,
            shape,
            mut body,
            mut size_bytes,
            rows: mut written,
        } = entry;
        let mut text = String::new();
        for row in rows.rows {
            if shape == Shape::Array {
                text.push_str(if written == 0 { "[\n" } else { ",\n" });
                text.push_str(&row);
            } else {
                text.push_str(&row);
                text.push('\n');
            }
            written += 1;
        }
        size_bytes += text.len() as u64;
        let packed = blocking::blocking((), move || {
            body.write(text.as_bytes())?;
            Ok::<_, std::io::Error>(body)
        });
        let body = packed.await.map_err(std::io::Error::other)??;
        Ok(OpenEntry {
            name,
            shape,
            body,
            size_bytes,
            rows: written,
        })
    }

    /// Completes an entry; the next one begins at `next`.
    async fn close(&mut self, entry: OpenEntry, next: Position) -> Result<(), ExportError> {
        let name = numbered(&entry.name, self.place.number);
        let OpenEntry {
            mut body,
            shape,
            rows,
            ..
        } = entry;
        if shape == Shape::Array {
            let end: &[u8] = if rows == 0 { b"[]\n" } else { b"\n]\n" };
            body.write(end)?;
        }
        let (entry, packed) = body.finish(name, self.at())?;
        self.buffer.extend(entry.header());
        self.buffer.extend(packed);
        self.entries.push(entry);
        self.place.position = next;
        self.store_if_large().await
    }

    /// Writes a file. Its bytes are read twice, because their checksum is in the header before them.
    async fn file(&mut self, file: FilePage, next: Position) -> Result<(), ExportError> {
        let read = checksum(&self.exporter, &file).await;
        let (crc, mut bytes) = match read {
            Ok(read) => read,
            // Deleted since, or lost.
            Err(e) if is_lost(&e) => {
                tracing::warn!(blob = %file.blob.hash, "a file whose bytes are missing is not in the export");
                self.place.position = next;
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        let entry = ZipEntry {
            name: file.name.clone(),
            method: Method::Stored,
            crc,
            size_bytes: file.size_bytes,
            packed_bytes: file.size_bytes,
            start: self.at(),
            hash: file.blob.hash.clone(),
        };
        self.buffer.extend(entry.header());
        while let Some(piece) = bytes.next().await {
            self.exporter.check_running()?;
            self.buffer.extend_from_slice(&piece?);
            if self.buffer.len() >= PIECE_BYTES {
                self.flush(None).await?;
            }
        }
        if self.at() != entry.start + entry.header().len() as u64 + entry.size_bytes {
            return Err(std::io::Error::other("a file is shorter than its row says").into());
        }
        self.entries.push(entry);
        *self.counts.entry("files".to_owned()).or_default() += 1;
        self.place.position = next;
        self.place.name.clear();
        self.store_if_large().await
    }

    /// Stores the bytes so far if they are many, and stops at the end of the turn.
    async fn store_if_large(&mut self) -> Result<(), ExportError> {
        let is_over = self.turn.is_some_and(|turn| self.stored >= turn);
        let is_large = self.buffer.len() >= PIECE_BYTES || self.entries.len() >= PIECE_ENTRIES_MAX;
        if is_large || is_over {
            self.flush(Some(ArchiveEnd::Open)).await?;
        }
        if is_over {
            return Err(ExportError::Stopped);
        }
        Ok(())
    }

    /// Stores the bytes so far; with an end, also the complete entries.
    async fn flush(&mut self, end: Option<ArchiveEnd>) -> Result<(), ExportError> {
        let size_bytes = self.at();
        let added = end.map(|end| Added {
            place: self.place.clone(),
            counts: self.counts.clone(),
            entries: std::mem::take(&mut self.entries),
            size_bytes,
            end,
        });
        let bytes = std::mem::take(&mut self.buffer);
        self.exporter.disk.check().await?;
        self.target.store(&bytes, self.start, added).await?;
        self.start = size_bytes;
        self.stored += 1;
        Ok(())
    }

    /// Writes the manifest and the directory.
    async fn end(&mut self) -> Result<(), ExportError> {
        self.flush(Some(ArchiveEnd::Open)).await?;
        if self.view.format == ExportFormat::OpenVibe {
            let manifest = self.manifest().await?;
            let (manifest, packed) = manifest.finish(MANIFEST.to_owned(), self.at())?;
            self.buffer.extend(manifest.header());
            self.buffer.extend(packed);
            self.entries.push(manifest);
        }
        let last = std::mem::take(&mut self.entries);
        let start = self.at();
        let mut count = 0;
        loop {
            let entries = self.target.entries(count).await?;
            if entries.is_empty() {
                break;
            }
            count += entries.len();
            for entry in entries {
                self.buffer.extend(entry.directory_entry());
            }
            if self.buffer.len() >= PIECE_BYTES {
                self.flush(None).await?;
            }
        }
        for entry in &last {
            self.buffer.extend(entry.directory_entry());
        }
        let (entries, size_bytes) = (count + last.len(), self.at() - start);
        self.buffer
            .extend(zip::end(entries as u64, start, size_bytes));
        self.flush(Some(ArchiveEnd::Complete)).await
    }

    /// The manifest: what the archive is, the number of records, and the SHA-256 of each entry.
    async fn manifest(&self) -> Result<Body, ExportError> {
        let row: Option<(String, String)> = self
            .exporter
            .db
            .read()
            .await?
            .q("select name, slug from workspaces where id = $1")
            .bind(self.view.workspace)
            .opt()
            .await?;
        let (name, slug) = row.ok_or(ExportError::Stopped)?;
        let scope = match self.view.sight {
            Sight::Public => ExportScope::Public.as_str(),
            Sight::Person(_) => ExportScope::Mine.as_str(),
            Sight::Everything => "everything",
        };
        let head = [
            ("format", json!(self.view.format)),
            ("version", json!(VERSION)),
            ("scope", json!(scope)),
            ("files", json!(self.view.files == FileBytes::Included)),
            ("exported_at", json!(now())),
            (
                "workspace",
                json!({"id": self.view.workspace, "name": name, "slug": slug}),
            ),
            ("counts", json!(self.counts)),
        ];
        let mut body = Body::new();
        body.write(b"{")?;
        for (name, value) in head {
            body.write(format!("\"{name}\":{value},\n").as_bytes())?;
        }
        body.write(b"\"entries\":[")?;
        let mut count = 0;
        loop {
            let entries = self.target.entries(count).await?;
            if entries.is_empty() {
                break;
            }
            for entry in &entries {
                let separator = if count == 0 { "\n" } else { ",\n" };
                let value = json!({"name": entry.name, "size_bytes": entry.size_bytes, "sha256": entry.hash});
                body.write(format!("{separator}{value}").as_bytes())?;
                count += 1;
            }
        }
        body.write(b"]}\n")?;
        Ok(body)
    }
}

/// The checksum of a file, and its bytes from the beginning.
async fn checksum(exporter: &Exporter, file: &FilePage) -> Result<(u32, Bytestream), ExportError> {
    let mut crc = Crc::new();
    let mut bytes = exporter.blobs.read(&file.blob, 0, file.size_bytes).await?;
    while let Some(piece) = bytes.next().await {
        exporter.check_running()?;
        crc.update(&piece?);
    }
    let again = exporter.blobs.read(&file.blob, 0, file.size_bytes).await?;
    Ok((crc.sum(), again))
}

/// Checks whether the bytes of a file do not exist, or not all of them.
fn is_lost(e: &ExportError) -> bool {
    let missing = match e {
        ExportError::File(e) => Some(e),
        ExportError::Io(e) => e.get_ref().and_then(|e| e.downcast_ref::<FileError>()),
        _ => None,
    };
    matches!(missing, Some(FileError::NotFound))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_entries_go_on_in_numbered_ones() {
        assert_eq!(numbered("people.jsonl", 1), "people.jsonl");
        assert_eq!(numbered("a/2026-11.jsonl", 3), "a/2026-11.3.jsonl");
    }
}
