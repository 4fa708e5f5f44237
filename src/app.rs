//! The server as a whole: built from its configuration, run until stopped.

use std::{
    collections::HashMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Context;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::{
    net::TcpListener,
    sync::mpsc::{self, error::TrySendError},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

use crate::{
    agents::{profiles, seeds},
    auth::{
        self, Hasher, Limits,
        oidc::ProviderClient,
        revocations::{self, RevocationFeed, Revoked},
    },
    chat::{
        post,
        search::{backlog, passages, rebuild},
    },
    config::Config,
    db::{CommitSignal, Conn, DatabaseFault, DatabaseUrl, Db, DbError, LostSignals, now},
    disk::DiskSpace,
    exports::{self, ExportErrors, Exporter},
    files::{self, Blobs, CleanupScope, documents::DocumentReader},
    forks::{collaborator::Collaborator, edit, resolver::Resolver},
    hooks,
    http::{
        serve::{self, Bounds, serve},
        tls::TlsAcceptor,
    },
    ids::WorkspaceId,
    imports::{ImportErrors, Importer},
    inbox::{self, ItemOpened},
    lock,
    mail::{self, Mailer, Sending},
    mcp::Servers,
    memory, model,
    nodes::{self, Lease, LeaseEnd, Links, Node, bus::Bus},
    outbound::{OwnServer, Rules},
    outgoing::{self, Collector, EventSender, Round},
    permissions,
    personal::{self, Eraser, PersonalTurns},
    providers::{self, PerWorkspace, Providers},
    push::{self, Pusher, vapid::Subject},
    realtime::{
        ACTIVITY_EVERY, BusMessage, Close, Envelope, Hub, LiveFrame, NodeState, PRESENCE_EVERY,
        Shared, log,
    },
    registry::{self, CodeRunner, Registry},
    replies::{
        adaptation::{self, reflect::Reflector},
        compaction::{
            catch_up::{self, writer::CatchUpWriter},
            pass::Compactor,
            profile::CompactionSettings,
            quiet,
            remember::RememberTool,
        },
        delegation::DelegationTool,
        facts::StoredFacts,
        manifest,
        replay::{self, Replayer},
        retry::RetryPolicy,
        title::Titler,
        turn::ReplyHandler,
        utility::Utility,
    },
    responses::{self, CallSlots, ResponsesService},
    router,
    routes::{chat::remove_threads, health::serve_metrics},
    runs::{self, ByRun, ConditionHandler, RunHandler},
    schedules,
    secrets::Keyring,
    server::{
        Inner, State, pages::page_cache, plain::PlainHttp, setup::FirstAccount,
        workspaces::workspace_cache,
    },
    share::SharedTurns,
    slack, socket,
    storage::directory,
    tasks::{
        Queue, TaskKind, asleep, budgets,
        calls::{self, CallLog},
        queue::{self, Stopped, Wake},
        usage::Counted,
        worker::{Handler, Worker},
    },
    telemetry::{self, FANOUT_SECONDS, Meter},
    time::Timestamp,
    tls::{CertificateKeeper, acme, store::CertificateStore},
    tls_settings::https_url,
    tools::{
        approvals,
        builtin::{BuiltIns, done::DoneTool},
        grants,
        outward::{CodeTool, PageTool, ServerTools},
        runner::{ToolRunner, Toolbox},
    },
    upkeep::{backups, before_migration, daily},
    web::Fetcher,
};

/// Capacity of the queue of commit signals for the hub; writers wait while it is full.
const NOTICES_MAX: usize = 4096;
/// Time limit for ending open work at shutdown.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(7);
/// Maximum time for which a stopping node reports that it is not ready but still serves as before.
const UNREADY_FOR_MAX: Duration = Duration::from_secs(5);
/// Time limit for closing the database.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);
/// Time by which this machine's clock can be behind the newest event without a warning: another node may have written the event.
const CLOCK_BEHIND_MAX: Duration = Duration::from_mins(5);
/// Maximum number of concurrent catch-ups, each of which reads up to 1 MiB of text.
const CATCH_UPS_AT_ONCE: usize = 2;
/// Maximum number of catch-ups of one person that are being made or wait for that.
const CATCH_UPS_WAITING_MAX: usize = 16;
const TIDY_EVERY_MAX: Duration = Duration::from_mins(1);
/// Number of cleanup rounds until all stored data is scanned again.
const WHOLE_TIDY_ROUNDS: u64 = 60;
const REMOVE_CONTEXTS_EVERY: Duration = Duration::from_hours(24);
/// Interval between checks for messages whose words are not all indexed.
const INDEX_LONG_TEXTS_EVERY: Duration = Duration::from_secs(2);
/// Interval between checks for passages that are not in the index, and for those of deleted files.
const PASSAGES_EVERY: Duration = Duration::from_secs(2);
const ANNOUNCE_EDITS_EVERY: Duration = Duration::from_secs(1);
/// Interval between checks for approvals that have expired.
const EXPIRE_APPROVALS_EVERY: Duration = Duration::from_secs(1);
/// Interval between checks for deleted threads whose removal was interrupted.
const REMOVE_THREADS_EVERY: Duration = Duration::from_secs(10);
/// Interval between checks for imports that wait.
const IMPORT_EVERY: Duration = Duration::from_secs(1);
/// Interval between checks for exports that wait.
const EXPORT_EVERY: Duration = Duration::from_secs(1);
/// Interval between checks for inbox items that are due.
const OPEN_DUE_ITEMS_EVERY: Duration = Duration::from_secs(10);
/// Interval between checks for schedules that are due.
const FIRE_SCHEDULES_EVERY: Duration = Duration::from_secs(1);
/// Interval at which the event log is read for bots.
const EVENTS_READ_EVERY: Duration = Duration::from_millis(100);
/// Interval between checks for a subscription while no bot has one.
const UNUSED_CHECKED_EVERY: Duration = Duration::from_secs(1);
/// Interval at which a node that does not run the jobs checks whether it has to.
const FIND_JOBS_EVERY: Duration = Duration::from_secs(1);
/// Interval between checks for agents that are out of date with their base.
const REFRESH_EVERY: Duration = Duration::from_millis(500);
/// Pause between two batches of agents.
const REFRESH_PAUSE: Duration = Duration::from_millis(20);

pub struct App {
    state: State,
    listener: TcpListener,
    https: Option<Https>,
    address: SocketAddr,
    worker: Worker,
    files: FileLocks,
    /// The lease of this node, if it shares its database.
    lease: Option<Lease>,
    metrics: Option<TcpListener>,
    /// Stops the claiming of tasks before anything else is stopped.
    draining: CancellationToken,
    bounds: Bounds,
}

/// The certificate of the server, and the listener for plain HTTP.
struct Https {
    keeper: CertificateKeeper,
    plain: TcpListener,
}

/// File locks that are held while the server runs, so that only this process uses the data.
struct FileLocks(
    #[expect(dead_code, reason = "held, not used")] std::fs::File,
    #[expect(dead_code, reason = "held, not used")] Option<std::fs::File>,
);

fn lock_files(config: &Config) -> anyhow::Result<FileLocks> {
    let directory = lock::lock_directory(&config.data_dir)?;
    permissions::restrict_data(&config.data_dir, &config.database);
    let DatabaseUrl::Sqlite(path) = &config.database else {
        return Ok(FileLocks(directory, None));
    };
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        std::fs::create_dir_all(dir)
            .with_context(|| format!("cannot create the directory {}", dir.display()))?;
    }
    let database = lock::lock_database_file(path)?;
    require_database_of_uploads(path, &config.data_dir)?;
    Ok(FileLocks(directory, Some(database)))
}

/// Fails if the data directory has uploads, but not the database that names them: a new database would hide the loss.
fn require_database_of_uploads(file: &Path, data_dir: &Path) -> anyhow::Result<()> {
    let has_rows = std::fs::metadata(file).is_ok_and(|found| found.len() > 0);
    let blobs = data_dir.join("blobs");
    let holds = |dir: &Path| directory::holds_files(dir).unwrap_or(false);
    anyhow::ensure!(
        has_rows || !holds(&blobs),
        "{} is empty, but there are uploads: restore a backup, or remove {}",
        file.display(),
        blobs.display()
    );
    Ok(())
}

/// Passes commits on to the hub and the queue, in commit order, from its own task so that writers do not wait for sockets. This
/// is a task of the runtime and not a thread, because waking a socket's task from another thread takes longer
/// (docs/performance.md).
fn dispatch(
    hub: Arc<Hub>,
    queue: Arc<Queue>,
    bus: Arc<Bus>,
    revocations: Arc<RevocationFeed>,
) -> crate::db::Listener {
    let (send, mut receive) = mpsc::channel::<(Instant, Vec<CommitSignal>)>(NOTICES_MAX);
    let deliver = async move {
        while let Some((committed, notices)) = receive.recv().await {
            for notice in notices {
                if let Some(event) = notice.downcast_ref::<Envelope>() {
                    hub.publish(event);
                    bus.committed(event);
                    FANOUT_SECONDS.record(committed.elapsed());
                } else if notice.is::<Wake>() {
                    queue.wake.notify_one();
                    if queue.is_full() {
                        bus.send(BusMessage::Wake);
                    }
                } else if let Some(LostSignals(workspace)) = notice.downcast_ref() {
                    hub.recover(WorkspaceId(*workspace));
                } else if let Some(stopped) = notice.downcast_ref::<Stopped>() {
                    queue.stop(stopped.task);
                    hub.drop_stream(stopped.workspace, stopped.task);
                    bus.send(BusMessage::Stop {
                        workspace: stopped.workspace,
                        task: stopped.task,
                    });
                } else if let Some(revoked) = notice.downcast_ref::<Revoked>() {
                    if revoked.id.is_none_or(|id| revocations.apply(id)) {
                        revoked.revocation.close_sockets(&hub);
                    }
                    bus.send(BusMessage::Revoke);
                } else if let Some(opened) = notice.downcast_ref::<ItemOpened>() {
                    let frame = LiveFrame::InboxCreated { seq: opened.seq };
                    hub.tell_user(opened.workspace, opened.user, &frame);
                } else if let Some(ended) = notice.downcast_ref::<Counted>() {
                    ended.measure();
                }
            }
        }
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "ends with the database, which outlives everything on the tracker"
    )]
    tokio::spawn(deliver);
    Arc::new(move |notices| {
        // Writers have their own threads, so they can block when the queue is full.
        let sent = match send.try_send((Instant::now(), notices)) {
            Err(TrySendError::Full(notices)) => {
                futures::executor::block_on(send.send(notices)).is_ok()
            }
            sent => sent.is_ok(),
        };
        if !sent {
            tracing::error!(
                "could not deliver committed events; clients will read them from the log"
            );
        }
    })
}

