//! `GET /api/socket`: sockets of bots' programs, as in Slack's Socket Mode. A program gets the address from `apps.connections.open`; the
//! ticket in it is valid once, within a minute.
//!
//! A socket takes events of its bot from the queue and sends each as an envelope, which the program acknowledges by its `envelope_id`.

use std::{collections::VecDeque, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::{
        Query, State as St, WebSocketUpgrade,
        rejection::QueryRejection,
        ws::{Message as Frame, WebSocket, rejection::WebSocketUpgradeRejection},
    },
    response::Response,
    routing::get,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, interval, interval_at, timeout};

use super::{
    bounded, close,
    connection::{GOING_AWAY, MALFORMED_MAX, SILENCE_MAX, STALL_MAX},
};
use crate::{
    auth::AuthError,
    db::{Conn, Db, DbError},
    http::{ApiError, ErrorCode},
    ids::{BotDeliveryId, UserId},
    outgoing::{self, BotSocket, BotSocketId},
    server::{State, caller::Address},
    slack,
};

/// Interval between pings, of which programs expect one within 30 seconds.
const PING_EVERY: Duration = Duration::from_secs(10);
/// Time without an answer to a ping after which a socket takes no more events. Otherwise, events would be given up before the socket of
/// a program that is gone is closed.
const LISTENS_WITHIN: Duration = Duration::from_secs(15);
/// Interval between checks for events that other nodes stored or that are due again, and for the end of the bot's access.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of events that wait for an acknowledgment, and the time after which they no longer count.
const WINDOW: usize = 32;
const WAITED_FOR: Duration = Duration::from_secs(5);
/// Number of events whose late acknowledgments count.
const REMEMBERED_MAX: usize = 256;

pub fn receiver() -> Router<State> {
    Router::new().route("/api/socket", get(open))
}

#[derive(Debug, Deserialize)]
struct TicketQuery {
    ticket: String,
}

async fn open(
    St(state): St<State>,
    Address(address): Address,
    query: Result<Query<TicketQuery>, QueryRejection>,
    ws: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let ws = ws.map_err(|e| {
        let text = format!("this path only accepts WebSocket connections: {e}");
        ApiError::invalid(ErrorCode::UpgradeRequired, text, "")
    })?;
    let ticket = query.map(|Query(query)| query.ticket).unwrap_or_default();
    let is_known = outgoing::is_ticket(&mut state.db.read().await?, &ticket).await?;
    let opened = if is_known {
        state
            .db
            .write(uuid::Uuid::nil(), async move |c: &mut Conn| {
                outgoing::open_socket(c, &ticket).await
            })
            .await?
    } else {
        None
    };
    let Some(socket) = opened else {
        state.limits.anonymous(address)?;
        return Err(AuthError::NotAuthenticated.into());
    };
    let permit = state.limits.open_socket(Some(UserId(socket.bot.0)))?;
    Ok(bounded(ws).on_upgrade(move |ws| {
        let tracker = state.tracker.clone();
        // Tracked, so that shutdown waits for the close frame.
        tracker.track_future(async move {
            serve(ws, state, socket).await;
            drop(permit);
        })
    }))
}

/// Reason why a socket ends.
enum Ending {
    Left,
    /// The program is asked to reconnect, or told that it cannot.
    Disconnected(&'static str),
}

async fn serve(ws: WebSocket, state: State, socket: BotSocket) {
    metrics::gauge!("openvibe_bot_sockets").increment(1.0);
    let mut connection = BotConnection {
        ws,
        state,
        socket,
        sent: VecDeque::new(),
    };
    let ending = Box::pin(connection.run()).await;
    metrics::gauge!("openvibe_bot_sockets").decrement(1.0);
    let BotConnection {
        mut ws,
        state,
        socket,
        ..
    } = connection;
    if let Ending::Disconnected(reason) = ending {
        let frame = json!({"type": "disconnect", "reason": reason, "debug_info": {}});
        let told = ws.send(Frame::Text(frame.to_string().into()));
        if timeout(Duration::from_secs(1), told).await.is_ok() {
            close(&mut ws, GOING_AWAY, &state.shutdown).await;
        }
    }
    let closed = state
        .db
        .write(uuid::Uuid::nil(), async move |c: &mut Conn| {
            outgoing::close_socket(c, socket.id).await
        })
        .await;
    if let Err(e) = closed {
        tracing::debug!(error = %e, "the row of a closed socket stays until it expires");
    }
}

/// Kind of an envelope.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EnvelopeKind {
    Event,
    /// The acknowledgment contains the answer.
    Command,
}

