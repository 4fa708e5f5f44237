//! Merges placeholders into members. The channels move at once; what the placeholder wrote, and where it is named, moves in batches.

use serde_json::Value;

use super::{
    announce::Announcer, archive::ArchiveFault, error::ImportError, row::check_none_running,
    run::Importer,
};
use crate::{
    auth::{
        Actor, AuditAction, Member, MemberStatus, Role, Scope, find_member, get_member,
        placeholders::{begin_merge, remove_placeholder},
        record_audit,
    },
    chat::{
        channels::take_over_channels,
        imported::{reassign, reassign_thread},
    },
    db::{Conn, DbError, Json, dialect},
    failpoint,
    forks::imported::reassign_forks,
    ids::{BEFORE_ALL_SEQS, ChannelId, MessageId, ThreadId, UserId, WorkflowId, WorkspaceId},
    inbox::{
        InboxSubject, InboxSubjectKind,
        notice::{Notice, open_notice},
    },
};

/// Number of messages that are read at once.
const ROWS_READ_MAX: i64 = 2000;
const CHANGED_AT_ONCE: usize = 100;

/// Begins to merge a placeholder into a member, who gets its channels.
///
/// # Errors
/// `Running` while an import is running, `Invalid` unless `placeholder` is a placeholder and `into` an active member; `MemberNotFound`, or an error from `Actor::require`.
pub async fn merge(
    c: &mut Conn,
    actor: &Actor<'_>,
    placeholder: UserId,
    into: UserId,
) -> Result<Member, ImportError> {
    actor.require(Scope::WorkspaceAdmin)?;
    let workspace = actor.workspace;
    dialect::lock_workspace(c, workspace.0).await?;
    check_none_running(c, workspace).await?;
    let gone = get_member(c, workspace, placeholder).await?;
    if gone.status != MemberStatus::Placeholder {
        let problem = format!("{placeholder} is not a placeholder of an import");
        return Err(ImportError::Invalid(problem, "user_id"));
    }
    let member = find_member(c, workspace, into).await?;
    let member = member.filter(|member| member.status == MemberStatus::Active);
    let Some(member) = member else {
        let problem = format!("{into} is not a member of the workspace");
        return Err(ImportError::Invalid(problem, "into"));
    };
    if member.role == Role::Guest {
        let problem = format!(
            "{into} is a guest, who would see the channels of the person: change the role first"
        );
        return Err(ImportError::Invalid(problem, "into"));
    }
    if !begin_merge(c, workspace, placeholder, into).await? {
        return Ok(member);
    }
    take_over(c, workspace, placeholder, into).await?;
    let notice = Notice {
        workspace,
        subject: InboxSubject::new(InboxSubjectKind::Merge, into.0),
        actor: Some(actor.user),
        channel: None,
    };
    open_notice(c, into, &notice).await?;
    let data = serde_json::json!({"name": gone.name, "into": into});
    record_audit(
        c,
        actor,
        AuditAction::MemberMerged,
        placeholder.to_string(),
        data,
    )
    .await?;
    Ok(member)
}

/// Gives a member the channels of a placeholder, and what later imports bring of it, at the beginning of a merge. A person who has left
/// since gets no channels.
async fn take_over(
    c: &mut Conn,
    workspace: WorkspaceId,
    placeholder: UserId,
    into: UserId,
) -> Result<(), ImportError> {
    c.q("update imported set id = $3 where workspace_id = $1 and id = $2")
        .bind(workspace)
        .bind(placeholder)
        .bind(into)
        .run()
        .await?;
    let member = find_member(c, workspace, into).await?;
    let is_here = member
        .is_some_and(|member| member.status == MemberStatus::Active && member.role != Role::Guest);
    if is_here {
        take_over_channels(c, workspace, placeholder, into).await?;
    }
    c.q("update member_merges set is_begun = TRUE where placeholder_id = $1")
        .bind(placeholder)
        .run()
        .await?;
    Ok(())
}

/// Names the member instead of the placeholder in imported workflows, which can name it as an approver.
async fn rename_approver(
    c: &mut Conn,
    workspace: WorkspaceId,
    from: UserId,
    to: UserId,
) -> Result<(), DbError> {
    let rows: Vec<(WorkflowId, Json<Value>)> = c
        .q("select id, content from workflows where workspace_id = $1 and CAST(content AS TEXT) like $2 order by id limit $3")
        .bind(workspace)
        .bind(format!("%{from}%"))
        .bind(ROWS_READ_MAX)
        .all()
        .await?;
    for (id, Json(content)) in rows {
        let renamed = content
            .to_string()
            .replace(&from.to_string(), &to.to_string());
        let renamed: Value = serde_json::from_str(&renamed).unwrap_or(content);
        c.q("update workflows set content = $2 where id = $1")
            .bind(id)
            .bind(Json(renamed))
            .run()
            .await?;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, sqlx::FromRow)]
struct Merge {
    placeholder_id: UserId,
    workspace_id: WorkspaceId,
    into_id: UserId,
    position: i64,
    is_begun: bool,
}

