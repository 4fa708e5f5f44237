//! Lists of repositories, and the rights that admins set for them.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;

use super::{
    CodeError,
    event::{ToldAbout, announce_repository},
    repository::{Repository, RepositoryState, Row, Starters, repository_sql},
    turns,
};
use crate::{
    auth::{self, Actor, AuditAction, Role, Scope},
    db::{Conn, DbError, dialect::lock_workspace, is_in_visible_channel, is_visible_channel},
    ids::{ChannelId, RepositoryId, UserId, WorkspaceId},
    patch::{nullable, present},
    registry,
};

const CHANNELS_MAX: usize = 50;
const STARTERS_MAX: usize = 200;

/// Body of `PATCH /v1/repositories/{id}`; absent fields stay as they are.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RepositoryPatch {
    /// `allowed` or `offered`.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub state: Option<RepositoryState>,
    /// At most 50. Channels that the caller cannot read stay.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub channel_ids: Option<Vec<ChannelId>>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub starters: Option<Starters>,
    /// One of `engines`.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    pub engine: Option<Option<String>>,
}

/// Channels of repositories that the person can read, and the people who can start sessions.
async fn shown(
    c: &mut Conn,
    actor: &Actor<'_>,
    rows: Vec<Row>,
) -> Result<Vec<Repository>, DbError> {
    let found: Vec<(RepositoryId, ChannelId)> = c
        .q(concat!(
            "select k.repository_id, k.channel_id from repository_channels k join channels h on h.id = k.channel_id \
             where h.workspace_id = $1 and ",
            is_visible_channel!("h", "$2"),
            " order by k.channel_id"
        ))
        .bind(actor.workspace)
        .bind(actor.user)
        .all()
        .await?;
    let mut channels: HashMap<RepositoryId, Vec<ChannelId>> = HashMap::new();
    for (repository, channel) in found {
        channels.entry(repository).or_default().push(channel);
    }
    let found: Vec<(RepositoryId, UserId)> = c
        .q(
            "select s.repository_id, s.user_id from repository_starters s join repositories r on r.id = s.repository_id \
             where r.workspace_id = $1 order by s.user_id",
        )
        .bind(actor.workspace)
        .all()
        .await?;
    let mut users: HashMap<RepositoryId, Vec<UserId>> = HashMap::new();
    for (repository, user) in found {
        users.entry(repository).or_default().push(user);
    }
    let shown = rows.into_iter().map(|row| {
        let channels = channels.remove(&row.id).unwrap_or_default();
        let users = users.remove(&row.id).unwrap_or_default();
        row.repository(channels, users)
    });
    Ok(shown.collect())
}

/// Lists the repositories of the workspace, oldest first: all of them for people who manage agents, and those that are allowed in a
/// channel of theirs for others.
///
/// # Errors
/// Same as `Actor::require`.
pub async fn list_repositories(
    c: &mut Conn,
    actor: &Actor<'_>,
) -> Result<Vec<Repository>, CodeError> {
    actor.require(Scope::ChatRead)?;
    let manages = actor.scopes.has(Scope::AgentsAdmin);
    let rows: Vec<Row> = c
        .q(repository_sql!(concat!(
            "where r.workspace_id = $1 and ($3 or (r.is_allowed and exists (select 1 from repository_channels k \
             where k.repository_id = r.id and ",
            is_in_visible_channel!("k.channel_id", "$2"),
            "))) order by r.id"
        )))
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(manages)
        .all()
        .await?;
    Ok(shown(c, actor, rows).await?)
}

async fn get_repository(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: RepositoryId,
) -> Result<Repository, CodeError> {
    let rows: Vec<Row> = c
        .q(repository_sql!("where r.workspace_id = $1 and r.id = $2"))
        .bind(actor.workspace)
        .bind(id)
        .all()
        .await?;
    let found = shown(c, actor, rows).await?.pop();
    found.ok_or(CodeError::RepositoryNotFound)
}

/// The workspace of a repository; `None` if there is no such repository.
///
/// # Errors
/// Only database errors.
pub async fn workspace_of_repository(
    c: &mut Conn,
    id: RepositoryId,
) -> Result<Option<WorkspaceId>, DbError> {
    let row: Option<(WorkspaceId,)> = c
        .q("select workspace_id from repositories where id = $1")
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|(workspace,)| workspace))
}

