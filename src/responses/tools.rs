//! Tools of the agent and of the request, and the selection offered to the model.

use serde_json::{Value, json};

use super::{
    ResponseError,
    file_search::FILE_SEARCH,
    ignored::{Fields, Ignored},
    items::qualified_name,
};
use crate::model::{FunctionTool, ToolChoice};

const TOOLS_MAX: usize = 512;
const NAME_BYTES_MAX: usize = 64;
/// Type of a group of functions, whose calls have the `namespace` in a field of its own.
const NAMESPACE: &str = "namespace";

/// A validated tool object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tool {
    kind: String,
    /// Name of a function or namespace.
    name: String,
    value: Value,
}

impl Tool {
    fn is_same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.name == other.name
    }

    /// Number of tools, including those in a namespace.
    fn size(&self) -> usize {
        self.value["tools"].as_array().map_or(1, Vec::len)
    }

    /// Returns the function definitions for the model.
    fn functions(&self) -> Vec<FunctionTool> {
        match self.value["tools"].as_array() {
            Some(tools) => {
                let inside = |tool| function(tool, Some(&self.name));
                tools.iter().map(inside).collect()
            }
            None => vec![function(&self.value, None)],
        }
    }
}

/// Returns the definition of a function for the model.
fn function(value: &Value, namespace: Option<&str>) -> FunctionTool {
    let found = |field: &str| value.get(field).filter(|value| !value.is_null());
    let text = |field: &str| found(field).and_then(Value::as_str).map(str::to_owned);
    FunctionTool {
        name: qualified_name(namespace, &text("name").unwrap_or_default()),
        description: text("description"),
        parameters: found("parameters").cloned(),
        strict: found("strict").and_then(Value::as_bool),
    }
}

/// Parses the functions in the `tools` of a request. Tools other than functions and `file_search` are ignored.
///
/// # Errors
/// `Invalid` with the path, such as `tools[0].name`.
pub(super) fn read_tools(list: &[Value], ignored: &Ignored) -> Result<Vec<Tool>, ResponseError> {
    collect(list, ignored, |fields| {
        let read = match fields.text("type") {
            Some("function") => Some(read_function(fields)?),
            Some(NAMESPACE) => read_namespace(fields)?,
            // See `file_search`.
            Some(FILE_SEARCH) => {
                fields.read_all();
                return Ok(None);
            }
            _ => None,
        };
        if read.is_none() {
            fields.ignore();
        }
        Ok(read)
    })
}

