//! Sandbox policies: limits for code that agents run. The code runner that the operator configured enforces them; the
//! effective limits are returned with the agent.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::AgentError;
use crate::{
    auth::{self, Actor, Scope},
    db::{Conn, DbError, Json, now},
    ids::{SandboxPolicyId, WorkspaceId},
    text_enum::constant,
    time::Timestamp,
};

const NAME_UNITS_MAX: usize = 64;
const IMAGE_UNITS_MAX: usize = 256;
const HOSTS_MAX: usize = 100;
/// Maximum number of sandbox policies per workspace.
const POLICIES_MAX: i64 = 200;

/// Network access, from strictest to most permissive.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    None,
    /// Access only to `allowed_hosts`.
    Allowlist,
    Full,
}

/// File system access, from strictest to most permissive.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Filesystem {
    None,
    ReadOnly,
    ReadWrite,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SandboxLimits {
    /// Container image.
    pub image: String,
    /// Number of CPU cores; 0.1 to 64.
    pub cpu_max: f64,
    /// Memory in MiB; 16 to 1048576.
    pub memory_mb_max: u32,
    pub network: Network,
    #[serde(default)]
    pub allowed_hosts: Vec<String>,
    /// Timeout in seconds; 1 to 86400.
    pub timeout_s_max: u32,
    pub filesystem: Filesystem,
}

impl SandboxLimits {
    /// Number of whole processors, at least 1.
    pub fn processors(&self) -> usize {
        let fits = |count: &u8| f64::from(*count) <= self.cpu_max;
        (1..=64).rev().find(fits).unwrap_or(1).into()
    }

    /// Combines both policies: the stricter value of each field, and the image of `other`.
    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        let network = self.network.min(other.network);
        let hosts_of = |limits: &Self| {
            (limits.network == Network::Allowlist).then(|| limits.allowed_hosts.clone())
        };
        let allowed_hosts = match (hosts_of(self), hosts_of(other)) {
            _ if network != Network::Allowlist => Vec::new(),
            (Some(mut own), Some(others)) => {
                own.retain(|host| others.contains(host));
                own
            }
            (own, others) => own.or(others).unwrap_or_default(),
        };
        Self {
            image: other.image.clone(),
            cpu_max: self.cpu_max.min(other.cpu_max),
            memory_mb_max: self.memory_mb_max.min(other.memory_mb_max),
            network,
            allowed_hosts,
            timeout_s_max: self.timeout_s_max.min(other.timeout_s_max),
            filesystem: self.filesystem.min(other.filesystem),
        }
    }
}

constant! { pub SandboxPolicyObject = "sandbox_policy" }

#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct SandboxPolicy {
    pub id: SandboxPolicyId,
    #[schema(inline)]
    pub object: SandboxPolicyObject,
    pub name: String,
    #[serde(flatten)]
    pub limits: SandboxLimits,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Fields of `POST` and `PUT /v1/sandbox-policies`.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SandboxForm {
    /// 1 to 64 characters, unique in the workspace.
    pub name: String,
    /// Container image.
    pub image: String,
    /// Number of CPU cores; 0.1 to 64.
    pub cpu_max: f64,
    /// Memory in MiB; 16 to 1048576.
    pub memory_mb_max: u32,
    pub network: Network,
    /// Allowed hosts, only for `allowlist`; at most 100.
    #[serde(default)]
    pub allowed_hosts: Vec<String>,
    /// Timeout in seconds; 1 to 86400.
    pub timeout_s_max: u32,
    pub filesystem: Filesystem,
}

impl SandboxForm {
    fn check(self) -> Result<(String, SandboxLimits), AgentError> {
        let refuse = |param, text: &str| Err(AgentError::Invalid(text.to_owned(), param));
        let units = |text: &str| text.trim().encode_utf16().count();
        if !(1..=NAME_UNITS_MAX).contains(&units(&self.name)) {
            return refuse("name", "the name must have 1 to 64 characters");
        }
        if !(1..=IMAGE_UNITS_MAX).contains(&units(&self.image)) {
            return refuse("image", "the image must have 1 to 256 characters");
        }
        if !(0.1..=64.0).contains(&self.cpu_max) {
            return refuse("cpu_max", "cpu_max must be from 0.1 to 64 cores");
        }
        if !(16..=1_048_576).contains(&self.memory_mb_max) {
            return refuse(
                "memory_mb_max",
                "memory_mb_max must be from 16 to 1048576 MiB",
            );
        }
        if !(1..=86_400).contains(&self.timeout_s_max) {
            return refuse(
                "timeout_s_max",
                "timeout_s_max must be from 1 to 86400 seconds",
            );
        }
        let hosts_fit = self.allowed_hosts.len() <= HOSTS_MAX
            && self
                .allowed_hosts
                .iter()
                .all(|host| (1..=253).contains(&host.len()) && !host.contains(['/', ' ']));
        if !hosts_fit || (self.network != Network::Allowlist && !self.allowed_hosts.is_empty()) {
            return refuse(
                "allowed_hosts",
                "at most 100 host names are allowed, and only with the network `allowlist`",
            );
        }
        let limits = SandboxLimits {
            image: self.image.trim().to_owned(),
            cpu_max: self.cpu_max,
            memory_mb_max: self.memory_mb_max,
            network: self.network,
            allowed_hosts: self.allowed_hosts,
            timeout_s_max: self.timeout_s_max,
            filesystem: self.filesystem,
        };
        Ok((self.name.trim().to_owned(), limits))
    }
}

