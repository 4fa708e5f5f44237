//! Web pages as files: their bytes, if they have changed.

use bytes::Bytes;
use reqwest::{
    Response, StatusCode,
    header::{
        ACCEPT, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH,
        LAST_MODIFIED,
    },
};

use super::{Fetcher, denied, invalid, parse_url};
use crate::{
    outbound::{Gate, LocalAddresses},
    tool_fault::{ToolErrorCode, ToolFault},
};

/// Maximum length of a header that is kept, in bytes.
const HEADER_BYTES_MAX: usize = 512;

/// Version of a page, as its server names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageVersion {
    pub etag: Option<String>,
    pub modified: Option<String>,
}

impl PageVersion {
    fn of(headers: &HeaderMap) -> Self {
        let text = |name: HeaderName| {
            let value = headers.get(name)?.to_str().ok()?;
            (value.len() <= HEADER_BYTES_MAX).then(|| value.to_owned())
        };
        Self {
            etag: text(ETAG),
            modified: text(LAST_MODIFIED),
        }
    }

    /// Headers of a request for a newer version.
    fn conditions(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        for (name, value) in [
            (IF_NONE_MATCH, &self.etag),
            (IF_MODIFIED_SINCE, &self.modified),
        ] {
            let value = value.as_deref().and_then(|text| text.parse().ok());
            headers.extend(value.map(|value: HeaderValue| (name, value)));
        }
        headers
    }
}

/// A page that is being read.
#[derive(Debug)]
pub struct Download {
    pub version: PageVersion,
    response: Response,
}

impl Download {
    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// `ToolUnreachable`.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ToolFault> {
        self.response.chunk().await.map_err(|_| {
            let text = "the connection ended early";
            ToolFault::new(ToolErrorCode::ToolUnreachable, text)
        })
    }
}

impl Fetcher {
    /// Checks that a page can be read, without a request, and returns its URL in its usual form.
    ///
    /// # Errors
    /// `BadArguments` for an invalid URL, `NotAllowed` for a forbidden address, `ToolUnreachable` for an unknown host.
    pub async fn check(&self, url: &str) -> Result<String, ToolFault> {
        let url = parse_url(url)?;
        let gate = Gate::new(&self.rules, LocalAddresses::Forbidden, &url)
            .ok_or_else(|| invalid("the URL has no host"))?;
        gate.check().await.map_err(|e| denied(&e))?;
        Ok(url.into())
    }

    /// Begins to read a page; `None` if it has not changed since `known`. The caller limits size and time.
    ///
    /// # Errors
    /// Same as `fetch_from`; for a status other than 2xx, the message is the number.
    pub async fn download(
        &self,
        url: &str,
        known: &PageVersion,
    ) -> Result<Option<Download>, ToolFault> {
        let url = parse_url(url)?;
        let conditions = known.conditions();
        let (_, response) = self.respond(url, &conditions, |_| true).await?;
        let status = response.status();
        if status == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        if !status.is_success() {
            let text = status.as_u16().to_string();
            return Err(ToolFault::new(ToolErrorCode::ToolFailed, text));
        }
        Ok(Some(Download {
            version: PageVersion::of(response.headers()),
            response,
        }))
    }
}
