//! Creating and changing workflows: each change creates a version.

use super::{
    Workflow, WorkflowError, WorkflowForm, WorkflowPatch,
    definition::{PausedReason, StepWork, WorkflowContent, WorkflowStatus, with_paths},
    error::WORKFLOWS_MAX,
    readable::can_change,
    version_rows::{find_content, insert_version, size_of},
    workflow::{announce, find_workflow},
};
use crate::{
    agents::profiles,
    auth::{self, Actor, AuditAction, Scope, quota},
    db::{
        Conn, DbError, Json, dialect::lock_workspace, is_in_visible_channel, is_visible_channel,
        now,
    },
    http::error::ErrorCode,
    ids::{AgentId, ChannelId, HookId, UserId, WorkflowId},
    inbox::notice::close_notice,
    realtime::EventType,
};

/// Locks the workspace, and returns the workflow. The actor must be its owner or an admin.
async fn locked(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: WorkflowId,
    expected: Option<i64>,
) -> Result<Workflow, WorkflowError> {
    actor.require(Scope::AgentsWrite)?;
    lock_workspace(c, actor.workspace.0).await?;
    let workflow = stored(c, actor, id).await?;
    if !can_change(actor, workflow.owner_id) {
        return Err(WorkflowError::NotYours);
    }
    if expected.is_some_and(|version| version != workflow.version) {
        return Err(WorkflowError::Stale(Box::new(workflow)));
    }
    Ok(workflow)
}

async fn stored(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: WorkflowId,
) -> Result<Workflow, WorkflowError> {
    let found = find_workflow(c, actor.workspace, id).await?;
    found.ok_or(WorkflowError::NotFound)
}

/// # Errors
/// `Invalid`, `NameTaken`, `TooMany`, or an error from `Actor::require`.
pub async fn create_workflow(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: WorkflowId,
    form: WorkflowForm,
) -> Result<Workflow, WorkflowError> {
    actor.require(Scope::AgentsWrite)?;
    lock_workspace(c, actor.workspace.0).await?;
    let (name, content) = form.into_parts(main_agent(c, actor).await?)?;
    check_names(c, actor, &content, None).await?;
    check_count(c, actor).await?;
    quota::check_bytes(c, actor.workspace, size_of(&content)).await?;
    let channel = content.channel();
    let trigger = content.on_message.clone();
    check_name(c, actor, id, &name).await?;
    c.q("insert into workflows (id, workspace_id, name, content, status, owner_id, dropped, version, created_at, updated_at, \
         trigger_channel_id, on_message) values ($1, $2, $3, $4, $5, $6, 0, 1, $7, $7, $8, $9)")
        .bind(id)
        .bind(actor.workspace)
        .bind(name)
        .bind(Json(content))
        .bind(WorkflowStatus::Active)
        .bind(actor.user)
        .bind(now())
        .bind(channel)
        .bind(trigger.map(Json))
        .run()
        .await?;
    let workflow = stored(c, actor, id).await?;
    insert_version(c, &workflow, actor.user, "created").await?;
    announce(c, EventType::WorkflowCreated, &workflow).await?;
    audit(c, actor, AuditAction::WorkflowCreated, &workflow).await?;
    Ok(workflow)
}

/// The workspace's default agent.
async fn main_agent(c: &mut Conn, actor: &Actor<'_>) -> Result<AgentId, WorkflowError> {
    let main = profiles::find_default(c, actor.workspace).await?;
    main.map(|agent| agent.id).ok_or_else(|| {
        let rule = "this workspace has no default agent: choose an agent";
        WorkflowError::Invalid(rule.to_owned(), "default_agent_id".to_owned())
    })
}

/// A change to a workflow: the state to store.
struct Wanted {
    name: String,
    content: WorkflowContent,
    status: WorkflowStatus,
    owner: UserId,
    /// Summary of the version; `None` generates one from the changed fields.
    summary: Option<String>,
}

