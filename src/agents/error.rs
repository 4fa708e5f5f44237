use super::{
    files::File, personas::Persona, profiles::Agent, prompt_profiles::PromptProfiles, skills::Skill,
};
use crate::{
    auth::AuthError,
    db::DbError,
    http::error::{ApiError, ErrorCode, StatusCode},
    ids::{ChannelId, IdError, PersonaId},
};

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("the agent does not exist in this workspace, or you don't have access to it")]
    NotFound,
    #[error("the name `{0}` is taken by an agent or a member of this workspace: choose another")]
    NameTaken(String),
    /// Invalid value: the message, and the field.
    #[error("{0}")]
    Invalid(String, &'static str),
    /// Value of the wrong type: the message, and the path of the field.
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
    #[error("this list excludes you: add yourself or your role to `editors`")]
    EditorsLockYouOut,
    #[error(
        "only the agent's editors and admins can change it: ask one of them, or duplicate the agent"
    )]
    NotEditor,
    #[error("set the If-Match header to the version of the agent that you have read")]
    VersionRequired,
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
    #[error("the name `{0}` is taken by another sandbox policy of this workspace: choose another")]
    SandboxPolicyNameTaken(String),
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
    #[error("there is no channel {0} in this workspace, or you are not in it")]
    NoSuchChannel(ChannelId, &'static str),
    #[error("there is no vector store `{0}` in this workspace, or you cannot read it")]
    NoSuchVectorStore(String, &'static str),
    #[error("there is no persona `{0}` in this workspace")]
    NoSuchPersona(PersonaId),
    #[error("the persona does not exist in this workspace")]
    PersonaNotFound,
    #[error("the name `{0}` is taken by another persona of this workspace: choose another")]
    PersonaNameTaken(String),
    #[error("agents use this persona: change them first")]
    PersonaInUse,
    #[error("the persona has no version {0}")]
    PersonaVersionNotFound(i64),
    #[error(
        "the persona has changed since you loaded it: reload it, reapply your change, and send it again"
    )]
    PersonaStale(Box<Persona>),
    #[error("there is no skill `{0}` in this workspace, or you cannot read it")]
    NoSuchSkill(String),
    #[error("the skill does not exist in this workspace, or you don't have access to it")]
    SkillNotFound,
    #[error("the name `{0}` is taken by another skill of this workspace: choose another")]
    SkillNameTaken(String),
    /// Reason why files are not a skill, with the file and the line.
    #[error("{0}")]
    BadSkill(String),
    #[error("a workspace can have at most {0} skills: delete one first")]
    TooManySkills(i64),
    #[error(
        "the skill has changed since you loaded it: reload it, reapply your change, and send it again"
    )]
    SkillStale(Box<Skill>),
    #[error("the agent has no version {0}")]
    VersionNotFound(i64),
    #[error(
        "`{0}` is not a valid agent file path: use segments of letters, digits, `.`, `_`, and `-`, separated by `/`, such as memory/2026-11-20.md"
    )]
    InvalidPath(String),
    #[error("`{0}` is not the name of a log: logs are named by date, such as memory/2026-11-20.md")]
    InvalidLogDate(String),
    #[error("the file `{0}` does not exist")]
    FileNotFound(String),
    #[error("`{0}`: {1}")]
    FileRefused(String, &'static str),
    #[error("the file is {0} bytes; the limit is 262144: shorten it")]
    FileTooLarge(usize),
    #[error(
        "the agent's files are {0} bytes in total; the export limit is 8388608: read them one by one"
    )]
    ExportTooLarge(i64),
    #[error("the file has changed since you loaded it: reload it, and reapply your change")]
    FileStale(Box<File>),
    #[error(
        "the reply styles have changed since you loaded them: reload them, and reapply your change"
    )]
    PromptProfilesStale(Box<PromptProfiles>),
    #[error("the policy has changed since you loaded it: reload it, and reapply your change")]
    PolicyStale(Box<serde_json::Value>),
    #[error("a replay of this agent is still running for you: wait until it ends, or stop it")]
    ReplayActive,
    #[error("there are no replies of this agent that you can read: ask it something first")]
    NothingToReplay,
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
        use ErrorCode as C;
        let text = e.to_string();
        let make = |status, code| ApiError::new(status, code, text.clone());
        let not_found = |code| make(StatusCode::NOT_FOUND, code);
        let conflict = |code| make(StatusCode::CONFLICT, code);
        let stale = || conflict(C::VersionConflict).param("If-Match");
        let refused = |code| make(StatusCode::UNPROCESSABLE_ENTITY, code);
        let too_large = |code| make(StatusCode::PAYLOAD_TOO_LARGE, code);
        let malformed = |code| make(StatusCode::BAD_REQUEST, code);
        match e {
            E::NotFound => not_found(C::AgentNotFound),
            E::NameTaken(_) => conflict(C::NameTaken).param("name"),
            E::Invalid(_, param) => refused(C::InvalidValue).param(param),
            E::Malformed(text, path) => ApiError::malformed_field(text, &path),
            E::ResolvedTooLarge(..) => refused(C::ResolvedTooLarge).param("instructions"),
            E::NoSuchBase => not_found(C::AgentNotFound).param("base_profile_id"),
            E::NoBaseNamed(_) => refused(C::NoSuchBase).param("agent.base"),
            E::BaseArchived => refused(C::BaseArchived).param("base_profile_id"),
            E::Cycle => refused(C::InheritanceCycle).param("base_profile_id"),
            E::TooDeep => refused(C::InheritanceTooDeep).param("base_profile_id"),
            E::DuplicateTool(_) => refused(C::DuplicateTool).param("tools"),
            E::TooManyChildren(_) => refused(C::TooManyChildren).param("base_profile_id"),
            E::HasChildren => conflict(C::HasChildren),
            E::NotActive => conflict(C::NotActive),
            E::NoSuchSandboxPolicy(_) => refused(C::NoSuchSandboxPolicy).param("sandbox_policy_id"),
            E::SandboxPolicyNotFound => not_found(C::SandboxPolicyNotFound),
            E::SandboxPolicyInUse => conflict(C::SandboxPolicyInUse),
            E::NoSuchMember(_, param) => not_found(C::MemberNotFound).param(param),
            E::NoSuchTool(_) => refused(C::NoSuchTool).param("tools"),
            E::NoSuchChannel(_, param) => not_found(C::ChannelNotFound).param(param),
            E::NoSuchVectorStore(_, param) => refused(C::VectorStoreNotFound).param(param),
            E::NoSuchPersona(_) => not_found(C::PersonaNotFound).param("persona_id"),
            E::PersonaNotFound => not_found(C::PersonaNotFound),
            E::PersonaNameTaken(_) | E::SandboxPolicyNameTaken(_) | E::SkillNameTaken(_) => {
                conflict(C::NameTaken).param("name")
            }
            E::NoSuchSkill(_) => refused(C::SkillNotFound).param("skills"),
            E::SkillNotFound => not_found(C::SkillNotFound),
            E::BadSkill(_) => refused(C::BadSkill).param("files"),
            E::TooManySkills(_) => conflict(C::TooManySkills),
            E::SkillStale(skill) => stale().with_current(&skill),
            E::PersonaInUse => conflict(C::PersonaInUse),
            E::PersonaStale(persona) => stale().with_current(&persona),
            E::VersionNotFound(_) | E::PersonaVersionNotFound(_) => not_found(C::VersionNotFound),
            E::InvalidPath(_) | E::InvalidLogDate(_) => malformed(C::InvalidPath).param("path"),
            E::FileNotFound(_) => not_found(C::FileNotFound),
            E::FileRefused(..) => refused(C::FileRefused).param("path"),
            E::FileTooLarge(_) => too_large(C::FileTooLarge).param("content"),
            E::ExportTooLarge(_) => too_large(C::ExportTooLarge),
            E::FileStale(file) => stale().with_current(&file),
            E::PromptProfilesStale(current) => stale().with_current(&current),
            E::PolicyStale(current) => stale().with_current(&current),
            E::InstructionsTooLarge(_) => too_large(C::InstructionsTooLarge).param("instructions"),
            E::Stale(agent) => conflict(C::VersionConflict).with_current(&agent),
            E::DefaultMustStay => conflict(C::DefaultAgent),
            E::DefaultAgent(_) => make(StatusCode::FORBIDDEN, C::DefaultAgent),
            E::LocksYouOut => refused(C::LocksYouOut).param("access_control"),
            E::EditorsLockYouOut => refused(C::LocksYouOut).param("editors"),
            E::NotEditor => make(StatusCode::FORBIDDEN, C::NotEditor),
            E::VersionRequired => {
                make(StatusCode::PRECONDITION_REQUIRED, C::PreconditionRequired).param("If-Match")
            }
            E::ReplayActive => conflict(C::ReplayActive),
            E::NothingToReplay => refused(C::NothingToReplay),
            E::BadId(_) => malformed(C::InvalidId),
            E::Avatar(e) => ApiError::from(e).param("avatar.file_id"),
            E::Auth(e) => e.into(),
            E::Db(e) => e.into(),
        }
    }
}
