//! `openvibe agents import|export` with agent files and a running server.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

use crate::support::{Person, Team, list, team, text};

/// A temporary directory, removed on drop.
struct Files(PathBuf);

impl Files {
    fn new() -> Self {
        let dir = std::env::temp_dir().join(format!("openvibe-cli-{}", uuid::Uuid::now_v7()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Runs the command with an API key of this person.
async fn run(person: &Person, scopes: &[&str], dir: &Path, arguments: &[&str]) -> Output {
    let (robot, _) = person.make_key(scopes).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_openvibe"));
    command
        .env_clear()
        .current_dir(dir)
        .arg("agents")
        .args(arguments)
        .args([
            "--server",
            &robot.base,
            "--api-key",
            robot.key.as_deref().unwrap(),
        ]);
    openvibe::blocking::blocking((), move || command.output().unwrap())
        .await
        .unwrap()
}

#[track_caller]
fn said(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

async fn import(t: &Team, dir: &Path, arguments: &[&str]) -> Output {
    let all: Vec<&str> = ["import"].iter().chain(arguments).copied().collect();
    run(&t.bo, &["agents:write", "agents:read"], dir, &all).await
}

#[tokio::test]
async fn files_create_an_agent() {
    let (t, files) = (team().await, Files::new());
    files.write("SOUL.md", "You are Fern, patient and exact.\n");
    files.write("IDENTITY.md", "- Name: Fern\n- Emoji: 🌿\n");
    files.write("notes.md", "Ferns like shade.");
    let arguments = [
        "--soul",
        "SOUL.md",
        "--identity",
        "IDENTITY.md",
        "--memory",
        "notes.md",
        "--name",
        "fern",
        "--model",
        "tiny",
    ];
    let output = import(&t, &files.0, &arguments).await;
    assert!(said(&output).starts_with("created @fern (agent_"));
    let agent = t.bo.agent("fern").await;
    let whole =
        t.bo.get(&format!("/v1/agents/{}", text(&agent, "/id")))
            .await
            .ok();
    assert_eq!(whole["instructions"], "You are Fern, patient and exact.\n");
    assert_eq!(
        (&whole["display_name"], &whole["model"]),
        (&"Fern".into(), &"tiny".into())
    );
    assert_eq!(whole["avatar"]["emoji"], "🌿");
    let memory = format!("/v1/agents/{}/files/MEMORY.md", text(&agent, "/id"));
    assert_eq!(t.bo.get(&memory).await.ok()["content"], "Ferns like shade.");
}

#[tokio::test]
async fn an_import_names_the_options_without_effect() {
    let (t, files) = (team().await, Files::new());
    files.write("SOUL.md", "You are Birch.");
    files.write(
        "agent.json",
        r#"{"role": "reviewer", "memory": {"summary_enabled": true, "conversation_retention_days": 30},
            "tools": [{"type": "function", "name": "look_up"}, {"type": "delegate"}, {"type": "web_fetch"}]}"#,
    );
    let output = said(&import(&t, &files.0, &["--dir", ".", "--name", "birch"]).await);
    let report: Vec<&str> = output.lines().skip(1).collect();
    assert_eq!(
        report,
        [
            "SOUL.md: sent with every reply as the agent's instructions",
            "no effect yet: role, tools: function"
        ]
    );
    files.write("agent.json", r#"{"temperature": 0.25}"#);
    let output = said(&import(&t, &files.0, &["--dir", ".", "--name", "alder"]).await);
    assert_eq!(output.lines().count(), 2, "{output}");
}

#[tokio::test]
async fn a_directory_is_exported_and_imported_as_the_same_agent() {
    let (t, files, copy) = (team().await, Files::new(), Files::new());
    files.write("SOUL.md", "You are Moss.");
    files.write("MEMORY.md", "Soft.");
    files.write("memory/2026-11-20.md", "Grew a little.");
    files.write("AGENTS.md", "Answer in one line.");
    files.write(".git/config", "not an agent's file");
    files.write(
        "agent.json",
        r#"{"temperature": 0.25, "capabilities": ["shade"], "metadata": {"team": "garden"}}"#,
    );
    said(&import(&t, &files.0, &["--dir", ".", "--name", "moss"]).await);
    let scopes = ["agents:read"];
    let export = ["export", "--name", "moss", "--dir", "out"];
    said(&run(&t.bo, &scopes, &copy.0, &export).await);
    for path in ["SOUL.md", "MEMORY.md", "memory/2026-11-20.md", "AGENTS.md"] {
        assert_eq!(
            copy.read(&format!("out/{path}")),
            files.read(path),
            "{path}"
        );
    }
    assert!(!copy.0.join("out/.git").exists());
    said(&import(&t, &copy.0, &["--dir", "out", "--name", "moss-two"]).await);
    let mut both = Vec::new();
    for name in ["moss", "moss-two"] {
        let agent = t.bo.agent(name).await;
        let path = format!("/v1/agents/{}/export", text(&agent, "/id"));
        let mut export = t.bo.get(&path).await.ok();
        export["agent"]["name"] = "one".into();
        both.push(export);
    }
    assert_eq!(both[0], both[1]);
}

/// Strings of a JSON list.
fn strings(list: &Value) -> Vec<String> {
    let strings = list.as_array().into_iter().flatten();
    strings
        .map(|one| one.as_str().unwrap().to_owned())
        .collect()
}

/// The browser imports the same folders in `web/src/state/agents-text.test.ts`.
#[tokio::test]
async fn folders_of_other_programs_become_agents() {
    let t = team().await;
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/agents");
    let expected = fs::read_to_string(fixtures.join("expected.json")).unwrap();
    let expected: BTreeMap<String, Value> = serde_json::from_str(&expected).unwrap();
    for (folder, wanted) in expected {
        let output = said(&import(&t, &fixtures, &["--dir", &folder]).await);
        let name = text(&wanted, "/name");
        let (before, after) = output.split_once("created @").unwrap();
        assert!(after.starts_with(&format!("{name} (")), "{output}");
        for path in strings(&wanted["skipped"]) {
            let line = if path == "USER.md" {
                "USER.md describes a person: add it in Settings › Memory".to_owned()
            } else {
                format!("{path} is left out: ")
            };
            assert!(before.contains(&line), "{output}");
        }
        for path in strings(&wanted["unread"]) {
            let line = format!("{path}: stored, but not used in replies");
            assert!(before.contains(&line) && !after.contains(&line), "{output}");
        }
        let skipped = strings(&wanted["skipped"]).len() + strings(&wanted["unread"]).len();
        assert_eq!(before.lines().count(), skipped, "{output}");
        let agent = t.bo.agent(&name).await;
        let path = format!("/v1/agents/{}/export", text(&agent, "/id"));
        let export = t.bo.get(&path).await.ok();
        let mut files: Vec<&str> = export["files"]
            .as_object()
            .unwrap()
            .keys()
            .map(|key| &**key)
            .collect();
        for (field, file) in [("instructions", "SOUL.md"), ("identity", "IDENTITY.md")] {
            files.extend(export["agent"].get(field).map(|_| file));
        }
        files.sort_unstable();
        assert_eq!(files, strings(&wanted["files"]), "{folder}");
        for (field, value) in wanted["agent"].as_object().unwrap() {
            assert_eq!(&export["agent"][field], value, "{folder}");
        }
    }
}

#[tokio::test]
async fn an_invalid_import_is_reported_and_creates_nothing() {
    let (t, files) = (team().await, Files::new());
    files.write("empty/MEMORY.md", "No soul.");
    files.write("SOUL.md", "You are Vibe too.");
    let names = || async { list(&t.ada.get("/v1/agents").await.ok(), "/data").len() };
    let before = names().await;
    for (arguments, expected) in [
        (
            vec!["--dir", "empty", "--name", "x"],
            "does not contain SOUL.md",
        ),
        (
            vec!["--soul", "nowhere.md", "--name", "x"],
            "cannot read nowhere.md",
        ),
        (vec!["--soul", "SOUL.md", "--name", "vibe"], "is taken"),
        (
            vec!["--soul", "SOUL.md", "--name", "Not A Handle"],
            "a handle must be",
        ),
        (vec!["--soul", "SOUL.md"], "--name"),
    ] {
        let output = import(&t, &files.0, &arguments).await;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && error.contains(expected),
            "{error}"
        );
    }
    let reading = ["agents:read"];
    let arguments = ["import", "--soul", "SOUL.md", "--name", "x"];
    let output = run(&t.bo, &reading, &files.0, &arguments).await;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("agents:write"), "{error}");
    assert_eq!(names().await, before);
}
