//! Backups on a schedule, and the proof that they can be restored.

use std::{
    io::Read,
    path::{Path, PathBuf},
    time::Duration,
};

use openvibe::{
    db::{Conn, now},
    ids::WorkspaceId,
    inbox::server_alerts::{self, ServerAlert},
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{
    ModelServer, Person, S3, TestApp, TestDatabase, TestProcess, command, id, list, setting,
    sign_up, text, within,
};

async fn server(who: &Person) -> Value {
    who.get("/v1/server").await.ok()
}

/// Starts a run and waits until it has ended. Returns the state of the server.
async fn run(who: &Person, path: &str) -> Value {
    who.post(path, json!({})).await.is(202);
    within("the run to end", async {
        loop {
            let found = server(who).await;
            if found["backups"]["running"] == false {
                return found;
            }
        }
    })
    .await
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A server with a directory for backups, and an admin.
async fn with_backups() -> (TestApp, Person, PathBuf) {
    let place = TestDatabase::migrated().await;
    let dir = place.dir.join("backups");
    let settings = [("BACKUP_TO", dir.to_str().unwrap()), ("RATE_LIMITS", "off")];
    let app = TestApp::on(place, &settings).await;
    let ada = app.founder("Ada").await;
    (app, ada, dir)
}

#[tokio::test]
async fn a_backup_is_published_when_it_is_complete_and_can_be_restored() {
    let (_app, ada, dir) = with_backups().await;
    ada.upload("plan.txt", &b"words ".repeat(50_000)).await;
    let before = server(&ada).await;
    assert_eq!(before["backups"]["to"], dir.to_str().unwrap());
    assert!(before["backups"]["last"].is_null() && before["backups"]["next_at"].is_string());
    let after = run(&ada, "/v1/server/backups").await;
    assert!(after["backups"]["error"].is_null(), "{after}");
    let name = text(&after, "/backups/last/name");
    assert!(
        name.starts_with("openvibe-")
            && Path::new(&name).extension().is_some_and(|end| end == "ovb"),
        "{name}"
    );
    assert_eq!(names(&dir), std::slice::from_ref(&name));
    let size = std::fs::metadata(dir.join(&name)).unwrap().len();
    assert_eq!(after["backups"]["last"]["bytes"], size);
    let listed = ada.get("/v1/server/backups").await.ok();
    assert_eq!(
        (&listed["data"][0]["name"], &listed["data"][0]["drilled"]),
        (&json!(name), &json!(false))
    );
    let tested = run(&ada, "/v1/server/drill").await;
    let drill = &tested["backups"]["drill"];
    assert!(
        drill["fault"].is_null() && drill["skipped"].is_null(),
        "{drill}"
    );
    assert_eq!(drill["name"], name.as_str());
    let last = |server: &Value, field: &str| server["backups"]["last"][field].clone();
    assert_eq!(last(&after, "drill_at"), Value::Null);
    assert_eq!(last(&tested, "drill_at"), drill["at"]);
    let listed = ada.get("/v1/server/backups").await.ok();
    assert_eq!(listed["data"][0]["drilled"], true);
    let audit = ada.get("/v1/audit-log").await.ok();
    let actions: Vec<String> = list(&audit, "/data")
        .iter()
        .map(|e| text(e, "/action"))
        .collect();
    for action in ["server.backup_started", "server.drill_started"] {
        assert!(actions.iter().any(|known| known == action), "{actions:?}");
    }
}

#[tokio::test]
async fn without_a_backup_nothing_can_be_tested() {
    let (_app, ada, _) = with_backups().await;
    let refused = ada.post("/v1/server/drill", json!({})).await;
    assert_eq!(refused.refused(422), "no_backup");
    let backups = &server(&ada).await["backups"];
    assert!(
        backups["running"] == false && backups["drill"].is_null(),
        "{backups}"
    );
    run(&ada, "/v1/server/backups").await;
    run(&ada, "/v1/server/drill").await;
}

#[tokio::test]
async fn a_run_or_checks_of_a_process_that_died_are_over_after_a_restart() {
    let (mut app, ada, _) = with_backups().await;
    app.stop().await;
    let abandoned = [
        "insert into meta (key, value) values ('backups', '{\"running_until\": \"2099-01-01T00:00:00.000Z\"}') \
         on conflict (key) do update set value = excluded.value",
        "insert into meta (key, value) values ('checks_until', '2099-01-01T00:00:00.000Z')",
    ];
    app.place.run(&abandoned).await;
    app.restart(&[]).await;
    let ada = ada.at(&app.base);
    assert_eq!(server(&ada).await["backups"]["running"], false);
    run(&ada, "/v1/server/backups").await;
    ada.post("/v1/server/checks", json!({})).await.is(200);
}

#[tokio::test]
async fn a_quiet_copy_makes_no_backups_by_itself() {
    let place = TestDatabase::migrated().await;
    let dir = place.dir.join("kept");
    let settings = [
        ("BACKUP_TO", dir.to_str().unwrap()),
        ("QUIET", "on"),
        ("RATE_LIMITS", "off"),
    ];
    let app = TestApp::on(place, &settings).await;
    let ada = app.founder("Ada").await;
    let backups = &server(&ada).await["backups"];
    assert!(
        backups["to"].is_string() && backups["next_at"].is_null(),
        "{backups}"
    );
    run(&ada, "/v1/server/backups").await;
    assert_eq!(names(&dir).len(), 1);
}

/// The content of a gzip file, if it is undamaged.
fn unpacked(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let mut gzip = flate2::read::GzDecoder::new(bytes);
    gzip.read_to_end(&mut content).ok()?;
    Some(content)
}

#[tokio::test]
async fn a_test_finds_a_flipped_byte_anywhere() {
    let (_app, ada, dir) = with_backups().await;
    ada.upload("plan.txt", b"words").await;
    let made = run(&ada, "/v1/server/backups").await;
    let path = dir.join(text(&made, "/backups/last/name"));
    let whole = std::fs::read(&path).unwrap();
    let content = unpacked(&whole);
    assert!(content.is_some());
    // More with `make flips`.
    let flips: usize = setting("OPENVIBE_TEST_FLIPS").unwrap_or(7);
    for n in 0..flips {
        let mut damaged = whole.clone();
        // The header of gzip has bytes without meaning, such as a time.
        let at = 10 + (damaged.len() - 10) * (n + 1) / (flips + 1);
        damaged[at] ^= 1 << (n % 8);
        std::fs::write(&path, &damaged).unwrap();
        let tested = run(&ada, "/v1/server/drill").await;
        // A match in repeated bytes can refer to another place and give the same content. That is not damage.
        let is_same = unpacked(&damaged) == content;
        let has_fault = tested["backups"]["drill"]["fault"].is_string();
        assert_ne!(has_fault, is_same, "byte {at}: {tested}");
    }
    std::fs::write(&path, &whole).unwrap();
    let tested = run(&ada, "/v1/server/drill").await;
    assert!(tested["backups"]["drill"]["fault"].is_null(), "{tested}");
}

#[tokio::test]
async fn only_own_backups_are_deleted_and_leftovers_are_removed() {
    let (_app, ada, dir) = with_backups().await;
    let made = run(&ada, "/v1/server/backups").await;
    let name = text(&made, "/backups/last/name");
    let cluster = name.split('-').nth(1).unwrap();
    let old = |day: u32| format!("openvibe-{cluster}-200101{day:02}T0330Z-0.1.0.ovb");
    let foreign = [
        "openvibe-ffffffffffffffffffffffffffffffff-20010101T0330Z-0.1.0.ovb".to_owned(),
        "before-0.1.0.ovb".to_owned(),
        "photos.zip".to_owned(),
    ];
    let own: Vec<String> = (1..=20).map(old).collect();
    let leftover = format!("openvibe-{cluster}-20010101T0331Z-0.1.0.ovb.partial");
    for name in foreign.iter().chain(&own).chain([&leftover]) {
        std::fs::write(dir.join(name), b"x").unwrap();
    }
    run(&ada, "/v1/server/backups").await;
    let left = names(&dir);
    assert!(foreign.iter().all(|name| left.contains(name)), "{left:?}");
    assert!(!left.contains(&leftover), "{left:?}");
    // The newest of today, and of six older days in three weeks of one month.
    let kept = own.iter().filter(|name| left.contains(name)).count();
    assert!((6..=9).contains(&kept), "{left:?}");
    assert!(left.contains(&old(20)), "{left:?}");
}

#[tokio::test]
async fn backups_in_a_bucket_are_read_back_tested_and_deleted() {
    let mut s3 = S3::new().await;
    let relay = s3.behind_relay().await;
    let mut settings = s3.credentials().to_vec();
    settings.extend([("BACKUP_TO", s3.url.as_str()), ("RATE_LIMITS", "off")]);
    let app = TestApp::on(TestDatabase::migrated().await, &settings).await;
    let ada = app.founder("Ada").await;
    // Cannot be compressed, so that the backup is sent in several parts.
    let mut state = 1_u32;
    let noise: Vec<u8> = (0..6 << 20)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state.to_le_bytes()[3]
        })
        .collect();
    ada.upload("noise.bin", &noise).await;
    let made = run(&ada, "/v1/server/backups").await;
    assert!(made["backups"]["error"].is_null(), "{made}");
    let name = text(&made, "/backups/last/name");
    assert_eq!(s3.keys().await, std::slice::from_ref(&name));
    let listed = ada.get("/v1/server/backups").await.ok();
    assert_eq!(
        (&listed["data"][0]["name"], &listed["data"][0]["bytes"]),
        (&json!(name), &made["backups"]["last"]["bytes"])
    );
    let tested = run(&ada, "/v1/server/drill").await;
    let drill = &tested["backups"]["drill"];
    assert!(
        drill["fault"].is_null() && drill["skipped"].is_null(),
        "{drill}"
    );
    // The command does the same, and reads the bucket through a relay of this process.
    let mut tests = command(&app.place, &app.model, &settings);
    tests.args(["backup", "drill"]);
    let output = openvibe::blocking::blocking((), move || tests.output().unwrap());
    let output = output.await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said, format!("restored {name} and compared it: no fault\n"));
    // Old ones, and an object of somebody else.
    let cluster = name.split('-').nth(1).unwrap();
    let object = app.place.dir.join("object");
    std::fs::write(&object, b"x").unwrap();
    let old: Vec<String> = (1..=12)
        .map(|day| format!("openvibe-{cluster}-200101{day:02}T0330Z-0.1.0.ovb"))
        .collect();
    for key in old.iter().map(String::as_str).chain(["photos.zip"]) {
        s3.bucket().put_file(key, &object, 1).await.unwrap();
    }
    run(&ada, "/v1/server/backups").await;
    let left = s3.keys().await;
    assert!(left.contains(&"photos.zip".to_owned()), "{left:?}");
    let kept = old.iter().filter(|name| left.contains(name)).count();
    assert!((1..old.len()).contains(&kept), "{left:?}");
    // Nothing is deleted, and nothing is left on the disk, if the bucket does not answer.
    relay.cut();
    let failed = run(&ada, "/v1/server/backups").await;
    assert!(failed["backups"]["error"].is_string(), "{failed}");
    assert!(failed["backups"]["last"].is_object(), "{failed}");
    relay.mend();
    assert_eq!(s3.keys().await.len(), left.len());
    assert!(names(&app.place.dir.join("data/backups")).is_empty());
}