/// Directories of the uploads and of the `SQLite` file. With `PostgreSQL`, uploads to S3 are in the data directory until
/// they are complete.
fn data_directories(config: &Config) -> Vec<PathBuf> {
    let DatabaseUrl::Sqlite(file) = &config.database else {
        return config
            .blobs_url
            .iter()
            .map(|_| config.data_dir.clone())
            .collect();
    };
    let parent = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    let beside = parent.map_or_else(|| PathBuf::from("."), Path::to_owned);
    vec![config.data_dir.clone(), beside]
}

fn read_seeds(path: &Path) -> anyhow::Result<String> {
    let read = seeds::read_file(path);
    read.map_err(|e| anyhow::anyhow!("OPENVIBE_SEEDS_FILE: {}: {e}", path.display()))
}

/// Keys that encrypt the secrets of workspaces; a server on `SQLite` can create its own key.
pub fn keyring(config: &Config) -> Keyring {
    let is_local = matches!(config.database, DatabaseUrl::Sqlite(_));
    let directory = is_local.then_some(config.data_dir.as_path());
    Keyring::new(config.secret_keys.clone(), directory)
}

/// Functions that agents can call.
fn toolbox(db: &Db, blobs: &Blobs, keyring: &Arc<Keyring>, registry: &Arc<Registry>) -> Toolbox {
    let runners: [Arc<dyn ToolRunner>; 7] = [
        Arc::new(DoneTool),
        Arc::new(BuiltIns {
            db: db.clone(),
            blobs: blobs.clone(),
        }),
        Arc::new(RememberTool {
            db: db.clone(),
            keyring: Arc::clone(keyring),
        }),
        Arc::new(DelegationTool { db: db.clone() }),
        Arc::new(PageTool {
            db: db.clone(),
            registry: Arc::clone(registry),
        }),
        Arc::new(CodeTool {
            db: db.clone(),
            registry: Arc::clone(registry),
        }),
        Arc::new(ServerTools::new(db.clone(), Arc::clone(registry))),
    ];
    Toolbox {
        runners: Arc::from(runners),
    }
}

/// Services that the handlers of tasks use.
struct HandlerParts<'a> {
    config: &'a Config,
    hub: &'a Arc<Hub>,
    providers: &'a Arc<Providers>,
    blobs: &'a Blobs,
    calls: &'a CallLog,
    keyring: &'a Arc<Keyring>,
    tools: &'a Toolbox,
}

