//! A session: its commands, one after the other.
//!
//! A command that was interrupted is executed again by the next process, so each can be repeated.

use std::{collections::BTreeMap, io::Write, path::Path, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};

use crate::{
    config::SandboxKind,
    door::{Door, Ways},
    failure::{Failure, finish},
    frames::{CheckState, Command, Event, FailureCode, is_id},
    git::{self, CHECKOUT, Mirror, PATCH_BYTES_MAX},
    journal::State,
    sandbox::{FOLDERS, Places, Sandbox},
    shared::{Session, Shared},
    skills,
    turn::{Prompt, Turn, log_path},
};

const PUSHED_MAX: usize = 1000;
/// File that is as old as the end of the setup.
const PREPARED: &str = "prepared";
/// Time to find the files of turns.
const FORGET_MAX: Duration = Duration::from_mins(10);

/// Executes commands until the runner stops, or the closed session is removed.
pub(crate) fn serve(shared: Arc<Shared>, session: Arc<Session>) -> BoxFuture<'static, ()> {
    async move { serve_commands(&shared, &session).await }.boxed()
}

async fn serve_commands(shared: &Arc<Shared>, session: &Session) {
    loop {
        let work = async {
            match session.next_command() {
                Some((n, command)) => execute(shared, session, n, command).await,
                None => session.woken.notified().await,
            }
        };
        if session.ended.run_until_cancelled(work).await.is_none() {
            return;
        }
    }
}

async fn execute(shared: &Arc<Shared>, session: &Session, n: u64, command: Command) {
    let mut state = session.state();
    let mut events = Vec::new();
    // Texts must not stay in the journal.
    let forgets = matches!(command, Command::Close | Command::Forget { .. });
    let failed = |task: Option<String>, action: Option<String>, failure: Failure| Event::Failed {
        task,
        action,
        code: failure.code,
        message: failure.message,
    };
    match command {
        Command::Open { repository, number, engine, patch, .. } => {
            if state.engine != engine {
                state.agent_session = None;
            }
            let known = state.repository == repository && state.number == number && !state.closed;
            if !known {
                state.base = None;
            }
            // The server asks for the patch until a turn has ended, also if this session has reported that it cannot be applied.
            let with_patch = if known { state.with_patch } else { patch };
            state = State { repository, number, engine, with_patch, closed: false, ..state };
            match open_unless_canceled(shared, session, &mut state, None).await {
                Some(Ok(commit)) => events.push(Event::Opened { commit }),
                Some(Err(failure)) => {
                    // The first turn reports it, too.
                    state.with_patch = with_patch;
                    events.push(failed(None, None, failure));
                }
                // A later turn prepares the copy.
                None => state.with_patch = with_patch,
            }
        }
        Command::Prompt { task, key, text, full, limits } if is_id(&task) => {
            let prompt = Prompt { task: task.clone(), key, text, full, limits };
            let ended = work(shared, session, &mut state, &prompt).await;
            // The turn has changed it.
            state = State { task: None, attempts: 0, asked: None, next: None, ..session.state() };
            events.push(ended.unwrap_or_else(|failure| failed(Some(task), None, failure)));
        }
        Command::Push { action, tree, parent, branch, title, body, at } => {
            let push = git::Push {
                tree: &tree,
                parent: &parent,
                branch: &branch,
                title: &title,
                body: &body,
                at: &at,
            };
            match push_tree(shared, session, &state, &push).await {
                Ok(pushed) => {
                    if !state.pushed.contains(&pushed.commit) {
                        state.pushed.push(pushed.commit.clone());
                        let surplus = state.pushed.len().saturating_sub(PUSHED_MAX);
                        state.pushed.drain(..surplus);
                    }
                    let git::Pushed { commit, url, note } = pushed;
                    events.push(Event::Pushed { action, commit, url, note });
                }
                Err(failure) => events.push(failed(None, Some(action), failure)),
            }
        }
        Command::Close => {
            close(session).await;
            let (base, agent_session, tree) = (None, None, None);
            state = State { closed: true, with_patch: false, base, agent_session, tree, ..state };
        }
        Command::Forget { task } => {
            forget(session, task.as_deref());
            if task.is_none() {
                // The patch and its objects.
                delete_directory(session, "scratch").await;
                state.tree = None;
            }
            // The agent's own history holds the texts, too: it starts again with the conversation as it is now.
            state.agent_session = None;
            if let Err(error) = forget_turns(session).await {
                tracing::error!(session.id, %error, "the files of turns could not be deleted");
            }
        }
        // The turn that these belong to has ended.
        Command::Steer { .. } | Command::Answer { .. } | Command::Cancel { .. } => {}
        Command::Unknown | Command::Prompt { .. } => {
            tracing::warn!(session.id, n, "the server sent an unknown command: upgrade the runner");
        }
    }
    shared.commit(session, events, Some(state), vec![n]).await;
    shared.keep_reserve();
    if forgets && let Err(error) = session.journal().compact() {
        tracing::error!(session.id, %error, "the journal could not be shortened");
    }
}

