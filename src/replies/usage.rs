//! Token usage of a model call.

use crate::{
    model::{Provider, Usage, estimate_tokens},
    tasks::TokenUsage,
};

/// Usage reported by the provider, or an estimate from the texts if it does not report any.
pub fn usage_of(
    provider: &dyn Provider,
    model: &str,
    counted: Option<Usage>,
    prompt_tokens: u64,
    answer: &str,
) -> TokenUsage {
    let estimated = counted.is_none();
    let counted = counted.unwrap_or_else(|| Usage {
        input_tokens: i64::try_from(prompt_tokens).unwrap_or(i64::MAX),
        output_tokens: i64::try_from(estimate_tokens(answer)).unwrap_or(i64::MAX),
        ..Usage::default()
    });
    TokenUsage {
        input_tokens: counted.input_tokens,
        output_tokens: counted.output_tokens,
        model: model.to_owned(),
        cost_usd: provider.cost_usd(model, counted),
        estimated,
    }
}

/// Total usage of two calls of the same model.
#[must_use]
pub fn sum(one: TokenUsage, other: &TokenUsage) -> TokenUsage {
    TokenUsage {
        input_tokens: one.input_tokens + other.input_tokens,
        output_tokens: one.output_tokens + other.output_tokens,
        model: one.model,
        cost_usd: one.cost_usd.zip(other.cost_usd).map(|(a, b)| a + b),
        estimated: one.estimated || other.estimated,
    }
}
