//! Audit log of admin actions.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Actor, AuthError, readable_channels};
use crate::{
    cursor::PageRange,
    db::{Conn, DbError, Json, now},
    ids::{AuditEntryId, ChannelId, UserId, WorkspaceId},
    text_enum::text_enum,
    time::Timestamp,
};

text_enum! {
    /// Recorded action.
    pub enum AuditAction {
        MemberRoleChanged = "member.role_changed",
        /// A provider wanted to demote the last admin, or an admin of the server.
        MemberRoleKept = "member.role_kept",
        MemberHandleChanged = "member.handle_changed",
        MemberRemoved = "member.removed",
        MemberSuspended = "member.suspended",
        /// A provider wanted to suspend the last admin, or an admin of the server.
        MemberNotSuspended = "member.not_suspended",
        MemberRestored = "member.restored",
        /// An admin decided about a guest's channels and the end of the membership.
        GuestChanged = "guest.changed",
        /// The membership of a guest has ended.
        GuestEnded = "guest.ended",
        MemberResetLinkCreated = "member.reset_link_created",
        MemberExported = "member.exported",
        MemberErasureStarted = "member.erasure_started",
        MemberErased = "member.erased",
        KeyCreated = "key.created",
        KeyDeleted = "key.deleted",
        InviteCreated = "invite.created",
        InviteSent = "invite.sent",
        InviteWithdrawn = "invite.withdrawn",
        WorkspaceUpdated = "workspace.updated",
        PolicyChanged = "policy.changed",
        PromptProfilesChanged = "prompt_profiles.changed",
        ModelChanged = "model.changed",
        ModelRemoved = "model.removed",
        EmbeddingsChanged = "embeddings.changed",
        EmbeddingsRemoved = "embeddings.removed",
        BudgetsChanged = "budgets.changed",
        MemoryPublished = "memory.published",
        MemoryUnpublished = "memory.unpublished",
        MemoryDeleted = "memory.deleted",
        CompactionDeleted = "compaction.deleted",
        AgentCreated = "agent.created",
        AgentUpdated = "agent.updated",
        AgentAccepted = "agent.accepted",
        AgentStatusChanged = "agent.status_changed",
        AgentMadeDefault = "agent.made_default",
        AgentDeleted = "agent.deleted",
        PersonaCreated = "persona.created",
        PersonaUpdated = "persona.updated",
        PersonaDeleted = "persona.deleted",
        SkillCreated = "skill.created",
        SkillUpdated = "skill.updated",
        SkillDeleted = "skill.deleted",
        RunnerCreated = "runner.created",
        RunnerDeleted = "runner.deleted",
        RepositoryUpdated = "repository.updated",
        CodePushed = "code.pushed",
        FileChanged = "file.changed",
        FileDeleted = "file.deleted",
        SandboxPolicyCreated = "sandbox_policy.created",
        SandboxPolicyChanged = "sandbox_policy.changed",
        SandboxPolicyDeleted = "sandbox_policy.deleted",
        ChannelArchived = "channel.archived",
        ChannelUnarchived = "channel.unarchived",
        ChannelMemberRemoved = "channel.member_removed",
        MessageDeleted = "message.deleted",
        TaskRetried = "task.retried",
        ToolCreated = "tool.created",
        ToolUpdated = "tool.updated",
        ToolSecretChanged = "tool.secret_changed",
        ToolSecretDeleted = "tool.secret_deleted",
        ToolDeleted = "tool.deleted",
        ToolFunctionAccepted = "tool.function_accepted",
        ToolFunctionWithdrawn = "tool.function_withdrawn",
        ActionApproved = "action.approved",
        ActionDenied = "action.denied",
        ActionStarted = "action.started",
        ActionSettled = "action.settled",
        GrantDeleted = "grant.deleted",
        ScheduleUpdated = "schedule.updated",
        ScheduleDeleted = "schedule.deleted",
        WorkflowCreated = "workflow.created",
        WorkflowUpdated = "workflow.updated",
        RunCancelled = "run.cancelled",
        RunResumed = "run.resumed",
        MemberMerged = "member.merged",
        ImportCreated = "import.created",
        ImportUpdated = "import.updated",
        ImportStarted = "import.started",
        ImportPaused = "import.paused",
        ImportResumed = "import.resumed",
        ImportUndone = "import.undone",
        ImportDeleted = "import.deleted",
        ExportCreated = "export.created",
        ExportDeleted = "export.deleted",
        EmojiDeleted = "emoji.deleted",
        VectorStoreCreated = "vector_store.created",
        VectorStoreUpdated = "vector_store.updated",
        VectorStoreDeleted = "vector_store.deleted",
        HookCreated = "hook.created",
        HookUpdated = "hook.updated",
        HookRotated = "hook.rotated",
        HookDeleted = "hook.deleted",
        BotCreated = "bot.created",
        BotUpdated = "bot.updated",
        BotDeleted = "bot.deleted",
        BotAdded = "bot.added",
        BotRemoved = "bot.removed",
        BotKeyCreated = "bot.key_created",
        BotKeyDeleted = "bot.key_deleted",
        ServerBackupStarted = "server.backup_started",
        ServerDrillStarted = "server.drill_started",
        ServerResumed = "server.resumed",
        ServerUpdated = "server.updated",
        ServerMailTested = "server.mail_tested",
        ServerChecked = "server.checked",
        ServerCertificateOrdered = "server.certificate_ordered",
        SignInLinkCreated = "sign_in.link_created",
        SignInChanged = "sign_in.changed",
        FactorAdded = "factor.added",
        FactorRemoved = "factor.removed",
        FactorReset = "factor.reset",
        ProviderCreated = "provider.created",
        ProviderUpdated = "provider.updated",
        ProviderEnabled = "provider.enabled",
        ProviderDisabled = "provider.disabled",
        ProviderSecretChanged = "provider.secret_changed",
        ProviderTried = "provider.tried",
        /// An admin sent links to people who can sign in only with a provider.
        ProviderLinksSent = "provider.links_sent",
        ProviderDeleted = "provider.deleted",
        IdentityLinked = "identity.linked",
        IdentityRemoved = "identity.removed",
        ScimTokenCreated = "scim.token_created",
        ScimTokenDeleted = "scim.token_deleted",
        ScimUserLinked = "scim.user_linked",
    }
}

