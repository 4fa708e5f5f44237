//! The inbox: the way from a cause to its row, posts that many people follow or that mention a whole channel, reading a large inbox, and the
//! catch-up of many messages.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use openvibe::{
    db::{Conn, Db, DbError},
    ids::{ChannelId, ThreadId, UserId, WorkspaceId},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    client::{Http, Team, Ws, next_text, text},
    engine::Engine,
    process::{self, Server},
    report::{Table, float, median, ms, percentile, ratio, say, spread},
    sends::CONTENT,
};

pub(crate) const MEMBERS: usize = 10_000;
const FOLLOWERS: usize = 500;
const PER_TRANSACTION: usize = 2_500;
const ROUNDS: usize = 7;
const POSTS: usize = 200;
const READS: usize = 200;
/// Items of the person with a large inbox, and the threads that they follow.
const ITEMS: i64 = 10_000;
const FOLLOWED: usize = 2_500;
/// Items of the person with a small inbox.
const FEW_ITEMS: i64 = 100;
const MAKERS: usize = 16;
/// Messages of the long thread.
const MESSAGES: usize = 10_000;
const PAGE: usize = 100;
const CATCH_UPS: usize = 5;
/// Posts of each kind until their rows are there.
const CAUSES: usize = 100;
const ROW_WITHIN: Duration = Duration::from_secs(5);

/// A workspace, one of its members, and #general.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) workspace: WorkspaceId,
    pub(crate) channel: ChannelId,
    pub(crate) member: UserId,
}

/// ID of the nth member.
pub(crate) async fn user_id(team: &Team, n: usize) -> anyhow::Result<UserId> {
    let snapshot = team.http(n).await?.get("/v1/snapshot").await?;
    Ok(text(&snapshot, "/me/id")?.parse()?)
}

/// Adds members to the workspace and to #general, like the given one. Returns their IDs.
pub(crate) async fn add_members(db: &Db, of: Place) -> anyhow::Result<Vec<UserId>> {
    let all: Vec<UserId> = (0..MEMBERS).map(|_| UserId::new()).collect();
    for some in all.chunks(PER_TRANSACTION) {
        let some = some.to_vec();
        db.write(of.workspace.0, async move |c: &mut Conn| {
            for user in &some {
                add_member(c, of, *user).await?;
            }
            Ok::<_, DbError>(())
        })
        .await?;
    }
    Ok(all)
}

async fn add_member(c: &mut Conn, of: Place, user: UserId) -> Result<(), DbError> {
    let name = user.0.simple().to_string();
    c.q("insert into users (id, email, name, password_hash, created_at, name_skeleton, name_folded) \
         select $1, $2, $2, u.password_hash, u.created_at, $2, $2 from users u where u.id = $3")
        .bind(user)
        .bind(name.clone())
        .bind(of.member)
        .run()
        .await?;
    c.q("insert into members (workspace_id, user_id, role, handle, joined_at) \
         select m.workspace_id, $1, 'member', $2, m.joined_at from members m where m.workspace_id = $3 and m.user_id = $4")
        .bind(user)
        .bind(name)
        .bind(of.workspace)
        .bind(of.member)
        .run()
        .await?;
    c.q("insert into channel_members (channel_id, user_id, joined_seq, read_seq, joined_at) \
         select cm.channel_id, $1, cm.joined_seq, cm.read_seq, cm.joined_at from channel_members cm \
         where cm.channel_id = $2 and cm.user_id = $3")
        .bind(user)
        .bind(of.channel)
        .bind(of.member)
        .run()
        .await?;
    Ok(())
}

/// Makes people follow threads.
async fn follow(
    db: &Db,
    of: Place,
    users: Vec<UserId>,
    threads: Vec<ThreadId>,
) -> anyhow::Result<()> {
    db.write(of.workspace.0, async move |c: &mut Conn| {
        for thread in &threads {
            for user in &users {
                c.q("insert into follows (conversation_id, thread_id, user_id, channel_id, level, cause, created_at) \
                     select t.id, t.id, $1, t.channel_id, 'all', 'wrote', t.created_at from threads t where t.id = $2")
                    .bind(*user)
                    .bind(*thread)
                    .run()
                    .await?;
            }
        }
        Ok::<_, DbError>(())
    })
    .await?;
    Ok(())
}

