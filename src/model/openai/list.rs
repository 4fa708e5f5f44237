//! The server's model list, with context windows.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use reqwest::{Client, Url};
use serde_json::Value;
use tokio::time::Instant;

use super::refusal::read_capped;

/// Timeout for `GET /models`.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for `GET /props`, which few servers support.
const PROPS_TIMEOUT: Duration = Duration::from_secs(2);
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// Time for which a list counts as fresh.
const FRESH: Duration = Duration::from_mins(5);
/// Delays after failed or empty responses before the server is asked again; the last one is repeated.
const DELAYS: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(15),
    Duration::from_secs(30),
];

/// A model of the server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Listed {
    pub(super) id: String,
    pub(super) context_window: Option<u64>,
    /// True if the model can see pictures; `None` if the server does not report it.
    pub(super) images: Option<bool>,
}

/// Permitted age of a list: with `Fresh`, a list older than `FRESH` is requested again; with `Any`, it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    Fresh,
    Any,
}

#[derive(Default)]
pub(super) struct ModelList {
    state: Mutex<State>,
    /// Held while the server is asked, so that all callers share one request.
    asking: tokio::sync::Mutex<()>,
}

/// The last good list, which is never empty, and the failures since then.
#[derive(Default)]
struct State {
    listed: Option<Arc<[Listed]>>,
    listed_at: Option<Instant>,
    /// Failed or empty responses since the last good list.
    failures: usize,
    failed_at: Option<Instant>,
}

impl State {
    /// Returns the list, or an empty one if there is none. Returns `None` if the server has to be asked now.
    fn usable(&self, age: Age, now: Instant) -> Option<Arc<[Listed]>> {
        let is_fresh = self
            .listed_at
            .is_some_and(|at| age == Age::Any || now.duration_since(at) < FRESH);
        let is_waiting = self
            .failed_at
            .is_some_and(|at| now.duration_since(at) < self.delay());
        (is_fresh || is_waiting).then(|| self.listed.clone().unwrap_or_default())
    }

    fn delay(&self) -> Duration {
        DELAYS[self.failures.saturating_sub(1).min(DELAYS.len() - 1)]
    }

    fn answered(&mut self, listed: Vec<Listed>, now: Instant) {
        if listed.is_empty() {
            self.failures = self.failures.saturating_add(1);
            self.failed_at = Some(now);
        } else {
            self.listed = Some(listed.into());
            self.listed_at = Some(now);
            self.failures = 0;
            self.failed_at = None;
        }
    }

    /// Time of the last good list or the last failure, whichever is later.
    fn asked_at(&self) -> Option<Instant> {
        self.listed_at.max(self.failed_at)
    }
}

impl ModelList {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server's models; empty if they are unknown.
    pub(super) async fn get(&self, http: &Client, base: &Url, age: Age) -> Arc<[Listed]> {
        let usable = || self.state().usable(age, Instant::now());
        if let Some(listed) = usable() {
            return listed;
        }
        let _asking = self.asking.lock().await;
        match usable() {
            Some(listed) => listed,
            None => self.ask(http, base).await,
        }
    }

    /// The last good list, regardless of its age, without asking the server; empty if there is none.
    pub(super) fn known(&self) -> Arc<[Listed]> {
        self.state().listed.clone().unwrap_or_default()
    }

    /// Returns the server's models, and asks the server first if it has not been asked since `since`.
    pub(super) async fn get_since(
        &self,
        http: &Client,
        base: &Url,
        since: Instant,
    ) -> Arc<[Listed]> {
        let _asking = self.asking.lock().await;
        {
            let state = self.state();
            if state.asked_at().is_some_and(|at| at >= since) {
                return state.listed.clone().unwrap_or_default();
            }
        }
        self.ask(http, base).await
    }

    /// Requests the list from the server; falls back to the last good list.
    async fn ask(&self, http: &Client, base: &Url) -> Arc<[Listed]> {
        let asked = tokio::time::timeout(ASK_TIMEOUT, models(http, base)).await;
        let mut listed = asked.ok().flatten().unwrap_or_default();
        // A server with a single model, such as llama.cpp, may report its window elsewhere.
        if let [only] = listed.as_mut_slice()
            && !only.is_exact
            && let Ok(Some(window)) =
                tokio::time::timeout(PROPS_TIMEOUT, window_of_props(http, base)).await
        {
            only.listed.context_window = Some(window);
        }
        let listed = listed.into_iter().map(|found| found.listed).collect();
        let mut state = self.state();
        state.answered(listed, Instant::now());
        state.listed.clone().unwrap_or_default()
    }
}

/// A model in a response.
struct Found {
    listed: Listed,
    /// True if the window is the one that the server uses, not the one with which the model was
    /// trained.
    is_exact: bool,
}

async fn get(http: &Client, url: Url) -> Option<Value> {
    let response = http.get(url).send().await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    serde_json::from_str(&read_capped(response, BYTES_MAX).await).ok()
}

