//! Chat over HTTP: one file per noun, and shared helpers.

mod boot;
mod catch_up;
mod channels;
mod compactions;
mod emoji;
mod follow;
mod frames;
mod inbox;
mod messages;
mod presets;
mod scan;
mod search;
mod task_tree;
mod tasks;
mod threads;

use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;

pub use boot::list_online;
pub use frames::OwnFrame;
pub use messages::{delete, say};
pub use scan::{ScannedObject, scan_for};
pub use tasks::{brief_reader_of, reader_of, visible_task};
pub use threads::{mark_read, remove_threads, start};

pub(super) use channels::list_channels;
pub(super) use follow::{FollowForm, ReadForm, set_level};
pub(super) use threads::{ThreadsQuery, list_threads};

use crate::{
    chat::post::Posted,
    db::{Conn, DbError},
    http::ApiError,
    ids::{
        ActionId, ActionItemId, ChannelId, CompactionId, ForkId, GrantId, MessageId, TaskId,
        ThreadId,
    },
    realtime::hub::Conversation,
    server::State,
};

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .merge(boot::router())
        .merge(channels::router())
        .merge(threads::router())
        .merge(compactions::router())
        .merge(catch_up::router())
        .merge(messages::router())
        .merge(emoji::router())
        .merge(inbox::router())
        .merge(presets::router())
        .merge(search::router())
        .merge(tasks::router())
        .merge(task_tree::router())
}

/// Returns 201 for a new object, or 200 for a resend, which does not change anything.
fn status_of(posted: &Posted) -> StatusCode {
    if posted.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    }
}

/// Returns the workspace whose write queue runs commands for an object, or the nil UUID if the object does not exist.
async fn workspace_key(c: &mut Conn, object: WhichObject) -> Result<uuid::Uuid, ApiError> {
    let row: Option<(uuid::Uuid,)> = match object {
        WhichObject::Channel(id) => {
            c.q("select workspace_id from channels where id = $1")
                .bind(id)
                .opt()
                .await?
        }
        WhichObject::Thread(id) => {
            c.q("select workspace_id from threads where id = $1")
                .bind(id)
                .opt()
                .await?
        }
        WhichObject::Fork(id) => {
            c.q("select workspace_id from forks where id = $1")
                .bind(id)
                .opt()
                .await?
        }
        WhichObject::ActionItem(id) => {
            c.q("select workspace_id from action_items where id = $1 limit 1")
                .bind(id)
                .opt()
                .await?
        }
        WhichObject::Message(id) => {
            c.q("select workspace_id from messages where id = $1")
                .bind(id)
                .opt()
                .await?
        }
        WhichObject::Compaction(id) => {
            c.q("select workspace_id from compactions where id = $1")
                .bind(id)
                .opt()
                .await?
        }
        WhichObject::Action(id) => {
            c.q("select workspace_id from actions where id = $1")
                .bind(id)
                .opt()
                .await?
        }
        WhichObject::Grant(id) => {
            c.q("select workspace_id from grants where id = $1")
                .bind(id)
                .opt()
                .await?
        }
        WhichObject::Task(id) => {
            c.q("select workspace_id from tasks where id = $1")
                .bind(id)
                .opt()
                .await?
        }
    };
    Ok(row.map(|row| row.0).unwrap_or_default())
}

/// ID of an object whose workspace is looked up.
#[derive(Clone, Copy)]
pub enum WhichObject {
    Channel(ChannelId),
    Thread(ThreadId),
    Fork(ForkId),
    ActionItem(ActionItemId),
    Message(MessageId),
    Task(TaskId),
    Compaction(CompactionId),
    Action(ActionId),
    Grant(GrantId),
}

impl WhichObject {
    fn id(self) -> uuid::Uuid {
        match self {
            Self::Channel(id) => id.0,
            Self::Thread(id) => id.0,
            Self::Fork(id) => id.0,
            Self::ActionItem(id) => id.0,
            Self::Message(id) => id.0,
            Self::Task(id) => id.0,
            Self::Compaction(id) => id.0,
            Self::Action(id) => id.0,
            Self::Grant(id) => id.0,
        }
    }
}

/// Runs a command in the write queue of the object's workspace.
pub async fn write_for<T, E, F>(
    state: &State,
    object: WhichObject,
    command: F,
) -> Result<T, ApiError>
where
    T: Send + 'static,
    E: From<DbError> + Into<ApiError> + Send + 'static,
    F: AsyncFn(&mut Conn) -> Result<T, E> + Send + 'static,
{
    let key = if let Some(workspace) = state.workspaces.get(object.id()) {
        workspace
    } else {
        let found = workspace_key(&mut state.db.read().await?, object).await?;
        if !found.is_nil() {
            state.workspaces.insert(object.id(), found);
        }
        found
    };
    state.db.write(key, command).await.map_err(Into::into)
}

impl From<Conversation> for WhichObject {
    fn from(conversation: Conversation) -> Self {
        match conversation {
            Conversation::Thread(id) => Self::Thread(id),
            Conversation::Fork(id) => Self::Fork(id),
        }
    }
}
