//! Tools as they are stored and shown.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{
    auth::{DisplayName, readable_channels},
    cursor::PageRange,
    db::{Conn, DbError, Json, dialect::hexadecimal_ids},
    ids::{AgentId, ChannelId, ToolId, UserId, WorkspaceId},
    mcp::{AcceptedFunction, Definition, Effect, RejectedFunction, Risk},
    secrets::{self, Sealed},
    sql_with_ids,
    text_enum::{constant, text_enum},
    time::Timestamp,
};

/// Maximum number of tools in a workspace.
pub(super) const TOOLS_MAX: i64 = 50;

text_enum! {
    pub enum RegisteredToolKind {
        /// A server that supports the Model Context Protocol.
        Mcp = "mcp",
        /// A function that the client of `/v1/responses` runs.
        Function = "function",
    }
}

text_enum! {
    /// Result of the last connection to the server.
    pub enum ToolStatus {
        Ok = "ok",
        Unreachable = "unreachable",
        /// The response of the server exceeded a limit.
        TooMuchData = "too_much_data",
        /// The server rejected the credential.
        AuthFailed = "auth_failed",
        /// The stored credential cannot be decrypted and has to be entered again.
        SecretUnreadable = "secret_unreadable",
    }
}

text_enum! {
    pub enum FunctionState {
        /// Not accepted yet.
        New = "new",
        /// Offered to agents.
        Accepted = "accepted",
        /// The server changed the definition. The function is not offered until an admin accepts the change.
        Changed = "changed",
        /// Accepted, but no longer listed by the server.
        Removed = "removed",
    }
}

text_enum! {
    /// Header that contains the secret.
    pub enum AuthKind {
        None = "none",
        /// Header `Authorization: Bearer SECRET`.
        Bearer = "bearer",
        /// The header named in `header`.
        Header = "header",
    }
}

/// A server that is reached over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoteConfig {
    /// `https` URL, at most 2,048 characters; `http` only for hosts that the operator permitted.
    #[schema(example = "https://mcp.example.com/mcp")]
    pub url: String,
    #[serde(default = "no_auth")]
    pub auth: AuthKind,
    /// Name of the header; only with `auth: header`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
}

fn no_auth() -> AuthKind {
    AuthKind::None
}

/// A server that the operator configured as a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessToolConfig {
    /// `NAME` of the table `[mcp.NAME]` in `openvibe.toml`.
    pub stdio: String,
}

/// A function that clients run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FunctionConfig {
    /// At most 4,096 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON schema of the arguments, at most 32 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub parameters: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
}

/// Settings of a tool, which depend on its kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum ToolConfig {
    Remote(RemoteConfig),
    Process(ProcessToolConfig),
    Function(FunctionConfig),
}

impl ToolConfig {
    pub fn kind(&self) -> RegisteredToolKind {
        match self {
            Self::Remote(_) | Self::Process(_) => RegisteredToolKind::Mcp,
            Self::Function(_) => RegisteredToolKind::Function,
        }
    }
}

/// Acceptance of a function by an admin.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Acceptance {
    /// The definition that was accepted.
    #[schema(value_type = Object)]
    pub definition: Value,
    pub by: UserId,
    pub at: Timestamp,
}

/// A function of a server.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct RegisteredFunction {
    pub name: String,
    /// Display title.
    pub title: String,
    pub state: FunctionState,
    /// Accepted effect; if the function has not been accepted, the effect that the server's annotations suggest. For a changed
    /// function, the stricter of the two.
    pub effect: Effect,
    /// Accepted risk; if the function has not been accepted, the risk that the server's annotations suggest. For a changed function,
    /// the stricter of the two.
    pub risk: Risk,
    /// The latest definition: `name`, `title`, `description`, `inputSchema`, `outputSchema`, `annotations`.
    #[schema(value_type = Object)]
    pub definition: Value,
    /// SHA-256 of the RFC 8785 form of the latest definition, in hexadecimal.
    pub definition_hash: String,
    /// Null if the function has never been accepted, or if its acceptance was withdrawn.
    pub accepted: Option<Acceptance>,
}

