//! Repositories: the mirror, copies, trees after turns, and pushes.
//!
//! No command here reads a copy that an agent has touched: its configuration could name programs. What an agent changed comes as a patch,
//! which is applied to a private index in the mirror, without a work tree. The objects of these changes are private to the session until they
//! are pushed, because agents of all sessions can read the mirror.

use std::{
    collections::HashMap,
    fs::DirEntry,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::{
    process::Command,
    sync::{Mutex, OwnedMutexGuard},
};

use crate::{
    config::{Config, Repository},
    failure::{Failure, Finished, finish, finish_all},
    frames::{ChangedFile, Changes, FRAME_BYTES_MAX, FailureCode, FileStatus, cut},
    inside::Limited,
    machine,
};

/// Maximum size of a patch.
pub(crate) const PATCH_BYTES_MAX: u64 = 20 << 20;
const FILES_MAX: usize = 300;
const NOTES_MAX: usize = 10;
/// Maximum length of a default branch in characters: the server rejects a runner with a longer one.
const BASE_CHARS_MAX: usize = 200;
/// Number of packs from which they are combined.
const PACKS_MAX: usize = 50;
const LOCAL_MAX: Duration = Duration::from_mins(2);
const REMOTE_MAX: Duration = Duration::from_mins(10);
/// Pause before a push that failed is repeated.
const REMOTE_PAUSE: Duration = Duration::from_secs(1);
const OUTPUT_BYTES_MAX: u64 = 32 << 20;
/// Address space of a command that reads an agent's changes: a small patch can hold files of any size, which are allocated as a whole.
const PATCH_MEMORY_MB: u64 = 4096;

/// A bare clone of a repository, which copies share objects with.
pub(crate) struct Mirror {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    base: OnceLock<String>,
    repository: Repository,
    program: PathBuf,
    disk_mb: u64,
    /// Host of the server, for the address of our commits.
    host: String,
    fetching: Arc<Mutex<()>>,
}

/// What a commit is made of.
pub(crate) struct Push<'a> {
    pub(crate) tree: &'a str,
    pub(crate) parent: &'a str,
    pub(crate) branch: &'a str,
    pub(crate) title: &'a str,
    pub(crate) body: &'a str,
    pub(crate) at: &'a str,
}

pub(crate) struct Pushed {
    pub(crate) commit: String,
    pub(crate) url: Option<String>,
    /// Reason why no pull request was opened.
    pub(crate) note: Option<String>,
}

impl Mirror {
    /// Creates the mirror's directory.
    pub(crate) async fn open(config: &Config, name: &str) -> Result<Self, Failure> {
        let Some(repository) = config.repositories.get(name).cloned() else {
            return Err(Failure::sandbox(format!("{name} is not in the runner's configuration")));
        };
        let host = reqwest::Url::parse(&config.server).ok();
        let mirror = Self {
            path: config.data_dir.join("mirrors").join(name),
            name: name.to_owned(),
            base: repository.base.clone().map_or_else(OnceLock::new, OnceLock::from),
            repository,
            program: config.program.clone(),
            disk_mb: config.limits.disk_mb,
            host: host.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default(),
            fetching: Arc::default(),
        };
        if !mirror.path.join("HEAD").exists() {
            std::fs::create_dir_all(&mirror.path)?;
            let arguments =
                ["init", "--quiet", "--bare", "--template=", "--initial-branch=main", "."];
            mirror.local(&arguments).await?;
        }
        mirror.find_base().await;
        Ok(mirror)
    }

    /// Branch on which sessions start: the configured one, or the remote's default branch as it was known last.
    pub(crate) fn base(&self) -> String {
        self.base.get().cloned().unwrap_or_else(|| {
            let head = std::fs::read_to_string(self.path.join("HEAD")).unwrap_or_default();
            head.trim().strip_prefix("ref: refs/heads/").unwrap_or("main").to_owned()
        })
    }

    /// Asks the remote for its default branch, unless the base is known.
    async fn find_base(&self) {
        if self.base.get().is_some() {
            return;
        }
        let mut arguments = vec!["ls-remote", "--symref"];
        let service = self.service("upload-pack");
        arguments.extend(service.as_deref());
        arguments.extend(["--", &self.repository.url, "HEAD"]);
        let Ok(heads) = self.remote(&arguments, Duration::from_secs(30)).await else { return };
        let heads = String::from_utf8_lossy(&heads.stdout);
        let mut names = heads
            .lines()
            .filter_map(|line| line.strip_prefix("ref: refs/heads/")?.split('\t').next());
        // A remote without commits names its branch later.
        let Some(base) = names.next().map(str::to_owned) else { return };
        if base.chars().count() > BASE_CHARS_MAX || base.chars().any(char::is_control) {
            tracing::warn!(name = self.name, "the default branch has a name that cannot be shown");
            return;
        }
        // The next start knows it, even if the remote is away.
        if let Err(error) =
            self.local(&["symbolic-ref", "HEAD", &format!("refs/heads/{base}")]).await
        {
            tracing::warn!(%error, "the base could not be stored");
        }
        self.base.get_or_init(|| base);
    }

    /// A command in the mirror that sees no configuration of the system or of a user, and runs no hooks.
    fn command(&self, mut command: Command) -> Command {
        command.current_dir(&self.path).env_clear();
        command.env("PATH", path_variable()).env("LC_ALL", "C").env("HOME", "/nonexistent");
        command.env("GIT_DIR", &self.path).env("GIT_CONFIG_NOSYSTEM", "1");
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_ATTR_NOSYSTEM", "1");
        command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_NO_REPLACE_OBJECTS", "1");
        command.env("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh").env("GIT_ADVICE", "0");
        command
    }

    /// Makes a command store its objects in a session's own directory, beside those of the mirror.
    fn keep_private(&self, command: &mut Command, scratch: &Path) -> Result<(), Failure> {
        let objects = scratch.join("objects");
        std::fs::create_dir_all(objects.join("info"))?;
        let shared = format!("{}\n", self.path.join("objects").display());
        std::fs::write(objects.join("info/alternates"), shared)?;
        command.env("GIT_OBJECT_DIRECTORY", objects);
        Ok(())
    }