impl HandlerParts<'_> {
    /// Handlers for all kinds of queued tasks. Each uses the model of the task's workspace.
    fn handlers(&self) -> HashMap<TaskKind, Arc<dyn Handler>> {
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
            hub: Arc::clone(self.hub),
            provider: self.providers.fallback(),
            blobs: self.blobs.clone(),
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

/// A bound port, and a database that is ready to use.
struct Opened {
    files: FileLocks,
    listener: TcpListener,
    /// Listener for plain HTTP beside one for HTTPS.
    plain: Option<TcpListener>,
    address: SocketAddr,
    lease: Option<Lease>,
    links: Links,
    bus_queue: mpsc::Receiver<BusMessage>,
}

impl Opened {
    async fn open(config: &Config) -> anyhow::Result<Self> {
        let files = lock_files(config)?;
        let listener = bind(&config.listen, "OPENVIBE_LISTEN").await?;
        let address = listener.local_addr()?;
        let plain = match &config.tls {
            Some(tls) => Some(bind(&tls.http_listen, "OPENVIBE_HTTP_LISTEN").await?),
            None => None,
        };
        let mut node = Node::open(config)?;
        node.name_after(address);
        let node = Arc::new(node);
        let (bus, bus_queue) = Bus::new(node.id, config.nats.clone())?;
        let hub = Arc::new(if node.is_shared() {
            Hub::shared(Shared::new(bus.relay()))
        } else {
            Hub::default()
        });
        let queue = Arc::new(Queue::default());
        let revocations = Arc::new(RevocationFeed::default());
        let agents = config.seeds_file.as_deref().map(read_seeds).transpose()?;
        back_up_before_migration(config).await?;
        let db = open_database(
            config,
            dispatch(
                Arc::clone(&hub),
                Arc::clone(&queue),
                Arc::clone(&bus),
                Arc::clone(&revocations),
            ),
        )
        .await?;
        let lease = if node.is_shared() {
            Some(nodes::join(&db, &node).await?)
        } else {
            None
        };
        let links = Links {
            db,
            node,
            hub,
            queue,
            bus,
            revocations,
            drain: config.drain,
            poll_every: nodes::POLL_EVERY,
            tracker: TaskTracker::new(),
        };
        prepare(&links, config, agents)
            .await
            .map_err(|e| describe(&config.database, "could not be prepared", e))?;
        // No socket is open yet, so the result is ignored.
        let mut c = links.db.read().await?;
        links.revocations.read_new(&mut c).await?;
        drop(c);
        Ok(Self {
            files,
            listener,
            plain,
            address,
            lease,
            links,
            bus_queue,
        })
    }
}

/// The registry of tools.
fn registry(
    config: &Config,
    calls: &CallLog,
    keyring: &Arc<Keyring>,
    own: OwnServer,
    shutdown: &CancellationToken,
) -> Registry {
    let tracker = &calls.tracker;
    Registry::new(registry::Setup {
        db: calls.db.clone(),
        keyring: Arc::clone(keyring),
        pages: Fetcher::new(config.web_allow.clone(), own.clone()),
        runner: config
            .sandbox_url
            .clone()
            .map(|url| CodeRunner::new(url, own.clone(), tracker.clone(), shutdown.clone())),
        servers: Servers::new(
            config.mcp_allow.clone(),
            own,
            tracker.clone(),
            shutdown.clone(),
        ),
        local: config.mcp.clone(),
        has_rate_limits: config.rate_limits,
    })
}

/// The models of all workspaces.
async fn providers(
    config: &Config,
    calls: &CallLog,
    keyring: &Arc<Keyring>,
    own: OwnServer,
) -> anyhow::Result<Arc<Providers>> {
    let db = &calls.db;
    let facts = Arc::new(StoredFacts { db: db.clone() });
    let (connector, environment) = model::from_settings(config.model.clone(), facts)?;
    let providers = Arc::new(Providers::new(providers::Setup {
        db: db.clone(),
        connector,
        environment,
        keyring: Arc::clone(keyring),
        rules: Rules {
            exempt: config.model_allow.clone(),
            own,
            ports: None,
        },
        calls: calls.clone(),
        meter: Meter::new(config.task_timeout, config.attempt_max),
        is_quiet: config.is_quiet,
    })?);
    providers.reseal().await;
    Ok(providers)
}

/// The sender of notifications. Warns the operator if Apple will refuse it.
fn pusher(
    config: &Config,
    public_url: &str,
    keyring: &Arc<Keyring>,
    hub: &Arc<Hub>,
    own: OwnServer,
) -> Pusher {
    let subject = Subject::new(config.push_subject.as_deref(), public_url);
    if !subject.is_accepted && config.public_url.is_some() {
        tracing::warn!(
            "push to Apple devices will be refused: set OPENVIBE_PUSH_SUBJECT to mailto:YOU@YOUR-DOMAIN"
        );
    }
    let rules = Rules {
        exempt: config.push_allow.clone(),
        own,
        ports: None,
    };
    Pusher::new(
        Arc::clone(keyring),
        Arc::clone(hub),
        subject,
        rules,
        config.notify_pace,
    )
}

/// Parts of the service of `/v1/responses` that it shares with replies.
struct ResponseParts<'a> {
    providers: &'a Providers,
    calls: &'a CallLog,
    tools: &'a Toolbox,
    blobs: &'a Blobs,
}

/// The service of `/v1/responses`.
fn responses_service(
    config: &Config,
    public_url: &str,
    parts: &ResponseParts<'_>,
    shutdown: &CancellationToken,
) -> ResponsesService {
    let calls = parts.calls;
    ResponsesService {
        db: calls.db.clone(),
        provider: parts.providers.fallback(),
        calls: calls.clone(),
        tools: parts.tools.clone(),
        blobs: parts.blobs.clone(),
        public_url: public_url.to_owned(),
        slots: CallSlots::new(config.workers, config.api_share),
        retry_delays: config.retry_delays.clone(),
        task_timeout: config.task_timeout,
        attempt_max: config.attempt_max,
        tracker: calls.tracker.clone(),
        shutdown: shutdown.clone(),
    }
}

/// The parts that handlers of requests and tasks share.
async fn state(
    config: Config,
    address: SocketAddr,
    links: Links,
    certificate: Option<Arc<CertificateStore>>,
    metrics: PrometheusHandle,
    shutdown: CancellationToken,
) -> anyhow::Result<State> {
    let (db, tracker) = (links.db.clone(), links.tracker.clone());
    let public_url = config
        .public_url
        .clone()
        .unwrap_or_else(|| default_url(address));
    let first_account = FirstAccount::new(&db, &config, address, &public_url).await?;
    let calls = CallLog {
        db: db.clone(),
        tracker: tracker.clone(),
    };
    let keyring = Arc::new(keyring(&config));
    let sending = Sending::new(config.smtp.as_ref(), config.mail_from.as_ref(), &public_url);
    let mailer = Mailer::new(sending, Arc::clone(&keyring));
    let own = OwnServer::new(address, &public_url);
    let pusher = pusher(&config, &public_url, &keyring, &links.hub, own.clone());
    let events = EventSender::new(
        Arc::clone(&keyring),
        Rules {
            exempt: config.hook_allow.clone(),
            own: own.clone(),
            ports: None,
        },
        &public_url,
    );
    let oidc = ProviderClient::new(Rules {
        exempt: config.model_allow.clone(),
        own: own.clone(),
        ports: None,
    });
    let providers = providers(&config, &calls, &keyring, own.clone()).await?;
    let registry = Arc::new(registry(&config, &calls, &keyring, own, &shutdown));
    memory::files::follow_stored(&db, &keyring)
        .await
        .context("could not read the files of agents")?;
    let blobs = Blobs::open(&db, config.blob_settings(), tracker.clone()).await?;
    let limits = Limits::new(
        config.rate_limits,
        config.sockets_max,
        config.sockets_per_user,
    );
    let tools = toolbox(&db, &blobs, &keyring, &registry);
    let parts = ResponseParts {
        providers: &providers,
        calls: &calls,
        tools: &tools,
        blobs: &blobs,
    };
    let responses = responses_service(&config, &public_url, &parts, &shutdown);
    Ok(State(Arc::new(Inner {
        public_url,
        address,
        is_on_loopback: address.ip().is_loopback(),
        first_account,
        certificate,
        hub: Arc::clone(&links.hub),
        queue: Arc::clone(&links.queue),
        nodes: links,
        responses_of_all: Arc::new(responses),
        tools,
        providers,
        calls,
        keyring,
        oidc,
        mailer,
        pusher,
        events,
        registry,
        disk: DiskSpace::new(data_directories(&config)),
        documents: DocumentReader::new(db.clone(), blobs.clone(), config.program.clone()),
        blobs,
        hasher: Hasher::new(config.password_cost.clone()),
        catch_ups: SharedTurns::new(CATCH_UPS_AT_ONCE, CATCH_UPS_WAITING_MAX),
        limits: limits.shared_by(&db),
        personal: PersonalTurns::default(),
        pages: page_cache(),
        workspaces: workspace_cache(),
        metrics,
        tracker,
        shutdown,
        db,
        config,
    })))
}