/// An envelope that the program has not acknowledged.
struct SentEnvelope {
    id: BotDeliveryId,
    kind: EnvelopeKind,
    at: Instant,
}

struct BotConnection {
    ws: WebSocket,
    state: State,
    socket: BotSocket,
    /// Oldest first.
    sent: VecDeque<SentEnvelope>,
}

/// Event that a connection handles next.
enum Turn {
    Shutdown,
    Received(Option<Result<Frame, axum::Error>>),
    Ping,
    Look,
}

async fn is_permitted(db: &Db, id: BotSocketId) -> Result<bool, DbError> {
    outgoing::is_permitted(&mut db.read().await?, id).await
}

impl BotConnection {
    async fn run(&mut self) -> Ending {
        let app = slack::app_id(self.socket.bot);
        let hello = json!({
            "type": "hello", "num_connections": self.socket.connections, "connection_info": {"app_id": app},
            "debug_info": {"host": "openvibe", "build_number": 0, "approximate_connection_time": 18060},
        });
        if self.send(&hello).await.is_err() {
            return Ending::Left;
        }
        let shutdown = self.state.shutdown.clone();
        let mut inserted = self.state.events.inserted();
        let mut ping = interval_at(Instant::now() + PING_EVERY, PING_EVERY);
        let mut look = interval(LOOK_EVERY);
        let (mut heard, mut malformed) = (Instant::now(), 0);
        loop {
            let turn = tokio::select! {
                () = shutdown.cancelled() => Turn::Shutdown,
                frame = self.ws.recv() => Turn::Received(frame),
                _ = ping.tick() => Turn::Ping,
                _ = look.tick() => Turn::Look,
                _ = inserted.changed() => Turn::Look,
            };
            let done = match turn {
                Turn::Shutdown => return Ending::Disconnected("refresh_requested"),
                Turn::Ping if heard.elapsed() > SILENCE_MAX => return Ending::Left,
                Turn::Ping => match self.ping().await {
                    Ok(true) => Ok(()),
                    Ok(false) => return Ending::Disconnected("link_disabled"),
                    Err(()) => Err(()),
                },
                Turn::Look if heard.elapsed() > LISTENS_WITHIN => Ok(()),
                Turn::Look => {
                    if !self.is_permitted().await {
                        return Ending::Disconnected("link_disabled");
                    }
                    match self.send_calls().await {
                        Ok(()) => self.send_events().await,
                        Err(()) => Err(()),
                    }
                }
                Turn::Received(Some(Ok(frame))) => {
                    heard = Instant::now();
                    match frame {
                        Frame::Text(text) => {
                            if !self.acknowledge(&text).await {
                                malformed += 1;
                            }
                        }
                        Frame::Binary(_) => malformed += 1,
                        Frame::Ping(_) | Frame::Pong(_) => {}
                        Frame::Close(_) => return Ending::Left,
                    }
                    if malformed > MALFORMED_MAX {
                        return Ending::Left;
                    }
                    Ok(())
                }
                Turn::Received(None | Some(Err(_))) => return Ending::Left,
            };
            if done.is_err() {
                return Ending::Left;
            }
        }
    }

    /// Sends a frame; fails if the program does not read.
    async fn send(&mut self, frame: &Value) -> Result<(), ()> {
        let frame = Frame::Text(frame.to_string().into());
        let sent = timeout(STALL_MAX, self.ws.send(frame)).await;
        sent.map_err(drop)?.map_err(drop)
    }

