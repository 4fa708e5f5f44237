//! Adaptation of an agent to people who allow it: scores of their messages, and reflections on the conversation. The profile
//! only configures adaptation; replies perform it.

use std::collections::HashSet;

use serde::{Deserialize, Deserializer, Serialize};

use crate::text_enum::text_enum;

/// ID of the built-in reflection.
pub const SELF_TRAIT_ADJUSTMENT: &str = "gmi_self_trait_adjustment";

const TURNS_MAX: u32 = 100;
/// Minimum number of turns between two reflections.
const INTERVAL_TURNS_MIN: u32 = 2;
const METAPROMPTS_MAX: usize = 10;
const ID_CHARS_MAX: usize = 64;
const DESCRIPTION_UNITS_MAX: usize = 240;
const TEMPLATE_UNITS_MAX: usize = 4_000;
const OUTPUT_TOKENS_MAX: u32 = 1_024;
const MODEL_UNITS_MAX: usize = 128;
const TEMPERATURE_DEFAULT: f64 = 0.3;
const OUTPUT_TOKENS_DEFAULT: u32 = 256;

text_enum! {
    /// Profile that provides values for unset fields of `sentiment`.
    pub enum SentimentProfile {
        /// Messages are not scored.
        Off = "off",
        /// Uses the word list, and reacts to frustration and confusion.
        Basic = "basic",
        /// Uses the word list, and reacts to all events.
        Standard = "standard",
        /// Uses a language model, and reacts to all events.
        Advanced = "advanced",
        /// Uses the word list with lower thresholds, and reacts to frustration, confusion, and satisfaction.
        Tutor = "tutor",
    }
}

text_enum! {
    /// Scoring method for messages.
    pub enum SentimentMethod {
        /// Word list for English, German, French, and Spanish.
        Lexicon = "lexicon",
        /// Language model, after the reply.
        Llm = "llm",
    }
}

text_enum! {
    /// Reflection that the server runs for an event.
    pub enum SentimentPreset {
        FrustrationRecovery = "frustration_recovery",
        ConfusionClarification = "confusion_clarification",
        SatisfactionReinforcement = "satisfaction_reinforcement",
        ErrorRecovery = "error_recovery",
        EngagementBoost = "engagement_boost",
        /// All of the others; stored as the five presets.
        All = "all",
    }
}

impl SentimentPreset {
    /// All presets with a prompt.
    const EACH: [Self; 5] = [
        Self::FrustrationRecovery,
        Self::ConfusionClarification,
        Self::SatisfactionReinforcement,
        Self::ErrorRecovery,
        Self::EngagementBoost,
    ];
}

text_enum! {
    /// Event in a conversation with a person.
    pub enum AdaptationEvent {
        /// At least 2 of the last 10 replies to the person failed.
        ErrorThresholdExceeded = "error_threshold_exceeded",
        UserFrustrated = "user_frustrated",
        UserConfused = "user_confused",
        /// Four neutral, short messages.
        LowEngagement = "low_engagement",
        UserSatisfied = "user_satisfied",
    }
}

impl AdaptationEvent {
    /// The preset for the event.
    pub fn preset(self) -> SentimentPreset {
        match self {
            Self::ErrorThresholdExceeded => SentimentPreset::ErrorRecovery,
            Self::UserFrustrated => SentimentPreset::FrustrationRecovery,
            Self::UserConfused => SentimentPreset::ConfusionClarification,
            Self::LowEngagement => SentimentPreset::EngagementBoost,
            Self::UserSatisfied => SentimentPreset::SatisfactionReinforcement,
        }
    }
}

