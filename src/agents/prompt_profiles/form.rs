//! The document that clients send, and its validation.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;

use super::document::{
    AUTO, NONE, PresetRule, PromptAddon, PromptContent, PromptPreset, PromptRouting,
};
use crate::agents::{AgentError, profiles::tools::IgnoredField};

const ADDONS_MAX: usize = 32;
/// Maximum size of an add-on in UTF-8 bytes.
const ADDON_BYTES_MAX: usize = 4 * 1024;
const PRESETS_MAX: usize = 32;
const PRESET_ADDONS_MAX: usize = 8;
const ID_CHARS_MAX: usize = 64;
const NAME_UNITS_MAX: usize = 80;
const DESCRIPTION_UNITS_MAX: usize = 240;
const REVIEW_TURNS_MAX: i64 = 100;
const MODES_MAX: usize = 100;
const MODE_CHARS_MAX: usize = 100;
const RULES_MAX: usize = 100;
const KEYWORDS_MAX: usize = 20;
const KEYWORD_UNITS_MAX: usize = 60;
const PRIORITY_MAX: i32 = 1_000;

/// Fields of `PUT /v1/prompt-profiles`.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptProfilesForm {
    /// Set by the server; ignored in requests.
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub object: IgnoredField,
    /// Set by the server; ignored in requests.
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub version: IgnoredField,
    /// At most 32.
    pub addons: Vec<PromptAddon>,
    /// At most 32.
    pub presets: Vec<PromptPreset>,
    pub routing: PromptRouting,
    /// At most 100.
    pub rules: Vec<PresetRule>,
}

impl PromptProfilesForm {
    /// # Errors
    /// `Invalid` with the field.
    pub fn into_content(self) -> Result<PromptContent, AgentError> {
        let content = PromptContent {
            addons: self.addons,
            presets: self.presets,
            routing: self.routing,
            rules: self.rules,
        };
        check(&content)?;
        Ok(content)
    }
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Returns an error with this text unless `holds` is true.
fn require(
    holds: bool,
    param: &'static str,
    text: impl FnOnce() -> String,
) -> Result<(), AgentError> {
    if holds {
        Ok(())
    } else {
        Err(AgentError::Invalid(text(), param))
    }
}

pub(super) fn check(content: &PromptContent) -> Result<(), AgentError> {
    check_addons(&content.addons)?;
    check_presets(content)?;
    check_routing(content)?;
    check_rules(content)
}

/// Checks the format of IDs, and that each occurs only once.
fn check_ids<'a>(
    ids: impl Iterator<Item = &'a String>,
    param: &'static str,
) -> Result<(), AgentError> {
    let mut seen = HashSet::new();
    for id in ids {
        let is_id = (1..=ID_CHARS_MAX).contains(&id.len())
            && id
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            && ![AUTO, NONE].contains(&id.as_str());
        require(is_id, param, || {
            let id: String = id.chars().take(ID_CHARS_MAX).collect();
            format!(
                "`{id}` is not a valid ID: use 1 to {ID_CHARS_MAX} characters of a-z, 0-9, and _; `{AUTO}` and `{NONE}` are reserved"
            )
        })?;
        require(seen.insert(id), param, || {
            format!("the ID `{id}` is used twice: choose another")
        })?;
    }
    Ok(())
}

fn check_addons(addons: &[PromptAddon]) -> Result<(), AgentError> {
    require(addons.len() <= ADDONS_MAX, "addons", || {
        format!("at most {ADDONS_MAX} add-ons are allowed")
    })?;
    check_ids(addons.iter().map(|addon| &addon.id), "addons")?;
    for addon in addons {
        let fits = !addon.text.trim().is_empty() && addon.text.len() <= ADDON_BYTES_MAX;
        require(fits, "addons", || {
            format!(
                "the text of the add-on `{}` must have 1 to {ADDON_BYTES_MAX} bytes",
                addon.id
            )
        })?;
    }
    Ok(())
}

