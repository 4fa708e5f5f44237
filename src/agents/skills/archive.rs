//! Skills in zip files: one folder, whose name is that of the skill.

use std::io::{Cursor, Read};

use tokio::sync::Semaphore;
use zip::ZipArchive;

use super::files::{BYTES_MAX, FILES_MAX, SkillFileForm, SkillText, bad_file, utf8};
use crate::{agents::AgentError, blocking::blocking};

/// Maximum number of files and folders of an archive.
const ENTRIES_MAX: usize = 512;
/// Maximum number of archives that are unpacked at the same time.
static UNPACKING: Semaphore = Semaphore::const_new(2);
/// Bits of a Unix mode that contain the kind of a file, and the kinds that an archive may contain.
const KIND: u32 = 0o170_000;
const FILE: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;

fn bad(rule: impl Into<String>) -> AgentError {
    AgentError::BadSkill(rule.into())
}

/// Unpacks a zip file on a thread that may block.
///
/// # Errors
/// `BadSkill`.
pub async fn unpack(archive: impl AsRef<[u8]> + Send + 'static) -> Result<SkillText, AgentError> {
    let permit = UNPACKING.acquire().await;
    let unpacked = blocking(permit, move || read(archive.as_ref())).await;
    unpacked.unwrap_or_else(|_| Err(bad("the archive could not be unpacked")))
}

/// Files that Apple's archiver adds.
fn is_clutter(name: &str) -> bool {
    name.starts_with("__MACOSX/") || name.rsplit('/').next() == Some(".DS_Store")
}

