//! Processes of a session: in a namespace of bubblewrap, or as they are (`none`), with limits and a watchdog.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::{
    io::AsyncReadExt,
    process::{Child, ChildStderr, Command},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    Owner,
    config::{Config, Limits, SandboxKind},
    failure::{Failure, finish},
    frames::{Program, TurnLimits, cut},
    inside::{DOOR_PORT, Limited},
    machine,
    running::Running,
    watchdog::{Target, Watchdog, disk_of},
};

/// Directory of the skills' folders in the session's directory.
pub(crate) const FOLDERS: &str = "skills";

/// Time in which a process ends after its streams, and its streams after it.
const END_MAX: Duration = Duration::from_secs(1);
const ERROR_BYTES_MAX: usize = 16 << 10;

const UNAVAILABLE: &str = "bubblewrap cannot create a namespace here: run on the host, allow user namespaces, or set \
    sandbox = \"none\" if this machine holds nothing to protect";

/// Skills as processes see them.
const SKILLS: &str = "/run/openvibe/skills";

/// The copy as processes see it.
const COPY: &str = "/work";

/// Directories of a session that processes can write, with the paths where they see them. Memory of temporary file systems belongs to no process:
/// these are directories, and count as disk.
const WRITABLE: [(&str, &str); 4] =
    [("tmp", "/tmp"), ("shm", "/dev/shm"), ("home", "/home/agent"), ("copy", COPY)];

/// Directories of a session.
pub(crate) struct Places {
    pub(crate) session: PathBuf,
    /// The mirror, which the copy shares objects with.
    pub(crate) mirror: Option<PathBuf>,
}

impl Places {
    pub(crate) fn copy(&self) -> PathBuf {
        self.session.join("copy")
    }

    /// Checks whether a mount at this path stays inside. In a directory that processes can write, bubblewrap would follow their links, and make
    /// directories outside of the sandbox.
    fn is_free_of_links(&self, path: &Path) -> bool {
        WRITABLE.iter().all(|(name, inside)| {
            let Ok(rest) = path.strip_prefix(inside) else { return true };
            let mut at = self.session.join(name);
            for part in rest.components() {
                at.push(part);
                match at.symlink_metadata() {
                    Ok(found) if found.is_symlink() => return false,
                    Ok(_) => {}
                    // Bubblewrap sees more than the runner while it mounts.
                    Err(error) => return error.kind() == io::ErrorKind::NotFound,
                }
            }
            true
        })
    }

    pub(crate) fn create(&self) -> io::Result<()> {
        for directory in ["home", "tmp", "shm", "etc", "scratch", FOLDERS] {
            std::fs::create_dir_all(self.session.join(directory))?;
        }
        let user = rustix::process::getuid().as_raw();
        let group = rustix::process::getgid().as_raw();
        let etc = self.session.join("etc");
        std::fs::write(
            etc.join("passwd"),
            format!("agent:x:{user}:{group}::/home/agent:/bin/sh\n"),
        )?;
        std::fs::write(etc.join("group"), format!("agent:x:{group}:\n"))?;
        std::fs::write(etc.join("hosts"), "127.0.0.1 localhost\n")
    }
}

/// The sandbox of a session.
pub(crate) struct Sandbox {
    kind: SandboxKind,
    program: PathBuf,
    paths: Vec<PathBuf>,
    limits: Limits,
    running: Running,
    /// Maximum size of a file.
    file_mb: u64,
    /// True if agents cannot change the copy.
    is_fixed: bool,
    pub(crate) places: Places,
}

/// The door as processes see it.
pub(crate) enum DoorAddress {
    Socket(PathBuf),
    Port(u16),
}

impl DoorAddress {
    /// Address without a slash at the end.
    pub(crate) fn url(&self) -> String {
        let port = match self {
            Self::Socket(_) => DOOR_PORT,
            Self::Port(port) => *port,
        };
        format!("http://127.0.0.1:{port}")
    }
}

