//! Shared state of all handlers; built once by `app`.

use std::{net::SocketAddr, ops::Deref, sync::Arc};

use metrics_exporter_prometheus::PrometheusHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{pages::PageCache, setup::FirstAccount, workspaces::WorkspaceCache};
use crate::{
    auth::{Hasher, Limits, oidc::ProviderClient},
    collections::UrlRefresher,
    config::Config,
    db::{Db, DbError},
    disk::DiskSpace,
    files::{Blobs, documents::DocumentReader, pictures::PictureReader},
    ids::{UserId, WorkspaceId},
    mail::Mailer,
    meaning::Meaning,
    nodes::Links,
    outgoing::EventSender,
    personal::PersonalTurns,
    providers::Providers,
    push::Pusher,
    realtime::Hub,
    registry::Registry,
    responses::ResponsesService,
    secrets::Keyring,
    share::SharedTurns,
    tasks::{Queue, calls::CallLog},
    tls::store::CertificateStore,
    tools::runner::Toolbox,
};

pub struct Inner {
    pub db: Db,
    pub config: Config,
    /// Public URL, without a trailing slash.
    pub public_url: String,
    /// Address on which the server listens.
    pub address: SocketAddr,
    /// True if the server listens only on a loopback address.
    pub is_on_loopback: bool,
    /// This process as a node, with its connection to other nodes.
    pub nodes: Links,
    pub first_account: FirstAccount,
    /// Certificate of HTTPS without a proxy.
    pub certificate: Option<Arc<CertificateStore>>,
    pub hub: Arc<Hub>,
    pub queue: Arc<Queue>,
    /// Model providers of all workspaces.
    pub providers: Arc<Providers>,
    /// Search by meaning in all workspaces.
    pub meaning: Arc<Meaning>,
    pub calls: CallLog,
    pub keyring: Arc<Keyring>,
    /// Client of the identity providers.
    pub oidc: ProviderClient,
    pub mailer: Mailer,
    pub pusher: Pusher,
    /// Sender of events to bots.
    pub events: EventSender,
    /// Registered tools of all workspaces.
    pub registry: Arc<Registry>,
    /// Functions that agents can call.
    pub tools: Toolbox,
    /// The Responses service without a workspace's model; `responses` adds the model.
    pub responses_of_all: Arc<ResponsesService>,
    pub disk: DiskSpace,
    /// Storage of uploads.
    pub blobs: Blobs,
    /// Reads the text of files.
    pub documents: DocumentReader,
    /// Scales pictures for models.
    pub pictures: PictureReader,
    /// Reads the web pages of vector stores.
    pub web_pages: UrlRefresher,
    pub hasher: Hasher,
    /// Turns for catch-ups without a model.
    pub catch_ups: SharedTurns<UserId>,
    pub limits: Limits,
    /// Limits on concurrent exports and erasures.
    pub personal: PersonalTurns,
    /// Newest pages of threads.
    pub pages: PageCache,
    /// Workspaces of the objects that were recently written to.
    pub workspaces: WorkspaceCache,
    pub metrics: PrometheusHandle,
    /// Owns every async task of this process.
    pub tracker: TaskTracker,
    pub shutdown: CancellationToken,
}

#[derive(Clone)]
pub struct State(pub Arc<Inner>);

impl Deref for State {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Inner {
    /// Returns the Responses service for calls in a workspace, with the model of that workspace.
    ///
    /// # Errors
    /// Returns an error if the settings of the workspace cannot be read.
    pub async fn responses(
        &self,
        workspace: WorkspaceId,
    ) -> Result<Arc<ResponsesService>, DbError> {
        let provider = self.providers.of(workspace).await?;
        Ok(self.responses_of_all.with_provider(provider))
    }
}

impl State {
    /// Identity of the log. It changes when a backup is restored or commits may have been lost, which invalidates all earlier
    /// cursors.
    pub fn epoch(&self) -> String {
        self.nodes.epoch()
    }

    pub fn is_https(&self) -> bool {
        self.public_url.starts_with("https://")
    }
}
