//! The parsed parts of a request, in a form that the Responses API and chat completions share.

use super::{
    CreateResponse, ResponseError,
    file_search::{SearchTool, read_search},
    form::EFFORT,
    format::TextFormat,
    ignored::Ignored,
    items::{Input, read_input},
    media::{self, AskedMedia},
    tools::{Tool, read_tools},
};
use crate::model::ReasoningEffort;

/// Parts of a request that need to be parsed.
pub(super) struct Parsed {
    pub input: Input,
    /// Pictures and files of the last user message.
    pub media: Vec<AskedMedia>,
    pub tools: Vec<Tool>,
    /// The tool `file_search`.
    pub search: Option<SearchTool>,
    pub format: TextFormat,
    pub effort: Option<ReasoningEffort>,
    /// Path of the reasoning effort in the request.
    pub effort_path: &'static str,
    /// Stop sequences, before which the response ends.
    pub stop: Vec<String>,
    /// Paths of what was ignored.
    pub ignored: Vec<String>,
}

impl Parsed {
    /// # Errors
    /// `Invalid` or `Unsupported` with the field.
    pub(super) fn of(form: &CreateResponse) -> Result<Self, ResponseError> {
        let ignored = Ignored::default();
        form.check(&ignored)?;
        let input = form.input.as_ref().ok_or_else(|| {
            ResponseError::invalid(
                "input",
                "input is missing: send a string or a list of items",
            )
        })?;
        Ok(Self {
            input: read_input(input, &ignored)?,
            media: media::of_items(
                input.as_array().map(Vec::as_slice).unwrap_or_default(),
                "input",
            )?,
            tools: read_tools(form.tools.as_deref().unwrap_or_default(), &ignored)?,
            search: read_search(form.tools.as_deref().unwrap_or_default(), &ignored)?,
            format: form.format(&ignored)?,
            effort: form.effort(&ignored),
            effort_path: EFFORT,
            stop: Vec::new(),
            ignored: ignored.into_paths(),
        })
    }
}
