//! `GET /v1/runner`: sockets of runners. The first frame is `hello`, which `ready` answers; then each side sends its numbered frames until
//! the other one has acknowledged them. Programs have no numbers, and end with the connection.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::{
        State as St, WebSocketUpgrade,
        ws::{
            CloseFrame, Message as Frame, Utf8Bytes, WebSocket,
            rejection::WebSocketUpgradeRejection,
        },
    },
    http::HeaderMap,
    response::Response,
    routing::get,
};
use openvibe_runner::{Control, FRAME_BYTES_MAX, ProgramEnd};
use tokio::time::{Instant, interval_at, sleep_until, timeout};

use super::connection::{
    BUFFER_BYTES, CLOSE_WITHIN, GOING_AWAY, MALFORMED_MAX, NOT_AUTHENTICATED, POLICY_VIOLATION,
    SILENCE_MAX, STALL_MAX, broken,
};
use crate::{
    code::{
        self, Applied, BadHello, Connected, FolderRequest, RunnerEvent, RunnerHello,
        RunnerIdentity, Shown,
    },
    db::{Conn, DbError},
    failpoint,
    http::{ApiError, ErrorCode},
    ids::{ActionId, CodeSessionId, TaskId, UserId},
    realtime::{LiveFrame, hub::TaskRun},
    registry,
    server::{
        State,
        caller::{Address, runner_of},
    },
};

/// Time for the greeting.
const HELLO_WITHIN: Duration = Duration::from_secs(30);
/// Interval between pings, after which the runner's row is renewed if it has sent anything.
const PING_EVERY: Duration = Duration::from_secs(5);
/// Interval between checks for commands that other nodes stored, in case their signals were lost.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Time in the workspace's write queue that a frame counts as. A runner with 20 turns sends up to 450 frames per second.
const FRAME_TAKES: Duration = Duration::from_millis(2);
/// Time that frames can take in advance, so that a runner can send what it has kept while it was away.
const BURST: Duration = Duration::from_secs(2);
/// Reason for closing the socket of a runner with another protocol, which it shows to its operator.
const UPGRADE: &str = "Upgrade the runner.";

pub fn receiver() -> Router<State> {
    Router::new().route("/v1/runner", get(open))
}

async fn open(
    St(state): St<State>,
    Address(address): Address,
    headers: HeaderMap,
    ws: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let runner = runner_of(&state, &headers, address).await?;
    let ws = ws.map_err(|e| {
        let text = format!("this path only accepts WebSocket connections: {e}");
        ApiError::invalid(ErrorCode::UpgradeRequired, text, "")
    })?;
    let permit = state.limits.open_socket(Some(UserId(runner.id.0)))?;
    let ws = ws
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(BUFFER_BYTES)
        .max_write_buffer_size(4 * 1024 * 1024)
        .max_message_size(FRAME_BYTES_MAX)
        .max_frame_size(FRAME_BYTES_MAX);
    Ok(ws.on_upgrade(move |ws| {
        let tracker = state.tracker.clone();
        // Tracked, so that shutdown waits for the close frame.
        tracker.track_future(async move {
            Box::pin(serve(ws, state, runner)).await;
            drop(permit);
        })
    }))
}

/// End of a connection: the close code, or 0 if the runner has left, and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct End(u16, &'static str);

const LEFT: End = End(0, "");
const AWAY: End = End(GOING_AWAY, "");
const BAD_FRAMES: End = End(POLICY_VIOLATION, "bad frames");
/// Another connection serves the runner now, or it was deleted.
const REPLACED: End = End(NOT_AUTHENTICATED, "another connection serves this runner");

impl From<DbError> for End {
    fn from(e: DbError) -> Self {
        tracing::warn!(error = %e, "the connection of a runner is closed, because the database failed");
        AWAY
    }
}

