//! Updates agents after a change to their base.
//!
//! A change to a base creates a version of every agent that inherits from it. The first few are created in the
//! transaction of the change; a background job creates the others, a few per transaction, so that other writes can
//! proceed in between. An agent that is invoked earlier is refreshed first.
//!
//! A change is rejected if the workspace cannot store all versions that follow from it. Their size is reserved until they
//! are stored, so that nothing else uses the space.

use super::{
    AccessControl, Agent, Base, Brief, Profile, Row,
    announce::{Before, People, announce_follower},
    batch::Batch,
    find::find_row,
    form::INSTRUCTIONS_BYTES_MAX,
    inherit::{self, Merged},
    merged_columns::MergedColumns,
    part_versions::part_versions,
    version_rows::{Version, insert_version, stored_bytes},
};
use crate::{
    agents::AgentError,
    auth::quota,
    db::{Conn, DbError, Json, now},
    ids::{AgentId, UserId, WorkspaceId},
};

/// Position before the first child.
pub(super) const FIRST: AgentId = AgentId(uuid::Uuid::nil());

/// A base whose children have to be refreshed.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
struct Refresh {
    base_id: AgentId,
    requested_by: UserId,
    after_id: AgentId,
    reserved_bytes: i64,
}

/// Storage needed for the versions that a change to a base causes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Followers {
    /// Maximum size of these versions.
    pub(super) bytes: i64,
    /// The part of `bytes` that is not already reserved for an earlier change.
    pub(super) more_bytes: i64,
}

/// The part of a base that its children inherit.
struct Parent {
    base: Base,
    merged: Merged,
}

#[derive(sqlx::FromRow)]
struct ParentRow {
    id: AgentId,
    name: String,
    version: i64,
    #[sqlx(flatten)]
    merged: MergedColumns,
    bases: Option<Json<Vec<Base>>>,
}

#[derive(sqlx::FromRow)]
struct ChildRow {
    #[sqlx(flatten)]
    merged: MergedColumns,
    written: Json<Profile>,
    bases: Option<Json<Vec<Base>>>,
    #[sqlx(flatten)]
    row: Row,
}

/// Fails if an inheriting agent would exceed the limit for instructions. `base_bytes` is the size of the base's
/// instructions.
pub(super) async fn check_sizes(
    c: &mut Conn,
    base: AgentId,
    base_bytes: usize,
) -> Result<(), AgentError> {
    let joint = 2;
    let room = |joints: usize| {
        let room = INSTRUCTIONS_BYTES_MAX.saturating_sub(base_bytes + joints * joint);
        i64::try_from(room).unwrap_or(i64::MAX)
    };
    let child: Option<(String, i64)> = c
        .q("select name, instructions_bytes from agents where base_id = $1 and instructions_bytes > $2 order by id limit 1")
        .bind(base)
        .bind(room(1))
        .opt()
        .await?;
    let below = if let Some((name, bytes)) = child {
        Some((name, bytes, 1))
    } else {
        let found: Option<(String, i64)> = c
                .q("select g.name, a.instructions_bytes + g.instructions_bytes from agents a join agents g on g.base_id = a.id \
                    where a.base_id = $1 and a.instructions_bytes + g.instructions_bytes > $2 order by g.id limit 1")
                .bind(base)
                .bind(room(2))
                .opt()
                .await?;
        found.map(|(name, bytes)| (name, bytes, 2))
    };
    let Some((name, bytes, joints)) = below else {
        return Ok(());
    };
    let bytes = base_bytes + joints * joint + usize::try_from(bytes).unwrap_or_default();
    Err(AgentError::ResolvedTooLarge(name, bytes))
}

/// Computes the storage that the agents that inherit from `base` need if its merged profile changes to `changed`.
pub(super) async fn plan(
    c: &mut Conn,
    base: AgentId,
    changed: &Profile,
) -> Result<Followers, DbError> {
    let inherited = inherit::inherited(changed);
    let bytes = bytes_below(c, base, FIRST, &inherited).await?;
    if bytes == 0 || inherit::inherited(&get_parent(c, base).await?.merged.profile) == inherited {
        return Ok(Followers::default());
    }
    let reserved_bytes: i64 = c
        .q(
            "select cast(coalesce(sum(reserved_bytes), 0) as bigint) from agent_refreshes \
            where base_id = $1 or base_id in (select id from agents where base_id = $1)",
        )
        .bind(base)
        .value()
        .await?;
    Ok(Followers {
        bytes,
        more_bytes: bytes - reserved_bytes,
    })
}

