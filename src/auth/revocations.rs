//! Revocations: ended sessions, deleted keys, and changed roles, whose sockets close on every node.
//!
//! ```text
//! transaction: change + row of the revocation ─► commit ─► signal ─► sockets of this node
//!                                                     ╰──► rows, read by the other nodes ─► their sockets
//! ```
//!
//! The row is part of the transaction that ends the access, so neither exists without the other. Each node applies a
//! revocation once, whether it receives it through its own commit or from the row. `SQLite` has a single node, so there are no
//! rows. The removal of a member is announced by the event log instead.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use uuid::Uuid;

use crate::{
    db::{Conn, Db, DbError, Engine, dialect},
    ids::{ApiKeyId, SessionId, UserId, WorkspaceId},
    realtime::{Close, Hub, hub::Socket},
    text_enum::text_enum,
    time::Timestamp,
};

/// Retention of rows. A node that was unavailable for longer has closed its sockets.
const KEPT: Duration = Duration::from_mins(10);
/// Maximum time from the insertion of a row to its commit. It is far longer than the statement timeouts permit for a usual batch of
/// writes. If a commit takes longer anyway, a socket stays open until its next heartbeat.
const COMMIT_WITHIN: Duration = Duration::from_mins(2);
/// Number of rows per read.
const PAGE_ROWS: i64 = 500;

text_enum! {
    /// Stored kind of a revocation.
    enum RevocationKind {
        Session = "session",
        Key = "key",
        Sessions = "sessions",
        Keys = "keys",
        User = "user",
        Workspace = "workspace",
    }
}

/// Access that has ended. Sockets that lose it close with 4001.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revocation {
    Session(SessionId),
    Key(ApiKeyId),
    /// All sessions of a user, or all except for `except`.
    Sessions {
        user: UserId,
        except: Option<SessionId>,
    },
    /// All keys of a user, in every workspace.
    Keys(UserId),
    /// All sessions and keys of a user, in one workspace or in all.
    User {
        user: UserId,
        workspace: Option<WorkspaceId>,
    },
    /// Sessions that do not meet what a workspace demands. Their sockets close with 4003.
    Workspace(WorkspaceId),
}

impl Revocation {
    /// Checks whether the socket may lose its access.
    pub fn matches(&self, socket: &Socket) -> bool {
        match *self {
            Self::Session(id) => socket.session == Some(id),
            Self::Key(id) => socket.key == Some(id),
            Self::Sessions { user, except } => {
                socket.user == user && socket.session.is_some() && socket.session != except
            }
            Self::Keys(user) => socket.user == user && socket.key.is_some(),
            Self::User { user, workspace } => {
                socket.user == user && workspace.is_none_or(|id| socket.workspace == id)
            }
            Self::Workspace(id) => socket.workspace == id,
        }
    }

    /// Closes the sockets of this node that lose their access. If all sessions or keys of a person are revoked, the sockets check
    /// their access first, because a node may receive a password or role change after the person has signed in again.
    pub fn close_sockets(&self, hub: &Hub) {
        match self {
            Self::Session(_) | Self::Key(_) => {
                hub.close_where(Close::NotAuthenticated, |socket| self.matches(socket));
            }
            Self::Sessions { .. } | Self::Keys(_) | Self::User { .. } | Self::Workspace(_) => {
                hub.doubt_where(|socket| self.matches(socket));
            }
        }
    }

    fn kind(&self) -> RevocationKind {
        match self {
            Self::Session(_) => RevocationKind::Session,
            Self::Key(_) => RevocationKind::Key,
            Self::Sessions { .. } => RevocationKind::Sessions,
            Self::Keys(_) => RevocationKind::Keys,
            Self::User { .. } => RevocationKind::User,
            Self::Workspace(_) => RevocationKind::Workspace,
        }
    }

    fn target(&self) -> Uuid {
        match *self {
            Self::Session(id) => id.0,
            Self::Key(id) => id.0,
            Self::Workspace(id) => id.0,
            Self::Sessions { user, .. } | Self::Keys(user) | Self::User { user, .. } => user.0,
        }
    }
}

/// Signal that a revocation was committed.
pub struct Revoked {
    /// ID of the row; `None` on `SQLite`.
    pub id: Option<Uuid>,
    pub revocation: Revocation,
}

/// Records a revocation in the transaction that ends the access, and signals it after the commit.
///
/// # Errors
/// Only database errors.
pub async fn record(c: &mut Conn, revocation: Revocation) -> Result<(), DbError> {
    let id = match c.engine() {
        Engine::Sqlite => None,
        Engine::Postgres => Some(insert(c, &revocation).await?),
    };
    c.notify(Box::new(Revoked { id, revocation }));
    Ok(())
}

async fn insert(c: &mut Conn, revocation: &Revocation) -> Result<Uuid, DbError> {
    let id = Uuid::now_v7();
    let (workspace, except) = match *revocation {
        Revocation::User { workspace, .. } => (workspace, None),
        Revocation::Sessions { except, .. } => (None, except),
        Revocation::Session(_)
        | Revocation::Key(_)
        | Revocation::Keys(_)
        | Revocation::Workspace(_) => (None, None),
    };
    c.q(
        "insert into revocations (id, kind, target, workspace_id, except_session, created_at) \
         values ($1, $2, $3, $4, $5, clock_timestamp())",
    )
    .bind(id)
    .bind(revocation.kind())
    .bind(revocation.target())
    .bind(workspace)
    .bind(except)
    .run()
    .await?;
    Ok(id)
}

