//! Runtime access to registered servers: their credentials, their lists of functions, and the functions that are offered.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    change,
    code_runner::CodeRunner,
    error::ToolError,
    form::{self, SecretForm},
    functions::store_outcome,
    lookups::Lookups,
    outward::OutwardCalls,
    tool::{
        AuthKind, FunctionState, RegisteredTool, ToolConfig, ToolStatus, find_tool,
        list_enabled_servers, list_offered_functions,
    },
};
use crate::{
    auth::{Scope, WorkspaceCaller},
    db::{Conn, Db, DbError, now},
    ids::{ChannelId, ToolId, WorkspaceId},
    mcp::{
        AcceptedFunction, CallOutput, Client, Effect, Endpoint, HttpAuth, LocalServers,
        ProcessConfig, Risk, ServerConfig, ServerFault, Servers,
    },
    outbound::{Denied, Gate, LOOKUP_MAX, LocalAddresses},
    secrets::{Keyring, Sealed},
    tool_fault::{ToolErrorCode, ToolFault},
    web::Fetcher,
};

/// Maximum age of a list of functions; an older one is read again before a call.
const LIST_AGE_MAX: Duration = Duration::from_mins(1);
/// Maximum number of times that a list of functions is read before a call; a list is discarded if the settings change in the
/// meantime.
const LISTS_MAX: usize = 2;

/// Dependencies of the registry.
pub struct Setup {
    pub db: Db,
    pub keyring: Arc<Keyring>,
    pub servers: Arc<Servers>,
    /// Processes that the operator configured.
    pub local: LocalServers,
    pub pages: Fetcher,
    /// Address of the code runner; `None` if the operator has not configured one.
    pub runner: Option<CodeRunner>,
    /// True if rate limits apply.
    pub has_rate_limits: bool,
}

pub struct Registry {
    db: Db,
    keyring: Arc<Keyring>,
    servers: Arc<Servers>,
    local: LocalServers,
    lookups: Lookups,
    /// Reads web pages for agents; each call must be counted.
    pub pages: Fetcher,
    /// Code runner, if there is one; each call must be counted.
    pub runner: Option<CodeRunner>,
    /// Counter of calls that leave the server, including those for pages and code.
    pub outward: OutwardCalls,
}

/// A server with the functions that can be used in a conversation.
#[derive(Debug, Clone)]
pub struct OfferedServer {
    pub id: ToolId,
    /// Label of the server's functions.
    pub name: String,
    pub title: String,
    pub trusted_reads: bool,
    pub functions: Vec<AcceptedFunction>,
}

impl RegisteredTool {
    /// Checks whether the tool is enabled and can be used in a channel.
    fn is_for(&self, channel: ChannelId) -> bool {
        let channels = self.channel_ids.as_deref();
        self.enabled && channels.is_none_or(|channels| channels.contains(&channel))
    }

    fn is_freshly_listed(&self) -> bool {
        let age = self.listed_at.map(|at| now().since(at));
        age.is_some_and(|age| age < LIST_AGE_MAX)
    }
}

impl Registry {
    pub fn new(setup: Setup) -> Self {
        Self {
            db: setup.db,
            keyring: setup.keyring,
            servers: setup.servers,
            local: setup.local,
            lookups: Lookups::default(),
            pages: setup.pages,
            runner: setup.runner,
            outward: OutwardCalls::new(setup.has_rate_limits),
        }
    }

    /// Creates a client for one run of a task.
    pub fn client(&self) -> Client {
        self.servers.client()
    }

    /// Prepares a tool for display: its status indicates if its secret cannot be decrypted.
    pub fn shown(&self, mut tool: RegisteredTool) -> RegisteredTool {
        if self.secret_of(&tool).is_err() {
            tool.status = ToolStatus::SecretUnreadable;
        }
        tool
    }

    /// Seals a secret for a tool.
    ///
    /// # Errors
    /// `Invalid` for an invalid secret, `Secret` if there is no key to seal with.
    pub fn seal(&self, id: ToolId, form: &SecretForm) -> Result<Sealed, ToolError> {
        let secret = form::parse_secret(form)?;
        Ok(self.keyring.seal(&id.to_string(), &secret)?)
    }

