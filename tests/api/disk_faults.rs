//! Full, read-only, or damaged disks, databases of a newer version, and a second process on the same data.

use std::{path::Path, time::Duration};

use reqwest::Method;
use serde_json::json;

use crate::{
    exports,
    faults::prepared,
    support::{
        Answer, Disk, Gate, MULTIPART, ModelServer, Person, TestDatabase, TestProcess, command, id,
        in_own_mounts, is_shared_engine, list, multipart, number, refusal, sign_up_with_workspace,
        text, within,
    },
};

fn is_sqlite() -> bool {
    std::env::var("OPENVIBE_TEST_DATABASE").as_deref() != Ok("postgres")
}

/// A server whose data is on a small separate disk.
struct SmallDisk {
    disk: Disk,
    model: ModelServer,
    /// The server, and the directory with its data, which is deleted when the test ends.
    _server: (TestProcess, TestDatabase),
    ada: Person,
    thread: String,
}

impl SmallDisk {
    async fn start(settings: &[(&str, &str)]) -> Self {
        Self::of_mib(12, settings).await
    }

    async fn of_mib(mib: u64, settings: &[(&str, &str)]) -> Self {
        let (place, model) = (TestDatabase::new().await, ModelServer::start().await);
        let disk = Disk::new(&place.dir.join("data"), mib).expect("the right to mount");
        let server = TestProcess::start_within(&place, &model, settings, &disk).await;
        let ada = sign_up_with_workspace(&server.base, "Ada").await;
        let thread = ada.thread(&id(&ada.channel("general").await), "Root").await;
        Self {
            disk,
            model,
            _server: (server, place),
            ada,
            thread,
        }
    }

    async fn check(&self, wanted: &[String]) {
        assert_eq!(self.ada.contents(&self.thread).await, wanted);
        let seqs: Vec<i64> = self
            .ada
            .events()
            .await
            .iter()
            .map(|e| number(e, "/seq"))
            .collect();
        assert_eq!(
            seqs,
            (1..=i64::try_from(seqs.len()).unwrap()).collect::<Vec<_>>()
        );
    }
}

#[tokio::test]
async fn a_full_disk_rejects_writes_allows_reads_and_leaves_no_partial_data() {
    if !is_sqlite() {
        return;
    }
    let d = SmallDisk::start(&[]).await;
    d.disk.fill();
    let path = format!("/v1/threads/{}/messages", d.thread);
    let (mut wanted, mut refused) = (vec!["Root".to_owned()], 0);
    for n in 0.. {
        assert!(n < 2000, "the disk does not get full");
        let content = format!("{n} {}", "x".repeat(2000));
        let form = json!({"content": content, "client_id": format!("c{n}")});
        let reply = d.ada.post(&path, form).await;
        if reply.status == 201 {
            wanted.push(content);
            continue;
        }
        let said = text(&reply.json(), "/error/message");
        assert_eq!(reply.refused(503), "unavailable");
        assert!(said.contains("disk is full"), "{said}");
        refused += 1;
        if refused == 20 {
            break;
        }
    }
    // Other writes are rejected with the same error.
    let workspace = d.ada.post("/v1/workspaces", json!({"name": "More"})).await;
    assert_eq!(workspace.refused(503), "unavailable");
    let last = wanted.split_off(wanted.len().saturating_sub(100));
    assert_eq!(d.ada.contents(&d.thread).await, last);
    d.ada.get("/v1/snapshot").await.is(200);
    assert!(
        !list(&d.ada.get("/v1/search?q=xx&limit=1").await.ok(), "/data").is_empty()
            || last.len() == 1
    );

    d.disk.free();
    let form = json!({"content": "There is space again", "client_id": "c-last"});
    d.ada.post(&path, form).await.is(201);
    let task = d.ada.ask(&d.thread, "@vibe hi").await;
    d.ada.completed(&task).await;
    let mut all = last;
    all.extend(["There is space again", "@vibe hi", "Fine."].map(str::to_owned));
    let shown = all.split_off(all.len().saturating_sub(100));
    d.check(&shown).await;
}

