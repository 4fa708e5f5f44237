//! The job that writes exports.

use std::collections::HashMap;

use uuid::Uuid;

use super::{
    error::ExportError,
    row::{self, ExportRow},
    target::{StoredArchive, Target},
    writer::{Exporter, TURN_PIECES, Writer},
};
use crate::{
    agents::AgentError,
    auth::AuthError,
    db::Conn,
    files::FileError,
    ids::{ExportId, WorkspaceId},
};

/// Number of errors in a row without progress after which an export fails.
const ERRORS_MAX: u32 = 5;
/// Maximum number of exports from which the next one is selected.
const SELECTED_MAX: i64 = 1000;

/// Errors of exports on this node since their last progress, each with the size of its archive.
#[derive(Debug, Default)]
pub struct ExportErrors(HashMap<ExportId, (u32, i64)>);

impl ExportErrors {
    fn count(&self, id: ExportId) -> u32 {
        self.0.get(&id).map_or(0, |(count, _)| *count)
    }

    /// Counts an error of an export whose archive had this size. Returns the number of errors at this size.
    fn add(&mut self, id: ExportId, size_bytes: i64) -> u32 {
        let same = self.0.get(&id).filter(|(_, size)| *size == size_bytes);
        let count = same.map_or(0, |(count, _)| *count).saturating_add(1);
        self.0.insert(id, (count, size_bytes));
        count
    }
}

impl Exporter {
    /// Works for a turn on the export that has waited longest for it. Returns false if there is none.
    ///
    /// # Errors
    /// Only errors after which the export can continue.
    pub async fn work(&self, errors: &mut ExportErrors) -> Result<bool, ExportError> {
        let running = row::list_running(&mut self.db.read().await?, SELECTED_MAX).await?;
        errors.0.retain(|id, _| running.contains(id));
        let next = running.iter().min_by_key(|id| errors.count(**id));
        let Some(id) = next.copied() else {
            return Ok(false);
        };
        let Some(row) = row::find(&mut self.db.read().await?, id).await? else {
            return Ok(true);
        };
        let workspace = row.workspace_id;
        let written = Box::pin(self.write(&row)).await;
        match written {
            Err(_) if self.shutdown.is_cancelled() => Ok(true),
            Ok(()) | Err(ExportError::Stopped) => Ok(true),
            Err(e) if is_of_storage(&e) => {
                if errors.add(id, row.size_bytes) < ERRORS_MAX
                    || self.db.check_writers().await.is_err()
                {
                    return Err(e);
                }
                self.fail(workspace, id, &e).await?;
                Ok(true)
            }
            Err(e) => {
                self.fail(workspace, id, &e).await?;
                Ok(true)
            }
        }
    }

    async fn fail(
        &self,
        workspace: WorkspaceId,
        id: ExportId,
        e: &ExportError,
    ) -> Result<(), ExportError> {
        let problem = if matches!(e, ExportError::NotAdmin | ExportError::LowDiskSpace(_)) {
            e.to_string()
        } else {
            tracing::warn!(error = %e, export = %id, "an export failed");
            "The archive could not be written.".to_owned()
        };
        self.db
            .write(workspace.0, async move |c: &mut Conn| {
                Ok::<_, ExportError>(row::fail(c, id, problem.clone()).await?)
            })
            .await
    }

    async fn write(&self, row: &ExportRow) -> Result<(), ExportError> {
        let (id, attempt) = (row.id, Uuid::now_v7());
        let row = self
            .db
            .write(row.workspace_id.0, async move |c: &mut Conn| {
                row::begin(c, id, attempt).await
            })
            .await?;
        let target = Target::Stored(Box::new(StoredArchive {
            db: self.db.clone(),
            blobs: self.blobs.clone(),
            workspace: row.workspace_id,
            id,
            attempt,
            entries: row.entries,
        }));
        let mut writer = Writer {
            exporter: self.clone(),
            view: row.view(),
            target,
            place: row.place.0.clone(),
            counts: row.counts.0.clone(),
            buffer: Vec::new(),
            start: row.size_bytes.unsigned_abs(),
            entries: Vec::new(),
            turn: Some(TURN_PIECES),
            stored: 0,
        };
        writer.write().await
    }
}

/// Checks for errors after which the export can continue.
fn is_of_storage(e: &ExportError) -> bool {
    matches!(
        e,
        ExportError::Db(_)
            | ExportError::Io(_)
            | ExportError::Auth(AuthError::Db(_))
            | ExportError::Agent(AgentError::Db(_))
            | ExportError::File(
                FileError::Db(_) | FileError::Io(_) | FileError::Bucket(_) | FileError::Expired
            )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_until_an_archive_grows() {
        let (mut errors, id) = (ExportErrors::default(), ExportId::new());
        assert_eq!((errors.add(id, 0), errors.add(id, 0)), (1, 2));
        assert_eq!(errors.add(id, 8), 1);
        assert_eq!(errors.count(id), 1);
    }
}
