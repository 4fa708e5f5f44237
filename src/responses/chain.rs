//! The conversation that a response continues: a chain of stored responses.

use super::{
    ResponseError,
    conversation::OpenCalls,
    ignored::Ignored,
    items::{Item, read_items},
    store::{self, Link},
};
use crate::{auth::Actor, db::Conn, ids::ResponseId};

/// Maximum number of responses that are loaded for a conversation.
const LINKS_MAX: usize = 1_000;

/// The response that a request continues.
pub(super) struct Previous {
    pub id: ResponseId,
    pub link: Link,
}

/// Finds the response that a request continues.
///
/// # Errors
/// `PreviousNotFound`, also for another user's or an expired response; `Invalid` for an invalid ID.
pub(super) async fn find_previous(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
) -> Result<Previous, ResponseError> {
    let id: ResponseId = reference.parse().map_err(|_| {
        let text = format!("`{reference}` is not a response ID: response IDs start with resp_");
        ResponseError::invalid("previous_response_id", text)
    })?;
    let link = store::find_link(c, actor, id).await?;
    let link = link.ok_or_else(|| ResponseError::PreviousNotFound(reference.to_owned()))?;
    Ok(Previous { id, link })
}

/// Items of earlier responses, oldest first.
#[derive(Debug, PartialEq)]
pub(super) struct Before {
    pub items: Vec<Item>,
    /// True if there are more items than were loaded.
    pub is_cut: bool,
}

/// Loads the items of a conversation, starting with the most recent response, until about `bytes_max` bytes have been read. The
/// conversation starts after the latest deleted or expired response in the chain.
pub(super) async fn read_before(
    c: &mut Conn,
    actor: &Actor<'_>,
    previous: Previous,
    bytes_max: usize,
) -> Result<Before, ResponseError> {
    let mut rounds: Vec<Vec<Item>> = Vec::new();
    let mut bytes = 0;
    let mut next = Some(previous.link);
    let mut is_cut = false;
    while let Some(link) = next {
        let mut items = link.input.0;
        items.extend(said(&link.response.0)?);
        bytes += items.iter().map(size_of).sum::<usize>();
        rounds.push(items);
        next = match link.previous_id {
            Some(_) if bytes > bytes_max || rounds.len() == LINKS_MAX => {
                is_cut = true;
                None
            }
            Some(id) => store::find_link(c, actor, id).await?,
            None => None,
        };
    }
    rounds.reverse();
    let items = without_orphans(rounds.concat());
    Ok(Before { items, is_cut })
}

/// Returns the model's output in a response.
fn said(response: &serde_json::Value) -> Result<Vec<Item>, ResponseError> {
    let output = response["output"].as_array().map(Vec::as_slice);
    let output = output.unwrap_or_default();
    let read = read_items(output, "previous_response_id", &Ignored::default())?;
    Ok(read.items)
}

fn size_of(item: &Item) -> usize {
    match item {
        Item::Message { text, .. } => text.len(),
        Item::FunctionCall {
            name, arguments, ..
        } => name.len() + arguments.len(),
        Item::FunctionCallOutput { output, .. } => output.len(),
    }
}

/// Drops outputs whose calls are in responses that no longer exist.
fn without_orphans(items: Vec<Item>) -> Vec<Item> {
    let mut open = OpenCalls::default();
    let is_kept: Vec<bool> = items.iter().map(|item| open.follows(item)).collect();
    let kept = items
        .into_iter()
        .zip(is_kept)
        .filter(|(_, is_kept)| *is_kept);
    kept.map(|(item, _)| item).collect()
}
