//! The function `done`, with which a collaborator ends the work on the goal. The function itself changes nothing; the reply ends the
//! collaborator's turn after the call.

use futures::{FutureExt, future::BoxFuture};
use serde_json::json;

use crate::{
    agents::profiles::Tool,
    db::DbError,
    model::FunctionTool,
    tool_fault::{ToolErrorCode, ToolFault},
    tools::{
        arguments::Arguments,
        function::ToolFunction,
        hash,
        output::ToolOutput,
        runner::{Call, CallError, ToolRunner, ToolTask},
    },
};

pub const NAME: &str = "done";
const TITLE: &str = "End the work";
const SUMMARY: &str = "summary";
const SUMMARY_CHARS_MAX: usize = 4_000;

/// Runs `done`.
pub struct DoneTool;

fn function() -> ToolFunction {
    let definition = FunctionTool {
        name: NAME.to_owned(),
        description: Some(
            "End the work, because the goal is reached. Agents that have not had a turn still get one."
                .to_owned(),
        ),
        parameters: Some(json!({
            "type": "object",
            "properties": {
                SUMMARY: {"type": "string", "description": "The result in a few sentences."},
            },
            "required": [SUMMARY],
            "additionalProperties": false,
        })),
        strict: None,
    };
    ToolFunction::built_in(NAME, TITLE, definition)
}

/// The summary in the stored arguments of a call.
pub fn summary_of(arguments: &str) -> Option<String> {
    let (arguments, _) = hash::parse_arguments(arguments).ok()?;
    let summary = arguments.get(SUMMARY)?.as_str()?.trim();
    Some(summary.to_owned()).filter(|summary| !summary.is_empty())
}

fn check(call: &Call<'_>) -> Result<ToolOutput, CallError> {
    let arguments = Arguments::of(&call.arguments, &[SUMMARY])?;
    if arguments.required(SUMMARY)?.chars().count() > SUMMARY_CHARS_MAX {
        let text = format!("`{SUMMARY}` has more than {SUMMARY_CHARS_MAX} characters");
        return Err(ToolFault::new(ToolErrorCode::BadArguments, text).into());
    }
    let mut output = ToolOutput::default();
    output.own("Noted.");
    Ok(output)
}

impl ToolRunner for DoneTool {
    fn functions<'a>(
        &'a self,
        task: &'a ToolTask,
        _tools: &'a [Tool],
    ) -> BoxFuture<'a, Result<Vec<ToolFunction>, DbError>> {
        let functions = if task.is_turn {
            vec![function()]
        } else {
            Vec::new()
        };
        std::future::ready(Ok(functions)).boxed()
    }

    fn run<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<ToolOutput, CallError>> {
        std::future::ready(check(&call)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_read_from_the_arguments_of_the_call() {
        let summary = |arguments: &str| summary_of(arguments);
        assert_eq!(
            summary(r#"{"summary": " Ship it. "}"#).as_deref(),
            Some("Ship it.")
        );
        for without in [r#"{"summary": " "}"#, r#"{"summary": 1}"#, "{}", "no JSON"] {
            assert_eq!(summary(without), None, "{without}");
        }
    }
}
