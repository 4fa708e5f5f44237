//! Connection to the server: a WebSocket that the runner opens, again and again.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::{SinkExt, StreamExt};
use reqwest::{StatusCode, Upgraded, header};
use serde::Serialize;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        handshake::{client::generate_key, derive_accept_key},
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use crate::{
    RunnerError,
    frames::{
        Control, FRAME_BYTES_MAX, Incoming, Numbered, OfferedEngine, OfferedRepository, PROTOCOL,
    },
    journal::Received,
    scratch::Programs,
    shared::Shared,
};

const CONNECT_MAX: Duration = Duration::from_secs(30);
const SEND_MAX: Duration = Duration::from_secs(20);
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// Time without any message after which the connection counts as lost.
const SILENCE_MAX: Duration = Duration::from_secs(40);
const PAUSE_MAX: Duration = Duration::from_mins(1);
const BAD_FRAMES_MAX: u32 = 5;
/// Number of events of a session that are sent before the server acknowledges one.
const WINDOW: u64 = 64;

type Socket = WebSocketStream<Upgraded>;

/// End of a connection.
enum Lost {
    /// Try again.
    Retry(String),
    Fatal(RunnerError),
}

impl From<std::io::Error> for Lost {
    fn from(error: std::io::Error) -> Self {
        Self::Retry(error.to_string())
    }
}

/// Keeps a connection until the runner stops.
pub(crate) async fn run(shared: &Arc<Shared>) -> Result<(), RunnerError> {
    let mut pause = Duration::from_secs(1);
    loop {
        let started = Instant::now();
        let connection = async {
            let socket = connect(shared).await?;
            tracing::info!(server = shared.config.server, "connected");
            serve(shared, socket).await
        };
        let Some(ended) = shared.stop.run_until_cancelled(connection).await else { return Ok(()) };
        match ended {
            Err(Lost::Fatal(error)) => return Err(error),
            Err(Lost::Retry(cause)) => tracing::warn!(cause, "the connection was lost"),
            Ok(()) => tracing::info!("the server closed the connection"),
        }
        if started.elapsed() > PAUSE_MAX {
            pause = Duration::from_secs(1);
        }
        // Runners do not come back all at once.
        let nanos = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.subsec_nanos());
        let waiting = tokio::time::sleep(pause.mul_f64(0.5 + f64::from(nanos) / 1e9));
        if shared.stop.run_until_cancelled(waiting).await.is_none() {
            return Ok(());
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

async fn connect(shared: &Shared) -> Result<Socket, Lost> {
    let key = generate_key();
    let request = shared
        .client
        .get(shared.config.route("/v1/runner"))
        .bearer_auth(&shared.config.key)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, &key);
    let answer = match timeout(CONNECT_MAX, request.send()).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(Lost::Retry(error.to_string())),
        Err(_) => return Err(Lost::Retry("the server did not respond".to_owned())),
    };
    match answer.status() {
        StatusCode::SWITCHING_PROTOCOLS => {}
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            return Err(Lost::Fatal(RunnerError::UnknownKey));
        }
        other => return Err(Lost::Retry(format!("the server responded with {other}"))),
    }
    let accepted = answer.headers().get(header::SEC_WEBSOCKET_ACCEPT);
    let expected = derive_accept_key(key.as_bytes());
    if accepted.is_none_or(|accepted| accepted.as_bytes() != expected.as_bytes()) {
        return Err(Lost::Retry("the server is not a WebSocket server".to_owned()));
    }
    let stream = answer.upgrade().await.map_err(|error| Lost::Retry(error.to_string()))?;
    let size = Some(2 * FRAME_BYTES_MAX);
    let limits = WebSocketConfig::default().max_message_size(size).max_frame_size(size);
    Ok(WebSocketStream::from_raw_socket(stream, Role::Client, Some(limits)).await)
}

fn hello(shared: &Shared) -> Control {
    let config = &shared.config;
    let can_push = config.sandbox != crate::SandboxKind::None;
    let repositories = shared.mirrors.values().map(|mirror| OfferedRepository {
        name: mirror.name.clone(),
        base: mirror.base(),
        can_push,
    });
    let host = |to: &String| reqwest::Url::parse(to).ok()?.host_str().map(str::to_owned);
    let engines = config.engines.iter().map(|(name, engine)| OfferedEngine {
        name: name.clone(),
        to: engine.to.as_ref().and_then(host),
    });
    let sessions = shared.sessions();
    let sessions = sessions.iter().map(|(id, session)| (id.clone(), session.journal().received()));
    Control::Hello {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        repositories: repositories.collect(),
        engines: engines.collect(),
        sandbox: config.sandbox,
        scratch: config.scratch,
        turns: Some(config.turns),
        sessions: sessions.collect(),
    }
}

async fn send(socket: &mut Socket, frame: &impl Serialize) -> Result<(), Lost> {
    let text = serde_json::to_string(frame).map_err(std::io::Error::from)?;
    deliver(socket, Message::text(text)).await
}

async fn deliver(socket: &mut Socket, message: Message) -> Result<(), Lost> {
    match timeout(SEND_MAX, socket.send(message)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Lost::Retry(error.to_string())),
        Err(_) => Err(Lost::Retry("the server does not read".to_owned())),
    }
}

