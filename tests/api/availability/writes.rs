//! Workspaces that fill the writer's queue. Each test holds the writer until everything is queued, so that only the order matters.

use std::{sync::Arc, task::Poll, time::Duration};

use openvibe::db::{Conn, Db, DbError, Engine};
use serde_json::json;
use tokio::{sync::Notify, task::JoinSet};
use uuid::Uuid;

use crate::support::{TestApp, id, sign_up, within};

const MEMBERS: usize = 4;
const POSTS_PER_MEMBER: usize = 30;
/// More writes than one workspace can queue.
const WRITES: usize = 600;

/// A command that occupies a writer, so that it cannot run others.
struct HeldWriter {
    release: Arc<Notify>,
    command: JoinSet<Result<(), DbError>>,
}

impl HeldWriter {
    /// Occupies the writer of `key`.
    async fn of(db: &Db, key: Uuid) -> Self {
        let (started, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let mut command = JoinSet::new();
        let (db, runs, released) = (db.clone(), Arc::clone(&started), Arc::clone(&release));
        command.spawn(async move {
            db.write(key, async move |_: &mut Conn| {
                runs.notify_one();
                released.notified().await;
                Ok::<_, DbError>(())
            })
            .await
        });
        within("the writer", started.notified()).await;
        Self { release, command }
    }

    async fn release(mut self) {
        self.release.notify_one();
        let ended = within("the writer", self.command.join_next()).await;
        ended.unwrap().unwrap().unwrap();
    }
}

async fn queued(db: &Db, count: usize) {
    let reached = async {
        while db.queued_writes() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within("the queue", reached).await;
}

#[tokio::test]
async fn a_post_is_stored_before_the_flood_of_another_workspace() {
    let app = TestApp::with(&[("SIGNUP", "open"), ("RATE_LIMITS", "off")]).await;
    if app.db().engine() == Engine::Postgres {
        // PostgreSQL has several writers.
        return;
    }
    let ada = app.founder("Ada").await;
    let thread = ada
        .thread(&id(&ada.channel("general").await), "Flood")
        .await;
    let mut members = Vec::new();
    for n in 0..MEMBERS {
        let member = app.join(&ada, &format!("Member {n}"), "member").await;
        members.push(Arc::new(member));
    }
    let mut bo = sign_up(&app.base, "Bo", None).await;
    let workspace = bo.post("/v1/workspaces", json!({"name": "Others"})).await;
    bo.enter(&id(&workspace.is(201))).await;
    let own = bo.thread(&id(&bo.channel("general").await), "Work").await;

    let held = HeldWriter::of(app.db(), Uuid::nil()).await;
    let mut flood = JoinSet::new();
    for member in &members {
        for n in 0..POSTS_PER_MEMBER {
            let (member, thread) = (Arc::clone(member), thread.clone());
            flood.spawn(async move { member.tell(&thread, &format!("flood {n}")).await });
        }
    }
    let count = MEMBERS * POSTS_PER_MEMBER;
    queued(app.db(), count).await;
    let post = bo.tell(&own, "Work as usual");
    let release = async {
        queued(app.db(), count + 1).await;
        held.release().await;
    };
    let (post, ()) = futures::join!(post, release);
    let flood = flood.join_all().await;
    // IDs are in the order in which the commands ran.
    let before = flood.iter().filter(|message| **message < post).count();
    assert!(before <= 1, "{before} of {} posts ran first", flood.len());
}

#[tokio::test]
async fn a_write_whose_caller_gave_up_before_it_was_queued_never_runs() {
    let app = TestApp::start().await;
    let (db, key) = (app.db(), Uuid::now_v7());
    let held = HeldWriter::of(db, key).await;
    let mut writes: Vec<_> = (0..WRITES)
        .map(|n| {
            Box::pin(db.write(key, async move |c: &mut Conn| {
                c.q("insert into meta (key, value) values ($1, '')")
                    .bind(format!("write-{n}"))
                    .run()
                    .await
            }))
        })
        .collect();
    for write in &mut writes {
        assert!(matches!(futures::poll!(write), Poll::Pending));
    }
    let in_queue = db.queued_writes();
    assert!(in_queue < WRITES, "{in_queue}");
    drop(writes.pop());
    held.release().await;
    for written in within("the writes", futures::future::join_all(writes)).await {
        assert_eq!(written.unwrap(), 1);
    }
    let stored = "meta where key like 'write-%'";
    assert_eq!(app.place.count(stored).await, 599);
    assert_eq!(app.place.count("meta where key = 'write-599'").await, 0);
}
