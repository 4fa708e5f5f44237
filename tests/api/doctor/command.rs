//! `openvibe doctor`, beside a running server and without one.

use std::{
    net::TcpListener,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
    process::Command,
};

use serde_json::Value;

use super::{assert_found, check};
use crate::support::{ModelServer, TestDatabase, TestProcess, command, own_port};

/// Runs the checks with these settings, and returns the results and the exit status.
pub(super) fn run(mut command: Command) -> (Value, i32) {
    let output = command.args(["doctor", "--json"]).output().unwrap();
    let result = serde_json::from_slice(&output.stdout);
    let result = result.unwrap_or_else(|e| panic!("{e}: {output:?}"));
    (result, output.status.code().unwrap())
}

// The command waits for the model server, which runs in this process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_checks_a_running_server() {
    let (place, model) = (TestDatabase::new().await, ModelServer::start().await);
    let port = own_port();
    let listen = format!("127.0.0.1:{port}");
    let settings = [("LISTEN", listen.as_str())];
    let _server = TestProcess::start(&place, &model, &settings).await;
    let (result, status) = run(command(&place, &model, &settings));
    for name in [
        "settings",
        "database",
        "ports",
        "public",
        "websocket",
        "stream",
        "upload",
        "model",
    ] {
        assert_found(&result, name, "ok", &[]);
    }
    assert_eq!(
        status,
        i32::from(result.to_string().contains("\"failed\"")),
        "{result}"
    );
    // A proxy that leads elsewhere.
    let closed = format!("https://localhost:{}", own_port());
    let settings = [("LISTEN", listen.as_str()), ("PUBLIC_URL", closed.as_str())];
    let mut command = command(&place, &model, &settings);
    let output = command.arg("doctor").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    let line = format!(
        "failed  public: {closed} refuses connections: start the proxy, and point it to {listen}; or correct OPENVIBE_PUBLIC_URL"
    );
    assert!(said.lines().any(|found| found == line), "{said}");
}

#[tokio::test]
async fn without_a_server_the_command_checks_what_it_can() {
    let (place, model) = (TestDatabase::new().await, ModelServer::start().await);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = listener.local_addr().unwrap().to_string();
    let data = place.dir.join("doctor-data");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700)).unwrap();
    let own = std::fs::read_to_string("/proc/self/comm").unwrap();
    let settings = [
        ("LISTEN", listen.as_str()),
        ("DATA_DIR", data.to_str().unwrap()),
        ("BACKUP_AT", "03:00"),
    ];
    let mut with = command(&place, &model, &settings);
    with.env("OPENVIBE_FREE_BYTES", "100000000")
        .env("OPENVIBE_PUBLIC_ULR", "https://chat.example.org");
    let (result, status) = run(with);
    assert_eq!(status, 1);
    let held = format!("held by {} (PID {})", own.trim(), std::process::id());
    assert_found(&result, "ports", "failed", &[&held, "set OPENVIBE_LISTEN"]);
    assert_found(
        &result,
        "data",
        "failed",
        &["95.4 MiB free", "uploads are refused", "free some space"],
    );
    let unknown = [
        "OPENVIBE_PUBLIC_ULR is not a setting",
        "did you mean OPENVIBE_PUBLIC_URL?",
    ];
    assert_found(&result, "settings", "warning", &unknown);
    assert_found(
        &result,
        "settings",
        "warning",
        &["OPENVIBE_BACKUP_AT has no effect without OPENVIBE_BACKUP_TO"],
    );
    for name in [
        "database", "nodes", "clock", "public", "https", "upload", "model", "backup",
    ] {
        assert_found(&result, name, "skipped", &[]);
    }
    let name = [
        ("PUBLIC_URL", "https://chat.invalid"),
        ("LISTEN", "127.0.0.1:0"),
    ];
    let (result, _) = run(command(&place, &model, &name));
    assert_found(&result, "dns", "failed", &["chat.invalid has no address"]);
    assert_found(&result, "ports", "ok", &[]);
    let file = place.dir.join("a-file");
    std::fs::write(&file, "").unwrap();
    let no_directory = [
        ("DATA_DIR", file.to_str().unwrap()),
        ("LISTEN", "127.0.0.1:0"),
    ];
    let (result, _) = run(command(&place, &model, &no_directory));
    let parts = ["a-file is not a directory", "set OPENVIBE_DATA_DIR"];
    assert_found(&result, "data", "failed", &parts);
    let away = [("LISTEN", "203.0.113.7:8080")];
    let (result, _) = run(command(&place, &model, &away));
    assert_found(
        &result,
        "ports",
        "failed",
        &[
            "cannot listen on 203.0.113.7:8080",
            "an address of this machine",
        ],
    );
}

