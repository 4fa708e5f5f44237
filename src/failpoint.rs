//! Points in the code at which a debug build can be made to crash or wait, so that tests can verify the consequences.
//!
//! `OPENVIBE_FAILPOINT=NAME:N` ends the process, like `kill -9`, when the failpoint `NAME` is reached for the `N`th
//! time (the first time by default). `NAME:N:pause=MS` blocks for the given number of milliseconds;
//! `NAME:N:hold=HOST:PORT` blocks until the test listening there closes the connection. Release builds do not contain
//! failpoints.

use std::{
    io::Read,
    net::TcpStream,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

enum Act {
    Die,
    Pause(Duration),
    Hold(String),
}

struct Armed {
    name: String,
    nth: u64,
    act: Act,
}

static ARMED: LazyLock<Option<Armed>> = LazyLock::new(|| {
    let text = std::env::var("OPENVIBE_FAILPOINT").ok()?;
    let mut parts = text.splitn(3, ':');
    let name = parts.next()?.to_owned();
    let nth = parts.next().and_then(|n| n.parse().ok()).unwrap_or(1);
    let act = match parts.next().and_then(|act| act.split_once('=')) {
        Some(("pause", ms)) => Act::Pause(Duration::from_millis(ms.parse().unwrap_or(0))),
        Some(("hold", address)) => Act::Hold(address.to_owned()),
        _ => Act::Die,
    };
    Some(Armed { name, nth, act })
});
static HITS: AtomicU64 = AtomicU64::new(0);

pub fn reach(name: &str) {
    let Some(armed) = &*ARMED else { return };
    if armed.name != name || HITS.fetch_add(1, Ordering::SeqCst) + 1 != armed.nth {
        return;
    }
    match &armed.act {
        Act::Die => std::process::abort(),
        // Blocks this task and everything that it runs concurrently; other tasks continue.
        Act::Pause(pause) => tokio::task::block_in_place(|| std::thread::sleep(*pause)),
        Act::Hold(address) => tokio::task::block_in_place(|| {
            if let Ok(mut test) = TcpStream::connect(address) {
                // Waits for the end of the connection, whether it is closed or fails.
                drop(test.read(&mut [0]));
            }
        }),
    }
}

/// Defines a failpoint for `OPENVIBE_FAILPOINT`.
#[macro_export]
macro_rules! failpoint {
    ($name:expr) => {
        #[cfg(test_hooks)]
        $crate::failpoint::reach($name);
    };
}
