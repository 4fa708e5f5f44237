//! The model table: static facts about models and their vendors.
//!
//! `models.toml` is built in; `OPENVIBE_MODELS_FILE` replaces it.

use std::{collections::BTreeMap, path::Path};

use reqwest::Url;
use serde::{Deserialize, Serialize};

use super::chat::{ReasoningEffort, Usage};

const BUILT_IN: &str = include_str!("models.toml");

/// Error in a model table.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("could not read the model table {path}")]
    Unreadable {
        path: String,
        source: std::io::Error,
    },
    #[error("the model table {path} is invalid: {message}")]
    Invalid { path: String, message: String },
}

/// Models and vendors by name.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    #[serde(default)]
    providers: BTreeMap<String, Vendor>,
    #[serde(default)]
    models: BTreeMap<String, Model>,
    /// True if the table was read from `OPENVIBE_MODELS_FILE`.
    #[serde(skip)]
    is_custom: bool,
}

/// Vendor with its endpoint and default models.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vendor {
    #[serde(deserialize_with = "url")]
    pub base_url: Url,
    pub model: String,
    pub utility_model: String,
}

/// Name of the request field for the output limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenLimitField {
    /// Older name, which most servers other than `OpenAI`'s support.
    #[default]
    MaxTokens,
    MaxCompletionTokens,
}

/// Facts about a model.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a separate key in the file"
)]
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Name of the vendor in the table. If it is not set, the entry applies to the model on any server.
    #[serde(default)]
    pub provider: Option<String>,
    /// Maximum number of tokens in the prompt and response together.
    pub context_window: u64,
    /// Price of input in US dollars per million tokens.
    #[serde(default)]
    pub input_usd: Option<f64>,
    /// Price of output in US dollars per million tokens.
    #[serde(default)]
    pub output_usd: Option<f64>,
    /// True if the model supports a JSON schema for responses; otherwise no schema is sent, and requests that require JSON
    /// are rejected.
    #[serde(default)]
    pub json_schema: bool,
    #[serde(default)]
    pub tools: bool,
    /// True if the model can see pictures. If it is not set, the server's list decides, or else the server's errors.
    #[serde(default)]
    pub images: Option<bool>,
    /// Tokens reserved for hidden reasoning, in addition to those of a short answer.
    #[serde(default)]
    pub reasoning_tokens: u32,
    /// Supported values of `reasoning_effort`; others are not sent.
    #[serde(default)]
    pub reasoning_efforts: Vec<ReasoningEffort>,
    /// True for an embedding model, which cannot chat.
    #[serde(default)]
    pub embeddings: bool,
    #[serde(default)]
    pub token_limit: TokenLimitField,
    /// True if the model supports `temperature` and `top_p`.
    #[serde(default = "yes")]
    pub temperature: bool,
}

fn yes() -> bool {
    true
}

impl Table {
    /// Parses the built-in table.
    ///
    /// # Errors
    /// `TableError::Invalid` if the embedded file is invalid, which a test prevents.
    pub fn built_in() -> Result<Self, TableError> {
        Self::parse(BUILT_IN, "models.toml")?.checked("models.toml")
    }

    /// Reads a table from a file. Missing vendors are taken from the built-in table, so that their keys still work.
    ///
    /// # Errors
    /// `TableError::Unreadable` or `TableError::Invalid`, both with the path.
    pub fn read(path: &Path) -> Result<Self, TableError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| TableError::Unreadable {
            path: shown.clone(),
            source,
        })?;
        Self::built_in()?.replaced_by(&text, &shown)
    }

    fn replaced_by(self, text: &str, path: &str) -> Result<Self, TableError> {
        let mut table = Self::parse(text, path)?;
        table.is_custom = true;
        for (name, vendor) in self.providers {
            table.providers.entry(name).or_insert(vendor);
        }
        table.checked(path)
    }

    fn parse(text: &str, path: &str) -> Result<Self, TableError> {
        let invalid = |message| TableError::Invalid {
            path: path.to_owned(),
            message,
        };
        toml::from_str(text).map_err(|e: toml::de::Error| invalid(e.to_string()))
    }

    fn checked(self, path: &str) -> Result<Self, TableError> {
        let is_unknown = |model: &Model| {
            model
                .provider
                .as_ref()
                .is_some_and(|name| !self.providers.contains_key(name))
        };
        match self.models.iter().find(|(_, model)| is_unknown(model)) {
            Some((name, _)) => Err(TableError::Invalid {
                path: path.to_owned(),
                message: format!("`{name}` has a provider that is not in the table: add it"),
            }),
            None => Ok(self),
        }
    }

    pub fn vendor(&self, name: &str) -> Option<&Vendor> {
        self.providers.get(name)
    }

    /// Finds the vendor whose endpoint has the same host as `base_url`.
    pub fn vendor_at(&self, base_url: &Url) -> Option<(&str, &Vendor)> {
        self.providers
            .iter()
            .find(|(_, vendor)| vendor.base_url.host() == base_url.host())
            .map(|(name, vendor)| (name.as_str(), vendor))
    }

    /// Finds a model by its name. If necessary, ignores a vendor prefix (`anthropic/…`), a date or `latest` suffix (`…-20250929`,
    /// `…-2025-08-07`), or a tag after a colon.
    pub fn model(&self, name: &str) -> Option<&Model> {
        let lower = name.to_lowercase();
        let bare = lower.rsplit('/').next().unwrap_or_default();
        let untagged = bare.split(':').next().unwrap_or_default();
        [name, &lower, bare, untagged, undated(untagged)]
            .into_iter()
            .find_map(|name| self.models.get(name))
    }

    /// Checks whether the window of `model` depends on the host. It does for open-weight models, whose built-in entry states the
    /// largest possible window.
    pub fn has_host_window(&self, model: &Model) -> bool {
        model.provider.is_none() && !self.is_custom
    }

    /// Checks whether `vendor` has the chat model `model`.
    pub fn has(&self, vendor: &str, model: &str) -> bool {
        self.model(model)
            .is_some_and(|entry| entry.provider.as_deref() == Some(vendor) && !entry.embeddings)
    }

    /// Cost of a call in US dollars. `vendor` is `None` for an endpoint that is not in the table.
    pub fn cost_usd(&self, vendor: Option<&str>, model: &str, usage: Usage) -> Option<f64> {
        let entry = self.model(model)?;
        if entry.provider.is_some() && entry.provider.as_deref() != vendor {
            return None;
        }
        let cost = |tokens: i64, usd_per_million: f64| {
            f64::from(u32::try_from(tokens.max(0)).unwrap_or(u32::MAX)) * usd_per_million / 1e6
        };
        Some(
            cost(usage.input_tokens, entry.input_usd?)
                + cost(usage.output_tokens, entry.output_usd?),
        )
    }
}

