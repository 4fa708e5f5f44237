//! Dependencies and settings of all replies.

use std::{sync::Arc, time::Duration};

use tokio_util::task::TaskTracker;

use crate::{
    db::Db,
    files::{Blobs, pictures::PictureReader},
    meaning::Meaning,
    model::Provider,
    realtime::Hub,
    replies::{compaction::pass::Compactor, retry::RetryPolicy},
    tasks::{Queue, calls::CallLog},
    tools::runner::Toolbox,
};

#[derive(Clone)]
pub struct ReplyHandler {
    pub db: Db,
    pub hub: Arc<Hub>,
    pub provider: Arc<dyn Provider>,
    pub compactor: Compactor,
    /// Search by meaning, for passages of files.
    pub meaning: Arc<Meaning>,
    /// Bytes of attached files.
    pub blobs: Blobs,
    /// Scales the pictures of messages.
    pub pictures: PictureReader,
    /// Signals of messages that steer the replies of this process.
    pub queue: Arc<Queue>,
    pub calls: CallLog,
    /// Functions that agents can call.
    pub tools: Toolbox,
    pub policy: RetryPolicy,
    /// Time to wait for the first or next chunk of a reply.
    pub task_timeout: Duration,
    /// Time limit for one attempt.
    pub attempt_max: Duration,
    pub tracker: TaskTracker,
}
