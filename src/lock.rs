//! Locks that allow only one process at a time to use a data directory or a `SQLite` file. They are released when the process
//! ends for any reason.

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::Context;

/// Number of attempts to take a lock, with a pause of `RETRY_AFTER` between them. Several attempts are needed because a process that
/// the previous owner is starting shares the owner's open files, and therefore its locks, for a moment (flock(2)).
const ATTEMPTS: u32 = 25;
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// Locks the file at `path`. `what` describes the locked object, and `setting` is the setting to change to use another one.
fn lock_file(path: &Path, what: &str, setting: &str) -> anyhow::Result<File> {
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
        .with_context(|| format!("could not open the lock file {}", path.display()))?;
    let is_locked = (0..ATTEMPTS).any(|attempt| {
        if attempt > 0 {
            thread::sleep(RETRY_AFTER);
        }
        file.try_lock().is_ok()
    });
    if !is_locked {
        let owner = std::fs::read_to_string(path).unwrap_or_default();
        anyhow::bail!(
            "{what} is in use by another OpenVibe server (PID {}): stop it, or set {setting}",
            owner.trim()
        );
    }
    // The PID is only informational: the lock works without it, even if the disk is full.
    let noted = file
        .set_len(0)
        .and_then(|()| write!(file, "{}", std::process::id()));
    if let Err(e) = noted {
        tracing::warn!(error = %e, "could not write the lock file {}", path.display());
    }
    Ok(file)
}

/// Locks a data directory.
///
/// # Errors
/// A message for the operator if another process holds the lock, or if the directory or the lock file cannot be created.
pub fn lock_directory(dir: &Path) -> anyhow::Result<File> {
    std::fs::create_dir_all(dir)
        .with_context(|| format!("cannot create the data directory {}", dir.display()))?;
    lock_file(
        &dir.join("openvibe.lock"),
        &format!("the data directory {}", dir.display()),
        "OPENVIBE_DATA_DIR",
    )
}

/// ID of the process that uses a data directory; `None` if there is none.
pub fn owner_of(dir: &Path) -> Option<String> {
    let path = dir.join("openvibe.lock");
    let file = File::open(&path).ok()?;
    // Shared, so that several commands can look at the same time.
    match file.try_lock_shared() {
        Ok(()) => None,
        Err(_) => Some(std::fs::read_to_string(&path).unwrap_or_default()),
    }
}

/// Locks a database file. Several data directories may refer to the same file, so the lock is next to the file.
///
/// # Errors
/// As for `lock_directory`.
pub fn lock_database_file(path: &Path) -> anyhow::Result<File> {
    // Symbolic links are resolved to the actual file.
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| {
        let dir = path.parent().and_then(|dir| dir.canonicalize().ok());
        match (dir, path.file_name()) {
            (Some(dir), Some(name)) => dir.join(name),
            _ => path.to_owned(),
        }
    });
    let mut name = real.clone().into_os_string();
    name.push(".lock");
    lock_file(
        &PathBuf::from(name),
        &format!("the database {}", real.display()),
        "OPENVIBE_DATABASE_URL",
    )
}