async fn serve(shared: &Arc<Shared>, mut socket: Socket) -> Result<(), Lost> {
    send(&mut socket, &hello(shared)).await?;
    let mut ping = interval(PING_INTERVAL);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut heard = Instant::now();
    let mut bad_frames = 0;
    let mut programs = Programs::new();
    // Last event that was sent on this connection, by session; none before `ready`.
    let mut sent: Option<BTreeMap<String, u64>> = None;
    loop {
        tokio::select! {
            message = socket.next() => {
                let message = match message {
                    None => return Ok(()),
                    Some(Err(error)) => return Err(Lost::Retry(error.to_string())),
                    Some(Ok(message)) => message,
                };
                heard = Instant::now();
                let text = match &message {
                    Message::Text(text) => text.as_str(),
                    Message::Close(Some(frame)) => return closed(frame),
                    Message::Close(None) => return Ok(()),
                    Message::Binary(_) => "",
                    _ => continue,
                };
                let is_good = match Incoming::parse(text) {
                    Some(Incoming::Control(Control::Run { run, program })) => {
                        sent.is_some() && programs.start(shared, &run, program)
                    }
                    Some(Incoming::Control(Control::Kill { run })) => {
                        programs.kill(&run);
                        true
                    }
                    Some(incoming) => take(shared, &mut socket, incoming, &mut sent).await?,
                    None => false,
                };
                bad_frames += u32::from(!is_good);
                if bad_frames >= BAD_FRAMES_MAX {
                    let frame = CloseFrame { code: CloseCode::Policy, reason: "bad frames".into() };
                    deliver(&mut socket, Message::Close(Some(frame))).await?;
                    return Err(Lost::Retry("the server sent bad frames".to_owned()));
                }
            }
            () = shared.changed.notified() => {}
            ran = programs.ended() => send(&mut socket, &ran).await?,
            _ = ping.tick() => {
                if heard.elapsed() > SILENCE_MAX {
                    return Err(Lost::Retry("the server is silent".to_owned()));
                }
                deliver(&mut socket, Message::Ping(bytes::Bytes::new())).await?;
            }
        }
        if let Some(sent) = &mut sent {
            send_events(shared, &mut socket, sent).await?;
        }
    }
}

fn closed(frame: &CloseFrame) -> Result<(), Lost> {
    // A server with another protocol gives this reason.
    if frame.reason.contains("Upgrade the runner") {
        return Err(Lost::Fatal(RunnerError::OtherProtocol));
    }
    Err(Lost::Retry(format!("closed: {}", frame.reason)))
}

/// Takes a frame. Returns false for one that the server must not send.
async fn take(
    shared: &Arc<Shared>,
    socket: &mut Socket,
    incoming: Incoming,
    sent: &mut Option<BTreeMap<String, u64>>,
) -> Result<bool, Lost> {
    let control = match incoming {
        Incoming::Control(control) => control,
        // Numbers are known after `ready`.
        Incoming::Command(_) if sent.is_none() => return Ok(false),
        Incoming::Command(Numbered { session, n, body }) => {
            let reply = match shared.receive(&session, n, &body)? {
                Received::New | Received::Known => Control::Ack { session, n },
                Received::Gap(n) => Control::Resend { session, n },
                Received::Full => return Ok(false),
            };
            send(socket, &reply).await?;
            return Ok(true);
        }
    };
    match (control, sent) {
        (Control::Ready { sessions }, sent) => {
            let all = shared.sessions().clone();
            for (id, n) in &sessions {
                if let Some(session) = all.get(id) {
                    session.journal().resume(*n)?;
                }
            }
            shared.known().clone_from(&sessions);
            // Sessions that the server does not know are not its own: nothing of them is sent.
            let last = |id: &String| sessions.get(id).copied().unwrap_or(u64::MAX);
            *sent = Some(all.keys().map(|id| (id.clone(), last(id))).collect());
            Ok(true)
        }
        (Control::Ack { session, n }, Some(_)) => {
            let found = shared.sessions().get(&session).cloned();
            if let Some(session) = found {
                session.journal().acknowledge(n)?;
            }
            Ok(true)
        }
        (Control::Resend { session, n }, Some(sent)) => {
            if let Some(last) = sent.get_mut(&session) {
                *last = n.min(*last);
            }
            Ok(true)
        }
        (Control::Read { id, repository, path }, Some(_)) => {
            crate::reads::start(shared, id, repository, path);
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Sends events that are new, up to the window of each session.
async fn send_events(
    shared: &Arc<Shared>,
    socket: &mut Socket,
    sent: &mut BTreeMap<String, u64>,
) -> Result<(), Lost> {
    let sessions: Vec<_> = shared.sessions().values().cloned().collect();
    for session in sessions {
        // A session that began on this connection is known to the server.
        let first = shared.known().get(&session.id).copied();
        if first.is_none() && session.journal().received() == 0 {
            continue;
        }
        let last = sent.entry(session.id.clone()).or_insert(first.unwrap_or(0));
        let (acked, floor) = {
            let journal = session.journal();
            (journal.acked(), journal.floor())
        };
        if *last < floor {
            send(socket, &Control::Skip { session: session.id.clone(), n: floor }).await?;
            *last = floor;
        }
        let open = last.saturating_sub(acked.max(first.unwrap_or(0)));
        let count = usize::try_from(WINDOW.saturating_sub(open)).unwrap_or(0);
        let events = session.journal().events_after(*last, count)?;
        for (n, body) in events {
            send(socket, &Numbered { session: session.id.clone(), n, body }).await?;
            *last = n;
        }
    }
    Ok(())
}
