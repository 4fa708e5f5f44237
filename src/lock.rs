//! One process at a time on a data directory, a `SQLite` file, and a `PostgreSQL` database.
//!
//! Locks on files go with the process, however it ends. That on `PostgreSQL` goes with its connection, so it is watched and taken
//! again: see `Guard`.

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use crate::db::{Conn, Db, DbError, Engine};

/// How often the lock in the database is looked at, and taken again when it is lost.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Takes the lock file at `path`; `what` says what it stands for, and `setting` what to set to use another.
fn lock_file(path: &Path, what: &str, setting: &str) -> anyhow::Result<File> {
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
        .with_context(|| format!("the lock file {} cannot be opened", path.display()))?;
    if file.try_lock().is_err() {
        let owner = std::fs::read_to_string(path).unwrap_or_default();
        anyhow::bail!(
            "{what} is in use by another OpenVibe (process {}): stop that one, or set {setting}",
            owner.trim()
        );
    }
    // Only for people who look; the lock holds without it, also where the disk is full.
    let noted = file
        .set_len(0)
        .and_then(|()| write!(file, "{}", std::process::id()));
    if let Err(e) = noted {
        tracing::warn!(error = %e, "the lock file {} could not be written", path.display());
    }
    Ok(file)
}

/// # Errors
/// A sentence for the operator: another process has it, or it cannot be made.
pub fn lock_directory(dir: &Path) -> anyhow::Result<File> {
    std::fs::create_dir_all(dir)
        .with_context(|| format!("cannot create the data directory {}", dir.display()))?;
    lock_file(
        &dir.join("openvibe.lock"),
        &format!("the data directory {}", dir.display()),
        "OPENVIBE_DATA_DIR",
    )
}

/// A database file may be named from several data directories, so it has a lock beside it.
///
/// # Errors
/// As for a directory.
pub fn lock_database_file(path: &Path) -> anyhow::Result<File> {
    // The file that is meant, whatever links lead there.
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

/// The session that holds the lock on a `PostgreSQL` database. A second process would deliver no events to the first one's sockets,
/// so it must not start.
pub struct Guard {
    c: Conn,
    /// Of the session at the server: its process and when that began.
    session: (i64, String),
}

impl Guard {
    /// Takes the lock; `None` when another session has it.
    async fn take(db: &Db) -> Result<Option<Self>, DbError> {
        let mut c = db.session().await?;
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
    /// When another process has the lock, or the database does not answer.
    pub async fn lock(db: &Db) -> anyhow::Result<Option<Self>> {
        if db.engine() == Engine::Sqlite {
            return Ok(None);
        }
        let guard = Self::take(db).await?;
        anyhow::ensure!(
            guard.is_some(),
            "the database is in use by another OpenVibe: stop that one first"
        );
        Ok(guard)
    }

    async fn is_held(&mut self) -> bool {
        let asked = self.c.q("select cast(1 as bigint)").value::<i64>();
        matches!(tokio::time::timeout(LOOK_EVERY * 5, asked).await, Ok(Ok(_)))
    }

    /// Watches over the lock until `shutdown`, and takes it again when its session was lost: the server was restarted, or the
    /// connection broke.
    ///
    /// # Errors
    /// When another process took it meanwhile: this one must end.
    pub async fn keep(mut self, db: Db, shutdown: CancellationToken) -> Result<(), ()> {
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            if self.is_held().await {
                continue;
            }
            tracing::warn!("the lock on the database went with its connection; taking it again");
            let session = self.session;
            drop(self.c);
            let again = tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                again = retake(&db, &session) => again,
            };
            let Some(guard) = again else {
                tracing::error!(
                    "another OpenVibe took the database while it did not answer; stopping"
                );
                return Err(());
            };
            tracing::info!("the lock on the database is taken again");
            self = guard;
        }
    }
}

/// `None` when another process has the lock.
async fn retake(db: &Db, lost: &(i64, String)) -> Option<Guard> {
    loop {
        match Guard::take(db).await {
            Ok(Some(guard)) => return Some(guard),
            // The server may not have noticed yet that our old session is gone.
            Ok(None) => match end_session(db, lost).await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(e) => tracing::warn!(error = %e, "the database does not answer; trying again"),
            },
            Err(e) => tracing::warn!(error = %e, "the database does not answer; trying again"),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Ends a session of ours that we lost; whether there was one.
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
