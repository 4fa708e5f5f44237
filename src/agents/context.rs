//! Reads what one reply is made from (PROTOCOL §5, "Context"). Rendering it is in `prompt`.

use super::{
    manifest::{AskedBy, LEFT_OUT_IDS_MAX, LeftOut},
    profiles::Resolved,
    prompt::{Ask, Author, Context, HISTORY_MAX, Speech, Spoken},
};
use crate::{
    db::{Conn, DbError},
    ids::{AgentId, MessageId, ThreadId, UserId},
    tasks::Task,
};

/// What was read, and what was passed over.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub context: Context,
    pub asked_by: AskedBy,
    pub left_out: Vec<LeftOut>,
}

#[derive(sqlx::FromRow, Clone)]
struct Row {
    id: MessageId,
    seq: i64,
    author_type: String,
    author_id: Option<uuid::Uuid>,
    author_name: Option<String>,
    kind: String,
    state: String,
    content: String,
    /// Of a later reply: the seq of the message that it answers.
    parent_seq: Option<i64>,
}

impl Row {
    /// A reply that came later stands right after what it answers.
    fn order(&self) -> (i64, i64) {
        self.parent_seq
            .map_or((self.seq, 0), |parent| (parent, self.seq))
    }

    fn spoken(self) -> Spoken {
        let name = self
            .author_name
            .unwrap_or_else(|| "Deleted account".to_owned());
        let id = self.author_id.unwrap_or_default();
        Spoken {
            message_id: self.id,
            author: if self.author_type == "agent" {
                Author::Agent {
                    id: AgentId(id),
                    name,
                }
            } else {
                Author::Human {
                    id: UserId(id),
                    name,
                }
            },
            speech: match (self.kind.as_str(), self.state.as_str()) {
                ("resolution", _) => Speech::Result,
                (_, "interrupted") => Speech::CutOff,
                _ => Speech::Complete,
            },
            content: self.content,
        }
    }
}

/// `None` when the message that asks is gone or deleted. `c` sees one state of the database.
pub async fn load(c: &mut Conn, task: &Task, agent: &Resolved) -> Result<Option<Loaded>, DbError> {
    let Some(trigger) = task.trigger_message_id else {
        return Ok(None);
    };
    let trigger: Option<(i64, String)> = c
        .q("select seq, content from messages where id = $1 and deleted_at is null")
        .bind(trigger)
        .opt()
        .await?;
    let (Some((trigger_seq, content)), Some(trigger)) = (trigger, task.trigger_message_id) else {
        return Ok(None);
    };

    let history_max = i64::try_from(HISTORY_MAX).unwrap_or(i64::MAX);
    let mut rows: Vec<Row> = c
        .q("select m.id, m.seq, m.author_type, m.author_id, coalesce(u.name, a.profile ->> 'display_name', a.name) as author_name, \
            m.kind, m.state, m.content, CAST(null AS BIGINT) as parent_seq \
            from messages m left join users u on m.author_type = 'human' and u.id = m.author_id \
            left join agents a on m.author_type = 'agent' and a.id = m.author_id \
            where m.thread_id = $1 and m.fork_id is null and m.seq < $2 and m.deleted_at is null and m.kind <> 'notice' \
              and m.state <> 'streaming' order by m.seq desc limit $3")
        .bind(task.thread_id)
        .bind(trigger_seq)
        .bind(history_max)
        .all()
        .await?;
    // This agent's finished replies to earlier messages count as before the trigger, also when they came later.
    let later: Vec<Row> = c
        .q("select m.id, m.seq, m.author_type, m.author_id, coalesce(a.profile ->> 'display_name', a.name) as author_name, \
            m.kind, m.state, m.content, p.seq as parent_seq \
            from messages m join messages p on p.id = m.parent_id and p.thread_id = m.thread_id and p.seq < $2 \
            join agents a on a.id = m.author_id \
            where m.thread_id = $1 and m.fork_id is null and m.seq > $2 and m.author_type = 'agent' and m.author_id = $3 \
              and m.deleted_at is null and m.kind = 'text' and m.state <> 'streaming' order by m.seq limit $4")
        .bind(task.thread_id)
        .bind(trigger_seq)
        .bind(agent.agent)
        .bind(history_max)
        .all()
        .await?;
    rows.extend(later);
    rows.sort_by_key(Row::order);
    let surplus = rows.len().saturating_sub(HISTORY_MAX);
    rows.drain(..surplus);

    let left_out = left_out(c, task.thread_id, trigger_seq, &rows).await?;
    let asker: Option<(String, Option<String>)> = c
        .q("select u.name, m.role from users u left join members m on m.user_id = u.id and m.workspace_id = $2 where u.id = $1")
        .bind(task.requested_by)
        .bind(task.workspace_id)
        .opt()
        .await?;
    let (name, role) = asker.unwrap_or_else(|| ("Deleted account".to_owned(), None));
    let role = role.unwrap_or_else(|| "former member".to_owned());
    Ok(Some(Loaded {
        context: Context {
            instructions: agent.profile.instructions.clone(),
            agent_id: agent.agent,
            dive: None,
            summary: None,
            history: rows.into_iter().map(Row::spoken).collect(),
            ask: Ask {
                message_id: trigger,
                content,
                asker_id: task.requested_by,
                asker_name: name.clone(),
                asker_role: role.clone(),
            },
        },
        asked_by: AskedBy {
            id: task.requested_by,
            name,
            role,
        },
        left_out,
    }))
}

