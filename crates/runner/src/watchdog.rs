//! Watchdogs of processes: they count what the kernel does not limit, and end the greediest process of a machine that is short of something.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    str::SplitWhitespace,
    sync::{Arc, OnceLock},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::{
    process::Command,
    time::{Instant, sleep},
};

use crate::{
    config::Limits,
    failure::finish,
    machine::{self, Machine, Shortage},
    running::Running,
};

/// Maximum number of milliseconds until a process has stopped.
const STOP_LOOKS: u32 = 50;
const MEMORY_INTERVAL: Duration = Duration::from_secs(1);
const DISK_INTERVAL: Duration = Duration::from_secs(10);

/// A process, or the group that it leads.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) id: u32,
    pub(crate) is_group: bool,
}

impl Target {
    /// Kills the group of a process that may have ended.
    pub(crate) fn kill_group(self) {
        self.signal_group(Signal::KILL);
    }

    fn signal_group(self, signal: Signal) {
        if let Some(pid) = pid_of(self.id) {
            // All of them may have ended.
            let _ = kill_process_group(pid, signal);
        }
    }

    pub(crate) fn kill(self) {
        if self.is_group {
            // It must not end well because all that it waits for has ended.
            self.signal_group(Signal::STOP);
            kill_descendants(self.id);
            return self.kill_group();
        }
        let Some(pid) = pid_of(self.id) else { return };
        // A namespace that bubblewrap has just begun does not end with it. Once it has stopped, it begins none.
        let _ = kill_process(pid, Signal::STOP);
        for _ in 0..STOP_LOOKS {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id));
            let stat = stat.unwrap_or_default();
            let state = fields_of(&stat).and_then(|mut fields| fields.next());
            if !matches!(state, Some("R" | "S" | "D")) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let children = children_by_parent().remove(&self.id);
        for child in children.into_iter().flatten().filter_map(pid_of) {
            let _ = kill_process(child, Signal::KILL);
        }
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn pid_of(id: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(id).ok()?)
}

/// Kills all that a process has started. Those whose parents have ended are found if the process is the one that gets them.
pub(crate) fn kill_descendants(root: u32) {
    // Some can begin before their parents end.
    for _ in 0..3 {
        for child in descendants(root).into_iter().filter_map(pid_of) {
            // It may have ended.
            let _ = kill_process(child, Signal::KILL);
        }
    }
}

fn descendants(root: u32) -> Vec<u32> {
    let mut children = children_by_parent();
    let mut all = Vec::new();
    let mut open = vec![root];
    while let Some(id) = open.pop() {
        let own = children.remove(&id).unwrap_or_default();
        all.extend(&own);
        open.extend(own);
    }
    all
}

/// Ends a process that takes more than it may.
pub(crate) struct Watchdog {
    pub(crate) target: Target,
    pub(crate) limits: Limits,
    pub(crate) session: PathBuf,
    pub(crate) running: Running,
    /// Resources that the machine keeps for others.
    pub(crate) least: Machine,
    pub(crate) stopped: Arc<OnceLock<String>>,
}

impl Watchdog {
    pub(crate) async fn run(self) {
        let _entry = self.running.enter(self.target.id, &self.session);
        // Measuring the disk can take long, and memory does not wait for it.
        let reason = tokio::select! {
            reason = self.watch_processes() => reason,
            reason = self.watch_disk() => reason,
            // A turn can take more than is counted: files without a name, and memory without a process.
            reason = self.watch_machine() => reason,
        };
        let _ = self.stopped.set(reason);
        self.target.kill();
    }

    async fn watch_processes(&self) -> String {
        let Limits { memory_mb, processes, .. } = self.limits;
        loop {
            sleep(MEMORY_INTERVAL).await;
            let usage = Usage::of(self.target.id);
            if usage.memory > memory_mb << 20 {
                return format!("more than {memory_mb} MiB of memory");
            }
            // The kernel does not limit the processes of root, nor those without a namespace.
            if usage.processes > processes {
                return format!("more than {processes} processes");
            }
        }
    }

    async fn watch_disk(&self) -> String {
        loop {
            sleep(DISK_INTERVAL).await;
            // A directory that cannot be measured is not below the limit.
            if disk_of(&self.session).await.is_none_or(|bytes| bytes > self.limits.disk_mb << 20) {
                return format!("more than {} MiB of disk", self.limits.disk_mb);
            }
        }
    }

