//! `openvibe compact`.

use anyhow::Context;

use super::output::say;
use crate::{
    app::describe,
    config::Config,
    db::{DatabaseUrl, DbError, compact::Compaction},
    disk::free_bytes,
    lock,
    upkeep::size_text,
};

/// Rewrites the `SQLite` file without free space.
pub(super) fn run(config: &Config) -> anyhow::Result<()> {
    let DatabaseUrl::Sqlite(path) = &config.database else {
        anyhow::bail!(
            "the database is on a PostgreSQL server, which uses the space of deleted rows again: `vacuum full` there returns it"
        );
    };
    anyhow::ensure!(
        path.exists(),
        "there is no database at {}: use the settings of the server, such as OPENVIBE_DATA_DIR",
        path.display()
    );
    let _directory = lock::lock_directory(&config.data_dir)?;
    let _database = lock::lock_database_file(path)?;
    let failed = |e: DbError| describe(&config.database, "could not be compacted", &e);
    let file = path.canonicalize()?;
    let mut compaction = Compaction::open(&file).map_err(failed)?;
    let needed = compaction.used_bytes().map_err(failed)?;
    let dir = file.parent().context("a file has a directory")?;
    let free = free_bytes(dir)?;
    anyhow::ensure!(
        free > needed,
        "not enough space for the new file: {} needed, {} free in {}",
        size_text(needed),
        size_text(free),
        dir.display()
    );
    let before = std::fs::metadata(&file)?.len();
    say(&format!(
        "compacting {} ({})",
        file.display(),
        size_text(before)
    ));
    let after = compaction.run().map_err(failed)?;
    say(&format!(
        "it has {} now; you can start the server",
        size_text(after)
    ));
    Ok(())
}
