//! Forks as one person sees them.

use serde::Serialize;

use super::{follows::Follow, forks::Fork, reads};
use crate::{
    db::{Conn, DbError},
    ids::{ForkId, MessageId, UserId},
};

/// A fork as one person sees it.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct MyFork {
    #[serde(flatten)]
    pub fork: Fork,
    /// The person's follow level.
    pub follow: Follow,
    /// Every message up to this sequence number is read.
    pub read_seq: i64,
    /// Unread messages; at most 1,000, and 0 for people who do not follow the fork.
    pub unread_count: i64,
    /// The oldest unread message; null if there is none.
    pub first_unread_id: Option<MessageId>,
}

/// Adds the person's levels and markers to forks.
///
/// # Errors
/// Only database errors.
pub async fn with_marks(
    c: &mut Conn,
    user: UserId,
    forks: Vec<Fork>,
) -> Result<Vec<MyFork>, DbError> {
    let ids: Vec<ForkId> = forks.iter().map(|fork| fork.id).collect();
    let marks = reads::of_forks(c, user, &ids).await?;
    let forks = forks.into_iter().map(|fork| {
        let mark = marks.get(&fork.id).copied().unwrap_or_default();
        MyFork {
            fork,
            follow: mark.follow,
            read_seq: mark.read_seq,
            unread_count: mark.unread_count,
            first_unread_id: mark.first_unread_id,
        }
    });
    Ok(forks.collect())
}
