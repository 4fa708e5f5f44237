//! Webhooks, workflows, memories, and schedules of an export of this program. The person who imports creates them again, with their own
//! rights, and none of them acts until somebody here turns it on: nobody knows the address of a webhook, and workflows and schedules are
//! paused. A schedule stays that of its owner, with the rights that they have here, if the owner is a member.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    agents::importing_actor,
    error::ImportError,
    json::string,
    key::{Identity, Keys, RecordKind},
    record::SourceRecord,
    report::RecordOutcome,
};
use crate::{
    agents::{
        AgentError,
        derived::{self, Change, SourceId},
    },
    auth::{Actor, AuthError, Role},
    chat::ChatError,
    db::{Conn, DbError},
    hooks::{self, HookError, HookForm},
    ids::{AgentId, BotId, ChannelId, HookId, MemoryId, ScheduleId, ThreadId, UserId, WorkflowId},
    memory::{
        MemoryError,
        content::Content,
        create::{self, ImportedEntry},
        entry::{MemoryKind, MemoryScope, MemoryStatus, Visibility},
    },
    schedules::{ScheduleError, ScheduleForm, create_imported, delete_imported},
    secrets::{self, Keyring},
    workflows::{
        WorkflowError, WorkflowForm, WorkflowPatch, create_workflow, definition::WorkflowStatus,
        patch_workflow,
    },
};

/// Maximum number of records that are read from an archive, and size of their texts, which are in memory at once.
pub(super) const WORK_MAX: usize = 60_000;
pub(super) const WORK_BYTES_MAX: usize = 64 << 20;

/// Records of an archive, in the order in which they are stored.
#[derive(Debug, Clone, Default)]
pub(super) struct SourceWork {
    /// Names of agents by their IDs in the archive.
    pub(super) agents: Arc<HashMap<String, String>>,
    pub(super) records: Vec<SourceRecord>,
    /// Stored after the messages.
    pub(super) schedules: Vec<SourceRecord>,
}

/// Field of a schedule with the key of the first message of its thread.
pub(super) const ROOT_OF_SCHEDULE: &str = "root_message_id";

/// ID of the stored object, or the reason why none was stored.
type Stored = Result<Uuid, &'static str>;

const NOT_HERE: &str = "it refers to an object that does not exist here";

fn refused(error: &dyn std::fmt::Display) -> ImportError {
    ImportError::Refused(error.to_string())
}

/// An error of accounts: of the database, of the quota, or a rule that refuses the record.
fn auth_fault(error: AuthError) -> ImportError {
    match error {
        AuthError::Db(_) | AuthError::QuotaExceeded(_) => error.into(),
        other => refused(&other),
    }
}

fn hook_fault(error: HookError) -> ImportError {
    match error {
        HookError::Db(e) | HookError::Chat(ChatError::Db(e)) => e.into(),
        HookError::Auth(e) => auth_fault(e),
        other => refused(&other),
    }
}

fn workflow_fault(error: WorkflowError) -> ImportError {
    match error {
        WorkflowError::Db(e) => e.into(),
        WorkflowError::Auth(e) => auth_fault(e),
        other => refused(&other),
    }
}

fn memory_fault(error: MemoryError) -> ImportError {
    match error {
        MemoryError::Db(e)
        | MemoryError::Agent(AgentError::Db(e))
        | MemoryError::Chat(ChatError::Db(e)) => e.into(),
        MemoryError::Auth(e) => auth_fault(e),
        other => refused(&other),
    }
}

fn schedule_fault(error: ScheduleError) -> ImportError {
    match error {
        ScheduleError::Db(e)
        | ScheduleError::Chat(ChatError::Db(e))
        | ScheduleError::Workflow(WorkflowError::Db(e)) => e.into(),
        ScheduleError::Auth(e) => auth_fault(e),
        other => refused(&other),
    }
}

/// The ID here of an object of the archive.
pub(super) async fn id_here(
    c: &mut Conn,
    keys: &Keys,
    agents: &HashMap<String, String>,
    id: &str,
) -> Result<Option<String>, DbError> {
    if AgentId::parse(id).is_ok() {
        let Some(name) = agents.get(id) else {
            return Ok(None);
        };
        let row: Option<(AgentId,)> = c
            .q("select id from agents where workspace_id = $1 and name = $2")
            .bind(keys.workspace)
            .bind(name.clone())
            .opt()
            .await?;
        return Ok(row.map(|row| row.0.to_string()));
    }
    let kind = if ChannelId::parse(id).is_ok() {
        RecordKind::Channels
    } else if HookId::parse(id).is_ok() {
        RecordKind::Hooks
    } else {
        RecordKind::People
    };
    let found = keys.find(c, kind, id).await?;
    Ok(found.map(|found| match kind {
        RecordKind::Channels => ChannelId(found).to_string(),
        RecordKind::Hooks => HookId(found).to_string(),
        _ if BotId::parse(id).is_ok() => BotId(found).to_string(),
        _ => UserId(found).to_string(),
    }))
}