/// Opens items of a person for the oldest messages of a thread.
async fn open_items(
    db: &Db,
    of: Place,
    user: UserId,
    thread: ThreadId,
    count: i64,
) -> anyhow::Result<()> {
    db.write(of.workspace.0, async move |c: &mut Conn| {
        c.q("insert into inbox_items (id, workspace_id, recipient_id, reason, subject_type, subject_id, actor_id, channel_id, thread_id, \
             conversation_id, message_id, seq, changed_seq, state, is_quiet, created_at, changed_at) \
             select m.id, m.workspace_id, $1, 'mention', 'message', m.id, m.author_id, m.channel_id, m.thread_id, m.conversation_id, m.id, \
             m.seq, m.seq, 'open', FALSE, m.created_at, m.created_at from messages m where m.thread_id = $2 order by m.seq limit $3")
            .bind(user)
            .bind(thread)
            .bind(count)
            .run()
            .await?;
        Ok::<_, DbError>(())
    })
    .await?;
    Ok(())
}

/// Server CPU time of a post in ms, and of its response.
pub(crate) async fn posts(
    server: &Server,
    http: &mut Http,
    thread: &str,
    content: &str,
) -> anyhow::Result<f64> {
    let path = format!("/v1/threads/{thread}/messages");
    let body = json!({"content": content}).to_string();
    let before = server.process.cpu();
    for _ in 0..POSTS {
        http.send("POST", &path, &body).await?.json()?;
    }
    Ok(ms(server.process.cpu().saturating_sub(before)) / float(POSTS))
}

/// Posts in a thread without followers, in one with many, and to all members of the channel.
async fn compare_posts(
    server: &Server,
    team: &Team,
    db: &Db,
    of: Place,
    members: &[UserId],
) -> anyhow::Result<()> {
    let (plain, followed, grouped) = (
        team.thread().await?,
        team.thread().await?,
        team.thread().await?,
    );
    let followers = members.iter().copied().take(FOLLOWERS).collect();
    follow(db, of, followers, vec![followed.parse()?]).await?;
    let mut http = team.http(0).await?;
    let to_all = format!("@channel {CONTENT}");
    let mut found: [Vec<f64>; 3] = Default::default();
    for round in 0..=ROUNDS {
        let kinds = [
            (&plain, CONTENT),
            (&followed, CONTENT),
            (&grouped, to_all.as_str()),
        ];
        for ((thread, content), found) in kinds.into_iter().zip(&mut found) {
            let cpu = posts(server, &mut http, thread, content).await?;
            if round > 0 {
                found.push(cpu);
            }
        }
    }
    let [alone, followed, grouped] = &found;
    let mut table = Table::new(
        "Posts and their items, server CPU-ms",
        &["", "per post", "of a post that nobody follows"],
    );
    for (name, values) in [
        ("nobody follows".to_owned(), alone),
        (format!("{FOLLOWERS} followers"), followed),
        (format!("@channel, {MEMBERS} members"), grouped),
    ] {
        table.row([
            name,
            spread(values, 3),
            format!("{:.2}", ratio(values, alone)),
        ]);
    }
    table.print();
    Ok(())
}

/// Starts threads for the large inbox.
async fn start_threads(team: &Team) -> anyhow::Result<Vec<ThreadId>> {
    let mut makers = JoinSet::new();
    for maker in 0..MAKERS {
        let team = team.clone();
        makers.spawn(async move {
            let mut made = Vec::new();
            for _ in (maker..FOLLOWED).step_by(MAKERS) {
                made.push(team.thread().await?.parse()?);
            }
            Ok::<Vec<ThreadId>, anyhow::Error>(made)
        });
    }
    let mut threads = Vec::new();
    while let Some(made) = makers.join_next().await {
        threads.extend(made??);
    }
    Ok(threads)
}

