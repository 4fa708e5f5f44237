//! Agent templates: `seeds/agent-templates.yaml`. A template is not an agent; its fields can be posted to create one.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::profiles::NewAgent;
use crate::text_enum::constant;

#[derive(Deserialize)]
struct File {
    templates: Vec<serde_json::Value>,
}

constant! { pub TemplateObject = "agent_template" }

/// Fields of `POST /v1/agents`, ready to be posted.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Template {
    #[schema(inline)]
    pub object: TemplateObject,
    #[serde(flatten)]
    pub agent: NewAgent,
}

static TEMPLATES: LazyLock<Vec<Template>> = LazyLock::new(|| {
    parse(include_str!("../../seeds/agent-templates.yaml")).unwrap_or_else(|e| {
        tracing::error!(
            error = e,
            "seeds/agent-templates.yaml is invalid; no templates are available"
        );
        Vec::new()
    })
});

fn parse(text: &str) -> Result<Vec<Template>, String> {
    let file: File = serde_yaml_ng::from_str(text).map_err(|e| e.to_string())?;
    file.templates
        .into_iter()
        .map(|fields| {
            let agent: NewAgent = serde_json::from_value(fields).map_err(|e| e.to_string())?;
            agent.clone().into_parts().map_err(|e| e.to_string())?;
            Ok(Template {
                object: TemplateObject,
                agent,
            })
        })
        .collect()
}

/// All templates in file order.
pub fn all() -> &'static [Template] {
    &TEMPLATES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::profiles::ToolKind;

    #[test]
    fn each_of_the_four_templates_creates_an_agent() {
        let templates = parse(include_str!("../../seeds/agent-templates.yaml")).unwrap();
        let names: Vec<&str> = templates.iter().map(|t| t.agent.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "security-analyst",
                "data-engineer",
                "docs-writer",
                "devops-assistant"
            ]
        );
        let of = |n: usize| templates[n].agent.clone().into_parts().unwrap().profile;
        assert_eq!(
            (of(0).temperature, of(0).output_tokens_max()),
            (Some(0.2), 4096)
        );
        for template in &templates {
            let profile = template.agent.clone().into_parts().unwrap().profile;
            assert_eq!(profile.tools.len(), 1, "{}", template.agent.name);
            assert_eq!(profile.tools[0].kind(), ToolKind::FileSearch);
            assert!(
                profile.not_in_force(None).is_empty(),
                "{}",
                template.agent.name
            );
        }
        assert_eq!(
            (of(3).temperature, of(3).output_tokens_max()),
            (Some(0.1), 8192)
        );
    }
}
