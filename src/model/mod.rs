//! Language models: prompts in, streams of text out.
//!
//! This module does not depend on other modules of the server. `Provider` has two implementations: `openai` uses the
//! chat-completions protocol with any base URL; `builtin` replies offline by extraction.

pub mod builtin;
mod chat;
mod collect;
mod embedded;
mod error_texts;
mod json;
pub mod openai;
mod picture;
mod setup;
pub mod table;
mod tokens;
mod visible;
mod window;

use std::{path::PathBuf, sync::Arc};

use reqwest::{Url, dns::Resolve};

pub use self::chat::{
    CallHead, ChatMessage, ChatRequest, Delta, DeltaStream, FactStore, FunctionTool, JsonSchema,
    ModelError, NoStore, PictureUse, Place, Provider, REASONING_MEMBERS, ReasoningEffort, Refused,
    RefusedFunction, RequiredFormat, Role, StopReason, ToolCall, ToolCallPiece, ToolChoice,
    ToolResult, Usage, VendorMembers,
};
pub use self::collect::{CollectError, Collected, Limits, collect, collect_watched};
pub use self::embedded::{EmbedRequest, Embedded, EmbeddingServer};
pub use self::error_texts::ErrorTexts;
pub use self::json::objects;
pub use self::picture::{TurnPicture, picture_tokens};
pub use self::setup::SetupError;
pub use self::tokens::{estimate_tokens, grouped};
pub use self::visible::has_visible;
pub use self::window::{WINDOW_ASSUMED, Window, WindowSource};

use self::{
    openai::{Endpoint, OpenAi},
    table::Table,
};

/// Unparsed settings that select the provider; blank ones count as unset.
#[derive(Clone, Default)]
pub struct ModelSettings {
    pub base_url: Option<String>,
    pub api_key: Option<String>,
    pub anthropic_api_key: Option<String>,
    pub openai_api_key: Option<String>,
    pub model: Option<String>,
    pub utility_model: Option<String>,
    pub models_file: Option<PathBuf>,
    /// Context window of models that are not in the table.
    pub context_window: Option<u64>,
}

impl std::fmt::Debug for ModelSettings {
    /// Shows which keys are set, but not their values.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = |value: &Option<String>| if value.is_some() { "[hidden]" } else { "none" };
        // The URL can contain a user name and password.
        let base_url = self
            .base_url
            .as_deref()
            .map(|url| match url.rsplit_once('@') {
                Some((_, host)) => format!("[hidden]@{host}"),
                None => url.to_owned(),
            });
        f.debug_struct("ModelSettings")
            .field("base_url", &base_url)
            .field("api_key", &key(&self.api_key))
            .field("anthropic_api_key", &key(&self.anthropic_api_key))
            .field("openai_api_key", &key(&self.openai_api_key))
            .field("model", &self.model)
            .field("utility_model", &self.utility_model)
            .field("models_file", &self.models_file)
            .field("context_window", &self.context_window)
            .finish()
    }
}

/// A model server, and how to use it.
#[derive(Clone)]
pub struct Connection {
    /// `http` or `https` URL with a host.
    pub base_url: Url,
    pub api_key: Option<String>,
    /// Model that is always used.
    pub model: Option<String>,
    pub utility_model: Option<String>,
    /// Resolver for the host, used instead of the system's. If it is set, proxies are not used.
    pub resolver: Option<Arc<dyn Resolve>>,
    pub errors: ErrorTexts,
}

/// Creates clients of model servers.
#[derive(Clone)]
pub struct Connector {
    table: Table,
    /// Context window of models that are not in the table.
    context_window: Option<u64>,
    store: Arc<dyn FactStore>,
}

impl Connector {
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Creates a client of the given model server.
    ///
    /// # Errors
    /// `SetupError::ApiKey` for a key that is not a valid header value, `SetupError::Client` if TLS is not available.
    pub fn connect(&self, connection: Connection) -> Result<Arc<dyn Provider>, SetupError> {
        Ok(Arc::new(OpenAi::new(Endpoint {
            base_url: connection.base_url,
            api_key: connection.api_key,
            model: connection.model,
            utility_model: connection.utility_model,
            resolver: connection.resolver,
            errors: connection.errors,
            context_window: self.context_window,
            table: self.table.clone(),
            store: Arc::clone(&self.store),
        })?))
    }
}

