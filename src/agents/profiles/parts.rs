//! Parts of a profile that are objects themselves.

use serde::{Deserialize, Serialize};

use crate::{
    auth::{Actor, Role, Scope},
    ids::{FileId, UserId},
    text_enum::text_enum,
};

text_enum! {
    /// Status of an agent.
    pub enum AgentStatus {
        Active = "active",
        Inactive = "inactive",
        Archived = "archived",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Avatar {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emoji: Option<String>,
    /// Color as `#rrggbb`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    /// An image: the user's own upload that is not attached to a message, or an existing picture of an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_id: Option<FileId>,
}

/// Role of an agent in the workspace. `primary` is never stored: it is the workspace's default agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentRole {
    Primary,
    Specialist,
    Reviewer,
    Orchestrator,
}

/// The agent's responsibilities; included in the system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Agency {
    pub role_description: Option<String>,
    pub responsibilities: Vec<String>,
    pub expected_outputs: Vec<String>,
    pub constraints: Vec<String>,
    pub delegation_rules: Vec<String>,
}

impl Agency {
    /// Lists that are included in every agent's prompt, with their headings, in order. Excludes `delegation_rules`, which is only for
    /// agents that delegate.
    pub fn lists(&self) -> [(&'static str, &[String]); 3] {
        [
            ("Responsibilities", &self.responsibilities),
            ("Expected outputs", &self.expected_outputs),
            ("Constraints", &self.constraints),
        ]
    }
}

/// Kinds of memory that are enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryScopes {
    pub conversation: Option<bool>,
    pub user: Option<bool>,
    pub persona: Option<bool>,
    pub organization: Option<bool>,
    pub agent: Option<bool>,
}

/// Settings for the data that the agent stores.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Memory {
    /// Number of days for which responses of `/v1/responses` are stored; 0 disables storage, null uses the server's default of 30
    /// days.
    pub conversation_retention_days: Option<u32>,
    pub summary_enabled: Option<bool>,
    pub summary_model: Option<String>,
    pub scopes: Option<MemoryScopes>,
    /// Vector stores whose passages that match a question are in its prompt, like those of the tool `file_search`; at most 10.
    pub vector_store_ids: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compaction {
    Off,
    Standard,
    Aggressive,
}

/// Settings for the prompt: reply style and compaction strategy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Prompting {
    /// ID of a preset, `none`, or `auto` for the rules of the workspace; null uses the workspace's default for the mode.
    pub profile: Option<String>,
    pub compaction: Option<Compaction>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Approver {
    AnyMember,
    Admin,
    SpecificUser,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRule {
    /// Action: `search`, `read`, `remember`, `web_fetch`, `code`, `delegate`, `post_elsewhere`, `mcp:LABEL.NAME`, or
    /// `mcp:LABEL.*`.
    #[schema(example = "search")]
    pub action: String,
    pub requires: Approver,
    /// A member who is not a viewer; required for `specific_user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    /// Time in seconds within which the action must be approved; 1 to 604800.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u32>,
}

/// Approvals that the agent's actions need. Actions are named as in `ApprovalRule`. If the function, these lists, and the rules
/// differ, the strictest requirement applies.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Trust {
    /// Actions for which the agent requires no approval; can also contain `respond`. Approvals that another list, a rule,
    /// or the function requires are still needed.
    pub autonomous: Vec<String>,
    /// Actions that the requester must approve.
    pub approve: Vec<String>,
    /// Actions that both the requester and an admin must approve.
    pub escalate: Vec<String>,
    pub approval_rules: Vec<ApprovalRule>,
}

/// A user or role in an access list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Person(UserId),
    Role(Role),
}

impl Subject {
    fn is(self, user: UserId, role: Role) -> bool {
        match self {
            Self::Person(id) => id == user,
            Self::Role(named) => named == role,
        }
    }

    pub(super) fn person(self) -> Option<UserId> {
        match self {
            Self::Person(id) => Some(id),
            Self::Role(_) => None,
        }
    }
}

impl std::str::FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(role) = text.strip_prefix("role:") {
            return match role {
                "admin" => Ok(Self::Role(Role::Admin)),
                "member" => Ok(Self::Role(Role::Member)),
                "viewer" => Ok(Self::Role(Role::Viewer)),
                "guest" => Ok(Self::Role(Role::Guest)),
                _ => Err(format!(
                    "`{text}` is not a role: use role:admin, role:member, role:viewer, or role:guest"
                )),
            };
        }
        UserId::parse(text)
            .map(Self::Person)
            .map_err(|e| e.to_string())
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Person(id) => id.fmt(f),
            Self::Role(role) => write!(f, "role:{}", role.as_str()),
        }
    }
}