#[test]
fn root_continues_as_the_owner_who_cannot_enter_the_current_directory() {
    let place = TestDatabase::on_disk();
    if std::fs::metadata(&place.dir).unwrap().uid() != 0 {
        return;
    }
    let made = |name: &str, mode: u32| {
        let dir = place.dir.join(name);
        std::fs::create_dir(&dir).unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(mode)).unwrap();
        dir
    };
    std::fs::set_permissions(&place.dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (home, data) = (made("root", 0o700), made("data", 0o700));
    chown(&data, Some(1001), Some(1001)).unwrap();
    let at_home = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_openvibe"));
        command
            .env_clear()
            .current_dir(&home)
            .env("OPENVIBE_LISTEN", "127.0.0.1:0")
            .env("OPENVIBE_DATA_DIR", &data);
        command
    };
    let checked = || run(at_home()).0;
    let result = checked();
    assert_found(&result, "settings", "ok", &[]);
    assert_ne!(check(&result, "data")["state"], "failed", "{result}");
    let backup = at_home().args(["backup", "x.ovb"]).output().unwrap();
    let said = String::from_utf8_lossy(&backup.stderr);
    assert!(
        said.contains("cannot write x.ovb: Permission denied") && said.contains("write to `-`"),
        "{said}"
    );
    // A file that only root can read is not replaced by another one.
    std::fs::write(home.join("openvibe.toml"), "signup = \"open\"\n").unwrap();
    let named = home.join("openvibe.toml").display().to_string();
    assert_found(
        &checked(),
        "settings",
        "failed",
        &["OPENVIBE_CONFIG", &named],
    );
}

