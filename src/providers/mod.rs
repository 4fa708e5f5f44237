//! The model server of each workspace: from the environment, connected by an admin, or none.
//!
//! Environment variables apply to all workspaces and take precedence. Otherwise each workspace has its own client,
//! which is created when it is first used and replaced when the version of the settings changes, so that a change
//! takes effect with the next call. Without a server, the built-in responder replies.

mod check;
mod clients;
mod connection;
mod error;
mod fields;
mod local;
mod per_workspace;
mod settings;
mod stored;

pub use check::{TestPermit, Tested, status_of};
pub use clients::{Providers, Setup};
pub use connection::{ModelConnection, ModelForm, ModelSource, ModelStatus, ProviderKind};
pub use error::ProviderError;
pub use fields::{KeyChange, MODEL_CHARS_MAX, parse_base_url, parse_text};
pub use local::LocalServer;
pub use per_workspace::PerWorkspace;
