//! Workspace policy for all agents, mentions, and webhooks. It only restricts: profiles and requests cannot override it.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    AgentError,
    profiles::{ApprovalRule, Approver, Compaction, ToolKind, check_new_rules},
};
use crate::{
    auth::{self, Actor, Scope},
    db::{Conn, DbError, Json, now},
    ids::{ChannelId, SandboxPolicyId, WorkspaceId},
    inbox::{PreviewMax, PreviewMaxPatch},
    patch::{nullable, present},
    tasks::costs::CostVisibility,
    text_enum::text_enum,
    time::Timestamp,
};

/// Maximum size of the required text in UTF-8 bytes.
const REQUIRED_TEXT_BYTES_MAX: usize = 32 * 1024;
const MODES_MAX: usize = 100;
const MODE_CHARS_MAX: usize = 100;
const RETENTION_DAYS_MAX: u32 = 36_500;
/// Maximum size of the text of the workspace context in UTF-8 bytes.
const CONTEXT_TEXT_BYTES_MAX: usize = 8 * 1024;
const APPROVAL_RULES_MAX: usize = 50;
/// Maximum length of an action's name in UTF-16 code units.
const ACTION_UNITS_MAX: usize = 64;
const APPROVAL_TIMEOUT_S_MAX: u32 = 604_800;
const TRUSTED_DOMAINS_MAX: usize = 200;
const DOMAIN_CHARS_MAX: usize = 253;
/// Number of members up to which everyone can mention all members of a channel.
const GROUP_MEMBERS_MAX: i64 = 100;

/// Actions that agents of the workspace can run without an approval; a number from 0 to 3 in the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub enum TrustLevel {
    /// Agents have no tools.
    Off,
    /// Agents can only call functions that read.
    ReadOnly,
    /// Approvals are required as set for each function.
    #[default]
    PerFunction,
    /// Approvals are required as set for each function, but writes inside the workspace need none.
    NoQuestionsInside,
}

impl TrustLevel {
    const ALL: [Self; 4] = [
        Self::Off,
        Self::ReadOnly,
        Self::PerFunction,
        Self::NoQuestionsInside,
    ];
}

impl TryFrom<i64> for TrustLevel {
    type Error = String;

    fn try_from(level: i64) -> Result<Self, String> {
        let known = usize::try_from(level).ok().and_then(|n| Self::ALL.get(n));
        known
            .copied()
            .ok_or_else(|| format!("a trust level is a number from 0 to 3, not {level}"))
    }
}

impl From<TrustLevel> for i64 {
    fn from(level: TrustLevel) -> Self {
        match level {
            TrustLevel::Off => 0,
            TrustLevel::ReadOnly => 1,
            TrustLevel::PerFunction => 2,
            TrustLevel::NoQuestionsInside => 3,
        }
    }
}

fn check_rules(rules: &[ApprovalRule]) -> Result<(), AgentError> {
    let fits = |rule: &ApprovalRule| {
        (1..=ACTION_UNITS_MAX).contains(&rule.action.trim().encode_utf16().count())
            && (rule.timeout_s).is_none_or(|s| (1..=APPROVAL_TIMEOUT_S_MAX).contains(&s))
            && (rule.requires == Approver::SpecificUser) == rule.user_id.is_some()
    };
    if rules.len() <= APPROVAL_RULES_MAX && rules.iter().all(fits) {
        return Ok(());
    }
    let text = format!(
        "at most {APPROVAL_RULES_MAX} rules are allowed; each must have an action of 1 to {ACTION_UNITS_MAX} characters, a timeout_s \
         from 1 to {APPROVAL_TIMEOUT_S_MAX}, and a user_id if, and only if, it requires specific_user"
    );
    Err(AgentError::Invalid(text, "approval_rules"))
}

