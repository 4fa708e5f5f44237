//! Skills of the agent: folders that its processes can read, as the server has them when a process starts.
//!
//! The folders are in a directory of the session that no sandbox can write. `inside` links them into the home directory.

use std::{
    collections::BTreeSet,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    time::Duration,
};

use reqwest::StatusCode;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    failure::Failure,
    frames::is_id,
    git,
    sandbox::FOLDERS,
    shared::{Session, Shared},
};

/// Limits of the server, which are not trusted here.
const SKILLS_MAX: usize = 100;
const FILES_MAX: usize = 64;
const BYTES_MAX: usize = 1 << 20;
const NAME_BYTES_MAX: usize = 64;
const PATH_BYTES_MAX: usize = 256;
/// Maximum size of a response: JSON escapes make texts longer.
const RESPONSE_BYTES_MAX: usize = 8 << 20;
const REQUEST_MAX: Duration = Duration::from_mins(2);
/// File in the session's directory that lists the folders.
pub(crate) const INDEX: &str = "skills.json";

/// Reason why the skills could not be read.
pub(crate) enum SkillsError {
    /// The server is away.
    Away,
    /// The server has refused them, or has sent something invalid.
    Refused(String),
}

impl From<io::Error> for SkillsError {
    fn from(error: io::Error) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<Failure> for SkillsError {
    fn from(failure: Failure) -> Self {
        Self::Refused(failure.message)
    }
}

#[derive(Deserialize)]
struct SkillList {
    skills: Vec<Skill>,
}

/// A version of a skill.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Skill {
    id: String,
    name: String,
    version: i64,
}

impl Skill {
    /// Checks whether the name and the ID can be parts of paths.
    fn is_valid(&self) -> bool {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_name =
            (1..=NAME_BYTES_MAX).contains(&self.name.len()) && self.name.chars().all(fits);
        is_name && is_id(&self.id)
    }
}

#[derive(Deserialize)]
struct Folder {
    version: i64,
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    path: String,
    content: String,
}

impl Folder {
    fn is_valid(&self) -> bool {
        let is_part = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
        let is_path = |path: &str| path.len() <= PATH_BYTES_MAX && path.split('/').all(is_part);
        let bytes: usize = self.files.iter().map(|file| file.content.len()).sum();
        self.files.len() <= FILES_MAX
            && bytes <= BYTES_MAX
            && self.files.iter().all(|file| is_path(&file.path))
    }

    /// Writes the files into a new directory. Scripts can be executed.
    fn write(&self, directory: &Path) -> io::Result<()> {
        std::fs::create_dir(directory)?;
        for file in &self.files {
            let path = directory.join(&file.path);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            let mode = if file.content.starts_with("#!") { 0o755 } else { 0o644 };
            let mut options = std::fs::OpenOptions::new();
            let mut made = options.write(true).create_new(true).mode(mode).open(path)?;
            made.write_all(file.content.as_bytes())?;
        }
        Ok(())
    }
}

/// Brings the folders of a session to the skills that a turn can use now.
pub(crate) async fn update(
    shared: &Shared,
    session: &Session,
    task: &str,
) -> Result<(), SkillsError> {
    let route =
        |part: &str| format!("/v1/runner/sessions/{}/skills{part}?task_id={task}", session.id);
    // A turn that has ended has none.
    let listed: Option<SkillList> = get(shared, &route("")).await?;
    let listed = listed.map(|list| list.skills).unwrap_or_default();
    let names = listed.iter().map(|skill| skill.name.as_str());
    let is_valid =
        names.collect::<BTreeSet<_>>().len() == listed.len() && listed.iter().all(Skill::is_valid);
    if !is_valid || listed.len() > SKILLS_MAX {
        return Err(SkillsError::Refused("the list is not valid".to_owned()));
    }
    let index = session.directory.join(INDEX);
    let known = std::fs::read(&index).ok();
    let known: Option<Vec<Skill>> = known.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    if known.as_ref() == Some(&listed) {
        return Ok(());
    }
    let folders = session.directory.join(FOLDERS);
    let (mut kept, gone): (Vec<Skill>, Vec<Skill>) =
        known.unwrap_or_default().into_iter().partition(|skill| listed.contains(skill));
    if kept.is_empty() {
        // Without an index, anything can be there after an interruption.
        remove(session).await?;
    } else {
        std::fs::remove_file(&index)?;
        for skill in gone.iter().filter(|skill| skill.is_valid()) {
            git::remove(&folders.join(&skill.name)).await?;
        }
    }
    for skill in listed {
        if kept.contains(&skill) {
            continue;
        }
        // A skill that is gone since was removed, or can no longer be used.
        let found: Option<Folder> = get(shared, &route(&format!("/{}", skill.id))).await?;
        let Some(folder) = found else { continue };
        if !folder.is_valid() {
            let cause = format!("the files of {} are not valid", skill.name);
            return Err(SkillsError::Refused(cause));
        }
        folder.write(&folders.join(&skill.name))?;
        kept.push(Skill { version: folder.version, ..skill });
    }
    kept.sort_by(|a, b| a.name.cmp(&b.name));
    std::fs::write(index, serde_json::to_vec(&kept).map_err(io::Error::from)?)?;
    Ok(())
}

