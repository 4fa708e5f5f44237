//! Authors of the parts of what an agent is told, as they are shown.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::openapi::{
    RefOr, Schema,
    schema::{ObjectBuilder, SchemaType, Type},
};

use crate::{ids::UserId, text_enum::text_enum};

text_enum! {
    /// Part of an agent's profile that has an author of its own.
    pub enum AgentPart {
        /// The instructions, and the display name, which the prompt states before them.
        Instructions = "instructions",
        Identity = "identity",
        Agency = "agency",
        Tools = "tools",
        /// The agent's own AGENTS.md.
        AgentsMd = "agents_md",
        /// The agent's own TOOLS.md.
        ToolsMd = "tools_md",
        /// The description and the capabilities. Other agents are told them, but not the agent itself.
        Summary = "summary",
    }
}

impl AgentPart {
    /// The parts that the agent itself is told.
    pub const TOLD: [Self; 6] = [
        Self::Instructions,
        Self::Identity,
        Self::Agency,
        Self::Tools,
        Self::AgentsMd,
        Self::ToolsMd,
    ];
}

/// Authors of an agent's parts: the people whose writes last changed them. `None` for the server's text, and for a part that the agent
/// does not have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Authors(pub(super) BTreeMap<AgentPart, Option<UserId>>);

impl utoipa::PartialSchema for Authors {
    fn schema() -> RefOr<Schema> {
        let user = ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
            .build();
        let object = AgentPart::TOLD
            .iter()
            .fold(ObjectBuilder::new(), |object, part| {
                object
                    .property(part.as_str(), user.clone())
                    .required(part.as_str())
            });
        object
            .description(Some(
                "IDs of the people whose writes last changed each part; null for the server's text, and for a part that the agent does not have.",
            ))
            .into()
    }
}

impl utoipa::ToSchema for Authors {}