    fn git() -> Command {
        let mut command = Command::new("git");
        command.args(SAFE);
        command
    }

    async fn local(&self, arguments: &[&str]) -> Result<Finished, Failure> {
        let mut command = self.command(Self::git());
        command.args(arguments);
        run(command, LOCAL_MAX, FailureCode::SandboxFailed).await
    }

    /// A command that sees the objects of a session.
    async fn private(&self, scratch: &Path, arguments: &[&str]) -> Result<Finished, Failure> {
        let command = self.limited(scratch, self.disk_mb, arguments)?;
        run(command, LOCAL_MAX, FailureCode::SandboxFailed).await
    }

    /// A command on a session's objects, with limits, since it reads what an agent wrote.
    fn limited(
        &self,
        scratch: &Path,
        file_mb: u64,
        arguments: &[&str],
    ) -> Result<Command, Failure> {
        let limits = Limited {
            address_mb: Some(PATCH_MEMORY_MB),
            file_mb: Some(file_mb),
            dies_first: true,
            ..Limited::default()
        };
        let git = ["git"].iter().chain(SAFE).chain(arguments).map(ToString::to_string);
        let mut command = self.command(limits.command(&self.program, git));
        self.keep_private(&mut command, scratch)?;
        Ok(command)
    }

    async fn remote(&self, arguments: &[&str], duration: Duration) -> Result<Finished, Failure> {
        Self::reach(self.command(Self::git()), arguments, duration).await
    }

    /// Runs a command that reaches the remote, with the operator's own credentials.
    async fn reach(
        mut command: Command,
        arguments: &[&str],
        duration: Duration,
    ) -> Result<Finished, Failure> {
        for name in [
            "HOME",
            "USER",
            "SSH_AUTH_SOCK",
            "XDG_CONFIG_HOME",
            "GIT_SSH_COMMAND",
            "GIT_ASKPASS",
            "SSL_CERT_FILE",
            "HTTPS_PROXY",
            "https_proxy",
            "http_proxy",
            "NO_PROXY",
            "no_proxy",
        ] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        if std::env::var_os("GIT_SSH_COMMAND").is_none() {
            command.env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes");
        }
        command.env_remove("GIT_CONFIG_GLOBAL").env_remove("GIT_CONFIG_NOSYSTEM").args(arguments);
        run(command, duration, FailureCode::PushFailed).await
    }

    /// Option with which git reads or writes a repository of this machine that belongs to another user: the operator has listed it.
    fn service(&self, name: &str) -> Option<String> {
        self.repository.local_path()?;
        Some(format!("--{name}=git -c safe.directory=* {name}"))
    }

    /// Waits until no other fetch runs.
    pub(crate) async fn fetching(&self) -> OwnedMutexGuard<()> {
        self.fetching.clone().lock_owned().await
    }

    /// Fetches all branches, and returns the commit of the base.
    pub(crate) async fn fetch(&self) -> Result<String, Failure> {
        self.fetch_alone(self.fetching().await).await
    }

    pub(crate) async fn fetch_alone(
        &self,
        _fetching: OwnedMutexGuard<()>,
    ) -> Result<String, Failure> {
        self.remove_leftovers(REMOTE_MAX);
        let mut arguments = vec![
            "fetch",
            "--quiet",
            "--prune",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
        ];
        let service = self.service("upload-pack");
        arguments.extend(service.as_deref());
        arguments.extend(["--", &self.repository.url, "+refs/heads/*:refs/heads/*"]);
        let fetched = tokio::select! {
            fetched = self.remote(&arguments, REMOTE_MAX) => fetched,
            shortage = machine::short(&self.path, machine::LEAST) => Err(Failure::sandbox(shortage.to_string())),
        };
        if let Err(error) = fetched {
            self.remove_leftovers(Duration::ZERO);
            let message = format!("{} could not be fetched: {}", self.name, error.message);
            return Err(Failure::sandbox(message));
        }
        self.combine_packs().await;
        self.find_base().await;
        let base = self.base();
        self.resolve(&format!("refs/heads/{base}"))
            .await
            .map_err(|_| Failure::sandbox(format!("{} has no branch {base}", self.name)))
    }

    /// Files of the packs' directory.
    fn packs(&self) -> impl Iterator<Item = DirEntry> {
        entries(&self.path.join("objects/pack"))
    }