impl Sandbox {
    pub(crate) fn new(config: &Config, places: Places) -> Self {
        Self {
            kind: config.sandbox,
            program: config.program.clone(),
            paths: config.paths.clone(),
            limits: config.limits.clone(),
            running: config.running.clone(),
            file_mb: config.limits.disk_mb,
            is_fixed: false,
            places,
        }
    }

    /// Applies limits, if they are stricter.
    fn within(mut self, memory_mb: Option<u64>, cpu: Option<usize>) -> Self {
        let limits = &mut self.limits;
        limits.memory_mb = memory_mb.unwrap_or(limits.memory_mb).min(limits.memory_mb);
        limits.cpu = cpu.unwrap_or(limits.cpu).clamp(1, limits.cpu);
        self
    }

    /// Applies the limits of a program, if they are stricter. Files that it must not write stay empty.
    pub(crate) fn within_program(self, program: &Program) -> Self {
        let file_mb = if program.writes { self.file_mb } else { 0 };
        Self { file_mb, ..self.within(program.memory_mb, program.cpu) }
    }

    /// Applies the limits of an agent's sandbox policy, if they are stricter.
    pub(crate) fn within_policy(self, policy: &TurnLimits) -> Self {
        let is_fixed = !policy.writes;
        Self { is_fixed, ..self.within(Some(policy.memory_mb), Some(policy.cpu)) }
    }

    pub(crate) fn kind(&self) -> SandboxKind {
        self.kind
    }

    /// The copy's path as processes see it.
    pub(crate) fn work(&self) -> PathBuf {
        match self.kind {
            SandboxKind::Bubblewrap => PathBuf::from(COPY),
            SandboxKind::None => self.places.copy(),
        }
    }

    /// Path of this program as processes see it.
    pub(crate) fn program(&self) -> String {
        match self.kind {
            SandboxKind::Bubblewrap => "/run/openvibe/program".to_owned(),
            SandboxKind::None => self.program.display().to_string(),
        }
    }

