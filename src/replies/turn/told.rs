//! Notices in private and direct channels about changes to what an agent is told.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    agents::profiles::{self, AgentPart, PartsChanged},
    chat::post::{self, NoticeTarget},
    db::{Conn, DbError, has_guests},
    ids::{AgentId, ChannelId, UserId},
    tasks::{Lease, Task},
    time::Timestamp,
};

/// The newest change of an agent by one person since the last notice.
struct Change {
    parts: BTreeSet<AgentPart>,
    changed_at: Timestamp,
}

/// Posts a notice after the first reply since people outside of a private or direct channel changed the parts of the agent or of its
/// bases. Each version is announced once in a channel.
pub(super) async fn announce_changes(
    c: &mut Conn,
    task: &Task,
    lease: &Lease,
) -> Result<(), DbError> {
    let Some(channel) = private_channel(c, task).await? else {
        return Ok(());
    };
    let target = lease.target;
    let mut sentences = Vec::new();
    for level in profiles::levels(c, target.agent, target.agent_version).await? {
        let Some(before) = advance(c, channel, level.id, level.version).await? else {
            continue;
        };
        let changes = profiles::changes_since(c, level.id, before, level.version).await?;
        let name = profiles::shown_name(c, level.id).await?;
        for (person, change) in by_person(changes) {
            if let Some(person) = find_outsider(c, channel, person).await? {
                sentences.push(sentence(&person, &name, &change));
            }
        }
    }
    if !sentences.is_empty() {
        let notice = NoticeTarget::from(lease);
        let text = sentences.join(" ");
        post::insert_notice(c, notice, lease.audience, task.trigger_message_id, text).await?;
    }
    Ok(())
}

/// The channel of a task, unless it is public.
async fn private_channel(c: &mut Conn, task: &Task) -> Result<Option<ChannelId>, DbError> {
    let row: Option<(ChannelId,)> = c
        .q("select id from channels where id = $1 and kind <> 'public'")
        .bind(task.channel_id)
        .opt()
        .await?;
    Ok(row.map(|(channel,)| channel))
}

/// Records that a version of an agent is announced in a channel, and returns the version that was announced before; `None` if this
/// version, or a later one, already is.
async fn advance(
    c: &mut Conn,
    channel: ChannelId,
    agent: AgentId,
    version: i64,
) -> Result<Option<i64>, DbError> {
    let before: Option<(i64,)> = c
        .q("select version from told_versions where channel_id = $1 and agent_id = $2")
        .bind(channel)
        .bind(agent)
        .opt()
        .await?;
    // Creating an agent is not a change.
    let before = before.map_or(1, |(version,)| version);
    if before >= version {
        return Ok(None);
    }
    // If two replies end at the same time, only the first one to commit finds the earlier version.
    let advanced = c
        .q("insert into told_versions (channel_id, agent_id, version) values ($1, $2, $3) \
            on conflict (channel_id, agent_id) do update set version = excluded.version where told_versions.version < excluded.version")
        .bind(channel)
        .bind(agent)
        .bind(version)
        .run()
        .await?;
    Ok((advanced > 0).then_some(before))
}

/// Name of a person who is not in a channel; `None` for its members. In a channel with guests, it is `Someone`.
async fn find_outsider(
    c: &mut Conn,
    channel: ChannelId,
    person: UserId,
) -> Result<Option<String>, DbError> {
    let row: Option<(bool, Option<String>, bool)> = c
        .q(concat!(
            "select exists (select 1 from channel_members where channel_id = $1 and user_id = $2), \
             (select name from users where id = $2), ",
            has_guests!("ch.workspace_id", "$1"),
            " from channels ch where ch.id = $1"
        ))
        .bind(channel)
        .bind(person)
        .opt()
        .await?;
    Ok(match row {
        None | Some((true, ..)) => None,
        Some((_, _, true)) => Some("Someone".to_owned()),
        Some((_, name, _)) => Some(name.unwrap_or_else(|| "A former member".to_owned())),
    })
}

fn by_person(changes: Vec<PartsChanged>) -> BTreeMap<UserId, Change> {
    let mut people: BTreeMap<UserId, Change> = BTreeMap::new();
    for change in changes {
        let person = people.entry(change.by).or_insert_with(|| Change {
            parts: BTreeSet::new(),
            changed_at: change.changed_at,
        });
        person.parts.extend(change.parts);
        person.changed_at = person.changed_at.max(change.changed_at);
    }
    people
}

fn sentence(person: &str, agent: &str, change: &Change) -> String {
    let nouns: Vec<&str> = change.parts.iter().map(|part| part.noun()).collect();
    let parts = match nouns.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first, second] => format!("{first} and {second}"),
        [first @ .., last] => format!("{}, and {last}", first.join(", ")),
    };
    let day = change.changed_at.to_short_day_text();
    format!("{person} changed {agent}'s {parts} on {day}.")
}
