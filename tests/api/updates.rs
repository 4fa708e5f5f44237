//! Releases: `openvibe update`, `openvibe install`, and `install.sh`.

use std::{
    fmt::Write,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::support::{
    ModelServer, TestDatabase, TestProcess, command, sign_up_with_workspace, within,
};

/// Name of the program in a release of this version for this machine.
fn program_name(version: &str) -> String {
    format!("openvibe-{version}-linux-{}", std::env::consts::ARCH)
}

fn write_program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

fn is_ok(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A directory for copies of the program, which are too large for a disk in memory.
struct Scratch(PathBuf);

impl Scratch {
    fn new(place: &TestDatabase) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(place.dir.file_name().unwrap());
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Private key for releases. Its public key is beside it.
fn key_in(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    let arguments = ["-q", "-t", "ed25519", "-N", "", "-C", "release", "-f"];
    is_ok(&run(Command::new("ssh-keygen").args(arguments).arg(&path)));
    path
}

fn public(key: &Path) -> String {
    fs::read_to_string(key.with_extension("pub")).unwrap()
}

/// A release whose program runs the program under test, or does something else.
struct TestRelease {
    dir: PathBuf,
    version: &'static str,
}

impl TestRelease {
    fn new(dir: &Path, version: &'static str, min_from: &str, program: &str) -> Self {
        fs::create_dir_all(dir).unwrap();
        write_program(&dir.join(program_name(version)), program);
        let latest = json!({
            "version": version, "date": "2027-03-01", "security": true, "notes": "- Faster.", "min_from": min_from,
        });
        // One member per line, as `make release` writes it.
        let latest = serde_json::to_string_pretty(&latest).unwrap();
        fs::write(dir.join("latest.json"), latest).unwrap();
        Self {
            dir: dir.to_owned(),
            version,
        }
    }

    fn sign(self, key: &Path) -> Self {
        let names = ["latest.json".to_owned(), program_name(self.version)];
        let mut sums = String::new();
        for name in &names {
            let hash = Sha256::digest(fs::read(self.dir.join(name)).unwrap());
            writeln!(sums, "{}  {name}", hex::encode(hash)).unwrap();
        }
        let list = self.dir.join("SHA256SUMS");
        fs::write(&list, sums).unwrap();
        drop(fs::remove_file(self.dir.join("SHA256SUMS.sig")));
        let sign = ["-q", "-Y", "sign", "-n", "openvibe-release", "-f"];
        is_ok(&run(Command::new("ssh-keygen")
            .args(sign)
            .arg(key)
            .arg(&list)));
        self
    }
}

/// A program that behaves as the one under test.
fn same_program() -> String {
    format!(
        "#!/bin/sh\nexec {} \"$@\"\n",
        env!("CARGO_BIN_EXE_openvibe")
    )
}

/// An installed program whose service is kept by a substitute for systemd, which works as `systemctl` does for one service.
struct Installation {
    place: TestDatabase,
    _disk: Scratch,
    model: ModelServer,
    key: PathBuf,
    program: PathBuf,
    port: u16,
}

impl Installation {
    async fn new() -> Self {
        let place = TestDatabase::migrated().await;
        let key = key_in(&place.dir, "key");
        // On the disk of the program, for a hard link.
        let disk = Scratch::new(&place);
        let program = disk.0.join("openvibe");
        fs::hard_link(env!("CARGO_BIN_EXE_openvibe"), &program).unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        let this = Self {
            model: ModelServer::start().await,
            key,
            port,
            _disk: disk,
            place,
            program,
        };
        let systemctl = "#!/bin/sh
            pid=$(cat service.pid 2>/dev/null || echo 0)
            is_active() { [ \"$pid\" != 0 ] && kill -0 \"$pid\" 2>/dev/null; }
            case $1 in
              is-active) is_active ;;
              restart)
                if is_active; then kill \"$pid\"; while is_active; do sleep 0.05; done; fi
                setsid \"$PROGRAM\" >service.log 2>&1 </dev/null &
                echo $! >service.pid ;;
            esac";
        write_program(&this.place.dir.join("path/systemctl"), systemctl);
        this
    }

    fn env(&self, prepared: &mut Command) {
        let path = format!("{}:/usr/bin:/bin", self.place.dir.join("path").display());
        let listen = format!("127.0.0.1:{}", self.port);
        let settings = command(&self.place, &self.model, &[("LISTEN", &listen)]);
        prepared
            .env_clear()
            .envs(settings.get_envs().filter_map(|(k, v)| Some((k, v?))))
            .env("PATH", path)
            .env("PROGRAM", &self.program)
            .env("OPENVIBE_RELEASE_KEYS", public(&self.key))
            .current_dir(&self.place.dir);
    }

    fn start(&self) {
        let mut start = Command::new("sh");
        self.env(start.args(["-c", "systemctl restart openvibe.service"]));
        is_ok(&run(&mut start));
    }

    fn update(&self, arguments: &[&str]) -> Output {
        let mut update = Command::new(&self.program);
        self.env(update.arg("update").args(arguments));
        run(&mut update)
    }

    fn release(&self, version: &'static str, program: &str) -> TestRelease {
        TestRelease::new(&self.place.dir.join("release"), version, "0.1.0", program)
    }

    fn is_unchanged(&self) -> bool {
        let program = fs::metadata(&self.program).unwrap().len();
        program == fs::metadata(env!("CARGO_BIN_EXE_openvibe")).unwrap().len()
            && !self.program.with_extension("new").exists()
    }

    fn is_active(&self) -> bool {
        let mut asked = Command::new("sh");
        self.env(asked.args(["-c", "systemctl is-active openvibe.service"]));
        run(&mut asked).status.success()
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        let stop = "kill \"$(cat service.pid)\"";
        let stopped = Command::new("sh")
            .args(["-c", stop])
            .current_dir(&self.place.dir)
            .output();
        drop(stopped);
    }
}

#[tokio::test]
async fn an_update_starts_the_new_version_and_keeps_the_previous_one() {
    let here = Installation::new().await;
    here.start();
    let release = here.release("0.2.0", &same_program()).sign(&here.key);
    let from = release.dir.to_str().unwrap();
    let checked = is_ok(&here.update(&["--check", "--from", from]));
    assert_eq!(
        checked,
        "0.2.0 of 2027-03-01 is available, a security update: sudo openvibe update\n"
    );
    assert!(here.is_unchanged());
    let said = is_ok(&here.update(&["--from", from]));
    assert!(
        said.contains("- Faster.\n") && said.ends_with("0.2.0 is ready\n"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(&here.program).unwrap(), same_program());
    let previous = here.program.with_file_name("openvibe.previous");
    let own = fs::metadata(env!("CARGO_BIN_EXE_openvibe")).unwrap();
    assert_eq!(fs::metadata(previous).unwrap().len(), own.len());
    assert!(here.is_active());
}

#[tokio::test]
async fn an_update_that_is_killed_leaves_a_version_that_runs() {
    for failpoint in ["update_fetched", "update_kept", "update_replaced"] {
        let here = Installation::new().await;
        here.start();
        let release = here.release("0.2.0", &same_program()).sign(&here.key);
        let from = release.dir.to_str().unwrap();
        let mut update = Command::new(&here.program);
        here.env(update.args(["update", "--from", from]));
        let killed = run(update.env("OPENVIBE_FAILPOINT", failpoint));
        assert!(killed.status.code().is_none(), "{failpoint}: {killed:?}");
        let is_new = || fs::metadata(&here.program).unwrap().len() == same_program().len() as u64;
        assert_eq!(is_new(), failpoint == "update_replaced", "{failpoint}");
        here.start();
        assert!(here.is_active(), "{failpoint}");
        if !is_new() {
            is_ok(&here.update(&["--from", from]));
            assert!(is_new() && here.is_active(), "{failpoint}");
        }
    }
}

#[tokio::test]
async fn a_version_that_does_not_start_is_taken_back() {
    let here = Installation::new().await;
    here.start();
    let broken = format!(
        "#!/bin/sh\n[ \"$1\" = migrate ] || exit 1\nexec {} \"$@\"\n",
        env!("CARGO_BIN_EXE_openvibe")
    );
    let release = here.release("0.2.0", &broken).sign(&here.key);
    let said = refused(&here.update(&["--from", release.dir.to_str().unwrap()]));
    assert!(said.contains("the previous version runs again"), "{said}");
    assert!(here.is_unchanged() && here.is_active());
}

#[tokio::test]
async fn a_version_that_cannot_read_the_database_is_not_installed() {
    let here = Installation::new().await;
    let release = here
        .release("0.2.0", "#!/bin/sh\necho 'no space' >&2; exit 1\n")
        .sign(&here.key);
    let said = refused(&here.update(&["--from", release.dir.to_str().unwrap()]));
    assert!(said.contains("nothing was changed: no space"), "{said}");
    assert!(here.is_unchanged());
}

#[tokio::test]
async fn only_a_signed_release_that_can_follow_is_installed() {
    let here = Installation::new().await;
    let dir = here.place.dir.join("release");
    let from = dir.to_str().unwrap();
    let said = refused(&here.update(&[]));
    assert!(said.contains("name the release with --from"), "{said}");

    let release = here.release("0.2.0", &same_program());
    let said = refused(&here.update(&["--from", from]));
    assert!(said.contains("SHA256SUMS"), "{said}");
    let other = key_in(&here.place.dir, "other");
    let release = release.sign(&other);
    let said = refused(&here.update(&["--from", from]));
    assert!(
        said.contains("the signature of the release is wrong"),
        "{said}"
    );
    let release = release.sign(&here.key);
    write_program(
        &release.dir.join(program_name("0.2.0")),
        &(same_program() + "#"),
    );
    let said = refused(&here.update(&["--from", from]));
    assert!(said.contains("is not the file that was released"), "{said}");
    fs::remove_file(dir.join("SHA256SUMS.sig")).unwrap();
    let said = refused(&here.update(&["--from", from]));
    assert!(said.contains("the release is not signed"), "{said}");

    here.release("0.0.9", &same_program()).sign(&here.key);
    let said = refused(&here.update(&["--from", from]));
    assert!(
        said.contains("0.0.9 cannot open this database; restore ")
            && said.contains("before-0.1.0.ovb with it"),
        "{said}"
    );
    TestRelease::new(&dir, "0.4.0", "0.3.0", &same_program()).sign(&here.key);
    let said = refused(&here.update(&["--from", from]));
    assert!(said.contains("update to 0.3.0 first"), "{said}");
    let said = refused(&here.update(&["--from", from, "--to", "0.2.0"]));
    assert!(said.contains("SHA256SUMS"), "{said}");
    here.release("0.1.0", &same_program()).sign(&here.key);
    let said = is_ok(&here.update(&["--from", from]));
    assert_eq!(said, "OpenVibe 0.1.0 is the newest version\n");
    assert!(here.is_unchanged());
}

#[tokio::test]
async fn the_server_looks_for_updates_only_if_an_admin_permits_it() {
    let here = Installation::new().await;
    let release = here.release("0.2.0", &same_program()).sign(&here.key);
    let settings = [
        ("RELEASES", release.dir.to_str().unwrap()),
        ("RELEASE_KEYS", &public(&here.key)),
    ];
    let server = TestProcess::start(&here.place, &here.model, &settings).await;
    let ada = sign_up_with_workspace(&server.base, "Ada").await;
    let update = async || ada.get("/v1/server").await.ok()["update"].clone();
    let nothing = json!({"enabled": false, "latest": null, "security": false, "notes_url": null, "error": null});
    assert_eq!(update().await, nothing);
    let choose = async |choice: bool| {
        let form = json!({"look_for_updates": choice});
        ada.patch("/v1/server", form).await.is(200)
    };
    choose(true).await;
    within("the newest version", async {
        while update().await["latest"] != "0.2.0" {
            crate::support::pause().await;
        }
    })
    .await;
    assert_eq!(update().await["security"], true);
    choose(false).await;
    assert_eq!(update().await, nothing);
}

/// Directory in place of `/`, and programs of the system that note how they were called.
struct Root {
    dir: PathBuf,
    place: TestDatabase,
    _disk: Scratch,
}

impl Root {
    async fn new() -> Self {
        let place = TestDatabase::new().await;
        let disk = Scratch::new(&place);
        let dir = disk.0.clone();
        let path = place.dir.join("path");
        write_program(
            &path.join("systemctl"),
            "#!/bin/sh\necho \"systemctl $*\" >>\"$CALLS\"\n",
        );
        write_program(
            &path.join("useradd"),
            "#!/bin/sh\necho \"useradd $*\" >>\"$CALLS\"\n",
        );
        write_program(
            &path.join("userdel"),
            "#!/bin/sh\necho \"userdel $*\" >>\"$CALLS\"\n",
        );
        // The account exists after `useradd`, as the user who runs the test.
        let id = "#!/bin/sh
            [ \"$#\" = 1 ] && exec /usr/bin/id \"$1\"
            grep -q useradd \"$CALLS\" && exec /usr/bin/id \"$1\"
            exit 1";
        write_program(&path.join("id"), id);
        write_program(&path.join("sudo"), "#!/bin/sh\nexec \"$@\"\n");
        fs::write(place.dir.join("calls"), "").unwrap();
        Self {
            dir,
            place,
            _disk: disk,
        }
    }

    fn env<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let path = format!("{}:/usr/bin:/bin", self.place.dir.join("path").display());
        command
            .env_clear()
            .env("PATH", path)
            .env("CALLS", self.place.dir.join("calls"))
            .env("OPENVIBE_INSTALL_ROOT", &self.dir)
            .current_dir(&self.place.dir)
    }

    fn openvibe(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_openvibe"));
        run(self.env(&mut command).args(arguments))
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.dir.join(path)).unwrap_or_default()
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.place.dir.join("calls")).unwrap()
    }
}

#[tokio::test]
async fn an_installation_writes_the_service_and_keeps_changed_settings() {
    let root = Root::new().await;
    is_ok(&root.openvibe(&["install", "--domain", "chat.example.org"]));
    let settings = "etc/openvibe/openvibe.toml";
    assert!(root.read(settings).ends_with(
        "data_dir = \"/var/lib/openvibe\"\nbackup_to = \"/var/backups/openvibe\"\ndomain = \"chat.example.org\"\n"
    ));
    let mode = |path: &str| {
        fs::metadata(root.dir.join(path))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(settings), 0o640);
    assert_eq!(mode("var/lib/openvibe"), 0o700);
    assert_eq!(mode("usr/local/bin/openvibe"), 0o755);
    let unit = root.read("etc/systemd/system/openvibe.service");
    assert!(unit.contains("ExecStart=/usr/local/bin/openvibe\n"));
    assert!(root.calls().contains("useradd --system"));
    assert!(
        root.calls()
            .ends_with("systemctl enable --quiet openvibe.service\n")
    );

    fs::write(root.dir.join(settings), "domain = \"own.example.org\"\n").unwrap();
    fs::remove_file(root.dir.join("etc/systemd/system/openvibe.service")).unwrap();
    let said = is_ok(&root.openvibe(&["install", "--domain", "chat.example.org"]));
    assert!(
        said.contains("/etc/openvibe/openvibe.toml exists and was kept"),
        "{said}"
    );
    assert_eq!(root.read(settings), "domain = \"own.example.org\"\n");
    assert_eq!(root.read("etc/systemd/system/openvibe.service"), unit);
}

#[tokio::test]
async fn an_installation_refuses_values_with_which_the_server_does_not_start() {
    let root = Root::new().await;
    for (option, value, part) in [
        (
            "--domain",
            "https://chat.example.org",
            "is not a name such as chat.example.org",
        ),
        ("--domain", "", "name the host of this server"),
        ("--listen", "nonsense", "the address nonsense is not known"),
    ] {
        let output = root.openvibe(&["install", option, value]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(part), "{said}");
    }
    assert!(!root.dir.join("etc/openvibe").exists());
    assert!(!root.calls().contains("useradd"));
}

#[tokio::test]
async fn an_uninstallation_deletes_data_only_when_it_is_told_to() {
    let root = Root::new().await;
    is_ok(&root.openvibe(&["install", "--data-dir", "/srv/chat"]));
    fs::write(root.dir.join("srv/chat/openvibe.db"), "data").unwrap();
    let said = is_ok(&root.openvibe(&["uninstall"]));
    assert!(
        said.contains("/srv/chat and /etc/openvibe were kept"),
        "{said}"
    );
    assert!(!root.dir.join("usr/local/bin/openvibe").exists());
    assert!(
        !root
            .dir
            .join("etc/systemd/system/openvibe.service")
            .exists()
    );
    assert_eq!(root.read("srv/chat/openvibe.db"), "data");

    is_ok(&root.openvibe(&["install", "--data-dir", "/srv/chat"]));
    is_ok(&root.openvibe(&["uninstall", "--purge"]));
    assert!(!root.dir.join("srv/chat").exists() && !root.dir.join("etc/openvibe").exists());
    assert!(root.dir.join("var/backups/openvibe").exists());
    assert!(root.calls().ends_with("userdel openvibe\n"));
}

#[tokio::test]
async fn the_script_installs_only_a_signed_program() {
    let root = Root::new().await;
    let key = key_in(&root.place.dir, "key");
    let release = TestRelease::new(
        &root.place.dir.join("release"),
        "0.2.0",
        "0.1.0",
        &same_program(),
    )
    .sign(&key);
    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/release/install.sh");
    let template = fs::read_to_string(template).unwrap();
    let signers = format!(
        "release namespaces=\"openvibe-release\" {}",
        public(&key).trim()
    );
    let script = template
        .replace("@SIGNERS@", &signers)
        .replace("@URL@", &format!("file://{}", release.dir.display()));
    let path = root.place.dir.join("install.sh");
    let install = |script: &str| {
        fs::write(&path, script).unwrap();
        let mut shell = Command::new("sh");
        run(root.env(&mut shell).arg(&path).arg("chat.example.org"))
    };
    let is_installed = || root.dir.join("usr/local/bin/openvibe").exists();

    // A script of which only a part arrived.
    for part in 1..10 {
        let at = script.len() * part / 10;
        install(script.get(..at).unwrap_or_default());
        assert!(!is_installed() && root.calls().is_empty(), "{at} bytes");
    }
    let program = release.dir.join(program_name("0.2.0"));
    write_program(&program, &(same_program() + "#"));
    let said = refused(&install(&script));
    assert!(said.contains("is not the file that was released"), "{said}");
    write_program(&program, &same_program());
    let release = release.sign(&key_in(&root.place.dir, "other"));
    let said = refused(&install(&script));
    assert!(
        said.contains("the signature of the release is wrong"),
        "{said}"
    );
    assert!(!is_installed());
    let _release = release.sign(&key);
    is_ok(&install(&script));
    assert!(is_installed());
    assert!(
        root.read("etc/openvibe/openvibe.toml")
            .contains("chat.example.org")
    );
}
