//! Counts and times model calls.

use std::{
    collections::HashSet,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures::{FutureExt, Stream, future::BoxFuture};
use metrics::{counter, histogram};

use crate::model::{
    ChatRequest, Delta, DeltaStream, EmbedRequest, Embedded, FunctionTool, ModelError, Place,
    Provider, Refused, RefusedFunction, Usage, Window,
};

/// Maximum number of model names with separate metrics, because API clients can send any name.
const MODELS_MAX: usize = 50;
const MODEL_CHARS_MAX: usize = 100;
const OTHER: &str = "other";

/// A provider whose calls are measured.
pub struct Measured {
    inner: Arc<dyn Provider>,
    models: Models,
    timeouts: StreamTimeouts,
}

/// Timeouts of callers, to distinguish a call that timed out from one that was canceled.
#[derive(Clone, Copy)]
struct StreamTimeouts {
    silence_max: Duration,
    time_max: Duration,
}

/// Measures the calls of all providers.
#[derive(Clone)]
pub struct Meter {
    models: Models,
    timeouts: StreamTimeouts,
}

impl Meter {
    /// Callers give up after `silence_max` without a first or next chunk, or after `time_max` in total.
    pub fn new(silence_max: Duration, time_max: Duration) -> Self {
        Self {
            models: Models::default(),
            timeouts: StreamTimeouts {
                silence_max,
                time_max,
            },
        }
    }

    pub fn around(&self, inner: Arc<dyn Provider>) -> Measured {
        Measured {
            inner,
            models: self.models.clone(),
            timeouts: self.timeouts,
        }
    }
}

/// Names of all models seen so far, of all providers.
#[derive(Clone, Default)]
struct Models(Arc<Mutex<HashSet<String>>>);

impl Models {
    fn label(&self, model: &str) -> String {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = known.len() < MODELS_MAX && model.chars().count() <= MODEL_CHARS_MAX;
        if !known.contains(model) {
            if !has_room {
                return OTHER.to_owned();
            }
            known.insert(model.to_owned());
        }
        model.to_owned()
    }
}

fn outcome_of(error: &ModelError) -> &'static str {
    match error {
        ModelError::RateLimited { .. } => "rate_limited",
        ModelError::Unavailable(_) => "unavailable",
        ModelError::ContextTooLarge => "context_too_large",
        ModelError::BadRequest(_)
        | ModelError::ModelMissing(_)
        | ModelError::ToolsRefused { .. } => "bad_request",
        ModelError::Auth(_) => "auth",
        ModelError::Broken(_) => "broken",
        ModelError::Empty => "empty",
        ModelError::ThoughtOnly { .. } => "thought_only",
    }
}

/// One call. It is counted when it ends, or when it is dropped before its end.
struct Call {
    model: String,
    timeouts: StreamTimeouts,
    started: Instant,
    /// Time of the last chunk.
    heard: Instant,
    first_text: Option<Instant>,
    has_said: bool,
    has_stopped: bool,
    is_counted: bool,
}

impl Call {
    fn new(model: String, timeouts: StreamTimeouts) -> Self {
        let now = Instant::now();
        Self {
            model,
            timeouts,
            started: now,
            heard: now,
            first_text: None,
            has_said: false,
            has_stopped: false,
            is_counted: false,
        }
    }

    fn note(&mut self, delta: &Delta) {
        match delta {
            Delta::Text(piece) => self.said(!piece.trim().is_empty()),
            Delta::ToolCall(_) => self.said(true),
            Delta::Stop(_) => self.has_stopped = true,
            Delta::Alive | Delta::Discard | Delta::Usage(_) | Delta::Vendor(_) => {}
        }
    }

    fn said(&mut self, something: bool) {
        self.heard = Instant::now();
        self.has_said |= something;
        if self.first_text.is_none() {
            self.first_text = Some(self.heard);
            let took = self.heard - self.started;
            histogram!("openvibe_model_first_text_seconds", "model" => self.model.clone())
                .record(took);
        }
    }

    /// Outcome of a stream that has ended.
    fn at_end(&self) -> &'static str {
        match (self.has_stopped, self.has_said) {
            (false, _) => "broken",
            (true, false) => "empty",
            (true, true) => "ok",
        }
    }

    /// Reason why a call was dropped. Callers start their timers slightly earlier than this type does, so a tolerance of one
    /// twentieth applies.
    fn given_up(&self) -> &'static str {
        let is_over = |waited: Duration, max: Duration| waited + max / 20 >= max;
        if is_over(self.heard.elapsed(), self.timeouts.silence_max)
            || is_over(self.started.elapsed(), self.timeouts.time_max)
        {
            "timeout"
        } else {
            "cancelled"
        }
    }

    fn count(&mut self, outcome: &'static str) {
        if std::mem::replace(&mut self.is_counted, true) {
            return;
        }
        counter!("openvibe_model_calls_total", "model" => self.model.clone(), "outcome" => outcome)
            .increment(1);
        if outcome == "ok" {
            histogram!("openvibe_model_call_seconds", "model" => self.model.clone())
                .record(self.started.elapsed());
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let outcome = if self.has_stopped {
            self.at_end()
        } else {
            self.given_up()
        };
        self.count(outcome);
    }
}

struct Watched {
    inner: DeltaStream,
    call: Call,
}

