//! Events about memory entries. The rules of entries are in `memory`.

use serde::Serialize;

use crate::{
    db::{Conn, DbError},
    ids::{AgentId, ChannelId, MemoryId, UserId, WorkspaceId},
    realtime::{
        Audience, EventData, EventType, NewEvent,
        log::{self, Recipients},
    },
    text_enum::text_enum,
};

impl MemoryScope {
    /// Checks whether the entry belongs to a person and is visible only to them.
    pub fn is_personal(self) -> bool {
        matches!(self, Self::User | Self::Persona)
    }
}

text_enum! {
    /// Scope of a memory entry: the object to which it belongs.
    pub enum MemoryScope {
        /// The main line of a thread, or a fork.
        Conversation = "conversation",
        /// A person.
        User = "user",
        /// A person and an agent.
        Persona = "persona",
        /// An agent.
        Agent = "agent",
        /// The workspace.
        Organization = "organization",
    }
}

text_enum! {
    /// Change of a memory entry.
    pub enum MemoryAction {
        Created = "created",
        Updated = "updated",
        Deleted = "deleted",
    }
}

/// Payload of `memory.changed`. Omits the text, so that forgetting an entry does not have to change
/// the log.
#[derive(Serialize, utoipa::ToSchema)]
pub struct MemoryEvent {
    memory_id: MemoryId,
    scope: MemoryScope,
    action: MemoryAction,
}

impl EventData for MemoryEvent {
    const TYPES: &'static [EventType] = &[EventType::MemoryChanged];
}

/// Properties that determine the recipients of an entry's events.
#[derive(sqlx::FromRow)]
struct Seen {
    workspace_id: WorkspaceId,
    scope: MemoryScope,
    agent_id: Option<AgentId>,
    user_id: Option<UserId>,
    about_user_id: Option<UserId>,
    channel_id: Option<ChannelId>,
    channel_kind: Option<String>,
}

/// Appends `memory.changed` for the users who can see the entry. A deleted entry still has a row.
pub async fn announce(c: &mut Conn, id: MemoryId, action: MemoryAction) -> Result<(), DbError> {
    let seen: Option<Seen> = c
        .q("select e.workspace_id, e.scope, e.agent_id, e.user_id, e.about_user_id, h.id as channel_id, h.kind as channel_kind \
            from memories e left join threads t on e.scope = 'conversation' and t.id = e.thread_id \
            left join channels h on h.id = coalesce(e.channel_id, t.channel_id) where e.id = $1")
        .bind(id)
        .opt()
        .await?;
    let Some(seen) = seen else {
        return Ok(());
    };
    let (mut audience, mut only) = (Audience::Workspace, None);
    match (seen.scope, seen.channel_id) {
        (scope, _) if scope.is_personal() => {
            only = Some(Recipients {
                users: seen
                    .user_id
                    .iter()
                    .chain(&seen.about_user_id)
                    .copied()
                    .collect(),
                managers: false,
            });
        }
        (_, Some(channel)) if seen.channel_kind.as_deref() == Some("public") => {
            audience = Audience::Public(channel);
        }
        (_, Some(channel)) => audience = Audience::Members(channel),
        (MemoryScope::Agent, None) => {
            if let Some(agent) = seen.agent_id {
                only = super::profiles::recipients(c, seen.workspace_id, agent).await?;
            }
        }
        _ => {}
    }
    let seq = log::reserve(c, seen.workspace_id, 1).await?;
    let data = MemoryEvent {
        memory_id: id,
        scope: seen.scope,
        action,
    };
    let event = NewEvent::new(seq, EventType::MemoryChanged, audience, &data)?.only_to(only);
    let event = match (seen.about_user_id, seen.channel_id) {
        (Some(about), Some(_)) => event.also_to(about),
        _ => event,
    };
    log::append(c, seen.workspace_id, event).await
}
