//! Tools: those of the agent and those of the request, and which of them the model is offered.

use serde_json::{Map, Value, json};

use super::ResponseError;
use crate::model::{FunctionTool, ToolChoice};

const TOOLS_MAX: usize = 128;
const NAME_BYTES_MAX: usize = 64;
/// What the platform knows (AGENT-PLATFORM §1); only functions are run, by the client.
const KINDS: [&str; 6] = [
    "function",
    "mcp",
    "file_search",
    "code_interpreter",
    "web_fetch",
    "delegate",
];

/// A tool object that was checked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tool {
    kind: String,
    /// A function's name, an MCP server's label; otherwise the kind alone tells tools apart.
    name: Option<String>,
    value: Value,
}

impl Tool {
    fn is_same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.name == other.name
    }

    pub(super) fn is_function(&self) -> bool {
        self.kind == "function"
    }

    /// As the model is told of it; `None` for a kind that nothing runs.
    fn function(&self) -> Option<FunctionTool> {
        let name = self.name.clone().filter(|_| self.kind == "function")?;
        let found = |field: &str| self.value.get(field).filter(|value| !value.is_null());
        Some(FunctionTool {
            name,
            description: found("description")
                .and_then(Value::as_str)
                .map(str::to_owned),
            parameters: found("parameters").cloned(),
            strict: found("strict").and_then(Value::as_bool),
        })
    }
}

/// The `tools` of a request.
///
/// # Errors
/// `Invalid` or `Unsupported`, naming the place such as `tools[0].name`.
pub(super) fn read_tools(list: &[Value]) -> Result<Vec<Tool>, ResponseError> {
    if list.len() > TOOLS_MAX {
        let text = format!("there are {} tools; the limit is {TOOLS_MAX}", list.len());
        return Err(ResponseError::invalid("tools", text));
    }
    let mut tools = Vec::<Tool>::new();
    for (n, value) in list.iter().enumerate() {
        let tool = read_tool(value, &format!("tools[{n}]"))?;
        if tool.name.is_some() && tools.iter().any(|known| known.is_same(&tool)) {
            let text = format!("two tools are named `{}`", tool.name.unwrap_or_default());
            return Err(ResponseError::invalid(format!("tools[{n}].name"), text));
        }
        tools.push(tool);
    }
    Ok(tools)
}

pub(super) fn read_tool(value: &Value, param: &str) -> Result<Tool, ResponseError> {
    let Value::Object(object) = value else {
        return Err(ResponseError::invalid(param, "a tool is an object"));
    };
    let kind = object
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !KINDS.contains(&kind) {
        let text = format!(
            "tools of type `{kind}` are not supported: use one of {}",
            KINDS.join(", ")
        );
        return Err(ResponseError::unsupported(format!("{param}.type"), text));
    }
    let (name, value) = match kind {
        "function" => (
            Some(name(object, "name", param)?),
            read_function(object, param)?,
        ),
        "mcp" => (Some(name(object, "server_label", param)?), value.clone()),
        _ => (None, value.clone()),
    };
    Ok(Tool {
        kind: kind.to_owned(),
        name,
        value,
    })
}

fn name(object: &Map<String, Value>, field: &str, param: &str) -> Result<String, ResponseError> {
    let name = object
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default();
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if fits {
        return Ok(name.to_owned());
    }
    let text = format!("`{field}` is 1 to {NAME_BYTES_MAX} of letters, digits, `_` and `-`");
    Err(ResponseError::invalid(format!("{param}.{field}"), text))
}

/// The function with every field that clients read, unset ones as null.
fn read_function(object: &Map<String, Value>, param: &str) -> Result<Value, ResponseError> {
    let mut function = json!({"type": "function", "name": object.get("name"), "description": null, "parameters": null, "strict": null});
    for (field, value) in object {
        let (fits, what) = match field.as_str() {
            "type" | "name" => continue,
            "description" => (value.is_string(), "a text"),
            "parameters" => (value.is_object(), "a JSON schema"),
            "strict" => (value.is_boolean(), "true or false"),
            // Off is what it is without them.
            _ if matches!(value, Value::Null | Value::Bool(false)) => continue,
            // What the server itself says about an agent's tool.
            "available" | "registry_id" => continue,
            other => {
                let text = format!("`{other}` of a function is not supported: leave it out");
                return Err(ResponseError::unsupported(format!("{param}.{other}"), text));
            }
        };
        if value.is_null() {
            continue;
        }
        if !fits {
            let text = format!("`{field}` of a function is {what}");
            return Err(ResponseError::invalid(format!("{param}.{field}"), text));
        }
        function[field] = value.clone();
    }
    Ok(function)
}

/// What a call runs with.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Offer {
    /// What the model is told of.
    pub functions: Vec<FunctionTool>,
    /// What the answer names.
    pub shown: Vec<Value>,
}