fn mirror<'a>(shared: &'a Shared, state: &State) -> Result<&'a Mirror, Failure> {
    shared.mirrors.get(&state.repository).ok_or_else(|| {
        Failure::sandbox(format!("{} is not in the runner's configuration", state.repository))
    })
}

fn sandbox(shared: &Shared, session: &Session, mirror: &Mirror) -> Sandbox {
    let places = Places { session: session.directory.clone(), mirror: Some(mirror.path.clone()) };
    Sandbox::new(&shared.config, places)
}

/// Prepares the copy like `open`; `None` if a task is canceled first. Without a task, this is any task that waits.
async fn open_unless_canceled(
    shared: &Arc<Shared>,
    session: &Session,
    state: &mut State,
    task: Option<&str>,
) -> Option<Result<String, Failure>> {
    tokio::select! {
        biased;
        opened = open(shared, session, state) => Some(opened),
        () = session.canceled(task) => None,
    }
}

/// Fetches a repository. The fetch goes on if nobody waits any more: a killed one could leave locks in the mirror.
async fn fetch(shared: &Arc<Shared>, name: &str) -> Result<String, Failure> {
    let state = State { repository: name.to_owned(), ..State::default() };
    // Canceled turns do not queue up here.
    let alone = mirror(shared, &state)?.fetching().await;
    let fetching = shared.clone();
    let fetch = shared.owner.spawn(async move {
        let fetched = mirror(&fetching, &state)?.fetch_alone(alone);
        let fetched = fetching.stop.run_until_cancelled(fetched).await;
        fetched.unwrap_or_else(|| Err(Failure::sandbox("the runner is stopping")))
    });
    fetch.await.unwrap_or_else(|_| Err(Failure::sandbox("the repository could not be fetched")))
}

/// Prepares the copy, unless it is ready, and returns its commit.
async fn open(
    shared: &Arc<Shared>,
    session: &Session,
    state: &mut State,
) -> Result<String, Failure> {
    if let Some(base) = &state.base {
        return Ok(base.clone());
    }
    let name = state.repository.clone();
    let mirror = mirror(shared, state)?;
    let sandbox = sandbox(shared, session, mirror);
    // A copy that was lost keeps its state, but the agent's session is gone with its home.
    state.agent_session = None;
    shared.commit(session, Vec::new(), Some(state.clone()), Vec::new()).await;
    let commit = fetch(shared, &name).await?;
    // The setup takes as much of the machine as a turn.
    let permit = shared.turns.acquire().await;
    let _permit = permit.map_err(|_| Failure::sandbox("the runner is stopping"))?;
    delete(&session.directory.join(PREPARED));
    for directory in ["home", "tmp", "shm", "scratch"] {
        git::remove(&session.directory.join(directory)).await?;
    }
    sandbox.places.create()?;
    mirror.copy(&sandbox.places.copy()).await?;
    let limit = shared.config.limits.setup;
    let env = BTreeMap::from([
        ("BRANCH".to_owned(), format!("vibe/{}", state.number)),
        ("COMMIT".to_owned(), commit.clone()),
    ]);
    let ended = sandbox.shell(CHECKOUT, &env, None, limit, &shared.owner).await?;
    if let Some(cause) = ended.cause("git checkout", limit) {
        return Err(Failure::sandbox(format!("{name} could not be prepared: {cause}")));
    }
    let repository = &shared.config.repositories[&name];
    if !repository.setup.is_empty() {
        let ways = Ways {
            server: shared.config.server.clone(),
            key: None,
            engine: None,
            allow: repository.allow.clone(),
            client: shared.client.clone(),
        };
        let mut door = Door::open(&shared.config, &session.id, ways, &shared.owner).await?;
        let setup = &repository.setup;
        let ended = sandbox
            .shell(setup, &BTreeMap::new(), Some(&door.address), limit, &shared.owner)
            .await?;
        if let Some(cause) = ended.cause(setup, limit) {
            let blocked = door.blocked.try_recv().map(|host| format!(" ({host} is blocked)"));
            let blocked = blocked.unwrap_or_default();
            return Err(Failure::sandbox(format!(
                "{name} could not be prepared: {cause}{blocked}"
            )));
        }
    }
    std::fs::write(session.directory.join(PREPARED), "")?;
    if state.with_patch {
        let patch = last_patch(shared, session).await?;
        // Changes that cannot be applied are reported once; the next turn begins without them.
        state.with_patch = false;
        apply_patch(shared, session, &sandbox, &patch).await?;
    }
    state.base = Some(commit.clone());
    Ok(commit)
}

