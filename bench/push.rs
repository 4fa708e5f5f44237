//! Notifications: posts while many devices are subscribed, and their delivery while some devices are gone and a push service stalls,
//! compared with a client that sends as many requests without encryption.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use axum::{
    Router,
    body::Bytes,
    extract::{Path, State},
    http::StatusCode,
    routing::post,
};
use openvibe::{
    db::{Conn, Db, DbError, now},
    ids::{DeviceId, UserId},
};
use serde_json::json;
use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use uuid::Uuid;

use crate::{
    client::{Http, Team},
    inbox::{MEMBERS, Place, add_members, posts, user_id},
    process::{self, Server},
    report::{Table, ms, ratio, say, spread},
    sends::CONTENT,
};

/// Push services on this machine are permitted.
const SETTINGS: [(&str, &str); 2] = [
    ("PUSH_ALLOW", "127.0.0.0/8"),
    ("SECRET_KEY", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
];
/// Keys of the example of RFC 8291.
const POINT: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";
const PER_TRANSACTION: usize = 2_500;
const POST_ROUNDS: usize = 7;
const ROUNDS: usize = 3;
/// Of ten devices, one is gone, one is at the push service that stalls, and the others are live.
const GROUP: usize = 10;
const LIVE: usize = MEMBERS / GROUP * (GROUP - 2);
const ANSWERED: usize = MEMBERS / GROUP * (GROUP - 1);
/// Number of concurrent requests of the client, as of the server to one push service.
const AT_ONCE: usize = 64;
/// Size of an encrypted message with the text of a post, in bytes.
const BODY_BYTES: usize = 450;
/// The server notifies people 30 s after a post.
const DELIVERED_WITHIN: Duration = Duration::from_mins(5);

/// Messages to live devices.
#[derive(Debug, Clone, Copy, Default)]
struct Received {
    count: usize,
    first: Option<Instant>,
    last: Option<Instant>,
}

/// A push service, until it is dropped.
struct Service {
    host: String,
    received: Arc<watch::Sender<Received>>,
    _serving: JoinSet<()>,
}

async fn receive(
    State(received): State<Arc<watch::Sender<Received>>>,
    Path(device): Path<String>,
    _body: Bytes,
) -> StatusCode {
    if device.starts_with("gone") {
        return StatusCode::GONE;
    }
    let at = Instant::now();
    received.send_modify(|received| {
        received.count += 1;
        received.first.get_or_insert(at);
        received.last = Some(at);
    });
    StatusCode::CREATED
}

impl Service {
    async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let host = listener.local_addr()?.to_string();
        let received = Arc::new(watch::Sender::new(Received::default()));
        let router = Router::new()
            .route("/{device}", post(receive))
            .with_state(Arc::clone(&received));
        let mut serving = JoinSet::new();
        serving.spawn(async move { drop(axum::serve(listener, router).await) });
        Ok(Self {
            host,
            received,
            _serving: serving,
        })
    }
}

/// A push service that accepts connections and never answers.
struct Stalled {
    host: String,
    _holding: JoinSet<()>,
}

impl Stalled {
    async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let host = listener.local_addr()?.to_string();
        let mut holding = JoinSet::new();
        holding.spawn(async move {
            let mut open = Vec::new();
            while let Ok((tcp, _)) = listener.accept().await {
                open.push(tcp);
            }
        });
        Ok(Self {
            host,
            _holding: holding,
        })
    }
}

/// A server with a workspace of many members.
struct World {
    server: Server,
    team: Team,
    db: Db,
    of: Place,
    members: Vec<UserId>,
}

impl World {
    async fn make() -> anyhow::Result<Self> {
        let server = Server::start(&SETTINGS).await?;
        let team = Team::make(&server.process.address, 2).await?;
        let db = Db::open(&server.scratch.place()?, Arc::new(|_| {})).await?;
        let of = Place {
            workspace: team.workspace.parse()?,
            channel: team.general.parse()?,
            member: user_id(&team, 1).await?,
        };
        let members = add_members(&db, of).await?;
        Ok(Self {
            server,
            team,
            db,
            of,
            members,
        })
    }

    /// Subscribes a new device of each member.
    async fn subscribe(&self, service: &Service, stalled: &Stalled) -> anyhow::Result<()> {
        let devices: Vec<(UserId, String)> = self
            .members
            .iter()
            .enumerate()
            .map(|(n, user)| {
                let (host, name) = match n % GROUP {
                    0 => (&service.host, "gone"),
                    1 => (&stalled.host, "stalled"),
                    _ => (&service.host, "live"),
                };
                (*user, format!("http://{host}/{name}-{n}"))
            })
            .collect();
        let of = self.of;
        let delete = async |c: &mut Conn| c.q("delete from push_devices").run().await;
        self.db.write(of.workspace.0, delete).await?;
        for some in devices.chunks(PER_TRANSACTION) {
            let some = some.to_vec();
            self.db
                .write(of.workspace.0, async move |c: &mut Conn| {
                    for (user, endpoint) in &some {
                        add_device(c, of, *user, endpoint).await?;
                    }
                    Ok::<_, DbError>(())
                })
                .await?;
        }
        Ok(())
    }

