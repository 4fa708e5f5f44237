//! Backups on a schedule: written under another name, read back against their checksums, and only then published. Old ones are deleted
//! only after that.

use std::{
    fs::File,
    io::BufWriter,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use serde::Serialize;

use super::{
    alerts, drill, in_background,
    names::{self, BackupName, History},
    place::Place,
    state::{self, BackupState, DrillResult, LastBackup, RUN_LEASE},
};
use crate::{
    backup::{self, Taken},
    config::{BackupTo, Config},
    db::{Db, DbError, now},
    nodes,
    server::State,
    time::Timestamp,
};

/// Interval between checks whether a backup is due.
const CHECK_EVERY: Duration = Duration::from_secs(10);
/// Time after which a backup is restored again to prove that this works.
const DRILL_EVERY: Duration = Duration::from_hours(7 * 24);

#[derive(Debug, thiserror::Error)]
pub enum BackupFault {
    #[error(
        "no place for backups is configured: set OPENVIBE_BACKUP_TO to a directory or s3://BUCKET/PREFIX"
    )]
    NoPlace,
    #[error("a backup or a test of one is running: try again when it has ended")]
    Running,
    #[error("there is no backup yet: make one first")]
    NoBackup,
    #[error(transparent)]
    Db(#[from] DbError),
    #[error("{0:#}")]
    Failed(anyhow::Error),
}

/// A complete backup.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ListedBackup {
    pub name: String,
    pub at: Timestamp,
    pub bytes: u64,
    /// Version of the program that made it.
    pub version: String,
    /// True if it was restored without a fault.
    pub drilled: bool,
}

/// A run that has begun. Others can begin when it is dropped or ends.
pub struct Run {
    parts: Arc<Parts>,
}

struct Parts {
    db: Db,
    config: Config,
    to: BackupTo,
}

/// Begins a run, unless one is running on any node.
///
/// # Errors
/// `NoPlace`, `Running`.
pub async fn begin(state: &State) -> Result<Run, BackupFault> {
    let to = state.config.backup_to.clone().ok_or(BackupFault::NoPlace)?;
    if !state::begin(&state.db).await? {
        return Err(BackupFault::Running);
    }
    Ok(Run {
        parts: Arc::new(Parts {
            db: state.db.clone(),
            config: state.config.clone(),
            to,
        }),
    })
}

/// Begins a test of the newest backup, unless something is running on any node.
///
/// # Errors
/// `NoPlace`, `Running`, `NoBackup`.
pub async fn begin_drill(state: &State) -> Result<Run, BackupFault> {
    let stored = BackupState::read(&mut state.db.read().await?).await?;
    let run = begin(state).await?;
    // If the place cannot be read, or the backups are gone, the test reports that.
    if stored.last.is_none() && list(state).await.is_ok_and(|found| found.is_empty()) {
        run.cancel().await;
        return Err(BackupFault::NoBackup);
    }
    Ok(run)
}

/// Lists the backups, newest first.
///
/// # Errors
/// `NoPlace`; `Failed` if the place cannot be read.
pub async fn list(state: &State) -> Result<Vec<ListedBackup>, BackupFault> {
    let to = state
        .config
        .backup_to
        .as_ref()
        .ok_or(BackupFault::NoPlace)?;
    let stored = BackupState::read(&mut state.db.read().await?).await?;
    let drilled = stored.drill.filter(DrillResult::is_good);
    let cluster = nodes::cluster(&state.db).await?;
    let found = async { Place::open(to, &state.config, cluster)?.list().await };
    let found = found.await.map_err(BackupFault::Failed)?;
    let listed = found.into_iter().filter_map(|(name, bytes)| {
        let text = name.text();
        Some(ListedBackup {
            drilled: drilled.as_ref().is_some_and(|drill| drill.name == text),
            at: Timestamp::within_years(name.at)?,
            version: name.version,
            name: text,
            bytes,
        })
    });
    Ok(listed.collect())
}