async fn serve(mut ws: WebSocket, state: State, runner: RunnerIdentity) {
    let greeted = greet(&mut ws, &state, runner).await;
    let (end, connected) = match greeted {
        Ok(connected) => {
            let mut connection = RunnerConnection::new(ws, state.clone(), runner, connected);
            metrics::gauge!("openvibe_runners", "state" => "online").increment(1.0);
            let end = connection.run().await;
            metrics::gauge!("openvibe_runners", "state" => "online").decrement(1.0);
            connection.end_streams();
            let RunnerConnection {
                ws: returned,
                connection,
                ..
            } = connection;
            ws = returned;
            (end, Some(connection))
        }
        Err(end) => (end, None),
    };
    if let Some(connection) = connected {
        let left = state
            .db
            .write(runner.workspace_id.0, async move |c: &mut Conn| {
                code::disconnect(c, runner, connection).await
            });
        if let Err(e) = left.await {
            tracing::debug!(error = %e, "a runner counts as connected until its time is over");
        }
    }
    close(&mut ws, end, &state).await;
}

async fn close(ws: &mut WebSocket, End(code, reason): End, state: &State) {
    if code == 0 {
        return;
    }
    let frame = CloseFrame {
        code,
        reason: Utf8Bytes::from_static(reason),
    };
    let ending = async {
        state.shutdown.cancelled().await;
        tokio::time::sleep(super::connection::CLOSE_AT_SHUTDOWN_WITHIN).await;
    };
    tokio::select! {
        _ = timeout(CLOSE_WITHIN, ws.send(Frame::Close(Some(frame)))) => {}
        () = ending => {}
    }
}

/// Reads the greeting, and makes this connection the one that serves the runner.
async fn greet(
    ws: &mut WebSocket,
    state: &State,
    runner: RunnerIdentity,
) -> Result<Connected, End> {
    let first = tokio::select! {
        () = state.shutdown.cancelled() => return Err(AWAY),
        first = timeout(HELLO_WITHIN, ws.recv()) => first,
    };
    let text = match first {
        Ok(Some(Ok(Frame::Text(text)))) => text,
        Ok(Some(Err(e))) => return Err(End(broken(&e), "")),
        Ok(None | Some(Ok(Frame::Close(_)))) => return Err(LEFT),
        Ok(Some(Ok(_))) | Err(_) => return Err(BAD_FRAMES),
    };
    let hello = match RunnerHello::parse(&text) {
        Ok(hello) => hello,
        Err(BadHello::Malformed) => return Err(BAD_FRAMES),
        Err(BadHello::OtherProtocol) => return Err(End(POLICY_VIOLATION, UPGRADE)),
    };
    let connected = state
        .db
        .write(runner.workspace_id.0, async move |c: &mut Conn| {
            code::connect(c, runner, &hello).await
        });
    connected.await?.ok_or(REPLACED)
}

/// Pace at which frames of a connection are read: many small ones would occupy the write queue of the workspace.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// Time at which everything that was read would be handled at a steady pace.
    done_at: Instant,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self { done_at: now }
    }

    /// Counts a frame that takes as long as this number of small ones.
    fn count(&mut self, now: Instant, weight: u32) {
        self.done_at = self.done_at.max(now) + FRAME_TAKES.saturating_mul(weight);
    }

    /// Time at which the next frame is read.
    fn next_at(&self) -> Instant {
        self.done_at.checked_sub(BURST).unwrap_or(self.done_at)
    }
}

/// Receives a frame, not before this time.
async fn receive(ws: &mut WebSocket, at: Instant) -> Option<Result<Frame, axum::Error>> {
    if at > Instant::now() {
        sleep_until(at).await;
    }
    ws.recv().await
}

struct RunnerConnection {
    ws: WebSocket,
    state: State,
    runner: RunnerIdentity,
    connection: uuid::Uuid,
    /// Number of the last event by session, for `ready`.
    events: BTreeMap<CodeSessionId, i64>,
    /// Number of the last command that was sent, by session.
    sent: BTreeMap<CodeSessionId, i64>,
    /// Folders that the runner was asked for, and that it has not sent.
    reads: BTreeSet<uuid::Uuid>,
    bad_frames: u32,
    pace: Pace,
    has_scratch: bool,
    turns_max: Option<usize>,
    /// Programs that run or wait on the runner.
    programs: BTreeSet<ActionId>,
    /// Replies whose text this connection streams.
    streams: HashMap<TaskId, TaskRun>,
}

/// What a connection handles next.
enum Turn {
    Shutdown,
    Received(Option<Result<Frame, axum::Error>>),
    Ping,
    Look,
}