    /// A command that runs `words` in the sandbox.
    pub(crate) fn command(
        &self,
        words: &[String],
        env: &BTreeMap<String, String>,
        door: Option<&DoorAddress>,
    ) -> Command {
        let contained = self.kind == SandboxKind::Bubblewrap;
        let limited = Limited {
            // Without a namespace, this would count all processes of the user.
            processes: contained.then_some(self.limits.processes),
            file_mb: Some(self.file_mb),
            address_mb: None,
            cpu: Some(self.limits.cpu),
            dies_first: true,
            ends_all: !contained,
            // In the sandbox, bubblewrap has the filter, and passes it on.
            namespaced_calls: false,
            door: door.filter(|_| contained).map(|_| PathBuf::from("/run/openvibe/door")),
            skills: Some(match self.kind {
                SandboxKind::Bubblewrap => PathBuf::from(SKILLS),
                SandboxKind::None => self.places.session.join(FOLDERS),
            }),
        };
        let home =
            if contained { PathBuf::from("/home/agent") } else { self.places.session.join("home") };
        let own = |directory: &PathBuf| format!("{0}/bin:{0}:", directory.display());
        let mut path: Vec<String> = self.paths.iter().map(own).collect();
        path.push("/usr/local/bin:/usr/bin:/bin".to_owned());
        let mut all: BTreeMap<&str, String> = BTreeMap::from([
            ("PATH", path.concat()),
            ("HOME", home.display().to_string()),
            ("USER", "agent".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            ("GIT_TERMINAL_PROMPT", "0".to_owned()),
        ]);
        if !contained {
            all.insert("TMPDIR", self.places.session.join("tmp").display().to_string());
        }
        let url = door.map(DoorAddress::url);
        if let Some(url) = &url {
            for name in ["https_proxy", "HTTPS_PROXY"] {
                all.insert(name, url.clone());
            }
            // Clients use this proxy for the door's own address, too, which is not a host that it connects to.
            for name in ["no_proxy", "NO_PROXY"] {
                all.insert(name, "127.0.0.1,localhost".to_owned());
            }
        }
        let fill = |text: &str| {
            let text = text.replace("$PROGRAM", &self.program());
            text.replace("$DOOR", url.as_deref().unwrap_or("http://127.0.0.1:9"))
        };
        all.extend(env.iter().map(|(name, value)| (name.as_str(), fill(value))));
        let words = limited.arguments().into_iter().chain(words.iter().map(|word| fill(word)));
        if !contained {
            let mut command = Command::new(&self.program);
            command.args(words).env_clear().envs(all).current_dir(self.work()).process_group(0);
            return command;
        }
        // Bubblewrap stays as the first process of the namespace, and others can trace it there: the filter must hold for it, too.
        let filter = Limited { namespaced_calls: true, ..Limited::default() };
        let mut command = filter.command(&self.program, ["bwrap".to_owned()]);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.args(self.mounts(door));
        for (name, value) in all {
            command.args(["--setenv", name]).arg(value);
        }
        command.args(["--chdir", COPY, "--"]).arg(self.program()).args(words);
        command
    }

    fn mounts(&self, door: Option<&DoorAddress>) -> Vec<String> {
        let mut list: Vec<String> = Vec::new();
        let mut add = |words: &[&str]| list.extend(words.iter().map(|word| (*word).to_owned()));
        add(&[
            "--unshare-user",
            "--unshare-all",
            "--disable-userns",
            "--die-with-parent",
            "--new-session",
        ]);
        add(&[
            "--cap-drop",
            "ALL",
            "--clearenv",
            "--hostname",
            "sandbox",
            "--ro-bind",
            "/usr",
            "/usr",
        ]);
        for name in ["/bin", "/sbin", "/lib", "/lib32", "/lib64"] {
            match std::fs::read_link(name) {
                Ok(target) => add(&["--symlink", &target.display().to_string(), name]),
                Err(_) => add(&["--ro-bind-try", name, name]),
            }
        }
        for name in ["ssl", "pki", "ca-certificates", "alternatives", "ld.so.cache", "localtime"] {
            let path = format!("/etc/{name}");
            add(&["--ro-bind-try", &path, &path]);
        }
        add(&["--proc", "/proc", "--dev", "/dev"]);
        // Bubblewrap covers these only if it believes that they can be written, which it does not for root without capabilities.
        for name in ["/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs"] {
            add(&["--ro-bind-try", name, name]);
        }
        // In a turn, only the agent has a door: its changes are still listed, and checked.
        let is_fixed = self.is_fixed && door.is_some();
        for (name, path) in WRITABLE {
            let bind = if is_fixed && path == COPY { "--ro-bind" } else { "--bind" };
            add(&[bind, &self.places.session.join(name).display().to_string(), path]);
        }
        for name in ["passwd", "group", "hosts"] {
            let from = self.places.session.join("etc").join(name).display().to_string();
            add(&["--ro-bind", &from, &format!("/etc/{name}")]);
        }
        for path in self.paths.iter().chain(&self.places.mirror) {
            if !self.places.is_free_of_links(path) {
                tracing::warn!(path = %path.display(), "a link of the agent is in the way: not mounted");
                continue;
            }
            let path = path.display().to_string();
            add(&["--ro-bind", &path, &path]);
        }
        add(&["--ro-bind", &self.program.display().to_string(), "/run/openvibe/program"]);
        // Not in the home directory: bubblewrap would follow links there.
        add(&["--ro-bind", &self.places.session.join(FOLDERS).display().to_string(), SKILLS]);
        if let Some(DoorAddress::Socket(socket)) = door {
            add(&["--ro-bind", &socket.display().to_string(), "/run/openvibe/door"]);
        }
        add(&["--remount-ro", "/dev", "--remount-ro", "/"]);
        list
    }

    /// Starts a process with its watchdog.
    pub(crate) fn start(&self, mut command: Command, owner: &Owner) -> io::Result<Contained> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let child = command.spawn()?;
        self.watch(child, owner)
    }