/// The worker, which runs queued tasks until `draining` is canceled.
fn worker(state: &State, draining: CancellationToken) -> Worker {
    let parts = HandlerParts {
        config: &state.config,
        hub: &state.hub,
        providers: &state.providers,
        blobs: &state.blobs,
        calls: &state.calls,
        keyring: &state.keyring,
        tools: &state.tools,
    };
    Worker {
        id: state.nodes.node.id.0,
        db: state.db.clone(),
        queue: Arc::clone(&state.queue),
        handlers: parts.handlers(),
        slots: state.config.workers,
        tracker: state.tracker.clone(),
        draining,
        shutdown: state.shutdown.clone(),
    }
}

impl App {
    /// Binds the port, opens the database, and prepares everything else.
    ///
    /// # Errors
    /// The problem and its solution, as a sentence for the operator.
    pub async fn build(mut config: Config) -> anyhow::Result<Self> {
        // Fails only if a provider was already installed in this process.
        drop(rustls::crypto::ring::default_provider().install_default());
        telemetry::process::note_start();
        let metrics = telemetry::recorder().map_err(anyhow::Error::msg)?;
        let Opened {
            files,
            listener,
            plain,
            address,
            lease,
            links,
            bus_queue,
        } = Opened::open(&config).await?;
        let metrics_listener = match &config.metrics_listen {
            Some(listen) => Some(bind(listen, "OPENVIBE_METRICS_LISTEN").await?),
            None => None,
        };
        let shutdown = CancellationToken::new();
        let draining = CancellationToken::new();
        if links.node.is_shared() {
            let tracker = links.tracker.clone();
            nodes::bus::start(links.clone(), bus_queue, shutdown.clone(), &tracker).await?;
        } else {
            ::metrics::gauge!("openvibe_bus_up", "bus" => nodes::Mode::Local.as_str()).set(1.0);
        }
        let https = match plain {
            Some(plain) => open_https(&mut config, plain, address, &links).await?,
            None => None,
        };
        let certificate = https.as_ref().map(|https| https.keeper.store());
        let state = state(config, address, links, certificate, metrics, shutdown).await?;
        Ok(Self {
            worker: worker(&state, draining.clone()),
            bounds: Bounds {
                trusted_proxies: state.config.trusted_proxies.clone(),
                ..Bounds::new(state.config.connections_max)
            },
            state,
            listener,
            https,
            address,
            files,
            lease,
            metrics: metrics_listener,
            draining,
        })
    }

    /// Overrides the bounds, for tests that cannot wait for the real ones.
    pub fn bounds_mut(&mut self) -> &mut Bounds {
        &mut self.bounds
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn providers(&self) -> Arc<Providers> {
        Arc::clone(&self.state.providers)
    }

    /// The database with its writers, so that tests can block one.
    pub fn db(&self) -> Db {
        self.state.db.clone()
    }

    /// The hub, so that `bench/` can send frames to this process's sockets.
    pub fn hub(&self) -> Arc<Hub> {
        Arc::clone(&self.state.hub)
    }

    /// Changes the polling interval, for tests of the bus alone. Returns false if the state is already shared.
    pub fn poll_every(&mut self, interval: Duration) -> bool {
        let inner = Arc::get_mut(&mut self.state.0);
        inner
            .map(|inner| inner.nodes.poll_every = interval)
            .is_some()
    }

    /// The bus to other nodes, so that tests can wait for those nodes.
    pub fn bus(&self) -> Arc<Bus> {
        Arc::clone(&self.state.nodes.bus)
    }

    /// `https` if the listener uses TLS.
    pub fn scheme(&self) -> &'static str {
        if self.https.is_some() {
            "https"
        } else {
            "http"
        }
    }

    pub fn public_url(&self) -> &str {
        &self.state.public_url
    }

