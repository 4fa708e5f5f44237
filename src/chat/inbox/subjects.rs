//! Texts of items that are not about a message: those of the objects that they are about.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::rows::Row;
use crate::{
    agents::profiles,
    chat::collaboration::Collaboration,
    db::{Conn, DbError, Json, dialect::hexadecimal_ids},
    inbox::{InboxReason, InboxSubjectKind, server_alerts},
    sql_with_ids,
};

/// Title and text of an item.
#[derive(Debug, Clone, Default)]
pub(super) struct SubjectText {
    /// `None` for the title of the conversation.
    pub(super) title: Option<String>,
    pub(super) text: String,
}

/// Texts by reason and ID of the subject.
pub(super) type SubjectTexts = HashMap<(InboxReason, Uuid), SubjectText>;

/// Reads a title and a text for each of these IDs; both can be null.
async fn read(
    c: &mut Conn,
    sql: &'static str,
    ids: &[Uuid],
) -> Result<Vec<(Uuid, Option<String>, Option<String>)>, DbError> {
    c.q(sql)
        .bind(hexadecimal_ids(ids.iter().copied()))
        .all()
        .await
}

/// Texts of the objects that items are about. Items about messages get none.
pub(super) async fn load(c: &mut Conn, rows: &[Row]) -> Result<SubjectTexts, DbError> {
    let mut wanted: HashMap<(InboxReason, InboxSubjectKind), HashSet<Uuid>> = HashMap::new();
    for row in rows {
        let key = (row.reason, row.subject_type);
        wanted.entry(key).or_default().insert(row.subject_id);
    }
    let mut texts = SubjectTexts::new();
    for ((reason, kind), ids) in wanted {
        let ids: Vec<Uuid> = ids.into_iter().collect();
        let found = match (reason, kind) {
            (InboxReason::Assigned, _) => {
                let sql = sql_with_ids!(
                    c,
                    "select i.id, null as title, i.text from action_items i join resolutions r on r.id = i.resolution_id \
                     where r.status = 'published' and i.id in",
                    1,
                    ""
                );
                read(c, sql, &ids).await?
            }
            (InboxReason::Approval, _) => {
                let sql = sql_with_ids!(
                    c,
                    "select a.id, null as title, a.title as text from actions a where a.id in",
                    1,
                    ""
                );
                read(c, sql, &ids).await?
            }
            (InboxReason::Draft, _) => {
                let sql = sql_with_ids!(
                    c,
                    "select r.fork_id, null as title, r.headline from resolutions r where r.status = 'draft' and r.fork_id in",
                    1,
                    ""
                );
                read(c, sql, &ids).await?
            }
            (InboxReason::Resolve, _) => resolve_texts(c, &ids).await?,
            (_, InboxSubjectKind::Run) => {
                let sql = sql_with_ids!(
                    c,
                    "select r.id, w.name, t.error ->> 'message' as text from runs r join workflows w on w.id = r.workflow_id \
                     join tasks t on t.id = r.id where r.id in",
                    1,
                    ""
                );
                read(c, sql, &ids).await?
            }
            (_, InboxSubjectKind::Schedule) => {
                let sql = sql_with_ids!(
                    c,
                    "select s.id, s.name, case when s.status <> 'paused' then 'The last run failed or was missed.' \
                     when s.paused_reason = 'failing' then 'Paused: it failed five times in a row.' \
                     when s.paused_reason = 'owner_gone' then 'Paused: its owner can no longer run it.' \
                     else 'Paused by an admin.' end as text from schedules s where s.id in",
                    1,
                    ""
                );
                read(c, sql, &ids).await?
            }
            (_, InboxSubjectKind::Workflow) => {
                let sql = sql_with_ids!(
                    c,
                    "select w.id, w.name, 'Paused: its owner can no longer run it.' as text from workflows w where w.id in",
                    1,
                    ""
                );
                read(c, sql, &ids).await?
            }
            (_, InboxSubjectKind::Tool) => {
                let sql = sql_with_ids!(
                    c,
                    "select t.id, t.title, 'Its functions have changed: accept them again.' as text from tools t where t.id in",
                    1,
                    ""
                );
                read(c, sql, &ids).await?
            }
            (_, InboxSubjectKind::Bot) => {
                let sql = sql_with_ids!(
                    c,
                    "select s.bot_id, u.name, case when s.paused_reason = 'gone' then 'Paused: its address is gone.' \
                     else 'Paused: no answer for 3 days.' end as text from bot_subscriptions s join users u on u.id = s.bot_id where s.bot_id in",
                    1,
                    ""
                );
                read(c, sql, &ids).await?
            }
            (_, InboxSubjectKind::Budget) => {
                let sql = sql_with_ids!(
                    c,
                    "select b.id, null as title, 'A budget of this workspace has reached its warning.' as text from budgets b where b.id in",
                    1,
                    ""
                );
                read(c, sql, &ids).await?
            }
            (_, InboxSubjectKind::Member) => {
                let sql = sql_with_ids!(
                    c,
                    "select u.id, u.name, 'This guest leaves within three days.' as text from users u where u.id in",
                    1,
                    ""
                );
                read(c, sql, &ids).await?
            }
            (_, InboxSubjectKind::Merge) => {
                let sql = sql_with_ids!(
                    c,
                    "select u.id, u.name, 'An admin merged an imported person into you: you have their messages and channels now.' as text \
                     from users u where u.id in",
                    1,
                    ""
                );
                read(c, sql, &ids).await?
            }
            (_, InboxSubjectKind::Server) => {
                let texts = server_alerts::texts(c).await?;
                let solved = || "This problem is solved.".to_owned();
                ids.into_iter()
                    .map(|id| {
                        let text = texts.get(&id).cloned().unwrap_or_else(solved);
                        (id, Some("Server".to_owned()), Some(text))
                    })
                    .collect()
            }
            (_, InboxSubjectKind::Role) => {
                let sql = sql_with_ids!(
                    c,
                    "select u.id, u.name, 'A provider cannot demote or suspend the last admin, or an admin of the server.' as text \
                     from users u where u.id in",
                    1,
                    ""
                );
                read(c, sql, &ids).await?
            }
            (_, InboxSubjectKind::Identity) => {
                let sql = sql_with_ids!(
                    c,
                    "select i.id, u.name, p.name || ' has a new address for this person, which another account has: the old one stays.' as text \
                     from identities i join users u on u.id = i.user_id join identity_providers p on p.id = i.provider_id where i.id in",
                    1,
                    ""
                );
                read(c, sql, &ids).await?
            }
            (_, InboxSubjectKind::IdentityProvider) => {
                let sql = sql_with_ids!(
                    c,
                    "select p.id, p.name, 'Nobody could sign in with it for an hour: ' || coalesce(p.error, 'see its state') || '.' as text \
                     from identity_providers p where p.id in",
                    1,
                    ""
                );
                read(c, sql, &ids).await?
            }
            _ => continue,
        };
        for (id, title, text) in found {
            let text = SubjectText {
                title,
                text: text.unwrap_or_default(),
            };
            texts.insert((reason, id), text);
        }
    }
    Ok(texts)
}

