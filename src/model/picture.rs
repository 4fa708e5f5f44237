//! Pictures in the turns of a request.

use std::sync::Arc;

/// Number of pixels that count as a token.
const TOKEN_PIXELS: u64 = 750;

/// A picture in a user's turn, scaled and encoded.
#[derive(Clone, PartialEq, Eq)]
pub struct TurnPicture {
    /// Position in the content of the turn, in bytes, after which the picture is sent.
    pub at: usize,
    /// `data:` URL.
    pub url: Arc<str>,
    /// Estimated size in tokens.
    pub tokens: u64,
    /// Text that is inserted into the content, at `unsent_at`, if the picture is not sent.
    pub unsent: String,
    /// Position in the content of the turn, in bytes; not after `at`.
    pub unsent_at: usize,
}

impl std::fmt::Debug for TurnPicture {
    /// Shows everything but the bytes.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TurnPicture")
            .field("at", &self.at)
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}

/// Estimates the size of a picture in tokens.
pub fn picture_tokens(width: u32, height: u32) -> u64 {
    (u64::from(width) * u64::from(height)).div_ceil(TOKEN_PIXELS)
}
