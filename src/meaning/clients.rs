//! Clients of the servers for embeddings.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use uuid::Uuid;

use super::{memory::Memory, rows::ModelRow};
use crate::{
    db::{Conn, Db, DbError},
    ids::{UserId, WorkspaceId},
    model::{Connection, EmbedRequest, EmbeddingServer, ErrorTexts, Provider, SetupError},
    outbound::Url,
    providers::Providers,
    secrets::{self, Keyring},
    tasks::calls::{CallLog, NewCall, Purpose},
};

/// Maximum number of clients in memory.
const CLIENTS_MAX: usize = 256;

/// Dependencies of `Meaning`.
pub struct Setup {
    pub db: Db,
    pub providers: Arc<Providers>,
    pub calls: CallLog,
    pub keyring: Arc<Keyring>,
    /// Server and model that environment variables name.
    pub environment: Option<EmbeddingServer>,
    /// Time for which a search waits for the vector of its question.
    pub wait: Duration,
    /// Maximum memory for signs of vectors, in bytes.
    pub memory_bytes_max: u64,
    /// True if no server must be called.
    pub is_quiet: bool,
}

/// Search by meaning in all workspaces.
pub struct Meaning {
    pub(super) db: Db,
    pub(super) providers: Arc<Providers>,
    pub(super) calls: CallLog,
    pub(super) keyring: Arc<Keyring>,
    pub(super) environment: Option<Environment>,
    pub(super) is_quiet: bool,
    pub(super) wait: Duration,
    pub(super) memory: Arc<Memory>,
    /// Time at which the passages that wait were last counted.
    pub(super) counted: Mutex<Option<Instant>>,
    clients: Mutex<HashMap<Uuid, Client>>,
}

impl std::fmt::Debug for Meaning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meaning").finish_non_exhaustive()
    }
}

/// Server and model that environment variables name.
pub(super) struct Environment {
    pub(super) model: String,
    /// `None` for the model server of each workspace.
    pub(super) base_url: Option<Url>,
    pub(super) has_key: bool,
    provider: Option<Arc<dyn Provider>>,
}

impl Environment {
    /// The URL without user name and password, as it is stored and shown.
    pub(super) fn shown_url(&self) -> Option<String> {
        let mut url = self.base_url.clone()?;
        // These calls fail only for URLs without a host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_query(None);
        Some(url.to_string())
    }

    /// Checks whether the row is of this server and model.
    pub(super) fn is_of(&self, row: &ModelRow) -> bool {
        row.is_environment && row.model == self.model && row.base_url == self.shown_url()
    }
}

/// Connection to a server for embeddings.
pub(super) fn connection_to(base_url: Url, api_key: Option<String>) -> Connection {
    Connection {
        base_url,
        api_key,
        model: None,
        utility_model: None,
        resolver: None,
        errors: ErrorTexts::default(),
    }
}

/// The call for vectors, which counts toward the budgets of the user.
pub(super) fn new_call(row: &ModelRow, user: UserId, request: &EmbedRequest) -> NewCall {
    NewCall {
        workspace: row.workspace_id,
        task: None,
        purpose: Purpose::Embed,
        user,
        agent: None,
        model: row.model.clone(),
        prompt_tokens: request.tokens(),
        output_tokens_max: 0,
    }
}

/// Client for a model, with the version of its settings.
struct Client {
    version: i64,
    provider: Arc<dyn Provider>,
}

impl Meaning {
    /// # Errors
    /// If the server of the environment cannot be used.
    pub fn new(setup: Setup) -> Result<Self, SetupError> {
        let environment = match setup.environment {
            None => None,
            Some(server) => {
                let has_key = server.api_key.is_some();
                let base_url = server.base_url.clone();
                let connection = base_url.map(|url| connection_to(url, server.api_key));
                let provider = connection.map(|of| setup.providers.connect_configured(of));
                Some(Environment {
                    model: server.model,
                    base_url: server.base_url,
                    has_key,
                    provider: provider.transpose()?,
                })
            }
        };
        Ok(Self {
            db: setup.db,
            providers: setup.providers,
            calls: setup.calls,
            keyring: setup.keyring,
            environment,
            is_quiet: setup.is_quiet,
            wait: setup.wait,
            memory: Arc::new(Memory::new(setup.memory_bytes_max)),
            counted: Mutex::default(),
            clients: Mutex::default(),
        })
    }

    /// The model that gets the vectors of a workspace's passages; `None` if no model is named. The model of the environment has no row
    /// before the workspace has passages.
    pub(super) async fn find_current(
        &self,
        c: &mut Conn,
        workspace: WorkspaceId,
    ) -> Result<Option<ModelRow>, DbError> {
        let row = ModelRow::find_current(c, workspace, self.environment.is_some()).await?;
        Ok(row.filter(|row| match &self.environment {
            Some(environment) => environment.is_of(row),
            None => true,
        }))
    }

    /// The client of a model's server; `None` if there is no server that may be called.
    pub(super) async fn provider_of(
        &self,
        row: &ModelRow,
    ) -> Result<Option<Arc<dyn Provider>>, DbError> {
        if self.is_quiet {
            return Ok(None);
        }
        if row.base_url.is_none() {
            let provider = self.providers.of(row.workspace_id).await?;
            return Ok(Some(provider).filter(|provider| !provider.is_offline()));
        }
        if row.is_environment {
            let environment = self.environment.as_ref();
            let same = environment.filter(|environment| environment.shown_url() == row.base_url);
            return Ok(same.and_then(|environment| environment.provider.clone()));
        }
        let clients = || self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let known = clients()
            .get(&row.id)
            .filter(|client| client.version == row.version)
            .map(|client| Arc::clone(&client.provider));
        if known.is_some() {
            return Ok(known);
        }
        let Some(base_url) = row.url() else {
            return Ok(None);
        };
        let mut c = self.db.read().await?;
        let local = Providers::local_for(&mut c, row.workspace_id).await?;
        let sealed = secrets::find(&mut c, &row.owner()).await?;
        drop(c);
        let api_key = sealed.and_then(|sealed| match self.keyring.open(&row.owner(), &sealed) {
            Ok(key) => Some(key),
            Err(e) => {
                tracing::error!(workspace.id = %row.workspace_id, error = %e, "the key of a server for embeddings cannot be used");
                None
            }
        });
        let connection = connection_to(base_url, api_key);
        let provider = match self.providers.connect(connection, local) {
            Ok(provider) => provider,
            Err(e) => {
                tracing::error!(workspace.id = %row.workspace_id, error = %e, "a server for embeddings cannot be used");
                return Ok(None);
            }
        };
        let mut clients = clients();
        if clients.len() >= CLIENTS_MAX {
            clients.clear();
        }
        let client = Client {
            version: row.version,
            provider: Arc::clone(&provider),
        };
        clients.insert(row.id, client);
        Ok(Some(provider))
    }
}
