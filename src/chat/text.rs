//! Texts of messages and replies, with the data derived from them.

use super::{
    ChatError,
    arrows::{self, Arrow},
    error::MESSAGE_BYTES_MAX,
    mentions::RawMention,
    plain,
    rows::message::MessageReview,
    search::index::SearchDocument,
};
use crate::{
    db::DbError,
    ids::{FileId, UserId},
    tasks::slow,
};

/// A validated text with the data derived from it; built outside of transactions.
#[derive(Debug, Clone)]
pub struct Text {
    pub content: String,
    pub plain: String,
    is_blank: bool,
    pub search_document: SearchDocument,
    pub mentions: Vec<RawMention>,
    pub(super) arrows: Vec<Arrow>,
    /// Attached files.
    pub files: Vec<FileId>,
    /// True if a mention of all members of the channel opens an inbox item.
    pub notifies_group: bool,
    /// The diff on whose lines the text comments.
    pub review: Option<MessageReview>,
}

impl Text {
    /// # Errors
    /// `Invalid` if the text is blank, or `MessageTooLong`.
    pub fn parse(content: String) -> Result<Self, ChatError> {
        Self::with_files(content, Vec::new())
    }

    /// A text with attached files; the text can be blank if there are any files.
    ///
    /// # Errors
    /// Same as `parse`.
    pub fn with_files(content: String, files: Vec<FileId>) -> Result<Self, ChatError> {
        let text = Self::maybe_blank(content, files)?;
        if text.files.is_empty() {
            text.require_words()?;
        }
        Ok(text)
    }

    /// The new text of an edited message; it can be blank, as the message may have files.
    ///
    /// # Errors
    /// `MessageTooLong`.
    pub fn edited(content: String) -> Result<Self, ChatError> {
        Self::maybe_blank(content, Vec::new())
    }

    pub(super) fn require_words(&self) -> Result<(), ChatError> {
        if self.is_blank {
            return Err(ChatError::Invalid(
                "the message is blank: write something".to_owned(),
                "content",
            ));
        }
        Ok(())
    }

    fn maybe_blank(content: String, files: Vec<FileId>) -> Result<Self, ChatError> {
        if content.len() > MESSAGE_BYTES_MAX {
            return Err(ChatError::MessageTooLong(content.len()));
        }
        if content.contains('\0') {
            return Err(ChatError::Invalid(
                "the message contains a NUL character: remove it".to_owned(),
                "content",
            ));
        }
        let plain::Shown { plain, is_blank } = plain::read(&content);
        let search_document = SearchDocument::of(&content, &plain);
        let mentions = super::mentions::parse(&content);
        let arrows = arrows::parse(&content, &mentions);
        Ok(Self {
            content,
            plain,
            is_blank,
            search_document,
            mentions,
            arrows,
            files,
            notifies_group: true,
            review: None,
        })
    }
}

/// Maximum size of a text whose data are derived on the current thread.
const SHORT_BYTES_MAX: usize = 4 * 1024;

/// The text of a finished reply with the data derived from it; built outside of transactions.
#[derive(Debug, Clone)]
pub struct ReplyText {
    pub(super) content: String,
    pub(super) plain: String,
    pub(super) is_blank: bool,
    pub(super) search_document: SearchDocument,
}

impl ReplyText {
    /// Markdown.
    pub fn content(&self) -> &str {
        &self.content
    }

    /// Derives the data of a text. For a long text, this takes several milliseconds, so call `of_long` outside of transactions.
    pub fn of(content: String) -> Self {
        let plain::Shown { plain, is_blank } = plain::read(&content);
        let search_document = SearchDocument::of(&content, &plain);
        Self {
            content,
            plain,
            is_blank,
            search_document,
        }
    }

    /// Like `of`, on a blocking thread if the text is long. `person` is the person for whom the task runs.
    ///
    /// # Errors
    /// If the server is stopping.
    pub async fn of_long(person: UserId, content: String) -> Result<Self, DbError> {
        if content.len() <= SHORT_BYTES_MAX {
            return Ok(Self::of(content));
        }
        let derived = slow::run(person, move |_| Self::of(content)).await;
        derived.map_err(|_| DbError::Closed)
    }
}