    fn watch(&self, mut child: Child, owner: &Owner) -> io::Result<Contained> {
        let Some(id) = child.id() else { return Err(io::ErrorKind::NotFound.into()) };
        let target = Target { id, is_group: self.kind == SandboxKind::None };
        let stopped = Arc::new(OnceLock::new());
        let token = CancellationToken::new();
        let watchdog = Watchdog {
            target,
            limits: self.limits.clone(),
            session: self.places.session.clone(),
            running: self.running.clone(),
            least: machine::LEAST,
            stopped: stopped.clone(),
        };
        let ended = token.clone();
        owner.spawn(async move {
            ended.run_until_cancelled(watchdog.run()).await;
        });
        let errors = child.stderr.take().map(|stream| owner.spawn(last_bytes(stream)));
        Ok(Contained { child, target, stopped, errors, _watching: token.drop_guard() })
    }

    /// Runs a shell command, and returns its exit status with the duration.
    pub(crate) async fn shell(
        &self,
        script: &str,
        env: &BTreeMap<String, String>,
        door: Option<&DoorAddress>,
        duration_max: Duration,
        owner: &Owner,
    ) -> Result<Ended, Failure> {
        let words = ["sh", "-c", script].map(str::to_owned);
        let mut command = self.command(&words, env, door);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let started = tokio::time::Instant::now();
        let child = command.spawn().map_err(|error| self.unavailable(&error))?;
        let mut contained = self.watch(child, owner)?;
        let status = timeout(duration_max, contained.child.wait()).await;
        contained.kill().await;
        let code = match status {
            Ok(status) => status?.code().unwrap_or(137),
            Err(_) => 124,
        };
        let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(Ended { code, ms, stopped: contained.stopped() })
    }

    /// Writes the standard output of a command to a file, up to a size. Returns false if there is more.
    pub(crate) async fn output(
        &self,
        script: &str,
        argument: &str,
        to: &Path,
        bytes_max: u64,
        owner: &Owner,
    ) -> Result<bool, Failure> {
        let words = ["sh", "-c", script, "sh", argument].map(str::to_owned);
        let command = self.command(&words, &BTreeMap::new(), None);
        let mut contained = self.start(command, owner).map_err(|error| self.unavailable(&error))?;
        drop(contained.child.stdin.take());
        let Some(stdout) = contained.child.stdout.take() else { return Ok(true) };
        let mut bytes = Vec::new();
        let reading = async {
            stdout.take(bytes_max + 1).read_to_end(&mut bytes).await?;
            if bytes.len() as u64 > bytes_max {
                Ok(None)
            } else {
                contained.child.wait().await.map(Some)
            }
        };
        let status: io::Result<Option<_>> = timeout(self.limits.setup, reading)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        contained.kill().await;
        let Some(status) = status? else { return Ok(false) };
        if !status.success() {
            let cause = match contained.stopped() {
                Some(reason) => reason,
                None => contained.error().await.unwrap_or_else(|| "git failed in it".to_owned()),
            };
            return Err(Failure::agent(format!("the changes of the copy cannot be read: {cause}")));
        }
        std::fs::write(to, bytes)?;
        Ok(true)
    }

    /// Checks that a process can start.
    ///
    /// # Errors
    /// The remedy.
    pub(crate) async fn check(&self) -> Result<(), Failure> {
        // It would become a part of each copy.
        let mut mounted = self.paths.iter().chain(&self.places.mirror);
        if self.kind == SandboxKind::Bubblewrap
            && let Some(path) = mounted.find(|path| path.starts_with(COPY))
        {
            return Err(Failure::sandbox(format!(
                "{} is below {COPY}, where agents see their copy: use another directory",
                path.display()
            )));
        }
        std::fs::create_dir_all(self.places.copy())?;
        if let Some(mirror) = &self.places.mirror {
            std::fs::create_dir_all(mirror)?;
        }
        self.places.create()?;
        // Such as a program in the home directory of root, if the runner does not stay root.
        if let Err(error) = std::fs::File::open(&self.program) {
            return Err(Failure::sandbox(format!(
                "the runner's user cannot read {}: install it where all users can ({error})",
                self.program.display()
            )));
        }
        let command = self.command(&["true".to_owned()], &BTreeMap::new(), None);
        match finish(command, Duration::from_secs(20), 0).await {
            Ok(ended) if ended.is_success() => Ok(()),
            Ok(ended) if self.kind == SandboxKind::Bubblewrap && ended.code == Some(127) => {
                Err(Failure::sandbox(
                    "bubblewrap is not installed: install the package bubblewrap, version 0.8 or later",
                ))
            }
            Ok(ended) => Err(Failure::sandbox(format!("{} ({})", self.remedy(), ended.cause()))),
            Err(error) => Err(self.unavailable(&error)),
        }
    }