#[tokio::test]
async fn contradicting_settings_and_exposed_files_are_found() {
    let (place, model) = (TestDatabase::new().await, ModelServer::start().await);
    for (settings, parts) in [
        (&[("TLS_CERT", "chain.pem")][..], &["belong together"][..]),
        (
            &[("PUBLIC_URL", "https://chat.example.org/chat")],
            &["has the path /chat", "a host name of its own"],
        ),
        (
            &[("SIGNUP", "everyone")],
            &["OPENVIBE_SIGNUP", "correct the settings"],
        ),
        (
            &[("CA_FILE", "absent.pem")],
            &["OPENVIBE_CA_FILE: absent.pem"],
        ),
    ] {
        let (result, status) = run(command(&place, &model, settings));
        assert_found(&result, "settings", "failed", parts);
        assert_found(&result, "data", "skipped", &["the settings cannot be read"]);
        assert_eq!(status, 1);
    }
    let key = format!("{}=", "A".repeat(43));
    let ordered = [
        ("DOMAIN", "chat.invalid"),
        ("LISTEN", "127.0.0.1:0"),
        ("HTTP_LISTEN", "127.0.0.1:0"),
        ("SECRET_KEY", key.as_str()),
    ];
    for (url, parts) in [
        (
            "http://chat.invalid",
            &[
                "http, but the server uses HTTPS",
                "OPENVIBE_PUBLIC_URL=https://chat.invalid",
            ],
        ),
        (
            "https://other.invalid",
            &[
                "other.invalid, which is not in OPENVIBE_DOMAIN",
                "add other.invalid",
            ],
        ),
    ] {
        let settings = [&ordered[..], &[("PUBLIC_URL", url)]].concat();
        let (result, _) = run(command(&place, &model, &settings));
        assert_found(&result, "settings", "failed", parts);
    }
    let absent = [
        ("TLS_CERT", "absent.pem"),
        ("TLS_KEY", "absent.pem"),
        ("LISTEN", "127.0.0.1:0"),
        ("HTTP_LISTEN", "127.0.0.1:0"),
    ];
    let (result, status) = run(command(&place, &model, &absent));
    let parts = [
        "OPENVIBE_TLS_CERT: absent.pem: No such file",
        "correct the files",
    ];
    assert_found(&result, "settings", "failed", &parts);
    assert_eq!(status, 1);
    let log = [("LOG", "loud"), ("LISTEN", "127.0.0.1:0")];
    let (result, _) = run(command(&place, &model, &log));
    let parts = ["OPENVIBE_LOG is not a valid filter", "set it to info"];
    assert_found(&result, "settings", "warning", &parts);
    let everywhere = [("LISTEN", "0.0.0.0:0")];
    let (result, _) = run(command(&place, &model, &everywhere));
    assert_found(
        &result,
        "settings",
        "warning",
        &["OPENVIBE_PUBLIC_URL is not set", "set it to the address"],
    );
    // Files that others can read.
    let write = |path: &Path, text: &str, mode: u32| {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let file = place.dir.join("settings.toml");
    let with_file = || {
        let mut command = command(&place, &model, &[("LISTEN", "127.0.0.1:0")]);
        command.env("OPENVIBE_CONFIG", &file);
        run(command).0
    };
    write(&file, "metrics_token = \"secret\"\n", 0o644);
    assert_found(
        &with_file(),
        "settings",
        "failed",
        &["settings.toml has secrets", "chmod o= "],
    );
    let mail = "smtp_url = \"smtps://ada:secret@127.0.0.1:9\"\n";
    write(&file, mail, 0o644);
    assert_found(
        &with_file(),
        "settings",
        "failed",
        &["settings.toml has secrets"],
    );
    write(&file, "metrics_token = \"secret\"\n", 0o640);
    assert_found(&with_file(), "settings", "ok", &[]);
    write(&file, "signup = \"open\"\n", 0o644);
    assert_found(&with_file(), "settings", "ok", &[]);
    let data = place.dir.join("keys");
    std::fs::create_dir(&data).unwrap();
    write(&data.join("secret.key"), "key", 0o640);
    let settings = [
        ("DATA_DIR", data.to_str().unwrap()),
        ("LISTEN", "127.0.0.1:0"),
    ];
    let (result, _) = run(command(&place, &model, &settings));
    assert_found(
        &result,
        "settings",
        "failed",
        &["secret.key has secrets", "chmod go= "],
    );
}

// As above.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_checked_through_the_public_url() {
    let (place, model) = (TestDatabase::new().await, ModelServer::start().await);
    let (https, http) = (own_port(), own_port());
    let (chain, key) = (place.dir.join("chain.pem"), place.dir.join("key.pem"));
    let day = rcgen::date_time_ymd;
    for (name, until, trusted, state, parts) in [
        (
            "localhost",
            day(2090, 1, 1),
            true,
            "ok",
            &["is valid until"][..],
        ),
        (
            "localhost",
            day(2090, 1, 1),
            false,
            "failed",
            &["not signed by a known authority", "OPENVIBE_TLS_CERT"],
        ),
        (
            "localhost",
            day(2021, 1, 1),
            true,
            "failed",
            &["has expired", "renew the files"],
        ),
        (
            "other.example",
            day(2090, 1, 1),
            true,
            "failed",
            &["has no working TLS", "a certificate for this name"],
        ),
        (
            "localhost",
            day(2036, 1, 1),
            true,
            "warning",
            &[
                "expires soon, on Tuesday, January 1, 2036",
                "renew the files",
            ],
        ),
    ] {
        let mut made = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        made.not_before = day(1990, 1, 1);
        made.not_after = until;
        let pair = rcgen::KeyPair::generate().unwrap();
        let certificate = made.self_signed(&pair).unwrap().pem();
        std::fs::write(&chain, &certificate).unwrap();
        std::fs::write(&key, pair.serialize_pem()).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        let mut settings = vec![
            ("TLS_CERT", chain.display().to_string()),
            ("TLS_KEY", key.display().to_string()),
            ("LISTEN", format!("127.0.0.1:{https}")),
            ("HTTP_LISTEN", format!("127.0.0.1:{http}")),
            ("PUBLIC_URL", format!("https://localhost:{https}")),
        ];
        if trusted {
            settings.push(("CA_FILE", chain.display().to_string()));
        }
        let settings: Vec<_> = settings.iter().map(|(n, v)| (*n, v.as_str())).collect();
        let server = TestProcess::start(&place, &model, &settings).await;
        let (result, _) = run(command(&place, &model, &settings));
        assert_found(&result, "https", state, parts);
        if name == "localhost" {
            for name in ["public", "websocket", "stream", "upload"] {
                assert_found(&result, name, "ok", &[]);
            }
        }
        server.kill().await;
    }
}
