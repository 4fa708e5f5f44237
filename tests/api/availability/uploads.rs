//! Uploads that are never completed.

use std::time::Duration;

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use reqwest::Method;
use sqlx::Connection;
use tokio::net::TcpStream;

use openvibe::share::PoolBounds;

use super::bodies::{half_sent, refusal};
use crate::support::{MULTIPART, Person, Reply, TestApp, TestDatabase, multipart, within};

const MIB: usize = 1024 * 1024;

fn form(bytes: usize) -> Vec<u8> {
    multipart(&[("name=\"file\"; filename=\"a\"", &vec![b'x'; bytes])])
}

async fn upload(who: &Person, bytes: usize) -> Reply {
    let headers = [("content-type", MULTIPART)];
    who.send(Method::POST, "/v1/files", &headers, Some(form(bytes)))
        .await
}

/// Repeats an upload until the server has room for it.
async fn upload_at_last(who: &Person, bytes: usize) {
    let uploaded = async {
        loop {
            let reply = who
                .try_send_typed("/v1/files", MULTIPART, form(bytes))
                .await;
            if reply.is_some_and(|reply| reply.status == 201) {
                break;
            }
        }
    };
    within("room for an upload", uploaded).await;
}

/// An upload of which only 1.5 MiB are sent.
async fn half_sent_upload(app: &TestApp, user: &Person) -> TcpStream {
    let headers = format!(
        "cookie: {}\r\nx-workspace-id: {}\r\ncontent-type: multipart/form-data; boundary=b\r\n",
        user.cookie.clone().unwrap(),
        user.workspace
    );
    let head = "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n";
    let sent = [head.as_bytes(), &vec![b'x'; 3 * MIB / 2]].concat();
    let address = [127, 0, 0, 2];
    half_sent(&app.base, address, "/v1/files", &headers, 2 * MIB, &sent).await
}

/// Responses to unfinished uploads; dropping this aborts the uploads.
type Pending = FuturesUnordered<BoxFuture<'static, (u16, String)>>;

/// Begins an upload for each of these users and completes none. Returns the first refusal and the other uploads.
async fn never_completed(app: &TestApp, users: [&Person; 3]) -> ((u16, String), Pending) {
    let mut pending = Pending::new();
    for user in users {
        pending.push(refusal(half_sent_upload(app, user).await).boxed());
    }
    let refused = pending.next().await.unwrap();
    (refused, pending)
}

/// Number of stored bytes of incomplete uploads.
async fn stored_bytes(place: &TestDatabase) -> u64 {
    let Some(url) = &place.postgres else {
        let incomplete = std::fs::read_dir(place.dir.join("data/blobs/tmp")).unwrap();
        return incomplete
            .map(|entry| entry.unwrap().metadata().map_or(0, |file| file.len()))
            .sum();
    };
    let mut c = sqlx::PgConnection::connect(url).await.unwrap();
    let bytes: i64 = sqlx::query_scalar(
        "select cast(coalesce(sum(length(bytes)), 0) as bigint) from blob_chunks",
    )
    .fetch_one(&mut c)
    .await
    .unwrap();
    bytes.cast_unsigned()
}

#[tokio::test]
async fn the_uploads_of_one_user_are_limited_in_bytes() {
    let settings = [("UPLOAD_BYTES_MAX", "2MiB"), ("RATE_LIMITS", "off")];
    let app = TestApp::bounded(&settings, |bounds| {
        bounds.bodies.upload_bytes.share = 4 << 20;
        // Time limit for reading the rest of the body before the response.
        bounds.bodies.member_within = Duration::from_secs(1);
    })
    .await;
    let ada = app.founder("Ada").await;
    let bo = app.join(&ada, "Bo", "member").await;
    let (refused, others) = never_completed(&app, [&ada; 3]).await;
    assert_eq!(refused, (503, "overloaded".to_owned()));
    upload(&bo, 2 * MIB).await.is(201);
    drop(others);
    upload_at_last(&ada, 2 * MIB).await;
}

#[tokio::test]
async fn the_uploads_of_all_users_are_limited_in_bytes() {
    let settings = [("UPLOAD_BYTES_MAX", "2MiB"), ("RATE_LIMITS", "off")];
    let app = TestApp::bounded(&settings, |bounds| {
        bounds.bodies.upload_bytes = PoolBounds {
            total: 4 << 20,
            share: 4 << 20,
        };
        bounds.bodies.member_within = Duration::from_secs(1);
    })
    .await;
    let ada = app.founder("Ada").await;
    let bo = app.join(&ada, "Bo", "member").await;
    let cy = app.join(&ada, "Cy", "member").await;
    let (refused, others) = never_completed(&app, [&ada, &bo, &cy]).await;
    assert_eq!(refused, (503, "overloaded".to_owned()));
    drop(others);
    upload_at_last(&cy, 2 * MIB).await;
}

#[tokio::test]
async fn one_upload_of_the_largest_size_is_always_possible() {
    let app = TestApp::bounded(&[("UPLOAD_BYTES_MAX", "3MiB")], |bounds| {
        bounds.bodies.upload_bytes = PoolBounds {
            total: 1 << 20,
            share: 1 << 20,
        };
    })
    .await;
    let ada = app.founder("Ada").await;
    upload(&ada, 3 * MIB).await.is(201);
}

#[tokio::test]
async fn the_uploads_of_a_workspace_are_limited_to_what_is_left_of_its_storage() {
    let settings = [
        ("WORKSPACE_BYTES_MAX", "5MiB"),
        ("RATE_LIMITS", "off"),
        ("SIGNUP", "open"),
    ];
    let app = TestApp::with(&settings).await;
    let ada = app.founder("Ada").await;
    let bo = app.join(&ada, "Bo", "member").await;
    let cy = app.join(&ada, "Cy", "member").await;
    let zoe = app.founder("Zoe").await;
    let halves = [
        half_sent_upload(&app, &ada).await,
        half_sent_upload(&app, &bo).await,
    ];
    within("the halves to be stored", async {
        // PostgreSQL stores whole chunks of 1 MiB.
        while stored_bytes(&app.place).await < 2 << 20 {
            crate::support::pause().await;
        }
    })
    .await;
    let refused = upload(&cy, 7 * MIB / 2).await;
    assert_eq!(refused.refused(503), "overloaded");
    upload(&zoe, 4 * MIB).await.is(201);
    drop(halves);
    upload_at_last(&cy, 7 * MIB / 2).await;
    let rejected = upload(&bo, 2 * MIB).await;
    assert_eq!(rejected.refused(422), "quota_exceeded");
}

#[tokio::test]
async fn small_uploads_of_a_nearly_full_workspace_do_not_keep_each_other_out() {
    let app = TestApp::with(&[("WORKSPACE_BYTES_MAX", "1MiB")]).await;
    let ada = app.founder("Ada").await;
    let uploads = (0..8).map(|_| async { upload(&ada, 1000).await.is(201) });
    futures::future::join_all(uploads).await;
}