/// Allows a repository in channels, or changes who can start sessions. Turns in channels where it is no longer allowed fail.
///
/// # Errors
/// `RepositoryNotFound`, `RepositoryStale`, `NoSuchChannel`, `NoSuchMember`, `Invalid`, or an error from `Actor::require`.
pub async fn patch_repository(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: RepositoryId,
    patch: &RepositoryPatch,
    expected: Option<i64>,
) -> Result<Repository, CodeError> {
    actor.require(Scope::AgentsAdmin)?;
    lock_workspace(c, actor.workspace.0).await?;
    let before = get_repository(c, actor, id).await?;
    if expected.is_some_and(|version| version != before.version) {
        return Err(CodeError::RepositoryStale(Box::new(before)));
    }
    check(c, actor, &before, patch).await?;
    if let Some(channels) = &patch.channel_ids {
        set_channels(c, actor, id, channels).await?;
    }
    if let Some(starters) = &patch.starters {
        set_starters(c, id, starters).await?;
    }
    c.q("update repositories set is_allowed = coalesce($2, is_allowed), engine = case when $3 then $4 else engine end, \
         version = version + 1 where id = $1")
        .bind(id)
        .bind(patch.state.map(|state| state == RepositoryState::Allowed))
        .bind(patch.engine.is_some())
        .bind(patch.engine.clone().flatten())
        .run()
        .await?;
    turns::fail_withdrawn(c, id).await?;
    let after = get_repository(c, actor, id).await?;
    let (workspace, version) = (actor.workspace, Some(after.version));
    announce_repository(c, workspace, id, version, ToldAbout::Everyone).await?;
    let data = serde_json::json!({
        "name": after.name, "state": after.state, "channel_ids": after.channel_ids, "starters": after.starters, "engine": after.engine,
    });
    let action = AuditAction::RepositoryUpdated;
    auth::record_audit(c, actor, action, id.to_string(), data).await?;
    Ok(after)
}

async fn check(
    c: &mut Conn,
    actor: &Actor<'_>,
    before: &Repository,
    patch: &RepositoryPatch,
) -> Result<(), CodeError> {
    let invalid = |text: &str, field| Err(CodeError::Invalid(text.to_owned(), field));
    if patch.state == Some(RepositoryState::Gone) {
        return invalid("only the runner can withdraw a repository", "state");
    }
    if patch.state == Some(RepositoryState::Allowed) && before.state == RepositoryState::Gone {
        return invalid("no runner offers this repository anymore", "state");
    }
    if let Some(Some(engine)) = &patch.engine
        && !before.engines.iter().any(|known| known.name == *engine)
    {
        return invalid("the runner has no such engine", "engine");
    }
    let channels = patch.channel_ids.as_deref().unwrap_or_default();
    if channels.len() > CHANNELS_MAX {
        return invalid("at most 50 channels are allowed", "channel_ids");
    }
    if let Some(hidden) = registry::find_hidden_channel(c, actor, channels).await? {
        return Err(CodeError::NoSuchChannel(hidden));
    }
    let users = patch.starters.as_ref().map_or(&[][..], Starters::users);
    if users.len() > STARTERS_MAX {
        return invalid("at most 200 people are allowed", "starters");
    }
    for user in users {
        let role: Option<(Role,)> = c
            .q("select role from members where workspace_id = $1 and user_id = $2")
            .bind(actor.workspace)
            .bind(*user)
            .opt()
            .await?;
        if role.is_none_or(|(role,)| role == Role::Guest) {
            return Err(CodeError::NoSuchMember(*user));
        }
    }
    Ok(())
}

/// Replaces the channels that the person can read.
async fn set_channels(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: RepositoryId,
    channels: &[ChannelId],
) -> Result<(), DbError> {
    c.q(concat!(
        "delete from repository_channels where repository_id = $1 and channel_id in (select h.id from channels h where h.workspace_id = $2 and ",
        is_visible_channel!("h", "$3"),
        ")"
    ))
    .bind(id)
    .bind(actor.workspace)
    .bind(actor.user)
    .run()
    .await?;
    for channel in channels.iter().collect::<BTreeSet<_>>() {
        c.q("insert into repository_channels (repository_id, channel_id) values ($1, $2) on conflict do nothing")
            .bind(id)
            .bind(*channel)
            .run()
            .await?;
    }
    Ok(())
}

async fn set_starters(c: &mut Conn, id: RepositoryId, starters: &Starters) -> Result<(), DbError> {
    c.q("delete from repository_starters where repository_id = $1")
        .bind(id)
        .run()
        .await?;
    for user in starters.users().iter().collect::<BTreeSet<_>>() {
        c.q("insert into repository_starters (repository_id, user_id) values ($1, $2)")
            .bind(id)
            .bind(*user)
            .run()
            .await?;
    }
    c.q("update repositories set starters = $2 where id = $1")
        .bind(id)
        .bind(starters.stored().to_owned())
        .run()
        .await?;
    Ok(())
}
