//! The job that reads waiting documents, each in a process of its own.

use std::{
    io,
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::StreamExt;
use openvibe_documents::Part;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    event, process,
    rows::{self, Claimed, DocumentReason, DocumentState, Outcome},
};
use crate::{
    db::{Conn, Db, DbError},
    failpoint,
    files::Blobs,
    ids::WorkspaceId,
};

/// Maximum number of processes of this node; fewer on machines with less than eight cores.
const PROCESSES_MAX: usize = 4;
/// Interval between looks for documents that another node queued, or whose process was lost.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Reads the text of files.
#[derive(Clone)]
pub struct DocumentReader {
    db: Db,
    blobs: Blobs,
    program: PathBuf,
    slots: Arc<Semaphore>,
    wake: Arc<Notify>,
    has_read: Arc<Notify>,
}

/// A claimed document, and the permit for its process.
pub struct DocumentTurn {
    claimed: Claimed,
    _slot: OwnedSemaphorePermit,
}

impl DocumentReader {
    /// `program` is this program's own file, which is also the one that reads documents.
    pub fn new(db: Db, blobs: Blobs, program: PathBuf) -> Self {
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            db,
            blobs,
            program,
            slots: Arc::new(Semaphore::new((cores / 2).clamp(1, PROCESSES_MAX))),
            wake: Arc::default(),
            has_read: Arc::default(),
        }
    }

    /// Makes the job look for documents now.
    pub fn wake(&self) {
        self.has_read.notify_one();
        self.wake.notify_one();
    }

    /// Waits until documents may have been queued.
    pub async fn wait(&self) {
        let _ = tokio::time::timeout(LOOK_EVERY, self.wake.notified()).await;
    }

    /// Waits until a file was read or deleted, at most for this time.
    pub async fn wait_for_text(&self, at_most: Duration) {
        let _ = tokio::time::timeout(at_most, self.has_read.notified()).await;
    }

    /// At startup: queues files whose text is missing or was read by an older version, those that a lost server was reading, and those
    /// that could not be read because the system could not restrict the process, if it can now.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn queue_missing(&self) -> Result<(), DbError> {
        self.db
            .write(Uuid::nil(), async |c: &mut Conn| {
                rows::release_lost(c).await
            })
            .await?;
        if self.can_restrict().await {
            while self
                .db
                .write(Uuid::nil(), async |c: &mut Conn| rows::queue_off(c).await)
                .await?
                > 0
            {}
        } else {
            tracing::error!(
                "files are not read, because the system cannot restrict the process that reads them"
            );
        }
        loop {
            let queued = self.db.write(Uuid::nil(), async |c: &mut Conn| {
                rows::queue_missing(c).await
            });
            if queued.await? == 0 {
                return Ok(());
            }
        }
    }

    /// Checks whether the system can restrict the process that reads files, by reading an empty one.
    async fn can_restrict(&self) -> bool {
        let (batches, _received) = mpsc::channel(1);
        let empty = futures::stream::empty().boxed();
        let read = process::read(&self.program, "", empty, batches).await;
        match read {
            Ok(outcome) => outcome.is_some_and(|outcome| outcome.state != DocumentState::Off),
            Err(e) => {
                tracing::error!(error = %e, "the process that reads files does not run");
                false
            }
        }
    }

    /// Takes the text of bytes that are not stored, part by part; `None` if the process could not be started.
    pub async fn text_of(&self, name: &str, bytes: Bytes) -> Option<Vec<Part>> {
        // Closed only with the server.
        let _slot = self.slots.acquire().await.ok()?;
        let (batches, mut received) = mpsc::channel(1);
        let stream = futures::stream::iter([Ok(bytes)]).boxed();
        let collect = async {
            let mut parts: Vec<Part> = Vec::new();
            while let Some(batch) = received.recv().await {
                parts.extend(batch);
            }
            parts
        };
        let read = process::read(&self.program, name, stream, batches);
        let (read, parts) = tokio::join!(read, collect);
        read.ok()?;
        Some(parts)
    }

    /// Claims the next document; `None` if none is due, or this node already reads as many as it can.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn claim(&self) -> Result<Option<DocumentTurn>, DbError> {
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            return Ok(None);
        };
        if !rows::is_any_due(&mut self.db.read().await?).await? {
            return Ok(None);
        }
        let claimed = self
            .db
            .write(Uuid::nil(), async |c: &mut Conn| rows::claim(c).await)
            .await?;
        failpoint!("document_claimed");
        Ok(claimed.map(|claimed| DocumentTurn {
            claimed,
            _slot: slot,
        }))
    }

    /// Reads a claimed document and stores the result. If the server stops, the document returns to the queue.
    pub async fn read(&self, turn: DocumentTurn, shutdown: &CancellationToken) {
        let claimed = &turn.claimed;
        match shutdown.run_until_cancelled(self.try_read(claimed)).await {
            Some(Ok(())) => {}
            Some(Err(e)) => {
                tracing::warn!(error = %e, hash = claimed.hash, "a file could not be read; retrying later");
                self.postpone(claimed.clone()).await;
            }
            None => self.release(claimed.clone()).await,
        }
        drop(turn);
        self.wake();
    }

    async fn release(&self, claimed: Claimed) {
        let released = self.db.write(Uuid::nil(), async move |c: &mut Conn| {
            rows::release(c, &claimed).await
        });
        if let Err(e) = released.await {
            tracing::warn!(error = %e, "a file that was not read stays claimed for some minutes");
        }
    }

    async fn postpone(&self, claimed: Claimed) {
        let postponed = self.db.write(Uuid::nil(), async move |c: &mut Conn| {
            rows::postpone(c, &claimed).await
        });
        if let Err(e) = postponed.await {
            tracing::warn!(error = %e, "a file that was not read stays claimed for some minutes");
        }
    }

    async fn try_read(&self, claimed: &Claimed) -> Result<(), process::ReadError> {
        let outcome = if claimed.is_given_up() {
            Some(Outcome::failed(DocumentReason::Damaged))
        } else {
            let began = Instant::now();
            let outcome = Box::pin(self.outcome(claimed)).await?;
            metrics::histogram!("openvibe_extract_seconds").record(began.elapsed());
            outcome
        };
        let Some(outcome) = outcome else {
            return Ok(());
        };
        let (kind, state) = (outcome.kind.as_str(), outcome.state.as_str());
        metrics::counter!("openvibe_extract_total", "kind" => kind, "state" => state).increment(1);
        failpoint!("document_read");
        let mut workspaces = {
            let mut c = self.db.read().await?;
            rows::list_workspaces(&mut c, &claimed.hash).await?
        };
        // The result is stored together with the events of the first workspace.
        let first = workspaces.pop().unwrap_or_default();
        let (claim, hash) = (claimed.clone(), claimed.hash.clone());
        let is_stored = self
            .db
            .write(first, async move |c: &mut Conn| {
                if !rows::is_still_claimed(c, &claim).await? {
                    return Ok(false);
                }
                rows::finish(c, &claim, &outcome).await?;
                event::announce(c, WorkspaceId(first), &hash).await?;
                Ok::<_, DbError>(true)
            })
            .await?;
        for workspace in workspaces.into_iter().filter(|_| is_stored) {
            let hash = claimed.hash.clone();
            self.db
                .write(workspace, async move |c: &mut Conn| {
                    event::announce(c, WorkspaceId(workspace), &hash).await
                })
                .await?;
        }
        Ok(())
    }

    /// Runs the process and stores the parts. `None` if the document is no longer claimed or no longer exists.
    async fn outcome(&self, claimed: &Claimed) -> Result<Option<Outcome>, process::ReadError> {
        let source = rows::find_source(&mut self.db.read().await?, &claimed.hash).await?;
        let Some((name, size_bytes, blob)) = source else {
            // Otherwise, it would keep the turn of the workspace until the claim ends.
            let claim = claimed.clone();
            self.db
                .write(Uuid::nil(), async move |c: &mut Conn| {
                    rows::delete_unused(c, &claim).await
                })
                .await?;
            return Ok(None);
        };
        let size = u64::try_from(size_bytes).unwrap_or_default();
        let bytes = self.blobs.read(&blob, 0, size).await;
        let bytes = bytes.map_err(|e| process::ReadError::Storage(io::Error::other(e)))?;
        let (batches, received) = mpsc::channel(1);
        let (read, stored) = tokio::join!(
            process::read(&self.program, &name, bytes, batches),
            self.store(claimed, received)
        );
        stored?;
        read
    }

    /// Stores parts as they come, until the document is no longer claimed.
    async fn store(
        &self,
        claimed: &Claimed,
        mut batches: mpsc::Receiver<Vec<openvibe_documents::Part>>,
    ) -> Result<(), DbError> {
        let mut is_first = true;
        while let Some(parts) = batches.recv().await {
            let (claim, clears) = (claimed.clone(), std::mem::take(&mut is_first));
            let is_claimed = self
                .db
                .write(claimed.workspace_id.0, async move |c: &mut Conn| {
                    if !rows::is_still_claimed(c, &claim).await? {
                        return Ok(false);
                    }
                    if clears {
                        rows::delete_parts(c, &claim.hash).await?;
                    }
                    rows::insert_parts(c, &claim.hash, &parts).await?;
                    Ok::<_, DbError>(true)
                })
                .await?;
            if !is_claimed {
                return Ok(());
            }
        }
        Ok(())
    }
}
