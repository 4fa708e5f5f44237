//! Creating, changing, and deleting tools, and their secrets.

use serde_json::Value;

use super::{
    announce::{ToolChange, announce},
    error::ToolError,
    form::{ToolForm, ToolPatch, check_channels, check_name, parse_config, parse_title},
    tool::{RegisteredTool, RegisteredToolKind, TOOLS_MAX, ToolConfig, ToolStatus, find_tool},
    users::find_users,
};
use crate::{
    auth::{self, Actor, AuditAction, Scope},
    db::{Conn, DbError, Json, dialect::lock_workspace, is_visible_channel, now},
    ids::{ChannelId, ToolId, WorkspaceId},
    outbound::Url,
    secrets::{self, Sealed},
};

/// Requires `agents:admin`, locks the workspace, and returns the tool.
///
/// # Errors
/// `NotFound`, `Stale`, or an error from `Actor::require`.
pub(super) async fn locked(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: ToolId,
    expected: Option<i64>,
) -> Result<RegisteredTool, ToolError> {
    actor.require(Scope::AgentsAdmin)?;
    lock_workspace(c, actor.workspace.0).await?;
    let tool = stored(c, actor.workspace, id).await?;
    if expected.is_some_and(|version| version != tool.version) {
        return Err(ToolError::Stale(Box::new(tool)));
    }
    Ok(tool)
}

/// Returns a tool of the workspace with its users.
///
/// # Errors
/// `NotFound`.
pub(super) async fn stored(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: ToolId,
) -> Result<RegisteredTool, ToolError> {
    let mut tool = find_tool(c, workspace, id)
        .await?
        .ok_or(ToolError::NotFound)?;
    find_users(c, workspace, std::slice::from_mut(&mut tool)).await?;
    Ok(tool)
}

pub(super) async fn audit(
    c: &mut Conn,
    actor: &Actor<'_>,
    action: AuditAction,
    tool: &RegisteredTool,
    mut data: Value,
) -> Result<(), DbError> {
    data["name"] = tool.name.as_str().into();
    auth::record_audit(c, actor, action, tool.id.to_string(), data).await
}

/// Creates a tool. The caller must have checked its address. Its functions are not read yet.
///
/// # Errors
/// `Invalid`, `NameTaken`, `TooMany`, `ChannelNotFound`, or an error from `Actor::require`.
pub async fn create_tool(
    c: &mut Conn,
    actor: &Actor<'_>,
    form: ToolForm,
) -> Result<RegisteredTool, ToolError> {
    actor.require(Scope::AgentsAdmin)?;
    lock_workspace(c, actor.workspace.0).await?;
    check_name(&form.name)?;
    let title = parse_title(form.title.as_deref().unwrap_or(&form.name), "")?;
    let config = parse_config(form.kind, form.config)?;
    let channels = channels(c, actor, form.channel_ids, &[]).await?;
    let count: i64 = c
        .q("select count(*) from tools where workspace_id = $1")
        .bind(actor.workspace)
        .value()
        .await?;
    if count >= TOOLS_MAX {
        return Err(ToolError::TooMany(TOOLS_MAX));
    }
    let id = ToolId::new();
    let inserted = c
        .q("insert into tools (id, workspace_id, kind, name, title, enabled, config, channel_ids, trusted_reads, status, version, created_by, created_at, updated_at) \
            values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 1, $11, $12, $12) on conflict (workspace_id, name) do nothing")
        .bind(id)
        .bind(actor.workspace)
        .bind(form.kind)
        .bind(form.name.clone())
        .bind(title)
        .bind(form.enabled.unwrap_or(true))
        .bind(Json(config))
        .bind(channels.map(Json))
        .bind(form.trusted_reads)
        .bind(ToolStatus::Ok)
        .bind(actor.user)
        .bind(now())
        .run()
        .await?;
    if inserted == 0 {
        return Err(ToolError::NameTaken(form.name));
    }
    let tool = stored(c, actor.workspace, id).await?;
    let data = serde_json::json!({"kind": tool.kind, "host": host_of(&tool)});
    audit(c, actor, AuditAction::ToolCreated, &tool, data).await?;
    announce(c, &tool, ToolChange::Created).await?;
    Ok(tool)
}

/// Changes a tool. The caller must have checked a new address.
///
/// # Errors
/// `NotFound`, `Stale`, `Invalid`, `ChannelNotFound`, or an error from `Actor::require`.
pub async fn patch_tool(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: ToolId,
    patch: ToolPatch,
    expected: Option<i64>,
) -> Result<RegisteredTool, ToolError> {
    let before = locked(c, actor, id, expected).await?;
    let title = match &patch.title {
        Some(title) => parse_title(title, &before.title)?,
        None => before.title.clone(),
    };
    let config = match patch.config {
        Some(config) => Some(parse_config(before.kind, config)?),
        None => before.config.clone(),
    };
    let known = before.channel_ids.clone().unwrap_or_default();
    let channels = match patch.channel_ids {
        Some(wanted) => channels(c, actor, wanted, &known).await?,
        None => before.channel_ids.clone(),
    };
    // The stored secret must not be sent to a different server.
    if origin_of(config.as_ref()) != origin_of(before.config.as_ref()) {
        secrets::delete(c, &id.to_string()).await?;
    }
    c.q("update tools set title = $2, enabled = $3, config = $4, channel_ids = $5, trusted_reads = $6, \
         listed_at = null, version = version + 1, updated_at = $7 where id = $1")
        .bind(id)
        .bind(title)
        .bind(patch.enabled.unwrap_or(before.enabled))
        .bind(config.map(Json))
        .bind(channels.map(Json))
        .bind(patch.trusted_reads.unwrap_or(before.trusted_reads))
        .bind(now())
        .run()
        .await?;
    let tool = stored(c, actor.workspace, id).await?;
    let data = serde_json::json!({
        "host": host_of(&tool), "enabled": tool.enabled, "channel_ids": tool.channel_ids, "trusted_reads": tool.trusted_reads,
    });
    audit(c, actor, AuditAction::ToolUpdated, &tool, data).await?;
    announce(c, &tool, ToolChange::Updated).await?;
    Ok(tool)
}