#[tokio::test]
async fn a_reply_that_ends_on_a_full_disk_is_stored_once_there_is_space() {
    if !is_sqlite() {
        return;
    }
    let d = SmallDisk::start(&[("LEASE_MS", "2000")]).await;
    let gate = Gate::new();
    d.model.script(
        "vibe",
        [
            Answer::stream()
                .piece("Half")
                .wait(&gate)
                .piece(" done")
                .end(),
            Answer::text("Whole."),
            Answer::text("Whole."),
        ],
    );
    let task = d.ada.ask(&d.thread, "@vibe hi").await;
    d.ada
        .event_where("the reply to begin", |e| {
            e["data"]["message"]["state"] == "streaming"
        })
        .await;
    d.disk.fill();
    let path = format!("/v1/threads/{}/messages", d.thread);
    for n in 0.. {
        assert!(n < 2000, "the disk does not get full");
        let form = json!({"content": "x".repeat(4000)});
        if d.ada.post(&path, form).await.status == 503 {
            break;
        }
    }
    gate.open();
    // This post may fail, or it may still find enough space.
    d.ada
        .post(&path, json!({"content": "x".repeat(8000)}))
        .await;
    d.disk.free();
    d.ada.completed(&task).await;
    let replies: Vec<String> = d
        .ada
        .messages(&d.thread)
        .await
        .iter()
        .filter(|m| m["author"]["type"] == "agent")
        .map(|m| text(m, "/content"))
        .collect();
    assert!(
        matches!(replies.as_slice(), [one] if ["Half done", "Whole."].contains(&one.as_str())),
        "{replies:?}"
    );
}

