//! The parsed parts of a request, in a form that the Responses API and chat completions share.

use super::{
    CreateResponse, ResponseError,
    format::TextFormat,
    items::{Item, read_input},
    tools::{Tool, read_tools},
};
use crate::model::ReasoningEffort;

/// Parts of a request that need to be parsed.
pub(super) struct Parsed {
    pub items: Vec<Item>,
    pub tools: Vec<Tool>,
    pub format: TextFormat,
    pub effort: Option<ReasoningEffort>,
    /// Stop sequences, before which the response ends.
    pub stop: Vec<String>,
}

impl Parsed {
    /// # Errors
    /// `Invalid` or `Unsupported` with the field.
    pub(super) fn of(form: &CreateResponse) -> Result<Self, ResponseError> {
        form.check()?;
        let input = form.input.as_ref().ok_or_else(|| {
            ResponseError::invalid(
                "input",
                "input is missing: send a string or a list of items",
            )
        })?;
        Ok(Self {
            items: read_input(input)?,
            tools: read_tools(form.tools.as_deref().unwrap_or_default())?,
            format: form.format()?,
            effort: form.effort()?,
            stop: Vec::new(),
        })
    }
}
