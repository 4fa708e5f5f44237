//! Functions of servers: their listed definitions, and the ones that an admin accepted.

use serde_json::Value;

use super::{
    announce::{ToolChange, announce, open_changed},
    change::{audit, locked, stored},
    error::ToolError,
    form::{AcceptanceForm, parse_title},
    tool::{RegisteredTool, ToolStatus, find_tool},
    users::find_users,
};
use crate::{
    auth::{Actor, AuditAction, DisplayName},
    db::{Conn, DbError, Json, dialect::lock_workspace, now},
    ids::ToolId,
    mcp::{Definition, Effect, Listing, RejectedFunction, Risk, ServerConfig, ServerFault},
};

/// Maximum number of accepted functions per server.
const ACCEPTED_MAX: usize = 64;
/// Maximum total size of a server's listed definitions, and of its accepted ones, as JSON.
const DEFINITIONS_BYTES_MAX: usize = 512 * 1024;

fn bytes_of(definition: &Value) -> usize {
    serde_json::to_vec(definition).map_or(0, |json| json.len())
}

/// Returns the first definitions, as many as fit within the size limit, and adds the others to the rejected functions.
fn within_limit(listing: &Listing) -> (&[Definition], Vec<RejectedFunction>) {
    let mut bytes = 0;
    let listed = listing.functions.as_slice();
    let fitting = listed.iter().take_while(|definition| {
        bytes += bytes_of(definition.value());
        bytes <= DEFINITIONS_BYTES_MAX
    });
    let (stored, others) = listed.split_at(fitting.count());
    let kib = DEFINITIONS_BYTES_MAX / 1024;
    let reason = format!("the definitions before it and its own are larger than {kib} KiB");
    let others = others.iter().map(|of| RejectedFunction {
        name: of.name().to_owned(),
        reason: reason.clone(),
    });
    let rejected = listing.rejected.iter().cloned().chain(others);
    (stored, rejected.collect())
}

/// Stores the functions that a server listed, or the reason why they could not be read. Does nothing and returns false if
/// the version of the settings has changed.
pub(super) async fn store_outcome(
    c: &mut Conn,
    server: &ServerConfig,
    outcome: &Result<Listing, ServerFault>,
) -> Result<bool, DbError> {
    let (workspace, tool) = (server.workspace, server.id);
    lock_workspace(c, workspace.0).await?;
    let Some(before) = status_of(c, tool, server.version).await? else {
        return Ok(false);
    };
    let has_changed = match outcome {
        Ok(listed) => store_list(c, tool, listed).await? || before != ToolStatus::Ok,
        Err(fault) => {
            let status = match fault {
                ServerFault::KeyMissing(_)
                | ServerFault::AuthFailed(..)
                | ServerFault::OAuthOnly(_) => ToolStatus::AuthFailed,
                ServerFault::TooMuchData(..) => ToolStatus::TooMuchData,
                _ => ToolStatus::Unreachable,
            };
            c.q("update tools set status = $2 where id = $1")
                .bind(tool)
                .bind(status)
                .run()
                .await?;
            before != status
        }
    };
    if has_changed && let Some(mut tool) = find_tool(c, workspace, tool).await? {
        find_users(c, workspace, std::slice::from_mut(&mut tool)).await?;
        announce(c, &tool, ToolChange::Updated).await?;
        open_changed(c, &tool).await?;
    }
    Ok(true)
}

/// Stores the functions that a server lists, and those that cannot be used. Returns true if any of them changed. A changed hash withdraws a function, because only
/// the accepted definition can be offered. Functions that are no longer listed are kept if they were accepted.
async fn store_list(c: &mut Conn, tool: ToolId, listing: &Listing) -> Result<bool, DbError> {
    let (listed, rejected) = within_limit(listing);
    let before: Option<(Option<Json<Vec<RejectedFunction>>>,)> = c
        .q("select rejected from tools where id = $1")
        .bind(tool)
        .opt()
        .await?;
    let before = before.and_then(|(before,)| before);
    let mut has_changed = before.map(|before| before.0).unwrap_or_default() != rejected;
    c.q("update tools set status = $2, listed_at = $3, rejected = $4 where id = $1")
        .bind(tool)
        .bind(ToolStatus::Ok)
        .bind(now())
        .bind(Json(rejected))
        .run()
        .await?;
    let known: Vec<(String, String, bool, Option<String>)> = c
        .q("select name, definition_hash, is_listed, accepted_hash from tool_functions where tool_id = $1 order by name")
        .bind(tool)
        .all()
        .await?;
    if known.is_empty() {
        has_changed |= adopt_title(c, tool, listing.title.as_deref()).await?;
    }
    for definition in listed {
        let is_known = known.iter().any(|(name, hash, is_listed, _)| {
            name == definition.name() && hash == definition.hash() && *is_listed
        });
        if is_known {
            continue;
        }
        has_changed = true;
        c.q("insert into tool_functions (tool_id, name, definition, definition_hash, is_listed) values ($1, $2, $3, $4, TRUE) \
             on conflict (tool_id, name) do update set definition = excluded.definition, definition_hash = excluded.definition_hash, is_listed = TRUE")
            .bind(tool)
            .bind(definition.name().to_owned())
            .bind(Json(definition.value().clone()))
            .bind(definition.hash().to_owned())
            .run()
            .await?;
    }
    for (name, _, is_listed, accepted) in &known {
        if listed.iter().any(|definition| definition.name() == name) {
            continue;
        }
        has_changed |= accepted.is_none() || *is_listed;
        if accepted.is_none() {
            c.q("delete from tool_functions where tool_id = $1 and name = $2")
                .bind(tool)
                .bind(name.clone())
                .run()
                .await?;
        } else if *is_listed {
            // Only accepted definitions are kept, so that the limits cover everything that is stored.
            c.q("update tool_functions set is_listed = FALSE, definition = accepted_definition, definition_hash = accepted_hash \
                 where tool_id = $1 and name = $2")
                .bind(tool)
                .bind(name.clone())
                .run()
                .await?;
        }
    }
    Ok(has_changed)
}

