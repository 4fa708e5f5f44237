//! Sources that a task has seen in addition to its requester's own messages. Rows are written in the transaction that stores the
//! text.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{
    decide::Seen,
    runner::{Target, ToolTask},
};
use crate::{
    chat::mentions::ends_url,
    db::{Conn, DbError, dialect::hexadecimal_ids},
    ids::{AgentId, MessageId, TaskId, UserId, WorkspaceId},
    outbound::is_in_domain,
    sql_with_ids,
    tasks::actions::{ActionSource, SourceAuthor, TaintKind},
};

/// Maximum number of sources that are read. If the limit is reached, no permission for an hour covers the task.
pub const SEEN_MAX: usize = 1_000;

/// A text that shapes an agent and was written by a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthoredText {
    /// The agent that has the text; `None` for the steps of a workflow.
    pub agent_id: Option<AgentId>,
    /// Display name of the agent, or name of the workflow.
    pub owner: String,
    /// Name of the text in a sentence, such as `instructions`.
    pub part: &'static str,
    /// `None` if the author is no longer known.
    pub author: Option<UserId>,
    /// SHA-256 of the text.
    pub text_hash: [u8; 32],
}

impl AuthoredText {
    /// ID of the source, which is different for another author or text.
    fn source_id(&self) -> Uuid {
        let author = self.author.map_or(Uuid::nil(), |author| author.0);
        let agent = self.agent_id.map_or(Uuid::nil(), |agent| agent.0);
        let hash = Sha256::new()
            .chain_update(author)
            .chain_update(agent)
            .chain_update(self.text_hash)
            .chain_update(self.part);
        hashed_id(hash)
    }

    /// The source, before anybody's trust in its author is known.
    pub fn source(&self) -> ActionSource {
        ActionSource {
            author: Some(SourceAuthor {
                user_id: self.author,
                agent_id: self.agent_id,
                part: self.part.to_owned(),
                is_trusted: false,
            }),
            ..ActionSource::new(TaintKind::Author, self.source_id(), self.shown())
        }
    }

    fn shown(&self) -> String {
        format!("{}'s {}", self.owner, self.part)
    }
}

/// ID of a source that is identified by its content.
pub fn hashed_id(hash: Sha256) -> Uuid {
    let hash: [u8; 32] = hash.finalize().into();
    let mut id = [0; 16];
    id.copy_from_slice(&hash[..16]);
    Uuid::from_bytes(id)
}

#[derive(sqlx::FromRow)]
struct TaintRow {
    kind: TaintKind,
    source_id: Uuid,
    label: String,
    author_id: Option<UserId>,
    agent_id: Option<AgentId>,
    part: Option<String>,
    is_trusted: bool,
}

impl TaintRow {
    fn source(self) -> ActionSource {
        let (user_id, agent_id, is_trusted) = (self.author_id, self.agent_id, self.is_trusted);
        ActionSource {
            author: self.part.map(|part| SourceAuthor {
                user_id,
                agent_id,
                part,
                is_trusted,
            }),
            ..ActionSource::new(self.kind, self.source_id, self.label)
        }
    }
}

/// Everything that a task has seen, in a fixed order: first what taints it, then texts by authors who are now trusted.
pub async fn list(c: &mut Conn, task: TaskId) -> Result<Vec<ActionSource>, DbError> {
    let rows: Vec<TaintRow> = c
        .q("select x.kind, x.source_id, x.label, x.author_id, x.agent_id, x.part, \
            coalesce(x.author_id = t.requested_by or exists (select 1 from members m where m.workspace_id = t.workspace_id \
              and m.user_id = x.author_id and m.role = 'admin'), FALSE) as is_trusted \
            from task_taints x join tasks t on t.id = x.task_id where x.task_id = $1 \
            order by is_trusted, x.kind, x.label, x.source_id limit $2")
        .bind(task)
        .bind(i64::try_from(SEEN_MAX).unwrap_or(i64::MAX))
        .all()
        .await?;
    Ok(rows.into_iter().map(TaintRow::source).collect())
}

/// The same sources, with the current trust in their authors.
pub async fn with_current_trust(
    c: &mut Conn,
    workspace: WorkspaceId,
    requester: UserId,
    mut sources: Vec<ActionSource>,
) -> Result<Vec<ActionSource>, DbError> {
    let authors = sources.iter().filter_map(|source| source.author.as_ref());
    let authors: BTreeSet<UserId> = authors.filter_map(|author| author.user_id).collect();
    let trusted = trusted_authors(c, workspace, requester, &authors).await?;
    for author in sources.iter_mut().filter_map(|of| of.author.as_mut()) {
        author.is_trusted = author.user_id.is_some_and(|user| trusted.contains(&user));
    }
    Ok(sources)
}