    /// Bound address of `OPENVIBE_METRICS_LISTEN`.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref()?.local_addr().ok()
    }

    /// The program, the database, and the model, as a line for the log.
    pub fn summary(&self) -> String {
        let config = &self.state.config;
        let database = match &config.database {
            DatabaseUrl::Sqlite(path) => format!("SQLite {}", path.display()),
            DatabaseUrl::Postgres(_) => "PostgreSQL".to_owned(),
        };
        let model = self.state.providers.server_name();
        let model = model.map_or("of each workspace".to_owned(), str::to_owned);
        format!("{}, {database}, model {model}", telemetry::program())
    }

    /// `OPENVIBE_PUBLIC_URL`.
    pub fn configured_url(&self) -> Option<&str> {
        self.state.config.public_url.as_deref()
    }

    /// The token for the first account, if required.
    ///
    /// # Errors
    /// If the database does not respond.
    pub async fn setup_token(&self) -> anyhow::Result<Option<String>> {
        let known = auth::any_account(&mut self.state.db.read().await?).await?;
        let token = self.state.first_account.token().filter(|_| !known);
        Ok(token.map(str::to_owned))
    }

    /// Serves until `stop` completes, then ends open work within 10 s.
    ///
    /// # Errors
    /// If the listener fails.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> anyhow::Result<()> {
        let Self {
            state,
            listener,
            https,
            worker,
            files,
            lease,
            metrics,
            draining,
            bounds,
            ..
        } = self;
        let (tracker, shutdown) = (state.tracker.clone(), state.shutdown.clone());
        if state.config.is_quiet {
            tracing::warn!(
                "OPENVIBE_QUIET=on: no agent acts, and nothing is sent to other servers"
            );
        } else {
            tracker.spawn(worker.run());
            spawn_acting_loops(&state);
        }
        spawn_loops(&state);
        if let Some(listener) = metrics {
            tracker.spawn(serve_metrics(state.clone(), listener));
        }
        let ended: Arc<Mutex<Option<LeaseEnd>>> = Arc::default();
        if let Some(lease) = lease {
            let (links, shutdown) = (state.nodes.clone(), shutdown.clone());
            let ended = Arc::clone(&ended);
            tracker.spawn(nodes::follow(links.clone(), shutdown.clone()));
            tracker.spawn(nodes::poll(links.clone(), shutdown.clone()));
            tracker.spawn(follow_epochs(state.clone()));
            tracker.spawn(async move {
                if let Err(end) = lease.keep(links, shutdown.clone()).await {
                    *ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
                    shutdown.cancel();
                }
            });
        }
        state.nodes.node.set_state(NodeState::Ready);
        tracker.spawn(personal::finish_begun(Eraser::from(&state)));
        let routes = router::build(state.clone(), &bounds);
        let (tls, plain) = match https {
            Some(https) => {
                let store = https.keeper.store();
                tracker.spawn(https.keeper.keep(shutdown.clone()));
                let plain = PlainHttp {
                    db: state.db.clone(),
                    store: Arc::clone(&store),
                    public_url: state.public_url.clone(),
                    routes: routes.clone(),
                };
                (Some(TlsAcceptor::new(store)), Some((https.plain, plain)))
            }
            None => (None, None),
        };
        let listener = serve::Listener { tcp: listener, tls };
        let serving = async {
            let main = serve(listener, routes, &bounds, shutdown.clone());
            match plain {
                Some((listener, plain)) => {
                    let plain = serve(listener, plain.into_router(), &bounds, shutdown.clone());
                    tokio::join!(main, plain);
                }
                None => main.await,
            }
        };
        // Not spawned on the tracker, because the end of a request may start work there.
        let mut serving = std::pin::pin!(serving);
        let has_ended = tokio::select! {
            // This happens if the database was taken over and no client is connected.
            () = &mut serving => true,
            () = shutdown.cancelled() => false,
            () = stop_gently(&state, &draining, stop) => false,
        };
        shutdown.cancel();
        state.hub.close_where(Close::GoingAway, |_| true);
        tracker.close();
        let drained = tokio::time::timeout(SHUTDOWN_WITHIN, async {
            let serving = async {
                if !has_ended {
                    serving.await;
                }
            };
            tokio::join!(serving, tracker.wait());
        });
        if drained.await.is_err() {
            tracing::warn!("some connections did not close in time");
        }
        leave(&state).await;
        drop(files);
        let end = *ended.lock().unwrap_or_else(PoisonError::into_inner);
        match end {
            Some(end) => Err(anyhow::Error::msg(end.text(&state.config.data_dir))),
            None => Ok(()),
        }
    }
}

/// Starts the repeated work that makes agents act.
fn spawn_acting_loops(state: &State) {
    state.tracker.spawn(compact_quiet_forever(state.clone()));
    state.tracker.spawn(expire_approvals_forever(state.clone()));
    state.tracker.spawn(fire_schedules_forever(state.clone()));
}

/// Starts the work that repeats until shutdown.
fn spawn_loops(state: &State) {
    state.tracker.spawn(cleanup_loop(state.clone()));
    state.tracker.spawn(cleanup_files_loop(state.clone()));
    state.tracker.spawn(read_documents_forever(state.clone()));
    state.tracker.spawn(index_passages_forever(state.clone()));
    state.tracker.spawn(remove_contexts_forever(state.clone()));
    state.tracker.spawn(announce_edits_forever(state.clone()));
    state.tracker.spawn(index_long_texts_forever(state.clone()));
    state.tracker.spawn(rebuild_search(state.clone()));
    state.tracker.spawn(backups::run_forever(state.clone()));
    state.tracker.spawn(daily::follow(state.clone()));
    state.tracker.spawn(refresh_agents_forever(state.clone()));
    state.tracker.spawn(open_due_items_forever(state.clone()));
    state.tracker.spawn(remove_threads_forever(state.clone()));
    state.tracker.spawn(import_forever(state.clone()));
    state.tracker.spawn(export_forever(state.clone()));
    state.tracker.spawn(send_mails_forever(state.clone()));
    state.tracker.spawn(notify_forever(state.clone()));
    state.tracker.spawn(send_pushes_forever(state.clone()));
    state.tracker.spawn(collect_events_forever(state.clone()));
    state.tracker.spawn(send_events_forever(state.clone()));
    state.tracker.spawn(broadcast_presence_loop(state.clone()));
    state.tracker.spawn(broadcast_activity_loop(state.clone()));
    state
        .tracker
        .spawn(socket::check_access_forever(state.clone()));
}

/// Removes this node from the list of nodes, and closes the database.
async fn leave(state: &State) {
    let left = tokio::time::timeout(CLOSE_WITHIN, nodes::leave(&state.nodes)).await;
    if !matches!(left, Ok(Ok(()))) {
        tracing::warn!(
            "the other nodes will treat this node as stopped only when its lease expires"
        );
    }
    if tokio::time::timeout(CLOSE_WITHIN, state.db.close())
        .await
        .is_err()
    {
        tracing::warn!("the database did not close in time");
    }
}

async fn bind(listen: &str, setting: &str) -> anyhow::Result<TcpListener> {
    let bound = match TcpListener::bind(listen).await {
        // A machine without IPv6.
        Err(_) if listen.starts_with("[::]:") => {
            TcpListener::bind(listen.replacen("[::]", "0.0.0.0", 1)).await
        }
        bound => bound,
    };
    bound.with_context(|| format!("cannot listen on {listen}: set {setting} to a free HOST:PORT"))
}

/// Waits for `stop`. Then, if another node is ready, hands over the clients: stops claiming tasks, reports for some seconds that
/// it is not ready, so that load balancers react, and closes the sockets one after the other.
async fn stop_gently(state: &State, draining: &CancellationToken, stop: impl Future<Output = ()>) {
    stop.await;
    tracing::info!("stopping");
    let Links { node, bus, hub, .. } = &state.nodes;
    if !bus.has_ready_peer() {
        return;
    }
    node.set_state(NodeState::Draining);
    draining.cancel();
    let drain = state.config.drain;
    tokio::time::sleep(UNREADY_FOR_MAX.min(drain / 2)).await;
    hub.close_gradually(Close::GoingAway, drain).await;
}

/// Stops sending to all sockets and closes them when a new epoch starts, so that their clients load everything again.
async fn follow_epochs(state: State) {
    let mut epoch = state.db.epoch();
    state.hub.set_epoch(&epoch.borrow_and_update().id);
    loop {
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            changed = epoch.changed() => if changed.is_err() { return },
        }
        tracing::warn!("the database has a new epoch; all clients load everything again");
        metrics::counter!("openvibe_epoch_changes_total").increment(1);
        state.hub.start_over(&epoch.borrow_and_update().id);
        let (hub, drain) = (Arc::clone(&state.hub), state.config.drain);
        // Runs in its own task, so that another new epoch does not have to wait for it.
        state.tracker.spawn(async move {
            hub.close_gradually(Close::GoingAway, drain).await;
        });
    }
}

