//! Schema migrations; `schema` runs them.

use std::borrow::Cow;

use openvibe_sqlite::SqliteConnection;
use sqlx::{
    AssertSqlSafe, PgConnection, SqlSafeStr,
    migrate::{Migration, MigrationType, Migrator},
};

use super::{engine::Engine, error::DbError};

/// SQL text of a migration.
enum Text {
    Common(&'static str),
    /// A separate text for each engine, for features that the engines implement differently, such as full-text search.
    PerEngine {
        sqlite: &'static str,
        postgres: &'static str,
    },
}

impl Text {
    fn of(&self, engine: Engine) -> &'static str {
        match (self, engine) {
            (Self::Common(sql), _)
            | (Self::PerEngine { sqlite: sql, .. }, Engine::Sqlite)
            | (Self::PerEngine { postgres: sql, .. }, Engine::Postgres) => sql,
        }
    }
}

/// A migration with the same text for both engines.
macro_rules! common {
    ($version:literal, $name:literal) => {
        (
            $version,
            $name,
            Text::Common(include_str!(concat!(
                "../../migrations/",
                $version,
                "_",
                $name,
                ".sql"
            ))),
        )
    };
}

/// A migration with a separate text for each engine.
macro_rules! per_engine {
    ($version:literal, $name:literal) => {
        (
            $version,
            $name,
            Text::PerEngine {
                sqlite: include_str!(concat!(
                    "../../migrations/sqlite/",
                    $version,
                    "_",
                    $name,
                    ".sql"
                )),
                postgres: include_str!(concat!(
                    "../../migrations/postgres/",
                    $version,
                    "_",
                    $name,
                    ".sql"
                )),
            },
        )
    };
}

/// Version, name, and text of each migration; never edited after a release.
const MIGRATIONS: &[(i64, &str, Text)] = &[
    common!(20_261_127_160_000, "create_schema"),
    per_engine!(20_261_127_160_100, "create_search"),
    common!(20_261_127_201_000, "create_inbox"),
    per_engine!(20_261_127_201_100, "open_unread_mentions"),
    common!(20_261_127_206_000, "create_certificates"),
    common!(20_261_128_000_100, "index_asked_items"),
    common!(20_261_128_000_200, "add_group_mentions"),
    common!(20_261_128_010_100, "create_probes"),
    common!(20_261_128_020_100, "add_erasure_progress"),
    common!(20_261_128_020_200, "add_client_id_age"),
    common!(20_261_128_030_100, "add_sign_in_flows"),
    per_engine!(20_261_128_030_200, "add_actor_kind"),
    common!(20_261_128_030_300, "create_factors"),
    common!(20_261_128_050_100, "create_mails"),
    common!(20_261_128_060_100, "create_hooks"),
    common!(20_261_128_070_100, "create_push"),
    common!(20_261_128_080_100, "create_identity_providers"),
    common!(20_261_128_100_100, "create_hook_requests"),
    common!(20_261_128_110_100, "create_bot_keys"),
    common!(20_261_128_120_100, "suspend_members"),
    common!(20_261_128_120_101, "create_scim"),
    common!(20_261_128_150_100, "add_missed_mails"),
    common!(20_261_128_150_200, "add_sign_in_demands"),
    common!(20_261_128_160_000, "create_thread_removals"),
    common!(20_261_128_160_100, "add_thread_title_sources"),
    common!(20_261_128_170_000, "add_bot_rights"),
    per_engine!(20_261_128_180_100, "make_room_in_search"),
    common!(20_261_128_180_200, "add_member_status"),
    common!(20_261_128_180_300, "create_imports"),
    common!(20_261_128_180_400, "create_member_merges"),
    common!(20_261_129_010_100, "create_exports"),
    common!(20_261_129_020_100, "create_bot_subscriptions"),
    common!(20_261_129_020_200, "create_bot_sockets"),
    common!(20_261_129_020_300, "create_bot_commands"),
    common!(20_261_129_030_000, "add_guests"),
    common!(20_261_129_040_000, "create_documents"),
    common!(20_261_129_040_100, "create_collections"),
    per_engine!(20_261_129_040_200, "create_passage_index"),
    common!(20_261_129_050_000, "add_thread_variants"),
    common!(20_261_129_060_100, "add_provider_failures"),
    common!(20_261_129_070_100, "add_checklist"),
    common!(20_261_129_080_100, "add_claims"),
    common!(20_261_129_080_200, "create_bot_responses"),
    common!(20_261_129_080_300, "create_button_presses"),
    common!(20_261_129_080_400, "create_pins"),
    common!(20_261_129_080_500, "add_hook_creators"),
    common!(20_261_129_080_600, "add_import_path"),
    common!(20_261_129_080_700, "attach_collections"),
    common!(20_261_129_090_000, "create_skills"),
    common!(20_261_129_090_100, "create_emoji"),
    common!(20_261_129_090_200, "add_import_digest"),
    common!(20_261_129_090_300, "add_file_descriptions"),
    common!(20_261_129_090_700, "add_collection_versions"),
    common!(20_261_129_090_701, "add_collection_erasure"),
    common!(20_261_129_110_100, "create_task_steers"),
    common!(20_261_130_100_000, "create_meaning"),
    common!(20_261_130_120_000, "create_runners"),
    common!(20_261_130_130_000, "add_runner_programs"),
    common!(20_261_130_131_000, "create_repository_reads"),
    common!(20_261_130_140_200, "index_forks_and_resolutions"),
    common!(20_261_130_161_000, "add_late_turns"),
    common!(20_261_130_161_100, "count_code_texts"),
    per_engine!(20_261_201_100_200, "create_scim_emails"),
    common!(20_261_201_101_500, "create_missing_methods"),
];