/// Replaces a workflow except for its status. Omitted fields are reset to their defaults.
///
/// # Errors
/// `NotFound`, `NotYours`, `Stale`, or any error from `create_workflow`.
pub async fn put_workflow(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: WorkflowId,
    form: WorkflowForm,
    expected: Option<i64>,
) -> Result<Workflow, WorkflowError> {
    let workflow = locked(c, actor, id, expected).await?;
    let (name, content) = form.into_parts(main_agent(c, actor).await?)?;
    let wanted = Wanted {
        name,
        content,
        status: workflow.status,
        owner: workflow.owner_id,
        summary: None,
    };
    store(c, actor, &workflow, wanted).await
}

/// # Errors
/// Same as `put_workflow`.
pub async fn patch_workflow(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: WorkflowId,
    patch: WorkflowPatch,
    expected: Option<i64>,
) -> Result<Workflow, WorkflowError> {
    let workflow = locked(c, actor, id, expected).await?;
    let owner = patch.owner_id.unwrap_or(workflow.owner_id);
    if owner != workflow.owner_id && owner != actor.user {
        let rule = "a workflow can only be taken over: send your own ID";
        return Err(WorkflowError::Invalid(
            rule.to_owned(),
            "owner_id".to_owned(),
        ));
    }
    let status = patch.status.unwrap_or(workflow.status);
    let (name, content) = patch.over(&workflow.name, &workflow.content)?;
    let wanted = Wanted {
        name,
        content,
        status,
        owner,
        summary: None,
    };
    store(c, actor, &workflow, wanted).await
}

/// Restores the content of an earlier version as a new one. The name, owner, and status are unchanged.
///
/// # Errors
/// `VersionNotFound`, or any error from `put_workflow`.
pub async fn rollback_workflow(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: WorkflowId,
    target: i64,
    expected: Option<i64>,
) -> Result<Workflow, WorkflowError> {
    let workflow = locked(c, actor, id, expected).await?;
    let content = find_content(c, id, target).await?;
    let wanted = Wanted {
        name: workflow.name.clone(),
        content: content.ok_or(WorkflowError::VersionNotFound(target))?,
        status: workflow.status,
        owner: workflow.owner_id,
        summary: Some(format!("rolled back to version {target}")),
    };
    store(c, actor, &workflow, wanted).await
}

/// Archives a workflow, so that it starts no more runs. An archived workflow is returned unchanged.
///
/// # Errors
/// `NotFound`, `NotYours`, `Stale`, or an error from `Actor::require`.
pub async fn archive_workflow(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: WorkflowId,
    expected: Option<i64>,
) -> Result<Workflow, WorkflowError> {
    let workflow = locked(c, actor, id, expected).await?;
    let wanted = Wanted {
        name: workflow.name.clone(),
        content: workflow.content.clone(),
        status: WorkflowStatus::Archived,
        owner: workflow.owner_id,
        summary: None,
    };
    store(c, actor, &workflow, wanted).await
}

/// Stores a change as a new version. Does nothing if nothing has changed and no summary was given. The workspace must be locked.
async fn store(
    c: &mut Conn,
    actor: &Actor<'_>,
    before: &Workflow,
    wanted: Wanted,
) -> Result<Workflow, WorkflowError> {
    let changes = changes(before, &wanted);
    if changes.is_empty() && wanted.summary.is_none() {
        return Ok(before.clone());
    }
    if wanted.name != before.name {
        check_name(c, actor, before.id, &wanted.name).await?;
    }
    if before.status == WorkflowStatus::Archived && wanted.status != WorkflowStatus::Archived {
        check_count(c, actor).await?;
    }
    check_names(c, actor, &wanted.content, Some(&before.content)).await?;
    quota::check_bytes(c, actor.workspace, size_of(&wanted.content)).await?;
    // A reason is stored only if the server paused the workflow.
    let reason: Option<PausedReason> = before
        .paused_reason
        .filter(|_| wanted.status == WorkflowStatus::Paused && wanted.owner == before.owner_id);
    let status = if wanted.owner != before.owner_id && before.paused_reason.is_some() {
        // The workflow was paused because its owner had left.
        WorkflowStatus::Active
    } else {
        wanted.status
    };
    let channel = wanted.content.channel();
    let trigger = wanted.content.on_message.clone();
    c.q("update workflows set name = $2, content = $3, status = $4, paused_reason = $5, owner_id = $6, version = version + 1, \
         updated_at = $7, trigger_channel_id = $8, on_message = $9 where id = $1")
        .bind(before.id)
        .bind(wanted.name)
        .bind(Json(wanted.content))
        .bind(status)
        .bind(reason)
        .bind(wanted.owner)
        .bind(now())
        .bind(channel)
        .bind(trigger.map(Json))
        .run()
        .await?;
    let workflow = stored(c, actor, before.id).await?;
    let summary = wanted
        .summary
        .unwrap_or_else(|| format!("changed {}", changes.join(", ")));
    insert_version(c, &workflow, actor.user, &summary).await?;
    let is_archived =
        status == WorkflowStatus::Archived && before.status != WorkflowStatus::Archived;
    let kind = if is_archived {
        EventType::WorkflowArchived
    } else {
        EventType::WorkflowUpdated
    };
    announce(c, kind, &workflow).await?;
    if before.paused_reason.is_some() && workflow.paused_reason.is_none() {
        close_notice(c, workflow.workspace_id, workflow.id.0, None).await?;
    }
    audit(c, actor, AuditAction::WorkflowUpdated, &workflow).await?;
    Ok(workflow)
}

