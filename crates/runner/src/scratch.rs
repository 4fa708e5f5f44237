//! Programs of agents that need no repository (`scratch = true`): each runs in an empty directory, without a network, and leaves nothing.
//!
//! They have no journal. A program ends with the connection on which it came, because nobody waits for its output after that.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{io::AsyncReadExt, sync::mpsc, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    Owner,
    config::Config,
    failure::Failure,
    frames::{Control, Program, ProgramEnd, TEXT_BYTES_MAX, cut, is_id},
    git,
    sandbox::{Places, Sandbox},
    shared::Shared,
};

/// Maximum number of programs that run or wait.
const PROGRAMS_MAX: usize = 32;
/// Time that a program waits for others to end.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Maximum size of an output, which leaves room for notes.
const OUTPUT_BYTES_MAX: usize = TEXT_BYTES_MAX - 1024;
/// Runs `/tmp/code` with the interpreter `$1`.
const SCRIPT: &str = "exec 2>&1 </dev/null\nexec \"$1\" /tmp/code";

fn directory(config: &Config) -> PathBuf {
    config.data_dir.join("scratch")
}

/// Deletes what an earlier process has left.
pub(crate) async fn clear(config: &Config) -> Result<(), Failure> {
    git::remove(&directory(config)).await
}

/// Name of the program that runs code of a language.
fn interpreter(language: &str) -> Option<&'static str> {
    Some(match language.trim().to_ascii_lowercase().as_str() {
        "python" | "python3" | "py" => "python3",
        "sh" | "shell" => "sh",
        "bash" => "bash",
        "javascript" | "js" | "node" | "nodejs" => "node",
        "perl" => "perl",
        "ruby" => "ruby",
        _ => return None,
    })
}

/// Programs of a connection. Dropping it ends them.
pub(crate) struct Programs {
    running: BTreeMap<String, DropGuard>,
    sender: mpsc::Sender<(String, ProgramEnd)>,
    ended: mpsc::Receiver<(String, ProgramEnd)>,
}

impl Programs {
    pub(crate) fn new() -> Self {
        let (sender, ended) = mpsc::channel(PROGRAMS_MAX);
        Self { running: BTreeMap::new(), sender, ended }
    }

    /// Starts a program. Returns false for one that the server must not send.
    pub(crate) fn start(&mut self, shared: &Arc<Shared>, run: &str, program: Program) -> bool {
        if !shared.config.scratch || !is_id(run) || self.running.contains_key(run) {
            return false;
        }
        let is_full = self.running.len() >= PROGRAMS_MAX;
        let stop = shared.stop.child_token();
        self.running.insert(run.to_owned(), stop.clone().drop_guard());
        let (shared, sender, run) = (shared.clone(), self.sender.clone(), run.to_owned());
        let owner = shared.owner.clone();
        owner.spawn(async move {
            let ended =
                if is_full { Err(busy()) } else { in_turn(&shared, &run, &program, &stop).await };
            let end = match ended {
                Ok(output) => ProgramEnd::Ended { output },
                Err(failure) => ProgramEnd::Refused { message: failure.message },
            };
            // The connection may have ended.
            let _ = sender.send((run, end)).await;
        });
        true
    }

    /// Ends a program, if it runs or waits.
    pub(crate) fn kill(&mut self, run: &str) {
        self.running.remove(run);
    }

    /// Waits for the end of a program that was not killed.
    pub(crate) async fn ended(&mut self) -> Control {
        loop {
            let Some((run, end)) = self.ended.recv().await else {
                return std::future::pending().await;
            };
            if self.running.remove(&run).is_some() {
                return Control::Ran { run, end };
            }
        }
    }
}

fn busy() -> Failure {
    Failure::sandbox("the runner is busy: try again later")
}

/// Executes a program once there is a permit.
async fn in_turn(
    shared: &Shared,
    run: &str,
    program: &Program,
    stop: &CancellationToken,
) -> Result<String, Failure> {
    let waiting = timeout(WAIT_MAX, shared.programs.acquire());
    let Some(Ok(Ok(_permit))) = stop.run_until_cancelled(waiting).await else { return Err(busy()) };
    execute(&shared.config, &shared.owner, run, program, stop).await
}

/// Runs a program in a directory of its own, which is then deleted, and returns its output.
async fn execute(
    config: &Config,
    owner: &Owner,
    run: &str,
    program: &Program,
    stop: &CancellationToken,
) -> Result<String, Failure> {
    let Some(interpreter) = interpreter(&program.language) else {
        return Err(Failure::sandbox(format!(
            "the language `{}` is unknown: use python, sh, bash, javascript, perl, or ruby",
            cut(&program.language, 40)
        )));
    };
    let places = Places { session: directory(config).join(run), mirror: None };
    // A directory that an earlier program with this ID still has could hold links that the runner would follow.
    std::fs::create_dir_all(directory(config))?;
    std::fs::create_dir(&places.session)?;
    let sandbox = Sandbox::new(config, places).within_program(program);
    let duration_max = Duration::from_secs(program.seconds).min(config.limits.turn);
    let ended = execute_in(&sandbox, owner, interpreter, &program.code, duration_max, stop).await;
    delete(&sandbox.places.session).await;
    ended
}