/// The ID that a webhook, workflow, memory, or schedule has in the archive.
fn id_in_archive(key: &str) -> Option<Uuid> {
    let id = HookId::parse(key).map(|id| id.0);
    let id = id.or_else(|_| WorkflowId::parse(key).map(|id| id.0));
    let id = id.or_else(|_| MemoryId::parse(key).map(|id| id.0));
    id.or_else(|_| ScheduleId::parse(key).map(|id| id.0)).ok()
}

fn is_id(text: &str) -> bool {
    AgentId::parse(text).is_ok()
        || ChannelId::parse(text).is_ok()
        || UserId::parse(text).is_ok()
        || HookId::parse(text).is_ok()
        || BotId::parse(text).is_ok()
}

fn collect_ids(value: &Value, ids: &mut HashSet<String>) {
    match value {
        Value::String(text) if is_id(text) => {
            ids.insert(text.clone());
        }
        Value::Array(list) => list.iter().for_each(|value| collect_ids(value, ids)),
        Value::Object(map) => map.values().for_each(|value| collect_ids(value, ids)),
        _ => {}
    }
}

fn replace_ids(value: &mut Value, here: &HashMap<String, String>) {
    match value {
        Value::String(text) => {
            if let Some(id) = here.get(text) {
                text.clone_from(id);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| replace_ids(value, here)),
        Value::Object(map) => map.values_mut().for_each(|value| replace_ids(value, here)),
        _ => {}
    }
}

/// Replaces the IDs of the archive. Returns `None` if one of the objects does not exist here: its ID could belong to another object.
async fn with_ids_here(
    c: &mut Conn,
    keys: &Keys,
    agents: &HashMap<String, String>,
    value: &Value,
) -> Result<Option<Value>, DbError> {
    let mut ids = HashSet::new();
    collect_ids(value, &mut ids);
    let mut here = HashMap::new();
    for id in ids {
        let Some(found) = id_here(c, keys, agents, &id).await? else {
            return Ok(None);
        };
        here.insert(id, found);
    }
    let mut value = value.clone();
    replace_ids(&mut value, &here);
    Ok(Some(value))
}

/// Stores a record on behalf of the person who imports. The workspace must be locked.
///
/// # Errors
/// `Refused` if it is not possible here; the transaction must be rolled back then.
pub(super) async fn store_record(
    c: &mut Conn,
    keys: &Keys,
    importer: UserId,
    agents: &HashMap<String, String>,
    record: &SourceRecord,
    keyring: &Keyring,
) -> Result<RecordOutcome, ImportError> {
    if keys.find(c, record.kind, &record.key).await?.is_some() {
        return Ok(RecordOutcome::Existing);
    }
    let Some(actor) = importing_actor(c, keys.workspace, importer).await? else {
        return Ok(RecordOutcome::LeftOut("the person who imports has left"));
    };
    let identity = Identity {
        kind: record.kind,
        at_ms: 0,
        key: &record.key,
        in_archive: id_in_archive(&record.key),
        owner: None,
    };
    let id = keys.kept_id(c, identity).await?;
    let id = id.unwrap_or_else(Uuid::now_v7);
    if record.kind == RecordKind::Schedules {
        let value: Value = serde_json::from_str(&record.text).unwrap_or_default();
        let stored = store_schedule(c, keys, &actor, ScheduleId(id), agents, &value).await?;
        return finish(c, keys, record, stored).await;
    }
    let parts: &[&str] = match record.kind {
        RecordKind::Hooks => &["bot_id", "channel_id", "may_notify", "template"],
        RecordKind::Workflows => &["name", "status", "content"],
        _ => &[
            "scope",
            "kind",
            "text",
            "status",
            "visibility",
            "agent_id",
            "channel_id",
            "expires_at",
        ],
    };
    let value: Value = serde_json::from_str(&record.text).unwrap_or_default();
    // Only these fields are read: the others name people and threads that are not needed.
    let fields = parts
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), value.get(*name)?.clone())));
    let fields = Value::Object(fields.collect());
    let Some(value) = with_ids_here(c, keys, agents, &fields).await? else {
        return Ok(RecordOutcome::LeftOut(NOT_HERE));
    };
    let stored = match record.kind {
        RecordKind::Hooks => store_hook(c, &actor, HookId(id), &value).await?,
        RecordKind::Workflows => store_workflow(c, &actor, WorkflowId(id), &value).await?,
        _ => store_memory(c, &actor, MemoryId(id), &value, keyring).await?,
    };
    finish(c, keys, record, stored).await
}

