//! Resent posts, and what every way of posting shares.

use std::time::Duration;

use uuid::Uuid;

use crate::{
    auth::{Actor, Caller},
    chat::{
        ChatError,
        access::{self, ThreadAccess},
        rows::{
            message::{Message, get_message},
            thread::{Thread, get_thread},
        },
    },
    db::{Conn, Db, DbError, now},
    ids::{ForkId, MessageId, ThreadId, WorkspaceId},
    tasks::{Task, queue},
};

/// Time after which a client ID is forgotten, so that it can be used for another object.
const CLIENT_IDS_FOR: Duration = Duration::from_hours(24 * 30);

/// Result of a post. `created` is false for a resent request, which does not change anything.
#[derive(Debug)]
pub struct Posted {
    pub message: Message,
    pub tasks: Vec<Task>,
    /// Set only for a post that starts a thread.
    pub thread: Option<Thread>,
    pub created: bool,
}

/// Returns the object that was created under this client ID. If the ID is new, records it for
/// `object` and returns `None`.
pub async fn claim_client_id(
    c: &mut Conn,
    actor: &Actor<'_>,
    client_id: Option<&str>,
    conversation: &str,
    object: Uuid,
) -> Result<Option<Uuid>, ChatError> {
    let Some(client_id) = client_id else {
        return Ok(None);
    };
    let taken = c
        .q("insert into client_ids (workspace_id, user_id, client_id, place, object_id, created_at) values ($1, $2, $3, $4, $5, $6) \
            on conflict (workspace_id, user_id, client_id) do nothing")
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(client_id.to_owned())
        .bind(conversation.to_owned())
        .bind(object)
        .bind(now())
        .run()
        .await?;
    if taken == 1 {
        return Ok(None);
    }
    find_client_id(c, actor, client_id, conversation).await
}

/// Deletes client IDs that are too old for a resend.
///
/// # Errors
/// Only database errors.
pub async fn forget_client_ids(db: &Db) -> Result<(), DbError> {
    db.delete_expired(
        now() - CLIENT_IDS_FOR,
        "select exists (select 1 from client_ids where created_at < $1)",
        "delete from client_ids where (workspace_id, user_id, client_id) in \
         (select workspace_id, user_id, client_id from client_ids where created_at < $1 order by created_at limit $2)",
    )
    .await?;
    Ok(())
}

/// Returns the object that was created under this client ID.
///
/// # Errors
/// `ClientIdReused` if it was created in another conversation, or a database error.
pub async fn find_client_id(
    c: &mut Conn,
    actor: &Actor<'_>,
    client_id: &str,
    conversation: &str,
) -> Result<Option<Uuid>, ChatError> {
    let known: Option<(String, Uuid)> = c
        .q("select place, object_id from client_ids where workspace_id = $1 and user_id = $2 and client_id = $3")
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(client_id.to_owned())
        .opt()
        .await?;
    match known {
        Some((place, _)) if place != conversation => Err(ChatError::ClientIdReused),
        known => Ok(known.map(|(_, object)| object)),
    }
}

/// Reconstructs the original response for a resent request.
pub(super) async fn stored(c: &mut Conn, id: Uuid, with_thread: bool) -> Result<Posted, ChatError> {
    let message = get_message(c, MessageId(id)).await?;
    let tasks = queue::tasks_of_message(c, message.id).await?;
    let thread = if with_thread {
        Some(get_thread(c, message.thread_id).await?)
    } else {
        None
    };
    Ok(Posted {
        message,
        tasks,
        thread,
        created: false,
    })
}

/// Checks that the parent belongs to the same conversation.
pub(super) async fn parent_in(
    c: &mut Conn,
    caller: &Caller,
    access: &ThreadAccess<'_>,
    parent: MessageId,
) -> Result<(), ChatError> {
    let row: Option<(ThreadId, Option<ForkId>, WorkspaceId)> = c
        .q("select thread_id, nullif(conversation_id, thread_id), workspace_id from messages where id = $1")
        .bind(parent)
        .opt()
        .await?;
    match row {
        Some((thread, fork, _)) if thread == access.thread && fork == access.fork_id() => Ok(()),
        Some((_, _, workspace)) if workspace == access.channel_access.actor.workspace => {
            // Access is checked first, because the error must not reveal that a hidden message exists.
            access::message(c, caller, parent).await?;
            Err(ChatError::Invalid(
                "the parent message is in another conversation: reply there".to_owned(),
                "parent_id",
            ))
        }
        _ => Err(ChatError::MessageNotFound),
    }
}