    /// Deletes what killed commands have left: parts of packs that nobody has written to for a while, and old locks, with which all later
    /// commands would fail. `openvibe runner check` can fetch at the same time.
    fn remove_leftovers(&self, age_min: Duration) {
        for entry in self.packs() {
            let name = entry.file_name();
            let is_part = |start: &str| name.as_encoded_bytes().starts_with(start.as_bytes());
            if ["tmp_", ".tmp-"].into_iter().any(is_part) {
                remove_old(&entry, age_min);
            }
        }
        let mut directories = vec![self.path.join("refs")];
        let mut locks: Vec<_> = entries(&self.path).filter(is_lock).collect();
        while let Some(directory) = directories.pop() {
            for entry in entries(&directory) {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    directories.push(entry.path());
                } else if is_lock(&entry) {
                    locks.push(entry);
                }
            }
        }
        for lock in &locks {
            remove_old(lock, REMOTE_MAX);
        }
    }

    /// Combines small packs, since each fetch adds one. All objects stay, because copies share them.
    async fn combine_packs(&self) {
        let is_pack = |entry: &DirEntry| entry.path().extension().is_some_and(|end| end == "pack");
        if self.packs().filter(is_pack).count() <= PACKS_MAX {
            return;
        }
        let mut command = self.command(Self::git());
        command.args(["repack", "--geometric=2", "-d", "--quiet", "--no-write-bitmap-index"]);
        if let Err(error) = run(command, REMOTE_MAX, FailureCode::SandboxFailed).await {
            tracing::warn!(%error, name = self.name, "the packs of a mirror were not combined");
        }
    }

    async fn resolve(&self, name: &str) -> Result<String, Failure> {
        let commit = format!("{name}^{{commit}}");
        let found =
            self.local(&["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]).await?;
        Ok(one_line(&found.stdout))
    }

    /// Makes a new copy, without files. What was at the path before is deleted.
    pub(crate) async fn copy(&self, to: &Path) -> Result<(), Failure> {
        remove(to).await?;
        let mut command = self.command(Self::git());
        command.args(["clone", "--quiet", "--shared", "--no-checkout", "--no-tags"]);
        command.args(["--template=", "--"]).arg(&self.path).arg(to).env_remove("GIT_DIR");
        run(command, LOCAL_MAX, FailureCode::SandboxFailed).await.map(drop)
    }

    /// A folder of a commit as a zip file. No program runs for this: attributes name filters, but only configurations define them.
    pub(crate) async fn archive(&self, commit: &str, path: &str) -> Result<Vec<u8>, Failure> {
        let missing =
            |_| Failure::sandbox(format!("{} has no folder {path} on {}", self.name, self.base()));
        let object = format!("{commit}:{path}");
        let arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", &object];
        let tree = one_line(&self.local(&arguments).await.map_err(missing)?.stdout);
        let listed = self.local(&["ls-tree", "-r", "-l", "-z", &tree]).await.map_err(missing)?;
        check_folder(&listed.stdout).map_err(Failure::sandbox)?;
        let name = path.rsplit('/').next().unwrap_or(path);
        let prefix = format!("--prefix={name}/");
        Ok(self.local(&["archive", "--format=zip", &prefix, &tree]).await?.stdout)
    }

    /// Turns an agent's patch into a tree of the mirror, and writes the patch of that tree to a file.
    pub(crate) async fn changes(
        &self,
        base: &str,
        patch: &Path,
        scratch: &Path,
        shown: &Path,
    ) -> Result<Changes, Failure> {
        let changes = tokio::select! {
            changes = self.read_changes(base, patch, scratch, shown) => changes,
            shortage = machine::short(scratch, machine::LEAST) => Err(Failure::agent(shortage.to_string())),
        };
        if changes.is_err() {
            // A short patch can lead to much, which would count as files of the next turn.
            let _ = std::fs::remove_dir_all(scratch.join("objects"));
            let _ = std::fs::remove_file(shown);
        }
        changes
    }

    async fn read_changes(
        &self,
        base: &str,
        patch: &Path,
        scratch: &Path,
        shown: &Path,
    ) -> Result<Changes, Failure> {
        // An interrupted turn can have left an index and its lock, and earlier turns have left their objects.
        for name in ["index", "index.lock"] {
            let _ = std::fs::remove_file(scratch.join(name));
        }
        let _ = std::fs::remove_dir_all(scratch.join("objects"));
        self.indexed(scratch, &["read-tree", base]).await?;
        if std::fs::metadata(patch)?.len() > 0 {
            let patch = patch.display().to_string();
            self.indexed(scratch, &["apply", "--cached", "--whitespace=nowarn", "--", &patch])
                .await
                .map_err(|error| {
                    Failure::agent(format!("the changes are not valid: {}", error.message))
                })?;
        }
        let mut tree = one_line(&self.indexed(scratch, &["write-tree"]).await?.stdout);
        let mut notes = Vec::new();
        let submodules = self.compare(scratch, base, &tree).await?.submodules;
        for (path, commit) in &submodules {
            let entry;
            let arguments = match commit {
                Some(commit) => {
                    entry = format!("160000,{commit},{path}");
                    ["update-index", "--add", "--cacheinfo", &entry]
                }
                None => ["update-index", "--force-remove", "--", path],
            };
            self.indexed(scratch, &arguments).await?;
            if notes.len() < NOTES_MAX {
                notes.push(format!("The repository inside of {} is left out", cut(path, 200)));
            }
        }
        if !submodules.is_empty() {
            tree = one_line(&self.indexed(scratch, &["write-tree"]).await?.stdout);
        }
        let compared = self.compare(scratch, base, &tree).await?;
        if !compared.submodules.is_empty() {
            return Err(Failure::agent("a repository inside of the copy cannot be left out"));
        }
        self.write_patch(scratch, base, &tree, "-M", shown).await?;
        let mut too_large = is_large(shown);
        // Git cannot apply a patch in which a directory takes the place of a renamed link.
        if !too_large && !self.leads_to(scratch, base, shown, &tree).await? {
            self.write_patch(scratch, base, &tree, "--no-renames", shown).await?;
            too_large = is_large(shown);
        }
        if too_large {
            std::fs::write(shown, "")?;
            notes.push(TOO_LARGE.to_owned());
        }
        let files = compared.files;
        Ok(Changes {
            tree: (!too_large).then_some(tree),
            too_large,
            file_count: files.len() as u64,
            additions: files.iter().map(|file| file.additions).sum(),
            deletions: files.iter().map(|file| file.deletions).sum(),
            files: fitting(files),
            notes,
        })
    }

    /// Writes the patch of a tree to a file.
    async fn write_patch(
        &self,
        scratch: &Path,
        base: &str,
        tree: &str,
        renames: &str,
        shown: &Path,
    ) -> Result<(), Failure> {
        let output = format!("--output={}", shown.display());
        let arguments = [
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--binary",
            "--full-index",
            renames,
            &output,
            base,
            tree,
        ];
        // Copies of a file make a patch without end of a short one.
        let command = self.limited(scratch, (PATCH_BYTES_MAX >> 20) + 1, &arguments)?;
        let written = run(command, LOCAL_MAX, FailureCode::SandboxFailed).await;
        if is_large(shown) { Ok(()) } else { written.map(drop) }
    }

    /// True if a patch of the base gives this tree, so that a later copy can start with it.
    async fn leads_to(
        &self,
        scratch: &Path,
        base: &str,
        shown: &Path,
        tree: &str,
    ) -> Result<bool, Failure> {
        self.indexed(scratch, &["read-tree", base]).await?;
        if std::fs::metadata(shown)?.len() > 0 {
            let shown = shown.display().to_string();
            let arguments = ["apply", "--cached", "--whitespace=nowarn", "--", &shown];
            if self.indexed(scratch, &arguments).await.is_err() {
                return Ok(false);
            }
        }
        Ok(one_line(&self.indexed(scratch, &["write-tree"]).await?.stdout) == tree)
    }

    /// A command on the session's index.
    async fn indexed(&self, scratch: &Path, arguments: &[&str]) -> Result<Finished, Failure> {
        let mut command = self.limited(scratch, self.disk_mb, arguments)?;
        command.env("GIT_INDEX_FILE", scratch.join("index"));
        if arguments.first() == Some(&"update-index") {
            // It asks for a work tree before it removes an entry: this one is empty, and stays so.
            let empty = scratch.join("empty");
            std::fs::create_dir_all(&empty)?;
            command.env("GIT_WORK_TREE", empty);
        }
        run(command, LOCAL_MAX, FailureCode::SandboxFailed).await
    }

    async fn compare(&self, scratch: &Path, base: &str, tree: &str) -> Result<Comparison, Failure> {
        let arguments = [
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--raw",
            "--numstat",
            "--no-abbrev",
            "-z",
            "-M",
            base,
            tree,
        ];
        let output = self.private(scratch, &arguments).await?.stdout;
        Comparison::parse(&output)
            .ok_or_else(|| Failure::agent("the changes are too many to be listed"))
    }

    /// Commits a tree, and pushes it. Repeating this makes the same commit, and pushes nothing new.
    pub(crate) async fn push(&self, push: &Push<'_>, scratch: &Path) -> Result<Pushed, Failure> {
        let failed = |message: String| Failure::new(FailureCode::PushFailed, message);
        // An earlier commit of the session is in the mirror, unless it could not be fetched after its push.
        let parent = format!("{}^{{commit}}", push.parent);
        if self.private(scratch, &["cat-file", "-e", &parent]).await.is_err() {
            self.fetch().await.map_err(|error| failed(error.message))?;
        }
        let mut command = self.command(Self::git());
        self.keep_private(&mut command, scratch)?;
        let mail = format!("coder@{}", self.host);
        let message = scratch.join("message");
        let text = if push.body.is_empty() {
            push.title.to_owned()
        } else {
            format!("{}\n\n{}", push.title, push.body)
        };
        std::fs::write(&message, text.replace('\0', " "))?;
        // Git reads this form with any version: without fractions of seconds.
        let at = push.at.trim_end_matches('Z').split('.').next().unwrap_or_default();
        let at = format!("{at}+00:00");
        for role in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{role}_NAME"), "Coder")
                .env(format!("GIT_{role}_EMAIL"), &mail);
            command.env(format!("GIT_{role}_DATE"), &at);
        }
        command.args([
            "-c",
            "i18n.commitEncoding=utf-8",
            "commit-tree",
            push.tree,
            "-p",
            push.parent,
            "-F",
        ]);
        command.arg(&message);
        let commit = one_line(&run(command, LOCAL_MAX, FailureCode::PushFailed).await?.stdout);
        let reference = format!("{commit}:refs/heads/{}", push.branch);
        let mut arguments = vec!["push", "--no-verify", "--porcelain", "--no-recurse-submodules"];
        let service = self.service("receive-pack");
        arguments.extend(service.as_deref());
        arguments.extend(["--", &self.repository.url, &reference]);
        let push_once = async || {
            let mut pushing = self.command(Self::git());
            self.keep_private(&mut pushing, scratch)?;
            Self::reach(pushing, &arguments, REMOTE_MAX).await
        };
        let mut output = push_once().await;
        if output.is_err() {
            // The remote can still be at work on a push of a runner that was killed, and holds the branch.
            tokio::time::sleep(REMOTE_PAUSE).await;
            output = push_once().await;
        }
        let output = output.map_err(|error| {
            failed(format!("{} was not pushed to {}: {}", self.name, push.branch, error.message))
        })?;
        // The commit is public now, and a later copy can build on it without the objects of this session.
        if let Err(error) = self.fetch().await {
            tracing::warn!(%error, "the pushed commit was not fetched");
        }
        let mut pushed = Pushed { commit, url: last_url(&output.stderr), note: None };
        if !self.repository.open.is_empty() {
            match self.open_request(push, scratch).await {
                Ok(url) => pushed.url = url.or(pushed.url),
                Err(cause) => {
                    let branch = push.branch;
                    pushed.note =
                        Some(format!("Pushed to {branch}, without a pull request: {cause}"));
                }
            }
        }
        Ok(pushed)
    }

    /// Runs the operator's command, with the operator's environment, in the mirror.
    async fn open_request(
        &self,
        push: &Push<'_>,
        scratch: &Path,
    ) -> Result<Option<String>, String> {
        let body = scratch.join("body");
        std::fs::write(&body, push.body).map_err(|error| error.to_string())?;
        let mut command = Command::new("sh");
        command.arg("-c").arg(&self.repository.open).current_dir(&self.path);
        command.env_remove(crate::config::KEY_VARIABLE).env("BRANCH", push.branch);
        command.env("TITLE", push.title.replace('\0', " ")).env("BODY_FILE", &body);
        let ended =
            finish_all(command, LOCAL_MAX, 64 << 10).await.map_err(|error| error.to_string())?;
        let url = last_url(&String::from_utf8_lossy(&ended.stdout)).or(last_url(&ended.stderr));
        // After a kill, the request may be open already, and the command prints its address.
        if ended.is_success() || (ended.stderr.contains("already exists") && url.is_some()) {
            return Ok(url);
        }
        Err(ended.cause())
    }

    /// Checks that the branches of Coder could be pushed, without a change.
    pub(crate) async fn check_push(&self, commit: &str) -> Result<(), Failure> {
        let reference = format!("{commit}:refs/heads/vibe/check");
        let mut arguments = vec!["push", "--dry-run", "--no-verify", "--porcelain"];
        let service = self.service("receive-pack");
        arguments.extend(service.as_deref());
        arguments.extend(["--", &self.repository.url, &reference]);
        self.remote(&arguments, Duration::from_mins(1)).await.map(drop)
    }
}

