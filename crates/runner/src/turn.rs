//! A turn: an agent's process works on a prompt, then its changes become a tree.
//!
//! ```text
//! permit ─► door, process, ACP session ─► prompt ─► updates ─► stop ─► tree ─► check ─► upload ─► `done`
//!    ▲                                       │
//!    └── killed, or a question waits ◄───────┘
//! ```

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::{
    sync::SemaphorePermit,
    time::{Instant, sleep_until},
};

use crate::{
    acp::{Message, Peer},
    config::SandboxKind,
    door::{Door, Provider, Ways},
    failure::Failure,
    frames::{
        AskKind, AskOption, Changes, Check, CheckState, Command, Event, FailureCode, StopReason,
        TurnLimits, cut,
    },
    git::{DIFF, Mirror, PATCH_BYTES_MAX, TOO_LARGE},
    journal::{Asked, State},
    record::Record,
    sandbox::{Contained, Sandbox},
    shared::{Session, Shared},
    skills::{self, SkillsError},
};

/// Starts of a turn; then it is lost.
const ATTEMPTS_MAX: u32 = 3;
const START_MAX: Duration = Duration::from_mins(2);
/// Time without a message after which an agent has replayed its session, and time that it has for this.
const REPLAY_QUIET: Duration = Duration::from_millis(500);
const REPLAY_MAX: Duration = Duration::from_secs(30);
/// Time that an agent has to stop by itself.
const STOP_MAX: Duration = Duration::from_secs(5);
/// Time after which a question ends its process.
const ASK_MAX: Duration = Duration::from_mins(10);
const UPLOAD_MAX: Duration = Duration::from_mins(5);
/// Time that a canceled turn has to read its changes, and for each upload.
const LATE_MAX: Duration = Duration::from_secs(30);
/// Time in which a server that cannot store a file is asked again.
const UPLOAD_REPEATED_MAX: Duration = Duration::from_mins(5);
const OPTIONS_MAX: usize = 20;
const SCHEMA_BYTES_MAX: usize = 64 << 10;
const INTERRUPTED: &str = "You were interrupted. Continue.";

/// The task of a turn.
pub(crate) struct Prompt {
    pub(crate) task: String,
    pub(crate) key: String,
    pub(crate) text: String,
    pub(crate) full: Option<String>,
    pub(crate) limits: Option<TurnLimits>,
}

impl Prompt {
    /// Duration of the turn: the runner's, or a shorter one.
    fn duration_max(&self, of_runner: Duration) -> Duration {
        let own = self.limits.as_ref().map(|limits| Duration::from_secs(limits.seconds));
        own.unwrap_or(of_runner).min(of_runner)
    }

    /// Hosts of the repository that the agent can reach.
    fn hosts(&self, of_repository: &[String]) -> Vec<String> {
        let own = self.limits.as_ref().and_then(|limits| limits.hosts.as_ref());
        let is_own = |host: &&String| {
            own.is_none_or(|own| own.iter().any(|other| other.eq_ignore_ascii_case(host)))
        };
        of_repository.iter().filter(is_own).cloned().collect()
    }
}

pub(crate) struct Turn<'a> {
    shared: &'a Arc<Shared>,
    session: &'a Session,
    mirror: &'a Mirror,
    sandbox: &'a Sandbox,
    prompt: &'a Prompt,
    state: State,
    record: Record,
    deadline: Instant,
    /// Error of the last process.
    error: Option<String>,
}

/// End of one process.
enum End {
    Stopped(StopReason),
    /// A new process continues with this text.
    Again(String),
    /// A question waits.
    Parked,
    Lost,
}

/// What the agent was told to stop for.
enum Stopping {
    Cancel,
    Steer,
}

/// Whether the agent can ask a person: one question at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attention {
    Free,
    Busy,
    Stopping,
}

/// A request of the agent that a person answers.
struct Asking {
    request: Value,
    ask: String,
    kind: AskKind,
    since: Instant,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(
        shared: &'a Arc<Shared>,
        session: &'a Session,
        mirror: &'a Mirror,
        sandbox: &'a Sandbox,
        prompt: &'a Prompt,
    ) -> Result<Self, Failure> {
        let record = Record::open(&prompt.task, &log_path(session, &prompt.task))?;
        let deadline = Instant::now() + prompt.duration_max(shared.config.limits.turn);
        Ok(Self {
            shared,
            session,
            mirror,
            sandbox,
            prompt,
            state: session.state(),
            record,
            deadline,
            error: None,
        })
    }

