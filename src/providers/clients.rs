//! Model server clients of workspaces.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use reqwest::Url;
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::{connection::Checked, stored::Stored};
use crate::{
    db::{Conn, Db, DbError},
    ids::WorkspaceId,
    model::{Connection, Connector, ErrorTexts, Provider, SetupError, builtin::Builtin},
    outbound::{self, Gate, LocalAddresses, Rules},
    secrets::{self, Keyring},
    share::{Pool, PoolBounds},
    tasks::calls::CallLog,
    telemetry::Meter,
};

/// Maximum number of workspaces with a client in memory.
const CLIENTS_MAX: usize = 256;
/// Maximum number of concurrent tests.
const TESTS_MAX: usize = 4;
/// Host name that replaces a forbidden IP address; resolving it fails with the reason.
const DENIED_HOST: &str = "not-permitted.invalid";

/// Dependencies of `Providers`.
pub struct Setup {
    pub db: Db,
    pub connector: Connector,
    /// The server configured by environment variables.
    pub environment: Option<Connection>,
    pub keyring: Arc<Keyring>,
    pub rules: Rules,
    pub calls: CallLog,
    pub meter: Meter,
    /// True if no server must be called.
    pub is_quiet: bool,
}

/// Providers of all workspaces.
pub struct Providers {
    pub(super) db: Db,
    pub(super) connector: Connector,
    pub(super) environment: Option<Environment>,
    /// Replaces the providers of all workspaces while the demo is filled.
    stand_in: Mutex<Option<Arc<dyn Provider>>>,
    builtin: Arc<dyn Provider>,
    pub(super) keyring: Arc<Keyring>,
    rules: Arc<Rules>,
    pub(super) calls: CallLog,
    meter: Meter,
    is_quiet: bool,
    clients: Mutex<Clients>,
    /// Permits for concurrent tests.
    pub(super) tests: Semaphore,
    /// Workspaces and people with a running test.
    pub(super) testing: Arc<Pool<Uuid>>,
}

/// The server configured by environment variables.
pub(super) struct Environment {
    pub(super) connection: Connection,
    pub(super) provider: Arc<dyn Provider>,
    /// Latest result of a test.
    pub(super) latest: tokio::sync::Mutex<Option<(Instant, Checked)>>,
}

/// Clients of workspaces; the least recently used one is dropped first.
#[derive(Default)]
struct Clients {
    of: HashMap<WorkspaceId, Client>,
    uses: u64,
}

struct Client {
    version: i64,
    provider: Arc<dyn Provider>,
    used: u64,
}

impl Clients {
    fn find(&mut self, workspace: WorkspaceId, version: i64) -> Option<Arc<dyn Provider>> {
        self.uses += 1;
        let client = self.of.get_mut(&workspace)?;
        client.used = self.uses;
        (client.version == version).then(|| Arc::clone(&client.provider))
    }

    fn insert(&mut self, workspace: WorkspaceId, version: i64, provider: &Arc<dyn Provider>) {
        if self.of.len() >= CLIENTS_MAX && !self.of.contains_key(&workspace) {
            let oldest = self.of.iter().min_by_key(|(_, client)| client.used);
            if let Some(oldest) = oldest.map(|(id, _)| *id) {
                self.of.remove(&oldest);
            }
        }
        let client = Client {
            version,
            provider: Arc::clone(provider),
            used: self.uses,
        };
        self.of.insert(workspace, client);
    }
}

impl Providers {
    /// Creates the client of the server configured by environment variables, if there is one.
    ///
    /// # Errors
    /// If the server configured by environment variables cannot be used; the error names the setting to change.
    pub fn new(setup: Setup) -> Result<Self, SetupError> {
        let environment = setup.environment.filter(|_| !setup.is_quiet);
        let environment = match environment.map(configured) {
            Some(connection) => Some(Environment {
                provider: Arc::new(
                    setup
                        .meter
                        .around(setup.connector.connect(connection.clone())?),
                ),
                connection,
                latest: tokio::sync::Mutex::default(),
            }),
            None => None,
        };
        Ok(Self {
            db: setup.db,
            connector: setup.connector,
            environment,
            stand_in: Mutex::default(),
            builtin: Arc::new(setup.meter.around(Arc::new(Builtin))),
            keyring: setup.keyring,
            rules: Arc::new(setup.rules),
            calls: setup.calls,
            meter: setup.meter,
            is_quiet: setup.is_quiet,
            clients: Mutex::default(),
            tests: Semaphore::new(TESTS_MAX),
            testing: Pool::new(PoolBounds {
                total: u64::MAX,
                share: 1,
            }),
        })
    }

    /// Name of the server that environment variables configure; `None` if there is none.
    pub fn server_name(&self) -> Option<&str> {
        let environment = self.environment.as_ref()?;
        Some(environment.provider.name())
    }

    /// Lets another provider reply in all workspaces, until this is called with `None`. Tasks that already run keep theirs.
    pub fn stand_in(&self, provider: Option<Arc<dyn Provider>>) {
        let provider =
            provider.map(|inner| Arc::new(self.meter.around(inner)) as Arc<dyn Provider>);
        *self.stand_in.lock().unwrap_or_else(PoisonError::into_inner) = provider;
    }

    /// The provider for workspaces without their own settings.
    pub fn fallback(&self) -> Arc<dyn Provider> {
        let environment = self.environment.as_ref();
        Arc::clone(environment.map_or(&self.builtin, |environment| &environment.provider))
    }

