//! `openvibe backup` and `openvibe restore`.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::{Args, Subcommand};

use super::{
    database::{index_messages, open, open_existing},
    output::{say, say_error},
};
use crate::{
    app::{describe, keyring},
    backup,
    backup::AgentsAfter,
    config::{BackupTo, Config},
    db::{DatabaseUrl, DbError},
    lock, secrets,
    tasks::asleep,
    upkeep::{DrillResult, backups, drill},
};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct BackupCommand {
    #[command(subcommand)]
    test: Option<BackupTest>,
    #[command(flatten)]
    write: WriteBackup,
}

#[derive(Subcommand)]
enum BackupTest {
    /// Restore a backup into a scratch directory, check it, and delete it again; ends with status 1 if it finds a fault
    Drill {
        /// File created by `openvibe backup` [default: the newest one in `OPENVIBE_BACKUP_TO`]
        file: Option<PathBuf>,
    },
}

#[derive(Args)]
struct WriteBackup {
    /// File to write; `-` is standard output
    #[arg(required = true)]
    file: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

#[derive(Args)]
pub(super) struct RestoreCommand {
    /// File created by `openvibe backup`; `-` is standard input
    file: PathBuf,
    /// Do not restore sessions: everyone has to sign in again
    #[arg(long)]
    end_sessions: bool,
    /// Do not restore API keys
    #[arg(long)]
    revoke_keys: bool,
    /// Continue schedules and interrupted tasks with the start of the server, for a move to another machine or database
    #[arg(long)]
    awake: bool,
}

/// A backup that was written, but lacks uploads.
#[derive(Debug, thiserror::Error)]
#[error("{0} uploads of the backup are missing or damaged on this server: see the lines above")]
pub(super) struct Incomplete(usize);

/// Removes an incomplete file when dropped.
struct Unfinished(Option<PathBuf>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            drop(std::fs::remove_file(path));
        }
    }
}

pub(super) async fn backup(config: Config, command: BackupCommand) -> anyhow::Result<()> {
    match (command.test, command.write.file) {
        (Some(BackupTest::Drill { file }), _) => test_restore(&config, file).await,
        (None, Some(file)) => write(config, &file, command.write.force).await,
        (None, None) => anyhow::bail!("name the file to write"),
    }
}

/// Restores a backup into a scratch directory.
async fn test_restore(config: &Config, file: Option<PathBuf>) -> anyhow::Result<()> {
    let file = match (file, &config.backup_to) {
        (Some(file), _) => file,
        (None, Some(BackupTo::Directory(dir))) => newest_backup(dir)?,
        (None, Some(to @ BackupTo::Bucket(_))) => return test_newest(config, to).await,
        (None, None) => anyhow::bail!("name the file, or set OPENVIBE_BACKUP_TO"),
    };
    let scratch = drill::scratch(&config.data_dir);
    std::fs::create_dir_all(&scratch)
        .with_context(|| format!("cannot create {}", scratch.display()))?;
    let size = std::fs::metadata(&file)
        .with_context(|| file.display().to_string())?
        .len();
    let tested = match drill::lack_of_space(&scratch, size) {
        Some(reason) => Err(anyhow::Error::msg(reason)),
        None => drill::restore(&file, &scratch.join("data")).await,
    };
    drop(std::fs::remove_dir_all(&scratch));
    tested.with_context(|| file.display().to_string())?;
    say(&format!(
        "restored {} and compared it: no fault",
        file.display()
    ));
    Ok(())
}

/// Restores the newest backup of this server in its bucket.
async fn test_newest(config: &Config, to: &BackupTo) -> anyhow::Result<()> {
    let db = open_existing(config).await?;
    let tested = backups::test(&db, config, to).await;
    db.close().await;
    let DrillResult {
        name,
        fault,
        skipped,
        ..
    } = tested?;
    if let Some(problem) = fault.or(skipped) {
        anyhow::bail!("{name}: {problem}");
    }
    say(&format!("restored {name} and compared it: no fault"));
    Ok(())
}

/// The newest backup of any server in the directory for backups.
fn newest_backup(dir: &Path) -> anyhow::Result<PathBuf> {
    let mut found = Vec::new();
    let entries =
        std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "ovb") {
            found.push((std::fs::metadata(&path)?.modified()?, path));
        }
    }
    let newest = found.into_iter().max().map(|(_, path)| path);
    newest.with_context(|| format!("there is no backup in {}", dir.display()))
}

async fn write(config: Config, file: &Path, force: bool) -> anyhow::Result<()> {
    if file == Path::new("-") {
        let (mut out, taken) =
            backup::take(&config.database, &config.blob_settings(), std::io::stdout())
                .await
                .map_err(|e| explain(&config.database, e))?;
        out.flush()?;
        return tell(&taken, "standard output", say_error);
    }
    anyhow::ensure!(
        force || !file.exists(),
        "{} exists: choose another name, or replace it with --force",
        file.display()
    );
    let mut name = file.to_owned().into_os_string();
    name.push(".tmp");
    let unfinished = PathBuf::from(name);
    let out = File::create(&unfinished).map_err(|e| cannot_write(file, &e))?;
    let mut guard = Unfinished(Some(unfinished.clone()));
    let out = BufWriter::new(out);
    let (out, taken) = backup::take(&config.database, &config.blob_settings(), out)
        .await
        .map_err(|e| explain(&config.database, e))?;
    let out = out
        .into_inner()
        .map_err(std::io::IntoInnerError::into_error)?;
    out.sync_all()?;
    std::fs::rename(&unfinished, file)?;
    guard.0 = None;
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    File::open(dir.unwrap_or(Path::new(".")))?.sync_all()?;
    tell(&taken, &file.display().to_string(), say)
}