/// Settings for scoring the messages of people who allow it. A null field has the value from `profile`, or its default if there is no
/// profile.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Sentiment {
    /// False by default; true with a profile other than `off`. With `off`, messages are scored only if `presets` lists some.
    pub enabled: Option<bool>,
    pub profile: Option<SentimentProfile>,
    /// `lexicon` by default.
    pub method: Option<SentimentMethod>,
    /// Model for `llm`; the utility model by default.
    pub model: Option<String>,
    /// Number of scores that are kept, 1 to 100; 10 by default.
    pub history_window: Option<u32>,
    /// Score below which a message is negative, −1 to 0; −0.3 by default.
    pub frustration_threshold: Option<f64>,
    /// Score above which a message is positive, 0 to 1; 0.3 by default.
    pub satisfaction_threshold: Option<f64>,
    /// Number of negative or positive messages in a row that count as an event, 1 to 100; 2 by default.
    pub consecutive_turns: Option<u32>,
    /// Presets for events to which the server reacts: all by default, none if the list is empty. `all` is stored as all
    /// five.
    #[serde(deserialize_with = "expanded")]
    pub presets: Option<Vec<SentimentPreset>>,
}

/// Deserializes presets, without duplicates, and with `all` replaced by all five.
fn expanded<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Vec<SentimentPreset>>, D::Error> {
    let named: Option<Vec<SentimentPreset>> = Option::deserialize(d)?;
    Ok(named.map(|named| {
        if named.contains(&SentimentPreset::All) {
            return SentimentPreset::EACH.to_vec();
        }
        let mut seen = HashSet::new();
        named
            .into_iter()
            .filter(|preset| seen.insert(*preset))
            .collect()
    }))
}

/// The effective values of `sentiment`.
#[derive(Debug, Clone, PartialEq)]
pub struct SentimentSettings {
    pub method: SentimentMethod,
    pub model: Option<String>,
    pub history_window: usize,
    pub frustration_threshold: f64,
    pub satisfaction_threshold: f64,
    pub consecutive_turns: usize,
    pub presets: Vec<SentimentPreset>,
}

impl SentimentSettings {
    /// Returns the values of a profile, or the defaults if there is none.
    fn of(profile: Option<SentimentProfile>) -> Self {
        use SentimentPreset as Preset;
        let all = SentimentPreset::EACH.to_vec();
        let (method, presets, threshold) = match profile {
            None | Some(SentimentProfile::Standard) => (SentimentMethod::Lexicon, all, 0.3),
            Some(SentimentProfile::Advanced) => (SentimentMethod::Llm, all, 0.3),
            Some(SentimentProfile::Off) => (SentimentMethod::Lexicon, Vec::new(), 0.3),
            Some(SentimentProfile::Basic) => (
                SentimentMethod::Lexicon,
                vec![Preset::FrustrationRecovery, Preset::ConfusionClarification],
                0.3,
            ),
            Some(SentimentProfile::Tutor) => (
                SentimentMethod::Lexicon,
                vec![
                    Preset::FrustrationRecovery,
                    Preset::ConfusionClarification,
                    Preset::SatisfactionReinforcement,
                ],
                0.2,
            ),
        };
        Self {
            method,
            model: None,
            history_window: 10,
            frustration_threshold: -threshold,
            satisfaction_threshold: threshold,
            consecutive_turns: 2,
            presets,
        }
    }
}

impl Sentiment {
    /// Returns true if messages of people who allow it are scored.
    pub fn is_on(&self) -> bool {
        match (self.enabled, self.profile) {
            (Some(false), _) | (None, None | Some(SentimentProfile::Off)) => false,
            // Scores without a preset would be stored for nothing.
            (Some(true), Some(SentimentProfile::Off)) => self
                .presets
                .as_ref()
                .is_some_and(|presets| !presets.is_empty()),
            (Some(true), _) | (None, Some(_)) => true,
        }
    }