    /// Pings the program, and renews the socket. Returns false if the bot has lost its access.
    async fn ping(&mut self) -> Result<bool, ()> {
        let sent = timeout(STALL_MAX, self.ws.send(Frame::Ping(Bytes::new()))).await;
        sent.map_err(drop)?.map_err(drop)?;
        let id = self.socket.id;
        let renewed = self
            .state
            .db
            .write(uuid::Uuid::nil(), async move |c: &mut Conn| {
                outgoing::renew_socket(c, id).await
            })
            .await;
        renewed.map_err(|e| {
            tracing::warn!(error = %e, "a bot's socket could not be renewed; it is closed");
        })
    }

    /// Checks whether the key, the bot, and its subscription still permit the socket.
    async fn is_permitted(&mut self) -> bool {
        let (db, id) = (&self.state.db, self.socket.id);
        is_permitted(db, id).await.unwrap_or_else(|e| {
            tracing::warn!(error = %e, "the access of a bot's socket could not be checked; retrying");
            true
        })
    }

    fn remember(&mut self, id: BotDeliveryId, kind: EnvelopeKind) {
        let at = Instant::now();
        self.sent.push_back(SentEnvelope { id, kind, at });
        if self.sent.len() > REMEMBERED_MAX {
            self.sent.pop_front();
        }
    }

    /// Sends commands, for whose answers people wait.
    async fn send_calls(&mut self) -> Result<(), ()> {
        let events = &self.state.events;
        let calls = match events.take_calls(&self.state.db, &self.socket).await {
            Ok(calls) => calls,
            Err(e) => {
                tracing::warn!(error = %e, "commands for a bot's socket could not be read; retrying");
                return Ok(());
            }
        };
        for call in calls {
            self.remember(call.id, EnvelopeKind::Command);
            let kind = match call.body["type"].as_str() {
                Some("block_actions" | "button") => "interactive",
                _ => "slash_commands",
            };
            let mut envelope = json!({
                "type": kind, "envelope_id": call.id, "accepts_response_payload": true,
            });
            envelope["payload"] = call.body;
            self.send(&envelope).await?;
        }
        Ok(())
    }

    /// Sends events that are due, as long as few wait for an acknowledgment.
    async fn send_events(&mut self) -> Result<(), ()> {
        let waiting = self
            .sent
            .iter()
            .filter(|sent| sent.at.elapsed() < WAITED_FOR)
            .count();
        let room = i64::try_from(WINDOW.saturating_sub(waiting)).unwrap_or(0);
        if room == 0 {
            return Ok(());
        }
        let events = &self.state.events;
        let taken = events
            .take_for_socket(&self.state.db, &self.socket, room)
            .await;
        let taken = match taken {
            Ok(taken) => taken,
            Err(e) => {
                tracing::warn!(error = %e, "events for a bot's socket could not be read; retrying");
                return Ok(());
            }
        };
        for event in taken {
            self.remember(event.id, EnvelopeKind::Event);
            let reason = if event.attempt == 0 { "" } else { "timeout" };
            let mut envelope = json!({
                "type": "events_api", "envelope_id": event.id, "accepts_response_payload": false,
                "retry_attempt": event.attempt, "retry_reason": reason,
            });
            envelope["payload"] = event.body;
            self.send(&envelope).await?;
        }
        Ok(())
    }

    /// Ends the delivery that a frame acknowledges, or stores the answer to a command. Returns false for any other frame.
    async fn acknowledge(&mut self, text: &str) -> bool {
        #[derive(Deserialize)]
        struct Acknowledgment {
            envelope_id: String,
            #[serde(default)]
            payload: Value,
        }
        let Ok(frame) = serde_json::from_str::<Acknowledgment>(text) else {
            return false;
        };
        let Ok(id) = BotDeliveryId::parse(&frame.envelope_id) else {
            return false;
        };
        let Some(sent) = self.sent.iter().find(|sent| sent.id == id) else {
            return true;
        };
        let kind = sent.kind;
        self.sent.retain(|sent| sent.id != id);
        let (events, bot, db) = (&self.state.events, self.socket.bot, &self.state.db);
        let stored = match kind {
            EnvelopeKind::Event => events.acknowledge(db, bot, id).await,
            EnvelopeKind::Command => {
                let answer = frame.payload.to_string();
                events.answer_call(db, bot, id, answer).await
            }
        };
        if let Err(e) = stored {
            tracing::warn!(error = %e, "an acknowledgment of a bot was lost");
        }
        true
    }
}