/// A command of root continues as the server's user, who cannot write everywhere.
fn cannot_write(file: &Path, e: &io::Error) -> anyhow::Error {
    let remedy = match e.kind() {
        io::ErrorKind::PermissionDenied => {
            ": name a file where the server's user can write, or write to `-` and redirect it"
        }
        _ => "",
    };
    anyhow::anyhow!("cannot write {}: {e}{remedy}", file.display())
}

/// Adds the remedy if the database failed.
fn explain(database: &DatabaseUrl, error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<DbError>() {
        Ok(e) if e.fault().is_some() => describe(database, "could not be backed up", &e),
        Ok(e) => e.into(),
        Err(error) => error,
    }
}

/// # Errors
/// `Incomplete`.
fn tell(taken: &backup::Taken, to: &str, say: impl Fn(&str)) -> anyhow::Result<()> {
    for warning in &taken.warnings {
        say_error(&format!("openvibe: {warning}"));
    }
    say(&format!(
        "backed up {} rows of {} tables and {} uploads to {to}",
        taken.rows, taken.tables, taken.blobs
    ));
    match taken.warnings.len() {
        0 => Ok(()),
        lost => Err(Incomplete(lost).into()),
    }
}

/// The file to restore.
enum Input {
    File(PathBuf),
    /// A copy of standard input, which is read twice; removed when dropped.
    Copied(
        PathBuf,
        #[expect(dead_code, reason = "removes the copy")] Unfinished,
    ),
}

impl Input {
    /// Standard input is copied next to the data directory, which has room for the restored data.
    fn open(file: &Path, config: &Config) -> anyhow::Result<Self> {
        if file != Path::new("-") {
            return Ok(Self::File(file.to_owned()));
        }
        let mut name = config.data_dir.clone().into_os_string();
        name.push(format!(".restore-{}.ovb", std::process::id()));
        let path = PathBuf::from(name);
        let mut copy = File::options()
            .write(true)
            .create_new(true)
            .open(&path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        let guard = Unfinished(Some(path.clone()));
        std::io::copy(&mut std::io::stdin().lock(), &mut copy)
            .context("cannot read standard input")?;
        Ok(Self::Copied(path, guard))
    }

    fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Copied(path, _) => path,
        }
    }
}

/// Starts what waits in a restored copy.
pub(super) async fn resume(config: Config) -> anyhow::Result<()> {
    let db = open_existing(&config).await?;
    let resumed = asleep::resume(&db).await?;
    db.close().await;
    say(&match resumed {
        Some(tasks) => {
            format!("agents and schedules run again; {tasks} interrupted tasks continue")
        }
        None => "agents and schedules were not asleep".to_owned(),
    });
    Ok(())
}

pub(super) async fn restore(config: Config, command: RestoreCommand) -> anyhow::Result<()> {
    // The backup is verified before the data directory is created.
    let input = Input::open(&command.file, &config)?;
    let file = input.path();
    let whole = backup::verify(file).with_context(|| command.file.display().to_string())?;
    let _directory = lock::lock_directory(&config.data_dir)?;
    let _database = match &config.database {
        DatabaseUrl::Sqlite(path) => {
            if let Some(dir) = path.parent() {
                std::fs::create_dir_all(dir)?;
            }
            Some(lock::lock_database_file(path)?)
        }
        DatabaseUrl::Postgres(_) => None,
    };
    let mut ended = Vec::new();
    if command.end_sessions {
        ended.push(backup::Access::Sessions);
    }
    if command.revoke_keys {
        ended.push(backup::Access::ApiKeys);
    }
    let (place, settings) = (&config.database, config.blob_settings());
    let agents = if command.awake {
        AgentsAfter::Running
    } else {
        AgentsAfter::Asleep
    };
    let restored = backup::restore(file, whole, place, &settings, &ended, agents).await?;
    for (table, rows) in &restored.rows {
        say(&format!("{rows:>10} {table}"));
    }
    say(&format!(
        "restored {} rows of {} tables and {} uploads; the backup was created at {} by version {}",
        restored.rows.values().sum::<u64>(),
        restored.manifest.tables.len(),
        restored.blobs,
        restored.manifest.created_at,
        restored.manifest.program_version
    ));
    if let Some(url) = &config.blobs_url {
        say(&match restored.in_bucket {
            Some(n) => format!("{n} of the uploads are in {url}"),
            None => format!(
                "no upload is in {url} yet: start the server, and then run `openvibe blobs move`"
            ),
        });
    }
    say(if command.end_sessions {
        "sessions were not restored (--end-sessions)"
    } else {
        "sessions in the backup are valid again, including those ended since: use --end-sessions to end all of them"
    });
    say(if command.revoke_keys {
        "API keys were not restored (--revoke-keys)"
    } else {
        "API keys in the backup are valid again, including those deleted since: use --revoke-keys to revoke all of them"
    });
    say("passwords are as in the backup: use `openvibe user reset-password` to replace one");
    // Migrates the tables, too. Without the index, the server would have to build it while people search.
    let db = open(&config).await?;
    index_messages(&db).await?;
    if !secrets::can_open(&mut db.read().await?, &keyring(&config)).await? {
        say(secrets::WRONG_KEY);
    }
    db.close().await;
    say(match agents {
        AgentsAfter::Running => {
            "you can start the server now; clients will reload everything, and interrupted tasks will run again"
        }
        AgentsAfter::Asleep => {
            "you can start the server now; clients will reload everything. Schedules and interrupted tasks wait for `openvibe resume`, \
             or for an admin who presses Start agents in Settings › Server"
        }
    });
    Ok(())
}
