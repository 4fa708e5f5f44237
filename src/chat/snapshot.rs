//! The initial state of a client, read at exactly one sequence number of the event log.

use std::collections::HashSet;

use serde::Serialize;

use super::{
    ChatError,
    bots::{self, BotSummary},
    channels::MyChannel,
    checklist::{self, ChecklistStep},
    follows,
    forks::{self, Fork},
    inbox::{self, list::InboxSummary},
};
use crate::{
    agents::profiles::{self, AgentSummary},
    auth::{self, Actor, Member, Role, Scope, Workspace},
    cursor::PageRange,
    db::Conn,
    ids::{ThreadId, UserId},
    realtime::{PresenceStatus, log},
    tasks::{
        Task,
        asleep::{AgentsState, is_asleep},
        queue,
    },
};

/// Maximum number of members in a snapshot; `GET /v1/members` lists all.
const MEMBERS_MAX: i64 = 500;
/// Maximum number of bots in a snapshot; `GET /v1/bots` lists all.
const BOTS_MAX: i64 = 200;
const CHANNELS_MAX: i64 = 2000;
const AGENTS_MAX: i64 = 500;

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Me {
    pub id: UserId,
    pub email: String,
    pub name: String,
    pub handle: String,
    pub role: Role,
    pub avatar_url: Option<String>,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Presence {
    pub user_id: UserId,
    /// `online`; offline members are omitted.
    pub status: PresenceStatus,
}

/// Limits of this server.
#[derive(Debug, Clone, Copy, Serialize, utoipa::ToSchema)]
pub struct Limits {
    /// Maximum upload size in bytes.
    pub upload_bytes_max: u64,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Snapshot {
    /// Epoch of the event log. It changes when a backup is restored, or after a failover that may have lost commits; sequence numbers
    /// of other epochs are invalid.
    pub epoch: String,
    /// The snapshot is the state after exactly this event.
    pub seq: i64,
    pub me: Me,
    pub workspace: Workspace,
    /// The first 500 members.
    pub members: Vec<Member>,
    /// The first 200 bots.
    pub bots: Vec<BotSummary>,
    pub channels: Vec<MyChannel>,
    /// The first 500 agents.
    pub agents: Vec<AgentSummary>,
    /// True if there are more agents; `GET /v1/agents` lists all.
    pub agents_truncated: bool,
    /// Active forks, at most 500.
    pub open_forks: Vec<Fork>,
    /// The newest 1,000 threads that the caller has muted.
    pub muted_threads: Vec<ThreadId>,
    pub inbox: InboxSummary,
    pub active_tasks: Vec<Task>,
    pub presence: Vec<Presence>,
    pub limits: Limits,
    /// Whether agents act on this server.
    pub agents_state: AgentsState,
    /// First steps of the person. Null for guests and viewers, after 30 days, and once the person has hidden them.
    pub checklist: Option<Vec<ChecklistStep>>,
}

/// Loads a snapshot. `c` must be a snapshot of the database.
///
/// # Errors
/// Any error from `Actor::require`.
pub async fn load(
    c: &mut Conn,
    actor: &Actor<'_>,
    epoch: String,
    mut online: Vec<UserId>,
    limits: Limits,
) -> Result<Snapshot, ChatError> {
    actor.require(Scope::ChatRead)?;
    let (seq, _) = log::head(c, actor.workspace).await?;
    let workspace = auth::get_workspace(c, actor.workspace).await?;
    let own = auth::get_member(c, actor.workspace, actor.user).await?;
    let mut agents = Vec::new();
    if actor.scopes.has(Scope::AgentsRead) {
        let all = profiles::Filter::default();
        agents = profiles::list_agents(c, actor, &all, PageRange::ALL, AGENTS_MAX + 1).await?;
    }
    let most = usize::try_from(AGENTS_MAX).unwrap_or(usize::MAX);
    let agents_truncated = agents.len() > most;
    agents.truncate(most);
    if actor.role == Role::Guest {
        let people = auth::guests::people_of(c, actor.workspace, actor.user).await?;
        let people: HashSet<UserId> = people.into_iter().collect();
        online.retain(|user| people.contains(user));
        for agent in &mut agents {
            // It names people.
            agent.access_control = None;
        }
    }
    Ok(Snapshot {
        epoch,
        seq,
        me: Me {
            id: own.user_id,
            email: own.email,
            name: own.name,
            handle: own.handle,
            role: own.role,
            avatar_url: own.avatar_url,
        },
        workspace,
        members: auth::list_members(c, actor, None, None, MEMBERS_MAX).await?,
        bots: bots::list_bots(c, actor.workspace, actor.user, BOTS_MAX).await?,
        channels: super::channels::list_mine(
            c,
            actor.workspace,
            actor.user,
            PageRange::ALL,
            CHANNELS_MAX,
        )
        .await?,
        agents,
        agents_truncated,
        open_forks: forks::list_open(c, actor.workspace, actor.user).await?,
        muted_threads: follows::list_muted(c, actor).await?,
        inbox: inbox::list::summary(c, actor).await?,
        active_tasks: queue::active(c, actor.workspace, actor.user).await?,
        presence: online
            .into_iter()
            .map(|user_id| Presence {
                user_id,
                status: PresenceStatus::Online,
            })
            .collect(),
        limits,
        agents_state: if is_asleep(c).await? {
            AgentsState::Asleep
        } else {
            AgentsState::Running
        },
        checklist: checklist::load(c, actor, own.joined_at).await?,
    })
}
