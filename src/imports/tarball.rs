//! Compressed tar files as untrusted data. They have no list of entries, so that the wanted ones are unpacked once, into a temporary file
//! without a name, from which they are read in any order. Names of entries are never used as paths.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fmt::Display,
    fs::{self, File, OpenOptions},
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    rc::Rc,
};

use flate2::read::GzDecoder;

use super::archive::{ArchiveFault, Bounded, TOTAL_RATIO_MAX};

/// Maximum number of entries.
const ENTRIES_MAX: usize = 2_000_000;
/// Maximum ratio of the size of all entries to the compressed size, above `RATIO_FREE_BYTES`.
const RATIO_MAX: u64 = 200;
const RATIO_FREE_BYTES: u64 = 64 << 20;
/// Maximum size of the headers of an entry, which are read into memory: its name, if it is long, and other attributes.
const HEADERS_BYTES_MAX: u64 = 1 << 20;
/// Maximum size of the names of all entries that are unpacked.
const NAMES_BYTES_MAX: usize = 64 << 20;
const MAGIC: [u8; 2] = [0x1f, 0x8b];
const BUFFER_BYTES: usize = 256 * 1024;

/// Checks whether a file is compressed with gzip.
pub(super) fn is_gzip(reader: &mut impl Read) -> bool {
    let mut head = [0; 2];
    reader.read_exact(&mut head).is_ok() && head == MAGIC
}

/// Counts the bytes that are read.
struct Counted<R> {
    reader: R,
    bytes: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.reader.read(out)?;
        self.bytes.set(self.bytes.get() + n as u64);
        Ok(n)
    }
}

/// Part of the temporary file.
#[derive(Debug, Clone, Copy)]
struct Part {
    start: u64,
    size: u64,
}

/// Unpacked entries.
pub(super) struct Tarball {
    file: File,
    parts: BTreeMap<String, Part>,
}

