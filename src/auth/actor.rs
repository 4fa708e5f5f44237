//! Callers and actors: people with their roles and scopes.

use std::time::Duration;

use super::{AuthError, Role, RouteReach, Scope, Scopes, UserKind, demands, guests, has_demands};
use crate::{
    db::{Conn, Db, DbError, Json, Share, now},
    ids::{ApiKeyId, BotId, SessionId, TaskId, UserId, WorkspaceId},
    realtime::{Reach, log::AgentVisibility},
    time::Timestamp,
};

/// Time for which a sign-in or a confirmation permits changes to the ways of signing in.
const CONFIRMED_FOR: Duration = Duration::from_mins(10);

/// SQL expression that is true if the session or key with the ID `$id` exists and has not expired at `$now`. The key of a turn has the ID of
/// its task, and ends with it.
macro_rules! credential_is_valid {
    ($id:literal, $now:literal) => {
        concat!(
            "(exists (select 1 from sessions where id = ",
            $id,
            " and expires_at > ",
            $now,
            ") or exists (select 1 from api_keys where id = ",
            $id,
            " and (expires_at is null or expires_at > ",
            $now,
            ")) or exists (select 1 from bot_keys where id = ",
            $id,
            ") or exists (select 1 from task_keys tk join tasks tt on tt.id = tk.task_id where tk.task_id = ",
            $id,
            " and tk.key_hash is not null and tt.status in ('queued', 'running')))"
        )
    };
}
pub(crate) use credential_is_valid;

/// Credential of a request.
#[derive(Debug, Clone)]
pub enum Credential {
    Session(SessionId),
    Key {
        id: ApiKeyId,
        workspace: WorkspaceId,
        scopes: Scopes,
        expires_at: Option<Timestamp>,
    },
}

/// State of a credential in a workspace, read by the query that finds the role.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
pub(crate) struct CredentialState {
    /// True if the session or key has not ended.
    pub is_valid: bool,
    /// True if the workspace demands something of sessions.
    pub has_demands: bool,
}

/// A signed-in person or a bot with a key, before a workspace is known.
#[derive(Debug, Clone)]
pub struct Caller {
    pub user: UserId,
    pub kind: UserKind,
    pub name: String,
    pub credential: Credential,
    /// Reach of the request's route.
    pub reach: RouteReach,
    /// The task to which the credential belongs, if it is the key of a turn on a runner.
    pub turn: Option<TaskId>,
}

/// A person in one workspace, as of the transaction or read that looked them up.
///
/// An actor borrows its caller, and write commands are `'static`. The compiler therefore rejects a command that
/// captures an actor from outside, so that rights are always checked in the transaction that uses them.
///
/// ```compile_fail,E0597
/// use openvibe::{auth::{AuthError, Caller, Scope}, db::{Conn, Db}, ids::WorkspaceId};
///
/// async fn decide_before_the_queue(db: &Db, caller: Caller, workspace: WorkspaceId) -> Result<(), AuthError> {
///     let actor = caller.enter(&mut db.read().await?, workspace).await?;
///     db.write(workspace.0, async move |_: &mut Conn| actor.require(Scope::WorkspaceAdmin)).await
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Actor<'a> {
    pub user: UserId,
    pub name: &'a str,
    pub workspace: WorkspaceId,
    pub role: Role,
    pub scopes: Scopes,
    pub key: Option<ApiKeyId>,
}

/// Snapshot of role and scopes, for information in long-running work; grants no rights.
#[derive(Debug, Clone)]
pub struct ActorSnapshot {
    pub user: UserId,
    pub workspace: WorkspaceId,
    pub role: Role,
    pub scopes: Scopes,
}

impl Caller {
    /// Checks whether the credential is valid in a workspace. For a key of another workspace, objects are reported as
    /// missing.
    pub fn may_enter(&self, workspace: WorkspaceId) -> bool {
        match &self.credential {
            Credential::Session(_) => true,
            Credential::Key { workspace: own, .. } => *own == workspace,
        }
    }

