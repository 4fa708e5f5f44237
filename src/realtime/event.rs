//! Types of events, and the contents of their frames.

use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, Ref, RefOr, Schema, Type},
};

use crate::{
    ids::{ChannelId, ForkId, ThreadId},
    time::Timestamp,
};

crate::text_enum::text_enum! {
    /// Type of an event in the log of a workspace.
    pub enum EventType {
        WorkspaceUpdated = "workspace.updated",
        MemberJoined = "member.joined",
        MemberUpdated = "member.updated",
        MemberRemoved = "member.removed",
        BotUpdated = "bot.updated",
        EmojiUpdated = "emoji.updated",
        ChannelCreated = "channel.created",
        ChannelUpdated = "channel.updated",
        ChannelArchived = "channel.archived",
        ChannelImported = "channel.imported",
        ChannelMemberAdded = "channel.member_added",
        ChannelMemberRemoved = "channel.member_removed",
        ThreadCreated = "thread.created",
        ThreadUpdated = "thread.updated",
        ThreadDeleted = "thread.deleted",
        MessageCreated = "message.created",
        MessageUpdated = "message.updated",
        MessageDeleted = "message.deleted",
        ReactionAdded = "reaction.added",
        ReactionRemoved = "reaction.removed",
        ForkCreated = "fork.created",
        ForkUpdated = "fork.updated",
        ResolutionDrafted = "resolution.drafted",
        ResolutionUpdated = "resolution.updated",
        ResolutionPublished = "resolution.published",
        ActionItemUpdated = "action_item.updated",
        TaskStatusChanged = "task.status_changed",
        AgentCreated = "agent.created",
        AgentUpdated = "agent.updated",
        AgentArchived = "agent.archived",
        SkillUpdated = "skill.updated",
        RepositoryUpdated = "repository.updated",
        CodeSessionUpdated = "code_session.updated",
        MemoryChanged = "memory.changed",
        CompactionCreated = "compaction.created",
        CompactionUpdated = "compaction.updated",
        CompactionDeleted = "compaction.deleted",
        BudgetUpdated = "budget.updated",
        ToolUpdated = "tool.updated",
        ActionRequested = "action.requested",
        ActionUpdated = "action.updated",
        ScheduleCreated = "schedule.created",
        ScheduleUpdated = "schedule.updated",
        ScheduleDeleted = "schedule.deleted",
        WorkflowCreated = "workflow.created",
        WorkflowUpdated = "workflow.updated",
        WorkflowArchived = "workflow.archived",
        RunCreated = "run.created",
        RunUpdated = "run.updated",
        InboxUpdated = "inbox.updated",
        FileUpdated = "file.updated",
        VectorStoreUpdated = "vector_store.updated",
        VectorStoreDeleted = "vector_store.deleted",
        ImportUpdated = "import.updated",
    }
}

impl EventType {
    /// Checks whether the event is about an agent, a skill, or a workflow; API keys without a scope for agents do not receive such events.
    pub fn is_of_agent(self) -> bool {
        is_type_of_agent(self.as_str())
    }
}

/// Like `EventType::is_of_agent`, for a stored type, which a newer version may have written. `visible_after` has the same
/// condition.
pub(super) fn is_type_of_agent(kind: &str) -> bool {
    ["agent.", "skill.", "workflow."]
        .iter()
        .any(|of| kind.starts_with(of))
}

/// SQL list of channel event types that clients with `EventScope::Joined` receive only for channels that they have joined or opened.
/// Other channel events are rare or are shown outside the channel.
macro_rules! traffic_types {
    () => {
        "'thread.created', 'thread.updated', 'message.created', 'message.updated', 'reaction.added', 'reaction.removed', \
         'task.status_changed'"
    };
}
pub(super) use traffic_types;

/// Checks whether events of this type are traffic of their channel, as in `traffic_types!`.
pub(super) fn is_type_of_traffic(kind: &str) -> bool {
    [
        EventType::ThreadCreated,
        EventType::ThreadUpdated,
        EventType::MessageCreated,
        EventType::MessageUpdated,
        EventType::ReactionAdded,
        EventType::ReactionRemoved,
        EventType::TaskStatusChanged,
    ]
    .iter()
    .any(|traffic| traffic.as_str() == kind)
}

/// SQL list of the types of events without a channel that guests receive. All others, such as those about members, would show a guest
/// what is outside of their channels.
macro_rules! guest_types {
    () => {
        "'workspace.updated'"
    };
}
pub(super) use guest_types;

/// Checks whether guests receive events of this type that have no channel, as in `guest_types!`.
pub(super) fn is_type_for_guests(kind: &str) -> bool {
    kind == EventType::WorkspaceUpdated.as_str()
}

/// Checks whether an event of this type ends the stream of its message.
pub(super) fn ends_stream(kind: &str) -> bool {
    kind == EventType::MessageUpdated.as_str() || kind == EventType::MessageDeleted.as_str()
}

/// An event as it is stored and sent.
#[derive(Serialize, ToSchema)]
pub(super) struct Frame<'a> {
    pub r#type: EventType,
    /// Number of the event in its workspace; there are no gaps.
    pub seq: i64,
    #[schema(value_type = Timestamp)]
    pub ts: String,
    pub channel_id: Option<ChannelId>,
    pub thread_id: Option<ThreadId>,
    pub fork_id: Option<ForkId>,
    #[schema(value_type = Object)]
    pub data: &'a RawValue,
}

/// The `data` of an event. `ToSchema` describes only the data; `add_schema` describes the whole frame.
pub trait EventData: Serialize + ToSchema {
    /// Types of events with this data.
    const TYPES: &'static [EventType];
}

/// Adds the schema of frames whose `data` is `D`, and the schemas that it refers to. Returns a reference to the schema.
pub fn add_schema<D: EventData>(schemas: &mut Vec<(String, RefOr<Schema>)>) -> Ref {
    D::schemas(schemas);
    Frame::schemas(schemas);
    let name = D::name();
    let mut schema = Frame::schema();
    if let RefOr::T(Schema::Object(frame)) = &mut schema {
        let types = D::TYPES.iter().map(|known| known.as_str());
        let types = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(types));
        frame.properties.insert("type".to_owned(), types.into());
        frame.properties.insert("data".to_owned(), D::schema());
    }
    schemas.push((name.to_string(), schema));
    Ref::from_schema_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_list_the_types_of_traffic() {
        let traffic = EventType::ALL.iter().map(|kind| kind.as_str());
        let traffic: Vec<String> = traffic
            .filter(|kind| is_type_of_traffic(kind))
            .map(|kind| format!("'{kind}'"))
            .collect();
        assert_eq!(traffic.join(", "), traffic_types!());
    }

    #[test]
    fn statements_list_the_types_for_guests() {
        let types = EventType::ALL.iter().map(|kind| kind.as_str());
        let types: Vec<String> = types
            .filter(|kind| is_type_for_guests(kind))
            .map(|kind| format!("'{kind}'"))
            .collect();
        assert_eq!(types.join(", "), guest_types!());
    }
}
