//! Archives as untrusted data: a reader over the pieces of an upload, and entries of a zip within bounds.

use std::{
    cell::Cell,
    io::{self, Read, Seek, SeekFrom},
    ops::ControlFlow,
    rc::Rc,
};

use futures::StreamExt;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use tokio::runtime::Handle;
use zip::ZipArchive;

use super::utf8::ValidUtf8;
use crate::{files::Blobs, storage::Blob};

/// Maximum number of entries of an archive.
const ENTRIES_MAX: usize = 2_000_000;
/// Maximum size of a JSON entry.
pub(super) const JSON_BYTES_MAX: u64 = 256 << 20;
/// Maximum size of a part of JSON that is read into memory at once, such as an element of a list.
pub(super) const PART_BYTES_MAX: u64 = 16 << 20;
/// Maximum ratio of an entry's size to its compressed size, for entries above `RATIO_FREE_BYTES`.
const RATIO_MAX: u64 = 200;
const RATIO_FREE_BYTES: u64 = 1 << 20;
/// Maximum ratio of the size of all entries to the maximum size of an archive.
pub(super) const TOTAL_RATIO_MAX: u64 = 4;
/// Number of names that an error shows.
const NAMES_SHOWN: usize = 5;
const BUFFER_BYTES: u64 = 256 * 1024;
/// Maximum nesting of JSON.
const DEPTH_MAX: usize = 64;

/// Fails after `left` bytes, which is set again for each part.
pub(super) struct Bounded<R> {
    pub(super) reader: R,
    pub(super) left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.reader.read(out)?;
        let left = self.left.get().checked_sub(n as u64);
        let left = left.ok_or_else(|| io::Error::other("a part of it is too large"))?;
        self.left.set(left);
        Ok(n)
    }
}

/// A piece of an uploaded archive.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub(super) start: u64,
    pub(super) size_bytes: u64,
    pub(super) blob: Blob,
}

/// Reads the pieces of an archive as one file, on a thread that may block.
pub(super) struct PieceReader {
    handle: Handle,
    blobs: Blobs,
    pieces: Vec<Piece>,
    total: u64,
    at: u64,
    buffer: Vec<u8>,
    /// Position of `buffer`.
    buffered: u64,
}

impl PieceReader {
    /// `pieces` are sorted and have no gaps.
    pub(super) fn new(handle: Handle, blobs: Blobs, pieces: Vec<Piece>) -> Self {
        let total = pieces.last().map_or(0, |last| last.start + last.size_bytes);
        Self {
            handle,
            blobs,
            pieces,
            total,
            at: 0,
            buffer: Vec::new(),
            buffered: 0,
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        let next = self.pieces.partition_point(|piece| piece.start <= self.at);
        let piece = next.checked_sub(1).and_then(|n| self.pieces.get(n));
        let piece = piece.ok_or(io::ErrorKind::UnexpectedEof)?;
        let from = self.at - piece.start;
        let len = (piece.size_bytes - from).min(BUFFER_BYTES);
        let (blobs, blob) = (self.blobs.clone(), piece.blob.clone());
        self.buffer = self.handle.block_on(async move {
            let mut stream = blobs
                .read(&blob, from, len)
                .await
                .map_err(io::Error::other)?;
            let mut bytes = Vec::new();
            while let Some(part) = stream.next().await {
                bytes.extend_from_slice(&part?);
            }
            Ok::<_, io::Error>(bytes)
        })?;
        self.buffered = self.at;
        if self.buffer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

impl Read for PieceReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.total || out.is_empty() {
            return Ok(0);
        }
        let end = self.buffered + self.buffer.len() as u64;
        if self.at < self.buffered || self.at >= end {
            self.fill()?;
        }
        let from = usize::try_from(self.at - self.buffered).unwrap_or(usize::MAX);
        let part = self.buffer.get(from..).unwrap_or_default();
        let n = part.len().min(out.len());
        out[..n].copy_from_slice(&part[..n]);
        self.at += n as u64;
        Ok(n)
    }
}

impl Seek for PieceReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.total.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// Reason why an archive or an entry cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveFault {
    #[error("this is not a zip file: {0}")]
    NotZip(String),
    #[error("the archive has more than {ENTRIES_MAX} entries")]
    TooManyEntries,
    #[error("the archive would unpack to more than {TOTAL_RATIO_MAX} times the limit")]
    TooLarge,
    #[error("{0}")]
    Unknown(String),
    #[error("{0}: {1}")]
    Entry(String, String),
    #[error("the entry {0} does not exist")]
    Missing(String),
    #[error("the import was stopped")]
    Stopped,
}

/// A zip file within bounds. Names of entries are never used as paths.
pub(super) struct Archive<R> {
    zip: ZipArchive<R>,
    /// Names, by index. Names are UTF-8 even if they are not marked so.
    pub(super) names: Vec<String>,
}

