//! Levels at which a feature can be turned off.

use crate::text_enum::text_enum;

text_enum! {
    /// Level at which a feature is turned off. Each level can only restrict the ones before it.
    pub enum SwitchLevel {
        /// A setting of the operator.
        Server = "server",
        /// The policy of the workspace.
        Workspace = "workspace",
        /// The profile of the agent.
        Agent = "agent",
        /// A setting of the person for whom the agent replies.
        Person = "person",
        /// A setting of the thread.
        Thread = "thread",
    }
}
