//! The connection of a runner: which one serves it, what each side has, and what it offers.

use std::collections::BTreeMap;

use openvibe_runner::{Control, OfferedEngine, OfferedRepository, PROTOCOL, SandboxKind};
use uuid::Uuid;

use super::{
    commands::{self, CommandFrame},
    push,
    repository::{Offer, announce_connection, store_offers},
    runner::{RunnerEngine, RunnerIdentity},
    sessions::{self, SessionState},
    turns,
};
use crate::{
    db::{Conn, Db, DbError, Json, dialect::lock_workspace, now},
    failpoint,
    ids::{CodeSessionId, RunnerId},
    tasks::FailCode,
};

/// Maximum number of repositories and of engines that a runner offers.
const OFFERS_MAX: usize = 100;
const NAME_CHARS_MAX: usize = 64;
const BASE_CHARS_MAX: usize = 200;
const VERSION_CHARS_MAX: usize = 40;
/// Maximum number of a command: further ones must fit into a column.
const COMMAND_MAX: i64 = 1 << 53;

/// Reason why a connection cannot begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadHello {
    /// The frame is not a greeting, or offers something invalid.
    Malformed,
    OtherProtocol,
}

/// The greeting of a runner.
#[derive(Debug, Clone)]
pub struct RunnerHello {
    version: String,
    sandbox: String,
    /// True if the runner takes programs that need no repository.
    has_scratch: bool,
    /// Number of turns that the runner works on at the same time; `None` for one that takes all at once.
    turns_max: Option<usize>,
    offers: Vec<Offer>,
    engines: Vec<RunnerEngine>,
    /// Number of the last command by session.
    sessions: BTreeMap<CodeSessionId, i64>,
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(fits)
}

fn is_line(text: &str, chars_max: usize) -> bool {
    text.chars().count() <= chars_max && !text.chars().any(char::is_control)
}

fn offer_of(offered: OfferedRepository) -> Option<Offer> {
    let OfferedRepository {
        name,
        base,
        can_push,
    } = offered;
    (is_name(&name) && is_line(&base, BASE_CHARS_MAX)).then_some(Offer {
        name,
        base,
        can_push,
    })
}

fn engine_of(offered: OfferedEngine) -> Option<RunnerEngine> {
    let OfferedEngine { name, to } = offered;
    let is_host = to.as_ref().is_none_or(|host| is_line(host, BASE_CHARS_MAX));
    (is_name(&name) && is_host).then_some(RunnerEngine { name, to })
}

impl RunnerHello {
    /// Parses the first frame of a connection.
    ///
    /// # Errors
    /// The reason why it is not a greeting.
    pub fn parse(text: &str) -> Result<Self, BadHello> {
        // A runner of a later protocol can send another greeting.
        let protocol = serde_json::from_str::<serde_json::Value>(text)
            .ok()
            .and_then(|frame| frame["protocol"].as_u64());
        if protocol.is_some_and(|protocol| protocol != u64::from(PROTOCOL)) {
            return Err(BadHello::OtherProtocol);
        }
        let Ok(Control::Hello {
            version,
            repositories,
            engines,
            sandbox,
            scratch,
            turns,
            sessions,
            ..
        }) = serde_json::from_str(text)
        else {
            return Err(BadHello::Malformed);
        };
        if repositories.len() > OFFERS_MAX || engines.len() > OFFERS_MAX {
            return Err(BadHello::Malformed);
        }
        let offers: Option<Vec<Offer>> = repositories.into_iter().map(offer_of).collect();
        let engines: Option<Vec<RunnerEngine>> = engines.into_iter().map(engine_of).collect();
        let (Some(offers), Some(engines)) = (offers, engines) else {
            return Err(BadHello::Malformed);
        };
        let has_scratch = scratch && sandbox != SandboxKind::None;
        let sandbox = serde_json::to_value(sandbox).ok();
        // Sessions of other servers are ignored, and numbers that no server gives.
        let known = sessions.into_iter().filter_map(|(id, n)| {
            let id = CodeSessionId::parse(&id).ok()?;
            let n = i64::try_from(n).ok().filter(|n| *n <= COMMAND_MAX)?;
            Some((id, n))
        });
        Ok(Self {
            version: version
                .chars()
                .filter(|c| !c.is_control())
                .take(VERSION_CHARS_MAX)
                .collect(),
            sandbox: sandbox
                .as_ref()
                .and_then(|sandbox| sandbox.as_str())
                .unwrap_or_default()
                .to_owned(),
            has_scratch,
            turns_max: turns,
            offers,
            engines,
            sessions: known.collect(),
        })
    }
}