    /// Works to the end, and returns the event for it.
    pub(crate) async fn run(mut self) -> Result<Event, Failure> {
        let worked = self.work().await;
        let rest = self.record.rest();
        self.commit(rest).await;
        let changed = match worked {
            // The check is a part of the turn.
            Ok((stop, _permit)) => {
                self.changes().await.map(|(changes, check)| (stop, changes, check))
            }
            Err(failure) => Err(failure),
        };
        let (stop, mut changes, check) = match changed {
            Ok(changed) => changed,
            Err(failure) => {
                // The reason is shown anyway.
                let _ = self.upload("log").await;
                return Err(failure);
            }
        };
        if let Err(cause) = self.upload("patch").await {
            // People would approve a push of other changes than those that they see.
            changes.tree = None;
            let note =
                format!("The changes could not be stored, so they cannot be pushed: {cause}");
            changes.notes.push(note);
        }
        if let Err(cause) = self.upload("log").await {
            changes.notes.push(format!("The log could not be stored: {cause}"));
        }
        let is_cut = self.record.is_cut() && stop == StopReason::Complete;
        let stop = if is_cut { StopReason::Truncated } else { stop };
        let task = self.prompt.task.clone();
        self.state.tree.clone_from(&changes.tree);
        self.commit(Vec::new()).await;
        // The journal adds the steers that wait by the time of this event.
        let (unread_steers, received) = (Vec::new(), None);
        let last_text_bytes = self.record.last_text_bytes();
        Ok(Event::Done { task, stop, changes, check, unread_steers, received, last_text_bytes })
    }

    async fn commit(&self, events: Vec<Event>) {
        self.shared.commit(self.session, events, Some(self.state.clone()), Vec::new()).await;
    }

    async fn handle(&self, events: Vec<Event>, handled: Vec<u64>) {
        self.shared.commit(self.session, events, Some(self.state.clone()), handled).await;
    }

    /// Runs processes until one stops by itself. Returns the permit of the last one.
    async fn work(&mut self) -> Result<(StopReason, Option<SemaphorePermit<'a>>), Failure> {
        let mut text = self.prompt.text.clone();
        if self.state.task.as_ref() != Some(&self.prompt.task) {
            self.state.task = Some(self.prompt.task.clone());
            self.state.attempts = 0;
            self.state.asked = None;
            self.state.next = None;
        } else if self.state.attempts > 0 {
            INTERRUPTED.clone_into(&mut text);
        }
        loop {
            if let Some(asked) = self.state.asked.clone() {
                let Some(answer) = self.wait_for_answer(&asked).await else {
                    return Ok((StopReason::Canceled, None));
                };
                text = answer;
            } else {
                self.state.attempts += 1;
                if self.state.attempts > ATTEMPTS_MAX {
                    let error = self.error.take().map(|error| format!(" ({error})"));
                    let message =
                        format!("The agent was lost three times{}", error.unwrap_or_default());
                    return Err(Failure::new(FailureCode::WorkerLost, message));
                }
            }
            if let Some(next) = &self.state.next {
                next.clone_into(&mut text);
            }
            let Some(permit) = self.permit().await else {
                return Ok((StopReason::Canceled, None));
            };
            self.commit(Vec::new()).await;
            if !self.place_skills().await? {
                return Ok((StopReason::Canceled, None));
            }
            match self.converse(&text).await? {
                End::Stopped(stop) => return Ok((stop, Some(permit))),
                End::Again(next) => {
                    text = next;
                    self.state.attempts = self.state.attempts.saturating_sub(1);
                }
                End::Parked => {}
                End::Lost => INTERRUPTED.clone_into(&mut text),
            }
        }
    }

