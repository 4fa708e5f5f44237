//! Vectors of texts, which are close to each other if the texts have similar meanings.

use reqwest::Url;

use super::tokens::estimate_tokens;

/// A request for the vectors of texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbedRequest {
    pub model: String,
    pub texts: Vec<String>,
}

impl EmbedRequest {
    /// Estimated size in tokens.
    pub fn tokens(&self) -> u64 {
        self.texts.iter().map(|text| estimate_tokens(text)).sum()
    }
}

/// Vectors in the order of their texts. All have the same number of values, at least one, and all values are finite.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedded {
    pub vectors: Vec<Vec<f32>>,
    /// Tokens of the texts; `None` if the server does not count them.
    pub input_tokens: Option<i64>,
}

impl Embedded {
    /// Number of values of each vector.
    pub fn dimensions(&self) -> usize {
        self.vectors.first().map_or(0, Vec::len)
    }
}

/// The server for embeddings that environment variables configure.
#[derive(Clone, PartialEq, Eq)]
pub struct EmbeddingServer {
    /// `None` for the model server of each workspace.
    pub base_url: Option<Url>,
    pub api_key: Option<String>,
    pub model: String,
}

impl std::fmt::Debug for EmbeddingServer {
    /// Hides the key, and the user name and password that the URL can contain.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = self.api_key.as_ref().map(|_| "[hidden]");
        let address = self.base_url.as_ref().map(|url| {
            let origin = url.origin().ascii_serialization();
            format!("{origin}{}", url.path())
        });
        f.debug_struct("EmbeddingServer")
            .field("base_url", &address)
            .field("api_key", &key)
            .field("model", &self.model)
            .finish()
    }
}