/// Parses the settings, and returns a connector and the configured server: the one at the base URL if it is set; otherwise Anthropic
/// or `OpenAI`, depending on which key is set; otherwise none. Clients store facts about models in `store`. Vendor keys are sent only
/// to their vendor; a custom base URL gets only `api_key`.
///
/// # Errors
/// `SetupError`, which names the setting to change.
pub fn from_settings(
    settings: ModelSettings,
    store: Arc<dyn FactStore>,
) -> Result<(Connector, Option<Connection>), SetupError> {
    let set = |value: Option<String>| value.map(|v| v.trim().to_owned()).filter(|v| !v.is_empty());
    let table = match settings
        .models_file
        .filter(|path| !path.as_os_str().is_empty())
    {
        Some(path) => Table::read(&path)?,
        None => Table::built_in()?,
    };
    let vendors = [
        ("anthropic", set(settings.anthropic_api_key)),
        ("openai", set(settings.openai_api_key)),
    ];
    let key_of = |vendor: &str| {
        vendors
            .iter()
            .find(|(name, _)| *name == vendor)
            .and_then(|(_, key)| key.clone())
    };
    let connector = |table| Connector {
        table,
        context_window: settings.context_window,
        store,
    };
    let own_key = set(settings.api_key);
    let (base_url, api_key) = if let Some(text) = set(settings.base_url) {
        let base_url = Url::parse(&text)
            .map(without_route)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or(SetupError::BaseUrl(text))?;
        let vendor_key = table
            .vendor_at(&base_url)
            .and_then(|(name, _)| key_of(name));
        (base_url, own_key.or(vendor_key))
    } else {
        let known = vendors.iter().find_map(|(name, key)| {
            Some((table.vendor(name)?.base_url.clone(), Some(key.clone()?)))
        });
        match known {
            Some(known) => known,
            None => return Ok((connector(table), None)),
        }
    };
    let connection = Connection {
        base_url,
        api_key,
        model: set(settings.model),
        utility_model: set(settings.utility_model),
        resolver: None,
        errors: ErrorTexts::default(),
    };
    Ok((connector(table), Some(connection)))
}

/// Removes the path of a route from an address that was copied from a request, so that the base URL remains.
pub fn without_route(mut url: Url) -> Url {
    let path = url.path().trim_end_matches('/');
    let routes = [
        "/chat/completions",
        "/completions",
        "/responses",
        "/embeddings",
        "/models",
    ];
    if let Some(base) = routes.iter().find_map(|route| path.strip_suffix(route)) {
        let base = base.to_owned();
        url.set_path(&base);
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(settings: ModelSettings) -> Option<String> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (connector, connection) = from_settings(settings, Arc::new(NoStore)).unwrap();
        let provider = connector.connect(connection?).unwrap();
        Some(provider.name().to_owned())
    }

    #[test]
    fn the_base_url_precedes_the_keys_and_the_default_is_no_server() {
        let some = |text: &str| Some(text.to_owned());
        let keys = ModelSettings {
            anthropic_api_key: some("a"),
            openai_api_key: some("o"),
            ..ModelSettings::default()
        };
        let openai = ModelSettings {
            anthropic_api_key: some(" "),
            ..keys.clone()
        };
        let local = ModelSettings {
            base_url: some("http://127.0.0.1:9/v1"),
            ..keys.clone()
        };
        assert_eq!(name(keys), some("api.anthropic.com"));
        assert_eq!(name(openai), some("api.openai.com"));
        assert_eq!(name(local), some("127.0.0.1:9"));
        let blank = ModelSettings {
            base_url: some(""),
            ..ModelSettings::default()
        };
        assert_eq!(name(blank), None);
    }

    #[test]
    fn the_path_of_a_route_is_removed_from_the_base_url() {
        for (given, base) in [
            (
                "https://a.example/v1/chat/completions",
                "https://a.example/v1",
            ),
            (
                "https://a.example/v1/chat/completions/",
                "https://a.example/v1",
            ),
            (
                "https://a.example/api/v1/responses",
                "https://a.example/api/v1",
            ),
            ("http://127.0.0.1:9/v1/models", "http://127.0.0.1:9/v1"),
            ("https://a.example/models", "https://a.example/"),
            ("https://a.example/v1/", "https://a.example/v1/"),
            ("https://a.example/models/v1", "https://a.example/models/v1"),
        ] {
            assert_eq!(without_route(given.parse().unwrap()).as_str(), base);
        }
    }

    #[test]
    fn an_invalid_base_url_is_named_in_the_error() {
        for text in ["127.0.0.1:8000", "ftp://a.example", "/v1"] {
            let base_url = Some(text.to_owned());
            let settings = ModelSettings {
                base_url,
                ..ModelSettings::default()
            };
            let error = from_settings(settings, Arc::new(NoStore))
                .err()
                .unwrap()
                .to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
