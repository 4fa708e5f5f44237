//! Selects the reply style: the preset whose add-ons become part of the system prompt, and its origin.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    agents::{
        profiles::Resolved,
        prompt_profiles::{AUTO, ChosenBy, NONE, PresetRule, PromptContent, find_prompt_profiles},
    },
    chat::{
        mentions,
        presets::{StoredPreset, find_preset},
        search::folded,
    },
    db::{Conn, DbError},
    ids::WorkspaceId,
};

/// A preset and its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UsedPreset {
    pub id: String,
    pub chosen_by: ChosenBy,
}

/// Reply style chosen for a reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplyPreset {
    pub used: Option<UsedPreset>,
    /// Joined text of the preset's add-ons; may be empty.
    pub text: String,
    /// Choice to store in the conversation with the reply. `None` if the stored choice does not change.
    pub stored: Option<StoredPreset>,
}

impl ReplyPreset {
    /// Finds the preset for the reply to a message. `mode` is the mode of the conversation with the agent.
    pub async fn find(
        c: &mut Conn,
        workspace: WorkspaceId,
        conversation: Uuid,
        agent: &Resolved,
        mode: &str,
        message: &str,
    ) -> Result<Self, DbError> {
        let profiles = find_prompt_profiles(c, workspace).await?;
        let stored = find_preset(c, conversation, agent.agent).await?;
        let prompting = agent.profile.prompting.as_ref();
        let choice = Choice {
            content: &profiles.content,
            profile: prompting.and_then(|prompting| prompting.profile.as_deref()),
            stored: &stored,
            mode,
            question: &without_mention(message, &agent.name),
        };
        Ok(choice.make())
    }
}

/// Returns a message without the mentions of a handle.
fn without_mention(message: &str, handle: &str) -> String {
    let found = mentions::parse(message);
    let own = found
        .iter()
        .filter(|raw| raw.candidates.iter().any(|known| known == handle));
    let spans: Vec<mentions::Span> = own.map(|raw| raw.span_of(handle)).collect();
    mentions::without(message, &spans)
}

/// Everything on which the choice of a preset depends.
struct Choice<'a> {
    content: &'a PromptContent,
    /// `prompting.profile` of the agent.
    profile: Option<&'a str>,
    stored: &'a StoredPreset,
    mode: &'a str,
    /// The message without the mention.
    question: &'a str,
}

