//! The backup file: writing it, and reading it with full verification.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fs::File,
    io::{self, BufReader, Read, Write},
    path::Path,
    rc::Rc,
};

use flate2::{Compression, bufread::GzDecoder, write::GzEncoder};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::db::dump::{self, Table};

const FORMAT: &str = "openvibe-backup";
const FORMAT_VERSION: u32 = 1;
const MANIFEST: &str = "manifest.json";
const INDEX: &str = "index.json";
/// The gzip header, which must be exactly as written, because no checksum covers it.
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 0xff];
/// Maximum size of an entry, regardless of the size that its header states.
const ENTRY_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Maximum number of bytes between the contents of two entries, and after the last one, for headers, long names, and
/// empty blocks.
const BETWEEN_BYTES_MAX: u64 = 64 * 1024;
/// Entries are padded to a multiple of this size.
const BLOCK_BYTES: u64 = 512;

/// Metadata of a backup; its first entry.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Manifest {
    pub format: String,
    pub format_version: u32,
    /// Version of the program that created the backup.
    pub program_version: String,
    /// Newest migration applied to the tables.
    pub migration: i64,
    pub engine: String,
    pub created_at: String,
    pub epoch: Option<String>,
    /// Tables, ordered so that each one follows the tables that it references.
    #[serde(default)]
    pub tables: Vec<Table>,
}

impl Manifest {
    pub(super) fn new(
        migration: i64,
        engine: &str,
        created_at: String,
        epoch: Option<String>,
        tables: Vec<Table>,
    ) -> Self {
        Self {
            format: FORMAT.to_owned(),
            format_version: FORMAT_VERSION,
            program_version: env!("CARGO_PKG_VERSION").to_owned(),
            migration,
            engine: engine.to_owned(),
            created_at,
            epoch,
            tables,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    name: String,
    size_bytes: u64,
    sha256: String,
}

/// Contents of a backup; its last entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    entries: Vec<Entry>,
    /// Number of rows per table.
    pub rows: BTreeMap<String, u64>,
    pub blobs: u64,
}

impl Index {
    /// Names and sizes of all entries.
    pub(super) fn sizes(&self) -> impl Iterator<Item = (&str, u64)> {
        let entries = self.entries.iter();
        entries.map(|entry| (entry.name.as_str(), entry.size_bytes))
    }

    /// Returns true if the `nth` entry matches the index. The index itself must be the entry after those that it lists.
    pub(super) fn holds(&self, nth: usize, name: &str, bytes: &[u8]) -> bool {
        match self.entries.get(nth) {
            Some(entry) => *entry == entry_of(name, bytes),
            None => name == INDEX && nth == self.entries.len(),
        }
    }
}

/// A fully verified backup.
#[derive(Debug, Clone)]
pub struct Verified {
    pub manifest: Manifest,
    pub index: Index,
}

/// Reason why a file cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    #[error("the file cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("the file is not an OpenVibe backup")]
    NoBackup,
    #[error(
        "the backup was created by OpenVibe {0}, which is newer than this version: upgrade first"
    )]
    Newer(String),
    #[error("the backup is damaged: {0}; nothing was changed")]
    Damaged(String),
}

fn damaged(what: impl Into<String>) -> Damage {
    Damage::Damaged(what.into())
}

fn entry_of(name: &str, bytes: &[u8]) -> Entry {
    Entry {
        name: name.to_owned(),
        size_bytes: bytes.len() as u64,
        sha256: hex::encode(Sha256::digest(bytes)),
    }
}

pub(super) struct Writer<W: Write> {
    tar: tar::Builder<GzEncoder<W>>,
    index: Index,
}

impl<W: Write> Writer<W> {
    pub(super) fn begin(out: W, manifest: &Manifest) -> io::Result<Self> {
        let mut writer = Self {
            tar: tar::Builder::new(GzEncoder::new(out, Compression::fast())),
            index: Index::default(),
        };
        writer.add(MANIFEST, &serde_json::to_vec_pretty(manifest)?)?;
        Ok(writer)
    }

    fn put(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        header.set_cksum();
        self.tar.append_data(&mut header, name, bytes)
    }

