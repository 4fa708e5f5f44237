//! Accounts that an identity provider sends, beside plain inserts; requests of other people meanwhile, and while a provider does not answer;
//! requests under what a workspace demands of sessions; and requests of guests.

use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use openvibe::{
    auth::hash_token,
    db::{Conn, Db, DbError, Json, now},
    ids::{IdentityProviderId, ScimTokenId, WorkspaceId},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::{
    client::{Http, Team, text},
    process::{Server, engine},
    report::{Table, float, median, ms, percentile, ratio, say, spread},
};

const USERS: usize = 10_000;
/// Connections of the provider, and of the baseline.
const AT_ONCE: usize = 8;
/// Messages that another person posts alone.
const POSTS: usize = 500;
/// Requests per round for CPU time.
const REQUESTS: usize = 2_000;
const ROUNDS: usize = 5;
/// People who begin to sign in with the provider that does not answer.
const WAITING: usize = 64;
/// Requests that the server makes to one provider at once.
const ASKED_AT_ONCE: usize = 16;
const POLL: Duration = Duration::from_millis(20);
const ASKED_WITHIN: Duration = Duration::from_secs(5);
const TOKEN: &str = "ovscim_benchmark";

pub(crate) async fn run() -> anyhow::Result<()> {
    say(&format!("\n## Sign-in ({})", engine()));
    let server = Server::start(&[]).await?;
    let team = Team::make(&server.process.address, 3).await?;
    let db = Db::open(&server.scratch.place()?, Arc::new(|_| {})).await?;
    let workspace = team.workspace.parse()?;
    guests(&server, &team).await?;
    stalls(&team, &db, workspace).await?;
    let provider = provide(&db, workspace, "http://127.0.0.1:9").await?;
    give_token(&db, provider).await?;
    accounts(&team, &db).await?;
    demands(&server, &team, &db).await?;
    db.close().await;
    Ok(())
}

/// Adds a provider that is open to everyone.
async fn provide(
    db: &Db,
    workspace: WorkspaceId,
    issuer: &str,
) -> anyhow::Result<IdentityProviderId> {
    let settings = json!({"domains": ["*"], "email_trust": "claim", "groups_claim": "groups", "second_factor": "claim",
        "workspaces": [{"workspace_id": workspace, "join": "everyone", "role": "member", "rules": []}]});
    let provider = IdentityProviderId::new();
    let issuer = issuer.to_owned();
    let insert = async move |c: &mut Conn| {
        c.q("insert into identity_providers (id, name, issuer, client_id, settings, enabled, state, created_at, version) \
             values ($1, $2, $2, 'openvibe', $3, TRUE, 'ok', $4, 1)")
            .bind(provider)
            .bind(issuer.clone())
            .bind(Json(settings.clone()))
            .bind(now())
            .run()
            .await?;
        Ok::<_, DbError>(())
    };
    db.write(Uuid::nil(), insert).await?;
    Ok(provider)
}

/// Gives a provider a token for sending accounts.
async fn give_token(db: &Db, provider: IdentityProviderId) -> anyhow::Result<()> {
    let insert = async move |c: &mut Conn| {
        c.q("insert into scim_tokens (id, provider_id, token_hash, created_at) values ($1, $2, $3, $4)")
            .bind(ScimTokenId::new())
            .bind(provider)
            .bind(hash_token(TOKEN))
            .bind(now())
            .run()
            .await?;
        Ok::<_, DbError>(())
    };
    Ok(db.write(Uuid::nil(), insert).await?)
}

/// Compares requests of a guest with those of a member.
async fn guests(server: &Server, team: &Team) -> anyhow::Result<()> {
    let (mut member, mut guest) = (team.http(1).await?, team.http(2).await?);
    let person = text(&guest.get("/v1/snapshot").await?, "/me/id")?;
    let form = json!({"role": "guest", "channel_ids": [team.general]});
    let path = format!("/v1/members/{person}");
    team.http(0).await?.patch(&path, &form).await?;
    let path = format!("/v1/channels/{}/threads?limit=20", team.general);
    let (mut of_guest, mut of_member) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        of_member.push(cpu_of(server, &mut member, &path).await?);
        of_guest.push(cpu_of(server, &mut guest, &path).await?);
    }
    let mut table = Table::new(
        "a request of a guest, CPU ms",
        &["", "guest", "member", "ratio"],
    );
    table.row([
        "threads of a channel".to_owned(),
        spread(&of_guest, 3),
        spread(&of_member, 3),
        format!("{:.2}", ratio(&of_guest, &of_member)),
    ]);
    table.print();
    Ok(())
}