    /// The provider of a workspace, according to its current settings.
    ///
    /// # Errors
    /// If the settings cannot be read.
    pub async fn of(&self, workspace: WorkspaceId) -> Result<Arc<dyn Provider>, DbError> {
        let stand_in = self.stand_in.lock();
        let stand_in = stand_in.unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(provider) = stand_in {
            return Ok(provider);
        }
        if self.environment.is_some() || self.is_quiet {
            return Ok(self.fallback());
        }
        let mut c = self.db.read().await?;
        let stored = Stored::find(&mut c, workspace).await?;
        let Some((stored, base_url)) = stored.and_then(Stored::connected) else {
            return Ok(self.fallback());
        };
        let clients = || self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let known = clients().find(workspace, stored.version);
        if let Some(known) = known {
            return Ok(known);
        }
        let owner = workspace.to_string();
        let sealed = secrets::find(&mut c, &owner).await?;
        drop(c);
        let api_key = sealed.and_then(|sealed| match self.keyring.open(&owner, &sealed) {
            Ok(key) => Some(key),
            Err(e) => {
                tracing::error!(workspace.id = %workspace, error = %e, "the key of a model server cannot be used");
                None
            }
        });
        let connection = Connection {
            base_url,
            api_key,
            model: stored.model.clone(),
            utility_model: stored.utility_model.clone(),
            resolver: None,
            errors: ErrorTexts::default(),
        };
        let provider = match self.connect(connection, stored.local()) {
            Ok(provider) => provider,
            Err(e) => {
                tracing::error!(workspace.id = %workspace, error = %e, "the model server of a workspace cannot be used");
                self.fallback()
            }
        };
        clients().insert(workspace, stored.version, &provider);
        Ok(provider)
    }

    /// Creates a client that connects only to permitted addresses, and whose errors do not quote servers at local ones.
    ///
    /// # Errors
    /// `SetupError::ApiKey` for a key that is not a valid header value, `SetupError::Client` if TLS is not available.
    pub fn connect(
        &self,
        mut connection: Connection,
        local: LocalAddresses,
    ) -> Result<Arc<dyn Provider>, SetupError> {
        if let Some(gate) = Gate::new(&self.rules, local, &connection.base_url) {
            let is_denied = gate.check_literal().is_err();
            if is_denied {
                // Cannot fail, because the URL has a host.
                let _ = connection.base_url.set_host(Some(DENIED_HOST));
            }
            if is_denied || !gate.is_by_proxy() {
                connection.resolver = Some(Arc::new(gate));
            }
        }
        connection.errors = ErrorTexts {
            is_public: outbound::is_public,
            are_local_hidden: true,
        };
        let provider = self.connector.connect(connection)?;
        Ok(Arc::new(self.meter.around(provider)))
    }

    /// Creates a client of a server that the operator has configured.
    ///
    /// # Errors
    /// Same as `connect`.
    pub fn connect_configured(
        &self,
        connection: Connection,
    ) -> Result<Arc<dyn Provider>, SetupError> {
        let provider = self.connector.connect(configured(connection))?;
        Ok(Arc::new(self.meter.around(provider)))
    }

    /// Returns whether a workspace can use local addresses.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn local_for(
        c: &mut Conn,
        workspace: WorkspaceId,
    ) -> Result<LocalAddresses, DbError> {
        Stored::local_for(c, workspace).await
    }

    pub(super) fn gate(&self, url: &Url, local: LocalAddresses) -> Option<Gate> {
        Gate::new(&self.rules, local, url)
    }

    /// Drops the client of a workspace, so that a client with old settings is not kept in memory.
    pub(super) fn forget(&self, workspace: WorkspaceId) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.of.remove(&workspace);
    }

    /// Reseals secrets that were sealed with an earlier key, using the current key. Logs an error if the key is another one.
    pub async fn reseal(&self) {
        let checked = async {
            let mut c = self.db.read().await?;
            secrets::can_open(&mut c, &self.keyring).await
        };
        if matches!(checked.await, Ok(false)) {
            tracing::error!("{}", secrets::WRONG_KEY);
        }
        if let Err(e) = secrets::reseal(&self.db, &self.keyring).await {
            tracing::warn!(error = %e, "stored secrets could not be sealed with the new key; trying again at the next start");
        }
    }
}

/// The connection to a server that the operator has configured, whose errors are quoted.
fn configured(connection: Connection) -> Connection {
    Connection {
        errors: ErrorTexts {
            is_public: outbound::is_public,
            are_local_hidden: false,
        },
        ..connection
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_that_was_not_used_for_the_longest_time_is_dropped() {
        let builtin: Arc<dyn Provider> = Arc::new(Builtin);
        let workspace = |n: usize| WorkspaceId(uuid::Uuid::from_u128(n as u128));
        let mut clients = Clients::default();
        for n in 0..CLIENTS_MAX {
            assert!(clients.find(workspace(n), 1).is_none());
            clients.insert(workspace(n), 1, &builtin);
        }
        assert!(clients.find(workspace(0), 1).is_some());
        assert!(clients.find(workspace(0), 2).is_none(), "another version");
        assert!(clients.find(workspace(CLIENTS_MAX), 1).is_none());
        clients.insert(workspace(CLIENTS_MAX), 1, &builtin);
        assert_eq!(clients.of.len(), CLIENTS_MAX);
        assert!(clients.find(workspace(0), 1).is_some());
        assert!(clients.find(workspace(1), 1).is_none(), "dropped");
    }
}