/// The requester, and the admins among `authors`.
pub async fn trusted_authors(
    c: &mut Conn,
    workspace: WorkspaceId,
    requester: UserId,
    authors: &BTreeSet<UserId>,
) -> Result<BTreeSet<UserId>, DbError> {
    let mut trusted = BTreeSet::from([requester]);
    if authors.iter().any(|author| *author != requester) {
        let sql = sql_with_ids!(
            c,
            "select m.user_id from members m where m.workspace_id = $1 and m.role = 'admin' and m.user_id in",
            2,
            "order by m.user_id"
        );
        let admins: Vec<(UserId,)> = c
            .q(sql)
            .bind(workspace)
            .bind(hexadecimal_ids(authors.iter().map(|author| author.0)))
            .all()
            .await?;
        trusted.extend(admins.into_iter().map(|(admin,)| admin));
    }
    Ok(trusted)
}

/// Adds sources that taint a task; sources that are already stored are skipped. Trust in an author is not stored.
pub async fn add(c: &mut Conn, task: TaskId, taints: &[ActionSource]) -> Result<(), DbError> {
    for taint in taints {
        let author = taint.author.as_ref();
        c.q(
            "insert into task_taints (task_id, kind, source_id, label, author_id, agent_id, part) \
             values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing",
        )
        .bind(task)
        .bind(taint.kind)
        .bind(taint.source_id)
        .bind(taint.label.clone())
        .bind(author.and_then(|author| author.user_id))
        .bind(author.and_then(|author| author.agent_id))
        .bind(author.map(|author| author.part.clone()))
        .run()
        .await?;
    }
    Ok(())
}

/// Adds texts that shape the agent of a task. They are stored for all authors, because other people's tasks inherit them, and roles
/// can change before a call is decided.
pub async fn add_texts(c: &mut Conn, task: TaskId, texts: &[AuthoredText]) -> Result<(), DbError> {
    for text in texts {
        c.q("insert into task_taints (task_id, kind, source_id, label, author_id, agent_id, part) \
             select $1, $2, $3, $4 || coalesce((select u.name from users u where u.id = $5), 'a former member'), $5, $6, $7 \
             from tasks t where t.id = $1 on conflict do nothing")
            .bind(task)
            .bind(TaintKind::Author)
            .bind(text.source_id())
            .bind(format!("{}, by ", text.shown()))
            .bind(text.author)
            .bind(text.agent_id)
            .bind(text.part.to_owned())
            .run()
            .await?;
    }
    Ok(())
}

/// Adds everything that taints one task to another task, which receives a text from it.
pub async fn pass_on(c: &mut Conn, from: TaskId, to: TaskId) -> Result<(), DbError> {
    c.q("insert into task_taints (task_id, kind, source_id, label, author_id, agent_id, part) \
         select $2, kind, source_id, label, author_id, agent_id, part from task_taints where task_id = $1 on conflict do nothing")
        .bind(from)
        .bind(to)
        .run()
        .await?;
    Ok(())
}

/// Adds the people, except for the requester, whose words or names a text contains.
pub async fn add_people(
    c: &mut Conn,
    task: TaskId,
    requester: UserId,
    people: impl IntoIterator<Item = UserId>,
) -> Result<(), DbError> {
    let others: BTreeSet<UserId> = people
        .into_iter()
        .filter(|person| *person != requester)
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    let sql = sql_with_ids!(
        c,
        "insert into task_taints (task_id, kind, source_id, label) select $1, 'message', u.id, u.name from users u where u.id in",
        2,
        "on conflict do nothing"
    );
    c.q(sql)
        .bind(task)
        .bind(hexadecimal_ids(others.iter().map(|person| person.0)))
        .run()
        .await?;
    Ok(())
}

/// Adds the requester as a source for text that was posted with an API key rather than typed.
pub async fn add_key(c: &mut Conn, task: TaskId, requester: UserId) -> Result<(), DbError> {
    c.q("insert into task_taints (task_id, kind, source_id, label) select $1, $2, u.id, u.name from users u where u.id = $3 \
         on conflict do nothing")
        .bind(task)
        .bind(TaintKind::Key)
        .bind(requester)
        .run()
        .await?;
    Ok(())
}

/// Source for a title or a description. Anyone with write access can change these texts, so nobody counts as their author.
pub fn title_source(conversation: Uuid, label: &str) -> ActionSource {
    ActionSource::new(TaintKind::Title, conversation, label)
}