/// The state of a connection that has begun.
#[derive(Debug, Clone)]
pub struct Connected {
    pub connection: Uuid,
    /// True if the runner takes programs that need no repository.
    pub has_scratch: bool,
    /// Number of turns that the runner works on at the same time; `None` for one that takes all at once.
    pub turns_max: Option<usize>,
    /// Number of the last event by session.
    pub events: BTreeMap<CodeSessionId, i64>,
    /// Number of the last command that the runner has, by session.
    pub commands: BTreeMap<CodeSessionId, i64>,
}

#[derive(sqlx::FromRow)]
struct Known {
    id: CodeSessionId,
    state: SessionState,
    last_command: i64,
    last_event: i64,
    has_copy: bool,
    has_commands: bool,
}

/// Makes this connection the one that serves a runner, and stores what the runner offers.
///
/// # Errors
/// Only database errors. Returns `None` if the runner was deleted.
pub async fn connect(
    c: &mut Conn,
    runner: RunnerIdentity,
    hello: &RunnerHello,
) -> Result<Option<Connected>, DbError> {
    lock_workspace(c, runner.workspace_id.0).await?;
    let connection = Uuid::now_v7();
    let updated = c
        .q("update runners set connection_id = $2, seen_at = $3, version = $4, sandbox = $5, engines = $6, scratch = $7 where id = $1")
        .bind(runner.id)
        .bind(connection)
        .bind(now())
        .bind(hello.version.clone())
        .bind(hello.sandbox.clone())
        .bind(Json(hello.engines.clone()))
        .bind(hello.has_scratch)
        .run()
        .await?;
    if updated == 0 {
        return Ok(None);
    }
    store_offers(c, runner.workspace_id, runner.id, &hello.offers).await?;
    announce_connection(c, runner.workspace_id, runner.id).await?;
    let known: Vec<Known> = c
        .q("select s.id, s.state, s.last_command, s.last_event, s.base_commit is not null as has_copy, \
            exists (select 1 from runner_commands m where m.session_id = s.id) as has_commands \
            from code_sessions s join repositories r on r.id = s.repository_id where r.runner_id = $1 order by s.id")
        .bind(runner.id)
        .all()
        .await?;
    let mut connected = Connected {
        connection,
        has_scratch: hello.has_scratch,
        turns_max: hello.turns_max,
        events: BTreeMap::new(),
        commands: BTreeMap::new(),
    };
    for session in known {
        let received = hello.sessions.get(&session.id).copied();
        if session.state == SessionState::Closed && received.is_none() && !session.has_commands {
            continue;
        }
        connected.events.insert(session.id, session.last_event);
        match received {
            Some(n) => {
                commands::delete(c, session.id, n).await?;
                turns::note_received(c, session.id, n).await?;
                connected.commands.insert(session.id, n);
                if n > session.last_command {
                    // The database was restored: the runner ignores numbers that it has.
                    c.q("update code_sessions set last_command = $2 where id = $1")
                        .bind(session.id)
                        .bind(n)
                        .run()
                        .await?;
                }
            }
            None if session.state == SessionState::Closed => {}
            // It has not begun.
            None if session.has_commands && !session.has_copy => {}
            None => lose(c, session.id).await?,
        }
    }
    turns::resume(c, runner.id).await?;
    Ok(Some(connected))
}