fn check_presets(content: &PromptContent) -> Result<(), AgentError> {
    let presets = &content.presets;
    require(presets.len() <= PRESETS_MAX, "presets", || {
        format!("at most {PRESETS_MAX} presets are allowed")
    })?;
    check_ids(presets.iter().map(|preset| &preset.id), "presets")?;
    for preset in presets {
        let id = &preset.id;
        let named = !preset.name.trim().is_empty() && units(&preset.name) <= NAME_UNITS_MAX;
        require(named, "presets", || {
            format!("the name of the preset `{id}` must have 1 to {NAME_UNITS_MAX} characters")
        })?;
        let described = units(&preset.description) <= DESCRIPTION_UNITS_MAX;
        require(described, "presets", || {
            format!(
                "the description of the preset `{id}` can have at most {DESCRIPTION_UNITS_MAX} characters"
            )
        })?;
        require(preset.addons.len() <= PRESET_ADDONS_MAX, "presets", || {
            format!("the preset `{id}` can have at most {PRESET_ADDONS_MAX} add-ons")
        })?;
        let mut seen = HashSet::new();
        for used in &preset.addons {
            let is_known = content.addons.iter().any(|addon| addon.id == *used);
            require(is_known, "presets", || {
                format!("the preset `{id}` uses the add-on `{used}`, which is not in `addons`")
            })?;
            require(seen.insert(used), "presets", || {
                format!("the preset `{id}` uses the add-on `{used}` twice")
            })?;
        }
    }
    Ok(())
}

fn check_known(content: &PromptContent, id: &str, param: &'static str) -> Result<(), AgentError> {
    require(content.preset(id).is_some(), param, || {
        format!("`presets` has no preset `{id}`: add it, or choose another")
    })
}

fn check_routing(content: &PromptContent) -> Result<(), AgentError> {
    let routing = &content.routing;
    let turns = 1..=REVIEW_TURNS_MAX;
    require(
        turns.contains(&routing.review_every_n_turns),
        "routing",
        || format!("review_every_n_turns must be from 1 to {REVIEW_TURNS_MAX}"),
    )?;
    let modes: &BTreeMap<String, String> = &routing.default_preset_by_mode;
    let is_mode = |part: &String| (1..=MODE_CHARS_MAX).contains(&part.chars().count());
    let fits = modes.len() <= MODES_MAX && modes.keys().all(is_mode);
    require(fits, "routing", || {
        format!("at most {MODES_MAX} modes of 1 to {MODE_CHARS_MAX} characters are allowed")
    })?;
    for preset in modes.values() {
        check_known(content, preset, "routing")?;
    }
    Ok(())
}