    /// A permit for a process; `None` if the turn is canceled first.
    async fn permit(&self) -> Option<SemaphorePermit<'a>> {
        let shared = self.shared;
        loop {
            if self.is_canceled() {
                return None;
            }
            tokio::select! {
                permit = shared.turns.acquire() => return permit.ok(),
                () = self.session.woken.notified() => {}
            }
        }
    }

    /// Writes the agent's current skills for the next process, and waits while the server is away. Returns false if the turn is canceled
    /// first.
    async fn place_skills(&mut self) -> Result<bool, Failure> {
        let mut pause = Duration::from_secs(1);
        while !self.is_canceled() {
            match skills::update(self.shared, self.session, &self.prompt.task).await {
                Ok(()) => return Ok(true),
                Err(SkillsError::Refused(cause)) => {
                    skills::remove(self.session).await?;
                    self.record.add_step(&format!("Skills could not be read: {cause}"));
                    return Ok(true);
                }
                Err(SkillsError::Away) => {}
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(Duration::from_secs(30)),
                () = self.session.woken.notified() => {}
            }
        }
        Ok(false)
    }

    fn is_canceled(&self) -> bool {
        self.session.is_canceled(Some(&self.prompt.task))
    }

    /// Waits until a canceled turn must end.
    async fn late(&self) {
        self.session.canceled(Some(&self.prompt.task)).await;
        tokio::time::sleep(LATE_MAX).await;
    }

    /// Steers of this turn that wait, with their numbers.
    fn steers(&self) -> Vec<(u64, String)> {
        let journal = self.session.journal();
        let own = journal.pending().filter_map(|(n, command)| match command {
            Command::Steer { task, text } if *task == self.prompt.task => Some((*n, text.clone())),
            _ => None,
        });
        own.collect()
    }

    fn answer(&self, asked: &str) -> Option<(u64, Value)> {
        self.session.find_command(|command| match command {
            Command::Answer { ask, value } if ask == asked => Some(value.clone()),
            _ => None,
        })
    }

    /// Waits without a process, and returns the text for the next one; `None` if the turn is canceled.
    async fn wait_for_answer(&mut self, asked: &Asked) -> Option<String> {
        loop {
            if self.is_canceled() {
                return None;
            }
            let mut handled = Vec::new();
            let mut text = String::new();
            if let Some((n, value)) = self.answer(&asked.ask) {
                handled.push(n);
                text = format!("Your question “{}” was answered: {value}. Continue.", asked.title);
            }
            for (n, steer) in self.steers() {
                handled.push(n);
                if !text.is_empty() {
                    text.push_str("\n\n");
                }
                text.push_str(&steer);
            }
            if !handled.is_empty() {
                self.state.asked = None;
                self.state.next = Some(text.clone());
                self.handle(Vec::new(), handled).await;
                self.deadline = Instant::now() + self.duration_max();
                return Some(text);
            }
            self.session.woken.notified().await;
        }
    }

    fn ways(&self) -> Result<Ways, Failure> {
        let config = &self.shared.config;
        let name = &self.state.engine;
        let Some(engine) = config.engines.get(name) else {
            return Err(Failure::agent(format!("the runner has no engine {name}")));
        };
        let header = engine.header().map_err(|error| Failure::agent(error.to_string()))?;
        let repository = config.repositories.get(&self.state.repository);
        let allow = repository.filter(|r| r.network).map(|r| self.prompt.hosts(&r.allow));
        Ok(Ways {
            server: config.server.clone(),
            key: Some(self.prompt.key.clone()),
            engine: engine.to.clone().map(|to| Provider { name: name.clone(), to, header }),
            allow: allow.unwrap_or_default(),
            client: self.shared.client.clone(),
        })
    }

    fn duration_max(&self) -> Duration {
        self.prompt.duration_max(self.shared.config.limits.turn)
    }

    /// Runs one process, from its start to its end.
    async fn converse(&mut self, text: &str) -> Result<End, Failure> {
        let ways = self.ways()?;
        let shared = self.shared;
        let owner = &shared.owner;
        let engine = &shared.config.engines[&self.state.engine];
        let env = engine.env(!ways.allow.is_empty());
        let mut door = Door::open(&shared.config, &self.session.id, ways, owner).await?;
        let command = self.sandbox.command(&engine.command, &env, Some(&door.address));
        let name = self.state.engine.clone();
        let mut process = self
            .sandbox
            .start(command, owner)
            .map_err(|error| Failure::agent(format!("{name} cannot be started: {error}")))?;
        let streams = process.child.stdout.take().zip(process.child.stdin.take());
        let Some((stdout, stdin)) = streams else { return Ok(End::Lost) };
        let mut peer = Peer::new(stdout, stdin, owner);
        let (session, prompt) = (self.session, self.prompt);
        let url = door.address.url();
        let begun = tokio::select! {
            biased;
            begun = self.begin(&mut peer, &url) => Some(begun),
            () = session.canceled(Some(&prompt.task)) => None,
        };
        let end = match begun.transpose() {
            Ok(None) => Ok(End::Stopped(StopReason::Canceled)),
            Ok(Some((id, continues))) => {
                let text = if continues {
                    text.to_owned()
                } else {
                    let whole = self.prompt.full.as_ref().unwrap_or(&self.prompt.text);
                    let is_first = text == self.prompt.text;
                    if is_first { whole.clone() } else { format!("{whole}\n\n{text}") }
                };
                self.prompted(&mut peer, &mut door, &id, &text).await
            }
            Err(error) => Err(Failure::agent(format!("{name} did not start: {}", error.message))),
        };
        let error = match &end {
            Ok(End::Lost) | Err(Failure { code: FailureCode::AgentFailed, .. }) => {
                process.error().await
            }
            _ => None,
        };
        process.kill().await;
        self.ended(&process, end, error)
    }

    /// Explains an end by the watchdog, or by an error of the agent's program.
    fn ended(
        &mut self,
        process: &Contained,
        end: Result<End, Failure>,
        error: Option<String>,
    ) -> Result<End, Failure> {
        let Some(reason) = process.stopped() else {
            self.error.clone_from(&error);
            return match (end, error) {
                (Err(failure), Some(error)) => {
                    Err(Failure { message: format!("{} ({error})", failure.message), ..failure })
                }
                (end, _) => end,
            };
        };
        let message = format!("Stopped: {reason}");
        self.record.add_step(&message);
        match end {
            Ok(End::Stopped(stop)) => Ok(End::Stopped(stop)),
            _ => Err(Failure::agent(message)),
        }
    }

    /// Opens the agent's session. Returns its ID, and whether it continues an earlier one.
    async fn begin(&mut self, peer: &mut Peer, door: &str) -> Result<(String, bool), Failure> {
        let hello = initialize(peer).await?;
        let capabilities = &hello["agentCapabilities"];
        let servers = if capabilities["mcpCapabilities"]["http"] == true {
            json!([{"type": "http", "name": "openvibe", "url": format!("{door}/openvibe/mcp"), "headers": []}])
        } else {
            json!([])
        };
        let work = self.sandbox.work().display().to_string();
        let mode = self.shared.config.engines[&self.state.engine].mode.as_deref();
        if let Some(id) = self.state.agent_session.clone() {
            let method = if capabilities["sessionCapabilities"]["resume"].is_object() {
                Some("session/resume")
            } else if capabilities["loadSession"] == true {
                Some("session/load")
            } else {
                None
            };
            let params = json!({"sessionId": id, "cwd": work, "mcpServers": servers});
            if let Some(method) = method
                && let Ok(session) = peer.call(method, &params, START_MAX).await
            {
                if method == "session/load" {
                    // Gemini CLI goes on to replay the conversation after its response, as if it were new.
                    peer.settle(REPLAY_QUIET, REPLAY_MAX).await?;
                }
                set_mode(peer, &id, &session, mode).await?;
                return Ok((id, true));
            }
        }
        let id = new_session(peer, &work, &servers, mode).await?;
        self.state.agent_session = Some(id.clone());
        self.commit(Vec::new()).await;
        Ok((id, false))
    }

    /// Sends the prompt, and follows the agent until it stops.
    async fn prompted(
        &mut self,
        peer: &mut Peer,
        door: &mut Door,
        id: &str,
        text: &str,
    ) -> Result<End, Failure> {
        let prompt =
            |text: &str| json!({"sessionId": id, "prompt": [{"type": "text", "text": text}]});
        let cancel = json!({"sessionId": id});
        // The server counts the calls of its own models.
        let is_counted = self.shared.config.engines[&self.state.engine].to.is_none();
        let mut own = peer.request("session/prompt", &prompt(text)).await?;
        self.state.next = None;
        let mut asking: Option<Asking> = None;
        let mut stopping: Option<(Stopping, Instant)> = None;
        let mut is_new = true;
        loop {
            if is_new && !matches!(stopping, Some((Stopping::Cancel, _))) {
                let wanted = if self.is_canceled() {
                    Some(Stopping::Cancel)
                } else if stopping.is_none() && !self.steers().is_empty() {
                    Some(Stopping::Steer)
                } else {
                    None
                };
                if let Some(wanted) = wanted {
                    if let Some(asked) = asking.take() {
                        self.deadline += asked.since.elapsed();
                        self.state.asked = None;
                        respond(peer, &asked, &Value::Null).await?;
                    }
                    peer.notify("session/cancel", &cancel).await?;
                    stopping = Some((wanted, Instant::now() + STOP_MAX));
                } else if let Some(asked) = asking.take() {
                    match self.answer(&asked.ask) {
                        Some((n, value)) => {
                            self.deadline += asked.since.elapsed();
                            respond(peer, &asked, &value).await?;
                            self.state.asked = None;
                            self.handle(Vec::new(), vec![n]).await;
                        }
                        None => asking = Some(asked),
                    }
                }
            }
            is_new = false;
            let stop_at = stopping.as_ref().map(|(_, at)| *at);
            let ask_at = asking.as_ref().map(|asking| asking.since + ASK_MAX);
            let unacked = self.session.journal().unacked_count();
            let flush_at = self.record.next_at(unacked);
            tokio::select! {
                message = peer.messages.recv() => match message {
                    None => return Ok(if matches!(stopping, Some((Stopping::Cancel, _))) {
                        End::Stopped(StopReason::Canceled)
                    } else {
                        End::Lost
                    }),
                    Some(Message::Notification { method, params }) => {
                        if method == "session/update" {
                            self.record.update(&params["update"]);
                        }
                    }
                    Some(Message::Request { id, method, params }) => {
                        let attention = match (&stopping, &asking) {
                            (Some(_), _) => Attention::Stopping,
                            (None, Some(_)) => Attention::Busy,
                            (None, None) => Attention::Free,
                        };
                        asking = self.request(peer, id, &method, &params, attention).await?.or(asking);
                        is_new = true;
                    }
                    Some(Message::Response { id, result }) if id == own => {
                        if let (Ok(result), false) = (&result, is_counted) {
                            self.record.add_tokens(&result["usage"]);
                        }
                        if let Some((Stopping::Steer, _)) = stopping {
                            stopping = None;
                            self.record.pause();
                            let (handled, texts): (Vec<u64>, Vec<String>) = self.steers().into_iter().unzip();
                            let rest = self.record.flush();
                            own = peer.request("session/prompt", &prompt(&texts.join("\n\n"))).await?;
                            self.handle(rest, handled).await;
                            is_new = true;
                            continue;
                        }
                        return stopped(result, stopping.is_some());
                    }
                    Some(Message::Response { .. }) => {}
                },
                Some(host) = door.blocked.recv() => self.record.add_step(&format!("Blocked: {host}")),
                () = self.session.woken.notified() => is_new = true,
                () = until(flush_at) => {
                    let events = self.record.due(unacked);
                    self.commit(events).await;
                }
                () = until(stop_at) => return Ok(match stopping {
                    Some((Stopping::Steer, _)) => {
                        let (handled, texts): (Vec<u64>, Vec<String>) = self.steers().into_iter().unzip();
                        let text = texts.join("\n\n");
                        self.state.next = Some(text.clone());
                        self.handle(Vec::new(), handled).await;
                        End::Again(text)
                    }
                    _ => End::Stopped(StopReason::Canceled),
                }),
                () = until(ask_at) => return Ok(End::Parked),
                () = sleep_until(self.deadline), if asking.is_none() => {
                    let seconds = self.duration_max().as_secs();
                    let message = match seconds % 60 {
                        0 if seconds > 60 => {
                            format!("The turn took longer than {} minutes", seconds / 60)
                        }
                        _ => format!("The turn took longer than {seconds} s"),
                    };
                    return Err(Failure::new(FailureCode::Timeout, message));
                }
            }
        }
    }

    /// Responds to a request of the agent, or returns it if a person answers it.
    async fn request(
        &mut self,
        peer: &mut Peer,
        id: Value,
        method: &str,
        params: &Value,
        attention: Attention,
    ) -> Result<Option<Asking>, Failure> {
        let (kind, title, options, schema) = match method {
            "session/request_permission" => {
                let call = &params["toolCall"];
                // Gemini CLI sends nothing else of a call before its end. Others have sent its contents.
                let shown = json!({"toolCallId": call["toolCallId"], "title": call["title"], "kind": call["kind"]});
                self.record.tool_call(&shown);
                let is_card =
                    call["kind"] == "switch_mode" || self.sandbox.kind() == SandboxKind::None;
                if !is_card || attention != Attention::Free {
                    // People decide one thing at a time.
                    let kind = if is_card { "reject_once" } else { "allow_once" };
                    let choice =
                        option_of_kind(params, kind).filter(|_| attention != Attention::Stopping);
                    let outcome = match choice {
                        Some(option) => {
                            json!({"outcome": {"outcome": "selected", "optionId": option}})
                        }
                        None => json!({"outcome": {"outcome": "cancelled"}}),
                    };
                    peer.respond(&id, &outcome).await?;
                    return Ok(None);
                }
                let title = call["title"].as_str().unwrap_or("The agent asks for permission");
                (AskKind::Permission, title, options(params), None)
            }
            "elicitation/create" => {
                let schema = &params["requestedSchema"];
                let is_form =
                    params["mode"].as_str().unwrap_or("form") == "form" && schema.is_object();
                if !is_form
                    || attention != Attention::Free
                    || schema.to_string().len() > SCHEMA_BYTES_MAX
                {
                    peer.respond(&id, &json!({"action": "decline"})).await?;
                    return Ok(None);
                }
                let title = params["message"].as_str().unwrap_or("The agent has a question");
                (AskKind::Question, title, Vec::new(), Some(schema.clone()))
            }
            _ => {
                peer.reject(&id, method).await?;
                return Ok(None);
            }
        };
        self.state.asks += 1;
        let ask = format!("{}_{}", self.prompt.task, self.state.asks);
        let title = cut(title, 2000).to_owned();
        self.state.asked = Some(Asked { ask: ask.clone(), title: title.clone() });
        let mut events = self.record.flush();
        let task = self.prompt.task.clone();
        events.push(Event::Ask { task, ask: ask.clone(), kind, title, options, schema });
        self.commit(events).await;
        Ok(Some(Asking { request: id, ask, kind, since: Instant::now() }))
    }

    /// The changes of the copy as a tree of the mirror, and the result of the check.
    async fn changes(&self) -> Result<(Changes, Check), Failure> {
        let none = Check { state: CheckState::None, ms: 0 };
        let Some(base) = &self.state.base else { return Ok((Changes::default(), none)) };
        let scratch = self.session.directory.join("scratch");
        let patch = scratch.join("changes");
        let owner = &self.shared.owner;
        let shown = self.session.directory.join("patch");
        let reading = async {
            if self.sandbox.output(DIFF, base, &patch, PATCH_BYTES_MAX, owner).await? {
                return self.mirror.changes(base, &patch, &scratch, &shown).await;
            }
            std::fs::write(&shown, "")?;
            let notes = vec![TOO_LARGE.to_owned()];
            Ok(Changes { too_large: true, notes, ..Changes::default() })
        };
        let mut changes = tokio::select! {
            changes = reading => changes?,
            // A filter of the agent can wait without end.
            () = self.late() => {
                return Err(Failure::agent("the changes could not be read in time"));
            }
        };
        let config = &self.shared.config;
        let script =
            config.repositories.get(&self.state.repository).map_or("", |r| r.check.as_str());
        if script.is_empty() || changes.files.is_empty() {
            return Ok((changes, none));
        }
        let duration_max = config.limits.setup;
        let env = BTreeMap::new();
        let ended = tokio::select! {
            biased;
            () = self.session.canceled(Some(&self.prompt.task)) => return Ok((changes, none)),
            ended = self.sandbox.shell(script, &env, None, duration_max, owner) => ended?,
        };
        if let Some(reason) = &ended.stopped {
            changes.notes.push(format!("The check was stopped: {reason}"));
        }
        let state = if ended.code == 0 { CheckState::Passed } else { CheckState::Failed };
        Ok((changes, Check { state, ms: ended.ms }))
    }

    /// Sends a file to the server, and waits while the server is away, unless the turn is canceled.
    async fn upload(&self, name: &str) -> Result<(), String> {
        let path = match name {
            "log" => log_path(self.session, &self.prompt.task),
            _ => self.session.directory.join(name),
        };
        let Ok(bytes) = std::fs::read(path) else { return Ok(()) };
        let bytes = bytes::Bytes::from(bytes);
        let route =
            format!("/v1/runner/sessions/{}/{name}?task_id={}", self.session.id, self.prompt.task);
        let config = &self.shared.config;
        let mut pause = Duration::from_secs(1);
        let started = Instant::now();
        loop {
            let request = self.shared.client.put(config.route(&route)).bearer_auth(&config.key);
            let request = request.timeout(UPLOAD_MAX).body(bytes.clone());
            let sent = tokio::select! {
                sent = request.send() => sent.ok(),
                () = self.late() => None,
            };
            let status = sent.map(|answer| answer.status());
            let cause = match status {
                Some(status) if status.is_success() => return Ok(()),
                Some(status) => status.to_string(),
                None => "the server did not respond".to_owned(),
            };
            if is_final(status, started.elapsed()) || self.is_canceled() {
                return Err(cause);
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(Duration::from_secs(30)),
                () = self.session.woken.notified() => {}
            }
        }
    }
}