/// Times of `GET` requests in ms.
async fn reads(http: &mut Http, path: &str) -> anyhow::Result<Vec<f64>> {
    let mut times = Vec::with_capacity(READS);
    for _ in 0..READS {
        let started = Instant::now();
        http.send("GET", path, "").await?.json()?;
        times.push(ms(started.elapsed()));
    }
    Ok(times)
}

/// Reads an inbox of a person with many items, and of one with few.
async fn compare_inboxes(team: &Team) -> anyhow::Result<()> {
    let mut table = Table::new(
        "Reading an inbox, ms",
        &["", "few: median", "p95", "many: median", "p95"],
    );
    let (mut many, mut few) = (team.http(1).await?, team.http(2).await?);
    let seq = few.get("/v1/inbox?limit=1").await?["seq"].clone();
    let changes = format!("/v1/inbox/changes?since={seq}");
    for (name, path) in [
        ("first 50", "/v1/inbox?limit=50"),
        ("one reason", "/v1/inbox?limit=50&reason=mention"),
        ("done", "/v1/inbox?limit=50&state=done"),
        ("changes, none", changes.as_str()),
    ] {
        // Alternately, so that other load concerns both.
        let (mut of_few, mut of_many) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            of_few.extend(reads(&mut few, path).await?);
            of_many.extend(reads(&mut many, path).await?);
        }
        let cells = [&of_few, &of_many].map(|times| {
            [
                format!("{:.2}", median(times)),
                format!("{:.2}", percentile(times, 0.95)),
            ]
        });
        table.row(
            std::iter::once(name.to_owned()).chain(cells.into_iter().flatten().collect::<Vec<_>>()),
        );
    }
    table.print();
    say(&format!(
        "\nFew: {FEW_ITEMS} items. Many: {ITEMS} items, and {FOLLOWED} followed threads."
    ));
    Ok(())
}

/// Time to read all messages of a thread in pages, in ms.
async fn read_all(http: &mut Http, thread: &str) -> anyhow::Result<f64> {
    let started = Instant::now();
    let mut before = String::new();
    loop {
        let path = format!("/v1/threads/{thread}/messages?limit={PAGE}{before}");
        let page = http.get(&path).await?;
        if page["has_more"] != Value::Bool(true) {
            return Ok(ms(started.elapsed()));
        }
        before = format!("&before={}", text(&page, "/data/0/id")?);
    }
}

/// Compares the catch-up of many messages with reading them.
async fn compare_catch_up(team: &Team, thread: &str) -> anyhow::Result<()> {
    let mut http = team.http(2).await?;
    let (mut lines, mut pages) = (Vec::new(), Vec::new());
    for round in 0..=CATCH_UPS {
        let started = Instant::now();
        http.get("/v1/inbox/catch-up").await?;
        let took = ms(started.elapsed());
        let read = read_all(&mut http, thread).await?;
        if round > 0 {
            lines.push(took);
            pages.push(read);
        }
    }
    let mut table = Table::new("Catch-up of 10,000 messages, ms", &["", "time"]);
    table.row(["catch-up".to_owned(), spread(&lines, 0)]);
    table.row(["reading them in pages".to_owned(), spread(&pages, 0)]);
    table.print();
    Ok(())
}

/// A post that opens an item of the second member.
struct Cause {
    reason: &'static str,
    path: String,
    content: String,
}

