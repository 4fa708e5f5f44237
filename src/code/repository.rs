//! Repositories as they are stored, shown, and offered.

use serde::{Deserialize, Serialize};

use super::{
    event::{ToldAbout, announce_repository},
    runner::{AWAY_MAX, BUILTIN, RunnerEngine, is_online},
};
use crate::{
    agents::profiles::Coding,
    auth::{Role, Scope},
    db::{Conn, DbError, Json, now},
    ids::{ChannelId, RepositoryId, RunnerId, UserId, WorkspaceId},
    text_enum::{constant, text_enum},
    time::Timestamp,
};

constant! { pub RepositoryObject = "repository" }

text_enum! {
    /// State of a repository.
    pub enum RepositoryState {
        /// A runner offers it, and no admin has allowed it.
        Offered = "offered",
        Allowed = "allowed",
        /// Its runner no longer offers it.
        Gone = "gone",
    }
}

text_enum! {
    /// People who can start sessions on a repository.
    pub enum StarterGroup {
        /// Everyone in its channels who can post there, except for guests.
        Members = "members",
        Admins = "admins",
    }
}

/// Maximum number of repositories of a runner, with those that it no longer offers.
const KNOWN_MAX: usize = 300;
/// Stored value of the people who can start sessions.
const USERS: &str = "users";

/// People who can start sessions on a repository: `members`, `admins`, or at most 200 members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(
    untagged,
    expecting = "this is neither `members`, `admins`, nor a list of IDs of members"
)]
pub enum Starters {
    Group(StarterGroup),
    Users(Vec<UserId>),
}

impl Starters {
    pub(super) fn stored(&self) -> &'static str {
        match self {
            Self::Group(group) => group.as_str(),
            Self::Users(_) => USERS,
        }
    }

    pub(super) fn users(&self) -> &[UserId] {
        match self {
            Self::Group(_) => &[],
            Self::Users(users) => users,
        }
    }
}

/// The runner of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct RepositoryRunner {
    pub id: RunnerId,
    pub name: String,
    /// True if the runner is connected.
    pub online: bool,
}

/// A repository on which agents can work in some channels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Repository {
    pub id: RepositoryId,
    #[schema(inline)]
    pub object: RepositoryObject,
    pub name: String,
    pub runner: RepositoryRunner,
    pub state: RepositoryState,
    /// Branch on which work begins.
    pub base: String,
    /// Engine that agents without their own choice use; null for `builtin`, or else the first one.
    pub engine: Option<String>,
    /// Engines of the runner.
    pub engines: Vec<RunnerEngine>,
    /// Channels in which agents work on it, except for those that the caller cannot read. Everyone who reads them sees its code.
    pub channel_ids: Vec<ChannelId>,
    pub starters: Starters,
    /// False if the runner has no sandbox, and therefore pushes nothing.
    pub can_push: bool,
    pub version: i64,
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(sqlx::FromRow)]
pub(super) struct Row {
    pub(super) id: RepositoryId,
    name: String,
    runner_id: RunnerId,
    runner_name: String,
    is_connected: bool,
    seen_at: Option<Timestamp>,
    is_offered: bool,
    is_allowed: bool,
    base: String,
    engine: Option<String>,
    engines: Json<Vec<RunnerEngine>>,
    starters: String,
    can_push: bool,
    version: i64,
}

/// Selects repositories as `r` with their runners as `u`; the argument continues the query.
macro_rules! repository_sql {
    ($tail:expr) => {
        concat!(
            "select r.id, r.name, r.runner_id, u.name as runner_name, u.connection_id is not null as is_connected, u.seen_at, r.is_offered, \
             r.is_allowed, r.base, r.engine, u.engines, r.starters, r.can_push, r.version from repositories r \
             join runners u on u.id = r.runner_id ",
            $tail
        )
    };
}

pub(super) use repository_sql;

impl Row {
    pub(super) fn repository(self, channel_ids: Vec<ChannelId>, users: Vec<UserId>) -> Repository {
        let state = match (self.is_offered, self.is_allowed) {
            (false, _) => RepositoryState::Gone,
            (true, true) => RepositoryState::Allowed,
            (true, false) => RepositoryState::Offered,
        };
        let starters = match self.starters.parse() {
            Ok(group) => Starters::Group(group),
            Err(_) => Starters::Users(users),
        };
        Repository {
            id: self.id,
            object: RepositoryObject,
            name: self.name,
            runner: RepositoryRunner {
                id: self.runner_id,
                name: self.runner_name,
                online: is_online(self.is_connected, self.seen_at),
            },
            state,
            base: self.base,
            engine: self.engine,
            engines: self.engines.0,
            channel_ids,
            starters,
            can_push: self.can_push,
            version: self.version,
        }
    }
}

/// A repository on which an agent can work in a channel.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct TurnRepository {
    pub id: RepositoryId,
    pub name: String,
    engine: Option<String>,
    engines: Json<Vec<RunnerEngine>>,
    pub(super) starters: String,
    seen_at: Option<Timestamp>,
}

