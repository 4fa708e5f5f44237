//! A backup before a new version changes the tables of a database with data, so that the old version can be used again.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::Context;

use super::{backups, size_text};
use crate::{
    backup,
    config::{BackupTo, Config},
    db::{
        DatabaseUrl,
        dump::{self, Dump},
    },
    disk::free_bytes,
};

/// Number of these backups that are kept.
const KEPT: usize = 2;
const PREFIX: &str = "before-";
const SUFFIX: &str = ".ovb";

/// Backs up a database whose tables this version will change. Returns the file, or `None` if there is nothing to back up.
///
/// # Errors
/// If there is not enough space, or if the backup fails; the database is unchanged.
pub async fn back_up(config: &Config) -> anyhow::Result<Option<PathBuf>> {
    if !will_migrate(&config.database).await? {
        return Ok(None);
    }
    let file = path(config, env!("CARGO_PKG_VERSION"));
    let dir = file
        .parent()
        .context("the path of a backup has a directory")?;
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    require_space(config, dir)?;
    let partial = file.with_extension("ovb.partial");
    let made = async {
        backups::write(config, &partial).await?;
        backup::verify(&partial).context("the backup differs from what was written")?;
        fs::rename(&partial, &file)?;
        fs::File::open(dir)?.sync_all()?;
        anyhow::Ok(())
    };
    if let Err(e) = made.await {
        drop(fs::remove_file(&partial));
        return Err(e.context("the backup before the update failed: correct the cause, or start once with --no-backup"));
    }
    delete_old(dir)?;
    Ok(Some(file))
}

/// Path of the backup that this version makes before it changes the tables.
pub fn path(config: &Config, version: &str) -> PathBuf {
    let dir = match &config.backup_to {
        Some(BackupTo::Directory(dir)) => dir.clone(),
        Some(BackupTo::Bucket(_)) | None => config.data_dir.join("backups"),
    };
    dir.join(format!("{PREFIX}{version}{SUFFIX}"))
}

/// Checks whether this version will change the tables, without changing anything.
///
/// # Errors
/// If there is not enough space for the backup.
pub async fn check(config: &Config) -> anyhow::Result<bool> {
    let will_migrate = will_migrate(&config.database).await?;
    if will_migrate {
        let file = path(config, env!("CARGO_PKG_VERSION"));
        let found = file.ancestors().skip(1).find(|dir| dir.exists());
        require_space(config, found.unwrap_or(Path::new("/")))?;
    }
    Ok(will_migrate)
}

/// Checks whether the database has people, and tables of an earlier version that this one can change.
async fn will_migrate(database: &DatabaseUrl) -> anyhow::Result<bool> {
    if let DatabaseUrl::Sqlite(path) = database
        && !fs::metadata(path).is_ok_and(|found| found.len() > 0)
    {
        return Ok(false);
    }
    let Ok(mut dump) = Dump::open(database).await else {
        // The start itself reports what is wrong.
        return Ok(false);
    };
    if !dump.has_table("users").await? {
        return Ok(false);
    }
    let version = dump.version().await?;
    Ok(
        (dump::oldest_version()..dump::newest_version()).contains(&version)
            && dump.has_rows("users").await?,
    )
}

/// # Errors
/// If the disk has less free space than the data takes.
fn require_space(config: &Config, dir: &Path) -> anyhow::Result<()> {
    let mut needed = size_of(&config.data_dir.join("blobs")).unwrap_or_default();
    if let DatabaseUrl::Sqlite(path) = &config.database {
        needed += fs::metadata(path).map_or(0, |found| found.len());
    }
    let free = free_bytes(dir)?;
    anyhow::ensure!(
        free >= needed,
        "not enough space for a backup before the update: {} needed, {} free in {}: free some, or start once with --no-backup",
        size_text(needed),
        size_text(free),
        dir.display()
    );
    Ok(())
}

/// Size of all files below a directory.
fn size_of(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let found = entry.metadata()?;
        bytes += if found.is_dir() {
            size_of(&entry.path())?
        } else {
            found.len()
        };
    }
    Ok(bytes)
}

/// Deletes all but the newest of these backups.
fn delete_old(dir: &Path) -> io::Result<()> {
    let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(PREFIX) && name.ends_with(SUFFIX) {
            found.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    found.sort();
    let surplus = found.len().saturating_sub(KEPT);
    for (_, path) in found.iter().take(surplus) {
        fs::remove_file(path)?;
    }
    Ok(())
}