/// Maximum size of the next versions of an agent's children after `after`, and of the children's children. `inherited` is
/// the inherited part of the agent's profile. A merged profile is at most as long as the inherited and the own part
/// together, and is stored without the own instructions.
async fn bytes_below(
    c: &mut Conn,
    base: AgentId,
    after: AgentId,
    inherited: &Profile,
) -> Result<i64, DbError> {
    let each = quota::ROW_BYTES + stored_bytes(inherited);
    let children: i64 = c
        .q(
            "select cast(coalesce(sum($3 + profile_bytes - instructions_bytes), 0) as bigint) from agents \
            where base_id = $1 and id > $2",
        )
        .bind(base)
        .bind(after)
        .bind(each)
        .value()
        .await?;
    if children == 0 {
        return Ok(0);
    }
    let grandchildren: i64 = c
        .q(
            "select cast(coalesce(sum($3 + a.profile_bytes + g.profile_bytes - g.instructions_bytes), 0) as bigint) from agents a \
            join agents g on g.base_id = a.id where a.base_id = $1 and a.id > $2",
        )
        .bind(base)
        .bind(after)
        .bind(each)
        .value()
        .await?;
    Ok(children.saturating_add(grandchildren))
}

/// Starts refreshing the children of an agent: the first ones immediately, and the others in the background. The workspace must be
/// locked.
pub(super) async fn begin(
    c: &mut Conn,
    by: UserId,
    workspace: WorkspaceId,
    base: AgentId,
    followers: Followers,
    people: &mut Option<People>,
) -> Result<(), DbError> {
    if request(c, by, workspace, base, followers.bytes).await? {
        advance(c, workspace, people).await?;
    }
    Ok(())
}

/// Records that the children of an agent have to be refreshed, and reserves the size of their versions; returns false if
/// the agent has no children.
pub(super) async fn request(
    c: &mut Conn,
    by: UserId,
    workspace: WorkspaceId,
    base: AgentId,
    bytes: i64,
) -> Result<bool, DbError> {
    let n = c
        .q("insert into agent_refreshes (base_id, workspace_id, requested_by, after_id, created_at, reserved_bytes) \
            select $1, $2, $3, $4, $5, $6 from workspaces w where w.id = $2 and exists (select 1 from agents a where a.base_id = $1) \
            on conflict (base_id) do update set requested_by = excluded.requested_by, after_id = excluded.after_id, \
            reserved_bytes = case when excluded.reserved_bytes > agent_refreshes.reserved_bytes then excluded.reserved_bytes \
            else agent_refreshes.reserved_bytes end")
        .bind(base)
        .bind(workspace)
        .bind(by)
        .bind(FIRST)
        .bind(now())
        .bind(bytes)
        .run()
        .await?;
    Ok(n > 0)
}

/// Refreshes the next few agents of a workspace.
pub(super) async fn advance(
    c: &mut Conn,
    workspace: WorkspaceId,
    people: &mut Option<People>,
) -> Result<(), DbError> {
    let mut batch = Batch::new();
    while !batch.is_full() {
        let refresh: Option<Refresh> = c
            .q("select base_id, requested_by, after_id, reserved_bytes from agent_refreshes where workspace_id = $1 order by created_at, base_id limit 1")
            .bind(workspace)
            .opt()
            .await?;
        let Some(refresh) = refresh else {
            return Ok(());
        };
        let parent = get_parent(c, refresh.base_id).await?;
        let inherited_bytes = stored_bytes(&inherit::inherited(&parent.merged.profile));
        let mut found: Vec<(AgentId, i64)> = c
            .q("select id, profile_bytes from agents where base_id = $1 and id > $2 order by id limit $3")
            .bind(refresh.base_id)
            .bind(refresh.after_id)
            .bind(batch.limit())
            .all()
            .await?;
        for (_, bytes) in &mut found {
            *bytes += inherited_bytes;
        }
        let page = batch.take(&found);
        for id in page.items {
            let child: ChildRow = c.q(child_sql!("where a.id = $1")).bind(id).one().await?;
            refresh_child(c, refresh.requested_by, workspace, &parent, child, people).await?;
        }
        match page.next {
            Some(last) => set_position(c, &refresh, last, &parent).await?,
            None => {
                c.q("delete from agent_refreshes where base_id = $1")
                    .bind(refresh.base_id)
                    .run()
                    .await?;
            }
        }
    }
    Ok(())
}