/// A frame of a runner, as far as this connection reads it.
enum Incoming {
    Ack(CodeSessionId, i64),
    Resend(CodeSessionId, i64),
    Skip(CodeSessionId, i64),
    Ran(ActionId, ProgramEnd),
    Event(Box<RunnerEvent>),
    Bad,
}

impl Incoming {
    fn parse(text: &str) -> Self {
        let Ok(control) = serde_json::from_str::<Control>(text) else {
            let event = RunnerEvent::parse(text);
            return event.map_or(Self::Bad, |event| Self::Event(Box::new(event)));
        };
        let place = |session: &str, n: u64| {
            let id = CodeSessionId::parse(session).ok()?;
            Some((id, i64::try_from(n).ok()?))
        };
        let found = match control {
            Control::Ack { session, n } => place(&session, n).map(|(id, n)| Self::Ack(id, n)),
            Control::Resend { session, n } => place(&session, n).map(|(id, n)| Self::Resend(id, n)),
            Control::Skip { session, n } => place(&session, n).map(|(id, n)| Self::Skip(id, n)),
            Control::Ran { run, end } => ActionId::parse(&run).ok().map(|id| Self::Ran(id, end)),
            Control::Hello { .. }
            | Control::Ready { .. }
            | Control::Read { .. }
            | Control::Run { .. }
            | Control::Kill { .. } => None,
        };
        found.unwrap_or(Self::Bad)
    }
}

impl Incoming {
    /// Number of small frames that take as long as this one, about.
    fn weight(&self) -> u32 {
        match self {
            Self::Event(event) => event.weight(),
            _ => 1,
        }
    }
}

impl RunnerConnection {
    fn new(ws: WebSocket, state: State, runner: RunnerIdentity, connected: Connected) -> Self {
        Self {
            ws,
            state,
            runner,
            connection: connected.connection,
            events: connected.events,
            sent: connected.commands,
            reads: BTreeSet::new(),
            bad_frames: 0,
            pace: Pace::new(Instant::now()),
            has_scratch: connected.has_scratch,
            turns_max: connected.turns_max,
            programs: BTreeSet::new(),
            streams: HashMap::new(),
        }
    }

    async fn run(&mut self) -> End {
        match self.serve().await {
            Ok(end) | Err(end) => end,
        }
    }

    async fn serve(&mut self) -> Result<End, End> {
        let sessions = std::mem::take(&mut self.events);
        let sessions = sessions.into_iter().filter_map(|(id, n)| {
            let n = u64::try_from(n).ok()?;
            Some((id.to_string(), n))
        });
        let ready = Control::Ready {
            sessions: sessions.collect(),
        };
        self.send(&ready).await?;
        let shutdown = self.state.shutdown.clone();
        let mut commands = self.state.queue.commands();
        let mut ping = interval_at(Instant::now() + PING_EVERY, PING_EVERY);
        let mut look = tokio::time::interval(LOOK_EVERY);
        let mut heard = Instant::now();
        loop {
            let turn = tokio::select! {
                () = shutdown.cancelled() => Turn::Shutdown,
                frame = receive(&mut self.ws, self.pace.next_at()) => Turn::Received(frame),
                _ = ping.tick() => Turn::Ping,
                _ = look.tick() => Turn::Look,
                _ = commands.changed() => Turn::Look,
            };
            match turn {
                Turn::Shutdown => return Ok(AWAY),
                Turn::Ping if heard.elapsed() > SILENCE_MAX => return Ok(LEFT),
                Turn::Ping => self.ping(heard.elapsed() < PING_EVERY * 2).await?,
                Turn::Look => {
                    self.send_commands().await?;
                    self.send_programs().await?;
                }
                Turn::Received(Some(Ok(frame))) => {
                    heard = Instant::now();
                    match frame {
                        Frame::Text(text) => {
                            let incoming = Incoming::parse(&text);
                            self.pace.count(Instant::now(), incoming.weight());
                            self.take(incoming).await?;
                        }
                        Frame::Binary(_) => self.count_bad()?,
                        Frame::Ping(_) | Frame::Pong(_) => {}
                        Frame::Close(_) => return Ok(LEFT),
                    }
                }
                Turn::Received(Some(Err(e))) => return Ok(End(broken(&e), "")),
                Turn::Received(None) => return Ok(LEFT),
            }
        }
    }

