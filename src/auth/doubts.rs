//! Finds sockets whose access may have changed without a signal, such as an expired session or a change in the database.

use std::{collections::HashMap, sync::Arc};

use crate::{
    db::{Conn, DbError, dialect, now},
    realtime::hub::Socket,
};

use super::{Role, sessions::SEEN_STALE_AFTER};

/// Returns the sockets whose session, key, membership, role, or rights have changed since they were opened, and the
/// sockets whose session or key has not been marked as used for a while, or whose workspace demands something of sessions. These sockets have to check their access.
///
/// # Errors
/// Only database errors.
pub async fn find(c: &mut Conn, sockets: &[Arc<Socket>]) -> Result<Vec<Arc<Socket>>, DbError> {
    let accesses = sockets.iter().map(|socket| dialect::access::Access {
        workspace: socket.workspace.0,
        user: socket.user.0,
        credential: match (socket.session, socket.key) {
            (Some(id), _) => id.0,
            (None, key) => key.map_or(uuid::Uuid::nil(), |id| id.0),
        },
    });
    let at = now();
    let valid: HashMap<i64, (Role, bool)> =
        dialect::access::list_valid(c, accesses, at, at - SEEN_STALE_AFTER)
            .await?
            .into_iter()
            .map(|(n, role, members_write_agents)| (n, (role, members_write_agents)))
            .collect();
    let is_unchanged = |(n, socket): (i64, &Arc<Socket>)| {
        valid.get(&n).is_some_and(|(role, members_write_agents)| {
            let rights = role.rights(role.writes_agents(*members_write_agents));
            // A key can have fewer rights than its owner.
            socket.rights() == rights
                || socket.key.is_some() && socket.rights() == role.rights(false)
        })
    };
    Ok((0..)
        .zip(sockets)
        .filter(|found| !is_unchanged(*found))
        .map(|(_, socket)| Arc::clone(socket))
        .collect())
}