    async fn watch_machine(&self) -> String {
        loop {
            let shortage = machine::short(&self.session, self.least).await;
            if self.ends_for(shortage).await {
                return shortage.to_string();
            }
        }
    }

    /// Checks whether the process is the one that ends for a shortage. After one has ended, the others wait for what it has taken.
    async fn ends_for(&self, shortage: Shortage) -> bool {
        let own = self.target.id;
        if !self.running.watched().has_recovered() {
            return false;
        }
        let sessions = self.running.watched().sessions.clone();
        let mut greediest = (0, own);
        if sessions.len() > 1 {
            for (id, session) in &sessions {
                let taken = match shortage {
                    Shortage::Memory(_) => Usage::of(*id).memory,
                    Shortage::Disk(_) | Shortage::Files(_) => {
                        disk_of(session).await.unwrap_or(u64::MAX)
                    }
                };
                greediest = greediest.max((taken, *id));
            }
        }
        let mut watched = self.running.watched();
        let ends = watched.has_recovered() && greediest.1 == own;
        if ends {
            watched.ended_at = Some(Instant::now());
        }
        ends
    }
}

/// Fields of `/proc/PID/stat` after the name: the state, the parent, and others.
fn fields_of(stat: &str) -> Option<SplitWhitespace<'_>> {
    // The name, in parentheses, can hold anything.
    Some(stat.rsplit_once(')')?.1.split_whitespace())
}

fn children_by_parent() -> HashMap<u32, Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let parent = fields_of(&stat).and_then(|mut fields| fields.nth(1)?.parse().ok());
        if let Some(parent) = parent {
            children.entry(parent).or_default().push(id);
        }
    }
    children
}

/// Resources that a process and its descendants take.
#[derive(Debug, Default, PartialEq, Eq)]
struct Usage {
    /// Bytes, with page tables, and without the pages of programs.
    memory: u64,
    /// Number of descendants, with their threads, as the kernel counts them.
    processes: u64,
}

impl Usage {
    fn of(root: u32) -> Self {
        let mut usage = Self::default();
        for id in descendants(root).into_iter().chain([root]) {
            let Ok(status) = std::fs::read_to_string(format!("/proc/{id}/status")) else {
                continue;
            };
            for line in status.lines() {
                let Some((name, value)) = line.split_once(':') else { continue };
                let value = value.trim().trim_end_matches(" kB").parse::<u64>();
                match name {
                    "RssAnon" | "RssShmem" | "VmSwap" | "VmPTE" => {
                        usage.memory += value.unwrap_or(0) << 10;
                    }
                    "Threads" if id != root => usage.processes += value.unwrap_or(0),
                    _ => {}
                }
            }
        }
        usage
    }
}

