//! Arguments of tools, parsed like request bodies of the API.

use std::str::FromStr;

use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    http::{ApiError, extract::parse_json},
    ids::IdError,
};

/// # Errors
/// Same as for a request body of the API.
pub(super) fn parsed<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, ApiError> {
    parse_json(Value::Object(arguments).to_string().as_bytes())
}

/// Removes a required ID from the arguments, and returns it.
///
/// # Errors
/// `InvalidField`, or `WrongKindOfId` for an ID of another kind.
pub(super) fn take_id<Id: FromStr<Err = IdError>>(
    arguments: &mut JsonObject,
    name: &str,
) -> Result<Id, ApiError> {
    let malformed = |text: String| ApiError::malformed_field(text, name.to_owned());
    match arguments.remove(name) {
        Some(Value::String(text)) => text.parse().map_err(|e: IdError| malformed(e.to_string())),
        Some(_) => Err(malformed(format!("`{name}` is not a string"))),
        None => Err(malformed(format!("missing field `{name}`"))),
    }
}
