//! People with sockets, by node.

use std::collections::{HashMap, HashSet};

use super::links::Links;
use crate::{
    db::{
        Conn, DbError, dialect,
        dialect::nodes::{self, PresentUser},
        now,
    },
    ids::{NodeId, UserId, WorkspaceId},
    realtime::{BusMessage, PresenceStatus, hub::PresenceChange},
};

/// Maximum number of changes in one statement.
const CHANGES_AT_ONCE: usize = 1000;

/// Stores the presence changes on this node since the last call, and announces them to other nodes.
///
/// # Errors
/// Only database errors; the changes are kept.
pub async fn write_presence(links: &Links, c: &mut Conn) -> Result<(), DbError> {
    let changes = links.hub.take_presence();
    for (n, some) in changes.chunks(CHANGES_AT_ONCE).enumerate() {
        if let Err(e) = store(c, links.node.id, some).await {
            links.hub.return_presence(&changes[n * CHANGES_AT_ONCE..]);
            return Err(e);
        }
        for change in some {
            links.bus.send(BusMessage::Presence {
                workspace: change.workspace,
                user: change.user,
                status: if change.is_here {
                    PresenceStatus::Online
                } else {
                    PresenceStatus::Offline
                },
            });
        }
    }
    for some in links.hub.take_active().chunks(CHANGES_AT_ONCE) {
        let people = some.iter().map(|user| user.0);
        c.q(crate::sql_with_ids!(
            c,
            "update presence set active_at = $2 where node_id = $3 and user_id in",
            1,
            ""
        ))
        .bind(dialect::hexadecimal_ids(people))
        .bind(now())
        .bind(links.node.id)
        .run()
        .await?;
    }
    Ok(())
}

async fn store(c: &mut Conn, node: NodeId, changes: &[PresenceChange]) -> Result<(), DbError> {
    let people = |is_here: bool| -> Vec<PresentUser> {
        let some = changes.iter().filter(|change| change.is_here == is_here);
        some.map(|change| PresentUser {
            workspace: change.workspace.0,
            user: change.user.0,
        })
        .collect()
    };
    nodes::insert_presence(c, node.0, &people(true)).await?;
    nodes::delete_presence(c, node.0, &people(false)).await
}

/// People with a socket on other live nodes, in these workspaces.
pub(super) async fn read_elsewhere(
    c: &mut Conn,
    node: NodeId,
    workspaces: &[WorkspaceId],
) -> Result<HashMap<WorkspaceId, HashMap<UserId, HashSet<NodeId>>>, DbError> {
    let at = dialect::clock(c).await?;
    let ids = workspaces.iter().map(|id| id.0);
    let rows: Vec<(WorkspaceId, UserId, NodeId)> = c
        .q(crate::sql_with_ids!(
            c,
            "select p.workspace_id, p.user_id, p.node_id from presence p join nodes n on n.id = p.node_id \
             where n.lease_until >= $2 and p.node_id <> $3 and p.workspace_id in",
            1,
            ""
        ))
        .bind(dialect::hexadecimal_ids(ids))
        .bind(at)
        .bind(node)
        .all()
        .await?;
    let mut people: HashMap<WorkspaceId, HashMap<UserId, HashSet<NodeId>>> = HashMap::new();
    for (workspace, user, node) in rows {
        let of_workspace = people.entry(workspace).or_default();
        of_workspace.entry(user).or_default().insert(node);
    }
    Ok(people)
}

/// People of a workspace with a socket on another live node.
///
/// # Errors
/// Only database errors.
pub async fn list_online(
    c: &mut Conn,
    node: NodeId,
    workspace: WorkspaceId,
) -> Result<Vec<UserId>, DbError> {
    let people = read_elsewhere(c, node, &[workspace]).await?;
    Ok(people.into_values().flat_map(HashMap::into_keys).collect())
}