impl RegisteredFunction {
    /// Returns the function as it is offered; `None` unless its state is `accepted`.
    pub(super) fn offered(&self) -> Option<AcceptedFunction> {
        let accepted = self.accepted.as_ref()?;
        (self.state == FunctionState::Accepted).then(|| AcceptedFunction {
            name: self.name.clone(),
            title: self.title.clone(),
            effect: self.effect,
            risk: self.risk,
            definition: accepted.definition.clone(),
            definition_hash: self.definition_hash.clone(),
        })
    }
}

constant! { pub RegisteredToolObject = "tool" }

/// An agent that uses a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct ToolUser {
    pub agent_id: AgentId,
    /// Handle of the agent.
    pub name: String,
    /// Number of the server's accepted functions that the agent can use.
    pub functions: usize,
    /// True if the agent's own profile names the tool, rather than one of its bases.
    #[serde(skip)]
    pub(super) is_direct: bool,
}

/// A tool of the workspace.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct RegisteredTool {
    pub id: ToolId,
    #[schema(inline)]
    pub object: RegisteredToolObject,
    pub kind: RegisteredToolKind,
    /// Label for agents, unique in the workspace: `[a-z0-9][a-z0-9_-]{0,23}`.
    pub name: String,
    /// Display title.
    pub title: String,
    pub enabled: bool,
    /// Settings; returned only with `agents:admin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub config: Option<ToolConfig>,
    /// True if a secret is stored. The secret itself is never returned.
    pub secret_set: bool,
    /// Channels in which the tool can be used; null for all. Without `agents:admin`, only those that you can see.
    pub channel_ids: Option<Vec<ChannelId>>,
    /// True if reads need no approval even if the task is tainted.
    pub trusted_reads: bool,
    pub status: ToolStatus,
    /// Functions of the server, sorted by name.
    pub functions: Vec<RegisteredFunction>,
    /// Functions that the server lists and that cannot be used.
    pub rejected: Vec<RejectedFunction>,
    /// Agents that use the tool, also through a base, sorted by name; only those that you can see.
    pub used_by: Vec<ToolUser>,
    /// Version for `If-Match`; acceptances do not change it.
    pub version: i64,
    #[serde(skip)]
    pub(super) workspace: WorkspaceId,
    #[serde(skip)]
    pub(super) listed_at: Option<Timestamp>,
    #[serde(skip)]
    pub(super) sealed: Option<Sealed>,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: ToolId,
    workspace_id: WorkspaceId,
    kind: RegisteredToolKind,
    name: String,
    title: String,
    enabled: bool,
    config: Json<ToolConfig>,
    channel_ids: Option<Json<Vec<ChannelId>>>,
    trusted_reads: bool,
    status: ToolStatus,
    listed_at: Option<Timestamp>,
    rejected: Option<Json<Vec<RejectedFunction>>>,
    version: i64,
}

#[derive(sqlx::FromRow)]
struct FunctionRow {
    tool_id: ToolId,
    name: String,
    definition: Json<Value>,
    definition_hash: String,
    is_listed: bool,
    accepted_definition: Option<Json<Value>>,
    accepted_hash: Option<String>,
    effect: Option<Effect>,
    risk: Option<Risk>,
    title: Option<String>,
    accepted_by: Option<UserId>,
    accepted_at: Option<Timestamp>,
}

impl FunctionRow {
    fn state(&self) -> FunctionState {
        match &self.accepted_hash {
            None => FunctionState::New,
            Some(_) if !self.is_listed => FunctionState::Removed,
            Some(hash) if *hash == self.definition_hash => FunctionState::Accepted,
            Some(_) => FunctionState::Changed,
        }
    }
}