/// Names of the changed fields.
fn changes(before: &Workflow, wanted: &Wanted) -> Vec<String> {
    let (old, new) = (&before.content, &wanted.content);
    let mut changed = Vec::new();
    let mut note = |is_changed: bool, field: &str| {
        if is_changed {
            changed.push(field.to_owned());
        }
    };
    note(new.description != old.description, "description");
    note(
        new.default_agent_id != old.default_agent_id,
        "default_agent_id",
    );
    note(new.agents != old.agents, "agents");
    note(new.on_message != old.on_message, "on_message");
    note(new.steps != old.steps, "steps");
    note(wanted.owner != before.owner_id, "owner_id");
    note(
        wanted.name != before.name,
        &format!("name: {}", wanted.name),
    );
    note(
        wanted.status != before.status,
        &format!("status: {}", wanted.status),
    );
    changed
}

async fn check_name(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: WorkflowId,
    name: &str,
) -> Result<(), WorkflowError> {
    let other: Option<(WorkflowId,)> = c
        .q("select id from workflows where workspace_id = $1 and name = $2 and id <> $3")
        .bind(actor.workspace)
        .bind(name.to_owned())
        .bind(id)
        .opt()
        .await?;
    match other {
        Some(_) => Err(WorkflowError::NameTaken(name.to_owned())),
        None => Ok(()),
    }
}

async fn check_count(c: &mut Conn, actor: &Actor<'_>) -> Result<(), WorkflowError> {
    let count: i64 = c
        .q("select count(*) from workflows where workspace_id = $1 and status <> 'archived'")
        .bind(actor.workspace)
        .value()
        .await?;
    if count >= WORKFLOWS_MAX {
        return Err(WorkflowError::TooMany);
    }
    Ok(())
}

/// Checks that the actor can see the agents, channels, and people to which the content newly refers.
async fn check_names(
    c: &mut Conn,
    actor: &Actor<'_>,
    content: &WorkflowContent,
    before: Option<&WorkflowContent>,
) -> Result<(), WorkflowError> {
    let old = before.map(Names::of).unwrap_or_default();
    let new = Names::of(content);
    for (param, agent) in new.agents {
        if !has(&old.agents, &agent) && !profiles::is_visible(c, actor, agent).await? {
            let text = format!("agent {agent} does not exist in this workspace");
            return Err(WorkflowError::Missing(
                text,
                param,
                ErrorCode::AgentNotFound,
            ));
        }
    }
    for (param, channel) in new.channels {
        if has(&old.channels, &channel) {
            continue;
        }
        match is_direct(c, actor, channel).await? {
            Some(true) => {
                let text = "workflows cannot use direct channels".to_owned();
                return Err(WorkflowError::Invalid(text, param));
            }
            Some(false) => {}
            None => {
                let text = "the channel does not exist, or you are not in it".to_owned();
                return Err(WorkflowError::Missing(
                    text,
                    param,
                    ErrorCode::ChannelNotFound,
                ));
            }
        }
    }
    for (param, hook) in new.hooks {
        if !has(&old.hooks, &hook) && !is_known_hook(c, actor, hook).await? {
            let text = "the webhook does not exist, or you are not in its channel".to_owned();
            return Err(WorkflowError::Missing(text, param, ErrorCode::HookNotFound));
        }
    }
    for (param, user) in new.people {
        let member = auth::find_member(c, actor.workspace, user).await?;
        let text = match member {
            _ if has(&old.people, &user) => continue,
            None => {
                let text = format!("member {user} is not in this workspace");
                return Err(WorkflowError::Missing(
                    text,
                    param,
                    ErrorCode::MemberNotFound,
                ));
            }
            Some(member) if !member.role.approves() => {
                let role = member.role;
                format!("{user} is a {role}, who cannot approve: choose someone else")
            }
            Some(_) => continue,
        };
        return Err(WorkflowError::Invalid(text, param));
    }
    Ok(())
}

