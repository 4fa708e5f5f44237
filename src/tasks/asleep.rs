//! Restored copies, in which nothing runs by itself until the operator or an admin starts it: otherwise a copy that was made to try a
//! backup would act beside the real server. Messages of people are answered.
//!
//! `db::dump` makes a copy asleep: it parks all tasks, and stores the key `asleep` in `meta`.

use uuid::Uuid;

use super::queue::Wake;
use crate::{
    db::{Conn, Db, DbError},
    text_enum::text_enum,
};

text_enum! {
    /// Whether agents act on this server.
    pub enum AgentsState {
        Running = "running",
        /// The data was restored. Schedules, workflows of messages, and interrupted tasks wait for `openvibe resume`.
        Asleep = "asleep",
        /// A quiet copy (`OPENVIBE_QUIET=on`): no task runs.
        Quiet = "quiet",
    }
}

/// Checks whether this is a restored copy that nobody has started yet.
///
/// # Errors
/// Only database errors.
pub async fn is_asleep(c: &mut Conn) -> Result<bool, DbError> {
    let key = c
        .q("select key from meta where key = 'asleep'")
        .opt::<(String,)>()
        .await?;
    Ok(key.is_some())
}

/// Starts a restored copy. Returns the number of tasks that continue, or `None` if it was not asleep.
///
/// # Errors
/// Only database errors.
pub async fn resume(db: &Db) -> Result<Option<u64>, DbError> {
    db.write(Uuid::nil(), async |c: &mut Conn| {
        let was_asleep = c.q("delete from meta where key = 'asleep'").run().await? > 0;
        if !was_asleep {
            return Ok(None);
        }
        let tasks = c
            .q("update tasks set parked = FALSE, wait_reason = null where status = 'queued' and parked and wait_reason = 'asleep'")
            .run()
            .await?;
        c.notify(Box::new(Wake));
        Ok(Some(tasks))
    })
    .await
}
