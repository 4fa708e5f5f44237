//! Texts derived from messages and people, and their removal when the source changes.
//!
//! Each derived text cites its sources in the same transaction (`citations`), so that a change finds every such text
//! by an index, regardless of the thread or fork in which it was used.

use uuid::Uuid;

use crate::{
    db::{Conn, DbError},
    ids::{MessageId, UserId},
};

/// Replaces a text whose source was deleted.
pub const DELETED: &str = "(deleted)";
/// Replaces a text whose source was rewritten.
pub const REWRITTEN: &str = "(changed)";

/// Source of a derived text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceId {
    Message(MessageId),
    /// A text that contains the person's name.
    User(UserId),
}

impl SourceId {
    /// Value of the columns `source_type`.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Message(_) => "message",
            Self::User(_) => "user",
        }
    }

    pub fn uuid(self) -> Uuid {
        match self {
            Self::Message(id) => id.0,
            Self::User(id) => id.0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The server replaced the text, and the old one must not be kept. Edits by people leave records as they were sent.
    Rewritten,
    Deleted,
}

/// Removes the source's text from everything that was derived from it. Costs at most two indexed statements: texts
/// are shared, so the number of tasks that used them does not matter.
pub async fn changed(c: &mut Conn, source: SourceId, change: Change) -> Result<(), DbError> {
    match change {
        Change::Rewritten => {
            c.q("update context_texts set text = $3, hash = null where hash is not null and id in \
                 (select owner_id from citations where source_type = $1 and source_id = $2 and owner_type = 'context_text')")
                .bind(source.kind())
                .bind(source.uuid())
                .bind(REWRITTEN)
                .run()
                .await?;
        }
        Change::Deleted => {
            c.q("update context_texts set text = $3, hash = null where id in \
                 (select owner_id from citations where source_type = $1 and source_id = $2 and owner_type = 'context_text')")
                .bind(source.kind())
                .bind(source.uuid())
                .bind(DELETED)
                .run()
                .await?;
            c.q("delete from citations where source_type = $1 and source_id = $2")
                .bind(source.kind())
                .bind(source.uuid())
                .run()
                .await?;
        }
    }
    Ok(())
}
