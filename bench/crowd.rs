//! A workspace with 10,000 members and 1,000 channels, compared with a small one: common requests, and a socket that stops reading.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::StreamExt;
use openvibe::{
    db::{Conn, Db, DbError, Json, now},
    ids::{ChannelId, MessageId, ThreadId, UserId, WorkspaceId},
};
use serde_json::{Value, json};

use crate::{
    client::{Crowd, Http, Team},
    process::Server,
    report::{Table, float, median, ms, percentile, ratio, say},
};

const SMALL: Size = Size {
    members: 20,
    channels: 20,
};
const LARGE: Size = Size {
    members: 10_000,
    channels: 1_000,
};
/// Threads per channel.
const THREADS: usize = 10;
/// Messages per thread.
const MESSAGES: usize = 10;
const ROUNDS: usize = 10;
const TIMES: usize = 20;
const WATCHERS: usize = 50;
const POSTS: usize = 100;

#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) members: usize,
    pub(crate) channels: usize,
}

/// Measurements of one workspace in ms, with one value per round.
#[derive(Default)]
struct Found {
    all_unread: Vec<f64>,
    snapshot: Vec<f64>,
    snapshot_bytes: usize,
    channels: Vec<f64>,
    members: Vec<f64>,
    threads: Vec<f64>,
    post: Vec<f64>,
    mention_all: Vec<f64>,
    join: Vec<f64>,
}

struct Workspace {
    server: Server,
    team: Team,
    http: Http,
    thread: String,
    /// Number of posts so far, to make each one unique.
    posted: usize,
}

impl Workspace {
    async fn make(size: Size) -> anyhow::Result<Self> {
        let server = Server::start(&[]).await?;
        let team = Team::make(&server.process.address, 2).await?;
        let db = Db::open(&server.scratch.place()?, Arc::new(|_| {})).await?;
        fill(&db, team.workspace.parse()?, size).await?;
        db.scrub().await?;
        db.close().await;
        let http = team.http(0).await?;
        let thread = team.thread().await?;
        Ok(Self {
            server,
            team,
            http,
            thread,
            posted: 0,
        })
    }

    async fn time(&mut self, path: &str) -> anyhow::Result<(f64, usize)> {
        let (mut bytes, started) = (0, Instant::now());
        for _ in 0..TIMES {
            let reply = self.http.send("GET", path, "").await?;
            bytes = reply.body.len();
            anyhow::ensure!(reply.status == 200, "{path}: {}", reply.status);
        }
        Ok((ms(started.elapsed()) / float(TIMES), bytes))
    }

    async fn posts(&mut self, content: &str) -> anyhow::Result<f64> {
        let path = format!("/v1/threads/{}/messages", self.thread);
        let started = Instant::now();
        for _ in 0..TIMES {
            self.posted += 1;
            let content = format!("{content} {}", self.posted);
            self.http.post(&path, &json!({"content": content})).await?;
        }
        Ok(ms(started.elapsed()) / float(TIMES))
    }

    /// Adds a person, who joins #general and #random, with an invite; returns the time in ms.
    async fn join(&mut self, n: usize) -> anyhow::Result<f64> {
        let invite = self
            .http
            .post("/v1/invites", &json!({"role": "member"}))
            .await?;
        let started = Instant::now();
        crate::client::sign_up(&self.team.host, 1_000_000 + n, invite["token"].as_str()).await?;
        Ok(ms(started.elapsed()))
    }

    async fn measure(&mut self, round: usize, found: &mut Found) -> anyhow::Result<()> {
        let general = self.team.general.clone();
        let (snapshot, bytes) = self.time("/v1/snapshot").await?;
        let (channels, _) = self.time("/v1/channels?limit=100").await?;
        let (members, _) = self.time("/v1/members?limit=100").await?;
        let (threads, _) = self
            .time(&format!("/v1/channels/{general}/threads?limit=20"))
            .await?;
        let post = self.posts("Something to say").await?;
        let mention_all = self.posts("@channel look at this").await?;
        let join = self.join(round).await?;
        if round > 0 {
            found.snapshot.push(snapshot);
            found.snapshot_bytes = bytes;
            found.channels.push(channels);
            found.members.push(members);
            found.threads.push(threads);
            found.post.push(post);
            found.mention_all.push(mention_all);
            found.join.push(join);
        }
        Ok(())
    }
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let mut both = [Workspace::make(SMALL).await?, Workspace::make(LARGE).await?];
    let mut found: [Found; 2] = Default::default();
    for round in 0..=ROUNDS / 2 {
        for (workspace, found) in both.iter_mut().zip(&mut found) {
            let (took, _) = workspace.time("/v1/snapshot").await?;
            if round > 0 {
                found.all_unread.push(took);
            }
        }
    }
    for workspace in &mut both {
        read_everything(workspace).await?;
    }
    for round in 0..=ROUNDS {
        for (workspace, found) in both.iter_mut().zip(&mut found) {
            workspace.measure(round, found).await?;
        }
    }
    print(&found);
    slow_reader(&mut both[1]).await
}