text_enum! {
    /// Kind of an actor in the audit log.
    pub enum AuditActorKind {
        User = "user",
        /// The operator, on the command line.
        Operator = "operator",
        /// An identity provider.
        Provider = "provider",
    }
}

#[derive(Debug, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct AuditEntry {
    pub id: AuditEntryId,
    /// Null unless `actor_kind` is `user`.
    pub actor_id: Option<UserId>,
    #[schema(inline)]
    pub actor_kind: AuditActorKind,
    pub action: AuditAction,
    /// ID of the affected object; null for a channel that you cannot read, whose entry has no `data` either.
    pub target: Option<String>,
    /// IDs of other channels that you cannot read are null, or left out of lists.
    #[schema(value_type = Object)]
    pub data: Json<serde_json::Value>,
    pub created_at: Timestamp,
}

pub async fn record(
    c: &mut Conn,
    actor: &Actor<'_>,
    action: AuditAction,
    target: String,
    data: serde_json::Value,
) -> Result<(), DbError> {
    record_of(c, actor.workspace, actor.user, action, target, data).await
}

/// Records an action of a user without an `Actor`, for work that continues after an admin's request has ended.
pub async fn record_of(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    action: AuditAction,
    target: String,
    data: serde_json::Value,
) -> Result<(), DbError> {
    insert(c, workspace, AuditActor::User(user), action, target, data).await
}

/// Records an action of the operator.
pub(super) async fn record_operator(
    c: &mut Conn,
    workspace: WorkspaceId,
    action: AuditAction,
    target: String,
    data: serde_json::Value,
) -> Result<(), DbError> {
    insert(c, workspace, AuditActor::Operator, action, target, data).await
}

/// Records an action of an identity provider.
pub(super) async fn record_provider(
    c: &mut Conn,
    workspace: WorkspaceId,
    action: AuditAction,
    target: String,
    data: serde_json::Value,
) -> Result<(), DbError> {
    insert(c, workspace, AuditActor::Provider, action, target, data).await
}

/// Actor of an entry.
#[derive(Debug, Clone, Copy)]
enum AuditActor {
    User(UserId),
    Operator,
    Provider,
}

/// Inserts an entry.
async fn insert(
    c: &mut Conn,
    workspace: WorkspaceId,
    actor: AuditActor,
    action: AuditAction,
    target: String,
    data: serde_json::Value,
) -> Result<(), DbError> {
    let (kind, user) = match actor {
        AuditActor::User(user) => (AuditActorKind::User, Some(user)),
        AuditActor::Operator => (AuditActorKind::Operator, None),
        AuditActor::Provider => (AuditActorKind::Provider, None),
    };
    c.q("insert into audit_log (id, workspace_id, actor_id, actor_kind, action, target, data, created_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $8)")
        .bind(AuditEntryId::new())
        .bind(workspace)
        .bind(user)
        .bind(kind)
        .bind(action)
        .bind(target)
        .bind(Json(data))
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// Filter for entries.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    pub actor: Option<UserId>,
    /// Complete action name, such as `member.removed`.
    pub action: Option<String>,
}

text_enum! {
    /// Sort order of entries.
    pub(crate) enum Order {
        Oldest = "oldest",
        Newest = "newest",
    }
}

