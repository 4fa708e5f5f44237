//! Runs the migrations at startup: on `PostgreSQL` under a lock, so that several processes can start at the same time; a
//! `SQLite` file is used by only one process.
//!
//! A migration expands the schema in one release and contracts it in a later one, so programs of both releases can run on
//! it. `meta.schema_min` is the oldest program version that can use the schema; if this program is not older, unknown
//! migrations are accepted.

use sqlx::migrate::{Migrate, MigrateError};

use super::{
    conn::Conn,
    dialect,
    error::DbError,
    identity::next_id,
    migrate::{migrator, newest, oldest},
};
use crate::release::Version;

/// Table of applied migrations.
const APPLIED: &str = "_sqlx_migrations";

/// Oldest version that can run on the schema, unless a migration sets a newer one.
const FIRST: Version = Version {
    major: 0,
    minor: 1,
    patch: 0,
};

/// Oldest version of the program that can run on the schema with all migrations, and the migration that requires it. A
/// contracting migration raises it.
const SCHEMA_MIN: Requirement = Requirement {
    migration: 20_261_127_160_000,
    program: FIRST,
};

struct Requirement {
    migration: i64,
    program: Version,
}

/// Runs the migrations that the database lacks. On `PostgreSQL`, the session must not have limits.
///
/// # Errors
/// `TooNew` if this program is older than `meta.schema_min`, and `NodeTooOld` if the version of a running node could not
/// use the migrated schema.
pub(super) async fn run(c: &mut Conn) -> Result<(), DbError> {
    if let Some(c) = c.as_pg() {
        // Another process may be migrating; the lock ends with the session.
        sqlx::query("select pg_advisory_lock(7310579, 2)")
            .execute(c)
            .await?;
    }
    let done = run_locked(c).await;
    if let Some(c) = c.as_pg() {
        sqlx::query("select pg_advisory_unlock(7310579, 2)")
            .execute(c)
            .await?;
    }
    done
}

async fn run_locked(c: &mut Conn) -> Result<(), DbError> {
    let mut migrator = migrator(c.engine());
    if let Some(c) = c.as_pg() {
        c.ensure_migrations_table(APPLIED).await?;
    } else if let Some(c) = c.as_lite() {
        c.ensure_migrations_table(APPLIED).await?;
    }
    let applied: Vec<(i64,)> = c
        .q("select version from _sqlx_migrations order by version")
        .all()
        .await?;
    // A database that was migrated before the oldest known migration has a different schema.
    let is_ours = applied.first().is_some_and(|(first,)| *first >= oldest());
    if is_ours {
        let schema_min = read_schema_min(c).await?;
        let program = Version::current();
        if let Some(needed) = schema_min.filter(|needed| *needed > program) {
            return Err(DbError::TooNew { needed, program });
        }
        let mut unknown = applied
            .iter()
            .filter(|(version,)| !migrator.version_exists(*version));
        let are_newer = unknown.all(|(version,)| *version > newest());
        migrator.set_ignore_missing(are_newer && schema_min.is_some());
        refuse_older_nodes(c, schema_min).await?;
        // Raised before the migrations run, so that an older program that starts now does not accept the schema.
        raise_schema_min(c, schema_min).await?;
    }
    let done: Result<(), MigrateError> = if let Some(c) = c.as_pg() {
        migrator.run(c).await
    } else if let Some(c) = c.as_lite() {
        migrator.run(c).await
    } else {
        Ok(())
    };
    done?;
    if !is_ours {
        raise_schema_min(c, None).await?;
    }
    // Sets the first epoch, unless the database already has one.
    c.q("insert into meta (key, value) values ('epoch', $1) on conflict (key) do nothing")
        .bind(next_id(None))
        .run()
        .await?;
    Ok(())
}

async fn read_schema_min(c: &mut Conn) -> Result<Option<Version>, DbError> {
    let stored: Option<(String,)> = c
        .q("select value from meta where key = 'schema_min'")
        .opt()
        .await?;
    stored.map(|(stored,)| parse(&stored)).transpose()
}

fn parse(version: &str) -> Result<Version, DbError> {
    version.parse().map_err(DbError::Start)
}

/// Fails if the migrations of this program raise the required program version while a node of an older version is running.
async fn refuse_older_nodes(c: &mut Conn, stored: Option<Version>) -> Result<(), DbError> {
    if stored.is_none_or(|stored| stored >= SCHEMA_MIN.program) {
        return Ok(());
    }
    let at = dialect::clock(c).await?;
    let running: Vec<(String, String)> = c
        .q("select name, version from nodes where lease_until > $1 order by name, id")
        .bind(at)
        .all()
        .await?;
    for (name, version) in running {
        if parse(&version)? < SCHEMA_MIN.program {
            return Err(DbError::NodeTooOld {
                migration: SCHEMA_MIN.migration,
                needed: SCHEMA_MIN.program.short(),
                name,
                version,
            });
        }
    }
    Ok(())
}

/// Stores the oldest version that can run on the schema of this program, unless `stored` is newer.
async fn raise_schema_min(c: &mut Conn, stored: Option<Version>) -> Result<(), DbError> {
    if stored.is_some_and(|stored| stored >= SCHEMA_MIN.program) {
        return Ok(());
    }
    c.q("insert into meta (key, value) values ('schema_min', $1) on conflict (key) do update set value = excluded.value")
        .bind(SCHEMA_MIN.program.to_string())
        .run()
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Engine;

    #[test]
    fn this_program_can_run_on_its_own_schema() {
        assert!(SCHEMA_MIN.program <= Version::current());
        assert!(migrator(Engine::Postgres).version_exists(SCHEMA_MIN.migration));
    }
}