/// Returns the display title: the accepted title; otherwise the server's title if it can be shown as a name; otherwise the function's
/// name.
fn title_of(accepted: Option<String>, definition: &Value, name: &str) -> String {
    let titled = |value: &Value| DisplayName::parse(value.as_str()?, "title").ok();
    let titled = |value: &Value| titled(value).map(|title| title.0);
    accepted
        .or_else(|| titled(&definition["title"]))
        .or_else(|| titled(&definition["annotations"]["title"]))
        .unwrap_or_else(|| name.to_owned())
}

impl From<FunctionRow> for RegisteredFunction {
    fn from(row: FunctionRow) -> Self {
        let state = row.state();
        let hints = Definition::hints(&row.definition.0);
        let title = title_of(row.title, &row.definition.0, &row.name);
        let accepted = match (row.accepted_definition, row.accepted_by, row.accepted_at) {
            (Some(definition), Some(by), Some(at)) => Some(Acceptance {
                definition: definition.0,
                by,
                at,
            }),
            _ => None,
        };
        let (mut effect, mut risk) = (
            row.effect.unwrap_or(hints.effect),
            row.risk.unwrap_or(hints.risk),
        );
        if state == FunctionState::Changed {
            effect = effect.max(hints.effect);
            risk = risk.max(hints.risk);
        }
        Self {
            title,
            state,
            effect,
            risk,
            name: row.name,
            definition: row.definition.0,
            definition_hash: row.definition_hash,
            accepted,
        }
    }
}

fn tool_of(row: Row, functions: Vec<RegisteredFunction>, sealed: Option<Sealed>) -> RegisteredTool {
    RegisteredTool {
        id: row.id,
        object: RegisteredToolObject,
        kind: row.kind,
        name: row.name,
        title: row.title,
        enabled: row.enabled,
        config: Some(row.config.0),
        secret_set: sealed.is_some(),
        channel_ids: row.channel_ids.map(|channels| channels.0),
        trusted_reads: row.trusted_reads,
        status: row.status,
        functions,
        rejected: row.rejected.map(|rejected| rejected.0).unwrap_or_default(),
        used_by: Vec::new(),
        version: row.version,
        workspace: row.workspace_id,
        listed_at: row.listed_at,
        sealed,
    }
}

macro_rules! tool_sql {
    ($tail:literal) => {
        concat!(
            "select id, workspace_id, kind, name, title, enabled, config, channel_ids, trusted_reads, status, listed_at, \
             rejected, version from tools ",
            $tail
        )
    };
}

/// Lists the tools of a workspace in a range of IDs, in order of creation, without their users.
///
/// # Errors
/// Only database errors.
pub async fn list_tools(
    c: &mut Conn,
    workspace: WorkspaceId,
    PageRange { after, before }: PageRange<ToolId>,
    limit: i64,
) -> Result<Vec<RegisteredTool>, DbError> {
    let q = if before.is_some() {
        c.q(tool_sql!(
            "where workspace_id = $1 and id > $2 and id < $3 order by id desc limit $4"
        ))
    } else {
        c.q(tool_sql!(
            "where workspace_id = $1 and id > $2 and id < $3 order by id limit $4"
        ))
    };
    let mut rows: Vec<Row> = q
        .bind(workspace)
        .bind(after.unwrap_or(ToolId(Uuid::nil())))
        .bind(before.unwrap_or(ToolId(Uuid::max())))
        .bind(limit)
        .all()
        .await?;
    if before.is_some() {
        rows.reverse();
    }
    complete(c, rows).await
}

/// Removes data that this person may not see: the settings, which only admins may see, channels that the person cannot see, and
/// these hidden agents.
///
/// # Errors
/// Only database errors.
pub async fn hide_settings(
    c: &mut Conn,
    user: UserId,
    hidden: &[AgentId],
    mut tools: Vec<RegisteredTool>,
) -> Result<Vec<RegisteredTool>, DbError> {
    let named = tools.iter().filter_map(|tool| tool.channel_ids.as_ref());
    let named: Vec<ChannelId> = named.flatten().copied().collect();
    let readable = readable_channels(c, user, &named).await?;
    for tool in &mut tools {
        tool.config = None;
        tool.used_by
            .retain(|agent| !hidden.contains(&agent.agent_id));
        if let Some(channels) = &mut tool.channel_ids {
            channels.retain(|channel| readable.contains(channel));
        }
    }
    Ok(tools)
}

