//! Prompt profiles of a workspace: add-ons to the system text, presets of add-ons (reply styles), and the rules that
//! choose a preset. Replies apply them; this module does not depend on conversations.

mod change;
mod document;
mod form;

pub use change::{Changed, put_prompt_profiles};
pub use document::{
    AUTO, ChosenBy, NONE, PresetRule, PromptAddon, PromptContent, PromptPreset, PromptProfiles,
    PromptRouting, find_prompt_profiles,
};
pub use form::PromptProfilesForm;
