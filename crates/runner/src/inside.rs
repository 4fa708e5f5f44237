//! The process that limits itself, bridges the door, and then starts a command: `PROGRAM runner inside LIMITS -- COMMAND`.
//!
//! Inside of the sandbox, it is the parent of all others; when its command ends, the namespace ends.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::{fs::symlink, net::UnixStream},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::SystemTime,
};

use rlimit::Resource;
use rustix::{
    fs::Mode,
    process::{getpid, set_child_subreaper},
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};
use serde::{Deserialize, Serialize};

use crate::watchdog::kill_descendants;

/// Port of the door inside of the sandbox.
pub(crate) const DOOR_PORT: u16 = 3128;
const CONNECTIONS_MAX: usize = 64;
/// Address families that a network namespace contains. Others reach outside of it, such as the host of a virtual machine (`AF_VSOCK`).
const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Limits that processes inherit.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Limited {
    pub(crate) processes: Option<u64>,
    pub(crate) file_mb: Option<u64>,
    pub(crate) address_mb: Option<u64>,
    pub(crate) cpu: Option<usize>,
    /// True if the kernel kills these processes first when memory is short.
    pub(crate) dies_first: bool,
    /// True if all that the command has started ends with it, as it does in a namespace.
    pub(crate) ends_all: bool,
    /// True if system calls that reach outside of namespaces fail: sockets must be of `FAMILIES`, and there are no keys.
    pub(crate) namespaced_calls: bool,
    /// Socket of the door, which gets a port of this machine.
    pub(crate) door: Option<PathBuf>,
    /// Folders of skills, which the home directory gets links to.
    pub(crate) skills: Option<PathBuf>,
}

impl Limited {
    /// A command that runs another one with these limits.
    pub(crate) fn command(
        &self,
        program: &Path,
        command: impl IntoIterator<Item = String>,
    ) -> tokio::process::Command {
        let mut limited = tokio::process::Command::new(program);
        limited.args(self.arguments()).args(command);
        limited
    }

    /// Arguments of this program, before the command's.
    pub(crate) fn arguments(&self) -> [String; 4] {
        let limits = serde_json::to_string(self).unwrap_or_default();
        ["runner".to_owned(), "inside".to_owned(), limits, "--".to_owned()]
    }

    fn enter(&self) -> io::Result<()> {
        // The program creates private files, and commands create files as usual.
        rustix::process::umask(Mode::from_raw_mode(0o022));
        if self.dies_first {
            fs::write("/proc/self/oom_score_adj", "1000")?;
        }
        if let Some(count) = self.cpu {
            let possible = sched_getaffinity(None)?;
            let all: Vec<usize> =
                (0..CpuSet::MAX_CPU).filter(|cpu| possible.is_set(*cpu)).collect();
            // Not always the same ones: inside of a namespace, the process IDs are.
            let nanos = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.subsec_nanos());
            let first = nanos as usize % all.len().max(1);
            let mut own = CpuSet::new();
            for cpu in all.iter().cycle().skip(first).take(count.min(all.len())) {
                own.set(*cpu);
            }
            sched_setaffinity(None, &own)?;
        }
        let megabytes = |size: Option<u64>| size.map(|size| size << 20);
        for (resource, limit) in [
            (Resource::CORE, Some(0)),
            (Resource::FSIZE, megabytes(self.file_mb)),
            (Resource::AS, megabytes(self.address_mb)),
            (Resource::NPROC, self.processes),
        ] {
            if let Some(limit) = limit {
                let (_, hard) = resource.get()?;
                resource.set(limit.min(hard), limit.min(hard))?;
            }
        }
        if self.namespaced_calls {
            let filter = call_filter().map_err(io::Error::other)?;
            seccompiler::apply_filter(&filter).map_err(io::Error::other)?;
        }
        Ok(())
    }
}

/// A filter that refuses sockets of other families, the interface that makes sockets without the filtered system call, and the kernel's keys:
/// processes inherit the keyring of the runner, which no namespace contains.
fn call_filter() -> Result<BpfProgram, BackendError> {
    let is_other = FAMILIES.map(|family| {
        let family = u64::from(family.unsigned_abs());
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)
    });
    let is_other: Result<Vec<_>, _> = is_other.into_iter().collect();
    let rules = BTreeMap::from([
        (libc::SYS_socket, vec![SeccompRule::new(is_other?)?]),
        (libc::SYS_io_uring_setup, Vec::new()),
        (libc::SYS_keyctl, Vec::new()),
        (libc::SYS_add_key, Vec::new()),
        (libc::SYS_request_key, Vec::new()),
    ]);
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let architecture = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Allow, refused, architecture)?.try_into()
}

/// Runs a command within limits: `PROGRAM runner inside LIMITS -- COMMAND`.
pub fn run(limits: &str, command: &[String]) -> ExitCode {
    let Ok(limits) = serde_json::from_str::<Limited>(limits) else { return ExitCode::from(125) };
    let [program, rest @ ..] = command else { return ExitCode::from(125) };
    // The bridge listens before the command can connect.
    if let Some(door) = &limits.door
        && bridge(door.clone()).is_err()
    {
        return ExitCode::from(124);
    }
    if limits.enter().is_err() {
        return ExitCode::from(123);
    }
    if let Some((skills, home)) = limits.skills.as_ref().zip(std::env::var_os("HOME")) {
        for folder in [".agents", ".claude"] {
            // An agent that spoils its home directory is only without skills.
            let _ = link_skills(skills, &Path::new(&home).join(folder));
        }
    }
    let mut command = std::process::Command::new(program);
    command.args(rest);
    // It gets the processes whose parents have ended.
    if limits.ends_all && set_child_subreaper(Some(getpid())).is_err() {
        return ExitCode::from(123);
    }
    if limits.door.is_none() && !limits.ends_all {
        use std::os::unix::process::CommandExt;
        return missing(program, &command.exec());
    }
    let ended = command.status();
    if limits.ends_all {
        kill_descendants(std::process::id());
    }
    match ended {
        Ok(status) => {
            ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(137))
        }
        Err(error) => missing(program, &error),
    }
}

