//! Migrations, recorded in the same table as by sqlx's own driver.

use std::time::{Duration, Instant};

use futures_core::future::BoxFuture;
use sqlx_core::{
    Error,
    arguments::Arguments as _,
    migrate::{AppliedMigration, Migrate, MigrateError, Migration},
    row::Row as _,
};

use crate::{SqliteArguments, SqliteConnection};

impl SqliteConnection {
    fn apply_migration(
        &mut self,
        table: &str,
        migration: &Migration,
    ) -> Result<Duration, MigrateError> {
        let started = Instant::now();
        let Migration { version, sql, no_tx, .. } = migration;
        // The migration and its row are stored together.
        if !no_tx {
            self.run("begin", None)?;
        }
        let applied = self
            .run(sql.as_str(), None)
            .map_err(|e| MigrateError::ExecuteMigration(e, *version))
            .and_then(|_| Ok(self.note_migration(table, migration)?));
        if let Err(e) = applied {
            // The first error is more useful than an error from the rollback.
            drop(self.roll_back());
            return Err(e);
        }
        if !no_tx {
            self.run("commit", None)?;
        }
        let elapsed = started.elapsed();
        let nanoseconds = i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX);
        let mut arguments = SqliteArguments::default();
        arguments.add(nanoseconds).map_err(Error::Encode)?;
        arguments.add(*version).map_err(Error::Encode)?;
        let sql = format!("update {table} set execution_time = $1 where version = $2");
        self.run(&sql, Some(&arguments))?;
        Ok(elapsed)
    }

    fn note_migration(&mut self, table: &str, migration: &Migration) -> Result<(), Error> {
        let mut arguments = SqliteArguments::default();
        arguments.add(migration.version).map_err(Error::Encode)?;
        arguments.add(&*migration.description).map_err(Error::Encode)?;
        arguments.add(&*migration.checksum).map_err(Error::Encode)?;
        let sql = format!(
            "insert into {table} (version, description, success, checksum, execution_time) values ($1, $2, true, $3, -1)"
        );
        self.run(&sql, Some(&arguments))?;
        Ok(())
    }

    fn applied_migrations(&mut self, table: &str) -> Result<Vec<AppliedMigration>, Error> {
        let sql = format!("select version, checksum from {table} order by version");
        let mut applied = Vec::new();
        self.each(&sql, None, false, &mut |row| {
            applied.push(AppliedMigration {
                version: row.try_get(0)?,
                checksum: row.try_get::<Vec<u8>, _>(1)?.into(),
            });
            Ok::<_, Error>(())
        })?;
        Ok(applied)
    }
}

impl Migrate for SqliteConnection {
    /// # Errors
    /// Always, because `SQLite` has no schemas.
    fn create_schema_if_not_exists<'e>(
        &'e mut self,
        schema: &'e str,
    ) -> BoxFuture<'e, Result<(), MigrateError>> {
        let text = format!("cannot create the schema {schema}: SQLite has no schemas");
        Box::pin(async move { Err(MigrateError::CreateSchemasNotSupported(text)) })
    }

    fn ensure_migrations_table<'e>(
        &'e mut self,
        table: &'e str,
    ) -> BoxFuture<'e, Result<(), MigrateError>> {
        Box::pin(async move {
            // `SQLite` stores this text in the file, so it must be identical to the text that sqlx's driver uses.
            self.run(
                &format!(
                    r"
CREATE TABLE IF NOT EXISTS {table} (
    version BIGINT PRIMARY KEY,
    description TEXT NOT NULL,
    installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    success BOOLEAN NOT NULL,
    checksum BLOB NOT NULL,
    execution_time BIGINT NOT NULL
);
                "
                ),
                None,
            )?;
            Ok(())
        })
    }

    fn dirty_version<'e>(
        &'e mut self,
        table: &'e str,
    ) -> BoxFuture<'e, Result<Option<i64>, MigrateError>> {
        Box::pin(async move {
            let sql = format!(
                "select version from {table} where success = false order by version limit 1"
            );
            let mut version = None;
            self.each(&sql, None, false, &mut |row| {
                version = Some(row.try_get(0)?);
                Ok::<_, Error>(())
            })?;
            Ok(version)
        })
    }

    fn list_applied_migrations<'e>(
        &'e mut self,
        table: &'e str,
    ) -> BoxFuture<'e, Result<Vec<AppliedMigration>, MigrateError>> {
        Box::pin(async move { Ok(self.applied_migrations(table)?) })
    }

    /// Does nothing: a file belongs to one process.
    fn lock(&mut self) -> BoxFuture<'_, Result<(), MigrateError>> {
        Box::pin(async { Ok(()) })
    }

    fn unlock(&mut self) -> BoxFuture<'_, Result<(), MigrateError>> {
        Box::pin(async { Ok(()) })
    }

    fn apply<'e>(
        &'e mut self,
        table: &'e str,
        migration: &'e Migration,
    ) -> BoxFuture<'e, Result<Duration, MigrateError>> {
        Box::pin(async move { self.apply_migration(table, migration) })
    }

    /// # Errors
    /// Always, because migrations are never reverted.
    fn revert<'e>(
        &'e mut self,
        _table: &'e str,
        migration: &'e Migration,
    ) -> BoxFuture<'e, Result<Duration, MigrateError>> {
        let version = migration.version;
        Box::pin(async move { Err(MigrateError::VersionMissing(version)) })
    }
}
