//! Records which statements each test runs, so that the tests for `PostgreSQL` can be selected (see `scripts/select-tests.py`).
//!
//! `OPENVIBE_TEST_STATEMENTS` is an existing directory, in which each process writes a file. A line contains the test, the place of the
//! statement in the code, a hash of its text, and the milliseconds until it ran for the first time, separated by tabs. Release builds do
//! not contain this.

use std::{
    cell::RefCell,
    collections::HashSet,
    fs::{File, OpenOptions},
    hash::{DefaultHasher, Hash, Hasher},
    io::Write,
    panic::Location,
    path::Path,
    ptr,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Instant,
};

/// The file of this process, and the hashes of tests with the addresses of their places and texts.
struct Record {
    file: File,
    started: Instant,
    known: HashSet<u64>,
}

static RECORD: LazyLock<Option<Mutex<Record>>> = LazyLock::new(|| {
    let dir = std::env::var("OPENVIBE_TEST_STATEMENTS").ok()?;
    let path = Path::new(&dir).join(std::process::id().to_string());
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .ok()?;
    Some(Mutex::new(Record {
        file,
        started: Instant::now(),
        known: HashSet::new(),
    }))
});

thread_local! {
    static TEST: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// The test to which the current thread belongs.
pub(super) fn current_test() -> Option<Arc<str>> {
    RECORD.as_ref()?;
    TEST.with_borrow_mut(|test| {
        if test.is_none() {
            let of_process = std::env::var("OPENVIBE_TEST_NAME").ok();
            let thread = std::thread::current();
            *test = of_process.as_deref().or(thread.name()).map(Arc::from);
        }
        test.clone()
    })
}

/// Makes the current thread belong to a test.
pub(super) fn enter(test: Option<Arc<str>>) {
    TEST.set(test);
}

pub(super) fn record(sql: &'static str, at: &'static Location<'static>) {
    let Some(record) = &*RECORD else { return };
    let Some(test) = current_test() else { return };
    let mut key = DefaultHasher::new();
    (&*test, sql.as_ptr(), ptr::from_ref(at)).hash(&mut key);
    let mut record = record.lock().unwrap_or_else(PoisonError::into_inner);
    if !record.known.insert(key.finish()) {
        return;
    }
    let mut text = DefaultHasher::new();
    sql.hash(&mut text);
    let (text, time) = (text.finish(), record.started.elapsed().as_millis());
    let line = format!("{test}\t{at}\t{text:016x}\t{time}\n");
    // One write per line, so that a killed process leaves only whole lines.
    drop(record.file.write_all(line.as_bytes()));
}