/// Finds a tool, without its users; returns `None` if it belongs to another workspace.
///
/// # Errors
/// Only database errors.
pub async fn find_tool(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: ToolId,
) -> Result<Option<RegisteredTool>, DbError> {
    let rows: Vec<Row> = c
        .q(tool_sql!("where workspace_id = $1 and id = $2"))
        .bind(workspace)
        .bind(id)
        .all()
        .await?;
    Ok(complete(c, rows).await?.pop())
}

/// Loads the functions and the sealed secrets of tools.
async fn complete(c: &mut Conn, rows: Vec<Row>) -> Result<Vec<RegisteredTool>, DbError> {
    let sql = sql_with_ids!(
        c,
        "select tool_id, name, definition, definition_hash, is_listed, accepted_definition, accepted_hash, effect, risk, \
         title, accepted_by, accepted_at from tool_functions where tool_id in",
        1,
        "order by tool_id, name"
    );
    let functions: Vec<FunctionRow> = c
        .q(sql)
        .bind(hexadecimal_ids(rows.iter().map(|row| row.id.0)))
        .all()
        .await?;
    let mut of: HashMap<ToolId, Vec<RegisteredFunction>> = HashMap::new();
    for row in functions {
        of.entry(row.tool_id).or_default().push(row.into());
    }
    let owners = rows.iter().map(|row| row.id.to_string()).collect();
    let mut secrets = secrets::find_all(c, owners).await?;
    let tools = rows.into_iter().map(|row| {
        let functions = of.remove(&row.id).unwrap_or_default();
        let sealed = secrets.remove(&row.id.to_string());
        tool_of(row, functions, sealed)
    });
    Ok(tools.collect())
}

/// An enabled server, without its functions.
#[derive(sqlx::FromRow)]
pub(super) struct EnabledServer {
    pub(super) id: ToolId,
    pub(super) name: String,
    pub(super) title: String,
    pub(super) trusted_reads: bool,
    channel_ids: Option<Json<Vec<ChannelId>>>,
}

impl EnabledServer {
    pub(super) fn is_for(&self, channel: ChannelId) -> bool {
        let channels = self.channel_ids.as_ref();
        channels.is_none_or(|channels| channels.0.contains(&channel))
    }
}

pub(super) async fn list_enabled_servers(
    c: &mut Conn,
    workspace: WorkspaceId,
) -> Result<Vec<EnabledServer>, DbError> {
    c.q(
        "select id, name, title, trusted_reads, channel_ids from tools \
         where workspace_id = $1 and kind = $2 and enabled order by id limit $3",
    )
    .bind(workspace)
    .bind(RegisteredToolKind::Mcp)
    .bind(TOOLS_MAX)
    .all()
    .await
}

#[derive(sqlx::FromRow)]
struct OfferedRow {
    tool_id: ToolId,
    name: String,
    title: Option<String>,
    effect: Effect,
    risk: Risk,
    accepted_definition: Json<Value>,
    accepted_hash: String,
}

