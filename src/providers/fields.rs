//! Fields of forms with a server and a key.

use reqwest::Url;

use super::error::ProviderError;
use crate::model::without_route;

/// Maximum length of a model's name in characters.
pub const MODEL_CHARS_MAX: usize = 200;
const BASE_URL_CHARS_MAX: usize = 2048;
const API_KEY_BYTES_MAX: usize = 8 * 1024;

/// Change of a stored key.
#[derive(Clone)]
pub enum KeyChange {
    Keep,
    Remove,
    Replace(String),
}

impl KeyChange {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Keep => "kept",
            Self::Remove => "removed",
            Self::Replace(_) => "replaced",
        }
    }

    /// Parses the field `api_key`: if it is omitted, the stored key is kept; null and blank values remove it.
    ///
    /// # Errors
    /// `Invalid` for a key that is not one line of ASCII text, or too long.
    pub fn parse(key: Option<Option<String>>) -> Result<Self, ProviderError> {
        let Some(key) = key else {
            return Ok(Self::Keep);
        };
        let key = key.map(|key| key.trim().to_owned());
        let Some(key) = key.filter(|key| !key.is_empty()) else {
            return Ok(Self::Remove);
        };
        let is_visible = key.chars().all(|c| c.is_ascii_graphic() || c == ' ');
        if key.len() > API_KEY_BYTES_MAX || !is_visible {
            let problem = "the key must be one line of ASCII text, at most 8 KiB long";
            return Err(ProviderError::Invalid(problem.to_owned(), "api_key"));
        }
        Ok(Self::Replace(key))
    }
}

/// Trims a text; `None` if it is blank.
///
/// # Errors
/// `Invalid` for a text that is not one line, or too long.
pub fn parse_text(
    value: Option<String>,
    param: &'static str,
    chars_max: usize,
) -> Result<Option<String>, ProviderError> {
    let value = value.map(|text| text.trim().to_owned());
    let value = value.filter(|text| !text.is_empty());
    let is_valid =
        |text: &String| text.chars().count() <= chars_max && !text.chars().any(char::is_control);
    if !value.as_ref().is_none_or(is_valid) {
        let problem = format!("the text must be one line of at most {chars_max} characters");
        return Err(ProviderError::Invalid(problem, param));
    }
    Ok(value)
}

/// Parses the field `base_url`; `None` if it is blank.
///
/// # Errors
/// `Invalid` for a URL that is not the base of a model server.
pub fn parse_base_url(value: Option<String>) -> Result<Option<Url>, ProviderError> {
    let text = parse_text(value, "base_url", BASE_URL_CHARS_MAX)?;
    text.as_deref().map(parse_url).transpose()
}

fn parse_url(text: &str) -> Result<Url, ProviderError> {
    let invalid = |problem: &str| ProviderError::Invalid(problem.to_owned(), "base_url");
    let url = Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.ok_or_else(|| {
        invalid("the address must be an http or https URL such as http://127.0.0.1:8000/v1")
    })?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid(
            "the address must not contain a user name or password: use the API key",
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(invalid("the address must not contain `?` or `#`"));
    }
    Ok(without_route(url))
}
