//! Arguments of a call to `delegate`.

use serde_json::{Map, Value, json};

use crate::{
    tool_fault::{ToolErrorCode, ToolFault},
    tools::arguments::{Arguments, ListLimits},
};

/// Maximum length of a handle, including `@`.
const AGENT_CHARS_MAX: usize = 65;
const MESSAGE_CHARS_MAX: usize = 4_000;
const FACTS_MAX: usize = 20;
const FACT_CHARS_MAX: usize = 500;
const CONSTRAINTS_MAX: usize = 10;
const CONSTRAINT_CHARS_MAX: usize = 300;
const OUTPUT_CHARS_MAX: usize = 500;
const NAMES: [&str; 5] = ["agent", "message", "facts", "constraints", "output"];

/// Work to delegate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Delegation {
    /// Handle in lowercase, without `@`.
    pub(super) agent: String,
    pub(super) message: String,
    pub(super) facts: Vec<String>,
    pub(super) constraints: Vec<String>,
    pub(super) output: Option<String>,
}

fn limited(name: &str, text: &str, chars_max: usize) -> Result<String, ToolFault> {
    if text.chars().count() > chars_max {
        let rule = format!("`{name}` has more than {chars_max} characters");
        return Err(ToolFault::new(ToolErrorCode::BadArguments, rule));
    }
    Ok(text.to_owned())
}

fn owned(texts: Vec<&str>) -> Vec<String> {
    texts.into_iter().map(str::to_owned).collect()
}

impl Delegation {
    /// Parses the arguments of a call.
    ///
    /// # Errors
    /// `bad_arguments`.
    pub(super) fn parse(arguments: &Map<String, Value>) -> Result<Self, ToolFault> {
        let arguments = Arguments::of(arguments, &NAMES)?;
        let agent = limited("agent", arguments.required("agent")?, AGENT_CHARS_MAX)?;
        let message = arguments.required("message")?;
        let limits = ListLimits {
            entries_max: FACTS_MAX,
            chars_max: FACT_CHARS_MAX,
        };
        let facts = arguments.sentences("facts", limits)?;
        let limits = ListLimits {
            entries_max: CONSTRAINTS_MAX,
            chars_max: CONSTRAINT_CHARS_MAX,
        };
        let constraints = arguments.sentences("constraints", limits)?;
        let output = arguments.text("output")?;
        Ok(Self {
            agent: agent.trim_start_matches('@').to_lowercase(),
            message: limited("message", message, MESSAGE_CHARS_MAX)?,
            facts: owned(facts),
            constraints: owned(constraints),
            output: output
                .map(|output| limited("output", output, OUTPUT_CHARS_MAX))
                .transpose()?,
        })
    }
}

impl Delegation {
    /// Returns the text of all arguments except the agent.
    pub(super) fn text(&self) -> String {
        let texts = std::iter::once(&self.message).chain(&self.facts);
        let texts = texts.chain(&self.constraints).chain(&self.output);
        texts.map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// Returns the JSON schema of the arguments.
pub(super) fn parameters() -> Value {
    let texts = |count: usize, chars: usize, description: &str| {
        json!({
            "type": "array",
            "items": {"type": "string", "maxLength": chars},
            "maxItems": count,
            "description": description,
        })
    };
    json!({
        "type": "object",
        "properties": {
            "agent": {
                "type": "string",
                "maxLength": AGENT_CHARS_MAX,
                "description": "Handle of the agent.",
            },
            "message": {
                "type": "string",
                "maxLength": MESSAGE_CHARS_MAX,
                "description": "The task. The agent does not see this conversation.",
            },
            "facts": texts(FACTS_MAX, FACT_CHARS_MAX, "What the agent has to know, one sentence each, in the words of the messages."),
            "constraints": texts(CONSTRAINTS_MAX, CONSTRAINT_CHARS_MAX, "Rules for the work."),
            "output": {
                "type": "string",
                "maxLength": OUTPUT_CHARS_MAX,
                "description": "The wanted answer, such as its form or length.",
            },
        },
        "required": ["agent", "message"],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: &Value) -> Result<Delegation, String> {
        let arguments = value.as_object().unwrap();
        Delegation::parse(arguments).map_err(|fault| fault.message)
    }

    #[test]
    fn a_handle_is_read_in_every_form() {
        for agent in ["coder", "@coder", " @Coder "] {
            let read =
                parse(&json!({"agent": agent, "message": "Draft it.", "facts": "It is red."}));
            let read = read.unwrap();
            assert_eq!(read.agent, "coder");
            assert_eq!(read.facts, ["It is red."]);
        }
    }

    #[test]
    fn limits_are_named() {
        let long = |chars: usize| "x".repeat(chars);
        for (arguments, expected) in [
            (json!({"message": "a"}), "`agent` is missing"),
            (
                json!({"agent": long(66), "message": "a"}),
                "`agent` has more than 65 characters",
            ),
            (
                json!({"agent": "a", "message": long(4_001)}),
                "`message` has more than 4000 characters",
            ),
            (
                json!({"agent": "a", "message": "b", "facts": vec!["x"; 21]}),
                "`facts` has more than 20 entries",
            ),
            (
                json!({"agent": "a", "message": "b", "constraints": [long(301)]}),
                "an entry of `constraints` has more than 300 characters",
            ),
            (
                json!({"agent": "a", "message": "b", "output": long(501)}),
                "`output` has more than 500 characters",
            ),
        ] {
            assert_eq!(parse(&arguments).unwrap_err(), expected);
        }
    }
}