async fn open_database(config: &Config, listener: crate::db::Listener) -> anyhow::Result<Db> {
    Db::open_with(&config.database, config.database_options(), listener)
        .await
        .map_err(|e| describe(&config.database, "could not be opened", e))
}

/// Backs up a database that this version will change, unless the operator has declined that.
///
/// # Errors
/// If the backup fails.
pub async fn back_up_before_migration(config: &Config) -> anyhow::Result<()> {
    if !config.has_update_backup {
        return Ok(());
    }
    if let Some(file) = before_migration::back_up(config).await? {
        tracing::info!("made a backup before the update: {}", file.display());
    }
    Ok(())
}

/// Describes a database failure as a sentence for the operator.
pub fn describe(url: &DatabaseUrl, what: &str, error: DbError) -> anyhow::Error {
    let database = match url {
        DatabaseUrl::Sqlite(path) => format!("the database {}", path.display()),
        DatabaseUrl::Postgres(_) => "the PostgreSQL database".to_owned(),
    };
    match error.fault() {
        // The error itself states what did not respond.
        Some(DatabaseFault::Away | DatabaseFault::Unknown) | None => {
            anyhow::Error::new(error).context(format!("{database} {what}"))
        }
        Some(trouble) => {
            tracing::debug!(error = %error, "the database {what}");
            anyhow::anyhow!("{database} {what}: {}", trouble.text())
        }
    }
}

/// Prepares the data before the server starts.
async fn prepare(links: &Links, config: &Config, agents: Option<String>) -> Result<(), DbError> {
    let db = &links.db;
    rebuild::begin(db).await?;
    check_clock(db).await?;
    let is_alone = nodes::find_peers(links).await?;
    if is_alone {
        calls::close_all(db).await?;
    }
    let tasks_queued_max = config.tasks_queued_max;
    let bytes_max = i64::try_from(config.workspace_bytes_max).unwrap_or(i64::MAX);
    let agents_max = config.agents_max;
    let is_remembering = config.memory;
    db.write(Uuid::nil(), async move |c: &mut Conn| {
        queue::set_queued_max(c, tasks_queued_max).await?;
        auth::quota::set_quotas(c, bytes_max, agents_max).await?;
        seeds::set_seeds(c, agents.as_deref()).await?;
        memory::settings::set_server(c, is_remembering).await?;
        if is_alone {
            // This includes tasks without a worker slot, which only the process that claimed them can run.
            queue::expire_leases(c, None).await?;
        }
        Ok::<_, DbError>(())
    })
    .await?;
    Ok(())
}

/// Warns if the clock is behind the data, because new messages would have times before those of old ones.
async fn check_clock(db: &Db) -> Result<(), DbError> {
    let newest: Option<(Timestamp,)> = db
        .read()
        .await?
        .q("select ts from events order by ts desc limit 1")
        .opt()
        .await?;
    let behind = newest.map_or(Duration::ZERO, |(at,)| at.since(now()));
    if behind > CLOCK_BEHIND_MAX {
        tracing::warn!(
            "the clock of this machine is {} minutes behind the newest data: synchronize it, for example with `timedatectl set-ntp true`",
            behind.as_secs() / 60
        );
    }
    Ok(())
}

/// Opens the server's certificate. Its first name becomes the public URL, unless one is set.
async fn open_https(
    config: &mut Config,
    plain: TcpListener,
    address: SocketAddr,
    links: &Links,
) -> anyhow::Result<Option<Https>> {
    let Some(settings) = &config.tls else {
        return Ok(None);
    };
    let node = Arc::clone(&links.node);
    let parts = acme::Parts {
        db: links.db.clone(),
        keyring: Arc::new(keyring(config)),
        runs_jobs: Arc::new(move || node.runs_jobs()),
    };
    let keeper = CertificateKeeper::open(settings, parts).await?;
    let certificate = keeper.store().certificate();
    let of_certificate = certificate
        .iter()
        .flat_map(|certificate| &certificate.names);
    let mut names = settings.names.iter().chain(of_certificate);
    if config.public_url.is_none()
        && let Some(name) = names.find(|name| !name.starts_with("*."))
    {
        config.public_url = Some(https_url(name, address.port()));
    }
    Ok(Some(Https { keeper, plain }))
}

/// URL of the server if no other is configured.
pub fn default_url(address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        format!("http://localhost:{}", address.port())
    } else {
        format!("http://{address}")
    }
}

/// Waits until this node runs the jobs that only one node runs at a time. Returns `None` at shutdown.
async fn wait_for_jobs(state: &State) -> Option<()> {
    while !state.nodes.node.runs_jobs() {
        let pause = tokio::time::sleep(FIND_JOBS_EVERY);
        state.shutdown.run_until_cancelled(pause).await?;
    }
    (!state.shutdown.is_cancelled()).then_some(())
}

async fn broadcast_presence_loop(state: State) {
    let mut ticks = tokio::time::interval(PRESENCE_EVERY);
    while state
        .shutdown
        .run_until_cancelled(ticks.tick())
        .await
        .is_some()
    {
        state.hub.broadcast_presence();
    }
}

async fn broadcast_activity_loop(state: State) {
    let mut ticks = tokio::time::interval(ACTIVITY_EVERY);
    while state
        .shutdown
        .run_until_cancelled(ticks.tick())
        .await
        .is_some()
    {
        state.hub.broadcast_activity();
    }
}

/// Removes expired events, sessions, stored responses, and request counters.
async fn cleanup_loop(state: State) {
    let retention = state.config.event_retention;
    let every = (retention / 4).clamp(Duration::from_millis(250), TIDY_EVERY_MAX);
    loop {
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        if let Err(e) = cleanup(&state, retention).await {
            tracing::warn!(error = %e, "could not remove expired rows; retrying later");
        }
    }
}

async fn cleanup(state: &State, retention: Duration) -> Result<(), auth::AuthError> {
    state.metrics.run_upkeep();
    state.limits.cleanup();
    if !state.nodes.node.runs_jobs() {
        return Ok(());
    }
    state.limits.delete_expired().await?;
    let before = now() - retention;
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
        .await
}

/// Removes unreferenced uploads and, less often, leftovers of crashes. The first round, soon after startup, includes both.
async fn cleanup_files_loop(state: State) {
    let orphan_after = state.config.upload_orphan_after;
    let every = (orphan_after / 4).clamp(Duration::from_millis(250), TIDY_EVERY_MAX);
    for round in 0_u64.. {
        let how = if round.is_multiple_of(WHOLE_TIDY_ROUNDS) {
            CleanupScope::Everything
        } else {
            CleanupScope::Rows
        };
        if wait_for_jobs(&state).await.is_none() {
            return;
        }
        if let Err(e) = files::cleanup(&state.db, &state.blobs, orphan_after, how).await {
            tracing::warn!(error = %e, "could not remove unreferenced files; retrying later");
        }
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
    }
}

