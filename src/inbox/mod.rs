//! Inbox items: rows that say that something wants a person's attention.
//!
//! An item is written in the transaction of its cause, by the feature that has the cause, with `open` and `close_*`; an existing item
//! of the same recipient, reason, and subject is opened again. Items contain no text: `chat::inbox` reads what clients see.
//! Replies in followed conversations have no rows; they follow from `follows`.

pub mod close;
pub mod event;
pub mod expire;
pub mod item;
pub mod notice;
pub mod open;
pub mod preview;
pub mod server_alerts;

pub use event::{InboxEvent, ItemOpened, ItemStateChange};
pub use item::{InboxReason, InboxState, InboxSubject, InboxSubjectKind, Place};
pub use open::{Existing, NewItem};
pub use preview::{NotificationPreview, PreviewMax, PreviewMaxPatch};