/// Reads a list of tools with `read`, which returns `None` for a tool that is left out.
///
/// # Errors
/// `Invalid` with the path.
pub(super) fn collect(
    list: &[Value],
    ignored: &Ignored,
    read: impl Fn(&Fields<'_>) -> Result<Option<Tool>, ResponseError>,
) -> Result<Vec<Tool>, ResponseError> {
    let check_count = |count: usize| {
        if count <= TOOLS_MAX {
            return Ok(());
        }
        let text = format!("there are {count} tools; the limit is {TOOLS_MAX}");
        Err(ResponseError::invalid("tools", text))
    };
    check_count(list.len())?;
    let mut tools = Vec::<Tool>::with_capacity(list.len());
    for (n, value) in list.iter().enumerate() {
        let param = format!("tools[{n}]");
        let Value::Object(object) = value else {
            return Err(ResponseError::invalid(param, "a tool must be an object"));
        };
        let Some(tool) = read(&ignored.fields(object, &*param))? else {
            continue;
        };
        if tools.iter().any(|known| known.is_same(&tool)) {
            let text = format!("two tools are named `{}`", tool.name);
            return Err(ResponseError::invalid(format!("{param}.name"), text));
        }
        tools.push(tool);
    }
    check_count(tools.iter().map(Tool::size).sum())?;
    Ok(tools)
}

/// Parses a function of an agent's profile.
pub(super) fn read_profile_function(value: &Value) -> Option<Tool> {
    read_function(&Ignored::default().fields(value.as_object()?, "")).ok()
}

fn name(fields: &Fields<'_>) -> Result<String, ResponseError> {
    let name = fields.text("name").unwrap_or_default();
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
    if fits {
        return Ok(name.to_owned());
    }
    let text = format!("`name` must have 1 to {NAME_BYTES_MAX} letters, digits, `_`, `-`, or `.`");
    Err(ResponseError::invalid(fields.path_of("name"), text))
}

/// Parses a namespace of functions. Its other tools are ignored. Returns `None` if it has no functions.
fn read_namespace(fields: &Fields<'_>) -> Result<Option<Tool>, ResponseError> {
    let Some(Value::Array(list)) = fields.get("tools") else {
        return Ok(None);
    };
    let path = fields.path_of("tools");
    let mut functions = Vec::<Tool>::new();
    for (n, value) in list.iter().enumerate() {
        let path = format!("{path}[{n}]");
        match value.as_object() {
            Some(object) if value["type"] == "function" => {
                let inside = fields.ignored.fields(object, path);
                inside.get("type");
                let tool = read_function(&inside)?;
                if functions.iter().any(|known| known.is_same(&tool)) {
                    let text = format!("two functions are named `{}`", name(&inside)?);
                    return Err(ResponseError::invalid(inside.path_of("name"), text));
                }
                functions.push(tool);
            }
            _ => fields.ignored.add(path),
        }
    }
    if functions.is_empty() {
        return Ok(None);
    }
    let name = name(fields)?;
    let value = json!({
        "type": NAMESPACE,
        "name": name,
        "description": fields.text("description").unwrap_or_default(),
        "tools": functions.into_iter().map(|tool| tool.value).collect::<Vec<_>>(),
    });
    Ok(Some(Tool {
        kind: NAMESPACE.to_owned(),
        name,
        value,
    }))
}

/// Builds the function with every field that clients expect. Unset fields are null.
pub(super) fn read_function(fields: &Fields<'_>) -> Result<Tool, ResponseError> {
    let name = name(fields)?;
    // The server itself adds these fields to an agent's tools.
    fields.get("available");
    fields.get("unavailable_because");
    let given = |field: &str, fits: fn(&Value) -> bool, what: &str| match fields.get(field) {
        Some(value) if !fits(value) => {
            let text = format!("`{field}` of a function must be {what}");
            Err(ResponseError::invalid(fields.path_of(field), text))
        }
        value => Ok(value),
    };
    let value = json!({
        "type": "function",
        "name": name,
        "description": given("description", Value::is_string, "a string")?,
        "parameters": given("parameters", Value::is_object, "a JSON schema")?,
        "strict": given("strict", Value::is_boolean, "true or false")?,
    });
    Ok(Tool {
        kind: "function".to_owned(),
        name,
        value,
    })
}

/// Tools of a call.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Offer {
    /// Functions offered to the model.
    pub functions: Vec<FunctionTool>,
    /// Tools listed in the response.
    pub shown: Vec<Value>,
}

/// Combines the agent's functions with the request's tools. A tool in the request overrides the agent's tool of the same name. Tools
/// that cannot be called are not offered, and neither are functions if the workspace forbids them.
pub(super) fn offer(agent: &[Tool], request: &[Tool], may_call_functions: bool) -> Offer {
    let own = agent
        .iter()
        .filter(|tool| !request.iter().any(|other| other.is_same(tool)));
    let all: Vec<&Tool> = own.chain(request).filter(|_| may_call_functions).collect();
    Offer {
        functions: all.iter().flat_map(|tool| tool.functions()).collect(),
        shown: all.iter().map(|tool| tool.value.clone()).collect(),
    }
}