/// The causes that are posts, each in a conversation of its own.
async fn causes(team: &Team) -> anyhow::Result<[Cause; 4]> {
    let (mut author, mut reader) = (team.http(0).await?, team.http(1).await?);
    let snapshot = reader.get("/v1/snapshot").await?;
    let me = text(&snapshot, "/me/id")?;
    let mut members = snapshot["members"].as_array().into_iter().flatten();
    let member = members
        .find(|member| member["user_id"] == me.as_str())
        .context("the snapshot lacks its own person")?;
    let handle = text(member, "/handle")?;
    let form = json!({"member_ids": [me]});
    let direct = text(&author.post("/v1/direct", &form).await?, "/id")?;
    let level = format!("/v1/channels/{}/level", team.general);
    reader.put(&level, &json!({"level": "all"})).await?;
    let cause = |reason, path: String, content: &str| Cause {
        reason,
        path,
        content: content.to_owned(),
    };
    let in_thread = format!("/v1/threads/{}/messages", team.thread().await?);
    let threads = |channel: &str| format!("/v1/channels/{channel}/threads");
    Ok([
        cause(
            "mention",
            in_thread.clone(),
            &format!("@{handle} please look at"),
        ),
        cause("group", in_thread, "@channel please look at"),
        cause("direct", threads(&direct), "Please look at"),
        cause("thread", threads(&team.general), "News about"),
    ])
}

/// Time at which a socket receives a text.
async fn arrival(ws: &mut Ws, part: &str) -> anyhow::Result<Instant> {
    loop {
        if next_text(ws).await?.contains(part) {
            return Ok(Instant::now());
        }
    }
}

/// Measures how soon posts are events of another person, and rows in their open inbox.
async fn measure_causes() -> anyhow::Result<()> {
    let server = Server::start(&[]).await?;
    let team = Team::make(&server.process.address, 2).await?;
    let mut table = Table::new(
        "From a post to its event and its row, ms",
        &["", "event: median", "p99", "row: median", "p99"],
    );
    let (mut author, mut reader) = (team.http(0).await?, team.http(1).await?);
    for cause in causes(&team).await? {
        let mut ws = team.socket(1).await?;
        let newest = format!("/v1/inbox?limit=1&reason={}", cause.reason);
        let (mut events, mut rows) = (Vec::new(), Vec::new());
        for n in 0..CAUSES {
            let content = format!("{} number {n}.", cause.content);
            let body = json!({"content": content});
            let started = Instant::now();
            let post = author.post(&cause.path, &body);
            let (posted, event) = tokio::join!(post, arrival(&mut ws, &content));
            let (posted, event) = (posted?, event?);
            events.push(ms(event.duration_since(started)));
            while reader.get(&newest).await?["data"][0]["message_id"] != posted["message"]["id"] {
                let what = cause.reason;
                anyhow::ensure!(started.elapsed() < ROW_WITHIN, "no row for {what}");
            }
            rows.push(ms(started.elapsed()));
        }
        let cells = [&events, &rows].map(|times| {
            [
                format!("{:.1}", median(times)),
                format!("{:.1}", percentile(times, 0.99)),
            ]
        });
        let name = cause.reason.to_owned();
        table.row(std::iter::once(name).chain(cells.into_iter().flatten()));
    }
    table.print();
    Ok(())
}

pub(crate) async fn run() -> anyhow::Result<()> {
    measure_causes().await?;
    let server = Server::start(&[]).await?;
    let team = Team::make(&server.process.address, 3).await?;
    let db = Db::open(&server.scratch.place()?, Arc::new(|_| {})).await?;
    let of = Place {
        workspace: team.workspace.parse()?,
        channel: team.general.parse()?,
        member: user_id(&team, 1).await?,
    };
    let members = add_members(&db, of).await?;
    compare_posts(&server, &team, &db, of, &members).await?;

    let long = team.thread().await?;
    let engine = Engine::open(&server.scratch.place()?, Some(&long)).await?;
    engine.fill(MESSAGES - 1).await?;
    engine.close().await?;
    let few = user_id(&team, 2).await?;
    open_items(&db, of, of.member, long.parse()?, ITEMS).await?;
    open_items(&db, of, few, long.parse()?, FEW_ITEMS).await?;
    let threads = start_threads(&team).await?;
    follow(&db, of, vec![of.member], threads).await?;
    compare_inboxes(&team).await?;
    compare_catch_up(&team, &long).await?;
    db.close().await;
    say(&format!(
        "\n{}. Medians of {ROUNDS} alternating rounds.",
        process::engine()
    ));
    Ok(())
}
