//! A person's inbox: rows of `inbox_items`, rows of their channels, and replies in conversations that they follow.

pub mod asked;
pub mod following;
pub mod forks;
pub mod item;
pub mod list;
pub mod notified;
mod position;
pub(in crate::chat) mod posted;
mod rows;
mod snippet;
pub mod state;
mod subjects;
pub mod unread;
