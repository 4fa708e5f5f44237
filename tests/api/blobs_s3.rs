//! Uploads in an S3 bucket: where they are stored, what happens while S3 is unreachable, moving them, and backups.

use std::time::Duration;

use openvibe::{files, storage::Blob};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use crate::support::{
    MULTIPART, ModelServer, Person, Reply, S3, Team, TestApp, TestDatabase, TestProcess, command,
    id, multipart, pause, refusal, team_of, team_with, text, within,
};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Returns a text of this size without repetitions, different for each name.
fn words(name: &str, bytes: usize) -> String {
    let mut all = String::with_capacity(bytes + 32);
    for n in 0.. {
        if all.len() >= bytes {
            break;
        }
        all.extend([name, " ", &n.to_string(), "\n"]);
    }
    all.truncate(bytes);
    all
}

async fn try_upload(person: &Person, name: &str, content: &str) -> Reply {
    let disposition = format!("name=\"file\"; filename=\"{name}\"");
    let form = multipart(&[(&disposition, content.as_bytes())]);
    let headers = [("content-type", MULTIPART)];
    person
        .send(Method::POST, "/v1/files", &headers, Some(form))
        .await
}

async fn upload(person: &Person, content: &str) -> Value {
    try_upload(person, "words.txt", content).await.is(201)
}

async fn has(person: &Person, file: &Value, content: &str) {
    let reply = person.get(&text(file, "/url")).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert!(reply.text == content, "other content");
}

/// Attaches a file to a message, so that it is not removed as unused.
async fn attach(person: &Person, channel: &str, file: &Value) {
    let thread = person.thread(channel, "Root").await;
    let form = json!({"content": "Here", "attachments": [id(file)]});
    person
        .post(&format!("/v1/threads/{thread}/messages"), form)
        .await
        .is(201);
}

/// Stores of all blobs, sorted.
async fn stores(place: &TestDatabase) -> Vec<String> {
    place.texts("select store from blobs order by store").await
}

fn local_store(place: &TestDatabase) -> &'static str {
    if place.postgres.is_some() {
        "db"
    } else {
        "file"
    }
}

/// Number of files in the data directory's upload folder.
fn files_on_disk(place: &TestDatabase) -> usize {
    let mut count = 0;
    let mut folders = vec![place.dir.join("data/blobs")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                count += 1;
            }
        }
    }
    count
}

async fn s3_team(s3: &S3) -> Team {
    team_with(&s3.settings()).await
}