    /// Checks whether the session has filled its part of the disk, or all of it.
    pub(crate) async fn is_full(&self) -> bool {
        let session = &self.places.session;
        let is_large =
            disk_of(session).await.is_some_and(|bytes| bytes > self.limits.disk_mb << 20);
        is_large || machine::is_disk_full(session)
    }

    fn remedy(&self) -> &'static str {
        match self.kind {
            SandboxKind::Bubblewrap => UNAVAILABLE,
            SandboxKind::None => "processes cannot be started",
        }
    }

    fn unavailable(&self, error: &io::Error) -> Failure {
        Failure::sandbox(format!("{}: {error}", self.remedy()))
    }
}

/// End of a shell command: 124 if it was too slow.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) ms: u64,
    /// Reason of the watchdog.
    pub(crate) stopped: Option<String>,
}

impl Ended {
    /// Reason why a command failed; `None` if it did not.
    pub(crate) fn cause(&self, command: &str, duration_max: Duration) -> Option<String> {
        match (&self.stopped, self.code) {
            (None, 0) => None,
            (Some(stopped), _) => Some(format!("{command} was stopped: {stopped}")),
            (None, 124) => Some(format!("{command} took longer than {} s", duration_max.as_secs())),
            (None, code) => Some(format!("{command} ended with {code}")),
        }
    }
}

/// A running process, with all that it started. Dropping it kills them.
pub(crate) struct Contained {
    pub(crate) child: Child,
    target: Target,
    stopped: Arc<OnceLock<String>>,
    /// The last of what it writes to its standard error.
    errors: Option<JoinHandle<Vec<u8>>>,
    _watching: DropGuard,
}

impl Contained {
    /// Ends the process and all that it started.
    pub(crate) async fn kill(&mut self) {
        // A process that has been reaped has an ID that can belong to another one.
        if self.child.id().is_some() {
            self.target.kill();
        } else if self.target.is_group {
            self.target.kill_group();
        }
        // With the first process of its namespace, all others end.
        let _ = self.child.start_kill();
        let _ = timeout(Duration::from_secs(10), self.child.wait()).await;
    }

    /// Reason why the watchdog ended the process.
    pub(crate) fn stopped(&self) -> Option<String> {
        self.stopped.get().cloned()
    }

    /// Reason why a process that has ended by itself has failed: the error that it has written last, or its exit status. `None` if it runs,
    /// or has not failed.
    pub(crate) async fn error(&mut self) -> Option<String> {
        let status = timeout(END_MAX, self.child.wait()).await.ok()?.ok()?;
        if status.success() {
            return None;
        }
        let text = match self.errors.take() {
            Some(errors) => timeout(END_MAX, errors).await.ok().and_then(Result::ok),
            None => None,
        };
        let text = text.unwrap_or_default();
        Some(last_error(&String::from_utf8_lossy(&text)).unwrap_or_else(|| status.to_string()))
    }
}

/// The last line that names an error, or else the last one: programs print a trace and their version after it.
fn last_error(text: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let last = lines.clone().next_back();
    let error = lines.rfind(|line| line.to_ascii_lowercase().contains("error"));
    error.or(last).map(|line| cut(line, 300).to_owned())
}

