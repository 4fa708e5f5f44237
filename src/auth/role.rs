//! Roles and the scopes that they grant.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::text_enum::text_enum;

text_enum! {
    pub enum UserKind {
        Person = "person",
        /// Author of messages that programs post. Nobody can sign in as a bot.
        Bot = "bot",
        /// Author of the example in new workspaces. Nobody can sign in as one.
        Example = "example",
    }
}

text_enum! {
    /// Role of a member in a workspace.
    pub enum Role {
        Admin = "admin",
        Member = "member",
        /// Can only read, mark as read, and search.
        Viewer = "viewer",
        /// Can post and use agents, but sees only their own channels and the people there.
        Guest = "guest",
    }
}

impl Role {
    /// Checks whether the role can write agents. For members, this depends on the workspace policy.
    pub(super) fn writes_agents(self, members_write_agents: bool) -> bool {
        match self {
            Self::Admin => true,
            Self::Member => members_write_agents,
            Self::Viewer | Self::Guest => false,
        }
    }

    /// Checks whether a person with this role can be asked for an approval.
    pub fn approves(self) -> bool {
        match self {
            Self::Admin | Self::Member => true,
            Self::Viewer | Self::Guest => false,
        }
    }

    /// Encodes the role, and whether the person can write agents, as a number that can be compared.
    pub fn rights(self, writes_agents: bool) -> u8 {
        let role = match self {
            Self::Admin => 1,
            Self::Member => 2,
            Self::Viewer => 3,
            Self::Guest => 4,
        };
        (role << 1) | u8::from(writes_agents)
    }

    /// Scopes that the role grants.
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
            // Most routes refuse guests; see `guests`.
            Self::Guest => Scopes(
                [
                    Scope::ChatRead,
                    Scope::ChatWrite,
                    Scope::AgentsRead,
                    Scope::AgentsUse,
                ]
                .into_iter()
                .collect(),
            ),
        }
    }
}

text_enum! {
    /// Right that a role grants and an API key can have.
    pub enum Scope {
        ChatRead = "chat:read",
        ChatWrite = "chat:write",
        WorkspaceAdmin = "workspace:admin",
        AgentsRead = "agents:read",
        AgentsWrite = "agents:write",
        AgentsDelete = "agents:delete",
        AgentsAdmin = "agents:admin",
        AgentsUse = "agents:use",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Scopes(pub BTreeSet<Scope>);

impl Scopes {
    /// Scopes that a bot can have.
    pub fn of_bots() -> Self {
        Self([Scope::ChatRead, Scope::ChatWrite].into_iter().collect())
    }

    pub fn has(&self, scope: Scope) -> bool {
        self.0.contains(&scope)
    }
}
