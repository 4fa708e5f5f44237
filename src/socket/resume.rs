//! Frames that a client receives before its socket is live: `ready`, missed events, and `live`.
//!
//! No database connection is held during a write to the client: each page is read and the connection is returned before the page is
//! sent.

use std::time::Duration;

use tokio::{sync::OwnedSemaphorePermit, time::timeout};

use crate::{
    auth::{AnswerSize, AuthError, Caller, Scope, guests},
    db::{Conn, DbError, dialect, is_visible_channel},
    ids::ChannelId,
    realtime::{EventScope, Followed, Reach, encode_frame, log},
    server::caller::caller_of,
};

use super::{
    connection::{
        CATCH_UP_TURN_WITHIN, Connection, GOING_AWAY, NOT_AUTHENTICATED, NOT_IN_WORKSPACE,
        WriteError,
    },
    control::ControlFrame,
    hello::Hello,
};

/// Maximum time that a socket waits for the room of its workspace to get a position in the log.
const ROOM_OPENS_WITHIN: Duration = Duration::from_secs(15);
/// Maximum number and total size of the events in one page of the log; a single larger event is
/// still sent.
const PAGE_EVENTS_MAX: i64 = 256;
const PAGE_BYTES_MAX: i64 = 1024 * 1024;
/// Maximum number of sequence numbers scanned per page, including those of events that the person cannot see, so that a person who
/// can see few events causes no more load than others.
const PAGE_SCANNED_MAX: i64 = 4096;

/// Reason why a socket could not catch up.
pub(super) enum ResumeError {
    /// The socket has to close with this code; 0 if the peer left.
    Closed(u16),
    Db(DbError),
}

impl ResumeError {
    /// Close code for the error. If the database failed, the code makes the client reconnect.
    pub(super) fn close_code(self) -> u16 {
        match self {
            Self::Closed(code) => code,
            Self::Db(e) => {
                tracing::error!(error = %e, "a socket is closed because the database failed");
                GOING_AWAY
            }
        }
    }
}

impl From<DbError> for ResumeError {
    fn from(e: DbError) -> Self {
        Self::Db(e)
    }
}

impl From<WriteError> for ResumeError {
    fn from(e: WriteError) -> Self {
        Self::Closed(e.0)
    }
}

impl Connection {
    /// Sends `ready`, missed events, and `live`.
    pub(super) async fn catch_up(&mut self, hello: &Hello) -> Result<(), u16> {
        self.try_catch_up(hello)
            .await
            .map_err(ResumeError::close_code)
    }

    async fn try_catch_up(&mut self, hello: &Hello) -> Result<(), ResumeError> {
        self.room_opened().await?;
        let turn = self.read_turn().await?;
        // The socket is registered, so the end of a session or membership closes it;
        // an earlier end is detected here.
        self.check_access().await?;
        let workspace = self.actor.workspace;
        let epoch = self.state.epoch();
        let scope = hello.delivery().scope;
        let open;
        let (head, pruned) = {
            let mut c = self.state.db.read().await?;
            let joined = self.joined_channels(&mut c, scope).await?;
            open = self.visible_channels(&mut c, &hello.channels).await?;
            let hub = &self.state.hub;
            if self.actor.visibility().reach == Reach::Joined {
                let people = guests::people_of(&mut c, workspace, self.actor.user).await?;
                hub.show_people(workspace, &self.socket, people);
            }
            hub.admit(workspace, &self.socket, joined, &open);
            log::head(&mut c, workspace).await?
        };
        drop(turn);
        let since = hello.since.filter(|since| {
            let same_epoch = hello.epoch.as_ref().is_none_or(|known| *known == epoch);
            same_epoch && (pruned..=head).contains(since)
        });
        if self.state.epoch() != epoch {
            // The position belongs to a log that was replaced.
            return Err(ResumeError::Closed(GOING_AWAY));
        }
        let ready = ControlFrame::Ready {
            protocol: 1,
            session_id: format!("{workspace}:{}", self.socket.id),
            epoch,
            seq: head,
            heartbeat_ms: super::connection::HEARTBEAT_MS,
            resumed: since.is_some(),
            resync: hello.since.is_some() && since.is_none(),
        };
        self.send(encode_frame(&ready)).await?;
        if let Some(since) = since.filter(|since| *since < head) {
            let followed = match scope {
                EventScope::All => Followed::All,
                EventScope::Joined => Followed::JoinedAnd(&open),
            };
            self.replay(followed, since, head).await?;
        }
        self.cursor = head;
        self.send(encode_frame(&ControlFrame::Live { seq: head }))
            .await?;
        Ok(())
    }

    /// Waits until the room is ready. From then on, every event that follows a later read of the log is delivered.
    async fn room_opened(&mut self) -> Result<(), ResumeError> {
        let state = self.state.clone();
        tokio::select! {
            opened = timeout(ROOM_OPENS_WITHIN, state.hub.opened(self.actor.workspace)) => {
                opened.map_err(|_| ResumeError::Closed(GOING_AWAY))
            }
            code = self.closed() => Err(ResumeError::Closed(code)),
        }
    }

