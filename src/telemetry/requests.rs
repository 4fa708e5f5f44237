//! Requests by route: count, status, and time until the response.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, PoisonError, RwLock},
    time::{Duration, Instant},
};

use metrics::{Counter, Histogram, counter, histogram};

/// Route label of requests that do not match a route.
pub const UNMATCHED: &str = "unmatched";
/// Status that is recorded if a client disconnected before the response, as in nginx.
const GONE: u16 = 499;

/// Metrics of one method of a route.
struct Figures {
    method: &'static str,
    route: String,
    seconds: Histogram,
    /// Counters by status; a route returns only a few different ones.
    answers: RwLock<Vec<(u16, Counter)>>,
}

type Methods = Vec<(&'static str, Arc<Figures>)>;

/// Figures by route, bounded by the number of routes. Handles are cached, because looking one up for each request would take longer
/// than all other work here.
static ROUTES: LazyLock<RwLock<HashMap<String, Methods>>> = LazyLock::new(RwLock::default);

fn figures(method: &'static str, route: &str) -> Arc<Figures> {
    let find = |methods: &Methods| {
        let known = methods.iter().find(|(known, _)| *known == method);
        known.map(|(_, figures)| Arc::clone(figures))
    };
    let routes = ROUTES.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = routes.get(route).and_then(find) {
        return known;
    }
    drop(routes);
    let mut routes = ROUTES.write().unwrap_or_else(PoisonError::into_inner);
    let methods = routes.entry(route.to_owned()).or_default();
    if let Some(known) = find(methods) {
        return known;
    }
    let labels = [("method", method.to_owned()), ("route", route.to_owned())];
    let made = Arc::new(Figures {
        method,
        route: route.to_owned(),
        seconds: histogram!("openvibe_http_request_seconds", &labels),
        answers: RwLock::default(),
    });
    methods.push((method, Arc::clone(&made)));
    made
}

impl Figures {
    fn count(&self, status: u16) {
        let answers = self.answers.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, counter)) = answers.iter().find(|(known, _)| *known == status) {
            counter.increment(1);
            return;
        }
        drop(answers);
        let labels = [
            ("method", self.method.to_owned()),
            ("route", self.route.clone()),
            ("status", status.to_string()),
        ];
        let counter = counter!("openvibe_http_requests_total", &labels);
        counter.increment(1);
        // A duplicate after a race is harmless, because both are the same counter.
        let mut answers = self.answers.write().unwrap_or_else(PoisonError::into_inner);
        answers.push((status, counter));
    }
}

/// The method as a label; unknown methods share one, since clients can invent them.
pub fn method_label(method: &str) -> &'static str {
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    known
        .into_iter()
        .find(|known| *known == method)
        .unwrap_or("other")
}

/// A request in progress; if dropped without a response, it is counted as disconnected.
pub struct Open {
    figures: Arc<Figures>,
    started: Instant,
    is_answered: bool,
}

impl Open {
    /// `method` comes from `method_label`, and `route` is a route pattern or `UNMATCHED`.
    pub fn new(method: &'static str, route: &str) -> Self {
        Self {
            figures: figures(method, route),
            started: Instant::now(),
            is_answered: false,
        }
    }

    /// Records the response and returns the elapsed time.
    pub fn answered(mut self, status: u16) -> Duration {
        let took = self.started.elapsed();
        self.is_answered = true;
        self.figures.count(status);
        self.figures.seconds.record(took);
        took
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.is_answered {
            self.figures.count(GONE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_methods_share_a_label() {
        assert_eq!(method_label("PATCH"), "PATCH");
        for invented in ["patch", "BREW", ""] {
            assert_eq!(method_label(invented), "other");
        }
    }
}
