//! Users who search and load the app with everything unread while others work.

use std::time::Duration;

use openvibe::{
    db::{Conn, DatabaseUrl, Db, DbError, Share},
    ids::UserId,
};
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::Bystander;
use crate::support::{Person, TestApp, TestDatabase, id, number, team, text, within};

/// Unread messages in the overloaded workspace.
const UNREAD: i64 = 20_000;
const READERS: usize = 4;
const TIMES: usize = 10;

/// Adds copies of the message "Copied", the first message of its thread.
pub async fn copy_message(place: &TestDatabase, count: i64) {
    let new_id = if place.postgres.is_some() {
        "gen_random_uuid()"
    } else {
        "randomblob(16)"
    };
    let copies = format!(
        "with recursive n (i) as (select 1 union all select i + 1 from n where i < {count}) \
         insert into messages (id, workspace_id, channel_id, thread_id, conversation_id, seq, author_type, author_id, kind, state, content, content_plain, \
           mentions, reactions, metadata, created_at) \
         select {new_id}, m.workspace_id, m.channel_id, m.thread_id, m.conversation_id, w.seq + n.i, m.author_type, m.author_id, m.kind, m.state, m.content, \
           m.content_plain, m.mentions, m.reactions, m.metadata, m.created_at \
         from messages m join threads t on t.root_message_id = m.id join workspaces w on w.id = m.workspace_id cross join n \
         where m.content = 'Copied'"
    );
    let thread = format!(
        "update threads set reply_count = reply_count + {count}, last_seq = (select max(m.seq) from messages m where m.thread_id = threads.id) \
         where root_message_id in (select id from messages where content = 'Copied')"
    );
    let workspace = format!(
        "update workspaces set seq = seq + {count} where id in (select workspace_id from messages where content = 'Copied')"
    );
    place.run(&[&copies, &thread, &workspace]).await;
}

#[tokio::test]
async fn counts_stop_at_one_thousand() {
    let t = team().await;
    let started = t.ada.start(&t.general, "Copied").await;
    let thread = text(&started, "/thread/id");
    copy_message(&t.app.place, 1200).await;
    let counted = async |path: &str, pointer: &str| {
        let found = t.bo.get(path).await.ok();
        number(&found, pointer)
    };
    let channel = format!("/v1/channels/{}", t.general);
    assert_eq!(counted(&channel, "/unread_count").await, 1000);
    let path = format!("/v1/threads/{thread}");
    assert_eq!(counted(&path, "/unread_count").await, 1000);
    let opened = t.bo.get(&path).await.ok();
    assert_eq!(opened["first_unread_id"], started["message"]["id"]);
    let list = format!("{channel}/threads");
    assert_eq!(counted(&list, "/data/0/unread_count").await, 1000);
    // Marks all but the newest 300 messages as read.
    let seq = number(&opened, "/last_seq") - 300;
    let mark =
        t.bo.put(&format!("{path}/read"), serde_json::json!({"seq": seq}))
            .await
            .is(200);
    assert_eq!(number(&mark, "/unread_count"), 300);
    assert_eq!(counted(&channel, "/unread_count").await, 300);
}

/// Searches and loads the app in a loop.
async fn read(person: Person) {
    for _ in 0..TIMES {
        person.get("/v1/search?q=co").await.ok();
        person.get("/v1/snapshot").await.ok();
        person.get("/v1/channels?limit=100").await.ok();
    }
}

#[tokio::test]
async fn readers_of_one_workspace_do_not_delay_another() {
    let app = TestApp::with(&[("SIGNUP", "open"), ("RATE_LIMITS", "off")]).await;
    let ada = app.founder("Ada").await;
    let mut others = Vec::new();
    for n in 0..READERS {
        others.push(app.join(&ada, &format!("Reader {n}"), "member").await);
    }
    let general = id(&ada.channel("general").await);
    ada.start(&general, "Copied").await;
    copy_message(&app.place, UNREAD).await;
    let mut bystander = Bystander::start(&app.base).await;
    bystander.rounds(1).await;
    let mut reading: JoinSet<()> = others.into_iter().map(read).collect();
    bystander.rounds(5).await;
    while let Some(done) = within("the readers", reading.join_next()).await {
        done.unwrap();
    }
    bystander.stop().await;
}

/// Takes all connections of this user's share of the slow lane: until they are dropped, the user's searches wait.
pub async fn hold_slow_lane(app: &TestApp, who: &Person) -> Vec<Conn> {
    let user: UserId = who.id.parse().unwrap();
    let scan = || app.db().scan(share(user.0.as_u128(), 1));
    let mut held = Vec::new();
    while let Ok(Ok(c)) = tokio::time::timeout(Duration::from_millis(500), scan()).await {
        held.push(c);
    }
    held
}

/// Starts a search of this user that waits until the returned connections are dropped.
async fn stuck_search(app: &TestApp, who: &Person) -> (Vec<Conn>, JoinSet<()>) {
    let held = hold_slow_lane(app, who).await;
    let who = who.clone();
    let mut search = JoinSet::new();
    search.spawn(async move {
        who.get("/v1/search?q=plan").await;
    });
    (held, search)
}

/// Repeats reads until the server rejects one, because the user's other reads keep it busy.
pub async fn until_busy(who: &Person) {
    let busy = async {
        while who.get("/v1/auth/me").await.status != 503 {
            crate::support::pause().await;
        }
    };
    within("a read that is not handled in time", busy).await;
}

