//! One reply of an agent, from a claimed task to its end.
//!
//! ```text
//! context ─► prompt ─► model ─► first text: the reply's row, `streaming` ─► deltas · checkpoints ─► one transaction ends
//!              ▲                                                   │                   reply and task
//!              ├── shorter, or after a wait: `retry::next_step`    │
//!              └── results ◄──────── `rounds` ◄──────────────────── tool calls
//! ```
//!
//! Every write checks the lease, so that a turn whose task was canceled or requeued does not change anything.

use futures::{FutureExt, future::BoxFuture};
use tokio_util::sync::CancellationToken;

use crate::{
    db::Conn,
    replies::{adaptation::note::ReplyEnd, attached, offline::Offline},
    tasks::{
        FailCode, Lease, LeaseLost, Task, TaskKind, queue,
        worker::{Abort, Handler, Run},
    },
};

mod attach;
mod beginning;
mod blind;
mod call;
mod coding;
mod complete;
mod fail;
mod handler;
mod reply;
mod rounds;
mod run;
mod scheduled;
mod told;

use beginning::Beginning;
pub use handler::ReplyHandler;
pub use rounds::{CALL_GRACE, CALL_MAX, READS_AT_ONCE, ROUNDS_MAX, RUN_MAX, limit_definitions};
pub(super) use rounds::{definition_tokens, definitions_of};
use run::{LoadedReply, ReadyReply};

impl Handler for ReplyHandler {
    fn run(&self, task: Task, lease: Lease, stop: CancellationToken) -> Run<'_> {
        async move {
            let outcome = Box::pin(self.reply(task, lease, stop)).await;
            self.hub.close_stream(lease.workspace, lease.run());
            outcome
        }
        .boxed()
    }

    fn fail_lost(&self, lease: Lease) -> BoxFuture<'_, Result<(), LeaseLost>> {
        self.fail(lease, FailCode::WorkerLost, None).boxed()
    }
}

impl ReplyHandler {
    async fn reply(&self, task: Task, lease: Lease, stop: CancellationToken) -> Result<(), Abort> {
        let is_offline = self.provider.is_offline();
        if let Some(message) = task.trigger_message_id {
            tokio::select! {
                read = attached::wait_for_texts(&self.db, message) => read?,
                () = stop.cancelled() => return Err(Abort::Stopped),
            }
        }
        let beginning = self.read_beginning(task.clone(), lease, is_offline);
        let beginning = beginning.await?;
        if !beginning.can_go_on {
            return Ok(self.fail(lease, FailCode::NotAllowed, None).await?);
        }
        if task.kind == TaskKind::Delegate && task.run_id.is_none() && is_offline {
            return Ok(self.fail(lease, FailCode::ModelUnavailable, None).await?);
        }
        let Beginning {
            agent,
            counts,
            loaded,
            offline,
            is_allowed,
            is_full,
            ..
        } = beginning;
        let Some(mut loaded) = loaded else {
            return Ok(self.cancel(&task, lease).await?);
        };
        loaded.context.ask.files = attached::texts(&self.blobs, &loaded.readable).await;
        if !is_allowed {
            return Ok(self.fail(lease, FailCode::NotAllowed, None).await?);
        }
        if is_full {
            return Ok(self.fail(lease, FailCode::QuotaExceeded, None).await?);
        }
        if self
            .work_in_repository(&task, lease, &agent, &loaded)
            .await?
        {
            return Ok(());
        }
        if is_offline && scheduled::is_heartbeat(&task) {
            // The built-in responder would post the same reply at each slot.
            return Ok(self.report_nothing(lease).await?);
        }
        let ready = match offline {
            Some(Offline::React) => {
                let noted = complete::noted(&loaded, &task, ReplyEnd::NoReply);
                return Ok(self.react(lease, &task, noted).await?);
            }
            Some(Offline::Reply { text, sources }) => Some(ReadyReply { text, sources }),
            None => None,
        };
        let model = self.provider.choose_model(agent.profile.model.as_deref());
        let model = model.await;
        let mut reply = LoadedReply {
            handler: self,
            model,
            task,
            lease,
            stop: &stop,
            steering: self.queue.steering(&lease),
            agent,
            loaded,
            counts: serde_json::from_value(counts).unwrap_or_default(),
            ready,
            refused: Vec::new(),
        };
        reply.read_pictures().await;
        Box::pin(reply.write()).await
    }

    /// Cancels a task whose trigger message has been deleted, so there is nothing to reply to.
    async fn cancel(&self, task: &Task, lease: Lease) -> Result<(), LeaseLost> {
        let (id, audience) = (task.id, lease.audience);
        self.db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                queue::lock_lease(c, &lease).await?;
                queue::cancel(c, id, audience).await?;
                Ok::<_, LeaseLost>(())
            })
            .await
    }
}