pub(super) fn migrator(engine: Engine) -> Migrator {
    let list = MIGRATIONS
        .iter()
        .map(|(version, name, sql)| {
            Migration::new(
                *version,
                Cow::Borrowed(*name),
                MigrationType::Simple,
                AssertSqlSafe(sql.of(engine)).into_sql_str(),
                false,
            )
        })
        .collect();
    Migrator::with_migrations(list)
}

/// Oldest version that this program knows.
pub(super) fn oldest() -> i64 {
    MIGRATIONS
        .iter()
        .map(|(version, ..)| *version)
        .min()
        .unwrap_or(0)
}

/// Newest version that this program knows.
pub(super) fn newest() -> i64 {
    MIGRATIONS
        .iter()
        .map(|(version, ..)| *version)
        .max()
        .unwrap_or(0)
}

/// Migrates an empty database up to a version.
pub(super) async fn sqlite_to(c: &mut SqliteConnection, version: i64) -> Result<(), DbError> {
    Ok(migrator(Engine::Sqlite).run_to(version, c).await?)
}

/// Like `sqlite_to`, but within a transaction.
pub(super) async fn postgres_to(c: &mut PgConnection, version: i64) -> Result<(), DbError> {
    Ok(migrator(Engine::Postgres).run_to(version, c).await?)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    #[test]
    fn every_file_is_a_migration_with_a_version_of_its_own() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        let mut files = BTreeSet::new();
        for of_engine in ["", "sqlite", "postgres"] {
            let entries = fs::read_dir(folder.join(of_engine)).unwrap();
            let paths = entries.map(|entry| entry.unwrap().path());
            let found = paths.filter(|path| path.extension().is_some_and(|kind| kind == "sql"));
            files.extend(found.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()));
        }
        let known = MIGRATIONS.iter();
        let known = known.map(|(version, name, _)| format!("{version}_{name}.sql"));
        assert_eq!(known.collect::<BTreeSet<String>>(), files);
        let mut versions: Vec<i64> = MIGRATIONS.iter().map(|(version, ..)| *version).collect();
        let listed = versions.clone();
        versions.sort_unstable();
        versions.dedup();
        assert_eq!(versions, listed);
    }
}