impl Importer {
    /// Finishes the oldest merge. Returns false if there is none.
    pub(super) async fn merge_next(&self) -> Result<bool, ImportError> {
        let next: Option<Merge> = self
            .db
            .read()
            .await?
            .q("select g.placeholder_id, g.workspace_id, g.into_id, g.position, g.is_begun from member_merges g where g.is_begun or not exists \
                (select 1 from imports i where i.workspace_id = g.workspace_id and i.state in ('running', 'undoing')) \
                order by g.created_at, g.placeholder_id limit 1")
            .opt()
            .await?;
        let Some(merge) = next else {
            return Ok(false);
        };
        // A person who claimed the placeholder by an invite gets its channels now.
        if !merge.is_begun {
            self.db
                .write(merge.workspace_id.0, async move |c: &mut Conn| {
                    dialect::lock_workspace(c, merge.workspace_id.0).await?;
                    check_none_running(c, merge.workspace_id).await?;
                    let (from, to) = (merge.placeholder_id, merge.into_id);
                    take_over(c, merge.workspace_id, from, to).await
                })
                .await?;
        }
        self.move_messages(merge).await?;
        self.move_threads(merge).await?;
        self.db
            .write(merge.workspace_id.0, async move |c: &mut Conn| {
                dialect::lock_workspace(c, merge.workspace_id.0).await?;
                // Deletes the row of the merge too.
                remove_placeholder(c, merge.workspace_id, merge.placeholder_id).await?;
                Ok::<_, ImportError>(())
            })
            .await?;
        Ok(true)
    }

    async fn move_messages(&self, merge: Merge) -> Result<(), ImportError> {
        let Merge {
            placeholder_id: from,
            into_id: to,
            workspace_id: workspace,
            position: mut above,
            ..
        } = merge;
        let mut announcer = Announcer::default();
        loop {
            let rows: Vec<(i64, MessageId, ChannelId, bool)> = self
                .db
                .read()
                .await?
                .q("select seq, id, channel_id, coalesce(author_id = $4 or CAST(mentions AS TEXT) like $5 \
                    or CAST(reactions AS TEXT) like $5, FALSE) \
                    from messages where workspace_id = $1 and seq > $2 order by seq limit $3")
                .bind(workspace)
                .bind(above)
                .bind(ROWS_READ_MAX)
                .bind(from)
                .bind(format!("%{from}%"))
                .all()
                .await?;
            let Some((last, ..)) = rows.last() else { break };
            above = *last;
            let named = rows.into_iter().filter(|(.., is_named)| *is_named);
            let named: Vec<(i64, MessageId, ChannelId)> = named
                .map(|(seq, id, channel, _)| (seq, id, channel))
                .collect();
            for batch in named.chunks(CHANGED_AT_ONCE) {
                if self.shutdown.is_cancelled() {
                    return Err(ArchiveFault::Stopped.into());
                }
                announcer.touch(batch.iter().map(|(.., channel)| *channel));
                let (batch, due) = (batch.to_vec(), announcer.due());
                self.db
                    .write(workspace.0, async move |c: &mut Conn| {
                        dialect::lock_workspace(c, workspace.0).await?;
                        for (_, id, _) in &batch {
                            reassign(c, *id, from, to).await?;
                        }
                        Announcer::announce(c, &due).await?;
                        let position = batch.last().map_or(BEFORE_ALL_SEQS, |(seq, ..)| *seq);
                        c.q("update member_merges set position = $2 where placeholder_id = $1")
                            .bind(from)
                            .bind(position)
                            .run()
                            .await?;
                        Ok::<_, ImportError>(())
                    })
                    .await?;
                failpoint!("merging");
            }
        }
        let due = announcer.all();
        self.db
            .write(workspace.0, async move |c: &mut Conn| {
                c.q("update message_mentions set target_id = $2 where target_id = $1 \
                     and channel_id in (select id from channels where workspace_id = $3) and not exists \
                     (select 1 from message_mentions o where o.channel_id = message_mentions.channel_id and o.target_id = $2 \
                       and o.seq = message_mentions.seq)")
                    .bind(from)
                    .bind(to)
                    .bind(workspace)
                    .run()
                    .await?;
                rename_approver(c, workspace, from, to).await?;
                reassign_forks(c, workspace, from, to).await?;
                c.q("update emoji set created_by = $3 where workspace_id = $1 and created_by = $2")
                    .bind(workspace)
                    .bind(from)
                    .bind(to)
                    .run()
                    .await?;
                c.q("delete from message_mentions where target_id = $1 \
                     and channel_id in (select id from channels where workspace_id = $2)")
                    .bind(from)
                    .bind(workspace)
                    .run()
                    .await?;
                Ok::<_, ImportError>(Announcer::announce(c, &due).await?)
            })
            .await
    }

    async fn move_threads(&self, merge: Merge) -> Result<(), ImportError> {
        let (from, to, workspace) = (merge.placeholder_id, merge.into_id, merge.workspace_id);
        let mut after = ThreadId(uuid::Uuid::nil());
        loop {
            let rows: Vec<(ThreadId, bool)> = self
                .db
                .read()
                .await?
                .q(
                    "select id, created_by = $4 or CAST(participants AS TEXT) like $5 from threads \
                    where workspace_id = $1 and id > $2 order by id limit $3",
                )
                .bind(workspace)
                .bind(after)
                .bind(ROWS_READ_MAX)
                .bind(from)
                .bind(format!("%{from}%"))
                .all()
                .await?;
            let Some((last, _)) = rows.last() else {
                return Ok(());
            };
            after = *last;
            let named = rows.into_iter().filter(|(_, is_named)| *is_named);
            let named: Vec<ThreadId> = named.map(|(id, _)| id).collect();
            for batch in named.chunks(CHANGED_AT_ONCE) {
                let batch = batch.to_vec();
                self.db
                    .write(workspace.0, async move |c: &mut Conn| {
                        dialect::lock_workspace(c, workspace.0).await?;
                        for id in &batch {
                            reassign_thread(c, *id, from, to).await?;
                        }
                        Ok::<_, ImportError>(())
                    })
                    .await?;
            }
        }
    }
}
