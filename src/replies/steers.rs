//! Messages that steer a reply, as its model reads them: like the trigger message, with the texts of their files.

use super::{
    attached::{self, FileQuestion, READ_WITHIN, ReadableFile, TEXT_BYTES_MAX},
    history::told,
    prompt::{Attached, SteerTexts, TextFile},
};
use crate::{
    chat::{messages::MessageMetadata, search::passages::find::FileReader},
    db::{Conn, Db, DbError, Json},
    files::{Attachment, Blobs},
    ids::{ApiKeyId, MessageId, TaskId},
    tasks::{Task, steers::note_of},
};

#[derive(sqlx::FromRow)]
struct Row {
    round: i64,
    id: MessageId,
    content: String,
    attachments: Json<Vec<Attachment>>,
    metadata: Json<MessageMetadata>,
    is_deleted: bool,
}

/// A message that the model reads after a round.
pub(super) struct Steer {
    /// Round that the message follows; 0 for the trigger message.
    pub round: i64,
    pub message: MessageId,
    /// `None` if the message was deleted.
    pub texts: Option<SteerTexts>,
    /// The text as typed, if the requester posted it in a browser.
    pub typed: Option<String>,
    /// API key with which the message was posted.
    pub api_key: Option<ApiKeyId>,
    /// Note of the calls that were denied because of the message.
    pub note: Option<String>,
}

/// Loads the messages that are part of a task's further model calls, oldest first. Waits for the files of those that follow the newest
/// round for as long as for the files of a trigger message.
pub(super) async fn load(db: &Db, blobs: &Blobs, task: &Task) -> Result<Vec<Steer>, DbError> {
    let rows = rows(&mut db.read().await?, task.id).await?;
    let with_files = rows
        .iter()
        .filter(|row| row.round == task.round && !row.attachments.0.is_empty());
    let with_files: Vec<MessageId> = with_files.map(|row| row.id).collect();
    let waiting = async {
        for message in with_files {
            attached::wait_for_texts(db, message).await?;
        }
        Ok::<_, DbError>(())
    };
    // Files that have not been read by then are listed as unreadable.
    if let Ok(waited) = tokio::time::timeout(READ_WITHIN, waiting).await {
        waited?;
    }
    let mut found = Vec::with_capacity(rows.len());
    // Newer messages are more likely to need their files.
    let mut room = usize::try_from(TEXT_BYTES_MAX).unwrap_or_default();
    for row in rows.into_iter().rev() {
        let files = read_files(db, blobs, task, &row, &mut room).await?;
        found.push(row.steer(&files));
    }
    found.reverse();
    Ok(found)
}

async fn rows(c: &mut Conn, task: TaskId) -> Result<Vec<Row>, DbError> {
    c.q("select s.round, m.id, m.content, m.attachments, m.metadata, m.deleted_at is not null as is_deleted \
         from task_steers s join messages m on m.id = s.message_id where s.task_id = $1 and s.round is not null \
         order by m.seq limit 100")
        .bind(task)
        .all()
        .await
}

/// Reads the files of a message, as far as there is room for them.
async fn read_files(
    db: &Db,
    blobs: &Blobs,
    task: &Task,
    row: &Row,
    room: &mut usize,
) -> Result<Vec<TextFile>, DbError> {
    if row.attachments.0.is_empty() {
        return Ok(Vec::new());
    }
    let reader = FileReader {
        workspace: task.workspace_id,
        user: task.requested_by,
        shared_in: None,
    };
    let of = FileQuestion {
        reader,
        question: row.content.as_str().into(),
    };
    let mut c = db.read().await?;
    let readable: Vec<ReadableFile> = attached::readable(&mut c, &of, &row.attachments.0).await?;
    drop(c);
    let mut files = attached::texts(blobs, &readable).await;
    files.retain(|file| {
        let rest = room.checked_sub(file.text.len());
        *room = rest.unwrap_or(*room);
        rest.is_some()
    });
    Ok(files)
}

impl Row {
    fn steer(self, files: &[TextFile]) -> Steer {
        let attachments: Vec<Attached> = told(self.attachments.0);
        let api_key = self.metadata.0.api_key_id;
        let is_typed = api_key.is_none() && !self.is_deleted;
        Steer {
            round: self.round,
            message: self.id,
            texts: (!self.is_deleted).then(|| SteerTexts::of(&self.content, &attachments, files)),
            note: note_of(&self.content),
            api_key,
            typed: is_typed.then_some(self.content),
        }
    }
}
