//! States and phases of imports.

use crate::text_enum::text_enum;

text_enum! {
    pub enum ImportState {
        /// The archive is being uploaded.
        Receiving = "receiving",
        /// The archive is being read for the preview.
        Reading = "reading",
        Ready = "ready",
        Running = "running",
        Paused = "paused",
        Done = "done",
        Failed = "failed",
        /// The records that the import stored are being removed.
        Undoing = "undoing",
        Undone = "undone",
    }
}

text_enum! {
    pub enum ImportPhase {
        People = "people",
        Channels = "channels",
        Emoji = "emoji",
        Agents = "agents",
        /// Webhooks, workflows, and memories.
        Work = "work",
        /// Messages, and deep dives with their results.
        Messages = "messages",
        Schedules = "schedules",
    }
}
