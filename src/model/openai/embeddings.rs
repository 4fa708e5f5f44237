//! `POST /embeddings`, which most servers of models have: the vectors of texts.

use reqwest::Response;
use serde::Deserialize;
use serde_json::json;

use super::{
    Server,
    answer::TOKENS_MAX,
    refusal::{Quotes, Refusal},
    shown,
};
use crate::model::{
    chat::ModelError,
    embedded::{EmbedRequest, Embedded},
};

/// Maximum size of a response, and of its share for each text.
const ANSWER_BYTES_MAX: usize = 16 << 20;
const TEXT_ANSWER_BYTES_MAX: usize = 512 << 10;
/// Maximum number of values of a vector.
const DIMENSIONS_MAX: usize = 8_192;

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
    usage: Option<Count>,
}

#[derive(Deserialize)]
struct Item {
    index: Option<usize>,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct Count {
    prompt_tokens: Option<i64>,
}

impl Server {
    /// Requests the vectors of texts. Errors never quote servers at local addresses, because admins of workspaces see them.
    pub(super) async fn embedded(&self, request: EmbedRequest) -> Result<Embedded, ModelError> {
        let body = json!({"model": request.model, "input": request.texts});
        let response = match self.post(&["embeddings"], body).await {
            Ok(response) => response,
            Err(error) => return Err(self.unreachable(error, true)),
        };
        let quotes = self.quotes(response.remote_addr(), true);
        if response.status().is_success() {
            let texts = request.texts.len();
            let body = read(response, &quotes, texts).await?;
            return parse(&body, texts);
        }
        let refusal = Refusal::read(response).await;
        Err(match refusal.error(&quotes) {
            ModelError::BadRequest(detail) if refusal.names_model(&request.model) => {
                ModelError::ModelMissing(detail)
            }
            ModelError::BadRequest(_) if refusal.is_missing_path() => {
                let url = shown(&self.endpoint.base_url);
                ModelError::BadRequest(format!("no embeddings at {url}: check the address"))
            }
            error => error,
        })
    }
}

async fn read(
    mut response: Response,
    quotes: &Quotes,
    texts: usize,
) -> Result<Vec<u8>, ModelError> {
    let bytes_max = ANSWER_BYTES_MAX.min(texts.saturating_mul(TEXT_ANSWER_BYTES_MAX));
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(piece)) => body.extend_from_slice(&piece),
            Ok(None) => return Ok(body),
            Err(error) => return Err(ModelError::Broken(quotes.cause(error))),
        }
        if body.len() > bytes_max {
            return Err(broken("the response is too large"));
        }
    }
}

fn broken(problem: &str) -> ModelError {
    ModelError::Broken(problem.to_owned())
}

/// Parses a response to a request with this number of texts.
fn parse(body: &[u8], texts: usize) -> Result<Embedded, ModelError> {
    // Also fails for a number that is too large.
    let answer: Answer =
        serde_json::from_slice(body).map_err(|_| broken("the response has no vectors"))?;
    let mut items = answer.data;
    if items.iter().all(|item| item.index.is_some()) {
        items.sort_by_key(|item| item.index);
        if (0..).zip(&items).any(|(n, item)| item.index != Some(n)) {
            return Err(broken(
                "the response does not have one vector for each text",
            ));
        }
    }
    if items.len() != texts {
        return Err(broken(
            "the response does not have one vector for each text",
        ));
    }
    let size = items.first().map_or(0, |item| item.embedding.len());
    if !(1..=DIMENSIONS_MAX).contains(&size) {
        return Err(broken("the vectors do not have 1 to 8,192 values"));
    }
    if items.iter().any(|item| item.embedding.len() != size) {
        return Err(broken("the vectors have different sizes"));
    }
    Ok(Embedded {
        vectors: items.into_iter().map(|item| item.embedding).collect(),
        input_tokens: answer
            .usage
            .and_then(|usage| usage.prompt_tokens)
            .filter(|tokens| (1..=TOKENS_MAX).contains(tokens)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(body: &str) -> String {
        parse(body.as_bytes(), 2).unwrap_err().to_string()
    }

    #[test]
    fn vectors_are_in_the_order_of_their_texts() {
        let body = r#"{"data": [{"index": 1, "embedding": [3, -4.5]}, {"index": 0, "embedding": [1e-3, 2]}],
            "usage": {"prompt_tokens": 7, "total_tokens": 7}}"#;
        let embedded = parse(body.as_bytes(), 2).unwrap();
        assert_eq!(embedded.vectors, [[0.001, 2.0], [3.0, -4.5]]);
        assert_eq!((embedded.dimensions(), embedded.input_tokens), (2, Some(7)));
        let plain = r#"{"data": [{"embedding": [1]}, {"embedding": [2]}]}"#;
        let embedded = parse(plain.as_bytes(), 2).unwrap();
        assert_eq!(embedded.vectors, [[1.0], [2.0]]);
        assert_eq!(embedded.input_tokens, None);
        for implausible in ["0", "-7", "9223372036854775807"] {
            let usage = format!(r#"{{"usage": {{"prompt_tokens": {implausible}}}, "#);
            let embedded = parse(plain.replacen('{', &usage, 1).as_bytes(), 2).unwrap();
            assert_eq!(embedded.input_tokens, None, "{implausible}");
        }
    }

    #[test]
    fn wrong_responses_are_errors() {
        for (body, expected) in [
            ("{}", "no vectors"),
            ("not JSON", "no vectors"),
            (
                r#"{"data": [{"embedding": [NaN]}, {"embedding": [1]}]}"#,
                "no vectors",
            ),
            (
                r#"{"data": [{"embedding": [null]}, {"embedding": [1]}]}"#,
                "no vectors",
            ),
            (
                r#"{"data": [{"embedding": [1e39]}, {"embedding": [1]}]}"#,
                "no vectors",
            ),
            (r#"{"data": [{"embedding": [1]}]}"#, "one vector for each"),
            (
                r#"{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}"#,
                "one vector for each",
            ),
            (
                r#"{"data": [{"embedding": [1]}, {"embedding": [1, 2]}]}"#,
                "different sizes",
            ),
            (
                r#"{"data": [{"embedding": []}, {"embedding": []}]}"#,
                "1 to 8,192",
            ),
        ] {
            assert!(problem(body).contains(expected), "{body}");
        }
    }
}