/// Removes all folders of a session.
pub(crate) async fn remove(session: &Session) -> Result<(), Failure> {
    git::remove(&session.directory.join(INDEX)).await?;
    let folders = session.directory.join(FOLDERS);
    git::remove(&folders).await?;
    Ok(std::fs::create_dir(folders)?)
}

/// Reads an object from the server; `None` if there is none.
async fn get<T: DeserializeOwned>(shared: &Shared, route: &str) -> Result<Option<T>, SkillsError> {
    let request = shared.client.get(shared.config.route(route)).bearer_auth(&shared.config.key);
    let Ok(mut response) = request.timeout(REQUEST_MAX).send().await else {
        return Err(SkillsError::Away);
    };
    match response.status() {
        status if status.is_success() => {}
        StatusCode::NOT_FOUND => return Ok(None),
        status if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS => {
            return Err(SkillsError::Refused(status.to_string()));
        }
        _ => return Err(SkillsError::Away),
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| SkillsError::Away)? {
        if bytes.len() + chunk.len() > RESPONSE_BYTES_MAX {
            return Err(SkillsError::Refused("the response is too large".to_owned()));
        }
        bytes.extend_from_slice(&chunk);
    }
    let invalid = |_| SkillsError::Refused("the response is not valid".to_owned());
    serde_json::from_slice(&bytes).map(Some).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> Folder {
        let files = files.iter().map(|(path, content)| File {
            path: (*path).to_owned(),
            content: (*content).to_owned(),
        });
        Folder { version: 1, files: files.collect() }
    }

    #[test]
    fn names_and_paths_of_a_hostile_server_stay_in_the_directory() {
        for name in ["", "..", "a/b", "A", "a.b", &"a".repeat(65)] {
            let skill = Skill { id: "skill_1".to_owned(), name: name.to_owned(), version: 1 };
            assert!(!skill.is_valid(), "{name}");
        }
        for path in ["", "/a", "../a", "a/../b", "a//b", "./a", "a/", "a\0", &"a".repeat(257)] {
            assert!(!folder(&[(path, "")]).is_valid(), "{path}");
        }
        assert!(folder(&[("SKILL.md", ""), ("scripts/é.sh", "")]).is_valid());
        let large = "a".repeat(BYTES_MAX + 1);
        assert!(!folder(&[("a", large.as_str())]).is_valid());
        assert!(!folder(&[("a", ""); FILES_MAX + 1]).is_valid());
    }

    #[test]
    fn scripts_can_be_executed_and_files_are_not_overwritten() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let made = directory.path().join("tides");
        folder(&[("SKILL.md", "Text"), ("scripts/a.sh", "#!/bin/sh\n")]).write(&made).unwrap();
        let mode = |path: &str| std::fs::metadata(made.join(path)).unwrap().permissions().mode();
        assert_eq!((mode("SKILL.md") & 0o100, mode("scripts/a.sh") & 0o100), (0, 0o100));
        assert!(folder(&[]).write(&made).is_err());
        let twice = directory.path().join("twice");
        assert!(folder(&[("a", "1"), ("a", "2")]).write(&twice).is_err());
    }
}