    /// Returns the effective values; `None` if messages are not scored.
    pub fn settings(&self) -> Option<SentimentSettings> {
        if !self.is_on() {
            return None;
        }
        let base = SentimentSettings::of(self.profile);
        let count = |own: Option<u32>, other: usize| {
            own.map_or(other, |own| usize::try_from(own).unwrap_or(usize::MAX))
        };
        Some(SentimentSettings {
            method: self.method.unwrap_or(base.method),
            model: self.model.clone(),
            history_window: count(self.history_window, base.history_window),
            frustration_threshold: self
                .frustration_threshold
                .unwrap_or(base.frustration_threshold),
            satisfaction_threshold: self
                .satisfaction_threshold
                .unwrap_or(base.satisfaction_threshold),
            consecutive_turns: count(self.consecutive_turns, base.consecutive_turns),
            presets: self.presets.clone().unwrap_or(base.presets),
        })
    }

    pub(super) fn check(&self) -> Result<(), Violation> {
        let counts = [self.history_window, self.consecutive_turns];
        let is_count = |n: u32| (1..=TURNS_MAX).contains(&n);
        require(
            counts.into_iter().flatten().all(is_count),
            "sentiment",
            || format!("history_window and consecutive_turns must be from 1 to {TURNS_MAX}"),
        )?;
        let frustration = self.frustration_threshold;
        let satisfaction = self.satisfaction_threshold;
        let are_thresholds = frustration.is_none_or(|score| (-1.0..=0.0).contains(&score))
            && satisfaction.is_none_or(|score| (0.0..=1.0).contains(&score));
        require(are_thresholds, "sentiment", || {
            "frustration_threshold must be from -1 to 0, and satisfaction_threshold from 0 to 1"
                .to_owned()
        })?;
        let names_model = |text: &str| !text.trim().is_empty() && units(text) <= MODEL_UNITS_MAX;
        require(
            self.model.as_deref().is_none_or(names_model),
            "sentiment.model",
            || {
                format!(
                    "the model name must have 1 to {MODEL_UNITS_MAX} characters; null selects the utility model"
                )
            },
        )
    }
}

text_enum! {
    /// Kind of trigger.
    pub enum TriggerType {
        /// Every `interval_turns` replies.
        TurnInterval = "turn_interval",
        /// The event in `event`.
        EventBased = "event_based",
        /// A request to `POST /v1/agents/{id}/reflect`.
        Manual = "manual",
    }
}

/// Trigger of a metaprompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MetapromptTrigger {
    #[serde(rename = "type")]
    pub kind: TriggerType,
    /// Number of replies, 2 to 100; required for `turn_interval`, not allowed otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_turns: Option<u32>,
    /// Event; required for `event_based`, not allowed otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<AdaptationEvent>,
}

/// A question about the conversation that a model answers. Only mood, skill, and complexity are read from the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Metaprompt {
    /// `[a-z0-9_-]{1,64}`, unique in the list.
    pub id: String,
    /// At most 240 characters.
    #[serde(default)]
    pub description: String,
    /// 1 to 4,000 characters, with variables such as `{{current_mood}}`.
    pub template: String,
    pub trigger: MetapromptTrigger,
    /// 0 to 2; 0.3 by default.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// 1 to 1,024; 256 by default.
    #[serde(default)]
    pub max_output_tokens: Option<u32>,
}

impl Metaprompt {
    pub fn temperature(&self) -> f64 {
        self.temperature.unwrap_or(TEMPERATURE_DEFAULT)
    }

    pub fn output_tokens_max(&self) -> u32 {
        self.max_output_tokens.unwrap_or(OUTPUT_TOKENS_DEFAULT)
    }