impl<R: Read + Seek> Archive<R> {
    /// # Errors
    /// `NotZip`, `TooManyEntries`, `TooLarge`.
    pub(super) fn open(reader: R, archive_bytes_max: u64) -> Result<Self, ArchiveFault> {
        let zip = ZipArchive::new(reader).map_err(|e| ArchiveFault::NotZip(e.to_string()))?;
        if zip.len() > ENTRIES_MAX {
            return Err(ArchiveFault::TooManyEntries);
        }
        let total = zip.decompressed_size().unwrap_or(u128::MAX);
        if total > u128::from(archive_bytes_max) * u128::from(TOTAL_RATIO_MAX) {
            return Err(ArchiveFault::TooLarge);
        }
        let names = zip.file_names_raw();
        let names = names.map(|name| String::from_utf8_lossy(name).replace('\0', ""));
        Ok(Self {
            names: names.collect(),
            zip,
        })
    }

    pub(super) fn index_of(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// Calls `read` with the bytes of an entry, of which there are at most `bytes_max`.
    ///
    /// # Errors
    /// `Entry` if it cannot be read, or is larger, or `read` fails.
    pub(super) fn with_entry<T>(
        &mut self,
        index: usize,
        bytes_max: u64,
        read: impl FnOnce(&mut dyn Read) -> Result<T, String>,
    ) -> Result<T, ArchiveFault> {
        let name = self.names.get(index).cloned().unwrap_or_default();
        let fault = |text: String| ArchiveFault::Entry(name.clone(), text);
        let entry = self.zip.by_index(index).map_err(|e| fault(e.to_string()))?;
        if entry.encrypted() {
            return Err(fault("the entry is encrypted".to_owned()));
        }
        if entry.is_symlink() || entry.is_dir() {
            return Err(fault("the entry is not a file".to_owned()));
        }
        let size = entry.size();
        if size > bytes_max {
            return Err(fault(format!("the entry is larger than {bytes_max} bytes")));
        }
        let is_bomb = size > RATIO_FREE_BYTES && size / RATIO_MAX > entry.compressed_size();
        if is_bomb {
            return Err(fault(format!(
                "the entry unpacks to more than {RATIO_MAX} times its size"
            )));
        }
        // The stated size may be wrong.
        let mut bounded = entry.take(size);
        read(&mut bounded).map_err(fault)
    }

    /// Stated size of an entry.
    pub(super) fn size_of(&self, index: usize) -> u64 {
        self.zip
            .by_index_data(index)
            .map_or(0, |entry| entry.size())
    }

    /// The bytes of an entry.
    ///
    /// # Errors
    /// `Entry` if it cannot be read, or is larger.
    pub(super) fn bytes(&mut self, index: usize, bytes_max: u64) -> Result<Vec<u8>, ArchiveFault> {
        self.with_entry(index, bytes_max, |reader| {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).map_err(|e| e.to_string())?;
            Ok(bytes)
        })
    }

    /// Reads a JSON object, and calls `each` with every element of its member `list`, one at a time, until it breaks. Returns the other
    /// members, or none after a break.
    ///
    /// # Errors
    /// `Entry` if it cannot be read to its end; `each` has been called with the elements before that.
    pub(super) fn object(
        &mut self,
        index: usize,
        list: &str,
        each: EachElement<'_>,
    ) -> Result<Map<String, Value>, ArchiveFault> {
        let mut has_stopped = false;
        let read = self.with_entry(index, JSON_BYTES_MAX, |reader| {
            let left = Rc::new(Cell::new(PART_BYTES_MAX));
            let bounded = Bounded {
                reader: ValidUtf8::new(reader),
                left: Rc::clone(&left),
            };
            let mut json = serde_json::Deserializer::from_reader(io::BufReader::new(bounded));
            let mut counted = |head: &Map<String, Value>, value: Value| {
                left.set(PART_BYTES_MAX);
                each(head, value)
            };
            let members = Members {
                list,
                each: &mut counted,
                has_stopped: &mut has_stopped,
            };
            members.deserialize(&mut json).map_err(|e| e.to_string())
        });
        if has_stopped {
            return Ok(Map::new());
        }
        read
    }

    /// Calls `each` with every element of a JSON array, one at a time.
    ///
    /// # Errors
    /// `Entry` if it cannot be read to its end; `each` has been called with the elements before that.
    pub(super) fn each(
        &mut self,
        index: usize,
        each: &mut dyn FnMut(Value),
    ) -> Result<(), ArchiveFault> {
        self.with_entry(index, JSON_BYTES_MAX, |reader| each_element(reader, each))
    }
}