/// Accepts connections and answers none. Returns its address, and the number of connections.
fn stalling_provider() -> anyhow::Result<(String, Arc<AtomicUsize>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let issuer = format!("http://{}", listener.local_addr()?);
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    std::thread::spawn(move || {
        let mut open = Vec::new();
        while let Ok((connection, _)) = listener.accept() {
            open.push(connection);
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    Ok((issuer, asked))
}

/// Compares posts while many people wait for a provider that does not answer with posts before.
async fn stalls(team: &Team, db: &Db, workspace: WorkspaceId) -> anyhow::Result<()> {
    let thread = team.thread().await?;
    let mut other = team.http(1).await?;
    let alone = post_until(&mut other, &thread, |n| n == POSTS).await?;

    let (issuer, asked) = stalling_provider()?;
    let provider = provide(db, workspace, &issuer).await?;
    let mut people = JoinSet::new();
    for _ in 0..WAITING {
        let host = team.host.clone();
        people.spawn(async move {
            let mut http = Http::connect(&host, "").await?;
            let path = format!("/v1/auth/oidc/{provider}/start");
            http.send("POST", &path, "{}").await
        });
    }
    let started = Instant::now();
    while asked.load(Ordering::Relaxed) < ASKED_AT_ONCE {
        anyhow::ensure!(
            started.elapsed() < ASKED_WITHIN,
            "the provider was asked {} times",
            asked.load(Ordering::Relaxed)
        );
        tokio::time::sleep(POLL).await;
    }
    let meanwhile = post_until(&mut other, &thread, |n| n == POSTS).await?;
    people.shutdown().await;
    compare_posts("while a provider does not answer", &alone, &meanwhile);
    Ok(())
}

/// Prints the times of posts alone and under load.
fn compare_posts(load: &str, alone: &[f64], meanwhile: &[f64]) {
    let mut table = Table::new(
        "posts of another person, ms",
        &["", "posts", "median", "p99", "p99 of alone"],
    );
    let p99_alone = percentile(alone, 0.99);
    for (name, times) in [("alone", alone), (load, meanwhile)] {
        let p99 = percentile(times, 0.99);
        table.row([
            name.to_owned(),
            times.len().to_string(),
            format!("{:.1}", median(times)),
            format!("{p99:.1}"),
            format!("{:.1} ×", p99 / p99_alone),
        ]);
    }
    table.print();
}

fn user(n: usize) -> Value {
    json!({"userName": format!("person{n}@example.org"), "displayName": format!("Person {n}"), "externalId": n.to_string(), "active": true})
}

/// A user that the provider has sent.
struct Sent {
    n: usize,
    id: String,
}

/// Sends all users for the first time.
async fn send_all(host: &str) -> anyhow::Result<Vec<Sent>> {
    let mut running = JoinSet::new();
    for part in 0..AT_ONCE {
        let host = host.to_owned();
        running.spawn(async move {
            let mut http = Http::with_key(&host, TOKEN).await?;
            let mut sent = Vec::new();
            for n in (part..USERS).step_by(AT_ONCE) {
                let made = http.post("/scim/v2/Users", &user(n)).await?;
                let id = text(&made, "/id")?;
                sent.push(Sent { n, id });
            }
            anyhow::Ok(sent)
        });
    }
    let mut all = Vec::new();
    while let Some(part) = running.join_next().await {
        all.extend(part??);
    }
    Ok(all)
}

/// Sends the same users again.
async fn send_again(host: &str, sent: Vec<Sent>) -> anyhow::Result<()> {
    let mut parts: Vec<Vec<Sent>> = (0..AT_ONCE).map(|_| Vec::new()).collect();
    for one in sent {
        parts[one.n % AT_ONCE].push(one);
    }
    let mut running = JoinSet::new();
    for part in parts {
        let host = host.to_owned();
        running.spawn(async move {
            let mut http = Http::with_key(&host, TOKEN).await?;
            for Sent { n, id } in part {
                let path = format!("/scim/v2/Users/{id}");
                http.put(&path, &user(n)).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(part) = running.join_next().await {
        part??;
    }
    Ok(())
}

/// Inserts a row for each user, each in a transaction of its own.
async fn insert_rows(db: &Db) -> anyhow::Result<()> {
    let mut running = JoinSet::new();
    for part in 0..AT_ONCE {
        let db = db.clone();
        running.spawn(async move {
            for n in (part..USERS).step_by(AT_ONCE) {
                let insert = async move |c: &mut Conn| {
                    c.q("insert into meta (key, value) values ($1, $2)")
                        .bind(format!("bench-{n}"))
                        .bind(user(n).to_string())
                        .run()
                        .await
                };
                db.write(Uuid::nil(), insert).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(part) = running.join_next().await {
        part??;
    }
    Ok(())
}

/// Number of rows that changes would add.
async fn written(db: &Db) -> anyhow::Result<i64> {
    let mut c = db.read().await?;
    let rows = c.q("select (select count(*) from events) + (select count(*) from audit_log) + (select count(*) from mails)");
    Ok(rows.value().await?)
}

/// Posts messages until `is_over`; returns the times in ms.
async fn post_until(
    http: &mut Http,
    thread: &str,
    is_over: impl Fn(usize) -> bool,
) -> anyhow::Result<Vec<f64>> {
    let path = format!("/v1/threads/{thread}/messages");
    let mut times = Vec::new();
    while !is_over(times.len()) {
        let content = json!({"content": format!("Something to say {}", times.len())});
        let started = Instant::now();
        http.post(&path, &content).await?;
        times.push(ms(started.elapsed()));
    }
    Ok(times)
}

async fn accounts(team: &Team, db: &Db) -> anyhow::Result<()> {
    let thread = team.thread().await?;
    let mut other = team.http(1).await?;
    let alone = post_until(&mut other, &thread, |n| n == POSTS).await?;

    let is_over = Arc::new(AtomicBool::new(false));
    let ending = Arc::clone(&is_over);
    let sending = async {
        let started = Instant::now();
        let sent = send_all(&team.host).await;
        ending.store(true, Ordering::Relaxed);
        anyhow::Ok((sent?, started.elapsed()))
    };
    let meanwhile = post_until(&mut other, &thread, |_| is_over.load(Ordering::Relaxed));
    let (sent, meanwhile) = tokio::join!(sending, meanwhile);
    let ((sent, first), meanwhile) = (sent?, meanwhile?);

    let before = written(db).await?;
    let started = Instant::now();
    send_again(&team.host, sent).await?;
    let again = started.elapsed();
    let rows = written(db).await? - before;
    let started = Instant::now();
    insert_rows(db).await?;
    let plain = started.elapsed();

    let mut table = Table::new(
        "10,000 accounts from a provider",
        &["", "seconds", "beside plain inserts", "rows"],
    );
    let by = |took: Duration| {
        let factor = took.as_secs_f64() / plain.as_secs_f64();
        [
            format!("{:.1}", took.as_secs_f64()),
            format!("{factor:.1} ×"),
        ]
    };
    let [seconds, factor] = by(first);
    table.row(["first".to_owned(), seconds, factor, String::new()]);
    let [seconds, factor] = by(again);
    table.row(["again".to_owned(), seconds, factor, rows.to_string()]);
    let [seconds, factor] = by(plain);
    table.row(["plain inserts".to_owned(), seconds, factor, String::new()]);
    table.print();

    compare_posts("while accounts are sent", &alone, &meanwhile);
    Ok(())
}

/// Makes the workspace demand a second factor, which all sessions have.
async fn demand(db: &Db, workspace: WorkspaceId) -> anyhow::Result<()> {
    let set = async move |c: &mut Conn| {
        c.q("insert into workspace_sign_ins (workspace_id, second_factor, idle_s, age_s) values ($1, 'required', 900, 3600)")
            .bind(workspace)
            .run()
            .await?;
        c.q("update sessions set second_factor_at = $1")
            .bind(now())
            .run()
            .await?;
        Ok::<_, DbError>(())
    };
    Ok(db.write(Uuid::nil(), set).await?)
}

async fn demand_nothing(db: &Db) -> anyhow::Result<()> {
    let set = async |c: &mut Conn| {
        c.q("delete from workspace_sign_ins").run().await?;
        Ok::<_, DbError>(())
    };
    Ok(db.write(Uuid::nil(), set).await?)
}

/// CPU time of the server in ms per request.
async fn cpu_of(server: &Server, http: &mut Http, path: &str) -> anyhow::Result<f64> {
    let before = server.process.cpu();
    for _ in 0..REQUESTS {
        let reply = http.send("GET", path, "").await?;
        anyhow::ensure!(reply.status == 200, "{path}: {}", reply.status);
    }
    let used = server.process.cpu().saturating_sub(before);
    Ok(ms(used) / float(REQUESTS))
}

async fn demands(server: &Server, team: &Team, db: &Db) -> anyhow::Result<()> {
    let workspace: WorkspaceId = team.workspace.parse()?;
    let path = format!("/v1/channels/{}/threads?limit=20", team.general);
    let mut http = team.http(0).await?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        demand_nothing(db).await?;
        without.push(cpu_of(server, &mut http, &path).await?);
        demand(db, workspace).await?;
        with.push(cpu_of(server, &mut http, &path).await?);
    }
    let mut table = Table::new(
        "a request in a workspace that demands a second factor, CPU ms",
        &["", "with", "without", "ratio"],
    );
    table.row([
        "threads of a channel".to_owned(),
        spread(&with, 3),
        spread(&without, 3),
        format!("{:.2}", ratio(&with, &without)),
    ]);
    table.print();
    Ok(())
}
