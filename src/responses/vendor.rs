//! Members of function calls that a model's server wants back in the next request. Programs need not return them: they are kept
//! under the caller and the ID of the first call, and added to the conversation.

use std::time::Duration;

use uuid::Uuid;

use crate::{
    db::{Conn, Db, DbError, now},
    ids::{UserId, WorkspaceId},
    model::{ChatMessage, VendorMembers},
    time::Timestamp,
};

/// Time for which members are kept.
const KEPT: Duration = Duration::from_hours(24);
/// Maximum number of messages with calls whose members are kept for a person in a workspace.
const MESSAGES_MAX: i64 = 200;
/// Maximum length of a call ID under which members are kept.
const CALL_ID_CHARS_MAX: usize = 256;

/// Members of a message that has just been received.
#[derive(Debug, Clone)]
pub(super) struct Received {
    pub workspace: WorkspaceId,
    pub user: UserId,
    /// ID of the first call.
    pub call_id: String,
    pub model: String,
    pub members: VendorMembers,
}

/// Stores the members of a message. The oldest ones of the person are removed if there are too many.
pub(super) async fn store(c: &mut Conn, received: &Received) -> Result<(), DbError> {
    let Ok(members) = serde_json::to_string(&received.members) else {
        return Ok(());
    };
    if received.call_id.chars().count() > CALL_ID_CHARS_MAX {
        return Ok(());
    }
    c.q("insert into response_vendor_members (workspace_id, user_id, call_id, model, members, expires_at) \
         values ($1, $2, $3, $4, $5, $6) on conflict (workspace_id, user_id, model, call_id) \
         do update set members = excluded.members, expires_at = excluded.expires_at")
        .bind(received.workspace)
        .bind(received.user)
        .bind(received.call_id.clone())
        .bind(received.model.clone())
        .bind(members)
        .bind(now() + KEPT)
        .run()
        .await?;
    let last_allowed: Option<(Timestamp,)> = c
        .q("select expires_at from response_vendor_members where workspace_id = $1 and user_id = $2 \
            order by expires_at desc limit 1 offset $3")
        .bind(received.workspace)
        .bind(received.user)
        .bind(MESSAGES_MAX)
        .opt()
        .await?;
    if let Some((before,)) = last_allowed {
        c.q("delete from response_vendor_members where workspace_id = $1 and user_id = $2 and expires_at <= $3")
            .bind(received.workspace)
            .bind(received.user)
            .bind(before)
            .run()
            .await?;
    }
    Ok(())
}

/// Adds the members that `model` sent with the calls in a conversation.
pub(super) async fn add(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    model: &str,
    turns: &mut [ChatMessage],
) -> Result<(), DbError> {
    for turn in turns.iter_mut().filter(|turn| turn.vendor.is_empty()) {
        let Some(call) = turn.calls.first() else {
            continue;
        };
        let found: Option<(String,)> = c
            .q("select members from response_vendor_members where workspace_id = $1 and user_id = $2 \
                and call_id = $3 and model = $4 and expires_at > $5")
            .bind(workspace)
            .bind(user)
            .bind(call.id.clone())
            .bind(model.to_owned())
            .bind(now())
            .opt()
            .await?;
        let members = found.and_then(|(members,)| serde_json::from_str(&members).ok());
        turn.vendor = members.unwrap_or_default();
    }
    Ok(())
}

/// Deletes the members of a person in a workspace.
pub(super) async fn forget_person(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<(), DbError> {
    c.q("delete from response_vendor_members where workspace_id = $1 and user_id = $2")
        .bind(workspace)
        .bind(user)
        .run()
        .await?;
    Ok(())
}

/// Deletes expired members.
pub(super) async fn delete_expired(db: &Db) -> Result<(), DbError> {
    let due: Option<(String,)> = db
        .read()
        .await?
        .q("select call_id from response_vendor_members where expires_at <= $1 order by expires_at limit 1")
        .bind(now())
        .opt()
        .await?;
    if due.is_none() {
        return Ok(());
    }
    db.write(Uuid::nil(), async move |c: &mut Conn| {
        c.q("delete from response_vendor_members where expires_at <= $1")
            .bind(now())
            .run()
            .await?;
        Ok::<_, DbError>(())
    })
    .await?;
    // The write-ahead log still contains the deleted texts.
    db.scrub().await
}
