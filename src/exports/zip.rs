//! A zip file that is written from its beginning to its end: entries, then their directory. The sizes of an entry are known before its
//! header is written, so nothing has to be changed later.
//!
//! The crate `zip` keeps the directory in memory and cannot continue a file after a restart.

use std::io::{self, Write};

use flate2::{Compression, Crc, write::DeflateEncoder};
use sha2::{Digest, Sha256};

const LOCAL_HEADER: u32 = 0x0403_4b50;
const DIRECTORY_ENTRY: u32 = 0x0201_4b50;
const LARGE_END: u32 = 0x0606_4b50;
const LARGE_END_LOCATOR: u32 = 0x0706_4b50;
const END: u32 = 0x0605_4b50;
/// Version of the format that readers need, with and without 64-bit sizes.
const VERSION: u16 = 20;
const VERSION_LARGE: u16 = 45;
/// Names are UTF-8.
const FLAGS: u16 = 1 << 11;
/// January 1, 1980, so that equal data makes an equal file.
const DATE: u16 = 0x21;
const LARGE_SIZES: u16 = 1;
/// Size of the record with 64-bit numbers, without its first 12 bytes.
const LARGE_END_BYTES: u64 = 44;

/// Compression of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Stored,
    Deflated,
}

impl Method {
    pub(super) fn code(self) -> u16 {
        match self {
            Self::Stored => 0,
            Self::Deflated => 8,
        }
    }

    pub(super) fn of_code(code: i64) -> Self {
        if code == 0 {
            Self::Stored
        } else {
            Self::Deflated
        }
    }
}

/// An entry of the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ZipEntry {
    pub(super) name: String,
    pub(super) method: Method,
    pub(super) crc: u32,
    pub(super) size_bytes: u64,
    pub(super) packed_bytes: u64,
    /// Position of its header.
    pub(super) start: u64,
    /// SHA-256 of its bytes.
    pub(super) hash: String,
}