fn not_applied(cause: &str) -> Failure {
    Failure::sandbox(format!("the last changes cannot be applied: {cause}"))
}

/// The session's last patch, from the server; empty if there is none.
async fn last_patch(shared: &Shared, session: &Session) -> Result<Vec<u8>, Failure> {
    let route = shared.config.route(&format!("/v1/runner/sessions/{}/patch", session.id));
    let request = shared.client.get(route).bearer_auth(&shared.config.key);
    let request = request.timeout(Duration::from_mins(2));
    let failed = |error: reqwest::Error| not_applied(&error.without_url().to_string());
    let answer = request.send().await.map_err(failed)?;
    if answer.status() == reqwest::StatusCode::NOT_FOUND {
        return Ok(Vec::new());
    }
    let mut answer = answer.error_for_status().map_err(failed)?;
    let mut patch = Vec::new();
    // A proxy can leave out the length.
    while let Some(chunk) = answer.chunk().await.map_err(failed)? {
        if (patch.len() + chunk.len()) as u64 > PATCH_BYTES_MAX {
            return Err(not_applied("the patch is larger than 20 MiB"));
        }
        patch.extend_from_slice(&chunk);
    }
    Ok(patch)
}

/// Applies a patch to a new copy, inside of the sandbox.
async fn apply_patch(
    shared: &Shared,
    session: &Session,
    sandbox: &Sandbox,
    patch: &[u8],
) -> Result<(), Failure> {
    if patch.is_empty() {
        return Ok(());
    }
    let path = session.directory.join("home").join("openvibe.patch");
    // The setup could have left a link with this name.
    delete(&path);
    std::fs::File::create_new(path)?.write_all(patch)?;
    let script = "git apply --index --whitespace=nowarn -- \"$HOME/openvibe.patch\"; \
        status=$?; rm -f -- \"$HOME/openvibe.patch\"; exit $status";
    let limit = shared.config.limits.setup;
    let ended = sandbox.shell(script, &BTreeMap::new(), None, limit, &shared.owner).await?;
    if ended.code == 0 { Ok(()) } else { Err(not_applied("the base has changed")) }
}

async fn work(
    shared: &Arc<Shared>,
    session: &Session,
    state: &mut State,
    prompt: &Prompt,
) -> Result<Event, Failure> {
    if state.base.is_some() && !session.directory.join("copy").exists() {
        state.base = None;
        state.with_patch = state.tree.is_some();
    }
    if state.base.is_none() {
        let with_patch = state.with_patch;
        let opened = open_unless_canceled(shared, session, state, Some(&prompt.task)).await;
        if opened.is_none() {
            state.with_patch = with_patch;
        }
        // The base can be another commit than before, and a push names it.
        let commits = opened.iter().flatten();
        let events = commits.map(|commit| Event::Opened { commit: commit.clone() }).collect();
        shared.commit(session, events, Some(state.clone()), Vec::new()).await;
        // A canceled turn ends by itself.
        opened.transpose()?;
    }
    let mirror = mirror(shared, state)?;
    let sandbox = sandbox(shared, session, mirror);
    let sandbox = match &prompt.limits {
        Some(limits) => sandbox.within_policy(limits),
        None => sandbox,
    };
    sandbox.places.create()?;
    let ended = Turn::new(shared, session, mirror, &sandbox, prompt)?.run().await;
    clean(session, &sandbox, &ended).await;
    ended
}

