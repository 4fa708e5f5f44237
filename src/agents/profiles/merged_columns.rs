//! Columns of a version with its merged profile.

use std::collections::BTreeMap;

use super::Profile;
use crate::db::Json;

/// A profile with its bases merged in, as selected by `merged_sql!`.
#[derive(sqlx::FromRow)]
pub(super) struct MergedColumns {
    resolved: Json<Profile>,
    own_text: Option<String>,
    own_files: Option<Json<BTreeMap<String, String>>>,
}

impl MergedColumns {
    /// The agent's own instructions, if the version stores them apart from those of its bases.
    pub(super) fn own_instructions(&self) -> Option<String> {
        self.own_text.clone()
    }

    pub(super) fn profile(&self) -> Profile {
        let mut profile = self.resolved.0.clone();
        if let Some(own) = &self.own_text {
            profile.instructions.push_str(without_start(own));
        }
        if let Some(own) = &self.own_files {
            profile.files.clone_from(&own.0);
        }
        profile
    }
}

/// A profile's own instructions without leading line breaks, as they appear in the merged profile.
pub(super) fn without_start(instructions: &str) -> &str {
    instructions.trim_start_matches('\n')
}