/// Time of the next backup; `None` without a place, and on a quiet copy.
pub fn next_at(config: &Config, stored: &BackupState, started: Timestamp) -> Option<Timestamp> {
    config.backup_to.as_ref().filter(|_| !config.is_quiet)?;
    let history = History {
        tried_at: stored.tried_at.map(Timestamp::datetime),
        failures: stored.failures,
    };
    let next = names::next_at(
        config.backup_at,
        history,
        started.datetime(),
        now().datetime(),
    );
    Timestamp::within_years(next)
}

/// Makes backups when they are due, until shutdown.
pub async fn run_forever(state: State) {
    let stored = async { BackupState::read(&mut state.db.read().await?).await };
    measure(&stored.await.unwrap_or_default());
    if state.config.backup_to.is_none() || state.config.is_quiet {
        return;
    }
    let started = now();
    loop {
        let pause = tokio::time::sleep(CHECK_EVERY);
        if state.shutdown.run_until_cancelled(pause).await.is_none() {
            return;
        }
        if state.nodes.node.runs_jobs()
            && let Err(e) = run_due(&state, started).await
        {
            tracing::warn!(error = %e, "could not check whether a backup is due; retrying");
        }
    }
}

async fn run_due(state: &State, started: Timestamp) -> Result<(), DbError> {
    let stored = BackupState::read(&mut state.db.read().await?).await?;
    let at = now();
    let is_due = next_at(&state.config, &stored, started).is_some_and(|next| next <= at);
    let drilled = stored.drill.as_ref().map(|drill| drill.at);
    let is_drill_due =
        stored.last.is_some() && drilled.is_none_or(|drilled| drilled + DRILL_EVERY <= at);
    if !is_due && !is_drill_due {
        return Ok(());
    }
    match begin(state).await {
        Ok(run) if is_due => run.back_up().await,
        Ok(run) => run.drill().await,
        Err(BackupFault::Db(e)) => return Err(e),
        // Another node was faster.
        Err(_) => {}
    }
    Ok(())
}

impl Run {
    /// Ends a run that did nothing.
    pub async fn cancel(self) {
        self.end(|_| {}).await;
    }

    /// Makes a backup, deletes expired ones, and stores the result.
    pub async fn back_up(self) {
        let started = now();
        let parts = Arc::clone(&self.parts);
        let made = self.attended(in_background(move || async move { make(&parts).await }));
        let made = made.await;
        let (made, error) = match made {
            Ok(made) => {
                tracing::info!(name = made.name, bytes = made.bytes, "made a backup");
                (Some(made), None)
            }
            Err(e) => {
                tracing::error!(error = %format!("{e:#}"), "the backup failed");
                (None, Some(format!("{e:#}")))
            }
        };
        self.end(move |state| {
            state.tried_at = Some(started);
            state.error.clone_from(&error);
            match &made {
                Some(made) => (state.failures, state.last) = (0, Some(made.clone())),
                None => state.failures += 1,
            }
        })
        .await;
    }

    /// Restores the newest backup into a scratch directory, and stores the result.
    pub async fn drill(self) {
        let parts = Arc::clone(&self.parts);
        let tested = self.attended(in_background(move || async move {
            test(&parts.db, &parts.config, &parts.to).await
        }));
        let result = match tested.await {
            Ok(result) => result,
            Err(e) => DrillResult {
                name: String::new(),
                at: now(),
                fault: Some(format!("{e:#}")),
                skipped: None,
            },
        };
        match (&result.fault, &result.skipped) {
            (Some(fault), _) => {
                tracing::error!(name = result.name, "a backup cannot be restored: {fault}");
            }
            (None, Some(reason)) => {
                tracing::warn!(name = result.name, "the backup was not tested: {reason}");
            }
            (None, None) => tracing::info!(name = result.name, "restored a backup and compared it"),
        }
        self.end(move |state| state.drill = Some(result.clone()))
            .await;
    }

