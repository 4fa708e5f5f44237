//! The offline responder.
use futures::future::BoxFuture;

use super::{ChatRequest, DeltaStream, ModelError, Provider, Usage};

#[derive(Default)]
pub struct Builtin;

impl Provider for Builtin {
    fn name(&self) -> &str {
        "builtin"
    }
    fn choose_model<'a>(&'a self, _: Option<&'a str>) -> BoxFuture<'a, String> {
        Box::pin(async { "builtin".to_owned() })
    }
    fn utility_model<'a>(&'a self, _: &'a str) -> BoxFuture<'a, String> {
        Box::pin(async { "builtin".to_owned() })
    }
    fn context_window(&self, _: &str) -> u64 {
        1
    }
    fn cost_usd(&self, _: &str, _: Usage) -> Option<f64> {
        None
    }
    fn stream(&self, _: ChatRequest) -> BoxFuture<'_, Result<DeltaStream, ModelError>> {
        Box::pin(async { Err(ModelError::Empty) })
    }
}
