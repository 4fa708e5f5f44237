//! Check `backup`.

use std::{fs, io, os::unix::fs::MetadataExt, path::Path, time::Duration};

use super::{finding::Finding, subject::CheckedServer};
use crate::{
    blocking::blocking,
    config::{BackupTo, Config},
    db::{DatabaseUrl, Db, DbError},
    storage::Bucket,
    time::Timestamp,
    upkeep::{BackupState, choices::Choices},
};

/// Maximum age of the newest backup.
const AGE_MAX: Duration = Duration::from_hours(36);
/// Name of the file whose creation shows that backups can be written.
const PROBE: &str = ".openvibe-probe";

pub(super) async fn check(s: &CheckedServer) -> Finding {
    let db = match s.database() {
        Ok(db) => db,
        Err(finding) => return finding,
    };
    let Some(to) = &s.config.backup_to else {
        return Finding::warning(
            "no backups are made",
            "set OPENVIBE_BACKUP_TO to a directory on another disk, or to s3://BUCKET/PREFIX",
        );
    };
    if s.config.is_quiet {
        return Finding::skipped(
            "this is a quiet copy (OPENVIBE_QUIET=on), which makes no backups by itself",
        );
    }
    match look(s, db).await {
        Ok((mut problems, ok)) => {
            problems.extend(place_problem(s, to).await);
            Finding::of(problems, ok)
        }
        Err(e) => Finding::failed(
            format!("the state of the backups cannot be read ({e})"),
            "check the database",
        ),
    }
}

async fn look(s: &CheckedServer, db: &Db) -> Result<(Vec<Finding>, String), DbError> {
    let mut c = db.read().await?;
    let stored = BackupState::read(&mut c).await?;
    let choices = Choices::read(&mut c).await?;
    drop(c);
    let (mut problems, now) = (Vec::new(), Timestamp::now());
    if let Some(error) = &stored.error {
        problems.push(Finding::failed(
            format!("the newest backup failed ({error})"),
            "correct the cause, then press Back up now in Settings › Server",
        ));
    }
    let age = stored.last.as_ref().map(|last| now.since(last.at));
    let ok = match age {
        None => "the first backup is still to come".to_owned(),
        Some(age) if age > AGE_MAX => {
            problems.push(Finding::failed(
                format!("the newest backup is {} hours old", age.as_secs() / 3600),
                "press Back up now in Settings › Server, and see the log",
            ));
            String::new()
        }
        Some(age) => format!("the newest backup is {} hours old", age.as_secs() / 3600),
    };
    if age.is_none() && stored.error.is_none() && is_old(db).await? {
        problems.push(Finding::failed(
            "there is no backup yet",
            "press Back up now in Settings › Server",
        ));
    }
    if let Some(drill) = &stored.drill {
        if let Some(fault) = &drill.fault {
            problems.push(Finding::failed(
                format!("{} cannot be restored ({fault})", drill.name),
                "make another backup, then press Test a restore in Settings › Server",
            ));
        }
        if let Some(reason) = &drill.skipped {
            problems.push(Finding::warning(
                format!("restoring was not tested ({reason})"),
                "free some space in the data directory",
            ));
        }
    }
    if !choices.key_copied && s.config.data_dir.join("secret.key").exists() {
        problems.push(Finding::warning(
            "backups do not contain secret.key, without which stored keys cannot be read",
            format!(
                "keep a copy of {} in another place, and confirm it in Settings › Server",
                s.config.data_dir.join("secret.key").display()
            ),
        ));
    }
    Ok((problems, ok))
}

/// Checks whether the first account is so old that there should be a backup.
async fn is_old(db: &Db) -> Result<bool, DbError> {
    let first: Option<(Timestamp,)> = db
        .read()
        .await?
        .q("select created_at from users order by created_at limit 1")
        .opt()
        .await?;
    Ok(first.is_some_and(|(at,)| Timestamp::now().since(at) > AGE_MAX))
}

/// Problem of the directory or bucket.
async fn place_problem(s: &CheckedServer, to: &BackupTo) -> Option<Finding> {
    match to {
        BackupTo::Directory(dir) => {
            let (dir, data) = (dir.clone(), s.config.data_dir.clone());
            let has_database = matches!(s.config.database, DatabaseUrl::Sqlite(_));
            let looked = blocking((), move || directory_problem(&dir, &data, has_database));
            looked.await.ok()?
        }
        BackupTo::Bucket(url) => {
            let checked = async { open(url.clone(), &s.config)?.check_writable().await };
            let e = checked.await.err()?;
            Some(Finding::failed(
                format!("{url} cannot be written ({e})"),
                "check OPENVIBE_BACKUP_AWS_* and the rights of the key",
            ))
        }
    }
}

fn open(
    url: crate::storage::BucketUrl,
    config: &Config,
) -> Result<Bucket, crate::storage::BucketError> {
    Bucket::new(url, &config.backup_aws)
}

fn directory_problem(dir: &Path, data: &Path, has_database: bool) -> Option<Finding> {
    let shown = dir.display();
    if let Err(e) = write_probe(dir) {
        return Some(Finding::failed(
            format!("backups cannot be written to {shown} ({e})"),
            "create the directory, and give it to the server's user",
        ));
    }
    let device = |path: &Path| fs::metadata(path).ok().map(|found| found.dev());
    (has_database && device(dir) == device(data)).then(|| {
        Finding::warning(
            format!("backups in {shown} are on the disk of the data"),
            "copy them to another machine, or set OPENVIBE_BACKUP_TO to another disk or s3://BUCKET/PREFIX",
        )
    })
}

fn write_probe(dir: &Path) -> io::Result<()> {
    let path = dir.join(PROBE);
    fs::create_dir_all(dir)?;
    fs::write(&path, b"")?;
    fs::remove_file(&path)
}
