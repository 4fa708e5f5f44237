//! Generated changes: what people see, and what is pushed, is what is in the copy. This test needs bubblewrap, and is skipped where it is
//! not installed or cannot create a namespace.
//!
//! A few changes are part of the suite; `make patches PATCHES=2000 SEED=7` makes more.

#![allow(clippy::unwrap_used, reason = "test helpers")]

mod support;

use std::{
    fmt::Write,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use support::{Connection, Server, Setup, git, has_bubblewrap, setting};

/// Turns in the suite.
const PATCHES: u64 = 6;
/// Paths that collide with each other, and those that are hard to quote.
const PATHS: &[&[u8]] = &[
    b"a.txt",
    b"a.txt/inside",
    b"b.txt",
    b"bin/tool",
    b"src",
    b"src/main.c",
    b"src/lib/util.c",
    b"src/lib/util.c/deeper/file",
    b"docs/read me.md",
    b"docs/\xc3\xa4\xe2\x82\xac.md",
    b"link",
    b"link/through",
    b"-n",
    b"tab\there",
    b"new\nline",
    b"carriage\rreturn",
    b"quo\"te's",
    b"back\\slash",
    b"\xff\xfe",
    b" lead",
    b"trail ",
    b"b/b/b",
    b"dev/null",
    b"x => y",
    b"{a => b}/c",
    b"a/../a.txt2",
    b"...",
    b".gitignored",
    b"diff --git a",
];
const TARGETS: &[&[u8]] =
    &[b"a.txt", b"../..", b"/etc/passwd", b"missing", b"src", b"\xff", b"new\nline", b"."];
/// Attributes under which git stores a file as it is.
const ATTRIBUTES: &[&str] = &[
    "* binary",
    "*.c -diff",
    "*.md diff=other filter=other",
    "* -text",
    "*.txt whitespace=-trailing-space",
];

/// Source of numbers: splitmix64.
struct Random(u64);

impl Random {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.draw() % n as u64).unwrap()
    }

    fn byte(&mut self) -> u8 {
        self.draw().to_le_bytes()[0]
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// Bytes as the format of `printf`.
fn octal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "\\{byte:03o}").unwrap();
        text
    })
}

/// Bytes as one word of a shell, which does not end with a line break.
fn word(bytes: &[u8]) -> String {
    format!("\"$(printf '{}')\"", octal(bytes))
}

/// A path below the copy, which is no option.
fn path(path: &[u8]) -> String {
    word(&[b"./".as_slice(), path].concat())
}

fn line(random: &mut Random, end: &str) -> String {
    format!("line {}{end}", random.below(40))
}

/// A command that prints the content of a file.
fn content(random: &mut Random) -> String {
    let lines = random.below(30);
    match random.below(9) {
        0 => "true".to_owned(),
        1 => {
            let bytes: Vec<u8> = (0..random.below(300)).map(|_| random.byte()).collect();
            format!("printf '{}'", octal(&bytes))
        }
        2 => "head -c 30000 /dev/zero | tr '\\0' 'a'".to_owned(),
        // Text without a line break at its end, and with bytes that are not UTF-8.
        3 => format!("printf '{}\\344'", line(random, "\\n").repeat(lines)),
        4 => {
            let text: String = (0..lines).map(|_| line(random, "\\r\\n")).collect();
            format!("printf '{text}'")
        }
        5 => {
            "printf 'diff --git a/x b/x\\n--- a/x\\n+++ b/x\\n@@ -1 +1 @@\\n-a\\n+b\\n'".to_owned()
        }
        6 => "printf '$Id$\\n-- \\n\\n\\n'".to_owned(),
        _ => {
            let text: String = (0..=lines).map(|_| line(random, "\\n")).collect();
            format!("printf '{text}'")
        }
    }
}

