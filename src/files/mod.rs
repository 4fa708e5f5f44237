//! Uploads: bytes that are stored only once, and rows with their names and attachments.
//!
//! ```text
//! body ─► receive (multipart, limits) ─► blobs: to their place, by SHA-256 ─► rows: one transaction ─► attached to a message
//!                                                                               └ cleanup: deletes unreferenced files
//! ```
//!
//! The sender chooses the name of a file; its type is detected from its bytes (`kind`). Access follows the message: until a
//! file is attached to a message, only its uploader can access it.

mod blobs;
mod cleanup;
pub mod documents;
mod error;
mod kind;
mod name;
mod own_picture;
mod permit;
pub mod pictures;
mod receive;
mod rows;

pub(crate) use blobs::name_blob;
pub use blobs::{
    Blobs, Bytestream, Incoming, Moved, NewBlob, Progress, Published, bytes_in_database,
};
pub use cleanup::{CleanupScope, cleanup, remove_picture};
pub use error::{ATTACHMENTS_MAX, FileError};
pub use kind::{Delivery, Kind};
pub use name::clean_name;
pub use own_picture::{
    find_shared_workspace, remove_own_picture, remove_picture_in, set_bot_picture, set_own_picture,
};
pub use permit::{UploadBytes, UploadPermit};
pub use receive::{Bounds, Received, receive, receive_named};
pub use rows::{
    Attachment, File, FileObject, FilePurpose, KeptFile, MessageFile, NewFile, Stored, attach,
    copy, count_of_person, delete_loose, erase_unattached, find, insert, insert_of_message,
    insert_picture, keep_picture, list_kept, remove_of_message, set_alt, share_avatar,
};