/// Lists the offered functions of these servers, grouped by server and sorted by name.
pub(super) async fn list_offered_functions(
    c: &mut Conn,
    servers: &[EnabledServer],
) -> Result<HashMap<ToolId, Vec<AcceptedFunction>>, DbError> {
    let sql = sql_with_ids!(
        c,
        "select tool_id, name, title, effect, risk, accepted_definition, accepted_hash from tool_functions \
         where is_listed and accepted_hash = definition_hash and tool_id in",
        1,
        "order by tool_id, name"
    );
    let rows: Vec<OfferedRow> = c
        .q(sql)
        .bind(hexadecimal_ids(servers.iter().map(|server| server.id.0)))
        .all()
        .await?;
    let mut offered: HashMap<ToolId, Vec<AcceptedFunction>> = HashMap::new();
    for row in rows {
        let function = AcceptedFunction {
            title: title_of(row.title, &row.accepted_definition.0, &row.name),
            name: row.name,
            effect: row.effect,
            risk: row.risk,
            definition: row.accepted_definition.0,
            definition_hash: row.accepted_hash,
        };
        offered.entry(row.tool_id).or_default().push(function);
    }
    Ok(offered)
}

/// A server that changed accepted functions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct ChangedTool {
    pub tool_id: ToolId,
    pub title: String,
    /// Number of functions that are not offered until an admin accepts the change.
    pub changed_functions: i64,
}

/// Lists servers with changed functions that an admin has to accept again, in order of creation.
///
/// # Errors
/// Only database errors.
pub async fn list_changed(
    c: &mut Conn,
    workspace: WorkspaceId,
) -> Result<Vec<ChangedTool>, DbError> {
    c.q(
        "select t.id as tool_id, t.title, count(*) as changed_functions from tools t join tool_functions f on f.tool_id = t.id \
         where t.workspace_id = $1 and f.is_listed and f.accepted_hash <> f.definition_hash group by t.id, t.title \
         order by t.id limit $2",
    )
    .bind(workspace)
    .bind(TOOLS_MAX)
    .all()
    .await
}

/// Checks whether the server has changed the function that was accepted with this hash.
///
/// # Errors
/// Only database errors.
pub async fn is_changed(c: &mut Conn, tool: ToolId, accepted_hash: &str) -> Result<bool, DbError> {
    c.q(
        "select exists (select 1 from tool_functions where tool_id = $1 and accepted_hash = $2 and is_listed \
         and definition_hash <> accepted_hash)",
    )
    .bind(tool)
    .bind(accepted_hash.to_owned())
    .value()
    .await
}

/// Returns the workspace of a tool.
///
/// # Errors
/// Only database errors.
pub async fn workspace_of(c: &mut Conn, id: ToolId) -> Result<Option<WorkspaceId>, DbError> {
    let row: Option<(WorkspaceId,)> = c
        .q("select workspace_id from tools where id = $1")
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|(workspace,)| workspace))
}

/// Returns the kind and name of the tool with this ID, if the workspace has one.
///
/// # Errors
/// Only database errors.
pub async fn find_named(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: &str,
) -> Result<Option<(RegisteredToolKind, String)>, DbError> {
    let Ok(id) = id.parse::<ToolId>() else {
        return Ok(None);
    };
    c.q("select kind, name from tools where workspace_id = $1 and id = $2")
        .bind(workspace)
        .bind(id)
        .opt()
        .await
}

/// Returns the settings of the client function with this ID, unless an admin has turned the function off.
///
/// # Errors
/// Only database errors.
pub async fn find_function(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: &str,
) -> Result<Option<FunctionConfig>, DbError> {
    let Ok(id) = id.parse::<ToolId>() else {
        return Ok(None);
    };
    let found: Option<(Json<ToolConfig>,)> = c
        .q("select config from tools where workspace_id = $1 and id = $2 and enabled")
        .bind(workspace)
        .bind(id)
        .opt()
        .await?;
    Ok(found.and_then(|(config,)| match config.0 {
        ToolConfig::Function(function) => Some(function),
        ToolConfig::Remote(_) | ToolConfig::Process(_) => None,
    }))
}

/// The part of a tool that is relevant to agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsableTool {
    pub is_enabled: bool,
    /// Names of the server's offered functions.
    pub accepted: Vec<String>,
}

#[derive(sqlx::FromRow)]
struct UsableRow {
    id: ToolId,
    enabled: bool,
    name: Option<String>,
}

