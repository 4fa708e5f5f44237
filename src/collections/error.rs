//! Errors of collections.

use serde_json::Value;

use crate::{
    auth::AuthError,
    chat::ChatError,
    db::DbError,
    files::FileError,
    http::{ApiError, ErrorCode, error::StatusCode},
};

#[derive(Debug, thiserror::Error)]
pub enum CollectionError {
    #[error("the vector store does not exist, or you don't have access to it")]
    NotFound,
    #[error(
        "the vector store expired because it was not used for {0} days: change `expires_after`"
    )]
    Expired(i64),
    #[error("the file is not in this vector store")]
    FileNotFound,
    #[error("the batch does not exist")]
    BatchNotFound,
    #[error("only {0} can change this vector store")]
    NotEditor(&'static str),
    /// With the current vector store.
    #[error("the vector store has changed since you loaded it: reload it, and reapply your change")]
    Stale(Box<Value>),
    #[error("another vector store has the handle `{0}`: choose another one")]
    HandleTaken(String),
    #[error("a workspace can have at most {0} vector stores: delete one first")]
    TooMany(i64),
    #[error("a vector store can have at most {0} files: remove some first")]
    TooManyFiles(i64),
    #[error(
        "the files of this workspace have {0} passages, which is the limit: delete files first"
    )]
    TooManyPassages(i64),
    #[error("{0} files are missing: send them, and repeat the request")]
    SyncIncomplete(usize),
    #[error("a vector store can have at most {0} web pages: remove one first")]
    TooManyUrls(i64),
    #[error("{0}")]
    Invalid(String, &'static str),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Chat(#[from] ChatError),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Db(#[from] DbError),
}

impl CollectionError {
    /// Checks for errors of the database, after which a transaction may have been committed.
    pub fn is_of_database(&self) -> bool {
        match self {
            Self::Db(_) | Self::Auth(AuthError::Db(_)) => true,
            Self::File(e) => e.is_of_database(),
            Self::Chat(e) => e.is_of_database(),
            _ => false,
        }
    }
}

impl From<CollectionError> for ApiError {
    fn from(error: CollectionError) -> Self {
        use CollectionError as E;
        let text = error.to_string();
        let make = |status, code| ApiError::new(status, code, text);
        match error {
            E::NotFound | E::Expired(_) => {
                make(StatusCode::NOT_FOUND, ErrorCode::VectorStoreNotFound)
            }
            E::FileNotFound => make(StatusCode::NOT_FOUND, ErrorCode::FileNotFound),
            E::BatchNotFound => make(StatusCode::NOT_FOUND, ErrorCode::BatchNotFound),
            E::NotEditor(_) => make(StatusCode::FORBIDDEN, ErrorCode::NotEditor),
            E::Stale(current) => make(StatusCode::CONFLICT, ErrorCode::VersionConflict)
                .param("If-Match")
                .with_current(&current),
            E::HandleTaken(_) => make(StatusCode::CONFLICT, ErrorCode::HandleTaken).param("handle"),
            E::TooMany(_) => make(StatusCode::CONFLICT, ErrorCode::TooManyCollections),
            E::TooManyFiles(_) => make(StatusCode::CONFLICT, ErrorCode::TooManyFiles),
            E::TooManyPassages(_) => make(StatusCode::CONFLICT, ErrorCode::TooManyPassages),
            E::SyncIncomplete(_) => make(StatusCode::CONFLICT, ErrorCode::SyncIncomplete),
            E::TooManyUrls(_) => make(StatusCode::CONFLICT, ErrorCode::TooManyUrls),
            E::Invalid(_, param) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidValue).param(param)
            }
            E::File(e) => e.into(),
            E::Chat(e) => e.into(),
            E::Auth(e) => e.into(),
            E::Db(e) => e.into(),
        }
    }
}