/// Deletes a tool that no agent uses, with its functions and its secret.
///
/// # Errors
/// `NotFound`, `Stale`, `InUse`, or an error from `Actor::require`.
pub async fn delete_tool(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: ToolId,
    expected: Option<i64>,
) -> Result<(), ToolError> {
    let tool = locked(c, actor, id, expected).await?;
    let users = tool.used_by.iter().filter(|agent| agent.is_direct);
    let users: Vec<String> = users.map(|agent| agent.name.clone()).collect();
    if !users.is_empty() {
        return Err(ToolError::InUse(users));
    }
    let data = serde_json::json!({"kind": tool.kind, "host": host_of(&tool)});
    audit(c, actor, AuditAction::ToolDeleted, &tool, data).await?;
    secrets::delete(c, &id.to_string()).await?;
    // The functions are deleted by a cascade.
    c.q("delete from tools where id = $1")
        .bind(id)
        .run()
        .await?;
    announce(c, &tool, ToolChange::Deleted).await?;
    Ok(())
}

/// Stores the sealed secret of a server, replacing any earlier one. The `expected` version ensures that the secret is sent only to
/// the server that the admin has seen.
///
/// # Errors
/// `NotFound`, `Stale`, `Invalid` for a function, or an error from `Actor::require`.
pub async fn put_secret(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: ToolId,
    sealed: &Sealed,
    expected: Option<i64>,
) -> Result<(), ToolError> {
    let tool = locked(c, actor, id, expected).await?;
    if tool.kind == RegisteredToolKind::Function {
        let text = "a function has no secret: only calls of servers send one";
        return Err(ToolError::Invalid(text.to_owned(), "value"));
    }
    secrets::put(c, &id.to_string(), sealed).await?;
    count_change(c, id).await?;
    let data = serde_json::json!({});
    audit(c, actor, AuditAction::ToolSecretChanged, &tool, data).await?;
    let tool = stored(c, actor.workspace, id).await?;
    announce(c, &tool, ToolChange::Updated).await?;
    Ok(())
}

/// Deletes the secret of a tool; does nothing if there is none.
///
/// # Errors
/// `NotFound`, or an error from `Actor::require`.
pub async fn delete_secret(c: &mut Conn, actor: &Actor<'_>, id: ToolId) -> Result<(), ToolError> {
    let tool = locked(c, actor, id, None).await?;
    if !tool.secret_set {
        return Ok(());
    }
    secrets::delete(c, &id.to_string()).await?;
    count_change(c, id).await?;
    let data = serde_json::json!({});
    audit(c, actor, AuditAction::ToolSecretDeleted, &tool, data).await?;
    let tool = stored(c, actor.workspace, id).await?;
    announce(c, &tool, ToolChange::Updated).await?;
    Ok(())
}

/// Increments the version, so that existing connections are not reused, and the list is read again before the next call.
async fn count_change(c: &mut Conn, id: ToolId) -> Result<(), DbError> {
    c.q("update tools set version = version + 1, listed_at = null, updated_at = $2 where id = $1")
        .bind(id)
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// Checks the channels in a request, except those in `known`, which have already been checked.
async fn channels(
    c: &mut Conn,
    actor: &Actor<'_>,
    wanted: Option<Vec<ChannelId>>,
    known: &[ChannelId],
) -> Result<Option<Vec<ChannelId>>, ToolError> {
    check_channels(wanted.as_deref())?;
    let Some(mut wanted) = wanted else {
        return Ok(None);
    };
    wanted.sort_unstable();
    wanted.dedup();
    let new = wanted.iter().copied().filter(|id| !known.contains(id));
    let new: Vec<ChannelId> = new.collect();
    match find_hidden_channel(c, actor, &new).await? {
        Some(id) => Err(ToolError::ChannelNotFound(id.to_string())),
        None => Ok(Some(wanted)),
    }
}

/// Returns the first of these channels that is not in the workspace or that the actor cannot read.
///
/// # Errors
/// Only database errors.
pub async fn find_hidden_channel(
    c: &mut Conn,
    actor: &Actor<'_>,
    channels: &[ChannelId],
) -> Result<Option<ChannelId>, DbError> {
    for id in channels {
        let found: Option<(ChannelId,)> = c
            .q(concat!(
                "select c.id from channels c where c.workspace_id = $1 and c.id = $2 and ",
                is_visible_channel!("c", "$3")
            ))
            .bind(actor.workspace)
            .bind(*id)
            .bind(actor.user)
            .opt()
            .await?;
        if found.is_none() {
            return Ok(Some(*id));
        }
    }
    Ok(None)
}

/// Origin of the server that receives the secret.
fn origin_of(config: Option<&ToolConfig>) -> Option<String> {
    let ToolConfig::Remote(remote) = config? else {
        return None;
    };
    let url = Url::parse(&remote.url).ok()?;
    Some(url.origin().ascii_serialization())
}

/// Host of a server, for the audit log and for errors.
pub(super) fn host_of(tool: &RegisteredTool) -> Option<String> {
    let ToolConfig::Remote(remote) = tool.config.as_ref()? else {
        return None;
    };
    let url = Url::parse(&remote.url).ok()?;
    url.host_str().map(str::to_owned)
}
