//! Reads in the slow lane.

use super::tasks::visible_task;
use crate::{
    auth::Caller,
    chat::access,
    db::Conn,
    http::ApiError,
    ids::{ChannelId, CompactionId, TaskId},
    realtime::hub::Conversation,
    replies::compaction::record,
    server::State,
};

/// Object that is read in the slow lane.
#[derive(Clone, Copy)]
pub enum ScannedObject {
    Channel(ChannelId),
    Conversation(Conversation),
    Compaction(CompactionId),
    Task(TaskId),
}

/// Returns a connection of the slow lane, for a read whose cost grows with the amount of data that people have stored in an object.
///
/// Access is checked first, in the fast lane, so that callers without access receive their error immediately and do not use the
/// workspace's share. The read has to check access again, because access can be revoked during the wait for the lane.
///
/// # Errors
/// Any error from the access check; `overloaded` if the caller's share or the lane does not become free in time.
pub async fn scan_for(
    state: &State,
    caller: &Caller,
    object: ScannedObject,
) -> Result<Conn, ApiError> {
    let mut c = state.db.read().await?;
    let workspace = match object {
        ScannedObject::Channel(id) => {
            let access = access::channel(&mut c, caller, id).await?;
            access.reading()?.actor.workspace
        }
        ScannedObject::Conversation(id) => {
            let access = access::find_conversation(&mut c, caller, id).await?;
            access.reading()?.channel_access.actor.workspace
        }
        ScannedObject::Compaction(id) => {
            let (_, access) = record::visible(&mut c, caller, id).await?;
            access.reading()?.channel_access.actor.workspace
        }
        ScannedObject::Task(id) => visible_task(&mut c, caller, id).await?.workspace_id,
    };
    drop(c);
    Ok(state.db.scan(caller.share(workspace)).await?)
}
