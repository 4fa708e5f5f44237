//! The driver through sqlx, as the server uses it.

#![allow(clippy::unwrap_used, reason = "test helpers")]

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use chrono::{DateTime, Utc};
use openvibe_sqlite::{
    Sqlite, SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteError,
};
use sqlx_core::{
    Error,
    arguments::Arguments,
    connection::Connection,
    executor::Executor,
    migrate::{Migration, MigrationType, Migrator},
    query::{query, query_with},
    query_as::query_as,
    query_scalar::query_scalar,
    row::Row,
    sql_str::SqlSafeStr,
    types::Json,
};
use uuid::Uuid;

fn memory() -> SqliteConnection {
    SqliteConnectOptions::new().open().unwrap()
}

#[tokio::test]
async fn values_are_stored_as_by_the_driver_of_sqlx() {
    let mut c = memory();
    let id = Uuid::from_u128(7);
    let at: DateTime<Utc> = "2026-01-02T03:04:05.000006Z".parse().unwrap();
    let mut arguments = SqliteArguments::default();
    arguments.add(5_i64).unwrap();
    arguments.add(6_i32).unwrap();
    arguments.add(true).unwrap();
    arguments.add(0.5).unwrap();
    arguments.add("text").unwrap();
    arguments.add(vec![1_u8, 2]).unwrap();
    arguments.add(id).unwrap();
    arguments.add(Json(vec![1, 2])).unwrap();
    arguments.add(at).unwrap();
    arguments.add(None::<String>).unwrap();
    let sql = "select quote($1), quote($2), quote($3), quote($4), quote($5), quote($6), quote($7), quote($8), quote($9), quote($10)";
    let row = query_with::<Sqlite, _>(sql, arguments).fetch_one(&mut c).await.unwrap();
    let stored: Vec<String> = (0..10).map(|i| row.get(i)).collect();
    assert_eq!(
        stored,
        [
            "5",
            "6",
            "1",
            "0.5",
            "'text'",
            "X'0102'",
            "X'00000000000000000000000000000007'",
            "'[1,2]'",
            "'2026-01-02T03:04:05.000006+00:00'",
            "NULL"
        ]
    );
}

type AllTypes =
    (i64, i32, bool, f64, String, Vec<u8>, Uuid, Json<Vec<i64>>, DateTime<Utc>, Option<String>);

#[tokio::test]
async fn values_are_read_back() {
    let mut c = memory();
    let id = Uuid::from_u128(7);
    let at: DateTime<Utc> = "2026-01-02T03:04:05Z".parse().unwrap();
    let read: AllTypes = query_as::<Sqlite, _>("select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10")
        .bind(i64::MIN)
        .bind(-6_i32)
        .bind(false)
        .bind(-0.25)
        .bind(String::from("größer"))
        .bind(&[0_u8, 255][..])
        .bind(id)
        .bind(Json(vec![1_i64]))
        .bind(at)
        .bind(Some("x"))
        .fetch_one(&mut c)
        .await
        .unwrap();
    let expected = (
        i64::MIN,
        -6,
        false,
        -0.25,
        "größer".to_owned(),
        vec![0, 255],
        id,
        Json(vec![1]),
        at,
        Some("x".to_owned()),
    );
    assert_eq!(read, expected);
}

#[tokio::test]
async fn a_value_of_another_type_is_an_error() {
    let mut c = memory();
    let read: Result<i64, _> = query_scalar::<Sqlite, _>("select 'text'").fetch_one(&mut c).await;
    assert!(matches!(read, Err(Error::ColumnDecode { .. })));
    let read: Result<i32, _> =
        query_scalar::<Sqlite, _>("select 5000000000").fetch_one(&mut c).await;
    assert!(matches!(read, Err(Error::ColumnDecode { .. })));
    let read: Result<i64, _> = query_scalar::<Sqlite, _>("select null").fetch_one(&mut c).await;
    assert!(matches!(read, Err(Error::ColumnDecode { .. })));
}

#[tokio::test]
async fn parameters_are_found_by_number_and_columns_by_name() {
    let mut c = memory();
    let row = query::<Sqlite>("select $2 as b, $1 as a, $2 as c")
        .bind(1_i64)
        .bind(2_i64)
        .fetch_one(&mut c)
        .await
        .unwrap();
    let by_name = ["a", "c", "b", "a"].map(|name| row.get::<i64, _>(name));
    assert_eq!(by_name, [1, 2, 2, 1]);
    assert!(matches!(row.try_get::<i64, _>("d"), Err(Error::ColumnNotFound(_))));
    assert!(matches!(row.try_get::<i64, _>(3), Err(Error::ColumnIndexOutOfBounds { .. })));
    let lacking = query::<Sqlite>("select $1, $2").bind(1_i64).execute(&mut c).await;
    assert!(matches!(lacking, Err(Error::Encode(_))));
}

