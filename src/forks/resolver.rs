//! Handler of `resolve` tasks: reads the fork, drafts a resolution, stores it, and publishes it if
//! requested.
//!
//! Resolving never fails because of a model: without a usable answer, the draft is extracted
//! (`openvibe_extract`). Every write checks the lease, so that a task that was canceled or reassigned
//! changes nothing.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use openvibe_extract::{Outline, Reading};
use tokio_util::sync::CancellationToken;

use super::{
    ForkError,
    content::content_of,
    draft,
    drafts::{self, Content, NewDraft},
    event::announce_resolution,
    form::one_line,
    material::{self, ForkMaterial},
    publish::{Author, publish_draft},
    resolution::{self, Resolution, find_draft, find_published},
    resolve::Options,
};
use crate::{
    agents::profiles,
    chat::{
        ChatError,
        forks::{self, ForkStatus},
        inbox::forks::open_draft,
        post,
    },
    db::{Conn, Db, DbError, now},
    failpoint,
    model::{Provider, builtin},
    realtime::{EventType, Hub},
    replies::retry::{RetryCounts, RetryPolicy},
    tasks::{
        FailCode, Lease, LeaseLost, Task, TaskError, TaskOutput,
        attempts::{self, AttemptOutcome},
        calls::CallLog,
        notice_text,
        queue::{self, End},
        slow::SlowTurn,
        worker::{Abort, Handler, Run},
    },
};

/// Value of `generated_by` for a draft that was extracted without a model.
pub const EXTRACTED: &str = builtin::NAME;

/// Maximum wait of a running task while other work for the same person takes its turn. After that, the task waits in the queue.
const TURN_WITHIN: Duration = Duration::from_millis(200);
/// Time until a task that waits in the queue tries again.
const TURN_AFTER: Duration = Duration::from_millis(500);

#[derive(Clone)]
pub struct Resolver {
    pub db: Db,
    pub hub: Arc<Hub>,
    pub provider: Arc<dyn Provider>,
    pub calls: CallLog,
    pub policy: RetryPolicy,
    /// Maximum time to wait for the first or next chunk of a model's answer.
    pub task_timeout: Duration,
    /// Maximum time for one answer.
    pub attempt_max: Duration,
}

/// A draft before it is stored.
pub(super) struct Drafted {
    pub outline: Outline,
    /// Model that wrote the draft; `EXTRACTED` if it was extracted.
    pub model: String,
    pub origin: DraftOrigin,
}

/// Origin of a draft.
#[derive(Debug, Clone, Copy)]
pub(super) struct DraftOrigin {
    /// Agent that wrote the draft; `None` if it was extracted.
    pub by: Option<crate::ids::AgentId>,
    /// Reason why the draft was extracted although there is a model.
    pub fallback: Option<FailCode>,
}

/// A fork and the extractor's reading of it.
pub(super) struct Read {
    pub dive: ForkMaterial,
    pub reading: Reading,
}

impl Handler for Resolver {
    fn run(&self, task: Task, lease: Lease, stop: CancellationToken) -> Run<'_> {
        self.resolve(task, lease, stop).boxed()
    }

    fn fail_lost(&self, lease: Lease) -> BoxFuture<'_, Result<(), LeaseLost>> {
        async move {
            let mut c = self.db.snapshot().await?;
            let task = queue::find_task(&mut c, lease.task).await?;
            drop(c);
            let Some(task) = task else {
                return Err(LeaseLost::Gone);
            };
            // Extracts the draft instead of calling the model again. If even the extracted draft cannot be stored, the task fails.
            let turn = SlowTurn::take(task.requested_by).await;
            let stored = match self.read(&task, &turn).await {
                Ok(Some(read)) => {
                    let reason = (!self.provider.is_offline()).then_some(FailCode::WorkerLost);
                    let drafted = extracted(&read, reason);
                    self.store(&task, lease, read, drafted).await
                }
                Ok(None) => self.fail(lease).await,
                Err(e) => Err(e),
            };
            let ended = match stored {
                Err(Abort::Db(e)) => {
                    tracing::error!(error = %e, "could not store the draft");
                    self.fail(lease).await
                }
                other => other,
            };
            match ended {
                Ok(()) => Ok(()),
                Err(Abort::Db(e)) => Err(LeaseLost::Db(e)),
                Err(_) => Err(LeaseLost::Gone),
            }
        }
        .boxed()
    }
}

/// The extracted draft; `fallback` is the reason why the model did not write it.
pub(super) fn extracted(read: &Read, fallback: Option<FailCode>) -> Drafted {
    Drafted {
        outline: draft::extracted(&read.dive.material, &read.reading),
        model: EXTRACTED.to_owned(),
        origin: DraftOrigin { by: None, fallback },
    }
}

