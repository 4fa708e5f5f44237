//! Events that a transaction has appended but not stored, and the numbers that it has reserved.
//!
//! A batch inserts all of its events with one statement and raises the counter of its workspace once. `Conn` stores both before
//! the commit, and before each statement that could read them: it checks every statement, so callers cannot forget it.

use std::sync::LazyLock;

use sqlx::types::Json;
use uuid::Uuid;

use super::{conn::Conn, dialect, engine::Engine, error::DbError};
use crate::{failpoint, time::Timestamp};