#[derive(sqlx::FromRow)]
struct Row {
    id: SandboxPolicyId,
    name: String,
    limits: Json<SandboxLimits>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<Row> for SandboxPolicy {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            object: SandboxPolicyObject,
            name: row.name,
            limits: row.limits.0,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

pub async fn find_limits(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: SandboxPolicyId,
) -> Result<Option<SandboxLimits>, DbError> {
    let row: Option<(Json<SandboxLimits>,)> = c
        .q("select limits from sandbox_policies where workspace_id = $1 and id = $2")
        .bind(workspace)
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|row| row.0.0))
}

/// Limits that apply to code that an agent runs: for each field, the stricter one of the agent's own policy and the
/// workspace's. `None` if neither has one.
pub async fn effective(
    c: &mut Conn,
    workspace: WorkspaceId,
    own: Option<&str>,
    required: Option<SandboxPolicyId>,
) -> Result<Option<SandboxLimits>, DbError> {
    let own = match own.and_then(|id| id.parse().ok()) {
        Some(id) => find_limits(c, workspace, id).await?,
        None => None,
    };
    let required = match required {
        Some(id) => find_limits(c, workspace, id).await?,
        None => None,
    };
    Ok(match (own, required) {
        (Some(own), Some(required)) => Some(own.within(&required)),
        (own, required) => own.or(required),
    })
}

/// Lists at most 200 policies, oldest first.
pub async fn list(c: &mut Conn, workspace: WorkspaceId) -> Result<Vec<SandboxPolicy>, DbError> {
    let rows: Vec<Row> = c
        .q("select id, name, limits, created_at, updated_at from sandbox_policies where workspace_id = $1 order by id limit $2")
        .bind(workspace)
        .bind(POLICIES_MAX)
        .all()
        .await?;
    Ok(rows.into_iter().map(SandboxPolicy::from).collect())
}

/// # Errors
/// `SandboxPolicyNotFound`.
pub async fn get(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: SandboxPolicyId,
) -> Result<SandboxPolicy, AgentError> {
    let row: Option<Row> = c
        .q("select id, name, limits, created_at, updated_at from sandbox_policies where workspace_id = $1 and id = $2")
        .bind(workspace)
        .bind(id)
        .opt()
        .await?;
    row.map(SandboxPolicy::from)
        .ok_or(AgentError::SandboxPolicyNotFound)
}

async fn name_is_free(
    c: &mut Conn,
    workspace: WorkspaceId,
    name: &str,
    but: SandboxPolicyId,
) -> Result<(), AgentError> {
    let other: Option<(SandboxPolicyId,)> = c
        .q("select id from sandbox_policies where workspace_id = $1 and name = $2 and id <> $3")
        .bind(workspace)
        .bind(name.to_owned())
        .bind(but)
        .opt()
        .await?;
    match other {
        Some(_) => Err(AgentError::SandboxPolicyNameTaken(name.to_owned())),
        None => Ok(()),
    }
}

/// # Errors
/// `Invalid`, `SandboxPolicyNameTaken`, or an error from `Actor::require`.
pub async fn create(
    c: &mut Conn,
    actor: &Actor<'_>,
    form: SandboxForm,
) -> Result<SandboxPolicy, AgentError> {
    actor.require(Scope::AgentsAdmin)?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    let (name, limits) = form.check()?;
    let id = SandboxPolicyId::new();
    name_is_free(c, actor.workspace, &name, id).await?;
    let n: i64 = c
        .q("select count(*) from sandbox_policies where workspace_id = $1")
        .bind(actor.workspace)
        .value()
        .await?;
    if n >= POLICIES_MAX {
        let text = format!("a workspace can have at most {POLICIES_MAX} sandbox policies");
        return Err(AgentError::Invalid(text, "name"));
    }
    c.q("insert into sandbox_policies (id, workspace_id, name, limits, created_by, created_at, updated_at) values ($1, $2, $3, $4, $5, $6, $6)")
        .bind(id)
        .bind(actor.workspace)
        .bind(name)
        .bind(Json(limits))
        .bind(actor.user)
        .bind(now())
        .run()
        .await?;
    audited(c, actor, auth::AuditAction::SandboxPolicyCreated, id).await
}

