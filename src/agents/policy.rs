//! Workspace policy for all agents. It only restricts: profiles and requests cannot override it.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    AgentError,
    profiles::{Compaction, ToolKind},
};
use crate::{
    auth::{self, Actor, Scope},
    db::{Conn, DbError, Json, now},
    ids::{SandboxPolicyId, WorkspaceId},
    patch::{nullable, present},
    tasks::costs::CostVisibility,
    text_enum::text_enum,
    time::Timestamp,
};

/// In UTF-8 bytes.
const REQUIRED_TEXT_BYTES_MAX: usize = 32 * 1024;
const MODES_MAX: usize = 100;
const MODE_CHARS_MAX: usize = 100;
const RETENTION_DAYS_MAX: u32 = 36_500;
/// In UTF-8 bytes.
const CONTEXT_TEXT_BYTES_MAX: usize = 8 * 1024;

/// Compaction of conversations, for agents that set none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct CompactionPolicy {
    #[schema(required)]
    pub default: Compaction,
    /// By part of the mode: `thread:NAME`, `direct:NAME`, or `fork:NAME`, with the agent's name. The longest match wins.
    #[schema(required)]
    pub by_mode: BTreeMap<String, Compaction>,
}

impl Default for CompactionPolicy {
    fn default() -> Self {
        Self {
            default: Compaction::Standard,
            by_mode: BTreeMap::new(),
        }
    }
}

impl CompactionPolicy {
    pub fn of(&self, mode: &str) -> Compaction {
        let parts = self.by_mode.iter();
        let longest = parts
            .filter(|(part, _)| mode.contains(part.as_str()))
            .max_by_key(|(part, _)| part.len());
        longest.map_or(self.default, |(_, compaction)| *compaction)
    }
}

/// Fields of `PolicyPatch::compaction`: omitted ones stay, and a null removes a mode.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompactionPolicyPatch {
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub default: Option<Compaction>,
    /// At most 100 modes.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, value_type = Option<Object>)]
    pub by_mode: Option<BTreeMap<String, Option<Compaction>>>,
}

impl CompactionPolicyPatch {
    fn apply(&self, to: &mut CompactionPolicy) -> Result<(), AgentError> {
        to.default = self.default.unwrap_or(to.default);
        for (part, compaction) in self.by_mode.iter().flatten() {
            match compaction {
                Some(compaction) => to.by_mode.insert(part.clone(), *compaction),
                None => to.by_mode.remove(part),
            };
        }
        let is_valid = |part: &String| (1..=MODE_CHARS_MAX).contains(&part.chars().count());
        if to.by_mode.len() > MODES_MAX || !to.by_mode.keys().all(is_valid) {
            let text = format!(
                "at most {MODES_MAX} modes of 1 to {MODE_CHARS_MAX} characters are allowed"
            );
            return Err(AgentError::Invalid(text, "compaction.by_mode"));
        }
        Ok(())
    }
}

/// Rules of memory. Agents and people can turn off more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub struct MemoryPolicy {
    #[schema(required)]
    pub enabled: bool,
    /// Entries about people.
    #[schema(required)]
    pub user: bool,
    /// Entries about people for a single agent.
    #[schema(required)]
    pub persona: bool,
    /// Entries published for the workspace.
    #[schema(required)]
    pub organization: bool,
    /// Summaries of conversations in which nobody has posted for a while.
    #[schema(required)]
    pub quiet: bool,
    /// Number of days without use after which an automatic entry is forgotten; null keeps all entries.
    #[schema(required)]
    pub retention_days: Option<u32>,
}

impl Default for MemoryPolicy {
    fn default() -> Self {
        Self {
            enabled: true,
            user: true,
            persona: true,
            organization: true,
            quiet: true,
            retention_days: None,
        }
    }
}

impl MemoryPolicy {
    /// Returns the time without use after which automatic entries expire.
    pub fn retention(self) -> Option<Duration> {
        self.retention_days
            .map(|days| Duration::from_hours(24 * u64::from(days)))
    }

