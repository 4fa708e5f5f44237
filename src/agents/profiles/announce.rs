//! Agent events, sent only to members who can see the agent.

use serde::Serialize;

use super::{AccessControl, Agent, AgentStatus, AgentSummary, parts};
use crate::{
    auth::Role,
    db::{Conn, DbError, Json},
    ids::{AgentId, UserId, WorkspaceId},
    realtime::{
        Audience, EventData, EventType, NewEvent,
        log::{self, Recipients},
    },
};

/// Maximum JSON size of an agent in an event about a change to its base. A change to one base can cause a thousand such events.
const FOLLOWER_BYTES_MAX: usize = 16 * 1024;

#[derive(Serialize, utoipa::ToSchema)]
pub struct AgentEvent<'a> {
    /// The complete agent. An agent that changed only because its base changed has the form used in lists if it is larger than 16
    /// KiB.
    #[schema(value_type = AgentSummary)]
    agent: Announced<'a>,
}

impl EventData for AgentEvent<'_> {
    const TYPES: &'static [EventType] = &[
        EventType::AgentCreated,
        EventType::AgentUpdated,
        EventType::AgentArchived,
    ];
}

#[derive(Serialize, utoipa::ToSchema)]
#[serde(untagged)]
enum Announced<'a> {
    Whole(&'a Agent),
    /// The agent in the form used in lists.
    Summary {
        #[serde(flatten)]
        summary: &'a AgentSummary,
        workspace_id: WorkspaceId,
    },
}

/// An agent that changed with its base. Its long texts are left out if it exceeds the size limit; they are the agent's own and do not
/// change with the base.
fn as_follower(agent: &Agent) -> Announced<'_> {
    let bytes = serde_json::to_vec(agent).map_or(usize::MAX, |json| json.len());
    if bytes <= FOLLOWER_BYTES_MAX {
        return Announced::Whole(agent);
    }
    Announced::Summary {
        summary: &agent.summary,
        workspace_id: agent.workspace_id,
    }
}

fn as_whole(agent: &Agent) -> Announced<'_> {
    Announced::Whole(agent)
}

/// Members of a workspace, read once for all agents that one change announces.
pub(super) struct People(Vec<(UserId, Role)>);

impl People {
    async fn read(c: &mut Conn, workspace: WorkspaceId) -> Result<Self, DbError> {
        let known = c
            .q("select user_id, role from members where workspace_id = $1")
            .bind(workspace)
            .all()
            .await?;
        Ok(Self(known))
    }

    /// Members who can see an agent with these lists; `None` means everyone.
    fn seeing(&self, access: Option<&AccessControl>) -> Option<Recipients> {
        let access = access?;
        let sees = |(user, role): &&(UserId, Role)| access.permits(*user, *role);
        Some(Recipients {
            users: self.0.iter().filter(sees).map(|(user, _)| *user).collect(),
            managers: true,
        })
    }

    /// Members who could see an agent with the `before` lists but no longer can. Admins can always see it.
    fn losing(
        &self,
        before: Option<&AccessControl>,
        after: Option<&AccessControl>,
    ) -> Option<Recipients> {
        let lost = |(user, role): &&(UserId, Role)| {
            *role != Role::Admin
                && parts::permits(before, *user, *role)
                && !parts::permits(after, *user, *role)
        };
        let users: Vec<UserId> = self.0.iter().filter(lost).map(|(user, _)| *user).collect();
        (!users.is_empty()).then_some(Recipients {
            users,
            managers: false,
        })
    }
}

/// The previous state of an agent, sent to members who can no longer see it.
pub(super) struct Before<'a> {
    pub(super) agent: &'a Agent,
    pub(super) access: Option<&'a AccessControl>,
}

/// Appends an event with the full agent for members who can see it. Members who can no longer see it receive an event with its
/// previous state, which reports the agent as archived.
pub(super) async fn announce(
    c: &mut Conn,
    kind: EventType,
    agent: &Agent,
    access: Option<&AccessControl>,
    before: Option<Before<'_>>,
    people: &mut Option<People>,
) -> Result<(), DbError> {
    announce_as(c, kind, agent, access, before, people, as_whole).await
}

/// Like `announce`, for an agent that has a new version because its base changed. A large agent is announced without its
/// long texts.
pub(super) async fn announce_follower(
    c: &mut Conn,
    agent: &Agent,
    access: Option<&AccessControl>,
    before: Before<'_>,
    people: &mut Option<People>,
) -> Result<(), DbError> {
    let (kind, before) = (EventType::AgentUpdated, Some(before));
    announce_as(c, kind, agent, access, before, people, as_follower).await
}

async fn announce_as(
    c: &mut Conn,
    kind: EventType,
    agent: &Agent,
    access: Option<&AccessControl>,
    before: Option<Before<'_>>,
    people: &mut Option<People>,
    form: fn(&Agent) -> Announced<'_>,
) -> Result<(), DbError> {
    let workspace = agent.workspace_id;
    let is_limited = access.is_some() || before.as_ref().is_some_and(|b| b.access.is_some());
    if is_limited && people.is_none() {
        *people = Some(People::read(c, workspace).await?);
    }
    if let (Some(before), Some(people)) = (before, people.as_ref()) {
        let lost = people.losing(before.access, access);
        if lost.is_some() {
            let mut gone = before.agent.clone();
            gone.summary.status = AgentStatus::Archived;
            append(c, EventType::AgentArchived, workspace, form(&gone), lost).await?;
        }
    }
    let only = people.as_ref().and_then(|people| people.seeing(access));
    append(c, kind, workspace, form(agent), only).await
}

/// Members who can see an agent, if not everyone can.
pub(in crate::agents) async fn recipients(
    c: &mut Conn,
    workspace: WorkspaceId,
    agent: AgentId,
) -> Result<Option<Recipients>, DbError> {
    let row: Option<(Option<Json<AccessControl>>,)> = c
        .q("select access from agents where id = $1")
        .bind(agent)
        .opt()
        .await?;
    match row.and_then(|(access,)| access) {
        Some(Json(access)) => Ok(People::read(c, workspace).await?.seeing(Some(&access))),
        None => Ok(None),
    }
}

async fn append(
    c: &mut Conn,
    kind: EventType,
    workspace: WorkspaceId,
    agent: Announced<'_>,
    only: Option<Recipients>,
) -> Result<(), DbError> {
    let seq = log::reserve(c, workspace, 1).await?;
    let event = NewEvent::new(seq, kind, Audience::Workspace, &AgentEvent { agent })?;
    log::append(c, workspace, event.only_to(only)).await
}