    fn check(&self) -> Result<(), Violation> {
        let id: String = self.id.chars().take(ID_CHARS_MAX).collect();
        let is_id = (1..=ID_CHARS_MAX).contains(&self.id.len())
            && self
                .id
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-'));
        let of = |is_valid: bool, rule: String| {
            require(is_valid, "reflection", || {
                format!("metaprompt `{id}`: {rule}")
            })
        };
        of(
            is_id,
            format!("the ID must be 1 to {ID_CHARS_MAX} characters of a-z, 0-9, _, and -"),
        )?;
        of(
            units(&self.description) <= DESCRIPTION_UNITS_MAX,
            format!("the description can have at most {DESCRIPTION_UNITS_MAX} characters"),
        )?;
        of(
            !self.template.trim().is_empty() && units(&self.template) <= TEMPLATE_UNITS_MAX,
            format!("the template must have 1 to {TEMPLATE_UNITS_MAX} characters"),
        )?;
        if let Some(name) = unknown_variable(&self.template) {
            let known: Vec<&str> = TemplateVariable::ALL
                .iter()
                .map(|known| known.as_str())
                .collect();
            let known = known.join("`, `");
            of(
                false,
                format!("there is no variable `{name}`: use `{known}`"),
            )?;
        }
        let trigger = self.trigger;
        let is_complete = (trigger.kind == TriggerType::TurnInterval)
            == trigger.interval_turns.is_some()
            && (trigger.kind == TriggerType::EventBased) == trigger.event.is_some();
        of(
            is_complete,
            "turn_interval requires interval_turns, event_based requires event, and manual allows neither"
                .to_owned(),
        )?;
        of(
            trigger.interval_turns.is_none_or(is_interval),
            interval_rule(),
        )?;
        of(
            self.temperature.is_none_or(|t| (0.0..=2.0).contains(&t)),
            "temperature must be from 0 to 2".to_owned(),
        )?;
        of(
            self.max_output_tokens
                .is_none_or(|n| (1..=OUTPUT_TOKENS_MAX).contains(&n)),
            format!("max_output_tokens must be from 1 to {OUTPUT_TOKENS_MAX}"),
        )
    }
}

/// Reflections on conversations with people who allow it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Reflection {
    /// Number of replies after which the built-in reflection runs, 2 to 100; null for never. A metaprompt with the ID
    /// `gmi_self_trait_adjustment` replaces it.
    pub interval_turns: Option<u32>,
    /// At most 10.
    pub metaprompts: Vec<Metaprompt>,
}

impl Reflection {
    /// Returns true if any reflection is configured.
    pub fn is_on(&self) -> bool {
        self.interval_turns.is_some() || !self.metaprompts.is_empty()
    }

    pub fn metaprompt(&self, id: &str) -> Option<&Metaprompt> {
        self.metaprompts.iter().find(|known| known.id == id)
    }

    pub(super) fn check(&self) -> Result<(), Violation> {
        require(
            self.interval_turns.is_none_or(is_interval),
            "reflection",
            interval_rule,
        )?;
        require(
            self.metaprompts.len() <= METAPROMPTS_MAX,
            "reflection",
            || format!("at most {METAPROMPTS_MAX} metaprompts are allowed"),
        )?;
        let mut seen = HashSet::new();
        for metaprompt in &self.metaprompts {
            metaprompt.check()?;
            require(seen.insert(&metaprompt.id), "reflection", || {
                format!("the ID `{}` is used twice: choose another", metaprompt.id)
            })?;
        }
        Ok(())
    }
}

text_enum! {
    /// Variable of a template.
    pub enum TemplateVariable {
        CurrentMood = "current_mood",
        UserSkill = "user_skill",
        TaskComplexity = "task_complexity",
        /// Sentiment class of the newest message.
        CurrentSentiment = "current_sentiment",
        SentimentScore = "sentiment_score",
        ConsecutiveFrustration = "consecutive_frustration",
        ConsecutiveConfusion = "consecutive_confusion",
        ConsecutiveSatisfaction = "consecutive_satisfaction",
        ConsecutiveNeutral = "consecutive_neutral",
        /// Phrases in the newest message that show confusion.
        ConfusionKeywords = "confusion_keywords",
        /// The person's last 5 questions, with the replies.
        RecentConversation = "recent_conversation",
        /// Codes of the last 3 failed replies.
        RecentErrors = "recent_errors",
        /// Conversation, errors, and scores.
        Evidence = "evidence",
    }
}