fn check_domains(domains: &[String]) -> Result<(), AgentError> {
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    let fits = |domain: &String| {
        domain.chars().count() <= DOMAIN_CHARS_MAX && domain.split('.').all(is_label)
    };
    if domains.len() <= TRUSTED_DOMAINS_MAX && domains.iter().all(fits) {
        return Ok(());
    }
    let text = format!(
        "at most {TRUSTED_DOMAINS_MAX} domains are allowed, in lowercase, such as docs.example.com"
    );
    Err(AgentError::Invalid(text, "trusted_domains"))
}

/// Compaction of conversations, for agents that do not set a strategy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct CompactionPolicy {
    #[schema(required)]
    pub default: Compaction,
    /// Strategies by mode: `thread:NAME`, `direct:NAME`, or `fork:NAME`, with the agent's name. A key can be any part of a mode; the
    /// longest key that matches applies.
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

/// Fields of `PolicyPatch::compaction`; omitted fields are unchanged, and null removes a mode.
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

/// Rules for memory, which agents and people can restrict further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub struct MemoryPolicy {
    #[schema(required)]
    pub enabled: bool,
    /// True if entries about people are allowed.
    #[schema(required)]
    pub user: bool,
    /// True if entries about people for a single agent are allowed.
    #[schema(required)]
    pub persona: bool,
    /// True if entries can be published for the workspace.
    #[schema(required)]
    pub organization: bool,
    /// True if quiet conversations are summarized.
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

/// Fields of `PolicyPatch::memory`; omitted fields are unchanged, and null removes the limit.
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
    /// True if agents receive the workspace context.
    #[schema(required)]
    pub enabled: bool,
    /// Text that admins wrote; may be empty.
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

/// Fields of `PolicyPatch::workspace_context`; omitted fields are unchanged.
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

text_enum! {
    /// Members who can mention all members of a channel with more than 100.
    pub enum GroupMentions {
        Everyone = "everyone",
        Admins = "admins",
    }
}

text_enum! {
    /// Members who can create webhooks.
    pub enum HookCreators {
        /// Everyone who can post in the channel, except guests.
        Everyone = "everyone",
        Admins = "admins",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Policy {
    /// Text placed before everything else in the system prompt.
    pub required_text: Option<String>,
    /// Kinds of tools that agents can have; null allows all.
    pub allowed_tools: Option<Vec<ToolKind>>,
    /// Policy whose limits no agent's sandbox can exceed.
    pub sandbox_policy_id: Option<SandboxPolicyId>,
    /// True if members can create and change agents; admins always can.
    pub members_write_agents: bool,
    /// True if agents can adapt to people who allow it.
    pub adaptation_allowed: bool,
    /// True if API clients can call the model without an agent.
    pub bare_model: bool,
    /// People who see the costs of replies: `everyone`, `admins`, or nobody (`off`).
    pub show_costs: CostVisibility,
    pub memory: MemoryPolicy,
    pub compaction: CompactionPolicy,
    pub workspace_context: ContextPolicy,
    /// 0: no tools; 1: only functions that read; 2: approvals as set for each function; 3: like 2, but writes inside the
    /// workspace need no approval.
    #[schema(value_type = i64, minimum = 0, maximum = 3)]
    pub trust_level: TrustLevel,
    /// Required approvers of actions; rules of an agent apply in addition.
    pub approval_rules: Vec<ApprovalRule>,
    /// Domains, with their subdomains, from which agents can read pages without an approval.
    pub trusted_domains: Vec<String>,
    /// Members who can mention all members of a channel with more than 100; for others, `@channel` is plain text there.
    pub group_mentions: GroupMentions,
    /// Members who can create webhooks.
    pub hooks: HookCreators,
    /// Most that notifications show, whatever a person chose.
    pub preview_max: PreviewMax,
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
            trust_level: TrustLevel::default(),
            approval_rules: Vec::new(),
            trusted_domains: Vec::new(),
            group_mentions: GroupMentions::Everyone,
            hooks: HookCreators::Everyone,
            preview_max: PreviewMax::default(),
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
    /// True if agents can adapt to people who allow it; agents and people can also turn this off.
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
    /// 0 to 3.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, value_type = Option<i64>, minimum = 0, maximum = 3)]
    pub trust_level: Option<TrustLevel>,
    /// At most 50.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub approval_rules: Option<Vec<ApprovalRule>>,
    /// At most 200 domains in lowercase.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub trusted_domains: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub group_mentions: Option<GroupMentions>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub hooks: Option<HookCreators>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub preview_max: Option<PreviewMaxPatch>,
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
    trust_level: i64,
    approval_rules: Json<Vec<ApprovalRule>>,
    trusted_domains: Json<Vec<String>>,
    group_mentions: GroupMentions,
    hooks: HookCreators,
    preview_max: Json<PreviewMax>,
}

pub async fn find(c: &mut Conn, workspace: WorkspaceId) -> Result<Policy, DbError> {
    let row: Option<Row> = c
        .q("select required_text, allowed_tools, sandbox_policy_id, members_write_agents, adaptation_allowed, bare_model, show_costs, memory, compaction, \
            workspace_context, trust_level, approval_rules, trusted_domains, group_mentions, hooks, preview_max \
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
        // An unknown level from a later version must not grant anything.
        trust_level: TrustLevel::try_from(row.trust_level).unwrap_or(TrustLevel::Off),
        approval_rules: row.approval_rules.0,
        trusted_domains: row.trusted_domains.0,
        group_mentions: row.group_mentions,
        hooks: row.hooks,
        preview_max: row.preview_max.0,
    }))
}

