//! Exports of workspaces: everything that a person can take with them, as an archive.
//!
//! ```text
//! contents (rows of one entry at a time, in a fixed order) ─► writer: entries of a zip ─► target: a file on the server
//! ```
//!
//! `contents` is our format, with `lists` and `messages`. The rights are those at the moment at which a page is read.

mod added;
mod contents;
mod error;
mod lists;
mod messages;
mod page;
mod target;
mod view;
mod writer;
mod zip;

pub use error::ExportError;
pub use view::{ExportFormat, ExportScope, FileBytes, Sight, View};
pub use writer::{Exporter, write_file};
