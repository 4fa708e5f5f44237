//! `openvibe export`: writes everything of a workspace to a file on the server's machine, also while the server runs.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

use super::{database::open_existing, output::say};
use crate::{
    config::Config,
    db::Db,
    disk::DiskSpace,
    exports::{ExportFormat, Exporter, FileBytes, Sight, View, write_file},
    files::Blobs,
    ids::{UserId, WorkspaceId},
};

/// Maximum number of workspaces that an error lists.
const LISTED_MAX: i64 = 20;

#[derive(Args)]
pub(super) struct ExportCommand {
    /// File to write, which must not exist
    file: PathBuf,
    /// Short name of the workspace, as in its address [default: the only one]
    #[arg(long)]
    workspace: Option<String>,
    /// Format of the archive: `openvibe`, or `slack` for other products
    #[arg(long, default_value_t = ExportFormat::OpenVibe)]
    format: ExportFormat,
}

pub(super) async fn run(config: Config, command: ExportCommand) -> anyhow::Result<()> {
    let file = &command.file;
    ensure!(
        !file.exists(),
        "{} exists: choose another name",
        file.display()
    );
    let db = open_existing(&config).await?;
    let tracker = TaskTracker::new();
    let written = write(&config, &db, &tracker, &command).await;
    tracker.close();
    tracker.wait().await;
    db.close().await;
    let said = written.with_context(|| format!("cannot write {}", file.display()))?;
    say(&said);
    Ok(())
}

async fn write(
    config: &Config,
    db: &Db,
    tracker: &TaskTracker,
    command: &ExportCommand,
) -> anyhow::Result<String> {
    let workspace = find_workspace(db, command.workspace.as_deref()).await?;
    let blobs = Blobs::open_beside(db, config.blob_settings(), tracker.clone()).await?;
    let exporter = Exporter {
        db: db.clone(),
        blobs,
        // The file is on a disk of the operator's choice.
        disk: DiskSpace::new(Vec::new()),
        shutdown: CancellationToken::new(),
        public_url: config.public_url.clone().unwrap_or_default(),
    };
    let path: &Path = &command.file;
    let view = View {
        workspace,
        sight: Sight::Everything,
        files: FileBytes::Included,
        format: command.format,
        // The lane for slow reads has a share for the operator, too.
        requester: UserId(Uuid::nil()),
    };
    let written = Box::pin(write_file(&exporter, view, path)).await;
    let counts = match written {
        Ok(counts) => counts,
        Err(e) => {
            // It is incomplete.
            drop(std::fs::remove_file(path));
            return Err(e.into());
        }
    };
    let counts: Vec<String> = counts
        .iter()
        .map(|(kind, count)| format!("{count} {}", kind.replace('_', " ")))
        .collect();
    Ok(format!("wrote {}: {}", path.display(), counts.join(", ")))
}

async fn find_workspace(db: &Db, name: Option<&str>) -> anyhow::Result<WorkspaceId> {
    let mut c = db.read().await?;
    let rows: Vec<(WorkspaceId, String)> = match name {
        Some(name) => {
            c.q("select id, slug from workspaces where slug = $1")
                .bind(name.to_owned())
                .all()
                .await?
        }
        None => {
            c.q("select id, slug from workspaces order by id limit $1")
                .bind(LISTED_MAX)
                .all()
                .await?
        }
    };
    match (rows.as_slice(), name) {
        ([(id, _)], _) => Ok(*id),
        ([], None) => bail!("there is no workspace"),
        (_, Some(name)) => bail!("there is no workspace `{name}`"),
        (several, None) => {
            let names: Vec<&str> = several.iter().map(|(_, slug)| slug.as_str()).collect();
            bail!(
                "name one of the workspaces with --workspace: {}",
                names.join(", ")
            )
        }
    }
}
