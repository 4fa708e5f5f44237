//! Locks that allow only one process at a time to use a data directory, a `SQLite` file, or a `PostgreSQL` database.
//!
//! File locks are released when the process ends, however it ends. The lock on `PostgreSQL` belongs to a connection,
//! so it is monitored and acquired again if it is lost: see `Guard`.

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use crate::db::{Conn, Db, DbError, Engine};

/// Interval at which the database lock is checked and, if lost, acquired again.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Takes the lock file at `path`. `what` describes the locked object, and `setting` is the setting to change to use
/// another one.
fn lock_file(path: &Path, what: &str, setting: &str) -> anyhow::Result<File> {
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
        .with_context(|| format!("could not open the lock file {}", path.display()))?;
    if file.try_lock().is_err() {
        let owner = std::fs::read_to_string(path).unwrap_or_default();
        anyhow::bail!(
            "{what} is in use by another OpenVibe server (PID {}): stop it, or set {setting}",
            owner.trim()
        );
    }
    // Only informational; the lock works without it, even if the disk is full.
    let noted = file
        .set_len(0)
        .and_then(|()| write!(file, "{}", std::process::id()));
    if let Err(e) = noted {
        tracing::warn!(error = %e, "could not write the lock file {}", path.display());
    }
    Ok(file)
}

/// # Errors
/// A sentence for the operator: another process holds the lock, or it cannot be created.
pub fn lock_directory(dir: &Path) -> anyhow::Result<File> {
    std::fs::create_dir_all(dir)
        .with_context(|| format!("cannot create the data directory {}", dir.display()))?;
    lock_file(
        &dir.join("openvibe.lock"),
        &format!("the data directory {}", dir.display()),
        "OPENVIBE_DATA_DIR",
    )
}

/// Locks a database file. Several data directories may refer to the same file, so its lock is next to it.
///
/// # Errors
/// As for `lock_directory`.
pub fn lock_database_file(path: &Path) -> anyhow::Result<File> {
    // Resolves links to the actual file.
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| {
        let dir = path.parent().and_then(|dir| dir.canonicalize().ok());
        match (dir, path.file_name()) {
            (Some(dir), Some(name)) => dir.join(name),
            _ => path.to_owned(),
        }
    });
    let mut name = real.clone().into_os_string();
    name.push(".lock");
    lock_file(
        &PathBuf::from(name),
        &format!("the database {}", real.display()),
        "OPENVIBE_DATABASE_URL",
    )
}

/// The session that holds the lock on a `PostgreSQL` database. A second process would not deliver events to the
/// sockets of the first one, so it must not start.
pub struct Guard {
    c: Conn,
    /// Process ID and start time of the session on the database server.
    session: (i64, String),
}

impl Guard {
    /// Acquires the lock; returns `None` if another session holds it.
    async fn take(db: &Db) -> Result<Option<Self>, DbError> {
        let mut c = db.lock_session().await?;
        let free: bool = c
            .q("select pg_try_advisory_lock(7310579, 1)")
            .value()
            .await?;
        if !free {
            return Ok(None);
        }
        let session = c
            .q("select cast(pid as bigint), cast(backend_start as text) from pg_stat_activity where pid = pg_backend_pid()")
            .one()
            .await?;
        Ok(Some(Self { c, session }))
    }

    /// # Errors
    /// If another process holds the lock or the database does not respond.
    pub async fn lock(db: &Db) -> anyhow::Result<Option<Self>> {
        if db.engine() == Engine::Sqlite {
            return Ok(None);
        }
        let guard = Self::take(db).await?;
        anyhow::ensure!(
            guard.is_some(),
            "the database is in use by another OpenVibe server: stop it first"
        );
        Ok(guard)
    }

    async fn is_held(&mut self) -> bool {
        let asked = self.c.q("select cast(1 as bigint)").value::<i64>();
        matches!(tokio::time::timeout(LOOK_EVERY * 5, asked).await, Ok(Ok(_)))
    }

    /// Monitors the lock until `shutdown`, and acquires it again if its session was lost because the database server
    /// restarted or the connection failed.
    ///
    /// # Errors
    /// If another process acquired the lock in the meantime: this process must stop.
    pub async fn keep(mut self, db: Db, shutdown: CancellationToken) -> Result<(), ()> {
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            if self.is_held().await {
                continue;
            }
            tracing::warn!(
                "lost the connection that holds the database lock; acquiring the lock again"
            );
            let session = self.session;
            drop(self.c);
            let again = tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                again = retake(&db, &session) => again,
            };
            let Some(guard) = again else {
                tracing::error!(
                    "another OpenVibe server took over the database while it was unreachable; stopping"
                );
                return Err(());
            };
            tracing::info!("acquired the database lock again");
            self = guard;
        }
    }
}

/// Returns `None` if another process holds the lock.
async fn retake(db: &Db, lost: &(i64, String)) -> Option<Guard> {
    loop {
        match Guard::take(db).await {
            Ok(Some(guard)) => return Some(guard),
            // The database server may not have noticed yet that the old session is gone.
            Ok(None) => match end_session(db, lost).await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(e) => tracing::warn!(error = %e, "the database does not respond; retrying"),
            },
            Err(e) => tracing::warn!(error = %e, "the database does not respond; retrying"),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Ends the lost session of this process; returns true if it still existed.
async fn end_session(db: &Db, (pid, began): &(i64, String)) -> Result<bool, DbError> {
    let ended: Option<(bool,)> = db
        .read()
        .await?
        .q("select pg_terminate_backend(pid) from pg_stat_activity where pid = $1 and cast(backend_start as text) = $2")
        .bind(*pid)
        .bind(began.clone())
        .opt()
        .await?;
    Ok(ended.is_some())
}