impl Serialize for Subject {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Subject {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

text_enum! {
    /// All skills of the workspace.
    pub enum AllSkills {
        All = "all",
    }
}

/// Skills of an agent: `all`, or at most 100 names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(
    untagged,
    expecting = "this is neither `all` nor a list of names of skills"
)]
pub enum SkillList {
    All(AllSkills),
    Named(Vec<String>),
}

impl SkillList {
    /// Names in the list; none for `all`.
    pub fn names(&self) -> &[String] {
        match self {
            Self::All(_) => &[],
            Self::Named(names) => names,
        }
    }

    /// Returns true if the agent has the skill with this name.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::All(_) => true,
            Self::Named(names) => names.iter().any(|known| known == name),
        }
    }
}

/// Work of an agent on repositories.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Coding {
    /// Engine of the runner, at most 64 characters; null uses that of the repository.
    pub engine: Option<String>,
    /// Maximum cost of a turn in US dollars, as the agent reports it, above 0; null for no limit. Costs of the workspace's own models are
    /// limited by budgets.
    pub usd_max: Option<f64>,
}

/// Access list: user IDs and `role:…`. Denials take precedence; an empty allow list allows everyone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AccessControl {
    #[schema(value_type = Vec<String>)]
    pub allowed_subjects: Vec<Subject>,
    #[schema(value_type = Vec<String>)]
    pub denied_subjects: Vec<Subject>,
}

impl AccessControl {
    pub fn is_open(&self) -> bool {
        self.allowed_subjects.is_empty() && self.denied_subjects.is_empty()
    }

    pub fn permits(&self, user: UserId, role: Role) -> bool {
        let names = |list: &[Subject]| list.iter().any(|subject| subject.is(user, role));
        !names(&self.denied_subjects)
            && (self.allowed_subjects.is_empty() || names(&self.allowed_subjects))
    }

    /// Users in the lists.
    pub fn people(&self) -> impl Iterator<Item = UserId> + '_ {
        let all = self.allowed_subjects.iter().chain(&self.denied_subjects);
        all.filter_map(|subject| subject.person())
    }
}

/// Returns true if the lists allow a user to use an agent; `None` allows everyone.
pub(super) fn permits(access: Option<&AccessControl>, user: UserId, role: Role) -> bool {
    access.is_none_or(|access| access.permits(user, role))
}

/// Returns true if the actor can use an agent with these lists.
pub fn can_invoke(access: Option<&AccessControl>, actor: &Actor<'_>) -> bool {
    actor.scopes.has(Scope::AgentsUse) && permits(access, actor.user, actor.role)
}

/// Returns true if the actor can see an agent with these lists; agent admins can see all agents.
pub fn may_see(access: Option<&AccessControl>, actor: &Actor<'_>) -> bool {
    actor.scopes.has(Scope::AgentsAdmin) || permits(access, actor.user, actor.role)
}

/// Returns true if the list allows the actor to change an agent; `None` allows everyone. Admins can change every agent.
pub(super) fn can_edit(editors: Option<&[Subject]>, actor: &Actor<'_>) -> bool {
    let is_listed = |list: &[Subject]| list.iter().any(|one| one.is(actor.user, actor.role));
    actor.role == Role::Admin || editors.is_none_or(is_listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denied_users_override_allowed_and_an_empty_allowed_list_means_everyone() {
        let (ada, bo) = (UserId::new(), UserId::new());
        let lists = |allowed: Vec<Subject>, denied: Vec<Subject>| AccessControl {
            allowed_subjects: allowed,
            denied_subjects: denied,
        };
        let open = lists(vec![], vec![]);
        assert!(open.is_open() && open.permits(ada, Role::Viewer));
        let members = lists(vec![Subject::Role(Role::Member)], vec![]);
        assert!(members.permits(ada, Role::Member) && !members.permits(ada, Role::Admin));
        let but_bo = lists(
            vec![Subject::Role(Role::Member), Subject::Person(bo)],
            vec![Subject::Person(bo)],
        );
        assert!(but_bo.permits(ada, Role::Member) && !but_bo.permits(bo, Role::Member));
        let not_viewers = lists(vec![], vec![Subject::Role(Role::Viewer)]);
        assert!(not_viewers.permits(bo, Role::Member) && !not_viewers.permits(bo, Role::Viewer));
    }

    #[test]
    fn an_access_subject_is_a_user_or_a_known_role() {
        let ada = UserId::new();
        for text in [ada.to_string(), "role:viewer".to_owned()] {
            assert_eq!(text.parse::<Subject>().unwrap().to_string(), text);
        }
        for bad in ["role:owner", "everyone", ""] {
            assert!(bad.parse::<Subject>().is_err(), "{bad}");
        }
    }
}
