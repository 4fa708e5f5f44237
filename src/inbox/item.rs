//! Reasons, subjects, and states of items.

use uuid::Uuid;

use crate::{
    ids::{ChannelId, ForkId, MessageId, ThreadId},
    text_enum::text_enum,
};

text_enum! {
    /// Why an item wants a person's attention.
    pub enum InboxReason {
        /// A message mentions the person by handle.
        Mention = "mention",
        /// A message of another person in a direct channel.
        Direct = "direct",
        /// A message mentions all members of a channel.
        Group = "group",
        /// A new thread in a channel with the level `all`.
        Thread = "thread",
        /// A fork that the person follows has a result.
        Result = "result",
        /// An agent completed a reply that the person requested.
        Answer = "answer",
        /// A reply, a run, or a schedule of the person failed.
        Failed = "failed",
        /// Messages of other people in a conversation that the person follows.
        Reply = "reply",
        /// A fork waits for the person to resolve it.
        Resolve = "resolve",
        /// A draft that the person requested is ready.
        Draft = "draft",
        /// The person owns an action item.
        Assigned = "assigned",
        /// An action of an agent waits for the person's decision.
        Approval = "approval",
        /// Something in the workspace needs attention.
        Notice = "notice",
        /// The person saved a message.
        Saved = "saved",
    }
}

text_enum! {
    /// State of an inbox item.
    pub enum InboxState {
        Open = "open",
        /// Opens again at `until`. A saved message without a reminder has no such time.
        Later = "later",
        Done = "done",
    }
}

text_enum! {
    /// Kind of the object that an item is about.
    pub enum InboxSubjectKind {
        Message = "message",
        Thread = "thread",
        Fork = "fork",
        ActionItem = "action_item",
        Action = "action",
        Run = "run",
        Schedule = "schedule",
        Workflow = "workflow",
        Tool = "tool",
        Budget = "budget",
        /// The bot's subscription is paused.
        Bot = "bot",
        /// The guest leaves soon.
        Member = "member",
        /// The person got the messages and channels of a person of an import.
        Merge = "merge",
        /// A part of the server has a problem.
        Server = "server",
        /// The person whose role a provider could not change.
        Role = "role",
        /// The person's connection with a provider, whose address another account has.
        Identity = "identity",
        IdentityProvider = "identity_provider",
    }
}

/// Object that an item is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InboxSubject {
    pub kind: InboxSubjectKind,
    pub id: Uuid,
}

impl InboxSubject {
    pub fn new(kind: InboxSubjectKind, id: Uuid) -> Self {
        Self { kind, id }
    }
}

impl From<MessageId> for InboxSubject {
    fn from(id: MessageId) -> Self {
        Self {
            kind: InboxSubjectKind::Message,
            id: id.0,
        }
    }
}

impl From<ThreadId> for InboxSubject {
    fn from(id: ThreadId) -> Self {
        Self {
            kind: InboxSubjectKind::Thread,
            id: id.0,
        }
    }
}

impl From<ForkId> for InboxSubject {
    fn from(id: ForkId) -> Self {
        Self {
            kind: InboxSubjectKind::Fork,
            id: id.0,
        }
    }
}

/// Conversation of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub channel: ChannelId,
    pub thread: ThreadId,
    /// `None` for the main line of the thread.
    pub fork: Option<ForkId>,
}

impl Place {
    pub fn conversation(self) -> Uuid {
        self.fork.map_or(self.thread.0, |fork| fork.0)
    }
}