/// Texts of forks that a person has to resolve: the step of the run that waits for it, or the agents of a collaboration that ended.
async fn resolve_texts(
    c: &mut Conn,
    forks: &[Uuid],
) -> Result<Vec<(Uuid, Option<String>, Option<String>)>, DbError> {
    let steps: Vec<(Uuid, String, i64)> = c
        .q(sql_with_ids!(
            c,
            "select s.fork_id, w.name, s.position from run_steps s join runs r on r.id = s.run_id \
             join workflows w on w.id = r.workflow_id where s.fork_id in",
            1,
            ""
        ))
        .bind(hexadecimal_ids(forks.iter().copied()))
        .all()
        .await?;
    let mut texts: HashMap<Uuid, String> = steps
        .into_iter()
        .map(|(fork, workflow, position)| {
            let text = format!("{workflow}, step {}: resolve this deep dive", position + 1);
            (fork, text)
        })
        .collect();
    let ended: Vec<(Uuid, Json<Collaboration>)> = c
        .q(sql_with_ids!(c, "select f.id, f.collaboration from forks f where f.collaboration is not null and f.id in", 1, ""))
        .bind(hexadecimal_ids(forks.iter().copied()))
        .all()
        .await?;
    for (fork, collaboration) in ended {
        if texts.contains_key(&fork) {
            continue;
        }
        let names = names(c, &collaboration.0).await?;
        texts.insert(fork, format!("{names} ended without a result"));
    }
    let texts = texts.into_iter();
    Ok(texts.map(|(fork, text)| (fork, None, Some(text))).collect())
}

/// Names of a collaboration's agents, such as "Coder, Writer and Vibe".
async fn names(c: &mut Conn, collaboration: &Collaboration) -> Result<String, DbError> {
    let mut names = Vec::with_capacity(collaboration.agents.len());
    for agent in &collaboration.agents {
        names.push(profiles::shown_name(c, *agent).await?);
    }
    let last = names.pop().unwrap_or_default();
    Ok(if names.is_empty() {
        last
    } else {
        format!("{} and {last}", names.join(", "))
    })
}