/// Objects that a workflow refers to, with the fields that refer to them.
#[derive(Default)]
struct Names {
    agents: Vec<(String, AgentId)>,
    channels: Vec<(String, ChannelId)>,
    people: Vec<(String, UserId)>,
    hooks: Vec<(String, HookId)>,
}

fn has<Id: PartialEq>(named: &[(String, Id)], id: &Id) -> bool {
    named.iter().any(|(_, known)| known == id)
}

impl Names {
    fn of(content: &WorkflowContent) -> Self {
        let mut names = Self::default();
        let default = ("default_agent_id".to_owned(), content.default_agent_id);
        names.agents.push(default);
        for (n, agent) in content.agents.iter().enumerate() {
            names.agents.push((format!("agents[{n}]"), *agent));
        }
        if let Some(trigger) = &content.on_message {
            let param = "on_message.channel_id".to_owned();
            names.channels.push((param, trigger.channel_id));
            for (n, hook) in trigger.hook_ids.iter().enumerate() {
                names
                    .hooks
                    .push((format!("on_message.hook_ids[{n}]"), *hook));
            }
        }
        for (path, step) in with_paths(&content.steps) {
            match &step.work {
                StepWork::Output(output) => {
                    let channel = output.channel_id.into_iter();
                    let named = channel.map(|channel| (format!("{path}.channel_id"), channel));
                    names.channels.extend(named);
                }
                StepWork::Approval(approval) => {
                    let user = approval.user_id.into_iter();
                    let named = user.map(|user| (format!("{path}.user_id"), user));
                    names.people.extend(named);
                }
                _ => {}
            }
        }
        names
    }
}

/// Checks whether a channel that the actor can read is a direct one; `None` for other channels.
async fn is_direct(
    c: &mut Conn,
    actor: &Actor<'_>,
    channel: ChannelId,
) -> Result<Option<bool>, DbError> {
    let found: Option<(bool,)> = c
        .q(concat!(
            "select ch.kind = 'direct' from channels ch where ch.id = $1 and ch.workspace_id = $2 and ",
            is_visible_channel!("ch", "$3")
        ))
        .bind(channel)
        .bind(actor.workspace)
        .bind(actor.user)
        .opt()
        .await?;
    Ok(found.map(|(is_direct,)| is_direct))
}

async fn is_known_hook(c: &mut Conn, actor: &Actor<'_>, hook: HookId) -> Result<bool, DbError> {
    c.q(concat!(
        "select exists (select 1 from hooks h where h.id = $1 and h.workspace_id = $2 and ",
        is_in_visible_channel!("h.channel_id", "$3"),
        ")"
    ))
    .bind(hook)
    .bind(actor.workspace)
    .bind(actor.user)
    .value()
    .await
}

async fn audit(
    c: &mut Conn,
    actor: &Actor<'_>,
    action: AuditAction,
    workflow: &Workflow,
) -> Result<(), DbError> {
    let data = serde_json::json!({
        "name": workflow.name, "version": workflow.version, "status": workflow.status,
    });
    auth::record_audit(c, actor, action, workflow.id.to_string(), data).await
}