/// Part of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplatePart<'a> {
    Text(&'a str),
    /// The text between `{{` and `}}`, trimmed.
    Variable(&'a str),
}

/// Splits a template into text and variables. An unclosed `{{` is treated as text.
pub fn template_parts(template: &str) -> Vec<TemplatePart<'_>> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, behind)) = after.split_once("}}") else {
            break;
        };
        parts.push(TemplatePart::Text(before));
        parts.push(TemplatePart::Variable(name.trim()));
        rest = behind;
    }
    parts.push(TemplatePart::Text(rest));
    parts
}

/// Returns the beginning of the first variable that does not exist.
fn unknown_variable(template: &str) -> Option<String> {
    template_parts(template)
        .into_iter()
        .find_map(|part| match part {
            TemplatePart::Variable(name) if name.parse::<TemplateVariable>().is_err() => {
                Some(name.chars().take(ID_CHARS_MAX).collect())
            }
            _ => None,
        })
}

fn is_interval(turns: u32) -> bool {
    (INTERVAL_TURNS_MIN..=TURNS_MAX).contains(&turns)
}

fn interval_rule() -> String {
    format!("interval_turns must be from {INTERVAL_TURNS_MIN} to {TURNS_MAX}")
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Violation of a rule: the message, and the field.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) text: String,
    pub(super) param: &'static str,
}

