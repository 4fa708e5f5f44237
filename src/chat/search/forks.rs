//! Finds deep dives by their titles. There are few of them beside the messages of a workspace, so their titles are not indexed but
//! compared, word by word as in the index.

use super::{
    highlight::matches,
    query::Question,
    words::{composed, words},
};
use crate::{
    auth::Actor,
    chat::forks::ForkStatus,
    db::{Conn, DbError, dialect::search::Phrase, is_in_visible_channel},
    ids::{ChannelId, ForkId, ThreadId},
};

/// Maximum number of deep dives, newest first, whose titles are compared.
const COMPARED_MAX: i64 = 10_000;

#[derive(Debug, sqlx::FromRow)]
pub(super) struct FoundFork {
    pub id: ForkId,
    pub title: String,
    pub status: ForkStatus,
    /// Sequence number of the message from which the deep dive starts.
    pub seq: i64,
}

/// Deep dives that the actor can see and whose titles match, newest first; only those of one channel or thread, if it is given.
pub(super) async fn find(
    c: &mut Conn,
    actor: &Actor<'_>,
    question: &Question,
    channel: Option<ChannelId>,
    thread: Option<ThreadId>,
) -> Result<Vec<FoundFork>, DbError> {
    let mut forks: Vec<FoundFork> = c
        .q(concat!(
            "select f.id, f.title, f.status, m.seq from forks f join messages m on m.id = f.message_id \
             where f.workspace_id = $1 and m.deleted_at is null and (f.channel_id = $3 or $3 is null) \
             and (f.thread_id = $4 or $4 is null) and ",
            is_in_visible_channel!("f.channel_id", "$2"),
            " order by f.id desc limit $5"
        ))
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(channel)
        .bind(thread)
        .bind(COMPARED_MAX)
        .all()
        .await?;
    forks.retain(|fork| {
        let text = composed(&fork.title);
        let title = words(&text);
        let has = |phrases: &[Phrase]| !matches(&title, phrases).is_empty();
        question.with.iter().all(|group| has(group)) && !has(&question.without)
    });
    Ok(forks)
}
