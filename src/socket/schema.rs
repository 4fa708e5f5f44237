//! Schemas of the frames, for the API document. Not used by sockets at run time.

use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ObjectBuilder, Ref, RefOr, Schema,
        schema::{OneOfBuilder, Type},
    },
};

use super::{control::ControlFrame, frame::Request, hello::Hello};
use crate::{
    agents::{
        entries::MemoryEvent, profiles::AgentEvent, segments::CompactionEvent, skills::SkillEvent,
    },
    auth::{MemberEvent, WorkspaceEvent},
    chat::{
        bots::BotEvent,
        custom_emoji::EmojiEvent,
        event::{
            ChannelEvent, ChannelImportedEvent, ChannelMemberEvent, MessageEvent, ReactionEvent,
            ThreadDeletedEvent, ThreadEvent,
        },
        forks::ForkEvent,
    },
    code::{CodeSessionEvent, RepositoryEvent},
    collections::StoreEvent,
    files::documents::FileEvent,
    forks::{event::ResolutionEvent, items::ActionItemEvent},
    imports::ImportEvent,
    inbox::InboxEvent,
    realtime::{CompactDelta, LiveFrame, StreamStart, add_schema},
    registry::ToolEvent,
    routes::chat::OwnFrame,
    schedules::ScheduleEvent,
    tasks::{TaskEvent, actions::ActionEvent, budgets::BudgetEvent},
    workflows::{WorkflowEvent, run::RunEvent},
};

type Schemas = Vec<(String, RefOr<Schema>)>;

/// An event of the log.
pub(super) struct ServerEvent;

/// A frame from the server: an event, or a frame that is not in the log.
pub(super) struct ServerFrame;

/// A frame from a client. The first one must be `hello`.
pub(super) struct ClientFrame;

/// Schemas of all kinds of events.
fn events(schemas: &mut Schemas) -> Vec<Ref> {
    vec![
        add_schema::<WorkspaceEvent<'_>>(schemas),
        add_schema::<MemberEvent<'_>>(schemas),
        add_schema::<BotEvent<'_>>(schemas),
        add_schema::<EmojiEvent<'_>>(schemas),
        add_schema::<ChannelEvent<'_>>(schemas),
        add_schema::<ChannelMemberEvent<'_>>(schemas),
        add_schema::<ChannelImportedEvent>(schemas),
        add_schema::<ThreadEvent<'_>>(schemas),
        add_schema::<ThreadDeletedEvent>(schemas),
        add_schema::<MessageEvent<'_>>(schemas),
        add_schema::<ReactionEvent<'_>>(schemas),
        add_schema::<ForkEvent<'_>>(schemas),
        add_schema::<ResolutionEvent<'_>>(schemas),
        add_schema::<ActionItemEvent<'_>>(schemas),
        add_schema::<TaskEvent<'_>>(schemas),
        add_schema::<AgentEvent<'_>>(schemas),
        add_schema::<SkillEvent>(schemas),
        add_schema::<RepositoryEvent>(schemas),
        add_schema::<CodeSessionEvent>(schemas),
        add_schema::<MemoryEvent>(schemas),
        add_schema::<CompactionEvent>(schemas),
        add_schema::<BudgetEvent>(schemas),
        add_schema::<ToolEvent<'_>>(schemas),
        add_schema::<ActionEvent<'_>>(schemas),
        add_schema::<ScheduleEvent<'_>>(schemas),
        add_schema::<WorkflowEvent<'_>>(schemas),
        add_schema::<RunEvent>(schemas),
        add_schema::<InboxEvent<'_>>(schemas),
        add_schema::<FileEvent<'_>>(schemas),
        add_schema::<StoreEvent>(schemas),
        add_schema::<ImportEvent>(schemas),
    ]
}

fn add<T: ToSchema>(schemas: &mut Schemas) -> Ref {
    T::schemas(schemas);
    schemas.push((T::name().to_string(), T::schema()));
    Ref::from_schema_name(T::name())
}

fn one_of(description: &str, items: impl IntoIterator<Item = Ref>) -> RefOr<Schema> {
    let all = items
        .into_iter()
        .fold(OneOfBuilder::new(), OneOfBuilder::item);
    Schema::OneOf(all.description(Some(description)).build()).into()
}

impl PartialSchema for ServerEvent {
    fn schema() -> RefOr<Schema> {
        one_of("An event of the log.", events(&mut Vec::new()))
    }
}

impl ToSchema for ServerEvent {
    fn schemas(schemas: &mut Schemas) {
        events(schemas);
    }
}

impl PartialSchema for ServerFrame {
    fn schema() -> RefOr<Schema> {
        let parts = [
            Ref::from_schema_name(ServerEvent::name()),
            Ref::from_schema_name(LiveFrame::name()),
            Ref::from_schema_name(OwnFrame::name()),
            Ref::from_schema_name(ControlFrame::name()),
            Ref::from_schema_name(CompactDelta::name()),
        ];
        one_of("A frame from the server.", parts)
    }
}

impl ToSchema for ServerFrame {
    fn schemas(schemas: &mut Schemas) {
        add::<ServerEvent>(schemas);
        add::<LiveFrame<'_>>(schemas);
        add::<OwnFrame>(schemas);
        add::<ControlFrame>(schemas);
        add::<CompactDelta<'_>>(schemas);
        add::<StreamStart>(schemas);
    }
}

impl PartialSchema for ClientFrame {
    fn schema() -> RefOr<Schema> {
        let parts = [Hello::name(), Request::name()].map(Ref::from_schema_name);
        one_of("A frame from a client; `hello` is the first one.", parts)
    }
}

impl ToSchema for ClientFrame {
    fn schemas(schemas: &mut Schemas) {
        add::<Hello>(schemas);
        Request::schemas(schemas);
        schemas.push((Request::name().to_string(), with_ids(Request::schema())));
    }
}

/// Adds `id` to the schemas of requests, because it is parsed separately from the other fields. `typing` and `active` have no `id`.
fn with_ids(mut schema: RefOr<Schema>) -> RefOr<Schema> {
    let id = || {
        OneOfBuilder::new()
            .item(ObjectBuilder::new().schema_type(Type::String))
            .item(ObjectBuilder::new().schema_type(Type::Number))
    };
    if let RefOr::T(Schema::OneOf(requests)) = &mut schema {
        for request in &mut requests.items {
            if let RefOr::T(Schema::Object(object)) = request
                && !matches!(
                    object.title.as_deref(),
                    Some("TypingRequest" | "ActiveRequest")
                )
            {
                object.properties.insert("id".to_owned(), id().into());
                object.required.push("id".to_owned());
            }
        }
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::realtime::EventType;

    #[test]
    fn every_type_of_event_has_one_schema() {
        let mut schemas = Vec::new();
        let names = events(&mut schemas).len();
        let text = serde_json::to_value(&schemas).unwrap();
        let types = text
            .as_array()
            .unwrap()
            .iter()
            .filter(|named| named[0].as_str().unwrap().ends_with("Event"));
        let types: Vec<_> = types
            .flat_map(|named| {
                named[1]["properties"]["type"]["enum"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default()
            })
            .collect();
        let mut all: Vec<_> = EventType::ALL
            .iter()
            .map(|known| serde_json::json!(known))
            .collect();
        assert_eq!(types.len(), all.len(), "{names} schemas");
        all.retain(|known| !types.contains(known));
        assert!(all.is_empty(), "without a schema: {all:?}");
    }
}
