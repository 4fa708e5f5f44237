//! Revocations that another node or the command line commits. Not applicable to `SQLite`, which has a single node.

use std::sync::Arc;

use openvibe::{
    auth::revocations::{self, Revocation, RevocationFeed, Revoked},
    db::{CommitSignal, Conn, DatabaseUrl, Db, DbError},
    ids::{ApiKeyId, SessionId, UserId, WorkspaceId},
};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::support::{TestDatabase, command, id, list, team, within};

/// A database handle like that of another node; `None` on `SQLite`.
async fn node(place: &TestDatabase) -> Option<Db> {
    let url = DatabaseUrl::Postgres(place.postgres.clone()?);
    Some(Db::open(&url, Arc::new(|_| {})).await.unwrap())
}

async fn record(db: &Db, revocation: Revocation) {
    let recorded = db
        .write(Uuid::nil(), async move |c: &mut Conn| {
            revocations::record(c, revocation).await
        })
        .await;
    recorded.unwrap();
}

async fn read(feed: &RevocationFeed, db: &Db) -> Vec<Revocation> {
    feed.read_new(&mut db.read().await.unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_revocation_that_commits_late_reaches_another_node_exactly_once() {
    let place = TestDatabase::migrated().await;
    let (Some(here), Some(there)) = (node(&place).await, node(&place).await) else {
        return;
    };
    let feed = RevocationFeed::default();
    let [late, early] = [(); 2].map(|()| Revocation::Session(SessionId::new()));
    let (inserted, waiting) = oneshot::channel();
    let (commit, committing) = oneshot::channel::<()>();
    // This key belongs to a different writer than the nil key.
    let slow = here.write(Uuid::from_u128(1), {
        let signals = std::sync::Mutex::new(Some((inserted, committing)));
        async move |c: &mut Conn| {
            revocations::record(c, late).await?;
            let (inserted, committing) = signals.lock().unwrap().take().unwrap();
            inserted.send(()).unwrap();
            committing.await.unwrap();
            Ok::<_, DbError>(())
        }
    });
    let other = async {
        waiting.await.unwrap();
        record(&here, early).await;
        assert_eq!(read(&feed, &there).await, [early]);
        assert_eq!(read(&feed, &there).await, []);
        commit.send(()).unwrap();
    };
    let (done, ()) = tokio::join!(slow, other);
    done.unwrap();
    assert_eq!(read(&feed, &there).await, [late]);
    for _ in 0..3 {
        assert_eq!(read(&feed, &there).await, []);
    }
    let newest = Revocation::Keys(UserId::new());
    record(&there, newest).await;
    assert_eq!(read(&feed, &there).await, [newest]);
}

#[tokio::test]
async fn a_node_does_not_apply_its_own_revocation_again() {
    let place = TestDatabase::migrated().await;
    let Some(url) = place.postgres.clone() else {
        return;
    };
    let feed = Arc::new(RevocationFeed::default());
    let (send, mut signals) = mpsc::channel(1);
    let listener = Arc::new(move |signals: Vec<CommitSignal>| {
        for signal in signals {
            assert!(send.try_send(signal).is_ok());
        }
    });
    let db = Db::open(&DatabaseUrl::Postgres(url), listener)
        .await
        .unwrap();
    let own = Revocation::User {
        user: UserId::new(),
        workspace: None,
    };
    record(&db, own).await;
    let signal = within("the signal", signals.recv()).await.unwrap();
    let revoked = signal.downcast_ref::<Revoked>().unwrap();
    assert_eq!(revoked.revocation, own);
    assert!(feed.apply(revoked.id.unwrap()));
    for _ in 0..3 {
        assert_eq!(read(&feed, &db).await, []);
        assert!(!feed.apply(revoked.id.unwrap()));
    }
}

#[tokio::test]
async fn every_kind_of_revocation_is_read_as_it_was_recorded() {
    let place = TestDatabase::migrated().await;
    let Some(db) = node(&place).await else {
        return;
    };
    let user = UserId::new();
    let all = [
        Revocation::Session(SessionId::new()),
        Revocation::Key(ApiKeyId::new()),
        Revocation::Sessions { user, except: None },
        Revocation::Sessions {
            user,
            except: Some(SessionId::new()),
        },
        Revocation::Keys(user),
        Revocation::User {
            user,
            workspace: None,
        },
        Revocation::User {
            user,
            workspace: Some(WorkspaceId::new()),
        },
    ];
    for revocation in all {
        record(&db, revocation).await;
    }
    assert_eq!(read(&RevocationFeed::default(), &db).await, all);
    let newer = "update revocations set kind = 'unheard_of' where kind = 'session'";
    place.run(&[newer]).await;
    let known = read(&RevocationFeed::default(), &db).await;
    assert_eq!(known, all[1..], "a kind of a newer version is skipped");
}

#[tokio::test]
async fn more_revocations_than_a_page_are_read_at_once() {
    let place = TestDatabase::migrated().await;
    let Some(db) = node(&place).await else {
        return;
    };
    place
        .run(&[
            "insert into revocations (id, kind, target, created_at) \
                select gen_random_uuid(), 'key', gen_random_uuid(), now() from generate_series(1, 1200)",
        ])
        .await;
    let feed = RevocationFeed::default();
    assert_eq!(read(&feed, &db).await.len(), 1200);
    assert_eq!(read(&feed, &db).await, []);
}

#[tokio::test]
async fn revocations_are_deleted_after_ten_minutes() {
    let place = TestDatabase::migrated().await;
    let Some(db) = node(&place).await else {
        return;
    };
    place
        .run(&[
            "insert into revocations (id, kind, target, created_at) \
                select gen_random_uuid(), 'key', gen_random_uuid(), now() - n * interval '1 minute' from generate_series(1, 20) n",
        ])
        .await;
    revocations::delete_expired(&db).await.unwrap();
    assert_eq!(place.count("revocations").await, 9);
}

#[tokio::test]
async fn a_revocation_by_another_node_closes_the_socket() {
    let t = team().await;
    let Some(other) = node(&t.app.place).await else {
        return;
    };
    let elsewhere = t.bo.log_in().await;
    let (mut closed, mut kept) = (elsewhere.socket().await, t.bo.socket().await);
    let sessions = list(&elsewhere.get("/v1/auth/sessions").await.ok(), "/data");
    let session = sessions.iter().find(|s| s["current"] == true).unwrap();
    // The session itself still exists, so a heartbeat would not close the socket.
    record(&other, Revocation::Session(id(session).parse().unwrap())).await;
    assert_eq!(closed.closed().await, 4001);
    kept.ack(json!({"type": "ping"})).await;
}

#[tokio::test]
async fn a_late_revocation_keeps_sockets_that_were_opened_after_it() {
    let t = team().await;
    let Some(other) = node(&t.app.place).await else {
        return;
    };
    let elsewhere = t.bo.log_in().await;
    let (mut ended, mut kept) = (elsewhere.socket().await, t.bo.socket().await);
    let sessions = list(&elsewhere.get("/v1/auth/sessions").await.ok(), "/data");
    let session = sessions.iter().find(|s| s["current"] == true).unwrap();
    let session: SessionId = id(session).parse().unwrap();
    let delete = format!("delete from sessions where id = '{}'", session.0);
    t.app.place.run(&[&delete]).await;
    let revocation = Revocation::User {
        user: t.bo.id.parse().unwrap(),
        workspace: None,
    };
    record(&other, revocation).await;
    assert_eq!(ended.closed().await, 4001);
    kept.ack(json!({"type": "ping"})).await;
}

#[tokio::test]
async fn a_password_reset_on_the_command_line_reaches_running_nodes() {
    let t = team().await;
    let Some(url) = t.app.place.postgres.clone() else {
        return;
    };
    let mut socket = t.bo.socket().await;
    let mut reset = command(&t.app.place, &t.app.model, &[]);
    reset.args(["user", "reset-password", "--email", "bo@example.org"]);
    let output = openvibe::blocking::blocking((), move || reset.output().unwrap());
    let output = output.await.unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(socket.closed().await, 4001);
    let mut c = PgConnection::connect(&url).await.unwrap();
    let kinds: Vec<String> = sqlx::query_scalar("select kind from revocations order by created_at")
        .fetch_all(&mut c)
        .await
        .unwrap();
    assert_eq!(kinds, ["keys", "sessions"]);
}

#[tokio::test]
async fn a_password_change_keeps_the_sockets_of_its_own_session_and_of_keys() {
    let t = team().await;
    let elsewhere = t.bo.log_in().await;
    let (robot, _) = t.bo.make_key(&["chat:read"]).await;
    let (mut own, mut other, mut of_key) = (
        t.bo.socket().await,
        elsewhere.socket().await,
        robot.socket().await,
    );
    let form = |current: &str, new: &str, revoke_keys: bool| -> Value {
        json!({"current_password": current, "new_password": new, "revoke_keys": revoke_keys})
    };
    let change = form("correct horse", "battery staple", false);
    t.bo.post("/v1/auth/password", change).await.is(204);
    assert_eq!(other.closed().await, 4001);
    own.ack(json!({"type": "ping"})).await;
    of_key.ack(json!({"type": "ping"})).await;
    let change = form("battery staple", "correct horse", true);
    t.bo.post("/v1/auth/password", change).await.is(204);
    assert_eq!(of_key.closed().await, 4001);
    own.ack(json!({"type": "ping"})).await;
}

#[tokio::test]
async fn a_role_change_closes_sockets_in_its_workspace_only() {
    let t = crate::support::team_with(&[("SIGNUP", "open")]).await;
    let made =
        t.bo.post("/v1/workspaces", json!({"name": "Elsewhere"}))
            .await;
    let there = t.bo.in_workspace(&id(&made.is(201)));
    let here = t.bo.in_workspace(&t.ada.workspace);
    let (mut changed, mut kept) = (here.socket().await, there.socket().await);
    let path = format!("/v1/members/{}", t.bo.id);
    t.ada.patch(&path, json!({"role": "viewer"})).await.is(200);
    assert_eq!(changed.closed().await, 4001);
    kept.ack(json!({"type": "ping"})).await;
}
