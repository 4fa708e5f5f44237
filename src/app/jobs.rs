//! Work that repeats until shutdown: a table of jobs, and the loop that runs each of them.

use std::time::Duration;

use futures::future::BoxFuture;
use uuid::Uuid;

use crate::{
    agents::profiles,
    auth::{self, revocations},
    chat::{
        post,
        search::{backlog, passages, rebuild},
    },
    code, collections,
    db::{Conn, now},
    exports::{self, ExportErrors, Exporter},
    files::{self, CleanupScope},
    forks::edit,
    hooks,
    ids::WorkspaceId,
    imports::{ImportErrors, ImportTurns, Importer},
    inbox, mail, meaning, memory,
    outgoing::{self, Collector, Round},
    personal, push,
    realtime::{ACTIVITY_EVERY, PRESENCE_EVERY, log},
    registry,
    replies::{
        adaptation,
        compaction::{catch_up, profile::CompactionSettings, quiet},
        manifest, replay,
    },
    responses,
    routes::chat::remove_threads,
    runs, schedules,
    server::State,
    slack, socket,
    tasks::{asleep, budgets, calls},
    tools::{approvals, grants},
    upkeep::{backups, daily},
};

const DAY: Duration = Duration::from_hours(24);
const SECOND: Duration = Duration::from_secs(1);
const TIDY_EVERY_MIN: Duration = Duration::from_millis(250);
const TIDY_EVERY_MAX: Duration = Duration::from_mins(1);
/// Number of cleanup rounds until all stored data is scanned again.
const WHOLE_TIDY_ROUNDS: u64 = 60;
/// Interval between checks for messages whose words are not all indexed.
const INDEX_LONG_TEXTS_EVERY: Duration = Duration::from_secs(2);
/// Interval between checks for passages that are not in the index, and for those of deleted files.
const PASSAGES_EVERY: Duration = Duration::from_secs(2);
/// Interval between checks for deleted threads whose removal was interrupted.
const REMOVE_THREADS_EVERY: Duration = Duration::from_secs(10);
const FORGET_TURNS_EVERY: Duration = Duration::from_secs(10);
const OPEN_DUE_ITEMS_EVERY: Duration = Duration::from_secs(10);
const EVENTS_READ_EVERY: Duration = Duration::from_millis(100);
const REFRESH_EVERY: Duration = Duration::from_millis(500);
const REFRESH_PAUSE: Duration = Duration::from_millis(20);
/// Interval at which a node checks whether it runs the jobs.
const FIND_JOBS_EVERY: Duration = SECOND;

/// Result of a turn of a job: the pause before the next turn.
type Pause = anyhow::Result<Duration>;

/// Work of a job, with its state between turns.
trait Work: Send {
    fn turn<'a>(&'a mut self, state: &'a State) -> BoxFuture<'a, Pause>;
}

impl<F> Work for F
where
    F: for<'a> FnMut(&'a State) -> BoxFuture<'a, Pause> + Send,
{
    fn turn<'a>(&'a mut self, state: &'a State) -> BoxFuture<'a, Pause> {
        self(state)
    }
}

/// Nodes that run a job.
#[derive(Clone, Copy, PartialEq)]
enum Nodes {
    /// Every node, for its own sockets and memory.
    Each,
    /// The node that runs the jobs (see `nodes`).
    One,
}

/// Effect of a job on agents, people, and other servers.
#[derive(Clone, Copy, PartialEq)]
enum Effect {
    /// None, so it always runs.
    Upkeep,
    /// Makes agents act, so it does not run on a quiet server.
    Acts,
    /// Sends to people or to other servers: not on a quiet server, and in a restored copy only after somebody has started it. It ends
    /// at once at shutdown.
    Sends,
}

struct Job {
    /// Verb phrase for the log: `could not NAME; retrying`.
    name: &'static str,
    nodes: Nodes,
    effect: Effect,
    /// Pause before the first turn, and after a turn that failed.
    pause: Duration,
    /// True if the first turn begins at once.
    begins_at_once: bool,
    work: Box<dyn Work>,
}