/// Names a program that cannot be started.
fn missing(program: &str, error: &io::Error) -> ExitCode {
    // The status has to be enough if nobody reads this.
    let _ = writeln!(io::stderr(), "{program} cannot be started: {error}");
    ExitCode::from(127)
}

/// Links the folders of skills into `skills` of a directory, and removes links to others. An earlier process can have put anything there.
fn link_skills(skills: &Path, directory: &Path) -> io::Result<()> {
    let links = directory.join("skills");
    let is_directory = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
    let folders: Vec<fs::DirEntry> = fs::read_dir(skills)?.collect::<Result<_, _>>()?;
    for path in [directory, links.as_path()] {
        if is_directory(path) {
            continue;
        }
        if folders.is_empty() {
            return Ok(());
        }
        remove(path)?;
        fs::create_dir(path)?;
    }
    for entry in fs::read_dir(&links)? {
        let path = entry?.path();
        if fs::read_link(&path).is_ok_and(|target| target.starts_with(skills)) {
            fs::remove_file(path)?;
        }
    }
    for folder in folders {
        let link = links.join(folder.file_name());
        remove(&link)?;
        symlink(folder.path(), link)?;
    }
    Ok(())
}

/// Removes whatever is at a path; links are not followed.
fn remove(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

/// Forwards connections to the door's port to its socket.
fn bridge(door: PathBuf) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", DOOR_PORT))?;
    let open = Arc::new(AtomicUsize::new(0));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
                open.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (door, open) = (door.clone(), open.clone());
            let forwarding = thread::Builder::new().stack_size(128 << 10).spawn(move || {
                // The client sees that the connection ends.
                let _ = forward(&stream, &door);
                open.fetch_sub(1, Ordering::Relaxed);
            });
            drop(forwarding);
        }
    });
    Ok(())
}

fn forward(client: &TcpStream, door: &Path) -> io::Result<()> {
    let door = UnixStream::connect(door)?;
    let (mut to_door, mut from_client) = (door.try_clone()?, client.try_clone()?);
    let sending = thread::Builder::new().stack_size(128 << 10).spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_door);
        let _ = to_door.shutdown(Shutdown::Write);
    })?;
    let mut to_client = client;
    let copied = io::copy(&mut &door, &mut to_client);
    let _ = client.shutdown(Shutdown::Both);
    let _ = door.shutdown(Shutdown::Both);
    let _ = sending.join();
    copied.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_follow_the_skills_and_leave_what_others_put_there() {
        let directory = tempfile::tempdir().unwrap();
        let (skills, home) = (directory.path().join("skills"), directory.path().join("home"));
        fs::create_dir_all(&home).unwrap();
        let place = |names: &[&str]| {
            let _ = fs::remove_dir_all(&skills);
            for name in names {
                fs::create_dir_all(skills.join(name)).unwrap();
                fs::write(skills.join(name).join("SKILL.md"), *name).unwrap();
            }
            fs::create_dir_all(&skills).unwrap();
            link_skills(&skills, &home.join(".agents")).unwrap();
        };
        let read = |name: &str| {
            fs::read_to_string(home.join(".agents/skills").join(name).join("SKILL.md")).ok()
        };
        place(&[]);
        assert!(!home.join(".agents").exists());
        place(&["moon", "tides"]);
        assert_eq!(
            (read("moon").as_deref(), read("tides").as_deref()),
            (Some("moon"), Some("tides"))
        );
        let own = home.join(".agents/skills/own");
        fs::create_dir(&own).unwrap();
        fs::write(own.join("SKILL.md"), "own").unwrap();
        place(&["tides"]);
        assert_eq!((read("moon"), read("own").as_deref()), (None, Some("own")));
        assert!(home.join(".agents/skills/moon").symlink_metadata().is_err());
    }

    #[test]
    fn hostile_homes_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let skills = path.join("skills");
        for name in ["skills/tides", "home", "victim/skills/tides"] {
            fs::create_dir_all(path.join(name)).unwrap();
        }
        fs::write(path.join("victim/skills/tides/kept"), "").unwrap();
        let agents = path.join("home/.agents");
        symlink(path.join("victim"), &agents).unwrap();
        link_skills(&skills, &agents).unwrap();
        assert!(agents.symlink_metadata().unwrap().is_dir());
        remove(&agents.join("skills")).unwrap();
        symlink(path.join("victim/skills"), agents.join("skills")).unwrap();
        link_skills(&skills, &agents).unwrap();
        remove(&agents.join("skills/tides")).unwrap();
        symlink(path.join("victim/skills/tides"), agents.join("skills/tides")).unwrap();
        link_skills(&skills, &agents).unwrap();
        assert_eq!(fs::read_link(agents.join("skills/tides")).unwrap(), skills.join("tides"));
        // A folder of the agent's own with the name of a skill goes.
        remove(&agents.join("skills/tides")).unwrap();
        fs::create_dir(agents.join("skills/tides")).unwrap();
        fs::write(agents.join("skills/tides/SKILL.md"), "Lies").unwrap();
        link_skills(&skills, &agents).unwrap();
        assert!(!agents.join("skills/tides/SKILL.md").exists());
        assert!(path.join("victim/skills/tides/kept").exists());
    }
}
