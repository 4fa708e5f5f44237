//! Pure functions that find the adaptation event of a conversation and the reflection that is due.

use crate::agents::profiles::{
    AdaptationEvent, Reflection, SELF_TRAIT_ADJUSTMENT, SentimentPreset, SentimentSettings,
    TriggerType,
};

use super::state::{PromptName, SentimentClass, StoredScore, StoredState};

/// Intensity above which a single negative message counts as an event.
const FRUSTRATED_ABOVE: f64 = 0.6;
/// Intensity above which a single positive message counts as an event.
const SATISFIED_ABOVE: f64 = 0.5;
/// Minimum number of failed replies among the last 10 that counts as an event.
const FAILED_MIN: i64 = 2;
/// Number of neutral messages in a row whose mean length is compared with `DULL_LENGTH`.
const DULL_MESSAGES: usize = 4;
/// Mean length in UTF-16 code units below which messages show low engagement.
const DULL_LENGTH: i64 = 50;

/// Counts how many of the newest consecutive scores have this class.
pub(super) fn streak(scores: &[StoredScore], class: SentimentClass) -> usize {
    let newest_first = scores.iter().rev();
    newest_first
        .take_while(|score| score.shown.class == class)
        .count()
}

/// Finds the highest-priority adaptation event after a new score. `failed` is the number of failed replies among the last 10 replies
/// to the person.
pub(super) fn event(
    scores: &[StoredScore],
    failed: i64,
    settings: &SentimentSettings,
) -> Option<AdaptationEvent> {
    if failed >= FAILED_MIN {
        return Some(AdaptationEvent::ErrorThresholdExceeded);
    }
    let newest = scores.last()?;
    let is = |class: SentimentClass, above: f64| {
        (newest.shown.class == class && newest.shown.intensity > above)
            || streak(scores, class) >= settings.consecutive_turns
    };
    if is(SentimentClass::Negative, FRUSTRATED_ABOVE) {
        return Some(AdaptationEvent::UserFrustrated);
    }
    if newest.confused {
        return Some(AdaptationEvent::UserConfused);
    }
    if is_dull(scores) {
        return Some(AdaptationEvent::LowEngagement);
    }
    is(SentimentClass::Positive, SATISFIED_ABOVE).then_some(AdaptationEvent::UserSatisfied)
}

fn is_dull(scores: &[StoredScore]) -> bool {
    let Some(last) = scores.last_chunk::<DULL_MESSAGES>() else {
        return false;
    };
    let length: i64 = last.iter().map(|score| score.shown.length).sum();
    let count = i64::try_from(DULL_MESSAGES).unwrap_or(i64::MAX);
    last.iter()
        .all(|score| score.shown.class == SentimentClass::Neutral)
        && length < DULL_LENGTH * count
}

/// A reflection to queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DueReflection {
    pub(super) prompt: PromptName,
    /// `None` for a reflection on an event.
    pub(super) interval_id: Option<String>,
}

/// Finds the reflection to queue after a reply: the preset for the event, otherwise the first metaprompt for the event, otherwise an
/// interval reflection that is due. Returns `None` for the turn of the newest reflection on an event and for the turns directly
/// before and after it. Earlier turns are possible, because a model can rate an earlier question later.
pub(super) fn due(
    state: &StoredState,
    turn: i64,
    event: Option<AdaptationEvent>,
    presets: &[SentimentPreset],
    reflection: Option<&Reflection>,
) -> Option<DueReflection> {
    if (state.event_turn).is_some_and(|last| last.abs_diff(turn) <= 1) {
        return None;
    }
    if let Some(event) = event {
        let preset = event.preset();
        let own = || {
            let mut metaprompts = reflection.into_iter().flat_map(|r| &r.metaprompts);
            let found = metaprompts.find(|known| known.trigger.event == Some(event))?;
            Some(PromptName::Metaprompt(found.id.clone()))
        };
        let prompt = if presets.contains(&preset) {
            Some(PromptName::Preset(preset))
        } else {
            own()
        };
        if let Some(prompt) = prompt {
            return Some(DueReflection {
                prompt,
                interval_id: None,
            });
        }
    }
    let is_due = |(_, id, turns): &(PromptName, &str, u32)| {
        let last = state.interval_turns.0.get(*id).copied().unwrap_or(0);
        turn - last >= i64::from(*turns)
    };
    let (prompt, id, _) = intervals(reflection?).into_iter().find(is_due)?;
    Some(DueReflection {
        prompt,
        interval_id: Some(id.to_owned()),
    })
}