/// One thing that an agent does to its copy. It may fail, such as where a directory is in the way.
fn step(random: &mut Random, base: &str) -> String {
    let name = random.of(PATHS);
    let (own, other) = (path(name), path(random.of(PATHS)));
    let first = name.split(|byte| *byte == b'/').next().unwrap();
    let make = format!("rm -rf {own}; mkdir -p \"$(dirname {own})\"");
    match random.below(16) {
        0..=3 => format!("{make}; {} > {own}", content(random)),
        // What is in the way of the directories goes.
        4 => format!("rm -rf {}; {make}; {} > {own}", path(first), content(random)),
        5 => format!("test -f {own} && {} >> {own}", content(random)),
        6 => {
            let line = 1 + random.below(9);
            format!("test -f {own} && sed -i {line}d {own}")
        }
        7 => format!("rm -rf {own}"),
        8..=9 => format!("mkdir -p \"$(dirname {other})\"; mv {own} {other}"),
        10 => format!("test -f {own} && cp -P {own} {other}"),
        11 => format!("test -f {own} && chmod {} {own}", random.of(&["755", "644", "600", "711"])),
        12 => format!("{make}; ln -s {} {own}", word(random.of(TARGETS))),
        13 => format!("echo '{}' > .gitattributes", random.of(ATTRIBUTES)),
        14 => random
            .of(&[
                "git add -A; git -c user.name=a -c user.email=a@example.com commit -qm own",
                "git add -A; git rm -rq --cached .",
                "git checkout -q -b other; git config diff.noprefix true; git config core.quotePath false",
                "git config diff.renames copies; git config diff.algorithm patience; git config apply.whitespace fix",
                "rm -f .gitattributes; git config core.whitespace cr-at-eol",
            ])
            .to_owned(),
        _ if random.below(4) == 0 => format!("git reset -q --hard {base}; git clean -qfdx"),
        _ => format!("rm -rf {}", path(first)),
    }
}

/// A bare clone of the origin, in which trees are computed apart from the runner.
struct Reference {
    directory: PathBuf,
    copy: PathBuf,
    base: String,
}

impl Reference {
    fn new(setup: &Setup, base: &str) -> Self {
        let directory = setup.path().join("reference");
        let origin = setup.path().join("origin");
        git(&origin, &["clone", "--quiet", "--bare", ".", directory.to_str().unwrap()]);
        Self {
            directory,
            copy: setup.path().join("data/sessions/code_1/copy"),
            base: base.to_owned(),
        }
    }

    fn git(&self, index: &str, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(&self.copy);
        command.env("GIT_DIR", &self.directory).env("GIT_WORK_TREE", &self.copy);
        command.env("GIT_INDEX_FILE", self.directory.join(index));
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        let output = command.output().unwrap();
        let cause = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {cause}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// An index with the base's files.
    fn start(&self, index: &str) {
        let _ = std::fs::remove_file(self.directory.join(index));
        self.git(index, &["read-tree", &self.base]);
    }

    /// The tree of the copy, without a look at its configuration.
    fn of_copy(&self) -> String {
        self.start("of-copy");
        self.git("of-copy", &["add", "-A"]);
        self.git("of-copy", &["write-tree"])
    }

    /// The tree of a patch that people see.
    fn of_patch(&self, patch: &[u8]) -> String {
        self.start("of-patch");
        if !patch.is_empty() {
            let file = self.directory.join("shown");
            std::fs::write(&file, patch).unwrap();
            let file = file.to_str().unwrap();
            self.git("of-patch", &["apply", "--cached", "--whitespace=nowarn", file]);
        }
        self.git("of-patch", &["write-tree"])
    }

    /// Number of files that differ from the base.
    fn changed(&self, tree: &str) -> usize {
        let arguments = ["diff", "-M", "--name-only", &self.base, tree];
        git(&self.directory, &arguments).lines().count()
    }
}

/// Adds files to the origin, and returns its commit.
fn fill(origin: &Path) -> String {
    for (path, content) in [
        ("a.txt", "line 1\nline 2\nline 3\nline 4\n".repeat(4)),
        ("src/main.c", "/* $Id$ */\nint main(void) { return 0; }\n".to_owned()),
        ("src/lib/util.c", "line 5\nline 6\n".repeat(20)),
        ("docs/read me.md", "Text\r\nin lines\r\n".to_owned()),
        ("bin/tool", "\0\u{1}\u{2}binary".to_owned()),
        ("empty", String::new()),
    ] {
        let file = origin.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, content).unwrap();
    }
    std::os::unix::fs::symlink("a.txt", origin.join("link")).unwrap();
    git(origin, &["add", "-A"]);
    git(origin, &["update-index", "--chmod=+x", "bin/tool"]);
    git(origin, &["commit", "--quiet", "-m", "Fill"]);
    git(origin, &["rev-parse", "HEAD"]).trim().to_owned()
}

