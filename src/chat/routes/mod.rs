//! Chat over HTTP: a file per noun, and what they share.

mod boot;
mod channels;
mod messages;
mod tasks;
mod threads;

use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;

pub use messages::say;
pub use tasks::visible_task;
pub use threads::{mark_read, start};

use super::{ChatError, post::Posted};
use crate::{
    db::{Conn, Engine},
    http::{ApiError, State},
    ids::{ChannelId, MessageId, TaskId, ThreadId},
};

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .merge(boot::router())
        .merge(channels::router())
        .merge(threads::router())
        .merge(messages::router())
        .merge(tasks::router())
}

/// A resend changes nothing and is answered with 200.
fn status_of(posted: &Posted) -> StatusCode {
    if posted.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    }
}

/// The workspace whose writer an object's commands go to; nil when the object does not exist.
async fn workspace_key(c: &mut Conn, sql: WhichObject) -> Result<uuid::Uuid, ApiError> {
    let row: Option<(uuid::Uuid,)> = match sql {
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
        WhichObject::Message(id) => {
            c.q("select workspace_id from messages where id = $1")
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

#[derive(Clone, Copy)]
enum WhichObject {
    Channel(ChannelId),
    Thread(ThreadId),
    Message(MessageId),
    Task(TaskId),
}

/// Runs a command in the queue of the object's workspace.
async fn write_for<T, F>(state: &State, object: WhichObject, command: F) -> Result<T, ApiError>
where
    T: Send + 'static,
    F: AsyncFn(&mut Conn) -> Result<T, ChatError> + Send + 'static,
{
    let key = match state.db.engine() {
        Engine::Sqlite => uuid::Uuid::nil(),
        Engine::Postgres => workspace_key(&mut state.db.read().await?, object).await?,
    };
    Ok(state.db.write(key, command).await?)
}
