//! Facts about models, learned from their server's responses. They are stored so that they survive a restart.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use super::{super::chat::FactStore, answer::Seen, pictures::PictureRefusal, request::Quirks};

/// Time after which a rejected field or a learned window no longer counts, because servers are updated and reconfigured.
const REFUSALS_KEPT_S: u64 = 7 * 24 * 60 * 60;
/// Time after which a model that rejected pictures gets them again.
const PICTURES_REFUSED_S: u64 = 24 * 60 * 60;
/// Number of consecutive requests that succeeded only without pictures, after unclear errors, until the model gets none.
const UNCLEAR_REFUSALS_MAX: u32 = 2;
/// Maximum number of rejected definitions that are kept for a model. The oldest ones are dropped.
const DEFINITIONS_MAX: usize = 256;
/// Number of the most recent calls whose reported token counts are used to correct estimates.
const RATIOS_MAX: usize = 20;
/// Bounds of the correction factor.
const CORRECTION: std::ops::RangeInclusive<f64> = 0.5..=3.0;
/// Smallest plausible ratio. Smaller ones are ignored, because some servers do not count tokens that they read from a cache.
const RATIO_MIN: f64 = 0.2;
/// Minimum relative change of the correction that causes it to be stored again.
const CORRECTION_STEP: f64 = 0.05;
/// Maximum number of models whose facts are kept. A limit is needed because API clients can send any name to a server without a model
/// list.
const MODELS_MAX: usize = 1_000;

/// A definition of a function that the server has rejected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Rejected {
    /// The server's reason. `None` if it accepted the definition with the simplest schema.
    reason: Option<String>,
    /// Seconds since the Unix epoch.
    at: u64,
}

/// Facts about one model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Facts {
    quirks: Quirks,
    /// Context window stated in an error.
    window: Option<u64>,
    /// True if the model has sent reasoning.
    reasons: bool,
    /// True if the model closes its reasoning without opening it.
    closes_alone: bool,
    /// True if the server leaves the model's calls in the text.
    calls_in_text: bool,
    /// Time at which the facts above were learned, in seconds since the Unix epoch.
    learned_at: u64,
    /// Time at which the model was found to be unable to see pictures, in seconds since the Unix epoch.
    pictures_refused_at: Option<u64>,
    /// Number of consecutive requests that succeeded only without pictures, after errors that did not name the reason.
    unclear_refusals: u32,
    /// Rejected definitions, by their hash.
    rejected: BTreeMap<String, Rejected>,
    /// Ratios of reported to estimated input tokens in the most recent calls, newest last.
    ratios: Vec<f64>,
    /// Correction when the facts were last stored.
    #[serde(skip)]
    stored_correction: Option<f64>,
}

impl Facts {
    fn is_current(&self, now_s: u64) -> bool {
        now_s.saturating_sub(self.learned_at) < REFUSALS_KEPT_S
    }

    pub(super) fn quirks(&self) -> Quirks {
        if self.is_current(now_s()) {
            self.quirks
        } else {
            Quirks::default()
        }
    }

    /// Checks whether the model cannot see pictures.
    pub(super) fn refuses_pictures(&self) -> bool {
        self.pictures_refused_at
            .is_some_and(|at| now_s().saturating_sub(at) < PICTURES_REFUSED_S)
    }

    /// Adds the result of a request with pictures that succeeded: with them if `refusal` is `None`, and without them otherwise. A single
    /// unclear error does not count, because it may be about one picture. Returns true if anything changed.
    pub(super) fn add_pictures(&mut self, refusal: Option<PictureRefusal>) -> bool {
        let (at, unclear) = (self.pictures_refused_at, self.unclear_refusals);
        match refusal {
            None => (self.pictures_refused_at, self.unclear_refusals) = (None, 0),
            Some(PictureRefusal::Unsupported) => self.pictures_refused_at = Some(now_s()),
            Some(PictureRefusal::Unclear) => {
                self.unclear_refusals += 1;
                if self.unclear_refusals >= UNCLEAR_REFUSALS_MAX {
                    self.unclear_refusals = 0;
                    self.pictures_refused_at = Some(now_s());
                }
            }
            Some(PictureRefusal::TooLarge | PictureRefusal::Failed) => {}
        }
        (at, unclear) != (self.pictures_refused_at, self.unclear_refusals)
    }

    fn rejected(&self, definition: &str) -> Option<&Rejected> {
        let found = self.rejected.get(definition);
        found.filter(|rejected| now_s().saturating_sub(rejected.at) < REFUSALS_KEPT_S)
    }

    /// Checks whether the server needs the simplest schema of a definition.
    pub(super) fn needs_simplest(&self, definition: &str) -> bool {
        self.rejected(definition).is_some()
    }

    /// Reason why the server rejected a definition in any form.
    pub(super) fn rejection(&self, definition: &str) -> Option<&str> {
        self.rejected(definition)?.reason.as_deref()
    }

