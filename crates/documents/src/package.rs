//! Archives of Office documents, `OpenDocument`, and books, with limits on what is unpacked.

use std::{
    collections::HashMap,
    io::{Cursor, Read},
};

use encoding_rs::{Encoding, UTF_8};
use zip::{ZipArchive, result::ZipError};

use crate::{
    Reason,
    sink::{Step, Stop},
    xml::{Node, Xml},
};

const ENTRIES_MAX: usize = 2_000;
/// Maximum size of everything that is unpacked.
const UNPACKED_BYTES_MAX: u64 = 200 << 20;
/// Beyond `RATIO_FREE_BYTES`, an entry can be at most this many times larger than it is in the archive.
const RATIO_MAX: u64 = 100;
const RATIO_FREE_BYTES: u64 = 1 << 20;
/// Maximum length of the path of an entry.
const PATH_BYTES_MAX: usize = 1_000;

pub(crate) struct Package<'b> {
    archive: ZipArchive<Cursor<&'b [u8]>>,
    unpacked: u64,
}

/// A reference from one part of an Office document to another.
#[derive(Debug, Clone)]
pub(crate) struct Relation {
    /// Last word of the type, such as `slide`.
    pub(crate) kind: String,
    pub(crate) target: String,
}

impl<'b> Package<'b> {
    pub(crate) fn open(bytes: &'b [u8]) -> Result<Self, Stop> {
        let archive = ZipArchive::new(Cursor::new(bytes)).map_err(|_| Reason::Damaged)?;
        if archive.len() > ENTRIES_MAX {
            return Err(Reason::TooLarge.into());
        }
        Ok(Self {
            archive,
            unpacked: 0,
        })
    }

    /// Unpacks an entry; `None` if there is no such entry.
    pub(crate) fn bytes(&mut self, path: &str) -> Result<Option<Vec<u8>>, Stop> {
        let room = UNPACKED_BYTES_MAX - self.unpacked;
        let entry = match self.archive.by_name(path) {
            Ok(entry) => entry,
            Err(ZipError::FileNotFound) => return Ok(None),
            Err(ZipError::UnsupportedArchive(text)) if text.contains("assword") => {
                return Err(Reason::Encrypted.into());
            }
            Err(_) => return Err(Reason::Damaged.into()),
        };
        let allowed = room.min((entry.compressed_size() * RATIO_MAX).max(RATIO_FREE_BYTES));
        let mut bytes = Vec::new();
        let read = entry.take(allowed + 1).read_to_end(&mut bytes);
        self.unpacked += (bytes.len() as u64).min(room);
        if bytes.len() as u64 > allowed {
            return Err(Reason::TooLarge.into());
        }
        read.map_err(|_| Reason::Damaged)?;
        Ok(Some(bytes))
    }

    /// Checks that all entries together are within the limits, for a library that unpacks them itself.
    pub(crate) fn check_all(&mut self) -> Step {
        for n in 0..self.archive.len() {
            let room = UNPACKED_BYTES_MAX - self.unpacked;
            let Ok(entry) = self.archive.by_index(n) else {
                continue;
            };
            let allowed = room.min((entry.compressed_size() * RATIO_MAX).max(RATIO_FREE_BYTES));
            let read = std::io::copy(&mut entry.take(allowed + 1), &mut std::io::sink());
            let read = read.unwrap_or(0);
            if read > allowed {
                return Err(Reason::TooLarge.into());
            }
            self.unpacked += read;
        }
        Ok(())
    }

    /// Unpacks an entry that is text.
    pub(crate) fn text(&mut self, path: &str) -> Result<Option<String>, Stop> {
        let bytes = self.bytes(path)?;
        Ok(bytes.map(|bytes| {
            let encoding = Encoding::for_bom(&bytes).map_or(UTF_8, |(encoding, _)| encoding);
            encoding.decode(&bytes).0.into_owned()
        }))
    }

    /// Unpacks an entry that the document needs.
    pub(crate) fn required_text(&mut self, path: &str) -> Result<String, Stop> {
        self.text(path)?.ok_or(Stop::Because(Reason::Damaged))
    }

    /// Path of the main part of an Office document; empty if the archive is not one.
    pub(crate) fn main_part(&mut self) -> Result<String, Stop> {
        let relations = self.relations("")?;
        let main = relations
            .into_values()
            .find(|relation| relation.kind == "officeDocument");
        Ok(main.map(|main| main.target).unwrap_or_default())
    }

    /// References of a part, by their IDs. References to other documents are left out.
    pub(crate) fn relations(&mut self, part: &str) -> Result<HashMap<String, Relation>, Stop> {
        let (folder, name) = part.rsplit_once('/').unwrap_or(("", part));
        let slash = if folder.is_empty() { "" } else { "/" };
        let Some(text) = self.text(&format!("{folder}{slash}_rels/{name}.rels"))? else {
            return Ok(HashMap::new());
        };
        let mut all = HashMap::new();
        let mut xml = Xml::new(&text);
        while let Some(node) = xml.next()? {
            let Node::Start(element) = node else { continue };
            let is_external = element.attribute("TargetMode").as_deref() == Some("External");
            let (Some(id), Some(kind), Some(target)) = (
                element.attribute("Id"),
                element.attribute("Type"),
                element.attribute("Target"),
            ) else {
                continue;
            };
            if !is_external {
                let kind = kind.rsplit('/').next().unwrap_or_default().to_owned();
                let target = resolved(folder, &target);
                all.insert(id, Relation { kind, target });
            }
        }
        Ok(all)
    }
}

/// Path of a target that is relative to a folder in the archive.
pub(crate) fn resolved(folder: &str, target: &str) -> String {
    let target = target.split('#').next().unwrap_or_default();
    let mut path: Vec<&str> = match target.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => folder.split('/').filter(|step| !step.is_empty()).collect(),
    };
    for step in target.split('/') {
        match step {
            "" | "." => {}
            ".." => {
                path.pop();
            }
            step => path.push(step),
        }
    }
    let mut path = path.join("/");
    path.truncate(path.floor_char_boundary(PATH_BYTES_MAX));
    path
}