/// Returns an error with this text unless `holds` is true.
fn require(
    holds: bool,
    param: &'static str,
    text: impl FnOnce() -> String,
) -> Result<(), Violation> {
    if holds {
        Ok(())
    } else {
        Err(Violation {
            text: text(),
            param,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn sentiment(fields: Value) -> Sentiment {
        serde_json::from_value(fields).unwrap()
    }

    fn settings(fields: Value) -> Option<SentimentSettings> {
        sentiment(fields).settings()
    }

    #[test]
    fn each_profile_has_its_values() {
        use SentimentPreset::{
            ConfusionClarification as Confusion, FrustrationRecovery as Frustration,
            SatisfactionReinforcement as Satisfaction,
        };
        let all = SentimentPreset::EACH.to_vec();
        assert_eq!(settings(json!({"profile": "off"})), None);
        assert_eq!(settings(json!({"enabled": true, "profile": "off"})), None);
        assert_eq!(settings(json!({})), None);
        for (fields, method, threshold, presets) in [
            (
                json!({"profile": "basic"}),
                SentimentMethod::Lexicon,
                0.3,
                vec![Frustration, Confusion],
            ),
            (
                json!({"profile": "standard"}),
                SentimentMethod::Lexicon,
                0.3,
                all.clone(),
            ),
            (
                json!({"profile": "advanced"}),
                SentimentMethod::Llm,
                0.3,
                all.clone(),
            ),
            (
                json!({"profile": "tutor"}),
                SentimentMethod::Lexicon,
                0.2,
                vec![Frustration, Confusion, Satisfaction],
            ),
            (json!({"enabled": true}), SentimentMethod::Lexicon, 0.3, all),
        ] {
            let found = settings(fields.clone()).unwrap();
            let wanted = SentimentSettings {
                method,
                model: None,
                history_window: 10,
                frustration_threshold: -threshold,
                satisfaction_threshold: threshold,
                consecutive_turns: 2,
                presets,
            };
            assert_eq!(found, wanted, "{fields}");
        }
    }

    #[test]
    fn a_field_comes_before_the_profile() {
        let found = settings(
            json!({"profile": "tutor", "method": "llm", "model": "tiny", "history_window": 4,
            "frustration_threshold": -0.5, "consecutive_turns": 3, "presets": []}),
        )
        .unwrap();
        let wanted = SentimentSettings {
            method: SentimentMethod::Llm,
            model: Some("tiny".to_owned()),
            history_window: 4,
            frustration_threshold: -0.5,
            satisfaction_threshold: 0.2,
            consecutive_turns: 3,
            presets: Vec::new(),
        };
        assert_eq!(found, wanted);
        assert_eq!(
            settings(json!({"enabled": false, "profile": "basic"})),
            None
        );
    }

    #[test]
    fn all_is_stored_as_five_presets_and_an_empty_list_stays_empty() {
        for (presets, wanted) in [
            (json!(["all"]), json!(SentimentPreset::EACH)),
            (
                json!(["error_recovery", "all"]),
                json!(SentimentPreset::EACH),
            ),
            (
                json!(["error_recovery", "error_recovery"]),
                json!(["error_recovery"]),
            ),
            (json!([]), json!([])),
            (Value::Null, Value::Null),
        ] {
            let stored = json!(sentiment(json!({"presets": presets})));
            assert_eq!(stored["presets"], wanted, "{presets}");
        }
        assert_eq!(json!(sentiment(json!({})))["presets"], Value::Null);
    }

    #[test]
    fn a_template_is_split_at_its_variables() {
        use TemplatePart::{Text, Variable};
        assert_eq!(
            template_parts("Mood: {{ current_mood }}{{evidence}}."),
            [
                Text("Mood: "),
                Variable("current_mood"),
                Text(""),
                Variable("evidence"),
                Text(".")
            ]
        );
        assert_eq!(template_parts("a {{ b"), [Text("a {{ b")]);
        assert_eq!(unknown_variable("{{current_mood}} {x} }}"), None);
        assert_eq!(unknown_variable("{{password}}").unwrap(), "password");
        assert_eq!(unknown_variable("{{}}").unwrap(), "");
    }

    #[test]
    fn a_violated_rule_of_a_metaprompt_names_the_field() {
        let valid =
            json!({"id": "check-in", "template": "{{evidence}}", "trigger": {"type": "manual"}});
        let with = |pointer: &str, value: Value| {
            let mut form = valid.clone();
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            form.pointer_mut(parent).unwrap()[field] = value;
            form
        };
        let check = |metaprompts: Value| {
            let reflection: Reflection =
                serde_json::from_value(json!({"metaprompts": metaprompts})).unwrap();
            reflection.check()
        };
        let interval = |turns: Value| json!({"type": "turn_interval", "interval_turns": turns});
        for fits in [
            valid.clone(),
            with("/trigger", interval(json!(2))),
            with("/trigger", interval(json!(100))),
            with(
                "/trigger",
                json!({"type": "event_based", "event": "user_confused"}),
            ),
            with("/template", json!("x".repeat(4_000))),
            with("/description", json!("x".repeat(240))),
            with("/temperature", json!(2)),
            with("/max_output_tokens", json!(1_024)),
        ] {
            assert!(check(json!([fits])).is_ok(), "{fits}");
        }
        for breaks in [
            with("/id", json!("")),
            with("/id", json!("Check in")),
            with("/id", json!("x".repeat(65))),
            with("/trigger", interval(json!(1))),
            with("/trigger", interval(json!(101))),
            with("/trigger", json!({"type": "turn_interval"})),
            with("/trigger", json!({"type": "event_based"})),
            with(
                "/trigger",
                json!({"type": "manual", "event": "user_confused"}),
            ),
            with("/template", json!(" ")),
            with("/template", json!("x".repeat(4_001))),
            with("/template", json!("{{secrets}}")),
            with("/description", json!("x".repeat(241))),
            with("/temperature", json!(2.1)),
            with("/max_output_tokens", json!(0)),
            with("/max_output_tokens", json!(1_025)),
        ] {
            let Err(violation) = check(json!([breaks])) else {
                panic!("{breaks}");
            };
            assert_eq!(violation.param, "reflection");
        }
        assert!(check(json!([valid, valid])).is_err());
        assert!(check(json!([])).is_ok());
    }
}
