//! The document with a workspace's prompt profiles, as it is stored and shown.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::{Deserialize, Serialize};

use crate::{
    db::{Conn, DbError, Json},
    ids::WorkspaceId,
    text_enum::{constant, text_enum},
};

/// `prompting.profile` of an agent that follows the rules.
pub const AUTO: &str = "auto";
/// `prompting.profile` of an agent without a preset.
pub const NONE: &str = "none";

text_enum! {
    /// Source that determined the preset.
    pub enum ChosenBy {
        /// Someone who can post in the conversation.
        Person = "person",
        /// The agent's profile.
        Agent = "agent",
        /// A rule of the workspace.
        Rule = "rule",
        /// The workspace's default for the mode.
        Mode = "mode",
    }
}

/// A text for the system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptAddon {
    /// `[a-z0-9_]{1,64}`, except `auto` and `none`.
    pub id: String,
    /// Markdown, at most 4 KiB.
    pub text: String,
}

/// A reply style.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptPreset {
    /// `[a-z0-9_]{1,64}`, except `auto` and `none`.
    pub id: String,
    /// 1 to 80 characters.
    pub name: String,
    /// At most 240 characters.
    #[serde(default)]
    pub description: String,
    /// IDs of at most 8 add-ons, in the order of the prompt.
    pub addons: Vec<String>,
}

/// Review interval of the rules, and the presets that apply if no rule matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptRouting {
    /// Interval n, 1 to 100: rules are evaluated in turns 1, 1 + n, 1 + 2n, and so on.
    pub review_every_n_turns: i64,
    /// True if rules are also evaluated after messages are summarized.
    pub force_review_on_compaction: bool,
    /// Presets by mode: `thread:NAME`, `direct:NAME`, or `fork:NAME`, with the agent's name. A key can be any part of a mode; the
    /// longest key that matches applies. At most 100.
    pub default_preset_by_mode: BTreeMap<String, String>,
}

/// A rule for agents whose profile is `auto`. It matches if all of its conditions hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PresetRule {
    /// Keywords, at least one of which must occur in the message as whole words; an empty list sets no condition. At most 20, of
    /// 1 to 60 characters.
    #[serde(default)]
    pub keywords: Vec<String>,
    /// Minimum length of the message in UTF-16 code units.
    #[serde(default)]
    pub min_length: Option<u32>,
    /// Maximum length of the message in UTF-16 code units.
    #[serde(default)]
    pub max_length: Option<u32>,
    pub preset: String,
    /// Priority, −1000 to 1000. The matching rule with the highest priority applies; among equal priorities, the first one.
    #[serde(default)]
    pub priority: i32,
}

constant! { pub PromptProfilesObject = "prompt_profiles" }

/// Add-ons, presets, and rules of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct PromptProfiles {
    #[schema(inline)]
    pub object: PromptProfilesObject,
    /// Version for `If-Match`; 0 before the first change.
    pub version: i64,
    #[serde(flatten)]
    pub content: PromptContent,
}

/// Column `prompt_profiles.document`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PromptContent {
    /// At most 32.
    pub addons: Vec<PromptAddon>,
    /// At most 32.
    pub presets: Vec<PromptPreset>,
    pub routing: PromptRouting,
    /// At most 100.
    pub rules: Vec<PresetRule>,
}

impl Default for PromptContent {
    fn default() -> Self {
        Self {
            addons: Vec::new(),
            presets: Vec::new(),
            routing: PromptRouting {
                review_every_n_turns: 6,
                force_review_on_compaction: true,
                default_preset_by_mode: BTreeMap::new(),
            },
            rules: Vec::new(),
        }
    }
}

pub(super) const SEED: &str = include_str!("../../../seeds/prompt-profiles.yaml");

/// Default document, for workspaces that have not changed theirs.
static SEEDED: LazyLock<PromptContent> = LazyLock::new(|| {
    serde_yaml_ng::from_str(SEED).unwrap_or_else(|e| {
        tracing::error!(error = %e, "seeds/prompt-profiles.yaml is invalid; no presets are available");
        PromptContent::default()
    })
});

impl PromptContent {
    pub fn preset(&self, id: &str) -> Option<&PromptPreset> {
        self.presets.iter().find(|preset| preset.id == id)
    }

    /// Returns the add-ons of a preset as one text; `None` for an unknown preset.
    pub fn text_of(&self, preset: &str) -> Option<String> {
        let addons = self.preset(preset)?.addons.iter();
        let texts = addons.filter_map(|id| self.addons.iter().find(|addon| addon.id == *id));
        let texts: Vec<&str> = texts.map(|addon| addon.text.trim()).collect();
        Some(texts.join("\n\n"))
    }

    /// Returns the default preset of a mode.
    pub fn default_of(&self, mode: &str) -> Option<&str> {
        let defaults = self.routing.default_preset_by_mode.iter();
        let longest = defaults
            .filter(|(part, _)| mode.contains(part.as_str()))
            .max_by_key(|(part, _)| part.len());
        longest.map(|(_, preset)| preset.as_str())
    }
}

/// Returns the document of a workspace, or the default document before the first change.
pub async fn find_prompt_profiles(
    c: &mut Conn,
    workspace: WorkspaceId,
) -> Result<PromptProfiles, DbError> {
    let row: Option<(Json<PromptContent>, i64)> = c
        .q("select document, version from prompt_profiles where workspace_id = $1")
        .bind(workspace)
        .opt()
        .await?;
    let (content, version) = match row {
        Some((Json(content), version)) => (content, version),
        None => (SEEDED.clone(), 0),
    };
    Ok(PromptProfiles {
        object: PromptProfilesObject,
        version,
        content,
    })
}
