//! Imports: history of other products.
//!
//! ```text
//! pieces ─► archive (a zip within bounds) or tarball ─► source (slack, mattermost, zulip, discord, openvibe, chats): records in one format ─► preview
//!                                                                                                            └─► run: people, channels, units ─► chat::imported
//! ```
//!
//! `row` stores imports and the pieces of their archives, which are uploaded, or copied from the server's directory (`local`), `key` makes IDs from the source's keys, so that a repeated import changes
//! nothing, `people` and `message` translate, `dives` restores deep dives and their results, `work` restores objects that can
//! act, and `report` counts what became of each record.

mod agents;
mod announce;
mod archive;
mod chats;
mod discord;
mod dives;
mod emoji;
mod emoji_source;
mod error;
mod event;
mod fetch;
mod json;
mod key;
mod lines;
mod local;
mod mattermost;
mod merge;
mod message;
mod openvibe;
mod options;
mod people;
mod preview;
mod record;
mod report;
mod row;
mod run;
mod slack;
mod source;
mod state;
mod tarball;
mod undo;
mod utf8;
mod work;
mod zulip;

pub use error::ImportError;
pub use event::ImportEvent;
pub use fetch::SourceHosts;
pub use merge::merge;
pub use options::{ChannelChoice, ImportGroup, ImportOptions};
pub use people::forget_person;
pub use preview::{ChannelFate, ImportChannel, ImportNumbers, ImportPerson, ImportPreview};
pub use record::SourceChannelKind;
pub use report::{ImportCounts, ImportLeftOut, ImportReport};
pub use row::{
    ArchiveImport, ImportForm, ImportPatch, ImportStep, ImportsOf, LocalArchive, PIECE_BYTES_MAX,
    PieceRange, check_local_user, check_piece, create, delete, get, get_preview, insert_piece,
    list, patch, step, workspace_of_import,
};
pub use run::{ImportErrors, ImportTurns, Importer};
pub use state::ImportState;