/// Reads the text of uploads, each in a process of its own.
async fn read_documents_forever(state: State) {
    let mut has_queued = false;
    while wait_for_jobs(&state).await.is_some() {
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = state.documents.wait() => {}
        }
        if !has_queued {
            match state.documents.queue_missing().await {
                Ok(()) => has_queued = true,
                Err(e) => {
                    tracing::warn!(error = %e, "could not queue files without a text; retrying");
                }
            }
        }
        if let Err(e) = read_due_documents(&state).await {
            tracing::warn!(error = %e, "could not look for files to read; retrying");
        }
    }
}

/// Puts passages of files into the search index, and removes those of deleted files.
async fn index_passages_forever(state: State) {
    while wait_for_jobs(&state).await.is_some() {
        let work = async {
            let has_indexed = passages::index::index_next(&state.db).await?;
            Ok::<_, DbError>(passages::index::remove_next(&state.db).await? || has_indexed)
        };
        let pause = match work.await {
            Ok(true) => Duration::ZERO,
            Ok(false) => PASSAGES_EVERY,
            Err(e) => {
                tracing::warn!(error = %e, "could not index the text of a file; retrying");
                PASSAGES_EVERY
            }
        };
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = state.documents.wait_for_text(pause) => {}
        }
    }
}

async fn read_due_documents(state: &State) -> Result<(), DbError> {
    while let Some(turn) = state.documents.claim().await? {
        let state_of_turn = state.clone();
        state.tracker.spawn(async move {
            let State(inner) = &state_of_turn;
            inner.documents.read(turn, &inner.shutdown).await;
        });
    }
    Ok(())
}

/// Deletes expired texts of context records, expired rows of model calls and of slots, expired runs, and counters of past
/// budgets, at startup and then daily.
async fn remove_contexts_forever(state: State) {
    while wait_for_jobs(&state).await.is_some() {
        let retention = state.config.context_retention;
        if let Err(e) = manifest::remove_expired(&state.db, retention).await {
            tracing::warn!(error = %e, "expired texts of context records could not be deleted; trying again tomorrow");
        }
        if let Err(e) = calls::remove_expired(&state.db, retention).await {
            tracing::warn!(error = %e, "expired rows of model calls could not be deleted; trying again tomorrow");
        }
        if let Err(e) = schedules::delete_old_slots(&state.db, retention).await {
            tracing::warn!(error = %e, "expired slots of schedules could not be deleted; trying again tomorrow");
        }
        if let Err(e) = runs::remove_expired(&state.db, retention).await {
            tracing::warn!(error = %e, "expired runs could not be deleted; trying again tomorrow");
        }
        if let Err(e) = post::forget_client_ids(&state.db).await {
            tracing::warn!(error = %e, "old client IDs could not be deleted; trying again tomorrow");
        }
        if let Err(e) = hooks::delete_old_threads(&state.db).await {
            tracing::warn!(error = %e, "old threads of webhooks could not be forgotten; trying again tomorrow");
        }
        if let Err(e) = slack::delete_old_uploads(&state.db).await {
            tracing::warn!(error = %e, "expired addresses for files could not be deleted; trying again tomorrow");
        }
        if let Err(e) = hooks::delete_old_requests(&state.db).await {
            tracing::warn!(error = %e, "old requests to webhooks could not be deleted; trying again tomorrow");
        }
        if let Err(e) = inbox::expire::delete_old(&state.db).await {
            tracing::warn!(error = %e, "old inbox items could not be deleted; trying again tomorrow");
        }
        if let Err(e) = budgets::remove_past(&state.db).await {
            tracing::warn!(error = %e, "counters of past budgets could not be deleted; trying again tomorrow");
        }
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = tokio::time::sleep(REMOVE_CONTEXTS_EVERY) => {}
        }
    }
}

/// Rebuilds the search index if `prepare` found it outdated, at a limited share of the time. Any node may have to continue, so all of
/// them wait for the jobs.
async fn rebuild_search(state: State) {
    while wait_for_jobs(&state).await.is_some() {
        let pause = match rebuild::rebuild_next(&state.db).await {
            Ok(Some(pause)) => pause,
            Ok(None) => return,
            Err(e) => {
                tracing::warn!(error = %e, "the search index could not be rebuilt; retrying");
                INDEX_LONG_TEXTS_EVERY
            }
        };
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Replaces documents of very long messages whose properties changed, at a limited share of the writer's time.
async fn index_long_texts_forever(state: State) {
    while wait_for_jobs(&state).await.is_some() {
        let done = backlog::replace_next(&state.db).await;
        let pause = done.unwrap_or_else(|e| {
            tracing::warn!(error = %e, "a long message could not be reindexed; retrying");
            None
        });
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = tokio::time::sleep(pause.unwrap_or(INDEX_LONG_TEXTS_EVERY)) => {}
        }
    }
}

/// Announces draft edits that were held back because they followed an announcement too closely.
async fn announce_edits_forever(state: State) {
    loop {
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = tokio::time::sleep(ANNOUNCE_EDITS_EVERY) => {}
        }
        if !state.nodes.node.runs_jobs() {
            continue;
        }
        if let Err(e) = announce_edits(&state).await {
            tracing::warn!(error = %e, "could not announce draft edits; retrying");
        }
    }
}

/// Ends actions and parked tasks for which nobody can make a decision anymore, and wakes runs with steps that are due.
async fn expire_approvals_forever(state: State) {
    loop {
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = tokio::time::sleep(EXPIRE_APPROVALS_EVERY) => {}
        }
        if !state.nodes.node.runs_jobs() {
            continue;
        }
        if let Err(e) = approvals::end_due(&state.db, &state.hub).await {
            tracing::warn!(error = %e, "could not end actions; retrying");
        }
        if let Err(e) = runs::wake_due(&state.db).await {
            tracing::warn!(error = %e, "could not wake runs; retrying");
        }
    }
}

/// Removes deleted threads whose removal was interrupted.
async fn remove_threads_forever(state: State) {
    while wait_for_jobs(&state).await.is_some() {
        match personal::workspaces_to_clean(&state.db).await {
            Ok(workspaces) => {
                for workspace in workspaces {
                    state
                        .tracker
                        .spawn(remove_threads(state.clone(), workspace));
                }
            }
            Err(e) => tracing::warn!(error = %e, "could not look up deleted threads; retrying"),
        }
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = tokio::time::sleep(REMOVE_THREADS_EVERY) => {}
        }
    }
}

/// Opens inbox items that are due.
async fn open_due_items_forever(state: State) {
    while wait_for_jobs(&state).await.is_some() {
        if let Err(e) = inbox::expire::open_due(&state.db).await {
            tracing::warn!(error = %e, "could not open inbox items that are due; retrying");
        }
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = tokio::time::sleep(OPEN_DUE_ITEMS_EVERY) => {}
        }
    }
}

/// Reads and stores archives, on one node at a time.
async fn import_forever(state: State) {
    let importer = Importer::from(&state);
    let mut errors = ImportErrors::default();
    while wait_for_jobs(&state).await.is_some() {
        let worked = Box::pin(importer.work(&mut errors)).await;
        if let Err(e) = &worked {
            tracing::warn!(error = %e, "an import was interrupted; retrying");
        }
        if !matches!(worked, Ok(true)) {
            let pause = tokio::time::sleep(IMPORT_EVERY);
            if state.shutdown.run_until_cancelled(pause).await.is_none() {
                return;
            }
        }
    }
}

