//! States of a node.

use crate::text_enum::text_enum;

text_enum! {
    /// State of a node.
    pub enum NodeState {
        Starting = "starting",
        Ready = "ready",
        /// It is stopping, and serves what is open.
        Draining = "draining",
        /// Its lease has expired.
        Lost = "lost",
    }
}
