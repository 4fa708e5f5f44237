//! Difficult untrusted input: one folder per parser and one file per case, named after its difficulty.
//!
//! `NAME.expected` next to a case contains the expected result. `OPENVIBE_CORPUS=write` rewrites these files; review them before you
//! commit them. When a property test finds a new case, add it as a file. `PROPTEST_CASES` sets the number of mutated cases if the
//! default is too low.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each of the two test binaries uses its part"
)]

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use proptest::{
    prelude::*,
    test_runner::{Config, FileFailurePersistence},
};
use rustix::time::{ClockId, clock_gettime};

/// A file of the corpus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// File name without its extension.
    pub name: String,
    pub bytes: Vec<u8>,
    expected: PathBuf,
}

impl Case {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    /// Asserts that `found` equals the expected result.
    pub fn expect(&self, found: &str) {
        let found = format!("{}\n", found.trim_end_matches('\n'));
        if std::env::var("OPENVIBE_CORPUS").is_ok_and(|how| how == "write") {
            fs::write(&self.expected, found).expect("the corpus can be written");
            return;
        }
        let expected = fs::read_to_string(&self.expected)
            .unwrap_or_else(|e| panic!("{}: {e}", self.expected.display()));
        assert_eq!(found, expected, "{}", self.name);
    }
}

/// Files with this extension in a folder, sorted by name; panics if there are none.
pub fn cases(folder: &str, ending: &str) -> Vec<Case> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(folder);
    let entries = fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut all: Vec<Case> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == ending))
        .map(|path| Case {
            name: format!(
                "{folder}/{}",
                path.file_stem().unwrap_or_default().display()
            ),
            bytes: fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())),
            expected: path.with_extension("expected"),
        })
        .collect();
    assert!(!all.is_empty(), "{} holds no .{ending}", dir.display());
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// The entries of a table such as `texts.json`.
pub fn table(name: &str) -> Vec<serde_json::Value> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(name);
    let file = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&file).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The patterns in `hostile/patterns.json`, repeated up to this size: cheap to send, but expensive to parse without limits.
pub fn hostile(bytes: usize) -> Vec<(String, String)> {
    let patterns = table("hostile/patterns.json");
    let part = |pattern: &serde_json::Value, name: &str| {
        pattern[name].as_str().unwrap_or_default().to_owned()
    };
    let sized = |pattern: &serde_json::Value| {
        let (head, repeat, tail) = (
            part(pattern, "head"),
            part(pattern, "repeat"),
            part(pattern, "tail"),
        );
        let times = bytes.saturating_sub(head.len() + tail.len()) / repeat.len();
        (
            part(pattern, "name"),
            head + &repeat.repeat(times.max(1)) + &tail,
        )
    };
    patterns.iter().map(sized).collect()
}

/// Asserts that parsing a hostile text of 128 KiB takes about 8 times as long as one of 16 KiB; a quadratic parser takes 64 times as
/// long. Compares the best of several measurements of processor time, so that a busy machine does not affect the result.
pub fn assert_linear(read: impl Fn(&str) -> usize) {
    const FACTOR_MAX: f64 = 24.0;
    // Measures the processor time of this thread, so that other threads and programs do not count.
    let seconds = |text: &str| {
        let now = || {
            let time = clock_gettime(ClockId::ThreadCPUTime);
            Duration::try_from(time).unwrap().as_secs_f64()
        };
        let start = now();
        std::hint::black_box(read(text));
        now() - start
    };
    let large = hostile(128 * 1024);
    for ((name, small), (_, large)) in hostile(16 * 1024).iter().zip(&large) {
        let mut best = f64::INFINITY;
        for _ in 0..10 {
            let floor = seconds(small).max(0.002);
            best = best.min(seconds(large) / floor);
            if best <= FACTOR_MAX {
                break;
            }
        }
        assert!(
            best <= FACTOR_MAX,
            "{name}: 8 times the text, {best:.0} times the time"
        );
    }
}

