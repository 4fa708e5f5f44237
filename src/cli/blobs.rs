//! `openvibe blobs move`.

use std::time::{Duration, Instant};

use clap::Subcommand;
use tokio_util::task::TaskTracker;

use super::output::{say, say_error};
use crate::{
    config::Config,
    db::{DatabaseUrl, Db},
    files::{Blobs, Progress},
};

/// Interval between progress lines.
const TOLD_EVERY: Duration = Duration::from_secs(2);

#[derive(Subcommand)]
pub(super) enum BlobsCommand {
    /// Move uploads to where new ones are stored: into the bucket of `OPENVIBE_BLOBS_URL`, or out of the bucket if the variable is
    /// not set
    ///
    /// Can be interrupted and repeated. Needs the `AWS_*` variables in both directions.
    Move,
}

/// Formats a size in MiB for display.
#[expect(clippy::cast_precision_loss, reason = "rounded to a tenth of a MiB")]
fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

pub(super) async fn run(config: &Config, db: &Db, command: BlobsCommand) -> anyhow::Result<()> {
    let BlobsCommand::Move = command;
    let to = match (&config.blobs_url, &config.database) {
        (Some(url), _) => url.to_string(),
        (None, DatabaseUrl::Sqlite(_)) => config.data_dir.display().to_string(),
        (None, DatabaseUrl::Postgres(_)) => "the database".to_owned(),
    };
    let tracker = TaskTracker::new();
    let blobs = Blobs::open_beside(db, config.blob_settings(), tracker.clone()).await?;
    let (mut total, mut told) = (0, Instant::now());
    let moved = blobs.relocate(|progress| match progress {
        Progress::Total { blobs, bytes } => {
            total = blobs;
            let size = mebibytes(bytes.unsigned_abs());
            say(&format!("moving {blobs} uploads ({size}) to {to}"));
        }
        Progress::Moved(moved) => {
            if told.elapsed() >= TOLD_EVERY {
                told = Instant::now();
                let size = mebibytes(moved.bytes);
                say(&format!("{} of {total} uploads ({size})", moved.blobs));
            }
        }
        Progress::Failed { hash, error } => {
            say_error(&format!(
                "openvibe: the upload {hash} was not moved: {error}"
            ));
        }
    });
    let moved = moved.await;
    tracker.close();
    tracker.wait().await;
    let moved = moved?;
    say(&format!(
        "moved {} uploads ({}) to {to}",
        moved.blobs,
        mebibytes(moved.bytes)
    ));
    anyhow::ensure!(
        moved.failed == 0,
        "{} uploads could not be moved: see the errors above",
        moved.failed
    );
    Ok(())
}
