//! MCP clients for task runs, and the state that all clients share: limits per server, pauses, and processes.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use dashmap::DashMap;
use serde_json::Value;
use tokio::{
    sync::{OnceCell, Semaphore},
    time::{Instant, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    definition::{AcceptedFunction, Listing},
    output::CallOutput,
    server::{Endpoint, ServerConfig, ServerFault},
    session::{CALL_WITHIN_MAX, Session},
};
use crate::{
    ids::ToolId,
    outbound::{Exemption, OwnServer, Rules},
    tool_fault::{ToolErrorCode, ToolFault},
};

/// Time limit for connecting before a call. It includes the 10 s after which the client tries the earlier protocol with a server that
/// does not support `server/discover`.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);
/// Time limit for a list, including the waits for a free slot and the connection.
const LIST_WITHIN: Duration = Duration::from_secs(10);
/// Time after which connecting for a list counts as failed; part of `LIST_WITHIN`.
const LIST_CONNECT_WITHIN: Duration = Duration::from_secs(9);
/// Time limit for starting a process, which may have to be downloaded first, as by `npx` and `uvx`.
const START_WITHIN: Duration = Duration::from_mins(1);
/// Maximum number of concurrent requests to one server.
const AT_ONCE: usize = 4;
/// Number of consecutive failed connections that cause a pause.
const FAILURES_MAX: u32 = 5;
const PAUSE: Duration = Duration::from_secs(30);
/// Time after which failures of a server that is not used are forgotten.
const FAILURES_KEPT: Duration = Duration::from_mins(5);
/// Time after which an unused process ends.
const IDLE_MAX: Duration = Duration::from_mins(5);

/// A server, and the version of its settings with which a connection was made.
type Key = (ToolId, i64);
type Connections = Mutex<HashMap<Key, Arc<OnceCell<Arc<Session>>>>>;

/// State that all clients share.
pub struct Servers {
    rules: Arc<Rules>,
    states: DashMap<ToolId, Arc<ServerState>>,
    processes: Connections,
    /// Time of the latest use of each process.
    used: Mutex<HashMap<Key, Instant>>,
    tracker: TaskTracker,
    shutdown: CancellationToken,
}

struct ServerState {
    slots: Semaphore,
    failures: Mutex<Failures>,
}

impl Default for ServerState {
    fn default() -> Self {
        Self {
            slots: Semaphore::new(AT_ONCE),
            failures: Mutex::default(),
        }
    }
}

/// Consecutive failed connections to a server, and the pause after them.
#[derive(Debug, Default)]
struct Failures {
    count: u32,
    latest: Option<Instant>,
    paused_until: Option<Instant>,
}

impl Failures {
    fn is_paused(&self, now: Instant) -> bool {
        self.paused_until.is_some_and(|until| now < until)
    }

    fn is_kept(&self, now: Instant) -> bool {
        self.latest.is_some_and(|at| now < at + FAILURES_KEPT)
    }

    fn note(&mut self, now: Instant) {
        self.latest = Some(now);
        self.count += 1;
        if self.count >= FAILURES_MAX {
            self.count = 0;
            self.paused_until = Some(now + PAUSE);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Servers {
    /// Creates the shared state. The addresses in `exempt` are allowed even if they are local or use HTTP.
    pub fn new(
        exempt: Vec<Exemption>,
        own: OwnServer,
        tracker: TaskTracker,
        shutdown: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            rules: Arc::new(Rules {
                exempt,
                own,
                ports: None,
            }),
            states: DashMap::new(),
            processes: Mutex::default(),
            used: Mutex::default(),
            tracker,
            shutdown,
        })
    }

    /// Address rules for servers.
    pub fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// A client for one task run.
    pub fn client(self: &Arc<Self>) -> Client {
        Client {
            servers: Arc::clone(self),
            connections: Mutex::default(),
        }
    }

    /// Returns the state of a server. Drops the states of servers that are no longer used.
    fn state(&self, id: ToolId) -> Arc<ServerState> {
        let now = Instant::now();
        self.states.retain(|known, state| {
            *known == id || Arc::strong_count(state) > 1 || locked(&state.failures).is_kept(now)
        });
        Arc::clone(self.states.entry(id).or_default().value())
    }

    /// Connects to a server within a time limit.
    async fn open(
        &self,
        server: &ServerConfig,
        until: Instant,
    ) -> Result<Arc<Session>, ServerFault> {
        let state = self.state(server.id);
        if locked(&state.failures).is_paused(Instant::now()) {
            return Err(ServerFault::Paused(server.title.clone()));
        }
        let connected = timeout_at(until, Box::pin(Session::connect(server, &self.rules))).await;
        let connected =
            connected.unwrap_or_else(|_| Err(ServerFault::Timeout(server.title.clone())));
        match connected {
            Ok(session) => {
                *locked(&state.failures) = Failures::default();
                Ok(Arc::new(session))
            }
            Err(fault) => {
                locked(&state.failures).note(Instant::now());
                Err(fault)
            }
        }
    }

    /// Ends a process once it has been unused for `IDLE_MAX`.
    fn watch_process(self: &Arc<Self>, key: Key) {
        let servers = Arc::clone(self);
        let watch = async move {
            loop {
                let used = locked(&servers.used).get(&key).copied();
                let until = used.unwrap_or_else(Instant::now) + IDLE_MAX;
                if used.is_none() || until <= Instant::now() {
                    break;
                }
                tokio::select! {
                    () = tokio::time::sleep_until(until) => {}
                    () = servers.shutdown.cancelled() => break,
                }
            }
            locked(&servers.used).remove(&key);
            locked(&servers.processes).remove(&key);
        };
        self.tracker.spawn(watch);
    }
}

/// A client of one task run: at most one connection per server, except for processes, which are shared.
pub struct Client {
    servers: Arc<Servers>,
    connections: Connections,
}

impl Client {
    fn connections(&self, server: &ServerConfig) -> &Connections {
        match server.endpoint {
            Endpoint::Http { .. } => &self.connections,
            Endpoint::Process { .. } => &self.servers.processes,
        }
    }

    async fn session(
        &self,
        server: &ServerConfig,
        until: Instant,
    ) -> Result<Arc<Session>, ServerFault> {
        let key = (server.id, server.version);
        let is_process = matches!(server.endpoint, Endpoint::Process { .. });
        let cell = {
            let mut connections = locked(self.connections(server));
            let is_closed = |cell: &Arc<OnceCell<Arc<Session>>>| {
                cell.get().is_some_and(|session| session.is_closed())
            };
            if connections.get(&key).is_some_and(is_closed) {
                connections.remove(&key);
            }
            // Connections made with earlier settings are not reused.
            connections.retain(|(id, version), _| *id != key.0 || *version == key.1);
            Arc::clone(connections.entry(key).or_default())
        };
        let session = cell
            .get_or_try_init(|| self.servers.open(server, until))
            .await?;
        if is_process
            && locked(&self.servers.used)
                .insert(key, Instant::now())
                .is_none()
        {
            self.servers.watch_process(key);
        }
        Ok(Arc::clone(session))
    }

    /// Drops a connection that may be in a bad state.
    fn forget(&self, server: &ServerConfig) {
        let key = (server.id, server.version);
        locked(self.connections(server)).remove(&key);
    }

    /// Reads the functions of a server, within 10 s after the start of a process.
    ///
    /// # Errors
    /// `ServerFault`, with the cause.
    pub async fn list(&self, server: &ServerConfig) -> Result<Listing, ServerFault> {
        let start = Instant::now();
        let (until, connect_until) = match server.endpoint {
            Endpoint::Http { .. } => (start + LIST_WITHIN, start + LIST_CONNECT_WITHIN),
            Endpoint::Process { .. } => (start + START_WITHIN + LIST_WITHIN, start + START_WITHIN),
        };
        let state = self.servers.state(server.id);
        let timed_out = || ServerFault::Timeout(server.title.clone());
        let slot = timeout_at(connect_until, state.slots.acquire()).await;
        let _slot = slot.map_err(|_| timed_out())?;
        let session = timeout_at(until, self.session(server, connect_until)).await;
        let session = session.map_err(|_| timed_out())??;
        let listed = timeout_at(until, session.list()).await;
        let listed = listed.unwrap_or_else(|_| Err(timed_out()));
        if listed.is_err() {
            self.forget(server);
        }
        listed
    }

    /// Calls a function once, within 60 s, or up to 10 min as long as it makes progress, and before the deadline. The caller must have checked the function's definition.
    ///
    /// # Errors
    /// `BadArguments` if the arguments are not an object, `NotAllowed` for a forbidden address, `ToolUnreachable`, `ToolTimeout`,
    /// `TooMuchData`, `ToolFailed` if the server reports an error, `InputNotSupported`, or `DefinitionChanged` if the functions had to be listed
    /// first and the definition has changed.
    pub async fn call(
        &self,
        server: &ServerConfig,
        function: &AcceptedFunction,
        arguments: &Value,
        deadline: Instant,
    ) -> Result<CallOutput, ToolFault> {
        let Value::Object(arguments) = arguments else {
            let text = "the arguments are not a JSON object";
            return Err(ToolFault::new(ToolErrorCode::BadArguments, text));
        };
        let timed_out = || ToolFault::from(ServerFault::Timeout(server.title.clone()));
        let state = self.servers.state(server.id);
        let slot = timeout_at(deadline, state.slots.acquire()).await;
        let _slot = slot.map_err(|_| timed_out())?;
        let connect_within = match server.endpoint {
            Endpoint::Http { .. } => CONNECT_WITHIN,
            Endpoint::Process { .. } => START_WITHIN,
        };
        let session = self.session(server, Instant::now() + connect_within);
        let session = timeout_at(deadline, session).await;
        let session = session.map_err(|_| timed_out())??;
        let until = deadline.min(Instant::now() + CALL_WITHIN_MAX);
        let listed = timeout_at(until, session.list_for_headers(function)).await;
        let called = match listed.unwrap_or_else(|_| Err(timed_out())) {
            Ok(()) => {
                let call = session.call(&function.name, arguments.clone());
                let called = timeout_at(until, call).await;
                called.unwrap_or_else(|_| Err(timed_out().with_unknown_outcome()))
            }
            Err(fault) => Err(fault),
        };
        if called
            .as_ref()
            .is_err_and(|fault| fault.code != ToolErrorCode::ToolFailed)
        {
            self.forget(server);
        }
        called
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_unused_servers_are_dropped() {
        let own = OwnServer::new("127.0.0.1:1".parse().unwrap(), "https://chat.example");
        let servers = Servers::new(
            Vec::new(),
            own,
            TaskTracker::new(),
            CancellationToken::new(),
        );
        let used = ToolId::new();
        let held = servers.state(used);
        let failed = ToolId::new();
        locked(&servers.state(failed).failures).note(Instant::now());
        for _ in 0..100 {
            servers.state(ToolId::new());
        }
        assert_eq!(servers.states.len(), 3);
        assert!(Arc::ptr_eq(&held, &servers.state(used)));
        assert_eq!(locked(&servers.state(failed).failures).count, 1);
        let later = Instant::now() + FAILURES_KEPT;
        assert!(!locked(&servers.state(failed).failures).is_kept(later));
    }

    #[test]
    fn five_failures_in_a_row_cause_a_pause() {
        let start = Instant::now();
        let mut failures = Failures::default();
        for _ in 0..4 {
            failures.note(start);
            assert!(!failures.is_paused(start));
        }
        failures.note(start);
        assert!(failures.is_paused(start));
        assert!(failures.is_paused(start + PAUSE.mul_f32(0.9)));
        assert!(!failures.is_paused(start + PAUSE));
        failures.note(start + PAUSE);
        assert!(
            !failures.is_paused(start + PAUSE),
            "four more are tolerated"
        );
    }
}
