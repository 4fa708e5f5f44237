//! Collects a complete response, for callers that do not stream it.

use std::time::Duration;

use futures::StreamExt;

use super::visible::has_visible;
use super::{
    ChatRequest, Delta, DeltaStream, ModelError, Provider, StopReason, Usage,
    json::ends_inside_object,
};

/// Complete response of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// Text of the response; never blank.
    pub text: String,
    pub usage: Option<Usage>,
    /// True if the end is missing because the response exceeded a limit of the model or the caller.
    pub is_cut: bool,
}

impl Collected {
    /// Checks whether the end of the response is missing, also if the model did not report it. Such a response must not be used as an
    /// answer, because its last sentence or entry can be half of what the model wanted to write.
    pub fn is_incomplete(&self) -> bool {
        self.is_cut || ends_inside_object(&self.text)
    }
}

/// Size and time limits of a response.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum size in bytes, so that no model can exhaust the memory; longer responses are cut off.
    pub bytes_max: usize,
    /// Time to wait for the first or next chunk.
    pub silence_max: Duration,
    /// Maximum time for the whole response.
    pub time_max: Duration,
}

/// Failure of a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CollectError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("the model did not respond in time")]
    Timeout,
}

impl CollectError {
    /// Checks whether the response contained only reasoning.
    pub fn is_thought_only(&self) -> bool {
        matches!(self, Self::Model(ModelError::ThoughtOnly { .. }))
    }
}

/// Collects the response to `request` within `limits`.
///
/// # Errors
/// Errors from the stream, `ModelError::Empty` for a blank response, `ModelError::Broken` for a response without an end, or
/// `CollectError::Timeout`.
pub async fn collect(
    provider: &dyn Provider,
    request: ChatRequest,
    limits: Limits,
) -> Result<Collected, CollectError> {
    collect_watched(provider, request, limits, |stream| stream).await
}

/// Collects a response like `collect`, but passes the stream to `watch` and reads the stream that it returns.
///
/// # Errors
/// As for `collect`.
pub async fn collect_watched(
    provider: &dyn Provider,
    request: ChatRequest,
    limits: Limits,
    watch: impl FnOnce(DeltaStream) -> DeltaStream,
) -> Result<Collected, CollectError> {
    let reading = read(provider, request, limits, watch);
    let within = tokio::time::timeout(limits.time_max, reading).await;
    within.unwrap_or(Err(CollectError::Timeout))
}

async fn read(
    provider: &dyn Provider,
    request: ChatRequest,
    limits: Limits,
    watch: impl FnOnce(DeltaStream) -> DeltaStream,
) -> Result<Collected, CollectError> {
    let silent = |_| CollectError::Timeout;
    // Waiting for a free slot does not count toward the timeout.
    let request = ChatRequest {
        place: provider.place().await,
        ..request
    };
    let opened = tokio::time::timeout(limits.silence_max, provider.stream(request)).await;
    let mut stream = watch(opened.map_err(silent)??);
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
            Delta::Discard => text.clear(),
            Delta::Usage(counted) => usage = Some(counted),
            Delta::Stop(reason) => stopped = Some(reason),
            // Requests whose response is collected never offer tools.
            Delta::Alive | Delta::ToolCall(_) | Delta::Vendor(_) => {}
        }
    }
    drop(stream);
    match stopped {
        None => Err(ModelError::Broken("the stream ended early".to_owned()).into()),
        Some(_) if !has_visible(&text) => Err(ModelError::Empty.into()),
        Some(reason) => Ok(Collected {
            text,
            usage,
            is_cut: reason == StopReason::Length,
        }),
    }
}