#[tokio::test]
async fn with_little_free_space_uploads_and_agent_changes_are_rejected_and_messages_work() {
    if !is_sqlite() {
        return;
    }
    // The disk uses memory only for data that was written.
    let settings = [
        ("RATE_LIMITS", "off"),
        ("DISK_RESERVED_BYTES", "1073741824"),
    ];
    let d = SmallDisk::of_mib(1024 + 64, &settings).await;
    let ada = &d.ada;
    let agent = id(&ada.make_agent("early").await);
    ada.patch(&format!("/v1/agents/{agent}"), json!({"temperature": 0.5}))
        .await
        .is(200);
    ada.upload("early.txt", b"early").await;

    d.disk.write("filler", 80);
    let upload = async || {
        let form = multipart(&[("name=\"file\"; filename=\"a.txt\"", b"a")]);
        let headers = [("content-type", MULTIPART)];
        ada.send(Method::POST, "/v1/files", &headers, Some(form))
            .await
    };
    let becomes = async |status: u16| {
        within("free space to be measured", async {
            while upload().await.status != status {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
    };
    becomes(503).await;
    let disk = async || ada.get("/v1/server").await.ok()["disk"].take();
    assert_eq!(disk().await["uploads_paused"], true);
    let one = format!("/v1/agents/{agent}");
    let form = json!({"name": "late", "instructions": "Help."});
    let rejected = [
        upload().await,
        ada.post("/v1/agents", form.clone()).await,
        ada.put(&one, form.clone()).await,
        ada.patch(&one, json!({"temperature": 0.7})).await,
        ada.post(&format!("{one}/duplicate"), json!({"name": "late"}))
            .await,
        ada.post(&format!("{one}/rollback"), json!({"target_version": 1}))
            .await,
        ada.post("/v1/agents/import", json!({"agent": form})).await,
        ada.put(&format!("{one}/files/NOTES.md"), json!({"content": "a"}))
            .await,
        ada.put(
            &format!("/v1/workspaces/{}/files/AGENTS.md", ada.workspace),
            json!({"content": "a"}),
        )
        .await,
        ada.post("/v1/rpc/agents.create", json!({"id": "late"}))
            .await,
        ada.post(
            "/v1/rpc/agents.update",
            json!({"agent_id": agent, "soul": "Help."}),
        )
        .await,
        ada.post(
            "/v1/rpc/agents.files.set",
            json!({"agent_id": agent, "path": "NOTES.md", "content": "a"}),
        )
        .await,
    ];
    for reply in rejected {
        let error = &reply.json()["error"];
        assert_eq!(
            (reply.status, &error["code"], &error["type"]),
            (503, &json!("low_disk_space"), &json!("unavailable")),
            "{}",
            reply.text
        );
        assert!(text(error, "/message").contains("almost full"), "{error}");
        assert!(reply.header("retry-after").is_some());
    }
    // Messages, replies, log-ins, and requests that free space still work.
    let task = ada.ask(&d.thread, "@vibe hi").await;
    ada.completed(&task).await;
    ada.log_in().await.get("/v1/snapshot").await.is(200);
    ada.delete(&one).await.is(200);

    d.disk.free();
    becomes(201).await;
    assert_eq!(disk().await["uploads_paused"], false);
    ada.post("/v1/agents", form).await.is(201);
}

#[tokio::test]
async fn an_export_ends_before_it_fills_the_disk() {
    if !is_sqlite() {
        return;
    }
    let settings = [
        ("RATE_LIMITS", "off"),
        ("DISK_RESERVED_BYTES", "1073741824"),
    ];
    let (place, model) = (TestDatabase::new().await, ModelServer::start().await);
    let disk = Disk::new(&place.dir.join("data"), 1024 + 64).expect("the right to mount");
    let crashing = [settings[0], settings[1], ("FAILPOINT", "exporting:1")];
    let server = TestProcess::start_within(&place, &model, &crashing, &disk).await;
    let ada = sign_up_with_workspace(&server.base, "Ada").await;
    let export = exports::requested(&ada, json!({})).await;
    within("the crash", server.exited()).await;
    disk.write("filler", 80);
    let server = TestProcess::start_within(&place, &model, &settings, &disk).await;
    let ended = exports::ended(&ada.at(&server.base), &export).await;
    assert_eq!(ended["state"], "failed", "{ended}");
    assert!(text(&ended, "/problem").contains("almost full"), "{ended}");
}

/// Data of a server that was shut down gracefully, and the path and bytes of its database file.
async fn ended() -> (crate::faults::Prepared, std::path::PathBuf, Vec<u8>) {
    let p = prepared().await;
    let (server, ada) = p.start(&[]).await;
    for n in 0..50 {
        ada.tell(&p.thread, &format!("{n} {}", "x".repeat(3000)))
            .await;
    }
    server.terminate();
    assert!(server.exited().await.success());
    let file = p.place.dir.join("data/openvibe.db");
    let log = file.with_extension("db-wal");
    assert!(!log.exists(), "a graceful shutdown leaves one file");
    let bytes = std::fs::read(&file).unwrap();
    (p, file, bytes)
}

#[tokio::test]
async fn a_damaged_database_is_rejected_and_left_unchanged() {
    if !is_sqlite() {
        return;
    }
    let (p, file, bytes) = ended().await;
    let garbage = |from: usize, to: usize| {
        let mut damaged = bytes.clone();
        damaged[from..to].fill(0xA5);
        damaged
    };
    let middle = bytes.len() / 2;
    let cut = bytes[..middle].to_vec();
    for (what, damaged) in [
        ("the header", garbage(0, 100)),
        ("the first page", garbage(100, 4096)),
        ("the middle", garbage(middle / 2, middle + middle / 2)),
        ("all but the beginning", garbage(8192, bytes.len())),
        ("a file that ends too early", cut),
        ("another file", b"This is a letter.\n".repeat(500)),
    ] {
        std::fs::write(&file, &damaged).unwrap();
        let said = refusal(&command(&p.place, &p.model, &[]));
        assert!(said.contains("damaged"), "{what}: {said}");
        assert!(said.contains("openvibe.db"), "{what}: {said}");
        assert!(std::fs::read(&file).unwrap() == damaged, "{what}");
    }
    let mut backup = command(&p.place, &p.model, &[]);
    let said = refusal(backup.args(["backup", "damaged.ovb"]));
    assert!(
        said.ends_with(
            "could not be backed up: it is damaged or not an OpenVibe database: restore a backup"
        ),
        "{said}"
    );
    std::fs::write(&file, &bytes).unwrap();
    p.check(&[], None).await;
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_rejected_unless_this_version_can_run_on_it() {
    let p = prepared().await;
    let (server, _) = p.start(&[]).await;
    server.terminate();
    assert!(server.exited().await.success());
    let newer = "insert into _sqlx_migrations (version, description, success, checksum, execution_time) \
                 select 29990101000000, 'later', success, checksum, 0 from _sqlx_migrations limit 1";
    p.place.run(&[newer]).await;
    // The newer migration only expands the schema.
    p.check(&[], None).await;

    let needs = "update meta set value = '99.1.0' where key = 'schema_min'";
    p.place.run(&[needs]).await;
    let said = refusal(&command(&p.place, &p.model, &[]));
    let program = env!("CARGO_PKG_VERSION");
    let wanted = format!(
        "the database needs OpenVibe 99.1 or newer, and this is {program}: upgrade this node, or restore before-99.1.0.ovb with this version"
    );
    assert!(said.contains(&wanted), "{said}");

    p.place
        .run(&["delete from meta where key = 'schema_min'"])
        .await;
    let said = refusal(&command(&p.place, &p.model, &[]));
    assert!(
        said.contains("newer OpenVibe") && said.contains("29990101000000"),
        "{said}"
    );
    p.place
        .run(&["delete from _sqlx_migrations where version = 29990101000000"])
        .await;
    p.check(&[], None).await;

    let changed = "update _sqlx_migrations set checksum = (select checksum from _sqlx_migrations order by version desc limit 1) \
                   where version = (select min(version) from _sqlx_migrations)";
    p.place.run(&[changed]).await;
    let said = refusal(&command(&p.place, &p.model, &[]));
    assert!(
        said.contains("is not the one of this version: start the version that made the database"),
        "{said}"
    );
}

#[tokio::test]
async fn a_contracting_migration_is_rejected_while_a_node_runs_an_older_version() {
    if !is_shared_engine() {
        return;
    }
    let p = prepared().await;
    let (server, _) = p.start(&[]).await;
    server.terminate();
    assert!(server.exited().await.success());
    let running = "insert into nodes (id, name, incarnation, version, mode, state, started_at, lease_until, settings, figures) \
                   values (gen_random_uuid(), 'web-2', gen_random_uuid(), '0.0.9', 'notify', 'ready', now(), now() + interval '1 hour', '{}', '{}')";
    p.place.run(&[running]).await;
    // The migrations are compatible with the older version, so both versions can run side by side.
    p.check(&[], None).await;

    let before = "update meta set value = '0.0.8' where key = 'schema_min'";
    p.place.run(&[before]).await;
    let said = refusal(&command(&p.place, &p.model, &[]));
    let wanted = "migration 20261127160000 needs every node at 0.1 or newer, and web-2 runs 0.0.9: upgrade it first";
    assert!(said.contains(wanted), "{said}");

    let lost = "update nodes set lease_until = now() - interval '1 second' where name = 'web-2'";
    p.place.run(&[lost]).await;
    p.check(&[], None).await;
}

#[tokio::test]
async fn a_database_of_a_development_version_is_rejected() {
    let p = prepared().await;
    let (server, _) = p.start(&[]).await;
    server.terminate();
    assert!(server.exited().await.success());
    let old = "insert into _sqlx_migrations (version, description, success, checksum, execution_time) \
               select 20261120080000, 'create core', success, checksum, 0 from _sqlx_migrations limit 1";
    p.place.run(&[old]).await;
    let said = refusal(&command(&p.place, &p.model, &[]));
    assert!(
        said.contains("schema of a development version")
            && said.contains("start with an empty data directory or database"),
        "{said}"
    );
}

#[tokio::test]
async fn a_read_only_database_is_rejected() {
    if !is_sqlite() {
        return;
    }
    let (p, file, bytes) = ended().await;
    let read_only = |path: &Path| {
        let path = path.display();
        format!("mount --bind {path} {path}\nmount -o remount,bind,ro {path}")
    };
    let file_only = in_own_mounts(&command(&p.place, &p.model, &[]), &read_only(&file));
    let said = refusal(&file_only);
    assert!(said.contains("read-only"), "{said}");
    let directory = file.parent().unwrap();
    let all = in_own_mounts(&command(&p.place, &p.model, &[]), &read_only(directory));
    let said = refusal(&all);
    assert!(said.to_lowercase().contains("read-only"), "{said}");
    let elsewhere = in_own_mounts(
        &command(
            &p.place,
            &p.model,
            &[
                ("DATA_DIR", p.place.dir.join("other").to_str().unwrap()),
                ("DATABASE_URL", &format!("sqlite://{}", file.display())),
            ],
        ),
        &read_only(directory),
    );
    let said = refusal(&elsewhere);
    assert!(said.to_lowercase().contains("read-only"), "{said}");
    assert!(std::fs::read(&file).unwrap() == bytes);
    p.check(&[], None).await;
}

#[tokio::test]
async fn a_full_disk_at_startup_is_reported() {
    if !is_sqlite() {
        return;
    }
    let (place, model) = (TestDatabase::new().await, ModelServer::start().await);
    let data = place.dir.join("data");
    std::fs::create_dir_all(&data).unwrap();
    let script = format!("mount -t tmpfs -o size=64k tmpfs {}", data.display());
    let said = refusal(&in_own_mounts(&command(&place, &model, &[]), &script));
    assert!(said.contains("disk is full"), "{said}");
}

#[tokio::test]
async fn a_second_process_on_the_same_data_is_rejected() {
    let p = prepared().await;
    let (_server, ada) = p.start(&[]).await;
    let said = refusal(&command(&p.place, &p.model, &[]));
    assert!(
        said.contains("in use by another OpenVibe server (PID "),
        "{said}"
    );
    assert!(said.contains("OPENVIBE_DATA_DIR"), "{said}");

    let other = p.place.dir.join("other");
    let other = other.to_str().unwrap();
    if is_sqlite() {
        let file = p.place.dir.join("data/openvibe.db");
        let link = p.place.dir.join("linked.db");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for path in [&file, &link] {
            let url = format!("sqlite://{}", path.display());
            let settings = [("DATA_DIR", other), ("DATABASE_URL", url.as_str())];
            let said = refusal(&command(&p.place, &p.model, &settings));
            assert!(
                said.contains("in use by another OpenVibe server (PID "),
                "{said}"
            );
            assert!(said.contains("OPENVIBE_DATABASE_URL"), "{said}");
        }
    } else {
        // With its own data directory, a second process is another node of the same database.
        let node = TestProcess::start(&p.place, &p.model, &[("DATA_DIR", other)]).await;
        ada.at(&node.base).tell(&p.thread, "from there").await;
        node.terminate();
        assert!(node.exited().await.success());
    }
    // The first process is not affected.
    ada.tell(&p.thread, "still here").await;
}
