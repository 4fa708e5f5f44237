//! Resources that a server acquires before it serves: locks, a port, a ready database, and a certificate.

use std::{
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use tokio::{
    net::TcpListener,
    sync::mpsc::{self, error::TrySendError},
};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::services::keyring;
use crate::{
    agents::seeds,
    auth::{
        self,
        revocations::{RevocationFeed, Revoked},
    },
    chat::search::rebuild,
    config::Config,
    db::{self, CommitSignal, Conn, DatabaseFault, DatabaseUrl, Db, DbError, LostSignals, now},
    doctor::stored,
    ids::WorkspaceId,
    inbox::ItemOpened,
    lock, memory,
    nodes::{self, Lease, Links, Node, bus::Bus},
    permissions,
    realtime::{BusMessage, Envelope, Hub, LiveFrame, Shared},
    storage::directory,
    tasks::{
        Queue, calls,
        queue::{self, Commanded, Stopped, Wake},
        steers::Steered,
        usage::Counted,
    },
    telemetry::FANOUT_SECONDS,
    time::Timestamp,
    tls::{CertificateKeeper, acme},
    tls_settings::https_url,
    upkeep::{self, before_migration},
};

/// Capacity of the queue of commit signals for the hub; writers wait while it is full.
const NOTICES_MAX: usize = 4096;

/// Time by which this machine's clock can be behind the newest event without a warning: another node may have written the event.
const CLOCK_BEHIND_MAX: Duration = Duration::from_mins(5);

/// File locks that are held while the server runs, so that only this process uses the data.
pub(super) struct FileLocks(
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
) -> db::Listener {
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
                    queue.signal_commands();
                    hub.drop_stream(stopped.workspace, stopped.task);
                    bus.send(BusMessage::Stop {
                        workspace: stopped.workspace,
                        task: stopped.task,
                    });
                } else if let Some(steered) = notice.downcast_ref::<Steered>() {
                    queue.steer(steered.task);
                    queue.signal_commands();
                    bus.send(BusMessage::Steer { task: steered.task });
                } else if notice.is::<Commanded>() {
                    queue.signal_commands();
                    bus.send(BusMessage::Command);
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

fn read_seeds(path: &Path) -> anyhow::Result<String> {
    let read = seeds::read_file(path);
    read.map_err(|e| anyhow::anyhow!("OPENVIBE_SEEDS_FILE: {}: {e}", path.display()))
}

/// A bound port, and a database that is ready to use.
pub(super) struct Opened {
    pub(super) files: FileLocks,
    pub(super) listener: TcpListener,
    /// Listener for plain HTTP beside one for HTTPS.
    pub(super) plain: Option<TcpListener>,
    pub(super) address: SocketAddr,
    pub(super) lease: Option<Lease>,
    pub(super) links: Links,
    pub(super) bus_queue: mpsc::Receiver<BusMessage>,
}

impl Opened {
    pub(super) async fn open(config: &Config) -> anyhow::Result<Self> {
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
            .map_err(|e| describe(&config.database, "could not be prepared", &e))?;
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

pub(super) async fn bind(listen: &str, setting: &str) -> anyhow::Result<TcpListener> {
    let bound = match TcpListener::bind(listen).await {
        // A machine without IPv6.
        Err(_) if listen.starts_with("[::]:") => {
            TcpListener::bind(listen.replacen("[::]", "0.0.0.0", 1)).await
        }
        bound => bound,
    };
    bound.with_context(|| format!("cannot listen on {listen}: set {setting} to a free HOST:PORT"))
}

async fn open_database(config: &Config, listener: db::Listener) -> anyhow::Result<Db> {
    Db::open_with(&config.database, config.database_options(), listener)
        .await
        .map_err(|e| describe(&config.database, "could not be opened", &e))
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
pub fn describe(url: &DatabaseUrl, what: &str, error: &DbError) -> anyhow::Error {
    let database = match url {
        DatabaseUrl::Sqlite(path) => format!("the database {}", path.display()),
        DatabaseUrl::Postgres(_) => "the PostgreSQL database".to_owned(),
    };
    match error.fault() {
        // The error itself states what did not respond.
        Some(DatabaseFault::Away | DatabaseFault::Unknown) | None => {
            anyhow::anyhow!("{database} {what}: {error}")
        }
        Some(trouble) => {
            tracing::debug!(%error, "the database {what}");
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
        upkeep::end_abandoned(db).await?;
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
            stored::end_abandoned(c).await?;
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

/// The certificate of the server, and the listener for plain HTTP.
pub(super) struct Https {
    pub(super) keeper: CertificateKeeper,
    pub(super) plain: TcpListener,
}

/// Opens the server's certificate. Its first name becomes the public URL, unless one is set.
pub(super) async fn open_https(
    config: &mut Config,
    plain: TcpListener,
    address: SocketAddr,
    links: &Links,
) -> anyhow::Result<Option<Https>> {
    let Some(settings) = &config.tls else {
        return Ok(None);
    };
    let (node, is_quiet) = (Arc::clone(&links.node), config.is_quiet);
    let parts = acme::Parts {
        db: links.db.clone(),
        keyring: Arc::new(keyring(config)),
        may_order: Arc::new(move || !is_quiet && node.runs_jobs()),
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
