//! Brings the tables up to date at start, under the engine's own lock.

use std::borrow::Cow;

use sqlx::{
    AssertSqlSafe, PgPool, SqlSafeStr, SqlitePool,
    migrate::{Migration, MigrationType, Migrator},
};

use super::DbError;

/// Version, name and text of each migration; never edited once merged.
const MIGRATIONS: &[(i64, &str, &str)] = &[
    (
        20_261_120_080_000,
        "create_core",
        include_str!("../../migrations/20261120080000_create_core.sql"),
    ),
    (
        20_261_120_110_000,
        "create_forks",
        include_str!("../../migrations/20261120110000_create_forks.sql"),
    ),
    (
        20_261_120_150_000,
        "extend_agents",
        include_str!("../../migrations/20261120150000_extend_agents.sql"),
    ),
    (
        20_261_120_160_000,
        "create_responses",
        include_str!("../../migrations/20261120160000_create_responses.sql"),
    ),
];

fn migrator() -> Migrator {
    let list = MIGRATIONS
        .iter()
        .map(|(version, name, sql)| {
            Migration::new(
                *version,
                Cow::Borrowed(*name),
                MigrationType::Simple,
                AssertSqlSafe(*sql).into_sql_str(),
                false,
            )
        })
        .collect();
    Migrator::with_migrations(list)
}

pub(super) async fn run_sqlite(pool: &SqlitePool) -> Result<(), DbError> {
    Ok(migrator().run(pool).await?)
}

pub(super) async fn run_postgres(pool: &PgPool) -> Result<(), DbError> {
    Ok(migrator().run(pool).await?)
}
