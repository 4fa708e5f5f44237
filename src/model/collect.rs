//! A whole answer at once, for callers that show nothing while it comes.

use std::time::Duration;

use futures::StreamExt;

use super::{ChatRequest, Delta, ModelError, Provider, StopReason, Usage};

/// What a model answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// Not blank.
    pub text: String,
    pub usage: Option<Usage>,
    /// The answer was longer than the model's own limit or the caller's: its end is missing.
    pub is_cut: bool,
}

/// How much of an answer is read, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// At the first byte above, the call is ended, so that no model can fill the memory.
    pub bytes_max: usize,
    /// Without a first or next piece.
    pub silence_max: Duration,
    /// For the answer as a whole.
    pub time_max: Duration,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CollectError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("no answer in time")]
    Timeout,
}

/// The answer to `request` as far as `limits` let it come.
///
/// # Errors
/// Those of the stream; `ModelError::Empty` for a blank answer, `ModelError::Broken` for one without an end;
/// `CollectError::Timeout`.
pub async fn collect(
    provider: &dyn Provider,
    request: ChatRequest,
    limits: Limits,
) -> Result<Collected, CollectError> {
    let within = tokio::time::timeout(limits.time_max, read(provider, request, limits)).await;
    within.unwrap_or(Err(CollectError::Timeout))
}

async fn read(
    provider: &dyn Provider,
    request: ChatRequest,
    limits: Limits,
) -> Result<Collected, CollectError> {
    let silent = |_| CollectError::Timeout;
    let opened = tokio::time::timeout(limits.silence_max, provider.stream(request)).await;
    let mut stream = opened.map_err(silent)??;
    let (mut text, mut usage, mut stopped) = (String::new(), None, None);
    while let Some(delta) = tokio::time::timeout(limits.silence_max, stream.next())
        .await
        .map_err(silent)?
    {
        match delta? {
            Delta::Text(piece) => {
                text.push_str(&piece);
                if text.len() > limits.bytes_max {
                    text.truncate(text.floor_char_boundary(limits.bytes_max));
                    stopped = Some(StopReason::Length);
                    break;
                }
            }
            Delta::Usage(counted) => usage = Some(counted),
            Delta::Stop(reason) => stopped = Some(reason),
            // Nothing that is collected offers tools.
            Delta::Alive | Delta::ToolCall(_) => {}
        }
    }
    drop(stream);
    match stopped {
        None => Err(ModelError::Broken("it ended in the middle".to_owned()).into()),
        Some(_) if text.trim().is_empty() => Err(ModelError::Empty.into()),
        Some(reason) => Ok(Collected {
            text,
            usage,
            is_cut: reason == StopReason::Length,
        }),
    }
}
