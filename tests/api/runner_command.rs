//! `openvibe runner` and `openvibe acp`: options, checks, and the runner that a server starts.

use std::{
    fs::Permissions,
    io::Write,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

use crate::support::{ModelServer, TestDatabase, TestProcess, pause, visitor, within};

fn openvibe(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_openvibe"));
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", dir)
        .current_dir(dir)
        .args(arguments)
        .stdin(Stdio::null());
    command
}

fn run(dir: &Path, arguments: &[&str]) -> Output {
    openvibe(dir, arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Checks that a command failed, and returns the problem.
#[track_caller]
fn problem(output: &Output) -> String {
    let problem = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{problem}");
    problem
}

/// Makes a repository, and the settings of a runner for it.
fn settings(dir: &Path, sandbox: &str, more: &str) {
    let origin = dir.join("origin");
    std::fs::create_dir(&origin).unwrap();
    let script = "git init -q -b trunk . && echo one > a.txt && git add -A && \
        git -c user.name=Ada -c user.email=ada@example.org commit -qm Start";
    let made = Command::new("sh")
        .args(["-c", script])
        .current_dir(&origin)
        .status();
    assert!(made.unwrap().success());
    let key = dir.join("key");
    std::fs::write(&key, "ovr_test\n").unwrap();
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let text = format!(
        "server = 'http://127.0.0.1:9'\nkey_file = 'key'\nsandbox = '{sandbox}'\nturns = 1\nlimits = {{disk_mb = 4}}\n\
         [repository.api]\nurl = 'origin'\n{more}"
    );
    std::fs::write(dir.join("runner.toml"), text).unwrap();
}

#[test]
fn a_runner_names_the_option_that_is_missing() {
    let place = TestDatabase::on_disk();
    let server = ["--server", "http://127.0.0.1:9"];
    let repository = ["--repository", "api=/nonexistent"];
    for (arguments, expected) in [
        (
            vec![],
            "cannot read runner.toml: name the file with --config",
        ),
        (vec!["--config", "other.toml"], "cannot read other.toml"),
        (repository.to_vec(), "--repository needs --server"),
        ([server, repository].concat(), "the runner has no key"),
        (
            [&server[..], &["--config", "runner.toml"]].concat(),
            "use one of them",
        ),
        (
            [&["--server", "chat", "--key", "ovr_x"][..], &repository].concat(),
            "server `chat` is not an http(s) address",
        ),
    ] {
        let arguments = [&["runner"][..], &arguments].concat();
        let problem = problem(&run(&place.dir, &arguments));
        assert!(problem.contains(expected), "{arguments:?}: {problem}");
    }
}

#[test]
fn a_check_of_a_runner_prints_a_line_for_each_part() {
    let place = TestDatabase::on_disk();
    settings(&place.dir, "none", "");
    let output = run(&place.dir, &["runner", "check"]);
    let printed = stdout(&output);
    for line in [
        "ok      sandbox: none",
        "ok      git: git version",
        "ok      space: ",
        "ok      repository api: trunk can be fetched",
        "ok      engine builtin: started",
    ] {
        assert!(printed.contains(line), "{line} in {printed}");
    }
    assert!(output.status.success(), "{printed}");
}

#[test]
fn a_failed_check_of_a_runner_has_the_remedy_and_status_1() {
    let place = TestDatabase::on_disk();
    settings(
        &place.dir,
        "none",
        "base = 'gone'\n[engine.own]\ncommand = ['no-such-agent', '--acp']\n",
    );
    let output = run(&place.dir, &["runner", "check"]);
    let printed = stdout(&output);
    assert!(
        printed.contains("failed  repository api: api has no branch gone"),
        "{printed}"
    );
    assert!(
        printed.contains("check that `no-such-agent --acp` is installed"),
        "{printed}"
    );
    let problem = problem(&output);
    assert!(problem.contains("2 of the checks failed"), "{problem}");
}

/// Runs the checks of a runner that root starts, and returns what they print, with the owner of the runner's directory.
fn check_as_root(change: impl FnOnce(&Path)) -> (String, u32) {
    let place = TestDatabase::on_disk();
    settings(&place.dir, "bubblewrap", "");
    std::fs::set_permissions(&place.dir, Permissions::from_mode(0o755)).unwrap();
    change(&place.dir);
    let output = run(&place.dir, &["runner", "check"]);
    // Its key is read before: another user could not read a private file of root.
    let printed = stdout(&output);
    assert!(printed.contains("  sandbox: "), "{output:?}");
    let data = place.dir.join("openvibe-runner");
    let owners = [data.clone(), data.join("check"), data.join("mirrors")]
        .map(|path| std::fs::metadata(path).unwrap().uid());
    assert_eq!(owners, [owners[0]; 3]);
    (printed, owners[0])
}

/// Gives a directory to another user, with all that is in it.
fn give(directory: &Path, user: u32) {
    let mut chown = Command::new("chown");
    chown.args(["-R", &format!("{user}:{user}")]).arg(directory);
    assert!(chown.status().unwrap().success());
}

#[test]
fn a_runner_of_root_continues_as_the_owner_of_its_directory_or_repository_or_as_nobody() {
    let place = TestDatabase::on_disk();
    if std::fs::metadata(&place.dir).unwrap().uid() != 0 {
        return;
    }
    let fetched = "ok      repository api: trunk can be fetched";
    let (printed, owner) = check_as_root(|_| {});
    assert!(printed.contains(fetched), "{printed}");
    assert_eq!(owner, 0);
    let (printed, owner) = check_as_root(|dir| give(&dir.join("origin"), 1001));
    assert!(printed.contains(fetched), "{printed}");
    assert_eq!(owner, 1001);
    let (printed, owner) = check_as_root(|dir| {
        std::fs::create_dir(dir.join("openvibe-runner")).unwrap();
        give(&dir.join("openvibe-runner"), 1002);
    });
    assert!(printed.contains(fetched), "{printed}");
    assert_eq!(owner, 1002);
    let (_, owner) = check_as_root(|dir| {
        std::fs::rename(dir.join("origin"), dir.join("other")).unwrap();
    });
    assert_eq!(owner, 65_534);
}

#[test]
fn a_runner_of_root_names_the_directory_that_its_user_cannot_enter() {
    let place = TestDatabase::on_disk();
    if std::fs::metadata(&place.dir).unwrap().uid() != 0 {
        return;
    }
    settings(&place.dir, "bubblewrap", "");
    give(&place.dir.join("origin"), 65_534);
    std::fs::set_permissions(&place.dir, Permissions::from_mode(0o700)).unwrap();
    let problem = problem(&run(&place.dir, &["runner"]));
    assert!(problem.contains("user 65534 cannot enter"), "{problem}");
}

#[test]
fn the_built_in_coding_agent_speaks_the_agent_client_protocol() {
    let place = TestDatabase::on_disk();
    let mut child = openvibe(&place.dir, &["acp"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#;
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{hello}").unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(reply["id"], 1);
    assert_eq!(reply["result"]["protocolVersion"], 1);
}

#[test]
fn a_command_inside_has_limits_the_usual_permissions_and_its_own_status() {
    let place = TestDatabase::on_disk();
    let script = "umask; head -c 3000000 /dev/zero > big 2> /dev/null; wc -c < big; exit 7";
    let limits = r#"{"file_mb": 1}"#;
    let arguments = ["runner", "inside", limits, "--", "sh", "-c", script];
    let output = run(&place.dir, &arguments);
    assert_eq!(output.status.code(), Some(7));
    let printed = stdout(&output);
    let words: Vec<&str> = printed.split_whitespace().collect();
    assert_eq!(words, ["0022", "1048576"]);
    let output = run(&place.dir, &["runner", "inside", "garbage", "--", "true"]);
    assert_eq!(output.status.code(), Some(125));
}

#[test]
fn a_command_inside_gets_no_sockets_or_keys_that_leave_its_namespace() {
    let place = TestDatabase::on_disk();
    let script = "
import ctypes, platform, socket
def attempt(family, kind):
    try:
        socket.socket(family, kind).close()
        return 'ok'
    except OSError as e:
        return e.errno
# ID of the session's keyring, which processes inherit.
keyctl = 250 if platform.machine() == 'x86_64' else 219
keyring = ctypes.CDLL(None, use_errno=True).syscall(keyctl, 0, -3, 0)
keys = 'ok' if keyring > 0 else ctypes.get_errno()
print(*[attempt(*pair) for pair in ((1, 1), (2, 1), (16, 3), (38, 5), (40, 1))], keys)
";
    let limits = r#"{"namespaced_calls": true}"#;
    let arguments = ["runner", "inside", limits, "--", "python3", "-c", script];
    let output = run(&place.dir, &arguments);
    // Local, IP, and routing sockets; EPERM for those of cryptography, of the host of a virtual machine, and for keys.
    assert_eq!(stdout(&output), "ok ok ok 1 1 1\n", "{output:?}");
}

#[tokio::test]
async fn a_server_goes_on_without_its_runner_if_there_is_no_sandbox() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    settings(&place.dir, "none", "");
    let server = TestProcess::start(&place, &model, &[("RUNNER", "runner.toml")]).await;
    let ended = async {
        loop {
            let log = std::fs::read_to_string(place.dir.join("stderr.log")).unwrap();
            if log.contains("the runner has ended") {
                return log;
            }
            pause().await;
        }
    };
    let log = within("the runner to end", ended).await;
    assert!(
        log.contains("openvibe: an embedded runner needs sandbox = \"bubblewrap\""),
        "{log}"
    );
    visitor(&server.base).get("/v1/auth/setup").await.ok();
    server.terminate();
    assert!(server.exited().await.success());
}