fn print(found: &[Found; 2]) {
    let [small, large] = found;
    let mut table = Table::new(
        "Requests of a member, by workspace size, ms",
        &[
            "",
            "20 members, 20 channels",
            "10,000 members, 1,000 channels",
            "ratio",
        ],
    );
    let rows: [(&str, &[f64], &[f64]); 8] = [
        ("snapshot, all read", &small.snapshot, &large.snapshot),
        (
            "snapshot, 100 messages unread in each channel",
            &small.all_unread,
            &large.all_unread,
        ),
        ("100 channels", &small.channels, &large.channels),
        ("100 members", &small.members, &large.members),
        ("20 threads of #general", &small.threads, &large.threads),
        ("a post", &small.post, &large.post),
        (
            "a post with @channel",
            &small.mention_all,
            &large.mention_all,
        ),
        ("sign up by an invite", &small.join, &large.join),
    ];
    for (name, small, large) in rows {
        table.row([
            name.to_owned(),
            format!("{:.2}", median(small)),
            format!("{:.2}", median(large)),
            format!("{:.2}", ratio(large, small)),
        ]);
    }
    table.print();
    say(&format!(
        "\nMedians of {ROUNDS} alternating rounds. Snapshots have {} and {} KiB.",
        small.snapshot_bytes / 1024,
        large.snapshot_bytes / 1024
    ));
}