/// Removes a date or `-latest` from the end of a name, as in `name-20250929`, `name-2025-09-29`, and `name-latest`.
fn undated(name: &str) -> &str {
    let name = name.strip_suffix("-latest").unwrap_or(name);
    let is_date = |end: &str| {
        end.strip_prefix('-').is_some_and(|date| {
            date.bytes().filter(u8::is_ascii_digit).count() == 8
                && (date.len() == 8 || date.split('-').map(str::len).eq([4, 2, 2]))
        })
    };
    [9, 11]
        .into_iter()
        .filter_map(|length| name.split_at_checked(name.len().checked_sub(length)?))
        .find(|(_, end)| is_date(end))
        .map_or(name, |(begin, _)| begin)
}

fn url<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Url, D::Error> {
    let text = String::deserialize(deserializer)?;
    Url::parse(&text).map_err(|e| serde::de::Error::custom(format!("`{text}`: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_table_contains_the_default_models_of_its_vendors() {
        let table = Table::built_in().unwrap();
        for name in ["anthropic", "openai"] {
            let vendor = table.vendor(name).unwrap();
            assert!(table.has(name, &vendor.model), "{name}");
            assert!(table.has(name, &vendor.utility_model), "{name}");
            assert_eq!(table.vendor_at(&vendor.base_url).unwrap().0, name);
        }
        for seed in ["claude-sonnet-4-5", "claude-haiku-4-5", "claude-opus-4-6"] {
            assert!(table.has("anthropic", seed), "{seed}");
            assert!(!table.has("openai", seed), "{seed}");
        }
        assert!(!table.has("openai", "text-embedding-3-small"));
    }

    #[test]
    fn a_model_is_found_by_its_gateway_names() {
        let table = Table::built_in().unwrap();
        let sonnet = table.model("claude-sonnet-4-5");
        assert!(sonnet.is_some());
        for name in [
            "claude-sonnet-4-5-20250929",
            "anthropic/claude-sonnet-4-5",
            "Claude-Sonnet-4-5-latest",
            "vertex/anthropic/claude-sonnet-4-5:beta",
        ] {
            assert_eq!(table.model(name), sonnet, "{name}");
        }
        assert_eq!(table.model("gpt-5-2025-08-07"), table.model("gpt-5"));
        assert_eq!(table.model("claude-sonnet-4"), None);
        assert_eq!(table.model("gpt"), None);
        assert_eq!(table.model(""), None);
    }

    #[test]
    fn a_call_is_priced_by_its_vendor_and_otherwise_has_no_price() {
        let table = Table::built_in().unwrap();
        let usage = Usage {
            input_tokens: 1_000_000,
            output_tokens: 100_000,
            ..Usage::default()
        };
        let cost = |vendor, model| table.cost_usd(vendor, model, usage);
        assert_eq!(cost(Some("anthropic"), "claude-sonnet-4-5"), Some(4.5));
        assert_eq!(cost(None, "claude-sonnet-4-5"), None);
        assert_eq!(cost(None, "gpt-oss-20b"), None);
        assert_eq!(cost(Some("anthropic"), "unheard-of"), None);
    }

    #[test]
    fn a_custom_table_replaces_the_models_and_keeps_the_vendors() {
        let own = "[providers.house]\nbase_url = \"http://10.0.0.1/v1\"\nmodel = \"a\"\nutility_model = \"b\"\n[models.a]\nprovider = \"house\"\ncontext_window = 4096";
        let table = Table::built_in()
            .unwrap()
            .replaced_by(own, "my.toml")
            .unwrap();
        assert!(table.has("house", "a"));
        assert_eq!(table.model("claude-sonnet-4-5"), None);
        assert!(table.vendor("anthropic").is_some());
    }

    #[test]
    fn an_error_in_a_table_is_reported_with_its_position() {
        let wrong = "[models.x]\ncontext_window = 1\nprovider = \"nobody\"";
        let built_in = Table::built_in().unwrap();
        let error = built_in
            .replaced_by(wrong, "my.toml")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("my.toml") && error.contains("`x`"),
            "{error}"
        );
        assert!(Table::parse("[models.x]\ncontextwindow = 1", "my.toml").is_err());
        let missing = Table::read(Path::new("/nowhere/models.toml")).unwrap_err();
        assert!(missing.to_string().contains("/nowhere/models.toml"));
    }
}