/// Remembers the object that a record became.
async fn finish(
    c: &mut Conn,
    keys: &Keys,
    record: &SourceRecord,
    stored: Stored,
) -> Result<RecordOutcome, ImportError> {
    match stored {
        Ok(id) => {
            keys.store(c, record.kind, &record.key, id).await?;
            Ok(RecordOutcome::Imported)
        }
        Err(reason) => Ok(RecordOutcome::LeftOut(reason)),
    }
}

/// The thread here of a message of the archive.
async fn thread_here(c: &mut Conn, keys: &Keys, root: &str) -> Result<Option<ThreadId>, DbError> {
    let Some(id) = keys.find(c, RecordKind::Messages, root).await? else {
        return Ok(None);
    };
    let row: Option<(ThreadId,)> = c
        .q("select thread_id from messages where id = $1 and workspace_id = $2")
        .bind(id)
        .bind(keys.workspace)
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}

/// Creates a paused schedule for its owner, or for the actor if the owner is not a member here.
async fn store_schedule(
    c: &mut Conn,
    keys: &Keys,
    actor: &Actor<'_>,
    id: ScheduleId,
    agents: &HashMap<String, String>,
    value: &Value,
) -> Result<Stored, ImportError> {
    let ids = json!({"agent_id": value["agent_id"], "channel_id": value["channel_id"]});
    let Some(ids) = with_ids_here(c, keys, agents, &ids).await? else {
        return Ok(Err(NOT_HERE));
    };
    let prompt = string(value, "prompt");
    let target = match string(value, "target_type") {
        "workflow" => {
            let workflow = string(value, "workflow_id");
            let Some(id) = keys.find(c, RecordKind::Workflows, workflow).await? else {
                return Ok(Err(NOT_HERE));
            };
            json!({"type": "workflow", "workflow_id": WorkflowId(id), "input": prompt})
        }
        "heartbeat" => json!({"type": "heartbeat", "agent_id": ids["agent_id"]}),
        "agent" if ids["agent_id"].is_string() => {
            json!({"type": "agent", "agent_id": ids["agent_id"], "prompt": prompt})
        }
        _ => return Ok(Err("it is not a schedule")),
    };
    let deliver = if !string(value, "thread_id").is_empty() {
        let Some(thread) = thread_here(c, keys, string(value, ROOT_OF_SCHEDULE)).await? else {
            return Ok(Err(NOT_HERE));
        };
        json!({"thread_id": thread})
    } else if ids["channel_id"].is_string() {
        json!({"channel_id": ids["channel_id"]})
    } else {
        Value::Null
    };
    let form = json!({
        "name": value["name"],
        "cron": value["cron"],
        "timezone": value["timezone"],
        "target": target,
        "deliver": deliver,
        "missed": value["missed"],
    });
    let Ok(form) = serde_json::from_value::<ScheduleForm>(form) else {
        return Ok(Err("it is not a schedule"));
    };
    let owner = keys
        .find(c, RecordKind::People, string(value, "owner_id"))
        .await?;
    let owner = match owner.map(UserId) {
        Some(owner) => {
            if keys.is_erased(c, owner).await? {
                return Ok(Err("erased"));
            }
            importing_actor(c, keys.workspace, owner).await?
        }
        None => None,
    };
    let owner = owner.filter(|owner| owner.role != Role::Guest);
    let created = create_imported(c, owner.as_ref().unwrap_or(actor), id, &form).await;
    created.map_err(schedule_fault)?;
    Ok(Ok(id.0))
}

/// Creates a webhook in a channel in which the actor can post. It sleeps: its address is not known until somebody makes a new one.
async fn store_hook(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: HookId,
    value: &Value,
) -> Result<Stored, ImportError> {
    let (Ok(bot), Ok(channel)) = (
        BotId::parse(string(value, "bot_id")),
        ChannelId::parse(string(value, "channel_id")),
    ) else {
        return Ok(Err("it has no bot or no channel"));
    };
    let template = value.get("template").cloned().unwrap_or(Value::Null);
    let Ok(template) = serde_json::from_value(template) else {
        return Ok(Err("its template is not possible here"));
    };
    let form = HookForm {
        name: None,
        channel_id: channel,
        bot_id: Some(bot),
        may_notify: string(value, "may_notify").parse().ok(),
        other_channel_ids: Vec::new(),
        template,
    };
    let created = hooks::create(c, actor, id, &form).await;
    created.map_err(hook_fault)?;
    Ok(Ok(id.0))
}