/// The agent's functions and the request's tools; of two that are the same the request's counts. What nothing runs is shown
/// only where the request named it, and the model never hears of it; nor of functions where the workspace forbids them.
pub(super) fn offer(agent: &[Tool], request: &[Tool], may_call_functions: bool) -> Offer {
    let own = agent.iter().filter(|tool| {
        tool.kind == "function"
            && may_call_functions
            && !request.iter().any(|other| other.is_same(tool))
    });
    let all: Vec<&Tool> = own.chain(request).collect();
    let functions = all.iter().filter_map(|tool| tool.function());
    Offer {
        functions: functions.filter(|_| may_call_functions).collect(),
        shown: all.iter().map(|tool| tool.value.clone()).collect(),
    }
}

/// The `tool_choice` of a request, and how the answer shows it.
///
/// # Errors
/// `Invalid` when there is nothing to call, `Unsupported` for other tools than functions.
pub(super) fn read_choice(
    value: Option<&Value>,
    offered: &[FunctionTool],
) -> Result<(ToolChoice, Value), ResponseError> {
    let wrong = |text: &str| ResponseError::invalid("tool_choice", text);
    let Some(value) = value else {
        return Ok((ToolChoice::Auto, "auto".into()));
    };
    let choice = match value {
        Value::String(text) => match text.as_str() {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "required" => ToolChoice::Required,
            _ => return Err(wrong("tool_choice is none, auto, required, or a function")),
        },
        Value::Object(object) if object.get("type").is_some_and(|kind| kind == "function") => {
            let name = object
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if !offered.iter().any(|tool| tool.name == name) {
                return Err(wrong(
                    "tool_choice names a function that is not among the tools",
                ));
            }
            ToolChoice::Function(name.to_owned())
        }
        _ => {
            let text = "this tool_choice is not supported: use none, auto, required, or {\"type\":\"function\",\"name\":…}";
            return Err(ResponseError::unsupported("tool_choice", text));
        }
    };
    if choice == ToolChoice::Required && offered.is_empty() {
        return Err(wrong(
            "tool_choice is required, but there is no function to call",
        ));
    }
    Ok((choice, value.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(list: &Value) -> Vec<Tool> {
        read_tools(list.as_array().unwrap()).unwrap()
    }

    fn names(offer: &Offer) -> Vec<&str> {
        offer
            .functions
            .iter()
            .map(|tool| tool.name.as_str())
            .collect()
    }

    #[test]
    fn of_the_same_function_the_requests_counts() {
        let agent = tools(&json!([
            {"type": "function", "name": "a", "description": "agent's"},
            {"type": "function", "name": "b"},
            {"type": "web_fetch"},
        ]));
        let request = tools(&json!([
            {"type": "function", "name": "a", "description": "request's", "strict": null, "async": false},
            {"type": "mcp", "server_label": "wiki", "server_url": "https://wiki.example"},
        ]));
        let both = offer(&agent, &request, true);
        assert_eq!(names(&both), ["b", "a"]);
        assert_eq!(both.functions[1].description.as_deref(), Some("request's"));
        let shown: Vec<&str> = both
            .shown
            .iter()
            .filter_map(|tool| tool["type"].as_str())
            .collect();
        assert_eq!(shown, ["function", "function", "mcp"]);
        let forbidden = offer(&agent, &request, false);
        assert!(forbidden.functions.is_empty());
        assert_eq!(forbidden.shown.len(), 2);
    }

    #[test]
    fn tools_that_are_not_understood_are_named() {
        for (tool, wanted) in [
            (json!({"type": "time_machine"}), "tools[0].type"),
            (json!({"type": "function"}), "tools[0].name"),
            (json!({"type": "function", "name": "a b"}), "tools[0].name"),
            (
                json!({"type": "function", "name": "a", "parameters": []}),
                "tools[0].parameters",
            ),
            (
                json!({"type": "function", "name": "a", "async": true}),
                "tools[0].async",
            ),
            (json!({"type": "mcp"}), "tools[0].server_label"),
        ] {
            let (ResponseError::Invalid(_, param) | ResponseError::Unsupported(_, param)) =
                read_tools(std::slice::from_ref(&tool)).unwrap_err()
            else {
                panic!("{tool}")
            };
            assert_eq!(param, wanted, "{tool}");
        }
        let twice = json!([{"type": "function", "name": "a"}, {"type": "function", "name": "a"}]);
        assert!(read_tools(twice.as_array().unwrap()).is_err());
    }

    #[test]
    fn a_choice_needs_something_to_choose() {
        let offered = offer(
            &[],
            &tools(&json!([{"type": "function", "name": "a"}])),
            true,
        )
        .functions;
        let one = json!({"type": "function", "name": "a"});
        assert_eq!(
            read_choice(Some(&one), &offered).unwrap().0,
            ToolChoice::Function("a".to_owned())
        );
        assert!(read_choice(Some(&one), &[]).is_err());
        assert!(read_choice(Some(&json!("required")), &[]).is_err());
        assert!(read_choice(Some(&json!({"type": "mcp", "server_label": "x"})), &offered).is_err());
        assert_eq!(read_choice(None, &[]).unwrap().0, ToolChoice::Auto);
    }
}
