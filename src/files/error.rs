use super::ATTACHMENTS_MAX;
use crate::{auth::AuthError, db::DbError};

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("the file does not exist, or you don't have access to it")]
    NotFound,
    #[error("the file is already in use by a message or as an agent's picture")]
    InUse,
    #[error("only the uploader can delete a file")]
    NotYours,
    #[error("the file is larger than the limit of {0} bytes: make it smaller")]
    TooLarge(u64),
    #[error("the file is empty: choose another one")]
    Empty,
    #[error("could not parse the upload: {0}")]
    Multipart(String),
    #[error("the upload was slower than 64 KiB per 30 s: try again over a faster connection")]
    TooSlow,
    #[error("a message can have at most {ATTACHMENTS_MAX} files; this one has {0}")]
    TooMany(usize),
    #[error("a file is attached twice: attach each file only once")]
    Twice,
    #[error("the file is not an image: upload a PNG, JPEG, GIF, WebP, or AVIF")]
    NoImage,
    #[error("the file could not be stored: {0}")]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Db(#[from] DbError),
}