fn check_rules(content: &PromptContent) -> Result<(), AgentError> {
    require(content.rules.len() <= RULES_MAX, "rules", || {
        format!("at most {RULES_MAX} rules are allowed")
    })?;
    for rule in &content.rules {
        check_known(content, &rule.preset, "rules")?;
        let is_keyword = |word: &String| {
            word.chars().any(char::is_alphanumeric) && units(word) <= KEYWORD_UNITS_MAX
        };
        let fits = rule.keywords.len() <= KEYWORDS_MAX && rule.keywords.iter().all(is_keyword);
        require(fits, "rules", || {
            format!(
                "a rule can have at most {KEYWORDS_MAX} keywords of 1 to {KEYWORD_UNITS_MAX} characters, each with a letter or digit"
            )
        })?;
        let is_range = rule
            .min_length
            .zip(rule.max_length)
            .is_none_or(|(min, max)| min <= max);
        require(is_range, "rules", || {
            "min_length must not exceed max_length".to_owned()
        })?;
        let priorities = -PRIORITY_MAX..=PRIORITY_MAX;
        require(priorities.contains(&rule.priority), "rules", || {
            format!("priority must be from -{PRIORITY_MAX} to {PRIORITY_MAX}")
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::document::SEED;
    use super::*;

    fn seed() -> PromptContent {
        let form: PromptProfilesForm = serde_yaml_ng::from_str(SEED).unwrap();
        form.into_content().unwrap()
    }

    fn refused(change: impl FnOnce(&mut PromptContent)) -> &'static str {
        let mut content = seed();
        change(&mut content);
        match check(&content) {
            Err(AgentError::Invalid(_, param)) => param,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_seed_has_four_presets_with_an_add_on_each_and_no_mode_defaults() {
        let seed = seed();
        let presets: Vec<(&str, &str)> = (seed.presets.iter())
            .map(|preset| (preset.id.as_str(), preset.name.as_str()))
            .collect();
        assert_eq!(
            presets,
            [
                ("concise", "Brief"),
                ("deep_dive", "In depth"),
                ("planner", "Plan"),
                ("reviewer", "Review")
            ]
        );
        assert!(seed.presets.iter().all(|preset| preset.addons.len() == 1));
        assert_eq!(seed.addons.len(), 4);
        assert!(seed.routing.default_preset_by_mode.is_empty());
        let rules: Vec<(&str, i32)> = (seed.rules.iter())
            .map(|rule| (rule.preset.as_str(), rule.priority))
            .collect();
        assert_eq!(
            rules,
            [
                ("concise", 100),
                ("planner", 50),
                ("reviewer", 50),
                ("deep_dive", 10)
            ]
        );
        assert_eq!(seed.rules[3].min_length, Some(1_200));
    }

    #[test]
    fn a_violated_rule_names_its_field() {
        for id in ["", "auto", "none", "Brief", "a-b", &"x".repeat(65)] {
            assert_eq!(
                refused(|c| c.addons[0].id = id.to_owned()),
                "addons",
                "{id}"
            );
        }
        assert_eq!(refused(|c| c.addons[0].text = " ".to_owned()), "addons");
        assert_eq!(refused(|c| c.addons[0].text = "x".repeat(4097)), "addons");
        assert_eq!(
            refused(|c| c.addons[1].id = c.addons[0].id.clone()),
            "addons"
        );
        assert_eq!(refused(|c| c.presets[0].id = "auto".to_owned()), "presets");
        assert_eq!(refused(|c| c.presets[0].name = String::new()), "presets");
        assert_eq!(
            refused(|c| c.presets[0].description = "x".repeat(241)),
            "presets"
        );
        assert_eq!(
            refused(|c| c.presets[0].addons.push("gone".to_owned())),
            "presets"
        );
        assert_eq!(refused(|c| c.routing.review_every_n_turns = 0), "routing");
        assert_eq!(refused(|c| c.routing.review_every_n_turns = 101), "routing");
        let gone = || ("direct".to_owned(), "gone".to_owned());
        assert_eq!(
            refused(|c| c.routing.default_preset_by_mode.extend([gone()])),
            "routing"
        );
        assert_eq!(refused(|c| c.rules[0].preset = "gone".to_owned()), "rules");
        assert_eq!(refused(|c| c.rules[0].priority = 1_001), "rules");
        assert_eq!(refused(|c| c.rules[0].priority = -1_001), "rules");
        assert_eq!(
            refused(|c| c.rules[0].keywords = vec!["x".repeat(61)]),
            "rules"
        );
        assert_eq!(
            refused(|c| c.rules[0].keywords = vec!["!".to_owned()]),
            "rules"
        );
        assert_eq!(
            refused(|c| c.rules[0].keywords = vec!["x".to_owned(); 21]),
            "rules"
        );
        assert_eq!(refused(|c| c.rules[3].max_length = Some(1)), "rules");
    }

    #[test]
    fn a_returned_document_can_be_sent_back_and_unknown_fields_are_rejected() {
        let mut sent = serde_json::to_value(seed()).unwrap();
        sent["object"] = json!("prompt_profiles");
        sent["version"] = json!(7);
        assert!(serde_json::from_value::<PromptProfilesForm>(sent.clone()).is_ok());
        let mut odd = sent.clone();
        odd["routing"]["often"] = json!(true);
        assert!(serde_json::from_value::<PromptProfilesForm>(odd).is_err());
        sent["styles"] = json!([]);
        assert!(serde_json::from_value::<PromptProfilesForm>(sent).is_err());
    }
}
