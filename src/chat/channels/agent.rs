//! Agents of channels: their settings, and the limit of their unasked replies.

use crate::{
    agents::profiles,
    auth::Scope,
    chat::{
        ChatError,
        access::ChannelAccess,
        announce::thread_updated,
        rows::{
            channel::{ChannelAgent, ChannelKind, get_channel},
            thread::BoundBy,
        },
    },
    db::{Conn, DbError, now},
    ids::{AgentId, ChannelId, ThreadId},
    model::grouped,
};

/// Default value of `daily_max`.
pub const DAILY_REPLIES: i64 = 100;
const DAILY_MAX: i64 = 10_000;

/// Maximum number of threads or channels announced after a change to their agent. The newest ones are announced; clients reload the
/// others when they open them.
pub(super) const ANNOUNCED_MAX: i64 = 100;

/// # Errors
/// `Invalid` if the number is not between 1 and 10,000.
pub fn parse_daily_max(number: i64) -> Result<i64, ChatError> {
    if (1..=DAILY_MAX).contains(&number) {
        return Ok(number);
    }
    Err(ChatError::Invalid(
        "replies per day must be between 1 and 10,000".to_owned(),
        "agent.daily_max",
    ))
}

/// Returns the agent of a channel. Runs no query if the channel had no agent when access was checked.
pub(in crate::chat) async fn find_agent(
    c: &mut Conn,
    access: &ChannelAccess<'_>,
) -> Result<Option<ChannelAgent>, ChatError> {
    if !access.has_agent {
        return Ok(None);
    }
    Ok(get_channel(c, access.channel).await?.agent)
}

/// Sets or removes the agent of a channel. Announces the threads that the channel has bound if these bindings become valid or
/// invalid; the caller must announce the channel.
///
/// # Errors
/// `Invalid` for a direct channel, `NoSuchAgent` if a new agent cannot be invoked, or any error from `Actor::require`.
pub(super) async fn set_agent(
    c: &mut Conn,
    access: &ChannelAccess<'_>,
    agent: Option<ChannelAgent>,
) -> Result<(), ChatError> {
    if access.kind == ChannelKind::Direct {
        let text = "a direct channel has no agent settings".to_owned();
        return Err(ChatError::Invalid(text, "agent"));
    }
    let before = get_channel(c, access.channel).await?.agent;
    match agent {
        Some(agent) => {
            access.actor.require(Scope::AgentsUse)?;
            let is_new = before.is_none_or(|before| before.agent_id != agent.agent_id);
            if is_new
                && profiles::find_invocable(c, &access.actor, agent.agent_id)
                    .await?
                    .is_none()
            {
                return Err(ChatError::NoSuchAgent(agent.agent_id.to_string()));
            }
            c.q("insert into channel_agents (channel_id, agent_id, mode, daily_max) values ($1, $2, $3, $4) \
                 on conflict (channel_id) do update set agent_id = excluded.agent_id, mode = excluded.mode, daily_max = excluded.daily_max")
                .bind(access.channel)
                .bind(agent.agent_id)
                .bind(agent.mode)
                .bind(agent.daily_max)
                .run()
                .await?;
        }
        None => {
            c.q("update channel_agents set agent_id = null where channel_id = $1")
                .bind(access.channel)
                .run()
                .await?;
        }
    }
    if before.and_then(ChannelAgent::binding) != agent.and_then(ChannelAgent::binding) {
        announce_bound(c, access).await?;
    }
    Ok(())
}

/// Appends `thread.updated` for the most recently active threads that the channel has bound.
async fn announce_bound(c: &mut Conn, access: &ChannelAccess<'_>) -> Result<(), ChatError> {
    let threads: Vec<(ThreadId,)> = c
        .q("select t.id from threads t join bindings b on b.conversation_id = t.id and b.is_bound and b.bound_by = $2 \
            where t.channel_id = $1 order by t.last_seq desc limit $3")
        .bind(access.channel)
        .bind(BoundBy::Channel)
        .bind(ANNOUNCED_MAX)
        .all()
        .await?;
    for (thread,) in threads {
        thread_updated(c, access, thread).await?;
    }
    Ok(())
}

/// Outcome of counting an unasked reply.
#[derive(Debug)]
pub(in crate::chat) enum UnaskedReply {
    Counted,
    LimitReached {
        /// Text of the notice about the limit; `None` if one was already posted on this day (UTC).
        notice: Option<String>,
    },
}

/// Counts an unasked reply of the channel's agent, unless the daily limit is reached.
pub(in crate::chat) async fn count_unasked(
    c: &mut Conn,
    channel: ChannelId,
    agent: AgentId,
) -> Result<UnaskedReply, DbError> {
    let today = now().day_start();
    let counted = c
        .q("update channel_agents set replies = case when replied_on >= $2 then replies + 1 else 1 end, \
            replied_on = case when replied_on > $2 then replied_on else $2 end \
            where channel_id = $1 and (replied_on is null or replied_on < $2 or replies < daily_max)")
        .bind(channel)
        .bind(today)
        .run()
        .await?;
    if counted == 1 {
        return Ok(UnaskedReply::Counted);
    }
    let limit: Option<(i64,)> = c
        .q("update channel_agents set announced_on = $2 \
            where channel_id = $1 and (announced_on is null or announced_on < $2) returning daily_max")
        .bind(channel)
        .bind(today)
        .opt()
        .await?;
    let notice = match limit {
        Some((daily_max,)) => {
            let name = profiles::shown_name(c, agent).await?;
            Some(limit_text(&name, daily_max))
        }
        None => None,
    };
    Ok(UnaskedReply::LimitReached { notice })
}

fn limit_text(name: &str, daily_max: i64) -> String {
    let replies = if daily_max == 1 { "reply" } else { "replies" };
    let number = grouped(daily_max.unsigned_abs());
    format!(
        "{name} has reached its limit of {number} {replies} a day here. Mention it to ask anyway."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_allows_1_to_10_000_replies_per_day() {
        for number in [1, DAILY_REPLIES, 10_000] {
            assert_eq!(parse_daily_max(number).unwrap(), number);
        }
        for number in [i64::MIN, -1, 0, 10_001, i64::MAX] {
            assert!(parse_daily_max(number).is_err(), "{number}");
        }
    }

    #[test]
    fn the_notice_names_the_limit_of_the_channel() {
        for (daily_max, limit) in [
            (1, "1 reply"),
            (100, "100 replies"),
            (10_000, "10,000 replies"),
        ] {
            assert_eq!(
                limit_text("Vibe", daily_max),
                format!(
                    "Vibe has reached its limit of {limit} a day here. Mention it to ask anyway."
                )
            );
        }
    }
}
