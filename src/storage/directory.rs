//! Files of blobs: `DIRECTORY/HA/HASH.UPLOAD`, where `HA` is the beginning of the hash. Earlier versions stored
//! `DIRECTORY/HA/HASH`, which is still read.

use std::{
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use uuid::Uuid;

use super::{Blob, is_hash};

/// A file in the directory.
#[derive(Debug)]
pub struct StoredFile {
    pub path: PathBuf,
    pub hash: String,
    /// `None` for a file of an earlier version.
    pub upload_id: Option<Uuid>,
    pub modified: SystemTime,
}

/// Path of a blob's file.
pub fn path_of(dir: &Path, hash: &str, upload: Uuid) -> PathBuf {
    dir.join(&hash[..2]).join(format!("{hash}.{upload}"))
}

fn earlier_path_of(dir: &Path, hash: &str) -> PathBuf {
    dir.join(&hash[..2]).join(hash)
}

fn existing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Opens the file of a blob. Returns `None` if it does not exist.
///
/// # Errors
/// Returns an error if the file cannot be opened.
pub fn open(dir: &Path, blob: &Blob) -> io::Result<Option<std::fs::File>> {
    let path = path_of(dir, &blob.hash, blob.upload_id);
    match existing(std::fs::File::open(path))? {
        Some(file) => Ok(Some(file)),
        None => existing(std::fs::File::open(earlier_path_of(dir, &blob.hash))),
    }
}

/// Moves a complete file to the location of its upload, durably.
///
/// # Errors
/// Returns an error if the file cannot be moved.
pub fn publish(dir: &Path, from: &Path, hash: &str, upload: Uuid) -> io::Result<()> {
    let to = path_of(dir, hash, upload);
    let parent = to.parent().unwrap_or(dir);
    if !parent.is_dir() {
        std::fs::create_dir_all(parent)?;
        sync(dir)?;
    }
    std::fs::rename(from, &to)?;
    sync(parent)
}

/// Deletes the file of an upload whose row was removed. If the upload has no file of its own, deletes the file of an earlier version
/// with the same hash. Only this row can have used that file, because each later upload has its own.
///
/// # Errors
/// Returns an error if the file cannot be deleted.
pub fn remove(dir: &Path, blob: &Blob) -> io::Result<()> {
    if !remove_upload(dir, &blob.hash, blob.upload_id)? {
        existing(std::fs::remove_file(earlier_path_of(dir, &blob.hash)))?;
    }
    Ok(())
}

/// Deletes the file of an upload to which no row has ever referred. Returns false if the file does not exist.
///
/// # Errors
/// Returns an error if the file cannot be deleted.
pub fn remove_upload(dir: &Path, hash: &str, upload: Uuid) -> io::Result<bool> {
    let removed = existing(std::fs::remove_file(path_of(dir, hash, upload)))?;
    Ok(removed.is_some())
}

/// Lists the files of all blobs. The list is empty if the directory does not exist.
///
/// # Errors
/// Returns an error if the directory cannot be read.
pub fn list(dir: &Path) -> io::Result<Vec<StoredFile>> {
    let mut found = Vec::new();
    let Some(folders) = existing(std::fs::read_dir(dir))? else {
        return Ok(found);
    };
    for folder in folders {
        let folder = folder?;
        if !folder.file_type()?.is_dir() {
            continue;
        }
        for entry in std::fs::read_dir(folder.path())? {
            let entry = entry?;
            let name = entry.file_name();
            let Some((hash, upload_id)) = name.to_str().and_then(parse_name) else {
                continue;
            };
            // The file may have been deleted in the meantime.
            if let Some(about) = existing(entry.metadata())? {
                found.push(StoredFile {
                    path: entry.path(),
                    hash: hash.to_owned(),
                    upload_id,
                    modified: about.modified()?,
                });
            }
        }
    }
    Ok(found)
}

/// Lists the files in a directory of incomplete files, with their modification times. The list is empty if the directory does not
/// exist.
///
/// # Errors
/// Returns an error if the directory cannot be read.
pub fn list_incomplete(dir: &Path) -> io::Result<Vec<(PathBuf, SystemTime)>> {
    let mut found = Vec::new();
    let Some(entries) = existing(std::fs::read_dir(dir))? else {
        return Ok(found);
    };
    for entry in entries {
        let entry = entry?;
        if let Some(about) = existing(entry.metadata())? {
            found.push((entry.path(), about.modified()?));
        }
    }
    Ok(found)
}

/// Deletes a listed file, unless it was deleted in the meantime.
///
/// # Errors
/// Returns an error if the file cannot be deleted.
pub fn remove_listed(path: &Path) -> io::Result<()> {
    existing(std::fs::remove_file(path))?;
    Ok(())
}

fn parse_name(name: &str) -> Option<(&str, Option<Uuid>)> {
    let (hash, upload) = match name.split_once('.') {
        Some((hash, upload)) => (hash, Some(Uuid::parse_str(upload).ok()?)),
        None => (name, None),
    };
    is_hash(hash).then_some((hash, upload))
}

/// Makes the entries of a directory durable across a power failure.
///
/// # Errors
/// Returns an error if the directory cannot be synced.
pub fn sync(dir: &Path) -> io::Result<()> {
    std::fs::File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::storage::BlobStore;

    #[test]
    fn a_file_of_an_earlier_version_is_used_until_its_row_is_removed() {
        let dir = std::env::temp_dir().join(format!("openvibe-directory-{}", Uuid::now_v7()));
        let [earlier, later, unused] = [1, 2, 3].map(|n| Blob {
            hash: "ab".repeat(32),
            upload_id: Uuid::from_u128(n),
            store: BlobStore::File,
        });
        fs::create_dir_all(dir.join("ab")).unwrap();
        fs::write(earlier_path_of(&dir, &earlier.hash), "words").unwrap();
        let new = dir.join("new");
        fs::write(&new, "words").unwrap();
        publish(&dir, &new, &later.hash, later.upload_id).unwrap();
        let mut uploads: Vec<_> = list(&dir)
            .unwrap()
            .iter()
            .map(|file| file.upload_id)
            .collect();
        uploads.sort();
        assert_eq!(uploads, [None, Some(later.upload_id)]);
        // An upload to which no row has ever referred does not use either file.
        assert!(!remove_upload(&dir, &unused.hash, unused.upload_id).unwrap());
        assert!(open(&dir, &earlier).unwrap().is_some());
        remove(&dir, &later).unwrap();
        assert!(open(&dir, &earlier).unwrap().is_some());
        remove(&dir, &earlier).unwrap();
        assert!(open(&dir, &earlier).unwrap().is_none());
        fs::remove_dir_all(dir).unwrap();
    }
}
