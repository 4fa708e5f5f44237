//! Memory switches: the server's, the workspace's, and a person's. Each of them can only turn memory off.

use serde::{Deserialize, Serialize};

use super::change::require_own;
use crate::{
    agents::{
        policy::{self, MemoryPolicy},
        profiles::MemoryScopes,
        switch::SwitchLevel,
    },
    auth::{Actor, Scope},
    chat::threads::ThreadMemory,
    db::{Conn, DbError, dialect::memory::UseScopes, now},
    ids::{ThreadId, UserId, WorkspaceId},
    memory::{MemoryError, entry::MemoryScope, error::Stopped},
    patch::present,
};

/// Key of the server's switch in `meta`.
const SERVER: &str = "memory";

/// Switches of the caller for memory in this workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema, sqlx::FromRow)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub struct MemorySettings {
    /// True if agents remember things about the caller and use them. If false, `persona` is off as well.
    pub enabled: bool,
    /// True if individual agents remember how the caller wants to be treated.
    pub persona: bool,
    /// True if agents that support it adapt to the caller; off by default. This does not depend on the other
    /// switches.
    pub adapt: bool,
    /// False if `OPENVIBE_MEMORY` turns everything off.
    pub server_enabled: bool,
}

/// Fields of `PATCH /v1/memory-settings`; omitted fields are unchanged.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemorySettingsPatch {
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub enabled: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub persona: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub adapt: Option<bool>,
}

/// Stores the server's switch, which applies to every workspace.
pub async fn set_server(c: &mut Conn, is_on: bool) -> Result<(), DbError> {
    c.q("insert into meta (key, value) values ($1, $2) on conflict (key) do update set value = excluded.value")
        .bind(SERVER)
        .bind(if is_on { "on" } else { "off" })
        .run()
        .await?;
    Ok(())
}

async fn of(c: &mut Conn, workspace: WorkspaceId, user: UserId) -> Result<MemorySettings, DbError> {
    c.q("select coalesce(s.enabled, TRUE) as enabled, coalesce(s.persona, TRUE) as persona, \
         coalesce(s.adapt, FALSE) as adapt, coalesce(m.value, 'on') <> 'off' as server_enabled \
         from (select 1) x left join memory_settings s on s.workspace_id = $1 and s.user_id = $2 left join meta m on m.key = $3")
        .bind(workspace)
        .bind(user)
        .bind(SERVER)
        .one()
        .await
}

/// The caller's switches.
///
/// # Errors
/// An error from `Actor::require`.
pub async fn get(c: &mut Conn, actor: &Actor<'_>) -> Result<MemorySettings, MemoryError> {
    actor.require(Scope::ChatRead)?;
    Ok(of(c, actor.workspace, actor.user).await?)
}

/// Changes the caller's switches.
///
/// # Errors
/// An error from `Actor::require`.
pub async fn change(
    c: &mut Conn,
    actor: &Actor<'_>,
    patch: &MemorySettingsPatch,
) -> Result<MemorySettings, MemoryError> {
    require_own(actor)?;
    let mut settings = of(c, actor.workspace, actor.user).await?;
    settings.enabled = patch.enabled.unwrap_or(settings.enabled);
    settings.persona = patch.persona.unwrap_or(settings.persona);
    settings.adapt = patch.adapt.unwrap_or(settings.adapt);
    c.q("insert into memory_settings (workspace_id, user_id, enabled, persona, adapt, updated_at) values ($1, $2, $3, $4, $5, $6) \
         on conflict (workspace_id, user_id) do update set enabled = excluded.enabled, persona = excluded.persona, \
         adapt = excluded.adapt, updated_at = excluded.updated_at")
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(settings.enabled)
        .bind(settings.persona)
        .bind(settings.adapt)
        .bind(now())
        .run()
        .await?;
    Ok(settings)
}

/// Switches of the server, the workspace, and a person, and those of an agent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Switches {
    policy: MemoryPolicy,
    own: MemorySettings,
    agent: MemoryScopes,
}

impl Switches {
    pub(super) async fn find(
        c: &mut Conn,
        workspace: WorkspaceId,
        user: UserId,
    ) -> Result<Self, DbError> {
        Ok(Self {
            policy: policy::find(c, workspace).await?.memory,
            own: of(c, workspace, user).await?,
            agent: MemoryScopes::default(),
        })
    }