    /// Returns the expiry cutoff: automatic entries last used at or before it have expired.
    pub fn unused_since(self, now: Timestamp) -> Timestamp {
        self.retention()
            .map_or(Timestamp::EPOCH, |retention| now - retention)
    }
}

/// Fields of `PolicyPatch::memory`: omitted ones stay, and a null removes the limit.
#[derive(Debug, Clone, Copy, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryPolicyPatch {
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub enabled: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub user: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub persona: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub organization: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub quiet: Option<bool>,
    /// From 1 to 36,500.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<u32>)]
    pub retention_days: Option<Option<u32>>,
}

impl MemoryPolicyPatch {
    fn merged(self, old: MemoryPolicy) -> Result<MemoryPolicy, AgentError> {
        let days = self.retention_days.flatten();
        if days.is_some_and(|days| !(1..=RETENTION_DAYS_MAX).contains(&days)) {
            let text = format!("retention_days must be from 1 to {RETENTION_DAYS_MAX}");
            return Err(AgentError::Invalid(text, "memory.retention_days"));
        }
        Ok(MemoryPolicy {
            enabled: self.enabled.unwrap_or(old.enabled),
            user: self.user.unwrap_or(old.user),
            persona: self.persona.unwrap_or(old.persona),
            organization: self.organization.unwrap_or(old.organization),
            quiet: self.quiet.unwrap_or(old.quiet),
            retention_days: self.retention_days.unwrap_or(old.retention_days),
        })
    }
}

text_enum! {
    /// Part of the workspace context that the server writes.
    pub enum ContextSection {
        /// The 10 newest decisions.
        Decisions = "decisions",
        /// The 20 open action items that are due first.
        ActionItems = "action_items",
        /// At most 50 members.
        Members = "members",
        /// Published memory entries, most used first.
        Memories = "memories",
    }
}

/// Text and sections about the workspace that agents receive in every conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct ContextPolicy {
    /// True if it is sent.
    #[schema(required)]
    pub enabled: bool,
    /// Text of the admins; may be empty.
    #[schema(required)]
    pub text: String,
    /// Sections after the text; they always have the same order.
    #[schema(required)]
    pub sections: Vec<ContextSection>,
}

impl Default for ContextPolicy {
    fn default() -> Self {
        Self {
            enabled: false,
            text: String::new(),
            sections: ContextSection::ALL.to_vec(),
        }
    }
}

/// Fields of `PolicyPatch::workspace_context`: omitted ones stay.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ContextPolicyPatch {
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub enabled: Option<bool>,
    /// At most 8 KiB.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub text: Option<String>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub sections: Option<Vec<ContextSection>>,
}