/// Writes the files of commit `COMMIT` to a new copy, on branch `BRANCH`: inside of the sandbox, since a small commit can have files without end.
pub(crate) const CHECKOUT: &str = "exec git checkout --quiet -B \"$BRANCH\" \"$COMMIT\" --";

/// Lists the changes of the copy, inside of the sandbox, after the agent's processes have ended: one that was killed can have left a lock.
/// Flags override the copy's configuration.
pub(crate) const DIFF: &str = "rm -f .git/index.lock; git -c advice.addEmbeddedRepo=false add -A && exec git diff --cached --binary -U3 \
    --full-index --no-ext-diff --no-textconv --no-color --no-renames --submodule=short --src-prefix=a/ --dst-prefix=b/ \"$1\"";

/// Note for changes that are neither shown nor pushed.
pub(crate) const TOO_LARGE: &str =
    "The changes are larger than 20 MiB: they are not shown and cannot be pushed";

const SAFE: &[&str] = &[
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    // Few objects become a pack, too.
    "-c",
    "fetch.unpackLimit=1",
    "-c",
    "protocol.ext.allow=never",
    "-c",
    "core.quotePath=true",
    "-c",
    "diff.noprefix=false",
    // Large packs fit in a limited address space.
    "-c",
    "core.packedGitWindowSize=64m",
    "-c",
    "core.packedGitLimit=512m",
];

