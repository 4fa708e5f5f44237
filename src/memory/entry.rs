//! Memory entries as the API returns them.

use serde::Serialize;

pub use crate::agents::entries::MemoryScope;
use crate::{
    ids::{AgentId, ChannelId, CompactionId, ForkId, MemoryId, MessageId, ThreadId, UserId},
    text_enum::{constant, text_enum},
    time::Timestamp,
};

text_enum! {
    /// Kind of a memory entry.
    pub enum MemoryKind {
        Fact = "fact",
        Person = "person",
        Project = "project",
        Decision = "decision",
        Preference = "preference",
        OpenLoop = "open_loop",
        Todo = "todo",
        Reference = "reference",
        Note = "note",
    }
}

text_enum! {
    /// Conversations in which agents can use a memory entry, provided that everyone there can read
    /// its sources.
    pub enum Visibility {
        /// All conversations of the workspace.
        Workspace = "workspace",
        /// Conversations in the channel `channel_id`.
        Channel = "channel",
        /// Direct messages between the person and agents, without other people.
        Direct = "direct",
    }
}

text_enum! {
    /// Trust in a memory entry, which is that of its least trusted source.
    pub enum MemoryTrust {
        Person = "person",
        Agent = "agent",
    }
}

text_enum! {
    /// Origin of a memory entry.
    pub enum MemoryOrigin {
        /// Written or changed by a person.
        Hand = "hand",
        /// Taken from messages by a model or the extractor.
        Auto = "auto",
        /// A paragraph of an agent's file.
        File = "file",
        /// Copied for the whole workspace.
        Published = "published",
    }
}

text_enum! {
    /// Status of a memory entry. Agents use active entries only.
    pub enum MemoryStatus {
        Active = "active",
        /// A source was edited after the entry was made. The entry is not used until someone confirms it by setting `active`.
        Stale = "stale",
        /// A newer entry replaces this one.
        Superseded = "superseded",
        /// The entry is not used.
        Archived = "archived",
    }
}

constant! { pub MemoryObject = "memory" }

/// A sentence that agents remember.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Entry {
    pub id: MemoryId,
    #[schema(inline)]
    pub object: MemoryObject,
    pub scope: MemoryScope,
    pub kind: MemoryKind,
    pub text: String,
    pub agent_id: Option<AgentId>,
    pub user_id: Option<UserId>,
    /// Person whom the entry is about; they can see and delete it.
    pub about_user_id: Option<UserId>,
    pub thread_id: Option<ThreadId>,
    pub fork_id: Option<ForkId>,
    /// Record of the compacted messages from which the entry was made.
    pub compaction_id: Option<CompactionId>,
    /// Messages from which the entry was made. The entry is forgotten when the last of them is deleted.
    pub source_message_ids: Vec<MessageId>,
    pub visibility: Visibility,
    pub channel_id: Option<ChannelId>,
    pub trust: MemoryTrust,
    pub origin: MemoryOrigin,
    pub status: MemoryStatus,
    pub superseded_by: Option<MemoryId>,
    /// True if admins who can read the entry can publish it.
    pub share_with_organization: bool,
    /// True if someone has flagged the entry as wrong. Agents then use it less often.
    pub flagged: bool,
    /// Number of completed replies that used the entry.
    pub uses: i64,
    pub last_used_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    pub version: i64,
    pub created_by: Option<UserId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}