impl Choice<'_> {
    /// Uses the first of these that applies: a person's choice, the agent's preset or `none`, the rules (with `auto`), and the mode
    /// default.
    fn make(&self) -> ReplyPreset {
        let known = |id: &&str| self.content.preset(id).is_some();
        let stored = self.stored.preset.as_deref().filter(known);
        if let (Some(ChosenBy::Person), Some(id)) = (self.stored.chosen_by, stored) {
            return self.with(Some((id, ChosenBy::Person)), None);
        }
        if self.profile == Some(NONE) {
            return self.with(None, Some(self.storing(None, None)));
        }
        // An agent version that is bound to the conversation may name a preset that has since been deleted.
        if let Some(id) = self.profile.filter(known) {
            let chosen = Some((id, ChosenBy::Agent));
            return self.with(chosen, Some(self.storing(chosen, None)));
        }
        if !self.is_due() {
            return self.with(stored.zip(self.stored.chosen_by), None);
        }
        let rule = (self.profile == Some(AUTO))
            .then(|| self.matching_rule())
            .flatten();
        let chosen = match rule {
            Some(rule) => Some((rule.preset.as_str(), ChosenBy::Rule)),
            None => (self.content.default_of(self.mode)).map(|id| (id, ChosenBy::Mode)),
        };
        self.with(chosen, Some(self.storing(chosen, Some(self.turn()))))
    }

    fn with(&self, chosen: Option<(&str, ChosenBy)>, stored: Option<StoredPreset>) -> ReplyPreset {
        let text = chosen.and_then(|(id, _)| self.content.text_of(id));
        // Most replies do not change the stored choice.
        let stored = stored.filter(|stored| stored != self.stored);
        ReplyPreset {
            used: chosen.map(|(id, chosen_by)| UsedPreset {
                id: id.to_owned(),
                chosen_by,
            }),
            text: text.unwrap_or_default(),
            stored,
        }
    }

    fn storing(&self, chosen: Option<(&str, ChosenBy)>, preset_turn: Option<i64>) -> StoredPreset {
        StoredPreset {
            preset: chosen.map(|(id, _)| id.to_owned()),
            chosen_by: chosen.map(|(_, by)| by),
            preset_turn,
            turns: self.stored.turns,
        }
    }

    /// Number of the current turn, starting at 1.
    fn turn(&self) -> i64 {
        self.stored.turns + 1
    }

    /// Checks whether the rules and the mode default are evaluated in this turn. They are evaluated in turns 1, 1 + n, 1 + 2n, and so
    /// on, where n is `review_every_n_turns`, and whenever the stored choice is no longer valid. If a reply for which they were
    /// evaluated does not complete, they are evaluated again for the next reply.
    fn is_due(&self) -> bool {
        let every = self.content.routing.review_every_n_turns.max(1);
        let reviewed_from = 1 + self.stored.turns / every * every;
        let is_valid = match (self.stored.preset.as_deref(), self.stored.chosen_by) {
            (None, _) => true,
            (Some(id), Some(ChosenBy::Rule)) => {
                self.profile == Some(AUTO) && self.content.preset(id).is_some()
            }
            (Some(id), Some(ChosenBy::Mode)) => self.content.preset(id).is_some(),
            _ => false,
        };
        let is_reviewed = self
            .stored
            .preset_turn
            .is_some_and(|turn| turn >= reviewed_from);
        !(is_valid && is_reviewed)
    }

    /// Finds the matching rule with the highest priority, or the first one if several have the same priority.
    fn matching_rule(&self) -> Option<&PresetRule> {
        let length = self.question.encode_utf16().count();
        let words = format!(" {} ", folded(self.question));
        let matching = self.content.rules.iter();
        matching
            .filter(|rule| is_match(rule, length, &words))
            .min_by_key(|rule| Reverse(rule.priority))
    }
}