    /// Adds rejected definitions, with the server's reasons. Returns true if anything changed.
    pub(super) fn add_rejected(
        &mut self,
        definitions: impl IntoIterator<Item = (String, Option<String>)>,
    ) -> bool {
        let (at, mut has_changed) = (now_s(), false);
        for (definition, reason) in definitions {
            let known = self.rejected(&definition);
            if known.is_some_and(|known| reason.is_none() || known.reason == reason) {
                continue;
            }
            self.rejected.insert(definition, Rejected { reason, at });
            has_changed = true;
        }
        while self.rejected.len() > DEFINITIONS_MAX {
            let oldest = self.rejected.iter().min_by_key(|(_, rejected)| rejected.at);
            let Some(oldest) = oldest.map(|(definition, _)| definition.clone()) else {
                break;
            };
            self.rejected.remove(&oldest);
        }
        has_changed
    }

    pub(super) fn window(&self) -> Option<u64> {
        self.window.filter(|_| self.is_current(now_s()))
    }

    pub(super) fn seen(&self) -> Seen {
        let is_current = self.is_current(now_s());
        Seen {
            reasons: self.reasons && is_current,
            closes_alone: self.closes_alone && is_current,
            calls_in_text: self.calls_in_text && is_current,
        }
    }

    /// Mean ratio of reported to estimated tokens, within the bounds `CORRECTION`; 1.0 if no call has been counted.
    #[expect(clippy::cast_precision_loss, reason = "at most 20")]
    pub(super) fn correction(&self) -> f64 {
        if self.ratios.is_empty() {
            return 1.0;
        }
        let mean = self.ratios.iter().sum::<f64>() / self.ratios.len() as f64;
        mean.clamp(*CORRECTION.start(), *CORRECTION.end())
    }

    /// Drops outdated facts and updates `learned_at`; called before a new fact is stored.
    fn renew(&mut self) {
        let now = now_s();
        if !self.is_current(now) {
            self.quirks = Quirks::default();
            self.window = None;
            self.set_seen(Seen::default());
        }
        self.learned_at = now;
    }

    /// Returns true if anything changed.
    pub(super) fn set_quirks(&mut self, quirks: Quirks) -> bool {
        if self.quirks() == quirks {
            return false;
        }
        self.renew();
        self.quirks = quirks;
        true
    }

    /// Returns true if anything changed.
    pub(super) fn add_seen(&mut self, seen: Seen) -> bool {
        let all = self.seen().and(seen);
        if self.seen() == all {
            return false;
        }
        self.renew();
        self.set_seen(all);
        true
    }

    fn set_seen(&mut self, seen: Seen) {
        self.reasons = seen.reasons;
        self.closes_alone = seen.closes_alone;
        self.calls_in_text = seen.calls_in_text;
    }

    /// Returns true if anything changed.
    pub(super) fn set_window(&mut self, tokens: u64) -> bool {
        if self.window() == Some(tokens) {
            return false;
        }
        self.renew();
        self.window = Some(tokens);
        true
    }

    /// Adds the token count of a call. Returns true if the correction has changed enough to be stored again.
    #[expect(
        clippy::cast_precision_loss,
        reason = "token counts are far below 2^52"
    )]
    pub(super) fn add_count(&mut self, reported: u64, estimated: u64) -> bool {
        if reported == 0 || estimated == 0 {
            return false;
        }
        let ratio = reported as f64 / estimated as f64;
        if ratio < RATIO_MIN {
            return false;
        }
        if self.ratios.len() >= RATIOS_MAX {
            self.ratios.remove(0);
        }
        self.ratios
            .push(ratio.clamp(*CORRECTION.start(), *CORRECTION.end()));
        let correction = self.correction();
        let stored = self.stored_correction.unwrap_or(1.0);
        let is_notable = (correction / stored - 1.0).abs() > CORRECTION_STEP;
        if is_notable {
            self.stored_correction = Some(correction);
        }
        is_notable
    }
}

fn now_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Facts about the models of one server.
pub(super) struct Learned {
    /// URL of the server, without credentials.
    server: String,
    store: Arc<dyn FactStore>,
    /// Facts by model; loaded on first use.
    facts: OnceCell<Mutex<HashMap<String, Facts>>>,
}

impl Learned {
    pub(super) fn new(server: String, store: Arc<dyn FactStore>) -> Self {
        Self {
            server,
            store,
            facts: OnceCell::new(),
        }
    }

    async fn all(&self) -> MutexGuard<'_, HashMap<String, Facts>> {
        let load = async || {
            let rows = self.store.load(&self.server).await;
            let parsed = rows.into_iter().filter_map(|(model, text)| {
                let mut facts: Facts = serde_json::from_str(&text).ok()?;
                facts.stored_correction = Some(facts.correction());
                Some((model, facts))
            });
            Mutex::new(parsed.take(MODELS_MAX).collect())
        };
        let facts = self.facts.get_or_init(load).await;
        facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn of(&self, model: &str) -> Facts {
        self.all().await.get(model).cloned().unwrap_or_default()
    }