/// Notes that a runner has lost the copy of a session, with all its turns.
async fn lose(c: &mut Conn, session: CodeSessionId) -> Result<(), DbError> {
    for turn in turns::list_of_session(c, session).await? {
        let text = "The runner lost its work on this. Please ask again.";
        turns::fail(c, turn.task_id, FailCode::WorkerLost, Some(text)).await?;
    }
    commands::delete(c, session, i64::MAX).await?;
    let cause = "The runner lost its work before it reported the result.";
    push::fail_approved(c, session, cause).await?;
    c.q("update code_sessions set base_commit = null where id = $1")
        .bind(session)
        .run()
        .await?;
    sessions::set_state(c, session, SessionState::Lost).await
}

/// Notes that a runner is alive. Returns false if another connection serves it now, or if it was deleted.
///
/// # Errors
/// Only database errors.
pub async fn renew(c: &mut Conn, runner: RunnerId, connection: Uuid) -> Result<bool, DbError> {
    let renewed = c
        .q("update runners set seen_at = $3 where id = $1 and connection_id = $2")
        .bind(runner)
        .bind(connection)
        .bind(now())
        .run()
        .await?;
    Ok(renewed == 1)
}

/// Ends the connection of a runner, unless another one serves it now.
///
/// # Errors
/// Only database errors.
pub async fn disconnect(
    c: &mut Conn,
    runner: RunnerIdentity,
    connection: Uuid,
) -> Result<(), DbError> {
    let ended = c
        .q("update runners set connection_id = null where id = $1 and connection_id = $2")
        .bind(runner.id)
        .bind(connection)
        .run()
        .await?;
    if ended == 1 {
        announce_connection(c, runner.workspace_id, runner.id).await?;
    }
    Ok(())
}

/// Checks whether this connection still serves the runner.
async fn serves(c: &mut Conn, runner: RunnerId, connection: Uuid) -> Result<bool, DbError> {
    c.q("select exists (select 1 from runners where id = $1 and connection_id = $2)")
        .bind(runner)
        .bind(connection)
        .value()
        .await
}

/// Returns the next frames for a runner; `None` if another connection serves it now, or if it was deleted. Prompts of further turns than
/// `turns_max` wait.
///
/// # Errors
/// Only database errors.
pub async fn take_frames(
    db: &Db,
    runner: RunnerIdentity,
    connection: Uuid,
    sent: &BTreeMap<CodeSessionId, i64>,
    turns_max: Option<usize>,
) -> Result<Option<Vec<CommandFrame>>, DbError> {
    let mut c = db.read().await?;
    if !serves(&mut c, runner.id, connection).await? {
        return Ok(None);
    }
    if turns::has_changed(&mut c, runner.id).await? {
        drop(c);
        db.write(runner.workspace_id.0, async move |c: &mut Conn| {
            lock_workspace(c, runner.workspace_id.0).await?;
            turns::follow(c, runner.id).await
        })
        .await?;
        c = db.read().await?;
    }
    let held = match turns_max {
        Some(turns_max) => turns::list_held(&mut c, runner.id, turns_max).await?,
        None => BTreeMap::new(),
    };
    let pending = commands::list(&mut c, runner.id, sent, &held).await?;
    if !commands::have_prompt(&pending) {
        return Ok(Some(commands::frames(&mut c, &pending).await?));
    }
    drop(c);
    db.write(runner.workspace_id.0, async move |c: &mut Conn| {
        lock_workspace(c, runner.workspace_id.0).await?;
        // A newer connection can have sent the prompt already, with a key that must stay.
        if !serves(c, runner.id, connection).await? {
            return Ok(None);
        }
        Ok::<_, DbError>(Some(commands::frames(c, &pending).await?))
    })
    .await
}

/// Checks whether a session belongs to a runner.
pub(super) async fn is_of_runner(
    c: &mut Conn,
    runner: RunnerId,
    session: CodeSessionId,
) -> Result<bool, DbError> {
    c.q("select exists (select 1 from code_sessions s join repositories r on r.id = s.repository_id where s.id = $1 and r.runner_id = $2)")
        .bind(session)
        .bind(runner)
        .value()
        .await
}