/// Gives a tool the title of its server, unless an admin chose another title than the tool's name. Returns true if it changed.
async fn adopt_title(c: &mut Conn, tool: ToolId, title: Option<&str>) -> Result<bool, DbError> {
    let Some(Ok(title)) = title.map(|title| DisplayName::parse(title, "title")) else {
        return Ok(false);
    };
    let changed = c
        .q("update tools set title = $2 where id = $1 and title = name and title <> $2")
        .bind(tool)
        .bind(title.0)
        .run()
        .await?;
    Ok(changed > 0)
}

/// Returns the stored status of a tool, or `None` if the version of its settings has changed.
async fn status_of(
    c: &mut Conn,
    tool: ToolId,
    version: i64,
) -> Result<Option<ToolStatus>, DbError> {
    let found: Option<(ToolStatus,)> = c
        .q("select status from tools where id = $1 and version = $2")
        .bind(tool)
        .bind(version)
        .opt()
        .await?;
    Ok(found.map(|(status,)| status))
}

/// Accepts the definition with this hash, replacing any earlier acceptance.
///
/// # Errors
/// `NotFound`, `FunctionNotFound`, `DefinitionChanged`, `RiskTooLow`, `TooManyFunctions`, `DefinitionsTooLarge`, or an error from
/// `Actor::require`.
pub async fn accept_function(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: ToolId,
    name: &str,
    form: &AcceptanceForm,
) -> Result<RegisteredTool, ToolError> {
    let tool = locked(c, actor, id, None).await?;
    let found = tool.functions.iter().find(|function| function.name == name);
    let not_found = || ToolError::FunctionNotFound(name.to_owned());
    let function = found.cloned().ok_or_else(not_found)?;
    if form.effect == Effect::Destructive && form.risk == Risk::Autonomous {
        return Err(ToolError::RiskTooLow);
    }
    let title = form
        .title
        .as_deref()
        .map(|title| parse_title(title, &function.title))
        .transpose()?;
    if function.definition_hash != form.definition_hash {
        return Err(ToolError::DefinitionChanged(Box::new(tool)));
    }
    let others = tool.functions.iter().filter(|other| other.name != name);
    let accepted: Vec<_> = others.filter_map(|other| other.accepted.as_ref()).collect();
    if accepted.len() >= ACCEPTED_MAX {
        return Err(ToolError::TooManyFunctions(ACCEPTED_MAX));
    }
    let others_bytes: usize = accepted.iter().map(|of| bytes_of(&of.definition)).sum();
    if others_bytes + bytes_of(&function.definition) > DEFINITIONS_BYTES_MAX {
        return Err(ToolError::DefinitionsTooLarge(DEFINITIONS_BYTES_MAX / 1024));
    }
    c.q("update tool_functions set accepted_definition = definition, accepted_hash = definition_hash, effect = $3, risk = $4, \
         title = $5, accepted_by = $6, accepted_at = $7 where tool_id = $1 and name = $2")
        .bind(id)
        .bind(name.to_owned())
        .bind(form.effect)
        .bind(form.risk)
        .bind(title)
        .bind(actor.user)
        .bind(now())
        .run()
        .await?;
    let data = serde_json::json!({
        "function": name, "definition_hash": form.definition_hash, "effect": form.effect, "risk": form.risk,
    });
    audit(c, actor, AuditAction::ToolFunctionAccepted, &tool, data).await?;
    let tool = stored(c, actor.workspace, id).await?;
    announce(c, &tool, ToolChange::Updated).await?;
    Ok(tool)
}

/// Withdraws the acceptance of a function; does nothing if it was not accepted.
///
/// # Errors
/// `NotFound`, `FunctionNotFound`, or an error from `Actor::require`.
pub async fn withdraw_function(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: ToolId,
    name: &str,
) -> Result<RegisteredTool, ToolError> {
    let tool = locked(c, actor, id, None).await?;
    let function = tool.functions.iter().find(|function| function.name == name);
    let Some(function) = function else {
        return Err(ToolError::FunctionNotFound(name.to_owned()));
    };
    if function.accepted.is_none() {
        return Ok(tool);
    }
    c.q("delete from tool_functions where tool_id = $1 and name = $2 and not is_listed")
        .bind(id)
        .bind(name.to_owned())
        .run()
        .await?;
    c.q("update tool_functions set accepted_definition = null, accepted_hash = null, effect = null, risk = null, title = null, \
         accepted_by = null, accepted_at = null where tool_id = $1 and name = $2")
        .bind(id)
        .bind(name.to_owned())
        .run()
        .await?;
    let data = serde_json::json!({"function": name});
    audit(c, actor, AuditAction::ToolFunctionWithdrawn, &tool, data).await?;
    let tool = stored(c, actor.workspace, id).await?;
    announce(c, &tool, ToolChange::Updated).await?;
    Ok(tool)
}
