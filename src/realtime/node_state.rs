//! States of a node.

use crate::text_enum::text_enum;

text_enum! {
    /// State of a node.
    pub enum NodeState {
        Starting = "starting",
        Ready = "ready",
        /// The node is stopping, but still serves open connections.
        Draining = "draining",
        /// The lease of the node has expired.
        Lost = "lost",
    }
}
