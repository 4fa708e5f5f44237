//! Where backups are: a directory or a bucket.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use futures::TryStreamExt;
use sha2::{Digest, Sha256};

use super::names::{BackupName, PARTIAL, prefix};
use crate::{
    config::{BackupTo, Config},
    storage::Bucket,
};

/// Size of the pieces in which objects are read.
const PIECE_BYTES: u64 = 8 << 20;

/// A place with the directory in which backups are written before they are complete.
pub(super) struct Place {
    to: To,
    staging: PathBuf,
    cluster: String,
}

enum To {
    Directory(PathBuf),
    Bucket(Bucket),
}

impl Place {
    /// # Errors
    /// If the settings of the bucket are invalid.
    pub(super) fn open(to: &BackupTo, config: &Config, cluster: String) -> anyhow::Result<Self> {
        let (to, staging) = match to {
            BackupTo::Directory(dir) => (To::Directory(dir.clone()), dir.clone()),
            BackupTo::Bucket(url) => (
                To::Bucket(Bucket::new(url.clone(), &config.backup_aws)?),
                config.data_dir.join("backups"),
            ),
        };
        Ok(Self {
            to,
            staging,
            cluster,
        })
    }

    /// Path of the file in which a backup is written.
    pub(super) fn partial(&self, name: &BackupName) -> PathBuf {
        self.staging.join(format!("{}{PARTIAL}", name.text()))
    }

    /// Creates the directory, and deletes what interrupted runs have left there.
    pub(super) fn prepare(&self) -> anyhow::Result<()> {
        let unusable = || format!("cannot write to {}", self.staging.display());
        std::fs::create_dir_all(&self.staging).with_context(unusable)?;
        let own = prefix(&self.cluster);
        for entry in std::fs::read_dir(&self.staging).with_context(unusable)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(&own) && name.ends_with(PARTIAL) {
                std::fs::remove_file(entry.path()).with_context(unusable)?;
            }
        }
        Ok(())
    }

    /// Publishes a verified backup under its name.
    pub(super) async fn publish(&self, partial: &Path, name: &BackupName) -> anyhow::Result<()> {
        match &self.to {
            To::Directory(dir) => {
                std::fs::rename(partial, dir.join(name.text()))?;
                File::open(dir)?.sync_all()?;
            }
            To::Bucket(bucket) => {
                let key = name.text();
                let size = std::fs::metadata(partial)?.len();
                bucket.put_file(&key, partial, size).await?;
                let stored = hash_of_object(bucket, &key, size).await?;
                if stored != hash_of_file(partial)? {
                    bucket.delete(&key).await?;
                    anyhow::bail!("{key} in {} differs from what was sent", bucket.url());
                }
                std::fs::remove_file(partial)?;
            }
        }
        Ok(())
    }

    /// All backups of this cluster with their sizes in bytes, newest first.
    pub(super) async fn list(&self) -> anyhow::Result<Vec<(BackupName, u64)>> {
        let mut found = Vec::new();
        match &self.to {
            To::Directory(dir) => {
                let entries = match std::fs::read_dir(dir) {
                    Ok(entries) => entries,
                    Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(found),
                    Err(e) => {
                        return Err(e).with_context(|| format!("cannot read {}", dir.display()));
                    }
                };
                for entry in entries {
                    let entry = entry?;
                    let name = entry.file_name();
                    if let Some(name) = BackupName::parse(&name.to_string_lossy(), &self.cluster) {
                        found.push((name, entry.metadata()?.len()));
                    }
                }
            }
            To::Bucket(bucket) => {
                let mut objects = bucket.list();
                while let Some(object) = objects.try_next().await? {
                    if let Some(name) = BackupName::parse(&object.key, &self.cluster) {
                        found.push((name, object.size_bytes));
                    }
                }
            }
        }
        found.sort_by(|a, b| b.0.cmp(&a.0));
        Ok(found)
    }

    pub(super) async fn delete(&self, name: &BackupName) -> anyhow::Result<()> {
        match &self.to {
            To::Directory(dir) => std::fs::remove_file(dir.join(name.text()))?,
            To::Bucket(bucket) => bucket.delete(&name.text()).await?,
        }
        Ok(())
    }

    /// Path of a backup, which is first copied into `scratch` if it is in a bucket.
    pub(super) async fn fetch(
        &self,
        name: &BackupName,
        size: u64,
        scratch: &Path,
    ) -> anyhow::Result<PathBuf> {
        let bucket = match &self.to {
            To::Directory(dir) => return Ok(dir.join(name.text())),
            To::Bucket(bucket) => bucket,
        };
        std::fs::create_dir_all(scratch)?;
        let path = scratch.join(name.text());
        let mut file = File::create(&path)?;
        read_object(bucket, &name.text(), size, |piece| file.write_all(piece)).await?;
        Ok(path)
    }
}

async fn read_object(
    bucket: &Bucket,
    key: &str,
    size: u64,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut from = 0;
    while from < size {
        let piece = bucket.get(key, from..size.min(from + PIECE_BYTES)).await?;
        let piece = piece.with_context(|| format!("{key} is gone"))?;
        ensure!(!piece.is_empty(), "{key} is shorter than what was sent");
        from += piece.len() as u64;
        take(&piece)?;
    }
    Ok(())
}

async fn hash_of_object(bucket: &Bucket, key: &str, size: u64) -> anyhow::Result<Vec<u8>> {
    let mut hash = Sha256::new();
    read_object(bucket, key, size, |piece| {
        hash.update(piece);
        Ok(())
    })
    .await?;
    Ok(hash.finalize().to_vec())
}

fn hash_of_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        let n = file.read(&mut piece)?;
        let Some(bytes) = piece.get(..n).filter(|bytes| !bytes.is_empty()) else {
            return Ok(hash.finalize().to_vec());
        };
        hash.update(bytes);
    }
}