/// Runs `cases` cases unless `PROPTEST_CASES` is set. Seeds of failures are stored next to the test.
pub fn config(cases: u32) -> Config {
    let asked = std::env::var("PROPTEST_CASES").ok();
    Config {
        cases: asked.and_then(|n| n.parse().ok()).unwrap_or(cases),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("proptest"))),
        ..Config::default()
    }
}

/// A mutation of bytes; positions are in units of 1/65,536 of the length.
#[derive(Debug, Clone)]
enum Edit {
    FlipBit {
        at: u16,
        bit: u8,
    },
    Cut {
        at: u16,
    },
    Remove {
        at: u16,
        len: usize,
    },
    Repeat {
        at: u16,
        len: usize,
        times: usize,
    },
    Insert {
        at: u16,
        bytes: Vec<u8>,
    },
    /// Replaces the rest with the rest of another case.
    Splice {
        at: u16,
        other: prop::sample::Index,
        from: u16,
    },
}

fn edit(words: Arc<[Vec<u8>]>) -> impl Strategy<Value = Edit> {
    let word = any::<prop::sample::Index>().prop_map(move |i| i.get(&words).clone());
    let bytes = prop_oneof![
        3 => word,
        1 => prop::collection::vec(any::<u8>(), 1..8),
    ];
    prop_oneof![
        2 => (any::<u16>(), 0..8_u8).prop_map(|(at, bit)| Edit::FlipBit { at, bit }),
        1 => any::<u16>().prop_map(|at| Edit::Cut { at }),
        2 => (any::<u16>(), 1..40_usize).prop_map(|(at, len)| Edit::Remove { at, len }),
        2 => (any::<u16>(), 1..40_usize, 1..6_usize)
            .prop_map(|(at, len, times)| Edit::Repeat { at, len, times }),
        3 => (any::<u16>(), bytes).prop_map(|(at, bytes)| Edit::Insert { at, bytes }),
        1 => (any::<u16>(), any::<prop::sample::Index>(), any::<u16>())
            .prop_map(|(at, other, from)| Edit::Splice { at, other, from }),
    ]
}

fn place(at: u16, len: usize) -> usize {
    usize::from(at) * (len + 1) / 65_536
}

fn change(bytes: &mut Vec<u8>, edit: &Edit, all: &[Case]) {
    let len = bytes.len();
    match edit {
        Edit::FlipBit { at, bit } => {
            if let Some(byte) = bytes.get_mut(place(*at, len.saturating_sub(1))) {
                *byte ^= 1 << bit;
            }
        }
        Edit::Cut { at } => bytes.truncate(place(*at, len)),
        Edit::Remove { at, len: removed } => {
            let at = place(*at, len);
            bytes.drain(at..len.min(at + removed));
        }
        Edit::Repeat {
            at,
            len: taken,
            times,
        } => {
            let at = place(*at, len);
            let piece = bytes[at..len.min(at + taken)].repeat(*times);
            bytes.splice(at..at, piece);
        }
        Edit::Insert { at, bytes: new } => {
            let at = place(*at, len);
            bytes.splice(at..at, new.iter().copied());
        }
        Edit::Splice { at, other, from } => {
            let other = &other.get(all).bytes;
            bytes.truncate(place(*at, len));
            bytes.extend_from_slice(&other[place(*from, other.len())..]);
        }
    }
}

/// Cases of a folder with up to five mutations each; `words` are typical fragments of the input.
pub fn mutated(folder: &str, ending: &str, words: &[&str]) -> impl Strategy<Value = Vec<u8>> {
    let all: Arc<[Case]> = cases(folder, ending).into();
    let words: Arc<[Vec<u8>]> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let chosen = any::<prop::sample::Index>();
    (chosen, prop::collection::vec(edit(words), 0..6)).prop_map(move |(chosen, edits)| {
        let mut bytes = chosen.get(&all).bytes.clone();
        for edit in &edits {
            change(&mut bytes, edit, &all);
        }
        bytes
    })
}

/// Like `mutated`, for input that is always text.
pub fn mutated_text(folder: &str, ending: &str, words: &[&str]) -> impl Strategy<Value = String> {
    mutated(folder, ending, words).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}