/// True if a server that did not store a file is not asked again. Gateways respond for a server that is away.
fn is_final(status: Option<StatusCode>, elapsed: Duration) -> bool {
    match status {
        None
        | Some(
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT,
        ) => false,
        Some(status) if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS => true,
        Some(_) => elapsed > UPLOAD_REPEATED_MAX,
    }
}

pub(crate) fn log_path(session: &Session, task: &str) -> std::path::PathBuf {
    session.directory.join(format!("log.{task}"))
}

/// Starts the protocol, and returns the agent's response.
pub(crate) async fn initialize(peer: &mut Peer) -> Result<Value, Failure> {
    let params = json!({
        "protocolVersion": 1,
        "clientCapabilities": {
            "fs": {"readTextFile": false, "writeTextFile": false},
            "terminal": false,
            "elicitation": {"form": {}},
        },
        "clientInfo": {"name": "openvibe", "title": "OpenVibe", "version": env!("CARGO_PKG_VERSION")},
    });
    let hello = peer.call("initialize", &params, START_MAX).await?;
    if hello["protocolVersion"] != 1 {
        return Err(Failure::agent("it does not speak version 1 of the Agent Client Protocol"));
    }
    Ok(hello)
}

/// Opens a session of the agent in a directory and a mode, and returns its ID.
pub(crate) async fn new_session(
    peer: &mut Peer,
    work: &str,
    servers: &Value,
    mode: Option<&str>,
) -> Result<String, Failure> {
    let params = json!({"cwd": work, "mcpServers": servers});
    let new = peer.call("session/new", &params, START_MAX).await?;
    let Some(id) = new["sessionId"].as_str().filter(|id| id.len() <= 1000) else {
        return Err(Failure::agent("session/new returned no session"));
    };
    set_mode(peer, id, &new, mode).await?;
    Ok(id.to_owned())
}

