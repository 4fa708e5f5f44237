//! Lists of items.

use serde::Serialize;

use super::{
    item::{InboxItem, items_of},
    position,
    rows::{self, Filter, Reader},
};
use crate::{
    auth::{Actor, Scope},
    chat::ChatError,
    db::Conn,
    ids::ChannelId,
    inbox::{InboxReason, InboxState},
    realtime::log,
    text_enum::constant,
};

/// Cursor kind of the list.
const LIST: &str = "inbox";
/// Maximum number of open items that are counted.
const OPEN_MAX: i64 = 1000;
/// Maximum number of changes in one response.
const CHANGES_MAX: usize = 500;

constant! { pub InboxListObject = "list" }

/// Open items, and the event up to which they are counted.
#[derive(Debug, Clone, Copy, Serialize, utoipa::ToSchema)]
pub struct InboxSummary {
    /// Number of open items; at most 1,000.
    pub open: i64,
    /// Number of the workspace's newest event.
    pub seq: i64,
}

/// A page of an inbox.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct InboxPage {
    #[schema(inline)]
    pub object: InboxListObject,
    /// Newest first.
    pub data: Vec<InboxItem>,
    pub has_more: bool,
    /// Value to send as `cursor` to get the next page; null on the last page.
    pub next_cursor: Option<String>,
    /// Number of open items; at most 1,000.
    pub open: i64,
    /// Number of the workspace's newest event.
    pub seq: i64,
}

/// Changes of an inbox since an event.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct InboxChanges {
    /// Items that changed, in any state, in the order of `changed_seq`; at most 500. A `reply` that is left out or read is `done`.
    pub data: Vec<InboxItem>,
    /// Number of open items; at most 1,000.
    pub open: i64,
    /// Number of the workspace's newest event.
    pub seq: i64,
    /// True if there are more changes than the response contains, or `since` is after the newest event: load the list again.
    pub resync: bool,
}

/// Part of an inbox to list.
#[derive(Debug, Clone, Default)]
pub struct InboxFilter {
    pub state: Option<InboxState>,
    pub reason: Option<InboxReason>,
    pub channel: Option<ChannelId>,
    pub cursor: Option<String>,
}

pub(super) fn reader_of(actor: &Actor<'_>) -> Reader {
    Reader {
        workspace: actor.workspace,
        user: actor.user,
    }
}

/// Number of the caller's open items.
///
/// # Errors
/// Only database errors.
pub async fn summary(c: &mut Conn, actor: &Actor<'_>) -> Result<InboxSummary, ChatError> {
    let (seq, _) = log::head(c, actor.workspace).await?;
    let open = rows::count_open(c, reader_of(actor), OPEN_MAX).await?;
    Ok(InboxSummary { open, seq })
}

/// A page of the caller's items, newest first.
///
/// # Errors
/// `Invalid` for a foreign cursor, or any error from `Actor::require`.
pub async fn page(
    c: &mut Conn,
    actor: &Actor<'_>,
    filter: &InboxFilter,
    limit: i64,
) -> Result<InboxPage, ChatError> {
    actor.require(Scope::ChatRead)?;
    let before = position::parse(LIST, filter.cursor.as_deref())?;
    let InboxSummary { open, seq } = summary(c, actor).await?;
    let reader = reader_of(actor);
    let rows = Filter {
        state: filter.state.unwrap_or(InboxState::Open),
        reason: filter.reason,
        channel: filter.channel,
    };
    let mut rows = rows::list(c, reader, rows, before, limit + 1).await?;
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = rows.len() > most;
    rows.truncate(most);
    let data = items_of(c, reader, rows).await?;
    Ok(InboxPage {
        object: InboxListObject,
        next_cursor: data
            .last()
            .filter(|_| has_more)
            .map(|item| position::cursor(LIST, item.seq, item.id.0)),
        data,
        has_more,
        open,
        seq,
    })
}

/// The caller's items that changed at or after an event.
///
/// # Errors
/// Any error from `Actor::require`.
pub async fn changes(
    c: &mut Conn,
    actor: &Actor<'_>,
    since: i64,
) -> Result<InboxChanges, ChatError> {
    actor.require(Scope::ChatRead)?;
    let InboxSummary { open, seq } = summary(c, actor).await?;
    let reader = reader_of(actor);
    let limit = i64::try_from(CHANGES_MAX).unwrap_or(i64::MAX);
    let mut rows = rows::changed(c, reader, since, limit + 1).await?;
    let resync = rows.len() > CHANGES_MAX || since > seq;
    rows.truncate(CHANGES_MAX);
    Ok(InboxChanges {
        data: items_of(c, reader, rows).await?,
        open,
        seq,
        resync,
    })
}
