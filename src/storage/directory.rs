//! Files of blobs: `DIRECTORY/HA/HASH.UPLOAD`, where `HA` is the beginning of the hash.

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
    pub upload_id: Uuid,
    pub modified: SystemTime,
}

/// Path of a blob's file.
pub fn path_of(dir: &Path, hash: &str, upload: Uuid) -> PathBuf {
    dir.join(&hash[..2]).join(format!("{hash}.{upload}"))
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
    existing(std::fs::File::open(path_of(
        dir,
        &blob.hash,
        blob.upload_id,
    )))
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

/// Deletes the file of a blob, unless it does not exist.
///
/// # Errors
/// Returns an error if the file cannot be deleted.
pub fn remove(dir: &Path, blob: &Blob) -> io::Result<()> {
    remove_listed(&path_of(dir, &blob.hash, blob.upload_id))
}

/// Checks whether a directory, or one below it, contains files.
///
/// # Errors
/// Returns an error if a directory cannot be read.
pub fn holds_files(dir: &Path) -> io::Result<bool> {
    let Some(entries) = existing(std::fs::read_dir(dir))? else {
        return Ok(false);
    };
    for entry in entries {
        let path = entry?.path();
        if !path.is_dir() || holds_files(&path)? {
            return Ok(true);
        }
    }
    Ok(false)
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

fn parse_name(name: &str) -> Option<(&str, Uuid)> {
    let (hash, upload) = name.split_once('.')?;
    let upload = Uuid::parse_str(upload).ok()?;
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
    fn only_the_file_of_the_removed_upload_is_deleted() {
        let dir = std::env::temp_dir().join(format!("openvibe-directory-{}", Uuid::now_v7()));
        let [first, second] = [1, 2].map(|n| Blob {
            hash: "ab".repeat(32),
            upload_id: Uuid::from_u128(n),
            store: BlobStore::File,
        });
        fs::create_dir_all(&dir).unwrap();
        for blob in [&first, &second] {
            let new = dir.join("new");
            fs::write(&new, "words").unwrap();
            publish(&dir, &new, &blob.hash, blob.upload_id).unwrap();
        }
        fs::write(dir.join("ab").join("notes.txt"), "not a blob").unwrap();
        let mut uploads: Vec<_> = list(&dir)
            .unwrap()
            .iter()
            .map(|file| file.upload_id)
            .collect();
        uploads.sort();
        assert_eq!(uploads, [first.upload_id, second.upload_id]);
        for _ in 0..2 {
            remove(&dir, &first).unwrap();
            assert!(open(&dir, &first).unwrap().is_none());
            assert!(open(&dir, &second).unwrap().is_some());
        }
        fs::remove_dir_all(dir).unwrap();
    }
}
