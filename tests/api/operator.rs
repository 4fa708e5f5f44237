//! Settings and commands of whoever runs the server.

use std::{
    os::unix::fs::{MetadataExt, chown},
    path::Path,
    process::{Output, Stdio},
};

use openvibe_sqlite::SqliteConnectOptions;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    ModelServer, PASSWORD, TestApp, TestDatabase, TestProcess, command, id, own_port, pause,
    sign_up, text, visitor, within,
};

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn log(place: &TestDatabase) -> String {
    std::fs::read_to_string(place.dir.join("stderr.log")).unwrap()
}

async fn stopped(server: TestProcess) {
    server.terminate();
    assert!(server.exited().await.success());
}

#[tokio::test]
async fn a_model_server_that_does_not_work_is_named_at_the_start() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let refused = format!("http://127.0.0.1:{}/v1", own_port());
    let without_path = model.url.trim_end_matches("/v1").to_owned();
    for (url, problem) in [
        (
            refused,
            "the model server 127.0.0.1 refuses connections: start it",
        ),
        (
            without_path,
            "check OPENVIBE_MODEL_BASE_URL, which usually ends with /v1",
        ),
    ] {
        let settings = [("LOG", "warn"), ("MODEL_BASE_URL", url.as_str())];
        let server = TestProcess::start(&place, &model, &settings).await;
        within("the problem to be logged", async {
            while !log(&place).contains(problem) {
                pause().await;
            }
        })
        .await;
        stopped(server).await;
    }
}

#[tokio::test]
async fn settings_without_effect_are_named_at_the_start() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let settings = [
        ("LOG", "warn"),
        ("PUBLIC_ULR", "https://chat.example.org"),
        ("PORT", "99"),
        ("SERVICE_HOST", "10.0.0.1"),
        ("NATS_CREDENTIALS", "nats.creds"),
    ];
    stopped(TestProcess::start(&place, &model, &settings).await).await;
    let log = log(&place);
    for line in [
        "OPENVIBE_PUBLIC_ULR is not a setting: did you mean OPENVIBE_PUBLIC_URL?",
        "OPENVIBE_PORT is not a setting: use OPENVIBE_LISTEN",
        "OPENVIBE_NATS_CREDENTIALS has no effect without OPENVIBE_NATS_URL",
    ] {
        assert_eq!(log.matches(line).count(), 1, "{line} in {log}");
    }
    assert!(!log.contains("SERVICE_HOST"), "{log}");
}

#[tokio::test]
async fn a_log_filter_without_a_part_for_the_program_is_replaced() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let server = TestProcess::start(&place, &model, &[("LOG", "loud")]).await;
    stopped(server).await;
    let log = log(&place);
    assert!(log.contains("OPENVIBE_LOG is not a valid filter"), "{log}");
    assert!(log.contains("INFO"), "{log}");
}

#[tokio::test]
async fn the_settings_file_can_have_another_name() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let file = place.dir.join("other.toml");
    std::fs::write(&file, "signup = \"open\"\n").unwrap();
    std::fs::write(place.dir.join("openvibe.toml"), "signup = \"invite\"\n").unwrap();
    let path = file.to_str().unwrap();
    let server = TestProcess::start(&place, &model, &[("CONFIG", path)]).await;
    let setup = visitor(&server.base).get("/v1/auth/setup").await.ok();
    assert_eq!(text(&setup, "/signup"), "open");
    server.kill().await;
    std::fs::write(&file, "signpu = \"open\"\n").unwrap();
    let output = command(&place, &model, &[("CONFIG", path)])
        .output()
        .unwrap();
    let error = stderr(&output);
    assert!(
        error.contains("other.toml: `signpu` is not a setting: did you mean"),
        "{error}"
    );
    std::fs::remove_file(&file).unwrap();
    let output = command(&place, &model, &[("CONFIG", path)])
        .output()
        .unwrap();
    let error = stderr(&output);
    assert!(error.contains("OPENVIBE_CONFIG: cannot read"), "{error}");
}

