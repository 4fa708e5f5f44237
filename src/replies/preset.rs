//! The reply style of a reply: the preset whose add-ons are sent, and what chose it.

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

/// A preset, and what chose it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UsedPreset {
    pub id: String,
    pub chosen_by: ChosenBy,
}

/// Reply style of a reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplyPreset {
    pub used: Option<UsedPreset>,
    /// Add-ons of the preset as one text; may be empty.
    pub text: String,
    /// What the conversation stores with the reply; `None` leaves it unchanged.
    pub stored: Option<StoredPreset>,
}

impl ReplyPreset {
    /// Finds the preset of the reply to a message. `mode` is that of the conversation with the agent.
    pub async fn find(
        c: &mut Conn,
        (workspace, conversation): (WorkspaceId, Uuid),
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

/// Everything that a preset depends on.
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
    /// The first of: a person's choice, the preset or `none` of the agent, the rules (with `auto`), the mode default.
    fn make(&self) -> ReplyPreset {
        let known = |id: &&str| self.content.preset(id).is_some();
        let stored = self.stored.preset.as_deref().filter(known);
        if let (Some(ChosenBy::Person), Some(id)) = (self.stored.chosen_by, stored) {
            return self.with(Some((id, ChosenBy::Person)), None);
        }
        if self.profile == Some(NONE) {
            return self.with(None, Some(self.storing(None, None)));
        }
        // A version that is bound to the conversation may name a preset that was deleted since.
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
        // Most replies change nothing.
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

    /// Number of this turn, from 1 on.
    fn turn(&self) -> i64 {
        self.stored.turns + 1
    }

    /// Checks whether rules and mode default are evaluated in this turn. They are in the turns 1, 1 + n, 1 + 2n, and so on;
    /// if what is stored is no longer valid; and in the turn after one of these that was not completed.
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

    /// Finds the matching rule with the highest priority, then the first.
    fn matching_rule(&self) -> Option<&PresetRule> {
        let length = self.question.encode_utf16().count();
        let words = format!(" {} ", folded(self.question));
        let matching = self.content.rules.iter();
        matching
            .filter(|rule| is_match(rule, length, &words))
            .min_by_key(|rule| Reverse(rule.priority))
    }
}

/// Checks whether all conditions of a rule hold. `words` are the folded words of the message, between spaces.
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