impl TurnRepository {
    /// The engine of a new session; `None` if the runner has none.
    pub(super) fn engine(&self, coding: &Coding) -> Option<String> {
        let engines = &self.engines.0;
        let has = |name: &&String| engines.iter().any(|engine| engine.name == **name);
        let chosen = coding.engine.as_ref().filter(has);
        let chosen = chosen.or(self.engine.as_ref().filter(has)).cloned();
        let builtin = engines.iter().find(|engine| engine.name == BUILTIN);
        chosen.or_else(|| Some(builtin.or(engines.first())?.name.clone()))
    }

    pub(super) fn is_away(&self) -> bool {
        self.seen_at.is_none_or(|at| at < now() - AWAY_MAX)
    }
}

/// Checks whether a person can start work on a repository.
pub(super) async fn may_start(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    repository: RepositoryId,
    starters: &str,
) -> Result<bool, DbError> {
    let role: Option<(Role,)> = c
        .q("select role from members where workspace_id = $1 and user_id = $2")
        .bind(workspace)
        .bind(user)
        .opt()
        .await?;
    let Some((role,)) = role.filter(|(role,)| *role != Role::Guest) else {
        return Ok(false);
    };
    match starters.parse() {
        Ok(StarterGroup::Members) => Ok(role.scopes().has(Scope::ChatWrite)),
        Ok(StarterGroup::Admins) => Ok(role == Role::Admin),
        Err(_) => {
            c.q("select exists (select 1 from repository_starters where repository_id = $1 and user_id = $2)")
                .bind(repository)
                .bind(user)
                .value()
                .await
        }
    }
}

/// Checks whether a repository is allowed in a channel now.
pub(super) async fn is_allowed_in(
    c: &mut Conn,
    repository: RepositoryId,
    channel: ChannelId,
) -> Result<bool, DbError> {
    c.q("select exists (select 1 from repositories r join repository_channels k on k.repository_id = r.id \
         where r.id = $1 and k.channel_id = $2 and r.is_allowed)")
        .bind(repository)
        .bind(channel)
        .value()
        .await
}

/// A repository as its runner offers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) name: String,
    pub(super) base: String,
    pub(super) can_push: bool,
}

#[derive(sqlx::FromRow)]
struct Known {
    id: RepositoryId,
    name: String,
    base: String,
    can_push: bool,
    is_offered: bool,
}

/// Stores what a runner offers now. Repositories that it no longer offers are gone until it offers them again. New ones beyond the maximum
/// are ignored.
pub(super) async fn store_offers(
    c: &mut Conn,
    workspace: WorkspaceId,
    runner: RunnerId,
    offers: &[Offer],
) -> Result<(), DbError> {
    let known: Vec<Known> = c
        .q("select id, name, base, can_push, is_offered from repositories where runner_id = $1 order by id")
        .bind(runner)
        .all()
        .await?;
    for repository in &known {
        let offer = offers.iter().find(|offer| offer.name == repository.name);
        let is_same = match offer {
            Some(offer) => {
                repository.is_offered
                    && offer.base == repository.base
                    && offer.can_push == repository.can_push
            }
            None => !repository.is_offered,
        };
        if is_same {
            continue;
        }
        let base = offer.map_or(&repository.base, |offer| &offer.base);
        let (version,): (i64,) = c
            .q("update repositories set is_offered = $2, base = $3, can_push = $4, version = version + 1 where id = $1 returning version")
            .bind(repository.id)
            .bind(offer.is_some())
            .bind(base.clone())
            .bind(offer.map_or(repository.can_push, |offer| offer.can_push))
            .one()
            .await?;
        let to = ToldAbout::Everyone;
        announce_repository(c, workspace, repository.id, Some(version), to).await?;
    }
    let is_new = |offer: &&Offer| !known.iter().any(|known| known.name == offer.name);
    let room = KNOWN_MAX.saturating_sub(known.len());
    for offer in offers.iter().filter(is_new).take(room) {
        let id = RepositoryId::new();
        c.q("insert into repositories (id, workspace_id, runner_id, name, base, can_push, is_offered, is_allowed, starters, last_number, \
             version, created_at) values ($1, $2, $3, $4, $5, $6, TRUE, FALSE, $7, 0, 1, $8) on conflict do nothing")
            .bind(id)
            .bind(workspace)
            .bind(runner)
            .bind(offer.name.clone())
            .bind(offer.base.clone())
            .bind(offer.can_push)
            .bind(StarterGroup::Members)
            .bind(now())
            .run()
            .await?;
        announce_repository(c, workspace, id, Some(1), ToldAbout::Managers).await?;
    }
    Ok(())
}

/// Tells people who manage agents that the connection of a runner has changed.
pub(super) async fn announce_connection(
    c: &mut Conn,
    workspace: WorkspaceId,
    runner: RunnerId,
) -> Result<(), DbError> {
    let rows: Vec<(RepositoryId, i64)> = c
        .q("select id, version from repositories where runner_id = $1 order by id limit 100")
        .bind(runner)
        .all()
        .await?;
    for (id, version) in rows {
        announce_repository(c, workspace, id, Some(version), ToldAbout::Managers).await?;
    }
    Ok(())
}