/// Lists all tools of a workspace, without their settings or definitions.
///
/// # Errors
/// Only database errors.
pub async fn list_usable(
    c: &mut Conn,
    workspace: WorkspaceId,
) -> Result<HashMap<ToolId, UsableTool>, DbError> {
    let rows: Vec<UsableRow> = c
        .q("select t.id, t.enabled, f.name from tools t left join tool_functions f on f.tool_id = t.id and f.is_listed \
            and f.accepted_hash = f.definition_hash where t.workspace_id = $1 order by t.id, f.name")
        .bind(workspace)
        .all()
        .await?;
    let mut tools = HashMap::new();
    for row in rows {
        let tool = tools.entry(row.id).or_insert_with(|| UsableTool {
            is_enabled: row.enabled,
            accepted: Vec::new(),
        });
        tool.accepted.extend(row.name);
    }
    Ok(tools)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(is_listed: bool, accepted: Option<&str>) -> FunctionRow {
        FunctionRow {
            tool_id: ToolId::new(),
            name: "add".to_owned(),
            definition: Json(json!({"name": "add", "annotations": {"readOnlyHint": true}})),
            definition_hash: "a".to_owned(),
            is_listed,
            accepted_definition: accepted.map(|_| Json(json!({"name": "add"}))),
            accepted_hash: accepted.map(str::to_owned),
            effect: accepted.map(|_| Effect::Write),
            risk: accepted.map(|_| Risk::Approve),
            title: None,
            accepted_by: accepted.map(|_| UserId::new()),
            accepted_at: accepted.map(|_| crate::db::now()),
        }
    }

    #[test]
    fn only_an_unchanged_accepted_function_is_offered() {
        for (is_listed, accepted, state) in [
            (true, None, FunctionState::New),
            (true, Some("a"), FunctionState::Accepted),
            (true, Some("b"), FunctionState::Changed),
            (false, Some("a"), FunctionState::Removed),
            (false, Some("b"), FunctionState::Removed),
        ] {
            let function = RegisteredFunction::from(row(is_listed, accepted));
            assert_eq!(function.state, state);
            let is_offered = state == FunctionState::Accepted;
            assert_eq!(function.offered().is_some(), is_offered, "{state}");
        }
    }

    #[test]
    fn an_acceptance_takes_precedence_over_annotations() {
        let new = RegisteredFunction::from(row(true, None));
        assert_eq!((new.effect, new.risk), (Effect::Read, Risk::Autonomous));
        let changed = RegisteredFunction::from(row(true, Some("b")));
        assert_eq!(
            (changed.effect, changed.risk),
            (Effect::Write, Risk::Approve)
        );
        assert_eq!(changed.title, "add");
    }

    #[test]
    fn the_prefill_of_a_changed_function_is_the_stricter_one() {
        let mut changed = row(true, Some("b"));
        changed.definition = Json(json!({"annotations": {"destructiveHint": true}}));
        changed.risk = Some(Risk::Autonomous);
        let changed = RegisteredFunction::from(changed);
        assert_eq!(
            (changed.effect, changed.risk),
            (Effect::Destructive, Risk::Escalate)
        );
    }

    #[test]
    fn the_fields_of_settings_select_their_kind() {
        let kind = |value: Value| serde_json::from_value::<ToolConfig>(value).map(|c| c.kind());
        assert_eq!(
            kind(json!({"url": "https://a.example"})).unwrap(),
            RegisteredToolKind::Mcp
        );
        assert_eq!(
            kind(json!({"stdio": "files"})).unwrap(),
            RegisteredToolKind::Mcp
        );
        assert_eq!(
            kind(json!({"parameters": {}})).unwrap(),
            RegisteredToolKind::Function
        );
        assert!(kind(json!({"url": "https://a.example", "stdio": "files"})).is_err());
        assert!(kind(json!({"url": "https://a.example", "auth": "oauth"})).is_err());
    }
}
