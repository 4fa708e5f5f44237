//! The services of a server, from its configuration.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    auth::{Hasher, Limits, oidc::ProviderClient},
    collections::UrlRefresher,
    config::Config,
    db::DatabaseUrl,
    disk::DiskSpace,
    files::{Blobs, documents::DocumentReader, pictures::PictureReader},
    mail::{Mailer, Sending},
    mcp::Servers,
    meaning::{self, Meaning},
    memory, model,
    nodes::Links,
    outbound::{OwnServer, Rules},
    outgoing::EventSender,
    personal::PersonalTurns,
    providers::{self, Providers},
    push::{Pusher, vapid::Subject},
    realtime::Hub,
    registry::{self, CodeRunner, Registry, RunnerPrograms},
    replies::{compaction::remember::RememberTool, delegation::DelegationTool, facts::StoredFacts},
    responses::{CallSlots, MediaReader, ResponsesService},
    secrets::Keyring,
    server::{Inner, State, pages::page_cache, setup::FirstAccount, workspaces::workspace_cache},
    share::SharedTurns,
    tasks::calls::CallLog,
    telemetry::Meter,
    tls::store::CertificateStore,
    tools::{
        builtin::{BuiltIns, done::DoneTool, skills::SkillTool},
        outward::{CodeTool, PageTool, ServerTools},
        runner::{ToolRunner, Toolbox},
    },
    web::Fetcher,
};

/// Maximum number of concurrent catch-ups, each of which reads up to 1 MiB of text.
const CATCH_UPS_AT_ONCE: usize = 2;
/// Maximum number of catch-ups of one person that are being made or wait for that.
const CATCH_UPS_WAITING_MAX: usize = 16;

/// Functions that agents can call.
fn toolbox(
    links: &Links,
    blobs: &Blobs,
    keyring: &Arc<Keyring>,
    registry: &Arc<Registry>,
    meaning: &Arc<Meaning>,
) -> Toolbox {
    let db = &links.db;
    let runners: [Arc<dyn ToolRunner>; 8] = [
        Arc::new(DoneTool),
        Arc::new(BuiltIns {
            db: db.clone(),
            blobs: blobs.clone(),
            meaning: Arc::clone(meaning),
        }),
        Arc::new(RememberTool {
            db: db.clone(),
            keyring: Arc::clone(keyring),
        }),
        Arc::new(DelegationTool { db: db.clone() }),
        Arc::new(SkillTool { db: db.clone() }),
        Arc::new(PageTool {
            db: db.clone(),
            registry: Arc::clone(registry),
        }),
        Arc::new(CodeTool {
            db: db.clone(),
            registry: Arc::clone(registry),
            programs: RunnerPrograms {
                db: db.clone(),
                queue: Arc::clone(&links.queue),
                tracker: links.tracker.clone(),
            },
        }),
        Arc::new(ServerTools::new(db.clone(), Arc::clone(registry))),
    ];
    Toolbox {
        runners: Arc::from(runners),
    }
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

/// Keys that encrypt the secrets of workspaces; a server on `SQLite` can create its own key.
pub fn keyring(config: &Config) -> Keyring {
    let is_local = matches!(config.database, DatabaseUrl::Sqlite(_));
    let directory = is_local.then_some(config.data_dir.as_path());
    Keyring::new(config.secret_keys.clone(), directory)
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

/// Search by meaning in all workspaces.
fn meaning(
    config: &Config,
    calls: &CallLog,
    keyring: &Arc<Keyring>,
    providers: &Arc<Providers>,
) -> anyhow::Result<Arc<Meaning>> {
    let meaning = Meaning::new(meaning::Setup {
        db: calls.db.clone(),
        providers: Arc::clone(providers),
        calls: calls.clone(),
        keyring: Arc::clone(keyring),
        environment: config.embedding.clone(),
        wait: config.embedding_wait,
        memory_bytes_max: config.embedding_memory_bytes_max,
        is_quiet: config.is_quiet,
    });
    let meaning = meaning.context("OPENVIBE_EMBEDDING_BASE_URL cannot be used")?;
    Ok(Arc::new(meaning))
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
    meaning: &'a Arc<Meaning>,
    blobs: &'a Blobs,
    pictures: &'a PictureReader,
    documents: &'a DocumentReader,
    registry: &'a Arc<Registry>,
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
        meaning: Arc::clone(parts.meaning),
        blobs: parts.blobs.clone(),
        media: MediaReader::new(
            parts.pictures.clone(),
            parts.documents.clone(),
            Arc::clone(parts.registry),
        ),
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
pub(super) async fn state(
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
    let meaning = meaning(&config, &calls, &keyring, &providers)?;
    let registry = Arc::new(registry(&config, &calls, &keyring, own, &shutdown));
    memory::files::follow_stored(&db, &keyring)
        .await
        .context("could not read the files of agents")?;
    let blobs = Blobs::open(&db, config.blob_settings(), tracker.clone()).await?;
    let documents = DocumentReader::new(db.clone(), blobs.clone(), config.program.clone());
    let web_pages = UrlRefresher::new(
        &db,
        &blobs,
        Arc::clone(&registry),
        documents.clone(),
        config.upload_bytes_max,
    );
    let pictures = PictureReader::new(blobs.clone(), config.program.clone());
    let limits = Limits::new(
        config.rate_limits,
        config.sockets_max,
        config.sockets_per_user,
    );
    #[cfg(test_hooks)]
    let limits = if config.rates_stopped {
        limits.stopped()
    } else {
        limits
    };
    let tools = toolbox(&links, &blobs, &keyring, &registry, &meaning);
    let parts = ResponseParts {
        providers: &providers,
        calls: &calls,
        tools: &tools,
        meaning: &meaning,
        blobs: &blobs,
        pictures: &pictures,
        documents: &documents,
        registry: &registry,
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
        meaning,
        calls,
        keyring,
        oidc,
        mailer,
        pusher,
        events,
        registry,
        disk: DiskSpace::new(data_directories(&config)),
        documents,
        web_pages,
        pictures,
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

/// URL of the server if no other is configured.
pub fn default_url(address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        format!("http://localhost:{}", address.port())
    } else {
        format!("http://{address}")
    }
}