    /// Private and direct channels of this person; with the `joined` scope, and for guests, also the public channels that this person has
    /// joined.
    async fn joined_channels(
        &mut self,
        c: &mut Conn,
        scope: EventScope,
    ) -> Result<Vec<ChannelId>, DbError> {
        let rows: Vec<(ChannelId,)> = c
            .q("select cm.channel_id from channel_members cm join channels ch on ch.id = cm.channel_id \
                where cm.user_id = $1 and ch.workspace_id = $2 and (ch.kind <> 'public' or $3)")
            .bind(self.actor.user)
            .bind(self.actor.workspace)
            .bind(scope == EventScope::Joined || self.actor.visibility().reach == Reach::Joined)
            .all()
            .await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    /// Filters channels by whether this person can see them.
    async fn visible_channels(
        &mut self,
        c: &mut Conn,
        channels: &[ChannelId],
    ) -> Result<Vec<ChannelId>, DbError> {
        if channels.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<(ChannelId,)> = c
            .q(crate::sql_with_ids!(
                c,
                concat!(
                    "select ch.id from channels ch where ch.workspace_id = $1 and ",
                    is_visible_channel!("ch", "$2"),
                    " and ch.id in"
                ),
                3,
                "order by ch.id"
            ))
            .bind(self.actor.workspace)
            .bind(self.actor.user)
            .bind(dialect::hexadecimal_ids(channels.iter().map(|id| id.0)))
            .all()
            .await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    /// Sends the events after `after` and up to `head` that this person can see.
    async fn replay(
        &mut self,
        followed: Followed<'_>,
        mut after: i64,
        head: i64,
    ) -> Result<(), ResumeError> {
        let _permit = self.catch_up_permit().await?;
        while after < head {
            let until = head.min(after.saturating_add(PAGE_SCANNED_MAX));
            let page = self.read_page(followed, after, until).await?;
            after = page.last().map_or(until, |(seq, _)| *seq);
            let bytes = page.iter().map(|(_, frame)| frame.len() as u64).sum();
            let limits = &self.state.limits;
            limits.answered(self.actor.user, AnswerSize::Built(bytes));
            self.send_all(page.into_iter().map(|(_, frame)| frame.into()))
                .await?;
        }
        Ok(())
    }

    /// Waits for this person's turn to catch up.
    async fn catch_up_permit(&mut self) -> Result<crate::realtime::CatchUpPermit, ResumeError> {
        let catch_ups = self.state.hub.catch_ups.clone();
        let turn = catch_ups.acquire(self.actor.user);
        tokio::select! {
            permit = timeout(CATCH_UP_TURN_WITHIN, turn) => {
                // The person's other sockets are slow; the client reconnects later.
                permit.map_err(|_| ResumeError::Closed(GOING_AWAY))
            }
            code = self.closed() => Err(ResumeError::Closed(code)),
        }
    }

    /// Waits for a turn to read the log. The turn is not held while data is sent to the client.
    async fn read_turn(&mut self) -> Result<Option<OwnedSemaphorePermit>, ResumeError> {
        let catch_ups = self.state.hub.catch_ups.clone();
        tokio::select! {
            turn = timeout(CATCH_UP_TURN_WITHIN, catch_ups.turn()) => {
                turn.map_err(|_| ResumeError::Closed(GOING_AWAY))
            }
            code = self.closed() => Err(ResumeError::Closed(code)),
        }
    }

    async fn read_page(
        &mut self,
        followed: Followed<'_>,
        after: i64,
        until: i64,
    ) -> Result<Vec<(i64, String)>, ResumeError> {
        let workspace = self.actor.workspace;
        let _turn = self.read_turn().await?;
        let mut c = self.state.db.read().await?;
        let page = log::visible_after(
            &mut c,
            workspace,
            log::LogReader {
                user: self.actor.user,
                visibility: self.actor.visibility(),
                followed,
            },
            after,
            until,
            log::PageMax {
                events: PAGE_EVENTS_MAX,
                bytes: PAGE_BYTES_MAX,
            },
        )
        .await?;
        // Events that were pruned since the last page are missing from this one, so the client has to resynchronize.
        let (_, pruned) = log::head(&mut c, workspace).await?;
        if pruned > after {
            return Err(ResumeError::Closed(GOING_AWAY));
        }
        Ok(page)
    }

    /// Checks that the credential, membership, and scopes are unchanged since the socket was
    /// opened. They can expire, and another process can change them.
    ///
    /// # Errors
    /// The close code: 4001 or 4003.
    pub(super) async fn check_access(&mut self) -> Result<(), ResumeError> {
        let access = async {
            let caller = Caller {
                reach: self.caller.reach,
                ..caller_of(&self.state, self.token.clone()).await?
            };
            let mut c = self.state.db.read().await?;
            let actor = caller.enter(&mut c, self.actor.workspace).await?;
            Ok::<_, AuthError>((actor.role, actor.scopes))
        };
        let code = match access.await {
            Ok((_, scopes)) if !scopes.has(Scope::ChatRead) => NOT_IN_WORKSPACE,
            Ok((role, scopes)) if role == self.actor.role && scopes == self.actor.scopes => {
                return Ok(());
            }
            // The role or scopes may have changed, so the client reconnects with its current rights.
            Ok(_) | Err(AuthError::NotAuthenticated) => NOT_AUTHENTICATED,
            Err(AuthError::Db(e)) => return Err(e.into()),
            Err(_) => NOT_IN_WORKSPACE,
        };
        Err(ResumeError::Closed(code))
    }
}
