//! Collections: files that people and agents search together. The `OpenAI` API calls them vector stores.
//!
//! A collection is read by those who can read its channel, or by everyone in the workspace except for guests; `is_readable_store!`
//! is the condition.
//! Files are not copied: a file in a collection can be read by the readers of the collection, too.

mod batches;
mod channels;
mod contents;
mod error;
mod event;
mod files;
mod filters;
mod paths;
mod search;
mod stores;
mod sync;
mod urls;
mod versions;

pub use batches::{
    BATCH_FILES_MAX, BatchForm, FileBatch, cancel_batch, create_batch, find_batch, list_batch_files,
};
pub use channels::{find_file, get, list_files};
pub use contents::{Attributes, FileCounts, StoreFileState};
pub use error::CollectionError;
pub use event::StoreEvent;
pub use files::{
    StoreFile, StoreFileForm, Successor, add_file, announce_deletion, can_read_file, find_reader,
    find_successor, remove_file, set_attributes, stores_of,
};
pub use paths::StorePath;
pub use search::{
    StoreHit, StoreHits, StoreSearch, StoreUse, check_filters, list_uses, note_use, search,
    search_for,
};
pub use stores::{
    CollectionId, SearchedFiles, StoreEditors, StoreForm, StorePatch, StoreRef, VectorStore,
    create, delete, find_for, list, update,
};
pub use sync::{
    Comparison, PutFile, REMOVED_AT_ONCE, SyncForm, SyncResult, check_put, compare, put_path,
    remove_path, remove_surplus,
};
pub use urls::{StoreUrl, StoreUrlForm, UrlRefresher, add_url, list_urls};
pub use versions::{delete_old, purge_next, remove_files_of, settle_next};