/// Adds the taint of messages. A person's message adds its author, except for messages that the requester posted in a browser. An
/// agent's reply adds everything that its task had seen. A resolution that a person published counts as that person's message.
pub async fn add_messages(
    c: &mut Conn,
    task: TaskId,
    requester: UserId,
    messages: impl IntoIterator<Item = MessageId>,
) -> Result<(), DbError> {
    let messages: BTreeSet<MessageId> = messages.into_iter().collect();
    if messages.is_empty() {
        return Ok(());
    }
    let ids = || hexadecimal_ids(messages.iter().map(|id| id.0));
    let sql = sql_with_ids!(
        c,
        "insert into task_taints (task_id, kind, source_id, label) \
         select distinct $1, case when m.author_type = 'bot' then 'bot' when m.author_id = $3 then 'key' else 'message' end, m.author_id, coalesce(u.name, 'a former member') \
         from messages m left join users u on u.id = m.author_id \
         where m.author_type in ('human', 'bot') and m.author_id is not null and (m.author_id <> $3 or m.metadata ->> 'api_key_id' is not null) \
         and m.id in",
        2,
        "on conflict do nothing"
    );
    c.q(sql)
        .bind(task)
        .bind(ids())
        .bind(requester)
        .run()
        .await?;
    // For a resolution draft and other texts by agents, the sources are not recorded. An agent's reply to another person was written
    // from that person's message, which is not part of the reply's own taint.
    let sql = sql_with_ids!(
        c,
        "with m as (select id, author_id, parent_id from messages where author_type = 'agent' and id in",
        2,
        "), k as (select t.id, t.requested_by, t.reply_message_id from m \
         join tasks t on t.trigger_message_id = m.parent_id and t.reply_message_id = m.id) \
         insert into task_taints (task_id, kind, source_id, label, author_id, agent_id, part) \
         select $1, 'reply', m.author_id, coalesce(a.summary ->> 'display_name', a.name, 'a deleted agent'), \
         cast(null as uuid), cast(null as uuid), cast(null as text) from m \
         left join agents a on a.id = m.author_id \
         where m.author_id is not null and m.id not in (select reply_message_id from k) \
         union all select $1, x.kind, x.source_id, x.label, x.author_id, x.agent_id, x.part from k join task_taints x on x.task_id = k.id \
         where not (x.kind = 'message' and x.source_id = $3) \
         union all select $1, 'message', k.requested_by, coalesce(u.name, 'a former member'), \
         cast(null as uuid), cast(null as uuid), cast(null as text) from k \
         left join users u on u.id = k.requested_by where k.requested_by <> $3 \
         on conflict do nothing"
    );
    c.q(sql)
        .bind(task)
        .bind(ids())
        .bind(requester)
        .run()
        .await?;
    Ok(())
}

/// Adds the files of messages as sources. The messages must be those whose file contents are in the prompt.
pub async fn add_files(
    c: &mut Conn,
    task: TaskId,
    messages: impl IntoIterator<Item = MessageId>,
) -> Result<(), DbError> {
    let messages: BTreeSet<MessageId> = messages.into_iter().collect();
    if messages.is_empty() {
        return Ok(());
    }
    let sql = sql_with_ids!(
        c,
        "insert into task_taints (task_id, kind, source_id, label) \
         select $1, 'file', f.id, f.name from files f where f.message_id in",
        2,
        "on conflict do nothing"
    );
    c.q(sql)
        .bind(task)
        .bind(hexadecimal_ids(messages.iter().map(|id| id.0)))
        .run()
        .await?;
    Ok(())
}

/// Returns the taint of a call: whether the task is tainted, and whether the address of an outward read, `target`, is allowed anyway.
pub fn seen(
    taints: &[ActionSource],
    target: impl FnOnce() -> Option<Target>,
    task: &ToolTask,
    trusted_domains: &[String],
) -> Seen {
    if !taints.iter().any(ActionSource::counts) {
        return Seen::Clean;
    }
    let is_allowed = target().is_some_and(|target| is_allowed(&target, task, trusted_domains));
    if is_allowed {
        Seen::TaintedButAllowed
    } else {
        Seen::Tainted
    }
}

fn is_allowed(target: &Target, task: &ToolTask, trusted_domains: &[String]) -> bool {
    is_typed(&target.url, &task.typed)
        || trusted_domains
            .iter()
            .any(|domain| is_in_domain(&target.host, domain))
}

/// Checks whether a text contains the whole URL, not only its beginning.
fn is_typed(url: &str, text: &str) -> bool {
    let is_part = |c: char| !ends_url(c) && !matches!(c, '\'' | ')' | ']');
    !url.is_empty()
        && text.match_indices(url).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after =
                text[at + url.len()..].trim_start_matches(['.', ',', ';', ':', '!', '?', '…']);
            before.is_none_or(|c| !c.is_ascii_alphanumeric())
                && after.chars().next().is_none_or(|c| !is_part(c))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_url_in_the_text_counts_as_typed() {
        let url = "https://a.example/x";
        for (text, expected) in [
            ("https://a.example/x", true),
            ("read https://a.example/x.", true),
            ("read <https://a.example/x>, please", true),
            ("[this](https://a.example/x)", true),
            ("read `https://a.example/x`", true),
            ("**https://a.example/x**", true),
            ("见https://a.example/x。明天", true),
            ("https://a.example/x…", true),
            ("https://a.example/x?leak=1", false),
            ("https://a.example/xy", false),
            ("https://a.example/x/y", false),
            ("https://a.example/路徑", false),
            ("ahttps://a.example/x", false),
            ("nothing", false),
        ] {
            assert_eq!(is_typed(url, text), expected, "{text}");
        }
        assert!(!is_typed("", "text"));
    }
}