#[tokio::test]
async fn a_failed_backup_says_why_and_deletes_nothing() {
    let place = TestDatabase::migrated().await;
    let dir = place.dir.join("not-a-directory");
    std::fs::write(&dir, b"a file").unwrap();
    let app = TestApp::on(place, &[("BACKUP_TO", dir.to_str().unwrap())]).await;
    let ada = app.founder("Ada").await;
    let failed = run(&ada, "/v1/server/backups").await;
    let error = text(&failed, "/backups/error");
    assert!(error.contains("not-a-directory"), "{error}");
    assert!(failed["backups"]["last"].is_null());
    assert_eq!(std::fs::read(&dir).unwrap(), b"a file");
}

/// Open notices about a part of the server.
async fn notices(who: &Person, part: &str) -> Vec<Value> {
    let open = list(&who.get("/v1/inbox").await.ok(), "/data");
    let is_about = |item: &Value| item["subject_id"] == format!("server_{part}");
    open.into_iter().filter(|item| is_about(item)).collect()
}

/// Waits until there are this many notices about backups.
async fn until_notices(who: &Person, count: usize) -> Vec<Value> {
    within("the notices to change", async {
        loop {
            let found = notices(who, "backup").await;
            if found.len() == count {
                return found;
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_failed_backup_is_a_notice_for_the_admins_of_the_server_until_one_succeeds() {
    let place = TestDatabase::migrated().await;
    let dir = place.dir.join("not-a-directory");
    std::fs::write(&dir, b"a file").unwrap();
    let settings = [
        ("BACKUP_TO", dir.to_str().unwrap()),
        ("SIGNUP", "open"),
        ("RATE_LIMITS", "off"),
    ];
    let app = TestApp::on(place, &settings).await;
    let ada = app.founder("Ada").await;
    let bo = app.join(&ada, "Bo", "member").await;
    let zoe = app.founder("Zoe").await;
    run(&ada, "/v1/server/backups").await;
    let found = until_notices(&ada, 1).await;
    assert_eq!(
        (&found[0]["reason"], &found[0]["title"]),
        (&json!("notice"), &json!("Server"))
    );
    let said = text(&found[0], "/text");
    assert!(
        said.contains("The newest backup failed") && said.contains("not-a-directory"),
        "{said}"
    );
    assert!(notices(&bo, "backup").await.is_empty());
    assert!(notices(&zoe, "backup").await.is_empty());
    // A notice that was done does not open again with the next failure.
    let done = json!({"ids": [found[0]["id"]], "state": "done"});
    ada.put("/v1/inbox/state", done).await.is(200);
    run(&ada, "/v1/server/backups").await;
    until_notices(&ada, 0).await;
    std::fs::remove_file(&dir).unwrap();
    run(&ada, "/v1/server/backups").await;
    until_notices(&ada, 0).await;
    // After a success, the next failure is another problem.
    std::fs::remove_dir_all(&dir).unwrap();
    std::fs::write(&dir, b"a file").unwrap();
    run(&ada, "/v1/server/backups").await;
    until_notices(&ada, 1).await;
    std::fs::remove_file(&dir).unwrap();
    run(&ada, "/v1/server/backups").await;
    until_notices(&ada, 0).await;
}

#[tokio::test]
async fn a_certificate_that_fails_for_a_day_is_a_notice() {
    let app = TestApp::start().await;
    let ada = app.founder("Ada").await;
    let begun = now();
    let settle = async |after: Duration, problem: Option<&'static str>| {
        let workspace: WorkspaceId = ada.workspace.parse().unwrap();
        let at = begun + after;
        let settled = async move |c: &mut Conn| {
            server_alerts::settle(c, workspace, ServerAlert::Certificate, problem, at).await
        };
        app.db().write(Uuid::nil(), settled).await.unwrap();
        notices(&ada, "certificate").await.len()
    };
    let hours = |n: u64| Duration::from_hours(n);
    let problem = Some("Let's Encrypt could not find chat.example.org.");
    assert_eq!(settle(hours(0), problem).await, 0);
    assert_eq!(settle(hours(23), problem).await, 0);
    assert_eq!(settle(hours(24), problem).await, 1);
    assert_eq!(settle(hours(25), problem).await, 1);
    assert_eq!(settle(hours(26), None).await, 0);
    assert_eq!(settle(hours(27), problem).await, 0);
}

#[tokio::test]
async fn the_list_of_backups_has_pages() {
    let (_app, ada, dir) = with_backups().await;
    let made = run(&ada, "/v1/server/backups").await;
    let newest = text(&made, "/backups/last/name");
    let [version, _, start] = *newest.rsplitn(3, '-').collect::<Vec<_>>() else {
        panic!("{newest}")
    };
    for day in ["20200102", "20200103"] {
        let older = dir.join(format!("{start}-{day}T0330Z-{version}"));
        std::fs::copy(dir.join(&newest), older).unwrap();
    }
    let page = async |query: &str| {
        let page = ada.get(&format!("/v1/server/backups?{query}")).await.ok();
        let names: Vec<String> = list(&page, "/data")
            .iter()
            .map(|b| text(b, "/name"))
            .collect();
        assert_eq!(
            (&page["first_id"], &page["last_id"]),
            (&json!(names[0]), &json!(names.last()))
        );
        (names, page["has_more"] == true)
    };
    let (all, has_more) = page("").await;
    assert_eq!((all.len(), &all[0], has_more), (3, &newest, false));
    assert_eq!(page("limit=2").await, (all[..2].to_vec(), true));
    let next = page(&format!("limit=2&after={}", all[1])).await;
    assert_eq!(next, (all[2..].to_vec(), false));
    let back = page(&format!("limit=1&before={}", all[2])).await;
    assert_eq!(back, (all[1..2].to_vec(), true));
    for (query, code) in [
        ("limit=0", "invalid_limit"),
        ("limit=101", "invalid_limit"),
        ("page=2", "invalid_query"),
    ] {
        let refused = ada.get(&format!("/v1/server/backups?{query}")).await;
        assert_eq!(refused.refused(400), code, "{query}");
    }
    let unknown = ada.get("/v1/server/backups?after=other.ovb").await;
    assert_eq!(unknown.refused(404), "cursor_not_found");
}

#[tokio::test]
async fn backups_belong_to_admins_of_the_oldest_workspace() {
    let app = TestApp::with(&[("SIGNUP", "open")]).await;
    let ada = app.founder("Ada").await;
    let bo = app.join(&ada, "Bo", "member").await;
    let zoe = app.founder("Zoe").await;
    let refused = ada.post("/v1/server/backups", json!({})).await;
    assert_eq!(refused.refused(422), "no_backup_place");
    for who in [&bo, &zoe] {
        who.get("/v1/server").await.refused(404);
        who.get("/v1/server/backups").await.refused(404);
        for path in ["backups", "drill", "resume"] {
            let path = format!("/v1/server/{path}");
            who.post(&path, json!({})).await.refused(404);
        }
    }
}

#[tokio::test]
async fn the_command_tests_a_backup_and_fails_if_it_is_damaged() {
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let server = TestProcess::start(&place, &model, &[]).await;
    let mut ada = sign_up(&server.base, "Ada", None).await;
    let workspace = ada
        .post("/v1/workspaces", json!({"name": "Works"}))
        .await
        .is(201);
    ada.enter(&id(&workspace)).await;
    ada.upload("plan.txt", b"words").await;
    let file = place.dir.join("backup.ovb");
    let path = file.to_str().unwrap();
    let run = |arguments: &[&str]| {
        command(&place, &model, &[])
            .args(arguments)
            .output()
            .unwrap()
    };
    assert!(run(&["backup", path]).status.success());
    let tested = run(&["backup", "drill", path]);
    assert!(tested.status.success(), "{tested:?}");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let tested = run(&["backup", "drill", path]);
    assert_eq!(tested.status.code(), Some(1));
    let error = String::from_utf8(tested.stderr).unwrap();
    assert!(error.contains("backup.ovb: the "), "{error}");
}

#[tokio::test]
async fn a_database_is_backed_up_before_a_new_version_changes_it() {
    use openvibe::db::dump::{Load, oldest_version};

    let (place, model) = (TestDatabase::on_disk(), ModelServer::start().await);
    let data = place.dir.join("data");
    std::fs::create_dir_all(&data).unwrap();
    let mut load = Load::into_file(&data.join("openvibe.db"), oldest_version())
        .await
        .unwrap();
    load.execute(
        "insert into users (id, email, name, password_hash, created_at, name_skeleton, name_folded) \
         values (x'01890a5d3b1e7c0a8f1d2b3c4d5e6f70', 'ada@example.org', 'Ada', '!', '2026-01-01T00:00:00+00:00', 'Ada', 'ada')",
    )
    .await
    .unwrap();
    load.finish("0123").await.unwrap();
    let file = data
        .join("backups")
        .join(format!("before-{}.ovb", env!("CARGO_PKG_VERSION")));
    let migrate = |arguments: &[&str]| {
        let mut command = command(&place, &model, &[]);
        command.arg("migrate").args(arguments).output().unwrap()
    };
    let copy = std::fs::read(data.join("openvibe.db")).unwrap();
    let output = migrate(&["--no-backup"]);
    assert!(output.status.success(), "{output:?}");
    assert!(!file.exists());
    for end in ["-wal", "-shm"] {
        drop(std::fs::remove_file(data.join(format!("openvibe.db{end}"))));
    }
    std::fs::write(data.join("openvibe.db"), copy).unwrap();
    let output = migrate(&[]);
    assert!(output.status.success(), "{output:?}");
    assert!(file.exists(), "{:?}", names(&data));
    // Nothing is left to change, so no other backup is made.
    std::fs::remove_file(&file).unwrap();
    assert!(migrate(&[]).status.success());
    assert!(!file.exists());
}
