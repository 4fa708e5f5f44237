//! Runs the tasks of replays: roots wait for their children, and each child makes one call.

use futures::{FutureExt, future::BoxFuture};
use tokio_util::sync::CancellationToken;

use crate::{
    agents::profiles::Resolved,
    auth::Scope,
    chat::access,
    db::{Conn, DbError},
    failpoint,
    ids::TaskId,
    tasks::{
        FailCode, Lease, LeaseLost, Task, TaskError, TaskOutput,
        queue::{self, End},
        worker::{Abort, Handler, Run},
    },
};

use super::{Case, CaseAnswer, Replayer, SkipReason, store};

/// Result of a child task.
enum CaseEnd {
    /// The model answered; contains the case as it was sent.
    Answered(Box<Case>, CaseAnswer),
    Skipped(SkipReason),
}

impl Handler for Replayer {
    fn run(&self, task: Task, lease: Lease, stop: CancellationToken) -> Run<'_> {
        async move {
            if task.parent_task_id.is_none() {
                return Ok(self.wait(lease).await?);
            }
            tokio::select! {
                outcome = self.replay(&task, lease) => outcome,
                () = stop.cancelled() => Err(Abort::Stopped),
            }
        }
        .boxed()
    }

    fn fail_lost(&self, lease: Lease) -> BoxFuture<'_, Result<(), LeaseLost>> {
        self.fail(lease, FailCode::WorkerLost).boxed()
    }
}

fn message_of(code: FailCode) -> &'static str {
    match code {
        FailCode::NotAllowed => {
            "The replay was deleted, or you may no longer try changes of this agent."
        }
        FailCode::ContextTooLarge => {
            "The prompt does not fit the model's context window. Shorten the instructions, or choose another model."
        }
        FailCode::BudgetExceeded => {
            "A budget of this workspace is used up. Please ask an admin to raise it in Settings › Costs."
        }
        FailCode::BadRequest | FailCode::Auth => {
            "The AI service refused the request. Please check the model of the agent."
        }
        FailCode::WorkerLost => "The server was interrupted several times. Please try again.",
        _ => "The model did not answer. Please try again in a few minutes.",
    }
}

/// Loads the case of a child if the requester can read the conversation of the reply.
async fn load(
    c: &mut Conn,
    child: &Task,
    reply: TaskId,
    agent: &Resolved,
) -> Result<Result<Case, SkipReason>, DbError> {
    if !access::requester_can_read(c, child).await? {
        return Ok(Err(SkipReason::NotReadable));
    }
    match queue::find_task(c, reply).await? {
        Some(reply) => Case::load(c, &reply, agent, child.requested_by).await,
        None => Ok(Err(SkipReason::Deleted)),
    }
}

impl Replayer {
    /// Parks a root until its last child has ended, then ends the root.
    async fn wait(&self, lease: Lease) -> Result<(), LeaseLost> {
        let model = self.provider.name().to_owned();
        self.db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                queue::lock_lease(c, &lease).await?;
                if let Some(reason) = queue::obstacle(c, lease.task).await? {
                    queue::park(c, &lease, 0, reason).await?;
                    return Ok(());
                }
                complete(c, &lease, &model).await?;
                Ok::<_, LeaseLost>(())
            })
            .await
    }

    async fn replay(&self, child: &Task, lease: Lease) -> Result<(), Abort> {
        if self.provider.is_offline() {
            return Ok(self.fail(lease, FailCode::ModelUnavailable).await?);
        }
        let mut c = self.db.snapshot().await?;
        let Some((reply, agent)) = store::find_case(&mut c, child.id).await? else {
            drop(c);
            return Ok(self.fail(lease, FailCode::NotAllowed).await?);
        };
        if !access::requester_has(&mut c, child, Scope::AgentsWrite).await? {
            drop(c);
            return Ok(self.fail(lease, FailCode::NotAllowed).await?);
        }
        let loaded = load(&mut c, child, reply, &agent).await?;
        drop(c);
        let case = match loaded {
            Ok(case) => case,
            Err(reason) => {
                let end = CaseEnd::Skipped(reason);
                return Ok(self.end(lease, reply, agent, end).await?);
            }
        };
        let request = self.request(&case, &agent, child.requested_by).await?;
        if !request.fits {
            return Ok(self.fail(lease, FailCode::ContextTooLarge).await?);
        }
        match self.ask(child, &case, &agent, request).await? {
            Ok(answer) => {
                let end = CaseEnd::Answered(Box::new(case), answer);
                Ok(self.end(lease, reply, agent, end).await?)
            }
            Err(failure) => {
                tracing::info!(code = %failure.code(), "a case of a replay failed");
                Ok(self.fail(lease, failure.code()).await?)
            }
        }
    }

    /// Ends a child and stores its answer. If the stored prompt of the reply has changed since the case was sent, the case is skipped
    /// instead.
    async fn end(
        &self,
        lease: Lease,
        reply: TaskId,
        agent: Resolved,
        end: CaseEnd,
    ) -> Result<(), LeaseLost> {
        let model = self.provider.name().to_owned();
        failpoint!("replay_store");
        self.db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let child = queue::lock_lease(c, &lease).await?;
                let skipped = match &end {
                    CaseEnd::Skipped(reason) => Some(*reason),
                    CaseEnd::Answered(sent, answer) => {
                        match load(c, &child, reply, &agent).await? {
                            Ok(case) if case.is_same_prompt(sent) => {
                                let is_partial = case.is_partial();
                                store::put_answer(c, &child, reply, answer, is_partial).await?;
                                None
                            }
                            Ok(_) => Some(SkipReason::Deleted),
                            Err(reason) => Some(reason),
                        }
                    }
                };
                if let Some(reason) = skipped {
                    store::skip(c, child.id, reason).await?;
                }
                complete(c, &lease, &model).await?;
                Ok::<_, LeaseLost>(())
            })
            .await?;
        failpoint!("replay_stored");
        Ok(())
    }

    /// Ends a task as failed; the children of a root are canceled with it.
    async fn fail(&self, lease: Lease, code: FailCode) -> Result<(), LeaseLost> {
        self.db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                queue::lock_lease(c, &lease).await?;
                let end = End::Failed {
                    error: TaskError {
                        code,
                        message: message_of(code).to_owned(),
                    },
                    notice: None,
                };
                queue::finish(c, &lease, &end).await?;
                Ok::<_, LeaseLost>(())
            })
            .await
    }
}

async fn complete(c: &mut Conn, lease: &Lease, model: &str) -> Result<(), DbError> {
    let end = End::Completed {
        output: TaskOutput::default(),
        model: model.to_owned(),
    };
    queue::finish(c, lease, &end).await?;
    Ok(())
}
