//! The server as a whole: built from its configuration, run until stopped.

mod handlers;
mod jobs;
mod open;
mod services;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    auth,
    config::Config,
    db::{DatabaseUrl, Db},
    http::{
        serve::{self, Bounds, serve},
        tls::TlsAcceptor,
    },
    nodes::{self, Lease, LeaseEnd, Links, bus::Bus},
    personal::{self, Eraser},
    providers::Providers,
    realtime::{Close, Hub, NodeState},
    router,
    routes::health::serve_metrics,
    server::{State, plain::PlainHttp},
    tasks::worker::Worker,
    telemetry,
};
use handlers::HandlerParts;
use open::{FileLocks, Https, Opened, bind, open_https};
pub use open::{back_up_before_migration, describe};
use services::state;
pub use services::{default_url, keyring};

/// Time limit for ending open work at shutdown.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(7);
/// Maximum time for which a stopping node reports that it is not ready but still serves as before.
const UNREADY_FOR_MAX: Duration = Duration::from_secs(5);
/// Time limit for closing the database.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

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

/// The worker, which runs queued tasks until `draining` is canceled.
fn worker(state: &State, draining: CancellationToken) -> Worker {
    let parts = HandlerParts {
        config: &state.config,
        hub: &state.hub,
        providers: &state.providers,
        queue: &state.queue,
        blobs: &state.blobs,
        pictures: &state.pictures,
        calls: &state.calls,
        keyring: &state.keyring,
        tools: &state.tools,
        meaning: &state.meaning,
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
        }
        jobs::start(&state);
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
