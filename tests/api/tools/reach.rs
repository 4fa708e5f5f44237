//! Generated memberships: a task finds exactly what its requester and every reader of its conversation can read.

use std::collections::BTreeSet;

use openvibe::{
    chat::search::task::{self, TaskSearch},
    db::{Conn, DbError, now},
    ids::{ApiKeyId, ChannelId, ThreadId, UserId},
    tools::{rights, runner::ToolTask},
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::json;

use super::{bench, rolled_back};
use crate::support::id;

/// Minimum number of cases in generated memberships; a case is a conversation of a task and a channel that it may be able to read.
const CASES: usize = 5_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Public,
    Private,
    /// A direct channel of Bo and an agent.
    Alone,
    /// A direct channel of Ada and Bo.
    Direct,
}

#[derive(Debug, Clone)]
struct Place {
    kind: Kind,
    channel: ChannelId,
    /// A thread that contains the word to search for.
    thread: ThreadId,
}

#[derive(Debug, Clone)]
struct World {
    /// Ada, Bo, Cat, Vera, and Gus, who is a guest.
    people: Vec<UserId>,
    places: Vec<Place>,
    /// A key of Bo with `chat:read`, and one without it.
    keys: [ApiKeyId; 2],
    task: ToolTask,
}

const ADA: usize = 0;
const BO: usize = 1;
const GUS: usize = 4;

/// Members of each channel, and the former member of the workspace, if any.
struct Memberships {
    of_places: Vec<BTreeSet<usize>>,
    gone: Option<usize>,
}

impl Memberships {
    async fn generate(c: &mut Conn, world: &World, rng: &mut StdRng) -> Result<Self, DbError> {
        let mut of_places = Vec::new();
        for place in &world.places {
            let members: BTreeSet<usize> = match place.kind {
                Kind::Public => (0..world.people.len())
                    .filter(|person| *person != GUS || rng.random_bool(0.5))
                    .collect(),
                Kind::Private => (0..world.people.len())
                    .filter(|_| rng.random_bool(0.5))
                    .collect(),
                Kind::Alone => BTreeSet::from([BO]),
                Kind::Direct => BTreeSet::from([ADA, BO]),
            };
            // Everyone except guests reads a public channel without being in it.
            let joined: Vec<usize> = match place.kind {
                Kind::Private => members.iter().copied().collect(),
                Kind::Public => members.get(&GUS).copied().into_iter().collect(),
                Kind::Alone | Kind::Direct => Vec::new(),
            };
            if matches!(place.kind, Kind::Private | Kind::Public) {
                c.q("delete from channel_members where channel_id = $1")
                    .bind(place.channel)
                    .run()
                    .await?;
                for member in joined {
                    c.q("insert into channel_members (channel_id, user_id, joined_seq, read_seq, joined_at) values ($1, $2, 0, 0, $3)")
                        .bind(place.channel)
                        .bind(world.people[member])
                        .bind(now())
                        .run()
                        .await?;
                }
            }
            of_places.push(members);
        }
        let gone = rng
            .random_bool(0.2)
            .then(|| rng.random_range(0..world.people.len()));
        if let Some(gone) = gone {
            c.q("delete from members where user_id = $1 and workspace_id = $2")
                .bind(world.people[gone])
                .bind(world.task.workspace)
                .run()
                .await?;
        }
        Ok(Self { of_places, gone })
    }

    /// Channels that a task can read; `None` if it cannot read any.
    fn expected(
        &self,
        world: &World,
        (requester, place): (usize, usize),
        can_read: bool,
    ) -> Option<BTreeSet<usize>> {
        let reads = |at: usize| self.of_places[at].contains(&requester);
        if self.gone == Some(requester) || !reads(place) || !can_read {
            return None;
        }
        let kind = |at: usize| world.places[at].kind;
        let all = 0..world.places.len();
        let guest_reads = |at: usize| self.of_places[at].contains(&GUS);
        let has_guest = self.gone != Some(GUS) && guest_reads(place);
        let allowed = all.filter(|at| {
            let everyone_reads =
                *at == place || kind(*at) == Kind::Public && (!has_guest || guest_reads(*at));
            reads(*at) && (everyone_reads || kind(place) == Kind::Alone)
        });
        Some(allowed.collect())
    }
}