    pub(super) fn add(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.put(name, bytes)?;
        self.index.entries.push(entry_of(name, bytes));
        Ok(())
    }

    pub(super) fn count_rows(&mut self, table: &str, n: u64) {
        *self.index.rows.entry(table.to_owned()).or_default() += n;
    }

    pub(super) fn count_blob(&mut self) {
        self.index.blobs += 1;
    }

    /// Writes the index; returns the output and the index.
    pub(super) fn finish(mut self) -> io::Result<(W, Index)> {
        let index = serde_json::to_vec(&self.index)?;
        self.put(INDEX, &index)?;
        let out = self.tar.into_inner()?.finish()?;
        Ok((out, self.index))
    }
}

/// Limits the number of bytes that can be read, so that a small file that unpacks to a huge one cannot exhaust the memory.
struct Bounded<R> {
    inner: R,
    room: Rc<Cell<u64>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.room.get()).unwrap_or(usize::MAX);
        if room == 0 && !out.is_empty() {
            return match self.inner.read(&mut [0])? {
                0 => Ok(0),
                _ => Err(io::Error::other("it contains unexpected data")),
            };
        }
        let out_max = out.len().min(room);
        let n = self.inner.read(&mut out[..out_max])?;
        self.room.set(self.room.get() - n as u64);
        Ok(n)
    }
}

/// Reads entries one by one.
pub(super) struct Reader {
    tar: tar::Archive<Bounded<GzDecoder<BufReader<File>>>>,
    room: Rc<Cell<u64>>,
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<Self, Damage> {
        let mut file = File::open(path).map_err(Damage::Unreadable)?;
        let mut head = [0; 10];
        match file.read_exact(&mut head) {
            Ok(()) if head == GZIP_HEAD => {}
            Ok(()) if head[..2] == GZIP_HEAD[..2] => return Err(damaged("its header was changed")),
            Ok(()) => return Err(Damage::NoBackup),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Err(Damage::NoBackup),
            Err(e) => return Err(Damage::Unreadable(e)),
        }
        let file = File::open(path).map_err(Damage::Unreadable)?;
        let room = Rc::new(Cell::new(BETWEEN_BYTES_MAX));
        let unpacked = Bounded {
            inner: GzDecoder::new(BufReader::new(file)),
            room: Rc::clone(&room),
        };
        Ok(Self {
            tar: tar::Archive::new(unpacked),
            room,
        })
    }

    /// Names and contents of all entries, in order.
    pub(super) fn entries(
        &mut self,
    ) -> Result<impl Iterator<Item = Result<(String, Vec<u8>), Damage>>, Damage> {
        let room = Rc::clone(&self.room);
        let entries = self.tar.entries().map_err(|e| damaged(e.to_string()))?;
        Ok(entries.map(move |entry| {
            let mut entry = entry.map_err(|e| damaged(e.to_string()))?;
            let name = entry
                .path()
                .ok()
                .and_then(|path| path.to_str().map(str::to_owned))
                .ok_or_else(|| damaged("an entry has no name"))?;
            if entry.size() > ENTRY_BYTES_MAX {
                return Err(damaged(format!("{name} is too large")));
            }
            if !entry.header().entry_type().is_file() {
                return Err(damaged(format!("{name} is not a file")));
            }
            let mut bytes = Vec::new();
            room.set(entry.size().next_multiple_of(BLOCK_BYTES));
            entry
                .read_to_end(&mut bytes)
                .map_err(|e| damaged(format!("{name}: {e}")))?;
            room.set(BETWEEN_BYTES_MAX);
            Ok((name, bytes))
        }))
    }

    /// Checks that nothing follows the end of the archive.
    fn ends(self) -> Result<(), Damage> {
        let mut unpacked = self.tar.into_inner();
        let mut rest = Vec::new();
        // The last entry is followed by empty blocks and then the gzip checksum.
        unpacked
            .read_to_end(&mut rest)
            .map_err(|e| damaged(e.to_string()))?;
        let mut file = unpacked.inner.into_inner();
        let after = file.read(&mut [0]).map_err(Damage::Unreadable)?;
        if after > 0 || rest.iter().any(|byte| *byte != 0) {
            return Err(damaged("there is data after its end"));
        }
        Ok(())
    }
}

