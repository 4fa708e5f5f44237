//! Exports whose clients do not read the response.

use super::copy_message;
use crate::support::{TestApp, TestDatabase, id, within};

/// Together, the messages exceed the buffers of client and server.
const MESSAGES: i64 = 2_000;
const MESSAGE_BYTES: usize = 16 * 1024;

async fn store_messages(place: &TestDatabase) {
    copy_message(place, MESSAGES).await;
    let content = if place.postgres.is_some() {
        format!("repeat('x', {MESSAGE_BYTES})")
    } else {
        format!("printf('%.{MESSAGE_BYTES}c', 'x')")
    };
    let enlarge = format!("update messages set content = {content} where content = 'Copied'");
    place.run(&[&enlarge]).await;
}

#[tokio::test]
async fn exports_that_nobody_reads_are_limited() {
    let app = TestApp::start().await;
    let ada = app.founder("Ada").await;
    let bo = app.join(&ada, "Bo", "member").await;
    ada.start(&id(&ada.channel("general").await), "Copied")
        .await;
    store_messages(&app.place).await;
    let path = format!("/v1/members/{}/export", ada.id);
    let held = [ada.stream(&path).await, ada.stream(&path).await];
    assert!(held.iter().all(|export| export.status() == 200));
    assert_eq!(ada.get(&path).await.refused(503), "overloaded");
    let own = format!("/v1/members/{}/export", bo.id);
    bo.get(&own).await.is(200);
    drop(held);
    let free = async {
        while ada.get(&path).await.status != 200 {
            crate::support::pause().await;
        }
    };
    within("an export", free).await;
}