/// A 32-bit number; one that is too large is in the extra field.
fn short(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn is_large(n: u64) -> bool {
    n >= u64::from(u32::MAX)
}

fn length(bytes: &[u8]) -> u16 {
    u16::try_from(bytes.len()).unwrap_or(u16::MAX)
}

/// Little-endian numbers.
struct Numbers(Vec<u8>);

impl Numbers {
    fn u16(mut self, n: u16) -> Self {
        self.0.extend_from_slice(&n.to_le_bytes());
        self
    }

    fn u32(mut self, n: u32) -> Self {
        self.0.extend_from_slice(&n.to_le_bytes());
        self
    }

    fn u64(mut self, n: u64) -> Self {
        self.0.extend_from_slice(&n.to_le_bytes());
        self
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }
}

/// The extra field with these 64-bit numbers; empty if there are none.
fn extra(numbers: &[u64]) -> Vec<u8> {
    if numbers.is_empty() {
        return Vec::new();
    }
    let size = u16::try_from(numbers.len() * 8).unwrap_or(u16::MAX);
    let mut field = Numbers(Vec::new()).u16(LARGE_SIZES).u16(size);
    for n in numbers {
        field = field.u64(*n);
    }
    field.0
}

impl ZipEntry {
    /// The header before the bytes of the entry.
    pub(super) fn header(&self) -> Vec<u8> {
        let is_large = is_large(self.size_bytes) || is_large(self.packed_bytes);
        let (version, size, packed, extra) = if is_large {
            let extra = extra(&[self.size_bytes, self.packed_bytes]);
            (VERSION_LARGE, u32::MAX, u32::MAX, extra)
        } else {
            let (size, packed) = (short(self.size_bytes), short(self.packed_bytes));
            (VERSION, size, packed, Vec::new())
        };
        let name = self.name.as_bytes();
        Numbers(Vec::new())
            .u32(LOCAL_HEADER)
            .u16(version)
            .u16(FLAGS)
            .u16(self.method.code())
            .u16(0)
            .u16(DATE)
            .u32(self.crc)
            .u32(packed)
            .u32(size)
            .u16(length(name))
            .u16(length(&extra))
            .bytes(name)
            .bytes(&extra)
            .0
    }

    /// The entry in the directory.
    pub(super) fn directory_entry(&self) -> Vec<u8> {
        let numbers = [self.size_bytes, self.packed_bytes, self.start];
        let large: Vec<u64> = numbers.into_iter().filter(|n| is_large(*n)).collect();
        let extra = extra(&large);
        let version = if large.is_empty() {
            VERSION
        } else {
            VERSION_LARGE
        };
        let name = self.name.as_bytes();
        Numbers(Vec::new())
            .u32(DIRECTORY_ENTRY)
            .u16(VERSION_LARGE)
            .u16(version)
            .u16(FLAGS)
            .u16(self.method.code())
            .u16(0)
            .u16(DATE)
            .u32(self.crc)
            .u32(short(self.packed_bytes))
            .u32(short(self.size_bytes))
            .u16(length(name))
            .u16(length(&extra))
            // No comment; first disk; no attributes.
            .u16(0)
            .u16(0)
            .u16(0)
            .u32(0)
            .u32(short(self.start))
            .bytes(name)
            .bytes(&extra)
            .0
    }
}

/// The end of the file, after a directory with this number of entries.
pub(super) fn end(entries: u64, start: u64, size_bytes: u64) -> Vec<u8> {
    let is_large = entries >= u64::from(u16::MAX) || is_large(start) || is_large(size_bytes);
    let mut out = Numbers(Vec::new());
    if is_large {
        out = out
            .u32(LARGE_END)
            .u64(LARGE_END_BYTES)
            .u16(VERSION_LARGE)
            .u16(VERSION_LARGE)
            .u32(0)
            .u32(0)
            .u64(entries)
            .u64(entries)
            .u64(size_bytes)
            .u64(start)
            .u32(LARGE_END_LOCATOR)
            .u32(0)
            .u64(start + size_bytes)
            .u32(1);
    }
    let count = u16::try_from(entries).unwrap_or(u16::MAX);
    out.u32(END)
        .u16(0)
        .u16(0)
        .u16(count)
        .u16(count)
        .u32(short(size_bytes))
        .u32(short(start))
        .u16(0)
        .0
}

/// The bytes of an entry while they are made.
pub(super) struct Body {
    packer: DeflateEncoder<Vec<u8>>,
    crc: Crc,
    hash: Sha256,
    size_bytes: u64,
}

impl Body {
    pub(super) fn new() -> Self {
        Self {
            packer: DeflateEncoder::new(Vec::new(), Compression::fast()),
            crc: Crc::new(),
            hash: Sha256::new(),
            size_bytes: 0,
        }
    }

    /// # Errors
    /// Only if there is no memory.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.crc.update(bytes);
        self.hash.update(bytes);
        self.size_bytes += bytes.len() as u64;
        self.packer.write_all(bytes)
    }

    /// The entry and its packed bytes.
    ///
    /// # Errors
    /// Same as `write`.
    pub(super) fn finish(self, name: String, start: u64) -> io::Result<(ZipEntry, Vec<u8>)> {
        let packed = self.packer.finish()?;
        let entry = ZipEntry {
            name,
            method: Method::Deflated,
            crc: self.crc.sum(),
            size_bytes: self.size_bytes,
            packed_bytes: packed.len() as u64,
            start,
            hash: hex::encode(self.hash.finalize()),
        };
        Ok((entry, packed))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read};

    use super::*;

    #[test]
    fn a_written_file_can_be_read() {
        let texts = [("a.txt", "one"), ("ö/b.txt", "two two two two two two")];
        let (mut file, mut entries) = (Vec::new(), Vec::new());
        for (name, text) in texts {
            let mut body = Body::new();
            body.write(text.as_bytes()).unwrap();
            let (entry, packed) = body.finish(name.to_owned(), file.len() as u64).unwrap();
            file.extend(entry.header());
            file.extend(packed);
            entries.push(entry);
        }
        let start = file.len() as u64;
        for entry in &entries {
            file.extend(entry.directory_entry());
        }
        let size = file.len() as u64 - start;
        file.extend(end(entries.len() as u64, start, size));
        let mut zip = zip::ZipArchive::new(Cursor::new(file)).unwrap();
        for (name, expected) in texts {
            let mut text = String::new();
            let mut entry = zip.by_name(name).unwrap();
            entry.read_to_string(&mut text).unwrap();
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn large_numbers_are_in_the_extra_field() {
        let entry = ZipEntry {
            name: "a".to_owned(),
            method: Method::Stored,
            crc: 1,
            size_bytes: 1 << 33,
            packed_bytes: 1 << 33,
            start: 1 << 34,
            hash: String::new(),
        };
        assert_eq!(entry.header().len(), 30 + 1 + 20);
        assert_eq!(entry.directory_entry().len(), 46 + 1 + 28);
        assert_eq!(end(1, 1 << 34, 47).len(), 56 + 20 + 22);
        assert_eq!(end(1, 100, 47).len(), 22);
    }
}
