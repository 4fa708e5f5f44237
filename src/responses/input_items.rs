//! Input of a stored response, as items of the Responses API.

use serde::Serialize;

use super::{
    ResponseError,
    items::{Item, Speaker, item_id, split_name},
    store,
};
use crate::{
    auth::Caller,
    db::Conn,
    http::page::List,
    ids::ResponseId,
    text_enum::{constant, text_enum},
};

constant! { pub CompletedStatus = "completed" }

text_enum! {
    /// Sort order of items.
    pub enum ItemOrder {
        Oldest = "asc",
        Newest = "desc",
    }
}

text_enum! {
    /// Author of a message.
    pub enum ItemRole {
        User = "user",
        Assistant = "assistant",
        /// System; also used for developer messages.
        System = "system",
    }
}

/// A text part of a message.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum InputContent {
    InputText {
        text: String,
    },
    /// Text of an assistant message.
    OutputText {
        text: String,
        /// Always empty.
        #[schema(value_type = Vec<Object>)]
        annotations: [(); 0],
        /// Always empty.
        #[schema(value_type = Vec<Object>)]
        logprobs: [(); 0],
    },
}

/// A message, a function call, or the output of a function call. The item's ID consists of the response's ID and the item's position.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum InputItem {
    Message {
        /// `msg_…`; not the ID of a message in a thread.
        id: String,
        role: ItemRole,
        #[schema(inline)]
        status: CompletedStatus,
        content: Vec<InputContent>,
    },
    FunctionCall {
        /// ID of the item: `fc_…`.
        id: String,
        call_id: String,
        /// Namespace of the function, if the request has it in one.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(nullable = false)]
        namespace: Option<String>,
        name: String,
        arguments: String,
        #[schema(inline)]
        status: CompletedStatus,
    },
    FunctionCallOutput {
        /// ID of the item: `fco_…`.
        id: String,
        call_id: String,
        output: String,
        #[schema(inline)]
        status: CompletedStatus,
    },
}

impl InputItem {
    /// `position` is the item's position in the request.
    fn new(item: Item, response: ResponseId, position: usize) -> Self {
        let id = |prefix: &str| item_id(prefix, response, position);
        match item {
            Item::Message { role, text } => Self::Message {
                id: id("msg"),
                role: match role {
                    Speaker::User => ItemRole::User,
                    Speaker::Assistant => ItemRole::Assistant,
                    Speaker::System => ItemRole::System,
                },
                status: CompletedStatus,
                content: vec![if role == Speaker::Assistant {
                    InputContent::OutputText {
                        text,
                        annotations: [],
                        logprobs: [],
                    }
                } else {
                    InputContent::InputText { text }
                }],
            },
            Item::FunctionCall {
                call_id,
                name,
                arguments,
            } => {
                let (namespace, name) = split_name(&name);
                Self::FunctionCall {
                    id: id("fc"),
                    call_id,
                    namespace: namespace.map(str::to_owned),
                    name: name.to_owned(),
                    arguments,
                    status: CompletedStatus,
                }
            }
            Item::FunctionCallOutput { call_id, output } => Self::FunctionCallOutput {
                id: id("fco"),
                call_id,
                output,
                status: CompletedStatus,
            },
        }
    }

    fn id(&self) -> &str {
        match self {
            Self::Message { id, .. }
            | Self::FunctionCall { id, .. }
            | Self::FunctionCallOutput { id, .. } => id,
        }
    }
}

/// Page of items to return.
#[derive(Debug)]
pub struct ItemPage {
    pub limit: i64,
    /// ID of the item after which the page starts.
    pub after: Option<String>,
    pub order: ItemOrder,
}

/// Lists the input items of the request that created a stored response, without the items of earlier responses.
///
/// # Errors
/// Same as `store::get`, and `ItemNotFound`.
pub async fn list_input_items(
    c: &mut Conn,
    caller: &Caller,
    reference: &str,
    page: &ItemPage,
) -> Result<List<InputItem>, ResponseError> {
    let (response, items) = store::get_input(c, caller, reference).await?;
    let items = items.into_iter().enumerate();
    let mut items: Vec<InputItem> = items
        .map(|(position, item)| InputItem::new(item, response, position))
        .collect();
    if page.order == ItemOrder::Newest {
        items.reverse();
    }
    if let Some(after) = &page.after {
        let at = items.iter().position(|item| item.id() == after);
        let at = at.ok_or_else(|| ResponseError::ItemNotFound(after.clone()))?;
        items.drain(..=at);
    }
    // `List` expects at most one row more than the limit.
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    items.truncate(limit.saturating_add(1));
    Ok(List::new(items, page.limit, false, |item| {
        item.id().to_owned()
    }))
}