/// Maximum number and total size of the files of a folder for the server.
const FOLDER_FILES_MAX: usize = 64;
const FOLDER_BYTES_MAX: u64 = 1 << 20;

/// Checks the output of `git ls-tree -r -l -z` for a folder.
fn check_folder(listed: &[u8]) -> Result<(), String> {
    let (mut count, mut bytes) = (0, 0_u64);
    for entry in listed.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
        let entry = String::from_utf8_lossy(entry);
        let (fields, path) = entry.split_once('\t').unwrap_or((&*entry, ""));
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ["100644" | "100755", "blob", _, size] = fields[..] else {
            return Err(format!("{}: links and submodules are not allowed", cut(path, 200)));
        };
        count += 1;
        bytes = bytes.saturating_add(size.parse().unwrap_or(u64::MAX));
    }
    if count > FOLDER_FILES_MAX {
        return Err(format!("a skill can have at most {FOLDER_FILES_MAX} files"));
    }
    if bytes > FOLDER_BYTES_MAX {
        return Err("the files have more than 1 MiB together".to_owned());
    }
    Ok(())
}

fn path_variable() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}

fn entries(directory: &Path) -> impl Iterator<Item = DirEntry> + use<> {
    std::fs::read_dir(directory).into_iter().flatten().flatten()
}

/// True for a lock of the mirror or of a branch, whose name cannot end like this.
fn is_lock(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    name.as_encoded_bytes().ends_with(b".lock") || name == "packed-refs.new"
}

fn remove_old(entry: &DirEntry, age_min: Duration) {
    let written = entry.metadata().and_then(|found| found.modified()).ok();
    let age = written.and_then(|at| at.elapsed().ok()).unwrap_or_default();
    if age >= age_min {
        // The next fetch tries again.
        let _ = std::fs::remove_file(entry.path());
    }
}

async fn run(command: Command, duration: Duration, code: FailureCode) -> Result<Finished, Failure> {
    let ended = finish_all(command, duration, OUTPUT_BYTES_MAX).await;
    let ended = ended.map_err(|error| Failure::new(code, format!("git: {error}")))?;
    if ended.is_success() { Ok(ended) } else { Err(Failure::new(code, ended.cause())) }
}

fn is_large(patch: &Path) -> bool {
    std::fs::metadata(patch).is_ok_and(|found| found.len() > PATCH_BYTES_MAX)
}

fn one_line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

fn last_url(text: &str) -> Option<String> {
    let mut words = text.split_whitespace().rev();
    let url = words.find(|word| word.starts_with("https://") || word.starts_with("http://"))?;
    (url.len() <= 2000).then(|| url.to_owned())
}

/// The first files, up to their number and the size of a frame.
fn fitting(files: Vec<ChangedFile>) -> Vec<ChangedFile> {
    let mut bytes = 0;
    let fits = |file: &ChangedFile| {
        bytes += serde_json::to_string(file).map_or(0, |text| text.len());
        bytes <= FRAME_BYTES_MAX / 2
    };
    files.into_iter().take(FILES_MAX).take_while(fits).collect()
}

/// Deletes a directory that an agent wrote: of any depth, and without permissions.
pub(crate) async fn remove(path: &Path) -> Result<(), Failure> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    // `chmod` would follow a link.
    if !metadata.is_dir() {
        return Ok(std::fs::remove_file(path)?);
    }
    for program in [["chmod", "-R", "u+rwx"].as_slice(), &["rm", "-rf"]] {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).arg("--").arg(path);
        // Links to missing files make `chmod` fail.
        finish(command, REMOTE_MAX, 0).await?;
    }
    match std::fs::symlink_metadata(path) {
        Ok(_) => Err(Failure::sandbox(format!("{} cannot be deleted", path.display()))),
        Err(_) => Ok(()),
    }
}

/// Differences of two trees.
#[derive(Debug, Default, PartialEq)]
struct Comparison {
    files: Vec<ChangedFile>,
    /// Changed submodules, with the base's commit if there is one.
    submodules: Vec<(String, Option<String>)>,
}