    /// Reports to other nodes that the run continues, until `work` ends.
    async fn attended<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(RUN_LEASE / 4) => {}
            }
            if let Err(e) = state::renew(&self.parts.db).await {
                tracing::warn!(error = %e, "a backup could not report its progress");
            }
        }
    }

    async fn end(&self, change: impl Fn(&mut BackupState) + Clone + Send + Sync + 'static) {
        let ended = state::change(&self.parts.db, move |state| {
            state.running_until = None;
            change(state);
            true
        });
        match ended.await {
            Ok(stored) => {
                let stored = stored.unwrap_or_default();
                measure(&stored);
                if let Err(e) = alerts::look_at_backups(&self.parts.db, &stored).await {
                    tracing::warn!(error = %e, "a notice about backups could not be stored; retrying");
                }
            }
            Err(e) => tracing::warn!(error = %e, "the result of a backup could not be stored"),
        }
    }
}

/// Sets the gauges of the newest backup and its test.
#[expect(clippy::cast_precision_loss, reason = "precise enough for gauges")]
fn measure(stored: &BackupState) {
    let last = stored.last.as_ref();
    metrics::gauge!("openvibe_backup_last_success_timestamp_seconds")
        .set(last.map_or(f64::NAN, |last| last.at.unix_s() as f64));
    let drill = stored.drill.as_ref();
    metrics::gauge!("openvibe_backup_drill_ok")
        .set(drill.map_or(f64::NAN, |drill| f64::from(u8::from(drill.fault.is_none()))));
}

async fn make(parts: &Parts) -> anyhow::Result<LastBackup> {
    let (config, at) = (&parts.config, now());
    let cluster = nodes::cluster(&parts.db).await?;
    let place = Place::open(&parts.to, config, cluster.clone())?;
    place.prepare()?;
    let name = BackupName::new(&cluster, at.datetime());
    let partial = place.partial(&name);
    let guard = Partial(partial.clone());
    let taken = write(config, &partial).await?;
    backup::verify(&partial).context("the backup differs from what was written")?;
    let bytes = std::fs::metadata(&partial)?.len();
    place.publish(&partial, &name).await?;
    drop(guard);
    anyhow::ensure!(
        taken.warnings.is_empty(),
        "{} was made, but lacks uploads: {}",
        name.text(),
        taken.warnings.join("; ")
    );
    let all = place.list().await?.into_iter().map(|(name, _)| name);
    for old in names::expired(all.collect(), config.backup_keep) {
        place.delete(&old).await?;
    }
    Ok(LastBackup {
        name: name.text(),
        at,
        bytes,
    })
}

/// Removes an incomplete backup when dropped. A published one no longer has this name.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// Writes a backup to a new file, and waits until it is on the disk.
pub(super) async fn write(config: &Config, path: &Path) -> anyhow::Result<Taken> {
    let unwritable = || format!("cannot write {}", path.display());
    let file = File::create(path).with_context(unwritable)?;
    let out = BufWriter::new(file);
    let (out, taken) = backup::take(&config.database, &config.blob_settings(), out).await?;
    let file = out
        .into_inner()
        .map_err(std::io::IntoInnerError::into_error)
        .with_context(unwritable)?;
    file.sync_all().with_context(unwritable)?;
    Ok(taken)
}

/// Restores the newest backup of this server into the scratch directory.
///
/// # Errors
/// If there is no backup, or if its place cannot be read.
pub async fn test(db: &Db, config: &Config, to: &BackupTo) -> anyhow::Result<DrillResult> {
    let place = Place::open(to, config, nodes::cluster(db).await?)?;
    let newest = place.list().await?.into_iter().next();
    let (name, bytes) = newest.context("there is no backup yet")?;
    let scratch = drill::scratch(&config.data_dir);
    let result = |fault, skipped| DrillResult {
        name: name.text(),
        at: now(),
        fault,
        skipped,
    };
    std::fs::create_dir_all(&scratch)?;
    if let Some(reason) = drill::lack_of_space(&scratch, bytes) {
        drop(std::fs::remove_dir_all(&scratch));
        return Ok(result(None, Some(reason)));
    }
    let file = place.fetch(&name, bytes, &scratch.join("fetched")).await;
    let tested = match file {
        Ok(file) => drill::restore(&file, &scratch.join("data")).await,
        Err(e) => Err(e),
    };
    drop(std::fs::remove_dir_all(&scratch));
    let fault = tested.err().map(|e| format!("{e:#}"));
    Ok(result(fault, None))
}