impl Job {
    /// A job of one node whose first turn begins at once.
    fn new(
        name: &'static str,
        pause: Duration,
        work: impl for<'a> FnMut(&'a State) -> BoxFuture<'a, Pause> + Send + 'static,
    ) -> Self {
        Self::with(name, pause, work)
    }

    fn with(name: &'static str, pause: Duration, work: impl Work + 'static) -> Self {
        // Otherwise, it would fail again and again without a pause while the database is away.
        debug_assert!(!pause.is_zero(), "a pause after failures to {name}");
        Self {
            name,
            nodes: Nodes::One,
            effect: Effect::Upkeep,
            pause,
            begins_at_once: true,
            work: Box::new(work),
        }
    }

    fn on_each_node(self) -> Self {
        Self {
            nodes: Nodes::Each,
            ..self
        }
    }

    fn after_pause(self) -> Self {
        Self {
            begins_at_once: false,
            ..self
        }
    }

    fn that(self, effect: Effect) -> Self {
        Self { effect, ..self }
    }

    /// Runs turns until shutdown.
    async fn follow(mut self, state: State) {
        let mut pause = if self.begins_at_once {
            Duration::ZERO
        } else {
            self.pause
        };
        loop {
            let paused = tokio::time::sleep(pause);
            if state.shutdown.run_until_cancelled(paused).await.is_none()
                || (self.nodes == Nodes::One && wait_for_jobs(&state).await.is_none())
            {
                return;
            }
            let turn = self.work.turn(&state);
            let done = if self.effect == Effect::Sends {
                let turn = async {
                    if asleep::is_asleep(&mut state.db.read().await?).await? {
                        return Ok(SECOND);
                    }
                    turn.await
                };
                match state.shutdown.run_until_cancelled(Box::pin(turn)).await {
                    Some(done) => done,
                    None => return,
                }
            } else {
                turn.await
            };
            pause = done.unwrap_or_else(|e: anyhow::Error| {
                tracing::warn!(
                    error = format!("{e:#}"),
                    "could not {}; retrying",
                    self.name
                );
                self.pause
            });
        }
    }
}

/// Starts all jobs.
pub(super) fn start(state: &State) {
    for job in jobs(state) {
        if job.effect == Effect::Upkeep || !state.config.is_quiet {
            state.tracker.spawn(job.follow(state.clone()));
        }
    }
    state.tracker.spawn(backups::run_forever(state.clone()));
    state
        .tracker
        .spawn(socket::check_access_forever(state.clone()));
}

/// Waits until this node runs the jobs that only one node runs at a time. Returns `None` at shutdown.
async fn wait_for_jobs(state: &State) -> Option<()> {
    while !state.nodes.node.runs_jobs() {
        let pause = tokio::time::sleep(FIND_JOBS_EVERY);
        state.shutdown.run_until_cancelled(pause).await?;
    }
    (!state.shutdown.is_cancelled()).then_some(())
}

fn tidy_every(age: Duration) -> Duration {
    (age / 4).clamp(TIDY_EVERY_MIN, TIDY_EVERY_MAX)
}

