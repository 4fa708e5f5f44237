//! Failed sign-ins across several nodes. Not applicable to `SQLite`, which has a single node.

use std::{net::IpAddr, sync::Arc, time::Instant};

use futures::future::join_all;
use openvibe::{
    auth::{Attempt, AuthError, Limits},
    db::{DatabaseUrl, Db},
    ids::SessionId,
};

use crate::support::TestDatabase;

const ADA: &str = "ada@example.org";

struct Node {
    db: Db,
    limits: Limits,
}

/// Two nodes with the same database; `None` on `SQLite`.
async fn nodes() -> Option<(TestDatabase, [Node; 2])> {
    let place = TestDatabase::migrated().await;
    let url = DatabaseUrl::Postgres(place.postgres.clone()?);
    let node = async || {
        let db = Db::open(&url, Arc::new(|_| {})).await.unwrap();
        let limits = Limits::new(true, 100, 10).shared_by(&db);
        Node { db, limits }
    };
    let both = [node().await, node().await];
    Some((place, both))
}

fn address(n: u32) -> IpAddr {
    IpAddr::from((0x0a00_0000 + n).to_be_bytes())
}

fn is_refused(result: &Result<impl Sized, AuthError>) -> bool {
    match result {
        Ok(_) => false,
        Err(AuthError::TooManyAttempts(seconds)) => {
            assert!((1..=60).contains(seconds), "{seconds}");
            true
        }
        Err(e) => panic!("{e}"),
    }
}

/// Upper bound of a bucket's permits since `began`.
fn most(burst: usize, every_s: u64, began: Instant) -> usize {
    burst + usize::try_from(began.elapsed().as_secs() / every_s).unwrap() + 1
}

#[tokio::test]
async fn two_nodes_never_grant_more_failed_logins_than_one() {
    let Some((_place, nodes)) = nodes().await else {
        return;
    };
    let began = Instant::now();
    let attempts = (0..40).map(|n| nodes[n % 2].limits.log_in(ADA, address(1)));
    let results = join_all(attempts).await;
    let granted = results.iter().filter(|result| !is_refused(result)).count();
    assert!((10..most(10, 6, began)).contains(&granted), "{granted}");
    // Other accounts and addresses are not affected.
    for node in &nodes {
        let other = node.limits.log_in("bo@example.org", address(1)).await;
        assert_eq!(other.unwrap(), Attempt::Open);
        let other = node.limits.log_in(ADA, address(2)).await;
        assert_eq!(other.unwrap(), Attempt::Open);
    }
}

#[tokio::test]
async fn failed_logins_from_an_address_are_counted_over_nodes_and_accounts() {
    let Some((place, nodes)) = nodes().await else {
        return;
    };
    let began = Instant::now();
    let emails: Vec<String> = (0..100).map(|n| format!("{n}@example.org")).collect();
    let attempts = (0..100).map(|n| nodes[n % 2].limits.log_in(&emails[n], address(1)));
    let results = join_all(attempts).await;
    let granted = results.iter().filter(|result| !is_refused(result)).count();
    assert!((60..most(60, 1, began)).contains(&granted), "{granted}");
    let charged =
        "select count(*) from login_attempts where kind = 'account_logins' and full_at > now()";
    let charged = place.numbers(&[charged.to_owned()]).await[0];
    assert!(
        usize::try_from(charged).unwrap() <= granted,
        "a refused attempt costs the account nothing"
    );
}

#[tokio::test]
async fn an_account_under_attack_is_guarded_on_every_node() {
    let Some((_place, nodes)) = nodes().await else {
        return;
    };
    let began = Instant::now();
    let attempts = (0..120).map(|n| {
        let node = &nodes[usize::try_from(n % 2).unwrap()];
        node.limits.log_in(ADA, address(n))
    });
    let results = join_all(attempts).await;
    let open = results
        .iter()
        .filter(|attempt| matches!(attempt, Ok(Attempt::Open)))
        .count();
    let guarded = results
        .iter()
        .filter(|attempt| matches!(attempt, Ok(Attempt::Guarded)))
        .count();
    assert_eq!(open + guarded, 120, "nobody is locked out");
    assert!((100..most(100, 36, began)).contains(&open), "{open}");
    let stranger = address(500);
    nodes[0].limits.unknown_client(ADA, stranger).await.unwrap();
    let again = nodes[1].limits.unknown_client(ADA, stranger).await;
    assert!(is_refused(&again));
}

