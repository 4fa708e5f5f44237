use crate::{
    auth::AuthError,
    db::DbError,
    http::error::{ApiError, ErrorCode, StatusCode},
    storage::BucketError,
};

/// Maximum number of files attached to a message.
pub const ATTACHMENTS_MAX: usize = 10;

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("the file does not exist, or you don't have access to it")]
    NotFound,
    #[error("the text of the file has no such part: `parts` is the number of parts")]
    NoSuchPart,
    #[error("the file is already attached to a message or used as a picture")]
    InUse,
    #[error("the file is in a message or used as a picture, so it cannot be deleted alone")]
    Attached,
    #[error("only the uploader can delete or describe a file")]
    NotYours,
    #[error("the file is larger than the limit of {0} bytes: make it smaller")]
    TooLarge(u64),
    #[error("could not parse the upload: {0}")]
    Multipart(String),
    #[error("the upload was slower than 64 KiB per 30 s: try again over a faster connection")]
    TooSlow,
    #[error("too many bytes are being uploaded: try again when other uploads have ended")]
    InProgress,
    #[error(
        "uploads in progress use up the storage of the workspace: try again when they have ended"
    )]
    WorkspaceFull,
    #[error("the upload took too long, so its bytes were removed: upload the file again")]
    Expired,
    #[error("the stored file is damaged or missing: upload it again")]
    Damaged,
    #[error("a message can have at most {ATTACHMENTS_MAX} files; this one has {0}")]
    TooMany(usize),
    #[error("a file is attached twice: attach each file only once")]
    Twice,
    #[error("the file is not an image: upload a PNG, JPEG, GIF, WebP, or AVIF")]
    NoImage,
    #[error("the file cannot be the picture: {0}")]
    UnfitPicture(&'static str),
    #[error("the file could not be stored: {0}")]
    Io(#[from] std::io::Error),
    #[error("the file could not be stored in S3: {0}")]
    Bucket(#[from] BucketError),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Db(#[from] DbError),
}

impl FileError {
    /// Checks for errors of the database, after which a transaction may have been committed.
    pub fn is_of_database(&self) -> bool {
        matches!(self, Self::Db(_) | Self::Auth(AuthError::Db(_)))
    }
}

impl From<FileError> for ApiError {
    fn from(e: FileError) -> Self {
        use FileError as E;
        let text = e.to_string();
        let make = |status, code| ApiError::new(status, code, text);
        match e {
            E::NotFound => make(StatusCode::NOT_FOUND, ErrorCode::FileNotFound),
            E::NoSuchPart => make(StatusCode::NOT_FOUND, ErrorCode::PartNotFound).param("part"),
            E::InUse => make(StatusCode::CONFLICT, ErrorCode::FileInUse),
            E::Attached => make(StatusCode::CONFLICT, ErrorCode::InUse),
            E::NotYours => make(StatusCode::FORBIDDEN, ErrorCode::NotYours),
            E::TooLarge(_) => {
                make(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::FileTooLarge).param("file")
            }
            E::Multipart(_) => {
                make(StatusCode::BAD_REQUEST, ErrorCode::InvalidMultipart).param("file")
            }
            E::TooSlow | E::Expired => make(StatusCode::BAD_REQUEST, ErrorCode::UploadTooSlow),
            E::InProgress | E::WorkspaceFull => ApiError::used_up("upload_bytes", e.to_string()),
            E::TooMany(_) => make(
                StatusCode::UNPROCESSABLE_ENTITY,
                ErrorCode::TooManyAttachments,
            )
            .param("attachments"),
            E::Twice => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidValue).param("attachments")
            }
            E::NoImage => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::NoImage).param("avatar.file_id")
            }
            E::UnfitPicture(_) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidValue).param("file_id")
            }
            E::Io(e) => {
                tracing::error!(error = %e, "could not store or read a file");
                if e.kind() == std::io::ErrorKind::StorageFull {
                    return ApiError::disk_full();
                }
                ApiError::unavailable("could not store or read the file: try again in a moment")
                    .logged()
            }
            E::Bucket(e) => {
                tracing::error!(error = %e, "could not store, read, or delete a file in S3");
                ApiError::unavailable(
                    "the file storage of the server does not respond: try again in a moment",
                )
                .logged()
            }
            E::Damaged => ApiError::internal(),
            E::Auth(e) => e.into(),
            E::Db(e) => e.into(),
        }
    }
}