    fn secret_of(&self, tool: &RegisteredTool) -> Result<Option<String>, ToolError> {
        let opened = tool
            .sealed
            .as_ref()
            .map(|sealed| self.keyring.open(&tool.id.to_string(), sealed));
        Ok(opened.transpose()?)
    }

    /// Checks the address of a server before it is stored. A host that cannot be found is not an error, because it may become
    /// available later.
    ///
    /// # Errors
    /// `Denied` for a forbidden address, `Invalid` for a process that this workspace cannot use, or an error from `Actor::require`.
    pub async fn check_address(
        &self,
        member: &WorkspaceCaller,
        config: &ToolConfig,
    ) -> Result<(), ToolError> {
        let mut c = self.db.read().await?;
        member.enter(&mut c).await?.require(Scope::AgentsAdmin)?;
        match config {
            ToolConfig::Function(_) => Ok(()),
            ToolConfig::Process(process) => {
                let found = self
                    .find_process(&mut c, member.workspace, &process.stdio)
                    .await?;
                found.map(|_| ()).ok_or_else(|| {
                    let problem = format!(
                        "there is no process `{}` for this workspace: an operator has to add it to openvibe.toml",
                        process.stdio
                    );
                    ToolError::Invalid(problem, "config.stdio")
                })
            }
            ToolConfig::Remote(remote) => {
                drop(c);
                let url = form::parse_url(&remote.url)?;
                let gate = Gate::new(self.servers.rules(), LocalAddresses::Forbidden, &url);
                match gate {
                    Some(gate) => self.check_gate(member.workspace, gate).await,
                    None => Ok(()),
                }
            }
        }
    }

    async fn check_gate(&self, workspace: WorkspaceId, gate: Gate) -> Result<(), ToolError> {
        gate.check_literal().map_err(ToolError::Denied)?;
        let check = self.lookups.run(workspace, move || gate.check_blocking());
        match timeout(LOOKUP_MAX, check).await {
            Ok(Some(Err(denied))) if !matches!(denied, Denied::NotFound(_)) => {
                Err(ToolError::Denied(denied))
            }
            // Clients check the resolved addresses again when they connect.
            _ => Ok(()),
        }
    }

    /// The process with this name, if the operator has listed the workspace by its ID or its slug.
    async fn find_process(
        &self,
        c: &mut Conn,
        workspace: WorkspaceId,
        name: &str,
    ) -> Result<Option<Arc<ProcessConfig>>, DbError> {
        if let Some(process) = self.local.find(name, &workspace.to_string()) {
            return Ok(Some(process));
        }
        let slug = slug_of(c, workspace).await?;
        // A slug can look like another workspace's ID.
        let is_id = WorkspaceId::parse(&slug).is_ok();
        Ok(self.local.find(name, &slug).filter(|_| !is_id))
    }

    /// Returns the current connection settings of a tool's server.
    ///
    /// # Errors
    /// `Secret` if the stored secret cannot be decrypted, `Invalid` for a tool that is not a server, `Unreachable` for a process that
    /// is not configured for the workspace.
    async fn server(&self, c: &mut Conn, tool: &RegisteredTool) -> Result<ServerConfig, ToolError> {
        let endpoint = match &tool.config {
            Some(ToolConfig::Remote(remote)) => {
                let url = form::parse_url(&remote.url)?;
                let secret = self.secret_of(tool)?;
                let auth = match (remote.auth, secret) {
                    (AuthKind::Bearer, Some(secret)) => HttpAuth::Bearer(secret),
                    (AuthKind::Header, Some(secret)) => {
                        let header = remote.header.as_deref().unwrap_or_default();
                        HttpAuth::Header(form::parse_header(header)?, secret)
                    }
                    (AuthKind::None, _) | (_, None) => HttpAuth::None,
                };
                Endpoint::Http { url, auth }
            }
            Some(ToolConfig::Process(process)) => {
                let found = self.find_process(c, tool.workspace, &process.stdio).await?;
                let process = found.ok_or_else(|| {
                    let why = "its process is not configured for this workspace".to_owned();
                    ToolError::from(ServerFault::NotAllowed(tool.title.clone(), why))
                })?;
                Endpoint::Process { process }
            }
            Some(ToolConfig::Function(_)) | None => {
                let problem = "this tool is not a server: clients run its function";
                return Err(ToolError::Invalid(problem.to_owned(), "kind"));
            }
        };
        Ok(ServerConfig {
            id: tool.id,
            workspace: tool.workspace,
            version: tool.version,
            title: tool.title.clone(),
            endpoint,
        })
    }