/// Creates a workflow of the actor, and pauses it.
async fn store_workflow(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: WorkflowId,
    value: &Value,
) -> Result<Stored, ImportError> {
    if string(value, "status") == WorkflowStatus::Archived.as_str() {
        return Ok(Err("it is archived"));
    }
    let Some(Value::Object(content)) = value.get("content") else {
        return Ok(Err("it has no steps"));
    };
    let mut form = content.clone();
    form.insert("name".to_owned(), string(value, "name").into());
    let Ok(form) = serde_json::from_value::<WorkflowForm>(Value::Object(form)) else {
        return Ok(Err("it is not a workflow"));
    };
    match create_workflow(c, actor, id, form).await {
        Ok(_) => {}
        Err(WorkflowError::NameTaken(_)) => return Ok(Err("a workflow here has its name")),
        Err(e) => return Err(workflow_fault(e)),
    }
    let pause = WorkflowPatch {
        status: Some(WorkflowStatus::Paused),
        ..WorkflowPatch::default()
    };
    let paused = patch_workflow(c, actor, id, pause, None).await;
    paused.map_err(workflow_fault)?;
    Ok(Ok(id.0))
}

/// Stores a memory of an agent or of the workspace, without the trust that the archive gives it.
async fn store_memory(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: MemoryId,
    value: &Value,
    keyring: &Keyring,
) -> Result<Stored, ImportError> {
    let scope = string(value, "scope").parse::<MemoryScope>();
    let agent = match (scope, AgentId::parse(string(value, "agent_id"))) {
        (Ok(MemoryScope::Agent), Ok(agent)) => Some(agent),
        (Ok(MemoryScope::Organization), _) => None,
        (Ok(MemoryScope::Conversation), _) => return Ok(Err("it belongs to a conversation")),
        (Ok(MemoryScope::User | MemoryScope::Persona), _) => return Ok(Err("it is personal")),
        _ => return Ok(Err("it is not a memory")),
    };
    let Ok(kind) = string(value, "kind").parse::<MemoryKind>() else {
        return Ok(Err("it is not a memory"));
    };
    if string(value, "status") != MemoryStatus::Active.as_str()
        || !string(value, "expires_at").is_empty()
    {
        return Ok(Err("it was replaced, or expires"));
    }
    let visibility = string(value, "visibility").parse::<Visibility>();
    let channel = match (visibility, ChannelId::parse(string(value, "channel_id"))) {
        (Ok(Visibility::Workspace), _) => None,
        (Ok(Visibility::Channel), Ok(channel)) => Some(channel),
        _ => return Ok(Err("it is not for others")),
    };
    let content = Content::parse(string(value, "text"), actor.workspace, keyring);
    let new = ImportedEntry {
        id,
        content: content.map_err(memory_fault)?,
        kind,
        agent,
        channel,
    };
    let stored = create::insert_imported(c, actor, &new).await;
    let stored = stored.map_err(memory_fault)?;
    // An entry that was here before is not one of the archive: undoing the import must not remove it.
    Ok(stored.map(|id| id.0).ok_or("an equal memory is here"))
}

async fn is_hook(c: &mut Conn, id: Uuid) -> Result<bool, DbError> {
    c.q("select exists (select 1 from hooks where id = $1)")
        .bind(id)
        .value()
        .await
}

/// Removes a record that imports of the source created: a memory, a schedule that nobody changed, or a webhook that was never used. Other
/// schedules and webhooks stay, as workflows and agents do, and another import finds them. The workspace must be locked.
///
/// # Errors
/// Only database errors.
pub(super) async fn remove_record(
    c: &mut Conn,
    keys: &Keys,
    kind: RecordKind,
    key: &str,
    id: Uuid,
) -> Result<(), DbError> {
    match kind {
        RecordKind::Memories => {
            let source = SourceId::Memory(MemoryId(id));
            derived::changed(c, source, Change::Deleted).await?;
        }
        RecordKind::Hooks => {
            let deleted = c
                .q("delete from hooks where workspace_id = $1 and id = $2 and last_used_at is null")
                .bind(keys.workspace)
                .bind(id)
                .run()
                .await?;
            if deleted > 0 {
                secrets::delete(c, &HookId(id).to_string()).await?;
            } else if is_hook(c, id).await? {
                return Ok(());
            }
        }
        RecordKind::Schedules => {
            if !delete_imported(c, ScheduleId(id)).await? {
                return Ok(());
            }
        }
        _ => return Ok(()),
    }
    keys.forget(c, kind, key).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_ids_are_replaced() {
        let (agent, user) = (AgentId::new().to_string(), UserId::new().to_string());
        let mut value = json!({"a": [agent, {"b": user}], "c": format!("Ask {user}"), "d": 1});
        let mut ids = HashSet::new();
        collect_ids(&value, &mut ids);
        assert_eq!(ids, HashSet::from([agent.clone(), user.clone()]));
        let here = HashMap::from([(agent, "x".to_owned()), (user.clone(), "y".to_owned())]);
        replace_ids(&mut value, &here);
        let expected = json!({"a": ["x", {"b": "y"}], "c": format!("Ask {user}"), "d": 1});
        assert_eq!(value, expected);
    }
}