    async fn send(&mut self, control: &Control) -> Result<(), End> {
        let text = serde_json::to_string(control).map_err(|_| AWAY)?;
        self.send_text(text).await
    }

    /// Sends a frame; fails if the runner does not read.
    async fn send_text(&mut self, text: String) -> Result<(), End> {
        match timeout(STALL_MAX, self.ws.send(Frame::Text(text.into()))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(LEFT),
        }
    }

    /// Pings the runner, and renews its row if it was heard.
    async fn ping(&mut self, is_heard: bool) -> Result<(), End> {
        let sent = timeout(STALL_MAX, self.ws.send(Frame::Ping(Bytes::new()))).await;
        if !matches!(sent, Ok(Ok(()))) {
            return Err(LEFT);
        }
        if !is_heard {
            return Ok(());
        }
        let (runner, connection) = (self.runner, self.connection);
        let renewed = self
            .state
            .db
            .write(runner.workspace_id.0, async move |c: &mut Conn| {
                code::renew(c, runner.id, connection).await
            });
        if renewed.await? {
            Ok(())
        } else {
            Err(REPLACED)
        }
    }

    fn count_bad(&mut self) -> Result<(), End> {
        self.bad_frames += 1;
        if self.bad_frames >= MALFORMED_MAX {
            return Err(BAD_FRAMES);
        }
        Ok(())
    }

    /// Sends commands that were stored since the last look.
    async fn send_commands(&mut self) -> Result<(), End> {
        loop {
            let (db, runner) = (&self.state.db, self.runner);
            let (connection, turns_max) = (self.connection, self.turns_max);
            let frames = code::take_frames(db, runner, connection, &self.sent, turns_max).await?;
            let frames = frames.ok_or(REPLACED)?;
            if frames.is_empty() {
                return self.send_reads().await;
            }
            for frame in frames {
                failpoint!("runner_command");
                self.send_text(frame.text).await?;
                failpoint!("runner_command_sent");
                self.sent.insert(frame.session, frame.n);
            }
        }
    }

    /// Sends programs that were stored since the last look, and ends those for which nobody waits.
    async fn send_programs(&mut self) -> Result<(), End> {
        if !self.has_scratch {
            return Ok(());
        }
        let (db, runner) = (&self.state.db, self.runner);
        let taken =
            registry::take_programs(db, runner.workspace_id, runner.id, self.connection).await?;
        let programs = self.programs.iter().copied();
        let left: Vec<ActionId> = programs.filter(|id| !taken.open.contains(id)).collect();
        for id in left {
            self.programs.remove(&id);
            let run = id.to_string();
            self.send(&Control::Kill { run }).await?;
        }
        for (id, program) in taken.new {
            self.programs.insert(id);
            let run = id.to_string();
            self.send(&Control::Run { run, program }).await?;
        }
        Ok(())
    }

    /// Asks for folders that people import; again on each connection, until the runner has answered.
    async fn send_reads(&mut self) -> Result<(), End> {
        let mut c = self.state.db.read().await?;
        let requests = code::list_folder_requests(&mut c, self.runner.id).await?;
        drop(c);
        let asked = std::mem::take(&mut self.reads);
        for request in requests {
            self.reads.insert(request.id);
            if !asked.contains(&request.id) {
                let FolderRequest {
                    id,
                    repository,
                    path,
                } = request;
                let id = id.to_string();
                let read = Control::Read {
                    id,
                    repository,
                    path,
                };
                self.send(&read).await?;
            }
        }
        Ok(())
    }