/// Writes archives of workspaces, on one node at a time.
async fn export_forever(state: State) {
    let exporter = Exporter::from(&state);
    let mut errors = ExportErrors::default();
    while wait_for_jobs(&state).await.is_some() {
        let worked = Box::pin(exporter.work(&mut errors)).await;
        if let Err(e) = &worked {
            tracing::warn!(error = %e, "an export was interrupted; retrying");
        }
        if !matches!(worked, Ok(true)) {
            let pause = tokio::time::sleep(EXPORT_EVERY);
            if state.shutdown.run_until_cancelled(pause).await.is_none() {
                return;
            }
        }
    }
}

/// Sends queued emails. A restored copy sends none until somebody starts it.
async fn send_mails_forever(state: State) {
    if !state.mailer.is_on() || state.config.is_quiet {
        return;
    }
    while wait_for_jobs(&state).await.is_some() {
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = state.mailer.wait() => {}
        }
        let sent = state
            .shutdown
            .run_until_cancelled(Box::pin(send_mails(&state)))
            .await;
        let pause = match sent {
            None => return,
            Some(Ok(pause)) => pause,
            Some(Err(e)) => {
                tracing::warn!(error = %e, "could not send emails; retrying");
                Duration::ZERO
            }
        };
        let pause = tokio::time::sleep(pause);
        if state.shutdown.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}

async fn send_mails(state: &State) -> Result<Duration, DbError> {
    let mut c = state.db.read().await?;
    let is_asleep = asleep::is_asleep(&mut c).await?;
    drop(c);
    if is_asleep {
        return Ok(Duration::ZERO);
    }
    state.mailer.send_due(&state.db).await
}

/// Finds people who have to be notified. A restored copy notifies nobody until somebody starts it.
async fn notify_forever(state: State) {
    if state.config.is_quiet {
        return;
    }
    while wait_for_jobs(&state).await.is_some() {
        let notified = async {
            if asleep::is_asleep(&mut state.db.read().await?).await? {
                return Ok(false);
            }
            let has_new = state.pusher.notify(&state.db).await?;
            let (mailer, url) = (&state.mailer, &state.public_url);
            state.pusher.mail_missed(&state.db, mailer, url).await?;
            Ok(has_new)
        };
        let notified = state.shutdown.run_until_cancelled(Box::pin(notified)).await;
        match notified {
            None => return,
            Some(Ok(_)) => {}
            Some(Err(e)) => {
                let e: DbError = e;
                tracing::warn!(error = %e, "could not look for people to notify; retrying");
            }
        }
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = tokio::time::sleep(state.pusher.pace.check_every) => {}
        }
    }
}

/// Sends notifications to push services. A restored copy sends none until somebody starts it.
async fn send_pushes_forever(state: State) {
    if state.config.is_quiet {
        return;
    }
    while wait_for_jobs(&state).await.is_some() {
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = state.pusher.wait() => {}
        }
        let sending = Box::pin(send_pushes(&state));
        match state.shutdown.run_until_cancelled(sending).await {
            None => return,
            Some(Ok(())) => {}
            Some(Err(e)) => tracing::warn!(error = %e, "could not send notifications; retrying"),
        }
    }
}

async fn send_pushes(state: &State) -> Result<(), push::PushError> {
    let mut c = state.db.read().await?;
    let is_asleep = asleep::is_asleep(&mut c).await?;
    drop(c);
    if is_asleep {
        return Ok(());
    }
    let may_continue = || state.nodes.node.runs_jobs();
    state.pusher.send_due(&state.db, may_continue).await
}

/// Reads the event log for the subscriptions of bots. A restored copy reads nothing until somebody starts it.
async fn collect_events_forever(state: State) {
    if state.config.is_quiet {
        return;
    }
    let mut collector = Collector::default();
    while wait_for_jobs(&state).await.is_some() {
        let round = async {
            if asleep::is_asleep(&mut state.db.read().await?).await? {
                return Ok(Round::Unused);
            }
            collector.round(&state.db).await
        };
        let round = state.shutdown.run_until_cancelled(Box::pin(round)).await;
        let pause = match round {
            None => return,
            Some(Ok(Round::Unused)) => UNUSED_CHECKED_EVERY,
            Some(Ok(Round::Idle)) => EVENTS_READ_EVERY,
            Some(Ok(Round::Inserted)) => {
                state.events.wake();
                EVENTS_READ_EVERY
            }
            Some(Err(e)) => {
                tracing::warn!(error = %e, "could not read events for bots; retrying");
                UNUSED_CHECKED_EVERY
            }
        };
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Sends events to the programs of bots. A restored copy sends none until somebody starts it.
async fn send_events_forever(state: State) {
    if state.config.is_quiet {
        return;
    }
    while wait_for_jobs(&state).await.is_some() {
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = state.events.wait() => {}
        }
        let sending = Box::pin(async {
            if asleep::is_asleep(&mut state.db.read().await?).await? {
                return Ok(());
            }
            let may_continue = || state.nodes.node.runs_jobs();
            state.events.send_due(&state.db, may_continue).await
        });
        match state.shutdown.run_until_cancelled(sending).await {
            None => return,
            Some(Ok(())) => {}
            Some(Err(e)) => tracing::warn!(error = %e, "could not send events to bots; retrying"),
        }
    }
}

/// Fires the schedules that are due.
async fn fire_schedules_forever(state: State) {
    loop {
        let has_more = schedules::fire_due(&state.db).await.unwrap_or_else(|e| {
            tracing::warn!(error = %e, "could not fire schedules; retrying");
            false
        });
        let pause = if has_more {
            Duration::ZERO
        } else {
            FIRE_SCHEDULES_EVERY
        };
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Refreshes agents after changes to their bases, a few per transaction, so that other writes can proceed in between.
async fn refresh_agents_forever(state: State) {
    loop {
        let pause = if state.disk.check().await.is_err() || !state.nodes.node.runs_jobs() {
            REFRESH_EVERY
        } else {
            match profiles::refresh_some(&state.db).await {
                Ok(true) => REFRESH_PAUSE,
                Ok(false) => REFRESH_EVERY,
                Err(e) => {
                    tracing::warn!(error = %e, "could not refresh agents after a change to their base; retrying");
                    REFRESH_EVERY
                }
            }
        };
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Queues passes for conversations that have become quiet. The interval between checks is the minimum interval between passes of a
/// conversation, within fixed bounds.
async fn compact_quiet_forever(state: State) {
    let settings = CompactionSettings::of(&state.config);
    let every = settings.interval;
    let every = every.clamp(Duration::from_millis(250), quiet::CHECKED_EVERY_MAX);
    loop {
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        if !state.nodes.node.runs_jobs() {
            continue;
        }
        if let Err(e) = quiet::queue_due(&state.db, settings).await {
            tracing::warn!(error = %e, "could not compact quiet conversations; retrying");
        }
    }
}

async fn announce_edits(state: &State) -> Result<(), DbError> {
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