/// Reads an entire backup and compares every entry with the index.
///
/// # Errors
/// `Damage` with a description of the problem.
pub fn verify(path: &Path) -> Result<Verified, Damage> {
    let mut reader = Reader::open(path)?;
    let (mut manifest, mut index): (Option<Manifest>, Option<Index>) = (None, None);
    let (mut seen, mut rows) = (Vec::new(), BTreeMap::<String, u64>::new());
    for entry in reader.entries()? {
        let (name, bytes) = match entry {
            Ok(entry) => entry,
            Err(_) if manifest.is_none() => return Err(Damage::NoBackup),
            Err(e) => return Err(e),
        };
        if index.is_some() {
            return Err(damaged("there is data after its index"));
        }
        if manifest.is_none() {
            manifest = Some(read_manifest(&name, &bytes)?);
        } else if name == INDEX {
            let found = serde_json::from_slice(&bytes);
            index = Some(found.map_err(|e| damaged(format!("its index: {e}")))?);
            continue;
        }
        let known = manifest.as_ref().is_some_and(|m| belongs(m, &name));
        if !known {
            return Err(damaged(format!("unexpected entry {name:?}")));
        }
        if let Some(table) = table_of(&name) {
            let n = bytes.split(|byte| *byte == b'\n').count() as u64 - 1;
            *rows.entry(table.to_owned()).or_default() += n;
        }
        seen.push(entry_of(&name, &bytes));
    }
    let manifest = manifest.ok_or(Damage::NoBackup)?;
    let index = index.ok_or_else(|| damaged("its end is missing"))?;
    reader.ends()?;
    if let Some(wrong) = difference(&index.entries, &seen) {
        return Err(damaged(wrong));
    }
    rows.retain(|_, n| *n > 0);
    let told: BTreeMap<String, u64> = index
        .rows
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|(table, n)| (table.clone(), *n))
        .collect();
    if rows != told {
        return Err(damaged("its row counts are wrong"));
    }
    Ok(Verified { manifest, index })
}

/// Returns true if a backup can contain an entry with this name.
fn belongs(manifest: &Manifest, name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty();
    match parts.as_slice() {
        [name] => *name == MANIFEST,
        ["tables", table, part] => {
            let is_part = part.strip_suffix(".ndjson").is_some_and(is_number);
            is_part && manifest.tables.iter().any(|known| known.name == *table)
        }
        ["blobs", hash, upload, part] => {
            let is_hash =
                hash.len() == 64 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            is_hash && Uuid::parse_str(upload).is_ok() && is_number(part)
        }
        _ => false,
    }
}

/// The first difference between the index and the entries.
fn difference(told: &[Entry], seen: &[Entry]) -> Option<String> {
    for (i, entry) in told.iter().enumerate() {
        match seen.get(i) {
            Some(found) if found == entry => {}
            Some(found) if found.name == entry.name => {
                return Some(format!("{} was changed", entry.name));
            }
            _ => return Some(format!("{} is missing", entry.name)),
        }
    }
    seen.get(told.len())
        .map(|entry| format!("unexpected entry {}", entry.name))
}

/// Fields that every version of the format contains.
#[derive(Deserialize)]
struct Head {
    format: String,
    format_version: u32,
    program_version: String,
    migration: i64,
}

fn read_manifest(name: &str, bytes: &[u8]) -> Result<Manifest, Damage> {
    if name != MANIFEST {
        return Err(Damage::NoBackup);
    }
    let head: Head = serde_json::from_slice(bytes).map_err(|_| Damage::NoBackup)?;
    if head.format != FORMAT {
        return Err(Damage::NoBackup);
    }
    if head.format_version > FORMAT_VERSION || head.migration > dump::newest_version() {
        return Err(Damage::Newer(head.program_version));
    }
    serde_json::from_slice(bytes).map_err(|e| damaged(format!("its manifest: {e}")))
}

/// Name of the table whose rows an entry contains; `None` if the entry contains no rows.
pub(super) fn table_of(name: &str) -> Option<&str> {
    name.strip_prefix("tables/")?.split('/').next()
}
