use super::{files::File, profiles::Agent};
use crate::{
    auth::AuthError,
    db::DbError,
    http::error::{ApiError, StatusCode},
    ids::IdError,
};

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("the agent does not exist in this workspace, or you don't have access to it")]
    NotFound,
    #[error("the name `{0}` is taken by an agent or a member of this workspace: choose another")]
    NameTaken(String),
    /// A value that violates a rule, and its field.
    #[error("{0}")]
    Invalid(String, &'static str),
    /// A value of the wrong type for its field, and its path.
    #[error("{0}")]
    Malformed(String, String),
    #[error("the instructions are {0} bytes; the limit is 262144: shorten them")]
    InstructionsTooLarge(usize),
    #[error(
        "the instructions of `{0}` including its bases are {1} bytes; the limit is 262144: shorten one of them"
    )]
    ResolvedTooLarge(String, usize),
    #[error(
        "the agent has changed since you loaded it: reload it, reapply your change, and send it again"
    )]
    Stale(Box<Agent>),
    #[error("the default agent must stay active: make another agent the default first")]
    DefaultMustStay,
    #[error(
        "changing {0} of the default agent requires the scope `agents:admin`: ask a workspace admin"
    )]
    DefaultAgent(&'static str),
    #[error("this access list excludes you: add yourself or your role to `allowed_subjects`")]
    LocksYouOut,
    #[error("only an active agent can be the default: activate it first")]
    NotActive,
    #[error("the base does not exist in this workspace")]
    NoSuchBase,
    #[error(
        "the base agent `{0}` does not exist in this workspace: import it first, or omit `base`"
    )]
    NoBaseNamed(String),
    #[error("the base is archived: unarchive it, or choose another base")]
    BaseArchived,
    #[error("an agent cannot inherit from itself, directly or indirectly")]
    Cycle,
    #[error("the limit is 3 levels of inheritance: choose a base with fewer levels above it")]
    TooDeep,
    #[error("a base can have at most {0} children: choose another base")]
    TooManyChildren(i64),
    #[error(
        "other agents inherit from this agent: change their base first, or archive this agent instead"
    )]
    HasChildren,
    #[error("there is no sandbox policy `{0}` in this workspace")]
    NoSuchSandboxPolicy(String),
    #[error("the sandbox policy does not exist in this workspace")]
    SandboxPolicyNotFound,
    #[error("this sandbox policy is used by agents or by the workspace policy: change them first")]
    SandboxPolicyInUse,
    #[error("{0} is not a member of this workspace")]
    NoSuchMember(String, &'static str),
    #[error("the tool `{0}` is listed twice: rename or remove one of them")]
    DuplicateTool(String),
    #[error("there is no tool `{0}` in this workspace")]
    NoSuchTool(String),
    #[error("there is no persona `{0}` in this workspace")]
    NoSuchPersona(String),
    #[error("the agent has no version {0}")]
    VersionNotFound(i64),
    #[error(
        "`{0}` is not a valid agent file path: use segments of letters, digits, `.`, `_`, and `-`, separated by `/`, such as memory/2026-11-20.md"
    )]
    InvalidPath(String),
    #[error("the file `{0}` does not exist")]
    FileNotFound(String),
    #[error("`{0}`: {1}")]
    FileRefused(String, &'static str),
    #[error("the file is {0} bytes; the limit is 262144: shorten it")]
    FileTooLarge(usize),
    #[error(
        "the agent's files are {0} bytes; the limit of an export is 8388608: read them one by one"
    )]
    ExportTooLarge(i64),
    #[error("the file has changed since you loaded it: reload it, and reapply your change")]
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

impl From<AgentError> for ApiError {
    fn from(e: AgentError) -> Self {
        use AgentError as E;
        let text = e.to_string();
        let make = |status, code| ApiError::new(status, code, text);
        match e {
            E::NotFound => make(StatusCode::NOT_FOUND, "agent_not_found"),
            E::NameTaken(_) => make(StatusCode::CONFLICT, "name_taken").param("name"),
            E::Invalid(_, param) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, "invalid_value").param(param)
            }
            E::Malformed(text, path) => ApiError::malformed_field(text, path),
            E::ResolvedTooLarge(..) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, "resolved_too_large").param("instructions")
            }
            E::NoSuchBase => {
                make(StatusCode::NOT_FOUND, "agent_not_found").param("base_profile_id")
            }
            E::NoBaseNamed(_) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, "no_such_base").param("agent.base")
            }
            E::BaseArchived => {
                make(StatusCode::UNPROCESSABLE_ENTITY, "base_archived").param("base_profile_id")
            }
            E::Cycle => {
                make(StatusCode::UNPROCESSABLE_ENTITY, "inheritance_cycle").param("base_profile_id")
            }
            E::TooDeep => make(StatusCode::UNPROCESSABLE_ENTITY, "inheritance_too_deep")
                .param("base_profile_id"),
            E::DuplicateTool(_) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, "duplicate_tool").param("tools")
            }
            E::TooManyChildren(_) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, "too_many_children").param("base_profile_id")
            }
            E::HasChildren => make(StatusCode::CONFLICT, "has_children"),
            E::NotActive => make(StatusCode::CONFLICT, "not_active"),
            E::NoSuchSandboxPolicy(_) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, "no_such_sandbox_policy")
                    .param("sandbox_policy_id")
            }
            E::SandboxPolicyNotFound => make(StatusCode::NOT_FOUND, "sandbox_policy_not_found"),
            E::SandboxPolicyInUse => make(StatusCode::CONFLICT, "sandbox_policy_in_use"),
            E::NoSuchMember(_, param) => {
                make(StatusCode::NOT_FOUND, "member_not_found").param(param)
            }
            E::NoSuchTool(_) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, "no_such_tool").param("tools")
            }
            E::NoSuchPersona(_) => {
                make(StatusCode::NOT_FOUND, "persona_not_found").param("persona_id")
            }
            E::VersionNotFound(_) => make(StatusCode::NOT_FOUND, "version_not_found"),
            E::InvalidPath(_) => make(StatusCode::BAD_REQUEST, "invalid_path").param("path"),
            E::FileNotFound(_) => make(StatusCode::NOT_FOUND, "file_not_found"),
            E::FileRefused(..) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, "file_refused").param("path")
            }
            E::FileTooLarge(_) => {
                make(StatusCode::PAYLOAD_TOO_LARGE, "file_too_large").param("content")
            }
            E::ExportTooLarge(_) => make(StatusCode::PAYLOAD_TOO_LARGE, "export_too_large"),
            E::FileStale(file) => make(StatusCode::CONFLICT, "version_conflict")
                .param("If-Match")
                .with_current(&file),
            E::InstructionsTooLarge(_) => {
                make(StatusCode::PAYLOAD_TOO_LARGE, "instructions_too_large").param("instructions")
            }
            E::Stale(agent) => make(StatusCode::CONFLICT, "version_conflict").with_current(&agent),
            E::DefaultMustStay => make(StatusCode::CONFLICT, "default_agent"),
            E::DefaultAgent(_) => make(StatusCode::FORBIDDEN, "default_agent"),
            E::LocksYouOut => {
                make(StatusCode::UNPROCESSABLE_ENTITY, "locks_you_out").param("access_control")
            }
            E::BadId(_) => make(StatusCode::BAD_REQUEST, "invalid_id"),
            E::Avatar(e) => ApiError::from(e).param("avatar.file_id"),
            E::Auth(e) => e.into(),
            E::Db(e) => e.into(),
        }
    }
}