impl ContextPolicyPatch {
    fn apply(&self, to: &mut ContextPolicy) -> Result<(), AgentError> {
        to.enabled = self.enabled.unwrap_or(to.enabled);
        if let Some(text) = &self.text {
            if text.len() > CONTEXT_TEXT_BYTES_MAX {
                let bytes = text.len();
                let text =
                    format!("the text is {bytes} bytes; the limit is {CONTEXT_TEXT_BYTES_MAX}");
                return Err(AgentError::Invalid(text, "workspace_context.text"));
            }
            to.text.clone_from(text);
        }
        if let Some(sections) = &self.sections {
            to.sections.clone_from(sections);
            to.sections.sort_unstable();
            to.sections.dedup();
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Policy {
    /// Text placed before everything else in the system prompt.
    pub required_text: Option<String>,
    /// Kinds of tools that agents can have; null allows all.
    pub allowed_tools: Option<Vec<ToolKind>>,
    /// Limits that the sandbox of an agent cannot exceed.
    pub sandbox_policy_id: Option<SandboxPolicyId>,
    /// True if members can create and change agents; admins always can.
    pub members_write_agents: bool,
    /// True if agents can adapt to people who allow it.
    pub adaptation_allowed: bool,
    /// True if API clients can call the model without an agent.
    pub bare_model: bool,
    /// People who see what replies cost: `everyone`, `admins`, or nobody (`off`).
    pub show_costs: CostVisibility,
    pub memory: MemoryPolicy,
    pub compaction: CompactionPolicy,
    pub workspace_context: ContextPolicy,
}

impl Policy {
    pub fn allows(&self, kind: ToolKind) -> bool {
        let allowed = self.allowed_tools.as_ref();
        allowed.is_none_or(|kinds| kinds.contains(&kind))
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            required_text: None,
            allowed_tools: None,
            sandbox_policy_id: None,
            members_write_agents: true,
            adaptation_allowed: false,
            bare_model: true,
            show_costs: CostVisibility::Everyone,
            memory: MemoryPolicy::default(),
            compaction: CompactionPolicy::default(),
            workspace_context: ContextPolicy::default(),
        }
    }
}

/// Fields of `PATCH /v1/workspaces/{id}/policy`: omitted fields are unchanged, `null` clears a field.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyPatch {
    /// At most 32 KiB.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    pub required_text: Option<Option<String>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Vec<ToolKind>>)]
    pub allowed_tools: Option<Option<Vec<ToolKind>>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<SandboxPolicyId>)]
    pub sandbox_policy_id: Option<Option<SandboxPolicyId>>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub members_write_agents: Option<bool>,
    /// Agents and people can turn it off, too.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub adaptation_allowed: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub bare_model: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub show_costs: Option<CostVisibility>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub memory: Option<MemoryPolicyPatch>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub compaction: Option<CompactionPolicyPatch>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub workspace_context: Option<ContextPolicyPatch>,
}

#[derive(sqlx::FromRow)]
struct Row {
    required_text: Option<String>,
    allowed_tools: Option<Json<Vec<ToolKind>>>,
    sandbox_policy_id: Option<SandboxPolicyId>,
    members_write_agents: bool,
    adaptation_allowed: bool,
    bare_model: bool,
    show_costs: CostVisibility,
    memory: Json<MemoryPolicy>,
    compaction: Json<CompactionPolicy>,
    workspace_context: Json<ContextPolicy>,
}

pub async fn find(c: &mut Conn, workspace: WorkspaceId) -> Result<Policy, DbError> {
    let row: Option<Row> = c
        .q("select required_text, allowed_tools, sandbox_policy_id, members_write_agents, adaptation_allowed, bare_model, show_costs, memory, compaction, \
            workspace_context \
            from workspace_policies where workspace_id = $1")
        .bind(workspace)
        .opt()
        .await?;
    Ok(row.map_or_else(Policy::default, |row| Policy {
        required_text: row.required_text,
        allowed_tools: row.allowed_tools.map(|kinds| kinds.0),
        sandbox_policy_id: row.sandbox_policy_id,
        members_write_agents: row.members_write_agents,
        adaptation_allowed: row.adaptation_allowed,
        bare_model: row.bare_model,
        show_costs: row.show_costs,
        memory: row.memory.0,
        compaction: row.compaction.0,
        workspace_context: row.workspace_context.0,
    }))
}

/// Lists the workspaces whose automatic entries expire.
pub async fn list_retentions(c: &mut Conn) -> Result<Vec<(WorkspaceId,)>, DbError> {
    c.q("select workspace_id from workspace_policies where memory ->> 'retention_days' is not null order by workspace_id")
        .all()
        .await
}

/// Returns the version of the policy; 0 before the first change.
pub async fn find_version(c: &mut Conn, workspace: WorkspaceId) -> Result<i64, DbError> {
    let row: Option<(i64,)> = c
        .q("select version from workspace_policies where workspace_id = $1")
        .bind(workspace)
        .opt()
        .await?;
    Ok(row.map_or(0, |row| row.0))
}

