//! One person's data in a workspace: all of it handed out, or all of it erased.
//!
//! Both go over everything that any capability stores of a person, so this stands above them all. Both go in pieces: an
//! export is written while it is read, an erasure is many short transactions, and one that a crash cuts short is gone
//! through again from its beginning, which changes nothing that is done already.

mod erase;
mod export;
pub mod routes;
mod scrub;

pub use erase::{Erased, Eraser, begin, finish_begun};
pub use export::export;