impl Stream for Watched {
    type Item = Result<Delta, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.inner.as_mut().poll_next(cx);
        match &polled {
            Poll::Ready(Some(Ok(delta))) => self.call.note(delta),
            Poll::Ready(Some(Err(e))) => self.call.count(outcome_of(e)),
            Poll::Ready(None) => {
                let outcome = self.call.at_end();
                self.call.count(outcome);
            }
            Poll::Pending => {}
        }
        polled
    }
}

impl Provider for Measured {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn is_offline(&self) -> bool {
        self.inner.is_offline()
    }

    fn choose_model<'a>(&'a self, wanted: Option<&'a str>) -> BoxFuture<'a, String> {
        self.inner.choose_model(wanted)
    }

    fn effective_model<'a>(&'a self, wanted: Option<&'a str>) -> BoxFuture<'a, Option<String>> {
        self.inner.effective_model(wanted)
    }

    fn override_model(&self) -> Option<&str> {
        self.inner.override_model()
    }

    fn utility_model<'a>(&'a self, main: &'a str) -> BoxFuture<'a, String> {
        self.inner.utility_model(main)
    }

    fn has_model<'a>(&'a self, model: &'a str) -> BoxFuture<'a, bool> {
        self.inner.has_model(model)
    }

    fn lists_model<'a>(&'a self, model: &'a str) -> BoxFuture<'a, bool> {
        self.inner.lists_model(model)
    }

    fn window<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Window> {
        self.inner.window(model)
    }

    fn place(&self) -> BoxFuture<'_, Place> {
        self.inner.place()
    }

    fn takes_tools(&self, model: &str) -> bool {
        self.inner.takes_tools(model)
    }

    fn takes_pictures(&self, model: &str) -> bool {
        self.inner.takes_pictures(model)
    }

    fn undecided(&self) -> BoxFuture<'_, Option<usize>> {
        self.inner.undecided()
    }

    fn leaves_calls_in_text(&self, model: &str) -> bool {
        self.inner.leaves_calls_in_text(model)
    }

    fn refused_functions(&self, model: &str, tools: &[FunctionTool]) -> Vec<RefusedFunction> {
        self.inner.refused_functions(model, tools)
    }

    fn note_refused<'a>(&'a self, model: &'a str, refused: &'a [Refused]) -> BoxFuture<'a, ()> {
        self.inner.note_refused(model, refused)
    }

    fn takes_json(&self, model: &str) -> bool {
        self.inner.takes_json(model)
    }

    fn unsent(&self, request: &ChatRequest) -> Vec<&'static str> {
        self.inner.unsent(request)
    }

    fn cost_usd(&self, model: &str, usage: Usage) -> Option<f64> {
        self.inner.cost_usd(model, usage)
    }

    fn stream(&self, request: ChatRequest) -> BoxFuture<'_, Result<DeltaStream, ModelError>> {
        let mut call = Call::new(self.models.label(&request.model), self.timeouts);
        async move {
            match self.inner.stream(request).await {
                Ok(inner) => Ok(Box::pin(Watched { inner, call }) as DeltaStream),
                Err(e) => {
                    call.count(outcome_of(&e));
                    Err(e)
                }
            }
        }
        .boxed()
    }

    fn embed(&self, request: EmbedRequest) -> BoxFuture<'_, Result<Embedded, ModelError>> {
        let mut call = Call::new(self.models.label(&request.model), self.timeouts);
        async move {
            let embedded = self.inner.embed(request).await;
            call.count(embedded.as_ref().map_or_else(outcome_of, |_| "ok"));
            embedded
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::StopReason;

    #[test]
    fn the_number_of_models_with_their_own_metrics_is_limited() {
        let models = Models::default();
        for n in 0..MODELS_MAX {
            assert_eq!(models.label(&format!("model-{n}")), format!("model-{n}"));
        }
        assert_eq!(models.label("one-more"), OTHER);
        assert_eq!(models.label("model-7"), "model-7");
        assert_eq!(Models::default().label(&"long".repeat(50)), OTHER);
    }

    fn call() -> Call {
        let timeouts = StreamTimeouts {
            silence_max: Duration::from_mins(1),
            time_max: Duration::from_mins(2),
        };
        Call::new("m".to_owned(), timeouts)
    }

    #[test]
    fn a_response_records_its_first_text_and_its_end() {
        let ends = |deltas: &[Delta]| {
            let mut call = call();
            for delta in deltas {
                call.note(delta);
            }
            call.at_end()
        };
        let (text, blank) = (Delta::Text("Yes".to_owned()), Delta::Text(" ".to_owned()));
        let stop = Delta::Stop(StopReason::Complete);
        assert_eq!(ends(&[text.clone(), stop.clone()]), "ok");
        assert_eq!(ends(&[blank, stop.clone()]), "empty");
        assert_eq!(ends(&[stop]), "empty");
        assert_eq!(ends(&[text]), "broken");
    }

    #[test]
    fn a_call_that_timed_out_silently_is_not_counted_as_canceled() {
        let mut call = call();
        assert_eq!(call.given_up(), "cancelled");
        call.heard -= Duration::from_mins(1);
        assert_eq!(call.given_up(), "timeout");
        call.said(true);
        assert_eq!(call.given_up(), "cancelled");
        call.started -= Duration::from_mins(2);
        assert_eq!(call.given_up(), "timeout");
    }
}