/// The end of a turn, which must be `done`.
async fn ended(connection: &mut Connection, what: &str) -> Value {
    loop {
        let event = connection.event().await;
        assert!(!event.is_null() && event["type"] != "failed", "{what}: {event}");
        if event["type"] == "done" {
            return event;
        }
    }
}

#[tokio::test]
async fn the_copy_and_the_shown_patch_and_the_pushed_commit_are_the_same_tree() {
    if !has_bubblewrap() {
        return;
    }
    let turns = setting("OPENVIBE_TEST_PATCHES").unwrap_or(PATCHES);
    let seed = setting("OPENVIBE_TEST_PATCHES_SEED").unwrap_or(1);
    let mut random = Random(seed);
    let mut server = Server::start().await;
    let setup = Setup::new(&server, "[repository.api]");
    let origin = setup.path().join("origin");
    let base = fill(&origin);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    assert_eq!(connection.open(1, "scripted").await["type"], "opened");
    let reference = Reference::new(&setup, &base);
    let mut parent = base.clone();
    let (mut n, mut pushed) = (1, 0);
    for turn in 0..turns {
        let steps = 3 + random.below(9);
        let steps: Vec<String> = (0..steps).map(|_| step(&mut random, &base)).collect();
        let script = steps.join("; ");
        let what = format!("seed {seed}, turn {turn}: {script}");
        n += 1;
        let task = format!("task_{n}");
        connection.prompt(n, &task, &format!("sh {script}")).await;
        let done = ended(&mut connection, &what).await;
        let tree = done["tree"].as_str().unwrap().to_owned();
        assert_eq!(reference.of_copy(), tree, "the copy; {what}");
        let patch = format!("/v1/runner/sessions/code_1/patch?task_id={task}");
        let patch = server.stored(&patch).await;
        assert_eq!(reference.of_patch(&patch), tree, "the patch; {what}");
        let count = done["file_count"].as_u64().unwrap();
        assert_eq!(reference.changed(&tree) as u64, count, "{what}");
        if count == 0 {
            assert!(patch.is_empty(), "{what}");
            continue;
        }
        n += 1;
        let push = json!({
            "type": "push", "action": "act_1", "tree": tree, "parent": parent, "branch": "vibe/7", "title": format!("Turn {turn}"),
            "body": "", "at": "2030-01-01T00:00:00.000Z",
        });
        connection.command(n, push).await;
        let event = connection.event().await;
        assert_eq!(event["type"], "pushed", "{what}: {event}");
        assert_eq!(git(&origin, &["rev-parse", "vibe/7^{tree}"]).trim(), tree, "{what}");
        assert_eq!(git(&origin, &["rev-parse", "vibe/7"]).trim(), event["commit"], "{what}");
        assert_eq!(git(&origin, &["rev-parse", "vibe/7~"]).trim(), parent, "{what}");
        event["commit"].as_str().unwrap().clone_into(&mut parent);
        pushed += 1;
    }
    assert!(turns == 0 || pushed > 0, "nothing was pushed");
}
