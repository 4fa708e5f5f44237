//! Places at which a debug build can be made to die, so that tests can ask what survives.
//!
//! `OPENVIBE_FAILPOINT=NAME:N` ends the process, as `kill -9` would, when the place called `NAME` is reached
//! for the `N`th time (the first by default). Release builds have no such places.

use std::sync::{
    LazyLock,
    atomic::{AtomicU64, Ordering},
};

static ARMED: LazyLock<Option<(String, u64)>> = LazyLock::new(|| {
    let text = std::env::var("OPENVIBE_FAILPOINT").ok()?;
    let (name, n) = text.split_once(':').unwrap_or((&text, "1"));
    Some((name.to_owned(), n.parse().unwrap_or(1)))
});
static HITS: AtomicU64 = AtomicU64::new(0);

pub fn reach(name: &str) {
    if let Some((armed, n)) = &*ARMED
        && armed == name
        && HITS.fetch_add(1, Ordering::SeqCst) + 1 == *n
    {
        std::process::abort();
    }
}

/// Names a place for `OPENVIBE_FAILPOINT`.
#[macro_export]
macro_rules! failpoint {
    ($name:expr) => {
        #[cfg(debug_assertions)]
        $crate::failpoint::reach($name);
    };
}