fn jobs(state: &State) -> Vec<Job> {
    let expired = tidy_every(state.config.event_retention);
    let orphans = tidy_every(state.config.upload_orphan_after);
    let compaction = CompactionSettings::of(&state.config);
    let quiet = compaction.interval;
    let quiet = quiet.clamp(Duration::from_millis(250), quiet::CHECKED_EVERY_MAX);
    let notify = state.pusher.pace.check_every;
    let turns = ImportTurns::default();
    let imports = (0..ImportTurns::AT_ONCE).map(|_| {
        let import = Import {
            importer: Importer::from(state),
            errors: ImportErrors::default(),
            turns: turns.clone(),
        };
        Job::with("import an archive", SECOND, import)
    });
    let mut jobs = vec![
        Job::new("free memory", expired, move |state| {
            Box::pin(async move {
                state.metrics.run_upkeep();
                state.limits.cleanup();
                state.meaning.free_idle();
                Ok(expired)
            })
        })
        .on_each_node()
        .after_pause(),
        Job::new("remove expired rows", expired, move |state| {
            Box::pin(async move {
                remove_expired(state).await?;
                Ok(expired)
            })
        })
        .after_pause(),
        Job::new("remove old rows", DAY, |state| {
            Box::pin(async move {
                remove_old(state).await;
                Ok(DAY)
            })
        }),
        Job::with(
            "remove unreferenced files",
            orphans,
            Tidy { round: 0, orphans },
        ),
        Job::with("read files", SECOND, ReadFiles { has_queued: false }),
        Job::new("index the text of a file", PASSAGES_EVERY, |state| {
            Box::pin(async move {
                let has_indexed = passages::index::index_next(&state.db).await?;
                // Files can replace others in vector stores once they are indexed.
                let has_settled = collections::settle_next(&state.db).await?;
                let has_purged = collections::purge_next(&state.db).await?;
                let has_removed = passages::index::remove_next(&state.db).await?;
                if !(has_indexed || has_settled || has_purged || has_removed) {
                    let waited = state.documents.wait_for_text(PASSAGES_EVERY);
                    state.shutdown.run_until_cancelled(waited).await;
                }
                Ok(Duration::ZERO)
            })
        }),
        Job::new("announce draft edits", SECOND, |state| {
            Box::pin(async move {
                announce_edits(state).await?;
                Ok(SECOND)
            })
        })
        .after_pause(),
        Job::new("reindex a long message", INDEX_LONG_TEXTS_EVERY, |state| {
            Box::pin(async move {
                let pause = backlog::replace_next(&state.db).await?;
                Ok(pause.unwrap_or(INDEX_LONG_TEXTS_EVERY))
            })
        }),
        // Any node may have to continue, so all of them look until the index is complete.
        Job::new(
            "rebuild the search index",
            INDEX_LONG_TEXTS_EVERY,
            |state| {
                Box::pin(async move {
                    let pause = rebuild::rebuild_next(&state.db).await?;
                    Ok(pause.unwrap_or(DAY))
                })
            },
        ),
        Job::new("watch the server", daily::CHECK_EVERY, |state| {
            Box::pin(async move {
                daily::look(state).await;
                Ok(daily::CHECK_EVERY)
            })
        })
        .after_pause(),
        Job::new(
            "refresh agents after a change to their base",
            REFRESH_EVERY,
            |state| {
                Box::pin(async move {
                    let has_more = state.disk.check().await.is_ok()
                        && profiles::refresh_some(&state.db).await?;
                    Ok(if has_more {
                        REFRESH_PAUSE
                    } else {
                        REFRESH_EVERY
                    })
                })
            },
        ),
        Job::new("open inbox items", OPEN_DUE_ITEMS_EVERY, |state| {
            Box::pin(async move {
                inbox::expire::open_due(&state.db).await?;
                Ok(OPEN_DUE_ITEMS_EVERY)
            })
        }),
        Job::new("remove deleted threads", REMOVE_THREADS_EVERY, |state| {
            Box::pin(async move {
                for workspace in personal::workspaces_to_clean(&state.db).await? {
                    state
                        .tracker
                        .spawn(remove_threads(state.clone(), workspace));
                }
                Ok(REMOVE_THREADS_EVERY)
            })
        }),
        Job::with(
            "export a workspace",
            SECOND,
            Export {
                exporter: Exporter::from(state),
                errors: ExportErrors::default(),
            },
        ),
        Job::new("send presence", PRESENCE_EVERY, |state| {
            Box::pin(async move {
                state.hub.broadcast_presence();
                Ok(PRESENCE_EVERY)
            })
        })
        .on_each_node(),
        Job::new("send activity", ACTIVITY_EVERY, |state| {
            Box::pin(async move {
                state.hub.broadcast_activity();
                Ok(ACTIVITY_EVERY)
            })
        })
        .on_each_node(),
        Job::new("queue passes of quiet conversations", quiet, move |state| {
            Box::pin(async move {
                quiet::queue_due(&state.db, compaction).await?;
                Ok(quiet)
            })
        })
        .after_pause()
        .that(Effect::Acts),
        Job::new("end actions", SECOND, |state| {
            Box::pin(async move {
                approvals::end_due(&state.db, &state.hub).await?;
                Ok(SECOND)
            })
        })
        .after_pause()
        .that(Effect::Acts),
        Job::new("end turns of runners", SECOND, |state| {
            Box::pin(async move {
                code::end_due(&state.db).await?;
                Ok(SECOND)
            })
        })
        .after_pause()
        .that(Effect::Acts),
        Job::new("forget texts and copies", FORGET_TURNS_EVERY, |state| {
            Box::pin(async move {
                code::forget_due(&state.db).await?;
                code::close_unused(&state.db).await?;
                code::delete_expired_folders(&state.db).await?;
                registry::delete_expired_programs(&state.db).await?;
                Ok(FORGET_TURNS_EVERY)
            })
        })
        .after_pause()
        .that(Effect::Acts),
        Job::new("wake runs", SECOND, |state| {
            Box::pin(async move {
                runs::wake_due(&state.db).await?;
                Ok(SECOND)
            })
        })
        .after_pause()
        .that(Effect::Acts),
        Job::new("fire schedules", SECOND, |state| {
            Box::pin(async move {
                let has_more = schedules::fire_due(&state.db).await?;
                Ok(if has_more { Duration::ZERO } else { SECOND })
            })
        })
        .on_each_node()
        .that(Effect::Acts),
        Job::new("store a web page", SECOND, |state| {
            Box::pin(async move {
                if !state.web_pages.refresh_next().await? {
                    state.web_pages.wait().await;
                }
                Ok(Duration::ZERO)
            })
        })
        .that(Effect::Sends),
        Job::new("request vectors of passages", PASSAGES_EVERY, |state| {
            Box::pin(async move {
                let has_more = state.meaning.fill_next().await?;
                Ok(if has_more {
                    Duration::ZERO
                } else {
                    PASSAGES_EVERY
                })
            })
        })
        .that(Effect::Sends),
        Job::new("send emails", SECOND, |state| {
            Box::pin(async move {
                if !state.mailer.is_on() {
                    return Ok(DAY);
                }
                state.mailer.wait().await;
                Ok(state.mailer.send_due(&state.db).await?)
            })
        })
        .that(Effect::Sends),
        Job::new("find people to notify", notify, move |state| {
            Box::pin(async move {
                state.pusher.notify(&state.db).await?;
                let (mailer, url) = (&state.mailer, &state.public_url);
                state.pusher.mail_missed(&state.db, mailer, url).await?;
                Ok(notify)
            })
        })
        .that(Effect::Sends),
        Job::new("send notifications", SECOND, |state| {
            Box::pin(async move {
                state.pusher.wait().await;
                let may_continue = || state.nodes.node.runs_jobs();
                state.pusher.send_due(&state.db, may_continue).await?;
                Ok(Duration::ZERO)
            })
        })
        .that(Effect::Sends),
        Job::with(
            "read events for bots",
            SECOND,
            Collect(Collector::default()),
        )
        .that(Effect::Sends),
        Job::new("send events to bots", SECOND, |state| {
            Box::pin(async move {
                state.events.wait().await;
                let may_continue = || state.nodes.node.runs_jobs();
                state.events.send_due(&state.db, may_continue).await?;
                Ok(Duration::ZERO)
            })
        })
        .that(Effect::Sends),
    ];
    jobs.extend(imports);
    jobs
}