    /// Adds the switches of an agent's profile.
    pub(super) fn with_agent(mut self, scopes: Option<&MemoryScopes>) -> Self {
        self.agent = scopes.copied().unwrap_or_default();
        self
    }

    /// The first level that stops entries of a scope; `None` if they are used.
    pub(super) fn stopped_by(&self, scope: MemoryScope) -> Option<SwitchLevel> {
        let (policy, own, agent) = (&self.policy, &self.own, &self.agent);
        let (by_policy, by_agent, by_person) = match scope {
            MemoryScope::Conversation => (true, agent.conversation, true),
            MemoryScope::User => (policy.user, agent.user, own.enabled),
            MemoryScope::Persona => (policy.persona, agent.persona, own.enabled && own.persona),
            MemoryScope::Agent => (true, agent.agent, true),
            MemoryScope::Organization => (policy.organization, agent.organization, true),
        };
        let levels = [
            (SwitchLevel::Server, own.server_enabled),
            (SwitchLevel::Workspace, policy.enabled && by_policy),
            (SwitchLevel::Agent, by_agent != Some(false)),
            (SwitchLevel::Person, by_person),
        ];
        let off = levels.into_iter().find(|(_, is_on)| !is_on);
        off.map(|(level, _)| level)
    }

    /// The level at which the last scope is turned off; `None` if any scope is on.
    pub(super) fn all_stopped_by(&self) -> Option<SwitchLevel> {
        let levels = MemoryScope::ALL.iter().map(|scope| self.stopped_by(*scope));
        levels.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    pub(super) fn scopes(&self) -> UseScopes {
        let is_on = |scope| self.stopped_by(scope).is_none();
        UseScopes {
            conversation: is_on(MemoryScope::Conversation),
            user: is_on(MemoryScope::User),
            persona: is_on(MemoryScope::Persona),
            agent: is_on(MemoryScope::Agent),
            organization: is_on(MemoryScope::Organization),
        }
    }
}

/// The scopes that are turned on for a person.
pub(super) async fn scopes_on(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<UseScopes, DbError> {
    Ok(Switches::find(c, workspace, user).await?.scopes())
}

/// Checks whether conversations are remembered once they are quiet.
///
/// # Errors
/// Only database errors.
pub async fn is_quiet_on(c: &mut Conn, workspace: WorkspaceId) -> Result<bool, DbError> {
    let is_on: bool = c
        .q("select coalesce((select value from meta where key = $1), 'on') <> 'off'")
        .bind(SERVER)
        .value()
        .await?;
    let policy = policy::find(c, workspace).await?.memory;
    Ok(is_on && policy.enabled && policy.quiet)
}

/// Checks that memory is on in a thread.
///
/// # Errors
/// `Off` if memories of the thread are not used.
pub(super) async fn check_thread_on(c: &mut Conn, thread: ThreadId) -> Result<(), MemoryError> {
    let memory: ThreadMemory = c
        .q("select memory from threads where id = $1")
        .bind(thread)
        .value()
        .await?;
    match memory {
        ThreadMemory::On => Ok(()),
        ThreadMemory::Off => Err(MemoryError::Off(Stopped {
            feature: "memory of this thread",
            by: SwitchLevel::Thread,
        })),
    }
}

/// Checks that memory of a scope is on for the actor.
///
/// # Errors
/// `Off` with the first level that stops entries of this scope.
pub(super) async fn check_on(
    c: &mut Conn,
    actor: &Actor<'_>,
    scope: MemoryScope,
) -> Result<(), MemoryError> {
    let switches = Switches::find(c, actor.workspace, actor.user).await?;
    let Some(by) = switches.stopped_by(scope) else {
        return Ok(());
    };
    let feature = match scope {
        // The switch for all scopes.
        _ if by == SwitchLevel::Workspace && !switches.policy.enabled => "memory",
        MemoryScope::Conversation | MemoryScope::Agent => "memory",
        MemoryScope::User => "memory about you",
        // The person's switch for all agents.
        MemoryScope::Persona if by == SwitchLevel::Person && !switches.own.enabled => {
            "memory about you"
        }
        MemoryScope::Persona => "memory of individual agents about you",
        MemoryScope::Organization => "memory of the workspace",
    };
    Err(MemoryError::Off(Stopped { feature, by }))
}
