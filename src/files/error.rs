use super::ATTACHMENTS_MAX;
use crate::{auth::AuthError, db::DbError};

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("the file does not exist, or you may not see it")]
    NotFound,
    #[error("the file is in use: a message, or an agent's picture, has it already")]
    InUse,
    #[error("only who uploaded a file can delete it")]
    NotYours,
    #[error("the file is larger than {0} bytes, the most that is taken here: make it smaller")]
    TooLarge(u64),
    #[error("the file is empty: choose another one")]
    Empty,
    #[error("the upload is not understood: {0}")]
    Multipart(String),
    #[error("the upload was slower than 64 KiB in 30 s: try again over a faster connection")]
    TooSlow,
    #[error("a message takes at most {ATTACHMENTS_MAX} files; this one names {0}")]
    TooMany(usize),
    #[error("a file is named twice: name each once")]
    Twice,
    #[error("the file is no image: upload a PNG, JPEG, GIF, WebP or AVIF")]
    NoImage,
    #[error("the file could not be stored: {0}")]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Db(#[from] DbError),
}