impl Comparison {
    /// Parses `git diff --raw --numstat -z`; `None` if the output is cut.
    fn parse(output: &[u8]) -> Option<Self> {
        let mut parts = output.split(|byte| *byte == 0).map(String::from_utf8_lossy).peekable();
        let mut compared = Self::default();
        let mut places: HashMap<String, usize> = HashMap::new();
        while let Some(raw) = parts.next_if(|part| part.starts_with(':')) {
            let mut fields = raw.trim_start_matches(':').split(' ');
            let (old_mode, new_mode) = (fields.next()?.to_owned(), fields.next()?.to_owned());
            let (old, _, status) = (fields.next()?.to_owned(), fields.next()?, fields.next()?);
            let first = parts.next()?.into_owned();
            let is_renamed = status.starts_with(['R', 'C']);
            let (path, old_path) =
                if is_renamed { (parts.next()?.into_owned(), Some(first)) } else { (first, None) };
            if old_mode == "160000" || new_mode == "160000" {
                let entry = (old_mode == "160000").then_some(old);
                compared.submodules.push((old_path.clone().unwrap_or_else(|| path.clone()), entry));
                if old_path.is_some() {
                    compared.submodules.push((path.clone(), None));
                }
            }
            let status = match status.as_bytes().first()? {
                b'A' | b'C' => FileStatus::Added,
                b'D' => FileStatus::Deleted,
                b'R' => FileStatus::Renamed,
                _ => FileStatus::Modified,
            };
            places.insert(path.clone(), compared.files.len());
            let (additions, deletions) = (0, 0);
            compared.files.push(ChangedFile {
                path,
                old_path,
                status,
                additions,
                deletions,
                binary: false,
            });
        }
        while let Some(counts) = parts.next() {
            if counts.is_empty() {
                break;
            }
            let mut fields = counts.splitn(3, '\t');
            let (added, deleted, path) = (fields.next()?, fields.next()?, fields.next()?);
            let path = if path.is_empty() {
                parts.next()?;
                parts.next()?.into_owned()
            } else {
                path.to_owned()
            };
            let file = compared.files.get_mut(*places.get(&path)?)?;
            file.binary = added == "-";
            file.additions = added.parse().unwrap_or(0);
            file.deletions = deleted.parse().unwrap_or(0);
        }
        Some(compared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Repository {
        directory: tempfile::TempDir,
        mirror: Mirror,
        base: String,
    }

    impl Repository {
        async fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let origin = directory.path().join("origin");
            std::fs::create_dir(&origin).unwrap();
            let script = "git init -q -b trunk . && echo one > a.txt && git add -A && \
                git -c user.name=Ada -c user.email=ada@example.com commit -qm Start";
            sh(&origin, script);
            let mirror = Self::open(directory.path(), "data").await;
            let base = mirror.fetch().await.unwrap();
            Self { directory, mirror, base }
        }

        async fn open(directory: &Path, data: &str) -> Mirror {
            let repositories = [format!("api={}", directory.join("origin").display())];
            let mut config =
                Config::of_arguments("http://chat.example", "ovr_x", &repositories).unwrap();
            config.data_dir = directory.join(data);
            let own = std::env::current_exe().unwrap();
            config.program = own.parent().unwrap().parent().unwrap().join("examples/runner");
            Mirror::open(&config, "api").await.unwrap()
        }

        async fn copy(&self, to: &Path) {
            self.mirror.copy(to).await.unwrap();
            sh(to, &format!("export BRANCH=vibe/7 COMMIT={}; {CHECKOUT}", self.base));
        }

        async fn changes(&self, patch: &str) -> Result<Changes, Failure> {
            let directory = self.directory.path();
            std::fs::write(directory.join("changes"), patch).unwrap();
            let shown = directory.join("shown");
            self.mirror.changes(&self.base, &directory.join("changes"), directory, &shown).await
        }
    }

    fn sh(directory: &Path, script: &str) -> String {
        let mut command = std::process::Command::new("sh");
        let output = command.args(["-c", script]).current_dir(directory).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        one_line(&output.stdout)
    }

    fn added(path: &str, mode: &str, line: &str) -> String {
        format!(
            "diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{line}\n"
        )
    }

    #[tokio::test]
    async fn the_base_is_known_when_the_remote_is_back() {
        let repository = Repository::new().await;
        let directory = repository.directory.path();
        let (origin, away) = (directory.join("origin"), directory.join("away"));
        std::fs::rename(&origin, &away).unwrap();
        // An earlier start has asked for it.
        assert_eq!(Repository::open(directory, "data").await.base(), "trunk");
        let mirror = Repository::open(directory, "other").await;
        assert_eq!(mirror.base(), "main");
        assert!(mirror.fetch().await.is_err());
        std::fs::rename(&away, &origin).unwrap();
        assert_eq!(mirror.fetch().await.unwrap(), repository.base);
        assert_eq!(mirror.base(), "trunk");
    }

    #[tokio::test]
    async fn a_base_that_cannot_be_shown_is_not_offered() {
        let repository = Repository::new().await;
        let directory = repository.directory.path();
        let origin = directory.join("origin");
        let long = format!("{}/{}", "a".repeat(100), "b".repeat(100));
        for name in [long.as_str(), "c\u{85}d"] {
            sh(
                &origin,
                &format!("git branch '{name}' && git symbolic-ref HEAD 'refs/heads/{name}'"),
            );
            assert_eq!(Repository::open(directory, "data").await.base(), "trunk");
            assert_eq!(Repository::open(directory, &name[..1]).await.base(), "main");
        }
    }

    #[tokio::test]
    async fn locks_of_killed_commands_do_not_stop_later_fetches() {
        let repository = Repository::new().await;
        let mirror = &repository.mirror;
        let commit = "git -c user.name=Ada -c user.email=ada@example.com commit -q --allow-empty -m Next && git branch -D old; git branch -f f/new";
        let origin = repository.directory.path().join("origin");
        sh(&origin, "git branch old");
        mirror.fetch().await.unwrap();
        sh(&origin, commit);
        sh(
            &mirror.path,
            "mkdir -p refs/heads/f; touch packed-refs.lock packed-refs.new refs/heads/trunk.lock refs/heads/f/new.lock",
        );
        let failure = mirror.fetch().await.err().unwrap();
        assert!(failure.message.contains("could not be fetched"), "{failure}");
        sh(
            &mirror.path,
            "touch -d '1 hour ago' packed-refs.lock packed-refs.new refs/heads/trunk.lock refs/heads/f/new.lock",
        );
        assert_eq!(mirror.fetch().await.unwrap(), sh(&origin, "git rev-parse trunk"));
    }

    #[tokio::test]
    async fn many_packs_are_combined_and_keep_the_objects_of_copies() {
        let repository = Repository::new().await;
        let mirror = &repository.mirror;
        let script = format!(
            "for n in $(seq {PACKS_MAX}); do echo $n | git hash-object -w --stdin | tee -a ids | git pack-objects -q objects/pack/pack; done; \
             git prune-packed; touch objects/pack/tmp_pack_new; touch -d '1 hour ago' objects/pack/tmp_pack_x objects/pack/.tmp-1-pack-x"
        );
        sh(&mirror.path, &script);
        mirror.fetch().await.unwrap();
        let names: Vec<_> = mirror.packs().map(|entry| entry.file_name()).collect();
        assert!(names.len() < 20, "{names:?}");
        let parts: Vec<_> = names.iter().filter(|n| n.to_string_lossy().contains("tmp")).collect();
        assert_eq!(parts, ["tmp_pack_new"]);
        let found =
            sh(&mirror.path, "git cat-file --batch-check='%(objecttype)' < ids | sort | uniq -c");
        assert_eq!(found.trim(), format!("{PACKS_MAX} blob"));
    }

    #[tokio::test]
    async fn a_copy_shares_objects_and_its_changes_become_a_tree() {
        let repository = Repository::new().await;
        let copy = repository.directory.path().join("copy");
        repository.copy(&copy).await;
        assert_eq!(sh(&copy, "git rev-parse --abbrev-ref HEAD"), "vibe/7");
        let patch = sh(
            &copy,
            "echo two >> a.txt; printf '\\0' > b; git add -A; git diff --cached --binary",
        );
        let changes = repository.changes(&format!("{patch}\n\n")).await.unwrap();
        assert_eq!(changes.tree.as_deref(), Some(&*sh(&copy, "git write-tree")));
        let files: Vec<_> =
            changes.files.iter().map(|f| (&*f.path, f.additions, f.binary)).collect();
        assert_eq!(files, [("a.txt", 1, false), ("b", 0, true)]);
        assert!(repository.changes("").await.unwrap().files.is_empty());
    }

    /// Edits of an agent: names, contents, links, modes, and repositories of all kinds.
    const EDITS: &[&str] = &[
        "printf 'x\\r\\ny' > 'a b.txt'; chmod +x a.txt",
        "mkdir -p 'd/\"e' && echo q > 'd/\"e/ü\tz' && ln -s ../a.txt d/link",
        "printf '\\0\\1\\2' > binary; echo '* text eol=crlf' > .gitattributes; printf 'a\\r\\n' > crlf",
        "mv 'a b.txt' moved; rm d/link; mkdir d/link; echo f > d/link/f",
        "head -c 300000 /dev/urandom > binary; printf 'no end' > a.txt; echo ignored > .gitignore; echo x > ignored",
        "git config diff.noprefix true; git config diff.mnemonicPrefix true; git config core.quotePath false; git config color.ui always; echo c >> moved",
        "git config diff.context 0; git config diff.algorithm patience; git config apply.whitespace error; echo 'w ' >> moved",
        "git -c user.name=a -c user.email=a@example.com commit -qam own; git checkout -q -b other; echo o > other",
        "git rm -rq d; rm -f binary; ln -s /etc/passwd passwd; : > empty",
        "rm -rf ./* .gitattributes .gitignore; echo last > 'z\nz'",
    ];

    #[tokio::test]
    async fn the_tree_is_the_one_of_the_copy_after_any_edits() {
        let repository = Repository::new().await;
        let copy = repository.directory.path().join("copy");
        repository.copy(&copy).await;
        for edits in EDITS {
            sh(&copy, edits);
            let mut diff = std::process::Command::new("sh");
            diff.args(["-c", DIFF, "sh", &repository.base]).current_dir(&copy);
            let patch = diff.output().unwrap().stdout;
            let directory = repository.directory.path();
            std::fs::write(directory.join("changes"), patch).unwrap();
            let changes = directory.join("changes");
            let shown = directory.join("shown");
            let base = &repository.base;
            let found = repository.mirror.changes(base, &changes, directory, &shown).await.unwrap();
            assert_eq!(found.tree.as_deref(), Some(&*sh(&copy, "git write-tree")), "{edits}");
            // The patch that people see makes the same tree.
            let other = directory.join("other");
            let again = repository.mirror.changes(base, &shown, directory, &other).await.unwrap();
            assert_eq!(again, found, "{edits}");
        }
    }

    #[tokio::test]
    async fn hostile_patches_are_rejected() {
        let repository = Repository::new().await;
        for path in [".git/config", ".GIT/hooks/x", "../x", "b/../../x", "b/.git/config", "/etc/x"]
        {
            let patch = added(path, "100644", "x");
            assert!(repository.changes(&patch).await.is_err(), "{path}");
        }
        let link = added("link", "120000", "/tmp");
        let link = link.replace("+/tmp\n", "+/tmp\n\\ No newline at end of file\n");
        assert!(repository.changes(&link).await.is_ok());
        assert!(repository.changes(&(link + &added("link/x", "100644", "x"))).await.is_err());
        let bomb = "diff --git a/b b/b\nnew file mode 100644\nindex 0000000..1111111\nGIT binary patch\nliteral 9000000000\nzcmZQz\n\n";
        assert!(repository.changes(bomb).await.is_err());
        assert!(repository.changes("garbage").await.is_err());
    }

    #[tokio::test]
    async fn a_short_patch_with_many_copies_does_not_fill_the_disk() {
        let mut repository = Repository::new().await;
        let origin = repository.directory.path().join("origin");
        sh(
            &origin,
            "head -c 2000000 /dev/urandom > big && git add -A && git -c user.name=Ada -c user.email=ada@example.com commit -qm Big",
        );
        repository.base = repository.mirror.fetch().await.unwrap();
        repository.mirror.disk_mb = 30;
        let copy = |n: usize| {
            format!("diff --git a/big b/c{n}\nsimilarity index 100%\ncopy from big\ncopy to c{n}\n")
        };
        let patch: String = (0..30).map(copy).collect();
        let changes = repository.changes(&patch).await.unwrap();
        assert_eq!((changes.too_large, changes.file_count), (true, 30));
        let shown = repository.directory.path().join("shown");
        assert_eq!(std::fs::metadata(&shown).unwrap().len(), 0);
        // Neither do changes that fail.
        let line =
            "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n";
        repository.changes(line).await.unwrap();
        assert!(repository.changes(&patch.replace("from big", "from none")).await.is_err());
        assert!(!shown.exists() && !repository.directory.path().join("objects").exists());
    }

    #[tokio::test]
    async fn commands_on_changes_have_limits() {
        let repository = Repository::new().await;
        let arguments = ["-c", "alias.limits=!ulimit -v; cat /proc/self/oom_score_adj", "limits"];
        let scratch = repository.directory.path();
        let kilobytes = PATCH_MEMORY_MB << 10;
        let expected = format!("{kilobytes}\n1000");
        for ended in [
            repository.mirror.private(scratch, &arguments).await,
            repository.mirror.indexed(scratch, &arguments).await,
        ] {
            assert_eq!(one_line(&ended.unwrap().stdout), expected);
        }
    }

    #[tokio::test]
    async fn repositories_inside_of_the_copy_are_left_out() {
        let repository = Repository::new().await;
        let line = format!("Subproject commit {}", "1".repeat(40));
        let patch = added("sub", "160000", &line) + &added("c.txt", "100644", "c");
        let changes = repository.changes(&patch).await.unwrap();
        assert_eq!(changes.files.len(), 1);
        assert_eq!(changes.notes, ["The repository inside of sub is left out"]);
    }

    #[tokio::test]
    async fn a_repeated_push_makes_the_same_commit_and_others_are_not_overwritten() {
        let repository = Repository::new().await;
        let changes = repository.changes(&added("c.txt", "100644", "c")).await.unwrap();
        let (directory, tree) = (repository.directory.path(), changes.tree.unwrap());
        let push = |title| Push {
            tree: &tree,
            parent: &repository.base,
            branch: "vibe/7",
            title,
            body: "",
            at: "2030-01-01T00:00:00.5Z",
        };
        let first = repository.mirror.push(&push("Add c"), directory).await.unwrap();
        let second = repository.mirror.push(&push("Add c"), directory).await.unwrap();
        assert_eq!(first.commit, second.commit);
        let failed = repository.mirror.push(&push("Add d"), directory).await.err().unwrap();
        assert_eq!(failed.code, FailureCode::PushFailed);
        let origin = directory.join("origin");
        assert_eq!(sh(&origin, "git rev-parse vibe/7"), first.commit);
        assert_eq!(sh(&origin, "git rev-parse trunk"), repository.base);
    }

    #[tokio::test]
    async fn a_folder_is_read_as_it_is_in_the_base_commit() {
        let repository = Repository::new().await;
        let origin = repository.directory.path().join("origin");
        let mark = repository.directory.path().join("mark");
        let script = format!(
            "mkdir -p skills/tides/scripts skills/linked && echo Text > skills/tides/SKILL.md && echo x > skills/tides/scripts/a.sh && \
             echo '*.md filter=x' > .gitattributes && cp .gitattributes skills/tides && ln -s /etc/passwd skills/linked/a && \
             git config filter.x.smudge 'touch {}' && git add -A && git -c user.name=Ada -c user.email=ada@example.com commit -qm Skills",
            mark.display()
        );
        sh(&origin, &script);
        let _ = std::fs::remove_file(&mark);
        let base = repository.mirror.fetch().await.unwrap();
        let archive = repository.mirror.archive(&base, "skills/tides").await.unwrap();
        for name in ["tides/SKILL.md", "tides/scripts/a.sh"] {
            let mut parts = archive.windows(name.len());
            assert!(parts.any(|part| part == name.as_bytes()), "{name}");
        }
        assert!(!mark.exists());
        let cause = async |path: &str| {
            repository.mirror.archive(&base, path).await.err().map(|failure| failure.message)
        };
        assert_eq!(
            cause("skills/linked").await.as_deref(),
            Some("a: links and submodules are not allowed")
        );
        for path in ["skills/none", "a.txt", "--help", "../x"] {
            let text = cause(path).await.unwrap();
            assert!(text.contains("has no folder"), "{path}: {text}");
        }
    }

    #[test]
    fn folders_for_the_server_are_limited() {
        let entry = |n: usize, size: &str| format!("100644 blob abc {size}\tfile{n}\0");
        let listed = |count, size| (0..count).map(|n| entry(n, size)).collect::<String>();
        assert_eq!(check_folder(listed(64, "16384").as_bytes()), Ok(()));
        assert!(check_folder(listed(65, "1").as_bytes()).is_err_and(|e| e.contains("64 files")));
        assert!(check_folder(listed(64, "16385").as_bytes()).is_err_and(|e| e.contains("1 MiB")));
        assert!(check_folder(b"160000 commit abc -\tsub\0").is_err_and(|e| e.starts_with("sub:")));
    }

    #[test]
    fn files_of_a_comparison_are_listed() {
        let id = "0".repeat(40);
        let text = format!(
            ":100644 100644 {id} {id} M\0a b.txt\0:100644 100644 {id} {id} R090\0old\0new\0:000000 160000 {id} {id} A\0sub\x003\t1\ta b.txt\x000\t2\t\0old\0new\x001\t0\tsub\0"
        );
        let compared = Comparison::parse(text.as_bytes()).unwrap();
        let files: Vec<_> =
            compared.files.iter().map(|f| (&*f.path, f.additions, f.deletions)).collect();
        assert_eq!(files, [("a b.txt", 3, 1), ("new", 0, 2), ("sub", 1, 0)]);
        assert_eq!(compared.files[1].old_path.as_deref(), Some("old"));
        assert_eq!(compared.submodules, [("sub".to_owned(), None)]);
        assert_eq!(Comparison::parse(&text.as_bytes()[..90]), None);
    }

    #[test]
    fn the_last_address_of_an_output_is_the_link() {
        let text = "remote: Create a pull request:\nremote:   https://git.example/a/pull/new/x  \nTo ssh://x";
        assert_eq!(last_url(text).as_deref(), Some("https://git.example/a/pull/new/x"));
        assert_eq!(last_url("done"), None);
    }
}