#[tokio::test]
async fn commands_read_the_variables_of_a_service() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let file = place.dir.join("openvibe.env");
    let token = "first-account-of-this-test";
    let lines = format!(
        "# a comment with = and \"quotes\nOPENVIBE_SETUP_TOKEN=\"{token}\"\nOPENVIBE_PUBLIC_URL=https://file.example.org\n"
    );
    std::fs::write(&file, lines).unwrap();
    let link = |settings: &[(&str, &str)]| {
        let output = command(&place, &model, settings)
            .args(["setup-link", "--env-file", file.to_str().unwrap()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    let printed = link(&[]);
    assert_eq!(
        printed,
        format!("https://file.example.org/setup?setup_token={token}\n")
    );
    let printed = link(&[("PUBLIC_URL", "https://variable.example.org")]);
    assert!(
        printed.starts_with("https://variable.example.org/"),
        "{printed}"
    );
    let output = command(&place, &model, &[])
        .args(["setup-link", "--env-file", "/nonexistent.env"])
        .output()
        .unwrap();
    assert!(stderr(&output).contains("cannot read /nonexistent.env"));
}

#[tokio::test]
async fn a_command_of_root_runs_as_the_owner_of_the_data() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let (data, owner) = (place.dir.join("owned"), 65_534);
    std::fs::create_dir(&data).unwrap();
    for dir in [&data, &place.dir] {
        chown(dir, Some(owner), Some(owner)).unwrap();
    }
    let file = place.dir.join("root.env");
    std::fs::write(&file, format!("OPENVIBE_DATA_DIR={}\n", data.display())).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let database = format!("sqlite://{}/openvibe.db", data.display());
    let program = place.dir.join("openvibe");
    // Not by this process: a child of another test could still have the file open for writing when it is executed.
    let copied = std::process::Command::new("cp")
        .args([env!("CARGO_BIN_EXE_openvibe").as_ref(), program.as_os_str()])
        .status();
    assert!(copied.unwrap().success());
    let output = std::process::Command::new(&program)
        .env_clear()
        .env("OPENVIBE_DATABASE_URL", &database)
        .env("OPENVIBE_LOG", "error")
        .current_dir(&place.dir)
        .args(["migrate", "--env-file", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let stored = std::fs::metadata(data.join("openvibe.db")).unwrap();
    assert_eq!(stored.uid(), owner);
    drop(model);
}

#[tokio::test]
async fn the_listen_address_and_the_names_are_options_of_the_server_only() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    for (arguments, problem) in [
        (&["setup-link", "--listen", "127.0.0.1:0"][..], "--listen"),
        (&["--listen", "127.0.0.1:0", "migrate"], "--listen"),
        (&["--domain", "chat.example.org", "migrate"], "--domain"),
        (
            &["serve", "--domain", "https://chat.example.org"],
            "OPENVIBE_DOMAIN: `https://chat.example.org` is not a name",
        ),
    ] {
        let output = command(&place, &model, &[])
            .args(arguments)
            .output()
            .unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(stderr(&output).contains(problem), "{}", stderr(&output));
    }
}

#[tokio::test]
async fn the_operator_lists_promotes_and_disables_accounts() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let settings = [("SIGNUP", "open")];
    let server = TestProcess::start(&place, &model, &settings).await;
    let mut ada = sign_up(&server.base, "Ada", None).await;
    let workspace = ada
        .post("/v1/workspaces", json!({"name": "Works"}))
        .await
        .is(201);
    ada.enter(&id(&workspace)).await;
    let bo = sign_up(&server.base, "Bo", None).await;
    let (robot, _) = ada.make_key(&["chat:read"]).await;
    let run = |arguments: &[&str]| {
        command(&place, &model, &[])
            .args(arguments)
            .output()
            .unwrap()
    };
    let listed = stdout(&run(&["user", "list"]));
    assert_eq!(
        listed,
        "ada@example.org\tAda\tworks (admin)\nbo@example.org\tBo\n"
    );
    let promote = ["user", "make-admin", "--email", &bo.email, "--workspace"];
    let output = run(&[&promote[..], &["nowhere"]].concat());
    assert!(stderr(&output).contains("workspace"), "{}", stderr(&output));
    for _ in 0..2 {
        let output = run(&[&promote[..], &["works"]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let members = ada.get("/v1/members").await.ok();
    assert_eq!(members["data"][1]["role"], "admin", "{members}");
    assert!(stdout(&run(&["user", "list"])).contains("bo@example.org\tBo\tworks (admin)"));
    let entries = ada
        .get("/v1/audit-log?action=member.role_changed")
        .await
        .ok();
    assert_eq!(entries["data"][0]["actor_kind"], "operator", "{entries}");
    assert!(entries["data"][0]["actor_id"].is_null(), "{entries}");
    let output = run(&["user", "sign-in-link", "--email", &bo.email]);
    let link = stdout(&output);
    let (_, token) = link.trim_end().split_once("/sign-in#link=").unwrap();
    let opened = visitor(&server.base)
        .post("/v1/auth/sign-in-link", json!({"token": token}))
        .await;
    assert_eq!(opened.is(200)["user"]["id"], bo.id);
    let output = run(&["user", "disable", "--email", &ada.email]);
    assert!(output.status.success(), "{}", stderr(&output));
    ada.get("/v1/channels").await.refused(401);
    robot.get("/v1/channels").await.refused(401);
    let form = json!({"email": ada.email, "password": PASSWORD});
    visitor(&server.base)
        .post("/v1/auth/login", form)
        .await
        .refused(401);
    let reset = [
        "user",
        "reset-password",
        "--email",
        &ada.email,
        "--password",
        "another horse",
    ];
    assert!(run(&reset).status.success());
    let form = json!({"email": ada.email, "password": "another horse"});
    visitor(&server.base)
        .post("/v1/auth/login", form)
        .await
        .is(200);
}

#[tokio::test]
async fn a_json_log_has_no_other_lines_at_the_start() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let settings = [
        ("LOG", "info"),
        ("LOG_FORMAT", "json"),
        ("LISTEN", "0.0.0.0:0"),
        // A system that allows few open files would be told, too.
        ("CONNECTIONS_MAX", "100"),
        ("SOCKETS_MAX", "100"),
    ];
    let server = TestProcess::start(&place, &model, &settings).await;
    assert!(!server.said.is_empty());
    for line in &server.said {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(
            text(&line, "/message").starts_with("setup link: http://"),
            "{line}"
        );
    }
    stopped(server).await;
    let log = log(&place);
    let first: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let summary = text(&first, "/message");
    assert!(
        summary.starts_with(&format!("OpenVibe {version}")),
        "{summary}"
    );
    assert!(summary.contains(", model 127.0.0.1"), "{summary}");
}

#[tokio::test]
async fn a_failed_sign_in_is_logged_with_its_address_only() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let server = TestProcess::start(&place, &model, &[("LOG", "warn")]).await;
    let ada = sign_up(&server.base, "Ada", None).await;
    let who = visitor(&server.base);
    for email in [ada.email.as_str(), "nobody@example.org"] {
        let form = json!({"email": email, "password": "wrong horse"});
        who.post("/v1/auth/login", form).await.refused(401);
    }
    let form = json!({"email": ada.email, "password": PASSWORD});
    who.post("/v1/auth/login", form).await.is(200);
    stopped(server).await;
    let log = log(&place);
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("a sign-in failed"))
        .collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(lines.iter().all(|line| line.contains("127.0.0.1")), "{log}");
    assert!(!log.contains("@example.org"), "{log}");
}

#[tokio::test]
async fn a_proxy_that_is_not_trusted_is_named_once() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let server = TestProcess::start(&place, &model, &[("LOG", "warn")]).await;
    for _ in 0..3 {
        let forwarded = [("x-forwarded-for", "203.0.113.7")];
        let who = visitor(&server.base);
        who.send(Method::GET, "/v1/auth/setup", &forwarded, None)
            .await
            .is(200);
    }
    stopped(server).await;
    let log = log(&place);
    let line =
        "requests carry X-Forwarded-For from 127.0.0.1, which is not in OPENVIBE_TRUSTED_PROXIES";
    assert_eq!(log.matches(line).count(), 1, "{log}");
}

