//! Descriptions of files, for people who cannot see pictures and for models that cannot.

use super::{
    ChatError, access,
    messages::announce_update,
    rows::message::{get_message, set_attachments},
    search::index,
};
use crate::{
    agents::derived::{self, Change, SourceId},
    auth::{Caller, Scope},
    db::{Conn, DbError, Json, dialect},
    files::{self, Attachment, FileError, Stored},
    ids::{FileId, MessageId, WorkspaceId},
    realtime::log,
};

/// Maximum number of characters of a description.
pub const ALT_CHARS_MAX: usize = 1_000;

/// Checks a description; a blank one is none.
///
/// # Errors
/// `Invalid` for more than `ALT_CHARS_MAX` characters.
pub fn parse_alt(text: Option<&str>) -> Result<Option<String>, ChatError> {
    let text = text.map(str::trim).filter(|text| !text.is_empty());
    if text.is_some_and(|text| text.chars().count() > ALT_CHARS_MAX) {
        let error = format!("a description can have at most {ALT_CHARS_MAX} characters");
        return Err(ChatError::Invalid(error, "alt"));
    }
    Ok(text.map(str::to_owned))
}

/// Sets or removes the description of the caller's own file. Appends `message.updated` if the file is attached to a message.
///
/// # Errors
/// `File(NotFound)` for a file that the caller cannot see, `File(NotYours)`, `MessageDeleted`, or any error from `writing`.
pub async fn describe(
    c: &mut Conn,
    caller: &Caller,
    id: FileId,
    alt: Option<&str>,
) -> Result<Stored, ChatError> {
    let stored = files::find(c, id).await?.ok_or(FileError::NotFound)?;
    let is_own = stored.about.created_by == caller.user;
    let Some(message) = stored.message_id else {
        if !is_own {
            return Err(FileError::NotFound.into());
        }
        let entered = caller.enter(c, stored.workspace_id).await;
        entered?.require(Scope::ChatWrite)?;
        return set(c, stored, alt).await;
    };
    let access = match access::message(c, caller, message).await {
        Err(ChatError::MessageNotFound) => return Err(FileError::NotFound.into()),
        access => access?.writing()?,
    };
    if !is_own {
        return Err(FileError::NotYours.into());
    }
    dialect::lock_workspace(c, stored.workspace_id.0).await?;
    let stored = set(c, stored, alt).await?;
    set_in_message(c, stored.workspace_id, message, id, alt).await?;
    let message = get_message(c, message).await?;
    if message.deleted_at.is_some() {
        return Err(ChatError::MessageDeleted);
    }
    index::reindex_stored(c, message.id).await?;
    announce_update(c, &message, access.channel_access.audience()).await?;
    Ok(stored)
}

/// Stores the description, and removes the former one from the records of prompts.
async fn set(c: &mut Conn, mut stored: Stored, alt: Option<&str>) -> Result<Stored, ChatError> {
    let id = stored.about.id;
    files::set_alt(c, id, alt).await?;
    if stored.about.alt.is_some() {
        derived::changed(c, SourceId::File(id), Change::Rewritten).await?;
    }
    stored.about.alt = alt.map(str::to_owned);
    Ok(stored)
}

/// Stores the description in the message of the file, and in the events of that message.
async fn set_in_message(
    c: &mut Conn,
    workspace: WorkspaceId,
    message: MessageId,
    id: FileId,
    alt: Option<&str>,
) -> Result<(), DbError> {
    let (Json(mut attached),): (Json<Vec<Attachment>>,) = c
        .q("select attachments from messages where id = $1")
        .bind(message)
        .one()
        .await?;
    for file in attached.iter_mut().filter(|file| file.id == id) {
        file.alt = alt.map(str::to_owned);
    }
    set_attachments(c, message, attached).await?;
    let id = id.to_string();
    log::blank_message(c, workspace, message, |frame| {
        let attached = frame.pointer_mut("/data/message/attachments");
        let attached = attached.and_then(serde_json::Value::as_array_mut);
        for file in attached
            .into_iter()
            .flatten()
            .filter(|file| file["id"] == id)
        {
            file["alt"] = alt.into();
        }
        if let Some(file) = frame.pointer_mut("/data/file")
            && file["id"] == id
        {
            file["alt"] = alt.into();
        }
    })
    .await
}