/// Calls `each` with every element of a JSON array, one at a time.
///
/// # Errors
/// A message if it cannot be read to its end; `each` has been called with the elements before that.
pub(super) fn each_element(reader: impl Read, each: &mut dyn FnMut(Value)) -> Result<(), String> {
    let left = Rc::new(Cell::new(PART_BYTES_MAX));
    let bounded = Bounded {
        reader: ValidUtf8::new(reader),
        left: Rc::clone(&left),
    };
    let mut json = serde_json::Deserializer::from_reader(io::BufReader::new(bounded));
    let mut counted = |value: Value| {
        left.set(PART_BYTES_MAX);
        each(value);
    };
    let read = Elements(&mut counted).deserialize(&mut json);
    read.map_err(|e| e.to_string())
}

/// Receives the members of an object that come before its list, and an element of the list, until it breaks.
pub(super) type EachElement<'a> = &'a mut dyn FnMut(&Map<String, Value>, Value) -> ControlFlow<()>;

/// Reads an object with one long list.
struct Members<'a> {
    list: &'a str,
    each: EachElement<'a>,
    has_stopped: &'a mut bool,
}

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = Map<String, Value>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut head = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if name == self.list {
                members.next_value_seed(LongList {
                    head: &head,
                    each: &mut *self.each,
                    has_stopped: &mut *self.has_stopped,
                })?;
            } else {
                let value = members.next_value::<Value>()?;
                head.insert(name, clean(value));
            }
        }
        Ok(head)
    }
}

/// Reads a list of an object element by element.
struct LongList<'a> {
    head: &'a Map<String, Value>,
    each: EachElement<'a>,
    has_stopped: &'a mut bool,
}

impl<'de> DeserializeSeed<'de> for LongList<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for LongList<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(value) = list.next_element::<Value>()? {
            if (self.each)(self.head, clean(value)).is_break() {
                *self.has_stopped = true;
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}

/// A value without NUL; null instead of one that is nested too deeply.
pub(super) fn clean(mut value: Value) -> Value {
    if depth_of(&value) > DEPTH_MAX {
        return Value::Null;
    }
    remove_nul(&mut value);
    value
}

/// Reads an array element by element.
pub(super) struct Elements<'a>(pub(super) &'a mut dyn FnMut(Value));

impl<'de> DeserializeSeed<'de> for Elements<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(value) = list.next_element::<Value>()? {
            (self.0)(clean(value));
        }
        Ok(())
    }
}

/// Parses a line of JSON.
///
/// # Errors
/// A message for text that is not JSON, or is nested too deeply.
pub(super) fn parse_line(line: &[u8]) -> Result<Value, String> {
    let mut value: Value = serde_json::from_slice(line).map_err(|e| e.to_string())?;
    if depth_of(&value) > DEPTH_MAX {
        return Err(format!("more than {DEPTH_MAX} levels"));
    }
    remove_nul(&mut value);
    Ok(value)
}

/// Removes NUL from texts, which `PostgreSQL` cannot store.
fn remove_nul(value: &mut Value) {
    match value {
        Value::String(text) => text.retain(|c| c != '\0'),
        Value::Array(list) => list.iter_mut().for_each(remove_nul),
        Value::Object(map) => map.values_mut().for_each(remove_nul),
        _ => {}
    }
}

/// Nesting of a value. The parser rejects more than 128 levels.
fn depth_of(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth_of).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth_of).max().unwrap_or(0),
        _ => 0,
    }
}

/// Error for an archive without a known format.
pub(super) fn unknown<R>(archive: &Archive<R>) -> ArchiveFault {
    let found: Vec<&str> = archive
        .names
        .iter()
        .take(NAMES_SHOWN)
        .map(String::as_str)
        .collect();
    ArchiveFault::Unknown(format!(
        "This is not an export: it has no channels.json. In Slack: Settings, Import/Export Data, Export. In Mattermost: mmctl export create. In Discord: the JSON of DiscordChatExporter. The archive has {}.",
        if found.is_empty() {
            "nothing".to_owned()
        } else {
            found.join(", ")
        }
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_element_that_is_too_large_is_not_read() {
        let part = usize::try_from(PART_BYTES_MAX).unwrap();
        let (small, large) = ("x".repeat(part / 4), "x".repeat(part * 2));
        let count = |text: &str| {
            let mut n = 0;
            let read = each_element(text.as_bytes(), &mut |_| n += 1);
            (n, read.is_ok())
        };
        let many = format!(r#"["{small}", "{small}", "{small}", "{small}", "{small}"]"#);
        assert_eq!(count(&many), (5, true));
        assert_eq!(count(&format!(r#"["{small}", "{large}"]"#)), (1, false));
    }

    #[test]
    fn texts_have_no_nul() {
        let line = br#"{"a": ["x\u0000y", {"b": "\u0000"}], "c": 1}"#;
        let expected = json!({"a": ["xy", {"b": ""}], "c": 1});
        assert_eq!(parse_line(line), Ok(expected));
    }
}
