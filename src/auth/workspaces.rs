//! Workspaces, which are invisible to everyone but their members.

use crate::time::Timestamp;
use serde::Serialize;

use super::{Actor, AuthError, DisplayName, Role, members::Newcomer, slugify};
use crate::{
    db::{Conn, Json, now},
    ids::{AgentId, UserId, WorkspaceId},
    realtime::{Audience, EventData, EventType, log},
};

const SLUG_CHARS_MAX: usize = 48;
/// First path segments of client routes and server endpoints.
const RESERVED_SLUGS: &[&str] = &[
    "setup", "login", "invite", "confirm", "reset", "settings", "assets", "v1", "docs", "new",
    "metrics", "healthz", "readyz", "mcp", "sign-in", "hooks", "services", "scim", "api", "share",
];

#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct Workspace {
    pub id: WorkspaceId,
    pub name: String,
    pub slug: String,
    /// Agent that replies if no other one is specified.
    pub default_agent_id: Option<AgentId>,
    /// True if guests can use agents in their channels.
    pub guests_use_agents: bool,
    pub created_at: Timestamp,
}

/// A workspace in the list of one of its members.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct MyWorkspace {
    pub id: WorkspaceId,
    pub name: String,
    pub slug: String,
    pub role: Role,
}

#[derive(Serialize, utoipa::ToSchema)]
pub struct WorkspaceEvent<'a> {
    workspace: &'a Workspace,
}

impl EventData for WorkspaceEvent<'_> {
    const TYPES: &'static [EventType] = &[EventType::WorkspaceUpdated];
}

pub async fn ids_of(c: &mut Conn, user: UserId) -> Result<Vec<WorkspaceId>, AuthError> {
    let rows: Vec<(WorkspaceId,)> = c
        .q("select workspace_id from members where user_id = $1 order by workspace_id")
        .bind(user)
        .all()
        .await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// Lists the workspaces of a person, oldest first.
pub async fn list_mine(c: &mut Conn, user: UserId) -> Result<Vec<MyWorkspace>, AuthError> {
    let rows: Vec<(WorkspaceId, String, String, Role)> = c
        .q("select w.id, w.name, w.slug, m.role from members m join workspaces w on w.id = m.workspace_id \
            where m.user_id = $1 order by w.id")
        .bind(user)
        .all()
        .await?;
    let mine = |(id, name, slug, role): (_, _, _, Role)| MyWorkspace {
        id,
        name,
        slug,
        role,
    };
    Ok(rows.into_iter().map(mine).collect())
}

pub async fn get_workspace(c: &mut Conn, id: WorkspaceId) -> Result<Workspace, AuthError> {
    c.q("select id, name, slug, default_agent_id, guests_use_agents, created_at from workspaces where id = $1")
        .bind(id)
        .opt()
        .await?
        .ok_or(AuthError::WorkspaceNotFound)
}

/// # Errors
/// `Invalid` if the text is not a valid slug.
pub(crate) fn parse_slug(text: &str) -> Result<String, AuthError> {
    if text.is_empty() || slugify(text, SLUG_CHARS_MAX) != text {
        let problem = "a slug must be 1 to 48 characters of a-z, 0-9, `-`, and `_`, and start and end with a letter or digit";
        return Err(AuthError::Invalid(problem.to_owned(), "slug"));
    }
    if RESERVED_SLUGS.contains(&text) {
        return Err(AuthError::Invalid(
            format!("`{text}` is reserved: choose another slug"),
            "slug",
        ));
    }
    Ok(text.to_owned())
}

/// Checks that the operator has not configured this slug. A configured slug gives access to processes on the server, so no other
/// workspace can take it, even after the workspace that had it has changed its slug.
fn check_not_named(slug: &str, named: &[String]) -> Result<(), AuthError> {
    if named.iter().any(|known| known == slug) {
        let problem =
            format!("`{slug}` is reserved by the operator of this server: choose another slug");
        return Err(AuthError::Invalid(problem, "slug"));
    }
    Ok(())
}

async fn insert(c: &mut Conn, id: WorkspaceId, name: &str, slug: &str) -> Result<bool, AuthError> {
    let n = c
        .q("insert into workspaces (id, name, slug, seq, pruned_seq, last_claim, default_agent_id, settings, created_at) \
            values ($1, $2, $3, 0, 0, 0, null, $4, $5) on conflict (slug) do nothing")
        .bind(id)
        .bind(name.to_owned())
        .bind(slug.to_owned())
        .bind(Json(serde_json::json!({})))
        .bind(now())
        .run()
        .await?;
    Ok(n == 1)
}

/// The workspace that was created first; `None` if there is none yet.
pub async fn find_oldest(c: &mut Conn) -> Result<Option<WorkspaceId>, AuthError> {
    let oldest: Option<(WorkspaceId,)> = c
        .q("select id from workspaces order by id limit 1")
        .opt()
        .await?;
    Ok(oldest.map(|row| row.0))
}

/// Inserts an empty workspace; the caller must add its agents, creator, and channels in the same transaction. Only the first
/// workspace of the server can have a slug that the operator `named` before the workspace existed.
///
/// # Errors
/// `SlugTaken` or `Invalid` for an explicit slug.
pub async fn create_workspace(
    c: &mut Conn,
    id: WorkspaceId,
    name: &DisplayName,
    slug: Option<&str>,
    named: &[String],
) -> Result<(), AuthError> {
    let named = if has_workspace(c).await? { named } else { &[] };
    if let Some(slug) = slug {
        check_not_named(slug, named)?;
        if !insert(c, id, &name.0, slug).await? {
            return Err(AuthError::SlugTaken(slug.to_owned()));
        }
    } else {
        let mut base = slugify(&name.0, SLUG_CHARS_MAX - 8);
        if base.is_empty() || RESERVED_SLUGS.contains(&base.as_str()) {
            let mended = format!("team-{base}");
            mended.trim_end_matches('-').clone_into(&mut base);
        }
        let mut n = 1_u64;
        loop {
            let slug = if n == 1 {
                base.clone()
            } else {
                format!("{base}-{n}")
            };
            if check_not_named(&slug, named).is_ok() && insert(c, id, &name.0, &slug).await? {
                break;
            }
            n = if n < 20 {
                n + 1
            } else {
                n + 1 + u64::from(rand::random::<u16>())
            };
        }
    }
    Ok(())
}

/// Adds the creator of a workspace as its first member and admin.
///
/// # Errors
/// `Invalid` or `HandleTaken` for a chosen handle.
pub(crate) async fn add_creator(
    c: &mut Conn,
    id: WorkspaceId,
    creator: &Newcomer<'_>,
) -> Result<(), AuthError> {
    let handle = creator.claim_handle(c, id).await?;
    super::members::insert(c, id, creator.user, Role::Admin, &handle).await
}

/// # Errors
/// `TooManyWorkspaces` if the person is already a member of `max` workspaces.
pub async fn check_room(c: &mut Conn, user: UserId, max: i64) -> Result<(), AuthError> {
    let n: i64 = c
        .q("select count(*) from members where user_id = $1")
        .bind(user)
        .value()
        .await?;
    if n >= max {
        return Err(AuthError::TooManyWorkspaces(max));
    }
    Ok(())
}

/// Checks whether a person is an admin of the server, which is an admin of its oldest workspace.
///
/// # Errors
/// Only database errors.
pub async fn is_server_admin(c: &mut Conn, user: UserId) -> Result<bool, AuthError> {
    Ok(c.q(
        "select exists (select 1 from members where user_id = $1 and role = 'admin' \
         and workspace_id = (select id from workspaces order by id limit 1))",
    )
    .bind(user)
    .value()
    .await?)
}

/// Checks whether a workspace exists.
pub(super) async fn exists(c: &mut Conn, id: WorkspaceId) -> Result<bool, AuthError> {
    Ok(
        c.q("select exists (select 1 from workspaces where id = $1)")
            .bind(id)
            .value()
            .await?,
    )
}

async fn has_workspace(c: &mut Conn) -> Result<bool, AuthError> {
    let any = c
        .q("select id from workspaces limit 1")
        .opt::<(WorkspaceId,)>()
        .await?;
    Ok(any.is_some())
}

/// Checks whether a person can create a workspace while sign-up is not open. This is allowed if it is the first workspace of the
/// server, or if the person is an admin of another one.
pub async fn may_create(c: &mut Conn, user: UserId) -> Result<bool, AuthError> {
    let none = !has_workspace(c).await?;
    let admin = c
        .q("select workspace_id from members where user_id = $1 and role = 'admin' limit 1")
        .bind(user)
        .opt::<(WorkspaceId,)>()
        .await?
        .is_some();
    Ok(none || admin)
}

/// Changes to a workspace; omitted ones leave it as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkspaceChange<'a> {
    pub name: Option<&'a str>,
    pub slug: Option<&'a str>,
    pub guests_use_agents: Option<bool>,
}

