//! Agent files: stored rows, and views of the profile that are always consistent with it.
//!
//! SOUL.md is a view of the agent's instructions and IDENTITY.md of its identity: writing either one changes the profile. An
//! agent's own AGENTS.md and TOOLS.md are also part of its profile, and fall back to the workspace's (`shared`). The other files
//! are rows with their own versions; `memory` makes paragraphs of MEMORY.md and logs searchable.

mod path;
mod read;
mod rows;
mod shared;
mod write;

pub use path::FilePath;
pub(in crate::agents) use read::own;
pub use read::{AuthoredFile, heartbeat, list, notes, read, read_version};
pub use rows::{
    File, FileSource, FileSummary, HEARTBEAT, IDENTITY, MEMORY, NOTES_TOKENS_MAX, SHARED, SOUL,
    log_date,
};
pub(in crate::agents) use shared::instruction_files;
pub use shared::{delete_shared, list_shared, read_shared, write_shared};
pub use write::{delete, write};
pub(in crate::agents) use write::{seed, take_instructions};