#[derive(sqlx::FromRow)]
struct RevocationRow {
    id: Uuid,
    kind: String,
    target: Uuid,
    workspace_id: Option<WorkspaceId>,
    except_session: Option<SessionId>,
    created_at: Timestamp,
}

impl RevocationRow {
    /// The revocation; `None` for a kind that only a newer version supports. The sockets then close at their next heartbeat.
    fn revocation(&self) -> Option<Revocation> {
        let user = UserId(self.target);
        Some(match self.kind.parse::<RevocationKind>().ok()? {
            RevocationKind::Session => Revocation::Session(SessionId(self.target)),
            RevocationKind::Key => Revocation::Key(ApiKeyId(self.target)),
            RevocationKind::Sessions => Revocation::Sessions {
                user,
                except: self.except_session,
            },
            RevocationKind::Keys => Revocation::Keys(user),
            RevocationKind::Workspace => Revocation::Workspace(WorkspaceId(self.target)),
            RevocationKind::User => Revocation::User {
                user,
                workspace: self.workspace_id,
            },
        })
    }
}

/// Lists committed rows created after `since`, oldest first.
async fn newer_than(c: &mut Conn, since: Timestamp) -> Result<Vec<RevocationRow>, DbError> {
    let mut rows: Vec<RevocationRow> = Vec::new();
    loop {
        let (at, id) = rows
            .last()
            .map_or((since, Uuid::nil()), |row| (row.created_at, row.id));
        let page: Vec<RevocationRow> = c
            .q("select id, kind, target, workspace_id, except_session, created_at from revocations \
                where (created_at, id) > ($1, $2) order by created_at, id limit $3")
            .bind(at)
            .bind(id)
            .bind(PAGE_ROWS)
            .all()
            .await?;
        let has_more = i64::try_from(page.len()) == Ok(PAGE_ROWS);
        rows.extend(page);
        if !has_more {
            return Ok(rows);
        }
    }
}

/// Deletes rows that are older than `KEPT`, which every node has read unless it was unavailable for that long.
///
/// # Errors
/// Only database errors.
pub async fn delete_expired(db: &Db) -> Result<(), DbError> {
    if db.engine() == Engine::Sqlite {
        return Ok(());
    }
    let before = dialect::clock(&mut db.read().await?).await? - KEPT;
    db.delete_expired(
        before,
        "select exists (select 1 from revocations where created_at < $1)",
        "delete from revocations where id in \
         (select id from revocations where created_at < $1 order by created_at, id limit $2 for update skip locked)",
    )
    .await?;
    Ok(())
}

/// Revocations of all nodes, each returned once.
///
/// Transactions may commit in a different order than they insert their rows, so a read cannot simply continue after the newest
/// known row: an older one may appear later. Each read therefore goes back `COMMIT_WITHIN` before the newest row, by the clock
/// of the database, which sets `created_at`, and skips the IDs that were already applied. IDs are forgotten once no later read
/// can return them, so their number is bounded by the number of recent rows. After failed reads, the next one continues where
/// the last successful one ended.
#[derive(Default)]
pub struct RevocationFeed(Mutex<Applied>);

struct Applied {
    /// Number of successful reads.
    reads: u64,
    /// Rows created up to this time have been applied.
    since: Timestamp,
    /// For each applied ID, the number of the read that last returned it, or of the last read before it was applied.
    ids: HashMap<Uuid, u64>,
}

impl Default for Applied {
    fn default() -> Self {
        Self {
            reads: 0,
            since: Timestamp::EPOCH,
            ids: HashMap::new(),
        }
    }
}

impl RevocationFeed {
    fn lock(&self) -> MutexGuard<'_, Applied> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that this node applies a revocation. Returns false if the node has already applied it.
    pub fn apply(&self, id: Uuid) -> bool {
        let mut applied = self.lock();
        let reads = applied.reads;
        applied.ids.insert(id, reads).is_none()
    }

    /// Reads the revocations that this node has not applied yet. A starting node calls this before it accepts sockets, and ignores
    /// the result.
    ///
    /// # Errors
    /// Only database errors; after an error, no revocation counts as applied.
    pub async fn read_new(&self, c: &mut Conn) -> Result<Vec<Revocation>, DbError> {
        if c.engine() == Engine::Sqlite {
            return Ok(Vec::new());
        }
        let since = self.lock().since;
        let rows = newer_than(c, since).await?;
        let mut new = Vec::new();
        let mut applied = self.lock();
        let read = applied.reads;
        for row in &rows {
            // Stores the number of the latest read that returned the ID. IDs that are no longer returned keep an older number, and
            // are removed below.
            if applied.ids.insert(row.id, read + 1).is_none() {
                new.extend(row.revocation());
            }
        }
        // IDs that were applied while this read was running may be missing from its result, so they are kept until the next read.
        applied.ids.retain(|_, last| *last >= read);
        applied.reads += 1;
        if let Some(newest) = rows.last() {
            applied.since = applied.since.max(newest.created_at - COMMIT_WITHIN);
        }
        Ok(new)
    }
}