/// Deletes the commands of a session that the runner has stored, up to number `n`, and starts the turns whose prompts it has.
///
/// # Errors
/// Only database errors.
pub async fn acknowledge(
    c: &mut Conn,
    runner: RunnerId,
    session: CodeSessionId,
    n: i64,
) -> Result<(), DbError> {
    if is_of_runner(c, runner, session).await? {
        commands::delete(c, session, n).await?;
        turns::note_received(c, session, n).await?;
        failpoint!("runner_ack");
    }
    Ok(())
}

/// Notes that the events of a session up to number `n` are lost.
///
/// # Errors
/// Only database errors.
pub async fn skip(
    c: &mut Conn,
    runner: RunnerId,
    session: CodeSessionId,
    n: i64,
) -> Result<(), DbError> {
    if is_of_runner(c, runner, session).await? {
        c.q("update code_sessions set last_event = $2 where id = $1 and last_event < $2")
            .bind(session)
            .bind(n)
            .run()
            .await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(change: impl FnOnce(&mut serde_json::Value)) -> Result<RunnerHello, BadHello> {
        let mut frame = serde_json::json!({
            "type": "hello", "protocol": 1, "version": "0.1.0", "sandbox": "bubblewrap",
            "repositories": [{"name": "api", "base": "main", "can_push": true}],
            "engines": [{"name": "builtin", "to": null}],
            "sessions": {CodeSessionId::new().to_string(): 3, "code_1": 7},
        });
        change(&mut frame);
        RunnerHello::parse(&frame.to_string())
    }

    #[test]
    fn a_greeting_is_read_without_sessions_of_other_servers() {
        let hello = hello(|_| {}).unwrap();
        assert_eq!((hello.offers.len(), hello.engines.len()), (1, 1));
        assert_eq!(
            (hello.sandbox.as_str(), hello.sessions.len()),
            ("bubblewrap", 1)
        );
    }

    #[test]
    fn a_version_has_no_control_characters() {
        let found = hello(|frame| frame["version"] = "0.\u{0}1\n".into());
        assert_eq!(found.unwrap().version, "0.1");
    }

    #[test]
    fn numbers_after_which_no_command_has_one_are_ignored() {
        for (n, count) in [(COMMAND_MAX, 1), (COMMAND_MAX + 1, 0), (i64::MAX, 0)] {
            let found = hello(|frame| {
                frame["sessions"] = serde_json::json!({CodeSessionId::new().to_string(): n});
            });
            assert_eq!(found.unwrap().sessions.len(), count, "{n}");
        }
    }

    #[test]
    fn only_a_runner_with_a_sandbox_takes_programs() {
        assert!(!hello(|_| {}).unwrap().has_scratch);
        let scratch = |sandbox: &str| {
            let found = hello(|frame| {
                frame["scratch"] = true.into();
                frame["sandbox"] = sandbox.into();
            });
            found.unwrap().has_scratch
        };
        assert!(scratch("bubblewrap") && !scratch("none"));
    }

    #[test]
    fn hostile_greetings_are_rejected() {
        for name in ["", "a/b", "..\n", "é", &"x".repeat(65)] {
            let found = hello(|frame| frame["repositories"][0]["name"] = name.into());
            assert!(matches!(found, Err(BadHello::Malformed)), "{name}");
        }
        let many = hello(|frame| {
            let engine = frame["engines"][0].clone();
            frame["engines"] = vec![engine; 101].into();
        });
        assert!(matches!(many, Err(BadHello::Malformed)));
        let newer = hello(|frame| frame["protocol"] = 2.into());
        assert!(matches!(newer, Err(BadHello::OtherProtocol)));
        assert!(matches!(RunnerHello::parse("[]"), Err(BadHello::Malformed)));
    }
}
