//! `web_fetch`.

use std::{sync::Arc, time::Instant};

use futures::{FutureExt, future::BoxFuture};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::{
    agents::profiles::{ActionName, Tool, ToolKind, tools::WebFetchTool},
    db::{Db, DbError},
    ids::ActionId,
    model::FunctionTool,
    outbound::{Url, is_in_domain},
    registry::Registry,
    tasks::actions::{self, ActionSource, TaintKind},
    tool_fault::{ToolErrorCode, ToolFault},
    tools::{
        arguments::Arguments,
        function::{Reach, ToolFunction},
        output::{ToolOutput, one_line},
        runner::{Call, CallError, Target, ToolRunner, ToolTask},
        taint,
    },
    web::{Page, URL_UNITS_MAX},
};

const NAME: &str = "web_fetch";
const TITLE: &str = "Read a web page";

/// Reads web pages.
#[derive(Clone)]
pub struct PageTool {
    pub db: Db,
    pub registry: Arc<Registry>,
}

fn function() -> ToolFunction {
    let definition = FunctionTool {
        name: NAME.to_owned(),
        description: Some(
            "Read a web page or a text file of the web as text, 31 KiB at a time.".to_owned(),
        ),
        parameters: Some(json!({
            "type": "object",
            "properties": {
                "url": {"type": "string", "maxLength": URL_UNITS_MAX},
                "offset": {"type": "integer", "minimum": 0, "description": "Position in bytes."},
            },
            "required": ["url"],
            "additionalProperties": false,
        })),
        strict: None,
    };
    ToolFunction {
        kind: Some(ToolKind::WebFetch),
        reach: Reach::Outward,
        source: "the web".to_owned(),
        ..ToolFunction::built_in(ActionName::WebFetch.as_str(), TITLE, definition)
    }
}

/// Checks a host against the domain lists of an agent's tool.
fn is_permitted(tool: &WebFetchTool, host: &str) -> bool {
    let covers = |domain: &String| is_in_domain(host, &domain.trim().to_ascii_lowercase());
    let is_blocked = tool.blocked_domains.iter().flatten().any(covers);
    let allowed = tool.allowed_domains.as_ref();
    !is_blocked && allowed.is_none_or(|allowed| allowed.iter().any(covers))
}

fn host_of(url: &str) -> Option<String> {
    let url = Url::parse(url.trim()).ok()?;
    url.host_str().map(str::to_owned)
}

fn taint_of(host: String) -> ActionSource {
    let id = taint::hashed_id(Sha256::new().chain_update(&host));
    ActionSource::new(TaintKind::Page, id, host)
}

fn output_of(page: &Page) -> ToolOutput {
    let mut output = ToolOutput::default();
    output.own("Page ");
    output.data(one_line(&page.url));
    let end = page.offset + page.text.len();
    output.own(format!(", bytes {} to {end}:\n", page.offset));
    output.data(page.text.as_str());
    if let Some(next) = page.next_offset {
        output.own(format!("\n[Read on with offset {next}.]"));
    }
    output
}

impl PageTool {
    /// # Errors
    /// `TooManyCalls` if earlier calls of the task have reached the agent's page limit.
    async fn check_uses(&self, action: ActionId, tool: &WebFetchTool) -> Result<(), CallError> {
        let Some(max) = tool.max_uses else {
            return Ok(());
        };
        let before = actions::count_before(&mut self.db.read().await?, action).await?;
        if before < i64::from(max) {
            return Ok(());
        }
        let text = format!("this agent can read at most {max} pages for a reply");
        Err(ToolFault::new(ToolErrorCode::TooManyCalls, text).into())
    }

    async fn call(&self, call: Call<'_>) -> Result<ToolOutput, CallError> {
        let tool = call.tools.iter().find_map(|tool| match tool {
            Tool::WebFetch(tool) => Some(tool),
            _ => None,
        });
        let tool = tool.ok_or_else(|| ToolFault::of(ToolErrorCode::NotAllowed))?;
        let arguments = Arguments::of(&call.arguments, &["url", "offset"])?;
        let url = arguments.required("url")?;
        let offset = arguments.number("offset", 0..=i64::MAX)?.unwrap_or(0);
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        self.check_uses(call.action, tool).await?;
        let registry = &self.registry;
        registry
            .outward
            .count(call.task.workspace, Instant::now())?;
        let first = host_of(url).unwrap_or_default();
        let is_reachable = |host: &str| match call.redirects {
            Some(domains) if host != first.trim_end_matches('.') => {
                domains.iter().any(|domain| is_in_domain(host, domain))
            }
            _ => true,
        };
        let permits = |host: &str| is_permitted(tool, host) && is_reachable(host);
        match registry.pages.fetch_from(url, offset, permits).await {
            Ok(page) => {
                let mut output = output_of(&page);
                output.taints.extend(host_of(&page.url).map(taint_of));
                Ok(output)
            }
            // The message can contain text that the page's server sent.
            Err(fault) => Err(CallError::Fault {
                fault,
                taints: host_of(url).map(taint_of).into_iter().collect(),
            }),
        }
    }
}

impl ToolRunner for PageTool {
    fn functions<'a>(
        &'a self,
        _task: &'a ToolTask,
        tools: &'a [Tool],
    ) -> BoxFuture<'a, Result<Vec<ToolFunction>, DbError>> {
        let reads_pages = tools.iter().any(|tool| tool.kind() == ToolKind::WebFetch);
        let functions: Vec<ToolFunction> = reads_pages.then(function).into_iter().collect();
        std::future::ready(Ok(functions)).boxed()
    }

    fn target(&self, _function: &ToolFunction, arguments: &Map<String, Value>) -> Option<Target> {
        let url = arguments.get("url")?.as_str()?.trim();
        Some(Target {
            url: url.to_owned(),
            host: host_of(url)?,
        })
    }

    fn run<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<ToolOutput, CallError>> {
        self.call(call).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_an_agent_cover_subdomains() {
        let tool = |fields: Value| -> WebFetchTool { serde_json::from_value(fields).unwrap() };
        let any = tool(json!({}));
        let some = tool(
            json!({"allowed_domains": ["Example.com"], "blocked_domains": ["ads.example.com"]}),
        );
        for (host, expected) in [
            ("example.com", true),
            ("docs.example.com", true),
            ("ads.example.com", false),
            ("a.ads.example.com", false),
            ("badexample.com", false),
        ] {
            assert!(is_permitted(&any, host), "{host}");
            assert_eq!(is_permitted(&some, host), expected, "{host}");
        }
    }

    #[test]
    fn the_host_of_an_address_is_the_one_that_is_called() {
        for (url, host) in [
            ("https://Example.COM/x", Some("example.com")),
            (
                " https://trusted.example@evil.example/x",
                Some("evil.example"),
            ),
            (
                "https://evil.example\\@trusted.example/",
                Some("evil.example"),
            ),
            ("example.com", None),
        ] {
            assert_eq!(host_of(url).as_deref(), host, "{url}");
        }
        assert_eq!(taint_of("a".to_owned()), taint_of("a".to_owned()));
        assert_ne!(taint_of("a".to_owned()), taint_of("b".to_owned()));
    }
}
