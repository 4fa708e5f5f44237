//! Untrusted input over HTTP and WebSocket: the files of tests/corpus and mutations of them.

mod cursors;
mod frames;
mod manifests;
mod uploads;

use tokio::runtime::Runtime;

/// A separate runtime for property tests.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// Escapes arbitrary bytes for a query string.
fn in_query(bytes: &[u8]) -> String {
    let escaped = bytes
        .iter()
        .flat_map(|byte| ["%".to_owned(), hex::encode_upper([*byte])]);
    escaped.collect()
}