/// Records the last child that was refreshed, and reserves only the size of the remaining ones.
async fn set_position(
    c: &mut Conn,
    refresh: &Refresh,
    last: AgentId,
    parent: &Parent,
) -> Result<(), DbError> {
    // A refresh without a reservation does not change the children's profiles.
    let reserved_bytes = if refresh.reserved_bytes == 0 {
        0
    } else {
        let inherited = inherit::inherited(&parent.merged.profile);
        let left = bytes_below(c, refresh.base_id, last, &inherited).await?;
        left.min(refresh.reserved_bytes)
    };
    c.q("update agent_refreshes set after_id = $2, reserved_bytes = $3 where base_id = $1")
        .bind(refresh.base_id)
        .bind(last)
        .bind(reserved_bytes)
        .run()
        .await?;
    Ok(())
}

async fn get_parent(c: &mut Conn, id: AgentId) -> Result<Parent, DbError> {
    let row: ParentRow = c
        .q(concat!(
            "select a.id, a.name, a.version, ",
            merged_sql!(),
            ", v.bases from agents a join agent_versions v on v.agent_id = a.id and v.version = a.version",
            profile_row_sql!(),
            "where a.id = $1"
        ))
        .bind(id)
        .one()
        .await?;
    Ok(Parent {
        base: Base {
            id: row.id,
            name: row.name,
            version: row.version,
        },
        merged: Merged {
            profile: row.merged.profile(),
            bases: row.bases.map(|bases| bases.0).unwrap_or_default(),
        },
    })
}

/// Refreshes an agent with this base, if it is outdated. The workspace must be locked.
pub(super) async fn refresh_link(
    c: &mut Conn,
    workspace: WorkspaceId,
    base: AgentId,
    child: AgentId,
) -> Result<(), DbError> {
    let refresh: Option<Refresh> = c
        .q("select base_id, requested_by, after_id, reserved_bytes from agent_refreshes where base_id = $1 and after_id < $2")
        .bind(base)
        .bind(child)
        .opt()
        .await?;
    let Some(refresh) = refresh else {
        return Ok(());
    };
    let parent = get_parent(c, base).await?;
    let row: ChildRow = c.q(child_sql!("where a.id = $1")).bind(child).one().await?;
    let by = refresh.requested_by;
    refresh_child(c, by, workspace, &parent, row, &mut None).await
}

/// Creates a version of an agent for its changed base. If the merged profile is unchanged, only updates the bases
/// recorded in the current version.
async fn refresh_child(
    c: &mut Conn,
    by: UserId,
    workspace: WorkspaceId,
    parent: &Parent,
    child: ChildRow,
    people: &mut Option<People>,
) -> Result<(), DbError> {
    let ChildRow {
        merged: current,
        written,
        bases: known,
        row,
    } = child;
    let mut bases = parent.merged.bases.clone();
    bases.push(parent.base.clone());
    if known.is_some_and(|known| known.0 == bases) {
        return Ok(());
    }
    let merged = Merged {
        profile: inherit::merge(&parent.merged.profile, &row.profile.0),
        bases,
    };
    // The child's own children also record the versions of their bases, so they are refreshed in any case.
    let is_unchanged = merged.profile == current.profile();
    let bytes_below = if is_unchanged {
        0
    } else {
        bytes_below(c, row.id, FIRST, &inherit::inherited(&merged.profile)).await?
    };
    request(c, by, workspace, row.id, bytes_below).await?;
    if is_unchanged {
        c.q("update agent_versions set bases = $3 where agent_id = $1 and version = $2")
            .bind(row.id)
            .bind(row.version)
            .bind(Json(merged.bases))
            .run()
            .await?;
        return Ok(());
    }
    let version: i64 = c
        .q("update agents set version = version + 1, access = $2, updated_at = $3, summary = $4 where id = $1 returning version")
        .bind(row.id)
        .bind(merged.profile.access_control.clone().map(Json))
        .bind(now())
        .bind(Json(Brief::new(&row.profile.0, &merged.profile)))
        .value()
        .await?;
    let stored = Version {
        agent: row.id,
        version,
        name: &row.name,
        status: row.status,
        mentionable: row.mentionable,
        profile: &row.profile.0,
        merged: &merged,
        has_same_profile: written.0 == row.profile.0,
        parts: part_versions(c, row.id, row.version).await?,
    };
    let summary = format!(
        "base {} changed to version {}",
        parent.base.name, parent.base.version
    );
    insert_version(c, workspace, &stored, Some(by), &summary).await?;
    let Some(changed) = find_row(c, workspace, row.id).await? else {
        return Ok(());
    };
    let agent: Agent = changed.into();
    let known: Agent = row.clone().into();
    let before = Before {
        agent: &known,
        access: row.access(),
    };
    let access: Option<&AccessControl> = merged.profile.access_control.as_ref();
    announce_follower(c, &agent, access, before, people).await
}
