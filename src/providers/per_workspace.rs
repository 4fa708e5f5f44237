//! Task handlers that use the model of the task's workspace.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use tokio_util::sync::CancellationToken;

use super::clients::Providers;
use crate::{
    model::Provider,
    tasks::{
        Lease, LeaseLost, Task,
        worker::{Handler, Run},
    },
};

/// Runs each task with the provider that its workspace has when the task starts.
pub struct PerWorkspace<H> {
    providers: Arc<Providers>,
    handler: H,
    set: fn(&mut H, Arc<dyn Provider>),
}

impl<H: Handler + Clone> PerWorkspace<H> {
    /// Wraps `handler`. `set` replaces the provider of a handler.
    pub fn new(
        providers: &Arc<Providers>,
        handler: H,
        set: fn(&mut H, Arc<dyn Provider>),
    ) -> Arc<Self> {
        Arc::new(Self {
            providers: Arc::clone(providers),
            handler,
            set,
        })
    }
}

impl<H: Handler + Clone> Handler for PerWorkspace<H> {
    fn run(&self, task: Task, lease: Lease, stop: CancellationToken) -> Run<'_> {
        async move {
            let provider = self.providers.of(lease.workspace).await?;
            let mut handler = self.handler.clone();
            (self.set)(&mut handler, provider);
            handler.run(task, lease, stop).await
        }
        .boxed()
    }

    fn fail_lost(&self, lease: Lease) -> BoxFuture<'_, Result<(), LeaseLost>> {
        self.handler.fail_lost(lease)
    }
}
