//! File permissions of the data. New files get their permissions from the umask, but older installations may have
//! data that other users of the machine can read.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use crate::db::DatabaseUrl;

/// Removes other users' access to the data directory, the uploads, and the `SQLite` database. Logs a warning on
/// failure, because startup must not depend on it.
pub fn restrict_data(data_dir: &Path, database: &DatabaseUrl) {
    let mut paths = vec![data_dir.to_owned(), data_dir.join("blobs")];
    if let DatabaseUrl::Sqlite(file) = database {
        let beside = |end: &str| {
            let mut name: OsString = file.clone().into_os_string();
            name.push(end);
            PathBuf::from(name)
        };
        paths.extend(["", "-wal", "-shm"].map(beside));
    }
    for path in paths {
        match restrict(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(error = %e, "other users of this machine may be able to read {}", path.display());
            }
            _ => {}
        }
    }
}

/// Removes other users' access to a file or directory, unless it belongs to another user.
fn restrict(path: &Path) -> io::Result<()> {
    let found = fs::metadata(path)?;
    let mode = found.permissions().mode() & 0o777;
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    if is_ours && mode & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o700))?;
    }
    Ok(())
}
