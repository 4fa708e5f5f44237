//! The model for search by meaning in a workspace, in the form in which admins see and change it.

use serde::{Deserialize, Serialize};

use crate::{patch::nullable, providers::ModelSource, text_enum::text_enum, time::Timestamp};

text_enum! {
    /// State of search by meaning.
    pub enum EmbeddingStatus {
        /// No model is named: files are searched by words.
        Off = "off",
        /// Passages get vectors.
        Filling = "filling",
        /// All passages have vectors.
        Ready = "ready",
        /// All passages have vectors, but the memory for them (`OPENVIBE_EMBEDDING_MEMORY`) is too small: files are searched by words.
        NoMemory = "no_memory",
        /// The server failed, or a budget is used up; the rest waits until `retry_at`.
        Waiting = "waiting",
    }
}

/// The model for search by meaning in a workspace.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct EmbeddingConnection {
    /// Base URL; null for the model server of the workspace, or if no model is named.
    pub base_url: Option<String>,
    /// Null if no model is named.
    pub model: Option<String>,
    /// True if an API key is stored. The key itself is never returned.
    pub key_set: bool,
    /// Origin of the settings. Settings from the environment apply to all workspaces and cannot be changed here.
    pub source: ModelSource,
    pub status: EmbeddingStatus,
    /// The last failure, if passages wait because of it.
    pub error: Option<String>,
    /// Time at which the server is asked again after a failure.
    pub retry_at: Option<Timestamp>,
    /// Number of values of a vector; null until the first vectors arrive.
    pub dimensions: Option<i64>,
    /// Number of passages of files that have no vector yet.
    pub pending: i64,
    /// Number of passages of files that have a vector, or get none because the server refuses their text.
    pub done: i64,
    /// Version for `If-Match`; 0 before the first change.
    pub version: i64,
}

/// Names the model for search by meaning in a workspace.
#[derive(Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingForm {
    /// `http` or `https` URL, usually ending in `/v1`, of any server with the route `/embeddings`; by default, the model server of the
    /// workspace.
    pub base_url: Option<String>,
    /// Name of the model, at most 200 characters.
    pub model: String,
    /// API key, at most 8 KiB, for `base_url`. If omitted, the stored key is kept, unless the server changes; null removes it.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    pub api_key: Option<Option<String>>,
}