impl Resolver {
    async fn resolve(
        &self,
        task: Task,
        lease: Lease,
        stop: CancellationToken,
    ) -> Result<(), Abort> {
        let turn = tokio::select! {
            turn = SlowTurn::take_unless_busy(task.requested_by, TURN_WITHIN) => turn,
            () = stop.cancelled() => return Err(Abort::Stopped),
        };
        let Some(turn) = turn else {
            self.db
                .write(lease.workspace.0, async move |c: &mut Conn| {
                    queue::postpone(c, &lease, TURN_AFTER).await
                })
                .await?;
            return Err(Abort::Stopped);
        };
        let mut c = self.db.snapshot().await?;
        let agent =
            profiles::get_resolved(&mut c, lease.target.agent, lease.target.agent_version).await?;
        let counts = queue::counts_of(&mut c, task.id).await?;
        drop(c);
        let counts: RetryCounts = serde_json::from_value(counts).unwrap_or_default();
        let read = tokio::select! {
            read = self.read(&task, &turn) => read?,
            () = stop.cancelled() => return Err(Abort::Stopped),
        };
        drop(turn);
        let Some(read) = read else {
            self.fail(lease).await?;
            return Ok(());
        };
        let drafted = tokio::select! {
            drafted = self.draft(&task, lease, &agent, counts, &read) => drafted?,
            () = stop.cancelled() => return Err(Abort::Stopped),
        };
        failpoint!("resolve_drafted");
        self.store(&task, lease, read, drafted).await?;
        failpoint!("resolve_stored");
        Ok(())
    }

    /// Reads the whole fork. Returns `None` if it no longer exists or the extractor failed. If the returned future is dropped, the
    /// extractor stops at the next message.
    async fn read(&self, task: &Task, turn: &SlowTurn) -> Result<Option<Arc<Read>>, Abort> {
        let Some(fork) = task.fork_id else {
            return Ok(None);
        };
        let mut c = self.db.snapshot().await?;
        let dive = material::load(&mut c, fork).await?;
        drop(c);
        let Some(dive) = dive else { return Ok(None) };
        let read = turn.run(move |interrupt| Read {
            reading: Reading::newest(&dive.material, &|| interrupt.is_set()).0,
            dive,
        });
        let read = read.await;
        match read {
            Ok(read) => Ok(Some(Arc::new(read))),
            Err(e) => {
                tracing::error!(error = %e, "reading a fork panicked");
                Ok(None)
            }
        }
    }

    /// Stores the draft, publishes it if requested, and ends the task, in one transaction.
    async fn store(
        &self,
        task: &Task,
        lease: Lease,
        read: Arc<Read>,
        drafted: Drafted,
    ) -> Result<(), Abort> {
        let options = Options::of(task);
        let hub = Arc::clone(&self.hub);
        let response_length = i64::try_from(
            one_line(&drafted.outline.headline).encode_utf16().count()
                + one_line(&drafted.outline.conclusion).encode_utf16().count(),
        )
        .unwrap_or(i64::MAX);
        let Drafted {
            outline,
            model,
            origin,
        } = drafted;
        self.db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let task = queue::lock_lease(c, &lease).await?;
                let stored =
                    store_draft(c, &task, lease, &read.dive, &outline, origin, options).await?;
                let Some(draft) = stored else {
                    // The fork was closed in the meantime.
                    queue::cancel(c, task.id, lease.audience).await?;
                    return Ok(());
                };
                attempts::end_attempt(c, task.id, AttemptOutcome::Completed, None, 0, now())
                    .await?;
                let card = if options.publish && draft.is_new {
                    let undecided = read.reading.phrase("none-headline");
                    let author = Author::Agent {
                        agent: lease.target.agent,
                        version: lease.target.agent_version,
                        task: task.id,
                    };
                    publish_if_open(c, &draft.resolution, undecided, author, lease, &hub).await?
                } else {
                    None
                };
                let output = TaskOutput {
                    message_id: card,
                    resolution_id: Some(draft.resolution.id),
                    response_length,
                    ..TaskOutput::default()
                };
                let end = End::Completed {
                    output,
                    model: model.clone(),
                };
                queue::finish(c, &lease, &end).await?;
                Ok::<_, LeaseLost>(())
            })
            .await?;
        Ok(())
    }

    /// Fails the task and posts a notice in the fork.
    async fn fail(&self, lease: Lease) -> Result<(), Abort> {
        self.db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let task = queue::lock_lease(c, &lease).await?;
                let name = profiles::shown_name(c, lease.target.agent).await?;
                let message = notice_text(&name, FailCode::WorkerLost);
                let notice =
                    post::insert_notice(c, (&lease).into(), lease.audience, None, message.clone())
                        .await?;
                attempts::end_attempt(c, task.id, AttemptOutcome::Failed, None, 0, now()).await?;
                let error = TaskError {
                    code: FailCode::WorkerLost,
                    message,
                };
                let end = End::Failed {
                    error,
                    notice: Some(notice.id),
                };
                queue::finish(c, &lease, &end).await?;
                Ok::<_, LeaseLost>(())
            })
            .await?;
        Ok(())
    }
}