/// Removes unreferenced uploads and, less often, leftovers of crashes. The first turn, soon after startup, includes both.
struct Tidy {
    round: u64,
    orphans: Duration,
}

impl Work for Tidy {
    fn turn<'a>(&'a mut self, state: &'a State) -> BoxFuture<'a, Pause> {
        let how = if self.round.is_multiple_of(WHOLE_TIDY_ROUNDS) {
            CleanupScope::Everything
        } else {
            CleanupScope::Rows
        };
        self.round += 1;
        Box::pin(async move {
            let orphan_after = state.config.upload_orphan_after;
            files::cleanup(&state.db, &state.blobs, orphan_after, how).await?;
            Ok(self.orphans)
        })
    }
}

/// Reads the text of uploads, each in a process of its own.
struct ReadFiles {
    /// True once files without a text are queued.
    has_queued: bool,
}

impl Work for ReadFiles {
    fn turn<'a>(&'a mut self, state: &'a State) -> BoxFuture<'a, Pause> {
        Box::pin(async move {
            let waited = state.documents.wait();
            if state.shutdown.run_until_cancelled(waited).await.is_none() {
                return Ok(Duration::ZERO);
            }
            if !self.has_queued {
                state.documents.queue_missing().await?;
                self.has_queued = true;
            }
            while let Some(turn) = state.documents.claim().await? {
                let state_of_turn = state.clone();
                state.tracker.spawn(async move {
                    let State(inner) = &state_of_turn;
                    inner.documents.read(turn, &inner.shutdown).await;
                });
            }
            Ok(Duration::ZERO)
        })
    }
}

/// Reads and stores archives. Jobs with the same turns work on different ones.
struct Import {
    importer: Importer,
    errors: ImportErrors,
    turns: ImportTurns,
}

impl Work for Import {
    fn turn<'a>(&'a mut self, _: &'a State) -> BoxFuture<'a, Pause> {
        Box::pin(async move {
            let has_more = self.importer.work(&mut self.errors, &self.turns).await?;
            Ok(if has_more { Duration::ZERO } else { SECOND })
        })
    }
}

/// Writes archives of workspaces.
struct Export {
    exporter: Exporter,
    errors: ExportErrors,
}

impl Work for Export {
    fn turn<'a>(&'a mut self, _: &'a State) -> BoxFuture<'a, Pause> {
        Box::pin(async move {
            let has_more = self.exporter.work(&mut self.errors).await?;
            Ok(if has_more { Duration::ZERO } else { SECOND })
        })
    }
}

/// Reads the event log for the subscriptions of bots.
struct Collect(Collector);

