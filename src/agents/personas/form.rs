//! Request bodies that create and change personas, and their validation.

use serde::Deserialize;

use super::{PersonaContent, PersonaSection, PipelineStatus};
use crate::{
    agents::{
        AgentError,
        profiles::{Avatar, check_avatar, tools::IgnoredField},
    },
    auth::DisplayName,
    patch::{nullable, present},
};

const NAME_UNITS_MAX: usize = 80;
const DESCRIPTION_UNITS_MAX: usize = 1024;
const SECTION_BYTES_MAX: usize = 4 * 1024;
const ITEMS_MAX: usize = 20;
const ITEM_UNITS_MAX: usize = 240;
/// Maximum size of the text for agents in UTF-8 bytes.
pub const COMPRESSED_BYTES_MAX: usize = 8 * 1024;

/// Fields of `POST` and `PUT` requests for personas; omitted fields become blank.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PersonaForm {
    /// 1 to 80 characters, unique in the workspace.
    pub name: String,
    /// At most 1,024 characters.
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub problem_space: PersonaSection,
    #[serde(default)]
    pub high_level: PersonaSection,
    #[serde(default)]
    pub archetype: PersonaSection,
    #[serde(default)]
    pub principles: PersonaSection,
    #[serde(default)]
    pub taste: PersonaSection,
    /// At most 8 KiB.
    #[serde(default)]
    pub compressed: String,
    #[serde(default)]
    pub avatar: Option<Avatar>,
    /// Ignored; `PATCH` changes the status.
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub pipeline_status: IgnoredField,
    /// Ignored, because the server sets it. The same applies to the following fields.
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub id: IgnoredField,
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub object: IgnoredField,
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub used_by: IgnoredField,
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub version: IgnoredField,
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub created_by: IgnoredField,
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub created_at: IgnoredField,
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub updated_at: IgnoredField,
}

impl PersonaForm {
    /// Returns the name and the other fields.
    ///
    /// # Errors
    /// `Invalid` with the field.
    pub(super) fn into_parts(self) -> Result<(String, PersonaContent), AgentError> {
        let content = PersonaContent {
            description: self.description,
            problem_space: self.problem_space,
            high_level: self.high_level,
            archetype: self.archetype,
            principles: self.principles,
            taste: self.taste,
            compressed: self.compressed,
            avatar: self.avatar,
        };
        check(&content)?;
        Ok((parse_name(&self.name)?, content))
    }
}

/// Fields of `PATCH` requests; omitted fields are unchanged.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PersonaPatch {
    /// 1 to 80 characters, unique in the workspace.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub name: Option<String>,
    /// At most 1,024 characters.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub description: Option<String>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub problem_space: Option<PersonaSection>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub high_level: Option<PersonaSection>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub archetype: Option<PersonaSection>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub principles: Option<PersonaSection>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub taste: Option<PersonaSection>,
    /// At most 8 KiB.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub compressed: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Avatar>)]
    pub avatar: Option<Option<Avatar>>,
    /// `approved` requires a `compressed` text. If omitted, changing a text sets an approved persona to `refined`.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub pipeline_status: Option<PipelineStatus>,
}

impl PersonaPatch {
    /// Applies the patch and returns the new name and the other fields.
    ///
    /// # Errors
    /// `Invalid` with the field.
    pub(super) fn over(
        self,
        name: &str,
        content: &PersonaContent,
    ) -> Result<(String, PersonaContent), AgentError> {
        let old = content.clone();
        let content = PersonaContent {
            description: self.description.unwrap_or(old.description),
            problem_space: self.problem_space.unwrap_or(old.problem_space),
            high_level: self.high_level.unwrap_or(old.high_level),
            archetype: self.archetype.unwrap_or(old.archetype),
            principles: self.principles.unwrap_or(old.principles),
            taste: self.taste.unwrap_or(old.taste),
            compressed: self.compressed.unwrap_or(old.compressed),
            avatar: self.avatar.unwrap_or(old.avatar),
        };
        check(&content)?;
        let name = self
            .name
            .as_deref()
            .map_or(Ok(name.to_owned()), parse_name)?;
        Ok((name, content))
    }
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

fn invalid(param: &'static str, text: String) -> AgentError {
    AgentError::Invalid(text, param)
}

/// # Errors
/// `Invalid`.
pub(super) fn parse_name(text: &str) -> Result<String, AgentError> {
    let name = text.trim();
    if !(1..=NAME_UNITS_MAX).contains(&units(name)) || name.chars().any(char::is_control) {
        let rule = format!("the name must be one line of 1 to {NAME_UNITS_MAX} characters");
        return Err(invalid("name", rule));
    }
    Ok(name.to_owned())
}

/// Checks that a new name does not imitate others.
///
/// # Errors
/// `Auth` with the violated rule.
pub(super) fn check_new_name(name: &str) -> Result<(), AgentError> {
    Ok(DisplayName(name.to_owned()).check_new("name")?)
}

fn check(content: &PersonaContent) -> Result<(), AgentError> {
    if units(&content.description) > DESCRIPTION_UNITS_MAX {
        let rule = format!("the description can have at most {DESCRIPTION_UNITS_MAX} characters");
        return Err(invalid("description", rule));
    }
    for (field, title, section) in content.sections() {
        let items_fit = section.items.len() <= ITEMS_MAX
            && section
                .items
                .iter()
                .all(|item| !item.trim().is_empty() && units(item) <= ITEM_UNITS_MAX);
        if section.text.len() > SECTION_BYTES_MAX || !items_fit {
            let rule = format!(
                "`{title}` can have at most {SECTION_BYTES_MAX} bytes of text and {ITEMS_MAX} items of 1 to {ITEM_UNITS_MAX} characters"
            );
            return Err(invalid(field, rule));
        }
    }
    if content.compressed.len() > COMPRESSED_BYTES_MAX {
        let rule = format!(
            "the compressed text is {} bytes; the limit is {COMPRESSED_BYTES_MAX}: shorten it",
            content.compressed.len()
        );
        return Err(invalid("compressed", rule));
    }
    match &content.avatar {
        Some(avatar) => check_avatar(avatar),
        None => Ok(()),
    }
}
