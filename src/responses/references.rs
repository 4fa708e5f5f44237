//! References to items of earlier responses, which some clients send instead of the items.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    ResponseError,
    ignored::Ignored,
    items::{Input, Item, ItemReference, OUTPUT_FROM, parse_item_id, read_items},
    store::{self, Link},
};
use crate::{auth::Actor, db::Conn, ids::ResponseId};

/// Maximum number of responses to whose items a request can refer.
const RESPONSES_MAX: usize = 1_000;

/// Replaces the references of a request with the items.
///
/// # Errors
/// `NoSuchItem` for an item of another user, or of a response that was not stored or has expired; `Invalid` for too many responses.
pub(super) async fn resolve(
    c: &mut Conn,
    actor: &Actor<'_>,
    input: &mut Input,
) -> Result<(), ResponseError> {
    let references = std::mem::take(&mut input.references);
    if references.is_empty() {
        return Ok(());
    }
    let mut wanted: BTreeMap<ResponseId, Vec<(usize, usize)>> = BTreeMap::new();
    for (n, reference) in references.iter().enumerate() {
        let (response, position) = parse_item_id(&reference.id).ok_or_else(|| absent(reference))?;
        wanted.entry(response).or_default().push((n, position));
    }
    if wanted.len() > RESPONSES_MAX {
        let text = format!("input refers to items of more than {RESPONSES_MAX} responses");
        return Err(ResponseError::invalid("input", text));
    }
    // By position in the list, and then by reference.
    let mut found: BTreeMap<(usize, usize), Vec<Item>> = BTreeMap::new();
    for (response, places) in wanted {
        let link = store::find_link(c, actor, response).await?;
        for (n, position) in places {
            let items = link.as_ref().and_then(|link| item_of(link, position));
            let items = items.ok_or_else(|| absent(&references[n]))?;
            found.insert((references[n].position, n), items);
        }
    }
    let mut found = found.into_iter().peekable();
    for (position, item) in std::mem::take(&mut input.items).into_iter().enumerate() {
        while let Some((_, items)) = found.next_if(|((before, _), _)| *before == position) {
            input.items.extend(items);
        }
        input.items.push(item);
    }
    input.items.extend(found.flat_map(|(_, items)| items));
    Ok(())
}

fn absent(reference: &ItemReference) -> ResponseError {
    ResponseError::NoSuchItem {
        id: reference.id.clone(),
        param: reference.param.clone(),
    }
}

/// Returns the item at a position. The list is empty if the item is not sent to the model.
fn item_of(link: &Link, position: usize) -> Option<Vec<Item>> {
    let Some(at) = position.checked_sub(OUTPUT_FROM) else {
        return Some(vec![link.input.0.get(position)?.clone()]);
    };
    let output: &Value = link.response.0["output"].get(at)?;
    let read = read_items(std::slice::from_ref(output), "input", &Ignored::default());
    read.ok().map(|read| read.items)
}