/// Most that notifications of the workspace show.
pub async fn find_preview_max(c: &mut Conn, workspace: WorkspaceId) -> Result<PreviewMax, DbError> {
    let row: Option<(Json<PreviewMax>,)> = c
        .q("select preview_max from workspace_policies where workspace_id = $1")
        .bind(workspace)
        .opt()
        .await?;
    Ok(row.map(|(max,)| max.0).unwrap_or_default())
}

/// Checks whether a person who is not an admin can mention all members of a channel.
pub async fn allows_group_mention(
    c: &mut Conn,
    workspace: WorkspaceId,
    channel: ChannelId,
) -> Result<bool, DbError> {
    c.q("select not exists (select 1 from workspace_policies p where p.workspace_id = $1 and p.group_mentions = 'admins') \
         or (select count(*) from (select 1 from channel_members cm where cm.channel_id = $2 limit $3) m) < $3")
        .bind(workspace)
        .bind(channel)
        .bind(GROUP_MEMBERS_MAX + 1)
        .value()
        .await
}

/// Members who can create webhooks in a workspace.
pub async fn find_hook_creators(
    c: &mut Conn,
    workspace: WorkspaceId,
) -> Result<HookCreators, DbError> {
    let row: Option<(HookCreators,)> = c
        .q("select hooks from workspace_policies where workspace_id = $1")
        .bind(workspace)
        .opt()
        .await?;
    Ok(row.map_or(HookCreators::Everyone, |row| row.0))
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

impl PolicyPatch {
    /// Changes everything but the approval rules and the trusted domains.
    fn apply(&self, policy: &mut Policy) -> Result<(), AgentError> {
        if let Some(text) = &self.required_text {
            policy.required_text = text.clone().filter(|text| !text.trim().is_empty());
        }
        if let Some(kinds) = &self.allowed_tools {
            policy.allowed_tools.clone_from(kinds);
        }
        if let Some(id) = self.sandbox_policy_id {
            policy.sandbox_policy_id = id;
        }
        if let Some(allowed) = self.members_write_agents {
            policy.members_write_agents = allowed;
        }
        if let Some(allowed) = self.adaptation_allowed {
            policy.adaptation_allowed = allowed;
        }
        if let Some(allowed) = self.bare_model {
            policy.bare_model = allowed;
        }
        if let Some(rule) = self.show_costs {
            policy.show_costs = rule;
        }
        if let Some(memory) = self.memory {
            policy.memory = memory.merged(policy.memory)?;
        }
        if let Some(compaction) = &self.compaction {
            compaction.apply(&mut policy.compaction)?;
        }
        if let Some(context) = &self.workspace_context {
            context.apply(&mut policy.workspace_context)?;
        }
        if let Some(level) = self.trust_level {
            policy.trust_level = level;
        }
        if let Some(rule) = self.group_mentions {
            policy.group_mentions = rule;
        }
        if let Some(rule) = self.hooks {
            policy.hooks = rule;
        }
        if let Some(max) = self.preview_max {
            policy.preview_max = max.merged(policy.preview_max);
        }
        Ok(())
    }
}

/// Changes the approval rules and the trusted domains.
async fn change_rules(
    c: &mut Conn,
    workspace: WorkspaceId,
    patch: &PolicyPatch,
    policy: &mut Policy,
) -> Result<(), AgentError> {
    if let Some(rules) = &patch.approval_rules {
        check_rules(rules)?;
        let stored = &policy.approval_rules;
        check_new_rules(c, workspace, rules, stored, "approval_rules").await?;
        policy.approval_rules.clone_from(rules);
    }
    if let Some(domains) = &patch.trusted_domains {
        check_domains(domains)?;
        policy.trusted_domains.clone_from(domains);
    }
    Ok(())
}

/// # Errors
/// `Invalid` if the text is too long, or `NoSuchSandboxPolicy`.
async fn check(c: &mut Conn, workspace: WorkspaceId, policy: &Policy) -> Result<(), AgentError> {
    let bytes = policy.required_text.as_ref().map_or(0, String::len);
    if bytes > REQUIRED_TEXT_BYTES_MAX {
        let text = format!("the text is {bytes} bytes; the limit is {REQUIRED_TEXT_BYTES_MAX}");
        return Err(AgentError::Invalid(text, "required_text"));
    }
    if let Some(id) = policy.sandbox_policy_id {
        super::sandbox::find_limits(c, workspace, id)
            .await?
            .ok_or_else(|| AgentError::NoSuchSandboxPolicy(id.to_string()))?;
    }
    Ok(())
}

/// Changes the policy. `expected` is the version from `If-Match`.
///
/// # Errors
/// `PolicyStale` with the current policy, `Invalid`, `NoSuchMember`, `NoSuchSandboxPolicy`, or an error from `Actor::require`.
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
    patch.apply(&mut policy)?;
    change_rules(c, actor.workspace, patch, &mut policy).await?;
    check(c, actor.workspace, &policy).await?;
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
         memory, compaction, workspace_context, adaptation_allowed, bare_model, show_costs, trust_level, approval_rules, trusted_domains, \
         group_mentions, preview_max, hooks, updated_by, updated_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $8, $9) \
         on conflict (workspace_id) do update set required_text = excluded.required_text, allowed_tools = excluded.allowed_tools, \
         sandbox_policy_id = excluded.sandbox_policy_id, members_write_agents = excluded.members_write_agents, memory = excluded.memory, \
         compaction = excluded.compaction, workspace_context = excluded.workspace_context, \
         adaptation_allowed = excluded.adaptation_allowed, bare_model = excluded.bare_model, show_costs = excluded.show_costs, \
         trust_level = excluded.trust_level, approval_rules = excluded.approval_rules, trusted_domains = excluded.trusted_domains, \
         group_mentions = excluded.group_mentions, preview_max = excluded.preview_max, hooks = excluded.hooks, updated_by = excluded.updated_by, updated_at = excluded.updated_at")
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
        .bind(i64::from(policy.trust_level))
        .bind(Json(policy.approval_rules.clone()))
        .bind(Json(policy.trusted_domains.clone()))
        .bind(policy.group_mentions)
        .bind(Json(policy.preview_max))
        .bind(policy.hooks)
        .run()
        .await?;
    c.q("update workspace_policies set version = version + 1 where workspace_id = $1")
        .bind(actor.workspace)
        .run()
        .await?;
    Ok(())
}