/// Runs a command of the program, which must succeed, and returns its output.
async fn run(
    place: &TestDatabase,
    model: &ModelServer,
    settings: &[(&str, &str)],
    arguments: &[&str],
) -> String {
    let mut command = command(place, model, settings);
    command.args(arguments);
    let output = openvibe::blocking::blocking((), move || command.output());
    let output = within("the command", output).await.unwrap().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn uploads_above_64_kib_are_stored_in_s3_and_served_from_there() {
    let s3 = S3::new().await;
    let t = s3_team(&s3).await;
    let place = &t.app.place;
    let small = words("small", 64 * KIB);
    let large = words("large", 64 * KIB + 1);
    // Large enough for more than two parts of a multipart upload.
    let huge = words("huge", 11 * MIB);
    let local = local_store(place);
    let small_file = upload(&t.ada, &small).await;
    assert_eq!(
        (stores(place).await, s3.keys().await.len()),
        (vec![local.to_owned()], 0)
    );
    let on_disk = files_on_disk(place);
    let large_file = upload(&t.ada, &large).await;
    let huge_file = upload(&t.ada, &huge).await;
    assert_eq!(stores(place).await, [local, "s3", "s3"]);
    assert_eq!(
        files_on_disk(place),
        on_disk,
        "nothing is left of the uploads"
    );
    let rows = place
        .texts("select hash from blobs where store = 's3' order by hash")
        .await;
    let keys = s3.keys().await;
    let hashes: Vec<&str> = keys
        .iter()
        .map(|key| Blob::parse_key(key).unwrap().0)
        .collect();
    assert_eq!(hashes, rows);
    for (file, content) in [
        (&small_file, &small),
        (&large_file, &large),
        (&huge_file, &huge),
    ] {
        has(&t.ada, file, content).await;
    }
    for (range, from, to) in [
        ("bytes=0-9", 0, 9),
        ("bytes=1048570-1048585", 1_048_570, 1_048_585),
        ("bytes=3000000-9000000", 3_000_000, 9_000_000),
        ("bytes=-5", 11 * MIB - 5, 11 * MIB - 1),
    ] {
        let url = text(&huge_file, "/url");
        let reply = t
            .ada
            .send(Method::GET, &url, &[("range", range)], None)
            .await;
        assert_eq!(reply.status, 206, "{range}");
        assert!(reply.text == huge[from..=to], "{range}");
    }
    let in_database = files::bytes_in_database(&mut t.app.db().read().await.unwrap()).await;
    let expected = if local == "db" { 64 * KIB } else { 0 };
    assert_eq!(usize::try_from(in_database.unwrap()).unwrap(), expected);
}

#[tokio::test]
async fn equal_uploads_share_an_object_that_is_deleted_with_the_last_of_them() {
    let s3 = S3::new().await;
    let mut settings = s3.settings();
    settings.push(("UPLOAD_ORPHAN_AFTER", "1s"));
    let t = team_with(&settings).await;
    let content = words("same", 100 * KIB);
    let first = upload(&t.ada, &content).await;
    attach(&t.ada, &t.general, &first).await;
    let second = upload(&t.bo, &content).await;
    // The object of the second upload is deleted after the response.
    s3.until_stored(1).await;
    assert_eq!(t.bo.delete(&text(&second, "/url")).await.status, 204);
    has(&t.ada, &first, &content).await;
    let message = t
        .ada
        .get(&format!("{}/metadata", text(&first, "/url")))
        .await
        .ok();
    let message = text(&message, "/message_id");
    assert_eq!(
        t.ada
            .delete(&format!("/v1/messages/{message}"))
            .await
            .status,
        200
    );
    s3.until_stored(0).await;
    assert_eq!(t.app.place.count("blobs").await, 0);
    // The same bytes can be uploaded again, under another key.
    let third = upload(&t.ada, &content).await;
    has(&t.ada, &third, &content).await;
}

#[tokio::test]
async fn an_upload_that_is_refused_after_it_was_stored_leaves_no_object() {
    let s3 = S3::new().await;
    let t = s3_team(&s3).await;
    let post = json!({"content": "Posted", "client_id": "posted"});
    let path = format!("/v1/channels/{}/threads", t.general);
    t.ada.post(&path, post).await.is(201);
    let content = words("much", 2 * MIB);
    let form = multipart(&[
        ("name=\"file\"; filename=\"words.txt\"", content.as_bytes()),
        ("name=\"client_id\"", b"posted"),
    ]);
    let headers = [("content-type", MULTIPART)];
    let refused = t
        .ada
        .send(Method::POST, "/v1/files", &headers, Some(form))
        .await;
    assert_eq!(refused.refused(409), "client_id_reused");
    s3.until_stored(0).await;
    assert_eq!(t.app.place.count("blobs").await, 0);
}

#[tokio::test]
async fn objects_without_a_row_are_deleted_and_others_are_kept() {
    let s3 = S3::new().await;
    let mut t = s3_team(&s3).await;
    let content = words("kept", 70 * KIB);
    let kept = upload(&t.ada, &content).await;
    attach(&t.ada, &t.general, &kept).await;
    let bucket = s3.bucket();
    let path = t.app.place.dir.join("orphan");
    std::fs::write(&path, "orphan").unwrap();
    let (key, hash) = (s3.keys().await.remove(0), "ab".repeat(32));
    let (own_hash, _) = key.split_once('/').unwrap();
    for key in [
        format!("{hash}/{}", Uuid::now_v7()),
        format!("{own_hash}/{}", Uuid::now_v7()),
        "notes.txt".to_owned(),
    ] {
        bucket.put_file(&key, &path, 6).await.unwrap();
    }
    t.app.restart(&[("UPLOAD_ORPHAN_AFTER", "10ms")]).await;
    s3.until_stored(2).await;
    let mut left = s3.keys().await;
    left.sort();
    let mut expected = [key, "notes.txt".to_owned()];
    expected.sort();
    assert_eq!(left, expected);
    has(&t.ada.at(&t.app.base), &kept, &content).await;
}

#[tokio::test]
async fn an_unreachable_s3_fails_uploads_and_downloads_with_503_and_stores_nothing() {
    let mut s3 = S3::new().await;
    let relay = s3.behind_relay().await;
    let t = s3_team(&s3).await;
    let content = words("stored", 20 * MIB);
    let file = upload(&t.ada, &content).await;
    let mut begun = t.ada.stream(&text(&file, "/url")).await;
    assert_eq!(begun.status(), 200);
    let first = within("the first bytes", begun.chunk())
        .await
        .unwrap()
        .unwrap();
    assert!(content.as_bytes().starts_with(&first));
    relay.cut();
    let on_disk = files_on_disk(&t.app.place);
    for size in [100 * KIB, 6 * MIB] {
        let reply = try_upload(&t.ada, "words.txt", &words("refused", size)).await;
        assert!(reply.text.contains("file storage"), "{}", reply.text);
        assert_eq!(reply.refused(503), "unavailable");
    }
    assert_eq!(
        t.ada.get(&text(&file, "/url")).await.refused(503),
        "unavailable"
    );
    // A download that was already running ends with an error, so that it does not look complete.
    let rest = async {
        while let Some(bytes) = begun.chunk().await? {
            drop(bytes);
        }
        Ok::<_, reqwest::Error>(())
    };
    assert!(within("the rest", rest).await.is_err());
    assert_eq!(t.app.place.count("blobs").await, 1);
    assert_eq!(t.app.place.count("files").await, 1);
    assert_eq!(files_on_disk(&t.app.place), on_disk);
    // Small uploads and messages do not need S3.
    let small = upload(&t.ada, "small").await;
    has(&t.ada, &small, "small").await;
    t.ada.thread(&t.general, "Works").await;
    relay.mend();
    has(&t.ada, &file, &content).await;
    upload(&t.ada, &words("again", 100 * KIB)).await;
    assert_eq!(s3.keys().await.len(), 2);
}

#[tokio::test]
async fn uploads_move_to_s3_and_back_while_they_are_used() {
    let s3 = S3::new().await;
    let app = TestApp::bounded(&s3.credentials(), |bounds| {
        // The download below rests until the move has ended, which can take longer than a client may read nothing.
        bounds.deadlines.stalled_within = Duration::from_hours(1);
        bounds.deadlines.sent_within = Duration::from_hours(1);
    })
    .await;
    let mut t = team_of(app).await;
    let place = t.app.place.clone();
    let local = local_store(&place);
    let mut contents: Vec<String> = (0..6)
        .map(|n| words(&format!("file {n}"), 90 * KIB))
        .collect();
    contents.push(words("huge", 8 * MIB));
    contents.push(words("small", 10 * KIB));
    let mut files = Vec::new();
    for content in &contents {
        files.push(upload(&t.ada, content).await);
    }
    for (from, to, settings) in [
        (local, "s3", s3.settings()),
        ("s3", local, s3.credentials().to_vec()),
    ] {
        let url = settings
            .iter()
            .find(|(name, _)| *name == "BLOBS_URL")
            .map_or("", |(_, url)| *url);
        t.app.restart(&[("BLOBS_URL", url)]).await;
        let ada = t.ada.at(&t.app.base);
        // Changing the settings alone does not move files.
        let stored = place
            .texts("select b.store from files f join blobs b on b.hash = f.hash")
            .await;
        let moved = if from == "s3" { 7 } else { 8 };
        assert_eq!(stored.iter().filter(|store| *store == from).count(), moved);
        let mut begun = ada.stream(&text(&files[6], "/url")).await;
        let mut received = within("the first bytes", begun.chunk())
            .await
            .unwrap()
            .unwrap()
            .to_vec();
        let moving = run(&place, t.model(), &settings, &["blobs", "move"]);
        let using = async {
            for n in 0..10 {
                let other = words(&format!("{from} {n}"), 80 * KIB);
                let file = upload(&ada, &other).await;
                has(&ada, &file, &other).await;
                assert_eq!(ada.delete(&text(&file, "/url")).await.status, 204);
                has(&ada, &files[n % files.len()], &contents[n % files.len()]).await;
            }
        };
        let (said, ()) = tokio::join!(moving, using);
        let first = said.lines().next().unwrap();
        assert!(
            first.starts_with("moving ") && first.contains("uploads ("),
            "{said}"
        );
        let last = said.lines().last().unwrap();
        assert!(
            last.starts_with("moved ") && last.contains(" uploads ("),
            "{said}"
        );
        while let Some(bytes) = within("the rest", begun.chunk()).await.unwrap() {
            received.extend_from_slice(&bytes);
        }
        assert!(
            received == contents[6].as_bytes(),
            "a download during the move"
        );
        let again = run(&place, t.model(), &settings, &["blobs", "move"]).await;
        assert!(
            again.lines().last().unwrap().starts_with("moved 0 uploads"),
            "{again}"
        );
        let stored: Vec<_> = place
            .texts("select distinct b.store from files f join blobs b on b.hash = f.hash where f.size_bytes > 65536")
            .await;
        assert_eq!(stored, [to]);
        for (file, content) in files.iter().zip(&contents) {
            has(&ada, file, content).await;
        }
        // The cleanup of the server removes the rows and objects of deleted files at any time.
        within("each object to have a row", async {
            loop {
                let rows = place.count("blobs where store = 's3'").await;
                assert!(if to == "s3" { rows >= 7 } else { rows == 0 });
                if s3.keys().await.len() == usize::try_from(rows).unwrap() {
                    break;
                }
                pause().await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_bucket_with_uploads_cannot_be_replaced_by_another() {
    let (s3, other) = (S3::new().await, S3::new().await);
    let mut t = s3_team(&s3).await;
    upload(&t.ada, &words("stored", 70 * KIB)).await;
    t.app.stop().await;
    let (place, url) = (t.app.place.clone(), other.url.clone());
    let command = command(&place, t.model(), &other.settings());
    let error = openvibe::blocking::blocking((), move || refusal(&command))
        .await
        .unwrap();
    let expected = format!(
        "openvibe: the uploads are still in {}, and OPENVIBE_BLOBS_URL is {url}: ",
        s3.url
    );
    assert!(error.starts_with(&expected), "{error}");
}

#[tokio::test]
async fn a_backup_includes_the_uploads_and_a_restore_puts_them_where_the_settings_say() {
    let (s3, other) = (S3::new().await, S3::new().await);
    let t = s3_team(&s3).await;
    let (large, small) = (words("large", 3 * MIB), words("small", KIB));
    let files = [upload(&t.ada, &large).await, upload(&t.ada, &small).await];
    for file in &files {
        attach(&t.ada, &t.general, file).await;
    }
    let backup = t.app.place.dir.join("backup.ovb");
    let file = backup.to_str().unwrap();
    run(&t.app.place, t.model(), &s3.settings(), &["backup", file]).await;
    // The backup is complete without the objects.
    for key in s3.keys().await {
        s3.bucket().delete(&key).await.unwrap();
    }
    for (settings, is_in_bucket) in [(other.settings(), true), (Vec::new(), false)] {
        let place = TestDatabase::new().await;
        run(&place, t.model(), &settings, &["restore", file]).await;
        let local = local_store(&place);
        assert_eq!(
            stores(&place).await,
            [local, if is_in_bucket { "s3" } else { local }]
        );
        assert_eq!(other.keys().await.len(), 1);
        let server = TestProcess::start(&place, t.model(), &settings).await;
        let ada = t.ada.at(&server.base);
        has(&ada, &files[0], &large).await;
        has(&ada, &files[1], &small).await;
        let again = place.dir.join("again.ovb");
        run(
            &place,
            t.model(),
            &settings,
            &["backup", again.to_str().unwrap()],
        )
        .await;
        server.kill().await;
    }
    assert_eq!(s3.keys().await, Vec::<String>::new());
}

#[tokio::test]
async fn startup_fails_with_the_cause_if_the_bucket_is_not_writable() {
    let s3 = S3::new().await;
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let prefix = s3.url.split_once("/tests/").unwrap().1;
    let missing = format!("s3://missing/{prefix}");
    for (name, value, url, cause) in [
        (
            "AWS_SECRET_ACCESS_KEY",
            "wrong",
            s3.url.as_str(),
            "SignatureDoesNotMatch: ",
        ),
        (
            "BLOBS_URL",
            missing.as_str(),
            missing.as_str(),
            "NoSuchBucket: ",
        ),
        (
            "AWS_ENDPOINT_URL",
            "http://127.0.0.1:1",
            s3.url.as_str(),
            "Connection refused",
        ),
    ] {
        let mut settings = s3.settings();
        settings.push((name, value));
        let command = command(&place, &model, &settings);
        let error = openvibe::blocking::blocking((), move || refusal(&command))
            .await
            .unwrap();
        let begin = format!("openvibe: cannot write to {url}: {cause}");
        assert!(error.starts_with(&begin), "{error}");
        assert!(
            error.ends_with(": check the bucket and the AWS_* variables"),
            "{error}"
        );
    }
    assert_eq!(
        s3.keys().await,
        Vec::<String>::new(),
        "the probe is deleted"
    );
}

/// Waits until a session of this database is blocked by a lock.
async fn until_blocked(c: &mut PgConnection) {
    let wait = async {
        let sql = "select exists (select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')";
        while !sqlx::query_scalar::<_, bool>(sql)
            .fetch_one(&mut *c)
            .await
            .unwrap()
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within("the cleanup to wait", wait).await;
}

#[tokio::test]
async fn a_cleanup_keeps_chunks_whose_row_another_node_is_about_to_commit() {
    let place = TestDatabase::migrated().await;
    let Some(url) = place.postgres.clone() else {
        return;
    };
    let model = ModelServer::start().await;
    let (mut node, mut watch) = (
        PgConnection::connect(&url).await.unwrap(),
        PgConnection::connect(&url).await.unwrap(),
    );
    let (old, abandoned) = (Uuid::from_u128(1), Uuid::from_u128(2));
    for upload in [old, abandoned] {
        sqlx::query("insert into blob_chunks (upload_id, n, bytes) values ($1, 0, 'x')")
            .bind(upload)
            .execute(&mut node)
            .await
            .unwrap();
    }
    // Another node has not yet committed the row that refers to its chunks.
    let mut tx = node.begin().await.unwrap();
    sqlx::query("select n from blob_chunks where upload_id = $1 for update")
        .bind(old)
        .fetch_all(&mut *tx)
        .await
        .unwrap();
    sqlx::query(
        "insert into blobs (hash, upload_id, size_bytes, store, created_at) values ('aa', $1, 1, 'db', now())",
    )
    .bind(old)
    .execute(&mut *tx)
    .await
    .unwrap();
    let server = TestProcess::start(&place, &model, &[]).await;
    until_blocked(&mut watch).await;
    tx.commit().await.unwrap();
    let wait = async {
        let sql = "select upload_id from blob_chunks order by upload_id";
        while sqlx::query_scalar::<_, Uuid>(sql)
            .fetch_all(&mut watch)
            .await
            .unwrap()
            != [old]
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within("the cleanup", wait).await;
    server.kill().await;
}
