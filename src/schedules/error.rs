//! Schedule errors.

use super::{cron::CronError, row::Schedule};
use crate::{
    auth::AuthError,
    chat::ChatError,
    db::DbError,
    http::{ApiError, ErrorCode, error::StatusCode},
    workflows::WorkflowError,
};

#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    #[error("the schedule does not exist, or you cannot read its channel")]
    NotFound,
    #[error("only the owner can change a schedule; admins can pause and delete it")]
    NotYours,
    #[error("an admin paused this schedule: ask an admin to resume it")]
    PausedByAdmin,
    #[error("a workspace can have at most {0} schedules: delete one first")]
    TooMany(i64),
    #[error("a person can have at most {0} schedules: delete one first")]
    TooManyOwn(i64),
    #[error(
        "you, or the API key that wrote the prompt, can no longer post in its channel or ask its agent: change the schedule first"
    )]
    NotAllowed,
    #[error("the previous run of this schedule has not ended yet: wait for it, or stop it")]
    StillRunning,
    #[error("the time zone `{0}` is unknown: use an IANA name such as `Europe/Berlin`")]
    UnknownZone(String),
    /// The slots are too close together; contains the minimum interval in minutes.
    #[error("some of the next times are less than {0} minutes apart: choose fewer")]
    TooFrequent(i64),
    #[error("this time does not occur within the next five years: choose another one")]
    NeverRuns,
    /// An invalid value; contains the message and the field.
    #[error("{0}")]
    Invalid(String, &'static str),
    /// JSON with a wrong structure; contains the message and the field.
    #[error("{0}")]
    Malformed(String, &'static str),
    #[error(
        "the schedule has changed since you loaded it: reload it, reapply your change, and send it again"
    )]
    Stale(Box<Schedule>),
    #[error(transparent)]
    Cron(#[from] CronError),
    #[error(transparent)]
    Chat(#[from] ChatError),
    #[error(transparent)]
    Workflow(#[from] WorkflowError),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<ScheduleError> for ApiError {
    fn from(error: ScheduleError) -> Self {
        use ScheduleError as E;
        let text = error.to_string();
        let make = |status, code| ApiError::new(status, code, text.clone());
        match error {
            E::NotFound => make(StatusCode::NOT_FOUND, ErrorCode::ScheduleNotFound),
            E::NotYours | E::PausedByAdmin => make(StatusCode::FORBIDDEN, ErrorCode::NotYours),
            E::TooMany(_) | E::TooManyOwn(_) => {
                make(StatusCode::CONFLICT, ErrorCode::TooManySchedules)
            }
            E::NotAllowed => make(StatusCode::CONFLICT, ErrorCode::NotActive),
            E::StillRunning => make(StatusCode::CONFLICT, ErrorCode::StillRunning),
            E::UnknownZone(_) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidValue).param("timezone")
            }
            E::TooFrequent(_) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::TooFrequent).param("cron")
            }
            E::NeverRuns => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::NeverRuns).param("cron")
            }
            E::Cron(_) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidValue).param("cron")
            }
            E::Invalid(_, param) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidValue).param(param)
            }
            E::Malformed(text, param) => ApiError::malformed_field(text, param),
            E::Stale(current) => make(StatusCode::CONFLICT, ErrorCode::VersionConflict)
                .param("If-Match")
                .with_current(&current),
            E::Chat(e) => e.into(),
            E::Workflow(e) => e.into(),
            E::Auth(e) => e.into(),
            E::Db(e) => e.into(),
        }
    }
}