/// Size of a session's files in bytes.
pub(crate) async fn disk_of(session: &Path) -> Option<u64> {
    for _ in 0..2 {
        let mut command = Command::new("du");
        command.args(["-skx", "--"]).arg(session).env("LC_ALL", "C");
        let ended = finish(command, Duration::from_mins(1), 4096).await.ok()?;
        if !ended.stderr.contains("Permission denied") {
            let text = String::from_utf8_lossy(&ended.stdout).into_owned();
            return Some(text.split_whitespace().next()?.parse::<u64>().ok()? << 10);
        }
        // Directories without permissions hide their size.
        let mut command = Command::new("chmod");
        command.args(["-R", "u+rwX", "--"]).arg(session);
        finish(command, Duration::from_mins(1), 0).await.ok()?;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use tokio::process::Child;

    use super::*;

    #[test]
    fn memory_of_a_process_is_counted_with_its_children() {
        let own = Usage::of(std::process::id());
        assert!(own.memory > 100 << 10, "{own:?}");
        assert_eq!(Usage::of(u32::MAX), Usage::default());
    }

    #[tokio::test]
    async fn a_process_is_stopped_before_the_machine_has_nothing_left() {
        let directory = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("300").kill_on_drop(true).spawn().unwrap();
        let stopped = Arc::new(OnceLock::new());
        let watchdog = Watchdog {
            target: Target { id: child.id().unwrap(), is_group: false },
            limits: Limits::default(),
            least: Machine { disk: u64::MAX, files: 0, memory: 0 },
            session: directory.path().to_owned(),
            running: Running::default(),
            stopped: stopped.clone(),
        };
        watchdog.run().await;
        assert!(stopped.get().unwrap().ends_with("MiB of disk are free"));
        assert!(!child.wait().await.unwrap().success());
    }

    #[tokio::test]
    async fn hidden_directories_count_as_disk() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let hidden = directory.path().join("hidden");
        std::fs::create_dir(&hidden).unwrap();
        std::fs::write(hidden.join("file"), vec![1; 1 << 20]).unwrap();
        std::fs::set_permissions(&hidden, PermissionsExt::from_mode(0o000)).unwrap();
        assert!(disk_of(directory.path()).await.unwrap() >= 1 << 20);
        crate::git::remove(&hidden).await.unwrap();
        assert!(!hidden.exists());
    }

    #[test]
    fn a_namespace_that_begins_ends_with_bubblewrap() {
        let directory = tempfile::tempdir().unwrap();
        let mark = directory.path().display().to_string();
        let arguments = "--unshare-user --unshare-all --disable-userns --die-with-parent --ro-bind / / --proc /proc --dev /dev --bind";
        let bubblewrap = |words: &[&str]| {
            let mut command = std::process::Command::new("bwrap");
            command.args(arguments.split(' ')).args([&mark, "/tmp"]).args(words);
            command.stdin(Stdio::null()).stderr(Stdio::null()).spawn()
        };
        let can_begin = bubblewrap(&["true"]).and_then(|mut child| child.wait());
        if !can_begin.is_ok_and(|status| status.success()) {
            return;
        }
        for n in 0..100 {
            let mut child = bubblewrap(&["sleep", "100"]).unwrap();
            std::thread::sleep(Duration::from_micros(n * 150));
            Target { id: child.id(), is_group: false }.kill();
            child.wait().unwrap();
        }
        // Killed processes can take a moment to end.
        std::thread::sleep(Duration::from_millis(500));
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let arguments =
            entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        let left = arguments.filter(|bytes| String::from_utf8_lossy(bytes).contains(&mark));
        assert_eq!(left.count(), 0);
    }

    /// A watchdog of a process that waits, on a machine without room.
    fn on_a_full_disk(session: &Path, running: &Running) -> (Child, Watchdog) {
        let child = Command::new("sleep").arg("300").kill_on_drop(true).spawn().unwrap();
        let watchdog = Watchdog {
            target: Target { id: child.id().unwrap(), is_group: false },
            limits: Limits::default(),
            least: Machine { disk: u64::MAX, files: 0, memory: 0 },
            session: session.to_owned(),
            running: running.clone(),
            stopped: Arc::default(),
        };
        (child, watchdog)
    }

    #[tokio::test]
    async fn only_the_greediest_process_ends_on_a_full_machine() {
        let (small, large) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(large.path().join("file"), vec![1; 1 << 20]).unwrap();
        let running = Running::default();
        let (mut kept, other) = on_a_full_disk(small.path(), &running);
        let (mut ended, greedy) = on_a_full_disk(large.path(), &running);
        tokio::select! {
            () = other.run() => panic!("the other process ended"),
            () = greedy.run() => {}
        }
        assert!(!ended.wait().await.unwrap().success());
        assert!(kept.try_wait().unwrap().is_none());
    }

    #[tokio::test]
    async fn processes_above_the_limit_end() {
        let directory = tempfile::tempdir().unwrap();
        let script = "for n in 1 2 3 4; do sleep 300 & done; wait";
        let mut child = Command::new("sh").args(["-c", script]).process_group(0).spawn().unwrap();
        let stopped = Arc::new(OnceLock::new());
        let watchdog = Watchdog {
            target: Target { id: child.id().unwrap(), is_group: true },
            limits: Limits { processes: 3, ..Limits::default() },
            least: Machine { disk: 0, files: 0, memory: 0 },
            session: directory.path().to_owned(),
            running: Running::default(),
            stopped: stopped.clone(),
        };
        watchdog.run().await;
        assert_eq!(stopped.get().unwrap(), "more than 3 processes");
        assert!(!child.wait().await.unwrap().success());
    }
}