/// Measures posts that 50 sockets receive, with and without a socket that stops reading.
async fn slow_reader(workspace: &mut Workspace) -> anyhow::Result<()> {
    let mut sockets = Vec::new();
    for _ in 0..WATCHERS {
        sockets.push(workspace.team.socket(1).await?);
    }
    let crowd = Crowd::read(sockets, r#"{"type":"message.created""#);
    let mut took: [Vec<f64>; 2] = Default::default();
    let before = workspace.server.process.resident_kib();
    for with_slow in [false, true] {
        let slow = if with_slow {
            Some(workspace.team.socket(1).await?)
        } else {
            None
        };
        // Large messages fill the socket buffers of the system, so that further frames wait in the server.
        let content = "x".repeat(20_000);
        let path = format!("/v1/threads/{}/messages", workspace.thread);
        for _ in 0..POSTS {
            crowd.counter.expect(crowd.size);
            let started = Instant::now();
            workspace
                .http
                .post(&path, &json!({"content": content}))
                .await?;
            crowd.counter.wait().await?;
            took[usize::from(with_slow)].push(ms(started.elapsed()));
        }
        if let Some(mut slow) = slow {
            // Reads the remaining frames, unless the server has closed the socket.
            let rest = async { while let Some(Ok(_)) = slow.next().await {} };
            drop(tokio::time::timeout(Duration::from_secs(2), rest).await);
        }
    }
    let [without, with] = &took;
    let mut table = Table::new(
        "Delivery of a 20 KB post to 50 sockets, ms",
        &["", "p50", "p99"],
    );
    for (name, values) in [
        ("all sockets read", without),
        ("with one stalled reader", with),
    ] {
        table.row([
            name.to_owned(),
            format!("{:.2}", median(values)),
            format!("{:.2}", percentile(values, 0.99)),
        ]);
    }
    table.print();
    say(&format!(
        "\nThe memory of the server grew from {before:.0} to {:.0} KiB.",
        workspace.server.process.resident_kib()
    ));
    Ok(())
}

async fn read_everything(workspace: &mut Workspace) -> anyhow::Result<()> {
    let db = Db::open(&workspace.server.scratch.place()?, Arc::new(|_| {})).await?;
    db.write(uuid::Uuid::nil(), async |c: &mut Conn| {
        c.q("update channel_members set read_seq = (select max(seq) from workspaces)")
            .run()
            .await
    })
    .await?;
    db.scrub().await?;
    db.close().await;
    Ok(())
}

/// Inserts members, and channels with threads, directly into the database. The existing members join every channel; the new ones join
/// #general, #random, and two more.
pub(crate) async fn fill(db: &Db, workspace: WorkspaceId, size: Size) -> anyhow::Result<()> {
    let mut c = db.read().await?;
    let team: Vec<(UserId,)> = c
        .q("select user_id from members where workspace_id = $1 order by joined_at")
        .bind(workspace)
        .all()
        .await?;
    let team: Arc<[UserId]> = team.into_iter().map(|(user,)| user).collect();
    let for_all: Vec<(ChannelId,)> = c
        .q("select id from channels where workspace_id = $1 order by id")
        .bind(workspace)
        .all()
        .await?;
    drop(c);
    let mut channels = Vec::new();
    for n in 0..size.channels {
        let channel = ChannelId::new();
        channels.push(channel);
        let team = Arc::clone(&team);
        db.write(workspace.0, async move |c: &mut Conn| {
            channel_with_threads(c, workspace, channel, &team, n).await
        })
        .await?;
    }
    let members: Vec<usize> = (0..size.members).collect();
    for some in members.chunks(500) {
        let (some, channels, for_all) = (some.to_vec(), channels.clone(), for_all.clone());
        db.write(workspace.0, async move |c: &mut Conn| {
            for n in &some {
                let own = [
                    for_all[0].0,
                    for_all[1].0,
                    channels[n % channels.len()],
                    channels[(n * 7 + 1) % channels.len()],
                ];
                member(c, workspace, *n, &own).await?;
            }
            Ok::<_, DbError>(())
        })
        .await?;
    }
    Ok(())
}

async fn member(
    c: &mut Conn,
    workspace: WorkspaceId,
    n: usize,
    channels: &[ChannelId],
) -> Result<(), DbError> {
    let (user, handle) = (UserId::new(), format!("crowd-{n}"));
    c.q("insert into users (id, email, name, password_hash, created_at, name_skeleton, name_folded) values ($1, $2, $3, '', $4, $3, $3)")
        .bind(user)
        .bind(format!("{handle}@example.org"))
        .bind(format!("Crowd {n}"))
        .bind(now())
        .run()
        .await?;
    c.q("insert into members (workspace_id, user_id, role, handle, joined_at) values ($1, $2, 'member', $3, $4)")
        .bind(workspace)
        .bind(user)
        .bind(handle.clone())
        .bind(now())
        .run()
        .await?;
    c.q("insert into handles (workspace_id, handle, owner_type, owner_id) values ($1, $2, 'user', $3)")
        .bind(workspace)
        .bind(handle)
        .bind(user)
        .run()
        .await?;
    for channel in channels {
        join(c, *channel, user).await?;
    }
    Ok(())
}

async fn join(c: &mut Conn, channel: ChannelId, user: UserId) -> Result<(), DbError> {
    c.q("insert into channel_members (channel_id, user_id, joined_seq, read_seq, joined_at) values ($1, $2, 0, 0, $3) \
         on conflict (channel_id, user_id) do nothing")
        .bind(channel)
        .bind(user)
        .bind(now())
        .run()
        .await?;
    Ok(())
}

async fn channel_with_threads(
    c: &mut Conn,
    workspace: WorkspaceId,
    channel: ChannelId,
    team: &[UserId],
    n: usize,
) -> Result<(), DbError> {
    c.q("insert into channels (id, workspace_id, kind, name, joined_by_all, created_by, created_at) values ($1, $2, 'public', $3, false, $4, $5)")
        .bind(channel)
        .bind(workspace)
        .bind(format!("crowd-{n}"))
        .bind(team[0])
        .bind(now())
        .run()
        .await?;
    for user in team {
        join(c, channel, *user).await?;
    }
    let author = UserId::new();
    for _ in 0..THREADS {
        let thread = ThreadId::new();
        let last: i64 = c
            .q("update workspaces set seq = seq + $2 where id = $1 returning seq")
            .bind(workspace)
            .bind(i64::try_from(MESSAGES).unwrap_or_default())
            .value()
            .await?;
        let ids: Vec<MessageId> = (0..MESSAGES).map(|_| MessageId::new()).collect();
        c.q("insert into threads (id, workspace_id, channel_id, root_message_id, title, status, reply_count, participants, last_seq, \
             last_activity_at, created_by, created_at) values ($1, $2, $3, $4, null, 'open', $5, $6, $7, $8, $9, $8)")
            .bind(thread)
            .bind(workspace)
            .bind(channel)
            .bind(ids[0])
            .bind(i64::try_from(MESSAGES).unwrap_or_default() - 1)
            .bind(Json(Value::Array(Vec::new())))
            .bind(last)
            .bind(now())
            .bind(author)
            .run()
            .await?;
        for (id, back) in ids.into_iter().zip((0_i64..).take(MESSAGES)) {
            c.q("insert into messages (id, workspace_id, channel_id, thread_id, conversation_id, seq, author_type, author_id, kind, state, \
                 content, content_plain, mentions, reactions, metadata, created_at) \
                 values ($1, $2, $3, $4, $4, $5, 'human', $6, 'text', 'complete', $7, $7, $8, $8, $9, $10)")
                .bind(id)
                .bind(workspace)
                .bind(channel)
                .bind(thread)
                .bind(last - i64::try_from(MESSAGES).unwrap_or_default() + 1 + back)
                .bind(author)
                .bind("Words that somebody said in one of the many channels of a large workspace.".to_owned())
                .bind(Json(Value::Array(Vec::new())))
                .bind(Json(json!({})))
                .bind(now())
                .run()
                .await?;
        }
    }
    Ok(())
}
