//! What clients send to make and change agents, and the rules for it (AGENT-PLATFORM §1).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{AgentRole, Avatar, Profile};
use crate::agents::AgentError;
use crate::{
    auth::{DisplayName, handles},
    patch::{nullable, present},
};

/// UTF-8 bytes (PROTOCOL §1).
pub(super) const INSTRUCTIONS_BYTES_MAX: usize = 256 * 1024;
pub(super) const MAX_OUTPUT_TOKENS_DEFAULT: u32 = 4096;
const MAX_OUTPUT_TOKENS_MAX: u32 = 1_000_000;
const METADATA_KEYS_MAX: usize = 16;
const METADATA_UNITS_MAX: usize = 512;
const DESCRIPTION_UNITS_MAX: usize = 1024;
const CAPABILITIES_MAX: usize = 32;
const CAPABILITY_UNITS_MAX: usize = 64;
const MODEL_UNITS_MAX: usize = 128;

/// The fields of `POST /v1/agents`.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAgent {
    /// `[a-z0-9][a-z0-9_-]{0,63}`, unique among the handles of the workspace.
    pub name: String,
    pub display_name: Option<String>,
    pub description: Option<String>,
    pub avatar: Option<Avatar>,
    /// Markdown, at most 256 KiB.
    pub instructions: String,
    pub model: Option<String>,
    /// 4096 by default.
    pub max_output_tokens: Option<u32>,
    /// 0 to 2.
    pub temperature: Option<f64>,
    /// 0 to 1.
    pub top_p: Option<f64>,
    #[serde(default)]
    pub capabilities: Vec<String>,
    #[serde(default)]
    pub role: AgentRole,
    pub mentionable: Option<bool>,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

/// The fields of `PATCH /v1/agents/{id}`: what is left out stays, `null` empties.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentPatch {
    #[serde(default, deserialize_with = "present")]
    pub name: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    pub display_name: Option<Option<String>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    pub description: Option<Option<String>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Avatar>)]
    pub avatar: Option<Option<Avatar>>,
    #[serde(default, deserialize_with = "present")]
    pub instructions: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    pub model: Option<Option<String>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<u32>)]
    pub max_output_tokens: Option<Option<u32>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<f64>)]
    pub temperature: Option<Option<f64>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<f64>)]
    pub top_p: Option<Option<f64>>,
    #[serde(default, deserialize_with = "present")]
    pub capabilities: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present")]
    pub role: Option<AgentRole>,
    #[serde(default, deserialize_with = "present")]
    pub mentionable: Option<bool>,
    /// Merged by key; `null` removes one.
    #[serde(default, deserialize_with = "present")]
    pub metadata: Option<BTreeMap<String, Option<String>>>,
    #[serde(default, deserialize_with = "present")]
    pub status: Option<SettableStatus>,
}

/// What an admin can switch an agent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettableStatus {
    Active,
    Inactive,
    Archived,
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

fn invalid(param: &'static str, text: impl Into<String>) -> AgentError {
    AgentError::Invalid(text.into(), param)
}

/// Checks every rule of AGENT-PLATFORM §1 on a whole profile.
pub(super) fn check(profile: &Profile) -> Result<(), AgentError> {
    if let Some(name) = &profile.display_name {
        DisplayName::parse(name, "display_name")?;
    }
    if profile.instructions.trim().is_empty() {
        return Err(invalid(
            "instructions",
            "the instructions are blank: say what the agent is for",
        ));
    }
    if profile.instructions.len() > INSTRUCTIONS_BYTES_MAX {
        return Err(AgentError::InstructionsTooLarge(profile.instructions.len()));
    }
    if profile
        .description
        .as_deref()
        .is_some_and(|text| units(text) > DESCRIPTION_UNITS_MAX)
    {
        return Err(invalid(
            "description",
            format!("the description has at most {DESCRIPTION_UNITS_MAX} characters"),
        ));
    }
    if profile
        .model
        .as_deref()
        .is_some_and(|text| text.trim().is_empty() || units(text) > MODEL_UNITS_MAX)
    {
        return Err(invalid(
            "model",
            format!(
                "a model's name has 1 to {MODEL_UNITS_MAX} characters; null means the server's default"
            ),
        ));
    }
    if !(1..=MAX_OUTPUT_TOKENS_MAX).contains(&profile.max_output_tokens) {
        return Err(invalid(
            "max_output_tokens",
            format!("max_output_tokens is from 1 to {MAX_OUTPUT_TOKENS_MAX}"),
        ));
    }
    if profile
        .temperature
        .is_some_and(|t| !(0.0..=2.0).contains(&t))
    {
        return Err(invalid("temperature", "temperature is from 0 to 2"));
    }
    if profile.top_p.is_some_and(|t| !(0.0..=1.0).contains(&t)) {
        return Err(invalid("top_p", "top_p is from 0 to 1"));
    }
    if profile.capabilities.len() > CAPABILITIES_MAX
        || profile
            .capabilities
            .iter()
            .any(|tag| tag.trim().is_empty() || units(tag) > CAPABILITY_UNITS_MAX)
    {
        return Err(invalid(
            "capabilities",
            format!("at most {CAPABILITIES_MAX} tags of 1 to {CAPABILITY_UNITS_MAX} characters"),
        ));
    }
    if profile.metadata.len() > METADATA_KEYS_MAX {
        return Err(invalid(
            "metadata",
            format!("metadata has at most {METADATA_KEYS_MAX} keys"),
        ));
    }
    if profile.metadata.iter().any(|(key, value)| {
        key.is_empty() || units(key) > METADATA_UNITS_MAX || units(value) > METADATA_UNITS_MAX
    }) {
        return Err(invalid(
            "metadata",
            format!("keys and values of metadata have at most {METADATA_UNITS_MAX} characters"),
        ));
    }
    if let Some(avatar) = &profile.avatar {
        let color_fits = avatar.color.as_deref().is_none_or(|color| {
            color.len() == 7
                && color.starts_with('#')
                && color[1..].bytes().all(|b| b.is_ascii_hexdigit())
        });
        if !color_fits {
            return Err(invalid("avatar.color", "a colour is written #rrggbb"));
        }
        if avatar
            .emoji
            .as_deref()
            .is_some_and(|emoji| emoji.trim().is_empty() || units(emoji) > 16)
        {
            return Err(invalid("avatar.emoji", "an avatar takes one emoji"));
        }
    }
    Ok(())
}

