//! Who acts.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::AuthError;
use crate::{
    db::Conn,
    ids::{ApiKeyId, SessionId, UserId, WorkspaceId},
    realtime::log::Sight,
};

/// What a member may do in a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Admin,
    Member,
    /// Reads, marks read, searches; nothing else.
    Viewer,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Member => "member",
            Self::Viewer => "viewer",
        }
    }

    /// A role as the database stores it; an unknown one may only read.
    pub fn from_stored(text: &str) -> Self {
        match text {
            "admin" => Self::Admin,
            "member" => Self::Member,
            _ => Self::Viewer,
        }
    }

    /// What the role allows (AGENT-PLATFORM §1).
    pub fn scopes(self) -> Scopes {
        match self {
            Self::Admin => Scopes(Scope::ALL.iter().copied().collect()),
            Self::Member => Scopes(
                [
                    Scope::ChatRead,
                    Scope::ChatWrite,
                    Scope::AgentsRead,
                    Scope::AgentsUse,
                    Scope::AgentsWrite,
                ]
                .into_iter()
                .collect(),
            ),
            Self::Viewer => Scopes([Scope::ChatRead, Scope::AgentsRead].into_iter().collect()),
        }
    }
}

#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
pub enum Scope {
    #[serde(rename = "chat:read")]
    ChatRead,
    #[serde(rename = "chat:write")]
    ChatWrite,
    #[serde(rename = "workspace:admin")]
    WorkspaceAdmin,
    #[serde(rename = "agents:read")]
    AgentsRead,
    #[serde(rename = "agents:write")]
    AgentsWrite,
    #[serde(rename = "agents:delete")]
    AgentsDelete,
    #[serde(rename = "agents:admin")]
    AgentsAdmin,
    #[serde(rename = "agents:use")]
    AgentsUse,
}

impl Scope {
    pub const ALL: &[Self] = &[
        Self::ChatRead,
        Self::ChatWrite,
        Self::WorkspaceAdmin,
        Self::AgentsRead,
        Self::AgentsWrite,
        Self::AgentsDelete,
        Self::AgentsAdmin,
        Self::AgentsUse,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::ChatRead => "chat:read",
            Self::ChatWrite => "chat:write",
            Self::WorkspaceAdmin => "workspace:admin",
            Self::AgentsRead => "agents:read",
            Self::AgentsWrite => "agents:write",
            Self::AgentsDelete => "agents:delete",
            Self::AgentsAdmin => "agents:admin",
            Self::AgentsUse => "agents:use",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Scopes(pub BTreeSet<Scope>);

impl Scopes {
    pub fn has(&self, scope: Scope) -> bool {
        self.0.contains(&scope)
    }
}

impl From<String> for Role {
    fn from(stored: String) -> Self {
        Self::from_stored(&stored)
    }
}

/// What a request showed to prove who it is.
#[derive(Debug, Clone)]
pub enum Credential {
    Session(SessionId),
    Key {
        id: ApiKeyId,
        workspace: WorkspaceId,
        scopes: Scopes,
    },
}

/// A signed-in person, in no workspace yet.
#[derive(Debug, Clone)]
pub struct Caller {
    pub user: UserId,
    pub name: String,
    pub credential: Credential,
}

/// A person in one workspace.
#[derive(Debug, Clone)]
pub struct Actor {
    pub user: UserId,
    pub name: String,
    pub workspace: WorkspaceId,
    pub role: Role,
    pub scopes: Scopes,
    pub key: Option<ApiKeyId>,
}

impl Caller {
    /// False for a key of another workspace, whose objects then look as if they did not exist.
    pub fn may_enter(&self, workspace: WorkspaceId) -> bool {
        match &self.credential {
            Credential::Session(_) => true,
            Credential::Key { workspace: own, .. } => *own == workspace,
        }
    }

    pub fn key(&self) -> Option<ApiKeyId> {
        match &self.credential {
            Credential::Session(_) => None,
            Credential::Key { id, .. } => Some(*id),
        }
    }

    /// This person with a role that was read from the membership. What the workspace's policy takes from members is not taken
    /// here: it concerns the routes of agents, which come in by `enter`.
    pub fn acting(&self, workspace: WorkspaceId, role: Role) -> Actor {
        // For the lines of this request.
        tracing::Span::current().record("workspace.id", tracing::field::display(workspace));
        let mut scopes = role.scopes();
        if let Credential::Key {
            scopes: granted, ..
        } = &self.credential
        {
            scopes.0.retain(|scope| granted.has(*scope));
        }
        Actor {
            user: self.user,
            name: self.name.clone(),
            workspace,
            role,
            scopes,
            key: self.key(),
        }
    }

    /// # Errors
    /// `WorkspaceNotFound` when this person is not a member, or the key is another workspace's.
    pub async fn enter(&self, c: &mut Conn, workspace: WorkspaceId) -> Result<Actor, AuthError> {
        if !self.may_enter(workspace) {
            return Err(AuthError::WorkspaceNotFound);
        }
        let row: Option<(String, bool)> = c
            .q("select m.role, coalesce(p.members_write_agents, TRUE) from members m \
                left join workspace_policies p on p.workspace_id = m.workspace_id where m.workspace_id = $1 and m.user_id = $2")
            .bind(workspace)
            .bind(self.user)
            .opt()
            .await?;
        let (role, members_write_agents) = row.ok_or(AuthError::WorkspaceNotFound)?;
        let mut actor = self.acting(workspace, Role::from_stored(&role));
        if actor.role == Role::Member && !members_write_agents {
            actor.scopes.0.remove(&Scope::AgentsWrite);
        }
        Ok(actor)
    }

    /// # Errors
    /// `SessionRequired` for a key: account matters need the person.
    pub fn require_session(&self) -> Result<SessionId, AuthError> {
        match &self.credential {
            Credential::Session(id) => Ok(*id),
            Credential::Key { .. } => Err(AuthError::SessionRequired),
        }
    }
}

impl Actor {
    /// How much of agents the log tells this person.
    pub fn sight(&self) -> Sight {
        Sight {
            agents: self.scopes.has(Scope::AgentsRead),
            all_agents: self.scopes.has(Scope::AgentsAdmin),
        }
    }

    /// For what concerns the person's own membership and keys: a program gets to it only as an admin's.
    ///
    /// # Errors
    /// `SessionRequired` for a key without `workspace:admin`.
    pub fn require_person(&self) -> Result<(), AuthError> {
        if self.key.is_none() || self.scopes.has(Scope::WorkspaceAdmin) {
            Ok(())
        } else {
            Err(AuthError::SessionRequired)
        }
    }

    /// # Errors
    /// `ScopeMissing` or `RoleTooLow`, naming the scope that is missing and why.
    pub fn require(&self, scope: Scope) -> Result<(), AuthError> {
        if self.scopes.has(scope) {
            return Ok(());
        }
        Err(if self.key.is_some() && self.role.scopes().has(scope) {
            AuthError::ScopeMissing(scope)
        } else {
            AuthError::RoleTooLow {
                role: self.role,
                scope,
            }
        })
    }
}
