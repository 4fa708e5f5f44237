//! Schema migrations, which run at startup under a lock of the engine.

use std::borrow::Cow;

use sqlx::{
    AssertSqlSafe, PgConnection, PgPool, SqlSafeStr, SqliteConnection, SqlitePool,
    migrate::{Migration, MigrationType, Migrator},
};

use super::{DbError, Engine};

/// SQL text of a migration.
enum Text {
    Common(&'static str),
    /// Different texts for features of one engine, such as full-text search.
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

/// Version, name, and text of each migration; never edited after merging.
const MIGRATIONS: &[(i64, &str, Text)] = &[
    (
        20_261_120_080_000,
        "create_core",
        Text::Common(include_str!(
            "../../migrations/20261120080000_create_core.sql"
        )),
    ),
    (
        20_261_120_110_000,
        "create_forks",
        Text::Common(include_str!(
            "../../migrations/20261120110000_create_forks.sql"
        )),
    ),
    (
        20_261_120_150_000,
        "extend_agents",
        Text::Common(include_str!(
            "../../migrations/20261120150000_extend_agents.sql"
        )),
    ),
    (
        20_261_120_160_000,
        "create_responses",
        Text::Common(include_str!(
            "../../migrations/20261120160000_create_responses.sql"
        )),
    ),
    (
        20_261_120_170_000,
        "create_search",
        Text::PerEngine {
            sqlite: include_str!("../../migrations/sqlite/20261120170000_create_search.sql"),
            postgres: include_str!("../../migrations/postgres/20261120170000_create_search.sql"),
        },
    ),
    (
        20_261_120_180_000,
        "create_files",
        Text::Common(include_str!(
            "../../migrations/20261120180000_create_files.sql"
        )),
    ),
    (
        20_261_120_190_000,
        "create_usage",
        Text::Common(include_str!(
            "../../migrations/20261120190000_create_usage.sql"
        )),
    ),
    (
        20_261_120_191_000,
        "widen_indexes",
        Text::Common(include_str!(
            "../../migrations/20261120191000_widen_indexes.sql"
        )),
    ),
    (
        20_261_120_192_000,
        "create_erasures",
        Text::Common(include_str!(
            "../../migrations/20261120192000_create_erasures.sql"
        )),
    ),
    (
        20_261_121_024_500,
        "create_direct_members",
        Text::Common(include_str!(
            "../../migrations/20261121024500_create_direct_members.sql"
        )),
    ),
    (
        20_261_121_025_000,
        "index_prefixes",
        Text::PerEngine {
            sqlite: include_str!("../../migrations/sqlite/20261121025000_index_prefixes.sql"),
            postgres: include_str!("../../migrations/postgres/20261121025000_index_prefixes.sql"),
        },
    ),
    (
        20_261_121_025_007,
        "create_follows",
        Text::Common(include_str!(
            "../../migrations/20261121025007_create_follows.sql"
        )),
    ),
    (
        20_261_121_030_000,
        "create_known_clients",
        Text::Common(include_str!(
            "../../migrations/20261121030000_create_known_clients.sql"
        )),
    ),
    (
        20_261_121_030_643,
        "create_agent_refreshes",
        Text::Common(include_str!(
            "../../migrations/20261121030643_create_agent_refreshes.sql"
        )),
    ),
    (
        20_261_121_031_000,
        "add_handoffs_to_bindings",
        Text::Common(include_str!(
            "../../migrations/20261121031000_add_handoffs_to_bindings.sql"
        )),
    ),
    (
        20_261_121_031_400,
        "add_stand_ins",
        Text::Common(include_str!(
            "../../migrations/20261121031400_add_stand_ins.sql"
        )),
    ),
    (
        20_261_121_032_500,
        "create_auth_events",
        Text::Common(include_str!(
            "../../migrations/20261121032500_create_auth_events.sql"
        )),
    ),
    (
        20_261_121_033_400,
        "create_workspace_sizes",
        Text::Common(include_str!(
            "../../migrations/20261121033400_create_workspace_sizes.sql"
        )),
    ),
    (
        20_261_121_061_200,
        "create_context_parts",
        Text::Common(include_str!(
            "../../migrations/20261121061200_create_context_parts.sql"
        )),
    ),
    (
        20_261_121_075_500,
        "count_message_bytes",
        Text::Common(include_str!(
            "../../migrations/20261121075500_count_message_bytes.sql"
        )),
    ),
    (
        20_261_121_094_423,
        "count_uploads",
        Text::Common(include_str!(
            "../../migrations/20261121094423_count_uploads.sql"
        )),
    ),
    (
        20_261_121_101_200,
        "reserve_refreshes",
        Text::Common(include_str!(
            "../../migrations/20261121101200_reserve_refreshes.sql"
        )),
    ),
];

fn migrator(engine: Engine) -> Migrator {
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

/// As `sqlite_to`, but within a transaction.
pub(super) async fn postgres_to(c: &mut PgConnection, version: i64) -> Result<(), DbError> {
    Ok(migrator(Engine::Postgres).run_to(version, c).await?)
}

pub(super) async fn run_sqlite(pool: &SqlitePool) -> Result<(), DbError> {
    Ok(migrator(Engine::Sqlite).run(pool).await?)
}

pub(super) async fn run_postgres(pool: &PgPool) -> Result<(), DbError> {
    Ok(migrator(Engine::Postgres).run(pool).await?)
}
