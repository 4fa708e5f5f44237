//! Data about one user in a workspace: exporting or erasing all of it.
//!
//! Both cover everything that any capability stores about a user, so this module sits above all of them. Both work in
//! steps: an export is streamed while it is read, and an erasure consists of many short transactions. An erasure that
//! was interrupted by a crash runs again from the beginning, which does not change anything that is already done.

mod erase;
pub mod export;
mod scrub;

pub use erase::{Erased, Eraser, begin, finish_begun};
pub use export::export;