fn read(archive: &[u8]) -> Result<SkillText, AgentError> {
    let mut zip = ZipArchive::new(Cursor::new(archive))
        .map_err(|e| bad(format!("this is not a zip file: {e}")))?;
    if zip.len() > ENTRIES_MAX {
        return Err(bad(format!(
            "the archive has more than {ENTRIES_MAX} entries"
        )));
    }
    if zip.has_duplicate_names() {
        return Err(bad("the archive has two entries with the same name"));
    }
    let mut root: Option<String> = None;
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    let mut left = BYTES_MAX;
    for index in 0..zip.len() {
        let entry = zip
            .by_index(index)
            .map_err(|e| bad(format!("entry {} cannot be read: {e}", index + 1)))?;
        let name = String::from_utf8(entry.name_raw().to_vec())
            .map_err(|_| bad(format!("the name of entry {} is not UTF-8", index + 1)))?;
        if is_clutter(&name) {
            continue;
        }
        let kind = entry.unix_mode().unwrap_or_default() & KIND;
        if entry.encrypted() || entry.is_symlink() || ![0, FILE, FOLDER].contains(&kind) {
            return Err(bad_file(
                &name,
                "links, devices, and encrypted files are not allowed",
            ));
        }
        let Some((folder, path)) = name.split_once('/') else {
            return Err(bad_file(&name, "all files must be in one folder"));
        };
        if root.get_or_insert_with(|| folder.to_owned()) != folder {
            return Err(bad_file(&name, "all files must be in one folder"));
        }
        if let Some(folder) = path.strip_suffix('/') {
            folders.push(folder.to_owned());
            continue;
        }
        if path.is_empty() {
            continue;
        }
        if kind == FOLDER {
            return Err(bad_file(&name, "the name of a folder must end with `/`"));
        }
        if files.len() == FILES_MAX {
            return Err(bad(format!("a skill can have at most {FILES_MAX} files")));
        }
        // The sizes in the archive may be wrong.
        let mut bytes = Vec::new();
        let most = u64::try_from(left + 1).unwrap_or(u64::MAX);
        entry
            .take(most)
            .read_to_end(&mut bytes)
            .map_err(|e| bad_file(&name, &format!("the file cannot be unpacked: {e}")))?;
        left = left
            .checked_sub(bytes.len())
            .ok_or_else(|| bad("the files have more than 1 MiB together"))?;
        files.push(SkillFileForm {
            content: utf8(path, bytes)?,
            path: path.to_owned(),
        });
    }
    let text = SkillText::with_folders(files, &folders)?;
    match root {
        Some(root) if root == text.name => Ok(text),
        root => Err(bad(format!(
            "the folder `{}` must have the name of the skill, `{}`",
            root.unwrap_or_default()
                .chars()
                .take(64)
                .collect::<String>(),
            text.name
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use zip::{ZipWriter, write::SimpleFileOptions};

    use super::*;

    const MAIN: &str = "---\nname: tides\ndescription: Reads the tide table.\n---\nSteps.\n";

    fn packed(build: impl FnOnce(&mut ZipWriter<Cursor<Vec<u8>>>)) -> Vec<u8> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        build(&mut zip);
        zip.finish().unwrap().into_inner()
    }

    fn add(zip: &mut ZipWriter<Cursor<Vec<u8>>>, name: &str, content: &[u8]) {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
    }

    fn with(others: &[(&str, &[u8])]) -> Vec<u8> {
        packed(|zip| {
            add(zip, "tides/SKILL.md", MAIN.as_bytes());
            for (name, content) in others {
                add(zip, name, content);
            }
        })
    }

    fn fault(archive: &[u8]) -> String {
        match read(archive) {
            Err(AgentError::BadSkill(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_folder_becomes_a_skill() {
        let archive = packed(|zip| {
            let folder = SimpleFileOptions::default();
            zip.add_directory("tides/", folder).unwrap();
            zip.add_directory("tides/scripts/", folder).unwrap();
            add(zip, "tides/SKILL.md", MAIN.as_bytes());
            add(zip, "tides/scripts/é.sh", "echo ü".as_bytes());
            add(zip, "__MACOSX/tides/._SKILL.md", b"\xff");
            add(zip, "tides/.DS_Store", b"\xff");
        });
        let text = read(&archive).unwrap();
        let paths: Vec<&str> = text.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["SKILL.md", "scripts/é.sh"]);
        assert_eq!(text.name, "tides");
    }

    #[test]
    fn hostile_archives_are_rejected() {
        for (name, part) in [
            ("tides/../x", ".."),
            ("/x", "folder"),
            ("x", "folder"),
            ("other/x", "folder"),
            ("tides/SKILL.md/x", "folder"),
            ("tides/skill.md", "case"),
            ("tides/a//b", "path"),
            ("tides/a\\b", "path"),
        ] {
            let text = fault(&with(&[(name, b"x")]));
            assert!(text.contains(part), "{name}: {text}");
        }
        let binary = fault(&with(&[("tides/a.bin", b"1\n\xff")]));
        assert!(binary.starts_with("a.bin, line 2"), "{binary}");
        let link = packed(|zip| {
            add(zip, "tides/SKILL.md", MAIN.as_bytes());
            let options = SimpleFileOptions::default();
            zip.add_symlink("tides/link", "/etc/passwd", options)
                .unwrap();
        });
        assert!(fault(&link).contains("links"));
        fault(b"no zip");
        let renamed = packed(|zip| add(zip, "moon/SKILL.md", MAIN.as_bytes()));
        assert!(fault(&renamed).contains("`moon`"));
    }

    #[test]
    fn a_file_and_an_empty_folder_of_the_same_name_are_rejected() {
        let archive = packed(|zip| {
            add(zip, "tides/SKILL.md", MAIN.as_bytes());
            add(zip, "tides/a", b"x");
            let folder = SimpleFileOptions::default();
            zip.add_directory("tides/A/", folder).unwrap();
        });
        assert!(fault(&archive).contains("folder"));
    }

    #[test]
    fn sizes_are_counted_while_unpacking() {
        let zeros = vec![b'0'; 64 << 20];
        let mut bomb = with(&[("tides/a.txt", &zeros)]);
        assert!(fault(&bomb).contains("1 MiB"));
        // The size that the archive states is 1 byte.
        let size = u32::try_from(zeros.len()).unwrap().to_le_bytes();
        let at: Vec<usize> = memchr::memmem::find_iter(&bomb, &size).collect();
        assert!(!at.is_empty());
        for at in at {
            bomb[at..at + 4].copy_from_slice(&1_u32.to_le_bytes());
        }
        fault(&bomb);
        let many: Vec<(String, &[u8])> = (0..FILES_MAX)
            .map(|n| (format!("tides/{n}.txt"), b"x".as_slice()))
            .collect();
        let many: Vec<(&str, &[u8])> = many.iter().map(|(n, c)| (n.as_str(), *c)).collect();
        assert!(fault(&with(&many)).contains("64 files"));
    }
}
