//! Files of the web that a request refers to.

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};

use super::{FETCH_WITHIN, Fetcher, failed, parse_url, shown, unreachable};
use crate::tool_fault::{ToolErrorCode, ToolFault};

impl Fetcher {
    /// Reads the bytes at a URL over a guarded connection, at most `bytes_max`.
    ///
    /// # Errors
    /// `BadArguments` for an invalid URL or one without https, `NotAllowed` for a forbidden address, `ToolUnreachable`, `ToolTimeout`,
    /// `ToolFailed` for a status other than 2xx, `Unreadable` for more bytes.
    pub async fn fetch_bytes(&self, url: &str, bytes_max: usize) -> Result<Vec<u8>, ToolFault> {
        let within = tokio::time::timeout(FETCH_WITHIN, self.follow_bytes(url, bytes_max)).await;
        within.unwrap_or_else(|_| {
            let seconds = FETCH_WITHIN.as_secs();
            let text = format!("the server did not respond completely within {seconds} s");
            Err(ToolFault::new(ToolErrorCode::ToolTimeout, text))
        })
    }

    async fn follow_bytes(&self, url: &str, bytes_max: usize) -> Result<Vec<u8>, ToolFault> {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("*/*"))]);
        let (url, mut response) = self.respond(parse_url(url)?, &headers, |_| true).await?;
        let status = response.status();
        if !status.is_success() {
            let what = format!("responded with HTTP {}", status.as_u16());
            return Err(failed(&url, &what));
        }
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|_| unreachable(&url))? {
            if body.len() + piece.len() > bytes_max {
                let text = format!("the file of {} is too large", shown(&url));
                return Err(ToolFault::new(ToolErrorCode::Unreadable, text));
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }
}
