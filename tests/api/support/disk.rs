//! A small dedicated disk that a test can fill. It outlives the servers whose data is on it.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use super::process::started_by;

pub(super) fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Command that runs a program in its own mount namespace.
pub(super) fn unshare() -> Command {
    let mut unshare = Command::new("unshare");
    unshare.arg(if is_root() { "-m" } else { "-Urm" });
    unshare
}

pub struct Disk {
    /// Process that keeps the disk's mount namespace alive; ends with the test.
    holder: Child,
    dir: PathBuf,
}

impl Disk {
    /// An empty disk, mounted at `dir` for processes in its namespace.
    ///
    /// # Errors
    /// The command's output if mounting is not permitted.
    pub fn new(dir: &Path, mib: u64) -> Result<Self, String> {
        std::fs::create_dir_all(dir).unwrap();
        let script = format!(
            "mount -t tmpfs -o size={mib}m tmpfs {}; echo mounted; exec cat",
            dir.display()
        );
        let holder = unshare()
            .args(["sh", "-ec", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut holder = holder.map_err(|e| format!("unshare: {e}"))?;
        let mut said = String::new();
        BufReader::new(holder.stdout.as_mut().unwrap())
            .read_line(&mut said)
            .unwrap();
        if said == "mounted\n" {
            let dir = dir.to_owned();
            return Ok(Self { holder, dir });
        }
        let output = holder.wait_with_output().unwrap();
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }

    /// Wraps a command, so that it runs in the disk's namespace.
    pub(super) fn inside(&self, command: &Command) -> Command {
        let mut nsenter = Command::new("nsenter");
        nsenter.args(["-t", &self.holder.id().to_string(), "-m"]);
        if !is_root() {
            nsenter.args(["-U", "--preserve-credentials"]);
        }
        started_by(nsenter, command)
    }

    /// Path of a file on the disk from outside the namespace.
    pub fn path(&self, name: &str) -> PathBuf {
        let root = format!("/proc/{}/root", self.holder.id());
        let dir = self.dir.strip_prefix("/").unwrap();
        Path::new(&root).join(dir).join(name)
    }

    /// Fills the disk completely.
    pub fn fill(&self) {
        let mut file = File::create(self.path("filler")).unwrap();
        let mut piece = vec![b'x'; 1 << 20];
        while !piece.is_empty() {
            if file.write(&piece).is_err() {
                piece.truncate(piece.len() / 2);
            }
        }
    }

    /// Writes a file of this size, without filling the disk.
    pub fn write(&self, name: &str, mib: usize) {
        std::fs::write(self.path(name), vec![b'x'; mib << 20]).unwrap();
    }

    /// Removes the file that fills the disk.
    pub fn free(&self) {
        std::fs::remove_file(self.path("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The process may have already ended.
        drop(self.holder.kill());
        drop(self.holder.wait());
    }
}