    async fn take(&mut self, incoming: Incoming) -> Result<(), End> {
        let runner = self.runner;
        let db = self.state.db.clone();
        let key = runner.workspace_id.0;
        match incoming {
            Incoming::Ack(session, n) => {
                db.write(key, async move |c: &mut Conn| {
                    code::acknowledge(c, runner.id, session, n).await
                })
                .await?;
                Ok(())
            }
            Incoming::Resend(session, n) => {
                if let Some(last) = self.sent.get_mut(&session) {
                    *last = n.min(*last);
                }
                self.send_commands().await
            }
            Incoming::Skip(session, n) => {
                db.write(key, async move |c: &mut Conn| {
                    code::skip(c, runner.id, session, n).await
                })
                .await?;
                Ok(())
            }
            Incoming::Ran(action, end) => {
                // The program can have ended before the runner read that it must.
                if self.programs.remove(&action) {
                    let connection = self.connection;
                    db.write(key, async move |c: &mut Conn| {
                        registry::end_program(c, connection, action, &end).await
                    })
                    .await?;
                }
                Ok(())
            }
            Incoming::Event(event) => self.apply(*event).await,
            Incoming::Bad => self.count_bad(),
        }
    }

    /// Stores an event, and responds: with its number, or with that of the last one before a gap.
    async fn apply(&mut self, event: RunnerEvent) -> Result<(), End> {
        let (session, n) = (event.session, event.n);
        let applied = code::apply(&self.state.db, self.runner, event).await?;
        let session = session.to_string();
        let reply = match applied {
            Applied::Stored(shown) => {
                if let Some(shown) = shown {
                    self.show(shown).await?;
                }
                Control::Ack {
                    session,
                    n: u64::try_from(n).unwrap_or_default(),
                }
            }
            Applied::Gap(last) => Control::Resend {
                session,
                n: u64::try_from(last).unwrap_or_default(),
            },
        };
        self.send(&reply).await
    }

    /// Shows people what has just been stored.
    async fn show(&mut self, shown: Shown) -> Result<(), End> {
        let workspace = self.runner.workspace_id;
        match shown {
            Shown::Steps {
                task,
                conversation,
                steps,
                plan,
            } => {
                let frame = LiveFrame::CodeSteps {
                    task_id: task,
                    steps: &steps,
                    plan: plan.as_deref(),
                };
                self.state.hub.live(workspace, conversation, &frame);
            }
            Shown::Text {
                run,
                conversation,
                message,
                attempt,
                piece,
            } => {
                let is_open = self.streams.insert(run.task, run) == Some(run);
                let piece = if is_open {
                    piece
                } else {
                    // It can have begun on another connection.
                    let whole =
                        code::text_of_reply(&mut self.state.db.read().await?, message).await?;
                    let hub = &self.state.hub;
                    hub.open_stream(workspace, run, conversation, message, attempt);
                    whole.unwrap_or(piece)
                };
                self.state.hub.push_stream(workspace, run, &piece);
                self.state.hub.flush_stream(workspace, run);
            }
        }
        Ok(())
    }

    /// Ends the streams of replies whose text came over this connection: the next connection can be to another node.
    fn end_streams(&mut self) {
        for (_, run) in self.streams.drain() {
            self.state.hub.close_stream(self.runner.workspace_id, run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_read_at_once_and_a_flood_at_a_steady_pace() {
        let begin = Instant::now();
        let mut pace = Pace::new(begin);
        for _ in 0..1000 {
            assert!(pace.next_at() <= begin);
            pace.count(begin, 1);
        }
        pace.count(begin, 1);
        assert_eq!(pace.next_at() - begin, FRAME_TAKES);
        pace.count(begin, 9);
        assert_eq!(pace.next_at() - begin, FRAME_TAKES * 10);
        // A connection that was silent has the same burst again, not a longer one.
        let later = begin + Duration::from_hours(1);
        for _ in 0..1000 {
            assert!(pace.next_at() <= later);
            pace.count(later, 1);
        }
        pace.count(later, 1);
        assert!(pace.next_at() > later);
    }

    #[test]
    fn a_frame_with_many_steps_weighs_more() {
        let session = CodeSessionId::new();
        let step = r#"{"step":0,"title":"t","kind":"k","state":"done","ms":1}"#;
        for (count, weight) in [(1, 1), (32, 3)] {
            let steps = vec![step; count].join(",");
            let frame = format!(
                r#"{{"type":"step","session":"{session}","n":1,"task":"t","steps":[{steps}]}}"#
            );
            assert_eq!(Incoming::parse(&frame).weight(), weight);
        }
        assert_eq!(Incoming::parse("x").weight(), 1);
    }
}