    /// The bot whose key was sent; `None` for a person.
    pub fn bot(&self) -> Option<BotId> {
        match self.kind {
            UserKind::Bot => Some(BotId(self.user.0)),
            UserKind::Person | UserKind::Example => None,
        }
    }

    pub fn key(&self) -> Option<ApiKeyId> {
        match &self.credential {
            Credential::Session(_) => None,
            Credential::Key { id, .. } => Some(*id),
        }
    }

    /// Time from which the key is no longer valid; `None` for a session, which is extended while it is used.
    pub fn key_expires_at(&self) -> Option<Timestamp> {
        match &self.credential {
            Credential::Session(_) => None,
            Credential::Key { expires_at, .. } => *expires_at,
        }
    }

    /// ID of the session or key, for `credential_is_valid!`.
    pub fn credential_id(&self) -> uuid::Uuid {
        match &self.credential {
            Credential::Session(id) => id.0,
            Credential::Key { id, .. } => id.0,
        }
    }

    /// Builds the actor from a role and the state of the credential that were just read, and checks what the workspace demands. Ignores
    /// restrictions by the workspace policy, which affect only agent routes; those use `enter`.
    ///
    /// # Errors
    /// `NotAuthenticated` if the session or key has ended since the request was authenticated, a demand that it does not meet, or
    /// `NotForGuests`.
    pub(crate) async fn acting(
        &self,
        c: &mut Conn,
        workspace: WorkspaceId,
        role: Role,
        credential: CredentialState,
    ) -> Result<Actor<'_>, AuthError> {
        if !credential.is_valid {
            return Err(AuthError::NotAuthenticated);
        }
        // Keys meet all demands: a session that met them created the key.
        if let Credential::Session(session) = &self.credential
            && credential.has_demands
        {
            demands::check(c, self.user, *session, workspace).await?;
        }
        // Included in the log lines of this request.
        tracing::Span::current().record("workspace.id", tracing::field::display(workspace));
        let mut scopes = match self.kind {
            UserKind::Person | UserKind::Example => role.scopes(),
            // They may have changed since the request was authenticated.
            UserKind::Bot => {
                let row: Option<(Json<Scopes>,)> = c
                    .q("select scopes from bots where id = $1")
                    .bind(self.user)
                    .opt()
                    .await?;
                row.ok_or(AuthError::NotAuthenticated)?.0.0
            }
        };
        if let Credential::Key {
            scopes: granted, ..
        } = &self.credential
        {
            scopes.0.retain(|scope| granted.has(*scope));
        }
        if role == Role::Guest {
            // Guests have no keys; one that is left from an earlier role is refused.
            let reach = match self.credential {
                Credential::Session(_) => self.reach,
                Credential::Key { .. } => RouteReach::Members,
            };
            guests::admit(c, workspace, self.user, reach, &mut scopes).await?;
        }
        Ok(Actor {
            user: self.user,
            name: &self.name,
            workspace,
            role,
            scopes,
            key: self.key(),
        })
    }

    /// # Errors
    /// `WorkspaceNotFound` if this person is not a member or the key belongs to another workspace, or `NotAuthenticated` if the
    /// session or key has ended, or an error for what the workspace demands of sessions.
    pub async fn enter(
        &self,
        c: &mut Conn,
        workspace: WorkspaceId,
    ) -> Result<Actor<'_>, AuthError> {
        if !self.may_enter(workspace) {
            return Err(AuthError::WorkspaceNotFound);
        }
        if let Some(bot) = self.bot() {
            return self.enter_as_bot(c, workspace, bot).await;
        }
        let row: Option<(Role, bool, bool, bool)> = c
            .q(concat!(
                "select m.role, coalesce(p.members_write_agents, TRUE), ",
                credential_is_valid!("$3", "$4"),
                ", ",
                has_demands!("m.workspace_id"),
                " from members m left join workspace_policies p on p.workspace_id = m.workspace_id \
                 where m.workspace_id = $1 and m.user_id = $2 and m.status <> 'placeholder'"
            ))
            .bind(workspace)
            .bind(self.user)
            .bind(self.credential_id())
            .bind(now())
            .opt()
            .await?;
        let (role, members_write_agents, is_valid, has_demands) =
            row.ok_or(AuthError::WorkspaceNotFound)?;
        let credential = CredentialState {
            is_valid,
            has_demands,
        };
        let mut actor = self.acting(c, workspace, role, credential).await?;
        if !role.writes_agents(members_write_agents) {
            actor.scopes.0.remove(&Scope::AgentsWrite);
        }
        Ok(actor)
    }

    async fn enter_as_bot(
        &self,
        c: &mut Conn,
        workspace: WorkspaceId,
        bot: BotId,
    ) -> Result<Actor<'_>, AuthError> {
        let row: Option<(bool,)> = c
            .q(concat!(
                "select ",
                credential_is_valid!("$3", "$4"),
                " from bots b where b.workspace_id = $1 and b.id = $2 and b.status = 'active'"
            ))
            .bind(workspace)
            .bind(bot)
            .bind(self.credential_id())
            .bind(now())
            .opt()
            .await?;
        let (is_valid,) = row.ok_or(AuthError::WorkspaceNotFound)?;
        let credential = CredentialState {
            is_valid,
            // Demands concern sessions.
            has_demands: false,
        };
        self.acting(c, workspace, Role::Viewer, credential).await
    }

    /// Checks the credential for actions on the account itself, outside of any workspace.
    ///
    /// # Errors
    /// `NotAuthenticated` if the session or key has ended.
    pub async fn check_credential(&self, c: &mut Conn) -> Result<(), AuthError> {
        let is_valid: bool = c
            .q(concat!("select ", credential_is_valid!("$1", "$2")))
            .bind(self.credential_id())
            .bind(now())
            .value()
            .await?;
        if is_valid {
            Ok(())
        } else {
            Err(AuthError::NotAuthenticated)
        }
    }

    /// Runs a command on the caller's own account, in the caller's turn, and checks the credential in its transaction.
    ///
    /// # Errors
    /// `NotAuthenticated`, or an error from the command.
    pub async fn write<T, E, F>(&self, db: &Db, command: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbError> + From<AuthError> + Send + 'static,
        F: AsyncFn(&mut Conn) -> Result<T, E> + Send + 'static,
    {
        let caller = self.clone();
        db.write_in_turn(self.user.0, uuid::Uuid::nil(), async move |c: &mut Conn| {
            caller.check_credential(c).await?;
            command(c).await
        })
        .await
    }

    /// Like `write`, for changes that need a recent sign-in or confirmation.
    ///
    /// # Errors
    /// Same as `require_confirmed`, or an error from the command.
    pub async fn write_confirmed<T, E, F>(&self, db: &Db, command: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbError> + From<AuthError> + Send + 'static,
        F: AsyncFn(&mut Conn) -> Result<T, E> + Send + 'static,
    {
        let caller = self.clone();
        self.write(db, async move |c: &mut Conn| {
            caller.require_confirmed(c).await?;
            command(c).await
        })
        .await
    }

    /// This person's share of the lane for slow reads in a workspace.
    pub fn share(&self, workspace: WorkspaceId) -> Share {
        Share {
            person: self.user.0,
            workspace: workspace.0,
        }
    }

    /// Checks that the person signed in, or confirmed that it is them, a short time ago.
    ///
    /// # Errors
    /// `SessionRequired` for a key, `NotAuthenticated` if the session has ended, or `ConfirmationRequired`.
    pub async fn require_confirmed(&self, c: &mut Conn) -> Result<SessionId, AuthError> {
        let session = self.require_session()?;
        let row: Option<(Timestamp,)> = c
            .q("select coalesce(confirmed_at, created_at) from sessions where id = $1 and expires_at > $2")
            .bind(session)
            .bind(now())
            .opt()
            .await?;
        let (at,) = row.ok_or(AuthError::NotAuthenticated)?;
        if at < now() - CONFIRMED_FOR {
            return Err(AuthError::ConfirmationRequired);
        }
        Ok(session)
    }

    /// The same for a session. A key passes, because only a confirmed person makes one with the rights of an admin.
    ///
    /// # Errors
    /// Same as `require_confirmed`.
    pub async fn require_confirmed_session(&self, c: &mut Conn) -> Result<(), AuthError> {
        match &self.credential {
            Credential::Session(_) => self.require_confirmed(c).await.map(|_| ()),
            Credential::Key { .. } => Ok(()),
        }
    }

    /// # Errors
    /// `SessionRequired` for a key: account changes need a session.
    pub fn require_session(&self) -> Result<SessionId, AuthError> {
        match &self.credential {
            Credential::Session(id) => Ok(*id),
            Credential::Key { .. } => Err(AuthError::SessionRequired),
        }
    }
}

/// A signed-in person and the workspace of a request, before membership is checked.
#[derive(Debug, Clone)]
pub struct WorkspaceCaller {
    pub caller: Caller,
    pub workspace: WorkspaceId,
}

impl WorkspaceCaller {
    /// This person's share of the lane for slow reads in the workspace.
    pub fn share(&self) -> Share {
        self.caller.share(self.workspace)
    }

    /// # Errors
    /// Same as `Caller::enter`.
    pub async fn enter(&self, c: &mut Conn) -> Result<Actor<'_>, AuthError> {
        self.caller.enter(c, self.workspace).await
    }

    /// Runs a command in the workspace's write queue, with the rights that this person has when it runs.
    ///
    /// # Errors
    /// Same as `Caller::enter`, or an error from the command.
    pub async fn write<T, E, F>(self, db: &Db, command: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbError> + From<AuthError> + Send + 'static,
        F: AsyncFn(&mut Conn, &Actor<'_>) -> Result<T, E> + Send + 'static,
    {
        db.write(self.workspace.0, async move |c: &mut Conn| {
            let actor = self.enter(c).await?;
            command(c, &actor).await
        })
        .await
    }
}

impl ActorSnapshot {
    /// Rights as a number, for comparison with the rights that `auth::doubts` reads later.
    pub fn rights(&self) -> u8 {
        self.role.rights(self.scopes.has(Scope::AgentsWrite))
    }

    /// Agents whose events this person can see.
    pub fn visibility(&self) -> AgentVisibility {
        let is_guest = self.role == Role::Guest;
        AgentVisibility {
            // Such events contain the whole agent, which guests cannot read.
            agents: self.scopes.has(Scope::AgentsRead) && !is_guest,
            all_agents: self.scopes.has(Scope::AgentsAdmin),
            reach: if is_guest {
                Reach::Joined
            } else {
                Reach::Workspace
            },
        }
    }
}

impl Actor<'_> {
    pub fn snapshot(&self) -> ActorSnapshot {
        ActorSnapshot {
            user: self.user,
            workspace: self.workspace,
            role: self.role,
            scopes: self.scopes.clone(),
        }
    }

    /// Agents whose events this person can see.
    pub fn visibility(&self) -> AgentVisibility {
        self.snapshot().visibility()
    }

    /// Checks the right to change the person's own membership and keys, for which API keys need `workspace:admin`.
    ///
    /// # Errors
    /// `SessionRequired` for a key without `workspace:admin`.
    pub fn require_person(&self) -> Result<(), AuthError> {
        if self.key.is_none() || self.scopes.has(Scope::WorkspaceAdmin) {
            Ok(())
        } else {
            Err(AuthError::SessionRequired)
        }
    }

    /// # Errors
    /// `RoleTooLow` or `ScopeMissing`, with the missing scope.
    pub fn require(&self, scope: Scope) -> Result<(), AuthError> {
        if self.scopes.has(scope) {
            return Ok(());
        }
        Err(if self.key.is_some() && self.role.scopes().has(scope) {
            AuthError::ScopeMissing(scope)
        } else {
            AuthError::RoleTooLow {
                role: self.role,
                scope,
            }
        })
    }
}
