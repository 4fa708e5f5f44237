//! Several processes that use one database, simulated by database handles in this process, and the failover of the database server.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::{join_all, try_join_all};
use openvibe::{
    db::{Conn, DatabaseFault, DatabaseUrl, Db, DbError, Failover, Options, epoch},
    ids::WorkspaceId,
    realtime::{Audience, EventType, log},
    telemetry,
};
use sqlx::{Connection, Executor, PgConnection};
use uuid::Uuid;

use crate::{
    event_log::{event, insert_workspace},
    support::{Cluster, TestDatabase, within},
};

fn is_postgres() -> bool {
    std::env::var("OPENVIBE_TEST_DATABASE").as_deref() == Ok("postgres")
}

async fn open(place: &DatabaseUrl) -> Db {
    Db::open(place, Arc::new(|_| {})).await.unwrap()
}

/// Appends an event, and increases a count with a separate read and write.
async fn append(c: &mut Conn, workspace: WorkspaceId) -> Result<(), DbError> {
    let counted: i64 = c
        .q("select pruned_seq from workspaces where id = $1")
        .bind(workspace)
        .value()
        .await?;
    let seq = log::reserve(c, workspace, 1).await?;
    let event = event(seq, EventType::WorkspaceUpdated, Audience::Workspace);
    log::append(c, workspace, event).await?;
    c.q("update workspaces set pruned_seq = $2 where id = $1")
        .bind(workspace)
        .bind(counted + 1)
        .run()
        .await?;
    Ok(())
}