#[tokio::test]
async fn wrong_current_passwords_are_counted_over_nodes() {
    let Some((_place, nodes)) = nodes().await else {
        return;
    };
    let (session, began) = (SessionId::new(), Instant::now());
    for node in nodes.iter().cycle().take(30) {
        node.limits.change_password(session).await.unwrap();
        let right = Ok(());
        node.limits.settle_change(session, &right).await;
    }
    let attempts = (0..40).map(|n| nodes[n % 2].limits.change_password(session));
    let results = join_all(attempts).await;
    let granted = results.iter().filter(|result| !is_refused(result)).count();
    assert!((10..most(10, 6, began)).contains(&granted), "{granted}");
    nodes[0]
        .limits
        .change_password(SessionId::new())
        .await
        .unwrap();
}

#[tokio::test]
async fn successful_logins_leave_nothing_behind() {
    let Some((place, nodes)) = nodes().await else {
        return;
    };
    for node in nodes.iter().cycle().take(30) {
        let attempt = node.limits.log_in(ADA, address(1)).await.unwrap();
        assert_eq!(attempt, Attempt::Open);
        let right = Ok(());
        node.limits.settle(ADA, address(1), attempt, &right).await;
    }
    assert_eq!(place.count("login_attempts").await, 3);
    nodes[0].limits.delete_expired().await.unwrap();
    assert_eq!(place.count("login_attempts").await, 0);
}

#[tokio::test]
async fn attempts_whose_password_was_not_checked_do_not_count_on_any_node() {
    let Some((_place, nodes)) = nodes().await else {
        return;
    };
    let busy = Err::<(), _>(AuthError::HasherBusy);
    for node in nodes.iter().cycle().take(30) {
        let attempt = node.limits.log_in(ADA, address(1)).await.unwrap();
        node.limits.settle(ADA, address(1), attempt, &busy).await;
        node.limits.log_in(ADA, address(1)).await.unwrap();
        let attempt = node.limits.unknown_client(ADA, address(1)).await.unwrap();
        assert_eq!(attempt, Attempt::Unknown);
        node.limits.settle(ADA, address(1), attempt, &busy).await;
    }
}

#[tokio::test]
async fn only_expired_attempts_are_deleted_and_no_address_is_stored() {
    let Some((place, nodes)) = nodes().await else {
        return;
    };
    place
        .run(&[
            "insert into login_attempts (kind, key_hash, full_at) \
                select 'address_logins', 'old ' || n, now() - interval '1 second' from generate_series(1, 1200) n",
        ])
        .await;
    let unknown = nodes[1].limits.unknown_client(ADA, address(7)).await;
    unknown.unwrap();
    for node in &nodes {
        node.limits.delete_expired().await.unwrap();
    }
    let keys = place.texts("select key_hash from login_attempts").await;
    assert_eq!(keys.len(), 1);
    assert!(keys[0].len() == 64 && keys[0].bytes().all(|b| b.is_ascii_hexdigit()));
}

#[tokio::test]
async fn concurrent_attempts_on_two_nodes_do_not_deadlock() {
    let Some((place, nodes)) = nodes().await else {
        return;
    };
    let attempts = (0..400_usize).map(|n| {
        let node = &nodes[n % 2];
        async move {
            let email = format!("{}@example.org", n % 5);
            let from = address(u32::try_from(n % 7).unwrap());
            match node.limits.log_in(&email, from).await {
                Ok(attempt) if n % 3 == 0 => {
                    let right = Ok(());
                    node.limits.settle(&email, from, attempt, &right).await;
                }
                result => _ = is_refused(&result),
            }
        }
    });
    join_all(attempts).await;
    for node in &nodes {
        node.db.close().await;
    }
    let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()";
    assert_eq!(place.numbers(&[deadlocks.to_owned()]).await, [0]);
}

#[tokio::test]
async fn without_the_database_nobody_can_guess() {
    let Some((_place, [node, _other])) = nodes().await else {
        return;
    };
    node.db.close().await;
    for _ in 0..3 {
        let attempt = node.limits.log_in(ADA, address(1)).await;
        assert!(matches!(attempt, Err(AuthError::Db(_))), "{attempt:?}");
        let change = node.limits.change_password(SessionId::new()).await;
        assert!(matches!(change, Err(AuthError::Db(_))), "{change:?}");
    }
}
