//! Names of everything that a prompt can contain, and reasons why some of it is missing.

use std::collections::BTreeMap;

use crate::{
    agents::{switch::SwitchLevel, system::SystemPartName},
    text_enum::text_enum,
    tools::runner::NotOffered,
};

text_enum! {
    /// Part of a prompt, in the prompt's order.
    pub enum SourceName {
        Preamble = "preamble",
        Required = "required",
        Base = "base",
        Instructions = "instructions",
        Identity = "identity",
        Persona = "persona",
        Agency = "agency",
        AgentsMd = "agents_md",
        ToolsMd = "tools_md",
        /// Names and descriptions of the agent's skills.
        Skills = "skills",
        Addons = "addons",
        Adaptation = "adaptation",
        Conversation = "conversation",
        Workspace = "workspace",
        Notes = "notes",
        ForkHeader = "fork_header",
        /// Summaries of older messages, the line that replaces them, and the thread before a fork.
        Summary = "summary",
        /// Messages of the conversation; the thread's first message comes before the workspace context.
        Messages = "messages",
        About = "about",
        Memories = "memories",
        /// Passages from attached vector stores.
        Knowledge = "knowledge",
        Files = "files",
        Requester = "requester",
        /// The message that the agent replies to, or the brief of a task.
        Trigger = "trigger",
        /// Definitions of functions, and the calls so far.
        Tools = "tools",
    }
}

impl SourceName {
    pub const fn of_system(part: SystemPartName) -> Self {
        match part {
            SystemPartName::Preamble => Self::Preamble,
            SystemPartName::Required => Self::Required,
            SystemPartName::Base => Self::Base,
            SystemPartName::Instructions => Self::Instructions,
            SystemPartName::Identity => Self::Identity,
            SystemPartName::Persona => Self::Persona,
            SystemPartName::Agency => Self::Agency,
            SystemPartName::AgentsMd => Self::AgentsMd,
            SystemPartName::ToolsMd => Self::ToolsMd,
            SystemPartName::Skills => Self::Skills,
            SystemPartName::Addons => Self::Addons,
            SystemPartName::Adaptation => Self::Adaptation,
        }
    }

    /// The part of the system text with this name.
    pub fn system_part(self) -> Option<SystemPartName> {
        let mut parts = SystemPartName::ALL.iter().copied();
        parts.find(|part| Self::of_system(*part) == self)
    }

    /// True if calls of `/v1/responses` contain the source, too.
    pub const fn is_sent_by_api(self) -> bool {
        !matches!(
            self,
            Self::Skills
                | Self::Adaptation
                | Self::Conversation
                | Self::ForkHeader
                | Self::Summary
                | Self::Messages
                | Self::Files
                | Self::Requester
                | Self::Trigger
        )
    }
}

text_enum! {
    /// Reason why a source is cut, empty, off, or hidden.
    pub enum Because {
        /// The source has no text.
        NoText = "no_text",
        /// Nobody has approved the text, or accepted the function, yet.
        NotApproved = "not_approved",
        /// The model's context window has no room for all of it.
        NoRoom = "no_room",
        /// The text is shown only to the person whom it is about.
        Personal = "personal",
        /// The model does not take functions.
        ModelWithoutTools = "model_without_tools",
        /// A guest reads the conversation.
        Guests = "guests",
        OffServer = "off_server",
        OffWorkspace = "off_workspace",
        OffAgent = "off_agent",
        OffPerson = "off_person",
        OffThread = "off_thread",
    }
}

impl From<SwitchLevel> for Because {
    fn from(level: SwitchLevel) -> Self {
        match level {
            SwitchLevel::Server => Self::OffServer,
            SwitchLevel::Workspace => Self::OffWorkspace,
            SwitchLevel::Agent => Self::OffAgent,
            SwitchLevel::Person => Self::OffPerson,
            SwitchLevel::Thread => Self::OffThread,
        }
    }
}

impl From<NotOffered> for Because {
    fn from(reason: NotOffered) -> Self {
        match reason {
            NotOffered::ByModel => Self::ModelWithoutTools,
            NotOffered::ByServer => Self::OffServer,
            NotOffered::ByPolicy => Self::OffWorkspace,
            NotOffered::NotAccepted => Self::NotApproved,
            NotOffered::NoRoom => Self::NoRoom,
        }
    }
}

/// Reasons why sources are missing from a prompt, or shortened. A missing source without a reason has no text.
pub type Reasons = BTreeMap<SourceName, Because>;
