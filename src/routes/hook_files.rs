//! Files of requests to webhooks: parts of a form, and texts that are longer than a message.

use std::convert::Infallible;

use axum::body::Bytes;
use futures::stream;

use crate::{
    files::{ATTACHMENTS_MAX, Kind, NewFile, Published, clean_name},
    hooks::HookFault,
    http::ApiError,
    ids::FileId,
    server::State,
};

/// A file of a request.
pub(super) struct SentFile {
    pub(super) name: String,
    pub(super) bytes: Bytes,
}

/// A form with files, and its members as a form without them.
pub(super) struct SentForm {
    pub(super) members: String,
    pub(super) files: Vec<SentFile>,
}

impl SentForm {
    /// Reads a form. Without a text, it has the name of the first file as its text.
    ///
    /// # Errors
    /// `InvalidPayload`, or `TooManyAttachments`.
    pub(super) async fn read(boundary: String, bytes: Bytes) -> Result<Self, HookFault> {
        let body = stream::once(std::future::ready(Ok::<_, Infallible>(bytes)));
        let mut parts = multer::Multipart::new(body, boundary);
        let (mut members, mut files) = (Vec::new(), Vec::new());
        let invalid = |_| HookFault::InvalidPayload;
        while let Some(part) = parts.next_field().await.map_err(invalid)? {
            let name = part.name().unwrap_or_default().to_owned();
            let file = part.file_name().map(clean_name);
            let bytes = part.bytes().await.map_err(invalid)?;
            if let Some(name) = file {
                if files.len() >= ATTACHMENTS_MAX {
                    return Err(HookFault::TooManyAttachments);
                }
                if !bytes.is_empty() {
                    files.push(SentFile { name, bytes });
                }
                continue;
            }
            let text = std::str::from_utf8(&bytes).map_err(|_| HookFault::InvalidPayload)?;
            members.push((name, text.to_owned()));
        }
        let is_text =
            |(name, _): &(String, String)| matches!(name.as_str(), "text" | "title" | "payload");
        if let Some(first) = files.first().filter(|_| !members.iter().any(is_text)) {
            members.push(("text".to_owned(), first.name.clone()));
        }
        let members = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(members)
            .finish();
        Ok(Self { members, files })
    }
}

/// Stores the bytes of files, whose rows are inserted with the message.
pub(super) async fn publish(
    state: &State,
    files: Vec<SentFile>,
) -> Result<(Vec<Published>, Vec<NewFile>), ApiError> {
    let (mut published, mut rows) = (Vec::new(), Vec::new());
    if files.is_empty() {
        return Ok((published, rows));
    }
    state.disk.check().await?;
    for file in files {
        let mut incoming = state.blobs.begin(None).await?;
        incoming.write(&file.bytes).await?;
        let whole = incoming.finish().await?;
        let kind = Kind::of(&whole.head, &file.name);
        let stored = state.blobs.publish(whole).await?;
        rows.push(NewFile {
            id: FileId::new(),
            blob: stored.reference(),
            name: file.name,
            kind,
            client_id: None,
            purpose: None,
        });
        published.push(stored);
    }
    Ok((published, rows))
}