/// What stands before the trigger and is not sent, by reason. Costs the same however long the thread is.
async fn left_out(
    c: &mut Conn,
    thread: ThreadId,
    trigger_seq: i64,
    used: &[Row],
) -> Result<Vec<LeftOut>, DbError> {
    let oldest = used.iter().map(|row| row.seq).min().unwrap_or(trigger_seq);
    let passed_over: Vec<(MessageId, String)> = c
        .q("select id, case when deleted_at is not null then 'deleted' when kind = 'notice' then 'notice' else 'streaming' end \
            from messages where thread_id = $1 and fork_id is null and seq < $2 and seq > $3 \
              and (deleted_at is not null or kind = 'notice' or state = 'streaming') order by seq desc limit 200")
        .bind(thread)
        .bind(trigger_seq)
        .bind(oldest)
        .all()
        .await?;
    let mut reasons: Vec<LeftOut> = Vec::new();
    let ids_max = i64::try_from(LEFT_OUT_IDS_MAX).unwrap_or(i64::MAX);
    let older: Vec<(MessageId,)> = c
        .q("select id from messages where thread_id = $1 and fork_id is null and seq < $2 and deleted_at is null \
            and kind <> 'notice' and state <> 'streaming' order by seq desc limit $3")
        .bind(thread)
        .bind(oldest)
        .bind(ids_max)
        .all()
        .await?;
    if !older.is_empty() {
        // The thread's own counter spares counting a long thread; only what came after the trigger is counted.
        let (said, since): (i64, i64) = c
            .q("select t.reply_count + 1, (select count(*) from messages m where m.thread_id = t.id and m.fork_id is null \
                and m.seq >= $2 and m.deleted_at is null and m.kind <> 'notice') from threads t where t.id = $1")
            .bind(thread)
            .bind(trigger_seq)
            .one()
            .await?;
        let named = i64::try_from(older.len()).unwrap_or(0);
        let before = used.iter().filter(|row| row.seq < trigger_seq).count();
        let count = said - since - i64::try_from(before).unwrap_or(0);
        reasons.push(LeftOut {
            reason: "older_than_newest_50".to_owned(),
            count: count.max(named),
            message_ids: older.into_iter().map(|row| row.0).collect(),
        });
    }
    for reason in ["deleted", "notice", "streaming"] {
        let ids: Vec<MessageId> = passed_over
            .iter()
            .filter(|(_, why)| why == reason)
            .map(|(id, _)| *id)
            .collect();
        if !ids.is_empty() {
            reasons.push(LeftOut {
                reason: reason.to_owned(),
                count: i64::try_from(ids.len()).unwrap_or(i64::MAX),
                message_ids: ids.into_iter().take(LEFT_OUT_IDS_MAX).collect(),
            });
        }
    }
    Ok(reasons)
}