    /// Facts learned about a model, or the defaults if there are none or they have not been loaded. They are loaded when a model is
    /// chosen.
    pub(super) fn loaded(&self, model: &str) -> Facts {
        let facts = self
            .facts
            .get()
            .map(|facts| facts.lock().unwrap_or_else(PoisonError::into_inner));
        facts
            .and_then(|facts| facts.get(model).cloned())
            .unwrap_or_default()
    }

    /// Changes the facts about a model, and stores them if `change` returns true.
    pub(super) async fn learn(&self, model: &str, change: impl FnOnce(&mut Facts) -> bool) {
        let changed = {
            let mut all = self.all().await;
            if !all.contains_key(model) && all.len() >= MODELS_MAX {
                return;
            }
            let facts = all.entry(model.to_owned()).or_default();
            change(facts).then(|| serde_json::to_string(facts).unwrap_or_default())
        };
        if let Some(text) = changed {
            self.store.save(&self.server, model, text).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_corrected_by_the_mean_of_the_last_calls_within_bounds() {
        let mut facts = Facts::default();
        assert!((facts.correction() - 1.0).abs() < 1e-9);
        assert!(facts.add_count(150, 100));
        assert!(facts.add_count(250, 100));
        assert!((facts.correction() - 2.0).abs() < 1e-9);
        assert!(!facts.add_count(200, 100), "the mean has not changed");
        for _ in 0..RATIOS_MAX {
            facts.add_count(1_000, 100);
        }
        assert_eq!(facts.ratios.len(), RATIOS_MAX);
        assert!((facts.correction() - 3.0).abs() < 1e-9);
        for _ in 0..RATIOS_MAX {
            facts.add_count(30, 100);
        }
        assert!((facts.correction() - 0.5).abs() < 1e-9);
        assert!(!facts.add_count(0, 100) && !facts.add_count(100, 0));
        facts.add_count(1, 1_000);
        assert_eq!(
            facts.ratios.last(),
            Some(&0.5),
            "an implausible count is ignored"
        );
    }

    #[test]
    fn what_a_server_refused_a_week_ago_is_tried_again() {
        let mut facts = Facts::default();
        let quirks = Quirks {
            no_tools: true,
            ..Quirks::default()
        };
        assert!(facts.set_quirks(quirks) && !facts.set_quirks(quirks));
        assert!(facts.set_window(2_048) && !facts.set_window(2_048));
        let seen = Seen {
            reasons: true,
            ..Seen::default()
        };
        assert!(facts.add_seen(seen) && !facts.add_seen(seen));
        let text = serde_json::to_string(&facts).unwrap();
        let stored: Facts = serde_json::from_str(&text).unwrap();
        assert_eq!((stored.quirks(), stored.window()), (quirks, Some(2_048)));
        assert_eq!(stored.seen(), seen);
        facts.learned_at -= REFUSALS_KEPT_S;
        assert_eq!(facts.seen(), Seen::default());
        assert_eq!((facts.quirks(), facts.window()), (Quirks::default(), None));
        assert!(facts.set_window(4_096));
        assert_eq!(facts.quirks(), Quirks::default());
    }

    #[test]
    fn one_unclear_error_does_not_keep_pictures_from_a_model() {
        let mut facts = Facts::default();
        assert!(facts.add_pictures(Some(PictureRefusal::Unclear)));
        assert!(!facts.refuses_pictures());
        assert!(facts.add_pictures(None) && !facts.add_pictures(None));
        for reason in [PictureRefusal::TooLarge, PictureRefusal::Failed] {
            assert!(!facts.add_pictures(Some(reason)));
        }
        for refuses in [false, true] {
            facts.add_pictures(Some(PictureRefusal::Unclear));
            assert_eq!(facts.refuses_pictures(), refuses);
        }
        facts.pictures_refused_at = Some(now_s() - PICTURES_REFUSED_S);
        assert!(!facts.refuses_pictures());
        facts.add_pictures(Some(PictureRefusal::Unsupported));
        assert!(facts.refuses_pictures());
    }

    #[test]
    fn the_newest_rejected_definitions_are_kept_for_a_week() {
        let mut facts = Facts::default();
        let refused = |n: usize| (n.to_string(), Some("no".to_owned()));
        assert!(facts.add_rejected([("a".to_owned(), None)]));
        assert!(facts.needs_simplest("a") && facts.rejection("a").is_none());
        assert!(facts.add_rejected([("a".to_owned(), Some("no".to_owned()))]));
        assert!(!facts.add_rejected([("a".to_owned(), None)]));
        assert_eq!(facts.rejection("a"), Some("no"));
        facts.rejected.get_mut("a").unwrap().at -= REFUSALS_KEPT_S;
        assert!(!facts.needs_simplest("a"));
        facts.add_rejected((0..DEFINITIONS_MAX).map(refused));
        assert_eq!(facts.rejected.len(), DEFINITIONS_MAX);
        assert!(!facts.rejected.contains_key("a"));
    }
}
