//! Errors of provider settings.

use super::table::TableError;
use crate::trust;

/// Invalid provider settings.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error(
        "OPENVIBE_MODEL_BASE_URL is `{0}`: use an http or https URL such as `http://127.0.0.1:8000/v1`"
    )]
    BaseUrl(String),
    #[error(
        "the API key for {0} contains characters that are not allowed in an HTTP header: check it"
    )]
    ApiKey(String),
    #[error("could not create the HTTP client for the model: {}", trust::setup_failure(.0))]
    Client(reqwest::Error),
    #[error(transparent)]
    Table(#[from] TableError),
}
