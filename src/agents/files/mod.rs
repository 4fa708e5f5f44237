//! Agent files: stored rows, and views of the profile that are always consistent with it.
//!
//! SOUL.md is a view of the agent's instructions and IDENTITY.md of its identity: writing either one changes the
//! profile. The other files are rows with their own versions. AGENTS.md and TOOLS.md fall back to the workspace's
//! (`shared`).

mod path;
mod read;
mod rows;
mod shared;
mod write;

pub use path::FilePath;
pub(in crate::agents) use read::own;
pub use read::{list, notes, read, read_version};
pub use rows::{File, FileSource, FileSummary, IDENTITY, MEMORY, SHARED, SOUL};
pub(in crate::agents) use shared::instruction_files;
pub use shared::{delete_shared, list_shared, read_shared, write_shared};
pub(in crate::agents) use write::seed;
pub use write::{delete, write};