/// Lists entries for a reader in the given order, after `after` or before `before`.
///
/// # Errors
/// `NotFound` if the cursor is not an entry of this workspace, `MemberNotFound` for an actor who was never a member.
pub(crate) async fn list(
    c: &mut Conn,
    reader: &Actor<'_>,
    filter: &Filter,
    order: Order,
    PageRange { after, before }: PageRange<AuditEntryId>,
    limit: i64,
) -> Result<Vec<AuditEntry>, AuthError> {
    let workspace = reader.workspace;
    if let Some(id) = after.or(before) {
        c.q("select id from audit_log where id = $1 and workspace_id = $2")
            .bind(id)
            .bind(workspace)
            .opt::<(AuditEntryId,)>()
            .await?
            .ok_or(AuthError::NotFound("entry"))?;
    }
    if let Some(actor) = filter.actor {
        // Former members can still be found.
        c.q(
            "select user_id from members where workspace_id = $1 and user_id = $2 \
            union select actor_id from audit_log where workspace_id = $1 and actor_id = $2 limit 1",
        )
        .bind(workspace)
        .bind(actor)
        .opt::<(UserId,)>()
        .await?
        .ok_or_else(|| AuthError::MemberNotFound(actor.to_string()))?;
    }
    let (low, high, from_the_end) = match order {
        Order::Oldest => (after, before, before.is_some()),
        Order::Newest => (before, after, before.is_none()),
    };
    let q = if from_the_end {
        c.q(
            "select id, actor_id, actor_kind, action, target, data, created_at from audit_log \
             where workspace_id = $1 and id > $2 and id < $3 and (actor_id = $5 or $5 is null) and (action = $6 or $6 is null) \
             order by id desc limit $4",
        )
    } else {
        c.q(
            "select id, actor_id, actor_kind, action, target, data, created_at from audit_log \
             where workspace_id = $1 and id > $2 and id < $3 and (actor_id = $5 or $5 is null) and (action = $6 or $6 is null) \
             order by id limit $4",
        )
    };
    let mut rows: Vec<AuditEntry> = q
        .bind(workspace)
        .bind(low.unwrap_or(AuditEntryId(Uuid::nil())))
        .bind(high.unwrap_or(AuditEntryId(Uuid::max())))
        .bind(limit)
        .bind(filter.actor)
        .bind(filter.action.clone())
        .all()
        .await?;
    if from_the_end != (order == Order::Newest) {
        rows.reverse();
    }
    hide_channels(c, reader.user, &mut rows).await?;
    Ok(rows)
}

/// Hides channels that the reader cannot read: their IDs, and the data of actions on them.
async fn hide_channels(
    c: &mut Conn,
    reader: UserId,
    entries: &mut [AuditEntry],
) -> Result<(), DbError> {
    let mut named = BTreeSet::new();
    for entry in entries.iter() {
        named.extend(entry.target.as_deref().and_then(channel_of));
        collect_channels(&entry.data.0, &mut named);
    }
    let named: Vec<ChannelId> = named.into_iter().collect();
    let readable = readable_channels(c, reader, &named).await?;
    let is_hidden =
        |text: &str| channel_of(text).is_some_and(|channel| !readable.contains(&channel));
    for entry in entries {
        if entry.target.as_deref().is_some_and(is_hidden) {
            entry.target = None;
            entry.data = Json(json!({}));
        } else {
            hide(&mut entry.data.0, &is_hidden);
        }
    }
    Ok(())
}

fn channel_of(text: &str) -> Option<ChannelId> {
    text.parse().ok()
}

fn collect_channels(data: &Value, found: &mut BTreeSet<ChannelId>) {
    match data {
        Value::String(text) => found.extend(channel_of(text)),
        Value::Array(values) => {
            for value in values {
                collect_channels(value, found);
            }
        }
        Value::Object(fields) => {
            for value in fields.values() {
                collect_channels(value, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn hide(data: &mut Value, is_hidden: &impl Fn(&str) -> bool) {
    match data {
        Value::String(text) => {
            if is_hidden(text.as_str()) {
                *data = Value::Null;
            }
        }
        Value::Array(values) => {
            values.retain(|value| !value.as_str().is_some_and(is_hidden));
            for value in values {
                hide(value, is_hidden);
            }
        }
        Value::Object(fields) => {
            for value in fields.values_mut() {
                hide(value, is_hidden);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_channels_are_null_or_left_out_of_lists() {
        let (open, secret) = (ChannelId::new(), ChannelId::new());
        let mut data = json!({"channel_id": secret, "other": open, "text": "x", "n": 1,
            "list": [open, secret, {"in": [secret]}]});
        let mut found = BTreeSet::new();
        collect_channels(&data, &mut found);
        assert_eq!(found, BTreeSet::from([open, secret]));
        let secret = secret.to_string();
        hide(&mut data, &|text: &str| text == secret);
        let expected = json!({"channel_id": null, "other": open, "text": "x", "n": 1,
            "list": [open, {"in": []}]});
        assert_eq!(data, expected);
    }
}
