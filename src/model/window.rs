//! Context windows of models, and corrections of token estimates.

use serde::{Deserialize, Serialize};

/// Window of a model about which nothing is known.
pub const WINDOW_ASSUMED: u64 = 32_000;

/// Origin of the size of a context window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WindowSource {
    /// The model table.
    Table,
    /// `OPENVIBE_CONTEXT_WINDOW`.
    Setting,
    /// The server's description of its models.
    Provider,
    /// An error message from the server about a prompt that was too large.
    Error,
    /// No source is available; 32,000 tokens are assumed.
    Assumed,
}

/// Context window of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Maximum number of tokens in the prompt and response together.
    pub tokens: u64,
    pub source: WindowSource,
    /// Tokens that hidden reasoning uses in addition to a short answer; 0 if the model has no hidden reasoning.
    pub reasoning_tokens: u32,
    /// Mean ratio of reported to estimated tokens in the model's most recent calls.
    pub correction: f64,
}

impl Window {
    /// Number of tokens that this model will probably report for a prompt with this estimate.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "estimates are far below 2^52 and never negative"
    )]
    pub fn corrected(&self, estimate: u64) -> u64 {
        (estimate as f64 * self.correction).ceil() as u64
    }

    /// Largest estimate for which this model will probably report at most `tokens`.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "estimates are far below 2^52 and never negative"
    )]
    pub fn estimate_for(&self, tokens: u64) -> u64 {
        (tokens as f64 / self.correction).floor() as u64
    }

    /// The size, unless it is assumed.
    pub fn known_tokens(&self) -> Option<u64> {
        (self.source != WindowSource::Assumed).then_some(self.tokens)
    }

    /// Output limit to send with a prompt of `prompt_tokens`, so that the prompt and the response fit into the window.
    pub fn output_limit(&self, output_tokens_max: u32, prompt_tokens: u64) -> u32 {
        let rest = self.tokens.saturating_sub(prompt_tokens).max(1);
        output_tokens_max.min(u32::try_from(rest).unwrap_or(u32::MAX))
    }
}