    /// Mentions the whole channel. Returns the time from the first to the last message that a live device got, and the server's CPU time,
    /// in ms.
    async fn deliver(&self, service: &Service) -> anyhow::Result<(f64, f64)> {
        let mut received = service.received.subscribe();
        let before = self.server.process.cpu();
        let path = format!("/v1/channels/{}/threads", self.team.general);
        let form = json!({"content": format!("@channel {CONTENT}")});
        self.team.http(0).await?.post(&path, &form).await?;
        let all = received.wait_for(|received| received.count >= LIVE);
        let end = *tokio::time::timeout(DELIVERED_WITHIN, all)
            .await
            .context("some devices got nothing")??;
        let cpu = self.server.process.cpu().saturating_sub(before);
        let first = end.first.context("no message has arrived")?;
        let last = end.last.context("no message has arrived")?;
        Ok((ms(last.duration_since(first)), ms(cpu)))
    }
}

async fn add_device(c: &mut Conn, of: Place, user: UserId, endpoint: &str) -> Result<(), DbError> {
    let session = Uuid::now_v7();
    c.q("insert into sessions (id, user_id, token_hash, created_at, last_seen_at, expires_at) \
         select $1, $2, $3, s.created_at, s.last_seen_at, s.expires_at from sessions s where s.user_id = $4 limit 1")
        .bind(session)
        .bind(user)
        .bind(session.simple().to_string())
        .bind(of.member)
        .run()
        .await?;
    let origin = endpoint
        .rsplit_once('/')
        .map_or(endpoint, |(origin, _)| origin);
    c.q("insert into push_devices (id, user_id, session_id, endpoint, origin, p256dh, auth, label, created_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)")
        .bind(DeviceId::new())
        .bind(user)
        .bind(session)
        .bind(endpoint.to_owned())
        .bind(origin.to_owned())
        .bind(POINT)
        .bind(AUTH)
        .bind("Bench")
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// Time in ms in which a client sends a request to each device that gets an answer, without encryption.
async fn send_bare(service: &Service) -> anyhow::Result<f64> {
    let started = Instant::now();
    let mut senders = JoinSet::new();
    for sender in 0..AT_ONCE {
        let host = service.host.clone();
        senders.spawn(async move {
            let body = "x".repeat(BODY_BYTES);
            let mut http = Http::connect(&host, "").await?;
            for n in (sender..ANSWERED).step_by(AT_ONCE) {
                let name = if n % (GROUP - 1) == 0 { "gone" } else { "live" };
                http.send("POST", &format!("/{name}-{n}"), &body).await?;
            }
            Ok::<(), anyhow::Error>(())
        });
    }
    while let Some(sent) = senders.join_next().await {
        sent??;
    }
    Ok(ms(started.elapsed()))
}

/// Compares posts in a workspace with many devices with posts in one without. All of them are posted before anyone is notified.
async fn compare_posts() -> anyhow::Result<()> {
    let (service, stalled) = (Service::start().await?, Stalled::start().await?);
    let worlds = [World::make().await?, World::make().await?];
    worlds[1].subscribe(&service, &stalled).await?;
    let to_all = format!("@channel {CONTENT}");
    let mut table = Table::new(
        "Posts with devices, server CPU-ms",
        &["", "no devices", "10,000 devices", "ratio"],
    );
    for (name, content) in [("a post", CONTENT), ("@channel", to_all.as_str())] {
        let mut found: [Vec<f64>; 2] = Default::default();
        for round in 0..=POST_ROUNDS {
            for (world, found) in worlds.iter().zip(&mut found) {
                let thread = world.team.thread().await?;
                let mut http = world.team.http(0).await?;
                let cpu = posts(&world.server, &mut http, &thread, content).await?;
                if round > 0 {
                    found.push(cpu);
                }
            }
        }
        let [without, with] = &found;
        table.row([
            name.to_owned(),
            spread(without, 3),
            spread(with, 3),
            format!("{:.2}", ratio(with, without)),
        ]);
    }
    table.print();
    for world in worlds {
        world.db.close().await;
    }
    Ok(())
}

/// Compares the delivery with the client that does not encrypt.
async fn compare_deliveries() -> anyhow::Result<()> {
    let world = World::make().await?;
    let (mut delivered, mut bare, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        // New services, because the server leaves one that has stalled alone for a while.
        let (service, stalled) = (Service::start().await?, Stalled::start().await?);
        world.subscribe(&service, &stalled).await?;
        let (took, used) = world.deliver(&service).await?;
        delivered.push(took);
        cpu.push(used);
        bare.push(send_bare(&service).await?);
    }
    world.db.close().await;
    let mut table = Table::new(
        "Notifications on 10,000 devices, 10 % gone, 10 % at a push service that stalls, ms",
        &["", "time", "ratio"],
    );
    table.row([
        "from the first to the last live device".to_owned(),
        spread(&delivered, 0),
        format!("{:.2}", ratio(&delivered, &bare)),
    ]);
    table.row([
        "server CPU".to_owned(),
        spread(&cpu, 0),
        format!("{:.2}", ratio(&cpu, &bare)),
    ]);
    table.row([
        "the same requests, not encrypted".to_owned(),
        spread(&bare, 0),
        "1.00".to_owned(),
    ]);
    table.print();
    Ok(())
}

pub(crate) async fn run() -> anyhow::Result<()> {
    compare_posts().await?;
    compare_deliveries().await?;
    say(&format!(
        "\n{}. Medians of {POST_ROUNDS} and {ROUNDS} alternating rounds.",
        process::engine()
    ));
    Ok(())
}
