use crate::{agents::AgentError, auth::AuthError, db::DbError, files::FileError};

/// UTF-8 bytes of a message (PROTOCOL §1).
pub(super) const MESSAGE_BYTES_MAX: usize = 32 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    #[error("the channel does not exist, or you are not in it")]
    ChannelNotFound,
    #[error("the thread does not exist, or you are not in its channel")]
    ThreadNotFound,
    #[error("the deep dive does not exist, or you are not in its channel")]
    ForkNotFound,
    #[error("the deep dive is resolved or abandoned: reopen it first")]
    ForkClosed,
    #[error("the message does not exist, or you are not in its channel")]
    MessageNotFound,
    #[error("the task does not exist, or you are not in its channel")]
    TaskNotFound,
    #[error("a channel named `{0}` exists already: choose another name")]
    NameTaken(String),
    #[error("{0}")]
    Invalid(String, &'static str),
    /// Of a search.
    #[error("{0}")]
    InvalidQuery(String, &'static str),
    #[error(
        "the message is {0} bytes; the limit is {MESSAGE_BYTES_MAX}: shorten it or split it up"
    )]
    MessageTooLong(usize),
    #[error("a message can ask at most 8 agents; this one names {0}")]
    TooManyAgents(usize),
    #[error("only members of a channel can follow or mute its threads: join the channel first")]
    NotJoined,
    #[error("a thread can have at most {0} followers")]
    TooManyFollowers(i64),
    #[error("the channel is archived: unarchive it first")]
    ChannelArchived,
    #[error("the thread is archived: open it first")]
    ThreadArchived,
    #[error("the client_id was used for something else: a new create takes a new client_id")]
    ClientIdReused,
    #[error("only who wrote a message can edit it")]
    NotYours,
    #[error("only who wrote a message, or an admin, can delete it")]
    NotYoursToDelete,
    #[error("the message was deleted")]
    MessageDeleted,
    #[error("a notice or a reply that is still being written cannot be edited")]
    NotEditable,
    #[error("people of a direct channel stay as they are: start another one")]
    DirectIsFixed,
    #[error("{0} has left this workspace and can't read messages here.")]
    MemberLeft(String),
    #[error("member {0} is not in this workspace")]
    NoSuchMember(String),
    #[error("agent {0} does not exist in this workspace")]
    NoSuchAuthor(String),
    #[error("agent {0} does not exist in this workspace, or is not active")]
    NoSuchAgent(String),
    #[error("the task has ended or still runs: only failed and cancelled tasks can be tried again")]
    NotRetryable,
    #[error("the task was tried again already")]
    AlreadyRetried,
    #[error("only who asked, or an admin, can try a task again")]
    NotYoursToRetry,
    #[error("the message that asked was deleted")]
    TriggerDeleted,
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Db(#[from] DbError),
}
