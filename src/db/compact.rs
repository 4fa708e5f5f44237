//! Rewriting the `SQLite` file without the space of deleted rows, which the engine otherwise keeps for later ones.
//!
//! The new file is complete and on the disk before it replaces the old one. `vacuum` alone would need the whole database in memory,
//! because that is where temporary tables are.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use openvibe_sqlite::SqliteConnection;
use sqlx::Row as _;

use super::{error::DbError, sqlite};

/// A database file that no server uses.
pub struct Compaction {
    path: PathBuf,
    connection: SqliteConnection,
}

impl Compaction {
    /// Opens the file, whose lock the caller holds. The path contains no symbolic link, which the new file would replace.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(path: &Path) -> Result<Self, DbError> {
        Ok(Self {
            path: path.to_owned(),
            connection: sqlite::options(path).open()?,
        })
    }

    /// Size that the new file will have, in bytes.
    ///
    /// # Errors
    /// Any error from the engine.
    pub fn used_bytes(&mut self) -> Result<u64, DbError> {
        let pages = self.number("pragma page_count")?;
        let free = self.number("pragma freelist_count")?;
        Ok(pages.saturating_sub(free) * self.number("pragma page_size")?)
    }

    fn number(&mut self, sql: &str) -> Result<u64, DbError> {
        let mut found = 0_i64;
        self.connection.each(sql, None, false, &mut |row| {
            found = row.try_get(0)?;
            Ok::<_, sqlx::Error>(())
        })?;
        Ok(u64::try_from(found).unwrap_or_default())
    }

    /// Replaces the file, and returns its new size in bytes.
    ///
    /// # Errors
    /// If the new file cannot be written; the old one is unchanged.
    pub fn run(self) -> Result<u64, DbError> {
        let new = with_ending(&self.path, ".compact");
        // An interrupted run has left it.
        if let Err(e) = fs::remove_file(&new)
            && e.kind() != io::ErrorKind::NotFound
        {
            return Err(failed(e));
        }
        let replaced = self.replace(&new);
        if replaced.is_err() {
            drop(fs::remove_file(&new));
        }
        replaced
    }

    fn replace(self, new: &Path) -> Result<u64, DbError> {
        let Self {
            path,
            mut connection,
        } = self;
        let name = new
            .to_str()
            .ok_or_else(|| DbError::Start(format!("the path {} is not UTF-8", new.display())))?;
        connection.run("pragma wal_checkpoint(truncate)", None)?;
        let copy = format!("vacuum into '{}'", name.replace('\'', "''"));
        connection.run(&copy, None)?;
        drop(connection);
        // `SQLite` would add the changes in it to the new file.
        let log = with_ending(&path, "-wal");
        if fs::metadata(&log).is_ok_and(|found| found.len() > 0) {
            return Err(DbError::Start(format!(
                "another program has {} open: close it first",
                path.display()
            )));
        }
        put_in_place(new, &path).map_err(failed)
    }
}

fn put_in_place(new: &Path, path: &Path) -> io::Result<u64> {
    fs::set_permissions(new, fs::metadata(path)?.permissions())?;
    let file = File::open(new)?;
    file.sync_all()?;
    let bytes = file.metadata()?.len();
    fs::rename(new, path)?;
    if let Some(dir) = path.parent() {
        File::open(dir)?.sync_all()?;
    }
    Ok(bytes)
}

fn failed(e: io::Error) -> DbError {
    sqlx::Error::Io(e).into()
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(ending);
    PathBuf::from(name)
}