/// Parses the `tool_choice` of a request. Also returns the value that the response shows.
///
/// # Errors
/// `Invalid` for an unknown value, a function that is not offered, or `required` without functions; `Unsupported` for tools other
/// than functions.
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
            _ => {
                return Err(wrong(
                    "tool_choice must be none, auto, required, or a function",
                ));
            }
        },
        Value::Object(object) if object.get("type").is_some_and(|kind| kind == "function") => {
            let name = object
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if !offered.iter().any(|tool| tool.name == name) {
                return Err(wrong(
                    "tool_choice refers to a function that is not in tools",
                ));
            }
            ToolChoice::Function(name.to_owned())
        }
        Value::Object(object)
            if object.get("type").is_some_and(|kind| kind == FILE_SEARCH)
                && offered.iter().any(|tool| tool.name == FILE_SEARCH) =>
        {
            ToolChoice::Function(FILE_SEARCH.to_owned())
        }
        _ => {
            let text = "this tool_choice is not supported: use none, auto, required, or {\"type\":\"function\",\"name\":…}";
            return Err(ResponseError::unsupported("tool_choice", text));
        }
    };
    if choice == ToolChoice::Required && offered.is_empty() {
        return Err(wrong(
            "tool_choice is required, but no function is available",
        ));
    }
    Ok((choice, value.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(list: &Value) -> Vec<Tool> {
        read_tools(list.as_array().unwrap(), &Ignored::default()).unwrap()
    }

    fn names(offer: &Offer) -> Vec<&str> {
        offer
            .functions
            .iter()
            .map(|tool| tool.name.as_str())
            .collect()
    }

    #[test]
    fn the_requests_function_overrides_the_agents_function_of_the_same_name() {
        let agent = tools(&json!([
            {"type": "function", "name": "a", "description": "agent's"},
            {"type": "function", "name": "b"},
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
            .filter_map(|tool| tool["name"].as_str())
            .collect();
        assert_eq!(shown, ["b", "a"]);
        assert_eq!(offer(&agent, &request, false), Offer::default());
    }

    #[test]
    fn invalid_functions_are_rejected_with_their_path() {
        for (tool, wanted) in [
            (json!(1), "tools[0]"),
            (json!({"type": "function"}), "tools[0].name"),
            (json!({"type": "function", "name": "a b"}), "tools[0].name"),
            (
                json!({"type": "function", "name": "a", "parameters": []}),
                "tools[0].parameters",
            ),
            (
                json!({"type": "function", "name": "a", "strict": "yes"}),
                "tools[0].strict",
            ),
        ] {
            let error = read_tools(std::slice::from_ref(&tool), &Ignored::default()).unwrap_err();
            let ResponseError::Invalid(_, param) = error else {
                panic!("{tool}")
            };
            assert_eq!(param, wanted, "{tool}");
        }
        let twice = json!([{"type": "function", "name": "a"}, {"type": "function", "name": "a"}]);
        assert!(read_tools(twice.as_array().unwrap(), &Ignored::default()).is_err());
    }

    #[test]
    fn functions_of_namespaces_are_offered() {
        let list = json!([
            {"type": "namespace", "name": "mcp__weather", "description": "Weather", "tools": [
                {"type": "function", "name": "now", "description": "d", "parameters": {"type": "object"}, "defer_loading": true},
                {"type": "custom", "name": "patch"},
            ]},
            {"type": "function", "name": "now"},
        ]);
        let ignored = Ignored::default();
        let request = read_tools(list.as_array().unwrap(), &ignored).unwrap();
        let offered = offer(&[], &request, true);
        assert_eq!(names(&offered), ["mcp__weather/now", "now"]);
        assert_eq!(offered.functions[0].description.as_deref(), Some("d"));
        assert_eq!(offered.shown[0]["tools"][0]["name"], "now");
        assert_eq!(
            ignored.into_paths(),
            ["tools[0].tools[0].defer_loading", "tools[0].tools[1]"]
        );
        let wrong = json!([{"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "a b"}]}]);
        let error = read_tools(wrong.as_array().unwrap(), &Ignored::default()).unwrap_err();
        assert!(
            matches!(error, ResponseError::Invalid(_, param) if param == "tools[0].tools[0].name")
        );
        let functions = |count: usize| -> Vec<Value> {
            let function = |n| json!({"type": "function", "name": format!("f{n}")});
            (0..count).map(function).collect()
        };
        for (count, fits) in [(TOOLS_MAX, true), (TOOLS_MAX + 1, false)] {
            let list = [json!({"type": "namespace", "name": "n", "tools": functions(count)})];
            assert_eq!(read_tools(&list, &Ignored::default()).is_ok(), fits);
        }
    }

    #[test]
    fn tools_that_cannot_be_called_are_ignored() {
        let list = json!([
            {"type": "function", "name": "a", "async": true, "defer_loading": false},
            {"type": "namespace", "name": "n", "tools": []},
            {"type": "web_search"},
            {"type": "mcp", "server_label": "wiki", "server_url": "https://wiki.example"},
            {"type": "mcp", "server_label": "wiki", "headers": {"x": "y"}},
            {"type": "file_search", "vector_store_ids": ["vs_1"]},
            {"type": "function", "name": "files.read"},
        ]);
        let ignored = Ignored::default();
        let tools = read_tools(list.as_array().unwrap(), &ignored).unwrap();
        let kinds: Vec<&str> = tools.iter().map(|tool| tool.kind.as_str()).collect();
        assert_eq!(kinds, ["function", "function"]);
        let paths = [
            "tools[0].async",
            "tools[1]",
            "tools[2]",
            "tools[3]",
            "tools[4]",
        ];
        assert_eq!(ignored.into_paths(), paths);
    }

    #[test]
    fn a_tool_choice_requires_tools() {
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
