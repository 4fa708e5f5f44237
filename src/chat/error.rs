use crate::{
    agents::AgentError,
    auth::AuthError,
    db::DbError,
    files::FileError,
    http::error::{ApiError, ErrorCode, StatusCode},
    tasks::steers::STEERS_MAX,
};

/// Maximum message size in UTF-8 bytes.
pub(super) const MESSAGE_BYTES_MAX: usize = 32 * 1024;
/// Maximum number of links in a chain.
pub(super) const CHAIN_LINKS_MAX: usize = 5;

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
    #[error("a channel named `{0}` already exists: choose another name")]
    NameTaken(String),
    #[error("an emoji named `{0}` already exists: choose another name")]
    EmojiTaken(String),
    #[error("the emoji does not exist")]
    EmojiNotFound,
    #[error("only the person who added an emoji or an admin can delete it")]
    NotYourEmoji,
    #[error("{0}")]
    Invalid(String, &'static str),
    /// An invalid search parameter.
    #[error("{0}")]
    InvalidQuery(String, &'static str),
    #[error(
        "the message is {0} bytes; the limit is {MESSAGE_BYTES_MAX}: shorten it or split it up"
    )]
    MessageTooLong(usize),
    #[error("a message can mention at most 8 agents, but this one mentions {0}: remove some")]
    TooManyAgents(usize),
    #[error("a chain can have at most {CHAIN_LINKS_MAX} agents, but this one has {0}: remove some")]
    ChainTooLong(usize),
    #[error("a conversation can have at most {0} followers")]
    TooManyFollowers(i64),
    #[error(
        "set `until` to a time from 1 minute to 1 year from now for `later`, and omit it otherwise"
    )]
    UntilRequired,
    #[error("an approval cannot be marked as done: approve or deny the action")]
    DecideFirst,
    #[error("you can save at most {0} messages: remove some")]
    TooManySaved(i64),
    #[error("the channel is archived: unarchive it first")]
    ChannelArchived,
    #[error("the thread is archived: unarchive it first")]
    ThreadArchived,
    #[error("the client_id was already used for another request: use a new one")]
    ClientIdReused,
    #[error("only the author can edit a message")]
    NotYours,
    #[error("only the author or an admin can delete a message")]
    NotYoursToDelete,
    #[error("only your own chats with an agent can be deleted: archive the thread instead")]
    NotDeletable,
    #[error("only chats of one person with an agent have variants: post the message again instead")]
    NotAChat,
    #[error("only your own messages can be run again")]
    NotYoursToRunAgain,
    #[error("in a variant, only its first message can be run again: use the first chat")]
    InVariant,
    #[error("a message can be run again at most {0} times: delete a variant")]
    TooManyVariants(i64),
    #[error("a chat can have at most {0} variants: delete one, or start a new chat")]
    TooManyVariantsOfChat(i64),
    #[error("the message was deleted")]
    MessageDeleted,
    #[error("notices and unfinished replies cannot be edited")]
    NotEditable,
    #[error(
        "a direct message can't be renamed or archived, and its people can't change: start a new one"
    )]
    DirectIsFixed,
    #[error("{0} has left this workspace and can't read messages here")]
    MemberLeft(String),
    #[error("member {0} is not in this workspace")]
    NoSuchMember(String),
    #[error("agent {0} does not exist in this workspace")]
    NoSuchAuthor(String),
    #[error("agent {0} does not exist in this workspace, or is not active")]
    NoSuchAgent(String),
    #[error("only failed and canceled tasks can be retried")]
    NotRetryable,
    #[error("a task that another one started cannot be retried: retry the first task")]
    NotRoot,
    #[error("the task was already retried")]
    AlreadyRetried,
    #[error("only the requester or an admin can retry a task")]
    NotYoursToRetry,
    #[error("`steer` is not a reply of an agent in this conversation")]
    NoSuchReply,
    #[error("only the requester can steer a reply: post the message without `steer`")]
    NotRequester,
    #[error("the reply has ended: post the message without `steer`")]
    TaskEnded,
    #[error(
        "a reply can be steered with at most {STEERS_MAX} messages: post the message without `steer`"
    )]
    TooManySteers,
    #[error("the message that started the task was deleted")]
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

impl ChatError {
    /// Checks for errors of the database, after which a transaction may have been committed.
    pub fn is_of_database(&self) -> bool {
        match self {
            Self::Db(_) | Self::Auth(AuthError::Db(_)) => true,
            Self::File(e) => e.is_of_database(),
            _ => false,
        }
    }
}

