//! `latest.json`, the description of a release.

use serde::Deserialize;

use super::version::Version;

/// Description of a release.
#[derive(Debug, Clone, Deserialize)]
pub struct Latest {
    pub version: Version,
    /// Day of the release, such as `2027-03-01`.
    pub date: String,
    /// True if the release closes a security hole.
    pub security: bool,
    /// Changes in Markdown.
    pub notes: String,
    /// Oldest version that can be updated to this one directly.
    pub min_from: Version,
}
