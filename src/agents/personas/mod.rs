//! Personas: reusable characters for agents, written in steps and compressed to the text that agents receive.
//!
//! Agents receive only approved text. An approval creates a version of every agent that uses the persona, so that the text of an
//! agent's version never changes.

mod change;
mod form;
mod persona;
mod version_rows;

pub use change::{
    create_persona, delete_old_versions, delete_persona, duplicate_persona, patch_persona,
    put_persona, rollback_persona,
};
pub use form::{COMPRESSED_BYTES_MAX, PersonaForm, PersonaPatch};
pub use persona::{
    Filter, NamedPersona, Persona, PersonaContent, PersonaObject, PersonaSection, PipelineStatus,
    find_approved, find_named, get_persona, list_personas, workspace_of,
};
pub(in crate::agents) use version_rows::find_approver;
pub use version_rows::{PersonaVersion, list_versions};
