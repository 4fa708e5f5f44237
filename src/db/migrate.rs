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
    common!(20_261_121_164_501, "create_accounts"),
    common!(20_261_121_164_502, "create_agents"),
    common!(20_261_121_164_503, "create_chat"),
    common!(20_261_121_164_504, "create_forks"),
    common!(20_261_121_164_505, "create_tasks"),
    common!(20_261_121_164_506, "create_files"),
    per_engine!(20_261_121_164_507, "create_search"),
    common!(20_261_121_165_500, "create_model_calls"),
    common!(20_261_121_170_600, "create_model_facts"),
    common!(20_261_121_170_700, "add_fallback_reasons"),
    common!(20_261_121_170_900, "create_model_settings"),
    common!(20_261_121_202_000, "add_task_lanes"),
    common!(20_261_121_203_000, "create_memories"),
    common!(20_261_121_233_500, "index_memories"),
    common!(20_261_122_003_000, "create_compactions"),
    common!(20_261_122_032_000, "drop_covered_from_seq"),
    per_engine!(20_261_122_090_000, "create_user_files"),
    common!(20_261_122_091_000, "create_personas"),
    common!(20_261_122_092_000, "create_prompt_profiles"),
    common!(20_261_122_093_000, "expire_memories"),
    common!(20_261_122_094_000, "create_preset_removals"),
    common!(20_261_122_094_500, "index_open_action_items"),
    common!(20_261_122_095_000, "create_adaptation_states"),
    common!(20_261_122_104_500, "add_bare_model"),
    common!(20_261_122_110_000, "create_budgets"),
    common!(20_261_122_160_000, "create_tools"),
    common!(20_261_122_170_000, "create_actions"),
    per_engine!(20_261_122_170_100, "refresh_trust"),
    common!(20_261_122_181_000, "create_task_trees"),
    common!(20_261_122_181_500, "add_key_to_tasks"),
    common!(20_261_122_191_000, "add_briefs"),
    common!(20_261_123_100_000, "create_channel_agents"),
    common!(20_261_123_101_000, "create_schedules"),
    common!(20_261_123_102_000, "create_catch_ups"),
    common!(20_261_123_102_500, "add_collaboration_to_forks"),
    common!(20_261_123_102_700, "create_tree_delegations"),
    common!(20_261_123_104_000, "create_replays"),
    common!(20_261_123_105_000, "create_workflows"),
    common!(20_261_123_105_500, "create_runs"),
    common!(20_261_123_105_700, "let_schedules_start_workflows"),
    common!(20_261_123_106_000, "bind_schedules_to_keys"),
    common!(20_261_123_106_500, "index_active_runs"),
    common!(20_261_124_203_000, "create_nodes"),
    common!(20_261_124_203_500, "add_access_to_events"),
    common!(20_261_124_204_000, "create_revocations"),
    common!(20_261_124_204_500, "create_login_attempts"),
    per_engine!(20_261_124_205_000, "add_store_to_blobs"),
    per_engine!(20_261_125_190_000, "create_action_needs"),
    common!(20_261_125_190_500, "drop_schema_version_from_nodes"),
    common!(20_261_125_200_000, "share_texts_of_versions"),
    common!(20_261_126_040_000, "count_responses"),
    common!(20_261_126_150_000, "index_live_messages"),
    per_engine!(20_261_126_150_500, "cluster_memory_words"),
    common!(20_261_127_020_000, "create_search_backlog"),
    per_engine!(20_261_127_030_000, "add_part_versions"),
    common!(20_261_127_031_000, "create_told_versions"),
    common!(20_261_127_040_000, "add_authors_to_task_taints"),
    common!(20_261_127_060_000, "add_name_skeletons"),
    common!(20_261_127_110_000, "add_rejected_functions"),
    common!(20_261_127_130_000, "add_vendor_members"),
    common!(20_261_127_130_100, "create_response_vendor_members"),
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