#[tokio::test]
async fn a_result_follows_a_changed_table() {
    let mut c = memory();
    c.execute("create table t (a); insert into t values (1)").await.unwrap();
    let all = "select * from t";
    assert_eq!(query::<Sqlite>(all).fetch_one(&mut c).await.unwrap().len(), 1);
    c.execute("alter table t add column b default 2").await.unwrap();
    let row = query::<Sqlite>(all).fetch_one(&mut c).await.unwrap();
    assert_eq!(row.get::<i64, _>("b"), 2);
}

#[tokio::test]
async fn errors_have_extended_codes() {
    let mut c = memory();
    c.execute("create table t (a primary key)").await.unwrap();
    let insert = "insert into t values ('x')";
    assert_eq!(query::<Sqlite>(insert).execute(&mut c).await.unwrap().rows_affected(), 1);
    let error = query::<Sqlite>(insert).execute(&mut c).await.unwrap_err();
    let error = error.into_database_error().unwrap();
    assert!(error.is_unique_violation());
    assert_eq!(error.code().as_deref(), Some("1555"));
    assert!(error.try_downcast_ref::<SqliteError>().is_some());
    let error = query::<Sqlite>("selec").execute(&mut c).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "error returned from database: (code: 1) near \"selec\": syntax error"
    );
}

#[tokio::test]
async fn a_dropped_transaction_is_rolled_back() {
    let mut c = memory();
    c.execute("create table t (a)").await.unwrap();
    let mut tx = c.begin().await.unwrap();
    query::<Sqlite>("insert into t values (1)").execute(&mut *tx).await.unwrap();
    drop(tx);
    assert!(!c.is_in_transaction());
    let mut tx = c.begin_with("begin immediate").await.unwrap();
    assert!(tx.begin().await.is_err(), "no savepoints");
    query::<Sqlite>("insert into t values (2)").execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    let stored: Vec<i64> =
        query_scalar::<Sqlite, _>("select a from t").fetch_all(&mut c).await.unwrap();
    assert_eq!(stored, [2]);
}

#[tokio::test]
async fn a_progress_handler_interrupts_until_it_is_removed() {
    let mut c = memory();
    let is_over = Arc::new(AtomicBool::new(true));
    let of_handler = Arc::clone(&is_over);
    c.set_progress_handler(100, move || !of_handler.load(Ordering::Relaxed)).unwrap();
    let long = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000) select count(*) from n";
    let error = query_scalar::<Sqlite, i64>(long).fetch_one(&mut c).await.unwrap_err();
    assert_eq!(error.into_database_error().unwrap().code().as_deref(), Some("9"));
    c.remove_progress_handler().unwrap();
    assert_eq!(query_scalar::<Sqlite, i64>(long).fetch_one(&mut c).await.unwrap(), 100_000);
}

fn migrator(sql: [&'static str; 2]) -> Migrator {
    let migrations = (1..).zip(sql).map(|(version, sql)| {
        let name = "name".into();
        Migration::new(version, name, MigrationType::Simple, sql.into_sql_str(), false)
    });
    Migrator::with_migrations(migrations.collect())
}

#[tokio::test]
async fn migrations_are_applied_once_and_a_failed_one_not_at_all() {
    let mut c = memory();
    let failing =
        migrator(["create table t (a); create table u (a)", "drop table u; drop table v"]);
    assert!(failing.run(&mut c).await.is_err());
    let applied = "select version from _sqlx_migrations where success and execution_time >= 0";
    let versions: Vec<i64> = query_scalar::<Sqlite, _>(applied).fetch_all(&mut c).await.unwrap();
    assert_eq!(versions, [1]);
    assert_eq!(
        query_scalar::<Sqlite, i64>("select count(*) from u").fetch_one(&mut c).await.unwrap(),
        0
    );
    let repaired = migrator(["create table t (a); create table u (a)", "drop table u"]);
    repaired.run(&mut c).await.unwrap();
    repaired.run(&mut c).await.unwrap();
    let versions: Vec<i64> = query_scalar::<Sqlite, _>(applied).fetch_all(&mut c).await.unwrap();
    assert_eq!(versions, [1, 2]);
}

#[tokio::test]
async fn a_url_selects_the_file_and_its_mode() {
    let dir = std::env::temp_dir().join(format!("openvibe-sqlite-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let url = format!("sqlite://{}/x.db", dir.display());
    assert!(SqliteConnection::connect(&url).await.is_err(), "the file does not exist");
    let mut c = SqliteConnection::connect(&format!("{url}?mode=rwc")).await.unwrap();
    c.execute("create table t (a)").await.unwrap();
    c.close().await.unwrap();
    let mut c = SqliteConnection::connect(&format!("{url}?mode=ro")).await.unwrap();
    let error = c.execute("insert into t values (1)").await.unwrap_err();
    assert_eq!(error.into_database_error().unwrap().code().as_deref(), Some("8"));
    assert!(SqliteConnection::connect("postgres://x").await.is_err());
    std::fs::remove_dir_all(&dir).unwrap();
}
