use super::profiles::Agent;
use crate::{auth::AuthError, db::DbError, ids::IdError};

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("the agent does not exist in this workspace")]
    NotFound,
    #[error("the name `{0}` is taken by an agent or a person of this workspace: choose another")]
    NameTaken(String),
    #[error("{0}")]
    Invalid(String, &'static str),
    #[error("the instructions are {0} bytes; the limit is 262144: shorten them")]
    InstructionsTooLarge(usize),
    #[error(
        "the agent was changed meanwhile: load it, apply your change to that version, and send it again"
    )]
    Stale(Box<Agent>),
    #[error("the default agent must stay active: make another one the default first")]
    DefaultMustStay,
    #[error(transparent)]
    BadId(#[from] IdError),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Db(#[from] DbError),
}