/// Returns the channels in which the task finds something; `None` if it has no permissions.
async fn found(
    c: &mut Conn,
    world: &World,
    task: &ToolTask,
) -> Result<Option<BTreeSet<usize>>, DbError> {
    let Some(rights) = rights::find(c, task).await? else {
        return Ok(None);
    };
    let search = TaskSearch {
        workspace: task.workspace,
        requester: task.requester,
        shared_in: rights.shared_in,
        query: "zebra",
        channels: Vec::new(),
        author: None,
        since: None,
        until: None,
        limit: 20,
        score_share: 0.0,
        question: task.trigger,
    };
    let hits = task::find_messages(c, &search).await?;
    let place_of = |thread: ThreadId| world.places.iter().position(|place| place.thread == thread);
    Ok(Some(
        hits.iter()
            .map(|hit| place_of(hit.message.thread_id).expect("a known thread"))
            .collect(),
    ))
}

/// Checks all conversations and requesters with one set of memberships. Returns the number of cases, and what went wrong.
async fn play(c: &mut Conn, world: &World, seed: u64) -> Result<(usize, Vec<String>), DbError> {
    let mut rng = StdRng::seed_from_u64(seed);
    let memberships = Memberships::generate(c, world, &mut rng).await?;
    let (mut cases, mut wrong) = (0, Vec::new());
    for requester in 0..world.people.len() {
        for (at, place) in world.places.iter().enumerate() {
            let key = (requester == BO && rng.random_bool(0.5)).then(|| rng.random_range(0..2));
            let task = ToolTask {
                requester: world.people[requester],
                api_key: key.map(|key: usize| world.keys[key]),
                channel: place.channel,
                thread: place.thread,
                ..world.task.clone()
            };
            let can_read = key != Some(1) && !(key.is_some() && memberships.gone == Some(BO));
            let expected = memberships.expected(world, (requester, at), can_read);
            let found = found(c, world, &task).await?;
            if found != expected {
                wrong.push(format!(
                    "seed {seed}, person {requester} in {:?} with key {key:?}: {found:?}, not {expected:?}",
                    place.kind
                ));
            }
            cases += world.places.len();
        }
    }
    Ok((cases, wrong))
}

#[tokio::test]
async fn a_task_finds_exactly_what_all_readers_of_its_conversation_can_read() {
    let b = bench().await;
    let t = &b.t;
    let cat = t.app.join(&t.ada, "Cat", "member").await;
    let vera = t.app.join(&t.ada, "Vera", "viewer").await;
    let plans = id(&t
        .ada
        .post("/v1/channels", json!({"name": "plans"}))
        .await
        .is(201));
    let first = t.ada.private_channel("first", &[]).await;
    let second = t.ada.private_channel("second", &[]).await;
    let agent = id(&t.ada.agent("sage").await);
    let alone = id(&t
        .bo
        .post("/v1/direct", json!({"agent_id": agent}))
        .await
        .ok());
    let direct = id(&t
        .bo
        .post("/v1/direct", json!({"member_ids": [t.ada.id]}))
        .await
        .ok());
    let mut places = Vec::new();
    for (kind, channel, by) in [
        (Kind::Public, &t.general, &t.ada),
        (Kind::Public, &plans, &t.ada),
        (Kind::Private, &first, &t.ada),
        (Kind::Private, &second, &t.ada),
        (Kind::Alone, &alone, &t.bo),
        (Kind::Direct, &direct, &t.bo),
    ] {
        let thread = by.thread(channel, "The zebra stands here").await;
        places.push(Place {
            kind,
            channel: channel.parse().unwrap(),
            thread: thread.parse().unwrap(),
        });
    }
    let (_, reading) = t.bo.make_key(&["chat:read"]).await;
    let (_, writing) = t.bo.make_key(&["chat:write"]).await;
    let gus = t.app.join_as_guest(&t.ada, "Gus", &["general"]).await;
    let people = [&t.ada, &t.bo, &cat, &vera, &gus];
    let world = World {
        people: people
            .iter()
            .map(|person| person.id.parse().unwrap())
            .collect(),
        places,
        keys: [reading.parse().unwrap(), writing.parse().unwrap()],
        task: b.task.clone(),
    };
    let (mut cases, mut seed) = (0, 0);
    while cases < CASES {
        let world = world.clone();
        let case = async move |c: &mut Conn| play(c, &world, seed).await;
        let (more, wrong) = rolled_back(b.db(), b.task.workspace, case).await;
        assert_eq!(wrong, Vec::<String>::new());
        cases += more;
        seed += 1;
    }
}
