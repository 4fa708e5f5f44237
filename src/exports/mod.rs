//! Exports of workspaces: everything that a person can take with them, as an archive.
//!
//! ```text
//! contents (rows of one entry at a time, in a fixed order) ─► writer: entries of a zip ─► target: pieces (blobs), or a file on the server
//! ```
//!
//! `contents` is our format (docs/export-format.md), with `lists` and `messages`; `slack` is the layout of Slack's exports. An export that
//! was interrupted goes on after its last stored entry. The rights are those at the moment at which a page is read, and the person who
//! requested the export must still be an admin when its pieces are stored.

mod added;
mod contents;
mod error;
mod lists;
mod messages;
mod page;
mod row;
mod run;
mod slack;
mod target;
mod view;
mod writer;
mod zip;

pub use error::ExportError;
pub use row::{
    ExportForm, ExportPiece, ExportState, WorkspaceExport, create, delete, delete_old, get,
    get_finished, list, workspace_of_export,
};
pub use run::ExportErrors;
pub use view::{ExportFormat, ExportScope, FileBytes, Sight, View};
pub use writer::{Exporter, write_file};