    /// Reads the functions of a server and stores them, or the reason why they could not be read.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` for a function, `Secret`, `NotListed`, `ListOutdated`, or an error from `Actor::require`.
    pub async fn refresh(
        &self,
        member: WorkspaceCaller,
        id: ToolId,
    ) -> Result<RegisteredTool, ToolError> {
        let mut c = self.db.read().await?;
        let actor = member.enter(&mut c).await?;
        actor.require(Scope::AgentsAdmin)?;
        let tool = change::stored(&mut c, actor.workspace, id).await?;
        let server = self.server(&mut c, &tool).await?;
        drop(c);
        let outcome = Arc::new(self.client().list(&server).await);
        let listed = Arc::clone(&outcome);
        let tool = member
            .write(&self.db, async move |c, actor| {
                actor.require(Scope::AgentsAdmin)?;
                let is_stored = store_outcome(c, &server, &listed).await?;
                let tool = change::stored(c, actor.workspace, id).await?;
                if is_stored {
                    Ok(tool)
                } else {
                    Err(ToolError::ListOutdated(Box::new(tool)))
                }
            })
            .await?;
        match outcome.as_ref() {
            Ok(_) => Ok(tool),
            Err(fault) => {
                let host = change::host_of(&tool).unwrap_or_else(|| tool.title.clone());
                Err(ToolError::NotListed(host, fault.clone()))
            }
        }
    }

    /// Reads the list of functions again before a call.
    async fn read_list(&self, client: &Client, server: &ServerConfig) -> Result<(), ToolError> {
        let outcome = Arc::new(client.list(server).await);
        let (listed, server) = (Arc::clone(&outcome), server.clone());
        self.db
            .write(server.workspace.0, async move |c: &mut Conn| {
                store_outcome(c, &server, &listed).await
            })
            .await?;
        match outcome.as_ref() {
            Ok(_) => Ok(()),
            Err(fault) => Err(fault.clone().into()),
        }
    }

    /// Prepares a call: the function must still be accepted with this hash and usable in the channel, and the list must have been
    /// read within the last minute.
    ///
    /// # Errors
    /// - `NotAllowed` if the tool was deleted, disabled, or restricted.
    /// - `NoSuchFunction`.
    /// - `DefinitionChanged`, also for a function that became stricter.
    /// - `ToolUnreachable` or `ToolTimeout`.
    pub async fn prepare(
        &self,
        client: &Client,
        call: &FunctionRef<'_>,
    ) -> Result<(ServerConfig, AcceptedFunction), ToolFault> {
        let (mut tool, mut server) = self.usable(call).await?;
        for _ in 0..LISTS_MAX {
            if tool.is_freshly_listed() {
                break;
            }
            let read = self.read_list(client, &server).await;
            read.map_err(fault_of)?;
            // The tool and the server are read again, because the call must not use an address or a secret that was replaced in the
            // meantime.
            (tool, server) = self.usable(call).await?;
        }
        if !tool.is_freshly_listed() {
            return Err(reconfigured(&tool));
        }
        let found = tool.functions.iter().find(|f| f.name == call.function);
        let function = found.ok_or_else(|| no_such_function(call))?;
        match function.offered() {
            Some(offered) if offered.definition_hash == call.definition_hash => {
                let is_stricter = offered.effect > call.effect
                    || offered.risk > call.risk
                    || (call.trusts_reads && !tool.trusted_reads);
                if is_stricter {
                    return Err(tightened(&tool, call));
                }
                Ok((server, offered))
            }
            Some(_) => Err(changed(&tool, call)),
            None => Err(match function.state {
                FunctionState::Changed | FunctionState::Accepted => changed(&tool, call),
                FunctionState::New | FunctionState::Removed => no_such_function(call),
            }),
        }
    }

