use super::{files::File, profiles::Agent};
use crate::{auth::AuthError, db::DbError, ids::IdError};

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("the agent does not exist in this workspace, or you may not see it")]
    NotFound,
    #[error("the name `{0}` is taken by an agent or a person of this workspace: choose another")]
    NameTaken(String),
    /// A value that breaks a rule, and its field.
    #[error("{0}")]
    Invalid(String, &'static str),
    /// A value of another shape than the field's, and its path.
    #[error("{0}")]
    Malformed(String, String),
    #[error("the instructions are {0} bytes; the limit is 262144: shorten them")]
    InstructionsTooLarge(usize),
    #[error(
        "with its bases the instructions of `{0}` are {1} bytes; the limit is 262144: shorten one of them"
    )]
    ResolvedTooLarge(String, usize),
    #[error(
        "the agent was changed meanwhile: load it, apply your change to that version, and send it again"
    )]
    Stale(Box<Agent>),
    #[error("the default agent must stay active: make another one the default first")]
    DefaultMustStay,
    #[error(
        "changing {0} of the default agent needs `agents:admin`: ask an admin of the workspace"
    )]
    DefaultAgent(&'static str),
    #[error("this access list excludes you: add yourself or your role to `allowed_subjects`")]
    LocksYouOut,
    #[error("only an active agent can be the default: activate it first")]
    NotActive,
    #[error("the base does not exist in this workspace")]
    NoSuchBase,
    #[error(
        "there is no agent named `{0}` here to be the base: import it first, or leave `base` out"
    )]
    NoBaseNamed(String),
    #[error("the base is archived: bring it back, or choose another")]
    BaseArchived,
    #[error("an agent cannot be its own base, also not through others")]
    Cycle,
    #[error(
        "that would make more than 3 levels of inheritance: choose a base that has fewer above it"
    )]
    TooDeep,
    #[error("a base can have at most {0} children: choose another base")]
    TooManyChildren(i64),
    #[error(
        "other agents have this one as their base: give them another base first, or archive it instead"
    )]
    HasChildren,
    #[error("there is no sandbox policy `{0}` in this workspace")]
    NoSuchSandboxPolicy(String),
    #[error("there is no sandbox policy with this id in this workspace")]
    SandboxPolicyNotFound,
    #[error("agents or the workspace's policy still name this sandbox policy: change them first")]
    SandboxPolicyInUse,
    #[error("{0} is not a member of this workspace")]
    NoSuchMember(String, &'static str),
    #[error("the tool `{0}` is listed twice: rename one of them, or leave it out")]
    DuplicateTool(String),
    #[error("there is no tool `{0}` in this workspace")]
    NoSuchTool(String),
    #[error("there is no persona `{0}` in this workspace")]
    NoSuchPersona(String),
    #[error("the agent has no version {0}")]
    VersionNotFound(i64),
    #[error(
        "`{0}` is no path of an agent's file: use parts of letters, digits, `.`, `_` and `-`, joined by `/`, such as memory/2026-11-20.md"
    )]
    InvalidPath(String),
    #[error("there is no file `{0}`")]
    FileNotFound(String),
    #[error("`{0}`: {1}")]
    FileRefused(String, &'static str),
    #[error("the file is {0} bytes; the limit is 262144: shorten it")]
    FileTooLarge(usize),
    #[error(
        "the agent's files are {0} bytes; the limit of an export is 8388608: read them one by one"
    )]
    ExportTooLarge(i64),
    #[error("the file was changed meanwhile: load it and apply your change to that version")]
    FileStale(Box<File>),
    #[error(transparent)]
    BadId(#[from] IdError),
    #[error(transparent)]
    Avatar(#[from] crate::files::FileError),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Db(#[from] DbError),
}