/// The fork's draft at the end of a resolve task.
struct Stored {
    resolution: Resolution,
    /// True if the task's draft was stored; false if the previous draft was kept because people edited it in the meantime.
    is_new: bool,
}

/// Replaces the old draft, unless people have edited it since the request. Returns `None` if the fork is no longer active.
async fn store_draft(
    c: &mut Conn,
    task: &Task,
    lease: Lease,
    dive: &ForkMaterial,
    outline: &Outline,
    origin: DraftOrigin,
    options: Options,
) -> Result<Option<Stored>, LeaseLost> {
    let fork = match forks::get_fork(c, dive.fork.id).await {
        Ok(fork) if fork.status == ForkStatus::Active => fork,
        Err(ChatError::Db(e)) => return Err(LeaseLost::Db(e)),
        _ => return Ok(None),
    };
    let old = find_draft(c, fork.id).await?;
    let replaces_revision = old.as_ref().map_or(0, |old| old.revision);
    if let Some(old) = old {
        let edited_since = old.revision != options.draft_revision && !old.edited_by.is_empty();
        if edited_since || (!old.edited_by.is_empty() && !options.replace_draft) {
            return Ok(Some(Stored {
                resolution: old,
                is_new: false,
            }));
        }
        drafts::delete_draft(c, old.id).await?;
    }
    let published = find_published(c, fork.id).await?;
    let content = content_of(dive, outline, published.as_ref());
    let new = NewDraft {
        generated_by: Some(
            origin
                .by
                .map_or_else(|| EXTRACTED.to_owned(), |agent| agent.to_string()),
        ),
        fallback_reason: origin.fallback,
        edited_by: Vec::new(),
        covers_seq: dive.covers_seq,
        replaces_revision,
    };
    let id = drafts::insert_draft(c, &fork, &new, &content).await?;
    // The draft is stale if messages were posted or changed while it was being made, because it does not cover them.
    c.q("update forks set stale = (exists (select 1 from messages m where m.conversation_id = forks.id and m.kind <> 'notice' \
         and ((m.seq > $2 and m.deleted_at is null) or m.deleted_at > $3 or m.edited_at > $3)) \
         or exists (select 1 from messages o where o.id = forks.message_id and (o.deleted_at > $3 or o.edited_at > $3))) where id = $1")
        .bind(fork.id)
        .bind(dive.covers_seq)
        .bind(task.started_at.unwrap_or(task.queued_at))
        .run()
        .await?;
    let resolution = resolution::find(c, id)
        .await?
        .ok_or(DbError::Sql(sqlx::Error::RowNotFound))?;
    announce_resolution(c, EventType::ResolutionDrafted, &resolution, lease.audience).await?;
    match forks::announce_update(c, fork.id, lease.audience).await {
        Ok(_) => {}
        Err(ChatError::Db(e)) => return Err(LeaseLost::Db(e)),
        Err(_) => return Ok(None),
    }
    if !options.publish {
        open_draft(c, fork.id, task.requested_by, lease.target.agent.0).await?;
    }
    Ok(Some(Stored {
        resolution,
        is_new: true,
    }))
}

/// Publishes an unreviewed draft and returns its message. A draft without a headline, because nothing was decided, gets `undecided` as
/// its headline. Returns `None` and keeps the draft if it cannot be published, for example because the thread or channel was archived in
/// the meantime.
async fn publish_if_open(
    c: &mut Conn,
    draft: &Resolution,
    undecided: &str,
    author: Author,
    lease: Lease,
    hub: &Hub,
) -> Result<Option<crate::ids::MessageId>, LeaseLost> {
    let open: Vec<(i64,)> = c
        .q("select t.last_seq from threads t join channels ch on ch.id = t.channel_id where t.id = $1 and t.status = 'open' \
            and ch.archived_at is null")
        .bind(draft.thread_id)
        .all()
        .await?;
    if open.is_empty() {
        return Ok(None);
    }
    let fork = match forks::get_fork(c, draft.fork_id).await {
        Ok(fork) => fork,
        Err(ChatError::Db(e)) => return Err(LeaseLost::Db(e)),
        Err(_) => return Ok(None),
    };
    if draft.headline.is_empty() {
        let headline = undecided.to_owned();
        let content = Content {
            headline,
            ..Content::from(draft)
        };
        drafts::replace_content(c, draft, &[], &content).await?;
    }
    match publish_draft(c, &fork, draft.id, author, lease.audience, hub).await {
        Ok(published) => Ok(Some(published.message.id)),
        Err(ForkError::Db(e) | ForkError::Chat(ChatError::Db(e))) => Err(LeaseLost::Db(e)),
        Err(e) => {
            tracing::warn!(fork.id = %fork.id, error = %e, "could not publish the draft; keeping it as a draft");
            Ok(None)
        }
    }
}