/// Changes the mode of a session, which is the agent's response to its opening.
async fn set_mode(
    peer: &mut Peer,
    id: &str,
    session: &Value,
    mode: Option<&str>,
) -> Result<(), Failure> {
    let Some(mode) = mode.filter(|mode| session["modes"]["currentModeId"] != *mode) else {
        return Ok(());
    };
    let params = json!({"sessionId": id, "modeId": mode});
    peer.call("session/set_mode", &params, START_MAX).await.map(drop)
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn option_of_kind(params: &Value, kind: &str) -> Option<String> {
    let mut all = params["options"].as_array()?.iter();
    all.find(|option| option["kind"] == kind)?["optionId"].as_str().map(str::to_owned)
}

/// Options of a card: without those that would hold for later requests.
fn options(params: &Value) -> Vec<AskOption> {
    let all = params["options"].as_array().into_iter().flatten();
    let shown =
        all.filter(|option| !option["kind"].as_str().is_some_and(|kind| kind.ends_with("_always")));
    let text = |value: &Value| value.as_str().map(|text| cut(text, 200).to_owned());
    shown
        .filter_map(|option| {
            Some(AskOption { id: text(&option["optionId"])?, name: text(&option["name"])? })
        })
        .take(OPTIONS_MAX)
        .collect()
}

async fn respond(peer: &mut Peer, asking: &Asking, value: &Value) -> Result<(), Failure> {
    let result = match (asking.kind, value) {
        (AskKind::Permission, Value::String(option)) => {
            json!({"outcome": {"outcome": "selected", "optionId": option}})
        }
        (AskKind::Permission, _) => json!({"outcome": {"outcome": "cancelled"}}),
        (AskKind::Question, Value::Object(_)) => json!({"action": "accept", "content": value}),
        (AskKind::Question, _) => json!({"action": "decline"}),
    };
    peer.respond(&asking.request, &result).await
}

/// The end that a response to `session/prompt` means.
fn stopped(result: Result<Value, String>, is_canceled: bool) -> Result<End, Failure> {
    let result = match result {
        Ok(result) => result,
        Err(_) if is_canceled => return Ok(End::Stopped(StopReason::Canceled)),
        Err(message) => return Err(Failure::agent(format!("the agent failed: {message}"))),
    };
    match result["stopReason"].as_str().unwrap_or("end_turn") {
        "cancelled" => Ok(End::Stopped(StopReason::Canceled)),
        // The server's text for this names the agent.
        "refusal" => Err(Failure::new(FailureCode::Refused, "")),
        stop if stop.starts_with("max_") => Ok(End::Stopped(StopReason::Truncated)),
        _ => Ok(End::Stopped(StopReason::Complete)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_do_not_offer_more_than_one_use() {
        let params = json!({"options": [
            {"optionId": "a", "name": "Always", "kind": "allow_always"},
            {"optionId": "b", "name": "Once", "kind": "allow_once"},
            {"optionId": "c", "name": "No", "kind": "reject_once"},
        ]});
        assert_eq!(option_of_kind(&params, "allow_once").as_deref(), Some("b"));
        let ids: Vec<String> = options(&params).into_iter().map(|option| option.id).collect();
        assert_eq!(ids, ["b", "c"]);
        assert_eq!(option_of_kind(&json!({"options": 3}), "allow_once"), None);
    }

    #[test]
    fn a_policy_shortens_a_turn_and_its_hosts() {
        let prompt = |limits| Prompt {
            task: "task_1".to_owned(),
            key: String::new(),
            text: String::new(),
            full: None,
            limits,
        };
        let limits = |seconds, hosts: Option<&str>| {
            let hosts = hosts.map(|host| vec![host.to_owned()]);
            Some(TurnLimits { seconds, memory_mb: 256, cpu: 1, writes: true, hosts })
        };
        let allow = ["a.example".to_owned(), "b.example".to_owned()];
        let minute = Duration::from_mins(1);
        for (limits, seconds, hosts) in [
            (None, 60, 2),
            (limits(30, None), 30, 2),
            (limits(90, Some("B.example")), 60, 1),
            (limits(90, Some("c.example")), 60, 0),
        ] {
            let prompt = prompt(limits);
            assert_eq!(prompt.duration_max(minute), Duration::from_secs(seconds));
            assert_eq!(prompt.hosts(&allow).len(), hosts);
        }
    }

    #[test]
    fn a_server_that_cannot_store_a_file_is_not_asked_for_ever() {
        let late = UPLOAD_REPEATED_MAX + Duration::from_secs(1);
        for (status, at_once, later) in [
            (None, false, false),
            (Some(StatusCode::BAD_GATEWAY), false, false),
            (Some(StatusCode::INTERNAL_SERVER_ERROR), false, true),
            (Some(StatusCode::TOO_MANY_REQUESTS), false, true),
            (Some(StatusCode::PAYLOAD_TOO_LARGE), true, true),
        ] {
            let ends = (is_final(status, Duration::ZERO), is_final(status, late));
            assert_eq!(ends, (at_once, later), "{status:?}");
        }
    }

    #[test]
    fn stop_reasons_follow_the_table() {
        let end = |reason: &str| stopped(Ok(json!({"stopReason": reason})), false);
        assert!(matches!(end("end_turn"), Ok(End::Stopped(StopReason::Complete))));
        assert!(matches!(end("max_turn_requests"), Ok(End::Stopped(StopReason::Truncated))));
        assert!(matches!(end("cancelled"), Ok(End::Stopped(StopReason::Canceled))));
        assert!(end("refusal").is_err_and(|error| error.code == FailureCode::Refused));
        assert!(stopped(Err("no".to_owned()), false).is_err_and(|e| e.message.contains("no")));
    }
}
