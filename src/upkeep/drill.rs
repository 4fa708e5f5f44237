//! Proof that a backup can be restored: it is restored into a new `SQLite` database, migrated, checked, and deleted again.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use sha2::{Digest, Sha256};

use super::{size_text, state::DrillResult};
use crate::{
    backup::{self, AgentsAfter},
    db::{DatabaseUrl, Db},
    disk::free_bytes,
    storage::{BlobSettings, directory},
};

/// Number of uploads that are compared with their hash.
const UPLOADS_CHECKED: usize = 100;

impl DrillResult {
    /// True if the backup was restored without a fault.
    pub fn is_good(&self) -> bool {
        self.fault.is_none() && self.skipped.is_none()
    }
}

/// Directory into which backups are restored.
pub fn scratch(data_dir: &Path) -> PathBuf {
    data_dir.join("drill")
}

/// Reason why a backup of this size cannot be restored next to the data: less than two and a half times its size is free.
pub fn lack_of_space(scratch: &Path, bytes: u64) -> Option<String> {
    let needed = bytes.saturating_mul(5) / 2;
    let free = free_bytes(scratch).ok()?;
    (free < needed).then(|| {
        format!(
            "{} of free space are needed in {}, and {} are there",
            size_text(needed),
            scratch.display(),
            size_text(free)
        )
    })
}

/// Restores a backup into an empty directory and checks the result: checksums, the number of rows of each table, the integrity of the
/// database after its migrations, and up to 100 uploads.
///
/// # Errors
/// The first fault.
pub async fn restore(file: &Path, data_dir: &Path) -> anyhow::Result<()> {
    let whole = backup::verify(file)?;
    let database = DatabaseUrl::Sqlite(data_dir.join("openvibe.db"));
    let settings = BlobSettings {
        data_dir: data_dir.to_owned(),
        ..BlobSettings::default()
    };
    std::fs::create_dir_all(data_dir)?;
    // Compares the rows of each table with the index.
    backup::restore(file, whole, &database, &settings, &[], AgentsAfter::Asleep).await?;
    let listener = std::sync::Arc::new(|_| {});
    let db = Db::open(&database, listener).await?;
    let checked = async {
        let mut c = db.read().await?;
        c.q("pragma integrity_check(1)").value::<String>().await
    };
    let integrity = checked.await;
    db.close().await;
    let integrity = integrity?;
    ensure!(integrity == "ok", "the database is damaged: {integrity}");
    check_uploads(&data_dir.join("blobs"))
}

fn check_uploads(blobs: &Path) -> anyhow::Result<()> {
    for stored in directory::list(blobs)?.iter().take(UPLOADS_CHECKED) {
        let bytes = std::fs::read(&stored.path)
            .with_context(|| format!("the upload {} cannot be read", stored.hash))?;
        let hash = hex::encode(Sha256::digest(&bytes));
        ensure!(hash == stored.hash, "the upload {} is damaged", stored.hash);
    }
    Ok(())
}
