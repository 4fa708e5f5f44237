//! Readers of the pictures and files of requests.

use std::sync::Arc;

use crate::{
    files::{documents::DocumentReader, pictures::PictureReader},
    ids::UserId,
    registry::Registry,
    share::Turns,
};

/// Maximum number of a person's requests whose pictures and files are being read, or wait for that.
const WAITING_MAX: usize = 16;

/// Readers of pictures and files.
#[derive(Clone)]
pub struct MediaReader {
    pub pictures: PictureReader,
    pub documents: DocumentReader,
    /// Reads pictures of the web.
    pub registry: Arc<Registry>,
    pub(super) turns: Arc<Turns<UserId>>,
}

impl MediaReader {
    pub fn new(
        pictures: PictureReader,
        documents: DocumentReader,
        registry: Arc<Registry>,
    ) -> Self {
        Self {
            pictures,
            documents,
            registry,
            turns: Arc::new(Turns::new(1, WAITING_MAX)),
        }
    }
}
