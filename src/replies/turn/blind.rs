//! The notice that a model cannot see pictures.

use crate::{
    chat::{messages::MessageKind, post},
    db::{Conn, DbError},
    tasks::{Lease, Task, TaskKind},
};

/// Number of a conversation's newest messages among which the notice is not repeated.
const NOT_REPEATED_WITHIN: i64 = 1_000;

/// Text of the notice.
pub(super) fn notice_text(model: &str) -> String {
    format!("{model} cannot see pictures. An admin can choose a model that can.")
}

/// Posts the notice after a reply, unless the conversation has it already.
pub(super) async fn insert_notice(
    c: &mut Conn,
    task: &Task,
    lease: &Lease,
    text: &str,
) -> Result<(), DbError> {
    if task.kind != TaskKind::Reply || task.run_id.is_some() {
        return Ok(());
    }
    let count: i64 = c
        .q("select count(*) from (select kind, content from messages where conversation_id = $1 order by seq desc limit $2) m \
            where m.kind = $3 and m.content = $4")
        .bind(lease.target.conversation().id())
        .bind(NOT_REPEATED_WITHIN)
        .bind(MessageKind::Notice)
        .bind(text.to_owned())
        .value()
        .await?;
    if count == 0 {
        let trigger = task.trigger_message_id;
        post::insert_notice(c, lease.into(), lease.audience, trigger, text.to_owned()).await?;
    }
    Ok(())
}
