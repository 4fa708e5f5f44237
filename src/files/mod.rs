//! Uploads: bytes that are stored once, and the rows that give them a name and a place.
//!
//! ```text
//! body ─► receive (multipart, limits) ─► blobs: to disk under the SHA-256 ─► rows: one transaction ─► attached to a message
//!                                                                              └ tidy: what nobody refers to goes
//! ```
//!
//! What a file is called is up to whoever sends it; what it is, is read from its bytes (`kind`). Rights follow the message: before
//! it is in one, a file is only its uploader's.

mod blobs;
mod error;
mod kind;
mod name;
mod receive;
pub mod routes;
mod rows;
mod tidy;

pub use blobs::{Blobs, Bytestream, Published};
pub use error::FileError;
pub use kind::{Delivery, Kind};
pub use name::clean_name;
pub use receive::{Bounds, PACE_WITHIN, Received, receive};
pub use rows::{
    ATTACHMENTS_MAX, Attachment, File, NewFile, Stored, attach, count_of_person, delete_loose,
    find, forget_loose_of, insert, lend_avatar, remove_of_message,
};
pub use tidy::{Tidying, tidy};
