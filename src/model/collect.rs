//! A whole answer at once, for callers that show nothing while it comes.

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

/// The answer to `request`, of which at most `bytes_max` bytes are kept: at the first byte above, the call is ended, so that
/// no model can fill the memory. The time that it may take is the caller's to limit.
///
/// # Errors
/// Those of the stream; `ModelError::Empty` for a blank answer, `ModelError::Broken` for one without an end.
pub async fn collect(
    provider: &dyn Provider,
    request: ChatRequest,
    bytes_max: usize,
) -> Result<Collected, ModelError> {
    let mut stream = provider.stream(request).await?;
    let (mut text, mut usage, mut stopped) = (String::new(), None, None);
    while let Some(delta) = stream.next().await {
        match delta? {
            Delta::Text(piece) => {
                text.push_str(&piece);
                if text.len() > bytes_max {
                    text.truncate(text.floor_char_boundary(bytes_max));
                    stopped = Some(StopReason::Length);
                    break;
                }
            }
            Delta::Usage(counted) => usage = Some(counted),
            Delta::Stop(reason) => stopped = Some(reason),
            Delta::Alive => {}
        }
    }
    drop(stream);
    match stopped {
        None => Err(ModelError::Broken("it ended in the middle".to_owned())),
        Some(_) if text.trim().is_empty() => Err(ModelError::Empty),
        Some(reason) => Ok(Collected {
            text,
            usage,
            is_cut: reason == StopReason::Length,
        }),
    }
}