async fn append_to(db: &Db, workspace: WorkspaceId) -> Result<(), DbError> {
    db.write(workspace.0, async move |c: &mut Conn| {
        append(c, workspace).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_number_the_events_of_a_workspace_without_gaps() {
    const EACH: i64 = 100;
    let place = TestDatabase::migrated().await;
    let processes = [open(&place.url()).await, open(&place.url()).await];
    let workspace = insert_workspace(&processes[0]).await;
    let writes = (0..EACH).flat_map(|_| processes.iter().map(|db| append_to(db, workspace)));
    for write in join_all(writes).await {
        write.unwrap();
    }
    let mut c = processes[1].read().await.unwrap();
    let seqs: Vec<(i64,)> = c
        .q("select seq from events where workspace_id = $1 order by seq")
        .bind(workspace)
        .all()
        .await
        .unwrap();
    let wanted: Vec<(i64,)> = (1..=2 * EACH).map(|seq| (seq,)).collect();
    assert_eq!(seqs, wanted);
    let counted = log::head(&mut c, workspace).await.unwrap();
    assert_eq!(
        counted,
        (2 * EACH, 2 * EACH),
        "a command saw an older state"
    );
    drop(c);
    for db in processes {
        db.close().await;
    }
}

#[tokio::test]
async fn a_process_that_stops_in_a_transaction_does_not_block_others() {
    let place = TestDatabase::migrated().await;
    let Some(url) = &place.postgres else { return };
    let db = open(&place.url()).await;
    let workspace = insert_workspace(&db).await;
    // Acts like the session of a frozen process.
    let mut stopped = PgConnection::connect(url).await.unwrap();
    let limit = "set idle_in_transaction_session_timeout = '3s'; begin";
    stopped.execute(limit).await.unwrap();
    sqlx::query("select seq from workspaces where id = $1 for no key update")
        .bind(workspace)
        .execute(&mut stopped)
        .await
        .unwrap();
    let began = Instant::now();
    append_to(&db, workspace).await.unwrap();
    // Without the session's limit, the write would fail after waiting 15 seconds for the lock.
    assert!(began.elapsed() < Duration::from_secs(14));
    // When the frozen process continues, its statement fails and does not change anything.
    let late = stopped.execute("update workspaces set seq = seq + 100");
    late.await.unwrap_err();
    let head = log::head(&mut db.read().await.unwrap(), workspace).await;
    assert_eq!(head.unwrap(), (1, 1));
    db.close().await;
}

#[tokio::test]
async fn a_lock_that_is_never_released_fails_writes_after_15_seconds() {
    let place = TestDatabase::migrated().await;
    let Some(url) = &place.postgres else { return };
    let db = open(&place.url()).await;
    let workspace = insert_workspace(&db).await;
    let mut holder = PgConnection::connect(url).await.unwrap();
    holder.execute("begin").await.unwrap();
    sqlx::query("select seq from workspaces where id = $1 for no key update")
        .bind(workspace)
        .execute(&mut holder)
        .await
        .unwrap();
    let failed = within("the write", append_to(&db, workspace)).await;
    let fault = failed.unwrap_err().fault();
    // Both faults become a response 503 with `Retry-After`.
    assert!(
        matches!(fault, Some(DatabaseFault::Busy | DatabaseFault::Away)),
        "{fault:?}"
    );
    holder.execute("rollback").await.unwrap();
    append_to(&db, workspace).await.unwrap();
    db.close().await;
}

#[tokio::test]
async fn transient_failures_of_the_server_are_retried_by_their_code() {
    let place = TestDatabase::migrated().await;
    if place.postgres.is_none() {
        return;
    }
    // A sequence counts the attempts, because it is not rolled back.
    place
        .run(&[
            "create sequence attempts",
            "create function fail_twice(state text) returns bigint language plpgsql as $$ \
             declare n bigint := nextval('attempts'); begin \
             if n % 3 > 0 then raise exception 'not now' using errcode = state; end if; return n; end $$",
        ])
        .await;
    let metrics = telemetry::recorder().unwrap();
    let db = open(&place.url()).await;
    let call = async |state: &'static str| {
        db.write(Uuid::nil(), async move |c: &mut Conn| {
            c.q("select fail_twice($1)")
                .bind(state)
                .value::<i64>()
                .await
        })
        .await
    };
    let transient = [
        "25006", "25P03", "25P04", "08000", "08006", "53300", "57P01", "57P02", "57P03", "57P04",
        "57P05", "40001", "40P01", "55P03", "57014",
    ];
    for (attempts, state) in (3..).step_by(3).zip(transient) {
        assert_eq!(call(state).await.unwrap(), attempts, "{state}");
        let counted = format!("openvibe_db_retries_total{{sqlstate=\"{state}\"}} ");
        let (rendered, zero) = (metrics.render(), format!("{counted}0\n"));
        assert!(
            rendered.contains(&counted) && !rendered.contains(&zero),
            "{state}"
        );
    }
    // Any other failure is final after two attempts: one in a batch, and one in its own transaction.
    let failed = call("23514").await.unwrap_err();
    assert!(matches!(failed, DbError::Sql(_)), "{failed}");
    assert_eq!(call("23514").await.unwrap(), 48);
    db.close().await;
}

#[tokio::test]
async fn processes_that_start_at_once_migrate_the_database_once() {
    let place = TestDatabase::new().await;
    if place.postgres.is_none() {
        return;
    }
    let url = place.url();
    let starts = (0..3).map(|_| Db::open(&url, Arc::new(|_| {})));
    let processes = within("the starts", try_join_all(starts)).await.unwrap();
    let epochs: Vec<String> = processes
        .iter()
        .map(|db| db.epoch().borrow().id.clone())
        .collect();
    assert!(
        epochs.windows(2).all(|pair| pair[0] == pair[1]),
        "{epochs:?}"
    );
    let [all, distinct] = place
        .numbers(&[
            "select count(*) from _sqlx_migrations".to_owned(),
            "select count(distinct version) from _sqlx_migrations where success".to_owned(),
        ])
        .await[..]
    else {
        unreachable!()
    };
    assert_eq!(all, distinct);
    for db in processes {
        db.close().await;
    }
}

#[tokio::test]
async fn a_new_epoch_is_noticed_by_other_processes_and_replaces_the_old_one_once() {
    let place = TestDatabase::migrated().await;
    let [one, other] = [open(&place.url()).await, open(&place.url()).await];
    let mut watched = other.epoch();
    let old = epoch::read(&one).await.unwrap();
    assert_eq!(*watched.borrow_and_update(), old);
    let new = epoch::renew(&one, &old.id).await.unwrap();
    assert!(new.id > old.id);
    assert_eq!(epoch::read(&other).await.unwrap().id, new.id);
    assert!(watched.has_changed().unwrap());
    // This call is too late, because another process has already replaced the epoch.
    assert_eq!(epoch::renew(&other, &old.id).await.unwrap().id, new.id);
    for db in [one, other] {
        db.close().await;
    }
}

/// An address that can point to another server, like a proxy that follows the primary.
struct Address {
    dir: PathBuf,
    url: DatabaseUrl,
}

impl Address {
    fn new(cluster: &Cluster) -> Self {
        let name = format!("openvibe-address-{}", Uuid::now_v7().simple());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir(&dir).unwrap();
        let url = format!(
            "postgres://openvibe@localhost/postgres?host={}",
            dir.display()
        );
        let address = Self {
            dir,
            url: DatabaseUrl::Postgres(url),
        };
        address.point_to(cluster);
        address
    }

    fn socket(&self) -> PathBuf {
        self.dir.join(".s.PGSQL.5432")
    }

    fn point_to(&self, cluster: &Cluster) {
        let socket: &Path = &self.socket();
        drop(std::fs::remove_file(socket));
        std::os::unix::fs::symlink(cluster.socket(), socket).unwrap();
    }
}

impl Drop for Address {
    fn drop(&mut self) {
        // If this fails, the directory is left behind.
        drop(std::fs::remove_dir_all(&self.dir));
    }
}

pub async fn blocking<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    openvibe::blocking::blocking((), act).await.unwrap()
}

/// A primary and its standby.
pub async fn pair() -> (Arc<Cluster>, Arc<Cluster>) {
    blocking(|| {
        let primary = Cluster::start();
        let standby = primary.standby();
        (Arc::new(primary), Arc::new(standby))
    })
    .await
}

/// Waits until the standby has replicated everything.
pub async fn replicated(primary: &Cluster) {
    let mut c = PgConnection::connect(&primary.url).await.unwrap();
    let replayed = async {
        let sql = "select exists (select 1 from pg_stat_replication where replay_lsn >= pg_current_wal_lsn())";
        while !sqlx::query_scalar::<_, bool>(sql)
            .fetch_one(&mut c)
            .await
            .unwrap()
        {
            crate::support::pause().await;
        }
    };
    within("the standby", replayed).await;
}

/// Promotes the standby after a crash of the primary.
async fn fail_over(primary: &Arc<Cluster>, standby: &Arc<Cluster>, address: &Address) {
    replicated(primary).await;
    let (old, new) = (Arc::clone(primary), Arc::clone(standby));
    blocking(move || {
        old.crash();
        new.promote();
    })
    .await;
    address.point_to(standby);
}

async fn open_with(address: &Address, failover: Failover) -> Db {
    let options = Options {
        failover,
        ..Options::default()
    };
    let opened = Db::open_with(&address.url, options, Arc::new(|_| {}));
    opened.await.unwrap()
}

#[tokio::test]
async fn a_promoted_standby_starts_one_epoch_for_all_processes() {
    if !is_postgres() {
        return;
    }
    let (primary, standby) = pair().await;
    let address = Address::new(&primary);
    let of_standby = DatabaseUrl::Postgres(standby.url.clone());
    let opened = Db::open(&of_standby, Arc::new(|_| {})).await;
    let refused = opened.err().unwrap().to_string();
    assert!(refused.contains("standby"), "{refused}");

    let one = open_with(&address, Failover::Lossy).await;
    let other = open_with(&address, Failover::Lossy).await;
    let workspace = insert_workspace(&one).await;
    append_to(&one, workspace).await.unwrap();
    let (mut of_one, of_other) = (one.epoch(), other.epoch());
    let old = of_one.borrow_and_update().clone();
    assert_eq!(*of_other.borrow(), old);
    let timeline = |epoch: &epoch::Epoch| epoch.server.as_ref().unwrap().timeline.clone();
    assert_eq!(timeline(&old), "00000001");

    fail_over(&primary, &standby, &address).await;
    append_to(&one, workspace).await.unwrap();
    append_to(&other, workspace).await.unwrap();
    within("the new epoch", of_one.changed()).await.unwrap();
    let new = of_one.borrow().clone();
    assert!(new.id > old.id);
    assert_eq!(timeline(&new), "00000002");
    assert_eq!(*of_other.borrow(), new);
    assert_eq!(epoch::read(&other).await.unwrap(), new);
    let head = log::head(&mut one.read().await.unwrap(), workspace).await;
    assert_eq!(head.unwrap().0, 3);
    for db in [one, other] {
        db.close().await;
    }
}

#[tokio::test]
async fn a_lossless_failover_keeps_the_epoch_if_commits_waited_for_the_standby() {
    if !is_postgres() {
        return;
    }
    let (primary, standby) = pair().await;
    let address = Address::new(&primary);
    let mut c = PgConnection::connect(&primary.url).await.unwrap();
    for sql in [
        "alter system set synchronous_standby_names = '*'",
        "select pg_reload_conf()",
    ] {
        c.execute(sql).await.unwrap();
    }
    let db = open_with(&address, Failover::Lossless).await;
    let renewal = db.write(Uuid::nil(), async |c: &mut Conn| {
        epoch::record_synchronous(c).await
    });
    renewal.await.unwrap();
    let workspace = insert_workspace(&db).await;
    append_to(&db, workspace).await.unwrap();
    let old = db.epoch().borrow().clone();

    fail_over(&primary, &standby, &address).await;
    append_to(&db, workspace).await.unwrap();
    let kept = db.epoch().borrow().clone();
    assert_eq!(kept.id, old.id);
    assert_eq!(kept.server.unwrap().timeline, "00000002");
    db.close().await;
}

#[tokio::test]
async fn a_role_without_the_control_functions_has_an_epoch() {
    if !is_postgres() {
        return;
    }
    let cluster = Arc::new(blocking(Cluster::start).await);
    let mut c = PgConnection::connect(&cluster.url).await.unwrap();
    for sql in [
        "create role plain login",
        "create database plain owner plain",
    ] {
        c.execute(sql).await.unwrap();
    }
    let url = cluster
        .url
        .replace("openvibe@localhost/postgres", "plain@localhost/plain");
    let mut c = PgConnection::connect(&cluster.url.replace("/postgres?", "/plain?"))
        .await
        .unwrap();
    c.execute("revoke execute on function pg_control_system() from public")
        .await
        .unwrap();
    let db = open(&DatabaseUrl::Postgres(url)).await;
    let found = epoch::read(&db).await.unwrap();
    assert!(!found.id.is_empty());
    assert_eq!(found.server, None);
    db.close().await;
}
