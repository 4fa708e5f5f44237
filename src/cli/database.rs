//! The database of commands that do not start the server.

use anyhow::Context;

use super::output::say;
use crate::{
    app::describe,
    config::Config,
    db::{DatabaseUrl, Db},
};

pub(super) async fn open(config: &Config) -> anyhow::Result<Db> {
    if matches!(config.database, DatabaseUrl::Sqlite(_)) {
        std::fs::create_dir_all(&config.data_dir).with_context(|| {
            format!(
                "cannot create the data directory {}",
                config.data_dir.display()
            )
        })?;
    }
    let listener = std::sync::Arc::new(|_| {});
    Db::open_with(&config.database, config.database_options(), listener)
        .await
        .map_err(|e| describe(&config.database, "could not be opened", &e))
}

/// Opens a database that a server has used.
///
/// # Errors
/// If there is no `SQLite` file, for example because the command runs with another data directory than the server.
pub(super) async fn open_existing(config: &Config) -> anyhow::Result<Db> {
    if let DatabaseUrl::Sqlite(path) = &config.database {
        anyhow::ensure!(
            path.exists(),
            "there is no database at {}: use the settings of the server, such as OPENVIBE_DATA_DIR",
            path.display()
        );
    }
    open(config).await
}

/// Brings the search index up to date, and prints the progress.
pub(super) async fn index_messages(db: &Db) -> anyhow::Result<()> {
    let report = |percent| say(&format!("indexed {percent} % of the messages for search"));
    Ok(crate::chat::search::rebuild::bring_up_to_date(db, report).await?)
}
