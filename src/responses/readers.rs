//! What reads the pictures and files of requests.

use std::sync::Arc;

use crate::{
    files::{documents::DocumentReader, pictures::PictureReader},
    registry::Registry,
};

/// Readers of pictures and files.
#[derive(Clone)]
pub struct MediaReader {
    pub pictures: PictureReader,
    pub documents: DocumentReader,
    /// Reads pictures of the web.
    pub registry: Arc<Registry>,
}