/// Checks whether all conditions of a rule are met. `words` contains the folded words of the message, with a space before and after
/// each word.
fn is_match(rule: &PresetRule, length: usize, words: &str) -> bool {
    let is_within = |limit: Option<u32>, holds: fn(usize, usize) -> bool| {
        let limit = limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        limit.is_none_or(|limit| holds(length, limit))
    };
    let has = |keyword: &String| {
        let keyword = folded(keyword);
        !keyword.is_empty() && words.contains(&format!(" {keyword} "))
    };
    is_within(rule.min_length, |length, min| length >= min)
        && is_within(rule.max_length, |length, max| length <= max)
        && (rule.keywords.is_empty() || rule.keywords.iter().any(has))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Prompt profiles with presets `a` to `d`, the given rules, and mode defaults for `direct`, `direct:vibe`, and `thread:`.
    fn content(rules: &Value) -> PromptContent {
        let preset = |id: &str| json!({"id": id, "name": id, "description": "", "addons": [id]});
        let addon = |id: &str| json!({"id": id, "text": format!("Text of {id}.\n")});
        let ids = ["a", "b", "c", "d"];
        serde_json::from_value(json!({
            "addons": ids.map(addon),
            "presets": ids.map(preset),
            "routing": {"review_every_n_turns": 6, "force_review_on_compaction": true,
                "default_preset_by_mode": {"direct": "c", "direct:vibe": "d", "thread:": "c"}},
            "rules": rules,
        }))
        .unwrap()
    }

    fn plan_rule() -> Value {
        json!([{"keywords": ["plan"], "min_length": null, "max_length": null, "preset": "b", "priority": 0}])
    }

    fn stored(preset: Option<&str>, chosen_by: Option<ChosenBy>) -> StoredPreset {
        StoredPreset {
            preset: preset.map(str::to_owned),
            chosen_by,
            preset_turn: None,
            turns: 0,
        }
    }

    fn chosen(
        content: &PromptContent,
        profile: Option<&str>,
        stored: &StoredPreset,
        mode: &str,
        question: &str,
    ) -> Option<(String, ChosenBy)> {
        let choice = Choice {
            content,
            profile,
            stored,
            mode,
            question,
        };
        let used = choice.make().used;
        used.map(|used| (used.id, used.chosen_by))
    }

    #[test]
    fn a_person_comes_before_the_agent_the_agent_before_the_rules_and_they_before_the_mode() {
        use ChosenBy::{Agent, Mode, Person, Rule};
        let content = content(&plan_rule());
        let person = stored(Some("a"), Some(Person));
        let gone = stored(Some("gone"), Some(Person));
        let nobody = StoredPreset::default();
        let (plan, other) = ("The plan?", "And now?");
        let (thread, fork) = ("thread:vibe", "fork:vibe");
        for (stored, profile, question, mode, wanted) in [
            (&person, None, plan, thread, Some(("a", Person))),
            (&person, Some("auto"), plan, thread, Some(("a", Person))),
            (&person, Some("none"), plan, thread, Some(("a", Person))),
            (&person, Some("d"), plan, thread, Some(("a", Person))),
            (&nobody, Some("d"), plan, thread, Some(("d", Agent))),
            (&nobody, Some("d"), other, fork, Some(("d", Agent))),
            (&nobody, Some("none"), plan, thread, None),
            (&nobody, Some("auto"), plan, thread, Some(("b", Rule))),
            (&nobody, Some("auto"), plan, fork, Some(("b", Rule))),
            (&nobody, Some("auto"), other, thread, Some(("c", Mode))),
            (&nobody, Some("auto"), other, fork, None),
            (&nobody, None, plan, thread, Some(("c", Mode))),
            (&nobody, None, plan, fork, None),
            (&nobody, None, plan, "direct:coder", Some(("c", Mode))),
            // The longest match wins.
            (&nobody, None, plan, "direct:vibe", Some(("d", Mode))),
            // Presets that no longer exist are ignored.
            (&gone, Some("d"), plan, thread, Some(("d", Agent))),
            (&nobody, Some("gone"), plan, thread, Some(("c", Mode))),
        ] {
            let found = chosen(&content, profile, stored, mode, question);
            let wanted = wanted.map(|(id, by)| (id.to_owned(), by));
            assert_eq!(found, wanted, "{stored:?} {profile:?} {question} {mode}");
        }
    }

    #[test]
    fn a_rule_matches_whole_consecutive_words_without_case_and_accents() {
        let content = content(&json!([
            {"keywords": ["in short", "résumé"], "preset": "a", "priority": 1},
        ]));
        for (question, matches) in [
            ("In SHORT: why?", true),
            ("in  short", true),
            ("in\nshort", true),
            ("un resume, svp", true),
            ("RÉSUMÉ", true),
            ("in shorts", false),
            ("short in", false),
            ("in a short while", false),
            ("resumed", false),
            ("", false),
        ] {
            let found = chosen(
                &content,
                Some(AUTO),
                &StoredPreset::default(),
                "fork:x",
                question,
            );
            assert_eq!(found.is_some(), matches, "{question}");
        }
    }

    #[test]
    fn all_conditions_of_a_rule_must_hold_and_lengths_are_in_utf_16_code_units() {
        let content = content(&json!([
            {"keywords": ["plan"], "min_length": 6, "max_length": 8, "preset": "a"},
            {"min_length": 20, "preset": "b", "priority": -5},
        ]));
        let of = |question: &str| {
            let found = chosen(
                &content,
                Some(AUTO),
                &StoredPreset::default(),
                "fork:x",
                question,
            );
            found.map(|(id, _)| id)
        };
        assert_eq!(of("plan?"), None);
        assert_eq!(of("plan ?"), Some("a".to_owned()));
        assert_eq!(of("plan 👍"), Some("a".to_owned()), "7 code units");
        assert_eq!(of("plan 👍👍"), None, "9 code units");
        assert_eq!(of(&"x".repeat(19)), None);
        assert_eq!(of(&"x".repeat(20)), Some("b".to_owned()));
        assert_eq!(
            of(&format!("plan {}", "x".repeat(20))),
            Some("b".to_owned())
        );
    }

    #[test]
    fn the_highest_priority_wins_then_the_first_rule() {
        let rule = |preset: &str, priority: i32| json!({"keywords": ["plan"], "preset": preset, "priority": priority});
        for (rules, wanted) in [
            (json!([rule("a", 1), rule("b", 2)]), "b"),
            (json!([rule("a", 2), rule("b", 1)]), "a"),
            (json!([rule("a", 1), rule("b", 1)]), "a"),
            (json!([rule("a", -1), rule("b", 0), rule("c", 0)]), "b"),
        ] {
            let content = content(&rules);
            let found = chosen(
                &content,
                Some(AUTO),
                &StoredPreset::default(),
                "fork:x",
                "plan",
            );
            assert_eq!(found, Some((wanted.to_owned(), ChosenBy::Rule)), "{rules}");
        }
    }

    /// Returns the turns in which rules are evaluated, out of 20 attempts to reply.
    fn evaluated(every: i64, completes: impl Fn(i64) -> bool) -> Vec<i64> {
        let mut content = content(&plan_rule());
        content.routing.review_every_n_turns = every;
        let (mut stored, mut turns) = (StoredPreset::default(), Vec::new());
        for attempt in 1..=20 {
            let choice = Choice {
                content: &content,
                profile: Some(AUTO),
                stored: &stored,
                mode: "fork:x",
                question: "Hm",
            };
            let made = choice.make();
            if choice.is_due() {
                turns.push(stored.turns + 1);
            }
            if completes(attempt) {
                let turns = stored.turns + 1;
                stored = StoredPreset {
                    turns,
                    ..made.stored.unwrap_or(stored)
                };
            }
        }
        turns
    }

    #[test]
    fn rules_are_evaluated_in_the_turns_1_and_1_plus_n_and_1_plus_2n() {
        assert_eq!(evaluated(6, |_| true), [1, 7, 13, 19]);
        assert_eq!(evaluated(1, |_| true), (1..=20).collect::<Vec<_>>());
        // Rules are evaluated again after a failed turn.
        assert_eq!(evaluated(6, |attempt| attempt != 1), [1, 1, 7, 13, 19]);
    }

    #[test]
    fn in_between_the_stored_choice_holds_as_long_as_it_is_valid() {
        let content = content(&plan_rule());
        let kept = |preset, by, profile| {
            let stored = StoredPreset {
                preset_turn: Some(1),
                turns: 3,
                ..stored(Some(preset), Some(by))
            };
            chosen(&content, profile, &stored, "thread:vibe", "Hm")
        };
        let of = |id: &str, by| Some((id.to_owned(), by));
        assert_eq!(
            kept("b", ChosenBy::Rule, Some(AUTO)),
            of("b", ChosenBy::Rule)
        );
        assert_eq!(
            kept("a", ChosenBy::Mode, Some(AUTO)),
            of("a", ChosenBy::Mode)
        );
        assert_eq!(kept("a", ChosenBy::Mode, None), of("a", ChosenBy::Mode));
        // The agent no longer follows rules, or the preset was deleted.
        assert_eq!(kept("b", ChosenBy::Rule, None), of("c", ChosenBy::Mode));
        assert_eq!(kept("gone", ChosenBy::Mode, None), of("c", ChosenBy::Mode));
    }

    #[test]
    fn add_ons_are_sent_in_the_order_of_the_preset() {
        let mut content = content(&json!([]));
        content.presets[0].addons = vec!["c".to_owned(), "a".to_owned()];
        let person = stored(Some("a"), Some(ChosenBy::Person));
        let choice = Choice {
            content: &content,
            profile: None,
            stored: &person,
            mode: "fork:x",
            question: "",
        };
        let made = choice.make();
        assert_eq!(made.text, "Text of c.\n\nText of a.");
        assert_eq!(made.stored, None);
    }

    #[test]
    fn the_mention_is_not_part_of_the_question() {
        for (message, wanted) in [
            ("@vibe plan it", "plan it"),
            ("plan it, @Vibe", "plan it,"),
            ("@coder and @vibe: plan it", "@coder and: plan it"),
            ("@vibes plan", "@vibes plan"),
        ] {
            assert_eq!(without_mention(message, "vibe"), wanted);
        }
    }
}