#[tokio::test]
async fn another_secret_key_is_an_error_at_the_start() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let key = |byte: &str| format!("{}=", byte.repeat(43));
    let (old, new) = (key("A"), key("Q"));
    let settings = |key| {
        [
            ("SECRET_KEY", key),
            ("LOG", "error"),
            ("MODEL_BASE_URL", ""),
        ]
    };
    let server = TestProcess::start(&place, &model, &settings(&old)).await;
    let mut ada = sign_up(&server.base, "Ada", None).await;
    let workspace = ada
        .post("/v1/workspaces", json!({"name": "Works"}))
        .await
        .is(201);
    ada.enter(&id(&workspace)).await;
    let form =
        json!({"provider": "other", "base_url": model.url, "api_key": "sk-1", "model": "tiny"});
    ada.put(&format!("/v1/workspaces/{}/model", ada.workspace), form)
        .await
        .is(200);
    stopped(server).await;
    let line = "secret.key does not open the stored keys";
    assert!(!log(&place).contains(line));
    stopped(TestProcess::start(&place, &model, &settings(&new)).await).await;
    assert_eq!(log(&place).matches(line).count(), 1, "{}", log(&place));
}

#[tokio::test]
async fn metrics_of_a_public_server_need_a_token_or_an_address_of_their_own() {
    let settings = [
        ("PUBLIC_URL", "https://chat.example"),
        ("METRICS_LISTEN", "127.0.0.1:0"),
    ];
    let app = TestApp::with(&settings).await;
    let refused = visitor(&app.base).get("/metrics").await;
    assert_eq!(refused.refused(403), "metrics_closed");
    let metrics = visitor(&format!("http://{}", app.metrics_address()));
    let found = metrics.get("/metrics").await;
    assert_eq!(found.status, 200);
    assert!(found.text.contains("openvibe_db_up 1"), "{}", found.text);
    assert_eq!(metrics.get("/v1/auth/setup").await.status, 404);
}

