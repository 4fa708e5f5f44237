//! Names of vector stores that people attach to agents and channels.

use super::{Profile, tools::attached_stores};
use crate::{
    auth::Actor,
    db::{Conn, DbError, is_readable_store, is_shared_channel},
    ids::{ChannelId, VectorStoreId},
};

impl Profile {
    /// Names of the vector stores whose passages are in the agent's prompts, without duplicates.
    pub fn vector_stores(&self) -> Vec<&str> {
        let mut names = attached_stores(&self.tools);
        let kept = self
            .memory
            .iter()
            .flat_map(|memory| &memory.vector_store_ids);
        names.extend(kept.map(String::as_str));
        let mut distinct: Vec<&str> = Vec::with_capacity(names.len());
        for name in names {
            if !distinct.contains(&name) {
                distinct.push(name);
            }
        }
        distinct
    }
}

/// Checks whether an actor can read the vector store with this name, or the channel whose files it names, and so can everyone who can
/// read the channel `shared_in`.
///
/// # Errors
/// Only database errors.
pub async fn can_read_store(
    c: &mut Conn,
    actor: &Actor<'_>,
    name: &str,
    shared_in: Option<ChannelId>,
) -> Result<bool, DbError> {
    // PostgreSQL rejects texts with NUL.
    let handle = name.strip_prefix("vs_");
    let handle = handle.filter(|handle| handle.bytes().all(|byte| byte.is_ascii_graphic()));
    c.q(concat!(
        "select exists (select 1 from vector_stores v where v.workspace_id = $1 and (v.id = $2 or v.handle = $3) and ",
        is_readable_store!("$4", "$5"),
        ") or exists (select 1 from channels sc where sc.workspace_id = $1 and sc.id = $6 and ",
        is_shared_channel!("sc.id", "$4", "$5"),
        ")"
    ))
    .bind(actor.workspace)
    .bind(VectorStoreId::parse(name).ok())
    .bind(handle.map(str::to_owned))
    .bind(actor.user)
    .bind(shared_in.map(|channel| channel.0))
    .bind(ChannelId::parse(name).ok())
    .value()
    .await
}