/// `expected` is the version from `If-Match`.
///
/// # Errors
/// `PolicyStale` with the current policy, `Invalid`, `NoSuchSandboxPolicy`, or an error from `Actor::require`.
pub async fn change(
    c: &mut Conn,
    actor: &Actor<'_>,
    patch: &PolicyPatch,
    expected: Option<i64>,
) -> Result<Policy, AgentError> {
    actor.require(Scope::WorkspaceAdmin)?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    let mut policy = find(c, actor.workspace).await?;
    if let Some(expected) = expected
        && expected != find_version(c, actor.workspace).await?
    {
        let current = serde_json::to_value(&policy).unwrap_or_default();
        return Err(AgentError::PolicyStale(Box::new(current)));
    }
    if let Some(text) = &patch.required_text {
        policy.required_text = text.clone().filter(|text| !text.trim().is_empty());
    }
    if let Some(kinds) = &patch.allowed_tools {
        policy.allowed_tools.clone_from(kinds);
    }
    if let Some(id) = patch.sandbox_policy_id {
        policy.sandbox_policy_id = id;
    }
    if let Some(allowed) = patch.members_write_agents {
        policy.members_write_agents = allowed;
    }
    if let Some(allowed) = patch.adaptation_allowed {
        policy.adaptation_allowed = allowed;
    }
    if let Some(allowed) = patch.bare_model {
        policy.bare_model = allowed;
    }
    if let Some(rule) = patch.show_costs {
        policy.show_costs = rule;
    }
    if let Some(memory) = patch.memory {
        policy.memory = memory.merged(policy.memory)?;
    }
    if let Some(compaction) = &patch.compaction {
        compaction.apply(&mut policy.compaction)?;
    }
    if let Some(context) = &patch.workspace_context {
        context.apply(&mut policy.workspace_context)?;
    }
    let bytes = policy.required_text.as_ref().map_or(0, String::len);
    if bytes > REQUIRED_TEXT_BYTES_MAX {
        let text = format!("the text is {bytes} bytes; the limit is {REQUIRED_TEXT_BYTES_MAX}");
        return Err(AgentError::Invalid(text, "required_text"));
    }
    if let Some(id) = policy.sandbox_policy_id {
        super::sandbox::find_limits(c, actor.workspace, id)
            .await?
            .ok_or_else(|| AgentError::NoSuchSandboxPolicy(id.to_string()))?;
    }
    put(c, actor, &policy).await?;
    let data = serde_json::to_value(&policy).unwrap_or_default();
    auth::record_audit(
        c,
        actor,
        auth::AuditAction::PolicyChanged,
        actor.workspace.to_string(),
        data,
    )
    .await?;
    Ok(policy)
}

async fn put(c: &mut Conn, actor: &Actor<'_>, policy: &Policy) -> Result<(), DbError> {
    c.q("insert into workspace_policies (workspace_id, required_text, allowed_tools, sandbox_policy_id, members_write_agents, \
         memory, compaction, workspace_context, adaptation_allowed, bare_model, show_costs, updated_by, updated_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $10, $11, $12, $13, $8, $9) \
         on conflict (workspace_id) do update set required_text = excluded.required_text, allowed_tools = excluded.allowed_tools, \
         sandbox_policy_id = excluded.sandbox_policy_id, members_write_agents = excluded.members_write_agents, memory = excluded.memory, \
         compaction = excluded.compaction, workspace_context = excluded.workspace_context, \
         adaptation_allowed = excluded.adaptation_allowed, bare_model = excluded.bare_model, show_costs = excluded.show_costs, \
         updated_by = excluded.updated_by, updated_at = excluded.updated_at")
        .bind(actor.workspace)
        .bind(policy.required_text.clone())
        .bind(policy.allowed_tools.clone().map(Json))
        .bind(policy.sandbox_policy_id)
        .bind(policy.members_write_agents)
        .bind(Json(policy.memory))
        .bind(Json(policy.compaction.clone()))
        .bind(actor.user)
        .bind(now())
        .bind(Json(policy.workspace_context.clone()))
        .bind(policy.adaptation_allowed)
        .bind(policy.bare_model)
        .bind(policy.show_costs)
        .run()
        .await?;
    c.q("update workspace_policies set version = version + 1 where workspace_id = $1")
        .bind(actor.workspace)
        .run()
        .await?;
    Ok(())
}
