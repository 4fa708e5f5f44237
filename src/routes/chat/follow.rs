//! Follow levels and read markers of threads and forks.

use axum::Json;
use serde::Deserialize;

use super::{OwnFrame, WhichObject, write_for};
use crate::{
    auth::Caller,
    chat::follows::{self, Follow, FollowLevel},
    db::Conn,
    http::ApiError,
    patch::present,
    realtime::hub::Conversation,
    server::State,
};

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::routes) struct FollowForm {
    /// Defaults to `all`.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    level: Option<FollowLevel>,
}

impl FollowForm {
    pub(in crate::routes) fn level(&self) -> FollowLevel {
        self.level.unwrap_or(FollowLevel::All)
    }
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::routes) struct ReadForm {
    /// `seq` of the newest message read; it can be lower than the current marker.
    pub(in crate::routes) seq: i64,
}

/// Sets the caller's follow level and notifies their other sockets.
pub(in crate::routes) async fn set_level(
    state: &State,
    caller: Caller,
    conversation: Conversation,
    level: FollowLevel,
) -> Result<Json<Follow>, ApiError> {
    let user = caller.user;
    let object = match conversation {
        Conversation::Thread(id) => WhichObject::Thread(id),
        Conversation::Fork(id) => WhichObject::Fork(id),
    };
    let set = async move |c: &mut Conn| follows::set(c, &caller, conversation, level).await;
    let (follow, workspace) = write_for(state, object, set).await?;
    let frame = match conversation {
        Conversation::Thread(thread_id) => OwnFrame::FollowUpdated { thread_id, follow },
        Conversation::Fork(fork_id) => OwnFrame::ForkFollowUpdated { fork_id, follow },
    };
    state.hub.tell_user(workspace, user, &frame);
    Ok(Json(follow))
}
