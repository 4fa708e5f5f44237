//! The conversation that a response continues: stored answers, one behind the other.

use std::collections::BTreeSet;

use super::{
    ResponseError,
    items::{Item, read_items},
    store::{self, Link},
};
use crate::{auth::Actor, db::Conn, ids::ResponseId};

/// Answers of one conversation that are read back.
const LINKS_MAX: usize = 1_000;

/// The answer that a request continues.
pub(super) struct Previous {
    pub id: ResponseId,
    pub link: Link,
}

/// # Errors
/// `PreviousNotFound` also for someone else's and for one that has run out, `Invalid` for what is no id.
pub(super) async fn find_previous(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
) -> Result<Previous, ResponseError> {
    let id: ResponseId = reference.parse().map_err(|_| {
        let text = format!("`{reference}` is no id of a response: those begin with resp_");
        ResponseError::invalid("previous_response_id", text)
    })?;
    let link = store::find_link(c, actor, id).await?;
    let link = link.ok_or_else(|| ResponseError::PreviousNotFound(reference.to_owned()))?;
    Ok(Previous { id, link })
}

/// Items of earlier answers, oldest first.
#[derive(Debug, PartialEq)]
pub(super) struct Before {
    pub items: Vec<Item>,
    /// There is more than was read.
    pub is_cut: bool,
}

/// Reads a conversation back, newest first, until about `bytes_max` bytes are read. It begins after an answer that was
/// deleted or has run out.
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

/// What the model said in an answer.
fn said(response: &serde_json::Value) -> Result<Vec<Item>, ResponseError> {
    let output = response["output"].as_array().map(Vec::as_slice);
    read_items(output.unwrap_or_default(), "previous_response_id")
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

/// Without outputs whose call is among the answers that are gone.
fn without_orphans(items: Vec<Item>) -> Vec<Item> {
    let mut calls = BTreeSet::new();
    items
        .into_iter()
        .filter(|item| match item {
            Item::FunctionCall { call_id, .. } => {
                calls.insert(call_id.clone());
                true
            }
            Item::FunctionCallOutput { call_id, .. } => calls.contains(call_id),
            Item::Message { .. } => true,
        })
        .collect()
}