/// The last bytes of a stream.
async fn last_bytes(mut stream: ChildStderr) -> Vec<u8> {
    let mut last = Vec::new();
    let mut part = [0; 4096];
    // An error is an end, too.
    while let Ok(count @ 1..) = stream.read(&mut part).await {
        last.extend_from_slice(&part[..count]);
        last.drain(..last.len().saturating_sub(ERROR_BYTES_MAX));
    }
    last
}

impl Drop for Contained {
    fn drop(&mut self) {
        if self.child.id().is_some() {
            self.target.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_agents_are_not_in_the_way_of_mounts() {
        use std::os::unix::fs::symlink;
        let directory = tempfile::tempdir().unwrap();
        let session = directory.path().join("session");
        let repositories = ["api=https://git.example/api.git".to_owned()];
        let config = Config::of_arguments("http://127.0.0.1:9", "ovr_x", &repositories).unwrap();
        for (name, inside) in WRITABLE {
            let own = session.join(name);
            std::fs::create_dir_all(own.join("data")).unwrap();
            let mirror = format!("{inside}/data/mirrors/api");
            let is_mounted = || {
                let places = Places { session: session.clone(), mirror: Some((&*mirror).into()) };
                Sandbox::new(&config, places).mounts(None).contains(&mirror)
            };
            assert!(is_mounted(), "{name}");
            symlink("/oldroot/srv", own.join("data/mirrors")).unwrap();
            assert!(!is_mounted(), "{name}");
            std::fs::remove_dir_all(own.join("data")).unwrap();
            symlink("../../oldroot/srv", own.join("data")).unwrap();
            assert!(!is_mounted(), "{name}");
        }
    }

    #[test]
    fn the_error_of_a_program_is_the_last_one_that_it_names() {
        let node = "node:internal/modules:1228\n  throw err;\n\nError: Cannot find module 'x'\n    at y\n\nNode.js v22.11.0\n";
        assert_eq!(last_error(node).as_deref(), Some("Error: Cannot find module 'x'"));
        assert_eq!(last_error("no license\n\n").as_deref(), Some("no license"));
        assert_eq!(last_error(" \n"), None);
    }

    #[test]
    fn the_stricter_limit_of_the_runner_and_of_a_policy_applies() {
        let repositories = ["api=https://git.example/api.git".to_owned()];
        let config = Config::of_arguments("http://127.0.0.1:9", "ovr_x", &repositories).unwrap();
        let limited = |memory_mb, cpu, writes| {
            let places = Places { session: "/srv/session".into(), mirror: None };
            let policy = TurnLimits { seconds: 60, memory_mb, cpu, writes, hosts: None };
            Sandbox::new(&config, places).within_policy(&policy)
        };
        let strict = limited(256, 1, false);
        assert_eq!((strict.limits.memory_mb, strict.limits.cpu), (256, 1));
        let loose = limited(1 << 20, 64, true);
        assert_eq!((loose.limits.memory_mb, loose.limits.cpu), (4096, 2));
        let door = DoorAddress::Socket("/srv/door".into());
        let bind = |sandbox: &Sandbox, door: Option<&DoorAddress>| {
            let mounts = sandbox.mounts(door);
            let at = mounts.iter().position(|word| word == "/srv/session/copy").unwrap();
            mounts[at - 1].clone()
        };
        assert_eq!(bind(&strict, Some(&door)), "--ro-bind");
        assert_eq!(bind(&strict, None), "--bind");
        assert_eq!(bind(&loose, Some(&door)), "--bind");
    }

    #[tokio::test]
    async fn directories_are_not_mounted_into_the_copy() {
        let directory = tempfile::tempdir().unwrap();
        let repositories = ["api=https://git.example/api.git".to_owned()];
        let mut config =
            Config::of_arguments("http://127.0.0.1:9", "ovr_x", &repositories).unwrap();
        config.paths = vec!["/work/tools".into()];
        let places = Places { session: directory.path().join("check"), mirror: None };
        let error = Sandbox::new(&config, places).check().await.unwrap_err();
        assert!(error.message.starts_with("/work/tools is below /work"), "{}", error.message);
    }
}