/// Deletes the directory of a program. Its last processes can take a moment to end after their namespace.
async fn delete(directory: &Path) {
    for _ in 0..3 {
        match git::remove(directory).await {
            Ok(()) => return,
            Err(error) => tracing::error!(%error, "a directory could not be deleted"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn execute_in(
    sandbox: &Sandbox,
    owner: &Owner,
    interpreter: &str,
    code: &str,
    duration_max: Duration,
    stop: &CancellationToken,
) -> Result<String, Failure> {
    std::fs::create_dir(sandbox.places.copy())?;
    sandbox.places.create()?;
    std::fs::write(sandbox.places.session.join("tmp").join("code"), code)?;
    let words = ["sh", "-c", SCRIPT, "sh", interpreter].map(str::to_owned);
    let command = sandbox.command(&words, &BTreeMap::new(), None);
    let mut contained = sandbox.start(command, owner)?;
    drop(contained.child.stdin.take());
    let Some(mut stdout) = contained.child.stdout.take() else {
        return Err(Failure::sandbox("the program has no output"));
    };
    let mut bytes = Vec::new();
    let running = async {
        (&mut stdout).take(OUTPUT_BYTES_MAX as u64).read_to_end(&mut bytes).await?;
        // A program that cannot write would wait.
        tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await?;
        contained.child.wait().await
    };
    let ended = stop.run_until_cancelled(timeout(duration_max, running)).await;
    contained.kill().await;
    let Some(ended) = ended else { return Err(Failure::sandbox("the program was stopped")) };
    let text = String::from_utf8_lossy(&bytes);
    let mut output = cut(&text, OUTPUT_BYTES_MAX).to_owned();
    let mut note = |text: &str| {
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        output.push_str(text);
    };
    if text.len() >= OUTPUT_BYTES_MAX {
        note("(the rest of the output was left out)");
    }
    match (contained.stopped(), ended) {
        (Some(reason), _) => note(&format!("(stopped: {reason})")),
        (None, Err(_)) => note(&format!("(stopped after {} s)", duration_max.as_secs())),
        (None, Ok(ended)) => match ended?.code() {
            Some(0) => {}
            Some(code) => note(&format!("(exit status {code})")),
            None => note("(killed)"),
        },
    }
    Ok(if output.is_empty() { "(no output)".to_owned() } else { output })
}

/// Runs a program, and returns the interpreters that it finds.
pub(crate) async fn languages(config: &Config) -> Result<String, Failure> {
    let code = "for name in python3 bash node perl ruby sh; do command -v $name >/dev/null && echo $name; done";
    let program = Program {
        language: "sh".to_owned(),
        code: code.to_owned(),
        seconds: 20,
        memory_mb: None,
        cpu: None,
        writes: false,
    };
    // An interrupted check leaves its directory.
    git::remove(&directory(config).join("check")).await?;
    let stop = CancellationToken::new();
    let found = execute(config, &Owner::new(), "check", &program, &stop).await?;
    let found: Vec<&str> = found.lines().collect();
    if found.last() != Some(&"sh") {
        return Err(Failure::sandbox(format!("programs cannot be run: {}", found.join(", "))));
    }
    Ok(format!("programs run with {}", found.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_directory_that_a_program_has_is_not_used_again() {
        let data = tempfile::tempdir().unwrap();
        let repositories = ["api=https://git.example/api.git".to_owned()];
        let mut config =
            Config::of_arguments("http://127.0.0.1:9", "ovr_x", &repositories).unwrap();
        config.data_dir = data.path().join("data");
        let (tmp, victim) = (directory(&config).join("act_1/tmp"), data.path().join("victim"));
        std::fs::create_dir_all(&tmp).unwrap();
        std::fs::write(&victim, "kept").unwrap();
        std::os::unix::fs::symlink(&victim, tmp.join("code")).unwrap();
        let program = Program {
            language: "sh".to_owned(),
            code: "echo lies".to_owned(),
            seconds: 1,
            memory_mb: None,
            cpu: None,
            writes: true,
        };
        let (owner, stop) = (Owner::new(), CancellationToken::new());
        assert!(execute(&config, &owner, "act_1", &program, &stop).await.is_err());
        assert_eq!(std::fs::read_to_string(victim).unwrap(), "kept");
        // The first program deletes it.
        assert!(tmp.exists());
    }
}
