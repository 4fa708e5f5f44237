//! Places at which a debug build can be made to die or to wait, so that tests can ask what survives.
//!
//! `OPENVIBE_FAILPOINT=NAME:N` ends the process, as `kill -9` would, when the place called `NAME` is reached for the `N`th time (the
//! first by default). `NAME:N:pause=MS` keeps whoever reaches it for so many milliseconds; `NAME:N:hold=HOST:PORT` until the test
//! that listens there closes the connection. Release builds have no such places.

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
        // The task stands still, with all that it runs side by side; other tasks go on.
        Act::Pause(pause) => tokio::task::block_in_place(|| std::thread::sleep(*pause)),
        Act::Hold(address) => tokio::task::block_in_place(|| {
            if let Ok(mut test) = TcpStream::connect(address) {
                // The end of the connection is what is waited for, whichever way it comes.
                drop(test.read(&mut [0]));
            }
        }),
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
