//! Events about skills. They contain no texts, so that they can be sent to people who have lost access.

use std::collections::HashSet;

use serde::Serialize;

use crate::{
    db::{Conn, DbError, is_readable_skill},
    ids::{SkillId, UserId, WorkspaceId},
    realtime::{
        Audience, EventData, EventType, NewEvent,
        log::{self, Recipients},
    },
};

#[derive(Serialize, utoipa::ToSchema)]
pub struct SkillEvent {
    skill_id: SkillId,
    /// Null if the skill was deleted, or if the recipient can no longer read it.
    version: Option<i64>,
}

impl EventData for SkillEvent {
    const TYPES: &'static [EventType] = &[EventType::SkillUpdated];
}

/// People who can read a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SkillReaders {
    /// Everyone in the workspace except for guests.
    All,
    Some(Vec<UserId>),
}

impl SkillReaders {
    pub(super) async fn find(c: &mut Conn, id: SkillId) -> Result<Self, DbError> {
        let for_all: Option<(bool,)> = c
            .q("select for_all from skills where id = $1")
            .bind(id)
            .opt()
            .await?;
        if for_all.is_some_and(|(for_all,)| for_all) {
            return Ok(Self::All);
        }
        Ok(Self::Some(Self::list(c, id).await?))
    }

    async fn list(c: &mut Conn, id: SkillId) -> Result<Vec<UserId>, DbError> {
        let rows: Vec<(UserId,)> = c
            .q(concat!(
                "select m.user_id from skills s join members m on m.workspace_id = s.workspace_id where s.id = $1 \
                 and m.role <> 'guest' and ",
                is_readable_skill!("m.user_id")
            ))
            .bind(id)
            .all()
            .await?;
        Ok(rows.into_iter().map(|(user,)| user).collect())
    }

    /// Members who are among these readers but not among `after`.
    async fn without(
        &self,
        c: &mut Conn,
        workspace: WorkspaceId,
        after: &Self,
    ) -> Result<Vec<UserId>, DbError> {
        let Self::Some(kept) = after else {
            return Ok(Vec::new());
        };
        let mut lost = match self {
            Self::Some(users) => users.clone(),
            Self::All => {
                let rows: Vec<(UserId,)> = c
                    .q("select user_id from members where workspace_id = $1 and role <> 'guest'")
                    .bind(workspace)
                    .all()
                    .await?;
                rows.into_iter().map(|(user,)| user).collect()
            }
        };
        let kept: HashSet<&UserId> = kept.iter().collect();
        lost.retain(|user| !kept.contains(user));
        Ok(lost)
    }

    fn recipients(self) -> Option<Recipients> {
        match self {
            Self::All => None,
            Self::Some(users) => Some(Recipients {
                users,
                managers: false,
            }),
        }
    }
}

/// Sends an event about a new or changed skill to its readers, and one about its end to those who can no longer read it.
pub(super) async fn announce_change(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: SkillId,
    version: i64,
    before: &SkillReaders,
) -> Result<(), DbError> {
    let after = SkillReaders::find(c, id).await?;
    let lost = before.without(c, workspace, &after).await?;
    if !lost.is_empty() {
        append(c, workspace, id, None, SkillReaders::Some(lost)).await?;
    }
    append(c, workspace, id, Some(version), after).await
}

/// Sends an event about the end of a skill to its former readers.
pub(super) async fn announce_end(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: SkillId,
    before: SkillReaders,
) -> Result<(), DbError> {
    append(c, workspace, id, None, before).await
}

async fn append(
    c: &mut Conn,
    workspace: WorkspaceId,
    skill_id: SkillId,
    version: Option<i64>,
    to: SkillReaders,
) -> Result<(), DbError> {
    let seq = log::reserve(c, workspace, 1).await?;
    let data = SkillEvent { skill_id, version };
    let event = NewEvent::new(seq, EventType::SkillUpdated, Audience::Workspace, &data)?;
    log::append(c, workspace, event.only_to(to.recipients())).await
}