impl NewAgent {
    /// The first version, checked.
    ///
    /// # Errors
    /// `Invalid` with the field, `InstructionsTooLarge`, or a bad name.
    pub fn into_profile(self) -> Result<(String, bool, Profile), AgentError> {
        handles::check(&self.name, "name")?;
        let profile = Profile {
            display_name: self.display_name,
            description: self.description,
            avatar: self.avatar,
            instructions: self.instructions,
            model: self.model,
            max_output_tokens: self.max_output_tokens.unwrap_or(MAX_OUTPUT_TOKENS_DEFAULT),
            temperature: self.temperature,
            top_p: self.top_p,
            capabilities: self.capabilities,
            role: self.role,
            metadata: self.metadata,
        };
        check(&profile)?;
        Ok((self.name, self.mentionable.unwrap_or(true), profile))
    }
}

impl AgentPatch {
    pub(super) fn apply(&self, profile: &Profile) -> Profile {
        let mut new = profile.clone();
        let set = |old: &mut Option<String>, given: &Option<Option<String>>| {
            if let Some(value) = given {
                old.clone_from(value);
            }
        };
        set(&mut new.display_name, &self.display_name);
        set(&mut new.description, &self.description);
        set(&mut new.model, &self.model);
        if let Some(value) = &self.avatar {
            new.avatar.clone_from(value);
        }
        if let Some(value) = &self.instructions {
            new.instructions.clone_from(value);
        }
        if let Some(value) = self.max_output_tokens {
            new.max_output_tokens = value.unwrap_or(MAX_OUTPUT_TOKENS_DEFAULT);
        }
        if let Some(value) = self.temperature {
            new.temperature = value;
        }
        if let Some(value) = self.top_p {
            new.top_p = value;
        }
        if let Some(value) = &self.capabilities {
            new.capabilities.clone_from(value);
        }
        if let Some(value) = self.role {
            new.role = value;
        }
        for (key, value) in self.metadata.iter().flatten() {
            match value {
                Some(value) => new.metadata.insert(key.clone(), value.clone()),
                None => new.metadata.remove(key),
            };
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_agent() -> NewAgent {
        serde_json::from_value(
            serde_json::json!({"name": "ops", "instructions": "Keep the lights on."}),
        )
        .unwrap()
    }

    #[test]
    fn limits_are_counted_in_their_own_units() {
        let mut agent = new_agent();
        agent.instructions = "ü".repeat(INSTRUCTIONS_BYTES_MAX / 2);
        assert!(agent.clone().into_profile().is_ok());
        agent.instructions.push('x');
        assert!(matches!(
            agent.into_profile(),
            Err(AgentError::InstructionsTooLarge(_))
        ));
        let mut agent = new_agent();
        agent.metadata = (0..17).map(|n| (n.to_string(), String::new())).collect();
        assert!(agent.into_profile().is_err());
    }

    #[test]
    fn a_patch_merges_metadata_and_empties_with_null() {
        let (_, _, mut profile) = new_agent().into_profile().unwrap();
        profile.model = Some("m".to_owned());
        profile.metadata = [("a", "1"), ("b", "2")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
        let patch: AgentPatch = serde_json::from_value(
            serde_json::json!({"model": null, "metadata": {"a": null, "c": "3"}}),
        )
        .unwrap();
        let patched = patch.apply(&profile);
        assert_eq!(patched.model, None);
        assert_eq!(
            patched.metadata.into_iter().collect::<Vec<_>>(),
            [("b".into(), "2".into()), ("c".into(), "3".into())]
        );
        assert_eq!(patched.instructions, profile.instructions);
    }
}
