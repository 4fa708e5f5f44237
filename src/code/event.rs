//! Events about repositories and sessions. They contain no texts, so that clients read the current object with their own rights.

use serde::Serialize;

use crate::{
    db::{Conn, DbError},
    ids::{CodeSessionId, RepositoryId, WorkspaceId},
    realtime::{
        Audience, EventData, EventType, NewEvent,
        log::{self, Recipients},
    },
};

#[derive(Serialize, utoipa::ToSchema)]
pub struct RepositoryEvent {
    repository_id: RepositoryId,
    /// Null if the repository was deleted together with its runner.
    version: Option<i64>,
}

impl EventData for RepositoryEvent {
    const TYPES: &'static [EventType] = &[EventType::RepositoryUpdated];
}

#[derive(Serialize, utoipa::ToSchema)]
pub struct CodeSessionEvent {
    pub(super) code_session_id: CodeSessionId,
    pub(super) version: i64,
}

impl EventData for CodeSessionEvent {
    const TYPES: &'static [EventType] = &[EventType::CodeSessionUpdated];
}

/// People who receive an event about a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToldAbout {
    /// Only people who manage agents: others cannot see the repository, or its change does not concern them.
    Managers,
    Everyone,
}

/// Appends `repository.updated`.
pub(super) async fn announce_repository(
    c: &mut Conn,
    workspace: WorkspaceId,
    repository_id: RepositoryId,
    version: Option<i64>,
    to: ToldAbout,
) -> Result<(), DbError> {
    let seq = log::reserve(c, workspace, 1).await?;
    let data = RepositoryEvent {
        repository_id,
        version,
    };
    let event = NewEvent::new(
        seq,
        EventType::RepositoryUpdated,
        Audience::Workspace,
        &data,
    )?;
    let only = (to == ToldAbout::Managers).then(|| Recipients {
        users: Vec::new(),
        managers: true,
    });
    log::append(c, workspace, event.only_to(only)).await
}
