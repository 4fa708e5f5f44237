//! USER.md: text in which a person tells agents about themselves.

use serde::{Deserialize, Serialize};

use crate::{
    chat::search::shared::{self, Readers},
    db::{Conn, DbError},
    ids::{UserId, WorkspaceId},
    patch::present,
    text_enum::{constant, text_enum},
    time::Timestamp,
};

/// Maximum size of USER.md in UTF-8 bytes.
pub(super) const USER_FILE_BYTES_MAX: usize = 16 * 1024;

text_enum! {
    /// Conversations in which agents read a requester's USER.md, and people who see it in records of prompts.
    pub enum UserFileVisibility {
        /// Read in direct messages between the person and agents, without other people; only the person sees it.
        Direct = "direct",
        /// Read in all conversations of the workspace; everyone who can read the conversation sees it.
        Workspace = "workspace",
    }
}

constant! { pub UserFileObject = "user_file" }
constant! { pub UserFilePath = "USER.md" }

/// USER.md of a person in a workspace; empty if it was never written or was deleted.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct UserFile {
    #[schema(inline)]
    pub object: UserFileObject,
    #[schema(inline)]
    pub path: UserFilePath,
    pub content: String,
    pub visibility: UserFileVisibility,
    /// Version of the file; 0 if it was never written.
    pub version: i64,
    pub updated_at: Option<Timestamp>,
}

/// Fields of `PUT /v1/members/me/files/USER.md`.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserFileForm {
    /// At most 16 KiB.
    pub content: String,
    /// Visibility; `direct` by default.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub visibility: Option<UserFileVisibility>,
}

#[derive(sqlx::FromRow)]
pub(super) struct Row {
    pub(super) content: Option<String>,
    visibility: UserFileVisibility,
    version: i64,
    updated_at: Timestamp,
}

pub(super) async fn find(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<Option<Row>, DbError> {
    c.q("select content, visibility, version, updated_at from user_files where workspace_id = $1 and user_id = $2")
        .bind(workspace)
        .bind(user)
        .opt()
        .await
}

pub(super) fn shown(row: Option<Row>) -> UserFile {
    let (version, written) = match row {
        Some(row) => (
            row.version,
            row.content
                .map(|content| (content, row.visibility, row.updated_at)),
        ),
        None => (0, None),
    };
    let (content, visibility, updated_at) = match written {
        Some((content, visibility, at)) => (content, visibility, Some(at)),
        None => (String::new(), UserFileVisibility::Direct, None),
    };
    UserFile {
        object: UserFileObject,
        path: UserFilePath,
        content,
        visibility,
        version,
        updated_at,
    }
}

/// USER.md of a requester, for a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequesterFile {
    /// The agent reads the file in this conversation.
    Read(String, UserFileVisibility),
    /// The file is shown only to the requester, and others can read the conversation.
    Personal,
    /// The file has no text, or the requester cannot read the conversation.
    Absent,
}

/// Returns the USER.md of a requester, if the agent can read it in this conversation.
pub async fn about(c: &mut Conn, readers: &Readers) -> Result<RequesterFile, DbError> {
    let row = find(c, readers.workspace, readers.requester).await?;
    let written = row.and_then(|row| Some((row.content?, row.visibility)));
    let Some((content, visibility)) = written.filter(|(content, _)| !content.trim().is_empty())
    else {
        return Ok(RequesterFile::Absent);
    };
    // Nothing is returned for former members, or for API keys that cannot read chats.
    let is_alone = shared::is_alone(c, readers).await?;
    Ok(match (visibility, is_alone) {
        (_, None) => RequesterFile::Absent,
        (UserFileVisibility::Direct, Some(false)) => RequesterFile::Personal,
        (_, Some(_)) => RequesterFile::Read(content, visibility),
    })
}