#[tokio::test]
async fn a_browser_gets_a_page_for_an_unknown_host() {
    let app = TestApp::start().await;
    let headers = [
        ("host", "evil.example"),
        ("accept", "text/html,application/xhtml+xml"),
    ];
    let page = visitor(&app.base)
        .send(Method::GET, "/", &headers, None)
        .await;
    assert_eq!(page.status, 400);
    let kind = page.header("content-type").unwrap();
    assert!(kind.starts_with("text/html"), "{kind}");
    assert!(page.text.contains("OPENVIBE_PUBLIC_URL"), "{}", page.text);
    let headers = [("host", "evil.example")];
    let reply = visitor(&app.base)
        .send(Method::GET, "/", &headers, None)
        .await;
    assert_eq!(reply.refused(400), "unknown_host");
}

#[tokio::test]
async fn a_server_does_not_start_without_the_database_of_its_uploads() {
    let (place, model) = (TestDatabase::on_disk(), ModelServer::start().await);
    let server = TestProcess::start(&place, &model, &[]).await;
    let mut ada = sign_up(&server.base, "Ada", None).await;
    let workspace = ada
        .post("/v1/workspaces", json!({"name": "Works"}))
        .await
        .is(201);
    ada.enter(&id(&workspace)).await;
    ada.upload("plan.txt", b"words").await;
    stopped(server).await;
    let openvibe::db::DatabaseUrl::Sqlite(file) = place.url() else {
        unreachable!("a database on disk is a SQLite file");
    };
    for end in ["-wal", "-shm"] {
        drop(std::fs::remove_file(format!("{}{end}", file.display())));
    }
    std::fs::write(&file, b"").unwrap();
    let output = command(&place, &model, &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = stderr(&output);
    assert!(
        error.contains("is empty, but there are uploads: restore a backup"),
        "{error}"
    );
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 0);
}

#[tokio::test]
async fn a_backup_that_lacks_an_upload_ends_with_status_3() {
    let (place, model) = (TestDatabase::on_disk(), ModelServer::start().await);
    let server = TestProcess::start(&place, &model, &[]).await;
    let mut ada = sign_up(&server.base, "Ada", None).await;
    let workspace = ada
        .post("/v1/workspaces", json!({"name": "Works"}))
        .await
        .is(201);
    ada.enter(&id(&workspace)).await;
    ada.upload("plan.txt", b"words").await;
    let back_up = |name: &str| {
        let file = place.dir.join(name);
        command(&place, &model, &[])
            .args(["backup", file.to_str().unwrap()])
            .output()
            .unwrap()
    };
    assert_eq!(back_up("whole.ovb").status.code(), Some(0));
    let blobs = openvibe::config::Config::from_values(place.settings().into_iter().collect())
        .unwrap()
        .data_dir
        .join("blobs");
    std::fs::remove_dir_all(&blobs).unwrap();
    let output = back_up("partial.ovb");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let error = stderr(&output);
    assert!(
        error.contains("1 uploads of the backup are missing or damaged"),
        "{error}"
    );
    assert!(place.dir.join("partial.ovb").exists());
}