/// Deletes what a turn has left for nobody. If it has filled the disk, the copy goes, too: the next turn begins with the last changes.
async fn clean(session: &Session, sandbox: &Sandbox, ended: &Result<Event, Failure>) {
    for name in ["tmp", "shm"] {
        delete_directory(session, name).await;
    }
    for name in ["changes", "index"] {
        delete(&session.directory.join("scratch").join(name));
    }
    let is_good =
        matches!(ended, Ok(Event::Done { check, .. }) if check.state != CheckState::Failed);
    if !is_good && sandbox.is_full().await {
        tracing::warn!(session.id, "a turn has filled the disk: its copy is deleted");
        for name in ["copy", "home"] {
            delete_directory(session, name).await;
        }
    }
    // The next turn tries again.
    let _ = sandbox.places.create();
}

/// Pushes what people saw: the tree of the last turn, on its base or on our last commit.
async fn push_tree(
    shared: &Arc<Shared>,
    session: &Session,
    state: &State,
    push: &git::Push<'_>,
) -> Result<git::Pushed, Failure> {
    if shared.config.sandbox == SandboxKind::None {
        let message = "This runner has no sandbox, so it does not push";
        return Err(Failure::new(FailureCode::PushFailed, message));
    }
    let branch = format!("vibe/{}", state.number);
    let parents = state.base.iter().chain(&state.pushed);
    let is_known = state.tree.as_deref() == Some(push.tree)
        && parents.into_iter().any(|parent| parent == push.parent)
        && push.branch == branch;
    let is_time = |c: char| c.is_ascii_digit() || "-:TZ.".contains(c);
    if !is_known || !push.at.chars().all(is_time) {
        let message = "The changes are not the ones of the last turn";
        return Err(Failure::new(FailureCode::DiffChanged, message));
    }
    let scratch = session.directory.join("scratch");
    std::fs::create_dir_all(&scratch)?;
    mirror(shared, state)?.push(push, &scratch).await
}

/// Deletes everything but the journal.
async fn close(session: &Session) {
    forget(session, None);
    delete(&session.directory.join(PREPARED));
    for name in ["copy", "home", "tmp", "shm", "scratch", skills::INDEX, FOLDERS] {
        delete_directory(session, name).await;
    }
}

async fn delete_directory(session: &Session, part: &str) {
    if let Err(error) = git::remove(&session.directory.join(part)).await {
        tracing::error!(session.id, %error, part, "a directory could not be deleted");
    }
}

/// Deletes what turns have written outside of the copy, such as the histories of agents, wherever they keep them. What the setup has written
/// stays, because it does not run again.
async fn forget_turns(session: &Session) -> Result<(), Failure> {
    let prepared = session.directory.join(PREPARED);
    if !prepared.exists() {
        return Ok(());
    }
    let places = ["home", "tmp", "shm"];
    // Directories without permissions hide their files. Links to missing files make `chmod` fail.
    let mut command = tokio::process::Command::new("chmod");
    command.args(["-R", "u+rwX", "--"]).args(places).current_dir(&session.directory);
    finish(command, FORGET_MAX, 0).await?;
    let mut command = tokio::process::Command::new("find");
    command.arg("-P").args(places).arg("-xdev").current_dir(&session.directory);
    // Files can be deeper than a path is long.
    command.args(["!", "-type", "d", "-newer"]).arg(prepared).arg("-delete");
    let ended = finish(command, FORGET_MAX, 0).await?;
    if ended.is_success() { Ok(()) } else { Err(Failure::sandbox(ended.cause())) }
}

/// Deletes the log of a task, or all logs and the patch.
fn forget(session: &Session, task: Option<&str>) {
    match task {
        Some(task) if is_id(task) => delete(&log_path(session, task)),
        Some(_) => {}
        None => {
            for entry in std::fs::read_dir(&session.directory).into_iter().flatten().flatten() {
                let name = entry.file_name();
                if name == "patch" || name.as_encoded_bytes().starts_with(b"log.") {
                    delete(&entry.path());
                }
            }
        }
    }
}

fn delete(path: &Path) {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::error!(%error, path = %path.display(), "a file could not be deleted");
        }
        _ => {}
    }
}