impl From<ChatError> for ApiError {
    fn from(e: ChatError) -> Self {
        use ChatError as E;
        let text = e.to_string();
        let make = |status, code| ApiError::new(status, code, text);
        match e {
            E::ChannelNotFound => make(StatusCode::NOT_FOUND, ErrorCode::ChannelNotFound),
            E::ThreadNotFound => make(StatusCode::NOT_FOUND, ErrorCode::ThreadNotFound),
            E::ForkNotFound => make(StatusCode::NOT_FOUND, ErrorCode::ForkNotFound),
            E::ForkClosed => make(StatusCode::CONFLICT, ErrorCode::ForkClosed),
            E::MessageNotFound => make(StatusCode::NOT_FOUND, ErrorCode::MessageNotFound),
            E::TaskNotFound => make(StatusCode::NOT_FOUND, ErrorCode::TaskNotFound),
            E::NoSuchMember(_) => make(StatusCode::NOT_FOUND, ErrorCode::MemberNotFound),
            E::NoSuchAgent(_) => {
                make(StatusCode::NOT_FOUND, ErrorCode::AgentNotFound).param("agent_id")
            }
            E::NoSuchAuthor(_) => {
                make(StatusCode::NOT_FOUND, ErrorCode::AgentNotFound).param("author_id")
            }
            E::NameTaken(_) | E::EmojiTaken(_) => {
                make(StatusCode::CONFLICT, ErrorCode::NameTaken).param("name")
            }
            E::EmojiNotFound => make(StatusCode::NOT_FOUND, ErrorCode::EmojiNotFound),
            E::Invalid(_, "cursor") => {
                make(StatusCode::BAD_REQUEST, ErrorCode::InvalidCursor).param("cursor")
            }
            E::Invalid(_, param) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidValue).param(param)
            }
            E::InvalidQuery(_, param) => {
                make(StatusCode::BAD_REQUEST, ErrorCode::InvalidQuery).param(param)
            }
            E::MessageTooLong(_) => {
                make(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::MessageTooLong).param("content")
            }
            E::TooManyAgents(_) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::TooManyAgents).param("content")
            }
            E::ChainTooLong(_) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::ChainTooLong).param("content")
            }
            E::ChannelArchived => make(StatusCode::CONFLICT, ErrorCode::ChannelArchived),
            E::ThreadArchived => make(StatusCode::CONFLICT, ErrorCode::ThreadArchived),
            E::ClientIdReused => {
                make(StatusCode::CONFLICT, ErrorCode::ClientIdReused).param("client_id")
            }
            E::NotYours
            | E::NotYoursToDelete
            | E::NotYoursToRetry
            | E::NotYoursToRunAgain
            | E::NotYourEmoji => make(StatusCode::FORBIDDEN, ErrorCode::NotYours),
            E::NotAChat => make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::NotAChat),
            E::InVariant => make(StatusCode::CONFLICT, ErrorCode::InVariant).param("message_id"),
            E::TooManyVariants(_) | E::TooManyVariantsOfChat(_) => {
                make(StatusCode::CONFLICT, ErrorCode::TooManyVariants)
            }
            E::NotDeletable => make(StatusCode::FORBIDDEN, ErrorCode::NotDeletable),
            E::MessageDeleted | E::TriggerDeleted => {
                make(StatusCode::CONFLICT, ErrorCode::MessageDeleted)
            }
            E::NotEditable => make(StatusCode::CONFLICT, ErrorCode::NotEditable),
            E::MemberLeft(_) => make(StatusCode::CONFLICT, ErrorCode::MemberLeft),
            E::DirectIsFixed => make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::DirectIsFixed),
            E::NotRetryable => make(StatusCode::CONFLICT, ErrorCode::NotRetryable),
            E::NotRoot => make(StatusCode::CONFLICT, ErrorCode::NotRoot),
            E::UntilRequired => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::UntilRequired).param("until")
            }
            E::DecideFirst => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::DecideFirst).param("ids")
            }
            E::TooManySaved(_) => make(StatusCode::CONFLICT, ErrorCode::TooManySaved),
            E::TooManyFollowers(_) => make(StatusCode::CONFLICT, ErrorCode::TooManyFollowers),
            E::NoSuchReply => make(StatusCode::NOT_FOUND, ErrorCode::TaskNotFound).param("steer"),
            E::NotRequester => make(StatusCode::FORBIDDEN, ErrorCode::NotRequester).param("steer"),
            E::TaskEnded => make(StatusCode::CONFLICT, ErrorCode::TaskEnded).param("steer"),
            E::TooManySteers => {
                make(StatusCode::TOO_MANY_REQUESTS, ErrorCode::TooManySteers).param("steer")
            }
            E::AlreadyRetried => make(StatusCode::CONFLICT, ErrorCode::AlreadyRetried),
            E::File(e) => ApiError::from(e).param_if_none("attachments"),
            E::Auth(e) => e.into(),
            E::Agent(e) => e.into(),
            E::Db(e) => e.into(),
        }
    }
}