#[tokio::test]
async fn a_backup_is_restored_from_standard_input() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let server = TestProcess::start(&place, &model, &[]).await;
    sign_up(&server.base, "Ada", None).await;
    let file = place.dir.join("backup.ovb");
    let output = command(&place, &model, &[])
        .args(["backup", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let target = TestDatabase::on_disk();
    let restore = |from: Stdio, name: &str| {
        command(&target, &model, &[])
            .args(["restore", name])
            .stdin(from)
            .output()
            .unwrap()
    };
    let missing = restore(Stdio::null(), "/nonexistent/backup.ovb");
    let error = stderr(&missing);
    assert!(error.contains("/nonexistent/backup.ovb"), "{error}");
    let output = restore(std::fs::File::open(&file).unwrap().into(), "-");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(target.count("users").await, 1);
    let left = |dir: &Path| {
        let entries = std::fs::read_dir(dir).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        names
            .filter(|name| name.to_string_lossy().contains(".restore-"))
            .count()
    };
    assert_eq!(left(&target.dir), 0);
}

#[tokio::test]
async fn a_server_of_postgresql_that_is_away_is_named_with_the_cause() {
    let (place, model) = (TestDatabase::on_disk(), ModelServer::start().await);
    let settings = [
        ("DATABASE_URL", "postgres://openvibe@127.0.0.1:1/openvibe"),
        ("LOG", "warn"),
    ];
    let output = command(&place, &model, &settings)
        .arg("migrate")
        .output()
        .unwrap();
    let error = stderr(&output);
    let cause = "cannot reach 127.0.0.1:1: connection refused";
    let last = error.lines().last().unwrap();
    assert!(
        last.contains(cause) && !last.contains("os error"),
        "{error}"
    );
    assert_eq!(last.matches(cause).count(), 1, "{error}");
    let warned = error.lines().filter(|line| line.contains("trying again"));
    assert!(warned.count() >= 2, "{error}");
}

#[tokio::test]
async fn a_clock_behind_the_data_is_named_at_the_start() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let settings = [("LOG", "warn")];
    let server = TestProcess::start(&place, &model, &settings).await;
    let mut ada = sign_up(&server.base, "Ada", None).await;
    let workspace = ada
        .post("/v1/workspaces", json!({"name": "Works"}))
        .await
        .is(201);
    ada.enter(&id(&workspace)).await;
    let general = id(&ada.channel("general").await);
    ada.start(&general, "Hello").await;
    stopped(server).await;
    assert!(!log(&place).contains("the clock of this machine"));
    place
        .run(&["update events set ts = '2100-01-01T00:00:00+00:00'"])
        .await;
    stopped(TestProcess::start(&place, &model, &settings).await).await;
    let log = log(&place);
    assert!(
        log.contains("minutes behind the newest data: synchronize it"),
        "{log}"
    );
}

#[tokio::test]
async fn the_program_prints_licenses() {
    let (place, model) = (TestDatabase::on_disk(), ModelServer::start().await);
    let output = command(&place, &model, &[])
        .arg("licenses")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let printed = stdout(&output);
    assert!(printed.starts_with("MIT License"), "{printed}");
    assert!(
        printed.contains("the licenses of its dependencies"),
        "{printed}"
    );
}

#[tokio::test]
async fn a_stopped_server_gives_back_the_space_of_deleted_data() {
    let (place, model) = (TestDatabase::on_disk(), ModelServer::start().await);
    let server = TestProcess::start(&place, &model, &[]).await;
    sign_up(&server.base, "Ada", None).await;
    let compact = |settings: &[(&str, &str)]| {
        let mut command = command(&place, &model, settings);
        command.arg("compact").output().unwrap()
    };
    let running = compact(&[]);
    assert_eq!(running.status.code(), Some(1));
    let error = stderr(&running);
    assert!(
        error.contains("is in use by another OpenVibe server"),
        "{error}"
    );
    stopped(server).await;
    let openvibe::db::DatabaseUrl::Sqlite(file) = place.url() else {
        unreachable!("a database on disk is a SQLite file");
    };
    let mut c = SqliteConnectOptions::new().filename(&file).open().unwrap();
    c.run(
        "create table filler as with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000) \
         select i, zeroblob(4000) as bytes from n; drop table filler; pragma wal_checkpoint(truncate)",
        None,
    )
    .unwrap();
    drop(c);
    let size = || std::fs::metadata(&file).unwrap().len();
    let before = size();
    assert!(before > 2_000 * 4_000, "{before}");
    // Leftover of an interrupted run.
    let new = format!("{}.compact", file.display());
    std::fs::write(&new, b"half of a file").unwrap();
    let output = compact(&[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("you can start the server"),
        "{}",
        stdout(&output)
    );
    assert!(size() < before - 2_000 * 4_000, "{before} {}", size());
    assert!(!Path::new(&new).exists());
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(place.count("users").await, 1);
    stopped(TestProcess::start(&place, &model, &[]).await).await;
    let away = ("DATABASE_URL", "postgres://db.invalid/openvibe");
    let error = stderr(&compact(&[away]));
    assert!(error.contains("`vacuum full`"), "{error}");
    let empty = place.dir.join("empty");
    let error = stderr(&compact(&[("DATA_DIR", empty.to_str().unwrap())]));
    assert!(error.contains("there is no database at"), "{error}");
    assert!(!empty.exists());
}
