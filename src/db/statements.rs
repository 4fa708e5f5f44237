//! Records which statements each test runs, so that the tests for `PostgreSQL` can be selected (see `scripts/select-tests.py`).
//!
//! `OPENVIBE_TEST_STATEMENTS` is an existing directory, in which each process writes a file. A line contains the test, the place of the
//! statement in the code, and a hash of its text, separated by tabs. Release builds do not contain this.

use std::{
    cell::RefCell,
    collections::HashSet,
    fs::{File, OpenOptions},
    hash::{DefaultHasher, Hash, Hasher},
    io::Write,
    panic::Location,
    path::Path,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

/// The file of this process, and the hashes of its lines.
struct Record {
    file: File,
    lines: HashSet<u64>,
}

static RECORD: LazyLock<Option<Mutex<Record>>> = LazyLock::new(|| {
    let dir = std::env::var("OPENVIBE_TEST_STATEMENTS").ok()?;
    let path = Path::new(&dir).join(std::process::id().to_string());
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .ok()?;
    let lines = HashSet::new();
    Some(Mutex::new(Record { file, lines }))
});

thread_local! {
    static TEST: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// The test to which the current thread belongs.
pub(super) fn current_test() -> Option<Arc<str>> {
    RECORD.as_ref()?;
    let known = TEST.with_borrow(Clone::clone);
    known.or_else(|| {
        let of_process = std::env::var("OPENVIBE_TEST_NAME").ok();
        let thread = std::thread::current();
        of_process.as_deref().or(thread.name()).map(Arc::from)
    })
}

/// Makes the current thread belong to a test.
pub(super) fn enter(test: Option<Arc<str>>) {
    TEST.set(test);
}

pub(super) fn record(sql: &'static str, at: &Location<'_>) {
    let Some(record) = &*RECORD else { return };
    let Some(test) = current_test() else { return };
    let mut text = DefaultHasher::new();
    sql.hash(&mut text);
    let line = format!("{test}\t{at}\t{:016x}\n", text.finish());
    let mut whole = DefaultHasher::new();
    line.hash(&mut whole);
    let mut record = record.lock().unwrap_or_else(PoisonError::into_inner);
    if record.lines.insert(whole.finish()) {
        // One write per line, so that a killed process leaves only whole lines.
        drop(record.file.write_all(line.as_bytes()));
    }
}