/// Lists the reflections that run at intervals, each with its ID and interval in turns.
fn intervals(reflection: &Reflection) -> Vec<(PromptName, &str, u32)> {
    let mut found = Vec::new();
    for metaprompt in &reflection.metaprompts {
        let own = match metaprompt.trigger.kind {
            TriggerType::TurnInterval => metaprompt.trigger.interval_turns,
            // This metaprompt replaces the built-in reflection.
            _ if metaprompt.id == SELF_TRAIT_ADJUSTMENT => reflection.interval_turns,
            _ => None,
        };
        if let Some(turns) = own {
            let prompt = PromptName::Metaprompt(metaprompt.id.clone());
            found.push((prompt, metaprompt.id.as_str(), turns));
        }
    }
    if let Some(turns) = reflection.interval_turns
        && reflection.metaprompt(SELF_TRAIT_ADJUSTMENT).is_none()
    {
        found.push((PromptName::BuiltIn, SELF_TRAIT_ADJUSTMENT, turns));
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        agents::profiles::Sentiment,
        ids::{AgentId, ThreadId, UserId, WorkspaceId},
        replies::adaptation::state::{MessageScore, StateKey},
        time::Timestamp,
    };
    use AdaptationEvent as Event;
    use SentimentClass::{Negative, Neutral, Positive};

    fn settings(fields: Value) -> SentimentSettings {
        let sentiment: Sentiment = serde_json::from_value(fields).unwrap();
        sentiment.settings().unwrap()
    }

    fn score(class: SentimentClass, intensity: f64, length: i64) -> StoredScore {
        StoredScore {
            shown: MessageScore {
                score: 0.0,
                intensity,
                class,
                length,
                at: Timestamp::EPOCH,
            },
            confused: false,
        }
    }

    fn confused() -> StoredScore {
        StoredScore {
            confused: true,
            ..score(Neutral, 0.0, 100)
        }
    }

    fn state(turns: i64) -> StoredState {
        let key = StateKey {
            workspace: WorkspaceId::new(),
            user: UserId::new(),
            agent: AgentId::new(),
            thread: ThreadId::new(),
            fork: None,
        };
        StoredState {
            turns,
            ..StoredState::new(&key, Timestamp::EPOCH)
        }
    }

    #[test]
    fn a_score_at_a_threshold_is_neutral() {
        for (score, wanted) in [
            (-1.0, Negative),
            (-0.301, Negative),
            (-0.3, Neutral),
            (0.0, Neutral),
            (0.2, Neutral),
            (0.201, Positive),
            (1.0, Positive),
        ] {
            assert_eq!(SentimentClass::of(score, -0.3, 0.2), wanted, "{score}");
        }
        assert_eq!(SentimentClass::of(0.0, 0.0, 0.0), Neutral);
    }

    #[test]
    fn every_event_has_its_boundary() {
        let two = settings(json!({"enabled": true}));
        let three = settings(json!({"enabled": true, "consecutive_turns": 3}));
        let bad = || score(Negative, 0.1, 100);
        let good = || score(Positive, 0.1, 100);
        let plain = || score(Neutral, 0.0, 100);
        let short = |length| score(Neutral, 0.0, length);
        for (scores, failed, settings, wanted) in [
            (vec![plain()], 1, &two, None),
            (vec![plain()], 2, &two, Some(Event::ErrorThresholdExceeded)),
            (vec![], 2, &two, Some(Event::ErrorThresholdExceeded)),
            (vec![], 0, &two, None),
            (vec![score(Negative, 0.6, 9)], 0, &two, None),
            (
                vec![score(Negative, 0.601, 9)],
                0,
                &two,
                Some(Event::UserFrustrated),
            ),
            (vec![bad()], 0, &two, None),
            (vec![bad(), bad()], 0, &two, Some(Event::UserFrustrated)),
            (vec![bad(), bad()], 0, &three, None),
            (vec![bad(), plain(), bad()], 0, &two, None),
            (
                vec![bad(), bad(), bad()],
                0,
                &three,
                Some(Event::UserFrustrated),
            ),
            (vec![confused()], 0, &two, Some(Event::UserConfused)),
            (vec![confused(), plain()], 0, &two, None),
            (vec![short(9), short(9), short(9)], 0, &two, None),
            (
                vec![short(49), short(50), short(50), short(50)],
                0,
                &two,
                Some(Event::LowEngagement),
            ),
            (
                vec![short(50), short(50), short(50), short(50)],
                0,
                &two,
                None,
            ),
            (vec![short(9), short(9), good(), short(9)], 0, &two, None),
            (vec![score(Positive, 0.5, 9)], 0, &two, None),
            (
                vec![score(Positive, 0.501, 9)],
                0,
                &two,
                Some(Event::UserSatisfied),
            ),
            (vec![good(), good()], 0, &two, Some(Event::UserSatisfied)),
            (vec![good(), good()], 0, &three, None),
        ] {
            assert_eq!(
                event(&scores, failed, settings),
                wanted,
                "{scores:?} {failed}"
            );
        }
    }

    #[test]
    fn the_first_event_of_the_list_counts() {
        let one = settings(json!({"enabled": true, "consecutive_turns": 1}));
        let both = StoredScore {
            confused: true,
            ..score(Negative, 1.0, 9)
        };
        assert_eq!(
            event(std::slice::from_ref(&both), 2, &one),
            Some(Event::ErrorThresholdExceeded)
        );
        assert_eq!(event(&[both], 0, &one), Some(Event::UserFrustrated));
        let dull = [
            score(Neutral, 0.0, 9),
            score(Neutral, 0.0, 9),
            score(Neutral, 0.0, 9),
            StoredScore {
                confused: true,
                ..score(Neutral, 0.0, 9)
            },
        ];
        assert_eq!(event(&dull, 0, &one), Some(Event::UserConfused));
    }

    fn reflection() -> Reflection {
        let metaprompt =
            |id: &str, trigger: Value| json!({"id": id, "template": "x", "trigger": trigger});
        serde_json::from_value(json!({"interval_turns": 3, "metaprompts": [
            metaprompt("calm", json!({"type": "event_based", "event": "user_frustrated"})),
            metaprompt("calmer", json!({"type": "event_based", "event": "user_frustrated"})),
            metaprompt("often", json!({"type": "turn_interval", "interval_turns": 2})),
            metaprompt("asked", json!({"type": "manual"})),
        ]}))
        .unwrap()
    }

    fn name(due: Option<DueReflection>) -> Option<String> {
        due.map(|due| match due.prompt {
            PromptName::Preset(preset) => preset.to_string(),
            PromptName::Metaprompt(id) => id,
            PromptName::BuiltIn => "built-in".to_owned(),
        })
    }

    #[test]
    fn a_preset_comes_before_a_metaprompt_and_an_event_before_an_interval() {
        let one: &[SentimentPreset] = &[SentimentPreset::FrustrationRecovery];
        let none: &[SentimentPreset] = &[];
        let frustrated = Some(Event::UserFrustrated);
        let reflection = reflection();
        let of = |turns, event, presets: &[SentimentPreset]| {
            name(due(&state(turns), turns, event, presets, Some(&reflection)))
        };
        for (turns, event, presets, wanted) in [
            (2, frustrated, one, Some("frustration_recovery")),
            (2, frustrated, none, Some("calm")),
            (2, Some(Event::UserConfused), one, Some("often")),
            (2, None, one, Some("often")),
            (1, None, one, None),
            (1, Some(Event::UserConfused), one, None),
        ] {
            let found = of(turns, event, presets);
            assert_eq!(found.as_deref(), wanted, "{turns} {event:?}");
        }
        assert_eq!(due(&state(5), 5, None, one, None), None);
    }

    #[test]
    fn no_reflection_comes_next_to_one_on_an_event() {
        let reflection = reflection();
        let at = |turn| {
            let state = StoredState {
                event_turn: Some(4),
                ..state(6)
            };
            let presets = [SentimentPreset::FrustrationRecovery];
            name(due(
                &state,
                turn,
                Some(Event::UserFrustrated),
                &presets,
                Some(&reflection),
            ))
        };
        // Models can rate questions out of order.
        assert!(at(2).is_some());
        assert_eq!(at(3), None);
        assert_eq!(at(5), None);
        assert!(at(6).is_some());
    }

    #[test]
    fn each_interval_runs_from_its_own_last_turn() {
        let reflection = reflection();
        let mut state = state(0);
        let mut ran = Vec::new();
        for turn in 1..=9 {
            state.turns = turn;
            if let Some(found) = due(&state, turn, None, &[], Some(&reflection)) {
                let id = found.interval_id.clone().unwrap();
                state.interval_turns.0.insert(id, turn);
                ran.push((turn, name(Some(found)).unwrap()));
            }
        }
        let ran: Vec<(i64, &str)> = ran.iter().map(|(turn, id)| (*turn, id.as_str())).collect();
        assert_eq!(
            ran,
            [
                (2, "often"),
                (3, "built-in"),
                (4, "often"),
                (6, "often"),
                (7, "built-in"),
                (8, "often")
            ]
        );
    }

    #[test]
    fn a_metaprompt_with_its_id_replaces_the_built_in_one() {
        let of = |trigger: Value| -> Reflection {
            serde_json::from_value(json!({"interval_turns": 3, "metaprompts": [
                {"id": SELF_TRAIT_ADJUSTMENT, "template": "x", "trigger": trigger}]}))
            .unwrap()
        };
        for (trigger, turns) in [
            (json!({"type": "manual"}), 3),
            (json!({"type": "turn_interval", "interval_turns": 5}), 5),
        ] {
            let reflection = of(trigger);
            let found = intervals(&reflection);
            let wanted = PromptName::Metaprompt(SELF_TRAIT_ADJUSTMENT.to_owned());
            assert_eq!(found, [(wanted, SELF_TRAIT_ADJUSTMENT, turns)]);
        }
    }
}
