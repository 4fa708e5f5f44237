//! The model server of a workspace, in the form in which admins see and change it.

use serde::{Deserialize, Serialize};

use crate::{patch::nullable, text_enum::text_enum, time::Timestamp};

text_enum! {
    /// Vendor of a model server.
    pub enum ProviderKind {
        Anthropic = "anthropic",
        OpenAi = "openai",
        /// Any server with the chat-completions protocol.
        Other = "other",
    }
}

text_enum! {
    /// Origin of the model settings.
    pub enum ModelSource {
        /// Environment variables of the server.
        Environment = "environment",
        /// An admin of the workspace.
        Settings = "settings",
        /// No model server is connected.
        None = "none",
    }
}

text_enum! {
    /// Result of the latest test.
    pub enum ModelStatus {
        Ok = "ok",
        Unreachable = "unreachable",
        AuthFailed = "auth_failed",
        NoModel = "no_model",
        /// The model used its whole answer for thinking.
        ThoughtOnly = "thought_only",
    }
}

/// The model server of a workspace.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct ModelConnection {
    /// Vendor; null if no server is connected.
    pub provider: Option<ProviderKind>,
    /// Base URL; null if no server is connected.
    pub base_url: Option<String>,
    /// Model that every agent uses; null if agents choose their own.
    pub model: Option<String>,
    /// Model for summaries; null for the server's default.
    pub utility_model: Option<String>,
    /// True if an API key is stored. The key itself is never returned.
    pub key_set: bool,
    /// Origin of the settings. Settings from the environment apply to all workspaces and cannot be changed
    /// here.
    pub source: ModelSource,
    /// Result of the latest test; `no_model` if no server is connected.
    pub status: ModelStatus,
    pub checked_at: Option<Timestamp>,
    /// Version for `If-Match`; 0 before the first change.
    pub version: i64,
}

/// Replaces the model server of a workspace.
#[derive(Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelForm {
    pub provider: ProviderKind,
    /// `http` or `https` URL, usually ending in `/v1`. Required for `other`; defaults to the vendor's URL for the other providers.
    pub base_url: Option<String>,
    /// Model that every agent uses; by default, agents choose their own.
    pub model: Option<String>,
    /// Model for summaries.
    pub utility_model: Option<String>,
    /// API key, at most 8 KiB. If omitted, the stored key is kept, unless the server changes; null removes it.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    pub api_key: Option<Option<String>>,
    /// `true` stores the settings even if the test fails.
    #[serde(default)]
    pub force: bool,
}

/// Result of a test.
#[derive(Debug, Clone)]
pub(super) struct Checked {
    pub status: ModelStatus,
    /// Cause of the failure, unless the status is `Ok`.
    pub cause: String,
    pub at: Timestamp,
}