/// Records a change to a policy in the audit log and returns the current policy.
async fn audited(
    c: &mut Conn,
    actor: &Actor<'_>,
    action: auth::AuditAction,
    id: SandboxPolicyId,
) -> Result<SandboxPolicy, AgentError> {
    let policy = get(c, actor.workspace, id).await?;
    let data = serde_json::json!({"name": policy.name});
    auth::record_audit(c, actor, action, id.to_string(), data).await?;
    Ok(policy)
}

/// # Errors
/// `SandboxPolicyNotFound`, `Invalid`, `SandboxPolicyNameTaken`, or an error from `Actor::require`.
pub async fn replace(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: SandboxPolicyId,
    form: SandboxForm,
) -> Result<SandboxPolicy, AgentError> {
    actor.require(Scope::AgentsAdmin)?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    get(c, actor.workspace, id).await?;
    let (name, limits) = form.check()?;
    name_is_free(c, actor.workspace, &name, id).await?;
    c.q("update sandbox_policies set name = $2, limits = $3, updated_at = $4 where id = $1")
        .bind(id)
        .bind(name)
        .bind(Json(limits))
        .bind(now())
        .run()
        .await?;
    audited(c, actor, auth::AuditAction::SandboxPolicyChanged, id).await
}

/// # Errors
/// `SandboxPolicyNotFound`, `SandboxPolicyInUse`, or an error from `Actor::require`.
pub async fn delete(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: SandboxPolicyId,
) -> Result<(), AgentError> {
    actor.require(Scope::AgentsAdmin)?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    get(c, actor.workspace, id).await?;
    if is_used(c, actor.workspace, id).await? {
        return Err(AgentError::SandboxPolicyInUse);
    }
    audited(c, actor, auth::AuditAction::SandboxPolicyDeleted, id).await?;
    c.q("delete from sandbox_policies where id = $1")
        .bind(id)
        .run()
        .await?;
    Ok(())
}

/// Checks whether the workspace policy, an agent, or a tool of an agent refers to a policy.
async fn is_used(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: SandboxPolicyId,
) -> Result<bool, DbError> {
    let used: bool = c
        .q("select exists (select 1 from workspace_policies where workspace_id = $1 and sandbox_policy_id = $2)")
        .bind(workspace)
        .bind(id)
        .value()
        .await?;
    if used {
        return Ok(true);
    }
    let id = id.to_string();
    let agents: Vec<(Option<String>, Option<Json<Value>>)> = c
        .q("select profile ->> 'sandbox_policy_id', profile -> 'tools' from agents where workspace_id = $1")
        .bind(workspace)
        .all()
        .await?;
    Ok(agents.into_iter().any(|(own, tools)| {
        let is_of_tool = |tool: &Value| tool["sandbox_policy_id"] == id.as_str();
        let tools = tools.as_ref().and_then(|tools| tools.as_array());
        own.as_ref() == Some(&id) || tools.is_some_and(|tools| tools.iter().any(is_of_tool))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_keeps_the_stricter_limit_of_both() {
        let own = SandboxLimits {
            image: "python:3.12".to_owned(),
            cpu_max: 4.0,
            memory_mb_max: 512,
            network: Network::Full,
            allowed_hosts: vec![],
            timeout_s_max: 600,
            filesystem: Filesystem::ReadWrite,
        };
        let required = SandboxLimits {
            image: "hardened:1".to_owned(),
            cpu_max: 1.0,
            memory_mb_max: 2048,
            network: Network::Allowlist,
            allowed_hosts: vec!["a.example".to_owned()],
            timeout_s_max: 60,
            filesystem: Filesystem::ReadOnly,
        };
        let both = own.within(&required);
        assert_eq!(both.image, "hardened:1");
        assert!((both.cpu_max - 1.0).abs() < f64::EPSILON);
        assert_eq!((both.memory_mb_max, both.timeout_s_max), (512, 60));
        assert_eq!(
            (both.network, both.filesystem),
            (Network::Allowlist, Filesystem::ReadOnly)
        );
        assert_eq!(both.allowed_hosts, ["a.example"]);
    }
}