async fn models(http: &Client, base: &Url) -> Option<Vec<Found>> {
    let mut url = base.clone();
    url.path_segments_mut().ok()?.pop_if_empty().push("models");
    let answer = get(http, url).await?;
    let models = answer["data"].as_array().or(answer.as_array())?;
    Some(models.iter().filter_map(found).collect())
}

fn found(model: &Value) -> Option<Found> {
    const EXACT: [&str; 6] = [
        "max_model_len",
        "context_length",
        "context_window",
        "max_context_length",
        "n_ctx",
        "max_input_tokens",
    ];
    let positive = |value: &Value| value.as_u64().filter(|n| *n > 0);
    let exact = EXACT
        .iter()
        .find_map(|name| positive(&model[name]))
        .or_else(|| positive(&model["meta"]["n_ctx"]));
    Some(Found {
        listed: Listed {
            id: model["id"].as_str()?.to_owned(),
            context_window: exact.or_else(|| positive(&model["meta"]["n_ctx_train"])),
            images: images(model),
        },
        is_exact: exact.is_some(),
    })
}

/// Checks whether the input of a model can contain pictures; `None` if the server does not report it.
fn images(model: &Value) -> Option<bool> {
    let places = [
        &model["input_modalities"],
        &model["architecture"]["input_modalities"],
        &model["modalities"]["input"],
    ];
    let modalities = places.iter().find_map(|value| value.as_array())?;
    Some(modalities.iter().any(|modality| modality == "image"))
}

/// Window from `GET /props`, which is not under the versioned path.
async fn window_of_props(http: &Client, base: &Url) -> Option<u64> {
    let mut url = base.clone();
    let is_versioned = base.path().trim_end_matches('/').ends_with("/v1");
    {
        let mut segments = url.path_segments_mut().ok()?;
        segments.pop_if_empty();
        if is_versioned {
            segments.pop();
        }
        segments.push("props");
    }
    let props = get(http, url).await?;
    [&props["default_generation_settings"], &props]
        .iter()
        .find_map(|at| at["n_ctx"].as_u64().filter(|n| *n > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phi() -> Vec<Listed> {
        vec![Listed {
            id: "phi".to_owned(),
            context_window: None,
            images: None,
        }]
    }

    #[test]
    fn a_failed_or_empty_response_is_repeated_after_1_5_15_and_30_seconds() {
        let mut now = Instant::now();
        let mut state = State::default();
        assert!(state.usable(Age::Any, now).is_none());
        for seconds in [1, 5, 15, 30, 30] {
            state.answered(Vec::new(), now);
            let until = now + Duration::from_secs(seconds);
            let just_before = until.checked_sub(Duration::from_millis(1)).unwrap();
            assert_eq!(state.usable(Age::Fresh, just_before).unwrap().len(), 0);
            assert!(state.usable(Age::Any, until).is_none(), "{seconds}");
            now = until;
        }
        state.answered(phi(), now);
        assert_eq!(state.usable(Age::Fresh, now).unwrap().len(), 1);
        state.answered(Vec::new(), now + FRESH);
        assert_eq!(state.delay(), DELAYS[0]);
    }

    #[test]
    fn a_good_list_is_used_for_five_minutes_and_kept_if_the_next_request_fails() {
        let now = Instant::now();
        let mut state = State::default();
        state.answered(phi(), now);
        let later = now + FRESH;
        assert_eq!(state.usable(Age::Any, later).unwrap().len(), 1);
        assert!(state.usable(Age::Fresh, later).is_none());
        state.answered(Vec::new(), later);
        assert_eq!(state.usable(Age::Fresh, later).unwrap().len(), 1);
    }

    #[test]
    fn the_window_in_use_precedes_the_one_of_the_training() {
        let window = |fields: Value| {
            let mut model = fields;
            model["id"] = "m".into();
            found(&model).map(|found| (found.listed.context_window, found.is_exact))
        };
        for (fields, wanted) in [
            (
                serde_json::json!({"max_model_len": 8192}),
                (Some(8192), true),
            ),
            (
                serde_json::json!({"context_length": 4096}),
                (Some(4096), true),
            ),
            (
                serde_json::json!({"n_ctx": 2048, "meta": {"n_ctx_train": 9}}),
                (Some(2048), true),
            ),
            (
                serde_json::json!({"meta": {"n_ctx": 2048, "n_ctx_train": 9}}),
                (Some(2048), true),
            ),
            (
                serde_json::json!({"meta": {"n_ctx_train": 32768}}),
                (Some(32768), false),
            ),
            (serde_json::json!({"context_length": 0}), (None, false)),
            (serde_json::json!({}), (None, false)),
        ] {
            assert_eq!(window(fields.clone()), Some(wanted), "{fields}");
        }
    }

    #[test]
    fn the_kinds_of_input_tell_whether_a_model_sees_pictures() {
        for (model, wanted) in [
            (
                serde_json::json!({"architecture": {"input_modalities": ["text", "image"]}}),
                Some(true),
            ),
            (
                serde_json::json!({"input_modalities": ["text"]}),
                Some(false),
            ),
            (serde_json::json!({"input_modalities": "image"}), None),
            (serde_json::json!({}), None),
        ] {
            assert_eq!(images(&model), wanted, "{model}");
        }
    }
}