/// Changes the given fields and announces the workspace. A slug that the operator configured (`named`) can be neither
/// changed nor taken.
///
/// # Errors
/// `SlugTaken`, `Invalid`, or an error from `Actor::require`.
pub(crate) async fn update(
    c: &mut Conn,
    actor: &Actor<'_>,
    change: WorkspaceChange<'_>,
    named: &[String],
) -> Result<Workspace, AuthError> {
    actor.require(super::Scope::WorkspaceAdmin)?;
    let before = get_workspace(c, actor.workspace).await?;
    let slug = change.slug;
    let name = change
        .name
        .map(|name| DisplayName::parse_change(name, &before.name, "name"))
        .transpose()?;
    if let Some(slug) = slug.filter(|slug| *slug != before.slug) {
        check_not_named(slug, named)?;
        if named.contains(&before.slug) {
            let problem = format!(
                "the slug `{}` is used in the configuration of this server: ask the operator to remove it there first",
                before.slug
            );
            return Err(AuthError::Invalid(problem, "slug"));
        }
        let other = c
            .q("select id from workspaces where slug = $1 and id <> $2")
            .bind(slug.to_owned())
            .bind(actor.workspace)
            .opt::<(WorkspaceId,)>()
            .await?;
        if other.is_some() {
            return Err(AuthError::SlugTaken(slug.to_owned()));
        }
    }
    c.q(
        "update workspaces set name = coalesce($2, name), slug = coalesce($3, slug), \
         guests_use_agents = coalesce($4, guests_use_agents) where id = $1",
    )
    .bind(actor.workspace)
    .bind(name.map(|name| name.0.clone()))
    .bind(slug.map(str::to_owned))
    .bind(change.guests_use_agents)
    .run()
    .await?;
    let workspace = get_workspace(c, actor.workspace).await?;
    super::record_audit(
        c,
        actor,
        super::AuditAction::WorkspaceUpdated,
        workspace.id.to_string(),
        serde_json::json!({"name": workspace.name, "slug": workspace.slug, "guests_use_agents": workspace.guests_use_agents}),
    )
    .await?;
    announce(c, &workspace).await?;
    Ok(workspace)
}

/// Appends an event with the current workspace.
pub async fn announce(c: &mut Conn, workspace: &Workspace) -> Result<(), AuthError> {
    log::append_one(
        c,
        workspace.id,
        EventType::WorkspaceUpdated,
        Audience::Workspace,
        &WorkspaceEvent { workspace },
    )
    .await?;
    Ok(())
}