#[tokio::test]
async fn reads_of_one_user_take_turns_and_others_do_not_wait_for_them() {
    let app = TestApp::bounded(&[], |bounds| {
        bounds.bodies.handled_reads = 1;
        bounds.bodies.handled_within = Duration::from_secs(2);
    })
    .await;
    let ada = app.founder("Ada").await;
    let bo = app.join(&ada, "Bo", "member").await;
    let (held, search) = stuck_search(&app, &ada).await;
    until_busy(&ada).await;
    bo.get("/v1/auth/me").await.is(200);
    drop(held);
    within("the search", search.join_all()).await;
    ada.get("/v1/auth/me").await.is(200);
}

#[tokio::test]
async fn a_request_that_gets_no_turn_in_time_is_refused() {
    let app = TestApp::bounded(&[], |bounds| {
        bounds.bodies.handled_max = 1;
        bounds.bodies.handled_within = Duration::from_secs(2);
    })
    .await;
    let ada = app.founder("Ada").await;
    let bo = app.join(&ada, "Bo", "member").await;
    let (held, search) = stuck_search(&app, &ada).await;
    until_busy(&bo).await;
    assert_eq!(bo.get("/v1/auth/me").await.refused(503), "overloaded");
    drop(held);
    within("the search", search.join_all()).await;
    bo.get("/v1/auth/me").await.is(200);
}

async fn open(place: &TestDatabase) -> Db {
    let database = match &place.postgres {
        Some(url) => DatabaseUrl::Postgres(url.clone()),
        None => DatabaseUrl::Sqlite(place.dir.join("readers.db")),
    };
    let listener = std::sync::Arc::new(|_| {});
    Db::open(&database, listener).await.unwrap()
}

fn share(person: u128, workspace: u128) -> Share {
    Share {
        person: Uuid::from_u128(person),
        workspace: Uuid::from_u128(workspace),
    }
}

#[tokio::test]
async fn long_reads_leave_connections_for_short_reads_and_other_users() {
    let place = TestDatabase::new().await;
    let db = open(&place).await;
    let one = "select cast(1 as bigint)";
    // Uses up one person's share, so that the person's next read waits.
    let mut held = Vec::new();
    while let Ok(Ok(c)) =
        tokio::time::timeout(Duration::from_millis(500), db.scan(share(1, 1))).await
    {
        held.push(c);
    }
    assert!(!held.is_empty());
    let single = within("a single read", db.read()).await;
    assert_eq!(single.unwrap().q(one).value::<i64>().await.unwrap(), 1);
    let other = within("another person's read", db.scan(share(2, 2))).await;
    assert_eq!(other.unwrap().q(one).value::<i64>().await.unwrap(), 1);
    let waiting = db.scan(share(1, 1)).await;
    assert!(matches!(waiting, Err(DbError::Busy)));
    held.clear();
    db.scan(share(1, 1)).await.unwrap();
    db.close().await;
}

const ENDLESS: &str = "with recursive n (i) as (select cast(1 as bigint) union all select i + 1 from n) select count(*) from n";

#[tokio::test]
async fn a_long_read_ends_at_its_deadline_or_when_its_client_disconnects() {
    let place = TestDatabase::new().await;
    let db = open(&place).await;
    for attempt in 0..2 {
        let mut c = db.scan(share(1, 1)).await.unwrap();
        let read = c.q(ENDLESS).value::<i64>();
        if attempt == 0 {
            // If the request is dropped, its statement is canceled and its connection is released.
            let dropped = tokio::time::timeout(Duration::from_millis(100), read).await;
            assert!(dropped.is_err());
        } else {
            let stopped = within("the deadline", read).await;
            assert!(matches!(stopped, Err(DbError::TooSlow)), "{stopped:?}");
        }
        drop(c);
        let mut c = within("a connection", db.scan(share(1, 1))).await.unwrap();
        let one: i64 = c.q("select cast(1 as bigint)").value().await.unwrap();
        assert_eq!(one, 1);
    }
    db.close().await;
}

/// Starts an endless read and abandons it once the server runs it. Returns the number of endless reads that were
/// running then.
async fn abandon(db: &Db, share: Share, observer: &mut PgConnection) -> i64 {
    let mut c = within("a slot", async {
        loop {
            match db.scan(share).await {
                // On a busy machine, it takes longer until the server has ended the previous read.
                Err(DbError::Busy) => {}
                c => return c.unwrap(),
            }
        }
    })
    .await;
    let pid: i32 = c.q("select pg_backend_pid()").value().await.unwrap();
    let mut reading = JoinSet::new();
    reading.spawn(async move { c.q(ENDLESS).value::<i64>().await });
    let sql = "select count(*), count(*) filter (where pid = $1) from pg_stat_activity \
               where state = 'active' and query like 'with recursive%' and datname = current_database()";
    within("the server to run the read", async {
        loop {
            let (running, own): (i64, i64) = sqlx::query_as(sql)
                .bind(pid)
                .fetch_one(&mut *observer)
                .await
                .unwrap();
            if own == 1 {
                return running;
            }
            crate::support::pause().await;
        }
    })
    .await
}

#[tokio::test]
async fn abandoned_reads_keep_their_slots_until_the_server_has_ended_them() {
    let place = TestDatabase::new().await;
    let Some(url) = place.postgres.clone() else {
        // SQLite runs reads in this process.
        return;
    };
    let db = open(&place).await;
    let mut observer = PgConnection::connect(&url).await.unwrap();
    for n in 0..12 {
        let running = abandon(&db, share(n, n), &mut observer).await;
        assert!(running <= 4, "{running} reads");
    }
    // All reads use the one slot of the same person. If it were released only at the server's time limit, this would take a minute.
    within("canceled reads", async {
        for _ in 0..12 {
            Box::pin(abandon(&db, share(1, 1), &mut observer)).await;
        }
    })
    .await;
    within("all reads to end", db.close()).await;
    observer.close().await.unwrap();
}