    /// Prepares the call and then calls the function once. The call is counted before `prepare`, which can also send requests.
    ///
    /// # Errors
    /// `RateLimited`, or an error from `prepare` or `Client::call`.
    pub async fn call(
        &self,
        client: &Client,
        call: &FunctionRef<'_>,
        arguments: &Value,
        deadline: Instant,
    ) -> Result<CallOutput, ToolFault> {
        if call.effect == Effect::Read {
            self.outward
                .count(call.workspace, Instant::now().into_std())?;
        } else {
            self.outward.count_in_time(call.workspace, deadline).await?;
        }
        let prepared = timeout_at(deadline, self.prepare(client, call)).await;
        let (server, function) = prepared.map_err(|_| {
            let text = "the server did not list its functions in time";
            ToolFault::new(ToolErrorCode::ToolTimeout, text)
        })??;
        client.call(&server, &function, arguments, deadline).await
    }

    async fn usable(
        &self,
        call: &FunctionRef<'_>,
    ) -> Result<(RegisteredTool, ServerConfig), ToolFault> {
        let read = async {
            let mut c = self.db.read().await?;
            let Some(tool) = find_tool(&mut c, call.workspace, call.tool).await? else {
                return Ok(None);
            };
            if !tool.is_for(call.channel) {
                return Ok(None);
            }
            let server = self.server(&mut c, &tool).await?;
            Ok::<_, ToolError>(Some((tool, server)))
        };
        read.await.map_err(fault_of)?.ok_or_else(|| {
            let text = "this tool cannot be used in this conversation";
            ToolFault::new(ToolErrorCode::NotAllowed, text)
        })
    }
}

/// Lists the servers that can be used in a channel, with the functions that are offered.
///
/// # Errors
/// Only database errors.
pub async fn list_offered(
    c: &mut Conn,
    workspace: WorkspaceId,
    channel: ChannelId,
) -> Result<Vec<OfferedServer>, DbError> {
    let mut servers = list_enabled_servers(c, workspace).await?;
    servers.retain(|server| server.is_for(channel));
    let mut functions = list_offered_functions(c, &servers).await?;
    let offered = servers.into_iter().filter_map(|server| {
        Some(OfferedServer {
            functions: functions.remove(&server.id)?,
            id: server.id,
            name: server.name,
            title: server.title,
            trusted_reads: server.trusted_reads,
        })
    });
    Ok(offered.collect())
}

/// A function that a model wants to call.
#[derive(Debug, Clone, Copy)]
pub struct FunctionRef<'a> {
    pub workspace: WorkspaceId,
    /// Channel of the conversation.
    pub channel: ChannelId,
    pub tool: ToolId,
    /// Name of the function on its server.
    pub function: &'a str,
    /// Hash of the definition that was offered to the model and then approved.
    pub definition_hash: &'a str,
    /// Effect at the time of the decision. If an admin has made the function stricter since then, the call is not sent.
    pub effect: Effect,
    pub risk: Risk,
    pub trusts_reads: bool,
}

fn changed(tool: &RegisteredTool, call: &FunctionRef<'_>) -> ToolFault {
    let text = format!(
        "{} changed the function {}: an admin has to accept the change in Settings › Tools",
        tool.title, call.function
    );
    ToolFault::new(ToolErrorCode::DefinitionChanged, text)
}

fn tightened(tool: &RegisteredTool, call: &FunctionRef<'_>) -> ToolFault {
    let text = format!(
        "an admin restricted the function {} of {}: ask again in a new message",
        call.function, tool.title
    );
    ToolFault::new(ToolErrorCode::DefinitionChanged, text)
}

fn reconfigured(tool: &RegisteredTool) -> ToolFault {
    let text = format!(
        "the settings of {} changed while its functions were read: try again",
        tool.title
    );
    ToolFault::new(ToolErrorCode::DefinitionChanged, text)
}

fn no_such_function(call: &FunctionRef<'_>) -> ToolFault {
    let text = format!("there is no function {}", call.function);
    ToolFault::new(ToolErrorCode::NoSuchFunction, text)
}

/// Error for a call that failed in the registry.
fn fault_of(error: ToolError) -> ToolFault {
    match error {
        ToolError::Unreachable(fault) => fault.into(),
        ToolError::Db(error) => {
            tracing::error!(error = %error, "the registry could not be read for a call");
            let text = "the call could not be made because of a server error";
            ToolFault::new(ToolErrorCode::ToolFailed, text)
        }
        error => ToolFault::new(ToolErrorCode::ToolUnreachable, error.to_string()),
    }
}

async fn slug_of(c: &mut Conn, workspace: WorkspaceId) -> Result<String, DbError> {
    c.q("select slug from workspaces where id = $1")
        .bind(workspace)
        .value()
        .await
}
