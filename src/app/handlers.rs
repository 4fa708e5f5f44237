//! Handlers of queued tasks.

use std::{collections::HashMap, sync::Arc};

use crate::{
    config::Config,
    files::{Blobs, pictures::PictureReader},
    forks::{collaborator::Collaborator, resolver::Resolver},
    meaning::Meaning,
    providers::{PerWorkspace, Providers},
    realtime::Hub,
    replies::{
        adaptation::reflect::Reflector,
        compaction::{
            catch_up::writer::CatchUpWriter, pass::Compactor, profile::CompactionSettings,
        },
        replay::Replayer,
        retry::RetryPolicy,
        title::Titler,
        turn::ReplyHandler,
        utility::Utility,
    },
    runs::{ByRun, ConditionHandler, RunHandler},
    secrets::Keyring,
    tasks::{Queue, TaskKind, calls::CallLog, worker::Handler},
    tools::runner::Toolbox,
};

/// Services that the handlers of tasks use.
pub(super) struct HandlerParts<'a> {
    pub(super) config: &'a Config,
    pub(super) hub: &'a Arc<Hub>,
    pub(super) providers: &'a Arc<Providers>,
    pub(super) queue: &'a Arc<Queue>,
    pub(super) blobs: &'a Blobs,
    pub(super) pictures: &'a PictureReader,
    pub(super) calls: &'a CallLog,
    pub(super) keyring: &'a Arc<Keyring>,
    pub(super) tools: &'a Toolbox,
    pub(super) meaning: &'a Arc<Meaning>,
}

impl HandlerParts<'_> {
    /// Handlers for all kinds of queued tasks. Each uses the model of the task's workspace.
    pub(super) fn handlers(&self) -> HashMap<TaskKind, Arc<dyn Handler>> {
        let replies = self.replies();
        let reflector = self.reflector();
        HashMap::from([
            (TaskKind::Reply, Arc::clone(&replies)),
            (TaskKind::Schedule, Arc::clone(&replies)),
            (TaskKind::Delegate, replies),
            (TaskKind::Resolve, self.resolver()),
            (TaskKind::Collaborate, self.collaborator()),
            (
                TaskKind::Compact,
                PerWorkspace::new(self.providers, self.compactor(), |compactor, provider| {
                    compactor.utility.provider = provider;
                }),
            ),
            (TaskKind::Reflect, Arc::clone(&reflector)),
            (TaskKind::CatchUp, self.catch_ups()),
            (TaskKind::Replay, self.replays()),
            (TaskKind::Utility, self.conditions(reflector)),
            (TaskKind::Title, self.titles()),
            (TaskKind::Workflow, self.runs()),
        ])
    }

    fn utility(&self) -> Utility {
        Utility {
            db: self.calls.db.clone(),
            provider: self.providers.fallback(),
            calls: self.calls.clone(),
            delays: self.config.retry_delays.clone(),
        }
    }

    fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy {
            delays: self.config.retry_delays.clone(),
            ..RetryPolicy::default()
        }
    }

    fn compactor(&self) -> Compactor {
        Compactor {
            utility: self.utility(),
            keyring: Arc::clone(self.keyring),
            settings: CompactionSettings::of(self.config),
        }
    }

    fn replies(&self) -> Arc<dyn Handler> {
        let replies = ReplyHandler {
            db: self.calls.db.clone(),
            compactor: self.compactor(),
            meaning: Arc::clone(self.meaning),
            hub: Arc::clone(self.hub),
            provider: self.providers.fallback(),
            queue: Arc::clone(self.queue),
            blobs: self.blobs.clone(),
            pictures: self.pictures.clone(),
            calls: self.calls.clone(),
            tools: self.tools.clone(),
            policy: self.retry_policy(),
            task_timeout: self.config.task_timeout,
            attempt_max: self.config.attempt_max,
            tracker: self.calls.tracker.clone(),
        };
        PerWorkspace::new(self.providers, replies, |replies, provider| {
            replies.compactor.utility.provider = Arc::clone(&provider);
            replies.provider = provider;
        })
    }

    fn reflector(&self) -> Arc<dyn Handler> {
        let reflector = Reflector {
            utility: self.utility(),
        };
        PerWorkspace::new(self.providers, reflector, |reflector, provider| {
            reflector.utility.provider = provider;
        })
    }

    fn catch_ups(&self) -> Arc<dyn Handler> {
        let catch_ups = CatchUpWriter {
            utility: self.utility(),
        };
        PerWorkspace::new(self.providers, catch_ups, |catch_ups, provider| {
            catch_ups.utility.provider = provider;
        })
    }

    fn titles(&self) -> Arc<dyn Handler> {
        let titles = Titler {
            utility: self.utility(),
        };
        PerWorkspace::new(self.providers, titles, |titles, provider| {
            titles.utility.provider = provider;
        })
    }

    fn resolver(&self) -> Arc<dyn Handler> {
        let resolver = Resolver {
            db: self.calls.db.clone(),
            hub: Arc::clone(self.hub),
            provider: self.providers.fallback(),
            calls: self.calls.clone(),
            policy: self.retry_policy(),
            task_timeout: self.config.task_timeout,
            attempt_max: self.config.attempt_max,
        };
        PerWorkspace::new(self.providers, resolver, |resolver, provider| {
            resolver.provider = provider;
        })
    }

    fn collaborator(&self) -> Arc<dyn Handler> {
        let collaborator = Collaborator {
            db: self.calls.db.clone(),
            provider: self.providers.fallback(),
        };
        PerWorkspace::new(self.providers, collaborator, |collaborator, provider| {
            collaborator.provider = provider;
        })
    }

    fn replays(&self) -> Arc<dyn Handler> {
        let replayer = Replayer {
            db: self.calls.db.clone(),
            provider: self.providers.fallback(),
            calls: self.calls.clone(),
            tools: self.tools.clone(),
            delays: self.config.retry_delays.clone(),
            task_timeout: self.config.task_timeout,
            attempt_max: self.config.attempt_max,
        };
        PerWorkspace::new(self.providers, replayer, |replayer, provider| {
            replayer.provider = provider;
        })
    }

    /// Handler for `utility` tasks. Tasks that belong to runs are conditions; `others` handles the rest.
    fn conditions(&self, others: Arc<dyn Handler>) -> Arc<dyn Handler> {
        let conditions = ConditionHandler {
            utility: self.utility(),
        };
        let of_runs: Arc<dyn Handler> =
            PerWorkspace::new(self.providers, conditions, |conditions, provider| {
                conditions.utility.provider = provider;
            });
        Arc::new(ByRun {
            db: self.calls.db.clone(),
            of_runs,
            others,
        })
    }

    /// Handler for the root tasks of runs.
    fn runs(&self) -> Arc<dyn Handler> {
        let runs = RunHandler {
            db: self.calls.db.clone(),
            hub: Arc::clone(self.hub),
            provider: self.providers.fallback(),
        };
        PerWorkspace::new(self.providers, runs, |runs, provider| {
            runs.provider = provider;
        })
    }
}