impl Work for Collect {
    fn turn<'a>(&'a mut self, state: &'a State) -> BoxFuture<'a, Pause> {
        Box::pin(async move {
            Ok(match self.0.round(&state.db).await? {
                Round::Unused => SECOND,
                Round::Idle => EVENTS_READ_EVERY,
                Round::Inserted => {
                    state.events.wake();
                    EVENTS_READ_EVERY
                }
            })
        })
    }
}

/// Removes expired events, sessions, stored responses, and request counters.
async fn remove_expired(state: &State) -> anyhow::Result<()> {
    state.limits.delete_expired().await?;
    prune_events(state).await?;
    responses::cleanup(&state.db).await?;
    memory::forget::forget_expired(&state.db).await?;
    adaptation::state::delete_expired(&state.db).await?;
    catch_up::store::delete_expired(&state.db).await?;
    replay::store::delete_expired(&state.db).await?;
    calls::close_abandoned(&state.db, state.config.attempt_max).await?;
    revocations::delete_expired(&state.db).await?;
    auth::guest_ends::announce_ends(&state.db).await?;
    auth::guest_ends::suspend_ended(&state.db).await?;
    auth::oidc::notices::close_settled(&state.db).await?;
    if !state.config.is_quiet {
        auth::oidc::outages::follow(&state.db, &state.oidc).await?;
    }
    mail::queue::delete_old(&state.db).await?;
    Importer::delete_old(&state.db).await?;
    exports::delete_old(&state.db).await?;
    collections::delete_old(&state.db).await?;
    push::queue::delete_old(&state.db).await?;
    outgoing::delete_old(&state.db).await?;
    outgoing::delete_old_sockets(&state.db).await?;
    outgoing::delete_old_calls(&state.db).await?;
    hooks::delete_old_responses(&state.db).await?;
    hooks::delete_old_presses(&state.db).await?;
    state
        .db
        .write(Uuid::nil(), async |c: &mut Conn| {
            grants::delete_expired(c).await
        })
        .await?;
    state
        .db
        .write(Uuid::nil(), async |c: &mut Conn| {
            auth::cleanup_sessions(c).await
        })
        .await?;
    Ok(())
}

async fn prune_events(state: &State) -> anyhow::Result<()> {
    let before = now() - state.config.event_retention;
    let workspaces: Vec<(WorkspaceId,)> = state
        .db
        .read()
        .await?
        .q("select id from workspaces w where exists (select 1 from events e where e.workspace_id = w.id and e.seq = w.pruned_seq + 1 and e.ts < $1) \
            order by id limit 10000")
        .bind(before)
        .all()
        .await?;
    for (workspace,) in workspaces {
        while !state.shutdown.is_cancelled() {
            let removed: u64 = state
                .db
                .write(workspace.0, async move |c: &mut Conn| {
                    log::prune(c, workspace, before).await
                })
                .await?;
            if removed == 0 {
                break;
            }
        }
    }
    Ok(())
}

/// Deletes expired texts of context records, expired rows of model calls and of slots, expired runs, and counters of past
/// budgets. A kind that fails is tried again the next day.
async fn remove_old(state: &State) {
    let (db, retention) = (&state.db, state.config.context_retention);
    note(
        "texts of context records",
        manifest::remove_expired(db, retention).await,
    );
    note("model calls", calls::remove_expired(db, retention).await);
    note(
        "slots of schedules",
        schedules::delete_old_slots(db, retention).await,
    );
    note("runs", runs::remove_expired(db, retention).await);
    note("vectors", meaning::delete_orphans(db).await);
    note("client IDs", post::forget_client_ids(db).await);
    note("threads of webhooks", hooks::delete_old_threads(db).await);
    note("addresses for files", slack::delete_old_uploads(db).await);
    note("requests to webhooks", hooks::delete_old_requests(db).await);
    note("inbox items", inbox::expire::delete_old(db).await);
    note("counters of past budgets", budgets::remove_past(db).await);
}

/// Logs that old rows could not be deleted.
fn note<T, E: std::fmt::Display>(what: &str, done: Result<T, E>) {
    if let Err(e) = done {
        tracing::warn!(error = %e, "old {what} could not be deleted; trying again tomorrow");
    }
}

async fn announce_edits(state: &State) -> anyhow::Result<()> {
    let due = edit::list_unannounced(&mut state.db.read().await?).await?;
    for (draft, workspace) in due {
        state
            .db
            .write(workspace.0, async move |c: &mut Conn| {
                edit::announce_edits(c, draft).await
            })
            .await?;
    }
    Ok(())
}
