//! Texts of notifications, bounded by the person's preview.

use serde::Serialize;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{client::Urgency, crypto::PLAINTEXT_BYTES_MAX};
use crate::{
    chat::inbox::{item::InboxItem, notified::NotifiedItem},
    ids::InboxItemId,
    inbox::{InboxReason, NotificationPreview},
};

/// Maximum length of a body, in UTF-16 code units.
const BODY_UNITS_MAX: usize = 300;

/// Content of a push message, for the service worker.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Payload {
    v: u8,
    item: Option<InboxItemId>,
    /// A later notification with the same tag replaces this one.
    pub(super) tag: String,
    title: String,
    body: String,
    url: String,
    /// Number of open items; `None` leaves the badge as it is.
    badge: Option<i64>,
    #[serde(skip)]
    pub(super) urgency: Urgency,
}

/// 32 hexadecimal digits that stand for an object.
fn tag_of(id: Uuid) -> String {
    let digest = Sha256::new()
        .chain_update(b"openvibe topic")
        .chain_update(id.as_bytes())
        .finalize();
    hex::encode(&digest[..16])
}

/// Describes the event behind an item without naming its place.
pub(super) fn describe(item: &InboxItem) -> String {
    let from = item.from.as_ref().map(|from| from.name.trim());
    let from = from.filter(|name| !name.is_empty()).unwrap_or("Somebody");
    match item.reason {
        InboxReason::Mention => format!("{from} mentioned you"),
        InboxReason::Direct => format!("{from} sent you a message"),
        InboxReason::Group => format!("{from} mentioned everyone"),
        InboxReason::Thread => format!("{from} started a thread"),
        InboxReason::Answer | InboxReason::Reply => format!("{from} replied"),
        InboxReason::Assigned => format!("{from} assigned you an action item"),
        InboxReason::Result => "A deep dive has a result".to_owned(),
        InboxReason::Failed => "Something you started failed".to_owned(),
        InboxReason::Resolve => "A deep dive waits for you".to_owned(),
        InboxReason::Draft => "A draft is ready".to_owned(),
        InboxReason::Approval => "An action waits for your approval".to_owned(),
        InboxReason::Notice => "Something needs attention".to_owned(),
        InboxReason::Saved => "A message that you saved".to_owned(),
    }
}

/// Page of the conversation, or else the inbox.
pub(super) fn url_of(notified: &NotifiedItem) -> String {
    let (item, slug) = (&notified.item, &notified.slug);
    let (Some(channel), Some(thread)) = (item.channel_id, item.thread_id) else {
        return format!("/{slug}/inbox");
    };
    let thread = format!("/{slug}/c/{channel}/t/{thread}");
    match (item.fork_id, item.message_id) {
        (Some(fork), Some(message)) => format!("{thread}?panel=dive:{fork}#d-{message}"),
        (Some(fork), None) => format!("{thread}?panel=dive:{fork}"),
        (None, Some(message)) => format!("{thread}#m-{message}"),
        (None, None) => thread,
    }
}

fn cut(text: &str) -> String {
    let mut units = 0;
    text.chars()
        .take_while(|c| {
            units += c.len_utf16();
            units <= BODY_UNITS_MAX
        })
        .collect()
}

impl Payload {
    pub(super) fn of_item(notified: &NotifiedItem, preview: NotificationPreview) -> Self {
        let item = &notified.item;
        let conversation = item
            .fork_id
            .map(|id| id.0)
            .or(item.thread_id.map(|id| id.0));
        let happened = describe(item);
        let preview = preview.max(notified.preview_max.push);
        let (title, body) = match preview {
            NotificationPreview::None => ("New message".to_owned(), String::new()),
            NotificationPreview::Sender => (happened, String::new()),
            NotificationPreview::Full => {
                let from = item.from.as_ref().map(|from| from.name.as_str());
                let title = match (from, &notified.channel_name) {
                    (Some(from), Some(channel)) => format!("{from} in #{channel}"),
                    (Some(from), None) if item.message_id.is_some() => from.to_owned(),
                    _ => happened,
                };
                let body = if item.text.is_empty() {
                    &item.title
                } else {
                    &item.text
                };
                (title, cut(body))
            }
        };
        let urgency = match item.reason {
            InboxReason::Mention
            | InboxReason::Direct
            | InboxReason::Approval
            | InboxReason::Resolve => Urgency::High,
            _ => Urgency::Normal,
        };
        Self {
            v: 1,
            item: Some(item.id),
            tag: tag_of(conversation.unwrap_or(item.id.0)),
            title: cut(&title),
            body,
            url: url_of(notified),
            badge: Some(notified.open),
            urgency,
        }
    }

    /// A summary of items that were held back.
    pub(super) fn of_summary(user: Uuid, count: usize) -> Self {
        Self {
            v: 1,
            item: None,
            tag: tag_of(user),
            title: format!("{count} new in your inbox"),
            body: String::new(),
            url: "/".to_owned(),
            badge: None,
            urgency: Urgency::Normal,
        }
    }

    pub(super) fn test(device: Uuid) -> Self {
        Self {
            v: 1,
            item: None,
            tag: tag_of(device),
            title: "Notifications work".to_owned(),
            body: "This is a test from OpenVibe.".to_owned(),
            url: "/".to_owned(),
            badge: None,
            urgency: Urgency::High,
        }
    }

    /// The same notification without a text.
    pub(super) fn bare(&self) -> Self {
        Self {
            title: "New message".to_owned(),
            body: String::new(),
            ..self.clone()
        }
    }

    /// The message for the service worker, without a text if it is too long.
    pub(super) fn encode(&self) -> Vec<u8> {
        let encode = |payload: &Self| serde_json::to_vec(payload).unwrap_or_default();
        let whole = encode(self);
        if whole.len() <= PLAINTEXT_BYTES_MAX {
            whole
        } else {
            encode(&self.bare())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_the_same_in_browsers() {
        // web/src/push/repair.test.ts has the same value.
        assert_eq!(tag_of(Uuid::nil()), "68f04a6c7544a13c9969b387e87ac460");
    }

    #[test]
    fn a_message_that_is_too_long_has_no_text() {
        let mut payload = Payload::test(Uuid::nil());
        payload.body = "\u{1}".repeat(1000);
        assert!(payload.encode().len() < PLAINTEXT_BYTES_MAX);
        assert_eq!(payload.bare().title, "New message");
    }
}