/// A temporary file that is deleted when it is closed.
fn temporary() -> io::Result<File> {
    let path = std::env::temp_dir().join(format!("openvibe-import-{}", uuid::Uuid::now_v7()));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

fn fault(name: &str, error: &dyn Display) -> ArchiveFault {
    ArchiveFault::Entry(name.to_owned(), error.to_string())
}

impl Tarball {
    /// Unpacks the entries that `wants` accepts.
    ///
    /// # Errors
    /// `Entry` for a file that cannot be read, `TooManyEntries`, or `TooLarge`.
    pub(super) fn unpack(
        reader: impl Read,
        archive_bytes_max: u64,
        wants: &dyn Fn(&str) -> bool,
    ) -> Result<Self, ArchiveFault> {
        let whole = "the archive";
        let mut file = temporary().map_err(|e| fault("a temporary file", &e))?;
        let compressed = Rc::new(Cell::new(0));
        let counted = Counted {
            reader: BufReader::with_capacity(BUFFER_BYTES, reader),
            bytes: Rc::clone(&compressed),
        };
        let left = Rc::new(Cell::new(HEADERS_BYTES_MAX));
        let mut tar = tar::Archive::new(Bounded {
            reader: GzDecoder::new(counted),
            left: Rc::clone(&left),
        });
        let (mut parts, mut start, mut stated, mut n) = (BTreeMap::new(), 0_u64, 0_u64, 0_usize);
        let mut names_bytes = 0;
        let bytes_max = archive_bytes_max.saturating_mul(TOTAL_RATIO_MAX);
        let mut buffer = vec![0; BUFFER_BYTES];
        for entry in tar.entries().map_err(|e| fault(whole, &e))? {
            let mut entry = entry.map_err(|e| fault(whole, &e))?;
            n += 1;
            if n > ENTRIES_MAX {
                return Err(ArchiveFault::TooManyEntries);
            }
            // Entries that are skipped are read, too.
            stated = stated.saturating_add(entry.size());
            if stated > bytes_max {
                return Err(ArchiveFault::TooLarge);
            }
            let name = String::from_utf8_lossy(&entry.path_bytes()).replace('\0', "");
            let name = name.trim_start_matches("./").to_owned();
            // The rest of the entry is read before the headers of the next one.
            let packed = entry.header().entry_size().unwrap_or(0).max(entry.size());
            left.set(packed.saturating_add(HEADERS_BYTES_MAX));
            if !entry.header().entry_type().is_file() || !wants(&name) {
                continue;
            }
            let mut size = 0_u64;
            loop {
                let len = entry.read(&mut buffer).map_err(|e| fault(&name, &e))?;
                if len == 0 {
                    break;
                }
                size += len as u64;
                let total = start + size;
                let is_bomb = total > RATIO_FREE_BYTES && total / RATIO_MAX > compressed.get();
                if total > bytes_max || is_bomb {
                    return Err(ArchiveFault::TooLarge);
                }
                file.write_all(&buffer[..len])
                    .map_err(|e| fault(&name, &e))?;
            }
            names_bytes += name.len();
            if names_bytes > NAMES_BYTES_MAX {
                return Err(ArchiveFault::TooManyEntries);
            }
            parts.insert(name, Part { start, size });
            start += size;
        }
        Ok(Self { file, parts })
    }

    /// Names of the entries, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.keys().map(String::as_str)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.parts.contains_key(name)
    }

    /// Size of an entry; `None` if there is none.
    pub(super) fn size_of(&self, name: &str) -> Option<u64> {
        self.parts.get(name).map(|part| part.size)
    }

    /// Calls `read` with the bytes of an entry, of which there are at most `bytes_max`.
    ///
    /// # Errors
    /// `Missing`, or `Entry` if it cannot be read, or is larger, or `read` fails.
    pub(super) fn with_entry<T>(
        &mut self,
        name: &str,
        bytes_max: u64,
        read: impl FnOnce(&mut dyn Read) -> Result<T, String>,
    ) -> Result<T, ArchiveFault> {
        let part = self.parts.get(name).copied();
        let part = part.ok_or_else(|| ArchiveFault::Missing(name.to_owned()))?;
        if part.size > bytes_max {
            let text = format!("the entry is larger than {bytes_max} bytes");
            return Err(fault(name, &text));
        }
        self.file
            .seek(SeekFrom::Start(part.start))
            .map_err(|e| fault(name, &e))?;
        let mut bounded = BufReader::with_capacity(BUFFER_BYTES, &self.file).take(part.size);
        read(&mut bounded).map_err(|e| fault(name, &e))
    }

    /// The bytes of an entry.
    ///
    /// # Errors
    /// `Missing`, or `Entry` if it cannot be read, or is larger.
    pub(super) fn bytes(&mut self, name: &str, bytes_max: u64) -> Result<Vec<u8>, ArchiveFault> {
        self.with_entry(name, bytes_max, |reader| {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).map_err(|e| e.to_string())?;
            Ok(bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn packed(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (name, bytes) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            tar.append_data(&mut header, name, *bytes).unwrap();
        }
        let mut link = tar::Header::new_gnu();
        link.set_entry_type(tar::EntryType::Symlink);
        link.set_size(0);
        tar.append_link(&mut link, "link", "/etc/passwd").unwrap();
        tar.into_inner().unwrap().finish().unwrap()
    }

    #[test]
    fn wanted_files_are_read_in_any_order_and_links_are_not() {
        let archive = packed(&[("a/one", b"1"), ("a/two", b"22"), ("a/three", b"333")]);
        assert!(is_gzip(&mut archive.as_slice()));
        let wants = |name: &str| name != "a/two";
        let mut tarball = Tarball::unpack(archive.as_slice(), 1 << 20, &wants).unwrap();
        let names: Vec<&str> = tarball.names().collect();
        assert_eq!(names, ["a/one", "a/three"]);
        assert_eq!(tarball.bytes("a/three", 10).unwrap(), b"333");
        assert_eq!(tarball.bytes("a/one", 10).unwrap(), b"1");
        assert!(tarball.bytes("a/three", 2).is_err());
        assert!(tarball.bytes("link", 10).is_err());
    }

    #[test]
    fn a_name_that_is_too_long_is_not_read() {
        let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        let name = vec![b'x'; 2 << 20];
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::GNULongName);
        header.set_path("long").unwrap();
        header.set_size(name.len() as u64);
        header.set_cksum();
        tar.append(&header, name.as_slice()).unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_path("short").unwrap();
        header.set_size(0);
        header.set_cksum();
        tar.append(&header, io::empty()).unwrap();
        let archive = tar.into_inner().unwrap().finish().unwrap();
        let unpacked = Tarball::unpack(archive.as_slice(), 1 << 30, &|_| true);
        assert!(matches!(unpacked, Err(ArchiveFault::Entry(..))));
    }

    #[test]
    fn an_archive_that_unpacks_to_too_much_is_refused() {
        let zeros = vec![0; 1 << 20];
        let archive = packed(&[("zeros", &zeros)]);
        let unpacked = Tarball::unpack(archive.as_slice(), 1000, &|_| true);
        assert!(matches!(unpacked, Err(ArchiveFault::TooLarge)));
    }
}
